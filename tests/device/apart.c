/* SPDX-License-Identifier: Apache-2.0 */
/* Device code whose puts take path gda and whose atomics do not, because the NICs have none
 * (SOFT_HCA_ATOMICS=none). PE 0 writes to PE 1: data, a fence and an atomic; an atomic, a fence and
 * a value; data with a signal that is added to. The later operation is never seen before the
 * earlier one. */
#include "device_test.h"

enum { WORDS = 32 << 10, ROUNDS = 100 };

struct words {
    uint64_t counter, pad1[7], flag, pad2[7], signal, pad3[7], seen, pad4[7], violations;
};

WEFT_DEVICE void await(const uint64_t *word, uint64_t value)
{
    if (weft_dev_thread_rank() == 0)
        while (weft_dev_load_u64(word, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) < value &&
               !weft_dev_job_failed(0))
            weft_dev_nanosleep(200);
    weft_dev_sync_block();
}

WEFT_DEVICE void fill(uint64_t *mine, uint64_t value)
{
    for (unsigned i = weft_dev_thread_rank(); i < WORDS; i += weft_dev_block_threads())
        mine[i] = value;
    weft_dev_sync_block();
}

WEFT_DEVICE void expect(const uint64_t *data, uint64_t value, struct words *w)
{
    uint64_t wrong = 0;
    for (unsigned i = weft_dev_thread_rank(); i < WORDS; i += weft_dev_block_threads())
        wrong += data[i] != value;
    weft_dev_atomic_add_u64(&w->violations, wrong, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    weft_dev_sync_block();
}

WEFT_DEVICE void report(struct words *w, uint64_t step)
{
    if (weft_dev_thread_rank() == 0)
        weft_thread_p64(&w->seen, step, 0);
    weft_dev_sync_block();
}

WEFT_DEVICE void write_round(uint64_t *data, uint64_t *mine, struct words *w, uint64_t round)
{
    fill(mine, 2 * round);
    weft_block_put_nbi(data, mine, WORDS * sizeof *mine, 1);
    weft_block_fence();
    if (weft_dev_thread_rank() == 0)
        weft_thread_atomic_add64(&w->counter, 1, 1);
    await(&w->seen, 3 * round);
    if (weft_dev_thread_rank() == 0)
        weft_thread_atomic_add64(&w->counter, 1, 1);
    weft_block_fence();
    if (weft_dev_thread_rank() == 0)
        weft_thread_p64(&w->flag, round, 1);
    await(&w->seen, 3 * round + 1);
    fill(mine, 2 * round + 1);
    weft_block_put_signal_nbi(data, mine, WORDS * sizeof *mine, &w->signal, 1, WEFT_SIGNAL_ADD, 1);
    await(&w->seen, 3 * round + 2);
}

WEFT_DEVICE void read_round(const uint64_t *data, struct words *w, uint64_t round)
{
    await(&w->counter, 2 * round - 1);
    expect(data, 2 * round, w);
    report(w, 3 * round);
    await(&w->flag, round);
    if (weft_dev_thread_rank() == 0)
        w->violations +=
            weft_dev_load_u64(&w->counter, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS) < 2 * round;
    report(w, 3 * round + 1);
    await(&w->signal, round);
    expect(data, 2 * round + 1, w);
    report(w, 3 * round + 2);
}

WEFT_KERNEL(write_and_read, (uint64_t *, data), (uint64_t *, mine), (struct words *, w))
{
    for (uint64_t round = 1; round <= ROUNDS; round++)
        if (weft_dev_my_pe())
            read_round(data, w, round);
        else
            write_round(data, mine, w, round);
    weft_block_quiet();
}

#if WEFT_HOST_CODE
int main(void)
{
    device_begin();
    uint64_t *data = symmetric(WORDS * sizeof *data), *mine = symmetric(WORDS * sizeof *mine);
    struct words *w = symmetric(sizeof *w), seen;
    barrier();
    LAUNCH(write_and_read, 1, 32, 0, NULL, data, mine, w);
    fetch(&seen, w, sizeof seen);
    if (seen.violations)
        fprintf(stderr, "PE %d: %llu words or counts came too late\n", me,
                (unsigned long long)seen.violations);
    CHECK(!seen.violations && (!me || (seen.counter == 2 * ROUNDS && seen.signal == ROUNDS)));
    for (int pe = 0; pe < n_pes; pe++) { /* no NIC has refused an atomic */
        weft_path_info info = {.size = sizeof info};
        OK(weft_path_query(job, pe, &info));
        CHECK(pe == me || strcmp(info.name, "gda") == 0);
        CHECK(!strstr(info.reason, "failed queues"));
    }
    device_end();
    return 0;
}
#endif

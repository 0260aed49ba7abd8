/* SPDX-License-Identifier: Apache-2.0 */
/* What a completion of the NIC guarantees over path gda, with an adapter that uses all its freedom
 * to reorder (SOFT_HCA_MODE=adversarial, SOFT_HCA_APART=1; findings A4, A5):
 *   gda_order quiet [removed]  data by put and quiet, then a flag in memory that both processes
 *                              map, which bypasses the NIC
 *   gda_order get [removed]    data by get, read at once, and by get_nbi and quiet
 *   gda_order signal           data by put_signal in one block's queue, set and added to
 *   gda_order host             as quiet, from the host
 *   gda_order fence            data, a fence, and more data whose last word is polled
 *   gda_order reuse            data by a blocking put whose source is overwritten at once
 * Any violation fails the test. `removed`: without the flush (for `get`: WEFT_TEST_GDA without
 * `apart`) violations must be seen. */
#include "device_test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORDS = 480, ROUNDS = 60 };
enum { QUIET, GET, SIGNAL, HOST, FENCE, REUSE };

/* In memory that both processes map. */
struct shared {
    uint64_t said, pad1[7], seen, pad2[7];
};

WEFT_DEVICE uint64_t word_of(uint64_t round, unsigned i)
{
    return round << 32 | (i * 5 + 1);
}

WEFT_DEVICE void fill(uint64_t *mine, uint64_t round)
{
    for (unsigned i = weft_dev_thread_rank(); i < WORDS; i += weft_dev_block_threads())
        mine[i] = word_of(round, i);
    weft_dev_sync_block();
}

WEFT_DEVICE uint64_t wrong_words(const uint64_t *data, uint64_t round)
{
    uint64_t wrong = 0;
    for (unsigned i = weft_dev_thread_rank(); i < WORDS; i += weft_dev_block_threads())
        wrong += data[i] != word_of(round, i);
    return wrong;
}

WEFT_DEVICE void await(const uint64_t *flag, uint64_t value)
{
    if (weft_dev_thread_rank() == 0)
        while (weft_dev_load_u64(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) < value &&
               !weft_dev_job_failed(0))
            weft_dev_nanosleep(200);
    weft_dev_sync_block();
}

WEFT_DEVICE void say(uint64_t *flag, uint64_t value)
{
    weft_dev_sync_block();
    if (weft_dev_thread_rank() == 0)
        weft_dev_store_u64(flag, value, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
}

/* Quiet without its flush: waits only for the completions. */
WEFT_DEVICE void complete_only(int pe)
{
    struct weft_dev_gda_operation op = weft_dev_gda_operation_of(WEFT_DEV_OP_QUIET, NULL, pe);
    struct weft_dev_gda_queue *q = weft_dev_gda_own_queue(pe, 0);
    if (weft_dev_thread_rank() == 0)
        weft_dev_gda_await(q, op, weft_dev_gda_head(q));
    weft_dev_sync_block();
}

WEFT_KERNEL(pass, (int, which), (int, removed), (uint64_t *, data), (uint64_t *, mine),
            (uint64_t *, signal), (struct shared *, shared), (uint64_t *, violations))
{
    int first = weft_dev_my_pe() == 0;
    uint64_t wrong = 0, sum = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (first) {
            fill(mine, round);
            if (which == SIGNAL) {
                uint64_t step = round % 2 ? round : 1;
                weft_block_put_signal_nbi(data, mine, WORDS * 8, signal, step,
                                          round % 2 ? WEFT_SIGNAL_SET : WEFT_SIGNAL_ADD, 1);
            } else if (which == FENCE) {
                weft_block_put_nbi(data, mine, WORDS * 8, 1);
                weft_block_fence();
                weft_block_put_nbi(data + WORDS, mine, WORDS * 8, 1);
            } else {
                if (which == REUSE) {
                    weft_block_put(data, mine, WORDS * 8, 1);
                    fill(mine, 0);
                } else {
                    weft_block_put_nbi(data, mine, WORDS * 8, 1);
                }
                if (removed)
                    complete_only(1);
                else
                    weft_block_quiet();
                say(&shared->said, round);
            }
            await(&shared->seen, round);
            if (which != QUIET)
                weft_block_quiet();
        } else {
            if (which == SIGNAL)
                weft_block_signal_wait(signal, WEFT_EQ, round);
            else if (which == FENCE)
                await(data + 2 * WORDS - 1, word_of(round, WORDS - 1));
            else
                await(&shared->said, round);
            wrong += wrong_words(data, round);
            say(&shared->seen, round);
        }
        sum = round;
    }
    weft_dev_atomic_add_u64(violations, wrong, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    (void)sum;
}

WEFT_KERNEL(fetch_and_look, (uint64_t *, data), (uint64_t *, mine), (uint64_t *, violations))
{
    int other = 1 - weft_dev_my_pe();
    uint64_t wrong = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        fill(data, round * 2 + (uint64_t)weft_dev_my_pe());
        weft_block_barrier(WEFT_DEV_WORLD);
        for (unsigned i = weft_dev_thread_rank(); i < WORDS; i += weft_dev_block_threads())
            mine[i] = 0;
        weft_dev_sync_block();
        if (round % 2) {
            weft_block_get(mine, data, WORDS * 8, other);
        } else {
            weft_block_get_nbi(mine, data, WORDS * 8, other);
            weft_block_quiet();
        }
        wrong += wrong_words(mine, round * 2 + (uint64_t)other);
        weft_block_barrier(WEFT_DEV_WORLD);
    }
    weft_dev_atomic_add_u64(violations, wrong, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

#if WEFT_HOST_CODE
/* PE 0 creates a page of an unnamed file, and PE 1 opens it by its descriptor. */
static struct shared *map_shared(void)
{
    uint64_t *place = symmetric(2 * sizeof *place), name[2];
    char path[64];
    int fd = -1;
    if (me == 0) {
        fd = memfd_create("gda_order", 0);
        CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
        name[0] = (uint64_t)getpid();
        name[1] = (uint64_t)fd;
        store(place, name, sizeof name);
    }
    barrier();
    if (me != 0) {
        OK(weft_get(ctx, name, place, sizeof name, 0));
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)name[0], (int)name[1]);
        fd = open(path, O_RDWR);
    }
    void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && at != MAP_FAILED);
    barrier();
    return at;
}

/* Puts of the host; returns the number of wrong words. */
static uint64_t pass_by_host(uint64_t *data, uint64_t *mine, struct shared *shared)
{
    uint64_t wrong = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (me == 0) {
            for (unsigned i = 0; i < WORDS; i++)
                mine[i] = word_of(round, i);
            OK(weft_put_nbi(ctx, data, mine, WORDS * 8, 1));
            OK(weft_quiet(ctx));
            __atomic_store_n(&shared->said, round, __ATOMIC_RELEASE);
            while (__atomic_load_n(&shared->seen, __ATOMIC_ACQUIRE) < round)
                usleep(20);
        } else {
            while (__atomic_load_n(&shared->said, __ATOMIC_ACQUIRE) < round)
                usleep(20);
            for (unsigned i = 0; i < WORDS; i++)
                wrong += data[i] != word_of(round, i);
            __atomic_store_n(&shared->seen, round, __ATOMIC_RELEASE);
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    static const char *const names[] = {"quiet", "get", "signal", "host", "fence", "reuse"};
    int which = QUIET;
    while (which < REUSE && strcmp(argv[1], names[which]) != 0)
        which++;
    int removed = argc > 2 && strcmp(argv[2], "removed") == 0;
    device_begin();
    uint64_t *data = symmetric(2 * WORDS * 8), *mine = symmetric(WORDS * 8), *signal = symmetric(8);
    uint64_t *violations = symmetric(8), *all = symmetric(8), seen;
    struct shared *shared = map_shared();
    barrier();
    if (which == GET)
        LAUNCH(fetch_and_look, 1, 32, 0, NULL, data, mine, violations);
    else if (which != HOST)
        LAUNCH(pass, 1, 32, 0, NULL, which, removed, data, mine, signal, shared, violations);
    fetch(&seen, violations, sizeof seen);
    if (which == HOST)
        seen = pass_by_host(data, mine, shared);
    OK(weft_atomic_add64(ctx, all, seen, 0));
    OK(weft_quiet(ctx));
    barrier();
    OK(weft_get(ctx, &seen, all, sizeof seen, 0));
    if (me == 0)
        fprintf(stderr, "%s%s: %llu wrong words\n", argv[1], removed ? " removed" : "",
                (unsigned long long)seen);
    device_end();
    CHECK((seen != 0) == removed);
    return 0;
}
#endif

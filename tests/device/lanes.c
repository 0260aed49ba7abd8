/* SPDX-License-Identifier: Apache-2.0 */
/* All lanes of a warp issue the same operation of scope thread at once, more of them than a ring
 * has slots or a queue has blocks. Lanes that are not independent must not wait for each other
 * then: the lane that has got space acts before another one waits. */
#include "device_test.h"

enum { THREADS = 128, BYTES = 200, PART = 256, ROUNDS = 3 };

struct counts {
    uint64_t even, odd, swapped[THREADS], signal[THREADS];
};

WEFT_DEV_BOTH uint8_t lane_pattern(int pe, unsigned thread, unsigned round, unsigned i)
{
    return (uint8_t)((unsigned)pe * 71 + thread * 13 + round * 5 + i * 3 + 1);
}

/* Memory that no NIC has registered: a put from it takes several blocks of a queue, a get into it
 * more. */
WEFT_GLOBAL uint8_t from[THREADS][BYTES], into[THREADS][BYTES];

/* dst[pe][thread]: what that PE's thread puts here; src[thread]: what others get. */
WEFT_KERNEL(work, (uint8_t *, dst), (const uint8_t *, src), (struct counts *, counts),
            (uint64_t *, wrong))
{
    unsigned me = weft_dev_thread_rank();
    int my_pe = weft_dev_my_pe(), n = weft_dev_n_pes();
    int pe = (my_pe + 1 + (int)me % 2) % n; /* the lanes of a warp use different PEs */
    uint8_t *own = from[me], *got = into[me];
    uint64_t faults = 0;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        for (unsigned i = 0; i < BYTES; i++)
            own[i] = lane_pattern(my_pe, me, round, i);
        uint8_t *to = dst + ((unsigned)my_pe * THREADS + me) * PART;
        weft_thread_put(to, own, BYTES, pe);
        weft_thread_get(got, src + me * PART, BYTES, pe);
        for (unsigned i = 0; i < BYTES; i++)
            faults += got[i] != lane_pattern(pe, me, 0, i);
        if (me % 4 < 2) {
            weft_thread_atomic_add64(&counts->even, 3, pe);
        } else {
            uint64_t before = weft_thread_atomic_fetch_add64(&counts->odd, 5, pe);
            faults += before % 5;
        }
        faults += weft_thread_atomic_swap64(&counts->swapped[me], round, pe) != round - 1;
        weft_thread_fence();
        weft_thread_put_signal(to, own, BYTES, &counts->signal[me], 7, WEFT_SIGNAL_ADD, pe);
        weft_thread_quiet();
        faults += weft_thread_signal_wait(&counts->signal[me], WEFT_GE, 7 * round) != WEFT_OK;
        weft_block_sync(WEFT_DEV_WORLD);
    }
    wrong[me] = faults;
}

#if WEFT_HOST_CODE

static void check_counts(const struct counts *counts)
{
    uint64_t even = 0, odd = 0;
    for (int from = 0; from < n_pes; from++)
        for (unsigned t = 0; t < THREADS; t++)
            if ((from + 1 + (int)t % 2) % n_pes == me) {
                even += t % 4 < 2 ? 3 * ROUNDS : 0;
                odd += t % 4 < 2 ? 0 : 5 * ROUNDS;
            }
    CHECK(counts->even == even);
    CHECK(counts->odd == odd);
    for (unsigned t = 0; t < THREADS; t++) {
        CHECK(counts->swapped[t] == ROUNDS);
        CHECK(counts->signal[t] == 7 * ROUNDS);
    }
}

int main(void)
{
    static uint8_t bytes[THREADS * PART];
    static struct counts seen;
    uint64_t faults[THREADS];
    device_begin();
    uint8_t *dst = symmetric((size_t)n_pes * sizeof bytes), *src = symmetric(sizeof bytes);
    struct counts *counts = symmetric(sizeof *counts);
    uint64_t *wrong = symmetric(sizeof faults);
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < BYTES; i++)
            bytes[t * PART + i] = lane_pattern(me, t, 0, i);
    store(src, bytes, sizeof bytes);
    barrier();
    LAUNCH(work, 1, THREADS, 0, NULL, dst, src, counts, wrong);
    fetch(faults, wrong, sizeof faults);
    for (unsigned t = 0; t < THREADS; t++)
        CHECK(faults[t] == 0);
    barrier();
    fetch(&seen, counts, sizeof seen);
    check_counts(&seen);
    for (int from = 0; from < n_pes; from++) {
        fetch(bytes, dst + (size_t)from * sizeof bytes, sizeof bytes);
        for (unsigned t = 0; t < THREADS; t++)
            for (unsigned i = 0; i < BYTES; i++) {
                int mine = (from + 1 + (int)t % 2) % n_pes == me;
                CHECK(bytes[t * PART + i] == (mine ? lane_pattern(from, t, ROUNDS, i) : 0));
            }
    }
    barrier();
    device_end();
    return 0;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* put_signal, its nbi form, signal, signal_fetch and signal_wait in every scope: a ring in which
 * every PE receives, checks the payload as soon as the signal arrives, and sends to the next. The
 * signal is beside the data, or in the host heap, which on a GPU is other memory. */
#include "device_test.h"

enum { MOST = 3000, ROUNDS = 6 };

struct post {
    uint64_t beside, credit, pad[6];
    unsigned char data[MOST];
};

WEFT_DEVICE unsigned char pattern(uint64_t round, size_t i)
{
    return (unsigned char)(round * 31 + i * 3 + 1);
}

/* Fills, sends, waits, checks. The sender reuses the buffer when the receiver has sent its
 * credit. */
#define RING_IN(scope, constant)                                                                   \
    do {                                                                                           \
        unsigned rank = weft_dev_scope_rank(constant), n = weft_dev_scope_threads(constant);       \
        int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();                                      \
        int last = (weft_dev_my_pe() + weft_dev_n_pes() - 1) % weft_dev_n_pes();                   \
        for (uint64_t round = 1; round <= ROUNDS; round++) {                                       \
            if (nbi) /* the source of the previous round is free */                                \
                weft_##scope##_quiet();                                                            \
            for (size_t i = rank; i < bytes; i += n)                                               \
                mine[i] = pattern(round, i);                                                       \
            weft_dev_scope_sync(constant);                                                         \
            if (weft_##scope##_signal_wait(&post->credit, WEFT_GE, round - 1))                     \
                return;                                                                            \
            if (nbi)                                                                               \
                weft_##scope##_put_signal_nbi(post->data, mine, bytes, signal, add ? 1 : round,    \
                                              add ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET, next);      \
            else                                                                                   \
                weft_##scope##_put_signal(post->data, mine, bytes, signal, add ? 1 : round,        \
                                          add ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET, next);          \
            if (weft_##scope##_signal_wait(signal, WEFT_GE, round))                                \
                return;                                                                            \
            for (size_t i = rank; i < bytes; i += n)                                               \
                if (post->data[i] != pattern(round, i))                                            \
                    weft_dev_atomic_add_u64(faults, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);        \
            if (weft_thread_signal_fetch(signal) < round)                                          \
                weft_dev_atomic_add_u64(faults, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);            \
            weft_dev_scope_sync(constant);                                                         \
            if (rank == 0) {                                                                       \
                weft_thread_fence();                                                               \
                weft_thread_signal(&post->credit, add ? 1 : round,                                 \
                                   add ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET, last);                 \
                weft_dev_atomic_add_u64(faults + 1, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);        \
            }                                                                                      \
        }                                                                                          \
    } while (0)

WEFT_KERNEL(ring, (int, scope), (int, add), (int, nbi), (struct post *, post), (uint64_t *, signal),
            (unsigned char *, mine), (size_t, bytes), (uint64_t *, faults))
{
    if (scope == WEFT_DEV_BLOCK)
        RING_IN(block, WEFT_DEV_BLOCK);
    else if (scope == WEFT_DEV_WARP && weft_dev_warp() == 1)
        RING_IN(warp, WEFT_DEV_WARP);
    else if (scope == WEFT_DEV_THREAD && weft_dev_thread_rank() == 40)
        RING_IN(thread, WEFT_DEV_THREAD);
}

#if WEFT_HOST_CODE
int main(void)
{
    static const size_t sizes[] = {0, 8, 100, 1024, MOST};
    device_begin();
    struct post *post = symmetric(sizeof *post);
    unsigned char *mine = symmetric(MOST);
    uint64_t *faults = symmetric(2 * sizeof *faults), *other, seen[2];
    OK(weft_alloc(job, WEFT_HOST, sizeof *other, 0, 0, (void **)&other));
    for (int how = 0; how < 24; how++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const int apart = how >= 12;
            *other = 0;
            struct post none = {0};
            uint64_t zero[2] = {0, 0};
            store(post, &none, sizeof none);
            store(faults, zero, sizeof zero);
            barrier();
            LAUNCH(ring, 1, 96, 0, NULL, how % 3, how / 3 % 2, how / 6 % 2, post,
                   apart ? other : &post->beside, mine, sizes[s], faults);
            barrier();
            fetch(seen, faults, sizeof seen);
            CHECK(seen[0] == 0 && seen[1] == ROUNDS);
        }
    device_end();
    return 0;
}
#endif

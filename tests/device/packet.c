/* SPDX-License-Identifier: Apache-2.0 */
/* Packets in every scope, of sizes around their unit, with any alignment of both sides, around a
 * ring with two buffers that are used in turn and never cleared. */
#include "device_test.h"

enum { MOST = 2500, ROUNDS = 9 };

WEFT_DEVICE unsigned char pattern(uint32_t number, size_t i)
{
    return (unsigned char)(number * 29 + i * 5 + 3);
}

/* Each PE sends to the next one and takes from the previous one. A received packet does not show
 * that the next PE has taken its own, so that PE sets a flag (`credit`) when a buffer is free. */
#define RING_IN(scope, constant)                                                                   \
    do {                                                                                           \
        unsigned rank = weft_dev_scope_rank(constant), n = weft_dev_scope_threads(constant);       \
        int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();                                      \
        int last = (weft_dev_my_pe() + weft_dev_n_pes() - 1) % weft_dev_n_pes();                   \
        for (uint32_t k = first; k < first + ROUNDS; k++) {                                        \
            char *buffer = buffers + k % 2 * weft_packet_bytes(MOST);                              \
            for (size_t i = rank; i < bytes; i += n)                                               \
                mine[i] = pattern(k, i);                                                           \
            weft_dev_scope_sync(constant);                                                         \
            if (k > 2 && weft_##scope##_wait_until(WEFT_UINT32, credit, WEFT_GE, k - 2))           \
                return;                                                                            \
            weft_##scope##_put_packet(buffer, mine, bytes, k, next);                               \
            if (weft_##scope##_take_packet(got, buffer, bytes, k))                                 \
                return;                                                                            \
            for (size_t i = rank; i < bytes + 1; i += n)                                           \
                if (got[i] != (i < bytes ? pattern(k, i) : 0xee))                                  \
                    weft_dev_atomic_add_u64(faults, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);        \
            weft_dev_scope_sync(constant);                                                         \
            if (rank == 0) {                                                                       \
                weft_thread_fence();                                                               \
                weft_thread_p32(credit, k, last);                                                  \
                weft_dev_atomic_add_u64(faults + 1, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);        \
            }                                                                                      \
        }                                                                                          \
    } while (0)

WEFT_KERNEL(ring, (int, scope), (char *, buffers), (unsigned char *, mine), (unsigned char *, got),
            (size_t, bytes), (uint32_t, first), (uint32_t *, credit), (uint64_t *, faults))
{
    if (scope == WEFT_DEV_BLOCK)
        RING_IN(block, WEFT_DEV_BLOCK);
    else if (scope == WEFT_DEV_WARP && weft_dev_warp() == 0)
        RING_IN(warp, WEFT_DEV_WARP);
    else if (scope == WEFT_DEV_THREAD && weft_dev_thread_rank() == 0)
        RING_IN(thread, WEFT_DEV_THREAD);
}

WEFT_KERNEL(values, (char *, buffer), (int, next), (uint32_t, number), (uint64_t *, got))
{
    int status = 0;
    uint64_t value;
    weft_thread_put_packet64(buffer, 0x123456789abcdef0ull + (uint64_t)weft_dev_my_pe(), number,
                             next);
    status = weft_thread_take_packet64(buffer, number, &value);
    got[0] = status ? 0 : value;
}

#if WEFT_HOST_CODE
int main(void)
{
    static const size_t sizes[] = {1, 4, 7, 8, 9, 16, 61, 128, 1024, MOST};
    device_begin();
    char *buffers = symmetric(2 * weft_packet_bytes(MOST));
    unsigned char *mine = symmetric(MOST + 16), *got = symmetric(MOST + 17);
    uint32_t *credit = symmetric(sizeof *credit), first = 1;
    uint64_t *faults = symmetric(2 * sizeof *faults), seen[2], zero[2] = {0, 0};
    static unsigned char guard[MOST + 17];
    memset(guard, 0xee, sizeof guard);
    CHECK(weft_packet_bytes(1) == 16 && weft_packet_bytes(8) == 16 && weft_packet_bytes(9) == 32);
    for (int scope = 0; scope < 3; scope++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t odd = s * 5 % 16;
            store(faults, zero, sizeof zero);
            store(got, guard, sizeof guard);
            barrier();
            LAUNCH(ring, 1, 64, 0, NULL, scope, buffers, mine + odd, got + s % 3, sizes[s], first,
                   credit, faults);
            barrier();
            fetch(seen, faults, sizeof seen);
            CHECK(seen[0] == 0 && seen[1] == ROUNDS);
            first += ROUNDS;
        }
    LAUNCH(values, 1, 1, 0, NULL, buffers, (me + 1) % n_pes, first + 5, faults);
    fetch(seen, faults, sizeof seen);
    CHECK(seen[0] == 0x123456789abcdef0ull + (uint64_t)((me + n_pes - 1) % n_pes));
    barrier();
    device_end();
    return 0;
}
#endif

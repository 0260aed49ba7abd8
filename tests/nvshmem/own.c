/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM operations on this PE with memory that is not symmetric, as in solvers that run the same
 * kernel with a peer and with themselves: host and device, every type of p, g, put and get. The
 * address of a peer must still be symmetric (tests/device/errors.c). */
#include "values.h"

enum { N = 37, THREADS = 64, EDGE = 0x5a, ROOM = (N + 4) * 16 };

static char *room; /* ordinary memory of this process, in no segment */

static int edges_stand(const char *at, size_t bytes)
{
    for (size_t i = 0; i < ROOM; i++)
        if ((at + i < room + 16 || at + i >= room + 16 + bytes) && room[i] != EDGE)
            return 0;
    return 1;
}

static void expect(const char *what, const void *at, size_t unit, size_t n, size_t first)
{
    char wanted[16];
    for (size_t i = 0; i < n; i++) {
        fill(wanted, unit, me, first + i);
        CHECK(!memcmp((const char *)at + i * unit, wanted, unit), "%s, element %zu", what, i);
    }
}

#define OWN(name, T)                                                                               \
    WEFT_KERNEL(own_##name, (T *, at), (const T *, from), (T *, back), (int, pe))                  \
    {                                                                                              \
        nvshmemx_##name##_put_block(at, from, N, pe);                                              \
        if (weft_dev_thread_rank() == 3)                                                           \
            nvshmem_##name##_p(at + N, from[N], pe);                                               \
        weft_dev_sync_block();                                                                     \
        if (weft_dev_warp() == 1)                                                                  \
            nvshmemx_##name##_get_warp(back, at, N, pe);                                           \
        if (weft_dev_thread_rank() == 0)                                                           \
            back[N] = nvshmem_##name##_g(at + N, pe);                                              \
    }                                                                                              \
    static void check_##name(void)                                                                 \
    {                                                                                              \
        T from[N + 1], back[N + 1], *at = (T *)(room + 16);                                        \
        for (size_t i = 0; i <= N; i++)                                                            \
            fill(from + i, sizeof(T), me, i);                                                      \
        memset(back, 0, sizeof back);                                                              \
        memset(room, EDGE, ROOM);                                                                  \
        LAUNCH(THREADS, own_##name, at, from, back, me);                                           \
        expect("device put and p, " #name, at, sizeof(T), N + 1, 0);                               \
        expect("device get and g, " #name, back, sizeof(T), N + 1, 0);                             \
        CHECK(edges_stand(room, sizeof(T) * (N + 1)), "device, " #name);                           \
        memset(back, 0, sizeof back);                                                              \
        memset(room, EDGE, ROOM);                                                                  \
        nvshmem_##name##_put(at, from, N - 1, me);                                                 \
        nvshmem_##name##_put_nbi(at + N - 1, from + N - 1, 1, me);                                 \
        nvshmem_##name##_p(at + N, from[N], me);                                                   \
        expect("host put and p, " #name, at, sizeof(T), N + 1, 0);                                 \
        nvshmem_##name##_get(back, at, N - 1, me);                                                 \
        nvshmem_##name##_get_nbi(back + N - 1, at + N - 1, 1, me);                                 \
        nvshmem_quiet();                                                                           \
        back[N] = nvshmem_##name##_g(at + N, me);                                                  \
        expect("host get and g, " #name, back, sizeof(T), N + 1, 0);                               \
        CHECK(edges_stand(room, sizeof(T) * (N + 1)), "host, " #name);                             \
    }
WEFT_NV_RMA_TYPES(OWN)

static void check_strided(void)
{
    int64_t from[30], back[10];
    int64_t *at = (int64_t *)(room + 16);
    for (int i = 0; i < 30; i++)
        from[i] = -1000 * i - 7;
    memset(room, EDGE, ROOM);
    nvshmem_int64_iput(at, from, 2, 3, 10, me);
    for (int i = 0; i < 20; i++)
        CHECK(at[i] == (i % 2 ? 0x5a5a5a5a5a5a5a5a : -1000 * (i / 2 * 3) - 7), "iput, element %d",
              i);
    memset(back, 0, sizeof back);
    nvshmem_int64_iget(back, at, 1, 2, 10, me);
    for (int i = 0; i < 10; i++)
        CHECK(back[i] == -1000 * (i * 3) - 7, "iget, element %d", i);
    CHECK(edges_stand(room, 19 * 8), "strided");
}

int main(void)
{
    begin();
    room = aligned_alloc(16, ROOM);
#define RUN(name, T) check_##name();
    WEFT_NV_RMA_TYPES(RUN)
    check_strided();
    CHECK(!nvshmem_ptr(room, me), "such memory has no address for others");
    free(room);
    return end();
}

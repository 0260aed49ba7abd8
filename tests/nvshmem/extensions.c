/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM names outside the families of rma.c, collective.c and sync.c: alltoalls, warpgroups,
 * queue pairs, flush, realloc, multicast addresses, version information, calls after finalize. */
#include "values.h"

enum { N = 5, DST = 3, SST = 2, MOST_PES = 8, THREADS = 320 };

static char *to, *from;

/* ------------------------------------------------------------------------------- alltoalls */

#define ALLTOALLS(name, T)                                                                         \
    WEFT_KERNEL(alltoalls_##name, (T *, dest), (const T *, source))                                \
    {                                                                                              \
        nvshmem_##name##_alltoalls(NVSHMEM_TEAM_WORLD, dest, source, DST, SST, N);                 \
    }                                                                                              \
    static void run_##name(int on_device)                                                          \
    {                                                                                              \
        memset(to, 0x5a, (size_t)n_pes *N *DST * sizeof(T));                                       \
        for (size_t i = 0; i < (size_t)n_pes * N * SST; i++)                                       \
            fill(from + i * sizeof(T), sizeof(T), me, i);                                          \
        nvshmem_barrier_all();                                                                     \
        if (on_device)                                                                             \
            LAUNCH(1, alltoalls_##name, (T *)to, (const T *)from);                                 \
        else                                                                                       \
            CHECK(!nvshmem_##name##_alltoalls(0, (T *)to, (T *)from, DST, SST, N), "refused");     \
        check_alltoalls(#name, sizeof(T), on_device);                                              \
        nvshmem_barrier_all();                                                                     \
    }

static void check_alltoalls(const char *name, size_t unit, int on_device)
{
    char wanted[16];
    for (size_t i = 0; i < (size_t)n_pes * N * DST; i++) {
        size_t k = i / DST, pe = k / N;
        memset(wanted, 0x5a, sizeof wanted);
        if (i % DST == 0)
            fill(wanted, unit, (int)pe, ((size_t)me * N + k % N) * SST);
        CHECK(!memcmp(to + i * unit, wanted, unit), "alltoalls of %s, %s, at %zu", name,
              on_device ? "device" : "host", i);
    }
}
WEFT_NV_RMA_TYPES(ALLTOALLS)

/* ------------------------------------------------------------------------------ warpgroups
 * Each warpgroup of a block of 320 threads (128, 128 and 64) repeatedly synchronizes with the same
 * warpgroup of the other PEs in its own team. One thread writes to a peer before, another thread
 * reads after. */

enum { GROUPS = 3, ROUNDS = 40, SLOTS = 4 };

WEFT_KERNEL(groups_meet, (uint64_t *, slots), (int *, wrong), (int, first_team), (int, pe),
            (int, pes), (int, self))
{
    unsigned rank = weft_dev_thread_rank(), group = rank / 128, inside = rank % 128;
    unsigned size = group == 2 ? 64 : 128;
    int team = first_team + (int)group;
    for (int round = 1; round <= ROUNDS; round++) {
        uint64_t value = (uint64_t)round * 1000003u + (uint64_t)self * 517u + group * 31u;
        uint64_t awaited = value + (uint64_t)((self + pes - 1) % pes - self) * 517u;
        int status = 0;
        if (inside == (unsigned)round % size) /* in a different warp each round */
            nvshmem_uint64_p(slots + group * SLOTS, value, pe);
        status |= nvshmemx_barrier_warpgroup(team);
        if (inside == (unsigned)(round * 37) % size && slots[group * SLOTS] != awaited)
            weft_dev_atomic_add_u32((uint32_t *)wrong, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        status |= nvshmemx_team_sync_warpgroup(team); /* before the next round overwrites */
        if (status)
            weft_dev_atomic_add_u32((uint32_t *)wrong, 1000, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    }
}

WEFT_KERNEL(world_meets, (uint64_t *, slot), (uint64_t *, seen), (int, pe))
{
    if (weft_dev_thread_rank() == 100)
        nvshmem_uint64_p(slot, 77, pe);
    nvshmemx_barrier_all_warpgroup();
    if (weft_dev_thread_rank() == 3)
        seen[0] = *slot;
    nvshmemx_sync_all_warpgroup();
    if (weft_dev_thread_rank() == 70)
        seen[1] = seen[0] + *slot;
}

static void check_warpgroups(void)
{
    nvshmem_team_t teams[GROUPS];
    uint64_t *slots = (uint64_t *)to;
    int *wrong = (int *)from;
    for (int i = 0; i < GROUPS; i++)
        CHECK(!nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, n_pes, NULL, 0, &teams[i]) &&
                  teams[i] == teams[0] + i,
              "team %d", teams[i]);
    memset(to, 0, 1024);
    *wrong = 0;
    nvshmem_barrier_all();
    LAUNCH(THREADS, groups_meet, slots, wrong, teams[0], next, n_pes, me);
    CHECK(*wrong == 0, "%d", *wrong);
    nvshmem_barrier_all();
    memset(to, 0, 1024);
    nvshmem_barrier_all();
    LAUNCH(128, world_meets, slots, slots + 1, next);
    CHECK(slots[1] == 77 && slots[2] == 154, "%llu, %llu", (unsigned long long)slots[1],
          (unsigned long long)slots[2]);
    for (int i = 0; i < GROUPS; i++)
        nvshmem_team_destroy(teams[i]);
    nvshmem_barrier_all();
}

/* ------------------------------------------------------------- queue pairs, flush, the rest */

#define QUEUES(name, T)                                                                            \
    WEFT_KERNEL(queues_##name, (T *, dest), (const T *, source), (T *, back), (uint64_t *, flags), \
                (nvshmemx_qp_handle_t *, qps), (int, pe))                                          \
    {                                                                                              \
        if (weft_dev_warp() == 0)                                                                  \
            nvshmemx_qp_##name##_put_warp(dest, source, 8, pe, qps[0]);                            \
        nvshmemx_qp_##name##_put_nbi_block(dest + 8, source + 8, 8, pe, qps[1]);                   \
        nvshmemx_qp_quiet_block(pe, qps, 2);                                                       \
        nvshmemx_qp_##name##_put_signal_block(dest + 16, source + 16, 8, flags, 3,                 \
                                              NVSHMEM_SIGNAL_ADD, pe, qps[1]);                     \
        if (weft_dev_thread_rank() == 0) {                                                         \
            nvshmemx_qp_##name##_p(dest + 24, source[24], pe, NVSHMEMX_QP_DEFAULT);                \
            nvshmemx_qp_##name##_put(dest + 25, source + 25, 3, pe, qps[0]);                       \
            nvshmemx_qp_fence(NVSHMEMX_PE_ALL, qps, 1);                                            \
            nvshmemx_qp_signal_op(flags, 4, NVSHMEM_SIGNAL_ADD, pe, qps[0]);                       \
            nvshmem_signal_wait_until(flags, NVSHMEM_CMP_EQ, 7);                                   \
            back[0] = nvshmemx_qp_##name##_g(source, pe, qps[1]);                                  \
            nvshmemx_qp_##name##_get(back + 1, source + 1, 27, pe, qps[1]);                        \
        }                                                                                          \
        nvshmemx_flush_block();                                                                    \
    }                                                                                              \
    static void run_queues_##name(nvshmemx_qp_handle_t *qps)                                       \
    {                                                                                              \
        uint64_t *flags = (uint64_t *)(to + 4096);                                                 \
        *flags = 0;                                                                                \
        memset(to, 0, 2048);                                                                       \
        for (size_t i = 0; i < 28; i++)                                                            \
            fill(from + i * sizeof(T), sizeof(T), me, i);                                          \
        nvshmem_barrier_all();                                                                     \
        LAUNCH(64, queues_##name, (T *)to, (const T *)from, (T *)(to + 1024), flags, qps, next);   \
        nvshmem_barrier_all();                                                                     \
        for (size_t i = 0; i < 28; i++) {                                                          \
            char wanted[16];                                                                       \
            fill(wanted, sizeof(T), prev, i);                                                      \
            CHECK(!memcmp(to + i * sizeof(T), wanted, sizeof(T)), "put, " #name " %zu", i);        \
            fill(wanted, sizeof(T), next, i);                                                      \
            CHECK(!memcmp(to + 1024 + i * sizeof(T), wanted, sizeof(T)), "get, " #name " %zu", i); \
        }                                                                                          \
        nvshmem_barrier_all();                                                                     \
    }
QUEUES(double, double)
QUEUES(uint8, uint8_t)

static void check_queues(void)
{
    nvshmemx_qp_handle_t *qps = NULL, *more = NULL;
    CHECK(!nvshmemx_qp_create(2, &qps) && qps, "refused");
    CHECK(!nvshmemx_qp_create(1, &more) && more, "refused");
    CHECK(qps[0] > NVSHMEMX_QP_DEFAULT && qps[1] > qps[0] && more[0] > qps[1], "%d, %d, %d", qps[0],
          qps[1], more[0]);
    CHECK(nvshmemx_qp_create(0, &more) == NVSHMEMX_ERROR_INVALID_VALUE, "no queues");
    run_queues_double(qps);
    run_queues_uint8(qps);
}

static void check_realloc(void)
{
    uint32_t *block = nvshmem_realloc(NULL, 100 * sizeof *block);
    for (uint32_t i = 0; i < 100; i++)
        block[i] = 0x80000000u + i * 7919u + (uint32_t)me;
    block = nvshmem_realloc(block, 70000 * sizeof *block);
    for (uint32_t i = 0; i < 100; i++)
        CHECK(block[i] == 0x80000000u + i * 7919u + (uint32_t)me, "element %u", i);
    block[69999] = 5;
    nvshmem_barrier_all();
    CHECK(nvshmem_uint32_g(block + 99, next) == 0x80000000u + 99 * 7919u + (uint32_t)next,
          "not symmetric");
    nvshmem_barrier_all();
    block = nvshmem_realloc(block, 8);
    CHECK(block[1] == 0x80000000u + 7919u + (uint32_t)me, "made smaller");
    CHECK(!nvshmem_realloc(block, 0), "freed");
}

/* Programs parse three numbers in the name; they must match the other two sources of the
 * version. */
static void check_version(void)
{
    int major = -1, minor = -1, patch = -1, a = -1, b = -1, c = -1;
    char name[NVSHMEM_MAX_NAME_LEN];
    nvshmem_info_get_name(name);
    nvshmemx_vendor_get_version_info(&major, &minor, &patch);
    CHECK(sscanf(name, "NVSHMEM v%d.%d.%d", &a, &b, &c) == 3, "%s", name);
    CHECK(a == major && b == minor && c == patch, "%s, but %d.%d.%d", name, major, minor, patch);
    CHECK(NVSHMEM_VENDOR_VERSION == major * 10000 + minor * 100 + patch && major >= 3, "%d",
          NVSHMEM_VENDOR_VERSION);
    CHECK(!strcmp(name, NVSHMEM_VENDOR_STRING) && strstr(name, "Weft"), "%s", name);
}

int main(void)
{
    begin();
    to = nvshmem_malloc(N * DST * 16 * MOST_PES + 8192);
    from = nvshmem_malloc(N * SST * 16 * MOST_PES + 8192);
#define RUN(name, T)                                                                               \
    run_##name(0);                                                                                 \
    run_##name(1);
    WEFT_NV_RMA_TYPES(RUN)
    check_warpgroups();
    check_queues();
    check_realloc();
    check_version();
    CHECK(!nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, to), "multicast");
    CHECK(nvshmemx_culibrary_init(NULL), "no library");
    *(int *)from = me;
    nvshmemx_flush();
    int status = end();
    /* Allocation fails, and free has no effect. */
    CHECK(!nvshmem_malloc(8) && !nvshmem_calloc(1, 8) && !nvshmem_align(64, 8), "after the end");
    CHECK(!nvshmem_realloc(NULL, 8), "after the end");
    nvshmem_free(to);
    nvshmem_finalize();
    CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "after the end");
    return status || faults;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: collectives of the host, a thread, a warp and a block. What the host API does not
 * have (reducescatter, 16-bit reals) the host does with a kernel on the default stream. */
#ifndef WEFT_NVSHMEM_COLLECTIVE_H
#define WEFT_NVSHMEM_COLLECTIVE_H

#include <weft/nvshmem/stream_call.h>

/* ------------------------------------------------------------------------- barrier and sync */

WEFT_NV_HOST int weft_nv_barrier_host(int team, int sync)
{
    weft_team *which = weft_nvshmem_team(team);
    return weft_nvshmem_report(sync ? weft_sync(which) : weft_barrier(which),
                               sync ? "nvshmem_team_sync" : "nvshmem_barrier");
}

WEFT_NV_BOTH int nvshmem_barrier(nvshmem_team_t team)
{
    WEFT_NV_SPLIT(return weft_thread_barrier(team), return weft_nv_barrier_host(team, 0));
}

WEFT_NV_BOTH int nvshmem_team_sync(nvshmem_team_t team)
{
    WEFT_NV_SPLIT(return weft_thread_sync(team), return weft_nv_barrier_host(team, 1));
}

/* The name of nvshmem_team_sync() in NVSHMEM's manual. */
WEFT_NV_BOTH int nvshmem_sync(nvshmem_team_t team)
{
    return nvshmem_team_sync(team);
}

WEFT_NV_BOTH void nvshmem_barrier_all(void)
{
    (void)nvshmem_barrier(NVSHMEM_TEAM_WORLD);
}

WEFT_NV_BOTH void nvshmem_sync_all(void)
{
    (void)nvshmem_team_sync(NVSHMEM_TEAM_WORLD);
}

#define WEFT_NV_MEETINGS(scope, constant)                                                          \
    WEFT_NV_DEVICE int nvshmemx_barrier_##scope(nvshmem_team_t team)                               \
    {                                                                                              \
        return weft_##scope##_barrier(team);                                                       \
    }                                                                                              \
    WEFT_NV_DEVICE int nvshmemx_team_sync_##scope(nvshmem_team_t team)                             \
    {                                                                                              \
        return weft_##scope##_sync(team);                                                          \
    }                                                                                              \
    WEFT_NV_DEVICE int nvshmemx_sync_##scope(nvshmem_team_t team)                                  \
    {                                                                                              \
        return weft_##scope##_sync(team);                                                          \
    }                                                                                              \
    WEFT_NV_DEVICE void nvshmemx_barrier_all_##scope(void)                                         \
    {                                                                                              \
        (void)weft_##scope##_barrier(NVSHMEM_TEAM_WORLD);                                          \
    }                                                                                              \
    WEFT_NV_DEVICE void nvshmemx_sync_all_##scope(void)                                            \
    {                                                                                              \
        (void)weft_##scope##_sync(NVSHMEM_TEAM_WORLD);                                             \
    }
WEFT_NV_GROUPS(WEFT_NV_MEETINGS)
#undef WEFT_NV_MEETINGS

/* ---------------------------------------------------------------- names of data and reductions
 * Names in device code: nvshmem_ for a thread, nvshmemx_..._warp, _block. On streams and on the
 * host: stream_call.h describes the kernel's call, stream.h has the names; the host uses the names
 * of a thread. */

WEFT_NV_HOST int weft_nv_data_host(weft_status status)
{
    return weft_nvshmem_report(status, "nvshmem collective");
}

#define WEFT_NV_BROADCAST(name, suffix, scope, T, unit)                                            \
    WEFT_NV_COLLECTIVE_##scope int name##suffix(nvshmem_team_t team, T *dest, const T *source,     \
                                                size_t nelems, int PE_root)                        \
    {                                                                                              \
        WEFT_NV_COLLECTIVE_SPLIT_##scope(                                                          \
            weft_##scope##_broadcast(team, dest, source, nelems *(unit), PE_root),                 \
            weft_nv_data_host(                                                                     \
                weft_broadcast(weft_nvshmem_team(team), dest, source, nelems *(unit), PE_root)));  \
    }
#define WEFT_NV_FCOLLECT(name, suffix, scope, T, unit)                                             \
    WEFT_NV_COLLECTIVE_##scope int name##suffix(nvshmem_team_t team, T *dest, const T *source,     \
                                                size_t nelems)                                     \
    {                                                                                              \
        WEFT_NV_COLLECTIVE_SPLIT_##scope(                                                          \
            weft_##scope##_allgather(team, dest, source, nelems *(unit)),                          \
            weft_nv_data_host(                                                                     \
                weft_allgather(weft_nvshmem_team(team), dest, source, nelems *(unit))));           \
    }
#define WEFT_NV_ALLTOALL(name, suffix, scope, T, unit)                                             \
    WEFT_NV_COLLECTIVE_##scope int name##suffix(nvshmem_team_t team, T *dest, const T *source,     \
                                                size_t nelems)                                     \
    {                                                                                              \
        WEFT_NV_COLLECTIVE_SPLIT_##scope(                                                          \
            weft_##scope##_alltoall(team, dest, source, nelems *(unit)),                           \
            weft_nv_data_host(                                                                     \
                weft_alltoall(weft_nvshmem_team(team), dest, source, nelems *(unit))));            \
    }

/* The host has the names of a thread too; only device code has those of a warp and a block. */
#define WEFT_NV_COLLECTIVE_thread WEFT_NV_BOTH
#define WEFT_NV_COLLECTIVE_warp   WEFT_NV_DEVICE
#define WEFT_NV_COLLECTIVE_block  WEFT_NV_DEVICE
#define WEFT_NV_COLLECTIVE_SPLIT_thread(in_kernel, on_host)                                        \
    WEFT_NV_SPLIT(return in_kernel, return on_host)
#define WEFT_NV_COLLECTIVE_SPLIT_warp(in_kernel, on_host)  return in_kernel
#define WEFT_NV_COLLECTIVE_SPLIT_block(in_kernel, on_host) return in_kernel

#if WEFT_NV_DEVICE_PART
#define WEFT_NV_COLLECTIVES(FAMILY, plain, T, unit)                                                \
    FAMILY(nvshmem_##plain, , thread, T, unit)                                                     \
    FAMILY(nvshmemx_##plain, _warp, warp, T, unit)                                                 \
    FAMILY(nvshmemx_##plain, _block, block, T, unit)
#else
#define WEFT_NV_COLLECTIVES(FAMILY, plain, T, unit) FAMILY(nvshmem_##plain, , thread, T, unit)
#endif

#define WEFT_NV_DATA_TYPE(name, T)                                                                 \
    WEFT_NV_COLLECTIVES(WEFT_NV_BROADCAST, name##_broadcast, T, sizeof(T))                         \
    WEFT_NV_COLLECTIVES(WEFT_NV_FCOLLECT, name##_fcollect, T, sizeof(T))                           \
    WEFT_NV_COLLECTIVES(WEFT_NV_ALLTOALL, name##_alltoall, T, sizeof(T))
WEFT_NV_RMA_TYPES(WEFT_NV_DATA_TYPE)
WEFT_NV_COLLECTIVES(WEFT_NV_BROADCAST, broadcastmem, void, 1)
WEFT_NV_COLLECTIVES(WEFT_NV_FCOLLECT, fcollectmem, void, 1)
WEFT_NV_COLLECTIVES(WEFT_NV_ALLTOALL, alltoallmem, void, 1)
#undef WEFT_NV_DATA_TYPE
#undef WEFT_NV_BROADCAST
#undef WEFT_NV_FCOLLECT
#undef WEFT_NV_ALLTOALL
#undef WEFT_NV_COLLECTIVES

/* nvshmem_TYPE_alltoalls: dest[(i * nelems + k) * dst] becomes element k of the block from PE i of
 * the team. source[(j * nelems + k) * sst] is element k of the block for PE j. */
#define WEFT_NV_ALLTOALLS(name, T)                                                                 \
    WEFT_NV_BOTH int nvshmem_##name##_alltoalls(nvshmem_team_t team, T *dest, const T *source,     \
                                                ptrdiff_t dst, ptrdiff_t sst, size_t nelems)       \
    {                                                                                              \
        WEFT_NV_SPLIT(                                                                             \
            return weft_thread_alltoalls(team, dest, source, dst, sst, sizeof(T), nelems),         \
                   return weft_nv_data_host(weft_alltoalls(weft_nvshmem_team(team), dest, source,  \
                                                           dst, sst, sizeof(T), nelems)));         \
    }
WEFT_NV_RMA_TYPES(WEFT_NV_ALLTOALLS)
#undef WEFT_NV_ALLTOALLS

/* nvshmem_TYPE_OP_reduce, _reducescatter and their warp and block forms. The host uses the host
 * API's reduction where it has the type, else the kernel of <nvshmemx.h>. */
WEFT_NV_HOST int weft_nv_reduce_host(struct weft_nv_call c)
{
    if (c.kind == WEFT_NV_CALL_REDUCE && c.type < WEFT_TYPE_COUNT)
        return weft_nv_data_host(weft_allreduce(weft_nvshmem_team(c.team), c.dst, c.src, c.n,
                                                (weft_type)c.type, (weft_op)c.op));
    return weft_nvshmem_now(&c, "nvshmem collective");
}

#define WEFT_NV_REDUCE_SCOPE(name, suffix, scope, T, type, op, all, WHAT, OURS)                    \
    WEFT_NV_COLLECTIVE_##scope int name##suffix(nvshmem_team_t team, T *dest, const T *source,     \
                                                size_t nreduce)                                    \
    {                                                                                              \
        WEFT_NV_COLLECTIVE_SPLIT_##scope(                                                          \
            weft_##scope##_##OURS(team, dest, source, nreduce, type, op),                          \
            weft_nv_reduce_host(weft_nv_reduce_call(all, team, dest, source, nreduce, type, op))); \
    }
#if WEFT_NV_DEVICE_PART
#define WEFT_NV_REDUCE_FORMS(name, T, type, op, all, WHAT, OURS)                                   \
    WEFT_NV_REDUCE_SCOPE(nvshmem_##name##_##WHAT, , thread, T, type, op, all, WHAT, OURS)          \
    WEFT_NV_REDUCE_SCOPE(nvshmemx_##name##_##WHAT, _warp, warp, T, type, op, all, WHAT, OURS)      \
    WEFT_NV_REDUCE_SCOPE(nvshmemx_##name##_##WHAT, _block, block, T, type, op, all, WHAT, OURS)
#else
#define WEFT_NV_REDUCE_FORMS(name, T, type, op, all, WHAT, OURS)                                   \
    WEFT_NV_REDUCE_SCOPE(nvshmem_##name##_##WHAT, , thread, T, type, op, all, WHAT, OURS)
#endif
#define WEFT_NV_REDUCE_ONE(name, T, type, op)                                                      \
    WEFT_NV_REDUCE_FORMS(name, T, type, op, 1, reduce, allreduce)                                  \
    WEFT_NV_REDUCE_FORMS(name, T, type, op, 0, reducescatter, reducescatter)
#define WEFT_NV_REDUCE_BITWISE(name, T, type)                                                      \
    WEFT_NV_REDUCE_ONE(name##_and, T, type, WEFT_AND)                                              \
    WEFT_NV_REDUCE_ONE(name##_or, T, type, WEFT_OR)                                                \
    WEFT_NV_REDUCE_ONE(name##_xor, T, type, WEFT_XOR)
#define WEFT_NV_REDUCE_ARITHMETIC(name, T, type)                                                   \
    WEFT_NV_REDUCE_ONE(name##_min, T, type, WEFT_MIN)                                              \
    WEFT_NV_REDUCE_ONE(name##_max, T, type, WEFT_MAX)                                              \
    WEFT_NV_REDUCE_ONE(name##_sum, T, type, WEFT_SUM)                                              \
    WEFT_NV_REDUCE_ONE(name##_prod, T, type, WEFT_PROD)
WEFT_NV_REDUCE_BITWISE_TYPES(WEFT_NV_REDUCE_BITWISE)
WEFT_NV_REDUCE_TYPES(WEFT_NV_REDUCE_ARITHMETIC)
#undef WEFT_NV_REDUCE_BITWISE
#undef WEFT_NV_REDUCE_ARITHMETIC
#undef WEFT_NV_REDUCE_ONE
#undef WEFT_NV_REDUCE_FORMS
#undef WEFT_NV_REDUCE_SCOPE

/* --------------------------------------------------------------------------------- maxloc
 * For each element, the pair {value, index} with the largest value of all members and, among
 * equals, the lowest index. Every member reads the sources of all members once all are ready. */
#if WEFT_NV_DEVICE_PART

#ifdef __CUDACC__
typedef double2 weft_nv_double2;
#else
typedef struct weft_nv_double2 {
    double x, y;
} weft_nv_double2;
#endif

WEFT_NV_DEVICE weft_nv_double2 weft_nv_maxloc_at(int team, const weft_nv_double2 *source)
{
    struct weft_dev_members m = weft_dev_members_of(team);
    weft_nv_double2 best = {0, 0};
    for (int i = 0; i < m.n; i++) {
        int pe = weft_dev_member_pe(&m, i);
        weft_nv_double2 v = {weft_thread_g_f64(&source->x, pe), weft_thread_g_f64(&source->y, pe)};
        if (i == 0 || v.x > best.x || (v.x == best.x && v.y < best.y))
            best = v;
    }
    return best;
}

WEFT_NV_DEVICE int nvshmemx_double2_maxloc_reduce_block(nvshmem_team_t team, weft_nv_double2 *dest,
                                                        const weft_nv_double2 *source,
                                                        size_t nreduce)
{
    int status = weft_block_sync(team);
    size_t threads = weft_dev_block_threads();
    for (size_t first = 0; first < nreduce && !status; first += threads) {
        size_t i = first + weft_dev_thread_rank();
        weft_nv_double2 best = {0, 0};
        if (i < nreduce)
            best = weft_nv_maxloc_at(team, source + i);
        status = weft_block_sync(team); /* dest may be source: all members have read this part */
        if (i < nreduce)
            dest[i] = best;
    }
    weft_dev_sync_block();
    return status;
}

#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of device code over teams, in scopes thread, warp and block: the protocol,
 * synchronisation, and collectives that move data (reductions are in reduce.h).
 *
 * Each member calls from one thread, warp or block, in the same order at every member, with the
 * same sizes, types and roots. Destinations and sources are symmetric; the destination at every
 * member must be ready when the first member calls. On return the caller's destination is complete
 * and its source may be reused. The caller synchronises with other threads that wrote to a source
 * before the call. All functions return WEFT_OK or, the same for all threads of the scope,
 * WEFT_ERR_TIMEOUT, _NOT_MEMBER (no such team, or this PE is not in it), _NO_PATH (a member cannot
 * be reached), _ADDRESS, _RANGE, _TYPE. After an error the job fails at the host's next call.
 *
 * `team` is the number from weft_team_device(); WEFT_DEV_WORLD has all PEs, WEFT_DEV_NODE those of
 * the node.
 *
 * Checking mode (WEFT_CHECK=1) works on simt, and on a GPU in files compiled with
 * -DWEFT_DEVICE_CHECK, because possible calls cost a kernel registers. Before each collective the
 * members compare operation, form (of a grid, or of one thread, warp or block), size, types, root,
 * factor, strides, and the symmetric addresses; this takes two or three more one-way latencies of
 * the link. A difference gives WEFT_ERR_MISMATCH at all members, before any data moves, and the
 * job's failure names two members and what differs. Forbidden overlap of memory gives
 * WEFT_ERR_ARGUMENT at the member that passed it, and WEFT_ERR_MISMATCH, which names that member,
 * at the others. A range past the end of its segment gives WEFT_ERR_RANGE in the same way. All
 * files of a program that call collectives on a GPU must be compiled alike. Members that call over
 * different teams wait for each other until the wait limit.
 *
 * Protocol. A PE has, per team, an area that the members store to (struct weft_dev_area). It has
 * two flags for each member i: arrived[i], the sequence number of the latest sync in which the
 * member has arrived, and phase[i], the sequence number of the latest data collective in which it
 * has delivered. Both only grow, and a waiter compares by >=. Members that deliver nothing (all but
 * the root of a broadcast) therefore need not store the sequence number of that call. */
#ifndef WEFT_DEVICE_COLLECTIVE_H
#define WEFT_DEVICE_COLLECTIVE_H

#include <weft/device/check.h>
#include <weft/device/wait.h>

#define WEFT_DEV_WORLD 0
#define WEFT_DEV_NODE  1

/* ------------------------------------------------------------------------------------ teams */

struct weft_dev_members {
    int n, me;
    int start, stride;
    const int32_t *pes; /* NULL: start + i * stride */
    int number;         /* number of the team */
    int direct;
};

/* The members of a team. The world team needs no load from memory. n = 0: there is no such team, or
 * this PE is not in it. */
WEFT_DEVICE struct weft_dev_members weft_dev_members_of(int team)
{
    struct weft_dev_members m = {weft_dev_state.n_pes, weft_dev_state.me, 0, 1, NULL, team, 0};
    m.direct = weft_dev_state.segment[WEFT_DEV_AREAS].count == (uint32_t)weft_dev_state.n_pes;
    if (WEFT_DEV_LIKELY(team == WEFT_DEV_WORLD))
        return m;
    m.n = 0;
    if ((uint32_t)team >= weft_dev_state.n_teams)
        return m;
    const struct weft_dev_team *entry = &weft_dev_state.teams[team];
    m.n = entry->me >= 0 ? entry->n : 0;
    m.me = entry->me;
    m.start = entry->start;
    m.stride = entry->stride;
    m.pes = entry->pes;
    m.direct = (int)entry->direct;
    return m;
}

WEFT_DEVICE int weft_dev_member_pe(const struct weft_dev_members *m, int i)
{
    return m->pes ? m->pes[i] : m->start + i * m->stride;
}

/* PE number of the caller in the team, and size of the team; -1 when there is no such team. */
WEFT_DEVICE int weft_dev_team_my_pe(int team)
{
    struct weft_dev_members m = weft_dev_members_of(team);
    return m.n ? m.me : -1;
}

WEFT_DEVICE int weft_dev_team_n_pes(int team)
{
    struct weft_dev_members m = weft_dev_members_of(team);
    return m.n ? m.n : -1;
}

/* Returns the PE number in team `to` of the PE that has number `pe` in team `from`, or -1 when it
 * is not in `to`. */
WEFT_DEVICE int weft_dev_team_translate(int from, int pe, int to)
{
    struct weft_dev_members a = weft_dev_members_of(from), b = weft_dev_members_of(to);
    if (pe < 0 || pe >= a.n)
        return -1;
    int world = weft_dev_member_pe(&a, pe);
    for (int i = 0; i < b.n; i++)
        if (weft_dev_member_pe(&b, i) == world)
            return i;
    return -1;
}

/* ------------------------------------------------------------------------------ the protocol */

struct weft_dev_group {
    struct weft_dev_members m;
    int scope, operation;
    unsigned rank, threads;
    uint64_t number; /* sequence number of this call, which members' flags must reach */
};

WEFT_DEVICE struct weft_dev_area *weft_dev_area_at(const struct weft_dev_group *g, int pe)
{
    return (struct weft_dev_area *)(uintptr_t)(weft_dev_part(WEFT_DEV_AREAS, pe) +
                                               (uint64_t)g->m.number *
                                                   weft_dev_area_bytes(weft_dev_state.n_pes));
}

WEFT_DEVICE struct weft_dev_area *weft_dev_own_area(const struct weft_dev_group *g)
{
    return (struct weft_dev_area *)(uintptr_t)(weft_dev_state.segment[WEFT_DEV_AREAS].base +
                                               (uint64_t)g->m.number *
                                                   weft_dev_area_bytes(weft_dev_state.n_pes));
}

WEFT_DEVICE_NOINLINE int weft_dev_refuse(int operation, int team, int status, const void *address,
                                         size_t bytes, int record)
{
    if (record) {
        weft_dev_record(WEFT_DEV_RECORD_REFUSED, operation, status, -1, team, address, 0, bytes, 0,
                        0);
        weft_dev_fail(status);
    }
    return status;
}

/* For a team with members that have no direct address: returns WEFT_OK when each of them has a
 * transport. Else, with `record`, it writes a record that names the first member without a
 * transport and its path, as weft_dev_request_refuse() does. It takes the team's number and not a
 * pointer to the group: a group whose address is taken is kept in memory, and each acquiring poll
 * would drop it from the cache. */
WEFT_DEVICE_NOINLINE int weft_dev_check_members(int operation, int team, int record)
{
    struct weft_dev_members m = weft_dev_members_of(team);
    for (int i = 0; i < m.n; i++) {
        int pe = weft_dev_member_pe(&m, i);
        uint64_t part = weft_dev_part(WEFT_DEV_AREAS, pe);
        const struct weft_dev_peer *peer = &weft_dev_state.peers[pe];
        if (part || peer->carrier)
            continue;
        if (record) {
            weft_dev_record(WEFT_DEV_RECORD_REFUSED, operation, WEFT_ERR_NO_PATH, pe, team, NULL, 0,
                            peer->path, part != 0, 0);
            weft_dev_fail(WEFT_ERR_NO_PATH);
        }
        return WEFT_ERR_NO_PATH;
    }
    return WEFT_OK;
}

WEFT_DEVICE int weft_dev_group_begin(struct weft_dev_group *g, int scope, int team, int operation)
{
    g->m = weft_dev_members_of(team);
    g->scope = scope;
    g->operation = operation;
    g->rank = weft_dev_scope_rank(scope);
    g->threads = weft_dev_scope_threads(scope);
    if (WEFT_DEV_LIKELY(g->m.n && g->m.direct))
        return WEFT_OK;
    return g->m.n ? weft_dev_check_members(operation, team, g->rank == 0)
                  : weft_dev_refuse(operation, team, WEFT_ERR_NOT_MEMBER, NULL, 0, g->rank == 0);
}

/* Sets flag `i` in the area of member `member`: by a store, or by a request to the transport that
 * reaches the member. */
WEFT_DEVICE void weft_dev_flag_set(const struct weft_dev_group *g, int member, int i)
{
    int pe = weft_dev_member_pe(&g->m, member);
    if (WEFT_DEV_LIKELY(g->m.direct || weft_dev_part(WEFT_DEV_AREAS, pe)))
        /* A store: an atomic over the link would take 0.5 us more (H200, NVLink 4). */
        weft_dev_store_u64(&weft_dev_area_at(g, pe)->flags[i], g->number, WEFT_ORDER_RELAXED,
                           WEFT_SCOPE_SYS);
    else
        WEFT_DEV_CALL_RARELY(weft_dev_remote_word, WEFT_DEV_OP_FLAG, 0,
                             &weft_dev_own_area(g)->flags[i], 8, g->number, 0, pe);
}

/* Waits for one flag of this PE's area. Acquire: pairs with the fence of the member that set the
 * flag. meet has no such fence, and promises no order. */
WEFT_DEVICE int weft_dev_flag_await(const struct weft_dev_group *g, const uint64_t *flag,
                                    int member)
{
    uint64_t seen = weft_dev_load_u64(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    if (seen >= g->number)
        return WEFT_OK;
    uint32_t polls = 0;
    struct weft_dev_patience p;
    struct weft_dev_awaited what = weft_dev_awaited_of(
        g->operation, weft_dev_member_pe(&g->m, member), g->m.number, flag, WEFT_GE, g->number);
    int status;
    do {
        status = weft_dev_patience_step(&p, what, &polls, seen);
        seen = weft_dev_load_u64(flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    } while (!status && seen < g->number);
    weft_dev_patience_end(&p, polls);
    return status;
}

/* Ends a collective: all threads return the same status, and an error makes the job fail. */
WEFT_DEVICE int weft_dev_group_end(const struct weft_dev_group *g, uint64_t *count, int status)
{
    if (g->rank == 0)
        weft_dev_store_u64(count, g->number, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (WEFT_DEV_LIKELY(!weft_dev_scope_any(g->scope, status != WEFT_OK)))
        return WEFT_OK;
    if (g->rank == 0)
        weft_dev_fail(WEFT_ERR_TIMEOUT);
    return WEFT_ERR_TIMEOUT;
}

/* ------------------------------------------------------------------- meet, sync and barrier
 *
 * int weft_{thread,warp,block}_meet(int team)
 *     Returns when all members have called it. Does not order memory: for programs whose data carry
 *     their own order (packets), or that only keep in step.
 * int weft_{thread,warp,block}_sync(int team)
 *     As meet; members' earlier stores to their own memory are visible to all.
 * int weft_{thread,warp,block}_barrier(int team)
 *     As sync; all earlier operations of the calling threads are complete and visible.
 */
enum weft_dev_meeting { WEFT_DEV_MEET, WEFT_DEV_SYNC, WEFT_DEV_BARRIER };

/* sync and barrier fence before they set their flags. The fence orders what this thread did, and
 * what other threads of the scope did before the scope's sync. Flags are relaxed stores after one
 * fence, not releases, so that a thread that sets several flags pays for one fence. Litmus tests
 * barrier and sync fail with meet in their place. */
WEFT_DEVICE void weft_dev_arrive(const struct weft_dev_group *g, enum weft_dev_meeting meeting)
{
    if (meeting != WEFT_DEV_MEET && g->rank < (unsigned)g->m.n)
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    for (int i = (int)g->rank; i < g->m.n; i += (int)g->threads)
        if (i != g->m.me)
            weft_dev_flag_set(g, i, g->m.me);
}

WEFT_DEVICE int weft_dev_meeting(struct weft_dev_group *g, enum weft_dev_meeting meeting)
{
    struct weft_dev_area *own = weft_dev_own_area(g);
    int status = WEFT_OK;
    g->number = weft_dev_load_u64(&own->syncs, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) + 1;
    if (meeting == WEFT_DEV_BARRIER && weft_dev_state.carried) {
        weft_dev_scope_sync(g->scope); /* waits only for requests that the scope issued before */
        weft_dev_remote_order(1);
    }
    weft_dev_scope_sync(g->scope);
    weft_dev_arrive(g, meeting);
    for (int i = (int)g->rank; i < g->m.n && !status; i += (int)g->threads)
        if (i != g->m.me)
            status = weft_dev_flag_await(g, &own->flags[i], i);
    return weft_dev_group_end(g, &own->syncs, status);
}

WEFT_DEVICE int weft_dev_meet_as(int scope, int team, int operation, enum weft_dev_meeting meeting)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, operation);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team, weft_dev_args_of(operation, 0, -1));
    return status ? status : weft_dev_meeting(&g, meeting);
}

#define WEFT_DEV_MEETINGS(scope, constant)                                                         \
    WEFT_DEVICE int weft_##scope##_meet(int team)                                                  \
    {                                                                                              \
        return weft_dev_meet_as(constant, team, WEFT_DEV_OP_SYNC, WEFT_DEV_MEET);                  \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_sync(int team)                                                  \
    {                                                                                              \
        return weft_dev_meet_as(constant, team, WEFT_DEV_OP_SYNC, WEFT_DEV_SYNC);                  \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_barrier(int team)                                               \
    {                                                                                              \
        return weft_dev_meet_as(constant, team, WEFT_DEV_OP_BARRIER, WEFT_DEV_BARRIER);            \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_MEETINGS)
#undef WEFT_DEV_MEETINGS

/* ----------------------------------------------------------------------- moving to members */

/* The members that a thread sends to (first, first + step, ...), and its rank among the threads
 * that send to them. The warps of a block are distributed over the members, so that all links are
 * in use at once; a scope with fewer warps than members sends to one after the other. Each PE
 * counts members from the next member after itself (weft_dev_next_member()), so that not all PEs
 * begin with the same member. */
struct weft_dev_share {
    int first, step;
    unsigned rank, threads;
};

WEFT_DEVICE struct weft_dev_share weft_dev_share_of(const struct weft_dev_group *g)
{
    struct weft_dev_share share = {0, 1, g->rank, g->threads};
    unsigned warps = g->threads / WEFT_WARP_LANES, n = (unsigned)g->m.n;
    if (g->scope != WEFT_DEV_BLOCK || g->threads % WEFT_WARP_LANES || warps < n)
        return share;
    unsigned warp = g->rank / WEFT_WARP_LANES, lane = g->rank % WEFT_WARP_LANES;
    share.first = (int)(warp % n);
    share.step = (int)n;
    share.rank = warp / n * WEFT_WARP_LANES + lane;
    share.threads = (warps - warp % n + n - 1) / n * WEFT_WARP_LANES;
    return share;
}

/* Rotated rank: the member i + 1 positions after this PE in the team; the last one is this PE. */
WEFT_DEVICE int weft_dev_next_member(const struct weft_dev_group *g, int i)
{
    int member = g->m.me + 1 + i;
    return member >= g->m.n ? member - g->m.n : member;
}

/* weft_dev_check() for a range that is not in the first segment. */
WEFT_DEVICE_NOINLINE int weft_dev_check_slow(int operation, int team, const void *address,
                                             size_t bytes, int record)
{
    int segment;
    uint64_t offset;
    int status = weft_dev_find(address, bytes, &segment, &offset);
    return status ? weft_dev_refuse(operation, team, status, address, bytes, record) : WEFT_OK;
}

/* Whether a range of this PE is symmetric; weft_dev_ptr() then gives its address at each member.
 * Because segment and offset are not kept, an alltoall of 8 bytes takes 3.15 us instead of 3.36 us
 * (H200). */
WEFT_DEVICE int weft_dev_check(const struct weft_dev_group *g, const void *address, size_t bytes)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    uint64_t offset = (uintptr_t)address - heap->base;
    if (WEFT_DEV_LIKELY(offset < heap->size && bytes <= heap->size - offset))
        return WEFT_OK;
    return weft_dev_check_slow(g->operation, g->m.number, address, bytes, g->rank == 0);
}

/* Finds once the segment of a symmetric range of this PE, and the offset in it. In loops over the
 * range, weft_dev_place_at() then gives the address at a member by one addition. */
WEFT_DEVICE int weft_dev_place(const struct weft_dev_group *g, const void *address, size_t bytes,
                               int *segment, uint64_t *offset)
{
    int status = weft_dev_find(address, bytes, segment, offset);
    if (status == WEFT_OK)
        return WEFT_OK;
    return weft_dev_refuse(g->operation, g->m.number, status, address, bytes, g->rank == 0);
}

WEFT_DEVICE char *weft_dev_place_at(const struct weft_dev_group *g, int segment, uint64_t offset,
                                    int member)
{
    return (char *)(uintptr_t)(weft_dev_part(segment, weft_dev_member_pe(&g->m, member)) + offset);
}

/* Sets the flag that reports to each member that the data moved by the threads of the scope has
 * arrived. The scope's sync and the fence of the threads that set flags order the data before the
 * flags, as in put_signal. */
WEFT_DEVICE void weft_dev_deliver(const struct weft_dev_group *g)
{
    weft_dev_scope_sync(g->scope);
    if (g->rank < (unsigned)g->m.n) {
        if (!WEFT_DEV_LIKELY(g->m.direct))
            weft_dev_remote_order(0);
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    }
    for (int i = (int)g->rank; i < g->m.n; i += (int)g->threads)
        if (i != g->m.me)
            weft_dev_flag_set(g, i, weft_dev_state.n_pes + g->m.me);
}

/* Moves data from this PE's memory to `symmetric` (an address of this PE) at a member. All
 * `threads` of the share move it; where the member has no direct address, the first of them sends a
 * request. */
WEFT_DEVICE void weft_dev_move_to(const struct weft_dev_group *g, int member, void *symmetric,
                                  const char *from, size_t bytes, unsigned rank, unsigned threads)
{
    int pe = weft_dev_member_pe(&g->m, member);
    char *to = (char *)weft_dev_ptr(symmetric, pe);
    if (WEFT_DEV_LIKELY(to != NULL)) {
        if (to != from)
            weft_dev_move(to, from, bytes, rank, threads, 0);
    } else if (rank == 0) {
        weft_dev_remote_move(WEFT_DEV_OP_PUT, symmetric, (void *)(uintptr_t)from, bytes, pe, 0);
    }
}

WEFT_DEVICE int weft_dev_receive(const struct weft_dev_group *g, int from, int to)
{
    struct weft_dev_area *own = weft_dev_own_area(g);
    int status = WEFT_OK;
    for (int i = from + (int)g->rank; i < to && !status; i += (int)g->threads)
        if (i != g->m.me)
            status = weft_dev_flag_await(g, &own->flags[weft_dev_state.n_pes + i], i);
    return weft_dev_group_end(g, &own->phases, status);
}

WEFT_DEVICE void weft_dev_data_begin(struct weft_dev_group *g)
{
    g->number =
        weft_dev_load_u64(&weft_dev_own_area(g)->phases, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) + 1;
}

/* ---------------------------------------------------------------------- moving collectives
 *
 * int weft_{thread,warp,block}_broadcast(int team, void *dst, const void *src, size_t bytes,
 *                                        int root)
 *     `bytes` bytes of the root's src go to dst at every member. The root's own dst gets a copy,
 *     unless it is NULL there or equal to src.
 * int weft_{thread,warp,block}_allgather(int team, void *dst, const void *src, size_t bytes)
 *     `bytes` bytes from each member, in the order of the team. src is this member's block of dst,
 *     or does not overlap dst.
 * int weft_{thread,warp,block}_alltoall(int team, void *dst, const void *src, size_t bytes)
 *     `bytes` bytes for each pair of PEs. Source and destination do not overlap.
 * int weft_{thread,warp,block}_gather(int team, void *dst, const void *src, size_t bytes, int root)
 *     Block i of the root's dst becomes the `bytes` bytes of member i. Every member passes dst, and
 *     only the root's is written; a call of another member returns when its source may be reused.
 *     The root's src is its block of dst, or does not overlap dst.
 * int weft_{thread,warp,block}_scatter(int team, void *dst, const void *src, size_t bytes,
 *                                      int root)
 *     Member i gets block i of the root's src. The root's dst is its own block of src, or does not
 *     overlap src.
 */
WEFT_DEVICE struct weft_dev_args weft_dev_broadcast_args(const struct weft_dev_group *g,
                                                         const void *dst, const void *src,
                                                         uint64_t bytes, int root)
{
    struct weft_dev_args args = weft_dev_args_of(g->operation, bytes, root);
    weft_dev_args_set_memory(&args, dst ? dst : src, bytes, src, g->m.me == root && dst ? bytes : 0,
                             (uintptr_t)dst);
    return args;
}

WEFT_DEVICE int weft_dev_broadcast(int scope, int team, void *dst, const void *src, size_t bytes,
                                   int root)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, WEFT_DEV_OP_BROADCAST);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team,
                                              weft_dev_broadcast_args(&g, dst, src, bytes, root));
    if (!status && (root < 0 || root >= g.m.n))
        status = weft_dev_refuse(g.operation, team, WEFT_ERR_PE, dst, bytes, g.rank == 0);
    if (!status)
        status = weft_dev_check(&g, dst ? dst : src, bytes);
    if (status)
        return status;
    weft_dev_data_begin(&g);
    if (g.m.me != root)
        return weft_dev_receive(&g, root, root + 1);
    struct weft_dev_share share = weft_dev_share_of(&g);
    for (int i = share.first; i < g.m.n; i += share.step) {
        int member = weft_dev_next_member(&g, i);
        if (member != g.m.me || dst)
            weft_dev_move_to(&g, member, dst ? dst : (void *)(uintptr_t)src, (const char *)src,
                             bytes, share.rank, share.threads);
    }
    weft_dev_deliver(&g);
    return weft_dev_receive(&g, 0, 0);
}

WEFT_DEVICE struct weft_dev_args weft_dev_exchange_args(const struct weft_dev_group *g,
                                                        const void *dst, const void *src,
                                                        uint64_t bytes, int each)
{
    struct weft_dev_args args = weft_dev_args_of(g->operation, bytes, -1);
    uint64_t all = weft_dev_times(bytes, (uint64_t)(uint32_t)g->m.n);
    uint64_t own = (uintptr_t)dst + bytes * (uint64_t)(uint32_t)g->m.me;
    weft_dev_args_set_memory(&args, dst, all, src, each ? all : bytes,
                             each && g->m.n > 1 ? 0 : own);
    return args;
}

/* Sends to every member. each = 0: the same block to all (allgather); 1: each member its own block
 * (alltoall). */
WEFT_DEVICE int weft_dev_exchange(int scope, int team, int operation, void *dst, const void *src,
                                  size_t bytes, int each)
{
    struct weft_dev_group g;
    int status = weft_dev_group_begin(&g, scope, team, operation);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team,
                                              weft_dev_exchange_args(&g, dst, src, bytes, each));
    if (!status)
        status = weft_dev_check(&g, dst, bytes * (size_t)g.m.n);
    if (status)
        return status;
    weft_dev_data_begin(&g);
    struct weft_dev_share share = weft_dev_share_of(&g);
    for (int i = share.first; i < g.m.n; i += share.step) {
        int member = weft_dev_next_member(&g, i);
        const char *from = (const char *)src + (each ? bytes * (size_t)member : 0);
        weft_dev_move_to(&g, member, (char *)dst + bytes * (size_t)g.m.me, from, bytes, share.rank,
                         share.threads);
    }
    weft_dev_deliver(&g);
    return weft_dev_receive(&g, 0, g.m.n);
}

/* Gather (each member sends to the root) or scatter (the root sends to each member). The following
 * functions do all up to the sending; flags are set and awaited afterwards. */
WEFT_DEVICE int weft_dev_rooted_check(const struct weft_dev_group *g, const void *dst, size_t bytes,
                                      int root)
{
    if (root < 0 || root >= g->m.n)
        return weft_dev_refuse(g->operation, g->m.number, WEFT_ERR_PE, dst, bytes, g->rank == 0);
    int gather = g->operation == WEFT_DEV_OP_GATHER;
    return weft_dev_check(g, dst, gather ? bytes * (size_t)g->m.n : bytes);
}

WEFT_DEVICE struct weft_dev_args weft_dev_rooted_args(const struct weft_dev_group *g,
                                                      const void *dst, const void *src,
                                                      uint64_t bytes, int root)
{
    struct weft_dev_args args = weft_dev_args_of(g->operation, bytes, root);
    uint64_t all = weft_dev_times(bytes, (uint64_t)(uint32_t)g->m.n);
    uint64_t before = bytes * (uint64_t)(uint32_t)g->m.me, here = (uintptr_t)dst;
    int gather = g->operation == WEFT_DEV_OP_GATHER, is_root = g->m.me == root;
    weft_dev_args_set_memory(&args, dst, gather ? all : bytes, src,
                             !is_root ? 0
                             : gather ? bytes
                                      : all,
                             gather ? here + before : here - before);
    return args;
}

WEFT_DEVICE void weft_dev_rooted_send(const struct weft_dev_group *g, void *dst, const void *src,
                                      size_t bytes, int root)
{
    if (g->operation == WEFT_DEV_OP_GATHER) {
        weft_dev_move_to(g, root, (char *)dst + bytes * (size_t)g->m.me, (const char *)src, bytes,
                         g->rank, g->threads);
        return;
    }
    struct weft_dev_share share = weft_dev_share_of(g);
    for (int i = share.first; i < g->m.n && g->m.me == root; i += share.step) {
        int member = weft_dev_next_member(g, i);
        weft_dev_move_to(g, member, dst, (const char *)src + bytes * (size_t)member, bytes,
                         share.rank, share.threads);
    }
}

/* Whether this PE is a sender, which sets flags. A receiver waits for the flags of members *from
 * ... *to - 1. */
WEFT_DEVICE int weft_dev_rooted_sends(const struct weft_dev_group *g, int root, int *from, int *to)
{
    int gather = g->operation == WEFT_DEV_OP_GATHER, is_root = g->m.me == root;
    *from = gather || is_root ? 0 : root;
    *to = gather == is_root ? (gather ? g->m.n : root + 1) : 0;
    return gather != is_root;
}

WEFT_DEVICE int weft_dev_rooted(int scope, int team, int operation, void *dst, const void *src,
                                size_t bytes, int root)
{
    struct weft_dev_group g;
    int from, to, status = weft_dev_group_begin(&g, scope, team, operation);
    if (!status)
        status = weft_dev_compare_if_checking(scope, team,
                                              weft_dev_rooted_args(&g, dst, src, bytes, root));
    if (!status)
        status = weft_dev_rooted_check(&g, dst, bytes, root);
    if (status)
        return status;
    weft_dev_data_begin(&g);
    weft_dev_rooted_send(&g, dst, src, bytes, root);
    if (weft_dev_rooted_sends(&g, root, &from, &to))
        weft_dev_deliver(&g);
    else
        weft_dev_scope_sync(scope); /* all threads have read the count before one increments it */
    return weft_dev_receive(&g, from, to);
}

#define WEFT_DEV_MOVING(scope, constant)                                                           \
    WEFT_DEVICE int weft_##scope##_broadcast(int team, void *dst, const void *src, size_t bytes,   \
                                             int root)                                             \
    {                                                                                              \
        return weft_dev_broadcast(constant, team, dst, src, bytes, root);                          \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_allgather(int team, void *dst, const void *src, size_t bytes)   \
    {                                                                                              \
        return weft_dev_exchange(constant, team, WEFT_DEV_OP_ALLGATHER, dst, src, bytes, 0);       \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_alltoall(int team, void *dst, const void *src, size_t bytes)    \
    {                                                                                              \
        return weft_dev_exchange(constant, team, WEFT_DEV_OP_ALLTOALL, dst, src, bytes, 1);        \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_gather(int team, void *dst, const void *src, size_t bytes,      \
                                          int root)                                                \
    {                                                                                              \
        return weft_dev_rooted(constant, team, WEFT_DEV_OP_GATHER, dst, src, bytes, root);         \
    }                                                                                              \
    WEFT_DEVICE int weft_##scope##_scatter(int team, void *dst, const void *src, size_t bytes,     \
                                           int root)                                               \
    {                                                                                              \
        return weft_dev_rooted(constant, team, WEFT_DEV_OP_SCATTER, dst, src, bytes, root);        \
    }
WEFT_DEV_SCOPE_LIST(WEFT_DEV_MOVING)
#undef WEFT_DEV_MOVING

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of the kernels of collectives: rounds and their numbers, flags, and LL packets in
 * slots. kernels.cu explains their use, kernels.h the memory layout. */
#ifndef WEFT_GPU_COLL_ROUND_H
#define WEFT_GPU_COLL_ROUND_H

#include <weft/device/packet_unit.h>

#include "gpu/coll/kernels.h"
#include "gpu/kernel_record.h"

enum { LOADED_TOGETHER = 4 }; /* members whose packets, or blocks, are loaded together */

struct round {
    const struct coll_call *c;
    struct coll_area *own;
    uint64_t number, begun;
    uint64_t set;     /* offset of this round's slot set in the windows */
    uint32_t ll_flag; /* flag of its LL packets */
    /* index of this block in the order in which blocks drew their tickets */
    unsigned block;
    unsigned threads, rank; /* threads of the grid, and this thread's index in that order */
    int failed;
    const double *factors; /* factors of a weighted sum, by member; else NULL */
};

/* ------------------------------------------------------------------------------------ rounds */

WEFT_DEVICE struct coll_area *member_area(const struct coll_call *c, int member)
{
    return (struct coll_area *)(c->part[member] + c->area);
}

/* Returns the rotated rank i: the member i + 1 ranks after this one. The last one is this member
 * itself. */
WEFT_DEVICE int rotated_member(const struct coll_call *c, int i)
{
    int member = c->me + 1 + i;
    return member >= c->members ? member - c->members : member;
}

WEFT_DEVICE uint64_t slot_set_offset(const struct coll_call *c, uint64_t number)
{
    return c->area + sizeof(struct coll_area) + (number & 1) * c->set_bytes;
}

/* Writes the record of a wait that timed out. Out of line and by value, so that its arguments stay
 * in registers while no wait times out. */
WEFT_DEVICE_NOINLINE void record_timeout(struct weft_dev_box *box, uint64_t *tickets, int operation,
                                         int team, int pe, const void *at, uint64_t expected,
                                         uint64_t seen, uint64_t since)
{
    write_record(box, tickets, (uint32_t)operation, team, pe, at, expected, seen, 5, since);
}

/* Called after a poll at `at` for the value `wanted` of `member` that saw `seen`. A timeout, or the
 * failure of the job, ends all waits of this thread: the kernel then runs to its end. */
WEFT_DEVICE void check_wait(struct round *r, struct wait_progress *p, int member, const void *at,
                            uint64_t wanted, uint64_t seen)
{
    enum wait_state state = check_wait_state(p, &r->c->record.reporting, seen);
    if (state == WAIT_ON)
        return;
    r->failed = 1;
    if (state == WAIT_EXPIRED)
        record_timeout(r->c->record.reporting.box, r->c->record.reporting.tickets,
                       r->c->record.operation, r->c->record.team, r->c->record.pe[member], at,
                       wanted, seen, p->changed);
    else
        write_left_word(&r->c->record.reporting, (uint32_t)r->c->record.operation,
                        r->c->record.team, r->c->record.pe[member]);
}

/* Waits until a flag that `member` sets is at least `value`. Acquire: the member's stores before
 * its release, or its fence, are visible afterwards. */
WEFT_DEVICE void await_flag(struct round *r, const uint64_t *flag, uint64_t value, int member)
{
    struct wait_progress p = {0, 0, 0};
    uint64_t seen;
    while (!r->failed && (seen = weft_dev_load_u64(flag, ACQUIRE, SYSTEM)) < value)
        check_wait(r, &p, member, flag, value, seen);
}

/* Flags of packets repeat after 2^30 rounds, and a packet that was not written since would look
 * new. So in two rounds of every 2^29 this block clears the slot set of the next round. No member
 * fills that set before this round's packets from here have arrived, or before this member has sent
 * `here`, and this block does both. */
WEFT_DEVICE void clear_next_set(const struct round *r)
{
    const struct coll_call *c = r->c;
    if (r->block != 0 || (r->number & COLL_RENEW_MASK) > 1)
        return;
    char *set = c->part[c->me] + slot_set_offset(c, r->number + 1);
    struct weft_dev_vec16 nothing = {0, 0};
    for (uint64_t at = 16 * (uint64_t)weft_dev_thread_x(); at < c->set_bytes;
         at += 16 * (uint64_t)weft_dev_block_dim_x())
        weft_dev_store_vec16(set + at, nothing);
    char *factors = r->own->factors[(r->number + 1) & 1][0];
    for (uint64_t at = 16 * (uint64_t)weft_dev_thread_x(); at < sizeof r->own->factors / 2;
         at += 16 * (uint64_t)weft_dev_block_dim_x())
        weft_dev_store_vec16(factors + at, nothing);
    weft_dev_fence(ORDERED, SYSTEM);
    weft_dev_sync_block();
}

/* Tickets that each block draws at once; those of a kernel are COLL_BLOCKS. */
WEFT_DEVICE unsigned block_tickets(void)
{
    return COLL_BLOCKS / weft_dev_grid_dim_x();
}

/* The first step of a kernel, see kernels.cu: draws the ticket of this block, which its first
 * thread gets, and waits until the earlier work of the stream has ended. */
WEFT_DEVICE uint64_t round_draw(const struct coll_call *c)
{
    uint64_t ticket = 0;
    if (weft_dev_thread_x() == 0)
        ticket = weft_dev_atomic_add_u64(&member_area(c, c->me)->tickets, block_tickets(), RELAXED,
                                         WEFT_SCOPE_GPU);
    GRID_WAIT();
    return ticket;
}

/* Begins a round. Returns nonzero when the members called different collectives (check.h); the
 * kernel then stores nothing. Otherwise another member, which has not seen it yet, would miss a
 * packet that a packet of a later round overwrote. */
WEFT_DEVICE int round_begin(struct round *r, const struct coll_call *c, uint64_t ticket,
                            uint64_t *shared)
{
    r->c = c;
    r->own = member_area(c, c->me);
    r->failed = 0;
    r->factors = 0;
    r->threads = weft_dev_grid_dim_x() * weft_dev_block_dim_x();
    if (weft_dev_thread_x() == 0) {
        shared[0] = ticket;
        shared[1] = weft_dev_load_u64(&r->own->begun, RELAXED, WEFT_SCOPE_GPU);
        if (c->checking.on && weft_dev_load_u64(&r->own->refused, RELAXED, WEFT_SCOPE_GPU))
            shared[1] = UINT64_MAX; /* not a round number */
    }
    weft_dev_sync_block();
    r->number = shared[0] / COLL_BLOCKS + 1;
    r->block = (unsigned)(shared[0] % COLL_BLOCKS) / block_tickets();
    r->rank = r->block * weft_dev_block_dim_x() + weft_dev_thread_x();
    r->begun = shared[1];
    r->failed = r->begun == UINT64_MAX;
    r->set = slot_set_offset(c, r->number);
    r->ll_flag = ((uint32_t)r->number & (COLL_NUMBER_BIT - 1)) | COLL_NUMBER_BIT;
    clear_next_set(r);
    return r->failed;
}

/* Reports to all other members that this member has begun the round. Relaxed: earlier operations of
 * the stream ended with their kernels, and the flag is the only data of this store. */
WEFT_DEVICE void send_here(const struct round *r)
{
    const struct coll_call *c = r->c;
    if (r->block != 0)
        return;
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x())
        if (i != c->me)
            weft_dev_store_u64(&member_area(c, i)->here[c->me], r->number, RELAXED, SYSTEM);
}

/* Returns when all other members have begun round `number`. */
WEFT_DEVICE void await_here(struct round *r, uint64_t number)
{
    const struct coll_call *c = r->c;
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x())
        if (i != c->me)
            await_flag(r, &r->own->here[i], number, i);
    r->failed = weft_dev_sync_block_or(r->failed);
}

/* Called before packets are stored into the slots of other members. */
WEFT_DEVICE void await_slots(struct round *r)
{
    if (r->begun + 1 < r->number)
        await_here(r, r->number - 1);
}

/* Ends a round in which every member has received packets from every other member. */
WEFT_DEVICE void mark_all_begun(const struct round *r)
{
    if (r->block != 0)
        return;
    weft_dev_sync_block();
    if (weft_dev_thread_x() == 0 && !r->failed)
        weft_dev_store_u64(&r->own->begun, r->number, RELAXED, WEFT_SCOPE_GPU);
}

/* Ends a round of the simple protocol: this block's stores have arrived at the other members, and
 * the stores of their blocks with the same index have arrived here. The fence orders the stores of
 * this thread and those of the threads that it synchronized with in the block. fenced 0: nothing
 * was stored there, only loaded. */
WEFT_DEVICE void round_end(struct round *r, int fenced)
{
    const struct coll_call *c = r->c;
    unsigned block = r->block;
    weft_dev_sync_block();
    if (fenced && weft_dev_thread_x() < (unsigned)c->members)
        weft_dev_fence(ORDERED, SYSTEM);
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x())
        if (i != c->me)
            weft_dev_store_u64(&member_area(c, i)->done[c->me][block], r->number, RELAXED, SYSTEM);
    for (int i = (int)weft_dev_thread_x(); i < c->members; i += (int)weft_dev_block_dim_x())
        if (i != c->me)
            await_flag(r, &r->own->done[i][block], r->number, i);
}

/* ----------------------------------------------------------------------------------- packets */

WEFT_DEVICE int sends_to(const struct coll_call *c, int member)
{
    return c->flow == COLL_ALL || (c->flow == COLL_FROM ? c->me == c->root : member == c->root);
}

WEFT_DEVICE int receives_from(const struct coll_call *c, int member)
{
    return c->flow == COLL_ALL || (c->flow == COLL_FROM ? member == c->root : c->me == c->root);
}

/* Returns the slot of member `from` in the set of member `at`; `slots` slots share the set. */
WEFT_DEVICE char *ll_slot(const struct round *r, int at, int from, int slots)
{
    const struct coll_call *c = r->c;
    uint64_t bytes = c->set_bytes / (uint64_t)slots / COLL_UNIT_WIRE * COLL_UNIT_WIRE;
    return c->part[at] + r->set + (uint64_t)from * bytes;
}

/* Sends one unit. two: the unit has a second 8 bytes. */
WEFT_DEVICE void ll_send_unit(char *slot, uint64_t unit, struct weft_dev_vec16 v, int two,
                              uint32_t number)
{
    weft_dev_packet_store(slot + COLL_UNIT_WIRE * unit, v.lo, number);
    if (two)
        weft_dev_packet_store(slot + COLL_UNIT_WIRE * unit + 16, v.hi, number);
}

/* The two packets of a unit, or its only packet twice. */
struct ll_pair {
    struct weft_dev_vec16 a, b;
};

WEFT_DEVICE struct ll_pair ll_load_pair(const char *slot, uint64_t unit, int two)
{
    struct ll_pair p;
    p.a = weft_dev_load_vec16_relaxed(slot + COLL_UNIT_WIRE * unit);
    p.b = two ? weft_dev_load_vec16_relaxed(slot + COLL_UNIT_WIRE * unit + 16) : p.a;
    return p;
}

WEFT_DEVICE int ll_pair_is_ready(struct ll_pair p, uint32_t number)
{
    return weft_dev_packet_ready(p.a, number) && weft_dev_packet_ready(p.b, number);
}

WEFT_DEVICE struct weft_dev_vec16 ll_await_pair(struct round *r, struct ll_pair p, const char *slot,
                                                uint64_t unit, int two, int member)
{
    struct wait_progress progress = {0, 0, 0};
    while (!ll_pair_is_ready(p, r->ll_flag) && !r->failed) {
        check_wait(r, &progress, member, slot + COLL_UNIT_WIRE * unit, r->ll_flag,
                   weft_dev_packet_ready(p.a, r->ll_flag) ? p.b.lo >> 32 : p.a.lo >> 32);
        p = ll_load_pair(slot, unit, two);
    }
    struct weft_dev_vec16 v;
    v.lo = weft_dev_packet_value(p.a);
    v.hi = two ? weft_dev_packet_value(p.b) : 0;
    return v;
}

WEFT_DEVICE int unit_has_two(uint64_t bytes, uint64_t unit)
{
    return bytes - COLL_UNIT * unit > 8;
}

/* Loads the first unit of this thread, of the data for member `of`, while the ticket is still in
 * flight. It is the right unit when blocks draw their tickets in the order of the grid, see
 * reload_first_unit(). */
WEFT_DEVICE struct weft_dev_vec16 load_first_unit(const struct coll_call *c, int of)
{
    uint64_t unit = weft_dev_block_x() * (uint64_t)weft_dev_block_dim_x() + weft_dev_thread_x();
    struct weft_dev_vec16 nothing = {0, 0};
    if (c->flow == COLL_FROM && c->me != c->root)
        return nothing;
    return weft_dev_unit_load(c->src + (uint64_t)of * c->src_step, c->bytes, unit);
}

/* Returns the first unit of this thread in the round. loaded: result of load_first_unit(). If it
 * has to be loaded again, another block's load has brought it into the L2 cache. */
WEFT_DEVICE struct weft_dev_vec16 reload_first_unit(const struct round *r,
                                                    struct weft_dev_vec16 loaded, int of)
{
    const struct coll_call *c = r->c;
    if (r->block == weft_dev_block_x() || (c->flow == COLL_FROM && c->me != c->root))
        return loaded;
    return weft_dev_unit_load(c->src + (uint64_t)of * c->src_step, c->bytes, r->rank);
}

#endif

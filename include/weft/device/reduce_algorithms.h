/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms of device reductions (reduce.h checks the arguments): slices (two-shot), packets
 * to all or to a root (one-shot), and fragments over other paths. All combine in the order of the
 * team.
 *
 * The member that combines the elements of a weighted sum needs the factors of all members, because
 * elements of 16 and 8 bits are multiplied in binary32, and no algorithm sends binary32 elements.
 * With packets the factor travels in front of the elements, in the same message. For slices and
 * fragments the members exchange their factors first (staging.h). */
#ifndef WEFT_DEVICE_REDUCE_ALGORITHMS_H
#define WEFT_DEVICE_REDUCE_ALGORITHMS_H

#include <weft/device/arithmetic.h>
#include <weft/device/collective.h>
#include <weft/device/move.h>
#include <weft/device/staging.h>

/* ----------------------------------------------------------------------------------- slices
 *
 * Two-shot: member i combines slice i of all sources, which it reads in the order of the team, and
 * (for allreduce) stores the result into all destinations. Every element is combined once, so all
 * members have the same bits, and each link carries each byte once in and once out. */
struct weft_dev_reduction {
    struct weft_dev_group g;
    char *dst;
    const char *src;
    uint64_t bytes; /* size of a result */
    int from_segment, to_segment;
    uint64_t from, to; /* offsets of src and dst in these segments */
    struct weft_dev_staging staging;
    int each;                        /* 1: each member has its own result; 0: there is one result */
    int root;                        /* member that gets the one result, or WEFT_DEV_ALL */
    int weighted;                    /* 1: how.factor is this member's own factor */
    struct weft_dev_staging factors; /* staging buffer with the other members' factors */
    struct weft_dev_how how;
};

/* Value of `to`: all members get the result, each gets its own, or the number of the one that gets
 * it. */
enum { WEFT_DEV_ALL = -1, WEFT_DEV_EACH = -2 };

/* Arguments of a call. op may be WEFT_DEV_SCALED. */
struct weft_dev_combining {
    weft_type type;
    weft_op op;
    double factor;
    int to;
    int weighted;
};

/* The elements that a thread loads, combines and stores at a time: `bytes` bytes (16, or one
 * element's) at each of `places` (at most WEFT_DEV_UNROLL) offsets, `step` bytes apart. Offsets
 * from `end` on are not accessed. */
struct weft_dev_stripe {
    struct weft_dev_vec16 v[WEFT_DEV_UNROLL];
};

WEFT_DEVICE void weft_dev_stripe_load(struct weft_dev_stripe *s, const char *from, uint64_t at,
                                      uint64_t step, uint64_t end, unsigned bytes, int whole,
                                      int places)
{
    const struct weft_dev_vec16 nothing = {0, 0};
    WEFT_UNROLL
    for (int u = 0; u < places; u++) {
        s->v[u] = nothing;
        if (at + (uint64_t)u * step < end)
            s->v[u] = whole ? weft_dev_load_vec16_relaxed(from + at + (uint64_t)u * step)
                            : weft_dev_element_load(from + at + (uint64_t)u * step, bytes);
    }
}

WEFT_DEVICE void weft_dev_stripe_store(const struct weft_dev_stripe *s, char *to, uint64_t at,
                                       uint64_t step, uint64_t end, unsigned bytes, int whole,
                                       int places)
{
    WEFT_UNROLL
    for (int u = 0; u < places; u++)
        if (at + (uint64_t)u * step >= end)
            return;
        else if (whole)
            weft_dev_store_vec16(to + at + (uint64_t)u * step, s->v[u]);
        else
            weft_dev_element_store(to + at + (uint64_t)u * step, s->v[u], bytes);
}

WEFT_DEVICE const char *weft_dev_source_of(const struct weft_dev_reduction *r, int member)
{
    return weft_dev_place_at(&r->g, r->from_segment, r->from, member);
}

/* Number of members that get what this member combines, and the i-th of them. */
WEFT_DEVICE int weft_dev_results(const struct weft_dev_reduction *r)
{
    return !r->each && r->root < 0 ? r->g.m.n : 1;
}

WEFT_DEVICE int weft_dev_result_at(const struct weft_dev_reduction *r, int i)
{
    if (r->each)
        return r->g.m.me;
    return r->root < 0 ? weft_dev_next_member(&r->g, i) : r->root;
}

/* A member's factor in a weighted sum, after the factors have been exchanged. */
WEFT_DEVICE double weft_dev_factor_of(const struct weft_dev_reduction *r, int member)
{
    if (member == r->g.m.me)
        return r->how.factor;
    return weft_dev_f64_bits(weft_dev_member_word(&r->factors, member, 0));
}

/* Combines bytes begin ... end of the sources. r->to is an offset such that the result of a byte is
 * at the same distance from it as the byte is from the start of the sources. Up to WEFT_DEV_UNROLL
 * loads of each thread from one member are in flight together. */
WEFT_DEVICE void weft_dev_reduce_range(const struct weft_dev_reduction *r, struct weft_dev_how h,
                                       uint64_t begin, uint64_t end, unsigned bytes, int whole)
{
    /* Widened elements need registers; averages and scaled sums need code. */
    const int unroll = !h.more ? WEFT_DEV_UNROLL : h.widened == 8 ? 2 : 1;
    uint64_t step = (uint64_t)r->g.threads * bytes;
    for (uint64_t at = begin + r->g.rank * bytes; at < end; at += (uint64_t)unroll * step) {
        struct weft_dev_stripe next;
        struct weft_dev_wide acc[WEFT_DEV_UNROLL];
        weft_dev_stripe_load(&next, weft_dev_source_of(r, 0), at, step, end, bytes, whole, unroll);
        if (h.more && r->weighted)
            h.factor = weft_dev_factor_of(r, 0);
        WEFT_UNROLL
        for (int u = 0; u < unroll; u++)
            weft_dev_wide_begin(h, &acc[u], next.v[u]);
        for (int i = 1; i < r->g.m.n; i++) {
            if (h.more && r->weighted)
                h.factor = weft_dev_factor_of(r, i);
            weft_dev_stripe_load(&next, weft_dev_source_of(r, i), at, step, end, bytes, whole,
                                 unroll);
            WEFT_UNROLL
            for (int u = 0; u < unroll; u++)
                weft_dev_wide_add(h, &acc[u], next.v[u]);
        }
        WEFT_UNROLL
        for (int u = 0; u < unroll; u++)
            next.v[u] = weft_dev_wide_end(h, &acc[u]);
        for (int i = 0; i < weft_dev_results(r); i++) {
            int member = weft_dev_result_at(r, i);
            char *to = weft_dev_place_at(&r->g, r->to_segment, r->to, member);
            weft_dev_stripe_store(&next, to, at, step, end, bytes, whole, unroll);
        }
    }
}

/* Separate functions for: operations except the average, on types of more than 16 bits; the same on
 * types of 16 bits, which take more registers; and all others. Separate, so that none slows down
 * another. */
WEFT_DEVICE_NOINLINE void weft_dev_reduce_vectors(const struct weft_dev_reduction *r,
                                                  uint64_t begin, uint64_t end)
{
    struct weft_dev_how h = r->how;
    h.more = 0;
    h.widened = 0;
    weft_dev_reduce_range(r, h, begin, end, 16, 1);
}

WEFT_DEVICE_NOINLINE void weft_dev_reduce_elements(const struct weft_dev_reduction *r,
                                                   uint64_t begin, uint64_t end)
{
    struct weft_dev_how h = r->how;
    h.more = 0;
    h.widened = 0;
    weft_dev_reduce_range(r, h, begin, end, (unsigned)weft_dev_type_bytes(h.type), 0);
}

WEFT_DEVICE_NOINLINE void weft_dev_reduce_narrow(const struct weft_dev_reduction *r, uint64_t begin,
                                                 uint64_t end, int whole)
{
    struct weft_dev_how h = r->how;
    h.more = 0;
    h.widened = whole ? 8 : 1;
    if (whole)
        weft_dev_reduce_range(r, h, begin, end, 16, 1);
    else
        weft_dev_reduce_range(r, h, begin, end, 2, 0);
}

WEFT_DEVICE_NOINLINE void weft_dev_reduce_more(const struct weft_dev_reduction *r, uint64_t begin,
                                               uint64_t end, int whole)
{
    struct weft_dev_how h = r->how;
    unsigned bytes = whole ? 16 : (unsigned)weft_dev_type_bytes(h.type);
    int widened = h.widened;
    h.more = 1;
    if (!widened) {
        h.widened = 0;
        weft_dev_reduce_range(r, h, begin, end, bytes, whole);
    } else if (!whole) {
        h.widened = 1;
        weft_dev_reduce_range(r, h, begin, end, bytes, 0);
    } else if (widened == 8) {
        h.widened = 8;
        weft_dev_reduce_range(r, h, begin, end, 16, 1);
    } else {
        h.widened = 16;
        weft_dev_reduce_range(r, h, begin, end, 16, 1);
    }
}

/* more: 0 when the caller knows that r->how.more is 0, so that its code is left out. */
WEFT_DEVICE void weft_dev_reduce_slice(const struct weft_dev_reduction *r, uint64_t begin,
                                       uint64_t end, int more)
{
    uint64_t vectors = begin;
    if (!(((r->from + begin) | (r->to + begin)) & 15))
        vectors = begin + ((end - begin) & ~(uint64_t)15);
    if (more && r->how.more) {
        weft_dev_reduce_more(r, begin, vectors, 1);
        weft_dev_reduce_more(r, vectors, end, 0);
    } else if (r->how.widened) {
        weft_dev_reduce_narrow(r, begin, vectors, 1);
        weft_dev_reduce_narrow(r, vectors, end, 0);
    } else {
        weft_dev_reduce_vectors(r, begin, vectors);
        weft_dev_reduce_elements(r, vectors, end);
    }
}

/* The range of the result, in bytes, that this member combines. From here on the sources begin
 * where that member's result does. */
WEFT_DEVICE void weft_dev_reduce_part(struct weft_dev_reduction *r, uint64_t *begin, uint64_t *end)
{
    uint64_t n = (uint64_t)r->g.m.n, me = (uint64_t)r->g.m.me, slice = r->bytes;
    *begin = 0;
    if (r->each) {
        r->from += me * r->bytes;
        r->src += me * r->bytes;
    } else {
        /* All slices but the last are multiples of 16 bytes. */
        slice = ((r->bytes + n - 1) / n + 15) & ~(uint64_t)15;
        *begin = slice * me < r->bytes ? slice * me : r->bytes;
    }
    *end = slice < r->bytes - *begin ? *begin + slice : r->bytes;
}

WEFT_DEVICE int weft_dev_reduce_slices_of(struct weft_dev_reduction *r, int more)
{
    uint64_t begin, end;
    int status = weft_dev_meeting(&r->g, WEFT_DEV_SYNC);
    if (status)
        return status;
    weft_dev_reduce_part(r, &begin, &end);
    weft_dev_reduce_slice(r, begin, end, more);
    return weft_dev_meeting(&r->g, r->each ? WEFT_DEV_SYNC : WEFT_DEV_BARRIER);
}

WEFT_DEVICE_NOINLINE int weft_dev_reduce_slices(struct weft_dev_reduction *r)
{
    return weft_dev_reduce_slices_of(r, 1);
}

WEFT_DEVICE_NOINLINE int weft_dev_reduce_slices_plain(struct weft_dev_reduction *r)
{
    return weft_dev_reduce_slices_of(r, 0);
}

/* ---------------------------------------------------------------------------------- packets
 *
 * One-shot: each member stores its source (for reducescatter, the receiver's part of it) into its
 * slot of the staging buffer at every other member, or at the root alone. A receiver combines the
 * contents of its own slots. A packet carries its sequence number, so there is neither fence nor
 * sync: the latency is one trip over the link, for which only receivers wait. Each member
 * sends 2 x (n - 1) x bytes, to a root 2 x bytes, and 16 bytes more to each receiver in a weighted
 * sum. See staging.h for the slots. */

/* In a weighted sum the sender's factor stands before the elements, in the space of one unit. */
enum { WEFT_DEV_FACTOR_WIRE = 32, WEFT_DEV_FACTOR_PAYLOAD = 16 };

/* Whether a reduction of `bytes` bytes uses packets, in a team whose members can load and store
 * each other's memory. */
WEFT_DEVICE int weft_dev_reduce_is_small(int team, size_t bytes, int weighted)
{
    size_t most = weft_dev_staging_payload(team), factor = weighted ? WEFT_DEV_FACTOR_PAYLOAD : 0;
    return bytes <= most - factor;
}

/* Space of the factor in a slot. h.more is a compile-time constant in the callers. */
WEFT_DEVICE uint32_t weft_dev_factor_wire(const struct weft_dev_reduction *r, struct weft_dev_how h)
{
    return h.more && r->weighted ? WEFT_DEV_FACTOR_WIRE : 0;
}

/* This member's slot at another member. */
WEFT_DEVICE char *weft_dev_slot_there(const struct weft_dev_reduction *r, int member)
{
    return (char *)(uintptr_t)(weft_dev_part(WEFT_DEV_AREAS, weft_dev_member_pe(&r->g.m, member)) +
                               r->staging.offset + (uint64_t)(uint32_t)r->g.m.me * r->staging.slot);
}

/* A round that renews slots sends all slots whole, to all members. */
WEFT_DEVICE int weft_dev_reduce_sends_to(const struct weft_dev_reduction *r, int member, int rooted,
                                         int whole)
{
    return !rooted || whole || member == r->root;
}

WEFT_DEVICE void weft_dev_reduce_send_factor(const struct weft_dev_reduction *r, unsigned active,
                                             int rooted, int whole)
{
    for (int i = (int)r->g.rank; i < r->g.m.n - 1; i += (int)active) {
        int member = weft_dev_next_member(&r->g, i);
        if (!weft_dev_reduce_sends_to(r, member, rooted, whole))
            continue;
        weft_dev_packet_store(weft_dev_slot_there(r, member), weft_dev_bits_f64(r->how.factor),
                              r->staging.number);
        if (whole)
            weft_dev_packet_store(weft_dev_slot_there(r, member) + 16, 0, r->staging.number);
    }
}

WEFT_DEVICE void weft_dev_reduce_send(const struct weft_dev_reduction *r, struct weft_dev_how h,
                                      unsigned active, int rooted)
{
    int whole = weft_dev_renews(r->g.number);
    uint32_t front = weft_dev_factor_wire(r, h);
    uint32_t units = whole ? (r->staging.slot - front) / 32 : (uint32_t)((r->bytes + 15) / 16);
    if (front)
        weft_dev_reduce_send_factor(r, active, rooted, whole);
    for (uint32_t u = r->g.rank; u < units; u += active) {
        uint64_t place = front + 32 * (uint64_t)u;
        struct weft_dev_vec16 v = weft_dev_unit_load(r->src, r->bytes, u);
        for (int i = 0; i < r->g.m.n - 1; i++) {
            int member = weft_dev_next_member(&r->g, i);
            if (!weft_dev_reduce_sends_to(r, member, rooted, whole))
                continue;
            if (r->each)
                v = weft_dev_unit_load(r->src + (size_t)member * r->bytes, r->bytes, u);
            char *at = weft_dev_slot_there(r, member) + place;
            weft_dev_packet_store(at, v.lo, r->staging.number);
            if (whole || r->bytes - 16 * (size_t)u > 8)
                weft_dev_packet_store(at + 16, v.hi, r->staging.number);
        }
    }
}

/* The packets of one unit in a member's slot, and of its factor. */
struct weft_dev_taken {
    struct weft_dev_vec16 lo, hi, factor;
};

WEFT_DEVICE struct weft_dev_taken weft_dev_taken_load(const char *slot, const char *at, int two,
                                                      uint32_t front)
{
    const struct weft_dev_vec16 nothing = {0, 0};
    struct weft_dev_taken t;
    t.lo = weft_dev_load_vec16_relaxed(at);
    t.hi = two ? weft_dev_load_vec16_relaxed(at + 16) : nothing;
    t.factor = front ? weft_dev_load_vec16_relaxed(slot) : nothing;
    return t;
}

/* Returns the unit of another member, and sets how its elements are combined; *status gets the
 * error of a wait that times out. The loads of its packets are in flight together. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_reduce_take(const struct weft_dev_reduction *r,
                                                       const char *slot, uint32_t unit, int member,
                                                       struct weft_dev_how *h, int *status)
{
    uint32_t front = weft_dev_factor_wire(r, *h), number = r->staging.number;
    int two = r->bytes - 16 * (size_t)unit > 8, of = r->g.operation, team = r->g.m.number;
    const char *at = slot + front + 32 * (size_t)unit;
    struct weft_dev_taken t = weft_dev_taken_load(slot, at, two, front);
    struct weft_dev_vec16 v = {0, 0};
    if (!WEFT_DEV_LIKELY(weft_dev_packet_ready(t.lo, number) &&
                         (!two || weft_dev_packet_ready(t.hi, number)) &&
                         (!front || weft_dev_packet_ready(t.factor, number)))) {
        *status |= weft_dev_slot_wait(of, team, member, at, number);
        if (two && !*status)
            *status |= weft_dev_slot_wait(of, team, member, at + 16, number);
        if (front && !*status)
            *status |= weft_dev_slot_wait(of, team, member, slot, number);
        t = weft_dev_taken_load(slot, at, two, front);
    }
    v.lo = weft_dev_packet_value(t.lo);
    if (two)
        v.hi = weft_dev_packet_value(t.hi);
    if (front)
        h->factor = weft_dev_f64_bits(weft_dev_packet_value(t.factor));
    return v;
}

/* One unit of all members, combined. */
WEFT_DEVICE struct weft_dev_vec16 weft_dev_reduce_unit(const struct weft_dev_reduction *r,
                                                       uint32_t unit, struct weft_dev_how h,
                                                       int *status)
{
    const struct weft_dev_vec16 nothing = {0, 0};
    struct weft_dev_wide wide;
    weft_dev_wide_begin(h, &wide, nothing);
    const char *slot = weft_dev_staging_slot(&r->staging, 0);
    for (int i = 0; i < r->g.m.n && !*status; i++, slot += r->staging.slot) {
        struct weft_dev_vec16 v;
        if (i == r->g.m.me) {
            h.factor = r->how.factor;
            v = weft_dev_unit_load(r->src + (r->each ? (size_t)i * r->bytes : 0), r->bytes, unit);
        } else {
            v = weft_dev_reduce_take(r, slot, unit, i, &h, status);
        }
        if (i)
            weft_dev_wide_add(h, &wide, v);
        else
            weft_dev_wide_begin(h, &wide, v);
    }
    return weft_dev_wide_end(h, &wide);
}

/* Number of threads that send and combine units: all, or the first warp of a block with few units.
 * The other threads do not read the round's counts: they may come so late that the first thread has
 * already incremented them. */
WEFT_DEVICE unsigned weft_dev_round_threads(const struct weft_dev_group *g, size_t bytes)
{
    int few = g->scope == WEFT_DEV_BLOCK && bytes <= 16 * WEFT_WARP_LANES;
    return few && g->threads > WEFT_WARP_LANES ? WEFT_WARP_LANES : g->threads;
}

/* Sync of these threads: all have read the counts before the first thread changes them. */
WEFT_DEVICE void weft_dev_round_sync(const struct weft_dev_group *g, unsigned active)
{
    if (g->scope == WEFT_DEV_BLOCK && active > WEFT_WARP_LANES)
        weft_dev_sync_block();
    else if (g->scope != WEFT_DEV_THREAD)
        weft_dev_sync_warp(weft_dev_warp_mask());
}

/* This thread's part of the round. It sends and combines the same units, so that dst may be src. A
 * root sends only what renews slots. */
WEFT_DEVICE int weft_dev_reduce_round(struct weft_dev_reduction *r, struct weft_dev_how h,
                                      unsigned active, int rooted, uint64_t before)
{
    int status = WEFT_OK, takes = !rooted || r->g.m.me == r->root;
    if (!rooted || !takes || weft_dev_renews(r->g.number))
        status = weft_dev_set_await(&r->g, before);
    if (!status)
        weft_dev_reduce_send(r, h, active, rooted);
    weft_dev_round_sync(&r->g, active);
    for (uint32_t u = r->g.rank; takes && !status && 16 * (size_t)u < r->bytes; u += active) {
        struct weft_dev_vec16 v = weft_dev_reduce_unit(r, u, h, &status);
        size_t at = 16 * (size_t)u;
        if (status)
            break;
        weft_dev_packet_deliver(r->dst + at, v.lo, r->bytes - at);
        if (at + 8 < r->bytes)
            weft_dev_packet_deliver(r->dst + at + 8, v.hi, r->bytes - at - 8);
    }
    return status;
}

/* The root sets a flag at the other members when none of its threads reads the slots of the round
 * any more; they wait for the flag in a later round (staging.h). Relaxed stores suffice, because
 * its threads have used what they loaded. The flags are set before the sync that ends the call:
 * after that sync any thread may set them again in a later call. */
WEFT_DEVICE void weft_dev_rooted_tell(const struct weft_dev_reduction *r, unsigned active,
                                      uint64_t flag)
{
    struct weft_dev_group g = r->g;
    g.number = flag;
    weft_dev_round_sync(&r->g, active);
    for (int i = (int)r->g.rank; i < r->g.m.n; i += (int)active)
        if (i != r->root)
            weft_dev_flag_set(&g, i, weft_dev_state.n_pes + r->root);
}

/* rooted: only r->root gets the result. */
WEFT_DEVICE int weft_dev_reduce_packets(struct weft_dev_reduction *r, struct weft_dev_how h,
                                        int rooted)
{
    struct weft_dev_area *area = weft_dev_own_area(&r->g);
    unsigned active = weft_dev_round_threads(&r->g, r->bytes);
    int status = WEFT_OK;
    r->g.number = 0;
    if (r->g.rank < active) {
        r->g.number = weft_dev_load_u64(&area->packets, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) + 1;
        uint64_t flag = 0;
        uint64_t before = weft_dev_load_u64(&area->rooted, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        if (rooted)
            flag = weft_dev_load_u64(&area->phases, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) + 1;
        r->staging = weft_dev_staging_of(r->g.m.number, r->g.number);
        status = weft_dev_reduce_round(r, h, active, rooted, before);
        if (rooted && r->g.m.me == r->root)
            weft_dev_rooted_tell(r, active, flag);
        if (rooted && r->g.rank == 0)
            weft_dev_rooted_end(&r->g, area, r->root, flag);
    }
    return weft_dev_group_end(&r->g, &area->packets, status);
}

/* ----------------------------------------------------------------------------------- carried
 *
 * Slices for a team with members that cannot load and store each other's memory. Such a team sends
 * no packets of elements. Each member gets its slice of all sources, in fragments, into its own
 * slot of its own staging buffer, combines them, and puts the result into all destinations. */
/* Combines the elements of `with` into `into`. begin: `into` becomes a copy of `with`. */
WEFT_DEVICE_NOINLINE void weft_dev_combine_range(int scope, char *into, const char *with,
                                                 uint64_t bytes, struct weft_dev_how h, int begin)
{
    unsigned width = (unsigned)weft_dev_type_bytes(h.type);
    h.widened = 0;
    for (uint64_t at = weft_dev_scope_rank(scope) * (uint64_t)width; at < bytes;
         at += (uint64_t)weft_dev_scope_threads(scope) * width) {
        struct weft_dev_wide w;
        struct weft_dev_vec16 v = weft_dev_element_load(with + at, width);
        if (begin)
            weft_dev_wide_begin(h, &w, v);
        else
            w.v = weft_dev_element_load(into + at, width);
        if (!begin)
            weft_dev_wide_add(h, &w, v);
        weft_dev_element_store(into + at, w.v, width);
    }
}

/* The same for types of 16 and 8 bits: `into` holds binary32. */
WEFT_DEVICE_NOINLINE void weft_dev_widen_range(int scope, char *into, const char *with,
                                               uint64_t bytes, struct weft_dev_how h, int begin)
{
    unsigned width = (unsigned)weft_dev_type_bytes(h.type);
    h.widened = 1;
    for (uint64_t i = weft_dev_scope_rank(scope); i < bytes / width;
         i += weft_dev_scope_threads(scope)) {
        struct weft_dev_wide w;
        struct weft_dev_vec16 v = weft_dev_element_load(with + width * i, width);
        if (begin) {
            weft_dev_wide_begin(h, &w, v);
        } else {
            struct weft_dev_vec16 old = weft_dev_element_load(into + 4 * i, 4);
            w.f[0] = weft_dev_f32_bits((uint32_t)old.lo);
            weft_dev_wide_add(h, &w, v);
        }
        v.lo = weft_dev_bits_f32(w.f[0]);
        weft_dev_element_store(into + 4 * i, v, 4);
    }
}

/* Converts the combined values to the form of the result. */
WEFT_DEVICE_NOINLINE void weft_dev_end_range(int scope, char *to, const char *from, uint64_t bytes,
                                             struct weft_dev_how h)
{
    unsigned width = (unsigned)weft_dev_type_bytes(h.type), wide = h.widened ? 4 : width;
    h.widened = h.widened ? 1 : 0;
    for (uint64_t i = weft_dev_scope_rank(scope); i < bytes / width;
         i += weft_dev_scope_threads(scope)) {
        struct weft_dev_wide w;
        w.v = weft_dev_element_load(from + wide * i, wide);
        w.f[0] = weft_dev_f32_bits((uint32_t)w.v.lo);
        weft_dev_element_store(to + width * i, weft_dev_wide_end(h, &w), width);
    }
}

/* Gets `bytes` bytes at offset `at` of a member's source to `to`. All threads of the scope call
 * it. */
WEFT_DEVICE void weft_dev_piece_get(const struct weft_dev_reduction *r, int member, uint64_t at,
                                    char *to, uint64_t bytes)
{
    weft_dev_get(r->g.scope, to, r->src + at, bytes, weft_dev_member_pe(&r->g.m, member), 0);
}

/* Combines one fragment of all members; returns the address of the result. */
WEFT_DEVICE char *weft_dev_combine_pieces(const struct weft_dev_reduction *r, char *slot,
                                          uint64_t from, uint64_t bytes)
{
    char *other = slot + weft_dev_state.slot_bytes[r->g.m.number >= WEFT_DEV_WIDE_TEAMS] / 2;
    for (int i = 0; i < r->g.m.n; i++) {
        struct weft_dev_how h = r->how;
        weft_dev_piece_get(r, i, from, other, bytes);
        if (r->weighted)
            h.factor = weft_dev_factor_of(r, i);
        if (h.widened)
            weft_dev_widen_range(r->g.scope, slot, other, bytes, h, i == 0);
        else
            weft_dev_combine_range(r->g.scope, slot, other, bytes, h, i == 0);
        weft_dev_scope_sync(r->g.scope);
    }
    weft_dev_end_range(r->g.scope, other, slot, bytes, r->how);
    weft_dev_scope_sync(r->g.scope);
    return other;
}

WEFT_DEVICE void weft_dev_reduce_piece(const struct weft_dev_reduction *r, char *slot, uint64_t at,
                                       uint64_t bytes)
{
    const char *result = weft_dev_combine_pieces(r, slot, at, bytes);
    for (int i = 0; i < weft_dev_results(r); i++)
        weft_dev_put(r->g.scope, r->dst + at, result, bytes,
                     weft_dev_member_pe(&r->g.m, weft_dev_result_at(r, i)), 0);
}

WEFT_DEVICE int weft_dev_reduce_pieces(struct weft_dev_reduction *r)
{
    int status = weft_dev_meeting(&r->g, WEFT_DEV_SYNC);
    if (status)
        return status;
    uint64_t begin, end, most = weft_dev_staging_payload(r->g.m.number) & ~(uint64_t)15;
    if (r->how.widened)
        most = most / (r->how.widened == 16 ? 4 : 2) & ~(uint64_t)15;
    weft_dev_reduce_part(r, &begin, &end);
    r->staging = weft_dev_staging_of(r->g.m.number, 0);
    char *slot = weft_dev_staging_slot(&r->staging, r->g.m.me);
    for (uint64_t at = begin; at < end; at += most)
        weft_dev_reduce_piece(r, slot, at, end - at < most ? end - at : most);
    return weft_dev_meeting(&r->g, WEFT_DEV_BARRIER);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The transport `gda`: operations on PEs without direct addresses become RDMA requests. The calling
 * GPU threads themselves write the requests to a send queue of the NIC, ring its doorbell and poll
 * for completion (gda_queue.h); no host thread takes part.
 *
 * Several queues lead to each PE. A block uses one of them for its puts and gets; large ones use
 * one queue of each NIC. Atomics and signals on one address use one queue, whichever thread issues
 * them. A queue delivers in its order, except bulk data where memory keys with relaxed ordering
 * exist. For these a completion says only that the peer's NIC has the data; a flush (a read after
 * them in the same queue) says that they are in memory. Values, signals, flags and packets use keys
 * with strict ordering, and never overtake. Between queues only completion orders, so a fence waits
 * for it. Lanes of a warp that write values or fetch together reserve, publish and wait together.
 * Adjacent values go into one inline write, and each lane stores its own value into it.
 *
 * PEs that are reached by DC share the queues of a group of PEs (transport `dc`, dc.h): their
 * requests take the same functions, which store each with the address of its target.
 *
 * A put whose source is not registered is copied into the requests (inline). A get into memory that
 * is not registered goes through the queue's result slots. An error completion leaves a record with
 * the queue and the syndrome, and the job fails. */
#ifdef WEFT_DEVICE_P2P
#error "<weft/device/gda.h> stands in place of <weft/device/p2p.h>"
#elif !defined WEFT_DEVICE_H

/* Included by a program, before or in place of <weft_device.h>, which includes this file again. */
#ifndef WEFT_DEVICE_GDA
#define WEFT_DEVICE_GDA
#endif
#include <weft_device.h>

#elif !defined WEFT_DEVICE_GDA_H
#define WEFT_DEVICE_GDA_H

#include <weft/device/arithmetic.h>
#include <weft/device/gda_span.h>
#include <weft/device/run.h>

/* ------------------------------------------------------------------------------- single values */

/* Stores one lane's value into an inline write, in words of at most 4 bytes, because inline data
 * begin 4 bytes after a multiple of 8. */
WEFT_DEVICE void weft_dev_gda_part(const struct weft_dev_gda_ring *ring, uint64_t index,
                                   uint32_t at, uint64_t value, unsigned bytes)
{
    char *to = weft_dev_gda_at(ring, index, WEFT_DEV_GDA_INLINE_AT + at);
    if (bytes == 8) {
        *(weft_dev_any_u32 *)(void *)to = (uint32_t)value;
        to = weft_dev_gda_at(ring, index, WEFT_DEV_GDA_INLINE_AT + at + 4);
        *(weft_dev_any_u32 *)(void *)to = (uint32_t)(value >> 32);
    } else if (bytes == 4) {
        *(weft_dev_any_u32 *)(void *)to = (uint32_t)value;
    } else if (bytes == 2) {
        *(weft_dev_any_u16 *)(void *)to = (uint16_t)value;
    } else {
        *(weft_dev_any_u8 *)(void *)to = (uint8_t)value;
    }
}

/* One value, in one block whose reservation returned `turns`. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_p_late(struct weft_dev_gda_queue *q,
                                              struct weft_dev_gda_operation op,
                                              struct weft_dev_gda_place at, uint64_t value,
                                              uint32_t bytes, uint64_t turns)
{
    struct weft_dev_gda_span span;
    if (!weft_dev_gda_begin_at(&span, q, op, 1, turns, weft_dev_gda_is_exclusive(q, op.pe)))
        return;
    weft_dev_gda_value(&span.ring, span.base, at, value, bytes, 0);
    weft_dev_gda_give(&span);
}

/* One value from one thread, in a block of its own. Handles only the common case inline: it is this
 * block's turn and the ring has space, with 32-bit counts that do not wrap. Here the number of
 * instructions matters most (tools/gda_instructions.sh). Returns 0 in other cases; *turns is what
 * the reservation of the block returned. */
WEFT_DEVICE int weft_dev_gda_p_at_once(struct weft_dev_gda_queue *q, struct weft_dev_gda_place at,
                                       uint64_t value, uint32_t bytes, int pe, uint64_t *turns)
{
    struct weft_dev_gda_ring ring = weft_dev_gda_ring_of(q);
    int exclusive = weft_dev_gda_is_exclusive(q, pe);
    *turns = weft_dev_gda_reserve_any(q, 1, exclusive);
    uint64_t done = weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
    uint32_t base = (uint32_t)(*turns >> 32);
    if (!WEFT_DEV_LIKELY(!weft_dev_gda_ahead(*turns) && base != ~(uint32_t)0 &&
                         weft_dev_gda_room_at_once(&ring, (uint32_t)done, base + 1)))
        return 0;
    weft_dev_gda_value(&ring, base, at, value, bytes, 0);
    weft_dev_gda_publish_any(q, &ring, base, base + 1, 0, exclusive);
    return 1;
}

WEFT_DEVICE void weft_dev_gda_p_one(struct weft_dev_gda_queue *q, struct weft_dev_gda_operation op,
                                    struct weft_dev_gda_place at, uint64_t value, uint32_t bytes)
{
    uint64_t turns;
    if (!WEFT_DEV_LIKELY(weft_dev_gda_p_at_once(q, at, value, bytes, op.pe, &turns)))
        weft_dev_gda_p_late(q, op, at, value, bytes, turns);
}

/* Number of blocks of an inline write on that queue. */
WEFT_DEVICE uint32_t weft_dev_gda_inline_blocks_of(const struct weft_dev_gda_queue *q,
                                                   uint32_t bytes)
{
    return weft_dev_gda_address_segments(q)
               ? weft_dev_gda_addressed_blocks(q, weft_dev_gda_inline_segments(bytes))
               : weft_dev_gda_inline_blocks(bytes);
}

/* weft_dev_gda_inline_head() for a DC peer: its data begin behind the address as well. */
WEFT_DEVICE void weft_dev_gda_inline_head_addressed(struct weft_dev_gda_queue *q, uint64_t index,
                                                    struct weft_dev_gda_place at, uint32_t bytes,
                                                    int pe, int ends)
{
    enum { HEAD = 2 }; /* segments */
    struct weft_dev_gda_draft draft;
    uint32_t length = HEAD + weft_dev_gda_address_segments(q);
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_inline_head(&draft.ring, index, at, bytes, 0);
    weft_dev_gda_store_addressed(q, index, pe, &draft, HEAD, ends);
    *(weft_dev_any_u32 *)(void *)weft_dev_gda_at(&q->ring, index,
                                                 (uint64_t)length * WEFT_DEV_GDA_SEGMENT) =
        weft_dev_be32(bytes | 0x80000000u);
}

/* For the lanes `together`. Each run of adjacent values is one inline write; the runs toward one PE
 * are one span. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_p_together(const void *symmetric, unsigned each,
                                                  uint64_t value, int pe, weft_lane_mask together)
{
    struct weft_dev_gda_operation op = weft_dev_gda_operation_of(WEFT_DEV_OP_P, symmetric, pe);
    struct weft_dev_gda_queue *q = weft_dev_gda_own_queue(pe, 0);
    struct weft_dev_gda_group g;
    struct weft_dev_run run;
    int begun = 0;
    weft_dev_run_find(&run, together, (uintptr_t)op.symmetric, each, op.pe);
    g.at = ~(uint64_t)0;
    if (run.leads) {
        weft_lane_mask mask = weft_dev_active_mask();
        uint32_t bytes = run.values * each;
        uint64_t whole = bytes;
        mask = weft_dev_match_any_u64(mask, (uintptr_t)q);
        /* The key after the call that places the group: less is held over it. */
        struct weft_dev_gda_place spot = weft_dev_gda_spot(symmetric, pe, &whole);
        weft_dev_gda_make_group(&g, mask, weft_dev_gda_inline_blocks_of(q, bytes));
        spot = weft_dev_gda_keyed(q, spot, op.pe);
        begun = weft_dev_gda_begin_made(&g, q, op, 0);
        if (begun && weft_dev_gda_address_segments(q))
            weft_dev_gda_inline_head_addressed(q, g.at, spot, bytes, op.pe, (int)g.ends);
        else if (begun)
            weft_dev_gda_inline_head(&q->ring, g.at, spot, bytes,
                                     g.ends ? WEFT_DEV_GDA_SIGNALED : 0);
    }
    uint64_t at = weft_dev_shuffle_u64(run.mask, begun ? g.at : ~(uint64_t)0, run.leader);
    if (at != ~(uint64_t)0 && run.stands)
        weft_dev_gda_part(&q->ring, at,
                          run.at * each + weft_dev_gda_address_segments(q) * WEFT_DEV_GDA_SEGMENT,
                          value, each);
    weft_dev_sync_warp(run.mask);
    if (begun)
        weft_dev_gda_give_group(&g);
    weft_dev_sync_warp(together); /* the lanes stay converged */
}

/* p of one lane. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_p_alone(const void *symmetric, unsigned bytes,
                                               uint64_t value, int pe)
{
    struct weft_dev_gda_queue *q = weft_dev_gda_own_queue(pe, weft_dev_block_threads() == 1);
    uint64_t whole = bytes;
    weft_dev_gda_p_one(q, weft_dev_gda_operation_of(WEFT_DEV_OP_P, symmetric, pe),
                       weft_dev_gda_there(q, symmetric, pe, &whole), value, bytes);
}

/* p. A block of one thread needs no other lanes. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_p(const void *symmetric, unsigned bytes, uint64_t value,
                                         int pe)
{
    weft_lane_mask together = weft_dev_block_threads() == 1 ? 0 : weft_dev_active_mask();
    weft_lane_mask group = together;
    if (!(together & (together - 1))) {
        weft_dev_gda_p_alone(symmetric, bytes, value, pe);
        return;
    }
    if (!weft_dev_lanes_independent())
        group = weft_dev_match_any_u64(together, (uintptr_t)weft_dev_gda_own_queue(pe, 0));
    WEFT_DEV_IN_TURN(together, group)
    weft_dev_gda_p_together(symmetric, bytes, value, pe, group);
}

/* ------------------------------------------------------------------------- fetching, atomics */

/* The NIC's operation for an atomic; FETCH is an ADD of 0. */
WEFT_DEVICE int weft_dev_gda_does(int what)
{
    return what == WEFT_DEV_ATOMIC_AND                                   ? WEFT_DEV_GDA_AND
           : what == WEFT_DEV_ATOMIC_OR                                  ? WEFT_DEV_GDA_OR
           : what == WEFT_DEV_ATOMIC_XOR                                 ? WEFT_DEV_GDA_XOR
           : what == WEFT_DEV_ATOMIC_CSWAP                               ? WEFT_DEV_GDA_CSWAP
           : what == WEFT_DEV_ATOMIC_SWAP || what == WEFT_DEV_ATOMIC_SET ? WEFT_DEV_GDA_SWAP
                                                                         : WEFT_DEV_GDA_ADD;
}

WEFT_DEVICE void weft_dev_gda_store_atomic(const struct weft_dev_gda_ring *ring, uint64_t index,
                                           const struct weft_dev_request *r,
                                           struct weft_dev_gda_place at,
                                           struct weft_dev_gda_place to, uint32_t flags)
{
    int does = weft_dev_gda_does(r->what);
    uint64_t value = r->what == WEFT_DEV_ATOMIC_FETCH ? 0 : r->value;
    if (r->bytes == 4)
        weft_dev_gda_atomic4(ring, index, does, at, to, (uint32_t)value, (uint32_t)r->compare,
                             flags);
    else
        weft_dev_gda_atomic8(ring, index, does, at, to, value, r->compare, flags);
}

/* Waits until the result slot of `index` is free, and takes it until the lane has read the
 * result. */
WEFT_DEVICE int weft_dev_gda_take_result(struct weft_dev_gda_queue *q, uint64_t index,
                                         const struct weft_dev_request *r)
{
    struct weft_dev_patience patience;
    uint32_t polls = 0;
    WEFT_NO_UNROLL
    while (!weft_dev_gda_result_free(q, index))
        if (weft_dev_patience_step(
                &patience, weft_dev_awaited_of(r->operation, r->pe, -1, q->busy, WEFT_EQ, 0),
                &polls, 1)) {
            weft_dev_patience_end(&patience, polls);
            weft_dev_fail(WEFT_ERR_TIMEOUT);
            return 0;
        }
    weft_dev_patience_end(&patience, polls);
    weft_dev_gda_result_take(q, index);
    return 1;
}

/* The sum of real numbers, as bit patterns. */
WEFT_DEVICE uint64_t weft_dev_gda_added(int what, uint64_t a, uint64_t b)
{
    if (what == WEFT_DEV_ATOMIC_ADD_F32)
        return weft_dev_bits_f32(weft_dev_f32_bits((uint32_t)a) + weft_dev_f32_bits((uint32_t)b));
    if (what == WEFT_DEV_ATOMIC_ADD_F64)
        return weft_dev_bits_f64(weft_dev_f64_bits(a) + weft_dev_f64_bits(b));
    if (what == WEFT_DEV_ATOMIC_ADD_F16X2)
        return weft_dev_f16_f32(weft_dev_f32_f16((uint16_t)a) + weft_dev_f32_f16((uint16_t)b)) |
               (uint32_t)weft_dev_f16_f32(weft_dev_f32_f16((uint16_t)(a >> 16)) +
                                          weft_dev_f32_f16((uint16_t)(b >> 16)))
                   << 16;
    return weft_dev_bf16_f32(weft_dev_f32_bf16((uint16_t)a) + weft_dev_f32_bf16((uint16_t)b)) |
           (uint32_t)weft_dev_bf16_f32(weft_dev_f32_bf16((uint16_t)(a >> 16)) +
                                       weft_dev_f32_bf16((uint16_t)(b >> 16)))
               << 16;
}

/* Number of blocks of the read or the atomic of one lane, on an RC queue. */
WEFT_DEVICE uint32_t weft_dev_gda_rc_fetch_blocks(const struct weft_dev_request *r)
{
    return r->operation == WEFT_DEV_OP_ATOMIC
               ? weft_dev_gda_atomic_blocks(weft_dev_gda_does(r->what), (unsigned)r->bytes)
               : 1;
}

/* Number of its segments there. */
WEFT_DEVICE uint32_t weft_dev_gda_fetch_segments(const struct weft_dev_request *r)
{
    enum { READ = 3, ATOMIC = 4, MASKED = 5 };
    return r->operation != WEFT_DEV_OP_ATOMIC    ? READ
           : weft_dev_gda_rc_fetch_blocks(r) > 1 ? MASKED
                                                 : ATOMIC;
}

WEFT_DEVICE uint32_t weft_dev_gda_fetch_blocks(const struct weft_dev_gda_queue *q,
                                               const struct weft_dev_request *r)
{
    return weft_dev_gda_address_segments(q)
               ? weft_dev_gda_addressed_blocks(q, weft_dev_gda_fetch_segments(r))
               : weft_dev_gda_rc_fetch_blocks(r);
}

/* Stores the read or the atomic of one lane at `index`. */
WEFT_DEVICE void weft_dev_gda_store_fetch(const struct weft_dev_gda_ring *ring, uint64_t index,
                                          const struct weft_dev_request *r,
                                          struct weft_dev_gda_place at,
                                          struct weft_dev_gda_place to, uint32_t flags)
{
    if (r->operation == WEFT_DEV_OP_ATOMIC)
        weft_dev_gda_store_atomic(ring, index, r, at, to, flags);
    else
        weft_dev_gda_move(ring, index, WEFT_DEV_GDA_READ, at, to, (uint32_t)r->bytes, flags);
}

/* The same for a DC peer. */
WEFT_DEVICE void weft_dev_gda_store_fetch_addressed(struct weft_dev_gda_queue *q, uint64_t index,
                                                    const struct weft_dev_request *r,
                                                    struct weft_dev_gda_place at,
                                                    struct weft_dev_gda_place to, int ends)
{
    struct weft_dev_gda_draft draft;
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_store_fetch(&draft.ring, index, r, at, to, 0);
    weft_dev_gda_store_addressed(q, index, r->pe, &draft, weft_dev_gda_fetch_segments(r), ends);
}

/* For the lanes `mask`, which use one queue: they issue their requests as one span, and wait
 * together. */
WEFT_DEVICE uint64_t weft_dev_gda_fetch_together(struct weft_dev_gda_queue *q,
                                                 struct weft_dev_request *r,
                                                 struct weft_dev_gda_place at, weft_lane_mask mask)
{
    int atomic = r->operation == WEFT_DEV_OP_ATOMIC, fetches = !atomic || !r->nbi;
    uint64_t value = 0;
    uint32_t blocks = weft_dev_gda_fetch_blocks(q, r);
    struct weft_dev_gda_group g;
    at = weft_dev_gda_keyed(q, at, r->pe);
    if (!weft_dev_gda_begin_group(&g, mask, q, weft_dev_gda_requested(r), blocks,
                                  weft_dev_gda_is_exclusive(q, r->pe)))
        return 0;
    uint32_t flags = g.ends ? WEFT_DEV_GDA_SIGNALED : 0;
    struct weft_dev_gda_place to = fetches ? weft_dev_gda_result(q, g.at) : weft_dev_gda_sink(q);
    if (fetches && !weft_dev_gda_take_result(q, g.at, r))
        to = weft_dev_gda_sink(q); /* the job has failed; the span is published all the same */
    if (weft_dev_gda_address_segments(q))
        weft_dev_gda_store_fetch_addressed(q, g.at, r, at, to, (int)g.ends);
    else
        weft_dev_gda_store_fetch(&q->ring, g.at, r, at, to, flags);
    weft_dev_gda_give_group(&g);
    if (!fetches)
        return 0;
    int there = 1;
    if (weft_dev_lane() == weft_dev_lanes_first(mask))
        there = weft_dev_gda_await(q, weft_dev_gda_requested(r), g.span.end);
    there = weft_dev_all(mask, there);
    weft_dev_sync_warp(mask); /* a vote does not order memory */
    if (there)
        value = weft_dev_gda_result_value(q, g.at, (unsigned)r->bytes, atomic);
    weft_dev_gda_result_read(q, g.at);
    return value;
}

/* g and atomics. A span has at most 32 requests, so that the smallest ring has space for it. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_gda_fetch(struct weft_dev_request *r)
{
    int atomic = r->operation == WEFT_DEV_OP_ATOMIC, fetches = !atomic || !r->nbi;
    uint64_t value = 0, whole = r->bytes;
    struct weft_dev_gda_place at = weft_dev_gda_spot(r->symmetric, r->pe, &whole);
    struct weft_dev_gda_queue *q =
        atomic ? weft_dev_gda_word_queue(at.address, r->pe) : weft_dev_gda_queue_for(r);
    weft_lane_mask mask = weft_dev_active_mask(), all = mask;
    mask = weft_dev_match_any_u64(mask, (uintptr_t)q | (uint64_t)fetches) & weft_dev_lanes_half();
    WEFT_DEV_IN_TURN(all, mask)
    value = weft_dev_gda_fetch_together(q, r, at, mask);
    return value;
}

/* Atomics on real numbers: compare and swap, until no other update comes in between. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_gda_add_real(struct weft_dev_request *r)
{
    struct weft_dev_request one = *r;
    uint64_t seen, expected;
    one.nbi = 0;
    one.what = WEFT_DEV_ATOMIC_FETCH;
    seen = weft_dev_gda_fetch(&one);
    one.what = WEFT_DEV_ATOMIC_CSWAP;
    do {
        expected = seen;
        one.compare = expected;
        one.value = weft_dev_gda_added(r->what, expected, r->value);
        seen = weft_dev_gda_fetch(&one);
    } while (seen != expected && !weft_dev_job_failed(0));
    return expected;
}

/* ----------------------------------------------------------------------------- bulk, one thread */

/* Stores the data of an inline write. */
WEFT_DEVICE void weft_dev_gda_inline_data(const struct weft_dev_gda_ring *ring, uint64_t index,
                                          const char *src, uint32_t bytes)
{
    WEFT_NO_UNROLL
    for (uint32_t i = 0; i < bytes; i += 4) {
        unsigned part = bytes - i < 4 ? bytes - i : 4;
        *(weft_dev_any_u32 *)(void *)weft_dev_gda_at(ring, index, WEFT_DEV_GDA_INLINE_AT + i) =
            (uint32_t)weft_dev_word_of(src + i, part);
    }
}

/* The same for a DC peer. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_put_inline_addressed(struct weft_dev_gda_queue *q,
                                                           const struct weft_dev_request *r,
                                                           struct weft_dev_gda_place at,
                                                           const char *src, uint32_t bytes)
{
    struct weft_dev_gda_span span;
    struct weft_dev_gda_draft draft;
    uint32_t segments = weft_dev_gda_inline_segments(bytes);
    if (!weft_dev_gda_begin_addressed(&span, q, weft_dev_gda_requested(r), segments))
        return 0;
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_inline_head(&draft.ring, span.base, at, bytes, 0);
    weft_dev_gda_inline_data(&draft.ring, span.base, src, bytes);
    weft_dev_gda_give_addressed(&span, r->pe, &draft, segments);
    return 1;
}

/* One inline write of up to WEFT_DEV_GDA_INLINE_MOST bytes, from memory that is not registered or
 * that the caller may reuse at once. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_put_inline(struct weft_dev_gda_queue *q,
                                                 const struct weft_dev_request *r, const char *dst,
                                                 const char *src, uint32_t bytes)
{
    struct weft_dev_gda_span span;
    uint64_t whole = bytes;
    uint32_t blocks = weft_dev_gda_inline_blocks(bytes);
    struct weft_dev_gda_place at = weft_dev_gda_there(q, dst, r->pe, &whole);
    if (weft_dev_gda_address_segments(q))
        return weft_dev_gda_put_inline_addressed(q, r, at, src, bytes);
    if (!weft_dev_gda_begin(&span, q, weft_dev_gda_requested(r), blocks > 1 ? blocks + 1 : 1))
        return 0;
    weft_dev_gda_inline_head(&q->ring, span.base, at, bytes,
                             blocks > 1 ? 0 : WEFT_DEV_GDA_SIGNALED);
    if (blocks > 1) {
        weft_dev_gda_fill(&span, blocks);
        weft_dev_gda_nop(&q->ring, span.end - 1, WEFT_DEV_GDA_SIGNALED);
    }
    weft_dev_gda_inline_data(&q->ring, span.base, src, bytes);
    weft_dev_gda_give(&span);
    return 1;
}

/* Bytes of the next inline write to `dst`, which does not cross the end of a key's range. */
WEFT_DEVICE uint32_t weft_dev_gda_inline_piece(const char *dst, int pe, uint64_t bytes)
{
    uint64_t most = WEFT_DEV_GDA_INLINE_MOST, piece = bytes < most ? bytes : most;
    (void)weft_dev_gda_spot(dst, pe, &piece);
    return (uint32_t)piece;
}

/* Largest put, in bytes, that is copied inline when its source must be free on return; no
 * completion is waited for then. */
enum { WEFT_DEV_GDA_COPIED = 2 * WEFT_DEV_GDA_BLOCK - WEFT_DEV_GDA_INLINE_AT };

/* One request that moves registered memory of a DC peer in place. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_move_addressed(struct weft_dev_gda_queue *q,
                                                     struct weft_dev_gda_operation op,
                                                     struct weft_dev_gda_place there,
                                                     struct weft_dev_gda_place here, uint32_t bytes,
                                                     uint32_t open, uint64_t *end)
{
    enum { SEGMENTS = 3 };
    struct weft_dev_gda_span span;
    struct weft_dev_gda_draft draft;
    if (!weft_dev_gda_begin_addressed(&span, q, op, SEGMENTS))
        return 0;
    if (open)
        weft_dev_gda_leave_open(q, span.end);
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_move(&draft.ring, span.base,
                      op.kind == WEFT_DEV_OP_GET ? WEFT_DEV_GDA_READ : WEFT_DEV_GDA_WRITE, there,
                      here, bytes, 0);
    *end = span.end;
    weft_dev_gda_give_addressed(&span, op.pe, &draft, SEGMENTS);
    return 1;
}

/* One request that moves registered memory in place. `open`: its completion does not say that the
 * data are in memory. */
WEFT_DEVICE int weft_dev_gda_move_one(struct weft_dev_gda_queue *q,
                                      struct weft_dev_gda_operation op,
                                      struct weft_dev_gda_place there,
                                      struct weft_dev_gda_place here, uint32_t bytes, uint32_t open,
                                      uint64_t *end)
{
    struct weft_dev_gda_span span;
    if (!weft_dev_gda_begin(&span, q, op, 1))
        return 0;
    if (open)
        weft_dev_gda_leave_open(q, span.end);
    weft_dev_gda_move(&span.ring, span.base,
                      op.kind == WEFT_DEV_OP_GET ? WEFT_DEV_GDA_READ : WEFT_DEV_GDA_WRITE, there,
                      here, bytes, WEFT_DEV_GDA_SIGNALED);
    *end = span.end;
    weft_dev_gda_give(&span);
    return 1;
}

/* A get into memory that is not registered goes through the result slots, at most this many at a
 * time: `n` elements of at most WEFT_DEV_GDA_RESULT bytes. */
enum { WEFT_DEV_GDA_READS = 16 };

/* Stores one read of memory of a DC peer. */
WEFT_DEVICE void weft_dev_gda_read_addressed(struct weft_dev_gda_queue *q, uint64_t index, int pe,
                                             struct weft_dev_gda_place at,
                                             struct weft_dev_gda_place to, uint32_t bytes, int ends)
{
    enum { SEGMENTS = 3 };
    struct weft_dev_gda_draft draft;
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_move(&draft.ring, index, WEFT_DEV_GDA_READ, at, to, bytes, 0);
    weft_dev_gda_store_addressed(q, index, pe, &draft, SEGMENTS, ends);
}

WEFT_DEVICE_NOINLINE int weft_dev_gda_read_some(struct weft_dev_gda_queue *q,
                                                const struct weft_dev_request *r, const char *from,
                                                char *to, uint64_t from_step, uint64_t to_step,
                                                uint32_t element, uint32_t n)
{
    struct weft_dev_gda_span span;
    const uint32_t blocks =
        weft_dev_gda_address_segments(q) ? weft_dev_gda_addressed_blocks(q, 3) : 1;
    int there = weft_dev_gda_begin(&span, q, weft_dev_gda_requested(r), n * blocks + (blocks > 1));
    if (!there)
        return 0;
    WEFT_NO_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        uint64_t whole = element, index = span.base + i * blocks;
        struct weft_dev_gda_place at = weft_dev_gda_there(q, from + i * from_step, r->pe, &whole);
        struct weft_dev_gda_place result = weft_dev_gda_take_result(q, index, r)
                                               ? weft_dev_gda_result(q, index)
                                               : weft_dev_gda_sink(q);
        if (weft_dev_gda_address_segments(q))
            weft_dev_gda_read_addressed(q, index, r->pe, at, result, element,
                                        i + 1 == n && blocks == 1);
        else
            weft_dev_gda_move(&q->ring, index, WEFT_DEV_GDA_READ, at, result, element,
                              i + 1 == n ? WEFT_DEV_GDA_SIGNALED : 0);
    }
    if (blocks > 1)
        weft_dev_gda_nop(&q->ring, span.end - 1, WEFT_DEV_GDA_SIGNALED);
    weft_dev_gda_give(&span);
    there = weft_dev_gda_await(q, weft_dev_gda_requested(r), span.end);
    WEFT_NO_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t index = span.base + i * blocks;
        const char *result = (const char *)(uintptr_t)weft_dev_gda_result(q, index).address;
        for (uint32_t k = 0; k < element && there; k++)
            to[i * to_step + k] = (char)weft_dev_load_u8((const uint8_t *)result + k,
                                                         WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        weft_dev_gda_result_read(q, index);
    }
    return there;
}

/* Gets up to WEFT_DEV_GDA_READS * WEFT_DEV_GDA_RESULT bytes that end before the next key. Returns
 * the number of bytes, or 0 after an error. */
WEFT_DEVICE uint64_t weft_dev_gda_get_through(struct weft_dev_gda_queue *q,
                                              const struct weft_dev_request *r, const char *from,
                                              char *to, uint64_t bytes)
{
    uint64_t most = WEFT_DEV_GDA_READS * WEFT_DEV_GDA_RESULT;
    bytes = bytes < most ? bytes : most;
    (void)weft_dev_gda_spot(from, r->pe, &bytes);
    uint32_t whole = (uint32_t)(bytes / WEFT_DEV_GDA_RESULT);
    uint32_t rest = whole ? (uint32_t)WEFT_DEV_GDA_RESULT : (uint32_t)bytes;
    int done = weft_dev_gda_read_some(q, r, from, to, WEFT_DEV_GDA_RESULT, WEFT_DEV_GDA_RESULT,
                                      rest, whole ? whole : 1);
    return !done ? 0 : whole ? (uint64_t)whole * WEFT_DEV_GDA_RESULT : bytes;
}

/* Issues a flush after all requests of the queue; it is complete when `*end` blocks are. Where
 * writes are relaxed, it is a read of the peer's memory, which completes the earlier writes there.
 * Where this GPU needs it, it is also a DUMP of own memory after all reads. Both read the team
 * areas, which are in the same memory as the data. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_flush(struct weft_dev_gda_queue *q,
                                            struct weft_dev_gda_operation op, uint64_t *end)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    enum { PART = WEFT_DEV_AREAS, WORD = 8 };
    uint32_t chunk = gda->first[PART] + (uint32_t)(gda->skip[PART] >> gda->chunk_bits[PART]);
    struct weft_dev_gda_place there, here;
    struct weft_dev_gda_span span;
    /* The data of a DC initiator have strict order. A flush of all queues has pe -1 for it, also in
     * a unit without transport dc. */
    int by_dc = op.pe < 0 || weft_dev_gda_address_segments(q);
    int pe = by_dc ? weft_dev_state.me : op.pe;
    uint32_t reads = gda->data_keys != 0 && !by_dc;
    if (!weft_dev_gda_begin_as(&span, q, op, reads + gda->dumps, q->name < gda->sharing.exclusive))
        return 0;
    there.address = gda->bases[(uint32_t)pe * WEFT_DEV_PARTS + PART] + gda->skip[PART];
    there.key = chunk;
    there = weft_dev_gda_keyed(q, there, pe);
    here.address = gda->own[PART] + gda->skip[PART];
    here.key = q->local_keys[chunk];
    if (reads)
        weft_dev_gda_move(&q->ring, span.base, WEFT_DEV_GDA_READ, there, weft_dev_gda_sink(q), WORD,
                          gda->dumps ? 0 : WEFT_DEV_GDA_SIGNALED);
    if (gda->dumps) {
        weft_dev_gda_dump(&q->ring, span.end - 1, here, WORD,
                          WEFT_DEV_GDA_SIGNALED | WEFT_DEV_GDA_FENCED);
        weft_dev_gda_fill(&span, 1);
    }
    weft_dev_gda_flush_given(q, span.end);
    *end = span.end;
    weft_dev_gda_give(&span);
    return 1;
}

/* Whether the completion of a put's write or of a get's read does not say that the data are in
 * memory. A blocking get issues its DUMP at once. */
WEFT_DEVICE uint32_t weft_dev_gda_leaves_open(const struct weft_dev_gda_queue *q,
                                              struct weft_dev_gda_operation op, int nbi)
{
    if (op.kind != WEFT_DEV_OP_GET)
        return weft_dev_gda_data_keys(q, op.pe);
    return nbi ? weft_dev_state.gda.dumps : 0;
}

/* A put or get through one queue; also the data of a put with signal. *end: block count that the
 * queue must complete before the source of a put may be reused, or the data of a get are there; 0:
 * none. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_transfer(struct weft_dev_gda_queue *q,
                                               const struct weft_dev_request *r, uint64_t *end)
{
    char *local = (char *)r->local;
    const char *remote = (const char *)r->symmetric;
    int get = r->operation == WEFT_DEV_OP_GET;
    struct weft_dev_gda_place here;
    uint64_t left = r->bytes;
    *end = 0;
    WEFT_NO_UNROLL
    while (left) {
        uint64_t piece = left;
        struct weft_dev_gda_place there = weft_dev_gda_spot(remote, r->pe, &piece);
        int copied = !get && !r->nbi && left <= WEFT_DEV_GDA_COPIED;
        piece = piece < 1u << 30 ? piece : 1u << 30;
        if (!copied && weft_dev_gda_here(q, local, &piece, &here)) {
            struct weft_dev_gda_operation op = weft_dev_gda_requested(r);
            uint32_t open = weft_dev_gda_leaves_open(q, op, r->nbi);
            there = get ? weft_dev_gda_keyed(q, there, r->pe)
                        : weft_dev_gda_keyed_data(q, there, r->pe);
            if (weft_dev_gda_address_segments(q)
                    ? !weft_dev_gda_move_addressed(q, op, there, here, (uint32_t)piece, open, end)
                    : !weft_dev_gda_move_one(q, op, there, here, (uint32_t)piece, open, end))
                return 0;
        } else if (get) {
            piece = weft_dev_gda_get_through(q, r, remote, local, left);
            if (!piece)
                return 0;
        } else {
            piece = weft_dev_gda_inline_piece(remote, r->pe, left);
            if (!weft_dev_gda_put_inline(q, r, remote, local, (uint32_t)piece))
                return 0;
        }
        local += piece;
        remote += piece;
        left -= piece;
    }
    return 1;
}

/* Issues the DUMP that a blocking get needs behind its reads, where this GPU does. *end: from
 * weft_dev_gda_transfer(), not 0; then that of the DUMP. */
WEFT_DEVICE int weft_dev_gda_flush_get(struct weft_dev_gda_queue *q,
                                       const struct weft_dev_request *r, uint64_t *end)
{
    return r->operation != WEFT_DEV_OP_GET || !weft_dev_state.gda.dumps ||
           weft_dev_gda_flush(q, weft_dev_gda_requested(r), end);
}

/* ------------------------------------------------------- puts and gets through several NICs
 *
 * A large put or get is split into one part for each NIC. All parts are issued before any is waited
 * for. The data of a put with signal are not split: only within one queue do they stay before the
 * signal without a wait. */

enum {
    WEFT_DEV_GDA_SPLIT_BITS = 16,  /* log2 of the least bytes of a part */
    WEFT_DEV_GDA_PART_UNIT = 4096, /* bytes: the size of each part but the last is a multiple */
};

WEFT_DEVICE int weft_dev_gda_is_split(uint64_t bytes)
{
    uint64_t most = bytes >> WEFT_DEV_GDA_SPLIT_BITS;
    return most > 1 && weft_dev_state.gda.adapters > 1 && most >= weft_dev_state.gda.adapters;
}

/* A transfer in parts, in memory: in registers its fields would be held across the calls that use
 * the most registers. */
struct weft_dev_gda_parts {
    struct weft_dev_request part; /* the next part */
    uint64_t left;                /* bytes of parts that are not issued yet */
    uint64_t each;                /* bytes of each part but the last */
    uint64_t ends[WEFT_DEV_GDA_ADAPTERS_MOST];
    uint32_t count, i;
    int32_t done; /* 0: an operation has failed */
};

WEFT_DEVICE void weft_dev_gda_issue_parts(struct weft_dev_gda_parts *p)
{
    WEFT_NO_UNROLL
    for (p->i = 0; p->i < p->count && p->done; p->i++) {
        p->part.bytes = p->i + 1 < p->count ? p->each : p->left;
        p->done = weft_dev_gda_transfer(weft_dev_gda_part_queue(&p->part, p->i), &p->part,
                                        &p->ends[p->i]);
        p->part.symmetric = (const char *)p->part.symmetric + p->part.bytes;
        p->part.local = (char *)p->part.local + p->part.bytes;
        p->left -= p->part.bytes;
    }
}

WEFT_DEVICE void weft_dev_gda_split(const struct weft_dev_request *r)
{
    struct weft_dev_gda_parts p;
    p.part = *r;
    p.left = r->bytes;
    p.count = weft_dev_state.gda.adapters;
    p.each = (r->bytes / p.count + WEFT_DEV_GDA_PART_UNIT - 1) / WEFT_DEV_GDA_PART_UNIT *
             WEFT_DEV_GDA_PART_UNIT;
    p.done = 1;
    weft_dev_gda_issue_parts(&p);
    WEFT_NO_UNROLL
    for (p.i = 0; p.i < p.count && p.done && !r->nbi; p.i++)
        if (p.ends[p.i])
            p.done = weft_dev_gda_flush_get(weft_dev_gda_part_queue(r, p.i), r, &p.ends[p.i]);
    WEFT_NO_UNROLL
    for (p.i = 0; p.i < p.count && p.done && !r->nbi; p.i++)
        if (p.ends[p.i])
            p.done = weft_dev_gda_await(weft_dev_gda_part_queue(r, p.i), weft_dev_gda_requested(r),
                                        p.ends[p.i]);
}

/* ------------------------------------------------------------------------------------ strided */

/* One column of a strided transfer: `width` bytes at the start of each element. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_column(const struct weft_dev_request *r, const char *there,
                                             char *here, uint32_t width)
{
    struct weft_dev_gda_queue *q = weft_dev_gda_queue_for(r);
    uint64_t far_step = (uint64_t)r->remote_stride * r->bytes;
    uint64_t near_step = (uint64_t)r->local_stride * r->bytes;
    int put = r->operation == WEFT_DEV_OP_IPUT, done = 1;
    uint32_t n;
    WEFT_NO_UNROLL
    for (uint64_t i = 0; i < r->n && done; i += n, there += n * far_step, here += n * near_step) {
        uint64_t left = r->n - i;
        n = put ? 1 : left < WEFT_DEV_GDA_READS ? (uint32_t)left : (uint32_t)WEFT_DEV_GDA_READS;
        done = put ? weft_dev_gda_put_inline(q, r, there, here, width)
                   : weft_dev_gda_read_some(q, r, there, here, far_step, near_step, width, n);
    }
    return done;
}

/* Strided transfers. An element of 16 bytes that is aligned to 8 may cross the end of a key's
 * range, and then goes as two columns. */
WEFT_DEVICE void weft_dev_gda_strided(const struct weft_dev_request *r)
{
    const char *there = (const char *)r->symmetric;
    uint64_t far_step = (uint64_t)r->remote_stride * r->bytes;
    uint32_t width = (uint32_t)r->bytes;
    if (width == 16 && (((uintptr_t)there | far_step) & 15))
        width = 8;
    for (uint32_t at = 0; at < r->bytes; at += width)
        if (!weft_dev_gda_column(r, there + at, (char *)r->local + at, width))
            return;
}

/* ---------------------------------------------------------------------- signals, flags, packets */

/* Stores the request of a signal on that queue at `index` of a ring, the last of its span. */
WEFT_DEVICE void weft_dev_gda_store_signal(const struct weft_dev_gda_queue *q,
                                           const struct weft_dev_gda_ring *ring, uint64_t index,
                                           struct weft_dev_gda_place at, uint64_t value, int add,
                                           uint32_t flags)
{
    if (add)
        weft_dev_gda_atomic8(ring, index, WEFT_DEV_GDA_ADD, at, weft_dev_gda_sink(q), value, 0,
                             flags | WEFT_DEV_GDA_SIGNALED);
    else
        weft_dev_gda_value(ring, index, at, value, 8, flags);
}

/* Segments of a signal's request. */
WEFT_DEVICE uint32_t weft_dev_gda_signal_segments(int add)
{
    return add ? 4 : 3;
}

/* A signal to a DC peer. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_signal_addressed(struct weft_dev_gda_queue *q,
                                                        const struct weft_dev_request *r,
                                                        struct weft_dev_gda_place at, int add,
                                                        uint32_t flags)
{
    struct weft_dev_gda_span span;
    struct weft_dev_gda_draft draft;
    uint32_t segments = weft_dev_gda_signal_segments(add);
    if (!weft_dev_gda_begin_addressed(&span, q, weft_dev_gda_requested(r), segments))
        return;
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_store_signal(q, &draft.ring, span.base, at, r->value, add, flags);
    weft_dev_gda_give_addressed(&span, r->pe, &draft, segments);
}

/* Updates an 8-byte word at `spot`: an inline write sets it, an atomic adds to it. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_signal(struct weft_dev_gda_queue *q,
                                              const struct weft_dev_request *r,
                                              struct weft_dev_gda_place spot, int add,
                                              uint32_t flags)
{
    struct weft_dev_gda_span span;
    struct weft_dev_gda_place at = weft_dev_gda_keyed(q, spot, r->pe);
    if (weft_dev_gda_address_segments(q)) {
        weft_dev_gda_signal_addressed(q, r, at, add, flags);
        return;
    }
    if (!weft_dev_gda_begin(&span, q, weft_dev_gda_requested(r), 1))
        return;
    weft_dev_gda_store_signal(q, &q->ring, span.base, at, r->value, add, flags);
    weft_dev_gda_give(&span);
}

/* Address and key of an 8-byte word at PE pe. */
WEFT_DEVICE struct weft_dev_gda_place weft_dev_gda_word_spot(const void *word, int pe)
{
    uint64_t whole = 8;
    return weft_dev_gda_spot(word, pe, &whole);
}

/* The same on the queue of the word's address. */
WEFT_DEVICE void weft_dev_gda_signal_word(const struct weft_dev_request *r, const void *word,
                                          int add)
{
    struct weft_dev_gda_place spot = weft_dev_gda_word_spot(word, r->pe);
    weft_dev_gda_signal(weft_dev_gda_word_queue(spot.address, r->pe), r, spot, add, 0);
}

/* A put with signal to a DC peer: where its data go and come from, and its signal. */
struct weft_dev_gda_addressed_put {
    struct weft_dev_gda_place there, here, signal;
    const char *copied; /* the data are copied from here; NULL: they are at `here` */
    int add;            /* the signal is added to */
};

/* Stores the data of such a put at `index`. */
WEFT_DEVICE void weft_dev_gda_store_addressed_put(struct weft_dev_gda_queue *q, uint64_t index,
                                                  const struct weft_dev_request *r,
                                                  const struct weft_dev_gda_addressed_put *put,
                                                  uint32_t segments)
{
    struct weft_dev_gda_draft draft;
    weft_dev_gda_begin_draft(&draft, q);
    if (put->copied) {
        weft_dev_gda_inline_head(&draft.ring, index, put->there, (uint32_t)r->bytes, 0);
        weft_dev_gda_inline_data(&draft.ring, index, put->copied, (uint32_t)r->bytes);
    } else {
        weft_dev_gda_move(&draft.ring, index, WEFT_DEV_GDA_WRITE, put->there, put->here,
                          (uint32_t)r->bytes, 0);
    }
    weft_dev_gda_store_addressed(q, index, r->pe, &draft, segments, 0);
}

/* Data that fit one request, and the signal, in one span. Returns the block count at which the
 * source may be reused; 0: it is copied. */
WEFT_DEVICE_NOINLINE uint64_t
weft_dev_gda_put_signal_addressed(struct weft_dev_gda_queue *q, const struct weft_dev_request *r,
                                  const struct weft_dev_gda_addressed_put *put)
{
    struct weft_dev_gda_span span;
    struct weft_dev_gda_draft draft;
    uint32_t data = put->copied ? weft_dev_gda_inline_segments((uint32_t)r->bytes) : 3;
    uint32_t segments = weft_dev_gda_signal_segments(put->add);
    uint32_t first = r->bytes ? weft_dev_gda_addressed_blocks(q, data) : 0;
    uint32_t blocks = weft_dev_gda_addressed_blocks(q, segments);
    if (!weft_dev_gda_begin(&span, q, weft_dev_gda_requested(r), first + blocks + (blocks > 1)))
        return 0;
    if (first)
        weft_dev_gda_store_addressed_put(q, span.base, r, put, data);
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_store_signal(q, &draft.ring, span.base + first, put->signal, r->value, put->add,
                              first ? weft_dev_state.gda.ordered : 0);
    weft_dev_gda_store_addressed(q, span.base + first, r->pe, &draft, segments, blocks == 1);
    if (blocks > 1)
        weft_dev_gda_nop(&q->ring, span.end - 1, WEFT_DEV_GDA_SIGNALED);
    weft_dev_gda_give(&span);
    return first && !put->copied ? span.end : 0;
}

/* Issues data that fit one request, and the signal, in one span with one doorbell. Only the signal
 * requests a completion. Returns 0 when the data need more than one request or memory is not
 * registered; *end is as in weft_dev_gda_transfer(). */
WEFT_DEVICE int weft_dev_gda_put_signal_at_once(struct weft_dev_gda_queue *q,
                                                const struct weft_dev_request *r,
                                                struct weft_dev_gda_place signal, int add,
                                                uint64_t *end)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    const char *src = r->local ? (const char *)r->local : (const char *)&r->compare;
    int copied = !r->local || (!r->nbi && r->bytes <= WEFT_DEV_GDA_COPIED);
    uint64_t whole = r->bytes;
    struct weft_dev_gda_place spot = signal, here = signal;
    struct weft_dev_gda_span span;
    uint32_t blocks = 0;
    *end = 0;
    if (whole) {
        spot = weft_dev_gda_spot(r->symmetric, r->pe, &whole);
        if (whole > 1u << 30 || (!copied && !weft_dev_gda_here(q, src, &whole, &here)) ||
            whole < r->bytes)
            return 0;
        blocks = copied ? weft_dev_gda_inline_blocks((uint32_t)whole) : 1;
        spot =
            copied ? weft_dev_gda_keyed(q, spot, r->pe) : weft_dev_gda_keyed_data(q, spot, r->pe);
    }
    signal = weft_dev_gda_keyed(q, signal, r->pe);
    if (weft_dev_gda_address_segments(q)) {
        struct weft_dev_gda_addressed_put put = {spot, here, signal, copied ? src : NULL, add};
        *end = weft_dev_gda_put_signal_addressed(q, r, &put);
        return 1;
    }
    if (!weft_dev_gda_begin(&span, q, weft_dev_gda_requested(r), blocks + 1))
        return 1;
    if (whole && copied) {
        weft_dev_gda_inline_head(&q->ring, span.base, spot, (uint32_t)whole, 0);
        weft_dev_gda_fill(&span, blocks - 1);
        weft_dev_gda_inline_data(&q->ring, span.base, src, (uint32_t)whole);
    } else if (whole) {
        weft_dev_gda_move(&q->ring, span.base, WEFT_DEV_GDA_WRITE, spot, here, (uint32_t)whole, 0);
        if (weft_dev_gda_data_keys(q, r->pe))
            weft_dev_gda_leave_open(q, span.end);
        *end = span.end;
    }
    weft_dev_gda_store_signal(q, &q->ring, span.end - 1, signal, r->value, add,
                              whole ? gda->ordered : 0);
    weft_dev_gda_give(&span);
    return 1;
}

/* Whether one of the data of a put with signal and the signal is in GPU memory, and the other is in
 * the host's. */
WEFT_DEVICE int weft_dev_gda_is_apart(const struct weft_dev_request *r)
{
    uint64_t offset;
    return r->bytes && (weft_dev_gda_find(r->symmetric, &offset) == WEFT_DEV_OTHER) !=
                           (weft_dev_gda_find(r->signal, &offset) == WEFT_DEV_OTHER);
}

/* Issues a read of the last bytes that the request has put. When it is complete, all of them are in
 * the peer's memory. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_read_back(struct weft_dev_gda_queue *q,
                                                const struct weft_dev_request *r)
{
    struct weft_dev_gda_operation op = weft_dev_gda_requested(r);
    uint64_t last = r->bytes < 8 ? r->bytes : 8, end;
    struct weft_dev_gda_place from =
        weft_dev_gda_there(q, (const char *)r->symmetric + r->bytes - last, r->pe, &last);
    op.kind = WEFT_DEV_OP_GET;
    return weft_dev_gda_address_segments(q)
               ? weft_dev_gda_move_addressed(q, op, from, weft_dev_gda_sink(q), (uint32_t)last, 0,
                                             &end)
               : weft_dev_gda_move_one(q, op, from, weft_dev_gda_sink(q), (uint32_t)last, 0, &end);
}

/* The signal follows the data in the same queue with a strict-order key, so that it does not
 * overtake them. `ordered` keeps this order also where the network uses several routes. PCI Express
 * keeps no order between memory of a GPU and of the host: the signal then waits in the NIC until
 * the end of the data has been read back. With several NICs, a signal that is added to uses the
 * queue of its word. Data of at most 8 bytes are in the request itself. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_put_signal(struct weft_dev_request *r)
{
    struct weft_dev_gda_place signal = weft_dev_gda_word_spot(r->signal, r->pe);
    int add = r->what == WEFT_SIGNAL_ADD;
    struct weft_dev_gda_queue *q = add && weft_dev_state.gda.adapters > 1
                                       ? weft_dev_gda_word_queue(signal.address, r->pe)
                                       : weft_dev_gda_queue_for(r);
    const int apart = weft_dev_gda_is_apart(r);
    uint64_t end;
    if (apart || !weft_dev_gda_put_signal_at_once(q, r, signal, add, &end)) {
        if (!r->local) { /* copied from here, since only a blocking put copies */
            r->local = &r->compare;
            r->nbi = 0;
        }
        if (!weft_dev_gda_transfer(q, r, &end) || (apart && !weft_dev_gda_read_back(q, r)))
            return;
        weft_dev_gda_signal(q, r, signal, add,
                            weft_dev_state.gda.ordered | (apart ? WEFT_DEV_GDA_FENCED : 0));
    }
    if (!r->nbi && end)
        weft_dev_gda_await(q, weft_dev_gda_requested(r), end);
}

/* 8 bytes of a packet: both halves carry its sequence number. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_packet(const struct weft_dev_request *r)
{
    uint64_t wire[2];
    wire[0] = (r->compare & 0xffffffffu) | r->value << 32;
    wire[1] = r->compare >> 32 | r->value << 32;
    weft_dev_gda_put_inline(weft_dev_gda_queue_for(r), r, (const char *)r->symmetric,
                            (const char *)wire, 16);
}

/* ------------------------------------------------------------------------ PEs with an address
 *
 * Where the NIC's atomics are not atomic with the device's own, all atomics on segments go through
 * the NIC, also at PEs that have a direct address, and at this PE on a queue that leads back to it.
 * Only this PE reaches its memory outside the segments. */

WEFT_DEVICE int weft_dev_gda_is_direct(int pe)
{
    return weft_dev_state.peers[pe].part[WEFT_DEV_AREAS] != 0;
}

WEFT_DEVICE void weft_dev_gda_near_signal(const struct weft_dev_request *r, const void *signal)
{
    uint64_t offset;
    int segment, add = r->what == WEFT_SIGNAL_ADD;
    char *at = weft_dev_direct_word(signal, r->pe);
    if (!at || (add && weft_dev_find(signal, 8, &segment, &offset) == WEFT_OK))
        weft_dev_gda_signal_word(r, signal, add);
    else
        weft_dev_signal_at(at, r->value, (weft_signal_op)r->what);
}

/* Returns 1 when it has done the request: a signal, whose data if any have a direct address and
 * have been moved. */
WEFT_DEVICE_NOINLINE int weft_dev_gda_near(const struct weft_dev_request *r)
{
    if (r->operation == WEFT_DEV_OP_SIGNAL)
        weft_dev_gda_near_signal(r, r->symmetric);
    else if (r->operation == WEFT_DEV_OP_PUT_SIGNAL && !r->bytes)
        weft_dev_gda_near_signal(r, r->signal);
    else
        return 0;
    return 1;
}

/* ----------------------------------------------------------------------------- as a transport */

/* Number of all queues of device code. */
WEFT_DEVICE uint32_t weft_dev_gda_all_queues(const struct weft_dev_gda *gda)
{
    return ((uint32_t)weft_dev_state.n_pes + gda->dc_groups) * gda->each;
}

/* The PE of the queue with that bit in weft_dev_gda.used, for messages; -1: a DC initiator. */
WEFT_DEVICE int weft_dev_gda_used_pe(const struct weft_dev_gda *gda, uint32_t bit)
{
    int pe = (int)(bit / gda->each);
    return pe < weft_dev_state.n_pes ? pe : -1;
}

/* Issues a flush to each used queue that needs one, so that all flushes are in flight at once.
 * Exclusive queues never do. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_flush_all(struct weft_dev_gda_operation op)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    uint32_t n = weft_dev_gda_all_queues(gda);
    uint64_t end;
    WEFT_NO_UNROLL
    for (uint32_t word = 0; word * 64 < n; word++) {
        uint64_t left = weft_dev_load_u64(&gda->used[word], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        WEFT_NO_UNROLL
        for (; left; left &= left - 1) {
            uint32_t number = word * 64 + weft_dev_find_first_u64(left) - 1;
            struct weft_dev_gda_queue *q = weft_dev_gda_used_queue(gda, number);
            op.pe = weft_dev_gda_used_pe(gda, number);
            if (weft_dev_gda_is_open(q))
                weft_dev_gda_flush(q, op, &end);
        }
    }
}

/* Waits until the data of all requests on the used queues are in memory; near: only of requests to
 * PEs with a direct address. A queue that is already known to be complete costs two loads. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_complete(struct weft_dev_gda_operation op, int near)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    uint32_t n = weft_dev_gda_all_queues(gda);
    if (gda->data_keys | gda->dumps)
        weft_dev_gda_flush_all(op);
    WEFT_NO_UNROLL
    for (uint32_t word = 0; word * 64 < n; word++) {
        uint64_t left = weft_dev_load_u64(&gda->used[word], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        WEFT_NO_UNROLL
        for (; left; left &= left - 1) {
            uint32_t number = word * 64 + weft_dev_find_first_u64(left) - 1;
            struct weft_dev_gda_queue *q = weft_dev_gda_used_queue(gda, number);
            uint64_t given = weft_dev_load_u64(&q->flushing, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
            uint64_t head = weft_dev_gda_head(q);
            op.pe = weft_dev_gda_used_pe(gda, number);
            if (near && op.pe >= 0 && !weft_dev_gda_is_direct(op.pe))
                continue;
            if (!weft_dev_gda_reached(q, head) && !weft_dev_gda_await(q, op, head))
                return;
            if (gda->data_keys | gda->dumps)
                weft_dev_gda_flush_done(q, given);
        }
    }
}

/* Fence or quiet. Every thread calls it. Where all lanes of the warp call together, one of them
 * checks the queues; else each does, since lanes that were together when they looked need not stay
 * so: on an H200 some waited for one that had gone on. One queue to a PE keeps the order by itself,
 * except for data in relaxed order, and except for atomics at PEs that this device also stores to.
 * Where NICs have no atomics, those that the proxy executes have no order with the queues, so both
 * complete. The quiet's fence orders earlier operations before later ones. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_order(int quiet)
{
    struct weft_dev_gda_operation op =
        weft_dev_gda_operation_of(quiet ? WEFT_DEV_OP_QUIET : WEFT_DEV_OP_FENCE, NULL, -1);
    int apart = weft_dev_state.gda.no_atomics != 0;
    int ordered = !quiet && !apart && weft_dev_gda_has_one_queue() && !weft_dev_state.gda.data_keys;
    if (ordered && weft_dev_state.all_atomics)
        return;
    if (!quiet && apart)
        weft_dev_proxy_order(1);
    const weft_lane_mask mask = weft_dev_active_mask();
    const int together = mask == weft_dev_warp_mask();
    if (together)
        weft_dev_sync_warp(mask);
    if (!together || weft_dev_lane() == weft_dev_lanes_first(mask))
        weft_dev_gda_complete(op, ordered);
    if (together)
        weft_dev_sync_warp(mask);
    if (quiet)
        weft_dev_fence(WEFT_ORDER_SEQ_CST, WEFT_SCOPE_SYS);
}

/* A put or get in several requests, or through memory that is not registered. */
WEFT_DEVICE_NOINLINE void weft_dev_gda_move_parts(const struct weft_dev_request *r)
{
    struct weft_dev_gda_queue *q = weft_dev_gda_queue_for(r);
    uint64_t end;
    if (weft_dev_gda_is_split(r->bytes)) {
        weft_dev_gda_split(r);
        return;
    }
    if (weft_dev_gda_transfer(q, r, &end) && end && !r->nbi && weft_dev_gda_flush_get(q, r, &end))
        weft_dev_gda_await(q, weft_dev_gda_requested(r), end);
}

/* A put or get of registered memory in one request. Returns 0 when it takes more than that. */
WEFT_DEVICE int weft_dev_gda_move_at_once(struct weft_dev_gda_operation op, void *local,
                                          uint64_t bytes, int nbi, int alone)
{
    int get = op.kind == WEFT_DEV_OP_GET;
    uint32_t dumps = get ? weft_dev_state.gda.dumps : 0;
    uint64_t whole = bytes < 1u << 30 ? bytes : 1u << 30, end;
    struct weft_dev_gda_queue *q = weft_dev_gda_own_queue(op.pe, alone && !(nbi && dumps));
    struct weft_dev_gda_place here, there = weft_dev_gda_spot(op.symmetric, op.pe, &whole);
    if ((!nbi && (get ? dumps != 0 : bytes <= WEFT_DEV_GDA_COPIED)) ||
        weft_dev_gda_is_split(bytes) || !weft_dev_gda_here(q, local, &whole, &here) ||
        whole < bytes)
        return 0;
    there = get ? weft_dev_gda_keyed(q, there, op.pe) : weft_dev_gda_keyed_data(q, there, op.pe);
    if (weft_dev_gda_move_one(q, op, there, here, (uint32_t)bytes,
                              weft_dev_gda_leaves_open(q, op, nbi), &end) &&
        !nbi)
        weft_dev_gda_await(q, op, end);
    return 1;
}

WEFT_DEVICE_NOINLINE void weft_dev_gda_put_get(int operation, const void *symmetric, void *local,
                                               uint64_t bytes, int pe, int form)
{
    int alone = (form & WEFT_DEV_OF_BLOCK) || weft_dev_block_threads() == 1;
    WEFT_DEV_IN_TURN(weft_dev_turns_lanes(), weft_dev_lanes_own())
    if (!weft_dev_gda_move_at_once(weft_dev_gda_operation_of(operation, symmetric, pe), local,
                                   bytes, form & 1, alone)) {
        struct weft_dev_request r =
            weft_dev_move_request(operation, symmetric, local, bytes, pe, form);
        weft_dev_gda_move_parts(&r);
    }
}

/* A request that a lane makes without the other lanes of its warp. */
WEFT_DEVICE void weft_dev_gda_request_alone(struct weft_dev_request *r)
{
    if (weft_dev_gda_is_direct(r->pe) && weft_dev_gda_near(r))
        return;
    switch (r->operation) {
    case WEFT_DEV_OP_IPUT:
    case WEFT_DEV_OP_IGET:
        weft_dev_gda_strided(r);
        return;
    case WEFT_DEV_OP_SIGNAL:
        weft_dev_gda_signal_word(r, r->symmetric, r->what == WEFT_SIGNAL_ADD);
        return;
    case WEFT_DEV_OP_PUT_SIGNAL:
        weft_dev_gda_put_signal(r);
        return;
    case WEFT_DEV_OP_PUT_PACKET:
        weft_dev_gda_packet(r);
        return;
    case WEFT_DEV_OP_FLAG:
        /* The flag of the previous synchronisation must not arrive after this one: all flags use
         * one queue. */
        weft_dev_gda_order(0);
        weft_dev_gda_signal(weft_dev_gda_flag_queue(r->pe), r,
                            weft_dev_gda_word_spot(r->symmetric, r->pe), 0,
                            weft_dev_state.gda.ordered);
        return;
    default:
        return;
    }
}

/* Whether the proxy passes the request to the owner of the memory, because the NICs have no
 * atomics. The data of a put with signal go with it, so the host completes them before the signal.
 */
WEFT_DEVICE int weft_dev_gda_is_for_owner(const struct weft_dev_request *r)
{
    int signals = r->operation == WEFT_DEV_OP_SIGNAL || r->operation == WEFT_DEV_OP_PUT_SIGNAL;
    return weft_dev_state.gda.no_atomics &&
           (r->operation == WEFT_DEV_OP_ATOMIC || (signals && r->what == WEFT_SIGNAL_ADD));
}

/* Called by one thread for its scope. The fence before the doorbell makes its earlier stores to
 * memory of this PE visible to the NIC. Lanes that are not independent issue one after the other,
 * unless they do so together: see WEFT_DEV_IN_TURN. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_gda_request(struct weft_dev_request *r)
{
    if (weft_dev_gda_is_for_owner(r))
        return weft_dev_proxy_request(r);
    if (r->operation == WEFT_DEV_OP_ATOMIC && r->what >= WEFT_DEV_ATOMIC_ADD_F32)
        return weft_dev_gda_add_real(r);
    if (r->operation == WEFT_DEV_OP_ATOMIC || r->operation == WEFT_DEV_OP_G)
        return weft_dev_gda_fetch(r);
    WEFT_DEV_IN_TURN(weft_dev_turns_lanes(), weft_dev_lanes_own())
    weft_dev_gda_request_alone(r);
    return 0;
}

#elif WEFT_TARGET_GPU && !defined WEFT_DEVICE_GDA
#error "include <weft/device/gda.h> before <weft_device.h>, or in place of it"
#endif

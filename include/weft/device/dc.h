/* SPDX-License-Identifier: Apache-2.0 */
/* The transport `dc`: operations on PEs that path gda reaches by DC. Device code posts them as it
 * does for RC peers (gda.h), to DC initiators, which several PEs share: a group of PEs, number
 * modulo dc_groups, uses as many initiators as queues lead to an RC peer, chosen in the same way.
 * Each request names its target.
 *
 * The host tests the way to a PE before it is used. So the first operation on a PE first gets one
 * byte through the proxy, whose thread tests the way. */
#ifdef WEFT_DEVICE_P2P
#error "<weft/device/dc.h> stands in place of <weft/device/p2p.h>"
#elif !defined WEFT_DEVICE_H

/* Included by a program, before or in place of <weft_device.h>, which includes this file again. On
 * a GPU its kernels then post to the NIC themselves, also to PEs that are reached by DC. */
#ifndef WEFT_DEVICE_DC
#define WEFT_DEVICE_DC
#endif
#include <weft_device.h>

#elif !defined WEFT_DEVICE_DC_H
#define WEFT_DEVICE_DC_H

#include <weft/device/gda.h>
#include <weft/device/proxy.h>

#if WEFT_DEV_HAS_DC

/* Has the host test the way to PE pe, and waits for it. Returns 0 after an error. */
WEFT_DEVICE_NOINLINE int weft_dev_dc_first(int pe)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    struct weft_dev_request r =
        weft_dev_request_of(WEFT_DEV_OP_G, (const void *)(uintptr_t)heap->base, 1, pe);
    weft_dev_proxy_request(&r);
    return weft_dev_load_u64(&weft_dev_state.gda.connected[pe], WEFT_ORDER_ACQUIRE,
                             WEFT_SCOPE_SYS) != 0;
}

/* Whether the way to PE pe is tested. Acquire: the address of its target. */
WEFT_DEVICE int weft_dev_dc_is_ready(int pe)
{
    return WEFT_DEV_LIKELY(weft_dev_load_u64(&weft_dev_state.gda.connected[pe], WEFT_ORDER_ACQUIRE,
                                             WEFT_SCOPE_SYS)) ||
           weft_dev_dc_first(pe);
}

/* One value of one lane. */
WEFT_DEVICE void weft_dev_dc_p_alone(const void *symmetric, unsigned bytes, uint64_t value, int pe)
{
    enum { SEGMENTS = 3 };
    struct weft_dev_gda_queue *q = weft_dev_gda_own_queue(pe, weft_dev_block_threads() == 1);
    struct weft_dev_gda_span span;
    struct weft_dev_gda_draft draft;
    uint64_t whole = bytes;
    struct weft_dev_gda_place at = weft_dev_gda_there(q, symmetric, pe, &whole);
    if (!weft_dev_gda_begin_addressed(
            &span, q, weft_dev_gda_operation_of(WEFT_DEV_OP_P, symmetric, pe), SEGMENTS))
        return;
    weft_dev_gda_begin_draft(&draft, q);
    weft_dev_gda_value(&draft.ring, span.base, at, value, bytes, 0);
    weft_dev_gda_give_addressed(&span, pe, &draft, SEGMENTS);
}

WEFT_DEVICE_NOINLINE void weft_dev_dc_p(const void *symmetric, unsigned bytes, uint64_t value,
                                        int pe)
{
    if (!weft_dev_dc_is_ready(pe))
        return;
    weft_lane_mask together = weft_dev_block_threads() == 1 ? 0 : weft_dev_active_mask();
    weft_lane_mask group = together;
    if (!(together & (together - 1))) {
        weft_dev_dc_p_alone(symmetric, bytes, value, pe);
        return;
    }
    if (!weft_dev_lanes_independent())
        group = weft_dev_match_any_u64(together, (uintptr_t)weft_dev_gda_own_queue(pe, 0));
    WEFT_DEV_IN_TURN(together, group)
    weft_dev_gda_p_together(symmetric, bytes, value, pe, group);
}

WEFT_DEVICE_NOINLINE void weft_dev_dc_put_get(int operation, const void *symmetric, void *local,
                                              uint64_t bytes, int pe, int form)
{
    if (!weft_dev_dc_is_ready(pe))
        return;
    WEFT_DEV_IN_TURN(weft_dev_turns_lanes(), weft_dev_lanes_own())
    {
        struct weft_dev_request r =
            weft_dev_move_request(operation, symmetric, local, bytes, pe, form);
        weft_dev_gda_move_parts(&r);
    }
}

WEFT_DEVICE_NOINLINE uint64_t weft_dev_dc_request(struct weft_dev_request *r)
{
    return weft_dev_dc_is_ready(r->pe) ? weft_dev_gda_request(r) : 0;
}

/* weft_dev_gda_order() orders the queues of both transports: the host sets the bits of both in
 * weft_dev.carried. */
WEFT_DEVICE_NOINLINE void weft_dev_dc_order(int quiet)
{
    (void)quiet;
}

#endif

#elif WEFT_TARGET_GPU && !defined WEFT_DEVICE_DC
#error "include <weft/device/dc.h> before <weft_device.h>, or in place of it"
#endif

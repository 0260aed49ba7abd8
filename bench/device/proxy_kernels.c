/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of proxy_kernels.h. Every loop is bounded by its count, every wait by the job's wait
 * limit. */
#include "proxy_kernels.h"
#include "timing.h"

WEFT_DEVICE_NOINLINE struct weft_dev_request asked_for(int what, uint64_t *dst, uint64_t *src,
                                                       int peer, uint64_t round)
{
    int operation = what == PROXIED_P            ? WEFT_DEV_OP_P
                    : what == PROXIED_PUT        ? WEFT_DEV_OP_PUT
                    : what == PROXIED_PUT_SIGNAL ? WEFT_DEV_OP_PUT_SIGNAL
                    : what == PROXIED_G          ? WEFT_DEV_OP_G
                                                 : WEFT_DEV_OP_NONE;
    size_t at = weft_dev_grid_rank();
    unsigned bytes = operation == WEFT_DEV_OP_NONE ? 0 : 8;
    struct weft_dev_request r = weft_dev_request_of(operation, dst + at, bytes, peer);
    if (operation == WEFT_DEV_OP_NONE) /* over as many rings as there are blocks */
        r.pe = (peer + (int)weft_dev_block_rank()) % weft_dev_n_pes();
    if (what == PROXIED_P)
        r.value = src[at];
    if (what == PROXIED_TRIP || what == PROXIED_PUT)
        r.local = src + at;
    if (what == PROXIED_PUT_SIGNAL) {
        r.signal = dst + weft_dev_grid_threads();
        r.value = round + 1;
        r.compare = src[at]; /* as weft_dev_remote_put_signal() does for few bytes */
        r.what = WEFT_SIGNAL_SET;
    }
    return r;
}

WEFT_KERNEL(proxied, (int, what), (uint64_t *, dst), (uint64_t *, src), (int, peer),
            (uint64_t, rounds), (struct device_times *, times))
{
    int status = weft_dev_state.ring.slots ? WEFT_OK : WEFT_ERR_UNSUPPORTED;
    begin_timing(times);
    for (uint64_t i = 0; i < rounds && !status; i++) {
        struct weft_dev_request r = asked_for(what, dst, src, peer, i);
        uint64_t value = weft_dev_proxy_request(&r);
        if (what == PROXIED_G)
            src[weft_dev_grid_rank()] = value;
    }
    if (!status)
        weft_dev_proxy_order(1);
    end_timing(times, status);
}

/* Does the same as weft_dev_proxy_request() and weft_dev_proxy_order(1) when the ring has space,
 * and reads the clock between the steps. */
WEFT_DEVICE int trace_one(struct weft_dev_request *r, struct device_trace *t)
{
    const struct weft_dev_ring *ring = &weft_dev_state.ring;
    struct weft_dev_request quiet = weft_dev_request_of(WEFT_DEV_OP_QUIET, NULL, 0, -1);
    const uint64_t *released;
    struct weft_dev_ring_wait w;
    int room;
    t->called = weft_dev_clock_ns();
    r->queue = quiet.queue = weft_dev_state.peers[r->pe].ring;
    released = weft_dev_ring_released(r->queue);
    struct weft_dev_ring_words words = weft_dev_ring_words_of(r, 0);
    t->ticket = weft_dev_ring_ticket(r->queue, 0, ring->slots, &room);
    if (!room &&
        !weft_dev_ring_await(&w, r, released, t->ticket - ring->slots + 1, WEFT_DEV_RING_ROOM))
        return WEFT_ERR_TIMEOUT;
    t->taken = weft_dev_clock_ns();
    weft_dev_ring_store_both(r, &words, t->ticket);
    t->written = weft_dev_clock_ns();
    uint64_t ticket = weft_dev_ring_give(&quiet, 0);
    if (ticket & WEFT_DEV_RING_UNWRITTEN && !weft_dev_ring_give_late(&w, &quiet, 0, &ticket))
        return WEFT_ERR_TIMEOUT;
    weft_dev_fence(WEFT_ORDER_SEQ_CST, WEFT_SCOPE_SYS);
    t->quiet = ticket;
    int done = weft_dev_ring_await(&w, &quiet, released + WEFT_DEV_RING_COMPLETED, ticket + 1,
                                   WEFT_DEV_RING_COUNT);
    t->counted = weft_dev_clock_ns();
    t->returned = weft_dev_clock_ns();
    return done ? WEFT_OK : WEFT_ERR_TIMEOUT;
}

WEFT_KERNEL(proxy_trace, (uint64_t *, dst), (uint64_t *, src), (int, peer), (uint64_t, rounds),
            (struct device_trace *, trace), (struct device_times *, times))
{
    int status = weft_dev_state.ring.slots ? WEFT_OK : WEFT_ERR_UNSUPPORTED;
    begin_timing(times);
    for (uint64_t i = 0; i < rounds && !status; i++) {
        struct weft_dev_request r = asked_for(PROXIED_PUT_SIGNAL, dst, src, peer, i);
        status = trace_one(&r, trace + i);
    }
    end_timing(times, status);
}

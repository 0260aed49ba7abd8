/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of gda_kernels.h. Every loop is bounded by its count, every wait by the job's wait
 * limit. */
#ifndef WEFT_DEVICE_GDA
#define WEFT_DEVICE_GDA /* one kernel measures the steps of a put */
#endif
#include "gda_kernels.h"
#include "timing.h"

WEFT_KERNEL(put_quiet, (uint64_t *, dst), (uint64_t *, src), (int, peer), (uint64_t, rounds),
            (struct device_times *, times))
{
    begin_timing(times);
    for (uint64_t i = 0; i < rounds; i++) {
        weft_thread_put(dst, src, sizeof *dst, peer);
        weft_thread_quiet();
    }
    end_timing(times, 0);
}

/* Does the same as weft_dev_gda_p_one() and the wait of a quiet, for a queue that no other thread
 * uses, and reads the clock between the steps. */
WEFT_DEVICE int trace_put(uint64_t *dst, uint64_t value, int peer, struct gda_trace *t)
{
    struct weft_dev_gda_queue *q = weft_dev_gda_own_queue(peer, 0);
    struct weft_dev_gda_operation op = weft_dev_gda_operation_of(WEFT_DEV_OP_P, dst, peer);
    uint64_t whole = sizeof *dst;
    t->called = weft_dev_clock_ns();
    struct weft_dev_gda_place at = weft_dev_gda_there(q, dst, peer, &whole);
    uint64_t turns = weft_dev_gda_reserve(q, 1);
    t->reserved = weft_dev_clock_ns();
    uint64_t done = weft_dev_load_u64(&q->done, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU);
    uint64_t base = weft_dev_gda_whole(done, (uint32_t)(turns >> 32)), end = base + 1;
    /* other threads use the queue: these are not the times of one put */
    if (weft_dev_gda_ahead(turns))
        return WEFT_ERR_UNSUPPORTED;
    if (!weft_dev_gda_room(&q->ring, (uint32_t)done, (uint32_t)end) &&
        !weft_dev_gda_await_room(q, end, op))
        return WEFT_ERR_TIMEOUT;
    t->waited = weft_dev_clock_ns();
    weft_dev_gda_value(&q->ring, base, at, value, sizeof *dst, 0);
    t->written = weft_dev_clock_ns();
    weft_dev_gda_record_end(&q->ring, (uint32_t)end);
    t->recorded = weft_dev_clock_ns();
    weft_dev_gda_bell(&q->ring, (uint32_t)end);
    t->rung = weft_dev_clock_ns();
    weft_dev_gda_pass(q, (uint32_t)base, (uint32_t)end);
    t->passed = weft_dev_clock_ns();
    if (!weft_dev_gda_await(q, op, end))
        return WEFT_ERR_TIMEOUT;
    t->seen = weft_dev_clock_ns();
    t->stamp =
        weft_dev_be64(weft_dev_load_u64(q->completion - 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS));
    return WEFT_OK;
}

WEFT_KERNEL(gda_trace, (uint64_t *, dst), (int, peer), (uint64_t, rounds),
            (struct gda_trace *, trace), (struct device_times *, times))
{
    int status = weft_dev_state.gda.each ? WEFT_OK : WEFT_ERR_UNSUPPORTED;
    if (!status) { /* the first put of a queue takes another branch */
        weft_thread_p64(dst, 0, peer);
        weft_thread_quiet();
    }
    begin_timing(times);
    for (uint64_t i = 0; i < rounds && !status; i++)
        status = trace_put(dst, i, peer, trace + i);
    end_timing(times, status);
}

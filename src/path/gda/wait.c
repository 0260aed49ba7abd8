/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for queues of path gda that the host polls, and error messages of failed queues. */
#include "path/gda/gda.h"

#include "base/status.h"
#include "path/gda/dc.h"
#include "path/gda/error.h"

#include <time.h>

/* Reports a failed queue. It first waits up to 0.5 s for the launcher to report that a PE has
 * ended, because the queue may have failed for that reason. */
static weft_status fail_queue(const struct gda *gda, const struct weft_dev_gda_queue *q, int pe,
                              struct path_wait *wait)
{
    enum { POLLS = 25, PAUSE_NS = 20 * 1000 * 1000 };
    const char *name = gda->qps[q - gda->queues].adapter->name;
    uint64_t last = __atomic_load_n(q->completion, __ATOMIC_ACQUIRE);
    if (weft_dev_gda_cqe_opcode(last) != WEFT_DEV_GDA_CQE_ERROR)
        return base_fail(
            WEFT_ERR_TIMEOUT,
            "path gda: the host's queue to PE %d (queue pair %#x of %s, port %d) has failed: a "
            "wait for free space in it timed out",
            pe, q->number, name, GDA_PORT);
    uint64_t word = __atomic_load_n(q->completion - 1, __ATOMIC_RELAXED);
    unsigned syndrome = (unsigned)(word >> 56), vendor = (unsigned)(word >> 48 & 0xff);
    for (int i = 0; i < POLLS; i++) {
        weft_status status = path_wait_step(wait, (uint64_t)i);
        if (status)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return base_fail(
        WEFT_ERR_PATH,
        "path gda: the host's queue to PE %d (queue pair %#x of %s, port %d) has failed: "
        "%s (syndrome %#04x, vendor %#04x)",
        pe, q->number, name, GDA_PORT, gda_syndrome_text(syndrome), syndrome, vendor);
}

uint32_t gda_order_flags(const struct gda *gda)
{
    for (uint32_t a = 0; a < gda->count; a++)
        if (gda->adapters->one[a].may_reorder)
            return WEFT_DEV_GDA_ORDERED;
    return 0;
}

/* Returns the memory that a flush reads: the GPU heap if it has relaxed-ordering keys, else the
 * system segment. */
static struct remote flush_place(const struct gda *gda, struct peer *peer)
{
    const struct gda_gpu *gpu = gda->gpu;
    bool relaxed = gpu && gpu->region_count && gpu->relaxed;
    return (struct remote){.peer = peer,
                           .segment = relaxed ? SEG_GPU : SEG_SYSTEM,
                           .offset = relaxed ? gpu->regions[0].offset : 0};
}

struct weft_dev_gda_place gda_flush_from(const struct gda *gda, int pe, uint32_t adapter)
{
    struct peer peer = {.world = gda->world, .pe = pe};
    size_t bytes = sizeof(uint64_t);
    return gda_resolve_remote(gda, adapter, flush_place(gda, &peer), &bytes);
}

weft_status gda_flush_queue(const struct gda *gda, struct weft_dev_gda_queue *q, int pe,
                            uint32_t adapter, uint64_t *end)
{
    struct weft_dev_gda_place from = gda_flush_from(gda, pe, adapter);
    uint64_t turns = weft_dev_gda_reserve(q, 1);
    uint64_t done = __atomic_load_n(&q->done, __ATOMIC_ACQUIRE);
    uint64_t base = weft_dev_gda_whole(done, (uint32_t)(turns >> 32));
    *end = base + 1;
    if (unlikely(!weft_dev_gda_room_late(q, done, (uint32_t)*end))) {
        weft_status status = gda_await(gda, q, pe, weft_dev_gda_needed(q, *end), BOX_OP_QUIET);
        /* The reserved block stays empty, so no later request of the queue can be published. */
        if (status)
            weft_dev_gda_abandon(q);
        if (status)
            return status;
    }
    weft_dev_gda_move(&q->ring, base, WEFT_DEV_GDA_READ, from, weft_dev_gda_sink(q),
                      sizeof(uint64_t), WEFT_DEV_GDA_SIGNALED);
    weft_dev_gda_flush_given(q, *end);
    weft_dev_gda_publish(q, &q->ring, base, *end, weft_dev_gda_ahead(turns));
    return WEFT_OK;
}

/* Whether to wait on: the blocks are not complete, or the queue has failed and is taken over. */
static bool is_awaited(const struct gda *gda, const struct weft_dev_gda_queue *q, uint64_t done,
                       uint64_t target)
{
    if (done != WEFT_DEV_GDA_FAILED)
        return done < target;
    return __atomic_load_n(&q->done, __ATOMIC_RELAXED) != WEFT_DEV_GDA_FAILED &&
           gda_takes_over(gda, (uint32_t)(q - gda->queues));
}

weft_status gda_await(const struct gda *gda, struct weft_dev_gda_queue *q, int pe, uint64_t target,
                      enum box_operation operation)
{
    uint64_t done = weft_dev_gda_look(q);
    if (done != WEFT_DEV_GDA_FAILED && done >= target && likely(!gda->dc_lost))
        return WEFT_OK;
    struct gda_initiator *initiator = gda_initiator_of(gda, q);
    if (initiator)
        return gda_dc_await(gda, initiator, pe, target, operation);
    struct path_wait wait = {
        .world = gda->world, .operation = operation, .pe = pe, .expected = target};
    weft_status status = WEFT_OK;
    while (!status && is_awaited(gda, q, done, target)) {
        gda_help_failover(gda);
        status = path_wait_step(&wait, done);
        done = weft_dev_gda_look(q);
    }
    if (!status && done == WEFT_DEV_GDA_FAILED)
        status = gda_lost(gda);
    if (!status && done == WEFT_DEV_GDA_FAILED)
        status = fail_queue(gda, q, pe, &wait);
    path_wait_end(&wait);
    return status;
}

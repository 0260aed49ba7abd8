/* SPDX-License-Identifier: Apache-2.0 */
/* Replacement of a DC initiator whose queue has failed: a new queue in the same memory executes the
 * requests that had not begun. */
#include "path/gda/dc.h"

#include "base/log.h"
#include "base/status.h"
#include "path/gda/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --------------------------------------------------------------------------------------- losses */

/* Waits up to 0.5 s for the launcher to report that a PE has ended, because the request may have
 * failed for that reason. */
weft_status gda_dc_explain_fault(const struct gda *gda, const struct gda_initiator *initiator,
                                 int pe, const struct gda_dc_fault *fault)
{
    enum { POLLS = 25, PAUSE_NS = 20 * 1000 * 1000 };
    struct path_wait wait = {.world = gda->world, .operation = BOX_OP_QUIET, .pe = pe};
    weft_status status = WEFT_OK;
    for (int i = 0; i < POLLS && !status; i++) {
        status = path_wait_step(&wait, (uint64_t)i);
        nanosleep(&(struct timespec){.tv_nsec = status ? 0 : PAUSE_NS}, NULL);
    }
    path_wait_end(&wait);
    return status ? status
                  : base_fail(WEFT_ERR_PATH,
                              "path gda: a request by DC to PE %d (queue pair %#x of %s, port %d) "
                              "has failed: %s (syndrome %#04x, vendor %#04x)",
                              pe, initiator->q.number, initiator->qp.adapter->name, GDA_PORT,
                              gda_syndrome_text(fault->syndrome), fault->syndrome, fault->vendor);
}

weft_status gda_dc_find_loss(const struct gda *gda, const struct gda_initiator *initiator, int pe,
                             uint64_t target)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&gda->dc->loss_lock);
    for (const struct gda_dc_loss *loss = initiator->losses; loss && !status; loss = loss->next)
        if (loss->pe == pe && (loss->from < target || !loss->from))
            status = base_fail(loss->status, "%s", loss->sentence);
    pthread_mutex_unlock(&gda->dc->loss_lock);
    return status;
}

weft_status gda_dc_note_loss(struct gda *gda, struct gda_initiator *initiator, int pe,
                             uint64_t from, weft_status why)
{
    struct gda_dc_loss *loss = calloc(1, sizeof *loss);
    if (!loss)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    loss->pe = pe;
    loss->from = from;
    loss->status = why;
    snprintf(loss->sentence, sizeof loss->sentence, "%s", base_last_error());
    log_debug(LOG_GDA, "path gda: requests by DC to PE %d are lost: %s", pe, loss->sentence);
    pthread_mutex_lock(&gda->dc->loss_lock);
    loss->next = initiator->losses;
    initiator->losses = loss;
    pthread_mutex_unlock(&gda->dc->loss_lock);
    for (uint32_t a = 0; a < gda->count; a++)
        atomic_store(&gda->dc->pairs[(size_t)pe * gda->count + a], GDA_DC_LOST);
    /* Before the lost requests count as complete: see gda_await(). */
    atomic_store(&gda->dc_lost, true);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------ new queue */

/* Puts the request at `from` into the ring behind `head`, or NOPs in its place: the threads that
 * wait know how many blocks it has. Returns its blocks. */
static uint32_t repost(struct gda_initiator *initiator, const char *from, int pe, bool is_left_out)
{
    const struct weft_dev_gda_ring *ring = &initiator->ring;
    const uint32_t segments = gda_dc_segments(from), blocks = gda_dc_blocks(segments);
    uint64_t index = initiator->head - initiator->start;
    struct weft_dev_vec16 segment;
    uint32_t word;
    memcpy(&word, from, sizeof word);
    for (uint32_t i = 0; i < blocks; i++) {
        initiator->pes[(index + i) & ring->last] = pe;
        if (is_left_out)
            weft_dev_gda_nop(ring, index + i, WEFT_DEV_GDA_SIGNALED);
    }
    initiator->head += blocks;
    if (is_left_out)
        return blocks;
    weft_dev_gda_store(ring, index, 0,
                       weft_dev_gda_control(ring, index, word >> 24, word & 0xff, segments,
                                            (unsigned char)from[11]));
    for (uint32_t i = 1; i < segments; i++) {
        memcpy(&segment, from + (size_t)i * WEFT_DEV_GDA_SEGMENT, sizeof segment);
        weft_dev_gda_store(ring, index, i, segment);
    }
    return blocks;
}

weft_status gda_dc_copy_pending(const struct gda_initiator *initiator, uint64_t from,
                                struct gda_dc_pending *pending)
{
    const struct weft_dev_gda_ring *ring = &initiator->ring;
    uint64_t index = from - initiator->start;
    pending->count = (uint32_t)(initiator->head - from);
    pending->blocks = malloc((size_t)pending->count * WEFT_DEV_GDA_BLOCK);
    pending->pes = malloc((size_t)pending->count * sizeof *pending->pes);
    if (!pending->blocks || !pending->pes)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    for (uint32_t i = 0; i < pending->count; i++) {
        memcpy(pending->blocks + (size_t)i * WEFT_DEV_GDA_BLOCK,
               weft_dev_gda_block(ring, index + i), WEFT_DEV_GDA_BLOCK);
        pending->pes[i] = initiator->pes[(index + i) & ring->last];
    }
    return WEFT_OK;
}

void gda_dc_free_pending(struct gda_dc_pending *pending)
{
    free(pending->blocks);
    free(pending->pes);
}

weft_status gda_dc_reopen(const struct gda *gda, struct gda_initiator *initiator, uint64_t from,
                          const struct gda_dc_pending *pending, int without)
{
    struct gda_qp *qp = &initiator->qp;
    gda_destroy_qp(qp);
    *qp = (struct gda_qp){.adapter = qp->adapter, .umem = qp->umem, .dc = true, .entries = true};
    weft_status status = gda_open_initiator_queue(gda, initiator);
    if (status)
        return status;
    initiator->start = initiator->head = from;
    initiator->failed = false;
    for (uint32_t at = 0; at < pending->count;)
        at += repost(initiator, pending->blocks + (size_t)at * WEFT_DEV_GDA_BLOCK, pending->pes[at],
                     pending->pes[at] == without);
    if (initiator->head != from)
        gda_dc_ring(initiator);
    return WEFT_OK;
}

weft_status gda_dc_replace(struct gda *gda, struct gda_initiator *initiator,
                           const struct gda_dc_fault *fault)
{
    struct gda_dc_pending pending = {0};
    const int pe = initiator->pes[(fault->at - initiator->start) & initiator->ring.last];
    weft_status status = gda_dc_copy_pending(initiator, fault->at, &pending);
    if (!status)
        status = gda_dc_note_loss(gda, initiator, pe, fault->at,
                                  gda_dc_explain_fault(gda, initiator, pe, fault));
    if (!status)
        status = gda_dc_reopen(gda, initiator, fault->at, &pending, pe);
    gda_dc_free_pending(&pending);
    initiator->broken = status;
    if (status) {
        snprintf(initiator->sentence, sizeof initiator->sentence, "%s", base_last_error());
        gda->world->fail(gda->world, status, initiator->sentence);
    }
    return status;
}

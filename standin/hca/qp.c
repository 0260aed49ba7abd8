/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: numbers, states, and what happens to their requests on failure. Requested state
 * transitions are validated by devx.c and verbs/qp.c. */
#include "hca.h"

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

struct qp *qp_find(struct device *d, uint32_t qpn)
{
    return qpn >> 12 == d->lid ? d->objects.qps[qpn & (MAX_QPS - 1)] : NULL;
}

struct qp *qp_add(struct device *d)
{
    struct qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return NULL;
    /* A QP number is reused as late as possible: packets to the old QP may still be in transit. */
    for (unsigned tries = 1; tries < MAX_QPS; tries++) {
        uint32_t n = d->objects.qp_next++ % (MAX_QPS - 1) + 1;
        if (d->objects.qps[n])
            continue;
        qp->device = d;
        qp->qpn = (uint32_t)d->lid << 12 | n;
        qp->user_index = qp->qpn;
        qp->requester.mtu = 1024;
        d->objects.qps[n] = qp;
        return qp;
    }
    free(qp);
    return NULL;
}

/* Sets the send queue. False: out of memory. */
bool qp_set_ring(struct qp *qp, void *ring, uint32_t blocks)
{
    qp->send.ring = ring;
    qp->send.blocks = blocks;
    qp->send.outstanding_mask = blocks ? blocks - 1 : 0;
    qp->send.outstanding = calloc(blocks ? blocks : 1, sizeof *qp->send.outstanding);
    return qp->send.outstanding;
}

/* The local copy of the ring is empty and is filled by doorbells. */
bool qp_set_gpu_ring(struct qp *qp, void *ring, uint32_t blocks)
{
    void *here = calloc(blocks, WQE_BLOCK_BYTES);
    qp->send.gpu_ring = (uintptr_t)ring;
    return here && qp_set_ring(qp, here, blocks);
}

bool qp_fetch(struct qp *qp, uint16_t end)
{
    uint16_t at = qp->send.producer;
    while (qp->send.gpu_ring && at != end) {
        uint32_t slot = at & (qp->send.blocks - 1), n = (uint16_t)(end - at);
        n = n < qp->send.blocks - slot ? n : qp->send.blocks - slot;
        size_t offset = (size_t)slot * WQE_BLOCK_BYTES;
        if (!memory_get(qp->device, qp->send.ring + offset,
                        (void *)(uintptr_t)(qp->send.gpu_ring + offset),
                        (size_t)n * WQE_BLOCK_BYTES))
            return false;
        at = (uint16_t)(at + n);
    }
    return true;
}

bool qp_record(struct qp *qp, unsigned which, uint16_t *value)
{
    uint32_t word = 0;
    bool there = true;
    if (qp->send.gpu_ring)
        there = memory_get(qp->device, &word, &qp->record[which], sizeof word);
    else /* Acquire: the program wrote the WQEs before the record. */
        word = __atomic_load_n(&qp->record[which], __ATOMIC_ACQUIRE);
    *value = (uint16_t)be32(word);
    return there;
}

void qp_remove(struct qp *qp)
{
    struct device *d = qp->device;
    qp_reset(qp);
    for (unsigned i = 0; i < d->pending.work_count; i++)
        if (d->pending.work[i] == qp)
            d->pending.work[i--] = d->pending.work[--d->pending.work_count];
    respond_drop_acks(d, qp);
    d->objects.qps[qp->qpn & (MAX_QPS - 1)] = NULL;
    if (qp->uar) {
        qp->uar->queues--;
        if (qp->uar->sole_qp == qp)
            qp->uar->sole_qp = NULL;
    }
    for (unsigned i = 0; i < 2; i++)
        if (qp->memories[i])
            qp->memories[i]->users--;
    if (qp->send_cq)
        qp->send_cq->users--;
    if (qp->receive_cq)
        qp->receive_cq->users--;
    if (qp->srq)
        qp->srq->users--;
    if (qp->send.gpu_ring)
        free(qp->send.ring);
    free(qp->send.outstanding);
    free(qp);
}

void qp_reset(struct qp *qp)
{
    link_release(qp->device, qp);
    for (struct responder *s = qp->responder.next, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    respond_drop_acks(qp->device, qp);
    memset(&qp->responder, 0, sizeof qp->responder);
    qp->send.producer = qp->send.taken = qp->send.released = 0;
    qp->send.outstanding_head = qp->send.outstanding_tail = 0;
    qp->send.reads = 0;
    qp->current.loaded = qp->current.outstanding = false;
    qp->current.resume_packets = 0;
    qp->current.offset = 0;
    qp->send.fault = (struct fault){0};
    qp->requester.late_nak = 0;
    qp->requester.psn = qp->requester.acked = qp->requester.psn_limit = 0;
    qp->requester.wait_until = qp->requester.loss_noticed_at = 0;
    qp->requester.counted_end = 0;
    qp->requester.response_lost = false;
    qp->requester.retransmissions = 0;
    qp->receive.taken = 0;
    qp->state = QP_RESET;
    device_changes(qp->device);
}

void qp_list(struct qp *qp)
{
    struct device *d = qp->device;
    if (qp->send.listed)
        return;
    qp->send.listed = true;
    d->pending.work[d->pending.work_count++] = qp;
}

/* Moves the QP to ERROR. The engine flushes all incomplete requests (send_run()). */
void qp_to_error(struct qp *qp)
{
    if (qp->state == QP_ERROR || qp->state == QP_RESET)
        return;
    if (qp->send.outstanding_head != qp->send.outstanding_tail)
        qp->send.taken =
            qp->send.outstanding[qp->send.outstanding_head & qp->send.outstanding_mask].index;
    qp->send.outstanding_head = qp->send.outstanding_tail;
    qp->send.reads = 0;
    qp->current.loaded = qp->current.outstanding = false;
    qp->current.resume_packets = 0;
    qp->send.fault = (struct fault){0};
    qp->requester.late_nak = 0;
    qp->state = QP_ERROR;
    device_changes(qp->device);
    receive_flush(qp);
    qp_list(qp);
}

/* Completes the request at index with an error, whether it requested a completion or not. */
void qp_fail(struct qp *qp, uint16_t index, uint8_t opcode, uint8_t syndrome, uint8_t vendor)
{
    uint32_t control[4];
    struct wqe w;
    memcpy(control, qp->send.ring + (size_t)(index & (qp->send.blocks - 1)) * WQE_BLOCK_BYTES, 16);
    wqe_control(control, &w);
    cq_write_error(qp->send_cq, qp, false, index, opcode, syndrome, vendor);
    qp->counts.errors++;
    log_error(qp->device, "QP 0x%x: request 0x%x (opcode 0x%02x) ended with syndrome 0x%02x",
              qp->qpn, index, opcode, syndrome);
    qp_to_error(qp);
    qp->send.taken = (uint16_t)(index + (w.blocks ? w.blocks : 1));
    if ((int16_t)(qp->send.producer - qp->send.taken) < 0)
        qp->send.taken = qp->send.producer;
    qp->send.released = qp->send.taken;
}

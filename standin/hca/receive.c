/* SPDX-License-Identifier: Apache-2.0 */
/* Receive queues of a QP and shared receive queues: WQEs are lists of data segments. The doorbell
 * record alone publishes them. */
#include "hca.h"

#include <string.h>

enum { INVALID_LKEY = 0x100, NEXT_SEGMENT_BYTES = 16 };

static struct receive_queue *queue_of(struct qp *qp)
{
    return qp->srq ? &qp->srq->queue : &qp->receive;
}

static const uint8_t *entry_at(const struct receive_queue *q, uint16_t index)
{
    uint32_t slot = index & ((1u << q->log_count) - 1);
    return q->ring + ((size_t)slot << q->log_stride);
}

/* Consumes the next posted receive WQE. False: there is none. */
bool receive_consume(struct qp *qp, uint16_t *index)
{
    struct receive_queue *q = queue_of(qp);
    if (!q->ring)
        return false;
    /* Acquire: the program wrote the entries before the record. */
    uint16_t posted = (uint16_t)be32(__atomic_load_n(q->record, __ATOMIC_ACQUIRE));
    if (posted == q->taken)
        return false;
    *index = q->linked ? q->next : q->taken;
    if (q->linked) {
        const uint8_t *e = entry_at(q, q->next);
        q->next = (uint16_t)(e[2] << 8 | e[3]);
    }
    q->taken++;
    return true;
}

/* Writes bytes of a message, from its byte `offset` on, to the receive WQE. Returns a syndrome. */
uint8_t receive_scatter(struct qp *qp, uint16_t index, uint64_t offset, const void *data,
                        uint64_t bytes)
{
    struct receive_queue *q = queue_of(qp);
    const uint8_t *e = entry_at(q, index), *end = e + ((size_t)1 << q->log_stride), *from = data;
    uint32_t pd = qp->srq ? qp->srq->pd : qp->pd;
    for (e += q->linked ? NEXT_SEGMENT_BYTES : 0; bytes && e + 16 <= end; e += 16) {
        uint32_t words[4];
        uint64_t memory;
        memcpy(words, e, 16);
        uint64_t room = wqe_u32(words, 0), address = wqe_u64(words, 2);
        uint32_t lkey = wqe_u32(words, 1);
        if (lkey == INVALID_LKEY)
            break;
        room = room ? room : UINT64_C(1) << 31;
        if (offset >= room) {
            offset -= room;
            continue;
        }
        uint64_t n = room - offset < bytes ? room - offset : bytes;
        enum mr_refusal r =
            mr_find(&qp->device->objects.keys, lkey, pd, MR_LOCAL_WRITE, address, room, &memory);
        if (r) {
            log_error(qp->device,
                      "QP 0x%x: receive entry 0x%x names 0x%llx + %llu with lkey 0x%x: %s", qp->qpn,
                      index, (unsigned long long)address, (unsigned long long)room, lkey,
                      mr_refusal_text(r));
            return SYNDROME_LOCAL_PROTECTION;
        }
        if (!memory_put(qp->device, (void *)(uintptr_t)(memory + offset), from, n))
            return SYNDROME_LOCAL_PROTECTION;
        from += n;
        bytes -= n;
        offset = 0;
    }
    return bytes ? SYNDROME_LOCAL_LENGTH : SYNDROME_NONE;
}

/* Flushes the receive queue of a failed QP. WQEs of a shared receive queue stay there. */
void receive_flush(struct qp *qp)
{
    uint16_t index;
    if (qp->srq || !qp->receive_cq)
        return;
    while (receive_consume(qp, &index))
        cq_write_error(qp->receive_cq, qp, true, index, 0, SYNDROME_FLUSHED, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: CQEs of 64 bytes as in struct mlx5_cqe64, in a ring or all in entry 0
 * (collapsed). */
#include "hca.h"

#include <infiniband/verbs.h>
#include <string.h>

enum {
    CQE_REQUEST = 0,
    CQE_REQUEST_ERROR = 13,
    CQE_RESPONSE_ERROR = 14,
};

/* Fields of a CQE that differ. */
struct cq_entry {
    uint8_t kind; /* CQE opcode */
    bool solicited;
    uint8_t opcode; /* WQE opcode */
    uint16_t index;
    uint32_t bytes, immediate, number;
    uint8_t syndrome, vendor;
};

static bool overrun(struct cq *cq)
{
    if (cq->dead)
        return true;
    if (cq->ignore_overrun)
        return false;
    /* Acquire: the program has read the CQEs that are overwritten. */
    uint32_t consumer = be32(__atomic_load_n(&cq->record[0], __ATOMIC_ACQUIRE));
    if (((cq->producer - consumer) & 0xffffff) < UINT32_C(1) << cq->log_size)
        return false;
    cq->dead = true;
    log_error(
        cq->device,
        "CQ 0x%x overrun: its %u entries are not consumed (consumer index 0x%x, producer 0x%x)",
        cq->cqn, 1u << cq->log_size, consumer & 0xffffff, cq->producer & 0xffffff);
    cq_async_event(cq, IBV_EVENT_CQ_ERR);
    return true;
}

/* Writes a CQE in GPU memory: the last 8 bytes after the rest. */
static void write_gpu_entry(struct cq *cq, uint8_t *at, const void *words, const uint8_t *tail)
{
    (void)(memory_put(cq->device, at, words, 56) && memory_put(cq->device, at + 56, tail, 8) &&
           memory_flush(cq->device));
}

static void put_entry(struct cq *cq, const struct qp *qp, const struct cq_entry *e)
{
    if (overrun(cq))
        return;
    memory_flush(cq->device);
    uint32_t slot = cq->collapsed ? 0 : cq->producer & ((1u << cq->log_size) - 1);
    uint8_t *at = cq->buffer + (size_t)slot * 64;
    uint32_t words[16] = {0};
    uint8_t tail[8];
    words[8] = be32(e->number);
    words[9] = e->immediate;
    words[11] = be32(e->bytes);
    uint64_t stamp = be64(clock_ns());
    memcpy(&words[12], &stamp, 8);
    ((uint8_t *)words)[54] = e->syndrome ? e->vendor : ((uint8_t *)words)[54];
    ((uint8_t *)words)[55] = e->syndrome ? e->syndrome : ((uint8_t *)words)[55];
    uint32_t who = be32((uint32_t)e->opcode << 24 | qp->qpn);
    uint8_t owner = cq->producer >> cq->log_size & 1;
    memcpy(tail, &who, 4);
    tail[4] = (uint8_t)(e->index >> 8);
    tail[5] = (uint8_t)e->index;
    tail[6] = 0;
    tail[7] = (uint8_t)(e->kind << 4 | (e->solicited ? 2 : 0) | owner);
    uint64_t last;
    memcpy(&last, tail, 8);
    if (cq->on_gpu)
        write_gpu_entry(cq, at, words, tail);
    else
        memcpy(at, words, 56);
    /* Pairs with the poller's load of the last byte or word: the rest of the CQE, and everything
     * that the completion covers, was written before. */
    if (!cq->on_gpu)
        __atomic_store_n((uint64_t *)(at + 56), last, __ATOMIC_RELEASE);
    cq->producer++;
    if (e->solicited || e->syndrome)
        cq->solicited = cq->producer;
    if (cq->channel)
        cq_notify(cq);
}

void cq_write_request(struct cq *cq, const struct qp *qp, const struct outstanding *f)
{
    struct cq_entry e = {.kind = CQE_REQUEST,
                         .solicited = f->solicited,
                         .opcode = f->opcode,
                         .index = f->index,
                         .bytes = f->received,
                         .number = qp->user_index};
    put_entry(cq, qp, &e);
}

void cq_write_error(struct cq *cq, const struct qp *qp, bool responder, uint16_t index,
                    uint8_t opcode, uint8_t syndrome, uint8_t vendor)
{
    struct cq_entry e = {.kind = responder ? CQE_RESPONSE_ERROR : CQE_REQUEST_ERROR,
                         .opcode = opcode,
                         .index = index,
                         .syndrome = syndrome,
                         .vendor = vendor,
                         .number = responder && qp->srq ? qp->srq->number : qp->user_index};
    put_entry(cq, qp, &e);
}

void cq_write_receive(struct cq *cq, const struct qp *qp, uint8_t kind, uint16_t index,
                      uint32_t bytes, uint32_t immediate, bool solicited)
{
    struct cq_entry e = {.kind = kind,
                         .solicited = solicited,
                         .index = index,
                         .bytes = bytes,
                         .immediate = immediate,
                         .number = qp->user_index};
    put_entry(cq, qp, &e);
}

/* Sends the completion event that the program armed, if there is a CQE after the consumer index of
 * the arm word. Arm word: sequence << 28 | solicited only << 24 | consumer index. */
bool cq_notify(struct cq *cq)
{
    uint32_t word = be32(__atomic_load_n(&cq->record[1], __ATOMIC_ACQUIRE));
    if (word == cq->last_armed)
        return false;
    uint32_t last = word >> 24 & 1 ? cq->solicited : cq->producer;
    if ((int32_t)((last - word) << 8) <= 0)
        return false;
    cq->last_armed = word;
    channel_send(cq->channel, &cq->owner, sizeof cq->owner);
    return true;
}

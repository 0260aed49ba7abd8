/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues and channels of the verbs interface; CQEs are read as a NIC's provider reads
 * them. */
#include "context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *queue_memory(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes, MADV_DONTFORK);
    return at;
}

PUBLIC struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                    struct ibv_comp_channel *channel, int comp_vector)
{
    struct device *d = context_of(context)->device;
    uint32_t log = 1;
    if (cqe < 1 || cqe >= 1 << MAX_CQ_LOG || comp_vector < 0 ||
        comp_vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    /* One CQE stays free. */
    while (1 << log <= cqe)
        log++;
    struct hca_cq *h = calloc(1, sizeof *h);
    size_t entries = (size_t)64 << log;
    if (!h)
        return NULL;
    h->bytes = entries + 64;
    h->memory = queue_memory(h->bytes);
    device_lock(d);
    struct cq *cq = h->memory ? cq_add(d) : NULL;
    if (!cq) {
        device_unlock(d);
        if (h->memory)
            munmap(h->memory, h->bytes);
        free(h);
        errno = ENOMEM;
        return NULL;
    }
    memset(h->memory, 0xff, entries);
    cq->buffer = h->memory;
    cq->record = (uint32_t *)((char *)h->memory + entries);
    cq->log_size = log;
    cq->owner = &h->cq;
    cq->events = &context_of(context)->events;
    if (channel) {
        cq->channel = &HOLDER(channel, struct hca_channel, channel)->pipe;
        d->pending.notify[d->pending.notify_count++] = cq;
        channel->refcnt++;
    }
    device_unlock(d);
    h->of = cq;
    h->events = 1;
    pthread_mutex_init(&h->lock, NULL);
    h->cq = (struct ibv_cq){.context = context,
                            .channel = channel,
                            .cq_context = cq_context,
                            .handle = cq->cqn,
                            .cqe = (1 << log) - 1};
    pthread_mutex_init(&h->cq.mutex, NULL);
    pthread_cond_init(&h->cq.cond, NULL);
    return &h->cq;
}

PUBLIC int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct hca_cq *h = cq_of(cq);
    struct device *d = h->of->device;
    device_lock(d);
    bool busy = h->of->users;
    if (!busy) {
        cq_remove(h->of);
        if (cq->channel)
            cq->channel->refcnt--;
    }
    device_unlock(d);
    if (busy)
        return EBUSY;
    pthread_mutex_destroy(&h->lock);
    munmap(h->memory, h->bytes);
    free(h);
    return 0;
}

PUBLIC int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    return cqe <= cq->cqe ? 0 : EOPNOTSUPP;
}

/* --- Polling --- */

static enum ibv_wc_status status_of(uint8_t syndrome)
{
    static const struct {
        uint8_t syndrome, status;
    } table[] = {
        {SYNDROME_LOCAL_LENGTH, IBV_WC_LOC_LEN_ERR},
        {SYNDROME_LOCAL_QP_OPERATION, IBV_WC_LOC_QP_OP_ERR},
        {SYNDROME_LOCAL_PROTECTION, IBV_WC_LOC_PROT_ERR},
        {SYNDROME_FLUSHED, IBV_WC_WR_FLUSH_ERR},
        {SYNDROME_BAD_RESPONSE, IBV_WC_BAD_RESP_ERR},
        {SYNDROME_LOCAL_ACCESS, IBV_WC_LOC_ACCESS_ERR},
        {SYNDROME_REMOTE_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR},
        {SYNDROME_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR},
        {SYNDROME_REMOTE_OPERATION, IBV_WC_REM_OP_ERR},
        {SYNDROME_RETRY_EXCEEDED, IBV_WC_RETRY_EXC_ERR},
        {SYNDROME_RNR_EXCEEDED, IBV_WC_RNR_RETRY_EXC_ERR},
    };
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].syndrome == syndrome)
            return table[i].status;
    return IBV_WC_GENERAL_ERR;
}

static enum ibv_wc_opcode opcode_of(uint8_t wqe_opcode)
{
    switch (wqe_opcode) {
    case WQE_WRITE:
    case WQE_WRITE_IMM:
        return IBV_WC_RDMA_WRITE;
    case WQE_READ:
        return IBV_WC_RDMA_READ;
    case WQE_COMPARE_SWAP:
    case WQE_MASKED_COMPARE_SWAP:
        return IBV_WC_COMP_SWAP;
    case WQE_FETCH_ADD:
    case WQE_MASKED_FETCH_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

static void complete_send(struct hca_qp *q, const struct mlx5_cqe64 *e, struct ibv_wc *wc)
{
    uint32_t slot = be16toh(e->wqe_counter) & (q->of->send.blocks - 1);
    wc->wr_id = q->send_ids[slot];
    __atomic_store_n(&q->done, q->send_numbers[slot] + 1, __ATOMIC_RELEASE);
    wc->opcode = opcode_of((uint8_t)(be32toh(e->sop_drop_qpn) >> 24));
    wc->byte_len =
        wqe_is_atomic((uint8_t)(be32toh(e->sop_drop_qpn) >> 24)) ? 8 : be32toh(e->byte_cnt);
}

static void complete_receive_entry(struct hca_qp *q, const struct mlx5_cqe64 *e, struct ibv_wc *wc)
{
    uint16_t index = be16toh(e->wqe_counter);
    if (q->qp.srq) {
        struct hca_srq *s = srq_of(q->qp.srq);
        wc->wr_id = s->wr_ids[index];
        srq_free_entry(s, index);
    } else {
        wc->wr_id = q->receive_ids[index & (q->cap.max_recv_wr - 1)];
        __atomic_store_n(&q->received_done, (uint16_t)(index + 1), __ATOMIC_RELEASE);
    }
    wc->byte_len = be32toh(e->byte_cnt);
    wc->imm_data = e->imm_inval_pkey;
}

static bool translate_cqe(struct hca_cq *h, const struct mlx5_cqe64 *e, struct ibv_wc *wc)
{
    uint32_t qpn = be32toh(e->sop_drop_qpn) & 0xffffff;
    struct hca_qp *q = atomic_load(&h->of->device->objects.owners[qpn & (MAX_QPS - 1)]);
    /* Completions of a destroyed QP are skipped. */
    if (!q || q->of->qpn != qpn)
        return false;
    const struct mlx5_err_cqe *error = (const struct mlx5_err_cqe *)e;
    *wc = (struct ibv_wc){.qp_num = qpn};
    switch (e->op_own >> 4) {
    case MLX5_CQE_REQ:
        complete_send(q, e, wc);
        return true;
    case MLX5_CQE_RESP_WR_IMM:
        complete_receive_entry(q, e, wc);
        wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        wc->wc_flags = IBV_WC_WITH_IMM;
        return true;
    case MLX5_CQE_RESP_SEND:
    case MLX5_CQE_RESP_SEND_IMM:
        complete_receive_entry(q, e, wc);
        wc->opcode = IBV_WC_RECV;
        wc->wc_flags = e->op_own >> 4 == MLX5_CQE_RESP_SEND_IMM ? IBV_WC_WITH_IMM : 0;
        return true;
    case MLX5_CQE_RESP_SEND_INV:
        complete_receive_entry(q, e, wc);
        wc->opcode = IBV_WC_RECV;
        wc->wc_flags = IBV_WC_WITH_INV;
        wc->invalidated_rkey = be32toh(e->imm_inval_pkey);
        return true;
    case MLX5_CQE_REQ_ERR:
        complete_send(q, e, wc);
        break;
    default:
        complete_receive_entry(q, e, wc);
        wc->opcode = IBV_WC_RECV;
    }
    wc->status = status_of(error->syndrome);
    wc->vendor_err = error->vendor_err_synd;
    return true;
}

int verbs_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    struct hca_cq *h = cq_of(cq);
    uint32_t mask = (1u << h->of->log_size) - 1, before;
    int got = 0;
    pthread_mutex_lock(&h->lock);
    before = h->consumer;
    while (got < n) {
        struct mlx5_cqe64 *e = (struct mlx5_cqe64 *)h->of->buffer + (h->consumer & mask);
        /* Pairs with the HCA's store of the last word. */
        uint64_t last = __atomic_load_n((uint64_t *)&e->sop_drop_qpn, __ATOMIC_ACQUIRE);
        uint8_t own = (uint8_t)(last >> 56);
        if (own >> 4 == MLX5_CQE_INVALID || (own & 1) != (h->consumer >> h->of->log_size & 1))
            break;
        got += translate_cqe(h, e, &wc[got]);
        h->consumer++;
    }
    if (h->consumer != before)
        __atomic_store_n(&h->of->record[0], be32(h->consumer & 0xffffff), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&h->lock);
    return got;
}

/* --- Events --- */

int verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    struct hca_cq *h = cq_of(cq);
    pthread_mutex_lock(&h->lock);
    uint32_t word =
        (h->events & 3) << 28 | (solicited_only ? 1u << 24 : 0) | (h->consumer & 0xffffff);
    __atomic_store_n(&h->of->record[1], be32(word), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&h->lock);
    device_wake(h->of->device);
    return 0;
}

PUBLIC struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct hca_channel *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (channel_open(&c->pipe)) {
        free(c);
        return NULL;
    }
    c->channel.context = context;
    c->channel.fd = c->pipe.read_fd;
    return &c->channel;
}

PUBLIC int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct hca_channel *c = HOLDER(channel, struct hca_channel, channel);
    if (channel->refcnt)
        return EBUSY;
    channel_close(&c->pipe);
    free(c);
    return 0;
}

PUBLIC int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    void *owner;
    if (read(channel->fd, &owner, sizeof owner) != sizeof owner)
        return -1;
    struct hca_cq *h = cq_of(owner);
    pthread_mutex_lock(&h->lock);
    h->events++;
    pthread_mutex_unlock(&h->lock);
    *cq = owner;
    *cq_context = h->cq.cq_context;
    return 0;
}

PUBLIC void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += n;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

PUBLIC int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return read(context->async_fd, event, sizeof *event) == sizeof *event ? 0 : -1;
}

PUBLIC void ibv_ack_async_event(struct ibv_async_event *event)
{
    /* Nothing to do: no object's destruction waits for it. */
}

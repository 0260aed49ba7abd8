/* SPDX-License-Identifier: Apache-2.0 */
/* Posting with the verbs interface: WQEs are written to the ring in the device's format, then the
 * doorbell record and the doorbell, as a NIC's provider does. */
#include "context.h"

#include <errno.h>
#include <string.h>

static const struct {
    uint8_t wqe;
    bool remote, atomic;
} opcodes[] = {
    [IBV_WR_RDMA_WRITE] = {WQE_WRITE, true, false},
    [IBV_WR_RDMA_WRITE_WITH_IMM] = {WQE_WRITE_IMM, true, false},
    [IBV_WR_SEND] = {WQE_SEND, false, false},
    [IBV_WR_SEND_WITH_IMM] = {WQE_SEND_IMM, false, false},
    [IBV_WR_RDMA_READ] = {WQE_READ, true, false},
    [IBV_WR_ATOMIC_CMP_AND_SWP] = {WQE_COMPARE_SWAP, true, true},
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = {WQE_FETCH_ADD, true, true},
    [IBV_WR_SEND_WITH_INV] = {WQE_SEND_INVALIDATE, false, false},
};

/* A WQE is built in contiguous memory and copied to the ring block by block. */
struct draft {
    uint8_t bytes[WQE_MAX_UNITS * WQE_UNIT_BYTES];
    size_t used;
};

static void *extend_wqe(struct draft *w, size_t bytes)
{
    void *at = w->bytes + w->used;
    w->used += bytes;
    return at;
}

static int add_inline(struct draft *w, const struct ibv_send_wr *wr, uint32_t most)
{
    size_t head = w->used, total = 0;
    for (int i = 0; i < wr->num_sge; i++)
        total += wr->sg_list[i].length;
    if (total > most || head + 4 + total > sizeof w->bytes)
        return EINVAL;
    extend_wqe(w, 4);
    for (int i = 0; i < wr->num_sge; i++)
        memcpy(extend_wqe(w, wr->sg_list[i].length), (const void *)(uintptr_t)wr->sg_list[i].addr,
               wr->sg_list[i].length);
    uint32_t count = htobe32((uint32_t)total | MLX5_INLINE_SEG);
    memcpy(w->bytes + head, &count, 4);
    size_t end = (w->used + 15) & ~(size_t)15;
    memset(w->bytes + w->used, 0, end - w->used);
    w->used = end;
    return 0;
}

static int add_data(struct draft *w, const struct hca_qp *q, const struct ibv_send_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > q->cap.max_send_sge)
        return EINVAL;
    if (wr->send_flags & IBV_SEND_INLINE && wr->opcode != IBV_WR_RDMA_READ)
        return wr->num_sge ? add_inline(w, wr, q->cap.max_inline_data) : 0;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *s = &wr->sg_list[i];
        /* A length of 0 means 2 GiB in the device's format. */
        if (s->length)
            mlx5dv_set_data_seg(extend_wqe(w, 16), s->length, s->lkey, s->addr);
    }
    return 0;
}

static void add_address(struct draft *w, const struct hca_qp *q)
{
    struct mlx5_wqe_av av = {0};
    if (q->target)
        av = q->target->av;
    bool full = q->of->device->config->link == LINK_ROCE;
    av.key.dc_key = htobe64(q->target_key);
    av.dqp_dct = htobe32(q->target_qpn | (full ? MLX5_EXTENDED_UD_AV : 0));
    memcpy(extend_wqe(w, full ? sizeof av : 16), &av, full ? sizeof av : 16);
}

static int compose_wqe(struct draft *w, struct hca_qp *q, const struct ibv_send_wr *wr)
{
    uint8_t flags =
        wr->send_flags & IBV_SEND_SIGNALED || q->signal_all ? MLX5_WQE_CTRL_CQ_UPDATE : 0;
    if ((unsigned)wr->opcode >= sizeof opcodes / sizeof *opcodes || !opcodes[wr->opcode].wqe)
        return EINVAL;
    bool remote = opcodes[wr->opcode].remote, atomic = opcodes[wr->opcode].atomic;
    flags |= wr->send_flags & IBV_SEND_FENCE ? MLX5_WQE_CTRL_FENCE : 0;
    flags |= wr->send_flags & IBV_SEND_SOLICITED ? MLX5_WQE_CTRL_SOLICITED : 0;
    memset(w->bytes, 0, sizeof(struct mlx5_wqe_ctrl_seg)); /* not all of it is set below */
    w->used = sizeof(struct mlx5_wqe_ctrl_seg);
    if (q->of->type == QP_DCI)
        add_address(w, q);
    if (remote) {
        struct mlx5_wqe_raddr_seg *r = extend_wqe(w, sizeof *r);
        r->raddr = htobe64(atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr);
        r->rkey = htobe32(atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey);
        r->reserved = 0;
    }
    if (atomic) {
        struct mlx5_wqe_atomic_seg *a = extend_wqe(w, sizeof *a);
        bool swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        a->swap_add = htobe64(swap ? wr->wr.atomic.swap : wr->wr.atomic.compare_add);
        a->compare = swap ? htobe64(wr->wr.atomic.compare_add) : 0;
    }
    int e = add_data(w, q, wr);
    if (e)
        return e;
    mlx5dv_set_ctrl_seg((struct mlx5_wqe_ctrl_seg *)w->bytes, q->next, opcodes[wr->opcode].wqe, 0,
                        q->of->qpn, flags, (uint8_t)(w->used / 16), 0,
                        wr->opcode == IBV_WR_SEND_WITH_INV ? htobe32(wr->invalidate_rkey)
                                                           : wr->imm_data);
    return 0;
}

/* Writes a WQE to the ring without a doorbell. The caller holds send_lock. */
static int write_request(struct hca_qp *q, const struct ibv_send_wr *wr)
{
    struct draft w;
    uint32_t mask = q->of->send.blocks - 1, slot = q->next & mask;
    /* Acquire: pairs with complete_send(), which has read the entries that are reused. */
    if (q->posted - __atomic_load_n(&q->done, __ATOMIC_ACQUIRE) >= q->cap.max_send_wr)
        return ENOMEM;
    int e = compose_wqe(&w, q, wr);
    if (e)
        return e;
    size_t blocks = (w.used + WQE_BLOCK_BYTES - 1) / WQE_BLOCK_BYTES;
    for (size_t b = 0; b < blocks; b++) {
        size_t rest = w.used - b * WQE_BLOCK_BYTES;
        memcpy(q->of->send.ring + ((q->next + b) & mask) * WQE_BLOCK_BYTES,
               w.bytes + b * WQE_BLOCK_BYTES, rest < WQE_BLOCK_BYTES ? rest : WQE_BLOCK_BYTES);
    }
    q->send_ids[slot] = wr->wr_id;
    q->send_numbers[slot] = q->posted++;
    q->next = (uint16_t)(q->next + blocks);
    return 0;
}

static void ring_doorbell(struct hca_qp *q)
{
    uint32_t words[2] = {htobe32((uint32_t)q->next << 8), htobe32(q->of->qpn << 8)};
    uint64_t value;
    memcpy(&value, words, 8);
    /* The WQEs must be visible before the record, and the record before the doorbell. */
    __atomic_store_n(&q->of->record[1], htobe32(q->next), __ATOMIC_RELEASE);
    __atomic_store_n(q->of->uar->reg, value, __ATOMIC_RELEASE);
    device_wake(q->of->device);
}

int verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct hca_qp *q = qp_of(qp);
    int e = 0;
    if (!q->of->send.ring) {
        *bad = wr;
        return EINVAL;
    }
    pthread_mutex_lock(&q->send_lock);
    uint16_t before = q->next;
    for (; wr && !(e = write_request(q, wr)); wr = wr->next)
        ;
    if (q->next != before)
        ring_doorbell(q);
    pthread_mutex_unlock(&q->send_lock);
    if (e)
        *bad = wr;
    return e;
}

/* --- Receiving --- */

static void write_segments(struct mlx5_wqe_data_seg *to, uint32_t most,
                           const struct ibv_recv_wr *wr)
{
    uint32_t n = 0;
    for (int i = 0; i < wr->num_sge; i++)
        if (wr->sg_list[i].length)
            mlx5dv_set_data_seg(&to[n++], wr->sg_list[i].length, wr->sg_list[i].lkey,
                                wr->sg_list[i].addr);
    if (n < most)
        mlx5dv_set_data_seg(&to[n], 0, MLX5_INVALID_LKEY, 0);
}

int verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct hca_qp *q = qp_of(qp);
    struct receive_queue *r = &q->of->receive;
    int e = 0;
    if (!r->ring || qp->srq) {
        *bad = wr;
        return EINVAL;
    }
    pthread_mutex_lock(&q->receive_lock);
    for (; wr; wr = wr->next) {
        uint16_t used =
            (uint16_t)(q->received_posted - __atomic_load_n(&q->received_done, __ATOMIC_ACQUIRE));
        if (used >= q->cap.max_recv_wr)
            e = ENOMEM;
        else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > q->cap.max_recv_sge)
            e = EINVAL;
        if (e)
            break;
        uint32_t slot = q->received_posted & (q->cap.max_recv_wr - 1);
        write_segments((void *)(r->ring + ((size_t)slot << r->log_stride)), q->cap.max_recv_sge,
                       wr);
        q->receive_ids[slot] = wr->wr_id;
        q->received_posted++;
    }
    __atomic_store_n(r->record, htobe32(q->received_posted), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&q->receive_lock);
    /* The queue has failed: the WQE is flushed at once. */
    if (__atomic_load_n(&q->of->state, __ATOMIC_RELAXED) == QP_ERROR) {
        device_lock(q->of->device);
        receive_flush(q->of);
        device_unlock(q->of->device);
    }
    if (e)
        *bad = wr;
    return e;
}

/* Appends to the free list: `head` is posted next, `tail` is the last entry and stays free. */
void srq_free_entry(struct hca_srq *s, uint16_t index)
{
    pthread_mutex_lock(&s->lock);
    struct receive_queue *r = &s->of->queue;
    struct mlx5_wqe_srq_next_seg *last = (void *)(r->ring + ((size_t)s->tail << r->log_stride));
    last->next_wqe_index = htobe16(index);
    s->tail = index;
    pthread_mutex_unlock(&s->lock);
}

int verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct hca_srq *s = srq_of(srq);
    struct receive_queue *r = &s->of->queue;
    int e = 0;
    pthread_mutex_lock(&s->lock);
    for (; wr; wr = wr->next) {
        if (s->head == s->tail)
            e = ENOMEM;
        else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > s->max_sge)
            e = EINVAL;
        if (e)
            break;
        struct mlx5_wqe_srq_next_seg *entry =
            (void *)(r->ring + ((size_t)s->head << r->log_stride));
        s->wr_ids[s->head] = wr->wr_id;
        s->head = be16toh(entry->next_wqe_index);
        write_segments((void *)(entry + 1), s->max_sge, wr);
        s->posted++;
    }
    __atomic_store_n(r->record, htobe32(s->posted), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&s->lock);
    if (e)
        *bad = wr;
    return e;
}

/* --- ibv_wr_*(): the same requests, built by several calls --- */

static struct hca_qp *of_ex(struct ibv_qp_ex *ex)
{
    return HOLDER(ex, struct hca_qp, ex);
}

/* Completes the request that is being built when the next one begins. */
static void close_request(struct hca_qp *q)
{
    if (q->is_building && !q->build_error)
        q->build_error = write_request(q, &q->building);
    q->is_building = false;
}

static struct ibv_send_wr *open_request(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct hca_qp *q = of_ex(ex);
    close_request(q);
    q->building = (struct ibv_send_wr){
        .wr_id = ex->wr_id, .opcode = opcode, .send_flags = ex->wr_flags, .sg_list = q->sges};
    q->is_building = true;
    return &q->building;
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct hca_qp *q = of_ex(ex);
    pthread_mutex_lock(&q->send_lock);
    q->build_error = 0;
    q->is_building = false;
    q->next_before = q->next;
    q->posted_before = q->posted;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct hca_qp *q = of_ex(ex);
    close_request(q);
    int e = q->build_error;
    if (e) {
        q->next = q->next_before;
        q->posted = q->posted_before;
    } else if (q->next != q->next_before) {
        ring_doorbell(q);
    }
    pthread_mutex_unlock(&q->send_lock);
    return e;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    struct hca_qp *q = of_ex(ex);
    q->is_building = false;
    q->next = q->next_before;
    q->posted = q->posted_before;
    pthread_mutex_unlock(&q->send_lock);
}

static void wr_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
                    uint64_t address)
{
    struct ibv_send_wr *wr = open_request(ex, opcode);
    wr->wr.rdma.rkey = rkey;
    wr->wr.rdma.remote_addr = address;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address)
{
    wr_rdma(ex, IBV_WR_RDMA_WRITE, rkey, address);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, __be32 imm)
{
    wr_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address);
    of_ex(ex)->building.imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address)
{
    wr_rdma(ex, IBV_WR_RDMA_READ, rkey, address);
}

static void wr_send(struct ibv_qp_ex *ex)
{
    open_request(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    open_request(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address,
                              uint64_t compare, uint64_t swap)
{
    struct ibv_send_wr *wr = open_request(ex, IBV_WR_ATOMIC_CMP_AND_SWP);
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.remote_addr = address;
    wr->wr.atomic.compare_add = compare;
    wr->wr.atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, uint64_t add)
{
    struct ibv_send_wr *wr = open_request(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.remote_addr = address;
    wr->wr.atomic.compare_add = add;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
    struct hca_qp *q = of_ex(ex);
    if (n > sizeof q->sges / sizeof *q->sges) {
        q->build_error = EINVAL;
        return;
    }
    memcpy(q->sges, list, n * sizeof *list);
    q->building.num_sge = (int)n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t address, uint32_t length)
{
    wr_set_sge_list(ex, 1, &(struct ibv_sge){.addr = address, .length = length, .lkey = lkey});
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
    struct hca_qp *q = of_ex(ex);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (list[i].length > sizeof q->inline_data - used) {
            q->build_error = EINVAL;
            return;
        }
        memcpy(q->inline_data + used, list[i].addr, list[i].length);
        used += list[i].length;
    }
    q->sges[0] = (struct ibv_sge){.addr = (uintptr_t)q->inline_data, .length = (uint32_t)used};
    q->building.num_sge = 1;
    q->building.send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *data, size_t length)
{
    wr_set_inline_data_list(ex, 1, &(struct ibv_data_buf){.addr = data, .length = length});
}

static void wr_set_dc_addr(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t dctn, uint64_t key)
{
    struct hca_qp *q = HOLDER(dv, struct hca_qp, dv);
    q->target = HOLDER(ah, struct hca_ah, ah);
    q->target_qpn = dctn;
    q->target_key = key;
}

void verbs_fill_wr(struct hca_qp *q)
{
    struct ibv_qp_ex *ex = &q->ex;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    q->dv.wr_set_dc_addr = wr_set_dc_addr;
}

PUBLIC struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return qp_of(qp)->ex.wr_start ? &qp_of(qp)->ex : NULL;
}

PUBLIC struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *ex)
{
    return &of_ex(ex)->dv;
}

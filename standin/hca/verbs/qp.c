/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs of the verbs interface: their rings are allocated here, in the device's format. */
#include "context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_INLINE = 512, MAX_SGE = 30, LARGEST_FIXED = 16 + 48 + 16 + 16 };

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static uint32_t log_of(uint32_t power)
{
    return (uint32_t)__builtin_ctz(power);
}

/* Sizes of a QP. */
struct qp_plan {
    uint32_t blocks; /* blocks of the send ring */
    uint32_t receive_count, receive_log;
};

static bool make_plan(struct ibv_qp_cap *cap, bool send, bool receive, struct qp_plan *p)
{
    *p = (struct qp_plan){0};
    if (cap->max_send_sge > MAX_SGE || cap->max_recv_sge > MAX_SGE ||
        cap->max_inline_data > MAX_INLINE || cap->max_send_wr > MAX_QUEUE_BLOCKS ||
        cap->max_recv_wr > MAX_QUEUE_BLOCKS)
        return false;
    uint32_t data = cap->max_send_sge * 16, inlined = (4 + cap->max_inline_data + 15) & ~15u;
    if (data < inlined)
        data = inlined;
    uint32_t blocks = (LARGEST_FIXED + data + WQE_BLOCK_BYTES - 1) / WQE_BLOCK_BYTES;
    if (send)
        p->blocks = power_of_two((cap->max_send_wr ? cap->max_send_wr : 1) * blocks);
    if (p->blocks > MAX_QUEUE_BLOCKS)
        return false;
    if (receive && cap->max_recv_wr) {
        cap->max_recv_wr = p->receive_count = power_of_two(cap->max_recv_wr);
        p->receive_log = log_of(power_of_two((cap->max_recv_sge ? cap->max_recv_sge : 1) * 16));
    } else {
        cap->max_recv_wr = 0;
    }
    return true;
}

static bool fill_verbs_qp(struct hca_qp *q, struct qp *qp, const struct qp_plan *p, struct uar *uar)
{
    size_t receive_bytes = (size_t)p->receive_count << p->receive_log;
    uint8_t *at = q->memory;
    receive_bytes = (receive_bytes + 63) & ~(size_t)63;
    qp->record = (uint32_t *)(at + q->bytes - 64);
    if (p->receive_count)
        qp->receive = (struct receive_queue){.ring = at,
                                             .log_count = log_of(p->receive_count),
                                             .log_stride = p->receive_log,
                                             .record = &qp->record[0]};
    if (p->blocks && !qp_set_ring(qp, at + receive_bytes, p->blocks))
        return false;
    qp->uar = uar;
    uar->queues++;
    return true;
}

/* Creates the HCA's QP with its rings. NULL with errno. */
static struct qp *make_qp(struct hca_qp *q, struct device *d, const struct qp_plan *p)
{
    q->bytes = (((size_t)p->receive_count << p->receive_log) + 63) & ~(size_t)63;
    q->bytes += (size_t)p->blocks * WQE_BLOCK_BYTES + 64;
    q->memory = queue_memory(q->bytes);
    q->send_ids = calloc(p->blocks + 1, sizeof *q->send_ids);
    q->send_numbers = calloc(p->blocks + 1, sizeof *q->send_numbers);
    q->receive_ids = calloc(p->receive_count + 1, sizeof *q->receive_ids);
    errno = ENOMEM;
    if (!q->memory || !q->send_ids || !q->send_numbers || !q->receive_ids)
        return NULL;
    device_lock(d);
    struct qp *qp = qp_add(d);
    struct uar *uar = qp ? uar_add(d) : NULL;
    bool good = uar && fill_verbs_qp(q, qp, p, uar);
    if (qp && !good) {
        qp_remove(qp);
        if (uar)
            uar_remove(uar);
    }
    device_unlock(d);
    return good ? qp : NULL;
}

static void release(struct hca_qp *q)
{
    if (q->memory)
        munmap(q->memory, q->bytes);
    free(q->send_ids);
    free(q->send_numbers);
    free(q->receive_ids);
    free(q);
}

static void add_users(struct qp *qp, struct ibv_qp_init_attr_ex *a)
{
    qp->pd = pd_of(a->pd)->number;
    qp->device->objects.pds[qp->pd]++;
    if (a->send_cq) {
        qp->send_cq = cq_of(a->send_cq)->of;
        qp->send_cq->users++;
    }
    if (a->recv_cq) {
        qp->receive_cq = cq_of(a->recv_cq)->of;
        qp->receive_cq->users++;
    }
    if (a->srq) {
        qp->srq = srq_of(a->srq)->of;
        qp->srq->users++;
    }
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *a,
                             enum qp_type type, uint64_t dc_key)
{
    struct device *d = context_of(context)->device;
    struct qp_plan p;
    bool sends = type != QP_DCT, receives = type == QP_RC && !a->srq;
    if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || (sends && !a->send_cq) ||
        !make_plan(&a->cap, sends, receives, &p)) {
        errno = EINVAL;
        return NULL;
    }
    struct hca_qp *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    struct qp *qp = make_qp(q, d, &p);
    if (!qp) {
        release(q);
        return NULL;
    }
    q->of = qp;
    q->cap = a->cap;
    q->signal_all = a->sq_sig_all;
    pthread_mutex_init(&q->send_lock, NULL);
    pthread_mutex_init(&q->receive_lock, NULL);
    device_lock(d);
    add_users(qp, a);
    qp->type = type;
    qp->dc_key = dc_key;
    atomic_store(&d->objects.owners[qp->qpn & (MAX_QPS - 1)], q);
    device_unlock(d);
    q->qp.context = context;
    q->qp.qp_context = a->qp_context;
    q->qp.pd = a->pd;
    q->qp.send_cq = a->send_cq;
    q->qp.recv_cq = a->recv_cq;
    q->qp.srq = a->srq;
    q->qp.handle = q->qp.qp_num = qp->qpn;
    q->qp.state = IBV_QPS_RESET;
    q->qp.qp_type = a->qp_type;
    pthread_mutex_init(&q->qp.mutex, NULL);
    pthread_cond_init(&q->qp.cond, NULL);
    if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS || type == QP_DCI)
        verbs_fill_wr(q);
    return &q->qp;
}

struct ibv_qp *verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
    enum { KNOWN_OPS = 0x7f }; /* writes, sends, reads, atomics; with immediate data or without */
    uint32_t known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    bool ops =
        a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && a->send_ops_flags & ~(uint64_t)KNOWN_OPS;
    bool flags = a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags;
    if (a->qp_type != IBV_QPT_RC || a->comp_mask & ~known || ops || flags) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    return create(context, a, QP_RC, 0);
}

PUBLIC struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
    struct ibv_qp_init_attr_ex ex = {.qp_context = a->qp_context,
                                     .send_cq = a->send_cq,
                                     .recv_cq = a->recv_cq,
                                     .srq = a->srq,
                                     .cap = a->cap,
                                     .qp_type = a->qp_type,
                                     .sq_sig_all = a->sq_sig_all,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = pd};
    struct ibv_qp *qp = verbs_create_qp_ex(pd->context, &ex);
    if (qp)
        a->cap = ex.cap;
    return qp;
}

PUBLIC struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *a,
                                       struct mlx5dv_qp_init_attr *m)
{
    bool dc = m && m->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC;
    uint64_t known = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    if (m && m->comp_mask & ~known) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!dc)
        return verbs_create_qp_ex(context, a);
    bool target = m->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
    if (a->qp_type != IBV_QPT_DRIVER || (target && !a->srq)) {
        errno = EINVAL;
        return NULL;
    }
    return create(context, a, target ? QP_DCT : QP_DCI,
                  target ? m->dc_init_attr.dct_access_key : 0);
}

PUBLIC int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct hca_qp *q = qp_of(qp);
    struct device *d = q->of->device;
    device_lock(d);
    struct uar *uar = q->of->uar;
    atomic_store(&d->objects.owners[q->of->qpn & (MAX_QPS - 1)], NULL);
    d->objects.pds[q->of->pd]--;
    qp_remove(q->of);
    uar_remove(uar);
    device_unlock(d);
    pthread_mutex_destroy(&q->send_lock);
    pthread_mutex_destroy(&q->receive_lock);
    release(q);
    return 0;
}

/* --- States --- */

static uint32_t address_of(const struct device *d, const struct ibv_ah_attr *ah)
{
    if (d->config->link == LINK_ROCE || !ah->dlid)
        return ah->is_global ? address_of_gid(ah->grh.dgid.raw) : 0;
    return ah->dlid;
}

/* Returns the RoCE source port of a flow label (rdma_flow_label_to_udp_sport() of Linux). */
static uint16_t source_port(const struct ibv_ah_attr *ah)
{
    uint32_t label = ah->is_global ? ah->grh.flow_label & 0xfffff : 0;
    return label ? (uint16_t)(0xc000 | ((label & 0x3fff) ^ label >> 14)) : 0;
}

static unsigned read_attributes(const struct device *d, const struct ibv_qp_attr *a, int mask,
                                struct qp_modify *m)
{
    unsigned what = 0;
    if (mask & IBV_QP_ACCESS_FLAGS) {
        m->access =
            (uint8_t)(a->qp_access_flags & (MR_REMOTE_WRITE | MR_REMOTE_READ | MR_REMOTE_ATOMIC));
        m->access_set = MR_REMOTE_WRITE | MR_REMOTE_READ | MR_REMOTE_ATOMIC;
        what |= MODIFY_ACCESS;
    }
    if (mask & IBV_QP_MIN_RNR_TIMER) {
        m->rnr_timer = a->min_rnr_timer & 31;
        what |= MODIFY_TIMER;
    }
    if (mask & IBV_QP_AV) {
        m->remote = address_of(d, &a->ah_attr);
        m->remote_qpn = a->dest_qp_num;
        m->receive_psn = a->rq_psn;
        m->mtu = 128u << a->path_mtu;
        m->source_port = source_port(&a->ah_attr);
        what |= MODIFY_PATH;
    }
    if (mask & IBV_QP_SQ_PSN) {
        m->send_psn = a->sq_psn;
        m->max_reads = a->max_rd_atomic;
        m->timeout = a->timeout;
        m->retry_count = a->retry_cnt;
        m->rnr_retry = a->rnr_retry;
        what |= MODIFY_SEND;
    }
    return what;
}

/* Required attributes of a state transition of an RC QP (IBTA, "QP State Transition
 * Properties"). */
static int required_attributes(unsigned to)
{
    if (to == IBV_QPS_INIT)
        return IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (to == IBV_QPS_RTR)
        return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (to == IBV_QPS_RTS)
        return IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC;
    return 0;
}

static bool has_route(const struct hca_qp *q, const struct ibv_qp_attr *a, int mask)
{
    struct device *d = q->of->device;
    unsigned index = a->ah_attr.is_global ? a->ah_attr.grh.sgid_index : 0;
    const char *why = path_refusal(d, index, address_of(d, &a->ah_attr),
                                   mask & IBV_QP_PATH_MTU ? 128u << a->path_mtu : 0);
    if (!why)
        return true;
    device_lock(d);
    log_error(d, "QP 0x%x cannot be connected: %s (GID index %u, %u GIDs here)", q->of->qpn, why,
              index, gid_count(d));
    device_unlock(d);
    return false;
}

static bool is_acceptable(const struct hca_qp *q, const struct ibv_qp_attr *a, int mask)
{
    unsigned from = q->of->state, to = mask & IBV_QP_STATE ? a->qp_state : from;
    int lacks = from == to ? 0 : required_attributes(to) & ~mask;
    if (from == QP_SQD)
        lacks = 0;
    if (q->of->type == QP_RC && lacks)
        return false;
    if (mask & IBV_QP_PORT && a->port_num != 1)
        return false;
    if (mask & IBV_QP_PKEY_INDEX && a->pkey_index)
        return false;
    if (mask & IBV_QP_AV && q->of->type == QP_RC && !has_route(q, a, mask))
        return false;
    if (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
        return false;
    if (mask & IBV_QP_ACCESS_FLAGS && a->qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC &&
        q->of->device->config->atomics == ATOMICS_NONE)
        return false;
    return !(mask & IBV_QP_MAX_QP_RD_ATOMIC) || a->max_rd_atomic <= MAX_READS;
}

static void save_attributes(struct hca_qp *q, const struct ibv_qp_attr *a, int mask)
{
    struct ibv_qp_attr *to = &q->attributes;
    static const struct {
        int mask;
        size_t at, bytes;
    } parts[] = {
#define PART(bit, member)                                                                          \
    {bit, offsetof(struct ibv_qp_attr, member), sizeof((struct ibv_qp_attr *)0)->member}
        PART(IBV_QP_ACCESS_FLAGS, qp_access_flags),
        PART(IBV_QP_PKEY_INDEX, pkey_index),
        PART(IBV_QP_PORT, port_num),
        PART(IBV_QP_AV, ah_attr),
        PART(IBV_QP_PATH_MTU, path_mtu),
        PART(IBV_QP_TIMEOUT, timeout),
        PART(IBV_QP_RETRY_CNT, retry_cnt),
        PART(IBV_QP_RNR_RETRY, rnr_retry),
        PART(IBV_QP_RQ_PSN, rq_psn),
        PART(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
        PART(IBV_QP_MIN_RNR_TIMER, min_rnr_timer),
        PART(IBV_QP_SQ_PSN, sq_psn),
        PART(IBV_QP_DEST_QPN, dest_qp_num),
        PART(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
#undef PART
    };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        if (mask & parts[i].mask)
            memcpy((char *)to + parts[i].at, (const char *)a + parts[i].at, parts[i].bytes);
}

PUBLIC int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
    struct hca_qp *q = qp_of(qp);
    struct device *d = q->of->device;
    struct qp_modify m = {.to = mask & IBV_QP_STATE ? a->qp_state : q->of->state};
    if (mask & IBV_QP_CUR_STATE && a->cur_qp_state != (enum ibv_qp_state)q->of->state)
        return EINVAL;
    if (!is_acceptable(q, a, mask))
        return EINVAL;
    unsigned what = read_attributes(d, a, mask, &m);
    int e = qp_modify(q->of, &m, what);
    if (e)
        return e;
    if (q->of->type == QP_DCI && m.to == QP_RTR)
        q->of->requester.mtu = mask & IBV_QP_PATH_MTU ? 128u << a->path_mtu : 1024;
    save_attributes(q, a, mask);
    qp->state = (enum ibv_qp_state)m.to;
    if (m.to == QP_RESET) {
        q->next = q->received_posted = q->received_done = 0;
        q->posted = q->done = 0;
        memset(q->of->record, 0, 8);
    }
    return 0;
}

PUBLIC int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask,
                        struct ibv_qp_init_attr *init)
{
    struct hca_qp *q = qp_of(qp);
    struct device *d = q->of->device;
    *a = q->attributes;
    device_lock(d);
    a->qp_state = a->cur_qp_state = (enum ibv_qp_state)q->of->state;
    a->sq_psn = q->of->requester.psn;
    a->rq_psn = q->of->responder.expected_psn;
    device_unlock(d);
    qp->state = a->qp_state;
    a->cap = q->cap;
    *init = (struct ibv_qp_init_attr){.qp_context = qp->qp_context,
                                      .send_cq = qp->send_cq,
                                      .recv_cq = qp->recv_cq,
                                      .srq = qp->srq,
                                      .cap = q->cap,
                                      .qp_type = qp->qp_type,
                                      .sq_sig_all = q->signal_all};
    return 0;
}

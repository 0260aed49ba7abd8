/* SPDX-License-Identifier: Apache-2.0 */
/* DevX commands: buffers in the device's big-endian format. Field offsets are those of the
 * published device interface; the tables below list the fields that are used. */
#include "context.h"
#include "gpu/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    CMD_QUERY_HCA_CAP = 0x100,
    CMD_QUERY_HCA_VPORT_CONTEXT = 0x762,
    CMD_CREATE_CQ = 0x400,
    CMD_DESTROY_CQ = 0x401,
    CMD_CREATE_QP = 0x500,
    CMD_DESTROY_QP = 0x501,
    CMD_RST2INIT = 0x502,
    CMD_INIT2RTR = 0x503,
    CMD_RTR2RTS = 0x504,
    CMD_RTS2RTS = 0x505,
    CMD_2ERR = 0x507,
    CMD_2RST = 0x50a,
    CMD_QUERY_QP = 0x50b,
    CMD_INIT2INIT = 0x50e,
    /* Command status values. */
    STATUS_OK = 0x00,
    STATUS_BAD_OP = 0x02,
    STATUS_BAD_PARAM = 0x03,
    STATUS_BAD_RESOURCE = 0x05,
    STATUS_BUSY = 0x06,
    STATUS_EXCEED_LIMIT = 0x08,
    STATUS_BAD_STATE = 0x09,
    STATUS_BAD_INDEX = 0x0a,
    STATUS_NO_RESOURCES = 0x0f,
    STATUS_BAD_INPUT_LENGTH = 0x50,
    STATUS_BAD_OUTPUT_LENGTH = 0x51,
    CREATE_BYTES = 272,
    MODIFY_BYTES = 272,
    ANSWER_BYTES = 16,
};

/* A field of a command: byte offset of its dword, shift, width in bits. */
struct hca_devx_field {
    uint16_t at;
    uint8_t shift, width;
};

static const struct hca_devx_field in_opcode = {0, 16, 16}, in_modifier = {4, 0, 16},
                                   in_number = {8, 0, 24}, out_status = {0, 24, 8},
                                   out_number = {8, 0, 24};
/* CQ context, after the 16-byte header of CREATE_CQ. */
enum { CQC = 0x10, CQC_RECORD_ADDRESS = CQC + 0x38, CQ_UMEM_OFFSET = 0x50 };
static const struct hca_devx_field cqc_record_valid = {CQC, 25, 1}, cqc_size = {CQC, 21, 3},
                                   cqc_collapsed = {CQC, 20, 1}, cqc_ignore_overrun = {CQC, 17, 1},
                                   cqc_record_umem = {CQC + 4, 0, 32},
                                   cqc_log_size = {CQC + 0xc, 24, 5}, cq_umem = {0x58, 0, 32},
                                   cq_umem_valid = {0x5c, 31, 1};
/* QP context, after the 24-byte header of CREATE_QP and of the state transitions. */
enum {
    QPC = 0x18,
    ADS = QPC + 0x18,
    QPC_RECORD_ADDRESS = QPC + 0xa0,
    QPC_DC_KEY = QPC + 0xc8,
    QP_UMEM_OFFSET = 0x100
};
static const struct hca_devx_field qpc_service = {QPC, 16, 8}, qpc_pd = {QPC + 4, 0, 24},
                                   qpc_mtu = {QPC + 8, 29, 3}, qpc_log_rq = {QPC + 8, 19, 4},
                                   qpc_log_rq_stride = {QPC + 8, 16, 3},
                                   qpc_log_sq = {QPC + 8, 11, 4}, qpc_no_sq = {QPC + 8, 15, 1},
                                   qpc_uar = {QPC + 0xc, 0, 24},
                                   qpc_user_index = {QPC + 0x10, 0, 24},
                                   qpc_remote_qpn = {QPC + 0x14, 0, 24},
                                   qpc_log_sra = {QPC + 0x70, 21, 3},
                                   qpc_retry = {QPC + 0x70, 16, 3},
                                   qpc_rnr_retry = {QPC + 0x70, 13, 3},
                                   qpc_send_psn = {QPC + 0x78, 0, 24},
                                   qpc_send_cq = {QPC + 0x7c, 0, 24}, qpc_rre = {QPC + 0x90, 15, 1},
                                   qpc_rwe = {QPC + 0x90, 14, 1}, qpc_rae = {QPC + 0x90, 13, 1},
                                   qpc_min_rnr = {QPC + 0x94, 24, 5},
                                   qpc_receive_psn = {QPC + 0x94, 0, 24},
                                   qpc_receive_cq = {QPC + 0x9c, 0, 24},
                                   qpc_rq_type = {QPC + 0xac, 24, 3}, qpc_srq = {QPC + 0xac, 0, 24},
                                   qpc_receive_msn = {QPC + 0xb0, 0, 24},
                                   qpc_record_valid = {QPC + 0xd0, 28, 1},
                                   qpc_record_umem = {QPC + 0xe4, 0, 32}, qpc_state = {QPC, 28, 4},
                                   qp_umem = {0x108, 0, 32}, qp_umem_valid = {0x10c, 31, 1},
                                   ads_lid = {ADS + 4, 0, 16}, ads_timeout = {ADS + 8, 27, 5},
                                   ads_gid_index = {ADS + 8, 16, 8},
                                   ads_sport = {ADS + 0x20, 0, 16};
enum { ADS_GID = ADS + 0x10, RQ_TYPE_SRQ = 1, RQ_TYPE_NONE = 3 };

struct mlx5dv_devx_obj {
    struct device *device;
    struct qp *qp;
    struct cq *cq;
};

struct command {
    struct hca_context *context;
    struct device *device;
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

static uint32_t word_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return be32(v);
}

static uint32_t get(const struct command *c, struct hca_devx_field f)
{
    return word_at(c->in + f.at) >> f.shift & (uint32_t)((UINT64_C(1) << f.width) - 1);
}

static uint64_t get_be64(const struct command *c, size_t at)
{
    return (uint64_t)word_at(c->in + at) << 32 | word_at(c->in + at + 4);
}

static void set(uint8_t *out, struct hca_devx_field f, uint32_t v)
{
    uint32_t mask = (uint32_t)((UINT64_C(1) << f.width) - 1) << f.shift;
    uint32_t w = be32((word_at(out + f.at) & ~mask) | (v << f.shift & mask));
    memcpy(out + f.at, &w, 4);
}

/* Rejects a command: sets its status and logs the reason. Returns the public function's result. */
static int refuse_command(struct command *c, uint8_t status, const char *why)
{
    set(c->out, out_status, status);
    uint32_t syndrome = be32(0x50000u | status);
    memcpy(c->out + 4, &syndrome, 4);
    device_lock(c->device);
    log_error(c->device, "command 0x%x refused with status 0x%02x: %s", get(c, in_opcode), status,
              why);
    device_unlock(c->device);
    errno = EREMOTEIO;
    return EREMOTEIO;
}

/* Checks that both buffers exist and are long enough, and clears the output. */
static int begin_command(struct command *c, size_t in_least, size_t out_least)
{
    if (!c->in || !c->out || c->in_bytes < ANSWER_BYTES || c->out_bytes < ANSWER_BYTES) {
        errno = EINVAL;
        return EINVAL;
    }
    memset(c->out, 0, c->out_bytes);
    if (c->in_bytes < in_least)
        return refuse_command(c, STATUS_BAD_INPUT_LENGTH, "input too short");
    if (c->out_bytes < out_least)
        return refuse_command(c, STATUS_BAD_OUTPUT_LENGTH, "output too short");
    return 0;
}

/* --- Memory given by the program --- */

/* Returns the address of `bytes` at `offset` of a umem. NULL: outside of it, or not aligned. */
static void *umem_range(struct device *d, uint32_t id, uint64_t offset, uint64_t bytes,
                        uint64_t align, struct umem **owner)
{
    struct umem *u = id < MAX_UMEMS ? d->objects.umems[id] : NULL;
    if (!u || offset > u->bytes || bytes > u->bytes - offset)
        return NULL;
    if (((uintptr_t)u->address + offset) % align)
        return NULL;
    *owner = u;
    return u->address + offset;
}

/* --- Capabilities --- */

static int query_caps(struct command *c)
{
    static const struct hca_devx_field cqe_version = {0x10 + 0x3c, 0, 4},
                                       half_address = {0x10 + 0x40, 31, 1},
                                       dct = {0x10 + 0x40, 5, 1}, log_bf = {0x10 + 0x4c, 16, 5},
                                       endianness = {0x10 + 0x8, 30, 2},
                                       mode_1 = {0x10 + 0x8, 25, 1},
                                       operations = {0x10 + 0x10, 0, 16},
                                       size_qp = {0x10 + 0x14, 0, 16},
                                       size_dc = {0x10 + 0x18, 0, 16};
    enum { GENERAL = 0, ATOMIC = 3, LEAST = 0x10 + 0x50 };
    int e = begin_command(c, ANSWER_BYTES, LEAST);
    if (e)
        return e;
    unsigned type = get(c, in_modifier) >> 1;
    if (type == GENERAL) {
        set(c->out, cqe_version, 1);
        set(c->out, half_address, c->device->config->link == LINK_IB);
        set(c->out, dct, c->device->config->dc);
        set(c->out, log_bf, 9);
    } else if (type == ATOMIC) {
        if (c->device->config->atomics == ATOMICS_NONE) /* all fields are 0 */
            return 0;
        set(c->out, endianness, 1);
        set(c->out, mode_1, 1);
        set(c->out, operations, 0xf);
        set(c->out, size_qp, 0xc);
        set(c->out, size_dc, 0xc);
    } else {
        return refuse_command(c, STATUS_BAD_PARAM, "unknown capability group");
    }
    return 0;
}

/* --- Creating --- */

/* Counts a command that creates a queue. Returns whether SOFT_HCA_FAIL=create refuses it: it
 * refuses that command and all later ones. */
static bool is_exhausted(struct device *d)
{
    return ++d->record.creations >= d->config->fail_at && d->config->fail_at &&
           d->config->fail == FAIL_CREATE;
}

static const char *fill_cq(struct command *c, struct cq *cq)
{
    struct device *d = c->device;
    uint32_t log = get(c, cqc_log_size);
    struct umem *buffer, *record;
    if (get(c, cqc_size))
        return "entries of 64 bytes only";
    if (log > MAX_CQ_LOG)
        return "log_cq_size is over 22";
    if (!get(c, cq_umem_valid) || !get(c, cqc_record_valid))
        return "cq_umem_valid and dbr_umem_valid must be set";
    cq->collapsed = get(c, cqc_collapsed);
    cq->ignore_overrun = get(c, cqc_ignore_overrun);
    cq->log_size = log;
    uint64_t bytes = cq->collapsed ? 64 : UINT64_C(64) << log;
    cq->buffer = umem_range(d, get(c, cq_umem), get_be64(c, CQ_UMEM_OFFSET), bytes, 64, &buffer);
    if (!cq->buffer)
        return "the entries are outside their umem, or not aligned to 64 bytes";
    cq->record =
        umem_range(d, get(c, cqc_record_umem), get_be64(c, CQC_RECORD_ADDRESS), 8, 8, &record);
    if (!cq->record)
        return "the doorbell record is outside its umem, or not aligned to 8 bytes";
    cq->on_gpu = buffer->on_gpu;
    if (record->on_gpu || cq->on_gpu) {
        if (!cq->on_gpu || !cq->collapsed || !cq->ignore_overrun)
            return "completions in GPU memory are collapsed, and ignore overrun (cc, oi)";
    }
    cq->memories[0] = buffer;
    cq->memories[1] = record;
    buffer->users++;
    record->users++;
    return NULL;
}

static int create_cq(struct command *c, struct mlx5dv_devx_obj *o)
{
    int e = begin_command(c, CREATE_BYTES, ANSWER_BYTES);
    if (e)
        return e;
    device_lock(c->device);
    struct cq *cq = is_exhausted(c->device) ? NULL : cq_add(c->device);
    const char *wrong = cq ? fill_cq(c, cq) : NULL;
    if (cq && wrong)
        cq_remove(cq);
    device_unlock(c->device);
    if (!cq)
        return refuse_command(c, STATUS_NO_RESOURCES, "no completion queue is left");
    if (wrong)
        return refuse_command(c, STATUS_BAD_PARAM, wrong);
    o->cq = cq;
    set(c->out, out_number, cq->cqn);
    return 0;
}

static const char *fill_rings(struct command *c, struct qp *qp)
{
    struct device *d = c->device;
    uint32_t log_rq = get(c, qpc_log_rq), log_stride = get(c, qpc_log_rq_stride) + 4;
    uint32_t rq_type = get(c, qpc_rq_type), log_sq = get(c, qpc_log_sq);
    bool own_rq = rq_type == 0, sq = !get(c, qpc_no_sq);
    uint64_t rq_bytes = own_rq ? UINT64_C(1) << (log_rq + log_stride) : 0;
    uint64_t sq_bytes = sq ? (uint64_t)WQE_BLOCK_BYTES << log_sq : 0;
    struct umem *wq, *record;
    if (sq && UINT32_C(1) << log_sq > MAX_QUEUE_BLOCKS)
        return "log_sq_size is over 14";
    if (!get(c, qp_umem_valid) || !get(c, qpc_record_valid))
        return "wq_umem_valid and dbr_umem_valid must be set";
    uint8_t *at =
        umem_range(d, get(c, qp_umem), get_be64(c, QP_UMEM_OFFSET), rq_bytes + sq_bytes, 64, &wq);
    if (!at)
        return "the work queue is outside its umem, or not aligned to 64 bytes";
    qp->record =
        umem_range(d, get(c, qpc_record_umem), get_be64(c, QPC_RECORD_ADDRESS), 8, 8, &record);
    if (!qp->record)
        return "the doorbell record is outside its umem, or not aligned to 8 bytes";
    if (wq->on_gpu != record->on_gpu)
        return "one of ring and record is in GPU memory";
    if (wq->on_gpu && (own_rq || !sq))
        return "receive queues in GPU memory are not kept";
    if (sq &&
        !(wq->on_gpu ? qp_set_gpu_ring : qp_set_ring)(qp, at + rq_bytes, UINT32_C(1) << log_sq))
        return "no memory";
    if (own_rq)
        qp->receive = (struct receive_queue){
            .ring = at, .log_count = log_rq, .log_stride = log_stride, .record = &qp->record[0]};
    qp->memories[0] = wq;
    qp->memories[1] = record;
    wq->users++;
    record->users++;
    return NULL;
}

static const char *fill_qp_context(struct command *c, struct qp *qp)
{
    struct device *d = c->device;
    uint32_t service = get(c, qpc_service), uar = get(c, qpc_uar), pd = get(c, qpc_pd);
    uint32_t send = get(c, qpc_send_cq), receive = get(c, qpc_receive_cq);
    uint32_t srq = get(c, qpc_srq);
    if (service != 0 && service != 5)
        return "service type is neither RC (0) nor DCI (5)";
    if (pd >= MAX_PDS || !d->objects.pds[pd])
        return "no such protection domain";
    if (send >= MAX_CQS || !d->objects.cqs[send])
        return "no such completion queue for sends (cqn_snd)";
    if (receive && (receive >= MAX_CQS || !d->objects.cqs[receive]))
        return "no such completion queue for receives (cqn_rcv)";
    if (uar >= MAX_UARS || !d->objects.uars[uar])
        return "no such uar_page";
    if (get(c, qpc_rq_type) == RQ_TYPE_SRQ && (srq >= MAX_SRQS || !d->objects.srqs[srq]))
        return "no such shared receive queue";
    const char *wrong = fill_rings(c, qp);
    if (wrong)
        return wrong;
    qp->type = service == 5 ? QP_DCI : QP_RC;
    qp->pd = pd;
    qp->user_index = get(c, qpc_user_index);
    qp->send_cq = d->objects.cqs[send];
    qp->send_cq->users++;
    if (receive) {
        qp->receive_cq = d->objects.cqs[receive];
        qp->receive_cq->users++;
    }
    if (get(c, qpc_rq_type) == RQ_TYPE_SRQ) {
        qp->srq = d->objects.srqs[srq];
        qp->srq->users++;
    }
    qp->uar = d->objects.uars[uar];
    qp->uar->queues++;
    return NULL;
}

static int create_qp(struct command *c, struct mlx5dv_devx_obj *o)
{
    int e = begin_command(c, CREATE_BYTES, ANSWER_BYTES);
    if (e)
        return e;
    device_lock(c->device);
    struct qp *qp = is_exhausted(c->device) ? NULL : qp_add(c->device);
    const char *wrong = qp ? fill_qp_context(c, qp) : NULL;
    if (qp && wrong)
        qp_remove(qp);
    device_unlock(c->device);
    if (!qp)
        return refuse_command(c, STATUS_NO_RESOURCES, "no queue pair is left");
    if (wrong)
        return refuse_command(c, STATUS_BAD_PARAM, wrong);
    o->qp = qp;
    device_lock(c->device);
    if (qp->send.gpu_ring && qp->uar->queues == 1)
        uar_move_to_gpu(qp->uar);
    device_unlock(c->device);
    if (qp->send.gpu_ring && !qp->uar->gpu_address)
        gpu_engine_map_doorbell(c->device, qp->uar);
    device_lock(c->device); /* the engine reads both */
    qp->uar->for_gpu = qp->send.gpu_ring != 0;
    device_unlock(c->device);
    set(c->out, out_number, qp->qpn);
    return 0;
}

/* --- State transitions --- */

static uint8_t log_reads(uint32_t log)
{
    return (uint8_t)(log > 4 ? MAX_READS : 1u << log);
}

/* Returns which remote access flags the command sets: all on the transition from RESET, later those
 * in its optional-parameter mask. */
static uint8_t access_flags_set(const struct command *c, uint32_t opcode)
{
    static const struct hca_devx_field optional = {0x10, 0, 32};
    enum { OPTIONAL_READ = 2, OPTIONAL_ATOMIC = 4, OPTIONAL_WRITE = 8 };
    uint32_t mask = opcode == CMD_RST2INIT ? ~0u : get(c, optional);
    return (uint8_t)((mask & OPTIONAL_WRITE ? MR_REMOTE_WRITE : 0) |
                     (mask & OPTIONAL_READ ? MR_REMOTE_READ : 0) |
                     (mask & OPTIONAL_ATOMIC ? MR_REMOTE_ATOMIC : 0));
}

static unsigned read_move(const struct command *c, uint32_t opcode, struct qp_modify *m)
{
    bool roce = c->device->config->link == LINK_ROCE;
    switch (opcode) {
    case CMD_RST2INIT:
    case CMD_INIT2INIT:
        m->to = QP_INIT;
        break;
    case CMD_INIT2RTR:
        m->to = QP_RTR;
        break;
    case CMD_RTR2RTS:
    case CMD_RTS2RTS:
        m->to = QP_RTS;
        break;
    case CMD_2ERR:
        m->to = QP_ERROR;
        return 0;
    default:
        m->to = QP_RESET;
        return 0;
    }
    m->access =
        (uint8_t)((get(c, qpc_rwe) ? MR_REMOTE_WRITE : 0) | (get(c, qpc_rre) ? MR_REMOTE_READ : 0) |
                  (get(c, qpc_rae) ? MR_REMOTE_ATOMIC : 0));
    m->access_set = access_flags_set(c, opcode);
    m->rnr_timer = (uint8_t)get(c, qpc_min_rnr);
    m->remote_qpn = get(c, qpc_remote_qpn);
    m->receive_psn = get(c, qpc_receive_psn);
    m->send_psn = get(c, qpc_send_psn);
    m->remote = roce ? address_of_gid(c->in + ADS_GID) : get(c, ads_lid);
    m->mtu = 128u << get(c, qpc_mtu);
    m->source_port = (uint16_t)get(c, ads_sport);
    m->timeout = (uint8_t)get(c, ads_timeout);
    m->retry_count = (uint8_t)get(c, qpc_retry);
    m->rnr_retry = (uint8_t)get(c, qpc_rnr_retry);
    m->max_reads = log_reads(get(c, qpc_log_sra));
    if (m->to == QP_INIT)
        return MODIFY_ACCESS;
    if (m->to == QP_RTR)
        return MODIFY_ACCESS | MODIFY_TIMER | MODIFY_PATH;
    return opcode == CMD_RTR2RTS ? MODIFY_ACCESS | MODIFY_SEND : MODIFY_ACCESS;
}

static bool is_move(uint32_t opcode)
{
    return opcode == CMD_RST2INIT || opcode == CMD_INIT2INIT || opcode == CMD_INIT2RTR ||
           opcode == CMD_RTR2RTS || opcode == CMD_RTS2RTS || opcode == CMD_2ERR ||
           opcode == CMD_2RST;
}

/* Counts a command that connects a queue. Returns whether SOFT_HCA_FAIL=connect refuses it. */
static bool refuses_connection(struct device *d)
{
    return ++d->record.connections >= d->config->fail_at && d->config->fail_at &&
           d->config->fail == FAIL_CONNECT;
}

static int modify_qp(struct command *c, struct qp *qp)
{
    uint32_t opcode = get(c, in_opcode);
    bool short_form = opcode == CMD_2ERR || opcode == CMD_2RST;
    struct qp_modify m = {0};
    if (c->in_bytes < (short_form ? ANSWER_BYTES : MODIFY_BYTES))
        return refuse_command(c, STATUS_BAD_INPUT_LENGTH, "input too short");
    if (get(c, in_number) != qp->qpn)
        return refuse_command(c, STATUS_BAD_INDEX, "the queue number is not the object's");
    if (opcode == CMD_INIT2RTR && refuses_connection(c->device))
        return refuse_command(c, STATUS_BAD_RESOURCE, "SOFT_HCA_FAIL=connect");
    unsigned what = read_move(c, opcode, &m);
    if (m.access & m.access_set & MR_REMOTE_ATOMIC && c->device->config->atomics == ATOMICS_NONE)
        return refuse_command(c, STATUS_BAD_PARAM, "rae is set, but the adapter has no atomics");
    uint32_t code = what & MODIFY_PATH ? get(c, qpc_mtu) : 1;
    if (code < 1 || code > 5)
        return refuse_command(c, STATUS_BAD_PARAM, "mtu is not 1 (256 bytes) to 5 (4096)");
    const char *why = NULL;
    if (what & MODIFY_PATH && qp->type == QP_RC)
        why = path_refusal(c->device, get(c, ads_gid_index), m.remote, m.mtu);
    if (why)
        return refuse_command(c, STATUS_BAD_PARAM, why);
    /* The command also implies the current state. */
    if ((opcode == CMD_RST2INIT && qp->state != QP_RESET) ||
        (opcode == CMD_RTR2RTS && qp->state != QP_RTR) ||
        (opcode == CMD_RTS2RTS && qp->state != QP_RTS) ||
        (opcode == CMD_INIT2INIT && qp->state != QP_INIT))
        return refuse_command(c, STATUS_BAD_STATE, "the queue is in another state");
    if (qp_modify(qp, &m, what))
        return refuse_command(c, STATUS_BAD_STATE, "the queue is in another state");
    return 0;
}

static int query_qp(struct command *c, struct qp *qp)
{
    static const uint8_t states[] = {0, 1, 2, 3,
                                     /* device encoding of RST INIT RTR RTS SQER SQD ERR */
                                     5, 4, 6};
    if (c->out_bytes < CREATE_BYTES)
        return refuse_command(c, STATUS_BAD_OUTPUT_LENGTH, "output too short");
    device_lock(c->device);
    set(c->out, qpc_state, states[qp->state]);
    set(c->out, qpc_remote_qpn, qp->requester.remote_qpn);
    set(c->out, qpc_pd, qp->pd);
    set(c->out, qpc_send_cq, qp->send_cq->cqn);
    set(c->out, qpc_send_psn, qp->requester.psn);
    set(c->out, qpc_receive_psn, qp->responder.expected_psn);
    set(c->out, qpc_receive_msn, qp->responder.msn);
    device_unlock(c->device);
    return 0;
}

/* --- Public functions --- */

PUBLIC int mlx5dv_devx_general_cmd(struct ibv_context *context, const void *in, size_t inlen,
                                   void *out, size_t outlen)
{
    struct hca_context *x = context_of(context);
    struct command c = {x, x->device, in, inlen, out, outlen};
    int e = begin_command(&c, ANSWER_BYTES, ANSWER_BYTES);
    if (e)
        return e;
    if (get(&c, in_opcode) == CMD_QUERY_HCA_CAP)
        return query_caps(&c);
    if (get(&c, in_opcode) == CMD_QUERY_HCA_VPORT_CONTEXT)
        /* All zeros: packets stay in order at every service level. */
        return begin_command(&c, ANSWER_BYTES, 0x10 + 512);
    return refuse_command(&c, STATUS_BAD_OP, "no such general command here");
}

PUBLIC struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in,
                                                      size_t inlen, void *out, size_t outlen)
{
    struct hca_context *x = context_of(context);
    struct command c = {x, x->device, in, inlen, out, outlen};
    if (begin_command(&c, ANSWER_BYTES, ANSWER_BYTES))
        return NULL;
    struct mlx5dv_devx_obj *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->device = x->device;
    int e = 0;
    switch (get(&c, in_opcode)) {
    case CMD_CREATE_CQ:
        e = create_cq(&c, o);
        break;
    case CMD_CREATE_QP:
        e = create_qp(&c, o);
        break;
    default:
        e = refuse_command(&c, STATUS_BAD_OP,
                           "objects of this kind cannot be created by DevX here");
    }
    if (!e)
        return o;
    free(o);
    errno = e;
    return NULL;
}

static int object_command(struct mlx5dv_devx_obj *o, const void *in, size_t inlen, void *out,
                          size_t outlen, bool modify)
{
    struct command c = {NULL, o->device, in, inlen, out, outlen};
    int e = begin_command(&c, ANSWER_BYTES, ANSWER_BYTES);
    if (e)
        return e;
    uint32_t opcode = get(&c, in_opcode);
    if (modify && o->qp && is_move(opcode))
        return modify_qp(&c, o->qp);
    if (!modify && o->qp && opcode == CMD_QUERY_QP)
        return query_qp(&c, o->qp);
    return refuse_command(&c, STATUS_BAD_OP, "no such command for this object here");
}

PUBLIC int mlx5dv_devx_obj_modify(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen,
                                  void *out, size_t outlen)
{
    return object_command(obj, in, inlen, out, outlen, true);
}

PUBLIC int mlx5dv_devx_obj_query(struct mlx5dv_devx_obj *obj, const void *in, size_t inlen,
                                 void *out, size_t outlen)
{
    return object_command(obj, in, inlen, out, outlen, false);
}

PUBLIC int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *obj)
{
    struct device *d = obj->device;
    if (obj->qp && obj->qp->send.gpu_ring)
        gpu_engine_release_queue(d, obj->qp);
    device_lock(d);
    if (obj->cq && obj->cq->users) {
        log_error(d, "CQ 0x%x cannot be destroyed: %u queues use it", obj->cq->cqn, obj->cq->users);
        device_unlock(d);
        errno = EREMOTEIO;
        return EREMOTEIO;
    }
    if (obj->cq)
        cq_remove(obj->cq);
    /* The value in the doorbell register no longer belongs to a QP. */
    if (obj->qp && obj->qp->send.gpu_ring && obj->qp->uar)
        obj->qp->uar->by_cpu = false;
    if (obj->qp)
        qp_remove(obj->qp);
    device_unlock(d);
    free(obj);
    return 0;
}

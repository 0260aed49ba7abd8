/* SPDX-License-Identifier: Apache-2.0 */
/* Second half of the requester: handles ACKs, read data, NAKs and lost packets. */
#include "hca.h"
#include "send.h"

#include <string.h>

/* First early retransmission timeout in ns, and how often it is doubled. */
#define RETRANSMIT_NS UINT64_C(5000000)
enum { RETRANSMIT_SHIFT = 5 };

static struct outstanding *oldest_outstanding(struct qp *qp)
{
    return qp->send.outstanding_head == qp->send.outstanding_tail
               ? NULL
               : &qp->send.outstanding[qp->send.outstanding_head & qp->send.outstanding_mask];
}

static bool is_read(const struct outstanding *f)
{
    return f->opcode == WQE_READ || wqe_is_atomic(f->opcode);
}

/* Adversarial mode: notices a program that reuses slots before their completion. */
static void check_slots(struct qp *qp, const struct outstanding *f)
{
    if (qp->device->config->mode != MODE_ADVERSARIAL || f->sum == send_sum_slots(qp, f))
        return;
    log_error(qp->device, "QP 0x%x: the slots of request 0x%x were changed before its completion",
              qp->qpn, f->index);
    send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_OVERRUN);
}

/* With a collapsed CQ, a program sees only the last of several simultaneous completions. */
void send_retire(struct qp *qp)
{
    struct outstanding *f, last = {0};
    struct cq *cq = qp->send_cq;
    uint32_t unseen = 0;
    while ((f = oldest_outstanding(qp)) && psn_before(f->last_psn, qp->requester.acked)) {
        qp->send.reads -= is_read(f);
        qp->send.outstanding_head++;
        check_slots(qp, f);
        if (f->complete < 2)
            continue;
        last = *f;
        qp->send.released = (uint16_t)(last.index + last.blocks);
        qp->counts.completions++;
        if (cq->collapsed)
            unseen++;
        else
            cq_write_request(cq, qp, &last);
    }
    if (unseen) {
        cq->producer += unseen - 1;
        cq_write_request(cq, qp, &last);
    }
    if (qp->send.taken != qp->send.producer || qp->send.fault.syndrome)
        qp_list(qp);
}

/* Marks all packets up to psn as acknowledged. */
static void acknowledge_through(struct qp *qp, uint32_t psn)
{
    if (psn_before(psn, qp->requester.acked))
        return;
    qp->requester.acked = psn_add(psn, 1);
    qp->requester.retries = qp->requester.retry_count;
    qp->requester.rnr_tries = qp->requester.rnr_retry;
    qp->requester.loss_noticed_at = 0;
    qp->requester.retransmissions = 0;
    qp->requester.response_lost = false;
    if (qp->requester.window && qp->requester.window < roce_window(qp))
        qp->requester.window++;
    send_retire(qp);
}

/* Retransmits from packet psn on, which belongs to an outstanding request. */
static void retransmit_from(struct qp *qp, uint32_t psn)
{
    qp->counts.retries++;
    uint32_t first = qp->send.outstanding_head;
    while (first != qp->send.outstanding_tail &&
           psn_before(qp->send.outstanding[first & qp->send.outstanding_mask].last_psn, psn))
        first++;
    if (first == qp->send.outstanding_tail)
        return;
    const struct outstanding *f = &qp->send.outstanding[first & qp->send.outstanding_mask];
    qp->send.outstanding_tail = first;
    /* Later requests are added again when they are retransmitted. */
    qp->send.reads = 0;
    for (uint32_t i = qp->send.outstanding_head; i != qp->send.outstanding_tail; i++)
        qp->send.reads += is_read(&qp->send.outstanding[i & qp->send.outstanding_mask]);
    qp->send.taken = f->index;
    qp->requester.psn = f->first_psn;
    qp->current.resume_packets = (psn - f->first_psn) & 0xffffff;
    qp->current.loaded = qp->current.outstanding = false;
    qp->send.fault = (struct fault){0};
    qp->requester.response_lost = false;
    qp_list(qp);
}

static void fail_retry_exceeded(struct qp *qp)
{
    char text[ADDRESS_TEXT];
    struct outstanding *f = oldest_outstanding(qp);
    log_error(qp->device, "QP 0x%x: no answer from QP 0x%x of %s%s", qp->qpn,
              qp->requester.remote_qpn, address_text(qp->requester.remote, text),
              !qp->requester.link || atomic_load(&qp->requester.link->dead)
                  ? ", whose process is gone"
                  : "");
    qp_fail(qp, f->index, f->opcode, SYNDROME_RETRY_EXCEEDED, 0);
}

/* Halves the window after packet loss, which may be congestion. */
static void halve_window(struct qp *qp)
{
    if (qp->requester.window > 2)
        qp->requester.window /= 2;
}

/* Retransmits from packet psn on, or fails if the retry count is exhausted. */
static void retry_from(struct qp *qp, uint32_t psn)
{
    if (!qp->requester.retries) {
        fail_retry_exceeded(qp);
        return;
    }
    qp->requester.retries--;
    qp->requester.loss_noticed_at = 0;
    qp->requester.retransmissions = 0;
    retransmit_from(qp, psn);
    halve_window(qp);
}

/* Finds the first packet before psn whose read or atomic response is missing. A later response
 * acknowledges earlier writes, but never an earlier read or atomic. */
static bool find_missing_response(struct qp *qp, uint32_t psn, uint32_t *missing)
{
    if (!qp->send.reads)
        return false;
    for (uint32_t i = qp->send.outstanding_head; i != qp->send.outstanding_tail; i++) {
        struct outstanding *f = &qp->send.outstanding[i & qp->send.outstanding_mask];
        if (!psn_before(f->first_psn, psn))
            return false;
        *missing =
            psn_before(f->first_psn, qp->requester.acked) ? qp->requester.acked : f->first_psn;
        if (is_read(f) && psn_before(*missing, psn))
            return true;
    }
    return false;
}

/* Handles the acknowledgement of all packets before psn, as far as no response is missing. Returns
 * the first PSN that is not acknowledged. */
static uint32_t acknowledge_up_to(struct qp *qp, uint32_t psn)
{
    uint32_t missing;
    if (find_missing_response(qp, psn, &missing))
        psn = missing;
    if (psn != qp->requester.acked)
        acknowledge_through(qp, psn_add(psn, 0xffffff));
    return psn;
}

/* A response to packet psn acknowledges all packets before it. False: an earlier response was lost
 * and is requested again. */
static bool acknowledge_before(struct qp *qp, uint32_t psn)
{
    uint32_t missing = acknowledge_up_to(qp, psn);
    if (missing == psn || qp->requester.response_lost)
        return missing == psn;
    retry_from(qp, missing);
    qp->requester.response_lost = true;
    return false;
}

static struct outstanding *find_outstanding(struct qp *qp, uint32_t psn)
{
    for (uint32_t i = qp->send.outstanding_head; i != qp->send.outstanding_tail; i++) {
        struct outstanding *f = &qp->send.outstanding[i & qp->send.outstanding_mask];
        if (!psn_before(psn, f->first_psn) && !psn_before(f->last_psn, psn))
            return f;
    }
    return NULL;
}

/* RNR timer values in units of 10 us (IBTA, "Timer Field Values"). */
static uint64_t rnr_ns(uint8_t code)
{
    static const uint32_t units[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return (uint64_t)units[code & 31] * 10000;
}

static void handle_nak(struct qp *qp, const struct packet *p)
{
    if (!acknowledge_before(qp, p->psn))
        return;
    struct outstanding *f = find_outstanding(qp, p->psn);
    if (!f)
        return;
    if (p->immediate == NAK_PSN_SEQUENCE) {
        retry_from(qp, p->psn);
        return;
    }
    if (p->immediate != NAK_RNR) {
        qp_fail(qp, f->index, f->opcode, (uint8_t)p->immediate, 0);
        return;
    }
    if (qp->requester.rnr_retry != 7 && !qp->requester.rnr_tries--) {
        qp->requester.rnr_tries = 0;
        qp_fail(qp, f->index, f->opcode, SYNDROME_RNR_EXCEEDED, 0);
        return;
    }
    qp->requester.wait_until = qp->device->now + rnr_ns((uint8_t)p->length);
    qp->requester.loss_noticed_at = 0;
    retransmit_from(qp, p->psn);
}

/* Writes response data to the WQE's data segments, from byte `offset` on. */
static uint8_t scatter(struct qp *qp, uint16_t index, uint64_t offset, const uint8_t *from,
                       uint64_t bytes)
{
    uint32_t words[WQE_MAX_UNITS * 4 + 4];
    struct wqe w;
    struct wqe_segment s;
    bool fits;
    send_load(qp, index, words, &w);
    if (wqe_decode(words, qp->type == QP_DCI, &w))
        return SYNDROME_LOCAL_QP_OPERATION;
    unsigned at = w.data;
    while (bytes && wqe_segment_next(words, w.units, &at, &s, &fits)) {
        if (offset >= s.bytes) {
            offset -= s.bytes;
            continue;
        }
        uint64_t n = s.bytes - offset < bytes ? s.bytes - offset : bytes, memory;
        if (s.is_inline)
            return SYNDROME_LOCAL_QP_OPERATION;
        enum mr_refusal r = mr_find(&qp->device->objects.keys, s.lkey, qp->pd, MR_LOCAL_WRITE,
                                    s.address, s.bytes, &memory);
        if (r) {
            log_error(qp->device, "QP 0x%x: request 0x%x writes 0x%llx + %u with lkey 0x%x: %s",
                      qp->qpn, index, (unsigned long long)s.address, s.bytes, s.lkey,
                      mr_refusal_text(r));
            return SYNDROME_LOCAL_PROTECTION;
        }
        void *to = (void *)(uintptr_t)(memory + offset);
        uint32_t access = qp->device->objects.keys.entries[s.lkey >> 8].access;
        if (!adversary_delay_apart(qp->device, access, to, from, n) &&
            !memory_put(qp->device, to, from, n))
            return SYNDROME_LOCAL_PROTECTION;
        from += n;
        bytes -= n;
        offset = 0;
    }
    return SYNDROME_NONE;
}

static void handle_response_data(struct qp *qp, const struct packet *p)
{
    const uint8_t *data = (const uint8_t *)(p + 1);
    if (!acknowledge_before(qp, p->psn))
        return;
    struct outstanding *f = find_outstanding(qp, p->psn);
    if (!f || !is_read(f))
        return;
    uint32_t offset = ((p->psn - f->first_psn) & 0xffffff) * qp->requester.mtu,
             rest = f->length - offset;
    if ((p->kind == PACKET_READ_DATA) != (f->opcode == WQE_READ) ||
        p->bytes != (rest < qp->requester.mtu ? rest : qp->requester.mtu)) {
        log_error(qp->device,
                  "QP 0x%x: the response 0x%x to request 0x%x has %u bytes instead of %u", qp->qpn,
                  p->psn, f->index, p->bytes, rest < qp->requester.mtu ? rest : qp->requester.mtu);
        qp_fail(qp, f->index, f->opcode, SYNDROME_BAD_RESPONSE, 0);
        return;
    }
    uint8_t value[8];
    if (p->kind == PACKET_ATOMIC_VALUE && p->bytes == 4) {
        /* An 8-byte value is in host byte order, a 4-byte value is big-endian. */
        for (unsigned i = 0; i < 4; i++)
            value[i] = data[3 - i];
        data = value;
    }
    uint8_t syndrome = scatter(qp, f->index, offset, data, p->bytes);
    if (syndrome) {
        qp_fail(qp, f->index, f->opcode, syndrome, VENDOR_KEY);
        return;
    }
    f->received = offset + p->bytes;
    acknowledge_through(qp, p->psn);
}

/* Handles a response to a packet that is about to be retransmitted. All packets retransmitted
 * before it have arrived; responses of reads and atomics among them are still missing. A NAK is
 * kept until its packet was retransmitted, because the responder does not repeat it. */
static void handle_late_response(struct qp *qp, const struct packet *p)
{
    if (p->kind == PACKET_NAK && p->immediate != NAK_RNR && p->immediate != NAK_PSN_SEQUENCE) {
        qp->requester.late_nak = (uint8_t)p->immediate;
        qp->requester.late_nak_psn = p->psn;
    }
    acknowledge_up_to(qp, qp->requester.psn);
}

void send_apply_late_nak(struct qp *qp)
{
    struct packet p = {
        .kind = PACKET_NAK, .psn = qp->requester.late_nak_psn, .immediate = qp->requester.late_nak};
    if (!qp->requester.late_nak || !psn_before(qp->requester.late_nak_psn, qp->requester.psn))
        return;
    qp->requester.late_nak = 0;
    handle_nak(qp, &p);
}

static void handle_response(struct device *d, struct link_out *link, const struct packet *p)
{
    struct qp *qp = qp_find(d, p->to_qpn);
    /* Ignore responses to a QP that was reset or destroyed meanwhile. */
    if (!qp || qp->requester.link != link || (qp->state != QP_RTS && qp->state != QP_SQD) ||
        p->from_qpn != qp->requester.remote_qpn || psn_before(p->psn, qp->requester.acked) ||
        !psn_before(p->psn, qp->requester.psn_limit))
        return;
    if (!psn_before(p->psn, qp->requester.psn)) {
        handle_late_response(qp, p);
        return;
    }
    switch (p->kind) {
    case PACKET_ACK:
        acknowledge_before(qp, psn_add(p->psn, 1));
        break;
    case PACKET_NAK:
        handle_nak(qp, p);
        break;
    case PACKET_READ_DATA:
    case PACKET_ATOMIC_VALUE:
        handle_response_data(qp, p);
        break;
    default:
        break;
    }
}

bool send_handle_responses(struct link_out *link, struct device *d)
{
    const struct packet *p;
    char text[ADDRESS_TEXT];
    bool worked = false, broken = false;
    while ((p = ring_peek(&link->responses, &broken))) {
        if (!d->unreachable && !d->failing)
            handle_response(d, link, p);
        ring_consume(&link->responses, p);
        worked = true;
    }
    if (worked)
        ring_release(&link->responses);
    if (broken && !atomic_exchange(&link->dead, true))
        log_error(d, "the responses from %s cannot be read", address_text(link->address, text));
    return worked;
}

/* --- Lost packets --- */

/* Returns true if outstanding packets are lost. Between two processes the link loses nothing, but a
 * responder drops unexpected packets. That is certain when it has consumed all packets and this
 * side all responses. Over RoCE nothing is certain. */
static bool are_packets_lost(const struct qp *qp)
{
    struct link_out *link = qp->requester.link;
    if (qp->send.outstanding_head == qp->send.outstanding_tail ||
        qp->requester.acked == qp->requester.psn)
        return false;
    if (!link || atomic_load(&link->dead) || link->roce || qp->device->unreachable)
        return true;
    uint64_t read = __atomic_load_n(&link->requests.shared->head, __ATOMIC_ACQUIRE);
    uint64_t answers = __atomic_load_n(&link->responses.shared->tail, __ATOMIC_ACQUIRE);
    return read >= qp->requester.link_position && answers == link->responses.own;
}

/* Retransmits on a lossy network before the ACK timeout, which is meant for peers that do not
 * answer. This does not use up the retry count. */
static void retransmit_early(struct qp *qp)
{
    struct device *d = qp->device;
    if (!qp->requester.link || !qp->requester.link->roce || d->now < qp->requester.retransmit_at)
        return;
    qp->requester.retransmit_at =
        d->now + (RETRANSMIT_NS << (qp->requester.retransmissions < RETRANSMIT_SHIFT
                                        ? qp->requester.retransmissions
                                        : RETRANSMIT_SHIFT));
    qp->requester.retransmissions++;
    retransmit_from(qp, qp->requester.acked);
    halve_window(qp);
}

/* Handles the QP's timers. True: the QP waits for time to pass and must be visited again. */
bool send_timers(struct qp *qp)
{
    struct device *d = qp->device;
    if (qp->state != QP_RTS)
        return false;
    if (qp->requester.wait_until)
        return true;
    if (!are_packets_lost(qp)) {
        if (!qp->requester.retransmissions)
            qp->requester.loss_noticed_at = 0;
        return qp->send.outstanding_head != qp->send.outstanding_tail;
    }
    if (!qp->requester.loss_noticed_at)
        qp->requester.loss_noticed_at = d->now;
    if (!qp->requester.retransmissions)
        qp->requester.retransmit_at = qp->requester.loss_noticed_at + RETRANSMIT_NS;
    if (!qp->requester.timeout ||
        d->now - qp->requester.loss_noticed_at < UINT64_C(4096) << qp->requester.timeout) {
        retransmit_early(qp);
        return true;
    }
    retry_from(qp, qp->requester.acked);
    return true;
}

/* --- DC --- */

uint32_t send_target_address(const struct qp *qp, const struct wqe_address *a)
{
    return a->full && qp->device->config->link == LINK_ROCE ? address_of_gid(a->gid) : a->lid;
}

bool send_same_target(const struct qp *qp, const struct wqe_address *a)
{
    return qp->requester.remote_qpn == a->dctn &&
           qp->requester.remote == send_target_address(qp, a) && qp->requester.remote_key == a->key;
}

bool send_target(struct qp *qp, const struct wqe_address *a)
{
    struct device *d = qp->device;
    uint32_t address = send_target_address(qp, a);
    if (send_same_target(qp, a) && qp->requester.link)
        return true;
    if (!qp->requester.link || qp->requester.link->address != address) {
        link_release(d, qp);
        link_attach(d, qp, link_find(d, address));
        if (!qp->requester.link) {
            link_request(d, address);
            return false;
        }
    }
    qp->requester.remote = address;
    qp->requester.remote_qpn = a->dctn;
    qp->requester.remote_key = a->key;
    qp->requester.opens_dc = true;
    /* A later process at this address begins with a later number. */
    d->connections = d->connections ? d->connections + 1 : (uint32_t)(d->now >> 20);
    qp->requester.connection = d->connections ? d->connections : ++d->connections;
    qp->requester.connection_psn = qp->requester.psn;
    if (address_is_ip(address)) {
        qp->requester.source_port = a->source_port;
        qp->requester.window = roce_window(qp);
    }
    return true;
}

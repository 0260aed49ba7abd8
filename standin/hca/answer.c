/* SPDX-License-Identifier: Apache-2.0 */
/* The requester's second half: acknowledgements, data of reads, refusals, and packets that are
 * lost. */
#include "hca.h"
#include "send.h"

#include <string.h>

/* The first time, and how often it is doubled. */
#define RESEND_NS UINT64_C(5000000)
enum { RESEND_SHIFT = 5 };

static struct flight *oldest(struct qp *qp)
{
    return qp->flight_head == qp->flight_tail ? NULL
                                              : &qp->flights[qp->flight_head & qp->flight_mask];
}

static bool is_read(const struct flight *f)
{
    return f->opcode == WQE_READ || wqe_is_atomic(f->opcode);
}

/* Where SOFT_HCA_MODE=adversarial: nobody may read a slot again that is not his. */
static void poison(struct qp *qp, uint16_t from, uint16_t to)
{
    for (uint16_t i = from; i != to; i++)
        memset(qp->ring + (size_t)(i & (qp->blocks - 1)) * WQE_BLOCK_BYTES, 0xff, WQE_BLOCK_BYTES);
}

/* Where completions are collapsed nobody sees another than the last of several that come at
 * once. */
void send_retire(struct qp *qp)
{
    struct flight *f, last = {0};
    struct cq *cq = qp->send_cq;
    uint32_t unseen = 0;
    while ((f = oldest(qp)) && psn_before(f->last_psn, qp->acked)) {
        qp->reads -= is_read(f);
        qp->flight_head++;
        if (f->complete < 2)
            continue;
        last = *f;
        uint16_t end = (uint16_t)(last.index + last.blocks);
        if (qp->device->config->mode == MODE_ADVERSARIAL)
            poison(qp, qp->released, end);
        qp->released = end;
        qp->count_completions++;
        if (cq->collapsed)
            unseen++;
        else
            cq_write_request(cq, qp, &last);
    }
    if (unseen) {
        cq->producer += unseen - 1;
        cq_write_request(cq, qp, &last);
    }
    if (qp->taken != qp->producer || qp->fault.syndrome)
        qp_list(qp);
}

/* acknowledge: all up to psn has arrived. */
static void acknowledge(struct qp *qp, uint32_t psn)
{
    if (psn_before(psn, qp->acked))
        return;
    qp->acked = psn_add(psn, 1);
    qp->retries = qp->retry_count;
    qp->rnr_tries = qp->rnr_retry;
    qp->lost_since = 0;
    qp->resends = 0;
    qp->gap = false;
    if (qp->window && qp->window < roce_window(qp))
        qp->window++;
    send_retire(qp);
}

/* go_back: sends again from the packet psn on, which is of a request in flight. */
static void go_back(struct qp *qp, uint32_t psn)
{
    qp->count_retries++;
    uint32_t first = qp->flight_head;
    while (first != qp->flight_tail &&
           psn_before(qp->flights[first & qp->flight_mask].last_psn, psn))
        first++;
    if (first == qp->flight_tail)
        return;
    const struct flight *f = &qp->flights[first & qp->flight_mask];
    qp->flight_tail = first;
    /* What was entered behind it is entered again when it is sent again. */
    qp->reads = 0;
    for (uint32_t i = qp->flight_head; i != qp->flight_tail; i++)
        qp->reads += is_read(&qp->flights[i & qp->flight_mask]);
    qp->taken = f->index;
    qp->psn = f->first_psn;
    qp->resume = (psn - f->first_psn) & 0xffffff;
    qp->busy = qp->begun = false;
    qp->fault = (struct fault){0};
    qp->gap = false;
    qp_list(qp);
}

static void give_up(struct qp *qp)
{
    char text[ADDRESS_TEXT];
    struct flight *f = oldest(qp);
    log_error(qp->device, "QP 0x%x: no answer from QP 0x%x of %s%s", qp->qpn, qp->remote_qpn,
              address_text(qp->remote, text),
              !qp->link || atomic_load(&qp->link->dead) ? ", whose process is gone" : "");
    qp_fail(qp, f->index, f->opcode, SYNDROME_RETRY_EXCEEDED, 0);
}

/* narrow: packets were lost, and perhaps because there were too many. */
static void narrow(struct qp *qp)
{
    if (qp->window > 2)
        qp->window /= 2;
}

/* try_again: from the packet psn on, if one of the tries that the queue grants is left. */
static void try_again(struct qp *qp, uint32_t psn)
{
    if (!qp->retries) {
        give_up(qp);
        return;
    }
    qp->retries--;
    qp->lost_since = 0;
    qp->resends = 0;
    go_back(qp, psn);
    narrow(qp);
}

/* missing_before: the first packet before psn that was answered by data which did not arrive here:
 * what comes for a later packet acknowledges a write, and never a read or atomic. */
static bool missing_before(struct qp *qp, uint32_t psn, uint32_t *missing)
{
    if (!qp->reads)
        return false;
    for (uint32_t i = qp->flight_head; i != qp->flight_tail; i++) {
        struct flight *f = &qp->flights[i & qp->flight_mask];
        if (!psn_before(f->first_psn, psn))
            return false;
        *missing = psn_before(f->first_psn, qp->acked) ? qp->acked : f->first_psn;
        if (is_read(f) && psn_before(*missing, psn))
            return true;
    }
    return false;
}

/* acknowledge_most: something came for a packet behind psn, or for psn: of all before it
 * acknowledges what it can. Returns the first that is not acknowledged. */
static uint32_t acknowledge_most(struct qp *qp, uint32_t psn)
{
    uint32_t missing;
    if (missing_before(qp, psn, &missing))
        psn = missing;
    if (psn != qp->acked)
        acknowledge(qp, psn_add(psn, 0xffffff));
    return psn;
}

/* acknowledge_before: something came for the packet psn: all before it has arrived. False: an
 * answer before it was lost, and is asked for again. */
static bool acknowledge_before(struct qp *qp, uint32_t psn)
{
    uint32_t missing = acknowledge_most(qp, psn);
    if (missing == psn || qp->gap)
        return missing == psn;
    try_again(qp, missing);
    qp->gap = true;
    return false;
}

static struct flight *flight_of(struct qp *qp, uint32_t psn)
{
    for (uint32_t i = qp->flight_head; i != qp->flight_tail; i++) {
        struct flight *f = &qp->flights[i & qp->flight_mask];
        if (!psn_before(psn, f->first_psn) && !psn_before(f->last_psn, psn))
            return f;
    }
    return NULL;
}

/* Of infiniband's table of timers (IBA, "Timer Field Values"), in units of 10 µs. */
static uint64_t rnr_ns(uint8_t code)
{
    static const uint32_t units[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                       16,    24,   32,   48,    64,    96,    128,   192,
                                       256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return (uint64_t)units[code & 31] * 10000;
}

static void take_refusal(struct qp *qp, const struct packet *p)
{
    if (!acknowledge_before(qp, p->psn))
        return;
    struct flight *f = flight_of(qp, p->psn);
    if (!f)
        return;
    if (p->immediate == REFUSED_SEQUENCE) {
        try_again(qp, p->psn);
        return;
    }
    if (p->immediate != REFUSED_RNR) {
        qp_fail(qp, f->index, f->opcode, (uint8_t)p->immediate, 0);
        return;
    }
    if (qp->rnr_retry != 7 && !qp->rnr_tries--) {
        qp->rnr_tries = 0;
        qp_fail(qp, f->index, f->opcode, SYNDROME_RNR_EXCEEDED, 0);
        return;
    }
    qp->wait_until = qp->device->now + rnr_ns((uint8_t)p->length);
    qp->lost_since = 0;
    go_back(qp, p->psn);
}

/* scatter: data that came back, from byte `offset` of the request's segments on. */
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
        enum mr_refusal r =
            mr_find(&qp->device->keys, s.lkey, qp->pd, MR_LOCAL_WRITE, s.address, s.bytes, &memory);
        if (r) {
            log_error(qp->device, "QP 0x%x: request 0x%x writes 0x%llx + %u with lkey 0x%x: %s",
                      qp->qpn, index, (unsigned long long)s.address, s.bytes, s.lkey,
                      mr_refusal_text(r));
            return SYNDROME_LOCAL_PROTECTION;
        }
        void *to = (void *)(uintptr_t)(memory + offset);
        uint32_t access = qp->device->keys.entries[s.lkey >> 8].access;
        if (!adversary_hold_apart(qp->device, access, to, from, n) &&
            !memory_put(qp->device, to, from, n))
            return SYNDROME_LOCAL_PROTECTION;
        from += n;
        bytes -= n;
        offset = 0;
    }
    return SYNDROME_NONE;
}

static void take_data(struct qp *qp, const struct packet *p)
{
    const uint8_t *data = (const uint8_t *)(p + 1);
    if (!acknowledge_before(qp, p->psn))
        return;
    struct flight *f = flight_of(qp, p->psn);
    if (!f || !is_read(f))
        return;
    uint32_t offset = ((p->psn - f->first_psn) & 0xffffff) * qp->mtu, rest = f->length - offset;
    if ((p->kind == PACKET_READ_DATA) != (f->opcode == WQE_READ) ||
        p->bytes != (rest < qp->mtu ? rest : qp->mtu)) {
        log_error(qp->device,
                  "QP 0x%x: the answer 0x%x to request 0x%x has %u bytes in place of %u", qp->qpn,
                  p->psn, f->index, p->bytes, rest < qp->mtu ? rest : qp->mtu);
        qp_fail(qp, f->index, f->opcode, SYNDROME_BAD_RESPONSE, 0);
        return;
    }
    uint8_t value[8];
    if (p->kind == PACKET_ATOMIC_VALUE && p->bytes == 4) {
        /* A value of 8 bytes comes in the host's order, one of 4 bytes big-endian. */
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
    acknowledge(qp, p->psn);
}

/* take_late: the answer to a packet that is about to be sent again. All that were sent again before
 * it have arrived; of a read or atomic among them the answer is still to come. A refusal holds when
 * its packet has a request again: the responder will not repeat it. */
static void take_late(struct qp *qp, const struct packet *p)
{
    if (p->kind == PACKET_NAK && p->immediate != REFUSED_RNR && p->immediate != REFUSED_SEQUENCE) {
        qp->late = (uint8_t)p->immediate;
        qp->late_psn = p->psn;
    }
    acknowledge_most(qp, qp->psn);
}

void send_take_late_refusal(struct qp *qp)
{
    struct packet p = {.kind = PACKET_NAK, .psn = qp->late_psn, .immediate = qp->late};
    if (!qp->late || !psn_before(qp->late_psn, qp->psn))
        return;
    qp->late = 0;
    take_refusal(qp, &p);
}

static void take_answer(struct device *d, struct link_out *link, const struct packet *p)
{
    struct qp *qp = qp_find(d, p->to_qpn);
    /* Answers to a queue that was reset or destroyed meanwhile. */
    if (!qp || qp->link != link || (qp->state != QP_RTS && qp->state != QP_SQD) ||
        p->from_qpn != qp->remote_qpn || psn_before(p->psn, qp->acked) ||
        !psn_before(p->psn, qp->psn_most))
        return;
    if (!psn_before(p->psn, qp->psn)) {
        take_late(qp, p);
        return;
    }
    switch (p->kind) {
    case PACKET_ACK:
        acknowledge_before(qp, psn_add(p->psn, 1));
        break;
    case PACKET_NAK:
        take_refusal(qp, p);
        break;
    case PACKET_READ_DATA:
    case PACKET_ATOMIC_VALUE:
        take_data(qp, p);
        break;
    default:
        break;
    }
}

bool send_answers(struct link_out *link, struct device *d)
{
    const struct packet *p;
    char text[ADDRESS_TEXT];
    bool worked = false, broken = false;
    while ((p = ring_peek(&link->answers, &broken))) {
        take_answer(d, link, p);
        ring_take(&link->answers, p);
        worked = true;
    }
    if (worked)
        ring_release(&link->answers);
    if (broken && !atomic_exchange(&link->dead, true))
        log_error(d, "the answers from %s cannot be read", address_text(link->address, text));
    return worked;
}

/* --- Lost packets --- */

/* Nothing is lost on the way between two processes, but a responder drops what its queue does not
 * expect. That is certain when all packets were read there and all answers here. Over RoCE nothing
 * is certain. */
static bool is_lost(const struct qp *qp)
{
    struct link_out *link = qp->link;
    if (qp->flight_head == qp->flight_tail || qp->acked == qp->psn)
        return false;
    if (!link || atomic_load(&link->dead) || link->roce)
        return true;
    uint64_t read = __atomic_load_n(&link->requests.shared->head, __ATOMIC_ACQUIRE);
    uint64_t answers = __atomic_load_n(&link->answers.shared->tail, __ATOMIC_ACQUIRE);
    return read >= qp->link_mark && answers == link->answers.own;
}

/* resend_early: on a wire that loses packets the queue's time, which is for peers that do not
 * answer, is too long to wait for one packet. What is sent before it is over takes none of its
 * tries. */
static void resend_early(struct qp *qp)
{
    struct device *d = qp->device;
    if (!qp->link || !qp->link->roce || d->now < qp->resend_at)
        return;
    qp->resend_at =
        d->now + (RESEND_NS << (qp->resends < RESEND_SHIFT ? qp->resends : RESEND_SHIFT));
    qp->resends++;
    go_back(qp, qp->acked);
    narrow(qp);
}

/* send_timers: true: the queue waits for the clock, and is to be looked at again. */
bool send_timers(struct qp *qp)
{
    struct device *d = qp->device;
    if (qp->state != QP_RTS)
        return false;
    if (qp->wait_until)
        return true;
    if (!is_lost(qp)) {
        if (!qp->resends)
            qp->lost_since = 0;
        return qp->flight_head != qp->flight_tail;
    }
    if (!qp->lost_since)
        qp->lost_since = d->now;
    if (!qp->resends)
        qp->resend_at = qp->lost_since + RESEND_NS;
    if (!qp->timeout || d->now - qp->lost_since < UINT64_C(4096) << qp->timeout) {
        resend_early(qp);
        return true;
    }
    try_again(qp, qp->acked);
    return true;
}

/* --- DC --- */

uint32_t send_target_address(const struct qp *qp, const struct wqe_address *a)
{
    return a->full && qp->device->config->link == LINK_ROCE ? address_of_gid(a->gid) : a->lid;
}

bool send_same_target(const struct qp *qp, const struct wqe_address *a)
{
    return qp->remote_qpn == a->dctn && qp->remote == send_target_address(qp, a) &&
           qp->remote_key == a->key;
}

bool send_target(struct qp *qp, const struct wqe_address *a)
{
    struct device *d = qp->device;
    uint32_t address = send_target_address(qp, a);
    if (send_same_target(qp, a) && qp->link)
        return true;
    if (!qp->link || qp->link->address != address) {
        link_release(d, qp);
        link_attach(d, qp, link_find(d, address));
        if (!qp->link) {
            link_want(d, address);
            return false;
        }
    }
    qp->remote = address;
    qp->remote_qpn = a->dctn;
    qp->remote_key = a->key;
    qp->opens = true;
    return true;
}

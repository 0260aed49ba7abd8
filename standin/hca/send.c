/* SPDX-License-Identifier: Apache-2.0 */
/* The requester: handles doorbells, reads WQEs and sends their packets. Responses are handled in
 * answer.c. */
#include "send.h"
#include "hca.h"
#include "roce_format.h"

#include <string.h>

enum {
    REQUESTS_A_PASS = 256,
    BYTES_A_PASS = 256 << 10,
    /* half of the 24-bit PSN space, so that "before" and "after" are distinct */
    PSN_HALF_RANGE = 1 << 22,
};

void send_raise_fault(struct qp *qp, uint8_t syndrome, uint8_t vendor)
{
    if (!qp->send.fault.syndrome)
        qp->send.fault = (struct fault){syndrome, vendor};
    qp_list(qp);
}

/* --- Doorbells --- */

/* Handles a doorbell. The doorbell's value counts; the doorbell record is checked against it. */
static void handle_doorbell(struct qp *qp, uint16_t index)
{
    struct device *d = qp->device;
    uint16_t record, other = 0;
    bool strict = d->config->mode != MODE_LENIENT;
    if (!qp_record(qp, 1, &record))
        return;
    d->record.doorbells++;
    if (qp->state != QP_RTS && qp->state != QP_SQD && qp->state != QP_ERROR) {
        log_error(d, "QP 0x%x: doorbell 0x%x in state %u; it is ignored", qp->qpn, index,
                  qp->state);
        return;
    }
    if ((int16_t)(record - index) < 0 && strict) {
        qp_record(qp, 0, &other);
        log_error(
            d,
            "QP 0x%x: doorbell 0x%x, but the doorbell record says 0x%x (word 0: 0x%x). The record "
            "of a send queue is the second word, and is written before the doorbell",
            qp->qpn, index, record, other);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_RECORD_BEHIND);
        return;
    }
    /* An earlier doorbell that arrived late may have overwritten a later one in the register. The
     * record covers both. */
    if ((int16_t)(record - index) > 0)
        index = record;
    if ((int16_t)(index - qp->send.producer) <= 0)
        return;
    uint16_t used = (uint16_t)(index - qp->send.released);
    if (used > qp->send.blocks) {
        log_error(d,
                  "QP 0x%x: doorbell 0x%x is %u blocks ahead of 0x%x, after which nothing has "
                  "completed, in a ring of %u: slots were reused before their completion",
                  qp->qpn, index, used, qp->send.released, qp->send.blocks);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_OVERRUN);
        return;
    }
    if (!qp_fetch(qp, index))
        return;
    qp->send.producer = index;
    qp_list(qp);
}

void send_doorbell(struct uar *uar, uint64_t value)
{
    struct device *d = uar->device;
    uint32_t words[2];
    memcpy(words, &value, 8);
    uint32_t qpn = be32(words[1]) >> 8;
    uint16_t index = (uint16_t)(be32(words[0]) >> 8);
    struct qp *qp = qp_find(d, qpn);
    if (!qp || !qp->send.ring) {
        log_error(d, "doorbell on UAR %u for QP 0x%x, which does not exist or does not send",
                  uar->page_id, qpn);
    } else if (qp->uar != uar) {
        log_error(d, "doorbell for QP 0x%x on UAR %u; the queue was created on UAR %u", qpn,
                  uar->page_id, qp->uar ? qp->uar->page_id : 0);
    } else {
        handle_doorbell(qp, index);
    }
    if (uar->queues < 2)
        return;
    /* If several QPs share the register, it holds only the last doorbell. The records of the other
     * QPs show theirs. */
    for (unsigned n = 1; n < MAX_QPS; n++) {
        struct qp *other = d->objects.qps[n];
        uint16_t record;
        if (!other || other == qp || other->uar != uar || !other->send.ring ||
            other->state != QP_RTS)
            continue;
        if (qp_record(other, 1, &record) && (int16_t)(record - other->send.producer) > 0)
            handle_doorbell(other, record);
    }
}

/* --- WQEs --- */

void send_load(const struct qp *qp, uint16_t index, uint32_t *words, struct wqe *wqe)
{
    uint32_t mask = qp->send.blocks - 1, slot = index & mask;
    memcpy(words, qp->send.ring + (size_t)slot * WQE_BLOCK_BYTES, WQE_UNIT_BYTES);
    wqe_control(words, wqe);
    size_t bytes = wqe->units * WQE_UNIT_BYTES,
           room = (size_t)(qp->send.blocks - slot) * WQE_BLOCK_BYTES;
    size_t first = bytes < room ? bytes : room;
    if (first > WQE_UNIT_BYTES)
        memcpy(words + 4, qp->send.ring + (size_t)slot * WQE_BLOCK_BYTES + WQE_UNIT_BYTES,
               first - WQE_UNIT_BYTES);
    if (bytes > first)
        memcpy((uint8_t *)words + first, qp->send.ring, bytes - first);
}

static bool check_request(struct qp *qp, const struct wqe *w)
{
    struct device *d = qp->device;
    bool strict = d->config->mode != MODE_LENIENT;
    if (strict && w->index != qp->send.taken) {
        log_error(d, "QP 0x%x: the request at 0x%x has index 0x%x", qp->qpn, qp->send.taken,
                  w->index);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_WRONG_INDEX);
    } else if (strict && w->qpn != qp->qpn) {
        log_error(d, "QP 0x%x: the request at 0x%x is for QP 0x%x", qp->qpn, qp->send.taken,
                  w->qpn);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_WRONG_QPN);
    } else if (w->blocks > (uint16_t)(qp->send.producer - qp->send.taken)) {
        log_error(d, "QP 0x%x: the request at 0x%x has %u blocks, but the doorbell is at 0x%x",
                  qp->qpn, qp->send.taken, w->blocks, qp->send.producer);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_INCOMPLETE);
    }
    return !qp->send.fault.syndrome;
}

/* Copies bytes of the message from `offset` to `to`; with NULL it only checks the keys. */
static uint8_t gather(struct qp *qp, uint64_t offset, uint8_t *to, uint64_t bytes)
{
    struct wqe_segment s;
    unsigned at = qp->current.wqe.data;
    bool fits;
    while (bytes && wqe_segment_next(qp->current.words, qp->current.wqe.units, &at, &s, &fits)) {
        if (offset >= s.bytes) {
            offset -= s.bytes;
            continue;
        }
        uint64_t n = s.bytes - offset < bytes ? s.bytes - offset : bytes, memory;
        if (s.is_inline) {
            memory = (uintptr_t)qp->current.words + s.address + offset;
        } else {
            enum mr_refusal r =
                mr_find(&qp->device->objects.keys, s.lkey, qp->pd, 0, s.address, s.bytes, &memory);
            if (r) {
                log_error(qp->device, "QP 0x%x: request 0x%x reads 0x%llx + %u with lkey 0x%x: %s",
                          qp->qpn, qp->send.taken, (unsigned long long)s.address, s.bytes, s.lkey,
                          mr_refusal_text(r));
                return SYNDROME_LOCAL_PROTECTION;
            }
            memory += offset;
        }
        if (to) {
            if (!memory_get(qp->device, to, (const void *)(uintptr_t)memory, n))
                return SYNDROME_LOCAL_PROTECTION;
            to += n;
        }
        bytes -= n;
        offset = 0;
    }
    return SYNDROME_NONE;
}

/* From now on no packet leaves or reaches the device. A failed adapter also ends all its queues. */
static void become_unreachable(struct device *d)
{
    static const char *const what[] = {[FAIL_PORT] = "port 1 is down",
                                       [FAIL_PATH] = "packets are lost",
                                       [FAIL_ADAPTER] = "failed"};
    log_error(d, "%s because of SOFT_HCA_FAIL_AT=%u", what[d->config->fail], d->config->fail_at);
    d->unreachable = true;
    for (unsigned n = 1; d->config->fail == FAIL_ADAPTER && n < MAX_QPS; n++)
        if (d->objects.qps[n] && d->objects.qps[n]->state == QP_RTS)
            qp_to_error(d->objects.qps[n]);
}

static bool may_fail(const struct device *d)
{
    return d->config->fail_devices >> d->number & 1;
}

/* Counts a WQE when it is first loaded, and returns true if SOFT_HCA_FAIL_AT makes it fail. */
static bool must_inject_failure(struct qp *qp)
{
    struct device *d = qp->device;
    if ((int16_t)(qp->send.taken - qp->requester.counted_end) < 0 || d->config->fail >= FAIL_CREATE)
        return false;
    qp->requester.counted_end = (uint16_t)(qp->send.taken + 1);
    d->unanswered += qp == d->failing;
    if (++d->record.requests != d->config->fail_at || !may_fail(d) || d->config->fail_value)
        return false;
    if (d->config->fail != FAIL_REQUEST)
        become_unreachable(d);
    return d->config->fail == FAIL_REQUEST;
}

static bool carries(struct qp *qp, uint64_t value)
{
    const struct wqe *w = &qp->current.wqe;
    uint64_t found = w->atomic.operand;
    if (w->opcode == WQE_WRITE && w->length == sizeof found)
        return !gather(qp, 0, (uint8_t *)&found, sizeof found) && found == value;
    return wqe_is_atomic(w->opcode) && found == value;
}

/* SOFT_HCA_FAIL_VALUE: whether the loaded request is behind those that are executed before the
 * fault. Only one that is loaded for the first time can be. */
static bool waits_for_fault(struct qp *qp)
{
    struct device *d = qp->device;
    if (!d->config->fail_value || !d->config->fail_at || !may_fail(d) ||
        (int16_t)(qp->send.taken - qp->requester.counted_end) < 0)
        return false;
    if (!d->failing && carries(qp, d->config->fail_value))
        d->failing = qp;
    return qp == d->failing && d->unanswered + 1 >= d->config->fail_at;
}

void send_fail_behind_value(struct device *d)
{
    bool executed = true;
    if (!d->failing || d->unreachable || d->unanswered + 1 < d->config->fail_at)
        return;
    for (unsigned i = 0; i < d->links.out_count; i++) {
        const struct ring *requests = &d->links.out[i]->requests;
        /* Acquire: what the peer has taken from the ring it has executed. */
        executed &= __atomic_load_n(&requests->shared->head, __ATOMIC_ACQUIRE) == requests->own;
    }
    if (executed)
        become_unreachable(d);
}

/* Whether a request by DC reaches that address: a port with an IP address reaches those of its
 * kind. */
static bool is_reachable(const struct qp *qp, uint32_t address)
{
    uint32_t own = roce_address(qp->device);
    return address_is_ip(address) ? own && address_is_ipv6(own) == address_is_ipv6(address)
                                  : address;
}

/* Loads the WQE at `taken`. False: the QP has a fault. */
static bool load_next_wqe(struct qp *qp)
{
    struct wqe *w = &qp->current.wqe;
    send_load(qp, qp->send.taken, qp->current.words, w);
    if (!check_request(qp, w))
        return false;
    uint8_t syndrome = wqe_decode(qp->current.words, qp->type == QP_DCI, w);
    if (syndrome) {
        log_error(qp->device,
                  "QP 0x%x: the request at 0x%x (opcode 0x%02x, %u units) cannot be decoded",
                  qp->qpn, qp->send.taken, w->opcode, w->units);
        send_raise_fault(qp, syndrome, VENDOR_MALFORMED);
        return false;
    }
    if (waits_for_fault(qp))
        return false;
    if (must_inject_failure(qp)) {
        log_error(qp->device, "QP 0x%x: request 0x%x fails because of SOFT_HCA_FAIL_AT=%u", qp->qpn,
                  qp->send.taken, qp->device->config->fail_at);
        send_raise_fault(qp, SYNDROME_REMOTE_OPERATION, VENDOR_INJECTED);
        return false;
    }
    if ((w->opcode == WQE_READ || wqe_is_atomic(w->opcode)) && !qp->requester.max_reads) {
        log_error(qp->device,
                  "QP 0x%x: read or atomic at 0x%x, but the queue allows none (max_rd_atomic 0)",
                  qp->qpn, qp->send.taken);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_NO_READS);
        return false;
    }
    if (wqe_is_atomic(w->opcode) && qp->device->config->atomics == ATOMICS_NONE) {
        log_error(qp->device,
                  "QP 0x%x: atomic at 0x%x, but the adapter has none (SOFT_HCA_ATOMICS)", qp->qpn,
                  qp->send.taken);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_NO_ATOMICS);
        return false;
    }
    if (w->address.present && !is_reachable(qp, send_target_address(qp, &w->address))) {
        log_error(qp->device,
                  "QP 0x%x: the request at 0x%x names no LID or GID that this port reaches",
                  qp->qpn, qp->send.taken);
        send_raise_fault(qp, SYNDROME_LOCAL_QP_OPERATION, VENDOR_ADDRESS);
        return false;
    }
    if (qp->state != QP_RTS) /* the adapter has just failed */
        return false;
    qp->current.loaded = true;
    qp->current.offset = 0;
    return true;
}

/* Returns true if earlier requests must complete first. */
static bool is_blocked(struct qp *qp)
{
    const struct wqe *w = &qp->current.wqe;
    bool idle = qp->send.outstanding_head == qp->send.outstanding_tail,
         read = w->opcode == WQE_READ || wqe_is_atomic(w->opcode);
    if ((w->fence == 2 || w->fence == 4) && qp->send.reads)
        return true;
    if (w->fence == 3 && !idle)
        return true;
    if (read && qp->send.reads >= qp->requester.max_reads)
        return true;
    return w->address.present && !idle && !send_same_target(qp, &w->address);
}

static uint32_t packet_count(const struct qp *qp, uint64_t bytes)
{
    return bytes ? (uint32_t)((bytes + qp->requester.mtu - 1) / qp->requester.mtu) : 1;
}

uint32_t send_sum_slots(const struct qp *qp, const struct outstanding *f)
{
    uint32_t sum = 0x811c9dc5; /* FNV-1a */
    for (unsigned i = 0; i < f->blocks; i++) {
        const uint8_t *at =
            qp->send.ring + (size_t)((f->index + i) & (qp->send.blocks - 1)) * WQE_BLOCK_BYTES;
        for (unsigned k = 0; k < WQE_BLOCK_BYTES; k++)
            sum = (sum ^ at[k]) * 0x01000193;
    }
    return sum;
}

static struct outstanding *add_outstanding(struct qp *qp)
{
    const struct wqe *w = &qp->current.wqe;
    struct outstanding *f =
        &qp->send.outstanding[qp->send.outstanding_tail & qp->send.outstanding_mask];
    bool read = w->opcode == WQE_READ || wqe_is_atomic(w->opcode);
    uint32_t packets = wqe_is_local(w->opcode) ? 0 : packet_count(qp, w->length);
    *f = (struct outstanding){.first_psn = qp->requester.psn,
                              .last_psn = psn_add(qp->requester.psn, packets - 1),
                              .length = (uint32_t)w->length,
                              .index = qp->send.taken,
                              .opcode = w->opcode,
                              .blocks = w->blocks,
                              .complete = w->complete,
                              .solicited = w->complete == 3};
    if (qp->device->config->mode == MODE_ADVERSARIAL)
        f->sum = send_sum_slots(qp, f);
    qp->send.outstanding_tail++;
    qp->send.reads += read;
    qp->counts.requests++;
    qp->counts.bytes += w->length;
    return f;
}

static void finish_wqe(struct qp *qp)
{
    qp->send.taken = (uint16_t)(qp->send.taken + qp->current.wqe.blocks);
    qp->current.loaded = qp->current.outstanding = false;
}

static void fill_header(struct qp *qp, struct packet *p, uint32_t payload)
{
    const struct wqe *w = &qp->current.wqe;
    *p = (struct packet){.bytes = payload,
                         .flags = (uint8_t)(qp->current.offset ? 0 : PACKET_FIRST),
                         .mtu = (uint16_t)qp->requester.mtu,
                         .to_qpn = qp->requester.remote_qpn,
                         .from_qpn = qp->qpn,
                         .psn = qp->requester.psn,
                         .length = (uint32_t)(w->length - qp->current.offset),
                         .rkey = w->rkey,
                         .address = w->remote + qp->current.offset};
    if (qp->type != QP_DCI)
        return;
    p->flags |= PACKET_DC;
    if (qp->requester.link->roce) {
        p->connection = qp->requester.connection;
        p->msn = qp->requester.connection_psn;
    } else if (qp->requester.opens_dc) {
        p->flags |= PACKET_OPENS;
    }
}

static uint8_t fill_payload(struct qp *qp, struct packet *p, uint32_t payload)
{
    const struct wqe *w = &qp->current.wqe;
    uint8_t *to = (uint8_t *)(p + 1);
    if (qp->type == QP_DCI) {
        memcpy(to, &qp->requester.remote_key, 8);
        to += 8;
        p->bytes += 8;
    }
    if (wqe_is_atomic(w->opcode)) {
        uint64_t operands[4] = {w->atomic.operand, w->atomic.operand_mask, w->atomic.compare,
                                w->atomic.compare_mask};
        memcpy(to, operands, sizeof operands);
        return SYNDROME_NONE;
    }
    return gather(qp, qp->current.offset, to, payload);
}

static void fill_kind(const struct wqe *w, struct packet *p, bool last)
{
    bool with_immediate = w->opcode == WQE_SEND_IMM || w->opcode == WQE_WRITE_IMM;
    p->flags |= last ? PACKET_LAST : 0;
    p->flags |= last && with_immediate ? PACKET_IMMEDIATE : 0;
    p->flags |= last && w->opcode == WQE_SEND_INVALIDATE ? PACKET_INVALIDATE : 0;
    p->flags |= last && w->solicited ? PACKET_SOLICITED : 0;
    p->immediate = w->immediate;
    p->kind = PACKET_SEND;
    if (w->opcode == WQE_WRITE || w->opcode == WQE_WRITE_IMM)
        p->kind = PACKET_WRITE;
    if (w->opcode == WQE_READ)
        p->kind = PACKET_READ;
    if (wqe_is_atomic(w->opcode)) {
        p->kind = PACKET_ATOMIC;
        p->immediate = w->atomic.bytes | (uint32_t)w->atomic.compare_swap << 8;
        p->length = w->atomic.bytes;
    }
}

/* Returns how many PSNs the next packet may use, 0: none now. The number of outstanding packets is
 * limited, to a low number on a lossy network. A longer read is requested in parts, one at a time.
 * The parts do not depend on packet loss, because a responder rejects a request that it has
 * executed in part. */
static uint32_t allowed_packets(const struct qp *qp, uint32_t numbers)
{
    uint32_t outstanding_packets = (qp->requester.psn - qp->requester.acked) & 0xffffff,
             part = roce_window(qp);
    part = part ? part : PSN_HALF_RANGE;
    if (qp->current.wqe.opcode == WQE_READ) {
        uint32_t to_end = part - qp->current.offset / qp->requester.mtu % part;
        numbers = numbers < to_end ? numbers : to_end;
        if (outstanding_packets && qp->current.offset)
            return 0;
    }
    return !outstanding_packets || outstanding_packets + numbers <=
                                       (qp->requester.window ? qp->requester.window : part)
               ? numbers
               : 0;
}

/* Sends the next packet of the current WQE. False: there is no space now, or a fault. */
static bool send_packet(struct qp *qp)
{
    const struct wqe *w = &qp->current.wqe;
    bool read = w->opcode == WQE_READ, atomic = wqe_is_atomic(w->opcode);
    uint64_t rest = w->length - qp->current.offset;
    uint32_t numbers = allowed_packets(qp, read ? packet_count(qp, rest) : 1);
    if (!numbers)
        return false;
    /* Bytes of the message that the packet carries or requests. */
    uint64_t most = (uint64_t)numbers * qp->requester.mtu;
    uint32_t part = (uint32_t)(rest < most ? rest : most);
    uint32_t payload = read ? 0 : atomic ? 32 : part;
    struct packet *p =
        ring_reserve(&qp->requester.link->requests, payload + (qp->type == QP_DCI ? 8 : 0));
    if (!p)
        return false;
    bool last = part == rest;
    fill_header(qp, p, payload);
    fill_kind(w, p, last);
    if (read)
        p->length = part;
    uint8_t syndrome = fill_payload(qp, p, payload);
    if (syndrome) {
        /* The message stays incomplete at the responder; the request is no longer outstanding. */
        qp->send.outstanding_tail--;
        qp->send.reads -= atomic;
        qp->current.loaded = qp->current.outstanding = false;
        send_raise_fault(qp, syndrome, VENDOR_KEY);
        return false;
    }
    ring_commit(&qp->requester.link->requests, p);
    qp->requester.link->unpublished = true;
    qp->requester.link_position = qp->requester.link->requests.own;
    qp->requester.opens_dc = false;
    qp->requester.psn = psn_add(qp->requester.psn, numbers);
    if (psn_before(qp->requester.psn_limit, qp->requester.psn))
        qp->requester.psn_limit = qp->requester.psn;
    qp->current.offset += part;
    if (last)
        finish_wqe(qp);
    send_apply_late_nak(qp);
    return true;
}

/* Executes a WQE without packets. It completes in order. */
static void run_local_wqe(struct qp *qp)
{
    uint8_t syndrome = gather(qp, 0, NULL, qp->current.wqe.length);
    if (syndrome) {
        qp->current.loaded = false;
        send_raise_fault(qp, syndrome, VENDOR_KEY);
        return;
    }
    /* DUMP reads local memory, which makes earlier NIC writes to it visible */
    if (qp->current.wqe.opcode == WQE_DUMP)
        adversary_flush(qp->device, &qp->device->pending.apart, NULL);
    add_outstanding(qp);
    finish_wqe(qp);
    send_retire(qp);
}

/* Masked and 4-byte atomics have a RoCE packet format only between two software HCAs. False: the
 * peer's kind is not known yet, or it is another kind. */
static bool check_atomic_form(struct qp *qp)
{
    const struct wqe_atomic *a = &qp->current.wqe.atomic;
    char text[ADDRESS_TEXT];
    if (!wqe_is_atomic(qp->current.wqe.opcode) ||
        roce_is_standard_atomic(a->compare_swap, a->bytes, a->operand_mask, a->compare_mask))
        return true;
    enum roce_peer_kind other = roce_query_peer(qp);
    if (other != ROCE_PEER_OTHER)
        return other == ROCE_PEER_SOFT;
    log_error(
        qp->device,
        "QP 0x%x: the atomic at 0x%x, %u bytes%s, has no RoCE packet format, and the peer at %s "
        "is not a software HCA, or does not answer",
        qp->qpn, qp->send.taken, a->bytes, a->bytes == 8 ? " with a mask" : "",
        address_text(qp->requester.remote, text));
    qp->current.loaded = false;
    send_raise_fault(qp, SYNDROME_REMOTE_INVALID_REQUEST, VENDOR_NO_FORM);
    return false;
}

/* Adds the current WQE to the outstanding requests. False: something must happen first. */
static bool start_wqe(struct qp *qp)
{
    if (is_blocked(qp))
        return false;
    if (qp->current.wqe.address.present && !send_target(qp, &qp->current.wqe.address))
        return false;
    if (!qp->requester.link ||
        !ring_reserve(&qp->requester.link->requests, qp->requester.mtu + 8) ||
        !check_atomic_form(qp))
        return false;
    add_outstanding(qp);
    qp->current.outstanding = true;
    qp->requester.psn = psn_add(qp->requester.psn, qp->current.resume_packets);
    qp->current.offset = qp->current.resume_packets * qp->requester.mtu;
    qp->current.resume_packets = 0;
    return true;
}

static bool run_request(struct qp *qp, uint64_t *bytes)
{
    if (!qp->current.loaded && !load_next_wqe(qp))
        return false;
    if (wqe_is_local(qp->current.wqe.opcode)) {
        if (is_blocked(qp))
            return false;
        run_local_wqe(qp);
        return true;
    }
    if (!qp->current.outstanding && !start_wqe(qp))
        return false;
    while (qp->current.loaded && *bytes < BYTES_A_PASS) {
        *bytes += qp->requester.mtu;
        if (!send_packet(qp))
            return false;
    }
    return !qp->current.loaded;
}

/* --- Flushing --- */

static void flush(struct qp *qp)
{
    while (qp->send.taken != qp->send.producer) {
        uint32_t control[4];
        struct wqe w;
        memcpy(control,
               qp->send.ring + (size_t)(qp->send.taken & (qp->send.blocks - 1)) * WQE_BLOCK_BYTES,
               16);
        wqe_control(control, &w);
        uint16_t rest = (uint16_t)(qp->send.producer - qp->send.taken);
        uint16_t blocks = w.blocks ? w.blocks : 1;
        cq_write_error(qp->send_cq, qp, false, qp->send.taken, w.opcode, SYNDROME_FLUSHED, 0);
        qp->send.taken = (uint16_t)(qp->send.taken + (blocks < rest ? blocks : rest));
        qp->send.released = qp->send.taken;
    }
}

/* Processes a QP as far as possible now. False: nothing was done, and it need not be visited before
 * its next doorbell or response. */
bool send_run(struct qp *qp)
{
    uint64_t bytes = 0;
    bool worked = false;
    if (qp->state == QP_ERROR) {
        worked = qp->send.ring && qp->send.taken != qp->send.producer;
        if (worked)
            flush(qp);
        return worked;
    }
    if (qp->state != QP_RTS ||
        (qp->requester.wait_until && qp->device->now < qp->requester.wait_until))
        return false;
    qp->requester.wait_until = 0;
    unsigned most = adversary_limit(qp->device, REQUESTS_A_PASS);
    for (unsigned n = 0; n < most && bytes < BYTES_A_PASS; n++) {
        if (qp->state != QP_RTS || qp->send.fault.syndrome ||
            (!qp->current.loaded && qp->send.taken == qp->send.producer))
            break;
        unsigned short_writes = burst_send(qp);
        worked |= short_writes;
        n += short_writes;
        if (!qp->current.loaded && qp->send.taken == qp->send.producer)
            break;
        if (!run_request(qp, &bytes))
            break;
        worked = true;
    }
    if (qp->send.fault.syndrome && qp->send.outstanding_head == qp->send.outstanding_tail) {
        struct fault f = qp->send.fault;
        qp_fail(qp, qp->send.taken, qp->current.wqe.opcode, f.syndrome, f.vendor);
        worked = true;
    }
    return worked || bytes;
}

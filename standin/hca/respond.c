/* SPDX-License-Identifier: Apache-2.0 */
/* The responder: executes arriving requests in this process's memory by its own memory keys, and
 * sends responses. */
#include "hca.h"

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

enum {
    PACKETS_A_PASS = 256, /* packets, and short writes in them */
    CQE_WRITE_IMMEDIATE = 1,
    CQE_SEND = 2,
    CQE_SEND_IMMEDIATE = 3,
    CQE_SEND_INVALIDATE = 4,
    MAX_DC_RESPONDERS = 4096,
    OLD_CONNECTIONS =
        1 << 16, /* a connection of a lower number is older, unless it is that far away */
};

/* A request packet that is being executed. */
struct respond_request {
    struct device *device;
    struct link_in *link;
    const struct packet *packet;
    const uint8_t *data;
    uint32_t bytes;
    struct qp *qp;
    struct responder *responder;
    uint32_t rkey;
    uint64_t address;
};

/* --- Responses --- */

static struct packet *new_response(struct respond_request *r, uint8_t kind, uint32_t payload)
{
    struct packet *p = ring_reserve(&r->link->responses, payload);
    if (p)
        *p = (struct packet){.bytes = payload,
                             .kind = kind,
                             .to_qpn = r->packet->from_qpn,
                             .from_qpn = r->qp->qpn,
                             .psn = r->packet->psn,
                             .msn = r->responder->msn};
    return p;
}

/* Sends a NAK. respond_run() has reserved space for it. Later packets are dropped until the
 * expected PSN arrives. */
static bool send_nak(struct respond_request *r, uint8_t syndrome, uint32_t timer)
{
    struct packet *p = new_response(r, PACKET_NAK, 0);
    p->immediate = syndrome;
    p->length = timer;
    if (syndrome == NAK_PSN_SEQUENCE)
        p->psn = r->responder->expected_psn;
    ring_commit(&r->link->responses, p);
    r->responder->nak_sent = true;
    if (syndrome != NAK_RNR && syndrome != NAK_PSN_SEQUENCE && r->qp->type == QP_RC)
        qp_to_error(r->qp);
    return true;
}

/* Queues an ACK for the connection. It must never name the PSN of a read or atomic: the requester
 * would take that for complete without its response. */
static void acknowledge_later(struct respond_request *r)
{
    if (r->responder->ack_pending)
        return;
    r->responder->ack_pending = true;
    r->link->pending[r->link->pending_count] = r->qp;
    r->link->pending_responders[r->link->pending_count++] = r->responder;
}

/* Sends all pending ACKs. If GPU memory has failed, nothing is acknowledged, and the requester's
 * retries run out. */
static bool acknowledge_all(struct link_in *link, struct device *d)
{
    if (!memory_flush(d))
        return false;
    while (link->pending_count) {
        struct packet *p = ring_reserve(&link->responses, 0);
        if (!p)
            return false;
        struct qp *qp = link->pending[--link->pending_count];
        struct responder *s = link->pending_responders[link->pending_count];
        *p = (struct packet){.kind = PACKET_ACK,
                             .to_qpn = s->qpn,
                             .from_qpn = qp->qpn,
                             .psn = s->ack_psn,
                             .msn = s->msn};
        ring_commit(&link->responses, p);
        s->ack_pending = false;
    }
    return true;
}

static void drop_ack(struct link_in *l, unsigned place)
{
    l->pending_responders[place]->ack_pending = false;
    l->pending_count--;
    l->pending[place] = l->pending[l->pending_count];
    l->pending_responders[place] = l->pending_responders[l->pending_count];
}

/* Drops the connection's pending ACK if the response of a read or atomic acknowledges the same
 * packets. False: GPU memory has failed, so nothing may be acknowledged. */
static bool acknowledge_by_response(struct respond_request *r)
{
    if (!r->responder->ack_pending || r->packet->psn != r->responder->expected_psn)
        return true;
    if (!memory_flush(r->device))
        return false;
    for (unsigned i = 0; i < r->link->pending_count; i++)
        if (r->link->pending_responders[i] == r->responder)
            drop_ack(r->link, i--);
    return true;
}

void respond_flush(struct device *d)
{
    for (unsigned i = 0; i < d->links.in_count; i++)
        adversary_flush(d, &d->links.in[i]->delayed, NULL);
    adversary_flush(d, &d->pending.apart, NULL);
}

/* Drops all pending ACKs of a QP. */
void respond_drop_acks(struct device *d, struct qp *qp)
{
    respond_flush(d); /* delayed writes refer to its connections */
    for (unsigned i = 0; i < d->links.in_count; i++) {
        struct link_in *l = d->links.in[i];
        for (unsigned k = 0; k < l->pending_count; k++) {
            if (l->pending[k] == qp)
                drop_ack(l, k--);
        }
    }
}

static void end_message(struct responder *s)
{
    s->msn = psn_add(s->msn, 1);
    s->message = PACKET_PAD;
}

/* Records that a packet was executed, and queues its ACK. */
static bool finish_packet(struct respond_request *r)
{
    struct responder *s = r->responder;
    s->expected_psn = psn_add(r->packet->psn, 1);
    s->message = r->packet->kind;
    if (r->packet->flags & PACKET_LAST)
        end_message(s);
    s->ack_psn = r->packet->psn;
    acknowledge_later(r);
    return true;
}

/* --- Memory --- */

/* Translates the remote address of a request. NULL: access was rejected, and a NAK was sent. */
static void *resolve_target(struct respond_request *r, uint32_t need, uint64_t bytes)
{
    const struct packet *p = r->packet;
    char text[ADDRESS_TEXT];
    uint64_t memory;
    enum mr_refusal why = MR_NOT_PERMITTED;
    bool by_queue = !(r->qp->access & need);
    if (!by_queue)
        why =
            mr_find(&r->device->objects.keys, r->rkey, r->qp->pd, need, r->address, bytes, &memory);
    if (!why)
        return (void *)(uintptr_t)memory;
    log_error(r->device, "QP 0x%x: QP 0x%x of %s requests 0x%llx + %llu with rkey 0x%x (%s): %s",
              r->qp->qpn, p->from_qpn, address_text(r->link->address, text),
              (unsigned long long)r->address, (unsigned long long)bytes, r->rkey,
              need == MR_REMOTE_WRITE  ? "write"
              : need == MR_REMOTE_READ ? "read"
                                       : "atomic",
              by_queue ? "not permitted by the queue's access flags" : mr_refusal_text(why));
    send_nak(r, SYNDROME_REMOTE_ACCESS, 0);
    return NULL;
}

/* --- Receiving --- */

static bool send_rnr_nak(struct respond_request *r)
{
    return send_nak(r, NAK_RNR, r->qp->rnr_timer);
}

static bool complete_receive(struct respond_request *r, uint8_t kind, uint32_t bytes)
{
    const struct packet *p = r->packet;
    r->responder->receiving = false;
    r->qp->counts.received++;
    cq_write_receive(r->qp->receive_cq, r->qp, kind, r->responder->receive_index, bytes,
                     p->immediate, p->flags & PACKET_SOLICITED);
    return finish_packet(r);
}

static bool run_send(struct respond_request *r)
{
    const struct packet *p = r->packet;
    struct responder *s = r->responder;
    if (!s->receiving) {
        if (!receive_consume(r->qp, &s->receive_index))
            return send_rnr_nak(r);
        s->receiving = true;
        s->received = 0;
    }
    uint8_t syndrome = receive_scatter(r->qp, s->receive_index, s->received, r->data, r->bytes);
    if (!syndrome && p->flags & PACKET_INVALIDATE &&
        !mr_invalidate(r->device, be32(p->immediate), r->qp->pd))
        syndrome = SYNDROME_LOCAL_PROTECTION;
    if (syndrome) {
        bool length = syndrome == SYNDROME_LOCAL_LENGTH;
        if (length)
            log_error(r->device,
                      "QP 0x%x: a message of %u bytes or more does not fit receive entry 0x%x",
                      r->qp->qpn, s->received + p->length, s->receive_index);
        s->receiving = false;
        cq_write_error(r->qp->receive_cq, r->qp, true, s->receive_index, 0, syndrome, 0);
        return send_nak(r, length ? SYNDROME_REMOTE_INVALID_REQUEST : SYNDROME_REMOTE_OPERATION, 0);
    }
    s->received += r->bytes;
    if (!(p->flags & PACKET_LAST))
        return finish_packet(r);
    uint8_t kind = p->flags & PACKET_IMMEDIATE ? CQE_SEND_IMMEDIATE : CQE_SEND;
    if (p->flags & PACKET_INVALIDATE)
        kind = CQE_SEND_INVALIDATE;
    return complete_receive(r, kind, s->received);
}

/* Returns true if writes with this key may pass each other. */
static bool is_relaxed(const struct respond_request *r)
{
    uint32_t index = r->rkey >> 8;
    return r->bytes && index < MAX_MRS &&
           r->device->objects.keys.entries[index].access & MR_RELAXED_ORDERING;
}

/* Performs the delayed writes of the connection and of this process's reads: the request must not
 * pass them. */
static void flush_delayed(struct respond_request *r)
{
    adversary_flush(r->device, &r->link->delayed, r->responder);
    adversary_flush(r->device, &r->device->pending.apart, NULL);
}

/* The same, of writes into memory of the kind that the request accesses. */
static void flush_before(struct respond_request *r, const void *at)
{
    adversary_flush_memory(r->device, &r->link->delayed, r->responder, at);
    adversary_flush(r->device, &r->device->pending.apart, NULL);
}

static void flush_before_access(struct respond_request *r)
{
    uint64_t memory;
    if (r->packet->kind == PACKET_SEND ||
        mr_find(&r->device->objects.keys, r->rkey, r->qp->pd, 0, r->address, 1, &memory))
        flush_delayed(r);
    else
        flush_before(r, (const void *)(uintptr_t)memory);
}

static bool run_write(struct respond_request *r)
{
    const struct packet *p = r->packet;
    struct responder *s = r->responder;
    uint32_t rest = p->flags & PACKET_FIRST ? p->length : s->rest;
    /* All remaining bytes of the message must be inside the key's memory before the first is
     * written. */
    void *to = rest ? resolve_target(r, MR_REMOTE_WRITE, rest) : NULL;
    if (rest && !to)
        return true;
    bool immediate = p->flags & PACKET_IMMEDIATE;
    if (immediate && !receive_consume(r->qp, &s->receive_index))
        return send_rnr_nak(r);
    bool relaxed = !immediate && is_relaxed(r);
    if (!relaxed || !adversary_delay(r->device, &r->link->delayed, s, to, r->data, r->bytes)) {
        if (!relaxed)
            flush_before(r, to);
        if (!memory_put(r->device, to, r->data, r->bytes))
            return send_nak(r, SYNDROME_REMOTE_OPERATION, 0);
    }
    s->received = p->flags & PACKET_FIRST ? p->length : s->received;
    s->rkey = r->rkey;
    s->address = r->address + r->bytes;
    s->rest = rest - r->bytes;
    return immediate ? complete_receive(r, CQE_WRITE_IMMEDIATE, s->received) : finish_packet(r);
}

/* Executes the short writes of one packet. It skips those that were executed before, and stops at
 * the first that is rejected. */
static bool run_writes(struct respond_request *r)
{
    const struct packet *whole = r->packet;
    struct responder *s = r->responder;
    struct packet one = *whole;
    struct burst_write w;
    uint32_t at = 0;
    r->packet = &one;
    for (uint32_t n = 0; n < whole->length && burst_next(r->data, r->bytes, &at, &w); n++) {
        one.psn = psn_add(whole->psn, n);
        if (one.psn != s->expected_psn)
            continue;
        r->rkey = w.rkey;
        r->address = w.address;
        void *to = resolve_target(r, MR_REMOTE_WRITE, w.bytes);
        if (!to)
            /* NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape): r ends with this packet */
            return true;
        flush_before(r, to);
        if (!memory_put(r->device, to, w.data, w.bytes))
            return send_nak(r, SYNDROME_REMOTE_OPERATION, 0);
        s->expected_psn = psn_add(one.psn, 1);
        s->ack_psn = one.psn;
        end_message(s);
    }
    acknowledge_later(r);
    /* NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape): r ends with this packet */
    return true;
}

/* --- Reading --- */

/* Executes an RDMA read. False: the response ring is full; the read continues in the next pass. */
static bool run_read(struct respond_request *r)
{
    const struct packet *p = r->packet;
    uint32_t offset = r->link->read_offset, psn = psn_add(p->psn, offset / p->mtu);
    const uint8_t *from = p->length ? resolve_target(r, MR_REMOTE_READ, p->length) : NULL;
    if (p->length && !from)
        return true;
    if (!acknowledge_by_response(r))
        return send_nak(r, SYNDROME_REMOTE_OPERATION, 0);
    if (!offset && p->psn == r->responder->expected_psn)
        end_message(r->responder);
    do {
        uint32_t rest = p->length - offset, n = rest < p->mtu ? rest : p->mtu;
        struct packet *a = new_response(r, PACKET_READ_DATA, n);
        if (!a) {
            r->link->read_offset = offset;
            return false;
        }
        if (n && !memory_get(r->device, a + 1, from + offset, n))
            return send_nak(r, SYNDROME_REMOTE_OPERATION, 0);
        a->psn = psn;
        a->flags = offset ? 0 : PACKET_FIRST;
        psn = psn_add(psn, 1);
        offset += n;
        a->flags |= offset == p->length ? PACKET_LAST : 0;
        ring_commit(&r->link->responses, a);
    } while (offset < p->length);
    if (p->psn == r->responder->expected_psn)
        r->responder->expected_psn = psn;
    return true;
}

/* --- Atomics --- */

/* Sends the result of an atomic. False: the response ring is full. */
static bool respond_atomic(struct respond_request *r, uint64_t value, uint32_t bytes)
{
    struct packet *v = new_response(r, PACKET_ATOMIC_VALUE, bytes);
    if (!v)
        return false;
    memcpy(v + 1, &value, bytes);
    v->flags = PACKET_FIRST | PACKET_LAST;
    ring_commit(&r->link->responses, v);
    return true;
}

/* Sends the response of an atomic again. The atomic itself is not executed twice. */
static void replay_atomic(struct respond_request *r)
{
    const struct responder *s = r->responder;
    for (unsigned i = 0; i < MAX_READS; i++)
        if (s->replays[i].bytes && s->replays[i].psn == r->packet->psn)
            respond_atomic(r, s->replays[i].value, s->replays[i].bytes);
}

static bool run_atomic(struct respond_request *r)
{
    const struct packet *p = r->packet;
    struct responder *s = r->responder;
    uint64_t operands[4], old;
    memcpy(operands, r->data, sizeof operands);
    struct wqe_atomic a = {.compare_swap = p->immediate >> 8 & 1,
                           .bytes = p->immediate & 0xff,
                           .operand = operands[0],
                           .operand_mask = operands[1],
                           .compare = operands[2],
                           .compare_mask = operands[3]};
    if ((p->address & (a.bytes - 1u)) || (a.bytes != 4 && a.bytes != 8)) {
        log_error(r->device, "QP 0x%x: atomic of %u bytes at 0x%llx, which is not aligned",
                  r->qp->qpn, a.bytes, (unsigned long long)p->address);
        return send_nak(r, SYNDROME_REMOTE_INVALID_REQUEST, 0);
    }
    if (r->device->config->atomics == ATOMICS_NONE) {
        log_error(r->device, "QP 0x%x: atomic at 0x%llx, but the adapter has none", r->qp->qpn,
                  (unsigned long long)p->address);
        return send_nak(r, SYNDROME_REMOTE_INVALID_REQUEST, 0);
    }
    void *at = resolve_target(r, MR_REMOTE_ATOMIC, a.bytes);
    if (!at)
        return true;
    if (!acknowledge_by_response(r) || !memory_atomic(r->device, at, &a, &old))
        return send_nak(r, SYNDROME_REMOTE_OPERATION, 0);
    s->replays[s->replay_next++ % MAX_READS] = (struct replay){p->psn, a.bytes, old};
    end_message(s);
    s->expected_psn = psn_add(p->psn, 1);
    return respond_atomic(r, old, a.bytes);
}

/* --- QP and connection of a packet --- */

static void open_connection(struct responder *s, uint32_t psn)
{
    s->expected_psn = psn;
    s->ack_psn = psn_add(psn, 0xffffff);
    s->nak_sent = s->receiving = false;
    s->message = PACKET_PAD;
    memset(s->replays, 0, sizeof s->replays);
}

static struct responder *find_dc_responder(struct qp *qp, const struct packet *p, uint32_t from)
{
    unsigned count = 0;
    struct responder *s;
    for (s = qp->responder.next; s; s = s->next, count++)
        if (s->qpn == p->from_qpn && s->from == from)
            break;
    if (!s && count < MAX_DC_RESPONDERS && (s = calloc(1, sizeof *s))) {
        s->next = qp->responder.next;
        qp->responder.next = s;
        s->qpn = p->from_qpn;
        s->from = from;
        s->connection = p->connection - (p->connection != 0);
    }
    /* A network may deliver a packet of an earlier connection late. */
    int32_t newer = s ? (int32_t)(p->connection - s->connection) : 0;
    if (newer < 0 && newer > -OLD_CONNECTIONS)
        return NULL;
    if (s && newer) {
        s->connection = p->connection;
        open_connection(s, p->msn);
    }
    if (s && p->flags & PACKET_OPENS)
        open_connection(s, p->psn);
    return s;
}
static bool find_responder(struct respond_request *r)
{
    const struct packet *p = r->packet;
    struct qp *qp = qp_find(r->device, p->to_qpn);
    bool dc = p->flags & PACKET_DC;
    if (!qp || dc != (qp->type == QP_DCT) ||
        (qp->state != QP_RTR && qp->state != QP_RTS && qp->state != QP_SQD))
        return false;
    r->qp = qp;
    if (!dc) {
        r->responder = &qp->responder;
        return qp->type == QP_RC && qp->requester.remote_qpn == p->from_qpn &&
               qp->requester.remote == r->link->address;
    }
    uint64_t key;
    if (r->bytes < 8)
        return false;
    memcpy(&key, r->data, 8);
    if (key != qp->dc_key) {
        log_error(r->device, "DCT 0x%x: QP 0x%x of LID %u uses the wrong access key", qp->qpn,
                  p->from_qpn, r->link->address);
        return false;
    }
    r->data += 8;
    r->bytes -= 8;
    r->responder = find_dc_responder(qp, p, r->link->address);
    return r->responder;
}

/* Returns true if the packet has the expected PSN. A duplicate gets its response again. After a
 * gap, one NAK is sent. */
static bool check_psn(struct respond_request *r)
{
    struct responder *s = r->responder;
    if (r->packet->psn == s->expected_psn) {
        s->nak_sent = false;
        return true;
    }
    if (psn_before(r->packet->psn, s->expected_psn)) {
        /* Duplicate reads are executed again. */
        if (r->packet->kind == PACKET_READ || r->packet->kind == PACKET_WRITES)
            return true;
        if (r->packet->kind == PACKET_ATOMIC)
            replay_atomic(r);
        else
            acknowledge_later(r);
        return false;
    }
    if (s->nak_sent)
        return false;
    log_error(r->device, "QP 0x%x: packet 0x%x of QP 0x%x where 0x%x is expected; it is dropped",
              r->qp->qpn, r->packet->psn, r->packet->from_qpn, s->expected_psn);
    send_nak(r, NAK_PSN_SEQUENCE, 0);
    return false;
}

/* Returns true if the packet continues the current message, or begins one if there is none. Only
 * the first packet of a write names its address. */
static bool check_sequence(struct respond_request *r)
{
    const struct packet *p = r->packet;
    const struct responder *s = r->responder;
    bool first = p->flags & PACKET_FIRST, last = p->flags & PACKET_LAST;
    bool parts = p->kind == PACKET_SEND || p->kind == PACKET_WRITE;
    uint32_t rest = first ? p->length : s->rest;
    r->rkey = p->rkey;
    r->address = p->address;
    if (p->kind == PACKET_INVALID || (p->kind == PACKET_READ && (p->mtu < 256 || p->mtu > 4096)))
        return false;
    if (p->psn != s->expected_psn)
        return true;
    if (!parts)
        return s->message == PACKET_PAD;
    if (s->message != (first ? PACKET_PAD : p->kind))
        return false;
    if (p->kind == PACKET_SEND)
        return true;
    if (!first) {
        r->rkey = s->rkey;
        r->address = s->address;
    }
    return last ? rest == r->bytes : rest > r->bytes;
}

/* Executes a packet. False: there is no space for the response yet. */
static bool execute_request(struct respond_request *r)
{
    if (!find_responder(r) || !check_psn(r))
        return true;
    if (!check_sequence(r)) {
        log_error(r->device, "QP 0x%x: packet 0x%x of QP 0x%x is not valid here: %s", r->qp->qpn,
                  r->packet->psn, r->packet->from_qpn,
                  r->packet->kind == PACKET_INVALID
                      ? "unknown opcode, or a length that does not match the path MTU"
                      : "another message is incomplete, or the length is wrong");
        return send_nak(r, SYNDROME_REMOTE_INVALID_REQUEST, 0);
    }
    if (r->packet->kind != PACKET_WRITE && r->packet->kind != PACKET_WRITES)
        flush_before_access(r);
    switch (r->packet->kind) {
    case PACKET_SEND:
        return run_send(r);
    case PACKET_WRITE:
        return run_write(r);
    case PACKET_WRITES:
        return run_writes(r);
    case PACKET_READ:
        return run_read(r);
    case PACKET_ATOMIC:
        return r->bytes == 32 ? run_atomic(r) : true;
    default:
        return true;
    }
}

/* Hides the execution of another process's request from ThreadSanitizer, which cannot see the
 * synchronization through that process. It is memory access of a NIC. Releases still count. */
#if defined __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

static void hide_from_tsan(bool begins)
{
    (begins ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
    (begins ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
}
#else
static void hide_from_tsan(bool begins)
{
    (void)begins;
}
#endif

static bool run_requests(struct link_in *link, struct device *d)
{
    const struct packet *p;
    char text[ADDRESS_TEXT];
    bool broken = false;
    uint64_t before = link->responses.own;
    unsigned n = 0, most = adversary_limit(d, PACKETS_A_PASS);
    adversary_flush_expired(d, &link->delayed);
    if (adversary_skips_step(d))
        return ring_peek(&link->requests, &broken);
    for (; n < most && (p = ring_peek(&link->requests, &broken)); n++) {
        struct respond_request r = {.device = d,
                                    .link = link,
                                    .packet = p,
                                    .data = (const uint8_t *)(p + 1),
                                    .bytes = p->bytes};
        if (!ring_reserve(&link->responses, 64) ||
            (link->pending_count == 64 && !acknowledge_all(link, d)))
            break;
        if (!execute_request(&r))
            break;
        link->read_offset = 0;
        /* A burst counts each of its writes, so that ACKs are sent in between even if requests
         * arrive as fast as they are executed. */
        if (p->kind == PACKET_WRITES)
            n += p->length;
        ring_consume(&link->requests, p);
    }
    bool pending = link->pending_count;
    acknowledge_all(link, d);
    /* Also part of an RDMA read's data; the rest follows when the peer has consumed these. */
    bool answered = link->responses.own != before;
    if (n || answered) {
        /* In this order: a requester that sees its requests consumed but no response assumes packet
         * loss. */
        ring_publish(&link->responses);
        ring_release(&link->requests);
        link_wake_engine(link->wakeup);
    }
    if (broken && !atomic_exchange(&link->dead, true))
        log_error(d, "the requests of %s cannot be read", address_text(link->address, text));
    return n || pending || answered;
}

/* Consumes the requests without a trace. */
static bool lose_requests(struct link_in *link)
{
    const struct packet *p;
    bool broken = false, any = false;
    for (; (p = ring_peek(&link->requests, &broken)); any = true)
        ring_consume(&link->requests, p);
    if (any)
        ring_release(&link->requests);
    return any;
}

bool respond_run(struct link_in *link, struct device *d)
{
    if (d->unreachable)
        return lose_requests(link);
    if (link->self)
        return run_requests(link, d);
    hide_from_tsan(true);
    bool worked = run_requests(link, d);
    hide_from_tsan(false);
    return worked;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Bursts: consecutive short RDMA writes of a send queue go to the peer in one packet, with one
 * lookup, one ACK and one completion. Each WQE is checked as usual (send.c, respond.c). Other WQEs,
 * faulty ones and all WQEs of the adversarial mode are left to those files. */
#include "gpu/memory.h"
#include "hca.h"
#include "send.h"

#include <string.h>

enum {
    WRITE_BYTES = 256, /* longest write in bytes; no path MTU is smaller */
    HEAD_BYTES = 16,
    BURST_BYTES = 4096, /* bytes of a packet */
    UNITS_BEFORE_DATA = 2,
    /* An inline write in one block: byte offset of its data, most data bytes, bytes reserved for
     * them in a packet, and data bytes that fit in the first unit. */
    SHORT_AT = UNITS_BEFORE_DATA * WQE_UNIT_BYTES + 4,
    SHORT_BYTES = WQE_BLOCK_BYTES - SHORT_AT,
    SHORT_ROOM = 32,
    SHORT_OF_3_UNITS = WQE_UNIT_BYTES - 4,
};

/* Header of each write in the packet. The data follow, padded to 8 bytes. */
struct head {
    uint64_t address;
    uint32_t rkey, bytes;
};
_Static_assert(sizeof(struct head) == HEAD_BYTES, "packed as it is");

static uint32_t padded(uint32_t bytes)
{
    return (bytes + 7) & ~UINT32_C(7);
}

/* --- Sending --- */

/* Copies bytes of the WQE at `taken` from byte `offset` on; a WQE may wrap around the end of the
 * ring. */
static void copy_ring(const struct qp *qp, uint32_t offset, void *to, uint32_t bytes)
{
    uint32_t size = qp->send.blocks * WQE_BLOCK_BYTES;
    uint32_t at = ((uint32_t)qp->send.taken * WQE_BLOCK_BYTES + offset) & (size - 1),
             rest = size - at;
    if (bytes <= rest) {
        memcpy(to, qp->send.ring + at, bytes);
        return;
    }
    memcpy(to, qp->send.ring + at, rest);
    memcpy((uint8_t *)to + rest, qp->send.ring, bytes - rest);
}

/* A WQE, decoded from its first 48 bytes. */
struct write {
    struct wqe wqe; /* the control segment */
    struct head head;
    bool is_inline;
    uint64_t memory; /* address of the data if they are not inline */
};

static bool is_plain(const struct qp *qp, const struct wqe *w)
{
    return w->index == qp->send.taken && w->qpn == qp->qpn && !w->fence &&
           w->blocks <= (uint16_t)(qp->send.producer - qp->send.taken) &&
           (w->opcode == WQE_WRITE || w->opcode == WQE_NOP);
}

/* Decodes the WQE at `taken`. False: it cannot be part of a burst. */
static bool read_write(const struct qp *qp, struct write *w)
{
    uint32_t words[12];
    /* Copy it first: the program might change the ring, although it must not. */
    memcpy(words,
           qp->send.ring + (size_t)(qp->send.taken & (qp->send.blocks - 1)) * WQE_BLOCK_BYTES, 48);
    wqe_control(words, &w->wqe);
    w->wqe.solicited = w->wqe.complete == 3;
    if (!is_plain(qp, &w->wqe))
        return false;
    if (w->wqe.opcode == WQE_NOP)
        return w->wqe.units > 0;
    uint32_t count = wqe_u32(words, 8);
    w->is_inline = count >> 31;
    w->memory = 0;
    w->head = (struct head){wqe_u64(words, 4), wqe_u32(words, 6), count & 0x7fffffff};
    if (!w->head.bytes || w->head.bytes > WRITE_BYTES)
        return false;
    unsigned units = UNITS_BEFORE_DATA + 1;
    if (w->is_inline)
        units = UNITS_BEFORE_DATA + (4 + w->head.bytes + WQE_UNIT_BYTES - 1) / WQE_UNIT_BYTES;
    if (w->wqe.units != units)
        return false;
    if (w->is_inline)
        return true;
    return !mr_find(&qp->device->objects.keys, wqe_u32(words, 9), qp->pd, 0, wqe_u64(words, 10),
                    w->head.bytes, &w->memory) &&
           !gpu_memory_holds(w->memory);
}

static void add_burst_request(struct qp *qp, const struct wqe *w, uint32_t psn, uint32_t packets)
{
    qp->send.outstanding[qp->send.outstanding_tail++ & qp->send.outstanding_mask] =
        (struct outstanding){.first_psn = psn,
                             .last_psn = psn_add(psn, packets - 1),
                             .index = qp->send.taken,
                             .opcode = w->opcode,
                             .blocks = w->blocks,
                             .complete = w->complete,
                             .solicited = w->solicited};
    qp->send.taken = (uint16_t)(qp->send.taken + w->blocks);
}

static bool burst_allowed(const struct qp *qp)
{
    const struct config *c = qp->device->config;
    return qp->type == QP_RC && qp->requester.link && !qp->requester.link->roce &&
           !qp->current.loaded && !qp->current.resume_packets && !qp->send.fault.syndrome &&
           c->mode != MODE_ADVERSARIAL && !c->fail_at;
}

/* A burst packet that is being built. */
struct burst {
    uint8_t *to;
    uint32_t used, writes;
    unsigned requests;
    bool local; /* some of the WQEs send nothing (NOP) */
};

/* Decodes an inline write in one block, the most frequent WQE: its header and its completion flags.
 * False: it is another WQE. The code only compares, so that the address of the next WQE does not
 * depend on data of this one, which may still be in another CPU's cache. */
static inline bool read_short(const struct qp *qp, const uint8_t *at, uint16_t index,
                              struct head *head, uint32_t *flags)
{
    uint32_t first, second, count;
    memcpy(&first, at, 4);
    memcpy(&second, at + 4, 4);
    memcpy(flags, at + 8, 4);
    memcpy(&head->address, at + 16, 8);
    memcpy(&head->rkey, at + 24, 4);
    memcpy(&count, at + 32, 4);
    head->address = be64(head->address);
    head->rkey = be32(head->rkey);
    head->bytes = be32(count) & 0x7fffffff;
    *flags = be32(*flags);
    uint32_t units = UNITS_BEFORE_DATA + (head->bytes > SHORT_OF_3_UNITS ? 2 : 1);
    return first == be32((uint32_t)index << 8 | WQE_WRITE) && be32(count) >> 31 &&
           head->bytes - 1 < SHORT_BYTES &&
           (second & be32(0xffffff3f)) == be32(qp->qpn << 8 | units) && !(*flags >> 5 & 7);
}

/* Adds consecutive such writes. */
static void add_shorts(struct qp *qp, struct burst *b)
{
    const uint16_t from = qp->send.taken, producer = qp->send.producer;
    const uint32_t first_psn = psn_add(qp->requester.psn, b->writes);
    struct outstanding flight = {.opcode = WQE_WRITE, .blocks = 1};
    uint64_t sum = 0;
    uint32_t used = b->used, n = 0;
    for (; (uint16_t)(from + n) != producer && used + HEAD_BYTES + SHORT_ROOM <= BURST_BYTES; n++) {
        uint16_t index = (uint16_t)(from + n);
        const uint8_t *at =
            qp->send.ring + (size_t)(index & (qp->send.blocks - 1)) * WQE_BLOCK_BYTES;
        uint8_t *to = b->to + used;
        struct head head;
        uint32_t flags, psn = psn_add(first_psn, n);
        if (!read_short(qp, at, index, &head, &flags))
            break;
        memcpy(to, &head, HEAD_BYTES);
        memcpy(to + HEAD_BYTES, at + SHORT_AT, 8);
        if (head.bytes > 8)
            memcpy(to + HEAD_BYTES + 8, at + SHORT_AT + 8, SHORT_BYTES - 8);
        used += HEAD_BYTES + padded(head.bytes);
        sum += head.bytes;
        flight.first_psn = flight.last_psn = psn;
        flight.index = index;
        flight.complete = flags >> 2 & 3;
        flight.solicited = flight.complete == 3;
        qp->send.outstanding[(qp->send.outstanding_tail + n) & qp->send.outstanding_mask] = flight;
    }
    qp->counts.bytes += sum;
    qp->send.outstanding_tail += n;
    qp->send.taken = (uint16_t)(from + n);
    b->used = used;
    b->writes += n;
    b->requests += n;
}

/* Adds the next WQE of any form that a burst may contain. False: there is none, or no space for
 * it. */
static bool add_other(struct qp *qp, struct burst *b)
{
    struct write w;
    if (qp->send.taken == qp->send.producer || !read_write(qp, &w))
        return false;
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): read_write() has set it */
    uint32_t psn = psn_add(qp->requester.psn, b->writes), room = HEAD_BYTES + padded(w.head.bytes);
    uint8_t *to = b->to + b->used;
    if (w.wqe.opcode == WQE_NOP) {
        add_burst_request(qp, &w.wqe, psn, 0);
        b->local = true;
        b->requests++;
        return true;
    }
    if (b->used + room > BURST_BYTES)
        return false;
    memcpy(to, &w.head, HEAD_BYTES);
    if (w.is_inline)
        copy_ring(qp, UNITS_BEFORE_DATA * WQE_UNIT_BYTES + 4, to + HEAD_BYTES, w.head.bytes);
    else
        memcpy(to + HEAD_BYTES, (const void *)(uintptr_t)w.memory, w.head.bytes);
    b->used += room;
    add_burst_request(qp, &w.wqe, psn, 1);
    qp->counts.bytes += w.head.bytes;
    b->writes++;
    b->requests++;
    return true;
}

static void commit_burst(struct qp *qp, struct packet *p, const struct burst *b)
{
    *p = (struct packet){.bytes = b->used,
                         .kind = PACKET_WRITES,
                         .flags = PACKET_FIRST | PACKET_LAST,
                         .to_qpn = qp->requester.remote_qpn,
                         .from_qpn = qp->qpn,
                         .psn = qp->requester.psn,
                         .length = b->writes};
    ring_commit(&qp->requester.link->requests, p);
    qp->requester.link->unpublished = true;
    qp->requester.link_position = qp->requester.link->requests.own;
    qp->requester.psn = psn_add(qp->requester.psn, b->writes);
    if (psn_before(qp->requester.psn_limit, qp->requester.psn))
        qp->requester.psn_limit = qp->requester.psn;
}

/* Sends consecutive short writes in one packet and returns the number of WQEs. */
unsigned burst_send(struct qp *qp)
{
    struct burst b = {0};
    struct packet *p;
    if (!burst_allowed(qp) || qp->send.taken == qp->send.producer ||
        !(p = ring_reserve(&qp->requester.link->requests, BURST_BYTES)))
        return 0;
    b.to = (uint8_t *)(p + 1);
    do
        add_shorts(qp, &b);
    while (add_other(qp, &b));
    qp->counts.requests += b.requests;
    qp->device->record.requests += b.requests;
    if (b.writes)
        commit_burst(qp, p, &b);
    if (b.local)
        send_retire(qp);
    return b.requests;
}

/* --- Execution by the responder --- */

/* Decodes the write at byte *at of a packet's data. False after the last one, and for invalid
 * data. */
bool burst_next(const uint8_t *data, uint32_t bytes, uint32_t *at, struct burst_write *out)
{
    struct head h;
    if (*at > bytes || bytes - *at < HEAD_BYTES)
        return false;
    memcpy(&h, data + *at, HEAD_BYTES);
    if (!h.bytes || h.bytes > WRITE_BYTES || padded(h.bytes) > bytes - *at - HEAD_BYTES)
        return false;
    *out = (struct burst_write){h.address, h.rkey, h.bytes, data + *at + HEAD_BYTES};
    *at += HEAD_BYTES + padded(h.bytes);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Short writes, many at a time: what stands in a send queue as plain writes of few bytes goes to the peer as one
 * packet, which is looked up, acknowledged and completed once. Every request is checked as any other (send.c,
 * respond.c); whatever is not plain, or not right, is left to them, and so are all requests of the adversarial
 * mode, which takes each by itself. */
#include "gpu_memory.h"
#include "hca.h"
#include "send.h"

#include <string.h>

enum {
    WRITE_BYTES = 256, /* of the longest that is taken; no path's MTU is less */
    HEAD_BYTES = 16,
    BURST_BYTES = 4096, /* of a packet */
    UNITS_BEFORE_DATA = 2,
};

/* In the packet, before each write's data, which are padded to 8 bytes. */
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

/* copy_ring: bytes of the request at `taken` from its byte `offset` on; a request may go over the ring's end. */
static void copy_ring(const struct qp *qp, uint32_t offset, void *to, uint32_t bytes)
{
    uint32_t size = qp->blocks * WQE_BLOCK_BYTES;
    uint32_t at = ((uint32_t)qp->taken * WQE_BLOCK_BYTES + offset) & (size - 1), rest = size - at;
    if (bytes <= rest) {
        memcpy(to, qp->ring + at, bytes);
        return;
    }
    memcpy(to, qp->ring + at, rest);
    memcpy((uint8_t *)to + rest, qp->ring, bytes - rest);
}

/* One request: what its first 48 bytes say. */
struct write {
    struct wqe wqe; /* the control segment */
    struct head head;
    bool is_inline;
    uint64_t memory; /* of the data that are not */
};

static bool is_plain(const struct qp *qp, const struct wqe *w)
{
    return w->index == qp->taken && w->qpn == qp->qpn && !w->fence &&
           w->blocks <= (uint16_t)(qp->producer - qp->taken) &&
           (w->opcode == WQE_WRITE || w->opcode == WQE_NOP);
}

/* read_write: false: not one for here. */
static bool read_write(const struct qp *qp, struct write *w)
{
    uint32_t words[12];
    /* A linear copy: the program may change the ring although it must not. */
    memcpy(words, qp->ring + (size_t)(qp->taken & (qp->blocks - 1)) * WQE_BLOCK_BYTES, 48);
    wqe_control(words, &w->wqe);
    w->wqe.solicited = w->wqe.complete == 3;
    if (!is_plain(qp, &w->wqe))
        return false;
    if (w->wqe.opcode == WQE_NOP)
        return w->wqe.units > 0;
    uint32_t count = wqe_u32(words, 8);
    w->is_inline = count >> 31;
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
    return !mr_find(&qp->device->keys, wqe_u32(words, 9), qp->pd, 0, wqe_u64(words, 10),
                    w->head.bytes, &w->memory) &&
           !gpu_memory_holds(w->memory);
}

static void enter(struct qp *qp, const struct wqe *w, uint32_t psn, uint32_t packets)
{
    qp->flights[qp->flight_tail++ & qp->flight_mask] =
        (struct flight){.first_psn = psn,
                        .last_psn = psn_add(psn, packets - 1),
                        .index = qp->taken,
                        .opcode = w->opcode,
                        .blocks = w->blocks,
                        .complete = w->complete,
                        .solicited = w->solicited};
    qp->taken = (uint16_t)(qp->taken + w->blocks);
}

static bool applies(const struct qp *qp)
{
    const struct config *c = qp->device->config;
    return qp->type == QP_RC && qp->link && !qp->link->roce && !qp->busy && !qp->resume &&
           !qp->fault.syndrome && c->mode != MODE_ADVERSARIAL && !c->fail_at;
}

/* burst_send: takes requests as long as they are plain short writes; returns how many. */
unsigned burst_send(struct qp *qp)
{
    struct packet *p;
    struct write w;
    unsigned requests = 0, writes = 0;
    uint32_t used = 0;
    bool local = false;
    if (!applies(qp) || qp->taken == qp->producer || !read_write(qp, &w) ||
        !(p = ring_reserve(&qp->link->requests, BURST_BYTES)))
        return 0;
    uint8_t *to = (uint8_t *)(p + 1);
    do {
        if (w.wqe.opcode == WQE_NOP) {
            enter(qp, &w.wqe, psn_add(qp->psn, writes), 0);
            local = true;
            continue;
        }
        uint32_t room = HEAD_BYTES + padded(w.head.bytes);
        if (used + room > BURST_BYTES)
            break;
        struct head *head = (struct head *)(to + used);
        head->address = w.head.address;
        head->rkey = w.head.rkey;
        head->bytes = w.head.bytes;
        if (w.is_inline)
            copy_ring(qp, UNITS_BEFORE_DATA * WQE_UNIT_BYTES + 4, to + used + HEAD_BYTES,
                      w.head.bytes);
        else
            memcpy(to + used + HEAD_BYTES, (const void *)(uintptr_t)w.memory, w.head.bytes);
        used += room;
        enter(qp, &w.wqe, psn_add(qp->psn, writes++), 1);
        qp->count_bytes += w.head.bytes;
    } while (++requests && qp->taken != qp->producer && read_write(qp, &w));
    qp->count_requests += requests;
    qp->device->count_requests += requests;
    if (writes) {
        *p = (struct packet){.bytes = used,
                             .kind = PACKET_WRITES,
                             .flags = PACKET_FIRST | PACKET_LAST,
                             .to_qpn = qp->remote_qpn,
                             .from_qpn = qp->qpn,
                             .psn = qp->psn,
                             .length = writes};
        ring_commit(&qp->link->requests, p);
        qp->link->unpublished = true;
        qp->link_mark = qp->link->requests.own;
        qp->psn = psn_add(qp->psn, writes);
        if (psn_before(qp->psn_most, qp->psn))
            qp->psn_most = qp->psn;
    }
    if (local)
        send_retire(qp);
    return requests;
}

/* --- Carrying out --- */

/* burst_next: the write at byte *at of a packet's data; false behind the last, and where what lies there cannot be
 * one. */
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

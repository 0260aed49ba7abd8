/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between the HCAs of two processes: their format, and a ring of packets in shared memory
 * with one producer and one consumer. Knows nothing of what a packet does. */
#ifndef WEFT_HCA_RING_H
#define WEFT_HCA_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_kind {
    PACKET_PAD, /* unused bytes up to the end of the ring */
    PACKET_SEND,
    PACKET_WRITE,
    PACKET_READ,
    PACKET_ATOMIC,
    PACKET_ACK,
    PACKET_NAK,
    PACKET_READ_DATA,
    PACKET_ATOMIC_VALUE,
    PACKET_WRITES,      /* `length` short writes (burst.c) with consecutive PSNs */
    PACKET_INVALID,     /* a request that cannot be decoded */
    PACKET_PROBE,       /* RoCE: asks whether the peer is a software HCA */
    PACKET_PROBE_REPLY, /* RoCE: the peer is a software HCA */
};

enum {
    PACKET_FIRST = 1,
    PACKET_LAST = 2,
    PACKET_IMMEDIATE = 4,
    PACKET_SOLICITED = 8,
    /* DC: the payload begins with the access key; the sender is a DC initiator */
    PACKET_DC = 16,
    /* DC, not over RoCE: opens a connection; the responder discards the previous state */
    PACKET_OPENS = 32,
    PACKET_INVALIDATE = 64, /* `immediate` is a key of the responder, to be invalidated */
    PACKET_MAX_PAYLOAD = 4096 + 8,
};

struct packet {
    uint32_t bytes; /* bytes of payload after the header; a packet is rounded up to 8 bytes */
    uint8_t kind, flags;
    uint16_t mtu; /* READ: payload bytes of each response packet */
    uint32_t to_qpn, from_qpn;
    /* A read uses as many PSNs as its response has packets; each of those has its own PSN. */
    uint32_t psn;
    uint32_t length;    /* FIRST: bytes of the message; RNR NAK: timer code */
    uint32_t rkey;      /* FIRST */
    uint32_t immediate; /* NAK: syndrome; ATOMIC: bytes, and bit 8: compare and swap */
    /* Responses: message sequence number of the responder. DC requests over RoCE: PSN of the first
     * packet of the connection. */
    uint32_t msn;
    uint32_t connection; /* DC requests over RoCE: number of the connection; else 0 */
    uint64_t address;    /* FIRST */
};

/* Values of `immediate` of a NAK besides completion syndromes. */
enum {
    NAK_PSN_SEQUENCE = 0xfe, /* PSN sequence error: the response's PSN is the expected one */
    NAK_RNR = 0xff,          /* receiver not ready: no receive WQE is posted */
};

struct ring_shared {
    _Alignas(
        64) uint64_t tail; /* bytes produced; released by the producer, acquired by the consumer */
    /* bytes consumed; released by the consumer, acquired by the producer */
    _Alignas(64) uint64_t head;
    _Alignas(64) uint8_t data[];
};

/* One side's view of a ring. `other` is the last value read of the other side's counter. */
struct ring {
    struct ring_shared *shared;
    uint64_t size, own, other;
};

static inline uint64_t packet_size(const struct packet *p)
{
    return sizeof *p + (((uint64_t)p->bytes + 7) & ~UINT64_C(7));
}

/* ring_reserve: returns contiguous space for a packet with that payload, or NULL. */
static inline struct packet *ring_reserve(struct ring *r, uint32_t payload)
{
    uint64_t need = sizeof(struct packet) + (((uint64_t)payload + 7) & ~UINT64_C(7));
    uint64_t at = r->own & (r->size - 1), rest = r->size - at;
    uint64_t take = need <= rest ? need : rest + need;
    if (r->own + take - r->other > r->size) {
        r->other = __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE);
        if (r->own + take - r->other > r->size)
            return NULL;
    }
    if (need > rest) {
        /* At least 8 bytes remain; only `bytes` and `kind` of a pad are read. */
        struct packet *pad = (struct packet *)(r->shared->data + at);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a shared mapping */
        pad->bytes = (uint32_t)rest;
        pad->kind = PACKET_PAD;
        r->own += rest;
        at = 0;
    }
    return (struct packet *)(r->shared->data + at);
}

static inline void ring_commit(struct ring *r, const struct packet *p)
{
    r->own += packet_size(p);
}

/* ring_publish: lets the other side read the committed packets. */
static inline void ring_publish(struct ring *r)
{
    __atomic_store_n(&r->shared->tail, r->own, __ATOMIC_RELEASE);
}

/* ring_peek: returns the next packet, or NULL. *broken is set if the data are not a valid
 * packet. */
static inline const struct packet *ring_peek(struct ring *r, bool *broken)
{
    for (;;) {
        if (r->own == r->other) {
            r->other = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
            if (r->own == r->other)
                return NULL;
        }
        uint64_t at = r->own & (r->size - 1);
        const struct packet *p = (const struct packet *)(r->shared->data + at);
        if (p->kind == PACKET_PAD) {
            r->own += r->size - at;
            continue;
        }
        if (r->size - at < sizeof *p || p->bytes > PACKET_MAX_PAYLOAD ||
            packet_size(p) > r->size - at || r->other - r->own > r->size) {
            *broken = true;
            return NULL;
        }
        return p;
    }
}

static inline void ring_consume(struct ring *r, const struct packet *p)
{
    r->own += packet_size(p);
}

/* ring_release: lets the producer overwrite the consumed packets. */
static inline void ring_release(struct ring *r)
{
    __atomic_store_n(&r->shared->head, r->own, __ATOMIC_RELEASE);
}

#endif

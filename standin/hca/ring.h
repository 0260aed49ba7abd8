/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between the HCAs of two processes: their form, and a ring of them in memory that both
 * map, with one producer and one consumer. Says nothing of what a packet does. */
#ifndef WEFT_HCA_RING_H
#define WEFT_HCA_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_kind {
    PACKET_PAD, /* the rest of the ring up to its end */
    PACKET_SEND,
    PACKET_WRITE,
    PACKET_READ,
    PACKET_ATOMIC,
    PACKET_ACK,
    PACKET_NAK,
    PACKET_READ_DATA,
    PACKET_ATOMIC_VALUE,
    PACKET_WRITES,      /* `length` short ones (burst.c), of consecutive numbers */
    PACKET_INVALID,     /* a request that no responder knows */
    PACKET_PROBE,       /* RoCE: is the other end an HCA of this kind? */
    PACKET_PROBE_REPLY, /* it is */
};

enum {
    PACKET_FIRST = 1,
    PACKET_LAST = 2,
    PACKET_IMMEDIATE = 4,
    PACKET_SOLICITED = 8,
    PACKET_DC = 16,         /* begins with the access key; the sender is a DC initiator */
    PACKET_OPENS = 32,      /* of DC: forget what came from this initiator before */
    PACKET_INVALIDATE = 64, /* `immediate` is a key of the responder that ends with the message */
    PACKET_MAX_PAYLOAD = 4096 + 8,
};

struct packet {
    uint32_t bytes; /* of payload behind the header; the whole is rounded up to 8 */
    uint8_t kind, flags;
    uint16_t mtu; /* of READ: bytes that each packet of the answer is to bring */
    uint32_t to_qpn, from_qpn;
    /* A read takes as many numbers as its answer has packets; each of those has its own. */
    uint32_t psn;
    uint32_t
        length;    /* FIRST: of the whole message; of NAK for want of a receive: the timer's code */
    uint32_t rkey; /* FIRST */
    uint32_t immediate; /* of NAK: why; of ATOMIC: bytes, and bit 8: compare and swap */
    uint32_t msn;       /* of answers: how many messages are complete at the responder */
    uint64_t address;   /* FIRST */
};

/* Why: a syndrome of a completion, or one of these. */
enum {
    NAK_PSN_SEQUENCE = 0xfe, /* another packet is expected: the one that the answer names */
    NAK_RNR = 0xff,          /* there is no receive */
};

struct ring_shared {
    _Alignas(
        64) uint64_t tail; /* bytes produced; release by the producer, acquire by the consumer */
    _Alignas(64) uint64_t head; /* bytes consumed; the other way round */
    _Alignas(64) uint8_t data[];
};

/* One side's view. `other` is the last that was seen of the other's counter. */
struct ring {
    struct ring_shared *shared;
    uint64_t size, own, other;
};

static inline uint64_t packet_size(const struct packet *p)
{
    return sizeof *p + (((uint64_t)p->bytes + 7) & ~UINT64_C(7));
}

/* ring_reserve: room for a packet of so much payload, contiguous, or NULL. */
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
        /* Eight bytes are always there; kind and rest are all that is read of it. */
        struct packet *pad = (struct packet *)(r->shared->data + at);
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

/* ring_publish: what was committed may be read by the other side. */
static inline void ring_publish(struct ring *r)
{
    __atomic_store_n(&r->shared->tail, r->own, __ATOMIC_RELEASE);
}

/* ring_peek: the next packet, or NULL. *broken is set when what lies there cannot be one. */
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

static inline void ring_take(struct ring *r, const struct packet *p)
{
    r->own += packet_size(p);
}

/* ring_release: what was taken may be overwritten by the producer. */
static inline void ring_release(struct ring *r)
{
    __atomic_store_n(&r->shared->head, r->own, __ATOMIC_RELEASE);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Format of a work queue element (WQE): decodes a contiguous copy. Knows nothing of queues, keys or
 * memory, calls no function of the C library and follows no pointer except its argument, so that
 * the same text compiles for a CPU and for a GPU. Formats are those of infiniband/mlx5dv.h. */
#ifndef WEFT_HCA_WQE_H
#define WEFT_HCA_WQE_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(__CUDA__)
#define WQE_INLINE static inline __host__ __device__
#else
#define WQE_INLINE static inline
#endif

enum {
    WQE_BLOCK_BYTES = 64,
    WQE_UNIT_BYTES = 16,
    WQE_MAX_UNITS = 63, /* the field has 6 bits */
    WQE_MAX_BLOCKS = 16,
};
#define WQE_MAX_MESSAGE (UINT64_C(1) << 31)

enum wqe_opcode {
    WQE_NOP = 0x00,
    WQE_SEND_INVALIDATE = 0x01,
    WQE_WRITE = 0x08,
    WQE_WRITE_IMM = 0x09,
    WQE_SEND = 0x0a,
    WQE_SEND_IMM = 0x0b,
    WQE_READ = 0x10,
    WQE_COMPARE_SWAP = 0x11,
    WQE_FETCH_ADD = 0x12,
    WQE_MASKED_COMPARE_SWAP = 0x14,
    WQE_MASKED_FETCH_ADD = 0x15,
    WQE_DUMP = 0x23,
};

/* Syndromes of an error completion. */
enum {
    SYNDROME_NONE = 0x00,
    SYNDROME_LOCAL_LENGTH = 0x01,
    SYNDROME_LOCAL_QP_OPERATION = 0x02,
    SYNDROME_LOCAL_PROTECTION = 0x04,
    SYNDROME_FLUSHED = 0x05,
    SYNDROME_BAD_RESPONSE = 0x10,
    SYNDROME_LOCAL_ACCESS = 0x11,
    SYNDROME_REMOTE_INVALID_REQUEST = 0x12,
    SYNDROME_REMOTE_ACCESS = 0x13,
    SYNDROME_REMOTE_OPERATION = 0x14,
    SYNDROME_RETRY_EXCEEDED = 0x15,
    SYNDROME_RNR_EXCEEDED = 0x16,
};

/* An atomic operation in one form for all kinds: the operand's bits are added to the value, or
 * replace its bits. */
struct wqe_atomic {
    bool compare_swap; /* else fetch-add */
    uint8_t bytes;     /* 4 or 8 */
    uint64_t operand, operand_mask;
    uint64_t compare, compare_mask;
};

struct wqe_address {
    bool present, full; /* full: 48 bytes with a GID, otherwise 16 bytes */
    uint32_t dctn;
    uint16_t source_port; /* of UDP, in place of the LID */
    uint64_t key;
    uint16_t lid;
    uint8_t gid[16];
};

struct wqe {
    uint8_t opcode, modifier, units, blocks;
    uint8_t fence;    /* 0..7, bits 7:5 of the control segment */
    uint8_t complete; /* 2: completion, 3: completion with event, 0: completion only on error */
    bool solicited;
    uint8_t data; /* first 16-byte unit of the data segments */
    uint16_t index;
    uint32_t qpn;
    uint32_t immediate; /* byte order as in memory */
    uint32_t rkey;
    uint64_t remote;
    uint64_t length; /* bytes of all data segments */
    struct wqe_atomic atomic;
    struct wqe_address address;
};

struct wqe_segment {
    bool is_inline;
    uint32_t bytes; /* up to 2^31 */
    uint32_t lkey;
    uint64_t address; /* inline: byte offset in the WQE */
};

WQE_INLINE uint32_t wqe_u32(const uint32_t *w, unsigned i)
{
    uint32_t v = w[i];
    return v << 24 | (v << 8 & 0xff0000) | (v >> 8 & 0xff00) | v >> 24;
}

WQE_INLINE uint64_t wqe_u64(const uint32_t *w, unsigned i)
{
    return (uint64_t)wqe_u32(w, i) << 32 | wqe_u32(w, i + 1);
}

WQE_INLINE unsigned wqe_blocks(unsigned units)
{
    return (units + 3) / 4;
}

/* wqe_segment_next: reads the data segment at unit *at of a WQE of that many units. False after the
 * last one, or if it does not fit; *fits distinguishes the two. */
WQE_INLINE bool wqe_segment_next(const uint32_t *w, unsigned units, unsigned *at,
                                 struct wqe_segment *out, bool *fits)
{
    *fits = true;
    if (*at >= units)
        return false;
    uint32_t count = wqe_u32(w, *at * 4);
    out->is_inline = count >> 31;
    if (!out->is_inline) {
        out->bytes = count ? count : UINT32_C(1) << 31;
        out->lkey = wqe_u32(w, *at * 4 + 1);
        out->address = wqe_u64(w, *at * 4 + 2);
        *at += 1;
        return true;
    }
    out->bytes = count & 0x3ff;
    out->lkey = 0;
    out->address = *at * WQE_UNIT_BYTES + 4;
    unsigned next = *at + (4 + out->bytes + WQE_UNIT_BYTES - 1) / WQE_UNIT_BYTES;
    *fits = next <= units && !(count & 0x7ffffc00);
    *at = next;
    return *fits;
}

WQE_INLINE uint8_t wqe_sum_segments(const uint32_t *w, struct wqe *out)
{
    struct wqe_segment s;
    bool fits;
    unsigned at = out->data;
    out->length = 0;
    while (wqe_segment_next(w, out->units, &at, &s, &fits))
        out->length += s.bytes;
    if (!fits)
        return SYNDROME_LOCAL_QP_OPERATION;
    return out->length > WQE_MAX_MESSAGE ? SYNDROME_LOCAL_LENGTH : SYNDROME_NONE;
}

/* Decodes the operands, which follow the remote address at unit `at`. Returns the units used, 0 for
 * an invalid form. */
WQE_INLINE unsigned wqe_atomic_decode(const uint32_t *w, unsigned at, unsigned units,
                                      const struct wqe *r, struct wqe_atomic *a)
{
    bool masked = r->opcode == WQE_MASKED_COMPARE_SWAP || r->opcode == WQE_MASKED_FETCH_ADD;
    unsigned i = at * 4;
    a->compare_swap = r->opcode == WQE_COMPARE_SWAP || r->opcode == WQE_MASKED_COMPARE_SWAP;
    a->bytes = masked && r->modifier == 0x08 ? 4 : 8;
    if (masked && r->modifier != 0x08 && r->modifier != 0x09)
        return 0;
    if (at >= units)
        return 0;
    if (a->bytes == 4) {
        a->operand = wqe_u32(w, i);
        a->compare = a->compare_swap ? wqe_u32(w, i + 1) : 0;
        a->operand_mask = wqe_u32(w, i + (a->compare_swap ? 2 : 1));
        a->compare_mask = a->compare_swap ? wqe_u32(w, i + 3) : 0;
        return 1;
    }
    a->operand = wqe_u64(w, i);
    a->compare = a->compare_swap ? wqe_u64(w, i + 2) : 0;
    a->operand_mask = a->compare_swap ? ~UINT64_C(0) : masked ? wqe_u64(w, i + 2) : 0;
    a->compare_mask = ~UINT64_C(0);
    if (!masked || !a->compare_swap)
        return 1;
    if (at + 1 >= units)
        return 0;
    a->operand_mask = wqe_u64(w, i + 4);
    a->compare_mask = wqe_u64(w, i + 6);
    return 2;
}

/* wqe_atomic_apply: returns the new value. The mask of a fetch-add marks the last bit of each field
 * that is added separately: no carry leaves a marked bit. */
WQE_INLINE uint64_t wqe_atomic_apply(const struct wqe_atomic *a, uint64_t v)
{
    uint64_t m = a->operand_mask;
    if (a->compare_swap)
        return (v ^ a->compare) & a->compare_mask ? v : (v & ~m) | (a->operand & m);
    uint64_t s = (v & ~m) + (a->operand & ~m);
    return s ^ ((v ^ a->operand) & m);
}

WQE_INLINE unsigned wqe_address_decode(const uint32_t *w, unsigned at, unsigned units,
                                       struct wqe_address *a)
{
    a->present = true;
    if (at >= units)
        return 0;
    a->key = wqe_u64(w, at * 4);
    uint32_t number = wqe_u32(w, at * 4 + 2);
    a->full = number >> 31;
    a->dctn = number & 0xffffff;
    a->lid = wqe_u32(w, at * 4 + 3) & 0xffff;
    a->source_port = (uint16_t)a->lid;
    if (!a->full)
        return 1;
    if (at + 3 > units)
        return 0;
    for (unsigned i = 0; i < 16; i++)
        a->gid[i] = (uint8_t)(wqe_u32(w, at * 4 + 8 + i / 4) >> (24 - i % 4 * 8));
    return 3;
}

/* wqe_control: decodes the control segment only. */
WQE_INLINE void wqe_control(const uint32_t *w, struct wqe *out)
{
    uint32_t first = wqe_u32(w, 0), second = wqe_u32(w, 1), third = wqe_u32(w, 2);
    out->opcode = first & 0xff;
    out->index = first >> 8 & 0xffff;
    out->modifier = (uint8_t)(first >> 24);
    out->qpn = second >> 8;
    out->units = second & 0x3f;
    out->blocks = (uint8_t)wqe_blocks(out->units);
    out->fence = third >> 5 & 7;
    out->complete = third >> 2 & 3;
    out->solicited = third >> 1 & 1;
    out->immediate = w[3];
}

WQE_INLINE bool wqe_is_atomic(uint8_t opcode)
{
    return opcode == WQE_COMPARE_SWAP || opcode == WQE_FETCH_ADD ||
           opcode == WQE_MASKED_COMPARE_SWAP || opcode == WQE_MASKED_FETCH_ADD;
}

WQE_INLINE bool wqe_is_local(uint8_t opcode)
{
    return opcode == WQE_NOP || opcode == WQE_DUMP;
}

/* wqe_decode: decodes a contiguous copy of a WQE, of which out->units units are present and whose
 * control segment wqe_control() has decoded. dc: the QP is a DC initiator, whose WQEs contain an
 * address. Returns a syndrome. */
WQE_INLINE uint8_t wqe_decode(const uint32_t *w, bool dc, struct wqe *out)
{
    unsigned at = 1, taken;
    out->address.present = false;
    out->length = 0;
    if (out->units < 1)
        return SYNDROME_LOCAL_QP_OPERATION;
    out->data = out->units;
    if (out->opcode == WQE_NOP)
        return SYNDROME_NONE;
    if (dc && out->opcode != WQE_DUMP) {
        taken = wqe_address_decode(w, at, out->units, &out->address);
        if (!taken)
            return SYNDROME_LOCAL_QP_OPERATION;
        at += taken;
    }
    switch (out->opcode) {
    case WQE_SEND:
    case WQE_SEND_IMM:
    case WQE_SEND_INVALIDATE:
    case WQE_DUMP:
        break;
    case WQE_WRITE:
    case WQE_WRITE_IMM:
    case WQE_READ:
    case WQE_COMPARE_SWAP:
    case WQE_FETCH_ADD:
    case WQE_MASKED_COMPARE_SWAP:
    case WQE_MASKED_FETCH_ADD:
        if (at >= out->units)
            return SYNDROME_LOCAL_QP_OPERATION;
        out->remote = wqe_u64(w, at * 4);
        out->rkey = wqe_u32(w, at * 4 + 2);
        at++;
        break;
    default:
        return SYNDROME_LOCAL_QP_OPERATION;
    }
    if (wqe_is_atomic(out->opcode)) {
        taken = wqe_atomic_decode(w, at, out->units, out, &out->atomic);
        if (!taken)
            return SYNDROME_LOCAL_QP_OPERATION;
        at += taken;
    }
    out->data = (uint8_t)at;
    uint8_t syndrome = wqe_sum_segments(w, out);
    if (syndrome)
        return syndrome;
    if (wqe_is_atomic(out->opcode) && out->length != out->atomic.bytes)
        return SYNDROME_LOCAL_LENGTH;
    return SYNDROME_NONE;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Work queue entries (WQEs) of an mlx5 send queue, composed in registers and stored into the
 * queue's ring. Device code and the host use the same text, so that a request has the same bytes
 * from both. Formats and names of fields are those of <infiniband/mlx5dv.h>. Knows nothing of PEs
 * and of how a request is published (gda_queue.h).
 *
 * A ring consists of blocks of 64 bytes, a request of segments of 16 bytes. A request begins at a
 * block and may wrap around the ring's end. Its first two segments are the control segment and the
 * remote address. */
#ifndef WEFT_DEVICE_GDA_WQE_H
#define WEFT_DEVICE_GDA_WQE_H

#include <weft/device/simt.h>
#include <weft/device/state.h>

enum weft_dev_gda_opcode {
    WEFT_DEV_GDA_NOP = 0,
    WEFT_DEV_GDA_WRITE = 0x08,
    WEFT_DEV_GDA_READ = 0x10,
    WEFT_DEV_GDA_CS = 0x11, /* compare and swap, 8 bytes */
    WEFT_DEV_GDA_FA = 0x12, /* fetch and add, 8 bytes */
    WEFT_DEV_GDA_MASKED_CS = 0x14,
    WEFT_DEV_GDA_MASKED_FA = 0x15,
    WEFT_DEV_GDA_DUMP = 0x23, /* a read of own memory, which makes earlier writes there visible */
};

/* Modifier of the opcode of a masked atomic. */
enum weft_dev_gda_modifier { WEFT_DEV_GDA_4_BYTES = 0x08, WEFT_DEV_GDA_8_BYTES = 0x09 };

enum weft_dev_gda_flag {
    WEFT_DEV_GDA_SIGNALED = 2 << 2, /* write a completion; without it, only for an error */
    WEFT_DEV_GDA_FENCED = 2 << 5,   /* begin when all earlier reads and atomics are complete */
    WEFT_DEV_GDA_ORDERED = 3 << 5,  /* strong ordering: begin when all earlier requests are
                                       complete */
};

enum {
    WEFT_DEV_GDA_BLOCK = 64,
    WEFT_DEV_GDA_SEGMENT = 16,
    WEFT_DEV_GDA_INLINE_AT = 36, /* offset of the data in an inline write */
    /* bytes of data in an inline write of one block */
    WEFT_DEV_GDA_INLINE_ONE = WEFT_DEV_GDA_BLOCK - WEFT_DEV_GDA_INLINE_AT,
    WEFT_DEV_GDA_INLINE_BLOCKS = 5, /* blocks of the longest inline write: 284 bytes of data */
    WEFT_DEV_GDA_INLINE_MOST =
        WEFT_DEV_GDA_INLINE_BLOCKS * WEFT_DEV_GDA_BLOCK - WEFT_DEV_GDA_INLINE_AT,
};

/* Addresses of the ring and of its doorbell: the constant part of a queue, made by
 * weft_dev_gda_ring_set(). Each group of 16 bytes takes one load. */
struct weft_dev_gda_ring {
    /* control segment of a signalled write of one block, without its index */
    uint32_t write[4];
    char *blocks;
    uint32_t last;      /* number of blocks - 1: 127 ... 32767, all bits 1 */
    uint32_t number_be; /* queue pair number << 8, in the NIC's byte order */
    uint32_t *record;   /* doorbell record of the send queue */
    uint64_t *doorbell; /* doorbell register of the NIC */
};

/* Address and key of remote or local memory; the key is in the byte order of requests, as in all
 * tables. */
struct weft_dev_gda_place {
    uint64_t address;
    uint32_t key;
};

/* Selects bytes of x (0 ... 3, lowest first) and y (4 ... 7); the lowest hex digit of `which`
 * selects the lowest byte. */
WEFT_DEV_BOTH uint32_t weft_dev_bytes_of(uint32_t x, uint32_t y, uint32_t which)
{
#if defined(__CUDA_ARCH__)
    return __byte_perm(x, y,
                       which); /* one instruction, which the compiler does not find by itself */
#else
    uint64_t both = x | (uint64_t)y << 32;
    return (uint32_t)(both >> 8 * (which & 7) & 0xff) |
           (uint32_t)(both >> 8 * (which >> 4 & 7) & 0xff) << 8 |
           (uint32_t)(both >> 8 * (which >> 8 & 7) & 0xff) << 16 |
           (uint32_t)(both >> 8 * (which >> 12 & 7) & 0xff) << 24;
#endif
}

WEFT_DEV_BOTH uint32_t weft_dev_be32(uint32_t x)
{
#if defined(__CUDA_ARCH__)
    return weft_dev_bytes_of(x, 0, 0x0123);
#else
    return __builtin_bswap32(x);
#endif
}

WEFT_DEV_BOTH uint64_t weft_dev_be64(uint64_t x)
{
    return (uint64_t)weft_dev_be32((uint32_t)x) << 32 | weft_dev_be32((uint32_t)(x >> 32));
}

WEFT_DEV_BOTH struct weft_dev_vec16 weft_dev_gda_words(uint32_t a, uint32_t b, uint32_t c,
                                                       uint32_t d)
{
    struct weft_dev_vec16 v;
    v.lo = a | (uint64_t)b << 32;
    v.hi = c | (uint64_t)d << 32;
    return v;
}

WEFT_DEV_BOTH void weft_dev_gda_ring_set(struct weft_dev_gda_ring *ring, char *blocks,
                                         uint32_t depth, uint32_t number)
{
    ring->blocks = blocks;
    ring->last = depth - 1;
    ring->number_be = weft_dev_be32(number << 8);
    ring->write[0] = (uint32_t)WEFT_DEV_GDA_WRITE << 24;
    ring->write[1] = ring->number_be | 3u << 24;
    ring->write[2] = (uint32_t)WEFT_DEV_GDA_SIGNALED << 24;
    ring->write[3] = 0;
}

/* ---------------------------------------------------------------------------------- segments */

/* `segments`: number of segments of the whole request. */
WEFT_DEV_BOTH struct weft_dev_vec16 weft_dev_gda_control(const struct weft_dev_gda_ring *ring,
                                                         uint64_t index, uint32_t opcode,
                                                         uint32_t modifier, uint32_t segments,
                                                         uint32_t flags)
{
    /* modifier, 16 bits of the index and opcode, in big-endian order */
    return weft_dev_gda_words(weft_dev_bytes_of((uint32_t)index, 0, 0x4014) | opcode << 24 |
                                  modifier,
                              ring->number_be | segments << 24, flags << 24, 0);
}

/* Control segment of a signalled write with three segments. */
WEFT_DEV_BOTH struct weft_dev_vec16 weft_dev_gda_write_control(const struct weft_dev_gda_ring *ring,
                                                               uint64_t index)
{
    return weft_dev_gda_words(weft_dev_bytes_of((uint32_t)index, ring->write[0], 0x7014),
                              ring->write[1], ring->write[2], ring->write[3]);
}

WEFT_DEV_BOTH struct weft_dev_vec16 weft_dev_gda_remote(struct weft_dev_gda_place at)
{
    struct weft_dev_vec16 v;
    v.lo = weft_dev_be64(at.address);
    v.hi = at.key;
    return v;
}

/* Data segment for registered memory of 1 ... 2^31 - 1 bytes. */
WEFT_DEV_BOTH struct weft_dev_vec16 weft_dev_gda_local(struct weft_dev_gda_place at, uint32_t bytes)
{
    struct weft_dev_vec16 v;
    v.lo = weft_dev_be32(bytes) | (uint64_t)at.key << 32;
    v.hi = weft_dev_be64(at.address);
    return v;
}

/* The segment with the length of inline data (at most 255 bytes) and its first 8 bytes. */
WEFT_DEV_BOTH struct weft_dev_vec16 weft_dev_gda_inline(uint32_t bytes, uint64_t first)
{
    return weft_dev_gda_words(bytes << 24 | 0x80, (uint32_t)first, (uint32_t)(first >> 32), 0);
}

WEFT_DEV_BOTH struct weft_dev_vec16 weft_dev_gda_pair(uint64_t a, uint64_t b)
{
    struct weft_dev_vec16 v;
    v.lo = weft_dev_be64(a);
    v.hi = weft_dev_be64(b);
    return v;
}

/* ------------------------------------------------------------------------------------ storing */

WEFT_DEVICE char *weft_dev_gda_block(const struct weft_dev_gda_ring *ring, uint64_t index)
{
    return ring->blocks + (uint64_t)((uint32_t)index & ring->last) * WEFT_DEV_GDA_BLOCK;
}

WEFT_DEVICE char *weft_dev_gda_at(const struct weft_dev_gda_ring *ring, uint64_t index,
                                  uint64_t byte)
{
    return weft_dev_gda_block(ring, index + byte / WEFT_DEV_GDA_BLOCK) + byte % WEFT_DEV_GDA_BLOCK;
}

WEFT_DEVICE void weft_dev_gda_store(const struct weft_dev_gda_ring *ring, uint64_t index,
                                    unsigned segment, struct weft_dev_vec16 v)
{
    weft_dev_store_vec16(weft_dev_gda_at(ring, index, segment * WEFT_DEV_GDA_SEGMENT), v);
}

/* ------------------------------------------------------------------------------ whole requests
 *
 * Functions for requests of one block compute its address before they store. A store into the ring
 * could alias the ring's description, and the compiler would read that again for each segment. */

WEFT_DEVICE void weft_dev_gda_nop(const struct weft_dev_gda_ring *ring, uint64_t index,
                                  uint32_t flags)
{
    weft_dev_gda_store(ring, index, 0,
                       weft_dev_gda_control(ring, index, WEFT_DEV_GDA_NOP, 0, 1, flags));
}

/* RDMA WRITE from registered memory, or RDMA READ into it. */
WEFT_DEVICE void weft_dev_gda_move(const struct weft_dev_gda_ring *ring, uint64_t index,
                                   uint32_t opcode, struct weft_dev_gda_place remote,
                                   struct weft_dev_gda_place local, uint32_t bytes, uint32_t flags)
{
    char *at = weft_dev_gda_block(ring, index);
    const struct weft_dev_vec16 control = weft_dev_gda_control(ring, index, opcode, 0, 3, flags);
    weft_dev_store_vec16(at, control);
    weft_dev_store_vec16(at + WEFT_DEV_GDA_SEGMENT, weft_dev_gda_remote(remote));
    weft_dev_store_vec16(at + 2 * WEFT_DEV_GDA_SEGMENT, weft_dev_gda_local(local, bytes));
}

/* A read of own registered memory without a destination: data written there before it are then
 * visible. */
WEFT_DEVICE void weft_dev_gda_dump(const struct weft_dev_gda_ring *ring, uint64_t index,
                                   struct weft_dev_gda_place local, uint32_t bytes, uint32_t flags)
{
    char *at = weft_dev_gda_block(ring, index);
    weft_dev_store_vec16(at, weft_dev_gda_control(ring, index, WEFT_DEV_GDA_DUMP, 0, 2, flags));
    weft_dev_store_vec16(at + WEFT_DEV_GDA_SEGMENT, weft_dev_gda_local(local, bytes));
}

/* Number of segments of an inline write. */
WEFT_DEV_BOTH uint32_t weft_dev_gda_inline_segments(uint32_t bytes)
{
    return (WEFT_DEV_GDA_INLINE_AT + bytes + WEFT_DEV_GDA_SEGMENT - 1) / WEFT_DEV_GDA_SEGMENT;
}

/* Number of blocks of an inline write. */
WEFT_DEV_BOTH uint32_t weft_dev_gda_inline_blocks(uint32_t bytes)
{
    return (WEFT_DEV_GDA_INLINE_AT + bytes + WEFT_DEV_GDA_BLOCK - 1) / WEFT_DEV_GDA_BLOCK;
}

/* An inline write without its data, which begin at offset WEFT_DEV_GDA_INLINE_AT. */
WEFT_DEVICE void weft_dev_gda_inline_head(const struct weft_dev_gda_ring *ring, uint64_t index,
                                          struct weft_dev_gda_place remote, uint32_t bytes,
                                          uint32_t flags)
{
    weft_dev_gda_store(ring, index, 0,
                       weft_dev_gda_control(ring, index, WEFT_DEV_GDA_WRITE, 0,
                                            weft_dev_gda_inline_segments(bytes), flags));
    weft_dev_gda_store(ring, index, 1, weft_dev_gda_remote(remote));
    *(weft_dev_any_u32 *)(void *)weft_dev_gda_at(ring, index, 32) =
        weft_dev_be32(bytes | 0x80000000u);
}

/* A signalled inline write of up to 8 bytes, with additional flags. */
WEFT_DEVICE void weft_dev_gda_value(const struct weft_dev_gda_ring *ring, uint64_t index,
                                    struct weft_dev_gda_place remote, uint64_t value,
                                    uint32_t bytes, uint32_t flags)
{
    char *at = weft_dev_gda_block(ring, index);
    struct weft_dev_vec16 control = weft_dev_gda_write_control(ring, index);
    control.hi |= flags << 24;
    weft_dev_store_vec16(at, control);
    weft_dev_store_vec16(at + WEFT_DEV_GDA_SEGMENT, weft_dev_gda_remote(remote));
    weft_dev_store_vec16(at + 2 * WEFT_DEV_GDA_SEGMENT, weft_dev_gda_inline(bytes, value));
}

/* Atomics on one word: the previous value goes to `local`, in big-endian order for 4 bytes, in the
 * host's byte order for 8 bytes. */
enum weft_dev_gda_atomic {
    WEFT_DEV_GDA_ADD,
    WEFT_DEV_GDA_XOR,
    WEFT_DEV_GDA_AND,
    WEFT_DEV_GDA_OR,
    WEFT_DEV_GDA_SWAP,
    WEFT_DEV_GDA_CSWAP
};

/* Number of blocks of an atomic: 8-byte masked swaps take two, all others one. */
WEFT_DEV_BOTH uint32_t weft_dev_gda_atomic_blocks(int what, unsigned width)
{
    return width == 8 && (what == WEFT_DEV_GDA_AND || what == WEFT_DEV_GDA_OR ||
                          what == WEFT_DEV_GDA_SWAP)
               ? 2
               : 1;
}

/* 4 bytes: always a masked atomic; an addition carries over every bit that is not a boundary
 * bit. */
WEFT_DEVICE void weft_dev_gda_atomic4(const struct weft_dev_gda_ring *ring, uint64_t index,
                                      int what, struct weft_dev_gda_place remote,
                                      struct weft_dev_gda_place local, uint32_t value,
                                      uint32_t expected, uint32_t flags)
{
    int adds = what == WEFT_DEV_GDA_ADD || what == WEFT_DEV_GDA_XOR;
    uint32_t swap_mask = what == WEFT_DEV_GDA_AND  ? ~value
                         : what == WEFT_DEV_GDA_OR ? value
                                                   : 0xffffffffu;
    uint32_t compare_mask = what == WEFT_DEV_GDA_CSWAP ? 0xffffffffu : 0;
    weft_dev_gda_store(ring, index, 0,
                       weft_dev_gda_control(ring, index,
                                            adds ? WEFT_DEV_GDA_MASKED_FA : WEFT_DEV_GDA_MASKED_CS,
                                            WEFT_DEV_GDA_4_BYTES, 4, flags));
    weft_dev_gda_store(ring, index, 1, weft_dev_gda_remote(remote));
    weft_dev_gda_store(ring, index, 2,
                       adds ? weft_dev_gda_words(weft_dev_be32(value),
                                                 what == WEFT_DEV_GDA_XOR ? 0xffffffffu : 0, 0, 0)
                            : weft_dev_gda_words(weft_dev_be32(value),
                                                 weft_dev_be32(expected & compare_mask),
                                                 weft_dev_be32(swap_mask), compare_mask));
    weft_dev_gda_store(ring, index, 3, weft_dev_gda_local(local, 4));
}

/* 8 bytes: a plain atomic where the operation has one. */
WEFT_DEVICE void weft_dev_gda_atomic8(const struct weft_dev_gda_ring *ring, uint64_t index,
                                      int what, struct weft_dev_gda_place remote,
                                      struct weft_dev_gda_place local, uint64_t value,
                                      uint64_t expected, uint32_t flags)
{
    int two = weft_dev_gda_atomic_blocks(what, 8) == 2;
    uint32_t opcode = what == WEFT_DEV_GDA_ADD     ? WEFT_DEV_GDA_FA
                      : what == WEFT_DEV_GDA_CSWAP ? WEFT_DEV_GDA_CS
                      : what == WEFT_DEV_GDA_XOR   ? WEFT_DEV_GDA_MASKED_FA
                                                   : WEFT_DEV_GDA_MASKED_CS;
    uint32_t modifier =
        opcode == WEFT_DEV_GDA_FA || opcode == WEFT_DEV_GDA_CS ? 0 : WEFT_DEV_GDA_8_BYTES;
    uint64_t second = what == WEFT_DEV_GDA_CSWAP ? expected
                      : what == WEFT_DEV_GDA_XOR ? ~(uint64_t)0
                                                 : 0;
    uint64_t swap_mask = what == WEFT_DEV_GDA_AND  ? ~value
                         : what == WEFT_DEV_GDA_OR ? value
                                                   : ~(uint64_t)0;
    weft_dev_gda_store(ring, index, 0,
                       weft_dev_gda_control(ring, index, opcode, modifier, two ? 5 : 4, flags));
    weft_dev_gda_store(ring, index, 1, weft_dev_gda_remote(remote));
    weft_dev_gda_store(ring, index, 2, weft_dev_gda_pair(value, second));
    if (two)
        weft_dev_gda_store(ring, index, 3, weft_dev_gda_pair(swap_mask, 0));
    weft_dev_gda_store(ring, index, two ? 4 : 3, weft_dev_gda_local(local, 8));
}

#endif

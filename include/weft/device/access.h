/* SPDX-License-Identifier: Apache-2.0 */
/* Translates a symmetric address and a PE number to a direct address, in a few instructions;
 * defines scopes; writes fault records. Every operation starts here. remote.h handles PEs without a
 * direct address. */
#ifndef WEFT_DEVICE_ACCESS_H
#define WEFT_DEVICE_ACCESS_H

#include <weft/device/unit.h>

/* ----------------------------------------------------------------------------------- scopes
 *
 * Operations exist in three scopes. The name tells which threads call together, with the same
 * arguments:
 *   weft_thread_NAME   one thread
 *   weft_warp_NAME     all threads of the calling warp
 *   weft_block_NAME    all threads of the block
 */
#define WEFT_DEV_THREAD 0
#define WEFT_DEV_WARP   1
#define WEFT_DEV_BLOCK  2

/* X(scope, constant) */
#define WEFT_DEV_SCOPE_LIST(X)                                                                     \
    X(thread, WEFT_DEV_THREAD)                                                                     \
    X(warp, WEFT_DEV_WARP)                                                                         \
    X(block, WEFT_DEV_BLOCK)

/* Number of threads in the calling warp: fewer than WEFT_WARP_LANES in the last warp of an uneven
 * block. */
WEFT_DEVICE unsigned weft_dev_warp_threads(void)
{
    unsigned left = weft_dev_block_threads() - weft_dev_warp() * WEFT_WARP_LANES;
    return left < WEFT_WARP_LANES ? left : WEFT_WARP_LANES;
}

WEFT_DEVICE weft_lane_mask weft_dev_warp_mask(void)
{
    return WEFT_FULL_MASK >> (WEFT_WARP_LANES - weft_dev_warp_threads());
}

WEFT_DEVICE unsigned weft_dev_scope_rank(int scope)
{
    return scope == WEFT_DEV_THREAD ? 0
           : scope == WEFT_DEV_WARP ? weft_dev_lane()
                                    : weft_dev_thread_rank();
}

WEFT_DEVICE unsigned weft_dev_scope_threads(int scope)
{
    return scope == WEFT_DEV_THREAD ? 1
           : scope == WEFT_DEV_WARP ? weft_dev_warp_threads()
                                    : weft_dev_block_threads();
}

/* Barrier of all threads of the scope, which also orders their memory accesses among them. */
WEFT_DEVICE void weft_dev_scope_sync(int scope)
{
    if (scope == WEFT_DEV_WARP)
        weft_dev_sync_warp(weft_dev_warp_mask());
    else if (scope == WEFT_DEV_BLOCK)
        weft_dev_sync_block();
}

/* The same barrier; returns 1 when `pred` is true in any of the threads, else 0. */
WEFT_DEVICE int weft_dev_scope_any(int scope, int pred)
{
    if (scope == WEFT_DEV_WARP) {
        weft_lane_mask mask = weft_dev_warp_mask();
        int any = weft_dev_any(mask, pred);
        weft_dev_sync_warp(mask); /* a vote does not order memory */
        return any;
    }
    return scope == WEFT_DEV_BLOCK ? weft_dev_sync_block_or(pred) : pred != 0;
}

/* ---------------------------------------------------------------------------------- records */

/* Writes a record into the black box and returns 1 + its index, or 0 when there is no black box.
 * The black box may be host memory behind a bus without atomics, so a counter in device memory
 * assigns the index. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_record_write(struct weft_dev_record *from)
{
    struct weft_dev_box *box = weft_dev_state.box;
    enum { WORDS = sizeof(struct weft_dev_record) / 4 };
    if (!box)
        return 0;
    from->ticket =
        weft_dev_atomic_add_u64(weft_dev_state.tickets, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    from->block = weft_dev_block_rank();
    from->thread = weft_dev_thread_rank();
    struct weft_dev_record *record = &box->records[from->ticket % WEFT_DEV_RECORDS];
    weft_dev_store_u32(&record->state, WEFT_DEV_RECORD_FREE, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    WEFT_NO_UNROLL
    for (int i = 1; i < WORDS; i++) /* word 0 is the state */
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the record is read word by word */
        weft_dev_store_u32((weft_dev_any_u32 *)record + i, ((const weft_dev_any_u32 *)from)[i],
                           WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    /* Release: a reader that sees the state sees the other words. */
    weft_dev_store_u32(&record->state, from->state, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    return from->ticket + 1;
}

/* Passes the record in memory, not as arguments: a call with eleven arguments at the end of every
 * chain of calls would cost each kernel that many registers. */
WEFT_DEVICE uint64_t weft_dev_record(int state, int operation, int status, int peer, int team,
                                     const void *address, unsigned cmp, uint64_t expected,
                                     uint64_t seen, uint64_t waited_ns)
{
    struct weft_dev_record r;
    r.state = (uint32_t)state;
    r.operation = (uint32_t)operation;
    r.status = status;
    r.peer = peer;
    r.team = team;
    r.compare = cmp;
    r.address = (uintptr_t)address;
    r.expected = expected;
    r.seen = seen;
    r.waited_ns = waited_ns;
    return weft_dev_record_write(&r);
}

/* Makes the host's next call fail with `status`. The first status is kept. */
WEFT_DEVICE_NOINLINE void weft_dev_fail(int status)
{
    struct weft_dev_box *box = weft_dev_state.box;
    if (!box || weft_dev_load_u32((uint32_t *)&box->failed, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS))
        return;
    /* Release: pairs with the host's acquire, so the host sees the record too. */
    weft_dev_store_u32((uint32_t *)&box->failed, (uint32_t)status, WEFT_ORDER_RELEASE,
                       WEFT_SCOPE_SYS);
}

/* -------------------------------------------------------------------------------- addresses */

/* Address of PE pe's copy of a segment; 0: no direct address. */
WEFT_DEVICE uint64_t weft_dev_part(int segment, int pe)
{
    const struct weft_dev_segment *s = &weft_dev_state.segment[segment];
    if ((uint32_t)(pe - s->first) < s->count)
        return s->base + s->shift + (uint64_t)(uint32_t)pe * s->stride;
    return (uint32_t)pe < (uint32_t)weft_dev_state.n_pes && s->size
               ? weft_dev_state.peers[pe].part[segment]
               : 0;
}

/* Finds the segment of this PE that holds bytes [symmetric, symmetric + bytes), and the offset in
 * it. Returns WEFT_ERR_ADDRESS when no segment does, WEFT_ERR_RANGE when a segment holds only the
 * start. */
WEFT_DEVICE int weft_dev_find(const void *symmetric, size_t bytes, int *segment, uint64_t *offset)
{
    for (*segment = 0; *segment < WEFT_DEV_SEGMENTS; ++*segment) {
        const struct weft_dev_segment *s = &weft_dev_state.segment[*segment];
        *offset = (uintptr_t)symmetric - s->base;
        if (*offset < s->size)
            return bytes <= s->size - *offset ? WEFT_OK : WEFT_ERR_RANGE;
    }
    return WEFT_ERR_ADDRESS;
}

/* The lowest address of real memory: a lower one is a null pointer with an offset, which is a
 * fault. */
#define WEFT_DEV_LOWEST_ADDRESS 65536

/* Whether PE pe is this PE and the address is in no segment; the address is then used unchanged. A
 * program that communicates with itself needs no symmetric memory. */
WEFT_DEVICE int weft_dev_is_own(const void *address, int pe)
{
    return pe == weft_dev_state.me && weft_dev_state.version &&
           (uintptr_t)address >= WEFT_DEV_LOWEST_ADDRESS;
}

/* weft_dev_direct() for cases that weft_dev_in_window() does not cover: a segment other than the
 * first, a PE that is not mapped at an equal distance, and (unless `symmetric_only`) memory of this
 * PE that is not symmetric. NULL: none of these. */
WEFT_DEVICE_NOINLINE char *weft_dev_direct_slow(const void *symmetric, size_t bytes, int pe,
                                                int symmetric_only)
{
    int segment;
    uint64_t offset;
    int status = weft_dev_find(symmetric, bytes, &segment, &offset);
    if (status == WEFT_OK) {
        uint64_t part = weft_dev_part(segment, pe);
        return part ? (char *)(uintptr_t)(part + offset) : NULL;
    }
    int own = status == WEFT_ERR_ADDRESS && !symmetric_only && weft_dev_is_own(symmetric, pe);
    return own ? (char *)(uintptr_t)symmetric : NULL;
}

/* Whether weft_dev_window() can compute the address of `bytes` bytes at PE pe. */
WEFT_DEVICE int weft_dev_in_window(const void *symmetric, size_t bytes, int pe)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    uint64_t offset = (uintptr_t)symmetric - heap->base;
    return offset < heap->size && bytes <= heap->size - offset &&
           (uint32_t)(pe - heap->first) < heap->count;
}

/* The same for a variable of at most 8 bytes, aligned to its size: segments are multiples of a
 * page, so that the start alone decides. */
WEFT_DEVICE int weft_dev_word_in_window(const void *symmetric, int pe)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    return (uintptr_t)symmetric - heap->base < heap->size &&
           (uint32_t)(pe - heap->first) < heap->count;
}

/* Distance in bytes from an own address to its counterpart at PE pe, by arithmetic alone. */
WEFT_DEVICE uint64_t weft_dev_window_distance(int pe)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    return heap->shift + (uint64_t)(uint32_t)pe * heap->stride;
}

WEFT_DEVICE char *weft_dev_window(const void *symmetric, int pe)
{
    return (char *)((uintptr_t)symmetric + weft_dev_window_distance(pe));
}

/* For loops over addresses of one PE: the compiler compares the PE and computes the distance once,
 * before the loop. `allowed` (all_atomics for an atomic, else 1) is compared with the PE. */
WEFT_DEVICE int weft_dev_word_in_window_hoisted(const void *symmetric, int pe, uint32_t allowed)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    int reached = (uint32_t)(pe - heap->first) < heap->count && allowed;
    return (uintptr_t)symmetric - heap->base < weft_dev_opaque_u64(reached ? heap->size : 0);
}

WEFT_DEVICE char *weft_dev_window_hoisted(const void *symmetric, int pe)
{
    return (char *)((uintptr_t)symmetric + weft_dev_opaque_u64(weft_dev_window_distance(pe)));
}

/* Address at which this device loads and stores `bytes` bytes at `symmetric` of PE pe. NULL: there
 * is no direct address, and the operation goes to weft_dev_remote() (remote.h). */
WEFT_DEVICE char *weft_dev_direct(const void *symmetric, size_t bytes, int pe)
{
    if (WEFT_DEV_LIKELY(weft_dev_in_window(symmetric, bytes, pe)))
        return weft_dev_window_hoisted(symmetric, pe);
    return WEFT_DEV_CALL_SLOW(weft_dev_direct_slow, symmetric, bytes, pe, 0);
}

/* The same for a variable that weft_dev_word_in_window() allows. */
WEFT_DEVICE char *weft_dev_direct_word(const void *symmetric, int pe)
{
    if (WEFT_DEV_LIKELY(weft_dev_word_in_window(symmetric, pe)))
        return weft_dev_window(symmetric, pe);
    return WEFT_DEV_CALL_SLOW(weft_dev_direct_slow, symmetric, 1, pe, 0);
}

/* Whether the device's own atomics do not work on this variable at PE pe. Called where they do not
 * work at every PE. Only this PE reaches its memory outside the segments, so atomics work there. */
WEFT_DEVICE_NOINLINE int weft_dev_lacks_atomics(const void *symmetric, int pe)
{
    int segment;
    uint64_t offset;
    return !weft_dev_state.peers[pe].atomics &&
           weft_dev_find(symmetric, 1, &segment, &offset) == WEFT_OK;
}

/* weft_dev_direct_word() for atomics of the device; NULL where the link does not support them. */
WEFT_DEVICE char *weft_dev_direct_atomic(const void *symmetric, int pe)
{
    char *at = weft_dev_direct_word(symmetric, pe);
    return at && !weft_dev_state.all_atomics && weft_dev_lacks_atomics(symmetric, pe) ? NULL : at;
}

/* ------------------------------------------------------------------------------ the job */

/* PE number of the caller, and number of PEs in the job; 0 when no job runs. */
WEFT_DEVICE int weft_dev_my_pe(void)
{
    return weft_dev_state.me;
}

WEFT_DEVICE int weft_dev_n_pes(void)
{
    return weft_dev_state.n_pes;
}

/* Returns the address at which device code of this PE loads and stores `symmetric` of PE pe; NULL
 * when there is none. Writes no fault record. */
WEFT_DEVICE void *weft_dev_ptr(const void *symmetric, int pe)
{
    if (WEFT_DEV_LIKELY(weft_dev_word_in_window(symmetric, pe)))
        return weft_dev_window(symmetric, pe);
    return WEFT_DEV_CALL_SLOW(weft_dev_direct_slow, symmetric, 1, pe, 1);
}

#endif

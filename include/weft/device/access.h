/* SPDX-License-Identifier: Apache-2.0 */
/* From a symmetric address and a PE number to an address, in a few instructions; scopes; and what is
 * done when there is no such address. Every operation starts here. */
#ifndef WEFT_DEVICE_ACCESS_H
#define WEFT_DEVICE_ACCESS_H

#include <weft/device/unit.h>

#define WEFT_DEV_LIKELY(x) __builtin_expect(!!(x), 1)

/* ----------------------------------------------------------------------------------- scopes
 *
 * Operations exist in three scopes, named by who calls together, with the same arguments:
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

/* Lanes of the calling warp that exist: fewer than 32 in the last warp of an uneven block. */
WEFT_DEVICE unsigned weft_dev_warp_threads(void)
{
    unsigned left = weft_dev_block_threads() - weft_dev_warp() * WEFT_WARP_LANES;
    return left < WEFT_WARP_LANES ? left : WEFT_WARP_LANES;
}

WEFT_DEVICE uint32_t weft_dev_warp_mask(void)
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

/* All threads of the scope meet, and their memory is ordered among them. */
WEFT_DEVICE void weft_dev_scope_sync(int scope)
{
    if (scope == WEFT_DEV_WARP)
        weft_dev_sync_warp(weft_dev_warp_mask());
    else if (scope == WEFT_DEV_BLOCK)
        weft_dev_sync_block();
}

/* The same, and: did any of them have pred? */
WEFT_DEVICE int weft_dev_scope_any(int scope, int pred)
{
    if (scope == WEFT_DEV_WARP) {
        uint32_t mask = weft_dev_warp_mask();
        int any = weft_dev_any(mask, pred);
        weft_dev_sync_warp(mask); /* a vote does not order memory */
        return any;
    }
    return scope == WEFT_DEV_BLOCK ? weft_dev_sync_block_or(pred) : pred != 0;
}

/* ---------------------------------------------------------------------------------- records */

/* Writes a record into the black box and gives 1 + its number, 0 when there is no box. The box may be
 * host memory behind a bus without atomics, so the place is taken by a counter of the device's own. */
WEFT_DEVICE_NOINLINE uint64_t weft_dev_record(int state, int operation, int status, int peer,
                                              int team, const void *address, unsigned cmp,
                                              uint64_t expected, uint64_t seen, uint64_t waited_ns)
{
    struct weft_dev_box *box = weft_dev_state.box;
    if (!box)
        return 0;
    uint64_t ticket =
        weft_dev_atomic_add_u64(weft_dev_state.tickets, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    struct weft_dev_record *record = &box->records[ticket % WEFT_DEV_RECORDS];
#define WEFT_DEV_SET32(field, value)                                                               \
    weft_dev_store_u32((uint32_t *)&record->field, (uint32_t)(value), WEFT_ORDER_RELAXED,          \
                       WEFT_SCOPE_SYS)
#define WEFT_DEV_SET64(field, value)                                                               \
    weft_dev_store_u64(&record->field, (uint64_t)(value), WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS)
    WEFT_DEV_SET32(state, WEFT_DEV_RECORD_FREE);
    WEFT_DEV_SET32(operation, operation);
    WEFT_DEV_SET64(ticket, ticket);
    WEFT_DEV_SET32(status, status);
    WEFT_DEV_SET32(peer, peer);
    WEFT_DEV_SET32(team, team);
    WEFT_DEV_SET32(compare, cmp);
    WEFT_DEV_SET64(address, (uintptr_t)address);
    WEFT_DEV_SET64(expected, expected);
    WEFT_DEV_SET64(seen, seen);
    WEFT_DEV_SET64(waited_ns, waited_ns);
    WEFT_DEV_SET32(block, weft_dev_block_rank());
    WEFT_DEV_SET32(thread, weft_dev_thread_rank());
    /* Release: a reader that sees the state sees the rest. */
    weft_dev_store_u32(&record->state, (uint32_t)state, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    return ticket + 1;
}

/* Makes the host's next call fail. The first status stays. */
WEFT_DEVICE_NOINLINE void weft_dev_fail(int status)
{
    struct weft_dev_box *box = weft_dev_state.box;
    if (!box || weft_dev_load_u32((uint32_t *)&box->failed, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS))
        return;
    /* Release: pairs with the host's acquire; the record is visible before. */
    weft_dev_store_u32((uint32_t *)&box->failed, (uint32_t)status, WEFT_ORDER_RELEASE,
                       WEFT_SCOPE_SYS);
}

/* -------------------------------------------------------------------------------- addresses */

WEFT_DEVICE uint64_t weft_dev_part(const struct weft_dev_segment *segment, int pe)
{
    uint32_t place = (uint32_t)(pe - segment->first);
    if (place < segment->count)
        return segment->window + place * segment->stride;
    return (uint32_t)pe < (uint32_t)weft_dev_state.n_pes && segment->size ? segment->parts[pe] : 0;
}

/* No memory is below: a null pointer, with or without an offset, goes on record. */
#define WEFT_DEV_LOWEST_ADDRESS 65536

/* The way of an address that is not in the first segment's window: another segment, another place,
 * memory of this PE that is not symmetric, or none, which goes on record if `record` is not 0 (one
 * thread of a scope has that). */
WEFT_DEVICE_NOINLINE char *weft_dev_reach_slow(int operation, const void *symmetric, size_t bytes,
                                               int pe, int record)
{
    int status = WEFT_ERR_ADDRESS;
    if ((uint32_t)pe >= (uint32_t)weft_dev_state.n_pes) {
        status = WEFT_ERR_PE;
    } else {
        for (int s = 0; s < WEFT_DEV_SEGMENTS; s++) {
            const struct weft_dev_segment *segment = &weft_dev_state.segment[s];
            uint64_t offset = (uintptr_t)symmetric - segment->base;
            if (offset >= segment->size)
                continue;
            uint64_t part = weft_dev_part(segment, pe);
            if (bytes <= segment->size - offset && part)
                return (char *)(uintptr_t)(part + offset);
            status = part ? WEFT_ERR_RANGE : WEFT_ERR_NO_PATH;
            break;
        }
        /* The own PE's memory that is in no segment is reached as it stands: a solver that runs
         * against itself needs no symmetric memory. */
        if (status == WEFT_ERR_ADDRESS && pe == weft_dev_state.me &&
            operation != WEFT_DEV_OP_NONE && (uintptr_t)symmetric >= WEFT_DEV_LOWEST_ADDRESS)
            return (char *)(uintptr_t)symmetric;
    }
    if (record) {
        weft_dev_record(WEFT_DEV_RECORD_REFUSED, operation, status, pe, -1, symmetric, 0, bytes, 0,
                        0);
        weft_dev_fail(status);
    }
    return NULL;
}

/* Where this device loads and stores `bytes` at `symmetric` of PE pe. NULL: it cannot, and that is
 * on record. */
WEFT_DEVICE char *weft_dev_reach(int operation, const void *symmetric, size_t bytes, int pe,
                                 int record)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    uint64_t offset = (uintptr_t)symmetric - heap->base;
    uint32_t place = (uint32_t)(pe - heap->first);
    if (WEFT_DEV_LIKELY(offset < heap->size && bytes <= heap->size - offset && place < heap->count))
        return (char *)(uintptr_t)(heap->window + place * heap->stride + offset);
    return weft_dev_reach_slow(operation, symmetric, bytes, pe, record);
}

/* For a variable of at most 8 bytes, aligned to its size: segments are multiples of a page, so the
 * start alone decides. */
WEFT_DEVICE char *weft_dev_reach_word(int operation, const void *symmetric, int pe)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    uint64_t offset = (uintptr_t)symmetric - heap->base;
    uint32_t place = (uint32_t)(pe - heap->first);
    if (WEFT_DEV_LIKELY(offset < heap->size && place < heap->count))
        return (char *)(uintptr_t)(heap->window + place * heap->stride + offset);
    return weft_dev_reach_slow(operation, symmetric, 1, pe, 1);
}

/* ------------------------------------------------------------------------------ the job */

/* This PE's number, and how many there are; 0 when no job runs. */
WEFT_DEVICE int weft_dev_my_pe(void)
{
    return weft_dev_state.me;
}

WEFT_DEVICE int weft_dev_n_pes(void)
{
    return weft_dev_state.n_pes;
}

/* Address at which device code of this PE loads and stores `symmetric` of PE pe; NULL when there is
 * none. Nothing goes on record. */
WEFT_DEVICE void *weft_dev_ptr(const void *symmetric, int pe)
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    uint64_t offset = (uintptr_t)symmetric - heap->base;
    uint32_t place = (uint32_t)(pe - heap->first);
    if (WEFT_DEV_LIKELY(offset < heap->size && place < heap->count))
        return (void *)(uintptr_t)(heap->window + place * heap->stride + offset);
    return weft_dev_reach_slow(WEFT_DEV_OP_NONE, symmetric, 1, pe, 0);
}

#endif

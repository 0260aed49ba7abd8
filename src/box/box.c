/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box.h"

const char *box_operation_name(uint32_t operation)
{
    static const char *const names[] = {
#define BOX_NAME(id, name) name,
        BOX_OPERATIONS(BOX_NAME)
#undef BOX_NAME
    };
    return operation < BOX_OP_COUNT ? names[operation] : "unknown";
}

/* Threads may race for a place; each takes its own by the atomic count. A reader may see an entry
 * half written, which is why entries carry their number. */
void box_record(struct box *box, enum box_operation operation, int peer, uint64_t offset,
                uint64_t bytes)
{
    uint64_t number = atomic_load_explicit(&box->past_count, memory_order_relaxed);
    atomic_store_explicit(&box->past_count, number + 1, memory_order_relaxed);
    struct box_past *past = &box->past[number % BOX_HISTORY];
    __atomic_store_n(&past->operation, (uint32_t)operation, __ATOMIC_RELAXED);
    __atomic_store_n(&past->peer, peer, __ATOMIC_RELAXED);
    __atomic_store_n(&past->offset, offset, __ATOMIC_RELAXED);
    __atomic_store_n(&past->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&past->number, number, __ATOMIC_RELAXED);
}

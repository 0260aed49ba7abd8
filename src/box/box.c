/* SPDX-License-Identifier: Apache-2.0 */
/* Text from the black box, and its history. */
#include "box/box.h"

#include <stdio.h>

const char *box_operation_name(uint32_t operation)
{
    static const char *const names[] = {
#define BOX_NAME(id, name) name,
        BOX_OPERATIONS(BOX_NAME)
#undef BOX_NAME
    };
    return operation < BOX_OP_COUNT ? names[operation] : "unknown";
}

void box_last_text(const struct box_counters *counters, char *text, size_t bytes)
{
    uint64_t last = atomic_load_explicit(&counters->last, memory_order_relaxed);
    uint32_t operation = BOX_OP_PUT + (uint32_t)(last >> 46 & 3);
    text[0] = '\0';
    if (atomic_load_explicit(&counters->operations, memory_order_relaxed))
        snprintf(text, bytes, "%s %s PE %u at offset %llu", box_operation_name(operation),
                 operation == BOX_OP_GET ? "from" : "to", (unsigned)(last >> 48),
                 (unsigned long long)(last & ((1ull << 46) - 1)));
}

static void number_text(const struct box_wait *wait, uint64_t number, char *text, size_t bytes)
{
    if (wait->is_signed)
        snprintf(text, bytes, "%lld", (long long)number);
    else
        snprintf(text, bytes, "%llu", (unsigned long long)number);
}

void box_wait_text(const struct box_wait *wait, char *text, size_t bytes)
{
    static const char *const signs[] = {"==", "!=", ">", "<=", "<", ">="};
    static const char *const segments[] = {"heap", "global data", "library's memory", "GPU heap"};
    char expected[24], seen[24];
    number_text(wait, atomic_load(&wait->expected), expected, sizeof expected);
    number_text(wait, atomic_load(&wait->seen), seen, sizeof seen);
    if (atomic_load(&wait->operation) == BOX_OP_DEVICE_QUIET)
        snprintf(text, bytes, "%s of %s requests to the proxy are complete", seen, expected);
    else if (wait->compare == BOX_COMPARE_CALLBACKS)
        snprintf(text, bytes, "%s host callbacks are enqueued on streams, %s have run", expected,
                 seen);
    else if (wait->compare == BOX_COMPARE_REQUEST && atomic_load(&wait->expected))
        snprintf(text, bytes, "request %s of the path is not complete", expected);
    else if (wait->compare == BOX_COMPARE_REQUEST)
        snprintf(text, bytes, "pending operations of the path are not complete");
    else if (wait->team >= 0)
        snprintf(text, bytes, "awaits step %s of team %d, which is at step %s", expected,
                 wait->team, seen);
    else
        snprintf(text, bytes, "expected %s %s, seen %s at offset %llu of the %s",
                 wait->compare < sizeof signs / sizeof signs[0] ? signs[wait->compare] : "?",
                 expected, seen, (unsigned long long)wait->offset,
                 wait->segment < sizeof segments / sizeof segments[0] ? segments[wait->segment]
                                                                      : "?");
}

/* Returns the first wait in the box. */
static const struct box_wait *first_wait(const struct box *box)
{
    for (int i = 0; i < BOX_WAITS; i++)
        if (atomic_load_explicit(&box->waits[i].operation, memory_order_acquire) != BOX_OP_NONE)
            return &box->waits[i];
    return NULL;
}

void box_doing_text(const struct box *box, char *text, size_t bytes)
{
    const struct box_wait *wait = first_wait(box);
    char whom[32] = " for any PE";
    int peer = wait ? __atomic_load_n(&wait->peer, __ATOMIC_RELAXED) : -1;
    if (peer >= 0)
        snprintf(whom, sizeof whom, " for PE %d", peer);
    if (wait) {
        snprintf(text, bytes, "PE %d (pid %d) waits in %s%s", box->pe, box->pid,
                 box_operation_name(atomic_load(&wait->operation)), whom);
        return;
    }
    uint64_t count = atomic_load_explicit(&box->past_count, memory_order_relaxed);
    uint32_t last = BOX_OP_NONE;
    if (count)
        last = __atomic_load_n(&box->past[(count - 1) % BOX_HISTORY].operation, __ATOMIC_RELAXED);
    snprintf(text, bytes,
             "PE %d (pid %d) is not waiting in Weft: it computes or is blocked elsewhere (last in "
             "its history: %s)",
             box->pe, box->pid, box_operation_name(last));
}

uint64_t box_progress_count(const struct box *box)
{
    uint64_t moves = atomic_load_explicit(&box->steps, memory_order_relaxed) +
                     atomic_load_explicit(&box->past_count, memory_order_relaxed);
    for (int context = 0; context < BOX_CONTEXTS; context++)
        for (int path = 0; path < BOX_PATHS; path++)
            moves += atomic_load_explicit(&box->counters[context][path].operations,
                                          memory_order_relaxed);
    return moves;
}

/* Threads of a PE may write the same entry at the same time, and a reader may see a half-written
 * entry. So entries contain their sequence number and consist of words that cannot tear. */
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

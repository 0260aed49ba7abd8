/* SPDX-License-Identifier: Apache-2.0 */
/* Events of virtual time: a binary heap. See scale.h. */
#include "bench/scale/scale.h"

#include <stdlib.h>

static bool is_earlier(const struct scale_event *a, const struct scale_event *b)
{
    return a->ns < b->ns || (a->ns == b->ns && a->order < b->order);
}

static void swap_events(struct scale_event *a, struct scale_event *b)
{
    struct scale_event kept = *a;
    *a = *b;
    *b = kept;
}

bool scale_queue_add(struct scale_queue *queue, double ns, void *what)
{
    if (queue->count == queue->size) {
        const size_t size = queue->size ? 2 * queue->size : 1024;
        struct scale_event *moved = realloc(queue->events, size * sizeof *moved);
        if (!moved)
            return false;
        queue->events = moved;
        queue->size = size;
    }
    size_t at = queue->count++;
    queue->events[at] = (struct scale_event){.ns = ns, .order = queue->added++, .what = what};
    for (; at && is_earlier(&queue->events[at], &queue->events[(at - 1) / 2]); at = (at - 1) / 2)
        swap_events(&queue->events[at], &queue->events[(at - 1) / 2]);
    return true;
}

bool scale_queue_take(struct scale_queue *queue, struct scale_event *event)
{
    if (!queue->count)
        return false;
    *event = queue->events[0];
    queue->events[0] = queue->events[--queue->count];
    for (size_t at = 0, child; (child = 2 * at + 1) < queue->count; at = child) {
        if (child + 1 < queue->count &&
            is_earlier(&queue->events[child + 1], &queue->events[child]))
            child++;
        if (!is_earlier(&queue->events[child], &queue->events[at]))
            break;
        swap_events(&queue->events[child], &queue->events[at]);
    }
    return true;
}

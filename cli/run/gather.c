/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an exchange at an agent of `weft run --hosts`. The agent sends the parts of all PEs
 * on its host and on the hosts below it to its parent in one frame, when the last one has arrived.
 * After an eighth of WEFT_WAIT_LIMIT, at most 5 s, it sends those that it has, so that the launcher
 * knows which PEs are missing before a PE gives up and asks for them. Knows nothing of the
 * connections. */
#include "run/hosts.h"

#include <stdlib.h>
#include <string.h>

static uint64_t get_hold_ns(void)
{
    const uint64_t limit_ns = config_duration_ns(CONFIG_WAIT_LIMIT);
    return limit_ns && limit_ns / 8 < 5 * RUN_SECOND_NS ? limit_ns / 8 : 5 * RUN_SECOND_NS;
}

static bool begin_gathering(struct run_gather *gather, size_t bytes)
{
    gather->data = malloc((size_t)gather->npes * bytes + 1);
    gather->held = calloc((size_t)gather->npes, sizeof *gather->held);
    gather->bytes = bytes;
    gather->due_ns = clock_now_ns() + get_hold_ns();
    if (gather->data && gather->held)
        return true;
    run_gather_drop(gather);
    return false;
}

bool run_gather_holds(const struct run_gather *gather, int pe)
{
    return gather->held && pe >= gather->first && pe < gather->first + gather->npes &&
           gather->held[pe - gather->first];
}

bool run_gather_add(struct run_gather *gather, int pe, const void *part, size_t bytes)
{
    const int i = pe - gather->first;
    if (i < 0 || i >= gather->npes || run_gather_holds(gather, pe) ||
        (gather->count && bytes != gather->bytes) ||
        (!gather->count && !begin_gathering(gather, bytes)))
        return false;
    if (bytes)
        memcpy(gather->data + (size_t)i * bytes, part, bytes);
    gather->held[i] = true;
    gather->count++;
    return true;
}

bool run_gather_is_complete(const struct run_gather *gather)
{
    return gather->count > 0 && gather->count + gather->passed >= gather->npes;
}

bool run_gather_next(struct run_gather *gather, struct run_parts *parts, const char **data)
{
    int first = 0, end;
    if (!gather->count)
        return false;
    while (!gather->held[first])
        first++;
    for (end = first; end < gather->npes && gather->held[end]; end++)
        gather->held[end] = false;
    *parts = (struct run_parts){
        .first = gather->first + first, .count = end - first, .bytes = (uint32_t)gather->bytes};
    *data = gather->data + (size_t)first * gather->bytes;
    gather->count -= end - first;
    gather->passed += end - first;
    return true;
}

void run_gather_drop(struct run_gather *gather)
{
    free(gather->data);
    free(gather->held);
    gather->data = NULL;
    gather->held = NULL;
    gather->count = 0;
    gather->due_ns = 0;
}

const char *run_parts_read(const struct wire_frame *frame, int first, int npes,
                           struct run_parts *parts)
{
    if (frame->bytes < sizeof *parts)
        return NULL;
    memcpy(parts, frame->payload, sizeof *parts);
    const bool good = parts->first >= first && parts->count > 0 && parts->count <= npes &&
                      parts->first - first <= npes - parts->count &&
                      frame->bytes - sizeof *parts == (size_t)parts->count * parts->bytes;
    return good ? frame->payload + sizeof *parts : NULL;
}

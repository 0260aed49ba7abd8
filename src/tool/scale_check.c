/* SPDX-License-Identifier: Apache-2.0 */
/* What simulated PEs have before and must have after a collective (scale_coll.h). */
#include "tool/scale_pe.h"

#include <stdlib.h>
#include <string.h>

/* Element i of a PE. Sums of the floats depend on the order in which they are added. */
uint32_t scale_element(enum tool_scale_collective collective, int pe, size_t i)
{
    const uint32_t mixed = ((uint32_t)pe * 2654435761u) ^ ((uint32_t)i * 40503u + 977u);
    const float value = (float)(mixed % 20011) / 7.0f - 1000.0f;
    uint32_t bits = mixed;
    if (collective != TOOL_SCALE_ALLREDUCE_MIN)
        memcpy(&bits, &value, sizeof bits);
    return bits;
}

struct scale_shape scale_shape_of(const struct scale_team *all)
{
    const size_t n = all->job->elements, every = n * (size_t)all->job->pes;
    switch (all->collective) {
    case TOOL_SCALE_ALLGATHER:
    case TOOL_SCALE_GATHER:
        return (struct scale_shape){n, every};
    case TOOL_SCALE_SCATTER:
        return (struct scale_shape){every, n};
    case TOOL_SCALE_ALLTOALL:
        return (struct scale_shape){every, every};
    case TOOL_SCALE_REDUCESCATTER: /* in the buffer each PE has all results */
        return (struct scale_shape){every,
                                    tool_scale_is_buffered(all->job, all->collective) ? every : n};
    default:
        return (struct scale_shape){n, n};
    }
}

static bool combines(enum tool_scale_collective which)
{
    return (which >= TOOL_SCALE_ALLREDUCE && which <= TOOL_SCALE_ALLREDUCE_MIN) ||
           which == TOOL_SCALE_REDUCESCATTER || which == TOOL_SCALE_REDUCE;
}

/* The elements of all PEs combined one after the other. NULL: no memory. */
static uint32_t *make_serial_result(const struct scale_team *all, size_t n)
{
    uint32_t *serial = malloc((n + 1) * sizeof *serial), *next = malloc((n + 1) * sizeof *next);
    for (int pe = 0; serial && next && pe < all->job->pes; pe++) {
        uint32_t *to = pe ? next : serial;
        for (size_t i = 0; i < n; i++)
            to[i] = scale_element(all->collective, pe, i);
        if (pe)
            all->combiner.combine(serial, next, n);
    }
    if (serial && next)
        reduce_end(&all->combiner, serial, n, all->job->pes);
    else
        free(serial);
    serial = next ? serial : NULL;
    free(next);
    return serial;
}

/* Element i of what PE pe gets. */
static uint32_t expected_element(const struct scale_team *all, const uint32_t *serial, int pe,
                                 size_t i)
{
    const enum tool_scale_collective which = all->collective;
    const size_t n = all->job->elements;
    switch (which) {
    case TOOL_SCALE_BROADCAST:
        return scale_element(which, 0, i);
    case TOOL_SCALE_ALLGATHER:
    case TOOL_SCALE_GATHER:
        return scale_element(which, (int)(i / n), i % n);
    case TOOL_SCALE_SCATTER:
        return scale_element(which, 0, (size_t)pe * n + i);
    case TOOL_SCALE_ALLTOALL:
        return scale_element(which, (int)(i / n), (size_t)pe * n + i % n);
    case TOOL_SCALE_REDUCESCATTER:
        return serial[(size_t)pe * n + i];
    default:
        return serial[i];
    }
}

/* Whether the PE gets a result. The root of a broadcast has it. */
static bool gets_result(enum tool_scale_collective which, int pe)
{
    return which == TOOL_SCALE_BROADCAST                              ? pe > 0
           : which == TOOL_SCALE_GATHER || which == TOOL_SCALE_REDUCE ? pe == 0
                                                                      : true;
}

bool scale_has_right_bits(const struct scale_team *all)
{
    const enum tool_scale_collective which = all->collective;
    const struct scale_shape shape = scale_shape_of(all);
    const bool each = which == TOOL_SCALE_REDUCESCATTER;
    const size_t n = each ? all->job->elements : shape.dst;
    uint32_t *serial = combines(which) ? make_serial_result(all, shape.src) : NULL;
    bool right = serial || !combines(which);
    for (int pe = 0; pe < all->job->pes; pe++) {
        const uint32_t *result = all->pes[pe].memory + shape.src;
        if (each && shape.dst > n)
            result += (size_t)pe * n;
        right &= !all->pes[pe].wrong;
        for (size_t i = 0;
             right && which >= TOOL_SCALE_BROADCAST && gets_result(which, pe) && i < n; i++)
            right = result[i] == expected_element(all, serial, pe, i);
    }
    free(serial);
    return right;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See plan.h. A transfer of direct I/O has up to three parts: what lies in front of its first whole
 * block, its whole blocks, and what lies behind the last one. */
#include "file/plan.h"

static uint64_t down(uint64_t value, uint64_t alignment)
{
    return value & ~(alignment - 1);
}

/* Of the piece that begins at `from` of the file: where the transfer, the chunk or the part ends.
 * Lengths are compared, not ends: a file may reach up to the last offset there is. */
static uint64_t run_from(const struct file_shape *shape, size_t at, uint64_t from)
{
    uint64_t left = shape->bytes - at;
    uint64_t chunk_left = shape->chunk - from % shape->chunk;
    return left < chunk_left ? left : chunk_left;
}

static struct file_cut buffered_cut(const struct file_shape *shape, size_t at, uint64_t from,
                                    uint64_t run)
{
    return (struct file_cut){.at = at,
                             .bytes = run,
                             .direct = false,
                             .buffer = !shape->in_place || shape->only_direct,
                             .io_offset = from,
                             .io_bytes = run};
}

/* Whether a whole block at byte `at` of the transfer can be used where it lies. */
static bool lies_well(const struct file_shape *shape, size_t at)
{
    return shape->in_place && ((shape->address + at) & (shape->memory_alignment - 1)) == 0;
}

static struct file_cut whole_blocks(const struct file_shape *shape, size_t at, uint64_t from,
                                    uint64_t run)
{
    return (struct file_cut){.at = at,
                             .bytes = run,
                             .direct = true,
                             .buffer = !lies_well(shape, at),
                             .io_offset = from,
                             .io_bytes = run};
}

/* All blocks that a part touches are read into a buffer. */
static struct file_cut around(const struct file_shape *shape, size_t at, uint64_t from,
                              uint64_t run)
{
    uint64_t a = shape->alignment, first = down(from, a);
    size_t skip = (size_t)(from - first);
    return (struct file_cut){.at = at,
                             .bytes = run,
                             .direct = true,
                             .buffer = true,
                             .skip = skip,
                             .io_offset = first,
                             .io_bytes = (size_t)down(skip + run + a - 1, a)};
}

struct file_cut file_cut_at(const struct file_shape *shape, size_t at)
{
    uint64_t from = shape->offset + at, run = run_from(shape, at, from);
    if (!shape->direct)
        return buffered_cut(shape, at, from, run);
    uint64_t a = shape->alignment, in_block = from & (a - 1);
    uint64_t to_block = in_block ? a - in_block : 0;
    bool part = in_block || run < a;
    /* The blocks behind a part can be used in place, or must not be touched by a part that is
     * written: it ends where they begin. */
    bool alone = shape->write || (run > to_block && lies_well(shape, at + to_block));
    if (part && alone && in_block && run > to_block)
        run = to_block;
    if (part && shape->write)
        return buffered_cut(shape, at, from, run);
    if (part)
        return around(shape, at, from, run);
    uint64_t whole = down(run, a);
    if (whole < run && !shape->write && !lies_well(shape, at))
        return around(shape, at, from, run); /* with what lies behind the last whole block */
    return whole_blocks(shape, at, from, whole);
}

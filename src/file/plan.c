/* SPDX-License-Identifier: Apache-2.0 */
/* See plan.h. A direct transfer has up to three parts: the bytes before its first whole block, its
 * whole blocks, and the bytes after the last one. */
#include "file/plan.h"

static uint64_t round_down(uint64_t value, uint64_t alignment)
{
    return value & ~(alignment - 1);
}

/* Bytes from `from` to the end of the transfer or of the chunk. Compares lengths, because the end
 * of a file may not fit into an offset. */
static uint64_t length_from(const struct file_shape *shape, size_t at, uint64_t from)
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

/* True when a direct request can use the memory at byte `at` of the transfer without a buffer. */
static bool can_use_in_place(const struct file_shape *shape, size_t at)
{
    return shape->in_place && ((shape->address + at) & (shape->memory_alignment - 1)) == 0;
}

static struct file_cut whole_blocks(const struct file_shape *shape, size_t at, uint64_t from,
                                    uint64_t run)
{
    return (struct file_cut){.at = at,
                             .bytes = run,
                             .direct = true,
                             .buffer = !can_use_in_place(shape, at),
                             .io_offset = from,
                             .io_bytes = run};
}

/* Reads all blocks that the piece touches into a buffer. */
static struct file_cut blocks_around(const struct file_shape *shape, size_t at, uint64_t from,
                                     uint64_t run)
{
    uint64_t a = shape->alignment, first = round_down(from, a);
    size_t skip = (size_t)(from - first);
    return (struct file_cut){.at = at,
                             .bytes = run,
                             .direct = true,
                             .buffer = true,
                             .skip = skip,
                             .io_offset = first,
                             .io_bytes = (size_t)round_down(skip + run + a - 1, a)};
}

struct file_cut file_cut_at(const struct file_shape *shape, size_t at)
{
    uint64_t from = shape->offset + at, run = length_from(shape, at, from);
    if (!shape->direct)
        return buffered_cut(shape, at, from, run);
    uint64_t a = shape->alignment, in_block = from & (a - 1);
    uint64_t to_block = in_block ? a - in_block : 0;
    bool part = in_block || run < a;
    /* The piece ends at the next whole block when that block can be transferred in place, or when
     * this piece is a buffered write. */
    bool alone = shape->write || (run > to_block && can_use_in_place(shape, at + to_block));
    if (part && alone && in_block && run > to_block)
        run = to_block;
    if (part && shape->write)
        return buffered_cut(shape, at, from, run);
    if (part)
        return blocks_around(shape, at, from, run);
    uint64_t whole = round_down(run, a);
    if (whole < run && !shape->write && !can_use_in_place(shape, at))
        return blocks_around(shape, at, from,
                             run); /* includes the part after the last whole block */
    return whole_blocks(shape, at, from, whole);
}

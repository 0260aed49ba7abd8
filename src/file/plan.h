/* SPDX-License-Identifier: Apache-2.0 */
/* How a transfer of a file is cut into pieces: arithmetic of offsets and alignments, and nothing
 * else. */
#ifndef WEFT_FILE_PLAN_H
#define WEFT_FILE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_shape {
    bool write;
    bool direct;               /* whole blocks go past the page cache */
    bool in_place;             /* the kernel can use the memory as it lies, */
    bool only_direct;          /* but only past the page cache */
    uint32_t alignment;        /* of offsets that do, a power of two, at least a page */
    uint32_t memory_alignment; /* of memory that they use in place, a power of two */
    size_t chunk;              /* of one request, at most; a multiple of the alignment */
    uint64_t offset;           /* of the transfer in the file */
    size_t bytes;
    uintptr_t address; /* of its memory, with in_place */
};

/* [at, at + bytes) of the transfer, by one request. */
struct file_cut {
    size_t at, bytes;
    bool direct; /* past the page cache */
    bool buffer; /* through a buffer, in which it begins at `skip` */
    size_t skip;
    uint64_t io_offset; /* of the request; in place io_bytes is `bytes` */
    size_t io_bytes;    /* at most chunk */
};

/* The piece that begins at byte `at` of the transfer, at < shape->bytes. Pieces that follow one
 * another cover the transfer without gap and overlap. A direct request is aligned in the file, in
 * size and in memory; a write never touches a byte outside of the transfer. */
struct file_cut file_cut_at(const struct file_shape *shape, size_t at);

#endif

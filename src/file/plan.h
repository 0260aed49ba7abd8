/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a file transfer into pieces: only arithmetic of offsets and alignments. */
#ifndef WEFT_FILE_PLAN_H
#define WEFT_FILE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_shape {
    bool write;
    bool direct;               /* whole blocks bypass the page cache */
    bool in_place;             /* requests can use the memory without a buffer */
    bool only_direct;          /* in_place holds only for direct requests */
    uint32_t alignment;        /* offset and size of direct requests: a power of two, >= a page */
    uint32_t memory_alignment; /* memory of direct requests in place: a power of two */
    size_t chunk;              /* largest request; a multiple of the alignment */
    uint64_t offset;           /* of the transfer in the file */
    size_t bytes;
    uintptr_t address; /* of its memory, with in_place */
};

/* The bytes [at, at + bytes) of the transfer, moved by one request. */
struct file_cut {
    size_t at, bytes;
    bool direct;        /* bypasses the page cache */
    bool buffer;        /* goes through a buffer */
    size_t skip;        /* offset of the piece in that buffer */
    uint64_t io_offset; /* offset of the request in the file */
    size_t io_bytes;    /* size of the request, at most chunk; without a buffer equal to `bytes` */
};

/* The piece that begins at byte `at` of the transfer, at < shape->bytes. Consecutive pieces cover
 * the transfer without gaps or overlaps. A direct request is aligned in the file, in size and in
 * memory. A write never changes a byte outside the transfer. */
struct file_cut file_cut_at(const struct file_shape *shape, size_t at);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric allocator: hands out offsets in a range. Its records of blocks (its books) are in
 * private memory, outside the range, so that a stray store of a program (or of a peer) cannot break
 * them, and so that it serves memory that the CPU cannot touch. Equal calls give equal offsets:
 * that is what makes the heap symmetric. Knows nothing of PEs. Not thread-safe. */
#ifndef WEFT_MEMORY_HEAP_H
#define WEFT_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

struct heap;

enum { HEAP_GRANULE = 64 }; /* every block starts at, and is a multiple of, so many bytes */

struct heap_stats {
    size_t size;         /* bytes managed */
    size_t used;         /* bytes in allocated blocks */
    size_t largest_free; /* largest block that heap_alloc() could return */
    size_t blocks;       /* allocated blocks */
};

/* Manages [0, size); size is rounded down to granules. NULL when out of private memory. */
struct heap *heap_create(size_t size);
void heap_destroy(struct heap *heap);

/* bytes >= 1; align a power of two, at least HEAP_GRANULE is used. WEFT_ERR_NO_MEMORY says what is
 * free. Good fit in constant time (two-level segregated lists: Masmano et al., "TLSF", 2004). */
weft_status heap_alloc(struct heap *heap, size_t bytes, size_t align, size_t *offset);

/* WEFT_ERR_FREE when `offset` is not the start of an allocated block. */
weft_status heap_free(struct heap *heap, size_t offset);

/* Usable bytes of the block that starts at `offset`, 0 when there is none. *align, unless NULL:
 * what heap_alloc() was asked for. */
size_t heap_block_size(const struct heap *heap, size_t offset, size_t *align);

/* Whether [offset, offset + bytes) lies in one allocated block. Takes a walk over all blocks. */
bool heap_holds(const struct heap *heap, size_t offset, size_t bytes);

struct heap_stats heap_get_stats(const struct heap *heap);

#endif

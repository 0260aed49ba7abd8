/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric allocator: allocates offsets in a range. The allocator metadata is in private
 * memory outside the range, so that a wrong store of the program or a peer cannot corrupt it, and
 * so that the allocator can manage memory that the CPU cannot access. Equal calls return equal
 * offsets, which makes the heap symmetric. Knows nothing of PEs. Not thread-safe. */
#ifndef WEFT_MEMORY_HEAP_H
#define WEFT_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

struct heap;

enum { HEAP_GRANULE = 64 }; /* alignment and granularity of blocks, in bytes */

struct heap_stats {
    size_t size;         /* bytes managed */
    size_t used;         /* bytes in allocated blocks */
    size_t largest_free; /* largest block that heap_alloc() could return */
    size_t blocks;       /* allocated blocks */
};

/* Creates an allocator for [0, size); size is rounded down to granules. NULL: out of private
 * memory. */
struct heap *heap_create(size_t size);
void heap_destroy(struct heap *heap);

/* Allocates bytes (>= 1) at a multiple of align (a power of two; at least HEAP_GRANULE is used).
 * The message of WEFT_ERR_NO_MEMORY says how much is free. Good fit in constant time (two-level
 * segregated lists: Masmano et al., "TLSF", 2004). */
weft_status heap_alloc(struct heap *heap, size_t bytes, size_t align, size_t *offset);

/* WEFT_ERR_FREE when `offset` is not the start of an allocated block. */
weft_status heap_free(struct heap *heap, size_t offset);

/* Usable bytes of the block that starts at `offset`; 0: no block starts there. *align (may be
 * NULL): the alignment that was passed to heap_alloc(). */
size_t heap_block_size(const struct heap *heap, size_t offset, size_t *align);

/* Whether [offset, offset + bytes) lies in one allocated block. Walks over all blocks. */
bool heap_holds(const struct heap *heap, size_t offset, size_t bytes);

struct heap_stats heap_get_stats(const struct heap *heap);

#endif

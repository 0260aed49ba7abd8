/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level segregated fit over offsets. Blocks are records in a growing array, linked by index:
 * to their neighbours in the range, and when free to others of their size class. */
#include "memory/heap.h"

#include "base/status.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND_BITS = 4, SECONDS = 1 << SECOND_BITS, FIRSTS = 64, NIL = 0 };

struct heap_block {
    size_t offset; /* in granules, like all sizes in this file */
    size_t size;
    uint32_t before, after; /* neighbours in the range */
    /* links of the size class; free_next also links unused records */
    uint32_t free_prev, free_next;
    size_t align; /* alignment of a used block, as passed to heap_alloc(), in bytes */
    bool used;
};

struct heap {
    size_t size;
    size_t used;
    size_t used_blocks;
    struct heap_block *blocks; /* record 0 is never used: NIL */
    uint32_t records, capacity, spare;
    uint64_t first_map;
    uint16_t second_map[FIRSTS];
    uint32_t lists[FIRSTS][SECONDS];
    uint32_t *table; /* open addressing: offset of a used block -> record */
    uint32_t table_mask, table_filled;
};

/* Size class of a size: exact for sizes below 16 granules, then 16 classes per power of two. */
static void class_of(size_t size, unsigned *first, unsigned *second)
{
    if (size < SECONDS) {
        *first = 0;
        *second = (unsigned)size;
        return;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(size);
    *first = top - SECOND_BITS + 1;
    *second = (unsigned)(size >> (top - SECOND_BITS)) & (SECONDS - 1);
}

static void list_insert(struct heap *heap, uint32_t index)
{
    unsigned first, second;
    struct heap_block *block = &heap->blocks[index];
    class_of(block->size, &first, &second);
    uint32_t head = heap->lists[first][second];
    block->used = false;
    block->free_prev = NIL;
    block->free_next = head;
    if (head)
        heap->blocks[head].free_prev = index;
    heap->lists[first][second] = index;
    heap->first_map |= 1ull << first;
    heap->second_map[first] |= (uint16_t)(1u << second);
}

static void list_remove(struct heap *heap, uint32_t index)
{
    unsigned first, second;
    struct heap_block *block = &heap->blocks[index];
    class_of(block->size, &first, &second);
    if (block->free_prev)
        heap->blocks[block->free_prev].free_next = block->free_next;
    else
        heap->lists[first][second] = block->free_next;
    if (block->free_next)
        heap->blocks[block->free_next].free_prev = block->free_prev;
    if (!heap->lists[first][second]) {
        heap->second_map[first] &= (uint16_t) ~(1u << second);
        if (!heap->second_map[first])
            heap->first_map &= ~(1ull << first);
    }
}

/* A free block of at least `size` granules: every block of a class above that of `size` fits. */
static uint32_t find_fit(const struct heap *heap, size_t size)
{
    unsigned first, second;
    class_of(size, &first, &second);
    for (uint32_t at = heap->lists[first][second]; at; at = heap->blocks[at].free_next)
        if (heap->blocks[at].size >= size)
            return at;
    uint32_t seconds = second + 1 < SECONDS ? heap->second_map[first] & (~0u << (second + 1)) : 0;
    if (!seconds) {
        uint64_t firsts = first + 1 < FIRSTS ? heap->first_map & (~0ull << (first + 1)) : 0;
        if (!firsts)
            return NIL;
        first = (unsigned)__builtin_ctzll(firsts);
        seconds = heap->second_map[first];
    }
    return heap->lists[first][__builtin_ctz(seconds)];
}

/* Reserves memory for `count` calls of record_new(). */
static bool records_reserve(struct heap *heap, uint32_t count)
{
    if (heap->records + count <= heap->capacity)
        return true;
    uint32_t capacity = heap->capacity * 2;
    struct heap_block *grown = realloc(heap->blocks, capacity * sizeof *grown);
    if (!grown)
        return false;
    heap->blocks = grown;
    heap->capacity = capacity;
    return true;
}

static uint32_t record_new(struct heap *heap)
{
    if (!heap->spare)
        return heap->records++;
    uint32_t index = heap->spare;
    heap->spare = heap->blocks[index].free_next;
    return index;
}

static void record_drop(struct heap *heap, uint32_t index)
{
    heap->blocks[index].free_next = heap->spare;
    heap->spare = index;
}

static uint32_t hash(size_t offset)
{
    return (uint32_t)((offset * 0x9e3779b97f4a7c15ull) >> 32);
}

static void table_put(struct heap *heap, uint32_t index)
{
    uint32_t at = hash(heap->blocks[index].offset) & heap->table_mask;
    while (heap->table[at])
        at = (at + 1) & heap->table_mask;
    heap->table[at] = index;
    heap->table_filled++;
}

static bool table_reserve(struct heap *heap)
{
    if (heap->table && (heap->table_filled + 1) * 2 <= heap->table_mask)
        return true;
    uint32_t *old = heap->table, old_slots = old ? heap->table_mask + 1 : 0;
    uint32_t slots = old ? old_slots * 2 : 128;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    heap->table = table;
    heap->table_mask = slots - 1;
    heap->table_filled = 0;
    for (uint32_t i = 0; i < old_slots; i++)
        if (old[i])
            table_put(heap, old[i]);
    free(old);
    return true;
}

/* Position of the used block at `offset` in the table, or the empty position where it would be. */
static uint32_t table_find(const struct heap *heap, size_t offset)
{
    uint32_t at = hash(offset) & heap->table_mask;
    while (heap->table[at] && heap->blocks[heap->table[at]].offset != offset)
        at = (at + 1) & heap->table_mask;
    return at;
}

/* Deletes an entry and keeps probe sequences intact: later entries move up into the gap (Knuth, 6.4
 * R). */
static void table_delete(struct heap *heap, uint32_t gap)
{
    uint32_t at = gap;
    heap->table_filled--;
    for (;;) {
        heap->table[gap] = NIL;
        uint32_t home;
        do {
            at = (at + 1) & heap->table_mask;
            if (!heap->table[at])
                return;
            home = hash(heap->blocks[heap->table[at]].offset) & heap->table_mask;
        } while (gap <= at ? gap < home && home <= at : gap < home || home <= at);
        heap->table[gap] = heap->table[at];
        gap = at;
    }
}

struct heap *heap_create(size_t size)
{
    struct heap *heap = calloc(1, sizeof *heap);
    if (!heap)
        return NULL;
    heap->size = size / HEAP_GRANULE;
    heap->records = 1;
    heap->blocks = calloc(heap->capacity = 64, sizeof *heap->blocks);
    if (!heap->blocks || !table_reserve(heap)) {
        heap_destroy(heap);
        return NULL;
    }
    if (heap->size) {
        uint32_t whole = record_new(heap);
        heap->blocks[whole] = (struct heap_block){.offset = 0, .size = heap->size};
        list_insert(heap, whole);
    }
    return heap;
}

void heap_destroy(struct heap *heap)
{
    if (!heap)
        return;
    free(heap->table);
    free(heap->blocks);
    free(heap);
}

/* Splits the block at `index` after `size` granules; the rest becomes a free block. Uses one
 * record. */
static void split(struct heap *heap, uint32_t index, size_t size)
{
    if (heap->blocks[index].size == size)
        return;
    uint32_t rest = record_new(heap);
    struct heap_block *block = &heap->blocks[index];
    heap->blocks[rest] = (struct heap_block){.offset = block->offset + size,
                                             .size = block->size - size,
                                             .before = index,
                                             .after = block->after};
    if (block->after)
        heap->blocks[block->after].before = rest;
    block->after = rest;
    block->size = size;
    list_insert(heap, rest);
}

static weft_status no_memory(const struct heap *heap, size_t bytes)
{
    struct heap_stats stats = heap_get_stats(heap);
    return base_fail(WEFT_ERR_NO_MEMORY,
                     "no room for %zu bytes: of %zu bytes %zu are in use by %zu blocks, and the "
                     "largest free block has %zu",
                     bytes, stats.size, stats.used, stats.blocks, stats.largest_free);
}

weft_status heap_alloc(struct heap *heap, size_t bytes, size_t align, size_t *offset)
{
    size_t size = bytes / HEAP_GRANULE + (bytes % HEAP_GRANULE != 0);
    size_t step = align > HEAP_GRANULE ? align / HEAP_GRANULE : 1;
    if (size + step < size || size + step - 1 > heap->size + step)
        return no_memory(heap, bytes);
    /* Everything that can fail comes first: a block that is split differently at one PE would make
     * the heaps of the job differ permanently. */
    if (!table_reserve(heap) || !records_reserve(heap, 2))
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the list of the heap's blocks");
    uint32_t index = find_fit(heap, size + step - 1);
    if (!index)
        return no_memory(heap, bytes);
    list_remove(heap, index);

    size_t lead = -heap->blocks[index].offset & (step - 1);
    if (lead) {
        split(heap, index, lead);
        uint32_t front = index;
        index = heap->blocks[front].after;
        list_remove(heap, index);
        list_insert(heap, front);
    }
    split(heap, index, size);
    heap->blocks[index].used = true;
    heap->blocks[index].align = align;
    table_put(heap, index);
    heap->used += heap->blocks[index].size;
    heap->used_blocks++;
    *offset = heap->blocks[index].offset * HEAP_GRANULE;
    return WEFT_OK;
}

/* Joins the free block `index` with its free right-hand neighbour. */
static void merge_after(struct heap *heap, uint32_t index)
{
    struct heap_block *block = &heap->blocks[index];
    uint32_t after = block->after;
    if (!after || heap->blocks[after].used)
        return;
    list_remove(heap, after);
    block->size += heap->blocks[after].size;
    block->after = heap->blocks[after].after;
    if (block->after)
        heap->blocks[block->after].before = index;
    record_drop(heap, after);
}

weft_status heap_free(struct heap *heap, size_t offset)
{
    uint32_t at = offset % HEAP_GRANULE ? 0 : table_find(heap, offset / HEAP_GRANULE);
    uint32_t index = offset % HEAP_GRANULE ? NIL : heap->table[at];
    if (!index)
        return base_fail(WEFT_ERR_FREE,
                         "offset %zu of the heap is not the start of an allocated block (freed "
                         "twice, or a foreign pointer)",
                         offset);
    table_delete(heap, at);
    heap->used -= heap->blocks[index].size;
    heap->used_blocks--;
    merge_after(heap, index);
    uint32_t before = heap->blocks[index].before;
    if (before && !heap->blocks[before].used) {
        list_remove(heap, before);
        heap->blocks[index].used = false;
        list_insert(heap, index);
        merge_after(heap, before);
        index = before;
    }
    list_insert(heap, index);
    return WEFT_OK;
}

size_t heap_block_size(const struct heap *heap, size_t offset, size_t *align)
{
    if (offset % HEAP_GRANULE)
        return 0;
    uint32_t index = heap->table[table_find(heap, offset / HEAP_GRANULE)];
    if (index && align)
        *align = heap->blocks[index].align;
    return index ? heap->blocks[index].size * HEAP_GRANULE : 0;
}

bool heap_holds(const struct heap *heap, size_t offset, size_t bytes)
{
    /* Record 1 is always the leftmost block, because splits and merges keep the record of the left
     * block. */
    for (uint32_t index = 1; index; index = heap->blocks[index].after) {
        const struct heap_block *block = &heap->blocks[index];
        size_t start = block->offset * HEAP_GRANULE, size = block->size * HEAP_GRANULE;
        if (offset >= start && offset - start < size)
            return block->used && bytes <= size - (offset - start);
    }
    return false;
}

struct heap_stats heap_get_stats(const struct heap *heap)
{
    size_t largest = 0;
    if (heap->first_map) {
        unsigned first = 63u - (unsigned)__builtin_clzll(heap->first_map);
        unsigned second = 31u - (unsigned)__builtin_clz(heap->second_map[first]);
        for (uint32_t at = heap->lists[first][second]; at; at = heap->blocks[at].free_next)
            if (heap->blocks[at].size > largest)
                largest = heap->blocks[at].size;
    }
    return (struct heap_stats){.size = heap->size * HEAP_GRANULE,
                               .used = heap->used * HEAP_GRANULE,
                               .largest_free = largest * HEAP_GRANULE,
                               .blocks = heap->used_blocks};
}

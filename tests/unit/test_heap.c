/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric allocator: alignment, reuse, merging, rejected frees, and random use compared with
 * a simple model. */
#include "memory/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void blocks_are_aligned_and_apart(void **state)
{
    struct heap *heap = heap_create(1 << 20);
    size_t a, b, c;
    assert_int_equal(heap_alloc(heap, 1, 0, &a), WEFT_OK);
    assert_int_equal(heap_alloc(heap, 100, 4096, &b), WEFT_OK);
    assert_int_equal(heap_alloc(heap, 64, 64, &c), WEFT_OK);
    assert_int_equal(a % 64, 0);
    assert_int_equal(b % 4096, 0);
    assert_true(b >= a + 1 || b + 100 <= a);
    assert_true(c != a && c != b);
    assert_int_equal(heap_block_size(heap, b, NULL), 128);
    assert_int_equal(heap_get_stats(heap).used, 64 + 128 + 64);
    heap_destroy(heap);
}

static void freed_blocks_merge(void **state)
{
    struct heap *heap = heap_create(64 * 1024);
    size_t at[1024];
    for (int i = 0; i < 1024; i++)
        assert_int_equal(heap_alloc(heap, 64, 0, &at[i]), WEFT_OK);
    size_t more;
    assert_int_equal(heap_alloc(heap, 1, 0, &more), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(weft_last_error(), "1024 blocks"));
    for (int i = 0; i < 1024; i += 2)
        assert_int_equal(heap_free(heap, at[i]), WEFT_OK);
    for (int i = 1; i < 1024; i += 2)
        assert_int_equal(heap_free(heap, at[i]), WEFT_OK);
    assert_int_equal(heap_get_stats(heap).largest_free, 64 * 1024);
    assert_int_equal(heap_get_stats(heap).used, 0);
    assert_int_equal(heap_alloc(heap, 64 * 1024, 0, &more), WEFT_OK);
    assert_int_equal(more, 0);
    heap_destroy(heap);
}

static void bad_frees_are_refused(void **state)
{
    struct heap *heap = heap_create(1 << 16);
    size_t at;
    assert_int_equal(heap_alloc(heap, 256, 0, &at), WEFT_OK);
    assert_int_equal(heap_free(heap, at + 64), WEFT_ERR_FREE);
    assert_int_equal(heap_free(heap, at + 1), WEFT_ERR_FREE);
    assert_int_equal(heap_free(heap, at), WEFT_OK);
    assert_int_equal(heap_free(heap, at), WEFT_ERR_FREE);
    heap_destroy(heap);
}

/* The table must keep a free entry with any number of blocks; otherwise the search never ends. */
static void bad_frees_are_refused_beside_many_blocks(void **state)
{
    enum { BLOCKS = 1023 };
    struct heap *heap = heap_create((BLOCKS + 1) * 64);
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t at;
        assert_int_equal(heap_alloc(heap, 64, 0, &at), WEFT_OK);
        assert_int_equal(at, i * 64);
        assert_int_equal(heap_free(heap, at + 64), WEFT_ERR_FREE);
        assert_false(heap_holds(heap, at + 64, 1));
    }
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(heap_free(heap, i * 64), WEFT_OK);
    heap_destroy(heap);
}

static void a_range_lies_in_one_block(void **state)
{
    struct heap *heap = heap_create(1 << 16);
    size_t a, b;
    assert_int_equal(heap_alloc(heap, 256, 0, &a), WEFT_OK);
    assert_int_equal(heap_alloc(heap, 128, 0, &b), WEFT_OK);
    assert_true(heap_holds(heap, a, 256) && heap_holds(heap, a + 255, 1));
    assert_true(heap_holds(heap, b, 128) && heap_holds(heap, b + 100, 28));
    assert_false(heap_holds(heap, a, 257) || heap_holds(heap, a + 200, 57));
    assert_false(heap_holds(heap, b, 129) || heap_holds(heap, b + 127, SIZE_MAX));
    assert_false(heap_holds(heap, b + 128, 1) || heap_holds(heap, 1 << 16, 1));
    assert_int_equal(heap_free(heap, a), WEFT_OK);
    assert_false(heap_holds(heap, a, 1));
    heap_destroy(heap);
}

static void absurd_sizes_are_refused(void **state)
{
    struct heap *heap = heap_create(1 << 16);
    size_t at;
    assert_int_equal(heap_alloc(heap, SIZE_MAX, 0, &at), WEFT_ERR_NO_MEMORY);
    assert_int_equal(heap_alloc(heap, 64, (size_t)1 << 62, &at), WEFT_ERR_NO_MEMORY);
    assert_int_equal(heap_alloc(heap, (1 << 16) + 1, 0, &at), WEFT_ERR_NO_MEMORY);
    assert_int_equal(heap_alloc(heap, 1 << 16, 0, &at), WEFT_OK);
    heap_destroy(heap);
    heap = heap_create(0);
    assert_int_equal(heap_alloc(heap, 1, 0, &at), WEFT_ERR_NO_MEMORY);
    heap_destroy(heap);
}

static void random_use_never_overlaps(void **state)
{
    enum { SIZE = 1 << 20, LIVE = 200 };
    struct heap *heap = heap_create(SIZE);
    unsigned char *owner = calloc(SIZE / 64, 1);
    size_t offset[LIVE], granules[LIVE];
    bool live[LIVE] = {0};
    uint32_t random = 12345;
    for (int step = 0; step < 200000; step++) {
        random = random * 1664525u + 1013904223u;
        int i = (int)((random >> 8) % LIVE);
        if (live[i]) {
            memset(owner + offset[i] / 64, 0, granules[i]);
            assert_int_equal(heap_free(heap, offset[i]), WEFT_OK);
            live[i] = false;
            continue;
        }
        size_t bytes = 1 + (random >> 4) % 9000, align = (size_t)64 << ((random >> 20) % 6);
        if (heap_alloc(heap, bytes, align, &offset[i]))
            continue;
        granules[i] = (bytes + 63) / 64;
        assert_int_equal(offset[i] % align, 0);
        for (size_t g = 0; g < granules[i]; g++) {
            assert_int_equal(owner[offset[i] / 64 + g], 0);
            owner[offset[i] / 64 + g] = 1;
        }
        live[i] = true;
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i])
            assert_int_equal(heap_free(heap, offset[i]), WEFT_OK);
    assert_int_equal(heap_get_stats(heap).largest_free, SIZE);
    free(owner);
    heap_destroy(heap);
}

/* Private memory can run out at one PE when a list grows. */
static bool out_of_memory;
void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
    return out_of_memory ? NULL : __real_realloc(old, bytes);
}

/* Finding A21: while one PE's private memory is short, its heap returns the same offset as the
 * other PEs' heaps, or fails. Later results are the same at all PEs again. */
static void heaps_stay_alike_without_private_memory(void **state)
{
    enum { SIZE = 1 << 20, BLOCKS = 700 };
    int refused = 0;
    for (int fails_at = 0; fails_at < BLOCKS; fails_at++) {
        struct heap *here = heap_create(SIZE), *there = heap_create(SIZE);
        for (int i = 0; i < BLOCKS; i++) {
            size_t a, b, bytes = 64 + (size_t)(i * 37 % 900), align = i % 7 == 3 ? 1024 : 0;
            out_of_memory = i == fails_at;
            weft_status status = heap_alloc(here, bytes, align, &a);
            out_of_memory = false;
            assert_int_equal(heap_alloc(there, bytes, align, &b), WEFT_OK);
            if (status) { /* as weft_alloc() does on failure */
                assert_int_equal(status, WEFT_ERR_NO_MEMORY);
                assert_int_equal(i, fails_at);
                refused++;
                assert_int_equal(heap_free(there, b), WEFT_OK);
                continue;
            }
            assert_int_equal(a, b);
            assert_int_equal(heap_block_size(here, a, NULL), heap_block_size(there, b, NULL));
        }
        heap_destroy(here);
        heap_destroy(there);
    }
    assert_int_not_equal(refused, 0); /* without memory for its record, no block is returned */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_apart),
        cmocka_unit_test(freed_blocks_merge),
        cmocka_unit_test(bad_frees_are_refused),
        cmocka_unit_test(bad_frees_are_refused_beside_many_blocks),
        cmocka_unit_test(a_range_lies_in_one_block),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(random_use_never_overlaps),
        cmocka_unit_test(heaps_stay_alike_without_private_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

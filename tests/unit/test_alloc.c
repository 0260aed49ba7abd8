/* SPDX-License-Identifier: Apache-2.0 */
/* Collective allocation: the PEs compare their requests, all PEs undo a block if one PE fails,
 * blocks move, and addresses of peers' memory are found. coll_compare_records() plays the other
 * PEs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/alloc.h"

static size_t host_blocks(void)
{
    return heap_get_stats(ops.job.heap).blocks;
}

static size_t gpu_blocks(void)
{
    return heap_get_stats(ops.gpu.allocator).blocks - 1; /* without the library's own */
}

static weft_status alloc(weft_kind kind, size_t bytes, size_t align, unsigned flags, void **at)
{
    *at = &beneath;
    return weft_alloc(&ops.job, kind, bytes, align, flags, at);
}

static bool is_filled(const void *at, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)at)[i] != value)
            return false;
    return true;
}

/* --------------------------------------------------------------------------------------- alloc */

static void host_blocks_come_from_the_heap(void **state)
{
    (void)state;
    void *first, *second;
    assert_int_equal(alloc(WEFT_HOST, 100, 0, 0, &first), WEFT_OK);
    assert_ptr_equal(first, ops_heaps[OPS_PE]);
    assert_int_equal(beneath.request.operation, BOX_OP_ALLOC);
    assert_int_equal(beneath.request.bytes, 100);
    assert_int_equal(beneath.request.align, 0);
    assert_int_equal(beneath.request.offset, 0);
    assert_int_equal(beneath.request.kind, WEFT_HOST);
    assert_int_equal(beneath.exchanges, 2);
    assert_int_equal(beneath.outcome.status, WEFT_OK);
    assert_int_equal(beneath.outcome.offset, 0);
    assert_int_equal(beneath.pinned, 100);
    assert_true(is_filled(first, 0x5a, 100));
    assert_int_equal(alloc(WEFT_HOST, 96, 0, WEFT_ALLOC_ZERO, &second), WEFT_OK);
    assert_ptr_equal(second, ops_heaps[OPS_PE] + 128);
    assert_true(is_filled(second, 0, 96));
    assert_true(is_filled((char *)second + 96, 0x5a, 64));
    assert_int_equal(beneath.outcome.offset, 128);
    assert_int_equal(beneath.pinned, 224);
    assert_int_equal(beneath.record.operation, BOX_OP_ALLOC);
    assert_int_equal(beneath.record.offset, 0);
    assert_int_equal(beneath.record.bytes, 96);
    assert_int_equal(host_blocks(), 2);
    assert_int_equal(beneath.opens + beneath.syncs + beneath.fills, 0);
    void *third;
    assert_int_equal(alloc(WEFT_HOST, 8, 1024, 0, &third), WEFT_OK);
    assert_int_equal(beneath.outcome.offset, 1024);
    assert_int_equal(beneath.record.offset, 1024);
    assert_int_equal(beneath.request.align, 1024);
}

static void gpu_blocks_have_memory_behind_them(void **state)
{
    (void)state;
    void *block;
    ops.job.gpu = NULL; /* the first GPU block opens the GPU */
    assert_int_equal(alloc(WEFT_GPU, 100, 0, WEFT_ALLOC_ZERO, &block), WEFT_OK);
    assert_ptr_equal(block, (void *)(uintptr_t)(OPS_GPU + OPS_GPU_SYSTEM));
    assert_int_equal(beneath.opens, 1);
    assert_int_equal(beneath.grown, OPS_GPU_SYSTEM + 100);
    assert_int_equal(beneath.fills, 1);
    assert_ptr_equal(beneath.filled, block);
    assert_int_equal(beneath.fill_bytes, 100);
    assert_int_equal(beneath.request.kind, WEFT_GPU);
    assert_int_equal(beneath.outcome.offset, OPS_GPU_SYSTEM);
    assert_int_equal(beneath.syncs, 1);
    assert_int_equal(beneath.operation, BOX_OP_ALLOC);
    assert_int_equal(beneath.pins, 0);
    assert_int_equal(alloc(WEFT_GPU, 8, 4096, 0, &block), WEFT_OK);
    assert_ptr_equal(block, (void *)(uintptr_t)(OPS_GPU + 4096));
    assert_int_equal(beneath.fills, 1);
    assert_int_equal(gpu_blocks(), 2);
    beneath.no_sync = true;
    assert_int_equal(alloc(WEFT_GPU, 8, 0, 0, &block), WEFT_ERR_PEER_DEAD);
}

static void nothing_is_allocated_for_no_bytes(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        void *block;
        assert_int_equal(alloc(kind ? WEFT_GPU : WEFT_HOST, 0, 0, 0, &block), WEFT_OK);
        assert_null(block);
        assert_int_equal(beneath.exchanges, kind + 1);
    }
    assert_int_equal(host_blocks() + gpu_blocks(), 0);
    assert_int_equal(beneath.opens, 0);
}

static void wrong_arguments_are_refused_before_any_exchange(void **state)
{
    (void)state;
    void *block;
    assert_int_equal(weft_alloc(NULL, WEFT_HOST, 8, 0, 0, &block), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "weft_alloc: job is null"));
    assert_int_equal(weft_alloc(&ops.job, WEFT_HOST, 8, 0, 0, NULL), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "weft_alloc: the result is null"));
    static const struct {
        int kind;
        size_t align;
        unsigned flags;
        const char *words;
    } rows[] = {{2, 0, 0, "memory kind 2"},
                {-1, 0, 0, "memory kind -1"},
                {WEFT_HOST, 96, 0, "align 96 is not a power"},
                {WEFT_HOST, (size_t)SEGMENT_OWN_ALIGN * 2, 0, "the most for host memory"},
                {WEFT_GPU, (size_t)SEGMENT_ALIGN * 2, 0, "the most for GPU memory"},
                {WEFT_HOST, 0, 8, "weft_alloc: flags"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(alloc((weft_kind)rows[i].kind, 8, rows[i].align, rows[i].flags, &block),
                         WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), rows[i].words));
        assert_null(block);
    }
    beneath.failed = true;
    assert_int_equal(alloc(WEFT_HOST, 8, 0, 0, &block), WEFT_ERR_PEER_DEAD);
    ops.job.state = JOB_FINALIZED;
    assert_int_equal(alloc(WEFT_HOST, 8, 0, 0, &block), WEFT_ERR_FINALIZED);
    assert_int_equal(beneath.exchanges + beneath.records, 0);
    beneath.failed = false;
    ops.job.state = JOB_RUNNING;
    /* The maximum alignment is accepted; only this PE's heap may reject the block. */
    assert_int_not_equal(alloc(WEFT_HOST, 8, SEGMENT_OWN_ALIGN, 0, &block), WEFT_ERR_ARGUMENT);
    assert_int_not_equal(alloc(WEFT_GPU, 8, SEGMENT_ALIGN, 0, &block), WEFT_ERR_ARGUMENT);
}

static void last_asks_for_more(void *all)
{
    struct request *of = all;
    of[2].bytes = 99;
    of[2].operation = BOX_OP_FREE;
    of[2].kind = 1;
}

static void beyond_the_last_asks_for_more(void *all)
{
    ((struct request *)all)[3].bytes = 99;
}

static void different_requests_are_named(void **state)
{
    (void)state;
    void *block;
    beneath.patch = last_asks_for_more;
    assert_int_equal(alloc(WEFT_HOST, 8, 128, 0, &block), WEFT_ERR_MISMATCH);
    char words[300];
    snprintf(words, sizeof words,
             "weft_alloc: PE 1 calls %s with 8 bytes, align 128, offset 0, kind 0; PE 2 calls %s "
             "with 99 bytes, align 128, offset 0, kind 1",
             box_operation_name(BOX_OP_ALLOC), box_operation_name(BOX_OP_FREE));
    assert_string_equal(base_last_error(), words);
    assert_null(block);
    beneath.exchanges = 0;
    beneath.patch = beyond_the_last_asks_for_more;
    memset(scratch, 0, sizeof scratch);
    assert_int_equal(alloc(WEFT_HOST, 8, 128, 0, &block), WEFT_OK);
    beneath.exchange_fails_in = 0;
    assert_int_equal(alloc(WEFT_HOST, 8, 128, 0, &block), WEFT_ERR_PEER_DEAD);
    assert_int_equal(host_blocks(), 1);
}

static void last_fails(void *all)
{
    ((struct outcome *)all)[2].status = WEFT_ERR_NO_MEMORY;
}

static void last_is_elsewhere(void *all)
{
    ((struct outcome *)all)[2].offset += 64;
}

static void what_fails_at_one_pe_is_undone_at_all(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        void *block;
        weft_kind of = kind ? WEFT_GPU : WEFT_HOST;
        beneath.exchanges = 0;
        beneath.patch_in = 1;
        beneath.patch = last_fails;
        assert_int_equal(alloc(of, 8, 0, 0, &block), WEFT_ERR_NO_MEMORY);
        assert_non_null(strstr(base_last_error(), "weft_alloc: PE 2 failed"));
        beneath.exchanges = 0;
        beneath.patch = last_is_elsewhere;
        assert_int_equal(alloc(of, 8, 0, 0, &block), WEFT_ERR_MISMATCH);
        assert_non_null(strstr(base_last_error(), "job: weft_alloc: the heaps of the PEs differ"));
        beneath.patch = NULL;
        beneath.exchange_fails_in = 1;
        assert_int_equal(alloc(of, 8, 0, 0, &block), WEFT_ERR_PEER_DEAD);
        beneath.exchange_fails_in = -1;
        assert_null(block);
    }
    assert_int_equal(beneath.job_fails, 2);
    assert_int_equal(beneath.grows + beneath.pins + beneath.syncs, 0);
    assert_int_equal(host_blocks() + gpu_blocks(), 0);
}

static void a_full_heap_is_named_and_reported(void **state)
{
    (void)state;
    void *block;
    assert_int_equal(alloc(WEFT_HOST, OPS_HEAP + 1, 0, WEFT_ALLOC_ZERO, &block),
                     WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "weft_alloc: host heap of 8192 bytes"));
    assert_int_equal(beneath.outcome.status, WEFT_ERR_NO_MEMORY);
    assert_int_equal(beneath.outcome.offset, 0);
    assert_int_equal(beneath.exchanges, 2);
    assert_int_equal(alloc(WEFT_GPU, OPS_GPU_BYTES, 0, 0, &block), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "weft_alloc: GPU heap of 65536 bytes"));
    assert_int_equal(beneath.outcome.status, WEFT_ERR_NO_MEMORY);
    assert_int_equal(beneath.exchanges, 4);
    assert_int_equal(beneath.grows, 0);
    assert_int_equal(host_blocks() + gpu_blocks(), 0);
    assert_true(is_filled(ops_heaps[OPS_PE], 0x5a, OPS_HEAP));
}

static void a_heap_that_is_not_aligned_refuses_alignment(void **state)
{
    (void)state;
    void *block;
    ops.job.segments[SEG_HEAP].base = ops_heaps[OPS_PE] + 64;
    assert_int_equal(alloc(WEFT_HOST, 8, 128, WEFT_ALLOC_ZERO, &block), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "not aligned to 128"));
    assert_int_equal(beneath.outcome.status, WEFT_ERR_NO_MEMORY);
    assert_int_equal(host_blocks(), 0);
    assert_true(is_filled(ops_heaps[OPS_PE], 0x5a, OPS_HEAP));
    assert_int_equal(alloc(WEFT_HOST, 8, 64, 0, &block), WEFT_OK);
    assert_int_equal(alloc(WEFT_HOST, 8, 0, 0, &block), WEFT_OK);
}

static void a_gpu_block_without_memory_is_given_back(void **state)
{
    (void)state;
    void *block;
    beneath.no_grow = true;
    assert_int_equal(alloc(WEFT_GPU, 8, 0, WEFT_ALLOC_ZERO, &block), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "weft_alloc: no GPU memory");
    assert_int_equal(beneath.fills, 0);
    beneath.no_grow = false;
    beneath.no_fill = true;
    assert_int_equal(alloc(WEFT_GPU, 8, 0, WEFT_ALLOC_ZERO, &block), WEFT_ERR_SYSTEM);
    beneath.no_fill = false;
    beneath.disagree = true;
    assert_int_equal(alloc(WEFT_GPU, 8, 0, WEFT_ALLOC_ZERO, &block), WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_blocks(), 0);
    assert_int_equal(beneath.syncs, 0);
    beneath.no_open = true;
    assert_int_equal(alloc(WEFT_GPU, 8, 0, 0, &block), WEFT_ERR_UNSUPPORTED);
    assert_string_equal(base_last_error(), "weft_alloc: no GPU here");
    assert_null(block);
}

/* ---------------------------------------------------------------------------------------- free */

static void freed_blocks_are_free_at_all_pes(void **state)
{
    (void)state;
    void *blocks[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(alloc(i % 2 ? WEFT_GPU : WEFT_HOST, 100, 0, 0, &blocks[i]), WEFT_OK);
    beneath.exchanges = 0;
    for (int i = 2; i < 4; i++) {
        assert_int_equal(weft_free(&ops.job, blocks[i]), WEFT_OK);
        assert_int_equal(beneath.request.operation, BOX_OP_FREE);
        assert_int_equal(beneath.request.bytes, 128);
        assert_int_equal(beneath.request.align, 0);
        assert_int_equal(beneath.request.offset, i % 2 ? OPS_GPU_SYSTEM + 128 : 128);
        assert_int_equal(beneath.request.kind, i % 2 ? WEFT_GPU : WEFT_HOST);
        assert_int_equal(beneath.record.operation, BOX_OP_FREE);
        assert_int_equal(beneath.record.offset, beneath.request.offset);
        assert_int_equal(beneath.record.bytes, 128);
        assert_int_equal(beneath.quiets, i - 1);
        assert_int_equal(weft_free(&ops.job, blocks[i]), WEFT_ERR_FREE);
    }
    assert_int_equal(beneath.exchanges, 2);
    assert_int_equal(host_blocks(), 1);
    assert_int_equal(gpu_blocks(), 1);
    assert_int_equal(weft_free(&ops.job, NULL), WEFT_OK);
    assert_int_equal(beneath.exchanges, 2);
    beneath.no_quiet = true;
    assert_int_equal(weft_free(&ops.job, blocks[0]), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.exchanges, 2);
    beneath.no_quiet = false;
    beneath.exchange_fails_in = 0;
    assert_int_equal(weft_free(&ops.job, blocks[0]), WEFT_ERR_PEER_DEAD);
    beneath.failed = true;
    assert_int_equal(weft_free(&ops.job, blocks[0]), WEFT_ERR_PEER_DEAD);
    assert_int_equal(host_blocks(), 1);
    assert_int_equal(weft_free(NULL, blocks[0]), WEFT_ERR_ARGUMENT);
}

static void only_blocks_of_the_program_are_freed(void **state)
{
    (void)state;
    void *block;
    assert_int_equal(alloc(WEFT_HOST, 100, 0, 0, &block), WEFT_OK);
    char *const wrong[] = {(char *)block + 64, ops_heaps[OPS_PE] + OPS_HEAP,
                           (char *)(uintptr_t)OPS_GPU, (char *)(uintptr_t)(OPS_GPU + OPS_GPU_BYTES),
                           (char *)(uintptr_t)OPS_OWN_GPU};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(weft_free(&ops.job, wrong[i]), WEFT_ERR_FREE);
    ops.job.gpu = NULL;
    assert_int_equal(weft_free(&ops.job, (char *)(uintptr_t)OPS_GPU), WEFT_ERR_FREE);
    assert_int_equal(gpu_blocks(), 0);
    assert_int_equal(host_blocks(), 1);
}

/* ------------------------------------------------------------------------------------- realloc */

static void a_block_stays_while_more_than_half_of_it_is_used(void **state)
{
    (void)state;
    void *block, *resized;
    static const struct {
        size_t bytes;
        bool stays;
    } rows[] = {{256, true}, {129, true}, {200, true}, {128, false}, {257, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(alloc(WEFT_HOST, 256, 0, 0, &block), WEFT_OK);
        beneath.exchanges = 0;
        assert_int_equal(weft_realloc(&ops.job, block, rows[i].bytes, &resized), WEFT_OK);
        assert_int_equal(resized == block, rows[i].stays);
        assert_int_equal(beneath.exchanges, rows[i].stays ? 1 : 4);
        assert_int_equal(host_blocks(), 1);
        assert_int_equal(beneath.quiets, i + 1);
        if (rows[i].stays) {
            assert_int_equal(beneath.request.operation, BOX_OP_REALLOC);
            assert_int_equal(beneath.request.bytes, rows[i].bytes);
            assert_int_equal(beneath.request.align, 0);
            assert_int_equal(beneath.record.operation, BOX_OP_REALLOC);
            assert_int_equal(beneath.record.bytes, rows[i].bytes);
        }
        assert_int_equal(weft_free(&ops.job, resized), WEFT_OK);
        beneath.quiets = (int)i + 1;
    }
    assert_int_equal(beneath.syncs, 2);
}

static void a_moved_block_keeps_its_bytes(void **state)
{
    (void)state;
    void *block, *resized;
    for (int grows = 0; grows < 2; grows++) {
        assert_int_equal(alloc(WEFT_HOST, 512, 256, 0, &block), WEFT_OK);
        memset(block, 7, 512);
        assert_int_equal(weft_realloc(&ops.job, block, grows ? 1000 : 100, &resized), WEFT_OK);
        assert_ptr_not_equal(resized, block);
        assert_true(is_filled(resized, 7, grows ? 512 : 100));
        assert_false(is_filled((char *)resized + (grows ? 512 : 100), 7, 1));
        assert_int_equal(beneath.record.offset, 256); /* the block keeps its alignment */
        assert_int_equal(beneath.operation, BOX_OP_REALLOC);
        assert_int_equal(host_blocks(), 1);
        memset(ops_heaps[OPS_PE], 0x5a, OPS_HEAP);
        assert_int_equal(weft_free(&ops.job, resized), WEFT_OK);
    }
    assert_int_equal(alloc(WEFT_GPU, 512, 0, 0, &block), WEFT_OK);
    assert_int_equal(weft_realloc(&ops.job, block, 100, &resized), WEFT_OK);
    assert_int_equal(beneath.copies, 1);
    assert_ptr_equal(beneath.copy_dst, resized);
    assert_ptr_equal(beneath.copy_src, block);
    assert_int_equal(beneath.copy_bytes, 100);
    assert_int_equal(beneath.outcome.offset, 0);
    assert_int_equal(gpu_blocks(), 1);
    beneath.no_sync = true;
    assert_int_equal(weft_realloc(&ops.job, resized, 0, &block), WEFT_OK);
    assert_null(block);
    assert_int_equal(gpu_blocks(), 0);
    assert_int_equal(weft_realloc(&ops.job, NULL, 40, &block), WEFT_OK);
    assert_int_equal(beneath.request.kind, WEFT_HOST);
    assert_int_equal(beneath.request.align, 0);
    assert_int_equal(host_blocks(), 1);
    assert_int_equal(weft_realloc(&ops.job, block, 400, &resized), WEFT_ERR_PEER_DEAD);
}

static void a_move_that_fails_leaves_the_old_block(void **state)
{
    (void)state;
    void *block, *resized = &beneath;
    assert_int_equal(alloc(WEFT_GPU, 512, 0, 0, &block), WEFT_OK);
    beneath.no_copy = true;
    assert_int_equal(weft_realloc(&ops.job, block, 100, &resized), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "no copy");
    assert_null(resized);
    assert_int_equal(beneath.outcome.status, WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_blocks(), 1);
    beneath.no_copy = false;
    beneath.exchanges = 0;
    beneath.patch = last_fails;
    beneath.patch_in = 3;
    assert_int_equal(weft_realloc(&ops.job, block, 100, &resized), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "weft_realloc: PE "));
    assert_int_equal(gpu_blocks(), 1);
    beneath.patch = NULL;
    beneath.no_grow = true;
    beneath.copies = 0;
    assert_int_equal(weft_realloc(&ops.job, block, 1000, &resized), WEFT_ERR_NO_MEMORY);
    assert_int_equal(beneath.copies, 0);
    beneath.no_grow = false;
    beneath.exchange_fails_in = 0;
    assert_int_equal(weft_realloc(&ops.job, block, 1000, &resized), WEFT_ERR_PEER_DEAD);
    beneath.exchange_fails_in = -1;
    beneath.no_quiet = true;
    beneath.exchanges = 0;
    assert_int_equal(weft_realloc(&ops.job, block, 1000, &resized), WEFT_ERR_SYSTEM);
    beneath.records = 0;
    assert_int_equal(weft_realloc(&ops.job, (char *)block + 64, 1000, &resized), WEFT_ERR_FREE);
    assert_int_equal(beneath.records + beneath.exchanges, 0);
    assert_int_equal(weft_realloc(&ops.job, block, 1000, NULL), WEFT_ERR_ARGUMENT);
    assert_int_equal(gpu_blocks(), 1);
    assert_int_equal(weft_free(&ops.job, block), WEFT_ERR_SYSTEM);
}

/* ----------------------------------------------------------------------------------- addresses */

static void addresses_of_peers_are_where_the_path_maps_them(void **state)
{
    (void)state;
    char *own = ops_heaps[OPS_PE] + 40, *gpu = (char *)(uintptr_t)(OPS_GPU + OPS_GPU_SYSTEM + 8);
    assert_ptr_equal(weft_ptr(&ops.job, own, 2), ops_heaps[2] + 40);
    assert_ptr_equal(weft_ptr(&ops.job, own, 0), ops_heaps[0] + 40);
    assert_ptr_equal(weft_ptr(&ops.job, gpu, 2), ops_at(2, SEG_GPU, OPS_GPU_SYSTEM + 8));
    assert_int_equal(ops.addresses, 3);
    ops.path.direct = false;
    assert_null(weft_ptr(&ops.job, own, 2));
    assert_ptr_equal(weft_ptr(&ops.job, own, OPS_PE), own);
    assert_int_equal(ops.addresses, 3);
    ops.path.direct = true;
    ops.addresses_fail_in = 0;
    assert_null(weft_ptr(&ops.job, own, 2));
    assert_null(weft_ptr(&ops.job, own, -1));
    assert_null(weft_ptr(&ops.job, own, OPS_PES));
    assert_null(weft_ptr(NULL, own, 2));
    assert_null(weft_ptr(&ops.job, ops_heaps[OPS_PE] + OPS_HEAP, 2));
    assert_non_null(weft_ptr(&ops.job, ops_heaps[OPS_PE] + OPS_HEAP - 1, 2));
    ops.job.state = JOB_FINALIZED;
    assert_null(weft_ptr(&ops.job, own, OPS_PE));
}

static void memory_with_a_path_is_accessible(void **state)
{
    (void)state;
    char *own = ops_heaps[OPS_PE] + 40, *gpu = (char *)(uintptr_t)(OPS_GPU + OPS_GPU_SYSTEM + 8);
    assert_int_equal(weft_accessible(&ops.job, own, 2), 1);
    assert_int_equal(weft_accessible(&ops.job, own, 0), 1);
    ops.choices[WEFT_GPU][2].path = PATH_NONE;
    assert_int_equal(weft_accessible(&ops.job, own, 2), 1);
    assert_int_equal(weft_accessible(&ops.job, gpu, 2), 0);
    assert_int_equal(weft_accessible(&ops.job, gpu, 0), 1);
    ops.job.paths.choices[WEFT_GPU] = NULL;
    assert_int_equal(weft_accessible(&ops.job, gpu, 0), 0);
    assert_int_equal(weft_accessible(&ops.job, own, -1), 0);
    assert_int_equal(weft_accessible(&ops.job, own, OPS_PES), 0);
    assert_int_equal(weft_accessible(NULL, own, 2), 0);
    assert_int_equal(weft_accessible(&ops.job, ops_heaps[OPS_PE] + OPS_HEAP, 2), 0);
    assert_int_equal(weft_accessible(&ops.job, ops_heaps[OPS_PE] + OPS_HEAP - 1, 2), 1);
    ops.job.state = JOB_FINALIZED;
    assert_int_equal(weft_accessible(&ops.job, own, 2), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(host_blocks_come_from_the_heap),
        TEST(gpu_blocks_have_memory_behind_them),
        TEST(nothing_is_allocated_for_no_bytes),
        TEST(wrong_arguments_are_refused_before_any_exchange),
        TEST(different_requests_are_named),
        TEST(what_fails_at_one_pe_is_undone_at_all),
        TEST(a_full_heap_is_named_and_reported),
        TEST(a_heap_that_is_not_aligned_refuses_alignment),
        TEST(a_gpu_block_without_memory_is_given_back),
        TEST(freed_blocks_are_free_at_all_pes),
        TEST(only_blocks_of_the_program_are_freed),
        TEST(a_block_stays_while_more_than_half_of_it_is_used),
        TEST(a_moved_block_keeps_its_bytes),
        TEST(a_move_that_fails_leaves_the_old_block),
        TEST(addresses_of_peers_are_where_the_path_maps_them),
        TEST(memory_with_a_path_is_accessible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric addresses are translated into segments and offsets, and the message for a wrong range
 * names the error. Also tested: copies of few bytes, and waits for variables in GPU memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/held_locks.h"
#include "tests/unit/ops_path.h"

#include "gpu/register.h"
#include "job/waiter.h"
#include "memory/heap.h"

#include <stdio.h>

enum { AT = 128, PEER = 2 };

static struct {
    bool failed, adopted, no_peek;
    size_t adopt_offset, adopt_bytes;
    int peeks, slices, slow, left, slow_fails_in, slices_fail_in;
    int met_in;             /* number of reads until the variable has its final value */
    uint64_t before, after; /* the variable's bits before and at that read */
    uint64_t seen;
    struct gpu_asked {
        CUdeviceptr at;
        size_t width;
        bool is_signed;
        weft_cmp cmp;
        int64_t value;
        uint64_t slice_ns;
    } asked;
} beneath;

static struct box_wait wait_slot;

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return beneath.failed ? base_fail(WEFT_ERR_PEER_DEAD, "a PE is dead") : WEFT_OK;
}

bool __wrap_gpu_registered_holds(struct gpu_heap *heap, size_t offset, size_t bytes);
bool __wrap_gpu_registered_holds(struct gpu_heap *heap, size_t offset, size_t bytes)
{
    assert_ptr_equal(heap, &ops.gpu.heap);
    beneath.adopt_offset = offset;
    beneath.adopt_bytes = bytes;
    return beneath.adopted;
}

bool __wrap_gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *bits);
bool __wrap_gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *bits)
{
    assert_true(gpu == &ops.gpu && width <= 8);
    assert_int_equal(at, OPS_GPU + AT);
    *bits = beneath.peeks++ < beneath.met_in ? beneath.before : beneath.after;
    return !beneath.no_peek;
}

weft_status __wrap_gpu_wait_slice(struct gpu *gpu, CUdeviceptr at, size_t width, bool is_signed,
                                  weft_cmp cmp, int64_t value, uint64_t slice_ns, uint64_t *seen,
                                  bool *met);
weft_status __wrap_gpu_wait_slice(struct gpu *gpu, CUdeviceptr at, size_t width, bool is_signed,
                                  weft_cmp cmp, int64_t value, uint64_t slice_ns, uint64_t *seen,
                                  bool *met)
{
    assert_ptr_equal(gpu, &ops.gpu);
    beneath.asked = (struct gpu_asked){at, width, is_signed, cmp, value, slice_ns};
    *met = beneath.slices++ >= beneath.met_in;
    *seen = *met ? beneath.after : beneath.before;
    return beneath.slices_fail_in-- ? WEFT_OK : base_fail(WEFT_ERR_SYSTEM, "no slice");
}

weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen);
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen)
{
    waiter->slot = &wait_slot;
    beneath.slow++;
    beneath.seen = seen;
    return beneath.slow_fails_in-- ? WEFT_OK : base_fail(WEFT_ERR_TIMEOUT, "too long");
}

void __wrap_waiter_unpublish(struct waiter *waiter);
void __wrap_waiter_unpublish(struct waiter *waiter)
{
    assert_ptr_equal(waiter->slot, &wait_slot);
    beneath.left++;
}

static void begin(bool gpu)
{
    memset(&beneath, 0, sizeof beneath);
    beneath.slow_fails_in = beneath.slices_fail_in = -1;
    ops_begin();
    ops_path_begin(gpu, false);
}

static int set_up(void **state)
{
    (void)state;
    begin(true);
    return 0;
}

static char *own(size_t offset)
{
    return ops_heaps[OPS_PE] + offset;
}

static char *gpu_at(size_t offset)
{
    return (char *)(uintptr_t)(OPS_GPU + (int)offset);
}

static void assert_says(const char *words)
{
    if (!strstr(base_last_error(), words))
        fail_msg("it says: %s", base_last_error());
}

/* --------------------------------------------------------------------------------------- ranges */

static void a_range_lies_in_one_segment(void **state)
{
    (void)state;
    static char data[64];
    ops.ctx.seg[SEG_DATA].base = (uintptr_t)data;
    ops.ctx.seg[SEG_DATA].size = sizeof data;
    ops.ctx.skipped[SEG_DATA] = 256;
    const struct {
        const char *at;
        size_t bytes;
        bool found;
        enum segment_id segment;
        size_t offset;
    } rows[] = {
        {own(0), OPS_HEAP, true, SEG_HEAP, 0},
        {own(0), OPS_HEAP + 1, false, SEG_HEAP, 0},
        {own(OPS_HEAP - 1), 1, true, SEG_HEAP, OPS_HEAP - 1},
        {own(OPS_HEAP - 1), 0, true, SEG_HEAP, OPS_HEAP - 1},
        {own(OPS_HEAP), 0, false, SEG_HEAP, 0},
        {own(5), SIZE_MAX, false, SEG_HEAP, 0},
        {data + 8, 56, true, SEG_DATA, 264},
        {data + 8, 57, false, SEG_DATA, 0},
        {gpu_at(OPS_GPU_SYSTEM), 8, true, SEG_GPU, OPS_GPU_SYSTEM},
        {gpu_at(OPS_GPU_SYSTEM - 1), 8, false, SEG_GPU, 0},
        {gpu_at(OPS_GPU_BYTES - 8), 8, true, SEG_GPU, OPS_GPU_BYTES - 8},
        {gpu_at(OPS_GPU_BYTES - 8), 9, false, SEG_GPU, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum segment_id segment;
        size_t offset = 77;
        assert_int_equal(access_find(&ops.ctx, rows[i].at, rows[i].bytes, &segment, &offset),
                         rows[i].found);
        struct remote remote;
        assert_int_equal(access_resolve("f", &ops.ctx, rows[i].at, rows[i].bytes, PEER, &remote) ==
                             WEFT_OK,
                         rows[i].found);
        if (!rows[i].found)
            continue;
        assert_int_equal(segment, rows[i].segment);
        assert_int_equal(offset, rows[i].offset);
        assert_int_equal(remote.segment, rows[i].segment);
        assert_int_equal(remote.offset, rows[i].offset);
        assert_ptr_equal(remote.peer,
                         &ops.peers[rows[i].segment == SEG_GPU ? WEFT_GPU : WEFT_HOST][PEER]);
    }
}

static void a_wrong_range_is_told_exactly(void **state)
{
    (void)state;
    enum segment_id segment;
    size_t offset;
    char words[200];
    struct remote remote;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            i ? access_resolve("f", &ops.ctx, own(OPS_HEAP - 8), 9, PEER, &remote)
              : access_find_own("f", &ops.ctx, own(OPS_HEAP - 8), 9, &segment, &offset),
            WEFT_ERR_RANGE);
        snprintf(words, sizeof words,
                 "f: 9 bytes at %p run past the end of the heap segment: it has 8192 bytes, 8 of",
                 (void *)own(OPS_HEAP - 8));
        assert_says(words);
        assert_int_equal(
            i ? access_resolve("f", &ops.ctx, gpu_at(OPS_GPU_BYTES - 8), 9, PEER, &remote)
              : access_find_own("f", &ops.ctx, gpu_at(OPS_GPU_BYTES - 8), 9, &segment, &offset),
            WEFT_ERR_RANGE);
        assert_says("the end of the GPU heap segment");
        assert_int_equal(i ? access_resolve("f", &ops.ctx, NULL, 9, PEER, &remote)
                           : access_find_own("f", &ops.ctx, NULL, 9, &segment, &offset),
                         WEFT_ERR_ARGUMENT);
        assert_says("f: the symmetric address is null");
        assert_int_equal(i ? access_resolve("f", &ops.ctx, own(OPS_HEAP), 9, PEER, &remote)
                           : access_find_own("f", &ops.ctx, own(OPS_HEAP), 9, &segment, &offset),
                         WEFT_ERR_ADDRESS);
        snprintf(words, sizeof words,
                 "f: %p is not a symmetric address: the heap of PE 1 is %p ... %p",
                 (void *)own(OPS_HEAP), (void *)own(0), (void *)own(OPS_HEAP));
        assert_says(words);
    }
    assert_int_equal(access_resolve("f", &ops.ctx, own(0), 9, OPS_PES, &remote), WEFT_ERR_PE);
    assert_says("f: PE 3 does not exist; the PEs here are 0 ... 2");
    assert_int_equal(access_resolve("f", &ops.ctx, gpu_at(OPS_GPU_SYSTEM), 9, -1, &remote),
                     WEFT_ERR_PE);
    assert_int_equal(access_resolve_aligned("f", &ops.ctx, own(12), 4, PEER, &remote), WEFT_OK);
    assert_int_equal(access_resolve_aligned("f", &ops.ctx, own(12), 8, PEER, &remote),
                     WEFT_ERR_ALIGNMENT);
    assert_int_equal(access_resolve_aligned("f", &ops.ctx, own(OPS_HEAP), 8, PEER, &remote),
                     WEFT_ERR_ADDRESS);
}

static void memory_of_the_programs_own_is_found_behind_the_segments(void **state)
{
    (void)state;
    enum segment_id segment;
    size_t offset;
    char *address = gpu_at(OPS_GPU_BYTES + 64);
    beneath.adopted = true;
    /* Find does not register memory. */
    assert_false(access_find(&ops.ctx, address, 24, &segment, &offset));
    ops.gpu.heap.registered = (struct gpu_registered *)&wait_slot;
    assert_true(access_find(&ops.ctx, address, 24, &segment, &offset));
    assert_int_equal(segment, SEG_GPU);
    assert_int_equal(offset, OPS_GPU_BYTES + 64);
    assert_int_equal(beneath.adopt_offset, OPS_GPU_BYTES + 64);
    assert_int_equal(beneath.adopt_bytes, 24);
    beneath.adopted = false;
    assert_false(access_find(&ops.ctx, address, 24, &segment, &offset));
    beneath.adopted = true;
    ops.ctx.gpu = NULL;
    assert_false(access_find(&ops.ctx, address, 24, &segment, &offset));
}

/* ------------------------------------------------------------------------------------- contexts */

static void contexts_that_may_not_be_used_are_told(void **state)
{
    (void)state;
    enum segment_id segment;
    size_t offset;
    struct remote remote;
    for (int gpu = 0; gpu < 2; gpu++) {
        char *address = gpu ? gpu_at(OPS_GPU_SYSTEM) : own(0);
        begin(true);
        assert_int_equal(access_resolve("f", NULL, address, 8, PEER, &remote), WEFT_ERR_ARGUMENT);
        assert_says("f: ctx is null");
        assert_int_equal(access_find_own("f", NULL, address, 8, &segment, &offset),
                         WEFT_ERR_ARGUMENT);
        ops.ctx.options = WEFT_CTX_PRIVATE; /* owned by another thread */
        ops.ctx.owner_number = 4711;
        assert_int_equal(access_resolve("f", &ops.ctx, address, 8, PEER, &remote),
                         WEFT_ERR_ARGUMENT);
        assert_says("WEFT_CTX_PRIVATE by thread 4711 and is used by thread");
        assert_int_equal(access_find_own("f", &ops.ctx, address, 8, &segment, &offset),
                         WEFT_ERR_ARGUMENT);
        bool before = access_act_for_others(true);
        assert_false(before);
        assert_int_equal(access_resolve("f", &ops.ctx, address, 8, PEER, &remote), WEFT_OK);
        assert_true(access_act_for_others(before));
        ops.ctx.owner = &job_acts_for_others;
        assert_int_equal(access_resolve("f", &ops.ctx, address, 8, PEER, &remote), WEFT_OK);
        ops.ctx.options = 0;
        beneath.failed = true;
        ops.fault = 1;
        assert_int_equal(access_resolve("f", &ops.ctx, address, 8, PEER, &remote),
                         WEFT_ERR_PEER_DEAD);
        assert_int_equal(access_find_own("f", &ops.ctx, address, 8, &segment, &offset),
                         WEFT_ERR_PEER_DEAD);
        ops.fault = 0;
        beneath.failed = false;
        ops.ctx.npes = 0;
        assert_int_equal(access_resolve("f", &ops.ctx, address, 8, PEER, &remote),
                         WEFT_ERR_ARGUMENT);
        assert_says("f: the context has been destroyed");
        ops.job.state = JOB_FINALIZED;
        assert_int_equal(access_resolve("f", &ops.ctx, address, 8, PEER, &remote),
                         WEFT_ERR_FINALIZED);
        assert_int_equal(access_find_own("f", &ops.ctx, address, 8, &segment, &offset),
                         WEFT_ERR_FINALIZED);
    }
}

static void checking_mode_knows_the_blocks_of_the_heap(void **state)
{
    (void)state;
    enum segment_id segment;
    size_t offset;
    struct remote remote;
    ops.job.heap = heap_create(OPS_HEAP);
    assert_int_equal(heap_alloc(ops.job.heap, 64, 64, &offset), WEFT_OK);
    assert_int_equal(offset, 0);
    assert_int_equal(access_resolve("f", &ops.ctx, own(0), 65, PEER, &remote), WEFT_OK);
    ops.job.checking = true;
    assert_int_equal(access_resolve("f", &ops.ctx, own(0), 64, PEER, &remote), WEFT_OK);
    assert_int_equal(access_resolve("f", &ops.ctx, own(0), 65, PEER, &remote), WEFT_ERR_ADDRESS);
    assert_says("f: 65 bytes at ");
    assert_says("do not lie in one allocated block");
    assert_int_equal(access_find_own("f", &ops.ctx, own(0), 64, &segment, &offset), WEFT_OK);
    assert_int_equal(access_find_own("f", &ops.ctx, own(0), 65, &segment, &offset),
                     WEFT_ERR_ADDRESS);
    assert_int_equal(access_find_own("f", &ops.ctx, gpu_at(OPS_GPU_SYSTEM), 65, &segment, &offset),
                     WEFT_OK); /* access has no block records for this memory */
    assert_int_equal(access_resolve("f", &ops.ctx, gpu_at(OPS_GPU_SYSTEM), 65, PEER, &remote),
                     WEFT_OK);
    heap_destroy(ops.job.heap);
    assert_true(none_is_held());
}

/* ------------------------------------------------------------------- addresses of mapped memory */

static void quick_addresses_are_those_of_mapped_memory(void **state)
{
    (void)state;
    struct peer *peer = &ops.peers[0][0];
    size_t offset = 7;
    begin(false);
    assert_ptr_equal(access_direct(&ops.ctx, own(AT), 8, PEER, &peer, &offset),
                     ops_heaps[PEER] + AT);
    assert_ptr_equal(peer, &ops.peers[WEFT_HOST][PEER]);
    assert_int_equal(offset, AT);
    assert_null(access_direct(&ops.ctx, own(AT), 8, OPS_PES, &peer, &offset));
    assert_null(peer);
    assert_int_equal(offset, 0);
    assert_null(access_direct(&ops.ctx, own(AT), 8, -1, &peer, &offset));
    assert_null(access_direct(NULL, own(AT), 8, PEER, &peer, &offset));
    assert_null(access_guarded(NULL, own(AT), 8, PEER, &peer, &offset));
    assert_null(access_guarded(&ops.ctx, own(AT), 8, OPS_PES, &peer, &offset));
    assert_non_null(access_direct(&ops.ctx, own(OPS_HEAP - 8), 8, PEER, &peer, &offset));
    assert_null(access_direct(&ops.ctx, own(OPS_HEAP - 8), 9, PEER, &peer, &offset));
    assert_null(access_direct(&ops.ctx, own(OPS_HEAP), 0, PEER, &peer, &offset));
    ops.fault = 1;
    assert_null(access_direct(&ops.ctx, own(AT), 8, PEER, &peer, &offset));
    assert_null(access_guarded(&ops.ctx, own(AT), 8, PEER, &peer, &offset));
    begin(true);
    assert_null(access_direct(&ops.ctx, own(AT), 8, PEER, &peer, &offset));
    assert_ptr_equal(access_guarded(&ops.ctx, own(AT), 8, PEER, &peer, &offset),
                     ops_heaps[PEER] + AT);
    struct remote remote;
    const struct {
        size_t at, bytes;
        int pe;
        bool found;
    } rows[] = {{OPS_GPU_SYSTEM, 8, PEER, true},      {OPS_GPU_BYTES - 8, 8, PEER, true},
                {OPS_GPU_BYTES - 8, 9, PEER, false},  {OPS_GPU_BYTES, 0, PEER, false},
                {OPS_GPU_SYSTEM - 8, 8, PEER, false}, {OPS_GPU_SYSTEM, 8, OPS_PES, false},
                {OPS_GPU_SYSTEM, 8, -1, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(
            access_gpu_heap(&ops.ctx, gpu_at(rows[i].at), rows[i].bytes, rows[i].pe, &remote),
            rows[i].found);
        if (rows[i].found) {
            assert_ptr_equal(remote.peer, &ops.peers[WEFT_GPU][PEER]);
            assert_int_equal(remote.offset, rows[i].at);
            assert_int_equal(remote.segment, SEG_GPU);
        }
    }
    assert_false(access_gpu_heap(NULL, gpu_at(OPS_GPU_SYSTEM), 8, PEER, &remote));
    ops.ctx.options = WEFT_CTX_PRIVATE;
    assert_false(access_gpu_heap(&ops.ctx, gpu_at(OPS_GPU_SYSTEM), 8, PEER, &remote));
    ops.ctx.options = 0;
    ops.fault = 1;
    assert_false(access_gpu_heap(&ops.ctx, gpu_at(OPS_GPU_SYSTEM), 8, PEER, &remote));
}

static void few_bytes_are_copied_and_no_others(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= 40; bytes++) {
        char from[48], to[48];
        for (int i = 0; i < 48; i++) {
            from[i] = (char)(i + 1);
            to[i] = (char)(100 + i);
        }
        access_copy(to, from, bytes);
        for (int i = 0; i < 48; i++) {
            assert_int_equal((unsigned char)to[i], (size_t)i < bytes ? i + 1 : 100 + i);
            assert_int_equal(from[i], i + 1);
        }
    }
}

/* ---------------------------------------------------------------------------------------- waits */

static weft_status wait_for(weft_cmp cmp, uint64_t value, size_t width, bool is_signed,
                            uint64_t *seen)
{
    struct waiter waiter = WAITER(&ops.job, BOX_OP_WAIT, -1);
    waiter.compare = cmp;
    waiter.expected = value;
    return access_wait_device(&ops.ctx, &waiter, gpu_at(AT), width, is_signed, seen);
}

static void the_cpu_polls_where_it_maps_the_variable(void **state)
{
    (void)state;
    static const struct {
        size_t width;
        bool is_signed;
        uint64_t bits, value, seen;
    } rows[] = {{4, true, 0xfffffffb, (uint64_t)-4, (uint64_t)-5},
                {4, false, 3, 0xfffffffb, 3},
                {2, true, 0xfffe, 0, (uint64_t)-2},
                {8, true, (uint64_t)-2, (uint64_t)-1, (uint64_t)-2},
                {8, false, 4, 5, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t seen = 0;
        begin(true);
        beneath.met_in = 2;
        beneath.before = 7; /* greater than the value that ends the wait */
        beneath.after = rows[i].bits;
        weft_cmp cmp = WEFT_LT;
        if (!rows[i].is_signed && rows[i].value > 7)
            beneath.before = 0xfffffffc;
        if (rows[i].width == 8 && !rows[i].is_signed)
            beneath.before = (uint64_t)-3;
        assert_int_equal(wait_for(cmp, rows[i].value, rows[i].width, rows[i].is_signed, &seen),
                         WEFT_OK);
        assert_int_equal(seen, rows[i].seen);
        assert_int_equal(beneath.peeks, 3);
        assert_int_equal(beneath.slow, 2);
        assert_int_equal(beneath.left, 1);
        assert_int_equal(beneath.slices, 0);
        assert_int_equal(beneath.seen, beneath.before);
    }
    begin(true);
    beneath.met_in = 9;
    beneath.slow_fails_in = 1;
    beneath.before = 3;
    uint64_t seen = 0;
    assert_int_equal(wait_for(WEFT_EQ, 4, 8, false, &seen), WEFT_ERR_TIMEOUT);
    assert_int_equal(seen, 3);
    assert_int_equal(beneath.peeks, 2);
    assert_int_equal(beneath.slices, 0);
    assert_int_equal(beneath.left, 1);
}

static void the_gpu_polls_for_a_slice_of_time_elsewhere(void **state)
{
    (void)state;
    uint64_t seen = 0;
    beneath.no_peek = true;
    beneath.met_in = 2;
    beneath.before = (uint64_t)-9;
    beneath.after = 6;
    assert_int_equal(wait_for(WEFT_NE, (uint64_t)-9, 4, true, &seen), WEFT_OK);
    assert_int_equal(seen, 6);
    assert_int_equal(beneath.slices, 3);
    assert_int_equal(beneath.slow, 2);
    assert_int_equal(beneath.seen, (uint64_t)-9);
    assert_int_equal(beneath.left, 1);
    assert_int_equal(beneath.asked.at, OPS_GPU + AT);
    assert_int_equal(beneath.asked.width, 4);
    assert_true(beneath.asked.is_signed);
    assert_int_equal(beneath.asked.cmp, WEFT_NE);
    assert_int_equal(beneath.asked.value, -9);
    assert_int_equal(beneath.asked.slice_ns, 2000000);
    beneath.slices = beneath.slow = 0;
    beneath.slices_fail_in = 1;
    assert_int_equal(wait_for(WEFT_NE, (uint64_t)-9, 4, true, NULL), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.slices, 2);
    assert_int_equal(beneath.slow, 1);
    beneath.slices = beneath.slow = 0;
    beneath.slices_fail_in = -1;
    beneath.slow_fails_in = 0;
    assert_int_equal(wait_for(WEFT_NE, (uint64_t)-9, 4, true, NULL), WEFT_ERR_TIMEOUT);
    assert_int_equal(beneath.slices, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_range_lies_in_one_segment),
        TEST(a_wrong_range_is_told_exactly),
        TEST(memory_of_the_programs_own_is_found_behind_the_segments),
        TEST(contexts_that_may_not_be_used_are_told),
        TEST(checking_mode_knows_the_blocks_of_the_heap),
        TEST(quick_addresses_are_those_of_mapped_memory),
        TEST(few_bytes_are_copied_and_no_others),
        TEST(the_cpu_polls_where_it_maps_the_variable),
        TEST(the_gpu_polls_for_a_slice_of_time_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fakes of the functions that ops/setup/alloc.c calls. coll_compare_records() plays the other PEs,
 * and each call can be made to fail. Include cmocka.h first. The program is linked with --wrap of
 * all of them (CMakeLists.txt). */
#ifndef WEFT_TESTS_UNIT_ALLOC_H
#define WEFT_TESTS_UNIT_ALLOC_H

#include "tests/unit/held_locks.h"
#include "tests/unit/ops_job.h"

#include "memory/heap.h"
#include "ops/coll/coll.h"

#include <stdio.h>

/* Exchange record of one PE, with the layout that ops/setup/alloc.c uses. */
struct request {
    uint64_t operation, bytes, align, offset, kind;
};
struct outcome {
    int64_t status;
    uint64_t offset;
};

static struct {
    int exchanges, syncs, opens, grows, fills, copies, quiets, pins, records, job_fails;
    int exchange_fails_in; /* number of exchanges that succeed before one fails */
    int patch_in;          /* the exchange in which patch() changes the other PEs' records */
    void (*patch)(void *all);
    bool no_open, no_grow, no_fill, no_copy, no_quiet, no_sync, failed, disagree;
    struct request request;
    struct outcome outcome;
    enum box_operation operation;
    size_t grown, pinned, fill_bytes;
    const void *filled, *copy_dst, *copy_src;
    size_t copy_bytes;
    struct {
        enum box_operation operation;
        uint64_t offset, bytes;
    } record;
} beneath;

static unsigned char scratch[OPS_PES * PACKET_BYTES + PACKET_BYTES];

weft_status __wrap_coll_compare_records(struct weft_team *team, enum box_operation operation,
                                        const void *mine, size_t bytes, bool *same);
weft_status __wrap_coll_compare_records(struct weft_team *team, enum box_operation operation,
                                        const void *mine, size_t bytes, bool *same)
{
    char *all = team->scratch;
    assert_ptr_equal(team, &ops.team);
    assert_true(none_is_held());
    beneath.operation = operation;
    for (int i = 0; i < OPS_PES; i++)
        memcpy(all + (size_t)i * bytes, mine, bytes);
    if (bytes == sizeof beneath.request)
        memcpy(&beneath.request, mine, bytes);
    else
        memcpy(&beneath.outcome, mine, bytes);
    if (beneath.patch && beneath.exchanges == beneath.patch_in)
        beneath.patch(all);
    *same = true;
    for (int i = 0; i < OPS_PES; i++)
        *same &= memcmp(all + (size_t)i * bytes, mine, bytes) == 0;
    beneath.exchanges++;
    return beneath.exchange_fails_in-- ? WEFT_OK : base_fail(WEFT_ERR_PEER_DEAD, "nobody answers");
}

weft_status __wrap_coll_sync(struct weft_team *team, enum box_operation operation);
weft_status __wrap_coll_sync(struct weft_team *team, enum box_operation operation)
{
    assert_ptr_equal(team, &ops.team);
    beneath.syncs++;
    beneath.operation = operation;
    return beneath.no_sync ? base_fail(WEFT_ERR_PEER_DEAD, "no sync") : WEFT_OK;
}

weft_status __wrap_job_gpu_open(struct weft_job *job);
weft_status __wrap_job_gpu_open(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    beneath.opens++;
    job->gpu = &ops.gpu;
    return beneath.no_open ? base_fail(WEFT_ERR_UNSUPPORTED, "no GPU here") : WEFT_OK;
}

weft_status __wrap_job_gpu_grow(struct weft_job *job, size_t end);
weft_status __wrap_job_gpu_grow(struct weft_job *job, size_t end)
{
    assert_ptr_equal(job, &ops.job);
    beneath.grows++;
    beneath.grown = end;
    return beneath.no_grow ? base_fail(WEFT_ERR_NO_MEMORY, "no GPU memory") : WEFT_OK;
}

void __wrap_job_gpu_pin(struct weft_job *job, size_t end);
void __wrap_job_gpu_pin(struct weft_job *job, size_t end)
{
    assert_ptr_equal(job, &ops.job);
    beneath.pins++;
    beneath.pinned = end;
}

weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    assert_ptr_equal(boot, &ops.boot);
    return beneath.disagree ? base_fail(WEFT_ERR_SYSTEM, "another PE failed") : status;
}

weft_status __wrap_gpu_fill(struct gpu *gpu, void *address, unsigned char value, size_t bytes);
weft_status __wrap_gpu_fill(struct gpu *gpu, void *address, unsigned char value, size_t bytes)
{
    assert_ptr_equal(gpu, &ops.gpu);
    assert_int_equal(value, 0);
    beneath.fills++;
    beneath.filled = address;
    beneath.fill_bytes = bytes;
    return beneath.no_fill ? base_fail(WEFT_ERR_SYSTEM, "no fill") : WEFT_OK;
}

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner)
{
    assert_ptr_equal(gpu, &ops.gpu);
    assert_int_equal(lane, 0);
    assert_int_equal(manner, GPU_DONE);
    beneath.copies++;
    beneath.copy_dst = dst;
    beneath.copy_src = src;
    beneath.copy_bytes = bytes;
    return beneath.no_copy ? base_fail(WEFT_ERR_SYSTEM, "no copy") : WEFT_OK;
}

weft_status __wrap_weft_quiet(weft_ctx *ctx);
weft_status __wrap_weft_quiet(weft_ctx *ctx)
{
    assert_ptr_equal(ctx, &ops.ctx);
    beneath.quiets++;
    return beneath.no_quiet ? base_fail(WEFT_ERR_SYSTEM, "not quiet") : WEFT_OK;
}

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return beneath.failed ? base_fail(WEFT_ERR_PEER_DEAD, "a PE is dead") : WEFT_OK;
}

weft_status __wrap_job_fail(struct weft_job *job, weft_status status, const char *sentence);
weft_status __wrap_job_fail(struct weft_job *job, weft_status status, const char *sentence)
{
    assert_ptr_equal(job, &ops.job);
    beneath.job_fails++;
    return base_fail(status, "job: %s", sentence);
}

void __wrap_box_record(struct box *box, enum box_operation operation, int peer, uint64_t offset,
                       uint64_t bytes);
void __wrap_box_record(struct box *box, enum box_operation operation, int peer, uint64_t offset,
                       uint64_t bytes)
{
    assert_null(box);
    assert_int_equal(peer, -1);
    beneath.records++;
    beneath.record.operation = operation;
    beneath.record.offset = offset;
    beneath.record.bytes = bytes;
}

static int set_up(void **state)
{
    (void)state;
    memset(&beneath, 0, sizeof beneath);
    beneath.exchange_fails_in = -1;
    ops_begin();
    memset(ops_heaps[OPS_PE], 0x5a, OPS_HEAP);
    ops.team.scratch = scratch;
    ops.job.heap = heap_create(OPS_HEAP);
    ops.gpu.allocator = heap_create(OPS_GPU_BYTES);
    size_t system;
    assert_int_equal(heap_alloc(ops.gpu.allocator, OPS_GPU_SYSTEM, 64, &system), WEFT_OK);
    assert_int_equal(system, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(none_is_held());
    heap_destroy(ops.job.heap);
    heap_destroy(ops.gpu.allocator);
    return 0;
}

#endif

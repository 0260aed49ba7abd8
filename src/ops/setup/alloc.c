/* SPDX-License-Identifier: Apache-2.0 */
/* Collective allocation. Every PE makes the same calls on its own allocator (memory/heap.h), so the
 * offsets are equal. Before a call the PEs compare their arguments, because a mismatch would make
 * the heaps differ permanently without an error. After it they exchange their results: a failure at
 * one PE is a failure at all. */
#include "boot/agree.h"
#include "ops/coll/coll.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_ALIGN = 64 };

struct alloc_request {
    uint64_t operation, bytes, align, offset, kind;
};

/* Returns when all PEs have arrived with the same request and their earlier puts are complete. */
static weft_status compare_requests(const char *function, struct weft_job *job,
                                    struct alloc_request mine)
{
    const struct alloc_request *all = job->world->scratch;
    bool same;
    weft_status status = coll_compare_records(job->world, (enum box_operation)mine.operation, &mine,
                                              sizeof mine, &same);
    for (int pe = 0; pe < job->npes && !status && !same; pe++) {
        if (memcmp(&all[pe], &mine, sizeof mine) == 0)
            continue;
        status = base_fail(
            WEFT_ERR_MISMATCH,
            "%s: PE %d calls %s with %llu bytes, align %llu, offset %llu, kind %llu; PE %d calls "
            "%s "
            "with %llu bytes, align %llu, offset %llu, kind %llu",
            function, job->pe, box_operation_name((uint32_t)mine.operation),
            (unsigned long long)mine.bytes, (unsigned long long)mine.align,
            (unsigned long long)mine.offset, (unsigned long long)mine.kind, pe,
            box_operation_name((uint32_t)all[pe].operation), (unsigned long long)all[pe].bytes,
            (unsigned long long)all[pe].align, (unsigned long long)all[pe].offset,
            (unsigned long long)all[pe].kind);
    }
    return status;
}

/* The result of a step at one PE. */
struct step_result {
    int64_t status;
    uint64_t offset;
};

_Static_assert(sizeof(struct alloc_request) <= COLL_COMPARED_BYTES, "a request is one packet");

/* Ends a collective step; includes a sync. WEFT_OK: the step succeeded at every PE with the same
 * offset. Otherwise every PE returns an error (its own, if it has one) and undoes its step.
 * Different offsets fail the job, because its heaps then differ. */
static weft_status complete_step(const char *function, struct weft_job *job,
                                 enum box_operation operation, weft_status status, size_t offset)
{
    const struct step_result *all = job->world->scratch;
    struct step_result mine = {status, status ? 0 : offset};
    char sentence[512] = "";
    if (status)
        snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    bool same;
    weft_status exchanged = coll_compare_records(job->world, operation, &mine, sizeof mine, &same);
    if (status)
        return base_fail(status, "%s", sentence);
    for (int pe = 0; pe < job->npes && !exchanged && !same; pe++) {
        if (all[pe].status)
            return base_fail((weft_status)all[pe].status,
                             "%s: PE %d failed: %s; its own message says why", function, pe,
                             weft_status_text((weft_status)all[pe].status));
        if (all[pe].offset != offset) {
            base_fail(WEFT_ERR_MISMATCH,
                      "%s: the heaps of the PEs differ: offset %zu at PE %d, %llu at PE %d",
                      function, offset, job->pe, (unsigned long long)all[pe].offset, pe);
            exchanged = job_fail(job, WEFT_ERR_MISMATCH, weft_last_error());
        }
    }
    return exchanged;
}

static weft_status check_job(const char *function, struct weft_job *job, const void *result)
{
    if (!job || !result)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function, job ? "the result" : "job");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(function);
    return job_check_failed(job);
}

static weft_status allocate_offset(struct weft_job *job, struct heap *allocator, size_t bytes,
                                   size_t align, size_t *offset)
{
    pthread_mutex_lock(&job->lock);
    weft_status status = heap_alloc(allocator, bytes, align ? align : DEFAULT_ALIGN, offset);
    pthread_mutex_unlock(&job->lock);
    return status;
}

static void free_offset(struct weft_job *job, struct heap *allocator, size_t offset)
{
    pthread_mutex_lock(&job->lock);
    heap_free(allocator, offset);
    pthread_mutex_unlock(&job->lock);
}

/* Backs [0, offset + bytes) of every PE's GPU window with memory. Fails at every PE or at none. */
static weft_status back_gpu(struct weft_job *job, size_t offset, size_t bytes, unsigned flags)
{
    void *block = (void *)(uintptr_t)(gpu_heap_own(&job->gpu->heap)->base + offset);
    weft_status status = job_gpu_grow(job, offset + bytes);
    if (!status && flags & WEFT_ALLOC_ZERO)
        status = boot_agree(job->boot, gpu_fill(job->gpu, block, 0, bytes));
    return status;
}

static weft_status alloc_gpu(const char *function, struct weft_job *job, size_t bytes, size_t align,
                             unsigned flags, void **address)
{
    size_t offset = 0;
    weft_status status = job_gpu_open(job);
    if (status)
        return base_fail_context(status, "%s", function);
    struct heap *allocator = job->gpu->allocator;
    weft_status allocated = allocate_offset(job, allocator, bytes, align, &offset);
    if (allocated)
        base_fail_context(allocated, "%s: GPU heap of %zu bytes (WEFT_GPU_HEAP_SIZE)", function,
                          job->gpu->heap.size);
    status = complete_step(function, job, BOX_OP_ALLOC, allocated, offset);
    if (!status) {
        status = back_gpu(job, offset, bytes, flags);
        if (status)
            base_fail_context(status, "%s", function);
    }
    if (status && !allocated)
        free_offset(job, allocator, offset);
    if (status)
        return status;
    *address = (void *)(uintptr_t)(gpu_heap_own(&job->gpu->heap)->base + offset);
    return coll_sync(job->world, BOX_OP_ALLOC);
}

static weft_status alloc_host(const char *function, struct weft_job *job, size_t bytes,
                              size_t align, unsigned flags, void **address)
{
    size_t offset = 0;
    char *base = job->segments[SEG_HEAP].base;
    weft_status allocated = allocate_offset(job, job->heap, bytes, align, &offset);
    if (!allocated && align && (uintptr_t)(base + offset) & (align - 1)) {
        free_offset(job, job->heap, offset);
        allocated =
            base_fail(WEFT_ERR_NO_MEMORY,
                      "the heap of this PE is not aligned to %zu, because address space was "
                      "short when it was mapped (ulimit -v)",
                      align);
    }
    if (allocated)
        base_fail_context(allocated, "%s: host heap of %zu bytes (WEFT_HEAP_SIZE)", function,
                          job->segments[SEG_HEAP].size);
    /* Clears the block before the other PEs know of it, because they may then write to it. */
    if (!allocated && flags & WEFT_ALLOC_ZERO)
        memset(base + offset, 0, bytes);
    weft_status status = complete_step(function, job, BOX_OP_ALLOC, allocated, offset);
    if (status && !allocated)
        free_offset(job, job->heap, offset);
    if (status)
        return status;
    job_gpu_pin(job, offset + bytes);
    *address = base + offset;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                                   unsigned flags, void **address)
{
    static const char name[] = "weft_alloc";
    weft_status status = check_job(name, job, address);
    if (status)
        return status;
    *address = NULL;
    if (kind != WEFT_HOST && kind != WEFT_GPU)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: memory kind %d is not a weft_kind", name,
                         (int)kind);
    if (align & (align - 1))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: align %zu is not a power of two", name, align);
    const size_t most = kind == WEFT_HOST ? SEGMENT_OWN_ALIGN : SEGMENT_ALIGN;
    if (align > most)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: align %zu is more than %zu, the most for %s memory", name, align,
                         most, kind == WEFT_HOST ? "host" : "GPU");
    status = base_check_bits("weft_alloc: flags", flags, WEFT_ALLOC_ZERO);
    if (status)
        return status;
    box_record(job->box, BOX_OP_ALLOC, -1, align, bytes);
    status =
        compare_requests(name, job, (struct alloc_request){BOX_OP_ALLOC, bytes, align, 0, kind});
    if (status || bytes == 0)
        return status;
    return kind == WEFT_GPU ? alloc_gpu(name, job, bytes, align, flags, address)
                            : alloc_host(name, job, bytes, align, flags, address);
}

/* Returns the allocator of the heap that contains `address`, and the offset there. NULL: no heap
 * contains it. */
static struct heap *find_allocator(struct weft_job *job, const void *address, weft_kind *kind,
                                   size_t *offset)
{
    *kind = WEFT_HOST;
    *offset = (uintptr_t)address - (uintptr_t)job->segments[SEG_HEAP].base;
    if (*offset < job->segments[SEG_HEAP].size)
        return job->heap;
    if (!job->gpu)
        return NULL;
    *kind = WEFT_GPU;
    *offset = (uintptr_t)address - gpu_heap_own(&job->gpu->heap)->base;
    size_t ours = job->gpu->layout.system_bytes;
    return *offset >= ours && *offset < job->gpu->heap.size ? job->gpu->allocator : NULL;
}

struct alloc_block {
    struct heap *allocator;
    weft_kind kind;
    size_t offset, bytes;
    size_t align; /* as requested by the program */
};

/* Finds the allocated block that starts at `address`. */
static weft_status find_block(const char *function, struct weft_job *job, const void *address,
                              struct alloc_block *block)
{
    block->allocator = find_allocator(job, address, &block->kind, &block->offset);
    pthread_mutex_lock(&job->lock);
    block->bytes =
        block->allocator ? heap_block_size(block->allocator, block->offset, &block->align) : 0;
    pthread_mutex_unlock(&job->lock);
    if (block->bytes)
        return WEFT_OK;
    return base_fail(WEFT_ERR_FREE,
                     "%s: %p is not the start of an allocated block (freed twice, or not from "
                     "weft_alloc())",
                     function, address);
}

WEFT_EXPORT weft_status weft_free(weft_job *job, void *address)
{
    static const char name[] = "weft_free";
    weft_status status = check_job(name, job, job);
    if (status || !address)
        return status;
    struct alloc_block block;
    status = find_block(name, job, address, &block);
    if (status)
        return status;
    box_record(job->box, BOX_OP_FREE, -1, block.offset, block.bytes);
    status = weft_quiet(job->default_ctx);
    if (!status)
        status = compare_requests(
            name, job,
            (struct alloc_request){BOX_OP_FREE, block.bytes, 0, block.offset, block.kind});
    if (status)
        return status;
    free_offset(job, block.allocator, block.offset);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_realloc(weft_job *job, void *address, size_t bytes, void **resized)
{
    static const char name[] = "weft_realloc";
    weft_status status = check_job(name, job, resized);
    if (status)
        return status;
    *resized = NULL;
    if (!address)
        return weft_alloc(job, WEFT_HOST, bytes, 0, 0, resized);
    if (bytes == 0)
        return weft_free(job, address);
    struct alloc_block block;
    status = find_block(name, job, address, &block);
    if (!status)
        box_record(job->box, BOX_OP_REALLOC, -1, block.offset, bytes);
    if (!status) /* completes puts of other PEs into the block, so that their data is copied too */
        status = weft_quiet(job->default_ctx);
    if (!status)
        status = compare_requests(
            name, job, (struct alloc_request){BOX_OP_REALLOC, bytes, 0, block.offset, block.kind});
    if (status)
        return status;
    if (bytes <= block.bytes && bytes > block.bytes / 2) {
        *resized = address;
        return WEFT_OK;
    }
    void *moved;
    status = weft_alloc(job, block.kind, bytes, block.align, 0, &moved);
    if (status)
        return status;
    size_t kept = bytes < block.bytes ? bytes : block.bytes;
    if (block.kind == WEFT_GPU)
        status = gpu_copy(job->gpu, 0, moved, address, kept, GPU_DONE);
    else
        memcpy(moved, address, kept);
    /* Either every PE moves to the new block, or all keep the old one. */
    status = complete_step(name, job, BOX_OP_REALLOC, status, 0);
    if (status) {
        struct alloc_block new_block;
        if (find_block(name, job, moved, &new_block) == WEFT_OK)
            free_offset(job, new_block.allocator, new_block.offset);
        return status;
    }
    free_offset(job, block.allocator, block.offset);
    *resized = moved;
    return coll_sync(job->world, BOX_OP_REALLOC);
}

WEFT_EXPORT void *weft_ptr(const weft_job *job, const void *symmetric, int pe)
{
    if (!job || atomic_load(&job->state) != JOB_RUNNING || pe < 0 || pe >= job->npes)
        return NULL;
    struct remote at;
    if (!access_find(job->default_ctx, symmetric, 1, &at.segment, &at.offset))
        return NULL;
    if (pe == job->pe) /* independent of the path that atomics take */
        return (void *)(uintptr_t)symmetric;
    at.peer = &job->default_ctx->peers[segment_kind(at.segment)][pe];
    char *address = NULL;
    if (!at.peer->ops->direct || at.peer->ops->address(at, &address))
        return NULL;
    return address;
}

WEFT_EXPORT int weft_accessible(const weft_job *job, const void *address, int pe)
{
    if (!job || atomic_load(&job->state) != JOB_RUNNING || pe < 0 || pe >= job->npes)
        return 0;
    enum segment_id segment;
    size_t offset;
    if (!access_find(job->default_ctx, address, 1, &segment, &offset))
        return 0;
    const struct path_choice *choices = job->paths.choices[segment_kind(segment)];
    return choices && choices[pe].path != PATH_NONE;
}

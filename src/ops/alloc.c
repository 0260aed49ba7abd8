/* SPDX-License-Identifier: Apache-2.0 */
/* Collective allocation: every PE makes the same calls on its own books, so the offsets agree; the
 * PEs compare their arguments each time, because a mismatch would silently break that for ever. */
#include "boot/agree.h"
#include "ops/coll.h"

#include <stdlib.h>

enum { DEFAULT_ALIGN = 64 };

struct request {
    uint64_t operation, bytes, align, offset, kind;
};

/* All PEs have arrived with the same request, and what they put before is complete. */
static weft_status agree(const char *function, struct weft_job *job, struct request mine)
{
    struct request *all = malloc((size_t)job->npes * sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory", function);
    weft_status status =
        coll_exchange(job->world, (enum box_operation)mine.operation, &mine, all, sizeof mine);
    for (int pe = 0; pe < job->npes && !status; pe++) {
        if (memcmp(&all[pe], &mine, sizeof mine) == 0)
            continue;
        status = base_fail(
            WEFT_ERR_MISMATCH,
            "%s: PE %d calls %s with %llu bytes, align %llu, offset %llu, kind %llu; PE %d calls %s "
            "with %llu bytes, align %llu, offset %llu, kind %llu",
            function, job->pe, box_operation_name((uint32_t)mine.operation),
            (unsigned long long)mine.bytes, (unsigned long long)mine.align,
            (unsigned long long)mine.offset, (unsigned long long)mine.kind, pe,
            box_operation_name((uint32_t)all[pe].operation), (unsigned long long)all[pe].bytes,
            (unsigned long long)all[pe].align, (unsigned long long)all[pe].offset,
            (unsigned long long)all[pe].kind);
    }
    free(all);
    return status;
}

static weft_status check_job(const char *function, struct weft_job *job, const void *result)
{
    if (!job || !result)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function, job ? "the result" : "job");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(function);
    return job_check_failed(job);
}

/* The same offset at every PE, with memory behind it. What fails, fails at every PE. */
static weft_status alloc_gpu(struct weft_job *job, size_t bytes, size_t align, unsigned hints,
                             void **address)
{
    size_t offset;
    weft_status status = job_gpu_open(job);
    if (status)
        return status;
    struct gpu *gpu = job->gpu;
    pthread_mutex_lock(&job->lock);
    status = heap_alloc(gpu->books, bytes, align, &offset);
    pthread_mutex_unlock(&job->lock);
    if (status)
        return base_fail_context(status, "GPU heap of %zu bytes (WEFT_GPU_HEAP_SIZE)",
                                 gpu->heap.size);
    status = job_gpu_grow(job, offset + bytes);
    void *block = (void *)(uintptr_t)(gpu_heap_own(&gpu->heap)->base + offset);
    if (!status && hints & WEFT_ALLOC_ZERO)
        status = boot_agree(job->boot, gpu_fill(gpu, block, 0, bytes));
    if (!status) {
        *address = block;
        return WEFT_OK;
    }
    pthread_mutex_lock(&job->lock);
    heap_free(gpu->books, offset);
    pthread_mutex_unlock(&job->lock);
    return status;
}

WEFT_EXPORT weft_status weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                                   unsigned hints, void **address)
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
    if (align > SEGMENT_ALIGN)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: align %zu is more than %d, the most that is alike "
                         "at every PE",
                         name, align, SEGMENT_ALIGN);
    box_record(job->box, BOX_OP_ALLOC, -1, align, bytes);
    status = agree(name, job, (struct request){BOX_OP_ALLOC, bytes, align, 0, kind});
    if (status || bytes == 0)
        return status;
    if (kind == WEFT_GPU) {
        status = alloc_gpu(job, bytes, align ? align : DEFAULT_ALIGN, hints, address);
        return status ? base_fail_context(status, "%s", name) : coll_sync(job->world, BOX_OP_ALLOC);
    }
    size_t offset;
    pthread_mutex_lock(&job->lock);
    status = heap_alloc(job->heap, bytes, align ? align : DEFAULT_ALIGN, &offset);
    pthread_mutex_unlock(&job->lock);
    if (status)
        return base_fail_context(status, "%s: host heap of %zu bytes (WEFT_HEAP_SIZE)", name,
                                 job->segments[SEG_HEAP].size);
    *address = job->segments[SEG_HEAP].base + offset;
    job_gpu_pin(job, offset + bytes);
    if (hints & WEFT_ALLOC_ZERO)
        memset(*address, 0, bytes);
    return coll_sync(job->world, BOX_OP_ALLOC);
}

/* The books of the heap in which `address` lies, and its offset there; NULL: in none. */
static struct heap *books_of(struct weft_job *job, const void *address, weft_kind *kind,
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
    size_t ours = job->gpu->system_offset + job->gpu->system_bytes;
    return *offset >= ours && *offset < job->gpu->heap.size ? job->gpu->books : NULL;
}

struct block {
    struct heap *books;
    weft_kind kind;
    size_t offset, bytes;
};

/* The allocated block that starts at `address`, checked. */
static weft_status find_block(const char *function, struct weft_job *job, const void *address,
                              struct block *block)
{
    block->books = books_of(job, address, &block->kind, &block->offset);
    pthread_mutex_lock(&job->lock);
    block->bytes = block->books ? heap_block_size(block->books, block->offset) : 0;
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
    struct block block;
    status = find_block(name, job, address, &block);
    if (status)
        return status;
    box_record(job->box, BOX_OP_FREE, -1, block.offset, block.bytes);
    status = weft_quiet(job->default_ctx);
    if (!status)
        status = agree(name, job,
                       (struct request){BOX_OP_FREE, block.bytes, 0, block.offset, block.kind});
    if (status)
        return status;
    pthread_mutex_lock(&job->lock);
    status = heap_free(block.books, block.offset);
    pthread_mutex_unlock(&job->lock);
    return status;
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
    struct block block;
    status = find_block(name, job, address, &block);
    if (!status) /* what PEs have put into the block is to be kept too */
        status = weft_quiet(job->default_ctx);
    if (!status)
        status =
            agree(name, job, (struct request){BOX_OP_REALLOC, bytes, 0, block.offset, block.kind});
    if (status)
        return status;
    if (bytes <= block.bytes && bytes > block.bytes / 2) {
        *resized = address;
        return WEFT_OK;
    }
    status = weft_alloc(job, block.kind, bytes, 0, 0, resized);
    if (status)
        return status;
    size_t kept = bytes < block.bytes ? bytes : block.bytes;
    if (block.kind == WEFT_GPU)
        status = gpu_copy(job->gpu, 0, *resized, address, kept, GPU_DONE);
    else
        memcpy(*resized, address, kept);
    if (status)
        job_fail(job, status, weft_last_error()); /* the PEs' books would no longer agree */
    status = weft_free(job, address);
    return status ? status : coll_sync(job->world, BOX_OP_REALLOC);
}

WEFT_EXPORT void *weft_ptr(const weft_job *job, const void *symmetric, int pe)
{
    if (!job || atomic_load(&job->state) != JOB_RUNNING || pe < 0 || pe >= job->npes)
        return NULL;
    struct remote at;
    if (!access_find(job->default_ctx, symmetric, 1, &at.segment, &at.offset))
        return NULL;
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

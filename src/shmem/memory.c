/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.3: the symmetric heap. A call without effect (size 0, null pointer) does
 * no barrier. */
#include "shmem/routine.h"

/* The barrier of these routines completes the operations of the default context (9.3). */
static void complete_memory(const char *routine)
{
    if (!shmem_own.job)
        weft_shmem_fail(routine, WEFT_ERR_FINALIZED);
    weft_status status = weft_quiet(shmem_own.ctx);
    if (status)
        weft_shmem_fail(routine, status);
}

static void *allocate_block(const char *routine, size_t size, size_t align, unsigned hints)
{
    void *address = NULL;
    if (size == 0)
        return NULL;
    complete_memory(routine);
    weft_status status = weft_alloc(shmem_own.job, WEFT_HOST, size, align, hints, &address);
    if (status == WEFT_ERR_NO_MEMORY || status == WEFT_ERR_ARGUMENT)
        log_warn(LOG_SHMEM, "%s: %s", routine, base_sentence("shmem", status));
    else if (status)
        weft_shmem_fail(routine, status);
    return status ? NULL : address;
}

static void free_block(const char *routine, void *ptr)
{
    if (!ptr)
        return;
    complete_memory(routine);
    weft_status status = weft_free(shmem_own.job, ptr);
    if (status)
        weft_shmem_fail(routine, status);
}

static void *resize_block(const char *routine, void *ptr, size_t size)
{
    if (!ptr)
        return allocate_block(routine, size, 0, 0);
    if (size == 0) {
        free_block(routine, ptr);
        return NULL;
    }
    void *resized = NULL;
    complete_memory(routine);
    weft_status status = weft_realloc(shmem_own.job, ptr, size, &resized);
    if (status == WEFT_ERR_NO_MEMORY) {
        log_warn(LOG_SHMEM, "%s: %s", routine, base_sentence("shmem", status));
        return NULL;
    }
    if (status)
        weft_shmem_fail(routine, status);
    return resized;
}

/* Every block is aligned to a pointer's size, so smaller powers of two (programs request 1, 2 and
 * 4) need no more. */
static void *allocate_aligned(const char *routine, size_t alignment, size_t size)
{
    if (!alignment || (alignment & (alignment - 1))) {
        log_warn(LOG_SHMEM, "%s: alignment %zu is not a power of two", routine, alignment);
        return NULL;
    }
    return allocate_block(routine, size, alignment < sizeof(void *) ? sizeof(void *) : alignment,
                          0);
}

SHMEM_ROUTINE(void *, shmem_malloc, (size_t size))
{
    return allocate_block("shmem_malloc", size, 0, 0);
}

SHMEM_ROUTINE(void, shmem_free, (void *ptr))
{
    free_block("shmem_free", ptr);
}

SHMEM_ROUTINE(void *, shmem_realloc, (void *ptr, size_t size))
{
    return resize_block("shmem_realloc", ptr, size);
}

SHMEM_ROUTINE(void *, shmem_align, (size_t alignment, size_t size))
{
    return allocate_aligned("shmem_align", alignment, size);
}

SHMEM_ROUTINE(void *, shmem_malloc_with_hints, (size_t size, long hints))
{
    (void)hints; /* every block serves atomics and signals of all PEs */
    return allocate_block("shmem_malloc_with_hints", size, 0, 0);
}

SHMEM_ROUTINE(void *, shmem_calloc, (size_t count, size_t size))
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        log_warn(LOG_SHMEM, "shmem_calloc: %zu elements of %zu bytes are more than memory can hold",
                 count, size);
        return NULL;
    }
    return allocate_block("shmem_calloc", bytes, 0, WEFT_ALLOC_ZERO);
}

SHMEM_ROUTINE(void *, shmalloc, (size_t size))
{
    return allocate_block("shmalloc", size, 0, 0);
}

SHMEM_ROUTINE(void, shfree, (void *ptr))
{
    free_block("shfree", ptr);
}

SHMEM_ROUTINE(void *, shrealloc, (void *ptr, size_t size))
{
    return resize_block("shrealloc", ptr, size);
}

SHMEM_ROUTINE(void *, shmemalign, (size_t alignment, size_t size))
{
    return allocate_aligned("shmemalign", alignment, size);
}

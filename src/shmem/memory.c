/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.3: the symmetric heap. A call that does nothing (size 0, null pointer)
 * performs no barrier. */
#include "shmem/routine.h"

/* The barrier of these routines completes what was issued on the default context (9.3). */
static void complete_memory(const char *routine)
{
    if (!shmem_own.job)
        weft_shmem_fail(routine, WEFT_ERR_FINALIZED);
    weft_status status = weft_quiet(shmem_own.ctx);
    if (status)
        weft_shmem_fail(routine, status);
}

static void *allocate(const char *routine, size_t size, size_t align, unsigned hints)
{
    void *address = NULL;
    if (size == 0)
        return NULL;
    complete_memory(routine);
    weft_status status = weft_alloc(shmem_own.job, WEFT_HOST, size, align, hints, &address);
    if (status == WEFT_ERR_NO_MEMORY || status == WEFT_ERR_ARGUMENT)
        log_warn("%s: %s", routine, weft_last_error());
    else if (status)
        weft_shmem_fail(routine, status);
    return status ? NULL : address;
}

static void release(const char *routine, void *ptr)
{
    if (!ptr)
        return;
    complete_memory(routine);
    weft_status status = weft_free(shmem_own.job, ptr);
    if (status)
        weft_shmem_fail(routine, status);
}

static void *resize(const char *routine, void *ptr, size_t size)
{
    if (!ptr)
        return allocate(routine, size, 0, 0);
    if (size == 0) {
        release(routine, ptr);
        return NULL;
    }
    void *resized = NULL;
    complete_memory(routine);
    weft_status status = weft_realloc(shmem_own.job, ptr, size, &resized);
    if (status == WEFT_ERR_NO_MEMORY) {
        log_warn("%s: %s", routine, weft_last_error());
        return NULL;
    }
    if (status)
        weft_shmem_fail(routine, status);
    return resized;
}

/* A power of two below the size of a pointer is met by any block (programs ask for 1, 2 and 4). */
static void *align_to(const char *routine, size_t alignment, size_t size)
{
    if (!alignment || (alignment & (alignment - 1))) {
        log_warn("%s: alignment %zu is not a power of two", routine, alignment);
        return NULL;
    }
    return allocate(routine, size, alignment < sizeof(void *) ? sizeof(void *) : alignment, 0);
}

SHMEM_ROUTINE(void *, shmem_malloc, (size_t size))
{
    return allocate("shmem_malloc", size, 0, 0);
}

SHMEM_ROUTINE(void, shmem_free, (void *ptr))
{
    release("shmem_free", ptr);
}

SHMEM_ROUTINE(void *, shmem_realloc, (void *ptr, size_t size))
{
    return resize("shmem_realloc", ptr, size);
}

SHMEM_ROUTINE(void *, shmem_align, (size_t alignment, size_t size))
{
    return align_to("shmem_align", alignment, size);
}

SHMEM_ROUTINE(void *, shmem_malloc_with_hints, (size_t size, long hints))
{
    unsigned flags = 0; /* a hint that is not known changes nothing: hints are advice */
    if (hints & SHMEM_MALLOC_ATOMICS_REMOTE)
        flags |= WEFT_ALLOC_ATOMICS;
    if (hints & SHMEM_MALLOC_SIGNAL_REMOTE)
        flags |= WEFT_ALLOC_SIGNALS;
    return allocate("shmem_malloc_with_hints", size, 0, flags);
}

SHMEM_ROUTINE(void *, shmem_calloc, (size_t count, size_t size))
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        log_warn("shmem_calloc: %zu elements of %zu bytes are more than memory can hold", count,
                 size);
        return NULL;
    }
    return allocate("shmem_calloc", bytes, 0, WEFT_ALLOC_ZERO);
}

SHMEM_ROUTINE(void *, shmalloc, (size_t size))
{
    return allocate("shmalloc", size, 0, 0);
}

SHMEM_ROUTINE(void, shfree, (void *ptr))
{
    release("shfree", ptr);
}

SHMEM_ROUTINE(void *, shrealloc, (void *ptr, size_t size))
{
    return resize("shrealloc", ptr, size);
}

SHMEM_ROUTINE(void *, shmemalign, (size_t alignment, size_t size))
{
    return align_to("shmemalign", alignment, size);
}

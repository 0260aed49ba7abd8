/* SPDX-License-Identifier: Apache-2.0 */
/* Counts private memory, and can make one allocation fail. For tests that are linked with
 * --wrap=calloc, aligned_alloc, realloc and free. */
#ifndef WEFT_TESTS_OWN_MEMORY_H
#define WEFT_TESTS_OWN_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int live_memory, memory_calls, memory_fails_at; /* the allocation that fails; 0 = none */

static bool is_missing(void)
{
    return ++memory_calls == memory_fails_at;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    void *made = is_missing() ? NULL : __real_calloc(count, bytes);
    live_memory += made != NULL;
    return made;
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    void *made = is_missing() ? NULL : __real_aligned_alloc(alignment, bytes);
    if (made)
        memset(made, 0xa5, bytes);
    live_memory += made != NULL;
    return made;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    live_memory -= memory != NULL;
    __real_free(memory);
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    void *made = is_missing() ? NULL : __real_realloc(memory, bytes);
    live_memory += made && !memory;
    return made;
}

#endif

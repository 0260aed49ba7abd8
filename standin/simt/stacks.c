/* SPDX-License-Identifier: Apache-2.0 */
/* Pool of lane stacks. Stacks are mapped in slabs, each with an inaccessible page below it, so that
 * a stack overflow ends in SIGSEGV instead of damaging another stack. */
#include "context.h"

#include "base/config.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_STACK
#define MAP_STACK 0
#endif

enum { SLAB_STACKS = 16, SMALLEST = 16 * 1024 };

/* A free stack contains a pointer to the next free one. It is at the top, which is in the cache,
 * and not in the lowest page, which a lane touches last. */
struct link {
    char *next;
};

struct slab {
    struct slab *next;
    char *start;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct slab *slabs;
static char *idle;
static size_t usable; /* bytes of a stack, 0 = not read yet */
static size_t page;

static struct link *link_of(char *stack)
{
    return (struct link *)(stack + usable - 64);
}

static size_t wanted_bytes(void)
{
    size_t bytes = (size_t)config_size(CONFIG_SIMT_STACK);
    if (bytes < SMALLEST)
        bytes = SMALLEST;
#if CONTEXT_ASAN || CONTEXT_TSAN
    bytes *= 4; /* instrumented frames are several times as large */
#endif
    return (bytes + page - 1) & ~(page - 1);
}

static bool add_slab(void)
{
    if (!usable) {
        page = (size_t)sysconf(_SC_PAGESIZE);
        usable = wanted_bytes();
    }
    size_t start_head_op = page + usable;
    struct slab *slab = malloc(sizeof *slab);
    if (!slab)
        return false;
    slab->bytes = start_head_op * SLAB_STACKS;
    slab->start = mmap(NULL, slab->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (slab->start == MAP_FAILED)
        goto no_memory;
    for (size_t i = 0; i < SLAB_STACKS; i++)
        if (mprotect(slab->start + i * start_head_op, page, PROT_NONE))
            goto no_guard;
    slab->next = slabs;
    slabs = slab;
    for (size_t i = SLAB_STACKS; i-- > 0;) {
        char *stack = slab->start + i * start_head_op + page;
        link_of(stack)->next = idle;
        idle = stack;
    }
    return true;

no_guard:
    munmap(slab->start, slab->bytes);
no_memory:
    free(slab);
    return false;
}

char *stack_get(void)
{
    pthread_mutex_lock(&lock);
    char *stack = NULL;
    if (idle || add_slab()) {
        stack = idle;
        idle = link_of(stack)->next;
    }
    pthread_mutex_unlock(&lock);
#if CONTEXT_TSAN
    /* New pages, so that accesses of the previous lane on this stack are no race with the next
     * one. */
    if (stack)
        stack = mmap(stack, usable, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#endif
    return stack;
}

void stack_put(char *stack)
{
    pthread_mutex_lock(&lock);
    link_of(stack)->next = idle;
    idle = stack;
    pthread_mutex_unlock(&lock);
}

size_t stack_bytes(void)
{
    return usable;
}

void stack_release_all(void)
{
    pthread_mutex_lock(&lock);
    for (struct slab *slab = slabs; slab;) {
        struct slab *next = slab->next;
        munmap(slab->start, slab->bytes);
        free(slab);
        slab = next;
    }
    slabs = NULL;
    idle = NULL;
    usable = 0;
    pthread_mutex_unlock(&lock);
}

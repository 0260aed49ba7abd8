/* SPDX-License-Identifier: Apache-2.0 */
/* Execution contexts (fibers): a stack with a saved stack pointer, and the switch between contexts
 * on one thread. Knows nothing of lanes. */
#ifndef WEFT_STANDIN_CONTEXT_H
#define WEFT_STANDIN_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define CONTEXT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CONTEXT_ASAN 1
#endif
#endif
#ifndef CONTEXT_ASAN
#define CONTEXT_ASAN 0
#endif

/* CONTEXT_TSAN comes from the build: these files are compiled without its instrumentation. */
#ifndef CONTEXT_TSAN
#define CONTEXT_TSAN 0
#endif

/* Implementation of the switch: assembly for x86-64 and 64-bit Arm, ucontext elsewhere or with
 * WEFT_SIMT_UCONTEXT. */
#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(WEFT_SIMT_UCONTEXT)
#define WEFT_SIMT_UCONTEXT 1
#endif

struct context {
    /* saved stack pointer while switched out; a ucontext_t with WEFT_SIMT_UCONTEXT */
    void *sp;
    char *stack;    /* lowest usable byte */
    size_t bytes;   /* bytes of the stack */
    void *fiber;    /* threadSanitizer's fiber */
    bool of_thread; /* the thread's own context, without a stack of the pool */
};

/* Initialises the context of the calling thread. */
void context_of_thread(struct context *context);

/* Initialises a context on `stack` that calls entry() when first switched to. entry() never
 * returns. For ThreadSanitizer, the caller's earlier accesses happen before entry(). */
void context_init(struct context *context, char *stack, size_t bytes, void (*entry)(void));

/* entry() calls this first. */
void context_entered(void);

/* Saves the running context in `from` and continues with `to`. `last`: `from` is never resumed. */
void context_switch(struct context *from, struct context *to, bool last);

/* Destroys a context that is not running and will not be resumed. */
void context_fini(struct context *context);

/* ------------------------------------------------------------------------------ stacks.c */

/* Returns a stack of stack_bytes() with a guard page below it. NULL with errno if there is no
 * memory. */
char *stack_get(void);
void stack_put(char *stack);
size_t stack_bytes(void);

/* Unmaps the pool; the size is read from WEFT_SIMT_STACK again at the next stack_get(). */
void stack_release_all(void);

/* -------------------------------------------------------------- annotations for ThreadSanitizer */

#if CONTEXT_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define tsan_acquire(address) __tsan_acquire((void *)(address))
#define tsan_release(address) __tsan_release((void *)(address))
#else
#define tsan_acquire(address) ((void)(address))
#define tsan_release(address) ((void)(address))
#endif

#endif

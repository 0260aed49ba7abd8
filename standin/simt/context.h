/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: a stack and the place where its execution stands, and the switch from one to another
 * on the same thread. Knows nothing of lanes. */
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

/* Which switch: our own for x86-64 and 64-bit Arm, ucontext elsewhere or by WEFT_SIMT_UCONTEXT. */
#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(WEFT_SIMT_UCONTEXT)
#define WEFT_SIMT_UCONTEXT 1
#endif

struct context {
    void *sp;       /* while switched out; a ucontext_t with WEFT_SIMT_UCONTEXT */
    char *stack;    /* lowest usable byte */
    size_t bytes;   /* of the stack */
    void *fiber;    /* ThreadSanitizer's */
    bool of_thread; /* the thread's own; no stack of the pool */
};

/* The thread's own context, as something to switch from and back to. */
void context_of_thread(struct context *context);

/* A context on `stack` that will run entry() when first switched to. entry never returns. With
 * ThreadSanitizer what the caller did before happens before entry(). */
void context_init(struct context *context, char *stack, size_t bytes, void (*entry)(void));

/* To be called first by entry(). */
void context_entered(void);

/* Saves this execution in `from`, goes on with `to`. `last`: from will never be resumed. */
void context_switch(struct context *from, struct context *to, bool last);

/* The context is not running and will not be resumed. */
void context_fini(struct context *context);

/* ------------------------------------------------------------------------------ stacks.c */

/* A stack of stack_bytes() with a guard page below, NULL (errno) when the system gives none. */
char *stack_get(void);
void stack_put(char *stack);
size_t stack_bytes(void);

/* Unmaps the pool; the size is read from WEFT_SIMT_STACK again at the next stack_get(). */
void stack_release_all(void);

/* ---------------------------------------------------------------- words to ThreadSanitizer */

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

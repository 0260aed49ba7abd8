/* SPDX-License-Identifier: Apache-2.0 */
/* Switching between stacks, and the calls that inform the sanitizers. See context.h. */
#include "context.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#if CONTEXT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if CONTEXT_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
/* a switch is not a synchronisation: lanes share a thread only by chance */
enum { TSAN_NO_SYNC = 1 };
#endif

#ifdef WEFT_SIMT_UCONTEXT

#include <ucontext.h>

static void prepare(struct context *context, void (*entry)(void))
{
    /* The state is at the top of its stack. */
    uintptr_t top = (uintptr_t)context->stack + context->bytes - sizeof(ucontext_t);
    ucontext_t *state = (ucontext_t *)(top & ~(uintptr_t)63);
    getcontext(state);
    state->uc_stack.ss_sp = context->stack;
    state->uc_stack.ss_size = (size_t)((char *)state - context->stack);
    state->uc_link = NULL;
    makecontext(state, entry, 0);
    context->sp = state;
}

static void jump(struct context *from, struct context *to)
{
    ucontext_t own;
    /* A thread's own context has no prepared place; it is stored here while it is switched out. */
    if (from->of_thread)
        from->sp = &own;
    swapcontext(from->sp, to->sp);
}

#else

/* void simt_switch(void **save_sp, void *load_sp): saves and loads the callee-saved registers,
 * except the floating-point control words, which belong to the thread and not to the lane. */
void simt_switch(void **save_sp, void *load_sp) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden simt_switch\n"
        ".globl simt_switch\n"
        ".type simt_switch, @function\n"
        "simt_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size simt_switch, . - simt_switch\n");

static void prepare(struct context *context, void (*entry)(void))
{
    /* Same layout as simt_switch leaves: six registers, the return address, and above it the return
     * address of entry(), which never returns. At entry() the stack pointer is 8 modulo 16. */
    uintptr_t *sp = (uintptr_t *)(((uintptr_t)context->stack + context->bytes) & ~(uintptr_t)15);
    *--sp = 0;
    *--sp = (uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--sp = 0;
    context->sp = sp;
}
#else
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden simt_switch\n"
        ".globl simt_switch\n"
        ".type simt_switch, %function\n"
        "simt_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x2, sp\n"
        "    str x2, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size simt_switch, . - simt_switch\n");

static void prepare(struct context *context, void (*entry)(void))
{
    enum { SAVED = 160 / sizeof(uintptr_t), LINK = 11 };
    uintptr_t *sp = (uintptr_t *)(((uintptr_t)context->stack + context->bytes) & ~(uintptr_t)15);
    sp -= SAVED;
    for (int i = 0; i < (int)SAVED; i++)
        sp[i] = 0;
    sp[LINK] = (uintptr_t)entry;
    context->sp = sp;
}
#endif

static void jump(struct context *from, struct context *to)
{
    simt_switch(&from->sp, to->sp);
}

#endif

void context_of_thread(struct context *context)
{
    *context = (struct context){.of_thread = true};
#if CONTEXT_ASAN
    /* Only AddressSanitizer needs to know the bounds of the thread's stack. */
    pthread_attr_t attr;
    void *low = NULL;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstack(&attr, &low, &context->bytes);
        pthread_attr_destroy(&attr);
    }
    context->stack = low;
#endif
#if CONTEXT_TSAN
    context->fiber = __tsan_get_current_fiber();
#endif
}

void context_init(struct context *context, char *stack, size_t bytes, void (*entry)(void))
{
    *context = (struct context){.stack = stack, .bytes = bytes};
    prepare(context, entry);
#if CONTEXT_TSAN
    context->fiber = __tsan_create_fiber(0);
#endif
}

void context_entered(void)
{
#if CONTEXT_ASAN
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}

__attribute__((no_sanitize("address"))) void context_switch(struct context *from,
                                                            struct context *to, bool last)
{
    (void)last;
#if CONTEXT_ASAN
    void *fake = NULL;
    __sanitizer_start_switch_fiber(last ? NULL : &fake, to->stack, to->bytes);
#endif
#if CONTEXT_TSAN
    __tsan_switch_to_fiber(to->fiber, TSAN_NO_SYNC);
#endif
    jump(from, to);
#if CONTEXT_ASAN
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

void context_fini(struct context *context)
{
#if CONTEXT_ASAN
    /* A lane that was ended in a function has left guard zones of that function. */
    __asan_unpoison_memory_region(context->stack, context->bytes);
#endif
#if CONTEXT_TSAN
    __tsan_destroy_fiber(context->fiber);
#endif
    context->fiber = NULL;
}

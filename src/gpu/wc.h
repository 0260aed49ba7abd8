/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the CPU between its own memory and write-combined mappings of a GPU's memory. Stores
 * there are gathered in the CPU's buffers of 64 bytes and go out as such when a buffer is full or
 * at a fence; loads are not cached, and each takes a trip over PCIe, so that as many as possible
 * are under way at once: by non-temporal loads, a line at a time. Knows nothing of GPUs. */
#ifndef WEFT_GPU_WC_H
#define WEFT_GPU_WC_H

#include <stddef.h>

/* Aligned values of 1, 2, 4 and 8 bytes are stored, and loaded, by one access. The stores are under
 * way when it returns, and need wc_fence() to be in front of what follows. */
void wc_store(void *mapped, const void *from, size_t bytes);
void wc_load(void *to, const void *mapped, size_t bytes);

/* What this thread stored through mappings before leaves the CPU before what it stores from here
 * on, to mappings and to its own memory alike. */
static inline void wc_fence(void)
{
#if defined(__x86_64__)
    __asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dsb st" ::: "memory");
#else
    __sync_synchronize();
#endif
}

/* As wc_store(), for a few bytes that shall be under way without a fence: by stores that wait for
 * no others where the CPU has them (MOVDIRI), else by stores and a fence. They may still be
 * overtaken by later ones. */
void wc_post(void *mapped, const void *from, size_t bytes);

/* wc_post() and wc_fence(), with one fence. */
void wc_send(void *mapped, const void *from, size_t bytes);

/* What this thread stored through mappings of that memory has arrived in it: a load is answered
 * behind the stores in front of it (PCI Express, 2.4.1: completions do not pass posted
 * requests). */
void wc_flush(const void *mapped);

/* "AVX-512", "AVX2", "SSE4.1", "plain": by what the two above copy here. */
const char *wc_isa_name(void);

#endif

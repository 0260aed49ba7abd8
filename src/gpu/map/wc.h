/* SPDX-License-Identifier: Apache-2.0 */
/* CPU copies between host memory and write-combined mappings of GPU memory. The CPU gathers stores
 * in write-combining buffers of 64 bytes and sends a buffer when it is full or at a fence. Loads
 * are not cached and each takes a PCIe round trip, so as many as possible are in flight at once:
 * non-temporal loads, a line at a time. This file knows nothing of GPUs. */
#ifndef WEFT_GPU_WC_H
#define WEFT_GPU_WC_H

#include <stddef.h>

/* Copy into, or out of, a mapping. Aligned values of 1, 2, 4 and 8 bytes are stored or loaded by
 * one access. On return of wc_store() the stores may still be in flight: the caller calls
 * wc_fence() to order them before later stores. */
void wc_store(void *mapped, const void *from, size_t bytes);
void wc_load(void *to, const void *mapped, size_t bytes);

/* All earlier stores of this thread through mappings leave the CPU before its later stores, to
 * mappings and to host memory. */
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

/* As wc_store(), for a few bytes that must leave the CPU without a fence by the caller: with
 * MOVDIRI, which does not wait in a write-combining buffer, where the CPU has it; else with plain
 * stores and a fence. Later stores may still overtake them. */
void wc_post(void *mapped, const void *from, size_t bytes);

/* wc_post() and wc_fence(), with one fence. */
void wc_send(void *mapped, const void *from, size_t bytes);

/* Returns when all earlier stores of this thread through mappings of that memory have arrived: a
 * PCIe read completes after the earlier posted writes (PCI Express, 2.4.1: completions do not pass
 * posted requests). */
void wc_flush(const void *mapped);

/* Returns the instruction set that wc_store() and wc_load() use: "AVX-512", "AVX2", "SSE4.1" or
 * "plain". */
const char *wc_isa_name(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* CPU lists in the kernel's format, and the pause instruction for polling. */
#ifndef WEFT_BASE_CPUS_H
#define WEFT_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Parses "0-3,8"; a final newline is allowed. False: it is not such a list, is empty, or names a
 * CPU beyond CPU_SETSIZE. */
bool cpus_parse(const char *text, cpu_set_t *cpus);

/* The CPUs that this thread may run on, one bit each. With more CPUs than bits, CPU n is bit n
 * modulo the number of bits, so the count of bits is a lower bound. All zero: unknown. */
enum { CPUS_FOLDED_WORDS = 16 };
void cpus_allowed(uint64_t folded[CPUS_FOLDED_WORDS]);

/* The pause between two polls. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Called after an acquiring load of a word that a NIC may have written: later loads see what the
 * NIC wrote before. C orders memory among CPUs (on Arm the inner shareable domain, which devices
 * are outside of). */
static inline void cpu_order_device_loads(void)
{
#if defined(__aarch64__)
    __asm__ volatile("dmb oshld" ::: "memory");
#endif
}

#endif

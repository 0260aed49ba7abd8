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

/* Yields, which lets the awaited thread run where threads share a CPU. Returns whether another one
 * ran, for which a yield takes longer. A wake-up through a futex takes twice as long on the same
 * CPU (1.8 us against 1.2 us for a yield on a Xeon under KVM), ten times as long across idle CPUs,
 * and would require a check in every put. */
bool cpu_yield(void);

/* How long a thread sleeps between two polls that have found nothing for `idle_ns`; 0: not before
 * `after_ns` have passed. The delay is a small share of the wait: 1/1000, and 1/20 where another
 * thread ran at the last yield, after 1 ms. Threads that only yield may be run again and again in
 * place of those that compute: during a build on two CPUs, a test of 5 PEs took 1.2 to 17.6 s, and
 * 0.2 to 2.2 s with these sleeps. */
uint64_t cpu_idle_sleep_ns(uint64_t idle_ns, uint64_t after_ns, bool shared);

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

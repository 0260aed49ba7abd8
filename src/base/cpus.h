/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of CPUs as the kernel writes them, and what a CPU does between two polls. */
#ifndef WEFT_BASE_CPUS_H
#define WEFT_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* "0-3,8", a newline at the end allowed. False when it is no such list, is empty, or names a CPU
 * that no set has room for. */
bool cpus_parse(const char *text, cpu_set_t *cpus);

/* The CPUs that this thread may run on, a bit each. Where the kernel has more than these bits, CPU
 * n is bit n modulo their number: a count of bits is then the least that there may be. All zero:
 * not known. */
enum { CPUS_FOLDED_WORDS = 16 };
void cpus_allowed(uint64_t folded[CPUS_FOLDED_WORDS]);

/* Between two polls. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif

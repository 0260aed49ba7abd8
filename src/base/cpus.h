/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of CPUs as the kernel writes them, and what a CPU does between two polls. */
#ifndef WEFT_BASE_CPUS_H
#define WEFT_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>

/* "0-3,8", a newline at the end allowed. False when it is no such list, is empty, or names a CPU that
 * no set has room for. */
bool cpus_parse(const char *text, cpu_set_t *cpus);

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

/* SPDX-License-Identifier: Apache-2.0 */
/* See cpus.h. */
#include "base/cpus.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CPUS = 64 * 1024 };

/* Parses a CPU number. -1: there is none. */
static long cpu_at(const char **text)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return -1;
    long cpu = strtol(*text, &end, 10); /* LONG_MAX if it is too large */
    *text = end;
    return cpu < CPU_SETSIZE ? cpu : -1;
}

bool cpus_parse(const char *text, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    for (;; text++) {
        long first = cpu_at(&text), last = first;
        if (*text == '-') {
            text++;
            last = cpu_at(&text);
        }
        if (first < 0 || last < first)
            return false;
        for (long cpu = first; cpu <= last; cpu++)
            CPU_SET((size_t)cpu, cpus);
        if (*text != ',')
            return *text == '\0' || (text[0] == '\n' && text[1] == '\0');
    }
}

void cpus_allowed(uint64_t folded[CPUS_FOLDED_WORDS])
{
    cpu_set_t sets[MOST_CPUS / CPU_SETSIZE];
    memset(folded, 0, CPUS_FOLDED_WORDS * sizeof *folded);
    CPU_ZERO_S(sizeof sets, sets);
    if (sched_getaffinity(0, sizeof sets, sets) < 0)
        return;
    for (size_t cpu = 0; cpu < MOST_CPUS; cpu++)
        if (CPU_ISSET_S(cpu, sizeof sets, sets))
            folded[cpu / 64 % CPUS_FOLDED_WORDS] |= UINT64_C(1) << cpu % 64;
}

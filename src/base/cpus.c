/* SPDX-License-Identifier: Apache-2.0 */
/* See cpus.h. */
#include "base/cpus.h"

#include "base/clock.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CPUS = 64 * 1024,
    YIELD_ALONE_NS = 1000, /* a yield to another thread takes longer */
    SLEEP_SHARE = 1000,
    SHARED_SLEEP_SHARE = 20,
    SHARED_SLEEP_AFTER_NS = 1000 * 1000,
    SLEEP_SHORTEST_NS = 50 * 1000,
    SLEEP_LONGEST_NS = 2 * 1000 * 1000,
};

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

bool cpu_yield(void)
{
    uint64_t before = clock_now_ns();
    sched_yield();
    return clock_now_ns() - before >= YIELD_ALONE_NS;
}

uint64_t cpu_idle_sleep_ns(uint64_t idle_ns, uint64_t after_ns, bool shared)
{
    if (idle_ns <= (shared && after_ns > SHARED_SLEEP_AFTER_NS ? SHARED_SLEEP_AFTER_NS : after_ns))
        return 0;
    uint64_t ns = idle_ns / (shared ? SHARED_SLEEP_SHARE : SLEEP_SHARE);
    return ns < SLEEP_SHORTEST_NS  ? SLEEP_SHORTEST_NS
           : ns > SLEEP_LONGEST_NS ? SLEEP_LONGEST_NS
                                   : ns;
}

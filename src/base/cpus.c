/* SPDX-License-Identifier: Apache-2.0 */
/* See cpus.h. */
#include "base/cpus.h"

#include <ctype.h>
#include <stdlib.h>

/* -1: no number of a CPU stands there. */
static long cpu_at(const char **text)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return -1;
    long cpu = strtol(*text, &end, 10); /* LONG_MAX when it is too large */
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

/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --watch`: prints error counters of links that grow. Reads only the counters, so
 * that a round is cheap. */
#include "topo/topo.h"

#include <time.h>

#include "commands.h"
#include "tool/link_counters.h"
#include "tool/tool.h"

static void print_growth(void *argument, const struct link_growth *growth)
{
    (void)argument;
    if (growth->link < 0)
        printf("gpu%d %s +%llu\n", growth->gpu, growth->counter, growth->by);
    else
        printf("gpu%d link %d %s +%llu\n", growth->gpu, growth->link, growth->counter, growth->by);
}

int topo_watch(double seconds, int times)
{
    struct timespec pause = {.tv_sec = (time_t)seconds,
                             .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int n;
    struct link_counters *counters = link_counters_watch(&n);
    if (!counters) {
        fprintf(stderr, "weft topo: --watch: %s\n", weft_last_error());
        return EXIT_FAULT;
    }
    printf("%d GPU%s, counters of NVLink and PCIe every %g s; only what grows is printed\n", n,
           n == 1 ? "" : "s", seconds);
    bool grown = false;
    for (int round = 0; times < 0 || round < times; round++) {
        fflush(stdout);
        nanosleep(&pause, NULL);
        grown |= link_counters_each(counters, print_growth, NULL) > 0;
    }
    link_counters_close(counters);
    return grown ? EXIT_FAULT : EXIT_GOOD;
}

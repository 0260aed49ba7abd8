/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of the error counters of links: during a transfer, or continuously. */
#ifndef WEFT_TOOL_LINK_COUNTERS_H
#define WEFT_TOOL_LINK_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_counters;

/* Opens the counters of the first `n` GPUs in NVML's order. NULL without NVML or counters, or when
 * no GPU has links. */
struct link_counters *link_counters_open(int n);
void link_counters_close(struct link_counters *counters);

/* Starts counting on both GPUs. `brief`: reads the totals of each GPU, if they equal the sum of its
 * links. */
void link_counters_mark(struct link_counters *counters, int a, int b, bool brief);

/* Number of errors since the mark; `where` lists the links ("gpu0 link 3 crc +2, ..."). */
int64_t link_counters_grown(struct link_counters *counters, char *where, size_t bytes);

/* --- all counters, continuously --- */

struct link_growth {
    int gpu, link; /* link -1: the GPU's PCIe link */
    const char *counter;
    unsigned long long by;
};

/* Opens the counters of all GPUs, with links or without; *n is their number. NULL without NVML;
 * weft_last_error() has the reason. */
struct link_counters *link_counters_watch(int *n);

/* Calls `report` for each counter that has grown since it was last read. Returns the sum of the
 * growth. */
int64_t link_counters_each(struct link_counters *counters,
                           void (*report)(void *argument, const struct link_growth *growth),
                           void *argument);

#endif

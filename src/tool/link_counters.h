/* SPDX-License-Identifier: Apache-2.0 */
/* Error counters of links, read before and after a transfer or again and again. */
#ifndef WEFT_TOOL_LINK_COUNTERS_H
#define WEFT_TOOL_LINK_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_counters;

/* Of `n` GPUs, in NVML's order. NULL when NVML or the counters are not there, or no GPU has
 * links. */
struct link_counters *link_counters_open(int n);
void link_counters_close(struct link_counters *counters);

/* Starts counting on both GPUs. `brief`: by each GPU's totals, where they agree with its links. */
void link_counters_mark(struct link_counters *counters, int a, int b, bool brief);

/* Errors counted since the mark; `where` names the links ("gpu0 link 3 crc +2, ..."). */
int64_t link_counters_grown(struct link_counters *counters, char *where, size_t bytes);

/* --- all of them, as they grow --- */

struct link_growth {
    int gpu, link; /* link -1: the GPU's PCIe link */
    const char *counter;
    unsigned long long by;
};

/* All GPUs, with links or without; *n is how many. NULL without NVML; weft_last_error() says
 * why. */
struct link_counters *link_counters_watch(int *n);

/* Tells each counter that has grown since it was read last. Returns the sum of the growth. */
int64_t link_counters_each(struct link_counters *counters,
                           void (*tell)(void *argument, const struct link_growth *growth),
                           void *argument);

#endif

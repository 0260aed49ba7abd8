/* SPDX-License-Identifier: Apache-2.0 */
/* Error counters of NVLink, read before and after a transfer. */
#ifndef WEFT_CLI_PROBE_LINKS_H
#define WEFT_CLI_PROBE_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_counters;

/* Of `n` GPUs, in NVML's order. NULL when NVML or the counters are not there, or no GPU has links. */
struct link_counters *link_counters_open(int n);
void link_counters_close(struct link_counters *counters);

/* Starts counting on both GPUs. `brief`: by each GPU's totals, where they agree with its links. */
void link_counters_mark(struct link_counters *counters, int a, int b, bool brief);

/* Errors counted since the mark; `where` names the links ("gpu0 link 3 crc +2, ..."). */
int64_t link_counters_grown(struct link_counters *counters, char *where, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the PEs that a wait depends on still make progress, according to their black boxes. A
 * wait for PE 3 depends on PE 3; if that waits for PE 5, also on PE 5, and so on; a wait for any PE
 * depends on all. PEs in a cycle of waits make no progress, so a deadlock is detected although each
 * of them polls. */
#ifndef WEFT_JOB_WATCH_H
#define WEFT_JOB_WATCH_H

#include "job/job.h"

struct watch {
    uint64_t moves; /* changes when one of them made progress or the set of PEs changed */
    bool stopped;   /* one of them is stopped, by a signal or in a debugger */
    bool remote;    /* the wait also depends on PEs of other nodes, which `moves` does not cover */
};

/* Checks the PEs of this node. pe: a PE of the job, or -1 for any. */
struct watch watch_peers(struct weft_job *job, int pe);

/* Checks PEs of other nodes: *moves changes when one of them made progress. It fetches their black
 * boxes over their paths, which is slow, so it is for waits that are about to fail. It does not
 * check which of those PEs the wait depends on. Returns the time of a failed fetch in ns, which
 * ends the check; else 0. */
uint64_t watch_remote_nodes(struct weft_job *job, uint64_t *moves);

/* "PE 3 (pid 4711) is not waiting in Weft: it computes or is blocked elsewhere, ..." */
void watch_describe(struct weft_job *job, int pe, char *text, size_t bytes);

#endif

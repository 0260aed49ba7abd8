/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the PEs that a wait depends on still move, by their black boxes. A wait for PE 3 depends
 * on PE 3; while that waits itself, for PE 5, on PE 5 as well, and so on; a wait for nobody in
 * particular depends on all. PEs in a circle of waits do not move, so a deadlock is found although
 * each of them polls. */
#ifndef WEFT_JOB_WATCH_H
#define WEFT_JOB_WATCH_H

#include "job/job.h"

struct watch {
    uint64_t moves; /* differs from the last time: some of them moved, or others are depended on */
    bool stopped;   /* one of them is stopped, by a signal or in a debugger */
    bool remote;    /* PEs of other nodes are depended on, too, of which this does not tell */
};

/* pe: of the job, or -1. */
struct watch watch_peers(struct weft_job *job, int pe);

/* *moves differs from the last time when some PE on another node has moved. Their black boxes are
 * fetched over their paths, which is slow: for waits that are about to fail. Which of those PEs a
 * wait depends on is not looked at. Returns the time for which one was asked in vain, which ends
 * the look; else 0. */
uint64_t watch_remote_nodes(struct weft_job *job, uint64_t *moves);

/* "PE 3 (pid 4711) is not waiting in Weft: it computes or is blocked elsewhere, ..." */
void watch_describe(struct weft_job *job, int pe, char *text, size_t bytes);

#endif

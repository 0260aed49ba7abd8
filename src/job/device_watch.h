/* SPDX-License-Identifier: Apache-2.0 */
/* Watches a job while its device code runs: a thread that detects the death of a PE or another end
 * of the job, also while the program's threads make no Weft calls because they wait for a kernel.
 * The kernels' waits read the same word as the host's (weft_job.fault) and then end. */
#ifndef WEFT_JOB_DEVICE_WATCH_H
#define WEFT_JOB_DEVICE_WATCH_H

#include "job/job.h"

struct device_watch;

/* *watch is NULL where there is no other PE to watch. */
weft_status device_watch_start(struct weft_job *job, struct device_watch **watch);

/* Called before the library's own kernels wait on a stream of the program: starts a watch unless
 * the job has one. */
weft_status device_watch_kernels(struct weft_job *job);

/* Stops the thread, before the job's state is freed. `watch` may be NULL. */
void device_watch_stop(struct device_watch *watch);

#endif

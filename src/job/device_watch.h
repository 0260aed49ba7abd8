/* SPDX-License-Identifier: Apache-2.0 */
/* Looks after a job whose device code runs: a thread that finds out that a PE has died, or that the
 * job has ended otherwise, also where the program's own threads are in no call of Weft, since they
 * wait for a kernel. The kernels' waits look at the same word as the host's (weft_job.fault), and
 * end. */
#ifndef WEFT_JOB_DEVICE_WATCH_H
#define WEFT_JOB_DEVICE_WATCH_H

#include "job/job.h"

struct device_watch;

/* *watch is NULL where there is nobody to look after. */
weft_status device_watch_start(struct weft_job *job, struct device_watch **watch);

/* Before the library's own kernels wait on a stream of the program: the job has a watch then,
 * unless it has one of device code already. */
weft_status device_watch_kernels(struct weft_job *job);

/* The job's state is there until then. NULL is allowed. */
void device_watch_stop(struct device_watch *watch);

#endif

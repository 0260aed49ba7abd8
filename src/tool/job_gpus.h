/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that the processes of a running job use. */
#ifndef WEFT_TOOL_JOB_GPUS_H
#define WEFT_TOOL_JOB_GPUS_H

#include <weft.h>

enum { JOB_GPUS_MOST = 64 };

struct job_gpus {
    int gpus[JOB_GPUS_MOST]; /* NVML indices, ascending, each once */
    int n;
    int processes; /* number of processes of the job, including `pid` */
};

/* Finds the GPUs of the job of `pid`: of that process, its descendants, and its siblings below a
 * `weft run`. NVML reports which processes use a GPU. */
weft_status job_find_gpus(int pid, struct job_gpus *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs the processes of a running job use. */
#ifndef WEFT_TOOL_JOB_GPUS_H
#define WEFT_TOOL_JOB_GPUS_H

#include <weft.h>

enum { JOB_GPUS_MOST = 64 };

struct job_gpus {
    int gpus[JOB_GPUS_MOST]; /* numbers as NVML has them, ascending, each once */
    int n;
    int processes; /* of the job, this one included */
};

/* The job of `pid`: that process, those below it, and its siblings below a `weft run`. Asks the
 * NVIDIA driver which of them hold a GPU. */
weft_status job_find_gpus(int pid, struct job_gpus *job);

#endif

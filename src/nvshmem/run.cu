/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of run_kernel.h for GPUs. run_cuda.c launches it. */
#include "nvshmem/run_kernel.h"

/* For blocks of up to 512 threads: at most 128 registers for each thread. */
extern "C" __global__ void __launch_bounds__(512, 1) weft_nv_operation(struct weft_nv_call call)
{
    weft_nv_run(&call);
}

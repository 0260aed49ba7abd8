/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels.h, relay.h and short.h for GPUs. launch.c launches them. */
#include "ops/experts/relay.h"
#include "ops/experts/short.h"

#define KERNEL(name, threads)                                                                      \
    extern "C" __global__ void __launch_bounds__(threads, 1)                                       \
        weft_experts_##name(struct experts_call call)                                              \
    {                                                                                              \
        experts_##name(&call);                                                                     \
    }
EXPERTS_KERNELS(KERNEL)

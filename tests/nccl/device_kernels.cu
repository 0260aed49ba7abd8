/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of device.c for GPUs. */
#include "device_kernels.h"

#define DEVICE_GLOBAL(name)                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS) nccl_test_##name(device_call call)       \
    {                                                                                              \
        kernel_##name(call);                                                                       \
    }
DEVICE_KERNELS(DEVICE_GLOBAL)

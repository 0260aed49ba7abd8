/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of device.c on CPU threads. */
#include "device_kernels.h"

#include <weft/simt_executor.h>

#define DEVICE_LANE(name)                                                                          \
    static void lane_##name(const void *call)                                                      \
    {                                                                                              \
        kernel_##name(*(const device_call *)call);                                                 \
    }
DEVICE_KERNELS(DEVICE_LANE)

int device_run_here(enum device_kernel kernel, const struct device_call *call)
{
    static void (*const lanes[])(const void *) = {
#define DEVICE_ROW(name) lane_##name,
        DEVICE_KERNELS(DEVICE_ROW)
#undef DEVICE_ROW
    };
    weft_simt_launch_attr attr = {};
    attr.size = sizeof attr;
    attr.name = "a kernel of nccl_device.h";
    attr.kernel = lanes[kernel];
    attr.args = call;
    attr.args_bytes = sizeof *call;
    attr.grid[0] = BLOCKS;
    attr.block[0] = THREADS;
    attr.grid[1] = attr.grid[2] = attr.block[1] = attr.block[2] = 1;
    static thread_local weft_simt_stream *stream; /* ranks that are threads run at the same time */
    weft_status status = stream ? WEFT_OK : weft_simt_stream_create(&stream);
    if (!status)
        status = weft_simt_launch(&attr, stream);
    return status ? status : weft_simt_stream_synchronize(stream);
}

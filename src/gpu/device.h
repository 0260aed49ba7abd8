/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU a PE uses, and its primary context. Knows nothing of heaps and peers. */
#ifndef WEFT_GPU_DEVICE_H
#define WEFT_GPU_DEVICE_H

#include "driver/cuda.h"

struct gpu_device {
    const struct cuda *cuda;
    CUdevice device;
    CUcontext context; /* its primary context, shared with the CUDA runtime */
    int ordinal;       /* among the visible ones */
    int visible;       /* how many are */
    CUuuid uuid;
    char uuid_text[48]; /* "GPU-...", for an instance of a partitioned GPU "MIG-..." */
    char name[96];
    char bus_id[20];  /* "0000:0d:00.0" */
    int major, minor; /* compute capability */
    int multiprocessors;
    int copy_engines;
    bool pageable; /* it accesses plain host memory by itself, so copies from there may be late */
    bool rdma;     /* memory may be made for RDMA */
    size_t total_bytes;
    char why[160]; /* why this one */
};

/* Chooses and opens: the device of `current` (a context that the program made current; NULL: none);
 * else entry local_pe, counted round, of the list `wanted` ("0,1", "GPU-4f2a...", "MIG-...",
 * "0000:0d:00.0"; "" = all visible ones in their order). CUDA_VISIBLE_DEVICES has been applied by
 * the driver. WEFT_ERR_CONFIG: `wanted` names none of the visible devices. WEFT_ERR_UNSUPPORTED:
 * prohibited compute mode, no virtual memory management. WEFT_ERR_SYSTEM: the driver refused. */
weft_status gpu_device_open(struct gpu_device *gpu, const struct cuda *cuda, CUcontext current,
                            const char *wanted, int local_pe);
void gpu_device_close(struct gpu_device *gpu);

/* The visible device of this name as `gpu` sees it; false: it is not visible. */
bool gpu_device_find(const struct gpu_device *gpu, const CUuuid *uuid, CUdevice *device,
                     int *ordinal);

/* Makes the context current in this thread for the calls until gpu_leave(). */
weft_status gpu_enter(const struct gpu_device *gpu);
void gpu_leave(const struct gpu_device *gpu);

/* Free and total memory of the device, in bytes; zeros when the driver does not say. */
void gpu_device_memory(const struct gpu_device *gpu, size_t *free_bytes, size_t *total_bytes);

/* "GPU 0 (NVIDIA H200, 0000:0d:00.0)" */
const char *gpu_device_text(const struct gpu_device *gpu, char *text, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU that a PE uses and its primary context. This file knows nothing of heaps and peers. */
#ifndef WEFT_GPU_DEVICE_H
#define WEFT_GPU_DEVICE_H

#include "driver/gpu_api.h"

struct gpu_device {
    const struct gpu_api *driver;
    CUdevice device;
    CUcontext context; /* primary context, shared with the CUDA runtime */
    int ordinal;       /* index among the visible GPUs */
    int visible;       /* number of visible GPUs */
    CUuuid uuid;
    char uuid_text[48]; /* "GPU-..."; "MIG-..." for an instance of a partitioned GPU */
    char name[96];
    char bus_id[20];       /* "0000:0d:00.0" */
    int major, minor;      /* compute capability */
    char architecture[64]; /* AMD: "gfx942:sramecc+:xnack-" */
    int multiprocessors;
    int copy_engines;
    /* the GPU accesses pageable host memory, so a copy from there may read it late */
    bool pageable;
    bool rdma; /* memory can be allocated for RDMA */
    size_t total_bytes;
    char why[160]; /* why this GPU was chosen */
};

/* Chooses and opens a device: the device of `current` (a context that the program made current) if
 * it is not NULL; else entry local_pe, modulo the length, of the list `wanted` ("0,1",
 * "GPU-4f2a...", "MIG-...", "0000:0d:00.0"; "": all visible devices in their order). The driver has
 * applied CUDA_VISIBLE_DEVICES. WEFT_ERR_CONFIG: `wanted` names no visible device.
 * WEFT_ERR_UNSUPPORTED: prohibited compute mode, or no virtual memory management. WEFT_ERR_SYSTEM:
 * the driver refused. */
weft_status gpu_device_open(struct gpu_device *gpu, const struct gpu_api *driver, CUcontext current,
                            const char *wanted, int local_pe);
void gpu_device_close(struct gpu_device *gpu);

/* Finds the visible device with this UUID. Returns false when it is not visible. */
bool gpu_device_find(const struct gpu_device *gpu, const CUuuid *uuid, CUdevice *device,
                     int *ordinal);

/* Makes the context current in this thread for the calls until gpu_leave(). */
weft_status gpu_enter(const struct gpu_device *gpu);
void gpu_leave(const struct gpu_device *gpu);

/* Free and total memory of the device, in bytes; zeros when the driver does not report them. */
void gpu_device_memory(const struct gpu_device *gpu, size_t *free_bytes, size_t *total_bytes);

/* "GPU 0 (NVIDIA H200, 0000:0d:00.0)" */
const char *gpu_device_text(const struct gpu_device *gpu, char *text, size_t bytes);

#endif

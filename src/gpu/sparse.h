/* SPDX-License-Identifier: Apache-2.0 */
/* An address range of this PE's GPU in which pages get memory when they are needed: for tables that
 * are mostly unused. What has memory keeps its address, so kernels may read the table meanwhile. */
#ifndef WEFT_GPU_SPARSE_H
#define WEFT_GPU_SPARSE_H

#include "driver/gpu_api.h"

#include <weft.h>

struct gpu;

struct gpu_sparse {
    CUdeviceptr base; /* 0: it is not open */
    size_t bytes, page;
    CUmemGenericAllocationHandle *pages; /* [bytes / page] 0: no memory */
};

/* Reserves a range of at least `bytes` bytes. */
weft_status gpu_sparse_open(struct gpu *gpu, size_t bytes, struct gpu_sparse *table);

/* Gives the pages of `bytes` bytes from offset `at` on memory. New memory is zero, by a copy on
 * that internal stream: see gpu_copy(). */
weft_status gpu_sparse_back(struct gpu *gpu, unsigned stream_index, struct gpu_sparse *table,
                            size_t at, size_t bytes);

/* No kernel uses it any more. */
void gpu_sparse_close(struct gpu *gpu, struct gpu_sparse *table);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives on GPU memory need of a GPU: the areas of teams in the library's part of the
 * heap, the module with their kernels, loaded at first use, and a stream for those that the host
 * calls. Which kernel serves, and with what arguments, is known in ops/coll/kernel.c. */
#ifndef WEFT_GPU_COLL_H
#define WEFT_GPU_COLL_H

#include "gpu/coll/engines.h"
#include "gpu/coll/kernels.h"
#include "gpu/gpu.h"

enum coll_kernel {
#define COLL_KERNEL_ENUM(name) COLL_##name,
    COLL_KERNELS(COLL_KERNEL_ENUM)
#undef COLL_KERNEL_ENUM
        COLL_KERNEL_COUNT
};

struct gpu_coll {
    CUmodule module;
    CUfunction functions[COLL_KERNEL_COUNT];
    CUstream stream;
    pthread_mutex_t lock; /* one collective of the host at a time */
    struct gpu_engines engines;
};

/* Bytes of all areas in each window. */
static inline size_t gpu_coll_bytes(void)
{
    return coll_area_offset(COLL_TEAMS);
}

/* Loads the kernels unless they are there: gpu->coll is then set. Not during a capture. From any
 * thread. */
weft_status gpu_coll_ready(struct gpu *gpu);

/* Of the GPU side, at its end: the stream, which the caller closes, then the rest. */
CUstream gpu_coll_take_stream(struct gpu *gpu);
void gpu_coll_close(struct gpu *gpu);

/* Puts a kernel on a stream; the device's context is current. */
weft_status gpu_coll_launch(struct gpu *gpu, enum coll_kernel kernel, unsigned blocks,
                            unsigned threads, CUstream stream, struct coll_call *call);

/* An alltoallv's array `which` of `n` words from memory of the host: where the kernel finds it,
 * until the next is put there. Under the lock above. */
const uint64_t *gpu_coll_sizes(struct gpu *gpu, int which, const uint64_t *words, int n);

/* The number of the latest round of a team's own area, and its beginning anew behind a number. */
weft_status gpu_coll_number(struct gpu *gpu, int team, uint64_t *number);
weft_status gpu_coll_begin_at(struct gpu *gpu, int team, uint64_t number);

/* What the proof of lines left in the team's own area (ll128.h). */
weft_status gpu_coll_proof(struct gpu *gpu, int team, uint64_t *found);

#endif

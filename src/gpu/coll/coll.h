/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU resources of collectives on GPU memory: the areas of teams in the library's part of the
 * heap, the module with the kernels, loaded at first use, and a stream for collectives that the
 * host calls. ops/coll/kernel.c chooses the kernel and its arguments. */
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
    /* kernels wait themselves for the earlier work of their stream, so that they may start sooner
     */
    bool early;
    CUstream stream;
    pthread_mutex_t lock; /* held for one collective of the host at a time */
    struct gpu_engines engines;
};

/* Bytes of one slot set of a team, and the offset of a team's area in each window. */
static inline uint64_t coll_set_bytes(const struct coll_areas *areas, int team)
{
    return team < areas->wide ? COLL_WIDE_SET : COLL_NARROW_SET;
}

static inline uint64_t coll_area_offset(const struct coll_areas *areas, int team)
{
    uint64_t wide = (uint64_t)(team < areas->wide ? team : areas->wide);
    return areas->offset + (uint64_t)team * sizeof(struct coll_area) + wide * 4 * COLL_WIDE_SET +
           ((uint64_t)team - wide) * 4 * COLL_NARROW_SET;
}

/* The slot sets of a team in this GPU's memory. */
static inline void *gpu_coll_sets(const struct gpu *gpu, int team)
{
    return (char *)(uintptr_t)gpu_heap_own(&gpu->heap)->base +
           coll_area_offset(&gpu->layout.coll, team) + sizeof(struct coll_area);
}

/* Loads the kernels at the first call and sets gpu->coll. Must not be called during a stream
 * capture. Any thread may call it. */
weft_status gpu_coll_load(struct gpu *gpu);

/* Called when the GPU side closes: gpu_coll_take_stream() hands the stream to the caller, who
 * closes it; gpu_coll_close() releases the rest. */
CUstream gpu_coll_take_stream(struct gpu *gpu);
void gpu_coll_close(struct gpu *gpu);

/* Launches a kernel on a stream; from compute capability 9.0 on it may start before the earlier
 * work of the stream has ended, and waits for that itself (kernels.cu). The device's context is
 * current. */
weft_status gpu_coll_launch(struct gpu *gpu, enum coll_kernel kernel, unsigned blocks,
                            unsigned threads, CUstream stream, struct coll_call *call);

/* Copies size array `which` of an alltoallv, `n` words of host memory, to pinned memory and returns
 * its device address. The array stays valid until the next call. The caller holds gpu_coll.lock. */
const uint64_t *gpu_coll_sizes(struct gpu *gpu, int which, const uint64_t *words, int n);

/* gpu_coll_read_number() reads the number of the latest round from a team's own area.
 * gpu_coll_set_number() resets the area, so that the next round is number + 1. */
weft_status gpu_coll_read_number(struct gpu *gpu, int team, uint64_t *number);
weft_status gpu_coll_set_number(struct gpu *gpu, int team, uint64_t number);

/* Reads the result of the LL128 test from the team's own area (ll128.h). */
weft_status gpu_coll_read_proof(struct gpu *gpu, int team, uint64_t *found);

#endif

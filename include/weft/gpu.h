/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU side of a job: which GPU, which pairs, the program's own memory as a local side. */
#ifndef WEFT_GPU_H
#define WEFT_GPU_H

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tells the job of memory of the program's own: of a GPU (cudaMalloc, cuMemCreate) or of the host
 * (then it is pinned, unless it is already). It may then be the local source or destination of
 * every operation without asking the driver what it is, and host memory is copied without a detour.
 * Any address and size: nothing is rounded for the caller. Memory that is not registered may be
 * used as well; the driver is asked at each operation. Not collective. Opens nothing: the job must
 * have its GPU side (after the first weft_alloc(WEFT_GPU) or with device code).
 * Errors: WEFT_ERR_ARGUMENT (null, 0 bytes, overlaps what is registered), _UNSUPPORTED (no GPU
 * side), _ADDRESS (part of it is device memory and part not, or it ends within the range),
 * _SYSTEM (the driver refused to pin). */
weft_status weft_register(weft_job *job, void *address, size_t bytes);

/* Takes back what weft_register() was told, by the same address; before the memory is freed.
 * Operations that use it must be complete. WEFT_ERR_ADDRESS: nothing is registered there. */
weft_status weft_unregister(weft_job *job, void *address);

/* Makes memory of the program's own symmetric: `bytes` at `address`, GPU memory of one
 * cuMemCreate() allocation of this PE's GPU, made with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
 * where the job has more than one PE, mapped from its start. *symmetric is the address by which
 * every operation of the host and of device code reaches it, here and at every PE; the same memory
 * stays at `address` too. Collective over the job, with the same bytes, the same size of the
 * allocation and the same place in it; rounding is asked of nobody. It needs addresses of the GPU
 * heap's window (WEFT_GPU_HEAP_SIZE), no memory. Opens the GPU side as weft_alloc(WEFT_GPU) does. A
 * kernel that uses both addresses of one place orders them by a fence.proxy.alias.
 * Errors, at every PE: WEFT_ERR_ARGUMENT (null, 0 bytes), _MISMATCH (PEs differ), _ADDRESS (no
 * memory of cuMemCreate(), as cudaMalloc()'s is none; smaller; symmetric already), _UNSUPPORTED
 * (memory of another GPU, or without a descriptor), _NO_MEMORY (no addresses left), _SYSTEM (the
 * driver refused). */
weft_status weft_register_symmetric(weft_job *job, void *address, size_t bytes, void **symmetric);

/* Takes back what weft_register_symmetric() made, by the address that it gave; before the memory is
 * freed. Collective; operations that the default context began on it are complete then. The memory
 * itself stays the program's. WEFT_ERR_ADDRESS: nothing was registered there. */
weft_status weft_unregister_symmetric(weft_job *job, void *symmetric);

typedef struct weft_gpu_info {
    size_t size; /* set by the caller: sizeof(weft_gpu_info) */
    int ordinal; /* among the visible GPUs */
    char name[96];
    char uuid[48];      /* "GPU-..." or "MIG-..." */
    char bus_id[20];    /* "0000:0d:00.0" */
    char why[160];      /* why this GPU */
    char kernels[32];   /* "fat binary" or "PTX text": where the library's kernels came from */
    size_t heap_window; /* addresses reserved for each PE's GPU heap, in bytes */
    size_t heap_backed; /* with memory behind them */
    size_t heap_used;   /* in allocated blocks, the library's own part included */
} weft_gpu_info;

/* The GPU that this PE uses. WEFT_ERR_UNSUPPORTED: the job has no GPU side yet. */
weft_status weft_gpu_query(weft_job *job, weft_gpu_info *info);

/* Whether the GPU memory of PE `pe` can be accessed from this PE, and the evidence: what was
 * proven, or what refused. */
typedef struct weft_gpu_pair {
    size_t size;     /* set by the caller: sizeof(weft_gpu_pair) */
    int usable;      /* 1 or 0 */
    char bus_id[20]; /* of that PE's GPU; "" when it is on another node */
    char evidence[256];
} weft_gpu_pair;
weft_status weft_gpu_pair_query(weft_job *job, int pe, weft_gpu_pair *pair);

#ifdef __cplusplus
}
#endif

#endif

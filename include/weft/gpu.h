/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of a job: this PE's GPU, access between pairs of PEs, and registration of the program's
 * memory. */
#ifndef WEFT_GPU_H
#define WEFT_GPU_H

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers memory of the program: of a GPU (cudaMalloc, cuMemCreate) or of the host, which is
 * pinned unless it is already. Operations may then use it as local source or destination without
 * asking the driver what kind of memory it is, and host memory is copied without a staging buffer.
 * Address and size may have any alignment. Memory that is not registered may be used as well; each
 * operation then asks the driver. Not collective. The call does not set up the GPU: the job must
 * have done so (at the first weft_alloc(WEFT_GPU) or weft_device_start()).
 * Errors: WEFT_ERR_ARGUMENT (null, 0 bytes, overlaps registered memory), _UNSUPPORTED (the job has
 * not set up its GPUs yet), _ADDRESS (part of the range is device memory and part not, or the
 * allocation ends within the range), _SYSTEM (the driver refused to pin the memory). */
weft_status weft_register(weft_job *job, void *address, size_t bytes);

/* Unregisters memory, by the address that weft_register() was given. The program calls it before it
 * frees the memory, when operations that use the memory are complete.
 * Errors: WEFT_ERR_ADDRESS (no registered memory begins there). */
weft_status weft_unregister(weft_job *job, void *address);

/* Makes memory of the program symmetric: `bytes` bytes at `address`. The memory is GPU memory of
 * one cuMemCreate() allocation of this PE's GPU, mapped from its start, and made with
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR if the job has more than one PE. *symmetric is the
 * address by which every operation of the host and of device code reaches it, here and at every PE;
 * the memory stays at `address` too. Collective over the job, with the same `bytes`, the same size
 * of the allocation and the same offset in it; `bytes` need not be rounded. The call uses addresses
 * of the GPU heap's window (WEFT_GPU_HEAP_SIZE) and no memory. It sets up the GPU as
 * weft_alloc(WEFT_GPU) does. A kernel that uses both addresses of one place orders them by a
 * fence.proxy.alias.
 * Errors, at every PE: WEFT_ERR_ARGUMENT (null, 0 bytes), _MISMATCH (PEs differ), _ADDRESS (not
 * memory of cuMemCreate(): cudaMalloc() memory is not; larger than the allocation; symmetric
 * already), _UNSUPPORTED (memory of another GPU, or without a descriptor), _NO_MEMORY (no addresses
 * left), _SYSTEM (the driver refused). */
weft_status weft_register_symmetric(weft_job *job, void *address, size_t bytes, void **symmetric);

/* Ends what weft_register_symmetric() made, by the address that it gave; the memory stays the
 * program's. The program calls it before it frees the memory. Collective; it completes operations
 * that the default context began on the memory.
 * Errors: WEFT_ERR_ADDRESS (no memory was registered there). */
weft_status weft_unregister_symmetric(weft_job *job, void *symmetric);

typedef struct weft_gpu_info {
    size_t size; /* set by the caller: sizeof(weft_gpu_info) */
    int ordinal; /* index among the visible GPUs */
    char name[96];
    char uuid[48];      /* "GPU-..." or "MIG-..." */
    char bus_id[20];    /* "0000:0d:00.0" */
    char why[160];      /* why this PE uses this GPU */
    char kernels[32];   /* form of the library's kernels that the driver loaded: "cubin" or
                           "PTX" */
    size_t heap_window; /* addresses reserved for each PE's GPU heap, in bytes */
    size_t heap_backed; /* bytes of these addresses that have memory */
    size_t heap_used;   /* bytes in allocated blocks, including the library's own */
    int processors;     /* streaming multiprocessors */
} weft_gpu_info;

/* Reports the GPU that this PE uses.
 * Errors: WEFT_ERR_UNSUPPORTED (the job has not set up its GPUs yet). */
weft_status weft_gpu_query(weft_job *job, weft_gpu_info *info);

/* Whether this PE can access the GPU memory of PE `pe`, and the evidence: what was tested, or which
 * call was refused. */
typedef struct weft_gpu_pair {
    size_t size;     /* set by the caller: sizeof(weft_gpu_pair) */
    int usable;      /* 1 or 0 */
    char bus_id[20]; /* PCI address of that PE's GPU; "" when it is on another node */
    char evidence[256];
} weft_gpu_pair;
weft_status weft_gpu_pair_query(weft_job *job, int pe, weft_gpu_pair *pair);

#ifdef __cplusplus
}
#endif

#endif

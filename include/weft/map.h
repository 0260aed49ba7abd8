/* SPDX-License-Identifier: Apache-2.0 */
/* CPU access to GPU memory: mappings, and copies that need no stream.
 *
 * The memory of a GPU can be mapped into the CPU's address space, so that the CPU loads and stores
 * it without a call to the GPU driver. A store of 8 bytes to 1 KiB takes the CPU about 40 ns and
 * arrives 1.3 us later; a load takes about 1.1 us. A cudaMemcpy takes 5 to 9 us (H200, PCIe 5;
 * `weft bench map` prints the figures of this machine). Weft itself uses mappings for small puts,
 * gets, signals and waits; the functions here are for a program that wants to do the same.
 *
 * Such memory is write-combined. For a program that stores to it without weft_copy_to() this means:
 *   - Stores are not in order until a fence (sfence on x86): store the data, fence, store the flag.
 *   - Stores may stay in the CPU's buffers until a fence. weft_map_flush() includes one.
 *   - Each load is one round trip over PCIe: read with weft_copy_from(), which reads whole cache
 *     lines at once.
 *   - Loads by the CPU are not ordered after a stream. Copies and kernels that write the memory
 *     must be complete. A cudaMemcpy of up to 64 KiB from pageable memory returns before it is
 *     complete: synchronize with its stream first. The same holds for weft_get() and other host
 *     functions.
 *   - Atomic operations of the CPU on it are not atomic with those of the GPU. Aligned stores and
 *     loads of 1, 2, 4 and 8 bytes are single accesses.
 * A child of fork() does not have the mappings. Any thread may call all functions. */
#ifndef WEFT_MAP_H
#define WEFT_MAP_H

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maps `bytes` bytes at `address` of PE `pe`. *mapped is the address at which the CPU of this PE
 * accesses them, until weft_unmap() or weft_finalize(). Not collective. The same range may be
 * mapped several times.
 *
 * `address` is a symmetric address (weft_alloc(), weft_register_symmetric()) in the GPU heap or the
 * host heap, and `pe` any PE of this node whose memory can be mapped. With the caller's own PE
 * number, `address` may also be registered memory (weft_register()):
 *   - of the host, which is its own mapping;
 *   - of cuMemCreate() with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
 *   - of cudaMalloc(), where Weft maps through the driver's resource interface and knows the form
 *     of the driver's handles (Weft tests this). cudaMallocAsync() and cudaMallocManaged() memory
 *     has no such handle. The handle is the one that cudaIpcGetMemHandle() gives: another process
 *     that learns it can open that memory, too.
 *
 * Cost: 64 MiB of symmetric memory take about 0.2 ms the first time and nothing after that. 64 MiB
 * of registered memory take 1.5 ms the first time, most of it in the driver, to export the memory
 * and to remove the mapping. weft_unmap() therefore keeps the mapping of registered memory, and
 * mapping the range or a part of it again costs a few microseconds. Up to 64 mappings and 1 GiB are
 * kept, or an eighth of BAR1 if that is less (64 MiB if its size is not known). The least recently
 * used mapping is removed first, and all are removed when another mapping needs space in BAR1.
 * Memory with a kept mapping is not freed before weft_unregister(), even after the program has
 * freed it.
 * Errors: WEFT_ERR_ARGUMENT (null, 0 bytes), _PE, _ADDRESS (neither symmetric nor registered),
 * _RANGE (past the end of the memory), _UNSUPPORTED (no backend can map it: the sentence names each
 * backend and what it failed on), _NO_MEMORY (BAR1, the PCIe window through which the CPU reaches
 * the GPU, has no space for this size). */
weft_status weft_map(weft_job *job, void *address, size_t bytes, int pe, void **mapped);

/* Removes a mapping, by the address that weft_map() gave. The program must not use that address any
 * more.
 * Errors: WEFT_ERR_ADDRESS (weft_map() gave no such address). */
weft_status weft_unmap(weft_job *job, void *mapped);

/* Returns when everything that this thread has stored through mappings of that memory has arrived
 * there, so that any reader, also another GPU or a NIC, sees it. `mapped` is any address of a
 * mapping; the function reads it, which takes about 1.3 us. For host memory the function is a
 * fence. It is not needed before the launch of a kernel on that GPU, nor before a flag that is
 * stored after a fence through a mapping of the same GPU. */
weft_status weft_map_flush(weft_job *job, const void *mapped);

/* Copies `bytes` bytes from host memory (`src`) to GPU memory (`dst`). On return src may be reused,
 * and copies, stores after a fence, and kernel launches of this thread on that GPU see the data.
 * For other readers call weft_copy_flush() first. When dst is host memory the function is a plain
 * copy.
 *
 * `dst` is any GPU memory: its own address, or the address of symmetric memory in kernels of this
 * PE. The CPU copies through a mapping up to the size to which this is faster here; a copy engine
 * copies larger sizes, and memory that is not mapped. Large copies from pageable memory (1 MiB and
 * more; also those of weft_put() and weft_get()) use several threads with pinned staging buffers,
 * where measurement shows that this is faster than the driver, which does the same with one thread:
 * up to four threads, on the CPUs that only this PE uses. The first such copy after each start of
 * the machine measures this, in about 50 ms. WEFT_TEST_COPY_THREADS sets the number of threads and
 * skips the measurement; 1 turns the method off. Errors: WEFT_ERR_ARGUMENT, _RANGE (a range that
 * begins in a heap of GPU or host memory runs past the end of the heap), _SYSTEM (the driver
 * refused). */
weft_status weft_copy_to(weft_job *job, void *dst, const void *src, size_t bytes);

/* Copies `bytes` bytes from GPU memory (`src`) to host memory (`dst`), as weft_copy_to() does in
 * the other direction. On return dst has the data that the GPU's memory held during the call. A
 * kernel or copy that writes src must be complete before, or the caller must have seen a flag that
 * it stored after the data. */
weft_status weft_copy_from(weft_job *job, void *dst, const void *src, size_t bytes);

/* Returns when everything that weft_copy_to() of this thread has copied to the memory at `dst` has
 * arrived there. */
weft_status weft_copy_flush(weft_job *job, const void *dst);

typedef struct weft_map_info {
    size_t size;    /* set by the caller: sizeof(weft_map_info) */
    int works;      /* 1: GPU memory of that PE can be mapped here */
    char way[64];   /* backend: "mmap of a dma-buf", "the GPU driver's resource interface",
                       "gdrdrv"; "" = none */
    char why[1024]; /* backends that were tried before it, or all, each with what it failed on */
    char by[16];    /* instructions of the CPU's copies: "AVX-512", "AVX2", "SSE4.1", "plain" */
    /* Measured sizes in bytes up to which the CPU copies without a copy engine: into GPU memory
     * from pageable and from pinned host memory, and out of GPU memory into either. */
    size_t to_from_plain, to_from_pinned, from_to_plain, from_to_pinned;
    /* Number of threads that copy between pageable and GPU memory, and the measured sizes in bytes
     * from which they do. 0: the copy engine alone is faster, WEFT_TEST_COPY_THREADS is 1, or this
     * PE has no CPUs for such threads. */
    int threads;
    size_t to_by_threads, from_by_threads;
} weft_map_info;

/* Reports whether and how GPU memory of PE `pe` can be mapped here. Measures the sizes if no call
 * has done so yet, in about 60 ms.
 * Errors: WEFT_ERR_UNSUPPORTED (the job has not set up its GPUs yet). */
weft_status weft_map_query(weft_job *job, int pe, weft_map_info *info);

#ifdef __cplusplus
}
#endif

#endif

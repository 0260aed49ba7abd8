/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's own way to GPU memory: mappings, and copies that need no stream.
 *
 * Memory of a GPU can be mapped into the CPU's addresses, so that the CPU stores and loads without
 * asking the GPU: 8 bytes to 1 KiB go out in some 40 ns and are there 1.3 us later, a load takes
 * about 1.1 us, where a copy by cudaMemcpy takes 5 to 9 us (H200, PCIe 5; `weft bench map` prints
 * this machine's figures). Weft itself puts, gets, sets signals and waits so where the sizes are
 * small; the functions here are for a program that wants the same for its own.
 *
 * Such memory is write-combined. What that means for who stores himself, and not by weft_copy_to():
 *   - Stores are not in order until a fence (sfence on x86): store the data, fence, store the flag.
 *   - They leave the CPU when its buffers like, at the latest at a fence. weft_map_flush() has one
 *     in it.
 *   - A load takes a trip over PCIe each: read with weft_copy_from(), which reads whole lines at
 *     once.
 *   - The CPU's loads are behind no stream. What the program's own copies and kernels write must be
 *     complete: a cudaMemcpy of up to 64 KiB from plain memory returns before, so synchronize with
 *     its stream first. That goes for weft_get() and the other functions of the host, too.
 *   - Atomic operations of the CPU on it are not atomic with those of the GPU. Aligned stores and
 *     loads of 1, 2, 4 and 8 bytes are done in one piece.
 * In a child of fork() the mappings are not there. All functions may be called by any thread. */
#ifndef WEFT_MAP_H
#define WEFT_MAP_H

#include <weft.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maps `bytes` at `address` of PE `pe`: *mapped is where the CPU of this PE finds them, until
 * weft_unmap() or weft_finalize(). `address` is a symmetric address (weft_alloc(),
 * weft_register_symmetric()), of the GPU heap or the host heap, and `pe` any PE of this node whose
 * memory can be mapped; or, with the own PE, memory that was registered (weft_register()): of the
 * host, which is its own mapping; of cuMemCreate() made with
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; or of cudaMalloc(), where the driver's resource
 * interface is the way and the driver's handles have the form that is known (it is tried; not of
 * cudaMallocAsync() and cudaMallocManaged(), which have none). Such a handle is what
 * cudaIpcGetMemHandle() gives: another process that learns it can open that memory, too. Not
 * collective. The same range may be mapped several times. 64 MiB of symmetric memory take about 0.2
 * ms the first time, and nothing after that. 64 MiB of registered memory take 1.5 ms the first
 * time, most of which the driver needs to hand the memory out and to take the mapping down. So that
 * weft_unmap() keeps it, and it, or a part of it, costs some microseconds from then on: up to 64
 * mappings and 1 GiB are kept, or an eighth of BAR1 where that is less (64 MiB where its size is
 * not known), the longest unused go first, and all go where BAR1 has no room for something else.
 * Memory of which a mapping is kept is not free before weft_unregister(), also where the program
 * has freed it.
 * Errors: WEFT_ERR_ARGUMENT (null, 0 bytes), _PE, _ADDRESS (neither symmetric nor registered),
 * _RANGE (past the end of the memory), _UNSUPPORTED (no way to map it: the sentence names each that
 * was tried and what refused), _NO_MEMORY (BAR1, the window through which the CPU reaches the GPU,
 * has no room for so much). */
weft_status weft_map(weft_job *job, void *address, size_t bytes, int pe, void **mapped);

/* Takes back what weft_map() gave, by that address; nobody may use it any more. WEFT_ERR_ADDRESS:
 * it gave no such one. */
weft_status weft_unmap(weft_job *job, void *mapped);

/* Returns when everything that this thread has stored through mappings of that memory has arrived
 * there, so that whoever is told now finds it, also another GPU or a NIC. `mapped` is any address
 * of a mapping, and is read: about 1.3 us. Not needed before the launch of a kernel on that GPU,
 * nor before a flag stored behind a fence through a mapping of the same GPU. Host memory: a
 * fence. */
weft_status weft_map_flush(weft_job *job, const void *mapped);

/* Copies `bytes` from host memory (`src`) to GPU memory (`dst`): by the CPU through a mapping up to
 * the size to which that is quicker here, else by a copy engine. dst is GPU memory of any kind: by
 * its own address, or that of the symmetric memory as a kernel of this PE sees it; memory that is
 * not mapped is copied by the engine. Large copies from plain memory (1 MiB and more; also those of
 * weft_put() and weft_get()) are dealt out to several threads with pinned rooms, where that was
 * measured to be quicker than the driver, which does the same with one: up to four threads, of the
 * CPUs that this PE has to itself. The first such copy measures, in some 50 ms, once for each start
 * of the machine; WEFT_COPY_THREADS says how many, without measuring, and 1 turns it off. On return
 * src may be reused, and the data is in front of what this thread copies, stores behind a fence, or
 * launches on that GPU afterwards. For other readers weft_copy_flush() comes between. Host memory
 * as dst: a plain copy. Errors: WEFT_ERR_ARGUMENT, _RANGE (what begins in the heap of GPU or host
 * memory runs past its end), _SYSTEM (the driver refused). */
weft_status weft_copy_to(weft_job *job, void *dst, const void *src, size_t bytes);

/* The other way; on return the data is there. It is what the GPU's memory held during the call: a
 * kernel or copy that writes it must be complete, or have stored a flag behind it that was seen. */
weft_status weft_copy_from(weft_job *job, void *dst, const void *src, size_t bytes);

/* Returns when what weft_copy_to() of this thread has copied to the memory at `dst` has arrived in
 * it. */
weft_status weft_copy_flush(weft_job *job, const void *dst);

typedef struct weft_map_info {
    size_t size;    /* set by the caller: sizeof(weft_map_info) */
    int works;      /* 1: GPU memory of that PE can be mapped here */
    char way[64];   /* "mmap of a dma-buf", "the GPU driver's resource interface", "gdrdrv"; "" =
                     * none */
    char why[1024]; /* the ways that were refused before, or all, each with what refused it */
    char by[16];    /* how the CPU copies: "AVX-512", "AVX2", "SSE4.1", "plain" */
    /* Sizes in bytes up to which the CPU copies by itself, as measured: into GPU memory from plain
     * host memory and from pinned, and out of it. */
    size_t to_from_plain, to_from_pinned, from_to_plain, from_to_pinned;
    /* Threads that copy between plain and GPU memory, and the sizes from which they do, as
     * measured; 0: the copy engine alone is the quicker one, WEFT_COPY_THREADS is 1, or this PE has
     * no CPUs for it. */
    int threads;
    size_t to_by_threads, from_by_threads;
} weft_map_info;

/* Whether and how GPU memory of PE `pe` is mapped here. WEFT_ERR_UNSUPPORTED: the job has no GPU
 * side. Measures, if nothing has yet: some 60 milliseconds. */
weft_status weft_map_query(weft_job *job, int pe, weft_map_info *info);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft bench map`: the same copies by the CUDA driver, the round trip of a flag between CPU
 * and kernel, and the time to map and unmap GPU memory. */
#ifndef WEFT_TOOL_GPU_COPIES_H
#define WEFT_TOOL_GPU_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

/* Synchronous copies by the driver (cuMemcpyHtoD, cuMemcpyDtoH), as cudaMemcpy makes them. in: to
 * the GPU. driver_copies_begin() makes the context current, _end() restores it. */
weft_status driver_copies_begin(weft_job *job);
weft_status driver_copy(weft_job *job, void *dst, const void *src, size_t bytes, bool in);
void driver_copies_end(weft_job *job);

/* Round trips of a flag. The CPU stores a number into `flag` (8 bytes of own GPU memory, initially
 * 0), a kernel that polls there stores it into pinned host memory, and the CPU polls for it. *ns:
 * time of all `rounds`. */
weft_status flag_echo(weft_job *job, uint64_t *flag, uint64_t rounds, double *ns);

/* Maps and unmaps `bytes` of GPU memory for the CPU, `rounds` times. *ns: time of all rounds. */
enum map_window {
    MAP_WINDOW_KEPT,       /* memory of cuMemCreate(), with the state of an earlier mapping */
    MAP_WINDOW_FIRST,      /* memory of cuMemCreate(), without state of an earlier round */
    MAP_WINDOW_FIRST_PLAIN /* memory of cudaMalloc(), without state of an earlier round */
};
weft_status map_windows(weft_job *job, enum map_window kind, size_t bytes, uint64_t rounds,
                        double *ns);

#endif

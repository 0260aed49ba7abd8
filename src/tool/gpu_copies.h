/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft bench map`: what the GPU's driver does with the same copies, how long a flag takes from
 * the CPU to a kernel and back, and how long a mapping takes to make and take down. */
#ifndef WEFT_TOOL_GPU_COPIES_H
#define WEFT_TOOL_GPU_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

/* A plain copy by the driver (cuMemcpyHtoD, cuMemcpyDtoH), complete on return, which is what
 * cudaMemcpy does. in: to the GPU. The driver_copies_begin() and _end() around many of them make
 * the context current. */
weft_status driver_copies_begin(weft_job *job);
weft_status driver_copy(weft_job *job, void *dst, const void *src, size_t bytes, bool in);
void driver_copies_end(weft_job *job);

/* `rounds` times: the CPU stores a number into `flag`, 8 bytes of the own GPU memory that are 0, a
 * thread of a kernel that polls there stores it into pinned host memory, and the CPU polls for it.
 * *ns: of all. */
weft_status flag_echo(weft_job *job, uint64_t *flag, uint64_t rounds, double *ns);

/* `rounds` times: maps `bytes` of memory made for that into the CPU's addresses, and takes them
 * back. *ns: of all. */
enum map_window {
    MAP_WINDOW_KEPT,       /* of cuMemCreate(), as a program does it that has mapped them before */
    MAP_WINDOW_FIRST,      /* and nothing is kept from one round to the next */
    MAP_WINDOW_FIRST_PLAIN /* that of cudaMalloc() */
};
weft_status map_windows(weft_job *job, enum map_window kind, size_t bytes, uint64_t rounds,
                        double *ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of solver.h executed by kernels, on GPUs or on CPU threads (WEFT_TARGET). The result is
 * the same, bit for bit, as that of solver_serial() after the same number of steps. */
#ifndef EXAMPLES_SOLVER_DEVICE_H
#define EXAMPLES_SOLVER_DEVICE_H

#include "solver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Distributes the rows of the grid of width x height cells over all PEs, executes `steps` steps,
 * and gathers the grid in `values` at PE 0 (ignored at other PEs). `start` and `fixed` are the
 * whole grid at every PE, in host memory: start values, and non-zero for fixed cells. style:
 * SOLVER_VALUES, each thread puts its cell of a boundary row to the neighbour as soon as it is
 * computed; SOLVER_ROWS, a block computes the boundary row and sends it by put_signal. *seconds is
 * the time of the steps at this PE. Collective over the job. Errors: those of memory, of launches
 * and of device code; after an error the job cannot be used any more. */
weft_status solver_device_run(weft_job *job, enum solver_style style, size_t width, size_t height,
                              const float *start, const unsigned char *fixed, uint64_t steps,
                              float *values, double *seconds);

#ifdef __cplusplus
}
#endif

#endif

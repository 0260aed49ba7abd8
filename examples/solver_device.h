/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of solver.h taken by kernels, on GPUs or on CPU threads (WEFT_TARGET). The result is
 * the same, bit for bit, as that of solver_serial() after so many steps. */
#ifndef EXAMPLES_SOLVER_DEVICE_H
#define EXAMPLES_SOLVER_DEVICE_H

#include "solver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Spreads the grid of width x height cells over all PEs by rows, takes `steps` steps, and gathers
 * the grid in `values` at PE 0 (ignored elsewhere). `start` and `fixed` are the whole grid at every
 * PE, in host memory: start values, and non-zero where the value is given. style: SOLVER_VALUES,
 * each thread puts its cell of a rim row to the neighbour as soon as it has it; SOLVER_ROWS, a
 * block makes the rim row and sends it whole, by put_signal. *seconds is the time of the steps at
 * this PE. Collective over the job. Errors: those of memory, of launches and of device code; after
 * one the job is of no more use. */
weft_status solver_device_run(weft_job *job, enum solver_style style, size_t width, size_t height,
                              const float *start, const unsigned char *fixed, uint64_t steps,
                              float *values, double *seconds);

#ifdef __cplusplus
}
#endif

#endif

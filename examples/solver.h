/* SPDX-License-Identifier: Apache-2.0 */
/* A Jacobi solver for Laplace's equation on a grid, spread over the PEs of a job by rows. Cells
 * with a given value keep it; every other cell becomes, step by step, the mean of its four
 * neighbours. At the rim a missing neighbour counts as the cell itself.
 *
 * The result is the same, bit for bit, for any number of PEs and for the serial form: each cell is
 * computed by the same expression, and the residual is a maximum, which has no order.
 *
 * Written on weft.h alone. Does not know what the grid means. */
#ifndef EXAMPLES_SOLVER_H
#define EXAMPLES_SOLVER_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* How a PE gives the rows at its rim to the neighbours. */
enum solver_style {
    SOLVER_VALUES, /* a single-value put for each cell, as it appears, then one signal */
    SOLVER_ROWS,   /* the finished row in one put with signal, sent while the inner rows are made */
};

struct solver;

/* What a run did. */
struct solver_result {
    uint64_t steps;
    float residual; /* the largest change of a cell in the last step */
    double seconds; /* time of the steps alone, at this PE */
};

/* Makes a grid of width x height cells (both at least 1) over the first `workers` PEs of the job
 * (0 = all); all cells are free and 0. Collective over the job, with the same arguments. */
weft_status solver_create(weft_job *job, int workers, size_t width, size_t height,
                          struct solver **solver);

/* The rows of this PE: `first`, `count` (0 at a PE that has none). */
void solver_rows(const struct solver *solver, size_t *first, size_t *count);

/* Sets one of this PE's rows: start values, and for each cell non-zero in `fixed` when its value is
 * given (NULL: none is). Local. */
void solver_set_row(struct solver *solver, size_t row, const float *values,
                    const unsigned char *fixed);

/* The present values of one of this PE's rows. */
const float *solver_get_row(const struct solver *solver, size_t row);

/* Takes `steps` steps, or fewer when the residual, looked at every 32 steps, falls to `tolerance`
 * (0: all steps). May be called again to go on. *result is the same at every PE but for `seconds`.
 * Collective over the job. */
weft_status solver_run(struct solver *solver, enum solver_style style, uint64_t steps,
                       float tolerance, struct solver_result *result);

/* Copies the whole grid, width x height values, to `values` at PE `pe` (ignored elsewhere).
 * Collective over the job. */
weft_status solver_gather(struct solver *solver, int pe, float *values);

/* Collective over the job. NULL is allowed. */
weft_status solver_destroy(struct solver *solver);

/* The same steps in one process with no job: `values` holds width x height start values and
 * receives the result. -1 when memory is short. */
int solver_serial(size_t width, size_t height, float *values, const unsigned char *fixed,
                  uint64_t steps, float tolerance, struct solver_result *result);

#endif

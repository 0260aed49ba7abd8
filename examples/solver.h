/* SPDX-License-Identifier: Apache-2.0 */
/* A Jacobi solver for Laplace's equation on a grid whose rows are distributed over the PEs of a
 * job. Fixed cells keep their value; every other cell becomes, step by step, the mean of its four
 * neighbours. At the edge of the grid a missing neighbour is replaced by the cell itself.
 *
 * The result is the same, bit for bit, for any number of PEs and for the serial form: each cell is
 * computed by the same expression, and the residual is a maximum, which does not depend on order.
 *
 * Uses only weft.h. Does not know what the grid means. */
#ifndef EXAMPLES_SOLVER_H
#define EXAMPLES_SOLVER_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* How a PE sends its boundary rows to the neighbours. */
enum solver_style {
    SOLVER_VALUES, /* a single-value put for each cell as it is computed, then one signal */
    /* the finished row by one put with signal, sent while the inner rows are computed */
    SOLVER_ROWS,
};

struct solver;

/* Result of a run. */
struct solver_result {
    uint64_t steps;
    float residual; /* largest change of a cell in the last step */
    double seconds; /* seconds of the steps alone, at this PE */
};

/* Creates a grid of width x height cells (both at least 1) over the first `workers` PEs of the job
 * (0 = all); all cells are free and 0. Collective over the job, with the same arguments. */
weft_status solver_create(weft_job *job, int workers, size_t width, size_t height,
                          struct solver **solver);

/* Returns the rows of this PE: `first`, `count` (0 at a PE that has none). */
void solver_rows(const struct solver *solver, size_t *first, size_t *count);

/* Sets one of this PE's rows: start values, and non-zero in `fixed` for each fixed cell (NULL:
 * none). Local. */
void solver_set_row(struct solver *solver, size_t row, const float *values,
                    const unsigned char *fixed);

/* Returns the current values of one of this PE's rows. */
const float *solver_get_row(const struct solver *solver, size_t row);

/* Executes `steps` steps, or fewer if the residual, checked every 32 steps, falls to `tolerance`
 * (0: all steps). May be called again to continue. *result is the same at every PE except
 * `seconds`. Collective over the job. */
weft_status solver_run(struct solver *solver, enum solver_style style, uint64_t steps,
                       float tolerance, struct solver_result *result);

/* Copies the whole grid, width x height values, to `values` at PE `pe` (ignored at other PEs).
 * Collective over the job. */
weft_status solver_gather(struct solver *solver, int pe, float *values);

/* Collective over the job. NULL is allowed. */
weft_status solver_destroy(struct solver *solver);

/* Executes the same steps in one process without a job: `values` holds width x height start values
 * and receives the result. Returns -1 if there is not enough memory. */
int solver_serial(size_t width, size_t height, float *values, const unsigned char *fixed,
                  uint64_t steps, float tolerance, struct solver_result *result);

#endif

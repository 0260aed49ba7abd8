/* SPDX-License-Identifier: Apache-2.0 */
/* The solver of the examples on unusual grids: fewer rows than PEs, one column, one row, free
 * borders, scattered fixed cells, some of the PEs as workers, a stop by tolerance, a continued run.
 * Each is compared bit for bit with the serial solver. */
#include "solver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_job *job;
static int me, n, faults;

static void must(weft_status status, int line)
{
    if (!status)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, weft_status_name(status), weft_last_error());
    weft_abort(job, 1);
}

#define MUST(call) must((call), __LINE__)

struct grid {
    size_t width, height;
    float *values;
    unsigned char *fixed;
};

/* Scattered fixed cells, the same at every PE. At least one is fixed, because otherwise no value
 * ever changes. */
static struct grid make_grid(size_t width, size_t height)
{
    size_t cells = width * height;
    struct grid grid = {width, height, calloc(cells, sizeof(float)), calloc(cells, 1)};
    uint32_t random = 12345;
    for (size_t i = 0; i < cells; i++) {
        random = random * 1664525u + 1013904223u;
        grid.fixed[i] = i == 0 || random >> 24 < 20;
        grid.values[i] = (float)(random >> 16 & 0xff);
    }
    return grid;
}

static void set_rows(struct solver *solver, const struct grid *grid)
{
    size_t first, count;
    solver_rows(solver, &first, &count);
    for (size_t row = first; row < first + count; row++)
        solver_set_row(solver, row, grid->values + row * grid->width,
                       grid->fixed + row * grid->width);
}

static void compare(const char *what, const struct grid *grid, int workers, const float *seen,
                    const float *expected, const struct solver_result *result,
                    const struct solver_result *serial)
{
    size_t bytes = grid->width * grid->height * sizeof *seen;
    int same = me != 0 || memcmp(seen, expected, bytes) == 0;
    if (same && result->steps == serial->steps && result->residual == serial->residual)
        return;
    fprintf(stderr,
            "%s %zu x %zu, %d workers, PE %d: %s; %lu steps, residual %.9g, serial %lu, %.9g\n",
            what, grid->width, grid->height, workers, me, same ? "same values" : "values differ",
            (unsigned long)result->steps, (double)result->residual, (unsigned long)serial->steps,
            (double)serial->residual);
    faults++;
}

static void try_grid(size_t width, size_t height, int workers, enum solver_style style,
                     uint64_t steps, float tolerance)
{
    struct grid grid = make_grid(width, height);
    float *expected = malloc(width * height * sizeof *expected);
    float *seen = calloc(width * height, sizeof *seen);
    memcpy(expected, grid.values, width * height * sizeof *expected);
    struct solver_result serial, result;
    if (solver_serial(width, height, expected, grid.fixed, steps, tolerance, &serial))
        abort();
    struct solver *solver;
    MUST(solver_create(job, workers, width, height, &solver));
    set_rows(solver, &grid);
    MUST(solver_run(solver, style, steps, tolerance, &result));
    MUST(solver_gather(solver, 0, seen));
    compare("run", &grid, workers, seen, expected, &result, &serial);

    /* Continues where it stopped, with the other style. */
    solver_serial(width, height, expected, grid.fixed, 33, 0, &serial);
    MUST(solver_run(solver, style == SOLVER_ROWS ? SOLVER_VALUES : SOLVER_ROWS, 33, 0, &result));
    MUST(solver_gather(solver, 0, seen));
    compare("continued run", &grid, workers, seen, expected, &result, &serial);
    MUST(solver_destroy(solver));
    free(seen);
    free(expected);
    free(grid.fixed);
    free(grid.values);
}

int main(void)
{
    static const size_t sizes[][2] = {{1, 1}, {1, 7}, {9, 1}, {2, 2}, {33, 3}, {5, 8}, {40, 41}};
    if (weft_init(&job, NULL)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int style = SOLVER_VALUES; style <= SOLVER_ROWS; style++)
            for (int workers = 1; workers <= n; workers += workers < 3 ? 1 : n > 3 ? n - 3 : 1)
                try_grid(sizes[i][0], sizes[i][1], workers, (enum solver_style)style, 101, 0);
    try_grid(64, 64, 0, SOLVER_ROWS, 5000, 0.01f);
    struct solver *solver;
    if (solver_create(job, n + 1, 4, 4, &solver) != WEFT_ERR_ARGUMENT ||
        solver_create(job, 0, 0, 4, &solver) != WEFT_ERR_ARGUMENT || solver)
        faults++;
    if (faults)
        weft_abort(job, 1);
    MUST(weft_finalize(job));
    return 0;
}

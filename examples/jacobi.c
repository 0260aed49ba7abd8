/* SPDX-License-Identifier: Apache-2.0 */
/* Heat in a square plate: the upper edge is held at 1, the other edges at 0, and Jacobi's method
 * computes the temperature inside. Solved serially, then by 1, 2, 4, ... PEs in two styles:
 *
 *     values  each value of a boundary row is put to the neighbour as soon as it is computed
 *     rows    the finished boundary row is sent by one put with a signal
 *
 * Every result is compared with the serial one, bit for bit, and the times are printed:
 *
 *     weft run -n 4 ./jacobi              # 512 x 512 cells, 500 steps
 *     weft run -n 4 ./jacobi 1024 1000    # cells along an edge, steps
 *
 * The solver, and how it exchanges rows without a barrier, is in solver.c. */
#include "check.h"
#include "solver.h"

#include <string.h>

struct plate {
    size_t edge;
    float *values;        /* start values, edge x edge */
    unsigned char *fixed; /* 1 for the fixed cells at the edges */
};

static void make_plate(struct plate *plate, size_t edge)
{
    plate->edge = edge;
    plate->values = calloc(edge * edge, sizeof *plate->values);
    plate->fixed = calloc(edge * edge, 1);
    if (!plate->values || !plate->fixed) {
        fprintf(stderr, "jacobi: no memory for %zu x %zu cells\n", edge, edge);
        exit(1);
    }
    for (size_t i = 0; i < edge; i++) {
        plate->values[i] = 1;
        plate->fixed[i] = plate->fixed[(edge - 1) * edge + i] = 1;
        plate->fixed[i * edge] = plate->fixed[i * edge + edge - 1] = 1;
    }
}

/* Solves the plate with the first `workers` PEs; PE 0 gets the result in `values`. */
static struct solver_result solve(weft_job *job, const struct plate *plate, int workers,
                                  enum solver_style style, uint64_t steps, float *values)
{
    struct solver *solver;
    struct solver_result result;
    size_t first, count, edge = plate->edge;
    CHECK(job, solver_create(job, workers, edge, edge, &solver));
    solver_rows(solver, &first, &count);
    for (size_t row = first; row < first + count; row++)
        solver_set_row(solver, row, plate->values + row * edge, plate->fixed + row * edge);
    CHECK(job, solver_run(solver, style, steps, 0, &result));
    CHECK(job, solver_gather(solver, 0, values));
    CHECK(job, solver_destroy(solver));
    return result;
}

/* Only PE 0 compares. */
static int same_as_serial(const float *values, const float *expected, size_t cells,
                          const struct solver_result *result, const struct solver_result *serial)
{
    return memcmp(values, expected, cells * sizeof *values) == 0 &&
           result->residual == serial->residual && result->steps == serial->steps;
}

/* 1, 2, 4, ... and finally all PEs. */
static int next_workers(int workers, int n)
{
    if (workers == n)
        return n + 1;
    return workers * 2 < n ? workers * 2 : n;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"values", "rows"};
    size_t edge = argc > 1 ? strtoul(argv[1], NULL, 10) : 512;
    uint64_t steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
    if (edge < 2 || edge > 32768) {
        fprintf(stderr, "usage: jacobi [EDGE (2 to 32768) [STEPS]]\n");
        return 2;
    }
    weft_job *job = NULL;
    CHECK(job, weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job), wrong = 0;

    struct plate plate;
    make_plate(&plate, edge);
    size_t cells = edge * edge;
    float *expected = calloc(cells, sizeof *expected), *values = calloc(cells, sizeof *values);
    struct solver_result serial = {0};
    if (!expected || !values)
        CHECK(job, WEFT_ERR_NO_MEMORY);
    if (me == 0) {
        memcpy(expected, plate.values, cells * sizeof *expected);
        if (solver_serial(edge, edge, expected, plate.fixed, steps, 0, &serial))
            CHECK(job, WEFT_ERR_NO_MEMORY);
        printf("%zu x %zu cells, %lu steps, residual %g\n", edge, edge, (unsigned long)serial.steps,
               (double)serial.residual);
        printf("%-8s %4s %10s %8s  %s\n", "style", "PEs", "seconds", "speedup", "result");
        printf("%-8s %4d %10.4f %8.2f\n", "serial", 1, serial.seconds, 1.0);
    }
    for (int style = SOLVER_VALUES; style <= SOLVER_ROWS; style++) {
        for (int workers = 1; workers <= n; workers = next_workers(workers, n)) {
            struct solver_result result =
                solve(job, &plate, workers, (enum solver_style)style, steps, values);
            if (me != 0)
                continue;
            int same = same_as_serial(values, expected, cells, &result, &serial);
            wrong += !same;
            printf("%-8s %4d %10.4f %8.2f  %s\n", names[style], workers, result.seconds,
                   serial.seconds / result.seconds, same ? "same bits" : "DIFFERS");
        }
    }
    free(values);
    free(expected);
    free(plate.fixed);
    free(plate.values);
    if (wrong) /* known at PE 0 only */
        weft_abort(job, 1);
    CHECK(job, weft_finalize(job));
    return 0;
}

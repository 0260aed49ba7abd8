/* SPDX-License-Identifier: Apache-2.0 */
/* Whole programs by kernels: an alltoall by one block, and the steps of the Jacobi solver of
 * examples/solver_device.c in both of its styles. */
#include "bench/device/device.h"

#include "solver_device.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------- alltoall */

static weft_status launch_alltoall(struct bench *bench, struct bench_case *c, uint64_t warm,
                                   uint64_t rounds, double *ns)
{
    struct bench_device *d = bench->device;
    weft_status status =
        WEFT_LAUNCH(collective_block, 1, bench->options->threads, 0, d->stream, DEVICE_ALLTOALL,
                    c->dst, c->src, c->bytes, warm, rounds, d->times);
    return status ? status : device_finish(bench, 1, ns, NULL);
}

weft_status device_alltoall_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                double *ns)
{
    return launch_alltoall(bench, c, DEVICE_WARM, iterations, ns);
}

/* Block `me` of every PE's pattern must arrive at the position of that PE. */
weft_status device_alltoall_check(struct bench *bench, struct bench_case *c, bool *right)
{
    size_t n = (size_t)bench->n, own = c->bytes * (size_t)bench->me;
    double ignored = 0;
    weft_status status =
        device_fill(bench, c->src, n * c->bytes, (uint64_t)OWN * (uint64_t)(bench->me + 1));
    if (!status)
        status = device_fill(bench, c->dst, n * c->bytes, STALE);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = launch_alltoall(bench, c, 0, 1, &ignored);
    for (size_t pe = 0; !status && *right && pe < n; pe++)
        status = device_holds(bench, (char *)c->dst + pe * c->bytes, c->bytes, own,
                              (uint64_t)OWN * (uint64_t)(pe + 1), right);
    return status;
}

/* ------------------------------------------------------------------------------- the solver */

enum { EDGE_SIMT = 256, EDGE_CUDA = 4096, CHECK_STEPS = 6 };

struct plate {
    size_t edge, cells;
    float *start, *values;
    unsigned char *fixed;
};

static void free_plate(struct plate *plate)
{
    free(plate->start);
    free(plate->values);
    free(plate->fixed);
}

/* A square plate: boundary 1 at the top and 0 elsewhere, different values inside. */
static weft_status make_plate(const struct bench *bench, struct plate *plate)
{
    size_t edge = bench->options->target == TARGET_CUDA ? EDGE_CUDA : EDGE_SIMT;
    *plate = (struct plate){.edge = edge, .cells = edge * edge};
    plate->start = malloc(plate->cells * sizeof *plate->start);
    plate->values = malloc(plate->cells * sizeof *plate->values);
    plate->fixed = calloc(plate->cells, 1);
    if (!plate->start || !plate->values || !plate->fixed) {
        free_plate(plate);
        return WEFT_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < plate->cells; i++) {
        size_t y = i / edge, x = i % edge;
        bool rim = y == 0 || x == 0 || y == edge - 1 || x == edge - 1;
        plate->fixed[i] = rim;
        plate->start[i] = rim ? (float)(y == 0) : (float)(i % 1021) / 1021;
    }
    return WEFT_OK;
}

static weft_status launch_jacobi(struct bench *bench, enum solver_style style, uint64_t steps,
                                 double *ns)
{
    struct plate plate;
    double seconds = 0;
    weft_status status = make_plate(bench, &plate);
    if (status)
        return status;
    status = solver_device_run(bench->job, style, plate.edge, plate.edge, plate.start, plate.fixed,
                               steps, plate.values, &seconds);
    *ns += seconds * 1e9;
    free_plate(&plate);
    return status;
}

/* PE 0 compares the whole plate with that of the serial solver, bit for bit. */
static weft_status check_jacobi(struct bench *bench, enum solver_style style, bool *right)
{
    struct plate plate;
    struct solver_result serial;
    double ignored;
    weft_status status = make_plate(bench, &plate);
    if (status)
        return status;
    status = solver_device_run(bench->job, style, plate.edge, plate.edge, plate.start, plate.fixed,
                               CHECK_STEPS, plate.values, &ignored);
    if (!status && bench->me == 0 &&
        solver_serial(plate.edge, plate.edge, plate.start, plate.fixed, CHECK_STEPS, 0, &serial))
        status = WEFT_ERR_NO_MEMORY;
    if (!status && bench->me == 0)
        *right = memcmp(plate.start, plate.values, plate.cells * sizeof *plate.start) == 0;
    free_plate(&plate);
    return status;
}

#define JACOBI_FUNCTIONS(name, style)                                                              \
    weft_status name##_run(struct bench *bench, struct bench_case *c, uint64_t iterations,         \
                           double *ns)                                                             \
    {                                                                                              \
        (void)c;                                                                                   \
        return launch_jacobi(bench, style, iterations, ns);                                        \
    }                                                                                              \
    weft_status name##_check(struct bench *bench, struct bench_case *c, bool *right)               \
    {                                                                                              \
        (void)c;                                                                                   \
        return check_jacobi(bench, style, right);                                                  \
    }
JACOBI_FUNCTIONS(device_jacobi_values, SOLVER_VALUES)
JACOBI_FUNCTIONS(device_jacobi_rows, SOLVER_ROWS)
#undef JACOBI_FUNCTIONS

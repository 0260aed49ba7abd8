/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's solver run by kernels: the image again, and on GPUs a larger plate. PE 0 compares
 * each result with that of one process without a job. */
#include "demo/demo.h"

#include "tool/tool.h"

#include <solver_device.h>
#include <stdlib.h>
#include <string.h>

/* On CPU threads a kernel step takes as long as a hundred steps of the plain solver. When two
 * processes share a GPU, each step waits until the other process's kernel leaves the GPU. */
enum { SLOW_STEPS = 64, PLATE_EDGE = 4096, PLATE_STEPS = 100 };

/* Solves one grid by kernels. PE 0 compares it with the serial result and adds to *run.
 * `expected` has the start values, and space for the serial result. */
static weft_status solve_by_kernels(struct demo *demo, size_t width, size_t height,
                                    const float *start, const unsigned char *fixed, uint64_t steps,
                                    struct demo_kernel_run *run)
{
    size_t bytes = width * height * sizeof(float);
    bool compares = demo->bench.me == 0;
    float *values = malloc(bytes), *expected = compares ? malloc(bytes) : NULL;
    struct solver_result serial = {0};
    double seconds = 0;
    weft_status status = WEFT_OK;
    if (!values || (compares && !expected))
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for grids of %zu x %zu", width, height);
    if (!status)
        status = solver_device_run(demo->bench.job, SOLVER_ROWS, width, height, start, fixed, steps,
                                   values, &seconds);
    if (!status && compares) {
        memcpy(expected, start, bytes);
        if (solver_serial(width, height, expected, fixed, steps, 0, &serial))
            status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for the serial solver");
        run->identical &= memcmp(values, expected, bytes) == 0;
    }
    run->ran = true;
    run->steps += steps;
    run->seconds += seconds;
    run->serial_seconds += serial.seconds;
    free(values);
    free(expected);
    return status;
}

weft_status demo_kernels_picture(struct demo *demo)
{
    const struct image *image = &demo->before;
    struct demo_kernel_run *run = &demo->picture_by_kernels;
    weft_status status = WEFT_OK;
    *run = (struct demo_kernel_run){.identical = true};
    for (unsigned channel = 0; !status && channel < image->channels; channel++) {
        struct demo_plane plane;
        double steps = (double)demo->channel_steps[channel]; /* 0 at the other PEs */
        status = bench_combine(&demo->bench, WEFT_MAX, &steps);
        if ((!demo->cuda || demo_shares_gpu(demo)) && steps > SLOW_STEPS)
            steps = SLOW_STEPS;
        if (!status)
            status = demo_plane_make(image, channel, &plane);
        if (status)
            return status;
        status = solve_by_kernels(demo, image->width, image->height, plane.values, plane.fixed,
                                  (uint64_t)steps, run);
        demo_plane_free(&plane);
    }
    return status;
}

/* A square plate with fixed boundary: 1 at the upper edge, 0 at the others. */
weft_status demo_kernels_plate(struct demo *demo)
{
    struct demo_kernel_run *run = &demo->plate_by_kernels;
    size_t edge = PLATE_EDGE;
    float *start = calloc(edge * edge, sizeof *start);
    unsigned char *fixed = calloc(edge, edge);
    weft_status status = WEFT_OK;
    *run = (struct demo_kernel_run){.identical = true};
    if (!start || !fixed)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for a plate of %zu x %zu", edge, edge);
    for (size_t i = 0; !status && i < edge; i++) {
        start[i] = 1;
        fixed[i] = fixed[(edge - 1) * edge + i] = fixed[i * edge] = fixed[i * edge + edge - 1] = 1;
    }
    if (!status)
        status = solve_by_kernels(demo, edge, edge, start, fixed, PLATE_STEPS, run);
    demo->plate_edge = edge;
    free(start);
    free(fixed);
    return status;
}

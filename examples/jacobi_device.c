/* SPDX-License-Identifier: Apache-2.0 */
/* The plate of jacobi.c, with the exchange done by kernels (solver_device.c), in two styles:
 *
 *     values  each thread puts its cell of a boundary row to the neighbour at once, by p
 *     rows    a block computes the boundary row and sends it by put_signal
 *
 * The result is compared with the serial one, bit for bit.
 *
 *     weft run -n 4 ./jacobi_device      # 512 x 512 cells, 500 steps
 *     WEFT_TARGET=simt weft run -n 4 ./jacobi_device 128 50 */
#include "check.h"
#include "solver_device.h"

#include <string.h>
#include <weft/launch.h>

/* A square plate with fixed edges: the upper edge is 1, the others are 0. */
static void make_plate(size_t edge, float *plate, unsigned char *fixed)
{
    for (size_t i = 0; i < edge; i++) {
        plate[i] = 1;
        fixed[i] = fixed[(edge - 1) * edge + i] = fixed[i * edge] = fixed[i * edge + edge - 1] = 1;
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum solver_style style;
    } styles[] = {{"values", SOLVER_VALUES}, {"rows", SOLVER_ROWS}};
    weft_job *job = NULL;
    size_t edge = argc > 1 ? strtoul(argv[1], NULL, 10) : 512;
    uint64_t steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
    if (edge < 2 || edge > 32768) {
        fprintf(stderr, "usage: jacobi_device [EDGE (2 to 32768) [STEPS]]\n");
        return 2;
    }
    CHECK(job, weft_init(&job, NULL));
    int me = weft_my_pe(job), wrong = 0;
    size_t cells = edge * edge;
    float *plate = calloc(cells, sizeof *plate), *values = calloc(cells, sizeof *values);
    float *expected = calloc(cells, sizeof *expected);
    unsigned char *fixed = calloc(cells, 1);
    if (!plate || !values || !expected || !fixed)
        CHECK(job, WEFT_ERR_NO_MEMORY);
    make_plate(edge, plate, fixed);
    struct solver_result serial = {0};
    memcpy(expected, plate, cells * sizeof *plate);
    if (me == 0 && solver_serial(edge, edge, expected, fixed, steps, 0, &serial))
        CHECK(job, WEFT_ERR_NO_MEMORY);
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        double took;
        CHECK(job, solver_device_run(job, styles[i].style, edge, edge, plate, fixed, steps, values,
                                     &took));
        if (me != 0)
            continue;
        int same = memcmp(values, expected, cells * sizeof *values) == 0;
        wrong += !same;
        printf("%-6s on %s, %d PEs, %zu x %zu cells, %lu steps: %.4f s (serial %.4f s), %s\n",
               styles[i].name, weft_target_name(weft_target_get()), weft_n_pes(job), edge, edge,
               (unsigned long)steps, took, serial.seconds, same ? "same bits" : "DIFFERS");
    }
    free(plate);
    free(values);
    free(expected);
    free(fixed);
    if (wrong)
        weft_abort(job, 1);
    CHECK(job, weft_finalize(job));
    return 0;
}

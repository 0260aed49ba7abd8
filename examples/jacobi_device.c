/* SPDX-License-Identifier: Apache-2.0 */
/* The plate of jacobi.c with its exchange done by the kernels themselves, one source for GPUs and for
 * CPU threads, in two styles:
 *
 *   values  each thread puts its cell of a rim row to the neighbour as soon as it has it, by p
 *   rows    a block makes the rim row and sends it whole, by put_signal
 *
 * No host call and no barrier stands between the steps: a kernel per step waits for its neighbours'
 * rows by a signal. Compared with the serial result, bit for bit.
 *
 *     weft run -n 4 ./jacobi_device            # 512 x 512 cells, 500 steps
 *     WEFT_TARGET=simt weft run -n 4 ./jacobi_device 128 50 */
#include <weft_device.h>

enum { UPPER, LOWER, SIDES };
enum style { VALUES, ROWS, STYLES };

/* One PE's rows, and where its neighbours' rim rows arrive: the copy of step t in halo[side][t % 2],
 * when signal[side] is t. A neighbour writes the copy of step t + 2 there only after it has had our
 * row of step t + 1, and that was made from the copy of step t. */
typedef struct rows {
    float *cells[2]; /* own rows, of even and odd steps */
    const unsigned char *fixed;
    float *halo[SIDES][2];
    uint64_t *signal; /* [SIDES] */
    size_t width, count;
    int neighbour[SIDES]; /* -1: none */
    enum style style;
} rows;

WEFT_DEVICE float mean(float up, float down, float left, float right)
{
    return ((up + down) + (left + right)) * 0.25f;
}

/* Cell x of own row y at step t. At the rim of the plate a missing neighbour is the cell itself. */
WEFT_DEVICE float new_cell(const rows *r, size_t y, size_t x, uint64_t t)
{
    const float *old = r->cells[(t - 1) % 2] + y * r->width;
    const float *up = y > 0                      ? old - r->width
                      : r->neighbour[UPPER] >= 0 ? r->halo[UPPER][(t - 1) % 2]
                                                 : old;
    const float *down = y + 1 < r->count           ? old + r->width
                        : r->neighbour[LOWER] >= 0 ? r->halo[LOWER][(t - 1) % 2]
                                                   : old;
    if (r->fixed[y * r->width + x])
        return old[x];
    return mean(up[x], down[x], old[x > 0 ? x - 1 : x], old[x + 1 < r->width ? x + 1 : x]);
}

/* One own row by a block. `sides`: bit per side to whose neighbour it goes. */
WEFT_DEVICE int make_row(const rows *r, size_t y, uint64_t t, unsigned sides)
{
    float *made = r->cells[t % 2] + y * r->width;
    for (int side = 0; side < SIDES; side++)
        if (sides >> side & 1 && weft_block_signal_wait(&r->signal[side], WEFT_GE, t - 1))
            return 0;
    for (size_t x = weft_dev_thread_rank(); x < r->width; x += weft_dev_block_threads()) {
        made[x] = new_cell(r, y, x, t);
        for (int side = 0; side < SIDES; side++) /* our upper rim is the neighbour's lower halo */
            if (sides >> side & 1 && r->style == VALUES)
                weft_thread_p_f32(r->halo[1 - side][t % 2] + x, made[x], r->neighbour[side]);
    }
    weft_dev_sync_block();
    for (int side = 0; side < SIDES; side++) {
        if (!(sides >> side & 1))
            continue;
        if (r->style == ROWS) {
            weft_block_put_signal(r->halo[1 - side][t % 2], made, r->width * sizeof *made,
                                  &r->signal[1 - side], t, WEFT_SIGNAL_SET, r->neighbour[side]);
        } else if (weft_dev_thread_rank() == 0) {
            weft_thread_fence(); /* for the whole block, whose stores the sync put before it */
            weft_thread_signal(&r->signal[1 - side], t, WEFT_SIGNAL_SET, r->neighbour[side]);
        }
    }
    return 1;
}

WEFT_KERNEL(step, (rows, r), (uint64_t, t))
{
    size_t block = weft_dev_block_rank(), blocks = weft_dev_grid_blocks(), lowest = r.count - 1;
    unsigned above = r.neighbour[UPPER] >= 0, below = r.neighbour[LOWER] >= 0 ? 1u << LOWER : 0;
    if (r.count == 0)
        return;
    /* The rim rows first, each by a block of its own: they are on their way while the rest is made. */
    if (block == 0 && !make_row(&r, 0, t, r.count == 1 ? above | below : above))
        return;
    if (r.count > 1 && block == blocks - 1 && !make_row(&r, lowest, t, below))
        return;
    for (size_t y = 1 + block; y < lowest; y += blocks)
        make_row(&r, y, t, 0);
}

#if WEFT_HOST_CODE

#include "check.h"
#include "solver.h"

#include <string.h>
#include <time.h>

static weft_job *job;
static weft_ctx *ctx;
static int me, n;

static void *symmetric(size_t bytes)
{
    void *address;
    CHECK(job, weft_alloc(job, weft_device_kind(job), bytes, 256, WEFT_ALLOC_ZERO, &address));
    return address;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The rows of PE pe: the first `edge % n` PEs have one more. */
static size_t first_row(size_t edge, int pe)
{
    size_t each = edge / (size_t)n, more = edge % (size_t)n, p = (size_t)pe;
    return p * each + (p < more ? p : more);
}

/* Memory for this PE's rows with the plate's start in it, and in the halos the neighbours' rims. */
static rows make_rows(const float *plate, const unsigned char *fixed, size_t edge)
{
    size_t most = edge / (size_t)n + 1, first = first_row(edge, me);
    rows r = {.width = edge, .count = first_row(edge, me + 1) - first};
    unsigned char *mask = symmetric(most * edge);
    for (int i = 0; i < 2; i++) {
        r.cells[i] = symmetric(most * edge * sizeof(float));
        CHECK(job,
              weft_put(ctx, r.cells[i], plate + first * edge, r.count * edge * sizeof(float), me));
        for (int side = 0; side < SIDES; side++)
            r.halo[side][i] = symmetric(edge * sizeof(float));
    }
    r.signal = symmetric(SIDES * sizeof *r.signal);
    r.neighbour[UPPER] = first > 0 && r.count ? me - 1 : -1;
    r.neighbour[LOWER] = first + r.count < edge && r.count ? me + 1 : -1;
    if (r.neighbour[UPPER] >= 0)
        CHECK(job, weft_put(ctx, r.halo[UPPER][0], plate + (first - 1) * edge, edge * sizeof(float),
                            me));
    if (r.neighbour[LOWER] >= 0)
        CHECK(job, weft_put(ctx, r.halo[LOWER][0], plate + (first + r.count) * edge,
                            edge * sizeof(float), me));
    CHECK(job, weft_put(ctx, mask, fixed + first * edge, r.count * edge, me));
    CHECK(job, weft_quiet(ctx));
    r.fixed = mask;
    return r;
}

static void free_rows(const rows *r)
{
    CHECK(job, weft_free(job, r->signal));
    for (int i = 1; i >= 0; i--) {
        for (int side = 0; side < SIDES; side++)
            CHECK(job, weft_free(job, r->halo[side][i]));
        CHECK(job, weft_free(job, r->cells[i]));
    }
    CHECK(job, weft_free(job, (void *)r->fixed));
}

/* Solves over all PEs; PE 0 gets the plate in `values`. The time is this PE's. */
static double solve(const float *plate, const unsigned char *fixed, size_t edge, uint64_t steps,
                    enum style style, float *values)
{
    int gpu = weft_target_get() == WEFT_CUDA;
    rows r = make_rows(plate, fixed, edge);
    r.style = style;
    CHECK(job, weft_barrier(weft_team_world(job)));
    double start = seconds();
    for (uint64_t t = 1; t <= steps; t++)
        CHECK(job, WEFT_LAUNCH(step, gpu ? 128 : 4, gpu ? 256 : 32, 0, NULL, r, t));
    CHECK(job, weft_stream_synchronize(NULL));
    double took = seconds() - start;
    CHECK(job, weft_device_check(job));
    CHECK(job, weft_barrier(weft_team_world(job)));
    for (int pe = 0; me == 0 && pe < n; pe++) {
        size_t first = first_row(edge, pe), count = first_row(edge, pe + 1) - first;
        CHECK(job, weft_get(ctx, values + first * edge, r.cells[steps % 2],
                            count * edge * sizeof(float), pe));
    }
    CHECK(job, weft_barrier(weft_team_world(job)));
    free_rows(&r);
    return took;
}

int main(int argc, char **argv)
{
    static const char *const names[STYLES] = {"values", "rows"};
    size_t edge = argc > 1 ? strtoul(argv[1], NULL, 10) : 512;
    uint64_t steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 500;
    if (edge < 2 || edge > 32768) {
        fprintf(stderr, "usage: jacobi_device [EDGE (2 to 32768) [STEPS]]\n");
        return 2;
    }
    CHECK(job, weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    size_t cells = edge * edge;
    float *plate = calloc(cells, sizeof *plate), *values = calloc(cells, sizeof *values);
    float *expected = calloc(cells, sizeof *expected);
    unsigned char *fixed = calloc(cells, 1);
    if (!plate || !values || !expected || !fixed)
        CHECK(job, WEFT_ERR_NO_MEMORY);
    for (size_t i = 0; i < edge; i++) {
        plate[i] = 1;
        fixed[i] = fixed[(edge - 1) * edge + i] = fixed[i * edge] = fixed[i * edge + edge - 1] = 1;
    }
    struct solver_result serial = {0};
    memcpy(expected, plate, cells * sizeof *plate);
    if (me == 0 && solver_serial(edge, edge, expected, fixed, steps, 0, &serial))
        CHECK(job, WEFT_ERR_NO_MEMORY);
    int wrong = 0;
    for (int style = 0; style < STYLES; style++) {
        double took = solve(plate, fixed, edge, steps, (enum style)style, values);
        if (me != 0)
            continue;
        int same = memcmp(values, expected, cells * sizeof *values) == 0;
        wrong += !same;
        printf("%-6s on %s, %d PEs, %zu x %zu cells, %lu steps: %.4f s (serial %.4f s), %s\n",
               names[style], weft_target_name(weft_target_get()), n, edge, edge,
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
#endif

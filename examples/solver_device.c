/* SPDX-License-Identifier: Apache-2.0 */
/* The solver of solver.h with the exchange done by kernels, one source for GPUs and for CPU
 * threads. No host call and no barrier is between the steps: a kernel per step waits for its
 * neighbours' rows by a signal. */
#include <weft_device.h>

enum { UPPER, LOWER, SIDES };

/* Rows of a PE and their halos: the neighbour's boundary row of step t arrives in halo[side][t %
 * 2], when signal[side] is t. A neighbour writes its row of step t + 2 there only after it has
 * received this PE's row of step t + 1, which was computed from the row of step t. */
typedef struct rows {
    float *cells[2]; /* own rows of even and odd steps */
    const unsigned char *fixed;
    float *halo[SIDES][2];
    uint64_t *signal; /* [SIDES] */
    size_t width, count;
    int neighbour[SIDES]; /* -1: none */
    int values;           /* style: 1 values, 0 rows */
} rows;

WEFT_DEVICE float mean(float up, float down, float left, float right)
{
    return ((up + down) + (left + right)) * 0.25f;
}

/* Returns cell x of own row y at step t. At the edge of the plate a missing neighbour is replaced
 * by the cell itself. */
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

/* Computes one own row by a block. `sides`: one bit per side to whose neighbour the row is sent. */
WEFT_DEVICE int make_row(const rows *r, size_t y, uint64_t t, unsigned sides)
{
    float *made = r->cells[t % 2] + y * r->width;
    for (int side = 0; side < SIDES; side++)
        if (sides >> side & 1 && weft_block_signal_wait(&r->signal[side], WEFT_GE, t - 1))
            return 0;
    for (size_t x = weft_dev_thread_rank(); x < r->width; x += weft_dev_block_threads()) {
        made[x] = new_cell(r, y, x, t);
        /* the upper boundary row is the neighbour's lower halo */
        for (int side = 0; side < SIDES; side++)
            if (sides >> side & 1 && r->values)
                weft_thread_p_f32(r->halo[1 - side][t % 2] + x, made[x], r->neighbour[side]);
    }
    weft_dev_sync_block();
    for (int side = 0; side < SIDES; side++) {
        if (!(sides >> side & 1))
            continue;
        if (!r->values) {
            if (weft_dev_thread_rank() == 0)
                weft_thread_fence(); /* must not overtake the row of the previous step */
            weft_block_put_signal(r->halo[1 - side][t % 2], made, r->width * sizeof *made,
                                  &r->signal[1 - side], t, WEFT_SIGNAL_SET, r->neighbour[side]);
        } else if (weft_dev_thread_rank() == 0) {
            weft_thread_fence(); /* for the whole block, whose stores the sync has ordered before */
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
    /* The boundary rows first, each by its own block: they are sent while the other rows are
     * computed. */
    if (block == 0 && !make_row(&r, 0, t, r.count == 1 ? above | below : above))
        return;
    if (r.count > 1 && block == blocks - 1 && !make_row(&r, lowest, t, below))
        return;
    for (size_t y = 1 + block; y < lowest; y += blocks)
        make_row(&r, y, t, 0);
}

#if WEFT_HOST_CODE

#include "solver_device.h"

#include <time.h>

/* State of a run besides the kernels' rows. */
struct run {
    weft_job *job;
    weft_ctx *ctx;
    int me, n;
    size_t width, height;
    rows rows;
};

static weft_status symmetric(const struct run *run, size_t bytes, void **address)
{
    return weft_alloc(run->job, weft_device_kind(run->job), bytes, 256, WEFT_ALLOC_ZERO, address);
}

/* Returns the first row of PE pe: the first `height % n` PEs have one more. */
static size_t first_row(const struct run *run, int pe)
{
    size_t n = (size_t)run->n, p = (size_t)pe, each = run->height / n, more = run->height % n;
    return p * each + (p < more ? p : more);
}

static weft_status allocate(struct run *run, unsigned char **fixed)
{
    size_t most = run->height / (size_t)run->n + 1, row = run->width * sizeof(float);
    rows *r = &run->rows;
    void *memory = NULL;
    weft_status status = symmetric(run, most * run->width, &memory);
    *fixed = memory;
    r->fixed = memory;
    for (int i = 0; i < 2 && !status; i++) {
        status = symmetric(run, most * row, &memory);
        r->cells[i] = memory;
        for (int side = 0; side < SIDES && !status; side++) {
            status = symmetric(run, row, &memory);
            r->halo[side][i] = memory;
        }
    }
    if (!status)
        status = symmetric(run, SIDES * sizeof *r->signal, &memory);
    r->signal = memory;
    return status;
}

static weft_status release(struct run *run, void *fixed)
{
    weft_status status = weft_free(run->job, run->rows.signal);
    for (int i = 1; i >= 0 && !status; i--) {
        for (int side = 0; side < SIDES && !status; side++)
            status = weft_free(run->job, run->rows.halo[side][i]);
        if (!status)
            status = weft_free(run->job, run->rows.cells[i]);
    }
    return status ? status : weft_free(run->job, fixed);
}

/* Sets this PE's rows to the start values, and the halos to the neighbours' boundary rows. */
static weft_status fill_rows(struct run *run, const float *start, const unsigned char *given,
                             unsigned char *fixed)
{
    rows *r = &run->rows;
    size_t width = run->width, row = width * sizeof(float), first = first_row(run, run->me);
    r->width = width;
    r->count = first_row(run, run->me + 1) - first;
    r->neighbour[UPPER] = first > 0 && r->count ? run->me - 1 : -1;
    r->neighbour[LOWER] = first + r->count < run->height && r->count ? run->me + 1 : -1;
    if (!r->count)
        return WEFT_OK;
    weft_status status =
        weft_put(run->ctx, fixed, given + first * width, r->count * width, run->me);
    for (int i = 0; i < 2 && !status; i++)
        status = weft_put(run->ctx, r->cells[i], start + first * width, r->count * row, run->me);
    if (!status && r->neighbour[UPPER] >= 0)
        status = weft_put(run->ctx, r->halo[UPPER][0], start + (first - 1) * width, row, run->me);
    if (!status && r->neighbour[LOWER] >= 0)
        status =
            weft_put(run->ctx, r->halo[LOWER][0], start + (first + r->count) * width, row, run->me);
    return status ? status : weft_quiet(run->ctx);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static weft_status take_steps(struct run *run, uint64_t steps, double *seconds)
{
    int gpu = weft_target_get() == WEFT_CUDA;
    double start = now();
    weft_status status = WEFT_OK;
    for (uint64_t t = 1; t <= steps && !status; t++)
        status = WEFT_LAUNCH(step, gpu ? 128 : 4, gpu ? 256 : 32, 0, NULL, run->rows, t);
    if (!status)
        status = weft_stream_synchronize(NULL);
    *seconds = now() - start;
    return status ? status : weft_device_check(run->job);
}

/* PE 0 fetches all rows. */
static weft_status gather_rows(struct run *run, uint64_t steps, float *values)
{
    size_t row = run->width * sizeof(float);
    weft_status status = WEFT_OK;
    for (int pe = 0; run->me == 0 && pe < run->n && !status; pe++) {
        size_t first = first_row(run, pe), count = first_row(run, pe + 1) - first;
        if (count)
            status = weft_get(run->ctx, values + first * run->width, run->rows.cells[steps % 2],
                              count * row, pe);
    }
    return status;
}

weft_status solver_device_run(weft_job *job, enum solver_style style, size_t width, size_t height,
                              const float *start, const unsigned char *fixed, uint64_t steps,
                              float *values, double *seconds)
{
    struct run run = {.job = job,
                      .ctx = weft_default_ctx(job),
                      .me = weft_my_pe(job),
                      .n = weft_n_pes(job),
                      .width = width,
                      .height = height};
    weft_team *world = weft_team_world(job);
    unsigned char *mask;
    run.rows.values = style == SOLVER_VALUES;
    weft_status status = allocate(&run, &mask);
    if (!status)
        status = fill_rows(&run, start, fixed, mask);
    if (!status)
        status = weft_barrier(world);
    if (!status)
        status = take_steps(&run, steps, seconds);
    if (!status)
        status = weft_barrier(world);
    if (!status)
        status = gather_rows(&run, steps, values);
    if (!status)
        status = weft_barrier(world);
    return status ? status : release(&run, mask);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Implements solver.h.
 *
 * Each PE keeps its rows twice, as an old and a new copy that swap roles at every step, with a halo
 * row above and below that the neighbours write. Step t reads copy t%2 and writes copy (t+1)%2.
 * When a PE has computed its upper boundary row of step t, it puts it to the upper neighbour's
 * lower halo of copy (t+1)%2 and signals t+1. A PE starts step t when both neighbours have
 * signalled t.
 *
 * Why a neighbour never overwrites a halo that is still read: it writes the halo of copy (t+1)%2 in
 * its step t. It starts that step only after this PE's signal t. This PE sends that signal after it
 * has computed the boundary row of step t-1, and only the boundary row reads the halo of copy
 * (t-1)%2, which is the same copy. No barrier is needed. */
#include "solver.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHECK_EVERY = 32, LINE_WORDS = 16 };
enum side { UPPER, LOWER };

struct solver {
    weft_job *job;
    weft_ctx *ctx;
    weft_team *team; /* team of the workers; NULL at other PEs */
    int me, workers;
    size_t width, height;
    size_t first, count; /* this PE's rows */
    int neighbour[2];    /* PEs that have the row above and below; -1 at the edge of the grid */
    size_t neighbour_count[2];
    float *copy[2];        /* symmetric: most_rows + 2 rows each; row 0 is the upper halo */
    uint64_t *arrived;     /* symmetric: signals of the upper and the lower neighbour */
    struct report *report; /* symmetric: to exchange the residual */
    unsigned char *fixed;  /* 1 for fixed cells, count rows */
    uint64_t step;
};

struct report {
    float own, all;
    struct solver_result result;
};

/* ------------------------------------------------------------------------------- one row */

static inline float mean(float up, float down, float left, float right)
{
    return ((up + down) + (left + right)) * 0.25f;
}

/* Computes one new row; `up` and `down` are the adjacent rows (the row itself at the edge of the
 * grid). */
static void make_row(float *restrict out, const float *up, const float *row, const float *down,
                     const unsigned char *restrict fixed, size_t width)
{
    if (width == 1) {
        out[0] = fixed[0] ? row[0] : mean(up[0], down[0], row[0], row[0]);
        return;
    }
    out[0] = fixed[0] ? row[0] : mean(up[0], down[0], row[0], row[1]);
    for (size_t x = 1; x + 1 < width; x++) {
        float value = mean(up[x], down[x], row[x - 1], row[x + 1]);
        out[x] = fixed[x] ? row[x] : value;
    }
    size_t last = width - 1;
    out[last] = fixed[last] ? row[last] : mean(up[last], down[last], row[last - 1], row[last]);
}

static float largest_change(const float *a, const float *b, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        float change = fabsf(a[i] - b[i]);
        most = change > most ? change : most;
    }
    return most;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------------- distribution of rows */

static size_t first_row(const struct solver *s, int pe)
{
    return s->height * (size_t)pe / (size_t)s->workers;
}

static size_t rows_of(const struct solver *s, int pe)
{
    return first_row(s, pe + 1) - first_row(s, pe);
}

static size_t most_rows(const struct solver *s)
{
    return (s->height + (size_t)s->workers - 1) / (size_t)s->workers;
}

/* Returns the nearest PE above (direction -1) or below (1) that has rows: with more workers than
 * rows some have none. */
static int find_neighbour(const struct solver *s, int direction)
{
    for (int pe = s->me + direction; pe >= 0 && pe < s->workers; pe += direction)
        if (rows_of(s, pe))
            return pe;
    return -1;
}

static void find_place(struct solver *s)
{
    s->neighbour[UPPER] = s->neighbour[LOWER] = -1;
    if (s->me >= s->workers)
        return;
    s->first = first_row(s, s->me);
    s->count = rows_of(s, s->me);
    if (!s->count)
        return;
    s->neighbour[UPPER] = find_neighbour(s, -1);
    s->neighbour[LOWER] = find_neighbour(s, 1);
    for (int side = 0; side < 2; side++)
        if (s->neighbour[side] >= 0)
            s->neighbour_count[side] = rows_of(s, s->neighbour[side]);
}

/* Returns row `index` of a copy; 0 is the upper halo, 1 the first own row, count + 1 the lower
 * halo. */
static float *row_at(const struct solver *s, int copy, size_t index)
{
    return s->copy[copy] + index * s->width;
}

/* ------------------------------------------------------------------------------ one step */

/* Returns the row adjacent to own row `index` of the old copy; at the edge of the grid the row
 * itself. */
static const float *row_above(const struct solver *s, int old, size_t index)
{
    return row_at(s, old, index == 1 && s->neighbour[UPPER] < 0 ? index : index - 1);
}

static const float *row_below(const struct solver *s, int old, size_t index)
{
    return row_at(s, old, index == s->count && s->neighbour[LOWER] < 0 ? index : index + 1);
}

static void make_inner_row(struct solver *s, int old, size_t index)
{
    make_row(row_at(s, !old, index), row_above(s, old, index), row_at(s, old, index),
             row_below(s, old, index), s->fixed + (index - 1) * s->width, s->width);
}

/* Returns the symmetric address of the neighbour's halo that this PE writes. */
static float *halo_of(const struct solver *s, enum side side, int copy)
{
    return row_at(s, copy, side == UPPER ? s->neighbour_count[UPPER] + 1 : 0);
}

/* This PE is the lower neighbour of its upper neighbour. */
static uint64_t *signal_of(const struct solver *s, enum side side)
{
    return s->arrived + (side == UPPER ? LOWER : UPPER) * LINE_WORDS;
}

static weft_status send_row(struct solver *s, enum side side, int new, size_t index)
{
    if (s->neighbour[side] < 0)
        return WEFT_OK;
    return weft_put_signal_nbi(s->ctx, halo_of(s, side, new), row_at(s, new, index),
                               s->width * sizeof(float), signal_of(s, side), s->step + 1,
                               WEFT_SIGNAL_SET, s->neighbour[side]);
}

static weft_status step_by_rows(struct solver *s, int old)
{
    make_inner_row(s, old, 1);
    weft_status status = send_row(s, UPPER, !old, 1);
    if (s->count > 1)
        make_inner_row(s, old, s->count);
    if (!status)
        status = send_row(s, LOWER, !old, s->count);
    for (size_t index = 2; index < s->count; index++)
        make_inner_row(s, old, index);
    return status ? status : weft_quiet(s->ctx); /* after this the sent rows may be overwritten */
}

/* Puts one cell of boundary row `index` to the halo of `side`. */
static weft_status send_value(struct solver *s, enum side side, int new, size_t index, size_t x)
{
    bool is_rim = index == (side == UPPER ? 1 : s->count) && s->neighbour[side] >= 0;
    if (!is_rim)
        return WEFT_OK;
    uint32_t bits;
    memcpy(&bits, row_at(s, new, index) + x, sizeof bits);
    return weft_p32(s->ctx, halo_of(s, side, new) + x, bits, s->neighbour[side]);
}

/* Computes one boundary row cell by cell and puts each cell at once. A PE's only row goes to both
 * neighbours in the same pass, because a signalled neighbour may write the halo that the row is
 * computed from. */
static weft_status make_rim_by_values(struct solver *s, int old, size_t index)
{
    float *out = row_at(s, !old, index);
    const float *up = row_above(s, old, index), *row = row_at(s, old, index);
    const float *down = row_below(s, old, index);
    const unsigned char *fixed = s->fixed + (index - 1) * s->width;
    size_t last = s->width - 1;
    weft_status status = WEFT_OK;
    for (size_t x = 0; !status && x <= last; x++) {
        float left = row[x ? x - 1 : 0], right = row[x < last ? x + 1 : last];
        out[x] = fixed[x] ? row[x] : mean(up[x], down[x], left, right);
        status = send_value(s, UPPER, !old, index, x);
        if (!status)
            status = send_value(s, LOWER, !old, index, x);
    }
    return status;
}

static weft_status signal_values(struct solver *s, enum side side)
{
    if (s->neighbour[side] < 0)
        return WEFT_OK;
    return weft_signal(s->ctx, signal_of(s, side), s->step + 1, WEFT_SIGNAL_SET,
                       s->neighbour[side]);
}

static weft_status step_by_values(struct solver *s, int old)
{
    weft_status status = make_rim_by_values(s, old, 1);
    if (!status && s->count > 1)
        status = make_rim_by_values(s, old, s->count);
    if (!status)
        status = weft_fence(s->ctx); /* the values, then the signals */
    if (!status)
        status = signal_values(s, UPPER);
    if (!status)
        status = signal_values(s, LOWER);
    for (size_t index = 2; index < s->count; index++)
        make_inner_row(s, old, index);
    return status;
}

static weft_status await_neighbours(struct solver *s)
{
    weft_status status = WEFT_OK;
    for (int side = 0; !status && side < 2; side++)
        if (s->neighbour[side] >= 0)
            status =
                weft_signal_wait(s->ctx, s->arrived + side * LINE_WORDS, WEFT_GE, s->step, NULL);
    return status;
}

static weft_status take_step(struct solver *s, enum solver_style style)
{
    int old = s->step % 2;
    if (!s->count) {
        s->step++;
        return WEFT_OK;
    }
    weft_status status = await_neighbours(s);
    if (!status)
        status = style == SOLVER_ROWS ? step_by_rows(s, old) : step_by_values(s, old);
    s->step++;
    return status;
}

/* --------------------------------------------------------------------------------- a run */

/* Finds the largest change in the last step over all workers. */
static weft_status find_residual(struct solver *s, float *residual)
{
    s->report->own = largest_change(row_at(s, 0, 1), row_at(s, 1, 1), s->count * s->width);
    weft_status status =
        weft_allreduce(s->team, &s->report->all, &s->report->own, 1, WEFT_FLOAT, WEFT_MAX);
    *residual = s->report->all;
    return status;
}

/* Gets the halos of the first step: the neighbours' initial boundary rows. */
static weft_status fetch_halos(struct solver *s)
{
    int old = s->step % 2;
    weft_status status = WEFT_OK;
    if (s->neighbour[UPPER] >= 0)
        status = weft_get(s->ctx, row_at(s, old, 0), row_at(s, old, s->neighbour_count[UPPER]),
                          s->width * sizeof(float), s->neighbour[UPPER]);
    if (!status && s->neighbour[LOWER] >= 0)
        status = weft_get(s->ctx, row_at(s, old, s->count + 1), row_at(s, old, 1),
                          s->width * sizeof(float), s->neighbour[LOWER]);
    return status;
}

static weft_status run_worker(struct solver *s, enum solver_style style, uint64_t steps,
                              float tolerance, struct solver_result *result)
{
    /* All PEs set their rows before any PE fetches, and fetch before any PE steps. */
    weft_status status = weft_barrier(s->team);
    if (!status)
        status = fetch_halos(s);
    for (int side = 0; side < 2; side++)
        s->arrived[side * LINE_WORDS] = s->step;
    if (!status)
        status = weft_barrier(s->team);

    double start = now();
    for (uint64_t i = 0; !status && i < steps;) {
        status = take_step(s, style);
        result->steps = ++i;
        if (status || (i % CHECK_EVERY && i < steps))
            continue;
        status = find_residual(s, &result->residual);
        if (result->residual <= tolerance)
            break;
    }
    result->seconds = now() - start;
    return status;
}

weft_status solver_run(struct solver *s, enum solver_style style, uint64_t steps, float tolerance,
                       struct solver_result *result)
{
    *result = (struct solver_result){0};
    weft_status status = WEFT_OK;
    if (s->team)
        status = run_worker(s, style, steps, tolerance, result);
    /* PE 0, which always is a worker, gives the result to the PEs that are not. */
    double seconds = result->seconds;
    s->report->result = *result;
    if (!status)
        status = weft_barrier(weft_team_world(s->job));
    if (!status)
        status = weft_get(s->ctx, result, &s->report->result, sizeof *result, 0);
    if (s->team)
        result->seconds = seconds;
    return status ? status : weft_barrier(weft_team_world(s->job));
}

/* ---------------------------------------------------------------------- grid and memory */

void solver_rows(const struct solver *s, size_t *first, size_t *count)
{
    *first = s->first;
    *count = s->count;
}

void solver_set_row(struct solver *s, size_t row, const float *values, const unsigned char *fixed)
{
    size_t index = row - s->first;
    memcpy(row_at(s, s->step % 2, index + 1), values, s->width * sizeof(float));
    if (fixed)
        memcpy(s->fixed + index * s->width, fixed, s->width);
    else
        memset(s->fixed + index * s->width, 0, s->width);
}

const float *solver_get_row(const struct solver *s, size_t row)
{
    return row_at(s, s->step % 2, row - s->first + 1);
}

weft_status solver_gather(struct solver *s, int pe, float *values)
{
    /* All workers have the same step number; other PEs do not count steps and get it from PE 0. */
    uint64_t step = s->step;
    s->report->result.steps = s->step;
    weft_status status = weft_barrier(weft_team_world(s->job));
    if (!status)
        status = weft_get(s->ctx, &step, &s->report->result.steps, sizeof step, 0);
    for (int from = 0; !status && weft_my_pe(s->job) == pe && from < s->workers; from++)
        if (rows_of(s, from))
            status =
                weft_get(s->ctx, values + first_row(s, from) * s->width, row_at(s, step % 2, 1),
                         rows_of(s, from) * s->width * sizeof(float), from);
    return status ? status : weft_barrier(weft_team_world(s->job));
}

static weft_status allocate(struct solver *s)
{
    size_t bytes = (most_rows(s) + 2) * s->width * sizeof(float);
    void *block = NULL;
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < 2; i++) {
        status = weft_alloc(s->job, WEFT_HOST, bytes, 0, WEFT_ALLOC_ZERO, &block);
        s->copy[i] = status ? NULL : block;
    }
    if (!status) {
        status = weft_alloc(s->job, WEFT_HOST, 2 * LINE_WORDS * sizeof(uint64_t), 128,
                            WEFT_ALLOC_ZERO, &block);
        s->arrived = status ? NULL : block;
    }
    if (!status) {
        status = weft_alloc(s->job, WEFT_HOST, sizeof *s->report, 0, WEFT_ALLOC_ZERO, &block);
        s->report = status ? NULL : block;
    }
    return status;
}

weft_status solver_create(weft_job *job, int workers, size_t width, size_t height,
                          struct solver **solver)
{
    *solver = NULL;
    int n = weft_n_pes(job);
    if (workers < 0 || workers > n || !width || !height)
        return WEFT_ERR_ARGUMENT;
    struct solver *s = calloc(1, sizeof *s);
    if (!s)
        return WEFT_ERR_NO_MEMORY;
    s->job = job;
    s->ctx = weft_default_ctx(job);
    s->me = weft_my_pe(job);
    s->workers = workers ? workers : n;
    s->width = width;
    s->height = height;
    find_place(s);
    s->fixed = calloc(s->count * width + 1, 1);
    /* PE k of this team is PE k of the job, so the default context can be used. */
    weft_status status = weft_team_split_strided(weft_team_world(job), 0, 1, s->workers, &s->team);
    if (!status)
        status = allocate(s);
    if (!status && !s->fixed)
        status = WEFT_ERR_NO_MEMORY;
    if (status) {
        solver_destroy(s);
        return status;
    }
    *solver = s;
    return WEFT_OK;
}

weft_status solver_destroy(struct solver *s)
{
    if (!s)
        return WEFT_OK;
    weft_status status = weft_free(s->job, s->report);
    if (!status)
        status = weft_free(s->job, s->arrived);
    for (int i = 1; !status && i >= 0; i--)
        status = weft_free(s->job, s->copy[i]);
    if (!status && s->team)
        status = weft_team_destroy(s->team);
    free(s->fixed);
    free(s);
    return status;
}

/* --------------------------------------------------------------------------------- serial */

static float *new_rows(size_t cells)
{
    size_t bytes = (cells * sizeof(float) + 63) / 64 * 64;
    return aligned_alloc(64, bytes); /* as weft_alloc() aligns rows */
}

int solver_serial(size_t width, size_t height, float *values, const unsigned char *fixed,
                  uint64_t steps, float tolerance, struct solver_result *result)
{
    size_t cells = width * height;
    float *old = new_rows(cells), *new = new_rows(cells);
    unsigned char *none = calloc(width, 1); /* no cell is fixed */
    *result = (struct solver_result){0};
    if (!old || !new || !none) {
        free(old);
        free(new);
        free(none);
        return -1;
    }
    memcpy(old, values, cells * sizeof *old);
    memcpy(new, values, cells * sizeof *new);
    double start = now();
    for (uint64_t i = 0; i < steps;) {
        for (size_t y = 0; y < height; y++) {
            const float *row = old + y * width;
            make_row(new + y *width, y ? row - width : row, row, y + 1 < height ? row + width : row,
                     fixed ? fixed + y * width : none, width);
        }
        float *swap = old;
        old = new;
        new = swap;
        result->steps = ++i;
        if (i % CHECK_EVERY && i < steps)
            continue;
        result->residual = largest_change(old, new, cells);
        if (result->residual <= tolerance)
            break;
    }
    result->seconds = now() - start;
    memcpy(values, old, cells * sizeof *values);
    free(old);
    free(new);
    free(none);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The image of the demo: some pixels are removed, and the solver of examples/ restores them,
 * colour by colour, with 1, 2, 4 ... PEs. Each missing value becomes the mean of its four
 * neighbours. PE 0 compares each result with that of one process without a job. */
#include "demo/demo.h"

#include "tool/tool.h"

#include <solver.h>
#include <stdlib.h>
#include <string.h>

/* A grey level is 1. The solver stops when no value changes by more than TOLERANCE in a step, or
 * when all steps together have computed MOST_VALUES values (a few seconds). */
static const float TOLERANCE = 0.001f;
static const double MOST_VALUES = 3e9;
/* Number of runs for a small image, of which the fastest counts: a short run may be disturbed. */
enum { ROUNDS = 3, SMALL_SAMPLES = 1 << 18 };
enum { MOST_STEPS = 6000, LEAST_STEPS = 64, LARGEST_RADIUS = 24, THICKEST_SCRATCH = 12 };

/* Whether this pixel is removed: a disc right of the centre and three scratches that slope to
 * the right. The edge of the image stays. */
static bool is_missing(const struct image *image, unsigned x, unsigned y)
{
    double w = image->width, h = image->height, side = w < h ? w : h;
    if (x == 0 || y == 0 || x + 1 >= image->width || y + 1 >= image->height)
        return false;
    double radius = side / 10 < LARGEST_RADIUS ? side / 10 : LARGEST_RADIUS;
    double dx = x - 0.7 * w, dy = y - 0.4 * h;
    if (dx * dx + dy * dy <= radius * radius)
        return true;
    double thick = side / 48 < THICKEST_SCRATCH ? side / 48 : THICKEST_SCRATCH;
    for (int i = 0; i < 3; i++) {
        double middle = h * (0.1 + 0.3 * i) + 0.2 * x * h / w;
        if (y >= middle && y < middle + thick)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------ the input at every PE */

static weft_status share_samples(struct bench *bench, struct image *image)
{
    size_t bytes = image_samples(image);
    void *shared = NULL;
    weft_status status = weft_alloc(bench->job, WEFT_HOST, bytes, 0, 0, &shared);
    if (status)
        return status;
    if (bench->me == 0)
        memcpy(shared, image->samples, bytes);
    else
        image->samples = malloc(bytes);
    status = weft_broadcast(bench->world, shared, shared, bytes, 0);
    if (!status && !image->samples)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for an image of %zu samples", bytes);
    if (!status)
        memcpy(image->samples, shared, bytes);
    return status ? status : weft_free(bench->job, shared);
}

static weft_status share_image(struct demo *demo)
{
    struct bench *bench = &demo->bench;
    struct image *image = &demo->before;
    weft_status status = WEFT_OK;
    if (bench->me == 0)
        status = image_read(demo->image_file, image);
    if (status)
        return status;
    unsigned *size[3] = {&image->width, &image->height, &image->channels};
    for (int i = 0; !status && i < 3; i++) {
        double value = *size[i]; /* 0 at the other PEs */
        status = bench_combine(bench, WEFT_MAX, &value);
        *size[i] = (unsigned)value;
    }
    return status ? status : share_samples(bench, image);
}

/* ------------------------------------------------------------------------------- restoring */

void demo_plane_free(struct demo_plane *plane)
{
    free(plane->values);
    free(plane->fixed);
}

weft_status demo_plane_make(const struct image *image, unsigned channel, struct demo_plane *plane)
{
    size_t cells = (size_t)image->width * image->height, known = 0;
    double sum = 0;
    plane->values = malloc(cells * sizeof *plane->values);
    plane->fixed = malloc(cells);
    if (!plane->values || !plane->fixed) {
        demo_plane_free(plane);
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a grid of %zu cells", cells);
    }
    for (size_t i = 0; i < cells; i++) {
        plane->fixed[i] =
            !is_missing(image, (unsigned)(i % image->width), (unsigned)(i / image->width));
        plane->values[i] = image->samples[i * image->channels + channel];
        known += plane->fixed[i];
        sum += plane->fixed[i] ? plane->values[i] : 0;
    }
    for (size_t i = 0; i < cells; i++)
        if (!plane->fixed[i])
            plane->values[i] = (float)(sum / (double)known);
    return WEFT_OK;
}

static uint64_t steps_allowed(const struct image *image)
{
    double steps = MOST_VALUES / (double)image_samples(image);
    return steps > MOST_STEPS ? MOST_STEPS : steps < LEAST_STEPS ? LEAST_STEPS : (uint64_t)steps;
}

/* Restores the plane with the first `workers` PEs. PE 0 gets the result in the plane's values. */
static weft_status restore_plane(struct demo *demo, int workers, struct demo_plane *plane,
                                 struct solver_result *result)
{
    const struct image *image = &demo->before;
    struct solver *solver;
    weft_status status =
        solver_create(demo->bench.job, workers, image->width, image->height, &solver);
    if (status)
        return status;
    size_t first, count;
    solver_rows(solver, &first, &count);
    for (size_t row = first; row < first + count; row++)
        solver_set_row(solver, row, plane->values + row * image->width,
                       plane->fixed + row * image->width);
    status = solver_run(solver, SOLVER_ROWS, steps_allowed(image), TOLERANCE, result);
    if (!status)
        status = solver_gather(solver, 0, plane->values);
    return status ? status : solver_destroy(solver);
}

static int rounds_for(const struct image *image)
{
    return image_samples(image) <= SMALL_SAMPLES ? ROUNDS : 1;
}

/* Restores all colours. `serial` has the serial results, one grid per colour (PE 0; NULL
 * elsewhere). */
static weft_status restore_image(struct demo *demo, int workers, const float *serial,
                                 struct demo_run *run)
{
    const struct image *image = &demo->before;
    size_t cells = (size_t)image->width * image->height;
    *run = (struct demo_run){.pes = workers, .identical = true};
    for (unsigned channel = 0; channel < image->channels; channel++) {
        struct demo_plane plane;
        struct solver_result result = {0};
        weft_status status = demo_plane_make(image, channel, &plane);
        if (status)
            return status;
        status = restore_plane(demo, workers, &plane, &result);
        run->seconds += result.seconds;
        if (!status && serial)
            run->identical &=
                memcmp(plane.values, serial + channel * cells, cells * sizeof *serial) == 0;
        demo_plane_free(&plane);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* Runs several times with this many PEs. Every result is compared; the shortest time counts. */
static weft_status restore_in_rounds(struct demo *demo, int workers, const float *serial)
{
    struct demo_run *best = &demo->runs[demo->n_runs++], run;
    weft_status status = restore_image(demo, workers, serial, best);
    for (int round = 1; !status && round < rounds_for(&demo->before); round++) {
        status = restore_image(demo, workers, serial, &run);
        best->identical &= run.identical;
        if (run.seconds < best->seconds)
            best->seconds = run.seconds;
    }
    return status;
}

/* PE 0: solves one colour in one process, as often. Adds the shortest time to the total. */
static weft_status restore_plane_serially(struct demo *demo, unsigned channel, float *values)
{
    const struct image *image = &demo->before;
    double seconds = 0;
    struct solver_result result = {0};
    for (int round = 0; round < rounds_for(image); round++) {
        struct demo_plane plane;
        weft_status status = demo_plane_make(image, channel, &plane);
        if (status)
            return status;
        if (solver_serial(image->width, image->height, plane.values, plane.fixed,
                          steps_allowed(image), TOLERANCE, &result))
            status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for the serial solver");
        memcpy(values, plane.values, (size_t)image->width * image->height * sizeof *values);
        demo_plane_free(&plane);
        if (status)
            return status;
        if (round == 0 || result.seconds < seconds)
            seconds = result.seconds;
    }
    demo->serial_seconds += seconds;
    demo->channel_steps[channel] = result.steps;
    demo->steps += result.steps;
    return WEFT_OK;
}

/* PE 0: solves all colours. *results has one grid per colour; the caller frees it. */
static weft_status restore_serially(struct demo *demo, float **results)
{
    const struct image *image = &demo->before;
    size_t cells = (size_t)image->width * image->height;
    *results = malloc(cells * image->channels * sizeof **results);
    if (!*results)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %u grids of %zu cells", image->channels,
                         cells);
    weft_status status = WEFT_OK;
    for (unsigned channel = 0; !status && channel < image->channels; channel++)
        status = restore_plane_serially(demo, channel, *results + channel * cells);
    return status;
}

/* ---------------------------------------------------------------------------------- results */

static uint8_t to_sample(float value)
{
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)(value + 0.5f);
}

/* PE 0: writes both images. Removed pixels are black in the first. */
static weft_status write_pictures(struct demo *demo, const float *results)
{
    struct image *image = &demo->before, after = *image;
    size_t cells = (size_t)image->width * image->height;
    double error = 0;
    after.samples = malloc(image_samples(image));
    if (!after.samples)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the restored image");
    for (size_t i = 0; i < cells; i++) {
        bool missing =
            is_missing(image, (unsigned)(i % image->width), (unsigned)(i / image->width));
        demo->missing += missing;
        for (unsigned channel = 0; channel < image->channels; channel++) {
            uint8_t *original = &image->samples[i * image->channels + channel];
            uint8_t restored = to_sample(results[channel * cells + i]);
            after.samples[i * image->channels + channel] = restored;
            error += abs(restored - *original);
            if (missing)
                *original = 0;
        }
    }
    if (demo->missing)
        demo->error = error / (double)demo->missing / image->channels;
    snprintf(demo->before_png, sizeof demo->before_png, "%s/before.png", demo->output);
    snprintf(demo->after_png, sizeof demo->after_png, "%s/after.png", demo->output);
    weft_status status = image_write_png(demo->before_png, image);
    if (!status)
        status = image_write_png(demo->after_png, &after);
    image_free(&after);
    return status;
}

/* Next number of PEs: 1, 2, 4 ... and last all PEs; more than `all` at the end. */
static int next_workers(int workers, int all)
{
    return workers * 2 < all ? workers * 2 : workers < all ? all : all + 1;
}

weft_status demo_picture(struct demo *demo)
{
    float *serial = NULL;
    weft_status status = share_image(demo);
    if (!status && demo->bench.me == 0)
        status = restore_serially(demo, &serial);
    for (int workers = 1; !status && workers <= demo->bench.n;
         workers = next_workers(workers, demo->bench.n))
        status = restore_in_rounds(demo, workers, serial);
    if (!status && demo->kernels)
        status = demo_kernels_picture(demo);
    if (!status && demo->kernels && demo->cuda && !demo_shares_gpu(demo))
        status = demo_kernels_plate(demo);
    if (!status && serial)
        status = write_pictures(demo, serial);
    free(serial);
    image_free(&demo->before);
    return status;
}

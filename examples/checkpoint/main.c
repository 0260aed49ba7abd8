/* SPDX-License-Identifier: Apache-2.0 */
/* A job that resumes from the checkpoint of a job with another number of PEs:
 *
 *     weft run -n 3 ./checkpoint --steps 20 state.ckpt
 *     weft run -n 5 ./checkpoint --steps 50 state.ckpt    # resumes at step 20
 *
 * Three arrays with different element sizes are distributed over the PEs and changed in every step.
 * After every few steps all of them are written to the file (checkpoint.h). The value of an element
 * after a step depends only on its index, so the job can check all elements at its end, and with
 * --check at once. */
#define EXAMPLE "checkpoint"
#include "../arguments.h"
#include "../check.h"
#include "checkpoint.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { CHUNK = 64 << 10, ARRAYS = 3 };

struct options {
    const char *path;
    uint64_t elements, steps, every;
    bool gpu, check;
    uint64_t die; /* enum checkpoint_moment */
};

struct state {
    weft_job *job;
    weft_ctx *ctx;
    int me, n;
    struct checkpoint_array arrays[ARRAYS];
    unsigned char *chunk; /* buffer in host memory, where elements are changed */
};

/* Source: splitmix64 (G. L. Steele et al., OOPSLA 2014). */
static uint64_t mix_bits(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Changes one element by one step, whatever its size. */
static void change_element(unsigned char *element, size_t bytes, uint64_t index, uint64_t step)
{
    uint64_t by = mix_bits(index * 3 + step * 0x10001 + bytes);
    for (size_t i = 0; i < bytes; i++)
        element[i] = (unsigned char)(element[i] * 5 + (by >> 8 * (i % 8)) + i);
}

/* Calls `each` for this PE's part of an array, chunk by chunk, in host memory. Writes the chunk
 * back if `changes`. */
static weft_status for_chunks(struct state *s, struct checkpoint_array *array, bool changes,
                              uint64_t (*each)(struct state *s,
                                               const struct checkpoint_array *array, uint64_t first,
                                               uint64_t count, uint64_t with),
                              uint64_t with, uint64_t *sum)
{
    uint64_t first, count, element = array->element_bytes, most = CHUNK / element;
    weft_status status = WEFT_OK;
    checkpoint_range(array, s->me, s->n, &first, &count);
    for (uint64_t at = 0; at < count && !status; at += most) {
        char *there = (char *)array->memory + at * element;
        uint64_t here = count - at < most ? count - at : most;
        status = weft_get(s->ctx, s->chunk, there, here * element, s->me);
        if (!status)
            *sum += each(s, array, first + at, here, with);
        if (!status && changes)
            status = weft_put(s->ctx, there, s->chunk, here * element, s->me);
    }
    return status ? status : weft_quiet(s->ctx);
}

static uint64_t change_chunk(struct state *s, const struct checkpoint_array *array, uint64_t first,
                             uint64_t count, uint64_t step)
{
    for (uint64_t i = 0; i < count; i++)
        change_element(s->chunk + i * array->element_bytes, array->element_bytes, first + i, step);
    return 0;
}

/* Counts elements that differ from their expected value after that many steps from 0. */
static uint64_t compare_chunk(struct state *s, const struct checkpoint_array *array, uint64_t first,
                              uint64_t count, uint64_t steps)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        unsigned char expected[16] = {0};
        for (uint64_t step = 1; step <= steps; step++)
            change_element(expected, array->element_bytes, first + i, step);
        wrong += memcmp(expected, s->chunk + i * array->element_bytes, array->element_bytes) != 0;
    }
    return wrong;
}

static void take_step(struct state *s, uint64_t step)
{
    uint64_t none = 0;
    for (int i = 0; i < ARRAYS; i++)
        CHECK(s->job, for_chunks(s, &s->arrays[i], true, change_chunk, step, &none));
}

/* Returns the number of wrong elements of all PEs, at every PE. */
static uint64_t count_wrong(struct state *s, uint64_t step)
{
    uint64_t wrong = 0, *shared;
    void *memory;
    for (int i = 0; i < ARRAYS; i++)
        CHECK(s->job, for_chunks(s, &s->arrays[i], false, compare_chunk, step, &wrong));
    CHECK(s->job, weft_alloc(s->job, WEFT_HOST, 2 * sizeof *shared, 0, 0, &memory));
    shared = memory;
    shared[0] = wrong;
    CHECK(s->job, weft_allreduce(weft_team_world(s->job), &shared[1], &shared[0], 1, WEFT_UINT64,
                                 WEFT_SUM));
    wrong = shared[1];
    CHECK(s->job, weft_free(s->job, memory));
    return wrong;
}

/* ------------------------------------------------------------------------------- the job */

/* Elements of 8, 3 and 16 bytes, in numbers without a common divisor. */
static void allocate(struct state *s, const struct options *options)
{
    uint64_t e = options->elements;
    struct checkpoint_array arrays[ARRAYS] = {
        {.name = "field", .element_bytes = 8, .elements = e},
        {.name = "colour", .element_bytes = 3, .elements = e / 2 + 5},
        {.name = "pair", .element_bytes = 16, .elements = e / 7}};
    for (int i = 0; i < ARRAYS; i++) {
        size_t bytes = checkpoint_most(&arrays[i], s->n) * arrays[i].element_bytes;
        CHECK(s->job, weft_alloc(s->job, options->gpu ? WEFT_GPU : WEFT_HOST, bytes, 0,
                                 WEFT_ALLOC_ZERO, &arrays[i].memory));
        s->arrays[i] = arrays[i];
    }
    s->chunk = malloc(CHUNK);
    if (!s->chunk)
        CHECK(s->job, WEFT_ERR_NO_MEMORY);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void say_error(const struct state *s)
{
    if (s->me == 0)
        fprintf(stderr, "checkpoint: %s\n", checkpoint_error());
}

static bool save(struct state *s, const struct options *options, uint64_t step)
{
    double start = now();
    if (checkpoint_write(s->job, options->path, step, s->arrays, ARRAYS)) {
        say_error(s);
        return false;
    }
    double bytes = 0, took = now() - start;
    for (int i = 0; i < ARRAYS; i++)
        bytes += (double)(s->arrays[i].elements * s->arrays[i].element_bytes);
    if (s->me == 0)
        printf("step %" PRIu64 ": %.1f MB by %d PEs to %s, safe after %.1f ms, %.2f GB/s\n", step,
               1e-6 * bytes, s->n, options->path, 1e3 * took, 1e-9 * bytes / took);
    return true;
}

/* Returns 0 if all elements are right. */
static int run_job(struct state *s, const struct options *options)
{
    uint64_t step = 0;
    int found = 0;
    double start = now();
    if (checkpoint_read(s->job, options->path, &step, s->arrays, ARRAYS, &found)) {
        say_error(s);
        return 2;
    }
    if (s->me == 0 && found)
        printf("%d PEs resume from step %" PRIu64 " of %s, read in %.1f ms\n", s->n, step,
               options->path, 1e3 * (now() - start));
    if (options->check) {
        uint64_t wrong = count_wrong(s, step);
        if (s->me == 0)
            printf("step %" PRIu64 ": %" PRIu64 " elements are wrong\n", step, wrong);
        return wrong != 0;
    }
    while (step < options->steps) {
        take_step(s, ++step);
        if (step % options->every && step < options->steps)
            continue;
        checkpoint_die_at((enum checkpoint_moment)(step > options->every ? options->die : 0));
        if (!save(s, options, step))
            return 2;
    }
    uint64_t wrong = count_wrong(s, step);
    if (s->me == 0)
        printf("step %" PRIu64 ": %s\n", step, wrong ? "WRONG" : "all elements are right");
    return wrong != 0;
}

/* ------------------------------------------------------------------------------- options */

static int usage(FILE *to)
{
    fputs("usage: checkpoint [option ...] FILE\n"
          "  --steps N      run until step N (default 20)\n"
          "  --every N      write FILE after every N steps, and at the end (default 10)\n"
          "  --elements N   elements of the largest of three arrays (default 1000003)\n"
          "  --gpu          keep them in GPU memory\n"
          "  --check        only check the contents of FILE\n"
          "  --die N        PE 0 kills itself in the second checkpoint: 1 when the new file is "
          "open,\n"
          "                 2 in the middle of writing, 3 written, 4 with its header, 5 safe, 6 "
          "renamed\n",
          to);
    return to == stdout ? 0 : 2;
}

/* Returns -1 to continue, else the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"steps", required_argument, NULL, 's'},
                                          {"every", required_argument, NULL, 'e'},
                                          {"elements", required_argument, NULL, 'n'},
                                          {"die", required_argument, NULL, 'd'},
                                          {"gpu", no_argument, NULL, 'g'},
                                          {"check", no_argument, NULL, 'c'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        bool good = true;
        if (option == 'h')
            return usage(stdout);
        if (option == 's')
            good = parse_number("steps", optarg, 1u << 30, &options->steps);
        else if (option == 'e')
            good = parse_number("every", optarg, 1u << 30, &options->every);
        else if (option == 'n')
            good = parse_number("elements", optarg, (uint64_t)1 << 40, &options->elements);
        else if (option == 'd')
            good = parse_number("die", optarg, CHECKPOINT_RENAMED, &options->die);
        else if (option == 'g')
            options->gpu = true;
        else if (option == 'c')
            options->check = true;
        else
            return usage(stderr);
        if (!good)
            return 2;
    }
    if (!fits_operands(argc, argv, optind, "a FILE to write and resume from"))
        return 2;
    options->path = argv[optind];
    return -1;
}

int main(int argc, char **argv)
{
    struct options options = {.elements = 1000003, .steps = 20, .every = 10};
    int status = parse(argc, argv, &options);
    if (status >= 0)
        return status;
    setlinebuf(stdout);
    struct state s = {0};
    CHECK(s.job, weft_init(&s.job, NULL));
    s.ctx = weft_default_ctx(s.job);
    s.me = weft_my_pe(s.job);
    s.n = weft_n_pes(s.job);
    allocate(&s, &options);
    status = run_job(&s, &options);
    free(s.chunk);
    for (int i = ARRAYS - 1; i >= 0; i--)
        CHECK(s.job, weft_free(s.job, s.arrays[i].memory));
    CHECK(s.job, weft_finalize(s.job));
    return status;
}

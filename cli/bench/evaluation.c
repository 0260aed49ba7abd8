/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of kernel benchmarks, each over several paths in separate jobs; --html draws all on one
 * page. The meaning of a figure is defined elsewhere.
 * `weft bench evaluation`: four programs that compare ways to communicate from kernels (Hsu et al.,
 * "GPU-initiated networking with NVSHMEM", and earlier papers): bandwidth of puts by blocks and
 * sizes, rate of single values by blocks with neighbouring and with scattered lanes, a Jacobi
 * solver in two styles over a growing number of PEs, and the time of an alltoall. It runs over
 * every path of --paths.
 * `weft bench gda`: single requests to a NIC, issued by device code and, for comparison, by the
 * CPU through the proxy on the same queues. */
#include "bench/plot.h"
#include "bench/sides.h"
#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The x axis of a plot. The points of a line are rows that differ only in this value. */
enum axis { AXIS_BYTES, AXIS_CTAS, AXIS_PES };

static const char *const axis_keys[] = {"bytes", "ctas", "pes"};

struct program {
    const char *title, *names, *scope;
    const char *sizes; /* default of --sizes; NULL: no sizes */
    int threads;       /* threads of a block; 0: as --threads */
    int iterations;    /* default of --iters; 0: adaptive */
    bool grids;        /* repeated for each number of --ctas */
    bool scales;       /* repeated with 1, 2, 4 ... PEs */
    bool all_pes;      /* uses all PEs */
    enum axis x, lines;
    bool a_plot_per_path; /* else one plot has the lines of all paths */
    const char *figure, *unit, *plot;
};

static const struct program evaluation[] = {
    {.title = "Bandwidth of puts by blocks",
     .names = "put",
     .scope = "block",
     .sizes = "8,64,512,2K,8K,64K,1M",
     .grids = true,
     .x = AXIS_BYTES,
     .lines = AXIS_CTAS,
     .a_plot_per_path = true,
     .figure = "gbytes_per_s",
     .unit = "GB/s",
     .plot = "GB/s, over bytes"},
    {.title = "Rate of single values of 8 bytes",
     .names = "p,p_scattered",
     .scope = "thread",
     .grids = true,
     .x = AXIS_CTAS,
     .figure = "mops",
     .unit = "M/s",
     .plot = "M/s, over blocks"},
    {.title = "Jacobi solver, time of a step",
     .names = "jacobi_values,jacobi_rows",
     .scope = "block",
     .scales = true,
     .x = AXIS_PES,
     .figure = "us",
     .unit = "us",
     .plot = "us, over PEs"},
    {.title = "Alltoall by one block",
     .names = "alltoall",
     .scope = "block",
     .sizes = "8,64,512,4K,32K",
     .all_pes = true,
     .x = AXIS_BYTES,
     .figure = "us",
     .unit = "us",
     .plot = "us, over bytes per pair"},
};

/* Enough rounds that the final quiet, which the proxy executes for each thread, is negligible. */
static const struct program gda[] = {
    {.title = "8 bytes by one thread of each block, back to back",
     .names = "put,p",
     .scope = "thread",
     .sizes = "8",
     .threads = 1,
     .iterations = 20000,
     .grids = true,
     .x = AXIS_CTAS,
     .figure = "mops",
     .unit = "M/s",
     .plot = "M/s, over blocks"},
    {.title =
         "8 bytes by each lane of warps, with neighbouring lanes (p) and without (p_scattered)",
     .names = "p,p_scattered",
     .scope = "thread",
     .iterations = 300,
     .grids = true,
     .x = AXIS_CTAS,
     .figure = "mops",
     .unit = "M/s",
     .plot = "M/s, over blocks"},
    {.title = "2 KiB by whole blocks, back to back",
     .names = "put",
     .scope = "block",
     .sizes = "2K",
     .iterations = 2000,
     .grids = true,
     .x = AXIS_CTAS,
     .figure = "gbytes_per_s",
     .unit = "GB/s",
     .plot = "GB/s, over blocks"},
    {.title = "Atomics by each lane of warps, without waiting; the proxy waits for each",
     .names = "atomic_add",
     .scope = "thread",
     .iterations = 20,
     .x = AXIS_CTAS,
     .figure = "mops",
     .unit = "M/s",
     .plot = "M/s"},
    {.title = "8 bytes by one thread, each waited for",
     .names = "put_quiet,g,atomic_fetch_add,latency",
     .scope = "thread",
     .sizes = "8",
     .threads = 1,
     .iterations = 500,
     .x = AXIS_CTAS,
     .figure = "us",
     .unit = "us",
     .plot = "us"},
};

#define COUNT(programs) (int)(sizeof(programs) / sizeof(programs)[0])
static const struct suite {
    const char *name, *text, *paths;
    const struct program *programs;
    int count, grids; /* default numbers of blocks on a GPU */
} suites[] = {
    {"evaluation",
     "put, p, jacobi and alltoall by kernels over blocks, sizes and PEs, path by path", "p2p",
     evaluation, COUNT(evaluation), 7},
    {BENCH_GDA, "8 bytes over path gda: initiated by device code and by the CPU, with the ratio",
     "gda:auto,gda:cpu", gda, COUNT(gda), 7},
};

static const struct suite *suite_of(const char *name)
{
    for (int i = 0; i < COUNT(suites); i++)
        if (strcmp(suites[i].name, name) == 0)
            return &suites[i];
    return NULL;
}

bool bench_is_suite(const char *name)
{
    return suite_of(name) != NULL;
}

void bench_list_suites(void)
{
    for (int i = 0; i < COUNT(suites); i++)
        printf("%-17s %-7s %-5s %s\n", suites[i].name, "", "", suites[i].text);
    printf("%-17s %-7s %-5s %s\n", "file", "", "",
           "a file read into memory or written, compared with plain read, fio and cuFile; has "
           "its own options");
    printf("%-17s %-7s %-5s %s\n", "coll", "", "",
           "collectives with every algorithm, in graphs, on streams and by the host; has its own "
           "options");
}

/* ------------------------------------------------------------------------------------ the jobs */

static void join_numbers(const int *numbers, int n, char *text, size_t room)
{
    size_t at = 0;
    for (int i = 0; i < n && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%d", i ? "," : "", numbers[i]);
}

static void join_sizes(const struct bench_options *options, char *text, size_t room)
{
    size_t at = 0;
    for (int i = 0; i < options->n_sizes && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%zu", i ? "," : "", options->sizes[i]);
}

static void run_program_job(const struct bench_options *given, const struct program *program,
                            int pes, struct bench_sides *sides)
{
    char names[64], scope[32], target[32], threads[32], ctas[512], sizes[1024], iters[48];
    char repetitions[32];
    struct bench_options options = *given;
    char *argv[12] = {"weft bench"};
    int argc = 1;
    options.pes = pes;
    options.from = 0;
    options.to = pes > 1;
    snprintf(names, sizeof names, "%s", program->names);
    snprintf(scope, sizeof scope, "--scope=%s", program->scope);
    snprintf(repetitions, sizeof repetitions, "--repetitions=%d", given->repetitions);
    argv[argc++] = names;
    argv[argc++] = scope;
    argv[argc++] = repetitions;
    if (given->target != TARGET_COUNT) {
        snprintf(target, sizeof target, "--target=%s", bench_target_names[given->target]);
        argv[argc++] = target;
    }
    if (program->threads || given->threads) {
        snprintf(threads, sizeof threads, "--threads=%d",
                 program->threads ? program->threads : given->threads);
        argv[argc++] = threads;
    }
    if (given->iterations || program->iterations) {
        snprintf(iters, sizeof iters, "--iters=%llu",
                 (unsigned long long)(given->iterations ? given->iterations
                                                        : (uint64_t)program->iterations));
        argv[argc++] = iters;
    }
    if (!given->verify)
        argv[argc++] = "--no-verify";
    if (!given->bind)
        argv[argc++] = "--no-bind";
    if (program->grids) {
        join_numbers(given->ctas_list, given->n_ctas, ctas + snprintf(ctas, sizeof ctas, "--ctas="),
                     sizeof ctas - 7);
        argv[argc++] = ctas;
    }
    if (program->sizes) {
        snprintf(sizes, sizeof sizes, "--sizes=%s", program->sizes);
        if (given->n_sizes)
            join_sizes(given, sizes + strlen("--sizes="), sizeof sizes - strlen("--sizes="));
        argv[argc++] = sizes;
    }
    sides_measure(&options, argc, argv, sides);
}

static void run_program(const struct bench_options *options, const struct program *program,
                        struct bench_sides *sides)
{
    int most = options->pes ? options->pes : 2;
    for (int pes = program->scales ? 1 : most; pes <= most; pes *= 2)
        run_program_job(options, program, program->scales || program->all_pes ? pes : 2, sides);
    for (int pes = 1; program->scales && pes <= most;
         pes *= 2) /* and last all PEs, when that is not a power of two */
        if (pes < most && pes * 2 > most)
            run_program_job(options, program, most, sides);
}

/* ------------------------------------------------------------------------------------ the page */

static bool of_line(const json_t *row, const json_t *first, const struct program *program)
{
    const char *key = axis_keys[program->lines];
    return json_equal(json_object_get(row, "bench"), json_object_get(first, "bench")) &&
           (!program->a_plot_per_path ||
            json_equal(json_object_get(row, key), json_object_get(first, key)));
}

/* Makes the line that starts with row `begin` of a side: the rows that differ from it only in x. */
static void make_line(const struct program *program, const struct bench_side *side, size_t begin,
                      struct plot_series *line)
{
    const json_t *first = json_array_get(side->rows, begin);
    *line = (struct plot_series){0};
    for (size_t i = begin; i < json_array_size(side->rows) && line->n < PLOT_POINTS; i++) {
        const json_t *row = json_array_get(side->rows, i);
        if (!of_line(row, first, program))
            continue;
        line->x[line->n] = side_figure(row, axis_keys[program->x]);
        line->y[line->n++] = side_figure(row, program->figure);
    }
}

static bool begins_line(const struct program *program, const struct bench_side *side, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (of_line(json_array_get(side->rows, i), json_array_get(side->rows, at), program))
            return false;
    return true;
}

/* Appends every line of a side to the plot; `labels` holds the label texts. */
static void add_lines(const struct program *program, const struct bench_side *side,
                      struct plot_series *series, char (*labels)[64], int *count)
{
    for (size_t i = 0; i < json_array_size(side->rows) && *count < PLOT_SERIES; i++) {
        const json_t *row = json_array_get(side->rows, i);
        if (!begins_line(program, side, i))
            continue;
        make_line(program, side, i, &series[*count]);
        if (program->a_plot_per_path)
            snprintf(labels[*count], sizeof labels[0], "%.0f blocks",
                     side_figure(row, axis_keys[program->lines]));
        else
            snprintf(labels[*count], sizeof labels[0], "%s, %s", side->path,
                     json_string_value(json_object_get(row, "bench")));
        series[*count].label = labels[*count];
        (*count)++;
    }
}

static void draw_program(FILE *to, const struct program *program, const struct bench_sides *sides)
{
    static struct plot_series series[PLOT_SERIES];
    char labels[PLOT_SERIES][64], title[128];
    int count = 0;
    fprintf(to, "<h2>%s</h2>\n", program->title);
    for (int i = 0; i < sides->count; i++) {
        add_lines(program, &sides->side[i], series, labels, &count);
        if (!program->a_plot_per_path && i + 1 < sides->count)
            continue;
        snprintf(title, sizeof title, "%s%s%s", program->plot, program->a_plot_per_path ? ": " : "",
                 program->a_plot_per_path ? sides->side[i].path : "");
        const struct plot plot = {.title = title,
                                  .unit = program->unit,
                                  .bytes = program->x == AXIS_BYTES,
                                  .series = series,
                                  .count = count};
        plot_draw(to, &plot);
        count = 0;
    }
}

static void write_suite_head(FILE *to, const struct suite *suite, const struct bench_sides *sides)
{
    char date[32];
    time_t now = time(NULL);
    struct tm local;
    const json_t *row = json_array_get(sides->side[0].rows, 0);
    const char *target = json_string_value(json_object_get(row, "target"));
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", localtime_r(&now, &local));
    char title[64];
    snprintf(title, sizeof title, "weft bench %s", suite->name);
    plot_page_begin(to, title);
    fprintf(to, "<p>Weft %s, %s. Target %s%s. Medians.</p>\n", weft_version(), date,
            target ? target : "unknown",
            target && strcmp(target, "simt") == 0 ? ": figures of the stand-in, not of a GPU" : "");
}

/* --------------------------------------------------------------------------------------- suites */

static bool all_verified(const struct bench_sides *sides)
{
    size_t i;
    json_t *row;
    for (int k = 0; k < sides->count; k++)
        json_array_foreach(sides->side[k].rows, i, row)
        {
            if (json_is_false(json_object_get(row, "verified")))
                return false;
        }
    return true;
}

static int close_page(FILE *page, const char *name)
{
    if (!page)
        return EXIT_GOOD;
    plot_page_end(page);
    bool whole = !ferror(page);
    if (fclose(page) == 0 && whole)
        return EXIT_GOOD;
    fprintf(stderr, "weft bench: the file of --html %s could not be written in full\n", name);
    return EXIT_FAULT;
}

int bench_suite(const struct bench_options *given)
{
    const struct suite *suite = suite_of(given->names);
    static const int grids[] = {1, 2, 4, 8, 16, 32, 64};
    struct bench_options options = *given;
    struct bench_sides sides;
    FILE *page = NULL;
    bool good = true;
    if (!sides_parse(options.paths ? options.paths : suite->paths, &sides)) {
        fprintf(stderr, "weft bench: --paths %s: expected up to %d paths, e.g. proxy,gda\n",
                options.paths, SIDES_MAX);
        return EXIT_USAGE;
    }
    if (!options.n_ctas) {
        options.n_ctas = options.target == TARGET_SIMT ? 3 : suite->grids;
        memcpy(options.ctas_list, grids, sizeof grids);
    }
    if (options.html && !(page = fopen(options.html, "w"))) {
        fprintf(stderr, "weft bench: fopen(\"%s\") for --html: %s\n", options.html,
                strerror(errno));
        return EXIT_FAULT;
    }
    for (int i = 0; i < suite->count; i++) {
        const struct program *program = &suite->programs[i];
        run_program(&options, program, &sides);
        if (options.json)
            sides_print_json(&sides);
        else {
            printf("%s\n", program->title);
            sides_print_table(&sides);
        }
        if (page && i == 0)
            write_suite_head(page, suite, &sides);
        if (page)
            draw_program(page, program, &sides);
        good &= all_verified(&sides) && !sides.failed;
        sides_clear(&sides);
    }
    return close_page(page, options.html) || !good ? EXIT_FAULT : EXIT_GOOD;
}

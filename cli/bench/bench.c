/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench`: starts a job of itself unless it is already in one, and runs the selected
 * benchmarks and sizes. The measurements themselves are in cli/bench/. */
#include "bench/bench.h"
#include "bench/coll/command.h"
#include "bench/file/command.h"
#include "bench/scale/scale.h"
#include "commands.h"
#include "own_path.h"

#include "tool/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool bench_in_job(void)
{
    return config_int(CONFIG_BOOT_SOCKET) >= 0 || getenv("PMIX_RANK") || getenv("WORLD_SIZE") ||
           strcmp(config_string(CONFIG_BOOT), "auto") != 0;
}

int bench_start_pes(int pes, bool bind, char *first, int argc, char **argv)
{
    static char self[PATH_MAX];
    char number[16];
    if (!cli_own_path(self))
        return EXIT_FAULT;
    snprintf(number, sizeof number, "%d", pes);
    char **args = calloc((size_t)argc + 9, sizeof *args);
    if (!args) {
        perror("weft bench: calloc");
        return EXIT_FAULT;
    }
    int n = 0;
    args[n++] = "weft run";
    args[n++] = "-n";
    args[n++] = number;
    if (!bind)
        args[n++] = "--bind=none";
    args[n++] = self;
    args[n++] = "bench";
    args[n++] = first;
    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];
    int code = cmd_run(n, args);
    free(args);
    return code;
}

int bench_start_job(const struct bench_options *options, int argc, char **argv)
{
    char *progress = isatty(STDERR_FILENO) ? "--progress=1" : "--progress=0";
    return bench_start_pes(options->pes, options->bind, progress, argc, argv);
}

struct results {
    struct bench_point *points;
    int count, capacity;
    bool wrong, left_out;
};

static struct bench_point *next_point(struct results *results)
{
    if (results->count == results->capacity) {
        results->capacity = results->capacity ? results->capacity * 2 : 64;
        results->points =
            realloc(results->points, (size_t)results->capacity * sizeof *results->points);
        if (!results->points)
            abort();
    }
    return &results->points[results->count++];
}

static void show_progress(const struct bench *bench, const struct bench_entry *entry, size_t bytes,
                          int done, int all)
{
    if (bench->options->progress == 1 && bench->me == bench->from)
        fprintf(stderr, "\r\033[K[%d/%d] %s %s\r", done + 1, all, entry->name,
                bytes ? bench_bytes_text(bytes).text : "");
}

static void clear_progress(const struct bench *bench)
{
    if (bench->options->progress == 1 && bench->me == bench->from)
        fprintf(stderr, "\033[K");
}

static weft_status run_point(struct bench *bench, const struct bench_entry *entry, size_t bytes,
                             struct results *results)
{
    struct bench_case c;
    weft_status status = bench_case_open(bench, entry, bytes, &c);
    if (status == WEFT_ERR_NO_MEMORY) { /* the same at every PE, so that all skip this point */
        results->left_out = true;
        clear_progress(bench);
        if (bench->me == bench->from)
            fprintf(stderr, "weft bench: %s at %zu bytes is skipped: %s\n", entry->name, bytes,
                    weft_last_error());
        return WEFT_OK;
    }
    if (status)
        return status;
    struct bench_point *point = next_point(results);
    status = bench_measure(bench, &c, point);
    if (!status)
        status = bench_case_close(bench, &c);
    if (status)
        return status;
    results->wrong |= point->verified == 0;
    clear_progress(bench);
    if (bench->me != bench->from)
        return WEFT_OK;
    if (bench->options->json)
        bench_json_row(stdout, point);
    else
        bench_table_row(stdout, point, results->count > 1 ? point - 1 : NULL);
    return WEFT_OK;
}

static int count_points(const struct bench_options *options)
{
    const size_t *sizes;
    int all = 0;
    for (int i = 0; i < bench_entry_count; i++)
        if (bench_selected(options, &bench_entries[i]))
            all += bench_sizes(options, &bench_entries[i], &sizes) *
                   (bench_entries[i].gridded ? options->n_ctas : 1);
    return all;
}

/* `options` is bench->options: its number of blocks changes with the point. */
static weft_status run_benches(struct bench *bench, struct bench_options *options,
                               struct results *results)
{
    int all = count_points(options), done = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < bench_entry_count; i++) {
        const struct bench_entry *entry = &bench_entries[i];
        if (!bench_selected(options, entry))
            continue;
        const size_t *sizes;
        int n = bench_sizes(options, entry, &sizes), grids = entry->gridded ? options->n_ctas : 1;
        for (int point = 0; !status && point < n * grids; point++) {
            size_t bytes = sizes[point % n];
            options->ctas = options->ctas_list[point / n];
            show_progress(bench, entry, bytes, done++, all);
            status = run_point(bench, entry, bytes, results);
        }
    }
    return status;
}

/* Ends the job, since the other PEs would wait for the PE that failed. */
static int end_with_failure(struct bench *bench, const char *what)
{
    clear_progress(bench);
    if (!bench->job) {
        fprintf(stderr, "weft bench: %s\n", what);
        return EXIT_FAULT;
    }
    fprintf(stderr, "weft bench: PE %d: %s\n", bench->me, what);
    weft_abort(bench->job, EXIT_FAULT);
}

static bool close_whole(FILE *file)
{
    bool whole = !ferror(file);
    return fclose(file) == 0 && whole;
}

static int html_failed(struct bench *bench)
{
    char what[512];
    snprintf(what, sizeof what, "fopen(\"%.400s\") for --html: %s", bench->options->html,
             strerror(errno));
    return end_with_failure(bench, what);
}

/* Checks the options against the job. The result is the same at every PE; PE 0 prints it. */
static bool fits_job(const struct bench *bench)
{
    const struct bench_options *options = bench->options;
    bool fits = true;
    if (options->pes && options->pes != bench->n) {
        fits = false;
        if (bench->me == 0)
            fprintf(stderr,
                    "weft bench: --pes %d, but this job was started with %d PEs; omit --pes\n",
                    options->pes, bench->n);
    }
    if (bench->from >= bench->n || bench->to >= bench->n) {
        fits = false;
        if (bench->me == 0)
            fprintf(stderr, "weft bench: --pair %d,%d, but the job has the PEs 0 to %d\n",
                    bench->from, bench->to, bench->n - 1);
    }
    return fits;
}

static weft_status measure_and_report(struct bench *bench, struct bench_options *options,
                                      FILE *html, struct results *results)
{
    bool reports = bench->me == bench->from;
    weft_status status = bench_prepare(bench);
    if (bench->options->trace)
        return status                                          ? status
               : strcmp(bench->options->names, BENCH_GDA) == 0 ? bench_gda_trace(bench)
                                                               : bench_proxy_trace(bench);
    if (!status && reports && !bench->options->json)
        bench_table_head(stdout, bench);
    if (!status)
        status = run_benches(bench, options, results);
    if (status || !reports)
        return status;
    if (!bench->options->json)
        bench_table_foot(stdout, results->points, results->count);
    if (results->wrong)
        fprintf(stderr, "weft bench: received data is wrong; the rows show which\n");
    if (html)
        bench_html(html, bench, results->points, results->count);
    return WEFT_OK;
}

static int run_bench(struct bench_options *options)
{
    struct bench bench;
    struct results results = {0};
    FILE *html = NULL;
    if (options->progress < 0)
        options->progress = isatty(STDERR_FILENO);
    if (bench_open(&bench, options))
        return end_with_failure(&bench, weft_last_error());
    if (!fits_job(&bench)) {
        weft_finalize(bench.job);
        return EXIT_USAGE;
    }
    /* Opens the file first, so that an error is reported before the measurement. */
    if (options->html && bench.me == bench.from && !(html = fopen(options->html, "w")))
        return html_failed(&bench);
    if (measure_and_report(&bench, options, html, &results))
        return end_with_failure(&bench, weft_last_error());
    if (html && !close_whole(html))
        return end_with_failure(&bench, "the file of --html could not be written in full");
    if (bench_close(&bench))
        return end_with_failure(&bench, weft_last_error());
    free(results.points);
    return results.wrong || results.left_out ? EXIT_FAULT : EXIT_GOOD;
}

/* Whether any target has points for these options. The process that starts the job does not load
 * the GPU driver to find the target, which would take seconds; the PEs do. */
static bool has_points_anywhere(const struct bench_options *options)
{
    for (int target = 0; target < TARGET_COUNT; target++) {
        struct bench_options tried = *options;
        tried.target = (enum bench_target)target;
        bench_device_choose(&tried);
        if (count_points(&tried))
            return true;
    }
    return false;
}

static int refuse_options(const struct bench_options *options)
{
    fprintf(stderr,
            "weft bench: this build has no \"%s\" with memory %s, scope %s, target %s; see "
            "`weft bench --list`\n",
            options->names,
            options->memory == MEMORY_COUNT ? "any" : bench_memory_names[options->memory],
            bench_scope_names[options->scope],
            options->target == TARGET_COUNT ? "any" : bench_target_names[options->target]);
    return EXIT_USAGE;
}

/* Says which size of --sizes cannot be allocated: each benchmark of sizes has two buffers of at
 * least the size. Of a GPU heap without a set size, only the PEs know the size. */
static bool fits_heap(const struct bench_options *options)
{
    bool gpu = options->memory == MEMORY_GPU;
    enum config_id id = gpu ? CONFIG_GPU_HEAP_SIZE : CONFIG_HEAP_SIZE;
    uint64_t heap = config_size(id);
    if (options->memory == MEMORY_COUNT || heap == 0)
        return true;
    for (int i = 0; i < options->n_sizes; i++) {
        if (options->sizes[i] < heap / 2)
            continue;
        fprintf(stderr,
                "weft bench: --sizes: two buffers of %s do not fit into the %s heap of %s; "
                "choose smaller sizes or a larger %s\n",
                bench_bytes_text(options->sizes[i]).text, gpu ? "GPU" : "host",
                bench_bytes_text(heap).text, config_vars[id].name);
        return false;
    }
    return true;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_options options;
    if (argc > 1 && strcmp(argv[1], "file") == 0) {
        argv[1] = "weft bench file";
        return bench_file(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "coll") == 0) {
        argv[1] = "weft bench coll";
        return bench_coll(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "scale") == 0) {
        argv[1] = "weft bench scale";
        return bench_scale(argc - 1, argv + 1);
    }
    bench_parse(argc, argv, &options);
    bool suite = bench_is_suite(options.names) && !options.trace;
    if (bench_in_job() && (options.paths || suite)) {
        fprintf(stderr, "weft bench: %s starts its own jobs; run it without a launcher\n",
                suite ? options.names : "--paths");
        return EXIT_USAGE;
    }
    if (suite)
        return bench_suite(&options);
    if (bench_in_job()) {
        bench_device_choose(&options);
        if (options.trace)
            return run_bench(&options);
        return count_points(&options) ? run_bench(&options) : refuse_options(&options);
    }
    if (options.scope == SCOPE_HOST || options.target != TARGET_COUNT)
        bench_device_choose(&options);
    if (!options.trace &&
        !(options.target == TARGET_COUNT ? has_points_anywhere(&options) : count_points(&options)))
        return refuse_options(&options);
    if (!fits_heap(&options))
        return EXIT_USAGE;
    if (!options.pes)
        options.pes = 2;
    return options.paths ? bench_paths(&options, argc, argv)
                         : bench_start_job(&options, argc, argv);
}

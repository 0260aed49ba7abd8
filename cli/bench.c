/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench`: reads the options, starts a job of itself where it is not part of one, and walks
 * over the selected benchmarks and sizes. How a figure is taken is not known here (cli/bench/). */
#include "bench/bench.h"
#include "commands.h"

#include "base/config.h"
#include "base/status.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_SIZES = 256,
    KEY_MEMORY,
    KEY_SCOPE,
    KEY_TARGET,
    KEY_HTML,
    KEY_VERIFY,
    KEY_NO_VERIFY,
    KEY_NO_BIND,
    KEY_PAIR,
    KEY_LIST,
    KEY_PROGRESS,
    KEY_REPETITIONS,
};

static const struct argp_option option_list[] = {
    {"pes", 'n', "N", 0, "PEs of the job that is started (2)", 0},
    {"sizes", KEY_SIZES, "LIST", 0, "sizes in bytes, e.g. 8,4K,1M (8,64,1K,8K,64K,1M,4M)", 0},
    {"iters", 'i', "N", 0, "operations in each repetition (as many as take 15 ms)", 0},
    {"repetitions", KEY_REPETITIONS, "N", 0, "repetitions, of which the median counts (9)", 0},
    {"pair", KEY_PAIR, "A,B", 0, "put, get, p, g, atomics, latency: PE A acts on PE B (0,1)", 0},
    {"memory", KEY_MEMORY, "KIND", 0, "where the buffers lie: host, gpu (host)", 0},
    {"scope", KEY_SCOPE, "SCOPE", 0, "who calls: host, thread, warp, block, stream (host)", 0},
    {"target", KEY_TARGET, "TARGET", 0, "what the caller runs on: host, cuda, simt (host)", 0},
    {"verify", KEY_VERIFY, NULL, 0, "check contents before each timing (the default)", 0},
    {"no-verify", KEY_NO_VERIFY, NULL, 0, "do not check contents", 0},
    {"no-bind", KEY_NO_BIND, NULL, 0, "do not give each PE a CPU of its own", 0},
    {"json", 'j', NULL, 0, "print one JSON object a line and point", 0},
    {"html", KEY_HTML, "FILE", 0, "also write a page with plots", 0},
    {"list", KEY_LIST, NULL, 0, "list the benchmarks of this build", 0},
    {"progress", KEY_PROGRESS, "0|1", OPTION_HIDDEN, "show progress on stderr", 0},
    {0},
};

static int parse_choice(struct argp_state *state, const char *option, const char *text,
                        const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    argp_error(state, "--%s %s: known are %s, ...; see --help", option, text, names[0]);
    return 0;
}

static long parse_number(struct argp_state *state, const char *option, const char *text, long least,
                         long most)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < least || number > most)
        argp_error(state, "--%s %s: a whole number from %ld to %ld is wanted", option, text, least,
                   most);
    return number;
}

static void parse_sizes(struct argp_state *state, struct bench_options *options, const char *list)
{
    options->n_sizes = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char item[32];
        uint64_t bytes;
        snprintf(item, sizeof item, "%.*s", (int)strcspn(at, ","), at);
        if (!config_parse_size(item, &bytes) || bytes == 0)
            argp_error(state, "--sizes: \"%s\" is not a size such as 8, 4K or 1M", item);
        else if (options->n_sizes == BENCH_SIZES_MAX)
            argp_error(state, "--sizes: at most %d sizes", BENCH_SIZES_MAX);
        else
            options->sizes[options->n_sizes++] = (size_t)bytes;
    }
}

static void parse_pair(struct argp_state *state, struct bench_options *options, const char *text)
{
    char rest;
    if (sscanf(text, "%d,%d%c", &options->from, &options->to, &rest) != 2 || options->from < 0 ||
        options->to < 0)
        argp_error(state, "--pair %s: two PE numbers are wanted, e.g. 0,1", text);
}

static void parse_names(struct argp_state *state, struct bench_options *options, char *names)
{
    if (options->names)
        argp_error(state, "one argument is wanted; several benchmarks are written put,get");
    for (const char *name = names; *name;) {
        size_t length = strcspn(name, ",");
        if (!bench_name_known(name, length))
            argp_error(state, "there is no benchmark \"%.*s\"; see --list", (int)length, name);
        name += length + (name[length] == ',');
    }
    options->names = names;
}

static void list_benchmarks(void)
{
    for (int i = 0; i < bench_entry_count; i++)
        printf("%-17s %-7s %-5s %s\n", bench_entries[i].name,
               bench_scope_names[bench_entries[i].scope],
               bench_target_names[bench_entries[i].target], bench_entries[i].text);
    exit(EXIT_GOOD);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct bench_options *options = state->input;
    switch (key) {
    case 'n':
        options->pes = (int)parse_number(state, "pes", argument, 1, 100000);
        return 0;
    case 'i':
        options->iterations =
            (uint64_t)parse_number(state, "iters", argument, 1, 1000 * 1000 * 1000);
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case KEY_SIZES:
        parse_sizes(state, options, argument);
        return 0;
    case KEY_REPETITIONS:
        options->repetitions =
            (int)parse_number(state, "repetitions", argument, 1, BENCH_REPETITIONS_MAX);
        return 0;
    case KEY_PAIR:
        parse_pair(state, options, argument);
        return 0;
    case KEY_MEMORY:
        options->memory = (enum bench_memory)parse_choice(state, "memory", argument,
                                                          bench_memory_names, MEMORY_COUNT);
        return 0;
    case KEY_SCOPE:
        options->scope = (enum bench_scope)parse_choice(state, "scope", argument, bench_scope_names,
                                                        SCOPE_COUNT);
        return 0;
    case KEY_TARGET:
        options->target = (enum bench_target)parse_choice(state, "target", argument,
                                                          bench_target_names, TARGET_COUNT);
        return 0;
    case KEY_VERIFY:
    case KEY_NO_VERIFY:
        options->verify = key == KEY_VERIFY;
        return 0;
    case KEY_NO_BIND:
        options->bind = false;
        return 0;
    case KEY_HTML:
        options->html = argument;
        return 0;
    case KEY_LIST:
        list_benchmarks();
        return 0;
    case KEY_PROGRESS:
        options->progress = strcmp(argument, "1") == 0;
        return 0;
    case ARGP_KEY_ARG:
        parse_names(state, options, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which benchmark? `all`, or one of --list");
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* Whether a launcher has started this process as a PE, or the user has said how to start. */
static bool in_job(void)
{
    return config_int(CONFIG_BOOT_SOCKET) >= 0 || getenv("PMIX_RANK") || getenv("WORLD_SIZE") ||
           strcmp(config_string(CONFIG_BOOT), "auto") != 0;
}

/* `weft run -n N weft bench ...` with the same options. */
static int start_job(const struct bench_options *options, int argc, char **argv)
{
    static char self[4096];
    char pes[16], *progress = isatty(STDERR_FILENO) ? "--progress=1" : "--progress=0";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) {
        perror("weft bench: readlink(\"/proc/self/exe\")");
        return EXIT_FAULT;
    }
    snprintf(pes, sizeof pes, "%d", options->pes);
    char **args = calloc((size_t)argc + 9, sizeof *args);
    if (!args) {
        perror("weft bench: calloc");
        return EXIT_FAULT;
    }
    int n = 0;
    args[n++] = "weft run";
    args[n++] = "-n";
    args[n++] = pes;
    if (!options->bind)
        args[n++] = "--bind=none";
    args[n++] = self;
    args[n++] = "bench";
    args[n++] = progress;
    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];
    int code = cmd_run(n, args);
    free(args);
    return code;
}

struct results {
    struct bench_point *points;
    int count, room;
    bool wrong;
};

static struct bench_point *next_point(struct results *results)
{
    if (results->count == results->room) {
        results->room = results->room ? results->room * 2 : 64;
        results->points = realloc(results->points, (size_t)results->room * sizeof *results->points);
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
    if (status == WEFT_ERR_NO_MEMORY) { /* the same at every PE: this point alone is left out */
        if (bench->me == bench->from)
            fprintf(stderr, "weft bench: %s at %zu bytes is left out: %s\n", entry->name, bytes,
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

static int sizes_of(const struct bench_options *options, const struct bench_entry *entry)
{
    return entry->sized ? options->n_sizes : 1;
}

static int count_points(const struct bench_options *options)
{
    int all = 0;
    for (int i = 0; i < bench_entry_count; i++)
        if (bench_selected(options, &bench_entries[i]))
            all += sizes_of(options, &bench_entries[i]);
    return all;
}

static weft_status run_all(struct bench *bench, struct results *results)
{
    const struct bench_options *options = bench->options;
    int all = count_points(options), done = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < bench_entry_count; i++) {
        const struct bench_entry *entry = &bench_entries[i];
        if (!bench_selected(options, entry))
            continue;
        for (int s = 0; !status && s < sizes_of(options, entry); s++) {
            size_t bytes = entry->sized ? options->sizes[s] : entry->bytes;
            show_progress(bench, entry, bytes, done++, all);
            status = run_point(bench, entry, bytes, results);
        }
    }
    return status;
}

/* The other PEs would wait for one that fails: the job ends with it. */
static int give_up(struct bench *bench)
{
    clear_progress(bench);
    fprintf(stderr, "weft bench: PE %d: %s\n", bench->job ? bench->me : -1, weft_last_error());
    if (bench->job)
        weft_abort(bench->job, EXIT_FAULT);
    return EXIT_FAULT;
}

static int run_bench(struct bench_options *options)
{
    struct bench bench;
    struct results results = {0};
    if (options->progress < 0)
        options->progress = isatty(STDERR_FILENO);
    weft_status status = bench_open(&bench, options);
    if (!status && bench.me == bench.from && !options->json)
        bench_table_head(stdout, &bench);
    if (!status)
        status = run_all(&bench, &results);
    if (!status && options->html && bench.me == bench.from &&
        !bench_html(options->html, &bench, results.points, results.count))
        status = WEFT_ERR_SYSTEM;
    if (status)
        return give_up(&bench);
    if (results.wrong && bench.me == bench.from)
        fprintf(stderr, "weft bench: data arrived wrong; the rows say which\n");
    if (bench_close(&bench))
        return give_up(&bench);
    free(results.points);
    return results.wrong ? EXIT_FAULT : EXIT_GOOD;
}

int cmd_bench(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = parse,
        .args_doc = "NAME[,NAME...]",
        .doc = "Measure the operations between the PEs of a job, beside what the bare machine does "
               "in the same run. NAME is a benchmark of --list, a family (atomic, latency) or "
               "`all`. Starts the job itself, or uses the one that `weft run`, mpirun or torchrun "
               "started. Exit status 1 when data arrived wrong or the job failed."};
    struct bench_options options = {
        .from = -1,
        .to = -1,
        .sizes = {8, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20},
        .n_sizes = 7,
        .repetitions = 9,
        .verify = true,
        .bind = true,
        .progress = -1,
    };
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (!count_points(&options)) {
        fprintf(stderr,
                "weft bench: this build has no \"%s\" with memory %s, scope %s, target %s; "
                "see `weft bench --list`\n",
                options.names, bench_memory_names[options.memory], bench_scope_names[options.scope],
                bench_target_names[options.target]);
        return EXIT_USAGE;
    }
    if (in_job())
        return run_bench(&options);
    if (!options.pes)
        options.pes = 2;
    return start_job(&options, argc, argv);
}

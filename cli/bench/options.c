/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weft bench`. A wrong option ends the command with status 2 before any PE is
 * started. */
#include "bench/bench.h"
#include "commands.h"
#include "parse.h"

#include "tool/coll_way.h"
#include "tool/tool.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

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
    KEY_CTAS,
    KEY_THREADS,
    KEY_QUEUES,
    KEY_PATHS,
    KEY_ONE_PATH,
    KEY_TRACE,
    KEY_COMPARE,
};

/* In the order of enum weft_queue_mode. */
static const char *const queue_mode_names[] = {"shared", "exclusive", "single"};

static const struct argp_option option_list[] = {
    {"pes", 'n', "N", 0, "PEs of the job to start (2)", 0},
    {"sizes", KEY_SIZES, "LIST", 0,
     "sizes in bytes, e.g. 8,4K,1M (8,64,1K,8K,64K,1M,4M; by a thread to 8K, by a warp to 64K)", 0},
    {"iters", 'i', "N", 0, "operations in each repetition (as many as take 15 ms)", 0},
    {"repetitions", KEY_REPETITIONS, "N", 0, "repetitions (9); the median is reported", 0},
    {"pair", KEY_PAIR, "A,B", 0,
     "put, get, p, g, atomics, latency: PE A acts on PE B (0,1); with --paths also `all`", 0},
    {"paths", KEY_PATHS, "LIST", 0,
     "measure over each of these paths, e.g. p2p,staged, each in its own job, figures "
     "side by side",
     0},
    {"memory", KEY_MEMORY, "KIND", 0, "memory of the buffers: host, gpu (gpu on cuda, else host)",
     0},
    {"scope", KEY_SCOPE, "SCOPE", 0,
     "scope of the caller: host, thread, warp, block, stream "
     "(host)",
     0},
    {"target", KEY_TARGET, "TARGET", 0,
     "where the caller runs: host; cuda, simt (cuda where there is a GPU)", 0},
    {"ctas", KEY_CTAS, "LIST", 0,
     "blocks of the grid in put, get, p, g, atomic_add (1); each number of a list in turn", 0},
    {"threads", KEY_THREADS, "N", 0, "threads of a block (1024 on cuda, 64 on simt)", 0},
    {"queues", KEY_QUEUES, "MODE", 0,
     "how blocks share the queues of path gda: shared, exclusive, single (shared)", 0},
    {"trace", KEY_TRACE, NULL, 0,
     "proxy: print the steps of a put_signal and quiet; gda: those of a put and its completion", 0},
    {"verify", KEY_VERIFY, NULL, 0, "check contents before each timing (the default)", 0},
    {"no-verify", KEY_NO_VERIFY, NULL, 0, "do not check contents", 0},
    {"no-bind", KEY_NO_BIND, NULL, 0, "do not bind each PE to its own CPU", 0},
    {"json", 'j', NULL, 0, "print each point as a JSON object on one line", 0},
    {"html", KEY_HTML, "FILE", 0, "also write an HTML page with plots", 0},
    {"compare", KEY_COMPARE, "A", 0,
     "compare two runs that --json has saved, files A and B; exit status 1 where B is slower", 0},
    {"list", KEY_LIST, NULL, 0, "list the benchmarks of this build", 0},
    {"one-path", KEY_ONE_PATH, NULL, OPTION_HIDDEN, "a job that --paths has started", 0},
    {"progress", KEY_PROGRESS, "0|1", OPTION_HIDDEN, "show progress on stderr", 0},
    {0},
};

static int parse_choice(struct argp_state *state, const char *option, const char *text,
                        const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    char all[128] = "";
    for (int i = 0, used = 0; i < count && used < (int)sizeof all; i++)
        used += snprintf(all + used, sizeof all - (size_t)used, "%s%s", i ? ", " : "", names[i]);
    argp_error(state, "--%s %s: expected one of %s", option, text, all);
    return 0;
}

static long parse_number(struct argp_state *state, const char *option, const char *text, long least,
                         long most)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < least || number > most)
        argp_error(state, "--%s %s: expected a whole number from %ld to %ld", option, text, least,
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

static void parse_ctas(struct argp_state *state, struct bench_options *options, const char *list)
{
    options->n_ctas = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char item[32];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(at, ","), at);
        if (options->n_ctas == BENCH_SIZES_MAX)
            argp_error(state, "--ctas: at most %d numbers", BENCH_SIZES_MAX);
        else
            options->ctas_list[options->n_ctas++] =
                (int)parse_number(state, "ctas", item, 1, BENCH_CTAS_MAX);
    }
}

static void parse_pair(struct argp_state *state, struct bench_options *options, const char *text)
{
    char rest;
    options->all_pairs = strcmp(text, "all") == 0;
    if (options->all_pairs)
        return;
    if (sscanf(text, "%d,%d%c", &options->from, &options->to, &rest) != 2 || options->from < 0 ||
        options->to < 0)
        argp_error(state, "--pair %s: expected two PE numbers, e.g. 0,1", text);
}

static void refuse_name(struct argp_state *state, const char *name, size_t length)
{
    char shown[64];
    snprintf(shown, sizeof shown, "%.*s", (int)(length < 60 ? length : 60), name);
    const char *near = bench_nearest(shown);
    argp_error(state, "there is no benchmark \"%s\"%s%s; see --list", shown,
               near ? "; nearest: " : "", near ? near : "");
}

static void parse_names(struct argp_state *state, struct bench_options *options, char *names)
{
    if (options->names)
        argp_error(state, options->compare ? "--compare takes two files, A and B"
                                           : "expected one argument; separate benchmarks by "
                                             "commas: put,get");
    options->names = names;
    if (options->compare || bench_is_suite(names))
        return;
    for (const char *name = names; *name;) {
        size_t length = strcspn(name, ",");
        const char *now = tool_coll_renamed(name, length);
        if (!bench_name_known(name, length) && now)
            argp_error(state, "there is no benchmark \"%.*s\"; it is now called %s", (int)length,
                       name, now);
        if (!bench_name_known(name, length))
            refuse_name(state, name, length);
        name += length + (name[length] == ',');
    }
}

static void list_benchmarks_json(void)
{
    json_t *list = json_array();
    for (int i = 0; i < bench_entry_count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s?, s:s, s:s, s:s}", "name", bench_entries[i].name,
                                        "family", bench_entries[i].family, "scope",
                                        bench_scope_names[bench_entries[i].scope], "target",
                                        bench_target_names[bench_entries[i].target], "text",
                                        bench_entries[i].text));
    json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    exit(EXIT_GOOD);
}

static void list_benchmarks(void)
{
    for (int i = 0; i < bench_entry_count; i++)
        printf("%-17s %-7s %-5s %s\n", bench_entries[i].name,
               bench_scope_names[bench_entries[i].scope],
               bench_target_names[bench_entries[i].target], bench_entries[i].text);
    bench_list_suites();
    exit(EXIT_GOOD);
}

/* A job that this command starts has the PEs of the pair. */
static void check_pair(struct argp_state *state, const struct bench_options *options)
{
    int pes = options->pes ? options->pes : 2;
    if (!options->all_pairs && !bench_in_job() && (options->from >= pes || options->to >= pes))
        argp_error(state, "--pair %d,%d: the job has the PEs 0 to %d; --pes N starts more",
                   options->from, options->to, pes - 1);
}

/* Lists the benchmarks, which ends the process, if that is what was asked for. */
static void end_options(struct argp_state *state, const struct bench_options *options)
{
    if (options->list)
        options->json ? list_benchmarks_json() : list_benchmarks();
    if (options->all_pairs && !options->paths)
        argp_error(state, "--pair all needs --paths");
    check_pair(state, options);
    if (options->html && options->paths && !bench_is_suite(options->names))
        argp_error(state, "--html and --paths go together only in `evaluation` and `gda`");
}

static void name_all(struct argp_state *state, struct bench_options *options)
{
    if (options->compare)
        argp_error(state, "--compare: name the second file: weft bench --compare %s B.json",
                   options->compare);
    options->names = "all";
}

/* The options that say which threads call, and where. */
static void parse_caller(struct argp_state *state, int key, char *argument)
{
    struct bench_options *options = state->input;
    switch (key) {
    case KEY_SCOPE:
        options->scope = (enum bench_scope)parse_choice(state, "scope", argument, bench_scope_names,
                                                        SCOPE_COUNT);
        return;
    case KEY_TARGET:
        options->target = (enum bench_target)parse_choice(state, "target", argument,
                                                          bench_target_names, TARGET_COUNT);
        return;
    case KEY_CTAS:
        parse_ctas(state, options, argument);
        return;
    case KEY_THREADS:
        options->threads = (int)parse_number(state, "threads", argument, 1, 1024);
        return;
    case KEY_QUEUES:
        options->queues = parse_choice(state, "queues", argument, queue_mode_names,
                                       sizeof queue_mode_names / sizeof queue_mode_names[0]);
        return;
    }
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
    case KEY_TARGET:
    case KEY_CTAS:
    case KEY_THREADS:
    case KEY_QUEUES:
        parse_caller(state, key, argument);
        return 0;
    case KEY_PATHS:
        options->paths = argument;
        return 0;
    case KEY_ONE_PATH:
        options->paths = NULL;
        return 0;
    case KEY_TRACE:
        options->trace = true;
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
        options->list = true;
        return 0;
    case KEY_COMPARE:
        options->compare = argument;
        return 0;
    case KEY_PROGRESS:
        options->progress = strcmp(argument, "1") == 0;
        return 0;
    case ARGP_KEY_END:
        end_options(state, options);
        return 0;
    case ARGP_KEY_ARG:
        parse_names(state, options, argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        name_all(state, options);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

void bench_parse(int argc, char **argv, struct bench_options *options)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = parse,
        .args_doc = "[NAME[,NAME...]]\n--compare A B",
        .doc = "Measure the operations between the PEs of a job, compared with the bare machine "
               "in the same run. NAME is a benchmark of --list, a family (atomic, latency) or "
               "`all` (the default); or, alone, `evaluation` or `gda`. Starts the job itself, or "
               "uses the one that `weft run`, mpirun or torchrun started. Exit status 1 when "
               "received data is wrong or the job failed."};
    *options = (struct bench_options){
        .to = -1,               /* default: 1, or 0 in a job of one PE */
        .memory = MEMORY_COUNT, /* not given, like scope, target, ctas and threads */
        .scope = SCOPE_COUNT,
        .target = TARGET_COUNT,
        .repetitions = 9,
        .verify = true,
        .bind = true,
        .progress = -1,
    };
    cli_parse(&argp, argc, argv, 0, options);
    if (options->compare)
        exit(bench_compare(options->compare, options->names, options->json));
    bool proxy = bench_names_proxy(options);
    bool gda = strcmp(options->names, BENCH_GDA) == 0;
    options->bind &= !proxy; /* the proxy thread needs another CPU than the PE */
    if (options->scope == SCOPE_COUNT)
        options->scope = proxy || gda ? SCOPE_THREAD : SCOPE_HOST;
    if (options->trace && (!(proxy || gda) || options->scope != SCOPE_THREAD)) {
        fprintf(stderr, "weft bench: --trace is for the benchmarks proxy and gda, scope thread\n");
        exit(EXIT_USAGE);
    }
}

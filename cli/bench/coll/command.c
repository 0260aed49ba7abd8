/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench coll`: collectives on GPU memory, or on host memory with the stand-in, with every
 * possible algorithm. This file has the options, the job, and the loop over operations, sizes
 * and algorithms. */
#include "bench/coll/command.h"
#include "own_path.h"
#include "parse.h"

#include "bench/coll/coll.h"
#include "commands.h"

#include "tool/coll_way.h"
#include "tool/tool.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------- options */

enum { MOST_SMS = 64 };

enum {
    KEY_OPS = 256,
    KEY_WAYS,
    KEY_SIZES,
    KEY_REPETITIONS,
    KEY_SMS,
    KEY_TEAM,
    KEY_TARGET,
    KEY_NO_VERIFY,
    KEY_CSV,
    KEY_TUNE,
};

static const struct argp_option coll_option_list[] = {
    {"pes", 'n', "N", 0, "PEs of the job to start (2)", 0},
    {"ops", KEY_OPS, "LIST", 0, "operations, such as allreduce (all twelve)", 0},
    {"ways", KEY_WAYS, "LIST", 0,
     "algorithms, of auto, packets (LL), two (two-shot LL), lines (LL128), twolines (two-shot "
     "LL128), direct (simple), scratch (staged), engines (copy engines), copies (host puts); "
     "default: all that are possible",
     0},
    {"sizes", KEY_SIZES, "LIST", 0,
     "bytes of the vector or of a block, such as 8,64K,1M (8,4K,64K,256K,1M,4M,16M; on simt to "
     "64K)",
     0},
    {"iters", 'i', "N", 0, "calls in each repetition, or in the graph (60, fewer for large sizes)",
     0},
    {"repetitions", KEY_REPETITIONS, "N", 0, "repetitions (5); the median is reported", 0},
    {"sms", KEY_SMS, "N", 0,
     "most thread blocks of a collective (64); 0: copy engines where possible", 0},
    {"team", KEY_TEAM, "N", 0, "measure over the first N PEs (all)", 0},
    {"target", KEY_TARGET, "cuda|simt", 0,
     "GPU memory (cuda), or the stand-in on host memory (simt)", 0},
    {"no-verify", KEY_NO_VERIFY, NULL, 0, "do not compare contents", 0},
    {"json", 'j', NULL, 0, "print each row as a JSON object on one line", 0},
    {"csv", KEY_CSV, NULL, 0, "print CSV with a header line", 0},
    {"tune", KEY_TUNE, NULL, 0,
     "measure this machine's rates instead, and save them in the file that WEFT_COLL_RATES "
     "names, else in ~/.cache/weft",
     0},
    {0},
};

/* Calls parse_item(to, item) for each item of a comma-separated list. False: an item was refused.
 */
static bool for_each_item(const char *list, char *item, size_t bytes,
                          bool (*parse_item)(void *, const char *), void *to)
{
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        snprintf(item, bytes, "%.*s", (int)strcspn(at, ","), at);
        if (!parse_item(to, item))
            return false;
    }
    return true;
}

static bool parse_op(void *to, const char *item)
{
    struct coll_options *options = to;
    for (int i = 0; i < COLL_OPS; i++)
        if (strcmp(coll_op_name(i), item) == 0)
            return options->ops[i] = true;
    return false;
}

static bool parse_way(void *to, const char *item)
{
    struct coll_options *options = to;
    options->ways_given = true;
    for (int i = 0; i < COLL_WAYS; i++)
        if (strcmp(coll_way_names[i], item) == 0)
            return options->ways[i] = true;
    return false;
}

static bool parse_size(void *to, const char *item)
{
    struct coll_options *options = to;
    uint64_t bytes;
    if (!config_parse_size(item, &bytes) || !bytes || bytes > (uint64_t)1 << 40 ||
        options->n_sizes == BENCH_SIZES_MAX)
        return false;
    options->sizes[options->n_sizes++] = (size_t)bytes;
    return true;
}

static int number(struct argp_state *state, const char *option, const char *text, long least,
                  long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        argp_error(state, "--%s %s: expected a whole number from %ld to %ld", option, text, least,
                   most);
    return (int)value;
}

static error_t parse_coll(int key, char *argument, struct argp_state *state)
{
    struct coll_options *options = state->input;
    char item[32];
    switch (key) {
    case 'n':
        options->pes = number(state, "pes", argument, 1, 100000);
        return 0;
    case 'i':
        options->calls = number(state, "iters", argument, 1, 100000);
        return 0;
    case 'j':
        options->form = COLL_JSON;
        return 0;
    case KEY_CSV:
        options->form = COLL_CSV;
        return 0;
    case KEY_OPS:
        if (!for_each_item(argument, item, sizeof item, parse_op, options)) {
            const char *now = tool_coll_renamed(item, strlen(item));
            if (now)
                argp_error(state, "--ops: unknown operation \"%s\"; it is now called %s", item,
                           now);
            argp_error(state,
                       "--ops: unknown operation \"%s\"; known are broadcast, allgather, "
                       "alltoall, gather, scatter, allreduce, reducescatter, reduce, collect, "
                       "alltoallv, alltoalls, alltoallv_skew",
                       item);
        }
        return 0;
    case KEY_WAYS:
        if (!for_each_item(argument, item, sizeof item, parse_way, options))
            argp_error(state,
                       "--ways: unknown algorithm \"%s\"; known are auto, packets, two, lines, "
                       "twolines, direct, scratch, engines, copies",
                       item);
        return 0;
    case KEY_SIZES:
        options->n_sizes = 0;
        if (!for_each_item(argument, item, sizeof item, parse_size, options))
            argp_error(state, "--sizes: \"%s\" is not a size such as 8, 4K or 1M (at most %d)",
                       item, BENCH_SIZES_MAX);
        return 0;
    case KEY_REPETITIONS:
        options->repetitions = number(state, "repetitions", argument, 1, COLL_BENCH_REPETITIONS);
        return 0;
    case KEY_SMS:
        options->sms = number(state, "sms", argument, 0, MOST_SMS);
        return 0;
    case KEY_TEAM:
        options->team = number(state, "team", argument, 1, 100000);
        return 0;
    case KEY_TARGET:
        options->target = strcmp(argument, "cuda") == 0 ? TARGET_CUDA : TARGET_SIMT;
        if (options->target == TARGET_SIMT && strcmp(argument, "simt") != 0)
            argp_error(state, "--target %s: expected cuda or simt", argument);
        return 0;
    case KEY_NO_VERIFY:
        options->verify = false;
        return 0;
    case KEY_TUNE:
        options->tune = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"; select operations with --ops", argument);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static struct coll_options coll_options_of(int argc, char **argv)
{
    static const struct argp argp = {
        .options = coll_option_list,
        .parser = parse_coll,
        .doc = "Measure collectives with every possible algorithm: replayed in a graph, enqueued "
               "on a stream, and called by the host. Each row also shows the lower bound of the "
               "link and the estimate of the library's model. Results are compared with a serial "
               "reference, bit for bit."};
    struct coll_options options = {
        .repetitions = 5, .verify = true, .sms = MOST_SMS, .target = TARGET_COUNT};
    bool some_op = false, some_way = false;
    cli_parse(&argp, argc, argv, 0, &options);
    for (int i = 0; i < COLL_OPS; i++)
        some_op |= options.ops[i];
    for (int i = 0; i < COLL_WAYS; i++)
        some_way |= options.ways[i];
    for (int i = 0; i < COLL_OPS; i++)
        options.ops[i] |= !some_op;
    for (int i = 0; i < COLL_WAYS; i++)
        options.ways[i] |= !some_way;
    return options;
}

/* Selects cuda when the kernels of this command would run on a GPU, or when a GPU driver is
 * present. */
static void choose_target(struct coll_options *options)
{
    static const size_t sizes[] = {8, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
    enum { TARGET_WORD_SIMT = 2 };
    bool simt = config_choice(CONFIG_TARGET) == TARGET_WORD_SIMT;
    if (options->target == TARGET_COUNT)
        options->target =
            !simt && (weft_target_get() == WEFT_CUDA || access("/dev/nvidiactl", R_OK) == 0)
                ? TARGET_CUDA
                : TARGET_SIMT;
    if (options->target == TARGET_SIMT) {
        setenv("WEFT_TARGET", "simt", 1);
        config_reset();
    }
    if (options->n_sizes)
        return;
    for (; options->n_sizes < (options->target == TARGET_CUDA ? 7 : 3); options->n_sizes++)
        options->sizes[options->n_sizes] = sizes[options->n_sizes];
}

/* ------------------------------------------------------------------------------------- the job */

/* Runs `weft run -n N weft bench coll ...` with the same options. */
static int start_coll_job(const struct coll_options *options, int argc, char **argv)
{
    static char self[PATH_MAX];
    char pes[16];
    char **args = calloc((size_t)argc + 6, sizeof *args);
    if (!cli_own_path(self) || !args) {
        perror("weft bench coll");
        free(args);
        return EXIT_FAULT;
    }
    snprintf(pes, sizeof pes, "%d", options->pes ? options->pes : 2);
    char *first[] = {"weft run", "-n", pes, self, "bench", "coll"};
    int n = 0;
    for (; n < 6; n++)
        args[n] = first[n];
    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];
    int code = cmd_run(n, args);
    free(args);
    return code;
}

static size_t largest_bytes(const struct coll_options *options, int n, bool src)
{
    size_t most = 4096;
    for (int i = 0; i < COLL_OPS; i++)
        for (int s = 0; s < options->n_sizes; s++) {
            size_t bytes = options->sizes[s];
            if (!options->ops[i] && !options->tune)
                continue;
            bytes = src ? coll_src_bytes(i, bytes, n) : coll_dst_bytes(i, bytes, n);
            most = bytes > most ? bytes : most;
        }
    if (options->tune && most < (size_t)(4 * n) << 20)
        most = (size_t)(4 * n) << 20;
    return (most + 4095) / 4096 * 4096;
}

static weft_status allocate_buffers(struct coll_bench *b)
{
    size_t src = largest_bytes(b->options, b->members, true),
           dst = largest_bytes(b->options, b->members, false);
    void *address = NULL;
    weft_status status = bench_alloc(&b->bench, src, 0, &address);
    b->src = address;
    if (!status)
        status = bench_alloc(&b->bench, dst, 0, &address);
    b->dst = address;
    if (!status)
        status = bench_alloc(&b->bench, 4 * (size_t)b->members * sizeof(uint64_t), 0, &address);
    b->counts = address;
    b->wanted = malloc(dst);
    b->seen = malloc(src > dst ? src : dst);
    if (!status && (!b->wanted || !b->seen))
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for %zu bytes to compare", dst);
    return status;
}

static void measure_memcpy(struct coll_bench *b)
{
    enum { BYTES = 1 << 20, ROUNDS = 7 };
    size_t room = largest_bytes(b->options, b->members, false), bytes = room < BYTES ? room : BYTES;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = bench_now_ns();
        memcpy(b->seen, b->wanted, bytes);
        uint64_t ns = bench_now_ns() - start;
        double gbps = (double)bytes / (double)(ns ? ns : 1);
        b->memcpy_gbps = gbps > b->memcpy_gbps ? gbps : b->memcpy_gbps;
    }
}

static weft_status join_team(struct coll_bench *b)
{
    b->member = b->bench.me;
    if (b->members == b->bench.n)
        return WEFT_OK;
    weft_team *part = NULL;
    weft_status status = weft_team_split_strided(b->all, 0, 1, b->members, &part);
    if (status)
        return status;
    b->member = part ? weft_team_my_pe(part) : -1;
    if (part)
        b->bench.world = part;
    return WEFT_OK;
}

static weft_status open_bench(struct coll_bench *b, struct bench_options *plain)
{
    *plain = (struct bench_options){
        .memory = b->cuda ? MEMORY_GPU : MEMORY_HOST, .scope = SCOPE_HOST, .target = TARGET_HOST};
    b->bench = (struct bench){.options = plain};
    weft_status status = weft_init(&b->bench.job, NULL);
    if (status)
        return status;
    b->bench.ctx = weft_default_ctx(b->bench.job);
    b->all = b->bench.world = weft_team_world(b->bench.job);
    b->bench.me = weft_my_pe(b->bench.job);
    b->bench.n = weft_n_pes(b->bench.job);
    b->bench.to = b->bench.n > 1;
    b->members = b->options->team ? b->options->team : b->bench.n;
    return WEFT_OK;
}

static weft_status prepare_coll_bench(struct coll_bench *b)
{
    weft_status status = bench_prepare(&b->bench);
    if (!status)
        status = allocate_buffers(b);
    if (!status)
        status = join_team(b);
    if (status || b->member < 0)
        return status;
    b->kernels = b->cuda && tool_coll_by_kernels(b->bench.world);
    if (!b->cuda)
        measure_memcpy(b);
    status = timed_stream_open(b->bench.job, &b->stream);
    return status ? status : tool_coll_force(b->bench.world, COLL_ALGO_AUTO, b->options->sms);
}

/* -------------------------------------------------------------------------------------- points */

/* Computes the bandwidth of a row, and its lower bound on the stand-in. */
static void compute_row_rates(struct coll_bench *b, struct coll_row *row)
{
    double us = row->us[row->us[COLL_GRAPH] >= 0 ? COLL_GRAPH : COLL_STREAM];
    row->busbw = coll_busbw(row->op, row->bytes, b->members, us);
    row->algbw = coll_algbw(row->op, row->bytes, b->members, us);
    if (!b->cuda) {
        double lines = b->bench.floors.two_lines_ns;
        double moved = coll_busbw(row->op, row->bytes, b->members, 1) * 1e3;
        row->floor_us = (lines > 0 ? 2 * lines / 1e3 : 0) + moved / b->memcpy_gbps / 1e3;
    }
}

static bool model_row(struct coll_bench *b, struct coll_row *row)
{
    row->taken = COLL_ALGO_AUTO;
    row->model_us = row->floor_us = -1;
    if (!b->kernels)
        return row->way == COLL_ALGO_AUTO;
    int sms = b->options->sms;
    struct tool_coll_model m =
        row->op == COLL_OP_STRIDED
            ? tool_coll_model_strided(b->bench.world, row->way, sms, row->bytes)
            : tool_coll_model(b->bench.world, coll_op_what(row->op), row->way, sms, row->bytes);
    if (b->members > 1) { /* with one member the data does not cross a link */
        row->taken = m.taken;
        row->model_us = m.us;
        row->floor_us = m.floor_us;
        row->blocks = m.blocks;
    }
    return row->way == COLL_ALGO_AUTO || row->way == COLL_ALGO_COPIES || m.us >= 0;
}

static void report_not_possible(const struct coll_bench *b, const struct coll_row *row)
{
    if (!b->options->ways_given || b->bench.me != 0)
        return;
    fprintf(stderr, "weft bench coll: %s of %zu bytes cannot use %s%s\n", coll_op_name(row->op),
            row->bytes, coll_way_names[row->way],
            b->kernels ? "" : ": kernels cannot run here, only auto is measured");
}

static weft_status run_size(struct coll_bench *b, int op, size_t bytes)
{
    weft_status status = coll_prepare(b, op, bytes);
    for (int way = 0; way < COLL_WAYS && !status; way++) {
        struct coll_row row = {.op = op, .way = (enum coll_algorithm)way, .bytes = bytes};
        if (!b->options->ways[way])
            continue;
        if (!model_row(b, &row)) {
            report_not_possible(b, &row);
            continue;
        }
        status = tool_coll_force(b->bench.world, row.way, b->options->sms);
        if (!status)
            status = coll_time(b, &row);
        compute_row_rates(b, &row);
        if (!status && b->bench.me == 0)
            coll_print_row(b, &row);
    }
    return status;
}

static weft_status run_rows(struct coll_bench *b)
{
    weft_status status = WEFT_OK;
    if (b->bench.me == 0)
        coll_print_head(b);
    for (int i = 0; i < COLL_OPS; i++)
        for (int s = 0; s < b->options->n_sizes && b->options->ops[i] && !status; s++)
            status = run_size(b, i, b->options->sizes[s]);
    return status;
}

/* Whether --tune can run. The result is the same at every PE; PE 0 prints the reason. */
static bool can_tune(const struct coll_bench *b)
{
    const char *why = NULL;
    if (b->members == 1)
        why = "there is one PE; set --pes";
    else if (!b->kernels)
        why = "kernels cannot run: the target is simt, WEFT_COLL is copies, or the GPUs have no "
              "peer access";
    else if (tool_coll_gpus(b->bench.world) < b->members)
        why = "PEs share a GPU, on which their kernels take turns; set --pes to the number of "
              "GPUs";
    if (why && b->bench.me == 0)
        fprintf(stderr,
                "weft bench coll: --tune needs kernels between the GPUs of several PEs: %s\n", why);
    return !why;
}

static weft_status run_member(struct coll_bench *b)
{
    if (!b->options->tune)
        return run_rows(b);
    b->refused = !can_tune(b);
    return b->refused ? WEFT_OK : coll_tune(b);
}

/* Ends the job, since the other PEs would wait for the PE that failed. */
static int coll_give_up(const struct coll_bench *b)
{
    fprintf(stderr, "weft bench coll: PE %d: %s\n", b->bench.me, weft_last_error());
    if (!b->bench.job)
        return EXIT_FAULT;
    weft_abort(b->bench.job, EXIT_FAULT);
}

static bool fits_coll_job(const struct coll_bench *b)
{
    bool team = b->members <= b->bench.n, pes = !b->options->pes || b->options->pes == b->bench.n;
    if (b->bench.me == 0 && !team)
        fprintf(stderr, "weft bench coll: --team %d, but the job has %d PEs\n", b->members,
                b->bench.n);
    if (b->bench.me == 0 && !pes)
        fprintf(stderr,
                "weft bench coll: --pes %d, but this job was started with %d PEs; omit --pes\n",
                b->options->pes, b->bench.n);
    return team && pes;
}

/* Runs the whole job and returns the exit status. */
static int run_whole_job(struct coll_bench *b)
{
    if (prepare_coll_bench(b) || (b->member >= 0 && run_member(b)))
        return coll_give_up(b);
    b->bench.world = b->all;
    if (weft_barrier(b->all))
        return coll_give_up(b);
    if (b->stream)
        timed_stream_close(b->stream);
    if (b->wrong && b->bench.me == 0)
        fprintf(stderr, "weft bench coll: received data is wrong; the rows show which\n");
    if (weft_finalize(b->bench.job))
        return coll_give_up(b);
    return b->wrong || b->refused ? EXIT_FAULT : EXIT_GOOD;
}

static int run_coll_job(const struct coll_options *options)
{
    struct bench_options plain;
    struct coll_bench b = {.options = options, .cuda = options->target == TARGET_CUDA};
    if (open_bench(&b, &plain))
        return coll_give_up(&b);
    if (!fits_coll_job(&b)) {
        weft_finalize(b.bench.job);
        return EXIT_USAGE;
    }
    int code = run_whole_job(&b);
    free(b.wanted);
    free(b.seen);
    return code;
}

int bench_coll(int argc, char **argv)
{
    struct coll_options options = coll_options_of(argc, argv);
    if (!bench_in_job())
        return start_coll_job(&options, argc, argv);
    choose_target(&options);
    return run_coll_job(&options);
}

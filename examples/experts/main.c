/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch and combine of a mixture of experts, forward and backward, over all PEs of a job.
 *
 *     weft run -n 4 ./experts     # 256 tokens of each PE, 4 of 32 experts
 *     weft run -n 4 ./experts --tokens 4096 --hidden 7168 --experts 256 --top 8
 *     weft run -n 3 ./experts --routing one --rows 100    # more rows than allowed
 *
 * Every run compares its result with a serial loop, bit for bit, and prints the bandwidth over the
 * links. */
#define EXAMPLE "experts"
#include "../arguments.h"
#include "../check.h"
#include "graph.h"
#include "reference.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include <weft_device.h>

struct options {
    shape s;
    uint64_t steps;
    bool check;
};

struct run {
    weft_job *job;
    struct options *options;
    struct layer *layer;
    weft_stream stream;
    double *figures; /* symmetric */
    double *phase_us[PHASES];
    bool good;
};

static bool is_printing_pe(const struct run *r)
{
    return weft_my_pe(r->job) == 0;
}

/* Waits for the stream. Errors of stream operations are returned by the wait or by the job's next
 * call. */
static void synchronize_stream(struct run *r)
{
    weft_status status = weft_stream_synchronize(r->stream);
    if (!status)
        status = weft_barrier(weft_team_world(r->job));
    CHECK(r->job, status);
    CHECK(r->job, layer_check(r->layer));
}

static double over_all(struct run *r, weft_op op, double value)
{
    r->figures[0] = value;
    CHECK(r->job, weft_allreduce(weft_team_world(r->job), &r->figures[1], &r->figures[0], 1,
                                 WEFT_DOUBLE, op));
    return r->figures[1];
}

/* ------------------------------------------------------------------------------- a run */

static void print_setup(const struct run *r)
{
    static const char *const ways[] = {"uniformly", "to the first ones far more often",
                                       "to the same ones"};
    const shape *s = &r->options->s;
    printf("%u PE%s with %u tokens of %u bf16 each, which go %s, %u of %u experts for each token\n",
           s->pes, s->pes > 1 ? "s" : "", s->tokens, s->hidden, ways[s->routing], s->top,
           s->experts);
    printf("kernels on %s; experts of a PE: %u to %u\n", weft_target_name(weft_target_get()),
           s->experts / s->pes, (s->experts + s->pes - 1) / s->pes);
}

static void steps(struct run *r)
{
    uint64_t n = r->options->steps;
    for (uint64_t step = 0; step < n; step++) {
        CHECK(r->job, layer_dispatch(r->layer, true));
        CHECK(r->job, layer_compute(r->layer));
        CHECK(r->job, layer_combine(r->layer, true));
        CHECK(r->job, layer_backward(r->layer, true));
        synchronize_stream(r);
        for (int i = 0; i < PHASES; i++) {
            uint64_t ns;
            CHECK(r->job, layer_phase_ns(r->layer, (enum phase)i, &ns));
            r->phase_us[i][step] = 1e-3 * (double)ns;
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report_experts(struct run *r)
{
    const shape *s = &r->options->s;
    uint32_t *tokens = calloc(s->experts, sizeof *tokens), own, idle = 0, most = 0;
    if (!tokens) {
        fprintf(stderr, "experts: no memory for the counts of %u experts\n", s->experts);
        weft_abort(r->job, 1);
    }
    CHECK(r->job, layer_tokens_of_experts(r->layer, tokens, &own));
    for (uint32_t e = 0; e < own; e++) {
        idle += !tokens[e];
        most = tokens[e] > most ? tokens[e] : most;
    }
    free(tokens);
    double none = over_all(r, WEFT_SUM, idle), busiest = over_all(r, WEFT_MAX, most);
    if (is_printing_pe(r))
        printf("%.0f experts have no token, the busiest expert has %.0f\n", none, busiest);
}

/* Prints the slowest PE's median, and the bytes of the busiest PE. */
static void report(struct run *r)
{
    static const char *const names[PHASES] = {"dispatch", "combine", "dispatch, backward",
                                              "combine, backward"};
    struct layer_traffic t;
    const shape *s = &r->options->s;
    CHECK(r->job, layer_traffic(r->layer, &t));
    double all = (double)s->pes * s->tokens;
    double rows = over_all(r, WEFT_SUM, t.rows) / all;
    double far = over_all(r, WEFT_SUM, t.remote_rows) / all;
    double out = over_all(r, WEFT_MAX, t.bytes_out), back = over_all(r, WEFT_MAX, t.bytes_back);
    if (is_printing_pe(r))
        printf("a token goes to %.2f PEs, %.2f of them others; %.3f MB leave the busiest PE, and "
               "%.3f MB of results\n",
               rows, far, 1e-6 * out, 1e-6 * back);
    for (int i = 0; i < PHASES; i++) {
        qsort(r->phase_us[i], r->options->steps, sizeof(double), by_value);
        double us = over_all(r, WEFT_MAX, r->phase_us[i][r->options->steps / 2]);
        double bytes = i == DISPATCH || i == BACK_DISPATCH ? out : back;
        if (is_printing_pe(r))
            printf("%-19s %10.1f us, %.2f GB/s over the links\n", names[i], us, bytes / us / 1e3);
    }
}

/* Checks the results of all PEs; collective. */
static void compare(struct run *r, bool backward, const char *how)
{
    if (!r->options->check)
        return;
    bool mine = reference_agrees(r->job, &r->options->s, r->layer, backward);
    bool all = over_all(r, WEFT_MIN, mine) != 0;
    r->good &= all;
    if (is_printing_pe(r) && all)
        printf("check: %s identical in every bit to a serial loop\n", how);
}

static void forget_results(struct run *r)
{
    const shape *s = &r->options->s;
    size_t bytes = (size_t)s->tokens * s->hidden * sizeof(uint16_t);
    void *zeros = calloc(1, bytes);
    if (!zeros) {
        fprintf(stderr, "experts: no memory for %zu bytes\n", bytes);
        weft_abort(r->job, 1);
    }
    weft_ctx *ctx = weft_default_ctx(r->job);
    CHECK(r->job, weft_put(ctx, layer_buffers(r->layer)->y, zeros, bytes, (int)s->me));
    CHECK(r->job, weft_quiet(ctx));
    free(zeros);
}

static void graph_failed(struct run *r, const char *what)
{
    fprintf(stderr, "experts: PE %d: the driver failed to %s a graph\n", weft_my_pe(r->job), what);
    weft_abort(r->job, 1);
}

enum replayed { REPLAY_DISPATCH, REPLAY_BOTH, REPLAY_ALL, REPLAYED };

/* Returns microseconds per replay: the slowest PE's mean. All replays are launched at once, so the
 * host does not limit them. */
static double replay(struct run *r, struct graph *graph, enum replayed what)
{
    enum { REPLAYS = 20 };
    weft_event begun, ended;
    uint64_t ns;
    CHECK(r->job, weft_event_create(&begun));
    CHECK(r->job, weft_event_create(&ended));
    if (!graph_capture(graph, r->stream))
        graph_failed(r, "capture");
    CHECK(r->job, layer_dispatch(r->layer, false));
    if (what == REPLAY_ALL)
        CHECK(r->job, layer_compute(r->layer));
    if (what != REPLAY_DISPATCH)
        CHECK(r->job, layer_combine(r->layer, false));
    if (!graph_captured(graph, r->stream))
        graph_failed(r, "make");
    for (int i = 0; i <= REPLAYS; i++) { /* the first replay is not timed */
        if (i == 1)
            CHECK(r->job, weft_event_record(begun, r->stream));
        if (!graph_replay(graph, r->stream))
            graph_failed(r, "launch");
    }
    CHECK(r->job, weft_event_record(ended, r->stream));
    synchronize_stream(r);
    CHECK(r->job, weft_event_elapsed(begun, ended, &ns));
    CHECK(r->job, weft_event_destroy(begun));
    CHECK(r->job, weft_event_destroy(ended));
    return over_all(r, WEFT_MAX, 1e-3 * (double)ns / REPLAYS);
}

/* Measures graphs of the forward pass, whose dispatches and combines are one call (0) or two (1).
 * False: there are no graphs. */
static bool replay_round(struct run *r, double us[2][REPLAYED], bool last)
{
    for (int split = 0; split < 2; split++) {
        layer_split_calls(r->layer, split);
        forget_results(r);
        synchronize_stream(r);
        for (int i = 0; i < REPLAYED; i++) {
            struct graph *graph = graph_open();
            if (!graph)
                return false;
            us[split][i] = replay(r, graph, (enum replayed)i);
            graph_close(graph);
        }
        if (last)
            compare(r, false, "results of the graph are");
    }
    return true;
}

/* Replays the forward pass as a graph: each replay computes the counts again, and no PE waits for a
 * host. Prints medians of rounds that measure both forms in turn. */
static void replay_all(struct run *r)
{
    enum { ROUNDS = 5 };
    double us[ROUNDS][2][REPLAYED];
    for (int round = 0; round < ROUNDS; round++)
        if (!replay_round(r, us[round], round == ROUNDS - 1)) {
            if (is_printing_pe(r))
                printf("not replayed from a graph: not supported on %s\n",
                       weft_target_name(weft_target_get()));
            return;
        }
    for (int split = 0; split < 2 && is_printing_pe(r); split++) {
        double of[REPLAYED][ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            const double *found = us[round][split];
            of[REPLAY_DISPATCH][round] = found[REPLAY_DISPATCH];
            of[REPLAY_BOTH][round] = found[REPLAY_BOTH] - found[REPLAY_DISPATCH];
            of[REPLAY_ALL][round] = found[REPLAY_ALL];
        }
        for (int i = 0; i < REPLAYED; i++)
            qsort(of[i], ROUNDS, sizeof(double), by_value);
        printf("replayed from a graph, %s: dispatch %.1f us, combine %.1f us, both with the "
               "experts %.1f us\n",
               split ? "two calls" : "one call ", of[REPLAY_DISPATCH][ROUNDS / 2],
               of[REPLAY_BOTH][ROUNDS / 2], of[REPLAY_ALL][ROUNDS / 2]);
    }
    layer_split_calls(r->layer, false);
}

static void run(struct run *r)
{
    if (is_printing_pe(r))
        print_setup(r);
    CHECK(r->job, layer_route(r->layer));
    synchronize_stream(r);
    steps(r);
    report_experts(r);
    report(r);
    compare(r, true, "results, and gradients of tokens, weights and experts, are");
    replay_all(r);
}

/* Returns the exit status. */
static int prepare_and_run(struct run *r)
{
    struct options *o = r->options;
    void *memory;
    CHECK(r->job, weft_alloc(r->job, WEFT_HOST, 2 * sizeof(double), 0, 0, &memory));
    r->figures = memory;
    double *all = calloc(PHASES * o->steps, sizeof *all);
    if (!all) {
        fprintf(stderr, "experts: no memory for the times of %" PRIu64 " steps\n", o->steps);
        weft_abort(r->job, 1);
    }
    for (int i = 0; i < PHASES; i++)
        r->phase_us[i] = all + (size_t)i * o->steps;
    CHECK(r->job, weft_stream_create(&r->stream));
    CHECK(r->job, layer_create(r->job, &o->s, r->stream, &r->layer));
    run(r);
    CHECK(r->job, layer_destroy(r->layer));
    CHECK(r->job, weft_stream_destroy(r->stream));
    CHECK(r->job, weft_free(r->job, memory));
    free(all);
    return r->good ? 0 : 1;
}

/* ------------------------------------------------------------------------------- options */

static int usage(FILE *to)
{
    fputs("usage: experts [option ...]\n"
          "  --tokens N     of each PE (default 256)\n"
          "  --hidden N     bf16 numbers of a token, a multiple of 8 (default 256)\n"
          "  --experts N    of all PEs (default 32)\n"
          "  --top N        experts that a token goes to (default 4)\n"
          "  --rows N       tokens that a PE accepts (default: all)\n"
          "  --routing HOW  uniform, skewed or one: all tokens to the same experts (default "
          "uniform)\n"
          "  --steps N      forward and backward passes (default 5)\n"
          "  --seed N       of tokens, experts and routing (default 1)\n"
          "  --no-check     do not compare with a serial loop\n",
          to);
    return to == stdout ? 0 : 2;
}

static bool parse_routing(const char *text, uint32_t *routing)
{
    static const char *const words[] = {"uniform", "skewed", "one"};
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(words[i], text) == 0) {
            *routing = i;
            return true;
        }
    return bad_value("routing", text, "uniform, skewed or one");
}

static bool parse_one(int option, const char *text, struct options *o)
{
    shape *s = &o->s;
    switch (option) {
    case 't':
        return parse_small("tokens", text, 1u << 20, &s->tokens);
    case 'H':
        return parse_small("hidden", text, 1u << 20, &s->hidden);
    case 'e':
        return parse_small("experts", text, 1u << 16, &s->experts);
    case 'k':
        return parse_small("top", text, 64, &s->top);
    case 'R':
        return parse_small("rows", text, 1u << 30, &s->rows);
    case 'r':
        return parse_routing(text, &s->routing);
    case 's':
        return parse_number("steps", text, 1u << 30, &o->steps);
    case 'S':
        return parse_number("seed", text, UINT32_MAX, &s->seed);
    case 'n':
        o->check = false;
        return true;
    }
    return false;
}

/* Checks that the options fit together. */
static bool check_options(struct options *o)
{
    shape *s = &o->s;
    char value[16], wanted[80];
    if (s->hidden % 8) {
        snprintf(value, sizeof value, "%u", s->hidden);
        return bad_value("hidden", value, "a multiple of 8");
    }
    if (s->top > s->experts) {
        snprintf(value, sizeof value, "%u", s->top);
        snprintf(wanted, sizeof wanted, "at most --experts %u", s->experts);
        return bad_value("top", value, wanted);
    }
    return true;
}

/* Returns -1 to continue, else the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"tokens", required_argument, NULL, 't'},
                                          {"hidden", required_argument, NULL, 'H'},
                                          {"experts", required_argument, NULL, 'e'},
                                          {"top", required_argument, NULL, 'k'},
                                          {"rows", required_argument, NULL, 'R'},
                                          {"routing", required_argument, NULL, 'r'},
                                          {"steps", required_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'S'},
                                          {"no-check", no_argument, NULL, 'n'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == 'h')
            return usage(stdout);
        if (option == '?')
            return usage(stderr);
        if (!parse_one(option, optarg, options))
            return 2;
    }
    if (!fits_operands(argc, argv, optind, NULL))
        return 2;
    return check_options(options) ? -1 : 2;
}

int main(int argc, char **argv)
{
    struct options options = {
        .s = {.tokens = 256, .hidden = 256, .experts = 32, .top = 4, .seed = 1},
        .steps = 5,
        .check = true};
    int status = parse(argc, argv, &options);
    if (status >= 0)
        return status;
    setlinebuf(stdout);
    struct run r = {.options = &options, .good = true};
    CHECK(r.job, weft_init(&r.job, NULL));
    options.s.pes = (uint32_t)weft_n_pes(r.job);
    options.s.me = (uint32_t)weft_my_pe(r.job);
    status = prepare_and_run(&r);
    CHECK(r.job, weft_finalize(r.job));
    return status;
}

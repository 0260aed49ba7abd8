/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `weft bench scale`. See scale.h. */
#include "bench/scale/scale.h"
#include "commands.h"
#include "parse.h"

#include <argp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNTS_MOST = 32,
    KEY_PES = 256,
    KEY_PER_HOST,
    KEY_FAN,
    KEY_BYTES,
    KEY_LATENCY,
    KEY_GBIT,
    KEY_CPUS,
    KEY_ELEMENTS,
    KEY_MEASURE,
    KEY_GPUS,
    KEY_JSON
};

struct scale_options {
    int counts[COUNTS_MOST], n;
    struct scale_job job;
    bool measure, json, cpus_given;
};

static int parse_scale_number(struct argp_state *state, const char *option, const char *text,
                              int least, int most)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < least || number > most)
        argp_error(state, "--%s=%s: expected a number from %d to %d", option, text, least, most);
    return (int)number;
}

static error_t parse_counts(struct argp_state *state, char *text, struct scale_options *options)
{
    char *save = NULL;
    options->n = 0;
    for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        if (options->n == COUNTS_MOST)
            argp_error(state, "--pes: more than %d numbers", COUNTS_MOST);
        options->counts[options->n++] =
            parse_scale_number(state, "pes", word, 1, BOOT_MOST_LAUNCHED);
    }
    if (!options->n)
        argp_error(state, "--pes: expected numbers of PEs such as 8,1000,10000");
    return 0;
}

static error_t parse_scale(int key, char *text, struct argp_state *state)
{
    struct scale_options *options = state->input;
    struct scale_job *job = &options->job;
    switch (key) {
    case KEY_PES:
        return parse_counts(state, text, options);
    case KEY_PER_HOST:
        job->per_host = parse_scale_number(state, "per-host", text, 1, BOOT_MOST_LAUNCHED);
        return 0;
    case KEY_FAN:
        job->fan_out = parse_scale_number(state, "fan-out", text, 1, BOOT_MOST_LAUNCHED);
        return 0;
    case KEY_BYTES:
        job->bytes = (size_t)parse_scale_number(state, "bytes", text, 0, 65536);
        return 0;
    case KEY_LATENCY:
        job->costs.latency_ns = 1000.0 * parse_scale_number(state, "latency", text, 0, 1000000);
        return 0;
    case KEY_GBIT:
        job->costs.byte_ns = 8.0 / parse_scale_number(state, "gbit", text, 1, 10000);
        return 0;
    case KEY_CPUS:
        job->costs.cpus = parse_scale_number(state, "cpus", text, 0, 4096);
        options->cpus_given = true;
        return 0;
    case KEY_ELEMENTS:
        job->elements = (size_t)parse_scale_number(state, "elements", text, 1, 1 << 20);
        return 0;
    case KEY_GPUS:
        job->gpus = true;
        return 0;
    case KEY_MEASURE:
        options->measure = true;
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: weft bench scale has options only", text);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static const struct argp_option scale_options[] = {
    {"pes", KEY_PES, "N[,N]...", 0, "numbers of PEs (8,64,512,1000,10000)", 0},
    {"per-host", KEY_PER_HOST, "N", 0, "PEs of each host (8)", 0},
    {"fan-out", KEY_FAN, "N", 0, "hosts that one process starts, as of weft run (32)", 0},
    {"bytes", KEY_BYTES, "N", 0, "bytes of each PE in the exchange (64)", 0},
    {"latency", KEY_LATENCY, "US", 0, "time of a frame between hosts in us (20; with --measure 0)",
     0},
    {"gbit", KEY_GBIT, "N", 0, "bandwidth of a host's link in Gbit/s (25)", 0},
    {"cpus", KEY_CPUS, "N", 0,
     "CPUs that all processes share; 0: one for each process (0; with --measure those here)", 0},
    {"elements", KEY_ELEMENTS, "N", 0,
     "elements of 4 bytes of each PE in broadcast and allreduce (1024)", 0},
    {"gpus", KEY_GPUS, NULL, 0,
     "collectives on GPU memory: nodes by the rates of weft explain coll, a NIC for each GPU", 0},
    {"measure", KEY_MEASURE, NULL, 0, "also start the same job on this machine, in real processes",
     0},
    {"json", KEY_JSON, NULL, 0, "a JSON object per number of PEs", 0},
    {0},
};

static const struct argp scale_argp = {
    .options = scale_options,
    .parser = parse_scale,
    .doc = "Start, exchanges, death and end of a job of many PEs, in one process and virtual time: "
           "messages, rounds, memory and times.\v"
           "Launcher, hub and agents are those of weft run; wires, CPUs and time are simulated."};

static int count_own_cpus(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

static bool run_count(struct scale_options *options, int pes)
{
    struct scale_job *job = &options->job;
    struct scale_outcome outcome;
    struct scale_measured measured;
    job->pes = pes;
    if (!scale_simulate(job, &outcome) && outcome.right) {
        fprintf(stderr, "weft bench scale: no memory for %d PEs\n", pes);
        return false;
    }
    if (!scale_run_collectives(job, &outcome))
        return false;
    if (options->measure && !scale_measure(job, &measured))
        return false;
    if (options->json)
        scale_print_json(job, &outcome, options->measure ? &measured : NULL);
    else
        scale_print_row(job, &outcome, options->measure ? &measured : NULL);
    return outcome.right;
}

int bench_scale(int argc, char **argv)
{
    struct scale_options options = {
        .counts = {8, 64, 512, 1000, 10000},
        .n = 5,
        .job = {.per_host = 8,
                .fan_out = RUN_FAN_OUT,
                .bytes = 64,
                .elements = 1024,
                .costs = {.latency_ns = -1, .byte_ns = 8.0 / 25, .flag_ns = 200}}};
    if (argc > 2 && strcmp(argv[1], "--as-shell") == 0)
        return scale_be_shell(argc - 2, argv + 2);
    if (argc > 2 && strcmp(argv[1], "--as-child") == 0)
        return scale_be_child(argc - 2, argv + 2);
    if (argc > 2 && strcmp(argv[1], "--as-pe") == 0)
        return scale_be_pe(argc - 2, argv + 2);
    if (cli_parse(&scale_argp, argc, argv, 0, &options))
        return EXIT_USAGE;
    if (options.job.costs.latency_ns < 0)
        options.job.costs.latency_ns = options.measure ? 0 : 20000;
    if (options.measure && !options.cpus_given)
        options.job.costs.cpus = count_own_cpus();
    const struct scale_processes one_host = {.hosts = 1, .per_host = options.job.per_host};
    if (!scale_costs_measure(&one_host, &options.job.costs))
        return EXIT_FAULT;
    if (!options.json)
        scale_print_head(&options.job);
    bool good = true;
    run_be_quiet(true); /* the launcher would print the death */
    for (int i = 0; i < options.n && good; i++)
        good = run_count(&options, options.counts[i]);
    return good ? EXIT_GOOD : EXIT_FAULT;
}

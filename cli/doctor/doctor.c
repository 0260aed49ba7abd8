/* SPDX-License-Identifier: Apache-2.0 */
/* `weft doctor`: prints the diagnosis of the whole machine, and its comparison with an
 * expectation. The diagnosis itself is made in src/machine. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "columns.h"
#include "commands.h"
#include "doctor/doctor.h"
#include "machine/describe/growth.h"
#include "parse.h"
#include "probe.h"
#include "tool/tool.h"

enum {
    KEY_AGAINST = 256,
    KEY_EXPECT,
    KEY_PROMETHEUS,
    KEY_HOSTS,
    KEY_HOSTFILE,
    KEY_ALLOCATION,
    KEY_JOB,
    KEY_RSH,
    KEY_WEFT,
    KEY_LIMIT,
    KEY_INTERVAL,
    KEY_LOG,
    KEY_REPORT
};

static const uint64_t limit_usual_ns = UINT64_C(120000000000);

/* The parsers of host lists have already printed what is wrong. */
static error_t require_doctor_hosts(bool good)
{
    if (!good)
        exit(EXIT_USAGE);
    return 0;
}

/* Parses the options that select and reach hosts. */
static error_t parse_reach(int key, char *argument, struct argp_state *state,
                           struct doctor_options *a)
{
    switch (key) {
    case KEY_HOSTS:
        return require_doctor_hosts(run_parse_hosts(&a->reach, argument));
    case KEY_HOSTFILE:
        return require_doctor_hosts(run_parse_hostfile(&a->reach, argument));
    case KEY_ALLOCATION:
        return require_doctor_hosts(doctor_add_allocation(&a->reach));
    case KEY_JOB:
        a->job = true;
        return 0;
    case KEY_RSH:
        a->reach.rsh = argument;
        return 0;
    case KEY_WEFT:
        a->reach.weft = argument;
        return 0;
    case KEY_LIMIT:
        if (!config_parse_duration(argument, &a->limit_ns) || !a->limit_ns)
            argp_error(state, "--limit %s: expected a time such as 30s, 500ms or 5m", argument);
        return 0;
    case KEY_INTERVAL:
        if (!config_parse_duration(argument, &a->interval_ns) || !a->interval_ns)
            argp_error(state, "--interval %s: expected a time such as 30s, 500ms or 5m", argument);
        a->interval = argument;
        return 0;
    case KEY_REPORT:
        a->report = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t check_doctor_options(struct argp_state *state, const struct doctor_options *a)
{
    bool several = a->reach.host_count > 0 || a->job;
    if (several && (a->machine.file || a->machine.what_if || a->expect))
        argp_error(state, "--machine, --what-if and --expect do not go with --hosts, "
                          "--allocation and --job");
    if (a->interval_ns && (a->machine.file || a->machine.what_if))
        argp_error(state,
                   "--interval reads counters of this machine; it does not go with --machine and "
                   "--what-if");
    if (a->log && (several || a->machine.file || a->machine.what_if || a->machine.measure ||
                   a->expect || a->against || a->prometheus || a->interval_ns))
        argp_error(state, "--log reads a log and not a machine; with it goes --json alone");
    if (a->prometheus && (a->machine.json || a->expect))
        argp_error(state, "--prometheus does not go with --json and --expect");
    return 0;
}

static error_t parse_doctor(int key, char *argument, struct argp_state *state)
{
    struct doctor_options *a = state->input;
    switch (key) {
    case 'q':
        a->quick = 1;
        return 0;
    case 'a':
        a->all = 1;
        return 0;
    case KEY_AGAINST:
        a->against = argument;
        return 0;
    case KEY_EXPECT:
        a->expect = true;
        return 0;
    case KEY_LOG:
        a->log = argument;
        return 0;
    case KEY_PROMETHEUS:
        a->prometheus = argument ? argument : "-";
        return 0;
    case ARGP_KEY_END:
        return check_doctor_options(state, a);
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->machine;
        return 0;
    case ARGP_KEY_ARG:
        machine_options_refuse(state, argument);
        return 0;
    default:
        return parse_reach(key, argument, state, a);
    }
}

static const struct argp_option doctor_option_list[] = {
    {"quick", 'q', NULL, 0, "measure nothing", 0},
    {"all", 'a', NULL, 0, "print all places of each finding, not only the first three", 0},
    {"against", KEY_AGAINST, "FILE", 0,
     "compare with a machine of `weft topo --record`, or with the output of --expect", 0},
    {"expect", KEY_EXPECT, NULL, 0,
     "print the facts of this machine as an expectation for "
     "--against",
     0},
    {"log", KEY_LOG, "FILE", 0,
     "read a log of NCCL (NCCL_DEBUG=INFO; \"-\": standard input) and print its slow paths", 0},
    {"prometheus", KEY_PROMETHEUS, "FILE", OPTION_ARG_OPTIONAL,
     "write metrics for the textfile collector of node_exporter; FILE is replaced atomically", 0},
    {"hosts", KEY_HOSTS, "A,B,N[01-16]...", 0,
     "examine these hosts over ssh and print which ones deviate; may be repeated", 0},
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "examine the hosts in FILE, one per line", 0},
    {"allocation", KEY_ALLOCATION, NULL, 0, "examine the nodes of this Slurm allocation, over srun",
     0},
    {"job", KEY_JOB, NULL, 0,
     "examine the nodes of the job of this PE; the default under weft run, srun and mpirun", 0},
    {"rsh", KEY_RSH, "COMMAND", 0,
     "command to use in place of ssh: it gets the host's name and a command. Also WEFT_RSH", 0},
    {"weft", KEY_WEFT, "PATH", 0, "path of weft on the other hosts (the same as here)", 0},
    {"limit", KEY_LIMIT, "T", 0, "time limit for each host (120s)", 0},
    {"interval", KEY_INTERVAL, "T", 0,
     "read the error counters again after this time and report which ones grow", 0},
    {"report", KEY_REPORT, NULL, OPTION_HIDDEN, "for `weft doctor --hosts` elsewhere", 0},
    {0},
};

/* --- text ------------------------------------------------------------------------------------- */

static const char *status_of(const struct doctor_check *check)
{
    static const char *const words[][2] = {
        {"good", "ok"},
        {"absent", "none"},
        {"fault", "FAULT"},
        {"unknown", "not verified"},
        {"not-known", "not known"},
        {"not-offered", "not offered"},
        {"in-part", "in part"},
    };
    const char *state = doctor_state(check);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(state, words[i][0]) == 0)
            return words[i][1];
    return state;
}

static enum colour colour_of_status(const struct doctor_check *check)
{
    const char *state = doctor_state(check);
    return strcmp(state, "good") == 0    ? COLOUR_OK
           : strcmp(state, "fault") == 0 ? COLOUR_FAULT
           : check->unknown              ? COLOUR_WARN
                                         : COLOUR_NONE;
}

static void print_status(const struct doctor_check *check)
{
    enum colour colour = colour_of_status(check);
    printf("%s%-12s%s  %s", colour_begin(colour), status_of(check), colour_end(colour),
           check->title);
}

static const char *const weight_words[] = {"off", "degraded", "unknown", "note"};

/* The two are printed together. */
static bool have_one_remedy(const struct finding *a, const struct finding *b)
{
    return a->reason == b->reason && a->weight == b->weight && a->advice == b->advice;
}

/* Prints the findings of one reason and remedy once, with the first three places. */
static void print_check(const struct diagnosis *d, const struct doctor_check *check, int first,
                        int all)
{
    const struct finding *f = &d->findings.list[first];
    const struct reason_text *r = &reason_table[f->reason];
    enum colour colour = colour_of_weight(f->weight);
    int shown = 0, more = 0;
    columns_print(stdout, 11, "  %s%-8s%s %s  %s", colour_begin(colour), weight_words[f->weight],
                  colour_end(colour), r->code, r->cause);
    for (int i = first; i < check->first + check->n; i++) {
        const struct finding *other = &d->findings.list[i];
        if (!have_one_remedy(f, other))
            continue;
        if (shown == 3 && !all) {
            more++;
            continue;
        }
        columns_print(stdout, 13, "           %s", other->evidence);
        shown++;
    }
    if (more)
        printf("           and %d more (--all)\n", more);
    bool unknown = f->weight == WEIGHT_UNKNOWN;
    columns_print(stdout, 13, "           %s: %s%s%s%s%s%s", unknown ? "to see" : "remedy",
                  f->remedy, unknown ? "" : " [", unknown ? "" : f->who, unknown ? "" : "; ",
                  unknown ? "" : f->lasts, unknown ? "" : "]");
}

static bool is_first_of_check(const struct diagnosis *d, const struct doctor_check *check, int at)
{
    for (int i = check->first; i < at; i++)
        if (have_one_remedy(&d->findings.list[i], &d->findings.list[at]))
            return false;
    return true;
}

/* A check of storage that found notes alone: they concern programs that read files. */
static bool is_folded(const struct doctor_check *check)
{
    return strcmp(check->name, "storage") == 0 && check->n && !check->faults && !check->unknown;
}

static void print_diagnosis(const struct diagnosis *d, const struct machine *machine, int all)
{
    columns_print(stdout, 8, "machine %s", machine->origin);
    doctor_print_verdict(d);
    putchar('\n');
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        const struct doctor_check *check = &d->checks[c];
        print_status(check);
        if (is_folded(check) && !all) {
            printf(" (%d note%s: --all)\n", check->n, check->n == 1 ? "" : "s");
            continue;
        }
        putchar('\n');
        for (int weight = WEIGHT_OFF; weight <= WEIGHT_NOTE; weight++)
            for (int i = check->first; i < check->first + check->n; i++)
                if ((int)d->findings.list[i].weight == weight && is_first_of_check(d, check, i))
                    print_check(d, check, i, all);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *diagnosis_json(const struct diagnosis *d, const struct machine *machine)
{
    json_t *checks = json_array();
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        const struct doctor_check *check = &d->checks[c];
        json_t *findings = json_array();
        for (int i = check->first; i < check->first + check->n; i++)
            json_array_append_new(findings, json_finding(&d->findings.list[i]));
        json_array_append_new(checks,
                              json_pack("{s:s, s:s, s:s, s:i, s:o}", "check", check->name, "title",
                                        check->title, "status", doctor_state(check), "looked_at",
                                        check->examined, "findings", findings));
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:i, s:i}", "machine", machine->origin, "verdict",
                     doctor_json_verdict(d), "checks", checks, "libraries",
                     doctor_json_libraries(machine), "faults", d->faults, "unknown", d->unknown);
}

/* --- one machine ------------------------------------------------------------------------------ */

static int print_expectation(const struct machine *machine)
{
    static struct profile profile;
    profile_of(machine, &profile);
    char *text = profile_expectation(&profile);
    if (text)
        puts(text);
    free(text);
    return text ? EXIT_GOOD : EXIT_FAULT;
}

/* Prints the diagnosis, and the comparison if there is an expectation. */
static int print_machine(const struct machine *machine, const struct diagnosis *d,
                         const struct profile *expected, const struct doctor_options *a)
{
    static struct profile seen;
    int differs = 0;
    profile_of(machine, &seen);
    if (a->prometheus)
        return doctor_write_metrics(a->prometheus, machine, d,
                                    expected ? doctor_count_differences(&seen, expected) : -1);
    if (a->machine.json) {
        json_t *root = diagnosis_json(d, machine);
        if (expected) {
            json_t *comparison = doctor_json_comparison(&seen, expected, a->against);
            differs = (int)json_integer_value(json_object_get(comparison, "differs"));
            json_object_set_new(root, "against", comparison);
        }
        json_print(root);
    } else {
        print_diagnosis(d, machine, a->all || columns_are_full());
        doctor_print_libraries(machine);
        if (expected)
            differs = doctor_print_comparison(&seen, expected, a->against);
    }
    return d->faults || differs ? EXIT_FAULT : EXIT_GOOD;
}

/* Reads the counters again once the interval since `began_ns` has passed. */
static void read_counters_again(struct machine *machine, const struct doctor_options *a,
                                uint64_t began_ns)
{
    uint64_t passed = clock_now_ns() - began_ns;
    uint64_t left = passed < a->interval_ns ? a->interval_ns - passed : 0;
    struct timespec pause = {.tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000)};
    while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
        ;
    struct machine *later = machine_options_read(&a->machine);
    if (later)
        growth_record(machine, later);
    machine_free(later);
}

/* Reads the machine, measures, and waits for counters to grow. NULL: it has printed why. */
static struct machine *read_machine(const struct doctor_options *a)
{
    bool live = !a->machine.file && !a->quick;
    if (live)
        probe_prepare();
    struct machine *machine = machine_options_read(&a->machine);
    uint64_t began_ns = clock_now_ns();
    if (machine && a->machine.measure && !a->quick)
        machine_options_measure(&a->machine, machine, 0);
    else if (machine && live && machine->n_gpus)
        machine_options_try(machine);
    if (live)
        probe_wait();
    if (machine && a->interval_ns)
        read_counters_again(machine, a, began_ns);
    return machine;
}

/* Examines this machine and prints the selected output. */
static int examine_machine(const struct doctor_options *a, const struct profile *expected)
{
    static struct diagnosis diagnosis;
    struct machine *machine = read_machine(a);
    if (!machine)
        return EXIT_USAGE;
    int status;
    if (a->expect) {
        status = print_expectation(machine);
    } else {
        doctor_examine(machine, &diagnosis);
        status = print_machine(machine, &diagnosis, expected, a);
        findings_free(&diagnosis.findings);
    }
    machine_free(machine);
    return status;
}

/* --- several machines ------------------------------------------------------------------------- */

/* Returns the report of this machine, which the caller frees. NULL: it has printed why. */
static char *make_report(const struct doctor_options *a)
{
    static struct diagnosis diagnosis;
    struct machine *machine = read_machine(a);
    if (!machine)
        return NULL;
    doctor_examine(machine, &diagnosis);
    char *report = doctor_node_write(machine, &diagnosis);
    findings_free(&diagnosis.findings);
    machine_free(machine);
    return report;
}

static int print_report(const struct doctor_options *a)
{
    char *report = make_report(a);
    if (report)
        fputs(report, stdout);
    free(report);
    return report ? EXIT_GOOD : EXIT_FAULT;
}

static int judge_cluster(struct cluster *cluster, const struct doctor_options *a,
                         const struct profile *expected)
{
    cluster_judge(cluster, expected);
    int status = cluster->deviating || cluster->not_reached ? EXIT_FAULT : EXIT_GOOD;
    if (a->prometheus)
        status = doctor_write_cluster_metrics(a->prometheus, cluster);
    else if (a->machine.json)
        doctor_json_cluster(cluster, a->against);
    else
        doctor_print_cluster(cluster, a->against);
    cluster_free(cluster);
    return status;
}

static int examine_hosts(const struct doctor_options *a, const struct profile *expected)
{
    struct cluster cluster = {.nodes = NULL};
    return doctor_visit_hosts(a, &cluster) ? judge_cluster(&cluster, a, expected) : EXIT_FAULT;
}

/* One PE of each node examines it and PE 0 prints. When all PEs are on one node, only PE 0
 * works. */
static int examine_job(struct doctor_job *job, const struct doctor_options *a,
                       const struct profile *expected)
{
    struct cluster cluster = {.nodes = NULL};
    bool silent = job->silent;
    if (job->n_nodes == 1) {
        doctor_leave_job(job, true);
        return silent ? EXIT_GOOD : examine_machine(a, expected);
    }
    char *report = job->examines ? make_report(a) : NULL;
    weft_status status = doctor_gather_job(job, report, &cluster);
    free(report);
    if (status)
        fprintf(stderr, "weft doctor: %s\n", weft_last_error());
    doctor_leave_job(job, status == WEFT_OK);
    if (status)
        return EXIT_FAULT;
    return silent ? EXIT_GOOD : judge_cluster(&cluster, a, expected);
}

static int run_doctor(const struct doctor_options *a)
{
    static struct profile expectation;
    const struct profile *expected = a->against ? &expectation : NULL;
    struct doctor_job job = {.boot = NULL};
    if (a->log)
        return doctor_read_log(a->log, a->machine.json);
    if (a->against && profile_load(a->against, &expectation)) {
        fprintf(stderr, "weft doctor: --against: %s\n", weft_last_error());
        return EXIT_USAGE;
    }
    if (a->report)
        return print_report(a);
    if (a->reach.host_count)
        return examine_hosts(a, expected);
    if (!a->machine.file && !a->expect && !doctor_join_job(a->job, &job))
        return EXIT_USAGE;
    return job.boot ? examine_job(&job, a, expected) : examine_machine(a, expected);
}

int cmd_doctor(int argc, char **argv)
{
    static const struct argp_child children[] = {{&machine_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = doctor_option_list,
        .parser = parse_doctor,
        .children = children,
        .doc = "Check drivers, limits, GPUs, links, peer access, RDMA and storage and report all "
               "faults at once. Exit status 1 when there is a fault, when a fact is not as "
               "expected, or when a host cannot be reached."};
    struct doctor_options a = {.limit_ns = limit_usual_ns};
    run_say_as("weft doctor");
    cli_parse(&argp, argc, argv, 0, &a);
    int status = run_doctor(&a);
    for (int i = 0; i < a.reach.host_count; i++)
        free(a.reach.hosts[i].name);
    free(a.reach.hosts);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of topo, explain and doctor. See machine_options.h. */
#include "machine_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "columns.h"
#include "machine/checks/assign.h"
#include "machine/live/ladder.h"
#include "machine/routes/whatif.h"
#include "probe.h"
#include "tool/tool.h"

enum { KEY_FAULT_BELOW = 512 };

/* Returns 1 to 100; 0: not a percentage. */
static int percentage(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    return end == text || *end || number < 1 || number > 100 ? 0 : (int)number;
}

static error_t parse_machine(int key, char *argument, struct argp_state *state)
{
    struct machine_options *options = state->input;
    switch (key) {
    case 'm':
        options->file = argument;
        return 0;
    case 'w':
        options->what_if = argument;
        return 0;
    case 'j':
        options->json = 1;
        return 0;
    case 'M':
        options->measure = 1;
        return 0;
    case KEY_FAULT_BELOW:
        options->fault_percent = percentage(argument);
        if (!options->fault_percent)
            argp_error(state, "--fault-below: \"%s\" is not a percentage from 1 to 100", argument);
        return 0;
    case 'f':
        columns_set_full(true);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options_list[] = {
    {"machine", 'm', "FILE", 0,
     "examine another machine: a recorded one, a topology file of NCCL or hwloc, the text of "
     "nvidia-smi topo -m ('-': standard input), or a description such as \"2 socket, 4 gpu each, "
     "nvlink switch\"",
     0},
    {"what-if", 'w', "CHANGES", 0, "apply changes first, e.g. 'drop acs 0000:40:01.1'", 0},
    {"measure", 'M', NULL, 0, "measure pairs on this machine", 0},
    {"full", 'f', NULL, 0,
     "print everything, in lines of any length (default: as wide as the terminal)", 0},
    {"fault-below", KEY_FAULT_BELOW, "PERCENT", 0,
     "report a fault where a measured rate is below this percentage of the expected one (80)", 0},
    {"json", 'j', NULL, 0, "print JSON", 0},
    {0},
};

static const struct argp_child machine_children[] = {{&colour_argp, 0, NULL, 0}, {0}};

const struct argp machine_options_argp = {
    .options = options_list, .parser = parse_machine, .children = machine_children};

void machine_options_refuse(struct argp_state *state, const char *argument)
{
    if (access(argument, F_OK) == 0)
        argp_error(state, "unexpected \"%s\"; a machine file is read with --machine=%s", argument,
                   argument);
    else
        argp_error(state, "unexpected \"%s\"; %s takes options only", argument, state->name);
}

/* The option has precedence over the variable, and that over the machine file. */
static bool set_threshold(const struct machine_options *options, struct machine *machine)
{
    const char *variable = getenv(config_vars[CONFIG_FAULT_PERCENT].name);
    int percent = options->fault_percent ? options->fault_percent
                  : variable             ? percentage(variable)
                                         : 0;
    if (variable && !percent) {
        fprintf(stderr, "%s: %s=%s is not a percentage from 1 to 100\n",
                program_invocation_short_name, config_vars[CONFIG_FAULT_PERCENT].name, variable);
        return false;
    }
    if (percent)
        number_set(&machine->limits.fault_percent, percent);
    return true;
}

static void print_warnings(const struct machine *machine)
{
    for (const char *line = machine->warnings; line && *line; line = strchr(line, '\n') + 1)
        fprintf(stderr, "%s: %.*s\n", program_invocation_short_name, (int)strcspn(line, "\n"),
                line);
}

struct machine *machine_options_read(const struct machine_options *options)
{
    struct machine *machine = NULL;
    if (options->file) {
        if (machine_load(options->file, &machine)) {
            fprintf(stderr, "%s: %s\n", program_invocation_short_name, weft_last_error());
            return NULL;
        }
        print_warnings(machine);
    } else {
        machine = machine_read_live(&(struct machine_source){.root = "", .gpus = true});
        machine_index(machine);
    }
    if (!set_threshold(options, machine)) {
        machine_free(machine);
        return NULL;
    }
    if (options->what_if && whatif_apply(machine, options->what_if)) {
        fprintf(stderr, "%s: --what-if: %s\n", program_invocation_short_name, weft_last_error());
        machine_free(machine);
        return NULL;
    }
    return machine;
}

static void print_progress(const char *pair)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rmeasuring %s      ", pair);
}

/* Runs the ladder for each GPU with its assigned NIC, unless tried before. Returns whether a
 * ladder ran. */
static bool climb_given(struct machine *machine)
{
    struct assignment assignment;
    bool climbed = false;
    assign_nics(machine, &assignment);
    for (int i = 0; i < assignment.n; i++) {
        int64_t gpu = number_or(assignment.list[i].gpu->index, -1);
        const struct machine_nic *nic = assignment.list[i].nic;
        if (!nic || machine_find_rung(machine, gpu, nic->name.value, "export"))
            continue;
        if (machine_test_gdr(machine, gpu, nic->name.value))
            fprintf(stderr, "%s: --measure: gpu%" PRId64 " %s: %s\n", program_invocation_short_name,
                    gpu, nic->name.value, weft_last_error());
        else
            climbed = true;
    }
    assignment_free(&assignment);
    return climbed;
}

/* When a NIC cannot reach the memory of its GPU, the GPU may get another NIC, which is then
 * tried too. */
static void climb_ladders(struct machine *machine)
{
    enum { ROUNDS = 3 };
    for (int round = 0; round < ROUNDS && climb_given(machine); round++)
        ;
}

static void measure_all(struct machine *machine, struct probe *probe, int quick)
{
    probe_warm(probe);
    weft_status status = machine_measure(machine, probe_interface(probe), quick, print_progress);
    if (isatty(STDERR_FILENO))
        fputs("\r                                \r", stderr);
    if (status)
        fprintf(stderr, "%s: some measurements failed: %s\n", program_invocation_short_name,
                weft_last_error());
    probe_close(probe);
}

void machine_options_measure(const struct machine_options *options, struct machine *machine,
                             int quick)
{
    struct probe *probe;
    if (options->file) {
        fprintf(stderr, "%s: --measure: %s is not this machine; the recorded figures are shown\n",
                program_invocation_short_name, options->file);
        return;
    }
    if (machine->n_gpus && machine_read_cuda(machine))
        fprintf(stderr, "%s: --measure: %s\n", program_invocation_short_name, weft_last_error());
    climb_ladders(machine);
    if (machine->n_gpus == 0)
        fprintf(stderr, "%s: --measure: there is no GPU to measure\n",
                program_invocation_short_name);
    else if (probe_open(machine, &probe))
        fprintf(stderr, "%s: --measure: %s\n", program_invocation_short_name, weft_last_error());
    else
        measure_all(machine, probe, quick);
}

void machine_options_try(struct machine *machine)
{
    struct probe *probe;
    if (probe_open(machine, &probe))
        fprintf(stderr, "%s: not measured: %s\n", program_invocation_short_name, weft_last_error());
    else {
        machine_read_cuda(machine); /* what it cannot read stays unknown */
        measure_all(machine, probe, 1);
    }
}

/* Rounds reals to few digits, so that the text is the same on every machine. */
static json_t *json_milli(int64_t milli, int64_t step)
{
    return milli > 0 ? json_real((double)((milli + step / 2) / step * step) / 1000) : json_null();
}

json_t *json_gbps(int64_t mbps)
{
    return json_milli(mbps, 100);
}

json_t *json_us(int64_t ns)
{
    return json_milli(ns, 10);
}

static json_t *unknown_json(const char *why)
{
    return json_pack("{s:s}", "unknown", why_unknown(why));
}

json_t *json_fact_number(struct machine_number number)
{
    return number.known ? json_integer(number.value) : unknown_json(number.why);
}

json_t *json_fact_flag(struct machine_number number)
{
    return number.known ? json_boolean(number.value) : unknown_json(number.why);
}

json_t *json_fact_text(struct machine_text text)
{
    return text.value ? json_string(text.value) : unknown_json(text.why);
}

enum colour colour_of_weight(enum weight weight)
{
    return weight == WEIGHT_NOTE      ? COLOUR_NONE
           : weight == WEIGHT_UNKNOWN ? COLOUR_WARN
                                      : COLOUR_FAULT;
}

json_t *json_finding(const struct finding *f)
{
    const struct reason_text *r = &reason_table[f->reason];
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "code", r->code,
                     "weight", weight_names[f->weight], "place", f->place, "path", f->path, "cause",
                     r->cause, "evidence", f->evidence, "remedy", f->remedy, "who", f->who, "lasts",
                     f->lasts, "what_if", f->repair, "gain_gbytes_per_s", json_gbps(f->gain_mbps));
}

void json_print(json_t *root)
{
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

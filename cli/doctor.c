/* SPDX-License-Identifier: Apache-2.0 */
/* `weft doctor`: prints a diagnosis of the whole machine; makes none itself. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "machine/doctor.h"
#include "machine_options.h"

struct arguments {
    struct machine_options options;
    int quick, all;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct arguments *a = state->input;
    switch (key) {
    case 'q':
        a->quick = 1;
        return 0;
    case 'a':
        a->all = 1;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->options;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"quick", 'q', NULL, 0, "measure nothing", 0},
    {"all", 'a', NULL, 0, "print every place of a finding, not the first few", 0},
    {0},
};

/* --- text -------------------------------------------------------------------------------------- */

static const char *status_of(const struct doctor_check *check)
{
    return check->looked_at == 0 ? "nothing here"
           : check->faults       ? "FAULT"
           : check->unknown      ? "not all seen"
                                 : "good";
}

/* Findings of one reason are told once, with the first places. */
static void print_group(const struct diagnosis *d, const struct doctor_check *check, int first,
                        int all)
{
    const struct finding *f = &d->findings.list[first];
    const struct reason_text *r = &reason_table[f->reason];
    int shown = 0, more = 0;
    printf("  %-7s %s  %s\n", weight_names[f->weight], r->code, r->cause);
    for (int i = first; i < check->first + check->n; i++) {
        const struct finding *other = &d->findings.list[i];
        if (other->reason != f->reason || other->weight != f->weight)
            continue;
        if (shown == 3 && !all) {
            more++;
            continue;
        }
        printf("          %s\n", other->evidence);
        shown++;
    }
    if (more)
        printf("          and %d more (--all)\n", more);
    printf("          %s: %s", f->weight == WEIGHT_UNKNOWN ? "to see" : "remedy", f->remedy);
    if (f->weight != WEIGHT_UNKNOWN)
        printf(" [%s; %s]", r->who, r->lasts);
    putchar('\n');
}

static bool is_first(const struct diagnosis *d, const struct doctor_check *check, int at)
{
    for (int i = check->first; i < at; i++)
        if (d->findings.list[i].reason == d->findings.list[at].reason &&
            d->findings.list[i].weight == d->findings.list[at].weight)
            return false;
    return true;
}

static void print_text(const struct diagnosis *d, const struct machine *machine, int all)
{
    printf("machine %s\n", machine->origin);
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        const struct doctor_check *check = &d->checks[c];
        printf("%-12s  %s\n", status_of(check), check->title);
        for (int weight = WEIGHT_OFF; weight <= WEIGHT_NOTE; weight++)
            for (int i = check->first; i < check->first + check->n; i++)
                if ((int)d->findings.list[i].weight == weight && is_first(d, check, i))
                    print_group(d, check, i, all);
    }
    printf("%d fault%s, %d observation%s missing\n", d->faults, d->faults == 1 ? "" : "s",
           d->unknown, d->unknown == 1 ? "" : "s");
}

/* --- JSON -------------------------------------------------------------------------------------- */

static void print_json(const struct diagnosis *d, const struct machine *machine)
{
    json_t *checks = json_array();
    for (int c = 0; c < DOCTOR_CHECKS; c++) {
        const struct doctor_check *check = &d->checks[c];
        json_t *findings = json_array();
        for (int i = check->first; i < check->first + check->n; i++)
            json_array_append_new(findings, json_finding(&d->findings.list[i]));
        json_array_append_new(checks,
                              json_pack("{s:s, s:s, s:s, s:i, s:o}", "check", check->name, "title",
                                        check->title, "status",
                                        check->looked_at == 0 ? "absent"
                                        : check->faults       ? "fault"
                                        : check->unknown      ? "unknown"
                                                              : "good",
                                        "looked_at", check->looked_at, "findings", findings));
    }
    json_print(json_pack("{s:s, s:o, s:i, s:i}", "machine", machine->origin, "checks", checks,
                         "faults", d->faults, "unknown", d->unknown));
}

int cmd_doctor(int argc, char **argv)
{
    static const struct argp_child children[] = {{&machine_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc = "Check drivers, limits, GPUs, links, peer access, RDMA and storage at once; nothing "
               "stops at the first fault. Exit status 1 when there is one."};
    static struct diagnosis diagnosis;
    struct arguments a = {.quick = 0};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    struct machine *machine = machine_options_read(&a.options);
    if (!machine)
        return EXIT_USAGE;
    if (a.options.measure && !a.quick)
        machine_options_measure(&a.options, machine, 0);
    else if (!a.options.file && !a.quick && machine->n_gpus)
        machine_options_try(machine);
    doctor_examine(machine, &diagnosis);
    if (a.options.json)
        print_json(&diagnosis, machine);
    else
        print_text(&diagnosis, machine, a.all);
    int status = diagnosis.faults ? EXIT_FAULT : EXIT_GOOD;
    findings_free(&diagnosis.findings);
    machine_free(machine);
    return status;
}

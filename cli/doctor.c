/* SPDX-License-Identifier: Apache-2.0 */
/* `weft doctor`: prints a diagnosis of the whole machine, and how it stands beside what is expected; makes
 * none itself. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "doctor.h"

enum { KEY_AGAINST = 256, KEY_EXPECT };

static error_t parse(int key, char *argument, struct argp_state *state)
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
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->machine;
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
    {"against", KEY_AGAINST, "FILE", 0,
     "compare with a machine of `weft topo --record`, or with an expectation", 0},
    {"expect", KEY_EXPECT, NULL, 0, "print the expectation that this machine makes, for --against",
     0},
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
                                        check->title, "status",
                                        check->looked_at == 0 ? "absent"
                                        : check->faults       ? "fault"
                                        : check->unknown      ? "unknown"
                                                              : "good",
                                        "looked_at", check->looked_at, "findings", findings));
    }
    return json_pack("{s:s, s:o, s:i, s:i}", "machine", machine->origin, "checks", checks, "faults",
                     d->faults, "unknown", d->unknown);
}

/* --- one machine ------------------------------------------------------------------------------- */

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

/* The diagnosis, and the comparison where there is an expectation. */
static int print_machine(const struct machine *machine, const struct diagnosis *d,
                         const struct profile *expected, const struct doctor_options *a)
{
    static struct profile seen;
    int differs = 0;
    profile_of(machine, &seen);
    if (a->machine.json) {
        json_t *root = diagnosis_json(d, machine);
        if (expected) {
            json_t *comparison = doctor_json_comparison(&seen, expected, a->against);
            differs = (int)json_integer_value(json_object_get(comparison, "differs"));
            json_object_set_new(root, "against", comparison);
        }
        json_print(root);
    } else {
        print_text(d, machine, a->all);
        if (expected)
            differs = doctor_print_comparison(&seen, expected, a->against);
    }
    return d->faults || differs ? EXIT_FAULT : EXIT_GOOD;
}

static void measure(struct machine *machine, const struct doctor_options *a)
{
    if (a->machine.measure && !a->quick)
        machine_options_measure(&a->machine, machine, 0);
    else if (!a->machine.file && !a->quick && machine->n_gpus)
        machine_options_try(machine);
}

int cmd_doctor(int argc, char **argv)
{
    static const struct argp_child children[] = {{&machine_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .children = children,
        .doc =
            "Check drivers, limits, GPUs, links, peer access, RDMA and storage at once; nothing "
            "stops at the first fault. Exit status 1 when there is one, or when something is not "
            "as expected."};
    static struct diagnosis diagnosis;
    static struct profile expected;
    struct doctor_options a = {.quick = 0};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (a.against && profile_load(a.against, &expected)) {
        fprintf(stderr, "weft doctor: --against: %s\n", weft_last_error());
        return EXIT_USAGE;
    }
    struct machine *machine = machine_options_read(&a.machine);
    if (!machine)
        return EXIT_USAGE;
    measure(machine, &a);
    int status;
    if (a.expect) {
        status = print_expectation(machine);
    } else {
        doctor_examine(machine, &diagnosis);
        status = print_machine(machine, &diagnosis, a.against ? &expected : NULL, &a);
        findings_free(&diagnosis.findings);
    }
    machine_free(machine);
    return status;
}

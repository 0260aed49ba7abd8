/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain --job PID PE PE`: prints the path by which each of two PEs of a running job
 * reaches the other's memory, and why no other is used. It prints what the PEs have recorded. */
#include "explain/pes.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "commands.h"
#include "machine_options.h"
#include "tool/choices.h"

const char *const explain_kind_names[CHOICES_KINDS] = {"host", "gpu"};

static const char *proof_name(enum choice_proof proof)
{
    switch (proof) {
    case CHOICE_PROVEN:
        return "proven";
    case CHOICE_FAILED:
        return "failed";
    case CHOICE_NOT_PROVEN:
        return "not tried";
    case CHOICE_UNUSED:
        break;
    }
    return "not in use";
}

bool explain_pe_number(const char *text, int *pe)
{
    char *end;
    const char *digits = strncmp(text, "pe", 2) == 0 ? text + 2 : text;
    errno = 0;
    long number = strtol(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end || errno || number > INT_MAX)
        return false;
    *pe = (int)number;
    return true;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_labelled(const char *label, const char *text)
{
    columns_print(stdout, EXPLAIN_LABEL, "  %-9s %s", label, text);
}

static void print_path(const char *label, const struct choice_path *path)
{
    columns_print(stdout, EXPLAIN_LABEL, "  %-9s %s: %s", label, path->name, path->why);
}

static void print_choice(const char *kind, const struct choice *choice)
{
    const char *label = "not used";
    if (choice->proof == CHOICE_UNUSED) {
        print_labelled(kind, "not in use");
        return;
    }
    if (choice->taken)
        print_path(kind, &choice->paths[0]);
    else
        print_labelled(kind, "none");
    print_labelled("path test",
                   choice->proof == CHOICE_PROVEN ? "passed" : proof_name(choice->proof));
    for (int i = choice->taken; i < choice->n_paths; i++, label = "")
        print_path(label, &choice->paths[i]);
}

static void print_choices(const struct choices *one)
{
    columns_print(stdout, EXPLAIN_LABEL, "PE %d (pid %d, %s) -> PE %d", one->from, one->pid,
                  one->program, one->to);
    for (int kind = 0; kind < CHOICES_KINDS; kind++)
        print_choice(explain_kind_names[kind], &one->kinds[kind]);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *choice_json(const char *kind, const struct choice *choice)
{
    json_t *others = json_array();
    for (int i = choice->taken; i < choice->n_paths; i++)
        json_array_append_new(others,
                              json_pack("{s:s, s:s, s:b}", "path", choice->paths[i].name, "why",
                                        choice->paths[i].why, "failed", choice->paths[i].failed));
    json_t *path = choice->taken ? json_string(choice->paths[0].name) : json_null();
    json_t *why = choice->taken ? json_string(choice->paths[0].why) : json_null();
    return json_pack("{s:s, s:b, s:o, s:o, s:s, s:o}", "kind", kind, "in_use",
                     choice->proof != CHOICE_UNUSED, "path", path, "why", why, "proof",
                     proof_name(choice->proof), "not_taken", others);
}

static json_t *choices_json(const struct choices *one)
{
    json_t *memories = json_array();
    for (int kind = 0; kind < CHOICES_KINDS; kind++)
        json_array_append_new(memories, choice_json(explain_kind_names[kind], &one->kinds[kind]));
    return json_pack("{s:i, s:i, s:i, s:s, s:o}", "from", one->from, "to", one->to, "pid", one->pid,
                     "program", one->program, "memories", memories);
}

/* --- running ---------------------------------------------------------------------------------- */

static bool is_off(const struct choices *one)
{
    for (int kind = 0; kind < CHOICES_KINDS; kind++) {
        const struct choice *choice = &one->kinds[kind];
        if (choice->proof == CHOICE_FAILED || (choice->proof != CHOICE_UNUSED && !choice->taken))
            return true;
        for (int i = choice->taken; i < choice->n_paths; i++)
            if (choice->paths[i].failed)
                return true;
    }
    return false;
}

/* Reads the record of both PEs, or of the one on this machine. Returns how many were read;
 * `why`: which was not, and the reason. */
static int read_both_choices(int pid, const int pes[2], struct choices *ways, char *why,
                             int why_bytes)
{
    int wanted = pes[0] == pes[1] ? 1 : 2, read = 0;
    why[0] = '\0';
    for (int i = 0; i < wanted; i++)
        read += choices_read(pid, pes[i], pes[1 - i], &ways[read], why, why_bytes);
    return read;
}

int explain_pes(int pid, const int pes[2], bool json)
{
    static struct choices both[2];
    char why[512];
    int n = read_both_choices(pid, pes, both, why, sizeof why);
    bool off = false;
    if (why[0])
        fprintf(stderr, "weft explain: %s\n", why);
    if (!n)
        return EXIT_USAGE;
    for (int i = 0; i < n; i++)
        off |= is_off(&both[i]);
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        if (json)
            json_array_append_new(list, choices_json(&both[i]));
        else
            print_choices(&both[i]);
        if (!json && i + 1 < n)
            putchar('\n');
    }
    if (json)
        json_print(json_pack("{s:i, s:O}", "job", pid, "ways", list));
    json_decref(list);
    return off ? EXIT_FAULT : EXIT_GOOD;
}

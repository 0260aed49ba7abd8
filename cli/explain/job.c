/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain --job PID`: prints the path of every pair of PEs of a running job, and the
 * operations over it. Pairs with the same path and reason share a row. */
#include "explain/pes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "commands.h"
#include "tool/boxes.h"
#include "tool/choices.h"

enum { PAIRS_SHOWN = 6 };

static const char *const proof_texts[] = {[CHOICE_UNUSED] = "not in use",
                                          [CHOICE_NOT_PROVEN] = "not tested",
                                          [CHOICE_PROVEN] = "tested",
                                          [CHOICE_FAILED] = "no tested path works"};

/* Pairs with the same path and reason. */
struct row {
    int kind;
    enum choice_proof proof;
    bool to_itself;
    char path[16], why[CHOICES_WHY_BYTES];
    int count;
    int first[PAIRS_SHOWN][2]; /* from, to */
    struct row *next;
};

struct summary {
    struct row *rows, **last;
    int from, to; /* number of PEs on this machine; of the job */
    bool off, no_memory;
};

static bool is_alike(const struct row *row, const struct row *other)
{
    return row->kind == other->kind && row->proof == other->proof &&
           row->to_itself == other->to_itself && strcmp(row->path, other->path) == 0 &&
           strcmp(row->why, other->why) == 0;
}

static void count_pair(struct summary *summary, const struct row *made, int from, int to)
{
    struct row *row = summary->rows;
    while (row && !is_alike(row, made))
        row = row->next;
    if (!row) {
        row = malloc(sizeof *row);
        if (!row) {
            summary->no_memory = true;
            return;
        }
        *row = *made;
        *summary->last = row;
        summary->last = &row->next;
    }
    if (row->count < PAIRS_SHOWN) {
        row->first[row->count][0] = from;
        row->first[row->count][1] = to;
    }
    row->count++;
}

static void add_choices(void *argument, const struct choices *one)
{
    struct summary *summary = argument;
    summary->from += one->to == 0;
    summary->to = one->npes;
    for (int kind = 0; kind < CHOICES_KINDS; kind++) {
        const struct choice *choice = &one->kinds[kind];
        struct row made = {.kind = kind, .proof = choice->proof, .to_itself = one->from == one->to};
        if (choice->proof == CHOICE_UNUSED)
            continue;
        snprintf(made.path, sizeof made.path, "%s", choice->taken ? choice->paths[0].name : "none");
        snprintf(made.why, sizeof made.why, "%s", choice->taken ? choice->paths[0].why : "");
        summary->off |= choice->proof == CHOICE_FAILED || !choice->taken;
        count_pair(summary, &made, one->from, one->to);
    }
}

/* Describes the pairs of a row in short, e.g. "every PE to every other". */
static void name_pairs(const struct summary *summary, const struct row *row, char *text,
                       size_t size)
{
    size_t used = 0;
    const int all = row->to_itself ? summary->from : summary->from * (summary->to - 1);
    if (row->count == all && row->count > 2) {
        snprintf(text, size, row->to_itself ? "every PE to itself" : "every PE to every other");
        return;
    }
    for (int i = 0; i < row->count && i < PAIRS_SHOWN && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d->%d", i ? ", " : "",
                                 row->first[i][0], row->first[i][1]);
    if (row->count > PAIRS_SHOWN && used < size)
        snprintf(text + used, size - used, " and %d more", row->count - PAIRS_SHOWN);
}

static void print_rows(const struct summary *summary)
{
    char pairs[256];
    for (const struct row *row = summary->rows; row; row = row->next) {
        name_pairs(summary, row, pairs, sizeof pairs);
        columns_print(stdout, EXPLAIN_LABEL, "  %-9s %s: %s, %s%s%s", explain_kind_names[row->kind],
                      row->path, pairs, proof_texts[row->proof], row->why[0] ? "; " : "", row->why);
    }
}

static json_t *rows_json(const struct summary *summary)
{
    json_t *list = json_array();
    char pairs[256];
    for (const struct row *row = summary->rows; row; row = row->next) {
        name_pairs(summary, row, pairs, sizeof pairs);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:i, s:s, s:s}", "kind",
                                              explain_kind_names[row->kind], "path", row->path,
                                              "pairs", pairs, "count", row->count, "proof",
                                              proof_texts[row->proof], "why", row->why));
    }
    return list;
}

/* Prints how many operations used each path so far. */
static void print_operations(const struct boxes_pe *pe)
{
    char text[512];
    size_t used = 0;
    for (int i = 0; i < pe->n_paths && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s%s %" PRIu64 " operations, %" PRIu64 " bytes", i ? "; " : "",
                                 pe->paths[i].name, pe->paths[i].operations, pe->paths[i].bytes);
    columns_print(stdout, EXPLAIN_LABEL, "  PE %-6d %s", pe->pe,
                  pe->n_paths ? text : "no operation yet");
}

static json_t *operations_json(const struct boxes_pe *pe)
{
    json_t *paths = json_array();
    for (int i = 0; i < pe->n_paths; i++)
        json_array_append_new(paths, json_pack("{s:s, s:I, s:I}", "path", pe->paths[i].name,
                                               "operations", (json_int_t)pe->paths[i].operations,
                                               "bytes", (json_int_t)pe->paths[i].bytes));
    return json_pack("{s:i, s:i, s:o}", "pe", pe->pe, "pid", pe->pid, "paths", paths);
}

static void show_operations(const struct boxes_job *job, json_t *list)
{
    for (int i = 0; i < job->count; i++) {
        if (!job->pes[i].present)
            continue;
        if (list)
            json_array_append_new(list, operations_json(&job->pes[i]));
        else
            print_operations(&job->pes[i]);
    }
}

bool explain_is_job(int pid)
{
    struct boxes_job job;
    char why[512];
    if (!boxes_read(pid, &job, why, sizeof why))
        return false;
    boxes_free(&job);
    return true;
}

int explain_job_pes(int pid, json_t *result)
{
    struct summary summary = {.last = &summary.rows};
    struct boxes_job job;
    char why[512];
    if (!boxes_read(pid, &job, why, sizeof why)) {
        fprintf(stderr, "weft explain: %s\n", why);
        return EXIT_USAGE;
    }
    bool good = choices_read_all(pid, add_choices, &summary, why, sizeof why);
    if (!good)
        fprintf(stderr, "weft explain: %s\n", why);
    json_t *operations = result ? json_array() : NULL;
    if (result) {
        json_object_set_new(result, "pairs", rows_json(&summary));
        json_object_set_new(result, "operations", operations);
    } else {
        columns_print(stdout, EXPLAIN_LABEL, "job of process %d: %d PEs, %d on this machine (%s)",
                      pid, summary.to, summary.from, job.count ? job.pes[0].program : "");
        print_rows(&summary);
    }
    show_operations(&job, operations);
    boxes_free(&job);
    while (summary.rows) {
        struct row *row = summary.rows;
        summary.rows = row->next;
        free(row);
    }
    if (summary.no_memory)
        fprintf(stderr, "weft explain: no memory for all pairs\n");
    return !good || summary.no_memory ? EXIT_USAGE : summary.off ? EXIT_FAULT : EXIT_GOOD;
}

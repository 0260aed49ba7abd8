/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach PID`: what every PE of a job on this node is doing, from its black boxes. */
#include "attach.h"

#include "commands.h"

#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const states[] = {"starting", "running", "finalized", "aborted"};
static const char *const signs[] = {"==", "!=", ">", "<=", "<", ">="};

struct options {
    int pid;
    int json;
    int history;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    char *end;
    switch (key) {
    case 'j':
        options->json = 1;
        return 0;
    case 'n':
        options->history = (int)strtol(argument, &end, 10);
        if (*end || options->history < 0 || options->history > BOX_HISTORY)
            argp_error(state, "--history is \"%s\", not a number from 0 to %d", argument,
                       BOX_HISTORY);
        return 0;
    case ARGP_KEY_ARG:
        options->pid = (int)strtol(argument, &end, 10);
        if (*end || options->pid <= 0 || state->arg_num)
            argp_error(state, "\"%s\" is not a process number", argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "the PID of a PE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *state_name(const struct attach_pe *pe)
{
    if (!pe->present)
        return "not started";
    if (!pe->alive && pe->box.state == BOX_RUNNING)
        return "dead";
    return pe->box.state < 4 ? states[pe->box.state] : "unknown";
}

static double seconds(uint64_t now, uint64_t then)
{
    return now > then ? (double)(now - then) * 1e-9 : 0;
}

static void sum_counters(const struct box *box, int path, uint64_t *operations, uint64_t *bytes)
{
    *operations = *bytes = 0;
    for (int slot = 0; slot < BOX_CONTEXTS; slot++) {
        *operations += box->counters[slot][path].operations;
        *bytes += box->counters[slot][path].bytes;
    }
}

static void print_wait(const struct box_wait *wait, uint64_t now)
{
    printf("    waiting %.1f s in %s", seconds(now, wait->since_ns),
           box_operation_name(wait->operation));
    if (wait->peer >= 0)
        printf(" for PE %d", wait->peer);
    printf(": expected %s %llu, seen %llu, at offset %llu of the %s\n",
           signs[wait->compare < 6 ? wait->compare : 5], (unsigned long long)wait->expected,
           (unsigned long long)wait->seen, (unsigned long long)wait->offset,
           wait->segment == 0   ? "heap"
           : wait->segment == 1 ? "global data"
           : wait->segment == 3 ? "GPU heap"
                                : "library's memory");
}

/* What the PE's kernels wait for, or what went wrong in them. */
static bool kernel_record(const struct attach_pe *pe, int i, char *text, size_t bytes)
{
    const struct weft_dev_record *record = &pe->device.records[i];
    if (pe->device.version != WEFT_DEV_VERSION || record->state == WEFT_DEV_RECORD_FREE ||
        record->state > WEFT_DEV_RECORD_REFUSED)
        return false;
    device_record_text(record, pe->box.pe, text, bytes);
    return true;
}

static void print_kernels(const struct attach_pe *pe)
{
    char text[384];
    for (int i = 0; i < WEFT_DEV_RECORDS; i++)
        if (kernel_record(pe, i, text, sizeof text))
            printf("    %s\n", text);
}

static json_t *kernels_json(const struct attach_pe *pe)
{
    char text[384];
    json_t *list = json_array();
    for (int i = 0; i < WEFT_DEV_RECORDS; i++)
        if (kernel_record(pe, i, text, sizeof text))
            json_array_append_new(list, json_string(text));
    return list;
}

static void print_history(const struct box *box, int most)
{
    uint64_t count = box->past_count;
    uint64_t first = count > (uint64_t)most ? count - (uint64_t)most : 0;
    if (count > first)
        printf("    last operations:");
    for (uint64_t i = first; i < count; i++) {
        const struct box_past *past = &box->past[i % BOX_HISTORY];
        printf(" %s", box_operation_name(past->operation));
        if (past->bytes)
            printf("(%llu B)", (unsigned long long)past->bytes);
    }
    if (count > first)
        printf("  (%llu in all)\n", (unsigned long long)count);
}

static void print_pe(const struct attach_pe *pe, uint64_t now, int history)
{
    const struct box *box = &pe->box;
    if (!pe->present) {
        printf("PE ?  %s\n", state_name(pe));
        return;
    }
    printf("PE %d  pid %d  %s  %s for %.1f s\n", box->pe, box->pid, box->program, state_name(pe),
           seconds(now, box->start_ns));
    if (box->failure[0])
        printf("    failed: %s\n", box->failure);
    for (int i = 0; i < BOX_WAITS; i++)
        if (box->waits[i].operation != BOX_OP_NONE)
            print_wait(&box->waits[i], now);
    print_kernels(pe);
    for (int path = 0; path < BOX_PATHS; path++) {
        uint64_t operations, bytes;
        sum_counters(box, path, &operations, &bytes);
        if (operations)
            printf("    path %s: %llu operations, %llu bytes\n", box->paths[path],
                   (unsigned long long)operations, (unsigned long long)bytes);
    }
    print_history(box, history);
}

static void print_text(const struct attach_job *job, int history)
{
    char sentence[512];
    for (int i = 0; i < job->count; i++)
        print_pe(&job->pes[i], job->now_ns, history);
    printf("\nwho waits for whom:\n");
    for (int i = 0; i < job->count; i++) {
        int whom = attach_waits_for(job, i);
        if (whom >= 0)
            printf("    PE %d --%s--> PE %d\n", job->pes[i].box.pe,
                   box_operation_name(attach_wait(&job->pes[i])->operation), job->pes[whom].box.pe);
        else if (whom == -2)
            printf("    PE %d --%s--> ?\n", job->pes[i].box.pe,
                   box_operation_name(attach_wait(&job->pes[i])->operation));
    }
    attach_diagnose(job, sentence, sizeof sentence);
    printf("\n%s\n", sentence);
}

static json_t *waits_json(const struct box *box, uint64_t now)
{
    json_t *list = json_array();
    for (int i = 0; i < BOX_WAITS; i++) {
        const struct box_wait *wait = &box->waits[i];
        if (wait->operation == BOX_OP_NONE)
            continue;
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:f, s:s, s:I, s:I, s:I}", "operation",
                                        box_operation_name(wait->operation), "peer", wait->peer,
                                        "seconds", seconds(now, wait->since_ns), "compare",
                                        signs[wait->compare < 6 ? wait->compare : 5], "expected",
                                        (json_int_t)wait->expected, "seen", (json_int_t)wait->seen,
                                        "offset", (json_int_t)wait->offset));
    }
    return list;
}

static json_t *paths_json(const struct box *box)
{
    json_t *object = json_object();
    for (int path = 0; path < BOX_PATHS; path++) {
        uint64_t operations, bytes;
        sum_counters(box, path, &operations, &bytes);
        if (operations)
            json_object_set_new(object, box->paths[path],
                                json_pack("{s:I, s:I}", "operations", (json_int_t)operations,
                                          "bytes", (json_int_t)bytes));
    }
    return object;
}

static void print_json(const struct attach_job *job)
{
    char sentence[512];
    json_t *pes = json_array();
    for (int i = 0; i < job->count; i++) {
        const struct attach_pe *pe = &job->pes[i];
        if (!pe->present)
            continue;
        json_array_append_new(
            pes, json_pack("{s:i, s:i, s:s, s:s, s:f, s:s, s:o, s:o, s:o}", "pe", pe->box.pe, "pid",
                           pe->box.pid, "program", pe->box.program, "state", state_name(pe),
                           "seconds", seconds(job->now_ns, pe->box.start_ns), "failure",
                           pe->box.failure, "waits", waits_json(&pe->box, job->now_ns), "kernels",
                           kernels_json(pe), "paths", paths_json(&pe->box)));
    }
    attach_diagnose(job, sentence, sizeof sentence);
    json_t *all = json_pack("{s:o, s:s}", "pes", pes, "diagnosis", sentence);
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

int cmd_attach(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {"history", 'n', "N", 0, "how many last operations to show (default 8)", 0},
        {0},
    };
    static const struct argp argp = {
        .options = known,
        .parser = parse,
        .args_doc = "PID",
        .doc = "Show what every PE of the job of process PID does: state, waits, counters, last "
               "operations, who waits for whom, and what is stuck. Needs no privilege beyond being "
               "the same user; the process need not cooperate."};
    struct options options = {.history = 8};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct attach_job job;
    char why[512];
    if (!attach_read(options.pid, &job, why, sizeof why)) {
        fprintf(stderr, "weft attach: %s\n", why);
        return EXIT_FAULT;
    }
    if (options.json)
        print_json(&job);
    else
        print_text(&job, options.history);
    attach_free(&job);
    return EXIT_GOOD;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach PID`: shows what each PE of a job on this node does, read from the black boxes of
 * the PEs. */
#include "attach/attach.h"
#include "parse.h"

#include "colour.h"
#include "commands.h"

#include <argp.h>
#include <stdlib.h>

struct attach_options {
    int pid;
    int json;
    int history;
};

static error_t parse_attach(int key, char *argument, struct argp_state *state)
{
    struct attach_options *options = state->input;
    char *end;
    switch (key) {
    case 'j':
        options->json = 1;
        return 0;
    case 'n':
        options->history = (int)strtol(argument, &end, 10);
        if (*end || options->history < 0 || options->history > BOXES_HISTORY_MOST)
            argp_error(state, "--history is \"%s\", not a number from 0 to %d", argument,
                       BOXES_HISTORY_MOST);
        return 0;
    case ARGP_KEY_ARG:
        options->pid = (int)strtol(argument, &end, 10);
        if (state->arg_num)
            argp_error(state, "unexpected \"%s\"; one process id is expected", argument);
        if (*end || options->pid <= 0)
            argp_error(state, "\"%s\" is not a process id", argument);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "the PID of a PE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_attach(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {"history", 'n', "N", 0, "number of last operations to show (8)", 0},
        {0},
    };
    static const struct argp_child children[] = {{&colour_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = known,
        .parser = parse_attach,
        .children = children,
        .args_doc = "PID",
        .doc = "Show what each PE of the job of process PID does: state, waits, counters, last "
               "operations, which PE waits for which, and what is stuck. Works for the same user "
               "without further privileges, also when the process hangs."};
    struct attach_options options = {.history = 8};
    cli_parse(&argp, argc, argv, 0, &options);
    struct boxes_job job;
    char why[512];
    struct communicators all = {0};
    bool found = boxes_read(options.pid, &job, why, sizeof why);
    attach_communicators_read(options.pid, &job, &all);
    if (!found && !all.count) {
        fprintf(stderr, "weft attach: %s\n", why);
        return EXIT_FAULT;
    }
    if (options.json) {
        attach_json(stdout, &job, &all);
    } else {
        if (found)
            attach_text(stdout, &job, options.history);
        attach_communicators_text(stdout, &all);
    }
    communicators_free(&all);
    boxes_free(&job);
    return EXIT_GOOD;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach PID`: what every PE of a job on this node is doing, from its black boxes. */
#include "attach/attach.h"

#include "commands.h"

#include <argp.h>
#include <stdlib.h>

struct options {
    int pid;
    int json;
    int history;
};

static error_t parse_attach(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
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

int cmd_attach(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {"history", 'n', "N", 0, "how many last operations to show (default 8)", 0},
        {0},
    };
    static const struct argp argp = {
        .options = known,
        .parser = parse_attach,
        .args_doc = "PID",
        .doc = "Show what every PE of the job of process PID does: state, waits, counters, last "
               "operations, who waits for whom, and what is stuck. Needs no privilege beyond being "
               "the same user; the process need not cooperate."};
    struct options options = {.history = 8};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct boxes_job job;
    char why[512];
    if (!boxes_read(options.pid, &job, why, sizeof why)) {
        fprintf(stderr, "weft attach: %s\n", why);
        return EXIT_FAULT;
    }
    if (options.json)
        attach_json(stdout, &job);
    else
        attach_text(stdout, &job, options.history);
    boxes_free(&job);
    return EXIT_GOOD;
}

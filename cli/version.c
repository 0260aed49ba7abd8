/* SPDX-License-Identifier: Apache-2.0 */
/* `weft version`: prints the version. */
#include "commands.h"
#include "parse.h"

#include <argp.h>
#include <stdio.h>

#include <weft.h>

static error_t parse_version(int key, char *argument, struct argp_state *state)
{
    if (key == 'j') {
        *(int *)state->input = 1;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

int cmd_version(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options, .parser = parse_version, .doc = "Print the version of Weft."};
    int json = 0;
    cli_parse(&argp, argc, argv, 0, &json);
    printf(json ? "{\"version\": \"%s\"}\n" : "weft %s\n", weft_version());
    return EXIT_GOOD;
}

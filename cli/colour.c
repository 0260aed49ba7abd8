/* SPDX-License-Identifier: Apache-2.0 */
/* See colour.h. */
#include "colour.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_COLOR = 0x1000 };

static enum { WHEN_AUTO, WHEN_ALWAYS, WHEN_NEVER } colour_when;

static error_t parse_colour(int key, char *argument, struct argp_state *state)
{
    if (key != KEY_COLOR)
        return ARGP_ERR_UNKNOWN;
    if (!argument || strcmp(argument, "always") == 0)
        colour_when = WHEN_ALWAYS;
    else if (strcmp(argument, "never") == 0)
        colour_when = WHEN_NEVER;
    else if (strcmp(argument, "auto") == 0)
        colour_when = WHEN_AUTO;
    else
        argp_error(state, "--color takes auto, always or never, not \"%s\"", argument);
    return 0;
}

static const struct argp_option colour_options[] = {
    {"color", KEY_COLOR, "WHEN", OPTION_ARG_OPTIONAL,
     "colour the text: auto (on a terminal, unless NO_COLOR is set), always, never", 0},
    {0},
};

const struct argp colour_argp = {.options = colour_options, .parser = parse_colour};

/* NO_COLOR: https://no-color.org */
static bool is_coloured(void)
{
    static int answer = -1;
    if (colour_when != WHEN_AUTO)
        return colour_when == WHEN_ALWAYS;
    if (answer < 0) {
        const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
        answer =
            !(none && *none) && terminal && strcmp(terminal, "dumb") != 0 && isatty(STDOUT_FILENO);
    }
    return answer;
}

const char *colour_begin(enum colour colour)
{
    static const char *const sequences[] = {"\033[32m", "\033[33m", "\033[31m", "\033[1m"};
    return colour == COLOUR_NONE || !is_coloured() ? "" : sequences[colour];
}

const char *colour_end(enum colour colour)
{
    return colour == COLOUR_NONE || !is_coloured() ? "" : "\033[0m";
}

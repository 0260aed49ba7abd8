/* SPDX-License-Identifier: Apache-2.0 */
/* Colours of text output: on a terminal, or as --color says. */
#ifndef WEFT_CLI_COLOUR_H
#define WEFT_CLI_COLOUR_H

#include <argp.h>

enum colour {
    COLOUR_OK,      /* green */
    COLOUR_WARN,    /* yellow: cannot be observed, or slower than usual */
    COLOUR_FAULT,   /* red */
    COLOUR_HEADING, /* bold */
    COLOUR_NONE,
};

/* Option --color[=WHEN], a child of the commands that use colours. */
extern const struct argp colour_argp;

/* The SGR sequence that begins a colour, and the one that ends it; "" where standard output has
 * no colours. columns_print() counts neither as columns. */
const char *colour_begin(enum colour colour);
const char *colour_end(enum colour colour);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How every subcommand reads its arguments. */
#ifndef WEFT_CLI_PARSE_H
#define WEFT_CLI_PARSE_H

#include <argp.h>

/* argp_parse(), with -h for --help. An option that does not exist ends the command
 * with its nearest one and exit status 2. With --json, where the command has it, errors are JSON
 * from here on. flags: ARGP_IN_ORDER or 0. Returns 0, or what a parser returned. */
error_t cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* The value of an option: a number from `least` to 1e6. Else ends the command with exit status 2;
 * wanted: what was expected, such as "Gbit/s such as 400". */
double cli_parse_rate(struct argp_state *state, const char *option, const char *text,
                      const char *wanted, double least);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of command-line options and errors about them. The program defines EXAMPLE, its name,
 * before including this. */
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline bool bad_value(const char *what, const char *text, const char *wanted)
{
    fprintf(stderr, EXAMPLE ": --%s %s: expected %s\n", what, text, wanted);
    return false;
}

/* Checks the operands after the options: one if `wanted` describes it, else none. */
static inline bool fits_operands(int argc, char **argv, int first, const char *wanted)
{
    int most = wanted ? 1 : 0;
    if (argc - first == most)
        return true;
    if (wanted && argc - first < most)
        fprintf(stderr, EXAMPLE ": expected %s; see --help\n", wanted);
    else
        fprintf(stderr, EXAMPLE ": unexpected operand %s; see --help\n", argv[first + most]);
    return false;
}

/* Parses a number from 1 to `most`. */
static inline bool parse_number(const char *what, const char *text, uint64_t most, uint64_t *value)
{
    char *end, wanted[64];
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && *value >= 1 && *value <= most)
        return true;
    snprintf(wanted, sizeof wanted, "a whole number from 1 to %" PRIu64, most);
    return bad_value(what, text, wanted);
}

static inline bool parse_small(const char *what, const char *text, uint32_t most, uint32_t *small)
{
    uint64_t value;
    return parse_number(what, text, most, &value) && (*small = (uint32_t)value);
}

#endif

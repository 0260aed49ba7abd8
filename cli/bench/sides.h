/* SPDX-License-Identifier: Apache-2.0 */
/* The same benchmarks over several paths, each in its own job, and their results side by side. */
#ifndef WEFT_CLI_BENCH_SIDES_H
#define WEFT_CLI_BENCH_SIDES_H

#include "bench/bench.h"

#include <jansson.h>

enum { SIDES_MAX = 8, SIDE_NAME_BYTES = 32 };

struct bench_side {
    char path[SIDE_NAME_BYTES];
    json_t *rows; /* array in the order in which the job printed the rows */
};

struct bench_sides {
    struct bench_side side[SIDES_MAX];
    int count;
    bool failed; /* a job failed */
};

/* Parses a list of paths such as p2p,staged. False: malformed. gda:cpu is path gda with
 * WEFT_TEST_GDA_INITIATOR=cpu. */
bool sides_parse(const char *list, struct bench_sides *sides);

/* Runs `weft bench` with these arguments once for each path, in jobs of options->pes PEs, and
 * appends the printed rows to each side. Other output goes to stderr. */
void sides_measure(const struct bench_options *options, int argc, char **argv,
                   struct bench_sides *sides);

/* Prints the rows of all sides, one line per point. */
void sides_print_table(const struct bench_sides *sides);
void sides_print_json(const struct bench_sides *sides);

/* Frees the rows. */
void sides_clear(struct bench_sides *sides);

/* Finds the row of another side for the same point; NULL: none. */
const json_t *side_row_like(const struct bench_side *side, const json_t *wanted);

/* A number of a row; -1: none. */
double side_figure(const json_t *row, const char *key);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The same benchmarks over several paths, one after another, each in a job of its own: what the
 * jobs printed, side by side. */
#ifndef WEFT_CLI_BENCH_SIDES_H
#define WEFT_CLI_BENCH_SIDES_H

#include "bench/bench.h"

#include <jansson.h>

enum { SIDES_MAX = 8, SIDE_NAME_BYTES = 32 };

struct bench_side {
    char path[SIDE_NAME_BYTES];
    json_t *rows; /* an array, in the order in which the job printed them */
};

struct bench_sides {
    struct bench_side side[SIDES_MAX];
    int count;
    bool failed; /* some job did not end well */
};

/* The paths of a list such as p2p,staged, with no rows. False: it is none. gda:cpu is path gda with
 * WEFT_GDA_INITIATOR=cpu. */
bool sides_parse(const char *list, struct bench_sides *sides);

/* Runs `weft bench` with these arguments once for each path, in jobs of options->pes PEs, and adds
 * what they print to the rows of each side. What is no row goes to stderr. */
void sides_measure(const struct bench_options *options, int argc, char **argv,
                   struct bench_sides *sides);

/* The rows of all sides, those of one point in one line. */
void sides_print_table(const struct bench_sides *sides);
void sides_print_json(const struct bench_sides *sides);

/* Forgets the rows. */
void sides_clear(struct bench_sides *sides);

/* The row of another side for the same point; NULL: it has none. */
const json_t *side_row_like(const struct bench_side *side, const json_t *wanted);

/* A number of a row; -1 where there is none. */
double side_figure(const json_t *row, const char *key);

#endif

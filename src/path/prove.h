/* SPDX-License-Identifier: Apache-2.0 */
/* Proof of a path between two PEs: data, a flag behind it, an atomic, and the data read back, over
 * the path's own table. Each PE has a line for every sender in its system segment. */
#ifndef WEFT_PATH_PROVE_H
#define WEFT_PATH_PROVE_H

#include "path/path.h"

/* What one sender leaves at one receiver. */
struct prove_line {
    uint64_t flag;    /* number of the proof, stored behind the data */
    uint64_t counter; /* every proof adds to it */
    uint64_t data[6];
};

enum { PROVE_EVIDENCE_BYTES = 320 };

/* Proof `number` (1, 2 ...) from this PE to `to`: a place in the peer's system segment, its line
 * for this PE. What is wrong at this end is left in evidence ("" = nothing). */
void prove_send(struct remote to, uint64_t round, char evidence[PROVE_EVIDENCE_BYTES]);

/* After both ends have met: compares what PE `from` left in its line here. */
void prove_receive(const struct prove_line *line, int from, int me, uint64_t round,
                   char evidence[PROVE_EVIDENCE_BYTES]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Path test between two PEs: over the path's own table, a PE puts data, stores a flag after them,
 * runs an atomic and reads the data back. Each PE has a line for every sender in its system
 * segment. */
#ifndef WEFT_PATH_PROVE_H
#define WEFT_PATH_PROVE_H

#include "path/path.h"

/* What one sender writes at one receiver. */
struct prove_line {
    uint64_t flag;    /* number of the path test, stored after the data */
    uint64_t counter; /* every path test adds to it */
    uint64_t data[6];
};

enum { PROVE_EVIDENCE_BYTES = 320 };

/* Runs path test `round` (1, 2 ...) from this PE to `to`, its line in the peer's system segment.
 * atomics: the same peer, with the path of its atomics. `evidence` says what is wrong at this end;
 * "" if nothing. */
void prove_send(struct remote to, struct peer *atomics, uint64_t round,
                char evidence[PROVE_EVIDENCE_BYTES]);

/* Compares what PE `from` wrote into its line here, after a barrier of both PEs. */
void prove_receive(const struct prove_line *line, int from, int me, uint64_t round,
                   char evidence[PROVE_EVIDENCE_BYTES]);

#endif

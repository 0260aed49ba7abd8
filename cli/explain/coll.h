/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain coll OPERATION BYTES [PES|NODESxPES]`. */
#ifndef WEFT_CLI_EXPLAIN_COLL_H
#define WEFT_CLI_EXPLAIN_COLL_H

#include <stdbool.h>

struct coll_words {
    const char *words[3]; /* OPERATION BYTES [PES|NODESxPES] */
    int n;
    double gbit, latency_us; /* of the NIC of each GPU, and between nodes */
    bool network;            /* one of these two was given */
    bool json;
};
#define COLL_WORDS ((struct coll_words){.gbit = 400, .latency_us = 5})

/* Prints the algorithm of a collective on GPU memory, the estimated time of each algorithm, and
 * why. Returns the exit status: 2 for an unknown operation, size or number of PEs. Reads WEFT_COLL
 * and WEFT_COLL_SMS. */
int explain_coll(const struct coll_words *words);

#endif

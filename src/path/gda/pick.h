/* SPDX-License-Identifier: Apache-2.0 */
/* Which adapters each PE uses over path gda, of those that it could: a pure function of what all
 * PEs have told each other, so that every PE knows what all have without asking again. Tested by
 * tables. Knows nothing of verbs. */
#ifndef WEFT_PATH_GDA_PICK_H
#define WEFT_PATH_GDA_PICK_H

#include <stdint.h>

enum { GDA_CANDIDATES = 16, GDA_ADAPTERS_MOST = 8 };

/* What a PE tells: the adapters that it could use, the nearest first. */
struct gda_candidates {
    int32_t count;
    int32_t wanted; /* adapters; 0: its share. Not more than `count` */
    struct gda_candidate {
        uint64_t name; /* a number that is equal where the name is */
        uint32_t near; /* enum net_distance */
    } list[GDA_CANDIDATES];
};

/* Places in the list, in its order. */
struct gda_picked {
    uint32_t count; /* 0: it has none */
    uint32_t which[GDA_ADAPTERS_MOST];
};

/* all, node_of: [npes].
 *
 * A PE that wants a number gets so many, the nearest. Else its share: of those that are as near to
 * it as the nearest, and nearer to no other PE of its node, as many as there are for each PE to
 * which one of them is the nearest; where there are not enough of them, one, which the PEs of the
 * node take by turns. */
void gda_pick(const struct gda_candidates *all, const int *node_of, int npes, int pe,
              struct gda_picked *picked);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs each PE uses over path gda. A pure function of the exchange records of all PEs, so
 * every PE computes the same result without another exchange. Tested by tables. Knows nothing of
 * verbs. */
#ifndef WEFT_PATH_GDA_PICK_H
#define WEFT_PATH_GDA_PICK_H

#include <stdint.h>

enum { GDA_CANDIDATES = 16, GDA_ADAPTERS_MOST = 8 };

/* Exchange record of a PE: the NICs that it could use, nearest first. */
struct gda_candidates {
    int32_t count;
    int32_t requested; /* Requested NICs, at most `count`; 0: the PE's share. */
    struct gda_candidate {
        uint64_t name; /* hash of the device name */
        uint32_t near; /* enum net_distance */
    } list[GDA_CANDIDATES];
};

/* Picked NICs as ascending indices of the list. */
struct gda_picked {
    uint32_t count; /* 0: the PE has no NIC */
    uint32_t which[GDA_ADAPTERS_MOST];
};

/* Picks the NICs of one PE. all, node_of: [npes].
 *
 * A PE that requests a number gets that many of its nearest NICs. Otherwise it gets its share of
 * the NICs that are nearest to it and nearer to no other PE of its node: their number divided by
 * the number of PEs for which one of them is nearest. If that is less than one, it gets one; the
 * PEs of the node take them in rotation. */
void gda_pick_adapters(const struct gda_candidates *all, const int *node_of, int npes, int pe,
                       struct gda_picked *picked);

#endif

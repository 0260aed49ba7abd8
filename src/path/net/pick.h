/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs each PE takes, of those that it could use: a pure function of what all PEs have told
 * each other, so that every PE of a node comes to the same division without asking again. Tested by
 * tables. */
#ifndef WEFT_PATH_NET_PICK_H
#define WEFT_PATH_NET_PICK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NET_RAILS = 8,      /* NICs that a PE uses, at most */
    NET_CANDIDATES = 16 /* NICs that a PE tells of, at most */
};

/* A NIC as its PE tells of it. Names, networks and addresses are numbers that are equal where those
 * are. */
struct net_candidate {
    uint64_t name;
    uint64_t network; /* 0 = not told: taken to reach all others */
    uint64_t address; /* of the PE there; 0 = not told */
    uint32_t mbps;    /* 0 = not told */
    uint8_t distance; /* enum net_near */
    bool spreads;     /* more such NICs are known to give more */
};

/* What a PE tells. */
struct net_candidates {
    int32_t count;
    int32_t requested_rails; /* NICs that its large transfers are spread over; 0 = as many as are
                                its share */
    struct net_candidate list[NET_CANDIDATES]; /* better ones first */
};

struct net_picked {
    int first_rail;       /* in the list: what messages go over; -1 = none */
    int rails[NET_RAILS]; /* what large transfers go over, the nearest first */
    int count;
    int equally_near;    /* NICs as near as the nearest one */
    bool all_on_one_nic; /* all PEs of the node, more than one, are on this one NIC */
};

/* all, node_of: [npes].
 *
 * Home is a NIC of one network for all PEs, where networks are told and they have one in common:
 * the fastest such, in the order of PE 0. Large transfers go over the nearest NICs, home or not.
 * PEs of a node choose in their order, and among equally near ones take that which the fewest have
 * taken. A NIC whose address a PE of another node has too, such as a bridge to containers, is left
 * out while there are others. */
void net_pick(const struct net_candidates *all, const int *node_of, int npes, int pe,
              struct net_picked *picked);

#endif

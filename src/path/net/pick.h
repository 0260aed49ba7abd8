/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the NICs among the PEs of a node. It is a pure function of the exchanged records, so that
 * every PE of a node computes the same division without another exchange. It is tested by
 * tables. */
#ifndef WEFT_PATH_NET_PICK_H
#define WEFT_PATH_NET_PICK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NET_RAILS = 8,      /* NICs that a PE uses at most */
    NET_CANDIDATES = 16 /* NICs that a PE reports at most */
};

/* A NIC that its PE can use. Names, networks and addresses are hashes, equal where the texts
 * are. */
struct net_candidate {
    uint64_t name;
    uint64_t network; /* 0: unknown, and taken to reach all PEs */
    uint64_t address; /* the PE's address there; 0 if unknown */
    uint32_t mbps;    /* Mbit/s; 0 if unknown */
    uint8_t distance; /* enum net_distance */
    bool spreads;     /* A transfer over several such NICs is faster than over one. */
};

/* What one PE reports to all. */
struct net_candidates {
    int32_t count;
    int32_t requested_rails;                   /* NICs for large transfers; 0: the PE's share */
    struct net_candidate list[NET_CANDIDATES]; /* the best first */
};

struct net_picked {
    int first_rail;       /* index in `list` of the NIC that carries messages; -1 if none */
    int rails[NET_RAILS]; /* indices of the NICs for large transfers, the nearest first */
    int count;
    int equally_near;    /* number of NICs as near as the nearest one */
    bool all_on_one_nic; /* All PEs of the node, more than one, use one NIC. */
};

/* all, node_of: [npes].
 *
 * The first rail is on one network for all PEs if the networks are known and the PEs have one in
 * common: that of PE 0's fastest NIC. Large transfers use the nearest NICs, whether the first rail
 * is one of them or not. The PEs of a node choose in the order of their numbers; among equally near
 * NICs a PE takes the one that the fewest PEs have taken. A NIC whose address exists on another
 * node too, such as a container bridge, is left out while there are others. */
void net_pick(const struct net_candidates *all, const int *node_of, int npes, int pe,
              struct net_picked *picked);

#endif

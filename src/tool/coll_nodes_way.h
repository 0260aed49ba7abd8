/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft explain coll`: what a collective on GPU memory takes where the GPUs are on several
 * nodes, whose members the library's own steps combine (ops/coll/nodes_gpu.h). The steps run for
 * simulated PEs in virtual time (scale_coll.h). */
#ifndef WEFT_TOOL_COLL_NODES_WAY_H
#define WEFT_TOOL_COLL_NODES_WAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

enum { TOOL_NODES_PES = 16384, TOOL_NODES_PER_NODE = 64 };

struct tool_nodes_question {
    const char *operation;   /* of tool_coll_operation(); not alltoallv or alltoalls */
    uint64_t bytes;          /* of a vector of floats, or of a block; rounded up to 4 */
    int nodes, per_node;     /* at least two nodes */
    double gbit, latency_us; /* of the NIC of each GPU, and between nodes */
};

/* How the bytes go. */
enum tool_nodes_way {
    TOOL_NODES_TREE,     /* from node to node along a tree, whole */
    TOOL_NODES_CHAIN,    /* in slices and chunks from node to node */
    TOOL_NODES_BLOCKS,   /* each block once to each node */
    TOOL_NODES_DIRECT,   /* each block to its member */
    TOOL_NODES_PACKED,   /* those of a node for one member together */
    TOOL_NODES_RELAYED,  /* through the GPUs of the root's node, each by its own NIC */
    TOOL_NODES_BUFFERED, /* reduced by the CPUs, in a buffer */
    TOOL_NODES_FOLDED,   /* reduced by kernels, from node to node */
};

struct tool_nodes_answer {
    const char *operation;
    bool blocks_each; /* `bytes` is the size of a block from or for each PE */
    enum tool_nodes_way way;
    double us;
    double other_us; /* of a small reduction by kernels; negative: there is no other way */
    uint64_t messages, bytes_between; /* between nodes, flags among the messages */
    uint64_t nic_bytes;               /* that one NIC sends or receives at least, by any way */
    double floor_us;                  /* the time for these, and of one message */
    int nodes;                        /* whose steps were simulated; fewer than asked for: two
                                         such times were continued in a straight line */
    double host_us, host_gbps;        /* of a copy between GPU and host memory */
    double post_us, flag_us;          /* of a message to another node; of a flag in a node */
    double copy_gbps;                 /* of a copy in host memory */
    uint64_t buffer_bytes;            /* longest vector that is reduced in host memory */
    char rates[1200];                 /* origin of the rates within nodes */
};

/* WEFT_ERR_ARGUMENT: no such operation, or it is not estimated over nodes; WEFT_ERR_CONFIG: nor
 * with this WEFT_COLL. */
weft_status tool_nodes_way(const struct tool_nodes_question *question,
                           struct tool_nodes_answer *answer);

#endif

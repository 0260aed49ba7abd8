/* SPDX-License-Identifier: Apache-2.0 */
/* The time that dispatch and combine (<weft_experts.h>) should take on GPUs, term by term, by the
 * rates of collectives (ops/coll/rates.h), for experts chosen at random. Starts no job. */
#ifndef WEFT_TOOL_EXPERTS_WAY_H
#define WEFT_TOOL_EXPERTS_WAY_H

#include <stdbool.h>

#include <weft_experts.h>

enum { TOOL_EXPERTS_TERMS = 8 };

struct tool_experts_question {
    int pes;
    weft_experts_attr attr; /* node_members: PEs of each node; 0: all on one */
    double hbm_gbps;        /* of a GPU's memory, 10^9 bytes read and written per second */
    double nic_gbps;        /* of a GPU's NIC in one direction, 10^9 bytes per second */
    double nic_us;          /* latency between nodes, in microseconds */
};

/* Terms of a step follow one another. Bytes are those of the busiest GPU. */
struct tool_experts_term {
    const char *name;
    double link_bytes; /* out of the GPU, or into it, over the links of its node */
    double nic_bytes;  /* likewise over its NIC */
    double hbm_bytes;  /* read and written in its memory */
    double us;
};

struct tool_experts_step {
    struct tool_experts_term terms[TOOL_EXPERTS_TERMS];
    int n;
    double us;
};

struct tool_experts_answer {
    bool is_short, relays;
    unsigned parts;            /* in which results return */
    double pes, others, nodes; /* to which a token goes: PEs, other PEs, other nodes */
    double share; /* probability that a token goes to a PE that owns the most experts */
    struct tool_experts_step dispatch, combine;
    double long_dispatch_us, long_combine_us; /* in the long form */
    double kernel_us;                         /* of a kernel more: send and receive as two calls */
    double assign_us;                         /* of assigning rows, next to reading choices */
    char rates[1200];                         /* origin of the rates, see tool_coll_rates_here() */
};

/* Fills *answer. Errors: those of weft_experts_sizes(), with `function` in the message. */
weft_status tool_experts_way(const char *function, const struct tool_experts_question *question,
                             struct tool_experts_answer *answer);

#endif

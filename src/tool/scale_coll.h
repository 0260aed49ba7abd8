/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft bench scale` and `weft explain coll`: collectives by node for many PEs in one process,
 * in host or GPU memory, and the memory of the tables that a PE has for all others. */
#ifndef WEFT_TOOL_SCALE_COLL_H
#define WEFT_TOOL_SCALE_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

struct tool_scale_job {
    int pes, per_node;
    size_t elements;              /* of 4 bytes, of a vector or block */
    double flag_ns;               /* until a flag is seen in its node */
    double copy_ns;               /* for each byte, in a node */
    double post_ns;               /* that a PE needs for a message to another node */
    double latency_ns;            /* of such a message */
    double byte_ns;               /* of a PE's link to other nodes */
    bool gpus;                    /* in GPU memory; then also: */
    double put_ns;                /* until a put to a GPU of the node moves its first byte */
    double gpu_byte_ns;           /* of a GPU's links in the node */
    double kernel_ns;             /* until a kernel has combined its first element */
    double host_ns, host_byte_ns; /* of a copy between GPU and host memory, and for each byte */
    size_t buffer_bytes;          /* longest vector that is reduced in host memory */
    bool no_contents;             /* memory is not copied, so `right` says nothing of bits */
};

enum tool_scale_collective {
    TOOL_SCALE_SYNC,  /* weft_sync(), the last step of weft_barrier() */
    TOOL_SCALE_ALLOC, /* weft_alloc(): two comparisons of records */
    TOOL_SCALE_BROADCAST,
    TOOL_SCALE_ALLREDUCE,     /* sum of floats */
    TOOL_SCALE_ALLREDUCE_AVG, /* average of floats */
    TOOL_SCALE_ALLREDUCE_MIN, /* least of int32_t */
    TOOL_SCALE_BENCHED,       /* those of `weft bench scale`; the others on GPU memory only: */
    TOOL_SCALE_ALLGATHER = TOOL_SCALE_BENCHED,
    TOOL_SCALE_REDUCESCATTER, /* sum of floats */
    TOOL_SCALE_REDUCE,
    TOOL_SCALE_ALLTOALL,
    TOOL_SCALE_GATHER,
    TOOL_SCALE_SCATTER,
    TOOL_SCALE_COLLECTIVES
};

/* The costs of GPUs by the rates of `weft explain coll`, and of copies between GPU and host memory.
 * Writes the origin of the rates. */
void tool_scale_gpu_costs(struct tool_scale_job *job, char *text, size_t bytes);

/* Whether it is a reduction of GPU memory that passes through a buffer in host memory. */
bool tool_scale_is_buffered(const struct tool_scale_job *job,
                            enum tool_scale_collective collective);

struct tool_scale_result {
    uint64_t in_node, between; /* messages: flags, and data with or without a flag */
    uint64_t off_rail;         /* of those between nodes: to a PE of another rank in its node */
    uint64_t bytes_between;
    double us;  /* until the last PE has ended */
    bool right; /* every PE has the bits of the serial result */
};

/* Performs one collective. WEFT_ERR_TIMEOUT: PEs wait for each other. */
weft_status tool_scale_collective(const struct tool_scale_job *job,
                                  enum tool_scale_collective collective,
                                  struct tool_scale_result *result);

/* Bytes of the tables of one PE whose size follows the number of PEs of the job. */
struct tool_scale_memory {
    uint64_t boot;   /* node of every PE, names of the hosts */
    uint64_t team;   /* a team of all PEs */
    uint64_t flags;  /* mailboxes of such a team, in shared memory: pages are used when touched */
    uint64_t device; /* entries of peers for device code */
    uint64_t paths;  /* choice of paths for host memory, and two contexts */
    uint64_t gpu;    /* with GPU memory: its paths, contexts and pairs of the node */
    uint64_t nics;   /* tables of the paths over NICs, with one NIC */
};

struct tool_scale_memory tool_scale_memory(int pes, int per_node, int nodes);

#endif

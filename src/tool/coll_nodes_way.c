/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_nodes_way.h. */
#include "tool/coll_nodes_way.h"

#include "base/config.h"
#include "base/status.h"
#include "ops/coll/choose.h"
#include "ops/coll/nodes_gpu.h"
#include "tool/coll_way.h"
#include "tool/scale_coll.h"

#include <string.h>

/* Of more nodes in a row, the time is continued in a straight line from two numbers of nodes: each
 * further node adds the same steps. */
enum { NODES_FEW = 24, NODES_MANY = 40 };

/* Of a host: until a flag is seen in its node, a copy, and what a message costs its sender.
 * Assumed; `weft bench scale` measures the last two. */
static const double FLAG_NS = 200, COPY_NS = 0.1, POST_NS = 500;

static const struct {
    enum coll_what what;
    enum tool_scale_collective simulated;
} operations[] = {{COLL_BROADCAST, TOOL_SCALE_BROADCAST},
                  {COLL_ALLGATHER, TOOL_SCALE_ALLGATHER},
                  {COLL_COLLECT, TOOL_SCALE_ALLGATHER},
                  {COLL_ALLTOALL, TOOL_SCALE_ALLTOALL},
                  {COLL_GATHER, TOOL_SCALE_GATHER},
                  {COLL_SCATTER, TOOL_SCALE_SCATTER},
                  {COLL_ALLREDUCE, TOOL_SCALE_ALLREDUCE},
                  {COLL_REDUCE, TOOL_SCALE_REDUCE},
                  {COLL_REDUCESCATTER, TOOL_SCALE_REDUCESCATTER}};

static enum tool_nodes_way way_of(const struct tool_scale_job *job,
                                  enum tool_scale_collective simulated)
{
    switch (simulated) {
    case TOOL_SCALE_BROADCAST:
        return job->elements * sizeof(float) <= CHUNK_LEAST_BYTES ? TOOL_NODES_TREE
                                                                  : TOOL_NODES_CHAIN;
    case TOOL_SCALE_ALLGATHER:
        return TOOL_NODES_BLOCKS;
    case TOOL_SCALE_ALLTOALL:
        return coll_is_packed(job->pes / job->per_node, job->per_node,
                              job->elements * sizeof(float))
                   ? TOOL_NODES_PACKED
                   : TOOL_NODES_DIRECT;
    case TOOL_SCALE_GATHER:
    case TOOL_SCALE_SCATTER:
        return job->per_node > 1 &&
                       coll_is_relayed(job->pes - job->per_node, job->elements * sizeof(float))
                   ? TOOL_NODES_RELAYED
                   : TOOL_NODES_DIRECT;
    default:
        return tool_scale_is_buffered(job, simulated) ? TOOL_NODES_BUFFERED : TOOL_NODES_FOLDED;
    }
}

/* Bytes that the busiest NIC must send or receive, whatever the algorithm, where the GPUs of a node
 * share the work. */
static double nic_bytes_of(const struct tool_nodes_question *q, enum coll_what what)
{
    const double bytes = (double)q->bytes, far = (double)(q->nodes - 1) * q->per_node;
    switch (what) {
    case COLL_BROADCAST:
    case COLL_REDUCE:
        return bytes / q->per_node;
    case COLL_ALLREDUCE:
        return 2 * bytes / q->per_node * (q->nodes - 1) / q->nodes;
    case COLL_ALLGATHER:
    case COLL_COLLECT:
    case COLL_REDUCESCATTER:
    case COLL_GATHER:
    case COLL_SCATTER:
        return bytes * far / q->per_node;
    default:
        return bytes * far;
    }
}

static weft_status simulate(struct tool_scale_job job, int nodes,
                            enum tool_scale_collective simulated, struct tool_scale_result *result)
{
    job.pes = nodes * job.per_node;
    return tool_scale_collective(&job, simulated, result);
}

/* Fills in the time and the messages. */
static weft_status estimate(const struct tool_scale_job *job, int nodes, bool in_a_row,
                            enum tool_scale_collective simulated, struct tool_nodes_answer *a,
                            double *us)
{
    struct tool_scale_result few, many;
    a->nodes = in_a_row && nodes > NODES_MANY ? NODES_MANY : nodes;
    weft_status status = simulate(*job, a->nodes, simulated, &many);
    *us = many.us;
    a->messages = many.between;
    a->bytes_between = many.bytes_between;
    if (status || a->nodes == nodes)
        return status;
    status = simulate(*job, NODES_FEW, simulated, &few);
    if (status)
        return status;
    const double more = (double)(nodes - NODES_MANY) / (NODES_MANY - NODES_FEW);
    *us += (many.us - few.us) * more;
    a->messages += (uint64_t)((double)(many.between - few.between) * more);
    a->bytes_between += (uint64_t)((double)(many.bytes_between - few.bytes_between) * more);
    return WEFT_OK;
}

weft_status tool_nodes_way(const struct tool_nodes_question *q, struct tool_nodes_answer *a)
{
    const size_t count = sizeof operations / sizeof *operations;
    struct tool_scale_job job = {.pes = q->nodes * q->per_node,
                                 .per_node = q->per_node,
                                 .elements = (size_t)(q->bytes + 3) / 4,
                                 .flag_ns = FLAG_NS,
                                 .copy_ns = COPY_NS,
                                 .post_ns = POST_NS,
                                 .latency_ns = q->latency_us * 1000,
                                 .byte_ns = 8 / q->gbit,
                                 .no_contents = true};
    size_t i = 0;
    *a = (struct tool_nodes_answer){.other_us = -1};
    while (i < count && strcmp(coll_names[operations[i].what], q->operation) != 0)
        i++;
    if (i == count)
        return base_fail(WEFT_ERR_ARGUMENT, "%s over several nodes is not estimated", q->operation);
    if (config_choice(CONFIG_COLL) == COLL_ALGO_COPIES)
        return base_fail(WEFT_ERR_CONFIG, "WEFT_COLL=copies over several nodes is not estimated, "
                                          "because no kernel combines then; unset it");
    const enum coll_what what = operations[i].what;
    const enum tool_scale_collective simulated = operations[i].simulated;
    tool_scale_gpu_costs(&job, a->rates, sizeof a->rates);
    if (q->per_node == 1 && tool_scale_is_buffered(&job, simulated))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s of %zu bytes over nodes of one GPU is not estimated: reductions of "
                         "up to %zu bytes are done in host memory",
                         q->operation, job.elements * sizeof(float), job.buffer_bytes);
    a->operation = coll_names[what];
    a->blocks_each = what != COLL_ALLREDUCE && what != COLL_BROADCAST && what != COLL_REDUCE;
    a->way = way_of(&job, simulated);
    a->host_us = job.host_ns / 1000;
    a->host_gbps = 1 / job.host_byte_ns;
    a->post_us = POST_NS / 1000;
    a->flag_us = FLAG_NS / 1000;
    a->copy_gbps = 1 / COPY_NS;
    a->buffer_bytes = job.buffer_bytes;
    a->nic_bytes = (uint64_t)nic_bytes_of(q, what);
    a->floor_us = q->latency_us + (double)a->nic_bytes * job.byte_ns / 1000;
    const bool in_a_row = a->way != TOOL_NODES_TREE && a->way != TOOL_NODES_BUFFERED &&
                          what != COLL_GATHER && what != COLL_SCATTER;
    if (a->way == TOOL_NODES_BUFFERED) {
        struct tool_scale_job by_kernels = job;
        by_kernels.buffer_bytes = 0;
        weft_status status = estimate(&by_kernels, q->nodes, true, simulated, a, &a->other_us);
        if (status)
            return status;
    } else {
        job.buffer_bytes = 0; /* fewer nodes would use it */
    }
    return estimate(&job, q->nodes, in_a_row, simulated, a, &a->us);
}

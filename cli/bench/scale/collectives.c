/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives by node of a job of many PEs (tool/scale_coll.h), and the tables of a PE. See
 * scale.h. */
#include "bench/scale/scale.h"

#include <stdio.h>

const char *const scale_collective_names[TOOL_SCALE_BENCHED] = {
    "sync", "alloc", "broadcast", "allreduce", "allreduce_avg", "allreduce_min"};

/* Where each PE has a node to itself, or all share one, collectives do not work by node. */
static bool is_by_node(const struct scale_job *job, const struct scale_outcome *outcome)
{
    return outcome->hosts > 1 && job->per_host > 1 && outcome->hosts < job->pes;
}

bool scale_run_collectives(const struct scale_job *job, struct scale_outcome *outcome)
{
    const struct scale_costs *costs = &job->costs;
    struct tool_scale_job simulated = {.pes = job->pes,
                                       .per_node = job->per_host,
                                       .elements = job->elements,
                                       .flag_ns = costs->flag_ns,
                                       .copy_ns = costs->copy_ns,
                                       .post_ns = costs->between_hosts.up.send_ns,
                                       .latency_ns = costs->latency_ns,
                                       .byte_ns = costs->byte_ns};
    char origin[SCALE_ORIGIN_BYTES];
    if (job->gpus)
        tool_scale_gpu_costs(&simulated, origin, sizeof origin);
    outcome->memory = tool_scale_memory(job->pes, job->per_host, outcome->hosts);
    for (int i = 0; i < TOOL_SCALE_BENCHED && is_by_node(job, outcome); i++) {
        weft_status status = tool_scale_collective(&simulated, (enum tool_scale_collective)i,
                                                   &outcome->collectives[i]);
        if (status) {
            fprintf(stderr, "weft bench scale: %s: %s\n", scale_collective_names[i],
                    weft_last_error());
            return false;
        }
        outcome->has_collective[i] = true;
        outcome->right &= outcome->collectives[i].right;
    }
    return true;
}

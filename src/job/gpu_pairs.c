/* SPDX-License-Identifier: Apache-2.0 */
/* Which PEs load and store each other's GPU memory. Only PEs of one node can, so each PE keeps a
 * bit for each pair of its node: rows of the PEs that load and store, in the order of the node's
 * PEs. */
#include "boot/agree.h"
#include "gpu/gpu.h"
#include "job/job.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static size_t row_bytes(int node_pes)
{
    return ((size_t)node_pes + 7) / 8;
}

size_t job_gpu_pairs_bytes(int node_pes)
{
    return (size_t)node_pes * row_bytes(node_pes);
}

/* PEs of the node that has most; 0: no memory. */
static int count_most_pes(const struct boot *boot)
{
    int *counts = calloc((size_t)boot->nodes, sizeof *counts), most = 0;
    for (int pe = 0; counts && pe < boot->npes; pe++) {
        const int count = ++counts[boot->node_of[pe]];
        most = count > most ? count : most;
    }
    free(counts);
    return most;
}

weft_status job_gpu_pairs(struct weft_job *job)
{
    const struct boot *boot = job->boot;
    const size_t bytes = row_bytes(boot->local_npes);
    const size_t sent = row_bytes(count_most_pes(boot)); /* equal at all PEs */
    uint8_t *own = calloc(1, sent + 1), *all = calloc((size_t)boot->npes, sent);
    if (!job->gpu_pairs)
        job->gpu_pairs = calloc(1, job_gpu_pairs_bytes(boot->local_npes));
    weft_status status =
        sent && own && all && job->gpu_pairs
            ? WEFT_OK
            : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", job->npes);
    for (int slot = 0; slot < boot->local_npes && !status; slot++)
        if (job_direct(job, WEFT_GPU, boot->local_pes[slot]))
            own[slot / 8] |= (uint8_t)(1u << slot % 8);
    status = boot_agree(job->boot, status);
    if (!status)
        status = job->boot->ops->allgather(job->boot, own, all, sent);
    for (int slot = 0; slot < boot->local_npes && !status; slot++)
        memcpy(job->gpu_pairs + (size_t)slot * bytes, all + (size_t)boot->local_pes[slot] * sent,
               bytes);
    free(own);
    free(all);
    return status;
}

bool job_gpu_team_direct(const struct weft_team *team)
{
    const struct weft_job *job = team->job;
    const size_t bytes = row_bytes(job->boot->local_npes);
    for (int i = 0; i < team->n; i++)
        if (job->gpu->slot_of[team->pes[i]] < 0) /* a PE of another node */
            return false;
    for (int i = 0; i < team->n; i++) {
        const uint8_t *row = job->gpu_pairs + (size_t)job->gpu->slot_of[team->pes[i]] * bytes;
        for (int k = 0; k < team->n; k++) {
            const int slot = job->gpu->slot_of[team->pes[k]];
            if (!(row[slot / 8] >> slot % 8 & 1))
                return false;
        }
    }
    return true;
}

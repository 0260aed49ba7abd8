/* SPDX-License-Identifier: Apache-2.0 */
/* `weft doctor` started as the PEs of a job: one PE of each node examines it and PE 0 gets the
 * reports. Uses only the bootstrap of the job. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/boot.h"

static weft_status open_job(bool requested, struct boot **boot)
{
    *boot = NULL;
    /* RANK and similar variables can be set for whole containers, so that they do not start a
     * job by themselves. */
    return requested || boot_was_launched() ? boot_open(boot, NULL, 0) : WEFT_OK;
}

bool doctor_join_job(bool requested, struct doctor_job *job)
{
    *job = (struct doctor_job){.examines = true, .n_nodes = 1};
    if (open_job(requested, &job->boot)) {
        fprintf(stderr, "weft doctor: only this machine is examined: %s\n", weft_last_error());
        return !requested;
    }
    if (job->boot && job->boot->npes > 1) {
        job->silent = job->boot->pe != 0;
        job->examines = job->boot->local_pe == 0;
        job->n_nodes = (size_t)job->boot->nodes;
        return true;
    }
    doctor_leave_job(job, true);
    if (!requested)
        return true;
    fprintf(stderr, "weft doctor: --job: this process is not a PE of a job of several PEs\n");
    return false;
}

void doctor_leave_job(struct doctor_job *job, bool clean)
{
    if (job->boot)
        job->boot->ops->close(job->boot, clean);
    job->boot = NULL;
    job->examines = true;
    job->silent = false;
}

/* Gathers the texts of all PEs, each padded to *bytes. */
static weft_status gather_documents(struct boot *boot, const char *mine, char **all, size_t *bytes)
{
    size_t own = strlen(mine) + 1, *lengths = calloc((size_t)boot->npes, sizeof *lengths);
    weft_status status = lengths ? boot->ops->allgather(boot, &own, lengths, sizeof own)
                                 : base_fail(WEFT_ERR_NO_MEMORY, "no memory for the reports");
    *bytes = own;
    for (int pe = 0; !status && pe < boot->npes; pe++)
        *bytes = lengths[pe] > *bytes ? lengths[pe] : *bytes;
    free(lengths);
    if (status)
        return status;
    char *padded = calloc(1, *bytes);
    *all = calloc((size_t)boot->npes, *bytes);
    if (padded && *all) {
        memcpy(padded, mine, own);
        status = boot->ops->allgather(boot, padded, *all, *bytes);
    } else {
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for reports of %zu bytes", *bytes);
    }
    free(padded);
    return status;
}

weft_status doctor_gather_job(struct doctor_job *job, const char *report, struct cluster *cluster)
{
    struct boot *boot = job->boot;
    char *all = NULL;
    size_t bytes = 0;
    weft_status status = gather_documents(boot, report ? report : "", &all, &bytes);
    cluster->nodes = status || job->silent ? NULL : calloc(job->n_nodes, sizeof *cluster->nodes);
    for (int pe = 0; cluster->nodes && pe < boot->npes; pe++) {
        struct node *node = &cluster->nodes[boot->node_of[pe]];
        const char *text = all + (size_t)pe * bytes;
        if (!*text)
            continue;
        if (boot->hosts)
            snprintf(node->name, sizeof node->name, "%s", boot->hosts[boot->node_of[pe]]);
        doctor_node_read(node, text);
    }
    cluster->n_nodes = cluster->nodes ? job->n_nodes : 0;
    free(all);
    return status;
}

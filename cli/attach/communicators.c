/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL communicators of a job's processes, in `weft attach`. */
#include "attach/attach.h"

#include <stdlib.h>

#include "colour.h"

void attach_communicators_read(int pid, const struct boxes_job *job, struct communicators *all)
{
    int *pids = calloc((size_t)job->count + 1, sizeof *pids), n = 0;
    if (!pids)
        return;
    pids[n++] = pid;
    for (int i = 0; i < job->count; i++) {
        int known = 0;
        while (known < n && pids[known] != job->pes[i].pid)
            known++;
        if (known == n && job->pes[i].present)
            pids[n++] = job->pes[i].pid;
    }
    communicators_read(pids, n, all);
    free(pids);
}

static void print_calls(FILE *to, const struct communicators *all, int i)
{
    const char *before = ": ";
    for (int f = 0; f < COMMUNICATORS_FUNCTIONS; f++) {
        uint64_t calls = all->ranks[i].calls[f], behind = communicators_behind(all, i, f);
        if (!calls && !behind)
            continue;
        fprintf(to, "%s%s %llu", before, communicators_function(f), (unsigned long long)calls);
        before = ", ";
        if (behind)
            fprintf(to, " %s(%llu behind)%s", colour_begin(COLOUR_FAULT),
                    (unsigned long long)behind, colour_end(COLOUR_FAULT));
    }
    fputc('\n', to);
}

void attach_communicators_text(FILE *to, const struct communicators *all)
{
    for (int i = 0; i < all->count; i++) {
        const struct communicator *one = &all->ranks[i];
        if (!i || one[-1].hash != one->hash)
            fprintf(to, "\nNCCL communicator %016llx%s%s of %d ranks, calls enqueued:\n",
                    (unsigned long long)one->hash, one->name[0] ? ", " : "", one->name, one->size);
        fprintf(to, "    rank %d  pid %d  GPU %d  %s", one->rank, one->pid, one->device,
                one->state);
        print_calls(to, all, i);
        if (one->failure[0])
            fprintf(to, "        %sfailed%s: %s\n", colour_begin(COLOUR_FAULT),
                    colour_end(COLOUR_FAULT), one->failure);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The text output of `weft attach`. */
#include "attach/attach.h"

#include <unistd.h>

#include "colour.h"

static void print_wait(FILE *to, const struct boxes_wait *wait, uint64_t now_ns)
{
    fprintf(to, "    waiting %.1f s in %s", attach_seconds(now_ns, wait->since_ns),
            wait->operation);
    if (wait->peer >= 0)
        fprintf(to, " for PE %d", wait->peer);
    fprintf(to, ": %s\n", wait->what);
}

static void print_history(FILE *to, const struct boxes_pe *pe, int most)
{
    int first = pe->n_past > most ? pe->n_past - most : 0;
    if (first == pe->n_past)
        return;
    fprintf(to, "    last operations:");
    for (int i = first; i < pe->n_past; i++) {
        fprintf(to, " %s", pe->past[i].operation);
        if (pe->past[i].bytes)
            fprintf(to, "(%llu B)", (unsigned long long)pe->past[i].bytes);
    }
    fprintf(to, "  (%llu in all)\n", (unsigned long long)pe->past_count);
}

static void print_ring(FILE *to, const struct boxes_proxy *ring, uint64_t now_ns)
{
    fprintf(to, "    proxy");
    if (ring->ring)
        fprintf(to, ", ring %d", ring->ring);
    fprintf(to, ": %llu operations executed, %llu complete", (unsigned long long)ring->carried,
            (unsigned long long)ring->completed);
    if (ring->since_ns)
        fprintf(to, "; %s in progress for %.1f s, at least %llu queued behind it", ring->under_way,
                attach_seconds(now_ns, ring->since_ns), (unsigned long long)ring->behind);
    fputc('\n', to);
}

static void print_pe(FILE *to, const struct boxes_pe *pe, uint64_t now_ns, int history)
{
    if (!pe->present) {
        fprintf(to, "PE ?  %s\n", attach_state(pe));
        return;
    }
    fprintf(to, "PE %d  pid %d  %s  %s for %.1f s\n", pe->pe, pe->pid, pe->program,
            attach_state(pe), attach_seconds(now_ns, pe->start_ns));
    if (pe->failure[0])
        fprintf(to, "    %sfailed%s: %s\n", colour_begin(COLOUR_FAULT), colour_end(COLOUR_FAULT),
                pe->failure);
    for (int i = 0; i < pe->n_waits; i++)
        print_wait(to, &pe->waits[i], now_ns);
    for (int i = 0; i < pe->n_kernels; i++)
        fprintf(to, "    %s\n", pe->kernels[i]);
    for (int i = 0; i < pe->n_rings; i++)
        print_ring(to, &pe->rings[i], now_ns);
    for (int i = 0; i < pe->n_paths; i++)
        fprintf(to, "    path %s: %llu operations, %llu bytes%s%s\n", pe->paths[i].name,
                (unsigned long long)pe->paths[i].operations, (unsigned long long)pe->paths[i].bytes,
                pe->paths[i].last[0] ? ", last: " : "", pe->paths[i].last);
    print_history(to, pe, history);
}

/* Prints which node this is when the job has several: PEs of other nodes are not visible here. */
static void print_job_host(FILE *to, const struct boxes_job *job)
{
    char host[256] = "";
    const struct boxes_pe *any = NULL;
    for (int i = 0; i < job->count; i++)
        any = job->pes[i].present ? &job->pes[i] : any;
    if (!any || any->npes <= job->count)
        return;
    gethostname(host, sizeof host - 1);
    fprintf(to,
            "node %d of the job, on %s: %d of its %d PEs; `weft attach` on the other hosts shows "
            "theirs\n",
            any->node, host, job->count, any->npes);
}

void attach_text(FILE *to, const struct boxes_job *job, int history)
{
    char sentence[512];
    print_job_host(to, job);
    for (int i = 0; i < job->count; i++)
        print_pe(to, &job->pes[i], job->now_ns, history);
    fprintf(to, "\nwho waits for whom:\n");
    for (int i = 0; i < job->count; i++) {
        const struct boxes_pe *pe = &job->pes[i];
        int whom = attach_waits_for(job, i);
        if (whom >= 0)
            fprintf(to, "    PE %d --%s--> PE %d\n", pe->pe, pe->waits[0].operation,
                    job->pes[whom].pe);
        else if (whom == ATTACH_SOMEBODY && pe->waits[0].peer >= 0)
            fprintf(to, "    PE %d --%s--> PE %d, on another node\n", pe->pe,
                    pe->waits[0].operation, pe->waits[0].peer);
        else if (whom == ATTACH_SOMEBODY)
            fprintf(to, "    PE %d --%s--> ?\n", pe->pe, pe->waits[0].operation);
    }
    attach_diagnose(job, sentence, sizeof sentence);
    fprintf(to, "\n%s%s%s\n", colour_begin(COLOUR_HEADING), sentence, colour_end(COLOUR_HEADING));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What other processes can read of the paths of this PE: the choices and their reasons, in the black
 * box (box/choices.h), for `weft explain --job`. Decides nothing. */
#include "job/job.h"

#include "box/choices.h"
#include "gpu/stripe.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_LARGE "; large copies: "

_Static_assert((int)BOX_KINDS == (int)MEMORY_KINDS, "the box has a place for every kind of memory");

static struct box_choices *shown(const struct weft_job *job)
{
    return (struct box_choices *)(job->segments[SEG_SYSTEM].base + job->box->choices_offset);
}

static struct box_choice *shown_choice(const struct weft_job *job, weft_kind kind, int pe)
{
    return &shown(job)->choices[(size_t)kind * (size_t)job->npes + (size_t)pe];
}

/* Why the path that is taken is taken, with what is known of large copies. */
static void show_taken(struct weft_job *job, weft_kind kind, int pe, const char *why)
{
    struct box_choice *to = shown_choice(job, kind, pe);
    char text[2 * BOX_REASON_BYTES], stripes[200] = "";
    enum path_id path = job->paths.choices[kind][pe].path;
    if (path == PATH_NONE)
        return;
    if (kind == WEFT_GPU && job->gpu)
        gpu_stripes_text(job->gpu, job->gpu->slot_of[pe], stripes, sizeof stripes);
    snprintf(text, sizeof text, "%.*s%s%s", BOX_REASON_BYTES / 2, why,
             stripes[0] ? SHOWN_LARGE : "", stripes);
    to->why[path] = box_reason(shown(job), text);
}

/* By whichever thread has made the copy that told; the reason from before is there, without an end. */
void job_show_stripes(void *of, int pe)
{
    struct weft_job *job = of;
    enum path_id path = job->paths.choices[WEFT_GPU][pe].path;
    char why[BOX_REASON_BYTES];
    pthread_mutex_lock(&job->show_lock);
    uint16_t number = path == PATH_NONE ? 0 : shown_choice(job, WEFT_GPU, pe)->why[path];
    if (number) {
        snprintf(why, sizeof why, "%s", shown(job)->reasons[number - 1]);
        char *large = strstr(why, SHOWN_LARGE);
        if (large)
            *large = '\0';
        show_taken(job, WEFT_GPU, pe, why);
    }
    pthread_mutex_unlock(&job->show_lock);
}

void job_show_choice(struct weft_job *job, weft_kind kind, int pe, const struct path_facts *facts)
{
    const struct path_choice *choice = &job->paths.choices[kind][pe];
    struct box_choice *to = shown_choice(job, kind, pe);
    pthread_mutex_lock(&job->show_lock);
    for (int path = 0; path < PATH_COUNT; path++)
        if (path == (int)choice->path)
            show_taken(job, kind, pe,
                       path_why((enum path_id)path, facts, &job->order, choice->path));
        else if (!(choice->failed & 1u << path)) /* job_show_failed() has said more of those */
            to->why[path] = box_reason(
                shown(job), path_why((enum path_id)path, facts, &job->order, choice->path));
    to->path = (uint8_t)choice->path;
    pthread_mutex_unlock(&job->show_lock);
    job_show_proof(job, kind, pe);
}

void job_show_proof(struct weft_job *job, weft_kind kind, int pe)
{
    const struct path_choice *choice = &job->paths.choices[kind][pe];
    struct box_choice *to = shown_choice(job, kind, pe);
    to->failed = (uint16_t)choice->failed;
    to->proof = choice->proven ? BOX_PROOF_GOOD : choice->failed ? BOX_PROOF_BAD : BOX_PROOF_NONE;
}

void job_show_failed(struct weft_job *job, weft_kind kind, int pe, enum path_id path,
                     const char *evidence)
{
    char text[BOX_REASON_BYTES];
    snprintf(text, sizeof text, "its proof failed: %s", evidence);
    pthread_mutex_lock(&job->show_lock);
    shown_choice(job, kind, pe)->why[path] = box_reason(shown(job), text);
    pthread_mutex_unlock(&job->show_lock);
}

void job_show_found(struct weft_job *job, weft_kind kind, int pe, const char *found)
{
    struct path_choice *choice = &job->paths.choices[kind][pe];
    struct box_choices *all = shown(job);
    uint16_t *why = &shown_choice(job, kind, pe)->why[choice->path];
    char text[BOX_REASON_BYTES];
    size_t used = strlen(choice->reason);
    pthread_mutex_lock(&job->show_lock);
    snprintf(text, sizeof text, "%.*s%s%s", BOX_REASON_BYTES - PATH_FOUND_BYTES,
             *why ? all->reasons[*why - 1] : "", *why ? "; " : "", found);
    *why = box_reason(all, text);
    pthread_mutex_unlock(&job->show_lock);
    snprintf(choice->reason + used, sizeof choice->reason - used, "; %s", found);
}

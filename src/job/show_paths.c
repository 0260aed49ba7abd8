/* SPDX-License-Identifier: Apache-2.0 */
/* What other processes can read of the paths of this PE: the choices and their reasons, in the black
 * box (box/choices.h), for `weft explain --job`. Decides nothing. */
#include "job/job.h"

#include "box/choices.h"

#include <stdio.h>

_Static_assert((int)BOX_KINDS == (int)MEMORY_KINDS, "the box has a place for every kind of memory");

static struct box_choices *shown(const struct weft_job *job)
{
    return (struct box_choices *)(job->segments[SEG_SYSTEM].base + job->box->choices_offset);
}

static struct box_choice *shown_choice(const struct weft_job *job, weft_kind kind, int pe)
{
    return &shown(job)->choices[(size_t)kind * (size_t)job->npes + (size_t)pe];
}

void job_show_choice(struct weft_job *job, weft_kind kind, int pe, const struct path_facts *facts)
{
    const struct path_choice *choice = &job->paths.choices[kind][pe];
    struct box_choice *to = shown_choice(job, kind, pe);
    for (int path = 0; path < PATH_COUNT; path++)
        if (!(choice->failed & 1u << path)) /* job_show_failed() has said more of those */
            to->why[path] = box_reason(
                shown(job), path_why((enum path_id)path, facts, &job->order, choice->path));
    to->path = (uint8_t)choice->path;
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
    shown_choice(job, kind, pe)->why[path] = box_reason(shown(job), text);
}

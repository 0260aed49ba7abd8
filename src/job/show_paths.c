/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the paths of this PE to the program, and publishes the choices and their reasons in the
 * black box (box/choices.h) for `weft explain --job`. Decides nothing. */
#include "job/job.h"

#include "base/text.h"
#include "box/choices.h"
#include "gpu/multipath/stripe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MORE_BYTES = PATH_FOUND_BYTES + 400 };

_Static_assert((int)BOX_KINDS == (int)MEMORY_KINDS,
               "the box has an entry for every kind of memory");

static struct box_choices *published_choices(const struct weft_job *job)
{
    return (struct box_choices *)(job->segments[SEG_SYSTEM].base + job->box->choices_offset);
}

static struct box_choice *published_choice(const struct weft_job *job, weft_kind kind, int pe)
{
    return &published_choices(job)->choices[(size_t)kind * (size_t)job->npes + (size_t)pe];
}

/* --------------------------------------------------------------------------------------- texts */

struct job_text {
    struct job_text *next;
    char text[];
};

/* Large jobs have many pairs with few different texts. The last ones are looked at, so that a job
 * whose pairs have a text each does not compare all of them. */
const char *job_share_text(struct weft_job *job, const char *text)
{
    enum { LOOKED_AT = 32 };
    struct job_text **at = &job->choosing.texts;
    for (int i = 0; i < LOOKED_AT && *at && strcmp((*at)->text, text) != 0; i++)
        at = &(*at)->next;
    struct job_text *one = *at && strcmp((*at)->text, text) == 0 ? *at : NULL;
    if (one) {
        *at = one->next;
    } else {
        size_t bytes = strlen(text) + 1;
        one = malloc(sizeof *one + bytes);
        if (!one)
            return "no private memory for the reason";
        memcpy(one->text, text, bytes);
    }
    one->next = job->choosing.texts;
    job->choosing.texts = one;
    return one->text;
}

void job_free_texts(struct weft_job *job)
{
    for (struct job_text *one = job->choosing.texts, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    job->choosing.texts = NULL;
}

/* ------------------------------------------------------------------------------------- choices */

/* Text that is appended to the reason of the choice: "; ...", or "". */
static void format_details(struct weft_job *job, weft_kind kind, int pe,
                           char text[SHOWN_MORE_BYTES])
{
    const struct path_choice *choice = &job->paths.choices[kind][pe];
    enum path_id atomics = job->paths.atomics[kind];
    char stripes[200] = "", other[120] = "";
    if (kind == WEFT_GPU && job->gpu)
        gpu_stripes_text(job->gpu, job->gpu->slot_of[pe], stripes, sizeof stripes);
    if (atomics != PATH_NONE && atomics != choice->path)
        snprintf(other, sizeof other,
                 "; atomics over path %s, because its atomics are atomic only with each other",
                 path_name(atomics));
    else if (job_lacks_atomics(job, kind, pe))
        snprintf(other, sizeof other, "; atomics over path %s, because the adapters have none",
                 path_name(job_atomics_path(job, kind, pe)));
    snprintf(text, SHOWN_MORE_BYTES, "%s%s%s%s%s", choice->found[0] ? "; " : "", choice->found,
             stripes[0] ? "; large copies: " : "", stripes, other);
}

/* Publishes the reason of the chosen path with all findings. */
static void show_taken(struct weft_job *job, weft_kind kind, int pe)
{
    const struct path_choice *choice = &job->paths.choices[kind][pe];
    char text[BOX_REASON_BYTES + SHOWN_MORE_BYTES], more[SHOWN_MORE_BYTES];
    if (choice->path == PATH_NONE || !choice->shown)
        return;
    format_details(job, kind, pe, more);
    snprintf(text, sizeof text, "%s%s", published_choices(job)->reasons[choice->shown - 1], more);
    published_choice(job, kind, pe)->why[choice->path] = box_reason(published_choices(job), text);
}

/* Called by the thread whose copy produced the finding. */
void job_show_stripes(void *of, int pe)
{
    struct weft_job *job = of;
    pthread_mutex_lock(&job->choosing.show_lock);
    show_taken(job, WEFT_GPU, pe);
    pthread_mutex_unlock(&job->choosing.show_lock);
}

void job_show_atomics(struct weft_job *job, weft_kind kind)
{
    pthread_mutex_lock(&job->choosing.show_lock);
    for (int pe = 0; job->paths.choices[kind] && pe < job->npes; pe++)
        show_taken(job, kind, pe);
    pthread_mutex_unlock(&job->choosing.show_lock);
}

/* Where not all text fits, the reason for this path comes before the reasons against the others. */
void job_path_reason(struct weft_job *job, weft_kind kind, int pe, char *text, size_t bytes)
{
    const struct path_choice *choice = &job->paths.choices[kind][pe];
    char whole[PATH_REASON_BYTES + SHOWN_MORE_BYTES + 8], more[SHOWN_MORE_BYTES];
    pthread_mutex_lock(&job->choosing.show_lock);
    format_details(job, kind, pe, more);
    size_t length = (size_t)snprintf(whole, sizeof whole, "%s%s", choice->reason, more);
    if (length >= bytes && choice->path != PATH_NONE)
        snprintf(whole, sizeof whole, "%s%s%s%.*s", choice->reason + choice->chosen_at, more,
                 choice->chosen_at ? "; " : "", choice->chosen_at ? choice->chosen_at - 2 : 0,
                 choice->reason);
    pthread_mutex_unlock(&job->choosing.show_lock);
    base_shorten(text, bytes, whole);
}

void job_show_choice(struct weft_job *job, weft_kind kind, int pe, const struct path_facts *facts)
{
    struct path_choice *choice = &job->paths.choices[kind][pe];
    struct box_choice *to = published_choice(job, kind, pe);
    pthread_mutex_lock(&job->choosing.show_lock);
    for (int path = 0; path < PATH_COUNT; path++)
        if (!(choice->failed & 1u << path)) /* job_show_failed() has published details of those */
            to->why[path] =
                box_reason(published_choices(job),
                           path_why((enum path_id)path, facts, &job->choosing.order, choice->path));
    choice->shown = choice->path == PATH_NONE ? 0 : to->why[choice->path];
    show_taken(job, kind, pe);
    to->path = (uint8_t)choice->path;
    pthread_mutex_unlock(&job->choosing.show_lock);
    job_show_proof(job, kind, pe);
}

void job_show_proof(struct weft_job *job, weft_kind kind, int pe)
{
    const struct path_choice *choice = &job->paths.choices[kind][pe];
    struct box_choice *to = published_choice(job, kind, pe);
    to->failed = (uint16_t)choice->failed;
    to->proof = choice->proven ? BOX_PROOF_GOOD : choice->failed ? BOX_PROOF_BAD : BOX_PROOF_NONE;
}

void job_show_failed(struct weft_job *job, weft_kind kind, int pe, enum path_id path,
                     const char *evidence)
{
    char text[2 * BOX_REASON_BYTES];
    snprintf(text, sizeof text, "its path test failed: %.*s", BOX_REASON_BYTES, evidence);
    pthread_mutex_lock(&job->choosing.show_lock);
    published_choice(job, kind, pe)->why[path] = box_reason(published_choices(job), text);
    pthread_mutex_unlock(&job->choosing.show_lock);
}

void job_show_found(struct weft_job *job, weft_kind kind, int pe, const char *found)
{
    struct path_choice *choice = &job->paths.choices[kind][pe];
    pthread_mutex_lock(&job->choosing.show_lock);
    char text[PATH_FOUND_BYTES];
    base_shorten(text, sizeof text, found);
    choice->found = job_share_text(job, text);
    show_taken(job, kind, pe);
    pthread_mutex_unlock(&job->choosing.show_lock);
}

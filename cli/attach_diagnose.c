/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom, and what that means in a sentence. */
#include "attach.h"

#include <stdio.h>
#include <string.h>

const struct box_wait *attach_wait(const struct attach_pe *pe)
{
    for (int i = 0; i < BOX_WAITS; i++)
        if (pe->present && pe->box.waits[i].operation != BOX_OP_NONE)
            return &pe->box.waits[i];
    return NULL;
}

static int slot_of(const struct attach_job *job, int pe)
{
    for (int i = 0; i < job->count; i++)
        if (job->pes[i].present && job->pes[i].box.pe == pe)
            return i;
    return -2;
}

int attach_waits_for(const struct attach_job *job, int slot)
{
    const struct box_wait *wait = attach_wait(&job->pes[slot]);
    if (!wait)
        return -1;
    return wait->peer < 0 ? -2 : slot_of(job, wait->peer);
}

static const char *last_operation(const struct attach_pe *pe)
{
    uint64_t count = pe->box.past_count;
    if (!count)
        return "none";
    return box_operation_name(pe->box.past[(count - 1) % BOX_HISTORY].operation);
}

static bool say_dead(const struct attach_job *job, char *sentence, size_t bytes)
{
    for (int i = 0; i < job->count; i++) {
        const struct attach_pe *pe = &job->pes[i];
        if (!pe->present || pe->alive || pe->box.state == BOX_FINALIZED)
            continue;
        snprintf(sentence, bytes, "PE %d (pid %d) has died; its last operation was %s", pe->box.pe,
                 pe->box.pid, last_operation(pe));
        return true;
    }
    return false;
}

/* Follows the waits from one slot: to a PE that does not wait, or round in a circle. */
static bool follow(const struct attach_job *job, int start, char *sentence, size_t bytes)
{
    int at = start, steps = 0, waiting = 0;
    for (int i = 0; i < job->count; i++)
        waiting += attach_waits_for(job, i) != -1;
    while (steps++ <= job->count) {
        int next = attach_waits_for(job, at);
        if (next == -2)
            return false;
        if (next == -1) {
            const struct attach_pe *pe = &job->pes[at];
            snprintf(sentence, bytes,
                     "%d of %d PEs wait, directly or through others, for PE %d (pid %d), which is "
                     "not waiting in Weft: it computes, or is blocked elsewhere (last operation: "
                     "%s, collectives done: %llu)",
                     waiting, job->count, pe->box.pe, pe->box.pid, last_operation(pe),
                     (unsigned long long)pe->box.collectives);
            return true;
        }
        at = next;
    }
    const struct box_wait *wait = attach_wait(&job->pes[at]);
    int next = attach_waits_for(job, at);
    snprintf(sentence, bytes,
             "deadlock: PE %d (in %s) and PE %d (in %s) wait for each other, directly or in a "
             "circle; their calls do not match",
             job->pes[at].box.pe, box_operation_name(wait->operation), job->pes[next].box.pe,
             box_operation_name(attach_wait(&job->pes[next])->operation));
    return true;
}

void attach_diagnose(const struct attach_job *job, char *sentence, int bytes)
{
    size_t size = (size_t)bytes;
    if (say_dead(job, sentence, size))
        return;
    int unknown = -1, waiting = 0;
    for (int i = 0; i < job->count; i++) {
        int whom = attach_waits_for(job, i);
        waiting += whom != -1;
        if (whom == -2)
            unknown = i;
        if (whom >= 0 && follow(job, i, sentence, size))
            return;
    }
    const struct box_wait *wait = unknown >= 0 ? attach_wait(&job->pes[unknown]) : NULL;
    if (wait) {
        snprintf(sentence, size,
                 "PE %d waits in %s for its own memory at offset %llu to change (expected %llu, "
                 "seen %llu), and no PE that should store there is known; %d of %d PEs wait",
                 job->pes[unknown].box.pe, box_operation_name(wait->operation),
                 (unsigned long long)wait->offset, (unsigned long long)wait->expected,
                 (unsigned long long)wait->seen, waiting, job->count);
        return;
    }
    snprintf(sentence, size,
             "nothing is stuck: no PE has been waiting for more than a millisecond");
}

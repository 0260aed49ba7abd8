/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which PE waits for which, and describes the cause in a sentence. */
#include "attach/attach.h"

const char *attach_state(const struct boxes_pe *pe)
{
    static const char *const names[] = {
        [BOXES_STARTING] = "starting", [BOXES_RUNNING] = "running", [BOXES_FINALIZED] = "finalized",
        [BOXES_ABORTED] = "aborted",   [BOXES_UNKNOWN] = "unknown",
    };
    if (!pe->present)
        return "not started";
    if (!pe->alive && pe->state == BOXES_RUNNING)
        return "dead";
    return names[pe->state];
}

double attach_seconds(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? (double)(now_ns - then_ns) * 1e-9 : 0;
}

static int slot_of(const struct boxes_job *job, int pe)
{
    for (int i = 0; i < job->count; i++)
        if (job->pes[i].present && job->pes[i].pe == pe)
            return i;
    return ATTACH_SOMEBODY;
}

/* When several threads of a PE wait, the first of them counts. */
int attach_waits_for(const struct boxes_job *job, int slot)
{
    const struct boxes_pe *pe = &job->pes[slot];
    if (!pe->n_waits)
        return ATTACH_NOBODY;
    return pe->waits[0].peer < 0 ? ATTACH_SOMEBODY : slot_of(job, pe->waits[0].peer);
}

static const char *last_operation(const struct boxes_pe *pe)
{
    return pe->n_past ? pe->past[pe->n_past - 1].operation : "none";
}

static bool describe_dead(const struct boxes_job *job, char *sentence, size_t bytes)
{
    for (int i = 0; i < job->count; i++) {
        const struct boxes_pe *pe = &job->pes[i];
        if (!pe->present || pe->alive || pe->state == BOXES_FINALIZED)
            continue;
        snprintf(sentence, bytes, "PE %d (pid %d) has died; its last operation was %s", pe->pe,
                 pe->pid, last_operation(pe));
        return true;
    }
    return false;
}

static int count_waiting(const struct boxes_job *job)
{
    int waiting = 0;
    for (int i = 0; i < job->count; i++)
        waiting += attach_waits_for(job, i) != ATTACH_NOBODY;
    return waiting;
}

static void describe_awaited(const struct boxes_job *job, int slot, char *sentence, size_t bytes)
{
    const struct boxes_pe *pe = &job->pes[slot];
    if (pe->state == BOXES_FINALIZED) {
        snprintf(sentence, bytes,
                 "%d of %d PEs wait, directly or through others, for PE %d (pid %d), which has "
                 "finalized: their calls do not match",
                 count_waiting(job), job->count, pe->pe, pe->pid);
        return;
    }
    snprintf(sentence, bytes,
             "%d of %d PEs wait, directly or through others, for PE %d (pid %d), which is not "
             "waiting in Weft: it computes, or is blocked elsewhere (last operation: %s, "
             "collectives done: %llu)",
             count_waiting(job), job->count, pe->pe, pe->pid, last_operation(pe),
             (unsigned long long)pe->collectives);
}

/* Describes the cycle that `slot` is in, starting at its lowest slot. */
static void describe_cycle(const struct boxes_job *job, int slot, char *sentence, size_t bytes)
{
    int lowest = slot;
    for (int at = attach_waits_for(job, slot); at != slot; at = attach_waits_for(job, at))
        lowest = at < lowest ? at : lowest;
    slot = lowest;
    const struct boxes_pe *pe = &job->pes[slot], *next = &job->pes[attach_waits_for(job, slot)];
    if (pe == next)
        snprintf(sentence, bytes, "deadlock: PE %d (in %s) waits for itself", pe->pe,
                 pe->waits[0].operation);
    else
        snprintf(sentence, bytes,
                 "deadlock: PE %d (in %s) and PE %d (in %s) wait for each other, directly or in a "
                 "circle; their calls do not match",
                 pe->pe, pe->waits[0].operation, next->pe, next->waits[0].operation);
}

/* Follows the waits from `start` to a PE that does not wait, or around a cycle. False: they lead
 * to an unknown PE. */
static bool follow_waits(const struct boxes_job *job, int start, char *sentence, size_t bytes)
{
    int at = start;
    for (int steps = 0; steps <= job->count; steps++) {
        int next = attach_waits_for(job, at);
        if (next == ATTACH_SOMEBODY)
            return false;
        if (next == ATTACH_NOBODY) {
            describe_awaited(job, at, sentence, bytes);
            return true;
        }
        at = next;
    }
    describe_cycle(job, at, sentence, bytes); /* after job->count steps `at` is in the cycle */
    return true;
}

void attach_diagnose(const struct boxes_job *job, char *sentence, size_t bytes)
{
    const struct boxes_pe *alone = NULL;
    if (!job->count) {
        snprintf(sentence, bytes, "the process is in no job, or its job is still starting");
        return;
    }
    if (describe_dead(job, sentence, bytes))
        return;
    for (int i = 0; i < job->count; i++) {
        int whom = attach_waits_for(job, i);
        if (whom == ATTACH_SOMEBODY)
            alone = &job->pes[i];
        if (whom >= 0 && follow_waits(job, i, sentence, bytes))
            return;
    }
    if (!alone) {
        snprintf(sentence, bytes,
                 "nothing is stuck: no PE has been waiting for more than a millisecond");
        return;
    }
    const struct boxes_wait *wait = &alone->waits[0];
    snprintf(
        sentence, bytes,
        "PE %d waits in %s for its own memory to change (%s), and the PE that should store there "
        "is unknown; %d of %d PEs wait",
        alone->pe, wait->operation, wait->what, count_waiting(job), job->count);
}

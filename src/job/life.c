/* SPDX-License-Identifier: Apache-2.0 */
/* Detects dead PEs. Each PE holds a POSIX record lock on one byte of the system segment's memfd.
 * The kernel releases it when the process ends for any reason, and any PE can query it. This works
 * across PID namespaces, without a launcher, and without a descriptor per peer. Reports of the
 * launcher or the connections (boot->check) take precedence, because they say how a PE died. */
#include "job/job.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    CHECK_EVERY_NS = 20 * 1000 * 1000,
    GRACE_NS = 100 * 1000 * 1000, /* time for the launcher's report of a death to arrive */
};

weft_status life_start(struct weft_job *job)
{
    if (job->threads_are_pes || job->boot->local_npes == 1)
        return WEFT_OK;
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = job->boot->local_pe, .l_len = 1};
    if (fcntl(job->segments[SEG_SYSTEM].fd, F_SETLK, &lock))
        return base_fail(WEFT_ERR_SYSTEM, "fcntl(F_SETLK) on the system segment, byte %d: %s",
                         job->boot->local_pe, strerror(errno));
    return WEFT_OK;
}

/* Returns the number of a dead PE, or -1. A PE that has finalized does not count. */
static int find_dead(struct weft_job *job)
{
    for (int slot = 0; slot < job->boot->local_npes; slot++) {
        if (slot == job->boot->local_pe)
            continue;
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
        if (fcntl(job->segments[SEG_SYSTEM].fd, F_GETLK, &lock) || lock.l_type != F_UNLCK)
            continue;
        uint32_t state = atomic_load(&job_box(job, slot)->state);
        if (state == BOX_RUNNING || state == BOX_ABORTED)
            return job->boot->local_pes[slot];
    }
    return -1;
}

static int slot_or_first(const struct weft_job *job, int pe)
{
    for (int slot = 0; slot < job->boot->local_npes; slot++)
        if (job->boot->local_pes[slot] == pe)
            return slot;
    return 0;
}

/* Reports a death. The launcher notices it at the same time; a short wait lets its better report
 * take precedence. */
static weft_status report_death(struct weft_job *job, int pe)
{
    for (uint64_t waited = 0; waited < GRACE_NS; waited += 5 * 1000 * 1000) {
        weft_status status = job->boot->ops->check(job->boot);
        if (status)
            return job_fail(job, status, base_last_error());
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    }
    struct box *box = job_box(job, slot_or_first(job, pe));
    char sentence[256];
    if (atomic_load(&box->state) == BOX_ABORTED)
        snprintf(sentence, sizeof sentence, "PE %d (pid %d) ended the job with code %d", pe,
                 box->pid, box->exit_code);
    else
        snprintf(sentence, sizeof sentence,
                 "PE %d (pid %d) has ended without finalizing; PE %d cannot go on", pe, box->pid,
                 job->pe);
    /* This PE will end because of it and reports that; otherwise the other PEs would take this PE
     * for the cause. */
    job->boot->ops->fail(job->boot, WEFT_ERR_PEER_DEAD, sentence);
    return job_fail(job, WEFT_ERR_PEER_DEAD, sentence);
}

weft_status life_check(struct weft_job *job)
{
    weft_status status = job_check_failed(job);
    if (status)
        return status;
    uint64_t now = clock_now_ns();
    uint64_t due = atomic_load_explicit(&job->waits.next_check_ns, memory_order_relaxed);
    if (now < due ||
        !atomic_compare_exchange_strong(&job->waits.next_check_ns, &due, now + CHECK_EVERY_NS))
        return WEFT_OK;
    status = job->boot->ops->check(job->boot);
    if (status)
        return job_fail(job, status, base_last_error());
    if (job->threads_are_pes || job->boot->local_npes == 1)
        return WEFT_OK;
    int dead = find_dead(job);
    return dead < 0 ? WEFT_OK : report_death(job, dead);
}

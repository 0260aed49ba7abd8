/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded waiting. Every loop of the library that waits for another PE is
 *
 *     struct waiter waiter = WAITER(job, BOX_OP_BARRIER, peer);
 *     while (!condition && !status)
 *         status = waiter_step(&waiter, seen);
 *     waiter_end(&waiter);
 *
 * The first polls cost nothing; then the thread yields, shows in the black box what it waits for,
 * and looks at the limit and at the health of its peers. */
#ifndef WEFT_JOB_WAITER_H
#define WEFT_JOB_WAITER_H

#include "job/job.h"

struct waiter {
    struct weft_job *job;
    enum box_operation operation;
    int peer; /* PE of the job that is waited for, -1 = any */
    int team; /* slot, -1 = none */
    enum segment_id segment;
    uint64_t offset; /* of the variable */
    uint64_t expected;
    uint32_t compare; /* weft_cmp */
    uint32_t polls;
    struct box_wait *slot; /* in the black box once the wait is slow */
    uint64_t last_seen;
    uint64_t since_ns, progress_ns;
};

#define WAITER(job_, operation_, peer_)                                                            \
    {                                                                                              \
        .job = (job_), .operation = (operation_), .peer = (peer_), .team = -1,                     \
        .segment = SEG_SYSTEM, .compare = WEFT_GE                                                  \
    }

weft_status waiter_slow(struct waiter *waiter, uint64_t seen);
void waiter_leave(struct waiter *waiter);

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A poll without pause runs far ahead of the line's arrival, and the CPU then throws that work
 * away: with a pause from the fifth poll on a ping-pong takes 36 ns instead of 57 (Zen 5). */
enum { WAITER_EAGER_POLLS = 4 };

static inline weft_status waiter_step(struct waiter *waiter, uint64_t seen)
{
    uint32_t polls = ++waiter->polls;
    if (likely(polls < waiter->job->spin)) {
        if (polls > WAITER_EAGER_POLLS)
            cpu_relax();
        return WEFT_OK;
    }
    return waiter_slow(waiter, seen);
}

static inline void waiter_end(struct waiter *waiter)
{
    if (unlikely(waiter->slot != NULL))
        waiter_leave(waiter);
}

#endif

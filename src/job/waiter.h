/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting with a limit. Every loop of the library that waits for another PE is
 *
 *     struct waiter waiter = WAITER(job, BOX_OP_BARRIER, peer);
 *     while (!condition && !status)
 *         status = waiter_step(&waiter, seen);
 *     waiter_end(&waiter);
 *
 * The first polls cost nothing; then the thread gives its CPU to others between polls, shows in the
 * black box what it waits for, and looks at the clock and at the PEs it depends on (watch.h).
 *
 * Time counts slice by slice: from one look to the next at most WEFT_WAIT_SLICE, so that time in
 * which this process was stopped, or the machine suspended, counts next to nothing. */
#ifndef WEFT_JOB_WAITER_H
#define WEFT_JOB_WAITER_H

#include "base/cpus.h"
#include "job/job.h"

struct waiter {
    struct weft_job *job;
    enum box_operation operation;
    int peer; /* PE of the job that is waited for, -1 = any */
    int team; /* slot, -1 = none: a variable is waited for */
    enum segment_id segment;
    uint64_t offset; /* of the variable */
    uint64_t expected;
    uint32_t compare; /* weft_cmp */
    uint32_t polls;
    uint32_t spin;        /* so many of them before waiter_slow() */
    uint32_t empty_polls; /* looks at the paths in a row that brought nothing */
    bool is_signed;       /* the variable */
    bool warned;
    struct box_wait *slot; /* in the black box once the wait is slow */
    uint64_t checked_ns;   /* clock at the last look, 0: there was none */
    uint64_t waited_ns;    /* counted time */
    uint64_t idle_ns;      /* counted time since something moved */
    uint64_t peers_checked_ns,
        peers_idle_ns;          /* both as they were when the peers were last looked at */
    uint64_t others;            /* set by waits for several variables: a sum over them */
    uint64_t seen, others_seen; /* at the last look */
    uint64_t moves;             /* what watch_peers() said last */
    uint64_t remote_moves;      /* and watch_remote_nodes(); */
    bool remote_checked;        /* it was asked since something near moved */
};

/* What a peer stores is there by itself. What comes by messages comes when this PE looks for them,
 * and waiter_slow() does. */
static inline uint32_t waiter_spin(const struct weft_job *job, int peer)
{
    bool stores = peer >= 0 && job_direct(job, WEFT_HOST, peer);
    return likely(stores) ? job->spin : job->spin_between_looks;
}

#define WAITER(job_, operation_, peer_)                                                            \
    {                                                                                              \
        .job = (job_), .operation = (operation_), .peer = (peer_), .team = -1,                     \
        .segment = SEG_SYSTEM, .compare = WEFT_GE, .spin = waiter_spin(job_, peer_)                \
    }

weft_status waiter_slow(struct waiter *waiter, uint64_t seen);
void waiter_unpublish(struct waiter *waiter);

/* A poll without pause runs far ahead of the line's arrival, and the CPU then throws that work
 * away: with a pause from the fifth poll on a ping-pong takes 36 ns instead of 57 (Zen 5). */
enum { WAITER_EAGER_POLLS = 4 };

static inline weft_status waiter_step(struct waiter *waiter, uint64_t seen)
{
    uint32_t polls = ++waiter->polls;
    if (likely(polls < waiter->spin)) {
        if (polls > WAITER_EAGER_POLLS)
            cpu_relax();
        return WEFT_OK;
    }
    return waiter_slow(waiter, seen);
}

static inline void waiter_end(struct waiter *waiter)
{
    if (unlikely(waiter->slot != NULL))
        waiter_unpublish(waiter);
}

#endif

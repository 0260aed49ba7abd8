/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting with a time limit. Every loop of the library that waits for another PE is
 *
 *     struct waiter waiter = WAITER(job, BOX_OP_BARRIER, peer);
 *     while (!condition && !status)
 *         status = waiter_step(&waiter, seen);
 *     waiter_end(&waiter);
 *
 * The first polls cost nothing. After them the thread yields its CPU between polls, publishes the
 * wait in the black box, and checks the clock and the PEs that it depends on (watch.h).
 *
 * Between two checks at most WEFT_TEST_WAIT_SLICE is counted, so that time in which this process
 * was stopped or the machine suspended counts almost nothing. */
#ifndef WEFT_JOB_WAITER_H
#define WEFT_JOB_WAITER_H

#include "base/cpus.h"
#include "job/job.h"

struct waiter {
    struct weft_job *job;
    enum box_operation operation;
    int peer; /* awaited PE of the job; -1: any */
    int team; /* slot of the team; -1: the wait is for a variable */
    enum segment_id segment;
    uint64_t offset; /* offset of the variable */
    uint64_t expected;
    uint32_t compare; /* a weft_cmp */
    uint32_t polls;
    uint32_t spin;        /* number of polls before waiter_slow() */
    uint32_t empty_polls; /* consecutive polls of the paths without a message */
    bool is_signed;       /* the variable is signed */
    bool warned;
    bool shares_cpu;       /* another thread ran at the last yield */
    struct box_wait *slot; /* entry in the black box once the wait is slow */
    uint64_t checked_ns;   /* clock at the last check; 0: none yet */
    uint64_t waited_ns;    /* counted waiting time */
    uint64_t idle_ns;      /* counted time since the last progress */
    uint64_t quiet_ns;     /* counted time since an awaited value changed or a message arrived */
    uint64_t peers_checked_ns,
        peers_idle_ns;          /* waited_ns and idle_ns at the last check of the peers */
    uint64_t interrupt_ns;      /* waited_ns at the last call of the program's check */
    uint64_t others;            /* waits for several variables: a hash over them */
    uint64_t seen, others_seen; /* values at the last check */
    uint64_t moves;             /* last result of watch_peers() */
    uint64_t remote_moves;      /* last result of watch_remote_nodes() */
    bool remote_checked;        /* watch_remote_nodes() was called since the last local progress */
};

/* Number of polls before waiter_slow(). A peer's store arrives by itself; a message arrives only
 * when this PE polls for it, which waiter_slow() does. */
static inline uint32_t waiter_spin(const struct weft_job *job, int peer)
{
    bool stores = peer >= 0 && job_direct(job, WEFT_HOST, peer);
    return likely(stores) ? job->waits.spin : job->waits.spin_between_polls;
}

#define WAITER(job_, operation_, peer_)                                                            \
    {                                                                                              \
        .job = (job_), .operation = (operation_), .peer = (peer_), .team = -1,                     \
        .segment = SEG_SYSTEM, .compare = WEFT_GE, .spin = waiter_spin(job_, peer_)                \
    }

weft_status waiter_slow(struct waiter *waiter, uint64_t seen);
void waiter_unpublish(struct waiter *waiter);

/* Number of polls without a pause instruction. Such a poll loop speculates far ahead of the cache
 * line's arrival, and the CPU discards that work: with a pause from the fifth poll on, a ping-pong
 * takes 36 ns instead of 57 ns (Zen 5). */
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

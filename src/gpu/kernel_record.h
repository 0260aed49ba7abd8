/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by all kernels of the library: short names of memory orders, bounded waiting, and the
 * record of a wait that timed out. Every wait is bounded by the global timer, and by a count of
 * polls in case the timer stands still. */
#ifndef WEFT_GPU_KERNEL_RECORD_H
#define WEFT_GPU_KERNEL_RECORD_H

#include <weft/device/simt.h>

#include "kernels.h"

#if WEFT_TARGET_GPU
#define KERNEL extern "C" __global__ void
/* For blocks of up to 512 threads: at most 128 registers for each thread, on any GPU that the
 * driver compiles for. */
#define KERNEL_OF_512 extern "C" __global__ void __launch_bounds__(512, 1)
#else
#define KERNEL        void
#define KERNEL_OF_512 void
#endif

/* A kernel that was launched before the earlier work of its stream has ended
 * (gpu_launch_function()) waits here until it has, and what it stored is visible. The instruction
 * is of sm_90: the build removes it from code for older GPUs. */
#if WEFT_TARGET_CUDA
#define GRID_WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#elif !defined(GRID_WAIT)
#define GRID_WAIT() ((void)0)
#endif

#define ORDERED WEFT_ORDER_ACQ_REL
#define RELAXED WEFT_ORDER_RELAXED
#define ACQUIRE WEFT_ORDER_ACQUIRE
#define RELEASE WEFT_ORDER_RELEASE
#define SYSTEM  WEFT_SCOPE_SYS

/* Shorter than any poll (several hundred ns in the GPU's own memory, a few ns in a CPU's cache), so
 * the limit of polls computed from it never ends a wait before the timer does. */
#if WEFT_TARGET_GPU
#define LEAST_POLL_NS 64
#else
#define LEAST_POLL_NS 1
#endif

struct limit {
    uint64_t start, limit_ns, polls;
};

WEFT_DEVICE struct limit limit_start(uint64_t limit_ns)
{
    struct limit limit = {weft_dev_clock_ns(), limit_ns, 0};
    return limit;
}

/* limit_ns 0: no limit. */
WEFT_DEVICE int limit_passed(struct limit *limit)
{
    limit->polls++;
    if (!limit->limit_ns || limit->polls % 64)
        return 0;
    return weft_dev_clock_ns() - limit->start > limit->limit_ns ||
           limit->polls > limit->limit_ns / LEAST_POLL_NS + 1024;
}

/* State of one wait; all zeros at its start. */
struct wait_progress {
    /* time of the first clock reading, or of the last one that saw another value, ns */
    uint64_t changed;
    uint64_t seen;  /* value at the last clock reading */
    uint64_t polls; /* polls since `changed`, or up to POLLS_PER_JOB more */
};

/* A polling loop calls this to learn whether to give up: because the limit has passed since the
 * value last changed, or because the job has failed. The clock is first read at the 64th poll, so a
 * short wait does not read it. */
enum wait_state { WAIT_ON, WAIT_EXPIRED, WAIT_FAILED };

WEFT_DEVICE enum wait_state check_wait_state(struct wait_progress *p,
                                             const struct gpu_reporting *reporting, uint64_t seen)
{
    /* `failed` is in host memory, so it is read rarely */
    enum { POLLS_PER_LOOK = 64, POLLS_PER_JOB = 64 * 64 };
    if (++p->polls % POLLS_PER_LOOK)
        return WAIT_ON;
    uint64_t now = weft_dev_clock_ns();
    if (p->polls % POLLS_PER_JOB == 0 && reporting->box &&
        weft_dev_load_u32((const uint32_t *)&reporting->box->failed, RELAXED, SYSTEM))
        return WAIT_FAILED;
    if (!p->changed || seen != p->seen) {
        p->changed = now;
        p->seen = seen;
        p->polls %= POLLS_PER_JOB;
    }
    if (!reporting->limit_ns)
        return WAIT_ON;
    return now - p->changed > reporting->limit_ns ||
                   p->polls > reporting->limit_ns / LEAST_POLL_NS + 2 * POLLS_PER_JOB
               ? WAIT_EXPIRED
               : WAIT_ON;
}

/* Writes a record in the format of device operations (weft_dev_record()), so that the host and
 * `weft attach` read both alike. since: time of the wait's start or of the last change, ns; 0: not
 * a wait. Takes the members of gpu_reporting one by one: a structure by value would be copied to
 * the stack, and with it the whole argument of the kernel. */
WEFT_DEVICE void write_record_of(struct weft_dev_box *box, uint64_t *tickets, uint32_t state,
                                 int status, uint32_t operation, int team, int peer,
                                 const void *address, uint64_t expected, uint64_t seen, int cmp,
                                 uint64_t since)
{
    uint64_t ticket = weft_dev_atomic_add_u64(tickets, 1, RELAXED, SYSTEM);
    struct weft_dev_record *record = &box->records[ticket % WEFT_DEV_RECORDS];
    record->operation = operation;
    record->ticket = ticket;
    record->status = status;
    record->peer = peer;
    record->team = team;
    record->compare = (uint32_t)cmp;
    record->address = (uint64_t)(uintptr_t)address;
    record->expected = expected;
    record->seen = seen;
    record->waited_ns = since ? weft_dev_clock_ns() - since : 0;
    record->block = weft_dev_block_x();
    record->thread = weft_dev_thread_x();
    /* Release: pairs with the host's acquire loads. A reader that sees the state sees the other
     * fields; a reader that sees `failed` sees a record. */
    weft_dev_store_u32(&record->state, state, RELEASE, SYSTEM);
    weft_dev_store_u32((uint32_t *)&box->failed, (uint32_t)status, RELEASE, SYSTEM);
}

/* Notes a wait that ended because the job failed. It gets no record, since it is not the cause and
 * records are few. */
WEFT_DEVICE void write_left_word(const struct gpu_reporting *reporting, uint32_t operation,
                                 int team, int peer)
{
    weft_dev_store_u64(&reporting->box->left, WEFT_DEV_LEFT(operation, team, peer), RELAXED,
                       SYSTEM);
}

WEFT_DEVICE void write_record(struct weft_dev_box *box, uint64_t *tickets, uint32_t operation,
                              int team, int peer, const void *address, uint64_t expected,
                              uint64_t seen, int cmp, uint64_t since)
{
    write_record_of(box, tickets, WEFT_DEV_RECORD_EXPIRED, -101 /* WEFT_ERR_TIMEOUT */, operation,
                    team, peer, address, expected, seen, cmp, since);
}

#endif

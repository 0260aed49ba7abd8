/* SPDX-License-Identifier: Apache-2.0 */
/* The slow part of waiting: yield, show in the black box, limit, dead peers. */
#include "job/waiter.h"

#include "base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

enum {
    CHECK_EVERY_POLLS = 32,            /* looks at the clock */
    SHOW_AFTER_NS = 1000000,           /* into the black box */
    SLEEP_AFTER_NS = 50 * 1000 * 1000, /* a long wait gives its CPU away */
    SLEEP_NS = 50 * 1000,
};

static void enter(struct waiter *waiter)
{
    struct box *box = waiter->job->box;
    for (int i = 0; i < BOX_WAITS; i++) {
        struct box_wait *slot = &box->waits[i];
        uint32_t none = BOX_OP_NONE;
        if (!atomic_compare_exchange_strong(&slot->operation, &none, waiter->operation))
            continue;
        slot->peer = waiter->peer;
        slot->team = waiter->team;
        slot->compare = waiter->compare;
        slot->offset = waiter->offset;
        slot->segment = waiter->segment;
        slot->since_ns = waiter->since_ns;
        atomic_store_explicit(&slot->expected, waiter->expected, memory_order_relaxed);
        waiter->slot = slot;
        return;
    }
}

void waiter_leave(struct waiter *waiter)
{
    atomic_store_explicit(&waiter->slot->operation, BOX_OP_NONE, memory_order_release);
    waiter->slot = NULL;
}

static weft_status timed_out(struct waiter *waiter, uint64_t seen, uint64_t now)
{
    static const char *const signs[] = {"==", "!=", ">", "<=", "<", ">="};
    char whom[32] = "a peer";
    if (waiter->peer >= 0)
        snprintf(whom, sizeof whom, "PE %d", waiter->peer);
    return base_fail(
        WEFT_ERR_TIMEOUT,
        "PE %d: %s waited %.1f s for %s without progress (limit WEFT_WAIT_LIMIT): expected %s %llu, "
        "seen %llu at offset %llu; `weft attach %d` shows who waits for whom",
        waiter->job->pe, box_operation_name(waiter->operation),
        (double)(now - waiter->since_ns) * 1e-9, whom,
        signs[waiter->compare < WEFT_CMP_COUNT ? waiter->compare : WEFT_GE],
        (unsigned long long)waiter->expected, (unsigned long long)seen,
        (unsigned long long)waiter->offset, waiter->job->box->pid);
}

static weft_status look_around(struct waiter *waiter, uint64_t seen)
{
    uint64_t now = clock_now_ns();
    if (!waiter->since_ns) {
        waiter->since_ns = waiter->progress_ns = now;
        waiter->last_seen = seen;
    }
    if (seen != waiter->last_seen) {
        waiter->last_seen = seen;
        waiter->progress_ns = now;
    }
    if (!waiter->slot && now - waiter->since_ns > SHOW_AFTER_NS)
        enter(waiter);
    if (waiter->slot)
        atomic_store_explicit(&waiter->slot->seen, seen, memory_order_relaxed);

    weft_status status = life_check(waiter->job);
    if (status)
        return status;
    uint64_t limit = waiter->job->wait_limit_ns;
    if (limit && now - waiter->progress_ns > limit)
        return timed_out(waiter, seen, now);
    if (now - waiter->progress_ns > SLEEP_AFTER_NS)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    return WEFT_OK;
}

weft_status waiter_slow(struct waiter *waiter, uint64_t seen)
{
    job_progress(waiter->job);
    sched_yield();
    bool first = !waiter->since_ns;
    bool long_wait = waiter->slot != NULL;
    if (first || long_wait || waiter->polls % CHECK_EVERY_POLLS == 0)
        return look_around(waiter, seen);
    return WEFT_OK;
}

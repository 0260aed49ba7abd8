/* SPDX-License-Identifier: Apache-2.0 */
/* The slow part of waiting: yields the CPU, publishes the wait in the black box, and distinguishes
 * slow from dead PEs. A wait fails when a PE has died, when the job has failed, or when neither the
 * awaited value nor any PE that the wait depends on has made progress for the whole limit. */
#include "job/waiter.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "job/watch.h"

#include <stdio.h>
#include <time.h>

enum {
    SLEEP_AFTER_NS = 50 * 1000 * 1000, /* after this quiet time the thread sleeps between polls */
    POLLS_PER_CHECK = 32,              /* polls per check of the clock, while the wait is short */
    CHECKS_PER_YIELD = 32, /* polls of the paths per yield, by a thread that is alone on its CPU */
    SHOW_AFTER_NS = 1000 * 1000, /* a wait is published in the black box after this time */
    /* 1 / this part of the limit is allowed for a reply from another node */
    REMOTE_LIMIT_SHARE = 8,
};

/* This thread is in watch_remote_nodes(). Its own waits do not check further nodes and are not
 * published: as a part of a wait they count as no progress. */
static _Thread_local bool in_remote_check;

/* Fills the entry in the black box. Other PEs, and threads that are PEs, may read it at the same
 * time; the word that they act on cannot tear (watch.c). */
static void fill_wait(const struct waiter *waiter, struct box_wait *wait)
{
    __atomic_store_n(&wait->peer, waiter->peer, __ATOMIC_RELAXED);
    wait->team = waiter->team;
    wait->compare = waiter->compare;
    wait->is_signed = waiter->is_signed;
    wait->offset = waiter->offset;
    wait->segment = waiter->segment;
    atomic_store_explicit(&wait->expected, waiter->expected, memory_order_relaxed);
    atomic_store_explicit(&wait->seen, waiter->seen, memory_order_relaxed);
}

static void publish_wait(struct waiter *waiter, uint64_t now)
{
    struct box *box = waiter->job->box;
    for (int i = 0; i < BOX_WAITS; i++) {
        struct box_wait *slot = &box->waits[i];
        uint32_t none = BOX_OP_NONE;
        if (!atomic_compare_exchange_strong(&slot->operation, &none, waiter->operation))
            continue;
        fill_wait(waiter, slot);
        slot->since_ns = now - waiter->waited_ns;
        waiter->slot = slot;
        if (waiter->team < 0) /* collectives are in the history from their start */
            box_record(box, waiter->operation, waiter->peer, waiter->offset, 0);
        return;
    }
}

void waiter_unpublish(struct waiter *waiter)
{
    atomic_store_explicit(&waiter->slot->operation, BOX_OP_NONE, memory_order_release);
    waiter->slot = NULL;
    box_count_step(waiter->job->box);
}

/* "barrier of team 0 has waited 60.0 s for PE 3: awaits step 17, ..." */
static void describe_state(const struct waiter *waiter, const char *verb, char *text, size_t bytes)
{
    struct box_wait wait;
    char whom[32] = "", what[128], doing[256];
    atomic_init(&wait.operation, waiter->operation);
    fill_wait(waiter, &wait);
    box_wait_text(&wait, what, sizeof what);
    if (waiter->peer >= 0)
        snprintf(whom, sizeof whom, " for PE %d", waiter->peer);
    if (waiter->compare == BOX_COMPARE_CALLBACKS)
        snprintf(doing, sizeof doing, "streams have not reached the others");
    else
        watch_describe(waiter->job, waiter->peer, doing, sizeof doing);
    snprintf(text, bytes, "PE %d: %s %s %.1f s%s: %s; %s", waiter->job->pe,
             box_operation_name(waiter->operation), verb, (double)waiter->waited_ns * 1e-9, whom,
             what, doing);
}

static weft_status time_out(const struct waiter *waiter)
{
    char text[600];
    describe_state(waiter, "waited", text, sizeof text);
    return base_fail(WEFT_ERR_TIMEOUT,
                     "%s; nothing has moved for %.1f s (limit %s); `weft attach %d` shows who "
                     "waits for whom",
                     text, (double)waiter->idle_ns * 1e-9, waiter->job->waits.limit_name,
                     waiter->job->box->pid);
}

static void warn_once(struct waiter *waiter)
{
    char text[600];
    waiter->warned = true;
    describe_state(waiter, "has waited", text, sizeof text);
    log_warn(LOG_JOB, "%s; `weft attach %d` shows who waits for whom", text, waiter->job->box->pid);
}

/* Checks PEs of other nodes, once half of the limit has passed and the wait depends on them. While
 * some of them make progress, the idle time does not increase. Time in which they cannot be read
 * counts as time without progress. */
static void check_remote_nodes(struct waiter *waiter)
{
    uint64_t half = waiter->job->waits.limit_ns / 2;
    if (!half || waiter->idle_ns <= half || in_remote_check) {
        waiter->remote_checked = waiter->remote_checked && waiter->idle_ns;
        return;
    }
    uint64_t moves;
    in_remote_check = true;
    waiter->idle_ns += watch_remote_nodes(waiter->job, &moves);
    in_remote_check = false;
    if (waiter->remote_checked && moves != waiter->remote_moves)
        waiter->idle_ns = half;
    waiter->remote_moves = moves;
    waiter->remote_checked = true;
}

/* Checks the PEs that this wait depends on: whether they make progress, and which one causes the
 * delay. */
static weft_status check_peers(struct waiter *waiter)
{
    struct weft_job *job = waiter->job;
    struct watch view = watch_peers(job, waiter->peer);
    if (view.moves != waiter->moves)
        waiter->idle_ns = 0;
    else if (view.stopped && waiter->idle_ns > waiter->peers_idle_ns)
        waiter->idle_ns =
            waiter->peers_idle_ns; /* a stopped PE cannot make progress: this time does not count */
    waiter->moves = view.moves;
    if (view.remote)
        check_remote_nodes(waiter);
    waiter->peers_idle_ns = waiter->idle_ns;
    waiter->peers_checked_ns = waiter->waited_ns;
    if (job->waits.warn_ns && waiter->waited_ns >= job->waits.warn_ns && !waiter->warned &&
        !in_remote_check)
        warn_once(waiter);
    uint64_t limit =
        in_remote_check ? job->waits.limit_ns / REMOTE_LIMIT_SHARE : job->waits.limit_ns;
    if (limit && waiter->idle_ns > limit)
        return time_out(waiter);
    return WEFT_OK;
}

static void count_time(struct waiter *waiter, uint64_t seen, uint64_t now)
{
    uint64_t slice = waiter->job->waits.slice_ns;
    uint64_t passed = waiter->checked_ns ? now - waiter->checked_ns : 0;
    if (slice && passed > slice)
        passed = slice;
    waiter->checked_ns = now;
    waiter->waited_ns += passed;
    bool same = seen == waiter->seen && waiter->others == waiter->others_seen;
    waiter->idle_ns = same ? waiter->idle_ns + passed : 0;
    waiter->quiet_ns = same ? waiter->quiet_ns + passed : 0;
    waiter->seen = seen;
    waiter->others_seen = waiter->others;
}

static void sleep_if_long(const struct waiter *waiter)
{
    uint64_t ns = cpu_idle_sleep_ns(waiter->quiet_ns, SLEEP_AFTER_NS, waiter->shares_cpu);
    if (ns)
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Appends the name of the collective that a death ended to the message of the death. */
static weft_status name_operation(const struct waiter *waiter, weft_status status)
{
    char death[600];
    snprintf(death, sizeof death, "%s", base_last_error());
    return base_fail(status, "%s; PE %d was in %s of team %d", death, waiter->job->pe,
                     box_operation_name(waiter->operation), waiter->team);
}

/* Calls the program's check if this thread has one and it is time. */
static weft_status ask_program(struct waiter *waiter)
{
    struct weft_job *job = waiter->job;
    if (likely(!atomic_load_explicit(&job->interrupt.exists, memory_order_relaxed)) ||
        waiter->waited_ns - waiter->interrupt_ns < INTERRUPT_EVERY_NS)
        return WEFT_OK;
    waiter->interrupt_ns = waiter->waited_ns;
    /* The check itself runs without the lock: it may call functions of Weft. */
    pthread_mutex_lock(&job->lock);
    bool mine = pthread_equal(pthread_self(), job->interrupt.thread);
    int (*check)(void *arg) = mine ? job->interrupt.check : NULL;
    void *arg = job->interrupt.arg;
    pthread_mutex_unlock(&job->lock);
    if (!check || !check(arg))
        return WEFT_OK;
    char text[600];
    describe_state(waiter, "waited", text, sizeof text);
    return base_fail(WEFT_ERR_INTERRUPTED, "%s; the program's check ended the wait", text);
}

static weft_status check_progress(struct waiter *waiter, uint64_t seen)
{
    uint64_t now = clock_now_ns();
    count_time(waiter, seen, now);
    if (!waiter->slot && waiter->waited_ns > SHOW_AFTER_NS && !in_remote_check)
        publish_wait(waiter, now);
    if (waiter->slot)
        atomic_store_explicit(&waiter->slot->seen, seen, memory_order_relaxed);

    weft_status status = life_check(waiter->job);
    if (status && waiter->team >= 0)
        status = name_operation(waiter, status);
    if (!status &&
        waiter->waited_ns - waiter->peers_checked_ns >= waiter->job->waits.watch_every_ns)
        status = check_peers(waiter);
    if (!status)
        status = ask_program(waiter);
    if (!status)
        sleep_if_long(waiter);
    return status;
}

/* Yields between polls of the paths, which are system calls themselves. A PE that has its CPU to
 * itself yields only occasionally, which shows whether it still has. */
static void yield_between_checks(struct waiter *waiter, bool came)
{
    _Atomic bool *alone = &waiter->job->paths.alone;
    bool was = atomic_load_explicit(alone, memory_order_relaxed);
    waiter->empty_polls = came ? 0 : waiter->empty_polls + 1;
    waiter->quiet_ns = came ? 0 : waiter->quiet_ns;
    if (came || (was && waiter->empty_polls % CHECKS_PER_YIELD))
        return;
    waiter->shares_cpu = cpu_yield();
    if (waiter->shares_cpu == was)
        atomic_store_explicit(alone, !was, memory_order_relaxed);
}

weft_status waiter_slow(struct waiter *waiter, uint64_t seen)
{
    /* the default context has every path that is in use */
    if (unlikely(waiter->job->default_ctx->open_count))
        yield_between_checks(waiter, job_progress(waiter->job));
    else
        waiter->shares_cpu = cpu_yield();
    if (waiter->slot || in_remote_check || waiter->polls % POLLS_PER_CHECK == 0)
        return check_progress(waiter, seen);
    return WEFT_OK;
}

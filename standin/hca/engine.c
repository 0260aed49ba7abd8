/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: a thread that polls the doorbells, carries out queues, and lies down when there is
 * nothing to do. */
#include "hca.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* An engine without work first lets others have its CPU: those who wait for it do the same, so that
 * a turn takes no longer than their looks, and whoever gives requests meanwhile gives many. Beside
 * a thread that keeps the CPU for its whole slice that would take milliseconds: then, and when
 * nothing has come for YIELD_NS, it sleeps, from which it is woken before those who spin. A sleep
 * is a timer, which costs more than a look where the CPU is virtual. */
enum {
    YIELD_NS = 200 * 1000,
    SLICE_NS = 1500 * 1000,            /* away for so long: somebody computes here */
    AFTER_SLICE_NS = 20 * 1000 * 1000, /* and is taken to do so for that long */
    SHORTEST_SLEEP_NS = 10000,
    GPU_POLL_NS = 200 * 1000,
};

/* False: not now. */
static bool read_doorbell(struct device *d, struct uar *u, uint64_t *value)
{
    if (u->on_gpu) {
        if (d->now < u->next_poll_ns)
            return false;
        u->next_poll_ns = d->now + GPU_POLL_NS;
        return memory_get(d, value, u->reg, sizeof *value);
    }
    /* Pairs with the doorbell's store: the requests and the doorbell record were written before. */
    *value = __atomic_load_n(u->reg, __ATOMIC_ACQUIRE);
    return true;
}

static bool poll_doorbells(struct device *d)
{
    bool worked = false;
    for (unsigned i = 1; i < d->uar_top; i++) {
        struct uar *u = d->uars[i];
        if (!u || (u->for_gpu && !u->by_cpu))
            continue;
        uint64_t value;
        if (!read_doorbell(d, u, &value))
            continue;
        u->owed = false;
        if (value == u->seen)
            continue;
        if (adversary_skips_step(d)) {
            worked = true; /* it is looked at again */
            continue;
        }
        u->seen = value;
        send_doorbell(u, value);
        if (adversary_skips_step(d))
            send_doorbell(u, value); /* once more */
        worked = true;
    }
    return worked;
}

static bool run_queues(struct device *d, bool *timed)
{
    bool worked = false;
    for (unsigned i = 0; i < d->work_count; i++) {
        struct qp *qp = d->work[i];
        bool ran = send_run(qp), waits = send_timers(qp);
        bool more = ran || qp->fault.syndrome || qp->busy ||
                    (qp->state == QP_RTS && qp->taken != qp->producer);
        worked |= ran;
        *timed |= waits;
        if (more || waits)
            continue;
        qp->listed = false;
        d->work[i--] = d->work[--d->work_count];
    }
    return worked;
}

static void publish(struct device *d)
{
    for (unsigned i = 0; i < d->out_count; i++) {
        struct link_out *l = d->out[i];
        if (!l->unpublished)
            continue;
        l->unpublished = false;
        ring_publish(&l->requests);
        if (!l->self)
            link_wake_engine(l->wakeup);
    }
}

/* engine_pass: one look at everything. *timed: something waits for the clock. */
bool engine_pass(struct device *d, bool *timed)
{
    bool worked = false;
    *timed = false;
    d->now = clock_ns();
    worked |= poll_doorbells(d);
    worked |= run_queues(d, timed);
    publish(d);
    worked |= roce_receive(d);
    for (unsigned i = 0; i < d->in_count; i++)
        worked |= respond_run(d->in[i], d);
    for (unsigned i = 0; i < d->in_count; i++)
        *timed |= d->in[i]->delayed.count != 0;
    *timed |= adversary_flush_expired(d, &d->apart);
    for (unsigned i = 0; i < d->out_count && !adversary_skips_step(d); i++)
        worked |= send_handle_responses(d->out[i], d);
    for (unsigned i = 0; i < d->notify_count; i++)
        worked |= cq_notify(d->notify[i]);
    worked |= roce_send(d);
    return worked;
}

/* A doorbell is a plain store, which wakes nobody: the longer nothing came, the longer the engine
 * sleeps. Peers and the plain verbs ring the bell. */
static void sleep_idle(struct device *d, uint64_t idle_ns, bool timed)
{
    uint64_t most = (uint64_t)d->config->idle_us * 1000, sleep = idle_ns / 8;
    if (timed && most > 50000)
        most = 50000;
    sleep = sleep < SHORTEST_SLEEP_NS ? SHORTEST_SLEEP_NS : sleep > most ? most : sleep;
    struct timespec t = {(time_t)(sleep / 1000000000), (long)(sleep % 1000000000)};
    uint32_t seen = __atomic_load_n(&d->wakeup[0], __ATOMIC_RELAXED);
    __atomic_store_n(&d->wakeup[1], 1, __ATOMIC_RELAXED);
    /* Pairs with the fence of link_wake_engine(): after it, what was published without a ring is
     * seen. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    device_lock(d);
    bool unused, worked = engine_pass(d, &unused);
    device_unlock(d);
    if (!worked && !atomic_load(&d->stop))
        syscall(SYS_futex, d->wakeup, FUTEX_WAIT, seen, &t, NULL, 0);
    __atomic_store_n(&d->wakeup[1], 0, __ATOMIC_RELAXED);
}

/* step_aside: for others of this CPU. Returns until when to sleep instead. */
static uint64_t yield_cpu(uint64_t now)
{
    sched_yield();
    uint64_t back = clock_ns();
    return back - now > SLICE_NS ? back + AFTER_SLICE_NS : 0;
}

void *engine_main(void *device)
{
    struct device *d = device;
    uint64_t last = clock_ns(), sleep_until = 0;
    prctl(PR_SET_TIMERSLACK, 1000UL);
    while (!atomic_load(&d->stop)) {
        bool timed;
        /* Others come first: they want the lock once, the engine all the time. */
        while (atomic_load(&d->wanted))
            sched_yield();
        pthread_mutex_lock(&d->lock);
        bool worked = engine_pass(d, &timed);
        uint64_t now = d->now;
        pthread_mutex_unlock(&d->lock);
        if (worked)
            last = now;
        else if (now - last < YIELD_NS && now >= sleep_until)
            sleep_until = yield_cpu(now);
        else
            sleep_idle(d, now - last, timed);
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU engine: a thread that polls doorbells, runs QPs, and sleeps when there is nothing to
 * do. */
#include "hca.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* An idle engine first yields its CPU. Programs that wait for it do the same, so a turn takes only
 * a few polls, and a program posts many WQEs meanwhile. If another thread keeps the CPU for its
 * whole time slice, or nothing has arrived for YIELD_NS, the engine sleeps; a sleeper is scheduled
 * before spinning threads. A sleep needs a timer, which costs more than a poll on a virtual CPU. */
enum {
    YIELD_NS = 200 * 1000,
    /* a yield that takes this long: another thread computes on this CPU */
    SLICE_NS = 1500 * 1000,
    /* the engine then sleeps instead of yielding for this long */
    AFTER_SLICE_NS = 20 * 1000 * 1000,
    SHORTEST_SLEEP_NS = 10000,
    GPU_POLL_NS = 200 * 1000,
};

/* Reads a doorbell register. False: not in this pass. */
static bool read_doorbell(struct device *d, struct uar *u, uint64_t *value)
{
    if (u->on_gpu) {
        if (d->now < u->next_poll_ns)
            return false;
        u->next_poll_ns = d->now + GPU_POLL_NS;
        return memory_get(d, value, u->reg, sizeof *value);
    }
    /* Pairs with the doorbell's store: the program wrote the WQEs and the doorbell record
     * before. */
    *value = __atomic_load_n(u->reg, __ATOMIC_ACQUIRE);
    return true;
}

static bool poll_doorbells(struct device *d)
{
    bool worked = false;
    for (unsigned i = 1; i < d->objects.uar_top; i++) {
        struct uar *u = d->objects.uars[i];
        if (!u || (u->for_gpu && !u->by_cpu))
            continue;
        uint64_t value;
        if (!read_doorbell(d, u, &value))
            continue;
        u->cpu_poll_pending = false;
        if (value == u->seen)
            continue;
        if (adversary_skips_step(d)) {
            worked = true; /* it is polled again */
            continue;
        }
        u->seen = value;
        send_doorbell(u, value);
        if (adversary_skips_step(d))
            send_doorbell(u, value); /* handled twice */
        worked = true;
    }
    return worked;
}

static bool run_queues(struct device *d, bool *timed)
{
    bool worked = false;
    for (unsigned i = 0; i < d->pending.work_count; i++) {
        struct qp *qp = d->pending.work[i];
        bool ran = send_run(qp), waits = send_timers(qp);
        bool more = ran || qp->send.fault.syndrome || qp->current.loaded ||
                    (qp->state == QP_RTS && qp->send.taken != qp->send.producer);
        worked |= ran;
        *timed |= waits;
        if (more || waits)
            continue;
        qp->send.listed = false;
        d->pending.work[i--] = d->pending.work[--d->pending.work_count];
    }
    return worked;
}

static void publish(struct device *d)
{
    for (unsigned i = 0; i < d->links.out_count; i++) {
        struct link_out *l = d->links.out[i];
        if (!l->unpublished)
            continue;
        l->unpublished = false;
        if (d->unreachable) { /* the packets written in this pass are lost */
            l->requests.own = l->requests.shared->tail;
            continue;
        }
        ring_publish(&l->requests);
        if (!l->self)
            link_wake_engine(l->wakeup);
    }
}

/* One pass over doorbells, QPs and links. *timed: something waits for time to pass. */
bool engine_pass(struct device *d, bool *timed)
{
    bool worked = false;
    *timed = false;
    d->now = clock_ns();
    worked |= poll_doorbells(d);
    worked |= run_queues(d, timed);
    publish(d);
    send_fail_behind_value(d);
    worked |= roce_receive(d);
    for (unsigned i = 0; i < d->links.in_count; i++)
        worked |= respond_run(d->links.in[i], d);
    for (unsigned i = 0; i < d->links.in_count; i++)
        *timed |= d->links.in[i]->delayed.count != 0;
    *timed |= adversary_flush_expired(d, &d->pending.apart);
    for (unsigned i = 0; i < d->links.out_count && !adversary_skips_step(d); i++)
        worked |= send_handle_responses(d->links.out[i], d);
    for (unsigned i = 0; i < d->pending.notify_count; i++)
        worked |= cq_notify(d->pending.notify[i]);
    worked |= roce_send(d);
    return worked;
}

/* Sleeps. A doorbell is a plain store, which wakes no thread: the longer nothing arrived, the
 * longer the sleep. Peers and the verbs functions wake the engine through its futex word. */
static void sleep_idle(struct device *d, uint64_t idle_ns, bool timed)
{
    uint64_t most = (uint64_t)d->config->idle_us * 1000, sleep = idle_ns / 8;
    if (timed && most > 50000)
        most = 50000;
    sleep = sleep < SHORTEST_SLEEP_NS ? SHORTEST_SLEEP_NS : sleep > most ? most : sleep;
    struct timespec t = {(time_t)(sleep / 1000000000), (long)(sleep % 1000000000)};
    uint32_t seen = __atomic_load_n(&d->threads.wakeup[0], __ATOMIC_RELAXED);
    __atomic_store_n(&d->threads.wakeup[1], 1, __ATOMIC_RELAXED);
    /* Pairs with the fence of link_wake_engine(): after it, everything that was published without a
     * wake-up is visible. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    device_lock(d);
    bool unused, worked = engine_pass(d, &unused);
    device_unlock(d);
    if (!worked && !atomic_load(&d->threads.stop))
        syscall(SYS_futex, d->threads.wakeup, FUTEX_WAIT, seen, &t, NULL, 0);
    __atomic_store_n(&d->threads.wakeup[1], 0, __ATOMIC_RELAXED);
}

/* Yields the CPU. Returns until when to sleep instead, or 0. */
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
    while (!atomic_load(&d->threads.stop)) {
        bool timed;
        /* Other threads come first: they need the lock once, the engine all the time. */
        while (atomic_load(&d->threads.lock_waiters))
            sched_yield();
        pthread_mutex_lock(&d->threads.lock);
        bool worked = engine_pass(d, &timed);
        uint64_t now = d->now;
        pthread_mutex_unlock(&d->threads.lock);
        if (worked)
            last = now;
        else if (now - last < YIELD_NS && now >= sleep_until)
            sleep_until = yield_cpu(now);
        else
            sleep_idle(d, now - last, timed);
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of the software HCA with mocks in place of the work: when it polls a doorbell, which
 * queues it visits again, when it yields the CPU and how long it sleeps; and the objects that both
 * kinds of verbs share. */
#include "context.h"
#include "fails.h"
#include "gpu/driver.h"
#include "gpu/engine.h"
#include "trace.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

static struct config config;
static struct device device;
static uint32_t wakeup[4];
static uint64_t clock_now;

/* --- Mocks --- */

uint64_t clock_ns(void)
{
    return clock_now;
}

static unsigned lock_depth, wakes, changes;
void device_lock(struct device *d)
{
    assert_ptr_equal(d, &device);
    assert_int_equal(lock_depth, 0);
    lock_depth++;
}

void device_unlock(struct device *d)
{
    assert_int_equal(lock_depth, 1);
    lock_depth--;
}

void device_wake(struct device *d)
{
    wakes++;
}

void device_changes(struct device *d)
{
    assert_int_equal(lock_depth, 1);
    changes++;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    assert_ptr_equal(m, &device.threads.lock);
    assert_int_equal(lock_depth, 0);
    lock_depth++;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    assert_int_equal(lock_depth, 1);
    lock_depth--;
    return 0;
}

static bool skips[64]; /* successive results of the adversary */
static unsigned skip_count;
bool adversary_skips_step(struct device *d)
{
    return skip_count < 64 && skips[skip_count++];
}

static bool expires[3]; /* for the device */
bool adversary_flush_expired(struct device *d, struct delayed_writes *h)
{
    assert_ptr_equal(h, &d->pending.apart);
    return expires[0];
}

static unsigned far_reads;
static bool far_fails;
bool memory_get(struct device *d, void *to, const void *from, size_t bytes)
{
    assert_int_equal(bytes, 8);
    far_reads++;
    memcpy(to, from, 8);
    return !far_fails;
}

static struct uar *rung[16];
static uint64_t rung_with[16];
static unsigned rings;
void send_doorbell(struct uar *uar, uint64_t value)
{
    assert_true(rings < 16);
    rung[rings] = uar;
    rung_with[rings++] = value;
}

/* Log of the calls; worked_mask and timed_mask: the result of call i is bit i. */
static char called[256];
static unsigned worked_mask, timed_mask;
static unsigned calls;
static bool answer_of(char name)
{
    size_t n = strlen(called);
    called[n] = name;
    called[n + 1] = '\0';
    return worked_mask >> calls++ & 1;
}

bool send_run(struct qp *qp)
{
    return answer_of('q');
}

bool send_timers(struct qp *qp)
{
    return timed_mask >> (qp->qpn & 7) & 1;
}

void send_fail_behind_value(struct device *d)
{
    assert_ptr_equal(d, &device);
}

bool respond_run(struct link_in *link, struct device *d)
{
    return answer_of('i');
}

bool send_handle_responses(struct link_out *link, struct device *d)
{
    return answer_of('o');
}

/* For the tests of the thread: stops it after passes_left passes; pass works_at reports work. */
static struct cq stopper;
static unsigned passes_left, works_at;

bool cq_notify(struct cq *cq)
{
    if (cq != &stopper)
        return answer_of('n');
    called[0] = '\0';
    calls = 0;
    if (!--passes_left)
        atomic_store(&device.threads.stop, true);
    clock_now += 1000;
    return works_at && passes_left == works_at;
}

bool roce_receive(struct device *d)
{
    return answer_of('r');
}

bool roce_send(struct device *d)
{
    return answer_of('s');
}

static uint32_t *bells_rung[4];
static unsigned bells;
void link_wake_engine(uint32_t *at)
{
    bells_rung[bells++ % 4] = at;
}

/* Time that passes during a yield. */
static uint64_t away;
static unsigned yields;
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    atomic_store(&device.threads.lock_waiters, 0);
    clock_now += away;
    return 0;
}

static struct {
    unsigned calls;
    uint32_t seen, asleep;
    struct timespec time;
} sleeps;
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5);
long __wrap_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5)
{
    if (number != SYS_futex)
        return __real_syscall(number, a0, a1, a2, a3, a4, a5);
    const struct timespec *t = (const struct timespec *)a3;
    assert_ptr_equal((const uint32_t *)a0, wakeup);
    assert_int_equal((int)a1, FUTEX_WAIT);
    assert_int_equal(a4, 0);
    assert_int_equal((int)a5, 0);
    assert_int_equal(lock_depth, 0);
    sleeps.calls++;
    sleeps.seen = (uint32_t)a2;
    sleeps.asleep = wakeup[1];
    sleeps.time = *t;
    clock_now += (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
    say("  sleeps %lld.%09ld\n", (long long)t->tv_sec, t->tv_nsec);
    return 0;
}

static unsigned slacks;
int __wrap_prctl(int option, unsigned long value);
int __wrap_prctl(int option, unsigned long value)
{
    assert_int_equal(option, PR_SET_TIMERSLACK);
    assert_int_equal(value, 1000);
    slacks++;
    return 0;
}

/* Other modules. */
static struct link_out links[2];
static bool links_fail;
struct link_out *link_connect(struct device *d, uint32_t address)
{
    assert_int_equal(lock_depth, 0);
    say("  connect %u\n", address);
    return links_fail ? NULL : &links[0];
}

struct link_out *link_find(struct device *d, uint32_t address)
{
    assert_int_equal(lock_depth, 1);
    return &links[1];
}

void link_attach(struct device *d, struct qp *qp, struct link_out *link)
{
    assert_ptr_equal(d, &device);
    qp->requester.link = link;
}

void link_release(struct device *d, struct qp *qp)
{
    assert_ptr_equal(d, &device);
    say("  release %d\n", qp->requester.link != NULL);
    qp->requester.link = NULL;
}

uint32_t roce_window(const struct qp *qp)
{
    return qp->requester.link ? 17 : 0;
}

void log_error(struct device *d, const char *format, ...)
{
    char line[300];
    va_list a;
    va_start(a, format);
    vsnprintf(line, sizeof line, format, a);
    va_end(a);
    assert_int_equal(lock_depth, 1);
    say("  log: %s\n", line);
}

void qp_reset(struct qp *qp)
{
    say("  reset\n");
}

void qp_to_error(struct qp *qp)
{
    say("  to error\n");
    qp->state = QP_ERROR;
}

void qp_list(struct qp *qp)
{
    say("  list\n");
}

void gpu_engine_release_queue(struct device *d, struct qp *qp)
{
    assert_ptr_equal(d, &device);
    assert_int_equal(lock_depth, 0);
    say("  leave\n");
    qp->send.leaving_gpu = true;
}

static uint64_t far_register;
uint64_t gpu_engine_register(struct device *d)
{
    return far_register;
}

static unsigned unregistered;
static int unregister(void *at)
{
    assert_non_null(at);
    unregistered++;
    return 0;
}

static bool no_driver;
const struct gpu_driver *gpu_driver(void)
{
    static const struct gpu_driver table = {.host_unregister = unregister};
    return no_driver ? NULL : &table;
}

static long maps;
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    assert_int_equal(bytes, UAR_BYTES);
    void *p = due("mmap") ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
    maps += p != MAP_FAILED;
    return p;
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes)
{
    assert_int_equal(bytes, UAR_BYTES);
    maps--;
    return __real_munmap(at, bytes);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return due("calloc") ? NULL : __real_calloc(count, bytes);
}

static int setup(void **state)
{
    (void)state;
    memset(&device, 0, sizeof device);
    config = (struct config){.idle_us = 1000};
    device.config = &config;
    device.threads.wakeup = wakeup;
    device.objects.uar_top = 1;
    memset(wakeup, 0, sizeof wakeup);
    memset(skips, 0, sizeof skips);
    memset(&sleeps, 0, sizeof sleeps);
    skip_count = rings = bells = far_reads = calls = yields = wakes = changes = slacks = 0;
    worked_mask = timed_mask = 0;
    expires[0] = false;
    far_fails = links_fail = no_driver = false;
    away = 0;
    far_register = 0;
    called[0] = '\0';
    clock_now = 1000000000000;
    lock_depth = 0;
    return 0;
}

static bool pass(bool *timed)
{
    called[0] = '\0';
    calls = rings = bells = 0;
    lock_depth = 1;
    bool worked = engine_pass(&device, timed);
    lock_depth = 0;
    return worked;
}

/* --- One pass --- */

static void doorbells_are_seen_once(void **state)
{
    uint64_t registers[3] = {0, 5, 0};
    struct uar uars[3] = {{.reg = &registers[0]}, {.reg = &registers[1]}, {.reg = &registers[2]}};
    bool timed = true;
    device.objects.uars[1] = &uars[0];
    device.objects.uars[3] = &uars[1];
    device.objects.uars[4] = &uars[2];
    device.objects.uar_top = 4;
    registers[2] = 9; /* beyond the last queue */
    uars[0].cpu_poll_pending = uars[1].cpu_poll_pending = true;
    assert_true(pass(&timed));
    assert_false(timed);
    assert_int_equal(rings, 1);
    assert_ptr_equal(rung[0], &uars[1]);
    assert_int_equal(rung_with[0], 5);
    assert_int_equal(uars[1].seen, 5);
    assert_false(uars[0].cpu_poll_pending || uars[1].cpu_poll_pending);
    assert_false(pass(&timed));
    assert_int_equal(rings, 0);
    assert_int_equal(device.now, clock_now);
    /* The adversary skips a poll once or twice. */
    registers[1] = 6;
    skip_count = 0;
    skips[0] = true;
    assert_true(pass(&timed));
    assert_int_equal(rings, 0);
    assert_int_equal(uars[1].seen, 5);
    skips[skip_count + 1] = true;
    assert_true(pass(&timed));
    assert_int_equal(rings, 2);
    assert_ptr_equal(rung[1], &uars[1]);
    assert_int_equal(rung_with[1], 6);
    /* The queue belongs to the GPU's engine until the CPU takes it. */
    uars[1].for_gpu = uars[1].cpu_poll_pending = true;
    registers[1] = 7;
    assert_false(pass(&timed));
    assert_true(uars[1].cpu_poll_pending);
    uars[1].by_cpu = true;
    assert_true(pass(&timed));
    assert_false(uars[1].cpu_poll_pending);
    uars[1].for_gpu = false;
    /* The doorbell is in GPU memory: it is polled at intervals. */
    uars[1].on_gpu = true;
    registers[1] = 8;
    uars[1].next_poll_ns = clock_now + 1;
    uars[1].cpu_poll_pending = true;
    assert_false(pass(&timed));
    assert_int_equal(far_reads, 0);
    assert_true(uars[1].cpu_poll_pending);
    clock_now++;
    assert_true(pass(&timed));
    assert_int_equal(far_reads, 1);
    assert_int_equal(uars[1].next_poll_ns, clock_now + 200000);
    assert_int_equal(rung_with[0], 8);
    uars[1].next_poll_ns = 0;
    registers[1] = 9;
    far_fails = true;
    assert_false(pass(&timed));
    assert_int_equal(rings, 0);
    assert_int_equal(uars[1].seen, 8);
}

static void queues_are_visited_while_they_have_something(void **state)
{
    static const struct {
        bool ran, waits, fault, busy, more;
        enum qp_state qp_state;
        bool stays, worked, timed;
    } cases[] = {
        {false, false, false, false, false, QP_RTS, false, false, false},
        {true, false, false, false, false, QP_RTS, true, true, false},
        {false, true, false, false, false, QP_RTS, true, false, true},
        {false, false, true, false, false, QP_RTS, true, false, false},
        {false, false, false, true, false, QP_RTS, true, false, false},
        {false, false, false, false, true, QP_RTS, true, false, false},
        {false, false, false, false, true, QP_SQD, false, false, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        setup(state);
        struct qp first = {.qpn = 1, .send.listed = true, .state = QP_RTS},
                  q = {.qpn = 2, .send.listed = true, .state = cases[i].qp_state},
                  last = {.qpn = 3, .send.listed = true, .state = QP_RTS, .current.loaded = true};
        bool timed;
        device.pending.work[0] = &first;
        device.pending.work[1] = &q;
        device.pending.work[2] = &last;
        device.pending.work_count = 3;
        /* The first queue is removed and the last takes its place: that one is visited too. */
        worked_mask = cases[i].ran ? 1u << 2 : 0;
        timed_mask = cases[i].waits ? 1u << 2 : 0;
        q.send.fault.syndrome = cases[i].fault;
        q.current.loaded = cases[i].busy;
        q.send.taken = cases[i].more;
        assert_int_equal(pass(&timed), cases[i].worked);
        assert_int_equal(timed, cases[i].timed);
        assert_false(first.send.listed);
        assert_true(last.send.listed);
        assert_int_equal(q.send.listed, cases[i].stays);
        assert_int_equal(device.pending.work_count, cases[i].stays ? 2 : 1);
        assert_int_equal(strspn(called, "q"), 3);
        assert_ptr_equal(device.pending.work[0], &last);
    }
}

static void all_that_may_work_has_its_turn(void **state)
{
    static struct link_in in[2];
    static struct cq cqs[2];
    uint32_t peer[4];
    bool timed;
    links[0] = (struct link_out){.unpublished = true, .wakeup = peer};
    links[1] = (struct link_out){.self = true, .unpublished = true, .wakeup = wakeup};
    struct ring_shared *shared = calloc(2, sizeof *shared);
    for (unsigned i = 0; i < 2; i++) {
        links[i].requests = (struct ring){.shared = &shared[i], .own = 77 + i};
        device.links.out[i] = &links[i];
        device.links.in[i] = &in[i];
        device.pending.notify[i] = &cqs[i];
    }
    device.links.out_count = device.links.in_count = device.pending.notify_count = 2;
    assert_false(pass(&timed));
    assert_string_equal(called, "riioonns");
    /* The data in the rings is published, and peers in other processes are notified. */
    assert_int_equal(shared[0].tail, 77);
    assert_int_equal(shared[1].tail, 78);
    assert_int_equal(bells, 1);
    assert_ptr_equal(bells_rung[0], peer);
    assert_false(links[0].unpublished || links[1].unpublished);
    links[0].requests.own = 99;
    assert_false(pass(&timed));
    assert_int_equal(shared[0].tail, 77);
    assert_int_equal(bells, 0);
    for (unsigned i = 0; i < 8; i++) {
        worked_mask = 1u << i;
        assert_true(pass(&timed));
        assert_false(timed);
        assert_int_equal(strlen(called), 8);
    }
    worked_mask = 0;
    in[1].delayed.count = 1;
    assert_false(pass(&timed));
    assert_true(timed);
    in[1].delayed.count = 0;
    expires[0] = true;
    assert_false(pass(&timed));
    assert_true(timed);
    expires[0] = false;
    skip_count = 0;
    skips[1] = true; /* the answers of the second link are postponed */
    assert_false(pass(&timed));
    assert_string_equal(called, "riionns");
    free(shared);
}

/* --- The thread --- */

static void run_engine(unsigned idle_us)
{
    config.idle_us = idle_us;
    atomic_store(&device.threads.stop, false);
    assert_null(engine_main(&device));
}

static int thread_setup(void **state)
{
    setup(state);
    device.pending.notify[0] = &stopper;
    device.pending.notify_count = 1;
    return 0;
}

static void sleeps_get_longer(void **state)
{
    say("# sleeps get longer\n");
    passes_left = 60;
    works_at = 0;
    away = 30000;
    wakeup[0] = 41;
    atomic_store(&device.threads.lock_waiters, 1);
    run_engine(300);
    say("  yields %u, slack %u, asleep %u seen %u now %u\n", yields, slacks, sleeps.asleep,
        sleeps.seen, wakeup[1]);
}

static void work_ends_the_sleep(void **state)
{
    say("# work ends the sleep\n");
    passes_left = 40;
    works_at = 12;
    away = 50000;
    run_engine(1000);
    say("  yields %u\n", yields);
}

static void who_is_away_for_a_slice_sleeps(void **state)
{
    say("# away for a slice\n");
    passes_left = 20;
    works_at = 8;
    away = 1500000;
    run_engine(1000);
    say("  yields %u\n", yields);
    passes_left = 20;
    away = 1498000;
    yields = 0;
    run_engine(1000);
    say("  yields %u\n", yields);
}

static void who_waits_for_the_clock_sleeps_less(void **state)
{
    say("# waits for the clock\n");
    expires[0] = true;
    passes_left = 40;
    works_at = 0;
    away = 60000;
    run_engine(700);
    passes_left = 30;
    run_engine(40);
    passes_left = 30;
    run_engine(2);
    expires[0] = false;
    clock_now = 0;
    passes_left = 90;
    away = 4000000000;
    run_engine(1000000);
}

/* --- Doorbell pages, completion queues, transitions --- */

static void pages(void **state)
{
    struct uar *u[4];
    for (unsigned i = 0; i < 4; i++) {
        u[i] = uar_add(&device);
        assert_int_equal(u[i]->page_id, i + 1);
        assert_ptr_equal(u[i]->device, &device);
        assert_ptr_equal(u[i]->reg, u[i]->page + 0x800);
        assert_false(u[i]->on_gpu);
        assert_int_equal(u[i]->gpu_address, 0);
        assert_int_equal(device.objects.uar_top, i + 2);
    }
    uar_remove(u[1]);
    assert_int_equal(device.objects.uar_top, 5);
    assert_null(device.objects.uars[2]);
    uar_remove(u[3]);
    assert_int_equal(device.objects.uar_top, 4);
    u[1] = uar_add(&device);
    assert_int_equal(u[1]->page_id, 2);
    assert_int_equal(device.objects.uar_top, 4);
    far_register = 0x123400;
    u[3] = uar_add(&device);
    uar_move_to_gpu(u[3]); /* of verbs: the program does not know it */
    assert_false(u[3]->on_gpu);
    struct mlx5dv_devx_uar program = {.reg_addr = u[3]->reg, .base_addr = u[3]->page};
    u[3]->program = &program;
    uar_move_to_gpu(u[3]);
    assert_ptr_equal(program.reg_addr, u[3]->reg);
    assert_ptr_equal(program.base_addr, u[3]->reg);
    assert_true(u[3]->on_gpu);
    assert_int_equal(u[3]->gpu_address, 0x123400);
    assert_int_equal((uintptr_t)u[3]->reg, 0x123400);
    assert_ptr_equal(u[3]->page, u[3]->reg);
    assert_int_equal(maps, 3);
    uar_remove(u[3]);
    assert_int_equal(maps, 3);
    u[3] = uar_add(&device);
    assert_false(u[3]->on_gpu);
    u[3]->registered = true;
    uar_remove(u[3]);
    assert_int_equal(unregistered, 1);
    far_register = 0;
    u[3] = uar_add(&device);
    u[3]->program = &program;
    uar_move_to_gpu(u[3]);
    assert_false(u[3]->on_gpu);
    u[3]->registered = true;
    no_driver = true;
    uar_remove(u[3]);
    assert_int_equal(unregistered, 1);
    fail_next("calloc", 1, 0);
    assert_null(uar_add(&device));
    fail_next("mmap", 1, 0);
    assert_null(uar_add(&device));
    assert_null(device.objects.uars[4]);
    for (unsigned i = 4; i < MAX_UARS - 1; i++)
        device.objects.uars[i] = u[0];
    u[3] = uar_add(&device);
    assert_int_equal(u[3]->page_id, MAX_UARS - 1);
    assert_int_equal(device.objects.uar_top, MAX_UARS);
    assert_null(uar_add(&device));
    memset(device.objects.uars + 4, 0, (MAX_UARS - 5) * sizeof *device.objects.uars);
    uar_remove(u[3]);
    assert_int_equal(device.objects.uar_top, 4);
    uar_remove(u[2]);
    uar_remove(u[0]);
    uar_remove(u[1]);
    assert_int_equal(device.objects.uar_top, 1);
    assert_int_equal(maps, 0);
}

static void numbers_of_completion_queues(void **state)
{
    device.objects.cq_next = MAX_CQS - 2;
    struct cq *a = cq_add(&device), *b = cq_add(&device), *c;
    assert_int_equal(a->cqn, MAX_CQS - 1);
    assert_int_equal(b->cqn, 1);
    assert_ptr_equal(a->device, &device);
    assert_ptr_equal(device.objects.cqs[1], b);
    device.objects.cqs[2] = a;
    c = cq_add(&device);
    assert_int_equal(c->cqn, 3);
    device.objects.cqs[2] = NULL;
    fail_next("calloc", 1, 0);
    assert_null(cq_add(&device));
    struct umem umems[2] = {{.users = 3}, {.users = 5}};
    c->memories[0] = &umems[0];
    c->memories[1] = &umems[1];
    device.pending.notify[0] = c;
    device.pending.notify[1] = a;
    device.pending.notify[2] = b;
    device.pending.notify_count = 3;
    cq_remove(c);
    assert_int_equal(umems[0].users, 2);
    assert_int_equal(umems[1].users, 4);
    assert_int_equal(device.pending.notify_count, 2);
    assert_ptr_equal(device.pending.notify[0], b);
    assert_ptr_equal(device.pending.notify[1], a);
    assert_null(device.objects.cqs[3]);
    cq_remove(a);
    cq_remove(b);
    assert_int_equal(device.pending.notify_count, 0);
    for (unsigned i = 1; i < MAX_CQS; i++)
        device.objects.cqs[i] = i == 5 ? NULL : (void *)&umems;
    device.objects.cq_next = 5;
    a = cq_add(&device);
    assert_int_equal(a->cqn, 5);
    assert_null(cq_add(&device));
    cq_remove(a);
    memset(device.objects.cqs, 0, sizeof device.objects.cqs);
}

static void moves(void **state)
{
    static const struct qp_modify all = {.remote_qpn = 0x111,
                                         .receive_psn = 0x3000005,
                                         .send_psn = 0x4000006,
                                         .remote = 9,
                                         .mtu = 512,
                                         .source_port = 0xc001,
                                         .access = 6,
                                         .access_set = 10,
                                         .max_reads = 17,
                                         .timeout = 0x3f,
                                         .retry_count = 0xfe,
                                         .rnr_retry = 0xfd,
                                         .rnr_timer = 7};
    say("# moves\n");
    for (unsigned type = QP_RC; type <= QP_DCT; type++)
        for (unsigned from = QP_RESET; from <= QP_ERROR; from++)
            for (unsigned to = QP_RESET; to <= QP_ERROR; to++) {
                struct qp qp = {.device = &device, .qpn = 3, .type = type, .state = from};
                struct qp_modify m = all;
                m.to = to;
                int e = qp_modify(&qp, &m, 0);
                say("type %u from %u to %u: %d, %u\n", type, from, to, e, qp.state);
            }
    for (unsigned i = 0; i < 14; i++) {
        struct uar u = {.by_cpu = true};
        struct qp qp = {.device = &device,
                        .qpn = 3,
                        .type = i == 8 ? QP_DCI : QP_RC,
                        .state = QP_INIT,
                        .access = 5,
                        .requester.link = &links[0],
                        .uar = i == 12 ? NULL : &u,
                        .send.gpu_ring = i >= 9};
        struct qp_modify m = all;
        wakes = changes = 0;
        links_fail = i == 7;
        m.max_reads = i == 13 ? 16 : i == 3 ? 15 : 17;
        m.to = i == 10 ? QP_RTS : i == 11 ? QP_ERROR : i == 12 ? QP_RTS : QP_RTR;
        if (i >= 10)
            qp.state = QP_RTR;
        if (i == 13)
            m.to = QP_RTS;
        int e = qp_modify(&qp, &m, i < 4 ? 1u << i : i == 4 ? 0 : 15);
        say("move %u: %d state %u access %x timer %u to %x at %u mtu %u port %x "
            "expected %x said %x stream %x %u psn %x %x %x reads %u timeout %u "
            "tries %u %u %u %u link %d window %u\n",
            i, e, qp.state, qp.access, qp.rnr_timer, qp.requester.remote_qpn, qp.requester.remote,
            qp.requester.mtu, qp.requester.source_port, qp.responder.expected_psn,
            qp.responder.ack_psn, qp.responder.qpn, qp.responder.from, qp.requester.psn,
            qp.requester.acked, qp.requester.psn_limit, qp.requester.max_reads,
            qp.requester.timeout, qp.requester.retry_count, qp.requester.retries,
            qp.requester.rnr_retry, qp.requester.rnr_tries,
            qp.requester.link == &links[1] ? 2 : qp.requester.link == &links[0],
            qp.requester.window);
        say("  cpu %d leaves %d wakes %u changes %u\n", u.by_cpu, qp.send.leaving_gpu, wakes,
            changes);
    }
}

static void all_is_as_written(void **state)
{
    golden_is(GOLDEN, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(doorbells_are_seen_once, setup),
        cmocka_unit_test_setup(queues_are_visited_while_they_have_something, setup),
        cmocka_unit_test_setup(all_that_may_work_has_its_turn, setup),
        cmocka_unit_test_setup(sleeps_get_longer, thread_setup),
        cmocka_unit_test_setup(work_ends_the_sleep, thread_setup),
        cmocka_unit_test_setup(who_is_away_for_a_slice_sleeps, thread_setup),
        cmocka_unit_test_setup(who_waits_for_the_clock_sleeps_less, thread_setup),
        cmocka_unit_test_setup(pages, setup),
        cmocka_unit_test_setup(numbers_of_completion_queues, setup),
        cmocka_unit_test_setup(moves, setup),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

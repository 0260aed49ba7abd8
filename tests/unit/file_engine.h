/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of a file's engine: a queue, memory, a clock and threads that the test controls. A
 * thread is a separate stack that runs when another thread waits for it, so each run is the same,
 * and a thread that would sleep for ever fails the test. The program wraps what is defined here as
 * __wrap_. */
#ifndef WEFT_TESTS_FILE_ENGINE_H
#define WEFT_TESTS_FILE_ENGINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/held_locks.h"

#include "file/engine.h"

#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

enum { BLOCK = 4096, CHUNK = 2 * BLOCK, DEPTH = 6, FILE_BYTES = 20 * CHUNK };

/* --------------------------------------------------------------------------------------- memory */

static struct {
    int left, given, returned; /* allocations until one fails; made; freed */
} heap;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    void *made = heap.left-- ? __real_calloc(n, bytes) : NULL;
    heap.given += made != NULL;
    return made;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    heap.returned += memory != NULL;
    __real_free(memory);
}

/* -------------------------------------------------------------------------------------- threads */

static struct thread {
    ucontext_t here, back;
    void *(*body)(void *);
    void *argument;
    const pthread_cond_t *waits;
    bool lives;
    char stack[256 << 10];
} threads[2];
static struct thread *running; /* NULL: the test itself runs */

static struct {
    int started, refuse, joined, mutexes, conds, yields, naps;
    int signals, broadcasts; /* unused */
    bool told;               /* the condition that the test waits for was signalled */
    const pthread_cond_t *waits;
} sched;

static void thread_body(void)
{
    running->body(running->argument);
    running->lives = false;
    swapcontext(&running->here, &running->back);
}

static void new_thread(struct thread *t, void *(*body)(void *), void *argument)
{
    t->body = body;
    t->argument = argument;
    t->waits = NULL;
    t->lives = true;
    getcontext(&t->here);
    t->here.uc_stack.ss_sp = t->stack;
    t->here.uc_stack.ss_size = sizeof t->stack;
    makecontext(&t->here, thread_body, 0);
}

/* Runs each thread that does not wait until it waits. Returns false if there is none. */
static bool run_threads(void)
{
    bool any = false;
    for (int i = 0; i < 2; i++) {
        if (!threads[i].lives || threads[i].waits || running)
            continue;
        any = true;
        running = &threads[i];
        swapcontext(&running->back, &running->here);
        running = NULL;
    }
    return any;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    __wrap_pthread_mutex_unlock(lock);
    if (running) {
        running->waits = cond;
        swapcontext(&running->here, &running->back);
    } else {
        sched.waits = cond;
        sched.told = false;
        while (!sched.told)
            if (!run_threads())
                fail_msg("sleeps for ever");
        sched.waits = NULL;
    }
    __wrap_pthread_mutex_lock(lock);
    return 0;
}

static void tell(const pthread_cond_t *cond)
{
    sched.told |= sched.waits == cond;
    for (int i = 0; i < 2; i++)
        if (threads[i].waits == cond)
            threads[i].waits = NULL;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    tell(cond);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    tell(cond);
    return 0;
}

int __wrap_thread_start(pthread_t *thread, void *(*body)(void *), void *argument);
int __wrap_thread_start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    memset(thread, 0, sizeof *thread);
    if (sched.refuse)
        return EAGAIN;
    sched.started++;
    new_thread(&threads[0], body, argument);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    assert_true(none_is_held());
    while (threads[0].lives)
        if (!run_threads())
            fail_msg("waits for a thread that never ends");
    sched.joined++;
    return 0;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes)
{
    (void)lock, (void)attributes;
    sched.mutexes++;
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock)
{
    assert_false(is_held(lock));
    sched.mutexes--;
    return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    (void)cond, (void)attributes;
    sched.conds++;
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    (void)cond;
    sched.conds--;
    return 0;
}

static uint64_t now, yield_ns;

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    assert_true(none_is_held());
    sched.yields++;
    now += yield_ns;
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    assert_true(none_is_held());
    assert_null(rest);
    assert_int_equal(time->tv_sec, 0);
    assert_int_equal(time->tv_nsec, 100000);
    sched.naps++;
    return 0;
}

/* ------------------------------------------------------------------------------------ the queue */

static unsigned char disk[FILE_BYTES], memory[FILE_BYTES] __attribute__((aligned(BLOCK)));

static struct {
    struct file_io *given[64];
    int count, all; /* requests in flight; requests so far */
    unsigned depth;
    int opens, closes, pushes, wakes, takes, holds; /* holds: number of takes that return nothing */
    uint64_t waits[64];                             /* wait of each take() */
    int64_t results[64]; /* result of each request, in order; 0: all its bytes */
    int open_fails, error;
    void (*meanwhile)(void); /* called in the next take() that waits */
} queue;

static struct file_engine *engine;

static weft_status queue_open(const struct opened_file *file, unsigned depth,
                              struct file_queue **result)
{
    (void)file;
    queue.opens++;
    queue.depth = depth;
    *result = (struct file_queue *)(void *)&queue;
    return queue.open_fails ? base_fail(WEFT_ERR_UNSUPPORTED, "no queue") : WEFT_OK;
}

static void queue_close(struct file_queue *q)
{
    assert_ptr_equal(q, &queue);
    queue.closes++;
}

static void queue_give(struct file_queue *q, struct file_io *io)
{
    assert_ptr_equal(q, &queue);
    assert_true(is_held(&engine->lock));
    assert_true(io->offset + io->bytes <= FILE_BYTES);
    io->result = queue.results[queue.all] ? queue.results[queue.all] : (int64_t)io->bytes;
    queue.all++;
    queue.given[queue.count++] = io;
    if (io->result <= 0)
        return;
    if (io->write)
        memcpy(disk + io->offset, io->address, (size_t)io->result);
    else
        memcpy(io->address, disk + io->offset, (size_t)io->result);
}

static void queue_push(struct file_queue *q)
{
    assert_ptr_equal(q, &queue);
    queue.pushes++;
}

/* Returns all requests in flight, the last one first. */
static struct file_io *queue_take(struct file_queue *q, uint64_t wait_ns, int *error)
{
    struct file_io *list = NULL;
    assert_ptr_equal(q, &queue);
    assert_true(none_is_held());
    queue.waits[queue.takes++ % 64] = wait_ns;
    assert_true(queue.takes < 5000);
    *error = queue.error;
    if (queue.meanwhile && wait_ns) {
        void (*meanwhile)(void) = queue.meanwhile;
        queue.meanwhile = NULL;
        meanwhile();
    }
    if (queue.error)
        return NULL;
    if (queue.holds) {
        queue.holds--;
        now += wait_ns;
        return NULL;
    }
    for (int i = 0; i < queue.count; i++) {
        queue.given[i]->next = list;
        list = queue.given[i];
    }
    queue.count = 0;
    return list;
}

static void queue_wake(struct file_queue *q)
{
    assert_ptr_equal(q, &queue);
    queue.wakes++;
}

static const struct file_backend backend = {.name = "by hand",
                                            .open = queue_open,
                                            .close = queue_close,
                                            .submit = queue_give,
                                            .start = queue_push,
                                            .reap = queue_take,
                                            .wake = queue_wake};

/* ------------------------------------------------------------------------- memory of a transfer */

static struct {
    int gets, puts, settles, drops;
    int fails_at;     /* number of the get or put that fails, from 1 */
    int settle_fails; /* number of completions that fail */
    /* Queries of the event until a copy is complete; 0: it is complete at once. */
    int marks, passes_after;
    int mark_fails_at, looks;
    unsigned lanes; /* bit per internal stream */
    bool pinned;
} places;
static int mark, some_gpu;

static weft_status place_moves(int number, unsigned lane, struct gpu_event **m)
{
    assert_true(none_is_held());
    places.lanes |= 1u << lane;
    *m = NULL;
    if (number == places.fails_at)
        return base_fail(WEFT_ERR_PATH, "the memory is gone");
    if (places.passes_after) {
        places.marks = places.passes_after;
        *m = (struct gpu_event *)(void *)&mark;
    }
    return WEFT_OK;
}

weft_status __wrap_file_place_put(const struct file_place *place, size_t at, const void *buffer,
                                  size_t bytes, unsigned lane, struct gpu_event **m);
weft_status __wrap_file_place_put(const struct file_place *place, size_t at, const void *buffer,
                                  size_t bytes, unsigned lane, struct gpu_event **m)
{
    memcpy(place->address + at, buffer, bytes);
    return place_moves(++places.puts, lane, m);
}

weft_status __wrap_file_place_get(const struct file_place *place, size_t at, void *buffer,
                                  size_t bytes, unsigned lane, struct gpu_event **m);
weft_status __wrap_file_place_get(const struct file_place *place, size_t at, void *buffer,
                                  size_t bytes, unsigned lane, struct gpu_event **m)
{
    memcpy(buffer, place->address + at, bytes);
    return place_moves(++places.gets, lane, m);
}

weft_status __wrap_file_place_complete(const struct file_place *place);
weft_status __wrap_file_place_complete(const struct file_place *place)
{
    assert_int_equal(place->kind, FILE_REMOTE);
    assert_true(none_is_held());
    places.settles++;
    return places.settle_fails-- > 0 ? base_fail(WEFT_ERR_PEER_DEAD, "the peer is gone") : WEFT_OK;
}

weft_status __wrap_gpu_event_query(struct gpu *gpu, struct gpu_event **m);
weft_status __wrap_gpu_event_query(struct gpu *gpu, struct gpu_event **m)
{
    assert_ptr_equal(gpu, &some_gpu);
    assert_ptr_equal(*m, &mark);
    if (++places.looks == places.mark_fails_at)
        return base_fail(WEFT_ERR_KERNEL, "the GPU has failed");
    if (places.marks-- <= 0)
        *m = NULL;
    return WEFT_OK;
}

void __wrap_gpu_event_release(struct gpu *gpu, struct gpu_event **m);
void __wrap_gpu_event_release(struct gpu *gpu, struct gpu_event **m)
{
    assert_ptr_equal(gpu, &some_gpu);
    *m = NULL;
    places.drops++;
}

weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *address, size_t bytes);
weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *address, size_t bytes)
{
    (void)address, (void)bytes;
    assert_ptr_equal(gpu, &some_gpu);
    places.pinned = true;
    return WEFT_OK;
}

void __wrap_gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes);
void __wrap_gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes)
{
    assert_ptr_equal(gpu, &some_gpu);
    assert_ptr_equal(address, engine->buffers);
    assert_int_equal(bytes, DEPTH * CHUNK);
    places.pinned = false;
}

/* ----------------------------------------------------------------------------------- the engine */

static struct opened_file file;
static struct file_settings settings;
static weft_file_result result;

static int prepare(void **state)
{
    static char path[] = "a/file";
    (void)state;
    memset(&queue, 0, sizeof queue);
    memset(&places, 0, sizeof places);
    memset(&sched, 0, sizeof sched);
    memset(&heap, 0, sizeof heap);
    threads[0].lives = threads[1].lives = false;
    heap.left = -1;
    now = 1000000000;
    yield_ns = 25000;
    for (size_t i = 0; i < FILE_BYTES; i++) {
        disk[i] = (unsigned char)(i * 7 + i / 251);
        memory[i] = (unsigned char)(i * 5 + i / 241 + 1);
    }
    file = (struct opened_file){.calls = &file_system_calls,
                                .path = path,
                                .direct = 0,
                                .buffered = -1,
                                .alignment = BLOCK,
                                .memory_alignment = 512};
    settings = (struct file_settings){
        .backend = &backend, .depth = DEPTH, .most_depth = DEPTH + 2, .chunk_bytes = CHUNK};
    return 0;
}

static inline int open_engine(void **state)
{
    prepare(state);
    return file_engine_open(&file, &settings, &engine) != WEFT_OK;
}

static inline int close_engine(void **state)
{
    (void)state;
    file_engine_close(engine);
    assert_int_equal(heap.given, heap.returned);
    assert_int_equal(sched.mutexes, 0);
    assert_int_equal(sched.conds, 0);
    assert_int_equal(queue.closes, 1);
    assert_int_equal(sched.joined, sched.started);
    assert_false(places.pinned);
    assert_true(none_is_held());
    return 0;
}

static inline struct file_transfer transfer(enum file_place_kind kind, bool write, uint64_t offset,
                                            size_t bytes)
{
    return (struct file_transfer){
        .place = {.kind = kind, .address = (char *)memory, .gpu = (struct gpu *)(void *)&some_gpu},
        .offset = offset,
        .bytes = bytes,
        .write = write,
        .result = &result};
}

static inline weft_status run(enum file_place_kind kind, bool write, uint64_t offset, size_t bytes)
{
    const struct file_transfer t = transfer(kind, write, offset, bytes);
    memset(&result, 0x55, sizeof result);
    weft_status status = file_drive_run(engine, &t, 1);
    assert_int_equal(result.status, status);
    return status;
}

#endif

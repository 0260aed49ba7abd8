/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the stand-in, and when their work executes. In mode `immediate` a call
 * executes its work before it returns, except kernels that wait for another GPU. Otherwise every
 * stream has a queue and a thread that executes it later, as a GPU does:
 *   delayed    each operation starts after a random delay, and not before earlier operations of
 *              this process on any stream
 *   reordered  in order only within a stream. Data that a copy wrote becomes visible to others at a
 *              random later time, at the latest when its stream releases (a kernel's release, a
 *              signal of the driver) or accesses memory again, or when the host has synchronized.
 * In both modes a synchronization may return late, so that work of another thread comes in between,
 * and memory unknown to the driver is read when cuMemcpyAsync is called (a device that accesses
 * pageable memory reads it when the copy executes). */
#include "fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum mode { IMMEDIATE, DELAYED, REORDERED };

struct fake_stream {
    enum mode mode; /* the mode when the stream was created */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool threaded, closing, busy;
    struct fake_op *first, **last; /* queued, not started */
    struct fake_op *held;          /* copies that are done but not visible, the latest first */
    uint64_t last_due_ns;
    uint64_t random;
    double ns; /* duration of all its work */
    struct fake_stream *next;
};

/* Records are numbered: a stream that waits for an event waits for its current record. A later
 * record on another stream may complete first. */
enum { RECORDS = 64 };
struct fake_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, done[RECORDS]; /* indexed by record number */
    int uses;
    double ns; /* of its stream at the record */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_stream *streams;        /* all streams, for streams_reset() */
static struct fake_stream *default_stream; /* for the handle NULL */
static uint64_t process_due_ns;            /* of the last operation, in mode DELAYED */
static uint64_t stream_count;
static _Thread_local struct fake_stream *running;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static enum mode mode_wanted(void)
{
    const char *text = getenv("FAKE_CUDA_ORDER");
    if (!text || strcmp(text, "immediate") == 0)
        return IMMEDIATE;
    if (strcmp(text, "delayed") == 0)
        return DELAYED;
    if (strcmp(text, "reordered") == 0)
        return REORDERED;
    fprintf(stderr, "FAKE_CUDA_ORDER=%s is none of immediate, delayed, reordered\n", text);
    abort();
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = __atomic_add_fetch(state, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* Mostly short, so that programs make progress; sometimes long enough to expose a missing wait. */
static uint64_t delay_ns(uint64_t *random)
{
    uint64_t r = random_next(random), length = r >> 16;
    switch (r % 16) {
    case 0:
    case 1:
        return 1000000 + length % 3000000;
    case 2:
    case 3:
    case 4:
    case 5:
        return 50000 + length % 250000;
    default:
        return length % 20000;
    }
}

static void sleep_until(uint64_t due_ns)
{
    struct timespec t = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* --------------------------------------------------------------------------------- the queue */

/* Eight aligned bytes are written atomically, as over PCIe: a poller sees all of them or none. */
static void move_bytes(CUdeviceptr to, const void *from, size_t bytes)
{
    if (bytes == 8 && to % 8 == 0 && (uintptr_t)from % 8 == 0)
        __atomic_store_n((uint64_t *)memory_at(to),
                         __atomic_load_n((uint64_t *)from, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
    else if (memory_at(to) != from) /* CUDA copies may not overlap otherwise */
        memcpy(memory_at(to), from, bytes);
}

/* Makes held copies visible, the earliest first. */
static void release_held(struct fake_stream *s, struct fake_op *op)
{
    if (!op)
        return;
    release_held(s, op->next);
    move_bytes(op->to, op->held, op->bytes);
    free(op->held);
    free(op);
}

static void release(struct fake_stream *s)
{
    pthread_mutex_lock(&s->lock);
    struct fake_op *held = s->held;
    s->held = NULL;
    pthread_mutex_unlock(&s->lock);
    release_held(s, held);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void fake_release(void)
{
    if (running && running->held)
        release(running);
}

/* Whether the copy `op` becomes visible later; this function then takes ownership. */
static bool hold(struct fake_stream *s, struct fake_op *op)
{
    enum { MOST_HELD = 256 << 10 };
    if (s->mode != REORDERED || op->bytes > MOST_HELD)
        return false;
    op->held = malloc(op->bytes);
    if (!op->held)
        return false;
    memcpy(op->held, memory_at(op->from), op->bytes);
    op->release_ns = now_ns() + delay_ns(&s->random);
    pthread_mutex_lock(&s->lock);
    op->next = s->held;
    s->held = op;
    pthread_mutex_unlock(&s->lock);
    return true;
}

static void run_copy(struct fake_op *op)
{
    move_bytes(op->to, memory_at(op->from), op->bytes);
}

/* Advances the stream's clock, to `least` at least, and returns its time. Several threads of the
 * program may use one stream at once. */
static double advance(struct fake_stream *s, double ns, double least)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    s->ns += ns;
    s->ns = s->ns < least ? least : s->ns;
    const double now = s->ns;
    pthread_mutex_unlock(&lock);
    return now;
}

static void pass_time(struct fake_stream *s, double ns)
{
    advance(s, ns, 0);
}

static void carry_out(struct fake_stream *s, struct fake_op *op)
{
    running = s;
    if (!op->keeps_stores)
        release(s);
    pass_time(s, op->ns);
    if (op->run == run_copy && hold(s, op))
        return;
    uint64_t begun = now_ns();
    op->run(op);
    if (op->timed)
        pass_time(s, (double)(now_ns() - begun));
    free(op);
}

/* Called with the lock held: waits for work or held stores that are due. NULL: the stream is
 * closed. */
static struct fake_op *next_due(struct fake_stream *s)
{
    for (;;) {
        uint64_t now = now_ns(), until = s->first ? s->first->due_ns : UINT64_MAX;
        if (s->first && s->first->due_ns <= now) {
            struct fake_op *op = s->first;
            s->first = op->next;
            if (!s->first)
                s->last = &s->first;
            return op;
        }
        if (s->held && s->held->release_ns <= now) {
            pthread_mutex_unlock(&s->lock);
            release(s);
            pthread_mutex_lock(&s->lock);
            continue;
        }
        if (s->held && s->held->release_ns < until)
            until = s->held->release_ns;
        s->busy = s->first || s->held;
        pthread_cond_broadcast(&s->changed);
        if (s->closing && !s->busy)
            return NULL;
        if (until == UINT64_MAX) {
            pthread_cond_wait(&s->changed, &s->lock);
        } else {
            struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
            pthread_cond_timedwait(&s->changed, &s->lock, &t);
        }
    }
}

static void *serve(void *argument)
{
    struct fake_stream *s = argument;
    pthread_mutex_lock(&s->lock);
    for (struct fake_op *op; (op = next_due(s));) {
        pthread_mutex_unlock(&s->lock);
        carry_out(s, op);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static struct fake_stream *stream_new(void)
{
    struct fake_stream *s = calloc(1, sizeof *s);
    pthread_condattr_t attributes;
    if (!s)
        abort();
    s->mode = mode_wanted();
    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_lock(&lock);
    /* The processes of a job have consecutive ids and get different numbers. */
    s->random = (uint64_t)setting("FAKE_CUDA_SEED", 1) << 32 | (uint64_t)(getpid() % 256) << 16 |
                stream_count++;
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lock);
    return s;
}

static void stream_end(struct fake_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->threaded)
        pthread_join(s->thread, NULL);
    pthread_mutex_lock(&lock);
    for (struct fake_stream **at = &streams; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void streams_reset(void)
{
    default_stream = NULL;
    while (streams)
        stream_end(streams);
}

static struct fake_stream *stream_of(CUstream stream)
{
    struct object *o = (struct object *)stream;
    if (o && o->kind == STREAM)
        return o->stream;
    pthread_mutex_lock(&lock);
    struct fake_stream *s = default_stream;
    pthread_mutex_unlock(&lock);
    if (s)
        return s;
    s = stream_new();
    pthread_mutex_lock(&lock);
    default_stream = s;
    pthread_mutex_unlock(&lock);
    return s;
}

struct fake_op *op_new(CUstream stream, void (*run)(struct fake_op *op), size_t extra)
{
    struct fake_op *op = calloc(1, sizeof *op + extra);
    if (!op)
        abort();
    op->run = run;
    op->stream = stream_of(stream);
    op->extra = extra;
    return op;
}

static void drain(struct fake_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void stream_drain(CUstream stream)
{
    drain(stream_of(stream));
}

/* Never before earlier work of the stream, and in mode DELAYED of any stream. */
static uint64_t due(struct fake_stream *s)
{
    uint64_t at = now_ns() + delay_ns(&s->random);
    if (at < s->last_due_ns)
        at = s->last_due_ns;
    s->last_due_ns = at;
    if (s->mode == REORDERED)
        return at;
    pthread_mutex_lock(&lock);
    if (at < process_due_ns)
        at = process_due_ns;
    process_due_ns = at;
    pthread_mutex_unlock(&lock);
    return at;
}

void op_submit(struct fake_op *op)
{
    struct fake_stream *s = op->stream;
    if (fake_capture(op))
        return;
    if (s->mode == IMMEDIATE && !op->on_thread) {
        drain(s);
        carry_out(s, op);
        running = NULL;
        return;
    }
    pthread_mutex_lock(&s->lock);
    op->due_ns = s->mode == IMMEDIATE ? 0 : due(s);
    *s->last = op;
    s->last = &op->next;
    s->busy = true;
    if (!s->threaded)
        s->threaded = pthread_create(&s->thread, NULL, serve, s) == 0;
    if (!s->threaded)
        abort();
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ------------------------------------------------------------------------------------- copies */

int fake_gpu_of(CUdeviceptr address)
{
    const struct object *plain = find(DEVICE, address);
    if (plain)
        return plain->device;
    const struct object *mapping = find(MAPPING, address);
    return mapping ? objects[mapping->device].device : -1;
}

/* Duration in ns of a copy that this GPU executes. A copy between two other GPUs has the rate of
 * the slower link. */
static double copy_ns(int by, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    int source = fake_gpu_of(from), target = fake_gpu_of(to);
    if (source < 0 || target < 0)
        return (double)bytes / 55;
    if (by < 0 || by == source || by == target)
        return (double)bytes / fake_gbps(source, target);
    double in = fake_gbps(source, by), out = fake_gbps(by, target);
    return (double)bytes / (in < out ? in : out);
}

static bool is_pageable(CUdeviceptr address)
{
    return !is_device_address(address) && !find(HOST, address) && !find(REGISTERED, address);
}

/* A copy may not leave the registered range in which it begins. */
static bool leaves_registration(CUdeviceptr address, size_t bytes)
{
    struct object *o = find(REGISTERED, address);
    return o && address + bytes > o->base + o->bytes;
}

static void run_snapshot(struct fake_op *op)
{
    memcpy(memory_at(op->to), op->data, op->bytes);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    bool late = setting("FAKE_CUDA_PAGEABLE", 1); /* the device reads pageable memory itself */
    bool snapshot = !late && is_pageable(from), to_pageable = !late && is_pageable(to);
    if (leaves_registration(to, bytes) || leaves_registration(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    int device = fake_stream_device(stream);
    if (!fake_copy_may(device, to) || !fake_copy_may(device, from))
        return CUDA_ERROR_INVALID_VALUE;
    struct fake_op *op = op_new(stream, snapshot ? run_snapshot : run_copy, snapshot ? bytes : 0);
    op->to = to;
    op->from = from;
    op->bytes = bytes;
    op->ns = copy_ns(device < 0 ? -1 : fake_physical(device), to, from, bytes);
    if (snapshot)
        memcpy(op->data, memory_at(from), bytes);
    op_submit(op);
    /* A copy to pageable memory, or from host to host, returns when it is complete. */
    if (to_pageable || (snapshot && !is_device_address(to)))
        stream_drain(stream);
    return CUDA_SUCCESS;
}

/* Zeroing whole pages punches holes, if the memory's file permits it, so untouched pages use no
 * memory. */
static void run_fill(struct fake_op *op)
{
    enum { PAGE = 4096 };
    char *begin = memory_at(op->to), *end = begin + op->bytes;
    char *first = begin + (PAGE - (uintptr_t)begin % PAGE) % PAGE,
         *last = end - (uintptr_t)end % PAGE;
    if (op->value || op->bytes < 16 * PAGE || madvise(first, (size_t)(last - first), MADV_REMOVE))
        first = last = end;
    memset(begin, (int)op->value, (size_t)(first - begin));
    memset(last, (int)op->value, (size_t)(end - last));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes,
                                CUstream stream)
{
    if (!fake_copy_may(fake_stream_device(stream), address))
        return CUDA_ERROR_INVALID_VALUE;
    struct fake_op *op = op_new(stream, run_fill, 0);
    op->to = address;
    op->value = value;
    op->bytes = bytes;
    op_submit(op);
    return CUDA_SUCCESS;
}

static void run_write(struct fake_op *op)
{
    if (op->bytes == 8)
        __atomic_store_n((uint64_t *)memory_at(op->to), op->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint32_t *)memory_at(op->to), (uint32_t)op->value, __ATOMIC_SEQ_CST);
}

static CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value, size_t width,
                            unsigned flags)
{
    /* Like the driver: version 2 of these functions accepts no flag. */
    if (flags || address % width || !fake_kernel_may(fake_stream_device(stream), address))
        return CUDA_ERROR_INVALID_VALUE;
    struct fake_op *op = op_new(stream, run_write, 0);
    op->to = address;
    op->value = value;
    op->bytes = width;
    op_submit(op);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value,
                                        unsigned flags)
{
    return write_value(stream, address, value, 8, flags);
}

EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
                                        unsigned flags)
{
    return write_value(stream, address, value, 4, flags);
}

/* Executes the operations in order as separate calls; refuses all of them or none. */
EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                                      CUstreamBatchMemOpParams *list, unsigned flags)
{
    for (unsigned i = 0; i < count; i++) {
        size_t width = list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
        if (list[i].writeValue.flags ||
            (width == 4 && list[i].operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) ||
            list[i].writeValue.address % width ||
            !fake_kernel_may(fake_stream_device(stream), list[i].writeValue.address))
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; i++)
        write_value(stream, list[i].writeValue.address, list[i].writeValue.value64,
                    list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4,
                    list[i].writeValue.flags);
    return CUDA_SUCCESS;
}

static void run_host(struct fake_op *op)
{
    op->function(op->argument);
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *argument)
{
    struct fake_op *op = op_new(stream, run_host, 0);
    op->function = function;
    op->argument = argument;
    op_submit(op);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------ streams */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    CUresult result = make(STREAM, (void **)stream);
    ((struct object *)*stream)->stream = stream_new();
    ((struct object *)*stream)->device = fake_current_device();
    return result;
}

int fake_stream_device(CUstream stream)
{
    const struct object *o = (const struct object *)stream;
    return o && o->kind == STREAM ? o->device : fake_current_device();
}

EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    *context = fake_context_of(fake_stream_device(stream));
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    struct object *o = (struct object *)stream;
    if (!o || o->kind != STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    stream_end(o->stream);
    return unmake(STREAM, stream);
}

/* The caller learns late that the work is done: other threads may have queued more. */
static CUresult told_late(struct fake_stream *s)
{
    if (s->mode == IMMEDIATE)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&s->lock);
    uint64_t random = random_next(&s->random);
    pthread_mutex_unlock(&s->lock);
    if (random % 2 == 0)
        sleep_until(now_ns() + (random >> 16) % 300000);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    struct fake_stream *s = stream_of(stream);
    drain(s);
    return told_late(s);
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    struct fake_stream *s = stream_of(stream);
    if (s->mode == IMMEDIATE && !s->threaded)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&s->lock);
    bool busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy ? CUDA_ERROR_NOT_READY : told_late(s);
}

/* ------------------------------------------------------------------------------------- events */

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUresult result = make(EVENT, (void **)event);
    struct fake_event *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->uses = 1;
    ((struct object *)*event)->event = e;
    ((struct object *)*event)->device = fake_current_device();
    return result;
}

/* Queued work keeps the event alive. */
static void event_unuse(struct fake_event *e)
{
    pthread_mutex_lock(&e->lock);
    bool last = --e->uses == 0;
    pthread_mutex_unlock(&e->lock);
    if (last)
        free(e);
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    struct object *o = (struct object *)event;
    if (!o || o->kind != EVENT)
        return CUDA_ERROR_INVALID_VALUE;
    event_unuse(o->event);
    return unmake(EVENT, event);
}

static bool is_done(const struct fake_event *e, uint64_t number)
{
    return e->done[number % RECORDS] >= number;
}

static void run_record(struct fake_op *op)
{
    struct fake_event *e = op->event;
    pthread_mutex_lock(&e->lock);
    if (e->done[op->value % RECORDS] < op->value)
        e->done[op->value % RECORDS] = op->value;
    e->ns = advance(op->stream, 0, 0);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    event_unuse(e);
}

static void run_wait(struct fake_op *op)
{
    struct fake_event *e = op->event;
    pthread_mutex_lock(&e->lock);
    while (!is_done(e, op->value))
        pthread_cond_wait(&e->changed, &e->lock);
    advance(op->stream, 0, e->ns); /* the work after it does not begin earlier */
    pthread_mutex_unlock(&e->lock);
    event_unuse(e);
}

static struct fake_op *event_op(CUstream stream, CUevent event, void (*run)(struct fake_op *op),
                                unsigned records)
{
    struct fake_op *op = op_new(stream, run, 0);
    struct fake_event *e = op->event = ((struct object *)event)->event;
    pthread_mutex_lock(&e->lock);
    e->uses++;
    e->recorded += records;
    op->value = e->recorded;
    pthread_mutex_unlock(&e->lock);
    return op;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    int of = ((const struct object *)event)->device, device = fake_stream_device(stream);
    if (of >= 0 && device >= 0 && of != device) /* both belong to one context */
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fake_capture_record(stream_of(stream), event))
        return CUDA_SUCCESS;
    op_submit(event_op(stream, event, run_record, 1));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CUresult result;
    if (fake_capture_wait(stream_of(stream), event, &result))
        return result;
    op_submit(event_op(stream, event, run_wait, 0));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begun, CUevent ended)
{
    struct fake_event *from = ((struct object *)begun)->event;
    struct fake_event *to = ((struct object *)ended)->event;
    if (!from->recorded || !to->recorded)
        return (CUresult)400; /* CUDA_ERROR_INVALID_HANDLE */
    if (!is_done(from, from->recorded) || !is_done(to, to->recorded))
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((to->ns - from->ns) / 1e6);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    struct fake_event *e = ((struct object *)event)->event;
    pthread_mutex_lock(&e->lock);
    bool ready = is_done(e, e->recorded);
    pthread_mutex_unlock(&e->lock);
    return ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    while (cuEventQuery(event))
        sched_yield();
    return CUDA_SUCCESS;
}

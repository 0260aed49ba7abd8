/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: queues of grids, host calls, records and waits. The head of each queue is
 * started when the previous operation is complete. One lock, the pool's, protects everything. */
#include "simt.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum op_kind { OP_GRID, OP_HOST, OP_RECORD, OP_WAIT };

struct stream_op {
    struct stream_op *next;
    enum op_kind kind;
    weft_simt_stream *stream;
    struct grid *grid;
    void (*fn)(void *arg);
    void *arg;
    weft_simt_event *event;
    /* record number: of this record, or of the record that this operation waits for */
    uint64_t number;
};

struct weft_simt_stream {
    weft_simt_stream *next; /* list of all streams */
    struct stream_op *first, **last;
    bool busy; /* the first operation has been started */
    weft_status status;
    char report[512];
    char tag;
    /* The thread for host calls. */
    bool has_thread, stop;
    pthread_t thread;
    pthread_cond_t call;
};

struct weft_simt_event {
    uint64_t recorded, completed; /* record numbers */
    uint64_t time_ns;             /* time of the last completed record */
    unsigned users;               /* operations in queues that use the event */
    char tag;
};

static weft_simt_stream *streams; /* list of all streams */
static weft_simt_stream *default_stream;

/* --------------------------------------------------------------------- running, lock held */

static void free_grid(struct grid *grid)
{
    if (grid)
        lane_memory_free(grid, sizeof *grid + grid->attr.args_bytes);
}

static void pop(weft_simt_stream *stream)
{
    struct stream_op *op = stream->first;
    stream->first = op->next;
    if (!stream->first)
        stream->last = &stream->first;
    stream->busy = false;
    if (op->event)
        op->event->users--;
    free_grid(op->grid);
    free(op);
    pool_notify();
}

static void complete_record(weft_simt_stream *stream, const struct stream_op *op)
{
    weft_simt_event *event = op->event;
    tsan_acquire(&stream->tag);
    tsan_release(&event->tag);
    if (event->completed < op->number)
        event->completed = op->number;
    event->time_ns = clock_now_ns();
}

/* Starts or completes the first operation. Returns false if it must wait. */
static bool start_head_op(weft_simt_stream *stream, bool *recorded)
{
    struct stream_op *op = stream->first;
    switch (op->kind) {
    case OP_GRID:
        if (stream->status)
            break; /* after a fault, until the program has read it */
        tsan_acquire(&stream->tag);
        tsan_release(&op->grid->start_tag);
        stream->busy = true;
        pool_add(op->grid);
        return false;
    case OP_HOST:
        stream->busy = true;
        pthread_cond_signal(&stream->call);
        return false;
    case OP_RECORD:
        complete_record(stream, op);
        *recorded = true;
        break;
    case OP_WAIT:
        if (op->event->completed < op->number)
            return false;
        tsan_acquire(&op->event->tag);
        tsan_release(&stream->tag);
        break;
    }
    pop(stream);
    return true;
}

/* Starts operations until none can be started; a completed record may unblock other streams. */
static void advance_stream(weft_simt_stream *stream)
{
    bool recorded = false;
    while (stream->first && !stream->busy && start_head_op(stream, &recorded))
        ;
    while (recorded) {
        recorded = false;
        for (stream = streams; stream; stream = stream->next)
            while (stream->first && !stream->busy && start_head_op(stream, &recorded))
                ;
    }
}

void stream_grid_done(struct grid *grid)
{
    weft_simt_stream *stream = grid->op->stream;
    tsan_acquire(&grid->end_tag);
    tsan_release(&stream->tag);
    if (__atomic_load_n(&grid->failed, __ATOMIC_ACQUIRE) && !stream->status) {
        stream->status = WEFT_ERR_KERNEL;
        memcpy(stream->report, grid->report, sizeof stream->report);
    }
    pop(stream);
    advance_stream(stream);
}

static void *host_main(void *argument)
{
    weft_simt_stream *stream = argument;
    pool_lock();
    for (;;) {
        struct stream_op *op = stream->first;
        if (op && op->kind == OP_HOST && stream->busy) {
            tsan_acquire(&stream->tag);
            pool_unlock();
            op->fn(op->arg);
            pool_lock();
            tsan_release(&stream->tag);
            pop(stream);
            advance_stream(stream);
        } else if (stream->stop) {
            break;
        } else {
            pool_wait_on(&stream->call);
        }
    }
    pool_unlock();
    return NULL;
}

/* ---------------------------------------------------------------------------- streams */

static weft_status in_kernel(const char *what)
{
    return base_fail(WEFT_ERR_ARGUMENT, "%s was called from a kernel", what);
}

static weft_simt_stream *new_stream(void)
{
    weft_simt_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->last = &stream->first;
    pthread_cond_init(&stream->call, NULL);
    stream->next = streams;
    streams = stream;
    return stream;
}

/* Queues an operation and takes ownership of it. Takes the lock. */
static weft_status submit_op(struct stream_op *op, weft_simt_stream *stream)
{
    if (!stream && !default_stream)
        default_stream = new_stream();
    if (!stream)
        stream = default_stream;
    if (!stream)
        return base_fail(WEFT_ERR_NO_MEMORY, "simt: no memory for the default stream");
    op->stream = stream;
    op->next = NULL;
    *stream->last = op;
    stream->last = &op->next;
    tsan_release(&stream->tag);
    advance_stream(stream);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_simt_stream_create(weft_simt_stream **stream)
{
    if (!stream)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_simt_stream_create: stream is NULL");
    pool_lock();
    *stream = new_stream();
    pool_unlock();
    return *stream ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "simt: no memory for a stream");
}

/* Lock held. */
static weft_status drain_stream(weft_simt_stream *stream)
{
    while (stream->first)
        pool_wait();
    tsan_acquire(&stream->tag);
    weft_status status = stream->status;
    stream->status = WEFT_OK;
    return status ? base_fail(status, "%s", stream->report) : WEFT_OK;
}

static void end_thread(weft_simt_stream *stream)
{
    if (!stream->has_thread)
        return;
    pool_lock();
    stream->stop = true;
    pthread_cond_signal(&stream->call);
    pool_unlock();
    pthread_join(stream->thread, NULL);
    stream->has_thread = stream->stop = false;
}

WEFT_EXPORT weft_status weft_simt_stream_destroy(weft_simt_stream *stream)
{
    if (!stream)
        return WEFT_OK;
    if (simt_current)
        return in_kernel("weft_simt_stream_destroy");
    pool_lock();
    weft_status status = drain_stream(stream);
    for (weft_simt_stream **at = &streams; *at; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    }
    pool_unlock();
    end_thread(stream);
    pthread_cond_destroy(&stream->call);
    free(stream);
    return status;
}

WEFT_EXPORT weft_status weft_simt_stream_synchronize(weft_simt_stream *stream)
{
    if (simt_current)
        return in_kernel("weft_simt_stream_synchronize");
    pool_lock();
    if (!stream)
        stream = default_stream;
    weft_status status = stream ? drain_stream(stream) : WEFT_OK;
    pool_unlock();
    return status;
}

WEFT_EXPORT weft_status weft_simt_stream_query(weft_simt_stream *stream, int *idle)
{
    weft_status status = WEFT_OK;
    pool_lock();
    if (!stream)
        stream = default_stream;
    *idle = !stream || !stream->first;
    if (stream && !stream->first)
        tsan_acquire(&stream->tag);
    if (stream && stream->status)
        status = base_fail(stream->status, "%s", stream->report);
    pool_unlock();
    return status;
}

WEFT_EXPORT weft_status weft_simt_synchronize(void)
{
    if (simt_current)
        return in_kernel("weft_simt_synchronize");
    weft_status first = WEFT_OK;
    pool_lock();
    weft_simt_stream *stream = streams;
    /* The list may change during a wait, so start again after each wait. */
    while (stream) {
        bool waits = stream->first;
        if (waits)
            pool_wait();
        stream = waits ? streams : stream->next;
    }
    for (stream = streams; stream; stream = stream->next) {
        weft_status status = first ? WEFT_OK : drain_stream(stream);
        if (status)
            first = status;
        stream->status = WEFT_OK;
        tsan_acquire(&stream->tag);
    }
    pool_unlock();
    return first;
}

WEFT_EXPORT void weft_simt_shutdown(void)
{
    weft_simt_synchronize();
    if (default_stream) {
        end_thread(default_stream);
        weft_simt_stream_destroy(default_stream);
        default_stream = NULL;
    }
    pool_shutdown();
}

WEFT_EXPORT unsigned weft_simt_threads(void)
{
    return pool_threads();
}

/* ------------------------------------------------------------------------------ launch */

static weft_status check_launch(const weft_simt_launch_attr *attr, uint64_t *blocks,
                                unsigned *lanes)
{
    if (!attr)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_simt_launch: attr is null");
    weft_status status =
        base_check_size("weft_simt_launch: attr", attr, sizeof *attr, sizeof *attr);
    if (!status)
        status =
            base_check_bits("weft_simt_launch: attr.flags", attr->flags, WEFT_SIMT_COOPERATIVE);
    if (status)
        return status;
    if (!attr->kernel || !attr->name || (attr->args_bytes && !attr->args))
        return base_fail(WEFT_ERR_ARGUMENT, "weft_simt_launch: kernel, name or args missing");
    const unsigned *g = attr->grid, *b = attr->block;
    uint64_t per_block = (uint64_t)b[0] * b[1];
    if (per_block <= WEFT_SIMT_MAX_THREADS)
        per_block *= b[2];
    if (!per_block || per_block > WEFT_SIMT_MAX_THREADS)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "launch of %s: block of %u x %u x %u threads; 1 to %u are possible",
                         attr->name, b[0], b[1], b[2], WEFT_SIMT_MAX_THREADS);
    if (!g[0] || !g[1] || !g[2] || g[0] > 0x7fffffffu || g[1] > 65535 || g[2] > 65535)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "launch of %s: grid of %u x %u x %u blocks; 1 to 2^31-1, 65535 and 65535 "
                         "are possible",
                         attr->name, g[0], g[1], g[2]);
    if (attr->shared_bytes > WEFT_SIMT_MAX_SHARED)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "launch of %s: %zu bytes of shared memory; the most is %u", attr->name,
                         attr->shared_bytes, WEFT_SIMT_MAX_SHARED);
    *lanes = (unsigned)per_block;
    *blocks = (uint64_t)g[0] * g[1] * g[2];
    uint64_t limit = pool_lane_limit();
    if (attr->flags & WEFT_SIMT_COOPERATIVE && *blocks > 1 && *blocks * *lanes > limit)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "cooperative launch of %s: %llu blocks of %u threads; only %llu lanes can "
                         "be resident together (WEFT_TEST_SIMT_LANES)",
                         attr->name, (unsigned long long)*blocks, *lanes,
                         (unsigned long long)limit);
    return WEFT_OK;
}

static struct stream_op *new_grid(const weft_simt_launch_attr *attr, uint64_t blocks,
                                  unsigned lanes)
{
    struct stream_op *op = calloc(1, sizeof *op);
    size_t room = sizeof(struct grid) + attr->args_bytes;
    struct grid *grid = lane_memory_alloc(room);
    if (!op || !grid) {
        free(op);
        lane_memory_free(grid, room);
        return NULL;
    }
    memset(grid, 0, sizeof *grid);
    op->kind = OP_GRID;
    op->grid = grid;
    grid->op = op;
    grid->attr = *attr;
    grid->state = weft_simt_self()->state;
    grid->blocks = blocks;
    grid->block_lanes = lanes;
    if (attr->args_bytes)
        memcpy(grid->args, attr->args, attr->args_bytes);
    return op;
}

WEFT_EXPORT weft_status weft_simt_launch(const weft_simt_launch_attr *attr,
                                         weft_simt_stream *stream)
{
    uint64_t blocks = 0;
    unsigned lanes = 0;
    if (simt_current)
        return in_kernel("weft_simt_launch");
    weft_status status = check_launch(attr, &blocks, &lanes);
    if (status)
        return status;
    struct stream_op *op = new_grid(attr, blocks, lanes);
    if (!op)
        return base_fail(WEFT_ERR_NO_MEMORY, "launch of %s: no memory", attr->name);
    pool_lock();
    status = pool_start();
    if (!status)
        status = submit_op(op, stream);
    pool_unlock();
    if (status) {
        free_grid(op->grid);
        free(op);
    }
    return status;
}

/* -------------------------------------------------------------------------- host calls */

/* Lock held. */
static weft_status start_host_thread(weft_simt_stream *stream)
{
    if (stream->has_thread)
        return WEFT_OK;
    int error = pthread_create(&stream->thread, NULL, host_main, stream);
    if (error)
        return base_fail(WEFT_ERR_SYSTEM, "simt: pthread_create: %s", strerror(error));
    stream->has_thread = true;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_simt_host_call(weft_simt_stream *stream, void (*fn)(void *arg),
                                            void *arg)
{
    if (!fn)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_simt_host_call: fn is NULL");
    if (simt_current)
        return in_kernel("weft_simt_host_call");
    struct stream_op *op = calloc(1, sizeof *op);
    if (!op)
        return base_fail(WEFT_ERR_NO_MEMORY, "simt: no memory for a host call");
    op->kind = OP_HOST;
    op->fn = fn;
    op->arg = arg;
    pool_lock();
    if (!stream && !default_stream)
        default_stream = new_stream();
    if (!stream)
        stream = default_stream;
    weft_status status = stream ? start_host_thread(stream)
                                : base_fail(WEFT_ERR_NO_MEMORY, "simt: no memory for a stream");
    if (!status)
        status = submit_op(op, stream);
    pool_unlock();
    if (status)
        free(op);
    return status;
}

/* ------------------------------------------------------------------------------ events */

WEFT_EXPORT weft_status weft_simt_event_create(weft_simt_event **event)
{
    if (!event)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_simt_event_create: event is NULL");
    *event = calloc(1, sizeof **event);
    return *event ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "simt: no memory for an event");
}

WEFT_EXPORT weft_status weft_simt_event_destroy(weft_simt_event *event)
{
    if (!event)
        return WEFT_OK;
    if (simt_current)
        return in_kernel("weft_simt_event_destroy");
    pool_lock();
    while (event->users)
        pool_wait();
    pool_unlock();
    free(event);
    return WEFT_OK;
}

static weft_status submit_event(enum op_kind kind, weft_simt_event *event, weft_simt_stream *stream)
{
    if (!event)
        return base_fail(WEFT_ERR_ARGUMENT, "simt: event is NULL");
    if (simt_current)
        return in_kernel("an event function");
    struct stream_op *op = calloc(1, sizeof *op);
    if (!op)
        return base_fail(WEFT_ERR_NO_MEMORY, "simt: no memory for an event operation");
    pool_lock();
    op->kind = kind;
    op->event = event;
    op->number = kind == OP_RECORD ? ++event->recorded : event->recorded;
    event->users++;
    weft_status status = submit_op(op, stream);
    if (status)
        event->users--;
    pool_unlock();
    if (status)
        free(op);
    return status;
}

WEFT_EXPORT weft_status weft_simt_event_record(weft_simt_event *event, weft_simt_stream *stream)
{
    return submit_event(OP_RECORD, event, stream);
}

WEFT_EXPORT weft_status weft_simt_event_wait(weft_simt_stream *stream, weft_simt_event *event)
{
    return submit_event(OP_WAIT, event, stream);
}

WEFT_EXPORT weft_status weft_simt_event_query(weft_simt_event *event, int *done)
{
    pool_lock();
    *done = event->completed >= event->recorded;
    if (*done)
        tsan_acquire(&event->tag);
    pool_unlock();
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_simt_event_synchronize(weft_simt_event *event)
{
    if (simt_current)
        return in_kernel("weft_simt_event_synchronize");
    pool_lock();
    uint64_t number = event->recorded;
    while (event->completed < number)
        pool_wait();
    tsan_acquire(&event->tag);
    pool_unlock();
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_simt_event_elapsed(weft_simt_event *start, weft_simt_event *end,
                                                uint64_t *ns)
{
    pool_lock();
    bool both = start->completed && end->completed;
    *ns = both && end->time_ns > start->time_ns ? end->time_ns - start->time_ns : 0;
    pool_unlock();
    return both ? WEFT_OK
                : base_fail(WEFT_ERR_ARGUMENT, "simt: elapsed: an event has not been recorded");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Host callbacks in the order of a CUDA stream, for memory that this GPU has no address for. A
 * thread of the library, one for each stream, runs them. When the stream reaches a callback, it
 * writes a word that the thread polls, then waits for a word that the thread writes. In a captured
 * graph a kernel counts its replays in the first word, and waits until the second has counted as
 * many; the thread polls as long as the graph may be replayed. Where the driver has no stream
 * write, a function called by the driver (cuLaunchHostFunc) wakes the thread: this function may not
 * call the driver and takes tens of microseconds.
 *
 * A graph must have no such function. To launch a graph again while it runs, the driver waits for
 * it and holds a lock that other threads need, so a callback that copies from or to the GPU waited
 * for the graph, and the graph for the callback (driver 580.159 on an H200: a graph with three
 * functions, launched 20 times). */
#include "ops/stream/stream.h"

#include "base/clock.h"
#include "base/cpus.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    PAIRS = 256, /* pairs in each page of pinned memory */
    SPINS = 2000,
    SLEEP_NS = 20 * 1000,
    /* at the end, how long a stream may take to pass its last callback */
    PASS_LIMIT_NS = 1000 * 1000 * 1000
};

struct pair {
    _Atomic uint64_t go;   /* how often streams have reached the callback */
    _Atomic uint64_t done; /* how often it has run */
    /* WAITING until the stream has passed its wait for `done`; then the stream writes another
     * value, its last access to the pair. Not used by graphs. */
    _Atomic uint64_t wait;
};

static const uint64_t WAITING = 2;
static const uint64_t ALWAYS_DONE = INT64_MAX; /* graphs continue without the callback */

struct host_callback {
    struct host_callback *next; /* next in a list of its stream */
    struct callbacks *callbacks;
    struct callback_stream *stream;
    void (*run)(void *argument);
    void *argument; /* freed with the callback */
    struct pair *pair;
    CUdeviceptr gpu_address; /* GPU address of the pair */
    /* A graph may reach it any number of times, also after the job has been left. Executables of
     * one graph may reach it concurrently; it runs once for each of them. */
    bool captured;
};

/* The thread that runs the callbacks of one stream, in their order. It does not wait for callbacks
 * of other streams. */
struct callback_stream {
    struct callback_stream *next;
    struct callbacks *callbacks;
    weft_stream stream;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t enqueued;
    /* enqueued callbacks that have not run, in the order of enqueueing */
    struct host_callback *first, **last;
    struct host_callback *captured;
    /* last callback that ran; the stream may still be waiting for it */
    struct host_callback *last_run;
    bool stop;
};

struct page {
    struct page *next;
    struct pair *pairs; /* pinned memory; its GPU address is gpu_address */
    CUdeviceptr gpu_address;
    unsigned turn; /* next pair to use: pairs are used in turn, so that none is reused soon */
    bool used[PAIRS];
};

struct callbacks {
    struct weft_job *job;
    struct gpu *gpu;
    pthread_mutex_t lock; /* protects the lists and pages */
    struct callback_stream *streams;
    bool captured; /* a graph may use the pages after the job has been left */
    struct page *pages;
    /* callbacks that are not captured and whose cuLaunchHostFunc function has not run yet */
    uint64_t pending_functions;
    bool ended; /* the job is being left: callbacks that a stream reaches are skipped */
};

/* ------------------------------------------------------------------------------- pairs of words */

static weft_status add_page(struct callbacks *callbacks)
{
    struct page *page = calloc(1, sizeof *page);
    struct gpu *gpu = callbacks->gpu;
    void *pairs;
    if (!page)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for calls on a stream");
    CUresult result = gpu->driver.MemHostAlloc(
        &pairs, PAIRS * sizeof *page->pairs, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!result) {
        page->pairs = pairs;
        result = gpu->driver.MemHostGetDevicePointer(&page->gpu_address, pairs, 0);
        if (result)
            gpu->driver.MemFreeHost(pairs);
    }
    if (result) {
        free(page);
        return gpu_api_fail(&gpu->driver, result, "pinned memory for calls on a stream");
    }
    page->next = callbacks->pages;
    callbacks->pages = page;
    return WEFT_OK;
}

/* The caller holds callbacks->lock. */
static bool acquire_pair(struct callbacks *callbacks, struct host_callback *call)
{
    for (struct page *page = callbacks->pages; page; page = page->next)
        for (int tries = 0; tries < PAIRS; tries++) {
            unsigned i = page->turn++ % PAIRS;
            if (page->used[i])
                continue;
            page->used[i] = true;
            call->pair = page->pairs + i;
            call->gpu_address = page->gpu_address + i * sizeof *page->pairs;
            atomic_store_explicit(&call->pair->go, 0, memory_order_relaxed);
            atomic_store_explicit(&call->pair->done, 0, memory_order_relaxed);
            atomic_store_explicit(&call->pair->wait, WAITING, memory_order_relaxed);
            return true;
        }
    return false;
}

static void free_call(struct callbacks *callbacks, struct host_callback *call)
{
    pthread_mutex_lock(&callbacks->lock);
    for (struct page *page = callbacks->pages; page && call->pair; page = page->next)
        if (call->pair >= page->pairs && call->pair < page->pairs + PAIRS)
            page->used[call->pair - page->pairs] = false;
    pthread_mutex_unlock(&callbacks->lock);
    free(call->argument);
    free(call);
}

/* ----------------------------------------------------------------------- the thread of a stream */

/* The caller holds the stream's lock. */
static void append_locked(struct host_callback *call)
{
    struct callback_stream *stream = call->stream;
    call->next = NULL;
    *stream->last = call;
    stream->last = &call->next;
    pthread_cond_signal(&stream->enqueued);
}

static void append(struct host_callback *call)
{
    pthread_mutex_lock(&call->stream->lock);
    append_locked(call);
    pthread_mutex_unlock(&call->stream->lock);
}

/* Removes the first callback that the stream has reached from the list. The caller holds the
 * stream's lock. */
static struct host_callback *pop_arrived(struct callback_stream *stream)
{
    for (struct host_callback **at = &stream->first; *at; at = &(*at)->next) {
        struct host_callback *call = *at;
        /* Acquire: pairs with the stream's write, which follows all its earlier work. */
        if (!atomic_load_explicit(&call->pair->go, memory_order_acquire))
            continue;
        *at = call->next;
        if (!*at)
            stream->last = at;
        return call;
    }
    return NULL;
}

/* Returns a captured callback that a graph has reached and that has not run for it. The caller
 * holds the stream's lock. */
static struct host_callback *find_replayed(const struct callback_stream *stream)
{
    for (struct host_callback *call = stream->captured; call; call = call->next)
        /* Acquire: pairs with the graph's addition. Relaxed: only this thread writes `done`. */
        if (atomic_load_explicit(&call->pair->go, memory_order_acquire) !=
            atomic_load_explicit(&call->pair->done, memory_order_relaxed))
            return call;
    return NULL;
}

/* The pause after a poll that found nothing. A stream is about to reach an enqueued callback; a
 * graph may not be replayed for hours. */
static void pause_polling(unsigned polls, bool enqueued, uint64_t since_ns)
{
    struct timespec pause = {.tv_nsec = SLEEP_NS};
    if (polls < SPINS) {
        sched_yield();
        return;
    }
    if (!enqueued)
        pause.tv_nsec = (long)cpu_idle_sleep_ns(clock_now_ns() - since_ns, 0, true);
    nanosleep(&pause, NULL);
}

/* Returns the next callback to run; NULL: the thread shall end. Callbacks that the stream has
 * reached come first even when the job ends, so that no stream waits forever; job_callback_run()
 * skips them then. */
static struct host_callback *next_call(struct callback_stream *stream)
{
    uint64_t since_ns = clock_now_ns();
    for (unsigned polls = 0;; polls++) {
        pthread_mutex_lock(&stream->lock);
        while (!stream->first && !stream->captured && !stream->stop) {
            pthread_cond_wait(&stream->enqueued, &stream->lock);
            polls = 0;
        }
        struct host_callback *call = pop_arrived(stream);
        if (!call)
            call = find_replayed(stream);
        bool end = !call && stream->stop, enqueued = stream->first != NULL;
        pthread_mutex_unlock(&stream->lock);
        if (call || end)
            return call;
        pause_polling(polls, enqueued, since_ns);
    }
}

static void run_arrived(struct host_callback *call)
{
    struct weft_job *job = call->callbacks->job;
    if (call->captured)
        job_callback_enqueued(job);
    job_callback_run(job, call->run, call->argument);
    /* Release: pairs with the acquire of the stream's wait. */
    atomic_fetch_add_explicit(&call->pair->done, 1, memory_order_release);
}

static void *make_calls(void *argument)
{
    struct callback_stream *stream = argument;
    for (struct host_callback *call; (call = next_call(stream)) != NULL;) {
        /* The stream has passed its wait for the previous callback. */
        if (stream->last_run)
            free_call(stream->callbacks, stream->last_run);
        stream->last_run = call->captured ? NULL : call;
        run_arrived(call);
    }
    return NULL;
}

static weft_status start_stream(struct callbacks *callbacks, weft_stream key,
                                struct callback_stream **result)
{
    struct callback_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for calls on a stream");
    stream->callbacks = callbacks;
    stream->stream = key;
    stream->last = &stream->first;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->enqueued, NULL);
    if (thread_start(&stream->thread, make_calls, stream)) {
        pthread_cond_destroy(&stream->enqueued);
        pthread_mutex_destroy(&stream->lock);
        free(stream);
        return base_fail(WEFT_ERR_SYSTEM, "pthread_create for the calls of a stream failed");
    }
    stream->next = callbacks->streams;
    callbacks->streams = stream;
    *result = stream;
    return WEFT_OK;
}

/* Finds or starts the thread of a stream. The caller holds callbacks->lock. The thread of a
 * destroyed stream serves the next stream with the same handle. */
static weft_status find_stream(struct callbacks *callbacks, weft_stream key,
                               struct callback_stream **stream)
{
    for (*stream = callbacks->streams; *stream; *stream = (*stream)->next)
        if ((*stream)->stream == key)
            return WEFT_OK;
    return start_stream(callbacks, key, stream);
}

/* The driver calls this when the stream reaches the callback. After the job has been left the
 * stream continues without it. */
static void stream_arrived(void *argument)
{
    struct host_callback *call = argument;
    struct callbacks *callbacks = call->callbacks;
    pthread_mutex_lock(&callbacks->lock);
    bool ended = callbacks->ended;
    if (!ended) {
        callbacks->pending_functions--;
        atomic_store_explicit(&call->pair->go, 1, memory_order_release);
        append(call);
    }
    pthread_mutex_unlock(&callbacks->lock);
    if (!ended)
        return;
    atomic_store_explicit(&call->pair->done, 1, memory_order_release);
    free(call->argument);
    free(call);
}

/* ------------------------------------------------------------------------ enqueueing and ending */

/* Waits until the stream has passed its wait for this callback. False: PASS_LIMIT_NS elapsed. */
static bool has_passed(const struct host_callback *call)
{
    for (uint64_t waited = 0; waited < PASS_LIMIT_NS; waited += SLEEP_NS) {
        /* Relaxed: the stream's last write to the pair depends on its read of `done`. */
        if (atomic_load_explicit(&call->pair->wait, memory_order_relaxed) != WAITING)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
    return false;
}

/* Frees the callbacks of a list. The streams pass them. */
static void let_pass(struct host_callback *first, uint64_t done)
{
    while (first) {
        struct host_callback *call = first;
        first = first->next;
        atomic_store_explicit(&call->pair->done, done, memory_order_release);
        free(call->argument);
        free(call);
    }
}

/* Ends the thread of a stream. True: the stream has not passed all its callbacks, and will still
 * access their pairs. */
static bool stop_stream(struct callback_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_signal(&stream->enqueued);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    bool left = stream->first || (stream->last_run && !has_passed(stream->last_run));
    if (stream->last_run)
        free_call(stream->callbacks, stream->last_run);
    let_pass(stream->first, 1);
    let_pass(stream->captured, ALWAYS_DONE);
    pthread_cond_destroy(&stream->enqueued);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
    return left;
}

/* Ends all callbacks while the job still exists: none runs any more. Memory that a stream or graph
 * may still access stays with the job's handle. */
static void end_callbacks(struct weft_job *job)
{
    struct callbacks *callbacks = job->modules.host_callbacks;
    pthread_mutex_lock(&callbacks->lock);
    callbacks->ended = true;
    bool left = callbacks->pending_functions != 0;
    pthread_mutex_unlock(&callbacks->lock);
    while (callbacks->streams) {
        struct callback_stream *first = callbacks->streams;
        callbacks->streams = first->next;
        left |= stop_stream(first);
    }
    callbacks->gpu->work_left |= left;
    if (left || callbacks->captured)
        return;
    bool entered = gpu_enter(&callbacks->gpu->device) == WEFT_OK;
    while (callbacks->pages) {
        struct page *first = callbacks->pages;
        callbacks->pages = first->next;
        if (entered)
            callbacks->gpu->driver.MemFreeHost(first->pairs);
        free(first);
    }
    if (entered)
        gpu_leave(&callbacks->gpu->device);
    pthread_mutex_destroy(&callbacks->lock);
    free(callbacks);
    job->modules.host_callbacks = NULL;
}

static struct callbacks *get_callbacks(struct weft_job *job)
{
    pthread_mutex_lock(&job->lock);
    struct callbacks *callbacks = job->modules.host_callbacks;
    if (!callbacks && (callbacks = calloc(1, sizeof *callbacks))) {
        callbacks->job = job;
        callbacks->gpu = job->gpu;
        pthread_mutex_init(&callbacks->lock, NULL);
        job->modules.host_callbacks = callbacks;
        job->modules.end_host_callbacks = end_callbacks;
    }
    pthread_mutex_unlock(&job->lock);
    return callbacks;
}

/* Enqueues the wait for a callback, in a graph also the addition that the wait is for. */
static weft_status wait_on(struct gpu *gpu, weft_stream stream, const struct host_callback *call)
{
    CUdeviceptr pair = call->gpu_address;
    CUdeviceptr at = pair + offsetof(struct pair, done),
                passed = pair + offsetof(struct pair, wait);
    int width = 8, is_signed = 0, how = WEFT_EQ;
    int64_t wanted = 1;
    CUdeviceptr none = 0;
    struct gpu_reporting reporting = gpu->reporting;
    void *of_graph[] = {&pair, &at, &reporting};
    if (call->captured)
        return gpu_launch(&gpu->module, GPU_weft_kernel_replayed, 1, 1, stream, of_graph);
    void *arguments[] = {&at, &width, &is_signed, &how, &wanted, &reporting, &none, &passed};
    return gpu_launch(&gpu->module, GPU_weft_kernel_wait, 1, 1, stream, arguments);
}

/* Enqueues a function that the driver calls when the stream reaches the callback. */
static CUresult notify_by_function(struct callbacks *callbacks, weft_stream stream,
                                   struct host_callback *call)
{
    pthread_mutex_lock(&callbacks->lock);
    callbacks->pending_functions++;
    pthread_mutex_unlock(&callbacks->lock);
    CUresult result = callbacks->gpu->driver.LaunchHostFunc(stream, stream_arrived, call);
    if (!result)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&callbacks->lock);
    callbacks->pending_functions--;
    pthread_mutex_unlock(&callbacks->lock);
    return result;
}

/* Enqueues the arrival at a callback on the stream, which may run at once. */
static CUresult enqueue_arrival(struct callbacks *callbacks, weft_stream stream,
                                struct host_callback *call)
{
    struct gpu *gpu = callbacks->gpu;
    CUdeviceptr go = call->gpu_address + offsetof(struct pair, go);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (gpu->driver.StreamWriteValue64)
        result = gpu->driver.StreamWriteValue64(stream, go, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result)
        return notify_by_function(callbacks, stream, call);
    append(call);
    return CUDA_SUCCESS;
}

/* Enqueues the callback on the stream. *begun: the stream has a part of it, and the callback may
 * already have run and been freed. */
static weft_status enqueue_callback(struct callbacks *callbacks, weft_stream stream,
                                    struct host_callback *call, bool *begun)
{
    struct gpu *gpu = callbacks->gpu;
    struct host_callback given = *call;
    CUresult result = given.captured ? CUDA_SUCCESS : enqueue_arrival(callbacks, stream, call);
    *begun = !given.captured && !result;
    if (*begun)
        job_callback_enqueued(callbacks->job);
    return result ? gpu_api_fail(&gpu->driver, result, "cuLaunchHostFunc for a call on a stream")
                  : wait_on(gpu, stream, &given);
}

/* The caller holds callbacks->lock. */
static weft_status prepare_stream(struct callbacks *callbacks, weft_stream stream,
                                  struct host_callback *call)
{
    weft_status status = find_stream(callbacks, stream, &call->stream);
    if (!status && !acquire_pair(callbacks, call)) {
        status = add_page(callbacks);
        if (!status)
            acquire_pair(callbacks, call);
    }
    return status;
}

/* From now on the thread of the stream polls for replays. */
static void keep_call(struct callbacks *callbacks, struct host_callback *call)
{
    struct callback_stream *stream = call->stream;
    pthread_mutex_lock(&callbacks->lock);
    callbacks->captured = true;
    pthread_mutex_unlock(&callbacks->lock);
    pthread_mutex_lock(&stream->lock);
    call->next = stream->captured;
    stream->captured = call;
    pthread_cond_signal(&stream->enqueued);
    pthread_mutex_unlock(&stream->lock);
}

weft_status stream_callback(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                            void *argument)
{
    struct callbacks *callbacks = get_callbacks(job);
    struct host_callback *call = callbacks ? calloc(1, sizeof *call) : NULL;
    bool begun = false;
    weft_status status =
        call ? gpu_enter(&job->gpu->device)
             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a call on a stream");
    if (status) {
        free(call);
        free(argument);
        return status;
    }
    call->callbacks = callbacks;
    call->run = run;
    call->argument = argument;
    bool captured = call->captured = stream_capturing(job->gpu, stream);
    pthread_mutex_lock(&callbacks->lock);
    status = prepare_stream(callbacks, stream, call);
    pthread_mutex_unlock(&callbacks->lock);
    if (!status)
        status = enqueue_callback(callbacks, stream, call, &begun);
    gpu_leave(&job->gpu->device);
    if (captured && !status)
        keep_call(callbacks, call);
    else if (!begun)
        free_call(callbacks, call);
    return status;
}

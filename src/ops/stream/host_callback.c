/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the host in the order of a CUDA stream, for memory that no address of this GPU reaches.
 * A thread of ours, one for each stream, makes them. When the stream comes to a call it writes a
 * word that the thread polls, and waits for another that the thread writes. In a captured graph,
 * and where the driver has no such write, a function that the driver calls tells the thread: it may
 * not use the driver itself, and takes tens of microseconds. */
#include "ops/stream/stream.h"

#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    PAIRS = 256, /* of words in each page of pinned memory */
    SPINS = 2000,
    NAP_NS = 20 * 1000,
    PASS_NS = 1000 * 1000 * 1000 /* a stream is given so long to pass its last call, at the end */
};

struct pair {
    _Atomic uint64_t go;   /* the stream has come to the call */
    _Atomic uint64_t done; /* the call has been made */
    _Atomic uint64_t wait; /* STANDS, or whatever the stream writes when it has passed its wait for
                            * that: its last access here */
};

static const uint64_t STANDS = 2;

struct far_call {
    struct far_call *next; /* in the list of its stream */
    struct far_call *kept; /* the next of those that stay */
    struct far *far;
    struct far_stream *stream;
    void (*run)(void *argument);
    void *argument; /* freed with the call */
    struct pair *pair;
    CUdeviceptr seen; /* where the GPU sees the pair */
    bool captured; /* a graph may come to it any number of times, also when the job has been left */
    /* Of a captured call, under the stream's lock. Executables of one graph that run side by side
     * come to it before it has been made for the first: it is made once for each, and all of them
     * wait until it has been made as often as it was asked for. */
    uint64_t asked, calls_made;
};

/* The thread that makes the calls of one stream: in their order, and whatever those of others wait
 * for. */
struct far_stream {
    struct far_stream *next;
    struct far *far;
    weft_stream stream;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given;
    /* Those given and not made, in the order in which they were given; but what a graph has come to
     * may stand behind what the stream comes to later. */
    struct far_call *first, **last;
    struct far_call *made; /* the stream may still be waiting for it */
    bool stop;
};

struct page {
    struct page *next;
    struct pair *pairs; /* pinned; where the GPU sees them: */
    CUdeviceptr seen;
    unsigned turn; /* pairs are used in turn, so that one is seldom used again soon */
    bool used[PAIRS];
};

struct far {
    struct weft_job *job;
    struct gpu *gpu;
    pthread_mutex_t lock; /* of the lists and pages */
    struct far_stream *streams;
    struct far_call *kept;
    struct page *pages;
    uint64_t to_come; /* calls that are not captured of which a function has still to tell */
    bool ended;       /* the job is being left: what a stream comes to is passed over */
};

/* ------------------------------------------------------------------------------------- words */

static weft_status add_page(struct far *far)
{
    struct page *page = calloc(1, sizeof *page);
    struct gpu *gpu = far->gpu;
    void *pairs;
    if (!page)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for calls on a stream");
    CUresult result = gpu->cuda.MemHostAlloc(&pairs, PAIRS * sizeof *page->pairs,
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!result) {
        page->pairs = pairs;
        result = gpu->cuda.MemHostGetDevicePointer(&page->seen, pairs, 0);
        if (result)
            gpu->cuda.MemFreeHost(pairs);
    }
    if (result) {
        free(page);
        return cuda_fail(&gpu->cuda, result, "pinned memory for calls on a stream");
    }
    page->next = far->pages;
    far->pages = page;
    return WEFT_OK;
}

/* Under far->lock. */
static bool take_pair(struct far *far, struct far_call *call)
{
    for (struct page *page = far->pages; page; page = page->next)
        for (int tries = 0; tries < PAIRS; tries++) {
            unsigned i = page->turn++ % PAIRS;
            if (page->used[i])
                continue;
            page->used[i] = true;
            call->pair = page->pairs + i;
            call->seen = page->seen + i * sizeof *page->pairs;
            atomic_store_explicit(&call->pair->go, 0, memory_order_relaxed);
            atomic_store_explicit(&call->pair->done, 0, memory_order_relaxed);
            atomic_store_explicit(&call->pair->wait, STANDS, memory_order_relaxed);
            return true;
        }
    return false;
}

static void free_call(struct far *far, struct far_call *call)
{
    pthread_mutex_lock(&far->lock);
    for (struct page *page = far->pages; page && call->pair; page = page->next)
        if (call->pair >= page->pairs && call->pair < page->pairs + PAIRS)
            page->used[call->pair - page->pairs] = false;
    pthread_mutex_unlock(&far->lock);
    free(call->argument);
    free(call);
}

/* ---------------------------------------------------------------------- the thread of a stream */

/* Under the stream's lock. */
static void append_locked(struct far_call *call)
{
    struct far_stream *stream = call->stream;
    call->next = NULL;
    *stream->last = call;
    stream->last = &call->next;
    pthread_cond_signal(&stream->given);
}

static void append(struct far_call *call)
{
    pthread_mutex_lock(&call->stream->lock);
    append_locked(call);
    pthread_mutex_unlock(&call->stream->lock);
}

/* A graph has come to the call. */
static void ask(struct far_call *call)
{
    pthread_mutex_lock(&call->stream->lock);
    atomic_store_explicit(&call->pair->done, 0, memory_order_relaxed);
    if (call->asked++ == call->calls_made) { /* else it is in the list, or being made */
        atomic_store_explicit(&call->pair->go, 1, memory_order_release);
        append_locked(call);
    }
    pthread_mutex_unlock(&call->stream->lock);
}

/* The call has been made once more. */
static void answer(struct far_call *call)
{
    pthread_mutex_lock(&call->stream->lock);
    if (++call->calls_made == call->asked) {
        /* Release: pairs with the acquire of each stream's wait. */
        atomic_store_explicit(&call->pair->done, 1, memory_order_release);
    } else {
        atomic_store_explicit(&call->pair->go, 1, memory_order_relaxed);
        append_locked(call);
    }
    pthread_mutex_unlock(&call->stream->lock);
}

/* Under the stream's lock: the call that the stream has come to, taken out of the list. */
static struct far_call *take_due(struct far_stream *stream)
{
    for (struct far_call **at = &stream->first; *at; at = &(*at)->next) {
        struct far_call *call = *at;
        /* Acquire: pairs with the stream's write, behind all that it did before. */
        if (!atomic_load_explicit(&call->pair->go, memory_order_acquire))
            continue;
        *at = call->next;
        if (!*at)
            stream->last = at;
        return call;
    }
    return NULL;
}

/* NULL: the end. What the stream has come to is looked at first, even when the job ends, so that no
 * stream waits in vain; it is passed over then. */
static struct far_call *next_call(struct far_stream *stream)
{
    struct far_call *call;
    for (unsigned looks = 0;; looks++) {
        pthread_mutex_lock(&stream->lock);
        while (!stream->first && !stream->stop) {
            pthread_cond_wait(&stream->given, &stream->lock);
            looks = 0;
        }
        call = take_due(stream);
        bool end = !call && stream->stop;
        pthread_mutex_unlock(&stream->lock);
        if (call || end)
            return call;
        if (looks < SPINS)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

static void *make_calls(void *argument)
{
    struct far_stream *stream = argument;
    for (struct far_call *call; (call = next_call(stream)) != NULL;) {
        /* The stream has passed its wait for the call before. */
        if (stream->made)
            free_call(stream->far, stream->made);
        stream->made = call->captured ? NULL : call;
        atomic_store_explicit(&call->pair->go, 0, memory_order_relaxed);
        job_call_make(stream->far->job, call->run, call->argument);
        if (call->captured)
            answer(call);
        else /* Release: pairs with the acquire of the stream's wait. */
            atomic_store_explicit(&call->pair->done, 1, memory_order_release);
    }
    return NULL;
}

static weft_status start_stream(struct far *far, weft_stream key, struct far_stream **result)
{
    struct far_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for calls on a stream");
    stream->far = far;
    stream->stream = key;
    stream->last = &stream->first;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->given, NULL);
    if (thread_start(&stream->thread, make_calls, stream)) {
        pthread_cond_destroy(&stream->given);
        pthread_mutex_destroy(&stream->lock);
        free(stream);
        return base_fail(WEFT_ERR_SYSTEM, "pthread_create for the calls of a stream failed");
    }
    stream->next = far->streams;
    far->streams = stream;
    *result = stream;
    return WEFT_OK;
}

/* Under far->lock. A stream that has been destroyed leaves its thread to the next of that
 * handle. */
static weft_status find_stream(struct far *far, weft_stream key, struct far_stream **stream)
{
    for (*stream = far->streams; *stream; *stream = (*stream)->next)
        if ((*stream)->stream == key)
            return WEFT_OK;
    return start_stream(far, key, stream);
}

/* Called by the driver. The stream of a job that has been left goes on. */
static void come_to(void *argument)
{
    struct far_call *call = argument;
    struct far *far = call->far;
    pthread_mutex_lock(&far->lock);
    bool ended = far->ended;
    if (!ended && call->captured) {
        job_call_given(far->job);
        ask(call);
    } else if (!ended) {
        far->to_come--;
        atomic_store_explicit(&call->pair->go, 1, memory_order_release);
        append(call);
    }
    pthread_mutex_unlock(&far->lock);
    if (!ended)
        return;
    atomic_store_explicit(&call->pair->done, 1, memory_order_release);
    if (!call->captured) {
        free(call->argument);
        free(call);
    }
}

/* -------------------------------------------------------------------------------- the calls */

/* What was made last: the stream may still stand at its wait. */
static bool has_passed(const struct far_call *call)
{
    for (uint64_t waited = 0; waited < PASS_NS; waited += NAP_NS) {
        /* The stream's last write there depends on what it has read. */
        if (atomic_load_explicit(&call->pair->wait, memory_order_relaxed) != STANDS)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return false;
}

/* True: the stream has not passed all that it was given, and will write and read their pairs when
 * it does. */
static bool stop_stream(struct far_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_signal(&stream->given);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    bool left = stream->first || (stream->made && !has_passed(stream->made));
    if (stream->made)
        free_call(stream->far, stream->made);
    while (stream->first) {
        struct far_call *first = stream->first;
        stream->first = first->next;
        atomic_store_explicit(&first->pair->done, 1, memory_order_release);
        free(first->argument);
        free(first);
    }
    pthread_cond_destroy(&stream->given);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
    return left;
}

/* Of the job, while all of it is there: no call is made any more. What a stream or a graph may
 * still come to stays, with the job's handle. */
static void end_far(struct weft_job *job)
{
    struct far *far = job->far_streams;
    pthread_mutex_lock(&far->lock);
    far->ended = true;
    bool left = far->to_come != 0;
    pthread_mutex_unlock(&far->lock);
    while (far->streams) {
        struct far_stream *first = far->streams;
        far->streams = first->next;
        left |= stop_stream(first);
    }
    far->gpu->work_left |= left;
    if (left || far->kept)
        return;
    bool entered = gpu_enter(&far->gpu->device) == WEFT_OK;
    while (far->pages) {
        struct page *first = far->pages;
        far->pages = first->next;
        if (entered)
            far->gpu->cuda.MemFreeHost(first->pairs);
        free(first);
    }
    if (entered)
        gpu_leave(&far->gpu->device);
    pthread_mutex_destroy(&far->lock);
    free(far);
    job->far_streams = NULL;
}

static struct far *far_of(struct weft_job *job)
{
    pthread_mutex_lock(&job->lock);
    struct far *far = job->far_streams;
    if (!far && (far = calloc(1, sizeof *far))) {
        far->job = job;
        far->gpu = job->gpu;
        pthread_mutex_init(&far->lock, NULL);
        job->far_streams = far;
        job->end_far_streams = end_far;
    }
    pthread_mutex_unlock(&job->lock);
    return far;
}

static weft_status wait_on(struct gpu *gpu, weft_stream stream, CUdeviceptr pair)
{
    CUdeviceptr at = pair + offsetof(struct pair, done),
                passed = pair + offsetof(struct pair, wait);
    int width = 8, is_signed = 0, how = WEFT_EQ;
    int64_t wanted = 1;
    CUdeviceptr none = 0;
    struct gpu_reporting reporting = gpu->reporting;
    void *arguments[] = {&at, &width, &is_signed, &how, &wanted, &reporting, &none, &passed};
    return gpu_launch(&gpu->module, GPU_weft_kernel_wait, 1, 1, stream, arguments);
}

/* By a function that the driver calls. */
static CUresult tell_by_function(struct far *far, weft_stream stream, struct far_call *call)
{
    uint64_t one = !call->captured;
    pthread_mutex_lock(&far->lock);
    far->to_come += one;
    pthread_mutex_unlock(&far->lock);
    CUresult result = far->gpu->cuda.LaunchHostFunc(stream, come_to, call);
    if (!result)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&far->lock);
    far->to_come -= one;
    pthread_mutex_unlock(&far->lock);
    return result;
}

/* *begun: the stream has a part of it, and the call may already have been made, and freed. */
static weft_status put_on_stream(struct far *far, weft_stream stream, struct far_call *call,
                                 bool *begun)
{
    struct gpu *gpu = far->gpu;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    CUdeviceptr seen = call->seen, go = seen + offsetof(struct pair, go);
    bool captured = call->captured;
    if (!captured && gpu->cuda.StreamWriteValue64)
        result = gpu->cuda.StreamWriteValue64(stream, go, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (!result)
        append(call);
    else
        result = tell_by_function(far, stream, call);
    *begun = !result;
    if (!result && !captured)
        job_call_given(far->job);
    return result ? cuda_fail(&gpu->cuda, result, "cuLaunchHostFunc for a call on a stream")
                  : wait_on(gpu, stream, seen);
}

/* Under far->lock. */
static weft_status prepare_stream(struct far *far, weft_stream stream, struct far_call *call)
{
    weft_status status = find_stream(far, stream, &call->stream);
    if (!status && !take_pair(far, call)) {
        status = add_page(far);
        if (!status)
            take_pair(far, call);
    }
    return status;
}

static void keep_call(struct far *far, struct far_call *call)
{
    pthread_mutex_lock(&far->lock);
    call->kept = far->kept;
    far->kept = call;
    pthread_mutex_unlock(&far->lock);
}

weft_status stream_far_call(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                            void *argument)
{
    struct far *far = far_of(job);
    struct far_call *call = far ? calloc(1, sizeof *call) : NULL;
    bool begun = false;
    weft_status status =
        call ? gpu_enter(&job->gpu->device)
             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a call on a stream");
    if (status) {
        free(call);
        free(argument);
        return status;
    }
    call->far = far;
    call->run = run;
    call->argument = argument;
    bool captured = call->captured = stream_capturing(job->gpu, stream);
    pthread_mutex_lock(&far->lock);
    status = prepare_stream(far, stream, call);
    pthread_mutex_unlock(&far->lock);
    if (!status)
        status = put_on_stream(far, stream, call, &begun);
    gpu_leave(&job->gpu->device);
    if (!begun)
        free_call(far, call);
    else if (captured)
        keep_call(far, call);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the host in the order of a CUDA stream, for memory that no address of this GPU reaches. A
 * function that the driver calls may not use the driver itself, so it only announces the call; a thread
 * of ours, one for each stream, makes it, and the stream waits for a word that the thread sets. */
#include "ops/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WORDS = 512 }; /* in each page of pinned memory */

struct far_call {
    struct far_call *next; /* announced behind it */
    struct far_call *kept; /* the next of those that stay until the job ends */
    struct far_stream *stream;
    void (*run)(void *argument);
    void *argument; /* freed with the call */
    _Atomic uint64_t *done;
    bool captured; /* a graph may announce it any number of times, so it stays */
};

/* The thread that makes the calls of one stream: in their order, and whatever those of others wait for. */
struct far_stream {
    struct far_stream *next;
    struct far *far;
    weft_stream stream;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t announced;
    struct far_call *first, **last;
    bool stop;
};

struct page {
    struct page *next;
    _Atomic uint64_t *words; /* pinned; where the GPU sees them: */
    CUdeviceptr seen;
    bool used[WORDS];
};

struct far {
    struct weft_job *job;
    struct gpu *gpu;
    pthread_mutex_t lock; /* of the lists and pages */
    struct far_stream *streams;
    struct far_call *kept;
    struct page *pages;
};

/* ------------------------------------------------------------------------------------- words */

static weft_status add_page(struct far *far)
{
    struct page *page = calloc(1, sizeof *page);
    struct gpu *gpu = far->gpu;
    void *words;
    if (!page)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for calls on a stream");
    CUresult result = gpu->cuda.MemHostAlloc(&words, WORDS * sizeof *page->words,
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!result) {
        page->words = words;
        result = gpu->cuda.MemHostGetDevicePointer(&page->seen, words, 0);
        if (result)
            gpu->cuda.MemFreeHost(words);
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
static bool take_word(struct far *far, _Atomic uint64_t **word, CUdeviceptr *seen)
{
    for (struct page *page = far->pages; page; page = page->next)
        for (int i = 0; i < WORDS; i++)
            if (!page->used[i]) {
                page->used[i] = true;
                *word = page->words + i;
                *seen = page->seen + (size_t)i * sizeof **word;
                return true;
            }
    return false;
}

static void free_word(struct far *far, const _Atomic uint64_t *word)
{
    for (struct page *page = far->pages; page; page = page->next)
        if (word >= page->words && word < page->words + WORDS)
            page->used[word - page->words] = false;
}

/* ---------------------------------------------------------------------- the thread of a stream */

static struct far_call *next_call(struct far_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    while (!stream->first && !stream->stop)
        pthread_cond_wait(&stream->announced, &stream->lock);
    struct far_call *call = stream->first;
    if (call) {
        stream->first = call->next;
        if (!stream->first)
            stream->last = &stream->first;
    }
    pthread_mutex_unlock(&stream->lock);
    return call;
}

/* What was announced is made even when the job ends, so that no stream waits in vain; it fails then. */
static void *make_calls(void *argument)
{
    struct far_stream *stream = argument;
    for (struct far_call *call; (call = next_call(stream)) != NULL;) {
        call->run(call->argument);
        /* Release: pairs with the acquire of the stream's wait. */
        atomic_store_explicit(call->done, 1, memory_order_release);
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
    pthread_cond_init(&stream->announced, NULL);
    if (pthread_create(&stream->thread, NULL, make_calls, stream)) {
        pthread_cond_destroy(&stream->announced);
        pthread_mutex_destroy(&stream->lock);
        free(stream);
        return base_fail(WEFT_ERR_SYSTEM, "pthread_create for the calls of a stream failed");
    }
    stream->next = far->streams;
    far->streams = stream;
    *result = stream;
    return WEFT_OK;
}

/* Under far->lock. A stream that has been destroyed leaves its thread to the next of that handle. */
static weft_status find_stream(struct far *far, weft_stream key, struct far_stream **stream)
{
    for (*stream = far->streams; *stream; *stream = (*stream)->next)
        if ((*stream)->stream == key)
            return WEFT_OK;
    return start_stream(far, key, stream);
}

/* ------------------------------------------------------------------- what the driver calls */

static void announce(void *argument)
{
    struct far_call *call = argument;
    struct far_stream *stream = call->stream;
    atomic_store_explicit(call->done, 0, memory_order_relaxed);
    pthread_mutex_lock(&stream->lock);
    call->next = NULL;
    *stream->last = call;
    stream->last = &call->next;
    pthread_cond_signal(&stream->announced);
    pthread_mutex_unlock(&stream->lock);
}

static void free_call(struct far_call *call)
{
    free(call->argument);
    free(call);
}

/* The stream has passed its wait. */
static void release(void *argument)
{
    struct far_call *call = argument;
    struct far *far = call->stream->far;
    pthread_mutex_lock(&far->lock);
    free_word(far, call->done);
    pthread_mutex_unlock(&far->lock);
    free_call(call);
}

/* -------------------------------------------------------------------------------- the calls */

static void stop_stream(struct far_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_signal(&stream->announced);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->announced);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

/* Of the job, before its GPU side closes. */
static void end_far(struct weft_job *job)
{
    struct far *far = job->far_streams;
    while (far->streams) {
        struct far_stream *first = far->streams;
        far->streams = first->next;
        stop_stream(first);
    }
    while (far->kept) {
        struct far_call *first = far->kept;
        far->kept = first->kept;
        free_call(first);
    }
    bool entered = gpu_enter(&far->gpu->device) == WEFT_OK;
    while (far->pages) {
        struct page *first = far->pages;
        far->pages = first->next;
        if (entered)
            far->gpu->cuda.MemFreeHost((void *)first->words);
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

static weft_status wait_on(struct gpu *gpu, weft_stream stream, CUdeviceptr at)
{
    int width = 8, is_signed = 0, how = WEFT_EQ;
    int64_t wanted = 1;
    CUdeviceptr none = 0;
    struct gpu_reporting reporting = gpu->reporting;
    void *arguments[] = {&at, &width, &is_signed, &how, &wanted, &reporting, &none, &none};
    return gpu_launch(&gpu->module, GPU_weft_kernel_wait, 1, 1, stream, arguments);
}

/* *begun: the stream has a part of it. */
static weft_status put_on_stream(struct far *far, weft_stream stream, struct far_call *call,
                                 CUdeviceptr seen, bool *begun)
{
    struct gpu *gpu = far->gpu;
    CUresult result = gpu->cuda.LaunchHostFunc(stream, announce, call);
    *begun = !result;
    weft_status status = result ? WEFT_OK : wait_on(gpu, stream, seen);
    if (!result && !status && !call->captured)
        result = gpu->cuda.LaunchHostFunc(stream, release, call);
    return result ? cuda_fail(&gpu->cuda, result, "cuLaunchHostFunc for a call on a stream")
                  : status;
}

/* Under far->lock. */
static weft_status make_ready(struct far *far, weft_stream stream, struct far_call *call,
                              CUdeviceptr *seen)
{
    weft_status status = find_stream(far, stream, &call->stream);
    if (!status && !take_word(far, &call->done, seen)) {
        status = add_page(far);
        if (!status)
            take_word(far, &call->done, seen);
    }
    return status;
}

weft_status stream_far_call(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                            void *argument)
{
    struct far *far = far_of(job);
    struct far_call *call = far ? calloc(1, sizeof *call) : NULL;
    CUdeviceptr seen = 0;
    bool begun = false;
    weft_status status =
        call ? gpu_enter(&job->gpu->device)
             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a call on a stream");
    if (status) {
        free(call);
        free(argument);
        return status;
    }
    call->run = run;
    call->argument = argument;
    bool captured = call->captured = stream_capturing(job->gpu, stream);
    pthread_mutex_lock(&far->lock);
    status = make_ready(far, stream, call, &seen);
    pthread_mutex_unlock(&far->lock);
    if (!status)
        status = put_on_stream(far, stream, call, seen, &begun);
    gpu_leave(&job->gpu->device);
    pthread_mutex_lock(&far->lock);
    if (!begun && call->done)
        free_word(far, call->done);
    if (begun && (status || captured)) { /* else it may be free already */
        call->kept = far->kept;
        far->kept = call;
    }
    pthread_mutex_unlock(&far->lock);
    if (!begun)
        free_call(call);
    return status;
}

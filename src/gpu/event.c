/* SPDX-License-Identifier: Apache-2.0 */
/* Completion events of an internal stream: a caller queries whether the operations before the event
 * are complete, without waiting. See gpu.h. An event is a CUDA event or, after stores, a word of
 * pinned memory that the GPU writes and the host reads without a driver call. Completed events are
 * reused. */
#include "gpu/stream.h"

#include "base/status.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVENTS_AT_ONCE = 16,   /* CUDA events created together */
    POLLS_PER_QUERY = 500, /* polls of a word for each query of the stream */
};

struct gpu_event {
    CUevent cuda_event;
    uint64_t *word;     /* NULL: a CUDA event */
    CUdeviceptr device; /* device address of the word */
    uint64_t number;    /* value of the word when this event is complete */
    unsigned polls;
    struct gpu_stream *internal;
    /* number of operations of the internal stream that are complete with this event */
    uint64_t covers;
    struct gpu_event *next;
};

static void push_event(struct gpu *gpu, struct gpu_event *event)
{
    struct gpu_event **list = event->word ? &gpu->events.idle_words : &gpu->events.idle;
    pthread_mutex_lock(&gpu->events.lock);
    event->next = *list;
    *list = event;
    pthread_mutex_unlock(&gpu->events.lock);
}

static weft_status create_event(struct gpu *gpu)
{
    struct gpu_event *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for an event");
    CUresult result = gpu->driver.EventCreate(&made->cuda_event, CU_EVENT_DISABLE_TIMING);
    if (result) {
        free(made);
        return gpu_api_fail(&gpu->driver, result, "cuEventCreate on GPU %d", gpu->device.ordinal);
    }
    push_event(gpu, made);
    return WEFT_OK;
}

static struct gpu_event *pop_event(struct gpu *gpu, struct gpu_event **list)
{
    pthread_mutex_lock(&gpu->events.lock);
    struct gpu_event *event = *list;
    if (event)
        *list = event->next;
    pthread_mutex_unlock(&gpu->events.lock);
    return event;
}

static struct gpu_event *pop_cuda_event(struct gpu *gpu)
{
    return pop_event(gpu, &gpu->events.idle);
}

/* The device's context is current. */
static weft_status take_event(struct gpu *gpu, struct gpu_event **event)
{
    weft_status status = WEFT_OK;
    while (!(*event = pop_cuda_event(gpu)) && !status)
        for (int i = 0; i < EVENTS_AT_ONCE && !status; i++)
            status = create_event(gpu);
    return *event ? WEFT_OK : status; /* fewer than EVENTS_AT_ONCE are enough */
}

weft_status gpu_event_record(struct gpu *gpu, unsigned stream_index, struct gpu_event **event)
{
    struct gpu_stream *internal = stream_of(gpu, stream_index);
    weft_status status = gpu_enter(&gpu->device);
    *event = NULL;
    if (status)
        return status;
    status = take_event(gpu, event);
    if (!status) {
        (*event)->internal = internal;
        (*event)->covers = atomic_load_explicit(&internal->queued, memory_order_acquire);
        CUresult result = gpu->driver.EventRecord((*event)->cuda_event, internal->stream);
        if (result) {
            status =
                gpu_api_fail(&gpu->driver, result, "cuEventRecord on GPU %d", gpu->device.ordinal);
            gpu_event_release(gpu, event);
        }
    }
    gpu_leave(&gpu->device);
    return status;
}

/* ---------------------------------------------------------------------------------- words */

/* Best effort: without words, callers use CUDA events. */
static void create_event_words(struct gpu *gpu)
{
    pthread_mutex_lock(&gpu->events.lock);
    bool made = gpu->events.words_made;
    gpu->events.words_made = true;
    pthread_mutex_unlock(&gpu->events.lock);
    for (size_t i = 0; !made && i < GPU_EVENT_WORDS; i++) {
        struct gpu_event *event = calloc(1, sizeof *event);
        if (!event)
            return;
        event->word = &gpu->pinned->event_words[i].number;
        event->device = gpu->pinned_device + offsetof(struct gpu_pinned, event_words) +
                        i * sizeof gpu->pinned->event_words[0];
        push_event(gpu, event);
    }
}

int gpu_split_words(CUdeviceptr at, const void *data, size_t bytes, struct gpu_word *words)
{
    unsigned width = bytes == 4 ? 4 : 8;
    int n = 0;
    if (bytes % width || at % width || bytes > (GPU_MOST_WORDS - 1) * width)
        return 0;
    for (size_t k = 0; k < bytes; k += width) {
        words[n] = (struct gpu_word){at + k, 0, width};
        memcpy(&words[n++].value, (const char *)data + k, width); /* little-endian, as GPUs are */
    }
    return n;
}

/* With a memory barrier before the store: version 2 of the interface refuses stores without one. */
static CUstreamBatchMemOpParams write_value_params(CUdeviceptr at, uint64_t value, unsigned width)
{
    CUstreamBatchMemOpParams params = {
        .writeValue = {.operation = width == 8 ? CU_STREAM_MEM_OP_WRITE_VALUE_64
                                               : CU_STREAM_MEM_OP_WRITE_VALUE_32,
                       .address = at,
                       .flags = CU_STREAM_WRITE_VALUE_DEFAULT}};
    if (width == 8)
        params.writeValue.value64 = value;
    else
        params.writeValue.value = (uint32_t)value;
    return params;
}

weft_status gpu_store_recorded(struct gpu *gpu, unsigned stream_index, const struct gpu_word *words,
                               int n, struct gpu_event **result)
{
    CUstreamBatchMemOpParams list[GPU_MOST_WORDS + 1];
    struct gpu_stream *internal = stream_of(gpu, stream_index);
    *result = NULL;
    if (!gpu->driver.StreamBatchMemOp || n > GPU_MOST_WORDS)
        return WEFT_OK;
    if (!gpu->events.words_made)
        create_event_words(gpu);
    struct gpu_event *event = pop_event(gpu, &gpu->events.idle_words);
    if (!event)
        return WEFT_OK;
    weft_status status = gpu_enter(&gpu->device);
    if (status) {
        push_event(gpu, event);
        return status;
    }
    for (int i = 0; i < n; i++)
        list[i] = write_value_params(words[i].at, words[i].value, words[i].width);
    event->number++;
    list[n] = write_value_params(event->device, event->number, 8);
    /* Operations of other threads that are queued now come before these stores. */
    event->covers = atomic_load_explicit(&internal->queued, memory_order_acquire) + 1;
    CUstream stream = stream_begin(internal);
    CUresult refused = gpu->driver.StreamBatchMemOp(stream, (unsigned)n + 1, list, 0);
    stream_queued(internal);
    event->internal = internal;
    event->polls = 0;
    if (refused)
        push_event(gpu, event);
    else
        *result = event;
    gpu_leave(&gpu->device);
    return WEFT_OK;
}

/* A failed GPU writes no words, so the stream is queried from time to time. */
static weft_status query_event_word(struct gpu *gpu, struct gpu_event **event)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    /* Acquire: pairs with the GPU's store after a barrier; earlier stores are visible. */
    bool passed = __atomic_load_n((*event)->word, __ATOMIC_ACQUIRE) >= (*event)->number;
    if (!passed && ++(*event)->polls % POLLS_PER_QUERY == 0) {
        weft_status status = gpu_enter(&gpu->device);
        if (status)
            return status;
        result = gpu->driver.StreamQuery((*event)->internal->stream);
        gpu_leave(&gpu->device);
    }
    if (result && result != CUDA_ERROR_NOT_READY)
        return gpu_api_fail(&gpu->driver, result, "cuStreamQuery behind stores on GPU %d",
                            gpu->device.ordinal);
    if (!passed && result)
        return WEFT_OK;
    epoch_close(&(*event)->internal->operations, (*event)->covers);
    push_event(gpu, *event);
    *event = NULL;
    return WEFT_OK;
}

weft_status gpu_event_query(struct gpu *gpu, struct gpu_event **event)
{
    if ((*event)->word)
        return query_event_word(gpu, event);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.EventQuery((*event)->cuda_event);
    gpu_leave(&gpu->device);
    if (result == CUDA_ERROR_NOT_READY)
        return WEFT_OK;
    if (result)
        return gpu_api_fail(&gpu->driver, result, "cuEventQuery on GPU %d", gpu->device.ordinal);
    epoch_close(&(*event)->internal->operations, (*event)->covers);
    gpu_event_release(gpu, event);
    return WEFT_OK;
}

void gpu_event_release(struct gpu *gpu, struct gpu_event **event)
{
    struct gpu_event *dropped = *event;
    *event = NULL;
    /* The GPU will still write this word, so it is not reused; pinned memory is freed at the
     * end. */
    if (dropped && dropped->word &&
        __atomic_load_n(dropped->word, __ATOMIC_ACQUIRE) < dropped->number)
        free(dropped);
    else if (dropped)
        push_event(gpu, dropped);
}

void gpu_events_free(struct gpu *gpu)
{
    for (struct gpu_event *event; (event = pop_cuda_event(gpu)) != NULL;) {
        gpu->driver.EventDestroy(event->cuda_event);
        free(event);
    }
    for (struct gpu_event *event; (event = pop_event(gpu, &gpu->events.idle_words)) != NULL;)
        free(event);
}

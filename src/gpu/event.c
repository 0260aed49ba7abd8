/* SPDX-License-Identifier: Apache-2.0 */
/* Marks on a lane: behind what was put there, for those who want to know of its end without waiting
 * for it. See gpu.h. Events, or, behind stores, words of pinned memory that the GPU writes and the
 * host reads without a call of the driver. What has passed is used again. */
#include "gpu/stream.h"

#include "base/status.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 16, LOOKS_PER_QUERY = 500 };

struct gpu_mark {
    CUevent event;
    uint64_t *word;     /* NULL: it is an event */
    CUdeviceptr device; /* where the GPU finds the word */
    uint64_t number;    /* what the word shows when this mark has passed */
    unsigned looks;
    struct gpu_lane *lane;
    uint64_t covers; /* operations of the lane */
    struct gpu_mark *next;
};

static void give_back(struct gpu *gpu, struct gpu_mark *mark)
{
    struct gpu_mark **list = mark->word ? &gpu->words : &gpu->marks;
    pthread_mutex_lock(&gpu->marks_lock);
    mark->next = *list;
    *list = mark;
    pthread_mutex_unlock(&gpu->marks_lock);
}

static weft_status make_one(struct gpu *gpu)
{
    struct gpu_mark *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for an event");
    CUresult result = gpu->cuda.EventCreate(&made->event, CU_EVENT_DISABLE_TIMING);
    if (result) {
        free(made);
        return cuda_fail(&gpu->cuda, result, "cuEventCreate on GPU %d", gpu->device.ordinal);
    }
    give_back(gpu, made);
    return WEFT_OK;
}

static struct gpu_mark *take_from(struct gpu *gpu, struct gpu_mark **list)
{
    pthread_mutex_lock(&gpu->marks_lock);
    struct gpu_mark *mark = *list;
    if (mark)
        *list = mark->next;
    pthread_mutex_unlock(&gpu->marks_lock);
    return mark;
}

static struct gpu_mark *take_one(struct gpu *gpu)
{
    return take_from(gpu, &gpu->marks);
}

/* The device's context is current. */
static weft_status take(struct gpu *gpu, struct gpu_mark **mark)
{
    weft_status status = WEFT_OK;
    while (!(*mark = take_one(gpu)) && !status)
        for (int i = 0; i < AT_ONCE && !status; i++)
            status = make_one(gpu);
    return *mark ? WEFT_OK : status; /* fewer than that do as well */
}

weft_status gpu_mark_put(struct gpu *gpu, unsigned number, struct gpu_mark **mark)
{
    struct gpu_lane *lane = lane_of(gpu, number);
    weft_status status = gpu_enter(&gpu->device);
    *mark = NULL;
    if (status)
        return status;
    status = take(gpu, mark);
    if (!status) {
        (*mark)->lane = lane;
        (*mark)->covers = atomic_load_explicit(&lane->queued, memory_order_acquire);
        CUresult result = gpu->cuda.EventRecord((*mark)->event, lane->stream);
        if (result) {
            status = cuda_fail(&gpu->cuda, result, "cuEventRecord on GPU %d", gpu->device.ordinal);
            gpu_mark_drop(gpu, mark);
        }
    }
    gpu_leave(&gpu->device);
    return status;
}

/* ---------------------------------------------------------------------------------- words */

/* Best effort: without one the caller does without. */
static void make_words(struct gpu *gpu)
{
    pthread_mutex_lock(&gpu->marks_lock);
    bool made = gpu->words_made;
    gpu->words_made = true;
    pthread_mutex_unlock(&gpu->marks_lock);
    for (size_t i = 0; !made && i < GPU_MARK_WORDS; i++) {
        struct gpu_mark *mark = calloc(1, sizeof *mark);
        if (!mark)
            return;
        mark->word = &gpu->pinned->marks[i].number;
        mark->device = gpu->pinned_device + offsetof(struct gpu_pinned, marks) +
                       i * sizeof gpu->pinned->marks[0];
        give_back(gpu, mark);
    }
}

int gpu_words_of(CUdeviceptr at, const void *data, size_t bytes, struct gpu_word *words)
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

/* With a barrier in front: version 2 of the interface refuses stores without one. */
static CUstreamBatchMemOpParams write_of(CUdeviceptr at, uint64_t value, unsigned width)
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

weft_status gpu_store_marked(struct gpu *gpu, unsigned number, const struct gpu_word *words, int n,
                             struct gpu_mark **result)
{
    CUstreamBatchMemOpParams list[GPU_MOST_WORDS + 1];
    struct gpu_lane *lane = lane_of(gpu, number);
    *result = NULL;
    if (!gpu->cuda.StreamBatchMemOp || n > GPU_MOST_WORDS)
        return WEFT_OK;
    if (!gpu->words_made)
        make_words(gpu);
    struct gpu_mark *mark = take_from(gpu, &gpu->words);
    if (!mark)
        return WEFT_OK;
    weft_status status = gpu_enter(&gpu->device);
    if (status) {
        give_back(gpu, mark);
        return status;
    }
    for (int i = 0; i < n; i++)
        list[i] = write_of(words[i].at, words[i].value, words[i].width);
    mark->number++;
    list[n] = write_of(mark->device, mark->number, 8);
    /* Of other threads' operations those that are there now are in front of these stores. */
    mark->covers = atomic_load_explicit(&lane->queued, memory_order_acquire) + 1;
    CUstream stream = lane_use(lane);
    CUresult refused = gpu->cuda.StreamBatchMemOp(stream, (unsigned)n + 1, list, 0);
    lane_used(lane, WEFT_OK);
    mark->lane = lane;
    mark->looks = 0;
    if (refused)
        give_back(gpu, mark);
    else
        *result = mark;
    gpu_leave(&gpu->device);
    return WEFT_OK;
}

/* A GPU that has failed writes no more words: the stream tells. */
static weft_status word_passed(struct gpu *gpu, struct gpu_mark **mark)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    /* Acquire: pairs with the GPU's store behind a barrier; what was stored before is visible. */
    bool passed = __atomic_load_n((*mark)->word, __ATOMIC_ACQUIRE) >= (*mark)->number;
    if (!passed && ++(*mark)->looks % LOOKS_PER_QUERY == 0) {
        weft_status status = gpu_enter(&gpu->device);
        if (status)
            return status;
        result = gpu->cuda.StreamQuery((*mark)->lane->stream);
        gpu_leave(&gpu->device);
    }
    if (result && result != CUDA_ERROR_NOT_READY)
        return cuda_fail(&gpu->cuda, result, "cuStreamQuery behind stores on GPU %d",
                         gpu->device.ordinal);
    if (!passed && result)
        return WEFT_OK;
    epoch_close(&(*mark)->lane->operations, (*mark)->covers);
    give_back(gpu, *mark);
    *mark = NULL;
    return WEFT_OK;
}

weft_status gpu_mark_passed(struct gpu *gpu, struct gpu_mark **mark)
{
    if ((*mark)->word)
        return word_passed(gpu, mark);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->cuda.EventQuery((*mark)->event);
    gpu_leave(&gpu->device);
    if (result == CUDA_ERROR_NOT_READY)
        return WEFT_OK;
    if (result)
        return cuda_fail(&gpu->cuda, result, "cuEventQuery on GPU %d", gpu->device.ordinal);
    epoch_close(&(*mark)->lane->operations, (*mark)->covers);
    gpu_mark_drop(gpu, mark);
    return WEFT_OK;
}

void gpu_mark_drop(struct gpu *gpu, struct gpu_mark **mark)
{
    struct gpu_mark *dropped = *mark;
    *mark = NULL;
    /* A word that is still to be written must not be anybody else's by then. */
    if (dropped && dropped->word &&
        __atomic_load_n(dropped->word, __ATOMIC_ACQUIRE) < dropped->number)
        free(dropped);
    else if (dropped)
        give_back(gpu, dropped);
}

void gpu_marks_free(struct gpu *gpu)
{
    for (struct gpu_mark *mark; (mark = take_one(gpu)) != NULL;) {
        gpu->cuda.EventDestroy(mark->event);
        free(mark);
    }
    for (struct gpu_mark *mark; (mark = take_from(gpu, &gpu->words)) != NULL;)
        free(mark);
}

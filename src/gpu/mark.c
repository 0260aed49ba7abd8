/* SPDX-License-Identifier: Apache-2.0 */
/* Marks on a lane: events behind what was put there, for those who want to know of its end without
 * waiting for it. See gpu.h. Events that have passed are used again. */
#include "gpu/lane.h"

#include "base/status.h"

#include <stdlib.h>

enum { AT_ONCE = 16 };

struct gpu_mark {
    CUevent event;
    struct gpu_lane *lane;
    uint64_t covers; /* operations of the lane */
    struct gpu_mark *next;
};

static void give_back(struct gpu *gpu, struct gpu_mark *mark)
{
    pthread_mutex_lock(&gpu->marks_lock);
    mark->next = gpu->marks;
    gpu->marks = mark;
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

static struct gpu_mark *take_one(struct gpu *gpu)
{
    pthread_mutex_lock(&gpu->marks_lock);
    struct gpu_mark *mark = gpu->marks;
    if (mark)
        gpu->marks = mark->next;
    pthread_mutex_unlock(&gpu->marks_lock);
    return mark;
}

/* The device's context is current. */
static weft_status take(struct gpu *gpu, struct gpu_mark **mark)
{
    weft_status status = WEFT_OK;
    while (!(*mark = take_one(gpu)) && !status)
        for (int i = 0; i < AT_ONCE && !status; i++)
            status = make_one(gpu);
    return status;
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

weft_status gpu_mark_passed(struct gpu *gpu, struct gpu_mark **mark)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->cuda.EventQuery((*mark)->event);
    gpu_leave(&gpu->device);
    if (result == CUDA_ERROR_NOT_READY)
        return WEFT_OK;
    if (result)
        return cuda_fail(&gpu->cuda, result, "cuEventQuery on GPU %d", gpu->device.ordinal);
    lane_settled((*mark)->lane, (*mark)->covers);
    gpu_mark_drop(gpu, mark);
    return WEFT_OK;
}

void gpu_mark_drop(struct gpu *gpu, struct gpu_mark **mark)
{
    if (*mark)
        give_back(gpu, *mark);
    *mark = NULL;
}

void gpu_marks_free(struct gpu *gpu)
{
    for (struct gpu_mark *mark; (mark = take_one(gpu)) != NULL;) {
        gpu->cuda.EventDestroy(mark->event);
        free(mark);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Marks on a lane: events behind what was put there, for those who want to know of its end without
 * waiting for it. See gpu.h. */
#include "gpu/lane.h"

#include "base/status.h"

#include <stdlib.h>

struct gpu_mark {
    CUevent event;
    struct gpu_lane *lane;
    uint64_t covers; /* operations of the lane */
};

static weft_status make_mark(struct gpu *gpu, struct gpu_mark **mark)
{
    if (*mark)
        return WEFT_OK;
    struct gpu_mark *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for an event");
    CUresult result = gpu->cuda.EventCreate(&made->event, CU_EVENT_DISABLE_TIMING);
    if (result) {
        free(made);
        return cuda_fail(&gpu->cuda, result, "cuEventCreate on GPU %d", gpu->device.ordinal);
    }
    *mark = made;
    return WEFT_OK;
}

weft_status gpu_mark_put(struct gpu *gpu, unsigned number, struct gpu_mark **mark)
{
    struct gpu_lane *lane = lane_of(gpu, number);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = make_mark(gpu, mark);
    if (!status) {
        (*mark)->lane = lane;
        (*mark)->covers = atomic_load_explicit(&lane->queued, memory_order_acquire);
        CUresult result = gpu->cuda.EventRecord((*mark)->event, lane->stream);
        if (result)
            status = cuda_fail(&gpu->cuda, result, "cuEventRecord on GPU %d", gpu->device.ordinal);
    }
    gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_mark_passed(struct gpu *gpu, const struct gpu_mark *mark, bool *passed)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->cuda.EventQuery(mark->event);
    gpu_leave(&gpu->device);
    *passed = result == CUDA_SUCCESS;
    if (*passed)
        lane_settled(mark->lane, mark->covers);
    return *passed || result == CUDA_ERROR_NOT_READY
               ? WEFT_OK
               : cuda_fail(&gpu->cuda, result, "cuEventQuery on GPU %d", gpu->device.ordinal);
}

void gpu_mark_free(struct gpu *gpu, struct gpu_mark *mark)
{
    if (!mark)
        return;
    if (gpu && !gpu_enter(&gpu->device)) {
        gpu->cuda.EventDestroy(mark->event);
        gpu_leave(&gpu->device);
    }
    free(mark);
}

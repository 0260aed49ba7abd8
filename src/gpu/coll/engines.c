/* SPDX-License-Identifier: Apache-2.0 */
/* See engines.h. */
#include "gpu/coll/engines.h"

#include "base/status.h"
#include "gpu/stream.h"

#include <stdio.h>
#include <string.h>

void gpu_engines_open(struct gpu_engines *engines)
{
    memset(engines, 0, sizeof *engines);
    pthread_mutex_init(&engines->lock, NULL);
}

void gpu_engines_close(struct gpu_engines *engines, struct gpu *gpu)
{
    for (int s = 0; s < GPU_ENGINE_SETS; s++) {
        struct gpu_engine_set *set = &engines->sets[s];
        for (int i = 0; i < GPU_ENGINE_STREAMS; i++) {
            if (set->ended[i])
                gpu->driver.EventDestroy(set->ended[i]);
            if (set->stream[i])
                gpu->driver.StreamDestroy(set->stream[i]);
        }
        if (set->begun)
            gpu->driver.EventDestroy(set->begun);
    }
    pthread_mutex_destroy(&engines->lock);
}

static int get_capture(const struct gpu *gpu, CUstream stream, uint64_t *id)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = gpu->driver.StreamGetCaptureInfo
                          ? gpu->driver.StreamGetCaptureInfo(stream, &status, id, NULL, NULL, NULL)
                          : gpu->driver.StreamIsCapturing(stream, &status);
    return result ? CU_STREAM_CAPTURE_STATUS_NONE : status;
}

/* Finds the set of this order and this capture (or of no capture), or takes a free set. NULL: all
 * are in use. */
static struct gpu_engine_set *find_set(struct gpu_engines *engines, const struct gpu *gpu,
                                       int order, bool captured, uint64_t id)
{
    struct gpu_engine_set *free = NULL;
    if (captured && !gpu->driver.StreamGetCaptureInfo)
        return NULL;
    for (int s = 0; s < GPU_ENGINE_SETS; s++) {
        struct gpu_engine_set *set = &engines->sets[s];
        uint64_t other = 0;
        if (!set->streams) {
            free = free ? free : set;
            continue;
        }
        if (set->captured != captured)
            continue;
        int status =
            captured ? get_capture(gpu, set->stream[0], &other) : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (set->order == order && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && other == id)
            return set;
        /* its capture has ended, so the set is free */
        if (status == CU_STREAM_CAPTURE_STATUS_NONE)
            free = set;
    }
    if (free) {
        free->order = order;
        free->captured = captured;
    }
    return free;
}

static weft_status grow_set(struct gpu_engine_set *set, const struct gpu *gpu, int streams)
{
    CUresult result = CUDA_SUCCESS;
    if (!set->begun)
        result = gpu->driver.EventCreate(&set->begun, CU_EVENT_DISABLE_TIMING);
    while (!result && set->streams < streams) {
        int i = set->streams;
        if (!set->ended[i])
            result = gpu->driver.EventCreate(&set->ended[i], CU_EVENT_DISABLE_TIMING);
        if (!result)
            result = gpu->driver.StreamCreate(&set->stream[i], CU_STREAM_NON_BLOCKING);
        set->streams += !result;
    }
    return result ? gpu_api_fail(&gpu->driver, result, "a stream of copies on GPU %d",
                                 gpu->device.ordinal)
                  : WEFT_OK;
}

static weft_status copy_one(struct gpu *gpu, CUstream stream, const struct gpu_engine_copy *copy)
{
    return gpu_copy_on(gpu, stream, copy->dst, copy->src, copy->bytes);
}

/* The first copy stays on the caller's stream, which waits for the others before its later
 * operations. */
static weft_status copy_forked(struct gpu_engine_set *set, struct gpu *gpu, CUstream stream,
                               const struct gpu_engine_copy *copies, int n)
{
    const struct gpu_api *driver = &gpu->driver;
    int used = n - 1 < GPU_ENGINE_STREAMS ? n - 1 : GPU_ENGINE_STREAMS;
    weft_status status = grow_set(set, gpu, used);
    CUresult result = status ? CUDA_SUCCESS : driver->EventRecord(set->begun, stream);
    for (int i = 0; i < used && !result && !status; i++)
        result = driver->StreamWaitEvent(set->stream[i], set->begun, 0);
    for (int i = 1; i < n && !result && !status; i++)
        status = copy_one(gpu, set->stream[(i - 1) % used], &copies[i]);
    if (!result && !status)
        status = copy_one(gpu, stream, &copies[0]);
    for (int i = 0; i < used && !result && !status; i++) {
        result = driver->EventRecord(set->ended[i], set->stream[i]);
        if (!result)
            result = driver->StreamWaitEvent(stream, set->ended[i], 0);
    }
    if (result)
        status = gpu_api_fail(driver, result, "an event of %d parallel copies on GPU %d", n,
                              gpu->device.ordinal);
    return status;
}

/* After a failure in part: waits for the copies that were enqueued, so that the caller may reuse
 * its memory. */
static void drain_set(struct gpu_engine_set *set, struct gpu *gpu)
{
    char message[512];
    snprintf(message, sizeof message, "%s", base_last_error());
    for (int i = 0; i < set->streams; i++)
        gpu_wait_stream(gpu, set->stream[i], "a part of several copies");
    base_fail(WEFT_ERR_SYSTEM, "%s", message);
}

static weft_status copy_locked(struct gpu_engines *engines, struct gpu *gpu, CUstream stream,
                               int order, const struct gpu_engine_copy *copies, int n)
{
    uint64_t id = 0;
    bool captured = get_capture(gpu, stream, &id) != CU_STREAM_CAPTURE_STATUS_NONE;
    weft_status status = WEFT_OK;
    struct gpu_engine_set *set = n > 1 ? find_set(engines, gpu, order, captured, id) : NULL;
    if (set) {
        status = copy_forked(set, gpu, stream, copies, n);
        if (status && !captured)
            drain_set(set, gpu);
        return status;
    }
    for (int i = 0; i < n && !status; i++)
        status = copy_one(gpu, stream, &copies[i]);
    return status;
}

weft_status gpu_engines_copy(struct gpu_engines *engines, struct gpu *gpu, CUstream stream,
                             int order, const struct gpu_engine_copy *copies, int n)
{
    pthread_mutex_lock(&engines->lock);
    weft_status status = copy_locked(engines, gpu, stream, order, copies, n);
    pthread_mutex_unlock(&engines->lock);
    return status;
}

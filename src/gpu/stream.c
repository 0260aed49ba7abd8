/* SPDX-License-Identifier: Apache-2.0 */
/* See stream.h. */
#include "gpu/stream.h"

#include "base/clock.h"
#include "base/status.h"

#include <sched.h>
#include <time.h>

enum {
    SLICE_NS = 100 * 1000 * 1000,      /* time counted for each check, at most */
    CHECK_EVERY_NS = 20 * 1000 * 1000, /* interval of checks for dead PEs */
    SLEEP_AFTER_NS = 10 * 1000 * 1000, /* a long wait sleeps between its polls */
    SLEEP_NS = 50 * 1000,              /* time of one sleep */
};

void gpu_stream_make(struct gpu *gpu, CUstream *stream)
{
    CUstream made = NULL;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pthread_mutex_lock(&gpu->making_lock);
    if (!*stream && !gpu_enter(&gpu->device)) {
        gpu_exchange_capture_mode(gpu, &mode);
        CUresult result = gpu->driver.StreamCreate(&made, CU_STREAM_NON_BLOCKING);
        gpu_exchange_capture_mode(gpu, &mode);
        gpu_leave(&gpu->device);
        if (result)
            made = NULL;
    }
    if (!*stream) /* release: pairs with the acquire of gpu_stream_made() */
        __atomic_store_n(stream, made ? made : gpu->streams[0].stream, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&gpu->making_lock);
}

CUstream stream_begin_answered(struct gpu_stream *internal, uint64_t *completed)
{
    uint64_t queued = atomic_load_explicit(&internal->queued, memory_order_acquire);
    uint64_t begun = epoch_give(&internal->operations);
    *completed = begun == queued ? begun + 1 : 0;
    return internal->stream;
}

weft_status gpu_wait_check(struct gpu *gpu, struct gpu_wait *wait, const char *what)
{
    uint64_t now = clock_now_ns();
    uint64_t step = wait->last_ns ? now - wait->last_ns : 0;
    wait->last_ns = now;
    wait->waited_ns += step < SLICE_NS ? step : SLICE_NS;
    if (wait->waited_ns > SLEEP_AFTER_NS)
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    else
        sched_yield();
    if (wait->waited_ns - wait->checked_ns > CHECK_EVERY_NS) {
        wait->checked_ns = wait->waited_ns;
        weft_status status = gpu->boot->ops->check(gpu->boot);
        if (status)
            return status;
    }
    if (!gpu->wait_limit_ns || wait->waited_ns < gpu->wait_limit_ns)
        return WEFT_OK;
    return base_fail(
        WEFT_ERR_TIMEOUT,
        "waited %.1f s for GPU %d to finish %s (limit WEFT_WAIT_LIMIT): a kernel of the "
        "program may occupy the GPU, or wait for this PE",
        (double)wait->waited_ns * 1e-9, gpu->device.ordinal, what);
}

static weft_status fail_query(struct gpu *gpu, CUresult result, const char *what)
{
    return gpu_api_fail(&gpu->driver, result, "cuStreamQuery on GPU %d, waiting for %s",
                        gpu->device.ordinal, what);
}

/* An error may concern one query only, while work still runs that uses memory that the caller will
 * free. So the stream is queried again: only a second error means that the context is broken and
 * nothing runs. */
weft_status gpu_wait_stream(struct gpu *gpu, CUstream stream, const char *what)
{
    enum { QUERIES_PER_CHECK = 32 }; /* each query takes about 0.5 us */
    struct gpu_wait wait = {0};
    CUresult failed = CUDA_SUCCESS;
    weft_status status = WEFT_OK;
    for (unsigned queries = 1; !status; queries++) {
        CUresult result = gpu->driver.StreamQuery(stream);
        if (result == CUDA_SUCCESS || (failed && result != CUDA_ERROR_NOT_READY))
            return failed ? fail_query(gpu, failed, what) : WEFT_OK;
        if (result != CUDA_ERROR_NOT_READY)
            failed = result;
        if (queries % QUERIES_PER_CHECK == 0)
            status = gpu_wait_check(gpu, &wait, what);
    }
    return status;
}

weft_status stream_await_answer(struct gpu *gpu, struct gpu_stream *internal)
{
    enum { POLLS_PER_CHECK = 2000 };
    struct gpu_wait wait = {0};
    weft_status status = WEFT_OK;
    for (unsigned polls = 1; !status; polls++) {
        /* Acquire: pairs with the kernel's release store after its result. */
        if (__atomic_load_n(&internal->answer->number, __ATOMIC_ACQUIRE) == internal->sequence)
            return WEFT_OK;
        if (polls % POLLS_PER_CHECK)
            continue;
        /* A failed kernel never answers, so the stream is queried. */
        CUresult result = gpu->driver.StreamQuery(internal->stream);
        if (result && result != CUDA_ERROR_NOT_READY)
            return gpu_api_fail(&gpu->driver, result, "a kernel on GPU %d", gpu->device.ordinal);
        status = gpu_wait_check(gpu, &wait, "an operation by one of its kernels");
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in stream order on cuda. The copy engine copies; one block of a kernel performs a
 * small put with signal and then stores the signal; kernels of bounded duration perform waits and
 * barriers. On simt, and where this GPU has no address for the memory, host callbacks call the host
 * functions in stream order (call.c). */
#include "ops/stream/stream.h"

#include "base/config.h"
#include "job/device_watch.h"

#include <stdlib.h>

enum { SIMT_TARGET_CHOICE = 2 }; /* index of simt in WEFT_TARGET */

bool stream_on_cuda(const struct weft_job *job)
{
    return job->gpu && config_choice(CONFIG_TARGET) != SIMT_TARGET_CHOICE;
}

weft_status stream_check(const char *function, const struct weft_job *job, weft_stream stream)
{
    /* besides NULL, the handles of CUDA's default streams, which belong to any GPU */
    enum { LEGACY = 1, PER_THREAD };
    if (!stream_on_cuda(job) || (uintptr_t)stream <= PER_THREAD)
        return WEFT_OK;
    const struct gpu_device *own = &job->gpu->device;
    const struct gpu_api *driver = own->driver;
    CUcontext context, pushed;
    CUdevice device;
    if (!driver->StreamGetCtx || driver->StreamGetCtx(stream, &context) ||
        context == own->context || driver->CtxPushCurrent(context))
        return WEFT_OK; /* the driver reports any other error of the stream */
    CUresult result = driver->CtxGetDevice(&device);
    driver->CtxPopCurrent(&pushed);
    if (result || device == own->device)
        return WEFT_OK;
    return gpu_api_refuse(
        driver, WEFT_ERR_ARGUMENT,
        "%s: the stream belongs to GPU %d, but this PE uses GPU %d (%s); create it after "
        "cudaSetDevice(%d)",
        function, (int)device, (int)own->device, own->name, (int)own->device);
}

bool stream_capturing(struct gpu *gpu, weft_stream stream)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    return gpu->driver.StreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Whether the stream can perform the operation itself; else a host callback does. Where no path
 * exists the stream is chosen too, so that the error is returned immediately. */
static bool stream_serves(const struct weft_job *job, struct remote at)
{
    return stream_on_cuda(job) &&
           (at.peer->path == PATH_NONE || job_direct(job, (weft_kind)at.peer->kind, at.peer->pe));
}

static bool stream_signals(const struct weft_job *job, struct remote at, weft_signal_op op)
{
    return stream_serves(job, at) &&
           (op == WEFT_SIGNAL_SET || job->paths.atomics[at.peer->kind] == PATH_NONE);
}

/* ------------------------------------------------------------------------------ put and get */

static weft_status copy_on(struct gpu *gpu, weft_stream stream, void *dst, const void *src,
                           size_t bytes)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_copy_on(gpu, stream, dst, src, bytes);
    gpu_leave(&gpu->device);
    return status;
}

WEFT_EXPORT weft_status weft_put_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                           int pe, weft_stream stream)
{
    static const char name[] = "weft_put_on_stream";
    struct remote to;
    char *address;
    weft_status status = access_resolve(name, ctx, dst, bytes, pe, &to);
    if (status || bytes == 0)
        return status;
    if (!src)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", name);
    status = stream_check(name, ctx->job, stream);
    if (status)
        return status;
    if (!stream_serves(ctx->job, to))
        return stream_call_put(ctx, dst, src, bytes, pe, stream);
    access_count(BOX_OP_PUT, to.peer, bytes, to.offset);
    status = to.peer->ops->address(to, &address);
    return status ? status : copy_on(ctx->gpu, stream, address, src, bytes);
}

WEFT_EXPORT weft_status weft_get_on_stream(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                           int pe, weft_stream stream)
{
    static const char name[] = "weft_get_on_stream";
    struct remote from;
    char *address;
    weft_status status = access_resolve(name, ctx, src, bytes, pe, &from);
    if (status || bytes == 0)
        return status;
    if (!dst)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: dst is null", name);
    status = stream_check(name, ctx->job, stream);
    if (status)
        return status;
    if (!stream_serves(ctx->job, from))
        return stream_call_get(ctx, dst, src, bytes, pe, stream);
    access_count(BOX_OP_GET, from.peer, bytes, from.offset);
    status = from.peer->ops->address(from, &address);
    return status ? status : copy_on(ctx->gpu, stream, dst, address, bytes);
}

/* ---------------------------------------------------------------------------------- signals */

/* Whether one block of a kernel may copy: the copy is small, and kernels can access both
 * memories. */
static bool fits_block_copy(struct gpu *gpu, struct remote to, const void *src, size_t bytes)
{
    return bytes <= GPU_BLOCK_COPY_LIMIT && to.segment == SEG_GPU &&
           gpu_place_of(gpu, src) != GPU_PLACE_PLAIN;
}

static weft_status block_copy(struct gpu *gpu, weft_stream stream, const void *dst, const void *src,
                              uint64_t bytes, const void *signal, uint64_t value, int op)
{
    unsigned threads = bytes > GPU_WIDE_BLOCK ? GPU_SIGNAL_THREADS : 32;
    uint64_t none = 0;
    void *arguments[] = {&dst, &src, &bytes, &signal, &value, &op, &none, &none};
    return gpu_launch(&gpu->module, GPU_weft_kernel_copy, 1, threads, stream, arguments);
}

/* A signal in host memory. The CPU changes it, because its atomics and their order with other CPUs
 * are required. */
struct host_signal {
    struct weft_job *job;
    uint64_t *at;
    uint64_t value;
    weft_signal_op op;
};

static void change_host_signal(void *argument)
{
    const struct host_signal *signal = argument;
    if (signal->op == WEFT_SIGNAL_SET)
        __atomic_store_n(signal->at, signal->value, __ATOMIC_RELEASE);
    else
        __atomic_fetch_add(signal->at, signal->value, __ATOMIC_RELEASE);
}

static void run_signal_once(void *argument)
{
    const struct host_signal *signal = argument;
    job_callback_run(signal->job, change_host_signal, argument);
    free(argument);
}

static weft_status host_signal_on(struct weft_job *job, weft_stream stream, char *at,
                                  uint64_t value, weft_signal_op op)
{
    struct gpu *gpu = job->gpu;
    struct host_signal *signal = malloc(sizeof *signal);
    if (!signal)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a signal on a stream");
    *signal = (struct host_signal){job, (uint64_t *)(void *)at, value, op};
    if (stream_capturing(gpu, stream)) /* a graph has no functions: see host_callback.c */
        return stream_callback(job, stream, change_host_signal, signal);
    CUresult result = gpu->driver.LaunchHostFunc(stream, run_signal_once, signal);
    if (!result) {
        job_callback_enqueued(job);
        return WEFT_OK;
    }
    free(signal);
    return gpu_api_fail(&gpu->driver, result, "cuLaunchHostFunc for a signal in host memory");
}

/* Changes a signal after all earlier work of the stream. */
static weft_status signal_on(struct weft_job *job, weft_stream stream, struct remote at,
                             uint64_t value, weft_signal_op op)
{
    struct gpu *gpu = job->gpu;
    char *address;
    weft_status status = at.peer->ops->address(at, &address);
    if (status)
        return status;
    if (at.segment != SEG_GPU)
        return host_signal_on(job, stream, address, value, op);
    /* The driver's stream write has a barrier before it. In a graph only a kernel is safe. */
    if (op == WEFT_SIGNAL_SET && gpu->driver.StreamWriteValue64 && !stream_capturing(gpu, stream) &&
        gpu->driver.StreamWriteValue64(stream, (uintptr_t)address, value,
                                       CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS)
        return WEFT_OK;
    return block_copy(gpu, stream, NULL, NULL, 0, address, value, (int)op);
}

static weft_status put_signal_cuda(struct weft_ctx *ctx, struct remote to, const void *src,
                                   size_t bytes, struct remote at, uint64_t value,
                                   weft_signal_op op, weft_stream stream)
{
    struct gpu *gpu = ctx->gpu;
    char *dst, *signal;
    weft_status status = to.peer->ops->address(to, &dst);
    if (!status)
        status = at.peer->ops->address(at, &signal);
    if (!status)
        status = gpu_enter(&gpu->device);
    if (status)
        return status;
    if (at.segment == SEG_GPU && fits_block_copy(gpu, to, src, bytes)) {
        status = block_copy(gpu, stream, dst, src, bytes, signal, value, (int)op);
    } else {
        status = gpu_copy_on(gpu, stream, dst, src, bytes);
        if (!status)
            status = signal_on(ctx->job, stream, at, value, op);
    }
    gpu_leave(&gpu->device);
    return status;
}

WEFT_EXPORT weft_status weft_put_signal_on_stream(weft_ctx *ctx, void *dst, const void *src,
                                                  size_t bytes, uint64_t *signal, uint64_t value,
                                                  weft_signal_op op, int pe, weft_stream stream)
{
    static const char name[] = "weft_put_signal_on_stream";
    struct remote to, at;
    weft_status status = access_check_signal_op(name, op);
    if (!status)
        status = access_resolve_aligned(name, ctx, signal, sizeof *signal, pe, &at);
    if (status)
        return status;
    if (bytes == 0)
        return weft_signal_on_stream(ctx, signal, value, op, pe, stream);
    status = access_resolve(name, ctx, dst, bytes, pe, &to);
    if (status)
        return status;
    if (!src)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", name);
    status = stream_check(name, ctx->job, stream);
    if (status)
        return status;
    if (!stream_serves(ctx->job, to) || !stream_signals(ctx->job, at, op))
        return stream_call_put_signal(ctx, dst, src, bytes, signal, value, op, pe, stream);
    access_count(BOX_OP_SIGNAL, to.peer, bytes, to.offset);
    return put_signal_cuda(ctx, to, src, bytes, at, value, op, stream);
}

WEFT_EXPORT weft_status weft_signal_on_stream(weft_ctx *ctx, uint64_t *signal, uint64_t value,
                                              weft_signal_op op, int pe, weft_stream stream)
{
    static const char name[] = "weft_signal_on_stream";
    struct remote at;
    weft_status status = access_check_signal_op(name, op);
    if (!status)
        status = access_resolve_aligned(name, ctx, signal, sizeof *signal, pe, &at);
    if (!status)
        status = stream_check(name, ctx->job, stream);
    if (status)
        return status;
    if (!stream_signals(ctx->job, at, op))
        return stream_call_signal(ctx, signal, value, op, pe, stream);
    access_count(BOX_OP_SIGNAL, at.peer, sizeof *signal, at.offset);
    status = gpu_enter(&ctx->gpu->device);
    if (status)
        return status;
    status = signal_on(ctx->job, stream, at, value, op);
    gpu_leave(&ctx->gpu->device);
    return status;
}

/* ------------------------------------------------------------------------------------- waits */

WEFT_EXPORT weft_status weft_signal_wait_on_stream(weft_ctx *ctx, const uint64_t *signal,
                                                   weft_cmp cmp, uint64_t value, weft_stream stream)
{
    static const char name[] = "weft_signal_wait_on_stream";
    enum segment_id segment;
    size_t offset;
    weft_status status = access_find_own(name, ctx, signal, sizeof *signal, &segment, &offset);
    if (status)
        return status;
    if ((unsigned)cmp >= WEFT_CMP_COUNT)
        return base_fail(WEFT_ERR_OP, "%s: comparison %d is not a weft_cmp", name, (int)cmp);
    if ((uintptr_t)signal % sizeof *signal)
        return base_fail(WEFT_ERR_ALIGNMENT, "%s: %p is not a multiple of 8", name,
                         (const void *)signal);
    status = stream_check(name, ctx->job, stream);
    if (status)
        return status;
    if (!stream_on_cuda(ctx->job))
        return stream_call_signal_wait(ctx, signal, cmp, value, stream);
    struct gpu *gpu = ctx->gpu;
    if (segment == SEG_DATA || (segment == SEG_HEAP && !gpu_heap_pinned(gpu, offset, 8)))
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: kernels cannot read this host memory: only the GPU heap and the "
                         "pinned host heap can hold signals that streams wait for",
                         name);
    status = device_watch_kernels(ctx->job);
    if (status)
        return status;
    int width = 8, is_signed = 0, how = (int)cmp;
    int64_t wanted = (int64_t)value;
    CUdeviceptr none = 0;
    struct gpu_reporting reporting = gpu->reporting;
    void *arguments[] = {&signal, &width, &is_signed, &how, &wanted, &reporting, &none, &none};
    status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_launch(&gpu->module, GPU_weft_kernel_wait, 1, 1, stream, arguments);
    gpu_leave(&gpu->device);
    return status;
}

/* Copies on the stream are complete when the stream has passed them. This call itself waits for
 * operations that the host started on the library's internal streams. */
WEFT_EXPORT weft_status weft_quiet_on_stream(weft_ctx *ctx, weft_stream stream)
{
    if (!ctx)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_quiet_on_stream: ctx is null");
    if (atomic_load(&ctx->job->state) != JOB_RUNNING)
        return job_finalized("weft_quiet_on_stream");
    weft_status status = access_foreign(ctx) ? access_foreign_thread("weft_quiet_on_stream", ctx)
                                             : job_check_failed(ctx->job);
    if (status)
        return status;
    if (!stream_on_cuda(ctx->job))
        return stream_call_quiet(ctx, stream);
    return weft_quiet(ctx);
}

static weft_status fill_barrier(const char *name, struct weft_team *team,
                                enum weft_dev_operation operation, struct gpu_barrier *barrier)
{
    struct gpu *gpu = team->job->gpu;
    if (team->n > GPU_BARRIER_MEMBERS)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: the team has %d members; at most %d are "
                         "possible",
                         name, team->n, GPU_BARRIER_MEMBERS);
    *barrier = (struct gpu_barrier){
        .members = team->n, .me = team->me, .team = team->slot, .operation = (int32_t)operation};
    for (int i = 0; i < team->n; i++) {
        int slot = gpu->slot_of[team->pes[i]];
        bool direct = job_direct(team->job, WEFT_GPU, team->pes[i]);
        CUdeviceptr area = slot < 0 || !direct ? 0 : gpu_team_address(gpu, slot, team->slot);
        if (!area)
            return base_fail(
                WEFT_ERR_NO_PATH,
                "%s: kernels of PE %d cannot access the GPU memory of PE %d by load and "
                "store (%s)",
                name, team->job->pe, team->pes[i],
                team->job->paths.choices[WEFT_GPU][team->pes[i]].reason);
        barrier->areas[i] = (struct gpu_team_area *)(uintptr_t)area;
        barrier->pe[i] = (uint16_t)team->pes[i];
    }
    return WEFT_OK;
}

/* The kernel's release stores cover the stream's earlier work. A barrier also completes operations
 * of the host. */
static weft_status enqueue_barrier(const char *function, weft_team *team, weft_stream stream,
                                   bool barrier)
{
    if (!team)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: team is null", function);
    struct weft_job *job = team->job;
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(function);
    weft_status status = job_check_failed(job);
    if (!status)
        status = stream_check(function, job, stream);
    if (status)
        return status;
    if (!stream_on_cuda(job) || !job_gpu_team_direct(team))
        return barrier ? stream_call_barrier(team, stream) : stream_call_sync(team, stream);
    struct gpu_barrier members;
    struct gpu_reporting reporting = job->gpu->reporting;
    status =
        fill_barrier(function, team, barrier ? WEFT_DEV_OP_BARRIER : WEFT_DEV_OP_SYNC, &members);
    if (!status)
        status = device_watch_kernels(job);
    if (!status && barrier)
        status = weft_quiet(job->default_ctx);
    if (!status)
        status = gpu_enter(&job->gpu->device);
    if (status)
        return status;
    void *arguments[] = {&members, &reporting};
    unsigned threads = team->n <= 32 ? 32 : GPU_BARRIER_MEMBERS;
    status = gpu_launch(&job->gpu->module, GPU_weft_kernel_barrier, 1, threads, stream, arguments);
    gpu_leave(&job->gpu->device);
    return status;
}

WEFT_EXPORT weft_status weft_barrier_on_stream(weft_team *team, weft_stream stream)
{
    return enqueue_barrier("weft_barrier_on_stream", team, stream, true);
}

WEFT_EXPORT weft_status weft_sync_on_stream(weft_team *team, weft_stream stream)
{
    return enqueue_barrier("weft_sync_on_stream", team, stream, false);
}

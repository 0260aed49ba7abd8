/* SPDX-License-Identifier: Apache-2.0 */
/* Fakes of the functions that operations on streams (ops/stream/stream.c) call. They record their
 * arguments, and each call can be made to fail. Include cmocka.h first. The program is linked with
 * --wrap of all of them (CMakeLists.txt). */
#ifndef WEFT_TESTS_UNIT_STREAM_H
#define WEFT_TESTS_UNIT_STREAM_H

#include "tests/unit/held_locks.h"
#include "tests/unit/ops_job.h"

#include "base/config.h"
#include "job/device_watch.h"
#include "ops/stream/stream.h"

#include <stdlib.h>

static struct {
    int target;
    int entered, enters, copies, launches, host_calls, writes, quiets, watches, given, made, blocks;
    bool no_enter, no_copy, no_launch, no_memory, no_quiet, no_watch, capturing, cannot_tell;
    bool not_direct, no_write, no_host_call, failed, other_context, no_context, no_push, no_device;
    CUdevice device;
    int pushed;
    const void *copy_dst, *copy_src;
    size_t copy_bytes;
    CUstream stream;
    enum gpu_kernel kernel;
    unsigned threads;
    const void *dst, *src, *signal; /* arguments of the kernel that copies, or of a wait */
    uint64_t bytes, value;
    int op, width, is_signed, cmp;
    uint64_t limit_ns;
    struct gpu_barrier barrier;
    uint64_t written_at, written;
    void (*host_function)(void *);
    void *host_argument;
    const char *call; /* the latest host callback */
} beneath;

static const weft_stream some_stream = (weft_stream)0x7770;

static inline void *gpu_at(size_t offset)
{
    return (void *)(uintptr_t)(OPS_GPU + OPS_GPU_SYSTEM + (int)offset);
}

static inline void *host_at(size_t offset)
{
    return ops_heaps[OPS_PE] + offset;
}

int __wrap_config_choice(enum config_id id);
int __wrap_config_choice(enum config_id id)
{
    assert_int_equal(id, CONFIG_TARGET);
    return beneath.target;
}

weft_status __wrap_gpu_enter(const struct gpu_device *device);
weft_status __wrap_gpu_enter(const struct gpu_device *device)
{
    assert_ptr_equal(device, &ops.gpu.device);
    beneath.enters++;
    if (beneath.no_enter)
        return base_fail(WEFT_ERR_SYSTEM, "not entered");
    beneath.entered++;
    return WEFT_OK;
}

void __wrap_gpu_leave(const struct gpu_device *device);
void __wrap_gpu_leave(const struct gpu_device *device)
{
    assert_ptr_equal(device, &ops.gpu.device);
    beneath.entered--;
}

weft_status __wrap_gpu_copy_on(struct gpu *gpu, CUstream stream, void *dst, const void *src,
                               size_t bytes);
weft_status __wrap_gpu_copy_on(struct gpu *gpu, CUstream stream, void *dst, const void *src,
                               size_t bytes)
{
    assert_ptr_equal(gpu, &ops.gpu);
    assert_int_equal(beneath.entered, 1);
    beneath.copies++;
    beneath.stream = stream;
    beneath.copy_dst = dst;
    beneath.copy_src = src;
    beneath.copy_bytes = bytes;
    return beneath.no_copy ? base_fail(WEFT_ERR_SYSTEM, "no copy") : WEFT_OK;
}

weft_status __wrap_gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel,
                              unsigned blocks, unsigned threads, CUstream stream, void **arguments);
weft_status __wrap_gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel,
                              unsigned blocks, unsigned threads, CUstream stream, void **arguments)
{
    assert_ptr_equal(module, &ops.gpu.module);
    assert_int_equal(beneath.entered, 1);
    assert_int_equal(blocks, 1);
    beneath.launches++;
    beneath.kernel = kernel;
    beneath.threads = threads;
    beneath.stream = stream;
    if (kernel == GPU_weft_kernel_copy) {
        beneath.dst = *(void **)arguments[0];
        beneath.src = *(void **)arguments[1];
        beneath.bytes = *(uint64_t *)arguments[2];
        beneath.signal = *(void **)arguments[3];
        beneath.value = *(uint64_t *)arguments[4];
        beneath.op = *(int *)arguments[5];
        assert_int_equal(*(uint64_t *)arguments[6], 0);
        assert_int_equal(*(uint64_t *)arguments[7], 0);
    } else if (kernel == GPU_weft_kernel_wait) {
        beneath.signal = *(void **)arguments[0];
        beneath.width = *(int *)arguments[1];
        beneath.is_signed = *(int *)arguments[2];
        beneath.cmp = *(int *)arguments[3];
        beneath.value = *(uint64_t *)arguments[4];
        beneath.limit_ns = ((struct gpu_reporting *)arguments[5])->limit_ns;
        assert_int_equal(*(CUdeviceptr *)arguments[6], 0);
        assert_int_equal(*(CUdeviceptr *)arguments[7], 0);
    } else {
        assert_int_equal(kernel, GPU_weft_kernel_barrier);
        beneath.barrier = *(struct gpu_barrier *)arguments[0];
        beneath.limit_ns = ((struct gpu_reporting *)arguments[1])->limit_ns;
    }
    return beneath.no_launch ? base_fail(WEFT_ERR_SYSTEM, "no launch") : WEFT_OK;
}

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address)
{
    assert_ptr_equal(gpu, &ops.gpu);
    return ops_place_of(address);
}

bool __wrap_job_gpu_team_direct(const struct weft_team *team);
bool __wrap_job_gpu_team_direct(const struct weft_team *team)
{
    assert_ptr_equal(team, &ops.team);
    return !beneath.not_direct;
}

weft_status __wrap_device_watch_kernels(struct weft_job *job);
weft_status __wrap_device_watch_kernels(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    beneath.watches++;
    return beneath.no_watch ? base_fail(WEFT_ERR_SYSTEM, "no watch") : WEFT_OK;
}

weft_status __wrap_weft_quiet(weft_ctx *ctx);
weft_status __wrap_weft_quiet(weft_ctx *ctx)
{
    assert_ptr_equal(ctx, &ops.ctx);
    beneath.quiets++;
    return beneath.no_quiet ? base_fail(WEFT_ERR_SYSTEM, "not quiet") : WEFT_OK;
}

static struct {
    void (*run)(void *argument);
    void *argument;
    bool fails;
} callback;

weft_status __wrap_stream_callback(struct weft_job *job, weft_stream stream, void (*run)(void *),
                                   void *argument);
weft_status __wrap_stream_callback(struct weft_job *job, weft_stream stream, void (*run)(void *),
                                   void *argument)
{
    assert_ptr_equal(job, &ops.job);
    assert_ptr_equal(stream, some_stream);
    callback.run = run;
    callback.argument = argument;
    if (!callback.fails)
        return WEFT_OK;
    free(argument);
    return base_fail(WEFT_ERR_SYSTEM, "no callback");
}

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return beneath.failed ? base_fail(WEFT_ERR_KERNEL, "a PE is dead") : WEFT_OK;
}

void __wrap_job_callback_enqueued(struct weft_job *job);
void __wrap_job_callback_enqueued(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    beneath.given++;
}

bool __wrap_job_callback_run(struct weft_job *job, void (*run)(void *), void *argument);
bool __wrap_job_callback_run(struct weft_job *job, void (*run)(void *), void *argument)
{
    assert_ptr_equal(job, &ops.job);
    beneath.made++;
    run(argument);
    return true;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    void *block = beneath.no_memory ? NULL : __real_malloc(bytes);
    beneath.blocks += block != NULL;
    return block;
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    beneath.blocks -= block != NULL;
    __real_free(block);
}

static weft_status host_call(const char *call, const void *of, weft_stream stream)
{
    assert_true(of == &ops.ctx || of == &ops.team);
    assert_ptr_equal(stream, some_stream);
    beneath.call = call;
    return WEFT_ERR_UNSUPPORTED; /* the caller must return this status unchanged */
}

weft_status __wrap_stream_call_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                                   weft_stream stream);
weft_status __wrap_stream_call_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                                   weft_stream stream)
{
    assert_ptr_equal(dst, gpu_at(0));
    assert_ptr_equal(src, OPS_OWN_GPU);
    assert_true(bytes == 32 && pe == 2);
    return host_call("put", ctx, stream);
}

weft_status __wrap_stream_call_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                                   weft_stream stream);
weft_status __wrap_stream_call_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                                   weft_stream stream)
{
    assert_ptr_equal(dst, OPS_OWN_GPU);
    assert_ptr_equal(src, gpu_at(0));
    assert_true(bytes == 32 && pe == 2);
    return host_call("get", ctx, stream);
}

weft_status __wrap_stream_call_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                          uint64_t *signal, uint64_t value, weft_signal_op op,
                                          int pe, weft_stream stream);
weft_status __wrap_stream_call_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                          uint64_t *signal, uint64_t value, weft_signal_op op,
                                          int pe, weft_stream stream)
{
    (void)dst, (void)src, (void)signal, (void)value, (void)op;
    assert_true(bytes == 32 && pe == 2);
    return host_call("put_signal", ctx, stream);
}

weft_status __wrap_stream_call_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value,
                                      weft_signal_op op, int pe, weft_stream stream);
weft_status __wrap_stream_call_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value,
                                      weft_signal_op op, int pe, weft_stream stream)
{
    assert_ptr_equal(signal, host_at(8));
    assert_true(value == 77 && op == WEFT_SIGNAL_SET && pe == 2);
    return host_call("signal", ctx, stream);
}

weft_status __wrap_stream_call_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                           uint64_t value, weft_stream stream);
weft_status __wrap_stream_call_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                           uint64_t value, weft_stream stream)
{
    (void)signal, (void)value, (void)cmp;
    return host_call("signal_wait", ctx, stream);
}

weft_status __wrap_stream_call_quiet(weft_ctx *ctx, weft_stream stream);
weft_status __wrap_stream_call_quiet(weft_ctx *ctx, weft_stream stream)
{
    return host_call("quiet", ctx, stream);
}

weft_status __wrap_stream_call_barrier(weft_team *team, weft_stream stream);
weft_status __wrap_stream_call_barrier(weft_team *team, weft_stream stream)
{
    return host_call("barrier", team, stream);
}

weft_status __wrap_stream_call_sync(weft_team *team, weft_stream stream);
weft_status __wrap_stream_call_sync(weft_team *team, weft_stream stream)
{
    return host_call("sync", team, stream);
}

static CUresult is_capturing(CUstream stream, int *status)
{
    assert_ptr_equal(stream, some_stream);
    if (beneath.capturing)
        *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return beneath.cannot_tell ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult launch_host(CUstream stream, void (*function)(void *), void *argument)
{
    assert_ptr_equal(stream, some_stream);
    beneath.host_calls++;
    beneath.host_function = function;
    beneath.host_argument = argument;
    return beneath.no_host_call ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult write_value(CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags)
{
    assert_ptr_equal(stream, some_stream);
    assert_int_equal(flags, CU_STREAM_WRITE_VALUE_DEFAULT);
    beneath.writes++;
    beneath.written_at = at;
    beneath.written = value;
    return beneath.no_write ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *context)
{
    assert_ptr_equal(stream, some_stream);
    *context = beneath.other_context ? (CUcontext)0x22 : ops.gpu.device.context;
    return beneath.no_context ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult push_context(CUcontext context)
{
    assert_ptr_equal(context, 0x22);
    beneath.pushed += !beneath.no_push;
    return beneath.no_push ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult pop_context(CUcontext *context)
{
    *context = (CUcontext)0x22;
    beneath.pushed--;
    return CUDA_SUCCESS;
}

static CUresult context_device(CUdevice *device)
{
    assert_int_equal(beneath.pushed, 1);
    *device = beneath.device;
    return beneath.no_device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static int set_up(void **state)
{
    (void)state;
    memset(&beneath, 0, sizeof beneath);
    ops_begin();
    ops.driver.StreamIsCapturing = is_capturing;
    ops.driver.LaunchHostFunc = launch_host;
    ops.driver.StreamWriteValue64 = write_value;
    ops.driver.StreamGetCtx = stream_context;
    ops.driver.CtxPushCurrent = push_context;
    ops.driver.CtxPopCurrent = pop_context;
    ops.driver.CtxGetDevice = context_device;
    ops.gpu.driver = ops.driver;
    ops.gpu.device.context = (CUcontext)0x11;
    ops.gpu.device.device = 2;
    ops.gpu.reporting.limit_ns = 54321;
    ops.gpu.registered.pins = (struct gpu_pins){.count = 1, .ends = {OPS_HEAP / 2}};
    ops.gpu.layout.teams_offset = 0x100;
    ops.gpu.layout.team_bytes = 0x40;
    ops.team.slot = 3;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(beneath.entered, 0);
    assert_int_equal(beneath.pushed, 0);
    assert_int_equal(beneath.blocks, 0);
    assert_true(none_is_held());
    return 0;
}

#endif

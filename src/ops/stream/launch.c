/* SPDX-License-Identifier: Apache-2.0 */
/* Launches, streams and events on the current target: the program's own CUDA runtime, called
 * through the table that its CUDA half registered, or the SIMT executor. Links neither CUDA runtime
 * nor driver. */
#include "base/status.h"
#include "gpu/image.h"
#include "gpu/program.h"
#include "job/device_state.h"

#include <weft/launch.h>
#include <weft/simt_executor.h>

#include <stdbool.h>

WEFT_EXPORT void weft_cuda_register(const struct weft_cuda_runtime *runtime)
{
    device_runtime_register(runtime);
}

WEFT_EXPORT const struct weft_cuda_runtime weft_driver_runtime = {
    .size = sizeof weft_driver_runtime,
    .devices = program_devices,
    .error_text = program_error_text,
    .launch = program_launch,
    .stream_create = program_stream_create,
    .stream_destroy = program_stream_destroy,
    .stream_synchronize = program_stream_synchronize,
    .stream_query = program_stream_query,
    .stream_host_call = program_stream_host_call,
    .event_create = program_event_create,
    .event_destroy = program_event_destroy,
    .event_record = program_event_record,
    .event_wait = program_event_wait,
    .event_synchronize = program_event_synchronize,
    .event_elapsed = program_event_elapsed,
    .resident_blocks = program_resident_blocks,
};

WEFT_EXPORT int weft_image_upload(struct weft_image *image, const struct weft_dev *state,
                                  size_t bytes, int ordinal)
{
    return program_upload(image, state, bytes, ordinal);
}

WEFT_EXPORT void weft_image_add_code(const struct weft_image *image, const char *arch,
                                     const char *begin, const char *end)
{
    program_add_code(image, arch, begin, end);
}

WEFT_EXPORT weft_target weft_target_get(void)
{
    return device_target();
}

WEFT_EXPORT const char *weft_target_name(weft_target which)
{
    return which == WEFT_CUDA ? "cuda" : "simt";
}

/* The program's CUDA runtime; valid only after on_cuda() returned 1. */
static const struct weft_cuda_runtime *cuda(void)
{
    int devices;
    return device_runtime(&devices);
}

/* Whether calls go to CUDA: 1 yes, 0 no, or a negative status when CUDA is required but
 * unusable. */
static int on_cuda(const char *what)
{
    int n_devices;
    bool has_cuda = device_runtime(&n_devices) != NULL;
    if (device_target() == WEFT_SIMT)
        return 0;
    if (!has_cuda)
        return base_fail(
            WEFT_ERR_UNSUPPORTED,
            "%s: WEFT_TARGET is cuda, but the program has no CUDA code (none of "
            "its files was built with weft_kernels()); WEFT_TARGET=simt runs it on CPU "
            "threads",
            what);
    if (n_devices <= 0)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: WEFT_TARGET is cuda, but CUDA finds no usable GPU; "
                         "WEFT_TARGET=simt runs it on CPU threads",
                         what);
    return 1;
}

static weft_status from_cuda(const char *what, int error)
{
    if (!error)
        return WEFT_OK;
    return base_fail(WEFT_ERR_KERNEL, "%s: CUDA error %d: %s", what, error,
                     cuda()->error_text(error));
}

/* Makes one call, to CUDA or to the SIMT executor. */
#define ON_TARGET(what, cuda_call, simt_call)                                                      \
    do {                                                                                           \
        int where = on_cuda(what);                                                                 \
        if (where < 0)                                                                             \
            return (weft_status)where;                                                             \
        return where ? from_cuda(what, cuda()->cuda_call) : simt_call;                             \
    } while (0)

static weft_status not_compiled(const struct weft_kernel *kernel)
{
    return base_fail(
        WEFT_ERR_UNSUPPORTED,
        "%s: this kernel was not compiled for cuda; build its file with weft_kernels(), "
        "or set WEFT_TARGET=simt",
        kernel->name);
}

static weft_status launch_cuda(const struct weft_kernel *kernel, unsigned flags, weft_dim3 grid,
                               weft_dim3 block, size_t shared_bytes, weft_stream stream, void *args)
{
    enum { MOST_PARAMS = 16 };
    void *params[MOST_PARAMS];
    if (!kernel->cuda)
        return not_compiled(kernel);
    if (kernel->n_params > MOST_PARAMS)
        return base_fail(WEFT_ERR_ARGUMENT, "launch of %s: more than %d parameters", kernel->name,
                         MOST_PARAMS);
    for (unsigned i = 0; i < kernel->n_params; i++)
        params[i] = (char *)args + kernel->offsets[i];
    const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
    int error = kernel->cuda->runtime->launch(kernel->cuda->function, g, b, shared_bytes, flags,
                                              stream, params);
    if (!error)
        return WEFT_OK;
    return base_fail(WEFT_ERR_KERNEL, "launch of %s: CUDA error %d: %s", kernel->name, error,
                     cuda()->error_text(error));
}

WEFT_EXPORT weft_status weft_launch(const struct weft_kernel *kernel, unsigned flags,
                                    weft_dim3 grid, weft_dim3 block, size_t shared_bytes,
                                    weft_stream stream, void *args)
{
    weft_status unknown =
        base_check_bits("weft_launch: flags", flags, WEFT_LAUNCH_FLAG_COOPERATIVE);
    if (unknown)
        return unknown;
    int where = on_cuda(kernel->name);
    if (where < 0)
        return (weft_status)where;
    weft_status failed = device_before_launch();
    if (failed)
        return failed;
    /* Device code of a library that was loaded meanwhile gets its state here, before its first
     * launch. */
    if (unlikely(atomic_load_explicit(&device_units_pending, memory_order_relaxed))) {
        weft_status status = device_units_upload();
        if (status)
            return status;
    }
    if (where)
        return launch_cuda(kernel, flags, grid, block, shared_bytes, stream, args);
    weft_simt_launch_attr attr = {
        .size = sizeof attr,
        .name = kernel->name,
        .kernel = kernel->simt,
        .args = args,
        .args_bytes = kernel->args_bytes,
        .grid = {grid.x, grid.y, grid.z},
        .block = {block.x, block.y, block.z},
        .shared_bytes = shared_bytes,
        .flags = flags & WEFT_LAUNCH_FLAG_COOPERATIVE ? WEFT_SIMT_COOPERATIVE : 0,
    };
    return weft_simt_launch(&attr, stream);
}

WEFT_EXPORT weft_status weft_resident_blocks(const struct weft_kernel *kernel, unsigned threads,
                                             size_t shared_bytes, unsigned *blocks)
{
    *blocks = 1;
    int where = on_cuda(kernel->name);
    if (where <= 0)
        return (weft_status)where;
    if (!kernel->cuda)
        return not_compiled(kernel);
    return from_cuda(kernel->name, kernel->cuda->runtime->resident_blocks(
                                       kernel->cuda->function, threads, shared_bytes, blocks));
}

WEFT_EXPORT weft_status weft_stream_create(weft_stream *stream)
{
    ON_TARGET("weft_stream_create", stream_create(stream),
              weft_simt_stream_create((weft_simt_stream **)stream));
}

WEFT_EXPORT weft_status weft_stream_destroy(weft_stream stream)
{
    ON_TARGET("weft_stream_destroy", stream_destroy(stream), weft_simt_stream_destroy(stream));
}

static weft_status synchronize_stream(weft_stream stream)
{
    ON_TARGET("weft_stream_synchronize", stream_synchronize(stream),
              weft_simt_stream_synchronize(stream));
}

/* Also returns a fault that kernels have reported, because the stream has now completed them. */
WEFT_EXPORT weft_status weft_stream_synchronize(weft_stream stream)
{
    weft_status status = synchronize_stream(stream);
    return status ? status : device_check_running();
}

WEFT_EXPORT weft_status weft_stream_query(weft_stream stream, int *idle)
{
    ON_TARGET("weft_stream_query", stream_query(stream, idle),
              weft_simt_stream_query(stream, idle));
}

WEFT_EXPORT weft_status weft_stream_host_call(weft_stream stream, void (*fn)(void *arg), void *arg)
{
    ON_TARGET("weft_stream_host_call", stream_host_call(stream, fn, arg),
              weft_simt_host_call(stream, fn, arg));
}

WEFT_EXPORT weft_status weft_event_create(weft_event *event)
{
    ON_TARGET("weft_event_create", event_create(event),
              weft_simt_event_create((weft_simt_event **)event));
}

WEFT_EXPORT weft_status weft_event_destroy(weft_event event)
{
    ON_TARGET("weft_event_destroy", event_destroy(event), weft_simt_event_destroy(event));
}

WEFT_EXPORT weft_status weft_event_record(weft_event event, weft_stream stream)
{
    ON_TARGET("weft_event_record", event_record(event, stream),
              weft_simt_event_record(event, stream));
}

WEFT_EXPORT weft_status weft_event_wait(weft_stream stream, weft_event event)
{
    ON_TARGET("weft_event_wait", event_wait(stream, event), weft_simt_event_wait(stream, event));
}

static weft_status synchronize_event(weft_event event)
{
    ON_TARGET("weft_event_synchronize", event_synchronize(event),
              weft_simt_event_synchronize(event));
}

WEFT_EXPORT weft_status weft_event_synchronize(weft_event event)
{
    weft_status status = synchronize_event(event);
    return status ? status : device_check_running();
}

WEFT_EXPORT weft_status weft_event_elapsed(weft_event start, weft_event end, uint64_t *ns)
{
    ON_TARGET("weft_event_elapsed", event_elapsed(start, end, ns),
              weft_simt_event_elapsed(start, end, ns));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of programs that were compiled by clang (<weft/device/image.h>): loads, fills and
 * launches them through the driver, and offers streams and events of it. It takes the place of the
 * CUDA runtime, whose rules it follows: a thread without a current context gets a primary one, and
 * a primary context that was used stays until the process ends. */
#include <weft/device/image.h>

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "gpu/module.h"

enum { SHARED_WITHOUT_ASKING = 48 * 1024, DEVICES_MOST = 64 };

/* The module of an image in one context, and the functions that were asked for. */
struct weft_loaded {
    CUcontext context;
    CUmodule module;
    struct program_function {
        const struct weft_image_kernel *kernel;
        CUfunction function;
        struct program_function *next;
    } * functions;
    struct weft_loaded *next;
};

static struct cuda driver;
static bool opened;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* lists of images, contexts, home */
static CUcontext contexts[DEVICES_MOST];                 /* primary contexts, retained */
static int home; /* device whose primary context threads without a context get */

static void open_driver(void)
{
    opened = cuda_open(&driver) == WEFT_OK;
    if (!opened)
        log_debug(LOG_GPU, "kernels of the program cannot run on a GPU: %s", base_last_error());
}

static bool is_open(void)
{
    pthread_once(&once, open_driver);
    return opened;
}

static const char *error_text(int error)
{
    static _Thread_local char text[256];
    if (!is_open())
        return "the CUDA driver could not be loaded";
    return cuda_error_text(&driver, error, text, sizeof text);
}

static int count_devices(void)
{
    int n = 0;
    return is_open() && !driver.DeviceGetCount(&n) ? n : 0;
}

/* --- contexts ----------------------------------------------------------------------------------
 */

/* Makes the primary context of a device current. Called under the lock. */
static CUresult use_device(int ordinal)
{
    CUdevice device;
    if (ordinal < 0 || ordinal >= DEVICES_MOST)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = CUDA_SUCCESS;
    if (!contexts[ordinal]) {
        result = driver.DeviceGet(&device, ordinal);
        if (!result)
            result = driver.DevicePrimaryCtxRetain(&contexts[ordinal], device);
    }
    return result ? result : driver.CtxSetCurrent(contexts[ordinal]);
}

/* Called under the lock. Sets *context to the current context, which is made if there is none. */
static CUresult enter_context(CUcontext *context)
{
    CUresult result = driver.CtxGetCurrent(context);
    if (!result && !*context) {
        result = use_device(home);
        *context = contexts[home];
    }
    return result;
}

static CUresult enter(void)
{
    CUcontext context;
    if (!is_open())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    CUresult result = enter_context(&context);
    pthread_mutex_unlock(&lock);
    return result;
}

/* --- modules, under the lock -------------------------------------------------------------------
 */

/* Finds or makes the module of an image in a context, which is current. */
static CUresult load_image_here(struct weft_image *image, CUcontext context,
                                struct weft_loaded **result)
{
    for (*result = image->loaded; *result; *result = (*result)->next)
        if ((*result)->context == context)
            return CUDA_SUCCESS;
    struct weft_loaded *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *unpacked;
    const char *ptx = gpu_unpack(image->begin, image->end, &unpacked);
    CUresult error =
        ptx ? gpu_compile_ptx(&driver, ptx, &loaded->module) : CUDA_ERROR_OUT_OF_MEMORY;
    free(unpacked);
    if (error) {
        char text[160];
        log_error(LOG_GPU, "the kernels of %s cannot be loaded: %s", image->source,
                  cuda_error_text(&driver, error, text, sizeof text));
        free(loaded);
        return error;
    }
    loaded->context = context;
    loaded->next = image->loaded;
    image->loaded = *result = loaded;
    return CUDA_SUCCESS;
}

static CUresult find_function(const struct weft_image_kernel *kernel, CUcontext context,
                              CUfunction *function)
{
    struct weft_loaded *loaded;
    CUresult result = load_image_here(kernel->image, context, &loaded);
    if (result)
        return result;
    for (struct program_function *f = loaded->functions; f; f = f->next)
        if (f->kernel == kernel) {
            *function = f->function;
            return CUDA_SUCCESS;
        }
    struct program_function *f = calloc(1, sizeof *f);
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = driver.ModuleGetFunction(&f->function, loaded->module, kernel->name);
    if (!result && driver.FuncLoad)
        driver.FuncLoad(f->function); /* see module.h */
    if (result) {
        free(f);
        return result;
    }
    f->kernel = kernel;
    f->next = loaded->functions;
    loaded->functions = f;
    *function = f->function;
    return CUDA_SUCCESS;
}

/* Enters a context and finds the function of a kernel there. */
static CUresult enter_function(const void *kernel, CUfunction *function)
{
    CUcontext context;
    if (!is_open())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    CUresult result = enter_context(&context);
    if (!result)
        result = find_function(kernel, context, function);
    pthread_mutex_unlock(&lock);
    return result;
}

WEFT_EXPORT int weft_image_upload(struct weft_image *image, const struct weft_dev *state,
                                  size_t bytes, int ordinal)
{
    CUcontext context;
    CUdeviceptr address;
    size_t there;
    struct weft_loaded *loaded;
    if (!is_open())
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&lock);
    CUresult result = ordinal < 0 ? CUDA_SUCCESS : use_device(ordinal);
    if (!result && ordinal >= 0)
        home = ordinal;
    if (!result)
        result = enter_context(&context);
    if (!result)
        result = load_image_here(image, context, &loaded);
    if (!result)
        result = driver.ModuleGetGlobal(&address, &there, loaded->module, "weft_dev_state");
    if (!result)
        result =
            there == bytes ? driver.MemcpyHtoD(address, state, bytes) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return result;
}

/* --- launches ----------------------------------------------------------------------------------
 */

static int launch(const void *kernel, const unsigned *grid, const unsigned *block,
                  size_t shared_bytes, unsigned flags, weft_stream stream, void **params)
{
    CUfunction function;
    CUresult result = enter_function(kernel, &function);
    if (!result && shared_bytes > SHARED_WITHOUT_ASKING)
        result = driver.FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         (int)shared_bytes);
    if (result)
        return result;
    if (flags & WEFT_LAUNCH_FLAG_COOPERATIVE)
        return driver.LaunchCooperativeKernel(function, grid[0], grid[1], grid[2], block[0],
                                              block[1], block[2], (unsigned)shared_bytes, stream,
                                              params);
    return driver.LaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                               (unsigned)shared_bytes, stream, params, NULL);
}

static int count_resident_blocks(const void *kernel, unsigned threads, size_t shared_bytes,
                                 unsigned *blocks)
{
    CUfunction function;
    CUdevice device;
    int processors = 0, each = 0;
    CUresult result = enter_function(kernel, &function);
    if (!result)
        result = driver.CtxGetDevice(&device);
    if (!result)
        result = driver.DeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                           device);
    if (!result)
        result = driver.OccupancyMaxActiveBlocksPerMultiprocessor(&each, function, (int)threads,
                                                                  shared_bytes);
    *blocks = (unsigned)(processors * each);
    return result;
}

/* --- streams and events ------------------------------------------------------------------------
 */

static int create_stream(weft_stream *stream)
{
    CUresult result = enter();
    return result ? result : driver.StreamCreate((CUstream *)stream, CU_STREAM_NON_BLOCKING);
}

static int synchronize_stream(weft_stream stream)
{
    CUresult result = enter();
    return result ? result : driver.StreamSynchronize(stream);
}

static int destroy_stream(weft_stream stream)
{
    CUresult result = synchronize_stream(stream), destroyed = driver.StreamDestroy(stream);
    return result ? result : destroyed;
}

static int query_stream(weft_stream stream, int *idle)
{
    CUresult result = enter();
    if (!result)
        result = driver.StreamQuery(stream);
    *idle = result != CUDA_ERROR_NOT_READY;
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static int call_host(weft_stream stream, void (*fn)(void *arg), void *arg)
{
    CUresult result = enter();
    return result ? result : driver.LaunchHostFunc(stream, fn, arg);
}

static int create_event(weft_event *event)
{
    CUresult result = enter();
    return result ? result : driver.EventCreate((CUevent *)event, 0);
}

static int destroy_event(weft_event event)
{
    CUresult result = enter();
    return result ? result : driver.EventDestroy(event);
}

static int record_event(weft_event event, weft_stream stream)
{
    CUresult result = enter();
    return result ? result : driver.EventRecord(event, stream);
}

static int wait_event(weft_stream stream, weft_event event)
{
    CUresult result = enter();
    return result ? result : driver.StreamWaitEvent(stream, event, 0);
}

static int synchronize_event(weft_event event)
{
    CUresult result = enter();
    return result ? result : driver.EventSynchronize(event);
}

static int elapsed_event(weft_event start, weft_event end, uint64_t *ns)
{
    float ms = 0;
    CUresult result = enter();
    if (!result)
        result = driver.EventElapsedTime(&ms, start, end);
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
    return result;
}

WEFT_EXPORT const struct weft_cuda_runtime weft_driver_runtime = {
    .size = sizeof weft_driver_runtime,
    .devices = count_devices,
    .error_text = error_text,
    .launch = launch,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .stream_synchronize = synchronize_stream,
    .stream_query = query_stream,
    .stream_host_call = call_host,
    .event_create = create_event,
    .event_destroy = destroy_event,
    .event_record = record_event,
    .event_wait = wait_event,
    .event_synchronize = synchronize_event,
    .event_elapsed = elapsed_event,
    .resident_blocks = count_resident_blocks,
};

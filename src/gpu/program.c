/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, fills and launches the kernels of programs. See program.h. */
#include "gpu/program.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "gpu/image.h"
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

static struct gpu_api driver;
static bool opened;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* lists of images, contexts, home */
static CUcontext contexts[DEVICES_MOST];                 /* primary contexts, retained */
static int home; /* device whose primary context threads without a context get */

static void open_driver(void)
{
    opened = gpu_api_open(&driver) == WEFT_OK;
    if (!opened)
        log_debug(LOG_GPU, "kernels of the program cannot run on a GPU: %s", base_last_error());
}

static bool is_open(void)
{
    pthread_once(&once, open_driver);
    return opened;
}

const char *program_error_text(int error)
{
    if (!is_open())
        return "the CUDA driver could not be loaded";
    return gpu_api_error_text(&driver, error, base_thread_text(BASE_TEXT_DRIVER), BASE_TEXT_BYTES);
}

int program_devices(void)
{
    int n = 0;
    if (!is_open() || driver.DeviceGetCount(&n))
        return 0;
    if (n && driver.vendor == GPU_VENDOR_AMD && !program_has_amd()) {
        log_info(LOG_GPU,
                 "kernels of the program do not run on a GPU: it has no code for AMD GPUs; "
                 "compile them with `weft cc --hip`, or WEFT_HIP_ARCHITECTURES in CMake");
        return 0;
    }
    return n;
}

/* ------------------------------------------------------------------------------------ contexts */

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

/* --------------------------------------------------------------------- modules, under the lock */

static CUresult load_ptx(const struct weft_image *image, CUmodule *module)
{
    char *unpacked;
    const char *ptx = gpu_unpack(image->begin, image->end, &unpacked);
    CUresult result = ptx ? gpu_compile_ptx(&driver, ptx, module) : CUDA_ERROR_OUT_OF_MEMORY;
    free(unpacked);
    return result;
}

/* Loads code for exactly some GPU. */
static CUresult load_binary(const char *begin, const char *end, CUmodule *module)
{
    char *unpacked;
    const char *code = gpu_unpack(begin, end, &unpacked);
    CUresult result = code ? driver.ModuleLoadData(module, code) : CUDA_ERROR_OUT_OF_MEMORY;
    free(unpacked);
    return result;
}

/* The cubin for the current device, else the PTX. */
static CUresult load_cubin(const struct weft_image *image, CUmodule *module)
{
    CUdevice device;
    int major = 0, minor = 0;
    const char *begin, *end;
    CUresult result = driver.CtxGetDevice(&device);
    if (!result)
        result =
            driver.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (!result)
        result =
            driver.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (result || !program_find_cubin(image, 10 * major + minor, &begin, &end))
        return load_ptx(image, module);
    result = load_binary(begin, end, module);
    if (!result)
        return CUDA_SUCCESS;
    char text[160];
    log_info(LOG_GPU, "the driver compiles the kernels of %s: it does not load their cubin (%s)",
             image->source, gpu_api_error_text(&driver, result, text, sizeof text));
    return load_ptx(image, module);
}

/* The code object for the current device. *reported: why there is none has been logged. */
static CUresult load_amd_code(const struct weft_image *image, CUmodule *module, bool *reported)
{
    CUdevice device;
    char architecture[64];
    const char *begin, *end;
    CUresult result = driver.CtxGetDevice(&device);
    if (!result)
        result = driver.DeviceGetArchitecture(architecture, sizeof architecture, device);
    if (result)
        return result;
    if (program_find_amd(image, architecture, &begin, &end)) {
        log_error(LOG_GPU, "%s", base_last_error());
        *reported = true;
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return load_binary(begin, end, module);
}

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
    bool reported = false;
    CUresult error = driver.vendor == GPU_VENDOR_AMD
                         ? load_amd_code(image, &loaded->module, &reported)
                         : load_cubin(image, &loaded->module);
    if (error) {
        char text[160];
        if (!reported)
            log_error(LOG_GPU, "the kernels of %s cannot be loaded: %s", image->source,
                      gpu_api_error_text(&driver, error, text, sizeof text));
        free(loaded);
        return error;
    }
    gpu_load_kernels(&driver, loaded->module);
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

int program_upload(struct weft_image *image, const struct weft_dev *state, size_t bytes,
                   int ordinal)
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

/* ------------------------------------------------------------------------------------ launches */

int program_launch(const void *kernel, const unsigned *grid, const unsigned *block,
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

int program_resident_blocks(const void *kernel, unsigned threads, size_t shared_bytes,
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

/* -------------------------------------------------------------------------- streams and events */

int program_stream_create(weft_stream *stream)
{
    CUresult result = enter();
    return result ? result : driver.StreamCreate((CUstream *)stream, CU_STREAM_NON_BLOCKING);
}

int program_stream_synchronize(weft_stream stream)
{
    CUresult result = enter();
    return result ? result : driver.StreamSynchronize(stream);
}

int program_stream_destroy(weft_stream stream)
{
    CUresult result = program_stream_synchronize(stream), destroyed = driver.StreamDestroy(stream);
    return result ? result : destroyed;
}

int program_stream_query(weft_stream stream, int *idle)
{
    CUresult result = enter();
    if (!result)
        result = driver.StreamQuery(stream);
    *idle = result != CUDA_ERROR_NOT_READY;
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

int program_stream_host_call(weft_stream stream, void (*fn)(void *arg), void *arg)
{
    CUresult result = enter();
    return result ? result : driver.LaunchHostFunc(stream, fn, arg);
}

int program_event_create(weft_event *event)
{
    CUresult result = enter();
    return result ? result : driver.EventCreate((CUevent *)event, 0);
}

int program_event_destroy(weft_event event)
{
    CUresult result = enter();
    return result ? result : driver.EventDestroy(event);
}

int program_event_record(weft_event event, weft_stream stream)
{
    CUresult result = enter();
    return result ? result : driver.EventRecord(event, stream);
}

int program_event_wait(weft_stream stream, weft_event event)
{
    CUresult result = enter();
    return result ? result : driver.StreamWaitEvent(stream, event, 0);
}

int program_event_synchronize(weft_event event)
{
    CUresult result = enter();
    return result ? result : driver.EventSynchronize(event);
}

int program_event_elapsed(weft_event start, weft_event end, uint64_t *ns)
{
    float ms = 0;
    CUresult result = enter();
    if (!result)
        result = driver.EventElapsedTime(&ms, start, end);
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
    return result;
}

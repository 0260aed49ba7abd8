/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own kernels on the stand-in: the same source as on GPUs, as blocks of one thread
 * that run one after the other, those of collectives in the order of FAKE_CUDA_BLOCKS. Of the
 * kernel of nvshmem/run.cu, which consists of device operations, it has only a record of the
 * launches. */
#include "primitives.h"

#include "gpu/coll/kernels.cu"
#include "gpu/kernels.cu"

#include "fake.h"
#include "gpu/queue.h"

#include <weft/nvshmem/host.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
#define ENUM(name) FAKE_##name,
    GPU_KERNELS(ENUM) COLL_KERNELS(ENUM)
#undef ENUM
        FAKE_weft_hca_slice,
    FAKE_weft_nv_operation,
    FAKE_KERNELS
};

static const char *const kernel_names[] = {
#define NAME(name) #name,
    GPU_KERNELS(NAME) COLL_KERNELS(NAME)
#undef NAME
        "weft_hca_slice",
    "weft_nv_operation",
};

/* The last launch of weft_nv_operation, for tests. */
EXPORT CUmodule fake_operation_module;
EXPORT struct weft_nv_call fake_operation_call;
EXPORT int fake_operation_launches;

/* Whether an image has a variable: "global NAME BYTES" is a module with one, and PTX of device code
 * has the state. Other PTX has none. */
static bool find_variable(const char *image, char name[64], size_t *bytes)
{
    if (strncmp(image, "global ", 7) == 0)
        return sscanf(image, "global %63s %zu", name, bytes) == 2;
    const char *state =
        *image == '\n' || *image == '/' || *image == '.' ? strstr(image, " weft_dev_state[") : NULL;
    strcpy(name, "weft_dev_state");
    return state && sscanf(state, " weft_dev_state[%zu]", bytes) == 1;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    char name[64];
    size_t bytes;
    CUresult result = make(MODULE, (void **)module);
    struct object *o = (struct object *)*module;
    if (!result && find_variable(image, name, &bytes)) {
        CUdeviceptr address;
        result = cuMemAlloc_v2(&address, bytes);
        snprintf(o->name, sizeof o->name, "%s", name);
        o->global = address;
        o->bytes = bytes;
    } else if (!result && (!*(const char *)image || strncmp(image, "\177ELF", 4) == 0)) {
        strcpy(o->name, "weft_dev_state"); /* it may be device code; cuModuleGetGlobal_v2() sees */
    }
    return result;
}

/* Drivers before 13.0 do not know the only option that the library uses. */
EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                   int *options, void **values)
{
    int version = setting("FAKE_CUDA_VERSION", 13000);
    for (unsigned i = 0; i < count; i++)
        if (options[i] != CU_JIT_SPLIT_COMPILE || version < 13000 || values[i])
            return CUDA_ERROR_INVALID_VALUE;
    return cuModuleLoadData(module, image);
}

/* How often a kernel has been loaded before its first launch, for tests. */
EXPORT int fake_kernels_loaded;

EXPORT CUresult cuFuncLoad(CUfunction function)
{
    fake_kernels_loaded++;
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Every module has all kernels. */
EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    *count = FAKE_KERNELS;
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module)
{
    for (unsigned i = 0; i < count && i < FAKE_KERNELS; i++)
        functions[i] = (CUfunction)&kernel_names[i];
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    struct object *o = (struct object *)module;
    if (o && o->kind == MODULE && o->global)
        cuMemFree_v2(o->global);
    return unmake(MODULE, module);
}

/* A library is represented by its module. */
EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    *module = (CUmodule)library;
    return library && ((struct object *)library)->kind == MODULE ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    for (int i = 0; i < FAKE_KERNELS; i++) {
        if (strcmp(name, kernel_names[i]) == 0) {
            *function = (CUfunction)&kernel_names[i];
            if (i == FAKE_weft_nv_operation)
                fake_operation_module = module;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                                     const char *name)
{
    struct object *o = (struct object *)module;
    if (!o || o->kind != MODULE || strcmp(o->name, name) != 0)
        return CUDA_ERROR_NOT_FOUND;
    if (!o->global) {
        CUdeviceptr state;
        CUresult result = cuMemAlloc_v2(&state, sizeof(struct weft_dev));
        if (result)
            return result;
        o->global = state;
        o->bytes = sizeof(struct weft_dev);
    }
    *address = o->global;
    *bytes = o->bytes;
    return CUDA_SUCCESS;
}

void fake_hca_slice(const struct gpu_slice *slice); /* hca_kernel.c: all blocks in one call */

#define A(i, type) (*(type *)a[i])
#define P(i, type) ((type)memory_at(*(uintptr_t *)a[i]))

/* Time limit of a path test. The CPUs of a busy machine take turns where GPUs run concurrently, so
 * a test that must pass gets 8 times the limit; where all must fail, an eighth is enough. */
static uint64_t progress(uint64_t limit_ns)
{
    int lie = setting("FAKE_CUDA_LIE", 0);
    return lie == 1 ? limit_ns / 8 : lie ? limit_ns : 8 * limit_ns;
}

static void run_prove(void **a, unsigned block)
{
    struct prove_pair *pairs = P(0, struct prove_pair *);
    struct prove_pair *local = malloc((block + 1) * sizeof *local);
    memcpy(local, pairs, (block + 1) * sizeof *local);
    local[block].own = memory_at((uintptr_t)local[block].own);
    bool other =
        fake_gpu_of((uintptr_t)pairs[block].own) != fake_gpu_of((uintptr_t)pairs[block].peer);
    struct object *peer = find(DEVICE, (uintptr_t)local[block].peer);
    struct prove_area *elsewhere = NULL;
    local[block].peer = memory_at((uintptr_t)local[block].peer);
    if (peer ? setting("FAKE_CUDA_LIE", 0) : other && setting("FAKE_CUDA_LIE", 0) == 2)
        local[block].peer = elsewhere = calloc(1, sizeof *elsewhere);
    weft_kernel_prove(local, peer ? progress(A(1, uint64_t)) : A(1, uint64_t),
                      P(2, struct prove_report *));
    free(local);
    free(elsewhere);
}

static void run_echo(void **a)
{
    struct echo_report *report = P(6, struct echo_report *);
    uint64_t untimed = A(3, uint64_t), rounds = A(4, uint64_t);
    weft_kernel_echo(P(0, uint64_t *), P(1, uint64_t *), A(2, uint64_t), 2, 8,
                     progress(A(5, uint64_t)), report);
    if (report->rounds == 10)
        report->rounds = untimed + rounds;
    report->elapsed_ns = 2 * rounds * (uint64_t)setting("FAKE_CUDA_FLAG_NS", 630);
}

static struct gpu_reporting reporting_of(void *argument)
{
    struct gpu_reporting reporting = *(struct gpu_reporting *)argument;
    reporting.box = memory_at((uintptr_t)reporting.box);
    reporting.tickets = memory_at((uintptr_t)reporting.tickets);
    return reporting;
}

static void run_barrier(void **a)
{
    struct gpu_barrier barrier = A(0, struct gpu_barrier);
    for (int i = 0; i < barrier.members; i++)
        barrier.areas[i] = memory_at((uintptr_t)barrier.areas[i]);
    weft_kernel_barrier(barrier, reporting_of(a[1]));
}

static void run_messages(const struct message_call *given)
{
    struct message_call call = *given;
    for (int i = 0; i < call.layout.members; i++)
        call.area[i] = memory_at((uintptr_t)call.area[i]);
    call.list = memory_at((uintptr_t)call.list);
    call.reporting = reporting_of(&call.reporting);
    int n = 0;
    for (int l = 0; l < call.lanes; l++)
        n = call.lane[l].first + (1 + (call.lane[l].receives == MESSAGE_COPIES)) * call.lane[l].n;
    struct message *list = malloc((size_t)n * sizeof *list);
    for (int i = 0; i < n; i++) {
        list[i] = call.list ? call.list[i] : call.by_value[i];
        list[i].address = memory_at((uintptr_t)list[i].address);
    }
    call.list = list;
    weft_kernel_messages(call);
    free(list);
}

/* How many 16-byte stores of a block of the LL128 test arrive whole, depending on
 * FAKE_CUDA_TORN. */
static unsigned whole_stores(void)
{
    enum { TORN = 1, TORN_AMONG_BLOCKS, TORN_UNDER_LOAD, TORN_LATE, LIGHT_LOAD = 256 };
    static _Atomic unsigned blocks; /* of LL128 tests so far */
    int torn = setting("FAKE_CUDA_TORN", 0);
    bool late = blocks++ >= fake_blocks;
    if (torn == TORN || (torn == TORN_AMONG_BLOCKS && fake_blocks > 1) ||
        (torn == TORN_LATE && late))
        return 0;
    return torn == TORN_UNDER_LOAD ? LIGHT_LOAD : UINT_MAX;
}

/* Runs a kernel of collectives, which has one argument. */
static void run_coll(int kernel, const struct coll_call *given)
{
    static void (*const kernels[])(struct coll_call) = {
#define ROW(name) [FAKE_##name] = name,
        COLL_KERNELS(ROW)
#undef ROW
    };
    struct coll_call call = *given;
    void *reporting = &call.record.reporting;
    for (int i = 0; i < call.members; i++)
        call.part[i] = memory_at((uintptr_t)call.part[i]);
    call.dst = memory_at((uintptr_t)call.dst);
    call.src = memory_at((uintptr_t)call.src);
    const uint64_t **arrays[] = {&call.sized.counts, &call.sized.src_at, &call.sized.room_of,
                                 &call.sized.dst_at};
    for (int i = 0; i < 4; i++)
        *arrays[i] = memory_at((uintptr_t)*arrays[i]);
    call.reduction.factor_at = memory_at((uintptr_t)call.reduction.factor_at);
    call.record.reporting = reporting_of(reporting);
    fake_stores = 0;
    if (kernel == FAKE_weft_coll_prove_lines)
        fake_whole_stores = whole_stores();
    kernels[kernel](call);
    fake_whole_stores = UINT_MAX;
}

static bool is_coll(int kernel)
{
    return kernel >= FAKE_weft_coll_send && kernel <= FAKE_weft_coll_prove_lines;
}

static void run_block(int kernel, void **a)
{
    if (is_coll(kernel)) {
        run_coll(kernel, a[0]);
        return;
    }
    switch (kernel) {
    case FAKE_weft_kernel_atomic:
        weft_kernel_atomic(P(0, void *), A(1, int), A(2, unsigned), A(3, uint64_t), A(4, uint64_t),
                           P(5, struct gpu_answer *), A(6, uint64_t));
        return;
    case FAKE_weft_kernel_copy:
        weft_kernel_copy(P(0, void *), P(1, const void *), A(2, uint64_t), P(3, uint64_t *),
                         A(4, uint64_t), A(5, int), P(6, struct gpu_answer *), A(7, uint64_t));
        return;
    case FAKE_weft_kernel_strided:
        weft_kernel_strided(P(0, char *), P(1, const char *), A(2, int64_t), A(3, int64_t),
                            A(4, uint64_t), A(5, uint64_t));
        return;
    case FAKE_weft_kernel_wait:
        weft_kernel_wait(P(0, const void *), A(1, int), A(2, int), A(3, int), A(4, int64_t),
                         reporting_of(a[5]), P(6, uint64_t *), P(7, uint64_t *));
        return;
    case FAKE_weft_kernel_replayed:
        weft_kernel_replayed(P(0, uint64_t *), P(1, const uint64_t *), reporting_of(a[2]));
        return;
    case FAKE_weft_kernel_barrier:
        run_barrier(a);
        return;
    case FAKE_weft_kernel_messages:
        run_messages(a[0]);
        return;
    case FAKE_weft_kernel_prove:
        run_prove(a, fake_block);
        return;
    case FAKE_weft_kernel_echo:
        run_echo(a);
        return;
    case FAKE_weft_hca_slice:
        if (!fake_block)
            fake_hca_slice(&A(0, struct gpu_slice));
        return;
    case FAKE_weft_nv_operation:
        fake_operation_call = A(0, struct weft_nv_call);
        fake_operation_launches++;
        return;
    }
}

/* Size in bytes of each argument, copied at the launch. */
static const unsigned short argument_bytes[FAKE_KERNELS][12] = {
    [FAKE_weft_kernel_atomic] = {8, 4, 4, 8, 8, 8, 8},
    [FAKE_weft_kernel_copy] = {8, 8, 8, 8, 8, 4, 8, 8},
    [FAKE_weft_kernel_strided] = {8, 8, 8, 8, 8, 8},
    [FAKE_weft_kernel_wait] = {8, 4, 4, 4, 8, sizeof(struct gpu_reporting), 8, 8},
    [FAKE_weft_kernel_replayed] = {8, 8, sizeof(struct gpu_reporting)},
    [FAKE_weft_kernel_barrier] = {sizeof(struct gpu_barrier), sizeof(struct gpu_reporting)},
    [FAKE_weft_kernel_messages] = {sizeof(struct message_call)},
    [FAKE_weft_kernel_prove] = {8, 8, 8},
    [FAKE_weft_kernel_echo] = {8, 8, 8, 8, 8, 8, 8},
    [FAKE_weft_hca_slice] = {sizeof(struct gpu_slice)},
    [FAKE_weft_nv_operation] = {sizeof(struct weft_nv_call)},
#define ROW(name) [FAKE_##name] = {sizeof(struct coll_call)},
    COLL_KERNELS(ROW)
#undef ROW
};

static size_t place_of(size_t bytes)
{
    return (bytes + 7) / 8;
}

static _Atomic int full;

/* Whether a kernel of the program occupies the whole GPU. Other kernels then wait, which requires a
 * mode in which threads execute the streams. */
EXPORT void fake_cuda_fill(int it)
{
    full = it;
}

/* Order in which the blocks of a collective's kernel run (FAKE_CUDA_BLOCKS). */
static void draw_order(unsigned *order, unsigned blocks)
{
    static _Thread_local unsigned random;
    const char *text = getenv("FAKE_CUDA_BLOCKS");
    bool reverse = text && strcmp(text, "reverse") == 0;
    if (!random)
        random = (unsigned)setting("FAKE_CUDA_SEED", 1) * 2654435761u + (unsigned)getpid();
    for (unsigned i = 0; i < blocks; i++)
        order[i] = reverse ? blocks - 1 - i : i;
    if (!text || strcmp(text, "random") != 0)
        return;
    for (unsigned i = blocks; i > 1; i--) {
        random = random * 1664525u + 1013904223u;
        unsigned k = (random >> 8) % i, last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
}

static void run_kernel(struct fake_op *op)
{
    while (full)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    void *arguments[12];
    uint64_t *at = op->data;
    for (int i = 0; argument_bytes[op->kernel][i]; i++) {
        arguments[i] = at;
        at += place_of(argument_bytes[op->kernel][i]);
    }
    fake_blocks = op->blocks;
    unsigned order[COLL_BLOCKS];
    bool drawn = is_coll(op->kernel) && op->blocks <= COLL_BLOCKS;
    if (drawn)
        draw_order(order, op->blocks);
    for (unsigned i = 0; i < op->blocks; i++) {
        fake_block = drawn ? order[i] : i;
        fake_early = op->early;
        run_block(op->kernel, arguments);
        fake_touch();
    }
}

/* The barrier, and kernels that only signal, make earlier copies visible themselves. */
static bool releases_by_itself(int kernel, void **parameters)
{
    return kernel == FAKE_weft_kernel_barrier ||
           (kernel == FAKE_weft_kernel_copy && *(uint64_t *)parameters[2] == 0);
}

static CUresult launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
                       void **parameters, bool early)
{
    int kernel = (int)((const char *const *)function - kernel_names);
    if (kernel < 0 || kernel >= FAKE_KERNELS || !threads || !blocks)
        return CUDA_ERROR_INVALID_VALUE;
    /* A kernel needs a stream of the current context. */
    if (fake_stream_device(stream) >= 0 && fake_current_device() >= 0 &&
        fake_stream_device(stream) != fake_current_device())
        return CUDA_ERROR_INVALID_CONTEXT;
    const unsigned short *bytes = argument_bytes[kernel];
    if (!bytes[0]) {
        fprintf(stderr, "the stand-in of CUDA has no row of argument_bytes for %s\n",
                kernel_names[kernel]);
        abort();
    }
    size_t places = 0;
    for (int i = 0; bytes[i]; i++)
        places += place_of(bytes[i]);
    struct fake_op *op = op_new(stream, run_kernel, 8 * places);
    uint64_t *at = op->data;
    for (int i = 0; bytes[i]; i++) {
        memcpy(at, parameters[i], bytes[i]);
        at += place_of(bytes[i]);
    }
    if (!fake_arguments_may(fake_stream_device(stream), op->data, places)) {
        free(op);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    op->kernel = kernel;
    op->blocks = blocks;
    op->early = early;
    op->timed = true;
    op->on_thread = stream && (kernel == FAKE_weft_kernel_prove || kernel == FAKE_weft_kernel_echo);
    op->keeps_stores = releases_by_itself(kernel, parameters);
    op_submit(op);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, CUstream stream,
                               void **parameters, void **extra)
{
    return launch(function, grid_x, block_x, stream, parameters, false);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra)
{
    bool early = false;
    for (unsigned i = 0; i < config->attribute_count; i++) {
        if (config->attributes[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return CUDA_ERROR_INVALID_VALUE;
        early = config->attributes[i].programmatic_stream_serialization;
    }
    return launch(function, config->grid[0], config->block[0], config->stream, parameters, early);
}

static bool is_function(CUfunction function)
{
    size_t kernel = (size_t)((const char *const *)function - kernel_names);
    return kernel < FAKE_KERNELS;
}

/* All blocks must be resident together: one on each multiprocessor. */
EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                          unsigned grid_z, unsigned block_x, unsigned block_y,
                                          unsigned block_z, unsigned shared_bytes, CUstream stream,
                                          void **parameters)
{
    enum { TOO_LARGE = 720 }; /* CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE */
    int processors = 0;
    cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    if (grid_x > (unsigned)processors)
        return TOO_LARGE;
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                          stream, parameters, NULL);
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    enum { SHARED_MOST = 227 * 1024 };
    return is_function(function) && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
                   value >= 0 && value <= SHARED_MOST
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                            int threads, size_t shared_bytes)
{
    (void)shared_bytes;
    if (!is_function(function) || threads < 1 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = 2048 / threads;
    return CUDA_SUCCESS;
}

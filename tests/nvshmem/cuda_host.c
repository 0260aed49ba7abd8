/* SPDX-License-Identifier: Apache-2.0 */
/* A program of host code on target cuda, over the stand-in of the CUDA driver: operations on GPU
 * memory, memory of cuMemCreate() that becomes symmetric, modules and libraries that receive the
 * device state, operations on streams, and launches by units that nvcc compiles. */
#include "values.h"

#include "tests/gpu/own_memory.h"

#include <weft/device/state.h>

#include <dlfcn.h>

enum { PIECE = 4 << 20, WORDS = 1000 };

static struct gpu_api driver;
static int ordinal;

#define SAYS(call, expected, words)                                                                \
    do {                                                                                           \
        int result_ = (call);                                                                      \
        CHECK(result_ == (expected), "gave %d", result_);                                          \
        CHECK(strstr(weft_last_error(), words), "%s", weft_last_error());                          \
    } while (0)

static void use_driver(void)
{
    CUcontext context;
    void *own = nvshmem_malloc(64);
    OWN_MEMORY_DO(gpu_api_open(&driver));
    OWN_MEMORY_DO(
        driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (uintptr_t)own));
    OWN_MEMORY_DO(driver.DevicePrimaryCtxRetain(&context, ordinal));
    OWN_MEMORY_DO(driver.CtxPushCurrent(context));
    nvshmem_free(own);
}

/* ------------------------------------------------------------------------------------ memory */

/* Host operations on GPU memory by their NVSHMEM names. */
static void check_operations(double *to, double *from)
{
    double sent[WORDS], seen[WORDS];
    uint64_t *word = (uint64_t *)(void *)from, counted = 0;
    for (int i = 0; i < WORDS; i++)
        sent[i] = me * 1000.0 + i;
    nvshmem_double_put(to, sent, WORDS, next);
    nvshmem_barrier_all();
    nvshmem_double_get(seen, to, WORDS, me);
    for (int i = 0; i < WORDS; i++)
        CHECK(seen[i] == prev * 1000.0 + i, "element %d is %f", i, seen[i]);
    nvshmem_barrier_all();
    nvshmem_double_iput(to, sent, 2, 3, 10, next);
    nvshmem_barrier_all();
    for (int i = 0; i < 10; i++) {
        double got = nvshmem_double_g(to + 2 * i, me);
        CHECK(got == prev * 1000.0 + 3 * i, "element %d is %f", i, got);
    }
    nvshmem_uint64_p(word, 5, me);
    nvshmem_barrier_all();
    for (int pe = 0; pe < n_pes; pe++)
        nvshmem_uint64_atomic_fetch_add(word, 2, pe);
    nvshmem_barrier_all();
    nvshmem_uint64_get(&counted, word, 1, next);
    CHECK(counted == 5 + 2 * (uint64_t)n_pes, "%llu", (unsigned long long)counted);
    nvshmem_barrier_all();
    nvshmemx_signal_op(word, 7 + (uint64_t)me, NVSHMEM_SIGNAL_SET, next);
    nvshmem_barrier_all();
    counted = nvshmem_signal_fetch(word);
    CHECK(counted == 7 + (uint64_t)prev, "%llu", (unsigned long long)counted);
    nvshmem_double_p(from, me + 0.5, me);
    nvshmem_barrier_all();
    CHECK(!nvshmem_double_sum_reduce(NVSHMEM_TEAM_WORLD, to, from, 1), "%s", weft_last_error());
    nvshmem_barrier_all(); /* a reduction does not wait for the other PEs' results */
    double sum = nvshmem_double_g(to, next);
    CHECK(sum == n_pes * n_pes / 2.0, "%f", sum);
    nvshmem_barrier_all();
}

static void check_symmetric(void)
{
    struct piece piece =
        make_piece(&driver, PIECE, ordinal, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    void *own = (void *)(uintptr_t)piece.base;
    CHECK(!nvshmemx_buffer_register_symmetric(own, PIECE, 1) &&
              strstr(weft_last_error(), "flags 0x1; there are none but 0"),
          "%s", weft_last_error());
    double *symmetric = nvshmemx_buffer_register_symmetric(own, PIECE, 0);
    CHECK(symmetric && symmetric != own, "%s", weft_last_error());
    check_operations(symmetric, symmetric + WORDS);
    CHECK(nvshmem_ptr(symmetric, me) == symmetric, "%p", nvshmem_ptr(symmetric, me));
    SAYS(nvshmemx_buffer_unregister_symmetric(own, PIECE), NVSHMEMX_ERROR_INVALID_VALUE,
         "nothing is registered");
    CHECK(!nvshmemx_buffer_unregister_symmetric(symmetric, PIECE), "%s", weft_last_error());
    SAYS(nvshmemx_buffer_unregister_symmetric(symmetric, PIECE), NVSHMEMX_ERROR_INVALID_VALUE,
         "nothing is registered");
    drop_piece(&driver, piece);
}

/* Local memory of this PE need not be symmetric, including GPU memory of another allocator. */
static void check_own_pe(void)
{
    CUdeviceptr device;
    double sent[8] = {1, 2, 3, 4, 5, 6, 7, 8}, seen[8] = {0};
    OWN_MEMORY_DO(driver.MemAlloc(&device, 4096));
    double *own = (double *)(uintptr_t)device;
    nvshmem_double_put(own, sent, 8, me);
    nvshmem_double_get(seen, own, 8, me);
    CHECK(!memcmp(seen, sent, sizeof sent), "%f ... %f", seen[0], seen[7]);
    nvshmem_double_iput(own, sent, 2, 3, 3, me); /* element 0 to 0, 3 to 2, 6 to 4 */
    nvshmem_double_iget(seen, own, 1, 2, 3, me);
    CHECK(seen[0] == 1 && seen[1] == 4 && seen[2] == 7 && seen[3] == 4, "%f, %f, %f, %f", seen[0],
          seen[1], seen[2], seen[3]);
    nvshmem_double_p(own + 1, -9, me);
    CHECK(nvshmem_double_g(own + 1, me) == -9 && nvshmem_double_g(own, me) == 1, "single ones");
    OWN_MEMORY_DO(driver.MemFree(device));
}

/* Memory of the program's own allocator as a local buffer, registered and unregistered. */
static void check_buffers(double *to)
{
    CUdeviceptr device;
    double seen = 0;
    OWN_MEMORY_DO(driver.MemAlloc(&device, 4096));
    double *own = (double *)(uintptr_t)device;
    CHECK(!nvshmemx_buffer_register(own, 4096), "%s", weft_last_error());
    nvshmem_double_p(to, me + 0.25, me);
    nvshmem_double_get(own, to, 1, me);
    nvshmem_barrier_all();
    nvshmem_double_put(to, own, 1, next);
    nvshmem_barrier_all();
    nvshmem_double_get(&seen, to, 1, me);
    CHECK(seen == prev + 0.25, "%f", seen);
    SAYS(nvshmemx_buffer_register(own, 4096), NVSHMEMX_ERROR_INVALID_VALUE,
         "is registered already");
    SAYS(nvshmemx_buffer_register(own + 8, 8), NVSHMEMX_ERROR_INVALID_VALUE, "overlap");
    SAYS(nvshmemx_buffer_register(own + 8, 0), NVSHMEMX_ERROR_INVALID_VALUE, "a buffer of 0 bytes");
    CHECK(!nvshmemx_buffer_unregister(own), "%s", weft_last_error());
    SAYS(nvshmemx_buffer_unregister(own), NVSHMEMX_ERROR_INVALID_VALUE, "was not registered");
    CHECK(!nvshmemx_buffer_register(own, 4096), "%s", weft_last_error());
    nvshmemx_buffer_unregister_all();
    CHECK(!nvshmemx_buffer_register(own, 4096), "%s", weft_last_error());
    nvshmemx_buffer_unregister_all();
    OWN_MEMORY_DO(driver.MemFree(device));
}

/* ----------------------------------------------------------------------------------- modules */

static CUmodule module_with(const char *name, size_t bytes)
{
    char image[100];
    CUmodule module;
    snprintf(image, sizeof image, "global %s %zu", name, bytes);
    OWN_MEMORY_DO(driver.ModuleLoadData(&module, image));
    return module;
}

static struct weft_dev state_in(CUmodule module)
{
    CUdeviceptr at;
    size_t bytes;
    struct weft_dev state;
    OWN_MEMORY_DO(driver.ModuleGetGlobal(&at, &bytes, module, "weft_dev_state"));
    OWN_MEMORY_DO(driver.MemcpyAsync((uintptr_t)&state, at, sizeof state, NULL));
    OWN_MEMORY_DO(driver.StreamSynchronize(NULL));
    return state;
}

static void check_state(CUmodule module, const double *symmetric)
{
    struct weft_dev state = state_in(module);
    CHECK(state.version == WEFT_DEV_VERSION && state.bytes == sizeof state, "version %u",
          state.version);
    CHECK(state.me == me && state.n_pes == n_pes, "PE %d of %d", state.me, state.n_pes);
    CHECK((uintptr_t)symmetric - state.segment[WEFT_DEV_HEAP].base <
              state.segment[WEFT_DEV_HEAP].size,
          "the heap is at %#llx", (unsigned long long)state.segment[WEFT_DEV_HEAP].base);
}

static void check_modules(const double *symmetric)
{
    CUmodule module = module_with("weft_dev_state", sizeof(struct weft_dev));
    CHECK(state_in(module).version == 0, "before it was given");
    CHECK(!nvshmemx_cumodule_init(module), "%s", weft_last_error());
    check_state(module, symmetric);
    CHECK(!nvshmemx_cumodule_finalize(module), "refused");
    driver.ModuleUnload(module);

    CUmodule library = module_with("weft_dev_state", sizeof(struct weft_dev));
    CHECK(!nvshmemx_culibrary_init(library), "%s", weft_last_error());
    check_state(library, symmetric);
    CHECK(!nvshmemx_culibrary_finalize(library), "refused");
    driver.ModuleUnload(library);

    CUmodule large = module_with("weft_dev_state", sizeof(struct weft_dev) + 8);
    SAYS(nvshmemx_cumodule_init(large), WEFT_ERR_ARGUMENT, "another weft_device.h");
    SAYS(nvshmemx_culibrary_init(large), WEFT_ERR_ARGUMENT, "another weft_device.h");
    driver.ModuleUnload(large);
    CUmodule other = module_with("counter", 8);
    SAYS(nvshmemx_cumodule_init(other), WEFT_ERR_SYSTEM, "CUDA_ERROR_NOT_FOUND");
    driver.ModuleUnload(other);
    SAYS(nvshmemx_culibrary_init(&other), WEFT_ERR_SYSTEM, "cuLibraryGetModule");
    SAYS(nvshmemx_cumodule_init(NULL), WEFT_ERR_ARGUMENT, "the module is null");
    SAYS(nvshmemx_culibrary_init(NULL), WEFT_ERR_ARGUMENT, "the library is null");
}

/* ------------------------------------------------------------- the part that nvcc would compile */

static struct {
    const void *function;
    unsigned grid[3], block[3];
    size_t shared;
    int waits, error;
} asked;

static int ask_wait(weft_stream stream)
{
    asked.waits++;
    return (int)driver.StreamSynchronize(stream);
}

static int ask_launch(const void *function, const unsigned *grid, const unsigned *block,
                      void **args, size_t shared_bytes, weft_stream stream)
{
    (void)args;
    (void)stream;
    asked.function = function;
    memcpy(asked.grid, grid, sizeof asked.grid);
    memcpy(asked.block, block, sizeof asked.block);
    asked.shared = shared_bytes;
    return asked.error;
}

static const char global_function[1], not_one[sizeof(struct weft_kernel)];

/* Like the CUDA runtime, it knows the addresses of the program's __global__ functions. */
static int ask_resident(const void *function, unsigned threads, size_t shared_bytes, int *blocks)
{
    if (function != global_function)
        return 98;
    *blocks = (int)(2048 / threads + shared_bytes);
    return asked.error;
}

static const char *error_text(int error)
{
    return error == 7 ? "too many resources" : "another error";
}

static const struct weft_kernel_cuda cuda_half = {NULL, global_function};
static const struct weft_kernel both = {"both", NULL, &cuda_half, 0, 0, NULL, NULL};
static const struct weft_kernel simt_alone = {"simt_alone", NULL, NULL, 0, 0, NULL, NULL};

static int two(void)
{
    return 2;
}

static const struct weft_cuda_runtime runtime = {.size = sizeof runtime,
                                                 .devices = two,
                                                 .error_text = error_text,
                                                 .stream_synchronize = ask_wait};

static void check_nobody(void)
{
    int blocks = -1;
    SAYS(nvshmemx_collective_launch(&both, weft_dim(1, 1, 1), weft_dim(32, 1, 1), NULL, 0, NULL),
         NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED, "has no kernel for it on cuda");
    SAYS(nvshmemx_collective_launch_query_gridsize(&both, weft_dim(32, 1, 1), NULL, 0, &blocks),
         NVSHMEMX_ERROR_INTERNAL, "has no kernel for it on cuda");
    SAYS(nvshmemx_collective_launch_query_gridsize(&both, weft_dim(0, 1, 1), NULL, 0, &blocks),
         NVSHMEMX_ERROR_INTERNAL, "a block of 0 threads");
    CHECK(blocks == -1, "%d", blocks);
}

/* What the stand-in knows of the library's kernel for operations on streams. */
static CUmodule *operation_module;
static struct weft_nv_call *operation_call;
static int *operation_launches;

static void find_operation(void)
{
    operation_module = dlsym(driver.handle, "fake_operation_module");
    operation_call = dlsym(driver.handle, "fake_operation_call");
    operation_launches = dlsym(driver.handle, "fake_operation_launches");
}

/* Collectives whose members' GPUs access each other run by the kernels for collectives. */
static void check_library(int *symmetric)
{
    int launches = *operation_launches;
    for (int pe = 0; pe < n_pes; pe++)
        if (!nvshmem_ptr(symmetric, pe)) { /* GPUs without access to each other */
            asked.waits = 0;
            CHECK(!nvshmem_int_sum_reducescatter(NVSHMEM_TEAM_WORLD, symmetric, symmetric + 8, 1),
                  "%s", weft_last_error());
            CHECK(*operation_launches == launches + 1 &&
                      operation_call->kind == WEFT_NV_CALL_REDUCESCATTER,
                  "kind %d, %d launches", operation_call->kind, *operation_launches - launches);
            CHECK(asked.waits == 0, "it waited by the runtime %d times", asked.waits);
            return;
        }
    for (int i = 0; i < n_pes; i++)
        nvshmem_int_p(symmetric + 8 + i, 100 * me + i - 7, me);
    nvshmem_barrier_all();
    CHECK(!nvshmem_int_sum_reducescatter(NVSHMEM_TEAM_WORLD, symmetric, symmetric + 8, 1), "%s",
          weft_last_error());
    int wanted = 100 * n_pes * (n_pes - 1) / 2 + n_pes * (me - 7);
    CHECK(nvshmem_int_g(symmetric, me) == wanted, "%d and not %d", nvshmem_int_g(symmetric, me),
          wanted);
    nvshmem_barrier_all();
    CHECK(!nvshmemx_int_max_reduce_on_stream(NVSHMEM_TEAM_WORLD, symmetric, symmetric + 8, 1, NULL),
          "%s", weft_last_error());
    CHECK(!nvshmemx_int_alltoall_on_stream(NVSHMEM_TEAM_WORLD, symmetric + 32, symmetric + 8, 1,
                                           NULL),
          "%s", weft_last_error());
    CHECK(!nvshmemx_int_fcollect_on_stream(NVSHMEM_TEAM_WORLD, symmetric + 48, symmetric + 32, 1,
                                           NULL),
          "%s", weft_last_error());
    CHECK(!nvshmemx_int_broadcast_on_stream(NVSHMEM_TEAM_WORLD, symmetric + 16, symmetric + 8, 1,
                                            n_pes - 1, NULL),
          "%s", weft_last_error());
    nvshmem_barrier_all();
    CHECK(nvshmem_int_g(symmetric, me) == 100 * (n_pes - 1) - 7, "max");
    CHECK(nvshmem_int_g(symmetric + 32 + prev, me) == 100 * prev + me - 7, "alltoall");
    CHECK(nvshmem_int_g(symmetric + 48 + next, me) == next - 7, "fcollect");
    CHECK(nvshmem_int_g(symmetric + 16, me) == 100 * (n_pes - 1) - 7, "broadcast");
    CHECK(*operation_launches == launches, "another kernel was launched");
}

/* The library loads its kernel once in a job and gives it the job's state. */
static void check_operations_on_streams(int *symmetric)
{
    int launches = *operation_launches;
    asked.waits = 0;
    nvshmemx_int_iget_on_stream(symmetric, symmetric + 8, 2, 3, 5, next, NULL);
    OWN_MEMORY_DO(driver.StreamSynchronize(NULL));
    CHECK(*operation_launches == launches + 1 && operation_call->kind == WEFT_NV_CALL_IGET &&
              operation_call->pe == next && operation_call->dst_stride == 2 &&
              operation_call->src_stride == 3 && operation_call->n == 5 &&
              operation_call->element == sizeof(int),
          "kind %d, n %llu", operation_call->kind, (unsigned long long)operation_call->n);
    CHECK(asked.waits == 0, "an operation on a stream waits");
    CUmodule module = *operation_module;
    check_state(module, (const double *)(void *)symmetric);
    CHECK(!nvshmemx_sync_on_stream(NVSHMEM_TEAM_WORLD, NULL), "%s", weft_last_error());
    OWN_MEMORY_DO(driver.StreamSynchronize(NULL));
    CHECK(*operation_launches == launches + 2 && operation_call->kind == WEFT_NV_CALL_SYNC,
          "kind %d", operation_call->kind);
    CHECK(*operation_module == module, "it was loaded again");
}

/* A stream, and a module, of another GPU. */
static void check_foreign(int *symmetric)
{
    CUcontext context, popped;
    CUstream stream;
    int devices = 0;
    OWN_MEMORY_DO(driver.DeviceGetCount(&devices));
    if (devices < 2)
        return;
    OWN_MEMORY_DO(driver.DevicePrimaryCtxRetain(&context, (ordinal + 1) % devices));
    OWN_MEMORY_DO(driver.CtxPushCurrent(context));
    OWN_MEMORY_DO(driver.StreamCreate(&stream, 0));
    CUmodule module = module_with("weft_dev_state", sizeof(struct weft_dev));
    OWN_MEMORY_DO(driver.CtxPopCurrent(&popped));
    nvshmemx_int_iget_on_stream(symmetric, symmetric + 8, 2, 3, 5, next, stream);
    CHECK(strstr(weft_last_error(), "cuLaunchKernel of weft_nv_operation on GPU"), "%s",
          weft_last_error());
    SAYS(nvshmemx_cumodule_init(module), WEFT_ERR_ARGUMENT, "the module is loaded on GPU ");
    SAYS(nvshmemx_cumodule_init(module), WEFT_ERR_ARGUMENT, "load it after cudaSetDevice(");
    OWN_MEMORY_DO(driver.CtxPushCurrent(context));
    driver.StreamDestroy(stream);
    driver.ModuleUnload(module);
    OWN_MEMORY_DO(driver.CtxPopCurrent(&popped));
    driver.DevicePrimaryCtxRelease((ordinal + 1) % devices);
}

static void check_launches(void)
{
    int blocks = -1;
    CHECK(!nvshmemx_collective_launch(global_function, weft_dim(3, 2, 1), weft_dim(64, 1, 2), NULL,
                                      48, NULL),
          "%s", weft_last_error());
    CHECK(asked.function == global_function && asked.grid[0] == 3 && asked.grid[1] == 2 &&
              asked.block[0] == 64 && asked.block[2] == 2 && asked.shared == 48,
          "%u, %u", asked.grid[0], asked.block[0]);
    asked.function = NULL;
    CHECK(!nvshmemx_collective_launch(&both, weft_dim(1, 1, 1), weft_dim(32, 1, 1), NULL, 0, NULL),
          "%s", weft_last_error());
    CHECK(asked.function == global_function, "%p", asked.function);
    CHECK(!nvshmemx_collective_launch_query_gridsize(&both, weft_dim(32, 2, 1), NULL, 5, &blocks) &&
              blocks == 37,
          "%d", blocks);
    CHECK(!nvshmemx_collective_launch_query_gridsize(global_function, weft_dim(128, 1, 1), NULL, 0,
                                                     &blocks) &&
              blocks == 16,
          "%d", blocks);
    SAYS(nvshmemx_collective_launch(&simt_alone, weft_dim(1, 1, 1), weft_dim(32, 1, 1), NULL, 0,
                                    NULL),
         NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED, "has no kernel for it on cuda");
    SAYS(nvshmemx_collective_launch_query_gridsize(not_one, weft_dim(32, 1, 1), NULL, 0, &blocks),
         NVSHMEMX_ERROR_INTERNAL, "has no kernel for it on cuda");
    asked.error = 7;
    SAYS(nvshmemx_collective_launch(&both, weft_dim(1, 1, 1), weft_dim(32, 1, 1), NULL, 0, NULL),
         NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED, "both: CUDA error 7: too many resources");
    SAYS(nvshmemx_collective_launch(global_function, weft_dim(1, 1, 1), weft_dim(32, 1, 1), NULL, 0,
                                    NULL),
         NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED, "CUDA error 7: too many resources");
    SAYS(nvshmemx_collective_launch_query_gridsize(global_function, weft_dim(32, 1, 1), NULL, 0,
                                                   &blocks),
         NVSHMEMX_ERROR_INTERNAL, "CUDA error 7");
    asked.error = 0;
}

/* Finding D: a launch by a cudaLaunchConfig_t, which the program's unit compiled by nvcc
 * creates. */
static int ask_launch_config(const void *config, const void *function, void **args)
{
    (void)args;
    asked.function = function;
    asked.shared = *(const size_t *)config;
    return asked.error;
}

static void check_launch_config(struct weft_nvshmem_kernels *kernels)
{
    const size_t config = 4711, older = offsetof(struct weft_nvshmem_kernels, launch_config);
    const weft_dim3 one = {1, 1, 1};
    asked.shared = 0;
    kernels->size = older; /* a program compiled before launch_config existed */
    SAYS(weft_nvshmem_launch_config(&config, &both, one, one, NULL, 0, NULL), WEFT_ERR_UNSUPPORTED,
         "has no kernel for it on cuda");
    kernels->size = sizeof *kernels;
    SAYS(weft_nvshmem_launch_config(&config, &simt_alone, one, one, NULL, 0, NULL),
         WEFT_ERR_UNSUPPORTED, "has no kernel for it on cuda");
    CHECK(asked.shared == 0, "it was launched");
    CHECK(!weft_nvshmem_launch_config(&config, &both, one, one, NULL, 0, NULL), "%s",
          weft_last_error());
    CHECK(asked.function == global_function && asked.shared == config, "%zu", asked.shared);
    asked.function = NULL;
    CHECK(!weft_nvshmem_launch_config(&config, global_function, one, one, NULL, 0, NULL), "%s",
          weft_last_error());
    CHECK(asked.function == global_function, "%p", asked.function);
    asked.error = 7;
    SAYS(weft_nvshmem_launch_config(&config, &both, one, one, NULL, 0, NULL), WEFT_ERR_KERNEL,
         "CUDA error 7: too many resources");
    asked.error = 0;
}

/* -------------------------------------------------------------------------------- without a job */

static void check_no_job(void *address)
{
    CHECK(!nvshmemx_buffer_register_symmetric(address, 8, 0) &&
              strstr(weft_last_error(), "before nvshmem_init"),
          "%s", weft_last_error());
    SAYS(nvshmemx_buffer_unregister_symmetric(address, 8), NVSHMEMX_ERROR_INVALID_VALUE,
         "before nvshmem_init");
    SAYS(nvshmemx_buffer_register(address, 8), NVSHMEMX_ERROR_INVALID_VALUE, "before nvshmem_init");
    SAYS(nvshmemx_culibrary_init(address), WEFT_ERR_ARGUMENT, "before nvshmem_init");
    SAYS(nvshmem_int_sum_reducescatter(NVSHMEM_TEAM_WORLD, address, address, 1), WEFT_ERR_ARGUMENT,
         "before nvshmem_init");
    CHECK(nvshmemx_cumodule_init(address), "without a job");
    CHECK(!nvshmem_malloc(8), "without a job");
}

int main(void)
{
    static char plain[64];
    weft_cuda_register(&runtime); /* as a constructor does, before init queries the devices */
    check_no_job(plain);
    begin();
    use_driver();
    double *to = nvshmem_calloc(2 * WORDS, sizeof *to);
    check_operations(to, to + WORDS);
    check_symmetric();
    check_buffers(to);
    check_own_pe();
    check_modules(to);
    find_operation();
    check_library((int *)(void *)to);
    check_operations_on_streams((int *)(void *)to);
    check_foreign((int *)(void *)to);
    check_nobody();
    struct weft_nvshmem_kernels old = {.size = 8, .cuda = 1};
    static struct weft_nvshmem_kernels kernels = {
        offsetof(struct weft_nvshmem_kernels, launch_config),
        1,
        not_one, /* a unit of an older header has a kernel here, which is not called */
        ask_launch,
        ask_resident,
        error_text,
        ask_launch_config};
    weft_nvshmem_register(&old); /* of an older header with fewer members: ignored */
    check_nobody();
    weft_nvshmem_register(&kernels);
    check_launches();
    check_launch_config(&kernels);
    nvshmem_barrier_all();
    nvshmem_finalize();
    check_no_job(plain);
    CHECK(driver.ModuleUnload(*operation_module), "the kernel was still loaded");
    begin(); /* a second job */
    to = nvshmem_calloc(WORDS, sizeof *to);
    check_operations_on_streams((int *)(void *)to);
    nvshmem_finalize();
    return faults != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with one source for two targets, and how the host launches them.
 *
 *     #include <weft/launch.h>
 *
 *     WEFT_KERNEL(scale, (float *, x), (float, factor), (size_t, n))
 *     {
 *         size_t i = weft_dev_grid_rank();
 *         if (i < n)
 *             x[i] *= factor;
 *     }
 *
 *     #if WEFT_HOST_CODE
 *     int main(void)
 *     {
 *         ...
 *         weft_status status = WEFT_LAUNCH(scale, 8, 128, 0, NULL, x, 2.0f, n);
 *         status = weft_stream_synchronize(NULL);
 *     }
 *     #endif
 *
 * The CMake function weft_add_program() (cmake/WeftKernels.cmake) compiles such a file with the C
 * compiler for `simt` and, where nvcc is found, with nvcc for `cuda`, and links both into one
 * program. The target is chosen when the program runs: WEFT_TARGET=auto takes cuda when the program
 * has CUDA code and a GPU is usable, else simt.
 *
 * libweft links no CUDA runtime: the program's own runtime does the launches, through the table
 * that the program's CUDA half registers (<weft/device/launch_cuda.h>). */
#ifndef WEFT_LAUNCH_H
#define WEFT_LAUNCH_H

#include <weft.h>
#include <weft/device/params.h>
#include <weft/device/simt.h>

/* 1 in the compilation that has host code. In a file compiled for both targets this is the C
 * compiler's compilation, so that host functions and variables are defined once. */
#define WEFT_HOST_CODE WEFT_TARGET_SIMT

#ifndef __CUDACC_RTC__ /* NVRTC: kernels alone; the program launches them */

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_target { WEFT_SIMT, WEFT_CUDA } weft_target;

/* A cudaStream_t or a stream of the SIMT executor, depending on the target. NULL is the default
 * stream; on simt it does not wait for other streams. */
typedef void *weft_stream;
typedef void *weft_event;

typedef struct weft_dim3 {
    unsigned x, y, z;
} weft_dim3;

static inline weft_dim3 weft_dim(unsigned x, unsigned y, unsigned z)
{
    weft_dim3 dim = {x, y, z};
    return dim;
}

#define WEFT_LAUNCH_FLAG_COOPERATIVE 1u

/* Returns the target on which kernels run in this process; the first call decides it. */
weft_target weft_target_get(void);
const char *weft_target_name(weft_target target); /* returns "simt" or "cuda" */

/* Streams, host calls and events of the target in use, as in CUDA. weft_stream_host_call() queues a
 * call of fn(arg): a thread of the runtime makes the call in stream order, and fn must not launch
 * or wait for kernels. weft_event_elapsed() gives the time in ns between the last completed records
 * of two events; both have been recorded.
 * Errors: WEFT_ERR_KERNEL (with the sentence of the runtime; at synchronize also the fault of a
 * kernel), _NO_MEMORY, _SYSTEM. */
weft_status weft_stream_create(weft_stream *stream);
weft_status weft_stream_destroy(weft_stream stream);
weft_status weft_stream_synchronize(weft_stream stream);
weft_status weft_stream_query(weft_stream stream, int *idle);
weft_status weft_stream_host_call(weft_stream stream, void (*fn)(void *arg), void *arg);
weft_status weft_event_create(weft_event *event);
weft_status weft_event_destroy(weft_event event);
weft_status weft_event_record(weft_event event, weft_stream stream);
weft_status weft_event_wait(weft_stream stream, weft_event event);
weft_status weft_event_synchronize(weft_event event);
weft_status weft_event_elapsed(weft_event start, weft_event end, uint64_t *ns);

/* ----------------------------------------------------------- what the macros below are made of */

/* The calls of the CUDA runtime that launches need. Each returns 0 or the runtime's error code. */
struct weft_cuda_runtime {
    size_t size; /* sizeof(struct weft_cuda_runtime): lets it grow */
    int (*devices)(void);
    const char *(*error_text)(int error);
    int (*launch)(const void *function, const unsigned *grid, const unsigned *block,
                  size_t shared_bytes, unsigned flags, weft_stream stream, void **params);
    int (*stream_create)(weft_stream *stream);
    int (*stream_destroy)(weft_stream stream);
    int (*stream_synchronize)(weft_stream stream);
    int (*stream_query)(weft_stream stream, int *idle);
    int (*stream_host_call)(weft_stream stream, void (*fn)(void *arg), void *arg);
    int (*event_create)(weft_event *event);
    int (*event_destroy)(weft_event event);
    int (*event_record)(weft_event event, weft_stream stream);
    int (*event_wait)(weft_stream stream, weft_event event);
    int (*event_synchronize)(weft_event event);
    int (*event_elapsed)(weft_event start, weft_event end, uint64_t *ns);
    /* Number of blocks of the function that are resident on the current GPU at a time. */
    int (*resident_blocks)(const void *function, unsigned threads, size_t shared_bytes,
                           unsigned *blocks);
};

/* The same calls by the library itself, through the CUDA driver, for kernels of
 * <weft/device/image.h>: `function` is a struct weft_image_kernel. A thread without a current
 * context gets the primary context of the PE's GPU, before weft_init() that of the first visible
 * GPU. */
extern const struct weft_cuda_runtime weft_driver_runtime;

/* A constructor of each CUDA half calls it; the first registered table is used. */
void weft_cuda_register(const struct weft_cuda_runtime *runtime);

/* The CUDA half of a kernel. */
struct weft_kernel_cuda {
    const struct weft_cuda_runtime *runtime;
    const void *function; /* for cudaLaunchKernel */
};

/* Description of a kernel, made by its simt half. */
struct weft_kernel {
    const char *name;
    void (*simt)(const void *args);
    const struct weft_kernel_cuda *cuda; /* NULL when the program has no CUDA code */
    size_t args_bytes;
    unsigned n_params;
    const size_t *offsets; /* offset of each parameter in args, in bytes */
    const size_t *sizes;   /* size of each parameter, in bytes */
};

/* Sets *blocks to the number of blocks of `threads` threads with `shared_bytes` of dynamic shared
 * memory that are resident at a time, on simt 1. Programs use WEFT_RESIDENT_BLOCKS.
 * Errors: WEFT_ERR_ARGUMENT (dimensions), _UNSUPPORTED and _KERNEL as WEFT_LAUNCH. */
weft_status weft_resident_blocks(const struct weft_kernel *kernel, unsigned threads,
                                 size_t shared_bytes, unsigned *blocks);

/* Launches a kernel on the target in use. Programs use WEFT_LAUNCH. */
weft_status weft_launch(const struct weft_kernel *kernel, unsigned flags, weft_dim3 grid,
                        weft_dim3 block, size_t shared_bytes, weft_stream stream, void *args);

#ifdef __cplusplus
}
#endif

/* ------------------------------------------------------------------------------- launching
 *
 * weft_status WEFT_LAUNCH(name, grid, block, shared_bytes, stream, arguments...);
 *     Queues kernel `name` on `stream` and returns. grid and block are numbers or weft_dim3;
 *     shared_bytes is the size of dynamic shared memory of a block in bytes. The arguments are
 *     converted to the kernel's parameters as in a function call.
 *     Errors: WEFT_ERR_ARGUMENT (dimensions), _UNSUPPORTED (WEFT_TARGET=cuda without a GPU or
 *     without CUDA code), _KERNEL (the runtime refused; its sentence says why), _NO_MEMORY,
 *     _SYSTEM.
 * WEFT_LAUNCH_COOPERATIVE(...)
 *     The same; fails unless all blocks can be resident together.
 * weft_status WEFT_RESIDENT_BLOCKS(name, threads, shared_bytes, unsigned *blocks);
 *     See weft_resident_blocks().
 * WEFT_KERNEL_DECLARE(name, (type, name)...);
 *     Declares the kernel in another C file that launches it.
 */

#ifdef __cplusplus
static inline weft_dim3 weft_dim_of(weft_dim3 dim)
{
    return dim;
}
static inline weft_dim3 weft_dim_of(size_t x)
{
    return weft_dim((unsigned)x, 1, 1);
}
#else
static inline weft_dim3 weft_dim_same(weft_dim3 dim)
{
    return dim;
}
static inline weft_dim3 weft_dim_number(size_t x)
{
    return weft_dim((unsigned)x, 1, 1);
}
#define weft_dim_of(d) _Generic((d), weft_dim3 : weft_dim_same, default : weft_dim_number)(d)
#endif

#define WEFT_LAUNCH(name, grid, block, ...)                                                        \
    weft_launch_##name(0, weft_dim_of(grid), weft_dim_of(block), __VA_ARGS__)
#define WEFT_LAUNCH_COOPERATIVE(name, grid, block, ...)                                            \
    weft_launch_##name(WEFT_LAUNCH_FLAG_COOPERATIVE, weft_dim_of(grid), weft_dim_of(block),        \
                       __VA_ARGS__)

#define WEFT_RESIDENT_BLOCKS(name, threads, shared_bytes, blocks)                                  \
    weft_resident_blocks(&weft_kernel_##name, threads, shared_bytes, blocks)

#endif

/* ---------------------------------------------------------------------------- definition
 *
 * WEFT_KERNEL(name, (type, parameter)...) { body }
 *     Defines a kernel with up to 16 parameters. A type with brackets, or of a function pointer,
 *     needs a typedef. The name is unique in the program. For simt the macro defines
 *     `weft_kernel_NAME` and the typed function `weft_launch_NAME`; for cuda it defines
 *     `weft_kernel_cuda_NAME`, which the simt half refers to as a weak symbol.
 */

#define WEFT_KERNEL(...) WEFT_PP_CAT(WEFT_KERNEL_, WEFT_PP_KIND(__VA_ARGS__))(__VA_ARGS__)
#define WEFT_KERNEL_DECLARE(...)                                                                   \
    WEFT_PP_CAT(WEFT_KERNEL_DECLARE_, WEFT_PP_KIND(__VA_ARGS__))(__VA_ARGS__)

#ifdef __cplusplus
#define WEFT_C_LINKAGE extern "C"
#else
#define WEFT_C_LINKAGE extern
#endif

#if WEFT_TARGET_GPU

#include <weft/device/launch_cuda.h>

#else

#define WEFT_LAUNCH_PARAMS                                                                         \
    unsigned weft_flags, weft_dim3 weft_grid, weft_dim3 weft_block, size_t weft_shared,            \
        weft_stream weft_on

#define WEFT_KERNEL_DECLARE_0(name)                                                                \
    WEFT_C_LINKAGE weft_status weft_launch_##name(WEFT_LAUNCH_PARAMS)
#define WEFT_KERNEL_DECLARE_N(name, ...)                                                           \
    WEFT_C_LINKAGE weft_status weft_launch_##name(                                                 \
        WEFT_LAUNCH_PARAMS, WEFT_PP_MAP(WEFT_PP_DECLARE, WEFT_PP_COMMA, __VA_ARGS__))

/* The kernel's descriptor. The CUDA half, if the program links it, defines the hidden symbol. */
#define WEFT_KERNEL_DESCRIBE(name, args_bytes, n_params, offsets, sizes)                           \
    WEFT_C_LINKAGE const struct weft_kernel_cuda weft_kernel_cuda_##name                           \
        __attribute__((weak, visibility("hidden")));                                               \
    WEFT_C_LINKAGE const struct weft_kernel weft_kernel_##name;                                    \
    const struct weft_kernel weft_kernel_##name = {                                                \
        #name, weft_simt_thunk_##name, &weft_kernel_cuda_##name, args_bytes, n_params, offsets,    \
        sizes}

#define WEFT_KERNEL_0(name)                                                                        \
    static void weft_simt_kernel_##name(void);                                                     \
    static void weft_simt_thunk_##name(const void *weft_raw)                                       \
    {                                                                                              \
        (void)weft_raw;                                                                            \
        weft_simt_kernel_##name();                                                                 \
    }                                                                                              \
    WEFT_KERNEL_DESCRIBE(name, 0, 0, NULL, NULL);                                                  \
    WEFT_KERNEL_DECLARE_0(name);                                                                   \
    weft_status weft_launch_##name(WEFT_LAUNCH_PARAMS)                                             \
    {                                                                                              \
        return weft_launch(&weft_kernel_##name, weft_flags, weft_grid, weft_block, weft_shared,    \
                           weft_on, NULL);                                                         \
    }                                                                                              \
    static void weft_simt_kernel_##name(void)

#define WEFT_KERNEL_N(name, ...)                                                                   \
    struct weft_args_##name {                                                                      \
        WEFT_PP_MAP(WEFT_PP_FIELD, WEFT_PP_NOTHING, __VA_ARGS__)                                   \
    };                                                                                             \
    static void weft_simt_kernel_##name(WEFT_PP_MAP(WEFT_PP_DECLARE, WEFT_PP_COMMA, __VA_ARGS__)); \
    static void weft_simt_thunk_##name(const void *weft_raw)                                       \
    {                                                                                              \
        const struct weft_args_##name *weft_args = (const struct weft_args_##name *)weft_raw;      \
        weft_simt_kernel_##name(WEFT_PP_MAP(WEFT_PP_MEMBER, WEFT_PP_COMMA, __VA_ARGS__));          \
    }                                                                                              \
    static const size_t weft_offsets_##name[] = {                                                  \
        WEFT_PP_OFFSETS(struct weft_args_##name, __VA_ARGS__)};                                    \
    static const size_t weft_sizes_##name[] = {                                                    \
        WEFT_PP_MAP(WEFT_PP_SIZE, WEFT_PP_COMMA, __VA_ARGS__)};                                    \
    WEFT_KERNEL_DESCRIBE(name, sizeof(struct weft_args_##name), WEFT_PP_COUNT(name, __VA_ARGS__),  \
                         weft_offsets_##name, weft_sizes_##name);                                  \
    WEFT_KERNEL_DECLARE_N(name, __VA_ARGS__);                                                      \
    weft_status weft_launch_##name(WEFT_LAUNCH_PARAMS,                                             \
                                   WEFT_PP_MAP(WEFT_PP_DECLARE, WEFT_PP_COMMA, __VA_ARGS__))       \
    {                                                                                              \
        struct weft_args_##name weft_args = {                                                      \
            WEFT_PP_MAP(WEFT_PP_NAME, WEFT_PP_COMMA, __VA_ARGS__)};                                \
        return weft_launch(&weft_kernel_##name, weft_flags, weft_grid, weft_block, weft_shared,    \
                           weft_on, &weft_args);                                                   \
    }                                                                                              \
    static void weft_simt_kernel_##name(WEFT_PP_MAP(WEFT_PP_DECLARE, WEFT_PP_COMMA, __VA_ARGS__))

#endif

#endif

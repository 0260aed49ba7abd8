/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of NCCL's names: processes that are ranks, memory of the GPU by the driver,
 * and checks that print their location. Compiled against Weft's header and against NVIDIA's. */
#ifndef WEFT_TESTS_NCCL_TEST_H
#define WEFT_TESTS_NCCL_TEST_H

#include <dlfcn.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank %d: CHECK(%s) failed; last error: %s\n", __FILE__,        \
                    __LINE__, me, #condition, ncclGetLastError(NULL));                             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "%s:%d: rank %d: %s gave %d (%s): %s\n", __FILE__, __LINE__, me,       \
                    #call, (int)result_, ncclGetErrorString(result_), ncclGetLastError(NULL));     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* The call gives this result, and its sentence contains this text. */
#define FAILS(call, wanted, text)                                                                  \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != (wanted) || !strstr(ncclGetLastError(NULL), text)) {                        \
            fprintf(stderr, "%s:%d: rank %d: %s gave %d (wanted %s): %s (wanted \"%s\")\n",        \
                    __FILE__, __LINE__, me, #call, (int)result_, #wanted, ncclGetLastError(NULL),  \
                    text);                                                                         \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static _Thread_local int me = -1;
static int ranks;

static struct {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*device_count)(int *);
    int (*retain)(void **, int);
    int (*set)(void *);
    int (*alloc)(unsigned long long *, size_t);
    int (*free)(unsigned long long);
    int (*to_gpu)(unsigned long long, const void *, size_t);
    int (*from_gpu)(void *, unsigned long long, size_t);
    int (*copy_on)(unsigned long long, unsigned long long, size_t, cudaStream_t);
    int (*stream_create)(cudaStream_t *, unsigned);
    int (*stream_synchronize)(cudaStream_t);
    int (*stream_destroy)(cudaStream_t);
    int (*event_create)(cudaEvent_t *, unsigned);
    int (*event_elapsed)(float *, cudaEvent_t, cudaEvent_t);
    int (*event_destroy)(cudaEvent_t);
} cuda;

static void load_function(void *library, void *at, const char *name)
{
    *(void **)at = dlsym(library, name);
    CHECK(*(void **)at);
}

/* Makes GPU `device` current. Exit 77: there is none. */
static inline void use_gpu(int device)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context;
    int found = 0, n = 0;
    if (!library)
        _exit(77);
    load_function(library, &cuda.init, "cuInit");
    load_function(library, &cuda.device_get, "cuDeviceGet");
    load_function(library, &cuda.device_count, "cuDeviceGetCount");
    load_function(library, &cuda.retain, "cuDevicePrimaryCtxRetain");
    load_function(library, &cuda.set, "cuCtxSetCurrent");
    load_function(library, &cuda.alloc, "cuMemAlloc_v2");
    load_function(library, &cuda.free, "cuMemFree_v2");
    load_function(library, &cuda.to_gpu, "cuMemcpyHtoD_v2");
    load_function(library, &cuda.from_gpu, "cuMemcpyDtoH_v2");
    load_function(library, &cuda.copy_on, "cuMemcpyAsync");
    load_function(library, &cuda.stream_create, "cuStreamCreate");
    load_function(library, &cuda.stream_synchronize, "cuStreamSynchronize");
    load_function(library, &cuda.stream_destroy, "cuStreamDestroy_v2");
    load_function(library, &cuda.event_create, "cuEventCreate");
    load_function(library, &cuda.event_elapsed, "cuEventElapsedTime");
    load_function(library, &cuda.event_destroy, "cuEventDestroy_v2");
    if (cuda.init(0) || cuda.device_count(&n) || !n)
        _exit(77);
    CHECK(!cuda.device_get(&found, device % n));
    CHECK(!cuda.retain(&context, found));
    CHECK(!cuda.set(context));
}

static inline void *gpu_memory(size_t bytes)
{
    unsigned long long at = 0;
    CHECK(!cuda.alloc(&at, bytes ? bytes : 1));
    return (void *)(uintptr_t)at;
}

static inline void gpu_free(void *address)
{
    CHECK(!cuda.free((uintptr_t)address));
}

/* The driver may still be moving pageable memory when its copy returns. */
static inline void to_gpu(void *at, const void *from, size_t bytes)
{
    CHECK(!bytes || !cuda.to_gpu((uintptr_t)at, from, bytes));
    CHECK(!cuda.stream_synchronize(NULL));
}

static inline void from_gpu(void *to, const void *at, size_t bytes)
{
    CHECK(!bytes || !cuda.from_gpu(to, (uintptr_t)at, bytes));
}

static inline void finish(cudaStream_t stream)
{
    CHECK(!cuda.stream_synchronize(stream));
}

/* Runs body(id) in `n` processes, each a rank, and returns the exit status: 0, 77 where all skip,
 * else 1. expected: exit status of rank r that is no failure, or NULL. */
static inline int run_ranks(int n, void (*body)(ncclUniqueId id), const int *expected)
{
    int pipes[64][2], status, failed = 0, skipped = 0;
    pid_t children[64];
    ranks = n;
    for (int r = 0; r < n; r++)
        CHECK(!pipe(pipes[r]));
    for (int r = 0; r < n; r++) {
        children[r] = fork();
        CHECK(children[r] >= 0);
        if (children[r])
            continue;
        ncclUniqueId id;
        me = r;
        use_gpu(r);
        if (!r)
            OK(ncclGetUniqueId(&id));
        for (int to = 1; to < n && !r; to++)
            CHECK(write(pipes[to][1], &id, sizeof id) == sizeof id);
        if (r)
            CHECK(read(pipes[r][0], &id, sizeof id) == sizeof id);
        body(id);
        exit(0);
    }
    for (int r = 0; r < n; r++) {
        CHECK(waitpid(children[r], &status, 0) == children[r]);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        skipped += code == 77;
        failed += code != 77 && code != (expected ? expected[r] : 0);
        if (code && code != 77 && code != (expected ? expected[r] : 0))
            fprintf(stderr, "rank %d ended with %d\n", r, code);
    }
    return failed ? 1 : skipped ? 77 : 0;
}

/* Random numbers that all ranks draw alike. */
static inline uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return below ? (uint32_t)(*state >> 33) % below : 0;
}

#endif

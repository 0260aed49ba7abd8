/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the operations on streams that the library's own kernel does (src/nvshmem/run.cu), from
 * a program of host code: p, iput, iget, waits and sync, reductions of types that the host API does
 * not have, and the first use of a job in a captured graph, in two jobs of one process. With the
 * argument "launches" results are not compared: the stand-in of the driver does not run the kernel.
 */
#include "values.h"

#include "tests/gpu/own_memory.h"

#include <stdbool.h>

enum { WORDS = 700, N = 100, CAPTURE_GLOBAL = 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL */ };

static struct gpu_api driver;
static CUstream stream;
static bool launches_alone;
static int *source, *seen;
static uint64_t *flag;
static uint16_t *halves;

static void use_gpu(void)
{
    CUcontext context;
    int ordinal;
    OWN_MEMORY_DO(driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                             (uintptr_t)source));
    OWN_MEMORY_DO(driver.DevicePrimaryCtxRetain(&context, ordinal));
    OWN_MEMORY_DO(driver.CtxPushCurrent(context));
    OWN_MEMORY_DO(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

#define EXPECT(condition, ...) CHECK(launches_alone || (condition), __VA_ARGS__)

static void wait_for_stream(void)
{
    CHECK(!driver.StreamSynchronize(stream), "%s", weft_last_error());
    nvshmem_barrier_all();
}

static void expect(int pe, int each, int stride, const char *what)
{
    int values[WORDS];
    nvshmem_int_get(values, seen, WORDS, me);
    for (int i = 0; i < N; i++) {
        EXPECT(values[stride * i] == 1000 * pe + each * i, "%s: element %d is %d", what, i,
               values[stride * i]);
        for (int k = 1; k < stride; k++)
            EXPECT(values[stride * i + k] == 0, "%s: a gap after element %d is %d", what, i,
                   values[stride * i + k]);
    }
    memset(values, 0, sizeof values);
    nvshmem_int_put(seen, values, WORDS, me);
    nvshmem_barrier_all();
}

static void first_use_in_a_graph(void)
{
    CUgraph graph;
    CUgraphExec made;
    OWN_MEMORY_DO(driver.StreamBeginCapture(stream, CAPTURE_GLOBAL));
    nvshmemx_sync_all_on_stream((cudaStream_t)stream);
    nvshmemx_int_iput_on_stream(seen, source, 2, 3, N, next, (cudaStream_t)stream);
    OWN_MEMORY_DO(driver.StreamEndCapture(stream, &graph));
    OWN_MEMORY_DO(driver.GraphInstantiate(&made, graph, 0));
    for (int i = 0; i < 3; i++)
        OWN_MEMORY_DO(driver.GraphLaunch(made, stream));
    wait_for_stream();
    expect(prev, 3, 2, "iput of a graph");
    OWN_MEMORY_DO(driver.GraphExecDestroy(made));
    OWN_MEMORY_DO(driver.GraphDestroy(graph));
}

static void on_the_stream(void)
{
    nvshmemx_int_iput_on_stream(seen, source, 3, 2, N, next, (cudaStream_t)stream);
    wait_for_stream();
    expect(prev, 2, 3, "iput");
    nvshmemx_int_iget_on_stream(seen, source, 1, 6, N, next, (cudaStream_t)stream);
    wait_for_stream();
    expect(next, 6, 1, "iget");
    nvshmemx_uint64_p_on_stream(flag, 77 + (uint64_t)me, next, (cudaStream_t)stream);
    nvshmemx_uint64_wait_until_on_stream(flag, NVSHMEM_CMP_EQ, 77 + (uint64_t)prev,
                                         (cudaStream_t)stream);
    wait_for_stream();
    EXPECT(nvshmem_uint64_g(flag, me) == 77 + (uint64_t)prev, "p and wait");
}

/* A maximum of 1024 + 2 i + PE in binary16, whose last bit counts ones from 1024 on. */
static void reductions(void)
{
    uint16_t sent[N], got[N];
    for (int i = 0; i < N; i++)
        sent[i] = (uint16_t)(0x6400 + 2 * i + me);
    nvshmem_putmem(halves, sent, sizeof sent, me);
    nvshmem_barrier_all();
    CHECK(!nvshmem_half_max_reduce(NVSHMEM_TEAM_WORLD, (weft_nv_half *)(halves + N),
                                   (weft_nv_half *)halves, N),
          "%s", weft_last_error());
    nvshmem_getmem(got, halves + N, sizeof got, me);
    for (int i = 0; i < N; i++)
        EXPECT(got[i] == 0x6400 + 2 * i + n_pes - 1, "half %d is %#x", i, got[i]);
    nvshmem_barrier_all();
    int each = WORDS / n_pes, values[WORDS];
    CHECK(!nvshmem_int_max_reducescatter(NVSHMEM_TEAM_WORLD, seen, source, (size_t)each), "%s",
          weft_last_error());
    nvshmem_int_get(values, seen, (size_t)each, me);
    for (int i = 0; i < each; i++)
        EXPECT(values[i] == 1000 * (n_pes - 1) + me * each + i, "element %d is %d", i, values[i]);
    nvshmem_barrier_all();
}

static void job(bool captured)
{
    int values[WORDS];
    begin();
    source = nvshmem_calloc(WORDS, sizeof *source);
    seen = nvshmem_calloc(WORDS, sizeof *seen);
    flag = nvshmem_calloc(8, sizeof *flag);
    halves = nvshmem_calloc(2 * N, sizeof *halves);
    for (int i = 0; i < WORDS; i++)
        values[i] = 1000 * me + i;
    nvshmem_int_put(source, values, WORDS, me);
    nvshmem_barrier_all();
    use_gpu();
    if (captured)
        first_use_in_a_graph();
    on_the_stream();
    reductions();
    driver.StreamDestroy(stream);
    nvshmem_barrier_all();
    nvshmem_finalize();
}

int main(int argc, char **argv)
{
    launches_alone = argc > 1 && strcmp(argv[1], "launches") == 0;
    OWN_MEMORY_DO(gpu_api_open(&driver));
    job(false);
    job(true);
    return faults != 0;
}

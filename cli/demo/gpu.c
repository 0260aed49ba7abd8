/* SPDX-License-Identifier: Apache-2.0 */
/* The demo on GPU memory: puts called by the host, and puts called by kernels. Without a GPU the
 * same kernels run on CPU threads, to test the data and not the speed. */
#include "demo/demo.h"

#include "tool/tool.h"

#include <string.h>
#include <weft/gpu.h>

enum { HOST_PUT_BYTES = 16 << 20, KERNEL_PUT_BYTES = 1 << 20, KERNEL_BLOCKS = 16 };

/* Gives every PE the GPU index of every PE. */
static weft_status share_ordinals(struct demo *demo)
{
    weft_gpu_info info = {.size = sizeof info};
    weft_status status = weft_gpu_query(demo->bench.job, &info);
    for (int pe = 0; !status && pe < demo->bench.n && pe < DEMO_PES_MAX; pe++) {
        double ordinal = demo->bench.me == pe ? info.ordinal : -1;
        status = bench_combine(&demo->bench, WEFT_MAX, &ordinal);
        demo->gpu_of[pe] = (int)ordinal;
    }
    return status;
}

/* Whether every PE can access the GPU memory of every other PE. PE 0 keeps its own reason. */
static weft_status check_peer_access(struct demo *demo, bool *reach)
{
    struct bench *bench = &demo->bench;
    double good = 1;
    for (int pe = 0; pe < bench->n; pe++) {
        weft_gpu_pair pair = {.size = sizeof pair};
        weft_status status = weft_gpu_pair_query(bench->job, pe, &pair);
        if (status)
            return status;
        if (pair.usable)
            continue;
        good = 0;
        snprintf(demo->gpu_why, sizeof demo->gpu_why, "PE %d to PE %d: %s", bench->me, pe,
                 pair.evidence);
    }
    weft_status status = bench_combine(bench, WEFT_MIN, &good);
    *reach = good != 0;
    if (!*reach && !*demo->gpu_why)
        snprintf(demo->gpu_why, sizeof demo->gpu_why,
                 "the GPUs of other PEs have no peer access to each other");
    return status;
}

static weft_status measure_on(struct bench *bench, const char *name, size_t bytes,
                              struct bench_point *point)
{
    struct bench_case c;
    const struct bench_entry *entry = bench_find(name, bench->options);
    if (!entry)
        return base_fail(WEFT_ERR_UNSUPPORTED, "this build has no benchmark \"%s\"", name);
    weft_status status = bench_case_open(bench, entry, bytes, &c);
    if (!status)
        status = bench_measure(bench, &c, point);
    return status ? status : bench_case_close(bench, &c);
}

/* A bench on the demo's job with other options. */
static struct bench derive_bench(const struct demo *demo, const struct bench_options *options)
{
    struct bench bench = demo->bench;
    bench.options = options;
    return bench;
}

static weft_status measure_by_host(struct demo *demo, struct bench *bench,
                                   struct demo_gpu_pair *pair)
{
    struct bench_point small, large;
    weft_status status = measure_on(bench, "put", 8, &small);
    if (!status)
        status = measure_on(bench, "put", HOST_PUT_BYTES, &large);
    if (status)
        return status;
    pair->host_us = small.us_min;
    pair->host_gbps = (double)large.bytes / large.us_min / 1e3;
    pair->right &= small.verified == 1 && large.verified == 1;
    return WEFT_OK;
}

static weft_status measure_by_kernels(struct bench *thread, struct bench *block,
                                      struct demo_gpu_pair *pair)
{
    struct bench_point flag, put;
    weft_status status = measure_on(thread, "latency", 8, &flag);
    if (!status)
        status = measure_on(block, "put", KERNEL_PUT_BYTES, &put);
    if (status)
        return status;
    pair->kernel_us = flag.us_min;
    pair->kernel_gbps = put.gbps * put.us / put.us_min;
    pair->right &= flag.verified == 1 && put.verified == 1;
    return WEFT_OK;
}

/* Measures all pairs when there are few, else those of PE 0. */
static weft_status measure_pairs(struct demo *demo, struct bench *host, struct bench *thread,
                                 struct bench *block)
{
    int n = demo->bench.n;
    bool all = n * (n - 1) / 2 <= 6;
    weft_status status = WEFT_OK;
    for (int from = 0; !status && from < (all ? n : 1); from++)
        for (int to = from + 1; !status && to < n && demo->n_gpu_pairs < DEMO_PAIRS_MAX; to++) {
            struct demo_gpu_pair *pair = &demo->gpu_pairs[demo->n_gpu_pairs++];
            *pair = (struct demo_gpu_pair){.from = from, .to = to, .right = true};
            struct bench *benches[] = {host, thread, block};
            for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++) {
                benches[i]->from = from;
                benches[i]->to = to;
            }
            if (demo->gpus)
                status = measure_by_host(demo, host, pair);
            if (!status && demo->kernels)
                status = measure_by_kernels(thread, block, pair);
            thread->rounds = block->rounds = host->rounds;
        }
    return status;
}

weft_status demo_gpu(struct demo *demo)
{
    const struct bench_options *common = &demo->bench_options;
    bool cuda = demo->cuda, reach = true;
    struct bench_options host = *common, thread = *common, block = *common;
    host.target = TARGET_HOST;
    host.memory = MEMORY_GPU;
    thread.memory = block.memory = cuda ? MEMORY_GPU : MEMORY_HOST;
    thread.scope = SCOPE_THREAD;
    block.scope = SCOPE_BLOCK;
    thread.ctas = 1;
    block.ctas = cuda ? KERNEL_BLOCKS : 1;
    thread.threads = block.threads = cuda ? 1024 : 64;
    thread.target = block.target = cuda ? TARGET_CUDA : TARGET_SIMT;

    struct bench host_bench = derive_bench(demo, &host), thread_bench = derive_bench(demo, &thread),
                 block_bench = derive_bench(demo, &block);
    /* With GPUs, kernels are shown on GPUs only. */
    demo->kernels = cuda || !demo->gpus;
    weft_status status = WEFT_OK;
    if (demo->gpus)
        status = bench_flags_make(
            &host_bench); /* the first allocation of GPU memory initializes the GPU */
    if (status == WEFT_ERR_UNSUPPORTED && !cuda) {
        snprintf(demo->gpu_why, sizeof demo->gpu_why, "%s", weft_last_error());
        demo->gpus = 0;
        demo->kernels = true;
        status = WEFT_OK;
    }
    if (!status && demo->gpus)
        status = share_ordinals(demo);
    if (!status && demo->gpus)
        status = check_peer_access(demo, &reach);
    if (status || !reach)
        return status;
    if (demo->kernels)
        status = bench_device_prepare(&block_bench);
    thread_bench.device = block_bench.device;
    if (!status)
        status = measure_pairs(demo, &host_bench, &thread_bench, &block_bench);
    if (!status && demo->gpus)
        status = weft_free(demo->bench.job, host_bench.flags);
    return status;
}

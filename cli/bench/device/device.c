/* SPDX-License-Identifier: Apache-2.0 */
/* Device scopes of `weft bench`: chooses target, memory and grid, allocates memory and a stream,
 * and reads the times and errors that kernels record. */
#include "bench/device/device.h"

#include "tool/tool.h"

#include <stdlib.h>
#include <weft/device/control.h>

enum { SIMT_THREADS = 64, CUDA_THREADS = 1024, WARP = 32 };

/* Sets WEFT_TARGET before the job begins. A host-only benchmark gets simt, for which no GPU is
 * opened and no thread is started. */
void bench_device_set_target(const struct bench_options *options)
{
    setenv("WEFT_TARGET", options->target == TARGET_CUDA ? "cuda" : "simt", 1);
    if (bench_names_proxy(options))
        setenv("WEFT_TEST_PROXY", "always", 1);
    config_reset();
}

void bench_device_choose(struct bench_options *options)
{
    if (options->scope == SCOPE_HOST) {
        options->target = options->target == TARGET_COUNT ? TARGET_HOST : options->target;
        options->memory = options->memory == MEMORY_COUNT ? MEMORY_HOST : options->memory;
        return;
    }
    if (options->target == TARGET_COUNT)
        options->target = weft_target_get() == WEFT_CUDA ? TARGET_CUDA : TARGET_SIMT;
    bool cuda = options->target == TARGET_CUDA;
    if (options->memory == MEMORY_COUNT)
        options->memory = cuda ? MEMORY_GPU : MEMORY_HOST;
    if (!options->threads)
        options->threads = cuda ? CUDA_THREADS : SIMT_THREADS;
    if (!options->n_ctas)
        options->ctas_list[options->n_ctas++] = 1;
    options->ctas = options->ctas_list[0];
}

static weft_status allocate_zeroed(struct bench *bench, size_t bytes, void **address)
{
    return weft_alloc(bench->job, weft_device_kind(bench->job), bytes, 4096, WEFT_ALLOC_ZERO,
                      address);
}

/* weft_finalize() frees the memory. */
weft_status bench_device_prepare(struct bench *bench)
{
    static struct bench_device device;
    void *times = NULL, *words = NULL;
    if (bench->options->scope == SCOPE_HOST)
        return WEFT_OK;
    weft_status status = weft_device_start(bench->job);
    if (!status)
        status = weft_device_queue_mode(bench->job, (weft_queue_mode)bench->options->queues, NULL);
    if (!status)
        status = allocate_zeroed(bench, BENCH_CTAS_MAX * sizeof(struct device_times), &times);
    if (!status)
        status = allocate_zeroed(bench, 4096, &words);
    if (!status)
        status = weft_stream_create(&device.stream);
    device.times = times;
    device.flag = words;
    device.wrong = words ? (uint64_t *)words + 64 : NULL;
    bench->device = &device;
    return status;
}

static double units_of(const struct bench_options *options)
{
    int warps = (options->threads + WARP - 1) / WARP;
    int each = options->scope == SCOPE_THREAD ? options->threads
               : options->scope == SCOPE_WARP ? warps
                                              : 1;
    return (double)options->ctas * each;
}

double bench_units(const struct bench_options *options, const struct bench_entry *entry)
{
    return entry->by_units ? units_of(options) : 1;
}

unsigned device_unit_threads(const struct bench *bench)
{
    const struct bench_options *options = bench->options;
    return options->scope == SCOPE_THREAD ? 1
           : options->scope == SCOPE_WARP ? WARP
                                          : (unsigned)options->threads;
}

weft_status device_finish(struct bench *bench, unsigned blocks, double *ns, uint64_t *wrong)
{
    static struct device_times seen[BENCH_CTAS_MAX];
    uint64_t start = UINT64_MAX, end = 0, found = 0;
    weft_status status = weft_stream_synchronize(bench->device->stream);
    if (!status)
        status = weft_device_check(bench->job);
    if (!status)
        status =
            weft_get(bench->ctx, seen, bench->device->times, blocks * sizeof seen[0], bench->me);
    for (unsigned i = 0; !status && i < blocks; i++) {
        status = (weft_status)seen[i].status;
        found += seen[i].wrong;
        start = seen[i].start < start ? seen[i].start : start;
        end = seen[i].end > end ? seen[i].end : end;
    }
    if (wrong)
        *wrong = found;
    *ns += (double)(end - start);
    return status;
}

weft_status device_fill(struct bench *bench, void *words, size_t bytes, uint64_t seed)
{
    weft_stream stream = bench->device->stream;
    weft_status status = WEFT_LAUNCH(fill_words, 16, 64, 0, stream, words, (bytes + 7) / 8, seed);
    return status ? status : weft_stream_synchronize(stream);
}

weft_status device_holds(struct bench *bench, void *bytes, size_t n, size_t shift, uint64_t seed,
                         bool *right)
{
    struct bench_device *d = bench->device;
    uint64_t found = 0;
    weft_status status = weft_put(bench->ctx, d->wrong, &found, sizeof found, bench->me);
    if (!status)
        status = weft_quiet(bench->ctx);
    if (!status)
        status = WEFT_LAUNCH(check_bytes, 16, 64, 0, d->stream, bytes, n, shift, seed, d->wrong);
    if (!status)
        status = weft_stream_synchronize(d->stream);
    if (!status)
        status = weft_get(bench->ctx, &found, d->wrong, sizeof found, bench->me);
    *right = found == 0;
    return status;
}

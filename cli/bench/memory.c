/* SPDX-License-Identifier: Apache-2.0 */
/* Access by the host to a PE's own part of the measured memory, outside all timing: direct for
 * host memory; for GPU memory put and get to this PE itself through a bounce buffer. */
#include "bench/bench.h"

#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>

static bool is_gpu(const struct bench *bench)
{
    return bench->options->memory == MEMORY_GPU;
}

weft_status bench_alloc(struct bench *bench, size_t bytes, unsigned hints, void **address)
{
    return weft_alloc(bench->job, is_gpu(bench) ? WEFT_GPU : WEFT_HOST, bytes, 4096, hints,
                      address);
}

weft_status bench_write(struct bench *bench, void *own, const void *from, size_t bytes)
{
    if (!is_gpu(bench)) {
        memcpy(own, from, bytes);
        return WEFT_OK;
    }
    weft_status status = weft_put(bench->ctx, own, from, bytes, bench->me);
    return status ? status : weft_quiet(bench->ctx);
}

weft_status bench_read(struct bench *bench, void *to, const void *own, size_t bytes)
{
    if (is_gpu(bench))
        return weft_get(bench->ctx, to, own, bytes, bench->me);
    memcpy(to, own, bytes);
    return WEFT_OK;
}

static weft_status buffer_of(size_t bytes, void **buffer)
{
    *buffer = malloc(bytes);
    return *buffer ? WEFT_OK
                   : base_fail(WEFT_ERR_NO_MEMORY,
                               "no memory for %zu bytes to compare GPU memory with", bytes);
}

weft_status bench_set(struct bench *bench, void *own, size_t bytes, uint64_t seed)
{
    void *buffer;
    if (!is_gpu(bench)) {
        bench_fill(own, bytes, seed);
        return WEFT_OK;
    }
    weft_status status = buffer_of(bytes, &buffer);
    if (status)
        return status;
    bench_fill(buffer, bytes, seed);
    status = bench_write(bench, own, buffer, bytes);
    free(buffer);
    return status;
}

weft_status bench_has(struct bench *bench, const void *own, size_t bytes, uint64_t seed,
                      bool *right)
{
    void *buffer;
    if (!is_gpu(bench)) {
        *right = *right && bench_holds(own, bytes, seed);
        return WEFT_OK;
    }
    weft_status status = buffer_of(bytes, &buffer);
    if (status)
        return status;
    status = bench_read(bench, buffer, own, bytes);
    *right = *right && !status && bench_holds(buffer, bytes, seed);
    free(buffer);
    return status;
}

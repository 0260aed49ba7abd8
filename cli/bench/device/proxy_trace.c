/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench proxy --trace`: the steps of a put_signal and the following quiet, from the call
 * in the kernel through the proxy thread and back. */
#include "tool/proxy_trace.h"
#include "bench/device/device.h"
#include "device/proxy_kernels.h"
#include "device/steps.h"
#include "tool/tool.h"

#include <weft/device/control.h>

enum { TICKETS = 4096 };

static struct proxy_round round_of(const struct device_trace *device,
                                   const struct proxy_trace_times *times)
{
    const struct proxy_trace_times *put = &times[device->ticket % TICKETS];
    const struct proxy_trace_times *quiet = &times[device->quiet % TICKETS];
    return (struct proxy_round){
        {(double)device->called, (double)device->taken, (double)device->written, (double)put->seen,
         (double)put->decoded, (double)put->handed, (double)put->returned, (double)quiet->returned,
         (double)quiet->counted, (double)device->counted, (double)device->returned}};
}

static weft_status run_rounds(struct bench *bench, uint64_t *words, struct device_trace *trace,
                              int rounds)
{
    double ignored = 0;
    weft_status status = WEFT_LAUNCH(proxy_trace, 1, 1, 0, bench->device->stream, words, words + 8,
                                     bench->to, (uint64_t)rounds, trace, bench->device->times);
    return status ? status : device_finish(bench, 1, &ignored, NULL);
}

/* Leaves out the last round, whose end the proxy thread records while the round returns. */
static weft_status trace_proxy_rounds(struct bench *bench, uint64_t *words,
                                      struct device_trace *trace)
{
    static struct proxy_trace_times times[TICKETS];
    static struct device_trace seen[TRACE_ROUNDS];
    static struct proxy_round rounds[TRACE_ROUNDS];
    double mean[PROXY_STEPS];
    weft_status status = run_rounds(bench, words, trace, TRACE_WARM);
    if (!status)
        status = proxy_trace(bench->job, times, TICKETS);
    if (!status)
        status = run_rounds(bench, words, trace, TRACE_ROUNDS);
    if (!status)
        status = proxy_trace(bench->job, NULL, 0);
    if (!status)
        status = weft_get(bench->ctx, seen, trace, sizeof seen, bench->me);
    if (status)
        return status;
    for (int i = 0; i < TRACE_ROUNDS - 1; i++)
        rounds[i] = round_of(&seen[i], times);
    proxy_steps_average(rounds, TRACE_ROUNDS - 1, bench->options->target == TARGET_CUDA, mean);
    device_print_steps(bench, &(struct device_steps){
                                  .bench = "proxy_trace",
                                  .operation = "put_signal of 8 bytes and quiet through the proxy",
                                  .names = proxy_step_names,
                                  .ends = mean,
                                  .count = PROXY_STEPS,
                                  .rounds = TRACE_ROUNDS - 1,
                              });
    return WEFT_OK;
}

weft_status bench_proxy_trace(struct bench *bench)
{
    void *trace = NULL, *words = NULL;
    weft_status status =
        weft_alloc(bench->job, weft_device_kind(bench->job),
                   TRACE_ROUNDS * sizeof(struct device_trace), 0, WEFT_ALLOC_ZERO, &trace);
    if (!status)
        status = bench_alloc(bench, 4096, WEFT_ALLOC_ZERO, &words);
    if (!status && bench->me == bench->from)
        status = trace_proxy_rounds(bench, words, trace);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = weft_free(bench->job, words);
    return status ? status : weft_free(bench->job, trace);
}

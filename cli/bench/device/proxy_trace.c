/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench proxy --trace`: the steps of a put_signal and the following quiet, from the call
 * in the kernel through the proxy thread and back. */
#include "tool/proxy_trace.h"
#include "bench/device/device.h"
#include "device/proxy_kernels.h"
#include "device/steps.h"
#include "tool/tool.h"

#include <jansson.h>
#include <weft/device/control.h>

enum { ROUNDS = 1024, WARM = 128, TICKETS = 4096, STEPS = PROXY_STEPS };

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

static void print_proxy_steps(const struct bench *bench, const double mean[STEPS])
{
    printf("put_signal of 8 bytes and quiet through the proxy, PE %d to PE %d over %s, target %s, "
           "mean of %d\n",
           bench->from, bench->to, bench->path, bench_target_names[bench->options->target],
           ROUNDS - 1);
    printf("%-26s %12s %12s\n", "step", "took", "since call");
    for (int step = 0; step < STEPS; step++)
        printf("%-26s %12s %12s\n", proxy_step_names[step],
               bench_us_text((mean[step] - (step ? mean[step - 1] : 0)) / 1e3).text,
               bench_us_text(mean[step] / 1e3).text);
}

static void print_proxy_steps_json(const struct bench *bench, const double mean[STEPS])
{
    json_t *steps = json_array();
    for (int step = 0; step < STEPS; step++)
        json_array_append_new(steps,
                              json_pack("{s:s, s:f, s:f}", "step", proxy_step_names[step], "us",
                                        (mean[step] - (step ? mean[step - 1] : 0)) / 1e3,
                                        "since_call_us", mean[step] / 1e3));
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:o}", "bench", "proxy_trace", "path",
                  bench->path, "target", bench_target_names[bench->options->target], "from",
                  bench->from, "to", bench->to, "rounds", ROUNDS - 1, "steps", steps);
    json_dumpf(row, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(row);
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
    static struct device_trace seen[ROUNDS];
    static struct proxy_round rounds[ROUNDS];
    double mean[STEPS];
    weft_status status = run_rounds(bench, words, trace, WARM);
    if (!status)
        status = proxy_trace(bench->job, times, TICKETS);
    if (!status)
        status = run_rounds(bench, words, trace, ROUNDS);
    if (!status)
        status = proxy_trace(bench->job, NULL, 0);
    if (!status)
        status = weft_get(bench->ctx, seen, trace, sizeof seen, bench->me);
    if (status)
        return status;
    for (int i = 0; i < ROUNDS - 1; i++)
        rounds[i] = round_of(&seen[i], times);
    proxy_steps_average(rounds, ROUNDS - 1, bench->options->target == TARGET_CUDA, mean);
    if (bench->options->json)
        print_proxy_steps_json(bench, mean);
    else
        print_proxy_steps(bench, mean);
    return WEFT_OK;
}

weft_status bench_proxy_trace(struct bench *bench)
{
    void *trace = NULL, *words = NULL;
    weft_status status =
        weft_alloc(bench->job, weft_device_kind(bench->job), ROUNDS * sizeof(struct device_trace),
                   0, WEFT_ALLOC_ZERO, &trace);
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

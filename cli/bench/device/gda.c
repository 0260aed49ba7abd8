/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda: a put and its completion, and `weft bench gda --trace`, the steps of one put from
 * the call in the kernel to the completion that the NIC writes. */
#include "bench/device/device.h"
#include "device/gda_kernels.h"

#include <weft/device/control.h>

/* --------------------------------------------------------------------------------- put_quiet */

weft_status device_put_quiet_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                 double *ns)
{
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = WEFT_LAUNCH(put_quiet, 1, 1, 0, bench->device->stream, c->dst, c->src,
                                     bench->to, iterations, bench->device->times);
    return status ? status : device_finish(bench, 1, ns, NULL);
}

weft_status device_put_quiet_check(struct bench *bench, struct bench_case *c, bool *right)
{
    double ignored = 0;
    weft_status status = device_fill(bench, c->src, 8, SENT);
    if (!status)
        status = device_fill(bench, c->dst, 8, STALE);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = device_put_quiet_run(bench, c, 1, &ignored);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status && bench->me == bench->to)
        status = device_holds(bench, c->dst, 8, 0, SENT, right);
    return status;
}

/* ------------------------------------------------------------------------------------- trace */

enum { GDA_STEPS = 8, ADAPTER = 6 };

static const char *const step_names[GDA_STEPS] = {
    "slot reserved", "queue has space", "request written",     "doorbell record",
    "doorbell rung", "turn passed",     "done by the adapter", "completion seen",
};

/* Offset to add to the NIC's clock to get the device's clock, chosen so that the fastest forward
 * and return times are equal. 0 when both read one clock. */
static double clock_offset(const struct bench *bench, const struct gda_trace *seen)
{
    double there = 1e300, back = 1e300;
    if (bench->options->target == TARGET_SIMT)
        return 0;
    for (int i = 0; i < TRACE_ROUNDS; i++) {
        double out = (double)seen[i].stamp - (double)seen[i].rung;
        double in = (double)seen[i].seen - (double)seen[i].stamp;
        there = out < there ? out : there;
        back = in < back ? in : back;
    }
    return (back - there) / 2;
}

/* Mean end of each step in ns since the call. */
static void average_steps(const struct bench *bench, const struct gda_trace *seen,
                          double mean[GDA_STEPS])
{
    double offset = clock_offset(bench, seen);
    for (int step = 0; step < GDA_STEPS; step++)
        mean[step] = 0;
    for (int i = 0; i < TRACE_ROUNDS; i++) {
        const uint64_t ends[GDA_STEPS] = {seen[i].reserved, seen[i].waited, seen[i].written,
                                          seen[i].recorded, seen[i].rung,   seen[i].passed,
                                          seen[i].stamp,    seen[i].seen};
        for (int step = 0; step < GDA_STEPS; step++)
            mean[step] +=
                ((double)ends[step] - (double)seen[i].called + (step == ADAPTER ? offset : 0)) /
                TRACE_ROUNDS;
    }
}

static weft_status trace_gda_rounds(struct bench *bench, uint64_t *word, struct gda_trace *trace)
{
    static struct gda_trace seen[TRACE_ROUNDS];
    static const int rounds[] = {TRACE_WARM, TRACE_ROUNDS};
    double mean[GDA_STEPS], ignored = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && !status; i++) {
        status = WEFT_LAUNCH(gda_trace, 1, 1, 0, bench->device->stream, word, bench->to,
                             (uint64_t)rounds[i], trace, bench->device->times);
        if (!status)
            status = device_finish(bench, 1, &ignored, NULL);
    }
    if (!status)
        status = weft_get(bench->ctx, seen, trace, sizeof seen, bench->me);
    if (status)
        return status;
    average_steps(bench, seen, mean);
    device_print_steps(bench, &(struct device_steps){
                                  .bench = "gda_trace",
                                  .operation = "put of 8 bytes by one thread and its completion",
                                  .names = step_names,
                                  .ends = mean,
                                  .count = GDA_STEPS,
                                  .rounds = TRACE_ROUNDS,
                              });
    return WEFT_OK;
}

weft_status bench_gda_trace(struct bench *bench)
{
    void *trace = NULL, *word = NULL;
    weft_status status =
        weft_alloc(bench->job, weft_device_kind(bench->job),
                   TRACE_ROUNDS * sizeof(struct gda_trace), 0, WEFT_ALLOC_ZERO, &trace);
    if (!status)
        status = bench_alloc(bench, 4096, WEFT_ALLOC_ZERO, &word);
    if (!status && bench->me == bench->from)
        status = trace_gda_rounds(bench, word, trace);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = weft_free(bench->job, word);
    return status ? status : weft_free(bench->job, trace);
}

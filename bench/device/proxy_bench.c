/* SPDX-License-Identifier: Apache-2.0 */
/* weft_proxy_bench: measures the proxy alone and the steps of an operation through it, as `weft
 * bench proxy` and its --trace do, for builds without the command's libraries.
 *
 *     weft run -n 1 weft_proxy_bench      (2: to PE 1, over the path that the host uses)
 *
 * PE 0 measures. Buffers are GPU memory on cuda and then pinned host memory. */
#include "proxy_kernels.h"
#include "report.h"
#include "steps.h"

#include "tool/proxy_trace.h"

#include <stdio.h>
#include <stdlib.h>

#include <weft/device/control.h>

enum { REPEATS = 9, ROUNDS = 1024, TICKETS = 4096, THREADS = 1024, SIMT_THREADS = 64 };

static struct report report = {.side = "weft"};
static weft_job *job;
static int me, peer, on_gpu;
static struct device_times *times;
static struct device_trace *trace;

static void check(weft_status status, const char *call)
{
    if (!status)
        return;
    fprintf(stderr, "weft_proxy_bench: %s: %s: %s\n", call, weft_status_name(status),
            weft_last_error());
    if (job)
        weft_abort(job, 1);
    exit(1);
}

#define CHECK(call) check((call), #call)

static void *symmetric(weft_kind kind, size_t bytes)
{
    void *address;
    CHECK(weft_alloc(job, kind, bytes, 4096, WEFT_ALLOC_ZERO, &address));
    return address;
}

/* Returns the ns of a launch that has ended. */
static double launch_ns(void)
{
    struct device_times seen;
    CHECK(weft_stream_synchronize(NULL));
    CHECK(weft_device_check(job));
    CHECK(weft_get(weft_default_ctx(job), &seen, times, sizeof seen, me));
    check((weft_status)seen.status, "kernel");
    return (double)(seen.end - seen.start);
}

/* Prints us per operation of one thread, or million operations per second of all threads of a
 * block. */
static void print_row(const char *name, int what, uint64_t *words, uint64_t rounds)
{
    double values[REPEATS];
    int all = what == PROXIED_EMPTY || what == PROXIED_P;
    unsigned threads = !all ? 1 : on_gpu ? THREADS : SIMT_THREADS;
    for (int i = -1; i < REPEATS; i++) {
        CHECK(WEFT_LAUNCH(proxied, 1, threads, 0, NULL, what, words, words + 2 * THREADS, peer,
                          rounds, times));
        double ns = launch_ns() / (double)rounds / threads;
        if (i >= 0)
            values[i] = all ? 1 / ns : ns / 1e3;
    }
    report_row(&report, name, all ? "G/s" : "us", values, REPEATS);
}

static void print_rows(const char *kind, uint64_t *words)
{
    print_row(row_name("proxy.p.%s", kind), PROXIED_P, words, 200);
    print_row(row_name("proxy.put.%s", kind), PROXIED_PUT, words, 500);
    print_row(row_name("proxy.put_signal.%s", kind), PROXIED_PUT_SIGNAL, words, 500);
    print_row(row_name("proxy.g.%s", kind), PROXIED_G, words, 500);
}

static struct proxy_round round_of(const struct device_trace *device,
                                   const struct proxy_trace_times *host)
{
    const struct proxy_trace_times *put = &host[device->ticket % TICKETS];
    const struct proxy_trace_times *quiet = &host[device->quiet % TICKETS];
    return (struct proxy_round){
        {(double)device->called, (double)device->taken, (double)device->written, (double)put->seen,
         (double)put->decoded, (double)put->handed, (double)put->returned, (double)quiet->returned,
         (double)quiet->counted, (double)device->counted, (double)device->returned}};
}

static void steps(const char *kind, uint64_t *words)
{
    static struct proxy_trace_times host[TICKETS];
    static struct device_trace seen[ROUNDS];
    static struct proxy_round rounds[ROUNDS];
    double since_call[PROXY_STEPS];
    CHECK(proxy_trace(job, host, TICKETS));
    CHECK(WEFT_LAUNCH(proxy_trace, 1, 1, 0, NULL, words, words + 2 * THREADS, peer, ROUNDS, trace,
                      times));
    launch_ns();
    CHECK(proxy_trace(job, NULL, 0));
    CHECK(weft_get(weft_default_ctx(job), seen, trace, sizeof seen, me));
    /* the last trace entry is written while the kernel returns */
    for (int i = 0; i < ROUNDS - 1; i++)
        rounds[i] = round_of(&seen[i], host);
    proxy_steps_average(rounds, ROUNDS - 1, on_gpu, since_call);
    printf(
        "put_signal of 8 bytes and quiet through the proxy, %s memory, PE 0 to PE %d, mean of %d\n",
        kind, peer, ROUNDS - 1);
    for (int i = 0; i < PROXY_STEPS; i++)
        printf("%-26s %10.3f us %10.3f us since the call\n", proxy_step_names[i],
               (since_call[i] - (i ? since_call[i - 1] : 0)) / 1e3, since_call[i] / 1e3);
}

static void measure(uint64_t *own, uint64_t *host)
{
    report_begin(&report, on_gpu ? "The proxy's ring in pinned memory of this machine."
                                 : "Figures of the stand-in, not of a GPU.");
    print_row("proxy.empty", PROXIED_EMPTY, host, 500);
    print_row("proxy.trip", PROXIED_TRIP, host, 1000);
    print_rows("host", host);
    steps("host", host);
    if (!on_gpu)
        return;
    print_rows("gpu", own);
    steps("gpu", own);
}

int main(void)
{
    setenv("WEFT_TEST_PROXY", "always", 1);
    CHECK(weft_init(&job, NULL));
    CHECK(weft_device_start(job));
    me = weft_my_pe(job);
    peer = weft_n_pes(job) > 1;
    on_gpu = weft_target_get() == WEFT_CUDA;
    report.target = weft_target_name(weft_target_get());
    report.pes = weft_n_pes(job);
    weft_kind kind = weft_device_kind(job);
    times = symmetric(kind, sizeof *times);
    trace = symmetric(kind, ROUNDS * sizeof *trace);
    uint64_t *host = symmetric(WEFT_HOST, 4 * THREADS * sizeof *host);
    uint64_t *own = symmetric(kind, 4 * THREADS * sizeof *own);
    CHECK(weft_barrier(weft_team_world(job)));
    if (me == 0)
        measure(own, host);
    CHECK(weft_barrier(weft_team_world(job)));
    CHECK(weft_finalize(job));
    return 0;
}

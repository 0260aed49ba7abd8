/* SPDX-License-Identifier: Apache-2.0 */
/* Small transfers between host memory and GPU memory: by the CPU through mappings (weft/map.h,
 * and put and get of the host), and by the driver, in one run. `src` and `dst` of a case are GPU
 * memory; the host buffers, plain and pinned, belong to this file. */
#include "bench/bench.h"

#include "tool/gpu_copies.h"
#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>
#include <weft/gpu.h>
#include <weft/map.h>

/* Host memory of a transfer. */
struct map_side {
    char *at;
    bool pinned;
};

static weft_status side_open(struct bench *bench, size_t bytes, bool pinned, struct map_side *side)
{
    *side = (struct map_side){aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), pinned};
    if (!side->at)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
    bench_fill(side->at, bytes, 7);
    weft_status status = pinned ? weft_register(bench->job, side->at, bytes) : WEFT_OK;
    if (status) {
        free(side->at);
        *side = (struct map_side){0};
    }
    return status;
}

static void side_close(struct bench *bench, struct map_side *side)
{
    if (side->pinned)
        weft_unregister(bench->job, side->at);
    free(side->at);
}

typedef weft_status act(struct bench *bench, struct bench_case *c, char *host);

static weft_status act_put(struct bench *bench, struct bench_case *c, char *host)
{
    return weft_put(bench->ctx, c->dst, host, c->bytes, bench->to);
}

static weft_status act_get(struct bench *bench, struct bench_case *c, char *host)
{
    return weft_get(bench->ctx, host, c->src, c->bytes, bench->to);
}

static weft_status act_copy_to(struct bench *bench, struct bench_case *c, char *host)
{
    return weft_copy_to(bench->job, c->dst, host, c->bytes);
}

static weft_status act_copy_to_flush(struct bench *bench, struct bench_case *c, char *host)
{
    weft_status status = weft_copy_to(bench->job, c->dst, host, c->bytes);
    return status ? status : weft_copy_flush(bench->job, c->dst);
}

static weft_status act_copy_from(struct bench *bench, struct bench_case *c, char *host)
{
    return weft_copy_from(bench->job, host, c->src, c->bytes);
}

static weft_status act_driver_to(struct bench *bench, struct bench_case *c, char *host)
{
    return driver_copy(bench->job, c->dst, host, c->bytes, true);
}

static weft_status act_driver_from(struct bench *bench, struct bench_case *c, char *host)
{
    return driver_copy(bench->job, host, c->src, c->bytes, false);
}

static weft_status repeat_copy(struct bench *bench, struct bench_case *c, act *act, bool pinned,
                               bool driver, uint64_t iterations, double *ns)
{
    struct map_side side;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = side_open(bench, c->bytes, pinned, &side);
    if (status)
        return status;
    status = driver ? driver_copies_begin(bench->job) : WEFT_OK;
    if (!status) {
        status = act(bench, c, side.at); /* the first call includes the setup */
        uint64_t start = bench_now_ns();
        for (uint64_t i = 0; i < iterations && !status; i++)
            status = act(bench, c, side.at);
        if (!status)
            status = weft_quiet(bench->ctx);
        *ns += (double)(bench_now_ns() - start);
        if (driver)
            driver_copies_end(bench->job);
    }
    side_close(bench, &side);
    return status;
}

/* PE `from` copies; then PE `at` must have the data in its GPU memory, or `from` in its host
 * memory. */
static weft_status check_copied(struct bench *bench, struct bench_case *c, act *act, bool in,
                                bool pinned, bool driver, int at, bool *right)
{
    struct map_side side = {0};
    weft_status status = bench_set(bench, c->src, c->bytes, 3);
    if (!status)
        status = bench_set(bench, c->dst, c->bytes, 5);
    if (!status)
        status = weft_barrier(bench->world);
    bool acts = !status && bench->me == bench->from;
    if (acts) {
        status = side_open(bench, c->bytes, pinned, &side);
        if (!status && driver)
            status = driver_copies_begin(bench->job);
        if (!status)
            status = act(bench, c, side.at);
        if (!status && driver)
            driver_copies_end(bench->job);
    }
    weft_status end = weft_barrier(bench->world);
    status = status ? status : end;
    if (!status && in && bench->me == at)
        status = bench_has(bench, c->dst, c->bytes, 7, right);
    if (acts && !in && side.at)
        *right = *right && bench_holds(side.at, c->bytes, 3);
    if (acts)
        side_close(bench, &side);
    return status;
}

#define ROW(name, act, in, pinned, driver, at)                                                     \
    weft_status name##_run(struct bench *bench, struct bench_case *c, uint64_t n, double *ns)      \
    {                                                                                              \
        return repeat_copy(bench, c, act, pinned, driver, n, ns);                                  \
    }                                                                                              \
    weft_status name##_check(struct bench *bench, struct bench_case *c, bool *right)               \
    {                                                                                              \
        return check_copied(bench, c, act, in, pinned, driver, at, right);                         \
    }

/* Time of reading the clock, in ns. */
static double clock_ns(void)
{
    enum { LOOKS = 1000 };
    uint64_t start = bench_now_ns();
    for (int i = 1; i < LOOKS; i++)
        bench_now_ns();
    return (double)(bench_now_ns() - start) / LOOKS;
}

/* Back to back, a copy waits for the fence of the previous one; after a pause it does not. */
weft_status map_copy_to_single_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                   double *ns)
{
    enum { PAUSE_NS = 2000 };
    struct map_side side;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = side_open(bench, c->bytes, false, &side);
    if (status)
        return status;
    double clock = clock_ns(), all = 0;
    for (uint64_t i = 0; i < iterations && !status; i++) {
        uint64_t start = bench_now_ns(), now;
        while ((now = bench_now_ns()) - start < PAUSE_NS)
            continue;
        status = act_copy_to(bench, c, side.at);
        all += (double)(bench_now_ns() - now) - clock;
    }
    *ns += all;
    side_close(bench, &side);
    return status;
}

weft_status map_copy_to_single_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_copied(bench, c, act_copy_to, true, false, false, bench->from, right);
}

ROW(map_put, act_put, true, false, false, bench->to)
ROW(map_get, act_get, false, false, false, bench->from)
ROW(map_copy_to, act_copy_to, true, false, false, bench->from)
ROW(map_copy_to_flush, act_copy_to_flush, true, false, false, bench->from)
ROW(map_copy_to_pinned, act_copy_to, true, true, false, bench->from)
ROW(map_copy_from, act_copy_from, false, false, false, bench->from)
ROW(map_copy_from_pinned, act_copy_from, false, true, false, bench->from)
ROW(map_driver_to, act_driver_to, true, false, true, bench->from)
ROW(map_driver_to_pinned, act_driver_to, true, true, true, bench->from)
ROW(map_driver_from, act_driver_from, false, false, true, bench->from)
ROW(map_driver_from_pinned, act_driver_from, false, true, true, bench->from)

weft_status map_flag_run(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns)
{
    enum { MOST = 100000 }; /* limits the run time of the kernel */
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = WEFT_OK;
    for (uint64_t done = 0; done < iterations && !status;) {
        double part = 0;
        uint64_t now = iterations - done < MOST ? iterations - done : MOST, zero = 0;
        status = bench_write(bench, c->dst, &zero, sizeof zero);
        if (!status)
            status = flag_echo(bench->job, c->dst, now, &part);
        *ns += part;
        done += now;
    }
    return status;
}

/* flag_echo() fails when an answer is missing. */
weft_status map_flag_check(struct bench *bench, struct bench_case *c, bool *right)
{
    double ns = 0;
    weft_status status = map_flag_run(bench, c, 3, &ns);
    uint64_t last = 0;
    if (!status && bench->me == bench->from)
        status = bench_read(bench, &last, c->dst, sizeof last);
    *right = *right && (bench->me != bench->from || last == 3);
    weft_status end = weft_barrier(bench->world);
    return status ? status : end;
}

static weft_status run_windows(struct bench *bench, struct bench_case *c, enum map_window kind,
                               uint64_t iterations, double *ns)
{
    double all = 0;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = map_windows(bench->job, kind, c->bytes, iterations, &all);
    *ns += all;
    return status;
}

#define WINDOW(name, kind)                                                                         \
    weft_status name##_run(struct bench *bench, struct bench_case *c, uint64_t n, double *ns)      \
    {                                                                                              \
        return run_windows(bench, c, kind, n, ns);                                                 \
    }                                                                                              \
    weft_status name##_check(struct bench *bench, struct bench_case *c, bool *right)               \
    {                                                                                              \
        (void)bench, (void)c, (void)right; /* nothing is transferred */                            \
        return WEFT_OK;                                                                            \
    }

WINDOW(map_window, MAP_WINDOW_KEPT)
WINDOW(map_window_first, MAP_WINDOW_FIRST)
WINDOW(map_window_first_plain, MAP_WINDOW_FIRST_PLAIN)

/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how the shares of the routes of large copies follow from their measured rates. A model of
 * the links sets all times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "gpu/multipath/stripe_set.h"
#include "gpu/stream.h"

#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, LANE = 2 };

static struct gpu lead, others[GPU_ROUTES_MOST];
static struct gpu_stripes set;
/* rate: GB/s of a route alone; fixed_ms: added for each route after the first. */
static double rate[GPU_ROUTES_MOST], fixed_ms;
static double now_ms, begun_ms, ended_ms;
static int copies, calls, fails, events;
static char destroyed[64], dst, src;

static int step(void)
{
    return ++calls == fails;
}

/* Delays the test copies: the first over each route is slow, then every second one. */
static double noise(int ways)
{
    int i = copies++;
    if (i < 3 * ways)
        return i % 3 == 0 ? 50 : (i / 3 + i % 3) % 2 ? 0 : 4;
    return (i - 3 * ways) / 2 % 2 == (i - 3 * ways) % 2 ? 0 : 7;
}

static int ways_at_first;

weft_status __wrap_gpu_stripe_parts(struct gpu_stripes *of, unsigned lane, void *to,
                                    const void *from, size_t bytes, const unsigned *share);
weft_status __wrap_gpu_stripe_parts(struct gpu_stripes *of, unsigned lane, void *to,
                                    const void *from, size_t bytes, const unsigned *share)
{
    double longest = 0, sum = 0;
    int used = 0;
    assert_true(of == &set && lane == LANE && to == &dst && from == &src);
    assert_true(bytes == 8 * MIB || bytes == MIB);
    for (int i = 0; i < set.routes.n; i++) {
        int way = (int)(set.issuer[i] - others);
        double ms = (double)bytes * share[i] / GPU_STRIPE_WHOLE / rate[way] * 1e-6;
        longest = ms > longest ? ms : longest;
        sum += share[i];
        used += share[i] > 0;
    }
    assert_true(sum <= GPU_STRIPE_WHOLE && sum > GPU_STRIPE_WHOLE - GPU_ROUTES_MOST);
    now_ms += longest + (used - 1) * fixed_ms + noise(ways_at_first);
    return step() ? base_fail(WEFT_ERR_SYSTEM, "no part") : WEFT_OK;
}

weft_status __wrap_gpu_wait_stream(struct gpu *by, CUstream stream, const char *what);
weft_status __wrap_gpu_wait_stream(struct gpu *by, CUstream stream, const char *what)
{
    assert_ptr_equal(stream, lead.streams[LANE].stream);
    return step() ? base_fail(WEFT_ERR_TIMEOUT, "no end") : WEFT_OK;
}

static CUresult event_create(CUevent *event, unsigned flags)
{
    assert_int_equal(flags, 0);
    if (step())
        return CUDA_ERROR_UNKNOWN;
    *event = (CUevent)(uintptr_t)(0x100 + events++);
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    size_t used = strlen(destroyed);
    snprintf(destroyed + used, sizeof destroyed - used, "%lx ", (unsigned long)(uintptr_t)event);
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    assert_ptr_equal(stream, lead.streams[LANE].stream);
    *((uintptr_t)event == 0x100 ? &begun_ms : &ended_ms) = now_ms;
    return step() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult elapsed(float *ms, CUevent from, CUevent to)
{
    assert_true((uintptr_t)from == 0x100 && (uintptr_t)to == 0x101);
    *ms = (float)(ended_ms - begun_ms);
    return step() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

static void begin(int n, const double *rates, double fixed)
{
    memset(&set, 0, sizeof set);
    memcpy(rate, rates, (size_t)n * sizeof *rates);
    fixed_ms = fixed;
    now_ms = 0;
    copies = calls = fails = events = 0;
    destroyed[0] = '\0';
    ways_at_first = n;
    lead.driver = (struct gpu_api){.EventCreate = event_create,
                                   .EventDestroy = event_destroy,
                                   .EventRecord = event_record,
                                   .EventElapsedTime = elapsed,
                                   .GetErrorName = error_text,
                                   .GetErrorString = error_text};
    lead.streams[LANE].stream = (CUstream)0x77;
    lead.device.ordinal = 3;
    set.lead = &lead;
    set.measured_bytes = 8 * MIB;
    set.routes.n = n;
    for (int i = 0; i < n; i++) {
        set.issuer[i] = &others[i];
        set.routes.via[i] = i ? i + 4 : GPU_ROUTE_DIRECT;
        set.ended[i] = (CUevent)(uintptr_t)(i ? 0x10 + i : 0);
    }
}

static void each_way_has_a_share(void **state)
{
    static const struct {
        int n;
        double rates[4], fixed;
        int kept;
        unsigned share[3];
        int via[3];
        size_t from;
        const char *destroyed, *text;
    } rows[] = {
        {3,
         {20, 10, 1.5},
         0.02,
         2,
         {682, 341},
         {GPU_ROUTE_DIRECT, 5},
         0,
         "12 100 101 ",
         "striped from "},
        {3,
         {20, 1.5, 10},
         0,
         2,
         {682, 341},
         {GPU_ROUTE_DIRECT, 6},
         MIB,
         "11 100 101 ",
         "striped from 1024 KiB: direct 20.0 + GPU 6 10.0 = 30.0 GB/s measured"},
        {2,
         {1, 30},
         0,
         2,
         {0, 1024},
         {GPU_ROUTE_DIRECT, 5},
         MIB,
         "100 101 ",
         "striped from 1024 KiB: GPU 5 30.0 = 30.0 GB/s measured"},
        {2,
         {20, 20},
         0.4,
         1,
         {512, 512},
         {GPU_ROUTE_DIRECT, 5},
         0,
         "100 101 ",
         "one route: 2 routes were measured 0.69 times as fast as one (20.0 GB/s)"},
        {4,
         {40, 1, 2, 3},
         0,
         1,
         {1024},
         {GPU_ROUTE_DIRECT},
         0,
         "11 12 13 100 101 ",
         "one route: 4 routes were measured 1.00 times as fast as one (40.0 GB/s)"},
        {3,
         {10, 30, 20},
         0,
         3,
         {170, 512, 341},
         {GPU_ROUTE_DIRECT, 5, 6},
         MIB,
         "100 101 ",
         "striped from 1024 KiB: direct 10.0 + GPU 5 30.0 + GPU 6 20.0 = 60.0 GB/s measured"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(rows[i].n, rows[i].rates, rows[i].fixed);
        assert_int_equal(gpu_stripe_measure(&set, LANE, &dst, &src), WEFT_OK);
        assert_int_equal(set.routes.n, rows[i].kept);
        for (int k = 0; k < 3; k++) {
            assert_in_range(set.share[k] + 1, rows[i].share[k], rows[i].share[k] + 1);
            if (rows[i].share[k])
                assert_int_equal(set.routes.via[k], rows[i].via[k]);
        }
        assert_string_equal(destroyed, rows[i].destroyed);
        assert_int_equal(copies, 3 * rows[i].n + (rows[i].share[1] ? 8 : 4));
        if (rows[i].via[1] == 6)
            assert_ptr_equal(set.ended[1], (CUevent)0x12);
        if (rows[i].from)
            assert_int_equal(set.from, rows[i].from);
        assert_memory_equal(set.text, rows[i].text, strlen(rows[i].text));
        for (int k = rows[i].kept; k < rows[i].n && k < 3 && i != 3; k++)
            assert_null(set.ended[k]);
    }
}

/* Both times are linear in the size. Several routes are used from the size at which the lines
 * cross. */
static void the_size_is_where_the_times_meet(void **state)
{
    static const struct {
        double fixed;
        size_t kib;
    } rows[] = {{0.0251, 1472}, {0.0503, 3008}, {0.1, 5888}};
    static const double rates[] = {30, 30};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        begin(2, rates, rows[i].fixed);
        assert_int_equal(gpu_stripe_measure(&set, LANE, &dst, &src), WEFT_OK);
        assert_int_equal(set.routes.n, 2);
        assert_int_equal(set.from >> 10, rows[i].kib);
        snprintf(text, sizeof text,
                 "striped from %zu KiB: direct 30.0 + GPU 5 30.0 = ", rows[i].kib);
        assert_memory_equal(set.text, text, strlen(text));
    }
}

/* A copy takes five calls: two records, the fragments, the wait, the elapsed time. */
static void a_call_that_fails_ends_it(void **state)
{
    static const double rates[] = {20, 20};
    int all;
    begin(2, rates, 0);
    assert_int_equal(gpu_stripe_measure(&set, LANE, &dst, &src), WEFT_OK);
    all = calls;
    assert_int_equal(all, 2 + 5 * (2 * 3 + 8));
    for (int i = 1; i <= all; i++) {
        begin(2, rates, 0);
        fails = i;
        weft_status status = gpu_stripe_measure(&set, LANE, &dst, &src);
        assert_int_equal(status, i > 2 && (i - 3) % 5 == 3 ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM);
        assert_int_equal(calls, i);
        assert_string_equal(destroyed, i == 1 ? "" : i == 2 ? "100 " : "100 101 ");
        assert_string_equal(set.text, "");
        if (i <= 2)
            assert_non_null(strstr(base_last_error(), "cuEventCreate on GPU 3"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_has_a_share),
        cmocka_unit_test(the_size_is_where_the_times_meet),
        cmocka_unit_test(a_call_that_fails_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

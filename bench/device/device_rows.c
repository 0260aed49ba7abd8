/* SPDX-License-Identifier: Apache-2.0 */
/* See device_rows.h. */
#include "device_rows.h"

#include <time.h>

/* ------------------------------------------------------------------------------------ faults */

void fail_job(const char *what, weft_status status)
{
    fprintf(stderr, "weft_device_bench: PE %d: %s: %s: %s\n", bench.me, what,
            weft_status_name(status), weft_last_error());
    if (bench.job)
        weft_abort(bench.job, 1);
    exit(1);
}

void check(weft_status status, const char *call)
{
    if (status)
        fail_job(call, status);
}

double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

void barrier(void)
{
    CHECK(weft_barrier(bench.world));
}

/* Returns the maximum of the PEs' values, at every PE. */
double max_over_pes(double value)
{
    static double *two;
    void *address = two;
    if (!two)
        CHECK(weft_alloc(bench.job, WEFT_HOST, 2 * sizeof *two, 0, 0, &address));
    two = address;
    two[0] = value;
    CHECK(weft_allreduce(bench.world, &two[1], &two[0], 1, WEFT_DOUBLE, WEFT_MAX));
    return two[1];
}

/* --------------------------------------------------------------------- results of timed kernels */

/* Returns ns from the start of the first block to the end of the last one. Ends the job if a block
 * failed or found wrong data. */
double kernel_span_ns(const char *row, unsigned blocks)
{
    static struct device_times seen[4096];
    uint64_t start = UINT64_MAX, end = 0;
    CHECK(weft_get(bench.ctx, seen, bench.times, blocks * sizeof seen[0], bench.me));
    for (unsigned i = 0; i < blocks; i++) {
        if (seen[i].status) {
            weft_status status = weft_device_check(bench.job);
            fail_job(row, status ? status : (weft_status)seen[i].status);
        }
        if (seen[i].wrong) {
            fprintf(stderr, "weft_device_bench: PE %d: %s: %llu wrong words\n", bench.me, row,
                    (unsigned long long)seen[i].wrong);
            weft_abort(bench.job, 1);
        }
        start = seen[i].start < start ? seen[i].start : start;
        end = seen[i].end > end ? seen[i].end : end;
    }
    CHECK(weft_device_check(bench.job));
    return (double)(end - start);
}

/* Returns the number of wrong words that checking kernels found. */
uint64_t count_wrong_words(void)
{
    uint64_t found = 0;
    CHECK(weft_get(bench.ctx, &found, bench.wrong, sizeof found, bench.me));
    return found;
}

void clear_wrong(void)
{
    uint64_t zero = 0;
    CHECK(weft_put(bench.ctx, bench.wrong, &zero, sizeof zero, bench.me));
    CHECK(weft_quiet(bench.ctx));
}

int is_row_wanted(const char *row)
{
    return strncmp(row, bench.only, strlen(bench.only)) == 0;
}

/* Runs a measurement at all PEs together: once as warm-up, then as often as the median needs. */
void measure(const char *row, const char *unit, measurement once, const struct shape *shape)
{
    double values[PLAN_REPEATS];
    int repeats = bench.on_gpu ? PLAN_REPEATS : 1;
    if (!is_row_wanted(row))
        return;
    for (int i = bench.on_gpu ? -1 : 0; i < repeats; i++) {
        barrier();
        double value = once(row, shape);
        barrier();
        if (i >= 0)
            values[i] = value;
    }
    if (bench.me == 0)
        report_row(&bench.report, row, unit, values, repeats);
}

uint64_t scaled(uint64_t count)
{
    return bench.on_gpu ? count : count < 20 ? count : 20;
}

/* ------------------------------------------------------------------------------- contents */

unsigned blocks_of(const struct shape *s)
{
    return s->ctas ? s->ctas : bench.processors;
}

void fill(void *words, size_t bytes, uint64_t seed)
{
    LAUNCH(fill_words, bench.processors, bench.threads, 0, bench.stream, (uint64_t *)words,
           bytes / 8, seed);
}

/* Ends the job unless this PE's dst equals the putter's src, offset by `shift` bytes. */
void expect_bytes(const char *row, size_t bytes, size_t shift)
{
    clear_wrong();
    LAUNCH(check_bytes, bench.processors, bench.threads, 0, bench.stream, bench.dst, bytes, shift,
           (uint64_t)FILL_SEED, bench.wrong);
    uint64_t found = count_wrong_words();
    if (found) {
        fprintf(stderr, "weft_device_bench: PE %d: %s: %llu of %zu bytes are wrong\n", bench.me,
                row, (unsigned long long)found, bytes);
        weft_abort(bench.job, 1);
    }
}

const char *ctas_name(unsigned ctas)
{
    return ctas ? row_name("%u", ctas) : "all";
}

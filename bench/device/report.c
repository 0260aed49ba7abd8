/* SPDX-License-Identifier: Apache-2.0 */
/* Table and JSON lines of report.h, and the reference values of rows. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Baselines and aims for two H200 over NVLink 4 without multicast; 0: none. The baseline is what
 * plain CUDA code reached there: see docs/benchmarks.md. */
static const struct reference {
    const char *row;
    double floor, aim;
} references[] = {
    {"p_wait", 0.63, 0.70},
    {"put_signal.8", 1.91, 2.0},
    {"put_signal.1024", 2.00, 0},
    {"put_signal.8192", 2.11, 2.2},
    {"put_signal.65536", 3.43, 0},
    {"packet.128", 0.73, 0.80},
    {"packet.1024", 0.82, 0.95},
    {"packet.4096", 1.15, 0},
    {"put.1.2097152", 45, 45},
    {"put.8.2097152", 354, 345},
    {"put.16.512", 331, 60},
    {"put.16.4096", 331, 280},
    {"put.16.32768", 331, 330},
    {"put.16.2097152", 331, 330},
    {"put.all.2097152", 372, 372},
    {"put_to_all.all.2097152", 356, 0},
    {"misaligned_ratio.1", 0, 0.8},
    {"misaligned_ratio.16", 0, 0.8},
    {"p_contiguous.all", 0, 46.0},
    {"p_scattered.all", 9.6, 9.6},
    {"fetch_add", 0, 0.97},
    {"add_rate.all", 0, 8.6},
    {"meet_block", 0.80, 0},
    {"sync_block", 0.93, 1.1},
    {"barrier_block", 2.02, 2.3},
    {"put_on_stream.8", 0, 2.0},
    {"put_on_stream.134217728", 396, 0},
    {"put_host.8", 0, 6.5},
    {"init", 0, 1.0},
    {"finalize", 0, 0.3},
};

static const struct reference *find(const char *row)
{
    static const struct reference none = {"", 0, 0};
    for (size_t i = 0; i < sizeof references / sizeof references[0]; i++)
        if (strcmp(references[i].row, row) == 0)
            return &references[i];
    return &none;
}

/* Reference values exist only for GPUs. */
static const struct reference *reference_of(const struct report *report, const char *row)
{
    return find(strcmp(report->target, "cuda") == 0 && report->pes > 1 ? row : "");
}

static int less_is_better(const char *unit)
{
    return strcmp(unit, "us") == 0 || strcmp(unit, "s") == 0;
}

const char *row_name(const char *format, ...)
{
    static char names[8][64];
    static unsigned next;
    char *name = names[next++ % 8];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof names[0], format, arguments);
    va_end(arguments);
    return name;
}

void report_begin(const struct report *report, const char *note)
{
    if (report->json)
        return;
    printf("%s on %s, %d PEs. %s\n", report->side, report->target, report->pes, note);
    printf("%-26s %-6s %10s %10s %10s %8s %8s\n", "row", "unit", "figure", "least", "greatest",
           "floor", "aim");
}

static void print_json(FILE *to, const struct report *report, const char *row, const char *unit,
                       const double *values, int n)
{
    const struct reference *r = reference_of(report, row);
    fprintf(to,
            "{\"side\":\"%s\",\"target\":\"%s\",\"pes\":%d,\"row\":\"%s\",\"unit\":\"%s\","
            "\"value\":%.6g,\"least\":%.6g,\"greatest\":%.6g",
            report->side, report->target, report->pes, row, unit, values[n / 2], values[0],
            values[n - 1]);
    if (r->floor > 0)
        fprintf(to, ",\"floor\":%g", r->floor);
    if (r->aim > 0)
        fprintf(to, ",\"aim\":%g", r->aim);
    fprintf(to, "}\n");
}

static void print_reference(double value)
{
    if (value > 0)
        printf(" %8.4g", value);
    else
        printf(" %8s", "-");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double report_row(const struct report *report, const char *row, const char *unit, double *values,
                  int n)
{
    const struct reference *r = reference_of(report, row);
    qsort(values, (size_t)n, sizeof values[0], ascending);
    double value = values[n / 2];
    FILE *log = report->log ? fopen(report->log, "a") : NULL;
    if (log) {
        print_json(log, report, row, unit, values, n);
        fclose(log);
    } else if (report->log) {
        perror(report->log);
    }
    if (report->json) {
        print_json(stdout, report, row, unit, values, n);
    } else {
        printf("%-26s %-6s %10.4g %10.4g %10.4g", row, unit, value, values[0], values[n - 1]);
        print_reference(r->floor);
        print_reference(r->aim);
        if (r->aim > 0)
            printf("  %s",
                   (less_is_better(unit) ? value <= r->aim : value >= r->aim) ? "met" : "short");
        printf("\n");
    }
    fflush(stdout);
    return value;
}

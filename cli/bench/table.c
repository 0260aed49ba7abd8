/* SPDX-License-Identifier: Apache-2.0 */
/* The table of `weft bench`, and the text form of its figures. */
#include "bench/bench.h"

#include <unistd.h>

struct bench_text bench_bytes_text(size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && bytes % 1024 == 0 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    struct bench_text out;
    snprintf(out.text, sizeof out.text, "%zu %s", bytes, units[unit]);
    return out;
}

struct bench_text bench_name_text(const struct bench_point *point)
{
    struct bench_text out;
    if (point->entry->gridded && point->ctas > 1)
        snprintf(out.text, sizeof out.text, "%s x%d", point->entry->name, point->ctas);
    else
        snprintf(out.text, sizeof out.text, "%s", point->entry->name);
    return out;
}

static int decimals(double value)
{
    return value < 0.0995 ? 4 : value < 0.995 ? 3 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

struct bench_text bench_us_text(double us)
{
    struct bench_text out;
    const char *unit = us < 1 ? "ns" : us < 1e3 ? "us" : us < 1e6 ? "ms" : "s";
    double value = us < 1 ? us * 1e3 : us < 1e3 ? us : us < 1e6 ? us / 1e3 : us / 1e6;
    if (us < 0)
        snprintf(out.text, sizeof out.text, "-");
    else
        snprintf(out.text, sizeof out.text, "%.*f %s", decimals(value), value, unit);
    return out;
}

struct bench_text bench_number_text(double value)
{
    struct bench_text out;
    if (value > 0)
        snprintf(out.text, sizeof out.text, "%.*f", decimals(value), value);
    else
        snprintf(out.text, sizeof out.text, "-");
    return out;
}

const char *bench_floor_name(enum bench_floor floor)
{
    switch (floor) {
    case FLOOR_NONE:
        return "none";
    case FLOOR_MEMCPY:
        return "memcpy";
    case FLOOR_STORE:
        return "store";
    case FLOOR_LOAD:
        return "load";
    case FLOOR_ATOMIC:
        return "atomic";
    case FLOOR_LINES:
        return "two lines";
    case FLOOR_HEARD:
        return "two lines or memcpy";
    }
    return "";
}

double bench_memcpy_gbps(const struct bench_point *point)
{
    return point->memcpy_us > 0 ? (double)point->bytes / point->memcpy_us / 1e3 : 0;
}

static double ns_to_us(double ns)
{
    return ns < 0 ? -1 : ns / 1e3;
}

void bench_table_head(FILE *to, const struct bench *bench)
{
    const struct bench_options *options = bench->options;
    const struct bench_floors *floors = &bench->floors;
    fprintf(to, "%d PE%s, PE %d to PE %d over %s, %s memory, scope %s, target %s, %ld CPUs\n",
            bench->n, bench->n == 1 ? "" : "s", bench->from, bench->to, bench->path,
            bench_memory_names[options->memory], bench_scope_names[options->scope],
            bench_target_names[options->target], sysconf(_SC_NPROCESSORS_ONLN));
    if (options->target == TARGET_SIMT)
        fprintf(to, "figures of the stand-in, not of a GPU\n");
    if (options->scope != SCOPE_HOST && options->scope != SCOPE_STREAM) {
        fprintf(to, "grids of");
        for (int i = 0; i < options->n_ctas; i++)
            fprintf(to, "%s %d", i ? "," : "", options->ctas_list[i]);
        fprintf(to,
                " block%s of %d threads; a time is that of one operation of each thread, warp or "
                "block\n",
                options->n_ctas == 1 && options->ctas == 1 ? "" : "s", options->threads);
    }
    fprintf(to, "baseline (floor) of this machine, now: half a round trip of a cache line %s",
            bench_us_text(ns_to_us(floors->one_line_ns)).text);
    fprintf(to, ", over two lines %s", bench_us_text(ns_to_us(floors->two_lines_ns)).text);
    fprintf(to, ", store %s", bench_us_text(ns_to_us(floors->store_ns)).text);
    fprintf(to, ", load %s", bench_us_text(ns_to_us(floors->load_ns)).text);
    fprintf(to, ", atomic %s", bench_us_text(ns_to_us(floors->atomic_ns)).text);
    fprintf(to, ", clock %s\n\n", bench_us_text(ns_to_us(floors->clock_ns)).text);
    fprintf(to, "%-17s %9s %9s %9s %9s %8s %8s %8s %9s %7s  %s\n", "bench", "bytes", "time", "min",
            "max", "GB/s", "Mop/s", "memcpy", "floor", "x floor", "checked");
    fprintf(to, "%-17s %9s %9s %9s %9s %8s %8s %8s\n", "", "", "median", "", "", "", "", "GB/s");
}

void bench_table_row(FILE *to, const struct bench_point *point, const struct bench_point *previous)
{
    static const char *const found[] = {"no", "WRONG", "right"};
    const struct bench_entry *entry = point->entry;
    if (previous && (previous->entry != entry || previous->ctas != point->ctas) &&
        (entry->sized || previous->entry->sized))
        fputc('\n', to);
    fprintf(to, "%-17s", bench_name_text(point).text);
    fprintf(to, " %9s", point->bytes ? bench_bytes_text(point->bytes).text : "-");
    fprintf(to, " %9s", bench_us_text(point->us).text);
    fprintf(to, " %9s", bench_us_text(point->us_min).text);
    fprintf(to, " %9s", bench_us_text(point->us_max).text);
    fprintf(to, " %8s", bench_number_text(point->gbps).text);
    fprintf(to, " %8s", bench_number_text(point->mops).text);
    fprintf(to, " %8s", bench_number_text(bench_memcpy_gbps(point)).text);
    fprintf(to, " %9s", bench_us_text(point->floor_us).text);
    double ratio = point->floor_us > 0 ? point->us / point->floor_us : 0;
    fprintf(to, " %7s  %s\n", bench_number_text(ratio).text, found[point->verified + 1]);
    fflush(to);
}

void bench_table_foot(FILE *to, const struct bench_point *points, int count)
{
    int unsteady = 0;
    for (int i = 0; i < count; i++)
        unsteady += points[i].us_max > 2 * points[i].us_min;
    if (count >= 3 && unsteady > count / 3)
        fprintf(to,
                "\n"
                "In %d of %d rows the slowest repetition took more than twice the fastest: this "
                "machine was busy or its CPUs were shared. Do not trust these figures.\n",
                unsteady, count);
}

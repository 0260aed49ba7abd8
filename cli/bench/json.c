/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench --json`: one object per line and point. The keys are stable; new ones may be
 * added. */
#include "bench/bench.h"

#include <jansson.h>

json_t *bench_json_figure(double value)
{
    return value < 0 ? json_null() : json_real(value);
}

static json_t *us_json(double ns)
{
    return bench_json_figure(ns < 0 ? -1 : ns / 1e3);
}

static json_t *conditions_json(const struct bench_point *point)
{
    const struct bench_entry *entry = point->entry;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:i, s:i, s:i, s:i}", "bench",
                     entry->name, "path", point->path, "memory", bench_memory_names[point->memory],
                     "scope", bench_scope_names[entry->scope], "target",
                     bench_target_names[entry->target], "pes", point->pes, "bytes",
                     (json_int_t)point->bytes, "from", point->from, "to", point->to, "ctas",
                     point->ctas, "threads", point->threads);
}

static json_t *figures_json(const struct bench_point *point)
{
    const struct bench_floors *floors = &point->floors;
    json_t *ratio = bench_json_figure(point->floor_us > 0 ? point->us / point->floor_us : -1);
    json_t *verified = point->verified < 0 ? json_null() : json_boolean(point->verified);
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:I, s:i, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "us", point->us, "us_min", point->us_min, "us_max", point->us_max, "gbytes_per_s",
        point->gbps, "mops", point->mops, "iterations", (json_int_t)point->iterations,
        "repetitions", point->repetitions, "verified", verified, "floor",
        bench_floor_name(point->entry->floor), "floor_us", bench_json_figure(point->floor_us),
        "ratio", ratio, "memcpy_us", bench_json_figure(point->memcpy_us), "one_line_us",
        us_json(floors->one_line_ns), "two_lines_us", us_json(floors->two_lines_ns), "store_us",
        us_json(floors->store_ns), "load_us", us_json(floors->load_ns), "atomic_us",
        us_json(floors->atomic_ns));
}

void bench_json_row(FILE *to, const struct bench_point *point)
{
    json_t *row = conditions_json(point), *rest = figures_json(point);
    json_object_update(row, rest);
    json_dumpf(row, to, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    fputc('\n', to);
    fflush(to);
    json_decref(rest);
    json_decref(row);
}

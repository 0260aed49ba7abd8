/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench --html FILE`: one self-contained page, plots as inline SVG. No script, nothing that
 * is loaded from elsewhere. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 460, HEIGHT = 290, LEFT = 62, RIGHT = 26, TOP = 30, BOTTOM = 40 };

/* What a plot shows of a point; NAN where there is nothing. */
typedef double (*figure)(const struct bench_point *point);

struct plot {
    FILE *to;
    const struct bench_point *points;
    int count;
    double x_low, x_high, y_low, y_high; /* as log2 of bytes and log10 of the figure */
};

static double time_of(const struct bench_point *point)
{
    return point->us;
}

static double time_floor(const struct bench_point *point)
{
    return point->floor_us > 0 ? point->floor_us : NAN;
}

static double time_min(const struct bench_point *point)
{
    return point->us_min;
}

static double time_max(const struct bench_point *point)
{
    return point->us_max;
}

static double rate_of(const struct bench_point *point)
{
    return point->gbps > 0 ? point->gbps : NAN;
}

static double rate_floor(const struct bench_point *point)
{
    double moved = point->gbps * point->us; /* what one PE sends or receives, in kB */
    return point->floor_us > 0 && moved > 0 ? moved / point->floor_us : NAN;
}

static double rate_min(const struct bench_point *point)
{
    return point->gbps > 0 ? point->gbps * point->us / point->us_max : NAN;
}

static double rate_max(const struct bench_point *point)
{
    return point->gbps > 0 ? point->gbps * point->us / point->us_min : NAN;
}

static double x_at(const struct plot *plot, double bytes)
{
    double span = plot->x_high > plot->x_low ? plot->x_high - plot->x_low : 1;
    return LEFT + (log2(bytes) - plot->x_low) / span * (WIDTH - LEFT - RIGHT);
}

static double y_at(const struct plot *plot, double value)
{
    double span = plot->y_high - plot->y_low;
    return HEIGHT - BOTTOM - (log10(value) - plot->y_low) / span * (HEIGHT - TOP - BOTTOM);
}

static void widen(struct plot *plot, figure value)
{
    for (int i = 0; i < plot->count; i++) {
        double v = value(&plot->points[i]);
        if (!(v > 0))
            continue;
        plot->y_low = fmin(plot->y_low, floor(log10(v)));
        plot->y_high = fmax(plot->y_high, ceil(log10(v)));
    }
}

static void draw_line(const struct plot *plot, figure value, const char *class)
{
    fprintf(plot->to, "<polyline class=\"%s\" points=\"", class);
    for (int i = 0; i < plot->count; i++) {
        double v = value(&plot->points[i]);
        if (v > 0)
            fprintf(plot->to, "%.1f,%.1f ", x_at(plot, (double)plot->points[i].bytes),
                    y_at(plot, v));
    }
    fprintf(plot->to, "\"/>\n");
}

/* The spread of the repetitions as a band. */
static void draw_band(const struct plot *plot, figure low, figure high)
{
    fprintf(plot->to, "<polygon class=\"band\" points=\"");
    for (int i = 0; i < plot->count; i++)
        if (low(&plot->points[i]) > 0)
            fprintf(plot->to, "%.1f,%.1f ", x_at(plot, (double)plot->points[i].bytes),
                    y_at(plot, low(&plot->points[i])));
    for (int i = plot->count - 1; i >= 0; i--)
        if (high(&plot->points[i]) > 0)
            fprintf(plot->to, "%.1f,%.1f ", x_at(plot, (double)plot->points[i].bytes),
                    y_at(plot, high(&plot->points[i])));
    fprintf(plot->to, "\"/>\n");
}

static void draw_dots(const struct plot *plot, figure value, const char *unit)
{
    for (int i = 0; i < plot->count; i++) {
        const struct bench_point *point = &plot->points[i];
        double v = value(point);
        if (v > 0)
            fprintf(plot->to,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%s: %.4g %s</title></circle>\n",
                    x_at(plot, (double)point->bytes), y_at(plot, v),
                    bench_bytes_text(point->bytes).text, v, unit);
    }
}

static void draw_axes(const struct plot *plot, const char *title)
{
    fprintf(plot->to, "<text x=\"%d\" y=\"18\" class=\"title\">%s</text>\n", LEFT, title);
    for (double e = plot->y_low; e <= plot->y_high + 0.01; e++) {
        double y = y_at(plot, pow(10, e));
        fprintf(plot->to,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, pow(10, e));
    }
    int every = (plot->count + 7) / 8; /* at most eight labels */
    for (int i = 0; i < plot->count; i += every) {
        size_t bytes = plot->points[i].bytes;
        fprintf(plot->to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                x_at(plot, (double)bytes), HEIGHT - BOTTOM + 18, bench_bytes_text(bytes).text);
    }
}

static void draw_plot(FILE *to, const struct bench_point *points, int count, const char *title,
                      const char *unit, figure value, figure low, figure high, figure floor)
{
    struct plot plot = {.to = to, .points = points, .count = count};
    plot.x_low = log2((double)points[0].bytes);
    plot.x_high = plot.x_low;
    for (int i = 1; i < count; i++) {
        plot.x_low = fmin(plot.x_low, log2((double)points[i].bytes));
        plot.x_high = fmax(plot.x_high, log2((double)points[i].bytes));
    }
    plot.y_low = INFINITY;
    plot.y_high = -INFINITY;
    widen(&plot, low);
    widen(&plot, high);
    widen(&plot, floor);
    if (plot.y_low > plot.y_high)
        return;
    if (plot.y_low == plot.y_high)
        plot.y_high++;
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
    draw_axes(&plot, title);
    draw_band(&plot, low, high);
    draw_line(&plot, floor, "floor");
    draw_line(&plot, value, "value");
    draw_dots(&plot, value, unit);
    fprintf(to, "</svg>\n");
}

/* Unsized benchmarks are drawn in two groups: waiting for another PE costs ten times a store. */
static bool in_group(const struct bench_point *point, bool waits)
{
    return !point->entry->sized && (point->entry->floor == FLOOR_LINES) == waits;
}

/* The unsized benchmarks of a group: a bar each from 0, the floor as a mark, all to one scale. */
static void draw_bars(FILE *to, const struct bench_point *points, int count, bool waits,
                      const char *title)
{
    enum { BAR_WIDTH = 940, NAME = 150, ROW = 22 };
    double longest = 0;
    int rows = 0;
    for (int i = 0; i < count; i++) {
        if (!in_group(&points[i], waits))
            continue;
        rows++;
        longest = fmax(longest, fmax(points[i].us, points[i].floor_us));
    }
    if (!rows || longest <= 0)
        return;
    fprintf(to, "<h2>%s</h2>\n<svg class=\"wide\" viewBox=\"0 0 %d %d\" role=\"img\">\n", title,
            BAR_WIDTH, rows * ROW + 6);
    double scale = (BAR_WIDTH - NAME - 90) / longest;
    for (int i = 0, row = 0; i < count; i++) {
        const struct bench_point *point = &points[i];
        if (!in_group(point, waits))
            continue;
        double y = row++ * ROW + 4, end = NAME + point->us * scale;
        fprintf(to,
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>"
                "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>"
                "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                NAME - 8, y + 13, point->entry->name, NAME, y, fmax(point->us * scale, 0.5),
                ROW - 6, end + 6, y + 13, bench_us_text(point->us).text);
        if (point->floor_us > 0)
            fprintf(to, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
                    NAME + point->floor_us * scale, NAME + point->floor_us * scale, y - 2,
                    y + ROW - 4);
    }
    fprintf(to, "</svg>\n");
}

static void write_row(FILE *to, const struct bench_point *point)
{
    static const char *const found[] = {"no", "WRONG", "right"};
    fprintf(to, "<tr><td>%s</td>", point->entry->name);
    fprintf(to, "<td>%s</td>", point->bytes ? bench_bytes_text(point->bytes).text : "-");
    fprintf(to, "<td>%s</td>", bench_us_text(point->us).text);
    fprintf(to, "<td>%s</td>", bench_us_text(point->us_min).text);
    fprintf(to, "<td>%s</td>", bench_us_text(point->us_max).text);
    fprintf(to, "<td>%s</td>", bench_number_text(point->gbps).text);
    fprintf(to, "<td>%s</td>", bench_number_text(point->mops).text);
    fprintf(to, "<td>%s</td>", bench_number_text(bench_memcpy_gbps(point)).text);
    fprintf(to, "<td>%s</td>", bench_us_text(point->floor_us).text);
    fprintf(to, "<td>%s</td>",
            bench_number_text(point->floor_us > 0 ? point->us / point->floor_us : 0).text);
    fprintf(to, "<td>%s</td></tr>\n", found[point->verified + 1]);
}

static void write_table(FILE *to, const struct bench_point *points, int count)
{
    fprintf(to, "<h2>all figures</h2>\n<table><tr><th>bench</th><th>bytes</th><th>time</th>"
                "<th>min</th><th>max</th><th>GB/s</th><th>Mop/s</th><th>memcpy GB/s</th>"
                "<th>floor</th><th>x floor</th><th>checked</th></tr>\n");
    for (int i = 0; i < count; i++)
        write_row(to, &points[i]);
    fprintf(to, "</table>\n");
}

static void write_head(FILE *to, const struct bench *bench)
{
    static const char style[] =
        ":root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#1663b0;--grid:#ddd;"
        "--floor:#b3541e}@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181a1d;"
        "--line:#6cb2f5;--grid:#3a3d42;--floor:#e9a06b}}"
        "body{font:15px/1.5 sans-serif;color:var(--ink);background:var(--paper);max-width:1000px;"
        "margin:2em auto;padding:0 1em}svg{width:49%;font:11px sans-serif;fill:var(--ink)}"
        "svg.wide{width:100%}.title{font-weight:bold;font-size:13px}.grid{stroke:var(--grid)}"
        "polyline{fill:none;stroke-width:2}.value{stroke:var(--line)}"
        ".floor{stroke:var(--floor);stroke-dasharray:5 4}circle,rect{fill:var(--line)}"
        ".band{fill:var(--line);opacity:.2}.mark{stroke:var(--floor);stroke-width:2}"
        "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
        "td,th{padding:.1em .7em;text-align:right;border-bottom:1px solid var(--grid)}"
        "td:first-child,th:first-child{text-align:left}";
    char date[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", localtime_r(&now, &local));
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<title>weft bench</title><style>%s</style></head><body>\n<h1>weft bench</h1>\n",
            style);
    fprintf(to, "<p>Weft %s, %s. %d PEs; PE %d to PE %d over %s; %s memory, scope %s, target %s. ",
            weft_version(), date, bench->n, bench->from, bench->to, bench->path,
            bench_memory_names[bench->options->memory], bench_scope_names[bench->options->scope],
            bench_target_names[bench->options->target]);
    fprintf(to, "Lines are medians, bands the spread of the repetitions; dashed is the floor: what "
                "this machine did in the same run without the library.</p>\n");
}

void bench_html(FILE *to, const struct bench *bench, const struct bench_point *points, int count)
{
    write_head(to, bench);
    for (int i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && points[i + n].entry == points[i].entry; n++)
            ;
        if (!points[i].entry->sized)
            continue;
        fprintf(to, "<h2>%s</h2><p>%s</p>\n", points[i].entry->name, points[i].entry->text);
        draw_plot(to, &points[i], n, "time in us, over bytes", "us", time_of, time_min, time_max,
                  time_floor);
        draw_plot(to, &points[i], n, "GB/s, over bytes", "GB/s", rate_of, rate_min, rate_max,
                  rate_floor);
    }
    draw_bars(to, points, count, false, "single operations");
    draw_bars(to, points, count, true, "waiting for another PE");
    write_table(to, points, count);
    fprintf(to, "</body></html>\n");
}

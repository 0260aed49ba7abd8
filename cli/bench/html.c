/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench --html FILE`: one self-contained page with plots as inline SVG. No script, no
 * external files. */
#include "bench/bench.h"
#include "bench/plot.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* The value of a point in a plot; NAN: none. */
typedef double (*figure)(const struct bench_point *point);

static double time_of_point(const struct bench_point *point)
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

static double rate_of_point(const struct bench_point *point)
{
    return point->gbps > 0 ? point->gbps : NAN;
}

static double rate_floor(const struct bench_point *point)
{
    double moved = point->gbps * point->us; /* kB that one PE sends or receives */
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

/* Plots the points by bytes: a line of `value`, a band from `low` to `high`, and the floor. */
static void draw_points(FILE *to, const struct bench_point *points, int count, const char *title,
                        const char *unit, figure value, figure low, figure high, figure least)
{
    struct plot_series series[2] = {{.n = count}, {.n = count, .dashed = true}};
    const struct plot plot = {
        .title = title, .unit = unit, .bytes = true, .series = series, .count = 2};
    for (int i = 0; i < count; i++) {
        series[0].x[i] = series[1].x[i] = (double)points[i].bytes;
        series[0].y[i] = value(&points[i]);
        series[0].low[i] = low(&points[i]);
        series[0].high[i] = high(&points[i]);
        series[1].y[i] = least(&points[i]);
    }
    plot_draw(to, &plot);
}

/* Benchmarks without sizes are drawn in two groups, since waiting for another PE takes ten times
 * as long as a store. */
static bool in_group(const struct bench_point *point, bool waits)
{
    return !point->entry->sized && (point->entry->floor == FLOOR_LINES) == waits;
}

/* Draws a bar for each benchmark of a group, on one scale, with the floor as a mark. */
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
                NAME - 8, y + 13, bench_name_text(point).text, NAME, y,
                fmax(point->us * scale, 0.5), ROW - 6, end + 6, y + 13,
                bench_us_text(point->us).text);
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
    fprintf(to, "<tr><td>%s</td>", bench_name_text(point).text);
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

static void write_html_head(FILE *to, const struct bench *bench)
{
    char date[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", localtime_r(&now, &local));
    plot_page_begin(to, "weft bench");
    fprintf(to, "<p>Weft %s, %s. %d PEs; PE %d to PE %d over %s; %s memory, scope %s, target %s. ",
            weft_version(), date, bench->n, bench->from, bench->to, bench->path,
            bench_memory_names[bench->options->memory], bench_scope_names[bench->options->scope],
            bench_target_names[bench->options->target]);
    fprintf(to, "Lines are medians, bands the spread of the repetitions; the dashed line is the "
                "floor: the bare machine in the same run, without the library.</p>\n");
}

static bool of_one_line(const struct bench_point *a, const struct bench_point *b)
{
    return a->entry == b->entry && a->ctas == b->ctas;
}

void bench_html(FILE *to, const struct bench *bench, const struct bench_point *points, int count)
{
    write_html_head(to, bench);
    for (int i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && n < PLOT_POINTS && of_one_line(&points[i + n], &points[i]);
             n++)
            ;
        if (!points[i].entry->sized)
            continue;
        fprintf(to, "<h2>%s</h2><p>%s</p>\n", bench_name_text(&points[i]).text,
                points[i].entry->text);
        draw_points(to, &points[i], n, "time in us, over bytes", "us", time_of_point, time_min,
                    time_max, time_floor);
        draw_points(to, &points[i], n, "GB/s, over bytes", "GB/s", rate_of_point, rate_min,
                    rate_max, rate_floor);
    }
    draw_bars(to, points, count, false, "single operations");
    draw_bars(to, points, count, true, "waiting for another PE");
    write_table(to, points, count);
    plot_page_end(to);
}

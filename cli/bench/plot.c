/* SPDX-License-Identifier: Apache-2.0 */
/* plot.h: axes, bands, lines, dots and a legend. No script, no external files. */
#include "bench/plot.h"

#include "bench/bench.h"

#include <math.h>

enum { WIDTH = 460, HEIGHT = 290, LEFT = 62, RIGHT = 26, TOP = 30, BOTTOM = 40, LEGEND_ROW = 15 };

struct frame {
    FILE *to;
    double x_low, x_high, y_low, y_high; /* log2 of x and log10 of y */
};

static double x_at(const struct frame *frame, double x)
{
    double span = frame->x_high > frame->x_low ? frame->x_high - frame->x_low : 1;
    return LEFT + (log2(x) - frame->x_low) / span * (WIDTH - LEFT - RIGHT);
}

static double y_at(const struct frame *frame, double y)
{
    double span = frame->y_high - frame->y_low;
    return HEIGHT - BOTTOM - (log10(y) - frame->y_low) / span * (HEIGHT - TOP - BOTTOM);
}

static void include_value(struct frame *frame, double y)
{
    if (!(y > 0))
        return;
    frame->y_low = fmin(frame->y_low, floor(log10(y)));
    frame->y_high = fmax(frame->y_high, ceil(log10(y)));
}

static bool find_frame(const struct plot *plot, struct frame *frame)
{
    frame->x_low = frame->y_low = INFINITY;
    frame->x_high = frame->y_high = -INFINITY;
    for (int s = 0; s < plot->count; s++) {
        const struct plot_series *series = &plot->series[s];
        for (int i = 0; i < series->n; i++) {
            frame->x_low = fmin(frame->x_low, log2(series->x[i]));
            frame->x_high = fmax(frame->x_high, log2(series->x[i]));
            include_value(frame, series->y[i]);
            include_value(frame, series->low[i]);
            include_value(frame, series->high[i]);
        }
    }
    if (frame->y_low == frame->y_high)
        frame->y_high++;
    return frame->y_low < frame->y_high;
}

static const char *x_text(const struct plot *plot, double x, char *text, size_t room)
{
    if (plot->bytes)
        snprintf(text, room, "%s", bench_bytes_text((size_t)x).text);
    else
        snprintf(text, room, "%.0f", x);
    return text;
}

static void draw_axes(const struct frame *frame, const struct plot *plot)
{
    const struct plot_series *longest = &plot->series[0];
    char text[32];
    for (int s = 1; s < plot->count; s++)
        if (plot->series[s].n > longest->n)
            longest = &plot->series[s];
    fprintf(frame->to, "<text x=\"%d\" y=\"18\" class=\"title\">%s</text>\n", LEFT, plot->title);
    for (double e = frame->y_low; e <= frame->y_high + 0.01; e++) {
        double y = y_at(frame, pow(10, e));
        fprintf(frame->to,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, pow(10, e));
    }
    int every = (longest->n + 7) / 8; /* at most eight labels */
    for (int i = 0; i < longest->n; i += every)
        fprintf(frame->to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                x_at(frame, longest->x[i]), HEIGHT - BOTTOM + 18,
                x_text(plot, longest->x[i], text, sizeof text));
}

static void draw_band(const struct frame *frame, const struct plot_series *series, int colour)
{
    fprintf(frame->to, "<polygon class=\"band c%d\" points=\"", colour);
    for (int i = 0; i < series->n; i++)
        if (series->low[i] > 0)
            fprintf(frame->to, "%.1f,%.1f ", x_at(frame, series->x[i]),
                    y_at(frame, series->low[i]));
    for (int i = series->n - 1; i >= 0; i--)
        if (series->high[i] > 0)
            fprintf(frame->to, "%.1f,%.1f ", x_at(frame, series->x[i]),
                    y_at(frame, series->high[i]));
    fprintf(frame->to, "\"/>\n");
}

static void draw_line(const struct frame *frame, const struct plot_series *series, int colour)
{
    fprintf(frame->to, "<polyline class=\"%s c%d\" points=\"", series->dashed ? "floor" : "value",
            colour);
    for (int i = 0; i < series->n; i++)
        if (series->y[i] > 0)
            fprintf(frame->to, "%.1f,%.1f ", x_at(frame, series->x[i]), y_at(frame, series->y[i]));
    fprintf(frame->to, "\"/>\n");
}

static void draw_dots(const struct frame *frame, const struct plot *plot,
                      const struct plot_series *series, int colour)
{
    char text[32];
    for (int i = 0; i < series->n; i++)
        if (series->y[i] > 0)
            fprintf(frame->to,
                    "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\">"
                    "<title>%s%s%s: %.4g %s</title></circle>\n",
                    colour, x_at(frame, series->x[i]), y_at(frame, series->y[i]),
                    series->label ? series->label : "", series->label ? ", " : "",
                    x_text(plot, series->x[i], text, sizeof text), series->y[i], plot->unit);
}

static int draw_legend(const struct frame *frame, const struct plot *plot)
{
    int rows = 0;
    for (int s = 0; s < plot->count; s++) {
        if (!plot->series[s].label)
            continue;
        int x = LEFT + rows % 2 * (WIDTH - LEFT) / 2, y = HEIGHT + rows / 2 * LEGEND_ROW + 4;
        fprintf(frame->to,
                "<circle class=\"c%d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>"
                "<text x=\"%d\" y=\"%d\">%s</text>\n",
                s, x, y, x + 9, y + 4, plot->series[s].label);
        rows++;
    }
    return rows;
}

void plot_draw(FILE *to, const struct plot *plot)
{
    struct frame frame = {.to = to};
    int labels = 0;
    if (!find_frame(plot, &frame))
        return;
    for (int s = 0; s < plot->count; s++)
        labels += plot->series[s].label != NULL;
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH,
            HEIGHT + (labels + 1) / 2 * LEGEND_ROW);
    draw_axes(&frame, plot);
    for (int s = 0; s < plot->count; s++)
        if (plot->series[s].n && plot->series[s].low[0] > 0)
            draw_band(&frame, &plot->series[s], s);
    for (int s = 0; s < plot->count; s++)
        draw_line(&frame, &plot->series[s], s);
    for (int s = 0; s < plot->count; s++)
        if (!plot->series[s].dashed)
            draw_dots(&frame, plot, &plot->series[s], s);
    draw_legend(&frame, plot);
    fprintf(to, "</svg>\n");
}

/* Colours of the series, in pairs: two paths of one kind are usually neighbours. */
static const char plot_style[] =
    ":root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#1663b0;--grid:#ddd;"
    "--floor:#b3541e;--c1:#b3541e;--c2:#2a7f4f;--c3:#8a4bb0;--c4:#b08a00;--c5:#0f8c93;--c6:#c2386b;"
    "--c7:#6b7280;--c8:#4a6b00;--c9:#7a3b1e;--c10:#3346a8;--c11:#9c1f1f}"
    "@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181a1d;"
    "--line:#6cb2f5;--grid:#3a3d42;--floor:#e9a06b;--c1:#e9a06b;--c2:#6fcf97;--c3:#c79bea;"
    "--c4:#e6c34d;--c5:#5cd0d6;--c6:#f286ac;--c7:#a7adb8;--c8:#a9d15c;--c9:#d99a78;--c10:#9aa8f5;"
    "--c11:#f28b8b}}"
    "body{font:15px/1.5 sans-serif;color:var(--ink);background:var(--paper);max-width:1000px;"
    "margin:2em auto;padding:0 1em}svg{width:49%;font:11px sans-serif;fill:var(--ink)}"
    "svg.wide{width:100%}.title{font-weight:bold;font-size:13px}.grid{stroke:var(--grid)}"
    "polyline{fill:none;stroke-width:2}polyline.c0{stroke:var(--line)}polyline.c1{stroke:var(--c1)}"
    "polyline.c2{stroke:var(--c2)}polyline.c3{stroke:var(--c3)}polyline.c4{stroke:var(--c4)}"
    "polyline.c5{stroke:var(--c5)}polyline.c6{stroke:var(--c6)}polyline.c7{stroke:var(--c7)}"
    "polyline.c8{stroke:var(--c8)}polyline.c9{stroke:var(--c9)}polyline.c10{stroke:var(--c10)}"
    "polyline.c11{stroke:var(--c11)}polyline.floor{stroke:var(--floor);stroke-dasharray:5 4}"
    "rect,.c0{fill:var(--line)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}"
    ".c4{fill:var(--c4)}.c5{fill:var(--c5)}.c6{fill:var(--c6)}"
    ".c7{fill:var(--c7)}.c8{fill:var(--c8)}"
    ".c9{fill:var(--c9)}.c10{fill:var(--c10)}.c11{fill:var(--c11)}polyline.value,polyline.floor"
    "{fill:none}.band{opacity:.2}.mark{stroke:var(--floor);stroke-width:2}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "td,th{padding:.1em .7em;text-align:right;border-bottom:1px solid var(--grid)}"
    "td:first-child,th:first-child{text-align:left}";

void plot_page_begin(FILE *to, const char *title)
{
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<title>%s</title><style>%s</style></head><body>\n<h1>%s</h1>\n",
            title, plot_style, title);
}

void plot_page_end(FILE *to)
{
    fprintf(to, "</body></html>\n");
}

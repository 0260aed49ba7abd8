/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --html`: one page with the drawing and the measured and expected figures of every
 * pair. It loads nothing else. */
#include "topo/topo.h"

#include <inttypes.h>
#include <string.h>

#include "machine/checks/checks.h"
#include "machine_options.h"

static const char topo_style[] =
    ":root{color-scheme:light dark}body{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;"
    "color:#1c2733;background:#fff;margin:24px;max-width:1600px}svg{max-width:100%;height:auto}"
    "table{border-collapse:collapse;margin:8px 0 24px}th,td{border:1px solid #c4ccd4;"
    "padding:4px 8px;text-align:right;font-size:13px}th,td.self{background:#eef1f4}"
    "td small{display:block;color:#5b6b7b}td.good{background:#dff2c8}td.fair{background:#fdf0c0}"
    "td.bad{background:#f9cfcf}@media (prefers-color-scheme:dark){body{color:#e6edf3;"
    "background:#0d1117}th,td{border-color:#3a4654}th,td.self{background:#1c242c}"
    "td small{color:#a7b5c2}td.good{background:#24400c}td.fair{background:#4a3b0c}"
    "td.bad{background:#5c1f1f}}";

/* Content of a cell: the measured and the expected value, and the class of their ratio. */
struct cell {
    const char *grade;
    char value[24], detail[40];
};

static const struct machine_measured *measured_of(const struct topo *topo, int a, int b)
{
    return machine_find_measured(topo->machine, topo->ends[a].name, topo->ends[b].name);
}

static const char *grade_of(int64_t measured, int64_t expected, int64_t least)
{
    return !measured                        ? "none"
           : !expected                      ? "good"
           : measured < least               ? "bad"
           : measured < expected * 90 / 100 ? "fair"
                                            : "good";
}

static void fill_gbps(const struct topo *topo, int a, int b, struct cell *cell)
{
    struct routes routes = {.n = 0};
    const struct machine_measured *m = measured_of(topo, a, b);
    char expected[16], measured[16];
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    int64_t want = best ? best->mbps : 0;
    int64_t got = m && best && route_is_direct(best) ? number_or(m->write_mbps, 0) : 0;
    cell->grade = grade_of(got, want, check_threshold(topo->machine, want));
    show_gbps(want, expected, sizeof expected);
    if (m && text_is(m->proof, "failed")) {
        *cell = (struct cell){.grade = "bad", .value = "BAD", .detail = "test failed"};
    } else if (m && text_is(m->proof, "refused")) {
        *cell = (struct cell){.grade = "bad", .value = "OFF", .detail = "refused"};
    } else if (!best) {
        *cell = (struct cell){.grade = "bad", .value = "off", .detail = "no path"};
    } else if (got) {
        snprintf(cell->value, sizeof cell->value, "%s", show_gbps(got, measured, sizeof measured));
        snprintf(cell->detail, sizeof cell->detail, "of %s", expected);
    } else {
        snprintf(cell->value, sizeof cell->value, "%s", expected);
        snprintf(cell->detail, sizeof cell->detail, "not verified");
    }
}

/* For latencies less is better. */
static void fill_us(const struct topo *topo, int a, int b, struct cell *cell)
{
    struct routes routes = {.n = 0};
    const struct machine_measured *m = measured_of(topo, a, b);
    char expected[16], measured[16];
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    int64_t want = best ? best->latency_ns : 0;
    int64_t got = m && best && route_is_direct(best) ? number_or(m->latency_ns, 0) : 0;
    if (!best) {
        *cell = (struct cell){.grade = "bad", .value = "off", .detail = "no path"};
        return;
    }
    cell->grade =
        !got ? "none" : grade_of(want ? want : got, got, check_threshold(topo->machine, got));
    show_us(want, expected, sizeof expected);
    snprintf(cell->value, sizeof cell->value, "%s",
             got ? show_us(got, measured, sizeof measured) : expected);
    snprintf(cell->detail, sizeof cell->detail, "%s%s", got ? "of " : "not verified",
             got ? expected : "");
}

static void fill_distance(const struct topo *topo, int a, int b, struct cell *cell)
{
    cell->grade = "none";
    topo_label(topo, a, b, cell->value, sizeof cell->value);
}

typedef void fill_function(const struct topo *topo, int a, int b, struct cell *cell);

static void write_cell(const struct topo *topo, int a, int b, fill_function *fill, FILE *to)
{
    struct cell cell = {.grade = "none"};
    if (a == b) {
        fputs("<td class=\"self\"></td>", to);
        return;
    }
    fill(topo, a, b, &cell);
    fprintf(to, "<td class=\"%s\">", cell.grade);
    svg_text(to, cell.value);
    if (*cell.detail) {
        fputs("<small>", to);
        svg_text(to, cell.detail);
        fputs("</small>", to);
    }
    fputs("</td>", to);
}

/* Prints a table whose columns are the GPUs and whose rows are the first `rows` devices. */
static void write_html_table(const struct topo *topo, const char *title, int rows,
                             fill_function *fill, FILE *to)
{
    fprintf(to, "<h2>%s</h2>\n<table>\n<tr><th></th>", title);
    for (int b = 0; b < topo->gpus; b++)
        fprintf(to, "<th>%s</th>", topo->ends[b].name);
    fputs("</tr>\n", to);
    for (int a = 0; a < rows; a++) {
        fputs("<tr><th>", to);
        svg_text(to, topo->ends[a].name);
        fputs("</th>", to);
        for (int b = 0; b < topo->gpus; b++)
            write_cell(topo, a, b, fill, to);
        fputs("</tr>\n", to);
    }
    fputs("</table>\n", to);
}

void topo_html(const struct machine *machine, FILE *to)
{
    static struct topo topo;
    topo_collect(machine, &topo);
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", to);
    svg_text(to, machine->origin);
    fprintf(to, "</title>\n<style>%s</style></head>\n<body>\n", topo_style);
    topo_svg(machine, to);
    if (machine->note) {
        fputs("<p>", to);
        svg_text(to, machine->note);
        fputs("</p>\n", to);
    }
    if (topo.gpus && topo.n > 1) {
        write_html_table(&topo, "Distance", topo.n, fill_distance, to);
        write_html_table(&topo, "GB/s, row writes to column: measured and expected", topo.n,
                         fill_gbps, to);
    }
    if (topo.gpus > 1)
        write_html_table(&topo, "us of 8 bytes, one way: measured and expected", topo.gpus, fill_us,
                         to);
    int least = (int)check_threshold(machine, 100);
    if (least < 90)
        fprintf(to, "<p>Green: at least 90 %% of what is expected; yellow: at least %d %%; red: ",
                least);
    else
        fprintf(to, "<p>Green: at least %d %% of what is expected; red: ", least);
    fputs("below, or off.</p>\n</body></html>\n", to);
}

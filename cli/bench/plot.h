/* SPDX-License-Identifier: Apache-2.0 */
/* A plot as inline SVG with logarithmic axes, for the pages of `weft bench --html`, and the head
 * of such a page. Independent of benchmarks. */
#ifndef WEFT_CLI_BENCH_PLOT_H
#define WEFT_CLI_BENCH_PLOT_H

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_POINTS = 64, PLOT_SERIES = 12 };

/* A line. Points whose y is not positive are left out. */
struct plot_series {
    const char *label;                          /* text of the legend; NULL: not in the legend */
    double x[PLOT_POINTS], y[PLOT_POINTS];      /* x is positive and ascending */
    double low[PLOT_POINTS], high[PLOT_POINTS]; /* limits of the band behind the line; 0: none */
    int n;
    bool dashed; /* lower bound: drawn without dots */
};

struct plot {
    const char *title, *unit;
    bool bytes; /* x is a number of bytes, else a plain number */
    const struct plot_series *series;
    int count;
};

void plot_draw(FILE *to, const struct plot *plot);

/* plot_page_begin() writes the page up to its first paragraph, which the caller writes;
 * plot_page_end() closes it. */
void plot_page_begin(FILE *to, const char *title);
void plot_page_end(FILE *to);

#endif

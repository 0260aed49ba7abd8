/* SPDX-License-Identifier: Apache-2.0 */
/* A plot as inline SVG, both axes logarithmic, for the pages that `weft bench --html` writes; and
 * the head of such a page. Knows nothing of benchmarks. */
#ifndef WEFT_CLI_BENCH_PLOT_H
#define WEFT_CLI_BENCH_PLOT_H

#include <stdbool.h>
#include <stdio.h>

enum { PLOT_POINTS = 64, PLOT_SERIES = 12 };

/* A line. What is not positive in y is left out. */
struct plot_series {
    const char *label;                          /* in the legend; NULL: not there */
    double x[PLOT_POINTS], y[PLOT_POINTS];      /* x positive, rising */
    double low[PLOT_POINTS], high[PLOT_POINTS]; /* of the band behind the line; 0: none */
    int n;
    bool dashed; /* a floor: no dots */
};

struct plot {
    const char *title, *unit;
    bool bytes; /* x is bytes; else a number */
    const struct plot_series *series;
    int count;
};

void plot_draw(FILE *to, const struct plot *plot);

/* The page up to its first paragraph, which the caller writes; plot_page_end() closes it. */
void plot_page_begin(FILE *to, const char *title);
void plot_page_end(FILE *to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Text output of topo, explain and doctor: lines folded to the width of a terminal, numbers with
 * three significant digits. */
#ifndef WEFT_CLI_COLUMNS_H
#define WEFT_CLI_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Width of lines: the variable COLUMNS, else that of the terminal that standard output is, else
 * 100; at least 40 and at most 400. */
int columns_limit(void);

/* With `full` (--full) no line is folded from here on. */
void columns_set_full(bool full);
bool columns_are_full(void);

/* Prints text and ends the line. A line longer than columns_limit() is broken at spaces after
 * column `hang`; the continuation lines are indented by `hang` columns. A word that is longer than
 * a line is cut. */
void columns_print(FILE *to, int hang, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints an empty line and the heading of what follows. */
void columns_print_heading(FILE *to, const char *heading);

/* Prints `name` and a comma-separated list as one shell line; a long list continues after "\\"
 * on the next line. */
void columns_print_list(FILE *to, const char *name, const char *list);

/* Number of columns that UTF-8 text takes on a terminal. */
int columns_of(const char *text);

/* A number with three significant digits: "395", "48.4", "9.60"; "?" when 0. */
const char *show_gbps(int64_t mbps, char *buffer, size_t size);
const char *show_us(int64_t ns, char *buffer, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text that fit a terminal, and numbers of few digits: the form of what topo, explain and
 * doctor print. */
#ifndef WEFT_CLI_COLUMNS_H
#define WEFT_CLI_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { COLUMNS = 100 };

/* With `full` nothing is folded from here on (--full). */
void columns_set_full(bool full);
bool columns_are_full(void);

/* Prints text and ends the line. What is longer than COLUMNS goes on in lines indented by `hang`
 * columns, broken at spaces behind column `hang`; a word that is longer than a line is cut. */
void columns_print(FILE *to, int hang, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints `name` and a list with commas, as one line of a shell: what is too long goes on behind
 * "\\" in the next line. */
void columns_print_list(FILE *to, const char *name, const char *list);

/* Columns that text takes on a terminal: its characters, of which UTF-8 has more bytes. */
int columns_of(const char *text);

/* A number with three significant digits: "395", "48.4", "9.60"; "?" when 0. */
const char *show_gbps(int64_t mbps, char *buffer, size_t size);
const char *show_us(int64_t ns, char *buffer, size_t size);

#endif

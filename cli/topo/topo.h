/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of `weft topo`; each takes a machine and prints one form of it. */
#ifndef WEFT_CLI_TOPO_H
#define WEFT_CLI_TOPO_H

#include <stdio.h>

#include "machine/checks/explain.h"
#include "machine/machine.h"
#include "machine/routes/routes.h"

/* The devices that are rows and columns: GPUs, NICs, disks, in this order. */
enum { TOPO_MOST = 1024 };

struct topo {
    const struct machine *machine;
    struct endpoint ends[TOPO_MOST];
    int n, gpus, nics;
};

void topo_collect(const struct machine *machine, struct topo *topo);

/* "X", "NV18", "XG1", "PIX" ...: what stands in the matrix. */
void topo_label(const struct topo *topo, int a, int b, char *label, size_t size);

/* "rwa": what the driver tells of peer access; '-' is refused, '?' unknown. */
void topo_access(const struct topo *topo, int a, int b, char access[4]);

/* The machine in few lines of at most COLUMNS columns; with --full all of it. */
void topo_text(const struct topo *topo, FILE *to);
/* Parts of it: a line for each kind of pair; one matrix of distances; every matrix. */
void topo_paths(const struct topo *topo, FILE *to);
void topo_distances(const struct topo *topo, FILE *to);
void topo_matrices(const struct topo *topo, FILE *to);
/* Which NIC for which GPU, and the variables that tell it. Exit status: 1 when a GPU has none. */
int topo_assign(const struct machine *machine, int json);
void topo_tree(const struct machine *machine, FILE *to);
void topo_links(const struct machine *machine, FILE *to);
void topo_routes(const struct topo *topo, FILE *to);
void topo_json(const struct topo *topo);
void topo_nccl(const struct machine *machine, FILE *to);
struct drawing;
/* The picture of draw.h as SVG. */
void topo_svg(const struct machine *machine, FILE *to);
/* A page of its own: the picture, and measured beside expected figures. */
void topo_html(const struct machine *machine, FILE *to);
void topo_draw_svg(const struct drawing *drawing, FILE *to);
/* Text with the characters that SVG and HTML give meaning to replaced. */
void svg_text(FILE *to, const char *text);
/* Prints growth of link error counters every `seconds` until interrupted, or `times` times. */
int topo_watch(double seconds, int times);
/* Pairs whose way or speed differs between two machines. Returns how many. */
int topo_changes(const struct machine *before, const struct machine *after, int json);

#endif

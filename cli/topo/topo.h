/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of `weft topo`. Each function prints a machine in one format. */
#ifndef WEFT_CLI_TOPO_H
#define WEFT_CLI_TOPO_H

#include <stdbool.h>
#include <stdio.h>

#include "machine/checks/explain.h"
#include "machine/machine.h"
#include "machine/routes/routes.h"

/* The devices that are rows and columns of the matrices: GPUs, NICs, disks, in this order. */
enum { TOPO_MOST = 1024 };

struct topo {
    const struct machine *machine;
    struct endpoint ends[TOPO_MOST];
    int n, gpus, nics;
};

void topo_collect(const struct machine *machine, struct topo *topo);

/* The distance label of a pair in the matrix: "X", "NV18", "XG1", "PIX" ... "PIX?": whether links
 * connect the two GPUs is unknown. */
void topo_label(const struct topo *topo, int a, int b, char *label, size_t size);

/* Peer access as the driver reports it: "rwa" (read, write, atomics); '-' refused, '?' unknown. */
void topo_access(const struct topo *topo, int a, int b, char access[4]);

/* A summary in lines of at most columns_limit() columns; with --full all of it. */
void topo_text(const struct topo *topo, FILE *to);
/* Parts of the summary: a line for each kind of pair; the distances; all matrices. */
void topo_paths(const struct topo *topo, FILE *to);
void topo_distances(const struct topo *topo, FILE *to);
void topo_matrices(const struct topo *topo, FILE *to);
/* The distance matrix: columns are GPUs, rows are all devices, without GPUs when they are all
 * alike. Without a GPU each device is a column. */
void topo_matrix(const struct topo *topo, FILE *to);
/* The same of several hosts, by kinds of hosts. False, and nothing printed, for one host. */
bool topo_host_distances(const struct topo *topo, FILE *to);
/* Prints which NIC each GPU should use and the variables of NCCL, UCX and NVSHMEM. Returns 1
 * when a GPU has no NIC, else 0. */
int topo_assign(const struct machine *machine, int json);
void topo_tree(const struct machine *machine, FILE *to);
void topo_links(const struct machine *machine, FILE *to);
void topo_routes(const struct topo *topo, FILE *to);
void topo_json(const struct topo *topo);
void topo_nccl(const struct machine *machine, FILE *to);
struct drawing;
/* The drawing of draw.h as SVG. */
void topo_svg(const struct machine *machine, FILE *to);
/* A standalone HTML page with the drawing and the measured and expected figures. */
void topo_html(const struct machine *machine, FILE *to);
void topo_draw_svg(const struct drawing *drawing, FILE *to);
/* Prints text with the special characters of SVG and HTML escaped. */
void svg_text(FILE *to, const char *text);
/* Prints which link error counters grow, every `seconds` until interrupted, or `times` times. */
int topo_watch(double seconds, int times);
/* Prints the pairs whose path or speed differs between two machines. Returns how many. */
int topo_changes(const struct machine *before, const struct machine *after, int json);

#endif

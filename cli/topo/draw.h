/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a machine as boxes and lines with places, before any format: nested frames of
 * packages, root complexes and PCIe switches with their devices, and one line for each bundle of
 * links. */
#ifndef WEFT_CLI_TOPO_DRAW_H
#define WEFT_CLI_TOPO_DRAW_H

#include <stdbool.h>

#include "machine/routes/routes.h"

enum draw_kind {
    DRAW_HOST, /* one of several */
    DRAW_PACKAGE,
    DRAW_ROOT,   /* root complex */
    DRAW_BRIDGE, /* PCIe switch */
    DRAW_GPU,
    DRAW_NIC,
    DRAW_DISK,
    DRAW_FABRIC, /* NVSwitch */
};

enum { DRAW_TEXT = 96, DRAW_NOTES = 6 };

/* Places are in pixels from the top left. Text stands in the middle of a device, and at the top
 * left of a frame; it is cut to fit, see draw_text_width(). */
struct draw_box {
    enum draw_kind kind;
    int parent; /* the frame that it stands in, -1: none */
    double x, y, w, h;
    char name[DRAW_TEXT],
        more[DRAW_TEXT]; /* two lines of a device; name and, where it fits, more */
    char key[DRAW_TEXT]; /* what makes it one and the same */
    int64_t gpu;         /* number of a GPU, else -1 */
    int row;             /* of the frame's rows, from 0 */
    bool folded;         /* its children take several rows */
    bool in_ring;        /* a GPU drawn once more, among those with links of their own */
    int domain;          /* NVLink domain of a GPU, and of a switch when it has a lane; -1: none */
};

struct draw_line {
    double x1, y1, x2, y2;
    double width;
    int from, to;   /* boxes at its ends, -1: none */
    char label[24]; /* "18x"; "" when it has none */
    double lx, ly;  /* middle of the label */
    bool weak;      /* fewer links than others of its kind */
    bool cpu;       /* between packages */
    int domain;     /* whose lane it leads to; -1: there are no lanes */
};

struct drawing {
    struct draw_box *boxes;
    struct draw_line *lines;
    int n_boxes, n_lines, room_boxes, room_lines;
    int n_domains; /* of NVLink, behind switches */
    double w, h;
    char title[160], subtitle[160];
    char notes[DRAW_NOTES][160]; /* what the lines stand for */
    int n_notes;
    double notes_x, notes_y;
};

/* Places everything. draw_free() releases it. */
void draw_machine(const struct machine *machine, struct drawing *drawing);
void draw_free(struct drawing *drawing);

/* Whether `box` stands in `frame`, however deep; a box stands in itself. */
bool draw_is_inside(const struct drawing *drawing, int box, int frame);

/* Columns of pixels that text of this size takes at most, in any sans-serif font; bold text is
 * wider. */
double draw_text_width(const char *text, double size, bool bold);

enum { DRAW_FONT = 12, DRAW_SMALL = 10, DRAW_TITLE = 18 };

/* --- between the parts of drawing ------------------------------------------------------------- */

int draw_add_box(struct drawing *drawing, enum draw_kind kind, int parent);
struct draw_line *draw_add_line(struct drawing *drawing);
void draw_note(struct drawing *drawing, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The links between GPUs, below or beside what has been placed between x, y and w, h. */
enum draw_fabric { DRAW_NO_LINKS, DRAW_SWITCHED, DRAW_DIRECT };
enum draw_fabric draw_fabric_of(const struct machine *machine);
void draw_switched(const struct machine *machine, struct drawing *drawing);
/* NVLink domains, and to which each GPU of the list belongs, from 0, in the order of the GPUs; -1
 * without links to a switch. */
int draw_domains(const struct machine *machine, int *of);
int draw_links_up(const struct machine *machine, int64_t gpu);
void draw_bundle_words(const struct link_bundle *bundle, char *text, size_t size);
/* A domain takes several rows of the picture, so that its switch stands at their left. */
bool draw_spans_rows(const struct drawing *drawing);
/* GPUs of several domains stand between each other, so that each row has a lane for each; they take
 * so much below it. */
bool draw_is_tangled(const struct drawing *drawing);
double draw_lanes_height(int domains);
void draw_ring(const struct machine *machine, struct drawing *drawing);

/* Pixels left free below each row of GPUs for their links, and left of all where rows are
 * several. */
enum { DRAW_MARGIN = 24, DRAW_BUS = 40, DRAW_HEAD = 66, DRAW_SIDE = 120 };

#endif

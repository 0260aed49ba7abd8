/* SPDX-License-Identifier: Apache-2.0 */
/* The drawing of a machine as boxes and lines with coordinates, before any file format: nested
 * frames of packages, root complexes and PCIe switches with their devices, and one line for each
 * bundle of links. */
#ifndef WEFT_CLI_TOPO_DRAW_H
#define WEFT_CLI_TOPO_DRAW_H

#include <stdbool.h>

#include "machine/routes/routes.h"

enum draw_kind {
    DRAW_RACK, /* hosts that one NVLink domain spans */
    DRAW_HOST, /* a host, when there are several */
    DRAW_PACKAGE,
    DRAW_ROOT,   /* root complex */
    DRAW_BRIDGE, /* PCIe switch */
    DRAW_GPU,
    DRAW_NIC,
    DRAW_DISK,
    DRAW_FABRIC, /* NVSwitch */
};

enum { DRAW_TEXT = 96, DRAW_NOTES = 12 };

/* Coordinates are pixels from the top left. Text is centred in a device and at the top left of a
 * frame. It is cut to fit, see draw_text_width(). */
struct draw_box {
    enum draw_kind kind;
    int parent; /* index of the enclosing frame, -1: none */
    double x, y, w, h;
    char name[DRAW_TEXT], more[DRAW_TEXT]; /* A device shows both in two lines; a frame shows `name`
                                              and, if it fits, `more`. */
    char key[DRAW_TEXT];                   /* unique key of the object */
    int64_t gpu;                           /* GPU index, else -1 */
    int row;                               /* row within the frame, from 0 */
    bool folded;                           /* its children take several rows */
    bool in_ring;      /* second drawing of a GPU, in the ring of direct links */
    bool fault;        /* `weft doctor` finds a fault of this device */
    bool name_at_left; /* a frame whose name is at the left of its content */
    bool unknown;      /* a switch of unknown links: whether there is one is unknown */
    int domain;        /* NVLink domain of a GPU, or of a switch with its own bus line; -1: none */
};

struct draw_line {
    double x1, y1, x2, y2;
    double width;
    int from, to;   /* boxes at its ends, -1: none */
    char label[24]; /* e.g. "18x"; "": no label */
    double lx, ly;  /* centre of the label */
    bool weak;      /* has fewer links than other lines of this kind */
    bool cpu;       /* connects CPU packages */
    bool unknown;   /* whether links connect its ends is unknown */
    bool fault;     /* a pair with a fault: from both devices down to `down`, and across */
    double down;
    int domain; /* domain whose bus line it leads to; -1: domains have no bus lines */
};

struct drawing {
    struct draw_box *boxes;
    struct draw_line *lines;
    int n_boxes, n_lines, boxes_capacity, lines_capacity;
    int n_domains; /* number of NVLink domains with switches */
    bool in_racks; /* drawn by draw_racks() */
    double w, h;
    char title[160], subtitle[160];
    char notes[DRAW_NOTES][160]; /* legend of the lines, then the faults */
    int n_notes, first_fault_note;
    double notes_x, notes_y;
};

/* Computes all coordinates. The caller frees the drawing with draw_free(). */
void draw_machine(const struct machine *machine, struct drawing *drawing);
void draw_free(struct drawing *drawing);

/* Whether `frame` encloses `box` at any depth; a box encloses itself. */
bool draw_is_inside(const struct drawing *drawing, int box, int frame);

/* Upper bound in pixels of the width of text of this size in any sans-serif font; bold text is
 * wider. */
double draw_text_width(const char *text, double size, bool bold);

enum { DRAW_FONT = 12, DRAW_SMALL = 10, DRAW_TITLE = 18 };

/* --- between the parts of drawing ------------------------------------------------------------- */

bool draw_is_frame(enum draw_kind kind);
/* Adds the devices and their frames, without places; with `by_domain` GPUs in the order of NVLink
 * domains. Sets n_domains. */
void draw_tree(const struct machine *machine, bool by_domain, struct drawing *drawing);
int draw_add_box(struct drawing *drawing, enum draw_kind kind, int parent);
struct draw_line *draw_add_line(struct drawing *drawing);
/* Widens the drawing and keeps its content centred. */
void draw_widen(struct drawing *drawing, double width);
void draw_note(struct drawing *drawing, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The links between GPUs, below or at the side of the boxes placed so far. */
enum draw_fabric { DRAW_NO_LINKS, DRAW_SWITCHED, DRAW_DIRECT, DRAW_UNKNOWN };
enum draw_fabric draw_fabric_of(const struct machine *machine);
void draw_switched(const struct machine *machine, struct drawing *drawing);
/* Returns the number of NVLink domains. of[i]: the domain of the i-th GPU of the machine, from
 * 0; -1 without links to a switch. Of one domain are also GPUs with unknown links, unless links
 * between other GPUs show that there is no switch. */
int draw_domains(const struct machine *machine, int *of);
int draw_links_up(const struct machine *machine, int64_t gpu);
/* Notes the links of a GPU with `links` of them: "NVSwitch: each line is 18x NVLink 5 ...". */
void draw_note_switched(const struct machine *machine, struct drawing *drawing, int links,
                        const char *subject);
/* Draws NVLink domains that span hosts as racks. False, and nothing drawn, for other machines. */
bool draw_racks(const struct machine *machine, struct drawing *drawing);
void draw_bundle_words(const struct link_bundle *bundle, char *text, size_t size);
/* True when a domain takes several rows of the drawing, so that its switch is drawn at their
 * left. */
bool draw_spans_rows(const struct drawing *drawing);
/* True when GPUs of several domains are interleaved, so that each row has one bus line per
 * domain. draw_bus_lines_height() is the height of these lines below a row. */
bool draw_is_interleaved(const struct drawing *drawing);
double draw_bus_lines_height(int domains);
void draw_ring(const struct machine *machine, struct drawing *drawing);
/* Marks what `weft doctor` finds in the boxes placed so far. */
void draw_faults(const struct machine *machine, struct drawing *drawing);

/* Space in pixels below each row of GPUs for their links, and at the left when there are several
 * rows. */
enum { DRAW_MARGIN = 24, DRAW_BUS = 40, DRAW_HEAD = 66, DRAW_SIDE = 120 };

#endif

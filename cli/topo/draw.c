/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the positions of frames and devices. Devices other than GPUs are at the top of their
 * frame, frames and GPUs in a row at its bottom, so that the space below a GPU has only its
 * enclosing frames and is free for its links. See draw.h. */
#include "topo/draw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/routes/routes.h"

enum {
    PAD = 10,      /* padding inside a frame */
    GAP = 10,      /* gap between neighbours */
    HEADING = 22,  /* height of a frame's title */
    DEVICE_H = 40, /* height of two lines of text */
    DEVICE_W = 62,
};

/* --- boxes and lines -------------------------------------------------------------------------- */

static void *grow_list(void *list, int n, int *capacity, size_t bytes)
{
    if (n < *capacity)
        return list;
    *capacity = *capacity ? 2 * *capacity : 64;
    list = realloc(list, (size_t)*capacity * bytes);
    if (!list)
        abort();
    return list;
}

int draw_add_box(struct drawing *d, enum draw_kind kind, int parent)
{
    d->boxes = grow_list(d->boxes, d->n_boxes, &d->boxes_capacity, sizeof *d->boxes);
    d->boxes[d->n_boxes] =
        (struct draw_box){.kind = kind, .parent = parent, .gpu = -1, .domain = -1};
    return d->n_boxes++;
}

struct draw_line *draw_add_line(struct drawing *d)
{
    d->lines = grow_list(d->lines, d->n_lines, &d->lines_capacity, sizeof *d->lines);
    d->lines[d->n_lines] = (struct draw_line){.from = -1, .to = -1, .width = 2, .domain = -1};
    return &d->lines[d->n_lines++];
}

void draw_note(struct drawing *d, const char *format, ...)
{
    va_list arguments;
    if (d->n_notes == DRAW_NOTES)
        return;
    va_start(arguments, format);
    vsnprintf(d->notes[d->n_notes++], sizeof d->notes[0], format, arguments);
    va_end(arguments);
}

void draw_free(struct drawing *d)
{
    free(d->boxes);
    free(d->lines);
    memset(d, 0, sizeof *d);
}

bool draw_is_inside(const struct drawing *d, int box, int frame)
{
    for (; box >= 0; box = d->boxes[box].parent)
        if (box == frame)
            return true;
    return false;
}

double draw_text_width(const char *text, double size, bool bold)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n * size * (bold ? 0.68 : 0.62);
}

bool draw_is_frame(enum draw_kind kind)
{
    return kind <= DRAW_BRIDGE;
}

/* --- sizes, from the inside out --------------------------------------------------------------- */

static double least_width(const struct draw_box *box)
{
    bool heading = draw_is_frame(box->kind);
    double name = draw_text_width(box->name, DRAW_FONT, true) + 2 * PAD;
    double more = draw_text_width(box->more, DRAW_SMALL, false) + PAD;
    if (heading)
        return name;
    double w = name > more ? name : more;
    return w < DEVICE_W ? DEVICE_W : w;
}

/* Gap between packages, with space for the label of the line. */
static double package_gap(const struct machine *m)
{
    return m->n_packages > 1 && m->system.socket_link.value &&
                   !text_is(m->system.socket_link, "none")
               ? 110
               : 2 * GAP;
}

/* Size of the content of a frame (-1: of all), with positions relative to its top left corner. */
struct extent {
    double w, h;
    bool folded;
};

struct layout {
    const struct machine *machine;
    struct drawing *d;
    double bus;    /* space below a row of GPUs for their links, in pixels */
    bool apart;    /* each host has its own row */
    double widest; /* width at which a row is continued on the next */
};

static bool in_main_row(const struct draw_box *box)
{
    return draw_is_frame(box->kind) || box->kind == DRAW_GPU;
}

static struct extent measure_frame(struct layout *l, int frame);

static bool is_other(const struct drawing *d, int frame, int box)
{
    return d->boxes[box].parent == frame && !in_main_row(&d->boxes[box]);
}

/* Width of the devices of a kind of a frame, from a box on, in one row. */
static double kind_width(const struct drawing *d, int frame, int from)
{
    double w = -GAP;
    for (int i = from; i < d->n_boxes; i++)
        if (is_other(d, frame, i) && d->boxes[i].kind == d->boxes[from].kind)
            w += d->boxes[i].w + GAP;
    return w;
}

static double place_others(struct layout *l, int frame, double width)
{
    struct drawing *d = l->d;
    double x = 0, y = 0;
    bool any = false;
    enum draw_kind last = DRAW_FABRIC;
    for (int i = 0; i < d->n_boxes; i++) {
        struct draw_box *box = &d->boxes[i];
        if (!is_other(d, frame, i))
            continue;
        /* a kind that does not fit into the rest of a row begins its own */
        double kind = kind_width(d, frame, i);
        bool begins = any && box->kind != last && x + kind > width && x > 0;
        last = box->kind;
        if (any && (x + box->w > width || begins)) {
            x = 0;
            y += DEVICE_H + GAP;
        }
        box->x = x;
        box->y = y;
        x += box->w + GAP;
        any = true;
    }
    return any ? y + DEVICE_H : 0;
}

/* Gives more than two devices other than GPUs one width, so that their rows are a grid. Returns the
 * width of the grid: a square one next to GPUs, else with rows of six. */
static double others_width(struct drawing *d, int frame, bool gpus)
{
    double widest = 0, sum = 0;
    int n = 0, columns = gpus ? 2 : 6;
    for (int i = 0; i < d->n_boxes; i++)
        if (is_other(d, frame, i)) {
            widest = d->boxes[i].w > widest ? d->boxes[i].w : widest;
            sum += d->boxes[i].w + (n ? GAP : 0);
            n++;
        }
    if (n <= 2)
        return sum;
    for (int i = 0; i < d->n_boxes; i++)
        if (is_other(d, frame, i))
            d->boxes[i].w = widest;
    while (columns * columns < n)
        columns++;
    columns = n < columns ? n : columns;
    return columns * (widest + GAP) - GAP;
}

/* Aligns the boxes of a row at their lower edge. */
static void align_row(struct drawing *d, int frame, int row, double y, double height)
{
    for (int i = 0; i < d->n_boxes; i++)
        if (d->boxes[i].parent == frame && in_main_row(&d->boxes[i]) && d->boxes[i].row == row)
            d->boxes[i].y = y + height - d->boxes[i].h;
}

static bool holds_packages(const struct drawing *d, int frame)
{
    for (int i = 0; i < d->n_boxes; i++)
        if (d->boxes[i].parent == frame && d->boxes[i].kind == DRAW_PACKAGE)
            return true;
    return false;
}

/* The NVLink domain of all GPUs in a box; -1: several domains, or no GPU. */
static int domain_of(const struct drawing *d, int box)
{
    int domain = -1;
    for (int i = 0; i < d->n_boxes; i++) {
        if (d->boxes[i].kind != DRAW_GPU || !draw_is_inside(d, i, box))
            continue;
        if (domain >= 0 && d->boxes[i].domain != domain)
            return -1;
        domain = d->boxes[i].domain;
    }
    return domain;
}

/* Whether `box` starts a new row: its domain does not fit into the rest of this row, but into a
 * row of its own. */
static bool begins_row(const struct layout *l, int last, int box, double x, double gap)
{
    const struct drawing *d = l->d;
    int domain = d->n_domains > 1 ? domain_of(d, box) : -1;
    double width = -gap;
    if (domain < 0 || domain_of(d, last) == domain)
        return false;
    for (int i = box; i < d->n_boxes; i++)
        if (d->boxes[i].parent == d->boxes[box].parent && in_main_row(&d->boxes[i]) &&
            domain_of(d, i) == domain)
            width += d->boxes[i].w + gap;
    return x + width > l->widest && width <= l->widest;
}

/* Places frames and GPUs in rows from y on. Returns their extent. */
static struct extent place_main(struct layout *l, int frame, double y)
{
    struct drawing *d = l->d;
    struct extent e = {.w = 0};
    double x = 0, height = 0, gap = holds_packages(d, frame) ? package_gap(l->machine) : GAP;
    int row = 0, last = -1;
    bool alone = false;
    for (int i = 0; i < d->n_boxes; i++) {
        struct draw_box *box = &d->boxes[i];
        if (box->parent != frame || !in_main_row(box))
            continue;
        if (x > 0 &&
            (x + box->w > l->widest || box->folded || alone || begins_row(l, last, i, x, gap))) {
            align_row(d, frame, row, y, height);
            y += height + GAP + l->bus;
            e.h += height + GAP + l->bus;
            e.folded = true;
            x = height = 0;
            row++;
        }
        alone = box->folded;
        last = i;
        box->x = x;
        box->row = row;
        x += box->w + gap;
        height = box->h > height ? box->h : height;
        e.w = x - gap > e.w ? x - gap : e.w;
    }
    align_row(d, frame, row, y, height);
    e.h += height;
    if (e.folded)
        e.h += l->bus;
    return e;
}

static void measure_children(struct layout *l, int frame)
{
    struct drawing *d = l->d;
    for (int i = 0; i < d->n_boxes; i++) {
        if (d->boxes[i].parent != frame)
            continue;
        struct extent e = {.w = least_width(&d->boxes[i]), .h = DEVICE_H};
        if (draw_is_frame(d->boxes[i].kind))
            e = measure_frame(l, i);
        d->boxes[i].w = e.w;
        d->boxes[i].h = e.h;
        d->boxes[i].folded = e.folded || (d->boxes[i].kind == DRAW_HOST && l->apart);
    }
}

static struct extent measure_frame(struct layout *l, int frame)
{
    struct drawing *d = l->d;
    measure_children(l, frame);
    struct extent inner = place_main(l, frame, 0);
    double least = others_width(d, frame, inner.w > 0);
    double width = inner.w > least ? inner.w : least;
    double others = place_others(l, frame, width);
    double down = others > 0 ? others + (inner.h > 0 ? GAP : 0) : 0;
    for (int i = 0; i < d->n_boxes && down > 0; i++)
        if (d->boxes[i].parent == frame && in_main_row(&d->boxes[i]))
            d->boxes[i].y += down;
    struct extent e = {.w = width, .h = down + inner.h, .folded = inner.folded};
    for (int i = 0; i < d->n_boxes; i++)
        e.folded |= d->boxes[i].parent == frame && d->boxes[i].folded;
    if (frame < 0)
        return e;
    double heading = least_width(&d->boxes[frame]);
    e.w = (e.w > heading - 2 * PAD ? e.w : heading - 2 * PAD) + 2 * PAD;
    e.h += HEADING + PAD;
    return e;
}

/* Converts positions relative to the frame to positions in the drawing. */
static void make_absolute(struct drawing *d, int frame, double x, double y)
{
    for (int i = 0; i < d->n_boxes; i++) {
        if (d->boxes[i].parent != frame)
            continue;
        d->boxes[i].x += x;
        d->boxes[i].y += y;
        if (draw_is_frame(d->boxes[i].kind))
            make_absolute(d, i, d->boxes[i].x + PAD, d->boxes[i].y + HEADING);
    }
}

/* --- the whole drawing ------------------------------------------------------------------------ */

static const char *link_words(const struct machine *m)
{
    for (size_t i = 0; i < m->n_links; i++)
        if (text_is(m->links[i].peer, "switch") && number_is(m->links[i].active, 1))
            return ", NVLink through NVSwitch";
    for (size_t i = 0; i < m->n_links; i++)
        if (text_is(m->links[i].peer, "gpu") && number_is(m->links[i].active, 1))
            return text_is(m->links[i].kind, "xgmi") ? ", xGMI" : ", NVLink";
    return draw_fabric_of(m) == DRAW_UNKNOWN ? ", links unknown" : "";
}

static void name_picture(const struct machine *m, struct drawing *d)
{
    char nics[48] = "";
    if (m->n_nics)
        snprintf(nics, sizeof nics, ", %zu NIC%s", m->n_nics, m->n_nics == 1 ? "" : "s");
    if (m->n_gpus)
        snprintf(d->title, sizeof d->title, "%zu x %.60s%s%s", m->n_gpus,
                 text_or(m->gpus[0].name, "GPU"), link_words(m), nics);
    else
        snprintf(d->title, sizeof d->title, "No GPU%s", nics);
    snprintf(d->subtitle, sizeof d->subtitle, "%.140s%s", m->origin,
             machine_is_flat(m) ? " (virtual machine)" : "");
}

/* Draws a line between neighbouring packages of a row. */
static void connect_packages(const struct machine *m, struct drawing *d)
{
    char words[64];
    if (m->n_packages < 2 || !m->system.socket_link.value || text_is(m->system.socket_link, "none"))
        return;
    snprintf(words, sizeof words, "%.8s", m->system.socket_link.value);
    if (m->system.socket_link_mbps.known)
        snprintf(words, sizeof words, "%.8s %" PRId64 " GB/s", m->system.socket_link.value,
                 m->system.socket_link_mbps.value / 1000);
    bool drawn = false;
    for (int i = 0, last = -1; i < d->n_boxes; i++) {
        if (d->boxes[i].kind != DRAW_PACKAGE || strcmp(d->boxes[i].key, "-1") == 0)
            continue;
        if (last >= 0 && d->boxes[last].row == d->boxes[i].row &&
            d->boxes[last].parent == d->boxes[i].parent) {
            const struct draw_box *a = &d->boxes[last], *b = &d->boxes[i];
            double top = a->y > b->y ? a->y : b->y, bottom = a->y + a->h;
            struct draw_line *line = draw_add_line(d);
            drawn = true;
            *line = (struct draw_line){.x1 = a->x + a->w,
                                       .x2 = b->x,
                                       .y1 = (top + bottom) / 2,
                                       .y2 = (top + bottom) / 2,
                                       .width = 3,
                                       .from = last,
                                       .to = i,
                                       .cpu = true,
                                       .domain = -1};
            line->lx = (line->x1 + line->x2) / 2;
            line->ly = line->y1 - 10;
            snprintf(line->label, sizeof line->label, "%.23s", words);
        }
        last = i;
    }
    if (!drawn) /* they are below each other */
        draw_note(d, "between CPU packages: %s", words);
}

/* Finds the shortest rows for which the drawing is still as wide as a slide, then shortens them as
 * far as it takes no more rows, so that the last row is not much shorter than the others. */
static struct extent fit_page(struct layout *l)
{
    static const double widths[] = {1500, 2400, 3400, 4600};
    struct extent e = {.w = 0}, shorter;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        l->widest = widths[i];
        e = measure_frame(l, -1);
        if (e.w >= 1.2 * e.h)
            break;
    }
    while (l->widest > 400) {
        l->widest -= 20;
        shorter = measure_frame(l, -1);
        if (shorter.h > e.h + 0.5 || (shorter.w < 1.2 * shorter.h && shorter.w < e.w))
            break;
        e = shorter;
    }
    l->widest += 20;
    return measure_frame(l, -1);
}

void draw_widen(struct drawing *d, double width)
{
    double by = (width - d->w) / 2;
    for (int i = 0; i < d->n_boxes; i++)
        d->boxes[i].x += by;
    for (int i = 0; i < d->n_lines; i++) {
        d->lines[i].x1 += by;
        d->lines[i].x2 += by;
        d->lines[i].lx += by;
    }
    d->w = width;
}

/* Places everything except lines, with `bus` pixels below each row of GPUs. Returns the extent. */
static struct extent place_all(const struct machine *machine, bool by_domain, double bus,
                               struct drawing *d)
{
    memset(d, 0, sizeof *d);
    draw_tree(machine, by_domain, d);
    name_picture(machine, d);
    struct layout l = {.machine = machine, .d = d, .bus = bus, .apart = d->n_domains > 1};
    return fit_page(&l);
}

/* Draws frames, devices and links. */
static void draw_hosts(const struct machine *machine, struct drawing *d)
{
    enum draw_fabric fabric = draw_fabric_of(machine);
    bool switched = fabric == DRAW_SWITCHED || fabric == DRAW_UNKNOWN;
    struct extent e = place_all(machine, true, switched ? DRAW_BUS : 0, d);
    bool side = switched && draw_spans_rows(d);
    make_absolute(d, -1, DRAW_MARGIN + (side ? DRAW_SIDE : 0), DRAW_HEAD);
    if (draw_is_interleaved(d)) {
        /* the tree does not allow that: order by GPU number, with space for bus lines */
        double bus = draw_bus_lines_height(d->n_domains);
        side = true;
        draw_free(d);
        e = place_all(machine, false, bus, d);
        make_absolute(d, -1, DRAW_MARGIN + DRAW_SIDE, DRAW_HEAD);
    }
    d->w = e.w + 2 * DRAW_MARGIN + (side ? DRAW_SIDE : 0);
    d->h = DRAW_HEAD + e.h;
    connect_packages(machine, d);
    if (switched)
        draw_switched(machine, d);
    else if (fabric == DRAW_DIRECT)
        draw_ring(machine, d);
}

void draw_machine(const struct machine *machine, struct drawing *d)
{
    memset(d, 0, sizeof *d);
    if (draw_racks(machine, d)) {
        d->in_racks = true;
        name_picture(machine, d);
    } else {
        draw_hosts(machine, d);
    }
    draw_faults(machine, d);
    double widest = draw_text_width(d->title, DRAW_TITLE, true);
    double second = draw_text_width(d->subtitle, DRAW_FONT, false);
    widest = second > widest ? second : widest;
    for (int i = 0; i < d->n_notes; i++) {
        double w = draw_text_width(d->notes[i], DRAW_FONT, false);
        widest = w > widest ? w : widest;
    }
    if (d->w < widest + 2 * DRAW_MARGIN)
        draw_widen(d, widest + 2 * DRAW_MARGIN);
    d->notes_x = DRAW_MARGIN;
    d->notes_y = d->h + 22;
    d->h += 22 + 18 * d->n_notes;
}

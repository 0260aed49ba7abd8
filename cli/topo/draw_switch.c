/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from GPUs to their switch. A domain in one row has straight lines down to a bar below
 * the row. A domain in several rows has one horizontal line per row, which a bar at the left
 * joins. Interleaved domains have one bus line each. No line crosses a box. See draw.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "machine/routes/routes.h"
#include "topo/draw.h"

enum { BAR_H = 40, BAR_OVER = 2, BUS_LINE_H = 22, BUS_LINE_FIRST = 24, BUS_LINE_BOX_H = 18 };

int draw_links_up(const struct machine *m, int64_t gpu)
{
    int n = 0;
    struct machine_range range = machine_links_of(m, gpu);
    for (size_t i = range.first; i < range.end; i++)
        n += number_is(m->links[i].gpu, gpu) && text_is(m->links[i].peer, "switch") &&
             number_is(m->links[i].active, 1);
    return n;
}

/* --- rows ------------------------------------------------------------------------------------- */

static int rows_of(const struct drawing *d, int frame)
{
    int rows = 0;
    for (int i = 0; i < d->n_boxes; i++)
        if (d->boxes[i].parent == frame && d->boxes[i].row > rows)
            rows = d->boxes[i].row;
    return rows + 1;
}

static double row_bottom(const struct drawing *d, int frame, int row)
{
    double bottom = 0;
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *box = &d->boxes[i];
        if (box->parent == frame && box->row == row && box->kind != DRAW_FABRIC &&
            box->y + box->h > bottom)
            bottom = box->y + box->h;
    }
    return bottom;
}

/* --- domains ---------------------------------------------------------------------------------- */

static bool has_unknown_links(const struct machine *m, int64_t gpu)
{
    return !routes_links_known(m, gpu) && !draw_links_up(m, gpu);
}

int draw_domains(const struct machine *m, int *of)
{
    int n = 0;
    bool direct = draw_fabric_of(m) == DRAW_DIRECT;
    for (size_t i = 0; i < m->n_gpus; i++) {
        int64_t gpu = number_or(m->gpus[i].index, -1);
        of[i] = -1;
        if (!draw_links_up(m, gpu) && (direct || m->n_gpus < 2 || !has_unknown_links(m, gpu)))
            continue;
        for (size_t k = 0; k < i && of[i] < 0; k++)
            if (of[k] >= 0 && strcmp(text_or(m->gpus[k].fabric_cluster, ""),
                                     text_or(m->gpus[i].fabric_cluster, "")) == 0)
                of[i] = of[k];
        of[i] = of[i] < 0 ? n++ : of[i];
    }
    return n;
}

/* Returns the box or enclosing frame of `box` whose siblings take several rows; -1: everything
 * is in one row. */
static int in_row(const struct drawing *d, int box)
{
    for (; box >= 0; box = d->boxes[box].parent)
        if (rows_of(d, d->boxes[box].parent) > 1)
            return box;
    return -1;
}

static bool same_row(const struct drawing *d, int a, int b)
{
    int x = in_row(d, a), y = in_row(d, b);
    return x == y || (x >= 0 && y >= 0 && d->boxes[x].parent == d->boxes[y].parent &&
                      d->boxes[x].row == d->boxes[y].row);
}

static bool domain_spans(const struct drawing *d, int domain)
{
    int first = -1;
    for (int i = 0; i < d->n_boxes; i++) {
        if (d->boxes[i].kind != DRAW_GPU || d->boxes[i].domain != domain)
            continue;
        if (first >= 0 && !same_row(d, first, i))
            return true;
        first = first < 0 ? i : first;
    }
    return false;
}

bool draw_spans_rows(const struct drawing *d)
{
    for (int domain = 0; domain < d->n_domains; domain++)
        if (domain_spans(d, domain))
            return true;
    return false;
}

/* Whether a GPU of another domain is in the way of this domain's line: between its GPUs, or,
 * when the domain takes several rows, anywhere in one of them. */
static bool is_crossed(const struct drawing *d, int domain)
{
    bool spans = domain_spans(d, domain);
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *other = &d->boxes[i];
        bool left = false, right = false;
        if (other->kind != DRAW_GPU || other->domain < 0 || other->domain == domain)
            continue;
        for (int k = 0; k < d->n_boxes; k++) {
            const struct draw_box *box = &d->boxes[k];
            if (box->kind != DRAW_GPU || box->domain != domain || !same_row(d, i, k))
                continue;
            left |= box->x < other->x;
            right |= box->x > other->x;
        }
        if ((left && right) || (spans && (left || right)))
            return true;
    }
    return false;
}

bool draw_is_interleaved(const struct drawing *d)
{
    for (int domain = 0; domain < d->n_domains; domain++)
        if (is_crossed(d, domain))
            return true;
    return false;
}

double draw_bus_lines_height(int domains)
{
    return BUS_LINE_FIRST + (domains - 1) * BUS_LINE_H + BUS_LINE_H / 2.0;
}

/* --- lines to a switch ------------------------------------------------------------------------ */

/* y coordinate at which the line down from a GPU ends: below its row, if there are several. */
static double bus_below(const struct drawing *d, int gpu, double floor)
{
    int child = in_row(d, gpu);
    return child < 0 ? floor
                     : row_bottom(d, d->boxes[child].parent, d->boxes[child].row) + DRAW_BUS * 0.5;
}

static void label_down(struct draw_line *line, int links)
{
    snprintf(line->label, sizeof line->label, "%dx", links);
    line->lx = line->x1 + 4 + draw_text_width(line->label, DRAW_SMALL, false) / 2;
    line->ly = line->y2 - 12;
}

/* The horizontal line that joins the lines of a row, from the switch on its left. */
static void gather_connections(struct drawing *d, int bar, double y)
{
    double right = 0;
    for (int i = 0; i < d->n_lines; i++)
        if (d->lines[i].from != bar && fabs(d->lines[i].y2 - y) < 0.5 && !d->lines[i].cpu &&
            d->lines[i].x2 > right)
            right = d->lines[i].x2;
    for (int i = 0; i < d->n_lines; i++)
        if (d->lines[i].from == bar && fabs(d->lines[i].y1 - y) < 0.5)
            return;
    struct draw_line *line = draw_add_line(d);
    line->from = bar;
    line->x1 = d->boxes[bar].x + d->boxes[bar].w;
    line->x2 = right;
    line->y1 = line->y2 = y;
    line->width = 4;
}

void draw_note_switched(const struct machine *m, struct drawing *d, int most, const char *subject)
{
    for (size_t i = 0; i < m->n_gpus; i++)
        for (size_t j = 0; j < m->n_gpus; j++) {
            struct link_bundle b = i == j ? (struct link_bundle){0}
                                          : routes_links(m, number_or(m->gpus[i].index, -1),
                                                         number_or(m->gpus[j].index, -1));
            char words[96];
            if (b.links != most || !most)
                continue;
            draw_bundle_words(&b, words, sizeof words);
            draw_note(d, "NVSwitch: %s %s", subject, words);
            return;
        }
}

static int add_bar(struct drawing *d)
{
    int bar = draw_add_box(d, DRAW_FABRIC, -1);
    snprintf(d->boxes[bar].name, DRAW_TEXT, "NVSwitch");
    return bar;
}

/* Adds the vertical lines of a domain, down from its GPUs. Returns the first. */
static int lines_down(const struct machine *m, struct drawing *d, int domain, double floor)
{
    int first = d->n_lines, most = 0;
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *gpu = &d->boxes[i];
        bool here = gpu->kind == DRAW_GPU && gpu->domain == domain;
        int links = here ? draw_links_up(m, gpu->gpu) : 0;
        if (!here)
            continue;
        most = links > most ? links : most;
        struct draw_line *line = draw_add_line(d);
        line->from = i;
        line->x1 = line->x2 = gpu->x + gpu->w / 2;
        line->y1 = gpu->y + gpu->h;
        line->y2 = bus_below(d, i, floor);
        line->width = links ? 3 : 2;
        line->unknown = !links;
        if (links)
            label_down(line, links);
    }
    for (int i = first; i < d->n_lines; i++) {
        int links = 0;
        d->lines[i].weak = sscanf(d->lines[i].label, "%d", &links) == 1 && links < most;
    }
    return first;
}

/* A switch to which only unknown links lead. */
static void name_unknown(struct drawing *d, int first, struct draw_box *bar)
{
    for (int i = first; i < d->n_lines; i++)
        if (!d->lines[i].unknown)
            return;
    bar->unknown = true;
    snprintf(bar->name, DRAW_TEXT, bar->w && bar->w < 100 ? "unknown" : "links unknown");
}

/* Places the switch below a row, as wide as its GPUs; below all rows it is as wide as the
 * drawing. */
static void bar_below(struct drawing *d, int first, bool all)
{
    int bar = add_bar(d), child = first < d->n_lines ? in_row(d, d->lines[first].from) : -1;
    struct draw_box *box = &d->boxes[bar];
    double left = 1e9, right = 0;
    if (child >= 0)
        box->parent = d->boxes[child].parent; /* between the rows of that frame */
    name_unknown(d, first, box);
    for (int i = first; i < d->n_lines; i++) {
        const struct draw_box *gpu = &d->boxes[d->lines[i].from];
        d->lines[i].to = bar;
        left = gpu->x < left ? gpu->x : left;
        right = gpu->x + gpu->w > right ? gpu->x + gpu->w : right;
        box->y = d->lines[i].y2;
    }
    box->h = all ? BAR_H : DRAW_BUS * 0.5;
    box->x = all ? DRAW_MARGIN : left - BAR_OVER;
    box->w = all ? d->w - 2 * DRAW_MARGIN : right - left + 2 * BAR_OVER;
    d->h = box->y + box->h > d->h ? box->y + box->h : d->h;
}

/* Places the switch at the left of several rows, with a line below each. */
static void bar_at_left(struct drawing *d, int first)
{
    int bar = add_bar(d), lines = d->n_lines;
    double top = 1e9, bottom = 0;
    for (int i = first; i < lines; i++) {
        top = d->lines[i].y1 < top ? d->lines[i].y1 : top;
        bottom = d->lines[i].y2 > bottom ? d->lines[i].y2 : bottom;
    }
    struct draw_box *box = &d->boxes[bar];
    box->x = DRAW_MARGIN;
    box->y = top - 40;
    box->w = DRAW_SIDE - 30;
    box->h = bottom - box->y + 10;
    name_unknown(d, first, box);
    bool unknown = box->unknown;
    for (int i = first; i < lines; i++)
        gather_connections(d, bar, d->lines[i].y2);
    for (int i = lines; i < d->n_lines; i++)
        d->lines[i].unknown = unknown;
    d->h = (bottom > d->h ? bottom : d->h) + 14;
}

/* --- bus lines -------------------------------------------------------------------------------- */

/* y coordinate at which the row of a GPU ends. */
static double end_of_row(const struct drawing *d, int gpu, double floor)
{
    int child = in_row(d, gpu);
    return child < 0 ? floor : row_bottom(d, d->boxes[child].parent, d->boxes[child].row);
}

/* Adds the bus line of a domain below the row that ends at `bottom`. 0: the row has no GPU of
 * the domain. */
static int add_bus_line(const struct machine *m, struct drawing *d, int domain, double bottom,
                        double floor, double y)
{
    int most = 0, boxes = d->n_boxes;
    for (int i = 0; i < boxes; i++) {
        const struct draw_box *gpu = &d->boxes[i];
        if (gpu->kind != DRAW_GPU || gpu->domain != domain ||
            fabs(end_of_row(d, i, floor) - bottom) > 0.5)
            continue;
        int links = draw_links_up(m, gpu->gpu);
        struct draw_line *line = draw_add_line(d);
        line->from = i;
        line->x1 = line->x2 = gpu->x + gpu->w / 2;
        line->y1 = gpu->y + gpu->h;
        line->y2 = y;
        line->width = 3;
        line->domain = domain;
        label_down(line, links);
        line->ly = bottom + BUS_LINE_FIRST - 12;
        most = links > most ? links : most;
    }
    if (!most)
        return 0;
    int bar = add_bar(d);
    struct draw_box *box = &d->boxes[bar];
    snprintf(box->name, DRAW_TEXT, domain < 10 ? "NVSwitch %d" : "switch %d", domain);
    box->domain = domain;
    box->x = DRAW_MARGIN;
    box->y = y - BUS_LINE_BOX_H / 2.0;
    box->w = DRAW_SIDE - 30;
    box->h = BUS_LINE_BOX_H;
    gather_connections(d, bar, y);
    d->lines[d->n_lines - 1].domain = domain;
    d->h = y + BUS_LINE_H / 2.0 > d->h ? y + BUS_LINE_H / 2.0 : d->h;
    return most;
}

/* Adds the bus lines below each row, in the order of the domains. */
static int add_bus_lines(const struct machine *m, struct drawing *d)
{
    double floor = d->h, done = -1;
    int most = 0, boxes = d->n_boxes;
    for (;;) {
        double bottom = 1e9, y;
        for (int i = 0; i < boxes; i++) /* the next row below */
            if (d->boxes[i].kind == DRAW_GPU && end_of_row(d, i, floor) > done + 0.5 &&
                end_of_row(d, i, floor) < bottom)
                bottom = end_of_row(d, i, floor);
        if (bottom > 1e8)
            break;
        y = bottom + BUS_LINE_FIRST;
        for (int domain = 0; domain < d->n_domains; domain++) {
            int links = add_bus_line(m, d, domain, bottom, floor, y);
            y += links ? BUS_LINE_H : 0;
            most = links > most ? links : most;
        }
        done = bottom;
    }
    for (int i = 0, links; i < d->n_lines; i++)
        d->lines[i].weak = sscanf(d->lines[i].label, "%d", &links) == 1 && links < most;
    return most;
}

void draw_switched(const struct machine *m, struct drawing *d)
{
    int most = 0;
    bool folded = false;
    if (draw_is_interleaved(d)) {
        draw_note_switched(m, d, add_bus_lines(m, d), "each line is");
        return;
    }
    for (int i = 0; i < d->n_boxes; i++)
        folded |= rows_of(d, d->boxes[i].parent) > 1;
    double floor = d->h + (folded ? DRAW_BUS * 0.5 : DRAW_BUS);
    for (int domain = 0; domain < d->n_domains; domain++) {
        bool in_domain = domain_spans(d, domain);
        int first = lines_down(m, d, domain, floor);
        for (int i = first; i < d->n_lines; i++) {
            int links = 0;
            if (sscanf(d->lines[i].label, "%d", &links) == 1 && links > most)
                most = links;
        }
        if (in_domain)
            bar_at_left(d, first);
        else
            bar_below(d, first, d->n_domains == 1 && !folded);
    }
    draw_note_switched(m, d, most, "each line is");
    for (int i = 0; i < d->n_lines; i++)
        if (d->lines[i].unknown) {
            draw_note(d, "dotted: unknown whether links connect these GPUs");
            return;
        }
}

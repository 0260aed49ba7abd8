/* SPDX-License-Identifier: Apache-2.0 */
/* Lines between GPUs: straight down to a switch that stands below all of them, or chords of a ring in
 * which the GPUs are drawn once more. No line goes through a box, and no label covers another. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "machine/routes.h"
#include "topo_draw.h"

enum { BAR_H = 40, LABEL_H = 14, RING_W = 64, RING_H = 36 };

static int active_to_switch(const struct machine *m, int64_t gpu)
{
    int n = 0;
    for (size_t i = 0; i < m->n_links; i++)
        n += number_is(m->links[i].gpu, gpu) && text_is(m->links[i].peer, "switch") &&
             number_is(m->links[i].active, 1);
    return n;
}

enum draw_fabric draw_fabric_of(const struct machine *m)
{
    for (size_t i = 0; i < m->n_gpus; i++)
        if (active_to_switch(m, number_or(m->gpus[i].index, -1)))
            return DRAW_SWITCHED;
    for (size_t i = 0; i < m->n_gpus; i++)
        for (size_t j = i + 1; j < m->n_gpus; j++)
            if (routes_links(m, number_or(m->gpus[i].index, -1), number_or(m->gpus[j].index, -1))
                    .links)
                return DRAW_DIRECT;
    return DRAW_NO_LINKS;
}

static const char *title_of(const char *kind)
{
    return kind && strcmp(kind, "xgmi") == 0 ? "xGMI" : "NVLink";
}

/* "18x NVLink 4, 396 GB/s" */
static void bundle_words(const struct link_bundle *b, char *text, size_t size)
{
    char gbps[16];
    char generation[24] = "";
    if (b->generation)
        snprintf(generation, sizeof generation, " %" PRId64, b->generation);
    int used = snprintf(text, size, "%dx %s%s", b->links, title_of(b->kind), generation);
    if (b->mbps)
        snprintf(text + used, size - (size_t)used, ", %s GB/s expected in one direction",
                 show_gbps(b->mbps, gbps, sizeof gbps));
}

/* --- through a switch -------------------------------------------------------------------------- */

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

/* --- domains ----------------------------------------------------------------------------------- */

static const char *cluster_of(const struct machine *m, int64_t gpu)
{
    const struct machine_gpu *g = machine_find_gpu(m, gpu);
    return g ? text_or(g->fabric_cluster, "") : "";
}

int draw_domain_of(const struct machine *m, int64_t gpu)
{
    int n = 0;
    const char *cluster = cluster_of(m, gpu);
    if (!active_to_switch(m, gpu))
        return -1;
    for (size_t i = 0; i < m->n_gpus; i++) {
        int64_t other = number_or(m->gpus[i].index, -1);
        bool first = active_to_switch(m, other) > 0;
        if (first && strcmp(cluster_of(m, other), cluster) == 0)
            return n;
        for (size_t k = 0; k < i && first; k++)
            first =
                !active_to_switch(m, number_or(m->gpus[k].index, -1)) ||
                strcmp(cluster_of(m, number_or(m->gpus[k].index, -1)), cluster_of(m, other)) != 0;
        n += first;
    }
    return n;
}

int draw_domains(const struct machine *m)
{
    int most = 0;
    for (size_t i = 0; i < m->n_gpus; i++) {
        int domain = draw_domain_of(m, number_or(m->gpus[i].index, -1));
        most = domain >= most ? domain + 1 : most;
    }
    return most;
}

/* Of several rows, that in which a box stands: what stands in it, in which frame. -1: there is one row. */
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

static bool domain_spans(const struct machine *m, const struct drawing *d, int domain)
{
    int first = -1;
    for (int i = 0; i < d->n_boxes; i++) {
        if (d->boxes[i].kind != DRAW_GPU || draw_domain_of(m, d->boxes[i].gpu) != domain)
            continue;
        if (first >= 0 && !same_row(d, first, i))
            return true;
        first = first < 0 ? i : first;
    }
    return false;
}

bool draw_spans_rows(const struct machine *m, const struct drawing *d)
{
    for (int domain = draw_domains(m) - 1; domain >= 0; domain--)
        if (domain_spans(m, d, domain))
            return true;
    return false;
}

/* --- lines to a switch ------------------------------------------------------------------------- */

/* Where the line down from a GPU ends: below the row, of several, that it stands in. */
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

/* The horizontal line that gathers those of a row, from the switch on its left. */
static void gather(struct drawing *d, int bar, double y)
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

static void note_switched(const struct machine *m, struct drawing *d, int most)
{
    for (size_t i = 0; i < m->n_gpus; i++)
        for (size_t j = 0; j < m->n_gpus; j++) {
            struct link_bundle b = i == j ? (struct link_bundle){0}
                                          : routes_links(m, number_or(m->gpus[i].index, -1),
                                                         number_or(m->gpus[j].index, -1));
            char words[96];
            if (b.links != most)
                continue;
            bundle_words(&b, words, sizeof words);
            draw_note(d, "NVSwitch: each line is %s", words);
            return;
        }
}

static int add_bar(struct drawing *d)
{
    int bar = draw_add_box(d, DRAW_FABRIC, -1);
    snprintf(d->boxes[bar].name, DRAW_TEXT, "NVSwitch");
    return bar;
}

/* Lines of a domain, straight down from its GPUs. Returns the first. */
static int lines_down(const struct machine *m, struct drawing *d, int domain, double floor)
{
    int first = d->n_lines, most = 0;
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *gpu = &d->boxes[i];
        int links = gpu->kind == DRAW_GPU && draw_domain_of(m, gpu->gpu) == domain
                        ? active_to_switch(m, gpu->gpu)
                        : 0;
        if (!links)
            continue;
        most = links > most ? links : most;
        struct draw_line *line = draw_add_line(d);
        line->from = i;
        line->x1 = line->x2 = gpu->x + gpu->w / 2;
        line->y1 = gpu->y + gpu->h;
        line->y2 = bus_below(d, i, floor);
        line->width = 3;
        label_down(line, links);
    }
    for (int i = first; i < d->n_lines; i++) {
        int links = 0;
        d->lines[i].weak = sscanf(d->lines[i].label, "%d", &links) == 1 && links < most;
    }
    return first;
}

/* The switch below a row, as wide as the GPUs that it joins; below all it is as wide as the picture. */
static void bar_below(struct drawing *d, int first, bool all)
{
    int bar = add_bar(d);
    struct draw_box *box = &d->boxes[bar];
    double left = 1e9, right = 0;
    for (int i = first; i < d->n_lines; i++) {
        d->lines[i].to = bar;
        left = d->lines[i].x1 < left ? d->lines[i].x1 : left;
        right = d->lines[i].x1 > right ? d->lines[i].x1 : right;
        box->y = d->lines[i].y2;
    }
    box->h = all ? BAR_H : DRAW_BUS * 0.5;
    box->x = all ? DRAW_MARGIN : left - 45;
    box->w = all ? d->w - 2 * DRAW_MARGIN : right - left + 90;
    d->h = box->y + box->h > d->h ? box->y + box->h : d->h;
}

/* The switch at the left of several rows, with a line below each. */
static void bar_beside(struct drawing *d, int first)
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
    for (int i = first; i < lines; i++)
        gather(d, bar, d->lines[i].y2);
    d->h = (bottom > d->h ? bottom : d->h) + 14;
}

void draw_switched(const struct machine *m, struct drawing *d)
{
    int domains = draw_domains(m), most = 0;
    bool folded = false;
    for (int i = 0; i < d->n_boxes; i++)
        folded |= rows_of(d, d->boxes[i].parent) > 1;
    double floor = d->h + (folded ? DRAW_BUS * 0.5 : DRAW_BUS);
    for (int domain = 0; domain < domains; domain++) {
        bool beside = domain_spans(m, d, domain);
        int first = lines_down(m, d, domain, floor);
        for (int i = first; i < d->n_lines; i++) {
            int links = 0;
            if (sscanf(d->lines[i].label, "%d", &links) == 1 && links > most)
                most = links;
        }
        if (beside)
            bar_beside(d, first);
        else
            bar_below(d, first, domains == 1 && !folded);
    }
    note_switched(m, d, most);
}

/* --- links of their own ------------------------------------------------------------------------ */

/* Where the line from the middle of a box to a point leaves the box. */
static void leave_box(const struct draw_box *box, double tx, double ty, double *x, double *y)
{
    double cx = box->x + box->w / 2, cy = box->y + box->h / 2, dx = tx - cx, dy = ty - cy;
    double across = fabs(dx) > 1e-9 ? box->w / 2 / fabs(dx) : 1e9;
    double along = fabs(dy) > 1e-9 ? box->h / 2 / fabs(dy) : 1e9;
    double t = across < along ? across : along;
    *x = cx + dx * t;
    *y = cy + dy * t;
}

static double distance_to_line(const struct draw_line *l, double x, double y)
{
    double dx = l->x2 - l->x1, dy = l->y2 - l->y1, length = dx * dx + dy * dy;
    double t = length > 0 ? ((x - l->x1) * dx + (y - l->y1) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(x - l->x1 - t * dx, y - l->y1 - t * dy);
}

/* How far a label at this place is from everything that it must not cover; below 0: it covers it. */
static double clearance(const struct drawing *d, int first, int at, double x, double y, double half)
{
    double least = 1e9;
    for (int i = first; i < d->n_lines; i++) {
        const struct draw_line *l = &d->lines[i];
        if (i == at)
            continue;
        double room = distance_to_line(l, x, y) - LABEL_H / 2.0 - 2;
        least = room < least ? room : least;
        if (i < at && l->label[0]) {
            double dx = fabs(l->lx - x) - 2 * half - 2, dy = fabs(l->ly - y) - LABEL_H;
            room = 40 * (dx > dy ? dx : dy);
            least = room < least ? room : least;
        }
    }
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *b = &d->boxes[i];
        double dx = fabs(b->x + b->w / 2 - x) - b->w / 2 - half;
        double dy = fabs(b->y + b->h / 2 - y) - b->h / 2 - LABEL_H / 2.0;
        double room = 40 * (dx > dy ? dx : dy);
        least = b->in_ring && room < least ? room : least;
    }
    return least;
}

/* Along its line, where it is clearest which line it belongs to. */
static void place_labels(struct drawing *d, int first)
{
    for (int i = first; i < d->n_lines; i++) {
        struct draw_line *l = &d->lines[i];
        double best = -1e18, half = draw_text_width(l->label, DRAW_SMALL, false) / 2 + 2;
        for (int step = 0; step <= 80; step++) {
            double t = 0.5 + (step % 2 ? 1 : -1) * (step + 1) / 2 * 0.011;
            double x = l->x1 + t * (l->x2 - l->x1), y = l->y1 + t * (l->y2 - l->y1);
            double room = clearance(d, first, i, x, y, half);
            room = room > 8 ? 8 : room; /* more helps nobody: nearer to the middle, then */
            if (room > best + 0.01) {
                best = room;
                l->lx = x;
                l->ly = y;
            }
        }
    }
}

static int add_ring_box(struct drawing *d, int64_t gpu, double x, double y)
{
    int at = draw_add_box(d, DRAW_GPU, -1);
    struct draw_box *box = &d->boxes[at];
    box->gpu = gpu;
    box->in_ring = true;
    box->w = RING_W;
    box->h = RING_H;
    box->x = x - RING_W / 2.0;
    box->y = y - RING_H / 2.0;
    snprintf(box->name, DRAW_TEXT, "gpu%" PRId64, gpu);
    return at;
}

/* A chord of the ring stays clear of the GPU that it passes when the ring is wide enough. */
static double radius_of(int n)
{
    const double pi = 3.14159265358979;
    double least = 60 / (1 - cos(2 * pi / n)), side = (RING_W + 24) / (2 * sin(pi / n));
    double radius = n < 4 ? 120 : least > side ? least : side;
    return radius < 150 && n > 3 ? 150 : radius;
}

static void place_ring(const struct machine *m, struct drawing *d)
{
    const double pi = 3.14159265358979;
    int n = (int)m->n_gpus;
    double radius = radius_of(n), top = d->h + 30;
    double middle = d->w / 2 > radius + RING_W ? d->w / 2 : radius + RING_W + DRAW_MARGIN;
    for (int i = 0; i < n; i++) {
        double turn = 2 * pi * i / n - pi / 2 - pi / n, x = middle, y = top + radius + RING_H / 2.0;
        if (n <= 2) { /* beside each other */
            x += (i - 0.5) * 2 * radius;
            y = top + RING_H / 2.0;
        } else {
            x += radius * cos(turn);
            y += radius * sin(turn);
        }
        add_ring_box(d, number_or(m->gpus[i].index, -1), x, y);
    }
    double right = middle + radius + RING_W;
    d->w = right + DRAW_MARGIN > d->w ? right + DRAW_MARGIN : d->w;
    d->h = top + (n <= 2 ? RING_H : 2 * radius + RING_H);
}

/* What lines of so many links stand for, and how many of them there are. */
static void note_bundle(struct drawing *d, int first, const struct link_bundle *b)
{
    char label[24], words[96];
    int n = 0;
    snprintf(label, sizeof label, "%dx", b->links);
    for (int i = first; i < d->n_lines; i++)
        n += strcmp(d->lines[i].label, label) == 0;
    bundle_words(b, words, sizeof words);
    draw_note(d, "%d line%s of %s", n, n == 1 ? "" : "s", words);
}

void draw_ring(const struct machine *m, struct drawing *d)
{
    int ring = d->n_boxes, first = d->n_lines, most = 0;
    struct link_bundle seen[DRAW_NOTES] = {0};
    int n_seen = 0;
    place_ring(m, d);
    for (int a = ring; a < d->n_boxes; a++)
        for (int b = a + 1; b < d->n_boxes; b++) {
            struct link_bundle bundle = routes_links(m, d->boxes[a].gpu, d->boxes[b].gpu);
            if (!bundle.links)
                continue;
            const struct draw_box *x = &d->boxes[a], *y = &d->boxes[b];
            struct draw_line *line = draw_add_line(d);
            line->from = a;
            line->to = b;
            line->width = bundle.links > 4 ? 5 : 1 + bundle.links;
            leave_box(x, y->x + y->w / 2, y->y + y->h / 2, &line->x1, &line->y1);
            leave_box(y, x->x + x->w / 2, x->y + x->h / 2, &line->x2, &line->y2);
            snprintf(line->label, sizeof line->label, "%dx", bundle.links);
            most = bundle.links > most ? bundle.links : most;
            bool known = false;
            for (int i = 0; i < n_seen; i++)
                known |= seen[i].links == bundle.links;
            if (!known && n_seen < DRAW_NOTES)
                seen[n_seen++] = bundle;
        }
    place_labels(d, first);
    for (int i = 0; i < n_seen; i++)
        note_bundle(d, first, &seen[i]);
}

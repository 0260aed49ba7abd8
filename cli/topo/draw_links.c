/* SPDX-License-Identifier: Apache-2.0 */
/* Lines between GPUs with direct links: chords of a ring in which the GPUs are drawn a second
 * time. No line crosses a box, and no label covers another. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "machine/routes/routes.h"
#include "topo/draw.h"

enum {
    LABEL_H = 14,
    RING_W = 64,
    RING_H = 36,
    RING_MANY = 8, /* of more GPUs boxes are smaller, and the notes have the numbers of links */
    MANY_W = 52,
    MANY_H = 24,
};

enum draw_fabric draw_fabric_of(const struct machine *m)
{
    bool unknown = false;
    for (size_t i = 0; i < m->n_gpus; i++)
        if (draw_links_up(m, number_or(m->gpus[i].index, -1)))
            return DRAW_SWITCHED;
    for (size_t i = 0; i < m->n_gpus; i++)
        for (size_t j = i + 1; j < m->n_gpus; j++) {
            struct link_bundle bundle =
                routes_links(m, number_or(m->gpus[i].index, -1), number_or(m->gpus[j].index, -1));
            if (bundle.links)
                return DRAW_DIRECT;
            unknown |= bundle.unknown;
        }
    return unknown ? DRAW_UNKNOWN : DRAW_NO_LINKS;
}

static const char *title_of(const char *kind)
{
    return kind && strcmp(kind, "xgmi") == 0 ? "xGMI" : "NVLink";
}

/* Label of a bundle, such as "18x NVLink 4, 396 GB/s". */
void draw_bundle_words(const struct link_bundle *b, char *text, size_t size)
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

/* --- direct links ----------------------------------------------------------------------------- */

/* The point at which a line from the centre of a box to (tx, ty) leaves the box. */
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
    double away_x = x - l->x1 - t * dx, away_y = y - l->y1 - t * dy;
    return sqrt(away_x * away_x + away_y * away_y); /* hypot() needs glibc 2.35 */
}

/* Distance of a label at this position from everything that it must not cover; negative: it
 * covers something. */
static double clearance(const struct drawing *d, int first, int at, double x, double y, double half)
{
    double least = 1e9;
    for (int i = first; i < d->n_lines; i++) {
        const struct draw_line *l = &d->lines[i];
        if (i == at)
            continue;
        double distance = distance_to_line(l, x, y) - LABEL_H / 2.0 - 2;
        least = distance < least ? distance : least;
        if (i < at && l->label[0]) {
            double dx = fabs(l->lx - x) - 2 * half - 2, dy = fabs(l->ly - y) - LABEL_H;
            distance = 40 * (dx > dy ? dx : dy);
            least = distance < least ? distance : least;
        }
    }
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *b = &d->boxes[i];
        double dx = fabs(b->x + b->w / 2 - x) - b->w / 2 - half;
        double dy = fabs(b->y + b->h / 2 - y) - b->h / 2 - LABEL_H / 2.0;
        double distance = 40 * (dx > dy ? dx : dy);
        least = b->in_ring && distance < least ? distance : least;
    }
    return least;
}

/* Places each label on its line where it is farthest from the other lines. */
static void place_labels(struct drawing *d, int first)
{
    for (int i = first; i < d->n_lines; i++) {
        struct draw_line *l = &d->lines[i];
        double best = -1e18, half = draw_text_width(l->label, DRAW_SMALL, false) / 2 + 2;
        for (int step = 0; step <= 80; step++) {
            double t = 0.5 + (step % 2 ? 1 : -1) * (step + 1) / 2 * 0.011;
            double x = l->x1 + t * (l->x2 - l->x1), y = l->y1 + t * (l->y2 - l->y1);
            double distance = clearance(d, first, i, x, y, half);
            distance =
                distance > 8 ? 8 : distance; /* more does not help: prefer the middle of the line */
            if (distance > best + 0.01) {
                best = distance;
                l->lx = x;
                l->ly = y;
            }
        }
    }
}

static int add_ring_box(struct drawing *d, int64_t gpu, double x, double y, double w, double h)
{
    int at = draw_add_box(d, DRAW_GPU, -1);
    struct draw_box *box = &d->boxes[at];
    box->gpu = gpu;
    box->in_ring = true;
    box->w = w;
    box->h = h;
    box->x = x - w / 2;
    box->y = y - h / 2;
    snprintf(box->name, DRAW_TEXT, "gpu%" PRId64, gpu);
    return at;
}

/* Radius of the ring at which a chord does not touch the GPU that it passes. */
static double radius_of(int n)
{
    const double pi = 3.14159265358979;
    bool many = n > RING_MANY;
    double least = (many ? 32 : 60) / (1 - cos(2 * pi / n));
    double side = ((many ? MANY_W : RING_W) + 24) / (2 * sin(pi / n));
    double radius = n < 4 ? 120 : least > side ? least : side;
    return radius < 150 && n > 3 ? 150 : radius;
}

static void place_ring(const struct machine *m, struct drawing *d)
{
    const double pi = 3.14159265358979;
    int n = (int)m->n_gpus;
    double w = n > RING_MANY ? MANY_W : RING_W, h = n > RING_MANY ? MANY_H : RING_H;
    double radius = radius_of(n), top = d->h + 30;
    if (d->w < 2 * (radius + RING_W + DRAW_MARGIN))
        draw_widen(d, 2 * (radius + RING_W + DRAW_MARGIN));
    double middle = d->w / 2;
    for (int i = 0; i < n; i++) {
        double turn = 2 * pi * i / n - pi / 2 - pi / n, x = middle, y = top + radius + h / 2;
        if (n <= 2) { /* next to each other */
            x += (i - 0.5) * 2 * radius;
            y = top + h / 2;
        } else {
            x += radius * cos(turn);
            y += radius * sin(turn);
        }
        add_ring_box(d, number_or(m->gpus[i].index, -1), x, y, w, h);
    }
    d->h = top + (n <= 2 ? h : 2 * radius + h);
}

/* Adds a legend entry: how many lines have this number of links. */
static void note_bundle(const struct machine *m, struct drawing *d, int first,
                        const struct link_bundle *b)
{
    char words[96];
    int n = 0;
    for (int i = first; i < d->n_lines; i++)
        n += routes_links(m, d->boxes[d->lines[i].from].gpu, d->boxes[d->lines[i].to].gpu).links ==
             b->links;
    draw_bundle_words(b, words, sizeof words);
    draw_note(d, "%d line%s of %s", n, n == 1 ? "" : "s", words);
}

static void connect_in_ring(struct drawing *d, int a, int b, const struct link_bundle *bundle)
{
    const struct draw_box *x = &d->boxes[a], *y = &d->boxes[b];
    struct draw_line *line = draw_add_line(d);
    line->from = a;
    line->to = b;
    line->unknown = bundle->unknown;
    line->width = bundle->links > 4 ? 5 : 1 + bundle->links;
    if (x->w < RING_W) /* many lines */
        line->width /= 2;
    leave_box(x, y->x + y->w / 2, y->y + y->h / 2, &line->x1, &line->y1);
    leave_box(y, x->x + x->w / 2, x->y + x->h / 2, &line->x2, &line->y2);
}

void draw_ring(const struct machine *m, struct drawing *d)
{
    int ring = d->n_boxes, first = d->n_lines, unknown = 0;
    struct link_bundle seen[DRAW_NOTES] = {0};
    int n_seen = 0;
    place_ring(m, d);
    for (int a = ring; a < d->n_boxes; a++)
        for (int b = a + 1; b < d->n_boxes; b++) {
            struct link_bundle bundle = routes_links(m, d->boxes[a].gpu, d->boxes[b].gpu);
            if (!bundle.links && !bundle.unknown)
                continue;
            connect_in_ring(d, a, b, &bundle);
            unknown += bundle.unknown;
            if (bundle.links && m->n_gpus <= RING_MANY)
                snprintf(d->lines[d->n_lines - 1].label, sizeof d->lines->label, "%dx",
                         bundle.links);
            bool known = bundle.unknown;
            for (int i = 0; i < n_seen; i++)
                known |= seen[i].links == bundle.links;
            if (!known && n_seen < DRAW_NOTES)
                seen[n_seen++] = bundle;
        }
    place_labels(d, first);
    for (int i = 0; i < n_seen; i++)
        note_bundle(m, d, first, &seen[i]);
    if (unknown)
        draw_note(d, "dotted: unknown whether links connect these GPUs");
}

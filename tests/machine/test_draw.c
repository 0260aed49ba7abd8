/* SPDX-License-Identifier: Apache-2.0 */
/* The drawing of every machine file and of described machines: boxes are inside their frames and do
 * not overlap, lines cross no unrelated box, text fits, and each bundle of links is one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "machine/routes/routes.h"
#include "machine/routes/whatif.h"
#include "topo/draw.h"

static struct machine *load(const char *what, const char *changes)
{
    struct machine *machine;
    if (machine_load(what, &machine))
        fail_msg("%s", weft_last_error());
    if (changes && whatif_apply(machine, changes))
        fail_msg("%s", weft_last_error());
    return machine;
}

struct rect {
    double x1, y1, x2, y2;
};

static struct rect rect_of(const struct draw_box *b)
{
    return (struct rect){b->x, b->y, b->x + b->w, b->y + b->h};
}

static bool overlap(struct rect a, struct rect b)
{
    return a.x1 < b.x2 - 0.01 && b.x1 < a.x2 - 0.01 && a.y1 < b.y2 - 0.01 && b.y1 < a.y2 - 0.01;
}

static bool contains(struct rect outer, struct rect inner)
{
    return outer.x1 <= inner.x1 && outer.y1 <= inner.y1 && inner.x2 <= outer.x2 &&
           inner.y2 <= outer.y2;
}

/* Part of the line is inside the rectangle (Liang and Barsky's clipping). */
static bool crosses(const struct draw_line *l, struct rect r)
{
    double t0 = 0, t1 = 1, dx = l->x2 - l->x1, dy = l->y2 - l->y1;
    const double p[] = {-dx, dx, -dy, dy};
    const double q[] = {l->x1 - r.x1, r.x2 - l->x1, l->y1 - r.y1, r.y2 - l->y1};
    for (int i = 0; i < 4; i++) {
        if (fabs(p[i]) < 1e-12) {
            if (q[i] <= 0)
                return false;
            continue;
        }
        double t = q[i] / p[i];
        if (p[i] < 0)
            t0 = t > t0 ? t : t0;
        else
            t1 = t < t1 ? t : t1;
    }
    return t0 < t1 - 1e-9;
}

static struct rect shrink(struct rect r, double by)
{
    return (struct rect){r.x1 + by, r.y1 + by, r.x2 - by, r.y2 - by};
}

static void check_boxes(const char *what, const struct drawing *d)
{
    const struct rect page = {0, 0, d->w, d->h};
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *a = &d->boxes[i];
        if (!contains(page, rect_of(a)))
            fail_msg("%s: %s is outside of the picture", what, a->name);
        if (a->parent >= 0) {
            struct rect room = shrink(rect_of(&d->boxes[a->parent]), 2);
            room.y1 += d->boxes[a->parent].name_at_left ? 0 : 16; /* the frame's heading */
            if (!contains(room, rect_of(a)))
                fail_msg("%s: %s is not inside %s", what, a->name, d->boxes[a->parent].name);
        }
        for (int k = i + 1; k < d->n_boxes; k++)
            if (d->boxes[k].parent == a->parent && overlap(rect_of(a), rect_of(&d->boxes[k])))
                fail_msg("%s: %s and %s overlap", what, a->name, d->boxes[k].name);
    }
}

static void check_text(const char *what, const struct drawing *d)
{
    for (int i = 0; i < d->n_boxes; i++) {
        const struct draw_box *b = &d->boxes[i];
        bool frame = b->kind <= DRAW_BRIDGE;
        if (!b->name[0])
            fail_msg("%s: box %d has no name", what, i);
        if (draw_text_width(b->name, DRAW_FONT, true) > b->w - (frame ? 14 : 4))
            fail_msg("%s: \"%s\" does not fit its box", what, b->name);
        for (int k = 0; b->name_at_left && k < d->n_boxes; k++)
            if (d->boxes[k].parent == i &&
                b->x + 10 + draw_text_width(b->name, DRAW_FONT, true) > d->boxes[k].x)
                fail_msg("%s: \"%s\" runs into %s", what, b->name, d->boxes[k].name);
        if (!frame && draw_text_width(b->more, DRAW_SMALL, false) > b->w - 4)
            fail_msg("%s: \"%s\" does not fit its box", what, b->more);
    }
    for (int i = 0; i < d->n_notes; i++)
        if (d->notes_x + draw_text_width(d->notes[i], DRAW_FONT, false) > d->w)
            fail_msg("%s: \"%s\" does not fit the picture", what, d->notes[i]);
}

/* A line may cross the frames that contain one of its ends. The line that collects a row has no end
 * of its own there: it may cross the frames of all lines that end on it. */
static bool may_be_in(const struct drawing *d, const struct draw_line *line, int box)
{
    bool gathers = line->from >= 0 && line->to < 0 && d->boxes[line->from].kind == DRAW_FABRIC;
    bool from = draw_is_inside(d, line->from, box), to = draw_is_inside(d, line->to, box);
    if (!gathers)
        return line->from != box && line->to != box &&
               (from != to || (from && to && d->boxes[box].kind <= DRAW_BRIDGE));
    int met = 0;
    for (int i = 0; i < d->n_lines; i++)
        if (&d->lines[i] != line && fabs(d->lines[i].y2 - line->y1) < 0.5 && d->lines[i].to < 0) {
            met++;
            if (!draw_is_inside(d, d->lines[i].from, box))
                return false;
        }
    return met > 0 && d->boxes[box].kind <= DRAW_BRIDGE;
}

static void check_lines(const char *what, const struct drawing *d)
{
    for (int i = 0; i < d->n_lines; i++) {
        const struct draw_line *l = &d->lines[i];
        for (int b = 0; b < d->n_boxes; b++)
            if (crosses(l, shrink(rect_of(&d->boxes[b]), 0.5)) && !may_be_in(d, l, b))
                fail_msg("%s: line %d (%s, from %s) goes through %s", what, i, l->label,
                         d->boxes[l->from].name, d->boxes[b].name);
    }
}

static struct rect label_of(const struct draw_line *l)
{
    double half = draw_text_width(l->label, DRAW_SMALL, false) / 2;
    return (struct rect){l->lx - half, l->ly - 5, l->lx + half, l->ly + 5};
}

static double distance(const struct draw_line *l, double x, double y)
{
    double dx = l->x2 - l->x1, dy = l->y2 - l->y1, length = dx * dx + dy * dy;
    double t = length > 0 ? ((x - l->x1) * dx + (y - l->y1) * dy) / length : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(x - l->x1 - t * dx, y - l->y1 - t * dy);
}

/* Each label is nearest to the line it belongs to. */
static void check_nearest(const char *what, const struct drawing *d, int at)
{
    const struct draw_line *l = &d->lines[at];
    for (int i = 0; i < d->n_lines; i++) {
        const struct draw_line *other = &d->lines[i];
        bool gathers = other->from >= 0 && d->boxes[other->from].kind == DRAW_FABRIC;
        if (i != at && !gathers && distance(other, l->lx, l->ly) <= distance(l, l->lx, l->ly))
            fail_msg("%s: label %d (%s) is nearer to line %d", what, at, l->label, i);
    }
}

static void check_labels(const char *what, const struct drawing *d)
{
    const struct rect page = {0, 0, d->w, d->h};
    for (int i = 0; i < d->n_lines; i++) {
        if (!d->lines[i].label[0])
            continue;
        struct rect label = label_of(&d->lines[i]);
        if (!contains(page, label))
            fail_msg("%s: label %d is outside of the picture", what, i);
        check_nearest(what, d, i);
        for (int b = 0; b < d->n_boxes; b++)
            if (d->boxes[b].kind >= DRAW_GPU && overlap(label, rect_of(&d->boxes[b])))
                fail_msg("%s: label %d (%s) covers %s", what, i, d->lines[i].label,
                         d->boxes[b].name);
        for (int k = i + 1; k < d->n_lines; k++)
            if (d->lines[k].label[0] && overlap(label, label_of(&d->lines[k])))
                fail_msg("%s: labels %d and %d overlap", what, i, k);
    }
}

static int links_up(const struct machine *m, int64_t gpu)
{
    int n = 0;
    for (size_t i = 0; i < m->n_links; i++)
        n += number_is(m->links[i].gpu, gpu) && number_is(m->links[i].active, 1) &&
             text_is(m->links[i].peer, "switch");
    return n;
}

/* Lines that stand for links: of a ring of many GPUs they have no label, of racks one leads to each
 * tray. */
static int count_lines(const struct drawing *d)
{
    int lines = 0;
    for (int i = 0; i < d->n_lines; i++) {
        const struct draw_line *l = &d->lines[i];
        bool in_ring = l->from >= 0 && d->boxes[l->from].in_ring;
        lines += !l->unknown && !l->cpu && !l->fault && (l->label[0] || in_ring || d->in_racks);
    }
    return lines;
}

static int count_boxes(const struct drawing *d, enum draw_kind kind)
{
    int n = 0;
    for (int i = 0; i < d->n_boxes; i++)
        n += d->boxes[i].kind == kind && !d->boxes[i].in_ring;
    return n;
}

/* The number of lines is the number of bundles, and every GPU and NIC is drawn. */
static void check_complete(const char *what, const struct machine *m, const struct drawing *d)
{
    int bundles = 0;
    bool switched = draw_fabric_of(m) == DRAW_SWITCHED;
    for (size_t a = 0; a < m->n_gpus; a++) {
        int64_t x = number_or(m->gpus[a].index, -1);
        bundles += switched && links_up(m, x) > 0;
        for (size_t b = a + 1; b < m->n_gpus && !switched; b++)
            bundles += routes_links(m, x, number_or(m->gpus[b].index, -1)).links > 0;
    }
    if (d->in_racks)
        bundles = count_boxes(d, DRAW_HOST);
    if (count_lines(d) != bundles)
        fail_msg("%s: %d lines for %d bundles", what, count_lines(d), bundles);
    assert_int_equal(count_boxes(d, DRAW_GPU), m->n_gpus);
    assert_true(count_boxes(d, DRAW_NIC) >= (int)m->n_nics);
}

static void check(const char *what, const char *changes)
{
    struct machine *machine = load(what, changes);
    struct drawing d;
    draw_machine(machine, &d);
    check_boxes(what, &d);
    check_text(what, &d);
    check_lines(what, &d);
    check_labels(what, &d);
    check_complete(what, machine, &d);
    draw_free(&d);
    machine_free(machine);
}

static void test_files(void **state)
{
    glob_t found;
    (void)state;
    assert_int_equal(glob(MACHINES "/*.json", 0, NULL, &found), 0);
    assert_true(found.gl_pathc > 10);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i], NULL);
    globfree(&found);
}

static void test_descriptions(void **state)
{
    static const char *const described[] = {
        "2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic per 2 gpu",
        "8 h200, nvswitch, flat vm, nic per gpu, 2 disk",
        "64 b200, nvswitch, nic per gpu",
        "4 socket, 16 h200 each, nvswitch, 2 nic per gpu, 9 disk",
        "48 p100, 1 nic per 4 gpu",
        "4 h100, nvlink pairs, nic per gpu, 2 disk",
        "4 a100, nvlink mesh",
        "2 h100, nvlink pairs",
        "3 a100, nvlink mesh, flat vm",
        "8 mi300x, xgmi mesh, nic per gpu",
        "40 h200, nvswitch, flat vm, nic per gpu",
        "1 gpu",
        "72 gb200, nvlink domain 72, nic per gpu",
        "72 b200, nvlink domain 72",
        "2 node, 2 socket, 4 gpu each, h100, nvswitch, nic per gpu",
        "8 gb200, nvlink domain 4, 2 node, 2 socket, nic per 2 gpu",
        "4 node, 1 socket, 8 gpu each, l40s, 1 nic per 4 gpu",
        "2 socket, 8 h200, nvlink domain 4, nic per gpu",
        "16 h200, nvlink domain 4, 1 nic per 2 gpu",
        "32 h200, nvlink domain 8, nic per gpu",
        "16 h200, nvlink domain 2, flat vm",
        "16 h100, nvlink mesh",
        "19 h100, nvlink mesh, nic per gpu",
        "2 socket, 4 h100 each, nvswitch, nic per gpu, 8 disk",
        "2 socket, 4 l40s each, 4 gpu per pcie-switch, 3 nic per 2 gpu, 12 disk",
        "24 gb200, nvlink domain 12, nic per gpu, 3 disk",
        "92 gb200, nvlink domain 92",
        "72 gb200, nvlink domain 72, 72 node",
        "24 gb200, nvlink domain 8, 2 nic per gpu",
        "16 h100, nvlink domain 16, 2 node, 2 nic per gpu, 4 disk",
    };
    (void)state;
    for (size_t i = 0; i < sizeof described / sizeof described[0]; i++)
        check(described[i], NULL);
}

/* Every second GPU of a host is in another domain: each domain has a column for its lines, and its
 * own switch at the left. */
static void check_lanes(const char *what, int domains)
{
    struct machine *m = load(what, NULL);
    struct drawing d;
    int gpus = 0;
    for (size_t i = 0; i < m->n_gpus; i++)
        text_set(m, &m->gpus[i].fabric_cluster, machine_printf(m, "c%d", (int)i % domains));
    draw_machine(m, &d);
    check_boxes(what, &d);
    check_text(what, &d);
    check_lines(what, &d);
    check_labels(what, &d);
    check_complete(what, m, &d);
    assert_true(draw_is_interleaved(&d));
    for (int i = 0; i < d.n_lines; i++) {
        const struct draw_line *l = &d.lines[i];
        const struct draw_box *from = l->from < 0 ? NULL : &d.boxes[l->from];
        if (!from || from->kind != DRAW_GPU)
            continue;
        gpus++;
        assert_int_equal(l->domain, from->gpu % domains);
        bool met = false;
        for (int k = 0; k < d.n_lines; k++) {
            const struct draw_line *g = &d.lines[k];
            if (g->from < 0 || d.boxes[g->from].kind != DRAW_FABRIC)
                continue;
            bool meets = fabs(g->y1 - l->y2) < 0.5 && g->x1 <= l->x2 && l->x2 <= g->x2;
            if (meets && (d.boxes[g->from].domain != l->domain || met))
                fail_msg("%s: line %d ends on a lane that is not its own", what, i);
            met |= meets;
        }
        assert_true(met);
    }
    assert_int_equal(gpus, m->n_gpus);
    draw_free(&d);
    machine_free(m);
}

static void test_lanes(void **state)
{
    (void)state;
    check_lanes("2 socket, 8 h200, nvlink domain 8, nic per gpu", 2);
    check_lanes("16 h200, nvlink domain 16, 1 nic per 2 gpu", 3);
    check_lanes("40 h200, nvswitch, nic per gpu", 4);
    check_lanes("72 gb200, nvlink domain 72", 2);
}

/* Domains of one host, none of which needs two rows. */
static void test_domains_apart(void **state)
{
    (void)state;
    struct machine *m = load("16 h200, nvlink domain 4, 1 nic per 2 gpu", NULL);
    struct drawing d;
    int bars = 0;
    draw_machine(m, &d);
    assert_int_equal(d.n_domains, 4);
    assert_false(draw_spans_rows(&d));
    assert_false(draw_is_interleaved(&d));
    for (int i = 0; i < d.n_boxes; i++)
        bars += d.boxes[i].kind == DRAW_FABRIC;
    assert_int_equal(bars, 4);
    draw_free(&d);
    machine_free(m);
    /* five switches fit in a row, but a domain has three: it begins a row */
    m = load("30 h200, nvlink domain 6", NULL);
    draw_machine(m, &d);
    assert_int_equal(d.n_domains, 5);
    assert_false(draw_spans_rows(&d));
    draw_free(&d);
    machine_free(m);
}

/* The line of a GPU with fewer links than the others shows their number. */
static void test_weak_line(void **state)
{
    (void)state;
    struct machine *machine = load(MACHINES "/dgx-a100.json", "lose nvlink 3:switch");
    struct drawing d;
    int weak = 0;
    draw_machine(machine, &d);
    for (int i = 0; i < d.n_lines; i++)
        if (d.lines[i].weak) {
            weak++;
            assert_string_equal(d.boxes[d.lines[i].from].name, "gpu3");
            assert_string_equal(d.lines[i].label, "11x");
        }
    assert_int_equal(weak, 1);
    draw_free(&d);
    machine_free(machine);
}

/* Two NVL72: two racks next to each other on a slide, a tray for each host, no frame for a device.
 * The line of a tray is weak when one of its GPUs lost a link. */
static void test_racks(void **state)
{
    (void)state;
    const char *what = "144 gb200, nvlink domain 72, nic per 2 gpu";
    struct machine *m = load(what, "lose nvlink 5:switch");
    struct drawing d;
    int weak = 0;
    draw_machine(m, &d);
    check_boxes(what, &d);
    check_text(what, &d);
    check_lines(what, &d);
    check_complete(what, m, &d);
    assert_true(d.in_racks);
    assert_int_equal(count_boxes(&d, DRAW_RACK), 2);
    assert_int_equal(count_boxes(&d, DRAW_HOST), 36);
    assert_int_equal(count_boxes(&d, DRAW_ROOT) + count_boxes(&d, DRAW_PACKAGE), 0);
    assert_true(d.w <= 1650 && d.h <= 1200);
    for (int i = 0; i < d.n_lines; i++)
        if (d.lines[i].weak) {
            weak++;
            assert_string_equal(d.boxes[d.lines[i].to].name, "node 1");
        }
    assert_int_equal(weak, 1);
    bool noted = false;
    for (int i = 0; i < d.n_notes; i++)
        noted |= strcmp(d.notes[i], "red: gpu5 has 17x") == 0;
    assert_true(noted);
    draw_free(&d);
    machine_free(m);
    /* hosts whose domains do not reach another host are no trays */
    m = load("2 node, 8 h100, nvswitch", NULL);
    draw_machine(m, &d);
    assert_false(d.in_racks);
    draw_free(&d);
    machine_free(m);
}

static int rows_of_kind(const struct drawing *d, enum draw_kind kind)
{
    int rows = 0;
    for (int i = 0; i < d->n_boxes; i++) {
        bool first = d->boxes[i].kind == kind;
        for (int k = 0; k < i; k++)
            first &= d->boxes[k].kind != kind || fabs(d->boxes[k].y - d->boxes[i].y) > 1;
        rows += first;
    }
    return rows;
}

/* Eight disks of a switch are two rows of four, and 16 GPUs with direct links fit a slide. */
static void test_proportions(void **state)
{
    (void)state;
    struct drawing d;
    struct machine *m = load("2 socket, 4 h100 each, nvswitch, nic per gpu, 8 disk", NULL);
    draw_machine(m, &d);
    assert_int_equal(count_boxes(&d, DRAW_DISK), 8);
    assert_int_equal(rows_of_kind(&d, DRAW_DISK), 2);
    assert_true(d.w > 1.5 * d.h);
    draw_free(&d);
    machine_free(m);
    m = load("16 h100, nvlink mesh", NULL);
    draw_machine(m, &d);
    assert_true(d.w <= 1600 && d.h <= 1300);
    assert_int_equal(rows_of_kind(&d, DRAW_ROOT), 2); /* four and four, not seven and one */
    int in_row = 0;
    for (int i = 0; i < d.n_boxes; i++)
        in_row += d.boxes[i].kind == DRAW_ROOT && d.boxes[i].row == 1;
    assert_int_equal(in_row, 4);
    draw_free(&d);
    machine_free(m);
}

/* Links that a file does not report are dotted lines to a dotted switch. */
static void test_unknown_links(void **state)
{
    (void)state;
    struct machine *m = load("2 socket, 2 h100 each, nvlink none", NULL);
    struct drawing d;
    int dotted = 0, bars = 0;
    draw_machine(m, &d);
    assert_int_equal(d.n_lines, 0); /* known to have none */
    draw_free(&d);
    for (size_t i = 0; i < m->n_gpus; i++)
        number_unknown(m, &m->gpus[i].nvlinks, "not in the file");
    assert_int_equal(draw_fabric_of(m), DRAW_UNKNOWN);
    draw_machine(m, &d);
    check_boxes("unknown", &d);
    check_lines("unknown", &d);
    for (int i = 0; i < d.n_lines; i++)
        dotted += d.lines[i].unknown && !d.lines[i].label[0];
    for (int i = 0; i < d.n_boxes; i++)
        bars += d.boxes[i].kind == DRAW_FABRIC && d.boxes[i].unknown;
    assert_int_equal(dotted, 4);
    assert_int_equal(bars, 1);
    assert_string_equal(d.notes[0], "dotted: unknown whether links connect these GPUs");
    draw_free(&d);
    machine_free(m);
}

/* Nested like the machine: gpu0 of the DGX-1 is in a switch in a root complex in a package. */
static void test_nesting(void **state)
{
    (void)state;
    struct machine *machine = load(MACHINES "/dgx-1v.json", NULL);
    struct drawing d;
    draw_machine(machine, &d);
    static const enum draw_kind kinds[] = {DRAW_GPU, DRAW_BRIDGE, DRAW_ROOT, DRAW_PACKAGE};
    int at = 0;
    while (at < d.n_boxes && strcmp(d.boxes[at].name, "gpu0") != 0)
        at++;
    for (int i = 0; i < 4; i++, at = d.boxes[at].parent) {
        assert_true(at >= 0 && at < d.n_boxes);
        assert_int_equal(d.boxes[at].kind, kinds[i]);
    }
    assert_int_equal(at, -1);
    draw_free(&d);
    machine_free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),         cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_lanes),         cmocka_unit_test(test_domains_apart),
        cmocka_unit_test(test_weak_line),     cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_racks),         cmocka_unit_test(test_proportions),
        cmocka_unit_test(test_unknown_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

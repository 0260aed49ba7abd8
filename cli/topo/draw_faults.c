/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the faults that `weft doctor` finds: a red line between two devices of a pair, a red edge
 * around a device, and for each reason a note with its code. */
#include "topo/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/doctor.h"

enum {
    LINES_MOST = 6, /* with more pairs, edges alone are drawn */
    DEPTH = 7,      /* of the first line below the devices that it connects */
    LEVEL = 14,     /* between two lines one below the other */
};

static bool is_fault(const struct finding *finding)
{
    return finding->weight == WEIGHT_OFF || finding->weight == WEIGHT_SLOW;
}

static int find_device(const struct drawing *d, const char *name, size_t length)
{
    for (int i = 0; i < d->n_boxes; i++)
        if (d->boxes[i].kind > DRAW_BRIDGE && !d->boxes[i].in_ring &&
            strlen(d->boxes[i].name) == length && memcmp(d->boxes[i].name, name, length) == 0)
            return i;
    return -1;
}

/* The devices of a finding; -1: the drawing has none of this name. */
static void find_devices(const struct drawing *d, const struct finding *finding, int *a, int *b)
{
    size_t length = strcspn(finding->place, " ");
    const char *second = finding->place + length + (finding->place[length] != '\0');
    *a = find_device(d, finding->place, length);
    *b = find_device(d, second, strlen(second));
}

static void mark_device(struct drawing *d, int device)
{
    if (device < 0)
        return;
    for (int i = 0; i < d->n_boxes; i++)
        d->boxes[i].fault |= i == device || (d->boxes[i].in_ring && d->boxes[device].gpu >= 0 &&
                                             d->boxes[i].gpu == d->boxes[device].gpu);
}

/* The line of a pair that is drawn already; NULL: none. */
static struct draw_line *line_of(struct drawing *d, int a, int b)
{
    for (int i = 0; i < d->n_lines; i++) {
        struct draw_line *l = &d->lines[i];
        if (l->fault && ((l->from == a && l->to == b) || (l->from == b && l->to == a)))
            return l;
    }
    return NULL;
}

static bool overlap(const struct draw_line *a, const struct draw_line *b)
{
    double left = a->x1 < a->x2 ? a->x1 : a->x2, right = a->x1 < a->x2 ? a->x2 : a->x1;
    double from = b->x1 < b->x2 ? b->x1 : b->x2, to = b->x1 < b->x2 ? b->x2 : b->x1;
    return left <= to && from <= right;
}

/* A line below both devices, and below every line that it would touch. */
static void connect_pair(struct drawing *d, int a, int b, const char *code)
{
    struct draw_line line = {.from = a, .to = b, .width = 2, .fault = true, .domain = -1};
    const struct draw_box *left = &d->boxes[a], *right = &d->boxes[b];
    line.x1 = left->x + left->w * 0.6;
    line.x2 = right->x + right->w * 0.4;
    line.y1 = left->y + left->h;
    line.y2 = right->y + right->h;
    line.down = (line.y1 > line.y2 ? line.y1 : line.y2) + DEPTH;
    for (int i = 0; i < d->n_lines; i++)
        if (d->lines[i].fault && overlap(&d->lines[i], &line) &&
            d->lines[i].down + LEVEL > line.down)
            line.down = d->lines[i].down + LEVEL;
    line.lx = (line.x1 + line.x2) / 2;
    line.ly = line.down;
    snprintf(line.label, sizeof line.label, "%s", code);
    *draw_add_line(d) = line;
    if (draw_text_width(code, DRAW_SMALL, true) + 16 > line.x2 - line.x1) { /* hides the line */
        mark_device(d, a);
        mark_device(d, b);
    }
}

/* At how many places a reason was found, and the first of them. */
struct fault_count {
    int places;
    const char *first;
};

/* "gpu1 gpu0" for "gpu0 gpu1". */
static bool is_reverse(const char *place, const char *other)
{
    size_t length = strcspn(place, " "), from = strcspn(other, " ");
    return place[length] && other[from] && strlen(other) - from - 1 == length &&
           memcmp(other + from + 1, place, length) == 0 && strlen(place) - length - 1 == from &&
           memcmp(place + length + 1, other, from) == 0;
}

/* Whether an earlier fault has the same place, from either side, and the same reason unless any
 * will do. */
static bool is_counted(const struct findings *findings, int at, bool any)
{
    const struct finding *finding = &findings->list[at];
    for (int i = 0; i < at; i++) {
        const struct finding *one = &findings->list[i];
        if ((any || one->reason == finding->reason) && is_fault(one) &&
            (strcmp(one->place, finding->place) == 0 || is_reverse(one->place, finding->place)))
            return true;
    }
    return false;
}

/* Pairs of drawn devices with a fault. */
static int count_pairs(const struct drawing *d, const struct findings *findings)
{
    int pairs = 0;
    for (int i = 0; i < findings->n; i++) {
        int a, b;
        find_devices(d, &findings->list[i], &a, &b);
        pairs += a >= 0 && b >= 0 && is_fault(&findings->list[i]) && !is_counted(findings, i, true);
    }
    return pairs;
}

/* The first sentence part of a cause. */
static int cause_length(const char *cause)
{
    return (int)strcspn(cause, ":;,");
}

static void note_reasons(struct drawing *d, const struct findings *findings)
{
    struct fault_count counts[REASON_COUNT] = {0};
    for (int i = 0; i < findings->n; i++) {
        struct fault_count *count = &counts[findings->list[i].reason];
        if (is_fault(&findings->list[i]) && !is_counted(findings, i, false) && !count->places++)
            count->first = findings->list[i].place;
    }
    d->first_fault_note = d->n_notes;
    for (int r = 0; r < REASON_COUNT; r++) {
        const struct reason_text *text = &reason_table[r];
        char more[32] = "";
        if (counts[r].places > 1)
            snprintf(more, sizeof more, " and %d more", counts[r].places - 1);
        if (counts[r].places)
            draw_note(d, "%s%s%s%s: %.*s", text->code, *counts[r].first ? ", " : "",
                      counts[r].first, more, cause_length(text->cause), text->cause);
    }
}

void draw_faults(const struct machine *machine, struct drawing *d)
{
    struct diagnosis diagnosis;
    doctor_examine(machine, &diagnosis);
    const struct findings *findings = &diagnosis.findings;
    bool with_lines = !d->in_racks && count_pairs(d, findings) <= LINES_MOST;
    for (int i = 0; i < findings->n; i++) {
        const struct finding *finding = &findings->list[i];
        int a, b;
        if (!is_fault(finding))
            continue;
        find_devices(d, finding, &a, &b);
        if (a < 0 || b < 0 || !with_lines) {
            mark_device(d, a);
            mark_device(d, b);
        } else if (!line_of(d, a, b)) {
            bool in_order = d->boxes[a].x <= d->boxes[b].x;
            connect_pair(d, in_order ? a : b, in_order ? b : a, reason_table[finding->reason].code);
        }
    }
    for (int i = 0; i < d->n_lines; i++)
        if (d->lines[i].fault && d->lines[i].down + LEVEL > d->h)
            d->h = d->lines[i].down + LEVEL;
    note_reasons(d, findings);
    findings_free(&diagnosis.findings);
}

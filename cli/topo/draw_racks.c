/* SPDX-License-Identifier: Apache-2.0 */
/* The drawing of NVLink domains that span hosts, as racks: a frame for each domain, in it a tray
 * for each host with all its devices in a row, and the switch at their left. Packages and root
 * complexes of so many hosts have no frames; equal facts of all devices are notes. See draw.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "machine/routes/routes.h"
#include "topo/draw.h"

enum {
    RACK_PAD = 10,
    RACK_HEADING = 24,
    SWITCH_W = 76,
    WIRE = 24,          /* between the switch and the trays, for the lines */
    TRAY_DEVICE_H = 24, /* one line of text */
    DEVICE_GAP = 4,
    PACKAGE_GAP = 14,
    TRAY_PAD = 6,
    TRAY_GAP = 6,
    ROW_MOST = 12,    /* devices in a row of a tray */
    COLUMN_MOST = 20, /* trays in a column of a rack */
    PAGE_W = 1600,
};

/* A device of a tray, before it has a box. */
struct tray_device {
    enum draw_kind kind;
    const char *name;
    char number[24];
    int64_t host, package, gpu;
    int domain;
};

struct racks {
    const struct machine *machine;
    struct drawing *d;
    struct tray_device *devices;
    int n, n_hosts;
    int *domain_of_host;
    double name_w; /* of the name of a tray, at the left of its devices */
};

/* --- devices ---------------------------------------------------------------------------------- */

static void add_tray_device(struct racks *r, enum draw_kind kind, const char *bdf, const char *name,
                            int64_t gpu, int domain)
{
    const struct machine_pci *pci = machine_find_pci(r->machine, bdf);
    struct tray_device *device = &r->devices[r->n++];
    *device = (struct tray_device){.kind = kind,
                                   .name = name,
                                   .host = pci ? number_or(pci->host, 0) : 0,
                                   .gpu = gpu,
                                   .domain = domain};
    device->package = pci ? routes_package(r->machine, routes_numa(r->machine, pci)) : -1;
    if (gpu >= 0)
        snprintf(device->number, sizeof device->number, "gpu%" PRId64, gpu);
    if (device->host >= r->n_hosts)
        r->n_hosts = (int)device->host + 1;
}

static void collect_devices(struct racks *r, const int *of)
{
    const struct machine *m = r->machine;
    r->devices = calloc(m->n_gpus + m->n_nics + m->n_disks + 1, sizeof *r->devices);
    if (!r->devices)
        abort();
    for (size_t i = 0; i < m->n_gpus; i++)
        add_tray_device(r, DRAW_GPU, m->gpus[i].bdf.value, NULL, number_or(m->gpus[i].index, -1),
                        of[i]);
    for (size_t i = 0; i < m->n_nics; i++)
        add_tray_device(r, DRAW_NIC, m->nics[i].bdf.value, text_or(m->nics[i].name, "NIC"), -1, -1);
    for (size_t i = 0; i < m->n_disks; i++)
        if (*text_or(m->disks[i].bdf, ""))
            add_tray_device(r, DRAW_DISK, m->disks[i].bdf.value, text_or(m->disks[i].name, "disk"),
                            -1, -1);
}

/* Finds the domain of each host. False where a host has none or two, or no domain spans hosts. */
static bool find_domains(struct racks *r)
{
    bool spans = false;
    r->domain_of_host = calloc((size_t)r->n_hosts + 1, sizeof *r->domain_of_host);
    if (!r->domain_of_host)
        abort();
    for (int h = 0; h < r->n_hosts; h++)
        r->domain_of_host[h] = -1;
    for (int i = 0; i < r->n; i++) {
        const struct tray_device *device = &r->devices[i];
        int *domain = &r->domain_of_host[device->host];
        if (device->kind != DRAW_GPU)
            continue;
        if (device->domain < 0 || (*domain >= 0 && *domain != device->domain))
            return false;
        *domain = device->domain;
    }
    for (int h = 0; h < r->n_hosts; h++) {
        if (r->domain_of_host[h] < 0)
            return false;
        for (int k = 0; k < h; k++)
            spans |= r->domain_of_host[k] == r->domain_of_host[h];
    }
    return spans;
}

/* --- trays ------------------------------------------------------------------------------------ */

static double device_width(const struct racks *r, enum draw_kind kind)
{
    double widest = 0;
    for (int i = 0; i < r->n; i++) {
        const struct tray_device *device = &r->devices[i];
        double w = draw_text_width(device->name ? device->name : device->number, DRAW_FONT, true);
        if (device->kind == kind && w > widest)
            widest = w;
    }
    return widest + 8 > 250 ? 250 : widest + 8;
}

/* Devices of a package are adjacent: GPUs, then NICs, then disks. */
static bool goes_before(const struct tray_device *a, const struct tray_device *b)
{
    return a->package != b->package ? a->package < b->package : a->kind < b->kind;
}

static int compare_devices(const void *a, const void *b)
{
    const struct tray_device *x = *(struct tray_device *const *)a,
                             *y = *(struct tray_device *const *)b;
    return goes_before(x, y) ? -1 : goes_before(y, x) ? 1 : (x > y) - (x < y);
}

/* Adds a tray with its devices, at the place (0, 0). */
static void add_tray(struct racks *r, int rack, int host)
{
    struct drawing *d = r->d;
    const struct tray_device **list = calloc((size_t)r->n + 1, sizeof(void *));
    int tray = draw_add_box(d, DRAW_HOST, rack), n = 0, column = 0;
    double x = r->name_w, y = TRAY_PAD, right = 0;
    if (!list)
        abort();
    for (int i = 0; i < r->n; i++)
        if (r->devices[i].host == host)
            list[n++] = &r->devices[i];
    qsort(list, (size_t)n, sizeof(void *), compare_devices);
    for (int i = 0; i < n; i++) {
        if (column == ROW_MOST) {
            x = r->name_w;
            y += TRAY_DEVICE_H + DEVICE_GAP;
            column = 0;
        } else if (column && list[i]->package != list[i - 1]->package) {
            x += PACKAGE_GAP - DEVICE_GAP;
        }
        int at = draw_add_box(d, list[i]->kind, tray);
        struct draw_box *box = &d->boxes[at];
        snprintf(box->name, DRAW_TEXT, "%.30s", list[i]->name ? list[i]->name : list[i]->number);
        box->gpu = list[i]->gpu;
        box->domain = list[i]->domain;
        box->x = x;
        box->y = y;
        box->w = device_width(r, box->kind);
        box->h = TRAY_DEVICE_H;
        x += box->w + DEVICE_GAP;
        right = x > right ? x : right;
        column++;
    }
    struct draw_box *box = &d->boxes[tray];
    snprintf(box->name, DRAW_TEXT, "node %d", host);
    box->name_at_left = true;
    box->w = right - DEVICE_GAP + TRAY_PAD;
    box->h = y + TRAY_DEVICE_H + TRAY_PAD;
    free(list);
}

/* --- racks ------------------------------------------------------------------------------------ */

static void move_box(struct drawing *d, int box, double x, double y)
{
    for (int i = box; i < d->n_boxes; i++)
        if (draw_is_inside(d, i, box)) {
            d->boxes[i].x += x;
            d->boxes[i].y += y;
        }
}

/* Places the trays of a rack in columns at both sides of the switch, or in one at its right. */
static void place_trays(struct drawing *d, int rack, int trays)
{
    int columns = trays > COLUMN_MOST ? 2 : 1, each = (trays + columns - 1) / columns, n = 0;
    int end = d->n_boxes;
    double width = 0, y = RACK_HEADING, bottom = 0;
    for (int i = rack; i < end; i++)
        if (d->boxes[i].parent == rack && d->boxes[i].w > width)
            width = d->boxes[i].w;
    double left = columns == 2 ? RACK_PAD + width + WIRE : RACK_PAD;
    for (int i = rack; i < end; i++) {
        if (d->boxes[i].parent != rack)
            continue;
        if (n == each)
            y = RACK_HEADING;
        d->boxes[i].w = width;
        move_box(d, i, columns == 2 && n < each ? RACK_PAD : left + SWITCH_W + WIRE, y);
        y += d->boxes[i].h + TRAY_GAP;
        bottom = y > bottom ? y : bottom;
        n++;
    }
    int bar = draw_add_box(d, DRAW_FABRIC, rack);
    struct draw_box *box = &d->boxes[bar];
    snprintf(box->name, DRAW_TEXT, "NVSwitch");
    box->x = left;
    box->y = RACK_HEADING;
    box->w = SWITCH_W;
    box->h = bottom - TRAY_GAP - RACK_HEADING;
    d->boxes[rack].w = left + SWITCH_W + WIRE + width + RACK_PAD;
    d->boxes[rack].h = bottom - TRAY_GAP + RACK_PAD;
}

static int add_rack(struct racks *r, int domain)
{
    struct drawing *d = r->d;
    int rack = draw_add_box(d, DRAW_RACK, -1), trays = 0, gpus = 0;
    for (int h = 0; h < r->n_hosts; h++)
        if (r->domain_of_host[h] == domain) {
            add_tray(r, rack, h);
            trays++;
        }
    for (int i = 0; i < r->n; i++)
        gpus += r->devices[i].kind == DRAW_GPU && r->devices[i].domain == domain;
    place_trays(d, rack, trays);
    snprintf(d->boxes[rack].name, DRAW_TEXT, "NVLink domain %d", domain);
    snprintf(d->boxes[rack].more, DRAW_TEXT, "%d GPUs in %d nodes", gpus, trays);
    return rack;
}

/* Places racks in rows as wide as a page. */
static void place_racks(struct drawing *d)
{
    double x = DRAW_MARGIN, y = DRAW_HEAD, height = 0;
    for (int i = 0; i < d->n_boxes; i++) {
        if (d->boxes[i].kind != DRAW_RACK)
            continue;
        if (x > DRAW_MARGIN && x + d->boxes[i].w > PAGE_W) {
            x = DRAW_MARGIN;
            y += height + 2 * RACK_PAD;
            height = 0;
        }
        move_box(d, i, x, y);
        x += d->boxes[i].w + 2 * RACK_PAD;
        height = d->boxes[i].h > height ? d->boxes[i].h : height;
        d->w = x - 2 * RACK_PAD + DRAW_MARGIN > d->w ? x - 2 * RACK_PAD + DRAW_MARGIN : d->w;
        d->h = y + height;
    }
}

/* --- lines and notes -------------------------------------------------------------------------- */

/* Adds a line from the switch of its rack to each tray. It is weak where a GPU has fewer links than
 * others. Returns the number of links of the others. */
static int connect_trays(const struct machine *m, struct drawing *d)
{
    int most = 0;
    for (int i = 0; i < d->n_boxes; i++)
        if (d->boxes[i].kind == DRAW_GPU && draw_links_up(m, d->boxes[i].gpu) > most)
            most = draw_links_up(m, d->boxes[i].gpu);
    for (int bar = 0; bar < d->n_boxes; bar++)
        for (int i = 0; i < d->n_boxes; i++) {
            const struct draw_box *tray = &d->boxes[i], *box = &d->boxes[bar];
            if (box->kind != DRAW_FABRIC || tray->kind != DRAW_HOST || tray->parent != box->parent)
                continue;
            struct draw_line *line = draw_add_line(d);
            bool right = tray->x > box->x;
            line->from = bar;
            line->to = i;
            line->x1 = right ? box->x + box->w : box->x;
            line->x2 = right ? tray->x : tray->x + tray->w;
            line->y1 = line->y2 = tray->y + tray->h / 2;
            line->width = 4;
            for (int k = 0; k < d->n_boxes; k++)
                line->weak |= d->boxes[k].kind == DRAW_GPU && d->boxes[k].parent == i &&
                              draw_links_up(m, d->boxes[k].gpu) < most;
        }
    return most;
}

/* Notes the GPUs with fewer links. */
static void note_weak(const struct machine *m, struct drawing *d, int most)
{
    char text[100] = "";
    int n = 0;
    for (int i = 0; i < d->n_boxes; i++) {
        int links = d->boxes[i].kind == DRAW_GPU ? draw_links_up(m, d->boxes[i].gpu) : most;
        size_t used = strlen(text);
        if (links < most && n++ < 4)
            snprintf(text + used, sizeof text - used, "%s%.16s has %dx", used ? ", " : "",
                     d->boxes[i].name, links);
    }
    if (n > 4)
        draw_note(d, "red: %s and %d more", text, n - 4);
    else if (n)
        draw_note(d, "red: %s", text);
}

/* Notes the rate of the NICs if it is the same of all. */
static void note_nics(const struct machine *m, struct drawing *d)
{
    int64_t mbit = -1;
    for (size_t i = 0; i < m->n_nics; i++) {
        const struct machine_port *p = machine_find_port(m, text_or(m->nics[i].name, ""));
        int64_t here = p ? number_or(p->mbit, 0) : 0;
        if (here == 0 || (mbit >= 0 && here != mbit))
            return;
        mbit = here;
    }
    if (mbit > 0)
        draw_note(d, "each NIC: %" PRId64 " Gbit/s", mbit / 1000);
}

bool draw_racks(const struct machine *machine, struct drawing *d)
{
    struct racks r = {.machine = machine, .d = d};
    int *of = calloc(machine->n_gpus + 1, sizeof *of);
    if (!of)
        abort();
    d->n_domains = draw_domains(machine, of);
    collect_devices(&r, of);
    bool racks = find_domains(&r);
    char last[32];
    snprintf(last, sizeof last, "node %d", r.n_hosts);
    r.name_w = draw_text_width(last, DRAW_FONT, true) + 14;
    for (int domain = 0; racks && domain < d->n_domains; domain++)
        add_rack(&r, domain);
    free(of);
    free(r.devices);
    free(r.domain_of_host);
    if (!racks)
        return false;
    place_racks(d);
    int most = connect_trays(machine, d);
    draw_note_switched(machine, d, most, "each GPU has");
    note_weak(machine, d, most);
    note_nics(machine, d);
    draw_note(d, "CPU packages, root complexes and PCIe links: weft topo --tree");
    return true;
}

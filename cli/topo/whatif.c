/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --what-if`: prints the pairs that change, before and after. */
#include "topo/topo.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "machine_options.h"

struct whatif_side {
    char label[32];
    char path[64];
    int64_t mbps, latency_ns;
};

static void read_pair(const struct topo *topo, int a, int b, struct whatif_side *side)
{
    struct routes routes = {.n = 0};
    memset(side, 0, sizeof *side);
    topo_label(topo, a, b, side->label, sizeof side->label);
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    const struct route *best = routes_best(&routes);
    if (!best)
        return;
    memcpy(side->path, best->text, sizeof side->path);
    side->mbps = best->mbps;
    side->latency_ns = best->latency_ns;
}

static bool sides_equal(const struct whatif_side *x, const struct whatif_side *y)
{
    return strcmp(x->label, y->label) == 0 && strcmp(x->path, y->path) == 0 && x->mbps == y->mbps &&
           x->latency_ns == y->latency_ns;
}

/* Whether the line of (b, a) covers the pair (a, b), because both change in the same way. */
static bool is_covered(const struct topo *x, const struct topo *y, int a, int b)
{
    struct whatif_side was, is, was_back, is_back;
    if (a < b)
        return false;
    read_pair(x, a, b, &was);
    read_pair(y, a, b, &is);
    read_pair(x, b, a, &was_back);
    read_pair(y, b, a, &is_back);
    return sides_equal(&was, &was_back) && sides_equal(&is, &is_back);
}

static json_t *side_json(const struct whatif_side *s)
{
    return json_pack("{s:s, s:s, s:o, s:o}", "distance", s->label, "path", s->path,
                     "expected_gbytes_per_s", json_gbps(s->mbps), "expected_us",
                     json_us(s->latency_ns));
}

static void print_side(const char *title, const struct whatif_side *s)
{
    char gbps[16], us[16];
    columns_print(stdout, 16, "  %-7s %-5s %s, %s GB/s, %s us", title, s->label,
                  *s->path ? s->path : "no path", show_gbps(s->mbps, gbps, sizeof gbps),
                  show_us(s->latency_ns, us, sizeof us));
}

/* A pair that changes. */
struct change {
    const char *a, *b;
    struct whatif_side was, is;
};

struct changes {
    struct change *list;
    int n, room;
};

static void add_change(struct changes *changes, const struct change *change)
{
    if (changes->n == changes->room) {
        changes->room = changes->room ? 2 * changes->room : 64;
        changes->list = realloc(changes->list, (size_t)changes->room * sizeof *changes->list);
        if (!changes->list)
            abort();
    }
    changes->list[changes->n++] = *change;
}

static void find_changes(const struct topo *x, const struct topo *y, struct changes *changes)
{
    for (int a = 0; a < x->n && a < y->n; a++)
        for (int b = 0; b < x->n && b < y->n; b++) {
            struct change change = {.a = x->ends[a].name, .b = x->ends[b].name};
            read_pair(x, a, b, &change.was);
            read_pair(y, a, b, &change.is);
            bool a_path = *change.was.path || *change.is.path;
            if (a != b && a_path && !sides_equal(&change.was, &change.is) &&
                !is_covered(x, y, a, b))
                add_change(changes, &change);
        }
}

static bool changes_alike(const struct change *x, const struct change *y)
{
    return sides_equal(&x->was, &y->was) && sides_equal(&x->is, &y->is);
}

static bool is_first_change(const struct changes *changes, int at)
{
    for (int i = 0; i < at; i++)
        if (changes_alike(&changes->list[i], &changes->list[at]))
            return false;
    return true;
}

/* Names the pairs that change alike, such as "gpu0-gpu3, gpu1-gpu2"; only the first of many
 * unless --full. */
static char *names_of(const struct changes *changes, int at)
{
    enum { MOST = 8 };
    char *text;
    size_t size;
    int n = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        abort();
    for (int i = at; i < changes->n; i++) {
        const struct change *c = &changes->list[i];
        if (!changes_alike(c, &changes->list[at]))
            continue;
        if (n < MOST || columns_are_full())
            fprintf(to, "%s%s-%s", n ? ", " : "", c->a, c->b);
        n++;
    }
    if (n > MOST && !columns_are_full())
        fprintf(to, " and %d more", n - MOST);
    fclose(to);
    return text;
}

static void print_changes(const struct changes *changes)
{
    for (int i = 0; i < changes->n; i++) {
        if (!is_first_change(changes, i))
            continue;
        char *names = names_of(changes, i);
        columns_print(stdout, 2, "%s", names);
        print_side("before", &changes->list[i].was);
        print_side("after", &changes->list[i].is);
        free(names);
    }
    if (!changes->n)
        puts("no pair changes");
}

static void print_changes_json(const struct changes *changes)
{
    json_t *list = json_array();
    for (int i = 0; i < changes->n; i++) {
        const struct change *c = &changes->list[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:o}", "a", c->a, "b", c->b, "before",
                                        side_json(&c->was), "after", side_json(&c->is)));
    }
    json_print(json_pack("{s:o}", "changed", list));
}

int topo_changes(const struct machine *before, const struct machine *after, int json)
{
    static struct topo x, y;
    struct changes changes = {.n = 0};
    topo_collect(before, &x);
    topo_collect(after, &y);
    find_changes(&x, &y, &changes);
    if (json)
        print_changes_json(&changes);
    else
        print_changes(&changes);
    free(changes.list);
    return changes.n;
}

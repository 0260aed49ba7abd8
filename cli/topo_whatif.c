/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --what-if`: the pairs that change, before and after. */
#include "topo.h"

#include <jansson.h>
#include <string.h>

#include "machine_options.h"

struct side {
    char label[32];
    char path[64];
    int64_t mbps, latency_ns;
};

static void look(const struct topo *topo, int a, int b, struct side *side)
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

static bool same(const struct side *x, const struct side *y)
{
    return strcmp(x->label, y->label) == 0 && strcmp(x->path, y->path) == 0 && x->mbps == y->mbps &&
           x->latency_ns == y->latency_ns;
}

/* Whether the pair (a, b) needs no line of its own, because (b, a) has one and changes in the same way:
 * most pairs are alike in both directions. */
static bool told(const struct topo *x, const struct topo *y, int a, int b)
{
    struct side was, is, was_back, is_back;
    if (a < b)
        return false;
    look(x, a, b, &was);
    look(y, a, b, &is);
    look(x, b, a, &was_back);
    look(y, b, a, &is_back);
    return same(&was, &was_back) && same(&is, &is_back);
}

static json_t *side_json(const struct side *s)
{
    return json_pack("{s:s, s:s, s:o, s:o}", "distance", s->label, "path", s->path,
                     "expected_gbytes_per_s", json_gbps(s->mbps), "expected_us",
                     json_us(s->latency_ns));
}

static void print_side(const char *title, const struct side *s)
{
    char gbps[16], us[16];
    printf("  %-7s %-5s %s, %s GB/s, %s us\n", title, s->label, *s->path ? s->path : "no way",
           show_gbps(s->mbps, gbps, sizeof gbps), show_us(s->latency_ns, us, sizeof us));
}

int topo_changes(const struct machine *before, const struct machine *after, int json)
{
    static struct topo x, y;
    int changed = 0;
    json_t *list = json_array();
    topo_collect(before, &x);
    topo_collect(after, &y);
    for (int a = 0; a < x.n && a < y.n; a++)
        for (int b = 0; b < x.n && b < y.n; b++) {
            struct side was, is;
            look(&x, a, b, &was);
            look(&y, a, b, &is);
            bool a_way = *was.path || *is.path;
            if (a == b || !a_way || same(&was, &is) || told(&x, &y, a, b))
                continue;
            changed++;
            if (json) {
                json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "a", x.ends[a].name,
                                                      "b", x.ends[b].name, "before",
                                                      side_json(&was), "after", side_json(&is)));
                continue;
            }
            printf("%s %s\n", x.ends[a].name, x.ends[b].name);
            print_side("before", &was);
            print_side("after", &is);
        }
    if (json)
        json_print(json_pack("{s:O}", "changed", list));
    else if (!changed)
        puts("no pair changes");
    json_decref(list);
    return changed;
}

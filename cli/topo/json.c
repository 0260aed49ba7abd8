/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --json`: the matrices as a list of pairs, with stable keys. */
#include "topo/topo.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "machine_options.h"

static const char *const answers[] = {"off", "on", "unknown"};

static json_t *route_json(const struct route *route)
{
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:s, s:s, s:b}", "path", route->text, "expected_gbytes_per_s",
                  json_gbps(route->mbps), "expected_us", json_us(route->latency_ns), "usable",
                  answers[route->usable], "limit", route->limit, "in_weft", route->offered);
    if (route->via >= 0)
        json_object_set_new(object, "via", json_sprintf("gpu%d", route->via));
    return object;
}

static json_t *measured_json(const struct machine *machine, const char *a, const char *b)
{
    const struct machine_measured *m = machine_find_measured(machine, a, b);
    if (!m)
        return json_pack("{s:s}", "unknown", "not measured");
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "proof", json_fact_text(m->proof), "evidence",
        json_fact_text(m->evidence), "write_gbytes_per_s",
        m->write_mbps.known ? json_gbps(m->write_mbps.value) : json_fact_number(m->write_mbps),
        "read_gbytes_per_s",
        m->read_mbps.known ? json_gbps(m->read_mbps.value) : json_fact_number(m->read_mbps),
        "both_gbytes_per_s",
        m->both_mbps.known ? json_gbps(m->both_mbps.value) : json_fact_number(m->both_mbps), "us",
        m->latency_ns.known ? json_us(m->latency_ns.value) : json_fact_number(m->latency_ns),
        "errors_grown", json_fact_number(m->errors_grown), "errors_where",
        json_fact_text(m->errors_where));
}

/* Number of links between two GPUs, or why it is unknown. */
static json_t *links_json(const struct topo *topo, int a, int b)
{
    struct link_bundle bundle =
        routes_links(topo->machine, topo->ends[a].index, topo->ends[b].index);
    const struct machine_gpu *gpu = machine_find_gpu(topo->machine, topo->ends[a].index);
    if (bundle.unknown)
        return json_pack("{s:s}", "unknown", why_unknown(gpu ? gpu->nvlinks.why : NULL));
    return json_integer(bundle.links);
}

static json_t *pair_json(const struct topo *topo, int a, int b)
{
    char label[32];
    struct routes routes = {.n = 0};
    int indices[ROUTES_MOST];
    int64_t total = 0;
    topo_label(topo, a, b, label, sizeof label);
    label[1 + strcspn(label + 1, "?")] = '\0'; /* unknown links have a key of their own */
    explain_routes(topo->machine, &topo->ends[a], &topo->ends[b], &routes);
    json_t *list = json_array();
    for (int i = 0; i < routes.n; i++)
        json_array_append_new(list, route_json(&routes.list[i]));
    int disjoint = routes_disjoint(&routes, indices, &total);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:o, s:{s:i, s:o}, s:o}", "a", topo->ends[a].name, "b",
                  topo->ends[b].name, "distance", label, "routes", list, "striped", "ways",
                  disjoint, "expected_gbytes_per_s", json_gbps(total), "measured",
                  measured_json(topo->machine, topo->ends[a].name, topo->ends[b].name));
    if (a < topo->gpus && b < topo->gpus)
        json_object_set_new(object, "links", links_json(topo, a, b));
    const struct machine_p2p *p =
        a < topo->gpus && b < topo->gpus
            ? machine_find_p2p(topo->machine, topo->ends[a].index, topo->ends[b].index)
            : NULL;
    if (p)
        json_object_set_new(object, "p2p",
                            json_pack("{s:o, s:o, s:o}", "read", json_fact_text(p->read), "write",
                                      json_fact_text(p->write), "atomics",
                                      json_fact_text(p->atomics)));
    return object;
}

void topo_json(const struct topo *topo)
{
    const struct machine *m = topo->machine;
    /* the facts in the format of a machine file */
    char *text = machine_format(m, false);
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    json_t *pairs = json_array();
    for (int a = 0; a < topo->n; a++)
        for (int b = 0; b < topo->n; b++)
            if (a != b)
                json_array_append_new(pairs, pair_json(topo, a, b));
    free(text);
    if (!root)
        root = json_object();
    json_object_set_new(root, "origin", json_string(m->origin));
    json_object_set_new(root, "flat", json_boolean(machine_is_flat(m)));
    json_object_set_new(root, "pairs", pairs);
    json_print(root);
}

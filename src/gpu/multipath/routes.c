/* SPDX-License-Identifier: Apache-2.0 */
/* See routes.h. */
#include "gpu/multipath/routes.h"

#include <stdio.h>
#include <string.h>

/* A detour over a relay GPU. */
struct detour {
    int via;
    /* number of links of the smaller of its two bundles; 0: it shares links with other routes */
    int links;
};

static int smaller_of(int a, int b)
{
    return a < b ? a : b;
}

/* Rates the detour over `via`. Only NVLinks that connect exactly two GPUs are not shared with other
 * routes. */
static bool check_detour(const struct gpu_links *links, int a, int b, int via, bool forced,
                         struct detour *detour)
{
    const struct gpu_link *in = &links->link[a][via], *out = &links->link[via][b];
    bool own = in->kind == GPU_LINK_NVLINK_PAIR && out->kind == GPU_LINK_NVLINK_PAIR;
    if (via == a || via == b || in->kind == GPU_LINK_NONE || out->kind == GPU_LINK_NONE)
        return false;
    *detour = (struct detour){via, own ? smaller_of(in->links, out->links) : 0};
    return own || forced;
}

/* Sorts by the number of links, descending; equal detours keep their order. */
static void insert_detour(struct detour *list, int n, struct detour next)
{
    for (; n > 0 && list[n - 1].links < next.links; n--)
        list[n] = list[n - 1];
    list[n] = next;
}

static void add_route(struct gpu_routes *routes, int most, int via)
{
    if (routes->n < most && routes->n < GPU_ROUTES_MOST)
        routes->via[routes->n++] = via;
}

static const char *explain_single_route(const struct gpu_links *links, int a, int b)
{
    if (links->n < 3)
        return "no relay GPU is visible to this PE";
    switch (links->link[a][b].kind) {
    case GPU_LINK_NVSWITCH:
        return "NVLink goes through switches: every route would use the same links";
    case GPU_LINK_NVLINK_UNKNOWN:
        return links->unknown[0] ? links->unknown : "the NVLink topology is unknown";
    case GPU_LINK_PCIE:
        return "no relay GPU has links of its own to both, and each GPU has one PCIe link";
    default:
        return "no relay GPU has links of its own to both";
    }
}

void gpu_route_name(int via, char name[GPU_ROUTE_NAME])
{
    if (via >= 0)
        snprintf(name, GPU_ROUTE_NAME, "GPU %d", via);
    else
        snprintf(name, GPU_ROUTE_NAME, "%s", via == GPU_ROUTE_HOST ? "host memory" : "direct");
}

void gpu_routes_list(struct gpu_routes *routes)
{
    size_t used = 0;
    for (int i = 0; i < routes->n && used < sizeof routes->text; i++) {
        char name[GPU_ROUTE_NAME];
        gpu_route_name(routes->via[i], name);
        used += (size_t)snprintf(routes->text + used, sizeof routes->text - used, "%s%s%s",
                                 i ? ", " : "", routes->via[i] == GPU_ROUTE_DIRECT ? "" : "over ",
                                 name);
    }
}

void gpu_routes_find(const struct gpu_links *links, int a, int b, int most, bool forced,
                     struct gpu_routes *routes)
{
    struct detour list[GPU_LINKS_MOST];
    int n = links->n < GPU_LINKS_MOST ? links->n : GPU_LINKS_MOST, found = 0;
    *routes = (struct gpu_routes){0};
    if (a < 0 || b < 0 || a >= n || b >= n || a == b) {
        snprintf(routes->text, sizeof routes->text, "%s",
                 a == b ? "the same GPU" : "one of the GPUs is not visible to this PE");
        return;
    }
    for (int i = 1; i < n; i++) {
        struct detour detour;
        if (check_detour(links, a, b, (a + i) % n, forced, &detour))
            insert_detour(list, found++, detour);
    }
    if (links->link[a][b].kind != GPU_LINK_NONE)
        add_route(routes, most, GPU_ROUTE_DIRECT);
    for (int i = 0; i < found; i++)
        add_route(routes, most, list[i].via);
    if (forced && found == 0 && routes->n == 1)
        add_route(routes, most, b);
    if (routes->n < 2 && (routes->n == 0 || routes->via[0] == GPU_ROUTE_DIRECT))
        snprintf(routes->text, sizeof routes->text, "%s", explain_single_route(links, a, b));
    else
        gpu_routes_list(routes);
}

bool gpu_routes_add_host(const struct gpu_links *links, int a, int b, bool forced,
                         struct gpu_routes *routes)
{
    if (routes->n == 0 || routes->via[0] != GPU_ROUTE_DIRECT || (routes->n > 1 && !forced) ||
        links->link[a][b].kind == GPU_LINK_PCIE)
        return false;
    if (routes->n < GPU_ROUTES_MOST)
        routes->n++;
    memmove(routes->via + 2, routes->via + 1, (size_t)(routes->n - 2) * sizeof routes->via[0]);
    routes->via[1] = GPU_ROUTE_HOST;
    gpu_routes_list(routes);
    return true;
}

/* ------------------------------------------------------------------- choice of a relay GPU */

/* Number of pairs that a bundle carries already, from one GPU to the other. */
typedef int pairs_over[GPU_LINKS_MOST][GPU_LINKS_MOST];

struct relay_share {
    int ordinal; /* -1: none */
    bool nvlink; /* NVLink to both */
    /* links, in fractions of 1/840, that one more pair would get of the scarcer of the two
     * bundles */
    int least;
    int both; /* the same for both bundles together */
};

static int links_per_pair(const struct gpu_link *link, int pairs)
{
    enum { PARTS = 840 }; /* fractions of a link; 1 to 8 pairs divide it evenly */
    return (link->links ? link->links : 1) * PARTS / (pairs + 1);
}

static bool is_better_share(const struct relay_share *a, const struct relay_share *b)
{
    if (b->ordinal < 0 || a->nvlink != b->nvlink)
        return b->ordinal < 0 || a->nvlink;
    return a->least != b->least ? a->least > b->least : a->both > b->both;
}

static int choose_relay(const struct gpu_links *links, int a, int b, const pairs_over *pairs)
{
    struct relay_share best = {.ordinal = -1};
    for (int i = 1; i < links->n; i++) {
        int via = (a + i) % links->n;
        const struct gpu_link *in = &links->link[a][via], *out = &links->link[via][b];
        if (via == b || in->kind == GPU_LINK_NONE || out->kind == GPU_LINK_NONE)
            continue;
        int first = links_per_pair(in, (*pairs)[a][via]),
            second = links_per_pair(out, (*pairs)[via][b]);
        struct relay_share next = {via, in->kind != GPU_LINK_PCIE && out->kind != GPU_LINK_PCIE,
                                   smaller_of(first, second), first + second};
        if (is_better_share(&next, &best))
            best = next;
    }
    return best.ordinal;
}

void gpu_relays_assign(const struct gpu_links *links, uint32_t used, bool all,
                       int relay[GPU_LINKS_MOST][GPU_LINKS_MOST])
{
    pairs_over pairs = {{0}};
    for (int i = 0; i < GPU_LINKS_MOST * GPU_LINKS_MOST; i++) {
        int a = i / GPU_LINKS_MOST, b = i % GPU_LINKS_MOST;
        relay[a][b] = -1;
        if (a == b || a >= links->n || b >= links->n || !(used >> a & used >> b & 1) ||
            (!all && links->link[a][b].kind != GPU_LINK_NONE))
            continue;
        int taken = choose_relay(links, a, b, (const pairs_over *)&pairs);
        relay[a][b] = taken;
        if (taken >= 0) {
            pairs[a][taken]++;
            pairs[taken][b]++;
        }
    }
}

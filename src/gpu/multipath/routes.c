/* SPDX-License-Identifier: Apache-2.0 */
/* See routes.h. */
#include "gpu/multipath/routes.h"

#include <stdio.h>
#include <string.h>

/* Between two other GPUs, by way of which a copy could go. */
struct between {
    int via;
    int links; /* of the smaller of its two bundles; 0 = it shares wires with other ways */
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Only bundles that join two GPUs and no others are shared with no other way. */
static bool look_at(const struct gpu_links *links, int a, int b, int via, bool forced,
                    struct between *between)
{
    const struct gpu_join *in = &links->join[a][via], *out = &links->join[via][b];
    bool own = in->wires == GPU_WIRES_OWN && out->wires == GPU_WIRES_OWN;
    if (via == a || via == b || in->wires == GPU_WIRES_NONE || out->wires == GPU_WIRES_NONE)
        return false;
    *between = (struct between){via, own ? least(in->links, out->links) : 0};
    return own || forced;
}

/* The most links first; equal ones stay in the order in which they were found. */
static void insert(struct between *list, int n, struct between next)
{
    for (; n > 0 && list[n - 1].links < next.links; n--)
        list[n] = list[n - 1];
    list[n] = next;
}

static void add(struct gpu_ways *ways, int most, int via)
{
    if (ways->n < most && ways->n < GPU_WAYS_MOST)
        ways->via[ways->n++] = via;
}

static const char *why_one(const struct gpu_links *links, int a, int b)
{
    if (links->n < 3)
        return "no third GPU is visible to this PE";
    switch (links->join[a][b].wires) {
    case GPU_WIRES_SWITCH:
        return "NVLink goes through switches: every way would take the same links";
    case GPU_WIRES_NVLINK:
        return links->unknown[0] ? links->unknown : "which links NVLink takes is not known";
    case GPU_WIRES_PCIE:
        return "no third GPU has links of its own to both, and PCIe is one link of each GPU";
    default:
        return "no third GPU has links of its own to both";
    }
}

void gpu_way_name(int via, char name[GPU_WAY_NAME])
{
    if (via >= 0)
        snprintf(name, GPU_WAY_NAME, "GPU %d", via);
    else
        snprintf(name, GPU_WAY_NAME, "%s", via == GPU_WAY_HOST ? "host memory" : "direct");
}

void gpu_ways_list(struct gpu_ways *ways)
{
    size_t used = 0;
    for (int i = 0; i < ways->n && used < sizeof ways->text; i++) {
        char way[GPU_WAY_NAME];
        gpu_way_name(ways->via[i], way);
        used += (size_t)snprintf(ways->text + used, sizeof ways->text - used, "%s%s%s",
                                 i ? ", " : "", ways->via[i] == GPU_WAY_DIRECT ? "" : "over ", way);
    }
}

void gpu_ways_find(const struct gpu_links *links, int a, int b, int most, bool forced,
                   struct gpu_ways *ways)
{
    struct between list[GPU_LINKS_MOST];
    int n = links->n < GPU_LINKS_MOST ? links->n : GPU_LINKS_MOST, found = 0;
    *ways = (struct gpu_ways){0};
    if (a < 0 || b < 0 || a >= n || b >= n || a == b) {
        snprintf(ways->text, sizeof ways->text, "%s",
                 a == b ? "the same GPU" : "one of the GPUs is not visible to this PE");
        return;
    }
    for (int i = 1; i < n; i++) {
        struct between between;
        if (look_at(links, a, b, (a + i) % n, forced, &between))
            insert(list, found++, between);
    }
    if (links->join[a][b].wires != GPU_WIRES_NONE)
        add(ways, most, GPU_WAY_DIRECT);
    for (int i = 0; i < found; i++)
        add(ways, most, list[i].via);
    if (forced && found == 0 && ways->n == 1)
        add(ways, most, b);
    if (ways->n < 2 && (ways->n == 0 || ways->via[0] == GPU_WAY_DIRECT))
        snprintf(ways->text, sizeof ways->text, "%s", why_one(links, a, b));
    else
        gpu_ways_list(ways);
}

bool gpu_ways_add_host(const struct gpu_links *links, int a, int b, bool forced,
                       struct gpu_ways *ways)
{
    if (ways->n == 0 || ways->via[0] != GPU_WAY_DIRECT || (ways->n > 1 && !forced) ||
        links->join[a][b].wires == GPU_WIRES_PCIE)
        return false;
    if (ways->n < GPU_WAYS_MOST)
        ways->n++;
    memmove(ways->via + 2, ways->via + 1, (size_t)(ways->n - 2) * sizeof ways->via[0]);
    ways->via[1] = GPU_WAY_HOST;
    gpu_ways_list(ways);
    return true;
}

/* ------------------------------------------------------------------------------ which third GPU */

/* How many pairs a bundle carries already, from the one GPU to the other. */
typedef int pairs_over[GPU_LINKS_MOST][GPU_LINKS_MOST];

struct third {
    int ordinal; /* -1: none */
    bool nvlink; /* to both */
    int least;   /* links that a further pair would have of the scarcer of the two bundles, */
    int both;    /* and of both; in parts of a link */
};

static int share_of(const struct gpu_join *join, int pairs)
{
    enum { PARTS = 840 };
    return (join->links ? join->links : 1) * PARTS / (pairs + 1);
}

static bool is_better(const struct third *a, const struct third *b)
{
    if (b->ordinal < 0 || a->nvlink != b->nvlink)
        return b->ordinal < 0 || a->nvlink;
    return a->least != b->least ? a->least > b->least : a->both > b->both;
}

static int third_of(const struct gpu_links *links, int a, int b, const pairs_over *pairs)
{
    struct third best = {.ordinal = -1};
    for (int i = 1; i < links->n; i++) {
        int it = (a + i) % links->n;
        const struct gpu_join *in = &links->join[a][it], *out = &links->join[it][b];
        if (it == b || in->wires == GPU_WIRES_NONE || out->wires == GPU_WIRES_NONE)
            continue;
        int first = share_of(in, (*pairs)[a][it]), second = share_of(out, (*pairs)[it][b]);
        struct third next = {it, in->wires != GPU_WIRES_PCIE && out->wires != GPU_WIRES_PCIE,
                             least(first, second), first + second};
        if (is_better(&next, &best))
            best = next;
    }
    return best.ordinal;
}

void gpu_thirds_divide(const struct gpu_links *links, uint32_t used, bool all,
                       int third[GPU_LINKS_MOST][GPU_LINKS_MOST])
{
    pairs_over pairs = {{0}};
    for (int i = 0; i < GPU_LINKS_MOST * GPU_LINKS_MOST; i++) {
        int a = i / GPU_LINKS_MOST, b = i % GPU_LINKS_MOST;
        third[a][b] = -1;
        if (a == b || a >= links->n || b >= links->n || !(used >> a & used >> b & 1) ||
            (!all && links->join[a][b].wires != GPU_WIRES_NONE))
            continue;
        int taken = third_of(links, a, b, (const pairs_over *)&pairs);
        third[a][b] = taken;
        if (taken >= 0) {
            pairs[a][taken]++;
            pairs[taken][b]++;
        }
    }
}

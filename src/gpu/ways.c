/* SPDX-License-Identifier: Apache-2.0 */
/* See ways.h. */
#include "gpu/ways.h"

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

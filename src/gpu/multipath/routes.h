/* SPDX-License-Identifier: Apache-2.0 */
/* The routes that a large copy between two GPUs can take at the same time: the direct route, and
 * detours over GPUs that have links to both. Pure functions of the links of the machine, so that
 * tables can test them; links.c reads the links. These functions do not know whether a route is
 * faster. */
#ifndef WEFT_GPU_WAYS_H
#define WEFT_GPU_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GPU_ROUTES_MOST = 8, /* routes of one copy */
    GPU_LINKS_MOST = 16, /* GPUs that are considered */
    GPU_ROUTE_DIRECT = -1,
    GPU_ROUTE_HOST = -2, /* through host memory, over the PCIe links of both GPUs */
};

enum gpu_link_kind {
    GPU_LINK_NONE,        /* no access */
    GPU_LINK_PCIE,        /* each GPU's single link to the host, which all its peers share */
    GPU_LINK_NVLINK_PAIR, /* NVLink between these two GPUs only */
    /* NVLink through switches: a GPU's links carry the traffic of all its peers */
    GPU_LINK_NVSWITCH,
    GPU_LINK_NVLINK_UNKNOWN, /* NVLink of unknown topology */
};

struct gpu_link {
    enum gpu_link_kind kind;
    int links; /* number of links, for GPU_LINK_NVLINK_PAIR */
};

struct gpu_links {
    int n; /* number of visible GPUs; they are indexed by ordinal */
    struct gpu_link link[GPU_LINKS_MOST][GPU_LINKS_MOST];
    char unknown[96]; /* why the topology is unknown; "": it is known */
};

struct gpu_routes {
    int n;
    /* ordinal of the relay GPU, GPU_ROUTE_DIRECT, which comes first, or GPU_ROUTE_HOST */
    int via[GPU_ROUTES_MOST];
    char text[160]; /* names of the routes, or why there is only one */
};

/* Finds the routes from GPU `a` to `b`, at most `most`, that share no link. forced: also routes
 * that share links, and, where there is no other, the detour that the peer's own GPU makes by
 * reading. Equal detours are ordered by ordinal starting after `a`, so that different GPUs prefer
 * different relay GPUs. */
void gpu_routes_find(const struct gpu_links *links, int a, int b, int most, bool forced,
                     struct gpu_routes *routes);

/* Inserts the route through host memory after the direct route when the direct route is NVLink, so
 * that the two share no link. Does so only where the list has no other route; forced: before all
 * others. Returns whether the host route is in the list. */
bool gpu_routes_add_host(const struct gpu_links *links, int a, int b, bool forced,
                         struct gpu_routes *routes);

/* Assigns relay GPUs: relay[a][b] is the relay GPU that the PE of GPU a uses for GPU b; -1: none.
 * Covers the GPUs in `used` (a bit for each ordinal) that cannot access each other, or `all`.
 * Prefers NVLink to both over PCIe; then the relay GPU with the most links left for one more pair,
 * when each bundle's links are divided among the pairs that use it; then the next ordinal. Every PE
 * that sees the same machine gets the same result. */
void gpu_relays_assign(const struct gpu_links *links, uint32_t used, bool all,
                       int relay[GPU_LINKS_MOST][GPU_LINKS_MOST]);

/* "GPU 2", "direct", "host memory". */
enum { GPU_ROUTE_NAME = 24 }; /* bytes */
void gpu_route_name(int via, char name[GPU_ROUTE_NAME]);

/* Writes the names of the routes in via[] to routes->text: "direct, over GPU 2". */
void gpu_routes_list(struct gpu_routes *routes);

#endif

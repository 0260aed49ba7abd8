/* SPDX-License-Identifier: Apache-2.0 */
/* Over which ways a large copy between two GPUs can go at the same time: the direct one, and over
 * third GPUs that have links to both. A pure function of what joins the GPUs of the machine, so
 * that it can be tested by tables; what is known of a machine is read in links.c. Says nothing of
 * whether it is faster. */
#ifndef WEFT_GPU_WAYS_H
#define WEFT_GPU_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GPU_ROUTES_MOST = 8,
    GPU_LINKS_MOST = 16, /* GPUs that are looked at */
    GPU_ROUTE_DIRECT = -1,
    GPU_ROUTE_HOST = -2, /* through host memory, over both GPUs' PCIe links */
};

enum gpu_wires {
    GPU_WIRES_NONE,   /* no access */
    GPU_WIRES_PCIE,   /* each GPU's one link to the host, whatever the other GPU is */
    GPU_WIRES_OWN,    /* NVLink that joins these two and no others */
    GPU_WIRES_SWITCH, /* NVLink into switches: each GPU's links, whatever the other GPU is */
    GPU_WIRES_NVLINK, /* NVLink, and nobody has told which */
};

struct gpu_join {
    enum gpu_wires wires;
    int links; /* of GPU_WIRES_OWN */
};

struct gpu_links {
    int n; /* visible GPUs, by their ordinals */
    struct gpu_join join[GPU_LINKS_MOST][GPU_LINKS_MOST];
    char unknown[96]; /* why nobody has told; "" = it is known */
};

struct gpu_routes {
    int n;
    int via[GPU_ROUTES_MOST]; /* ordinal of the GPU between, GPU_ROUTE_DIRECT, which comes first,
                               * _HOST */
    char text[160];           /* which they are, or why there is but one */
};

/* From GPU `a` to `b`, at most `most`. Ways that share no link; `forced`: also such as do, and the
 * one that the peer's own GPU makes by pulling, where there is no other. Of equal third GPUs the
 * next ones behind `a` come first, so that different GPUs take different ones. */
void gpu_routes_find(const struct gpu_links *links, int a, int b, int most, bool forced,
                     struct gpu_routes *routes);

/* Puts the way through host memory behind the direct one, where that is NVLink, so that both share
 * no link: in a list that has but that one, or, forced, before all others. Whether it is in the
 * list. */
bool gpu_routes_add_host(const struct gpu_links *links, int a, int b, bool forced,
                         struct gpu_routes *routes);

/* third[a][b]: which third GPU the PE of GPU a has for GPU b, for those in `used` (bit per ordinal)
 * that have no access to each other, or for `all`; -1 where there is none or none is wanted. NVLink
 * to both before PCIe; then the one over which a pair more has most, when each bundle's links are
 * divided among the pairs that go over it already; then the next one. Every PE that sees the same
 * machine comes to the same. */
void gpu_relays_assign(const struct gpu_links *links, uint32_t used, bool all,
                       int relay[GPU_LINKS_MOST][GPU_LINKS_MOST]);

/* "GPU 2", "direct", "host memory". */
enum { GPU_ROUTE_NAME = 24 };
void gpu_route_name(int via, char name[GPU_ROUTE_NAME]);

/* "direct, over GPU 2", of those that are in via[]. */
void gpu_routes_list(struct gpu_routes *routes);

#endif

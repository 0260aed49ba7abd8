/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a machine: how near two things are, over which ways data can go between them, and
 * what each way is expected to give. Pure functions of the model. Knows nothing of why a way is
 * off (explain.h) nor of what was measured. */
#ifndef WEFT_MACHINE_ROUTES_H
#define WEFT_MACHINE_ROUTES_H

#include "machine/machine.h"

enum { ENDPOINT_NAME = 64 };

enum endpoint_kind { ENDPOINT_GPU, ENDPOINT_NIC, ENDPOINT_HOST, ENDPOINT_DISK };

struct endpoint {
    enum endpoint_kind kind;
    char name[ENDPOINT_NAME];      /* "gpu0", "mlx5_0", "host", "numa1", "nvme0n1" */
    int64_t index;                 /* of the GPU; of the NUMA node, -1 for "host" */
    const struct machine_pci *pci; /* NULL for host, or when its place is unknown */
};

/* The endpoint that a GPU or a NIC of the machine is. A name that is not known is "gpu-1" or "?".
 */
struct endpoint endpoint_of_gpu(const struct machine *machine, const struct machine_gpu *gpu);
struct endpoint endpoint_of_nic(const struct machine *machine, const struct machine_nic *nic);

/* "gpu0", "GPU0", "0" (a GPU), "0000:3b:00.0", "mlx5_0", "nic0", "host", "cpu", "numa1", "nvme0n1".
 * WEFT_ERR_ARGUMENT names the near ones. */
weft_status endpoint_find(const struct machine *machine, const char *name, struct endpoint *end);

/* Names as nvidia-smi prints them; LEVEL_NET: in another host of a description of several. */
enum level {
    LEVEL_SELF,
    LEVEL_PIX,
    LEVEL_PXB,
    LEVEL_PHB,
    LEVEL_NODE,
    LEVEL_SYS,
    LEVEL_NET,
    LEVEL_UNKNOWN
};

const char *level_name(enum level level);
enum level routes_level(const struct machine *machine, const struct machine_pci *a,
                        const struct machine_pci *b);
/* The same of two ends: by the PCI tree, or as a program told it where their place is not known. */
enum level routes_apart(const struct machine *machine, const struct endpoint *a,
                        const struct endpoint *b);
/* NUMA node of a device; -1 when it is not known and cannot be concluded. */
int64_t routes_numa(const struct machine *machine, const struct machine_pci *pci);
/* The same of a GPU, NIC or disk whose place may be unknown. */
int64_t routes_numa_of(const struct machine *machine, const struct endpoint *end);
int64_t routes_package(const struct machine *machine, int64_t numa);

/* Active links between two GPUs: direct ones, or both sides' links into switches. */
struct link_bundle {
    int links; /* bonded */
    bool through_switch;
    bool told;        /* a program told the number alone: through_switch and speed are not known */
    const char *kind; /* "nvlink", "xgmi", NULL when links is 0 */
    int64_t generation;
    int64_t line_mbps; /* all bonded links together */
    int64_t mbps;      /* expected of a large copy */
    int64_t latency_ns;
};
struct link_bundle routes_links(const struct machine *machine, int64_t a, int64_t b);
/* Active links between a GPU and a CPU (NVLink-C2C, or NVLink of POWER9). */
struct link_bundle routes_cpu_links(const struct machine *machine, int64_t gpu);
/* "NVLink", "xGMI", "NVLink-C2C" */
const char *link_title(const char *kind);

enum route_kind {
    ROUTE_LINK,   /* NVLink or xGMI, direct or through switches */
    ROUTE_PEER,   /* PCIe peer-to-peer: GPU-GPU, GPU-NIC, GPU-disk */
    ROUTE_RELAY,  /* over links through a GPU between */
    ROUTE_HOST,   /* a device and host memory */
    ROUTE_STAGED, /* through pinned host memory */
};

/* A set of kinds of ways, as findings turn them off. */
#define WAY(kind)   (1u << (kind))
#define WAYS_DIRECT (WAY(ROUTE_LINK) | WAY(ROUTE_PEER) | WAY(ROUTE_RELAY))
#define WAYS_ALL    (WAYS_DIRECT | WAY(ROUTE_HOST) | WAY(ROUTE_STAGED))

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };

struct route {
    enum route_kind kind;
    enum answer usable; /* as far as hardware, driver and model say */
    bool offered;       /* Weft has a path that takes it, and drives these GPUs */
    int64_t mbps;       /* expected, one direction; 0 when it cannot be told */
    int64_t latency_ns; /* 0 when it cannot be told */
    int via;            /* GPU of a relay, else -1 */
    int hops;           /* links or PCIe switches on the way */
    char text[64];      /* "18x NVLink 4 through NVSwitch", "PCIe peer-to-peer (PIX)" */
    char limit[96];     /* what bounds the speed */
};

/* Data goes from end to end with no copy between: what a measurement of the two ends can be
 * compared with. */
bool route_is_direct(const struct route *route);

enum { ROUTES_MOST = 72 };

struct routes {
    /* best first: usable ones, of these a direct link before the rest, then by speed */
    struct route list[ROUTES_MOST];
    int n;
    bool gpus; /* both ends are GPUs */
};

/* None for two endpoints of which neither is a GPU nor the host. */
void routes_between(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, struct routes *routes);

/* "on", "off", "unknown", or that this version of Weft does not take it. */
const char *route_state(const struct route *route);

/* Orders them again after a change of `usable`. */
void routes_sort(struct routes *routes);

/* The best usable one, NULL when there is none: what the machine could do. */
const struct route *routes_best(const struct routes *routes);

/* The best of the usable ones that Weft takes; NULL when there is none. */
const struct route *routes_taken(const struct routes *routes);

/* Usable routes over which Weft stripes large transfers, for they share no link; indices into
 * routes->list, best first. Returns how many. */
int routes_disjoint(const struct routes *routes, int *indices, int64_t *total_mbps);

/* Expected speed of a device's PCIe link up to the root complex; 0 when unknown. `limit` says
 * which link bounds it. */
int64_t routes_pcie_mbps(const struct machine *machine, const struct machine_pci *pci, char *limit,
                         size_t size);
/* Of a GPU's own link, by what its driver says, wherever it stands; 0 when unknown. */
int64_t routes_gpu_mbps(const struct machine *machine, int64_t gpu);
/* The same up to, not including, the bridge `stop`. */
int64_t routes_pcie_mbps_to(const struct machine *machine, const struct machine_pci *pci,
                            const struct machine_pci *stop, char *limit, size_t size);
const struct machine_pci *routes_common_bridge(const struct machine *machine,
                                               const struct machine_pci *a,
                                               const struct machine_pci *b);
/* How peer-to-peer over PCIe goes between two devices. */
struct peer_way {
    bool redirected; /* from a switch that both are below up to the root complex and back */
    bool translated; /* the IOMMU of this machine, or of the one that hosts it, has a part in it */
    enum answer crosses; /* between two CPU packages */
};
struct peer_way routes_peer_way(const struct machine *machine, const struct machine_pci *a,
                                const struct machine_pci *b);
/* What is expected of it in one direction; 0 when it cannot be told. `limit` says what bounds it.
 * `redirect` is the permille that is left where it is redirected, of facts.h. */
int64_t routes_peer_mbps(const struct machine *machine, const struct machine_pci *a,
                         const struct machine_pci *b, int redirect, char *limit, size_t size);
/* What the kind of way adds to a latency; 0 for the direct one. */
int64_t routes_peer_extra_ns(struct peer_way way);

/* Bridges of the way from a up to (not including) `stop` whose ACS redirects peer traffic. */
int routes_acs_bridges(const struct machine *machine, const struct machine_pci *a,
                       const struct machine_pci *stop, const struct machine_pci **found, int most);

#endif

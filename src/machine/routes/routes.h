/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of a machine: the distance between two endpoints, the routes that data can take between
 * them, and the expected rate of each route. Pure functions of the model. Why a route is off is in
 * explain.h. */
#ifndef WEFT_MACHINE_ROUTES_H
#define WEFT_MACHINE_ROUTES_H

#include "machine/machine.h"

enum { ENDPOINT_NAME = 64 };

enum endpoint_kind { ENDPOINT_GPU, ENDPOINT_NIC, ENDPOINT_HOST, ENDPOINT_DISK };

struct endpoint {
    enum endpoint_kind kind;
    char name[ENDPOINT_NAME];      /* "gpu0", "mlx5_0", "host", "numa1", "nvme0n1" */
    int64_t index;                 /* index of the GPU or NUMA node; -1 for "host" */
    const struct machine_pci *pci; /* NULL for the host, or when the PCI address is unknown */
};

/* The endpoint of a GPU or NIC of the machine. An unknown name becomes "gpu-1" or "?". */
struct endpoint endpoint_of_gpu(const struct machine *machine, const struct machine_gpu *gpu);
struct endpoint endpoint_of_nic(const struct machine *machine, const struct machine_nic *nic);

/* "gpu0", "GPU0", "0" (a GPU), "0000:3b:00.0", "mlx5_0", "nic0", "host", "cpu", "numa1", "nvme0n1".
 * WEFT_ERR_ARGUMENT: the message has the nearest name and the names that exist. */
weft_status endpoint_find(const struct machine *machine, const char *name, struct endpoint *end);

/* Distances as nvidia-smi prints them, the nearest first. LEVEL_NET: another host of a description
 * of several hosts. */
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
/* Distance of two endpoints: from the PCI tree, or from an imported file when their PCI addresses
 * are unknown. */
enum level routes_apart(const struct machine *machine, const struct endpoint *a,
                        const struct endpoint *b);
/* NUMA node of a device; -1 when it is not known and cannot be inferred. */
int64_t routes_numa(const struct machine *machine, const struct machine_pci *pci);
/* NUMA node of a GPU, NIC or disk whose PCI address may be unknown. */
int64_t routes_numa_of(const struct machine *machine, const struct endpoint *end);
int64_t routes_package(const struct machine *machine, int64_t numa);

/* Active links between two GPUs: direct links, or the links of both into switches. */
struct link_bundle {
    int links; /* number of links that work in parallel */
    bool through_switch;
    bool count_only; /* an imported file has only the number: through_switch and rate are unknown */
    bool unknown;    /* links is 0 because the machine file does not report the links of the pair */
    const char *kind; /* "nvlink", "xgmi", NULL when links is 0 */
    int64_t generation;
    int64_t line_mbps; /* line rate of all links together, one direction */
    int64_t mbps;      /* expected rate of a large copy, one direction */
    int64_t latency_ns;
};
struct link_bundle routes_links(const struct machine *machine, int64_t a, int64_t b);
/* Whether the links of a GPU to other GPUs and switches are known, or that it has none. */
bool routes_links_known(const struct machine *machine, int64_t gpu);
/* Active links between a GPU and a CPU (NVLink-C2C, or NVLink of POWER9). */
struct link_bundle routes_cpu_links(const struct machine *machine, int64_t gpu);
/* Whether the GPU has a coherent link to its CPU: NVLink-C2C, or its memory is a NUMA node. */
bool routes_coherent(const struct machine *machine, const struct machine_gpu *gpu);
/* Whether a NIC reaches the memory of a GPU through the CPU and the GPU's NVLink-C2C links: it does
 * unless the two share a PCIe switch. */
bool routes_by_cpu_links(const struct machine *machine, const struct endpoint *gpu,
                         const struct endpoint *nic);
/* Display name of a link kind: "NVLink", "xGMI", "NVLink-C2C". */
const char *link_title(const char *kind);

enum route_kind {
    ROUTE_LINK,   /* NVLink or xGMI, direct or through switches */
    ROUTE_PEER,   /* PCIe peer-to-peer: GPU-GPU, GPU-NIC, GPU-disk */
    ROUTE_RELAY,  /* over links through a relay GPU */
    ROUTE_HOST,   /* between a device and host memory */
    ROUTE_STAGED, /* through a staging buffer in pinned host memory */
};

/* Sets of route kinds, as findings turn them off. */
#define ROUTE_BIT(kind)   (1u << (kind))
#define ROUTE_BITS_DIRECT (ROUTE_BIT(ROUTE_LINK) | ROUTE_BIT(ROUTE_PEER) | ROUTE_BIT(ROUTE_RELAY))
#define ROUTE_BITS_ALL    (ROUTE_BITS_DIRECT | ROUTE_BIT(ROUTE_HOST) | ROUTE_BIT(ROUTE_STAGED))

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };

struct route {
    enum route_kind kind;
    enum answer usable; /* by hardware, driver status and test results */
    bool offered;       /* Weft has a path for this route and supports these GPUs */
    int64_t mbps;       /* expected rate, one direction; 0 when unknown */
    int64_t latency_ns; /* expected latency; 0 when unknown */
    int via;            /* index of the relay GPU, else -1 */
    int hops;           /* number of links or PCIe switches */
    char text[64];      /* "18x NVLink 4 through NVSwitch", "PCIe peer-to-peer (PIX)" */
    char limit[96];     /* the part of the route that bounds the rate */
};

/* True when data goes from end to end without an intermediate copy, so that a measurement of the
 * two endpoints can be compared with this route. */
bool route_is_direct(const struct route *route);

enum { ROUTES_MOST = 72 };

struct routes {
    /* best first: usable routes first; between two GPUs links, then PCIe peer access; then by rate
     */
    struct route list[ROUTES_MOST];
    int n;
    bool gpus; /* both ends are GPUs */
};

/* Finds the routes between two endpoints; none when neither endpoint is a GPU or the host. */
void routes_between(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, struct routes *routes);

/* "on", "off", "unknown", or a text that says that this version of Weft does not use the route. */
const char *route_state(const struct route *route);

/* Sorts the routes again after a change of `usable`. */
void routes_sort(struct routes *routes);

/* The route that is used: the first of the list; NULL when none is usable. Weft uses it only when
 * it is `offered`. */
const struct route *routes_best(const struct routes *routes);

/* Usable routes that share no link, over which Weft stripes large transfers. Sets indices into
 * routes->list, best first, and their total rate in MB/s. Returns their number. */
int routes_disjoint(const struct routes *routes, int *indices, int64_t *total_mbps);

/* Expected rate in MB/s of a device's PCIe links up to the root complex; 0 when unknown. `limit`
 * names the link that bounds it. */
int64_t routes_pcie_mbps(const struct machine *machine, const struct machine_pci *pci, char *limit,
                         size_t size);
/* Expected rate in MB/s of a GPU's own PCIe link, from the driver's generation and width; 0 when
 * unknown. Needs no PCI tree. */
int64_t routes_gpu_mbps(const struct machine *machine, int64_t gpu);
/* As routes_pcie_mbps(), up to but not including the bridge `stop`. */
int64_t routes_pcie_mbps_to(const struct machine *machine, const struct machine_pci *pci,
                            const struct machine_pci *stop, char *limit, size_t size);
const struct machine_pci *routes_common_bridge(const struct machine *machine,
                                               const struct machine_pci *a,
                                               const struct machine_pci *b);
/* The PCIe peer-to-peer route between two devices. */
struct peer_route {
    bool redirected;     /* a switch above both sends the traffic to the root complex and back */
    bool translated;     /* the IOMMU of this machine or of its host translates the addresses */
    enum answer crosses; /* the route crosses two CPU packages */
};
struct peer_route routes_peer_route(const struct machine *machine, const struct machine_pci *a,
                                    const struct machine_pci *b);
/* Expected rate of that route in MB/s, one direction; 0 when unknown. `limit` names what bounds it.
 * `redirect`: permille of the rate that is left after redirection, from facts.h. */
int64_t routes_peer_mbps(const struct machine *machine, const struct machine_pci *a,
                         const struct machine_pci *b, int redirect, char *limit, size_t size);
/* Latency in ns that redirection, translation and package crossing add; 0 for a direct route. */
int64_t routes_peer_extra_ns(struct peer_route route);

/* Bridges above `a`, up to but not including `stop`, whose ACS redirects peer traffic. Sets at most
 * `most` of them and returns their number. */
int routes_acs_bridges(const struct machine *machine, const struct machine_pci *a,
                       const struct machine_pci *stop, const struct machine_pci **found, int most);

#endif

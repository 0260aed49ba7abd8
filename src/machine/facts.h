/* SPDX-License-Identifier: Apache-2.0 */
/* What is true of a generation of hardware, whichever machine it is in: one table, each line with
 * its source. Nothing here is read from a machine. */
#ifndef WEFT_MACHINE_FACTS_H
#define WEFT_MACHINE_FACTS_H

#include <stdint.h>

#include "machine/machine.h"

/* A kind of link. `line_mbps` is one link (PCIe: one lane) in one direction after line coding;
 * `permille` is what large copies reach of it; `latency_ns` one way, a flag of 8 bytes. */
struct fact_link {
    const char *kind; /* "nvlink", "xgmi", "c2c", "pcie" */
    int generation;
    int64_t line_mbps;
    int permille;
    int64_t latency_ns;
    const char *source;
};

extern const struct fact_link fact_links[];
extern const int fact_n_links;

/* NULL when that generation is not in the table. */
const struct fact_link *fact_find_link(const char *kind, int64_t generation);

/* Interconnect between CPU packages by CPU; `family` and `models` as CPUID gives them. */
struct fact_socket {
    const char *vendor;
    int family, model_low, model_high;
    const char *kind;
    int64_t mbps; /* one direction, all links of a pair together */
    const char *source;
    /* what one PCIe device was seen to move to another across it, and what the same devices move
     * under one package; 0: no measurement is known, of this CPU or of the latter */
    int64_t peer_mbps, peer_of_mbps;
    const char *peer_source;
};

extern const struct fact_socket fact_sockets[];
extern const int fact_n_sockets;

/* The line of this machine's CPU; NULL when it has none, or the CPU is not known. */
const struct fact_socket *fact_find_socket(const struct machine *machine);

/* Fills system.socket_link from the CPU model where it is not known yet. */
void fact_fill_socket_link(struct machine *machine);

/* What a GPU model is built with. `links` go to peers or switches, `cpu_links` are NVLink-C2C to
 * the CPU; pcie_generation 0: not published. */
struct fact_gpu {
    const char *word; /* in descriptions: "h200" */
    const char *name;
    const char *vendor;
    int cc_major, cc_minor;
    int64_t memory_bytes, bar1_bytes;
    const char *link_kind;
    int link_generation, links;
    int cpu_links;
    int pcie_generation;
    int pci_device; /* PCI device number */
    const char *source;
};

extern const struct fact_gpu fact_gpus[];
extern const int fact_n_gpus;

/* Numbers that hold for a way of moving data rather than for a kind of link. */
#define FACT_NUMBERS(X)                                                                            \
    X(STAGED_PERMILLE, 670,                                                                        \
      "GPU to GPU through pinned host memory, of the slower PCIe link: 37 of 55 GB/s on H100 "     \
      "(NVIDIA/nccl#1264, P2P disabled)")                                                          \
    X(STAGED_LATENCY_NS, 10000,                                                                    \
      "the same for 8 bytes: two copies of 5 us (copy of 8 bytes: 5.5 us, measured on H200)")      \
    X(HOST_LATENCY_NS, 1200,                                                                       \
      "a flag between CPU and GPU: half the round trip of 2.3-2.6 us measured on H200")            \
    X(SOCKET_PERMILLE, 720,                                                                        \
      "PCIe peer-to-peer between two CPU packages, of the same under one, where no figure of the " \
      "CPU is known: 39 of 54 GB/s, the least of three AMD machines (voipmonitor/rtx6kpro)")       \
    X(SOCKET_LATENCY_NS, 600, "added by the CPU interconnect; estimate")                           \
    X(REDIRECT_PERMILLE, 830,                                                                      \
      "peer-to-peer that ACS or an IOMMU sends from a PCIe switch up to the root complex and "     \
      "back, of the same within the switch, one direction: root complexes cut it into packets of " \
      "64 bytes, for which NCCL counts 6/5 of the bandwidth (NVIDIA/nccl, src/graph/topo.h)")      \
    X(REDIRECT_NIC_PERMILLE, 560,                                                                  \
      "the same between GPU and NIC, which send and receive at once over the switch's one link "   \
      "upwards: 27 of 48 GB/s (NVIDIA/nccl#949)")                                                  \
    X(REDIRECT_LATENCY_NS, 450,                                                                    \
      "added by that: the switch twice more (SWITCH_LATENCY_NS) and the root complex; estimate")   \
    X(IOMMU_PERMILLE, 790,                                                                         \
      "peer-to-peer whose addresses an IOMMU translates, of the same without: 76 of 96 GB/s "      \
      "(NVIDIA/nccl-tests#156, GPUs and NICs of virtual machines)")                                \
    X(IOMMU_LATENCY_NS, 400,                                                                       \
      "added by that; estimate from 1.4 us in a virtual machine (cloud-hypervisor#6235)")          \
    X(SWITCH_LATENCY_NS, 150,                                                                      \
      "added by each PCIe switch; estimate from vendors' cut-through "                             \
      "figures of 100-170 ns")                                                                     \
    X(NIC_PERMILLE, 950,                                                                           \
      "of a port's rate that large RDMA writes reach: 47 to 48.5 of 50 GB/s "                      \
      "(deepseek-ai/DeepEP#155)")                                                                  \
    X(NIC_LATENCY_NS, 1500, "NIC to memory over PCIe, half of a small RDMA round trip; estimate")  \
    X(NIC_STAGED_PERMILLE, 320,                                                                    \
      "NIC to GPU through host memory, of the port's rate: 15 of 47 "                              \
      "GB/s (kvcache-ai/Mooncake#1459)")                                                           \
    X(RELAY_LATENCY_NS, 1000, "added by the kernel that forwards in the GPU between; estimate")    \
    X(DISK_PERMILLE, 900, "of a disk's PCIe link that large reads reach; estimate")

enum {
#define NUMBER(name, value, source) FACT_##name = value,
    FACT_NUMBERS(NUMBER)
#undef NUMBER
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Rates and latencies of hardware generations, the same for every machine: tables in which each
 * entry has its source. Nothing here is read from a machine. */
#ifndef WEFT_MACHINE_FACTS_H
#define WEFT_MACHINE_FACTS_H

#include <stdint.h>

#include "machine/machine.h"

/* A generation of a kind of link. */
struct fact_link {
    const char *kind; /* "nvlink", "xgmi", "c2c", "pcie" */
    int generation;
    int64_t line_mbps;  /* of one link (PCIe: one lane), one direction, after line coding */
    int permille;       /* part of the line rate that large copies reach */
    int64_t latency_ns; /* one-way latency of an 8-byte flag */
    const char *source;
};

extern const struct fact_link fact_links[];
extern const int fact_n_links;

/* NULL when that generation is not in the table. */
const struct fact_link *fact_find_link(const char *kind, int64_t generation);

/* Interconnect between CPU packages, by CPU: vendor, family and model numbers of CPUID. */
struct fact_socket {
    const char *vendor;
    int family, model_low, model_high;
    const char *kind;
    int64_t mbps; /* one direction, all links between two packages together */
    const char *source;
    int64_t peer_mbps;    /* measured peer-to-peer rate across the interconnect; 0: unknown */
    int64_t peer_of_mbps; /* rate of the same devices under one package; 0: unknown */
    const char *peer_source;
};

extern const struct fact_socket fact_sockets[];
extern const int fact_n_sockets;

/* The entry of this machine's CPU; NULL when the table has none, or the CPU is unknown. */
const struct fact_socket *fact_find_socket(const struct machine *machine);

/* Sets system.socket_link from the CPU model when it is not known yet. */
void fact_fill_socket_link(struct machine *machine);

/* Names a 64-bit Arm CPU by the implementer and the part of its main id register (MIDR), and by the
 * id of the chip, "jep106:036b:0241"; NULL or "": unknown. /proc/cpuinfo has no name of it. */
void fact_name_arm(struct machine *machine, int64_t implementer, int64_t part, const char *chip);

/* A GPU model. */
struct fact_gpu {
    const char *word; /* its name in descriptions: "h200" */
    const char *name;
    const char *vendor;
    int cc_major, cc_minor; /* compute capability */
    int64_t memory_bytes, bar1_bytes;
    const char *link_kind;      /* "nvlink", "xgmi"; NULL when it has no links */
    int link_generation, links; /* links to other GPUs or to switches */
    int cpu_links;              /* NVLink-C2C links to the CPU */
    int pcie_generation;        /* 0: not published */
    int pci_device;             /* PCI device number */
    const char *source;
};

extern const struct fact_gpu fact_gpus[];
extern const int fact_n_gpus;

/* X(name, value, source): numbers of a route, not of a kind of link. */
#define FACT_NUMBERS(X)                                                                            \
    X(STAGED_PERMILLE, 670,                                                                        \
      "rate GPU to GPU through pinned host memory, of the slower PCIe link: 37 of 55 GB/s, H100 "  \
      "(NVIDIA/nccl#1264, P2P disabled)")                                                          \
    X(STAGED_LATENCY_NS, 10000,                                                                    \
      "latency of that for 8 bytes: two copies of 5 us (one copy: 5.5 us, measured on H200)")      \
    X(HOST_LATENCY_NS, 1200,                                                                       \
      "latency of a flag between CPU and GPU: half the round trip of 2.3-2.6 us, on H200")         \
    X(SOCKET_PERMILLE, 720,                                                                        \
      "PCIe peer-to-peer rate between two CPU packages, of the rate under one, for a CPU without " \
      "a measurement: 39 of 54 GB/s, the lowest of three AMD machines (voipmonitor/rtx6kpro)")     \
    X(SOCKET_LATENCY_NS, 600, "latency that the CPU interconnect adds; estimate")                  \
    X(REDIRECT_PERMILLE, 830,                                                                      \
      "peer-to-peer rate when ACS or an IOMMU redirects it from a PCIe switch to the root "        \
      "complex and back, of the rate within the switch, one direction: root complexes split it "   \
      "into 64-byte packets, for which NCCL counts 6/5 of the bandwidth (NVIDIA/nccl, "            \
      "src/graph/topo.h)")                                                                         \
    X(REDIRECT_NIC_PERMILLE, 560,                                                                  \
      "the same between GPU and NIC: both directions share the upstream link of the switch: 27 "   \
      "of 48 GB/s (NVIDIA/nccl#949)")                                                              \
    X(REDIRECT_LATENCY_NS, 450,                                                                    \
      "latency that redirection adds: the switch twice more (SWITCH_LATENCY_NS) and the root "     \
      "complex; estimate")                                                                         \
    X(IOMMU_PERMILLE, 790,                                                                         \
      "peer-to-peer rate when an IOMMU translates the addresses, of the rate without: 76 of 96 "   \
      "GB/s (NVIDIA/nccl-tests#156, GPUs and NICs of virtual machines)")                           \
    X(IOMMU_LATENCY_NS, 400,                                                                       \
      "latency that translation adds; estimate from 1.4 us in a virtual machine "                  \
      "(cloud-hypervisor#6235)")                                                                   \
    X(SWITCH_LATENCY_NS, 150,                                                                      \
      "latency that each PCIe switch adds; estimate from vendors' cut-through figures of "         \
      "100-170 ns")                                                                                \
    X(NIC_PERMILLE, 950,                                                                           \
      "rate of large RDMA writes, of the port's rate: 47 to 48.5 of 50 GB/s "                      \
      "(deepseek-ai/DeepEP#155)")                                                                  \
    X(NIC_LATENCY_NS, 1500,                                                                        \
      "latency from NIC to memory over PCIe, half of a small RDMA round trip; estimate")           \
    X(NIC_STAGED_PERMILLE, 320,                                                                    \
      "rate NIC to GPU through host memory, of the port's rate: 15 of 47 GB/s "                    \
      "(kvcache-ai/Mooncake#1459)")                                                                \
    X(RELAY_LATENCY_NS, 1000, "latency that the kernel on the relay GPU adds; estimate")           \
    X(DISK_PERMILLE, 900, "rate of large reads, of the disk's PCIe link; estimate")

enum {
#define NUMBER(name, value, source) FACT_##name = value,
    FACT_NUMBERS(NUMBER)
#undef NUMBER
};

#endif

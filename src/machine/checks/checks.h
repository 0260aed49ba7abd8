/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `explain` and `doctor`: pure functions of the model that add findings. A check that
 * lacks a fact adds a finding of WEIGHT_UNKNOWN or none; it never assumes a value. */
#ifndef WEFT_MACHINE_CHECKS_H
#define WEFT_MACHINE_CHECKS_H

#include "machine/checks/assign.h"
#include "machine/reasons.h"
#include "machine/routes/routes.h"

/* Checks of a pair of GPUs; `routes` are the routes between the two. */
void check_links(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                 const struct routes *routes, struct findings *findings);
void check_peer(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                const struct routes *routes, struct findings *findings);
void check_measured(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, const struct routes *routes,
                    struct findings *findings);
/* Adds a finding when the peer access of a pair is not tested: no test has run, or the test could
 * not run. Returns true when no test has run. */
bool check_tested(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                  const struct routes *routes, struct findings *findings);

/* The lowest rate in MB/s that is no fault when `expected_mbps` is expected: limits.fault_percent
 * percent of it. */
int64_t check_threshold(const struct machine *machine, int64_t expected_mbps);

/* Compares the measured rates between a GPU and the host, and the generation of the GPU's PCIe link
 * under load, with the expected ones. */
void check_host_speed(const struct machine *machine, const struct endpoint *gpu,
                      struct findings *findings);

/* Checks the PCIe route between two devices: ACS, IOMMU, facts that could not be read. */
void check_pcie_route(const struct machine *machine, const struct endpoint *a,
                      const struct endpoint *b, enum weight weight, struct findings *findings);
/* Checks link width, generation and NUMA node of a device and of the bridges above it. */
void check_pcie(const struct machine *machine, const struct endpoint *device,
                struct findings *findings);

void check_gpu(const struct machine *machine, const struct machine_gpu *gpu,
               struct findings *findings);
void check_gpu_links(const struct machine *machine, const struct machine_gpu *gpu,
                     struct findings *findings);
void check_fabric(const struct machine *machine, const struct machine_gpu *gpu,
                  struct findings *findings);
void check_mapping(const struct machine *machine, const struct machine_gpu *gpu,
                   struct findings *findings);

void check_nic(const struct machine *machine, const struct endpoint *nic,
               struct findings *findings);
void check_gdr(const struct machine *machine, const struct endpoint *gpu,
               const struct endpoint *nic, struct findings *findings);
void check_gda(const struct machine *machine, const struct endpoint *gpu,
               const struct endpoint *nic, struct findings *findings);
/* Adds a finding for each NIC that several GPUs share. */
void check_shared_nics(const struct machine *machine, const struct assignment *assignment,
                       struct findings *findings);

/* `mount` is NULL when no known mount covers the path. */
void check_file(const struct machine *machine, const struct endpoint *gpu, const char *path,
                const struct machine_mount *mount, struct findings *findings);

/* Checks of settings and counters that only `doctor` makes (health.c). */
void check_pcie_health(const struct machine *machine, const struct endpoint *device,
                       struct findings *findings);
void check_nic_health(const struct machine *machine, const struct endpoint *nic,
                      struct findings *findings);
void check_gpu_health(const struct machine *machine, const struct machine_gpu *gpu,
                      struct findings *findings);
void check_link_health(const struct machine *machine, const struct machine_gpu *gpu,
                       struct findings *findings);
/* Returns the number of RAIDs. */
int check_raids(const struct machine *machine, struct findings *findings);
void check_captures(const struct machine *machine, struct findings *findings);
void check_services(const struct machine *machine, struct findings *findings);
void check_bonds(const struct machine *machine, struct findings *findings);
/* Adds a note when the active ports are in several subnets. */
void check_rails(const struct machine *machine, struct findings *findings);
/* For a machine without RDMA devices: names a PCI device that may be an RDMA NIC, or reports that
 * there is none. */
void check_no_nic(const struct machine *machine, struct findings *findings);

/* Adds a note on what an untrusted host on the RDMA network can do. */
void check_nic_keys(const struct machine *machine, struct findings *findings);

void check_drivers(const struct machine *machine, struct findings *findings);
void check_limits(const struct machine *machine, struct findings *findings);
/* Checks kernel settings that slow a GPU with a coherent link to its CPU (NVLink-C2C). */
void check_coherent(const struct machine *machine, struct findings *findings);

#endif

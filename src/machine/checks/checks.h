/* SPDX-License-Identifier: Apache-2.0 */
/* Every single observation that `explain` and `doctor` make: pure functions of the model that add
 * findings. A check that cannot see what it needs says so (WEIGHT_UNKNOWN) or says nothing; it
 * never assumes. */
#ifndef WEFT_MACHINE_CHECKS_H
#define WEFT_MACHINE_CHECKS_H

#include "machine/checks/assign.h"
#include "machine/reasons.h"
#include "machine/routes/routes.h"

/* A pair of GPUs; `routes` are theirs. */
void check_links(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                 const struct routes *routes, struct findings *findings);
void check_peer(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                const struct routes *routes, struct findings *findings);
void check_measured(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, const struct routes *routes,
                    struct findings *findings);
/* Adds a finding when the direct way of a pair is not proven: because nobody has tried, or because
 * the proof could not be made. Returns true when nobody has tried. */
bool check_proven(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                  const struct routes *routes, struct findings *findings);

/* The least that is no fault, where so much is expected: a part that limits.fault_percent tells. */
int64_t check_least(const struct machine *machine, int64_t expected_mbps);

/* What was measured between a GPU and the host: rates, and the generation of its link under
 * load. */
void check_host_speed(const struct machine *machine, const struct endpoint *gpu,
                      struct findings *findings);

/* What lies on the PCIe way between two devices: ACS, IOMMU, what could not be read. */
void check_pcie_way(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, enum weight weight, struct findings *findings);
/* Width, generation and NUMA of one device and the bridges above it. */
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
/* Several GPUs to which the same NIC was given. */
void check_shared_nics(const struct machine *machine, const struct assignment *assignment,
                       struct findings *findings);

/* `mount` may be NULL: the path is on none that is known. */
void check_file(const struct machine *machine, const struct endpoint *gpu, const char *path,
                const struct machine_mount *mount, struct findings *findings);

/* Settings and counters, for `doctor` alone (health.c). */
void check_pcie_health(const struct machine *machine, const struct endpoint *device,
                       struct findings *findings);
void check_nic_health(const struct machine *machine, const struct endpoint *nic,
                      struct findings *findings);
void check_gpu_health(const struct machine *machine, const struct machine_gpu *gpu,
                      struct findings *findings);
void check_link_health(const struct machine *machine, const struct machine_gpu *gpu,
                       struct findings *findings);
/* Returns how many RAIDs there are. */
int check_raids(const struct machine *machine, struct findings *findings);
void check_captures(const struct machine *machine, struct findings *findings);
void check_services(const struct machine *machine, struct findings *findings);
void check_bonds(const struct machine *machine, struct findings *findings);
/* Of a machine without RDMA devices: what could be one, or that nothing could. */
void check_no_nic(const struct machine *machine, struct findings *findings);

/* What an outsider on the network of RDMA devices can do. */
void check_nic_keys(const struct machine *machine, struct findings *findings);

void check_drivers(const struct machine *machine, struct findings *findings);
void check_limits(const struct machine *machine, struct findings *findings);

#endif

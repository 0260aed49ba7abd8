/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a described machine: synthetic.c reads it from a description, and synthetic_make.c
 * makes the machine. */
#ifndef WEFT_MACHINE_SYNTHETIC_H
#define WEFT_MACHINE_SYNTHETIC_H

#include "machine/facts.h"
#include "machine/machine.h"

enum { PLAN_GPUS_MOST = 144, PLAN_HOSTS_MOST = 72, PLAN_SOCKETS_MOST = 16, PLAN_NUMA_MOST = 8 };

enum fabric { FABRIC_NONE, FABRIC_CUBE, FABRIC_MESH, FABRIC_PAIRS, FABRIC_SWITCH };

struct plan {
    int hosts, sockets, numa;   /* hosts, sockets per host, NUMA nodes per socket */
    int gpus, gpus_each;        /* GPUs in total; GPUs per socket */
    int nics, nic_gpus;         /* `nics` NICs per `nic_gpus` GPUs */
    int beside[PLAN_GPUS_MOST]; /* [GPU]: additional NICs next to this GPU */
    int gpus_per_switch;        /* GPUs per PCIe switch */
    int switches_per_switch;    /* PCIe switches below another switch; 0: one level of switches */
    bool no_switch;             /* devices are below root ports, without PCIe switches */
    int gpus_per_root;          /* with no_switch: GPUs per root complex; 0: one per device */
    int disks;
    enum fabric fabric;
    int domain; /* GPUs in one NVSwitch domain */
    const struct fact_gpu *model;
    bool acs;                  /* ACS redirects peer traffic */
    bool flat;                 /* virtual machine with a flat PCI tree */
    bool iommu_on, iommu_said; /* state of the IOMMU; the description has it */
    int nic_gbit;              /* port rate in Gbit/s */
};

/* Devices below one PCIe switch or root complex. */
enum { PLAN_SLOTS = 12 };

/* Makes the machine of a checked plan. */
void plan_make(const struct plan *plan, struct machine *machine);

#endif

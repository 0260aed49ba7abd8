/* SPDX-License-Identifier: Apache-2.0 */
/* What a description of a machine says: read by synthetic.c, carried out by synthetic_make.c. */
#ifndef WEFT_MACHINE_SYNTHETIC_H
#define WEFT_MACHINE_SYNTHETIC_H

#include "machine/facts.h"
#include "machine/machine.h"

enum { PLAN_GPUS_MOST = 144, PLAN_HOSTS_MOST = 72, PLAN_SOCKETS_MOST = 16, PLAN_NUMA_MOST = 8 };

enum fabric { FABRIC_NONE, FABRIC_CUBE, FABRIC_MESH, FABRIC_PAIRS, FABRIC_SWITCH };

struct plan {
    int hosts, sockets, numa;   /* sockets of a host, NUMA nodes of a socket */
    int gpus, gpus_each;        /* in all; in each socket */
    int nics, nic_gpus;         /* `nics` per `nic_gpus` GPUs */
    int beside[PLAN_GPUS_MOST]; /* NICs beside chosen GPUs, besides these */
    int gpus_per_switch;
    int switches_per_switch; /* 0: no switch above another */
    bool no_switch;          /* devices stand below root ports */
    int gpus_per_root;       /* then, of one root complex; 0: each device has its own */
    int disks;
    enum fabric fabric;
    int domain; /* GPUs that reach each other through switches */
    const struct fact_gpu *model;
    bool acs, flat, iommu_on, iommu_said;
    int nic_gbit;
};

/* Slots for devices below one PCIe switch or root complex. */
enum { PLAN_SLOTS = 12 };

/* Carries out a checked plan. */
void plan_make(const struct plan *plan, struct machine *machine);

#endif

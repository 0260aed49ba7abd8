/* SPDX-License-Identifier: Apache-2.0 */
/* Distance of a NIC from a PE's GPU, or from its CPUs. It is read from sysfs, so that it needs no
 * driver and no library of the CLI. The classes and their names are those of
 * machine/routes/routes.h. This file uses no libfabric type. */
#ifndef WEFT_PATH_NET_NEAR_H
#define WEFT_PATH_NET_NEAR_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Classes of distance, the nearest first. */
enum net_distance {
    NET_DISTANCE_PIX,     /* below the same PCIe switch */
    NET_DISTANCE_PXB,     /* below several PCIe switches */
    NET_DISTANCE_PHB,     /* below the same host bridge */
    NET_DISTANCE_NODE,    /* at the same NUMA node */
    NET_DISTANCE_SYS,     /* at another NUMA node */
    NET_DISTANCE_UNKNOWN, /* unknown: a virtual interface, or a machine without this information */
};

const char *net_distance_name(enum net_distance distance);

/* Location of a device. */
struct net_device_location {
    char chain[256]; /* PCI devices from the root to the device:
                        "pci0000:00/0000:00:01.0/0000:01:00.0"; "" if unknown */
    int numa;        /* NUMA node; -1 if unknown */
};

/* Location of a PE. */
struct net_pe_location {
    bool gpu;                          /* true: the PE's GPU; false: its CPUs */
    struct net_device_location device; /* of the GPU */
    uint64_t numas;                    /* bit per NUMA node of the PE's CPUs; 0 if unknown */
    char text[48]; /* "GPU 0000:3b:00.0", "CPUs of NUMA node 1", "CPUs of 2 NUMA nodes" */
};

/* A pure function. */
enum net_distance net_find_distance(const struct net_pe_location *location,
                                    const struct net_device_location *nic);

/* The functions below read sysfs under `root`, which is "" outside tests.
 *
 * They locate a PCI device by its address, "0000:3b:00.0", and an interface by the name that the
 * kernel or the RDMA devices give it. They return whether it was found. */
bool net_locate_pci(const char *root, const char *address, struct net_device_location *location);
bool net_locate_interface(const char *root, const char *name, struct net_device_location *location);

/* Gets the CPUs of a device's NUMA node. False if unknown. */
bool net_cpus_at(const char *root, const struct net_device_location *location, cpu_set_t *cpus);

/* The speed of an interface in Mbit/s, 0 if unknown, and whether its link has no carrier. */
uint64_t net_get_speed(const char *root, const char *name);
bool net_is_down(const char *root, const char *name);

/* Locates the GPU that the PE will use (gpu/device.h), as far as the driver is not needed for that;
 * else the PE's CPUs. requested: WEFT_GPU; visible: CUDA_VISIBLE_DEVICES, NULL if it is not set.
 * AMD's variables are read where there are GPUs of AMD only. */
void net_locate_pe(const char *root, int local_pe, const char *requested, const char *visible,
                   const cpu_set_t *cpus, struct net_pe_location *location);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How near a NIC is to what a PE computes with: its GPU, or its CPUs. Read from sysfs, so that no
 * driver is opened for it and none of the command's libraries is needed; the classes and their
 * names are those of machine/routes.h. Knows nothing of libfabric. */
#ifndef WEFT_PATH_NET_NEAR_H
#define WEFT_PATH_NET_NEAR_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nearer ones first. */
enum net_distance {
    NET_DISTANCE_PIX,     /* below one PCIe switch */
    NET_DISTANCE_PXB,     /* below several */
    NET_DISTANCE_PHB,     /* below one host bridge */
    NET_DISTANCE_NODE,    /* at one NUMA node */
    NET_DISTANCE_SYS,     /* at another one */
    NET_DISTANCE_UNKNOWN, /* virtual interfaces, and machines that do not tell */
};

const char *net_distance_name(enum net_distance distance);

/* Where a device is. */
struct net_device_location {
    char chain[256]; /* "pci0000:00/0000:00:01.0/0000:01:00.0": bridges from the root on; "" = not
                        known */
    int numa;        /* -1 = not told */
};

/* Where a PE is. */
struct net_pe_location {
    bool gpu;                          /* at its GPU; else at its CPUs */
    struct net_device_location device; /* of the GPU */
    uint64_t numas;                    /* bit per NUMA node of its CPUs; 0 = not told */
    char text[48]; /* "GPU 0000:3b:00.0", "CPUs of NUMA node 1", "CPUs of 2 NUMA nodes" */
};

/* Pure. */
enum net_distance net_find_distance(const struct net_pe_location *location,
                                    const struct net_device_location *nic);

/* Below `root`, "" but in tests.
 *
 * A PCI device by its address, "0000:3b:00.0"; an interface by its name, as the kernel or the RDMA
 * devices have it. Whether it was found. */
bool net_locate_pci(const char *root, const char *address, struct net_device_location *location);
bool net_locate_interface(const char *root, const char *name, struct net_device_location *location);

/* The CPUs of a device's NUMA node. */
bool net_cpus_at(const char *root, const struct net_device_location *location, cpu_set_t *cpus);

/* What the kernel tells of an interface: speed in Mbit/s, 0 = not told; whether its carrier is
 * gone. */
uint64_t net_get_speed(const char *root, const char *name);
bool net_is_down(const char *root, const char *name);

/* Which GPU the PE takes when it comes to that (gpu/device.h), as far as that can be told without
 * the driver; where it cannot, or there is none, its CPUs. wanted: WEFT_GPU; visible:
 * CUDA_VISIBLE_DEVICES, NULL = not set. */
void net_locate_pe(const char *root, int local_pe, const char *wanted, const char *visible,
                   const cpu_set_t *cpus, struct net_pe_location *location);

#endif

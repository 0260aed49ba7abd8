/* SPDX-License-Identifier: Apache-2.0 */
/* See links.h. */
#include "gpu/multipath/links.h"

#include "base/status.h"
#include "driver/nvml.h"

#include <stdio.h>

enum {
    LINKS_OF_A_GPU = 36, /* NVLinks that are queried */
    PEER_IS_SWITCH = 2,  /* NVML_NVLINK_DEVICE_TYPE_SWITCH */
};

/* Number of links from one GPU to each other GPU and into switches. */
struct link_counts {
    int to[GPU_LINKS_MOST], to_switch;
};

/* Parses the driver's name of the device: "0000:0d:00.0". */
static bool read_pci_address(const struct gpu_api *driver, CUdevice device, struct nvml_pci *pci)
{
    char text[32];
    return !driver->DeviceGetPCIBusId(text, sizeof text, device) &&
           sscanf(text, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) == 3;
}

static bool is_same_pci(const struct nvml_pci *a, const struct nvml_pci *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

static bool is_nvlink(const struct gpu_api *driver, CUdevice a, CUdevice b)
{
    int value = 0;
    return !driver->DeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                          a, b) &&
           value;
}

/* Reads what the driver reports. Returns true when there is NVLink, whose topology only NVML
 * knows. */
static bool read_access(const struct gpu_api *driver, struct gpu_links *links,
                        const CUdevice *devices)
{
    bool any = false;
    for (int i = 0; i < links->n; i++)
        for (int k = 0; k < links->n; k++) {
            int can = 0;
            if (i == k || driver->DeviceCanAccessPeer(&can, devices[i], devices[k]) || !can)
                continue;
            bool nvlink = is_nvlink(driver, devices[i], devices[k]);
            links->link[i][k].kind = nvlink ? GPU_LINK_NVLINK_UNKNOWN : GPU_LINK_PCIE;
            any |= nvlink;
        }
    return any;
}

/* In a hive of AMD a pair at one hop has a link of its own. HIP does not count parallel links. */
static void read_xgmi(const struct gpu_api *driver, struct gpu_links *links,
                      const CUdevice *devices)
{
    for (int i = 0; i < links->n; i++)
        for (int k = 0; k < links->n; k++) {
            int hops = 0;
            if (links->link[i][k].kind == GPU_LINK_NVLINK_UNKNOWN &&
                !driver->DeviceGetP2PAttribute(&hops, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
                                               devices[i], devices[k]) &&
                hops == 1)
                links->link[i][k] = (struct gpu_link){GPU_LINK_NVLINK_PAIR, 1};
        }
}

static nvml_device find_handle(const struct nvml *nvml, const struct nvml_pci *pci)
{
    unsigned count = 0;
    if (!nvml->count || !nvml->by_index || !nvml->pci || nvml->count(&count) != NVML_OK)
        return NULL;
    for (unsigned i = 0; i < count; i++) {
        nvml_device device;
        struct nvml_pci found = {.bus_id = ""};
        if (nvml->by_index(i, &device) == NVML_OK && nvml->pci(device, &found) == NVML_OK &&
            is_same_pci(&found, pci))
            return device;
    }
    return NULL;
}

static void count_link(const struct nvml *nvml, nvml_device device, unsigned link,
                       const struct nvml_pci *pcis, int n, struct link_counts *counts)
{
    struct nvml_pci peer = {.bus_id = ""};
    int active = 0, type = -1;
    if (nvml->link_state(device, link, &active) != NVML_OK || !active)
        return;
    if (nvml->link_peer_type && nvml->link_peer_type(device, link, &type) == NVML_OK &&
        type == PEER_IS_SWITCH) {
        counts->to_switch++;
        return;
    }
    bool known = nvml->link_peer && nvml->link_peer(device, link, &peer) == NVML_OK;
    for (int i = 0; known && i < n; i++)
        counts->to[i] += is_same_pci(&peer, &pcis[i]);
}

/* Replaces NVLink of unknown topology by the number of links between the two GPUs, or by links into
 * a switch. */
static void refine_links(struct gpu_links *links, int from, const struct link_counts *counts)
{
    for (int to = 0; to < links->n; to++) {
        struct gpu_link *link = &links->link[from][to];
        if (link->kind != GPU_LINK_NVLINK_UNKNOWN)
            continue;
        if (counts->to[to] > 0)
            *link = (struct gpu_link){GPU_LINK_NVLINK_PAIR, counts->to[to]};
        else if (counts->to_switch > 0)
            link->kind = GPU_LINK_NVSWITCH;
    }
}

static void read_nvlinks(const struct nvml *nvml, struct gpu_links *links,
                         const struct nvml_pci *pcis)
{
    if (!nvml->link_state)
        return;
    for (int i = 0; i < links->n; i++) {
        struct link_counts counts = {0};
        nvml_device device = find_handle(nvml, &pcis[i]);
        for (unsigned link = 0; device && link < LINKS_OF_A_GPU; link++)
            count_link(nvml, device, link, pcis, links->n, &counts);
        refine_links(links, i, &counts);
    }
}

void gpu_links_read(const struct gpu_device *own, struct gpu_links *links)
{
    const struct gpu_api *driver = own->driver;
    CUdevice devices[GPU_LINKS_MOST] = {0};
    struct nvml_pci pcis[GPU_LINKS_MOST];
    struct nvml nvml;
    bool all = true;
    *links = (struct gpu_links){.n = own->visible < GPU_LINKS_MOST ? own->visible : GPU_LINKS_MOST};
    for (int i = 0; i < links->n; i++)
        all &= !driver->DeviceGet(&devices[i], i) && read_pci_address(driver, devices[i], &pcis[i]);
    if (!all || !read_access(driver, links, devices) || links->n < 3)
        return;
    if (driver->vendor == GPU_VENDOR_AMD) {
        read_xgmi(driver, links, devices);
        return;
    }
    if (nvml_open(&nvml)) {
        snprintf(links->unknown, sizeof links->unknown, "the NVLink topology is unknown: %.60s",
                 base_last_error());
        return;
    }
    read_nvlinks(&nvml, links, pcis);
    nvml_close(&nvml);
}

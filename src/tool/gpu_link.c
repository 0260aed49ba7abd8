/* SPDX-License-Identifier: Apache-2.0 */
/* See gpu_link.h. */
#include "tool/gpu_link.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver/nvml.h"

struct tool_gpu_links {
    struct nvml nvml;
};

struct tool_gpu_links *gpu_links_open(void)
{
    struct tool_gpu_links *links = calloc(1, sizeof *links);
    if (links && nvml_open(&links->nvml) == WEFT_OK)
        return links;
    free(links);
    return NULL;
}

void gpu_links_close(struct tool_gpu_links *links)
{
    if (!links)
        return;
    nvml_close(&links->nvml);
    free(links);
}

static bool parse(const char *address, unsigned place[4])
{
    place[3] = 0;
    return sscanf(address, "%x:%x:%x.%x", &place[0], &place[1], &place[2], &place[3]) >= 3;
}

/* NVML writes the domain with eight digits, the kernel with four. */
static bool stands_at(const struct nvml *nvml, nvml_device device, const unsigned place[4])
{
    struct nvml_pci pci = {.bus_id = ""};
    unsigned other[4];
    if (!nvml->pci || nvml->pci(device, &pci) != NVML_OK || !parse(pci.bus_id, other))
        return false;
    for (int i = 0; i < 4; i++)
        if (place[i] != other[i])
            return false;
    return true;
}

int gpu_links_generation(struct tool_gpu_links *links, const char *address)
{
    unsigned n = 0, generation = 0, place[4];
    const struct nvml *nvml = links ? &links->nvml : NULL;
    if (!nvml || !address || !parse(address, place) || !nvml->count || !nvml->by_index ||
        nvml->count(&n) != NVML_OK)
        return 0;
    for (unsigned i = 0; i < n; i++) {
        nvml_device device;
        if (nvml->by_index(i, &device) != NVML_OK || !stands_at(nvml, device, place))
            continue;
        if (!nvml->pcie_gen || nvml->pcie_gen(device, &generation) != NVML_OK)
            return 0;
        return (int)generation;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Queries NVML for the processes that use memory of a GPU. See users.h. */
#include "gpu/users.h"

#include "base/status.h"
#include "driver/nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PROCESSES = 64 }; /* listed at most */

/* NVML writes the PCI domain with eight digits, CUDA with four. */
static bool is_same_bus(const char *cuda_bus_id, const struct nvml_pci *pci)
{
    const char *name = pci->bus_id;
    size_t have = strlen(name), want = strlen(cuda_bus_id);
    return have >= want && strcasecmp(name + have - want, cuda_bus_id) == 0;
}

static nvml_device find_device(const struct nvml *nvml, const struct gpu_device *gpu)
{
    unsigned count = 0;
    if (!nvml->count || !nvml->by_index || !nvml->pci || nvml->count(&count) != NVML_OK)
        return NULL;
    for (unsigned i = 0; i < count; i++) {
        nvml_device device;
        struct nvml_pci pci;
        if (nvml->by_index(i, &device) == NVML_OK && nvml->pci(device, &pci) == NVML_OK &&
            is_same_bus(gpu->bus_id, &pci))
            return device;
    }
    return NULL;
}

static void read_process_name(unsigned pid, char *name, size_t bytes)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(name, (int)bytes, file))
        snprintf(name, bytes, "name unknown");
    name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
}

static int compare_memory(const void *a, const void *b)
{
    unsigned long long left = ((const struct nvml_process *)a)->memory;
    unsigned long long right = ((const struct nvml_process *)b)->memory;
    return left < right ? 1 : left > right ? -1 : 0;
}

static void list_processes(struct nvml_process *processes, unsigned count, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "it is used by ");
    qsort(processes, count, sizeof *processes, compare_memory);
    for (unsigned i = 0; i < count && used < bytes; i++) {
        char name[32], amount[32];
        read_process_name(processes[i].pid, name, sizeof name);
        /* In some containers NVML reports no amount: all ones. */
        if (processes[i].memory == ~0ull)
            snprintf(amount, sizeof amount, "amount unknown");
        else
            snprintf(amount, sizeof amount, "%llu MiB", processes[i].memory >> 20);
        int n = snprintf(text + used, bytes - used, "%spid %u (%s) %s", i ? ", " : "",
                         processes[i].pid, name, amount);
        used += n > 0 ? (size_t)n : 0;
    }
}

void gpu_memory_users(const struct gpu_device *gpu, char *text, size_t bytes)
{
    struct nvml nvml;
    if (gpu->driver->vendor == GPU_VENDOR_AMD) {
        snprintf(text, bytes, "`amd-smi process` shows which processes use it");
        return;
    }
    if (nvml_open(&nvml)) {
        snprintf(text, bytes, "which processes use it is unknown (%s)", base_last_error());
        return;
    }
    struct nvml_process processes[PROCESSES];
    unsigned count = PROCESSES;
    nvml_device device = find_device(&nvml, gpu);
    nvml_return status = device && nvml.processes ? nvml.processes(device, &count, processes)
                                                  : NVML_FUNCTION_NOT_FOUND;
    if (status != NVML_OK)
        snprintf(text, bytes, "which processes use it is unknown (%s)", nvml_words(&nvml, status));
    else if (count == 0)
        snprintf(text, bytes,
                 "NVML lists no process that uses it (one in another PID namespace "
                 "is not listed)");
    else
        list_processes(processes, count < PROCESSES ? count : PROCESSES, text, bytes);
    nvml_close(&nvml);
}

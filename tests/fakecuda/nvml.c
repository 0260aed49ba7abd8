/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of libnvidia-ml.so.1 for PCI addresses, links and their error counters:
 * FAKE_CUDA_DEVICES (2) GPUs with 18 links to a switch, 4 errors on each, all peers of each other.
 *
 * Environment:
 *   FAKE_NVML_LINKS  "0-1:2,1-2:1": the number of links between these GPUs, and no switch
 *   FAKE_NVML_GROW   1: one more error on link 3 of GPU 1 from the third reading on; 2: one more
 *                    with every reading
 *   FAKE_NVML_PIDS   "0:4711,1:4712:300": the processes on each GPU, optionally with the MiB of
 *                    each (negative: unknown); a negative process is the error to return
 *   FAKE_NVML_FACTS  "mig=1,p2p=2": results of functions that are missing otherwise, and of p2p */
#include "driver/nvml.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int setting(const char *name, int preset)
{
    const char *text = getenv(name);
    return text ? atoi(text) : preset;
}

/* Reads a value of FAKE_NVML_FACTS; false, and no change, if it is not set. */
static bool fact(const char *name, long long *value)
{
    size_t length = strlen(name);
    for (const char *at = getenv("FAKE_NVML_FACTS"); at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            *value = strtoll(at + length + 1, NULL, 0);
            return true;
        }
    }
    return false;
}

/* If the value is not set, returns the result of a library without the function. */
#define ANSWER(name, to)                                                                           \
    do {                                                                                           \
        long long value_ = 0;                                                                      \
        if (!fact(name, &value_))                                                                  \
            return NVML_FUNCTION_NOT_FOUND;                                                        \
        *(to) = (__typeof__(*(to)))value_;                                                         \
        return NVML_OK;                                                                            \
    } while (0)

static int readings;

EXPORT nvml_return nvmlInitWithFlags(unsigned flags);
EXPORT nvml_return nvmlInitWithFlags(unsigned flags)
{
    long long refusal = NVML_OK; /* "absent=9": the driver is not loaded */
    fact("absent", &refusal);
    readings = 0;
    return (nvml_return)refusal;
}

EXPORT nvml_return nvmlShutdown(void);
EXPORT nvml_return nvmlShutdown(void)
{
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device);
EXPORT nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device)
{
    *device = (nvml_device)(uintptr_t)(index + 1);
    return index < (unsigned)setting("FAKE_CUDA_DEVICES", 2) ? NVML_OK : NVML_NOT_SUPPORTED;
}

EXPORT nvml_return nvmlDeviceGetNvLinkErrorCounter(nvml_device device, unsigned link, int counter,
                                                   unsigned long long *value);
EXPORT nvml_return nvmlDeviceGetNvLinkErrorCounter(nvml_device device, unsigned link, int counter,
                                                   unsigned long long *value)
{
    int grow = setting("FAKE_NVML_GROW", 0);
    *value = counter == 3 ? 4 : 0;
    if ((uintptr_t)device == 2 && link == 3 && counter == 3) {
        readings++;
        *value += grow == 2 ? (unsigned)readings : grow == 1 && readings > 2;
    }
    return link < 18 ? NVML_OK : NVML_NOT_SUPPORTED;
}

EXPORT nvml_return nvmlDeviceGetCount_v2(unsigned *count);
EXPORT nvml_return nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)setting("FAKE_CUDA_DEVICES", 2);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetName(nvml_device device, char *name, unsigned bytes);
EXPORT nvml_return nvmlDeviceGetName(nvml_device device, char *name, unsigned bytes)
{
    long long geforce = 0;
    fact("geforce", &geforce);
    snprintf(name, bytes, geforce ? "Stand-in GeForce" : "Stand-in GPU");
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci);
EXPORT nvml_return nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + (unsigned)(uintptr_t)device - 1;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetP2PStatus(nvml_device a, nvml_device b, int index, int *status);
EXPORT nvml_return nvmlDeviceGetP2PStatus(nvml_device a, nvml_device b, int index, int *status)
{
    long long value = 0;
    if (!fact(index == 3 ? "p2p_atomics" : "p2p", &value))
        fact("p2p", &value);
    *status = (int)value;
    return NVML_OK;
}

/* The GPU at the other end of link number `link`; -1: none. */
static int other_end(nvml_device device, unsigned link)
{
    int me = (int)(uintptr_t)device - 1, a, b, count, length;
    unsigned passed = 0;
    for (const char *text = getenv("FAKE_NVML_LINKS");
         text && sscanf(text, "%d-%d:%d%n", &a, &b, &count, &length) == 3; text++) {
        if (a == me || b == me)
            passed += (unsigned)count;
        if (passed > link)
            return a == me ? b : a;
        text += length;
        if (*text != ',')
            break;
    }
    return -1;
}

EXPORT nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, unsigned link,
                                                       struct nvml_pci *pci);
EXPORT nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device device, unsigned link,
                                                       struct nvml_pci *pci)
{
    int other = other_end(device, link);
    return other < 0 ? NVML_NOT_SUPPORTED
                     : nvmlDeviceGetPciInfo_v3((nvml_device)(uintptr_t)(other + 1), pci);
}

EXPORT nvml_return nvmlDeviceGetNvLinkState(nvml_device device, unsigned link, int *active);
EXPORT nvml_return nvmlDeviceGetNvLinkState(nvml_device device, unsigned link, int *active)
{
    long long down = -1;
    fact("link_down", &down);
    *active = link != down && (!getenv("FAKE_NVML_LINKS") || other_end(device, link) >= 0);
    return link < 18 ? NVML_OK : NVML_NOT_SUPPORTED;
}

EXPORT nvml_return nvmlDeviceGetNvLinkVersion(nvml_device device, unsigned link, unsigned *version);
EXPORT nvml_return nvmlDeviceGetNvLinkVersion(nvml_device device, unsigned link, unsigned *version)
{
    long long told = 6; /* NVLink 4.0 */
    fact("link_version", &told);
    *version = (unsigned)told;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device device, unsigned link,
                                                       int *type);
EXPORT nvml_return nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device device, unsigned link, int *type)
{
    *type = getenv("FAKE_NVML_LINKS") ? 0 : 2; /* a GPU; a switch */
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count,
                                                           struct nvml_process *list);
EXPORT nvml_return nvmlDeviceGetComputeRunningProcesses_v3(nvml_device device, unsigned *count,
                                                           struct nvml_process *list)
{
    unsigned room = *count, gpu;
    int pid;
    long long mib;
    *count = 0;
    for (const char *at = getenv("FAKE_NVML_PIDS"); at; at = strchr(at, ',')) {
        at += *at == ',';
        int fields = sscanf(at, "%u:%d:%lld", &gpu, &pid, &mib);
        if (fields < 2)
            break;
        if (gpu + 1 != (uintptr_t)device || *count == room)
            continue;
        if (pid < 0)
            return -pid;
        list[(*count)++] =
            (struct nvml_process){.pid = (unsigned)pid,
                                  .memory = fields < 3 ? 0
                                            : mib < 0  ? ~0ull
                                                       : (unsigned long long)mib << 20};
    }
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetMigMode(nvml_device device, unsigned *now, unsigned *pending);
EXPORT nvml_return nvmlDeviceGetMigMode(nvml_device device, unsigned *now, unsigned *pending)
{
    ANSWER("mig", now);
}

EXPORT nvml_return nvmlDeviceGetComputeMode(nvml_device device, int *mode);
EXPORT nvml_return nvmlDeviceGetComputeMode(nvml_device device, int *mode)
{
    ANSWER("compute_mode", mode);
}

EXPORT nvml_return nvmlDeviceGetTotalEccErrors(nvml_device device, int type, int counter,
                                               unsigned long long *errors);
EXPORT nvml_return nvmlDeviceGetTotalEccErrors(nvml_device device, int type, int counter,
                                               unsigned long long *errors)
{
    ANSWER("ecc_errors", errors);
}

EXPORT nvml_return nvmlDeviceGetPersistenceMode(nvml_device device, int *mode);
EXPORT nvml_return nvmlDeviceGetPersistenceMode(nvml_device device, int *mode)
{
    ANSWER("persistence", mode);
}

EXPORT nvml_return nvmlDeviceGetVirtualizationMode(nvml_device device, int *mode);
EXPORT nvml_return nvmlDeviceGetVirtualizationMode(nvml_device device, int *mode)
{
    ANSWER("virtualization", mode);
}

EXPORT nvml_return nvmlDeviceGetCurrPcieLinkGeneration(nvml_device device, unsigned *generation);
EXPORT nvml_return nvmlDeviceGetCurrPcieLinkGeneration(nvml_device device, unsigned *generation)
{
    ANSWER("pcie_gen", generation);
}

EXPORT nvml_return nvmlDeviceGetMaxPcieLinkGeneration(nvml_device device, unsigned *generation);
EXPORT nvml_return nvmlDeviceGetMaxPcieLinkGeneration(nvml_device device, unsigned *generation)
{
    ANSWER("pcie_gen_max", generation);
}

EXPORT nvml_return nvmlDeviceGetCurrPcieLinkWidth(nvml_device device, unsigned *lanes);
EXPORT nvml_return nvmlDeviceGetCurrPcieLinkWidth(nvml_device device, unsigned *lanes)
{
    ANSWER("pcie_width", lanes);
}

EXPORT nvml_return nvmlDeviceGetMaxPcieLinkWidth(nvml_device device, unsigned *lanes);
EXPORT nvml_return nvmlDeviceGetMaxPcieLinkWidth(nvml_device device, unsigned *lanes)
{
    ANSWER("pcie_width_max", lanes);
}

EXPORT nvml_return nvmlDeviceGetPcieReplayCounter(nvml_device device, unsigned *count);
EXPORT nvml_return nvmlDeviceGetPcieReplayCounter(nvml_device device, unsigned *count)
{
    ANSWER("replays", count);
}

EXPORT nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device,
                                                             unsigned long long *reasons);
EXPORT nvml_return nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device device,
                                                             unsigned long long *reasons)
{
    ANSWER("clock_reasons", reasons);
}

EXPORT nvml_return nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory);
EXPORT nvml_return nvmlDeviceGetMemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    ANSWER("memory", &memory->total);
}

EXPORT nvml_return nvmlDeviceGetBAR1MemoryInfo(nvml_device device, struct nvml_memory *memory);
EXPORT nvml_return nvmlDeviceGetBAR1MemoryInfo(nvml_device device, struct nvml_memory *memory)
{
    ANSWER("bar1", &memory->total);
}

EXPORT nvml_return nvmlSystemGetConfComputeState(struct nvml_conf_compute *state);
EXPORT nvml_return nvmlSystemGetConfComputeState(struct nvml_conf_compute *state)
{
    ANSWER("conf_compute", &state->feature);
}

EXPORT nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version);
EXPORT nvml_return nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ANSWER("cuda", version);
}

EXPORT nvml_return nvmlSystemGetDriverVersion(char *version, unsigned bytes);
EXPORT nvml_return nvmlSystemGetDriverVersion(char *version, unsigned bytes)
{
    long long major = 0;
    if (!fact("driver", &major))
        return NVML_FUNCTION_NOT_FOUND;
    snprintf(version, bytes, "%lld.1", major);
    return NVML_OK;
}

/* "cliques=1": a clique for each GPU; "cluster=1": part of a domain of several nodes. */
EXPORT nvml_return nvmlDeviceGetGpuFabricInfoV(nvml_device device, struct nvml_fabric *fabric);
EXPORT nvml_return nvmlDeviceGetGpuFabricInfoV(nvml_device device, struct nvml_fabric *fabric)
{
    long long state = 0, degraded = 0, cluster = 0, cliques = 0;
    if (!fact("fabric", &state))
        return NVML_FUNCTION_NOT_FOUND;
    fact("degraded", &degraded);
    fact("cluster", &cluster);
    fact("cliques", &cliques);
    memset(fabric->cluster, 0, sizeof fabric->cluster);
    fabric->cluster[0] = (unsigned char)cluster;
    fabric->status = NVML_OK;
    fabric->clique = cliques ? (unsigned)(uintptr_t)device : 0;
    fabric->state = (unsigned char)state;
    fabric->health = degraded ? 1 : 2;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetRemappedRows(nvml_device device, unsigned *corrected,
                                             unsigned *uncorrected, unsigned *pending,
                                             unsigned *failed);
EXPORT nvml_return nvmlDeviceGetRemappedRows(nvml_device device, unsigned *corrected,
                                             unsigned *uncorrected, unsigned *pending,
                                             unsigned *failed)
{
    long long some = 0, waits = 0, fails = 0;
    if (!fact("rows", &some))
        return NVML_FUNCTION_NOT_FOUND;
    fact("rows_pending", &waits);
    fact("rows_failed", &fails);
    *corrected = 0;
    *uncorrected = (unsigned)some;
    *pending = waits != 0;
    *failed = fails != 0;
    return NVML_OK;
}

/* Of the fields: the speed of a link, the links to a CPU ("c2c=10,c2c_mbps=44712"), and the
 * counters of NVLink 5 by number ("field_208=3"). */
static nvml_return answer_field(struct nvml_field *field)
{
    long long value = 1;
    bool c2c = field->id == NVML_FIELD_C2C_COUNT || field->id == NVML_FIELD_C2C_STATUS ||
               field->id == NVML_FIELD_C2C_SPEED;
    char number[32];
    const char *name = field->id == NVML_FIELD_LINK_SPEED  ? "link_mbps"
                       : field->id == NVML_FIELD_C2C_SPEED ? "c2c_mbps"
                       : c2c                               ? "c2c"
                                                           : number;
    snprintf(number, sizeof number, "field_%u", field->id);
    if (!fact(name, &value))
        return NVML_NOT_SUPPORTED;
    field->type = 1;
    field->value.u = field->id == NVML_FIELD_C2C_STATUS ? 1 : (unsigned)value;
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetFieldValues(nvml_device device, int count,
                                            struct nvml_field *fields);
EXPORT nvml_return nvmlDeviceGetFieldValues(nvml_device device, int count,
                                            struct nvml_field *fields)
{
    for (int i = 0; i < count; i++)
        fields[i].status = answer_field(&fields[i]);
    return NVML_OK;
}

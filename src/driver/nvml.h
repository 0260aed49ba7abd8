/* SPDX-License-Identifier: Apache-2.0 */
/* The NVIDIA management library (NVML) as a table of functions, loaded at run time. Types and
 * numbers are those of NVML 12.9. The binary interface is stable: older libraries lack functions,
 * but their functions are the same. */
#ifndef WEFT_DRIVER_NVML_H
#define WEFT_DRIVER_NVML_H

#include <weft.h>

typedef int nvml_return;
typedef struct nvml_device_s *nvml_device;

enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_FUNCTION_NOT_FOUND = 13, /* also the result for a function that the library lacks */
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_field {
    unsigned id, scope;
    long long timestamp, latency_us;
    int type; /* 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long, 5 int */
    nvml_return status;
    union {
        double d;
        int i;
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
        long long ll;
    } value;
};

struct nvml_fabric { /* version 2 */
    unsigned version;
    unsigned char cluster[16];
    nvml_return status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

struct nvml_process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

struct nvml_conf_compute {
    unsigned environment, feature, dev_tools;
};

/* X(member, symbol, result, parameters). The member is NULL when the library lacks the symbol. */
#define NVML_FUNCTIONS(X)                                                                          \
    X(error_string, nvmlErrorString, const char *, (nvml_return))                                  \
    X(driver_version, nvmlSystemGetDriverVersion, nvml_return, (char *, unsigned))                 \
    X(nvml_version, nvmlSystemGetNVMLVersion, nvml_return, (char *, unsigned))                     \
    X(cuda_version, nvmlSystemGetCudaDriverVersion_v2, nvml_return, (int *))                       \
    X(conf_compute, nvmlSystemGetConfComputeState, nvml_return, (struct nvml_conf_compute *))      \
    X(count, nvmlDeviceGetCount_v2, nvml_return, (unsigned *))                                     \
    X(by_index, nvmlDeviceGetHandleByIndex_v2, nvml_return, (unsigned, nvml_device *))             \
    X(name, nvmlDeviceGetName, nvml_return, (nvml_device, char *, unsigned))                       \
    X(uuid, nvmlDeviceGetUUID, nvml_return, (nvml_device, char *, unsigned))                       \
    X(serial, nvmlDeviceGetSerial, nvml_return, (nvml_device, char *, unsigned))                   \
    X(pci, nvmlDeviceGetPciInfo_v3, nvml_return, (nvml_device, struct nvml_pci *))                 \
    X(minor, nvmlDeviceGetMinorNumber, nvml_return, (nvml_device, unsigned *))                     \
    X(memory, nvmlDeviceGetMemoryInfo, nvml_return, (nvml_device, struct nvml_memory *))           \
    X(bar1, nvmlDeviceGetBAR1MemoryInfo, nvml_return, (nvml_device, struct nvml_memory *))         \
    X(capability, nvmlDeviceGetCudaComputeCapability, nvml_return, (nvml_device, int *, int *))    \
    X(compute_mode, nvmlDeviceGetComputeMode, nvml_return, (nvml_device, int *))                   \
    X(mig, nvmlDeviceGetMigMode, nvml_return, (nvml_device, unsigned *, unsigned *))               \
    X(ecc, nvmlDeviceGetEccMode, nvml_return, (nvml_device, int *, int *))                         \
    X(ecc_errors, nvmlDeviceGetTotalEccErrors, nvml_return,                                        \
      (nvml_device, int, int, unsigned long long *))                                               \
    X(remapped_rows, nvmlDeviceGetRemappedRows, nvml_return,                                       \
      (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *))                               \
    X(persistence, nvmlDeviceGetPersistenceMode, nvml_return, (nvml_device, int *))                \
    X(virtualization, nvmlDeviceGetVirtualizationMode, nvml_return, (nvml_device, int *))          \
    X(fabric, nvmlDeviceGetGpuFabricInfoV, nvml_return, (nvml_device, struct nvml_fabric *))       \
    X(pcie_gen, nvmlDeviceGetCurrPcieLinkGeneration, nvml_return, (nvml_device, unsigned *))       \
    X(pcie_gen_max, nvmlDeviceGetMaxPcieLinkGeneration, nvml_return, (nvml_device, unsigned *))    \
    X(pcie_width, nvmlDeviceGetCurrPcieLinkWidth, nvml_return, (nvml_device, unsigned *))          \
    X(pcie_width_max, nvmlDeviceGetMaxPcieLinkWidth, nvml_return, (nvml_device, unsigned *))       \
    X(pcie_replays, nvmlDeviceGetPcieReplayCounter, nvml_return, (nvml_device, unsigned *))        \
    X(clock, nvmlDeviceGetClockInfo, nvml_return, (nvml_device, int, unsigned *))                  \
    X(clock_max, nvmlDeviceGetMaxClockInfo, nvml_return, (nvml_device, int, unsigned *))           \
    X(clock_reasons, nvmlDeviceGetCurrentClocksThrottleReasons, nvml_return,                       \
      (nvml_device, unsigned long long *))                                                         \
    X(p2p_status, nvmlDeviceGetP2PStatus, nvml_return, (nvml_device, nvml_device, int, int *))     \
    X(ancestor, nvmlDeviceGetTopologyCommonAncestor, nvml_return,                                  \
      (nvml_device, nvml_device, int *))                                                           \
    X(link_state, nvmlDeviceGetNvLinkState, nvml_return, (nvml_device, unsigned, int *))           \
    X(link_version, nvmlDeviceGetNvLinkVersion, nvml_return, (nvml_device, unsigned, unsigned *))  \
    X(link_peer, nvmlDeviceGetNvLinkRemotePciInfo_v2, nvml_return,                                 \
      (nvml_device, unsigned, struct nvml_pci *))                                                  \
    X(link_peer_type, nvmlDeviceGetNvLinkRemoteDeviceType, nvml_return,                            \
      (nvml_device, unsigned, int *))                                                              \
    X(link_errors, nvmlDeviceGetNvLinkErrorCounter, nvml_return,                                   \
      (nvml_device, unsigned, int, unsigned long long *))                                          \
    X(fields, nvmlDeviceGetFieldValues, nvml_return, (nvml_device, int, struct nvml_field *))      \
    X(processes, nvmlDeviceGetComputeRunningProcesses_v3, nvml_return,                             \
      (nvml_device, unsigned *, struct nvml_process *))

enum {
    NVML_FIELD_LINK_COUNT = 91,
    NVML_FIELD_LINK_SPEED = 164,
    NVML_FIELD_C2C_COUNT = 170,
    NVML_FIELD_C2C_STATUS = 171, /* 1: active */
    NVML_FIELD_C2C_SPEED = 172,  /* MB/s */
    /* counters of NVLink 5; scope: the link */
    NVML_FIELD_LINK_MALFORMED = 206,
    NVML_FIELD_LINK_OVERRUNS = 207,
    NVML_FIELD_LINK_RECEIVE = 208,
    NVML_FIELD_LINK_RECEIVE_REMOTE = 209,
    NVML_FIELD_LINK_RECEIVE_GENERAL = 210,
    NVML_FIELD_LINK_INTEGRITY = 211,
    NVML_FIELD_LINK_DISCARDS = 212,
    NVML_FIELD_LINK_FAILED_RECOVERIES = 214,
    NVML_FIELD_LINK_EFFECTIVE = 219,
};

struct nvml {
#define MEMBER(name, symbol, result, parameters) result(*name) parameters;
    NVML_FUNCTIONS(MEMBER)
#undef MEMBER
    void *library;
    nvml_return (*shutdown)(void);
};

/* Loads and initializes NVML. WEFT_ERR_UNSUPPORTED: it is absent or its initialization failed; the
 * message says which. nvml_close() unloads it. */
weft_status nvml_open(struct nvml *nvml);
void nvml_close(struct nvml *nvml);

/* NVML's text for a status. */
const char *nvml_words(const struct nvml *nvml, nvml_return status);

#endif

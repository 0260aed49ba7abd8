/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs: NVIDIA through NVML, AMD through sysfs. An error of NVML becomes the reason of an unknown
 * fact. */
#include "machine/live/live.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "driver/nvml.h"

enum {
    LINKS_MOST = 18, /* limit of NVML 12; link_state fails for links that the GPU lacks */
    C2C_MOST = 32,
    CLOCK_SM = 1,
    ECC_UNCORRECTED = 1,
    ECC_VOLATILE = 0,
    COUNTERS = 5,
    FABRIC_V2 = (int)(sizeof(struct nvml_fabric) | 2u << 24),
};

struct gpu_reader {
    struct machine *machine;
    struct nvml nvml;
    nvml_device devices[64];
    unsigned n;
};

/* Calls a function of NVML; the result is "function not found" when the library lacks it. */
#define CALL_NVML(r, function, ...)                                                                \
    ((r)->nvml.function ? (r)->nvml.function(__VA_ARGS__) : NVML_FUNCTION_NOT_FOUND)

static void set_nvml_number(struct gpu_reader *r, struct machine_number *to, nvml_return status,
                            int64_t value, const char *call)
{
    if (status == NVML_OK)
        number_set(to, value);
    else
        number_unknown(r->machine, to, "%s: %s", call, nvml_words(&r->nvml, status));
}

static void set_nvml_word(struct gpu_reader *r, struct machine_text *to, nvml_return status,
                          const char *words, unsigned which, const char *call)
{
    if (status != NVML_OK) {
        text_unknown(r->machine, to, "%s: %s", call, nvml_words(&r->nvml, status));
        return;
    }
    for (unsigned i = 0; i < which && words; i++)
        words = strchr(words, '|') ? strchr(words, '|') + 1 : NULL;
    if (words)
        *to = (struct machine_text){
            .value = machine_printf(r->machine, "%.*s", (int)strcspn(words, "|"), words)};
    else
        text_unknown(r->machine, to, "%s: this weft does not know the value %u", call, which);
}

static void set_nvml_text(struct gpu_reader *r, struct machine_text *to, nvml_return status,
                          const char *value, const char *call)
{
    if (status == NVML_OK)
        text_set(r->machine, to, value);
    else
        text_unknown(r->machine, to, "%s: %s", call, nvml_words(&r->nvml, status));
}

/* Converts NVML's "00000000:3B:00.0" to the kernel's form, "0000:3b:00.0". */
static void set_bdf(struct machine *machine, struct machine_text *to, const char *bus_id)
{
    unsigned domain, bus, device, function = 0;
    if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3)
        text_unknown(machine, to, "NVML gave the bus id \"%.31s\"", bus_id);
    else
        to->value = machine_printf(machine, "%04x:%02x:%02x.%x", domain, bus, device, function);
}

static void read_gpu_identity(struct gpu_reader *r, nvml_device d, struct machine_gpu *g)
{
    char text[128] = "";
    struct nvml_pci pci = {.bus_id = ""};
    nvml_return status = CALL_NVML(r, name, d, text, sizeof text);
    set_nvml_text(r, &g->name, status, text, "nvmlDeviceGetName");
    text_set(r->machine, &g->vendor, "nvidia");
    status = CALL_NVML(r, uuid, d, text, sizeof text);
    set_nvml_text(r, &g->uuid, status, text, "nvmlDeviceGetUUID");
    status = CALL_NVML(r, serial, d, text, sizeof text);
    set_nvml_text(r, &g->serial, status, text, "nvmlDeviceGetSerial");
    status = CALL_NVML(r, pci, d, &pci);
    if (status == NVML_OK)
        set_bdf(r->machine, &g->bdf, pci.bus_id);
    else
        set_nvml_text(r, &g->bdf, status, "", "nvmlDeviceGetPciInfo_v3");
    unsigned minor = 0;
    status = CALL_NVML(r, minor, d, &minor);
    set_nvml_number(r, &g->minor, status, minor, "nvmlDeviceGetMinorNumber");
}

static void read_memory(struct gpu_reader *r, nvml_device d, struct machine_gpu *g)
{
    struct nvml_memory memory = {0};
    unsigned long long errors = 0;
    int now = 0, pending;
    nvml_return status = CALL_NVML(r, memory, d, &memory);
    set_nvml_number(r, &g->memory_bytes, status, (int64_t)memory.total, "nvmlDeviceGetMemoryInfo");
    status = CALL_NVML(r, bar1, d, &memory);
    set_nvml_number(r, &g->bar1_bytes, status, (int64_t)memory.total,
                    "nvmlDeviceGetBAR1MemoryInfo");
    status = CALL_NVML(r, ecc, d, &now, &pending);
    set_nvml_number(r, &g->ecc, status, now != 0, "nvmlDeviceGetEccMode");
    status = CALL_NVML(r, ecc_errors, d, ECC_UNCORRECTED, ECC_VOLATILE, &errors);
    set_nvml_number(r, &g->ecc_uncorrected, status, (int64_t)errors, "nvmlDeviceGetTotalEccErrors");
}

static void read_rows(struct gpu_reader *r, nvml_device d, struct machine_gpu *g)
{
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    const char *call = "nvmlDeviceGetRemappedRows";
    nvml_return status =
        CALL_NVML(r, remapped_rows, d, &corrected, &uncorrected, &pending, &failed);
    set_nvml_number(r, &g->rows_corrected, status, corrected, call);
    set_nvml_number(r, &g->rows_uncorrected, status, uncorrected, call);
    set_nvml_number(r, &g->rows_pending, status, pending != 0, call);
    set_nvml_number(r, &g->rows_failed, status, failed != 0, call);
}

static void read_modes(struct gpu_reader *r, nvml_device d, struct machine_gpu *g)
{
    int major = 0, minor = 0, mode = 0;
    unsigned now = 0, pending;
    nvml_return status = CALL_NVML(r, capability, d, &major, &minor);
    set_nvml_number(r, &g->cc_major, status, major, "nvmlDeviceGetCudaComputeCapability");
    set_nvml_number(r, &g->cc_minor, status, minor, "nvmlDeviceGetCudaComputeCapability");
    status = CALL_NVML(r, compute_mode, d, &mode);
    /* value 1 was exclusive-thread, which NVIDIA has removed */
    set_nvml_word(r, &g->compute_mode, status, "default|exclusive|prohibited|exclusive",
                  (unsigned)mode, "nvmlDeviceGetComputeMode");
    status = CALL_NVML(r, mig, d, &now, &pending);
    if (status == NVML_NOT_SUPPORTED)
        number_set(&g->mig, 0);
    else
        set_nvml_number(r, &g->mig, status, now != 0, "nvmlDeviceGetMigMode");
    status = CALL_NVML(r, persistence, d, &mode);
    set_nvml_number(r, &g->persistence, status, mode != 0, "nvmlDeviceGetPersistenceMode");
    status = CALL_NVML(r, virtualization, d, &mode);
    set_nvml_word(r, &g->virtualization, status, "none|passthrough|vgpu|host-vgpu|host-vsga",
                  (unsigned)mode, "nvmlDeviceGetVirtualizationMode");
}

static void read_fabric(struct gpu_reader *r, nvml_device d, struct machine_gpu *g)
{
    struct nvml_fabric fabric = {.version = FABRIC_V2};
    const char *call = "nvmlDeviceGetGpuFabricInfoV";
    nvml_return status = CALL_NVML(r, fabric, d, &fabric);
    if (status == NVML_NOT_SUPPORTED) {
        text_set(r->machine, &g->fabric_state, "not-supported");
        return;
    }
    set_nvml_word(r, &g->fabric_state, status, "not-supported|not-started|in-progress|completed",
                  fabric.state, call);
    set_nvml_number(r, &g->fabric_clique, status, fabric.clique, call);
    set_nvml_number(r, &g->fabric_status, status, fabric.status, call);
    if (status == NVML_OK && (fabric.health & 3)) /* 1 true, 2 false, 0 unknown */
        number_set(&g->fabric_degraded, (fabric.health & 3) == 1);
    char text[33];
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", fabric.cluster[i]);
    set_nvml_text(r, &g->fabric_cluster, status, text, call);
}

static void read_speeds(struct gpu_reader *r, nvml_device d, struct machine_gpu *g)
{
    unsigned v = 0;
    unsigned long long reasons = 0;
    nvml_return status = CALL_NVML(r, pcie_gen, d, &v);
    set_nvml_number(r, &g->pcie_gen, status, v, "nvmlDeviceGetCurrPcieLinkGeneration");
    status = CALL_NVML(r, pcie_gen_max, d, &v);
    set_nvml_number(r, &g->pcie_gen_max, status, v, "nvmlDeviceGetMaxPcieLinkGeneration");
    status = CALL_NVML(r, pcie_width, d, &v);
    set_nvml_number(r, &g->pcie_width, status, v, "nvmlDeviceGetCurrPcieLinkWidth");
    status = CALL_NVML(r, pcie_width_max, d, &v);
    set_nvml_number(r, &g->pcie_width_max, status, v, "nvmlDeviceGetMaxPcieLinkWidth");
    status = CALL_NVML(r, pcie_replays, d, &v);
    set_nvml_number(r, &g->pcie_replays, status, v, "nvmlDeviceGetPcieReplayCounter");
    status = CALL_NVML(r, clock, d, CLOCK_SM, &v);
    set_nvml_number(r, &g->sm_mhz, status, v, "nvmlDeviceGetClockInfo");
    status = CALL_NVML(r, clock_max, d, CLOCK_SM, &v);
    set_nvml_number(r, &g->sm_mhz_max, status, v, "nvmlDeviceGetMaxClockInfo");
    status = CALL_NVML(r, clock_reasons, d, &reasons);
    set_nvml_number(r, &g->clock_reasons, status, (int64_t)reasons,
                    "nvmlDeviceGetCurrentClocksThrottleReasons");
}

/* --- NVLink ----------------------------------------------------------------------------------- */

static void read_link_peer(struct gpu_reader *r, nvml_device d, unsigned number,
                           struct machine_link *link)
{
    struct nvml_pci pci = {.bus_id = ""};
    int type = 0;
    nvml_return status = CALL_NVML(r, link_peer_type, d, number, &type);
    set_nvml_word(r, &link->peer, status, "gpu|cpu|switch", (unsigned)type,
                  "nvmlDeviceGetNvLinkRemoteDeviceType");
    status = CALL_NVML(r, link_peer, d, number, &pci);
    if (status == NVML_OK)
        set_bdf(r->machine, &link->peer_bdf, pci.bus_id);
    else
        set_nvml_text(r, &link->peer_bdf, status, "", "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    for (size_t i = 0; link->peer_bdf.value && i < r->machine->n_gpus; i++)
        if (text_is(r->machine->gpus[i].bdf, link->peer_bdf.value))
            link->peer_gpu = r->machine->gpus[i].index;
}

static void read_link_errors(struct gpu_reader *r, nvml_device d, unsigned number,
                             struct machine_link *link)
{
    unsigned long long count[COUNTERS] = {0};
    nvml_return status[COUNTERS];
    for (int i = 0; i < COUNTERS; i++)
        status[i] = CALL_NVML(r, link_errors, d, number, i, &count[i]);
    const char *call = "nvmlDeviceGetNvLinkErrorCounter";
    set_nvml_number(r, &link->replays, status[0], (int64_t)count[0], call);
    set_nvml_number(r, &link->recoveries, status[1], (int64_t)count[1], call);
    set_nvml_number(r, &link->crc_errors, status[2] ? status[2] : status[3],
                    (int64_t)(count[2] + count[3]), call);
    set_nvml_number(r, &link->ecc_errors, status[4], (int64_t)count[4], call);
}

/* NVML numbers versions 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0 as 1 ... 7. */
static int64_t link_generation(unsigned version)
{
    static const int generation[] = {0, 1, 2, 2, 3, 3, 4, 5};
    return version < sizeof generation / sizeof generation[0] ? generation[version]
                                                              : (int64_t)version - 2;
}

static int64_t field_number(const struct nvml_field *field)
{
    return field->type == 0   ? (int64_t)field->value.d
           : field->type == 1 ? (int64_t)field->value.u
           : field->type == 5 ? (int64_t)field->value.i
                              : (int64_t)field->value.ull;
}

/* Sum of NVML fields; unknown when the driver has none of them. */
static void sum_fields(struct gpu_reader *r, struct machine_number *to,
                       const struct nvml_field *fields, size_t n, nvml_return status)
{
    int64_t sum = 0;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (status == NVML_OK && fields[i].status == NVML_OK) {
            sum += field_number(&fields[i]);
            any = true;
        }
    }
    if (any)
        number_set(to, sum);
    else
        number_unknown(r->machine, to, "NVML field %u: %s", fields[0].id,
                       nvml_words(&r->nvml, status ? status : fields[0].status));
}

/* NVLink 5 has other error counters than earlier generations. */
static void read_link_counters(struct gpu_reader *r, nvml_device d, unsigned number,
                               struct machine_link *link)
{
    static const unsigned ids[] = {
        NVML_FIELD_LINK_MALFORMED,       NVML_FIELD_LINK_OVERRUNS,
        NVML_FIELD_LINK_RECEIVE,         NVML_FIELD_LINK_RECEIVE_REMOTE,
        NVML_FIELD_LINK_RECEIVE_GENERAL, NVML_FIELD_LINK_INTEGRITY,
        NVML_FIELD_LINK_DISCARDS,        NVML_FIELD_LINK_FAILED_RECOVERIES,
        NVML_FIELD_LINK_EFFECTIVE};
    enum { N = sizeof ids / sizeof ids[0], RECEIVING = 5 };
    struct nvml_field fields[N];
    if (number_or(link->gen, 0) < 5)
        return;
    for (int i = 0; i < N; i++)
        fields[i] = (struct nvml_field){.id = ids[i], .scope = number};
    nvml_return status = CALL_NVML(r, fields, d, N, fields);
    sum_fields(r, &link->receive_errors, fields, RECEIVING, status);
    sum_fields(r, &link->integrity_errors, fields + RECEIVING, 1, status);
    sum_fields(r, &link->discards, fields + RECEIVING + 1, 1, status);
    sum_fields(r, &link->failed_recoveries, fields + RECEIVING + 2, 1, status);
    sum_fields(r, &link->effective_errors, fields + RECEIVING + 3, 1, status);
}

static void read_nvlink(struct gpu_reader *r, nvml_device d, int64_t gpu, unsigned number,
                        bool active)
{
    struct machine_link *link = machine_add_link(r->machine);
    unsigned version = 0;
    text_set(r->machine, &link->kind, "nvlink");
    number_set(&link->gpu, gpu);
    number_set(&link->link, number);
    number_set(&link->active, active);
    nvml_return status = CALL_NVML(r, link_version, d, number, &version);
    set_nvml_number(r, &link->gen, status, link_generation(version), "nvmlDeviceGetNvLinkVersion");
    if (link->gen.known && link->gen.value < 1)
        number_unknown(r->machine, &link->gen, "NVML reports version %u", version);
    read_link_peer(r, d, number, link);
    struct nvml_field speed = {.id = NVML_FIELD_LINK_SPEED, .scope = number};
    status = CALL_NVML(r, fields, d, 1, &speed);
    status = status ? status : speed.status;
    int64_t mbps = status ? 0 : field_number(&speed);
    if (status == NVML_OK && mbps <= 0)
        number_unknown(r->machine, &link->mbps, "the driver reports a speed of %lld MB/s",
                       (long long)mbps);
    else
        set_nvml_number(r, &link->mbps, status, mbps, "NVML field 164 (link speed)");
    read_link_errors(r, d, number, link);
    read_link_counters(r, d, number, link);
}

static void read_links(struct gpu_reader *r, nvml_device d, struct machine_gpu *g)
{
    int64_t gpu = g->index.value, links = 0;
    struct nvml_field count = {.id = NVML_FIELD_LINK_COUNT};
    for (unsigned number = 0; number < LINKS_MOST; number++) {
        int active = 0;
        if (CALL_NVML(r, link_state, d, number, &active) != NVML_OK)
            continue;
        read_nvlink(r, d, gpu, number, active != 0);
        links++;
    }
    nvml_return status = CALL_NVML(r, fields, d, 1, &count);
    status = status ? status : count.status;
    number_set(&g->nvlinks, status ? links : field_number(&count));
}

/* Links of a GPU to its CPU (Grace), numbered after its NVLinks; drivers before 525 have none of
 * these fields. */
static void read_cpu_links(struct gpu_reader *r, nvml_device d, const struct machine_gpu *g)
{
    struct nvml_field count = {.id = NVML_FIELD_C2C_COUNT};
    nvml_return status = CALL_NVML(r, fields, d, 1, &count);
    int64_t gpu = g->index.value, first = number_or(g->nvlinks, 0);
    int64_t n = status || count.status ? 0 : field_number(&count);
    for (int64_t i = 0; i < n && i < C2C_MOST; i++) {
        struct nvml_field of[] = {{.id = NVML_FIELD_C2C_STATUS, .scope = (unsigned)i},
                                  {.id = NVML_FIELD_C2C_SPEED, .scope = (unsigned)i}};
        struct machine_link *link = machine_add_link(r->machine);
        status = CALL_NVML(r, fields, d, 2, of);
        text_set(r->machine, &link->kind, "c2c");
        text_set(r->machine, &link->peer, "cpu");
        number_set(&link->gpu, gpu);
        number_set(&link->link, first + i);
        number_set(&link->gen, 1);
        set_nvml_number(r, &link->active, status ? status : of[0].status, field_number(&of[0]) == 1,
                        "NVML field 171 (C2C link status)");
        int64_t mbps = status || of[1].status ? 0 : field_number(&of[1]);
        if (mbps > 0)
            number_set(&link->mbps, mbps);
        else
            number_unknown(r->machine, &link->mbps, "NVML field 172 (C2C link speed): %s",
                           nvml_words(&r->nvml, status ? status : of[1].status));
    }
}

/* The NUMA node of the memory of a GPU that is coherent with its CPU. The file exists only where
 * the driver has made the memory a node of the system. */
static void read_memory_node(struct machine *machine, const struct machine_source *source,
                             struct machine_gpu *g)
{
    char line[64];
    long node;
    struct live_path path =
        live_path(source, "proc/driver/nvidia/gpus/%s/numa_status", text_or(g->bdf, "?"));
    if (live_line(path.text, line, sizeof line) && sscanf(line, "Node: %ld", &node) == 1 &&
        node >= 0)
        number_set(&g->memory_numa, node);
    else
        number_unknown(machine, &g->memory_numa, "%s has no node", path.text);
}

/* --- pairs ------------------------------------------------------------------------------------ */

static void read_pair(struct gpu_reader *r, unsigned a, unsigned b)
{
    struct machine_p2p *pair = machine_add_p2p(r->machine);
    struct machine_text *const to[] = {&pair->read, &pair->write, &pair->nvlink, &pair->atomics,
                                       &pair->pci};
    number_set(&pair->a, a);
    number_set(&pair->b, b);
    for (int index = 0; index < 5; index++) {
        int value = 0;
        nvml_return status = CALL_NVML(r, p2p_status, r->devices[a], r->devices[b], index, &value);
        set_nvml_word(r, to[index], status, P2P_WORDS, (unsigned)value, "nvmlDeviceGetP2PStatus");
    }
    int level = 0;
    nvml_return status = CALL_NVML(r, ancestor, r->devices[a], r->devices[b], &level);
    set_nvml_word(r, &pair->level, status, "internal|single|multiple|hostbridge|node|system",
                  level % 10 ? 99 : (unsigned)level / 10, "nvmlDeviceGetTopologyCommonAncestor");
}

static void read_versions(struct gpu_reader *r)
{
    struct machine_driver *d = &r->machine->drivers;
    char text[128] = "";
    int cuda = 0;
    struct nvml_conf_compute cc = {0};
    nvml_return status = CALL_NVML(r, driver_version, text, sizeof text);
    set_nvml_text(r, &d->driver, status, text, "nvmlSystemGetDriverVersion");
    status = CALL_NVML(r, nvml_version, text, sizeof text);
    set_nvml_text(r, &d->nvml, status, text, "nvmlSystemGetNVMLVersion");
    status = CALL_NVML(r, cuda_version, &cuda);
    set_nvml_number(r, &d->cuda, status, cuda, "nvmlSystemGetCudaDriverVersion_v2");
    status = CALL_NVML(r, conf_compute, &cc);
    if (status == NVML_NOT_SUPPORTED)
        number_set(&d->conf_compute, 0);
    else
        set_nvml_number(r, &d->conf_compute, status, cc.feature != 0,
                        "nvmlSystemGetConfComputeState");
}

static void read_nvidia(struct gpu_reader *r, const struct machine_source *source)
{
    unsigned n = 0;
    read_versions(r);
    if (CALL_NVML(r, count, &n) != NVML_OK)
        return;
    for (unsigned i = 0; i < n && r->n < sizeof r->devices / sizeof r->devices[0]; i++)
        if (CALL_NVML(r, by_index, i, &r->devices[r->n]) == NVML_OK)
            r->n++;
    for (unsigned i = 0; i < r->n; i++) {
        struct machine_gpu *g = machine_add_gpu(r->machine);
        number_set(&g->index, i);
        read_gpu_identity(r, r->devices[i], g);
        read_memory(r, r->devices[i], g);
        read_memory_node(r->machine, source, g);
        read_rows(r, r->devices[i], g);
        read_modes(r, r->devices[i], g);
        read_fabric(r, r->devices[i], g);
        read_speeds(r, r->devices[i], g);
        const char *later = "reported by the CUDA driver, which this command does not start";
        number_unknown(r->machine, &g->dmabuf, "%s", later);
        number_unknown(r->machine, &g->rdma, "%s", later);
        number_unknown(r->machine, &g->vmm, "%s", later);
        number_unknown(r->machine, &g->multicast, "%s", later);
    }
    for (unsigned i = 0; i < r->n; i++) {
        read_links(r, r->devices[i], &r->machine->gpus[i]);
        read_cpu_links(r, r->devices[i], &r->machine->gpus[i]);
    }
    for (unsigned a = 0; a < r->n; a++)
        for (unsigned b = 0; b < r->n; b++)
            if (a != b)
                read_pair(r, a, b);
}

/* --- AMD -------------------------------------------------------------------------------------- */

static void read_amd(struct machine *machine, const struct machine_source *source)
{
    for (size_t i = 0; i < machine->n_pci; i++) {
        const struct machine_pci *pci = &machine->pci[i];
        if (!number_is(pci->vendor, 0x1002) || !text_is(pci->driver, "amdgpu"))
            continue;
        struct machine_gpu *g = machine_add_gpu(machine);
        const char *bdf = pci->bdf.value;
        const char *base = "sys/bus/pci/devices";
        number_set(&g->index, (int64_t)machine->n_gpus - 1);
        text_set(machine, &g->vendor, "amd");
        g->bdf = pci->bdf;
        live_text(machine, &g->name, live_path(source, "%s/%s/product_name", base, bdf).text);
        live_text(machine, &g->uuid, live_path(source, "%s/%s/unique_id", base, bdf).text);
        live_number(machine, &g->memory_bytes,
                    live_path(source, "%s/%s/mem_info_vram_total", base, bdf).text);
        live_number(machine, &g->bar1_bytes,
                    live_path(source, "%s/%s/mem_info_vis_vram_total", base, bdf).text);
        g->pcie_gen = pci->gen;
        g->pcie_gen_max = pci->gen_max;
        g->pcie_width = pci->width;
        g->pcie_width_max = pci->width_max;
    }
}

void live_gpu(struct machine *machine, const struct machine_source *source)
{
    struct gpu_reader r = {.machine = machine};
    if ((!*source->root || source->here) && nvml_open(&r.nvml) == WEFT_OK) {
        read_nvidia(&r, source);
        nvml_close(&r.nvml);
    } else {
        const char *why = *source->root && !source->here ? "read from a directory, without a driver"
                                                         : weft_last_error();
        text_unknown(machine, &machine->drivers.driver, "%s", why);
        text_unknown(machine, &machine->drivers.nvml, "%s", why);
        number_unknown(machine, &machine->drivers.cuda, "%s", why);
    }
    read_amd(machine, source);
}

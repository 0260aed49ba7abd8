/* SPDX-License-Identifier: Apache-2.0 */
/* Imports hwloc's XML of lstopo, versions 1 to 3: nested <object type=...> with <info name value/>.
 * This file parses it itself, because libhwloc (2.9) does not check damaged files and aborts the
 * process on some of them. The file has one figure per PCIe link, lanes times rate, so generation
 * and width are unknown. Version 3 has the facts of the operating system in <topology>, where the
 * others have them in the Machine, and a bit mask of kinds for each OSDev. */
#include "machine/import/import.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "machine/facts.h"

enum {
    HWLOC_VERSION_MOST = 3,
    WORDS_MOST = IMPORT_CPUS_MOST / 32,
    CLASS_NVME = 0x0108,
};

/* Kinds of an OSDev, as bits of version 3. */
enum osdev { OSDEV_STORAGE = 1, OSDEV_NETWORK = 16, OSDEV_RDMA = 32 };

/* A set of CPUs or nodes. */
struct import_set {
    uint32_t *words;
    size_t n;
};

struct hwloc_reader {
    struct import *im;
    struct import_set *packages; /* [package]: its CPUs */
    bool distances;              /* the file has a matrix of distances that is ignored */
    const char *chip;            /* of an Arm CPU; NULL when the file does not have it */
    int version;                 /* of the format */
};

/* The current position in the object tree. */
struct place {
    const struct xml_node *object; /* nearest enclosing object that is no I/O object */
    const char *root;              /* root complex, NULL when unknown */
    const char *parent;            /* address of the bridge above, "" at a root complex */
    const char *kind;              /* kind of that bridge */
    const struct machine_pci *pci; /* copy of the PCI device that an OSDev belongs to */
};

static bool is_type(const struct xml_node *node, const char *type)
{
    const char *value = xml_is(node, "object") ? xml_value(node, "type") : NULL;
    return value && strcmp(value, type) == 0;
}

static const char *info_of(const struct xml_node *node, const char *name)
{
    for (const struct xml_node *at = node->first; at; at = at->next)
        if (xml_is(at, "info") && xml_value(at, "name") && strcmp(xml_value(at, "name"), name) == 0)
            return xml_value(at, "value");
    return NULL;
}

static void set_hwloc_text(struct machine *m, struct machine_text *to, const char *value)
{
    if (value && *value)
        text_set(m, to, value);
}

static void set_hwloc_number(struct machine_number *to, const char *value, int64_t low,
                             int64_t high)
{
    int64_t number;
    if (value && import_number(value, low, high, &number))
        number_set(to, number);
}

static weft_status read_os_index(const struct hwloc_reader *r, const struct xml_node *node,
                                 int64_t *index)
{
    const char *value = xml_value(node, "os_index");
    if (!value)
        return import_fail(r->im, node->line, "%s has no os_index", xml_value(node, "type"));
    if (!import_number(value, 0, 4095, index))
        return import_fail(r->im, node->line,
                           "%s os_index=\"%.40s\": expected a whole number from 0 to 4095",
                           xml_value(node, "type"), value);
    return WEFT_OK;
}

/* --- sets ------------------------------------------------------------------------------------- */

/* Parses "0x000000ff,,0x1": words of 32 bits, highest first; an empty word is 0. False for any
 * other text, and for an infinite set. */
static bool parse_set(struct machine *m, const char *text, struct import_set *set)
{
    size_t n = 1;
    for (const char *at = text; *at; at++)
        n += *at == ',';
    if (n > WORDS_MOST)
        return false;
    *set = (struct import_set){.words = machine_alloc(m, n * sizeof *set->words), .n = n};
    for (size_t i = n; i-- > 0;) {
        size_t length = strcspn(text, ",");
        char *end = NULL;
        if (length > 10 || (length && strncmp(text, "0x", 2) != 0))
            return false;
        set->words[i] = length ? (uint32_t)strtoul(text, &end, 16) : 0;
        if (length && end != text + length)
            return false;
        text += length + 1;
    }
    return true;
}

static weft_status read_set_attribute(const struct hwloc_reader *r, const struct xml_node *node,
                                      const char *key, struct import_set *set)
{
    const char *value = xml_value(node, key);
    *set = (struct import_set){.words = NULL};
    if (value && !parse_set(r->im->machine, value, set))
        return import_fail(r->im, node->line, "%s %s=\"%.60s\" is not a set such as 0x000000ff,0x0",
                           xml_value(node, "type"), key, value);
    return WEFT_OK;
}

static bool share_any(const struct import_set *a, const struct import_set *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (a->words[i] & b->words[i])
            return true;
    return false;
}

/* The only member of a set; -1 when it has none or several. */
static int64_t only_of(const struct import_set *set)
{
    int64_t only = -1;
    for (size_t i = 0; i < 32 * set->n; i++) {
        if (!(set->words[i / 32] >> i % 32 & 1))
            continue;
        if (only >= 0)
            return -1;
        only = (int64_t)i;
    }
    return only;
}

/* --- packages and nodes ----------------------------------------------------------------------- */

static int64_t count_below(const struct xml_node *node, const char *type)
{
    int64_t n = is_type(node, type);
    for (const struct xml_node *at = node->first; at; at = at->next)
        n += count_below(at, type);
    return n;
}

static weft_status read_hwloc_package(struct hwloc_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    struct machine_system *s = &m->system;
    struct machine_package *p = machine_add_package(m);
    int64_t cores = count_below(node, "Core"), threads = count_below(node, "PU");
    number_set(&p->index, (int64_t)m->n_packages - 1);
    if (cores)
        number_set(&p->cores, cores);
    if (threads)
        number_set(&p->threads, threads);
    set_hwloc_text(m, &s->cpu_vendor, info_of(node, "CPUVendor"));
    set_hwloc_text(m, &s->cpu_model, info_of(node, "CPUModel"));
    set_hwloc_number(&s->cpu_family, info_of(node, "CPUFamilyNumber"), 0, 4096);
    set_hwloc_number(&s->cpu_model_number, info_of(node, "CPUModelNumber"), 0, 65536);
    int64_t implementer, part;
    if (info_of(node, "CPUImplementer") && info_of(node, "CPUPart") &&
        import_number(info_of(node, "CPUImplementer"), 0, 255, &implementer) &&
        import_number(info_of(node, "CPUPart"), 0, 4095, &part))
        fact_name_arm(m, implementer, part, r->chip);
    struct import_set *grown = machine_alloc(m, m->n_packages * sizeof *grown);
    if (r->packages)
        memcpy(grown, r->packages, (m->n_packages - 1) * sizeof *grown);
    r->packages = grown;
    return read_set_attribute(r, node, "cpuset", &grown[m->n_packages - 1]);
}

static weft_status read_hwloc_node(struct hwloc_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    struct import_set cpus;
    int64_t index = 0;
    weft_status status = read_os_index(r, node, &index);
    if (status)
        return status;
    if (machine_find_numa(m, index))
        return import_fail(r->im, node->line, "NUMANode %" PRId64 " appears twice", index);
    status = read_set_attribute(r, node, "cpuset", &cpus);
    if (status)
        return status;
    struct machine_numa *numa = machine_add_numa(m);
    number_set(&numa->index, index);
    set_hwloc_number(&numa->memory_bytes, xml_value(node, "local_memory"), 0, MACHINE_MANY);
    const char *list = import_cpu_list(m, cpus.words, cpus.n);
    if (*list)
        text_set(m, &numa->cpus, list);
    int64_t package = -1;
    for (size_t i = 0; r->packages && i < m->n_packages; i++)
        if (share_any(&cpus, &r->packages[i]))
            package = package < 0 ? (int64_t)i : INT64_MAX; /* INT64_MAX: several packages */
    if (package >= 0 && package < INT64_MAX)
        number_set(&numa->package, package);
    return WEFT_OK;
}

/* --- PCI -------------------------------------------------------------------------------------- */

/* Sets the NUMA node of a device when the enclosing object has exactly one node. */
static weft_status set_numa_node(const struct hwloc_reader *r, const struct place *place,
                                 struct machine_pci *pci)
{
    struct import_set nodes;
    weft_status status = read_set_attribute(r, place->object, "nodeset", &nodes);
    if (!status && only_of(&nodes) >= 0)
        number_set(&pci->numa, only_of(&nodes));
    return status;
}

/* "0302 [10de:2330] [10de:16c1] a1" */
static void parse_pci_ids(const char *text, struct machine_pci *pci)
{
    unsigned class, vendor, device;
    int end = 0;
    if (!text || sscanf(text, "%4x [%4x:%4x]%n", &class, &vendor, &device, &end) != 3 || !end)
        return;
    number_set(&pci->class, class << 8);
    number_set(&pci->vendor, vendor);
    number_set(&pci->device, device);
}

static weft_status add_hwloc_pci(struct hwloc_reader *r, const struct xml_node *node,
                                 const struct place *place, const char *kind,
                                 struct machine_pci *copy)
{
    struct machine *m = r->im->machine;
    const char *busid = xml_value(node, "pci_busid");
    char address[IMPORT_ADDRESS];
    if (!busid || !import_address(busid, address))
        return import_fail(r->im, node->line,
                           "%s pci_busid=\"%.40s\": expected a PCI address such as 0000:3b:00.0",
                           xml_value(node, "type"), busid ? busid : "");
    if (machine_find_pci(m, address))
        return import_fail(r->im, node->line, "pci_busid=\"%s\" appears twice", address);
    if (m->n_pci >= IMPORT_DEVICES_MOST)
        return import_fail(r->im, node->line, "there are more than %d PCI devices",
                           IMPORT_DEVICES_MOST);
    struct machine_pci pci = {.class = {0}};
    text_set(m, &pci.bdf, address);
    text_set(m, &pci.parent, place->parent);
    text_set(m, &pci.kind, kind);
    if (place->root)
        text_set(m, &pci.root, place->root);
    else
        text_unknown(m, &pci.root, "the file has no bridges");
    parse_pci_ids(xml_value(node, "pci_type"), &pci);
    weft_status status = set_numa_node(r, place, &pci);
    *machine_add_pci(m) = pci;
    *copy = pci;
    return status;
}

/* True for a compute GPU; false for a display device of the board controller or of the CPU. */
static bool is_gpu(const struct machine_pci *pci)
{
    int64_t class = number_or(pci->class, 0) >> 8, vendor = number_or(pci->vendor, 0);
    bool display = class >> 8 == 0x03, accelerator = class == 0x1200;
    return (vendor == 0x10de && display) || (vendor == 0x1002 && (display || accelerator)) ||
           (vendor == 0x8086 && class == 0x0380);
}

static void add_hwloc_gpu(struct hwloc_reader *r, const struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    struct machine_gpu *gpu = machine_add_gpu(m);
    gpu->bdf = pci->bdf;
    import_name_gpu(m, gpu, number_or(pci->vendor, 0), number_or(pci->device, -1));
}

/* --- OS devices ------------------------------------------------------------------------------- */

static struct machine_gpu *gpu_of(struct machine *m, const struct machine_pci *pci)
{
    for (size_t i = 0; pci && i < m->n_gpus; i++)
        if (text_is(m->gpus[i].bdf, pci->bdf.value))
            return &m->gpus[i];
    return NULL;
}

/* Reads the facts of a GPU that hwloc got from NVML, CUDA or ROCm. The index is NVML's or ROCm's.
 */
static weft_status read_hwloc_gpu(struct hwloc_reader *r, const struct xml_node *node,
                                  const char *name, struct machine_gpu *gpu)
{
    struct machine *m = r->im->machine;
    int64_t index, kib;
    bool numbered = strncmp(name, "nvml", 4) == 0 || strncmp(name, "rsmi", 4) == 0;
    set_hwloc_text(m, &gpu->name, info_of(node, "GPUModel"));
    set_hwloc_text(m, &gpu->uuid, info_of(node, "NVIDIAUUID"));
    set_hwloc_text(m, &gpu->serial, info_of(node, "NVIDIASerial"));
    const char *size = info_of(node, "CUDAGlobalMemorySize");
    if (size && import_number(size, 1, MACHINE_MANY >> 10, &kib))
        number_set(&gpu->memory_bytes, kib << 10);
    if (!numbered || !import_number(name + 4, 0, 1023, &index))
        return WEFT_OK;
    if (machine_find_gpu(m, index))
        return import_fail(r->im, node->line, "%s appears twice", name);
    number_set(&gpu->index, index);
    return WEFT_OK;
}

static void read_hwloc_ports(struct machine *m, const struct xml_node *node, const char *nic)
{
    static const char *const states[] = {"", "down", "init", "armed", "active"};
    for (int number = 1; number <= 8; number++) {
        char key[32];
        snprintf(key, sizeof key, "Port%dState", number);
        const char *state = info_of(node, key);
        if (!state)
            continue;
        struct machine_port *port = machine_add_port(m);
        text_set(m, &port->nic, nic);
        number_set(&port->port, number);
        if (*state >= '1' && *state <= '4')
            text_set(m, &port->state, states[*state - '0']);
        snprintf(key, sizeof key, "Port%dLID", number);
        set_hwloc_number(&port->lid, info_of(node, key), 0, 65535);
    }
}

static weft_status read_hwloc_nic(struct hwloc_reader *r, const struct xml_node *node,
                                  const char *name, const struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    if (machine_find_nic(m, name))
        return import_fail(r->im, node->line, "RDMA device %.60s appears twice", name);
    struct machine_nic *nic = machine_add_nic(m);
    text_set(m, &nic->name, name);
    if (pci)
        nic->bdf = pci->bdf;
    set_hwloc_text(m, &nic->guid, info_of(node, "NodeGUID"));
    read_hwloc_ports(m, node, name);
    return WEFT_OK;
}

static weft_status read_hwloc_disk(struct hwloc_reader *r, const struct xml_node *node,
                                   const char *name, const struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    const char *subtype = xml_value(node, "subtype");
    int64_t kib;
    if (subtype && strcmp(subtype, "Disk") != 0)
        return WEFT_OK;
    if (machine_find_disk(m, name))
        return import_fail(r->im, node->line, "disk %.60s appears twice", name);
    struct machine_disk *disk = machine_add_disk(m);
    text_set(m, &disk->name, name);
    set_hwloc_text(m, &disk->model, info_of(node, "Model"));
    set_hwloc_text(m, &disk->serial, info_of(node, "SerialNumber"));
    if (info_of(node, "Size") && import_number(info_of(node, "Size"), 0, MACHINE_MANY >> 10, &kib))
        number_set(&disk->bytes, kib << 10);
    if (!pci)
        return WEFT_OK;
    disk->bdf = pci->bdf;
    if (number_or(pci->class, 0) >> 8 == CLASS_NVME) {
        text_set(m, &disk->kind, "nvme");
        text_set(m, &disk->transport, "pcie");
    }
    return WEFT_OK;
}

static weft_status read_hwloc_interface(struct hwloc_reader *r, const struct xml_node *node,
                                        const char *name, const struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    for (size_t i = 0; i < m->n_interfaces; i++)
        if (text_is(m->interfaces[i].name, name))
            return import_fail(r->im, node->line, "interface %.60s appears twice", name);
    struct machine_netif *interface = machine_add_netif(m);
    text_set(m, &interface->name, name);
    set_hwloc_text(m, &interface->mac, info_of(node, "Address"));
    if (pci)
        interface->bdf = pci->bdf;
    return WEFT_OK;
}

static weft_status read_osdev(struct hwloc_reader *r, const struct xml_node *node,
                              const struct machine_pci *pci)
{
    const char *name = xml_value(node, "name"), *type = xml_value(node, "osdev_type");
    int64_t kind;
    if (!name || !*name)
        return import_fail(r->im, node->line, "OSDev has no name");
    if (!type || !import_number(type, 0, 255, &kind))
        return import_fail(r->im, node->line, "OSDev %.60s has no osdev_type", name);
    /* before version 3 kinds are numbered: 0 storage, 2 network, 3 RDMA */
    static const int64_t kinds[] = {OSDEV_STORAGE, 0, OSDEV_NETWORK, OSDEV_RDMA};
    if (r->version < 3)
        kind = kind < 4 ? kinds[kind] : 0;
    struct machine_gpu *gpu = gpu_of(r->im->machine, pci);
    if (kind & OSDEV_RDMA)
        return read_hwloc_nic(r, node, name, pci);
    if (kind & OSDEV_NETWORK)
        return read_hwloc_interface(r, node, name, pci);
    if (kind & OSDEV_STORAGE)
        return read_hwloc_disk(r, node, name, pci);
    return gpu ? read_hwloc_gpu(r, node, name, gpu) : WEFT_OK;
}

/* --- the tree --------------------------------------------------------------------------------- */

static weft_status walk_devices(struct hwloc_reader *r, const struct xml_node *node,
                                struct place place);

static bool has_child(const struct xml_node *node, const char *type)
{
    for (const struct xml_node *at = node->first; at; at = at->next)
        if (is_type(at, type))
            return true;
    return false;
}

/* "0000:[00-3f]" -> "0000:00" */
static weft_status enter_root(struct hwloc_reader *r, const struct xml_node *node,
                              struct place *place)
{
    const char *span = xml_value(node, "bridge_pci");
    unsigned domain, first, last;
    int end = 0;
    if (!span || sscanf(span, "%8x:[%2x-%2x]%n", &domain, &first, &last, &end) != 3 || !end ||
        span[end])
        return import_fail(r->im, node->line,
                           "Bridge bridge_pci=\"%.40s\": expected buses such as 0000:[00-3f]",
                           span ? span : "");
    place->root = machine_printf(r->im->machine, "%04x:%02x", domain, first);
    place->parent = "";
    place->kind = "host";
    return WEFT_OK;
}

/* Kind of a bridge: a root port is followed by the upstream port of a switch, then its downstream
 * ports, and so on. A bridge without bridges below it is a bridge to conventional PCI. */
static const char *bridge_kind(const struct xml_node *node, const char *above)
{
    if (strcmp(above, "host") == 0)
        return "root-port";
    if (strcmp(above, "upstream") == 0)
        return "downstream";
    return has_child(node, "Bridge") ? "upstream" : "bridge";
}

static weft_status read_bridge(struct hwloc_reader *r, const struct xml_node *node,
                               struct place place)
{
    const char *type = xml_value(node, "bridge_type");
    struct machine_pci pci = {.class = {0}};
    weft_status status;
    if (type && strcmp(type, "0-1") == 0) {
        status = enter_root(r, node, &place);
    } else {
        const char *kind = bridge_kind(node, place.kind);
        status = add_hwloc_pci(r, node, &place, kind, &pci);
        if (!status) {
            place.parent = pci.bdf.value;
            place.kind = kind;
        }
    }
    return status ? status : walk_devices(r, node, place);
}

static weft_status read_pci_device(struct hwloc_reader *r, const struct xml_node *node,
                                   struct place place)
{
    struct machine_pci pci = {.class = {0}};
    bool at_root = !*place.parent && place.root;
    weft_status status = add_hwloc_pci(r, node, &place, at_root ? "integrated" : "endpoint", &pci);
    if (status)
        return status;
    if (is_gpu(&pci)) {
        add_hwloc_gpu(r, &pci);
        /* on real hardware a GPU is below a root port, so this is a virtual machine */
        if (at_root && number_is(pci.vendor, 0x10de))
            text_set(r->im->machine, &r->im->machine->system.hypervisor, "other");
    }
    place.pci = &pci;
    return walk_devices(r, node, place);
}

static weft_status walk_devices(struct hwloc_reader *r, const struct xml_node *node,
                                struct place place)
{
    weft_status status = WEFT_OK;
    for (const struct xml_node *at = node->first; at && !status; at = at->next) {
        bool io = is_type(at, "Bridge") || is_type(at, "PCIDev") || is_type(at, "OSDev");
        struct place below = place;
        if (!io)
            below.object = at;
        if (is_type(at, "Bridge"))
            status = read_bridge(r, at, place);
        else if (is_type(at, "PCIDev"))
            status = read_pci_device(r, at, place);
        else if (is_type(at, "OSDev"))
            status = read_osdev(r, at, place.pci);
        if (!status && (!io || is_type(at, "OSDev")) && xml_is(at, "object"))
            status = walk_devices(r, at, below);
    }
    return status;
}

/* Packages are read first: CPUs decide which package a node belongs to, because in version 1 a
 * package is inside a node. */
static weft_status walk_objects(struct hwloc_reader *r, const struct xml_node *node, bool packages)
{
    weft_status status = WEFT_OK;
    for (const struct xml_node *at = node->first; at && !status; at = at->next) {
        const char *name = strncmp(at->name, "distances", 9) == 0 ? xml_value(at, "name") : "";
        r->distances |=
            !name || (*name && !word_is_one_of(name, "NVLinkBandwidth|XGMIBandwidth|XGMIHops"));
        if (!xml_is(at, "object"))
            continue;
        if (!xml_value(at, "type"))
            return import_fail(r->im, at->line, "<object> has no type");
        if (packages && (is_type(at, "Package") || is_type(at, "Socket")))
            status = read_hwloc_package(r, at);
        else if (!packages && is_type(at, "NUMANode"))
            status = read_hwloc_node(r, at);
        if (!status)
            status = walk_objects(r, at, packages);
    }
    return status;
}

static weft_status read_hwloc_version(struct hwloc_reader *r, const struct xml_node *root)
{
    const char *version = xml_value(root, "version");
    long major = version && isdigit((unsigned char)*version) ? strtol(version, NULL, 10) : 0;
    if (version && major < 1)
        return import_fail(r->im, root->line,
                           "<topology> version=\"%.20s\" is not a version of hwloc's XML", version);
    if (major > HWLOC_VERSION_MOST)
        return import_fail(
            r->im, root->line,
            "the file has format version %.20s, but this weft reads 1 to %d: write it with lstopo "
            "--export-xml-flags v2, or use a newer weft",
            version, HWLOC_VERSION_MOST);
    r->version = (int)major;
    return WEFT_OK;
}

static void read_hwloc_system(struct machine *m, const struct xml_node *node)
{
    set_hwloc_text(m, &m->system.arch, info_of(node, "Architecture"));
    set_hwloc_text(m, &m->system.kernel, info_of(node, "OSRelease"));
    set_hwloc_text(m, &m->system.hostname, info_of(node, "HostName"));
}

weft_status import_hwloc(struct import *im, const char *text, size_t length)
{
    struct hwloc_reader r = {.im = im};
    struct machine *m = im->machine;
    struct xml_node *root;
    weft_status status = import_xml(im, text, length, &root);
    if (!status)
        status = read_hwloc_version(&r, root);
    if (status)
        return status;
    const struct xml_node *top = root->first;
    while (top && !is_type(top, "Machine"))
        top = top->next;
    if (!top)
        return import_fail(im, root->line, "<topology> has no object of type Machine");
    read_hwloc_system(m, top);
    read_hwloc_system(m, root);
    r.chip = info_of(top, "SoC0ID") ? info_of(top, "SoC0ID") : info_of(root, "SoC0ID");
    status = walk_objects(&r, root, true);
    if (!status)
        status = walk_objects(&r, root, false);
    if (!status)
        status =
            walk_devices(&r, top, (struct place){.object = top, .parent = "", .kind = "unknown"});
    if (status)
        return status;
    import_number_gpus(m);
    import_hwloc_memory(im, root);
    import_hwloc_links(im, root);
    m->note = machine_printf(m, "read from hwloc's XML; facts it does not have are unknown%s",
                             r.distances ? "; ignored: distances" : "");
    return WEFT_OK;
}

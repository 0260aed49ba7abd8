/* SPDX-License-Identifier: Apache-2.0 */
/* Imports topology files of NCCL and RCCL, which NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE
 * reads. Their elements (source: NCCL's parser, src/graph/xml.cc and topo.cc):
 *   <system version> <cpu numaid affinity arch vendor familyid modelid>
 *     <pci busid class vendor device link_speed link_width>   a switch, or a device
 *       <gpu dev sm gdr> <nvlink target count tclass/> <xgmi .../> <c2c bw count/> </gpu>
 *       <nic> <net name dev speed port guid/> </nic>
 * A switch is one element. Root ports have none. So the file shows which devices share a root
 * complex only where `weft topo --nccl` wrote it (root="0000:00", which NCCL ignores), or where PCI
 * domains or NUMA nodes differ. Link speeds are the highest that both ends support, not the
 * current ones. */
#include "machine/import/import.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum {
    NCCL_VERSION_MOST = 2, /* 1: NCCL, 2: RCCL */
    NCCL_LINKS_MOST = 64,  /* of one GPU */
    CLASS_BRIDGE = 0x0604,
    CLASS_DISPLAY = 0x03,
    CLASS_ACCELERATOR = 0x12,
    CLASS_NETWORK = 0x02,
};

/* The address that `weft topo --nccl` writes for the other end of links to switches and CPUs. */
#define NO_PLACE "ffff:ff:00.0"

struct nccl_reader {
    struct import *im;
    const char *host;    /* host_hash of the first <cpu> */
    const char *ignored; /* names of ignored elements */
    const char *root;    /* root complex of the current branch, NULL when unknown */
    int64_t numa;        /* NUMA node of the current <cpu> */
};

/* NCCL and RCCL load files with values that they do not use. So an odd value is left out with a
 * warning that says what becomes unknown, and the rest of the file is read. */
static void warn_value(const struct nccl_reader *r, const struct xml_node *node, const char *key,
                       const char *expected, const char *result)
{
    const char *value = xml_value(node, key);
    if (!value)
        import_warn(r->im, node->line, "<%s> has no %s: %s", node->name, key, result);
    else
        import_warn(r->im, node->line, "<%s> %s=\"%.80s\": expected %s; %s", node->name, key, value,
                    expected, result);
}

/* Reads an attribute; when it is absent or odd, the fact stays unknown. */
static void read_nccl_number(const struct nccl_reader *r, const struct xml_node *node,
                             const char *key, int64_t low, int64_t high, struct machine_number *to)
{
    const char *value = xml_value(node, key);
    char expected[80];
    int64_t number;
    if (!value || !*value)
        return;
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low, high);
    if (import_number(value, low, high, &number))
        number_set(to, number);
    else
        warn_value(r, node, key, expected, "it is unknown");
}

/* Records an element that this version does not understand, for the note of the machine. */
static void record_ignored(struct nccl_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    char word[64];
    snprintf(word, sizeof word, "<%.50s>", node->name);
    if (!r->ignored)
        r->ignored = machine_printf(m, "%s", word);
    else if (!strstr(r->ignored, word) && strlen(r->ignored) < 200)
        r->ignored = machine_printf(m, "%s %s", r->ignored, word);
}

/* --- <cpu> ------------------------------------------------------------------------------------ */

/* Converts "0fffff00,000fffff" (words of 32 CPUs, highest first) to "0-19,40-59". */
static void read_nccl_affinity(const struct nccl_reader *r, const struct xml_node *node,
                               struct machine_numa *to)
{
    static const char *const expected = "hexadecimal words such as 0000ffff",
                             *const result = "the CPUs are unknown";
    const char *mask = xml_value(node, "affinity");
    struct machine *m = r->im->machine;
    if (!mask || !*mask)
        return;
    size_t words = 1;
    for (const char *at = mask; *at; at++)
        words += *at == ',';
    if (words > IMPORT_CPUS_MOST / 32) {
        warn_value(r, node, "affinity", "at most 65536 CPUs", result);
        return;
    }
    uint32_t *bits = machine_alloc(m, words * sizeof *bits);
    const char *at = mask;
    for (size_t i = words; i-- > 0;) {
        size_t digits = strspn(at, "0123456789abcdefABCDEF");
        if (digits < 1 || digits > 8 || at[digits] != (i ? ',' : '\0')) {
            warn_value(r, node, "affinity", expected, result);
            return;
        }
        bits[i] = (uint32_t)strtoul(at, NULL, 16);
        at += digits + 1;
    }
    const char *list = import_cpu_list(m, bits, words);
    if (*list)
        text_set(m, &to->cpus, list);
}

static void read_cpu_model(const struct nccl_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    struct machine_system *s = &m->system;
    const char *arch = xml_value(node, "arch"), *vendor = xml_value(node, "vendor");
    if (arch && word_is_one_of(arch, "x86_64|arm64|ppc64"))
        text_set(m, &s->arch, strcmp(arch, "arm64") == 0 ? "aarch64" : arch);
    if (vendor && *vendor && strcmp(vendor, "unknown") != 0)
        text_set(m, &s->cpu_vendor, vendor);
    read_nccl_number(r, node, "familyid", 0, 4096, &s->cpu_family);
    read_nccl_number(r, node, "modelid", 0, 65536, &s->cpu_model_number);
}

/* Fails when the file describes several hosts. */
static weft_status check_one_host(struct nccl_reader *r, const struct xml_node *node)
{
    const char *host = xml_value(node, "host_hash");
    if (host && r->host && strcmp(host, r->host) != 0)
        return import_fail(
            r->im, node->line,
            "<cpu host_hash=\"%.40s\"> is another host than the first <cpu> (%.40s): "
            "weft reads one machine; use the file that NCCL writes in a job on one "
            "host",
            host, r->host);
    if (host)
        r->host = host;
    return WEFT_OK;
}

/* --- <gpu> and its links ---------------------------------------------------------------------- */

/* The kind of the other end by its PCI class; NULL: unknown. */
static const char *link_peer(const char *class)
{
    return !class                           ? NULL
           : strcmp(class, "0x068000") == 0 ? "switch"
           : strcmp(class, "0x068001") == 0 ? "cpu"
           : strncmp(class, "0x03", 4) == 0 ? "gpu"
           : strncmp(class, "0x12", 4) == 0 ? "gpu"
                                            : NULL;
}

/* Reads the number of links of an element. False when it is odd: the GPU's links are then unknown.
 */
static bool read_link_count(const struct nccl_reader *r, const struct xml_node *node,
                            const struct machine_gpu *gpu, int64_t *count)
{
    const char *value = xml_value(node, "count");
    if (!value || !import_number(value, 1, NCCL_LINKS_MOST, count)) {
        warn_value(r, node, "count", "a whole number from 1 to 64", "these links are unknown");
        return false;
    }
    if (number_or(gpu->nvlinks, 0) + *count <= NCCL_LINKS_MOST)
        return true;
    import_warn(r->im, node->line, "gpu %" PRId64 " has more than %d links: the rest is left out",
                gpu->index.value, NCCL_LINKS_MOST);
    return false;
}

/* Reads <nvlink> or <xgmi>. False when its links are unknown. */
static bool read_link_element(const struct nccl_reader *r, const struct xml_node *node,
                              struct machine_gpu *gpu)
{
    struct machine *m = r->im->machine;
    int64_t count;
    char target[IMPORT_ADDRESS] = "";
    if (!read_link_count(r, node, gpu, &count))
        return false;
    const char *class = xml_value(node, "tclass"), *peer = link_peer(class);
    bool placed = xml_value(node, "target") && import_address(xml_value(node, "target"), target);
    /* NCCL writes no complete address for NVSwitches */
    bool needs = !peer || strcmp(peer, "gpu") == 0;
    if (needs && !placed) {
        warn_value(r, node, "target", "a PCI address such as 0000:3b:00.0",
                   "these links are unknown");
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        struct machine_link *link = machine_add_link(m);
        text_set(m, &link->kind, node->name);
        link->gpu = gpu->index;
        number_set(&link->link, number_or(gpu->nvlinks, 0) + i);
        number_set(&link->active, 1);
        if (peer)
            text_set(m, &link->peer, peer);
        else
            text_unknown(m, &link->peer, "unknown PCI class \"%.20s\" of the other end",
                         class ? class : "");
        if (placed && (needs || strcmp(peer, "cpu") == 0) && strcmp(target, NO_PLACE) != 0)
            text_set(m, &link->peer_bdf, target);
        import_link_generation(gpu, link);
    }
    number_set(&gpu->nvlinks, number_or(gpu->nvlinks, 0) + count);
    return true;
}

/* Reads NVLink-C2C links to the CPU; `bw` is the rate of one link in MB/s. */
static void read_c2c(const struct nccl_reader *r, const struct xml_node *node,
                     const struct machine_gpu *gpu, int64_t first)
{
    struct machine *m = r->im->machine;
    struct machine_number mbps = {0};
    int64_t count;
    read_nccl_number(r, node, "bw", 1, 10000000, &mbps);
    if (!read_link_count(r, node, gpu, &count))
        return;
    for (int64_t i = 0; i < count; i++) {
        struct machine_link *link = machine_add_link(m);
        text_set(m, &link->kind, "c2c");
        number_set(&link->gen, 1); /* the only generation so far */
        link->gpu = gpu->index;
        number_set(&link->link, first + i);
        number_set(&link->active, 1);
        text_set(m, &link->peer, "cpu");
        link->mbps = mbps;
    }
}

/* Reads the links of a GPU. NCCL writes `sm` when it has looked at the GPU, and then all links;
 * `weft topo --nccl` writes links="all" or "unknown". Else links that are not in the file are
 * unknown. */
static void read_gpu_links(struct nccl_reader *r, const struct xml_node *node,
                           struct machine_gpu *gpu)
{
    const char *links = xml_value(node, "links");
    bool whole = links ? strcmp(links, "all") == 0 : xml_value(node, "sm") != NULL;
    for (const struct xml_node *at = node->first; at; at = at->next)
        if (xml_is(at, "nvlink") || xml_is(at, "xgmi"))
            whole &= read_link_element(r, at, gpu);
    if (!whole)
        number_unknown(r->im->machine, &gpu->nvlinks, "the file does not report all of them");
    else if (!gpu->nvlinks.known)
        number_set(&gpu->nvlinks, 0);
    for (const struct xml_node *at = node->first; at; at = at->next)
        if (xml_is(at, "c2c"))
            read_c2c(r, at, gpu, number_or(gpu->nvlinks, 0));
        else if (!xml_is(at, "nvlink") && !xml_is(at, "xgmi"))
            record_ignored(r, at);
}

static void read_nccl_gpu(struct nccl_reader *r, const struct xml_node *node,
                          const struct machine_pci *pci, struct machine_gpu *gpu)
{
    struct machine *m = r->im->machine;
    struct machine_number sm = {0}, index = {0};
    read_nccl_number(r, node, "dev", 0, 1023, &index);
    if (index.known && machine_find_gpu(m, index.value))
        import_warn(r->im, node->line,
                    "gpu dev=\"%" PRId64
                    "\" appears twice, %s and %s: the second gets a free number",
                    index.value, text_or(machine_find_gpu(m, index.value)->bdf, "?"),
                    text_or(pci->bdf, "?"));
    else
        gpu->index = index;
    read_nccl_number(r, node, "sm", 10, 999, &sm);
    if (sm.known) {
        number_set(&gpu->cc_major, sm.value / 10);
        number_set(&gpu->cc_minor, sm.value % 10);
    }
    for (const struct xml_node *at = node->first; at && !gpu->vendor.value; at = at->next)
        if (xml_is(at, "nvlink") || xml_is(at, "xgmi"))
            text_set(m, &gpu->vendor, xml_is(at, "xgmi") ? "amd" : "nvidia");
    if (xml_value(node, "gdr"))
        number_unknown(m, &gpu->rdma,
                       "gdr=\"%.8s\" in the file is what NCCL used, not what the GPU supports",
                       xml_value(node, "gdr"));
}

/* --- <nic> ------------------------------------------------------------------------------------ */

/* Adds a NIC unless an earlier port has added it. False when the name has another PCI address. */
static bool find_nccl_nic(const struct nccl_reader *r, const struct xml_node *node,
                          const char *name, const char *address)
{
    struct machine *m = r->im->machine;
    const struct machine_nic *before = machine_find_nic(m, name);
    bool same = before && strcmp(text_or(before->bdf, ""), address) == 0;
    if (before && !same)
        import_warn(r->im, node->line, "nic %.60s appears twice, %s and %s: the second is left out",
                    name, text_or(before->bdf, "?"), *address ? address : "?");
    if (before)
        return same;
    struct machine_nic *nic = machine_add_nic(m);
    text_set(m, &nic->name, name);
    if (*address)
        text_set(m, &nic->bdf, address);
    return true;
}

static void read_net_port(const struct nccl_reader *r, const struct xml_node *node,
                          const char *name)
{
    struct machine *m = r->im->machine;
    struct machine_number number = {0}, mbit = {0};
    read_nccl_number(r, node, "port", 1, 255, &number);
    read_nccl_number(r, node, "speed", 0, 100000000, &mbit);
    if (!number.known && !mbit.known)
        return; /* a NIC without a port */
    for (size_t i = 0; i < m->n_ports; i++)
        if (text_is(m->ports[i].nic, name) && number.known &&
            number_is(m->ports[i].port, number.value)) {
            import_warn(r->im, node->line,
                        "port %" PRId64 " of %.60s appears twice: the second is left out",
                        number.value, name);
            return;
        }
    struct machine_port *port = machine_add_port(m);
    text_set(m, &port->nic, name);
    port->port = number;
    if (number_or(mbit, 0) > 0)
        port->mbit = mbit;
}

static void read_net_interface(const struct nccl_reader *r, const struct xml_node *node,
                               const char *name, const char *address)
{
    struct machine *m = r->im->machine;
    for (size_t i = 0; i < m->n_interfaces; i++)
        if (text_is(m->interfaces[i].name, name)) {
            import_warn(r->im, node->line, "interface %.60s appears twice: the second is left out",
                        name);
            return;
        }
    struct machine_netif *interface = machine_add_netif(m);
    text_set(m, &interface->name, name);
    if (*address)
        text_set(m, &interface->bdf, address);
    read_nccl_number(r, node, "speed", 0, 100000000, &interface->mbit);
}

/* NCCL counts ports of RDMA devices from 1; port 0 is a network interface for sockets. */
static void read_net(const struct nccl_reader *r, const struct xml_node *node, const char *address)
{
    const char *name = xml_value(node, "name"), *port = xml_value(node, "port");
    if (!name || !*name)
        warn_value(r, node, "name", "the name of a NIC", "this NIC is left out");
    else if (port && strcmp(port, "0") == 0)
        read_net_interface(r, node, name, address);
    else if (find_nccl_nic(r, node, name, address))
        read_net_port(r, node, name);
}

static void read_nccl_nic(struct nccl_reader *r, const struct xml_node *node, const char *address)
{
    for (const struct xml_node *at = node->first; at; at = at->next)
        if (xml_is(at, "net"))
            read_net(r, at, address);
        else
            record_ignored(r, at);
}

/* --- <pci> ------------------------------------------------------------------------------------ */

/* Reads "16.0 GT/s PCIe" and older spellings; any other text, such as "Unknown", stays unknown. */
static void parse_link_speed(const char *speed, struct machine_number *to)
{
    static const double rates[] = {2.5, 5, 8, 16, 32, 64, 128};
    double rate = speed && strstr(speed, "GT/s") ? strtod(speed, NULL) : 0;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (rate > rates[i] - 0.1 && rate < rates[i] + 0.1)
            number_set(to, (int64_t)i + 1);
}

static void read_pci_facts(struct nccl_reader *r, const struct xml_node *node, const char *address,
                           const char *parent, struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    read_nccl_number(r, node, "class", 0, 0xffffff, &pci->class);
    read_nccl_number(r, node, "vendor", 0, 0xffff, &pci->vendor);
    read_nccl_number(r, node, "device", 0, 0xffff, &pci->device);
    const char *width = xml_value(node, "link_width");
    int64_t lanes;
    text_set(m, &pci->bdf, address);
    text_set(m, &pci->parent, parent);
    if (r->root)
        text_set(m, &pci->root, r->root);
    else
        text_unknown(m, &pci->root, "the file has no root complexes");
    if (r->numa >= 0)
        number_set(&pci->numa, r->numa);
    parse_link_speed(xml_value(node, "link_speed"), &pci->gen_max);
    if (width && import_number(width, 1, 32, &lanes)) /* 0 or 255 mean unknown */
        number_set(&pci->width_max, lanes);
}

static const struct xml_node *child_of(const struct xml_node *node, const char *name)
{
    for (const struct xml_node *at = node->first; at; at = at->next)
        if (xml_is(at, name))
            return at;
    return NULL;
}

static void set_pcie_link(const struct machine_pci *pci, struct machine_gpu *gpu)
{
    gpu->pcie_gen_max = pci->gen_max;
    gpu->pcie_width_max = pci->width_max;
}

static void add_nccl_gpu(struct nccl_reader *r, const struct xml_node *node,
                         const struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    struct machine_gpu found = {0};
    text_set(m, &found.bdf, pci->bdf.value);
    import_name_gpu(m, &found, number_or(pci->vendor, 0), number_or(pci->device, -1));
    set_pcie_link(pci, &found);
    if (node)
        read_nccl_gpu(r, node, pci, &found);
    else
        number_unknown(m, &found.nvlinks, "the file has this GPU by its PCI class only");
    *machine_add_gpu(m) = found;
}

/* Hand-written files may have <pci> devices without <gpu> or <nic>, which NCCL detects itself. */
static void add_nccl_device(struct nccl_reader *r, const struct xml_node *node,
                            const struct machine_pci *pci)
{
    const struct xml_node *gpu = child_of(node, "gpu"), *nic = child_of(node, "nic");
    int64_t class = number_or(pci->class, 0) >> 16;
    if (gpu || (!nic && (class == CLASS_DISPLAY || class == CLASS_ACCELERATOR)))
        add_nccl_gpu(r, gpu, pci);
    else if (nic)
        read_nccl_nic(r, nic, pci->bdf.value);
    else if (class == CLASS_NETWORK)
        /* the name of this NIC is unknown, so its PCI address is its name */
        find_nccl_nic(r, node, pci->bdf.value, pci->bdf.value);
}

static weft_status read_nccl_pci(struct nccl_reader *r, const struct xml_node *node,
                                 const char *parent)
{
    struct machine *m = r->im->machine;
    const char *busid = xml_value(node, "busid");
    char address[IMPORT_ADDRESS];
    if (!busid || !import_address(busid, address)) {
        warn_value(r, node, "busid", "a PCI address such as 0000:3b:00.0",
                   "what is below is left out");
        return WEFT_OK;
    }
    if (machine_find_pci(m, address)) {
        import_warn(r->im, node->line, "<pci busid=\"%s\"> appears twice: the second is left out",
                    address);
        return WEFT_OK;
    }
    if (m->n_pci >= IMPORT_DEVICES_MOST)
        return import_fail(r->im, node->line, "there are more than %d PCI devices",
                           IMPORT_DEVICES_MOST);
    struct machine_pci pci = {0};
    read_pci_facts(r, node, address, parent, &pci);
    bool bridge = child_of(node, "pci") || number_or(pci.class, 0) >> 8 == CLASS_BRIDGE;
    text_set(m, &pci.kind, bridge ? "bridge" : "endpoint");
    *machine_add_pci(m) = pci;
    weft_status status = WEFT_OK;
    if (!bridge)
        add_nccl_device(r, node, &pci);
    for (const struct xml_node *at = node->first; at && !status; at = at->next)
        if (xml_is(at, "pci"))
            status = read_nccl_pci(r, at, pci.bdf.value);
        else if (bridge || (!xml_is(at, "gpu") && !xml_is(at, "nic")))
            record_ignored(r, at);
    return status;
}

/* --- the whole file --------------------------------------------------------------------------- */

static weft_status read_branch(struct nccl_reader *r, const struct xml_node *node)
{
    const char *root = xml_value(node, "root");
    char address[IMPORT_ADDRESS];
    if (!xml_is(node, "pci")) {
        if (xml_is(node, "nic"))
            read_nccl_nic(r, node, "");
        else
            record_ignored(r, node);
        return WEFT_OK;
    }
    char whole[IMPORT_ADDRESS];
    snprintf(whole, sizeof whole, "%.16s:00.0", root ? root : "");
    r->root = root && import_address(whole, address) ? root : NULL;
    if (root && !r->root)
        warn_value(r, node, "root", "a root complex such as 0000:00", "it is unknown");
    return read_nccl_pci(r, node, "");
}

static weft_status read_nccl_cpu(struct nccl_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    struct machine_number numa = {0};
    weft_status status = check_one_host(r, node);
    read_nccl_number(r, node, "numaid", -1, 4095, &numa);
    read_cpu_model(r, node);
    r->numa = number_or(numa, -1);
    if (r->numa >= 0 && machine_find_numa(m, r->numa)) {
        import_warn(r->im, node->line,
                    "<cpu numaid=\"%" PRId64 "\"> appears twice: its devices are of one NUMA node",
                    r->numa);
    } else if (r->numa >= 0) {
        struct machine_numa *node_to = machine_add_numa(m);
        node_to->index = numa;
        read_nccl_affinity(r, node, node_to);
    }
    for (const struct xml_node *at = node->first; at && !status; at = at->next)
        status = read_branch(r, at);
    return status;
}

/* A link may name a GPU that comes later in the file, so links are read after all GPUs. */
static void read_all_links(struct nccl_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    char address[IMPORT_ADDRESS];
    for (const struct xml_node *at = node->first; at; at = at->next) {
        const struct xml_node *gpu = xml_is(at, "pci") ? child_of(at, "gpu") : NULL;
        for (size_t i = 0; gpu && i < m->n_gpus; i++)
            if (import_address(xml_value(at, "busid"), address) &&
                text_is(m->gpus[i].bdf, address) && !m->gpus[i].nvlinks.known &&
                !m->gpus[i].nvlinks.why)
                read_gpu_links(r, gpu, &m->gpus[i]);
        read_all_links(r, at);
    }
}

static void name_peers(struct machine *m)
{
    for (size_t i = 0; i < m->n_links; i++)
        for (size_t g = 0; m->links[i].peer_bdf.value && g < m->n_gpus; g++)
            if (text_is(m->gpus[g].bdf, m->links[i].peer_bdf.value))
                m->links[i].peer_gpu = m->gpus[g].index;
}

static weft_status check_nccl_version(const struct nccl_reader *r, const struct xml_node *root)
{
    const char *value = xml_value(root, "version");
    int64_t version;
    if (!value)
        return import_fail(r->im, root->line, "<system> has no version");
    if (!import_number(value, 0, INT64_MAX, &version))
        return import_fail(r->im, root->line,
                           "<system> version=\"%.80s\": expected the version of the format", value);
    if (version < 1 || version > NCCL_VERSION_MOST)
        return import_fail(r->im, root->line,
                           "the file has format version %" PRId64
                           ", but this weft reads 1 (NCCL) and 2 "
                           "(RCCL)%s",
                           version, version > NCCL_VERSION_MOST ? ": use a newer weft" : "");
    return WEFT_OK;
}

weft_status import_nccl(struct import *im, const char *text, size_t length)
{
    struct nccl_reader r = {.im = im, .numa = -1};
    struct xml_node *root;
    weft_status status = import_xml(im, text, length, &root);
    if (!status)
        status = check_nccl_version(&r, root);
    for (const struct xml_node *at = status ? NULL : root->first; at && !status; at = at->next)
        if (xml_is(at, "cpu"))
            status = read_nccl_cpu(&r, at);
        else
            record_ignored(&r, at);
    if (status)
        return status;
    import_number_gpus(im->machine);
    read_all_links(&r, root);
    name_peers(im->machine);
    im->machine->note = machine_printf(
        im->machine, "read from a topology file of %s; facts it does not have are unknown%s%s",
        strcmp(xml_value(root, "version"), "2") == 0 ? "RCCL" : "NCCL",
        r.ignored ? "; ignored: " : "", r.ignored ? r.ignored : "");
    return WEFT_OK;
}

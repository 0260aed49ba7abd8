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
    VERSION_MOST = 2, /* 1: NCCL, 2: RCCL */
    LINKS_MOST = 64,  /* of one GPU */
    CLASS_BRIDGE = 0x0604,
    CLASS_DISPLAY = 0x03,
    CLASS_ACCELERATOR = 0x12,
    CLASS_NETWORK = 0x02,
};

struct nccl_reader {
    struct import *im;
    const char *host;    /* host_hash of the first <cpu> */
    const char *ignored; /* names of ignored elements */
    const char *root;    /* root complex of the current branch, NULL when unknown */
    int64_t numa;        /* NUMA node of the current <cpu> */
};

static weft_status bad_value(const struct nccl_reader *r, const struct xml_node *node,
                             const char *key, const char *expected)
{
    const char *value = xml_value(node, key);
    if (!value)
        return import_fail(r->im, node->line, "<%s> has no %s", node->name, key);
    return import_fail(r->im, node->line, "<%s> %s=\"%.80s\": expected %s", node->name, key, value,
                       expected);
}

/* Reads an attribute; when it is absent, the fact stays unknown. */
static weft_status read_nccl_number(const struct nccl_reader *r, const struct xml_node *node,
                                    const char *key, int64_t low, int64_t high,
                                    struct machine_number *to)
{
    const char *value = xml_value(node, key);
    char expected[80];
    int64_t number;
    if (!value || !*value)
        return WEFT_OK;
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, low, high);
    if (!import_number(value, low, high, &number))
        return bad_value(r, node, key, expected);
    number_set(to, number);
    return WEFT_OK;
}

static weft_status read_nccl_address(const struct nccl_reader *r, const struct xml_node *node,
                                     const char *key, char address[IMPORT_ADDRESS])
{
    const char *value = xml_value(node, key);
    return value && import_address(value, address)
               ? WEFT_OK
               : bad_value(r, node, key, "a PCI address such as 0000:3b:00.0");
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
static weft_status read_nccl_affinity(const struct nccl_reader *r, const struct xml_node *node,
                                      struct machine_numa *to)
{
    static const char *const expected = "words of up to eight hexadecimal digits between commas";
    const char *mask = xml_value(node, "affinity");
    struct machine *m = r->im->machine;
    if (!mask || !*mask)
        return WEFT_OK;
    size_t words = 1;
    for (const char *at = mask; *at; at++)
        words += *at == ',';
    if (words > IMPORT_CPUS_MOST / 32)
        return bad_value(r, node, "affinity", "at most 65536 CPUs");
    uint32_t *bits = machine_alloc(m, words * sizeof *bits);
    const char *at = mask;
    for (size_t i = words; i-- > 0;) {
        size_t digits = strspn(at, "0123456789abcdefABCDEF");
        if (digits < 1 || digits > 8 || at[digits] != (i ? ',' : '\0'))
            return bad_value(r, node, "affinity", expected);
        bits[i] = (uint32_t)strtoul(at, NULL, 16);
        at += digits + 1;
    }
    const char *list = import_cpu_list(m, bits, words);
    if (*list)
        text_set(m, &to->cpus, list);
    return WEFT_OK;
}

static weft_status read_cpu_model(const struct nccl_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    struct machine_system *s = &m->system;
    const char *arch = xml_value(node, "arch"), *vendor = xml_value(node, "vendor");
    if (arch && word_is_one_of(arch, "x86_64|arm64|ppc64"))
        text_set(m, &s->arch, strcmp(arch, "arm64") == 0 ? "aarch64" : arch);
    if (vendor && *vendor && strcmp(vendor, "unknown") != 0)
        text_set(m, &s->cpu_vendor, vendor);
    weft_status status = read_nccl_number(r, node, "familyid", 0, 4096, &s->cpu_family);
    return status ? status : read_nccl_number(r, node, "modelid", 0, 65536, &s->cpu_model_number);
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

static weft_status read_link_element(struct nccl_reader *r, const struct xml_node *node,
                                     const struct machine_gpu *gpu, int64_t *number)
{
    struct machine *m = r->im->machine;
    struct machine_number count = {0};
    char target[IMPORT_ADDRESS] = "";
    weft_status status = read_nccl_number(r, node, "count", 1, LINKS_MOST, &count);
    if (status || !count.known)
        return status ? status : bad_value(r, node, "count", "the number of links");
    if (*number + count.value > LINKS_MOST)
        return import_fail(r->im, node->line, "gpu %" PRId64 " has more than %d links",
                           gpu->index.value, LINKS_MOST);
    const char *class = xml_value(node, "tclass");
    const char *peer = !class                           ? NULL
                       : strcmp(class, "0x068000") == 0 ? "switch"
                       : strcmp(class, "0x068001") == 0 ? "cpu"
                       : strncmp(class, "0x03", 4) == 0 ? "gpu"
                       : strncmp(class, "0x12", 4) == 0 ? "gpu"
                                                        : NULL;
    bool placed = xml_value(node, "target") && import_address(xml_value(node, "target"), target);
    /* NCCL writes no complete address for NVSwitches */
    if (!placed && (!peer || strcmp(peer, "switch") != 0))
        return bad_value(r, node, "target", "a PCI address such as 0000:3b:00.0");
    for (int64_t i = 0; i < count.value; i++) {
        struct machine_link *link = machine_add_link(m);
        text_set(m, &link->kind, node->name);
        link->gpu = gpu->index;
        number_set(&link->link, (*number)++);
        number_set(&link->active, 1);
        if (peer)
            text_set(m, &link->peer, peer);
        else
            text_unknown(m, &link->peer, "unknown PCI class \"%.20s\" of the other end",
                         class ? class : "");
        if (placed && !(peer && strcmp(peer, "switch") == 0))
            text_set(m, &link->peer_bdf, target);
        import_link_generation(gpu, link);
    }
    return WEFT_OK;
}

/* Reads NVLink-C2C links to the CPU; `bw` is the rate of one link in MB/s. */
static weft_status read_c2c(struct nccl_reader *r, const struct xml_node *node,
                            const struct machine_gpu *gpu, int64_t *number)
{
    struct machine *m = r->im->machine;
    struct machine_number count = {0}, mbps = {0};
    weft_status status = read_nccl_number(r, node, "count", 1, LINKS_MOST - *number, &count);
    if (!status)
        status = read_nccl_number(r, node, "bw", 1, 10000000, &mbps);
    if (status || !count.known)
        return status ? status : bad_value(r, node, "count", "the number of links");
    for (int64_t i = 0; i < count.value; i++) {
        struct machine_link *link = machine_add_link(m);
        text_set(m, &link->kind, "c2c");
        number_set(&link->gen, 1); /* the only generation so far */
        link->gpu = gpu->index;
        number_set(&link->link, (*number)++);
        number_set(&link->active, 1);
        text_set(m, &link->peer, "cpu");
        link->mbps = mbps;
    }
    return WEFT_OK;
}

static weft_status read_gpu_links(struct nccl_reader *r, const struct xml_node *node,
                                  const struct machine_gpu *gpu)
{
    int64_t number = 0;
    weft_status status = WEFT_OK;
    for (const struct xml_node *at = node->first; at && !status; at = at->next)
        if (xml_is(at, "nvlink") || xml_is(at, "xgmi"))
            status = read_link_element(r, at, gpu, &number);
        else if (xml_is(at, "c2c"))
            status = read_c2c(r, at, gpu, &number);
        else
            record_ignored(r, at);
    return status;
}

static weft_status read_nccl_gpu(struct nccl_reader *r, const struct xml_node *node,
                                 const struct machine_pci *pci, struct machine_gpu *gpu)
{
    struct machine *m = r->im->machine;
    struct machine_number sm = {0}, index = {0};
    weft_status status = read_nccl_number(r, node, "dev", 0, 1023, &index);
    if (status)
        return status;
    if (index.known && machine_find_gpu(m, index.value))
        return import_fail(r->im, node->line, "gpu dev=\"%" PRId64 "\" appears twice: %s and %s",
                           index.value, text_or(machine_find_gpu(m, index.value)->bdf, "?"),
                           text_or(pci->bdf, "?"));
    gpu->index = index;
    status = read_nccl_number(r, node, "sm", 10, 999, &sm);
    if (status)
        return status;
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
    return WEFT_OK;
}

/* --- <nic> ------------------------------------------------------------------------------------ */

/* Adds a NIC unless an earlier port has added it. A NIC with two PCI addresses is an error. */
static weft_status find_nccl_nic(struct nccl_reader *r, const struct xml_node *node,
                                 const char *name, const char *address)
{
    struct machine *m = r->im->machine;
    const struct machine_nic *before = machine_find_nic(m, name);
    if (before && strcmp(text_or(before->bdf, ""), address) != 0)
        return import_fail(r->im, node->line, "nic %.60s appears twice: %s and %s", name,
                           text_or(before->bdf, "?"), *address ? address : "?");
    if (before)
        return WEFT_OK;
    struct machine_nic *nic = machine_add_nic(m);
    text_set(m, &nic->name, name);
    if (*address)
        text_set(m, &nic->bdf, address);
    return WEFT_OK;
}

static weft_status read_net_port(struct nccl_reader *r, const struct xml_node *node,
                                 const char *name)
{
    struct machine *m = r->im->machine;
    struct machine_number number = {0}, mbit = {0};
    weft_status status = read_nccl_number(r, node, "port", 0, 255, &number);
    if (!status)
        status = read_nccl_number(r, node, "speed", 0, 100000000, &mbit);
    if (status)
        return status;
    for (size_t i = 0; i < m->n_ports; i++)
        if (text_is(m->ports[i].nic, name) && number.known &&
            number_is(m->ports[i].port, number.value))
            return import_fail(r->im, node->line, "port %" PRId64 " of %.60s appears twice",
                               number.value, name);
    struct machine_port *port = machine_add_port(m);
    text_set(m, &port->nic, name);
    port->port = number;
    if (number_or(mbit, 0) > 0)
        port->mbit = mbit;
    return WEFT_OK;
}

/* NCCL counts ports of RDMA devices from 1; port 0 is a network interface for sockets. */
static weft_status read_net(struct nccl_reader *r, const struct xml_node *node, const char *address)
{
    struct machine *m = r->im->machine;
    const char *name = xml_value(node, "name");
    if (!name || !*name)
        return bad_value(r, node, "name", "the name of a NIC");
    if (xml_value(node, "port") && strcmp(xml_value(node, "port"), "0") == 0) {
        for (size_t i = 0; i < m->n_interfaces; i++)
            if (text_is(m->interfaces[i].name, name))
                return import_fail(r->im, node->line, "interface %.60s appears twice", name);
        struct machine_netif *interface = machine_add_netif(m);
        text_set(m, &interface->name, name);
        if (*address)
            text_set(m, &interface->bdf, address);
        return read_nccl_number(r, node, "speed", 0, 100000000, &interface->mbit);
    }
    weft_status status = find_nccl_nic(r, node, name, address);
    return status ? status : read_net_port(r, node, name);
}

static weft_status read_nccl_nic(struct nccl_reader *r, const struct xml_node *node,
                                 const char *address)
{
    weft_status status = WEFT_OK;
    for (const struct xml_node *at = node->first; at && !status; at = at->next)
        if (xml_is(at, "net"))
            status = read_net(r, at, address);
        else
            record_ignored(r, at);
    return status;
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

static weft_status read_pci_facts(struct nccl_reader *r, const struct xml_node *node,
                                  const char *address, const char *parent, struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    weft_status status = read_nccl_number(r, node, "class", 0, 0xffffff, &pci->class);
    if (!status)
        status = read_nccl_number(r, node, "vendor", 0, 0xffff, &pci->vendor);
    if (!status)
        status = read_nccl_number(r, node, "device", 0, 0xffff, &pci->device);
    if (status)
        return status;
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
    return WEFT_OK;
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

static weft_status add_nccl_gpu(struct nccl_reader *r, const struct xml_node *node,
                                const struct machine_pci *pci)
{
    struct machine *m = r->im->machine;
    struct machine_gpu found = {0};
    text_set(m, &found.bdf, pci->bdf.value);
    import_name_gpu(m, &found, number_or(pci->vendor, 0), number_or(pci->device, -1));
    set_pcie_link(pci, &found);
    weft_status status = node ? read_nccl_gpu(r, node, pci, &found) : WEFT_OK;
    if (!status)
        *machine_add_gpu(m) = found;
    return status;
}

/* Hand-written files may have <pci> devices without <gpu> or <nic>, which NCCL detects itself. */
static weft_status add_nccl_device(struct nccl_reader *r, const struct xml_node *node,
                                   const struct machine_pci *pci)
{
    const struct xml_node *gpu = child_of(node, "gpu"), *nic = child_of(node, "nic");
    int64_t class = number_or(pci->class, 0) >> 16;
    if (gpu || (!nic && (class == CLASS_DISPLAY || class == CLASS_ACCELERATOR)))
        return add_nccl_gpu(r, gpu, pci);
    if (nic)
        return read_nccl_nic(r, nic, pci->bdf.value);
    /* the name of this NIC is unknown, so its PCI address is its name */
    return class == CLASS_NETWORK ? find_nccl_nic(r, node, pci->bdf.value, pci->bdf.value)
                                  : WEFT_OK;
}

static weft_status read_nccl_pci(struct nccl_reader *r, const struct xml_node *node,
                                 const char *parent)
{
    struct machine *m = r->im->machine;
    char address[IMPORT_ADDRESS];
    weft_status status = read_nccl_address(r, node, "busid", address);
    if (status)
        return status;
    if (machine_find_pci(m, address))
        return import_fail(r->im, node->line, "<pci busid=\"%s\"> appears twice", address);
    if (m->n_pci >= IMPORT_DEVICES_MOST)
        return import_fail(r->im, node->line, "there are more than %d PCI devices",
                           IMPORT_DEVICES_MOST);
    struct machine_pci pci = {0};
    status = read_pci_facts(r, node, address, parent, &pci);
    if (status)
        return status;
    bool bridge = child_of(node, "pci") || number_or(pci.class, 0) >> 8 == CLASS_BRIDGE;
    text_set(m, &pci.kind, bridge ? "bridge" : "endpoint");
    *machine_add_pci(m) = pci;
    status = bridge ? WEFT_OK : add_nccl_device(r, node, &pci);
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
    if (xml_is(node, "nic"))
        return read_nccl_nic(r, node, "");
    if (!xml_is(node, "pci")) {
        record_ignored(r, node);
        return WEFT_OK;
    }
    char whole[IMPORT_ADDRESS];
    snprintf(whole, sizeof whole, "%.16s:00.0", root ? root : "");
    if (root && !import_address(whole, address))
        return bad_value(r, node, "root", "a root complex such as 0000:00");
    r->root = root;
    return read_nccl_pci(r, node, "");
}

static weft_status read_nccl_cpu(struct nccl_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    struct machine_number numa = {0};
    weft_status status = check_one_host(r, node);
    if (!status)
        status = read_nccl_number(r, node, "numaid", -1, 4095, &numa);
    if (!status)
        status = read_cpu_model(r, node);
    if (status)
        return status;
    r->numa = number_or(numa, -1);
    if (r->numa >= 0 && machine_find_numa(m, r->numa))
        return import_fail(r->im, node->line, "<cpu numaid=\"%" PRId64 "\"> appears twice",
                           r->numa);
    if (r->numa >= 0) {
        struct machine_numa *node_to = machine_add_numa(m);
        node_to->index = numa;
        status = read_nccl_affinity(r, node, node_to);
    }
    for (const struct xml_node *at = node->first; at && !status; at = at->next)
        status = read_branch(r, at);
    return status;
}

/* A link may name a GPU that comes later in the file, so links are read after all GPUs. */
static weft_status read_all_links(struct nccl_reader *r, const struct xml_node *node)
{
    struct machine *m = r->im->machine;
    char address[IMPORT_ADDRESS];
    weft_status status = WEFT_OK;
    for (const struct xml_node *at = node->first; at && !status; at = at->next) {
        const struct xml_node *gpu = xml_is(at, "pci") ? child_of(at, "gpu") : NULL;
        for (size_t i = 0; gpu && i < m->n_gpus; i++)
            if (import_address(xml_value(at, "busid"), address) && text_is(m->gpus[i].bdf, address))
                status = read_gpu_links(r, gpu, &m->gpus[i]);
        if (!status)
            status = read_all_links(r, at);
    }
    return status;
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
    if (!value || !import_number(value, 0, INT64_MAX, &version))
        return bad_value(r, root, "version", "the version of the format");
    if (version < 1 || version > VERSION_MOST)
        return import_fail(r->im, root->line,
                           "the file has format version %" PRId64
                           ", but this weft reads 1 (NCCL) and 2 "
                           "(RCCL)%s",
                           version, version > VERSION_MOST ? ": use a newer weft" : "");
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
    status = read_all_links(&r, root);
    name_peers(im->machine);
    im->machine->note = machine_printf(
        im->machine, "read from a topology file of %s; facts it does not have are unknown%s%s",
        strcmp(xml_value(root, "version"), "2") == 0 ? "RCCL" : "NCCL",
        r.ignored ? "; ignored: " : "", r.ignored ? r.ignored : "");
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The PCI tree from sysfs: GPUs, NICs, disks, NVSwitches, capture cards and every bridge above
 * them. Other devices, such as the hundreds of uncore functions of a server, are left out. */
#include "machine/live/live.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/pci_config.h"

enum {
    CLASS_STORAGE = 0x01,
    CLASS_NETWORK = 0x02,
    CLASS_DISPLAY = 0x03,
    CLASS_BRIDGE_OTHER = 0x0680, /* NVSwitch */
    CLASS_ACCELERATOR = 0x12,
    CLASS_VIDEO = 0x0400, /* capture cards */
    VENDOR_NVIDIA = 0x10de,
};

static bool is_bdf(const char *name)
{
    unsigned domain, bus, device, function;
    int end = 0;
    return sscanf(name, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) == 4 &&
           name[end] == '\0';
}

static bool is_wanted(int64_t class, int64_t vendor)
{
    int64_t base = class >> 16;
    return base == CLASS_STORAGE || base == CLASS_NETWORK || base == CLASS_DISPLAY ||
           base == CLASS_ACCELERATOR || class >> 8 == CLASS_VIDEO ||
           (class >> 8 == CLASS_BRIDGE_OTHER && vendor == VENDOR_NVIDIA);
}

/* Reads the root complex and the bridge above from a link target such as
 * ".../pci0000:40/0000:40:01.1/0000:41:00.0". */
static void read_place(struct machine *machine, const char *link, struct machine_pci *pci)
{
    char target[4096];
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n < 0) {
        text_unknown(machine, &pci->parent, "%s: %s", link, strerror(errno));
        text_unknown(machine, &pci->root, "%s: %s", link, strerror(errno));
        return;
    }
    target[n] = '\0';
    char *save = NULL, *above = NULL, *last = NULL;
    for (char *part = strtok_r(target, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        if (strncmp(part, "pci", 3) == 0 && isxdigit((unsigned char)part[3]) && strchr(part, ':')) {
            text_set(machine, &pci->root, part + 3);
            above = last = NULL;
        } else if (is_bdf(part)) {
            above = last;
            last = part;
        }
    }
    text_set(machine, &pci->parent, above ? above : "");
}

/* PCIe generation of "16.0 GT/s PCIe" and older spellings; 0 for any other text. */
static int64_t generation_of(const char *speed)
{
    static const double rates[] = {2.5, 5, 8, 16, 32, 64, 128};
    double rate = strtod(speed, NULL);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (rate > rates[i] - 0.1 && rate < rates[i] + 0.1)
            return (int64_t)i + 1;
    return 0;
}

static void read_generation(const char *path, struct machine_number *to)
{
    char line[64];
    if (live_line(path, line, sizeof line) && generation_of(line))
        number_set(to, generation_of(line));
}

static void read_width(const char *path, struct machine_number *to)
{
    char line[64];
    long width;
    if (live_line(path, line, sizeof line) && (width = strtol(line, NULL, 10)) > 0 && width <= 32)
        number_set(to, width);
}

static const char *kind_name(const struct pci_config *config, int64_t class, bool at_root)
{
    if (config->port_type.known) {
        switch (config->port_type.value) {
        case PCI_ROOT_PORT:
            return "root-port";
        case PCI_UPSTREAM:
            return "upstream";
        case PCI_DOWNSTREAM:
            return "downstream";
        case PCI_TO_PCI_BRIDGE:
        case PCI_TO_PCIE_BRIDGE:
            return "bridge";
        case PCI_ROOT_INTEGRATED:
            return "integrated";
        case -1:
            return class >> 8 == 0x0604 ? "bridge" : at_root ? "integrated" : "conventional";
        default:
            return "endpoint";
        }
    }
    if (class >> 8 == 0x0600)
        return "host-bridge";
    if (class >> 8 == 0x0604)
        return at_root ? "root-port" : NULL; /* upstream or downstream: see infer_kinds() */
    return at_root ? "integrated" : "endpoint";
}

static void read_pci_link(const struct machine_source *source, const char *bdf,
                          const struct pci_config *config, struct machine_pci *pci)
{
    pci->gen = config->gen;
    pci->gen_max = config->gen_max;
    pci->width = config->width;
    pci->width_max = config->width_max;
    const char *base = "sys/bus/pci/devices";
    read_generation(live_path(source, "%s/%s/current_link_speed", base, bdf).text, &pci->gen);
    read_generation(live_path(source, "%s/%s/max_link_speed", base, bdf).text, &pci->gen_max);
    read_width(live_path(source, "%s/%s/current_link_width", base, bdf).text, &pci->width);
    read_width(live_path(source, "%s/%s/max_link_width", base, bdf).text, &pci->width_max);
}

static void read_bars(struct machine *machine, const struct machine_source *source, const char *bdf,
                      struct machine_pci *pci)
{
    char text[2048];
    long n = live_bytes(live_path(source, "sys/bus/pci/devices/%s/resource", bdf).text, text,
                        sizeof text - 1);
    if (n < 0) {
        number_unknown(machine, &pci->bar_bytes, "resource: %s", strerror(errno));
        return;
    }
    text[n] = '\0';
    uint64_t largest = 0;
    char *at = text;
    for (int bar = 0; bar < 6 && *at; bar++) {
        unsigned long long start, end, flags;
        if (sscanf(at, "%llx %llx %llx", &start, &end, &flags) == 3 && end > start &&
            end - start < INT64_MAX && (flags & 0x200) && end - start + 1 > largest)
            largest = end - start + 1;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    number_set(&pci->bar_bytes, (int64_t)largest);
}

/* Reads the total of an AER file ("RxErr 0 ... TOTAL_ERR_COR 12"). Kernels without AER, and devices
 * without the capability, have no such file. */
static void read_total(struct machine *machine, const char *path, const char *name,
                       struct machine_number *to)
{
    char text[4096];
    long n = live_bytes(path, text, sizeof text - 1);
    if (n < 0) {
        number_unknown(machine, to, "%s: %s", path, strerror(errno));
        return;
    }
    text[n] = '\0';
    const char *line = strstr(text, name);
    if (line)
        number_set(to, strtoll(line + strlen(name), NULL, 10));
    else
        number_unknown(machine, to, "%s has no %s", path, name);
}

static void read_aer(struct machine *machine, const struct machine_source *source, const char *bdf,
                     struct machine_pci *pci)
{
    const char *base = "sys/bus/pci/devices";
    struct machine_number fatal, other;
    read_total(machine, live_path(source, "%s/%s/aer_dev_correctable", base, bdf).text,
               "TOTAL_ERR_COR", &pci->aer_correctable);
    read_total(machine, live_path(source, "%s/%s/aer_dev_fatal", base, bdf).text, "TOTAL_ERR_FATAL",
               &fatal);
    read_total(machine, live_path(source, "%s/%s/aer_dev_nonfatal", base, bdf).text,
               "TOTAL_ERR_NONFATAL", &other);
    pci->aer_uncorrectable = fatal;
    if (fatal.known && other.known)
        number_set(&pci->aer_uncorrectable, fatal.value + other.value);
    else if (fatal.known)
        pci->aer_uncorrectable = other;
}

static void read_config(struct machine *machine, const struct machine_source *source,
                        const char *bdf, struct machine_pci *pci)
{
    uint8_t bytes[4096];
    struct pci_config config;
    long n = live_bytes(live_path(source, "sys/bus/pci/devices/%s/config", bdf).text, bytes,
                        sizeof bytes);
    pci_config_read(bytes, n < 0 ? 0 : (size_t)n, &config);
    pci->acs = config.acs;
    pci->acs_control = config.acs_control;
    pci->p2p_clique = config.p2p_clique;
    pci->payload_bytes = config.payload;
    pci->payload_max_bytes = config.payload_max;
    pci->read_request_bytes = config.read_request;
    pci->relaxed_ordering = config.relaxed_ordering;
    read_pci_link(source, bdf, &config, pci);
    const char *kind = kind_name(&config, number_or(pci->class, 0), !text_or(pci->parent, "")[0]);
    if (kind)
        text_set(machine, &pci->kind, kind);
    else
        text_unknown(machine, &pci->kind, "%s", why_unknown(config.port_type.why));
}

static void read_device(struct machine *machine, const struct machine_source *source,
                        const char *bdf)
{
    const char *base = "sys/bus/pci/devices";
    char name[256];
    struct machine_pci *pci = machine_add_pci(machine);
    text_set(machine, &pci->bdf, bdf);
    read_place(machine, live_path(source, "%s/%s", base, bdf).text, pci);
    live_number(machine, &pci->class, live_path(source, "%s/%s/class", base, bdf).text);
    live_number(machine, &pci->vendor, live_path(source, "%s/%s/vendor", base, bdf).text);
    live_number(machine, &pci->device, live_path(source, "%s/%s/device", base, bdf).text);
    live_number(machine, &pci->numa, live_path(source, "%s/%s/numa_node", base, bdf).text);
    text_set(machine, &pci->driver,
             live_link(live_path(source, "%s/%s/driver", base, bdf).text, name, sizeof name) ? name
                                                                                             : "");
    number_set(&pci->iommu_group,
               live_link(live_path(source, "%s/%s/iommu_group", base, bdf).text, name, sizeof name)
                   ? strtol(name, NULL, 10)
                   : -1);
    number_set(&pci->virtual_function,
               live_exists(live_path(source, "%s/%s/physfn", base, bdf).text));
    read_config(machine, source, bdf, pci);
    read_bars(machine, source, bdf, pci);
    read_aer(machine, source, bdf, pci);
}

static void read_with_bridges(struct machine *machine, const struct machine_source *source,
                              const char *bdf)
{
    for (int depth = 0; depth < 64 && *bdf && !machine_find_pci(machine, bdf); depth++) {
        size_t at = machine->n_pci;
        read_device(machine, source, bdf);
        bdf = text_or(machine->pci[at].parent, "");
    }
}

/* Infers the kinds of switch ports, which only root can read: PCI Express allows only an upstream
 * port below a root port or downstream port, and only a downstream port below an upstream port. */
static void infer_kinds(struct machine *machine)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < machine->n_pci; i++) {
            struct machine_pci *pci = &machine->pci[i];
            const struct machine_pci *above = machine_find_pci(machine, pci->parent.value);
            if (pci->kind.value || !pci->gen.known || !above || !above->kind.value)
                continue;
            text_set(machine, &pci->kind,
                     text_is(above->kind, "upstream") ? "downstream" : "upstream");
            again = true;
        }
    }
}

static int by_bdf(const void *a, const void *b)
{
    const struct machine_pci *x = a, *y = b;
    return strcmp(x->bdf.value, y->bdf.value);
}

void live_pci(struct machine *machine, const struct machine_source *source)
{
    const char *base = "sys/bus/pci/devices";
    const char **names = live_names(machine, live_path(source, "%s", base).text);
    for (; *names; names++) {
        struct machine_number class, vendor;
        if (!is_bdf(*names))
            continue;
        live_number(machine, &class, live_path(source, "%s/%s/class", base, *names).text);
        live_number(machine, &vendor, live_path(source, "%s/%s/vendor", base, *names).text);
        if (is_wanted(number_or(class, 0), number_or(vendor, 0)))
            read_with_bridges(machine, source, *names);
    }
    if (machine->n_pci)
        qsort(machine->pci, machine->n_pci, sizeof *machine->pci, by_bdf);
    infer_kinds(machine);
}

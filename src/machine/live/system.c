/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel, virtualization, kernel modules and installed libraries. Loads none of the libraries.
 */
#include "machine/live/live.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { TEXT_MOST = 1 << 16 };

/* --- virtualization --------------------------------------------------------------------------- */

static const char *hypervisor_by_cpuid(void)
{
#if defined(__x86_64__)
    static const struct {
        const char *signature, *name;
    } known[] = {
        {"KVMKVMKVM", "kvm"},    {"VMwareVMware", "vmware"}, {"Microsoft Hv", "hyperv"},
        {"XenVMMXenVMM", "xen"}, {"TCGTCGTCGTCG", "qemu"},
    };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 31)))
        return "none";
    char signature[13] = "";
    __cpuid(0x40000000, a, b, c, d);
    memcpy(signature, &b, 4);
    memcpy(signature + 4, &c, 4);
    memcpy(signature + 8, &d, 4);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(signature, known[i].signature) == 0)
            return known[i].name;
    return "other";
#else
    return NULL;
#endif
}

static const char *hypervisor_by_files(const struct machine_source *source)
{
    char vendor[128] = "", product[128] = "", tree[128] = "", cpuinfo[TEXT_MOST];
    live_line(live_path(source, "sys/class/dmi/id/sys_vendor").text, vendor, sizeof vendor);
    live_line(live_path(source, "sys/class/dmi/id/product_name").text, product, sizeof product);
    if (!live_line(live_path(source, "proc/device-tree/hypervisor/compatible").text, tree,
                   sizeof tree))
        live_line(live_path(source, "proc/device-tree/compatible").text, tree, sizeof tree);
    long n = live_bytes(live_path(source, "proc/cpuinfo").text, cpuinfo, sizeof cpuinfo - 1);
    cpuinfo[n > 0 ? n : 0] = '\0';
    if (strstr(vendor, "QEMU") || strstr(product, "KVM"))
        return "kvm";
    if (strstr(vendor, "VMware"))
        return "vmware";
    if (strstr(vendor, "Microsoft") && strstr(product, "Virtual"))
        return "hyperv";
    if (strstr(vendor, "Xen"))
        return "xen";
    if ((strstr(vendor, "Amazon EC2") && !strstr(product, ".metal")) || strstr(vendor, "Google"))
        return "kvm";
    /* a device tree, which machines with Arm CPUs may have in place of DMI */
    if (strstr(tree, "linux,kvm"))
        return "kvm";
    if (strstr(tree, "linux,dummy-virt"))
        return "qemu";
    if (strstr(tree, "xen,xen"))
        return "xen";
    return strstr(cpuinfo, " hypervisor") ? "other" : n > 0 && vendor[0] ? "none" : NULL;
}

/* Guests of Firecracker have a host bridge 8086:0d57 at 0000:00:00.0. */
static bool is_firecracker(const struct machine_source *source, const char *command_line)
{
    char vendor[16] = "", device[16] = "";
    const char *base = "sys/bus/pci/devices/0000:00:00.0";
    live_line(live_path(source, "%s/vendor", base).text, vendor, sizeof vendor);
    live_line(live_path(source, "%s/device", base).text, device, sizeof device);
    return strstr(command_line, "firecracker") ||
           (strcmp(vendor, "0x8086") == 0 && strcmp(device, "0x0d57") == 0);
}

static void read_hypervisor(struct machine *machine, const struct machine_source *source,
                            const char *command_line)
{
    const char *name = *source->root ? NULL : hypervisor_by_cpuid();
    if (!name)
        name = hypervisor_by_files(source);
    if (name && strcmp(name, "none") != 0 && is_firecracker(source, command_line))
        name = "firecracker";
    if (name)
        text_set(machine, &machine->system.hypervisor, name);
    else
        text_unknown(machine, &machine->system.hypervisor,
                     "neither CPUID, DMI nor a device tree shows it");
}

static void read_container(struct machine *machine, const struct machine_source *source)
{
    char cgroup[4096] = "";
    long n = live_bytes(live_path(source, "proc/1/cgroup").text, cgroup, sizeof cgroup - 1);
    cgroup[n > 0 ? n : 0] = '\0';
    const char *name = "none";
    if (strstr(cgroup, "lxc"))
        name = "lxc";
    if (live_exists(live_path(source, ".dockerenv").text) || strstr(cgroup, "docker"))
        name = "docker";
    if (live_exists(live_path(source, "run/.containerenv").text))
        name = "podman";
    if (live_exists(live_path(source, "var/run/secrets/kubernetes.io").text) ||
        strstr(cgroup, "kubepods"))
        name = "kubernetes";
    text_set(machine, &machine->system.container, name);
}

/* --- kernel and IOMMU ------------------------------------------------------------------------- */

static void read_iommu_options(struct machine *machine, char *command_line)
{
    static const char *const prefixes[] = {
        "iommu", "intel_iommu", "amd_iommu", "pci=", "pcie_", "vfio", "arm-smmu"};
    char options[512] = "", *save = NULL;
    for (char *word = strtok_r(command_line, " ", &save); word; word = strtok_r(NULL, " ", &save))
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (strncmp(word, prefixes[i], strlen(prefixes[i])) == 0 &&
                strlen(options) + strlen(word) + 2 < sizeof options) {
                strcat(options, *options ? " " : "");
                strcat(options, word);
                break;
            }
    text_set(machine, &machine->system.iommu_options, options);
}

static void read_iommu(struct machine *machine, const struct machine_source *source)
{
    const char **groups = live_names(machine, live_path(source, "sys/kernel/iommu_groups").text);
    int64_t n = 0;
    char type[64] = "";
    for (; groups[n]; n++)
        if (!*type)
            live_line(live_path(source, "sys/kernel/iommu_groups/%s/type", groups[n]).text, type,
                      sizeof type);
    if (!live_exists(live_path(source, "sys/bus/pci").text)) {
        text_unknown(machine, &machine->system.iommu_mode, "sysfs is not mounted");
        return;
    }
    number_set(&machine->system.iommu_groups, n);
    if (n == 0)
        text_set(machine, &machine->system.iommu_mode, "off");
    else if (strcmp(type, "identity") == 0)
        text_set(machine, &machine->system.iommu_mode, "passthrough");
    else if (strncmp(type, "DMA", 3) == 0)
        text_set(machine, &machine->system.iommu_mode, "translated");
    else
        text_unknown(machine, &machine->system.iommu_mode, "the type of IOMMU group 0 reads \"%s\"",
                     type);
}

/* Page size, which each process has in its auxiliary vector, and automatic NUMA balancing. */
static void read_memory_settings(struct machine *machine, const struct machine_source *source)
{
    struct machine_system *s = &machine->system;
    struct live_path path = live_path(source, "proc/self/auxv");
    unsigned long vector[128];
    long n = live_bytes(path.text, vector, sizeof vector);
    for (long i = 0; 8 * (i + 1) < n; i += 2)
        if (vector[i] == AT_PAGESZ)
            number_set(&s->page_bytes, (int64_t)vector[i + 1]);
    if (!s->page_bytes.known)
        number_unknown(machine, &s->page_bytes, "%s has no AT_PAGESZ", path.text);
    live_number(machine, &s->numa_balancing,
                live_path(source, "proc/sys/kernel/numa_balancing").text);
}

/* The last init_on_alloc= of the command line; else what the kernel was built with. */
static void read_init_on_alloc(struct machine *machine, const struct machine_source *source,
                               const char *config)
{
    char command_line[4096] = "";
    struct machine_number *to = &machine->system.init_on_alloc;
    static const char option[] = "init_on_alloc=";
    live_line(live_path(source, "proc/cmdline").text, command_line, sizeof command_line);
    if (config)
        number_set(to, strstr(config, "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y") != NULL);
    for (const char *at = command_line; (at = strstr(at, option));) {
        at += sizeof option - 1;
        number_set(to, *at == '1' || *at == 'y' || *at == 'Y' || strncmp(at, "on", 2) == 0);
    }
}

void live_system(struct machine *machine, const struct machine_source *source)
{
    struct machine_system *s = &machine->system;
    struct utsname name;
    char command_line[4096] = "";
    bool here = !*source->root;
    if (here && uname(&name) == 0) {
        text_set(machine, &s->hostname, name.nodename);
        text_set(machine, &s->kernel, name.release);
        text_set(machine, &s->arch, name.machine);
    } else {
        live_text(machine, &s->hostname, live_path(source, "proc/sys/kernel/hostname").text);
        live_text(machine, &s->kernel, live_path(source, "proc/sys/kernel/osrelease").text);
    }
    number_set(&s->as_root, here && geteuid() == 0);
    live_line(live_path(source, "proc/cmdline").text, command_line, sizeof command_line);
    read_hypervisor(machine, source, command_line);
    read_container(machine, source);
    read_iommu(machine, source);
    read_memory_settings(machine, source);
    read_iommu_options(machine, command_line);
}

/* --- drivers ---------------------------------------------------------------------------------- */

static void set_module_flag(const struct machine_source *source, struct machine_number *to,
                            const char *name, const char *other_name)
{
    number_set(
        to, live_exists(live_path(source, "sys/module/%s", name).text) ||
                (other_name && live_exists(live_path(source, "sys/module/%s", other_name).text)));
}

static void read_nvidia_version(struct machine *machine, const struct machine_source *source)
{
    struct machine_driver *d = &machine->drivers;
    char line[512];
    struct live_path path = live_path(source, "proc/driver/nvidia/version");
    if (!live_line(path.text, line, sizeof line)) {
        text_unknown(machine, &d->nvidia_module, "%s: %s", path.text, strerror(errno));
        text_unknown(machine, &d->nvidia_flavor, "%s: %s", path.text, strerror(errno));
        return;
    }
    text_set(machine, &d->nvidia_flavor, strstr(line, "Open Kernel Module") ? "open" : "closed");
    char *save = NULL;
    for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
        if (isdigit((unsigned char)word[0]) && strspn(word, "0123456789.") == strlen(word) &&
            strchr(word, '.')) {
            text_set(machine, &d->nvidia_module, word);
            return;
        }
    text_unknown(machine, &d->nvidia_module, "%s contains no version", path.text);
}

static void read_nvidia_parameters(struct machine *machine, const struct machine_source *source)
{
    struct machine_driver *d = &machine->drivers;
    char text[TEXT_MOST];
    struct live_path path = live_path(source, "proc/driver/nvidia/params");
    long n = live_bytes(path.text, text, sizeof text - 1);
    if (n < 0) {
        text_unknown(machine, &d->registry_dwords, "%s: %s", path.text, strerror(errno));
        number_unknown(machine, &d->peer_mapping_override, "%s: %s", path.text, strerror(errno));
        number_unknown(machine, &d->stream_memops, "%s: %s", path.text, strerror(errno));
        return;
    }
    text[n] = '\0';
    char *save = NULL, value[1024] = "";
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int number;
        if (sscanf(line, "RegistryDwords: \"%1023[^\"]\"", value) == 1)
            continue;
        if (sscanf(line, "EnableStreamMemOPs: %d", &number) == 1)
            number_set(&d->stream_memops, number != 0);
    }
    text_set(machine, &d->registry_dwords, value);
    number_set(&d->peer_mapping_override, strstr(value, "PeerMappingOverride=1") != NULL);
}

/* Search directories of the loader: LD_LIBRARY_PATH, ld.so.conf.d and the standard directories. */
struct library_dirs {
    const char *dirs[128];
    size_t n;
};

static void add_dir(struct library_dirs *dirs, const char *dir)
{
    if (dirs->n < sizeof dirs->dirs / sizeof dirs->dirs[0] && *dir == '/')
        dirs->dirs[dirs->n++] = dir;
}

static void read_loader_conf(struct machine *machine, const struct machine_source *source,
                             struct library_dirs *dirs)
{
    glob_t found;
    if (glob(live_path(source, "etc/ld.so.conf.d/*.conf").text, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char text[4096], *save = NULL;
        long n = live_bytes(found.gl_pathv[i], text, sizeof text - 1);
        text[n > 0 ? n : 0] = '\0';
        for (char *line = strtok_r(text, " \t\n", &save); line;
             line = strtok_r(NULL, " \t\n", &save))
            add_dir(dirs, machine_printf(machine, "%s", line));
    }
    globfree(&found);
}

static void find_library(struct machine *machine, const struct machine_source *source,
                         const struct library_dirs *dirs, struct machine_text *to, const char *name)
{
    for (size_t i = 0; i < dirs->n; i++) {
        char target[256];
        struct live_path path = live_path(source, "%s/%s", dirs->dirs[i] + 1, name);
        if (!live_exists(path.text))
            continue;
        text_set(machine, to, live_link(path.text, target, sizeof target) ? target : name);
        return;
    }
    text_set(machine, to, "");
}

static void read_libraries(struct machine *machine, const struct machine_source *source)
{
    static const char *const standard[] = {"/lib/x86_64-linux-gnu",
                                           "/usr/lib/x86_64-linux-gnu",
                                           "/lib/aarch64-linux-gnu",
                                           "/usr/lib/aarch64-linux-gnu",
                                           "/lib64",
                                           "/usr/lib64",
                                           "/lib",
                                           "/usr/lib",
                                           "/usr/local/cuda/lib64",
                                           "/usr/local/nvidia/lib64",
                                           "/usr/local/lib"};
    struct library_dirs dirs = {.n = 0};
    struct machine_driver *d = &machine->drivers;
    const char *path = *source->root ? NULL : getenv("LD_LIBRARY_PATH");
    char copy[4096], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path ? path : "");
    for (char *dir = strtok_r(copy, ":", &save); dir; dir = strtok_r(NULL, ":", &save))
        add_dir(&dirs, dir);
    read_loader_conf(machine, source, &dirs);
    const char *arch = text_or(machine->system.arch, ""); /* a machine may have libraries of both */
    const char *other = strcmp(arch, "aarch64") == 0 ? "x86_64" : *arch ? "aarch64" : "?";
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
        if (!strstr(standard[i], other))
            add_dir(&dirs, standard[i]);
    find_library(machine, source, &dirs, &d->libcuda, "libcuda.so.1");
    find_library(machine, source, &dirs, &d->libibverbs, "libibverbs.so.1");
    find_library(machine, source, &dirs, &d->libmlx5, "libmlx5.so.1");
    find_library(machine, source, &dirs, &d->libfabric, "libfabric.so.1");
    find_library(machine, source, &dirs, &d->libcufile, "libcufile.so.0");
    find_library(machine, source, &dirs, &d->libgdrapi, "libgdrapi.so.2");
}

static void set_kernel_option(const char *config, struct machine_number *to, const char *option)
{
    char line[128];
    snprintf(line, sizeof line, "%s=y", option);
    number_set(to, strstr(config, line) != NULL);
}

static void read_kernel_options(struct machine *machine, const struct machine_source *source)
{
    struct machine_driver *d = &machine->drivers;
    const char *release = text_or(machine->system.kernel, "");
    struct live_path path = live_path(source, "boot/config-%s", release);
    enum { CONFIG_BYTES = 1 << 20 };
    char *config = malloc(CONFIG_BYTES);
    long n = config ? live_bytes(path.text, config, CONFIG_BYTES - 1) : -1;
    if (n < 0) {
        number_unknown(machine, &d->nvme_p2pdma, "%s: %s", path.text, strerror(errno));
        number_unknown(machine, &d->kernel_dmabuf_move, "%s: %s", path.text, strerror(errno));
    } else {
        config[n] = '\0';
        set_kernel_option(config, &d->nvme_p2pdma, "CONFIG_PCI_P2PDMA");
        set_kernel_option(config, &d->kernel_dmabuf_move, "CONFIG_DMABUF_MOVE_NOTIFY");
    }
    read_init_on_alloc(machine, source, n < 0 ? NULL : config);
    free(config);
}

void live_drivers(struct machine *machine, const struct machine_source *source)
{
    struct machine_driver *d = &machine->drivers;
    read_nvidia_version(machine, source);
    read_nvidia_parameters(machine, source);
    live_services(machine, source);
    set_module_flag(source, &d->nvidia_uvm, "nvidia_uvm", NULL);
    set_module_flag(source, &d->nvidia_peermem, "nvidia_peermem", "nv_peer_mem");
    set_module_flag(source, &d->gdrdrv, "gdrdrv", NULL);
    set_module_flag(source, &d->nvidia_fs, "nvidia_fs", NULL);
    set_module_flag(source, &d->ib_uverbs, "ib_uverbs", NULL);
    live_text(machine, &d->amdgpu_module, live_path(source, "sys/module/amdgpu/version").text);
    read_kernel_options(machine, source);
    read_libraries(machine, source);
}

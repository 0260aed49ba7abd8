/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of files: whether a GPU can read them directly. See checks.h. */
#include "machine/checks/checks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { P2PDMA_DRIVER = 570 };

static bool has_option(const char *options, const char *option)
{
    size_t length = strlen(option);
    for (const char *at = options; at && *at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, option, length) == 0)
            return true;
    }
    return false;
}

static void check_mount(const struct machine_mount *mount, struct findings *findings)
{
    const char *type = text_or(mount->type, "unknown"), *options = text_or(mount->options, "");
    const char *path = text_or(mount->path, "?");
    bool nfs = strncmp(type, "nfs", 3) == 0;
    if (!word_is_one_of(type, "ext4|xfs|lustre|nfs|nfs4|wekafs|gpfs|beegfs"))
        finding_add(findings, REASON_FILE_SYSTEM, WEIGHT_OFF, path, "%s is of type %s", path, type);
    bool bad = (strcmp(type, "ext4") == 0 && has_option(options, "data=journal")) ||
               has_option(options, "compress") || (nfs && !has_option(options, "proto=rdma"));
    if (bad)
        finding_add(findings, REASON_FILE_OPTIONS, WEIGHT_OFF, path, "%s is mounted %s with %s",
                    path, type, options);
}

/* NVIDIA lists RAID 0 and 1 as supported. Parity RAIDs cannot work: the CPU must see the data to
 * compute parity. NVIDIA says nothing about other levels. */
static void check_raid_level(const struct machine_disk *disk, struct findings *findings)
{
    const char *level = text_or(disk->raid_level, ""), *name = text_or(disk->name, "?");
    if (!text_is(disk->kind, "raid") || !*level || word_is_one_of(level, "raid0|raid1"))
        return;
    bool parity = word_is_one_of(level, "raid4|raid5|raid6");
    finding_repair(finding_add(findings, REASON_FILE_RAID_LEVEL,
                               parity ? WEIGHT_OFF : WEIGHT_UNKNOWN, name, "%s has level %s", name,
                               level),
                   "set disks[%s].raid_level raid0", name);
}

static void check_disk(const struct machine *machine, const struct endpoint *gpu,
                       const struct machine_mount *mount, struct findings *findings)
{
    const char *name = text_or(mount->disk, "");
    const struct machine_disk *disk = machine_find_disk(machine, name);
    const char *type = text_or(mount->type, "");
    bool remote = word_is_one_of(type, "lustre|nfs|nfs4|wekafs|gpfs|beegfs");
    if (remote)
        return;
    if (!disk || !disk->kind.value || !word_is_one_of(disk->kind.value, "nvme|nvme-of|raid")) {
        finding_add(findings, REASON_FILE_DEVICE, WEIGHT_OFF, name, "%s is on %s (%s)",
                    text_or(mount->path, "?"), *name ? name : "no block device",
                    disk ? text_or(disk->kind, "kind not known") : "not a disk of this machine");
        return;
    }
    if (disk->raid_members_nvme.known &&
        disk->raid_members_nvme.value < number_or(disk->raid_members, 0))
        finding_repair(finding_add(findings, REASON_FILE_RAID, WEIGHT_OFF, name,
                                   "%s: %" PRId64 " of %" PRId64 " members are NVMe drives", name,
                                   disk->raid_members_nvme.value, disk->raid_members.value),
                       "set disks[%s].raid_members_nvme %" PRId64, name, disk->raid_members.value);
    check_raid_level(disk, findings);
    const struct machine_pci *pci = machine_find_pci(machine, disk->bdf.value);
    enum level level = routes_level(machine, gpu->pci, pci);
    if (pci && gpu->pci && level >= LEVEL_PHB && level != LEVEL_UNKNOWN)
        finding_add(findings, REASON_FILE_FAR, WEIGHT_SLOW, name, "%s and %s are at distance %s",
                    gpu->name, name, level_name(level));
}

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += length)
        if ((at == text || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' '))
            return true;
    return false;
}

/* Version of the NVIDIA driver, 570 of "570.86.15"; `otherwise` when it is not known. */
static long driver_major(const struct machine_driver *drivers, long otherwise)
{
    const char *version = text_or(drivers->driver, text_or(drivers->nvidia_module, ""));
    long major = strtol(version, NULL, 10);
    return major > 0 ? major : otherwise;
}

/* The driver is known to be too old for the kernel's P2PDMA. */
static bool has_old_driver(const struct machine *machine)
{
    return driver_major(&machine->drivers, P2PDMA_DRIVER) < P2PDMA_DRIVER;
}

/* The kernel's P2PDMA needs no nvidia_fs; cuFile does not use it for a RAID. */
static bool p2pdma_works(const struct machine *machine, const struct machine_mount *mount)
{
    const struct machine_disk *disk = machine_find_disk(machine, text_or(mount->disk, ""));
    return number_is(machine->drivers.nvme_p2pdma, 1) && !has_old_driver(machine) &&
           !(disk && text_is(disk->kind, "raid"));
}

static void check_module(const struct machine *machine, const struct machine_mount *mount,
                         struct findings *findings)
{
    bool kernel = number_is(machine->drivers.nvme_p2pdma, 1);
    bool works = p2pdma_works(machine, mount), old = has_old_driver(machine);
    if (!number_is(machine->drivers.nvidia_fs, 0))
        return;
    struct finding *f =
        finding_add(findings, REASON_FILE_NO_FS_MODULE, works ? WEIGHT_NOTE : WEIGHT_OFF, NULL,
                    "module nvidia_fs is not loaded%s",
                    !kernel || works ? ""
                    : old            ? ", and this driver is older than 570, which has P2PDMA"
                                     : ", and cuFile does not use P2PDMA for a RAID");
    if (kernel && !works && !old)
        finding_remedy(f, "modprobe nvidia_fs (package nvidia-gds)", "");
    finding_repair(f, "load module nvidia_fs");
}

/* nvidia_fs is loaded, but no driver of this kind of disk has registered with it. */
static void check_nvme_driver(const struct machine *machine, const struct machine_mount *mount,
                              struct findings *findings)
{
    const struct machine_driver *d = &machine->drivers;
    const struct machine_disk *disk = machine_find_disk(machine, text_or(mount->disk, ""));
    const char *kind = disk ? text_or(disk->kind, "") : "";
    const char *wanted = strcmp(kind, "nvme") == 0 || strcmp(kind, "raid") == 0 ? "nvme"
                         : strcmp(kind, "nvme-of") == 0                         ? "nvme_rdma"
                                                                                : NULL;
    if (!wanted || !number_is(d->nvidia_fs, 1) || !d->nvidia_fs_modules.value ||
        has_word(d->nvidia_fs_modules.value, wanted))
        return;
    finding_repair(finding_add(findings, REASON_FILE_NVME_DRIVER,
                               p2pdma_works(machine, mount) ? WEIGHT_NOTE : WEIGHT_OFF, NULL,
                               "registered with nvidia_fs: %s; %s is not",
                               *d->nvidia_fs_modules.value ? d->nvidia_fs_modules.value : "nothing",
                               wanted),
                   "set drivers.nvidia_fs_modules %s", wanted);
}

/* Runs after all other checks: cuFile's compatibility mode matters only where no direct route
 * works, or where it is forced. */
static void check_compat(const struct machine *machine, struct findings *findings)
{
    const struct machine_driver *d = &machine->drivers;
    if (text_is(d->cufile_compat, "forced"))
        finding_repair(finding_add(findings, REASON_FILE_COMPAT, WEIGHT_OFF, NULL,
                                   "force_compat_mode is true in cufile.json"),
                       "set drivers.cufile_compat allowed");
    else if (text_is(d->cufile_compat, "allowed") &&
             findings_turn_off(findings, ROUTE_BIT(ROUTE_PEER)))
        finding_add(findings, REASON_FILE_COMPAT, WEIGHT_NOTE, NULL,
                    "allow_compat_mode is true for cuFile, and no direct route works");
}

static void add_file(const struct machine *machine, const struct endpoint *gpu, const char *path,
                     const struct machine_mount *mount, struct findings *findings)
{
    const struct machine_gpu *g = machine_find_gpu(machine, gpu->index);
    if (!mount) {
        finding_add(findings, REASON_FILE_MOUNT, WEIGHT_UNKNOWN, NULL,
                    "no mount of this machine covers %s", path);
        return;
    }
    check_mount(mount, findings);
    if (word_is_one_of(text_or(mount->type, "unknown"), "tmpfs|ramfs"))
        finding_add(findings, REASON_FILE_BUFFERED, WEIGHT_OFF, mount->path.value,
                    "%s is of type %s", text_or(mount->path, "?"), mount->type.value);
    check_disk(machine, gpu, mount, findings);
    if (!text_is(g->vendor, "nvidia"))
        return;
    check_module(machine, mount, findings);
    check_nvme_driver(machine, mount, findings);
    if (number_is(machine->drivers.nvme_p2pdma, 0) && number_is(machine->drivers.nvidia_fs, 0))
        finding_repair(finding_add(findings, REASON_FILE_P2PDMA, WEIGHT_OFF, NULL,
                                   "CONFIG_PCI_P2PDMA is not set in this kernel (%s)",
                                   text_or(machine->system.kernel, "?")),
                       "set drivers.nvme_p2pdma yes");
    if (text_is(machine->drivers.libcufile, ""))
        finding_repair(finding_add(findings, REASON_FILE_NO_CUFILE, WEIGHT_OFF, NULL,
                                   "libcufile.so.0 not found"),
                       "set drivers.libcufile libcufile.so.0");
    else if (number_is(machine->limits.udev_data, 0))
        finding_repair(finding_add(findings, REASON_FILE_CUFILE, WEIGHT_OFF, NULL,
                                   "/run/udev/data does not exist"),
                       "set limits.udev_data yes");
    if (text_is(machine->system.iommu_mode, "translated"))
        finding_repair(finding_add(findings, REASON_P2P_IOMMU,
                                   findings_turn_off(findings, ROUTE_BIT(ROUTE_PEER)) ? WEIGHT_NOTE
                                                                                      : WEIGHT_SLOW,
                                   NULL, "IOMMU groups are of type DMA; kernel options \"%s\"",
                                   text_or(machine->system.iommu_options, "")),
                       "set iommu passthrough");
    check_compat(machine, findings);
}

void check_file(const struct machine *machine, const struct endpoint *gpu, const char *path,
                const struct machine_mount *mount, struct findings *findings)
{
    struct findings own = {
        .place = findings->place, .path = "GPUDirect Storage", .routes_off = ROUTE_BIT(ROUTE_PEER)};
    findings->path = own.path;
    add_file(machine, gpu, path, mount, &own);
    findings_merge(findings, &own);
}

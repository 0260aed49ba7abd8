/* SPDX-License-Identifier: Apache-2.0 */
/* Block devices and mounts, from sysfs and /proc. */
#include "machine/live/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *kind_of(const char *name)
{
    static const struct {
        const char *prefix, *kind;
    } kinds[] = {
        {"nvme", "nvme"}, {"vd", "virtio"}, {"sd", "scsi"}, {"md", "raid"}, {"dm-", "mapper"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
            return kinds[i].kind;
    return NULL; /* loop, ram, zram: jobs keep no data there */
}

/* With native multipath the block device "nvme0n1" is below its subsystem in sysfs, so the facts
 * come from the entry of its controller "nvme0". */
static void read_nvme(struct machine *machine, const struct machine_source *source,
                      const char *name, struct machine_disk *disk)
{
    char controller[64], line[128];
    int number;
    if (sscanf(name, "nvme%d", &number) != 1)
        return;
    snprintf(controller, sizeof controller, "nvme%d", number);
    const char *base = "sys/class/nvme";
    live_text(machine, &disk->model, live_path(source, "%s/%s/model", base, controller).text);
    live_text(machine, &disk->serial, live_path(source, "%s/%s/serial", base, controller).text);
    if (!live_line(live_path(source, "%s/%s/transport", base, controller).text, line, sizeof line))
        text_unknown(machine, &disk->transport, "%s/%s/transport: %s", base, controller,
                     strerror(errno));
    else if (word_is_one_of(line, "pcie|rdma|tcp|fc|loop"))
        text_set(machine, &disk->transport, line);
    if (disk->transport.value && !text_is(disk->transport, "pcie"))
        text_set(machine, &disk->kind, "nvme-of");
    if (!*text_or(disk->bdf, "") &&
        live_line(live_path(source, "%s/%s/address", base, controller).text, line, sizeof line) &&
        text_is(disk->transport, "pcie"))
        text_set(machine, &disk->bdf, line);
}

/* A member of a RAID is a disk or a partition, such as "nvme0n1p2". */
static void read_raid(struct machine *machine, const struct machine_source *source,
                      const char *name, struct machine_disk *disk)
{
    const char *base = "sys/block";
    const char **members = live_names(machine, live_path(source, "%s/%s/slaves", base, name).text);
    struct machine_number missing;
    int64_t n = 0, nvme = 0;
    for (; members[n]; n++)
        nvme += strncmp(members[n], "nvme", 4) == 0;
    live_text(machine, &disk->raid_level, live_path(source, "%s/%s/md/level", base, name).text);
    number_set(&disk->raid_members, n);
    number_set(&disk->raid_members_nvme, nvme);
    live_number(machine, &missing, live_path(source, "%s/%s/md/degraded", base, name).text);
    disk->raid_missing = missing; /* levels without redundancy have no such file */
}

static void read_disk(struct machine *machine, const struct machine_source *source,
                      const char *name, const char *kind)
{
    const char *base = "sys/block";
    struct machine_number sectors;
    struct machine_disk *disk = machine_add_disk(machine);
    text_set(machine, &disk->name, name);
    text_set(machine, &disk->kind, kind);
    live_pci_address(machine, &disk->bdf, live_path(source, "sys/block/%s", name).text);
    live_number(machine, &sectors, live_path(source, "%s/%s/size", base, name).text);
    if (sectors.known && sectors.value >= 0 && sectors.value < INT64_MAX / 512)
        number_set(&disk->bytes, sectors.value * 512);
    live_number(machine, &disk->block_bytes,
                live_path(source, "%s/%s/queue/logical_block_size", base, name).text);
    text_set(machine, &disk->transport, "none");
    if (strcmp(kind, "nvme") == 0)
        read_nvme(machine, source, name, disk);
    if (strcmp(kind, "raid") == 0)
        read_raid(machine, source, name, disk);
    else
        text_set(machine, &disk->raid_level, "");
    number_set(
        &disk->p2p_memory,
        *text_or(disk->bdf, "") &&
            live_exists(live_path(source, "sys/bus/pci/devices/%s/p2pmem", disk->bdf.value).text));
}

static bool is_pseudo(const char *type)
{
    return word_is_one_of(type, "proc|sysfs|devpts|devtmpfs|cgroup|cgroup2|mqueue|debugfs|tracefs|"
                                "securityfs|pstore|bpf|configfs|fusectl|hugetlbfs|autofs|"
                                "binfmt_misc|rpc_pipefs|nsfs|ramfs|efivarfs|selinuxfs|squashfs");
}

/* Sets the whole disk of a mounted device: sysfs has "/dev/nvme0n1p2" as
 * ".../block/nvme0n1/nvme0n1p2". */
static void set_disk(struct machine *machine, const struct machine_source *source,
                     struct machine_mount *mount)
{
    char target[4096];
    const char *name = strrchr(mount->source.value, '/');
    text_set(machine, &mount->disk, "");
    if (strncmp(mount->source.value, "/dev/", 5) != 0)
        return;
    ssize_t n =
        readlink(live_path(source, "sys/class/block/%s", name + 1).text, target, sizeof target - 1);
    if (n < 0)
        return;
    target[n] = '\0';
    char *disk = strstr(target, "/block/");
    if (!disk)
        return;
    disk += strlen("/block/");
    disk[strcspn(disk, "/")] = '\0';
    text_set(machine, &mount->disk, disk);
}

/* Undoes the escapes of /proc/self/mounts: space, tab, newline and backslash are octal there. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        int used = 0;
        if (from[0] == '\\' && sscanf(from + 1, "%3o%n", &code, &used) == 1 && used == 3) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static void read_mount(struct machine *machine, const struct machine_source *source, char *line)
{
    char *save = NULL;
    char *what = strtok_r(line, " ", &save), *path = strtok_r(NULL, " ", &save);
    char *type = strtok_r(NULL, " ", &save), *options = strtok_r(NULL, " ", &save);
    if (!options || is_pseudo(type))
        return;
    unescape(what);
    unescape(path);
    struct machine_mount *mount = machine_add_mount(machine);
    text_set(machine, &mount->source, what);
    text_set(machine, &mount->path, path);
    text_set(machine, &mount->type, type);
    text_set(machine, &mount->options, options);
    set_disk(machine, source, mount);
}

void live_disk(struct machine *machine, const struct machine_source *source)
{
    const char **names = live_names(machine, live_path(source, "sys/block").text);
    for (; *names; names++)
        if (kind_of(*names))
            read_disk(machine, source, *names, kind_of(*names));
    FILE *mounts = fopen(live_path(source, "proc/self/mounts").text, "re");
    char *line = NULL;
    size_t size = 0;
    while (mounts && getline(&line, &size, mounts) > 0) {
        line[strcspn(line, "\n")] = '\0';
        read_mount(machine, source, line);
    }
    free(line);
    if (mounts)
        fclose(mounts);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the file system of a file (/proc/self/mountinfo) and its device (/sys). Only for
 * display; no decision depends on it. Sources: proc(5); the kernel's
 * Documentation/ABI/testing/sysfs-block, and the attribute `transport` of nvme. */
#include "file/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct mount {
    unsigned long long id;
    unsigned major, minor;
    char type[32], source[256], options[1024];
};

/* "36 35 98:0 /root /where rw,noatime master:1 - ext4 /dev/root rw,errors=continue" */
static bool parse_mount(const char *line, struct mount *mount)
{
    const char *behind = strstr(line, " - ");
    return behind &&
           sscanf(line, "%llu %*u %u:%u", &mount->id, &mount->major, &mount->minor) == 3 &&
           sscanf(behind, " - %31s %255s %1023s", mount->type, mount->source, mount->options) >= 2;
}

static bool find_mount(const char *path, struct mount *mount)
{
    struct statx st = {0};
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    if (syscall(__NR_statx, AT_FDCWD, path, 0, STATX_MNT_ID, &st) || !(st.stx_mask & STATX_MNT_ID))
        return false;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && !found && getline(&line, &room, mounts) > 0) {
        *mount = (struct mount){0};
        found = parse_mount(line, mount) && mount->id == st.stx_mnt_id;
    }
    free(line);
    if (mounts)
        fclose(mounts);
    return found;
}

/* ------------------------------------------------------------------------------ block devices */

static bool read_word(const char *folder, const char *name, char *word, size_t bytes)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    bool read = file && fgets(word, (int)bytes, file);
    if (file)
        fclose(file);
    if (read)
        word[strcspn(word, "\n")] = '\0';
    return read;
}

/* Reads the NVMe transport ("pcie", "tcp" ...) of the controller, or of the first controller of the
 * subsystem. */
static bool find_transport(const char *disk, char *word, size_t bytes)
{
    char folder[PATH_MAX];
    if (read_word(disk, "device/transport", word, bytes))
        return true;
    if (snprintf(folder, sizeof folder, "%s/device", disk) >= (int)sizeof folder)
        return false;
    DIR *all = opendir(folder);
    bool found = false;
    for (struct dirent *entry; all && !found && (entry = readdir(all)) != NULL;) {
        char name[300];
        snprintf(name, sizeof name, "%s/transport", entry->d_name);
        found = strncmp(entry->d_name, "nvme", 4) == 0 && read_word(folder, name, word, bytes);
    }
    if (all)
        closedir(all);
    return found;
}

/* Kinds of block devices, by the prefix of the kernel's name. */
static const struct {
    const char *begins, *text;
} devices[] = {{"loop", "loop device"}, {"ram", "RAM disk"},      {"pmem", "persistent memory"},
               {"zram", "memory"},      {"vd", "virtio disk"},    {"xvd", "Xen disk"},
               {"sd", "SCSI or SATA"},  {"mmcblk", "MMC card"},   {"nbd", "network block device"},
               {"rbd", "Ceph device"},  {"dm-", "device mapper"}, {"md", "RAID"},
               {"drbd", "DRBD"},        {"nullb", "null device"}};

static void name_device(const char *disk, const char *name, char *text, size_t bytes)
{
    char transport[32];
    if (strncmp(name, "nvme", 4) == 0) {
        if (!find_transport(disk, transport, sizeof transport))
            snprintf(text, bytes, "NVMe");
        else if (strcmp(transport, "pcie") == 0)
            snprintf(text, bytes, "NVMe on PCIe");
        else
            snprintf(text, bytes, "NVMe over %s", transport);
        return;
    }
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (strncmp(name, devices[i].begins, strlen(devices[i].begins)) == 0) {
            snprintf(text, bytes, "%s", devices[i].text);
            return;
        }
    snprintf(text, bytes, "block device %.40s", name);
}

/* Name of the first device that this one (RAID, mapper) is made of. */
static bool first_lower_device(const char *disk, char *first, size_t bytes)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s/slaves", disk) >= (int)sizeof folder)
        return false;
    DIR *all = opendir(folder);
    bool found = false;
    for (struct dirent *entry; all && !found && (entry = readdir(all)) != NULL;)
        if (entry->d_name[0] != '.')
            found = snprintf(first, bytes, "%s", entry->d_name) < (int)bytes;
    if (all)
        closedir(all);
    return found;
}

static void find_device(unsigned major, unsigned minor, char *text, size_t bytes)
{
    char link[64], disk[PATH_MAX], probe[PATH_MAX + 16], lower[256], path[PATH_MAX];
    snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major, minor);
    if (!realpath(link, disk)) {
        snprintf(text, bytes, "block device %u:%u", major, minor);
        return;
    }
    snprintf(probe, sizeof probe, "%s/partition", disk);
    if (access(probe, F_OK) == 0)
        *strrchr(disk, '/') = '\0';
    name_device(disk, strrchr(disk, '/') + 1, text, bytes);
    /* A device that is made of others also shows the first of them. */
    if (!first_lower_device(disk, lower, sizeof lower))
        return;
    snprintf(link, sizeof link, "/sys/class/block/%.40s", lower);
    size_t used = strlen(text);
    if (realpath(link, path) && used + 8 < bytes) {
        snprintf(probe, sizeof probe, "%s/partition", path);
        if (access(probe, F_OK) == 0)
            *strrchr(path, '/') = '\0';
        snprintf(text + used, bytes - used, " over ");
        name_device(path, strrchr(path, '/') + 1, text + used + 6, bytes - used - 6);
    }
}

/* ---------------------------------------------------------------- file systems without a device */

static bool begins_with(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strncmp(text, *list, strlen(*list)) == 0)
            return true;
    return false;
}

/* The upper folder of an overlay mount, which receives all writes. */
static bool upper_folder(const char *options, char *folder, size_t bytes)
{
    const char *upper = strstr(options, "upperdir=");
    if (!upper)
        return false;
    upper += strlen("upperdir=");
    size_t length = strcspn(upper, ",");
    return snprintf(folder, bytes, "%.*s", (int)length, upper) < (int)bytes;
}

/* Describes the device of a mount. The caller has set `text` to "unknown", which stays when the
 * device cannot be found. deep: the mount is below an overlay. */
static void find_store(const struct mount *mount, bool deep, char *text, size_t bytes)
{
    static const char *const memory[] = {"tmpfs", "ramfs", "hugetlbfs", "devtmpfs", NULL};
    static const char *const network[] = {"nfs",    "cifs",   "smb", "ceph", "lustre", "gpfs",
                                          "beegfs", "wekafs", "9p",  "afs",  NULL};
    struct stat st;
    struct mount lower;
    char folder[PATH_MAX];
    if (mount->major) {
        find_device(mount->major, mount->minor, text, bytes);
    } else if (begins_with(mount->type, memory)) {
        snprintf(text, bytes, "memory");
    } else if (begins_with(mount->type, network)) {
        snprintf(text, bytes, "network");
    } else if (strncmp(mount->type, "fuse", 4) == 0 || strcmp(mount->type, "virtiofs") == 0) {
        snprintf(text, bytes, "another process (%s)", mount->type);
    } else if (strcmp(mount->type, "overlay") == 0) {
        char found[64] = "unknown";
        if (!deep && upper_folder(mount->options, folder, sizeof folder) &&
            find_mount(folder, &lower))
            find_store(&lower, true, found, sizeof found);
        snprintf(text, bytes, "%.40s below the overlay", found);
    } else if (mount->source[0] == '/' && stat(mount->source, &st) == 0 && S_ISBLK(st.st_mode)) {
        find_device(major(st.st_rdev), minor(st.st_rdev), text, bytes); /* btrfs */
    }
}

void file_identify(const char *path, const struct stat *st, char *file_system,
                   size_t file_system_bytes, char *store, size_t store_bytes)
{
    struct mount mount;
    snprintf(file_system, file_system_bytes, "unknown");
    snprintf(store, store_bytes, "unknown");
    if (S_ISBLK(st->st_mode)) {
        snprintf(file_system, file_system_bytes, "none");
        find_device(major(st->st_rdev), minor(st->st_rdev), store, store_bytes);
        return;
    }
    if (!find_mount(path, &mount))
        return;
    snprintf(file_system, file_system_bytes, "%s", mount.type);
    find_store(&mount, false, store, store_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how the store of a file is identified. The kernel is a double: its list of mounts, its
 * links to block devices, and their folders are tables in memory. */
#include "file/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/stat.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

/* ----------------------------------------------------------------------------------- the kernel */

struct pair {
    const char *name, *is;
};

static char huge[PATH_MAX]; /* disk whose path has no space for a name after it */

static const struct pair links[] = {
    {"/sys/dev/block/7:1", "/sys/d/loop3"},
    {"/sys/dev/block/7:2", "/sys/d/ram0"},
    {"/sys/dev/block/7:3", "/sys/d/pmem1"},
    {"/sys/dev/block/7:4", "/sys/d/zram2"},
    {"/sys/dev/block/7:5", "/sys/d/vda"},
    {"/sys/dev/block/7:6", "/sys/d/xvdb"},
    {"/sys/dev/block/7:7", "/sys/d/sdc"},
    {"/sys/dev/block/7:8", "/sys/d/mmcblk0"},
    {"/sys/dev/block/7:9", "/sys/d/nbd4"},
    {"/sys/dev/block/7:10", "/sys/d/rbd5"},
    {"/sys/dev/block/7:11", "/sys/d/dm-6"},
    {"/sys/dev/block/7:12", "/sys/d/md7"},
    {"/sys/dev/block/7:13", "/sys/d/drbd8"},
    {"/sys/dev/block/7:14", "/sys/d/nullb9"},
    {"/sys/dev/block/7:15", "/sys/d/fd0"},
    {"/sys/dev/block/7:16", "/sys/d/a_name_of_more_than_forty_characters_is_cut_off"},
    {"/sys/dev/block/8:1", "/sys/d/sda/sda1"},
    {"/sys/dev/block/259:0", "/sys/d/nvme0n1"},
    {"/sys/dev/block/259:1", "/sys/d/nvme1n1"},
    {"/sys/dev/block/259:2", "/sys/d/nvme2n1"},
    {"/sys/dev/block/259:3", "/sys/d/nvme3n1"},
    {"/sys/dev/block/259:4", "/sys/d/nvme4n1/nvme4n1p2"},
    {"/sys/dev/block/259:5", "/sys/d/nvme5n1"},
    {"/sys/dev/block/259:6", huge},
    {"/sys/dev/block/253:0", "/sys/d/dm-0"},
    {"/sys/dev/block/253:1", "/sys/d/dm-1"},
    {"/sys/dev/block/253:2", "/sys/d/dm-2"},
    {"/sys/dev/block/9:0", "/sys/d/md0"},
    {"/sys/class/block/sda1", "/sys/d/sda/sda1"},
    {"/sys/class/block/sdb", "/sys/d/sdb"},
    {"/sys/class/block/nvme4n1", "/sys/d/nvme4n1"},
    {"/sys/class/block/nvme4n1p2", "/sys/d/nvme4n1/nvme4n1p2"},
};

static const struct pair files[] = {
    {"/sys/d/nvme0n1/device/transport", "pcie\n"},
    {"/sys/d/nvme1n1/device/transport", "tcp\n"},
    {"/sys/d/nvme2n1/device/hwmon1/transport", "wrong\n"},
    {"/sys/d/nvme2n1/device/nvme7/transport", "rdma\n"},
    {"/sys/d/nvme2n1/device/nvme8/transport", "fc\n"},
    {"/sys/d/nvme4n1/device/transport", "pcie"},
    {"/sys/d/nvme5n1/device/nvme1/transport", ""}, /* cannot be read */
};

static const struct {
    const char *name, *entries[6];
} folders[] = {
    {"/sys/d/nvme2n1/device", {".", "..", "hwmon1", "nvme6", "nvme7", "nvme8"}},
    {"/sys/d/nvme5n1/device", {".", "..", "nvme1"}},
    {"/sys/d/sda/slaves", {".", ".."}},
    {"/sys/d/dm-0/slaves", {".", "..", "sda1", "sdb"}},
    {"/sys/d/dm-1/slaves", {"nvme4n1"}},
    {"/sys/d/dm-2/slaves", {".", "nowhere"}},
    {"/sys/d/md0/slaves", {"..", "nvme4n1p2"}},
};

static const char *mounts;
static int opened, opened_folders; /* opened and not closed */
static long mount_of_file, mount_of_upper;
static bool no_statx, no_mount_ids;
static unsigned source_mode;

static const char *find(const struct pair *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].is;
    return NULL;
}

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    const char *last = strrchr(path, '/') + 1;
    assert_string_equal(mode, "re");
    assert_true(strcmp(last, "transport") == 0 || strcmp(last, "mountinfo") == 0);
    const char *is = strcmp(path, "/proc/self/mountinfo") == 0
                         ? mounts
                         : find(files, sizeof files / sizeof files[0], path);
    if (!is)
        return NULL;
    opened++;
    return fmemopen((void *)(uintptr_t)(*is ? is : "x"), *is ? strlen(is) : 1, *is ? "r" : "a");
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
    opened--;
    return __real_fclose(file);
}

static struct {
    size_t folder, next;
    struct dirent entry;
} reading;

DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    const char *last = strrchr(path, '/') + 1;
    assert_true(strcmp(last, "device") == 0 || strcmp(last, "slaves") == 0);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strcmp(folders[i].name, path) == 0) {
            opened_folders++;
            reading.folder = i;
            reading.next = 0;
            return (DIR *)(void *)&reading;
        }
    return NULL;
}

struct dirent *__wrap_readdir(DIR *folder);
struct dirent *__wrap_readdir(DIR *folder)
{
    assert_ptr_equal(folder, &reading);
    const char *name = reading.next < 6 ? folders[reading.folder].entries[reading.next++] : NULL;
    if (!name)
        return NULL;
    snprintf(reading.entry.d_name, sizeof reading.entry.d_name, "%s", name);
    return &reading.entry;
}

int __wrap_closedir(DIR *folder);
int __wrap_closedir(DIR *folder)
{
    assert_ptr_equal(folder, &reading);
    opened_folders--;
    return 0;
}

char *__wrap_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved)
{
    const char *is = find(links, sizeof links / sizeof links[0], path);
    return is ? strcpy(resolved, is) : NULL;
}

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    assert_int_equal(mode, 0);
    return strcmp(path, "/sys/d/sda/sda1/partition") == 0 ||
                   strcmp(path, "/sys/d/nvme4n1/nvme4n1p2/partition") == 0
               ? 0
               : -1;
}

int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
    if (strstr(path, "missing"))
        return -1;
    *st = (struct stat){.st_mode = source_mode, .st_rdev = makedev(8, 1)};
    return 0;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[6] = {0};
    va_list list;
    va_start(list, number);
    for (int i = 0; i < (number == __NR_statx ? 5 : 6); i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number != __NR_statx)
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    assert_int_equal((int)a[2], 0);
    assert_int_equal((unsigned)a[3], STATX_MNT_ID);
    if (no_statx) /* statx fails and fills in nothing */
        return -1;
    bool upper = strcmp((const char *)a[1], "/upper") == 0;
    *(struct statx *)a[4] =
        (struct statx){.stx_mask = no_mount_ids ? STATX_SIZE : STATX_SIZE | STATX_MNT_ID,
                       .stx_mnt_id = (unsigned long)(upper ? mount_of_upper : mount_of_file)};
    return 0;
}

/* -------------------------------------------------------------------------------------- devices */

static const char mount_list[] =
    "10 1 0:30 / /a rw,noatime\n"                  /* nothing follows " - " */
    "20 1 nonsense / /b rw - tmpfs b rw\n"         /* no device number */
    "20 1 0:31 / /b rw - onlytype\n"               /* no source */
    "20 1 0:31 / /b rw shared:1 - tmpfs none rw\n" /* the first match counts */
    "20 1 0:31 / /b rw shared:1 - nfs none rw\n"
    "21 1 0:32 / /c rw - ramfs c rw\n"
    "22 1 0:32 / /c rw - hugetlbfs c rw\n"
    "23 1 0:32 / /c rw - devtmpfs c\n"
    "24 1 0:33 / /c rw - nfs4 host:/x rw\n"
    "25 1 0:33 / /c rw - cifs //host/x rw\n"
    "26 1 0:33 / /c rw - smb3 /host/x rw\n"
    "27 1 0:33 / /c rw - ceph x rw\n"
    "28 1 0:33 / /c rw - lustre x rw\n"
    "29 1 0:33 / /c rw - gpfs x rw\n"
    "30 1 0:33 / /c rw - beegfs x rw\n"
    "31 1 0:33 / /c rw - wekafs x rw\n"
    "32 1 0:33 / /c rw - 9p x rw\n"
    "33 1 0:33 / /c rw - afs x rw\n"
    "34 1 0:34 / /c rw - fuse.sshfs /dev/fuse rw\n"
    "35 1 0:34 / /c rw - fuseblk /dev/sda1 rw\n"
    "36 1 0:34 / /c rw - virtiofs tag rw\n"
    "37 1 8:1 / /c rw - ext4 /dev/sda1 rw\n"
    "38 1 9:0 / /c rw - xfs /dev/md0 rw\n"
    "39 1 259:0 / /c rw - tmpfs /dev/nvme0n1 rw\n" /* the device number counts first */
    "40 1 0:40 / /c rw - btrfs /dev/sda1 rw\n"
    "41 1 0:41 / /c rw - zfs pool/set rw\n"
    "42 1 0:42 / /c rw - strange /dev/missing rw\n"
    "50 1 0:50 / /c rw - overlay overlay rw,lowerdir=/l,upperdir=/upper,workdir=/w\n"
    "51 1 0:51 / /c rw - overlay overlay rw,lowerdir=/l,upperdir=/upper\n"
    "52 1 0:52 / /c ro - overlay overlay ro,lowerdir=/l\n"
    "53 1 0:53 / /c ro - overlays overlay ro,upperdir=/u\n"
    "60 1 0:60 / /c ro - 0123456789012345678901234567890123456789 x ro\n";

static char text[2][1024];

static void recognise(mode_t mode, unsigned major, unsigned minor, size_t bytes)
{
    const struct stat st = {.st_mode = mode, .st_rdev = makedev(major, minor)};
    memset(text, '#', sizeof text);
    file_identify("/mnt/file", &st, text[0], 32, text[1], bytes);
    assert_int_equal(opened, 0);
    assert_int_equal(opened_folders, 0);
    assert_int_equal(text[0][32], '#');
    assert_int_equal(text[1][bytes], '#');
}

static void devices_by_their_names(void **state)
{
    static const struct {
        unsigned major, minor;
        const char *text;
    } rows[] = {
        {7, 1, "loop device"},
        {7, 2, "RAM disk"},
        {7, 3, "persistent memory"},
        {7, 4, "memory"},
        {7, 5, "virtio disk"},
        {7, 6, "Xen disk"},
        {7, 7, "SCSI or SATA"},
        {7, 8, "MMC card"},
        {7, 9, "network block device"},
        {7, 10, "Ceph device"},
        {7, 11, "device mapper"},
        {7, 12, "RAID"},
        {7, 13, "DRBD"},
        {7, 14, "null device"},
        {7, 15, "block device fd0"},
        {7, 16, "block device a_name_of_more_than_forty_characters_is_"},
        {7, 17, "block device 7:17"},
        {8, 1, "SCSI or SATA"},
        {259, 0, "NVMe on PCIe"},
        {259, 1, "NVMe over tcp"},
        {259, 2, "NVMe over rdma"}, /* the first controller that reports a transport counts */
        {259, 3, "NVMe"},
        {259, 4, "NVMe on PCIe"}, /* the disk of the partition */
        {259, 5, "NVMe"},
        {259, 6, "NVMe"},
        {253, 0, "device mapper over SCSI or SATA"},
        {253, 1, "device mapper over NVMe on PCIe"},
        {253, 2, "device mapper"},
        {9, 0, "RAID over NVMe on PCIe"},
    };
    (void)state;
    mounts = mount_list; /* not read for a device */
    mount_of_file = 20;
    memset(huge, 'x', sizeof huge - 1);
    memcpy(huge, "/sys/d/", 7);
    memcpy(huge + sizeof huge - 8, "/nvme6", 7);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        recognise(S_IFBLK | 0600, rows[i].major, rows[i].minor, 64);
        assert_string_equal(text[0], "none");
        assert_string_equal(text[1], rows[i].text);
    }
}

/* A disk whose path has the maximum length is named without the files of its folder. */
static void of_a_long_path_no_more_is_looked_at(void **state)
{
    (void)state;
    static const struct {
        const char *end; /* end of the path */
        int room;        /* free bytes after it */
    } rows[] = {{"/nvme6", 1},  {"/nvme6", 7},  {"/nvme6", 8},
                {"/nvme6", 17}, {"/nvme6", 18}, {"/dm-6", 7}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = sizeof huge - (size_t)rows[i].room;
        memset(huge, 'x', length);
        memcpy(huge, "/sys/d/", 7);
        strcpy(huge + length - strlen(rows[i].end), rows[i].end);
        recognise(S_IFBLK, 259, 6, 64);
        assert_string_equal(text[1], rows[i].end[1] == 'n' ? "NVMe" : "device mapper");
    }
}

/* The device below is named if more than one byte of its name fits. */
static void what_lies_below_needs_room(void **state)
{
    (void)state;
    recognise(S_IFBLK, 9, 0, 4 + 8);
    assert_string_equal(text[1], "RAID");
    recognise(S_IFBLK, 9, 0, 4 + 9);
    assert_string_equal(text[1], "RAID over NV");
}

/* --------------------------------------------------------------------------------- file systems */

static void file_systems_and_what_is_below(void **state)
{
    static const struct {
        long mount;
        unsigned source_mode;
        const char *system, *store;
    } rows[] = {
        {10, 0, "unknown", "unknown"},
        {20, 0, "tmpfs", "memory"},
        {21, 0, "ramfs", "memory"},
        {22, 0, "hugetlbfs", "memory"},
        {23, 0, "devtmpfs", "memory"},
        {24, 0, "nfs4", "network"},
        {25, 0, "cifs", "network"},
        {26, 0, "smb3", "network"},
        {27, 0, "ceph", "network"},
        {28, 0, "lustre", "network"},
        {29, 0, "gpfs", "network"},
        {30, 0, "beegfs", "network"},
        {31, 0, "wekafs", "network"},
        {32, 0, "9p", "network"},
        {33, 0, "afs", "network"},
        {34, S_IFBLK, "fuse.sshfs", "another process (fuse.sshfs)"},
        {35, S_IFBLK, "fuseblk", "another process (fuseblk)"},
        {36, 0, "virtiofs", "another process (virtiofs)"},
        {37, 0, "ext4", "SCSI or SATA"},
        {38, 0, "xfs", "RAID over NVMe on PCIe"},
        {39, 0, "tmpfs", "NVMe on PCIe"},
        {40, S_IFBLK | 0660, "btrfs", "SCSI or SATA"},
        {40, S_IFREG, "btrfs", "unknown"},
        {41, S_IFBLK, "zfs", "unknown"},
        {42, S_IFBLK, "strange", "unknown"},
        {52, 0, "overlay", "unknown below the overlay"},
        {53, 0, "overlays", "unknown"},
        {60, 0, "0123456789012345678901234567890", "unknown"},
        {99, 0, "unknown", "unknown"},
    };
    (void)state;
    mounts = mount_list;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mount_of_file = rows[i].mount;
        source_mode = rows[i].source_mode;
        recognise(S_IFREG, 8, 1, 64);
        assert_string_equal(text[0], rows[i].system);
        assert_string_equal(text[1], rows[i].store);
    }
}

/* For an overlay, the store of the upper folder is reported, one level deep. */
static void of_an_overlay_what_is_below(void **state)
{
    static const struct {
        long mount, upper;
        const char *store;
    } rows[] = {{50, 37, "SCSI or SATA below the overlay"},
                {51, 38, "RAID over NVMe on PCIe below the overlay"},
                {50, 51, "unknown below the overlay below the overlay"},
                {51, 99, "unknown below the overlay"}};
    (void)state;
    mounts = mount_list;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mount_of_file = rows[i].mount;
        mount_of_upper = rows[i].upper;
        recognise(S_IFREG, 0, 0, 64);
        assert_string_equal(text[0], "overlay");
        assert_string_equal(text[1], rows[i].store);
    }
}

/* The kernel does not report the mount of a file; then /proc is missing. */
static void nothing_is_known(void **state)
{
    (void)state;
    mounts = mount_list;
    mount_of_file = 20;
    no_statx = true;
    recognise(S_IFREG, 0, 0, 64);
    assert_string_equal(text[0], "unknown");
    no_statx = false;
    no_mount_ids = true;
    recognise(S_IFREG, 0, 0, 64);
    assert_string_equal(text[0], "unknown");
    no_mount_ids = false;
    mounts = NULL;
    recognise(S_IFREG, 0, 0, 64);
    assert_string_equal(text[0], "unknown");
    assert_string_equal(text[1], "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_by_their_names),
        cmocka_unit_test(of_a_long_path_no_more_is_looked_at),
        cmocka_unit_test(what_lies_below_needs_room),
        cmocka_unit_test(file_systems_and_what_is_below),
        cmocka_unit_test(of_an_overlay_what_is_below),
        cmocka_unit_test(nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

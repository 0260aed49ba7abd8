/* SPDX-License-Identifier: Apache-2.0 */
/* The open file: one descriptor that uses the page cache, one with O_DIRECT where the file system
 * supports it, and the alignments that direct requests need. */
#include "file/file.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static int open_file(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

const struct file_calls file_system_calls = {.open = open_file,
                                             .pread = pread,
                                             .pwrite = pwrite,
                                             .fdatasync = fdatasync,
                                             .fsync = fsync,
                                             .fstat = fstat,
                                             .ftruncate = ftruncate,
                                             .close = close};

static weft_status refuse_kind(const char *path, mode_t mode)
{
    if (S_ISREG(mode) || S_ISBLK(mode))
        return WEFT_OK;
    if (S_ISDIR(mode))
        return base_fail(WEFT_ERR_ARGUMENT, "weft_file_open: %s is a directory", path);
    return base_fail(WEFT_ERR_ARGUMENT,
                     "weft_file_open: %s is a %s; expected a file or a block device", path,
                     S_ISFIFO(mode)   ? "pipe"
                     : S_ISSOCK(mode) ? "socket"
                                      : "character device");
}

static weft_status open_failed(const char *path)
{
    return base_fail(WEFT_ERR_SYSTEM, "weft_file_open: open of %s: %s", path, strerror(errno));
}

/* Creates the file or opens an existing one, and records which in file->made: only the creator has
 * to sync the file's name. */
static int open_or_create(struct opened_file *file, int how, unsigned flags, mode_t mode)
{
    enum { TRIES = 8 }; /* another process may create and remove it meanwhile */
    for (int i = 0; i < TRIES; i++) {
        int fd = file->calls->open(file->path, how | O_CREAT | O_EXCL, mode);
        file->made = fd >= 0;
        if (fd >= 0 || errno != EEXIST || flags & WEFT_FILE_EXCLUSIVE)
            return fd;
        fd = file->calls->open(file->path, how, 0);
        if (fd >= 0 || errno != ENOENT)
            return fd;
    }
    return -1;
}

static weft_status open_buffered(struct opened_file *file, unsigned flags, unsigned mode,
                                 struct stat *st)
{
    int how = O_CLOEXEC | (!file->writes ? O_RDONLY : file->reads ? O_RDWR : O_WRONLY);
    /* A pipe would block in open(). */
    if (stat(file->path, st) == 0) {
        weft_status status = refuse_kind(file->path, st->st_mode);
        if (status)
            return status;
    }
    if (flags & WEFT_FILE_TRUNCATE)
        how |= O_TRUNC;
    file->buffered = flags & WEFT_FILE_CREATE ? open_or_create(file, how, flags, mode ? mode : 0666)
                                              : file->calls->open(file->path, how, 0);
    if (file->buffered < 0)
        return open_failed(file->path);
    if (file->calls->fstat(file->buffered, st))
        return base_fail(WEFT_ERR_SYSTEM, "weft_file_open: fstat of %s: %s", file->path,
                         strerror(errno));
    file->block_device = S_ISBLK(st->st_mode);
    file->device = file->block_device ? st->st_rdev : st->st_dev;
    return refuse_kind(file->path, st->st_mode);
}

/* ---------------------------------------------------------------------------------- direct I/O */

static void set_buffered(struct opened_file *file, const char *what)
{
    if (file->direct >= 0)
        file->calls->close(file->direct);
    file->direct = -1;
    file->alignment = file->memory_alignment = 1;
    snprintf(file->reason_code, sizeof file->reason_code, "FILE-BUFFERED");
    snprintf(file->reason, sizeof file->reason, "through the page cache: %s", what);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Reads the alignments that the file system requires; false: it has no direct I/O for this file.
 * Kernels before 6.1 and some file systems do not report them; then a page is enough for all. */
static bool query_alignment(struct opened_file *file)
{
    struct statx st = {0};
    uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
    file->alignment = file->memory_alignment = larger(page, FILE_PAGE);
    if (syscall(__NR_statx, file->direct, "", 0x1000 /* AT_EMPTY_PATH */, STATX_DIOALIGN, &st) ||
        !(st.stx_mask & STATX_DIOALIGN))
        return true;
    if (!st.stx_dio_offset_align || !st.stx_dio_mem_align)
        return false;
    file->alignment = larger(file->alignment, st.stx_dio_offset_align);
    file->memory_alignment = st.stx_dio_mem_align;
    return true;
}

/* Raises the alignment to a block of the file system: the page cache writes out whole blocks, so a
 * direct write must not share a block with a buffered one. Network file systems write out single
 * bytes and report their preferred transfer size here, which the limit excludes. */
static void align_to_blocks(struct opened_file *file, const struct statfs *fs)
{
    enum { MOST = 64 << 10 };
    uint64_t block = (uint64_t)fs->f_bsize;
    if (block && block <= MOST && !(block & (block - 1)))
        file->alignment = larger(file->alignment, (uint32_t)block);
}

static void open_direct(struct opened_file *file, unsigned flags)
{
    char again[64];
    struct statfs fs;
    if (flags & WEFT_FILE_BUFFERED) {
        set_buffered(file, "the program requested it (WEFT_FILE_BUFFERED)");
        return;
    }
    if (fstatfs(file->buffered, &fs)) {
        set_buffered(file, "fstatfs failed");
        return;
    }
    /* fstatfs of a device node describes the file system of the node, not the device. */
    if (!file->block_device && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)) {
        set_buffered(file, "the file system keeps its data in it");
        return;
    }
    /* Opens it through the descriptor: the path may name another file by now. */
    snprintf(again, sizeof again, "/proc/self/fd/%d", file->buffered);
    int how = !file->writes ? O_RDONLY : file->reads ? O_RDWR : O_WRONLY;
    file->direct = file->calls->open(again, how | O_CLOEXEC | O_DIRECT, 0);
    if (file->direct < 0) {
        char what[160];
        snprintf(what, sizeof what, "open with O_DIRECT: %s", strerror(errno));
        set_buffered(file, what);
        return;
    }
    if (!query_alignment(file))
        set_buffered(file, "statx reports no direct I/O for this file");
    else if (!file->block_device)
        align_to_blocks(file, &fs);
}

/* A reason against direct I/O is more important, so it keeps its code and comes first. */
void file_record_threads(struct opened_file *file, const char *why)
{
    size_t used = strlen(file->reason);
    if (!used)
        snprintf(file->reason_code, sizeof file->reason_code, "FILE-NO-URING");
    snprintf(file->reason + used, sizeof file->reason - used, "%sthrough threads: %s",
             used ? "; " : "", why);
}

void file_disable_direct(struct opened_file *file, int error)
{
    /* The descriptor stays open: requests may be in flight on it. */
    file->alignment = file->memory_alignment = 1;
    snprintf(file->reason_code, sizeof file->reason_code, "FILE-BUFFERED");
    snprintf(file->reason, sizeof file->reason,
             "through the page cache: a direct transfer was refused: %s", strerror(error));
}

weft_status file_open(const struct file_calls *calls, const char *path, unsigned flags,
                      unsigned mode, struct opened_file *file)
{
    struct stat st;
    *file = (struct opened_file){.calls = calls,
                                 .path = strdup(path),
                                 .direct = -1,
                                 .buffered = -1,
                                 .reads = flags & WEFT_FILE_READ,
                                 .writes = flags & WEFT_FILE_WRITE};
    weft_status status = file->path ? open_buffered(file, flags, mode, &st)
                                    : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a file");
    if (status) {
        file_close(file);
        return status;
    }
    open_direct(file, flags);
    file_identify(path, &st, file->file_system, sizeof file->file_system, file->store,
                  sizeof file->store);
    return WEFT_OK;
}

void file_close(struct opened_file *file)
{
    if (file->direct >= 0)
        file->calls->close(file->direct);
    if (file->buffered >= 0)
        file->calls->close(file->buffered);
    free(file->path);
    *file = (struct opened_file){.direct = -1, .buffered = -1};
}

weft_status file_size(const struct opened_file *file, uint64_t *bytes)
{
    struct stat st;
    if (file->block_device) {
        if (ioctl(file->buffered, BLKGETSIZE64, bytes) == 0)
            return WEFT_OK;
        return base_fail(WEFT_ERR_SYSTEM, "the size of %s: %s", file->path, strerror(errno));
    }
    if (file->calls->fstat(file->buffered, &st))
        return base_fail(WEFT_ERR_SYSTEM, "fstat of %s: %s", file->path, strerror(errno));
    *bytes = (uint64_t)st.st_size;
    return WEFT_OK;
}

weft_status file_resize(const struct opened_file *file, uint64_t bytes)
{
    int result;
    if (bytes > INT64_MAX)
        return base_fail(WEFT_ERR_RANGE,
                         "weft_file_resize: %llu bytes are more than a file can have",
                         (unsigned long long)bytes);
    do
        result = file->calls->ftruncate(file->buffered, (off_t)bytes);
    while (result && errno == EINTR);
    return result
               ? base_fail(WEFT_ERR_SYSTEM, "weft_file_resize: ftruncate of %s to %llu bytes: %s",
                           file->path, (unsigned long long)bytes, strerror(errno))
               : WEFT_OK;
}

/* --------------------------------------------------------------------------------------- sync */

/* Both descriptors are of one file, so one fdatasync writes out the page cache and flushes the
 * cache of the device. */
static weft_status sync_data(const struct opened_file *file)
{
    while (file->calls->fdatasync(file->buffered)) {
        if (errno == EINTR)
            continue;
        return base_fail(
            WEFT_ERR_SYSTEM,
            "weft_file_sync: fdatasync of %s: %s; data written since the last sync may "
            "be lost, write it again",
            file->path, strerror(errno));
    }
    return WEFT_OK;
}

static void folder_of(const char *path, char *folder, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    int length = !slash ? 1 : slash == path ? 1 : (int)(slash - path);
    snprintf(folder, bytes, "%.*s", length, slash ? path : ".");
}

/* Syncs the folder of a new file: after a power failure a file without a name would be lost. */
static weft_status sync_name(const struct opened_file *file)
{
    char folder[4096];
    folder_of(file->path, folder, sizeof folder);
    int fd = file->calls->open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), error = 0;
    if (fd < 0)
        return base_fail(WEFT_ERR_SYSTEM, "weft_file_sync: open of the folder %s: %s", folder,
                         strerror(errno));
    while (file->calls->fsync(fd) && (error = errno) == EINTR)
        error = 0;
    file->calls->close(fd);
    /* Some file systems sync names by themselves and do not support fsync of folders. */
    if (!error || error == EINVAL)
        return WEFT_OK;
    return base_fail(WEFT_ERR_SYSTEM, "weft_file_sync: fsync of the folder %s: %s", folder,
                     strerror(error));
}

weft_status file_sync(struct opened_file *file)
{
    weft_status status = file->writes ? sync_data(file) : WEFT_OK;
    if (!status && file->made) {
        status = sync_name(file);
        file->made = status != WEFT_OK;
    }
    return status;
}

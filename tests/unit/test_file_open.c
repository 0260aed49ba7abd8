/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how a file is opened over a double of the operating system: which descriptors are opened
 * how, what prevents direct I/O, which alignment it needs, and how the calls around transfers
 * work. */
#include "file/file.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

enum { FIRST = 40 }; /* first descriptor */

/* ------------------------------------------------------------------------- the operating system */

static struct {
    int errors[20]; /* errno of each open, in order; 0: success */
    int opens, open_now;
    char path[20][64];
    int flags[20];
    mode_t mode[20];
    int stat_error, fstat_error, fstatfs_error, statx_error, ioctl_error, no_memory;
    mode_t before, kind; /* reported by stat(), and by fstat() after the open */
    long fs_type, block, page;
    unsigned mask, offset_align, memory_align;
    int errors_left[4], errors_with; /* failures of fdatasync, fsync, ftruncate; their errno */
    int calls[4];
    off_t length;
    int recognised;
    int zero;   /* number of the open, from 1, that returns descriptor 0 */
    void *copy; /* copy of the path */
    int freed;
} os;

enum { DATASYNC, SYNC, TRUNCATE };

static int fd_of(int i)
{
    return i + 1 == os.zero ? 0 : FIRST + i;
}

static int fake_open(const char *path, int flags, mode_t mode)
{
    int i = os.opens++;
    assert_true(i < 20);
    snprintf(os.path[i], sizeof os.path[i], "%s", path);
    os.flags[i] = flags;
    os.mode[i] = mode;
    errno = os.errors[i];
    if (errno)
        return -1;
    os.open_now++;
    return fd_of(i);
}

static int fake_close(int fd)
{
    assert_true(fd == 0 ? os.zero : fd >= FIRST && fd < FIRST + 20);
    os.open_now--;
    return 0;
}

static int fake_fstat(int fd, struct stat *st)
{
    assert_int_equal(fd, fd_of(os.opens - 1));
    errno = os.fstat_error;
    *st = (struct stat){
        .st_mode = os.kind, .st_dev = makedev(8, 7), .st_rdev = makedev(9, 6), .st_size = 12345};
    return errno ? -1 : 0;
}

static int failing(int which)
{
    os.calls[which]++;
    errno = os.errors_with;
    return os.errors_left[which] ? os.errors_left[which]--, -1 : 0;
}

static int fake_fdatasync(int fd)
{
    assert_int_equal(fd, fd_of(0));
    return failing(DATASYNC);
}

static int fake_fsync(int fd)
{
    assert_int_equal(fd, fd_of(os.opens - 1)); /* of the folder */
    return failing(SYNC);
}

static int fake_ftruncate(int fd, off_t bytes)
{
    assert_int_equal(fd, fd_of(0));
    os.length = bytes;
    return failing(TRUNCATE);
}

static const struct file_calls calls = {.open = fake_open,
                                        .close = fake_close,
                                        .fstat = fake_fstat,
                                        .fdatasync = fake_fdatasync,
                                        .fsync = fake_fsync,
                                        .ftruncate = fake_ftruncate};

int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
    assert_string_equal(path, "/x/file");
    *st = (struct stat){.st_mode = os.before};
    return os.stat_error ? -1 : 0;
}

int __wrap_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs)
{
    assert_int_equal(fd, fd_of(0));
    *fs = (struct statfs){.f_type = os.fs_type, .f_bsize = os.block};
    return os.fstatfs_error ? -1 : 0;
}

long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    assert_int_equal(name, _SC_PAGESIZE);
    return os.page;
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    *va_arg(list, uint64_t *) = 1ull << 40;
    va_end(list);
    assert_int_equal(fd, fd_of(0));
    assert_int_equal(request, BLKGETSIZE64);
    errno = os.ioctl_error;
    return errno ? -1 : 0;
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
    assert_int_equal((int)a[0], fd_of(1));
    assert_string_equal((const char *)a[1], "");
    assert_int_equal((int)a[2], 0x1000);
    assert_int_equal((unsigned)a[3], STATX_DIOALIGN);
    *(struct statx *)a[4] = (struct statx){.stx_mask = os.mask,
                                           .stx_dio_offset_align = os.offset_align,
                                           .stx_dio_mem_align = os.memory_align};
    return os.statx_error ? -1 : 0;
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return os.copy = os.no_memory ? NULL : __real_strdup(text);
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    if (memory && memory == os.copy) {
        os.freed++;
        os.copy = NULL;
    }
    __real_free(memory);
}

void __wrap_file_identify(const char *path, const struct stat *st, char *file_system,
                          size_t file_system_bytes, char *store, size_t store_bytes);
void __wrap_file_identify(const char *path, const struct stat *st, char *file_system,
                          size_t file_system_bytes, char *store, size_t store_bytes)
{
    os.recognised++;
    assert_string_equal(path, "/x/file");
    assert_int_equal(st->st_size, 12345);
    assert_int_equal(file_system_bytes, 32);
    assert_int_equal(store_bytes, 64);
    strcpy(file_system, "somefs");
    strcpy(store, "some store");
}

static struct opened_file file;

static int reset(void **state)
{
    (void)state;
    memset(&os, 0, sizeof os);
    os.kind = os.before = S_IFREG | 0600;
    os.page = 4096;
    os.mask = STATX_DIOALIGN;
    os.offset_align = os.memory_align = 512;
    os.block = 4096;
    return 0;
}

static weft_status open_it(unsigned flags, unsigned mode)
{
    return file_open(&calls, "/x/file", flags, mode, &file);
}

static void close_it(void)
{
    file_close(&file);
    assert_int_equal(os.freed, 1);
    assert_int_equal(os.open_now, 0);
    assert_true(file.direct == -1 && file.buffered == -1 && !file.path);
    file_close(&file);
    assert_int_equal(os.open_now, 0);
}

/* -------------------------------------------------------------------------------------- opening */

enum { R = WEFT_FILE_READ, W = WEFT_FILE_WRITE, C = WEFT_FILE_CREATE, X = WEFT_FILE_EXCLUSIVE };

static void how_both_descriptors_are_opened(void **state)
{
    static const struct {
        unsigned flags;
        int how, extra;
    } rows[] = {{R, O_RDONLY, 0},
                {W, O_WRONLY, 0},
                {R | W, O_RDWR, 0},
                {R | W | WEFT_FILE_TRUNCATE, O_RDWR, O_TRUNC},
                {W | C, O_WRONLY, O_CREAT | O_EXCL},
                {W | C | X | WEFT_FILE_TRUNCATE, O_WRONLY, O_CREAT | O_EXCL | O_TRUNC}};
    for (size_t i = 0; i < 3 * sizeof rows / sizeof rows[0]; i++) {
        char again[40];
        reset(state);
        os.zero = (int)(i / (sizeof rows / sizeof rows[0])); /* a descriptor may be 0 */
        size_t k = i % (sizeof rows / sizeof rows[0]);
        assert_int_equal(open_it(rows[k].flags, k & 1 ? 0640 : 0), WEFT_OK);
        assert_int_equal(os.opens, 2);
        assert_string_equal(os.path[0], "/x/file");
        snprintf(again, sizeof again, "/proc/self/fd/%d", fd_of(0));
        assert_string_equal(os.path[1], again);
        assert_int_equal(os.flags[0], rows[k].how | rows[k].extra | O_CLOEXEC);
        assert_int_equal(os.flags[1], rows[k].how | O_CLOEXEC | O_DIRECT);
        bool makes = rows[k].flags & C;
        assert_int_equal(os.mode[0], !makes ? 0 : k & 1 ? 0640 : 0666);
        assert_int_equal(os.mode[1], 0);
        assert_int_equal(file.made, makes);
        assert_int_equal(file.reads, (rows[k].flags & R) != 0);
        assert_int_equal(file.writes, (rows[k].flags & W) != 0);
        assert_int_equal(file.buffered, fd_of(0));
        assert_int_equal(file.direct, fd_of(1));
        assert_int_equal(file.alignment, 4096);
        assert_int_equal(file.memory_alignment, 512);
        assert_string_equal(file.reason_code, "");
        assert_string_equal(file.reason, "");
        assert_int_equal(file.device, makedev(8, 7));
        assert_false(file.block_device);
        assert_string_equal(file.file_system, "somefs");
        assert_string_equal(file.store, "some store");
        close_it();
    }
}

static void who_has_made_the_file_knows_it(void **state)
{
    static const struct {
        unsigned flags;
        int errors[20], opens, error; /* errno of the last open; 0: it succeeds */
    } rows[] = {
        {W | C, {EEXIST, 0}, 2, 0},
        {W | C | X, {EEXIST, 0}, 1, EEXIST},
        {W | C, {ENOSPC, 0}, 1, ENOSPC},
        {W | C, {EEXIST, EACCES}, 2, EACCES},
        {W | C, {EEXIST, ENOENT, EEXIST, 0}, 4, 0},
        {W | C,
         {EEXIST, ENOENT, EEXIST, ENOENT, EEXIST, ENOENT, EEXIST, ENOENT, EEXIST, ENOENT, EEXIST,
          ENOENT, EEXIST, ENOENT, EEXIST, 0},
         16,
         0},
        {W | C,
         {EEXIST, ENOENT, EEXIST, ENOENT, EEXIST, ENOENT, EEXIST, ENOENT, EEXIST, ENOENT, EEXIST,
          ENOENT, EEXIST, ENOENT, EEXIST, ENOENT, 0},
         16,
         ENOENT},
        {R, {ENOENT}, 1, ENOENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(state);
        memcpy(os.errors, rows[i].errors, sizeof os.errors);
        os.zero = rows[i].error ? 0 : rows[i].opens;
        weft_status status = open_it(rows[i].flags | WEFT_FILE_BUFFERED, 0600);
        assert_int_equal(os.opens, rows[i].opens);
        if (rows[i].error) {
            char words[100];
            assert_int_equal(status, WEFT_ERR_SYSTEM);
            snprintf(words, sizeof words, "weft_file_open: open of /x/file: %s",
                     strerror(rows[i].error));
            assert_string_equal(base_last_error(), words);
            assert_int_equal(os.recognised, 0);
        } else {
            assert_int_equal(status, WEFT_OK);
            assert_false(file.made); /* another process has created it */
            assert_int_equal(os.flags[os.opens - 1], O_WRONLY | O_CLOEXEC);
            assert_int_equal(os.mode[os.opens - 1], 0);
        }
        close_it();
    }
}

static void what_is_no_file_is_refused(void **state)
{
    static const struct {
        mode_t mode;
        const char *words;
    } rows[] = {{S_IFIFO, "weft_file_open: /x/file is a pipe; expected a file or a block device"},
                {S_IFSOCK, "is a socket;"},
                {S_IFCHR, "is a character device;"},
                {S_IFDIR, "weft_file_open: /x/file is a directory"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(state);
        os.before = rows[i].mode;
        assert_int_equal(open_it(R, 0), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), rows[i].words));
        assert_int_equal(os.opens, 0);
        reset(state);
        os.stat_error = 1; /* stat() fails, and then the open succeeds */
        os.before = os.kind = rows[i].mode;
        assert_int_equal(open_it(R, 0), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), rows[i].words));
        assert_int_equal(os.opens, 1);
        assert_int_equal(os.open_now, 0);
    }
    reset(state);
    os.fstat_error = EIO;
    assert_int_equal(open_it(R, 0), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "fstat of /x/file: Input/output error"));
    assert_int_equal(os.open_now, 0);
    reset(state);
    os.no_memory = 1;
    assert_int_equal(open_it(R, 0), WEFT_ERR_NO_MEMORY);
    assert_int_equal(os.opens, 0);
}

static void what_keeps_a_file_from_direct_io(void **state)
{
    static const struct {
        unsigned flags;
        bool fstatfs_fails, block_device;
        long fs_type;
        int open_error;
        bool offset, memory; /* statx reports no alignment */
        const char *reason;  /* NULL: direct I/O works */
    } rows[] = {
        {WEFT_FILE_BUFFERED, 0, 0, 0, 0, 0, 0, "the program requested it (WEFT_FILE_BUFFERED)"},
        {0, true, 0, 0, 0, 0, 0, "fstatfs failed"},
        {0, 0, 0, TMPFS_MAGIC, 0, 0, 0, "the file system keeps its data in it"},
        {0, 0, 0, RAMFS_MAGIC, 0, 0, 0, "the file system keeps its data in it"},
        {0, 0, true, TMPFS_MAGIC, 0, 0, 0, NULL},
        {0, 0, 0, 0, EINVAL, 0, 0, "open with O_DIRECT: Invalid argument"},
        {0, 0, 0, 0, 0, true, 0, "statx reports no direct I/O for this file"},
        {0, 0, 0, 0, 0, 0, true, "statx reports no direct I/O for this file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char reason[120];
        reset(state);
        os.fstatfs_error = rows[i].fstatfs_fails;
        os.kind = rows[i].block_device ? S_IFBLK : S_IFREG;
        os.fs_type = rows[i].fs_type;
        os.errors[1] = rows[i].open_error;
        os.offset_align = rows[i].offset ? 0 : 512;
        os.memory_align = rows[i].memory ? 0 : 512;
        os.zero = 2; /* a descriptor may be 0 */
        assert_int_equal(open_it(R | rows[i].flags, 0), WEFT_OK);
        assert_int_equal(os.recognised, 1);
        assert_int_equal(file.direct, rows[i].reason ? -1 : fd_of(1));
        assert_int_equal(os.open_now, rows[i].reason ? 1 : 2);
        if (rows[i].reason) {
            snprintf(reason, sizeof reason, "through the page cache: %s", rows[i].reason);
            assert_string_equal(file.reason, reason);
            assert_string_equal(file.reason_code, "FILE-BUFFERED");
            assert_int_equal(file.alignment, 1);
            assert_int_equal(file.memory_alignment, 1);
        } else {
            assert_true(file.block_device);
            assert_int_equal(file.device, makedev(9, 6));
        }
        close_it();
    }
}

static void what_direct_io_demands(void **state)
{
    static const struct {
        int statx_error;
        unsigned mask, offset, memory;
        long page, block;
        bool block_device;
        unsigned alignment, memory_alignment;
    } rows[] = {
        {0, STATX_DIOALIGN, 512, 4, 4096, 512, 0, 4096, 4},
        {0, STATX_DIOALIGN, 16384, 8192, 4096, 4096, 0, 16384, 8192},
        {1, STATX_DIOALIGN, 512, 4, 4096, 4096, 0, 4096, 4096},
        {0, STATX_SIZE, 512, 4, 4096, 4096, 0, 4096, 4096},
        {0, STATX_SIZE, 0, 0, 65536, 4096, 0, 65536, 65536},
        {1, 0, 0, 0, 512, 4096, 0, 4096, 4096},
        {0, STATX_DIOALIGN, 512, 4, 4096, 65536, 0, 65536, 4},
        {0, STATX_DIOALIGN, 512, 4, 4096, 131072, 0, 4096, 4},
        {0, STATX_DIOALIGN, 512, 4, 4096, 12288, 0, 4096, 4},
        {0, STATX_DIOALIGN, 512, 4, 4096, 0, 0, 4096, 4},
        {0, STATX_DIOALIGN, 512, 4, 4096, 65536, true, 4096, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(state);
        os.statx_error = rows[i].statx_error;
        os.mask = rows[i].mask;
        os.offset_align = rows[i].offset;
        os.memory_align = rows[i].memory;
        os.page = rows[i].page;
        os.block = rows[i].block;
        os.kind = rows[i].block_device ? S_IFBLK : S_IFREG;
        assert_int_equal(open_it(R, 0), WEFT_OK);
        assert_int_equal(file.alignment, rows[i].alignment);
        assert_int_equal(file.memory_alignment, rows[i].memory_alignment);
        close_it();
    }
}

static void what_keeps_a_file_from_better_is_noted(void **state)
{
    (void)state;
    assert_int_equal(open_it(R, 0), WEFT_OK);
    file_record_threads(&file, "one");
    assert_string_equal(file.reason_code, "FILE-NO-URING");
    assert_string_equal(file.reason, "through threads: one");
    file_disable_direct(&file, EINVAL);
    assert_string_equal(file.reason_code, "FILE-BUFFERED");
    assert_string_equal(file.reason,
                        "through the page cache: a direct transfer was refused: Invalid argument");
    assert_int_equal(file.alignment, 1);
    assert_int_equal(file.memory_alignment, 1);
    assert_int_equal(file.direct, fd_of(1));
    file_record_threads(&file, "two");
    assert_string_equal(file.reason_code, "FILE-BUFFERED");
    assert_non_null(strstr(file.reason, "Invalid argument; through threads: two"));
    close_it();
}

/* ----------------------------------------------------------------------- calls around transfers */

static void the_size_of_a_file(void **state)
{
    uint64_t bytes = 5;
    assert_int_equal(open_it(R | WEFT_FILE_BUFFERED, 0), WEFT_OK);
    assert_int_equal(file_size(&file, &bytes), WEFT_OK);
    assert_int_equal(bytes, 12345);
    os.fstat_error = EIO;
    assert_int_equal(file_size(&file, &bytes), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "fstat of /x/file: Input/output error");
    close_it();
    reset(state);
    os.kind = S_IFBLK;
    assert_int_equal(open_it(R | WEFT_FILE_BUFFERED, 0), WEFT_OK);
    assert_int_equal(file_size(&file, &bytes), WEFT_OK);
    assert_true(bytes == 1ull << 40);
    os.ioctl_error = ENOTTY;
    assert_int_equal(file_size(&file, &bytes), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "the size of /x/file: "));
    close_it();
}

static void a_file_is_resized(void **state)
{
    (void)state;
    assert_int_equal(open_it(W | WEFT_FILE_BUFFERED, 0), WEFT_OK);
    assert_int_equal(file_resize(&file, INT64_MAX), WEFT_OK);
    assert_int_equal(os.length, INT64_MAX);
    assert_int_equal(file_resize(&file, (uint64_t)INT64_MAX + 1), WEFT_ERR_RANGE);
    assert_int_equal(os.calls[TRUNCATE], 1);
    os.errors_left[TRUNCATE] = 2, os.errors_with = EINTR;
    assert_int_equal(file_resize(&file, 77), WEFT_OK);
    assert_int_equal(os.calls[TRUNCATE], 4);
    os.errors_left[TRUNCATE] = 1, os.errors_with = EFBIG;
    assert_int_equal(file_resize(&file, 77), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "ftruncate of /x/file to 77 bytes: File too large"));
    close_it();
}

/* file_sync() syncs the data and, once, the folder that the path names. */
static void what_is_made_safe(void **state)
{
    static const struct {
        const char *path, *folder;
    } rows[] = {{"file", "."}, {"/file", "/"}, {"x/file", "x"}, {"/x/y/file", "/x/y"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(state);
        assert_int_equal(open_it(W | C | WEFT_FILE_BUFFERED, 0), WEFT_OK);
        free(file.path);
        file.path = strdup(rows[i].path);
        os.freed = 0;
        os.zero = 3;
        os.errors_left[DATASYNC] = 2, os.errors_with = EINTR;
        os.errors[1] = EACCES;
        assert_int_equal(file_sync(&file), WEFT_ERR_SYSTEM);
        char words[100];
        snprintf(words, sizeof words, "open of the folder %s: Permission denied", rows[i].folder);
        assert_non_null(strstr(base_last_error(), words));
        os.errors_left[SYNC] = 1, os.errors_with = EIO;
        assert_int_equal(file_sync(&file), WEFT_ERR_SYSTEM);
        assert_string_equal(os.path[2], rows[i].folder);
        assert_int_equal(os.flags[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(os.mode[2], 0);
        snprintf(words, sizeof words, "fsync of the folder %s: Input/output error", rows[i].folder);
        assert_non_null(strstr(base_last_error(), words));
        os.errors_left[SYNC] = (int)i, os.errors_with = i == 1 ? EINVAL : EINTR;
        assert_int_equal(file_sync(&file), WEFT_OK);
        assert_int_equal(os.calls[SYNC], i == 1 ? 2 : (int)i + 2);
        assert_int_equal(os.calls[DATASYNC], 5);
        assert_int_equal(os.open_now, 1);
        assert_int_equal(file_sync(&file), WEFT_OK);
        assert_int_equal(os.opens, 4); /* the folder has been synced */
        assert_int_equal(os.calls[DATASYNC], 6);
        os.errors_left[DATASYNC] = 1, os.errors_with = EIO;
        assert_int_equal(file_sync(&file), WEFT_ERR_SYSTEM);
        assert_int_equal(os.calls[DATASYNC], 7);
        assert_non_null(strstr(base_last_error(), "Input/output error; data written since"));
        close_it();
    }
    reset(state);
    assert_int_equal(open_it(R | WEFT_FILE_BUFFERED, 0), WEFT_OK);
    assert_int_equal(file_sync(&file), WEFT_OK); /* nothing was written */
    assert_int_equal(os.calls[DATASYNC] + os.calls[SYNC], 0);
    close_it();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_both_descriptors_are_opened),
        cmocka_unit_test(who_has_made_the_file_knows_it),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(what_keeps_a_file_from_direct_io),
        cmocka_unit_test(what_direct_io_demands),
        cmocka_unit_test_setup(what_keeps_a_file_from_better_is_noted, reset),
        cmocka_unit_test_setup(the_size_of_a_file, reset),
        cmocka_unit_test_setup(a_file_is_resized, reset),
        cmocka_unit_test(what_is_made_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of libcufile.so.0 over the GPU memory of tests/fakecuda, at least as strict as the
 * real library: it ends the process at a use without registration, a second registration, a wrong
 * order, or an address that is not aligned to pages.
 *   FAKE_CUFILE=direct       files use direct I/O (default); compat: only compatibility mode, which
 *                            must be allowed; stuck: compatibility mode cannot be disabled; opened,
 *                            opened_compat: the program has opened the driver before, with
 *                            compatibility mode disabled or allowed
 *   FAKE_CUFILE_FAIL         open|enlist|know: that call fails; N or N:ERROR: the N-th transfer
 *                            fails with -ERROR (5044), from 5000 on a cuFile error, below an errno
 *   FAKE_CUFILE_SHORT=N      transfers move at most N pages
 *   FAKE_CUFILE_LOG=FILE     calls are appended, one line each */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct error {
    int error, cuda;
};

struct description {
    int type;
    union {
        int fd;
        void *handle;
    } handle;
    const void *operations;
};

enum { MOST = 64, PAGE = 4096, ALLOW_COMPAT = 1, FORCE_COMPAT = 2 };

/* From the stand-in of the CUDA driver, which the process has loaded. */
extern int cuMemcpyHtoD_v2(unsigned long long dst, const void *src, size_t bytes);
extern int cuMemcpyDtoH_v2(void *dst, unsigned long long src, size_t bytes);
extern int cuCtxGetCurrent(void **context);
extern int cuPointerGetAttribute(void *data, int attribute, unsigned long long address);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open, allow_compat = true, force_compat;
static int transfers;
static struct file {
    int fd;
    bool used;
} files[MOST];
static struct memory {
    uintptr_t base;
    size_t bytes;
} memories[MOST];

static void note(const char *what)
{
    const char *path = getenv("FAKE_CUFILE_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    char line[64];
    int n = snprintf(line, sizeof line, "%s\n", what);
    if (fd >= 0 && write(fd, line, (size_t)n) != n)
        abort();
    if (fd >= 0)
        close(fd);
}

static void wrong(const char *what)
{
    fprintf(stderr, "fakecufile: %s\n", what);
    abort();
}

static bool is_set(const char *name, const char *value)
{
    const char *setting = getenv(name);
    return setting && strcmp(setting, value) == 0;
}

static void needs_context(void)
{
    void *context = NULL;
    if (cuCtxGetCurrent(&context) || !context)
        wrong("no context is current");
}

/* The program that has opened the driver also closes it. */
static bool opened_before(void)
{
    return is_set("FAKE_CUFILE", "opened") || is_set("FAKE_CUFILE", "opened_compat");
}

EXPORT struct error cuFileSetParameterBool(int parameter, bool value)
{
    if (opened_before())
        return (struct error){5026, 0};
    if (is_open)
        wrong("a parameter is set while the driver is open");
    if (parameter == ALLOW_COMPAT && !is_set("FAKE_CUFILE", "stuck"))
        allow_compat = value;
    if (parameter == FORCE_COMPAT)
        force_compat = value;
    return (struct error){0, 0};
}

EXPORT struct error cuFileDriverOpen(void)
{
    if (opened_before()) {
        allow_compat = is_set("FAKE_CUFILE", "opened_compat");
        is_open = true;
        return (struct error){5026, 0};
    }
    if (is_open)
        wrong("the driver is opened twice");
    if (is_set("FAKE_CUFILE_FAIL", "open"))
        return (struct error){5001, 0};
    is_open = true;
    note("open");
    return (struct error){0, 0};
}

EXPORT struct error cuFileDriverClose_v2(void)
{
    if (opened_before())
        wrong("the driver is closed by one who has not opened it");
    if (!is_open)
        wrong("the driver is closed and was not open");
    for (int i = 0; i < MOST; i++)
        if (files[i].used || memories[i].base)
            wrong("the driver is closed while something is registered");
    is_open = false;
    note("close");
    return (struct error){0, 0};
}

EXPORT struct error cuFileDriverGetProperties(void *properties)
{
    struct {
        unsigned major, minor;
        size_t sizes[2];
        unsigned status, control;
    } seen = {2, 17, {4, 16384}, 1u << 4, allow_compat ? 2u : 0};
    memcpy(properties, &seen, sizeof seen);
    return (struct error){0, 0};
}

/* The real library reopens a file by its name. */
static bool has_name(int fd)
{
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, name, sizeof name - 1);
    name[n > 0 ? n : 0] = '\0';
    return access(name, F_OK) == 0;
}

EXPORT struct error cuFileHandleRegister(void **handle, struct description *description)
{
    if (!is_open || description->type != 1)
        wrong("a file is registered with no driver open, or is none");
    bool compat = is_set("FAKE_CUFILE", "compat") || force_compat;
    if (is_set("FAKE_CUFILE_FAIL", "enlist") || (compat && !allow_compat))
        return (struct error){5008, 0};
    if (!(fcntl(description->handle.fd, F_GETFL) & O_DIRECT))
        return (struct error){5020, 0};
    if (!has_name(description->handle.fd))
        return (struct error){5031, 0};
    pthread_mutex_lock(&lock);
    struct file *file = files;
    while (file < files + MOST && file->used)
        file++;
    if (file == files + MOST)
        wrong("too many files");
    *file = (struct file){description->handle.fd, true};
    pthread_mutex_unlock(&lock);
    *handle = file;
    note("enlist");
    return (struct error){0, 0};
}

EXPORT void cuFileHandleDeregister(void *handle)
{
    struct file *file = handle;
    if (!is_open || !file->used || fcntl(file->fd, F_GETFL) < 0)
        wrong("a file is deregistered that is not registered, or closed already");
    file->used = false;
    note("drop");
}

EXPORT struct error cuFileBufRegister(const void *base, size_t bytes, int flags)
{
    needs_context();
    if (!is_open || flags || (uintptr_t)base % PAGE || bytes % PAGE)
        wrong("memory is registered with no driver open, or not in whole pages");
    if (is_set("FAKE_CUFILE_FAIL", "know"))
        return (struct error){5036, 0};
    pthread_mutex_lock(&lock);
    struct memory *free_one = NULL;
    for (int i = 0; i < MOST; i++) {
        if (memories[i].base && (uintptr_t)base < memories[i].base + memories[i].bytes &&
            memories[i].base < (uintptr_t)base + bytes)
            wrong("memory is registered twice");
        if (!memories[i].base)
            free_one = &memories[i];
    }
    if (!free_one)
        wrong("too much memory is registered");
    *free_one = (struct memory){(uintptr_t)base, bytes};
    pthread_mutex_unlock(&lock);
    note("know");
    return (struct error){0, 0};
}

EXPORT struct error cuFileBufDeregister(const void *base)
{
    needs_context();
    for (int i = 0; i < MOST; i++)
        if (memories[i].base == (uintptr_t)base && base) {
            memories[i].base = 0;
            note("forget");
            return (struct error){0, 0};
        }
    wrong("memory is deregistered that is not registered");
    return (struct error){5024, 0};
}

/* The result of the call in place of the number of bytes; 0: no fault. */
static ssize_t fault(void)
{
    const char *setting = getenv("FAKE_CUFILE_FAIL");
    int which = 0, error = 5044;
    int now = __atomic_add_fetch(&transfers, 1, __ATOMIC_RELAXED);
    if (!setting || sscanf(setting, "%d:%d", &which, &error) < 1 || which != now)
        return 0;
    if (error >= 5000)
        return -error;
    errno = error;
    return -1;
}

static ssize_t move(void *handle, unsigned long long memory, size_t bytes, off_t at,
                    off_t in_memory, bool in)
{
    struct file *file = handle;
    const char *few = getenv("FAKE_CUFILE_SHORT");
    size_t most = few ? (size_t)atoi(few) * PAGE : bytes;
    needs_context();
    if (!is_open || !file->used || !bytes || bytes % PAGE || at % PAGE || in_memory ||
        memory % PAGE)
        wrong("a transfer of a file that is not registered, or not in whole pages");
    unsigned type;
    if (cuPointerGetAttribute(&type, 2 /* MEMORY_TYPE */, memory) || type != 2 /* device memory */)
        wrong("a transfer of memory that is not the GPU's");
    ssize_t failed = fault();
    if (failed)
        return failed;
    bytes = bytes < most ? bytes : most;
    char *buffer = aligned_alloc(PAGE, bytes);
    if (!buffer || (!in && cuMemcpyDtoH_v2(buffer, memory, bytes)))
        wrong("no memory");
    ssize_t n = in ? pread(file->fd, buffer, bytes, at) : pwrite(file->fd, buffer, bytes, at);
    if (n > 0 && in && cuMemcpyHtoD_v2(memory, buffer, (size_t)n))
        wrong("the GPU refuses the bytes");
    free(buffer);
    if (n > 0)
        note(in ? "read" : "write");
    return n;
}

EXPORT ssize_t cuFileRead(void *handle, void *base, size_t bytes, off_t at, off_t in_memory)
{
    return move(handle, (uintptr_t)base, bytes, at, in_memory, true);
}

EXPORT ssize_t cuFileWrite(void *handle, const void *base, size_t bytes, off_t at, off_t in_memory)
{
    return move(handle, (uintptr_t)base, bytes, at, in_memory, false);
}

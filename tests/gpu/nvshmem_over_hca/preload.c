/* SPDX-License-Identifier: Apache-2.0 */
/* Provides what NVSHMEM reads from sysfs for an adapter that is not there: the PCI address of a
 * device mlx5_soft*, and the type of its GIDs. Also registers its doorbell registers with the GPU
 * driver: they are ordinary host memory, which the driver refuses with the I/O memory flag, so the
 * flag is removed. Only for run.sh. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int of_soft(const char *path, const char *what)
{
    return path && strncmp(path, "/sys/class/infiniband/mlx5_soft", 31) == 0 && strstr(path, what);
}

char *realpath(const char *path, char *resolved)
{
    static char *(*next)(const char *, char *);
    static const char place[] = "/sys/devices/pci0000:00/0000:00:1f.0";
    if (!next)
        *(void **)&next = dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3");
    if (!of_soft(path, "/device"))
        return next(path, resolved);
    return resolved ? strcpy(resolved, place) : strdup(place);
}

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    static const char type[] = "RoCE v2\n";
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (!next)
        *(void **)&next = dlvsym(RTLD_NEXT, "open", "GLIBC_2.2.5");
    if (!of_soft(path, "/gid_attrs/types/"))
        return next(path, flags, mode);
    int fd = memfd_create("gid-type", MFD_CLOEXEC);
    if (fd < 0 || write(fd, type, sizeof type - 1) < 0 || lseek(fd, 0, SEEK_SET))
        return -1;
    return fd;
}

/* ------------------------------------------------------------- doorbell registers, for the GPU */

enum { REGISTER_IOMEMORY = 4 }; /* CU_MEMHOSTREGISTER_IOMEMORY */

typedef int host_register(void *memory, size_t bytes, unsigned flags);
typedef int get_address(const char *name, void **function, int version, uint64_t flags, int *found);
static host_register *their_register;
static get_address *their_get_address;

static int register_plain(void *memory, size_t bytes, unsigned flags)
{
    int error = their_register(memory, bytes, flags);
    return error && flags & REGISTER_IOMEMORY
               ? their_register(memory, bytes, flags & ~(unsigned)REGISTER_IOMEMORY)
               : error;
}

static int address_of(const char *name, void **function, int version, uint64_t flags, int *found);

/* Replaces the driver's function and keeps the original. */
static void put_between(const char *name, void **function)
{
    if (!*function)
        return;
    if (strncmp(name, "cuMemHostRegister", 17) == 0) {
        memcpy(&their_register, function, sizeof *function);
        *function = (void *)(uintptr_t)register_plain;
    } else if (strncmp(name, "cuGetProcAddress", 16) == 0 &&
               *function != (void *)(uintptr_t)address_of) {
        memcpy(&their_get_address, function, sizeof *function);
        *function = (void *)(uintptr_t)address_of;
    }
}

static int address_of(const char *name, void **function, int version, uint64_t flags, int *found)
{
    int error = their_get_address(name, function, version, flags, found);
    if (!error && function)
        put_between(name, function);
    return error;
}

/* The CUDA runtime looks up the driver's functions by name. */
void *dlsym(void *handle, const char *name)
{
    static void *(*next)(void *, const char *);
    if (!next)
        *(void **)&next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    void *function = next(handle, name);
    put_between(name, &function);
    return function;
}

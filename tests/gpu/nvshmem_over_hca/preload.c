/* SPDX-License-Identifier: Apache-2.0 */
/* What NVSHMEM looks for in sysfs for an adapter that has none: the PCI place of a device mlx5_soft*, and the
 * type of its GIDs. For run.sh alone. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
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
        *(void **)&next = dlsym(RTLD_NEXT, "open");
    if (!of_soft(path, "/gid_attrs/types/"))
        return next(path, flags, mode);
    int fd = memfd_create("gid-type", MFD_CLOEXEC);
    if (fd < 0 || write(fd, type, sizeof type - 1) < 0 || lseek(fd, 0, SEEK_SET))
        return -1;
    return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded on a machine with GPUs: asks the GPU's driver to map memory by a structure of another size, as a driver
 * whose interface has changed would see it. The driver must refuse, and the job must do without the mapping. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/ioctl.h>

int ioctl(int fd, unsigned long request, ...)
{
    enum { MAP_MEMORY = 0x4e, BYTES = 56 };
    va_list list;
    va_start(list, request);
    void *data = va_arg(list, void *);
    va_end(list);
    int (*next)(int, unsigned long, void *) =
        (int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl");
    if (_IOC_TYPE(request) == 'F' && _IOC_NR(request) == MAP_MEMORY && _IOC_SIZE(request) == BYTES)
        request = _IOC(_IOC_READ | _IOC_WRITE, 'F', MAP_MEMORY, BYTES + 8);
    return next(fd, request, data);
}

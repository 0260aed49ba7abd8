/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded on a machine with GPUs: asks the GPU's driver to map memory by a structure of another
 * size, as a driver whose interface has changed would see it. The driver must refuse, and the job
 * must do without the mapping. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/ioctl.h>

int ioctl(int fd, unsigned long request, ...)
{
    enum { MAP_MEMORY = 0x4e, BYTES = 56, STATUS_AT = 40, NOT_ANSWERED = 0x7fffffff };
    va_list list;
    va_start(list, request);
    void *data = va_arg(list, void *);
    va_end(list);
    int (*next)(int, unsigned long, void *) =
        (int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl");
    /* The driver's own libraries ask by the same request; Weft's are known by the status that they
     * begin with. */
    if (_IOC_TYPE(request) == 'F' && _IOC_NR(request) == MAP_MEMORY &&
        _IOC_SIZE(request) == BYTES &&
        *(const uint32_t *)((const char *)data + STATUS_AT) == NOT_ANSWERED)
        request = _IOC(_IOC_READ | _IOC_WRITE, 'F', MAP_MEMORY, BYTES + 8);
    return next(fd, request, data);
}

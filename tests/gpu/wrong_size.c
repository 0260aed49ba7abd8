/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded on a machine with GPUs: changes the size of the structure in the mapping request to the
 * GPU driver, as if the driver's interface had changed. The driver must refuse it, and the job must
 * work without the mapping. */
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
    /* The driver's own libraries use the same request. Requests of Weft are recognized by their
     * initial status. */
    if (_IOC_TYPE(request) == 'F' && _IOC_NR(request) == MAP_MEMORY &&
        _IOC_SIZE(request) == BYTES &&
        *(const uint32_t *)((const char *)data + STATUS_AT) == NOT_ANSWERED)
        request = _IOC(_IOC_READ | _IOC_WRITE, 'F', MAP_MEMORY, BYTES + 8);
    return next(fd, request, data);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of GDRCopy's libgdrapi.so.2 over the memory of tests/fakecuda.
 * FAKE_GDR_FAIL=open|pin|map: that call fails. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef unsigned long long device_address;

/* From the stand-in of the CUDA driver, which the process has loaded. */
extern int cuMemRetainAllocationHandle(unsigned long long *handle, void *address);
extern int cuMemExportToShareableHandle(void *shareable, unsigned long long handle, int type,
                                        unsigned long long flags);
extern int cuMemRelease(unsigned long long handle);
extern int fake_cuda_plain(device_address address, size_t *offset);
extern int cuPointerGetAttribute(void *data, int attribute, device_address address);

struct gdr {
    int open;
};

typedef struct {
    unsigned long h;
} gdr_mh_t;

enum { MOST = 4096, PAGE = 65536, POSIX_FD = 1, RANGE_START = 11 };

static struct pin {
    int fd; /* 0: free */
    size_t offset, bytes;
    int mapped;
} pins[MOST];

static int refuses(const char *call)
{
    const char *setting = getenv("FAKE_GDR_FAIL");
    return setting && strcmp(setting, call) == 0;
}

EXPORT struct gdr *gdr_open(void)
{
    return refuses("open") ? NULL : calloc(1, sizeof(struct gdr));
}

EXPORT int gdr_close(struct gdr *gdr)
{
    for (int i = 1; i < MOST; i++)
        if (pins[i].fd)
            abort(); /* a buffer is still pinned */
    free(gdr);
    return 0;
}

EXPORT int gdr_pin_buffer(struct gdr *gdr, unsigned long address, size_t bytes, uint64_t p2p_token,
                          uint32_t va_space, gdr_mh_t *pin)
{
    (void)gdr, (void)p2p_token, (void)va_space;
    device_address start = 0;
    unsigned long long handle;
    int fd = -1, i = 1;
    if (refuses("pin") || address % PAGE || !bytes)
        return EINVAL;
    size_t offset = 0;
    int result = 0;
    if (cuMemRetainAllocationHandle(&handle, (void *)address) == 0) {
        if (cuPointerGetAttribute(&start, RANGE_START, address))
            return EINVAL;
        offset = address - start;
        result = cuMemExportToShareableHandle(&fd, handle, POSIX_FD, 0);
        cuMemRelease(handle);
    } else if ((fd = fake_cuda_plain(address, &offset)) < 0) {
        return EINVAL;
    }
    while (i < MOST && pins[i].fd)
        i++;
    if (result || i == MOST)
        return ENOMEM;
    pins[i] = (struct pin){.fd = fd, .offset = offset, .bytes = bytes};
    pin->h = (unsigned long)i;
    return 0;
}

EXPORT int gdr_unpin_buffer(struct gdr *gdr, gdr_mh_t pin)
{
    (void)gdr;
    if (pin.h >= MOST || !pins[pin.h].fd || pins[pin.h].mapped)
        abort();
    close(pins[pin.h].fd);
    pins[pin.h].fd = 0;
    return 0;
}

EXPORT int gdr_map(struct gdr *gdr, gdr_mh_t handle, void **at, size_t bytes)
{
    (void)gdr;
    struct pin *pin = &pins[handle.h];
    if (refuses("map") || handle.h >= MOST || !pin->fd || pin->mapped || bytes > pin->bytes)
        return EAGAIN;
    *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pin->fd, (off_t)pin->offset);
    pin->mapped = *at != MAP_FAILED;
    return pin->mapped ? 0 : errno;
}

EXPORT int gdr_unmap(struct gdr *gdr, gdr_mh_t handle, void *at, size_t bytes)
{
    (void)gdr;
    if (handle.h >= MOST || !pins[handle.h].mapped)
        abort();
    pins[handle.h].mapped = 0;
    return munmap(at, bytes) ? errno : 0;
}

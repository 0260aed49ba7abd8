/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the stand-in: the registrations, and whether each use names the right one. GPU
 * memory is that of tests/fakecuda, whose driver reports the owner of an address. */
#include "fake.h"

#include "../fakecuda/fake.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REGIONS = 4096, ENDPOINTS = 64 };

static struct region regions[REGIONS];
static int region_count;

static struct {
    const struct fid_ep *endpoint;
    const struct fid *domain;
} endpoints[ENDPOINTS];
static int endpoint_count;

void broken(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "fakefabric: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

bool asked_for(const char *variable, const char *word)
{
    const char *text = getenv(variable);
    return text && (!word || strstr(text, word));
}

/* Recently closed registrations stay in the table, so that their use is detected. */
struct region *region_new(void)
{
    static int turn;
    struct region *region = region_count < REGIONS ? &regions[region_count++] : NULL;
    for (int i = 0; i < REGIONS && !region; i++, turn = (turn + 1) % REGIONS)
        if (!regions[turn].open)
            region = &regions[turn];
    if (!region)
        broken("more than %d registrations", REGIONS);
    *region = (struct region){.open = true};
    return region;
}

void note_endpoint(const struct fid_ep *endpoint, const struct fid *domain)
{
    if (endpoint_count == ENDPOINTS)
        broken("more than %d endpoints", ENDPOINTS);
    endpoints[endpoint_count].endpoint = endpoint;
    endpoints[endpoint_count++].domain = domain;
}

/* Searches backwards, because the address may be reused after a close. */
const struct fid *domain_of(const struct fid_ep *endpoint)
{
    int i = endpoint_count - 1;
    while (i > 0 && endpoints[i].endpoint != endpoint)
        i--;
    return endpoints[i].domain;
}

void region_check_free(const struct fid *domain)
{
    for (int i = 0; i < region_count; i++)
        if (regions[i].open && regions[i].domain == domain)
            broken("the domain is closed, and %zu bytes at %#zx are registered still",
                   regions[i].bytes, (size_t)regions[i].base);
}

static void flush_word(struct region *r, size_t from)
{
    unsigned char *memory = memory_at(r->base);
    for (size_t k = from; k < from + sizeof(uint64_t); k++)
        if (__atomic_exchange_n(&r->written[k], 0, __ATOMIC_ACQ_REL))
            memory[k] = r->shadow[k];
}

/* Makes the writes of NICs visible. */
void region_flush(void)
{
    if (asked_for("FAKE_FABRIC_LIE", NULL))
        return;
    for (int i = 0; i < region_count; i++) {
        struct region *r = &regions[i];
        const uint64_t *words = (const uint64_t *)(const void *)r->written;
        for (size_t k = 0; r->shadow && r->open && k < r->bytes; k += sizeof *words)
            if (__atomic_load_n(&words[k / sizeof *words], __ATOMIC_ACQUIRE))
                flush_word(r, k);
    }
}

void *region_descriptor(const struct fid_ep *endpoint, const void *buffer, size_t bytes,
                        void *descriptor, const char *what)
{
    struct region *r = descriptor;
    uintptr_t at = (uintptr_t)buffer;
    if (!bytes)
        return NULL;
    if (!r || r < regions || r >= regions + REGIONS)
        broken("%s: the %zu bytes at %p have no local descriptor", what, bytes, buffer);
    if (!r->open)
        broken("%s: the registration of %p has been closed", what, buffer);
    if (at < r->base || at + bytes > r->base + r->bytes)
        broken("%s: %zu bytes at %p are not within the %zu registered at %#zx", what, bytes, buffer,
               r->bytes, (size_t)r->base);
    if (r->domain != domain_of(endpoint))
        broken("%s: %p is registered with another NIC", what, buffer);
    return r->real_descriptor;
}

/* ----------------------------------------------------------------------------- the GPU's driver */

static int attribute_of(int attribute, uintptr_t address)
{
    static CUresult (*ask)(void *value, int attribute, CUdeviceptr address);
    void *driver = ask ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int value = -1;
    if (driver)
        *(void **)&ask = dlsym(driver, "cuPointerGetAttribute");
    if (!ask)
        broken("GPU memory is registered, and there is no driver");
    return ask(&value, attribute, address) ? -1 : value;
}

static void check_iface(const struct fi_mr_attr *attr, uintptr_t base)
{
    if (attr->iface != FI_HMEM_CUDA)
        broken("GPU memory is registered with interface %d", (int)attr->iface);
    if (attribute_of(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base) != CU_MEMORYTYPE_DEVICE)
        broken("%#zx is no memory of a GPU", (size_t)base);
    if (attr->device.cuda != attribute_of(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base))
        broken("memory of GPU %d is registered as one of GPU %d",
               attribute_of(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base), attr->device.cuda);
}

void check_address(const void *base, size_t bytes, const struct fi_mr_attr *attr)
{
    bool device = is_device_address((uintptr_t)base);
    if (!device && attr && attr->iface != FI_HMEM_SYSTEM)
        broken("host memory is registered with interface %d", (int)attr->iface);
    if (device && !attr)
        broken("GPU memory is registered by fi_mr_reg, which cannot name it");
    if (!device)
        return;
    check_iface(attr, (uintptr_t)base);
    if (attribute_of(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (uintptr_t)base + bytes - 1) < 0)
        broken("%zu bytes at %p are not all there", bytes, base);
}

uintptr_t check_dmabuf(const void *dmabuf, const struct fi_mr_attr *attr, size_t *bytes)
{
    const struct {
        int fd;
        uint64_t offset;
        size_t len;
        void *base_addr;
    } *given = dmabuf;
    uint64_t range[2]; /* address and bytes, which tests/fakecuda writes into its dma-bufs */
    if (pread(given->fd, range, sizeof range, 0) != sizeof range)
        broken("%d is no dma-buf", given->fd);
    if (given->offset > range[1] || given->len > range[1] - given->offset)
        broken("%zu bytes at %llu of a dma-buf of %llu", given->len,
               (unsigned long long)given->offset, (unsigned long long)range[1]);
    if ((uintptr_t)given->base_addr != range[0] + given->offset)
        broken("a dma-buf of %#llx at %llu is registered as %p", (unsigned long long)range[0],
               (unsigned long long)given->offset, given->base_addr);
    check_iface(attr, range[0] + given->offset);
    *bytes = given->len;
    return range[0] + given->offset;
}

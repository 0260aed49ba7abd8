/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains and memory regions. */
#include "gpu/memory.h"
#include "context.h"
#include "gpu/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

enum {
    KNOWN_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB,
    ALL_OPTIONAL = IBV_ACCESS_OPTIONAL_RANGE,
};

PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct device *d = context_of(context)->device;
    struct hca_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    device_lock(d);
    for (uint32_t i = 1; i < MAX_PDS && !pd->number; i++)
        if (!d->objects.pds[i])
            pd->number = i;
    if (pd->number)
        d->objects.pds[pd->number] = 1;
    device_unlock(d);
    if (!pd->number) {
        free(pd);
        errno = ENOMEM;
        return NULL;
    }
    pd->pd.context = context;
    pd->pd.handle = pd->number;
    return &pd->pd;
}

PUBLIC int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
    struct hca_pd *pd = pd_of(ibpd);
    struct device *d = context_of(ibpd->context)->device;
    device_lock(d);
    bool busy = !pd->parent && d->objects.pds[pd->number] > 1;
    if (!busy)
        d->objects.pds[pd->number] -= 1;
    device_unlock(d);
    if (busy)
        return EBUSY;
    free(pd);
    return 0;
}

/* Returns true if every page of the range is mapped in this process. */
static bool is_mapped(uint64_t address, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = address & ~(page - 1);
    if (!bytes)
        return true;
    if (address + bytes < address)
        return false;
    return !msync((void *)(uintptr_t)first, address + bytes - first, MS_ASYNC);
}

static struct ibv_mr *add_mr(struct ibv_pd *ibpd, uint64_t memory, uint64_t bytes, uint64_t iova,
                             int access)
{
    struct hca_pd *pd = pd_of(ibpd);
    struct device *d = context_of(ibpd->context)->device;
    if (access & ~(KNOWN_ACCESS | (int)ALL_OPTIONAL)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    /* Remote writing and atomics need local writing (IBA 10.6.3.1). */
    if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
        !(access & IBV_ACCESS_LOCAL_WRITE)) {
        errno = EINVAL;
        return NULL;
    }
    struct hca_mr *mr = calloc(1, sizeof *mr);
    if (!mr)
        return NULL;
    device_lock(d);
    uint32_t key = mr_add(d, pd->number, iova, memory, bytes, (uint32_t)access);
    if (key)
        d->objects.pds[pd->number]++;
    device_unlock(d);
    if (!key) {
        free(mr);
        errno = ENOMEM;
        return NULL;
    }
    mr->mr = (struct ibv_mr){.context = ibpd->context,
                             .pd = ibpd,
                             .addr = (void *)(uintptr_t)memory,
                             .length = bytes,
                             .handle = key,
                             .lkey = key,
                             .rkey = key};
    return &mr->mr;
}

/* Registers GPU memory, by dma-buf or by its address. A NIC's driver cannot pin its pages without
 * the GPU's driver. */
static struct ibv_mr *add_gpu_mr(struct ibv_pd *pd, uint64_t memory, uint64_t bytes, uint64_t iova,
                                 int access, enum config_gpu way, bool *is_gpu)
{
    enum gpu_memory_kind kind = gpu_memory_add(memory, bytes);
    unsigned allowed = context_of(pd->context)->device->config->gpu;
    *is_gpu = kind != GPU_MEMORY_NONE;
    if (!*is_gpu)
        return NULL;
    bool fine = kind == GPU_MEMORY_THERE && (allowed == GPU_ANY || allowed == way);
    struct ibv_mr *mr = fine ? add_mr(pd, memory, bytes, iova, access) : NULL;
    if (mr)
        HOLDER(mr, struct hca_mr, mr)->on_gpu = true;
    else if (kind == GPU_MEMORY_THERE)
        gpu_memory_remove(memory, bytes);
    if (!fine)
        errno = way == GPU_DMABUF ? EOPNOTSUPP : EFAULT;
    return mr;
}

PUBLIC struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                       unsigned int access)
{
    bool is_gpu;
    struct ibv_mr *mr =
        add_gpu_mr(pd, (uintptr_t)addr, length, iova, (int)access, GPU_PEERMEM, &is_gpu);
    if (is_gpu)
        return mr;
    if (!is_mapped((uintptr_t)addr, length)) {
        errno = EFAULT;
        return NULL;
    }
    return add_mr(pd, (uintptr_t)addr, length, iova, (int)access);
}

PUBLIC struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

PUBLIC struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                      int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

/* A dma-buf is accessed at the address where the program has mapped it already, or else is mapped
 * here. For GPU memory the address names it. */
PUBLIC struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                        uint64_t iova, int fd, int access)
{
    bool is_gpu;
    struct ibv_mr *mr = add_gpu_mr(pd, iova, length, iova, access, GPU_DMABUF, &is_gpu);
    if (is_gpu)
        return mr;
    if (is_mapped(iova, length))
        return add_mr(pd, iova, length, iova, access);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = offset & (page - 1);
    void *at =
        mmap(NULL, length + skip, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - skip));
    if (at == MAP_FAILED) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    mr = add_mr(pd, (uintptr_t)at + skip, length, iova, access);
    if (!mr) {
        munmap(at, length + skip);
        return NULL;
    }
    struct hca_mr *m = HOLDER(mr, struct hca_mr, mr);
    m->mapped = at;
    m->mapped_bytes = length + skip;
    return mr;
}

PUBLIC int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct hca_mr *m = HOLDER(mr, struct hca_mr, mr);
    struct device *d = context_of(mr->context)->device;
    device_lock(d);
    int e = mr_remove(d, mr->lkey);
    if (!e)
        d->objects.pds[pd_of(mr->pd)->number]--;
    device_unlock(d);
    if (e)
        return e;
    if (m->on_gpu)
        gpu_engine_flush(d);
    if (m->on_gpu)
        gpu_memory_remove((uintptr_t)mr->addr, mr->length);
    if (m->mapped)
        munmap(m->mapped, m->mapped_bytes);
    free(m);
    return 0;
}

PUBLIC int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                        int access)
{
    /* Not supported; the region is unchanged. */
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

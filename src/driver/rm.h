/* SPDX-License-Identifier: Apache-2.0 */
/* The resource interface of NVIDIA's kernel driver (/dev/nvidiactl), as far as it maps memory of a
 * GPU into the CPU's address space, write-combined, without a kernel module of ours. It is the
 * interface that the driver's own libraries use; nobody promises that it stays. What is used of it
 * has been the same from driver 535 to 610, a wrong size is refused by the driver, and whoever maps
 * sees for himself that what he stores arrives (gpu/map/map.h). Knows nothing of heaps and PEs; may
 * be called without CUDA. Source: NVIDIA's open-gpu-kernel-modules, nv_escape.h, nv-ioctl.h,
 * nvos.h, ctrl0000unix.h, MIT licence: numbers and layouts only. */
#ifndef WEFT_DRIVER_RM_H
#define WEFT_DRIVER_RM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft.h>

/* A client of the driver: of this process alone, a child of fork() opens its own. */
struct rm;

/* Memory of a GPU that this process holds a reference to: it stays allocated, whoever frees it,
 * until rm_release(). */
struct rm_memory {
    uint32_t handle;
    struct rm_gpu *gpu;
};

struct rm_mapping {
    void *at;
    size_t bytes;
    uint64_t linear; /* the driver's name for it */
    struct rm_memory memory;
};

/* WEFT_ERR_UNSUPPORTED, with what was tried and what refused. */
weft_status rm_open(struct rm **rm);

/* What is mapped must be unmapped before: a mapping that outlives the client reads as zeros at
 * best. NULL is allowed. */
void rm_close(struct rm *rm);

/* In a child of fork(): closes its descriptors, and allocates, frees and locks nothing. NULL is
 * allowed. */
void rm_abandon(struct rm *rm);

/* The memory behind a descriptor of cuMemExportToShareableHandle(), of the GPU at `bus_id`
 * ("0000:0d:00.0"). The descriptor may be closed afterwards. Holding it is all the permission that
 * is needed. */
weft_status rm_import(struct rm *rm, const char *bus_id, int fd, struct rm_memory *memory);

/* The memory that another client of this process has under `object`: of CUDA's own, say. */
weft_status rm_duplicate(struct rm *rm, const char *bus_id, uint32_t client, uint32_t object,
                         struct rm_memory *memory);

void rm_release(struct rm *rm, struct rm_memory *memory);

/* Maps `bytes` at `offset` of it, both multiples of the page size, at the address `at` (MAP_FIXED:
 * it must be the caller's), or anywhere (NULL). A child of fork() does not inherit it.
 * WEFT_ERR_NO_MEMORY: the GPU's BAR1, through which the CPU reaches it, has no room for so much. */
weft_status rm_map(struct rm *rm, const struct rm_memory *memory, size_t offset, size_t bytes,
                   void *at, struct rm_mapping *mapping);

/* leave: the addresses stay reserved (PROT_NONE) for whoever gave them. */
void rm_unmap(struct rm *rm, struct rm_mapping *mapping, int leave);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The resource manager (RM) interface of NVIDIA's kernel driver (/dev/nvidiactl): the part that
 * maps GPU memory into the CPU's address space, write-combined, without an additional kernel
 * module. The driver's own libraries use this interface; NVIDIA does not guarantee its stability.
 * The requests used here are the same from driver 535 to 610, the driver refuses a wrong size, and
 * the caller tests that stored data arrives (gpu/map/map.h). Needs no CUDA. Source: NVIDIA's
 * open-gpu-kernel-modules, nv_escape.h, nv-ioctl.h, nvos.h, ctrl0000unix.h, MIT licence: numbers
 * and layouts only. */
#ifndef WEFT_DRIVER_RM_H
#define WEFT_DRIVER_RM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft.h>

/* A client of the driver. It belongs to this process; a child of fork() must open its own. */
struct rm;

/* A reference to GPU memory: the memory stays allocated until rm_release(), even if its owner frees
 * it. */
struct rm_memory {
    uint32_t handle;
    struct rm_gpu *gpu;
};

struct rm_mapping {
    void *at;
    size_t bytes;
    uint64_t linear; /* the driver's identifier of the mapping */
    struct rm_memory memory;
};

/* Opens a client. WEFT_ERR_UNSUPPORTED: the message has the request that was refused. */
weft_status rm_open(struct rm **rm);

/* The caller must unmap everything first: a mapping that outlives the client reads zeros at best.
 * NULL is allowed. */
void rm_close(struct rm *rm);

/* For a child of fork(): closes the descriptors; does not allocate, free or lock. NULL is allowed.
 */
void rm_abandon(struct rm *rm);

/* Imports the memory of a descriptor of cuMemExportToShareableHandle(), on the GPU at `bus_id`
 * ("0000:0d:00.0"). The caller may close the descriptor afterwards. No other permission is
 * needed. */
weft_status rm_import(struct rm *rm, const char *bus_id, int fd, struct rm_memory *memory);

/* References the memory that another client of this process, such as CUDA's, has as `object`. */
weft_status rm_duplicate(struct rm *rm, const char *bus_id, uint32_t client, uint32_t object,
                         struct rm_memory *memory);

void rm_release(struct rm *rm, struct rm_memory *memory);

/* Maps `bytes` at `offset` of the memory, both multiples of the page size, at the address `at`
 * (MAP_FIXED: the caller must own the range), or anywhere (NULL). A child of fork() does not
 * inherit the mapping. WEFT_ERR_NO_MEMORY: the GPU's BAR1 has not enough free space. */
weft_status rm_map(struct rm *rm, const struct rm_memory *memory, size_t offset, size_t bytes,
                   void *at, struct rm_mapping *mapping);

/* leave: the address range stays reserved (PROT_NONE) for the caller of rm_map(). */
void rm_unmap(struct rm *rm, struct rm_mapping *mapping, int leave);

#endif

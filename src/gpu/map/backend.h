/* SPDX-License-Identifier: Apache-2.0 */
/* Backends that map GPU memory into the CPU's address space: one table of functions for each driver
 * interface. For map*.c. */
#ifndef WEFT_GPU_MAP_WAY_H
#define WEFT_GPU_MAP_WAY_H

#include "driver/rm.h"
#include "gpu/map/map.h"

/* Page size of gdrdrv and of GPUs. */
enum { MAP_PAGE_BYTES = 65536 };

/* An allocation that can be mapped. */
struct map_memory {
    struct map_memory *next;
    int slot;             /* window that holds the memory; -1: memory of the program */
    size_t offset, bytes; /* offset and size in the window */
    const char *bus_id;   /* PCI address of its GPU */
    /* device address; for memory of the program rounded down to a page of 64 KiB */
    CUdeviceptr address;
    /* handle of own memory; 0: memory of another PE, which cannot be exported again */
    CUmemGenericAllocationHandle handle;
    struct rm_memory rm;
    int dmabuf;     /* -1: not exported yet */
    int pending_fd; /* descriptor of another PE's memory until the backend is chosen; -1: none */
    /* Identity of memory of the program: start of the allocation as the driver reports it, and the
     * driver's buffer id for memory of cudaMalloc(). */
    CUdeviceptr start;
    unsigned long long number; /* 0: memory of cuMemCreate(), whose handle is held */
    /* memory of cudaMalloc(): offset of `address` in the driver's object */
    size_t inside;
    bool busy; /* a mapping of this memory is being created */
    /* the program may have freed the memory: its mappings are not kept */
    bool stale;
    struct map_piece *pieces;
};

/* A mapped part of such an allocation. */
struct map_piece {
    struct map_piece *next;
    struct map_memory *memory;
    char *at;
    size_t bytes;
    struct rm_mapping rm;
    unsigned long gdr;
    /* For memory of the program: */
    size_t offset;
    unsigned users;
    uint64_t used; /* the last time, counted in uses */
};

struct map_backend {
    const char *name; /* value of WEFT_MAP */
    const char *what;

    /* Imports another PE's memory while its descriptor is open. NULL: not needed. */
    weft_status (*import)(struct gpu_map *map, struct map_memory *memory, int fd);

    /* Releases the backend's state of memory of which nothing is mapped. */
    void (*forget)(struct gpu_map *map, struct map_memory *memory);

    /* Maps `bytes` at `offset` of the memory to the reserved address `at`. Sets piece->at and
     * piece->bytes. */
    weft_status (*map)(struct gpu_map *map, struct map_memory *memory, size_t offset, size_t bytes,
                       char *at, struct map_piece *piece);

    /* Unmaps the piece and keeps the addresses reserved. */
    void (*unmap)(struct gpu_map *map, struct map_piece *piece);

    /* NULL: nothing to close. */
    void (*close)(struct gpu_map *map);
};

extern const struct map_backend map_backend_dmabuf, map_backend_rm, map_backend_gdr;

/* Reserves CPU addresses. */
char *map_reserve(size_t bytes);
void map_unmap_to_reserved(char *at, size_t bytes); /* unmaps and reserves the addresses again */

/* Returns the allocation that holds an offset of a window; NULL: none is known. */
struct map_memory *map_memory_at(const struct gpu_map *map, int slot, size_t offset);

/* Calls the backend's map(). When BAR1 has no room, unmaps all mappings without a user and tries
 * again. */
weft_status map_range_or_trim(struct gpu_map *map, struct map_memory *memory, size_t offset,
                              size_t bytes, char *at, struct map_piece *piece);

/* Unmaps mappings of the program's memory that have no user, the oldest first, until at most
 * `bytes` of them are left. Returns false when there was none. */
bool map_own_trim(struct gpu_map *map, size_t bytes);

/* Imports memory of cudaMalloc() into the driver's resource interface. */
weft_status map_plain_import(struct gpu_map *map, struct map_memory *memory);

/* map_sliding_forget() unmaps the sliding BAR windows from that memory. map_sliding_end() frees
 * them all. The caller holds the lock or is the only thread. */
void map_sliding_forget(struct gpu_map *map, const struct map_memory *memory);
void map_sliding_end(struct gpu_map *map);

/* Tests in this PE's test area of that window whether CPU stores arrive in GPU memory and CPU loads
 * return GPU memory. */
weft_status map_test(struct gpu_map *map, int slot);

/* Test up to GPU_MAP_TEST_BYTES of memory at device address `device`, mapped for the CPU at
 * `mapped`: whether the CPU loads what the GPU wrote, and whether the GPU reads what the CPU
 * stored. map_test_load() stores nothing through the mapping. */
weft_status map_test_load(struct gpu *gpu, const char *mapped, CUdeviceptr device, size_t bytes);
weft_status map_test_store(struct gpu *gpu, char *mapped, CUdeviceptr device, size_t bytes);

#endif

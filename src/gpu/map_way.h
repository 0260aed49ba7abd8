/* SPDX-License-Identifier: Apache-2.0 */
/* How GPU memory gets into the CPU's address space: one table for each way that a driver may offer.
 * For map*.c. */
#ifndef WEFT_GPU_MAP_WAY_H
#define WEFT_GPU_MAP_WAY_H

#include "driver/rm.h"
#include "gpu/map.h"

/* An allocation that can be mapped. */
struct map_memory {
    struct map_memory *next;
    int slot;             /* of the window that it is in; -1: the program's own */
    size_t offset, bytes; /* in the window */
    const char *bus_id;   /* of its GPU */
    CUdeviceptr address;  /* where this PE's GPU sees it; of the program's own, of a whole page */
    CUmemGenericAllocationHandle
        handle; /* of own memory; 0: another PE's, which cannot be exported again */
    struct rm_memory rm;
    int dmabuf;     /* -1: none yet */
    int pending_fd; /* of another PE's memory, its descriptor until the way is chosen; -1: none */
    /* Of the program's own, by which it is known again: the allocation as the driver has it, and
     * its number there where cudaMalloc() made it. */
    CUdeviceptr start;
    unsigned long long number; /* 0: of cuMemCreate(), and the handle is held */
    size_t inside;             /* cudaMalloc()'s: where that page lies in the driver's object */
    bool busy;                 /* a mapping of it is being made */
    bool stale;                /* nobody vouches for it any more: its mappings are not kept */
    struct map_piece *pieces;
};

/* A part of one that is mapped. */
struct map_piece {
    struct map_piece *next;
    struct map_memory *memory;
    char *at;
    size_t bytes;
    struct rm_mapping rm;
    unsigned long gdr;
    /* Of the program's own memory. */
    size_t offset;
    unsigned users;
    uint64_t used; /* the last time, counted in uses */
};

struct map_backend {
    const char *name; /* as WEFT_MAP has it */
    const char *what;

    /* Takes what it needs of another PE's memory while its descriptor is there. NULL: nothing. */
    weft_status (*import)(struct gpu_map *map, struct map_memory *memory, int fd);

    /* Gives up what it keeps of memory of which nothing is mapped. */
    void (*forget)(struct gpu_map *map, struct map_memory *memory);

    /* Maps `bytes` at `offset` of the memory at the address `at`, which is reserved. Sets piece->at
     * and piece->bytes. */
    weft_status (*map)(struct gpu_map *map, struct map_memory *memory, size_t offset, size_t bytes,
                       char *at, struct map_piece *piece);

    /* And leaves the addresses reserved. */
    void (*unmap)(struct gpu_map *map, struct map_piece *piece);

    /* NULL: there is nothing to close. */
    void (*close)(struct gpu_map *map);
};

extern const struct map_backend map_backend_dmabuf, map_backend_rm, map_backend_gdr;

/* Reserves addresses for the CPU; gives them up. */
char *map_reserve(size_t bytes);
void map_unmap_to_reserved(char *at, size_t bytes); /* makes them so again */

/* The allocation that holds an offset of a window; NULL: none is known. */
struct map_memory *map_memory_at(const struct gpu_map *map, int slot, size_t offset);

/* The way's map(); where BAR1 has no room, without what is kept to no use. */
weft_status map_range_or_trim(struct gpu_map *map, struct map_memory *memory, size_t offset,
                              size_t bytes, char *at, struct map_piece *piece);

/* Takes down mappings of the program's own memory that nobody uses, the oldest first, until no more
 * than `bytes` of them are left. False: there was none. */
bool map_own_trim(struct gpu_map *map, size_t bytes);

/* Makes cudaMalloc()'s memory known to the resource interface. */
weft_status map_plain_import(struct gpu_map *map, struct map_memory *memory);

/* Moving windows leave that memory; they are given up. The lock is held, or nobody else is
 * there. */
void map_sliding_forget(struct gpu_map *map, const struct map_memory *memory);
void map_sliding_end(struct gpu_map *map);

/* Whether stores of the CPU arrive in GPU memory, and the other way, in the own test area of that
 * window. */
weft_status map_test(struct gpu_map *map, int slot);

/* Of up to GPU_MAP_TEST_BYTES of memory that the GPU has at `device`, and `mapped` for the CPU:
 * whether the CPU loads what the GPU writes, and the GPU reads what the CPU stores. The first one
 * stores nothing by the mapping. */
weft_status map_test_load(struct gpu *gpu, const char *mapped, CUdeviceptr device, size_t bytes);
weft_status map_test_store(struct gpu *gpu, char *mapped, CUdeviceptr device, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory that the program itself allocates by cuMemCreate(). */
#ifndef WEFT_TESTS_OWN_MEMORY_H
#define WEFT_TESTS_OWN_MEMORY_H

#include "driver/gpu_api.h"

#include <stdio.h>
#include <stdlib.h>

#define OWN_MEMORY_DO(call)                                                                        \
    do {                                                                                           \
        if ((call) != 0) {                                                                         \
            fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call);                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct piece {
    CUdeviceptr base;
    size_t bytes;
};

/* Reserves, creates and maps; after that only the mapping holds the memory. */
static inline struct piece make_piece(const struct gpu_api *driver, size_t bytes, int device,
                                      int handle_types)
{
    struct piece piece = {0, bytes};
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = handle_types,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    OWN_MEMORY_DO(driver->MemAddressReserve(&piece.base, bytes, 0, 0, 0));
    OWN_MEMORY_DO(driver->MemCreate(&handle, bytes, &properties, 0));
    OWN_MEMORY_DO(driver->MemMap(piece.base, bytes, 0, handle, 0));
    OWN_MEMORY_DO(driver->MemSetAccess(piece.base, bytes, &access, 1));
    OWN_MEMORY_DO(driver->MemRelease(handle));
    return piece;
}

static inline void drop_piece(const struct gpu_api *driver, struct piece piece)
{
    OWN_MEMORY_DO(driver->MemUnmap(piece.base, piece.bytes));
    OWN_MEMORY_DO(driver->MemAddressFree(piece.base, piece.bytes));
}

#endif

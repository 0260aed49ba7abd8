/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: hints, which a program may give and Weft does not need. A region says that the nbi
 * operations between its start and stop may be sent together. Weft sends each at once, and fence
 * and quiet complete them inside a region as outside. A program may lend a kernel's shared memory
 * for copies; Weft's copies do not use it. */
#ifndef WEFT_NVSHMEM_HINT_H
#define WEFT_NVSHMEM_HINT_H

#include <weft/nvshmem/types.h>

typedef uint64_t nvshmemx_region_handle_t;

typedef enum nvshmemx_region_hint {
    NVSHMEMX_REGION_HINT_NONE = 0,
    NVSHMEMX_REGION_HINT_BATCH_RMA = 1
} nvshmemx_region_hint_t;

/* 64 bytes, fixed by the interface. */
typedef struct nvshmemx_region_attrs {
    uint32_t hints; /* bits of nvshmemx_region_hint_t */
    char reserved[60];
} nvshmemx_region_attrs_t;
#define NVSHMEMX_REGION_ATTRS_INITIALIZER                                                          \
    {                                                                                              \
        NVSHMEMX_REGION_HINT_NONE,                                                                 \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Device code checks the arguments but does not track regions: all its handles are 1. */
WEFT_NV_BOTH int weft_nv_region_start(nvshmemx_region_handle_t *handle, uint32_t hints)
{
    if (!handle || hints & ~(uint32_t)NVSHMEMX_REGION_HINT_BATCH_RMA)
        return NVSHMEMX_ERROR_INVALID_VALUE;
    WEFT_NV_SPLIT(*handle = 1, *handle = weft_nvshmem_region_start(hints));
    return *handle ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_OUT_OF_MEMORY;
}

/* attrs: NULL means no hint. Returns NVSHMEMX_ERROR_INVALID_VALUE for a null handle or unknown
 * hints. */
WEFT_NV_BOTH int nvshmemx_region_start(nvshmemx_region_handle_t *handle,
                                       const nvshmemx_region_attrs_t *attrs)
{
    return weft_nv_region_start(handle, attrs ? attrs->hints : 0);
}

/* Returns NVSHMEMX_ERROR_INVALID_VALUE when the handle is not that of the region that was started
 * last. */
WEFT_NV_BOTH int nvshmemx_region_stop(nvshmemx_region_handle_t handle)
{
    WEFT_NV_SPLIT(return handle == 1 ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_INVALID_VALUE,
                         return weft_nvshmem_region_stop(handle) ? NVSHMEMX_SUCCESS
                                                                 : NVSHMEMX_ERROR_INVALID_VALUE);
}

/* *active becomes 1 when a region with all of `hints` is open, else 0. Always 0 in device code. */
WEFT_NV_BOTH int nvshmemx_region_is_active(uint32_t hints, int *active)
{
    if (!active || hints & ~(uint32_t)NVSHMEMX_REGION_HINT_BATCH_RMA)
        return NVSHMEMX_ERROR_INVALID_VALUE;
    WEFT_NV_SPLIT(*active = 0, *active = weft_nvshmem_region_active(hints));
    return NVSHMEMX_SUCCESS;
}

typedef enum nvshmemx_smem_amount {
    NVSHMEMX_SMEM_RECOMMENDED = 0,
    NVSHMEMX_SMEM_MINIMUM = 1,
    NVSHMEMX_SMEM_BARRIERS_ONLY = 2,
    NVSHMEMX_SMEM_AMOUNT_MAX = 2147483647
} nvshmemx_smem_amount_t;

/* Returns the bytes of shared memory that a kernel should lend: none. */
WEFT_NV_BOTH int nvshmemx_ask_smem(nvshmemx_smem_amount_t amount)
{
    (void)amount;
    return 0;
}

#if WEFT_NV_DEVICE_PART

WEFT_NV_DEVICE int nvshmemx_region_start_block(nvshmemx_region_handle_t *handle,
                                               const nvshmemx_region_attrs_t *attrs)
{
    return nvshmemx_region_start(handle, attrs);
}

WEFT_NV_DEVICE int nvshmemx_region_stop_block(nvshmemx_region_handle_t handle)
{
    return nvshmemx_region_stop(handle);
}

WEFT_NV_DEVICE void nvshmemx_give_smem(void *smem, size_t size)
{
    (void)smem;
    (void)size;
}

WEFT_NV_DEVICE void nvshmemx_release_smem(void)
{
}

#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Copies in batches on the stand-in. They may come in any order: here the last is the first. FAKE_CUDA_BATCH=0: this
 * driver takes none. */
#include "fake.h"

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                   CUmemcpyAttributes *attributes, size_t *first_of,
                                   size_t attribute_count, size_t *failed, CUstream stream)
{
    *failed = SIZE_MAX;
    if (!setting("FAKE_CUDA_BATCH", 1))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!count || attribute_count != 1 || first_of[0] != 0 || !stream ||
        attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = count; i > 0; i--) {
        CUresult result = cuMemcpyAsync(to[i - 1], from[i - 1], bytes[i - 1], stream);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

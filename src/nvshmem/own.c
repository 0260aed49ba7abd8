/* SPDX-License-Identifier: Apache-2.0 */
/* Host operations on the caller's own PE with a remote address that is not symmetric: programs of
 * NVSHMEM run the same code against themselves with memory of their own, of the host or of the GPU.
 * Called only after the operation has refused the address. */
#include <weft/nvshmem/host.h>

#include "gpu/gpu.h"
#include "job/job.h"

static weft_status copy_bytes(struct weft_job *job, char *dst, const char *src, size_t bytes)
{
    if (job->gpu)
        return gpu_copy(job->gpu, 0, dst, src, bytes, GPU_DONE);
    memmove(dst, src, bytes);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_nvshmem_or_own(weft_status status, const void *remote, void *dst,
                                            const void *src, ptrdiff_t dst_stride,
                                            ptrdiff_t src_stride, size_t element, size_t n, int pe)
{
    struct weft_job *job = weft_nvshmem_job();
    if (status != WEFT_ERR_ADDRESS || !job || pe != job->pe || weft_ptr(job, remote, pe))
        return status;
    if (dst_stride == 1 && src_stride == 1)
        return copy_bytes(job, dst, src, element * n);
    status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = copy_bytes(job, (char *)dst + (ptrdiff_t)(i * element) * dst_stride,
                            (const char *)src + (ptrdiff_t)(i * element) * src_stride, element);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a stream of a GPU, by the kernel of run.cu. */
#include "nvshmem/run.h"

#include "job/late_image.h"

enum { OPERATION_THREADS = 512 };

weft_status run_cuda(struct weft_job *job, const struct weft_nv_call *call, weft_stream stream)
{
    static struct late_image image = {.image = &gpu_nvshmem_image,
                                      .what = "operations on streams",
                                      .kernels = 1,
                                      .names = {"weft_nv_operation"}};
    return late_image_launch(job, &image, 0, 1, OPERATION_THREADS, call, stream);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a stream, carried out by one block of threads (run_kernel.h). */
#ifndef WEFT_NVSHMEM_RUN_H
#define WEFT_NVSHMEM_RUN_H

#include <weft/nvshmem/host.h>

/* Enqueue the call on a stream of the target. run_cuda() loads the kernel at its first use in a
 * job. */
weft_status run_simt(const struct weft_nv_call *call, weft_stream stream);
weft_status run_cuda(struct weft_job *job, const struct weft_nv_call *call, weft_stream stream);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a stream of the target simt. */
#ifndef WEFT_NVSHMEM_RUN_SIMT_H
#define WEFT_NVSHMEM_RUN_SIMT_H

#include <weft/nvshmem/host.h>

weft_status run_simt(const struct weft_nv_call *call, weft_stream stream);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a call's memory, before a collective by kernels. */
#ifndef WEFT_OPS_COLL_MEMORY_H
#define WEFT_OPS_COLL_MEMORY_H

#include "ops/coll/kernel.h"

/* Checks the memory of a call. The kernels accept the GPU heap and other memory that this GPU can
 * access. *host: true: a side is symmetric host memory, so the host functions must perform the
 * call. WEFT_ERR_ADDRESS: a side is neither. */
weft_status coll_kernel_memory(const struct weft_team *team, const struct coll_request *request,
                               bool *host);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Unique ids: where the PEs of a job meet, in 128 bytes that the program passes on. */
#ifndef WEFT_NVSHMEM_UNIQUE_ID_H
#define WEFT_NVSHMEM_UNIQUE_ID_H

#include <weft/nvshmem/host.h>

/* Makes weft_init() meet by these bytes; they go to *id, which attr then refers to. */
weft_status unique_id_use(const unsigned char *bytes, int pe, int n_pes, weft_unique_id *id,
                          weft_init_attr *attr);

#endif

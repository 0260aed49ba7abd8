/* SPDX-License-Identifier: Apache-2.0 */
/* Unique ids, by which the PEs of a job connect, in 128 bytes that the program passes on. */
#ifndef WEFT_NVSHMEM_UNIQUE_ID_H
#define WEFT_NVSHMEM_UNIQUE_ID_H

#include <weft/nvshmem/host.h>

/* Makes weft_init() connect by these bytes; it copies them to *id, to which attr then refers. */
weft_status unique_id_use(const unsigned char *bytes, int pe, int n_pes, weft_unique_id *id,
                          weft_init_attr *attr);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Unique ids: where the PEs of a job meet, in 128 bytes that the program passes on. */
#ifndef WEFT_NVSHMEM_UNIQUE_ID_H
#define WEFT_NVSHMEM_UNIQUE_ID_H

#include <weft/nvshmem/host.h>

/* Makes the process's environment say what the id says, so that weft_init() meets there. */
weft_status unique_id_use(const unsigned char *id, int pe, int n_pes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of the host; see <weft/nvshmem/host.h>. */
#ifndef WEFT_NVSHMEM_REGIONS_H
#define WEFT_NVSHMEM_REGIONS_H

#include <weft/nvshmem/host.h>

/* Stops all regions. */
void regions_end(void);

#endif

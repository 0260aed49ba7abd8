/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's functions of the host; in Weft they come with nvshmem.h, as all others. */
#ifndef NVSHMEM_HOST_H
#define NVSHMEM_HOST_H

#include <nvshmem.h>

#endif

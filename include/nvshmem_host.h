/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's host functions; in Weft nvshmem.h has them, as all others. */
#ifndef NVSHMEM_HOST_H
#define NVSHMEM_HOST_H

#include <nvshmem.h>

#endif

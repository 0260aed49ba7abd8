/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's extensions over Weft. nvshmem.h has all of them; this header is for programs that
 * include it. */
#ifndef NVSHMEMX_H
#define NVSHMEMX_H

#include <nvshmem.h>

#endif

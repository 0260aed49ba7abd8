/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's extensions over Weft. All of them come with nvshmem.h, as programs expect; this name is
 * for those that include it. */
#ifndef NVSHMEMX_H
#define NVSHMEMX_H

#include <nvshmem.h>

#endif

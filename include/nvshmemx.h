/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's extensions over Weft: functions on streams, collective launch. Those of warps and blocks
 * come with nvshmem.h, which this includes. */
#ifndef NVSHMEMX_H
#define NVSHMEMX_H

#include <nvshmem.h>
#include <weft/nvshmem/stream.h>

#endif

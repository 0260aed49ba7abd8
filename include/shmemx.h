/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's extensions to OpenSHMEM. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <weft/shmem/extensions.h>

#ifdef __cplusplus
}
#endif

#endif

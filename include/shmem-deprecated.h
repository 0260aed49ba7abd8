/* SPDX-License-Identifier: Apache-2.0 */
/* The names of OpenSHMEM 1.0 to 1.4 that are deprecated, for a program that was compiled with
 * SHMEM_NO_DEPRECATED and wants them in one source file. */
#ifndef SHMEM_DEPRECATED_H
#define SHMEM_DEPRECATED_H

#include <shmem.h>

#ifdef SHMEM_NO_DEPRECATED
#ifdef __cplusplus
extern "C" {
#endif
#pragma push_macro("shmem_wait_until")
#undef shmem_wait_until
#include <weft/shmem/deprecated.h>
#pragma pop_macro("shmem_wait_until")
#ifdef __cplusplus
}
#endif
#include <weft/shmem/deprecated_names.h>
#endif

#endif

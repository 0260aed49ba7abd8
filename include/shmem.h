/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5 on Weft. The routines are described once each in the parts below; their names in
 * full, with prototypes, are on the page shmem-reference, which `./dev docs` makes.
 *
 * Macros that a program may define before it includes this file:
 *   SHMEM_NO_INLINE      every call goes to the library's symbol
 *   SHMEM_NO_DEPRECATED  leaves out the names that were deprecated in 1.0 to 1.4
 */
#ifndef SHMEM_H
#define SHMEM_H

#include <weft/shmem/hooks.h>

#define WEFT_SHMEM_NORETURN __attribute__((__noreturn__))

#ifdef __cplusplus
extern "C" {
#endif

#include <weft/shmem/setup.h>

#include <weft/shmem/rma.h>

#include <weft/shmem/amo.h>

#include <weft/shmem/wait.h>

#include <weft/shmem/collective.h>

#include <weft/shmem/active_set.h>

#ifndef SHMEM_NO_DEPRECATED
#include <weft/shmem/deprecated.h>
#include <weft/shmem/deprecated_names.h>
#endif

#ifdef __cplusplus
}
#endif

#if defined __STDC_VERSION__ && __STDC_VERSION__ >= 201112L && !defined __cplusplus
#include <weft/shmem/generic.h>
#endif
#ifdef __cplusplus
#include <weft/shmem/cxx.h>
#endif

#endif

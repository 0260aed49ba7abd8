/* SPDX-License-Identifier: Apache-2.0 */
/* Library symbols of the routines that shmem.h defines inline: for programs that take an address,
 * that are compiled without optimisation or with SHMEM_NO_INLINE, and for profiling tools. The
 * bodies are those of the headers. */
#include "base/status.h"

#define SHMEM_SYMBOL(ret, name, params)                                                            \
    ret p##name params;                                                                            \
    extern __typeof__(p##name) name                                                                \
        __attribute__((weak, alias("p" #name), visibility("default")));                            \
    WEFT_EXPORT ret p##name params

#define WEFT_SHMEM_JOB shmem_own
#define WEFT_SHMEM_INLINE(ret, name, params, args, ...)                                            \
    SHMEM_SYMBOL(ret, name, params)                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define WEFT_SHMEM_EXTERN(ret, name, params)
#define WEFT_SHMEM_NORETURN

#include <weft/shmem/hooks.h>

#include <weft/shmem/setup.h>

#include <weft/shmem/rma.h>

#include <weft/shmem/amo.h>

#include <weft/shmem/wait.h>

#include <weft/shmem/collective.h>

#include <weft/shmem/deprecated.h>

#include <weft/shmem/extensions.h>

/* Checks that the widths in the type lists are those of this machine. */
#define CHECK_WIDTH(arg, NAME, TYPE, bits)                                                         \
    _Static_assert(sizeof(TYPE) * 8 == bits, #NAME " has another width here");
WEFT_SHMEM_RMA_TYPES(CHECK_WIDTH, )
WEFT_SHMEM_AMO_EXTENDED_TYPES(CHECK_WIDTH, )
WEFT_SHMEM_AMO_BITWISE_TYPES(CHECK_WIDTH, )
_Static_assert((int)SHMEM_CMP_EQ == (int)WEFT_EQ && (int)SHMEM_CMP_NE == (int)WEFT_NE &&
                   (int)SHMEM_CMP_GT == (int)WEFT_GT && (int)SHMEM_CMP_LE == (int)WEFT_LE &&
                   (int)SHMEM_CMP_LT == (int)WEFT_LT && (int)SHMEM_CMP_GE == (int)WEFT_GE,
               "comparisons have the values of the host API");
_Static_assert((int)SHMEM_SIGNAL_SET == (int)WEFT_SIGNAL_SET &&
                   (int)SHMEM_SIGNAL_ADD == (int)WEFT_SIGNAL_ADD,
               "signal operations have the values of the host API");

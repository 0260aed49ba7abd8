/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 10: the profiling interface. pshmem_x() is shmem_x() under a name that no
 * tool replaces; a tool defines shmem_x() itself and calls pshmem_x(). A source file that includes
 * this header announces its tool before main. The program's inline functions then call the
 * library's symbols, however the program was compiled. */
#ifndef PSHMEM_H
#define PSHMEM_H

#include <shmem.h>

#pragma push_macro("WEFT_SHMEM_INLINE")
#pragma push_macro("WEFT_SHMEM_INLINE_VOID")
#pragma push_macro("WEFT_SHMEM_EXTERN")
#pragma push_macro("shmem_sync")
#pragma push_macro("shmem_wait_until")
#pragma push_macro("shmem_swap")
#undef WEFT_SHMEM_INLINE
#undef WEFT_SHMEM_INLINE_VOID
#undef WEFT_SHMEM_EXTERN
#undef shmem_sync
#undef shmem_wait_until
#undef shmem_swap
#define WEFT_SHMEM_INLINE(ret, name, params, args, ...) ret p##name params;
#define WEFT_SHMEM_INLINE_VOID(name, params, args, ...) void p##name params;
#define WEFT_SHMEM_EXTERN(ret, name, params)            ret p##name params;

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
#endif

#include <weft/shmem/extensions.h>

/* Called before main. shmem_init() then leaves the inline functions without a job, so that they
 * call the library's symbols. */
void weft_shmem_tool_is_here(void);
static __attribute__((__constructor__)) void weft_shmem_announce_tool(void)
{
    weft_shmem_tool_is_here();
}

#ifdef __cplusplus
}
#endif

#pragma pop_macro("WEFT_SHMEM_INLINE")
#pragma pop_macro("WEFT_SHMEM_INLINE_VOID")
#pragma pop_macro("WEFT_SHMEM_EXTERN")
#pragma pop_macro("shmem_sync")
#pragma pop_macro("shmem_wait_until")
#pragma pop_macro("shmem_swap")

#endif

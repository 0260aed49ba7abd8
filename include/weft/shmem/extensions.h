/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's additions to OpenSHMEM 1.5 (prefix shmemx_). Routines with a counterpart in OpenSHMEM 1.6
 * have its meaning and its arguments. */

WEFT_SHMEM_GROUP("extension", "shmemx_signal")
/* Sets or adds to a signal at a PE without data (1.6: shmem_signal_set, shmem_signal_add). */
WEFT_SHMEM_INLINE_VOID(shmemx_signal_set, (uint64_t * sig_addr, uint64_t signal, int pe),
                       (sig_addr, signal, pe),
                       WEFT_SHMEM_CHECK(weft_signal(WEFT_SHMEM_JOB.ctx, sig_addr, signal,
                                                    WEFT_SIGNAL_SET, pe));)
WEFT_SHMEM_INLINE_VOID(shmemx_ctx_signal_set,
                       (shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe),
                       (ctx, sig_addr, signal, pe),
                       WEFT_SHMEM_CHECK(weft_signal(weft_shmem_ctx(ctx), sig_addr, signal,
                                                    WEFT_SIGNAL_SET, pe));)
WEFT_SHMEM_INLINE_VOID(shmemx_signal_add, (uint64_t * sig_addr, uint64_t signal, int pe),
                       (sig_addr, signal, pe),
                       WEFT_SHMEM_CHECK(weft_signal(WEFT_SHMEM_JOB.ctx, sig_addr, signal,
                                                    WEFT_SIGNAL_ADD, pe));)
WEFT_SHMEM_INLINE_VOID(shmemx_ctx_signal_add,
                       (shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe),
                       (ctx, sig_addr, signal, pe),
                       WEFT_SHMEM_CHECK(weft_signal(weft_shmem_ctx(ctx), sig_addr, signal,
                                                    WEFT_SIGNAL_ADD, pe));)

WEFT_SHMEM_GROUP("extension", "shmemx_team_ptr")
/* shmem_ptr() with a PE number of `team` (1.6: shmem_team_ptr). */
WEFT_SHMEM_EXTERN(void *, shmemx_team_ptr, (shmem_team_t team, const void *dest, int pe))

WEFT_SHMEM_GROUP("extension", "shmemx_wtime")
/* Returns the time in seconds since a fixed moment in the past, on a monotonic clock that all PEs
 * of a node share. For measurements. */
WEFT_SHMEM_EXTERN(double, shmemx_wtime, (void))

WEFT_SHMEM_GROUP("extension", "shmemx_job")
/* Return the handles of the host API for the job, a team and a context, for programs that use both
 * APIs. */
WEFT_SHMEM_EXTERN(weft_job *, shmemx_job, (void))
WEFT_SHMEM_EXTERN(weft_team *, shmemx_team, (shmem_team_t team))
WEFT_SHMEM_EXTERN(weft_ctx *, shmemx_ctx, (shmem_ctx_t ctx))

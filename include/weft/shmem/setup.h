/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5: set-up and query (9.1), threads (9.2), memory (9.3), teams (9.4), contexts (9.5),
 * ordering (9.11), locks (9.12) and profiling control (10). */

WEFT_SHMEM_GROUP("9.1", "shmem_init")
WEFT_SHMEM_EXTERN(void, shmem_init, (void))
WEFT_SHMEM_GROUP("9.1", "shmem_my_pe")
WEFT_SHMEM_INLINE(int, shmem_my_pe, (void), (), return WEFT_SHMEM_JOB.my_pe;)
WEFT_SHMEM_GROUP("9.1", "shmem_n_pes")
WEFT_SHMEM_INLINE(int, shmem_n_pes, (void), (), return WEFT_SHMEM_JOB.n_pes;)
WEFT_SHMEM_GROUP("9.1", "shmem_finalize")
WEFT_SHMEM_EXTERN(void, shmem_finalize, (void))
WEFT_SHMEM_GROUP("9.1", "shmem_global_exit")
WEFT_SHMEM_EXTERN(WEFT_SHMEM_NORETURN void, shmem_global_exit, (int status))
WEFT_SHMEM_GROUP("9.1", "shmem_pe_accessible")
WEFT_SHMEM_EXTERN(int, shmem_pe_accessible, (int pe))
WEFT_SHMEM_GROUP("9.1", "shmem_addr_accessible")
WEFT_SHMEM_EXTERN(int, shmem_addr_accessible, (const void *addr, int pe))
WEFT_SHMEM_GROUP("9.1", "shmem_ptr")
WEFT_SHMEM_EXTERN(void *, shmem_ptr, (const void *dest, int pe))
WEFT_SHMEM_GROUP("9.1", "shmem_info_get_version")
WEFT_SHMEM_EXTERN(void, shmem_info_get_version, (int *major, int *minor))
WEFT_SHMEM_GROUP("9.1", "shmem_info_get_name")
WEFT_SHMEM_EXTERN(void, shmem_info_get_name, (char *name))

WEFT_SHMEM_GROUP("9.2", "shmem_init_thread")
WEFT_SHMEM_EXTERN(int, shmem_init_thread, (int requested, int *provided))
WEFT_SHMEM_GROUP("9.2", "shmem_query_thread")
WEFT_SHMEM_EXTERN(void, shmem_query_thread, (int *provided))

WEFT_SHMEM_GROUP("9.3", "shmem_malloc")
WEFT_SHMEM_EXTERN(void *, shmem_malloc, (size_t size))
WEFT_SHMEM_EXTERN(void, shmem_free, (void *ptr))
WEFT_SHMEM_EXTERN(void *, shmem_realloc, (void *ptr, size_t size))
WEFT_SHMEM_EXTERN(void *, shmem_align, (size_t alignment, size_t size))
WEFT_SHMEM_GROUP("9.3", "shmem_malloc_with_hints")
WEFT_SHMEM_EXTERN(void *, shmem_malloc_with_hints, (size_t size, long hints))
WEFT_SHMEM_GROUP("9.3", "shmem_calloc")
WEFT_SHMEM_EXTERN(void *, shmem_calloc, (size_t count, size_t size))

WEFT_SHMEM_GROUP("9.4", "shmem_team_my_pe")
WEFT_SHMEM_EXTERN(int, shmem_team_my_pe, (shmem_team_t team))
WEFT_SHMEM_GROUP("9.4", "shmem_team_n_pes")
WEFT_SHMEM_EXTERN(int, shmem_team_n_pes, (shmem_team_t team))
WEFT_SHMEM_GROUP("9.4", "shmem_team_get_config")
WEFT_SHMEM_EXTERN(int, shmem_team_get_config,
                  (shmem_team_t team, long config_mask, shmem_team_config_t *config))
WEFT_SHMEM_GROUP("9.4", "shmem_team_translate_pe")
WEFT_SHMEM_EXTERN(int, shmem_team_translate_pe,
                  (shmem_team_t src_team, int src_pe, shmem_team_t dest_team))
WEFT_SHMEM_GROUP("9.4", "shmem_team_split_strided")
WEFT_SHMEM_EXTERN(int, shmem_team_split_strided,
                  (shmem_team_t parent_team, int start, int stride, int size,
                   const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team))
WEFT_SHMEM_GROUP("9.4", "shmem_team_split_2d")
WEFT_SHMEM_EXTERN(int, shmem_team_split_2d,
                  (shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config,
                   long xaxis_mask, shmem_team_t *xaxis_team,
                   const shmem_team_config_t *yaxis_config, long yaxis_mask,
                   shmem_team_t *yaxis_team))
WEFT_SHMEM_GROUP("9.4", "shmem_team_destroy")
WEFT_SHMEM_EXTERN(void, shmem_team_destroy, (shmem_team_t team))

WEFT_SHMEM_GROUP("9.5", "shmem_ctx_create")
WEFT_SHMEM_EXTERN(int, shmem_ctx_create, (long options, shmem_ctx_t *ctx))
WEFT_SHMEM_GROUP("9.5", "shmem_team_create_ctx")
WEFT_SHMEM_EXTERN(int, shmem_team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t *ctx))
WEFT_SHMEM_GROUP("9.5", "shmem_ctx_destroy")
WEFT_SHMEM_EXTERN(void, shmem_ctx_destroy, (shmem_ctx_t ctx))
WEFT_SHMEM_GROUP("9.5", "shmem_ctx_get_team")
WEFT_SHMEM_EXTERN(int, shmem_ctx_get_team, (shmem_ctx_t ctx, shmem_team_t *team))

/* SHMEM_CTX_INVALID has no operations: fence and quiet on it do nothing (9.11.1, 9.11.2). */
WEFT_SHMEM_GROUP("9.11", "shmem_fence")
WEFT_SHMEM_INLINE_VOID(shmem_fence, (void), (), WEFT_SHMEM_CHECK(weft_fence(WEFT_SHMEM_JOB.ctx));)
WEFT_SHMEM_INLINE_VOID(shmem_ctx_fence, (shmem_ctx_t ctx), (ctx),
                       if (ctx != SHMEM_CTX_INVALID)
                           WEFT_SHMEM_CHECK(weft_fence(weft_shmem_ctx(ctx)));)
WEFT_SHMEM_GROUP("9.11", "shmem_quiet")
WEFT_SHMEM_INLINE_VOID(shmem_quiet, (void), (), WEFT_SHMEM_CHECK(weft_quiet(WEFT_SHMEM_JOB.ctx));)
WEFT_SHMEM_INLINE_VOID(shmem_ctx_quiet, (shmem_ctx_t ctx), (ctx),
                       if (ctx != SHMEM_CTX_INVALID)
                           WEFT_SHMEM_CHECK(weft_quiet(weft_shmem_ctx(ctx)));)

WEFT_SHMEM_GROUP("9.12", "shmem_set_lock")
WEFT_SHMEM_EXTERN(void, shmem_set_lock, (long *lock))
WEFT_SHMEM_EXTERN(void, shmem_clear_lock, (long *lock))
WEFT_SHMEM_EXTERN(int, shmem_test_lock, (long *lock))

WEFT_SHMEM_GROUP("10", "shmem_pcontrol")
WEFT_SHMEM_EXTERN(void, shmem_pcontrol, (int level, ...))

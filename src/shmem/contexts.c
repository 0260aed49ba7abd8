/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 9.5: communication contexts. A handle is the host API's context, or the
 * small number of the default context. */
#include "shmem/routine.h"

static int create_ctx(const char *routine, weft_team *team, long options, shmem_ctx_t *ctx)
{
    const long known = SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE;
    unsigned flags = 0;
    if (options & SHMEM_CTX_SERIALIZED)
        flags |= WEFT_CTX_SERIALIZED;
    if (options & SHMEM_CTX_PRIVATE)
        flags |= WEFT_CTX_PRIVATE;
    if (options & SHMEM_CTX_NOSTORE)
        flags |= WEFT_CTX_NOSTORE;
    weft_ctx *made = NULL;
    *ctx = SHMEM_CTX_INVALID;
    weft_status status = base_check_bits("options", (unsigned long)options, (unsigned long)known);
    if (status)
        return shmem_result(routine, status);
    status = team ? weft_ctx_create(team, flags, &made) : WEFT_ERR_ARGUMENT;
    /* Not an error (9.5): the program may try again. */
    if (status)
        log_info(LOG_SHMEM, "%s: no context was made: %s", routine,
                 team ? base_sentence("shmem", status) : "the team is invalid");
    else
        *ctx = made;
    return status;
}

SHMEM_ROUTINE(int, shmem_ctx_create, (long options, shmem_ctx_t *ctx))
{
    return create_ctx("shmem_ctx_create", shmem_team_of(SHMEM_TEAM_WORLD), options, ctx);
}

SHMEM_ROUTINE(int, shmem_team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t *ctx))
{
    return create_ctx("shmem_team_create_ctx", shmem_team_of(team), options, ctx);
}

SHMEM_ROUTINE(void, shmem_ctx_destroy, (shmem_ctx_t ctx))
{
    if (ctx == SHMEM_CTX_INVALID)
        return;
    if (ctx == SHMEM_CTX_DEFAULT) {
        base_fail(WEFT_ERR_ARGUMENT, "SHMEM_CTX_DEFAULT cannot be destroyed");
        weft_shmem_fail(__func__, WEFT_ERR_ARGUMENT);
    }
    weft_status status = weft_ctx_destroy(ctx);
    if (status)
        weft_shmem_fail(__func__, status);
}

SHMEM_ROUTINE(int, shmem_ctx_get_team, (shmem_ctx_t ctx, shmem_team_t *team))
{
    if (ctx == SHMEM_CTX_INVALID) {
        *team = SHMEM_TEAM_INVALID;
        return WEFT_ERR_ARGUMENT;
    }
    *team = ctx == SHMEM_CTX_DEFAULT ? SHMEM_TEAM_WORLD : shmem_handle_of(weft_ctx_team(ctx));
    return 0;
}

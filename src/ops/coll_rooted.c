/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, scatter and alltoallv called by the host: by kernels where those serve, else each member puts its blocks over
 * whatever path the pair has, quiets, and syncs with the others. */
#include "ops/coll_kernel.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- to and from one */

/* This member's block of `block` to another's dst, unless it is there. */
static weft_status put_block(struct weft_team *team, int member, char *to, const char *block,
                             size_t bytes)
{
    if (!bytes || (member == team->me && to == block))
        return WEFT_OK;
    return weft_put_nbi(team->job->system_ctx, to, block, bytes, team->pes[member]);
}

/* WEFT_OK, and *done: there is nothing more to do. */
static weft_status begin(struct weft_team *team, const struct coll_ask *ask,
                         enum box_operation operation, size_t blocks, bool *done)
{
    struct place to;
    uint64_t phase;
    size_t all;
    bool kernel;
    *done = true;
    weft_status status =
        coll_begin(ask->function, team, operation, ask->root, ask->bytes, 0, &phase);
    if (!status)
        status = coll_check_root(ask->function, team, ask->root);
    if (status || !ask->bytes)
        return status;
    if (__builtin_mul_overflow((size_t)ask->bytes, blocks, &all))
        return base_fail(WEFT_ERR_RANGE, "%s: %zu bytes of %d PEs are too many", ask->function,
                         (size_t)ask->bytes, team->n);
    status = coll_place(ask->function, "dst", team, ask->dst, all, &to);
    if (!status && !ask->src)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", ask->function);
    if (!status)
        status = coll_by_kernel(team, ask->dst, ask->src, ask->bytes, &kernel);
    *done = status || kernel;
    bool host;
    if (!status && kernel)
        status = coll_kernel_memory(team, ask, &host);
    return status || !kernel ? status : coll_kernel_call(team, ask);
}

WEFT_EXPORT weft_status weft_gather(weft_team *team, void *dst, const void *src, size_t bytes,
                                    int root)
{
    struct coll_ask ask = {.function = "weft_gather",
                           .what = COLL_GATHER,
                           .dst = dst,
                           .src = src,
                           .bytes = bytes,
                           .root = root};
    bool done;
    weft_status status = begin(team, &ask, BOX_OP_GATHER, team ? (size_t)team->n : 1, &done);
    if (done)
        return status;
    status = put_block(team, root, (char *)dst + (size_t)team->me * bytes, src, bytes);
    return coll_finish_puts(team, BOX_OP_GATHER, status);
}

WEFT_EXPORT weft_status weft_scatter(weft_team *team, void *dst, const void *src, size_t bytes,
                                     int root)
{
    struct coll_ask ask = {.function = "weft_scatter",
                           .what = COLL_SCATTER,
                           .dst = dst,
                           .src = src,
                           .bytes = bytes,
                           .root = root};
    bool done;
    weft_status status = begin(team, &ask, BOX_OP_SCATTER, 1, &done);
    if (done)
        return status;
    for (int i = 0; team->me == root && i < team->n && !status; i++)
        status = put_block(team, i, dst, (const char *)src + (size_t)i * bytes, bytes);
    return coll_finish_puts(team, BOX_OP_SCATTER, status);
}

/* -------------------------------------------------------------------------------- alltoallv */

enum { SEND_BYTES, SEND_AT, RECV_BYTES, RECV_AT, ARRAYS };

/* What a member tells another: where its block may go, and how much may come. */
struct offer {
    uint64_t at, room;
};

static weft_status read_array(struct weft_team *team, uint64_t *to, const uint64_t *from,
                              const char *name)
{
    struct gpu *gpu = team->job->gpu;
    size_t bytes = (size_t)team->n * sizeof *to;
    if (!from)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_alltoallv: %s is null", name);
    if (gpu && gpu_place_of(gpu, from) == GPU_PLACE_DEVICE)
        return gpu_copy(gpu, 0, to, from, bytes, GPU_DONE);
    memcpy(to, from, bytes);
    return WEFT_OK;
}

/* arrays: ARRAYS times n words. */
static weft_status send_blocks(struct weft_team *team, char *dst, const char *src, size_t room,
                               uint64_t (*arrays)[ARRAYS], struct offer *offers,
                               struct offer *theirs)
{
    for (int i = 0; i < team->n; i++) {
        uint64_t at = arrays[i][RECV_AT], most = arrays[i][RECV_BYTES];
        offers[i] = (struct offer){at, at <= room && most <= room - at ? most : 0};
    }
    weft_status status = coll_exchange_each(team, BOX_OP_ALLTOALLV, offers, theirs, sizeof *offers);
    for (int k = 1; k <= team->n && !status; k++) {
        int i = (team->me + k) % team->n;
        uint64_t bytes = arrays[i][SEND_BYTES];
        if (bytes > theirs[i].room)
            status =
                base_fail(WEFT_ERR_RANGE,
                          "weft_alltoallv: PE %d has room for %llu bytes of PE %d, which sends "
                          "%llu",
                          team->pes[i], (unsigned long long)theirs[i].room, team->job->pe,
                          (unsigned long long)bytes);
        else
            status =
                put_block(team, i, dst + theirs[i].at, src + arrays[i][SEND_AT], (size_t)bytes);
    }
    return coll_finish_puts(team, BOX_OP_ALLTOALLV, status);
}

static weft_status alltoallv(struct weft_team *team, void *dst, size_t room, const void *src,
                             const uint64_t *const given[ARRAYS])
{
    static const char *const names[] = {"send_bytes", "send_at", "recv_bytes", "recv_at"};
    size_t n = (size_t)team->n;
    uint64_t *one = malloc(n * sizeof *one), (*arrays)[ARRAYS] = malloc(n * sizeof *arrays);
    struct offer *offers = malloc(2 * n * sizeof *offers);
    weft_status status = one && arrays && offers
                             ? WEFT_OK
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu sizes", n);
    for (int a = 0; a < ARRAYS && !status; a++) {
        status = read_array(team, one, given[a], names[a]);
        for (size_t i = 0; i < n && !status; i++)
            arrays[i][a] = one[i];
    }
    if (!status)
        status = send_blocks(team, dst, src, room, arrays, offers, offers + n);
    free(one);
    free(arrays);
    free(offers);
    return status;
}

WEFT_EXPORT weft_status weft_alltoallv(weft_team *team, void *dst, size_t room,
                                       const uint64_t *recv_bytes, const uint64_t *recv_at,
                                       const void *src, const uint64_t *send_bytes,
                                       const uint64_t *send_at)
{
    static const char name[] = "weft_alltoallv";
    const uint64_t *const given[ARRAYS] = {[SEND_BYTES] = send_bytes,
                                           [SEND_AT] = send_at,
                                           [RECV_BYTES] = recv_bytes,
                                           [RECV_AT] = recv_at};
    struct place to;
    uint64_t phase;
    weft_status status = coll_begin(name, team, BOX_OP_ALLTOALLV, -1, 0, 0, &phase);
    if (!status)
        status = coll_place(name, "dst", team, dst, room ? room : 1, &to);
    if (!status && !src)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: src is null", name);
    return status ? status : alltoallv(team, dst, room, src, given);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of elements that lie apart, where a strided put is one of each element: a network, a way
 * through the host. Each block's elements are packed into memory of the team in the own GPU heap,
 * go to their receiver as one put, and are taken apart there. That memory is the sets of the team's
 * area (gpu/coll/kernels.h), which kernels do not use where members do not reach each other: a half
 * for what goes, a half for what comes, each with a place for each member. What is more than that
 * goes in pieces. Behind the last one the own sets are cleared: another team may have the area
 * next, and what was here could look like its packets. */
#include "ops/coll/packed.h"

#include "gpu/coll/kernels.h"

enum { LEAST_ELEMENTS = 8 }; /* fewer are as quick one by one */

struct places {
    size_t out, in; /* of the own window, and of every other */
    size_t each;
};

static struct places places_of(const struct weft_team *team)
{
    size_t sets = 4 * (size_t)coll_set_bytes(team->slot);
    struct places places;
    places.out = team->job->gpu->coll_offset + (size_t)coll_area_offset(team->slot) +
                 sizeof(struct coll_area);
    places.in = places.out + sets / 2;
    places.each = sets / 2 / (size_t)team->n / 64 * 64;
    return places;
}

bool coll_packed_serves(const struct weft_team *team, size_t element, size_t n)
{
    return n >= LEAST_ELEMENTS && team->job->gpu && team->slot < COLL_TEAMS && team->n > 1 &&
           !job_gpu_team_direct(team) && places_of(team).each >= LEAST_ELEMENTS * element;
}

static struct remote at_member(struct weft_team *team, int member, size_t offset)
{
    return (struct remote){&team->job->system_ctx->peers[WEFT_GPU][team->pes[member]], SEG_GPU,
                           offset};
}

static char *own_at(const struct weft_team *team, size_t offset)
{
    return (char *)(uintptr_t)(gpu_heap_own(&team->job->gpu->heap)->base + offset);
}

/* Elements first ... first + n - 1 of each block, one behind the other at their places. */
static weft_status pack(struct weft_team *team, const struct coll_packed *what,
                        const struct places *places, size_t first, size_t n)
{
    size_t apart = what->src_stride * what->element;
    const struct path_strides strides = {
        .remote_step = what->element, .local_step = apart, .element = what->element, .n = n};
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        struct remote to = at_member(team, team->me, places->out + member * places->each);
        const char *from = (const char *)what->src + (member * what->n + first) * apart;
        status = to.peer->ops->iput(to, from, &strides);
    }
    return status ? status : weft_quiet(team->job->system_ctx);
}

static weft_status put_all(struct weft_team *team, const struct places *places, size_t bytes)
{
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        struct remote to =
            at_member(team, (int)member, places->in + (size_t)team->me * places->each);
        access_count(BOX_OP_PUT, to.peer, bytes, to.offset);
        status =
            to.peer->ops->put(to, own_at(team, places->out + member * places->each), bytes, true);
    }
    return coll_finish_puts(team, BOX_OP_ALLTOALLS, status);
}

static weft_status unpack(struct weft_team *team, const struct coll_packed *what,
                          const struct places *places, size_t first, size_t n)
{
    size_t apart = what->dst_stride * what->element;
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        status =
            weft_iput(team->job->system_ctx, (char *)what->dst + (member * what->n + first) * apart,
                      own_at(team, places->in + member * places->each), (ptrdiff_t)what->dst_stride,
                      1, what->element, n, team->job->pe);
    }
    return status ? status : weft_quiet(team->job->system_ctx);
}

static weft_status own_block(struct weft_team *team, const struct coll_packed *what)
{
    size_t before = (size_t)team->me * what->n * what->element;
    return weft_iput(team->job->system_ctx, (char *)what->dst + before * what->dst_stride,
                     (const char *)what->src + before * what->src_stride,
                     (ptrdiff_t)what->dst_stride, (ptrdiff_t)what->src_stride, what->element,
                     what->n, team->job->pe);
}

weft_status coll_packed_alltoall(struct weft_team *team, const struct coll_packed *what)
{
    struct places places = places_of(team);
    size_t most = places.each / what->element;
    weft_status status = own_block(team, what);
    for (size_t at = 0; at < what->n && !status; at += most) {
        size_t n = what->n - at < most ? what->n - at : most;
        status = pack(team, what, &places, at, n);
        if (!status) /* places of the last piece, or call, are free */
            status = coll_sync(team, BOX_OP_ALLTOALLS);
        if (!status)
            status = put_all(team, &places, n * what->element);
        if (!status)
            status = unpack(team, what, &places, at, n);
    }
    if (!status)
        status = gpu_fill(team->job->gpu, own_at(team, places.out), 0,
                          4 * (size_t)coll_set_bytes(team->slot));
    if (status) /* the others must not wait for the whole limit */
        job_fail(team->job, status, weft_last_error());
    return status;
}

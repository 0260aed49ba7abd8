/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of strided elements where a strided put would send each element on its own (over a
 * network or through the host). Each member packs the elements of each block into a buffer in its
 * own GPU heap, sends the block as one put, and the receiver unpacks it. The buffer is the set
 * buffers of the team's area (gpu/coll/kernels.h), which no kernel uses where members cannot access
 * each other's memory: one half for blocks to send, one half for received blocks, each with a slot
 * for each member. A block larger than a slot is sent in several chunks. After the last chunk this
 * PE clears its buffer: another team may get the area next and must not mistake the old contents
 * for LL packets. */
#include "ops/coll/packed.h"

#include "gpu/coll/coll.h"

enum { LEAST_ELEMENTS = 8 }; /* for fewer elements single puts are as fast */

struct slots {
    size_t out, in; /* offsets in the GPU window of any PE */
    size_t each;
};

static struct slots slots_of(const struct weft_team *team)
{
    const struct coll_areas *areas = &team->job->gpu->layout.coll;
    size_t sets = 4 * (size_t)coll_set_bytes(areas, team->slot);
    struct slots slots;
    slots.out = (size_t)coll_area_offset(areas, team->slot) + sizeof(struct coll_area);
    slots.in = slots.out + sets / 2;
    slots.each = sets / 2 / (size_t)team->n / 64 * 64;
    return slots;
}

bool coll_packed_serves(const struct weft_team *team, size_t element, size_t n)
{
    return n >= LEAST_ELEMENTS && team->job->gpu &&
           team->slot < team->job->gpu->layout.coll.teams && team->n > 1 &&
           !job_gpu_team_direct(team) && slots_of(team).each >= LEAST_ELEMENTS * element;
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

/* Packs elements first ... first + n - 1 of each block into the send slots, without gaps. */
static weft_status pack(struct weft_team *team, const struct coll_packed *what,
                        const struct slots *slots, size_t first, size_t n)
{
    size_t apart = what->src_stride * what->element;
    const struct path_strides strides = {
        .remote_step = what->element, .local_step = apart, .element = what->element, .n = n};
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        struct remote to = at_member(team, team->me, slots->out + member * slots->each);
        const char *from = (const char *)what->src + (member * what->n + first) * apart;
        status = to.peer->ops->iput(to, from, &strides);
    }
    return status ? status : weft_quiet(team->job->system_ctx);
}

static weft_status put_all(struct weft_team *team, const struct slots *slots, size_t bytes)
{
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        struct remote to = at_member(team, (int)member, slots->in + (size_t)team->me * slots->each);
        access_count(BOX_OP_PUT, to.peer, bytes, to.offset);
        status =
            to.peer->ops->put(to, own_at(team, slots->out + member * slots->each), bytes, true);
    }
    return coll_finish_puts(team, BOX_OP_ALLTOALLS, status);
}

static weft_status unpack(struct weft_team *team, const struct coll_packed *what,
                          const struct slots *slots, size_t first, size_t n)
{
    size_t apart = what->dst_stride * what->element;
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        status =
            weft_iput(team->job->system_ctx, (char *)what->dst + (member * what->n + first) * apart,
                      own_at(team, slots->in + member * slots->each), (ptrdiff_t)what->dst_stride,
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
    struct slots slots = slots_of(team);
    size_t most = slots.each / what->element;
    weft_status status = own_block(team, what);
    for (size_t at = 0; at < what->n && !status; at += most) {
        size_t n = what->n - at < most ? what->n - at : most;
        status = pack(team, what, &slots, at, n);
        if (!status) /* the slots of the last chunk, or call, are free */
            status = coll_sync(team, BOX_OP_ALLTOALLS);
        if (!status)
            status = put_all(team, &slots, n * what->element);
        if (!status)
            status = unpack(team, what, &slots, at, n);
    }
    if (!status)
        status = gpu_fill(team->job->gpu, own_at(team, slots.out), 0,
                          4 * (size_t)coll_set_bytes(&team->job->gpu->layout.coll, team->slot));
    if (status) /* the other members must not wait until WEFT_WAIT_LIMIT */
        job_fail(team->job, status, weft_last_error());
    return status;
}

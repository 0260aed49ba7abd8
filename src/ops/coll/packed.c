/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoall of strided elements where a strided put would send each element on its own (over a
 * network or through the host). Each member packs the elements of each block into a slot (slots.h)
 * of its own GPU memory, sends the block as one put, and the receiver unpacks it. There are a slot
 * to send from and one to receive in for each member. A block larger than a slot is sent in several
 * chunks. */
#include "ops/coll/packed.h"

#include "ops/coll/slots.h"

enum { LEAST_ELEMENTS = 8 }; /* for fewer elements single puts are as fast */

static struct coll_slots slots_of(const struct weft_team *team)
{
    return coll_slots_of(team, 2 * (size_t)team->n);
}

bool coll_packed_serves(const struct weft_team *team, size_t element, size_t n)
{
    return n >= LEAST_ELEMENTS && team->job->gpu &&
           team->slot < team->job->gpu->layout.coll.teams && team->n > 1 &&
           !job_gpu_team_direct(team) && slots_of(team).each >= LEAST_ELEMENTS * element;
}

/* Index of the slot in which what comes from a member is received. */
static size_t in_slot(const struct weft_team *team, size_t member)
{
    return (size_t)team->n + member;
}

/* Packs elements first ... first + n - 1 of each block into the send slots, without gaps. */
static weft_status pack(struct weft_team *team, const struct coll_packed *what,
                        const struct coll_slots *slots, size_t first, size_t n)
{
    size_t apart = what->src_stride * what->element;
    const struct path_strides strides = {
        .remote_step = what->element, .local_step = apart, .element = what->element, .n = n};
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        struct remote to = coll_slot_at(team, slots, team->me, member);
        const char *from = (const char *)what->src + (member * what->n + first) * apart;
        status = to.peer->ops->iput(to, from, &strides);
    }
    return status ? status : weft_quiet(team->job->system_ctx);
}

static weft_status put_all(struct weft_team *team, const struct coll_slots *slots, size_t bytes)
{
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        int member = (team->me + k) % team->n;
        status = coll_slot_put(team, slots, member, in_slot(team, (size_t)team->me), (size_t)member,
                               bytes);
    }
    return coll_finish_puts(team, BOX_OP_ALLTOALLS, status);
}

static weft_status unpack(struct weft_team *team, const struct coll_packed *what,
                          const struct coll_slots *slots, size_t first, size_t n)
{
    size_t apart = what->dst_stride * what->element;
    weft_status status = WEFT_OK;
    for (int k = 1; k < team->n && !status; k++) {
        size_t member = (size_t)((team->me + k) % team->n);
        status =
            weft_iput(team->job->system_ctx, (char *)what->dst + (member * what->n + first) * apart,
                      coll_slot_own(team, slots, in_slot(team, member)),
                      (ptrdiff_t)what->dst_stride, 1, what->element, n, team->job->pe);
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
    struct coll_slots slots = slots_of(team);
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
    if (status) /* the other members must not wait until WEFT_WAIT_LIMIT */
        job_fail(team->job, status, weft_last_error());
    return status;
}

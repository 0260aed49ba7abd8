/* SPDX-License-Identifier: Apache-2.0 */
/* The slot sets of a team's area in GPU memory (gpu/coll/kernels.h), cut into slots that the host
 * puts into. For teams whose kernels do not use the sets, because not all members can access each
 * other's memory. job_gpu_team_gone() clears them, so that no later team takes what is in them for
 * packets. */
#ifndef WEFT_OPS_COLL_SLOTS_H
#define WEFT_OPS_COLL_SLOTS_H

#include "gpu/coll/coll.h"
#include "ops/coll/coll.h"

struct coll_slots {
    size_t first, each; /* offset of the first one in the GPU window of any PE, and their size */
};

static inline struct coll_slots coll_slots_of(const struct weft_team *team, size_t slots)
{
    const struct coll_areas *areas = &team->job->gpu->layout.coll;
    return (struct coll_slots){(size_t)coll_area_offset(areas, team->slot) +
                                   sizeof(struct coll_area),
                               4 * (size_t)coll_set_bytes(areas, team->slot) / slots / 64 * 64};
}

/* Address of this PE's slot i. */
static inline char *coll_slot_own(const struct weft_team *team, const struct coll_slots *slots,
                                  size_t i)
{
    const struct gpu_window *own = gpu_heap_own(&team->job->gpu->heap);
    return (char *)(uintptr_t)(own->base + slots->first + i * slots->each);
}

static inline struct remote coll_slot_at(struct weft_team *team, const struct coll_slots *slots,
                                         int member, size_t i)
{
    return (struct remote){&team->job->system_ctx->peers[WEFT_GPU][team->pes[member]], SEG_GPU,
                           slots->first + i * slots->each};
}

/* Starts a put of own slot `from` to slot `to` of a member. */
static inline weft_status coll_slot_put(struct weft_team *team, const struct coll_slots *slots,
                                        int member, size_t to, size_t from, size_t bytes)
{
    struct remote at = coll_slot_at(team, slots, member, to);
    access_count(BOX_OP_PUT, at.peer, bytes, at.offset);
    return at.peer->ops->put(at, coll_slot_own(team, slots, from), bytes, true);
}

#endif

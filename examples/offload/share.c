/* SPDX-License-Identifier: Apache-2.0 */
/* See share.h. A barrier of all streams precedes a PE's puts to the others' memory, so that all PEs
 * have finished reading the old contents. Another barrier follows, so that all puts have
 * arrived. */
#include "share.h"

#include <stdlib.h>

#include <weft/stream.h>
#include <weft_device.h>

struct share {
    weft_job *job;
    struct model_shape shape;
    float *whole, *inbox;
};

static size_t for_each_peer(const struct model_shape *shape)
{
    return shape->pes * model_shard_bytes(shape);
}

size_t share_bytes(const struct model_shape *shape)
{
    return shape->pes > 1 ? 2 * for_each_peer(shape) : 0;
}

weft_status share_create(weft_job *job, const struct model_shape *shape, struct share **result)
{
    void *whole = NULL, *inbox = NULL;
    *result = NULL;
    if (shape->pes <= 1)
        return WEFT_OK;
    struct share *share = calloc(1, sizeof *share);
    if (!share)
        return WEFT_ERR_NO_MEMORY;
    weft_kind kind = weft_device_kind(job);
    weft_status status = weft_alloc(job, kind, for_each_peer(shape), 0, 0, &whole);
    if (!status)
        status = weft_alloc(job, kind, for_each_peer(shape), 0, 0, &inbox);
    *share = (struct share){.job = job, .shape = *shape, .whole = whole, .inbox = inbox};
    *result = share;
    return status;
}

weft_status share_destroy(struct share *share)
{
    if (!share)
        return WEFT_OK;
    weft_status status = weft_free(share->job, share->inbox);
    if (!status)
        status = weft_free(share->job, share->whole);
    free(share);
    return status;
}

static weft_status barrier_on_stream(struct share *share)
{
    return weft_barrier_on_stream(weft_team_world(share->job), NULL);
}

static size_t offset_of(const struct share *share, uint32_t pe)
{
    return pe * (model_shard_bytes(&share->shape) / sizeof(float));
}

weft_status share_gather(struct share *share, const float *own)
{
    const struct model_shape *s = &share->shape;
    size_t bytes = model_shard_count(s, s->me) * sizeof(float);
    weft_status status = barrier_on_stream(share);
    /* Each PE starts with the next PE, so that they do not all access the same one. */
    for (uint32_t i = 1; i <= s->pes && bytes && !status; i++)
        status =
            weft_put_on_stream(weft_default_ctx(share->job), share->whole + offset_of(share, s->me),
                               own, bytes, (int)((s->me + i) % s->pes), NULL);
    return status ? status : barrier_on_stream(share);
}

weft_status share_scatter(struct share *share)
{
    const struct model_shape *s = &share->shape;
    weft_status status = barrier_on_stream(share);
    for (uint32_t i = 1; i <= s->pes && !status; i++) {
        uint32_t pe = (s->me + i) % s->pes;
        size_t bytes = model_shard_count(s, pe) * sizeof(float);
        if (bytes)
            status = weft_put_on_stream(weft_default_ctx(share->job),
                                        share->inbox + offset_of(share, s->me),
                                        share->whole + offset_of(share, pe), bytes, (int)pe, NULL);
    }
    return status ? status : barrier_on_stream(share);
}

float *share_whole(struct share *share)
{
    return share->whole;
}

const float *share_inbox(const struct share *share)
{
    return share->inbox;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See engines.h. Each member begins with another destination, so that no GPU is everybody's
 * first. */
#include "ops/coll/engines.h"

#include "base/status.h"

/* The member i + 1 places behind this one. */
static int turned(const struct coll_call *c, int i)
{
    return (c->me + 1 + i) % c->members;
}

static bool sends_to(const struct coll_call *c, int member)
{
    return c->flow == COLL_ALL || (c->flow == COLL_FROM ? c->me == c->root : member == c->root);
}

static bool takes_from(const struct coll_call *c, int member)
{
    return c->flow == COLL_ALL || (c->flow == COLL_FROM ? member == c->root : c->me == c->root);
}

/* Block i to member i, and the own one to its place, if it is not there already. */
static int copies_of_blocks(const struct coll_call *c, struct gpu_engine_copy *copies)
{
    int n = 0;
    for (int i = 0; i < c->members - 1; i++) {
        int member = turned(c, i);
        if (sends_to(c, member))
            copies[n++] =
                (struct gpu_engine_copy){c->part[member] + c->to + (uint64_t)c->me * c->dst_step,
                                         c->src + (uint64_t)member * c->src_step, (size_t)c->bytes};
    }
    char *to = c->dst + (uint64_t)c->me * c->dst_step;
    const char *mine = c->src + (uint64_t)c->me * c->src_step;
    if (takes_from(c, c->me) && to != mine)
        copies[n++] = (struct gpu_engine_copy){to, mine, (size_t)c->bytes};
    return n;
}

/* Slice `place` of a broadcast that is handed on is that of the member so many places behind the
 * root, from 0 on. */
static uint64_t slice_begin(const struct coll_call *c, int place)
{
    enum { GRAIN = 4096 };
    uint64_t others = (uint64_t)c->members - 1, slice = c->bytes / others / GRAIN * GRAIN;
    return (uint64_t)place < others ? slice * (uint64_t)place : c->bytes;
}

static struct gpu_engine_copy slice_copy(const struct coll_call *c, int place, int member,
                                         const char *from)
{
    uint64_t begin = slice_begin(c, place), end = slice_begin(c, place + 1);
    return (struct gpu_engine_copy){c->part[member] + c->to + begin, from + begin,
                                    (size_t)(end - begin)};
}

/* The root: a slice to each other, and the whole to its own place. */
static int copies_of_slices(const struct coll_call *c, struct gpu_engine_copy *copies)
{
    int n = 0;
    if (c->me != c->root)
        return 0;
    for (int place = 0; place < c->members - 1; place++)
        copies[n++] = slice_copy(c, place, turned(c, place), c->src);
    if (c->dst != c->src)
        copies[n++] = (struct gpu_engine_copy){c->dst, c->src, (size_t)c->bytes};
    return n;
}

/* The others: the own slice, which has come, to all that have not got it. */
static int copies_handed_on(const struct coll_call *c, struct gpu_engine_copy *copies)
{
    int n = 0, place = (c->me - c->root - 1 + c->members) % c->members;
    for (int i = 0; i < c->members - 1 && c->me != c->root; i++)
        if (turned(c, i) != c->root)
            copies[n++] = slice_copy(c, place, turned(c, i), c->dst);
    return n;
}

static weft_status meet_engines(struct gpu *gpu, const struct coll_call *call, unsigned threads,
                                CUstream stream, bool fenced)
{
    struct coll_call meeting = *call;
    meeting.fenced = fenced;
    return gpu_coll_launch(gpu, COLL_weft_coll_meet, 1, threads, stream, &meeting);
}

weft_status coll_engines_put(struct gpu *gpu, const struct coll_call *call, int phases,
                             unsigned threads, CUstream stream)
{
    struct gpu_engine_copy copies[GPU_ENGINE_COPIES];
    weft_status status = meet_engines(gpu, call, threads, stream, false);
    for (int phase = 0; phase < phases && !status; phase++) {
        int n = phases == 1  ? copies_of_blocks(call, copies)
                : phase == 0 ? copies_of_slices(call, copies)
                             : copies_handed_on(call, copies);
        status = gpu_engines_copy(&gpu->coll->engines, gpu, stream, call->team, copies, n);
        if (!status)
            status = meet_engines(gpu, call, threads, stream, true);
    }
    return status;
}

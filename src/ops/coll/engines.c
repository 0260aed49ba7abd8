/* SPDX-License-Identifier: Apache-2.0 */
/* See engines.h. Each member starts with a different destination, so that the members do not
 * all copy to the same GPU first. */
#include "ops/coll/engines.h"

#include "base/status.h"

/* The member i + 1 positions after this one, modulo the size of the team. */
static int rotated_member(const struct coll_call *c, int i)
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

/* Copies of block i to member i, and of the own block to its position in dst unless it lies
 * there. */
static int list_block_copies(const struct coll_call *c, struct gpu_engine_copy *copies)
{
    int n = 0;
    for (int i = 0; i < c->members - 1; i++) {
        int member = rotated_member(c, i);
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

/* First byte of a slice of a broadcast in two phases. Slice `position` belongs to the member
 * position + 1 positions after the root. */
static uint64_t slice_begin(const struct coll_call *c, int position)
{
    enum { GRAIN = 4096 };
    uint64_t others = (uint64_t)c->members - 1, slice = c->bytes / others / GRAIN * GRAIN;
    return (uint64_t)position < others ? slice * (uint64_t)position : c->bytes;
}

static struct gpu_engine_copy slice_copy(const struct coll_call *c, int position, int member,
                                         const char *from)
{
    uint64_t begin = slice_begin(c, position), end = slice_begin(c, position + 1);
    return (struct gpu_engine_copy){c->part[member] + c->to + begin, from + begin,
                                    (size_t)(end - begin)};
}

/* At the root: one slice to each other member, and the whole vector to the root's own
 * destination. */
static int list_slice_copies(const struct coll_call *c, struct gpu_engine_copy *copies)
{
    int n = 0;
    if (c->me != c->root)
        return 0;
    for (int position = 0; position < c->members - 1; position++)
        copies[n++] = slice_copy(c, position, rotated_member(c, position), c->src);
    if (c->dst != c->src)
        copies[n++] = (struct gpu_engine_copy){c->dst, c->src, (size_t)c->bytes};
    return n;
}

/* At the other members: the slice that the root sent, to all members that do not have it yet. */
static int list_forwarded_copies(const struct coll_call *c, struct gpu_engine_copy *copies)
{
    int n = 0, position = (c->me - c->root - 1 + c->members) % c->members;
    for (int i = 0; i < c->members - 1 && c->me != c->root; i++)
        if (rotated_member(c, i) != c->root)
            copies[n++] = slice_copy(c, position, rotated_member(c, i), c->dst);
    return n;
}

static weft_status launch_barrier(struct gpu *gpu, const struct coll_call *call, unsigned threads,
                                  CUstream stream, bool fenced)
{
    struct coll_call barrier = *call;
    barrier.fenced = fenced;
    return gpu_coll_launch(gpu, COLL_weft_coll_meet, 1, threads, stream, &barrier);
}

weft_status coll_engines_enqueue(struct gpu *gpu, const struct coll_call *call, int phases,
                                 unsigned threads, CUstream stream)
{
    struct gpu_engine_copy copies[GPU_ENGINE_COPIES];
    weft_status status = launch_barrier(gpu, call, threads, stream, false);
    for (int phase = 0; phase < phases && !status; phase++) {
        int n = phases == 1  ? list_block_copies(call, copies)
                : phase == 0 ? list_slice_copies(call, copies)
                             : list_forwarded_copies(call, copies);
        status = gpu_engines_copy(&gpu->coll->engines, gpu, stream, call->record.team, copies, n);
        if (!status)
            status = launch_barrier(gpu, call, threads, stream, true);
    }
    return status;
}

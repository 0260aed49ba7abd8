/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions by node on GPU memory: see nodes_gpu.h. They combine on the GPU (gpu/coll/fold.h), in
 * the order of the team. A node passes what it has combined to the next one, through slots in the
 * team's area. Results return the same way. The schedule is fixed: in its step s an owner of node j
 * combines chunk s, and returns the result of chunk s - 2 (last node - j), which has arrived by
 * then. So one number for each neighbouring node says all: that its chunk is there, that a slot is
 * free, and that a result has come. Spin model coll_nodes. */
#include "ops/coll/kernel.h"
#include "ops/coll/nodes_gpu.h"
#include "ops/coll/slots.h"

#include <weft/device/arithmetic.h>

#include <stdlib.h>

/* Slots in the team's area: for what comes from the node before, and goes to the next one, two of
 * each, used in turn; and one for elements of a member of the node whose memory this GPU cannot
 * load. */
enum { SLOT_IN, SLOT_OUT = 2, SLOT_FETCH = 4, SLOTS };

/* The work of the owners with one local rank. */
struct fold {
    struct weft_team *team;
    const struct team_nodes *nodes;
    const struct combiner *c;
    const long double *factors; /* of a weighted sum, by member; else NULL */
    enum box_operation operation;
    char *dst;
    const char *src;
    bool in_place;     /* dst is the own block of src */
    int root;          /* of struct coll_any_reduction */
    size_t n;          /* elements of the vector, or of a block */
    int owners, owner; /* `owner`: local rank */
    size_t per_chunk;  /* elements */
    uint64_t chunks;   /* of a slice or block, those of the longest */
    uint64_t count;    /* of all of this owner */
    struct coll_slots slots;
    uint64_t phase; /* of the first step */
};

/* A chunk: where its elements begin at each member, and where the result goes. */
struct fold_chunk {
    size_t from, to, n; /* elements */
    int member;         /* gets the result; COLL_EVERYWHERE */
};

static int last_node(const struct fold *f)
{
    return f->nodes->n - 1;
}

/* The owner of the node `by` nodes after this one. */
static int owner_after(const struct fold *f, int by)
{
    return member_at(f->nodes, f->nodes->mine + by, f->owner);
}

/* Number of members whose blocks the owners with that local rank combine. */
static uint64_t count_blocks(const struct fold *f, int owner)
{
    const struct team_nodes *nodes = f->nodes;
    uint64_t blocks = 0;
    for (int node = 0; node < nodes->n; node++)
        for (int rank = owner; rank < local_count(nodes, node); rank += f->owners)
            blocks++;
    return blocks;
}

static int member_of_block(const struct fold *f, uint64_t block)
{
    const struct team_nodes *nodes = f->nodes;
    for (int node = 0; node < nodes->n; node++)
        for (int rank = f->owner; rank < local_count(nodes, node); rank += f->owners)
            if (!block--)
                return member_at(nodes, node, rank);
    return -1;
}

static struct fold_chunk chunk_at(const struct fold *f, uint64_t index)
{
    const size_t element = f->c->element, bytes = f->n * element;
    struct fold_chunk chunk = {.member = f->root};
    size_t end = f->n;
    if (f->root == COLL_EACH) {
        chunk.member = member_of_block(f, index / f->chunks);
        chunk.to = (size_t)(index % f->chunks) * f->per_chunk;
    } else {
        chunk.to = slice_at(bytes, f->owners, f->owner) / element + (size_t)index * f->per_chunk;
        end = slice_at(bytes, f->owners, f->owner + 1) / element;
    }
    chunk.to = chunk.to < end ? chunk.to : end;
    chunk.n = end - chunk.to < f->per_chunk ? end - chunk.to : f->per_chunk;
    chunk.from = chunk.to + (f->root == COLL_EACH ? (size_t)chunk.member * f->n : 0);
    return chunk;
}

/* Size of an element on its way between nodes, in bytes. */
static size_t wide_element(const struct combiner *c)
{
    return weft_dev_widened(c->type) ? sizeof(float) : c->element;
}

/* Where the owner of this node keeps the result of a chunk. */
static char *result_at(const struct fold *f, const struct fold_chunk *chunk, uint64_t step)
{
    if (chunk->member == COLL_EVERYWHERE || chunk->member == f->team->me)
        return f->dst + chunk->to * f->c->element;
    return coll_slot_own(f->team, &f->slots, SLOT_OUT + (int)(step & 1));
}

/* Makes the members at local ranks rank ... the kernel's sources: as many as one step can have.
 * What this GPU cannot load comes through the one slot for that, as the last source. */
static weft_status add_sources(const struct fold *f, const char *own, size_t bytes, int rank,
                               struct coll_call *call)
{
    struct weft_team *team = f->team;
    const struct team_nodes *nodes = f->nodes;
    const int count = local_count(nodes, nodes->mine), most = f->factors ? 1 : COLL_MEMBERS;
    call->members = 0;
    while (rank + call->members < count && call->members < most) {
        const int member = member_at(nodes, nodes->mine, rank + call->members);
        char *from = coll_gpu_mapped(team, member, own);
        if (!from) {
            call->part[call->members++] = from = coll_slot_own(team, &f->slots, SLOT_FETCH);
            return weft_get(team->job->system_ctx, from, own, bytes, team->pes[member]);
        }
        call->part[call->members++] = from;
    }
    return WEFT_OK;
}

/* Combines the elements of this node's members with those of the nodes before. */
static weft_status fold_chunk(const struct fold *f, const struct fold_chunk *chunk, uint64_t step)
{
    struct weft_team *team = f->team;
    const struct team_nodes *nodes = f->nodes;
    const int count = local_count(nodes, nodes->mine);
    const size_t bytes = chunk->n * f->c->element;
    const char *own = f->src + chunk->from * f->c->element;
    char *partial = coll_slot_own(team, &f->slots, SLOT_OUT + (int)(step & 1));
    struct coll_call call = {
        .src = nodes->mine ? coll_slot_own(team, &f->slots, SLOT_IN + (int)(step & 1)) : NULL,
        .bytes = bytes,
        .reduction.type = (int32_t)f->c->type,
        .reduction.op = (int32_t)f->c->op,
        .fold.members = team->n,
    };
    enum { BLOCK_BYTES = 64 << 10 };
    weft_status status = WEFT_OK;
    for (int rank = 0; rank < count && !status; rank += call.members) {
        struct combiner one = *f->c;
        if (f->factors)
            one.factor = f->factors[member_at(nodes, nodes->mine, rank)];
        call.reduction.factor = reduce_factor_word(&one);
        status = add_sources(f, own, bytes, rank, &call);
        call.fold.ends = nodes->mine == last_node(f) && rank + call.members == count;
        call.dst = call.fold.ends ? result_at(f, chunk, step) : partial;
        if (!status)
            status = coll_gpu_run_kernel(team, f->operation, COLL_weft_coll_fold,
                                         bytes / BLOCK_BYTES, &call);
        call.src = partial;
    }
    return status;
}

/* Puts what this node has combined into the slot of the next one. */
static weft_status pass_on(const struct fold *f, const struct fold_chunk *chunk, uint64_t step)
{
    return coll_slot_put(f->team, &f->slots, owner_after(f, 1), SLOT_IN + (int)(step & 1),
                         SLOT_OUT + (int)(step & 1), chunk->n * wide_element(f->c));
}

/* Puts a result that is at this owner to the node before and within the node. */
static weft_status pass_back(const struct fold *f, const struct fold_chunk *chunk)
{
    struct weft_team *team = f->team;
    char *at = f->dst + chunk->to * f->c->element;
    const size_t bytes = chunk->n * f->c->element;
    weft_status status = WEFT_OK;
    if (f->nodes->mine > 0)
        status = gpu_nodes_put(team, owner_after(f, -1), at, at, bytes);
    return status ? status : gpu_nodes_put_in_node(team, f->nodes, at, at, bytes, -1);
}

/* At the last node: puts a result to the one member that gets it. */
static weft_status deliver_result(const struct fold *f, const struct fold_chunk *chunk,
                                  uint64_t step)
{
    if (chunk->member == f->team->me)
        return WEFT_OK;
    const char *to = f->dst + chunk->to * f->c->element;
    if (f->in_place)
        to = f->src + chunk->from * f->c->element;
    return gpu_nodes_put(f->team, chunk->member, (char *)(uintptr_t)to, result_at(f, chunk, step),
                         chunk->n * f->c->element);
}

static weft_status run_step(const struct fold *f, uint64_t step, uint64_t behind)
{
    struct weft_team *team = f->team;
    const int node = f->nodes->mine;
    const bool last = node == last_node(f), combines = step < f->count;
    const bool returns = f->root == COLL_EVERYWHERE && step >= behind;
    const struct fold_chunk chunk = chunk_at(f, combines ? step : 0),
                            done = chunk_at(f, returns ? step - behind : 0);
    weft_status status = WEFT_OK;
    if (node > 0 && combines)
        status = coll_await(team, owner_after(f, -1), f->phase + step, f->operation);
    if (!last && step >= 2 && !status)
        status = coll_await(team, owner_after(f, 1), f->phase + step - 2, f->operation);
    /* A result passes back while the kernel runs; at the last node the kernel makes it. */
    if (returns && !last && !status)
        status = pass_back(f, &done);
    if (combines && chunk.n && !status)
        status = fold_chunk(f, &chunk, step);
    if (combines && chunk.n && !last && !status)
        status = pass_on(f, &chunk, step);
    if (returns && last && !status)
        status = pass_back(f, &done);
    else if (f->root != COLL_EVERYWHERE && last && !status)
        status = deliver_result(f, &chunk, step);
    if (!status)
        status = gpu_nodes_complete(team);
    if (!last && combines && !status)
        status = coll_notify(team, owner_after(f, 1), f->phase + step);
    if (node > 0 && !status)
        status = coll_notify(team, owner_after(f, -1), f->phase + step);
    return status;
}

/* Elements of a chunk of a slice, or of an owner's blocks, which follow one another. The same at
 * every member, though owners have different numbers of blocks. */
static size_t chunk_elements(const struct fold *f, size_t n)
{
    const size_t per_line = 64 / f->c->element, most = f->slots.each / wide_element(f->c);
    const size_t blocks = f->root == COLL_EACH ? count_blocks(f, 0) : 1;
    size_t elements = chain_chunk(n * blocks * f->c->element, f->nodes->n) / f->c->element;
    elements = elements < n ? elements : n;
    elements = (elements + per_line - 1) / per_line * per_line;
    return elements < most ? elements : most / per_line * per_line;
}

/* A step for each member, and not for each node, takes longer than to get short vectors from all
 * members: with a GPU each, two members take 0.21 ms for 8 bytes and not 0.14 (docs/measurements/
 * 2026-11-30-h200-2-nodes.md). Teams without a buffer have such vectors. */
static bool is_long_enough(const struct weft_team *team, const struct coll_any_reduction *what)
{
    const size_t blocks = what->root == COLL_EACH ? (size_t)team->n : 1;
    return coll_nodes_keep_order(team, what->c->type) ||
           what->n > coll_buffer_bytes() / what->c->element / blocks;
}

bool coll_gpu_nodes_reduces(const struct weft_team *team, const struct coll_any_reduction *what)
{
    const struct gpu *gpu = team->job->gpu;
    const struct combiner *c = what->c;
    const size_t unit = c->element > 8 ? 8 : c->element;
    return gpu && coll_gpu_spans_nodes(team) && c->type != WEFT_LONG_DOUBLE &&
           gpu_heap_covers(&gpu->heap, what->dst) && gpu_heap_covers(&gpu->heap, what->src) &&
           (uintptr_t)what->dst % unit == 0 && (uintptr_t)what->src % unit == 0 &&
           is_long_enough(team, what) && coll_kernel_runs(team);
}

/* All members meet. In a reducescatter they also find out whether their dst are at the same place
 * of the heap, or all of them are in place. *same: they are. */
static weft_status meet_to_fold(const struct fold *f, bool *same)
{
    struct weft_team *team = f->team;
    const uintptr_t heap = gpu_heap_own(&team->job->gpu->heap)->base;
    const uint64_t to = f->in_place ? 0 : (uintptr_t)f->dst - heap;
    *same = true;
    return f->root == COLL_EACH ? coll_compare_records(team, f->operation, &to, sizeof to, same)
                                : coll_sync(team, f->operation);
}

static struct fold describe_fold(struct weft_team *team, const struct team_nodes *nodes,
                                 const struct coll_any_reduction *what)
{
    const struct combiner *c = what->c;
    const size_t n = what->n;
    const char *own = (const char *)what->src + (size_t)team->me * n * c->element;
    const bool blocks = what->root == COLL_EACH;
    struct fold f = {.team = team,
                     .nodes = nodes,
                     .c = c,
                     .operation = what->operation,
                     .dst = what->dst,
                     .src = what->src,
                     .in_place = blocks && what->dst == own,
                     .root = what->root,
                     .n = n,
                     .owners = nodes->least,
                     .owner = nodes->local_me,
                     .slots = coll_slots_of(team, SLOTS)};
    const size_t longest = blocks ? n : slice_most(n * c->element, f.owners) / c->element;
    f.per_chunk = chunk_elements(&f, longest);
    f.chunks = (longest + f.per_chunk - 1) / f.per_chunk;
    f.count = f.chunks * (blocks ? count_blocks(&f, f.owner) : 1);
    return f;
}

/* *same: as meet_to_fold(). */
static weft_status run_steps(struct fold *f, bool *same)
{
    struct weft_team *team = f->team;
    const uint64_t more_nodes = (uint64_t)last_node(f),
                   behind =
                       f->root == COLL_EVERYWHERE ? 2 * (more_nodes - (uint64_t)f->nodes->mine) : 0;
    weft_status status = gpu_coll_load(team->job->gpu);
    long double *factors = NULL;
    if (!status)
        status = coll_exchange_factors(team, f->operation, f->c, &factors);
    f->factors = factors;
    /* All sources are ready then, and no slot is in use. */
    if (!status)
        status = meet_to_fold(f, same);
    if (!status && *same) {
        f->phase = team->sequence + 1;
        team->sequence +=
            f->chunks * (f->root == COLL_EACH ? count_blocks(f, 0) : 1) + 2 * more_nodes;
    }
    for (uint64_t step = 0; *same && f->owner < f->owners && step < f->count + behind && !status;
         step++)
        status = run_step(f, step, behind);
    free(factors);
    return status;
}

weft_status coll_gpu_nodes_reduce(struct weft_team *team, const struct coll_any_reduction *what)
{
    /* Where the members of a node are not consecutive, and the order changes the bits, each member
     * takes its turn as a node does. */
    struct team_nodes each = {0};
    const struct team_nodes *nodes =
        coll_nodes_keep_order(team, what->c->type) ? team->nodes : coll_gpu_each_alone(team, &each);
    if (!nodes)
        return job_fail_all(team->job, WEFT_ERR_NO_MEMORY, "no private memory for a reduction");
    struct fold f = describe_fold(team, nodes, what);
    bool same = true;
    weft_status status = run_steps(&f, &same);
    free(each.of);
    return same ? coll_finish_puts(team, f.operation, status) : coll_pull_reduce(team, what);
}

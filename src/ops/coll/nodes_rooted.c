/* SPDX-License-Identifier: Apache-2.0 */
/* Gather and scatter by node on GPU memory: see nodes_gpu.h. A member of the root's node moves the
 * blocks of the members of other nodes that have its local rank ("relay"), so that all NICs of that
 * node work and not only the root's. It gets what it moves into a slot, from the members or from
 * the root, and puts it from there; meanwhile the next piece arrives in the other slot. */
#include "ops/coll/kernel.h"
#include "ops/coll/nodes_gpu.h"
#include "ops/coll/slots.h"

#include <stdlib.h>

enum { ROOTED_SLOTS = 2 };

/* What a relay moves: blocks of `count` members, one behind the other. */
struct relay {
    struct weft_team *team;
    const struct coll_rooted *what;
    bool in_place; /* of a gather: each member has its block where it lies at the root */
    struct coll_slots slots;
    int *members, count;
};

/* Where the block of a member lies at the root, by this PE's addresses. */
static char *at_root(const struct relay *r, int member)
{
    const struct coll_rooted *what = r->what;
    const char *blocks = what->gathers ? what->dst : what->src;
    return (char *)(uintptr_t)(blocks + (size_t)member * what->bytes);
}

/* And where it lies at the member. */
static char *at_member(const struct relay *r, int member)
{
    const char *block = r->what->gathers ? r->what->src : r->what->dst;
    return r->in_place ? at_root(r, member) : (char *)(uintptr_t)block;
}

/* Part of a block, and where it lies in a slot. */
struct piece {
    int member;
    size_t offset, bytes, in_slot;
};

/* The next piece of the part of the relay's bytes that passes in a step, from byte *at on. False:
 * there is none. */
static bool next_piece(const struct relay *r, uint64_t step, size_t *at, struct piece *piece)
{
    const size_t each = r->slots.each, block = r->what->bytes, all = (size_t)r->count * block;
    const size_t begin = (size_t)step * each + *at;
    if (*at == each || begin >= all)
        return false;
    *piece = (struct piece){r->members[begin / block], begin % block, block - begin % block, *at};
    if (piece->bytes > each - *at)
        piece->bytes = each - *at;
    *at += piece->bytes;
    return true;
}

static weft_status get_piece(const struct relay *r, const struct piece *p, char *to)
{
    const int from = r->what->gathers ? p->member : r->what->root;
    const char *at = r->what->gathers ? at_member(r, p->member) : at_root(r, p->member);
    return weft_get_nbi(r->team->job->system_ctx, to, at + p->offset, p->bytes, r->team->pes[from]);
}

static weft_status put_piece(const struct relay *r, const struct piece *p, const char *from)
{
    const int to = r->what->gathers ? r->what->root : p->member;
    char *at = r->what->gathers ? at_root(r, p->member) : at_member(r, p->member);
    return gpu_nodes_put(r->team, to, at + p->offset, from, p->bytes);
}

/* Gets what passes in that step into its slot, or puts it from there. */
static weft_status move_slot(const struct relay *r, uint64_t step, bool gets)
{
    char *slot = coll_slot_own(r->team, &r->slots, step % ROOTED_SLOTS);
    struct piece piece;
    weft_status status = WEFT_OK;
    for (size_t at = 0; !status && next_piece(r, step, &at, &piece);)
        status = gets ? get_piece(r, &piece, slot + piece.in_slot)
                      : put_piece(r, &piece, slot + piece.in_slot);
    return status;
}

static weft_status relay_blocks(const struct relay *r)
{
    const size_t all = (size_t)r->count * r->what->bytes;
    const uint64_t steps = (all + r->slots.each - 1) / r->slots.each;
    weft_status status = WEFT_OK;
    for (uint64_t step = 0; steps && step <= steps && !status; step++) {
        if (step < steps)
            status = move_slot(r, step, true);
        if (step && !status)
            status = move_slot(r, step - 1, false);
        if (!status)
            status = gpu_nodes_complete(r->team);
    }
    return status;
}

/* Puts a whole block from where it lies to where it goes. */
static weft_status put_whole(const struct relay *r, int member)
{
    const struct piece whole = {member, 0, r->what->bytes, 0};
    if (member == r->what->root && at_member(r, member) == at_root(r, member))
        return WEFT_OK;
    return put_piece(r, &whole, r->what->gathers ? at_member(r, member) : at_root(r, member));
}

/* The root moves the blocks of its local rank without slots. */
static weft_status move_directly(const struct relay *r)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < r->count && !status; i++) {
        const struct piece whole = {r->members[i], 0, r->what->bytes, 0};
        status = r->what->gathers ? get_piece(r, &whole, at_root(r, whole.member))
                                  : put_whole(r, whole.member);
    }
    return status;
}

/* The blocks of the root's node: of a gather each member's own, of a scatter all from the root. */
static weft_status put_in_node(const struct relay *r)
{
    const struct weft_team *team = r->team;
    const struct team_nodes *nodes = team->nodes;
    weft_status status = WEFT_OK;
    if (r->what->gathers)
        return put_whole(r, team->me);
    for (int k = 0; team->me == r->what->root && k < local_count(nodes, nodes->mine) && !status;
         k++)
        status = put_whole(r, member_at(nodes, nodes->mine, k));
    return status;
}

/* False: there is no memory. */
static bool list_members(struct relay *r)
{
    const struct team_nodes *nodes = r->team->nodes;
    const int relays = local_count(nodes, nodes->mine);
    r->members = malloc((size_t)r->team->n * sizeof *r->members);
    for (int k = 1; r->members && k < nodes->n; k++) {
        const int node = (nodes->mine + k) % nodes->n;
        for (int rank = nodes->local_me; rank < local_count(nodes, node); rank += relays)
            r->members[r->count++] = member_at(nodes, node, rank);
    }
    return r->members;
}

/* All members meet, and find out whether they name the same memory. */
static weft_status meet_to_relay(struct weft_team *team, const struct coll_rooted *what,
                                 bool *in_place, bool *same)
{
    const struct gpu_heap *heap = &team->job->gpu->heap;
    const char *all = what->gathers ? what->dst : what->src;
    const char *own = what->gathers ? what->src : what->dst;
    const uintptr_t base = gpu_heap_own(heap)->base;
    *in_place = what->gathers && own == all + (size_t)team->me * what->bytes;
    uint64_t record[] = {(uintptr_t)all - base, *in_place ? UINT64_MAX : (uintptr_t)own - base};
    const bool there = gpu_heap_covers(heap, all) && gpu_heap_covers(heap, own);
    if (!there)
        record[0] = record[1] = UINT64_MAX - 1 - (uint64_t)team->me;
    return coll_compare_records(team, what->operation, record, sizeof record, same);
}

bool coll_gpu_nodes_relays(const struct weft_team *team, const struct coll_rooted *what)
{
    const struct team_nodes *nodes = team->nodes;
    const struct gpu *gpu = team->job->gpu;
    /* Only dst is the same at all members: of a scatter only the root's src counts. */
    if (!nodes || nodes->n == 1 || !gpu || !gpu_heap_covers(&gpu->heap, what->dst))
        return false;
    const int relays = local_count(nodes, nodes->of[what->root]);
    return relays > 1 && coll_is_relayed(team->n - relays, what->bytes) && coll_kernel_runs(team);
}

weft_status coll_gpu_nodes_rooted(struct weft_team *team, const struct coll_rooted *what,
                                  bool *done)
{
    struct relay r = {.team = team, .what = what, .slots = coll_slots_of(team, ROOTED_SLOTS)};
    weft_status status = meet_to_relay(team, what, &r.in_place, done);
    if (status || !*done)
        return status;
    if (team->nodes->of[team->me] == team->nodes->of[what->root]) {
        if (!list_members(&r))
            return job_fail_all(team->job, WEFT_ERR_NO_MEMORY, "no private memory for a relay");
        status = put_in_node(&r);
        if (!status)
            status = team->me == what->root ? move_directly(&r) : relay_blocks(&r);
        free(r.members);
    }
    return coll_finish_puts(team, what->operation, status);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Phases, packets, barrier and sync. See coll.h for how they work. */
#include "ops/coll/coll.h"

#include "base/type_names.h"
#include "job/device_state.h"

#include <stdlib.h>

/* ----------------------------------------------------------------- mailboxes without load/store */

/* The library's own context orders the flag after all earlier puts. This PE may not call Weft again
 * for a long time, so the second fence makes a path that delays operations send the flag now. */
weft_status coll_notify_slow(struct weft_team *team, int member, uint64_t phase)
{
    struct weft_ctx *ctx = team->job->system_ctx;
    struct mailbox *mailbox = &team->mailboxes[team->me];
    weft_status status = weft_fence(ctx);
    if (!status)
        status = weft_put(ctx, (void *)&mailbox->flag, &phase, sizeof phase, team->pes[member]);
    return status ? status : weft_fence(ctx);
}

weft_status coll_put_slow(struct weft_team *team, int member, struct symmetric_range to,
                          const void *src, size_t bytes)
{
    char *address = team->job->segments[to.segment].base + to.offset;
    return weft_put(team->job->system_ctx, address, src, bytes, team->pes[member]);
}

/* The path delivers the signal after the data. The first fence orders both after earlier puts. */
weft_status coll_put_notify_slow(struct weft_team *team, int member, struct symmetric_range to,
                                 const void *src, size_t bytes, uint64_t phase, bool nbi)
{
    struct weft_ctx *ctx = team->job->system_ctx;
    char *address = team->job->segments[to.segment].base + to.offset;
    uint64_t *flag = (uint64_t *)&team->mailboxes[team->me].flag;
    int pe = team->pes[member];
    weft_status status = weft_fence(ctx);
    if (!status && nbi)
        status = weft_put_signal_nbi(ctx, address, src, bytes, flag, phase, WEFT_SIGNAL_SET, pe);
    else if (!status)
        status = weft_put_signal(ctx, address, src, bytes, flag, phase, WEFT_SIGNAL_SET, pe);
    return status ? status : weft_fence(ctx);
}

weft_status coll_await_slow(struct weft_team *team, int member, uint64_t phase,
                            enum box_operation operation)
{
    struct waiter waiter = WAITER(team->job, operation, team->pes[member]);
    waiter.team = team->slot;
    waiter.expected = phase;
    waiter.offset =
        (size_t)((char *)&team->mailboxes[member].flag - team->job->segments[SEG_SYSTEM].base);
    weft_status status = WEFT_OK;
    while (!status) {
        uint64_t seen = coll_reported(team, member);
        if (seen >= phase)
            break;
        status = waiter_step(&waiter, seen);
    }
    waiter_end(&waiter);
    return status;
}

/* ------------------------------------------------------------------------------------ packets */

static inline weft_status packet_send(struct weft_team *team, int member, uint64_t sequence,
                                      const void *payload, size_t bytes)
{
    struct mailbox *mailbox = team->mailbox_at[member];
    int which = (int)(sequence & 1);
    if (likely(mailbox != NULL)) {
        access_copy(mailbox->packet[which].payload, payload, bytes);
        /* Release: pairs with the acquire load in packet_await(). */
        atomic_store_explicit(&mailbox->packet[which].sequence, sequence, memory_order_release);
        return WEFT_OK;
    }
    struct weft_ctx *ctx = team->job->system_ctx;
    mailbox = &team->mailboxes[team->me];
    weft_status status = weft_put_signal(ctx, mailbox->packet[which].payload, payload, bytes,
                                         (uint64_t *)&mailbox->packet[which].sequence, sequence,
                                         WEFT_SIGNAL_SET, team->pes[member]);
    return status ? status : weft_fence(ctx);
}

weft_status coll_packet_send(struct weft_team *team, int member, uint64_t sequence,
                             const void *payload, size_t bytes)
{
    return packet_send(team, member, sequence, payload, bytes);
}

static inline weft_status packet_await(struct weft_team *team, int member, uint64_t sequence,
                                       enum box_operation operation, void *payload, size_t bytes)
{
    struct mailbox *mailbox = &team->mailboxes[member];
    int which = (int)(sequence & 1);
    struct waiter waiter = WAITER(team->job, operation, team->pes[member]);
    waiter.team = team->slot;
    waiter.expected = sequence;
    weft_status status = WEFT_OK;
    while (!status) {
        uint64_t seen =
            atomic_load_explicit(&mailbox->packet[which].sequence, memory_order_acquire);
        if (seen >= sequence)
            break;
        status = waiter_step(&waiter, seen);
    }
    waiter_end(&waiter);
    cpu_order_device_loads();
    if (!status)
        access_copy(payload, mailbox->packet[which].payload, bytes);
    return status;
}

weft_status coll_packet_await(struct weft_team *team, int member, uint64_t sequence,
                              enum box_operation operation, void *payload, size_t bytes)
{
    return packet_await(team, member, sequence, operation, payload, bytes);
}

static weft_status exchange(struct weft_team *team, enum box_operation operation, const char *mine,
                            size_t mine_step, char *all, size_t bytes)
{
    uint64_t sequence = ++team->packets;
    int n = team->n, me = team->me;
    weft_status status = WEFT_OK;
    for (int k = 1; k < n && !status; k++) {
        int to = me + k < n ? me + k : me + k - n;
        status = packet_send(team, to, sequence, mine + (size_t)to * mine_step, bytes);
    }
    memmove(all + (size_t)me * bytes, mine + (size_t)me * mine_step, bytes);
    for (int k = 1; k < n && !status; k++) {
        int from = me - k >= 0 ? me - k : me - k + n;
        status = packet_await(team, from, sequence, operation, all + (size_t)from * bytes, bytes);
    }
    return status;
}

weft_status coll_exchange(struct weft_team *team, enum box_operation operation, const void *mine,
                          void *all, size_t bytes)
{
    if (unlikely(team->nodes != NULL))
        return coll_nodes_exchange(team, operation, mine, all, bytes);
    return exchange(team, operation, mine, 0, all, bytes);
}

weft_status coll_compare_records(struct weft_team *team, enum box_operation operation,
                                 const void *mine, size_t bytes, bool *same)
{
    weft_status status = WEFT_OK;
    bool differs = true;
    if (!team->direct)
        status = coll_nodes_compare(team, operation, mine, bytes, &differs);
    *same = !differs;
    if (status || !differs)
        return status;
    status = coll_exchange(team, operation, mine, team->scratch, bytes);
    for (int i = 0; i < team->n && !status; i++)
        if (memcmp((const char *)team->scratch + (size_t)i * bytes, mine, bytes) != 0)
            return WEFT_OK;
    *same = !status;
    return status;
}

weft_status coll_exchange_each(struct weft_team *team, enum box_operation operation,
                               const void *mine, void *all, size_t bytes)
{
    return exchange(team, operation, mine, bytes, all, bytes);
}

/* --------------------------------------------------------------------------------------- sync */

/* Dissemination barrier: in each round a member notifies radix - 1 others. A team of up to `radix`
 * members needs one round, in which each member notifies all others. The rounds use different
 * offsets (digits of base radix), so one flag value serves all rounds. */
static weft_status sync_phase(struct weft_team *team, enum box_operation operation, uint64_t phase)
{
    int n = team->n, me = team->me;
    weft_status status = WEFT_OK;
    if (unlikely(team->nodes != NULL))
        return coll_nodes_sync(team, operation, phase);
    for (long step = 1; step < n && !status; step *= team->radix) {
        for (long j = 1; j < team->radix && j * step < n && !status; j++)
            status = coll_notify(team, (int)((me + j * step) % n), phase);
        for (long j = 1; j < team->radix && j * step < n && !status; j++)
            status = coll_await(team, (int)((me - j * step + n) % n), phase, operation);
    }
    return status;
}

/* A barrier or sync called by the program: sync_phase(), then the root of the last broadcast leaves
 * first (see coll_barrier() in coll.h). */
static weft_status meet_members(struct weft_team *team, enum box_operation operation,
                                uint64_t phase)
{
    int leader = team->leader;
    weft_status status = sync_phase(team, operation, phase);
    if (likely(leader < 0) || status)
        return status;
    team->leader = -1;
    if (team->me != leader)
        return coll_await(team, leader, phase + 1, operation);
    for (int i = 0; i < team->n && !status; i++)
        if (i != leader)
            status = coll_notify(team, i, phase + 1);
    return status;
}

weft_status coll_sync(struct weft_team *team, enum box_operation operation)
{
    uint64_t phase = team->sequence + 1;
    team->sequence += TEAM_PHASES;
    return sync_phase(team, operation, phase);
}

/* ------------------------------------------------------------------------------ begin, checks */

static weft_status differ(const char *function, struct weft_team *team, int member,
                          const uint64_t *mine, const uint64_t *theirs)
{
    if (mine[0] != theirs[0])
        return base_fail(WEFT_ERR_MISMATCH, "%s: PE %d calls %s while PE %d calls %s", function,
                         team->job->pe, box_operation_name((uint32_t)mine[0]), team->pes[member],
                         box_operation_name((uint32_t)theirs[0]));
    if (mine[1] != theirs[1])
        return base_fail(WEFT_ERR_MISMATCH, "%s: %llu bytes at PE %d, %llu at PE %d", function,
                         (unsigned long long)mine[1], team->job->pe, (unsigned long long)theirs[1],
                         team->pes[member]);
    if (mine[2] != theirs[2])
        return base_fail(WEFT_ERR_MISMATCH, "%s: root %lld at PE %d, %lld at PE %d", function,
                         (long long)mine[2], team->job->pe, (long long)theirs[2],
                         team->pes[member]);
    bool reduces =
        mine[0] == BOX_OP_ALLREDUCE || mine[0] == BOX_OP_REDUCESCATTER || mine[0] == BOX_OP_REDUCE;
    if (reduces && (uint16_t)mine[3] != (uint16_t)theirs[3])
        return base_fail(WEFT_ERR_MISMATCH,
                         "%s: type and operation are %s by %s at PE %d, %s by %s at PE %d",
                         function, base_type_name((int)(mine[3] >> 8 & 0xff)),
                         base_op_name((int)(mine[3] & 0xff)), team->job->pe,
                         base_type_name((int)(theirs[3] >> 8 & 0xff)),
                         base_op_name((int)(theirs[3] & 0xff)), team->pes[member]);
    if (reduces)
        return base_fail(WEFT_ERR_MISMATCH, "%s: the factors of PE %d and PE %d differ", function,
                         team->job->pe, team->pes[member]);
    return base_fail(WEFT_ERR_MISMATCH,
                     "%s: strides or addresses differ between PE %d (%#llx) and PE %d "
                     "(%#llx)",
                     function, team->job->pe, (unsigned long long)mine[3], team->pes[member],
                     (unsigned long long)theirs[3]);
}

/* Checking mode: all members exchange the arguments of this call and compare them. */
static weft_status compare_calls(const char *function, struct weft_team *team,
                                 enum box_operation operation, int root, uint64_t bytes,
                                 uint64_t detail)
{
    uint64_t mine[4] = {operation, bytes, (uint64_t)(int64_t)root, detail};
    const uint64_t *all = team->scratch;
    bool same;
    weft_status status = coll_compare_records(team, operation, mine, sizeof mine, &same);
    for (int i = 0; i < team->n && !status && !same; i++)
        if (memcmp(&all[i * 4], mine, sizeof mine) != 0)
            status = differ(function, team, i, mine, &all[i * 4]);
    return status;
}

weft_status coll_begin(const char *function, struct weft_team *team, enum box_operation operation,
                       int root, uint64_t bytes, uint64_t detail, uint64_t *phase)
{
    *phase = 0;
    if (unlikely(!team))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: team is null", function);
    struct weft_job *job = team->job;
    if (unlikely(atomic_load_explicit(&job->state, memory_order_relaxed) != JOB_RUNNING))
        return job_finalized(function);
    if (job_failed(job))
        return job_check_failed(job);
    box_record(job->box, operation, root, (uint64_t)team->slot, bytes);
    if (team == job->world)
        atomic_store_explicit(&job->box->collectives,
                              atomic_load_explicit(&job->box->collectives, memory_order_relaxed) +
                                  1,
                              memory_order_relaxed);
    if (unlikely(job->checking)) {
        weft_status status = compare_calls(function, team, operation, root, bytes, detail);
        if (status)
            return status;
    }
    if (operation != BOX_OP_BARRIER && operation != BOX_OP_SYNC)
        team->leader = -1;
    *phase = team->sequence + 1;
    team->sequence += TEAM_PHASES;
    return WEFT_OK;
}

weft_status coll_check_root(const char *function, const struct weft_team *team, int root)
{
    return root >= 0 && root < team->n
               ? WEFT_OK
               : base_fail(WEFT_ERR_PE, "%s: root %d; the team's PEs are 0 ... %d", function, root,
                           team->n - 1);
}

weft_status coll_find_range(const char *function, const char *argument, struct weft_team *team,
                            const void *address, size_t bytes, struct symmetric_range *range)
{
    weft_status status = access_find_own(function, team->job->default_ctx, address, bytes,
                                         &range->segment, &range->offset);
    return status ? base_fail_context(status, "argument %s", argument) : WEFT_OK;
}

/* ----------------------------------------------------------------------------- public barriers */

static weft_status quiet_all(struct weft_job *job)
{
    /* One CPU fence completes the stores of every context over load/store paths; the other paths of
     * each context are quieted one by one. */
    atomic_thread_fence(memory_order_seq_cst);
    weft_status status = WEFT_OK;
    if (unlikely(job->default_ctx->open_count)) {
        pthread_mutex_lock(&job->contexts_lock);
        bool before = access_act_for_others(true);
        /* The flags of the collectives already complete what they put with the library's own
         * context. */
        for (struct weft_ctx *ctx = job->contexts; ctx && !status; ctx = ctx->next)
            if (ctx != job->system_ctx)
                status = weft_quiet(ctx);
        access_act_for_others(before);
        pthread_mutex_unlock(&job->contexts_lock);
    } else if (unlikely(job->device)) { /* completes operations of device code, which the fence of
                                         * the CPU does not cover */
        status = device_quiet(job);
    }
    return status;
}

weft_status coll_barrier(const char *function, struct weft_team *team, enum box_operation operation)
{
    uint64_t phase;
    weft_status status = coll_begin(function, team, operation, -1, 0, 0, &phase);
    if (!status)
        status = quiet_all(team->job);
    return status ? status : meet_members(team, operation, phase);
}

WEFT_EXPORT weft_status weft_barrier(weft_team *team)
{
    return coll_barrier("weft_barrier", team, BOX_OP_BARRIER);
}

WEFT_EXPORT weft_status weft_sync(weft_team *team)
{
    uint64_t phase;
    weft_status status = coll_begin("weft_sync", team, BOX_OP_SYNC, -1, 0, 0, &phase);
    return status ? status : meet_members(team, BOX_OP_SYNC, phase);
}

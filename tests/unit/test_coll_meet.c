/* SPDX-License-Identifier: Apache-2.0 */
/* Phases and packets between the members of a team, barrier and sync: the order in which members
 * notify each other, the puts to mailboxes that cannot be stored to, and the errors of members
 * whose calls differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/held_locks.h"
#include "tests/unit/ops_job.h"

#include "job/waiter.h"
#include "ops/coll/coll.h"

#include <stdio.h>

enum { PES = 16, MOST = 7, TO = 64 };

static char calls[2048];  /* text of all calls of the fakes, in order */
static const char *fails; /* the call that fails; NULL = none */
static int left, locked_quiets;
static bool job_failed_, others_may;
static int pes[PES];
static struct path_choice choices[PES];
static struct mailbox system_segment[1 + PES], theirs[PES], *at[PES];
static struct mailbox *const own = system_segment + 1;
static uint64_t scratch[PES * 8];
static struct box box;
static struct box_wait wait_slot;
static struct {
    enum box_operation operation;
    int root;
    uint64_t slot, bytes;
} recorded;
static uint64_t payload_of[PES]; /* payload of member i's packets */

static __attribute__((format(printf, 2, 3))) weft_status called(const char *name,
                                                                const char *format, ...)
{
    size_t used = strlen(calls);
    va_list arguments;
    used += (size_t)snprintf(calls + used, sizeof calls - used, "%s", name);
    va_start(arguments, format);
    used += (size_t)vsnprintf(calls + used, sizeof calls - used, format, arguments);
    va_end(arguments);
    snprintf(calls + used, sizeof calls - used, "; ");
    return fails && !strcmp(fails, name) ? base_fail(WEFT_ERR_SYSTEM, "%s fails", name) : WEFT_OK;
}

static int member_of(int pe)
{
    for (int i = 0; i < PES; i++)
        if (pes[i] == pe)
            return i;
    return -1;
}

weft_status __wrap_weft_fence(weft_ctx *ctx);
weft_status __wrap_weft_fence(weft_ctx *ctx)
{
    assert_ptr_equal(ctx, &ops.system_ctx);
    return called("fence", "%s", "");
}

weft_status __wrap_weft_quiet(weft_ctx *ctx);
weft_status __wrap_weft_quiet(weft_ctx *ctx)
{
    locked_quiets += is_held(&ops.job.contexts_lock);
    others_may = job_acts_for_others;
    return called("quiet", " %d", (int)ctx->options);
}

weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    assert_ptr_equal(ctx, &ops.system_ctx);
    if (dst == &own[ops.team.me].flag) {
        assert_int_equal(bytes, 8);
        return called("tell", " %d %d", member_of(pe), (int)*(const uint64_t *)src);
    }
    return called("put", " %d %td %zu", member_of(pe), (char *)dst - ops_heaps[OPS_PE], bytes);
}

static weft_status signalled(const char *name, void *dst, size_t bytes, uint64_t *signal,
                             uint64_t value, weft_signal_op op, int pe)
{
    struct mailbox *mine = &own[ops.team.me];
    assert_int_equal(op, WEFT_SIGNAL_SET);
    if ((void *)signal == (void *)&mine->flag)
        return called(name, " %d %td %zu flag %d", member_of(pe), (char *)dst - ops_heaps[OPS_PE],
                      bytes, (int)value);
    int which = (void *)signal == (void *)&mine->packet[1].sequence;
    assert_ptr_equal(signal, &mine->packet[which].sequence);
    assert_ptr_equal(dst, mine->packet[which].payload);
    return called(name, " %d packet%d %zu %d", member_of(pe), which, bytes, (int)value);
}

weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    (void)src;
    assert_ptr_equal(ctx, &ops.system_ctx);
    return signalled("put_signal", dst, bytes, signal, value, op, pe);
}

weft_status __wrap_weft_put_signal_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                       uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status __wrap_weft_put_signal_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                       uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    (void)src;
    assert_ptr_equal(ctx, &ops.system_ctx);
    return signalled("put_signal_nbi", dst, bytes, signal, value, op, pe);
}

/* The awaited value arrives at the second call. */
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen);
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen)
{
    int member = member_of(waiter->peer);
    assert_int_equal(waiter->team, ops.team.slot);
    assert_true(seen < waiter->expected);
    if (!waiter->slot) {
        waiter->slot = &wait_slot;
        return WEFT_OK;
    }
    if (waiter->offset) {
        assert_int_equal(waiter->offset,
                         (char *)&own[member].flag - ops.job.segments[SEG_SYSTEM].base);
        own[member].flag = waiter->expected;
    } else {
        own[member].packet[waiter->expected & 1].sequence = waiter->expected;
        memcpy(own[member].packet[waiter->expected & 1].payload, &payload_of[member], 8);
    }
    return called("await", " %d %d", member, (int)waiter->expected);
}

void __wrap_waiter_unpublish(struct waiter *waiter);
void __wrap_waiter_unpublish(struct waiter *waiter)
{
    assert_ptr_equal(waiter->slot, &wait_slot);
    left++;
}

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return job_failed_ ? base_fail(WEFT_ERR_PEER_DEAD, "a PE is dead") : WEFT_OK;
}

weft_status __wrap_device_quiet(struct weft_job *job);
weft_status __wrap_device_quiet(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return called("settle", "%s", "");
}

weft_status __wrap_coll_nodes_sync(struct weft_team *team, enum box_operation operation,
                                   uint64_t phase);
weft_status __wrap_coll_nodes_sync(struct weft_team *team, enum box_operation operation,
                                   uint64_t phase)
{
    (void)team;
    return called("nodes_sync", " %d %d", operation == BOX_OP_BARRIER, (int)phase);
}

weft_status __wrap_coll_nodes_exchange(struct weft_team *team, enum box_operation operation,
                                       const void *mine, char *all, size_t bytes);
weft_status __wrap_coll_nodes_exchange(struct weft_team *team, enum box_operation operation,
                                       const void *mine, char *all, size_t bytes)
{
    (void)operation, (void)mine;
    assert_ptr_equal(all, scratch);
    return called("nodes_exchange", " %d %zu", team->n, bytes);
}

void __wrap_box_record(struct box *of, enum box_operation operation, int peer, uint64_t offset,
                       uint64_t bytes);
void __wrap_box_record(struct box *of, enum box_operation operation, int peer, uint64_t offset,
                       uint64_t bytes)
{
    assert_ptr_equal(of, &box);
    recorded.operation = operation;
    recorded.root = peer;
    recorded.slot = offset;
    recorded.bytes = bytes;
}

static void team_of(int n, int me, int radix)
{
    ops.team.n = n;
    ops.team.me = me;
    ops.team.radix = radix;
    memset(system_segment, 0, sizeof system_segment);
    memset(theirs, 0, sizeof theirs);
    calls[0] = 0;
    left = 0;
}

static int set_up(void **state)
{
    (void)state;
    ops_begin();
    fails = NULL;
    job_failed_ = others_may = false;
    locked_quiets = 0;
    memset(&box, 0, sizeof box);
    for (int i = 0; i < PES; i++) {
        pes[i] = (5 * i + 3) % PES;
        choices[i].path = PATH_P2P;
        at[i] = NULL;
        payload_of[i] = 0x1111111111111111 * (uint64_t)i;
    }
    ops.job.gpu = NULL;
    ops.job.box = &box;
    ops.job.paths.choices[WEFT_HOST] = choices;
    ops.job.segments[SEG_SYSTEM].base = (char *)system_segment;
    ops.job.world = NULL;
    ops.team.pes = pes;
    ops.team.slot = 6;
    ops.team.leader = -1;
    ops.team.mailboxes = own;
    ops.team.mailbox_at = at;
    ops.team.scratch = scratch;
    team_of(5, 1, 8);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(none_is_held());
    assert_false(job_acts_for_others);
    return 0;
}

/* Checks the status of a call and the text of the calls that it makes. */
#define assert_calls(expected_status, heard, call)                                                 \
    do {                                                                                           \
        calls[0] = 0;                                                                              \
        assert_int_equal(call, expected_status);                                                   \
        assert_string_equal(calls, heard);                                                         \
    } while (0)

/* ------------------------------------------------------------------------------ single steps */

static void a_flag_follows_what_was_put_and_is_let_go(void **state)
{
    (void)state;
    assert_calls(WEFT_OK, "fence; tell 3 9; fence; ", coll_notify(&ops.team, 3, 9));
    fails = "tell";
    assert_calls(WEFT_ERR_SYSTEM, "fence; tell 3 9; ", coll_notify(&ops.team, 3, 9));
    fails = "fence";
    assert_calls(WEFT_ERR_SYSTEM, "fence; ", coll_notify(&ops.team, 3, 9));
    fails = NULL;
    at[3] = &theirs[3];
    assert_calls(WEFT_OK, "", coll_notify(&ops.team, 3, 9));
    assert_int_equal(theirs[3].flag, 9);
}

static void bytes_are_put_at_the_place_of_a_member(void **state)
{
    (void)state;
    static const char source[] = "twenty-four bytes of it.";
    const struct symmetric_range to = {SEG_HEAP, TO};
    ops.map[pes[2] % 3][SEG_HEAP] = ops_heaps[2];
    assert_calls(WEFT_OK, "put 3 64 24; ", coll_put(&ops.team, 3, to, source, 24));
    assert_calls(WEFT_OK, "fence; put_signal 3 64 24 flag 9; fence; ",
                 coll_put_notify(&ops.team, 3, to, source, 24, 9, false));
    assert_calls(WEFT_OK, "fence; put_signal_nbi 3 64 24 flag 9; fence; ",
                 coll_put_notify(&ops.team, 3, to, source, 24, 9, true));
    for (int nbi = 0; nbi < 2; nbi++) {
        fails = nbi ? "put_signal_nbi" : "put_signal";
        calls[0] = 0;
        assert_int_equal(coll_put_notify(&ops.team, 3, to, source, 24, 9, nbi), WEFT_ERR_SYSTEM);
        assert_int_equal(strlen(calls),
                         strlen("fence; put_signal 3 64 24 flag 9; ") + 4 * (size_t)nbi);
        fails = "fence";
        assert_calls(WEFT_ERR_SYSTEM, "fence; ",
                     coll_put_notify(&ops.team, 3, to, source, 24, 9, nbi));
    }
    fails = "put";
    assert_calls(WEFT_ERR_SYSTEM, "put 3 64 24; ", coll_put(&ops.team, 3, to, source, 24));
    /* The memory is mapped. */
    pes[3] = 2;
    at[3] = &theirs[3];
    assert_calls(WEFT_OK, "", coll_put(&ops.team, 3, to, source, 24));
    assert_memory_equal(ops_heaps[2] + TO, source, 24);
    assert_int_equal(theirs[3].flag, 0);
    memset(ops_heaps, 0, sizeof ops_heaps);
    assert_calls(WEFT_OK, "", coll_put_notify(&ops.team, 3, to, source, 24, 9, true));
    assert_memory_equal(ops_heaps[2] + TO, source, 24);
    assert_int_equal(theirs[3].flag, 9);
}

static void a_wait_for_a_phase_ends_with_it(void **state)
{
    (void)state;
    assert_calls(WEFT_OK, "await 3 9; ", coll_await(&ops.team, 3, 9, BOX_OP_SYNC));
    assert_int_equal(left, 1);
    assert_calls(WEFT_OK, "", coll_await(&ops.team, 3, 9, BOX_OP_SYNC));
    assert_calls(WEFT_OK, "", coll_await(&ops.team, 3, 8, BOX_OP_SYNC));
    assert_calls(WEFT_OK, "", coll_await_slow(&ops.team, 3, 9, BOX_OP_SYNC));
    assert_int_equal(left, 1);
    fails = "await";
    assert_calls(WEFT_ERR_SYSTEM, "await 3 10; ", coll_await(&ops.team, 3, 10, BOX_OP_SYNC));
    assert_int_equal(left, 2);
}

static void packets_of_odd_and_even_numbers_have_their_own_lines(void **state)
{
    (void)state;
    uint64_t value = 0x0123456789abcdef, got = 0;
    assert_calls(WEFT_OK, "put_signal 3 packet1 8 7; fence; ",
                 coll_packet_send(&ops.team, 3, 7, &value, 8));
    fails = "put_signal";
    assert_calls(WEFT_ERR_SYSTEM, "put_signal 3 packet0 8 8; ",
                 coll_packet_send(&ops.team, 3, 8, &value, 8));
    fails = NULL;
    at[3] = &theirs[3];
    for (uint64_t number = 7; number < 9; number++) {
        assert_calls(WEFT_OK, "", coll_packet_send(&ops.team, 3, number, &value, 8));
        assert_int_equal(theirs[3].packet[number & 1].sequence, number);
        assert_memory_equal(theirs[3].packet[number & 1].payload, &value, 8);
        value++;
    }
    assert_calls(WEFT_OK, "await 3 7; ", coll_packet_await(&ops.team, 3, 7, BOX_OP_SYNC, &got, 8));
    assert_int_equal(got, payload_of[3]);
    assert_int_equal(left, 1);
    own[3].packet[0].sequence = 9; /* newer than the awaited packet */
    memcpy(own[3].packet[0].payload, &value, 8);
    assert_calls(WEFT_OK, "", coll_packet_await(&ops.team, 3, 8, BOX_OP_SYNC, &got, 8));
    assert_int_equal(got, value);
    fails = "await";
    got = 5;
    assert_calls(WEFT_ERR_SYSTEM, "await 3 10; ",
                 coll_packet_await(&ops.team, 3, 10, BOX_OP_SYNC, &got, 8));
    assert_int_equal(got, 5);
}

/* --------------------------------------------------------------------------------- exchanges */

static void every_member_gets_what_each_has(void **state)
{
    (void)state;
    uint64_t mine[5] = {10, 11, 12, 13, 14}, all[6] = {0, 0, 0, 0, 0, 99};
    ops.team.packets = 6;
    assert_calls(
        WEFT_OK,
        "put_signal 2 packet1 8 7; fence; put_signal 3 packet1 8 7; fence; put_signal 4 "
        "packet1 8 7; fence; put_signal 0 packet1 8 7; fence; await 0 7; await 4 7; await 3 "
        "7; await 2 7; ",
        coll_exchange(&ops.team, BOX_OP_SYNC, mine, all, 8));
    for (int i = 0; i < 5; i++)
        assert_int_equal(all[i], i == 1 ? 10 : payload_of[i]);
    assert_int_equal(all[5], 99);
    assert_int_equal(ops.team.packets, 7);
    for (int i = 0; i < 5; i++)
        at[i] = &theirs[i];
    assert_calls(WEFT_OK, "await 0 8; await 4 8; await 3 8; await 2 8; ",
                 coll_exchange_each(&ops.team, BOX_OP_SYNC, mine, all, 8));
    for (int i = 0; i < 5; i++) {
        uint64_t sent;
        memcpy(&sent, theirs[i].packet[0].payload, 8);
        assert_int_equal(sent, i == 1 ? 0 : mine[i]);
        assert_int_equal(all[i], i == 1 ? 11 : payload_of[i]);
    }
    fails = "await";
    assert_calls(WEFT_ERR_SYSTEM, "await 0 9; ",
                 coll_exchange(&ops.team, BOX_OP_SYNC, mine, all, 8));
    at[3] = NULL;
    fails = "put_signal";
    assert_calls(WEFT_ERR_SYSTEM, "put_signal 3 packet0 8 10; ",
                 coll_exchange(&ops.team, BOX_OP_SYNC, mine, all, 8));
    fails = NULL;
    ops.team.nodes = (struct team_nodes *)&box;
    assert_calls(WEFT_OK, "nodes_exchange 5 8; ",
                 coll_exchange(&ops.team, BOX_OP_SYNC, mine, scratch, 8));
    assert_int_equal(ops.team.packets, 10);
}

/* --------------------------------------------------------------------------- barrier and sync */

static void sync_tells_others_round_by_round(void **state)
{
    (void)state;
    static const struct {
        int n, me, radix;
        const char *heard;
    } rows[] = {
        {1, 0, 2, ""},
        {2, 1, 2, "tell 0 1; await 0 1; "},
        {7, 2, 3,
         "tell 3 1; tell 4 1; await 1 1; await 0 1; tell 5 1; tell 1 1; await 6 1; await 3 1; "},
        {5, 4, 8,
         "tell 0 1; tell 1 1; tell 2 1; tell 3 1; await 3 1; await 2 1; await 1 1; await 0 1; "},
        {4, 0, 2, "tell 1 1; await 3 1; tell 2 1; await 2 1; "},
        {3, 0, 2, "tell 1 1; await 2 1; tell 2 1; await 1 1; "},
        {4, 0, 4, "tell 1 1; tell 2 1; tell 3 1; await 3 1; await 2 1; await 1 1; "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        team_of(rows[i].n, rows[i].me, rows[i].radix);
        ops.team.sequence = 0;
        assert_int_equal(weft_sync(&ops.team), WEFT_OK);
        /* Leave out the fences. */
        char heard[512] = "";
        for (const char *at_call = calls; *at_call;) {
            const char *end = strstr(at_call, "; ") + 2;
            if (strncmp(at_call, "fence", 5))
                strncat(heard, at_call, (size_t)(end - at_call));
            at_call = end;
        }
        assert_string_equal(heard, rows[i].heard);
        assert_int_equal(ops.team.sequence, TEAM_PHASES);
    }
    team_of(7, 2, 3);
    static const char *const steps[] = {"tell", "await"};
    static const char *const until[] = {
        "fence; tell 3 9; ", "fence; tell 3 13; fence; fence; tell 4 13; fence; await 1 13; "};
    ops.team.sequence = 8;
    for (int i = 0; i < 2; i++) {
        fails = steps[i];
        assert_calls(WEFT_ERR_SYSTEM, until[i], coll_sync(&ops.team, BOX_OP_SYNC));
        assert_int_equal(ops.team.sequence, 12 + 4 * i);
    }
    fails = NULL;
    ops.team.nodes = (struct team_nodes *)&box;
    assert_calls(WEFT_OK, "nodes_sync 0 17; ", coll_sync(&ops.team, BOX_OP_SYNC));
    assert_calls(WEFT_OK, "nodes_sync 1 21; ", weft_barrier(&ops.team));
}

static void the_leader_leaves_first(void **state)
{
    (void)state;
    team_of(3, 1, 4);
    for (int i = 0; i < 3; i++)
        at[i] = &theirs[i];
    ops.team.leader = 1;
    assert_calls(WEFT_OK, "await 0 1; await 2 1; ", weft_sync(&ops.team));
    assert_int_equal(theirs[0].flag, 2);
    assert_int_equal(theirs[2].flag, 2);
    assert_int_equal(theirs[1].flag, 0);
    assert_int_equal(ops.team.leader, -1);
    ops.team.leader = 0;
    assert_calls(WEFT_OK, "await 0 5; await 2 5; await 0 6; ", weft_barrier(&ops.team));
    assert_int_equal(theirs[2].flag, 5);
    assert_int_equal(ops.team.leader, -1);
    assert_calls(WEFT_OK, "await 0 9; await 2 9; ", weft_sync(&ops.team));
    ops.team.leader = 1;
    fails = "await";
    assert_calls(WEFT_ERR_SYSTEM, "await 0 13; ", weft_sync(&ops.team));
    assert_int_equal(theirs[2].flag, 13);
    fails = "tell";
    at[0] = NULL;
    own[0].flag = own[2].flag = 100;
    ops.team.leader = 1;
    assert_int_equal(weft_sync(&ops.team), WEFT_ERR_SYSTEM);
    ops.team.leader = 2;
    uint64_t phase;
    fails = NULL;
    assert_int_equal(coll_begin("f", &ops.team, BOX_OP_ALLGATHER, -1, 0, 0, &phase), WEFT_OK);
    assert_int_equal(ops.team.leader, -1); /* any other collective cancels the leader */
}

static void a_barrier_completes_all_contexts(void **state)
{
    (void)state;
    static struct weft_ctx first, second;
    team_of(1, 0, 2);
    ops.job.device = (struct device_state *)&box;
    assert_calls(WEFT_OK, "settle; ", weft_barrier(&ops.team));
    fails = "settle";
    assert_calls(WEFT_ERR_SYSTEM, "settle; ", weft_barrier(&ops.team));
    first = second = ops.ctx;
    first.options = 11;
    second.options = 22;
    first.next = &ops.system_ctx;
    ops.system_ctx.next = &second;
    ops.job.contexts = &first;
    ops.ctx.open_count = 1;
    fails = NULL;
    assert_calls(WEFT_OK, "quiet 11; quiet 22; ", weft_barrier(&ops.team));
    assert_int_equal(locked_quiets, 2);
    assert_true(others_may);
    fails = "quiet";
    assert_calls(WEFT_ERR_SYSTEM, "quiet 11; ", weft_barrier(&ops.team));
    assert_calls(WEFT_OK, "", weft_sync(&ops.team));
    ops.ctx.open_count = 0;
    ops.job.device = NULL;
    assert_calls(WEFT_OK, "", weft_barrier(&ops.team));
}

/* -------------------------------------------------------------------------------------- begin */

static void a_call_is_recorded_and_counted(void **state)
{
    (void)state;
    uint64_t phase = 77;
    assert_int_equal(coll_begin("f", NULL, BOX_OP_SYNC, -1, 0, 0, &phase), WEFT_ERR_ARGUMENT);
    assert_string_equal(base_last_error(), "f: team is null");
    assert_int_equal(phase, 0);
    ops.team.sequence = 8;
    assert_int_equal(coll_begin("f", &ops.team, BOX_OP_ALLREDUCE, 3, 24, 0, &phase), WEFT_OK);
    assert_int_equal(phase, 9);
    assert_int_equal(ops.team.sequence, 8 + TEAM_PHASES);
    assert_int_equal(recorded.operation, BOX_OP_ALLREDUCE);
    assert_int_equal(recorded.root, 3);
    assert_int_equal(recorded.slot, 6);
    assert_int_equal(recorded.bytes, 24);
    assert_int_equal(box.collectives, 0);
    ops.job.world = &ops.team;
    for (int i = 1; i < 3; i++) {
        assert_int_equal(coll_begin("f", &ops.team, BOX_OP_ALLREDUCE, 3, 24, 0, &phase), WEFT_OK);
        assert_int_equal(box.collectives, i);
    }
    job_failed_ = true;
    ops.fault = 1;
    assert_int_equal(coll_begin("f", &ops.team, BOX_OP_ALLREDUCE, 3, 24, 0, &phase),
                     WEFT_ERR_PEER_DEAD);
    ops.job.state = JOB_FINALIZED;
    assert_int_equal(coll_begin("f", &ops.team, BOX_OP_ALLREDUCE, 3, 24, 0, &phase),
                     WEFT_ERR_FINALIZED);
    assert_int_equal(box.collectives, 2);
    assert_int_equal(weft_sync(&ops.team), WEFT_ERR_FINALIZED);
    assert_int_equal(weft_barrier(&ops.team), WEFT_ERR_FINALIZED);
}

static uint64_t other_call[4];

static void members_that_call_differently_are_told(void **state)
{
    (void)state;
    const struct {
        enum box_operation operation;
        uint64_t other[4];
        const char *words;
    } rows[] = {
        {BOX_OP_ALLGATHER, {BOX_OP_ALLTOALL, 25, 4, 5}, "f: PE 1 calls allgather while PE"},
        {BOX_OP_ALLGATHER, {BOX_OP_ALLGATHER, 25, 4, 5}, "f: 24 bytes at PE 1, 25 at PE"},
        {BOX_OP_ALLGATHER, {BOX_OP_ALLGATHER, 24, (uint64_t)-1, 5}, "f: root 3 at PE 1, -1 at PE"},
        {BOX_OP_ALLGATHER, {BOX_OP_ALLGATHER, 24, 3, 0x507}, "between PE 1 (0x506) and PE"},
        {BOX_OP_ALLREDUCE, {BOX_OP_ALLREDUCE, 24, 3, 0x507}, "f: type and operation are "},
        {BOX_OP_REDUCESCATTER, {BOX_OP_REDUCESCATTER, 24, 3, 0x406}, "f: type and operation are "},
        {BOX_OP_REDUCE, {BOX_OP_REDUCE, 24, 3, 0x10506}, "f: the factors of PE 1 and PE "},
    };
    ops.job.checking = true;
    team_of(2, 1, 2);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        uint64_t phase;
        bool same = i % 2;
        team_of(2, 1, 2);
        ops.team.direct = true;
        const uint64_t mine[4] = {rows[i / 2].operation, 24, 3, 0x506};
        uint64_t number = ops.team.packets + 1;
        memcpy(other_call, same ? mine : rows[i / 2].other, sizeof other_call);
        own[0].packet[number & 1].sequence = number;
        memcpy(own[0].packet[number & 1].payload, other_call, sizeof other_call);
        ops.team.sequence = 8;
        weft_status status =
            coll_begin("f", &ops.team, rows[i / 2].operation, 3, 24, 0x506, &phase);
        assert_int_equal(status, same ? WEFT_OK : WEFT_ERR_MISMATCH);
        assert_int_equal(phase, same ? 9 : 0);
        if (same)
            continue;
        if (!strstr(base_last_error(), rows[i / 2].words))
            fail_msg("row %zu says %s", i / 2, base_last_error());
        char other[16];
        snprintf(other, sizeof other, "PE %d", pes[0]);
        assert_non_null(strstr(base_last_error(), other));
    }
    for (int direct = 0; direct <= 1; direct++) {
        uint64_t phase;
        team_of(2, 1, 2);
        ops.team.direct = direct;
        fails = "put_signal";
        assert_int_equal(coll_begin("f", &ops.team, BOX_OP_SYNC, 3, 24, 0, &phase),
                         WEFT_ERR_SYSTEM);
    }
}

static void roots_and_places_are_checked(void **state)
{
    (void)state;
    struct symmetric_range range;
    assert_int_equal(coll_check_root("f", &ops.team, 0), WEFT_OK);
    assert_int_equal(coll_check_root("f", &ops.team, 4), WEFT_OK);
    assert_int_equal(coll_check_root("f", &ops.team, 5), WEFT_ERR_PE);
    assert_string_equal(base_last_error(), "f: root 5; the team's PEs are 0 ... 4");
    assert_int_equal(coll_check_root("f", &ops.team, -1), WEFT_ERR_PE);
    assert_int_equal(coll_find_range("f", "dst", &ops.team, ops_heaps[OPS_PE] + TO, 8, &range),
                     WEFT_OK);
    assert_int_equal(range.segment, SEG_HEAP);
    assert_int_equal(range.offset, TO);
    assert_int_equal(
        coll_find_range("f", "dst", &ops.team, ops_heaps[OPS_PE] + TO, OPS_HEAP, &range),
        WEFT_ERR_RANGE);
    assert_non_null(strstr(base_last_error(), "argument dst"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_flag_follows_what_was_put_and_is_let_go),
        TEST(bytes_are_put_at_the_place_of_a_member),
        TEST(a_wait_for_a_phase_ends_with_it),
        TEST(packets_of_odd_and_even_numbers_have_their_own_lines),
        TEST(every_member_gets_what_each_has),
        TEST(sync_tells_others_round_by_round),
        TEST(the_leader_leaves_first),
        TEST(a_barrier_completes_all_contexts),
        TEST(a_call_is_recorded_and_counted),
        TEST(members_that_call_differently_are_told),
        TEST(roots_and_places_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

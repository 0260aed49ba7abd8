/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what path net does with a staged fragment whose copy, RMA operation, NIC or peer fails, and
 * how it retransmits fragments through pinned memory. */
#include "unit/net_parcel.h"

/* ------------------------------------------------------------------------------------- failures */

static void a_copy_that_fails_ends_the_peer(void **context)
{
    static const struct {
        weft_status copy, mark;
        const char *text;
    } rows[] = {{WEFT_ERR_SYSTEM, WEFT_OK, "path net to PE 1: no copy"},
                {WEFT_OK, WEFT_ERR_NO_MEMORY, "path net to PE 1: no mark"}};
    (void)context;
    for (int get = 0; get < 2; get++)
        for (int i = 0; i < 2; i++) {
            copy_status = mark_status = WEFT_OK;
            struct net_staged_fragment *fragment;
            if (get) {
                fragment = begin(HERE | DEVICE, SEG_GPU, 50);
                access_done();
            }
            copy_status = rows[i].copy;
            mark_status = rows[i].mark;
            if (get)
                net_stage_advance(&end.net);
            else
                fragment = begin(WRITE | HERE | DEVICE, SEG_HEAP, 50);
            assert_int_equal(peer->failed, rows[i].copy ? rows[i].copy : rows[i].mark);
            assert_true(peer->launcher_queried);
            assert_non_null(strstr(peer->sentence, rows[i].text));
            assert_int_equal(fragment->phase, COMPLETE);
            assert_int_equal(marks_put, 0);
            net_stage_advance(&end.net);
            peer->failed = WEFT_OK;
            peer->launcher_queried = false;
        }
    assert_int_equal(forgotten, 4);
    assert_idle(4);
}

static void a_failed_copy_is_not_queried_again(void **context)
{
    (void)context;
    begin(WRITE | HERE | DEVICE, SEG_HEAP, 50);
    passed_status = WEFT_ERR_SYSTEM;
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(marks_dropped, 1);
    assert_int_equal(peer->failed, WEFT_ERR_SYSTEM);
    assert_non_null(strstr(peer->sentence, "the copy has failed"));
    assert_int_equal(end.access_count, 0);
    assert_idle(1);
}

static void what_is_under_way_is_waited_for_when_the_peer_fails(void **context)
{
    (void)context;
    begin(WRITE | HERE | DEVICE, SEG_HEAP, 50);
    begin(WRITE, SEG_HEAP, 51);
    struct net_staged_fragment *parts = begin(WRITE | SURE, SEG_HEAP, 52);
    peer->failed = WEFT_ERR_PEER_DEAD;
    assert_false(net_stage_advance(&end.net));
    assert_true(end.net.staging.needs_polling);
    assert_int_equal(forgotten, 0);
    passed = true;
    assert_true(net_stage_advance(&end.net));
    assert_false(end.net.staging.needs_polling);
    assert_int_equal(end.state.in_flight, 2);
    assert_int_equal(stage->last_retired, 1);
    assert_int_equal(forgotten, 1);
    access_done();
    assert_true(net_stage_advance(&end.net));
    net_stage_fragment_done(parts);
    assert_false(net_stage_advance(&end.net));
    net_stage_fragment_done(parts);
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(forgotten, 3);
    assert_int_equal(end.access_count, 1);
    assert_idle(3);
}

static ssize_t refused;
static ssize_t refuse(struct net_end *at, int rail, bool write)
{
    (void)at, (void)write;
    assert_int_equal(rail, 0);
    return refused;
}

static void a_provider_that_is_full_is_tried_again(void **context)
{
    (void)context;
    end.refuse_access = refuse;
    refused = -FI_EAGAIN;
    struct net_staged_fragment *fragment = begin(WRITE, SEG_HEAP, 50);
    assert_int_equal(fragment->phase, POSTING);
    assert_true(end.net.staging.needs_polling);
    assert_false(fragment->in_flight);
    assert_counts(1, 1, 0, 0);
    assert_false(net_stage_advance(&end.net));
    assert_true(end.net.staging.needs_polling);
    refused = 0;
    assert_true(net_stage_advance(&end.net));
    assert_true(fragment->in_flight);
    access_done();
    net_stage_advance(&end.net);
    assert_idle(1);
}

static void a_refused_access_fails_the_peer_but_not_in_a_proof(void **context)
{
    (void)context;
    end.refuse_access = refuse;
    refused = -FI_EINVAL;
    begin(WRITE | PROOF, SEG_GPU, 50);
    assert_int_equal(peer->failed, WEFT_OK);
    assert_non_null(strstr(end.net.proof_failed, "fi_writemsg: an error"));
    net_stage_advance(&end.net);
    assert_idle(1);
    begin(0, SEG_GPU, 50);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_non_null(strstr(peer->sentence, "fi_readmsg: an error"));
    net_stage_advance(&end.net);
    assert_idle(2);
}

/* ------------------------------------------------------------------ retransmission through
 * slots */

static void fragments_without_a_nic_are_retransmitted_unless_in_slots(void **context)
{
    (void)context;
    static const int what[] = {0, HERE, THERE, HERE | THERE};
    for (int i = 0; i < 4; i++) {
        struct net_staged_fragment fragment = {.uses_local_slot = what[i] & HERE,
                                               .uses_peer_slot = what[i] & THERE};
        assert_int_equal(net_stage_retransmit(&fragment), i < 3);
        assert_int_equal(fragment.lost, i < 3);
    }
}

/* Both fragments of the transfer over rails are lost. */
static void lose_last_rail(struct net_staged_fragment *fragment)
{
    assert_true(net_stage_retransmit(fragment));
    net_stage_fragment_done(fragment);
    assert_int_equal(fragment->phase, POSTED);
    net_stage_fragment_done(fragment);
}

static void a_put_is_retransmitted_slot_after_slot(void **context)
{
    (void)context;
    peer->gpu.needs_flush = true;
    struct net_staged_fragment *fragment = begin(WRITE | SURE, SEG_GPU, 2 * SLOT_BYTES + 7);
    channel->confirm_after_writes = false;
    net_stage_retransmit(fragment);
    net_stage_fragment_done(fragment);
    assert_false(net_stage_advance(&end.net)); /* the other rail fragment is in flight */
    net_stage_fragment_done(fragment);
    assert_false(peer->gpu.written);
    assert_counts(0, 1, 1, 0);
    /* The keys of the peer's staging buffer are not known yet. */
    assert_true(net_stage_advance(&end.net));
    assert_true(peer->gpu.written);
    assert_int_equal(fragment->phase, RETRANSMITTING);
    assert_false(fragment->lost);
    assert_true(fragment->retransmitted);
    assert_false(fragment->slot_filled);
    assert_counts(1, 1, 1, 0);
    assert_int_equal(lots_asked, 1);
    assert_true(end.net.staging.needs_polling);
    assert_false(net_stage_advance(&end.net));
    assert_int_equal(lots_asked, 2);
    assert_int_equal(flushes, 0);
    /* The keys are known: the put takes three slots. */
    lots_ready = true;
    static const size_t bytes[] = {SLOT_BYTES, SLOT_BYTES, 7};
    for (int i = 0; i < 3; i++) {
        memset(lots, 0, SLOT_BYTES);
        peer->gpu.written = false;
        assert_true(net_stage_advance(&end.net));
        assert_memory_equal(lots, local + 16 + i * SLOT_BYTES, bytes[i]);
        assert_int_equal(transfers, i + 2);
        assert_int_equal(transfer.bytes, bytes[i]);
        assert_ptr_equal(transfer.local, lots);
        assert_counts(1, i < 2, 1, 0);
        net_stage_fragment_done(fragment);
        assert_int_equal(word_count, i);
        net_stage_fragment_done(fragment);
        assert_true(net_stage_advance(&end.net));
        assert_notification(i, NET_SLOT_PUT, 1, 240 + (size_t)i * SLOT_BYTES, bytes[i]);
        assert_false(peer->gpu.written);
        /* The source is in use until the last slot is filled, and the fragment counts as unnotified
         * until the last notification. */
        assert_counts(i < 2, i < 2, 1, 0);
        peer->requests.acknowledged = peer->requests.last_sent;
    }
    assert_int_equal(lots_asked, 3);
    assert_true(net_stage_advance(&end.net));
    assert_idle(1);
}

static void a_put_in_its_slot_is_not_copied_again(void **context)
{
    (void)context;
    passed = lots_ready = true;
    struct net_staged_fragment *fragment = begin(WRITE | HERE | DEVICE | SURE, SEG_GPU, SLOT_BYTES);
    assert_int_equal(copy_count, 1);
    lose_last_rail(fragment);
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(copy_count, 1);
    assert_int_equal(transfers, 2);
    assert_int_equal(fragment->remaining_bytes, 0);
    assert_counts(1, 0, 1, 0);
    assert_int_equal(flushes, 0);
    assert_false(peer->gpu.written);
}

static void a_retransmitted_get_is_flushed_and_requested(void **context)
{
    (void)context;
    lots_ready = passed = true;
    struct net_staged_fragment *fragment = begin(DEVICE | SURE, SEG_GPU, SLOT_BYTES + 30);
    lose_last_rail(fragment);
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(flushes, 1);
    assert_int_equal(fragment->phase, REQUESTED);
    assert_false(fragment->slot_filled);
    assert_counts(0, 0, 0, 1);
    assert_notification(0, NET_SLOT_GET, 1, 240, SLOT_BYTES);
    net_stage_slot_ready(&end.net, peer, &(struct net_result){.token = 1});
    assert_true(net_stage_advance(&end.net));
    net_stage_fragment_done(fragment);
    net_stage_fragment_done(fragment);
    assert_counts(0, 0, 0, 1);
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(copy_count, 1);
    assert_int_equal(copies[0].bytes, SLOT_BYTES);
    assert_int_equal(fragment->phase, REQUESTED);
    assert_notification(1, NET_SLOT_GET, 1, 240 + SLOT_BYTES, 30);
    net_stage_slot_ready(&end.net, peer, &(struct net_result){.token = 1});
    net_stage_advance(&end.net);
    net_stage_fragment_done(fragment);
    net_stage_fragment_done(fragment);
    assert_true(net_stage_advance(&end.net));
    assert_ptr_equal(copies[1].to, local + 16 + SLOT_BYTES);
    assert_int_equal(copies[1].bytes, 30);
    assert_int_equal(flushes, 1);
    assert_idle(1);
}

static void retransmissions_that_need_no_flush(void **context)
{
    (void)context;
    static const int what[] = {HERE | DEVICE, 0};
    for (int i = 0; i < 2; i++) {
        lose_last_rail(begin(what[i] | SURE, SEG_GPU, 20));
        net_stage_advance(&end.net);
        assert_int_equal(flushes, 0);
    }
}

static void a_fragment_that_cannot_be_retransmitted_fails_the_peer(void **context)
{
    (void)context;
    struct net_staged_fragment *fragment = begin(WRITE | SURE, SEG_GPU, 50);
    lose_last_rail(fragment);
    lots_status = WEFT_ERR_NO_MEMORY;
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(peer->failed, WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(peer->sentence, "no lots"));
    assert_idle(1);
    peer->failed = WEFT_OK;
    fragment = begin(DEVICE | SURE, SEG_GPU, 50);
    lose_last_rail(fragment);
    flush_status = WEFT_ERR_SYSTEM;
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(peer->failed, WEFT_ERR_SYSTEM);
    assert_int_equal(lots_asked, 1);
    assert_idle(2);
}

/* ------------------------------------------------------------------------- closed rails,
 * shutdown */

static void only_the_first_rail_loses_fragments(void **context)
{
    (void)context;
    assert_false(net_stage_has_unrecoverable(&end.net, &end.peers[2]));
    assert_false(net_stage_has_unrecoverable(&end.net, peer));
    begin(WRITE, SEG_GPU, 50);
    assert_true(net_stage_has_unrecoverable(&end.net, peer));
    access_done();
    assert_false(net_stage_has_unrecoverable(&end.net, peer));
    net_stage_advance(&end.net);
    assert_false(net_stage_has_unrecoverable(&end.net, peer));
    begin(WRITE | SURE, SEG_GPU, 51);
    struct net_staged_fragment *fragment = begin(WRITE | PROOF, SEG_GPU, 52);
    assert_true(net_stage_has_unrecoverable(&end.net, peer));
    assert_true(net_stage_is_proof(&fragment->post));
    assert_false(net_stage_is_proof(&stage->fragments[1].post));
    begin(WRITE, SEG_GPU, 53);
    struct net_stage none = {.fragments = &stage->fragments[SLOTS]};
    end.peers[END_PES].stage = &none;
    net_stage_rail_closed(&end.net, 1);
    assert_true(fragment->in_flight);
    assert_true(stage->fragments[0].in_flight);
    net_stage_rail_closed(&end.net, 0);
    assert_false(fragment->in_flight);
    assert_false(stage->fragments[0].in_flight);
    end.peers[0].stage = stage;
    peer->stage = NULL;
    stage->fragments[1].in_flight = true;
    net_stage_rail_closed(&end.net, 0);
    assert_false(stage->fragments[1].in_flight);
    assert_true(stage->fragments[SLOTS].in_flight);
}

static void stages_of_several_peers_move_on(void **context)
{
    (void)context;
    struct net_stage *other = end.peers[2].stage = calloc(1, sizeof *other);
    other->fragments = calloc(SLOTS, sizeof *other->fragments);
    other->peer = &end.peers[2];
    begin(WRITE, SEG_HEAP, 50);
    struct net_staged_fragment fragment = {.post = {.kind = NET_POST_STAGED, .peer = &end.peers[2]},
                                           .remote = {.segment = SEG_HEAP},
                                           .bytes = 20};
    net_stage_begin(&end.state, &fragment, local);
    begin(WRITE, SEG_HEAP, 51);
    assert_ptr_equal(end.net.staging.active, other);
    assert_ptr_equal(other->next, stage);
    assert_int_equal(end.accesses[1].to, end_address(2, 0));
    assert_int_equal(end.channels[2].reads, 1);
    assert_false(net_stage_advance(&end.net));
    net_stage_completed(&end.net, end.accesses[1].post, true);
    assert_true(net_stage_advance(&end.net));
    assert_ptr_equal(end.net.staging.active, stage);
    assert_false(other->active);
    assert_true(stage->active);
    net_stage_completed(&end.net, end.accesses[0].post, true);
    net_stage_completed(&end.net, end.accesses[2].post, true);
    assert_true(net_stage_advance(&end.net));
    assert_idle(3);
    /* The stage in the middle of the list becomes idle. */
    begin(WRITE, SEG_HEAP, 52);
    net_stage_begin(&end.state, &fragment, local);
    net_stage_advance(&end.net);
    access_done();
    net_stage_completed(&end.net, end.accesses[3].post, true);
    assert_true(net_stage_advance(&end.net));
    assert_idle(5);
}

static void the_gpu_is_done_before_its_memory_is_freed(void **context)
{
    (void)context;
    net_stage_free(&end.net);
    assert_int_equal(quiets, 0);
    assert_null(peer->stage);
    end.net.incomplete = (struct net_message *)(void *)local;
    net_stage_free(&end.net);
    assert_int_equal(quiets, 1);
    end.net.incomplete = NULL;
    shut_end(NULL);
    open_end(NULL);
    for (int i = 0; i < SLOTS; i++)
        begin(WRITE | HERE | DEVICE, SEG_HEAP, 50);
    stage->fragments[SLOTS].copy_event = stage->fragments[0].copy_event;
    end.peers[0].stage = stage;
    peer->stage = NULL;
    net_stage_free(&end.net);
    assert_int_equal(quiets, 1);
    assert_null(end.peers[0].stage);
    assert_int_equal(marks_dropped, SLOTS);
    assert_null(peer->stage);
    assert_null(end.net.staging.active);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_copy_that_fails_ends_the_peer),
        test(a_failed_copy_is_not_queried_again),
        test(what_is_under_way_is_waited_for_when_the_peer_fails),
        test(a_provider_that_is_full_is_tried_again),
        test(a_refused_access_fails_the_peer_but_not_in_a_proof),
        test(fragments_without_a_nic_are_retransmitted_unless_in_slots),
        test(a_put_is_retransmitted_slot_after_slot),
        test(a_put_in_its_slot_is_not_copied_again),
        test(a_retransmitted_get_is_flushed_and_requested),
        test(retransmissions_that_need_no_flush),
        test(a_fragment_that_cannot_be_retransmitted_fails_the_peer),
        test(only_the_first_rail_loses_fragments),
        test(stages_of_several_peers_move_on),
        test(the_gpu_is_done_before_its_memory_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

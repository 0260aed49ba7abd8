/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the phases of staged fragments of path net: what each phase copies, posts and sends to the
 * owner of the memory, and what the channel counts. */
#include "unit/net_parcel.h"

/* --------------------------------------------------------------------------------------- puts */

static void a_put_through_slots_is_copied_written_and_notified(void **context)
{
    (void)context;
    struct net_staged_fragment *fragment = begin(WRITE | HERE | THERE | DEVICE, SEG_GPU, 80);
    assert_int_equal(fragment->phase, COPYING_IN);
    assert_counts(1, 1, 0, 0);
    peer->gpu.needs_flush = true; /* the owner's GPU copies, so no flush is needed */
    assert_int_equal(end.state.in_flight, 1);
    assert_int_equal(end.state.touched_count, 1);
    assert_true(stage->active);
    assert_ptr_equal(end.net.staging.active, stage);
    assert_int_equal(copy_count, 1);
    assert_int_equal(copies[0].lane, 2);
    assert_ptr_equal(copies[0].to, lots);
    assert_ptr_equal(copies[0].from, local + 16);
    assert_int_equal(copies[0].bytes, 80);
    /* The copy is not complete. */
    assert_false(net_stage_advance(&end.net));
    assert_true(end.net.staging.needs_polling);
    assert_int_equal(end.access_count, 0);
    assert_counts(1, 1, 0, 0);
    /* The notification follows the write in order, so it is sent at once. */
    passed = true;
    assert_true(net_stage_advance(&end.net));
    assert_false(end.net.staging.needs_polling);
    assert_int_equal(end.access_count, 1);
    assert_true(end.accesses[0].write);
    assert_int_equal(end.accesses[0].rail, 0);
    assert_ptr_equal(end.accesses[0].local, lots);
    assert_int_equal(end.accesses[0].address, ADDRESS);
    assert_int_equal(end.accesses[0].key, KEY);
    assert_int_equal(end.accesses[0].bytes, 80);
    assert_int_equal(end.accesses[0].to, end_address(1, 0));
    assert_int_equal(fragment->phase, NOTIFIED);
    assert_counts(0, 0, 0, 0);
    assert_false(channel->unconfirmed);
    assert_int_equal(peer->link.unconfirmed_write, 0);
    assert_int_equal(word_count, 1);
    assert_notification(0, NET_SLOT_PUT, 1, 240, 80);
    assert_int_equal(fragment->notify_message, peer->requests.last_sent);
    /* The slot is free when the NIC and the owner have finished. */
    peer->requests.acknowledged = peer->requests.last_sent;
    assert_false(net_stage_advance(&end.net));
    access_done();
    peer->requests.acknowledged = peer->requests.last_sent - 1;
    assert_false(net_stage_advance(&end.net));
    assert_int_equal(end.state.in_flight, 1);
    peer->requests.acknowledged = peer->requests.last_sent;
    assert_true(net_stage_advance(&end.net));
    assert_false(peer->gpu.written);
    assert_idle(1);
}

static void the_notification_of_a_confirmed_write_waits_for_it(void **context)
{
    (void)context;
    end.net.rails[0].traits.delivery_complete = true;
    struct net_staged_fragment *fragment = begin(WRITE | HERE | THERE, SEG_GPU, 33);
    assert_memory_equal(lots, local + 16, 33);
    assert_int_equal(lots[33], 0);
    assert_int_equal(copy_count, 0);
    assert_int_equal(fragment->phase, POSTED);
    assert_int_equal(word_count, 0);
    assert_counts(1, 0, 0, 0);
    assert_false(net_stage_advance(&end.net));
    access_done();
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(word_count, 1);
    assert_int_equal(fragment->phase, NOTIFIED);
    assert_counts(0, 0, 0, 0);
}

static void owner_does_all(void)
{
    assert_true(net_stage_advance(&end.net));
    peer->requests.acknowledged = peer->requests.last_sent;
    assert_true(net_stage_advance(&end.net));
}

static void fragments_use_slots_in_turn(void **context)
{
    (void)context;
    end.net.rails[0].traits.delivery_complete = true;
    for (int i = 0; i < SLOTS; i++) {
        struct net_staged_fragment *fragment = begin(WRITE | HERE | THERE, SEG_GPU, 40 + (size_t)i);
        assert_ptr_equal(fragment, &stage->fragments[i]);
        assert_int_equal(fragment->sequence, i + 1);
        for (int r = 0; r < NET_RAILS; r++)
            assert_int_equal(fragment->ends.keys[r].base, ADDRESS + 1000 * r + SLOT_BYTES * i);
        assert_ptr_equal(end.accesses[i].local, lots + SLOT_BYTES * i);
        assert_int_equal(end.accesses[i].address, ADDRESS + SLOT_BYTES * i);
    }
    assert_int_equal(end.state.in_flight, 3);
    assert_counts(3, 0, 0, 0);
    /* The second fragment completes first: its slot is free when the first fragment is complete. */
    net_stage_completed(&end.net, end.accesses[1].post, true);
    owner_does_all();
    assert_int_equal(stage->fragments[1].phase, COMPLETE);
    assert_int_equal(stage->last_retired, 0);
    assert_true(stage->active);
    net_stage_completed(&end.net, end.accesses[0].post, true);
    owner_does_all();
    assert_int_equal(stage->last_retired, 2);
    assert_notification(0, NET_SLOT_PUT, 2, 240, 41);
    assert_notification(1, NET_SLOT_PUT, 1, 240, 40);
    assert_ptr_equal(begin(WRITE | HERE | THERE, SEG_GPU, 50), &stage->fragments[0]);
    assert_ptr_equal(end.accesses[3].local, lots);
    assert_int_equal(end.accesses[3].address, ADDRESS);
    net_stage_completed(&end.net, end.accesses[2].post, true);
    net_stage_completed(&end.net, end.accesses[3].post, true);
    owner_does_all();
    assert_notification(3, NET_SLOT_PUT, 4, 240, 50);
    assert_idle(4);
}

/* A put without slots counts as a write; the rows say what the channel must complete after it. */
static void a_put_in_place_counts_as_a_write(void **context)
{
    (void)context;
    static const struct {
        bool confirmed, sure, flush;
        enum segment_id segment;
        bool settle, written, unconfirmed, loose, written_after;
    } rows[] = {
        {false, false, false, SEG_GPU, false, false, true, true, false},
        {true, false, false, SEG_GPU, false, false, false, false, false},
        {false, true, false, SEG_GPU, false, false, false, false, false},
        {false, false, true, SEG_GPU, false, true, true, true, true},
        {true, false, true, SEG_GPU, true, false, true, false, true},
        {false, true, true, SEG_GPU, true, false, true, false, true},
        {true, false, true, SEG_HEAP, false, false, false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int before = end.access_count, drops_before = drops;
        *channel = (struct net_channel){0};
        end.state.touched_count = 0;
        peer->gpu.needs_flush = rows[i].flush;
        peer->gpu.written = false;
        peer->link.unconfirmed_write = 0;
        end.net.rails[0].traits.delivery_complete = rows[i].confirmed;
        struct net_staged_fragment *fragment =
            begin(WRITE | (rows[i].sure ? SURE : 0), rows[i].segment, 64 + i);
        assert_int_equal(fragment->phase, POSTED);
        assert_int_equal(end.state.touched_count, 1);
        assert_counts(0, 1, 1, 0);
        assert_int_equal(channel->confirm_after_writes, rows[i].settle);
        assert_int_equal(peer->gpu.written, rows[i].written);
        assert_int_equal(channel->unconfirmed, rows[i].unconfirmed);
        assert_int_equal(peer->link.unconfirmed_write,
                         rows[i].loose ? peer->requests.last_sent + 1 : 0);
        assert_false(net_stage_advance(&end.net));
        peer->gpu.written = false;
        if (rows[i].sure) {
            assert_int_equal(end.access_count, before);
            net_stage_fragment_done(fragment);
            assert_counts(0, 1, 1, 0);
            assert_false(net_stage_advance(&end.net));
            net_stage_fragment_done(fragment);
        } else {
            assert_ptr_equal(end.accesses[before].local, local + 16);
            assert_int_equal(end.accesses[before].address, ADDRESS);
            access_done();
        }
        assert_int_equal(peer->gpu.written, rows[i].written_after);
        assert_counts(0, 0, 0, 0);
        assert_true(net_stage_advance(&end.net));
        assert_idle(drops_before + 1);
    }
    assert_int_equal(word_count, 0);
}

static void a_transfer_over_rails_has_both_ends(void **context)
{
    (void)context;
    struct net_staged_fragment *fragment = begin(WRITE | SURE | SPREAD | PROOF, SEG_GPU, 77);
    assert_int_equal(transfers, 1);
    assert_ptr_equal(transfer_of, &end.state);
    assert_ptr_equal(transfer.peer, peer);
    assert_ptr_equal(transfer.staged, fragment);
    assert_ptr_equal(transfer.ends, &fragment->ends);
    assert_ptr_equal(transfer.local, local + 16);
    assert_int_equal(transfer.bytes, 77);
    assert_true(transfer.write && transfer.spread && transfer.proof);
    fragment = begin(HERE | SURE, SEG_GPU, 78);
    assert_int_equal(transfers, 2);
    assert_ptr_equal(transfer.local, lots + SLOT_BYTES);
    assert_false(transfer.write || transfer.spread || transfer.proof);
    transfer_status = WEFT_ERR_NO_MEMORY;
    fragment = begin(WRITE | SURE, SEG_GPU, 79);
    assert_int_equal(peer->failed, WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(peer->sentence, "path net to PE 1: no transfer"));
    assert_true(peer->launcher_queried);
    assert_int_equal(fragment->phase, COMPLETE);
}

/* --------------------------------------------------------------------------------------- gets */

static void a_get_through_slots_is_requested_read_and_copied(void **context)
{
    (void)context;
    begin(WRITE, SEG_GPU, 1); /* uses the first slot */
    struct net_staged_fragment *fragment = begin(HERE | THERE | DEVICE, SEG_GPU, 90);
    assert_counts(0, 1, 1, 1);
    assert_int_equal(fragment->phase, REQUESTED);
    assert_int_equal(word_count, 1);
    assert_notification(0, NET_SLOT_GET, 2, 240, 90);
    assert_int_equal(end.access_count, 1);
    /* Answers with an unknown token, or for a fragment that does not wait for an answer, are
     * ignored. */
    static const uint64_t strange[] = {0, 1, 3, 5};
    for (int i = 0; i < 4; i++)
        net_stage_slot_ready(&end.net, peer,
                             &(struct net_result){.token = strange[i], .status = 3});
    net_stage_slot_ready(&end.net, &end.peers[2], &(struct net_result){.token = 2});
    assert_int_equal(fragment->phase, REQUESTED);
    assert_int_equal(stage->fragments[0].phase, POSTED);
    assert_int_equal(peer->failed, WEFT_OK);
    assert_false(net_stage_advance(&end.net));
    net_stage_slot_ready(&end.net, peer, &(struct net_result){.token = 2});
    assert_int_equal(fragment->phase, POSTING);
    assert_string_equal(peer->sentence, "");
    assert_false(peer->launcher_queried);
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(end.access_count, 2);
    assert_false(end.accesses[1].write);
    assert_ptr_equal(end.accesses[1].local, lots + SLOT_BYTES);
    assert_int_equal(end.accesses[1].address, ADDRESS + SLOT_BYTES);
    assert_int_equal(end.accesses[1].bytes, 90);
    assert_false(net_stage_advance(&end.net));
    assert_int_equal(copy_count, 0);
    access_done();
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(fragment->phase, COPYING_OUT);
    assert_int_equal(copy_count, 1);
    assert_int_equal(copies[0].lane, 3);
    assert_ptr_equal(copies[0].to, local + 16);
    assert_ptr_equal(copies[0].from, lots + SLOT_BYTES);
    assert_int_equal(copies[0].bytes, 90);
    assert_true(end.net.staging.needs_polling);
    assert_counts(0, 1, 1, 1);
    passed = true;
    assert_true(net_stage_advance(&end.net));
    assert_counts(0, 1, 1, 0);
    assert_int_equal(flushes, 0);
    net_stage_completed(&end.net, end.accesses[0].post, true);
    assert_true(net_stage_advance(&end.net));
    assert_idle(2);
}

static void a_get_into_host_memory_is_copied_by_the_cpu(void **context)
{
    (void)context;
    begin(HERE, SEG_GPU, 50);
    memset(lots, 77, SLOT_BYTES);
    access_done();
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(local[15], 15 * 3 + 5);
    for (int i = 0; i < 50; i++)
        assert_int_equal(local[16 + i], 77);
    assert_int_equal(local[66], 66 * 3 + 5);
    assert_int_equal(flushes, 0);
    assert_int_equal(copy_count, 0);
    assert_idle(1);
}

static void a_get_into_gpu_memory_in_place_is_flushed(void **context)
{
    (void)context;
    begin(0, SEG_GPU, 50);
    access_done();
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(flushes, 0); /* the destination is host memory */
    peer->gpu.needs_flush = true; /* concerns only writes to the peer */
    begin(DEVICE, SEG_GPU, 50);
    assert_counts(0, 0, 0, 1);
    assert_ptr_equal(end.accesses[1].local, local + 16);
    access_done();
    assert_int_equal(flushes, 0);
    assert_counts(0, 0, 0, 1);
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(flushes, 1);
    assert_false(peer->gpu.written);
    assert_idle(2);
    flush_status = WEFT_ERR_SYSTEM;
    begin(DEVICE, SEG_GPU, 50);
    access_done();
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(peer->failed, WEFT_ERR_SYSTEM);
    assert_non_null(strstr(peer->sentence, "no flush"));
    assert_idle(3);
}

/* A put may be posted after a quiet of its context; it is then in the list for the next quiet. */
static void a_write_is_touched_again_when_it_is_posted(void **context)
{
    (void)context;
    begin(WRITE | HERE | DEVICE, SEG_GPU, 50);
    channel->touched = false;
    end.state.touched_count = 0;
    passed = true;
    net_stage_advance(&end.net);
    assert_true(channel->touched);
    assert_int_equal(end.touched[0], 1);
    assert_int_equal(end.state.touched_count, 1);
}

static void notifications_wait_for_the_window(void **context)
{
    (void)context;
    uint64_t done = peer->requests.acknowledged;
    peer->requests.acknowledged = peer->requests.last_sent - NET_WINDOW;
    struct net_staged_fragment *put = begin(WRITE | HERE | THERE, SEG_GPU, 50),
                               *get = begin(HERE | THERE, SEG_GPU, 51);
    assert_int_equal(put->phase, NOTIFYING);
    assert_int_equal(get->phase, REQUESTING);
    assert_counts(1, 0, 0, 1);
    assert_false(net_stage_advance(&end.net));
    assert_int_equal(word_count, 0);
    peer->requests.acknowledged = done;
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(put->phase, NOTIFIED);
    assert_int_equal(get->phase, REQUESTED);
    assert_notification(0, NET_SLOT_PUT, 1, 240, 50);
    assert_notification(1, NET_SLOT_GET, 2, 240, 51);
}

static void answers_of_complete_fragments_are_ignored(void **context)
{
    (void)context;
    begin(HERE, SEG_GPU, 50);
    access_done();
    net_stage_advance(&end.net);
    begin(WRITE, SEG_GPU, 51);
    begin(WRITE, SEG_GPU, 52);
    struct net_staged_fragment *fragment = begin(HERE | THERE, SEG_GPU, 53);
    assert_ptr_equal(fragment, &stage->fragments[0]);
    net_stage_slot_ready(&end.net, peer, &(struct net_result){.token = 1});
    assert_int_equal(fragment->phase, REQUESTED);
    net_stage_slot_ready(&end.net, peer, &(struct net_result){.token = 4});
    assert_int_equal(fragment->phase, POSTING);
}

static void a_peer_that_cannot_lift_fails(void **context)
{
    (void)context;
    begin(HERE | THERE, SEG_GPU, 90);
    net_stage_slot_ready(&end.net, peer,
                         &(struct net_result){.token = 1, .status = WEFT_ERR_SYSTEM});
    assert_int_equal(peer->failed, WEFT_ERR_SYSTEM);
    assert_non_null(strstr(peer->sentence, "it failed a request of PE 0"));
    assert_true(net_stage_advance(&end.net));
    assert_int_equal(end.access_count, 0);
    assert_idle(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_put_through_slots_is_copied_written_and_notified),
        test(the_notification_of_a_confirmed_write_waits_for_it),
        test(fragments_use_slots_in_turn),
        test(a_put_in_place_counts_as_a_write),
        test(a_transfer_over_rails_has_both_ends),
        test(a_get_through_slots_is_requested_read_and_copied),
        test(a_get_into_host_memory_is_copied_by_the_cpu),
        test(a_get_into_gpu_memory_in_place_is_flushed),
        test(a_write_is_touched_again_when_it_is_posted),
        test(notifications_wait_for_the_window),
        test(answers_of_complete_fragments_are_ignored),
        test(a_peer_that_cannot_lift_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

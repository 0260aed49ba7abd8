/* SPDX-License-Identifier: Apache-2.0 */
/* Shows whether staged fragments of path net use memory in place or slots, at either end, and how
 * large they are. */
#include "unit/net_transfer.h"

/* ---------------------------------------------------------------------------------------- sizes */

static void slots_are_whole_pages_and_not_too_many(void **context)
{
    static const struct {
        const char *bytes, *lots;
        size_t most, lot_bytes;
        uint32_t count;
    } rows[] = {
        {"100000", "3", SIZE_MAX, 98304, 3}, {"98304", "1", SIZE_MAX, 98304, 1},
        {"64M", "64", SIZE_MAX, CHUNK, 64},  {"16M", "65", 70000, 69632, 64},
        {"4095", "0", SIZE_MAX, 4096, 1},    {"4096", "-5", SIZE_MAX, 4096, 1},
        {"8191", "2", SIZE_MAX, 4096, 2},
    };
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shut_end(NULL);
        open_end(NULL);
        setenv("WEFT_TEST_NET_SLOT_SIZE", rows[i].bytes, 1);
        setenv("WEFT_TEST_NET_SLOTS", rows[i].lots, 1);
        config_reset();
        end.net.rails[0].traits.max_bytes = rows[i].most;
        assert_int_equal(move(WRITE | DEVICE, SEG_HEAP, 600, 3000), WEFT_OK);
        assert_int_equal(end.net.staging.slot_bytes, rows[i].lot_bytes);
        assert_int_equal(end.net.staging.slot_count, rows[i].count);
    }
}

static void transfers_are_cut_so_that_copies_overlap(void **context)
{
    static const struct {
        size_t bytes, pieces[4];
    } rows[] = {
        {3000, {3000}},
        {65536, {65536}},
        {65537, {65536, 1}},
        {4 * 65536 + 4, {69632, 69632, 69632, 53252}},
        {4 * 65536, {65536, 65536, 65536, 65536}},
        {3 * SLOT_BYTES, {98304, 98304, 98304, 98304}},
        {4 * SLOT_BYTES, {SLOT_BYTES, SLOT_BYTES, SLOT_BYTES, SLOT_BYTES}},
        {5 * SLOT_BYTES, {SLOT_BYTES, SLOT_BYTES, SLOT_BYTES, SLOT_BYTES}},
    };
    (void)context;
    d.local_rails = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t sum = 0;
        assert_int_equal(move(DEVICE, SEG_HEAP, 2 * CHUNK + 600, rows[i].bytes), WEFT_OK);
        for (int n = 0; n < d.begun_count; n++) {
            const struct net_staged_fragment *fragment = &d.begun[n];
            if (n < 4)
                assert_int_equal(fragment->bytes, rows[i].pieces[n]);
            assert_int_equal(fragment->remote.offset, 2 * CHUNK + 600 + sum);
            assert_ptr_equal(fragment->local, local + sum);
            assert_true(fragment->uses_local_slot && !fragment->uses_peer_slot &&
                        fragment->local_is_gpu && !fragment->write);
            sum += fragment->bytes;
        }
        assert_int_equal(sum, rows[i].bytes);
    }
    assert_int_equal(d.slabs, 1);
}

static void fragments_in_place_end_where_memory_ends(void **context)
{
    (void)context;
    /* In place at both ends, a fragment ends at the provider's maximum, at its chunk and at its
     * registration. */
    end.net.rails[0].traits.max_bytes = 5 * SLOT_BYTES;
    assert_int_equal(move(WRITE, SEG_HEAP, CHUNK - 700, 8 * SLOT_BYTES), WEFT_OK);
    assert_int_equal(d.begun_count, 3);
    assert_int_equal(d.begun[0].bytes, 700);
    assert_int_equal(d.begun[1].bytes, 5 * SLOT_BYTES);
    assert_int_equal(d.begun[2].bytes, 3 * SLOT_BYTES - 700);
    assert_int_equal(d.asked_chunk, 1);
    assert_int_equal(d.slabs, 0);
    d.place_bytes = 3 * SLOT_BYTES;
    assert_int_equal(move(WRITE | DEVICE, SEG_GPU, 600, 7 * SLOT_BYTES), WEFT_OK);
    assert_int_equal(d.begun_count, 3);
    assert_int_equal(d.begun[1].bytes, 3 * SLOT_BYTES);
    assert_int_equal(d.begun[2].bytes, SLOT_BYTES);
    d.local_bytes = 5000;
    assert_int_equal(move(WRITE | DEVICE, SEG_GPU, 600, 6000), WEFT_OK);
    assert_int_equal(d.begun_count, 2);
    assert_int_equal(d.begun[0].bytes, 5000);
    assert_int_equal(d.begun[1].bytes, 1000);
    /* After each fragment the next one is checked anew for use in place. */
    d.room_below = 5000;
    assert_int_equal(move(WRITE, SEG_GPU, 0, 6000), WEFT_OK);
    assert_int_equal(d.begun_count, 2);
    assert_true(d.begun[0].uses_peer_slot);
    assert_false(d.begun[1].uses_peer_slot);
    d.room_below = 0;
    /* Memory that is not used in place does not cut a fragment. */
    d.local_rails = 0;
    assert_int_equal(move(WRITE | DEVICE, SEG_GPU, 600, 6000), WEFT_OK);
    assert_int_equal(d.begun_count, 1);
    assert_int_equal(d.begun[0].bytes, 6000);
}

/* ------------------------------------------------------------------------------------ both ends */

static void ends_are_used_in_place_where_they_meet(void **context)
{
    static const struct {
        int what;
        enum segment_id segment;
        unsigned place, local_rails, own, room, gpu_rails;
        bool trusted, spreads, here, there, by_requests;
        unsigned reaches;
    } rows[] = {
        /* over the first NIC */
        {DEVICE, SEG_GPU, 7, 7, 0, 7, 7, true, false, false, false, false, 1},
        {DEVICE, SEG_GPU, 7, 7, 0, 7, 7, false, false, true, false, false, 1},
        {DEVICE, SEG_GPU, 7, 6, 0, 7, 7, true, false, true, false, false, 1},
        {DEVICE, SEG_GPU, 7, 0, 0, 7, 7, true, false, true, false, false, 1},
        {DEVICE, SEG_GPU, 6, 7, 0, 7, 7, true, false, false, true, false, 1},
        {DEVICE, SEG_GPU, 7, 7, 0, 7, 6, true, false, true, true, false, 1},
        {DEVICE, SEG_GPU, 6, 0, 0, 7, 7, true, false, true, true, false, 1},
        {0, SEG_GPU, 7, 0, 7, 7, 7, true, false, false, false, false, 1},
        {0, SEG_GPU, 7, 0, 6, 7, 7, true, false, true, false, false, 1},
        {0, SEG_GPU, 0, 0, 7, 7, 7, true, false, false, true, false, 1},
        {0, SEG_GPU, 0, 0, 7, 6, 7, true, false, true, true, true, 0},
        {DEVICE, SEG_HEAP, 0, 7, 0, 0, 7, true, false, false, false, false, 1},
        {DEVICE, SEG_HEAP, 0, 7, 0, 0, 6, true, false, true, false, false, 1},
        /* over all NICs */
        {DEVICE, SEG_GPU, 7, 7, 0, 7, 7, true, true, false, false, false, 7},
        {DEVICE, SEG_GPU, 6, 7, 0, 7, 5, true, true, false, false, false, 5},
        {DEVICE, SEG_GPU, 2, 7, 0, 7, 5, true, true, false, true, false, 5},
        {DEVICE, SEG_GPU, 7, 3, 0, 7, 7, true, true, false, false, false, 3},
        {DEVICE, SEG_GPU, 4, 3, 0, 7, 7, true, true, true, false, false, 7},
        {0, SEG_GPU, 7, 0, 5, 7, 6, true, true, false, false, false, 4},
        {0, SEG_HEAP, 0, 0, 5, 0, 0, true, true, false, false, false, 5},
        {0, SEG_HEAP, 0, 0, 0, 0, 0, true, true, true, false, false, 7},
    };
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shut_end(NULL);
        open_end(NULL);
        for (int r = 1; r < END_RAILS && !rows[i].spreads; r++)
            peer->rails.address[r] = FI_ADDR_NOTAVAIL;
        d.place_known = rows[i].place;
        d.local_rails = rows[i].local_rails;
        d.own_rails = rows[i].own;
        d.room_known = rows[i].room;
        d.spreads = rows[i].spreads;
        peer->gpu.rails = (uint8_t)rows[i].gpu_rails;
        peer->gpu.access = rows[i].trusted ? NET_GPU_DIRECT : NET_GPU_STAGED;
        d.host = rows[i].by_requests && rows[i].what & DEVICE ? local : NULL;
        size_t offset = rows[i].segment == SEG_HEAP ? 2 * CHUNK + 600 : 600;
        assert_int_equal(move(rows[i].what, rows[i].segment, offset, 3000), WEFT_OK);
        assert_int_equal(d.begun_count, !rows[i].by_requests);
        assert_int_equal(d.gets, rows[i].by_requests);
        assert_int_equal(d.advances, rows[i].spreads);
        assert_int_equal(d.spread_bytes, 3000);
        assert_int_equal(d.asked, rows[i].there);
        assert_int_equal(d.slabs, rows[i].here);
        if (rows[i].by_requests)
            continue;
        const struct net_staged_fragment *fragment = &d.begun[0];
        if (fragment->uses_local_slot != rows[i].here ||
            fragment->uses_peer_slot != rows[i].there ||
            (fragment->ends.rails & 7) != rows[i].reaches)
            fail_msg("row %zu: %d %d %#x", i, fragment->uses_local_slot, fragment->uses_peer_slot,
                     fragment->ends.rails);
        assert_int_equal(fragment->spread, rows[i].spreads);
        assert_int_equal(fragment->retransmittable, rows[i].spreads);
        assert_int_equal(fragment->local_is_gpu, rows[i].what & DEVICE ? 1 : 0);
        assert_int_equal(fragment->post.kind, NET_POST_STAGED);
        assert_ptr_equal(fragment->post.peer, peer);
        assert_false(fragment->proof);
        for (int r = 0; r < END_RAILS; r++) {
            const struct net_key *to = &fragment->ends.keys[r];
            unsigned there = rows[i].local_rails | rows[i].own;
            if (fragment->uses_peer_slot)
                assert_memory_equal(to, &(struct net_key[]){buffer_key(r)}, sizeof *to);
            else if (rows[i].segment == SEG_GPU)
                assert_int_equal(to->base, 100600);
            if (rows[i].spreads || r == 0)
                assert_ptr_equal(fragment->ends.descriptors[r], fragment->uses_local_slot
                                                                    ? &slab_of[r]
                                                                : there >> r & 1 ? &local[r]
                                                                                 : NULL);
        }
    }
}

static void only_rail(int rail)
{
    for (int i = 0; i < END_RAILS; i++)
        end.peers[1].rails.address[i] = i == rail ? end_address(1, i) : FI_ADDR_NOTAVAIL;
}

static void host_memory_has_keys_of_each_nic(void **context)
{
    (void)context;
    /* Only the first NIC needs a key if transfers cannot be retransmitted over other NICs. */
    only_rail(0);
    assert_int_equal(move(WRITE, SEG_HEAP, 2 * CHUNK + 600, 3000), WEFT_OK);
    const struct net_staged_fragment *fragment = &d.begun[0];
    assert_true(fragment->write);
    assert_false(fragment->retransmittable);
    assert_int_equal(fragment->ends.keys[0].key, 70);
    assert_int_equal(fragment->ends.keys[0].base, 200600);
    assert_int_equal(d.rail_keys_asked, 0);
    assert_int_equal(d.asked_chunk, 2);
    assert_int_equal(d.advances, 0);
    /* All NICs need a key, since another one leads to the peer. */
    peer->rails.address[2] = end_address(1, 2);
    assert_int_equal(move(WRITE, SEG_HEAP, 2 * CHUNK + 600, 3000), WEFT_OK);
    assert_true(fragment->retransmittable);
    assert_false(fragment->spread);
    assert_int_equal(d.rail_keys_chunk, 2);
    assert_int_equal(fragment->ends.keys[0].key, 70);
    for (int i = 1; i < NET_RAILS; i++) {
        assert_int_equal(fragment->ends.keys[i].key, 80 + i);
        assert_int_equal(fragment->ends.keys[i].base, 300600);
    }
    assert_int_equal(d.advances, 1);
    /* The first NIC has failed: messages use another one. */
    only_rail(2);
    peer->link.rail = 2;
    d.chunk_asked = 0;
    assert_int_equal(move(WRITE, SEG_HEAP, 2 * CHUNK + 600, 3000), WEFT_OK);
    assert_true(fragment->retransmittable);
    assert_int_equal(d.chunk_asked, 0);
    assert_int_equal(fragment->ends.keys[0].known, 0);
    assert_int_equal(fragment->ends.keys[2].known, 1);
    /* An error of the query is returned to the caller. */
    d.rail_keys_status = WEFT_ERR_PEER_DEAD;
    assert_int_equal(move(WRITE, SEG_HEAP, 2 * CHUNK + 600, 3000), WEFT_ERR_PEER_DEAD);
    assert_int_equal(d.begun_count, 0);
    peer->link.rail = 0;
    only_rail(0);
    d.chunk_status = WEFT_ERR_SYSTEM;
    assert_int_equal(move(WRITE, SEG_HEAP, 2 * CHUNK + 600, 3000), WEFT_ERR_SYSTEM);
    assert_int_equal(d.begun_count, 0);
}

static void host_memory_needs_no_registration_where_the_provider_wants_none(void **context)
{
    (void)context;
    d.own_rails = 0;
    for (int i = 0; i < END_RAILS; i++)
        end.net.rails[i].traits.registers_local = false;
    d.spreads = true;
    assert_int_equal(move(WRITE, SEG_GPU, 600, 3000), WEFT_OK);
    assert_false(d.begun[0].uses_local_slot);
    assert_int_equal(d.begun[0].ends.rails, 7);
    for (int i = 0; i < NET_RAILS; i++)
        assert_null(d.begun[0].ends.descriptors[i]);
    /* On a NIC that needs no registration, slots need no descriptor. */
    memset(slab_descriptors, 0, sizeof slab_descriptors);
    d.local_rails = 0;
    end.net.rails[1].traits.registers_local = true;
    assert_int_equal(move(WRITE | DEVICE, SEG_GPU, 600, 3000), WEFT_OK);
    assert_true(d.begun[0].uses_local_slot);
    assert_int_equal(d.begun[0].ends.rails & 7, 5);
    /* A failed NIC is not asked for a descriptor. */
    end.net.rails[0].traits.registers_local = true;
    end.net.rails[2].endpoint = NULL;
    d.own_rails = 7;
    assert_int_equal(move(WRITE, SEG_GPU, 600, 3000), WEFT_OK);
    assert_false(d.begun[0].uses_local_slot);
    assert_null(d.begun[0].ends.descriptors[2]);
}

static void a_proof_goes_over_what_it_tries(void **context)
{
    static const struct {
        uint8_t rails;
        bool sure;
    } rows[] = {{1, false}, {2, true}, {3, true}};
    (void)context;
    only_rail(0);
    end.net.proving = true;
    for (int i = 0; i < 3; i++) {
        peer->gpu.rails = rows[i].rails;
        assert_int_equal(move(WRITE, SEG_HEAP, 2 * CHUNK, 3000), WEFT_OK);
        assert_true(d.begun[0].proof);
        assert_true(d.begun[0].spread);
        assert_int_equal(d.begun[0].retransmittable, rows[i].sure);
    }
    end.net.proving = false;
    assert_int_equal(move(WRITE, SEG_HEAP, 2 * CHUNK, 3000), WEFT_OK);
    assert_false(d.begun[0].retransmittable || d.begun[0].proof || d.begun[0].spread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(slots_are_whole_pages_and_not_too_many),
        test(transfers_are_cut_so_that_copies_overlap),
        test(fragments_in_place_end_where_memory_ends),
        test(ends_are_used_in_place_where_they_meet),
        test(host_memory_has_keys_of_each_nic),
        test(host_memory_needs_no_registration_where_the_provider_wants_none),
        test(a_proof_goes_over_what_it_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

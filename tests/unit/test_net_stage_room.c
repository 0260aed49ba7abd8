/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what staged fragments of path net wait for and query: a free slot, memory, the peer's
 * staging buffer. Shows also that a transfer uses messages if no NIC reaches both ends. */
#include "unit/net_transfer.h"

/* ------------------------------------------------------------------------------- slots and
 * memory */

static void a_fragment_waits_for_a_free_slot(void **context)
{
    (void)context;
    d.taken_at_a_time = 1;
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(move(i % 2 ? WRITE : 0, SEG_HEAP, 600, 3000), WEFT_OK);
    assert_int_equal(d.waits, 0);
    assert_int_equal(d.wait_ends, SLOTS);
    assert_int_equal(move(WRITE, SEG_HEAP, 600, 3000), WEFT_OK);
    assert_int_equal(d.waits, 2);
    assert_int_equal(d.wait.operation, BOX_OP_PUT);
    assert_int_equal(d.wait.expected, 1);
    assert_int_equal(d.wait.pe, 1);
    assert_int_equal(d.begun_count, 1);
    d.wait_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(move(0, SEG_HEAP, 600, 3000), WEFT_ERR_TIMEOUT);
    assert_int_equal(d.wait.operation, BOX_OP_GET);
    assert_int_equal(d.wait.expected, 2);
    assert_int_equal(d.begun_count, 0);
    assert_int_equal(d.wait_ends, SLOTS + 2);
    assert_int_equal(d.waits, 3);
    /* After the timeout no further fragment of the transfer begins. */
    d.local_rails = 0;
    assert_int_equal(move(DEVICE, SEG_HEAP, 600, 4 * SLOT_BYTES), WEFT_ERR_TIMEOUT);
    assert_int_equal(d.waits, 4);
    peer->stage->last_retired = peer->stage->last_begun;
    peer->failed = WEFT_ERR_PEER_DEAD;
    peer->launcher_queried = true;
    assert_int_equal(move(WRITE, SEG_HEAP, 600, 3000), WEFT_ERR_PEER_DEAD);
    assert_int_equal(d.begun_count, 0);
}

static void missing_memory_is_reported(void **context)
{
    (void)context;
    int before = callocs.memory;
    for (int i = 0; i < 2; i++) {
        callocs.left = i;
        assert_int_equal(move(WRITE | DEVICE, SEG_HEAP, 600, 3000), WEFT_ERR_NO_MEMORY);
        callocs.left = -1;
        assert_non_null(strstr(base_last_error(), "no private memory for transfers to PE 1"));
        assert_null(peer->stage);
        assert_int_equal(callocs.memory, before);
    }
    d.local_rails = 0;
    d.slab_fails = true;
    assert_int_equal(move(WRITE | DEVICE, SEG_HEAP, 600, 3000), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "cannot register 384 KiB of staging slots"));
    assert_non_null(strstr(base_last_error(), "for PE 1; lower WEFT_TEST_NET_SLOT_SIZE"));
    assert_int_equal(d.begun_count, 0);
    assert_ptr_equal(peer->stage->peer, peer);
    assert_int_equal(callocs.memory, before + 2);
    d.slab_fails = false;
    assert_int_equal(move(WRITE | DEVICE, SEG_HEAP, 600, 3000), WEFT_OK);
    assert_int_equal(move(WRITE | DEVICE, SEG_HEAP, 600, 3000), WEFT_OK);
    assert_int_equal(d.slabs, 2);
    assert_ptr_equal(peer->stage->slots, slab_of);
    peer->stage->slots = NULL;
    net_stage_free(&end.net);
    assert_int_equal(callocs.memory, before);
}

static void what_meets_nowhere_goes_by_requests(void **context)
{
    static const struct {
        int what;
        weft_status copy, request, status;
        bool no_memory;
        int copies, puts, gets;
    } rows[] = {
        {WRITE | DEVICE, WEFT_OK, WEFT_OK, WEFT_OK, false, 1, 1, 0},
        {DEVICE, WEFT_OK, WEFT_OK, WEFT_OK, false, 1, 0, 1},
        {WRITE, WEFT_OK, WEFT_OK, WEFT_OK, false, 0, 1, 0},
        {0, WEFT_OK, WEFT_OK, WEFT_OK, false, 0, 0, 1},
        {WRITE | DEVICE, WEFT_ERR_SYSTEM, WEFT_OK, WEFT_ERR_SYSTEM, false, 1, 0, 0},
        {DEVICE, WEFT_ERR_SYSTEM, WEFT_OK, WEFT_ERR_SYSTEM, false, 1, 0, 1},
        {DEVICE, WEFT_OK, WEFT_ERR_PATH, WEFT_ERR_PATH, false, 0, 0, 1},
        {WRITE, WEFT_OK, WEFT_ERR_PATH, WEFT_ERR_PATH, false, 0, 1, 0},
        {WRITE | DEVICE, WEFT_OK, WEFT_OK, WEFT_ERR_NO_MEMORY, true, 0, 0, 0},
    };
    (void)context;
    d.place_known = d.room_known = 0;
    move(0, SEG_GPU, 600, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int before = callocs.memory;
        d.copies = d.puts = d.gets = d.mallocs = 0;
        d.host = NULL;
        d.copy_status = rows[i].copy;
        d.request_status = rows[i].request;
        d.malloc_fails = rows[i].no_memory;
        assert_int_equal(move(rows[i].what, SEG_GPU, 600, 3000), rows[i].status);
        assert_int_equal(d.begun_count, 0);
        assert_int_equal(d.copies, rows[i].copies);
        assert_int_equal(d.puts, rows[i].puts);
        assert_int_equal(d.gets, rows[i].gets);
        assert_int_equal(d.mallocs, rows[i].what & DEVICE ? 1 : 0);
        assert_int_equal(callocs.memory, before);
    }
    assert_non_null(strstr(base_last_error(), "no private memory for 3000 bytes"));
}

/* --------------------------------------------------------------------- the peer's staging
 * buffer */

static void a_staging_buffer_is_queried_once(void **context)
{
    (void)context;
    d.place_known = 0;
    d.ask_status = WEFT_ERR_PEER_DEAD;
    assert_int_equal(move(WRITE, SEG_GPU, 600, 3000), WEFT_ERR_PEER_DEAD);
    assert_false(peer->stage->peer_buffer_known);
    assert_int_equal(d.begun_count, 0);
    d.ask_status = WEFT_OK;
    /* A query without a waiting caller is pending: its answer is no longer needed and is
     * detached. */
    peer->stage->peer_buffer_token = TOKEN;
    assert_int_equal(move(WRITE, SEG_GPU, 600, 3000), WEFT_OK);
    assert_int_equal(d.asked, 2);
    assert_int_equal(d.forgotten, 1);
    assert_int_equal(peer->stage->peer_buffer_token, 0);
    assert_int_equal(move(WRITE, SEG_GPU, 600, 3000), WEFT_OK);
    assert_int_equal(d.asked, 2);
    assert_int_equal(d.forgotten, 1);
    peer->stage->peer_buffer_known = false;
    peer->stage->peer_buffer_token = TOKEN;
    d.answer_came = true;
    assert_int_equal(move(WRITE, SEG_GPU, 600, 3000), WEFT_OK);
    assert_int_equal(d.forgotten, 1);
    assert_int_equal(peer->stage->peer_buffer_token, 0);
    d.place_status = WEFT_ERR_PATH;
    assert_int_equal(move(WRITE, SEG_GPU, 600, 3000), WEFT_ERR_PATH);
    assert_int_equal(d.begun_count, 0);
}

static struct {
    struct net_head head;
    struct net_record record;
    struct net_query wanted;
} question;
static int questions;

static void look(struct net_end *at, const unsigned char *bytes, size_t count)
{
    (void)at;
    assert_int_equal(count, sizeof question);
    memcpy(&question, bytes, count);
    questions++;
}

/* Asks for slots for a retransmitted fragment with sequence number 5. */
static weft_status again(struct net_staged_fragment *fragment, bool *ready)
{
    *fragment = (struct net_staged_fragment){
        .post.peer = peer, .state = &end.state, .sequence = 5, .bytes = 9};
    return net_stage_use_slots(&end.net, fragment, ready);
}

static void a_retransmission_never_waits_for_the_staging_buffer(void **context)
{
    struct net_staged_fragment fragment;
    bool ready = true;
    (void)context;
    end.look = look;
    questions = 0;
    assert_int_equal(move(WRITE, SEG_HEAP, 600, 3000), WEFT_OK);
    /* The window is full, so the query is cancelled. */
    uint64_t done = peer->requests.acknowledged;
    peer->requests.acknowledged = peer->requests.last_sent - NET_WINDOW;
    assert_int_equal(again(&fragment, &ready), WEFT_OK);
    assert_false(ready);
    assert_int_equal(d.cancelled, 1);
    assert_int_equal(peer->stage->peer_buffer_token, 0);
    peer->requests.acknowledged = done;
    d.await_status = WEFT_ERR_NO_MEMORY;
    assert_int_equal(again(&fragment, &ready), WEFT_ERR_NO_MEMORY);
    assert_int_equal(questions, 0);
    d.await_status = WEFT_OK;
    assert_int_equal(again(&fragment, &ready), WEFT_OK);
    assert_false(ready);
    assert_int_equal(questions, 1);
    assert_int_equal(question.record.kind, NET_STAGING_BUFFER);
    assert_int_equal(question.wanted.token, TOKEN);
    assert_int_equal(question.wanted.bytes, SLOTS * SLOT_BYTES);
    assert_int_equal(question.head.flags & NET_ACK_REQUEST, 0);
    assert_int_equal(again(&fragment, &ready), WEFT_OK);
    assert_int_equal(questions, 1);
    assert_false(ready);
    /* The peer could not answer, so it is queried again. */
    d.answer_came = true;
    d.answer_status = WEFT_ERR_SYSTEM;
    assert_int_equal(again(&fragment, &ready), WEFT_ERR_SYSTEM);
    assert_false(ready);
    d.answer_status = WEFT_OK;
    assert_int_equal(again(&fragment, &ready), WEFT_OK);
    assert_int_equal(questions, 2);
    for (int i = 0; i < NET_RAILS; i++)
        peer->stage->peer_buffer_answer[i] = buffer_key(i);
    d.slab_fails = true;
    assert_int_equal(again(&fragment, &ready), WEFT_ERR_NO_MEMORY);
    assert_int_equal(peer->stage->peer_buffer_token, 0);
    d.slab_fails = false;
    assert_int_equal(again(&fragment, &ready), WEFT_OK);
    assert_true(ready);
    assert_true(fragment.uses_local_slot && fragment.uses_peer_slot);
    assert_int_equal(fragment.ends.rails, 7);
    for (int i = 0; i < NET_RAILS; i++) {
        assert_int_equal(fragment.ends.keys[i].key, 50 + i);
        assert_int_equal(fragment.ends.keys[i].base, 9000 + 100 * i + SLOT_BYTES);
        assert_ptr_equal(fragment.ends.descriptors[i], &slab_of[i]);
    }
    assert_int_equal(questions, 2);
    d.room_known = 0;
    for (int i = 0; i < NET_RAILS; i++)
        peer->stage->peer_buffer_keys[i].known = 0;
    assert_int_equal(again(&fragment, &ready), WEFT_ERR_PATH);
    assert_non_null(strstr(base_last_error(), "no remaining NIC has pinned memory"));
    /* The peer fails: a pending query is cancelled. */
    net_stage_cancel_query(&end.net, peer);
    assert_int_equal(d.cancelled, 1);
    peer->stage->peer_buffer_token = TOKEN;
    net_stage_cancel_query(&end.net, peer);
    assert_int_equal(d.cancelled, 2);
    assert_int_equal(peer->stage->peer_buffer_token, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_fragment_waits_for_a_free_slot),
        test(missing_memory_is_reported),
        test(what_meets_nowhere_goes_by_requests),
        test(a_staging_buffer_is_queried_once),
        test(a_retransmission_never_waits_for_the_staging_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

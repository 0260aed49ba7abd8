/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how path net sends messages: how it fills and numbers them, when they request an
 * acknowledgement, and what happens when the provider returns FI_EAGAIN or another error. */
#include "unit/net_end.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const uint8_t key[SIPHASH_KEY_BYTES] = {1, 4, 1, 4, 2, 1, 3};
static struct net_end end;
static struct net_peer *peer;

/* A double of net_wait() calls `meanwhile`. */
static int waits, waits_ended;
static struct path_wait waited;
static weft_status (*meanwhile)(struct net_peer *peer);

weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait);
weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait)
{
    (void)net;
    waits++;
    waited = *wait;
    assert_non_null(meanwhile);
    return meanwhile(peer);
}

static void count_end(struct path_wait *wait)
{
    (void)wait;
    waits_ended++;
}

static struct sent {
    fi_addr_t to;
    struct net_head head;
    uint64_t number; /* counted from 1 */
    unsigned first;  /* kind of the first record */
} sent[256];
static int sent_count;

static void look(struct net_end *at, const unsigned char *bytes, size_t count)
{
    struct sent *last = &sent[sent_count++];
    assert_true(sent_count < 256);
    memcpy(&last->head, bytes, sizeof last->head);
    assert_int_equal(last->head.bytes, count);
    last->to = at->sent_to;
    last->first = count > sizeof last->head
                      ? ((const struct net_record *)(bytes + sizeof last->head))->kind
                      : 0;
    const struct net_session *line = &at->peers[at->sent_to / 10].outgoing;
    last->number = last->head.sequence -
                   (last->head.flags & NET_ANSWERS ? line->first_answer : line->first_request);
}

static int open_end(void **context)
{
    (void)context;
    end_open_idle(&end, key);
    end.state.touched_count = 0;
    end.look = look;
    end.world.wait_end = count_end;
    peer = &end.peers[1];
    meanwhile = NULL;
    sent_count = waits = waits_ended = 0;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end_shut(&end);
    return 0;
}

static int free_count(void)
{
    int n = 0;
    for (struct net_message *m = end.net.sends.free; m; m = m->next)
        n++;
    return n;
}

static struct net_record *request(size_t bytes)
{
    struct net_record *record = NULL;
    assert_int_equal(net_add_request(&end.state, peer, bytes, &record), WEFT_OK);
    record->kind = NET_PUT;
    return record;
}

static void send_requests(struct net_peer *to, int count)
{
    struct net_peer *before = peer;
    peer = to;
    for (int i = 0; i < count; i++) {
        request(8);
        net_flush_requests(&end.net, peer, false);
    }
    peer = before;
}

/* -------------------------------------------------------------------------------------- filling */

/* A reused buffer keeps nothing of its former use. */
static void a_new_message_is_new(void **context)
{
    (void)context;
    struct net_message *old = end.net.sends.free;
    old->in_flight = old->queued = old->unacknowledged = old->is_probe = true;
    old->sequence = 77;
    old->post.kind = NET_POST_RECEIVE;
    memset(old->bytes, 0xee, sizeof old->bytes);
    struct net_message *message = net_new_message(&end.net, peer);
    assert_ptr_equal(message, old);
    assert_false(message->in_flight || message->queued || message->unacknowledged ||
                 message->is_probe);
    assert_int_equal(message->sequence, 0);
    assert_int_equal(message->post.kind, NET_POST_SEND);
    assert_ptr_equal(message->post.peer, peer);
    const struct net_head *head = (const void *)message->bytes;
    assert_int_equal(head->auth_word, peer->outgoing.auth_word);
    assert_int_equal(head->bytes, sizeof *head);
    assert_int_equal(head->flags, 0);
    const struct net_record nothing = {0};
    struct net_record *record = net_add_record(message, 9);
    assert_memory_equal(record, &nothing, sizeof nothing);
    assert_ptr_equal(record, message->bytes + sizeof *head);
    assert_int_equal(head->bytes, sizeof *head + sizeof *record + 16);
    net_release_message(&end.net, message);
    assert_ptr_equal(end.net.sends.free, message);
}

/* A slab holds 32 messages. */
static void buffers_come_from_slabs(void **context)
{
    (void)context;
    struct net_message *drained[200];
    int left = free_count();
    for (int i = 0; i <= left; i++)
        assert_non_null(drained[i] = net_alloc_message(&end.net));
    assert_int_equal(free_count(), 31);
    for (int i = 0; i <= left; i++)
        net_free_message(&end.net, drained[i]);
}

/* Requests fill a message to its last byte, and no further. */
static void a_message_is_filled(void **context)
{
    (void)context;
    const size_t rest =
        NET_MESSAGE_BYTES - sizeof(struct net_head) - 2 * sizeof(struct net_record) - 104;
    request(100);
    const struct net_message *first = peer->requests.open;
    request(rest - 7);
    assert_ptr_equal(peer->requests.open, first);
    assert_int_equal(((const struct net_head *)(const void *)first->bytes)->bytes,
                     NET_MESSAGE_BYTES);
    assert_int_equal(end.channels[1].last_message, END_REQUESTS + 1);
    assert_int_equal(sent_count, 0);
    request(0);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].head.bytes, NET_MESSAGE_BYTES);
    assert_int_equal(sent[0].number, END_REQUESTS + 1);
    assert_int_equal(end.channels[1].last_message, END_REQUESTS + 2);
    assert_int_equal(end.state.touched[0], 1);
    net_flush_requests(&end.net, peer, false);
    assert_null(peer->requests.open);
    request(100);
    request(rest + 1);
    assert_int_equal(sent_count, 3);
    assert_int_equal(sent[2].head.bytes, sizeof(struct net_head) + sizeof(struct net_record) + 104);
    net_flush_requests(&end.net, peer, false);
}

static void the_head_says_how_far_this_end_is(void **context)
{
    (void)context;
    peer->served.handled = 41;
    peer->link.answers_received = 17;
    request(8);
    net_flush_requests(&end.net, peer, false);
    assert_int_equal(sent[0].head.handled - peer->incoming.first_request, 41);
    assert_int_equal(sent[0].head.answers_received - peer->incoming.first_answer, 17);
    assert_int_equal(sent[0].head.from, 0);
    peer->link.answers_sent = 5;
    net_add_answer(&end.net, peer, 8)->kind = NET_DATA;
    net_send_answers(&end.net);
    assert_int_equal(sent[1].number, 6);
    assert_int_equal(sent[1].head.flags, NET_ANSWERS);
    assert_int_equal(sent[1].head.handled - peer->incoming.first_request, 41);
}

/* Each sixteenth message requests an acknowledgement if none before it did. */
static void messages_request_acknowledgements(void **context)
{
    (void)context;
    for (int i = 0; i < 2; i++) {
        send_requests(peer, 15);
        for (int k = 0; k < 15; k++)
            assert_int_equal(sent[16 * i + k].head.flags, 0);
        send_requests(peer, 1);
        assert_int_equal(sent[16 * i + 15].head.flags, NET_ACK_REQUEST);
        assert_int_equal(peer->requests.ack_requested, END_REQUESTS + 16 * (i + 1));
        peer->requests.acknowledged = peer->requests.last_sent;
    }
    request(8);
    net_flush_requests(&end.net, peer, true);
    assert_int_equal(sent[32].head.flags, NET_ACK_REQUEST);
    assert_int_equal(peer->requests.ack_requested, peer->requests.last_sent);
}

/* An empty message requests an acknowledgement if earlier messages did not. Otherwise no message is
 * sent. */
static void an_empty_message_requests_an_acknowledgement(void **context)
{
    (void)context;
    net_flush_requests(&end.net, peer, true);
    assert_int_equal(sent_count, 0);
    send_requests(peer, 1);
    net_flush_requests(&end.net, peer, false);
    assert_int_equal(sent_count, 1);
    net_flush_requests(&end.net, peer, true);
    assert_int_equal(sent_count, 2);
    assert_int_equal(sent[1].head.flags, NET_ACK_REQUEST);
    assert_int_equal(sent[1].head.bytes, sizeof(struct net_head));
    assert_int_equal(sent[1].number, END_REQUESTS + 2);
}

static void gpu_memory_is_flushed_once(void **context)
{
    (void)context;
    peer->gpu.written = true;
    send_requests(peer, 2);
    assert_int_equal(sent[0].head.flags, NET_FLUSH_GPU);
    assert_int_equal(sent[1].head.flags, 0);
}

/* If a quiet has followed each recent message, the next one requests an acknowledgement. If no
 * quiet follows that, the one after it requests none. */
static void a_quiet_is_guessed(void **context)
{
    (void)context;
    net_flush_unanswered(&end.net, peer);
    assert_int_equal(sent_count, 0);
    peer->requests.guessed_quiet = true;
    net_flush_unanswered(&end.net, peer);
    assert_true(peer->requests.guessed_quiet); /* no message was open */
    const struct {
        bool follows, guessed, asks, follows_after;
    } rows[] = {{false, false, false, false},
                {true, false, true, true},
                {true, true, false, false},
                {false, true, false, false}};
    for (int i = 0; i < 4; i++) {
        peer->requests.quiet_follows = rows[i].follows;
        peer->requests.guessed_quiet = rows[i].guessed;
        request(8);
        net_flush_unanswered(&end.net, peer);
        assert_null(peer->requests.open);
        assert_int_equal(sent[i].head.flags, rows[i].asks ? NET_ACK_REQUEST : 0);
        assert_int_equal(peer->requests.quiet_follows, rows[i].follows_after);
        assert_int_equal(peer->requests.guessed_quiet, rows[i].asks);
    }
}

/* --------------------------------------------------------------------------------------- window */

static weft_status one_is_done(struct net_peer *of)
{
    of->requests.acknowledged += waits == 2;
    return WEFT_OK;
}

static weft_status time_is_over(struct net_peer *of)
{
    (void)of;
    return WEFT_ERR_TIMEOUT;
}

static weft_status another_thread_opens(struct net_peer *of)
{
    of->requests.open = net_new_message(&end.net, of);
    return WEFT_OK;
}

static void the_window_is_full(void **context)
{
    (void)context;
    send_requests(peer, NET_WINDOW - 1);
    assert_int_equal(waits, 0);
    assert_non_null(net_try_add_request(&end.state, peer, 8));
    net_flush_requests(&end.net, peer, false);
    assert_int_equal(end.channels[1].last_message, END_REQUESTS + NET_WINDOW);
    assert_null(net_try_add_request(&end.state, peer, 8));
    assert_null(peer->requests.open);
    meanwhile = one_is_done;
    waits_ended = 0;
    request(8);
    assert_int_equal(waits, 2);
    assert_int_equal(waits_ended, 1);
    assert_int_equal(waited.operation, BOX_OP_PUT);
    assert_int_equal(waited.pe, 1);
    assert_int_equal(waited.expected, END_REQUESTS + 1);
    net_flush_requests(&end.net, peer, false);
    meanwhile = time_is_over;
    struct net_record *record;
    assert_int_equal(net_add_request(&end.state, peer, 8, &record), WEFT_ERR_TIMEOUT);
    assert_null(peer->requests.open);
    assert_int_equal(end.channels[1].last_message, END_REQUESTS + NET_WINDOW + 1);
    meanwhile = another_thread_opens;
    int left = free_count();
    request(8);
    assert_int_equal(free_count(), left - 1);
    net_flush_requests(&end.net, peer, false);
}

static void requests_that_may_not_wait(void **context)
{
    (void)context;
    struct net_record *record = net_try_add_request(&end.state, peer, 4000);
    assert_ptr_equal(record, peer->requests.open->bytes + sizeof(struct net_head));
    assert_int_equal(end.channels[1].last_message, END_REQUESTS + 1);
    assert_ptr_equal(net_try_add_request(&end.state, peer, 4000), (char *)(record + 1) + 4000);
    assert_int_equal(sent_count, 0);
    assert_non_null(net_try_add_request(&end.state, peer, 4000));
    assert_int_equal(sent_count, 1);
    assert_int_equal(end.channels[1].last_message, END_REQUESTS + 2);
    net_flush_requests(&end.net, peer, false);
}

static weft_status all_is_done(struct net_peer *of)
{
    of->requests.acknowledged = of->requests.last_sent;
    return WEFT_OK;
}

static void awaiting_what_was_sent(void **context)
{
    (void)context;
    assert_int_equal(net_await_acknowledged(&end.net, peer, END_REQUESTS), WEFT_OK);
    assert_int_equal(waits + sent_count, 0);
    send_requests(peer, 2);
    meanwhile = all_is_done;
    assert_int_equal(net_await_acknowledged(&end.net, peer, END_REQUESTS + 2), WEFT_OK);
    assert_int_equal(waits, 1);
    assert_int_equal(waited.operation, BOX_OP_QUIET);
    assert_int_equal(waited.expected, END_REQUESTS + 2);
    assert_int_equal(sent_count, 3);
    assert_int_equal(sent[2].head.flags, NET_ACK_REQUEST);
    request(8);
    net_flush_requests(&end.net, peer, true); /* the message has requested an acknowledgement */
    assert_int_equal(net_await_acknowledged(&end.net, peer, peer->requests.last_sent), WEFT_OK);
    assert_int_equal(sent_count, 4);
    assert_int_equal(waits, 2);
    waits_ended = 0;
    send_requests(peer, 1);
    meanwhile = time_is_over;
    assert_int_equal(net_await_acknowledged(&end.net, peer, peer->requests.last_sent),
                     WEFT_ERR_TIMEOUT);
    assert_int_equal(waits_ended, 2); /* the wait for the window, and this wait */
    peer->failed = WEFT_ERR_PATH;
    peer->launcher_queried = true;
    sent_count = 0;
    assert_int_equal(net_await_acknowledged(&end.net, peer, peer->requests.last_sent + 1),
                     WEFT_ERR_PATH);
    assert_int_equal(sent_count, 0);
}

/* -------------------------------------------------------------------------------------- answers */

static void answers_fill_messages(void **context)
{
    (void)context;
    for (int i = 0; i < 3; i++)
        net_add_answer(&end.net, peer, 4000)->kind = NET_DATA;
    assert_int_equal(sent_count, 1); /* a full message */
    assert_int_equal(sent[0].head.flags, NET_ANSWERS);
    assert_int_equal(sent[0].number, 1);
    assert_int_equal(sent[0].head.bytes,
                     sizeof(struct net_head) + 2 * (sizeof(struct net_record) + 4000));
    assert_ptr_equal(end.net.sends.to_answer, peer);
    assert_null(peer->served.next_to_answer);
    net_add_answer(&end.net, &end.peers[2], 8)->kind = NET_SLOT_READY;
    net_add_answer(&end.net, &end.peers[2], 8);
    net_send_answers(&end.net);
    assert_int_equal(sent_count, 3);
    assert_int_equal(sent[1].to, end_address(2, 0));
    assert_int_equal(sent[1].first, NET_SLOT_READY);
    assert_int_equal(sent[1].number, 1);
    assert_int_equal(sent[2].to, end_address(1, 0));
    assert_int_equal(sent[2].number, 2);
    assert_null(peer->served.open_answers);
    assert_false(peer->served.answer_queued);
    net_send_answers(&end.net);
    assert_int_equal(sent_count, 3);
}

/* ---------------------------------------------------------------------------------- failed
 * sends */

static ssize_t refusals[END_PES]; /* result of fi_send by PE */
static int tries[END_PES];

static ssize_t refuse(struct net_end *at, fi_addr_t to)
{
    (void)at;
    tries[to / 10]++;
    return refusals[to / 10];
}

/* A send that returns FI_EAGAIN is tried once a round. Messages to another peer are sent meanwhile,
 * and both peers get theirs in order. */
static void refused_for_now(void **context)
{
    (void)context;
    struct net_peer *other = &end.peers[2];
    memset(tries, 0, sizeof tries);
    end.refuse = refuse;
    refusals[1] = -FI_EAGAIN;
    refusals[2] = 0;
    send_requests(peer, 2);
    send_requests(other, 2);
    send_requests(peer, 1);
    assert_int_equal(sent_count, 0);
    assert_int_equal(tries[1], 1);
    assert_int_equal(tries[2], 0); /* its messages are queued after a blocked one */
    assert_true(end.net.sends.blocked->queued);
    net_retry_sends(&end.net);
    assert_int_equal(tries[1], 2);
    assert_int_equal(sent_count, 2);
    assert_int_equal(sent[0].number, END_REQUESTS + 1);
    assert_int_equal(sent[1].number, END_REQUESTS + 2);
    net_retry_sends(&end.net);
    assert_int_equal(tries[1], 3);
    int n = 0;
    for (const struct net_message *m = end.net.sends.blocked; m; m = m->next, n++)
        assert_true(m->queued && m->post.peer == peer);
    assert_int_equal(n, 3);
    send_requests(other, 1);
    refusals[1] = 0;
    net_retry_sends(&end.net);
    assert_null(end.net.sends.blocked);
    assert_int_equal(sent_count, 6);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sent[2 + i].to, end_address(1, 0));
        assert_int_equal(sent[2 + i].number, END_REQUESTS + 1 + i);
    }
    send_requests(peer, 1);
    assert_int_equal(sent_count, 7);
    for (int i = 0; i < end.sent_count; i++)
        assert_true(end.sent[i]->in_flight && !end.sent[i]->queued);
    assert_int_equal(end.net.rails[0].sends_in_flight, 7);
    end_sends_complete(&end);
    assert_int_equal(end.net.rails[0].sends_in_flight, 0);
}

/* If another rail leads to the peer, the message is kept for that rail. Otherwise the peer has
 * failed. */
static void refused_altogether(void **context)
{
    (void)context;
    end.refuse = refuse;
    refusals[1] = -FI_ECONNREFUSED;
    request(8);
    struct net_message *message = peer->requests.open;
    net_flush_requests(&end.net, peer, false);
    assert_string_equal(peer->link.suspected_failure,
                        "a message to PE 1 failed (provider tcp on lo): an error");
    assert_string_equal(peer->link.suspected_cause, "an error");
    assert_true(message->unacknowledged && !message->in_flight && !message->queued);
    assert_int_equal(peer->failed, WEFT_OK);
    memset(tries, 0, sizeof tries);
    request(8);
    message = peer->requests.open;
    peer->link.suspected_failure[1] = '\0';
    net_flush_requests(&end.net, peer, false); /* the message waits for another rail */
    assert_int_equal(tries[1], 0);
    assert_ptr_equal(peer->link.unacknowledged, message);
    assert_null(end.net.sends.blocked);
    peer = &end.peers[2];
    peer->rails.closed = 1 << 1 | 1 << 2;
    refusals[2] = -FI_ECONNREFUSED;
    int left = free_count();
    request(8);
    net_flush_requests(&end.net, peer, false);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence,
                        "a message to PE 2 failed (provider tcp on lo): an error; no "
                        "other NIC reaches it");
    assert_int_equal(free_count(), left);
    assert_int_equal(end.net.rails[0].sends_in_flight, 0);
    memset(tries, 0, sizeof tries);
    message = net_new_message(&end.net, peer);
    net_send_message(&end.net, message); /* a message to a failed peer is dropped */
    assert_int_equal(tries[2], 0);
    assert_int_equal(free_count(), left);
    assert_null(peer->link.unacknowledged);
}

/* A message is kept until it is acknowledged if another rail could retransmit it, and only then. */
static void sent_messages_stay_unacknowledged(void **context)
{
    (void)context;
    struct net_peer *other = &end.peers[2];
    other->rails.closed = 1 << 1 | 1 << 2;
    int left = free_count();
    send_requests(peer, 1);
    send_requests(other, 1);
    assert_non_null(peer->link.unacknowledged);
    assert_null(other->link.unacknowledged);
    end_sends_complete(&end);
    assert_int_equal(free_count(), left - 1);
    assert_false(peer->link.unacknowledged->in_flight);
    net_drop_unacknowledged(&end.net, peer);
    assert_int_equal(free_count(), left);
    peer->link.rail = 1;
    other->rails.closed = 1 << 2; /* the first rail is left */
    other->link.rail = 1;
    send_requests(other, 1);
    assert_int_equal(sent[2].to, end_address(2, 1));
    assert_int_equal(end.net.rails[1].sends_in_flight, 1);
    assert_non_null(other->link.unacknowledged);
    assert_int_equal(other->link.unacknowledged->rail, 1);
    end.net.rail_count = 2;
    peer->rails.closed = 1 << 0;
    send_requests(peer, 1);
    assert_null(peer->link.unacknowledged);
    end.net.rail_count = END_RAILS;
}

static void receives_of_a_closed_rail_are_free(void **context)
{
    (void)context;
    struct net_message *came = end.posted[--end.posted_count];
    int left = free_count();
    end.net.rails[0].endpoint = NULL;
    net_message_lost(&end.net, came, FI_ECANCELED);
    assert_int_equal(free_count(), left + 1);
    assert_int_equal(end.net.failed, WEFT_OK);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)
    const struct CMUnitTest tests[] = {
        CASE(a_new_message_is_new),
        CASE(buffers_come_from_slabs),
        CASE(a_message_is_filled),
        CASE(the_head_says_how_far_this_end_is),
        CASE(messages_request_acknowledgements),
        CASE(an_empty_message_requests_an_acknowledgement),
        CASE(gpu_memory_is_flushed_once),
        CASE(a_quiet_is_guessed),
        CASE(the_window_is_full),
        CASE(requests_that_may_not_wait),
        CASE(awaiting_what_was_sent),
        CASE(answers_fill_messages),
        CASE(refused_for_now),
        CASE(refused_altogether),
        CASE(sent_messages_stay_unacknowledged),
        CASE(receives_of_a_closed_rail_are_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

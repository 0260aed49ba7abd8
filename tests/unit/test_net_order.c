/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what fence and quiet of path net wait for and what they request, and how callers wait for
 * answers. The tests set each count of a channel to zero or to another value. */
#include "unit/net_end.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint8_t key[SIPHASH_KEY_BYTES] = {5, 7, 7, 2, 1, 5, 6};
static struct net_end end;
static struct net_peer *peer;
static struct net_channel *channel;

/* A double of net_wait(): each wait decrements a count or calls `meanwhile`. */
static struct {
    int pe;
    enum box_operation operation;
    uint64_t expected;
    bool ended;
} waits[64];
static int wait_count, sent_count, sent_at_first;
static uint32_t *counts;
static weft_status (*meanwhile)(struct net_peer *peer);

weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait);
weft_status __wrap_net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait)
{
    (void)net;
    assert_true(wait_count < 64);
    sent_at_first = wait_count ? sent_at_first : sent_count;
    waits[wait_count].pe = wait->pe;
    waits[wait_count].operation = wait->operation;
    waits[wait_count++].expected = wait->expected;
    if (meanwhile)
        return meanwhile(peer);
    assert_non_null(counts);
    --*counts;
    return WEFT_OK;
}

static int waits_ended;
static void count_end(struct path_wait *wait)
{
    (void)wait;
    waits_ended++;
}

static struct net_head sent[64];

static void look(struct net_end *at, const unsigned char *bytes, size_t count)
{
    (void)at, (void)count;
    assert_true(sent_count < 64);
    memcpy(&sent[sent_count++], bytes, sizeof sent[0]);
}

static int open_end(void **context)
{
    (void)context;
    end_open_idle(&end, key);
    end.state.touched_count = 0;
    end.look = look;
    end.world.wait_end = count_end;
    peer = &end.peers[1];
    channel = &end.channels[1];
    counts = NULL;
    meanwhile = NULL;
    wait_count = sent_count = waits_ended = 0;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end_shut(&end);
    return 0;
}

static weft_status time_is_over(struct net_peer *of)
{
    (void)of;
    return WEFT_ERR_TIMEOUT;
}

/* ---------------------------------------------------------------------------------------- order */

static void channels_are_touched_once(void **context)
{
    (void)context;
    assert_ptr_equal(net_touch_channel(&end.state, 2), &end.channels[2]);
    net_touch_channel(&end.state, 1);
    net_touch_channel(&end.state, 2);
    assert_int_equal(end.state.touched_count, 2);
    assert_int_equal(end.touched[0], 2);
    assert_int_equal(end.touched[1], 1);
}

static void a_fence_records_the_last_message(void **context)
{
    (void)context;
    const struct {
        bool confirmed;
        uint32_t writes, stripes, staging;
        bool fence_writes, fence_staging;
    } rows[] = {{false, 0, 0, 0, false, false}, {false, 1, 0, 0, false, false},
                {true, 0, 0, 0, false, false},  {true, 1, 0, 0, true, false},
                {false, 1, 1, 0, true, false},  {false, 0, 0, 1, false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        end.net.rails[0].traits.delivery_complete = rows[i].confirmed;
        *channel = (struct net_channel){.last_message = 40 + i,
                                        .writes = rows[i].writes,
                                        .striped_writes = rows[i].stripes,
                                        .unnotified = rows[i].staging,
                                        .fence_writes = true,
                                        .fence_unnotified = true};
        net_fence_channel(&end.net, channel);
        assert_int_equal(channel->fence_message, 40 + i);
        assert_int_equal(channel->fence_writes, rows[i].fence_writes);
        assert_int_equal(channel->fence_unnotified, rows[i].fence_staging);
    }
}

static void a_request_waits_behind_a_fence(void **context)
{
    (void)context;
    channel->writes = channel->unnotified = 2;
    assert_int_equal(net_order_request(&end.state, peer), WEFT_OK);
    assert_int_equal(wait_count, 0);
    channel->fence_writes = true;
    counts = &channel->writes;
    assert_int_equal(net_order_request(&end.state, peer), WEFT_OK);
    assert_int_equal(wait_count, 2);
    assert_int_equal(channel->writes, 0);
    assert_false(channel->fence_writes);
    assert_int_equal(waits[0].operation, BOX_OP_PUT);
    assert_int_equal(waits[0].pe, 1);
    assert_int_equal(waits_ended, 1);
    /* Staged fragments have become messages or writes by now, so the fence records the last message
     * again. */
    channel->fence_unnotified = true;
    channel->last_message = 9;
    counts = &channel->unnotified;
    assert_int_equal(net_order_request(&end.state, peer), WEFT_OK);
    assert_int_equal(channel->unnotified, 0);
    assert_int_equal(channel->fence_message, 9);
    assert_false(channel->fence_unnotified);
    assert_int_equal(wait_count, 4);
    channel->fence_unnotified = true;
    channel->unnotified = 1;
    channel->striped_writes = channel->writes = 1;
    meanwhile = time_is_over;
    assert_int_equal(net_order_request(&end.state, peer), WEFT_ERR_TIMEOUT);
    assert_int_equal(wait_count, 5);
    assert_true(channel->fence_unnotified);
}

static weft_status all_is_done(struct net_peer *of)
{
    of->requests.acknowledged = of->requests.last_sent;
    return WEFT_OK;
}

static void a_write_waits_until_messages_are_done(void **context)
{
    (void)context;
    channel->fence_message = END_REQUESTS;
    assert_int_equal(net_order_write(&end.state, peer), WEFT_OK);
    assert_int_equal(wait_count, 0);
    struct net_record *record;
    net_add_request(&end.state, peer, 8, &record);
    record->kind = NET_PUT;
    net_fence_channel(&end.net, channel);
    meanwhile = all_is_done;
    assert_int_equal(net_order_write(&end.state, peer), WEFT_OK);
    assert_int_equal(wait_count, 1);
    assert_int_equal(waits[0].expected, END_REQUESTS + 1);
    channel->fence_message = peer->requests.last_sent + 1;
    channel->fence_writes = true;
    channel->writes = 1;
    meanwhile = time_is_over;
    assert_int_equal(net_order_write(&end.state, peer), WEFT_ERR_TIMEOUT);
    assert_int_equal(wait_count, 2);
    channel->writes = 0;
}

static void sources_are_free(void **context)
{
    (void)context;
    channel->sources_in_use = 2;
    channel->writes = 3;
    counts = &channel->sources_in_use;
    assert_int_equal(net_await_staged_sources(&end.state, peer), WEFT_OK);
    assert_int_equal(wait_count, 2);
    counts = &channel->writes;
    assert_int_equal(net_await_sources(&end.state, peer), WEFT_OK);
    assert_int_equal(wait_count, 5);
    channel->sources_in_use = 1;
    meanwhile = time_is_over;
    assert_int_equal(net_await_sources(&end.state, peer), WEFT_ERR_TIMEOUT);
    assert_int_equal(wait_count, 6);
    channel->sources_in_use = 0;
    channel->writes = 1;
    assert_int_equal(net_await_writes(&end.state, peer), WEFT_ERR_TIMEOUT);
    channel->reads = 1;
    assert_int_equal(net_await_reads(&end.state, peer), WEFT_ERR_TIMEOUT);
    assert_int_equal(waits[7].operation, BOX_OP_GET);
    channel->writes = channel->reads = 0;
}

static void a_fence_of_all_peers(void **context)
{
    (void)context;
    net_touch_channel(&end.state, 2)->last_message = 7;
    net_touch_channel(&end.state, 1)->last_message = 6;
    assert_int_equal(net_order_context(&end.state), WEFT_OK);
    assert_int_equal(end.channels[2].fence_message, 7);
    assert_int_equal(end.channels[1].fence_message, 6);
    end.channels[1].last_message = 8;
    end.peers[2].failed = WEFT_ERR_PATH;
    end.peers[2].launcher_queried = true;
    strcpy(end.peers[2].sentence, "PE 2 is gone");
    assert_int_equal(net_order_context(&end.state), WEFT_ERR_PATH);
    assert_string_equal(base_last_error(), "PE 2 is gone");
    assert_int_equal(end.channels[1].fence_message, 8);
    end.state.failed = WEFT_ERR_RANGE;
    strcpy(end.state.sentence, "too far");
    assert_int_equal(net_order_context(&end.state), WEFT_ERR_RANGE);
    assert_string_equal(base_last_error(), "too far");
    assert_int_equal(end.state.failed, WEFT_OK);
    end.peers[2].failed = WEFT_OK;
}

/* ---------------------------------------------------------------------------------------- quiet */

static void give(int pe)
{
    struct net_record *record;
    assert_int_equal(net_add_request(&end.state, &end.peers[pe], 8, &record), WEFT_OK);
    record->kind = NET_PUT;
}

static void a_quiet_requests_acknowledgements_and_waits(void **context)
{
    (void)context;
    give(1);
    give(2);
    peer->requests.guessed_quiet = true;
    meanwhile = all_is_done;
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(sent_at_first, 2);
    assert_int_equal(sent_count, 2);
    assert_int_equal(sent[0].flags, NET_ACK_REQUEST);
    assert_int_equal(sent[1].flags, NET_ACK_REQUEST);
    assert_int_equal(wait_count, 2);
    assert_false(peer->requests.guessed_quiet || peer->requests.quiet_follows);
    assert_int_equal(end.state.touched_count, 0);
    assert_false(channel->touched);
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(sent_count, 2);
    /* A message was flushed without a request for an acknowledgement: the peer remembers that a
     * quiet followed it. */
    give(1);
    net_flush_requests(&end.net, peer, false);
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_true(peer->requests.quiet_follows);
    assert_int_equal(sent_count, 4);
    assert_int_equal(sent[3].bytes, sizeof sent[3]);
    for (int i = 0; i < 2; i++) {
        give(1);
        net_flush_requests(&end.net, peer, false);
    }
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_false(
        peer->requests.quiet_follows); /* a quiet follows only the last of these messages */
    give(1);
    net_flush_requests(&end.net, peer, true);
    sent_count = 0;
    /* The message has requested an acknowledgement. */
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(sent_count, 0);
}

/* The acknowledgement of a later message confirms writes. A quiet sends such a message even if no
 * message is open and all acknowledgements are requested. */
static void writes_are_confirmed_by_a_message(void **context)
{
    (void)context;
    channel->unconfirmed = true;
    net_touch_channel(&end.state, 1);
    meanwhile = all_is_done;
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].flags, NET_ACK_REQUEST);
    assert_int_equal(peer->requests.last_sent, END_REQUESTS + 1);
    assert_int_equal(channel->last_message, END_REQUESTS + 1);
    assert_false(channel->unconfirmed);
    assert_int_equal(wait_count, 1);
    assert_int_equal(waits[0].expected, END_REQUESTS + 1);
    net_touch_channel(&end.state, 1);
    channel->unconfirmed = true;
    peer->requests.ack_requested = peer->requests.last_sent - 1;
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(sent_count, 2);
    assert_int_equal(peer->requests.ack_requested, END_REQUESTS + 2);
    net_touch_channel(&end.state, 1);
    channel->unconfirmed = true;
    give(1); /* the open request is sent in that message */
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(sent_count, 3);
    assert_true(sent[2].bytes > sizeof sent[2]);
}

static uint64_t order[8];
static int order_count;

/* Decrements the first count that is not zero, and records which one it is. */
static weft_status next_count(struct net_peer *of)
{
    struct net_channel *c = &end.channels[of->pe];
    uint32_t *all[] = {&c->unnotified, &c->writes, &c->reads, &end.state.in_flight};
    for (uint64_t i = 0; i < 4; i++)
        if (*all[i]) {
            order[order_count++] = i;
            --*all[i];
            return WEFT_OK;
        }
    return WEFT_ERR_TIMEOUT;
}

static void a_quiet_waits_for_all_that_is_under_way(void **context)
{
    (void)context;
    order_count = 0;
    channel->unnotified = channel->writes = channel->reads = end.state.in_flight = 1;
    net_touch_channel(&end.state, 1);
    meanwhile = next_count;
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(order_count, 4);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(order[i], i);
    assert_int_equal(waits[3].operation, BOX_OP_QUIET);
    assert_int_equal(end.state.in_flight, 0);
    assert_int_equal(end.state.touched_count, 0);
}

/* If writes must complete before the message that confirms them, the quiet waits for them first. */
static void a_quiet_awaits_writes_before_it_requests(void **context)
{
    (void)context;
    channel->writes = 1;
    channel->confirm_after_writes = true;
    channel->unconfirmed = true;
    net_touch_channel(&end.state, 1);
    meanwhile = time_is_over;
    assert_int_equal(net_complete_context(&end.state), WEFT_ERR_TIMEOUT);
    assert_int_equal(wait_count, 1);
    assert_int_equal(waits[0].operation, BOX_OP_PUT);
    assert_false(channel->confirm_after_writes);
    assert_int_equal(sent_at_first, 0);
    assert_int_equal(sent_count, 1);
    wait_count = 0; /* other writes are awaited after the message is sent */
    net_touch_channel(&end.state, 1);
    channel->unconfirmed = true;
    assert_int_equal(net_complete_context(&end.state), WEFT_ERR_TIMEOUT);
    assert_int_equal(sent_at_first, 2);
    wait_count = 0; /* after a failure the writes are not awaited */
    channel->confirm_after_writes = true;
    channel->unnotified = 1;
    assert_int_equal(net_complete_context(&end.state), WEFT_ERR_TIMEOUT);
    assert_int_equal(wait_count, 1);
    channel->writes = channel->unnotified = 0;
}

/* A quiet does not request an acknowledgement that another context has requested, or has received
 * during the wait. */
static void a_requested_acknowledgement_is_not_requested_again(void **context)
{
    (void)context;
    const struct {
        uint64_t last, done, asked;
        int sends;
    } rows[] = {{1, 0, 1, 0}, {2, 2, 1, 0}, {2, 1, 1, 1}, {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sent_count = 0;
        uint64_t base = peer->requests.last_sent;
        peer->requests.last_sent += 2;
        peer->requests.acknowledged = base + rows[i].done;
        peer->requests.ack_requested = base + rows[i].asked;
        net_touch_channel(&end.state, 1)->last_message = base + rows[i].last;
        meanwhile = all_is_done;
        wait_count = 0;
        assert_int_equal(net_complete_context(&end.state), WEFT_OK);
        assert_int_equal(sent_count, rows[i].sends);
        assert_int_equal(wait_count, rows[i].last > rows[i].done);
    }
}

/* A quiet and a fence visit as many channels as the list counts, and none after one that fails. */
static void the_list_ends_where_it_ends(void **context)
{
    (void)context;
    end.touched[0] = 1;
    end.touched[1] = 2;
    end.state.touched_count = 1;
    end.channels[2] = (struct net_channel){.touched = true,
                                           .unnotified = 1,
                                           .writes = 1,
                                           .unconfirmed = true,
                                           .last_message = 9,
                                           .fence_message = 3};
    assert_int_equal(net_order_context(&end.state), WEFT_OK);
    assert_int_equal(end.channels[2].fence_message, 3);
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    assert_int_equal(wait_count + sent_count, 0);
    assert_int_equal(end.state.touched_count, 0);
    uint32_t *both[2][2] = {{&channel->unnotified, &end.channels[2].unnotified},
                            {&channel->writes, &end.channels[2].writes}};
    for (int i = 0; i < 2; i++) {
        for (int pe = 1; pe < END_PES; pe++) {
            end.channels[pe] = (struct net_channel){0};
            net_touch_channel(&end.state, pe);
        }
        *both[i][0] = *both[i][1] = 1;
        meanwhile = time_is_over;
        wait_count = 0;
        assert_int_equal(net_complete_context(&end.state), WEFT_ERR_TIMEOUT);
        assert_int_equal(wait_count, 1);
        *both[i][0] = *both[i][1] = 0;
        end.state.touched_count = 0;
    }
    for (int pe = 1; pe < END_PES; pe++) {
        end.channels[pe] = (struct net_channel){0};
        net_touch_channel(&end.state, pe);
    }
    end.state.in_flight = 1;
    wait_count = 0;
    assert_int_equal(net_complete_context(&end.state), WEFT_ERR_TIMEOUT);
    assert_int_equal(wait_count, 1);
    end.state.in_flight = 0;
}

/* A channel stays in the list for each kind of operation that is not complete. */
static void what_is_left_stays_in_the_list(void **context)
{
    (void)context;
    for (int i = 0; i < 6; i++) {
        struct net_channel left = {.touched = true,
                                   .writes = i == 0,
                                   .reads = i == 1,
                                   .unnotified = i == 2,
                                   .sources_in_use = i == 3,
                                   .last_message =
                                       i == 4 ? end.peers[2].requests.last_sent + 1 : 0};
        end.channels[2] = left;
        channel->touched = true;
        end.state.touched[0] = 1;
        end.state.touched[1] = 2;
        end.state.touched_count = 2;
        end.peers[2].requests.ack_requested = end.peers[2].requests.last_sent + 1;
        meanwhile = time_is_over;
        assert_int_equal(net_complete_context(&end.state),
                         i == 3 || i == 5 ? WEFT_OK : WEFT_ERR_TIMEOUT);
        assert_int_equal(end.state.touched_count, i < 5);
        assert_int_equal(end.channels[2].touched, i < 5);
        assert_false(channel->touched);
        if (i < 5)
            assert_int_equal(end.state.touched[0], 2);
    }
    end.channels[2] = (struct net_channel){0};
    end.state.touched_count = 0;
}

static void a_quiet_tells_of_failures(void **context)
{
    (void)context;
    end.state.failed = WEFT_ERR_RANGE;
    strcpy(end.state.sentence, "too far");
    net_touch_channel(&end.state, 1);
    assert_int_equal(net_complete_context(&end.state), WEFT_ERR_RANGE);
    assert_int_equal(net_complete_context(&end.state), WEFT_OK);
    net_touch_channel(&end.state, 1);
    peer->failed = WEFT_ERR_PATH;
    peer->launcher_queried = true;
    assert_int_equal(net_complete_context(&end.state), WEFT_ERR_PATH);
    peer->failed = WEFT_OK;
}

/* ------------------------------------------------------------------------------ closed contexts */

static void a_closed_context_stays_while_something_points_to_it(void **context)
{
    (void)context;
    struct net_state *states[3];
    pthread_mutex_init(&end.net.lock, NULL);
    end.world.common[PATH_NET] = &end.net;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(net_open_state(&end.world, (struct path_state **)&states[i]), WEFT_OK);
        assert_ptr_equal(states[i]->net, &end.net);
        states[i]->in_flight = (uint32_t)(i < 2);
    }
    end.net.progress.poller = states[0];
    net_close_state((struct path_state *)states[2]);
    assert_null(end.net.closed_states);
    assert_ptr_equal(end.net.progress.poller, states[0]);
    net_close_state((struct path_state *)states[0]);
    assert_null(end.net.progress.poller);
    net_close_state((struct path_state *)states[1]);
    assert_ptr_equal(end.net.closed_states, states[1]);
    assert_ptr_equal(states[1]->next, states[0]);
    net_drop_state(states[0]);
    assert_ptr_equal(states[1]->next, states[0]);
    states[0]->in_flight = 0;
    net_drop_state(states[0]);
    assert_null(states[1]->next);
    states[1]->in_flight = 0;
    net_drop_state(states[1]);
    assert_null(end.net.closed_states);
    net_drop_state(&end.state); /* this state is open and has nothing in flight */
    assert_int_equal(pthread_mutex_trylock(&end.net.lock), 0);
    pthread_mutex_unlock(&end.net.lock);
    pthread_mutex_destroy(&end.net.lock);
}

/* -------------------------------------------------------------------------------------- answers */

static struct {
    struct net_record record;
    struct net_result result;
    unsigned char data[64];
} data;

static void come(int from, uint64_t token, uint32_t position, uint32_t bytes, weft_status status)
{
    data.record = (struct net_record){.kind = NET_DATA, .bytes = bytes};
    data.result = (struct net_result){.token = token, .offset = position, .status = status};
    net_data_received(&end.net, &end.peers[from], &data.record);
}

/* Two tokens of one entry differ. The array grows when all entries are in use, and its entries are
 * used in turn. */
static void tokens_are_used_once(void **context)
{
    (void)context;
    uint64_t tokens[130];
    uint32_t under_way = end.state.in_flight;
    for (int i = 0; i < 130; i++) {
        assert_int_equal(net_new_answer_token(&end.state, peer, NULL, 0, &tokens[i]), WEFT_OK);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(tokens[i], tokens[k]);
    }
    assert_int_equal(end.net.pending.count, 256);
    assert_int_equal(peer->link.pending_answers, 130);
    assert_int_equal(end.state.in_flight, under_way + 130);
    net_cancel_answer(&end.net, tokens[7]);
    assert_int_equal(peer->link.pending_answers, 129);
    assert_int_equal(end.state.in_flight, under_way + 129);
    come(1, tokens[7], 0, 0, WEFT_ERR_RANGE); /* an answer with a cancelled token is ignored */
    assert_int_equal(peer->link.pending_answers, 129);
    uint64_t other;
    net_new_answer_token(&end.state, peer, NULL, 0, &other);
    assert_int_not_equal((uint32_t)other, (uint32_t)tokens[7]);
    for (int i = 0; i < 130; i++)
        if (i != 7)
            net_cancel_answer(&end.net, tokens[i]);
    net_cancel_answer(&end.net, other);
    assert_int_equal(peer->link.pending_answers, 0);
    for (int i = 0; i < 256; i++) { /* one round: each entry once */
        net_new_answer_token(&end.state, peer, NULL, 0, &other);
        net_cancel_answer(&end.net, other);
    }
    net_new_answer_token(&end.state, peer, NULL, 0, &other);
    assert_int_equal(other, UINT64_C(2) << 32 | 132);
    net_cancel_answer(&end.net, other);
    assert_int_equal(end.net.pending.count, 256);
}

static void answers_come_in_fragments(void **context)
{
    (void)context;
    unsigned char to[24] = {0};
    uint64_t token;
    weft_status status = WEFT_OK;
    net_new_answer_token(&end.state, peer, to, 20, &token);
    memset(data.data, 7, sizeof data.data);
    come(1, token, 21, 0, WEFT_ERR_RANGE);
    come(1, token, 12, 9, WEFT_OK);
    come(2, token, 0, 20, WEFT_OK);
    assert_false(net_poll_answer(&end.net, token, &status));
    come(1, token + ((uint64_t)1 << 32), 0, 20, WEFT_OK); /* a token of a later use of this entry */
    come(1, (token & ~(uint64_t)UINT32_MAX) | (end.net.pending.count + 1), 0, 20, WEFT_OK);
    assert_false(net_poll_answer(&end.net, token, &status));
    come(1, token, 12, 8, WEFT_OK);
    assert_false(net_poll_answer(&end.net, token, &status));
    assert_int_equal(to[11], 0);
    assert_int_equal(to[12], 7);
    assert_int_equal(to[20], 0);
    memset(data.data, 9, sizeof data.data);
    come(1, token, 0, 12, WEFT_OK);
    come(1, token, 0, 1, WEFT_ERR_RANGE); /* an answer after the last byte is ignored */
    assert_true(net_poll_answer(&end.net, token, &status));
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(to[11], 9);
    assert_int_equal(to[12], 7);
    assert_int_equal(peer->link.pending_answers, 0);
    net_new_answer_token(&end.state, peer, to, 20, &token);
    come(1, token, 0, 4, WEFT_ERR_RANGE); /* an error completes the query */
    assert_true(net_poll_answer(&end.net, token, &status));
    assert_int_equal(status, WEFT_ERR_RANGE);
    assert_non_null(strstr(base_last_error(), "PE 1 failed a request of PE 0: "));
}

static uint64_t answered_token;
static weft_status answer_status;

static weft_status the_answer_comes(struct net_peer *of)
{
    if (wait_count == 2)
        come(of->pe, answered_token, 0, 8, answer_status);
    return WEFT_OK;
}

static weft_status the_answer_to_a_query_comes(struct net_peer *of)
{
    for (uint64_t uses = 1; uses < 5; uses++)
        come(of->pe, uses << 32 | end.net.pending.next, 0, 8, answer_status);
    return WEFT_OK;
}

static void an_answer_is_awaited(void **context)
{
    (void)context;
    unsigned char to[8] = {0};
    memset(data.data, 5, sizeof data.data);
    net_new_answer_token(&end.state, peer, to, 8, &answered_token);
    meanwhile = the_answer_comes;
    answer_status = WEFT_OK;
    assert_int_equal(net_await_answer(&end.net, answered_token), WEFT_OK);
    assert_int_equal(wait_count, 2);
    assert_int_equal(waits[0].operation, BOX_OP_GET);
    assert_int_equal(waits[0].expected, 1);
    assert_int_equal(waits_ended, 1);
    assert_int_equal(to[7], 5);
    assert_int_equal(peer->link.pending_answers, 0);
    net_new_answer_token(&end.state, peer, to, 8, &answered_token);
    wait_count = 0;
    answer_status = WEFT_ERR_ADDRESS;
    assert_int_equal(net_await_answer(&end.net, answered_token), WEFT_ERR_ADDRESS);
    assert_int_equal(peer->link.pending_answers, 0);
    /* A late answer to a cancelled query writes nothing and completes the query. */
    memset(to, 0, sizeof to);
    net_new_answer_token(&end.state, peer, to, 8, &answered_token);
    meanwhile = time_is_over;
    assert_int_equal(net_await_answer(&end.net, answered_token), WEFT_ERR_TIMEOUT);
    assert_int_equal(peer->link.pending_answers, 1);
    come(1, answered_token, 0, 8, WEFT_OK);
    assert_int_equal(to[0], 0);
    assert_int_equal(peer->link.pending_answers, 0);
    assert_int_equal(end.state.failed, WEFT_OK);
}

/* The first failure of a detached answer is reported at the next quiet. */
static void forgotten_answers(void **context)
{
    (void)context;
    uint64_t tokens[4];
    uint32_t under_way = end.state.in_flight;
    for (int i = 0; i < 4; i++) {
        net_new_answer_token(&end.state, &end.peers[1 + (i == 3)], NULL, 8, &tokens[i]);
        if (i)
            net_detach_answer(&end.net, tokens[i]);
    }
    come(1, tokens[1], 0, 0, WEFT_ERR_ADDRESS);
    assert_int_equal(end.state.failed, WEFT_ERR_ADDRESS);
    assert_non_null(strstr(end.state.sentence, "PE 1 failed a request of PE 0: "));
    come(2, tokens[3], 0, 0, WEFT_ERR_RANGE);
    assert_int_equal(end.state.failed, WEFT_ERR_ADDRESS);
    assert_int_equal(peer->link.pending_answers, 2);
    assert_int_equal(end.peers[2].link.pending_answers, 0);
    net_new_answer_token(&end.state, &end.peers[2], NULL, 8, &tokens[3]);
    net_detach_answer(&end.net, tokens[3]);
    net_drop_answers(&end.net, peer); /* drops the detached answers */
    assert_int_equal(peer->link.pending_answers, 1);
    assert_int_equal(end.peers[2].link.pending_answers, 1);
    assert_int_equal(end.state.in_flight, under_way + 2);
    net_cancel_answer(&end.net, tokens[0]);
    net_cancel_answer(&end.net, tokens[3]);
    end.state.failed = WEFT_OK;
}

static void an_answer_without_a_token_is_a_failure(void **context)
{
    (void)context;
    memcpy(data.data, "no such thingX", 14);
    come(1, 0, 0, 13, WEFT_ERR_ADDRESS);
    assert_int_equal(peer->failed, WEFT_ERR_ADDRESS);
    assert_string_equal(peer->sentence, "PE 1 failed a request of PE 0: no such thing");
    come(2, 0, 0, 0, WEFT_OK);
    assert_int_equal(end.peers[2].failed, WEFT_ERR_PATH);
}

static void asking(void **context)
{
    (void)context;
    const struct net_record question = {.kind = NET_GET, .segment = SEG_HEAP, .offset = 24};
    unsigned char to[8] = {0};
    assert_int_equal(net_send_query(&end.state, peer, &question, 77, to, 8, true), WEFT_OK);
    assert_int_equal(sent_count, 0);
    assert_int_equal(peer->link.pending_answers, 1);
    const struct net_record *record =
        (const void *)(peer->requests.open->bytes + sizeof(struct net_head));
    const struct net_query *wanted = (const void *)(record + 1);
    assert_int_equal(record->kind, NET_GET);
    assert_int_equal(record->offset, 24);
    assert_int_equal(wanted->bytes, 77);
    come(1, wanted->token, 0, 0, WEFT_ERR_RANGE);
    /* The answer is detached, so the context fails. */
    assert_int_equal(end.state.failed, WEFT_ERR_RANGE);
    end.state.failed = WEFT_OK;
    memset(data.data, 3, sizeof data.data);
    meanwhile = the_answer_to_a_query_comes;
    answer_status = WEFT_OK;
    assert_int_equal(net_send_query(&end.state, peer, &question, 8, to, 8, false), WEFT_OK);
    assert_int_equal(sent_count, 1);
    assert_int_equal(to[7], 3);
    peer->failed = WEFT_ERR_PATH;
    peer->launcher_queried = true;
    assert_int_equal(net_send_query(&end.state, peer, &question, 8, to, 8, false), WEFT_ERR_PATH);
    assert_int_equal(peer->link.pending_answers, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)
    const struct CMUnitTest tests[] = {
        CASE(channels_are_touched_once),
        CASE(a_fence_records_the_last_message),
        CASE(a_request_waits_behind_a_fence),
        CASE(a_write_waits_until_messages_are_done),
        CASE(sources_are_free),
        CASE(a_fence_of_all_peers),
        CASE(a_quiet_requests_acknowledgements_and_waits),
        CASE(writes_are_confirmed_by_a_message),
        CASE(a_quiet_waits_for_all_that_is_under_way),
        CASE(a_quiet_awaits_writes_before_it_requests),
        CASE(a_requested_acknowledgement_is_not_requested_again),
        CASE(the_list_ends_where_it_ends),
        CASE(what_is_left_stays_in_the_list),
        CASE(a_quiet_tells_of_failures),
        CASE(a_closed_context_stays_while_something_points_to_it),
        CASE(tokens_are_used_once),
        CASE(answers_come_in_fragments),
        CASE(an_answer_is_awaited),
        CASE(forgotten_answers),
        CASE(an_answer_without_a_token_is_a_failure),
        CASE(asking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

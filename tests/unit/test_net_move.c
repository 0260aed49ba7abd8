/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which NIC carries messages to a peer, which messages are kept for retransmission, when a
 * NIC or a peer counts as failed, and what is retransmitted. One end of path net has three NICs;
 * the test sets the clock. */
#include "unit/net_end.h"

#include "path/net/stripe_piece.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "unit/net_carrier.h"

static const uint64_t ms = 1000 * 1000, second = 1000 * 1000 * 1000;
static const uint8_t key[SIPHASH_KEY_BYTES] = {2, 7, 1, 8, 2, 8};
static struct net_end end;
static struct net_peer *peer;

static uint64_t now;
uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now;
}

/* Sent messages in order: destination, and the control record at the front. */
static struct sent {
    fi_addr_t to;
    uint64_t number;
    unsigned kind, note, rail;
} sent[64];
static int sent_count;

static void log_sent(struct net_end *at, const unsigned char *bytes, size_t count)
{
    struct net_head head;
    struct net_record record = {0};
    struct net_control control = {0};
    memcpy(&head, bytes, sizeof head);
    assert_int_equal(head.bytes, count);
    if (count >= sizeof head + sizeof record)
        memcpy(&record, bytes + sizeof head, sizeof record);
    if (record.kind == NET_CONTROL)
        memcpy(&control, bytes + sizeof head + sizeof record, sizeof control);
    assert_true(sent_count < 64);
    const struct net_session *line = &at->peers[at->sent_to / 10].outgoing;
    sent[sent_count++] =
        (struct sent){.to = at->sent_to,
                      .number = head.sequence - (head.flags & NET_ANSWERS ? line->first_answer
                                                                          : line->first_request),
                      .kind = record.kind,
                      .note = control.kind,
                      .rail = control.rail};
}

static int open_end(void **context)
{
    (void)context;
    end_open(&end, key, 8);
    end.look = log_sent;
    peer = &end.peers[1];
    /* What end_open() sent is acknowledged, and no answer is pending. */
    for (int pe = 1; pe < END_PES; pe++) {
        net_release_acknowledged(&end.net, &end.peers[pe], END_REQUESTS, 0);
        end.peers[pe].requests.acknowledged = END_REQUESTS;
        end.peers[pe].link.pending_answers = 0;
    }
    now = 1000 * second;
    end.net.peers_checked_ns = now;
    sent_count = 0;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end_shut(&end);
    return 0;
}

/* Checks the peers `times` times, `ns` ns apart. */
static void check_peers(int times, uint64_t ns)
{
    for (int i = 0; i < times; i++) {
        now += ns;
        net_check_peers(&end.net);
    }
}

static int free_count(void)
{
    int n = 0;
    for (struct net_message *m = end.net.sends.free; m; m = m->next)
        n++;
    return n;
}

/* ---------------------------------------------------------------------------------- usable
 * rails */

static void rails_that_lead_to_the_peer(void **context)
{
    (void)context;
    for (int i = 0; i < END_RAILS; i++)
        assert_true(net_rail_usable(&end.net, peer, i));
    end.net.rails[0].endpoint = NULL;
    assert_false(net_rail_usable(&end.net, peer, 0));
    assert_true(net_rail_usable(&end.net, peer, 1));
    strcpy(end.net.rails[1].cause, "x");
    assert_false(net_rail_usable(&end.net, peer, 1));
    assert_true(net_rail_usable(&end.net, peer, 2));
    peer->rails.address[2] = FI_ADDR_NOTAVAIL;
    assert_false(net_rail_usable(&end.net, peer, 2));
    peer->rails.address[2] = end_address(1, 2);
    peer->rails.peers[2] = 5;
    /* Bit 2 means rail 2 of the peer, which is not rail 2 of this end. */
    peer->rails.closed = 1 << 2;
    assert_true(net_rail_usable(&end.net, peer, 2));
    peer->rails.closed = 1 << 5;
    assert_false(net_rail_usable(&end.net, peer, 2));
}

/* Another rail must use another NIC at both ends. */
static void the_other_rail(void **context)
{
    (void)context;
    assert_int_equal(net_find_other_rail(&end.net, peer, 0), 1);
    assert_int_equal(net_find_other_rail(&end.net, peer, 1), 0);
    assert_int_equal(net_find_other_rail(&end.net, peer, 2), 0);
    peer->rails.peers[1] = peer->rails.peers[0];
    assert_int_equal(net_find_other_rail(&end.net, peer, 0), 2);
    assert_int_equal(net_find_other_rail(&end.net, peer, 1), 2);
    peer->rails.peers[2] = peer->rails.peers[0];
    assert_int_equal(net_find_other_rail(&end.net, peer, 0), -1);
    peer->rails.peers[2] = 2;
    end.net.rails[2].endpoint = NULL;
    assert_int_equal(net_find_other_rail(&end.net, peer, 0), -1);
    assert_int_equal(net_find_other_rail(&end.net, peer, 2), 0);
    end.net.rail_count = 1;
    end.net.rails[2].endpoint = &end.endpoints[2];
    peer->rails.peers[1] = 1;
    assert_int_equal(net_find_other_rail(&end.net, peer, 0), -1);
}

/* ------------------------------------------------------------------------ unacknowledged
 * messages */

static struct net_message *unacknowledged_message(uint64_t number, bool answers)
{
    struct net_message *message = net_new_message(&end.net, peer);
    message->sequence = number;
    ((struct net_head *)(void *)message->bytes)->flags = answers ? NET_ANSWERS : 0;
    net_retain_message(peer, message);
    return message;
}

/* Requests and answers are acknowledged separately. A message that is still in flight is not
 * reused. */
static void what_has_arrived_is_let_go(void **context)
{
    (void)context;
    int had = free_count();
    struct net_message *requests[4], *answers[4];
    for (uint64_t i = 0; i < 4; i++) {
        requests[i] = unacknowledged_message(20 + i, false);
        answers[i] = unacknowledged_message(10 + i, true);
    }
    net_retain_message(peer, requests[3]); /* it is in the list already */
    assert_ptr_equal(peer->link.unacknowledged, answers[3]);
    assert_int_equal(free_count(), had - 8);
    requests[1]->in_flight = true;
    net_release_acknowledged(&end.net, peer, 21, 10);
    assert_int_equal(free_count(), had - 8 + 2);
    assert_false(requests[0]->unacknowledged || requests[1]->unacknowledged ||
                 answers[0]->unacknowledged);
    assert_true(requests[2]->unacknowledged && requests[3]->unacknowledged &&
                answers[1]->unacknowledged && answers[3]->unacknowledged);
    requests[1]->in_flight = false;
    net_release_message(&end.net, requests[1]);
    assert_int_equal(free_count(), had - 8 + 3);
    net_release_acknowledged(&end.net, peer, 0, 12);
    assert_int_equal(free_count(), had - 8 + 5);
    assert_ptr_equal(peer->link.unacknowledged, answers[3]);
    assert_ptr_equal(peer->link.unacknowledged->next_unacknowledged, requests[3]);
    assert_ptr_equal(peer->link.unacknowledged->next_unacknowledged->next_unacknowledged,
                     requests[2]);
    requests[2]->queued = true;
    net_drop_unacknowledged(&end.net, peer);
    assert_null(peer->link.unacknowledged);
    assert_false(requests[2]->unacknowledged || requests[3]->unacknowledged ||
                 answers[3]->unacknowledged);
    assert_int_equal(free_count(), had - 1);
    requests[2]->queued = false;
    net_release_message(&end.net, requests[2]);
    assert_int_equal(free_count(), had);
}

static void probes_are_not_retransmitted(void **context)
{
    (void)context;
    struct net_message *message = net_new_message(&end.net, peer);
    message->is_probe = true;
    net_retain_message(peer, message);
    assert_false(message->unacknowledged);
    assert_null(peer->link.unacknowledged);
    net_release_message(&end.net, message);
}

/* --------------------------------------------------------------------------------------- probes */

static enum net_kind record_kind = NET_CONTROL;

static void come(enum net_control_kind kind, int rail, size_t bytes)
{
    struct net_message *message = net_alloc_message(&end.net);
    struct net_record *record = (void *)(message->bytes + sizeof(struct net_head));
    const struct net_control control = {.kind = (uint8_t)kind};
    memset(message->bytes, 0, 128);
    ((struct net_head *)(void *)message->bytes)->bytes = (uint16_t)bytes;
    record->kind = (uint8_t)record_kind;
    memcpy(record + 1, &control, sizeof control);
    message->rail = (uint8_t)rail;
    net_answer_probe(&end.net, peer, message);
    net_free_message(&end.net, message);
}

static void a_probe_is_answered_over_its_rail(void **context)
{
    (void)context;
    const size_t whole =
        sizeof(struct net_head) + sizeof(struct net_record) + sizeof(struct net_control);
    int had = free_count();
    come(NET_PROBE_REPLY, 2, whole);
    come(NET_PROBE, 2, whole - 1);
    record_kind = NET_PUT;
    come(NET_PROBE, 2, whole);
    record_kind = NET_CONTROL;
    assert_int_equal(sent_count, 0);
    come(NET_PROBE, 2, whole);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].to, end_address(1, 2));
    assert_int_equal(sent[0].note, NET_PROBE_REPLY);
    assert_int_equal(sent[0].number, 0);
    assert_int_equal(end.net.rails[2].sends_in_flight, 1);
    assert_int_equal(free_count(), had - 1); /* libfabric has the message */
    assert_true(end.sent[0]->is_probe);
    end_sends_complete(&end);
    assert_int_equal(end.net.rails[2].sends_in_flight, 0);
    assert_int_equal(free_count(), had);
    end.net.rails[2].endpoint = NULL;
    come(NET_PROBE, 2, whole);
    assert_int_equal(sent_count, 1);
}

static int refused_rails; /* bit per rail */
static ssize_t refusal;

static ssize_t refuse(struct net_end *at, fi_addr_t to)
{
    (void)at;
    return refused_rails >> to % 10 & 1 ? refusal : 0;
}

static void something_comes_over_a_rail(void **context)
{
    (void)context;
    peer->link.silent_ns = 7;
    net_mark_live(peer, 1);
    assert_int_equal(peer->link.live_rails, 1 << 1);
    assert_int_equal(peer->link.live_ns, 7);
    peer->link.silent_ns = 9;
    net_mark_live(peer, 2);
    assert_int_equal(peer->link.live_rails, 1 << 1 | 1 << 2);
    assert_int_equal(peer->link.live_ns, 7);
    net_mark_probe_failed(peer, 0);
    net_mark_probe_failed(peer, 2);
    assert_int_equal(peer->link.failed_probes, 1 << 0 | 1 << 2);
    peer->link.probed = true;
    peer->link.probed_ns = 3;
    net_mark_live(peer, 0);
    assert_int_equal(peer->link.live_rails | peer->link.failed_probes, 0);
    assert_int_equal(peer->link.silent_ns + peer->link.probed_ns + peer->link.live_ns, 0);
    assert_false(peer->link.probed);
    strcpy(peer->link.suspected_failure, "x");
    peer->link.silent_ns = 5;
    /* The current rail is suspected, so the reply counts for the peer only. */
    net_mark_live(peer, 0);
    assert_int_equal(peer->link.live_rails, 1);
    assert_int_equal(peer->link.live_ns, 5);
}

/* ------------------------------------------------------------------------------ failure
 * detection */

static void the_first_cause_is_remembered(void **context)
{
    (void)context;
    peer->link.silent_ns = 5;
    peer->link.live_rails = 2;
    assert_true(net_mark_suspected(&end.net, peer, "1", "cause one"));
    assert_int_equal(peer->link.silent_ns + peer->link.live_rails, 0);
    peer->link.silent_ns = 5;
    assert_true(net_mark_suspected(&end.net, peer, "second", "cause two"));
    assert_string_equal(peer->link.suspected_failure, "1");
    assert_string_equal(peer->link.suspected_cause, "cause one");
    assert_int_equal(peer->link.silent_ns, 5);
    struct net_peer *other = &end.peers[2];
    other->link.rail = 1; /* rail 0 is left */
    assert_true(net_mark_suspected(&end.net, other, "first", "cause"));
    other->link.suspected_failure[0] = '\0';
    other->link.rail = 0;
    other->failed = WEFT_ERR_PATH;
    assert_false(net_mark_suspected(&end.net, other, "first", "cause"));
    other->failed = WEFT_OK;
    other->rails.closed = 1 << 1 | 1 << 2;
    assert_false(net_mark_suspected(&end.net, other, "first", "cause"));
    assert_string_equal(other->link.suspected_failure, "");
}

static void a_peer_is_given_up(void **context)
{
    (void)context;
    char longer[2 * NET_SENTENCE_BYTES];
    net_give_up_peer(&end.net, peer, "it failed");
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence, "it failed");
    net_give_up_peer(&end.net, peer, "again");
    assert_string_equal(peer->sentence, "it failed");
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    end.peers[2].rails.closed = 1 << 1 | 1 << 2;
    net_give_up_peer(&end.net, &end.peers[2], longer);
    assert_int_equal(strlen(end.peers[2].sentence), NET_SENTENCE_BYTES - 1);
    assert_non_null(strstr(end.peers[2].sentence, "xxx; no other NIC reaches it"));
    end.peers[2].failed = WEFT_OK;
    end.net.rail_count = 1;
    net_give_up_peer(&end.net, &end.peers[2], "it failed");
    assert_string_equal(end.peers[2].sentence, "it failed");
    end.net.rail_count = 2;
    peer->failed = WEFT_OK;
    peer->link.rail = 1; /* rail 0 is left */
    net_give_up_peer(&end.net, peer, "it failed");
    assert_string_equal(peer->sentence, "it failed");
    end.peers[2].failed = WEFT_OK;
    net_give_up_peer(&end.net, &end.peers[2], "it failed");
    assert_string_equal(end.peers[2].sentence, "it failed; no other NIC reaches it");
}

/* A peer that sends nothing for 3 s, although an acknowledgement, an answer or a fragment is due,
 * is probed over all rails, and again each second. Time in which this process does not run is not
 * counted. */
static void a_silent_peer_is_probed(void **context)
{
    (void)context;
    const struct {
        const char *what;
        uint64_t asked, awaiting, pieces;
    } dues[] = {
        {"a request", END_REQUESTS + 1, 0, 0}, {"an answer", 0, 1, 0}, {"a piece", 0, 0, 1}};
    for (size_t i = 0; i < sizeof dues / sizeof dues[0]; i++) {
        peer->requests.ack_requested = dues[i].asked;
        peer->link.pending_answers = (uint32_t)dues[i].awaiting;
        peer->link.fragments = (uint32_t)dues[i].pieces;
        net_mark_live(peer, 0);
        sent_count = 0;
        check_peers(1, 1000 * second);
        assert_int_equal(peer->link.silent_ns, 100 * ms);
        check_peers(28, 100 * ms);
        check_peers(1, 99 * ms);
        assert_int_equal(peer->link.silent_ns, 2999 * ms);
        check_peers(1, 19 * ms); /* too soon for a check: these 19 ms count with the next one */
        assert_int_equal(peer->link.silent_ns, 2999 * ms);
        assert_int_equal(sent_count, 0);
        check_peers(1, 1 * ms);
        assert_int_equal(peer->link.silent_ns, 3019 * ms);
        assert_int_equal(sent_count, END_RAILS);
        for (int k = 0; k < END_RAILS; k++) {
            assert_int_equal(sent[k].to, end_address(1, k));
            assert_int_equal(sent[k].note, NET_PROBE);
            assert_int_equal(sent[k].number, 0);
        }
        check_peers(9, 100 * ms);
        check_peers(1, 80 * ms);
        assert_int_equal(sent_count, END_RAILS);
        check_peers(1, 20 * ms);
        assert_int_equal(sent_count, 2 * END_RAILS);
        assert_int_equal(peer->failed, WEFT_OK);
        end_sends_complete(&end);
    }
    peer->link.fragments = 0;
    peer->requests.ack_requested = peer->requests.acknowledged;
    check_peers(1, 100 * ms);
    assert_int_equal(peer->link.silent_ns, 0);
}

/* A message that requests no acknowledgement gets a request for one after a second. */
static void an_old_store_is_asked_for(void **context)
{
    (void)context;
    peer->requests.ack_requested = END_REQUESTS;
    peer->requests.last_sent = END_REQUESTS + 3;
    check_peers(9, 100 * ms);
    assert_int_equal(sent_count, 0);
    check_peers(1, 100 * ms);
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].to, end_address(1, 0));
    assert_int_equal(peer->requests.ack_requested, END_REQUESTS + 4);
    check_peers(20, 100 * ms);
    assert_int_equal(sent_count, 1);
    end_sends_complete(&end);
    net_release_acknowledged(&end.net, peer, END_REQUESTS + 4, 0);
    peer->requests.acknowledged = END_REQUESTS + 4;
    peer->requests.last_sent = END_REQUESTS + 5;
    check_peers(9, 100 * ms);
    peer->requests.acknowledged = END_REQUESTS + 5;
    check_peers(1, 100 * ms);
    assert_int_equal(sent_count, 1);
}

static void the_first_peer_is_looked_at_too(void **context)
{
    (void)context;
    end.world.pe = 2;
    end.peers[0].link.pending_answers = end.peers[END_PES].link.pending_answers = 1;
    end.peers[0].link.rail = 2; /* rail 0 is left */
    check_peers(2, 99 * ms);
    assert_int_equal(end.peers[0].link.silent_ns, 198 * ms);
    assert_int_equal(end.peers[END_PES].link.silent_ns, 0);
    end.peers[0].link.pending_answers = 0;
}

/* This PE itself, a failed peer and a peer with one usable rail are not checked. */
static void who_is_not_looked_at(void **context)
{
    (void)context;
    for (int pe = 0; pe < END_PES; pe++)
        end.peers[pe].link.pending_answers = 1;
    peer->failed = WEFT_ERR_PATH;
    end.peers[2].rails.closed = 1 << 1 | 1 << 2;
    check_peers(40, 100 * ms);
    for (int pe = 0; pe < END_PES; pe++)
        assert_int_equal(end.peers[pe].link.silent_ns, 0);
    peer->failed = WEFT_OK;
    strcpy(end.net.rails[0].cause, "x");
    check_peers(40, 100 * ms);
    assert_int_equal(peer->link.silent_ns, 0);
    peer->failed = WEFT_ERR_PATH; /* shut_end() retains nothing for a failed peer */
    for (int pe = 0; pe < END_PES; pe++)
        end.peers[pe].link.pending_answers = 0;
}

/* A probe that returns FI_EAGAIN is sent again at the next check. A probe with another error counts
 * as failed. */
static void probes_that_return_eagain(void **context)
{
    (void)context;
    end.refuse = refuse;
    int had = free_count();
    peer->link.pending_answers = 1;
    refused_rails = 1 << 1;
    refusal = -FI_EAGAIN;
    check_peers(30, 100 * ms);
    assert_int_equal(sent_count, 2);
    assert_int_equal(free_count(), had - 2);
    assert_false(peer->link.probed);
    assert_int_equal(peer->link.failed_probes, 0);
    check_peers(1, 100 * ms);
    assert_int_equal(sent_count, 4);
    refusal = -FI_ENETUNREACH;
    check_peers(1, 100 * ms);
    assert_int_equal(sent_count, 6);
    assert_int_equal(peer->link.failed_probes, 1 << 1);
    assert_int_equal(end.net.rails[1].sends_in_flight, 0);
    assert_int_equal(end.net.rails[2].sends_in_flight, 3);
    peer->link.pending_answers = 0;
}

/* The peer answers over another rail and sends nothing over its current rail for 3 s more: that
 * rail has failed. */
static void a_rail_that_stands_still(void **context)
{
    (void)context;
    peer->link.pending_answers = 1;
    check_peers(31, 100 * ms);
    net_mark_live(peer, 2);
    check_peers(29, 100 * ms);
    assert_string_equal(end.net.rails[0].cause, "");
    check_peers(1, 100 * ms);
    assert_string_equal(end.net.rails[0].cause, "nothing received for 6 s");
    assert_string_equal(end.net.rails[1].cause, "");
    assert_int_equal(peer->failed, WEFT_OK);
    peer->link.pending_answers = 0;
}

static void a_suspected_rail(void **context)
{
    (void)context;
    net_mark_suspected(&end.net, peer, "x", "a cause");
    check_peers(1, 20 * ms);
    assert_int_equal(sent_count, 2); /* at once, over the other rails */
    assert_int_equal(sent[0].to, end_address(1, 1));
    assert_int_equal(sent[1].to, end_address(1, 2));
    net_mark_probe_failed(peer, 1);
    check_peers(1, 20 * ms);
    assert_int_equal(peer->failed, WEFT_OK);
    net_mark_live(peer, 2);
    check_peers(1, 20 * ms);
    assert_string_equal(end.net.rails[0].cause, "a cause");
    assert_int_equal(peer->failed, WEFT_OK);
}

static void a_suspected_peer_whose_rails_all_refuse(void **context)
{
    (void)context;
    net_mark_suspected(&end.net, peer, "a sentence", "a cause");
    net_mark_probe_failed(peer, 2);
    check_peers(1, 20 * ms);
    assert_int_equal(peer->failed, WEFT_OK);
    net_mark_probe_failed(peer, 1);
    check_peers(1, 20 * ms);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence, "a sentence");
    assert_string_equal(end.net.rails[0].cause, "");
    /* A rail that does not lead to the peer need not fail its probe. */
    peer = &end.peers[2];
    peer->link.rail = 1;
    net_mark_suspected(&end.net, peer, "a third", "a cause");
    peer->link.failed_probes = 1 << 2;
    check_peers(1, 20 * ms);
    assert_int_equal(peer->failed, WEFT_OK); /* the peer may be reached over rail 0 */
    peer->link.suspected_failure[0] = '\0';
    peer->link.rail = 0;
    net_mark_suspected(&end.net, peer, "another", "a cause");
    peer->rails.closed = 1 << 1;
    net_mark_probe_failed(peer, 2);
    check_peers(1, 20 * ms);
    assert_string_equal(peer->sentence, "another");
}

static void a_suspected_peer_that_never_answers(void **context)
{
    (void)context;
    net_mark_suspected(&end.net, peer, "a sentence", "a cause");
    check_peers(59, 100 * ms);
    assert_int_equal(peer->failed, WEFT_OK);
    check_peers(1, 100 * ms);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    end_sends_complete(&end);
}

/* A NIC without a carrier for 150 ms is given up when the peer answers over another one. */
static void a_rail_without_a_carrier(void **context)
{
    (void)context;
    name_links(&end);
    link_down[0] = true;
    check_peers(7, 20 * ms);
    assert_int_equal(sent_count, 0);
    check_peers(1, 20 * ms);
    assert_int_equal(sent_count, 4); /* at once, to both peers, over the other rails */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sent[i].to, end_address(1 + i / 2, 1 + i % 2));
        assert_int_equal(sent[i].note, NET_PROBE);
    }
    check_peers(2, 20 * ms);
    assert_string_equal(end.net.rails[0].cause, "");
    net_mark_live(peer, 2);
    check_peers(1, 20 * ms);
    assert_string_equal(end.net.rails[0].cause, "its link has no carrier");
    assert_string_equal(end.net.rails[1].cause, "");
    assert_int_equal(peer->failed, WEFT_OK);
    end_sends_complete(&end);
}

static void a_short_interruption_is_not_noticed(void **context)
{
    (void)context;
    name_links(&end);
    for (int i = 0; i < 3; i++) {
        link_down[0] = true;
        check_peers(7, 20 * ms);
        link_down[0] = false;
        check_peers(1, 20 * ms);
    }
    assert_int_equal(sent_count, 0);
    /* A rail that is closed has no link to look at. */
    link_down[0] = true;
    struct fid_ep *endpoint = end.net.rails[0].endpoint;
    end.net.rails[0].endpoint = NULL;
    check_peers(10, 20 * ms);
    assert_false(net_lacks_carrier(&end.net.rails[0]));
    end.net.rails[0].endpoint = endpoint;
}

/* What cannot be retransmitted may arrive when the carrier is back, for 6 s. */
static void a_carrier_is_waited_for(void **context)
{
    (void)context;
    name_links(&end);
    link_down[0] = true;
    peer->link.directs = 1;
    check_peers(2, 100 * ms);
    net_mark_live(peer, 1);
    check_peers(57, 100 * ms);
    assert_string_equal(end.net.rails[0].cause, "");
    check_peers(1, 100 * ms);
    assert_string_equal(end.net.rails[0].cause, "its link has no carrier");
    peer->link.directs = 0;
    end_sends_complete(&end);
}

/* -------------------------------------------------------------------------------------
 * rerouting */

static void close_rail(int rail)
{
    strcpy(end.net.rails[rail].cause, "pulled");
    end.net.rails[rail].endpoint = NULL;
    net_reroute_peers(&end.net, &end.net.rails[rail]);
}

static void messages_move_to_another_rail(void **context)
{
    (void)context;
    struct net_message *on_it = unacknowledged_message(31, false),
                       *elsewhere = unacknowledged_message(32, false),
                       *queued = unacknowledged_message(33, false);
    on_it->in_flight = elsewhere->in_flight = true;
    elsewhere->rail = 1;
    queued->queued = true;
    strcpy(peer->link.suspected_failure, "an error");
    peer->link.silent_ns = 5;
    end.net.rails[0].sends_in_flight = 4;
    end.peers[2].link.rail = 2;
    close_rail(0);
    assert_int_equal(peer->link.rail, 1);
    assert_string_equal(peer->link.suspected_failure, "");
    assert_int_equal(peer->link.silent_ns, 0);
    assert_int_equal(end.net.rails[0].sends_in_flight, 0);
    assert_true(end.net.rails[0].carried_messages);
    /* The message on another rail and the queued message are not sent again. */
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0].to, end_address(1, 1));
    assert_int_equal(sent[0].number, 31);
    assert_true(on_it->in_flight && elsewhere->in_flight && !queued->in_flight);
    assert_int_equal(on_it->rail, 1);
    assert_int_equal(peer->rails.close_requested, 1 << 0);
    assert_int_equal(end.peers[2].link.rail, 2);
    assert_int_equal(end.peers[2].rails.close_requested, 0);
    assert_int_equal(end.peers[0].link.rail, 0);
    assert_int_equal(end.peers[0].rails.close_requested, 0);
    assert_int_equal(end.peers[END_PES].link.rail, 0);
    net_send_answers(&end.net);
    assert_int_equal(sent_count, 2);
    assert_int_equal(sent[1].to, end_address(1, 1));
    assert_int_equal(sent[1].note, NET_CLOSE_RAIL);
    assert_int_equal(sent[1].rail, 0);
    elsewhere->in_flight = queued->queued = false;
    end_sends_complete(&end);
}

/* PE 0 moves to the first NIC: index 0 is a valid rail and a valid PE. */
static void messages_of_the_first_peer_move(void **context)
{
    (void)context;
    end.world.pe = 2;
    end.peers[0].link.rail = 1;
    close_rail(1);
    assert_int_equal(end.peers[0].failed, WEFT_OK);
    assert_int_equal(end.peers[0].link.rail, 0);
    end.peers[0].requests.acknowledged = 0;
    close_rail(0);
    assert_int_equal(end.peers[0].link.rail, 2);
    end.peers[0].link.directs = 1;
    close_rail(2);
    assert_string_equal(end.peers[0].sentence,
                        "PE 0 cannot be reached any more (provider tcp on lo): "
                        "pulled; no other NIC reaches it");
}

static void a_rail_without_messages_moves_nobody(void **context)
{
    (void)context;
    end.peers[2].failed = WEFT_ERR_PATH;
    end.peers[2].link.rail = 2;
    close_rail(2);
    assert_false(end.net.rails[2].carried_messages);
    assert_int_equal(peer->link.rail, 0);
    assert_int_equal(end.peers[2].link.rail, 2);
    assert_null(end.net.sends.to_answer);
}

static void operations_that_cannot_be_retransmitted(void **context)
{
    (void)context;
    static const char lost[] = "PE 1 cannot be reached any more (provider tcp on lo): pulled; "
                               "operations in flight cannot be retransmitted over another NIC";
    peer->link.directs = 1;
    close_rail(0);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence, lost);
    assert_int_equal(peer->link.rail, 0);
    assert_int_equal(end.peers[2].link.rail, 1);
    end.net.rails[0].endpoint = &end.endpoints[0];
    end.net.rails[0].cause[0] = '\0';
    end.peers[2].link.directs = 1; /* though the first NIC is left */
    close_rail(1);
    assert_non_null(strstr(end.peers[2].sentence, "pulled; operations in flight cannot"));
}

/* A write without confirmation cannot be retransmitted until the message after it is
 * acknowledged. */
static void unconfirmed_writes_cannot_go_again(void **context)
{
    (void)context;
    peer->requests.acknowledged = end.peers[2].requests.acknowledged = 8;
    peer->link.unconfirmed_write = 9;
    end.peers[2].link.unconfirmed_write = 8;
    close_rail(0);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_int_equal(end.peers[2].failed, WEFT_OK);
    assert_int_equal(end.peers[2].link.rail, 1);
}

static void no_rail_is_left(void **context)
{
    (void)context;
    close_rail(2);
    close_rail(1);
    assert_int_equal(peer->failed, WEFT_OK);
    close_rail(0);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence,
                        "PE 1 cannot be reached any more (provider tcp on lo): pulled; "
                        "no other NIC reaches it");
    assert_int_equal(end.peers[0].failed, WEFT_OK);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)
    const struct CMUnitTest tests[] = {
        CASE(rails_that_lead_to_the_peer),
        CASE(the_other_rail),
        CASE(what_has_arrived_is_let_go),
        CASE(probes_are_not_retransmitted),
        CASE(a_probe_is_answered_over_its_rail),
        CASE(something_comes_over_a_rail),
        CASE(the_first_cause_is_remembered),
        CASE(a_peer_is_given_up),
        CASE(a_silent_peer_is_probed),
        CASE(an_old_store_is_asked_for),
        CASE(the_first_peer_is_looked_at_too),
        CASE(who_is_not_looked_at),
        CASE(probes_that_return_eagain),
        CASE(a_rail_that_stands_still),
        CASE(a_suspected_rail),
        CASE(a_suspected_peer_whose_rails_all_refuse),
        CASE(a_suspected_peer_that_never_answers),
        CASE(a_rail_without_a_carrier),
        CASE(a_short_interruption_is_not_noticed),
        CASE(a_carrier_is_waited_for),
        CASE(messages_move_to_another_rail),
        CASE(messages_of_the_first_peer_move),
        CASE(a_rail_without_messages_moves_nobody),
        CASE(operations_that_cannot_be_retransmitted),
        CASE(unconfirmed_writes_cannot_go_again),
        CASE(no_rail_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

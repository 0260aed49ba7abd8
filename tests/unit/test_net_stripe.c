/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how one end of path net transfers much data over three NICs: how it cuts a transfer, which
 * NIC each fragment uses, how it confirms writes, and what it does if a NIC returns an error, fails
 * or stalls. */
#include "unit/net_end.h"

#include "path/net/stripe_piece.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "unit/net_carrier.h"

enum { FRAGMENT = 256 << 10, LEAST = 4 * FRAGMENT };
static const uint64_t ms = 1000 * 1000;
static const uint8_t key[SIPHASH_KEY_BYTES] = {1, 7, 3, 2, 0, 5};
static struct net_end end;
static struct net_peer *peer;
static struct net_channel *channel;
static struct net_ends ends;
static char *const local = (char *)0x700000000; /* never accessed */

static uint64_t now;
uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now;
}

static int drained;
int __wrap_net_read_rail(struct path_common *net, struct net_rail *rail);
int __wrap_net_read_rail(struct path_common *net, struct net_rail *rail)
{
    (void)net;
    assert_non_null(rail->endpoint);
    return drained-- > 0;
}

/* Doubles of the functions that are called when a NIC is closed: for GPU memory of a peer, and for
 * staged fragments. */
static struct {
    int pe, rail;
} lost[16];
static int lost_count, staged_count, staged_rail;
void __wrap_net_gpu_rail_lost(struct path_common *net, struct net_peer *peer, int rail);
void __wrap_net_gpu_rail_lost(struct path_common *net, struct net_peer *peer, int rail)
{
    (void)net;
    assert_true(lost_count < 16);
    lost[lost_count].pe = peer->pe;
    lost[lost_count++].rail = rail;
}

void __wrap_net_stage_rail_closed(struct path_common *net, int rail);
void __wrap_net_stage_rail_closed(struct path_common *net, int rail)
{
    (void)net;
    staged_count++;
    staged_rail = rail;
}

static struct net_control controls[32]; /* control records sent to the peer */
static int control_count;

static void look(struct net_end *at, const unsigned char *bytes, size_t count)
{
    (void)at;
    size_t place = sizeof(struct net_head);
    for (; place + sizeof(struct net_record) <= count;) {
        const struct net_record *record = (const void *)(bytes + place);
        if (record->kind != NET_CONTROL)
            return;
        memcpy(&controls[control_count], record + 1, sizeof controls[0]);
        control_count += controls[control_count].kind != NET_PROBE; /* net_move.c sends probes */
        assert_true(control_count < 32);
        place += sizeof *record + sizeof(struct net_control);
    }
}

static int open_end(void **context)
{
    (void)context;
    end_open_idle(&end, key);
    peer = &end.peers[1];
    channel = &end.channels[1];
    end.look = look;
    end.net.first_rail_carries = true;
    end.net.striping.least_bytes = LEAST;
    ends = (struct net_ends){.rails = 0xff};
    for (int i = 0; i < END_RAILS; i++) {
        /* The peer numbers the rails in reverse order. */
        peer->rails.peers[i] = (uint8_t)(END_RAILS - 1 - i);
        ends.keys[i] =
            (struct net_key){.key = 70 + (uint64_t)i, .base = (uint64_t)(i + 1) << 40, .known = 1};
        end.net.rails[i].traits =
            (struct net_traits){.delivery_complete = true, .max_bytes = 1 << 30};
    }
    now = 1000 * 1000 * ms;
    end.net.striping.checked_ns = end.net.peers_checked_ns = now;
    control_count = drained = lost_count = staged_count = 0;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end.access_count = 0;
    end_shut(&end);
    return 0;
}

static uint32_t transfer(size_t bytes, bool write, bool spread)
{
    const struct net_transfer t = {.peer = peer,
                                   .ends = &ends,
                                   .local = local,
                                   .bytes = bytes,
                                   .write = write,
                                   .spread = spread};
    uint32_t fragments;
    assert_int_equal(net_stripe_staged(&end.state, &t, &fragments), WEFT_OK);
    net_stripe_advance(&end.net);
    return fragments;
}

static void complete(int access)
{
    net_stripe_completed(&end.net, end.accesses[access].post);
}

static void complete_all(void)
{
    for (int i = 0; i < end.access_count; i++)
        complete(i);
    end.access_count = 0;
}

static void send_control_records(void)
{
    net_send_answers(&end.net);
    end_sends_complete(&end);
}

static void expect_rails(int from, const char *rails)
{
    assert_int_equal(end.access_count - from, strlen(rails));
    for (int i = from; i < end.access_count; i++)
        if (end.accesses[i].rail != rails[i - from] - '0')
            fail_msg("access %d over %d instead of %c", i, end.accesses[i].rail, rails[i - from]);
}

/* ------------------------------------------------------------------------------------ fragments */

static void transfers_are_cut(void **context)
{
    (void)context;
    assert_int_equal(transfer(2 * FRAGMENT + 1000, true, true), 3);
    expect_rails(0, "012");
    for (int i = 0; i < 3; i++) {
        const struct end_access *a = &end.accesses[i];
        assert_true(a->write);
        assert_int_equal(a->bytes, i < 2 ? FRAGMENT : 1000);
        assert_ptr_equal(a->local, local + i * FRAGMENT);
        assert_int_equal(a->key, 70 + 2 - i);
        assert_int_equal(a->address, ((uint64_t)(3 - i) << 40) + (uint64_t)i * FRAGMENT);
        assert_int_equal(a->to, end_address(1, i));
        assert_int_equal(end.net.rails[i].in_flight_bytes, a->bytes);
    }
    assert_int_equal(channel->writes, 3);
    assert_int_equal(channel->striped_writes, 3);
    assert_int_equal(channel->reads, 0);
    assert_int_equal(end.state.in_flight, 3);
    assert_int_equal(end.net.striping.fragment_count, 3);
    assert_int_equal(peer->link.fragments, 3);
    peer->link.silent_ns = 5;
    complete(1);
    assert_int_equal(peer->link.silent_ns, 5);
    complete(0);
    /* The completion came over the peer's current rail, so the peer is live. */
    assert_int_equal(peer->link.silent_ns, 0);
    complete(2);
    assert_int_equal(channel->writes + channel->striped_writes + end.state.in_flight, 0);
    assert_int_equal(end.net.striping.fragment_count + (int)peer->link.fragments, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(end.net.rails[i].in_flight_bytes, 0);
    end.net.rails[0].traits.max_bytes = 1000;
    end.access_count = 0;
    assert_int_equal(transfer(2000, false, true), 2);
    assert_int_equal(end.accesses[1].bytes, 1000);
    assert_false(end.accesses[1].write);
    assert_int_equal(channel->reads, 2);
    assert_int_equal(channel->striped_writes, 0);
    complete_all();
    assert_int_equal(channel->reads, 0);
}

/* A read of one byte after the write confirms the write. If the read cannot be posted now, it is
 * posted later. */
static void writes_are_confirmed(void **context)
{
    (void)context;
    for (int i = 0; i < END_RAILS; i++)
        end.net.rails[i].traits.delivery_complete = false;
    transfer(FRAGMENT + 5, true, true);
    expect_rails(0, "01");
    complete(1);
    expect_rails(0, "011");
    assert_false(end.accesses[2].write);
    assert_int_equal(end.accesses[2].bytes, 1);
    assert_int_equal(end.accesses[2].address, end.accesses[1].address);
    assert_ptr_not_equal(end.accesses[2].local, end.accesses[1].local);
    assert_int_equal(channel->writes, 2);
    assert_int_equal(end.net.rails[1].in_flight_bytes, 5);
    complete(2);
    assert_int_equal(channel->writes, 1);
    transfer(FRAGMENT, false, true);
    complete(3); /* a read needs no confirmation */
    assert_int_equal(channel->reads, 0);
    complete(0);
    complete(4);
    assert_int_equal(channel->writes, 0);
}

static int refusing;
static ssize_t refusal;

static ssize_t refuse(struct net_end *at, int rail, bool write)
{
    (void)at, (void)write;
    return refusing >> rail & 1 ? refusal : 0;
}

static void confirmations_wait(void **context)
{
    (void)context;
    end.net.rails[0].traits.delivery_complete = end.net.rails[1].traits.delivery_complete = false;
    transfer(4 * FRAGMENT, true, true);
    expect_rails(0, "0120");
    end.refuse_access = refuse;
    refusing = 1;
    refusal = -FI_EAGAIN;
    complete(0);
    complete(3);
    assert_int_equal(end.net.rails[0].unconfirmed, 2);
    assert_int_equal(channel->writes, 4);
    net_stripe_advance(&end.net);
    assert_int_equal(end.net.rails[0].unconfirmed, 2);
    assert_int_equal(end.access_count, 4);
    refusing = 0;
    net_stripe_advance(&end.net);
    assert_int_equal(end.net.rails[0].unconfirmed, 0);
    expect_rails(4, "00");
    complete(4);
    complete(5);
    assert_int_equal(channel->writes, 2);
    complete(2);
    complete(1);
    complete(6);
    assert_int_equal(channel->writes, 0);
}

/* --------------------------------------------------------------------------- choice of the NIC */

/* Without a known speed each NIC takes four fragments. The other fragments wait for the NIC that is
 * free first. */
static void few_are_under_way_at_first(void **context)
{
    (void)context;
    transfer(14 * FRAGMENT, true, true);
    expect_rails(0, "012012012012");
    assert_non_null(end.net.striping.queued.first);
    complete(1);
    net_stripe_advance(&end.net);
    expect_rails(12, "1");
    complete(4);
    net_stripe_advance(&end.net);
    expect_rails(13, "1");
    assert_null(end.net.striping.queued.first);
    for (int i = 0; i < 14; i++)
        if (i != 1 && i != 4)
            complete(i);
    assert_int_equal(end.net.striping.fragment_count, 0);
}

static void by_the_reported_speed(void **context)
{
    (void)context;
    const uint32_t mbps[] = {1000, 3000, 2000};
    for (int i = 0; i < END_RAILS; i++)
        end.net.rails[i].mbps = mbps[i];
    transfer(6 * FRAGMENT, true, true);
    expect_rails(0, "121012");
    complete_all();
    end.net.first_rail_carries = false;
    transfer(3 * FRAGMENT, true, true);
    expect_rails(0, "121");
    complete_all();
    end.net.rails[2].mbps = 0;
    end.net.rails[1].mbps = 0;
    /* Only the first rail carries this memory, though it should carry no large transfers. */
    ends.rails = 1;
    transfer(FRAGMENT, true, true);
    expect_rails(0, "0");
    complete_all();
}

/* When all NICs have a measured speed, the measured speed decides. */
static void by_the_speed_that_was_measured(void **context)
{
    (void)context;
    const uint32_t mbps[] = {9000, 1000, 1000};
    for (int i = 0; i < END_RAILS; i++) {
        end.net.rails[i].mbps = mbps[i];
        end.net.rails[i].measured_ns = now;
    }
    end.net.rails[1].bytes_per_ns = 4;
    end.net.rails[2].bytes_per_ns = 1;
    transfer(3 * FRAGMENT, true, true);
    expect_rails(0, "000"); /* the speed of the first NIC is not measured yet */
    complete_all();
    end.net.first_rail_carries = false;
    transfer(4 * FRAGMENT, true, true);
    expect_rails(0, "1111");
    complete_all();
    end.net.rails[1].bytes_per_ns = end.net.rails[2].bytes_per_ns = 0.1;
    end.net.rails[1].endpoint = NULL;
    end.net.rails[1].bytes_per_ns = 0; /* a closed NIC needs no measured speed */
    transfer(17 * FRAGMENT, true, true);
    assert_int_equal(end.access_count, 16); /* limit of fragments in flight on a measured NIC */
    assert_int_equal(end.accesses[0].rail, 2);
    complete(0);
    net_stripe_advance(&end.net);
    assert_int_equal(end.access_count, 17);
    for (int i = 1; i < 17; i++)
        complete(i);
}

/* A fragment that is not spread uses the peer's current rail if that rail can carry it. */
static void fragments_that_are_not_spread(void **context)
{
    (void)context;
    peer->link.rail = 2;
    transfer(2 * FRAGMENT, true, false);
    expect_rails(0, "22");
    complete_all();
    ends.rails = 1 << 0 | 1 << 1;
    transfer(2 * FRAGMENT, true, false);
    expect_rails(0, "01");
    complete_all();
    ends.rails = 0xff;
    ends.keys[peer->rails.peers[1]].known = 0;
    transfer(2 * FRAGMENT, true, true);
    expect_rails(0, "02");
    complete_all();
}

static void who_takes_large_transfers(void **context)
{
    (void)context;
    assert_true(net_is_striped(&end.net, peer, LEAST));
    assert_false(net_is_striped(&end.net, peer, LEAST - 1));
    peer->rails.closed = 1 << peer->rails.peers[1];
    assert_true(net_is_striped(&end.net, peer, LEAST));
    peer->rails.closed |= (uint8_t)(1 << peer->rails.peers[2]);
    assert_false(net_is_striped(&end.net, peer, LEAST));
    assert_true(net_ends_share_rail(&end.net, peer, &ends));
    ends.rails = (uint8_t)~1;
    assert_false(net_ends_share_rail(&end.net, peer, &ends));
    ends.rails = 1;
    assert_true(net_ends_share_rail(&end.net, peer, &ends));
    ends.keys[peer->rails.peers[0]].known = 0;
    assert_false(net_ends_share_rail(&end.net, peer, &ends));
}

/* ------------------------------------------------------------------------------- failed
 * accesses */

static void refused_for_now(void **context)
{
    (void)context;
    end.refuse_access = refuse;
    refusal = -FI_EAGAIN;
    refusing = 1 << 0 | 1 << 1;
    transfer(3 * FRAGMENT, true, true);
    expect_rails(0, "222");
    assert_true(end.net.rails[0].would_block && end.net.rails[1].would_block &&
                !end.net.rails[2].would_block);
    refusing = 7;
    transfer(2 * FRAGMENT, true, true);
    assert_int_equal(end.access_count, 3);
    refusing = 0;
    net_stripe_advance(&end.net);
    expect_rails(3, "01");
    assert_false(end.net.rails[0].would_block || end.net.rails[1].would_block);
    complete_all();
}

/* A NIC that returns an error is closed; its fragment uses another NIC. */
static void refused_altogether(void **context)
{
    (void)context;
    end.refuse_access = refuse;
    refusal = -FI_ENETDOWN;
    refusing = 1 << 1;
    transfer(3 * FRAGMENT, true, true);
    expect_rails(0, "020");
    assert_string_equal(end.net.rails[1].cause, "an error");
    assert_int_equal(peer->failed, WEFT_OK);
    net_stripe_advance(&end.net);
    assert_null(end.net.rails[1].endpoint);
    assert_int_equal(end.closed_count, 1);
    complete_all();
}

/* ------------------------------------------------------------------------------- NICs that fail */

/* A write is retransmitted when its target PE has closed that NIC too; a read is retransmitted at
 * once. */
static void a_rail_fails(void **context)
{
    (void)context;
    transfer(3 * FRAGMENT, true, true);
    expect_rails(0, "012");
    drained = 2;
    net_stripe_failed(&end.net, &end.net.rails[2], end.accesses[2].post, "pulled");
    assert_string_equal(end.net.rails[2].cause, "pulled");
    net_stripe_advance(&end.net);
    assert_int_equal(drained, -1); /* earlier completions were read */
    assert_int_equal(staged_count, 1);
    assert_int_equal(staged_rail, 2);
    assert_int_equal(lost_count, END_PES);
    for (int i = 0; i < END_PES; i++) {
        assert_int_equal(lost[i].pe, i);
        assert_int_equal(lost[i].rail, 2);
    }
    assert_false(end.net.rails[2].failure_reported);
    lost_count = 0;
    assert_null(end.net.rails[2].endpoint);
    assert_int_equal(end.net.rails[2].in_flight_bytes, 0);
    send_control_records();
    assert_int_equal(control_count, 1);
    assert_int_equal(controls[0].kind, NET_CLOSE_RAIL);
    assert_int_equal(controls[0].rail, peer->rails.peers[2]);
    assert_int_equal(end.access_count, 3);
    assert_int_equal(channel->writes, 3);
    transfer(FRAGMENT, true, true); /* a fragment that waits for no peer is sent at once */
    expect_rails(3, "0");
    const struct net_control closed = {.kind = NET_CLOSED_RAIL, .rail = peer->rails.peers[2]};
    /* The record of another PE has no effect. */
    net_handle_control(&end.net, &end.peers[2], &closed);
    net_stripe_advance(&end.net);
    assert_int_equal(end.access_count, 4);
    lost_count = 0;
    net_handle_control(&end.net, peer, &closed);
    assert_true(end.net.rails[2].failure_reported); /* now the failure is logged */
    assert_false(end.net.rails[0].failure_reported || end.net.rails[1].failure_reported);
    assert_int_equal(lost_count, 1);
    assert_int_equal(lost[0].pe, 1);
    assert_int_equal(lost[0].rail, 2);
    net_stripe_advance(&end.net);
    expect_rails(4, "1");
    assert_ptr_equal(end.accesses[4].local, local + 2 * FRAGMENT);
    for (int i = 0; i < 5; i++)
        if (i != 2)
            complete(i);
    end.access_count = 0;
    assert_int_equal(channel->writes, 0);
    transfer(2 * FRAGMENT, false, true);
    expect_rails(0, "01");
    net_stripe_failed(&end.net, &end.net.rails[1], end.accesses[1].post, "pulled");
    net_stripe_advance(&end.net);
    expect_rails(2, "0");
    send_control_records();
    assert_int_equal(control_count, 2);
    assert_int_equal(controls[1].rail, peer->rails.peers[1]);
    complete(0);
    complete(2);
}

/* A failure on the peer's current rail makes that rail suspected. A write on it cannot be
 * retransmitted. */
static void the_rail_of_messages_fails(void **context)
{
    (void)context;
    transfer(FRAGMENT, true, true);
    net_stripe_failed(&end.net, &end.net.rails[0], end.accesses[0].post, "pulled");
    assert_string_equal(end.net.rails[0].cause, "");
    assert_string_equal(peer->link.suspected_failure,
                        "a remote access at PE 1 failed (provider tcp on lo): pulled");
    assert_string_equal(peer->link.suspected_cause, "pulled");
    net_fail_peer(&end.net, peer, WEFT_ERR_PATH, "it has failed");
    assert_int_equal(channel->writes, 0); /* the lost write is dropped with the peer */
    assert_int_equal(end.net.rails[0].in_flight_bytes, 0);
}

static void fragments_of_a_failed_peer_are_dropped(void **context)
{
    (void)context;
    end.refuse_access = refuse;
    refusal = -FI_EAGAIN;
    refusing = 7;
    transfer(2 * FRAGMENT, true, true);
    net_fail_peer(&end.net, peer, WEFT_ERR_PATH, "it has failed");
    assert_int_equal(channel->writes, 2);
    net_stripe_advance(&end.net);
    assert_int_equal(channel->writes, 0);
    assert_null(end.net.striping.queued.first);
}

/* If no remaining NIC has the memory registered, the peer fails. */
static void no_rail_leads_there(void **context)
{
    (void)context;
    ends.rails = 1 << 2;
    transfer(FRAGMENT, true, true);
    net_stripe_failed(&end.net, &end.net.rails[2], end.accesses[0].post, "pulled");
    net_stripe_advance(&end.net);
    assert_int_equal(peer->failed, WEFT_OK); /* the owner has not closed its NIC yet */
    net_handle_control(
        &end.net, peer,
        &(struct net_control){.kind = NET_CLOSED_RAIL, .rail = peer->rails.peers[2]});
    net_stripe_advance(&end.net);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence, "no remaining NIC has the memory of a transfer registered");
    net_stripe_advance(&end.net);
    assert_int_equal(channel->writes, 0);
}

/* A peer demands that this PE closes a rail. This PE confirms it when the rail is closed, for each
 * demand. */
static void a_peer_gives_a_rail_up(void **context)
{
    (void)context;
    const struct net_control control = {.kind = NET_CLOSE_RAIL, .rail = 1};
    net_handle_control(&end.net, peer, &control);
    assert_string_equal(end.net.rails[1].cause, "PE 1 has given it up");
    net_handle_control(&end.net, &end.peers[2], &control);
    assert_string_equal(end.net.rails[1].cause, "PE 1 has given it up");
    send_control_records();
    assert_int_equal(control_count, 0);
    net_stripe_advance(&end.net);
    send_control_records();
    assert_int_equal(control_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(controls[i].kind, NET_CLOSED_RAIL);
        assert_int_equal(controls[i].rail, 1);
    }
    assert_int_equal(peer->rails.close_demanded | end.peers[2].rails.close_demanded, 0);
    net_handle_control(&end.net, peer, &control);
    send_control_records();
    assert_int_equal(control_count, 3);
    end.world.pe = 2;
    net_handle_control(&end.net, &end.peers[0], &control);
    assert_int_equal(end.peers[0].rails.close_demanded, 0); /* PE 0 gets the confirmation too */
}

/* If a NIC completes nothing for 3 s, the peer is queried. If the peer answers and nothing
 * completes for 3 s more, the NIC has failed. */
static void a_rail_stands_still(void **context)
{
    (void)context;
    transfer(2 * FRAGMENT, true, true);
    expect_rails(0, "01");
    struct net_rail *rail = &end.net.rails[1];
    for (int i = 0; i < 29; i++, net_stripe_advance(&end.net))
        now += 100 * ms;
    now += 5000 * ms; /* a pause counts as one check, 100 ms */
    net_stripe_advance(&end.net);
    assert_int_equal(rail->stalled_ns, 3000 * ms);
    assert_true(rail->liveness_requested && !rail->liveness_confirmed);
    send_control_records();
    assert_true(control_count >= 1);
    assert_int_equal(controls[0].kind, NET_PEER_QUERY);
    assert_int_equal(controls[0].rail, 1);
    for (int i = 0; i < 40; i++, net_stripe_advance(&end.net))
        now += 100 * ms;
    assert_string_equal(rail->cause, ""); /* the peer may be the cause */
    net_handle_control(&end.net, peer, &(struct net_control){.kind = NET_PEER_LIVE, .rail = 1});
    assert_true(rail->liveness_confirmed);
    assert_int_equal(rail->stalled_ns, 0);
    for (int i = 0; i < 29; i++, net_stripe_advance(&end.net))
        now += 100 * ms;
    assert_string_equal(rail->cause, "");
    now += 100 * ms;
    net_stripe_advance(&end.net);
    assert_string_equal(rail->cause, "no transfer completed for 6 s");
    assert_null(rail->endpoint);
    assert_int_equal(end.net.rails[2].stalled_ns, 0); /* nothing is in flight on this rail */
    complete(0);
}

/* A NIC without a carrier that carries no messages is given up, and the peers close their ends. */
static void a_link_loses_its_carrier(void **context)
{
    (void)context;
    name_links(&end);
    transfer(2 * FRAGMENT, true, true);
    link_down[0] = link_down[1] = true;
    for (int i = 0; i < 10; i++, net_stripe_advance(&end.net))
        now += 20 * ms;
    assert_string_equal(end.net.rails[1].cause, ""); /* Messages would not arrive either. */
    link_down[0] = false;
    now += 20 * ms;
    net_stripe_advance(&end.net);
    assert_string_equal(end.net.rails[1].cause, "its link has no carrier");
    assert_null(end.net.rails[1].endpoint);
    assert_non_null(end.net.rails[0].endpoint);
    send_control_records();
    assert_int_equal(control_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(controls[i].kind, NET_CLOSE_RAIL);
        assert_int_equal(controls[i].rail, end.peers[1 + i].rails.peers[1]);
    }
    complete(0);
}

static void a_rail_that_progresses_is_not_checked(void **context)
{
    (void)context;
    struct net_rail *rail = &end.net.rails[1];
    transfer(5 * FRAGMENT, true, true);
    expect_rails(0, "01201");
    for (int i = 0; i < 20; i++, net_stripe_advance(&end.net))
        now += 100 * ms;
    assert_int_equal(rail->stalled_ns, 2000 * ms);
    rail->liveness_requested = rail->liveness_confirmed = true;
    complete(1);
    assert_int_equal(rail->stalled_ns, 0);
    assert_false(rail->liveness_requested || rail->liveness_confirmed);
    complete(4);
    net_stripe_advance(&end.net);
    assert_int_equal(rail->stalled_ns, 0);
    complete(0);
    complete(2);
    complete(3);
}

/* ---------------------------------------------------------------------------------------- speed */

static void the_speed_is_measured(void **context)
{
    (void)context;
    struct net_rail *rail = &end.net.rails[0];
    ends.rails = 1;
    transfer(4 * FRAGMENT, true, true);
    now += 10 * ms;
    complete(0); /* this transfer has waited for a connection, so it is not measured */
    assert_true(rail->connected);
    assert_int_equal(rail->bytes_per_ns, 0);
    now += 5 * ms - 1;
    complete(1);
    assert_int_equal(rail->bytes_per_ns, 0); /* more is in flight, and the time is too short */
    now += 1;
    complete(2);
    assert_true(rail->bytes_per_ns == (double)(2 * FRAGMENT) / (double)(5 * ms));
    assert_int_equal(rail->moved_bytes, 0);
    assert_int_equal(rail->measured_ns, now);
    double was = rail->bytes_per_ns;
    now += 50 * 1000 - 1;
    complete(3);
    assert_true(rail->bytes_per_ns == was);
    end.access_count = 0;
    transfer(FRAGMENT, true, true);
    now += 50 * 1000;
    complete(0); /* nothing more is in flight */
    assert_true(rail->bytes_per_ns > was);
    was = rail->bytes_per_ns;
    end.access_count = 0;
    transfer((32 << 10) - 1, true, true);
    now += 10 * ms;
    complete(0); /* too few bytes to measure a rate */
    assert_true(rail->bytes_per_ns == was);
}

/* A slow NIC is tried again when its measured speed is old, but for no more than 1/20 of the
 * time. */
static void a_slow_rail_is_tried_again(void **context)
{
    (void)context;
    for (int i = 0; i < END_RAILS; i++) {
        end.net.rails[i].bytes_per_ns = i == 2 ? 0.1 : 100;
        end.net.rails[i].measured_ns = now;
    }
    transfer(2 * FRAGMENT, true, true);
    expect_rails(0, "01");
    complete_all();
    now += (uint64_t)(20 * FRAGMENT / 0.1);
    end.net.striping.checked_ns = now;
    end.net.rails[0].measured_ns = end.net.rails[1].measured_ns = now;
    transfer(FRAGMENT, true, true);
    expect_rails(0, "0");
    complete_all();
    now++;
    end.net.rails[2].rate_bytes = end.net.rails[2].rate_ns = 7;
    transfer(2 * FRAGMENT, true, true);
    expect_rails(0, "20");
    assert_true(end.net.rails[2].rate_bytes == 0 && end.net.rails[2].rate_ns == 0);
    complete_all();
}

/* ----------------------------------------------------------------------------- further failures */

/* The peer is asked once to close a NIC, for any number of fragments on it. */
static void a_peer_is_asked_once_to_close_a_rail(void **context)
{
    (void)context;
    struct net_rail *rail = &end.net.rails[2];
    ends.rails = 1 << 2 | 1 << 1;
    end.net.rails[1].would_block = false;
    end.refuse_access = refuse;
    refusal = -FI_EAGAIN;
    refusing = 1 << 1;
    rail->traits.delivery_complete = false;
    transfer(3 * FRAGMENT, true, true);
    expect_rails(0, "222");
    refusing = 1 << 1 | 1 << 2;
    complete(0);
    assert_int_equal(rail->unconfirmed, 1);
    void *descriptor = &descriptor;
    assert_non_null(net_get_rail_scratch(&end.net, rail, &descriptor));
    assert_null(descriptor); /* the scratch memory is not registered */
    strcpy(rail->cause, "x");
    refusing = 0;
    net_stripe_advance(&end.net);
    assert_null(rail->endpoint);
    assert_null(rail->memory);
    assert_int_equal(rail->unconfirmed, 0);
    send_control_records();
    assert_int_equal(control_count, 1);
    net_stripe_advance(&end.net);
    assert_int_equal(end.access_count, 3);
    net_handle_control(
        &end.net, peer,
        &(struct net_control){.kind = NET_CLOSED_RAIL, .rail = peer->rails.peers[2]});
    net_stripe_advance(&end.net);
    expect_rails(3, "111");
    for (int i = 3; i < 6; i++)
        complete(i);
    assert_int_equal(channel->writes, 0);
}

/* If the NIC of messages is closed, messages use another one. A write over a NIC with the same NIC
 * at the peer cannot be retransmitted. */
static void messages_move_when_their_rail_is_closed(void **context)
{
    (void)context;
    strcpy(end.net.rails[0].cause, "x");
    net_stripe_advance(&end.net);
    assert_int_equal(peer->link.rail, 1);
    assert_int_equal(end.peers[2].link.rail, 1);
    assert_null(end.net.rails[0].endpoint);
    peer->rails.peers[2] = peer->rails.peers[1];
    ends.rails = 1 << 2;
    transfer(FRAGMENT, true, true);
    expect_rails(0, "2");
    strcpy(end.net.rails[2].cause, "x");
    net_stripe_advance(&end.net);
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
    assert_string_equal(peer->sentence, "a remote access at PE 1 failed (provider tcp on lo): x");
    assert_int_equal(channel->writes, 0);
}

/* A NIC whose provider would crash is closed when its reads have completed, or after 300 ms. */
static void reads_come_before_the_end(void **context)
{
    (void)context;
    struct net_rail *rail = &end.net.rails[2];
    rail->traits.crashes_on_reads = true;
    rail->reads_in_flight = 1;
    strcpy(rail->cause, "pulled");
    for (int i = 0; i < 2; i++, net_stripe_advance(&end.net))
        now += 100 * ms;
    assert_non_null(rail->endpoint);
    rail->reads_in_flight = 0;
    net_stripe_advance(&end.net);
    assert_null(rail->endpoint);
    assert_false(rail->left_open);
    rail = &end.net.rails[1];
    rail->traits.crashes_on_reads = true;
    rail->reads_in_flight = 1;
    strcpy(rail->cause, "pulled");
    for (int i = 0; i < 3; i++, net_stripe_advance(&end.net)) {
        now += i < 2 ? 100 * ms : 99 * ms;
        assert_non_null(rail->endpoint);
    }
    assert_non_null(rail->endpoint);
    now += 1 * ms;
    net_stripe_advance(&end.net);
    assert_null(rail->endpoint);
    assert_true(rail->left_open);
}

static void control_records_name_existing_rails(void **context)
{
    (void)context;
    struct net_rail *beyond = &end.net.rails[END_RAILS];
    beyond->liveness_requested = true;
    net_handle_control(&end.net, peer,
                       &(struct net_control){.kind = NET_CLOSE_RAIL, .rail = END_RAILS});
    net_handle_control(&end.net, peer,
                       &(struct net_control){.kind = NET_PEER_LIVE, .rail = END_RAILS});
    assert_string_equal(beyond->cause, "");
    assert_false(beyond->liveness_confirmed);
    assert_int_equal(peer->rails.close_demanded, 0);
    net_handle_control(&end.net, peer,
                       &(struct net_control){.kind = NET_CLOSED_RAIL, .rail = NET_RAILS - 1});
    /* The peer may have more rails than this PE. */
    assert_int_equal(peer->rails.closed, 1 << (NET_RAILS - 1));
    send_control_records();
    assert_int_equal(control_count, 0);
    net_handle_control(&end.net, peer,
                       &(struct net_control){.kind = NET_PEER_QUERY, .rail = NET_RAILS - 1});
    net_handle_control(&end.net, peer,
                       &(struct net_control){.kind = NET_PEER_QUERY, .rail = NET_RAILS});
    send_control_records();
    assert_int_equal(control_count, 1);
    assert_int_equal(controls[0].kind, NET_PEER_LIVE);
    assert_int_equal(controls[0].rail, NET_RAILS - 1);
    strcpy(end.net.rails[1].cause, "x"); /* the first cause stays */
    net_fail_rail(&end.net, &end.net.rails[1], peer, "pulled");
    net_handle_control(&end.net, peer, &(struct net_control){.kind = NET_CLOSE_RAIL, .rail = 1});
    assert_string_equal(end.net.rails[1].cause, "x");
    peer->rails.closed = 1 << peer->rails.peers[1] | 1 << peer->rails.peers[2];
    net_fail_rail(&end.net, &end.net.rails[0], peer, "pulled");
    assert_int_equal(peer->failed, WEFT_ERR_PATH);
}

/* --------------------------------------------------------------------------------------- chunks */

/* A transfer between segments ends at the end of a chunk. Each NIC has its own key for the
 * chunk. */
static void transfers_between_segments(void **context)
{
    (void)context;
    const struct peer there = {.pe = 1};
    size_t taken = 7;
    end.world.sizes[SEG_HEAP] = 4 * (size_t)NET_CHUNK_BYTES;
    struct net_key *home = peer->keys[SEG_HEAP] = calloc(5, sizeof *home);
    struct net_key *keys = peer->rails.keys[SEG_HEAP] = calloc(4 * NET_RAILS, sizeof *keys);
    for (uint64_t chunk = 0; chunk < 4; chunk++) {
        home[chunk] = (struct net_key){.key = 500 + chunk, .known = 1, .answered = 1};
        for (uint64_t i = 0; i < NET_RAILS; i++)
            keys[chunk * NET_RAILS + i] =
                (struct net_key){.key = 600 + 10 * chunk + i, .known = 1, .answered = 1};
    }
    struct remote at = {(struct peer *)(uintptr_t)&there, SEG_HEAP,
                        2 * NET_CHUNK_BYTES - FRAGMENT - 1000};
    assert_int_equal(net_stripe_host(&end.state, at, local, LEAST, true, &taken), WEFT_OK);
    assert_int_equal(taken, FRAGMENT + 1000);
    expect_rails(0, "01");
    assert_int_equal(end.accesses[0].key, 501);
    assert_int_equal(end.accesses[0].address, NET_CHUNK_BYTES - FRAGMENT - 1000);
    assert_int_equal(end.accesses[1].key, 610 + peer->rails.peers[1]);
    assert_int_equal(end.accesses[1].address, NET_CHUNK_BYTES - 1000);
    complete_all();
    at.offset = 2 * NET_CHUNK_BYTES;
    assert_int_equal(net_stripe_host(&end.state, at, local, LEAST, false, &taken), WEFT_OK);
    assert_int_equal(taken, LEAST);
    assert_int_equal(end.accesses[0].key, 502);
    assert_int_equal(end.accesses[0].address, 0);
    complete_all();
    assert_int_equal(net_stripe_host(&end.state, at, local, LEAST - 1, true, &taken), WEFT_OK);
    expect_rails(0, "0000"); /* too small to be spread */
    complete_all();
    /* Memory of the program stays registered until its last fragment has arrived. */
    for (int i = 0; i < END_RAILS; i++)
        end.net.rails[i].traits.registers_local = true;
    assert_int_equal(net_stripe_host(&end.state, at, local, LEAST, true, &taken), WEFT_OK);
    assert_int_equal(taken, LEAST);
    assert_non_null(end.net.striping.pins);
    complete_all();
    assert_null(end.net.striping.pins);
    for (int i = 0; i < END_RAILS; i++)
        end.net.rails[i].traits.registers_local = false;
    home[2].known = 0; /* the first rail, the current one, has no key */
    assert_int_equal(net_stripe_host(&end.state, at, local, LEAST, true, &taken), WEFT_OK);
    assert_int_equal(taken, 0);
    peer->link.rail = 2;
    assert_int_equal(net_stripe_host(&end.state, at, local, FRAGMENT, true, &taken), WEFT_OK);
    assert_int_equal(taken, FRAGMENT);
    expect_rails(0, "2");
    complete_all();
    keys[2 * NET_RAILS + peer->rails.peers[2]].known = 0;
    assert_int_equal(net_stripe_host(&end.state, at, local, FRAGMENT, true, &taken), WEFT_OK);
    assert_int_equal(taken, 0);
    assert_int_equal(end.access_count, 0);
    peer->failed = WEFT_ERR_PATH;
    peer->launcher_queried = true;
    home[2].answered = keys[2 * NET_RAILS].answered = 0;
    taken = 7;
    assert_int_equal(net_stripe_host(&end.state, at, local, FRAGMENT, true, &taken), WEFT_ERR_PATH);
    assert_int_equal(taken, 0);
    free(home);
    free(keys);
}

static void all_is_dropped_at_the_end(void **context)
{
    (void)context;
    transfer(14 * FRAGMENT, true, true);
    assert_int_equal(channel->writes, 14);
    net_stripe_close(&end.net);
    assert_int_equal(channel->writes, 0);
    assert_int_equal(end.net.striping.fragment_count, 0);
    for (int i = 0; i < END_RAILS; i++)
        assert_null(end.net.rails[i].fragments.first);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)
    const struct CMUnitTest tests[] = {
        CASE(transfers_are_cut),
        CASE(writes_are_confirmed),
        CASE(confirmations_wait),
        CASE(few_are_under_way_at_first),
        CASE(by_the_reported_speed),
        CASE(by_the_speed_that_was_measured),
        CASE(fragments_that_are_not_spread),
        CASE(who_takes_large_transfers),
        CASE(refused_for_now),
        CASE(refused_altogether),
        CASE(a_rail_fails),
        CASE(the_rail_of_messages_fails),
        CASE(fragments_of_a_failed_peer_are_dropped),
        CASE(no_rail_leads_there),
        CASE(a_peer_gives_a_rail_up),
        CASE(a_rail_stands_still),
        CASE(a_link_loses_its_carrier),
        CASE(a_rail_that_progresses_is_not_checked),
        CASE(a_peer_is_asked_once_to_close_a_rail),
        CASE(messages_move_when_their_rail_is_closed),
        CASE(reads_come_before_the_end),
        CASE(control_records_name_existing_rails),
        CASE(transfers_between_segments),
        CASE(all_is_dropped_at_the_end),
        CASE(the_speed_is_measured),
        CASE(a_slow_rail_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Failure of rails: closes them, and retransmits their fragments over others. stripe.h says what
 * makes that safe.
 *
 * A rail has failed if the provider reports an error, if its link has lost its carrier, or if it
 * has completed nothing for some time although the peer answers over the rail that carries
 * messages. A PE that gives a rail up asks the peers that it was writing to to close theirs; their
 * answer allows the retransmission. */
#include "path/net/hmem.h"
#include "path/net/stripe_piece.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

static int rail_index(const struct path_common *net, const struct net_rail *rail)
{
    return (int)(rail - net->rails);
}

/* ------------------------------------------------------------------------------ control records */

static void send_control(struct path_common *net, struct net_peer *peer, enum net_control_kind kind,
                         int rail)
{
    const struct net_control control = {.kind = (uint8_t)kind, .rail = (uint8_t)rail};
    struct net_record *record = net_add_answer(net, peer, sizeof control);
    if (!record)
        return;
    record->kind = NET_CONTROL;
    memcpy(net_payload(record), &control, sizeof control);
}

static void report_closed_rail(struct path_common *net, int rail)
{
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_peer *peer = &net->peers[pe];
        if (!(peer->rails.close_demanded >> rail & 1))
            continue;
        peer->rails.close_demanded &= (uint8_t) ~(1u << rail);
        send_control(net, peer, NET_CLOSED_RAIL, rail);
    }
}

/* The peer answers, so the rail has failed. */
static void warn_rail_failed(const struct path_common *net, struct net_rail *rail,
                             const struct net_peer *peer)
{
    if (rail->failure_reported)
        return;
    rail->failure_reported = true;
    log_warn(
        LOG_NET,
        "path net: %s is given up, since transfers to PE %d failed (provider %s): %s; %s continue "
        "over %s",
        net_interface_name(rail), peer->pe, net->provider, rail->cause,
        rail->carried_messages ? "messages and transfers" : "large transfers",
        net->rail_count > 2 && !rail->carried_messages
            ? "the others"
            : net_interface_name(&net->rails[peer->link.rail]));
}

static void mark_peer_rail_closed(struct path_common *net, struct net_peer *peer, int there)
{
    peer->rails.closed |= (uint8_t)(1u << there);
    for (int i = 0; i < net->rail_count; i++) {
        if (peer->rails.peers[i] == there && net->rails[i].cause[0])
            warn_rail_failed(net, &net->rails[i], peer);
        if (peer->rails.peers[i] == there)
            net_gpu_rail_lost(net, peer, i);
    }
}

void net_handle_control(struct path_common *net, struct net_peer *from,
                        const struct net_control *control)
{
    bool own = control->kind == NET_CLOSE_RAIL ||
               control->kind == NET_PEER_LIVE; /* otherwise the rail is one of the peer */
    if (control->rail >= (own ? net->rail_count : NET_RAILS))
        return;
    struct net_rail *rail = &net->rails[control->rail];
    switch ((enum net_control_kind)control->kind) {
    case NET_CLOSE_RAIL:
        from->rails.close_demanded |= (uint8_t)(1u << control->rail);
        if (!rail->endpoint)
            report_closed_rail(net, control->rail);
        else if (!rail->cause[0])
            snprintf(rail->cause, sizeof rail->cause, "PE %d has given it up", from->pe);
        break;
    case NET_CLOSED_RAIL:
        mark_peer_rail_closed(net, from, control->rail);
        break;
    case NET_PEER_QUERY:
        send_control(net, from, NET_PEER_LIVE, control->rail);
        break;
    case NET_PEER_LIVE:
        rail->liveness_confirmed = rail->liveness_requested;
        rail->stalled_ns = 0;
        break;
    case NET_PROBE:
    case NET_PROBE_REPLY: /* Probes have no sequence number; move.c handles them. */
        break;
    }
}

/* --------------------------------------------------------------------------------- failed rails */

void net_fail_rail(struct path_common *net, struct net_rail *rail, struct net_peer *peer,
                   const char *cause)
{
    char sentence[NET_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "a remote access at PE %d failed (provider %s on %s): %s",
             peer->pe, net->provider, net_interface_name(rail), cause);
    if (rail_index(net, rail) != peer->link.rail) {
        if (!rail->cause[0])
            snprintf(rail->cause, sizeof rail->cause, "%s", cause);
    } else if (!net_mark_suspected(net, peer, sentence, cause)) {
        net_give_up_peer(net, peer, sentence);
    }
}

void net_stripe_failed(struct path_common *net, struct net_rail *rail, struct net_post *post,
                       const char *cause)
{
    struct net_fragment *fragment = (struct net_fragment *)(void *)post;
    struct net_peer *peer = post->peer;
    fragment->phase = NET_LOST;
    if (fragment->proof && !peer->failed) {
        char sentence[NET_SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence,
                 "a remote access at PE %d failed (provider %s on %s): %s", peer->pe, net->provider,
                 net_interface_name(rail), cause);
        net_fragments_remove(&rail->fragments, fragment);
        rail->in_flight_bytes -= fragment->bytes;
        net_fragment_fail_proof(fragment, sentence);
    } else if (peer->failed) {
        net_stripe_drop_lost(net, peer);
    } else {
        net_fail_rail(net, rail, peer, cause);
    }
}

void net_request_close(struct path_common *net, struct net_peer *peer, int there)
{
    if (!(peer->rails.close_requested >> there & 1))
        send_control(net, peer, NET_CLOSE_RAIL, there);
    peer->rails.close_requested |= (uint8_t)(1u << there);
}

/* Queues the fragment for another rail. A write waits until the target PE has closed its end of
 * this rail, which it cannot if that end carries the messages between the two PEs. */
static void requeue_fragment(struct path_common *net, struct net_rail *rail,
                             struct net_fragment *fragment)
{
    struct net_peer *peer = fragment->post.peer;
    uint8_t there = peer->rails.peers[rail_index(net, rail)];
    char sentence[NET_SENTENCE_BYTES];
    if (fragment->write && there == peer->rails.peers[peer->link.rail]) {
        snprintf(sentence, sizeof sentence,
                 "a remote access at PE %d failed (provider %s on %s): %s", peer->pe, net->provider,
                 net_interface_name(rail), rail->cause);
        net_fail_peer(net, peer, WEFT_ERR_PATH, sentence);
    }
    if (peer->failed) {
        net_fragment_finish(fragment);
        return;
    }
    fragment->phase = NET_QUEUED;
    fragment->closing_rail = fragment->write ? (int8_t)there : -1;
    if (there != peer->rails.peers[peer->link.rail])
        net_request_close(net, peer, there);
    net_fragments_append(&net->striping.queued, fragment);
}

/* Reads the completions of messages that have arrived: ofi_rxm crashes if a message is completed
 * after the close. */
static void drain_rail(struct path_common *net, struct net_rail *rail)
{
    enum { ROUNDS = 64 };
    for (int i = 0; i < ROUNDS && net_read_rail(net, rail) > 0; i++)
        ;
}

/* Whether the rail must wait for its reads in flight, since closing it would crash. A live peer
 * answers them at once, or closes its own end, which ends them too. The wait is limited to 300
 * ms. */
static bool waits_for_reads(struct net_rail *rail, uint64_t ns)
{
    enum { MOST_NS = 300 * 1000 * 1000 };
    rail->read_wait_ns += ns;
    return rail->reads_in_flight && rail->traits.crashes_on_reads && rail->read_wait_ns < MOST_NS;
}

/* After the close nothing that came over the rail changes memory, so this PE reports it to its
 * peers. */
static void close_failed_rail(struct path_common *net, struct net_rail *rail)
{
    net_close_endpoint(rail);
    net_free_rail_memory(net, rail);
    net_reroute_peers(net, rail);
    net_stage_rail_closed(net, rail_index(net, rail));
    for (int pe = 0; pe < net->world->npes; pe++)
        net_gpu_rail_lost(net, &net->peers[pe], rail_index(net, rail));
    rail->in_flight_bytes = 0;
    rail->unconfirmed = 0;
    while (rail->fragments.first) {
        struct net_fragment *fragment = rail->fragments.first;
        net_fragments_remove(&rail->fragments, fragment);
        requeue_fragment(net, rail, fragment);
    }
    report_closed_rail(net, rail_index(net, rail));
    log_debug(LOG_NET, "path net: %s is %s: %s", net_interface_name(rail),
              rail->left_open ? "left open, with reads in flight" : "closed", rail->cause);
}

/* -------------------------------------------------------------------------------- stalled rails */

/* A peer that can tell whether the rail or the peer has failed. */
static struct net_peer *find_peer_using_rail(struct path_common *net, const struct net_rail *rail)
{
    const struct net_fragment *fragment =
        rail->fragments.first ? rail->fragments.first : net->striping.queued.first;
    return fragment ? fragment->post.peer : NULL;
}

static void check_rail(struct path_common *net, struct net_rail *rail, uint64_t ns)
{
    struct net_peer *peer = find_peer_using_rail(net, rail);
    if (!peer || (!rail->fragments.first && !rail->would_block)) {
        rail->stalled_ns = 0;
        return;
    }
    rail->stalled_ns += ns;
    if (rail->stalled_ns < (uint64_t)NET_FAILURE_TIMEOUT_S * 1000 * 1000 * 1000 ||
        (rail->liveness_requested && !rail->liveness_confirmed))
        return;
    if (rail->liveness_requested) {
        snprintf(rail->cause, sizeof rail->cause, "no transfer completed for %d s",
                 2 * NET_FAILURE_TIMEOUT_S);
        return;
    }
    rail->liveness_requested = true;
    send_control(net, peer, NET_PEER_QUERY, rail_index(net, rail));
}

/* Gives up a rail whose link has no carrier. The peers close their ends too: their operations in
 * flight get no further either. move.c decides on a rail that carries messages; while that one has
 * no carrier, no other rail is given up. */
static void give_up_without_carrier(struct path_common *net, struct net_rail *rail)
{
    int index = rail_index(net, rail);
    for (int pe = 0; pe < net->world->npes; pe++)
        if (net_is_begun(net, pe) && pe != net->world->pe &&
            net->rails[net->peers[pe].link.rail].down_ns)
            return;
    snprintf(rail->cause, sizeof rail->cause, "its link has no carrier");
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_peer *peer = &net->peers[pe];
        if (net_is_begun(net, pe) && pe != net->world->pe &&
            peer->rails.address[index] != FI_ADDR_NOTAVAIL &&
            peer->rails.peers[index] != peer->rails.peers[peer->link.rail])
            net_request_close(net, peer, peer->rails.peers[index]);
    }
}

/* Whether the rail carries the messages to the peers that have fragments on it; move.c checks
 * those. */
static bool is_message_rail(struct path_common *net, const struct net_rail *rail)
{
    const struct net_peer *peer = find_peer_using_rail(net, rail);
    return !peer || peer->link.rail == rail_index(net, rail);
}

void net_check_rails(struct path_common *net)
{
    uint64_t now = clock_now_ns(), ns = now - net->striping.checked_ns;
    net->striping.checked_ns = now;
    ns = ns < NET_CHECK_STEP_NS ? ns : NET_CHECK_STEP_NS;
    if (net->rail_count > 1)
        net_check_peers(net);
    for (int i = 0; i < net->rail_count; i++) {
        struct net_rail *rail = &net->rails[i];
        if (rail->endpoint && !rail->cause[0] && !is_message_rail(net, rail))
            check_rail(net, rail, ns);
        if (rail->endpoint && !rail->cause[0] && net_lacks_carrier(rail))
            give_up_without_carrier(net, rail);
        if (!rail->endpoint || !rail->cause[0])
            continue;
        drain_rail(net, rail);
        if (!waits_for_reads(rail, ns))
            close_failed_rail(net, rail);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the NIC that carries the messages to a peer, if there are several: the first one, until
 * it fails. Then the next one takes over, and all unacknowledged messages are retransmitted. The
 * receiver drops messages that it has already, by their sequence number, so that each request is
 * executed once and in order.
 *
 * A NIC counts as failed only if the peer answers a probe over another one; else the peer has
 * failed. A probe is sent when the provider reports an error, when the NIC's link has lost its
 * carrier, and when nothing has come from the peer for NET_FAILURE_TIMEOUT_S although something is
 * due. Probes go over the rail that they test, are not retransmitted, have no sequence number and
 * request no acknowledgement. */
#include "path/net/near.h"
#include "path/net/stripe_piece.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    CHECK_NS = 20 * 1000 * 1000,
    PROBE_NS = 1000 * 1000 * 1000,
    NO_CARRIER_NS = 150 * 1000 * 1000, /* A shorter interruption loses nothing. */
};
static const uint64_t timeout_ns = (uint64_t)NET_FAILURE_TIMEOUT_S * 1000 * 1000 * 1000;

/* --------------------------------------------------------------------------------- usable rails */

bool net_rail_usable(const struct path_common *net, const struct net_peer *peer, int rail)
{
    return net->rails[rail].endpoint && !net->rails[rail].cause[0] &&
           peer->rails.address[rail] != FI_ADDR_NOTAVAIL &&
           !(peer->rails.closed >> peer->rails.peers[rail] & 1);
}

int net_find_other_rail(const struct path_common *net, const struct net_peer *peer, int rail)
{
    for (int i = 0; i < net->rail_count; i++)
        if (i != rail && peer->rails.peers[i] != peer->rails.peers[rail] &&
            net_rail_usable(net, peer, i))
            return i;
    return -1;
}

/* ---------------------------------------------------------------------- unacknowledged messages */

void net_retain_message(struct net_peer *peer, struct net_message *message)
{
    if (message->unacknowledged || message->is_probe)
        return;
    message->unacknowledged = true;
    message->next_unacknowledged = peer->link.unacknowledged;
    peer->link.unacknowledged = message;
}

void net_release_acknowledged(struct path_common *net, struct net_peer *peer, uint64_t handled,
                              uint64_t answered)
{
    struct net_message **at = &peer->link.unacknowledged;
    while (*at) {
        struct net_message *message = *at;
        if (message->sequence >
            (net_message_head(message)->flags & NET_ANSWERS ? answered : handled)) {
            at = &message->next_unacknowledged;
            continue;
        }
        *at = message->next_unacknowledged;
        message->unacknowledged = false;
        net_release_message(net, message);
    }
}

void net_drop_unacknowledged(struct path_common *net, struct net_peer *peer)
{
    while (peer->link.unacknowledged) {
        struct net_message *message = peer->link.unacknowledged;
        peer->link.unacknowledged = message->next_unacknowledged;
        message->unacknowledged = false;
        net_release_message(net, message);
    }
}

/* --------------------------------------------------------------------------------------- probes */

static void reset_liveness(struct net_peer *peer)
{
    peer->link.silent_ns = peer->link.probed_ns = peer->link.live_ns = 0;
    peer->link.live_rails = peer->link.failed_probes = 0;
    peer->link.probed = false;
}

/* Sends a probe. False: the provider returned FI_EAGAIN or the rail is closed, and the caller tries
 * again later. */
static bool send_probe(struct path_common *net, struct net_peer *peer, int index,
                       enum net_control_kind kind)
{
    struct net_rail *rail = &net->rails[index];
    struct net_message *message = rail->endpoint ? net_new_message(net, peer) : NULL;
    if (!message)
        return false;
    const struct net_control control = {.kind = (uint8_t)kind};
    struct net_record *record = net_add_record(message, sizeof control);
    record->kind = NET_CONTROL;
    memcpy(net_payload(record), &control, sizeof control);
    message->is_probe = true;
    message->rail = (uint8_t)index;
    net_write_sequences(peer, message);
    ssize_t error = net_post_send(net, message, index);
    message->in_flight = !error;
    rail->sends_in_flight += !error;
    net_release_message(net, message);
    if (error && error != -FI_EAGAIN)
        net_mark_probe_failed(peer, index);
    return !error;
}

void net_answer_probe(struct path_common *net, struct net_peer *from, struct net_message *message)
{
    const struct net_record *record = (const void *)(message->bytes + sizeof(struct net_head));
    const struct net_control *control = (const void *)(record + 1);
    if (net_message_head(message)->bytes >=
            sizeof(struct net_head) + sizeof *record + sizeof *control &&
        record->kind == NET_CONTROL && control->kind == NET_PROBE)
        send_probe(net, from, message->rail, NET_PROBE_REPLY);
}

void net_mark_probe_failed(struct net_peer *peer, int rail)
{
    peer->link.failed_probes |= (uint8_t)(1u << rail);
}

void net_mark_live(struct net_peer *peer, int rail)
{
    if (rail == peer->link.rail && !peer->link.suspected_failure[0]) {
        reset_liveness(peer);
        return;
    }
    if (!peer->link.live_rails)
        peer->link.live_ns = peer->link.silent_ns;
    peer->link.live_rails |= (uint8_t)(1u << rail);
}

/* ---------------------------------------------------------------------------- failure detection */

bool net_mark_suspected(struct path_common *net, struct net_peer *peer, const char *sentence,
                        const char *cause)
{
    if (peer->failed || net_find_other_rail(net, peer, peer->link.rail) < 0)
        return false;
    if (peer->link.suspected_failure[0])
        return true;
    reset_liveness(peer);
    snprintf(peer->link.suspected_failure, sizeof peer->link.suspected_failure, "%s", sentence);
    snprintf(peer->link.suspected_cause, sizeof peer->link.suspected_cause, "%s", cause);
    return true;
}

void net_give_up_peer(struct path_common *net, struct net_peer *peer, const char *sentence)
{
    static const char none[] = "; no other NIC reaches it";
    char whole[NET_SENTENCE_BYTES];
    bool last = net->rail_count > 1 && net_find_other_rail(net, peer, peer->link.rail) < 0;
    snprintf(whole, sizeof whole, "%.*s%s", (int)(sizeof whole - sizeof none), sentence,
             last ? none : "");
    net_fail_peer(net, peer, WEFT_ERR_PATH, whole);
}

static void send_probes(struct path_common *net, struct net_peer *peer)
{
    if (peer->link.probed && peer->link.silent_ns - peer->link.probed_ns < PROBE_NS)
        return;
    bool all = true;
    bool failed =
        peer->link.suspected_failure[0] || net_lacks_carrier(&net->rails[peer->link.rail]);
    for (int i = 0; i < net->rail_count; i++)
        if (net_rail_usable(net, peer, i) && !(failed && i == peer->link.rail))
            all &= send_probe(net, peer, i, NET_PROBE);
    peer->link.probed = all;
    peer->link.probed_ns = peer->link.silent_ns;
}

/* Whether the probes over all other rails have failed. */
static bool all_probes_failed(const struct path_common *net, const struct net_peer *peer)
{
    for (int i = 0; i < net->rail_count; i++)
        if (i != peer->link.rail && net_rail_usable(net, peer, i) &&
            !(peer->link.failed_probes >> i & 1))
            return false;
    return true;
}

/* Whether something in flight to the peer cannot be retransmitted: direct RMA operations, writes
 * that are not confirmed and whose source may have been reused, and staged RMA operations on the
 * first rail. */
static bool has_unrecoverable(struct path_common *net, const struct net_peer *peer)
{
    return peer->link.directs || peer->requests.acknowledged < peer->link.unconfirmed_write ||
           net_stage_has_unrecoverable(net, peer);
}

/* Decides on a rail that has reported an error. */
static void check_suspected_rail(struct path_common *net, struct net_peer *peer)
{
    struct net_rail *rail = &net->rails[peer->link.rail];
    if (peer->link.live_rails) {
        snprintf(rail->cause, sizeof rail->cause, "%s", peer->link.suspected_cause);
    } else if (all_probes_failed(net, peer) || peer->link.silent_ns >= 2 * timeout_ns) {
        net_fail_peer(net, peer, WEFT_ERR_PATH, peer->link.suspected_failure);
    } else {
        send_probes(net, peer);
    }
}

/* Decides on a rail without a carrier. Operations that cannot be retransmitted get the time to
 * arrive after the carrier has come back. */
static void check_rail_without_carrier(struct path_common *net, struct net_peer *peer)
{
    struct net_rail *rail = &net->rails[peer->link.rail];
    if (!peer->link.live_rails)
        send_probes(net, peer);
    else if (!has_unrecoverable(net, peer) || rail->down_ns >= 2 * timeout_ns)
        snprintf(rail->cause, sizeof rail->cause, "its link has no carrier");
}

static bool expects_message(const struct net_peer *peer)
{
    return peer->requests.ack_requested > peer->requests.acknowledged ||
           peer->link.pending_answers || peer->link.fragments;
}

/* Requests an acknowledgement of messages that request none themselves: the sender of a store may
 * wait for what the peer does next, and if no answer is due, the loss of the store has no sign. */
static void acknowledge_old(struct path_common *net, struct net_peer *peer, uint64_t ns)
{
    const struct net_requests *requests = &peer->requests;
    bool open = requests->last_sent > requests->acknowledged &&
                requests->last_sent > requests->ack_requested;
    peer->link.unanswered_ns = open ? peer->link.unanswered_ns + ns : 0;
    if (peer->link.unanswered_ns >= PROBE_NS)
        net_flush_requests(net, peer, true);
}

static void check_peer(struct path_common *net, struct net_peer *peer, uint64_t ns)
{
    struct net_rail *rail = &net->rails[peer->link.rail];
    if (peer->failed || peer->pe == net->world->pe || rail->cause[0] ||
        net_find_other_rail(net, peer, peer->link.rail) < 0)
        return;
    peer->link.silent_ns += ns;
    acknowledge_old(net, peer, ns);
    if (peer->link.suspected_failure[0]) {
        check_suspected_rail(net, peer);
    } else if (net_lacks_carrier(rail)) {
        check_rail_without_carrier(net, peer);
    } else if (!expects_message(peer)) {
        reset_liveness(peer);
    } else if (peer->link.live_rails && peer->link.silent_ns - peer->link.live_ns >= timeout_ns) {
        snprintf(rail->cause, sizeof rail->cause, "nothing received for %llu s",
                 (unsigned long long)(peer->link.silent_ns / (1000 * 1000 * 1000)));
    } else if (peer->link.silent_ns >= timeout_ns) {
        send_probes(net, peer);
    }
}

bool net_lacks_carrier(const struct net_rail *rail)
{
    return rail->down_ns >= NO_CARRIER_NS;
}

static void check_carrier(struct net_rail *rail, uint64_t ns)
{
    const char *interface = rail->info->domain_attr->name;
    bool down = rail->endpoint && interface && net_is_down("", interface);
    rail->down_ns = down ? rail->down_ns + ns : 0;
}

void net_check_peers(struct path_common *net)
{
    uint64_t now = clock_now_ns(), ns = now - net->peers_checked_ns;
    if (ns < CHECK_NS)
        return;
    net->peers_checked_ns = now;
    ns = ns < NET_CHECK_STEP_NS ? ns : NET_CHECK_STEP_NS;
    for (int i = 0; i < net->rail_count; i++)
        check_carrier(&net->rails[i], ns);
    for (int pe = 0; pe < net->world->npes; pe++)
        if (net_is_begun(net, pe))
            check_peer(net, &net->peers[pe], ns);
}

/* ------------------------------------------------------------------------------- retransmission */

static void reroute_peer(struct path_common *net, struct net_peer *peer)
{
    struct net_rail *rail = &net->rails[peer->link.rail];
    int to = net_find_other_rail(net, peer, peer->link.rail);
    char sentence[NET_SENTENCE_BYTES];
    if (to < 0 || has_unrecoverable(net, peer)) {
        snprintf(sentence, sizeof sentence,
                 "PE %d cannot be reached any more (provider %s on %s): %s%s", peer->pe,
                 net->provider, net_interface_name(rail), rail->cause,
                 to < 0 ? "; no other NIC reaches it"
                        : "; operations in flight cannot be retransmitted over another NIC");
        net_fail_peer(net, peer, WEFT_ERR_PATH, sentence);
        return;
    }
    peer->link.rail = (uint8_t)to;
    peer->link.suspected_failure[0] = '\0';
    reset_liveness(peer);
    for (struct net_message *message = peer->link.unacknowledged, *next; message; message = next) {
        next = message->next_unacknowledged;
        if (!message->queued && !message->in_flight)
            net_send_message(net, message);
    }
}

void net_reroute_peers(struct path_common *net, struct net_rail *rail)
{
    int index = (int)(rail - net->rails);
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_peer *peer = net_get_peer(net, pe); /* Later messages avoid the rail, too. */
        for (struct net_message *message = peer->link.unacknowledged; message;
             message = message->next_unacknowledged)
            message->in_flight &= message->rail != index;
        if (peer->link.rail != index || peer->failed || pe == net->world->pe)
            continue;
        rail->carried_messages = true;
        net_request_close(net, peer, peer->rails.peers[index]);
        reroute_peer(net, peer);
    }
    rail->sends_in_flight = 0;
}

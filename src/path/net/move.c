/* SPDX-License-Identifier: Apache-2.0 */
/* Which NIC messages to a peer go over, when there are several: the first, until it fails. Then the
 * next takes its place, and whatever had been sent and was not known to have arrived goes again;
 * the receiver drops by its number what had come before, so that each request is carried out once
 * and in order.
 *
 * That a NIC has failed is only believed when the peer, probed over another one, is there: else it
 * is the peer that has failed. It is probed when the provider reports an error, or when for some
 * time nothing has come of the peer although something is due. Probes go over the rail that they
 * ask for, once, have no number, and tell of nothing. */
#include "path/net/stripe_piece.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_NS = 20 * 1000 * 1000, PROBE_NS = 1000 * 1000 * 1000 };
static const uint64_t patience_ns = (uint64_t)NET_PATIENCE_S * 1000 * 1000 * 1000;

/* ---------------------------------------------------------------------------------- which rails */

bool net_goes_over(const struct path_common *net, const struct net_peer *peer, int rail)
{
    return net->rails[rail].endpoint && !net->rails[rail].cause[0] &&
           peer->address[rail] != FI_ADDR_NOTAVAIL && !(peer->closed >> peer->there[rail] & 1);
}

int net_other_rail(const struct path_common *net, const struct net_peer *peer, int rail)
{
    for (int i = 0; i < net->rail_count; i++)
        if (i != rail && peer->there[i] != peer->there[rail] && net_goes_over(net, peer, i))
            return i;
    return -1;
}

/* --------------------------------------------------------------------------------- what is kept */

void net_keep(struct net_peer *peer, struct net_message *message)
{
    if (message->kept || message->probe)
        return;
    message->kept = true;
    message->next_kept = peer->kept;
    peer->kept = message;
}

static const struct net_head *head_of(const struct net_message *message)
{
    return (const struct net_head *)(const void *)message->bytes;
}

void net_arrived(struct path_common *net, struct net_peer *peer, uint64_t handled,
                 uint64_t answered)
{
    struct net_message **at = &peer->kept;
    while (*at) {
        struct net_message *message = *at;
        if (message->number > (head_of(message)->flags & NET_ANSWERS ? answered : handled)) {
            at = &message->next_kept;
            continue;
        }
        *at = message->next_kept;
        message->kept = false;
        net_let_go(net, message);
    }
}

void net_forget_kept(struct path_common *net, struct net_peer *peer)
{
    while (peer->kept) {
        struct net_message *message = peer->kept;
        peer->kept = message->next_kept;
        message->kept = false;
        net_let_go(net, message);
    }
}

/* --------------------------------------------------------------------------------------- probes */

static void look_anew(struct net_peer *peer)
{
    peer->stood_ns = peer->probed_ns = peer->alive_ns = 0;
    peer->alive = peer->refused = 0;
    peer->probed = false;
}

/* Whether the provider has taken it. What it refuses is asked for again. */
static bool probe(struct path_common *net, struct net_peer *peer, int number,
                  enum net_note_kind kind)
{
    struct net_rail *rail = &net->rails[number];
    struct net_message *message = rail->endpoint ? net_new_message(net, peer) : NULL;
    if (!message)
        return false;
    const struct net_note note = {.kind = (uint8_t)kind};
    struct net_record *record = net_add_record(message, sizeof note);
    record->kind = NET_NOTE;
    memcpy(net_behind(record), &note, sizeof note);
    message->probe = true;
    message->rail = (uint8_t)number;
    net_write_numbers(peer, message);
    ssize_t error =
        fi_send(rail->endpoint, message->bytes, head_of(message)->bytes,
                message->descriptors[number], peer->address[number], &message->post.context);
    message->in_flight = !error;
    rail->sending += !error;
    net_let_go(net, message);
    if (error && error != -FI_EAGAIN)
        net_probe_failed(peer, number);
    return !error;
}

void net_probe_came(struct path_common *net, struct net_peer *from, struct net_message *message)
{
    const struct net_record *record = (const void *)(message->bytes + sizeof(struct net_head));
    const struct net_note *note = (const void *)(record + 1);
    if (head_of(message)->bytes >= sizeof(struct net_head) + sizeof *record + sizeof *note &&
        record->kind == NET_NOTE && note->kind == NET_PROBE)
        probe(net, from, message->rail, NET_ALIVE);
}

void net_probe_failed(struct net_peer *peer, int rail)
{
    peer->refused |= (uint8_t)(1u << rail);
}

void net_heard(struct net_peer *peer, int rail)
{
    if (rail == peer->via && !peer->suspect[0]) {
        look_anew(peer);
        return;
    }
    if (!peer->alive)
        peer->alive_ns = peer->stood_ns;
    peer->alive |= (uint8_t)(1u << rail);
}

/* -------------------------------------------------------------------------------------- judging */

bool net_suspect(struct path_common *net, struct net_peer *peer, const char *sentence,
                 const char *cause)
{
    if (peer->failed || net_other_rail(net, peer, peer->via) < 0)
        return false;
    if (peer->suspect[0])
        return true;
    look_anew(peer);
    snprintf(peer->suspect, sizeof peer->suspect, "%s", sentence);
    snprintf(peer->cause, sizeof peer->cause, "%s", cause);
    return true;
}

void net_give_up(struct path_common *net, struct net_peer *peer, const char *sentence)
{
    static const char none[] = "; no NIC is left that leads there";
    char whole[NET_SENTENCE_BYTES];
    bool last = net->rail_count > 1 && net_other_rail(net, peer, peer->via) < 0;
    snprintf(whole, sizeof whole, "%.*s%s", (int)(sizeof whole - sizeof none), sentence,
             last ? none : "");
    net_fail_peer(net, peer, WEFT_ERR_PATH, whole);
}

static void probe_all(struct path_common *net, struct net_peer *peer)
{
    if (peer->probed && peer->stood_ns - peer->probed_ns < PROBE_NS)
        return;
    bool all = true;
    for (int i = 0; i < net->rail_count; i++)
        if (net_goes_over(net, peer, i) && !(peer->suspect[0] && i == peer->via))
            all &= probe(net, peer, i, NET_PROBE);
    peer->probed = all;
    peer->probed_ns = peer->stood_ns;
}

/* Every rail but its own over which it could be asked has refused. */
static bool all_refuse(const struct path_common *net, const struct net_peer *peer)
{
    for (int i = 0; i < net->rail_count; i++)
        if (i != peer->via && net_goes_over(net, peer, i) && !(peer->refused >> i & 1))
            return false;
    return true;
}

/* An error has been reported over its rail. */
static void look_at_suspect(struct path_common *net, struct net_peer *peer)
{
    struct net_rail *rail = &net->rails[peer->via];
    if (peer->alive) {
        snprintf(rail->cause, sizeof rail->cause, "%s", peer->cause);
    } else if (all_refuse(net, peer) || peer->stood_ns >= 2 * patience_ns) {
        net_fail_peer(net, peer, WEFT_ERR_PATH, peer->suspect);
    } else {
        probe_all(net, peer);
    }
}

static bool due(const struct net_peer *peer)
{
    return peer->asked > peer->done || peer->awaiting || peer->pieces;
}

static void look_at(struct path_common *net, struct net_peer *peer, uint64_t ns)
{
    struct net_rail *rail = &net->rails[peer->via];
    if (peer->failed || peer->pe == net->world->pe || rail->cause[0] ||
        net_other_rail(net, peer, peer->via) < 0)
        return;
    peer->stood_ns += ns;
    if (peer->suspect[0]) {
        look_at_suspect(net, peer);
    } else if (!due(peer)) {
        look_anew(peer);
    } else if (peer->alive && peer->stood_ns - peer->alive_ns >= patience_ns) {
        snprintf(rail->cause, sizeof rail->cause, "nothing has come for %llu s",
                 (unsigned long long)(peer->stood_ns / (1000 * 1000 * 1000)));
    } else if (peer->stood_ns >= patience_ns) {
        probe_all(net, peer);
    }
}

void net_look_at_peers(struct path_common *net)
{
    uint64_t now = clock_now_ns(), ns = now - net->peers_looked_ns;
    if (ns < LOOK_NS)
        return;
    net->peers_looked_ns = now;
    for (int pe = 0; pe < net->world->npes; pe++)
        look_at(net, &net->peers[pe], ns < NET_SLICE_NS ? ns : NET_SLICE_NS);
}

/* --------------------------------------------------------------------------------------- moving */

/* What of the peer nobody can send again: remote accesses that are no pieces, and writes whose
 * source may have been used for something else. */
static bool has_lost(struct path_common *net, const struct net_peer *peer)
{
    return peer->directs || peer->done < peer->loose || net_stage_loses(net, peer);
}

static void move(struct path_common *net, struct net_peer *peer)
{
    struct net_rail *rail = &net->rails[peer->via];
    int to = net_other_rail(net, peer, peer->via);
    char sentence[NET_SENTENCE_BYTES];
    if (to < 0 || has_lost(net, peer)) {
        snprintf(sentence, sizeof sentence,
                 "PE %d is not reached any more (provider %s on %s): %s%s", peer->pe, net->provider,
                 net_interface(rail), rail->cause,
                 to < 0 ? "; no NIC is left that leads there"
                        : "; what was under way cannot be sent again over another interface");
        net_fail_peer(net, peer, WEFT_ERR_PATH, sentence);
        return;
    }
    peer->via = (uint8_t)to;
    peer->suspect[0] = '\0';
    look_anew(peer);
    for (struct net_message *message = peer->kept, *next; message; message = next) {
        next = message->next_kept;
        if (!message->queued && !message->in_flight)
            net_send(net, message);
    }
}

void net_move_peers(struct path_common *net, struct net_rail *rail)
{
    int number = (int)(rail - net->rails);
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_peer *peer = &net->peers[pe];
        for (struct net_message *message = peer->kept; message; message = message->next_kept)
            message->in_flight &= message->rail != number;
        if (peer->via != number || peer->failed || pe == net->world->pe)
            continue;
        rail->carried = true;
        net_ask_to_close(net, peer, peer->there[number]);
        move(net, peer);
    }
    rail->sending = 0;
}

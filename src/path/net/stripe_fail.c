/* SPDX-License-Identifier: Apache-2.0 */
/* Rails that fail: they are closed, and what was under way on them goes again over others. See
 * stripe.h for what makes that safe.
 *
 * A rail has failed when the provider says so, or when for some time nothing has moved on it
 * although the peer, asked over the first rail, is there. A PE that gives a rail up asks the peers
 * it was writing to to close theirs; their answer lets the pieces go again. */
#include "path/net/hmem.h"
#include "path/net/stripe_piece.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

static int number_of(const struct path_common *net, const struct net_rail *rail)
{
    return (int)(rail - net->rails);
}

/* ---------------------------------------------------------------------------------------- notes */

static void send_note(struct path_common *net, struct net_peer *peer, enum net_note_kind kind,
                      int rail)
{
    const struct net_note note = {.kind = (uint8_t)kind, .rail = (uint8_t)rail};
    struct net_record *record = net_answer(net, peer, sizeof note);
    if (!record)
        return;
    record->kind = NET_NOTE;
    memcpy(net_behind(record), &note, sizeof note);
}

static void tell_closed(struct path_common *net, int rail)
{
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_peer *peer = &net->peers[pe];
        if (!(peer->wants_closed >> rail & 1))
            continue;
        peer->wants_closed &= (uint8_t) ~(1u << rail);
        send_note(net, peer, NET_CLOSED_RAIL, rail);
    }
}

/* The peer answers, so it is the rail that has failed. */
static void warn(const struct path_common *net, struct net_rail *rail, const struct net_peer *peer)
{
    if (rail->told)
        return;
    rail->told = true;
    log_warn(
        "path net: %s is given up, since what went to PE %d failed (provider %s): %s; %s go on "
        "over %s",
        net_interface(rail), peer->pe, net->provider, rail->cause,
        rail->carried ? "messages and transfers" : "large transfers",
        net->rail_count > 2 && !rail->carried ? "the others"
                                              : net_interface(&net->rails[peer->via]));
}

static void peer_closed(struct path_common *net, struct net_peer *peer, int there)
{
    peer->closed |= (uint8_t)(1u << there);
    for (int i = 0; i < net->rail_count; i++) {
        if (peer->there[i] == there && net->rails[i].cause[0])
            warn(net, &net->rails[i], peer);
        if (peer->there[i] == there)
            net_gpu_rail_lost(net, peer, i);
    }
}

void net_stripe_note(struct path_common *net, struct net_peer *from, const struct net_note *note)
{
    bool own = note->kind == NET_CLOSE_RAIL || note->kind == NET_HERE; /* else one of the peer */
    if (note->rail >= (own ? net->rail_count : NET_RAILS))
        return;
    struct net_rail *rail = &net->rails[note->rail];
    switch ((enum net_note_kind)note->kind) {
    case NET_CLOSE_RAIL:
        from->wants_closed |= (uint8_t)(1u << note->rail);
        if (!rail->endpoint)
            tell_closed(net, note->rail);
        else if (!rail->cause[0])
            snprintf(rail->cause, sizeof rail->cause, "PE %d has given it up", from->pe);
        break;
    case NET_CLOSED_RAIL:
        peer_closed(net, from, note->rail);
        break;
    case NET_ASK:
        send_note(net, from, NET_HERE, note->rail);
        break;
    case NET_HERE:
        rail->answered = rail->asked;
        rail->stood_ns = 0;
        break;
    case NET_PROBE:
    case NET_ALIVE: /* those come without a number (move.c) */
        break;
    }
}

/* ------------------------------------------------------------------------------------ giving up */

void net_rail_failed(struct path_common *net, struct net_rail *rail, struct net_peer *peer,
                     const char *cause)
{
    char sentence[NET_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "a remote access at PE %d failed (provider %s on %s): %s",
             peer->pe, net->provider, net_interface(rail), cause);
    if (number_of(net, rail) != peer->via) {
        if (!rail->cause[0])
            snprintf(rail->cause, sizeof rail->cause, "%s", cause);
    } else if (!net_suspect(net, peer, sentence, cause)) {
        net_give_up(net, peer, sentence);
    }
}

void net_stripe_failed(struct path_common *net, struct net_rail *rail, struct net_post *post,
                       const char *cause)
{
    struct net_piece *piece = (struct net_piece *)(void *)post;
    struct net_peer *peer = post->peer;
    piece->step = NET_LOST;
    if (piece->proof && !peer->failed) {
        char sentence[NET_SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence,
                 "a remote access at PE %d failed (provider %s on %s): %s", peer->pe, net->provider,
                 net_interface(rail), cause);
        net_pieces_remove(&rail->pieces, piece);
        rail->under_way -= piece->bytes;
        net_piece_unproven(piece, sentence);
    } else if (peer->failed) {
        net_stripe_forget(net, peer);
    } else {
        net_rail_failed(net, rail, peer, cause);
    }
}

void net_ask_to_close(struct path_common *net, struct net_peer *peer, int there)
{
    if (!(peer->asked_closed >> there & 1))
        send_note(net, peer, NET_CLOSE_RAIL, there);
    peer->asked_closed |= (uint8_t)(1u << there);
}

/* The piece waits for another rail, and, when it writes, for its owner to close this one; which it
 * cannot where that carries the messages between the two. */
static void go_again(struct path_common *net, struct net_rail *rail, struct net_piece *piece)
{
    struct net_peer *peer = piece->post.peer;
    uint8_t there = peer->there[number_of(net, rail)];
    char sentence[NET_SENTENCE_BYTES];
    if (piece->write && there == peer->there[peer->via]) {
        snprintf(sentence, sizeof sentence,
                 "a remote access at PE %d failed (provider %s on %s): %s", peer->pe, net->provider,
                 net_interface(rail), rail->cause);
        net_fail_peer(net, peer, WEFT_ERR_PATH, sentence);
    }
    if (peer->failed) {
        net_piece_finish(piece);
        return;
    }
    piece->step = NET_WAITING;
    piece->closing = piece->write ? (int8_t)there : -1;
    if (there != peer->there[peer->via])
        net_ask_to_close(net, peer, there);
    net_pieces_append(&net->pieces, piece);
}

/* What has come over it is taken first: ofi_rxm dies of a message that comes after. */
static void drain(struct path_common *net, struct net_rail *rail)
{
    enum { ROUNDS = 64 };
    for (int i = 0; i < ROUNDS && net_read_rail(net, rail) > 0; i++)
        ;
}

/* What it has asked for comes first, where it may not be closed before. A peer that is there sends
 * it at once, or closes its own end, which ends it too. */
static bool waits_for_reads(struct net_rail *rail, uint64_t ns)
{
    enum { MOST_NS = 300 * 1000 * 1000 };
    rail->unread_ns += ns;
    return rail->reads && rail->traits.dies_of_reads && rail->unread_ns < MOST_NS;
}

/* Nothing that came over it can move memory afterwards, so peers may be told. */
static void close_failed(struct path_common *net, struct net_rail *rail)
{
    net_close_endpoint(rail);
    net_free_rail_memory(net, rail);
    net_move_peers(net, rail);
    net_stage_rail_closed(net, number_of(net, rail));
    for (int pe = 0; pe < net->world->npes; pe++)
        net_gpu_rail_lost(net, &net->peers[pe], number_of(net, rail));
    rail->under_way = 0;
    rail->to_confirm = 0;
    while (rail->pieces.first) {
        struct net_piece *piece = rail->pieces.first;
        net_pieces_remove(&rail->pieces, piece);
        go_again(net, rail, piece);
    }
    tell_closed(net, number_of(net, rail));
    log_debug("path net: %s is %s: %s", net_interface(rail),
              rail->kept ? "left open, with reads under way" : "closed", rail->cause);
}

/* ------------------------------------------------------------------------------- standing still */

/* Somebody who could tell whether it is the rail or the peer. */
static struct net_peer *peer_on(struct path_common *net, const struct net_rail *rail)
{
    const struct net_piece *piece = rail->pieces.first ? rail->pieces.first : net->pieces.first;
    return piece ? piece->post.peer : NULL;
}

static void look_at(struct path_common *net, struct net_rail *rail, uint64_t ns)
{
    struct net_peer *peer = peer_on(net, rail);
    if (!peer || (!rail->pieces.first && !rail->refused)) {
        rail->stood_ns = 0;
        return;
    }
    rail->stood_ns += ns;
    if (rail->stood_ns < (uint64_t)NET_PATIENCE_S * 1000 * 1000 * 1000 ||
        (rail->asked && !rail->answered))
        return;
    if (rail->asked) {
        snprintf(rail->cause, sizeof rail->cause, "nothing has moved for %d s", 2 * NET_PATIENCE_S);
        return;
    }
    rail->asked = true;
    send_note(net, peer, NET_ASK, number_of(net, rail));
}

/* Whether messages to those go over it that have pieces on it: move.c looks at them. */
static bool rail_is_home(struct path_common *net, const struct net_rail *rail)
{
    const struct net_peer *peer = peer_on(net, rail);
    return !peer || peer->via == number_of(net, rail);
}

void net_rails_check(struct path_common *net)
{
    uint64_t now = clock_now_ns(), ns = now - net->looked_ns;
    net->looked_ns = now;
    ns = ns < NET_SLICE_NS ? ns : NET_SLICE_NS;
    if (net->rail_count > 1)
        net_look_at_peers(net);
    for (int i = 0; i < net->rail_count; i++) {
        struct net_rail *rail = &net->rails[i];
        if (rail->endpoint && !rail->cause[0] && !rail_is_home(net, rail))
            look_at(net, rail, ns);
        if (!rail->endpoint || !rail->cause[0])
            continue;
        drain(net, rail);
        if (!waits_for_reads(rail, ns))
            close_failed(net, rail);
    }
}

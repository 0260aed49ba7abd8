/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers over several NICs, piece by piece. See stripe.h; what happens when one fails is in
 * stripe_fail.c. */
#include "path/net/stage.h"
#include "path/net/stripe_piece.h"

#include "base/clock.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 256 << 10,
    UNDER_WAY_BYTES = 16 * PIECE_BYTES, /* on a rail: more wait for whichever is free first */
    FIRST_BYTES = 4 * PIECE_BYTES,      /* on one of which it is not known how fast it is */
    RATE_NS = 5 * 1000 * 1000,          /* a rail's rate is taken over at least so long, */
    SHORT_NS = 50 * 1000,               /* or over all that it had to do */
    RATE_BYTES = 32 << 10,              /* less tells of a round trip alone */
    TRY_NS = 20 * 1000 * 1000,          /* a rate as old as this may not hold any more */
};

/* ---------------------------------------------------------------------------------------- lists */

void net_pieces_append(struct net_pieces *list, struct net_piece *piece)
{
    piece->next = NULL;
    piece->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = piece;
    list->last = piece;
}

void net_pieces_remove(struct net_pieces *list, struct net_piece *piece)
{
    *(piece->previous ? &piece->previous->next : &list->first) = piece->next;
    *(piece->next ? &piece->next->previous : &list->last) = piece->previous;
}

/* ----------------------------------------------------------------------------------- completion */

static void count(struct net_piece *piece, int by)
{
    struct path_state *state = piece->state;
    struct net_channel *channel = net_touch(state, piece->post.peer->pe);
    *(piece->write ? &channel->writes : &channel->reads) += (uint32_t)by;
    channel->stripes += piece->write ? (uint32_t)by : 0;
    state->under_way += (uint32_t)by;
    state->net->stripes += by;
    piece->post.peer->pieces += (uint32_t)by;
}

/* It is in no list any more. */
void net_piece_finish(struct net_piece *piece)
{
    struct path_state *state = piece->state;
    count(piece, -1);
    net_drop_pin(state->net, piece->pin);
    if (piece->parcel)
        net_stage_came(piece->parcel);
    free(piece);
    net_drop_state(state);
}

/* What the rail gives while it is busy, for the choice among rails. */
static void take_rate(struct net_rail *rail, size_t bytes)
{
    uint64_t now = clock_now_ns(), ns = now - rail->busy_since;
    rail->moved += bytes;
    rail->stood_ns = 0;
    rail->asked = rail->answered = false;
    if (!rail->connected) { /* what was first had to wait for a connection: that is no rate */
        rail->connected = true;
        rail->moved = 0;
        rail->busy_since = now;
        return;
    }
    if (ns < (rail->pieces.first ? RATE_NS : SHORT_NS) || rail->moved < RATE_BYTES)
        return;
    /* Weighed by time: what comes in a burst after a pause is not taken for speed. */
    rail->bytes_lately = rail->bytes_lately * 3 / 4 + (double)rail->moved;
    rail->ns_lately = rail->ns_lately * 3 / 4 + (double)ns;
    rail->rate = rail->bytes_lately / rail->ns_lately;
    rail->rated_ns = now;
    rail->moved = 0;
    rail->busy_since = now;
}

static void leave(struct path_common *net, struct net_piece *piece)
{
    struct net_rail *rail = &net->rails[piece->rail];
    net_pieces_remove(&rail->pieces, piece);
    rail->under_way -= piece->bytes;
    take_rate(rail, piece->bytes);
}

/* It has carried nothing for so long that a piece is worth the try: what slowed it down may be
 * over. A twentieth of the time goes into that at most, by the rate as it was. */
static bool to_be_tried(const struct net_rail *rail)
{
    if (rail->rate <= 0 || rail->pieces.first)
        return false;
    double since = (double)(clock_now_ns() - rail->rated_ns);
    return since > TRY_NS && since > 20 * PIECE_BYTES / rail->rate;
}

static void enter(struct path_common *net, struct net_piece *piece)
{
    struct net_rail *rail = &net->rails[piece->rail];
    if (!rail->pieces.first) {
        if (to_be_tried(rail))
            rail->bytes_lately = rail->ns_lately = 0;
        rail->busy_since = clock_now_ns();
        rail->moved = 0;
    }
    net_pieces_append(&rail->pieces, piece);
    rail->under_way += piece->bytes;
}

/* -------------------------------------------------------------------------------------- posting */

/* For the piece, or for the few bytes of it that are read behind it: their coming says that it has
 * arrived. */
static ssize_t post(struct path_common *net, struct net_piece *piece, const struct net_key *key,
                    bool confirm)
{
    struct net_rail *rail = &net->rails[piece->rail];
    struct net_peer *peer = piece->post.peer;
    bool write = piece->write && !confirm;
    void *descriptor, *local = piece->local;
    if (confirm)
        local = net_rail_scratch(net, rail, &descriptor);
    else if (piece->ends)
        descriptor = piece->ends->descriptors[piece->rail];
    else
        descriptor = net_rail_descriptor(net, rail, local, piece->pin);
    size_t bytes = confirm ? 1 : piece->bytes;
    size_t offset = piece->ends ? piece->offset : piece->offset % NET_CHUNK_BYTES;
    struct iovec here = {local, bytes};
    struct fi_rma_iov there = {key->base + offset, bytes, key->key};
    struct fi_msg_rma message = {.msg_iov = &here,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = peer->address[piece->rail],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1};
    return local ? net_access(rail, &piece->post, &message, write) : -FI_ENOMEM;
}

/* They have been asked for before the piece was queued. */
static const struct net_key *key_of(const struct net_piece *piece, int rail)
{
    struct net_peer *peer = piece->post.peer;
    if (piece->ends)
        return &piece->ends->keys[peer->there[rail]];
    size_t chunk = piece->offset / NET_CHUNK_BYTES;
    return rail ? &peer->rail_keys[piece->segment][chunk * NET_RAILS + peer->there[rail]]
                : &peer->keys[piece->segment][chunk];
}

void net_piece_unproven(struct net_piece *piece, const char *cause)
{
    struct path_common *net = piece->state->net;
    snprintf(net->proof_failed, sizeof net->proof_failed, "%.*s", NET_WHY_BYTES - 1, cause);
    net_piece_finish(piece);
}

/* Whether the provider has taken it. A refusal other than for now gives the rail up, or, of a
 * proof, ends the piece: then *gone. */
static bool post_piece(struct path_common *net, struct net_piece *piece, bool confirm, bool *gone)
{
    struct net_rail *rail = &net->rails[piece->rail];
    ssize_t error = post(net, piece, key_of(piece, piece->rail), confirm);
    *gone = false;
    if (!error)
        piece->step = confirm ? NET_CONFIRMING : NET_MOVING;
    if (!error || error == -FI_EAGAIN)
        return !error;
    if (!piece->proof) {
        net_rail_failed(net, rail, piece->post.peer, net->lib->strerror((int)-error));
        return false;
    }
    net_refused(net, rail, piece->write && !confirm ? "fi_writemsg" : "fi_readmsg", (int)error);
    *gone = true;
    return false;
}

void net_stripe_completed(struct path_common *net, struct net_post *post)
{
    struct net_piece *piece = (struct net_piece *)(void *)post;
    struct net_rail *rail = &net->rails[piece->rail];
    bool gone = false;
    if (piece->step == NET_MOVING && piece->write && !rail->traits.confirmed) {
        piece->step = NET_MOVED;
        if (post_piece(net, piece, true, &gone))
            return;
        rail->to_confirm += !gone;
        if (!gone)
            return;
    }
    leave(net, piece);
    if (piece->rail == piece->post.peer->via)
        net_heard(piece->post.peer, piece->rail);
    if (gone)
        net_piece_unproven(piece, base_last_error());
    else
        net_piece_finish(piece);
}

/* ------------------------------------------------------------------------------- choice of rail */

static bool carries(const struct path_common *net, const struct net_piece *piece, int rail)
{
    return net_goes_over(net, piece->post.peer, rail) && key_of(piece, rail)->known &&
           (!piece->ends || piece->ends->reaches >> rail & 1);
}

bool net_ends_meet(const struct path_common *net, const struct net_peer *peer,
                   const struct net_ends *ends)
{
    for (int i = 0; i < net->rail_count; i++)
        if (net_goes_over(net, peer, i) && ends->reaches >> i & 1 &&
            ends->keys[peer->there[i]].known)
            return true;
    return false;
}

/* Until all rails have been measured, what they are told to give decides. */
static double rate_of(const struct path_common *net, const struct net_rail *rail)
{
    bool measured = true;
    for (int i = 0; i < net->rail_count; i++)
        measured &=
            net->rails[i].rate > 0 || !net->rails[i].endpoint || (i == 0 && !net->home_carries);
    return measured ? rail->rate : rail->mbps ? (double)rail->mbps : 1;
}

static bool has_room(const struct net_rail *rail)
{
    return rail->under_way < (rail->rate > 0 ? UNDER_WAY_BYTES : FIRST_BYTES);
}

/* The one that will have carried it first, of those that have not refused; for a piece that is not
 * spread, the peer's own, where that can carry it. Where no other can, that one too. -1 = it has no
 * room, and none other would be sooner. */
static int choose_rail(const struct path_common *net, const struct net_piece *piece,
                       uint32_t refused)
{
    int best = -1, via = piece->post.peer->via;
    double soonest = 0;
    bool any = false, own = !piece->spread && carries(net, piece, via);
    for (int i = net->home_carries ? 0 : 1; i < net->rail_count && !own; i++) {
        const struct net_rail *rail = &net->rails[i];
        bool leads = carries(net, piece, i);
        double time = (double)(rail->under_way + piece->bytes) / rate_of(net, rail);
        any |= leads;
        if (leads && !(refused >> i & 1) && to_be_tried(rail))
            return i;
        if (leads && !(refused >> i & 1) && (best < 0 || time < soonest)) {
            best = i;
            soonest = time;
        }
    }
    if (!any && !(refused >> via & 1) && carries(net, piece, via))
        best = via;
    return best >= 0 && has_room(&net->rails[best]) ? best : -1;
}

/* False: no rail takes it for now. */
static bool start(struct path_common *net, struct net_piece *piece, uint32_t *refused)
{
    int chosen;
    bool gone;
    while ((chosen = choose_rail(net, piece, *refused)) >= 0) {
        piece->rail = (uint8_t)chosen;
        net->rails[chosen].refused = !post_piece(net, piece, false, &gone);
        if (gone) {
            net->rails[chosen].refused = false;
            net_pieces_remove(&net->pieces, piece);
            net_piece_unproven(piece, base_last_error());
            return true;
        }
        if (net->rails[chosen].refused) {
            *refused |= 1u << chosen;
            continue;
        }
        net_pieces_remove(&net->pieces, piece);
        enter(net, piece);
        return true;
    }
    return false;
}

static void confirm_moved(struct path_common *net, struct net_rail *rail)
{
    bool gone;
    for (struct net_piece *piece = rail->pieces.first, *next; piece && rail->to_confirm;
         piece = next) {
        next = piece->next;
        if (piece->step != NET_MOVED)
            continue;
        bool posted = post_piece(net, piece, true, &gone);
        rail->to_confirm -= posted || gone;
        if (!gone)
            continue;
        leave(net, piece);
        net_piece_unproven(piece, base_last_error());
    }
}

/* No NIC that is left has the memory registered at both ends. */
static bool leads_nowhere(const struct path_common *net, const struct net_piece *piece)
{
    for (int i = 0; i < net->rail_count; i++)
        if (carries(net, piece, i))
            return false;
    return net_goes_over(net, piece->post.peer, piece->post.peer->via);
}

static void start_pieces(struct path_common *net)
{
    struct net_piece *piece = net->pieces.first, *next;
    uint32_t refused = 0;
    for (; piece; piece = next) {
        next = piece->next;
        if (piece->post.peer->failed) {
            net_pieces_remove(&net->pieces, piece);
            net_piece_finish(piece);
        } else if (unlikely(leads_nowhere(net, piece)) && piece->proof) {
            net_pieces_remove(&net->pieces, piece);
            net_piece_unproven(piece, "the NIC has failed");
        } else if (unlikely(leads_nowhere(net, piece)) && net_piece_waits(piece)) {
            continue;
        } else if (unlikely(leads_nowhere(net, piece)) && piece->parcel &&
                   net_stage_strays(piece->parcel)) {
            net_pieces_remove(&net->pieces, piece);
            net_piece_finish(piece);
        } else if (unlikely(leads_nowhere(net, piece))) {
            net_fail_peer(net, piece->post.peer, WEFT_ERR_PATH,
                          "no NIC that is left has the memory of a transfer registered");
        } else if (!net_piece_waits(piece) && !start(net, piece, &refused)) {
            return;
        }
    }
}

void net_stripe_advance(struct path_common *net)
{
    net_rails_check(net);
    for (int i = 0; i < net->rail_count; i++)
        if (net->rails[i].to_confirm && !net->rails[i].cause[0])
            confirm_moved(net, &net->rails[i]);
    if (net->pieces.first)
        start_pieces(net);
}

/* ------------------------------------------------------------------------------------- queueing */

bool net_stripes(const struct path_common *net, const struct net_peer *peer, size_t bytes)
{
    if (bytes < net->stripe_bytes)
        return false;
    for (int i = 1; i < net->rail_count; i++)
        if (net_goes_over(net, peer, i))
            return true;
    return false;
}

/* A copy of it. */
static weft_status queue_piece(struct net_piece content)
{
    struct net_piece *piece = malloc(sizeof *piece);
    if (!piece)
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for a transfer");
    *piece = content;
    piece->post.kind = NET_POST_STRIPE;
    piece->closing = -1;
    net_take_pin(piece->pin);
    count(piece, 1);
    net_pieces_append(&piece->state->net->pieces, piece);
    return WEFT_OK;
}

/* Cut into pieces; *pieces: how many were queued. */
static weft_status queue(struct net_piece whole, uint32_t *pieces)
{
    size_t most = whole.state->net->rails[0].traits.most, left = whole.bytes;
    most = most < PIECE_BYTES ? most : PIECE_BYTES;
    weft_status status = WEFT_OK;
    for (*pieces = 0; left && !status; left -= whole.bytes) {
        whole.bytes = left < most ? left : most;
        status = queue_piece(whole);
        *pieces += !status;
        whole.offset += whole.bytes;
        whole.local += whole.bytes;
    }
    return status;
}

weft_status net_stripe_transfer(struct path_state *state, const struct net_transfer *transfer,
                                uint32_t *pieces)
{
    return queue((struct net_piece){.post.peer = transfer->peer,
                                    .state = state,
                                    .parcel = transfer->parcel,
                                    .ends = transfer->ends,
                                    .local = transfer->local,
                                    .bytes = transfer->bytes,
                                    .write = transfer->write,
                                    .spread = transfer->spread,
                                    .proof = transfer->proof},
                 pieces);
}

/* Up to the ends of the chunks on both sides; the keys are known afterwards. *bytes 0: not over
 * rails. */
static weft_status prepare(struct path_state *state, struct remote at, void *local, bool write,
                           bool spread, size_t *bytes, struct net_pin **pin)
{
    struct path_common *net = state->net;
    struct net_peer *peer = &net->peers[at.peer->pe];
    size_t chunk = at.offset / NET_CHUNK_BYTES,
           left = NET_CHUNK_BYTES - at.offset % NET_CHUNK_BYTES;
    const struct net_key *keys;
    struct net_key home = {0};
    if (*bytes > left)
        *bytes = left;
    *pin = NULL;
    weft_status status = WEFT_OK;
    if (net_goes_over(net, peer, 0))
        status = net_peer_chunk(state, peer, at.segment, chunk, &home);
    if (!status)
        status = net_peer_rail_keys(state, peer, at.segment, chunk, &keys);
    /* Without that of its own rail it would have nowhere to go when another fails. */
    bool known = !status && (peer->via ? &keys[peer->there[peer->via]] : &home)->known;
    if (!known || !net_rail_local(net, local, bytes, write, spread ? pin : NULL))
        *bytes = 0;
    return status;
}

void net_stripe_forget(struct path_common *net, const struct net_peer *peer)
{
    for (int i = 0; i < net->rail_count; i++)
        for (struct net_piece *piece = net->rails[i].pieces.first, *next; piece; piece = next) {
            next = piece->next;
            if (piece->post.peer != peer || piece->step != NET_LOST)
                continue;
            net_pieces_remove(&net->rails[i].pieces, piece);
            net->rails[i].under_way -= piece->bytes;
            net_piece_finish(piece);
        }
}

weft_status net_stripe_move(struct path_state *state, struct remote at, void *local, size_t bytes,
                            bool write, size_t *taken)
{
    bool spread = net_stripes(state->net, &state->net->peers[at.peer->pe], bytes);
    size_t whole = bytes;
    struct net_pin *pin;
    weft_status status = prepare(state, at, local, write, spread, &whole, &pin);
    uint32_t pieces;
    *taken = status ? 0 : whole;
    if (!status)
        status = queue((struct net_piece){.post.peer = &state->net->peers[at.peer->pe],
                                          .state = state,
                                          .segment = (uint8_t)at.segment,
                                          .pin = pin,
                                          .write = write,
                                          .spread = spread,
                                          .offset = at.offset,
                                          .local = local,
                                          .bytes = whole},
                       &pieces);
    net_drop_pin(state->net, pin);
    net_stripe_advance(state->net);
    return status;
}

void net_stripe_close(struct path_common *net)
{
    for (int i = -1; i < net->rail_count; i++) {
        struct net_pieces *list = i < 0 ? &net->pieces : &net->rails[i].pieces;
        while (list->first) {
            struct net_piece *piece = list->first;
            net_pieces_remove(list, piece);
            net_piece_finish(piece);
        }
    }
}

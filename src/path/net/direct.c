/* SPDX-License-Identifier: Apache-2.0 */
/* Remote writes and reads of path net, between host memories: cut at the borders of registered
 * chunks, each piece posted at once, its completion counted in the context's channel to the peer.
 * Local memory that the provider wants registered and that is not, goes by way of registered
 * copies. */
#include "path/net/stripe.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { BOUNCE_BYTES = 64 << 10, BOUNCES_PER_SLAB = 8, DIRECTS_PER_SLAB = 64 };

/* A registered copy of what the local side has. */
struct net_bounce {
    struct net_bounce *next;
    void *descriptor;
    _Alignas(64) unsigned char bytes[BOUNCE_BYTES];
};

/* A piece of an operation. */
struct piece {
    struct remote at;
    void *local;
    size_t bytes;
    bool write;
};

/* ------------------------------------------------------------------------------- what is reused */

static struct net_direct *take_direct(struct path_common *net)
{
    void *descriptor;
    if (!net->free_directs) {
        struct net_direct *slab = net_slab(net, DIRECTS_PER_SLAB * sizeof *slab, &descriptor);
        for (int i = 0; slab && i < DIRECTS_PER_SLAB; i++) {
            slab[i].next = net->free_directs;
            net->free_directs = &slab[i];
        }
    }
    struct net_direct *direct = net->free_directs;
    if (direct)
        net->free_directs = direct->next;
    return direct;
}

static struct net_bounce *take_bounce(struct path_common *net)
{
    void *descriptor;
    if (!net->free_bounces) {
        struct net_bounce *slab = net_slab(net, BOUNCES_PER_SLAB * sizeof *slab, &descriptor);
        for (int i = 0; slab && i < BOUNCES_PER_SLAB; i++) {
            slab[i].descriptor = descriptor;
            slab[i].next = net->free_bounces;
            net->free_bounces = &slab[i];
        }
    }
    struct net_bounce *bounce = net->free_bounces;
    if (bounce)
        net->free_bounces = bounce->next;
    return bounce;
}

static void give_back(struct path_common *net, struct net_direct *direct)
{
    if (direct->bounce) {
        direct->bounce->next = net->free_bounces;
        net->free_bounces = direct->bounce;
    }
    direct->next = net->free_directs;
    net->free_directs = direct;
}

/* ----------------------------------------------------------------------------------- local side */

void *net_own_descriptor(struct path_common *net, const void *local, size_t *bytes)
{
    for (int s = 0; s < SEG_COUNT; s++) {
        uintptr_t base = (uintptr_t)net->world->map[net->world->pe][s];
        size_t offset = (uintptr_t)local - base;
        if (!base || offset >= net->world->sizes[s])
            continue;
        struct fid_mr *chunk =
            net_own_chunk(net, (enum segment_id)s, offset / NET_CHUNK_BYTES, NULL);
        size_t left = NET_CHUNK_BYTES - offset % NET_CHUNK_BYTES;
        if (*bytes > left)
            *bytes = left;
        return chunk ? fi_mr_desc(chunk) : NULL;
    }
    return NULL;
}

/* Finds or makes a local side that the provider takes. */
static weft_status prepare_local(struct path_common *net, struct piece *piece,
                                 struct net_direct *direct, void **local, void **descriptor)
{
    *local = piece->local;
    *descriptor = NULL;
    direct->bounce = NULL;
    if (!net->rails[0].traits.registers_local)
        return WEFT_OK;
    *descriptor = net_own_descriptor(net, piece->local, &piece->bytes);
    if (*descriptor)
        return WEFT_OK;
    direct->bounce = take_bounce(net);
    if (!direct->bounce)
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no registered memory for a copy");
    if (piece->bytes > BOUNCE_BYTES)
        piece->bytes = BOUNCE_BYTES;
    if (piece->write)
        memcpy(direct->bounce->bytes, piece->local, piece->bytes);
    direct->to = piece->local;
    *local = direct->bounce->bytes;
    *descriptor = direct->bounce->descriptor;
    return WEFT_OK;
}

/* -------------------------------------------------------------------------------------- posting */

static ssize_t post(struct path_common *net, const struct piece *piece, const struct net_key *key,
                    struct net_direct *direct, void *local, void *descriptor)
{
    struct iovec here = {local, piece->bytes};
    struct fi_rma_iov there = {key->base + piece->at.offset % NET_CHUNK_BYTES, piece->bytes,
                               key->key};
    struct fi_msg_rma message = {.msg_iov = &here,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = direct->post.peer->address[0],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1};
    return net_access(&net->rails[0], &direct->post, &message, piece->write);
}

static void count(struct path_state *state, const struct net_direct *direct, int by)
{
    struct net_channel *channel = net_touch(state, direct->post.peer->pe);
    uint32_t *number = direct->write ? &channel->writes : &channel->reads;
    *number += (uint32_t)by;
    state->under_way += (uint32_t)by;
    direct->post.peer->directs += (uint32_t)by;
    if (!direct->write || state->net->rails[0].traits.confirmed)
        return;
    channel->unconfirmed = true;
    direct->post.peer->loose = direct->post.peer->sent + 1;
}

static weft_status move_by_requests(struct path_state *state, const struct piece *piece)
{
    return piece->write ? net_put_by_requests(state, piece->at, piece->local, piece->bytes)
                        : net_get_by_requests(state, piece->at, piece->local, piece->bytes);
}

static weft_status post_piece(struct path_state *state, struct piece *piece,
                              const struct net_key *key)
{
    struct path_common *net = state->net;
    struct net_peer *peer = &net->peers[piece->at.peer->pe];
    struct net_direct *direct = take_direct(net);
    void *local, *descriptor;
    if (!direct)
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for an operation");
    direct->post.kind = NET_POST_DIRECT;
    direct->post.peer = peer;
    direct->state = state;
    direct->write = piece->write;
    weft_status status = prepare_local(net, piece, direct, &local, &descriptor);
    direct->bytes = piece->bytes;
    ssize_t error = -FI_EAGAIN;
    struct path_wait wait = net_waiting(net, peer, BOX_OP_PUT, 0);
    while (!status && net_goes_over(net, peer, 0) &&
           (error = post(net, piece, key, direct, local, descriptor)) == -FI_EAGAIN)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    if (!status && error == -FI_EAGAIN) { /* the NIC has been closed during the wait */
        give_back(net, direct);
        return move_by_requests(state, piece);
    }
    if (!status && error) {
        status = net_refused(net, &net->rails[0], piece->write ? "fi_writemsg" : "fi_readmsg",
                             (int)error);
        net_fail_peer(net, peer, WEFT_ERR_PATH, base_last_error());
        status = net_failure(net, peer);
    }
    if (status)
        give_back(net, direct);
    else
        count(state, direct, 1);
    return status;
}

/* Cuts off the next piece, as far as the peer's chunk and the provider go. */
static struct piece next_piece(const struct path_common *net, const struct piece *whole)
{
    struct piece piece = *whole;
    size_t left = NET_CHUNK_BYTES - whole->at.offset % NET_CHUNK_BYTES;
    if (piece.bytes > left)
        piece.bytes = left;
    if (piece.bytes > net->rails[0].traits.most)
        piece.bytes = net->rails[0].traits.most;
    return piece;
}

static void advance(struct piece *whole, size_t bytes)
{
    whole->bytes -= bytes;
    whole->at.offset += bytes;
    whole->local = (char *)whole->local + bytes;
}

static weft_status move_next(struct path_state *state, struct piece *piece)
{
    struct net_peer *peer = &state->net->peers[piece->at.peer->pe];
    struct net_key key;
    weft_status status =
        net_peer_chunk(state, peer, piece->at.segment, piece->at.offset / NET_CHUNK_BYTES, &key);
    if (status)
        return status;
    if (key.known && net_goes_over(state->net, peer, 0))
        return post_piece(state, piece, &key);
    return move_by_requests(state, piece);
}

static weft_status move(struct path_state *state, struct piece whole)
{
    const struct net_peer *peer = &state->net->peers[whole.at.peer->pe];
    bool pieces = peer->via || net_other_rail(state->net, peer, peer->via) >= 0 ||
                  net_stripes(state->net, peer, whole.bytes);
    weft_status status = WEFT_OK;
    while (whole.bytes && !status) {
        size_t striped = 0;
        if (pieces)
            status =
                net_stripe_move(state, whole.at, whole.local, whole.bytes, whole.write, &striped);
        advance(&whole, striped);
        if (status || striped)
            continue;
        struct piece piece = next_piece(state->net, &whole);
        status = move_next(state, &piece);
        advance(&whole, piece.bytes);
    }
    return status;
}

weft_status net_write(struct path_state *state, struct remote to, const void *src, size_t bytes)
{
    return move(state, (struct piece){to, (void *)src, bytes, true});
}

weft_status net_read(struct path_state *state, struct remote from, void *dst, size_t bytes)
{
    return move(state, (struct piece){from, dst, bytes, false});
}

void net_direct_done(struct path_common *net, struct net_direct *direct, bool well)
{
    struct path_state *state = direct->state;
    struct net_channel *channel = &state->channels[direct->post.peer->pe];
    if (well && direct->bounce && !direct->write)
        memcpy(direct->to, direct->bounce->bytes, direct->bytes);
    if (direct->write)
        channel->writes--;
    else
        channel->reads--;
    direct->post.peer->directs--;
    give_back(net, direct);
    state->under_way--;
    net_drop_state(state);
}

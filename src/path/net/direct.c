/* SPDX-License-Identifier: Apache-2.0 */
/* RMA writes and reads of path net between host memories. A transfer is cut at the borders of
 * registered chunks; each fragment is posted at once, and counted in the context's channel to the
 * peer. A local side that the provider requires to be registered, but is not, goes through bounce
 * buffers. */
#include "path/net/stripe.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { BOUNCE_BYTES = 64 << 10, BOUNCES_PER_SLAB = 8, DIRECTS_PER_SLAB = 64 };

/* A registered bounce buffer for the local side. */
struct net_bounce {
    struct net_bounce *next;
    void *descriptor;
    _Alignas(64) unsigned char bytes[BOUNCE_BYTES];
};

/* A fragment of a transfer. */
struct direct_fragment {
    struct remote at;
    void *local;
    size_t bytes;
    bool write;
};

/* ----------------------------------------------------------------------------------- free lists */

static struct net_direct *alloc_direct(struct path_common *net)
{
    void *descriptor;
    if (!net->free_directs) {
        struct net_direct *slab = net_alloc_slab(net, DIRECTS_PER_SLAB * sizeof *slab, &descriptor);
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

static struct net_bounce *alloc_bounce(struct path_common *net)
{
    void *descriptor;
    if (!net->free_bounces) {
        struct net_bounce *slab = net_alloc_slab(net, BOUNCES_PER_SLAB * sizeof *slab, &descriptor);
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

static void free_direct(struct path_common *net, struct net_direct *direct)
{
    if (direct->bounce) {
        direct->bounce->next = net->free_bounces;
        net->free_bounces = direct->bounce;
    }
    direct->next = net->free_directs;
    net->free_directs = direct;
}

/* ----------------------------------------------------------------------------------- local side */

void *net_get_own_descriptor(struct path_common *net, const void *local, size_t *bytes)
{
    for (int s = 0; s < SEG_COUNT; s++) {
        uintptr_t base = (uintptr_t)net->world->map[net->world->pe][s];
        size_t offset = (uintptr_t)local - base;
        if (!base || offset >= net->world->sizes[s])
            continue;
        struct fid_mr *chunk =
            net_get_own_chunk(net, (enum segment_id)s, offset / NET_CHUNK_BYTES, NULL);
        size_t left = NET_CHUNK_BYTES - offset % NET_CHUNK_BYTES;
        if (*bytes > left)
            *bytes = left;
        return chunk ? fi_mr_desc(chunk) : NULL;
    }
    return NULL;
}

/* Uses the local side in place, or takes a bounce buffer and copies the source of a put into it. */
static weft_status prepare_direct_local(struct path_common *net, struct direct_fragment *fragment,
                                        struct net_direct *direct, void **local, void **descriptor)
{
    *local = fragment->local;
    *descriptor = NULL;
    direct->bounce = NULL;
    if (!net->rails[0].traits.registers_local)
        return WEFT_OK;
    *descriptor = net_get_own_descriptor(net, fragment->local, &fragment->bytes);
    if (*descriptor)
        return WEFT_OK;
    direct->bounce = alloc_bounce(net);
    if (!direct->bounce)
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no registered memory for a copy");
    if (fragment->bytes > BOUNCE_BYTES)
        fragment->bytes = BOUNCE_BYTES;
    if (fragment->write)
        memcpy(direct->bounce->bytes, fragment->local, fragment->bytes);
    direct->destination = fragment->local;
    *local = direct->bounce->bytes;
    *descriptor = direct->bounce->descriptor;
    return WEFT_OK;
}

/* -------------------------------------------------------------------------------------- posting */

static ssize_t post_direct(struct path_common *net, const struct direct_fragment *fragment,
                           const struct net_key *key, struct net_direct *direct, void *local,
                           void *descriptor)
{
    struct iovec here = {local, fragment->bytes};
    struct fi_rma_iov there = {key->base + fragment->at.offset % NET_CHUNK_BYTES, fragment->bytes,
                               key->key};
    struct fi_msg_rma message = {.msg_iov = &here,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = direct->post.peer->rails.address[0],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1};
    return net_post_rma(&net->rails[0], &direct->post, &message, fragment->write);
}

static void count_direct(struct net_state *state, const struct net_direct *direct, int by)
{
    struct net_channel *channel = net_touch_channel(state, direct->post.peer->pe);
    uint32_t *counter = direct->write ? &channel->writes : &channel->reads;
    *counter += (uint32_t)by;
    state->in_flight += (uint32_t)by;
    direct->post.peer->link.directs += (uint32_t)by;
    if (!direct->write || state->net->rails[0].traits.delivery_complete)
        return;
    channel->unconfirmed = true;
    direct->post.peer->link.unconfirmed_write = direct->post.peer->requests.last_sent + 1;
}

static weft_status transfer_by_requests(struct net_state *state,
                                        const struct direct_fragment *fragment)
{
    return fragment->write
               ? net_put_by_requests(state, fragment->at, fragment->local, fragment->bytes)
               : net_get_by_requests(state, fragment->at, fragment->local, fragment->bytes);
}

static weft_status try_post_direct(struct net_state *state, struct direct_fragment *fragment,
                                   const struct net_key *key)
{
    struct path_common *net = state->net;
    struct net_peer *peer = &net->peers[fragment->at.peer->pe];
    struct net_direct *direct = alloc_direct(net);
    void *local, *descriptor;
    if (!direct)
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for an operation");
    direct->post.kind = NET_POST_DIRECT;
    direct->post.peer = peer;
    direct->state = state;
    direct->write = fragment->write;
    weft_status status = prepare_direct_local(net, fragment, direct, &local, &descriptor);
    direct->bytes = fragment->bytes;
    ssize_t error = -FI_EAGAIN;
    struct path_wait wait = net_make_wait(net, peer, BOX_OP_PUT, 0);
    while (!status && net_rail_usable(net, peer, 0) &&
           (error = post_direct(net, fragment, key, direct, local, descriptor)) == -FI_EAGAIN)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    if (!status && error == -FI_EAGAIN) { /* The rail was closed during the wait. */
        free_direct(net, direct);
        return transfer_by_requests(state, fragment);
    }
    if (!status && error) {
        status = net_call_failed(net, &net->rails[0],
                                 fragment->write ? "fi_writemsg" : "fi_readmsg", (int)error);
        net_fail_peer(net, peer, WEFT_ERR_PATH, base_last_error());
        status = net_check_failure(net, peer);
    }
    if (status)
        free_direct(net, direct);
    else
        count_direct(state, direct, 1);
    return status;
}

/* The next fragment, cut at the end of the peer's chunk and at the provider's largest operation. */
static struct direct_fragment cut_fragment(const struct path_common *net,
                                           const struct direct_fragment *whole)
{
    struct direct_fragment fragment = *whole;
    size_t left = NET_CHUNK_BYTES - whole->at.offset % NET_CHUNK_BYTES;
    if (fragment.bytes > left)
        fragment.bytes = left;
    if (fragment.bytes > net->rails[0].traits.max_bytes)
        fragment.bytes = net->rails[0].traits.max_bytes;
    return fragment;
}

static void skip_bytes(struct direct_fragment *whole, size_t bytes)
{
    whole->bytes -= bytes;
    whole->at.offset += bytes;
    whole->local = (char *)whole->local + bytes;
}

static weft_status transfer_fragment(struct net_state *state, struct direct_fragment *fragment)
{
    struct net_peer *peer = &state->net->peers[fragment->at.peer->pe];
    struct net_key key;
    weft_status status = net_get_peer_key(state, peer, fragment->at.segment,
                                          fragment->at.offset / NET_CHUNK_BYTES, &key);
    if (status)
        return status;
    if (key.known && net_rail_usable(state->net, peer, 0))
        return try_post_direct(state, fragment, &key);
    return transfer_by_requests(state, fragment);
}

static weft_status transfer_direct(struct net_state *state, struct direct_fragment whole)
{
    const struct net_peer *peer = &state->net->peers[whole.at.peer->pe];
    bool as_fragments = peer->link.rail ||
                        net_find_other_rail(state->net, peer, peer->link.rail) >= 0 ||
                        net_is_striped(state->net, peer, whole.bytes);
    weft_status status = WEFT_OK;
    while (whole.bytes && !status) {
        size_t striped = 0;
        if (as_fragments)
            status =
                net_stripe_host(state, whole.at, whole.local, whole.bytes, whole.write, &striped);
        skip_bytes(&whole, striped);
        if (status || striped)
            continue;
        struct direct_fragment fragment = cut_fragment(state->net, &whole);
        status = transfer_fragment(state, &fragment);
        skip_bytes(&whole, fragment.bytes);
    }
    return status;
}

weft_status net_write(struct net_state *state, struct remote to, const void *src, size_t bytes)
{
    return transfer_direct(state, (struct direct_fragment){to, (void *)src, bytes, true});
}

weft_status net_read(struct net_state *state, struct remote from, void *dst, size_t bytes)
{
    return transfer_direct(state, (struct direct_fragment){from, dst, bytes, false});
}

void net_direct_done(struct path_common *net, struct net_direct *direct, bool well)
{
    struct net_state *state = direct->state;
    struct net_channel *channel = &state->channels[direct->post.peer->pe];
    if (well && direct->bounce && !direct->write)
        memcpy(direct->destination, direct->bounce->bytes, direct->bytes);
    if (direct->write)
        channel->writes--;
    else
        channel->reads--;
    direct->post.peer->link.directs--;
    free_direct(net, direct);
    state->in_flight--;
    net_drop_state(state);
}

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

/* Uses the local side in place, or takes a bounce buffer and copies the source of a put into it.
 * here: what the NIC accesses; it is cut at the end of the registration or of the bounce buffer. */
static weft_status prepare_direct_local(struct path_common *net, void *local,
                                        struct net_direct *direct, struct iovec *here,
                                        void **descriptor)
{
    *descriptor = NULL;
    direct->bounce = NULL;
    here->iov_base = local;
    if (!net->rails[0].traits.registers_local)
        return WEFT_OK;
    *descriptor = net_get_host_descriptor(net, &net->rails[0], local, &here->iov_len);
    if (*descriptor)
        return WEFT_OK;
    direct->bounce = alloc_bounce(net);
    if (!direct->bounce)
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no registered memory for a copy");
    if (here->iov_len > BOUNCE_BYTES)
        here->iov_len = BOUNCE_BYTES;
    if (direct->write)
        memcpy(direct->bounce->bytes, local, here->iov_len);
    direct->destination = local;
    here->iov_base = direct->bounce->bytes;
    *descriptor = direct->bounce->descriptor;
    return WEFT_OK;
}

/* -------------------------------------------------------------------------------------- posting */

static ssize_t post_direct(struct path_common *net, struct net_direct *direct,
                           const struct iovec *here, void *descriptor, const struct net_key *key,
                           size_t offset)
{
    struct fi_rma_iov there = {key->base + offset % NET_CHUNK_BYTES, here->iov_len, key->key};
    struct fi_msg_rma message = {.msg_iov = here,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = direct->post.peer->rails.address[0],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1};
    return net_post_rma(&net->rails[0], &direct->post, &message, direct->write);
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

/* Posts the fragment as one RMA operation. *bytes is cut where the local side ends; 0: the rail was
 * closed during the wait, and nothing is posted. */
static weft_status try_post_direct(struct net_state *state, struct remote at, void *local,
                                   size_t *bytes, bool write, const struct net_key *key)
{
    struct path_common *net = state->net;
    struct net_peer *peer = net_get_peer(net, at.peer->pe);
    struct net_direct *direct = alloc_direct(net);
    struct iovec here = {.iov_len = *bytes};
    void *descriptor;
    if (!direct)
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for an operation");
    direct->post.kind = NET_POST_DIRECT;
    direct->post.peer = peer;
    direct->state = state;
    direct->write = write;
    weft_status status = prepare_direct_local(net, local, direct, &here, &descriptor);
    direct->bytes = *bytes = here.iov_len;
    ssize_t error = -FI_EAGAIN;
    struct path_wait wait = net_make_wait(net, peer, BOX_OP_PUT, 0);
    while (!status && net_rail_usable(net, peer, 0) &&
           (error = post_direct(net, direct, &here, descriptor, key, at.offset)) == -FI_EAGAIN)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    bool closed = !status && error == -FI_EAGAIN;
    if (!status && error && !closed) {
        (void)net_call_failed(net, &net->rails[0], write ? "fi_writemsg" : "fi_readmsg",
                              (int)error);
        net_fail_peer(net, peer, WEFT_ERR_PATH, base_last_error());
        status = net_check_failure(net, peer);
    }
    if (closed)
        *bytes = 0;
    if (status || closed)
        free_direct(net, direct);
    else
        count_direct(state, direct, 1);
    return status;
}

/* Transfers one fragment, in messages if no RMA operation can be posted. *bytes is cut at the end
 * of the peer's chunk, at the provider's largest operation and where the local side ends. */
static weft_status transfer_fragment(struct net_state *state, struct remote at, void *local,
                                     size_t *bytes, bool write)
{
    struct net_peer *peer = net_get_peer(state->net, at.peer->pe);
    size_t left = NET_CHUNK_BYTES - at.offset % NET_CHUNK_BYTES,
           most = state->net->rails[0].traits.max_bytes, posted = 0;
    struct net_key key;
    if (*bytes > left)
        *bytes = left;
    if (*bytes > most)
        *bytes = most;
    weft_status status =
        net_get_peer_key(state, peer, at.segment, at.offset / NET_CHUNK_BYTES, &key);
    if (!status && key.known && net_rail_usable(state->net, peer, 0)) {
        posted = *bytes;
        status = try_post_direct(state, at, local, &posted, write, &key);
    }
    if (!status && !posted)
        return write ? net_put_by_requests(state, at, local, *bytes)
                     : net_get_by_requests(state, at, local, *bytes);
    *bytes = posted;
    return status;
}

static weft_status transfer_direct(struct net_state *state, struct remote at, void *local,
                                   size_t bytes, bool write)
{
    const struct net_peer *peer = net_get_peer(state->net, at.peer->pe);
    bool as_fragments = peer->link.rail ||
                        net_find_other_rail(state->net, peer, peer->link.rail) >= 0 ||
                        net_is_striped(state->net, peer, bytes);
    weft_status status = WEFT_OK;
    while (bytes && !status) {
        size_t step_bytes = 0;
        if (as_fragments)
            status = net_stripe_host(state, at, local, bytes, write, &step_bytes);
        if (!status && !step_bytes) {
            step_bytes = bytes;
            status = transfer_fragment(state, at, local, &step_bytes, write);
        }
        bytes -= step_bytes;
        at.offset += step_bytes;
        local = (char *)local + step_bytes;
    }
    return status;
}

weft_status net_write(struct net_state *state, struct remote to, const void *src, size_t bytes)
{
    return transfer_direct(state, to, (void *)src, bytes, true);
}

weft_status net_read(struct net_state *state, struct remote from, void *dst, size_t bytes)
{
    return transfer_direct(state, from, dst, bytes, false);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The per-peer state of a context, and how fence and quiet use it: which operations must have
 * arrived before the next one starts, and when all of them have. It depends on no kind of
 * operation. */
#include "path/net/net.h"

#include "base/status.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------- contexts */

struct net_channel *net_touch_channel(struct net_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    if (!channel->touched) {
        channel->touched = true;
        state->touched[state->touched_count++] = pe;
    }
    return channel;
}

void net_free_state(struct net_state *state)
{
    free(state->channels);
    free(state->touched);
    free(state);
}

/* Frees a closed context that no operation points to. */
void net_drop_state(struct net_state *state)
{
    if (likely(!state->closed) || state->in_flight)
        return;
    struct net_state **at = &state->net->closed_states;
    while (*at != state)
        at = &(*at)->next;
    *at = state->next;
    net_free_state(state);
}

weft_status net_open_state(const struct path_world *world, struct path_state **result)
{
    struct net_state *state = calloc(1, sizeof *state);
    if (state) {
        state->net = world->common[PATH_NET];
        state->channels = calloc((size_t)world->npes, sizeof *state->channels);
        state->touched = calloc((size_t)world->npes, sizeof *state->touched);
    }
    if (!state || !state->channels || !state->touched) {
        if (state)
            net_free_state(state);
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for a context");
    }
    *result = (struct path_state *)state;
    return WEFT_OK;
}

/* Operations that no quiet has completed may be lost. */
void net_close_state(struct path_state *opaque)
{
    struct net_state *state = net_state_of(opaque);
    struct path_common *net = state->net;
    net_lock(net);
    state->closed = true;
    net->progress.poller = net->progress.poller == state ? NULL : net->progress.poller;
    state->next = net->closed_states;
    net->closed_states = state;
    net_drop_state(state);
    pthread_mutex_unlock(&net->lock);
}

/* ---------------------------------------------------------------------------------------- fence */

/* Waits until `count`, of the channel to the peer or of the context, is 0. */
static weft_status await_zero(struct net_state *state, struct net_peer *peer,
                              enum box_operation operation, const uint32_t *count)
{
    struct path_wait wait = net_make_wait(state->net, peer, operation, 0);
    weft_status status = WEFT_OK;
    while (!status && *count)
        status = net_wait(state->net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

weft_status net_await_writes(struct net_state *state, struct net_peer *peer)
{
    return await_zero(state, peer, BOX_OP_PUT, &state->channels[peer->pe].writes);
}

weft_status net_await_reads(struct net_state *state, struct net_peer *peer)
{
    return await_zero(state, peer, BOX_OP_GET, &state->channels[peer->pe].reads);
}

weft_status net_await_staged_sources(struct net_state *state, struct net_peer *peer)
{
    return await_zero(state, peer, BOX_OP_PUT, &state->channels[peer->pe].sources_in_use);
}

weft_status net_await_sources(struct net_state *state, struct net_peer *peer)
{
    weft_status status = net_await_staged_sources(state, peer);
    return status ? status : net_await_writes(state, peer);
}

/* Waits until the peer has been notified of all staged puts: from then on they are ordered as
 * messages or writes. */
static weft_status await_notifications(struct net_state *state, struct net_peer *peer)
{
    return await_zero(state, peer, BOX_OP_PUT, &state->channels[peer->pe].unnotified);
}

void net_fence_channel(const struct path_common *net, struct net_channel *channel)
{
    channel->fence_message = channel->last_message;
    channel->fence_unnotified = channel->unnotified > 0;
    channel->fence_writes = (net->rails[0].traits.delivery_complete && channel->writes > 0) ||
                            channel->striped_writes > 0;
}

/* Waits for the fence: messages follow the writes in front of them, or else those writes must have
 * arrived. */
weft_status net_order_request(struct net_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    if (likely(!channel->fence_writes && !channel->fence_unnotified))
        return WEFT_OK;
    weft_status status = channel->fence_unnotified ? await_notifications(state, peer) : WEFT_OK;
    if (channel->fence_unnotified)
        net_fence_channel(state->net, channel);
    if (status || !channel->fence_writes)
        return status;
    channel->fence_writes = false;
    return net_await_writes(state, peer);
}

/* An RMA write would overtake requests that the peer has not executed yet. */
weft_status net_order_write(struct net_state *state, struct net_peer *peer)
{
    struct net_channel *channel = &state->channels[peer->pe];
    weft_status status = net_order_request(state, peer);
    if (!status && channel->fence_message > peer->requests.acknowledged)
        status = net_await_acknowledged(state->net, peer, channel->fence_message);
    return status;
}

/* ----------------------------------------------------------------------------------- completion */

static weft_status return_failure(struct net_state *state)
{
    weft_status failed = state->failed;
    state->failed = WEFT_OK;
    return failed ? base_fail(failed, "%s", state->sentence) : WEFT_OK;
}

/* Requests an acknowledgement for everything that the context has sent to the peer. */
static void request_acknowledgement(struct net_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    struct net_peer *peer = net_get_peer(state->net, pe);
    peer->requests.guessed_quiet = false;
    if (channel->unconfirmed) {
        /* The acknowledgement of a message after the writes confirms them. */
        if (!peer->requests.open)
            peer->requests.ack_requested = peer->requests.ack_requested < peer->requests.last_sent
                                               ? peer->requests.ack_requested
                                               : peer->requests.last_sent - 1;
        net_flush_requests(state->net, peer, true);
        channel->last_message = peer->requests.last_sent;
        channel->unconfirmed = false;
    } else if (channel->last_message > peer->requests.acknowledged &&
               channel->last_message > peer->requests.ack_requested) {
        peer->requests.quiet_follows =
            !peer->requests.open && peer->requests.last_sent - peer->requests.ack_requested == 1;
        net_flush_requests(state->net, peer, true);
    }
}

static weft_status complete_peer(struct net_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    struct net_peer *peer = net_get_peer(state->net, pe);
    weft_status status = net_await_writes(state, peer);
    if (!status)
        status = net_await_reads(state, peer);
    if (!status && channel->last_message > peer->requests.acknowledged)
        status = net_await_acknowledged(state->net, peer, channel->last_message);
    if (!status)
        status = net_check_failure(state->net, peer);
    return status;
}

/* Channels that another thread has used during the wait stay in the list. */
static void drop_idle_channels(struct net_state *state)
{
    int remaining = 0;
    for (int i = 0; i < state->touched_count; i++) {
        int pe = state->touched[i];
        struct net_channel *channel = &state->channels[pe];
        channel->touched = channel->writes || channel->reads || channel->unconfirmed ||
                           channel->unnotified || channel->sources_in_use ||
                           channel->last_message > state->net->peers[pe].requests.acknowledged;
        if (channel->touched)
            state->touched[remaining++] = pe;
    }
    state->touched_count = remaining;
}

static weft_status await_operations(struct net_state *state)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < state->touched_count && !status; i++) {
        struct net_peer *peer = net_get_peer(state->net, state->touched[i]);
        status = await_zero(state, peer, BOX_OP_QUIET, &state->in_flight);
    }
    return status;
}

/* Waits until the peer has been notified of all staged puts, and until the writes that the next
 * message confirms have arrived. */
static weft_status prepare_quiet(struct net_state *state, int pe)
{
    struct net_channel *channel = &state->channels[pe];
    struct net_peer *peer = net_get_peer(state->net, pe);
    weft_status status = await_notifications(state, peer);
    if (!status && channel->confirm_after_writes)
        status = net_await_writes(state, peer);
    channel->confirm_after_writes = false;
    return status;
}

weft_status net_complete_context(struct net_state *state)
{
    weft_status status = WEFT_OK, failure;
    for (int i = 0; i < state->touched_count && !status; i++)
        status = prepare_quiet(state, state->touched[i]);
    for (int i = 0; i < state->touched_count; i++)
        request_acknowledgement(state, state->touched[i]);
    for (int i = 0; i < state->touched_count && !status; i++)
        status = complete_peer(state, state->touched[i]);
    if (!status && state->in_flight)
        status = await_operations(state);
    failure = return_failure(state);
    drop_idle_channels(state);
    return failure ? failure : status;
}

weft_status net_order_context(struct net_state *state)
{
    weft_status status = return_failure(state);
    for (int i = 0; i < state->touched_count; i++) {
        int pe = state->touched[i];
        net_fence_channel(state->net, &state->channels[pe]);
        if (!status)
            status = net_check_failure(state->net, &state->net->peers[pe]);
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers over several NICs (stripe.h). stripe_fail.c handles the failure of a NIC. */
#include "path/net/stage.h"
#include "path/net/stripe_piece.h"

#include "base/clock.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAGMENT_BYTES = 256 << 10,
    IN_FLIGHT_BYTES = 16 * FRAGMENT_BYTES, /* bytes in flight on a rail; further fragments wait for
                                              the rail that is free first */
    UNMEASURED_BYTES = 4 * FRAGMENT_BYTES, /* the same on a rail whose rate is unknown */
    /* Time over which a rate is measured at least, if the rail stays busy. */
    RATE_NS = 5 * 1000 * 1000,
    RATE_LEAST_NS = 50 * 1000,        /* the same if the rail has become idle */
    RATE_BYTES = 32 << 10,            /* fewer bytes measure the round trip only */
    RATE_VALID_NS = 20 * 1000 * 1000, /* age at which a rate may no longer hold */
};

/* ---------------------------------------------------------------------------------------- lists */

void net_fragments_append(struct net_fragment_list *list, struct net_fragment *fragment)
{
    fragment->next = NULL;
    fragment->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = fragment;
    list->last = fragment;
}

void net_fragments_remove(struct net_fragment_list *list, struct net_fragment *fragment)
{
    *(fragment->previous ? &fragment->previous->next : &list->first) = fragment->next;
    *(fragment->next ? &fragment->next->previous : &list->last) = fragment->previous;
}

/* ----------------------------------------------------------------------------------- completion */

static void count_fragment(struct net_fragment *fragment, int by)
{
    struct net_state *state = fragment->state;
    struct net_channel *channel = net_touch_channel(state, fragment->post.peer->pe);
    *(fragment->write ? &channel->writes : &channel->reads) += (uint32_t)by;
    channel->striped_writes += fragment->write ? (uint32_t)by : 0;
    state->in_flight += (uint32_t)by;
    state->net->striping.fragment_count += by;
    fragment->post.peer->link.fragments += (uint32_t)by;
}

/* Ends a fragment that is in no list. */
void net_fragment_finish(struct net_fragment *fragment)
{
    struct net_state *state = fragment->state;
    count_fragment(fragment, -1);
    net_release_pin(state->net, fragment->pin);
    if (fragment->staged)
        net_stage_fragment_done(fragment->staged);
    free(fragment);
    net_drop_state(state);
}

/* Measures the rate of the rail while it is busy, for the choice among rails. */
static void measure_rate(struct net_rail *rail, size_t bytes)
{
    uint64_t now = clock_now_ns(), ns = now - rail->busy_since_ns;
    rail->moved_bytes += bytes;
    rail->stalled_ns = 0;
    rail->liveness_requested = rail->liveness_confirmed = false;
    if (!rail->connected) { /* The first fragment waited for a connection, so its time measures no
                               rate. */
        rail->connected = true;
        rail->moved_bytes = 0;
        rail->busy_since_ns = now;
        return;
    }
    if (ns < (rail->fragments.first ? RATE_NS : RATE_LEAST_NS) || rail->moved_bytes < RATE_BYTES)
        return;
    /* Weighted by time, so that a burst after a pause does not count as speed. */
    rail->rate_bytes = rail->rate_bytes * 3 / 4 + (double)rail->moved_bytes;
    rail->rate_ns = rail->rate_ns * 3 / 4 + (double)ns;
    rail->bytes_per_ns = rail->rate_bytes / rail->rate_ns;
    rail->measured_ns = now;
    rail->moved_bytes = 0;
    rail->busy_since_ns = now;
}

static void remove_from_rail(struct path_common *net, struct net_fragment *fragment)
{
    struct net_rail *rail = &net->rails[fragment->rail];
    net_fragments_remove(&rail->fragments, fragment);
    rail->in_flight_bytes -= fragment->bytes;
    measure_rate(rail, fragment->bytes);
}

/* Whether an idle rail should carry a fragment to measure its rate again: what slowed it down may
 * have ended. At the old rate, a twentieth of the time goes into that at most. */
static bool should_measure_again(const struct net_rail *rail)
{
    if (rail->bytes_per_ns <= 0 || rail->fragments.first)
        return false;
    double since = (double)(clock_now_ns() - rail->measured_ns);
    return since > RATE_VALID_NS && since > 20 * FRAGMENT_BYTES / rail->bytes_per_ns;
}

static void add_to_rail(struct path_common *net, struct net_fragment *fragment)
{
    struct net_rail *rail = &net->rails[fragment->rail];
    if (!rail->fragments.first) {
        if (should_measure_again(rail))
            rail->rate_bytes = rail->rate_ns = 0;
        rail->busy_since_ns = clock_now_ns();
        rail->moved_bytes = 0;
    }
    net_fragments_append(&rail->fragments, fragment);
    rail->in_flight_bytes += fragment->bytes;
}

/* -------------------------------------------------------------------------------------- posting */

/* Posts the fragment, or the read of one byte that confirms its arrival. */
static ssize_t post_fragment(struct path_common *net, struct net_fragment *fragment,
                             const struct net_key *key, bool confirm)
{
    struct net_rail *rail = &net->rails[fragment->rail];
    struct net_peer *peer = fragment->post.peer;
    bool write = fragment->write && !confirm;
    void *descriptor, *local = fragment->local;
    size_t bytes = confirm ? 1 : fragment->bytes;
    if (confirm)
        local = net_get_rail_scratch(net, rail, &descriptor);
    else if (fragment->ends)
        descriptor = fragment->ends->descriptors[fragment->rail];
    else if (fragment->pin)
        descriptor = net_get_pin_descriptor(net, rail, fragment->pin);
    else
        descriptor = net_get_host_descriptor(net, rail, local, &bytes);
    size_t offset = fragment->ends ? fragment->offset : fragment->offset % NET_CHUNK_BYTES;
    struct iovec here = {local, bytes};
    struct fi_rma_iov there = {key->base + offset, bytes, key->key};
    struct fi_msg_rma message = {.msg_iov = &here,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = peer->rails.address[fragment->rail],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1};
    return local ? net_post_rma(rail, &fragment->post, &message, write) : -FI_ENOMEM;
}

/* The keys were requested before the fragment was queued. */
static const struct net_key *find_fragment_key(const struct net_fragment *fragment, int rail)
{
    struct net_peer *peer = fragment->post.peer;
    if (fragment->ends)
        return &fragment->ends->keys[peer->rails.peers[rail]];
    size_t chunk = fragment->offset / NET_CHUNK_BYTES;
    return rail ? &peer->rails.keys[fragment->segment][chunk * NET_RAILS + peer->rails.peers[rail]]
                : &peer->keys[fragment->segment][chunk];
}

void net_fragment_fail_proof(struct net_fragment *fragment, const char *cause)
{
    struct path_common *net = fragment->state->net;
    snprintf(net->proof_failed, sizeof net->proof_failed, "%.*s", NET_REASON_BYTES - 1, cause);
    net_fragment_finish(fragment);
}

/* Posts the fragment. False: the provider returned FI_EAGAIN, or an error. An error fails the rail;
 * in a path test it ends the fragment, and sets *ended. */
static bool try_post_fragment(struct path_common *net, struct net_fragment *fragment, bool confirm,
                              bool *ended)
{
    struct net_rail *rail = &net->rails[fragment->rail];
    ssize_t error =
        post_fragment(net, fragment, find_fragment_key(fragment, fragment->rail), confirm);
    *ended = false;
    if (!error)
        fragment->phase = confirm ? NET_CONFIRMING : NET_POSTED;
    if (!error || error == -FI_EAGAIN)
        return !error;
    if (!fragment->proof) {
        net_fail_rail(net, rail, fragment->post.peer, net->lib->strerror((int)-error));
        return false;
    }
    net_call_failed(net, rail, fragment->write && !confirm ? "fi_writemsg" : "fi_readmsg",
                    (int)error);
    *ended = true;
    return false;
}

void net_stripe_completed(struct path_common *net, struct net_post *post)
{
    struct net_fragment *fragment = (struct net_fragment *)(void *)post;
    struct net_rail *rail = &net->rails[fragment->rail];
    bool ended = false;
    if (fragment->phase == NET_POSTED && fragment->write && !rail->traits.delivery_complete) {
        fragment->phase = NET_UNCONFIRMED;
        if (try_post_fragment(net, fragment, true, &ended))
            return;
        rail->unconfirmed += !ended;
        if (!ended)
            return;
    }
    remove_from_rail(net, fragment);
    if (fragment->rail == fragment->post.peer->link.rail)
        net_mark_live(fragment->post.peer, fragment->rail);
    if (ended)
        net_fragment_fail_proof(fragment, base_last_error());
    else
        net_fragment_finish(fragment);
}

/* ------------------------------------------------------------------------------- choice of rail */

static bool can_carry(const struct path_common *net, const struct net_fragment *fragment, int rail)
{
    return net_rail_usable(net, fragment->post.peer, rail) &&
           find_fragment_key(fragment, rail)->known &&
           (!fragment->ends || fragment->ends->rails >> rail & 1);
}

bool net_ends_share_rail(const struct path_common *net, const struct net_peer *peer,
                         const struct net_ends *ends)
{
    for (int i = 0; i < net->rail_count; i++)
        if (net_rail_usable(net, peer, i) && ends->rails >> i & 1 &&
            ends->keys[peer->rails.peers[i]].known)
            return true;
    return false;
}

/* The measured rate. While some rail has no measured rate, the speed that the link reports, for all
 * rails. */
static double estimate_rate(const struct path_common *net, const struct net_rail *rail)
{
    bool measured = true;
    for (int i = 0; i < net->rail_count; i++)
        measured &= net->rails[i].bytes_per_ns > 0 || !net->rails[i].endpoint ||
                    (i == 0 && !net->first_rail_carries);
    return measured ? rail->bytes_per_ns : rail->mbps ? (double)rail->mbps : 1;
}

static bool has_capacity(const struct net_rail *rail)
{
    return rail->in_flight_bytes < (rail->bytes_per_ns > 0 ? IN_FLIGHT_BYTES : UNMEASURED_BYTES);
}

/* The rail that will complete the fragment first, among those that did not block. A fragment that
 * is not spread uses the peer's current rail if that can carry it; so does a fragment that no other
 * rail can carry. -1: that rail has no capacity left. */
static int choose_rail(const struct path_common *net, const struct net_fragment *fragment,
                       uint32_t blocked)
{
    int best = -1, current = fragment->post.peer->link.rail;
    double soonest = 0;
    bool any = false, own = !fragment->spread && can_carry(net, fragment, current);
    for (int i = net->first_rail_carries ? 0 : 1; i < net->rail_count && !own; i++) {
        const struct net_rail *rail = &net->rails[i];
        bool usable = can_carry(net, fragment, i);
        double time = (double)(rail->in_flight_bytes + fragment->bytes) / estimate_rate(net, rail);
        any |= usable;
        if (usable && !(blocked >> i & 1) && should_measure_again(rail))
            return i;
        if (usable && !(blocked >> i & 1) && (best < 0 || time < soonest)) {
            best = i;
            soonest = time;
        }
    }
    if (!any && !(blocked >> current & 1) && can_carry(net, fragment, current))
        best = current;
    return best >= 0 && has_capacity(&net->rails[best]) ? best : -1;
}

/* False: every rail blocks for now. */
static bool start_fragment(struct path_common *net, struct net_fragment *fragment,
                           uint32_t *blocked)
{
    int chosen;
    bool ended;
    while ((chosen = choose_rail(net, fragment, *blocked)) >= 0) {
        fragment->rail = (uint8_t)chosen;
        net->rails[chosen].would_block = !try_post_fragment(net, fragment, false, &ended);
        if (ended) {
            net->rails[chosen].would_block = false;
            net_fragments_remove(&net->striping.queued, fragment);
            net_fragment_fail_proof(fragment, base_last_error());
            return true;
        }
        if (net->rails[chosen].would_block) {
            *blocked |= 1u << chosen;
            continue;
        }
        net_fragments_remove(&net->striping.queued, fragment);
        add_to_rail(net, fragment);
        return true;
    }
    return false;
}

static void confirm_writes(struct path_common *net, struct net_rail *rail)
{
    bool ended;
    for (struct net_fragment *fragment = rail->fragments.first, *next;
         fragment && rail->unconfirmed; fragment = next) {
        next = fragment->next;
        if (fragment->phase != NET_UNCONFIRMED)
            continue;
        bool posted = try_post_fragment(net, fragment, true, &ended);
        rail->unconfirmed -= posted || ended;
        if (!ended)
            continue;
        remove_from_rail(net, fragment);
        net_fragment_fail_proof(fragment, base_last_error());
    }
}

/* Whether no NIC that is left has both ends registered. */
static bool has_no_rail(const struct path_common *net, const struct net_fragment *fragment)
{
    for (int i = 0; i < net->rail_count; i++)
        if (can_carry(net, fragment, i))
            return false;
    return net_rail_usable(net, fragment->post.peer, fragment->post.peer->link.rail);
}

/* No NIC can carry the fragment any more. */
static void end_stranded(struct path_common *net, struct net_fragment *fragment)
{
    if (fragment->proof) {
        net_fragments_remove(&net->striping.queued, fragment);
        net_fragment_fail_proof(fragment, "the NIC has failed");
    } else if (net_fragment_awaits_close(fragment)) {
        return;
    } else if (fragment->staged && net_stage_retransmit(fragment->staged)) {
        net_fragments_remove(&net->striping.queued, fragment);
        net_fragment_finish(fragment);
    } else {
        net_fail_peer(net, fragment->post.peer, WEFT_ERR_PATH,
                      "no remaining NIC has the memory of a transfer registered");
    }
}

static void start_fragments(struct path_common *net)
{
    struct net_fragment *fragment = net->striping.queued.first, *next;
    uint32_t blocked = 0;
    for (; fragment; fragment = next) {
        next = fragment->next;
        if (fragment->post.peer->failed) {
            net_fragments_remove(&net->striping.queued, fragment);
            net_fragment_finish(fragment);
        } else if (unlikely(has_no_rail(net, fragment))) {
            end_stranded(net, fragment);
        } else if (!net_fragment_awaits_close(fragment) &&
                   !start_fragment(net, fragment, &blocked)) {
            return;
        }
    }
}

void net_stripe_advance(struct path_common *net)
{
    net_check_rails(net);
    for (int i = 0; i < net->rail_count; i++)
        if (net->rails[i].unconfirmed && !net->rails[i].cause[0])
            confirm_writes(net, &net->rails[i]);
    if (net->striping.queued.first)
        start_fragments(net);
}

/* ------------------------------------------------------------------------------------- queueing */

bool net_is_striped(const struct path_common *net, const struct net_peer *peer, size_t bytes)
{
    if (bytes < net->striping.least_bytes)
        return false;
    for (int i = 1; i < net->rail_count; i++)
        if (net_rail_usable(net, peer, i))
            return true;
    return false;
}

/* A copy of `content`, which is in no list yet. It holds the pin, and counts in the channel. */
static struct net_fragment *make_fragment(const struct net_fragment *content)
{
    struct net_fragment *fragment = malloc(sizeof *fragment);
    if (!fragment)
        return NULL;
    *fragment = *content;
    fragment->post.kind = NET_POST_STRIPE;
    fragment->closing_rail = -1;
    net_hold_pin(fragment->pin);
    count_fragment(fragment, 1);
    return fragment;
}

/* Cuts the range into fragments like `content`; *fragments: how many were queued. */
static weft_status queue_range(struct net_fragment content, char *local, size_t bytes,
                               uint32_t *fragments)
{
    struct path_common *net = content.state->net;
    size_t most = net->rails[0].traits.max_bytes;
    most = most < FRAGMENT_BYTES ? most : FRAGMENT_BYTES;
    for (*fragments = 0; bytes; bytes -= content.bytes) {
        content.bytes = bytes < most ? bytes : most;
        struct net_fragment *fragment = make_fragment(&content);
        if (!fragment)
            return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for a transfer");
        fragment->local = local;
        net_fragments_append(&net->striping.queued, fragment);
        *fragments += 1;
        content.offset += content.bytes;
        local += content.bytes;
    }
    return WEFT_OK;
}

weft_status net_stripe_staged(struct net_state *state, const struct net_transfer *transfer,
                              uint32_t *fragments)
{
    return queue_range((struct net_fragment){.post.peer = transfer->peer,
                                             .state = state,
                                             .staged = transfer->staged,
                                             .ends = transfer->ends,
                                             .write = transfer->write,
                                             .spread = transfer->spread,
                                             .proof = transfer->proof},
                       transfer->local, transfer->bytes, fragments);
}

/* Gets the keys of the remote side; *bytes is cut at the end of its chunk. *bytes 0: the rails
 * cannot carry it. */
static weft_status prepare_remote(struct net_state *state, struct remote at, size_t *bytes)
{
    struct path_common *net = state->net;
    struct net_peer *peer = net_get_peer(net, at.peer->pe);
    size_t chunk = at.offset / NET_CHUNK_BYTES,
           left = NET_CHUNK_BYTES - at.offset % NET_CHUNK_BYTES;
    const struct net_key *keys;
    struct net_key first_rail_key = {0};
    if (*bytes > left)
        *bytes = left;
    weft_status status = WEFT_OK;
    if (net_rail_usable(net, peer, 0))
        status = net_get_peer_key(state, peer, at.segment, chunk, &first_rail_key);
    if (!status)
        status = net_get_peer_rail_keys(state, peer, at.segment, chunk, &keys);
    /* Without a key for the current rail the transfer could not be moved to it when another rail
     * fails. */
    bool known =
        !status &&
        (peer->link.rail ? &keys[peer->rails.peers[peer->link.rail]] : &first_rail_key)->known;
    if (!known)
        *bytes = 0;
    return status;
}

void net_stripe_drop_lost(struct path_common *net, const struct net_peer *peer)
{
    for (int i = 0; i < net->rail_count; i++)
        for (struct net_fragment *fragment = net->rails[i].fragments.first, *next; fragment;
             fragment = next) {
            next = fragment->next;
            if (fragment->post.peer != peer || fragment->phase != NET_LOST)
                continue;
            net_fragments_remove(&net->rails[i].fragments, fragment);
            net->rails[i].in_flight_bytes -= fragment->bytes;
            net_fragment_finish(fragment);
        }
}

weft_status net_stripe_host(struct net_state *state, struct remote at, void *local, size_t bytes,
                            bool write, size_t *queued)
{
    struct path_common *net = state->net;
    struct net_peer *peer = net_get_peer(net, at.peer->pe);
    struct net_fragment content = {.post.peer = peer,
                                   .state = state,
                                   .segment = (uint8_t)at.segment,
                                   .write = write,
                                   .spread = net_is_striped(net, peer, bytes),
                                   .offset = at.offset};
    uint32_t fragments;
    weft_status status = prepare_remote(state, at, &bytes);
    if (!bytes ||
        !net_prepare_local(net, local, &bytes, write, content.spread ? &content.pin : NULL))
        bytes = 0;
    *queued = status ? 0 : bytes;
    if (!status)
        status = queue_range(content, local, bytes, &fragments);
    net_release_pin(net, content.pin);
    net_stripe_advance(net);
    return status;
}

void net_stripe_close(struct path_common *net)
{
    for (int i = -1; i < net->rail_count; i++) {
        struct net_fragment_list *list = i < 0 ? &net->striping.queued : &net->rails[i].fragments;
        while (list->first) {
            struct net_fragment *fragment = list->first;
            net_fragments_remove(list, fragment);
            net_fragment_finish(fragment);
        }
    }
}

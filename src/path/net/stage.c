/* SPDX-License-Identifier: Apache-2.0 */
/* Moves staged fragments through their phases (stage.h). */
#include "path/net/stage.h"

#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPY_IN_STREAM = 2, /* internal streams of this PE's GPU */
    COPY_OUT_STREAM = 3,
};

static struct net_staged_fragment *get_fragment(const struct path_common *net,
                                                const struct net_stage *stage, uint64_t sequence)
{
    return &stage->fragments[(sequence - 1) % net->staging.slot_count];
}

static size_t slot_offset(const struct path_common *net, const struct net_staged_fragment *fragment)
{
    return (size_t)((fragment->sequence - 1) % net->staging.slot_count) * net->staging.slot_bytes;
}

static unsigned char *slot_address(const struct path_common *net,
                                   const struct net_staged_fragment *fragment)
{
    return fragment->post.peer->stage->slots + slot_offset(net, fragment);
}

static struct net_channel *get_channel(const struct net_staged_fragment *fragment)
{
    return &fragment->state->channels[fragment->post.peer->pe];
}

/* ----------------------------------------------------------------------------- channel counters */

static void uncount(bool *counted, uint32_t *count)
{
    *count -= *counted;
    *counted = false;
}

static void count_once(bool *counted, uint32_t *count)
{
    *count += !*counted;
    *counted = true;
}

static void end_fragment(struct net_staged_fragment *fragment)
{
    struct net_channel *channel = get_channel(fragment);
    struct net_state *state = fragment->state;
    uncount(&fragment->counts_unnotified, &channel->unnotified);
    uncount(&fragment->counts_source, &channel->sources_in_use);
    uncount(&fragment->counts_write, &channel->writes);
    uncount(&fragment->counts_read, &channel->reads);
    fragment->phase = COMPLETE;
    state->in_flight--;
    net_drop_state(state);
}

/* Fails the peer after an error that loses a fragment: later fragments must not arrive, and callers
 * get the error. */
static void fail_transfer(struct path_common *net, struct net_peer *peer, weft_status status)
{
    char sentence[NET_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "path net to PE %d: %.*s", peer->pe,
             NET_SENTENCE_BYTES - 40, base_last_error());
    net_fail_peer(net, peer, status, sentence);
    peer->launcher_queried = true; /* The cause is known. */
}

/* --------------------------------------------------------------------------- copies of this GPU */

static weft_status begin_copy(struct path_common *net, struct net_staged_fragment *fragment,
                              unsigned stream, void *to, const void *from)
{
    struct gpu *gpu = net->world->gpu;
    weft_status status = gpu_copy(gpu, stream, to, from, fragment->bytes, GPU_IN_ORDER);
    return status ? status : gpu_event_record(gpu, stream, &fragment->copy_event);
}

static bool is_copied(struct path_common *net, struct net_staged_fragment *fragment)
{
    if (!fragment->copy_event)
        return true;
    weft_status status = gpu_event_query(net->world->gpu, &fragment->copy_event);
    if (status) {
        gpu_event_release(net->world->gpu, &fragment->copy_event);
        fail_transfer(net, fragment->post.peer, status);
    }
    return !fragment->copy_event;
}

static void copy_into_slot(struct path_common *net, struct net_staged_fragment *fragment)
{
    fragment->phase = COPYING_IN;
    if (!fragment->local_is_gpu) {
        memcpy(slot_address(net, fragment), fragment->local, fragment->bytes);
        return;
    }
    weft_status status =
        begin_copy(net, fragment, COPY_IN_STREAM, slot_address(net, fragment), fragment->local);
    if (status)
        fail_transfer(net, fragment->post.peer, status);
}

static void copy_out_of_slot(struct path_common *net, struct net_staged_fragment *fragment)
{
    fragment->phase = COPYING_OUT;
    if (!fragment->local_is_gpu) {
        memcpy(fragment->local, slot_address(net, fragment), fragment->bytes);
        return;
    }
    weft_status status =
        begin_copy(net, fragment, COPY_OUT_STREAM, fragment->local, slot_address(net, fragment));
    if (status)
        fail_transfer(net, fragment->post.peer, status);
}

/* -------------------------------------------------------------------------------------- posting */

static char *local_address(const struct path_common *net,
                           const struct net_staged_fragment *fragment)
{
    return fragment->uses_local_slot ? (char *)slot_address(net, fragment) : fragment->local;
}

/* Posts the fragment as one RMA operation over the first rail. */
static ssize_t post_staged(struct path_common *net, struct net_staged_fragment *fragment)
{
    struct iovec here = {local_address(net, fragment), fragment->bytes};
    struct fi_rma_iov there = {fragment->ends.keys[0].base, fragment->bytes,
                               fragment->ends.keys[0].key};
    struct fi_msg_rma message = {.msg_iov = &here,
                                 .desc = &fragment->ends.descriptors[0],
                                 .iov_count = 1,
                                 .addr = fragment->post.peer->rails.address[0],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1};
    return net_post_rma(&net->rails[0], &fragment->post, &message, fragment->write);
}

static bool needs_flush(const struct net_staged_fragment *fragment)
{
    return fragment->write && !fragment->uses_peer_slot && fragment->remote.segment == SEG_GPU &&
           fragment->post.peer->gpu.needs_flush;
}

/* A write without a peer slot counts in the channel's `writes` from now on. */
static void mark_posted(struct path_common *net, struct net_staged_fragment *fragment)
{
    struct net_channel *channel = get_channel(fragment);
    struct net_peer *peer = fragment->post.peer;
    bool confirmed = fragment->retransmittable || net->rails[0].traits.delivery_complete,
         flush = needs_flush(fragment);
    fragment->phase = POSTED;
    if (!fragment->write || fragment->uses_peer_slot)
        return;
    net_touch_channel(fragment->state, peer->pe);
    count_once(&fragment->counts_write, &channel->writes);
    uncount(&fragment->counts_unnotified, &channel->unnotified);
    if (flush && confirmed)
        channel->confirm_after_writes = true;
    if (flush && !confirmed)
        peer->gpu.written = true; /* The next message follows the write. */
    if (flush || !confirmed)
        channel->unconfirmed = true;
    if (!confirmed)
        peer->link.unconfirmed_write = peer->requests.last_sent + 1;
}

static bool try_post_staged(struct path_common *net, struct net_staged_fragment *fragment)
{
    ssize_t error = post_staged(net, fragment);
    if (error == -FI_EAGAIN) {
        net->staging.needs_polling = true;
        return false;
    }
    if (error)
        net_call_failed(net, &net->rails[0], fragment->write ? "fi_writemsg" : "fi_readmsg",
                        (int)error);
    if (error && fragment->proof) {
        snprintf(net->proof_failed, sizeof net->proof_failed, "%.*s", NET_REASON_BYTES - 1,
                 base_last_error());
        end_fragment(fragment);
    } else if (error) {
        net_fail_peer(net, fragment->post.peer, WEFT_ERR_PATH, base_last_error());
    } else {
        fragment->in_flight = true;
        mark_posted(net, fragment);
    }
    return true;
}

/* Posts the fragment as fragments of stripe.h, which wait for rails. */
static void queue_on_rails(struct path_common *net, struct net_staged_fragment *fragment)
{
    const struct net_transfer transfer = {.peer = fragment->post.peer,
                                          .staged = fragment,
                                          .ends = &fragment->ends,
                                          .local = local_address(net, fragment),
                                          .bytes = fragment->bytes,
                                          .write = fragment->write,
                                          .spread = fragment->spread,
                                          .proof = fragment->proof};
    weft_status status = net_stripe_staged(fragment->state, &transfer, &fragment->rail_fragments);
    mark_posted(net, fragment);
    if (status)
        fail_transfer(net, fragment->post.peer, status);
}

static bool is_on_wire(const struct net_staged_fragment *fragment)
{
    return fragment->in_flight || fragment->rail_fragments;
}

/* The NIC no longer uses the source or destination. */
static void mark_arrived(struct net_staged_fragment *fragment)
{
    if (needs_flush(fragment))
        fragment->post.peer->gpu.written = true;
    if (fragment->retransmitted)
        return;
    uncount(&fragment->counts_source, &get_channel(fragment)->sources_in_use);
    uncount(&fragment->counts_write, &get_channel(fragment)->writes);
}

void net_stage_fragment_done(struct net_staged_fragment *fragment)
{
    if (--fragment->rail_fragments == 0 && !fragment->lost)
        mark_arrived(fragment);
}

bool net_stage_retransmit(struct net_staged_fragment *fragment)
{
    bool in_place = !fragment->uses_local_slot || !fragment->uses_peer_slot;
    fragment->lost |= in_place;
    return in_place;
}

void net_stage_completed(struct path_common *net, struct net_post *post, bool well)
{
    struct net_staged_fragment *fragment = (struct net_staged_fragment *)(void *)post;
    (void)net;
    (void)well; /* The peer, or the path test, has failed then. */
    fragment->in_flight = false;
    mark_arrived(fragment);
}

/* Sends NET_SLOT_PUT or NET_SLOT_GET to the peer; it follows the RMA write if the provider keeps
 * that order. */
static bool try_notify_owner(struct path_common *net, struct net_staged_fragment *fragment,
                             enum net_kind kind)
{
    struct net_peer *peer = fragment->post.peer;
    struct net_record *record = net_try_add_request(fragment->state, peer, sizeof(struct net_slot));
    if (!record)
        return false;
    record->kind = (uint8_t)kind;
    record->segment = (uint8_t)fragment->remote.segment;
    record->offset = fragment->remote.offset;
    memcpy(net_payload(record),
           &(struct net_slot){.token = fragment->sequence,
                              .offset = slot_offset(net, fragment),
                              .bytes = (uint32_t)fragment->bytes},
           sizeof(struct net_slot));
    fragment->notify_message = peer->requests.last_sent + 1;
    net_flush_requests(net, peer, kind == NET_SLOT_PUT); /* The acknowledgement frees the slot. */
    if (!fragment->remaining_bytes)
        uncount(&fragment->counts_unnotified, &get_channel(fragment)->unnotified);
    return true;
}

/* Only fragments on the first rail are not retransmitted. */
bool net_stage_has_unrecoverable(struct path_common *net, const struct net_peer *peer)
{
    const struct net_stage *stage = peer->stage;
    for (uint32_t i = 0; stage && i < net->staging.slot_count; i++)
        if (stage->fragments[i].in_flight)
            return true;
    return false;
}

void net_stage_rail_closed(struct path_common *net, int rail)
{
    for (int pe = 0; pe < net->world->npes && rail == 0; pe++) {
        const struct net_stage *stage = net->peers[pe].stage;
        for (uint32_t i = 0; stage && i < net->staging.slot_count; i++)
            stage->fragments[i].in_flight = false;
    }
}

bool net_stage_is_proof(const struct net_post *post)
{
    return ((const struct net_staged_fragment *)(const void *)post)->proof;
}

void net_stage_slot_ready(struct path_common *net, struct net_peer *peer,
                          const struct net_result *result)
{
    const struct net_stage *stage = peer->stage;
    if (!stage || result->token <= stage->last_retired || result->token > stage->last_begun)
        return;
    struct net_staged_fragment *fragment = get_fragment(net, stage, result->token);
    if (fragment->phase != REQUESTED)
        return;
    fragment->phase = POSTING;
    if (!result->status)
        return;
    base_fail((weft_status)result->status, "it failed a request of PE %d: %s", net->world->pe,
              base_status_text((weft_status)result->status));
    fail_transfer(net, peer, (weft_status)result->status);
}

/* --------------------------------------------------------------------------------------- phases */

static bool send_staged(struct path_common *net, struct net_staged_fragment *fragment)
{
    if (!fragment->retransmittable)
        return try_post_staged(net, fragment);
    queue_on_rails(net, fragment);
    return true;
}

/* Prepares the retransmission; all fragments on rails have arrived or are lost. Data already
 * written by the NIC must not become visible after the retransmission. The destination is undefined
 * until the retransmission completes. */
static void begin_retransmission(struct path_common *net, struct net_staged_fragment *fragment)
{
    weft_status status = WEFT_OK;
    if (needs_flush(fragment))
        fragment->post.peer->gpu.written =
            true; /* The message with the first slot makes them visible. */
    if (!fragment->write && !fragment->uses_local_slot && fragment->local_is_gpu)
        status = net_flush_gpu(net);
    if (fragment->write)
        count_once(&fragment->counts_unnotified, &get_channel(fragment)->unnotified);
    log_debug(LOG_NET,
              "path net: a %s of %zu bytes at PE %d is retransmitted through pinned memory",
              fragment->write ? "write" : "read", fragment->bytes, fragment->post.peer->pe);
    fragment->phase = RETRANSMITTING;
    fragment->lost = false;
    fragment->retransmitted = true;
    fragment->slot_filled = fragment->write && fragment->uses_local_slot;
    if (status)
        fail_transfer(net, fragment->post.peer, status);
}

static bool retransmit_through_slots(struct path_common *net, struct net_staged_fragment *fragment)
{
    bool ready;
    weft_status status = net_stage_use_slots(net, fragment, &ready);
    if (status)
        fail_transfer(net, fragment->post.peer, status);
    if (status || !ready) {
        net->staging.needs_polling = true;
        return status != WEFT_OK;
    }
    if (fragment->bytes > net->staging.slot_bytes) {
        fragment->remaining_bytes = fragment->bytes - net->staging.slot_bytes;
        fragment->bytes = net->staging.slot_bytes;
    }
    if (!fragment->write)
        fragment->phase = REQUESTING;
    else if (fragment->slot_filled)
        fragment->phase = POSTING;
    else
        copy_into_slot(net, fragment);
    return true;
}

/* A slot is complete; the rest of the fragment takes its place. */
static void finish_slot(struct path_common *net, struct net_staged_fragment *fragment)
{
    if (!fragment->remaining_bytes) {
        end_fragment(fragment);
        return;
    }
    fragment->remote.offset += fragment->bytes;
    fragment->local += fragment->bytes;
    fragment->bytes = fragment->remaining_bytes < net->staging.slot_bytes
                          ? fragment->remaining_bytes
                          : net->staging.slot_bytes;
    fragment->remaining_bytes -= fragment->bytes;
    if (fragment->write)
        copy_into_slot(net, fragment);
    else
        fragment->phase = REQUESTING;
}

static bool advance_put(struct path_common *net, struct net_staged_fragment *fragment)
{
    bool follows = !net->rails[0].traits.delivery_complete && !fragment->retransmittable;
    switch (fragment->phase) {
    case BEGUN:
        if (fragment->uses_local_slot)
            copy_into_slot(net, fragment);
        else
            fragment->phase = POSTING;
        return true;
    case COPYING_IN:
        if (!is_copied(net, fragment)) {
            net->staging.needs_polling = true;
            return false;
        }
        if (!fragment->remaining_bytes)
            uncount(&fragment->counts_source, &get_channel(fragment)->sources_in_use);
        fragment->phase = POSTING;
        return true;
    case POSTING:
        return send_staged(net, fragment);
    case RETRANSMITTING:
        return retransmit_through_slots(net, fragment);
    case POSTED:
        if (fragment->lost && !is_on_wire(fragment))
            begin_retransmission(net, fragment);
        else if (fragment->uses_peer_slot && (follows || !is_on_wire(fragment)))
            fragment->phase = NOTIFYING;
        else if (is_on_wire(fragment))
            return false;
        else
            end_fragment(fragment);
        return true;
    case NOTIFYING:
        if (!try_notify_owner(net, fragment, NET_SLOT_PUT))
            return false;
        fragment->phase = NOTIFIED;
        return true;
    default:
        if (fragment->in_flight ||
            fragment->post.peer->requests.acknowledged < fragment->notify_message)
            return false;
        finish_slot(net, fragment);
        return true;
    }
}

/* The NIC has read the data to their final place. */
static void finish_get_in_place(struct path_common *net, struct net_staged_fragment *fragment)
{
    weft_status status = fragment->local_is_gpu ? net_flush_gpu(net) : WEFT_OK;
    if (status)
        fail_transfer(net, fragment->post.peer, status);
    end_fragment(fragment);
}

static bool advance_get(struct path_common *net, struct net_staged_fragment *fragment)
{
    switch (fragment->phase) {
    case BEGUN:
        fragment->phase = fragment->uses_peer_slot ? REQUESTING : POSTING;
        return true;
    case REQUESTING:
        if (!try_notify_owner(net, fragment, NET_SLOT_GET))
            return false;
        fragment->phase = REQUESTED;
        return true;
    case POSTING:
        return send_staged(net, fragment);
    case RETRANSMITTING:
        return retransmit_through_slots(net, fragment);
    case POSTED:
        if (is_on_wire(fragment))
            return false;
        if (fragment->lost)
            begin_retransmission(net, fragment);
        else if (fragment->uses_local_slot)
            copy_out_of_slot(net, fragment);
        else
            finish_get_in_place(net, fragment);
        return true;
    case COPYING_OUT:
        if (!is_copied(net, fragment)) {
            net->staging.needs_polling = true;
            return false;
        }
        finish_slot(net, fragment);
        return true;
    default:
        return false;
    }
}

/* Nothing more goes to the peer. The fragment ends when libfabric and the GPU no longer use its
 * memory. */
static bool advance_failed(struct path_common *net, struct net_staged_fragment *fragment)
{
    if (is_on_wire(fragment))
        return false;
    if (!is_copied(net, fragment)) {
        net->staging.needs_polling = true;
        return false;
    }
    net_stage_cancel_query(net, fragment->post.peer);
    end_fragment(fragment);
    return true;
}

static bool advance_fragment(struct path_common *net, struct net_staged_fragment *fragment)
{
    if (fragment->phase == COMPLETE)
        return false;
    if (unlikely(fragment->post.peer->failed))
        return advance_failed(net, fragment);
    return fragment->write ? advance_put(net, fragment) : advance_get(net, fragment);
}

static bool advance_stage(struct path_common *net, struct net_stage *stage)
{
    bool any = false;
    for (uint64_t sequence = stage->last_retired + 1; sequence <= stage->last_begun; sequence++)
        while (advance_fragment(net, get_fragment(net, stage, sequence)))
            any = true;
    while (stage->last_retired < stage->last_begun &&
           get_fragment(net, stage, stage->last_retired + 1)->phase == COMPLETE)
        stage->last_retired++;
    return any;
}

bool net_stage_advance(struct path_common *net)
{
    struct net_stage **at = &net->staging.active;
    bool any = false;
    net->staging.needs_polling = false;
    while (*at) {
        struct net_stage *stage = *at;
        any |= advance_stage(net, stage);
        stage->active = stage->last_retired < stage->last_begun;
        if (stage->active)
            at = &stage->next;
        else
            *at = stage->next;
    }
    return any;
}

/* -------------------------------------------------------------------------------- begin and end */

static void activate_stage(struct path_common *net, struct net_stage *stage)
{
    if (stage->active)
        return;
    stage->active = true;
    stage->next = net->staging.active;
    net->staging.active = stage;
}

void net_stage_begin(struct net_state *state, const struct net_staged_fragment *fragment,
                     void *local)
{
    struct path_common *net = state->net;
    struct net_peer *peer = fragment->post.peer;
    struct net_stage *stage = peer->stage;
    struct net_channel *channel = net_touch_channel(state, peer->pe);
    struct net_staged_fragment *staged = get_fragment(net, stage, ++stage->last_begun);
    *staged = *fragment;
    staged->sequence = stage->last_begun;
    staged->state = state;
    staged->local = local;
    state->in_flight++;
    for (int i = 0; i < NET_RAILS && staged->uses_peer_slot; i++)
        staged->ends.keys[i].base += slot_offset(net, staged);
    if (staged->write) {
        count_once(&staged->counts_unnotified, &channel->unnotified);
        count_once(&staged->counts_source, &channel->sources_in_use);
    } else {
        count_once(&staged->counts_read, &channel->reads);
    }
    activate_stage(net, stage);
    staged->phase = BEGUN;
}

void net_stage_free(struct path_common *net)
{
    struct gpu *gpu = net->world->gpu;
    if (gpu && (net->staging.active || net->incomplete))
        gpu_quiet(gpu); /* Best effort: the memory of the copies is freed next. */
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_stage *stage = net->peers[pe].stage;
        for (uint32_t i = 0; stage && i < net->staging.slot_count; i++)
            gpu_event_release(gpu, &stage->fragments[i].copy_event);
        if (!stage) /* A peer that is not begun has none, and stays as it is. */
            continue;
        free(stage->fragments);
        free(stage);
        net->peers[pe].stage = NULL;
    }
    net->staging.active = NULL;
}

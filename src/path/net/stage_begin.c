/* SPDX-License-Identifier: Apache-2.0 */
/* Begins staged fragments: chooses for each end between in place and slot (stage.h), chooses the
 * fragment's size, and allocates the slots. */
#include "path/net/stage.h"

#include "base/config.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    COPY_STREAM = 2, /* internal stream of this PE's GPU for transfers in messages */
    FRAGMENT_LEAST_BYTES = 64 << 10, /* bytes of a fragment, except the last one */
    /* Fragments of a transfer at least, if each has that size: their copies overlap. */
    FRAGMENTS_LEAST = 4,
    GRAIN_BYTES = 4096,
    SLOTS_MOST = 64,
};

/* --------------------------------------------------------------------- slots and staging buffer */

static void set_slot_sizes(struct path_common *net)
{
    size_t bytes = (size_t)config_size(CONFIG_TEST_NET_SLOT_SIZE),
           most = net->rails[0].traits.max_bytes;
    int64_t slots = config_int(CONFIG_TEST_NET_SLOTS);
    if (bytes > most)
        bytes = most;
    if (bytes > NET_CHUNK_BYTES)
        bytes = NET_CHUNK_BYTES;
    net->staging.slot_bytes = bytes < GRAIN_BYTES ? GRAIN_BYTES : bytes / GRAIN_BYTES * GRAIN_BYTES;
    net->staging.slot_count = slots < 1 ? 1 : slots > SLOTS_MOST ? SLOTS_MOST : (uint32_t)slots;
}

static weft_status make_stage(struct path_common *net, struct net_peer *peer)
{
    if (!net->staging.slot_count)
        set_slot_sizes(net);
    struct net_stage *stage = calloc(1, sizeof *stage);
    if (stage)
        stage->fragments = calloc(net->staging.slot_count, sizeof *stage->fragments);
    if (!stage || !stage->fragments) {
        free(stage);
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for transfers to PE %d",
                         peer->pe);
    }
    stage->peer = peer;
    peer->stage = stage;
    return WEFT_OK;
}

static weft_status make_slots(struct path_common *net, struct net_stage *stage)
{
    if (!stage->slots)
        stage->slots = net_alloc_pinned_slab(net, net->staging.slot_count * net->staging.slot_bytes,
                                             &stage->slot_descriptors);
    return stage->slots
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_MEMORY,
                           "path net: cannot register %zu KiB of staging slots for PE %d; lower "
                           "WEFT_TEST_NET_SLOT_SIZE or WEFT_TEST_NET_SLOTS",
                           net->staging.slot_count * net->staging.slot_bytes >> 10,
                           stage->peer->pe);
}

/* The answer to the query is not needed any more. A quiet would wait for it. */
static void drop_buffer_query(struct path_common *net, struct net_stage *stage)
{
    weft_status status;
    if (stage->peer_buffer_token && !net_poll_answer(net, stage->peer_buffer_token, &status))
        net_detach_answer(net, stage->peer_buffer_token);
    stage->peer_buffer_token = 0;
}

/* Asks once for the peer's staging buffer. If the peer has none, no key is known afterwards. */
static weft_status query_peer_buffer(struct net_state *state, struct net_peer *peer)
{
    const struct net_record query = {.kind = NET_STAGING_BUFFER};
    uint32_t buffer_bytes =
        (uint32_t)(state->net->staging.slot_count * state->net->staging.slot_bytes);
    struct net_key keys[NET_RAILS] = {{0}};
    if (peer->stage->peer_buffer_known)
        return WEFT_OK;
    weft_status status =
        net_send_query(state, peer, &query, buffer_bytes, keys, sizeof keys, false);
    if (status)
        return status;
    memcpy(peer->stage->peer_buffer_keys, keys, sizeof keys);
    peer->stage->peer_buffer_known = true;
    drop_buffer_query(state->net, peer->stage);
    return WEFT_OK;
}

/* ------------------------------------------------------------------ size and slot of a fragment */

/* A fragment is large enough that posting it costs little, and small enough that the copies at both
 * ends run in parallel for most of the transfer. */
static size_t choose_fragment_bytes(const struct path_common *net, size_t bytes)
{
    size_t fragment_bytes = (bytes / FRAGMENTS_LEAST + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
    fragment_bytes = fragment_bytes < FRAGMENT_LEAST_BYTES ? FRAGMENT_LEAST_BYTES : fragment_bytes;
    return fragment_bytes < net->staging.slot_bytes ? fragment_bytes : net->staging.slot_bytes;
}

static weft_status await_free_slot(struct path_common *net, struct net_peer *peer, bool write)
{
    struct net_stage *stage = peer->stage;
    struct path_wait wait = net_make_wait(net, peer, write ? BOX_OP_PUT : BOX_OP_GET,
                                          stage->last_begun - net->staging.slot_count + 1);
    weft_status status = net_check_failure(net, peer);
    while (!status && stage->last_begun - stage->last_retired >= net->staging.slot_count)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

/* ------------------------------------------------------------------------- choice for both ends */

/* Clears the rails that cannot use the local side. Returns whether a rail is left. */
static bool restrict_rails(struct path_common *net, struct net_staged_fragment *fragment)
{
    uint8_t bits = 0;
    for (int i = 0; i < net->rail_count; i++)
        if (!net->rails[i].traits.registers_local || fragment->ends.descriptors[i])
            bits |= (uint8_t)(1u << i);
    fragment->ends.rails &= bits;
    return net_ends_share_rail(net, fragment->post.peer, &fragment->ends);
}

/* Whether the NIC can use the local side in place; fragment->bytes is cut at the end of its
 * registration. */
static bool use_local_in_place(struct path_common *net, const void *local,
                               struct net_staged_fragment *fragment)
{
    const struct net_peer *peer = fragment->post.peer;
    struct net_ends *ends = &fragment->ends;
    if (fragment->local_is_gpu) { /* only rails that passed the path test */
        if (peer->gpu.access != NET_GPU_DIRECT ||
            !net_get_gpu_descriptors(net, local, &fragment->bytes, ends->descriptors))
            return false;
        ends->rails &= peer->gpu.rails;
        for (int i = 0; i < net->rail_count; i++)
            if (!ends->descriptors[i])
                ends->rails &= (uint8_t) ~(1u << i);
        return net_ends_share_rail(net, peer, ends);
    }
    if (!net->rails[0].traits.registers_local)
        return true;
    for (int i = 0; i < net->rail_count; i++)
        ends->descriptors[i] =
            net_get_host_descriptor(net, &net->rails[i], local, &fragment->bytes);
    return restrict_rails(net, fragment);
}

/* Uses the local side in place, or a slot. */
static weft_status choose_local_side(struct path_common *net, const void *local,
                                     struct net_staged_fragment *fragment)
{
    struct net_stage *stage = fragment->post.peer->stage;
    uint8_t before = fragment->ends.rails;
    size_t bytes = fragment->bytes;
    fragment->uses_local_slot = !use_local_in_place(net, local, fragment);
    if (!fragment->uses_local_slot)
        return WEFT_OK;
    fragment->bytes = bytes;
    weft_status status = make_slots(net, stage);
    if (status)
        return status;
    fragment->ends.rails = before;
    memcpy(fragment->ends.descriptors, stage->slot_descriptors, sizeof fragment->ends.descriptors);
    restrict_rails(net, fragment);
    return WEFT_OK;
}

/* Transfers the fragment in messages: the peer has no memory that RMA operations reach. */
static weft_status stage_by_requests(struct net_state *state, void *local,
                                     const struct net_staged_fragment *fragment)
{
    struct gpu *gpu = state->net->world->gpu;
    void *host = fragment->local_is_gpu ? malloc(fragment->bytes) : local;
    weft_status status =
        host ? WEFT_OK
             : base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for %zu bytes",
                         fragment->bytes);
    if (!status && fragment->write && fragment->local_is_gpu)
        status = gpu_copy(gpu, COPY_STREAM, host, local, fragment->bytes, GPU_DONE);
    if (!status)
        status = fragment->write
                     ? net_put_by_requests(state, fragment->remote, host, fragment->bytes)
                     : net_get_by_requests(state, fragment->remote, host, fragment->bytes);
    if (!status && !fragment->write && fragment->local_is_gpu)
        status = gpu_copy(gpu, COPY_STREAM, local, host, fragment->bytes, GPU_DONE);
    if (fragment->local_is_gpu)
        free(host);
    return status;
}

/* Gets the keys of the peer's host memory; fragment->bytes is cut at the end of the chunk. */
static weft_status find_host_chunk(struct net_state *state, struct net_staged_fragment *fragment)
{
    struct net_peer *peer = fragment->post.peer;
    size_t index = fragment->remote.offset / NET_CHUNK_BYTES,
           chunk_offset = fragment->remote.offset % NET_CHUNK_BYTES;
    struct net_key *keys = fragment->ends.keys;
    const struct net_key *others;
    weft_status status = WEFT_OK;
    fragment->bytes = fragment->bytes < NET_CHUNK_BYTES - chunk_offset
                          ? fragment->bytes
                          : NET_CHUNK_BYTES - chunk_offset;
    if (fragment->retransmittable)
        status = net_get_peer_rail_keys(state, peer, fragment->remote.segment, index, &others);
    if (!status && fragment->retransmittable)
        memcpy(keys, others, NET_RAILS * sizeof *keys);
    if (!status && net_rail_usable(state->net, peer, 0))
        status = net_get_peer_key(state, peer, fragment->remote.segment, index, &keys[0]);
    else
        keys[0].known = 0;
    for (int i = 0; i < NET_RAILS; i++)
        keys[i].base += chunk_offset;
    return status;
}

/* Uses the remote side in place, or a slot of the peer; fragment->bytes is cut at the end of its
 * registration. If neither has keys, the ends share no rail. It may wait. */
static weft_status choose_remote_side(struct net_state *state, struct net_staged_fragment *fragment)
{
    struct net_peer *peer = fragment->post.peer;
    uint8_t all = fragment->retransmittable ? UINT8_MAX : 1;
    fragment->ends = (struct net_ends){.rails = all};
    fragment->uses_peer_slot = false;
    if (fragment->remote.segment != SEG_GPU)
        return find_host_chunk(state, fragment);
    weft_status status = net_get_gpu_keys(state, peer, fragment->remote.offset, &fragment->bytes,
                                          fragment->ends.keys);
    fragment->ends.rails = all & peer->gpu.rails;
    if (status || net_ends_share_rail(state->net, peer, &fragment->ends))
        return status;
    fragment->uses_peer_slot = true;
    status = query_peer_buffer(state, peer);
    fragment->ends.rails = all;
    memcpy(fragment->ends.keys, peer->stage->peer_buffer_keys, sizeof fragment->ends.keys);
    return status;
}

/* Sends the query without waiting. The next call polls for the answer. */
static weft_status send_buffer_query(struct path_common *net, struct net_staged_fragment *fragment)
{
    struct net_peer *peer = fragment->post.peer;
    struct net_stage *stage = peer->stage;
    uint32_t buffer_bytes = (uint32_t)(net->staging.slot_count * net->staging.slot_bytes);
    weft_status status =
        net_new_answer_token(fragment->state, peer, stage->peer_buffer_answer,
                             sizeof stage->peer_buffer_answer, &stage->peer_buffer_token);
    if (status)
        return status;
    struct net_record *record =
        net_try_add_request(fragment->state, peer, sizeof(struct net_query));
    if (!record) {
        net_stage_cancel_query(net, peer);
        return WEFT_OK;
    }
    record->kind = NET_STAGING_BUFFER;
    memcpy(net_payload(record),
           &(struct net_query){.token = stage->peer_buffer_token, .bytes = buffer_bytes},
           sizeof(struct net_query));
    net_flush_requests(net, peer, false);
    return WEFT_OK;
}

void net_stage_cancel_query(struct path_common *net, struct net_peer *peer)
{
    if (peer->stage->peer_buffer_token)
        net_cancel_answer(net, peer->stage->peer_buffer_token);
    peer->stage->peer_buffer_token = 0;
}

static weft_status poll_buffer_query(struct path_common *net, struct net_staged_fragment *fragment)
{
    struct net_stage *stage = fragment->post.peer->stage;
    weft_status status = WEFT_OK;
    if (stage->peer_buffer_known)
        return WEFT_OK;
    if (!stage->peer_buffer_token)
        return send_buffer_query(net, fragment);
    if (!net_poll_answer(net, stage->peer_buffer_token, &status))
        return WEFT_OK;
    stage->peer_buffer_token = 0;
    memcpy(stage->peer_buffer_keys, stage->peer_buffer_answer, sizeof stage->peer_buffer_keys);
    stage->peer_buffer_known = status == WEFT_OK;
    return status;
}

weft_status net_stage_use_slots(struct path_common *net, struct net_staged_fragment *fragment,
                                bool *ready)
{
    struct net_peer *peer = fragment->post.peer;
    struct net_stage *stage = peer->stage;
    struct net_ends *ends = &fragment->ends;
    weft_status status = poll_buffer_query(net, fragment);
    *ready = stage->peer_buffer_known;
    if (!status && *ready)
        status = make_slots(net, stage);
    if (status || !*ready)
        return status;
    fragment->uses_local_slot = fragment->uses_peer_slot = true;
    *ends = (struct net_ends){.rails = UINT8_MAX};
    memcpy(ends->keys, stage->peer_buffer_keys, sizeof ends->keys);
    memcpy(ends->descriptors, stage->slot_descriptors, sizeof ends->descriptors);
    for (int i = 0; i < NET_RAILS; i++)
        ends->keys[i].base +=
            (fragment->sequence - 1) % net->staging.slot_count * net->staging.slot_bytes;
    return restrict_rails(net, fragment)
               ? WEFT_OK
               : base_fail(WEFT_ERR_PATH,
                           "no remaining NIC has pinned memory registered at both ends");
}

/* Begins one fragment of at most fragment->bytes bytes, or at most fragment_bytes if it uses a
 * slot. */
static weft_status begin_fragment(struct net_state *state, void *local,
                                  struct net_staged_fragment *fragment, size_t fragment_bytes)
{
    struct path_common *net = state->net;
    struct net_peer *peer = fragment->post.peer;
    if (net->rails[0].traits.messages_only) {
        fragment->bytes = fragment->bytes < fragment_bytes ? fragment->bytes : fragment_bytes;
        return stage_by_requests(state, local, fragment);
    }
    weft_status status = choose_remote_side(state, fragment);
    if (!status)
        status = choose_local_side(net, local, fragment);
    bool through = fragment->uses_local_slot || fragment->uses_peer_slot;
    if (through && fragment->bytes > fragment_bytes)
        fragment->bytes = fragment_bytes;
    if (!status && !net_ends_share_rail(net, peer, &fragment->ends))
        return stage_by_requests(state, local, fragment);
    if (!status)
        status = await_free_slot(net, peer, fragment->write);
    if (!status) {
        net_stage_begin(state, fragment, local);
        net_stage_advance(net);
    }
    return status ? status : net_check_failure(net, peer);
}

weft_status net_stage_transfer(struct net_state *state, struct remote at, void *local, size_t bytes,
                               bool device, bool write)
{
    struct path_common *net = state->net;
    struct net_peer *peer = net_get_peer(net, at.peer->pe);
    struct net_staged_fragment fragment = {.post = {.kind = NET_POST_STAGED, .peer = peer},
                                           .write = write,
                                           .local_is_gpu = device,
                                           .proof = net->proving,
                                           .remote = at};
    fragment.spread = net_is_striped(net, peer, bytes);
    fragment.retransmittable =
        fragment.spread || peer->link.rail || net_find_other_rail(net, peer, peer->link.rail) >= 0;
    fragment.retransmittable |= net->proving && peer->gpu.rails != 1;
    fragment.spread |= net->proving;
    weft_status status = peer->stage ? WEFT_OK : make_stage(net, peer);
    if (status)
        return status;
    size_t fragment_bytes = choose_fragment_bytes(net, bytes),
           most = net->rails[0].traits.max_bytes;
    while (bytes && !status) {
        fragment.bytes = bytes < most ? bytes : most;
        status = begin_fragment(state, local, &fragment, fragment_bytes);
        bytes -= fragment.bytes;
        fragment.remote.offset += fragment.bytes;
        local = (char *)local + fragment.bytes;
    }
    if (fragment.retransmittable)
        net_stripe_advance(net);
    return status;
}

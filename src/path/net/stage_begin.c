/* SPDX-License-Identifier: Apache-2.0 */
/* By what way a piece of GPU memory goes over path net: in place or through memory of the library's
 * own, at each end (stage.h), and how large it is then. Makes that memory, and begins pieces. */
#include "path/net/stage.h"

#include "base/config.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    COPY_LANE = 2,          /* of this PE's GPU, where neither way is open */
    LEAST_BYTES = 64 << 10, /* of a piece, but for the last */
    PARTS = 4,              /* so many pieces at least, where each has that: their copies overlap */
    GRAIN = 4096,
    MOST_LOTS = 64,
};

/* -------------------------------------------------------------------------------- what there is */

static void find_sizes(struct path_common *net)
{
    size_t bytes = (size_t)config_size(CONFIG_NET_LOT), most = net->rails[0].traits.most;
    int64_t lots = config_int(CONFIG_NET_LOTS);
    if (bytes > most)
        bytes = most;
    if (bytes > NET_CHUNK_BYTES)
        bytes = NET_CHUNK_BYTES;
    net->lot_bytes = bytes < GRAIN ? GRAIN : bytes / GRAIN * GRAIN;
    net->lots = lots < 1 ? 1 : lots > MOST_LOTS ? MOST_LOTS : (uint32_t)lots;
}

static weft_status make_stage(struct path_common *net, struct net_peer *peer)
{
    if (!net->lots)
        find_sizes(net);
    struct net_stage *stage = calloc(1, sizeof *stage);
    if (stage)
        stage->pieces = calloc(net->lots, sizeof *stage->pieces);
    if (!stage || !stage->pieces) {
        free(stage);
        return base_fail(WEFT_ERR_NO_MEMORY, "path net: no private memory for transfers to PE %d",
                         peer->pe);
    }
    stage->peer = peer;
    peer->stage = stage;
    return WEFT_OK;
}

static weft_status make_lots(struct path_common *net, struct net_stage *stage)
{
    if (!stage->lots)
        stage->lots = net_pinned_slab(net, net->lots * net->lot_bytes, &stage->descriptors);
    return stage->lots
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_MEMORY,
                           "path net: no registered memory of %zu KiB for GPU memory to and from "
                           "PE %d (WEFT_NET_LOT, WEFT_NET_LOTS)",
                           net->lots * net->lot_bytes >> 10, stage->peer->pe);
}

/* Its answer, which may be there already, is not needed any more; a quiet would wait for it. */
static void drop_question(struct path_common *net, struct net_stage *stage)
{
    weft_status status;
    if (stage->room_token && !net_answer_came(net, stage->room_token, &status))
        net_forget_answer(net, stage->room_token);
    stage->room_token = 0;
}

/* The peer's room is asked for once; no key is known afterwards: it has none. */
static weft_status find_room(struct path_state *state, struct net_peer *peer)
{
    const struct net_record question = {.kind = NET_ROOM};
    uint32_t wanted = (uint32_t)(state->net->lots * state->net->lot_bytes);
    struct net_key keys[NET_RAILS] = {{0}};
    if (peer->stage->room_asked)
        return WEFT_OK;
    weft_status status = net_ask(state, peer, &question, wanted, keys, sizeof keys, false);
    if (status)
        return status;
    memcpy(peer->stage->room, keys, sizeof keys);
    peer->stage->room_asked = true;
    drop_question(state->net, peer->stage);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------ beginning */

/* So large a piece that handing it over costs little, and so small a one that the copies at both
 * ends run at the same time for most of the transfer. */
static size_t part_of(const struct path_common *net, size_t bytes)
{
    size_t part = (bytes / PARTS + GRAIN - 1) / GRAIN * GRAIN;
    part = part < LEAST_BYTES ? LEAST_BYTES : part;
    return part < net->lot_bytes ? part : net->lot_bytes;
}

static weft_status take_lot(struct path_common *net, struct net_peer *peer, bool write)
{
    struct net_stage *stage = peer->stage;
    struct path_wait wait =
        net_waiting(net, peer, write ? BOX_OP_PUT : BOX_OP_GET, stage->taken - net->lots + 1);
    weft_status status = net_failure(net, peer);
    while (!status && stage->taken - stage->gone >= net->lots)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

/* ------------------------------------------------------------------------------------ both ends */

/* The rails with which the local side can be used, of those that lead to the place there; whether
 * there is any. */
static bool reaches(struct path_common *net, struct net_parcel *piece)
{
    uint8_t bits = 0;
    for (int i = 0; i < net->rail_count; i++)
        if (!net->rails[i].traits.registers_local || piece->ends.descriptors[i])
            bits |= (uint8_t)(1u << i);
    piece->ends.reaches &= bits;
    return net_ends_meet(net, piece->post.peer, &piece->ends);
}

/* Whether the local side can be used in place; piece->bytes is cut where it changes. */
static bool local_in_place(struct path_common *net, struct net_parcel *piece)
{
    const struct net_peer *peer = piece->post.peer;
    struct net_ends *ends = &piece->ends;
    if (piece->device) { /* only what was proven */
        if (peer->gpu_trust != NET_TRUSTED ||
            !net_gpu_local(net, piece->local, &piece->bytes, ends->descriptors))
            return false;
        ends->reaches &= peer->gpu_rails;
        for (int i = 0; i < net->rail_count; i++)
            if (!ends->descriptors[i])
                ends->reaches &= (uint8_t) ~(1u << i);
        return net_ends_meet(net, peer, ends);
    }
    if (!net->rails[0].traits.registers_local)
        return true;
    ends->descriptors[0] = net_own_descriptor(net, piece->local, &piece->bytes);
    for (int i = 1; i < net->rail_count; i++)
        ends->descriptors[i] = net->rails[i].endpoint
                                   ? net_rail_descriptor(net, &net->rails[i], piece->local, NULL)
                                   : NULL;
    return reaches(net, piece);
}

/* Finds or makes the local side. */
static weft_status find_local(struct path_common *net, struct net_parcel *piece)
{
    struct net_stage *stage = piece->post.peer->stage;
    uint8_t before = piece->ends.reaches;
    size_t bytes = piece->bytes;
    piece->here = !local_in_place(net, piece);
    if (!piece->here)
        return WEFT_OK;
    piece->bytes = bytes;
    weft_status status = make_lots(net, stage);
    if (status)
        return status;
    piece->ends.reaches = before;
    memcpy(piece->ends.descriptors, stage->descriptors, sizeof piece->ends.descriptors);
    reaches(net, piece);
    return WEFT_OK;
}

/* In place of memory of the peer that can be written and read: it has none. */
static weft_status by_requests(struct path_state *state, const struct net_parcel *piece)
{
    struct gpu *gpu = state->net->world->gpu;
    void *host = piece->device ? malloc(piece->bytes) : piece->local;
    weft_status status = host
                             ? WEFT_OK
                             : base_fail(WEFT_ERR_NO_MEMORY,
                                         "path net: no private memory for %zu bytes", piece->bytes);
    if (!status && piece->write && piece->device)
        status = gpu_copy(gpu, COPY_LANE, host, piece->local, piece->bytes, GPU_DONE);
    if (!status)
        status = piece->write ? net_put_by_requests(state, piece->at, host, piece->bytes)
                              : net_get_by_requests(state, piece->at, host, piece->bytes);
    if (!status && !piece->write && piece->device)
        status = gpu_copy(gpu, COPY_LANE, piece->local, host, piece->bytes, GPU_DONE);
    if (piece->device)
        free(host);
    return status;
}

/* A place in host memory of the peer; piece->bytes is cut at the end of its chunk. */
static weft_status find_chunk(struct path_state *state, struct net_parcel *piece)
{
    struct net_peer *peer = piece->post.peer;
    size_t number = piece->at.offset / NET_CHUNK_BYTES, in = piece->at.offset % NET_CHUNK_BYTES;
    struct net_key *keys = piece->ends.keys;
    const struct net_key *others;
    weft_status status = WEFT_OK;
    piece->bytes = piece->bytes < NET_CHUNK_BYTES - in ? piece->bytes : NET_CHUNK_BYTES - in;
    if (piece->sure)
        status = net_peer_rail_keys(state, peer, piece->at.segment, number, &others);
    if (!status && piece->sure)
        memcpy(keys, others, NET_RAILS * sizeof *keys);
    if (!status && net_goes_over(state->net, peer, 0))
        status = net_peer_chunk(state, peer, piece->at.segment, number, &keys[0]);
    else
        keys[0].known = 0;
    for (int i = 0; i < NET_RAILS; i++)
        keys[i].base += in;
    return status;
}

/* Finds the final place, or else the room; piece->bytes is cut at the end of what is registered as
 * one.
 * Neither: no end meets the other. May wait. */
static weft_status find_place(struct path_state *state, struct net_parcel *piece)
{
    struct net_peer *peer = piece->post.peer;
    uint8_t all = piece->sure ? UINT8_MAX : 1;
    piece->ends = (struct net_ends){.reaches = all};
    piece->there = false;
    if (piece->at.segment != SEG_GPU)
        return find_chunk(state, piece);
    weft_status status =
        net_gpu_place(state, peer, piece->at.offset, &piece->bytes, piece->ends.keys);
    piece->ends.reaches = all & peer->gpu_rails;
    if (status || net_ends_meet(state->net, peer, &piece->ends))
        return status;
    piece->there = true;
    status = find_room(state, peer);
    piece->ends.reaches = all;
    memcpy(piece->ends.keys, peer->stage->room, sizeof piece->ends.keys);
    return status;
}

/* Where nobody can wait. The answer is looked for at the next call. */
static weft_status ask_for_room(struct path_common *net, struct net_parcel *piece)
{
    struct net_peer *peer = piece->post.peer;
    struct net_stage *stage = peer->stage;
    uint32_t wanted = (uint32_t)(net->lots * net->lot_bytes);
    weft_status status = net_await(piece->state, peer, stage->room_came, sizeof stage->room_came,
                                   &stage->room_token);
    if (status)
        return status;
    struct net_record *record = net_try_request(piece->state, peer, sizeof(struct net_wanted));
    if (!record) {
        net_stage_forget_room(net, peer);
        return WEFT_OK;
    }
    record->kind = NET_ROOM;
    memcpy(net_behind(record), &(struct net_wanted){.token = stage->room_token, .bytes = wanted},
           sizeof(struct net_wanted));
    net_flush(net, peer, false);
    return WEFT_OK;
}

void net_stage_forget_room(struct path_common *net, struct net_peer *peer)
{
    if (peer->stage->room_token)
        net_cancel_answer(net, peer->stage->room_token);
    peer->stage->room_token = 0;
}

static weft_status look_for_room(struct path_common *net, struct net_parcel *piece)
{
    struct net_stage *stage = piece->post.peer->stage;
    weft_status status = WEFT_OK;
    if (stage->room_asked)
        return WEFT_OK;
    if (!stage->room_token)
        return ask_for_room(net, piece);
    if (!net_answer_came(net, stage->room_token, &status))
        return WEFT_OK;
    stage->room_token = 0;
    memcpy(stage->room, stage->room_came, sizeof stage->room);
    stage->room_asked = status == WEFT_OK;
    return status;
}

weft_status net_stage_through_lots(struct path_common *net, struct net_parcel *piece, bool *ready)
{
    struct net_peer *peer = piece->post.peer;
    struct net_stage *stage = peer->stage;
    struct net_ends *ends = &piece->ends;
    weft_status status = look_for_room(net, piece);
    *ready = stage->room_asked;
    if (!status && *ready)
        status = make_lots(net, stage);
    if (status || !*ready)
        return status;
    piece->here = piece->there = true;
    *ends = (struct net_ends){.reaches = UINT8_MAX};
    memcpy(ends->keys, stage->room, sizeof ends->keys);
    memcpy(ends->descriptors, stage->descriptors, sizeof ends->descriptors);
    for (int i = 0; i < NET_RAILS; i++)
        ends->keys[i].base += (piece->number - 1) % net->lots * net->lot_bytes;
    return reaches(net, piece)
               ? WEFT_OK
               : base_fail(WEFT_ERR_PATH, "no NIC that is left has pinned memory at both ends");
}

/* One piece of at most piece->bytes bytes, `part` where it goes through lots. */
static weft_status move_piece(struct path_state *state, struct net_parcel *piece, size_t part)
{
    struct path_common *net = state->net;
    struct net_peer *peer = piece->post.peer;
    weft_status status = find_place(state, piece);
    if (!status)
        status = find_local(net, piece);
    bool through = piece->here || piece->there;
    if (through && piece->bytes > part)
        piece->bytes = part;
    if (!status && !net_ends_meet(net, peer, &piece->ends))
        return by_requests(state, piece);
    if (!status)
        status = take_lot(net, peer, piece->write);
    if (!status)
        net_stage_begin(state, piece);
    return status ? status : net_failure(net, peer);
}

weft_status net_stage_move(struct path_state *state, struct remote at, void *local, size_t bytes,
                           bool device, bool write)
{
    struct path_common *net = state->net;
    struct net_peer *peer = &net->peers[at.peer->pe];
    struct net_parcel piece = {.post = {.kind = NET_POST_STAGED, .peer = peer},
                               .write = write,
                               .device = device,
                               .proof = net->proving,
                               .at = at,
                               .local = local};
    piece.spread = net_stripes(net, peer, bytes);
    piece.sure = piece.spread || peer->via || net_other_rail(net, peer, peer->via) >= 0;
    piece.sure |= net->proving && peer->gpu_rails != 1;
    piece.spread |= net->proving;
    weft_status status = peer->stage ? WEFT_OK : make_stage(net, peer);
    if (status)
        return status;
    size_t part = part_of(net, bytes), most = net->rails[0].traits.most;
    while (bytes && !status) {
        piece.bytes = bytes < most ? bytes : most;
        status = move_piece(state, &piece, part);
        bytes -= piece.bytes;
        piece.at.offset += piece.bytes;
        piece.local += piece.bytes;
    }
    if (piece.sure)
        net_stripe_advance(net);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory over path net. Where the NIC does not reach it (net_hmem.c), pieces of a transfer go through
 * pinned host memory, several at a time, so that the copies at both ends run beside each other and beside the
 * wire. One copy at an end whose memory is GPU memory, none at an end whose memory is not, or is reached.
 *
 * For each peer there is memory here in so many lots, and a room of so many lots at the peer (net_room()).
 * Piece n uses lot n of both, counted round, and goes through phases:
 *
 *   put  FILLING (GPU to the lot here), POSTING, POSTED (the remote write), TELLING, TOLD (the owner
 *        copies from its room, in order with every other request)
 *   get  ASKING, ASKED (the owner copies into its room), POSTING, POSTED (the remote read),
 *        EMPTYING (from the lot here to the GPU)
 *
 * less those that one of the two ends does not need. Only this PE hands out lots, so the owner keeps no
 * books. Knows nothing of how the owner's GPU copies (net_serve.c). */
#include "path/net_hmem.h"

#include "base/config.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILL_LANE = 2, /* of this PE's GPU: into lots, */
    EMPTY_LANE = 3,
    LEAST_BYTES = 64 << 10, /* of a piece, but for the last */
    PARTS = 4,              /* so many pieces at least, where each has that: their copies overlap */
    GRAIN = 4096,
    MOST_LOTS = 64,
};

enum phase { FILLING, POSTING, POSTED, TELLING, TOLD, ASKING, ASKED, EMPTYING, OVER };

struct net_parcel {
    struct net_post post; /* of its remote access; first */
    enum phase phase;
    bool write;
    bool here, there;                     /* goes through a lot here, through one at the peer */
    bool device;                          /* the local side is GPU memory */
    bool proof;                           /* of net_hmem.c */
    bool in_flight;                       /* libfabric has it */
    bool staging, filling, writes, reads; /* it is counted there in the channel */
    struct path_state *state;
    struct gpu_mark *mark;
    struct remote at; /* `peer` is of the context and not looked at */
    struct net_key key;
    char *local;
    void *descriptor; /* of local memory that is used in place */
    size_t bytes;
    uint64_t number; /* of the piece, from 1 */
    uint64_t told;   /* of the message with word of it */
};

struct net_stage {
    struct net_peer *peer;
    struct net_stage *next;
    bool active;               /* in net->stages */
    struct net_parcel *pieces; /* [lots] */
    uint64_t taken, gone;
    unsigned char *lots;
    void *descriptor;
    struct net_key room;
};

static struct net_parcel *piece_of(const struct path_common *net, const struct net_stage *stage,
                                   uint64_t number)
{
    return &stage->pieces[(number - 1) % net->lots];
}

static size_t position_of(const struct path_common *net, const struct net_parcel *piece)
{
    return (size_t)((piece->number - 1) % net->lots) * net->lot_bytes;
}

static unsigned char *lot_of(const struct path_common *net, const struct net_parcel *piece)
{
    return piece->post.peer->stage->lots + position_of(net, piece);
}

static struct net_channel *channel_of(const struct net_parcel *piece)
{
    return &piece->state->channels[piece->post.peer->pe];
}

/* -------------------------------------------------------------------------------- counts and ends */

static void leave(bool *counted, uint32_t *count)
{
    *count -= *counted;
    *counted = false;
}

static void join(bool *counted, uint32_t *count)
{
    *count += !*counted;
    *counted = true;
}

static void end(struct net_parcel *piece)
{
    struct net_channel *channel = channel_of(piece);
    struct path_state *state = piece->state;
    leave(&piece->staging, &channel->staging);
    leave(&piece->filling, &channel->filling);
    leave(&piece->writes, &channel->writes);
    leave(&piece->reads, &channel->reads);
    piece->phase = OVER;
    piece->state = NULL;
    state->under_way--;
    net_drop_state(state);
}

/* A piece is lost: what is behind it must not arrive, and those who wait are told why. */
static void lose(struct path_common *net, struct net_peer *peer, weft_status status)
{
    char sentence[NET_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "path net to PE %d: %.*s", peer->pe,
             NET_SENTENCE_BYTES - 40, base_last_error());
    net_fail_peer(net, peer, status, sentence);
    peer->accounted = true; /* it is not the peer that has failed */
}

/* ------------------------------------------------------------------------------------ this GPU */

static weft_status begin_copy(struct path_common *net, struct net_parcel *piece, unsigned lane,
                              void *to, const void *from)
{
    struct gpu *gpu = net->world->gpu;
    weft_status status = gpu_copy(gpu, lane, to, from, piece->bytes, GPU_IN_ORDER);
    return status ? status : gpu_mark_put(gpu, lane, &piece->mark);
}

static bool copied(struct path_common *net, struct net_parcel *piece)
{
    if (!piece->mark)
        return true;
    weft_status status = gpu_mark_passed(net->world->gpu, &piece->mark);
    if (status) {
        gpu_mark_drop(net->world->gpu, &piece->mark);
        lose(net, piece->post.peer, status);
    }
    return !piece->mark;
}

static void fill(struct path_common *net, struct net_parcel *piece)
{
    piece->phase = FILLING;
    if (!piece->device) {
        memcpy(lot_of(net, piece), piece->local, piece->bytes);
        return;
    }
    weft_status status = begin_copy(net, piece, FILL_LANE, lot_of(net, piece), piece->local);
    if (status)
        lose(net, piece->post.peer, status);
}

static void empty(struct path_common *net, struct net_parcel *piece)
{
    piece->phase = EMPTYING;
    if (!piece->device) {
        memcpy(piece->local, lot_of(net, piece), piece->bytes);
        return;
    }
    weft_status status = begin_copy(net, piece, EMPTY_LANE, piece->local, lot_of(net, piece));
    if (status)
        lose(net, piece->post.peer, status);
}

/* ------------------------------------------------------------------------------------- the wire */

static ssize_t post(struct path_common *net, struct net_parcel *piece)
{
    const struct net_rail *rail = &net->rails[0];
    const struct net_stage *stage = piece->post.peer->stage;
    void *local = piece->here ? lot_of(net, piece) : (void *)piece->local;
    void *descriptor = piece->here ? stage->descriptor : piece->descriptor;
    struct iovec here = {local, piece->bytes};
    struct fi_rma_iov there = {piece->key.base, piece->bytes, piece->key.key};
    struct fi_msg_rma message = {.msg_iov = &here,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = piece->post.peer->address[0],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1,
                                 .context = &piece->post.context};
    if (!piece->write)
        return fi_readmsg(rail->endpoint, &message, FI_COMPLETION);
    return fi_writemsg(rail->endpoint, &message,
                       FI_COMPLETION | (rail->traits.confirmed ? FI_DELIVERY_COMPLETE : 0));
}

/* What a write to its final place is from now on, is for the channel to complete. */
static void posted(struct path_common *net, struct net_parcel *piece)
{
    struct net_channel *channel = channel_of(piece);
    struct net_peer *peer = piece->post.peer;
    bool confirmed = net->rails[0].traits.confirmed;
    piece->in_flight = true;
    piece->phase = POSTED;
    if (!piece->write || piece->there)
        return;
    net_touch(piece->state, peer->pe);
    join(&piece->writes, &channel->writes);
    leave(&piece->staging, &channel->staging);
    bool flush = piece->at.segment == SEG_GPU && peer->gpu_flush;
    if (flush && confirmed)
        channel->settle = true;
    if (flush && !confirmed)
        peer->gpu_written = true; /* the message that is sent next follows the write */
    if (flush || !confirmed)
        channel->unconfirmed = true;
    if (!confirmed)
        peer->loose = peer->sent + 1;
}

static bool try_to_post(struct path_common *net, struct net_parcel *piece)
{
    ssize_t error = post(net, piece);
    if (error == -FI_EAGAIN) {
        net->restless = true;
        return false;
    }
    if (error)
        net_refused(net, &net->rails[0], piece->write ? "fi_writemsg" : "fi_readmsg", (int)error);
    if (error && piece->proof) {
        snprintf(net->proof_failed, sizeof net->proof_failed, "%.*s", NET_WHY_BYTES - 1,
                 base_last_error());
        end(piece);
    } else if (error) {
        net_fail_peer(net, piece->post.peer, WEFT_ERR_PATH, base_last_error());
    } else {
        posted(net, piece);
    }
    return true;
}

/* Word to the owner, behind the write where messages follow writes. */
static bool try_to_tell(struct path_common *net, struct net_parcel *piece, enum net_kind kind)
{
    struct net_peer *peer = piece->post.peer;
    struct net_record *record = net_try_request(piece->state, peer, sizeof(struct net_lot));
    if (!record)
        return false;
    record->kind = (uint8_t)kind;
    record->segment = (uint8_t)piece->at.segment;
    record->offset = piece->at.offset;
    memcpy(net_behind(record),
           &(struct net_lot){.token = piece->number,
                             .position = position_of(net, piece),
                             .bytes = (uint32_t)piece->bytes},
           sizeof(struct net_lot));
    piece->told = peer->sent + 1;
    net_flush(net, peer, kind == NET_LANDED); /* the answer frees the lot */
    leave(&piece->staging, &channel_of(piece)->staging);
    return true;
}

bool net_stage_busy(const struct net_peer *peer)
{
    return peer->stage && peer->stage->gone < peer->stage->taken;
}

bool net_stage_proves(const struct net_post *post)
{
    return ((const struct net_parcel *)(const void *)post)->proof;
}

void net_stage_done(struct path_common *net, struct net_post *post, bool well)
{
    struct net_parcel *piece = (struct net_parcel *)(void *)post;
    (void)net;
    (void)well; /* the peer has failed then, or the proof */
    piece->in_flight = false;
    if (piece->write && !piece->there && piece->at.segment == SEG_GPU &&
        piece->post.peer->gpu_flush)
        piece->post.peer->gpu_written = true;
    leave(&piece->writes, &channel_of(piece)->writes);
}

void net_stage_lifted(struct path_common *net, struct net_peer *peer,
                      const struct net_result *result)
{
    const struct net_stage *stage = peer->stage;
    if (!stage || result->token <= stage->gone || result->token > stage->taken)
        return;
    struct net_parcel *piece = piece_of(net, stage, result->token);
    if (piece->phase != ASKED)
        return;
    piece->phase = POSTING;
    if (!result->status)
        return;
    base_fail((weft_status)result->status, "it could not carry out what PE %d asked for: %s",
              net->world->pe, base_status_text((weft_status)result->status));
    lose(net, peer, (weft_status)result->status);
}

/* ------------------------------------------------------------------------------------- moving on */

static bool on_write(struct path_common *net, struct net_parcel *piece)
{
    bool follows = !net->rails[0].traits.confirmed;
    switch (piece->phase) {
    case FILLING:
        if (!copied(net, piece)) {
            net->restless = true;
            return false;
        }
        leave(&piece->filling, &channel_of(piece)->filling);
        piece->phase = POSTING;
        return true;
    case POSTING:
        return try_to_post(net, piece);
    case POSTED:
        if (piece->there && (follows || !piece->in_flight))
            piece->phase = TELLING;
        else if (piece->in_flight)
            return false;
        else
            end(piece);
        return true;
    case TELLING:
        if (!try_to_tell(net, piece, NET_LANDED))
            return false;
        piece->phase = TOLD;
        return true;
    default:
        if (piece->in_flight || piece->post.peer->done < piece->told)
            return false;
        end(piece);
        return true;
    }
}

/* The NIC has put it where it goes. */
static void arrive(struct path_common *net, struct net_parcel *piece)
{
    weft_status status = piece->device ? net_flush_gpu(net) : WEFT_OK;
    if (status)
        lose(net, piece->post.peer, status);
    end(piece);
}

static bool on_read(struct path_common *net, struct net_parcel *piece)
{
    switch (piece->phase) {
    case ASKING:
        if (!try_to_tell(net, piece, NET_LIFT))
            return false;
        piece->phase = ASKED;
        return true;
    case POSTING:
        return try_to_post(net, piece);
    case POSTED:
        if (piece->in_flight)
            return false;
        if (piece->here)
            empty(net, piece);
        else
            arrive(net, piece);
        return true;
    case EMPTYING:
        if (!copied(net, piece)) {
            net->restless = true;
            return false;
        }
        end(piece);
        return true;
    default:
        return false;
    }
}

/* Nothing more goes to the peer: what libfabric or the GPU still holds is waited for. */
static bool on_failed(struct path_common *net, struct net_parcel *piece)
{
    if (piece->in_flight)
        return false;
    if (!copied(net, piece)) {
        net->restless = true;
        return false;
    }
    end(piece);
    return true;
}

static bool step(struct path_common *net, struct net_parcel *piece)
{
    if (piece->phase == OVER)
        return false;
    if (unlikely(piece->post.peer->failed))
        return on_failed(net, piece);
    return piece->write ? on_write(net, piece) : on_read(net, piece);
}

static bool advance(struct path_common *net, struct net_stage *stage)
{
    bool any = false;
    for (uint64_t number = stage->gone + 1; number <= stage->taken; number++)
        while (step(net, piece_of(net, stage, number)))
            any = true;
    while (stage->gone < stage->taken && piece_of(net, stage, stage->gone + 1)->phase == OVER)
        stage->gone++;
    return any;
}

bool net_stage_advance(struct path_common *net)
{
    struct net_stage **at = &net->stages;
    bool any = false;
    net->restless = false;
    while (*at) {
        struct net_stage *stage = *at;
        any |= advance(net, stage);
        stage->active = stage->gone < stage->taken;
        if (stage->active)
            at = &stage->next;
        else
            *at = stage->next;
    }
    return any;
}

/* ---------------------------------------------------------------------------------- what there is */

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
        stage->lots = net_pinned_slab(net, net->lots * net->lot_bytes, &stage->descriptor);
    return stage->lots
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_MEMORY,
                           "path net: no registered memory of %zu KiB for GPU memory to and from "
                           "PE %d (WEFT_NET_LOT, WEFT_NET_LOTS)",
                           net->lots * net->lot_bytes >> 10, stage->peer->pe);
}

/* The peer's room is asked for once; room.known 0 afterwards: it has none. */
static weft_status find_room(struct path_state *state, struct net_peer *peer)
{
    const struct net_record question = {.kind = NET_ROOM};
    uint32_t wanted = (uint32_t)(state->net->lots * state->net->lot_bytes);
    struct net_key room = {0};
    if (peer->stage->room.asked)
        return WEFT_OK;
    weft_status status = net_ask(state, peer, &question, wanted, &room, sizeof room, false);
    room.asked = 1;
    if (!status)
        peer->stage->room = room;
    return status;
}

void net_stage_free(struct path_common *net)
{
    struct gpu *gpu = net->world->gpu;
    if (gpu && (net->stages || net->late))
        gpu_quiet(gpu); /* best effort: the memory it copies to goes next */
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_stage *stage = net->peers[pe].stage;
        for (uint32_t i = 0; stage && i < net->lots; i++)
            gpu_mark_drop(gpu, &stage->pieces[i].mark);
        if (stage)
            free(stage->pieces);
        free(stage);
        net->peers[pe].stage = NULL;
    }
    net->stages = NULL;
}

/* -------------------------------------------------------------------------------------- beginning */

/* So large a piece that handing it over costs little, and so small a one that the copies at both ends
 * run at the same time for most of the transfer. */
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

static void activate(struct path_common *net, struct net_stage *stage)
{
    if (stage->active)
        return;
    stage->active = true;
    stage->next = net->stages;
    net->stages = stage;
}

static void begin(struct path_state *state, struct net_parcel piece)
{
    struct path_common *net = state->net;
    struct net_peer *peer = piece.post.peer;
    struct net_stage *stage = peer->stage;
    struct net_channel *channel = net_touch(state, peer->pe);
    struct net_parcel *to = piece_of(net, stage, ++stage->taken);
    *to = piece;
    to->number = stage->taken;
    to->state = state;
    state->under_way++;
    if (to->there) {
        to->key = stage->room;
        to->key.base += position_of(net, to);
    }
    if (to->write) {
        join(&to->staging, &channel->staging);
        join(to->here ? &to->filling : &to->writes,
             to->here ? &channel->filling : &channel->writes);
    } else {
        join(&to->reads, &channel->reads);
    }
    activate(net, stage);
    if (!to->write)
        to->phase = to->there ? ASKING : POSTING;
    else if (to->here)
        fill(net, to);
    else
        to->phase = POSTING;
    advance(net, stage);
}

/* Whether the local side cannot be used in place; *bytes is cut where it changes. */
static bool through_lot(struct path_common *net, const struct net_peer *peer, const void *local,
                        bool device, size_t *bytes, void **descriptor)
{
    *descriptor = NULL;
    if (device) /* only what was proven */
        return peer->gpu_trust != NET_TRUSTED || !net_gpu_local(net, local, bytes, descriptor);
    if (!net->rails[0].traits.registers_local)
        return false;
    *descriptor = net_own_descriptor(net, local, bytes);
    return !*descriptor;
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
        status = gpu_copy(gpu, FILL_LANE, host, piece->local, piece->bytes, GPU_DONE);
    if (!status)
        status = piece->write ? net_put_by_requests(state, piece->at, host, piece->bytes)
                              : net_get_by_requests(state, piece->at, host, piece->bytes);
    if (!status && !piece->write && piece->device)
        status = gpu_copy(gpu, EMPTY_LANE, piece->local, host, piece->bytes, GPU_DONE);
    if (piece->device)
        free(host);
    return status;
}

/* Finds the final place, or else the room; *bytes is cut at the end of what is registered as one. Neither:
 * key.known is 0. May wait. */
static weft_status find_place(struct path_state *state, struct net_parcel *piece)
{
    struct net_peer *peer = piece->post.peer;
    size_t offset = piece->at.offset, left = NET_CHUNK_BYTES - offset % NET_CHUNK_BYTES;
    weft_status status;
    piece->there = false;
    if (piece->at.segment != SEG_GPU) {
        piece->bytes = piece->bytes < left ? piece->bytes : left;
        status =
            net_peer_chunk(state, peer, piece->at.segment, offset / NET_CHUNK_BYTES, &piece->key);
        piece->key.base += offset % NET_CHUNK_BYTES;
        return status;
    }
    status = net_gpu_place(state, peer, offset, &piece->bytes, &piece->key);
    if (status || piece->key.known)
        return status;
    piece->there = true;
    status = find_room(state, peer);
    piece->key = peer->stage->room;
    return status;
}

/* One piece of at most piece->bytes bytes, `part` where it goes through lots. */
static weft_status move_piece(struct path_state *state, struct net_parcel *piece, size_t part)
{
    struct path_common *net = state->net;
    struct net_peer *peer = piece->post.peer;
    weft_status status = find_place(state, piece);
    piece->here =
        through_lot(net, peer, piece->local, piece->device, &piece->bytes, &piece->descriptor);
    bool through = piece->here || piece->there;
    if (through && piece->bytes > part)
        piece->bytes = part;
    if (!status && !piece->key.known)
        return by_requests(state, piece);
    if (!status && piece->here)
        status = make_lots(net, peer->stage);
    if (!status)
        status = take_lot(net, peer, piece->write);
    if (!status)
        begin(state, *piece);
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
    piece.bytes = bytes;
    if (!net_goes_over(net, peer, 0)) /* that NIC alone has the memory registered */
        return by_requests(state, &piece);
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
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What pieces of GPU memory under way over path net go through: stage.h. */
#include "path/net/stage.h"

#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILL_LANE = 2, /* of this PE's GPU: into lots, */
    EMPTY_LANE = 3,
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

/* ------------------------------------------------------------------------------ counts and ends */

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
    return status ? status : gpu_event_record(gpu, lane, &piece->mark);
}

static bool copied(struct path_common *net, struct net_parcel *piece)
{
    if (!piece->mark)
        return true;
    weft_status status = gpu_event_query(net->world->gpu, &piece->mark);
    if (status) {
        gpu_event_release(net->world->gpu, &piece->mark);
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

static char *local_of(const struct path_common *net, const struct net_parcel *piece)
{
    return piece->here ? (char *)lot_of(net, piece) : piece->local;
}

/* As one remote access over the first rail. */
static ssize_t post(struct path_common *net, struct net_parcel *piece)
{
    struct iovec here = {local_of(net, piece), piece->bytes};
    struct fi_rma_iov there = {piece->ends.keys[0].base, piece->bytes, piece->ends.keys[0].key};
    struct fi_msg_rma message = {.msg_iov = &here,
                                 .desc = &piece->ends.descriptors[0],
                                 .iov_count = 1,
                                 .addr = piece->post.peer->address[0],
                                 .rma_iov = &there,
                                 .rma_iov_count = 1};
    return net_access(&net->rails[0], &piece->post, &message, piece->write);
}

static bool needs_flush(const struct net_parcel *piece)
{
    return piece->write && !piece->there && piece->at.segment == SEG_GPU &&
           piece->post.peer->gpu_flush;
}

/* What a write to its final place is from now on, is for the channel to complete. */
static void posted(struct path_common *net, struct net_parcel *piece)
{
    struct net_channel *channel = channel_of(piece);
    struct net_peer *peer = piece->post.peer;
    bool confirmed = piece->sure || net->rails[0].traits.confirmed, flush = needs_flush(piece);
    piece->phase = POSTED;
    if (!piece->write || piece->there)
        return;
    net_touch(piece->state, peer->pe);
    join(&piece->writes, &channel->writes);
    leave(&piece->staging, &channel->staging);
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
        piece->in_flight = true;
        posted(net, piece);
    }
    return true;
}

/* In parts, which wait for NICs by themselves. */
static void hand_over(struct path_common *net, struct net_parcel *piece)
{
    const struct net_transfer transfer = {.peer = piece->post.peer,
                                          .parcel = piece,
                                          .ends = &piece->ends,
                                          .local = local_of(net, piece),
                                          .bytes = piece->bytes,
                                          .write = piece->write,
                                          .spread = piece->spread,
                                          .proof = piece->proof};
    weft_status status = net_stripe_transfer(piece->state, &transfer, &piece->parts);
    posted(net, piece);
    if (status)
        lose(net, piece->post.peer, status);
}

static bool on_wire(const struct net_parcel *piece)
{
    return piece->in_flight || piece->parts;
}

/* The wire has done with it. */
static void landed(struct net_parcel *piece)
{
    if (needs_flush(piece))
        piece->post.peer->gpu_written = true;
    if (piece->again)
        return;
    leave(&piece->filling, &channel_of(piece)->filling);
    leave(&piece->writes, &channel_of(piece)->writes);
}

void net_stage_came(struct net_parcel *piece)
{
    if (--piece->parts == 0 && !piece->lost)
        landed(piece);
}

bool net_stage_strays(struct net_parcel *piece)
{
    bool in_place = !piece->here || !piece->there;
    piece->lost |= in_place;
    return in_place;
}

void net_stage_done(struct path_common *net, struct net_post *post, bool well)
{
    struct net_parcel *piece = (struct net_parcel *)(void *)post;
    (void)net;
    (void)well; /* the peer has failed then, or the proof */
    piece->in_flight = false;
    landed(piece);
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
    if (!piece->left)
        leave(&piece->staging, &channel_of(piece)->staging);
    return true;
}

/* Those are all over the first rail. */
bool net_stage_loses(struct path_common *net, const struct net_peer *peer)
{
    const struct net_stage *stage = peer->stage;
    for (uint32_t i = 0; stage && i < net->lots; i++)
        if (stage->pieces[i].in_flight)
            return true;
    return false;
}

void net_stage_rail_closed(struct path_common *net, int rail)
{
    for (int pe = 0; pe < net->world->npes && rail == 0; pe++) {
        const struct net_stage *stage = net->peers[pe].stage;
        for (uint32_t i = 0; stage && i < net->lots; i++)
            stage->pieces[i].in_flight = false;
    }
}

bool net_stage_proves(const struct net_post *post)
{
    return ((const struct net_parcel *)(const void *)post)->proof;
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

/* ------------------------------------------------------------------------------------ moving on */

static bool send(struct path_common *net, struct net_parcel *piece)
{
    if (!piece->sure)
        return try_to_post(net, piece);
    hand_over(net, piece);
    return true;
}

/* All its parts have come or are lost. What NICs have written into GPU memory in place must not
 * become visible after what goes again; the bytes there are as good as nobody's until it has
 * come. */
static void go_astray(struct path_common *net, struct net_parcel *piece)
{
    weft_status status = WEFT_OK;
    if (needs_flush(piece))
        piece->post.peer->gpu_written = true; /* the word of the first lot follows */
    if (!piece->write && !piece->here && piece->device)
        status = net_flush_gpu(net);
    if (piece->write)
        join(&piece->staging, &channel_of(piece)->staging);
    log_debug("path net: a %s of %zu bytes at PE %d goes again, through pinned memory",
              piece->write ? "write" : "read", piece->bytes, piece->post.peer->pe);
    piece->phase = ASTRAY;
    piece->lost = false;
    piece->again = true;
    piece->filled = piece->write && piece->here;
    if (status)
        lose(net, piece->post.peer, status);
}

static bool go_again(struct path_common *net, struct net_parcel *piece)
{
    bool ready;
    weft_status status = net_stage_through_lots(net, piece, &ready);
    if (status)
        lose(net, piece->post.peer, status);
    if (status || !ready) {
        net->restless = true;
        return status != WEFT_OK;
    }
    if (piece->bytes > net->lot_bytes) {
        piece->left = piece->bytes - net->lot_bytes;
        piece->bytes = net->lot_bytes;
    }
    if (!piece->write)
        piece->phase = ASKING;
    else if (piece->filled)
        piece->phase = POSTING;
    else
        fill(net, piece);
    return true;
}

/* A lot has made its way; the next one takes its place. */
static void over(struct path_common *net, struct net_parcel *piece)
{
    if (!piece->left) {
        end(piece);
        return;
    }
    piece->at.offset += piece->bytes;
    piece->local += piece->bytes;
    piece->bytes = piece->left < net->lot_bytes ? piece->left : net->lot_bytes;
    piece->left -= piece->bytes;
    if (piece->write)
        fill(net, piece);
    else
        piece->phase = ASKING;
}

static bool on_write(struct path_common *net, struct net_parcel *piece)
{
    bool follows = !net->rails[0].traits.confirmed && !piece->sure;
    switch (piece->phase) {
    case FILLING:
        if (!copied(net, piece)) {
            net->restless = true;
            return false;
        }
        if (!piece->left)
            leave(&piece->filling, &channel_of(piece)->filling);
        piece->phase = POSTING;
        return true;
    case POSTING:
        return send(net, piece);
    case ASTRAY:
        return go_again(net, piece);
    case POSTED:
        if (piece->lost && !on_wire(piece))
            go_astray(net, piece);
        else if (piece->there && (follows || !on_wire(piece)))
            piece->phase = TELLING;
        else if (on_wire(piece))
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
        over(net, piece);
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
        return send(net, piece);
    case ASTRAY:
        return go_again(net, piece);
    case POSTED:
        if (on_wire(piece))
            return false;
        if (piece->lost)
            go_astray(net, piece);
        else if (piece->here)
            empty(net, piece);
        else
            arrive(net, piece);
        return true;
    case EMPTYING:
        if (!copied(net, piece)) {
            net->restless = true;
            return false;
        }
        over(net, piece);
        return true;
    default:
        return false;
    }
}

/* Nothing more goes to the peer: what libfabric or the GPU still holds is waited for. */
static bool on_failed(struct path_common *net, struct net_parcel *piece)
{
    if (on_wire(piece))
        return false;
    if (!copied(net, piece)) {
        net->restless = true;
        return false;
    }
    net_stage_forget_room(net, piece->post.peer);
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

/* ------------------------------------------------------------------------------------ beginning */

static void activate(struct path_common *net, struct net_stage *stage)
{
    if (stage->active)
        return;
    stage->active = true;
    stage->next = net->stages;
    net->stages = stage;
}

void net_stage_begin(struct path_state *state, const struct net_parcel *piece)
{
    struct path_common *net = state->net;
    struct net_peer *peer = piece->post.peer;
    struct net_stage *stage = peer->stage;
    struct net_channel *channel = net_touch(state, peer->pe);
    struct net_parcel *to = piece_of(net, stage, ++stage->taken);
    *to = *piece;
    to->number = stage->taken;
    to->state = state;
    state->under_way++;
    for (int i = 0; i < NET_RAILS && to->there; i++)
        to->ends.keys[i].base += position_of(net, to);
    if (to->write) {
        join(&to->staging, &channel->staging);
        join(&to->filling, &channel->filling);
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

void net_stage_free(struct path_common *net)
{
    struct gpu *gpu = net->world->gpu;
    if (gpu && (net->stages || net->late))
        gpu_quiet(gpu); /* best effort: the memory it copies to goes next */
    for (int pe = 0; pe < net->world->npes; pe++) {
        struct net_stage *stage = net->peers[pe].stage;
        for (uint32_t i = 0; stage && i < net->lots; i++)
            gpu_event_release(gpu, &stage->pieces[i].mark);
        if (stage)
            free(stage->pieces);
        free(stage);
        net->peers[pe].stage = NULL;
    }
    net->stages = NULL;
}

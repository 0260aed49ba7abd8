/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory over path net. Where no NIC reaches it (net_hmem.c), pieces of a transfer go through pinned host
 * memory, several at a time, so that the copies at both ends run beside each other and beside the wire. One
 * copy at an end whose memory is GPU memory, none at an end whose memory is not, or is reached.
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
 * books.
 *
 * On the wire a piece is one remote access over the first NIC. Where the peer is reached over several it is
 * cut again, each part goes over whichever is free first and again over another when its NIC fails (net_stripe.h),
 * and the piece goes on when all parts are known to have arrived.
 *
 * net_stage.c takes pieces through their phases, net_stage_begin.c finds out by what way a piece goes.
 * Neither knows how the owner's GPU copies (net_serve.c). */
#ifndef WEFT_PATH_NET_STAGE_H
#define WEFT_PATH_NET_STAGE_H

#include "path/net_hmem.h"
#include "path/net_stripe.h"

enum net_phase { FILLING, POSTING, POSTED, TELLING, TOLD, ASKING, ASKED, EMPTYING, OVER };

/* A piece. */
struct net_parcel {
    struct net_post post; /* of its remote access; first */
    enum net_phase phase;
    bool write;
    bool here, there;                     /* goes through a lot here, through one at the peer */
    bool device;                          /* the local side is GPU memory */
    bool proof;                           /* of net_hmem.c */
    bool sure;                            /* goes in parts that go again when a NIC fails, */
    bool spread;                          /* over all NICs */
    bool in_flight;                       /* libfabric has it */
    uint32_t parts;                       /* that have not come */
    bool staging, filling, writes, reads; /* it is counted there in the channel */
    struct path_state *state;
    struct gpu_mark *mark;
    struct remote at; /* `peer` is of the context and not looked at */
    struct net_ends ends;
    char *local;
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
    void *const *descriptors; /* of the lots, by rail */
    struct net_key room[NET_RAILS];
    bool room_asked;
};

/* The piece takes its turn, of which there is one (stage->taken - stage->gone < net->lots), and goes as far as
 * it does without waiting. */
void net_stage_begin(struct path_state *state, const struct net_parcel *piece);

/* A part of the piece has arrived, or its peer has failed. */
void net_stage_came(struct net_parcel *piece);

#endif

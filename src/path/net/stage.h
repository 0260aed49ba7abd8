/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory over path net. Where no NIC reaches it (hmem.c), pieces of a transfer go through
 * pinned host memory, several at a time, so that the copies at both ends run beside each other and
 * beside the wire. One copy at an end whose memory is GPU memory, none at an end whose memory is
 * not, or is reached.
 *
 * For each peer there is memory here in so many lots, and a room of so many lots at the peer
 * (net_room()). Piece n uses lot n of both, counted round, and goes through phases:
 *
 *   put  FILLING (GPU to the lot here), POSTING, POSTED (the remote write), TELLING, TOLD (the
 *        owner copies from its room, in order with every other request)
 *   get  ASKING, ASKED (the owner copies into its room), POSTING, POSTED (the remote read),
 *        EMPTYING (from the lot here to the GPU)
 *
 * less those that one of the two ends does not need. Only this PE hands out lots, so the owner
 * keeps no books.
 *
 * What goes in place at one end or at both, and has parts for which no NIC is left that reaches
 * that end (stripe.h gives those back), goes again from its beginning through lots at both ends:
 * ASTRAY until the room is known, then the phases above, lot after lot where it is larger than one.
 * Its writes are counted until the owner is done with the last of them, so that whoever waits for
 * them waits for that.
 *
 * On the wire a piece is one remote access over the first NIC. Where the peer is reached over
 * several it is cut again, each part goes over whichever is free first and again over another when
 * its NIC fails (stripe.h), and the piece goes on when all parts are known to have arrived.
 *
 * stage.c takes pieces through their phases, stage_begin.c finds out by what way a piece goes.
 * Neither knows how the owner's GPU copies (serve.c). */
#ifndef WEFT_PATH_NET_STAGE_H
#define WEFT_PATH_NET_STAGE_H

#include "path/net/hmem.h"
#include "path/net/stripe.h"

enum net_phase { FILLING, POSTING, POSTED, TELLING, TOLD, ASKING, ASKED, EMPTYING, ASTRAY, OVER };

/* A piece. */
struct net_parcel {
    struct net_post post; /* of its remote access; first */
    enum net_phase phase;
    bool write;
    bool here, there;                     /* goes through a lot here, through one at the peer */
    bool device;                          /* the local side is GPU memory */
    bool proof;                           /* of hmem.c */
    bool sure;                            /* goes in parts that go again when a NIC fails, */
    bool spread;                          /* over all NICs */
    bool in_flight;                       /* libfabric has it */
    bool lost;                            /* no NIC is left for some of its parts */
    bool again;                           /* it goes again, through lots at both ends, */
    bool filled;                          /* and its data are in the lot here */
    size_t left;                          /* bytes behind `bytes` that go again after them */
    uint32_t parts;                       /* that have not come */
    bool staging, filling, writes, reads; /* it is counted there in the channel */
    struct path_state *state;
    struct gpu_event *mark;
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
    uint64_t room_token; /* somebody asks for it who cannot wait; 0: nobody */
    struct net_key room_came[NET_RAILS];
};

/* The piece takes its turn, of which there is one (stage->taken - stage->gone < net->lots), and
 * goes as far as it does without waiting. */
void net_stage_begin(struct path_state *state, const struct net_parcel *piece);

/* Both ends of the piece become lots; *ready false: not yet, since the peer is asked for its room.
 * Never waits. */
weft_status net_stage_through_lots(struct path_common *net, struct net_parcel *piece, bool *ready);

/* The peer has failed: it will not answer. */
void net_stage_forget_room(struct path_common *net, struct net_peer *peer);

/* A part of the piece has arrived, or its peer has failed. */
void net_stage_came(struct net_parcel *piece);

/* No NIC is left that carries a part of the piece between these ends, and what the lost ones had is
 * closed at both; net_stage_came() follows. False: it goes through lots already, so that there is
 * no other way. */
bool net_stage_strays(struct net_parcel *piece);

#endif

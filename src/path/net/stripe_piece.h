/* SPDX-License-Identifier: Apache-2.0 */
/* Between stripe.c, which sends pieces over rails, and stripe_fail.c, which gives rails up. */
#ifndef WEFT_PATH_NET_STRIPE_PIECE_H
#define WEFT_PATH_NET_STRIPE_PIECE_H

#include "path/net/stripe.h"

struct net_piece {
    struct net_post post;
    struct path_state *state;
    struct net_piece *next, *previous;
    struct net_pin *pin; /* `local` is registered so; NULL: it need not be, or is of a segment */
    struct net_parcel *parcel; /* it is a part of that, between these ends; NULL: of a chunk */
    const struct net_ends *ends;
    char *local;
    size_t offset, bytes; /* in the peer's segment, of which it lies in one chunk; from the ends */
    uint8_t segment, rail;
    bool write;
    bool spread;    /* over any rail */
    bool proof;     /* that GPU memory is reached over a rail: its failure is no other's */
    int8_t closing; /* of the peer's rails the one that must be closed before it goes; -1 = none */
    enum net_piece_step {
        NET_WAITING,
        NET_MOVING,
        NET_MOVED, /* as far as this end knows; must be confirmed */
        NET_CONFIRMING,
        NET_LOST, /* failed; it goes again when the rail is closed */
    } step;
};

void net_pieces_append(struct net_pieces *list, struct net_piece *piece);
void net_pieces_remove(struct net_pieces *list, struct net_piece *piece);
void net_piece_finish(struct net_piece *piece);

/* A piece of a proof, in no list any more, has failed. */
void net_piece_unproven(struct net_piece *piece, const char *cause);

/* Its owner has still to close a rail. */
static inline bool net_piece_waits(const struct net_piece *piece)
{
    return piece->closing >= 0 && !(piece->post.peer->closed >> piece->closing & 1);
}

enum {
    NET_PATIENCE_S = 3, /* before the peer is asked, and again after it has answered */
    NET_SLICE_NS = 100 * 1000 * 1000, /* what a look counts at most: being stopped is no failure */
};

/* Nothing more goes over the rail; it is closed at the next step. The one that messages to the peer
 * go over: when the peer is there over another; else the peer is given up. */
void net_rail_failed(struct path_common *net, struct net_rail *rail, struct net_peer *peer,
                     const char *cause);

/* Asks the peer to close a rail of its own, if that has not been done. */
void net_ask_to_close(struct path_common *net, struct net_peer *peer, int there);

/* Closes rails that have failed, and looks whether others stand still. */
void net_rails_check(struct path_common *net);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Between net_stripe.c, which sends pieces over rails, and net_stripe_fail.c, which gives rails up. */
#ifndef WEFT_PATH_NET_STRIPE_PIECE_H
#define WEFT_PATH_NET_STRIPE_PIECE_H

#include "path/net_stripe.h"

struct net_piece {
    struct net_post post;
    struct path_state *state;
    struct net_piece *next, *previous;
    struct net_pin *pin; /* `local` is registered so; NULL: it need not be, or is of a segment */
    char *local;
    size_t offset, bytes; /* in the peer's segment; it lies in one chunk */
    uint8_t segment, rail;
    bool write;
    uint8_t closing; /* of the peer's rails the one that must be closed before it goes; 0 = none */
    enum net_piece_step {
        NET_WAITING,
        NET_MOVING,
        NET_MOVED, /* as far as this end knows; must be confirmed */
        NET_CONFIRMING,
    } step;
};

void net_pieces_append(struct net_pieces *list, struct net_piece *piece);
void net_pieces_remove(struct net_pieces *list, struct net_piece *piece);
void net_piece_finish(struct net_piece *piece);

/* Its owner has still to close a rail. */
static inline bool net_piece_waits(const struct net_piece *piece)
{
    return piece->closing && !(piece->post.peer->closed >> piece->closing & 1);
}

/* Nothing more goes over the rail; it is closed at the next step. The first rail: the peer is given up. */
void net_rail_failed(struct path_common *net, struct net_rail *rail, struct net_peer *peer,
                     const char *cause);

/* Closes rails that have failed, and looks whether others stand still. */
void net_rails_check(struct path_common *net);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Between stripe.c, which sends pieces over rails, and stripe_fail.c, which gives rails up. */
#ifndef WEFT_PATH_NET_STRIPE_PIECE_H
#define WEFT_PATH_NET_STRIPE_PIECE_H

#include "path/net/stripe.h"

struct net_fragment {
    struct net_post post;
    struct path_state *state;
    struct net_fragment *next, *previous;
    struct net_pin *pin; /* `local` is registered so; NULL: it need not be, or is of a segment */
    struct net_staged_fragment
        *staged; /* it is a part of that, between these ends; NULL: of a chunk */
    const struct net_ends *ends;
    char *local;
    size_t offset, bytes; /* in the peer's segment, of which it lies in one chunk; from the ends */
    uint8_t segment, rail;
    bool write;
    bool spread;         /* over any rail */
    bool proof;          /* that GPU memory is reached over a rail: its failure is no other's */
    int8_t closing_rail; /* of the peer's rails the one that must be closed before it goes; -1 =
                            none */
    enum net_fragment_phase {
        NET_QUEUED,
        NET_POSTED,
        NET_UNCONFIRMED, /* as far as this end knows; must be confirmed */
        NET_CONFIRMING,
        NET_LOST, /* failed; it goes again when the rail is closed */
    } phase;
};

void net_fragments_append(struct net_fragment_list *list, struct net_fragment *fragment);
void net_fragments_remove(struct net_fragment_list *list, struct net_fragment *fragment);
void net_fragment_finish(struct net_fragment *fragment);

/* A piece of a proof, in no list any more, has failed. */
void net_fragment_fail_proof(struct net_fragment *fragment, const char *cause);

/* Its owner has still to close a rail. */
static inline bool net_fragment_awaits_close(const struct net_fragment *fragment)
{
    return fragment->closing_rail >= 0 &&
           !(fragment->post.peer->closed_rails >> fragment->closing_rail & 1);
}

enum {
    NET_FAILURE_TIMEOUT_S = 3, /* before the peer is asked, and again after it has answered */
    NET_CHECK_STEP_NS =
        100 * 1000 * 1000, /* what a look counts at most: being stopped is no failure */
};

/* Nothing more goes over the rail; it is closed at the next step. The one that messages to the peer
 * go over: when the peer is there over another; else the peer is given up. */
void net_fail_rail(struct path_common *net, struct net_rail *rail, struct net_peer *peer,
                   const char *cause);

/* Asks the peer to close a rail of its own, if that has not been done. */
void net_request_close(struct path_common *net, struct net_peer *peer, int there);

/* Closes rails that have failed, and looks whether others stand still. */
void net_check_rails(struct path_common *net);

#endif

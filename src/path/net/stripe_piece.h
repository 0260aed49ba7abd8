/* SPDX-License-Identifier: Apache-2.0 */
/* Between stripe.c, which posts fragments on rails, and stripe_fail.c, which gives rails up. */
#ifndef WEFT_PATH_NET_STRIPE_PIECE_H
#define WEFT_PATH_NET_STRIPE_PIECE_H

#include "path/net/stripe.h"

struct net_fragment {
    struct net_post post;
    struct net_state *state;
    struct net_fragment *next, *previous;
    struct net_pin *pin; /* registration of `local`; NULL: not needed, or `local` is in a segment */
    struct net_staged_fragment *staged; /* staged fragment that this is a part of; NULL: `segment`
                                           and `offset` name the remote side */
    const struct net_ends *ends;
    char *local;
    size_t offset, bytes; /* offset: bytes in the peer's segment, within one chunk; from `ends` if
                             there is a staged fragment */
    uint8_t segment, rail;
    bool write;
    bool spread;         /* any rail may carry the fragment */
    bool proof;          /* The fragment belongs to a path test; its failure fails only that. */
    int8_t closing_rail; /* rail of the peer that must be closed before the fragment is
                            retransmitted; -1 if none */
    enum net_fragment_phase {
        NET_QUEUED,
        NET_POSTED,
        NET_UNCONFIRMED, /* complete at this end; a read must confirm its arrival */
        NET_CONFIRMING,
        NET_LOST, /* failed; it is retransmitted when the rail is closed */
    } phase;
};

void net_fragments_append(struct net_fragment_list *list, struct net_fragment *fragment);
void net_fragments_remove(struct net_fragment_list *list, struct net_fragment *fragment);
void net_fragment_finish(struct net_fragment *fragment);

/* Fails the path test that the fragment belongs to. The fragment is in no list any more. */
void net_fragment_fail_proof(struct net_fragment *fragment, const char *cause);

/* Whether the fragment waits until its target PE has closed a rail. */
static inline bool net_fragment_awaits_close(const struct net_fragment *fragment)
{
    return fragment->closing_rail >= 0 &&
           !(fragment->post.peer->rails.closed >> fragment->closing_rail & 1);
}

enum {
    /* Time before this PE asks the peer, and again after the peer has answered. */
    NET_FAILURE_TIMEOUT_S = 3,
    NET_CHECK_STEP_NS = 100 * 1000 * 1000, /* a check adds at most this time, so that a stopped
                                              process does not count as a failure */
};

/* Marks the rail as failed; the next check closes it. If the rail carries messages to the peer, it
 * is only suspected until another rail shows that the peer is live; without another rail the peer
 * has failed. */
void net_fail_rail(struct path_common *net, struct net_rail *rail, struct net_peer *peer,
                   const char *cause);

/* Asks the peer once to close a rail of its own. */
void net_request_close(struct path_common *net, struct net_peer *peer, int there);

/* Closes rails that have failed, and looks for rails that have stalled. */
void net_check_rails(struct path_common *net);

#endif

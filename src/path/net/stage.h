/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers with GPU memory over path net. Where the NIC does not reach GPU memory (hmem.c), the
 * fragments of a transfer go through pinned host memory, the staging slots. Several fragments are
 * in flight at a time, so that the copies at both ends and the network run in parallel. An end
 * copies once if its memory is GPU memory that the NIC does not reach, and not at all otherwise.
 *
 * For each peer this PE has slot_count local slots, and the peer has a staging buffer of as many
 * slots (net_get_staging_buffer()). Fragment n uses slot (n - 1) mod slot_count of both. It goes
 * through these phases after BEGUN, less those that an end without a slot does not need:
 *
 *   put  COPYING_IN (from the GPU to the local slot), POSTING, POSTED (the RMA write), NOTIFYING,
 *        NOTIFIED (the peer copies from its slot, in order with all other requests)
 *   get  REQUESTING, REQUESTED (the peer copies into its slot), POSTING, POSTED (the RMA read),
 *        COPYING_OUT (from the local slot to the GPU)
 *
 * Only this PE assigns slots, so the peer keeps no allocation state.
 *
 * Retransmission: a fragment that is in place at one end or both may lose the last NIC that reaches
 * that end. It then starts again through slots at both ends. It is RETRANSMITTING until the keys of
 * the peer's staging buffer are known, and then goes through the phases above, one slot after
 * another if it is larger than a slot. A put counts in the channel until the peer has copied the
 * last slot.
 *
 * On the network a fragment is one RMA operation over the first rail. If several rails reach the
 * peer, the fragment is cut into fragments of stripe.h, which are retransmitted if a NIC fails; it
 * goes on when all of them have arrived.
 *
 * stage.c moves fragments through their phases. stage_begin.c chooses for each end between in place
 * and slot. serve.c executes the peer's part. */
#ifndef WEFT_PATH_NET_STAGE_H
#define WEFT_PATH_NET_STAGE_H

#include "path/net/hmem.h"
#include "path/net/stripe.h"

enum net_phase {
    BEGUN,
    COPYING_IN,
    POSTING,
    POSTED,
    NOTIFYING,
    NOTIFIED,
    REQUESTING,
    REQUESTED,
    COPYING_OUT,
    RETRANSMITTING,
    COMPLETE
};

/* A fragment of a staged transfer. */
struct net_staged_fragment {
    struct net_post post; /* of the RMA operation over the first rail; first member */
    enum net_phase phase;
    bool write;
    bool uses_local_slot;
    bool uses_peer_slot;
    bool local_is_gpu;       /* The local side is GPU memory. */
    bool proof;              /* The fragment belongs to a path test of hmem.c. */
    bool retransmittable;    /* The fragment goes over stripe.h, which retransmits it. */
    bool spread;             /* It is spread over all rails. */
    bool in_flight;          /* libfabric has it, on the first rail. */
    bool lost;               /* No NIC that is left reaches both ends. */
    bool retransmitted;      /* It is retransmitted through slots at both ends. */
    bool slot_filled;        /* Its data are in the local slot before the retransmission. */
    size_t remaining_bytes;  /* bytes behind `bytes` that are retransmitted afterwards */
    uint32_t rail_fragments; /* fragments of stripe.h that have not arrived */
    bool counts_unnotified;  /* counted in the channel's unnotified */
    bool counts_source;      /* counted in the channel's sources_in_use */
    bool counts_write;       /* counted in the channel's writes */
    bool counts_read;        /* counted in the channel's reads */
    struct net_state *state;
    struct gpu_event *copy_event;
    struct remote remote; /* remote.peer belongs to the context and is not used here. */
    struct net_ends ends;
    char *local;
    size_t bytes;
    uint64_t sequence;       /* sequence number of the fragment at this peer, from 1 */
    uint64_t notify_message; /* sequence number of the message that notified the peer */
};

/* The staged transfers to one peer. */
struct net_stage {
    struct net_peer *peer;
    struct net_stage *next;
    bool active;                                /* The stage is in net->active_stages. */
    struct net_staged_fragment *fragments;      /* [slot_count] */
    uint64_t last_begun, last_retired;          /* sequence numbers; the slots between are in use */
    unsigned char *slots;                       /* local slots */
    void *const *slot_descriptors;              /* local descriptors of the slots, by rail */
    struct net_key peer_buffer_keys[NET_RAILS]; /* the peer's staging buffer, by rail of the peer */
    bool peer_buffer_known;
    uint64_t peer_buffer_token; /* query for the keys that runs without a waiting caller; 0: none */
    struct net_key peer_buffer_answer[NET_RAILS];
};

/* Begins `fragment`, whose local side is `local`, in the next slot; net_stage_advance() does the
 * rest. The caller has checked that a slot is free: stage->last_begun - stage->last_retired <
 * net->slot_count. */
void net_stage_begin(struct net_state *state, const struct net_staged_fragment *fragment,
                     void *local);

/* Moves both sides of a fragment into slots. *ready false: the peer has not yet sent the keys of
 * its staging buffer. It never waits. */
weft_status net_stage_use_slots(struct path_common *net, struct net_staged_fragment *fragment,
                                bool *ready);

/* Cancels the query for the staging buffer of a failed peer. */
void net_stage_cancel_query(struct path_common *net, struct net_peer *peer);

/* A fragment on a rail has arrived, or its peer has failed. */
void net_stage_fragment_done(struct net_staged_fragment *fragment);

/* Asks for the retransmission of a staged fragment: no NIC that is left reaches both its ends, and
 * both PEs have closed the failed ones. net_stage_fragment_done() follows. False if both sides are
 * in slots already, so that nothing else can be tried. */
bool net_stage_retransmit(struct net_staged_fragment *fragment);

#endif

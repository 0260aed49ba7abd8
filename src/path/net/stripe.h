/* SPDX-License-Identifier: Apache-2.0 */
/* Striping: a large transfer is spread over the NICs of this PE. The transfer lies between host
 * memories, or belongs to a staged fragment (stage.h). It is cut into fragments; each one uses the
 * rail that will complete it first. A fragment counts in the context's channel until its data have
 * arrived. Fence, quiet and put_signal wait for the channel, so they hold over all rails, although
 * fragments on different rails overtake one another.
 *
 * A rail that fails is given up, and its fragments are retransmitted over the others. A write is
 * retransmitted only after the target PE has closed its end of the failed rail: until then the
 * first copy may still arrive and overwrite later data.
 *
 * The caller of each function holds the lock of path net. */
#ifndef WEFT_PATH_NET_STRIPE_H
#define WEFT_PATH_NET_STRIPE_H

#include "path/net/net.h"

/* Whether a transfer of this size is striped over the rails that reach the peer. */
bool net_is_striped(const struct path_common *net, const struct net_peer *peer, size_t bytes);

/* Queues a transfer between host memories. *queued: bytes that were queued, up to the end of the
 * registered chunk; 0 if one side is not registered with every rail. It may wait for the peer's
 * keys. */
weft_status net_stripe_host(struct net_state *state, struct remote at, void *local, size_t bytes,
                            bool write, size_t *queued);

/* A transfer between known ends, for a staged fragment. net_stripe_staged() queues all of it as
 * *fragments fragments, and net_stage_fragment_done() is called once for each of them. */
struct net_transfer {
    struct net_peer *peer;
    struct net_staged_fragment *staged;
    const struct net_ends *ends; /* valid until the last fragment has ended */
    char *local;
    size_t bytes;
    bool write, spread, proof;
};
weft_status net_stripe_staged(struct net_state *state, const struct net_transfer *transfer,
                              uint32_t *fragments);

/* Whether a usable rail has keys for both ends. */
bool net_ends_share_rail(const struct path_common *net, const struct net_peer *peer,
                         const struct net_ends *ends);

/* Handles the completion, or the error, of an operation of kind NET_POST_STRIPE. */
void net_stripe_completed(struct path_common *net, struct net_post *post);
void net_stripe_failed(struct path_common *net, struct net_rail *rail, struct net_post *post,
                       const char *cause);

/* Advances striped transfers by one step: closes rails that have failed or stalled, and posts
 * queued fragments. */
void net_stripe_advance(struct path_common *net);

/* Handles a control record about a rail. */
void net_handle_control(struct path_common *net, struct net_peer *from,
                        const struct net_control *control);

/* Drops the lost fragments of a failed peer. */
void net_stripe_drop_lost(struct path_common *net, const struct net_peer *peer);

void net_stripe_close(struct path_common *net);

/* ------------------------------------------------------------------------ stripe_memory.c */

/* Registers a chunk of an own segment with every rail but the first. known 0: the NIC does not
 * reach it. */
void net_get_own_rail_keys(struct path_common *net, enum segment_id segment, size_t chunk,
                           struct net_key keys[NET_RAILS]);

/* Whether every rail can use the local side; *bytes is cut at the end of its registered chunk.
 * Memory outside the segments is registered for this transfer alone, as *pin, unless pin is NULL.
 * Each fragment holds the pin; the last release ends the registration. */
bool net_prepare_local(struct path_common *net, void *local, size_t *bytes, bool write,
                       struct net_pin **pin);
struct net_pin *net_hold_pin(struct net_pin *pin);
void net_release_pin(struct path_common *net, struct net_pin *pin);

void *net_get_pin_descriptor(const struct path_common *net, const struct net_rail *rail,
                             const struct net_pin *pin);

/* The descriptor of local memory in an own segment on this rail; it registers the chunk if needed.
 * *bytes is cut at the end of the chunk. NULL if the memory is in no segment, or the rail needs or
 * has no registration. */
void *net_get_host_descriptor(struct path_common *net, struct net_rail *rail, const void *local,
                              size_t *bytes);

/* The keys of a peer's chunk on all its rails but the first. The first call asks the peer and
 * waits. */
weft_status net_get_peer_rail_keys(struct net_state *state, struct net_peer *peer,
                                   enum segment_id segment, size_t chunk,
                                   const struct net_key **keys);

/* Eight bytes of registered memory as destination of confirming reads on this rail. */
void *net_get_rail_scratch(struct path_common *net, struct net_rail *rail, void **descriptor);

/* Registers memory of the library for as long as the rail is open. NULL if the provider refuses. */
struct fid_mr *net_register_on_rail(struct net_rail *rail, void *base, size_t bytes,
                                    uint64_t access);

/* Ends the registrations of a rail whose endpoint is closed. */
void net_free_rail_memory(struct path_common *net, struct net_rail *rail);

#endif

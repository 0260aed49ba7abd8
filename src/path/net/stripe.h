/* SPDX-License-Identifier: Apache-2.0 */
/* Large transfers spread over several NICs of this PE, between host memories and for stage.c: cut
 * into pieces, each of which goes over whichever rail will be free for it first, and counts in the
 * context's channel until its data are there. So fence, quiet and put_signal, which wait for the
 * channel, hold over all rails, whose pieces overtake one another.
 *
 * A rail that fails is given up, and its pieces go over the others. A piece is
 * written again only when its owner has closed that rail too: until then what was sent before might
 * still arrive, and destroy what came later. All with the lock of path net held. */
#ifndef WEFT_PATH_NET_STRIPE_H
#define WEFT_PATH_NET_STRIPE_H

#include "path/net/net.h"

/* Whether a transfer of so many bytes goes over rails. */
bool net_is_striped(const struct path_common *net, const struct net_peer *peer, size_t bytes);

/* Queues the first *taken bytes, up to where memory is registered apart; 0: it cannot go over
 * rails, since some side is not registered with them. May wait, for keys. */
weft_status net_stripe_host(struct path_state *state, struct remote at, void *local, size_t bytes,
                            bool write, size_t *queued);

/* The same between ends that are known: queues all of it, for `parcel`, which has net_stage_came()
 * called once for each of the *pieces. */
struct net_transfer {
    struct net_peer *peer;
    struct net_staged_fragment *staged;
    const struct net_ends *ends; /* stay as long as the pieces */
    char *local;
    size_t bytes;
    bool write, spread, proof;
};
weft_status net_stripe_staged(struct path_state *state, const struct net_transfer *transfer,
                              uint32_t *fragments);

/* Whether some rail leads from the one end to the other. */
bool net_ends_share_rail(const struct path_common *net, const struct net_peer *peer,
                         const struct net_ends *ends);

/* A post of kind NET_POST_STRIPE is complete, or has failed for this cause. */
void net_stripe_completed(struct path_common *net, struct net_post *post);
void net_stripe_failed(struct path_common *net, struct net_rail *rail, struct net_post *post,
                       const char *cause);

/* One step: gives up rails that have failed or stand still, posts what waits. */
void net_stripe_advance(struct path_common *net);

/* A peer's note on a rail. */
void net_handle_control(struct path_common *net, struct net_peer *from,
                        const struct net_control *control);

/* The peer has failed: what has failed with it is dropped. */
void net_stripe_drop_lost(struct path_common *net, const struct net_peer *peer);

void net_stripe_close(struct path_common *net);

/* ------------------------------------------------------------------------ stripe_memory.c */

/* Registers a chunk of an own segment with every rail but the first; keys[rail].known 0: it is
 * not. */
void net_get_own_rail_keys(struct path_common *net, enum segment_id segment, size_t chunk,
                           struct net_key keys[NET_RAILS]);

/* Whether the local side can be used on every rail; *bytes is cut where that ends. *pin: memory
 * outside the segments, which has been registered with every rail for this transfer, or NULL; where
 * pin is NULL it is not registered. Who has a piece of it takes it,
 * and the last who drops it ends the registration. */
bool net_prepare_local(struct path_common *net, void *local, size_t *bytes, bool write,
                       struct net_pin **pin);
struct net_pin *net_hold_pin(struct net_pin *pin);
void net_release_pin(struct path_common *net, struct net_pin *pin);

void *net_get_rail_descriptor(struct path_common *net, struct net_rail *rail, const void *local,
                              const struct net_pin *pin);

/* The keys of a peer's chunk on all its rails; asks at first, and waits. */
weft_status net_get_peer_rail_keys(struct path_state *state, struct net_peer *peer,
                                   enum segment_id segment, size_t chunk,
                                   const struct net_key **keys);

/* Eight bytes that remote reads of this rail may go to. */
void *net_get_rail_scratch(struct path_common *net, struct net_rail *rail, void **descriptor);

/* Memory of the library's own, for as long as the rail is there. */
struct fid_mr *net_register_on_rail(struct net_rail *rail, void *base, size_t bytes,
                                    uint64_t access);

/* The registrations of a rail; its endpoint is closed. */
void net_free_rail_memory(struct path_common *net, struct net_rail *rail);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* For paths that decide when an operation is carried out and leave the doing to path p2p: weak,
 * slow. They have their table's operations from here and say only what becomes of each. */
#ifndef WEFT_PATH_LOCAL_CARRIER_H
#define WEFT_PATH_LOCAL_CARRIER_H

#include "path/path.h"

/* An operation as it is kept until its time. Peers live as long as their context, and so do
 * these. */
enum carried_operation { CARRY_PUT, CARRY_GET, CARRY_ATOMIC, CARRY_PUT_SIGNAL };

struct carried {
    enum carried_operation operation;
    struct remote at;
    struct remote signal; /* put_signal */
    weft_amo amo;
    size_t bytes; /* of an atomic: its width */
    uint64_t value, expected;
    weft_signal_op op;
    void *data;    /* put: source; get: destination; atomic: where the value from before goes */
    bool own_copy; /* data is a copy of the source, to be freed */
};

/* The first member of such a path's state. */
struct carrier {
    const struct path_world *world;
    struct path_state *state; /* p2p's own; NULL until the job has a GPU side */

    /* What the path does with an operation: keeps it for later (it owns a copy then), or returns
     * when it is complete. */
    weft_status (*later)(struct path_state *state, struct carried carried);
    weft_status (*now)(struct path_state *state, struct carried carried);
};

/* Entries of the path's table. An operation goes `later` when nothing of it is wanted at once: nbi,
 * atomics that fetch nothing, and blocking puts, of a copy of their source. Device memory is never
 * copied: a blocking put from there goes `now`. */
weft_status carrier_put(struct remote to, const void *src, size_t bytes, bool nbi);
weft_status carrier_get(struct remote from, void *dst, size_t bytes, bool nbi);
weft_status carrier_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                           uint64_t expected, void *fetched, bool nbi);
weft_status carrier_put_signal(struct remote to, const void *src, size_t bytes,
                               struct remote signal, uint64_t value, weft_signal_op op, bool nbi);

/* NULL, or why p2p could not carry anything between the two. */
const char *carrier_obstacle(const struct path_facts *facts);

void carrier_open(struct carrier *carrier, const struct path_world *world);
void carrier_close(struct carrier *carrier);

/* Completes what has been carried out. */
weft_status carrier_quiet(struct carrier *carrier);

/* Carries it out, frees an own copy. Complete only after carrier_quiet(). */
weft_status carried_do(struct carrier *carrier, struct carried *carried);

/* "put of 8 bytes to PE 1" */
void carried_text(const struct carried *carried, char *text, size_t bytes);

#endif

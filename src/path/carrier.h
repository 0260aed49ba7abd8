/* SPDX-License-Identifier: Apache-2.0 */
/* For paths that decide when an operation is carried out and leave the doing to path p2p: weak, slow. */
#ifndef WEFT_PATH_CARRIER_H
#define WEFT_PATH_CARRIER_H

#include "path/path.h"

struct carrier {
    const struct path_world *world;
    struct path_state *state; /* p2p's own; NULL until the job has a GPU side */
};

/* NULL, or why p2p could not carry anything between the two. */
const char *carrier_obstacle(const struct path_facts *facts);

void carrier_open(struct carrier *carrier, const struct path_world *world);
void carrier_close(struct carrier *carrier);

/* Completes what has been carried out. */
weft_status carrier_quiet(struct carrier *carrier);

/* An operation as it is kept until its time. Peers live as long as their context, and so do these. */
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

/* The operations of a path's table as something to keep. */
static inline struct carried carried_put(struct remote to, size_t bytes)
{
    return (struct carried){.operation = CARRY_PUT, .at = to, .bytes = bytes};
}

static inline struct carried carried_put_signal(struct remote to, size_t bytes,
                                                struct remote signal, uint64_t value,
                                                weft_signal_op op)
{
    return (struct carried){.operation = CARRY_PUT_SIGNAL,
                            .at = to,
                            .bytes = bytes,
                            .signal = signal,
                            .value = value,
                            .op = op};
}

static inline struct carried carried_get(struct remote from, void *dst, size_t bytes)
{
    return (struct carried){.operation = CARRY_GET, .at = from, .bytes = bytes, .data = dst};
}

static inline struct carried carried_atomic(struct remote at, weft_amo amo, size_t width,
                                            uint64_t value, uint64_t expected, void *fetched)
{
    return (struct carried){.operation = CARRY_ATOMIC,
                            .at = at,
                            .bytes = width,
                            .amo = amo,
                            .value = value,
                            .expected = expected,
                            .data = fetched};
}

/* Takes a copy of the source where the operation must not look at it later (not nbi). Device memory is
 * never copied: the caller carries such a blocking put out at once. */
weft_status carried_keep_source(struct carried *carried, const void *src, bool nbi);

/* Carries it out, frees an own copy. Complete only after carrier_quiet(). */
weft_status carried_do(struct carrier *carrier, struct carried *carried);

/* "put of 8 bytes to PE 1" */
void carried_text(const struct carried *carried, char *text, size_t bytes);

/* Whether the CPU must not touch a local address. */
bool carrier_is_device(struct carrier *carrier, const void *local);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred operations of the test paths weak and slow. These paths decide when an operation is
 * executed; path p2p executes it. Their tables use the functions below, and they supply `later` and
 * `now`. */
#ifndef WEFT_PATH_LOCAL_CARRIER_H
#define WEFT_PATH_LOCAL_CARRIER_H

#include "path/path.h"

/* A deferred operation. It refers to peers of its context and must not outlive the context. */
enum deferred_kind { DEFERRED_PUT, DEFERRED_GET, DEFERRED_ATOMIC, DEFERRED_PUT_SIGNAL };

struct deferred_op {
    enum deferred_kind operation;
    struct remote at;
    struct remote signal; /* put_signal only */
    weft_amo amo;
    size_t bytes; /* of an atomic: its width in bytes */
    uint64_t value, expected;
    weft_signal_op op;
    void *data;    /* put: source; get: destination; atomic: where the old value goes */
    bool own_copy; /* data is a copy of the source, to be freed */
};

/* First member of the path's state. */
struct deferred_path {
    const struct path_world *world;
    struct path_state *state; /* p2p's state; NULL until the job has a GPU side */

    /* `later` queues an operation and takes ownership of the copy in it. `now` returns when the
     * operation is complete. */
    weft_status (*later)(struct path_state *state, struct deferred_op deferred);
    weft_status (*now)(struct path_state *state, struct deferred_op deferred);
};

/* Entries of the path's table. They call `later` for nonblocking operations, for atomics that fetch
 * nothing, and for blocking puts with a copy of their source. They call `now` for the rest, and for
 * a blocking put from device memory, which is never copied. */
weft_status deferred_put(struct remote to, const void *src, size_t bytes, bool nbi);
weft_status deferred_get(struct remote from, void *dst, size_t bytes, bool nbi);
weft_status deferred_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                            uint64_t expected, void *fetched, bool nbi);
weft_status deferred_put_signal(struct remote to, const void *src, size_t bytes,
                                struct remote signal, uint64_t value, weft_signal_op op, bool nbi);

/* Returns NULL, or why p2p cannot transfer between the two PEs. */
const char *deferred_obstacle(const struct path_facts *facts);

void deferred_open(struct deferred_path *path, const struct path_world *world);
void deferred_close(struct deferred_path *path);

/* Waits until all executed operations are complete. */
weft_status deferred_quiet(struct deferred_path *path);

/* Executes the operation and frees its copy. It is complete only after deferred_quiet(). */
weft_status deferred_op_run(struct deferred_path *path, struct deferred_op *deferred);

/* "put of 8 bytes to PE 1" */
void deferred_op_text(const struct deferred_op *deferred, char *text, size_t bytes);

#endif

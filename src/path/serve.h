/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying out at the owner what a peer asked of this PE's memory, host or GPU: for the paths on
 * which a peer can only ask. Requests are carried out in the order in which they are begun, so what
 * a peer finds in memory it finds in that order too; atomics and signals are done by the owner's
 * CPU or its GPU, so that they are atomic with those of every PE that reaches the memory itself.
 * Knows nothing of how a request came here. */
#ifndef WEFT_PATH_SERVE_H
#define WEFT_PATH_SERVE_H

#include "path/path.h"

enum serve_operation {
    SERVE_PUT,
    SERVE_GET,
    SERVE_STORE, /* one access of 1, 2, 4 or 8 bytes, aligned */
    SERVE_LOAD,
    SERVE_ATOMIC,
    SERVE_PUT_SIGNAL,
    SERVE_OPERATIONS
};

/* No pointers and no numbers of this machine: it may have travelled. */
struct serve_request {
    uint8_t operation; /* enum serve_operation */
    uint8_t segment;   /* enum segment_id, of this PE */
    uint8_t signal_segment;
    uint8_t amo;       /* weft_amo */
    uint8_t signal_op; /* weft_signal_op */
    uint8_t urgent;    /* of a put or get: the asker waits for it alone */
    uint64_t offset;   /* in the segment */
    uint64_t bytes;    /* of an atomic: its width, 4 or 8 */
    uint64_t value;    /* of an atomic, of the signal */
    uint64_t expected; /* of a compare and swap */
    uint64_t signal_offset;
};

struct serve;

/* One per thread that serves; requests begun in one are in order among themselves only. */
weft_status serve_open(const struct path_world *world, struct serve **serve);

/* Does not wait for what is under way. */
void serve_close(struct serve *serve);

/* Begins a request. data: what a put writes, or where a get or a load goes; it stays as it is until
 * the request is complete. before: where an atomic that fetches leaves what it found; known on
 * return.
 * WEFT_ERR_ADDRESS: the request names memory that this PE does not have. A request that fails is
 * complete, and those behind it go on. */
weft_status serve_begin(struct serve *serve, const struct serve_request *request, void *data,
                        uint64_t *before);

/* How many of the requests begun are complete, counted from the first, in order: visible to every
 * PE, data no longer looked at. Does not wait. */
weft_status serve_poll(struct serve *serve, uint64_t *complete);

/* How many have been begun. */
uint64_t serve_count_begun(const struct serve *serve);

/* Returns when all are complete. */
weft_status serve_quiet(struct serve *serve);

#endif

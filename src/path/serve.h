/* SPDX-License-Identifier: Apache-2.0 */
/* Executes peers' requests on this PE's memory, host or GPU, for paths on which a peer cannot
 * access it directly. Requests are executed in the order in which they are begun, and become
 * visible in memory in that order. This PE's CPU or GPU executes atomics and signals, so that they
 * are atomic with those of every PE that accesses the memory directly. This file does not know how
 * a request arrived. */
#ifndef WEFT_PATH_SERVE_H
#define WEFT_PATH_SERVE_H

#include "path/path.h"

enum serve_operation {
    SERVE_PUT,
    SERVE_GET,
    SERVE_STORE, /* one aligned access of 1, 2, 4 or 8 bytes */
    SERVE_LOAD,
    SERVE_ATOMIC,
    SERVE_PUT_SIGNAL,
    SERVE_OPERATIONS
};

/* A request. It has no pointers, since it may come from another machine. */
struct serve_request {
    uint8_t operation; /* enum serve_operation */
    uint8_t segment;   /* enum segment_id of this PE */
    uint8_t signal_segment;
    uint8_t amo;       /* weft_amo */
    uint8_t signal_op; /* weft_signal_op */
    uint8_t urgent;    /* of a put or get: the requester waits for this request alone */
    uint64_t offset;   /* byte offset in the segment */
    uint64_t bytes;    /* of an atomic: its width, 4 or 8 bytes */
    uint64_t value;    /* operand of an atomic; value of the signal */
    uint64_t expected; /* expected value of a compare-and-swap */
    uint64_t signal_offset;
};

struct serve;

/* One for each thread that serves. Only requests of the same `serve` have an order. */
weft_status serve_open(const struct path_world *world, struct serve **serve);

/* Does not wait for requests in flight. */
void serve_close(struct serve *serve);

/* Begins a request. data: source of a put, destination of a get or a load; the caller leaves it
 * alone until the request is complete. before: gets the old value of an atomic that fetches, on
 * return. WEFT_ERR_ADDRESS: the request names memory that this PE does not have. A request that
 * fails is complete, and the following ones are executed. */
weft_status serve_begin(struct serve *serve, const struct serve_request *request, void *data,
                        uint64_t *before);

/* Counts the requests that are complete, in order from the first: their effects are visible to
 * every PE and their data are no longer used. It does not wait. */
weft_status serve_poll(struct serve *serve, uint64_t *complete);

/* The number of requests begun. */
uint64_t serve_count_begun(const struct serve *serve);

/* Waits until all requests are complete. */
weft_status serve_quiet(struct serve *serve);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by stripe.c and stripe_measure.c: the routes to one peer. */
#ifndef WEFT_GPU_STRIPE_SET_H
#define WEFT_GPU_STRIPE_SET_H

#include "gpu/multipath/routes.h"
#include "gpu/multipath/stripe.h"
#include "gpu/multipath/stripe_host.h"

enum {
    /* bytes; the first copy of this size makes the library look for routes and measure them */
    GPU_STRIPE_MEASURE_BYTES = 8 << 20,
    GPU_STRIPE_WHOLE = 1024, /* a share is given in parts of this */
};

struct gpu_stripes {
    pthread_mutex_t lock; /* protects all other fields; held while a copy is enqueued */
    _Atomic size_t from;  /* bytes; smaller copies take one route; SIZE_MAX: all do */
    bool decided;
    /* GPU that issues copies of this pair without striping; it takes the first route */
    struct gpu *lead;
    struct gpu_routes routes;
    struct gpu *issuer[GPU_ROUTES_MOST];
    unsigned share[GPU_ROUTES_MOST];
    uint32_t mask; /* bits of windows[].stripes that the relay GPUs need */
    CUevent begun, ended[GPU_ROUTES_MOST];
    struct gpu_host_route host; /* state of GPU_ROUTE_HOST */
    size_t measured_bytes;      /* bytes of the copies that are measured */
    char text[200];
};

/* Enqueues a copy on the internal stream, with a share on each route. The context of set->lead is
 * current. */
weft_status gpu_stripe_parts(struct gpu_stripes *set, unsigned stream_index, void *dst,
                             const void *src, size_t bytes, const unsigned *share);

/* Determines the shares and the size from which striping is faster, by copying the first
 * set->measured_bytes several times. Sets set->routes.n to 1 when more routes are not faster.
 * Describes the result in set->text. The context of set->lead is current. */
weft_status gpu_stripe_measure(struct gpu_stripes *set, unsigned stream_index, void *dst,
                               const void *src);

#endif

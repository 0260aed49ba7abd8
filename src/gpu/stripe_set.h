/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of stripes share: the ways to one peer. */
#ifndef WEFT_GPU_STRIPE_SET_H
#define WEFT_GPU_STRIPE_SET_H

#include "gpu/stripe.h"
#include "gpu/stripe_host.h"
#include "gpu/ways.h"

enum {
    GPU_STRIPE_MEASURE_BYTES =
        8 << 20,             /* a copy of so many bytes is worth looking for other ways */
    GPU_STRIPE_WHOLE = 1024, /* shares are parts of it */
};

struct gpu_stripes {
    pthread_mutex_t lock; /* of all else; a copy is put on the streams under it */
    _Atomic size_t from;  /* smaller copies go one way; SIZE_MAX: all do */
    bool decided;
    struct gpu *lead; /* by whom copies of this pair are done anyway: the first way */
    struct gpu_routes routes;
    struct gpu *issuer[GPU_ROUTES_MOST];
    unsigned share[GPU_ROUTES_MOST];
    uint32_t mask; /* of windows[].stripes: what third GPUs need */
    CUevent begun, ended[GPU_ROUTES_MOST];
    struct gpu_host_route host; /* of GPU_ROUTE_HOST */
    size_t measured_bytes;      /* bytes of the copies that are measured */
    char text[200];
};

/* Puts a copy on the lane, a part on each way. The context of set->lead is current. */
weft_status gpu_stripe_parts(struct gpu_stripes *set, unsigned stream_index, void *dst,
                             const void *src, size_t bytes, const unsigned *share);

/* Finds shares and the size by copying the first set->look bytes several times; set->ways.n is 1
 * afterwards where more are no faster. Says so in set->text. The same context. */
weft_status gpu_stripe_measure(struct gpu_stripes *set, unsigned stream_index, void *dst,
                               const void *src);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Operations between PEs of one node that a GPU executes on request of the host: this PE's GPU
 * (paths `self` and `p2p`), or a third GPU that reaches both sides (path `relay`). The parameters
 * are those of struct path_ops. */
#ifndef WEFT_PATH_LOCAL_BY_GPU_H
#define WEFT_PATH_LOCAL_BY_GPU_H

#include "path/path.h"

/* A place in a peer's memory and the GPU that accesses it. */
struct gpu_target {
    struct gpu *own; /* this PE's GPU */
    struct gpu *gpu; /* executes the operation: `own`, or a relay GPU */
    unsigned stream; /* internal stream of its copies */
    int slot;        /* index of the peer's GPU on this node; -1: host memory */
    char *address;   /* the place as `gpu` addresses it */
};

/* Begins the state of a context (struct path_state). */
struct by_gpu {
    struct gpu *own;
    unsigned stream;
    /* Fills in slot and address of a place, and the GPU where it is not `own`. */
    weft_status (*find)(struct remote at, struct gpu_target *target);
};

weft_status by_gpu_address(struct remote at, char **address);
weft_status by_gpu_put(struct remote to, const void *src, size_t bytes, bool nbi);
weft_status by_gpu_get(struct remote from, void *dst, size_t bytes, bool nbi);
weft_status by_gpu_strided(struct remote at, char *local, bool put,
                           const struct path_strides *strides);
weft_status by_gpu_store(struct remote to, const void *value, size_t width);
weft_status by_gpu_load(struct remote from, void *value, size_t width);
weft_status by_gpu_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                          uint64_t expected, void *fetched, bool nbi);
weft_status by_gpu_put_signal(struct remote to, const void *src, size_t bytes, struct remote signal,
                              uint64_t value, weft_signal_op op, bool nbi);

#endif

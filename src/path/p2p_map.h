/* SPDX-License-Identifier: Apache-2.0 */
/* What paths `self` and `p2p` do with GPU memory without asking a GPU: small transfers between GPU memory
 * that is mapped into the CPU's addresses (gpu/map.h) and memory that the CPU reads and writes. Every function
 * says false where that is not the better way, or none; then nothing was done. For p2p_gpu.c. */
#ifndef WEFT_PATH_P2P_MAP_H
#define WEFT_PATH_P2P_MAP_H

#include <stdatomic.h>

#include "gpu/gpu.h"
#include "gpu/map.h"
#include "path/path.h"

/* Of one context. */
struct path_state {
    struct gpu *gpu;
    unsigned lane;
    _Atomic uint64_t
        unsettled; /* bit slot % 64: stores through the mapping of its window may be under way */
    bool
        fences_each; /* the system has no way to make the stores of other threads leave their CPUs */
    const char *_Atomic storer; /* the thread that has, or that there are several (p2p_map.c) */
};

/* When a context is opened. */
void p2p_map_open(struct path_state *state);

bool p2p_map_put(struct remote to, const void *src, size_t bytes);
bool p2p_map_get(struct remote from, void *dst, size_t bytes);
bool p2p_map_strided(struct remote at, void *local, bool put, const struct path_strides *strides);

/* One access each; width 1, 2, 4 or 8, aligned. */
bool p2p_map_store(struct remote to, const void *value, size_t width);
bool p2p_map_load(struct remote from, void *value, size_t width);

/* The data is in front of the signal, which is in GPU memory of the same PE. */
bool p2p_map_put_signal(struct remote to, const void *src, size_t bytes, struct remote signal,
                        uint64_t value);

/* Entry of the paths' tables: whether the host's small transfers to that PE's GPU memory are done so. */
weft_status p2p_map_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                           size_t bytes);

/* Returns when all that was stored so has arrived. */
void p2p_map_settle(struct path_state *state);

#endif

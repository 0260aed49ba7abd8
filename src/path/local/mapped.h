/* SPDX-License-Identifier: Apache-2.0 */
/* What paths of a node do with GPU memory without asking a GPU, or the peer: small transfers
 * between GPU memory that is mapped into the CPU's addresses (gpu/map/map.h) and memory that the
 * CPU reads and writes. Every function says false where that is not the better way, or none; then
 * nothing was done. For paths self and p2p (p2p_gpu.c), and staged. */
#ifndef WEFT_PATH_LOCAL_MAPPED_H
#define WEFT_PATH_LOCAL_MAPPED_H

#include <stdatomic.h>

#include "base/epoch.h"
#include "gpu/gpu.h"
#include "gpu/map/map.h"
#include "path/path.h"

enum { MAPPED_SLOTS = 64 };

/* What a path keeps of it for one context. */
struct mapped {
    const struct path_world *world; /* its GPU side may come later */
    _Atomic uint64_t used;          /* bit slot % 64: something was stored there */
    /* Stores through the mapping of a window, at slot % 64; a load-back behind them completes
     * them. */
    struct epoch stores[MAPPED_SLOTS];
    bool fences_each; /* the system has no way to make the stores of other threads leave their
                       * CPUs */
    const char *_Atomic storer; /* the thread that has stored, or that several have (mapped.c) */
};

/* When a context is opened. */
void mapped_open(struct mapped *m, const struct path_world *world);

bool mapped_put(struct mapped *m, struct remote to, const void *src, size_t bytes);
bool mapped_get(struct mapped *m, struct remote from, void *dst, size_t bytes);
bool mapped_strided(struct mapped *m, struct remote at, void *local, bool put,
                    const struct path_strides *strides);

/* One access each; width 1, 2, 4 or 8, aligned. */
bool mapped_store(struct mapped *m, struct remote to, const void *value, size_t width);
bool mapped_load(struct remote from, void *value, size_t width);

/* The data is in front of the signal, which is in GPU memory of the same PE. */
bool mapped_put_signal(struct mapped *m, struct remote to, const void *src, size_t bytes,
                       struct remote signal, uint64_t value);

/* Entry of the paths' tables: whether the host's small transfers to that PE's GPU memory are done
 * so. */
weft_status mapped_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                          size_t bytes);

/* Returns when all that was stored so has arrived. */
void mapped_settle(struct mapped *m);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Small transfers of the CPU to and from GPU memory that is mapped into the CPU's addresses
 * (gpu/map/map.h). Neither a GPU nor the peer takes part. Every function returns false and does
 * nothing if another way is faster or there is no mapping. Used by paths self, p2p (p2p_gpu.c) and
 * staged. */
#ifndef WEFT_PATH_LOCAL_MAPPED_H
#define WEFT_PATH_LOCAL_MAPPED_H

#include <stdatomic.h>

#include "base/epoch.h"
#include "gpu/gpu.h"
#include "gpu/map/map.h"
#include "path/path.h"

enum { MAPPED_SLOTS = 64 };

/* State of one context. */
struct mapped {
    const struct path_world *world; /* its GPU side may be created later */
    /* bit slot % 64: the context has stored to that PE's GPU memory */
    _Atomic uint64_t used;
    /* Stores through the mapping, at slot % 64. A load from the same memory completes them. */
    struct epoch stores[MAPPED_SLOTS];
    /* each thread fences its own stores: membarrier() would not flush them, or is missing */
    bool fences_each;
    const char *_Atomic storer; /* the one thread that has stored, or `several` (mapped.c) */
};

/* Called when a context is opened. */
void mapped_open(struct mapped *m, const struct path_world *world);

bool mapped_put(struct mapped *m, struct remote to, const void *src, size_t bytes);
bool mapped_get(struct mapped *m, struct remote from, void *dst, size_t bytes);
bool mapped_strided(struct mapped *m, struct remote at, void *local, bool put,
                    const struct path_strides *strides);

/* Stores or loads a value by one access. The width is 1, 2, 4 or 8 bytes, and the address is
 * aligned. */
bool mapped_store(struct mapped *m, struct remote to, const void *value, size_t width);
bool mapped_load(struct remote from, void *value, size_t width);

/* Stores data, then a signal in GPU memory of the same PE. No reader sees the signal before the
 * data. */
bool mapped_put_signal(struct mapped *m, struct remote to, const void *src, size_t bytes,
                       struct remote signal, uint64_t value);

/* Entry of the paths' tables: says whether the CPU does small transfers to that PE's GPU memory. */
weft_status mapped_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                          size_t bytes);

/* Returns when all stores of the context have arrived in GPU memory. */
void mapped_flush(struct mapped *m);

#endif

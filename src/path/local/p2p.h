/* SPDX-License-Identifier: Apache-2.0 */
/* Paths `self` and `p2p`: operations that the CPU executes itself (p2p.c), and operations that it
 * requests from its GPU because GPU memory is on either side (p2p_gpu.c). */
#ifndef WEFT_PATH_LOCAL_P2P_H
#define WEFT_PATH_LOCAL_P2P_H

#include "path/path.h"

/* Creates the state of a context. *state is NULL until the job has a GPU side. */
weft_status p2p_gpu_open(const struct path_world *world, struct path_state **state);
void p2p_gpu_close(struct path_state *state);

/* Returns true if local memory is device memory, which the CPU must not access. state may be
 * NULL. */
bool p2p_gpu_is_device(const struct path_state *state, const void *local);

weft_status p2p_gpu_put(struct remote to, const void *src, size_t bytes, bool nbi);
weft_status p2p_gpu_get(struct remote from, void *dst, size_t bytes, bool nbi);
weft_status p2p_gpu_strided(struct remote at, void *local, bool put,
                            const struct path_strides *strides);
weft_status p2p_gpu_store(struct remote to, const void *value, size_t width);
weft_status p2p_gpu_load(struct remote from, void *value, size_t width);
weft_status p2p_gpu_atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                           uint64_t expected, void *fetched, bool nbi);
weft_status p2p_gpu_put_signal(struct remote to, const void *src, size_t bytes,
                               struct remote signal, uint64_t value, weft_signal_op op, bool nbi);
weft_status p2p_gpu_quiet(struct path_state *state);

#endif

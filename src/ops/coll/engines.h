/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives whose bytes the copy engines move. Before the copies all members pass a barrier, so
 * that the destinations are ready; after the copies they pass another one, so that the destinations
 * are complete. A barrier is a kernel of one block that runs for some microseconds; no other SM is
 * used. Reductions have no such form. */
#ifndef WEFT_OPS_COLL_ENGINES_H
#define WEFT_OPS_COLL_ENGINES_H

#include "gpu/coll/coll.h"

/* Enqueues the collective on the stream. phases and threads: from coll_choose(). The caller has
 * made the device's context current. */
weft_status coll_engines_enqueue(struct gpu *gpu, const struct coll_call *call, int phases,
                                 unsigned threads, CUstream stream);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives whose bytes the copy engines move: in front of the copies all members meet, so that
 * destinations are ready, and behind them again, so that they are filled. A meeting is a kernel of
 * one block for some microseconds; no other SM is used. Reductions have no such form. */
#ifndef WEFT_OPS_COLL_ENGINES_H
#define WEFT_OPS_COLL_ENGINES_H

#include "gpu/coll/coll.h"

/* Puts it on the stream; phases and threads: as chosen (choose.h). The device's context is
 * current. */
weft_status coll_engines_put(struct gpu *gpu, const struct coll_call *call, int phases,
                             unsigned threads, CUstream stream);

#endif

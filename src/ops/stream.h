/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of operations in stream order. */
#ifndef WEFT_OPS_STREAM_H
#define WEFT_OPS_STREAM_H

#include "ops/access.h"
#include "path/path.h"

#include <weft/stream.h>

/* On simt: the host's function is called in stream order by a thread of that stream. Its failure
 * ends the job's further work, since the call that asked for it has returned long ago. */
weft_status stream_simt_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                            weft_stream stream);
weft_status stream_simt_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                            weft_stream stream);
weft_status stream_simt_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe,
                                   weft_stream stream);
weft_status stream_simt_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value, weft_signal_op op,
                               int pe, weft_stream stream);
weft_status stream_simt_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                    uint64_t value, weft_stream stream);
weft_status stream_simt_quiet(weft_ctx *ctx, weft_stream stream);
weft_status stream_simt_barrier(weft_team *team, weft_stream stream);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in stream order: those that a CUDA stream performs itself (stream.c), and those that
 * are host callbacks (call.c). The thread of a simt stream runs the callbacks, or, for a
 * CUDA stream, a thread of the library (host_callback.c). */
#ifndef WEFT_OPS_STREAM_H
#define WEFT_OPS_STREAM_H

#include "gpu/gpu.h"
#include "ops/access.h"
#include "ops/coll/kernel.h"
#include "path/path.h"

#include <weft/stream.h>

/* Whether streams of this job are CUDA streams: the job has a GPU side, and WEFT_TARGET is not
 * simt. */
bool stream_on_cuda(const struct weft_job *job);

/* WEFT_ERR_ARGUMENT: the stream belongs to another GPU than the job's. */
weft_status stream_check(const char *function, const struct weft_job *job, weft_stream stream);

bool stream_capturing(struct gpu *gpu, weft_stream stream);

/* Host callbacks, used on simt, and on cuda for memory that this GPU has no address for: the host
 * function is called in stream order. A failure fails the job, because the call that enqueued the
 * callback has already returned. */
weft_status stream_call_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                            weft_stream stream);
weft_status stream_call_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe,
                            weft_stream stream);
weft_status stream_call_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe,
                                   weft_stream stream);
weft_status stream_call_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value, weft_signal_op op,
                               int pe, weft_stream stream);
weft_status stream_call_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp,
                                    uint64_t value, weft_stream stream);
weft_status stream_call_quiet(weft_ctx *ctx, weft_stream stream);
weft_status stream_call_barrier(weft_team *team, weft_stream stream);
weft_status stream_call_sync(weft_team *team, weft_stream stream);

weft_status stream_call_collective(weft_team *team, const struct coll_request *request,
                                   weft_stream stream);

/* Enqueues a host callback: run(argument) is called when the stream reaches it, and the stream
 * waits until it returns. The function owns `argument` and frees it with free(). In a graph the
 * callback runs at each replay. After the job has been left it is no longer called. */
weft_status stream_host_call(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                             void *argument);

/* stream_host_call() on cuda: a thread of the library runs the callback. */
weft_status stream_callback(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                            void *argument);

#endif

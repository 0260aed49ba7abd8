/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of operations in stream order: what a CUDA stream does itself (stream.c), and what is a
 * call of the host (call.c), made by the thread of a stream of simt or by one that follows a
 * CUDA stream (host_callback.c). */
#ifndef WEFT_OPS_STREAM_H
#define WEFT_OPS_STREAM_H

#include "gpu/gpu.h"
#include "ops/access.h"
#include "path/path.h"

#include <weft/stream.h>

/* A job with a GPU side runs its streams there, unless its device code is known to run on simt. */
bool stream_on_cuda(const struct weft_job *job);

/* WEFT_ERR_ARGUMENT: the stream is of another GPU than the job's. */
weft_status stream_check(const char *function, const struct weft_job *job, weft_stream stream);

bool stream_capturing(struct gpu *gpu, weft_stream stream);

/* On simt, and on cuda toward memory that this GPU has no address of: the host's function is called
 * in stream order. Its failure ends the job's further work, since the call that asked for it has
 * returned long ago. */
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

/* A collective of weft.h; of its arguments those that it has. */
struct stream_collective {
    enum box_operation operation;
    weft_team *team;
    void *dst;
    const void *src;
    size_t count; /* bytes, or elements of a reduction */
    int root;
    weft_type type;
    size_t element, src_stride, dst_stride; /* of alltoalls */
    weft_op op;                             /* WEFT_DEV_SCALED too */
    const void *factor_at;                  /* of a scaled sum: in memory of the GPU, or NULL: */
    _Alignas(16) char factor[16];
    bool weighted;
    const uint64_t *send_bytes, *send_at, *recv_bytes, *recv_at; /* of alltoallv */
};
weft_status stream_call_collective(const struct stream_collective *what, weft_stream stream);

/* Has run(argument) be called when the stream comes there, and the stream wait until it has. Takes
 * argument over, which free() frees. In a graph it is called at each replay. Not called any more
 * once the job is being left. */
weft_status stream_host_call(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                             void *argument);

/* The part of it on cuda, by a thread of ours. */
weft_status stream_far_call(struct weft_job *job, weft_stream stream, void (*run)(void *argument),
                            void *argument);

#endif

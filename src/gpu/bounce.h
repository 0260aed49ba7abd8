/* SPDX-License-Identifier: Apache-2.0 */
/* Large copies between GPU memory and plain host memory, by several threads: each moves pieces
 * between that memory and pinned rooms of its own, which the copy engines read and write meanwhile.
 * The driver does the same with one thread. From which sizes that is quicker is measured once for
 * each start of the machine. Knows nothing of paths. */
#ifndef WEFT_GPU_BOUNCE_H
#define WEFT_GPU_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>

#include <weft.h>

struct gpu;
struct gpu_stream;

enum { GPU_BOUNCE_LEAST = 1 << 20, GPU_BOUNCE_THREADS = 8 };

/* What was measured. */
struct gpu_bounce_limits {
    int threads;              /* 0: it is not used */
    size_t in_from, out_from; /* bytes; 0 = never: into GPU memory, out of it */
};

/* Does the copy, complete on return and behind what the lane did before, and says so; false:
 * another way is the better one, and nothing was done. The device's context is current. */
bool gpu_bounce(struct gpu *gpu, struct gpu_stream *internal, void *dst, const void *src,
                size_t bytes, weft_status *status);

/* Measures, if nobody has. */
struct gpu_bounce_limits gpu_bounce_limits(struct gpu *gpu);

/* Ends its threads. The device's context is current. */
void gpu_bounce_stop(struct gpu *gpu);

#endif

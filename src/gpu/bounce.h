/* SPDX-License-Identifier: Apache-2.0 */
/* Large copies between GPU memory and plain host memory by several CPU threads. Each thread copies
 * pieces between plain memory and its own pinned bounce buffers, while the copy engines transfer
 * the other buffer. The driver does the same with one thread. The size from which several threads
 * are faster is measured once after each boot of the machine. This file knows nothing of paths. */
#ifndef WEFT_GPU_BOUNCE_H
#define WEFT_GPU_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>

#include <weft.h>

struct gpu;
struct gpu_stream;

enum {
    GPU_BOUNCE_LEAST = 1 << 20, /* bytes; smaller copies never use threads */
    GPU_BOUNCE_THREADS = 8,     /* at most */
};

/* The result of the measurement. */
struct gpu_bounce_limits {
    int threads; /* 0: copies by threads are not used */
    /* bytes from which threads are faster, into and out of GPU memory; 0 = never */
    size_t in_from, out_from;
};

/* Copies with several threads, ordered after earlier operations of the internal stream and complete
 * on return; *status is the result. Returns false when a copy engine is better; nothing was copied
 * then. The device's context is current. */
bool gpu_bounce(struct gpu *gpu, struct gpu_stream *internal, void *dst, const void *src,
                size_t bytes, weft_status *status);

/* Returns the limits; measures them at the first call. */
struct gpu_bounce_limits gpu_bounce_limits(struct gpu *gpu);

/* Stops the threads. */
void gpu_bounce_stop(struct gpu *gpu);

#endif

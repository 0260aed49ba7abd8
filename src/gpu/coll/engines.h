/* SPDX-License-Identifier: Apache-2.0 */
/* Several copies in parallel at one point of a stream, by the copy engines. They begin after the
 * earlier operations of the stream, and later operations of the stream wait for all of them. Each
 * copy but the first uses an internal stream, which forks from the caller's stream and joins it
 * again with events, so the copies are parallel in a captured graph too. A batch
 * (cuMemcpyBatchAsync) does not replace this: the driver executes its copies one after the other;
 * 64 MiB to a peer and to own memory took 224 us on an H100, and 179 us with two streams. This file
 * knows addresses, no collectives. */
#ifndef WEFT_GPU_ENGINES_H
#define WEFT_GPU_ENGINES_H

#include "gpu/gpu.h"

enum {
    /* streams in addition to the caller's; a GPU has fewer copy engines */
    GPU_ENGINE_STREAMS = 15,
    GPU_ENGINE_SETS = 24,   /* orders of copies and concurrent captures, at most */
    GPU_ENGINE_COPIES = 65, /* copies in one call, at most */
};

struct gpu_engine_copy {
    void *dst;
    const void *src;
    size_t bytes;
};

/* Streams that copies of one order use together: a copy of another order may have to overtake them.
 * A stream stays part of a capture until the capture ends, so each capture has a set of its own. */
struct gpu_engine_set {
    int streams; /* 0: the set is free */
    int order;
    bool captured;
    CUstream stream[GPU_ENGINE_STREAMS];
    CUevent begun, ended[GPU_ENGINE_STREAMS];
};

struct gpu_engines {
    pthread_mutex_t lock; /* held while the copies of one call are enqueued */
    struct gpu_engine_set sets[GPU_ENGINE_SETS];
};

void gpu_engines_open(struct gpu_engines *engines);
void gpu_engines_close(struct gpu_engines *engines, struct gpu *gpu);

/* Enqueues n copies, none of which reads or writes what another one writes. order: number of a
 * sequence that the program has ordered, such as the collectives of a team; calls of different
 * orders never wait for each other. The device's context is current. */
weft_status gpu_engines_copy(struct gpu_engines *engines, struct gpu *gpu, CUstream stream,
                             int order, const struct gpu_engine_copy *copies, int n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Several copies side by side at one place of a stream, by the copy engines: they begin when what
 * was put on the stream before has ended, and what is put on it afterwards waits for all of them.
 * Each copy but the first has a stream of the library's own that forks off the caller's and joins
 * it again by events, so that copies are side by side in a graph, too. A batch (cuMemcpyBatchAsync)
 * is no substitute: the driver carries out its copies one after the other, 64 MiB to a peer and to
 * the own memory in 224 us on H100, and by two streams in 179. Knows addresses, no collectives. */
#ifndef WEFT_GPU_ENGINES_H
#define WEFT_GPU_ENGINES_H

#include "gpu/gpu.h"

enum {
    GPU_ENGINE_STREAMS = 15, /* beside the caller's; a GPU has fewer copy engines than that */
    GPU_ENGINE_SETS = 24,    /* orders of copies, and captures of them that go on at once */
    GPU_ENGINE_COPIES = 65,  /* in one call, at most */
};

struct gpu_engine_copy {
    void *dst;
    const void *src;
    size_t bytes;
};

/* Streams that are used together, by copies of one order, since those of another may have to
 * overtake them. A stream stays part of a capture until that ends, so captures have theirs, each a
 * set by itself. */
struct gpu_engine_set {
    int streams; /* 0: nobody has the set */
    int order;
    bool captured;
    CUstream stream[GPU_ENGINE_STREAMS];
    CUevent begun, ended[GPU_ENGINE_STREAMS];
};

struct gpu_engines {
    pthread_mutex_t lock; /* copies of one call are put on the streams at a time */
    struct gpu_engine_set sets[GPU_ENGINE_SETS];
};

void gpu_engines_open(struct gpu_engines *engines);
void gpu_engines_close(struct gpu_engines *engines, struct gpu *gpu);

/* n copies, of which none reads or writes what another writes. order: a number of what the program
 * has ordered, such as the collectives of a team; calls of different ones never wait for each
 * other. The device's context is current. */
weft_status gpu_engines_copy(struct gpu_engines *engines, struct gpu *gpu, CUstream stream,
                             int order, const struct gpu_engine_copy *copies, int n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* An object for dispatch and combine (<weft_experts.h>). */
#ifndef WEFT_OPS_EXPERTS_H
#define WEFT_OPS_EXPERTS_H

#include <weft_experts.h>

#include "job/job.h"
#include "ops/experts/call.h"

enum experts_kernel {
#define EXPERTS_ENUM(name, threads) EXPERTS_##name,
    EXPERTS_KERNELS(EXPERTS_ENUM)
#undef EXPERTS_ENUM
        EXPERTS_KERNEL_COUNT
};

enum experts_step {
    EXPERTS_IDLE, /* nothing is in flight */
    EXPERTS_DISPATCHING,
    EXPERTS_DISPATCHED,
    EXPERTS_COMBINING,
};

struct weft_experts {
    struct weft_team *team;
    weft_experts_attr attr;
    void *memory;                /* symmetric; the pointers of `call` lie in it */
    struct experts_call call;    /* what all calls have in common */
    struct experts_call combine; /* of the combine in flight */
    enum experts_step step;
    bool known;               /* the dispatch in flight has a known layout */
    bool captured;            /* the latest step was captured into a graph */
    unsigned blocks, threads; /* of kernels that move rows */
    unsigned many_threads;    /* of the kernel that assigns them */
    weft_stream sum_stream;   /* adds results while more arrive; NULL: one part */
    weft_event came[EXPERTS_PARTS_MOST], summed;
    unsigned short_blocks; /* of the sending kernels of the short form */
};

/* Launches a kernel on a stream of the target. The GPU's kernels are loaded at their first use. */
weft_status experts_launch(struct weft_experts *experts, enum experts_kernel kernel,
                           unsigned blocks, unsigned threads, const struct experts_call *call,
                           weft_stream stream);

/* The stream and the events with which one part is added up while the next one arrives. */
weft_status experts_events_create(struct weft_experts *experts);
void experts_events_destroy(struct weft_experts *experts);
weft_status experts_record(struct weft_experts *experts, weft_event event, weft_stream stream);
weft_status experts_wait(struct weft_experts *experts, weft_stream stream, weft_event event);

#endif

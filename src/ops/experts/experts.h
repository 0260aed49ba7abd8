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

/* Values of WEFT_TEST_EXPERTS. */
enum {
    EXPERTS_FORM_LONG = 1,
    EXPERTS_FORM_SHORT = 2,
    EXPERTS_FORM_DIRECT = 3,
    EXPERTS_FORM_RELAY = 4
};

enum experts_step {
    EXPERTS_IDLE, /* nothing is in flight */
    EXPERTS_DISPATCHING,
    EXPERTS_DISPATCHED,
    EXPERTS_COMBINING,
};

struct weft_experts {
    struct weft_team *team;
    struct weft_team *node; /* the members on this PE's node; NULL: no relays */
    weft_experts_attr attr;
    weft_experts_size size;
    void *memory;                /* symmetric; the pointers of `call` lie in it */
    struct experts_call call;    /* what all calls have in common */
    struct experts_call combine; /* of the combine in flight */
    enum experts_step step;
    bool known;               /* the dispatch in flight has a known layout */
    bool captured;            /* the latest step was captured into a graph */
    unsigned blocks, threads; /* of kernels that move rows */
    unsigned part_blocks;     /* the same for parts of large results: two run at the same time */
    unsigned many_threads;    /* of the kernel that assigns them */
    weft_stream sum_stream;   /* adds results while more arrive; NULL: one part */
    weft_event came[EXPERTS_PARTS_MOST], summed;
    unsigned short_blocks; /* of the sending kernels of the short form */
    unsigned one_blocks;   /* of its kernels that send and receive */
};

/* Sizes that follow from the nodes on which members are. Those of a relay are the largest of all
 * PEs. */
struct experts_division {
    size_t nodes;    /* 0: no relays, the others but `returned` are 0 */
    size_t returned; /* results and sums that return for a token */
    size_t sources;  /* PEs whose tokens one relay serves */
    size_t places;   /* sources * members of the relay's node */
    size_t results;  /* results that come to a relay for one token of each source */
};

/* Members first[k] to before first[k + 1] in the order of nodes are on node k. nodes: 0: no relays.
 * top: experts of a token. */
struct experts_division experts_divide(size_t members, size_t top, size_t nodes, const int *first);

/* With node_members members on each node; the last one has what remains. Without relays where they
 * do not save time. */
struct experts_division experts_divide_evenly(size_t members, size_t top, size_t node_members);

/* What follows from the attributes, with attr->node_members members on each node. */
struct experts_form {
    struct experts_call sizes; /* the sizes of an object; it has no memory */
    struct experts_division division;
    size_t symmetric; /* bytes that the object takes at each PE */
    bool is_short;    /* the short form is used where members reach each other's memory */
};

/* function: for messages. Errors: those of weft_experts_sizes(). */
weft_status experts_form_of(const char *function, int members, const weft_experts_attr *attr,
                            struct experts_form *form);

/* Whether device code of this PE loads and stores in the memory of all members. */
bool experts_reaches_members(const struct weft_team *team);

/* Whether an object of the team has relays: some members share a node, some do not reach the memory
 * of others by load and store, and relays save time. Collective over the team. */
bool experts_has_relays(struct weft_team *team, size_t top, weft_status *status);

/* Makes the team of the node, and fills call.nodes but for the addresses, and the arrays there.
 * Collective over the team. */
weft_status experts_nodes_create(struct weft_experts *e);

/* Loads the GPU's kernels. */
weft_status experts_load_kernels(struct weft_experts *experts);

/* Launches a kernel on a stream of the target. */
weft_status experts_launch(struct weft_experts *experts, enum experts_kernel kernel,
                           unsigned blocks, unsigned threads, const struct experts_call *call,
                           weft_stream stream);

/* *blocks becomes the number of blocks of a kernel that sends and receives: a power of two of at
 * most `most`, all of which run at the same time. */
weft_status experts_one_kernel_blocks(struct weft_experts *experts, unsigned most,
                                      unsigned *blocks);

/* The stream and the events with which one part is added up while the next one arrives. */
weft_status experts_events_create(struct weft_experts *experts);
void experts_events_destroy(struct weft_experts *experts);

#endif

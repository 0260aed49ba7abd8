/* SPDX-License-Identifier: Apache-2.0 */
/* The black box: what a PE is doing, readable by the other PEs of the node and by `weft attach`
 * while the PE hangs or after it died. It lies at the start of the PE's slot of the system segment,
 * a memfd named "weft-system". Readers must treat everything in it as possibly torn or hostile. */
#ifndef WEFT_BOX_BOX_H
#define WEFT_BOX_BOX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, name): the operations that a PE can be in. The history lists in order: collectives, fences
 * and quiets that had to wait, and slow waits. Operations on one other PE (PUT to SIGNAL) are too
 * fast and too many for the history: they are counted by context and path, and the last one is kept
 * with its counter. */
#define BOX_OPERATIONS(X)                                                                          \
    X(NONE, "nothing")                                                                             \
    X(WAIT, "wait_until")                                                                          \
    X(SIGNAL_WAIT, "signal_wait")                                                                  \
    X(BARRIER, "barrier")                                                                          \
    X(SYNC, "sync")                                                                                \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALLTOALL, "alltoall")                                                                        \
    X(ALLTOALLS, "alltoalls")                                                                      \
    X(ALLGATHER, "allgather")                                                                      \
    X(COLLECT, "collect")                                                                          \
    X(ALLREDUCE, "allreduce")                                                                      \
    X(ALLOC, "alloc")                                                                              \
    X(FREE, "free")                                                                                \
    X(REALLOC, "realloc")                                                                          \
    X(REGISTER, "register_symmetric")                                                              \
    X(UNREGISTER, "unregister_symmetric")                                                          \
    X(TEAM_SPLIT, "team_split")                                                                    \
    X(TEAM_DESTROY, "team_destroy")                                                                \
    X(FENCE, "fence")                                                                              \
    X(QUIET, "quiet")                                                                              \
    X(PUT, "put")                                                                                  \
    X(GET, "get")                                                                                  \
    X(ATOMIC, "atomic")                                                                            \
    X(SIGNAL, "signal")                                                                            \
    X(PROVE, "prove")                                                                              \
    X(INIT, "init")                                                                                \
    X(FINALIZE, "finalize")                                                                        \
    X(DEVICE_QUIET, "quiet of device code")                                                        \
    X(FILE_TEAM, "file scatter or gather")                                                         \
    X(REDUCESCATTER, "reducescatter")                                                              \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(ALLTOALLV, "alltoallv")                                                                      \
    X(REDUCE, "reduce")

enum box_operation {
#define BOX_ENUM(id, name) BOX_OP_##id,
    BOX_OPERATIONS(BOX_ENUM)
#undef BOX_ENUM
        BOX_OP_COUNT
};

enum box_state { BOX_EMPTY, BOX_RUNNING, BOX_FINALIZED, BOX_ABORTED };

enum {
    BOX_MAGIC = 0x57656674, /* "Weft" */
    BOX_VERSION = 8,
    BOX_WAITS = 16,    /* waiting threads of a PE that can be shown at the same time */
    BOX_HISTORY = 64,  /* entries of the history */
    BOX_CONTEXTS = 32, /* rows of counters; further contexts share them */
    BOX_PATHS = 12,
    BOX_PROXIES = 8, /* threads of the proxy */
    BOX_BYTES = 64 * 1024,
};

/* Values of box_wait.compare besides weft_cmp. BOX_COMPARE_REQUEST: a path waits for its request
 * number `expected`, or, with 0, for all pending operations. BOX_COMPARE_CALLBACKS: a wait for host
 * callbacks on streams. */
enum { BOX_COMPARE_REQUEST = 256, BOX_COMPARE_CALLBACKS };

/* One wait in progress. Written only when a wait has become slow. */
struct box_wait {
    _Atomic uint32_t operation; /* enum box_operation; BOX_OP_NONE: the entry is free */
    int32_t peer;               /* awaited PE of the job; -1: any or unknown */
    int32_t team;               /* slot of the team whose step is awaited; -1: a variable */
    uint32_t compare;           /* weft_cmp, or BOX_COMPARE_* */
    uint64_t offset;            /* offset of the variable in its segment, in bytes */
    uint32_t segment;           /* enum segment_id */
    uint32_t is_signed;         /* the variable, expected and seen are signed */
    _Atomic uint64_t expected;
    _Atomic uint64_t seen;
    uint64_t since_ns; /* start of the wait, CLOCK_MONOTONIC */
    uint64_t reserved2;
};

struct box_past {
    uint32_t operation;
    int32_t peer; /* peer, root, or -1 */
    uint64_t offset;
    uint64_t bytes;
    uint64_t number; /* number of operations that the PE recorded before this one */
};

/* Counters of one context and path. Each has one writer, except where contexts beyond BOX_CONTEXTS
 * share. */
struct box_counters {
    _Atomic uint64_t operations;
    _Atomic uint64_t bytes;
    _Atomic uint64_t last; /* box_last() of the last operation */
    uint64_t reserved;
};

/* State of a proxy thread; only that thread writes it. */
struct box_proxy {
    /* operations performed; if this and since_ns are 0, the thread has received none */
    _Atomic uint64_t carried;
    _Atomic uint64_t completed; /* how many of them are complete at every PE */
    _Atomic uint64_t behind;    /* operations received but not started, at the last update */
    _Atomic uint64_t since_ns;  /* start of the current operation; 0: none */
    _Atomic uint32_t operation; /* the current operation (enum weft_dev_operation) */
    _Atomic int32_t peer;       /* its peer; -1: every PE */
};

struct box {
    uint32_t magic, version;
    int32_t pe, npes, node, local_npes;
    int32_t pid;
    _Atomic uint32_t state; /* enum box_state */
    int32_t exit_code;
    int32_t gpu; /* CUDA ordinal; -1: no GPU in use */
    uint64_t start_ns;
    uint64_t heap_bytes;
    uint64_t wait_limit_ns;
    uint64_t choices_offset; /* offset of struct box_choices from the start of the box, in bytes */
    _Atomic uint64_t steps;  /* number of tests and slow waits, which no other counter includes */
    char program[64];
    char failure[256]; /* message of the first failure of this PE */
    struct box_proxy proxies[BOX_PROXIES];
    /* number of collectives on the world team; shows which PE is behind */
    _Atomic uint64_t collectives;
    struct box_wait waits[BOX_WAITS];
    _Atomic uint64_t past_count;
    struct box_past past[BOX_HISTORY];
    char paths[BOX_PATHS][16]; /* names of the columns of counters */
    _Alignas(64) struct box_counters counters[BOX_CONTEXTS][BOX_PATHS];
};

_Static_assert(sizeof(struct box) <= BOX_BYTES, "the box fits BOX_BYTES of the system segment");

/* "wait_until", or "unknown" for a number that is none. */
const char *box_operation_name(uint32_t operation);

/* Encodes an operation on one other PE in a word: 16 bits PE, 2 bits operation, 46 bits offset in
 * the segment. A put, the most frequent operation, has 0 there and needs no instruction for it. */
static inline uint64_t box_last(enum box_operation operation, int pe, uint64_t offset)
{
    return ((uint64_t)(uint32_t)pe * 4 + (uint64_t)(operation - BOX_OP_PUT)) << 46 | offset;
}

/* "put to PE 3 at offset 64"; "" if the counters are 0. */
void box_last_text(const struct box_counters *counters, char *text, size_t bytes);

/* "expected >= -3, seen 0 at offset 64 of the heap", "awaits step 9 of team 0, which is at step 8".
 */
void box_wait_text(const struct box_wait *wait, char *text, size_t bytes);

/* "PE 3 (pid 4711) waits in barrier for PE 2", or that it does not wait, with its last call. */
void box_doing_text(const struct box *box, char *text, size_t bytes);

/* The PE's progress counter: a sum that changes whenever the PE starts or ends an operation.
 * Polling inside one wait does not change it. */
uint64_t box_progress_count(const struct box *box);

/* Counts one step. Concurrent threads may lose single steps, never all. */
static inline void box_count_step(struct box *box)
{
    atomic_store_explicit(&box->steps, atomic_load_explicit(&box->steps, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void box_record(struct box *box, enum box_operation operation, int peer, uint64_t offset,
                uint64_t bytes);

#endif

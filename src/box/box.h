/* SPDX-License-Identifier: Apache-2.0 */
/* The black box: what a PE is doing, readable by the other PEs of the node and by `weft attach`
 * while the PE hangs or after it died. It lies at the start of the PE's slot of the system segment,
 * a memfd named "weft-system". Readers must treat everything in it as possibly torn or hostile. */
#ifndef WEFT_BOX_BOX_H
#define WEFT_BOX_BOX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, name): what a PE can be in the middle of. The history lists, in order, the calls in which
 * PEs meet, fences and quiets that had something to wait for, and waits that took long. Calls on
 * one other PE (PUT to SIGNAL) are too quick and too many for that: they are counted, by context
 * and path, and the last of each is kept with its count. */
#define BOX_OPERATIONS(X)                                                                          \
    X(NONE, "nothing")                                                                             \
    X(WAIT, "wait_until")                                                                          \
    X(SIGNAL_WAIT, "signal_wait")                                                                  \
    X(BARRIER, "barrier")                                                                          \
    X(SYNC, "sync")                                                                                \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALLTOALL, "alltoall")                                                                        \
    X(ALLTOALLS, "alltoalls")                                                                      \
    X(FCOLLECT, "fcollect")                                                                        \
    X(COLLECT, "collect")                                                                          \
    X(REDUCE, "reduce")                                                                            \
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
    X(SETTLE, "quiet of device code")                                                              \
    X(FILE_TEAM, "file scatter or gather")                                                         \
    X(REDUCESCATTER, "reducescatter")                                                              \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(ALLTOALLV, "alltoallv")                                                                      \
    X(REDUCE_TO, "reduce_to")

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
    BOX_WAITS = 16,    /* threads of a PE that can be seen waiting at a time */
    BOX_HISTORY = 64,  /* last operations */
    BOX_CONTEXTS = 32, /* counter lines; contexts beyond share them */
    BOX_PATHS = 12,
    BOX_PROXIES = 8, /* threads that carry out what device code gives */
    BOX_BYTES = 64 * 1024,
};

/* In place of a weft_cmp: a path waits for its request number `expected`, 0: for whatever is under
 * way. */
enum { BOX_COMPARE_REQUEST = 256, BOX_COMPARE_CALLS };

/* One operation in progress. Written only when a wait has become slow. */
struct box_wait {
    _Atomic uint32_t operation; /* enum box_operation; BOX_OP_NONE = the slot is free */
    int32_t peer;               /* PE of the job waited for, -1 = any or unknown */
    int32_t team;               /* slot of the team whose step is waited for, -1 = a variable */
    uint32_t compare;           /* weft_cmp, or BOX_COMPARE_* */
    uint64_t offset;            /* of the variable in its segment */
    uint32_t segment;           /* enum segment_id */
    uint32_t is_signed;         /* the variable, and so expected and seen */
    _Atomic uint64_t expected;
    _Atomic uint64_t seen;
    uint64_t since_ns; /* CLOCK_MONOTONIC */
    uint64_t reserved2;
};

struct box_past {
    uint32_t operation;
    int32_t peer; /* or the root, or -1 */
    uint64_t offset;
    uint64_t bytes;
    uint64_t number; /* of operations that the PE recorded before this one */
};

/* Per context and path. Plain sums of one writer each (contexts beyond BOX_CONTEXTS share). */
struct box_counters {
    _Atomic uint64_t operations;
    _Atomic uint64_t bytes;
    _Atomic uint64_t last; /* box_last() of the last operation */
    uint64_t reserved;
};

/* What a thread of the proxy does with the operations that device code gave it. Written by it
 * alone. */
struct box_proxy {
    _Atomic uint64_t carried;   /* operations carried out; 0 and `since_ns` 0: nothing came to it */
    _Atomic uint64_t completed; /* of them, complete at every PE */
    _Atomic uint64_t behind;    /* given and not begun, when that was looked at last */
    _Atomic uint64_t since_ns;  /* when the one under way was begun; 0: none is */
    _Atomic uint32_t operation; /* the one under way, as device code numbers them */
    _Atomic int32_t peer;       /* -1: every PE */
};

struct box {
    uint32_t magic, version;
    int32_t pe, npes, node, local_npes;
    int32_t pid;
    _Atomic uint32_t state; /* enum box_state */
    int32_t exit_code;
    int32_t gpu; /* ordinal, -1 = none in use */
    uint64_t start_ns;
    uint64_t heap_bytes;
    uint64_t wait_limit_ns;
    uint64_t choices_offset; /* of struct box_choices, from the box on */
    _Atomic uint64_t steps;  /* tests, and waits that took long: calls that count nowhere else */
    char program[64];
    char failure[256]; /* sentence of the first fault that ended this PE's work */
    struct box_proxy proxies[BOX_PROXIES];
    _Atomic uint64_t collectives; /* calls on the world team; tells who lags behind */
    struct box_wait waits[BOX_WAITS];
    _Atomic uint64_t past_count;
    struct box_past past[BOX_HISTORY];
    char paths[BOX_PATHS][16]; /* names of the counter columns */
    _Alignas(64) struct box_counters counters[BOX_CONTEXTS][BOX_PATHS];
};

_Static_assert(sizeof(struct box) <= BOX_BYTES, "the box fits its place in the system segment");

/* "wait_until", or "unknown" for a number that is none. */
const char *box_operation_name(uint32_t operation);

/* An operation on one other PE in a word: 16 bits the PE, 2 bits which, 46 bits the offset in the
 * segment. A put, which is the most frequent, has 0 there and costs no instruction for it. */
static inline uint64_t box_last(enum box_operation operation, int pe, uint64_t offset)
{
    return ((uint64_t)(uint32_t)pe * 4 + (uint64_t)(operation - BOX_OP_PUT)) << 46 | offset;
}

/* "put to PE 3 at offset 64"; "" for counters that have counted nothing. */
void box_last_text(const struct box_counters *counters, char *text, size_t bytes);

/* "expected >= -3, seen 0 at offset 64 of the heap", "step 9 of team 0 awaited, which is at 8". */
void box_wait_text(const struct box_wait *wait, char *text, size_t bytes);

/* "PE 3 (pid 4711) waits in barrier for PE 2", or that it does not wait, and its last call. */
void box_doing_text(const struct box *box, char *text, size_t bytes);

/* The PE's progress: a sum that changes whenever it has begun or ended an operation. Polling inside
 * one wait leaves it as it is. */
uint64_t box_moves(const struct box *box);

/* Threads may lose a step to each other, never all of them. */
static inline void box_moved(struct box *box)
{
    atomic_store_explicit(&box->steps, atomic_load_explicit(&box->steps, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void box_record(struct box *box, enum box_operation operation, int peer, uint64_t offset,
                uint64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of a process, for `weft attach`: a table in a memfd named "weft-nccl". Its
 * entries are written while the process runs. Readers must treat everything in it as possibly torn
 * or hostile. */
#ifndef WEFT_NCCL_STATE_H
#define WEFT_NCCL_STATE_H

#include <stdatomic.h>
#include <stdint.h>

/* X(id, name of the function without "nccl") */
#define NCCL_OPERATIONS(X)                                                                         \
    X(ALL_REDUCE, "AllReduce")                                                                     \
    X(REDUCE, "Reduce")                                                                            \
    X(REDUCE_SCATTER, "ReduceScatter")                                                             \
    X(BROADCAST, "Broadcast")                                                                      \
    X(ALL_GATHER, "AllGather")                                                                     \
    X(ALL_TO_ALL, "AlltoAll")                                                                      \
    X(GATHER, "Gather")                                                                            \
    X(SCATTER, "Scatter")                                                                          \
    X(PUT_SIGNAL, "PutSignal")                                                                     \
    X(SEND, "Send")                                                                                \
    X(RECV, "Recv")                                                                                \
    X(WAIT_SIGNAL, "WaitSignal")

enum operation {
#define NCCL_OPERATION(id, name) id,
    NCCL_OPERATIONS(NCCL_OPERATION)
#undef NCCL_OPERATION
        OPERATION_COUNT
};

/* X(id, name) */
#define NCCL_STATES(X)                                                                             \
    X(NONE, "none")                                                                                \
    X(STARTING, "starting")                                                                        \
    X(READY, "ready")                                                                              \
    X(FAILED, "failed")                                                                            \
    X(SUSPENDED, "suspended")                                                                      \
    X(FINALIZED, "finalized")                                                                      \
    X(FREED, "destroyed")

enum comm_state {
#define NCCL_STATE(id, name) COMM_##id,
    NCCL_STATES(NCCL_STATE)
#undef NCCL_STATE
        COMM_STATES
};

enum { NCCL_TABLE_MAGIC = 0x6e63636c, NCCL_TABLE_VERSION = 1, NCCL_TABLE_ENTRIES = 512 };

struct nccl_entry {
    _Atomic uint32_t state; /* enum comm_state; COMM_NONE and COMM_FREED: the entry is free */
    int32_t rank, size, device;
    uint64_t hash;                           /* of the id: the same at all ranks */
    _Atomic uint64_t begun[OPERATION_COUNT]; /* calls that were enqueued, by function */
    char name[64];
    char failure[256]; /* "" for none */
};

struct nccl_table {
    uint32_t magic, version;
    int32_t pid, entries;
    struct nccl_entry entry[NCCL_TABLE_ENTRIES];
};

#endif

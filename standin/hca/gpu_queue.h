/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine's kernel on a GPU (gpu_kernel.h) and the thread that launches it (gpu_engine.c)
 * share: queues, keys, and how a slice of it ends. Compiles for a CPU and for a GPU. Addresses are
 * numbers: those of the engine's GPU. */
#ifndef WEFT_HCA_GPU_QUEUE_H
#define WEFT_HCA_GPU_QUEUE_H

#include <stdint.h>

enum {
    GPU_KEYS = 4096,      /* places of the table of keys, a power of two */
    GPU_KEYS_MOST = 2048, /* of which so many are used */
    GPU_QUEUES = 1024,
};

/* Why the kernel has left a queue to the host. */
enum gpu_parked {
    GPU_RUNS = 0,
    GPU_LACKS_KEY, /* `lacks` is not in the table */
    GPU_UNUSUAL,   /* the kernel does not carry this out: what is wrong, and what is rare */
};

/* A key, for requests of a queue (its own number: local keys) or to one (the peer's number: remote
 * keys). */
struct gpu_key {
    uint64_t name; /* queue's number << 32 | key; 0: nothing stands here */
    uint64_t address, bytes;
    uint64_t memory; /* where that is for the engine's GPU */
    uint32_t access; /* MR_* */
    uint32_t pad;
};

/* A send queue as the kernel has it. Indices count blocks, in 16 bits: released <= taken <=
 * producer. */
struct gpu_queue {
    uint64_t ring, record, doorbell, completion;
    uint32_t blocks, number, peer, user_index;
    uint32_t strict, log_completions;
    /* What changes. */
    uint64_t lacks;
    uint64_t rung; /* the doorbell's last value */
    uint32_t parked;
    uint32_t completions; /* entries written, which the owner's bit follows */
    uint32_t offset;      /* bytes of the request at `taken` that are done */
    uint16_t producer, taken, released, pad;
    uint64_t requests, bytes, doorbells;
};

/* How a slice ends before its time. */
struct gpu_slice {
    uint64_t ns;
    uint64_t stop;      /* a word that the host writes: not 0: now */
    uint64_t attention; /* a word of the GPU's: a queue was parked, or the host has said stop */
    uint64_t queues, keys;
    uint32_t count, pad;
};

static inline
#if defined(__CUDACC__)
    __host__ __device__
#endif
        uint32_t
        gpu_key_place(uint64_t name)
{
    return (uint32_t)((name * 0x9e3779b97f4a7c15u) >> 40) & (GPU_KEYS - 1);
}

#endif

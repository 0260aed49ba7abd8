/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the GPU engine's kernel (gpu/kernel.h) and the thread that launches it (gpu/engine.c):
 * queues, keys, and how a slice ends. Compiles for a CPU and for a GPU. Addresses are those of the
 * engine's GPU. */
#ifndef WEFT_HCA_GPU_QUEUE_H
#define WEFT_HCA_GPU_QUEUE_H

#include <stdint.h>

enum {
    GPU_KEYS = 4096,      /* slots of the hash table of keys, a power of two */
    GPU_KEYS_MOST = 2048, /* slots that may be used */
    GPU_QUEUES = 1024,
};

/* Why the kernel returned a queue to the host. */
enum gpu_parked {
    GPU_RUNS = 0,
    GPU_LACKS_KEY, /* the key `lacks` is not in the table */
    GPU_UNUSUAL,   /* the kernel does not execute the WQE: it is wrong or rare */
};

/* A memory key. With the queue's own number it is an lkey, with the peer's number an rkey. */
struct gpu_key {
    uint64_t name; /* QP number << 32 | key; 0: empty slot */
    uint64_t address, bytes;
    uint64_t memory; /* address for the engine's GPU */
    uint32_t access; /* MR_* */
    uint32_t pad;
};

/* A send queue as the kernel sees it. Indices count blocks modulo 2^16: released <= taken <=
 * producer. */
struct gpu_queue {
    uint64_t ring, record, doorbell, completion;
    uint32_t blocks, number, peer, user_index;
    uint32_t strict, log_completions;
    /* Fields below change while the kernel runs. */
    uint64_t lacks;
    uint64_t rung; /* last value of the doorbell register */
    uint32_t parked;
    uint32_t completions; /* CQEs written; the owner bit follows from it */
    uint32_t offset;      /* bytes of the WQE at `taken` that are done */
    uint16_t producer, taken, released, pad;
    uint64_t requests, bytes, doorbells;
};

/* Arguments of a slice, and how it ends early. */
struct gpu_slice {
    uint64_t ns;
    uint64_t stop; /* address of a word of the host; nonzero: stop now */
    /* address of a word in GPU memory: a queue was returned, or the host requested a stop */
    uint64_t attention;
    uint64_t queues, keys;
    uint32_t count, pad;
};

static inline
#if defined(__CUDACC__) || defined(__CUDA__)
    __host__ __device__
#endif
        uint32_t
        gpu_key_place(uint64_t name)
{
    return (uint32_t)((name * 0x9e3779b97f4a7c15u) >> 40) & (GPU_KEYS - 1);
}

#endif

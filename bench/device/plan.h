/* SPDX-License-Identifier: Apache-2.0 */
/* Repetition counts of weft_device_bench and of the programs that measure other libraries, so that
 * the loops are the same. Only numbers; knows nothing of any library. */
#ifndef WEFT_BENCH_DEVICE_PLAN_H
#define WEFT_BENCH_DEVICE_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum {
    PLAN_THREADS = 1024,      /* threads of a block */
    PLAN_GRID_BLOCKS = 32,    /* blocks that share a collective */
    PLAN_PING_ROUNDS = 4000,  /* round trips */
    PLAN_PING_WARM = 400,     /* untimed round trips of every launch */
    PLAN_CHAIN_ROUNDS = 1000, /* fetching atomics of one thread at one word, for each place */
    PLAN_CHAIN_PLACES = 16,   /* number of words: the cost differs by 10 % between places */
    /* bytes from one place to the next: another page and another line */
    PLAN_CHAIN_STEP = 69760,
    PLAN_WORD_BITS = 22,          /* single values: log2 of the words, 32 MiB */
    PLAN_ADD_BITS = 20,           /* atomic adds: log2 of the words, 8 MiB */
    PLAN_VALUE_ROUNDS = 400,      /* single values of each thread, at least */
    PLAN_STREAM_OPERATIONS = 500, /* operations back to back on a stream */
    PLAN_HOST_OPERATIONS = 500,
    PLAN_REPEATS = 5,        /* launches; the median is the result */
    PLAN_WINDOW = 64 * 1024, /* small puts rotate over places of this many bytes */
};

static const size_t plan_signal_bytes[] = {8, 1024, 8192, 65536};
static const size_t plan_packet_bytes[] = {8, 128, 1024, 4096};
static const unsigned plan_ctas[] = {1, 8, 16, 0}; /* 0: one block per multiprocessor */
static const size_t plan_put_bytes[] = {512,   1024,   2048,   4096,   8192,
                                        32768, 131072, 524288, 2097152};
static const size_t plan_stream_bytes[] = {8, 524288, 134217728};
static const size_t plan_collective_bytes[] = {8, 4096, 65536, 262144};
static const size_t plan_grid_bytes[] = {65536, 1048576, 16777216};
static const size_t plan_reduce_bytes[] = {1024, 65536, 524288, 4194304, 67108864};

#define PLAN_COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Returns the places over which a block's puts of `bytes` rotate: a power of two. */
static inline uint64_t plan_slots(size_t bytes)
{
    uint64_t slots = 1;
    while (2 * slots * bytes <= PLAN_WINDOW)
        slots *= 2;
    return slots;
}

/* Returns the puts of each block: about 5 ms at 45 GB/s a block and 380 GB/s in all, each place at
 * least once. */
static inline uint64_t plan_put_rounds(unsigned ctas, size_t bytes)
{
    double gbps = 45.0 * ctas < 380 ? 45.0 * ctas : 380;
    double rounds = 5e6 * gbps / ((double)ctas * (double)bytes);
    uint64_t most = 20000, least = 2 * plan_slots(bytes);
    uint64_t n = rounds > (double)most ? most : (uint64_t)rounds + 1;
    return n < least ? least : n;
}

/* Returns the collectives of one block, or of the host, back to back. */
static inline uint64_t plan_collective_rounds(size_t bytes)
{
    return bytes > 1048576 ? 20 : bytes > 16384 ? 200 : 2000;
}

/* Returns the threads of a block for a packet of `bytes`: one per 8 bytes, in whole warps. */
static inline unsigned plan_packet_threads(size_t bytes, unsigned most)
{
    unsigned n = (unsigned)((bytes + 255) / 256 * 32);
    return n < most ? n : most;
}

/* Returns the operations of one thread, so that each of 1 << bits words is accessed at least
 * once. */
static inline uint64_t plan_value_rounds(unsigned bits, uint64_t threads)
{
    uint64_t all = (((uint64_t)1 << bits) + threads - 1) / threads;
    return all > PLAN_VALUE_ROUNDS ? all : PLAN_VALUE_ROUNDS;
}

#endif

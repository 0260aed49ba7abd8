/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that measure and check device operations, one source for both targets: those of
 * weft_device_bench and of `weft bench` with a device scope. Each takes time inside itself, from a
 * clock that all of the GPU shares, around a given number of rounds, and ends early when an
 * operation of it fails. They know nothing of jobs, sizes and tables. */
#ifndef WEFT_BENCH_DEVICE_KERNELS_H
#define WEFT_BENCH_DEVICE_KERNELS_H

#include <weft/launch.h>

/* Written by each block of a kernel: when its first timed round began and its last one was done,
 * and the status of what failed, or 0. */
struct device_times {
    uint64_t start, end;
    int64_t status;
    uint64_t wrong; /* words that were not what they had to be */
};

/* Rounds are numbered from `base` + 1, so that flags need no clearing: the caller adds `warm` +
 * `rounds` to base after each launch. The first `warm` are not timed.
 *
 * Ping-pong between this PE and `peer`; `first` is 1 at one of them. A round goes there and back.
 *   ping_p       one thread: p of 8 bytes, wait
 *   ping_signal  a scope: put_signal of `bytes` (a multiple of 8), signal_wait. verify: the data
 *                changes in each round and is compared, which takes time
 *   ping_packet  a scope: put_packet, take_packet; `buffers` holds two of
 *   weft_packet_bytes(bytes) */
WEFT_KERNEL_DECLARE(ping_p, (uint64_t *, flag), (int, first), (int, peer), (uint64_t, base),
                    (uint64_t, warm), (uint64_t, rounds), (struct device_times *, times));

#define DEVICE_PINGS_DECLARE(scope)                                                                \
    WEFT_KERNEL_DECLARE(ping_signal_##scope, (uint64_t *, dst), (uint64_t *, src),                 \
                        (size_t, bytes), (uint64_t *, signal), (int, first), (int, peer),          \
                        (uint64_t, base), (uint64_t, warm), (uint64_t, rounds), (int, verify),     \
                        (struct device_times *, times));                                           \
    WEFT_KERNEL_DECLARE(ping_packet_##scope, (uint64_t *, dst), (uint64_t *, src),                 \
                        (size_t, bytes), (char *, buffers), (int, first), (int, peer),             \
                        (uint64_t, base), (uint64_t, warm), (uint64_t, rounds), (int, verify),     \
                        (struct device_times *, times));

/* Every thread, warp or block of the grid puts (gets) `bytes` in each round, with the nbi form, in
 * turn to (from) each of `slots` (a power of two) places of its own, and ends with one quiet. The
 * places of unit u begin at u * slots * bytes. peer = -1: block b acts on the PE that stands
 * 1 + b % (n - 1) after this one, so that each place of each PE is written once. */
#define DEVICE_MOVES_DECLARE(scope)                                                                \
    WEFT_KERNEL_DECLARE(put_rate_##scope, (char *, dst), (char *, src), (size_t, bytes),           \
                        (uint64_t, slots), (int, peer), (uint64_t, rounds),                        \
                        (struct device_times *, times));                                           \
    WEFT_KERNEL_DECLARE(get_rate_##scope, (char *, dst), (char *, src), (size_t, bytes),           \
                        (uint64_t, slots), (int, peer), (uint64_t, rounds),                        \
                        (struct device_times *, times));

/* All PEs meet, back to back, called by one unit of the scope. what: 0 meet, 1 sync, 2 barrier.
 * check_meet: behind a barrier a PE finds what its neighbour put to it before; behind a sync it
 * reads what the neighbour stored in its own memory. `slots` are two words. */
#define DEVICE_MEETS_DECLARE(scope)                                                                \
    WEFT_KERNEL_DECLARE(meet_##scope, (int, what), (uint64_t, warm), (uint64_t, rounds),           \
                        (struct device_times *, times));                                           \
    WEFT_KERNEL_DECLARE(check_meet_##scope, (int, what), (uint64_t *, slots), (uint64_t, base),    \
                        (uint64_t, rounds), (struct device_times *, times));

/* Collectives over all PEs by one block, or by all blocks together, back to back. `bytes`: of each
 * pair (alltoall), of each PE (fcollect), of the vector of floats (reduce, a sum). */
enum device_collective {
    DEVICE_ALLTOALL,
    DEVICE_FCOLLECT,
    DEVICE_REDUCE,
    DEVICE_REDUCESCATTER,
    DEVICE_ALLTOALLV, /* these by kernels of their own */
    DEVICE_COLLECT,
    DEVICE_REDUCE_TO, /* PE 0 */
    DEVICE_WEIGHTED,  /* reduce_weighted, by each PE's number + 1 */
};
WEFT_KERNEL_DECLARE(collective_block, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t, warm), (uint64_t, rounds), (struct device_times *, times));
WEFT_KERNEL_DECLARE(collective_grid, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t, warm), (uint64_t, rounds), (struct device_times *, times));

/* The same of those that came later; counts: of alltoallv, 4 words for each PE. */
WEFT_KERNEL_DECLARE(sized_block, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t *, counts), (uint64_t, warm), (uint64_t, rounds),
                    (struct device_times *, times));
WEFT_KERNEL_DECLARE(sized_grid, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t *, counts), (uint64_t, warm), (uint64_t, rounds),
                    (struct device_times *, times));
/* Blocks of `bytes` each. */
WEFT_KERNEL_DECLARE(fill_counts, (uint64_t *, counts), (size_t, bytes), (int, pes));

/* src[i] = i % 64 + own; counts in *wrong the elements of dst, the first of which is number
 * `first`, that are not i % 64 * times + plus: a sum of such. */
WEFT_KERNEL_DECLARE(fill_floats, (float *, src), (size_t, n), (int, own));
WEFT_KERNEL_DECLARE(check_floats, (float *, dst), (size_t, n), (size_t, first), (int, times),
                    (int, plus), (uint64_t *, wrong));

#define DEVICE_SCOPES(X) X(thread) X(warp) X(block)
DEVICE_SCOPES(DEVICE_PINGS_DECLARE)
DEVICE_SCOPES(DEVICE_MOVES_DECLARE)
DEVICE_SCOPES(DEVICE_MEETS_DECLARE)

/* Single values by every thread of the grid, over 1 << bits words: neighbouring lanes take
 * neighbouring words, or words that are 128 bytes apart. p writes device_bench_word(index). */
WEFT_KERNEL_DECLARE(p_rate, (uint64_t *, dst), (unsigned, bits), (int, scattered), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));
WEFT_KERNEL_DECLARE(g_rate, (uint64_t *, src), (unsigned, bits), (int, scattered), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));

/* 64-bit atomics on 1 << bits words. The latency kernel is one thread's chain on one word, each
 * operand made from the last result; the rate kernel adds 1 from every thread of the grid. */
enum device_atomic {
    DEVICE_ATOMIC_FETCH_ADD,
    DEVICE_ATOMIC_SWAP,
    DEVICE_ATOMIC_CSWAP,
    DEVICE_ATOMIC_FETCH,
};
WEFT_KERNEL_DECLARE(atomic_latency, (uint64_t *, word), (int, what), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));
WEFT_KERNEL_DECLARE(atomic_rate, (uint64_t *, words), (unsigned, bits), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));

/* Sets words to device_bench_word(index + seed); counts in *wrong those that are something else. */
WEFT_KERNEL_DECLARE(fill_words, (uint64_t *, words), (size_t, n), (uint64_t, seed));
WEFT_KERNEL_DECLARE(check_words, (uint64_t *, words), (size_t, n), (uint64_t, seed),
                    (uint64_t *, wrong));
/* Bytes that were copied from `shift` bytes into such words. */
WEFT_KERNEL_DECLARE(check_bytes, (char *, bytes), (size_t, n), (size_t, shift), (uint64_t, seed),
                    (uint64_t *, wrong));

static inline uint64_t device_bench_word(uint64_t index)
{
    return (index + 1) * 0x9e3779b97f4a7c15u;
}

/* Multiprocessors of the current GPU, 0 when it cannot be told. NULL when there is no CUDA half. */
#ifdef __cplusplus
extern "C"
#endif
    int
    device_bench_processors(void) __attribute__((weak, visibility("hidden")));

#endif

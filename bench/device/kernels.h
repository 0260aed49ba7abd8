/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that measure and check device operations, one source for both targets: those of
 * weft_device_bench and of `weft bench` with a device scope. Each kernel measures a given number of
 * rounds by a clock that the whole GPU shares, and ends early if an operation fails. They know
 * nothing of jobs, sizes and tables. */
#ifndef WEFT_BENCH_DEVICE_KERNELS_H
#define WEFT_BENCH_DEVICE_KERNELS_H

#include <weft/launch.h>

/* Written by each block: when its first timed round began and its last one ended, and the status of
 * a failed operation, or 0. */
struct device_times {
    uint64_t start, end;
    int64_t status;
    uint64_t wrong; /* words with a wrong value */
};

/* Rounds are numbered from `base` + 1, so that flags need not be cleared: the caller adds `warm` +
 * `rounds` to base after each launch. The first `warm` rounds are not timed.
 *
 * Ping-pong between this PE and `peer`; `first` is 1 at one of them. A round is one exchange in
 * both directions.
 *
 *     ping_p       one thread: p of 8 bytes, wait
 *     ping_signal  a scope: put_signal of `bytes` (a multiple of 8), signal_wait.
 *                  verify: the data change in each round and are compared, which takes time
 *     ping_packet  a scope: put_packet, take_packet.
 *                  `buffers` holds two of weft_packet_bytes(bytes) */
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

/* Every thread, warp or block of the grid puts (gets) `bytes` in each round, with the nbi form, to
 * (from) each of its `slots` (a power of two) places in turn, and ends with one quiet. The places
 * of unit u begin at u * slots * bytes. peer = -1: block b accesses the PE that is 1 + b % (n - 1)
 * after this one, so that each place of each PE is written once. */
#define DEVICE_MOVES_DECLARE(scope)                                                                \
    WEFT_KERNEL_DECLARE(put_rate_##scope, (char *, dst), (char *, src), (size_t, bytes),           \
                        (uint64_t, slots), (int, peer), (uint64_t, rounds),                        \
                        (struct device_times *, times));                                           \
    WEFT_KERNEL_DECLARE(get_rate_##scope, (char *, dst), (char *, src), (size_t, bytes),           \
                        (uint64_t, slots), (int, peer), (uint64_t, rounds),                        \
                        (struct device_times *, times));

/* All PEs synchronise, back to back, called by one unit of the scope. what: 0 meet, 1 sync, 2
 * barrier. check_meet: after a barrier a PE finds what its neighbour put to it before; after a sync
 * it reads what the neighbour stored in its own memory. `slots` are two words. */
#define DEVICE_MEETS_DECLARE(scope)                                                                \
    WEFT_KERNEL_DECLARE(meet_##scope, (int, what), (uint64_t, warm), (uint64_t, rounds),           \
                        (struct device_times *, times));                                           \
    WEFT_KERNEL_DECLARE(check_meet_##scope, (int, what), (uint64_t *, slots), (uint64_t, base),    \
                        (uint64_t, rounds), (struct device_times *, times));

/* Collectives over all PEs by one block, or by all blocks together, back to back. `bytes`: of each
 * pair of PEs (alltoall), of each PE (allgather), of the vector of floats (allreduce, a sum). */
enum device_collective {
    DEVICE_ALLTOALL,
    DEVICE_ALLGATHER,
    DEVICE_ALLREDUCE,
    DEVICE_REDUCESCATTER,
    DEVICE_ALLTOALLV, /* the following have separate kernels */
    DEVICE_COLLECT,
    DEVICE_REDUCE,   /* to PE 0 */
    DEVICE_WEIGHTED, /* allreduce_weighted, by each PE's index + 1 */
};
WEFT_KERNEL_DECLARE(collective_block, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t, warm), (uint64_t, rounds), (struct device_times *, times));
WEFT_KERNEL_DECLARE(collective_grid, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t, warm), (uint64_t, rounds), (struct device_times *, times));

/* The same for the collectives below; counts: for alltoallv, 4 words per PE. */
WEFT_KERNEL_DECLARE(sized_block, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t *, counts), (uint64_t, warm), (uint64_t, rounds),
                    (struct device_times *, times));
WEFT_KERNEL_DECLARE(sized_grid, (int, what), (char *, dst), (char *, src), (size_t, bytes),
                    (uint64_t *, counts), (uint64_t, warm), (uint64_t, rounds),
                    (struct device_times *, times));
/* Fills the counts for blocks of `bytes` each. */
WEFT_KERNEL_DECLARE(fill_counts, (uint64_t *, counts), (size_t, bytes), (int, pes));

/* Sets src[i] = i % 64 + own. Counts in *wrong the elements of dst that are not i % 64 * times +
 * plus, the result of a sum; the first element has index `first`. */
WEFT_KERNEL_DECLARE(fill_floats, (float *, src), (size_t, n), (int, own));
WEFT_KERNEL_DECLARE(check_floats, (float *, dst), (size_t, n), (size_t, first), (int, times),
                    (int, plus), (uint64_t *, wrong));

#define DEVICE_SCOPES(X) X(thread) X(warp) X(block)
DEVICE_SCOPES(DEVICE_PINGS_DECLARE)
DEVICE_SCOPES(DEVICE_MOVES_DECLARE)
DEVICE_SCOPES(DEVICE_MEETS_DECLARE)

/* Single values by every thread of the grid, over 1 << bits words. Adjacent lanes access adjacent
 * words, or words that are 128 bytes apart. p writes device_bench_word(index). */
WEFT_KERNEL_DECLARE(p_rate, (uint64_t *, dst), (unsigned, bits), (int, scattered), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));
WEFT_KERNEL_DECLARE(g_rate, (uint64_t *, src), (unsigned, bits), (int, scattered), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));

/* 64-bit atomics on 1 << bits words. The latency kernel is a chain of one thread on one word, each
 * operand computed from the last result; the rate kernel adds 1 from every thread of the grid. */
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

/* Sets words to device_bench_word(index + seed). Counts in *wrong those with another value. */
WEFT_KERNEL_DECLARE(fill_words, (uint64_t *, words), (size_t, n), (uint64_t, seed));
WEFT_KERNEL_DECLARE(check_words, (uint64_t *, words), (size_t, n), (uint64_t, seed),
                    (uint64_t *, wrong));
/* Checks bytes that were copied from `shift` bytes into such words. */
WEFT_KERNEL_DECLARE(check_bytes, (char *, bytes), (size_t, n), (size_t, shift), (uint64_t, seed),
                    (uint64_t *, wrong));

static inline uint64_t device_bench_word(uint64_t index)
{
    return (index + 1) * 0x9e3779b97f4a7c15u;
}

#endif

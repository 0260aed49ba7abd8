/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels.h, compiled for both targets. Every loop is bounded by its count, every
 * wait by the job's wait limit. No loop around an operation is unrolled: nvcc unrolls some of them
 * and clang none, and the figures are of the operations. */
#include "timing.h"

/* ------------------------------------------------------------------------------- ping-pong */

WEFT_KERNEL(ping_p, (uint64_t *, flag), (int, first), (int, peer), (uint64_t, base),
            (uint64_t, warm), (uint64_t, rounds), (struct device_times *, times))
{
    int status = WEFT_OK;
    WEFT_NO_UNROLL
    for (uint64_t i = 1; i <= warm + rounds && !status; i++) {
        if (i == warm + 1)
            times->start = weft_dev_clock_ns();
        if (!first)
            status = weft_thread_wait_until(WEFT_UINT64, flag, WEFT_EQ, base + i);
        if (!status)
            weft_thread_p64(flag, base + i, peer);
        if (first && !status)
            status = weft_thread_wait_until(WEFT_UINT64, flag, WEFT_EQ, base + i);
    }
    times->end = weft_dev_clock_ns();
    times->status = status;
    times->wrong = 0;
}

/* Returns word i of the message of round `round`. */
WEFT_DEVICE uint64_t message_word(uint64_t round, size_t i)
{
    return (round << 20) + i;
}

WEFT_DEVICE_NOINLINE void write_message(int scope, uint64_t *src, size_t words, uint64_t round)
{
    for (size_t i = weft_dev_scope_rank(scope); i < words; i += weft_dev_scope_threads(scope))
        src[i] = message_word(round, i);
    weft_dev_scope_sync(scope);
}

/* Returns the number of words that this thread found wrong. */
WEFT_DEVICE_NOINLINE uint64_t read_message(int scope, const uint64_t *dst, size_t words,
                                           uint64_t round)
{
    uint64_t wrong = 0;
    for (size_t i = weft_dev_scope_rank(scope); i < words; i += weft_dev_scope_threads(scope))
        wrong += dst[i] != message_word(round, i);
    weft_dev_scope_sync(scope); /* the next message may arrive */
    return wrong;
}

/* Before a message is sent in round `round`: the PE that answers compares the one that has come. */
WEFT_DEVICE_NOINLINE uint64_t renew_message(int scope, int first, const uint64_t *dst,
                                            uint64_t *src, size_t words, uint64_t round)
{
    uint64_t wrong = first ? 0 : read_message(scope, dst, words, round);
    write_message(scope, src, words, round);
    return wrong;
}

/* The same loop for both kinds: `send` and `await` differ. Only rounds that are not timed write and
 * compare words, in functions that are not inlined, and the compiler does not know that all rounds
 * have one peer: the timed loop has little besides the operation, and all of it. */
#define PING_PONG(constant, send, await)                                                           \
    int status = WEFT_OK;                                                                          \
    uint64_t wrong = 0, round = base + 1;                                                          \
    WEFT_NO_UNROLL                                                                                 \
    for (uint64_t left = warm + rounds; left && !status; left--, round++) {                        \
        int pe = (int)weft_dev_in_place((unsigned)peer);                                           \
        if (left == rounds)                                                                        \
            begin_timing(times);                                                                   \
        if (!first)                                                                                \
            status = await;                                                                        \
        if (verify)                                                                                \
            wrong +=                                                                               \
                WEFT_DEV_CALL_SLOW(renew_message, constant, first, dst, src, bytes / 8, round);    \
        if (!status) {                                                                             \
            send;                                                                                  \
            if (first)                                                                             \
                status = await;                                                                    \
        }                                                                                          \
        if (verify && first)                                                                       \
            wrong += WEFT_DEV_CALL_SLOW(read_message, constant, dst, bytes / 8, round);            \
    }                                                                                              \
    end_timing(times, status);                                                                     \
    if (wrong)                                                                                     \
    weft_dev_atomic_add_u64(&times->wrong, wrong, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU)

#define PINGS(scope, constant)                                                                     \
    WEFT_KERNEL(ping_signal_##scope, (uint64_t *, dst), (uint64_t *, src), (size_t, bytes),        \
                (uint64_t *, signal), (int, first), (int, peer), (uint64_t, base),                 \
                (uint64_t, warm), (uint64_t, rounds), (int, verify),                               \
                (struct device_times *, times))                                                    \
    {                                                                                              \
        PING_PONG(constant,                                                                        \
                  weft_##scope##_put_signal(dst, src, bytes, signal, round, WEFT_SIGNAL_SET, pe),  \
                  weft_##scope##_signal_wait(signal, WEFT_EQ, round));                             \
    }                                                                                              \
    WEFT_KERNEL(ping_packet_##scope, (uint64_t *, dst), (uint64_t *, src), (size_t, bytes),        \
                (char *, buffers), (int, first), (int, peer), (uint64_t, base), (uint64_t, warm),  \
                (uint64_t, rounds), (int, verify), (struct device_times *, times))                 \
    {                                                                                              \
        size_t half = weft_packet_bytes(bytes);                                                    \
        PING_PONG(constant,                                                                        \
                  weft_##scope##_put_packet(buffers + (round & 1) * half, src, bytes,              \
                                            (uint32_t)round, pe),                                  \
                  weft_##scope##_take_packet(dst, buffers + (round & 1) * half, bytes,             \
                                             (uint32_t)round));                                    \
    }
WEFT_DEV_SCOPE_LIST(PINGS)

/* -------------------------------------------------------------------------------- put, get */

/* Returns the index of the calling thread, warp or block in the grid. */
WEFT_DEVICE size_t unit_of(int scope)
{
    size_t warps = (weft_dev_block_threads() + WEFT_WARP_LANES - 1) / WEFT_WARP_LANES;
    return scope == WEFT_DEV_THREAD ? weft_dev_grid_rank()
           : scope == WEFT_DEV_WARP ? weft_dev_block_rank() * warps + weft_dev_warp()
                                    : weft_dev_block_rank();
}

WEFT_DEVICE int peer_of_block(int peer)
{
    int n = weft_dev_n_pes();
    if (peer >= 0 || n == 1)
        return peer < 0 ? 0 : peer;
    return (weft_dev_my_pe() + 1 + (int)(weft_dev_block_rank() % (unsigned)(n - 1))) % n;
}

#define MOVES(scope, constant)                                                                     \
    WEFT_KERNEL(put_rate_##scope, (char *, dst), (char *, src), (size_t, bytes),                   \
                (uint64_t, slots), (int, peer), (uint64_t, rounds),                                \
                (struct device_times *, times))                                                    \
    {                                                                                              \
        size_t own = unit_of(constant) * slots * bytes;                                            \
        int pe = peer_of_block(peer);                                                              \
        begin_timing(times);                                                                       \
        WEFT_NO_UNROLL                                                                             \
        for (uint64_t i = 0; i < rounds; i++) {                                                    \
            size_t at = own + (i & (slots - 1)) * bytes;                                           \
            weft_##scope##_put_nbi(dst + at, src + at, bytes, pe);                                 \
        }                                                                                          \
        weft_##scope##_quiet();                                                                    \
        end_timing(times, 0);                                                                      \
    }                                                                                              \
    WEFT_KERNEL(get_rate_##scope, (char *, dst), (char *, src), (size_t, bytes),                   \
                (uint64_t, slots), (int, peer), (uint64_t, rounds),                                \
                (struct device_times *, times))                                                    \
    {                                                                                              \
        size_t own = unit_of(constant) * slots * bytes;                                            \
        int pe = peer_of_block(peer);                                                              \
        begin_timing(times);                                                                       \
        WEFT_NO_UNROLL                                                                             \
        for (uint64_t i = 0; i < rounds; i++) {                                                    \
            size_t at = own + (i & (slots - 1)) * bytes;                                           \
            weft_##scope##_get_nbi(dst + at, src + at, bytes, pe);                                 \
        }                                                                                          \
        weft_##scope##_quiet();                                                                    \
        end_timing(times, 0);                                                                      \
    }
WEFT_DEV_SCOPE_LIST(MOVES)

/* --------------------------------------------------------------------------- single values */

enum { SCATTER_BITS = 4 }; /* 16 words are 128 bytes */

WEFT_DEVICE size_t word_of(uint64_t k, unsigned bits, int scattered)
{
    k &= ((uint64_t)1 << bits) - 1;
    if (!scattered)
        return k;
    uint64_t rows = (uint64_t)1 << (bits - SCATTER_BITS);
    return (k & (rows - 1)) << SCATTER_BITS | k >> (bits - SCATTER_BITS);
}

WEFT_DEVICE uint64_t value_of(uint64_t index)
{
    return (index + 1) * 0x9e3779b97f4a7c15u;
}

/* `scattered` is a constant, so that the loop has no test of it. */
WEFT_DEVICE void put_each_word(uint64_t *dst, unsigned bits, int scattered, int peer,
                               uint64_t rounds)
{
    uint64_t k = weft_dev_grid_rank(), step = weft_dev_grid_threads();
    WEFT_NO_UNROLL
    for (uint64_t i = 0; i < rounds; i++, k += step) {
        size_t at = word_of(k, bits, scattered);
        weft_thread_p64(dst + at, value_of(at), peer);
    }
}

WEFT_KERNEL(p_rate, (uint64_t *, dst), (unsigned, bits), (int, scattered), (int, peer),
            (uint64_t, rounds), (struct device_times *, times))
{
    begin_timing(times);
    if (scattered)
        put_each_word(dst, bits, 1, peer, rounds);
    else
        put_each_word(dst, bits, 0, peer, rounds);
    weft_thread_quiet();
    end_timing(times, 0);
}

/* Returns the number of words that were wrong. `scattered` is a constant. */
WEFT_DEVICE uint64_t get_each_word(const uint64_t *src, unsigned bits, int scattered, int peer,
                                   uint64_t rounds)
{
    uint64_t k = weft_dev_grid_rank(), step = weft_dev_grid_threads(), wrong = 0;
    WEFT_NO_UNROLL
    for (uint64_t i = 0; i < rounds; i++, k += step) {
        size_t at = word_of(k, bits, scattered);
        wrong += weft_thread_g64(src + at, peer) != value_of(at);
    }
    return wrong;
}

WEFT_KERNEL(g_rate, (uint64_t *, src), (unsigned, bits), (int, scattered), (int, peer),
            (uint64_t, rounds), (struct device_times *, times))
{
    begin_timing(times);
    uint64_t wrong = scattered ? get_each_word(src, bits, 1, peer, rounds)
                               : get_each_word(src, bits, 0, peer, rounds);
    end_timing(times, 0);
    if (wrong)
        weft_dev_atomic_add_u64(&times[weft_dev_block_rank()].wrong, wrong, WEFT_ORDER_RELAXED,
                                WEFT_SCOPE_GPU);
}

/* --------------------------------------------------------------------------------- atomics */

WEFT_KERNEL(atomic_latency, (uint64_t *, word), (int, what), (int, peer), (uint64_t, rounds),
            (struct device_times *, times))
{
    uint64_t seen = 0;
    begin_timing(times);
    WEFT_NO_UNROLL
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t operand = 1 + (seen >> 63); /* always 1, but depends on `seen` */
        if (what == DEVICE_ATOMIC_FETCH_ADD)
            seen = weft_thread_atomic_fetch_add64(word, operand, peer);
        else if (what == DEVICE_ATOMIC_SWAP)
            seen = weft_thread_atomic_swap64(word, operand + i, peer);
        else if (what == DEVICE_ATOMIC_CSWAP)
            seen = weft_thread_atomic_cswap64(word, i, operand + i, peer);
        else
            seen = weft_thread_atomic_fetch64(word + (operand - 1), peer);
    }
    end_timing(times, 0);
    if (seen >> 63)
        times->wrong = 1;
}

WEFT_KERNEL(atomic_rate, (uint64_t *, words), (unsigned, bits), (int, peer), (uint64_t, rounds),
            (struct device_times *, times))
{
    uint64_t k = weft_dev_grid_rank(), step = weft_dev_grid_threads();
    begin_timing(times);
    WEFT_NO_UNROLL
    for (uint64_t i = 0; i < rounds; i++, k += step)
        weft_thread_atomic_add64(words + word_of(k, bits, 0), 1, peer);
    weft_thread_quiet();
    end_timing(times, 0);
}

/* -------------------------------------------------------------------------------- meetings */

#define MEETS(scope, constant)                                                                     \
    WEFT_KERNEL(meet_##scope, (int, what), (uint64_t, warm), (uint64_t, rounds),                   \
                (struct device_times *, times))                                                    \
    {                                                                                              \
        int status = WEFT_OK;                                                                      \
        WEFT_NO_UNROLL                                                                             \
        for (uint64_t i = 1; i <= warm + rounds && !status; i++) {                                 \
            if (i == warm + 1)                                                                     \
                begin_timing(times);                                                               \
            status = what == 0   ? weft_##scope##_meet(WEFT_DEV_WORLD)                             \
                     : what == 1 ? weft_##scope##_sync(WEFT_DEV_WORLD)                             \
                                 : weft_##scope##_barrier(WEFT_DEV_WORLD);                         \
        }                                                                                          \
        end_timing(times, status);                                                                 \
    }                                                                                              \
    WEFT_KERNEL(check_meet_##scope, (int, what), (uint64_t *, slots), (uint64_t, base),            \
                (uint64_t, rounds), (struct device_times *, times))                                \
    {                                                                                              \
        int status = WEFT_OK, next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();                    \
        int me = weft_dev_my_pe(), put_to = what == 2 ? next : me;                                 \
        uint64_t wrong = 0;                                                                        \
        begin_timing(times);                                                                       \
        WEFT_NO_UNROLL                                                                             \
        for (uint64_t i = base + 1; i <= base + rounds && !status; i++) {                          \
            if (BLOCK_FIRST)                                                                       \
                weft_thread_p64(&slots[i % 2], i, put_to);                                         \
            status = what == 2 ? weft_##scope##_barrier(WEFT_DEV_WORLD)                            \
                               : weft_##scope##_sync(WEFT_DEV_WORLD);                              \
            if (BLOCK_FIRST)                                                                       \
                wrong += weft_thread_g64(&slots[i % 2], what == 2 ? me : next) != i;               \
        }                                                                                          \
        end_timing(times, status);                                                                 \
        if (BLOCK_FIRST)                                                                           \
            times->wrong = wrong;                                                                  \
    }
WEFT_DEV_SCOPE_LIST(MEETS)

/* ----------------------------------------------------------------------------- collectives */

#define COLLECTIVE(form)                                                                           \
    WEFT_KERNEL(collective_##form, (int, what), (char *, dst), (char *, src), (size_t, bytes),     \
                (uint64_t, warm), (uint64_t, rounds), (struct device_times *, times))              \
    {                                                                                              \
        int status = WEFT_OK;                                                                      \
        WEFT_NO_UNROLL                                                                             \
        for (uint64_t i = 1; i <= warm + rounds && !status; i++) {                                 \
            if (i == warm + 1)                                                                     \
                begin_timing(times);                                                               \
            if (what == DEVICE_ALLTOALL)                                                           \
                status = weft_##form##_alltoall(WEFT_DEV_WORLD, dst, src, bytes);                  \
            else if (what == DEVICE_ALLGATHER)                                                     \
                status = weft_##form##_allgather(WEFT_DEV_WORLD, dst, src, bytes);                 \
            else if (what == DEVICE_REDUCESCATTER)                                                 \
                status = weft_##form##_reducescatter(WEFT_DEV_WORLD, dst, src, bytes / 4,          \
                                                     WEFT_FLOAT, WEFT_SUM);                        \
            else                                                                                   \
                status = weft_##form##_allreduce(WEFT_DEV_WORLD, dst, src, bytes / 4, WEFT_FLOAT,  \
                                                 WEFT_SUM);                                        \
        }                                                                                          \
        end_timing(times, status);                                                                 \
    }
COLLECTIVE(block)
COLLECTIVE(grid)

/* Writes recv_bytes, recv_at, send_bytes, send_at: data for a PE are at that PE's index, and arrive
 * at the sender's index. */
WEFT_KERNEL(fill_counts, (uint64_t *, counts), (size_t, bytes), (int, pes))
{
    for (int i = (int)weft_dev_grid_rank(); i < pes; i += (int)weft_dev_grid_threads()) {
        counts[i] = counts[2 * pes + i] = bytes;
        counts[pes + i] = counts[3 * pes + i] = (uint64_t)i * bytes;
    }
}

#define SIZED(form)                                                                                \
    WEFT_KERNEL(sized_##form, (int, what), (char *, dst), (char *, src), (size_t, bytes),          \
                (uint64_t *, counts), (uint64_t, warm), (uint64_t, rounds),                        \
                (struct device_times *, times))                                                    \
    {                                                                                              \
        int status = WEFT_OK, pes = weft_dev_n_pes();                                              \
        WEFT_NO_UNROLL                                                                             \
        for (uint64_t i = 1; i <= warm + rounds && !status; i++) {                                 \
            if (i == warm + 1)                                                                     \
                begin_timing(times);                                                               \
            if (what == DEVICE_ALLTOALLV)                                                          \
                status = weft_##form##_alltoallv(WEFT_DEV_WORLD, dst, bytes * (size_t)pes, counts, \
                                                 counts + pes, src, counts + 2 * pes,              \
                                                 counts + 3 * pes);                                \
            else if (what == DEVICE_COLLECT)                                                       \
                status = weft_##form##_collect(WEFT_DEV_WORLD, dst, src, bytes);                   \
            else if (what == DEVICE_REDUCE)                                                        \
                status = weft_##form##_reduce(WEFT_DEV_WORLD, dst, src, bytes / 4, WEFT_FLOAT,     \
                                              WEFT_SUM, 0);                                        \
            else                                                                                   \
                status =                                                                           \
                    weft_##form##_allreduce_weighted(WEFT_DEV_WORLD, dst, src, bytes / 4,          \
                                                     WEFT_FLOAT, (double)weft_dev_my_pe() + 1);    \
        }                                                                                          \
        end_timing(times, status);                                                                 \
    }
SIZED(block)
SIZED(grid)

/* -------------------------------------------------------------------------------- contents */

WEFT_KERNEL(fill_floats, (float *, src), (size_t, n), (int, own))
{
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads())
        src[i] = (float)((int)(i % 64) + own);
}

WEFT_KERNEL(fill_words, (uint64_t *, words), (size_t, n), (uint64_t, seed))
{
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads())
        words[i] = value_of(i + seed);
}

WEFT_DEVICE void count_wrong(uint64_t *wrong, uint64_t mine)
{
    if (mine)
        weft_dev_atomic_add_u64(wrong, mine, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

WEFT_KERNEL(check_words, (uint64_t *, words), (size_t, n), (uint64_t, seed), (uint64_t *, wrong))
{
    uint64_t mine = 0;
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads())
        mine += words[i] != value_of(i + seed);
    count_wrong(wrong, mine);
}

WEFT_KERNEL(check_bytes, (char *, bytes), (size_t, n), (size_t, shift), (uint64_t, seed),
            (uint64_t *, wrong))
{
    uint64_t mine = 0;
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads())
        mine += (uint8_t)bytes[i] !=
                (uint8_t)(value_of((i + shift) / 8 + seed) >> 8 * ((i + shift) % 8));
    count_wrong(wrong, mine);
}

WEFT_KERNEL(check_floats, (float *, dst), (size_t, n), (size_t, first), (int, times), (int, plus),
            (uint64_t *, wrong))
{
    uint64_t mine = 0;
    for (size_t i = weft_dev_grid_rank(); i < n; i += weft_dev_grid_threads())
        mine += dst[i] != (float)((int)((first + i) % 64) * times + plus);
    count_wrong(wrong, mine);
}

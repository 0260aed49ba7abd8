/* SPDX-License-Identifier: Apache-2.0 */
/* The order that device operations promise, one case for each run, and the same without the call
 * that provides it, which must be seen to break where the target can show it:
 *   device_litmus CASE [removed]
 * Block 0 of every PE writes to the next PE, block 1 checks what arrives. Without `removed` any
 * violation fails the test. With `removed` the test passes if a violation was seen, and is skipped
 * (77) if this machine shows none. On simt an x86 CPU shows only store_buffering, and
 * ThreadSanitizer shows the others as data races (one PE: the two blocks are two threads). GPUs may
 * show all. */
#include "device_test.h"

enum { WORDS = 48, APART = 1024, SLOT = WORDS * APART, LARGE = 48 * 1024 };

enum litmus {
    MESSAGE_PASSING,
    PUT_SIGNAL,
    PACKET,
    BARRIER,
    SYNC,
    STORE_BUFFERING,
    ALLREDUCE, /* in packets */
    SLICES,    /* a reduction too large for packets */
    EXCHANGE,
    ROOTED, /* reductions in packets to one root, mixed with others */
    CASES
};

struct flags {
    uint64_t flag, pad1[15], ack, pad2[15], violations, pad3[15], meet[2], x, pad4[15], y, pad5[15];
    uint64_t seen[2], reported;
};

/* Block 0 in one round: sends WORDS words of data, far apart, and then the flag. Atomics change
 * half of the data of message_passing. */
WEFT_DEVICE void send(enum litmus which, int removed, uint64_t *data, uint64_t *mine, char *packets,
                      struct flags *f, uint64_t round, int peer)
{
    unsigned rank = weft_dev_thread_rank(), n = weft_dev_block_threads();
    if (which == PUT_SIGNAL && !removed) {
        for (unsigned i = rank; i < 512; i += n)
            mine[i] = round;
        weft_dev_sync_block();
        weft_block_put_signal(data, mine, 512 * sizeof *mine, &f->flag, round, WEFT_SIGNAL_SET,
                              peer);
        return;
    }
    if (which == PACKET && !removed) {
        for (unsigned i = rank; i < WORDS; i += n)
            mine[i] = round;
        weft_dev_sync_block();
        weft_block_put_packet(packets, mine, WORDS * sizeof *mine, (uint32_t)round, peer);
        return;
    }
    if (which == PUT_SIGNAL) { /* a put without the order of the signal */
        for (unsigned i = rank; i < 512; i += n)
            mine[i] = round;
        weft_dev_sync_block();
        weft_block_put(data, mine, 512 * sizeof *mine, peer);
    } else {
        for (unsigned i = rank; i < WORDS; i += n)
            if (which == MESSAGE_PASSING && i % 2)
                weft_thread_atomic_add64(data + i * APART / 8, 1, peer);
            else
                weft_thread_p64(data + i * APART / 8, round, peer);
    }
    if (which == MESSAGE_PASSING && !removed)
        weft_block_fence();
    weft_dev_sync_block();
    if (rank == 0)
        weft_thread_p64(&f->flag, round, peer);
}

/* Whether the received data is complete. */
WEFT_DEVICE int whole(enum litmus which, int removed, const uint64_t *data, uint64_t *got,
                      const char *packets, uint64_t round)
{
    int wrong = 0;
    unsigned rank = weft_dev_thread_rank(), n = weft_dev_block_threads();
    if (which == PACKET && !removed) {
        if (weft_block_take_packet(got, packets, WORDS * sizeof *got, (uint32_t)round))
            return 0;
        for (unsigned i = rank; i < WORDS; i += n)
            wrong |= got[i] != round;
    } else if (which == PUT_SIGNAL) {
        for (unsigned i = rank; i < 512; i += n)
            wrong |= data[i] != round;
    } else {
        for (unsigned i = rank; i < WORDS; i += n)
            wrong |= data[i * APART / 8] != round;
    }
    return !weft_dev_sync_block_or(wrong);
}

WEFT_KERNEL(message, (enum litmus, which), (int, removed), (uint64_t *, data), (uint64_t *, mine),
            (uint64_t *, got), (char *, packets), (struct flags *, f), (uint64_t, rounds),
            (int, next), (int, last))
{
    for (uint64_t round = 1; round <= rounds; round++) {
        if (weft_dev_block_rank() == 0) {
            send(which, removed, data, mine, packets, f, round, next);
            if (weft_block_wait_until(WEFT_UINT64, &f->ack, WEFT_GE, round))
                return;
            continue;
        }
        if ((which != PACKET || removed) &&
            weft_block_wait_until(WEFT_UINT64, &f->flag, WEFT_GE, round))
            return;
        int right = whole(which, removed, data, got, packets, round);
        if (weft_dev_thread_rank() == 0) {
            if (!right)
                f->violations++;
            weft_thread_fence();
            weft_thread_p64(&f->ack, round, last);
        }
        weft_dev_sync_block();
    }
}

/* barrier: every PE stores to the next PE, calls barrier and reads. sync: every PE stores to
 * itself, calls sync, and the previous PE reads. */
WEFT_KERNEL(meetings, (enum litmus, which), (int, removed), (uint64_t *, data), (struct flags *, f),
            (uint64_t, rounds), (int, next))
{
    unsigned rank = weft_dev_thread_rank(), n = weft_dev_block_threads();
    for (uint64_t round = 1; round <= rounds; round++) {
        int status, wrong = 0;
        for (unsigned i = rank; i < WORDS; i += n) {
            if (which == BARRIER)
                weft_thread_p64(data + i * APART / 8, round, next);
            else
                data[i * APART / 8] = round;
        }
        status = removed            ? weft_block_meet(WEFT_DEV_WORLD)
                 : which == BARRIER ? weft_block_barrier(WEFT_DEV_WORLD)
                                    : weft_block_sync(WEFT_DEV_WORLD);
        for (unsigned i = rank; i < WORDS && !status; i += n)
            wrong |= (which == BARRIER ? data[i * APART / 8]
                                       : weft_thread_g64(data + i * APART / 8, next)) != round;
        if (weft_dev_sync_block_or(wrong) && rank == 0)
            f->violations++;
        if (status || weft_block_barrier(WEFT_DEV_WORLD))
            return;
    }
}

/* Consecutive collectives of changing sizes with no other synchronization: on return the source may
 * be overwritten and the destination is complete. `removed`: the received blocks of an alltoall are
 * read after weft_block_meet(), without the order of its flags. */
WEFT_DEVICE uint32_t said(uint64_t round, int from, int to, unsigned i)
{
    return (uint32_t)round * 2654435761u + (uint32_t)from * 97 + (uint32_t)to * 31 + i * 7;
}

WEFT_KERNEL(collectives, (enum litmus, which), (int, removed), (uint32_t *, dst), (uint32_t *, src),
            (struct flags *, f), (uint64_t, rounds), (unsigned, most))
{
    unsigned rank = weft_dev_thread_rank(), threads = weft_dev_block_threads();
    int members = weft_dev_n_pes(), mine = weft_dev_my_pe();
    for (uint64_t round = 1; round <= rounds; round++) {
        unsigned n = which == ALLREDUCE ? 1 + (unsigned)(round * 7 % most) : most;
        int status = WEFT_OK, wrong = 0;
        for (unsigned i = rank; i < n; i += threads)
            for (int to = 0; to < (which == EXCHANGE ? members : 1); to++)
                src[(unsigned)to * n + i] = said(round, mine, to, i);
        if ((round + (uint64_t)mine) % 5 == 0)
            weft_dev_nanosleep(2000);
        weft_dev_sync_block();
        if (which != EXCHANGE)
            status = weft_block_allreduce(WEFT_DEV_WORLD, dst, src, n, WEFT_UINT32, WEFT_SUM);
        else if (!removed)
            status = weft_block_alltoall(WEFT_DEV_WORLD, dst, src, n * sizeof *src);
        for (int to = 0; which == EXCHANGE && removed && to < members; to++)
            weft_block_put_nbi(dst + (unsigned)mine * n, src + (unsigned)to * n, n * sizeof *src,
                               to);
        if (removed)
            status = weft_block_meet(WEFT_DEV_WORLD);
        for (unsigned i = rank; i < n; i += threads) {
            uint32_t sum = 0;
            for (int from = 0; from < members; from++) {
                sum += said(round, from, 0, i);
                if (which == EXCHANGE)
                    wrong |= dst[(unsigned)from * n + i] != said(round, from, mine, i);
            }
            if (which != EXCHANGE)
                wrong |= dst[i] != sum;
        }
        if (weft_dev_sync_block_or(wrong) && rank == 0)
            f->violations++;
        /* The destination is ready for the next round when all PEs have read this one. */
        if (status || (which == EXCHANGE && weft_block_barrier(WEFT_DEV_WORLD)))
            return;
    }
}

/* One round. `to`: the PE that gets the sums; `members`: all get them; `members` + 1: a collect. */
struct rooted {
    int to, weighted, alone;
    unsigned n;
};

WEFT_DEVICE uint32_t drawn(uint64_t round, int what)
{
    uint32_t x = said(round, what, 0, 0);
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 13;
}

/* A root stays for one round or for up to eight. */
WEFT_DEVICE struct rooted rooted_of(uint64_t round, int members)
{
    uint32_t hash = drawn(round, 91), to = drawn(round >> (round >> 5 & 3), 92);
    struct rooted r = {(int)(to % (3 * (uint32_t)members + 2)), (int)(hash & 1),
                       hash >> 4 & 7 ? 0 : 1, 1 + (hash >> 12) % 200};
    r.to = r.to < 3 * members ? r.to % members : r.to - 2 * members;
    return r;
}

WEFT_DEVICE float rooted_value(uint64_t round, int from, unsigned i)
{
    return (float)(said(round, from, 0, i) % 4096);
}

#define ROOTED_BY(scope)                                                                           \
    (r.to == members + 1 ? weft_##scope##_collect(WEFT_DEV_WORLD, all, src, 8)                     \
     : r.to == members && r.weighted                                                               \
         ? weft_##scope##_allreduce_weighted(WEFT_DEV_WORLD, dst, src, r.n, WEFT_FLOAT, weight)    \
     : r.to == members                                                                             \
         ? weft_##scope##_allreduce(WEFT_DEV_WORLD, dst, src, r.n, WEFT_FLOAT, WEFT_SUM)           \
     : r.weighted                                                                                  \
         ? weft_##scope##_reduce_weighted(WEFT_DEV_WORLD, dst, src, r.n, WEFT_FLOAT, weight, r.to) \
         : weft_##scope##_reduce(WEFT_DEV_WORLD, dst, src, r.n, WEFT_FLOAT, WEFT_SUM, r.to))

/* One block. The source is overwritten as soon as a call returns, and one PE is late at times: no
 * root and no PE of an earlier round may be overrun. */
WEFT_KERNEL(rooted, (float *, dst), (float *, all), (float *, src), (struct flags *, f),
            (uint64_t, rounds))
{
    unsigned rank = weft_dev_thread_rank(), threads = weft_dev_block_threads();
    int members = weft_dev_n_pes(), mine = weft_dev_my_pe();
    double weight = mine + 1;
    for (uint64_t round = 1; round <= rounds; round++) {
        struct rooted r = rooted_of(round, members);
        uint32_t late = drawn(round, 93);
        int status = WEFT_OK, wrong = 0;
        unsigned n = r.to <= members ? r.n : 2;
        for (unsigned i = rank; i < n; i += threads)
            src[i] = rooted_value(round, mine, i);
        if (late % 16 == 0 && (int)(late / 16 % (uint32_t)members) == mine)
            weft_dev_nanosleep(1000 << (late >> 16) % 7);
        weft_dev_sync_block();
        if (!r.alone)
            status = ROOTED_BY(block);
        else if (rank == 0)
            status = ROOTED_BY(thread);
        if (weft_dev_sync_block_or(status))
            return;
        int takes = r.to >= members || r.to == mine;
        for (unsigned i = rank; takes && r.to <= members && i < n; i += threads) {
            float sum = 0;
            for (int from = 0; from < members; from++)
                sum += rooted_value(round, from, i) * (float)(r.weighted ? from + 1 : 1);
            wrong |= dst[i] != sum;
        }
        for (unsigned i = rank; r.to > members && i < 2 * (unsigned)members; i += threads)
            wrong |= all[i] != rooted_value(round, (int)(i / 2), i % 2);
        if (weft_dev_sync_block_or(wrong) && rank == 0)
            f->violations++;
    }
    if (rank == 0)
        f->seen[0] = rounds;
}

/* Two sides: PEs 0 and 1, or the two blocks of a single PE. All variables are PE 0's. Each side
 * writes its own and reads the other's: at least one must read the new value. */
WEFT_KERNEL(buffering, (int, removed), (struct flags *, f), (uint64_t, first), (uint64_t, rounds),
            (int, alone))
{
    int side = alone ? (int)weft_dev_block_rank() : weft_dev_my_pe();
    if (side > 1 || weft_dev_thread_rank() || (!alone && weft_dev_block_rank()))
        return;
    uint64_t *own = side ? &f->y : &f->x, *other = side ? &f->x : &f->y;
    for (uint64_t round = first; round < first + rounds; round++) {
        /* Both sides are here and start as closely together as they can. */
        weft_thread_atomic_fetch_add64(&f->meet[0], 1, 0);
        while (weft_thread_g64(&f->meet[0], 0) < 2 * round)
            ;
        weft_thread_p64(own, round, 0);
        if (removed)
            weft_thread_fence();
        else
            weft_thread_quiet();
        uint64_t seen = weft_thread_g64(other, 0);
        weft_thread_p64(&f->seen[side], seen, 0);
        weft_thread_quiet();
        weft_thread_atomic_fetch_add64(&f->meet[1], 1, 0);
        while (weft_thread_g64(&f->meet[1], 0) < 2 * round)
            ;
        if (side == 0 && weft_thread_g64(&f->seen[0], 0) < round &&
            weft_thread_g64(&f->seen[1], 0) < round)
            weft_thread_atomic_add64(&f->violations, 1, 0);
        weft_thread_quiet();
    }
}

#if WEFT_HOST_CODE
/* Number of violations that all PEs saw so far. */
static uint64_t violations_of_all(struct flags *f)
{
    struct flags result;
    uint64_t one, all = 0;
    barrier();
    fetch(&result, f, sizeof result);
    store(&f->reported, &result.violations, sizeof result.violations);
    barrier();
    for (int pe = 0; pe < n_pes; pe++) {
        OK(weft_get(ctx, &one, &f->reported, sizeof one, pe));
        all += one;
    }
    barrier();
    return all;
}

/* Rounds in which the outcome must not occur; `removed`: repeats until it occurs. On a busy machine
 * the two sides rarely run at the same moment, so it may take many rounds. */
static uint64_t run_buffering(int removed, struct flags *f, uint64_t rounds)
{
    uint64_t done = 0;
    for (int attempt = 0; attempt < (removed ? 200 : 1); attempt++) {
        LAUNCH(buffering, 2, 1, 0, NULL, removed, f, done + 1, rounds, n_pes == 1);
        done += rounds;
        if (removed && violations_of_all(f))
            break;
    }
    return done;
}

static void run_rooted(struct flags *f, float *large, uint64_t rounds)
{
    struct flags result;
    LAUNCH(rooted, 1, weft_target_get() == WEFT_CUDA ? 256 : 96, 0, NULL, large, large + 1024,
           large + 2048, f, rounds);
    fetch(&result, f, sizeof result);
    CHECK(result.seen[0] == rounds);
}

int main(int argc, char **argv)
{
    static const char *const names[CASES] = {
        "message_passing", "put_signal", "packet", "barrier",  "sync",
        "store_buffering", "allreduce",  "slices", "exchange", "rooted"};
    enum litmus which = CASES;
    for (int i = 0; argc > 1 && i < CASES; i++)
        if (strcmp(argv[1], names[i]) == 0)
            which = (enum litmus)i;
    CHECK(which != CASES);
    int removed = argc > 2 && strcmp(argv[2], "removed") == 0;
    device_begin();
    int gpu = weft_target_get() == WEFT_CUDA;
    const char *asked =
        getenv("LITMUS_ROUNDS"); /* kernels that take turns on one GPU need few rounds */
    uint64_t rounds = asked                                 ? strtoull(asked, NULL, 10)
                      : gpu                                 ? 20000
                      : which == STORE_BUFFERING && removed ? 5000
                                                            : 300;
    uint64_t *data = symmetric(SLOT), *mine = symmetric(4096), *got = symmetric(4096);
    char *packets = symmetric(weft_packet_bytes(4096));
    struct flags *f = symmetric(sizeof *f);
    char *large = symmetric(2 * LARGE);
    int next = (me + 1) % n_pes, last = (me + n_pes - 1) % n_pes;
    barrier();
    if (which == STORE_BUFFERING)
        rounds = run_buffering(removed, f, rounds);
    else if (which == ROOTED)
        run_rooted(f, (float *)(void *)large, rounds);
    else if (which >= ALLREDUCE)
        LAUNCH(collectives, 1, gpu ? 256 : 64, 0, NULL, which, removed, (uint32_t *)large,
               (uint32_t *)(large + LARGE), f, which == ALLREDUCE ? rounds : rounds / 10,
               which == ALLREDUCE  ? 200u
               : which == EXCHANGE ? (unsigned)(LARGE / 4 / (size_t)n_pes)
                                   : (unsigned)(LARGE / 4));
    else if (which == BARRIER || which == SYNC)
        LAUNCH(meetings, 1, gpu ? 256 : 32, 0, NULL, which, removed, data, f, rounds, next);
    else
        LAUNCH(message, 2, gpu ? 256 : 32, 0, NULL, which, removed, data, mine, got, packets, f,
               rounds, next, last);
    uint64_t all = violations_of_all(f);
    if (me == 0)
        fprintf(stderr, "%s%s on %s: %llu violations in %llu rounds\n", argv[1],
                removed ? " removed" : "", weft_target_name(weft_target_get()),
                (unsigned long long)all, (unsigned long long)rounds * (uint64_t)n_pes);
    device_end();
    if (removed)
        return all ? 0 : 77;
    return all ? 1 : 0;
}
#endif

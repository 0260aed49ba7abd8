/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline of the bare machine, measured in the same run with plain loads and stores through
 * weft_ptr(): memcpy, a store, a load, an atomic addition, a round trip of a cache line.
 * Independent of the benchmarks. */
#include "bench/bench.h"

#include <sched.h>
#include <string.h>

enum { ACCESSES = 1 << 16, ACCESS_ROUNDS = 7, TRIP_ROUNDS = 200, TRIP_REPEATS = 5 };
/* A poll that comes too early takes the cache line from its writer, so that a pause between
 * polls can be faster or slower: the minimum over several pauses counts. */
enum { TRIP_PAUSES = 3 };
enum { TRIP_LIMIT_NS = 1000 * 1000 * 1000, COPY_ROUND_NS = 500 * 1000, COPY_ROUNDS = 7 };
static const uint64_t TRIP_STOP = UINT64_MAX;

typedef double (*access_timer)(void *memory);

/* Time of one access in ns: the minimum of several rounds. */
static double time_store(void *memory)
{
    volatile uint64_t *words = memory;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < ACCESSES; i++)
        words[i % 512] = i;
    return (double)(bench_now_ns() - start) / ACCESSES;
}

static double time_load(void *memory)
{
    volatile uint64_t *words = memory;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < ACCESSES; i++)
        (void)words[i % 512];
    return (double)(bench_now_ns() - start) / ACCESSES;
}

static double time_atomic(void *memory)
{
    uint64_t *word = memory;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < ACCESSES; i++)
        __atomic_fetch_add(word, 1,
                           __ATOMIC_RELAXED); /* pairs with nothing: only its cost is measured */
    return (double)(bench_now_ns() - start) / ACCESSES;
}

static double time_clock(void *memory)
{
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < ACCESSES / 16; i++)
        bench_now_ns();
    return (double)(bench_now_ns() - start) / (ACCESSES / 16);
}

static double least_of_rounds(access_timer measure, void *memory)
{
    double best = measure(memory);
    for (int i = 1; i < ACCESS_ROUNDS; i++) {
        double ns = measure(memory);
        best = ns < best ? ns : best;
    }
    return best;
}

static void pause_poll(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits until *word is `value`; yields when PEs share a CPU. False at the stop mark or when too
 * much time has passed since `start`: the round trip is then not measured. */
static bool poll_until(const uint64_t *word, uint64_t value, int pauses, uint64_t start)
{
    for (unsigned polls = 1;; polls++) {
        for (int i = 0; i < pauses; i++)
            pause_poll();
        /* Pairs with the release store of the other PE in run_ping_pong(). */
        uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (seen == value)
            return true;
        if (seen == TRIP_STOP)
            return false;
        if (polls % 256)
            continue;
        sched_yield();
        if (bench_now_ns() - start > TRIP_LIMIT_NS)
            return false;
    }
}

struct trip {
    uint64_t *out, *in;         /* word that this PE writes, and word that it polls */
    uint64_t out_step, in_step; /* the value in round r is 2r + step */
    bool first;
    int pauses; /* pauses between polls */
};

/* The total time is bounded: on a busy machine each round takes as long as other processes keep
 * the CPU. */
static bool run_ping_pong(const struct trip *trip, uint64_t rounds)
{
    uint64_t start = bench_now_ns();
    for (uint64_t r = 0; r < rounds; r++) {
        if (!trip->first && !poll_until(trip->in, 2 * r + trip->in_step, trip->pauses, start))
            return false;
        __atomic_store_n(trip->out, 2 * r + trip->out_step, __ATOMIC_RELEASE);
        if (trip->first && !poll_until(trip->in, 2 * r + trip->in_step, trip->pauses, start))
            return false;
    }
    return true;
}

/* Measures half a round trip between `from` and `to`; *ns is set at `from`. With one line both
 * PEs write a line of `to`; with two each PE has a line that the other writes. */
static weft_status round_trip(struct bench *bench, bool two_lines, double *ns)
{
    *ns = -1;
    uint64_t *own = bench->lines;
    uint64_t *theirs = NULL;
    bool takes_part = bench->from != bench->to;
    if (bench->me == bench->from)
        theirs = weft_ptr(bench->job, own, bench->to);
    else if (bench->me == bench->to)
        theirs = weft_ptr(bench->job, own, bench->from);
    struct trip trip = {.first = bench->me == bench->from,
                        .out_step = bench->me == bench->from ? 1 : 2,
                        .in_step = bench->me == bench->from ? 2 : 1};
    trip.out = two_lines || trip.first ? theirs : own;
    trip.in = two_lines || !trip.first ? own : theirs;

    double best = -1;
    bool good = takes_part && theirs;
    for (int i = 0; i < TRIP_REPEATS * TRIP_PAUSES; i++) {
        trip.pauses = i % TRIP_PAUSES;
        own[0] = 0;
        weft_status status = weft_barrier(bench->world);
        if (status)
            return status;
        uint64_t start = bench_now_ns();
        if (good && !run_ping_pong(&trip, TRIP_ROUNDS)) {
            good = false;
            __atomic_store_n(trip.out, TRIP_STOP, __ATOMIC_RELEASE);
        }
        double half = (double)(bench_now_ns() - start) / TRIP_ROUNDS / 2;
        best = best < 0 || half < best ? half : best;
        /* No PE may reset a line that the other still polls. */
        status = weft_barrier(bench->world);
        if (status)
            return status;
    }
    own[0] = 0;
    if (good && trip.first)
        *ns = best;
    return weft_barrier(bench->world);
}

weft_status bench_floors_measure(struct bench *bench)
{
    struct bench_floors *floors = &bench->floors;
    weft_status status = round_trip(bench, false, &floors->one_line_ns);
    if (!status)
        status = round_trip(bench, true, &floors->two_lines_ns);
    if (status || bench->me != bench->from)
        return status;
    static uint64_t memory[512];
    floors->store_ns = least_of_rounds(time_store, memory);
    floors->load_ns = least_of_rounds(time_load, memory);
    floors->atomic_ns = least_of_rounds(time_atomic, memory);
    floors->clock_ns = least_of_rounds(time_clock, memory);
    return WEFT_OK;
}

static double time_copy(void *dst, const void *src, size_t bytes, uint64_t count)
{
    /* A volatile pointer, so that the compiler keeps the copy. */
    static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < count; i++)
        copy(dst, src, bytes);
    return (double)(bench_now_ns() - start) / (double)count;
}

/* Copies to the buffer of `to` when it can be stored to, else within this PE. The other PEs wait
 * in the caller's next reduction. */
double bench_memcpy_ns(struct bench *bench, struct bench_case *c)
{
    if (bench->me != bench->from || !c->bytes)
        return -1;
    void *dst = weft_ptr(bench->job, c->dst, bench->to);
    if (!dst)
        dst = c->dst;
    uint64_t count = 1;
    while (time_copy(dst, c->src, c->bytes, count) * (double)count < COPY_ROUND_NS)
        count *= 4;
    double ns[COPY_ROUNDS];
    for (int i = 0; i < COPY_ROUNDS; i++) {
        double taken = time_copy(dst, c->src, c->bytes, count);
        int at = i;
        for (; at > 0 && ns[at - 1] > taken; at--)
            ns[at] = ns[at - 1];
        ns[at] = taken;
    }
    return ns[COPY_ROUNDS / 2];
}

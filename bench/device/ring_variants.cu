/* SPDX-License-Identifier: Apache-2.0 */
/* Measures design variants of the ring from device to host: the round trip of an empty request
 * between GPU and CPU with several implementations of each step, and each step alone. It is meant
 * for changes of include/weft/device/proxy.h. It needs nvcc and this tree's headers, but no job and
 * no library of Weft.
 *
 *     nvcc -O3 -std=c++17 -Iinclude -gencode arch=compute_75,code=[sm_90,compute_75] \
 *          -o ring_variants bench/device/ring_variants.cu
 *     ./ring_variants [CPU]       the host's thread runs on that CPU
 *
 * One device thread posts requests, one host thread answers them. Every loop is bounded. */
#include <weft_device.h>

#include <algorithm>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vector>

/* weft_device.h registers its state with the library; there is none here. */
extern "C" void weft_device_register(struct weft_device_unit *)
{
}
extern "C" void weft_device_unregister(struct weft_device_unit *)
{
}
extern "C" void weft_cuda_register(const struct weft_cuda_runtime *)
{
}

enum { SLOT_BITS = 10, SLOTS = 1 << SLOT_BITS, ROUNDS = 4000, REPEATS = 7, STAMPS = 4 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "ring_variants: %s: %s\n", #call, cudaGetErrorString(error_));         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Implementations of each step. */
enum pointers { CONSTANT, TABLE }; /* where the ring's addresses come from */
/* Ticket: a counter of the thread; an atomic; and with a read of the credits after it, before it,
 * or next to an atomic that is known to be on global memory; credits reported as low as
 * possible. */
enum ticket { COUNTED, ATOMIC, KNOWN, KNOWN_FIRST, KNOWN_GLOBAL, MISER };
enum source { CLEAN, DIRTY }; /* DIRTY: a word of GPU memory is stored before */
enum fence {
    NONE,
    BEFORE,
    AFTER,
    RELEASE,
    GPU
}; /* of the ticket; on the last store; gpu's scope */
enum poll { ACQUIRE, RELAXED, FENCED, TWO, FOUR, TWO_FENCED, TWO_ACQUIRE };

struct out {
    uint64_t begin, end, late, cycles[STAMPS];
};

__device__ __forceinline__ uint64_t look(const uint64_t *at)
{
    return weft_dev_load_u64(at, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

__device__ __forceinline__ void pause_cycles(long long cycles)
{
    for (long long begun = clock64(); clock64() - begun < cycles;)
        ;
}

/* An atomic on memory that may be shared memory is waited for at once. */
__device__ __forceinline__ uint64_t add_global(uint64_t *at)
{
    uint64_t old;
    asm volatile("{ .reg .u64 g; cvta.to.global.u64 g, %1;"
                 " atom.relaxed.gpu.global.add.u64 %0, [g], 1; }"
                 : "=l"(old)
                 : "l"(at)
                 : "memory");
    return old;
}

template <int TICKET>
__device__ __forceinline__ uint64_t take(const struct weft_dev_ring *ring, uint64_t round,
                                         uint64_t *late)
{
    uint64_t ticket = round, known = 0;
    if (TICKET == COUNTED)
        return ticket;
    if (TICKET == KNOWN_FIRST || TICKET == KNOWN_GLOBAL)
        known =
            weft_dev_load_u64(ring->head + WEFT_DEV_RING_KNOWN, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    ticket = TICKET == KNOWN_GLOBAL
                 ? add_global(ring->head)
                 : weft_dev_atomic_add_u64(ring->head, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (TICKET == ATOMIC)
        return ticket;
    if (TICKET == KNOWN || TICKET == MISER)
        known =
            weft_dev_load_u64(ring->head + WEFT_DEV_RING_KNOWN, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
    if (ticket - known < ring->slots)
        return ticket;
    uint64_t seen = weft_dev_load_u64(ring->released, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS);
    *late += ticket - seen >= ring->slots;
    weft_dev_store_u64(ring->head + WEFT_DEV_RING_KNOWN,
                       TICKET == MISER ? ticket - ring->slots + 1 : seen, WEFT_ORDER_RELEASE,
                       WEFT_SCOPE_GPU);
    return ticket;
}

/* Several loads in flight at different times. */
template <int LOOKS> __device__ __forceinline__ bool wait_apart(const uint64_t *at, uint64_t target)
{
    uint64_t seen[LOOKS];
#pragma unroll
    for (int i = 0; i < LOOKS; i++) {
        seen[i] = look(at);
        if (i < LOOKS - 1)
            pause_cycles(2000 / LOOKS);
    }
#pragma unroll 1
    for (int n = 0; n < 1 << 18; n++) {
#pragma unroll
        for (int i = 0; i < LOOKS; i++) {
            if (seen[i] >= target)
                return true;
            seen[i] = look(at);
        }
    }
    return false;
}

template <int POLL>
__device__ __forceinline__ bool wait_for(const uint64_t *at, uint64_t target, const uint64_t *own)
{
    bool good = false;
    if (POLL == TWO || POLL == TWO_FENCED || POLL == TWO_ACQUIRE)
        good = wait_apart<2>(at, target);
    else if (POLL == FOUR)
        good = wait_apart<4>(at, target);
    else
#pragma unroll 1
        for (int n = 0; n < 1 << 19 && !good; n++)
            good = (POLL == ACQUIRE ? weft_dev_load_u64(at, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS)
                                    : look(at)) >= target;
    if (POLL == FENCED || POLL == TWO_FENCED)
        weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
    if (POLL == TWO_ACQUIRE)
        good &= weft_dev_load_u64(own, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) != ~(uint64_t)0;
    return good;
}

/* WORDS: words of the descriptor: 1 for a store of 8 bytes, else pairs. */
template <int WORDS, int FENCE>
__device__ __forceinline__ void write_words(uint64_t *words, uint64_t phase)
{
    if (WORDS == 1) {
        weft_dev_store_u64(words, phase, FENCE == RELEASE ? WEFT_ORDER_RELEASE : WEFT_ORDER_RELAXED,
                           WEFT_SCOPE_SYS);
        return;
    }
    struct weft_dev_vec16 v = {phase, phase};
#pragma unroll
    for (int i = 0; i < WORDS; i += 2) {
        if (FENCE == RELEASE && i == WORDS - 2) {
            weft_dev_store_u64(words + i, phase, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
            weft_dev_store_u64(words + i + 1, phase, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
        } else
            weft_dev_store_vec16_relaxed(words + i, v);
    }
}

template <bool STAMPED, int POINTERS, int TICKET, int SOURCE, int FENCE, int WORDS, int POLL>
__global__ void trips(const struct weft_dev_ring constant, const struct weft_dev_ring *table,
                      uint64_t *source, uint64_t rounds, struct out *out)
{
    uint64_t sums[STAMPS] = {0}, late = 0;
    uint64_t begin = weft_dev_clock_ns();
#define STAMP(n)                                                                                   \
    if (STAMPED)                                                                                   \
    at[n] = clock64()
#pragma unroll 1
    for (uint64_t i = 0; i < rounds && !late; i++) {
        const struct weft_dev_ring *ring = POINTERS == TABLE ? table : &constant;
        long long at[STAMPS + 1];
        uint64_t ticket;
        STAMP(0);
        if (SOURCE == DIRTY)
            *(volatile uint64_t *)source = i;
        if (FENCE == BEFORE)
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
        ticket = take<TICKET>(ring, i, &late);
        late += ticket > rounds; /* waits for the ticket */
        STAMP(1);
        if (FENCE == AFTER)
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
        if (FENCE == GPU)
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
        STAMP(2);
        write_words<WORDS, FENCE>(ring->words + (ticket & (ring->slots - 1)) * WEFT_DEV_RING_WORDS,
                                  weft_dev_ring_phase(ticket, ring->slot_bits)
                                      << WEFT_DEV_RING_SHIFT);
        STAMP(3);
        late += !wait_for<POLL>(ring->released, ticket + 1, ring->head + WEFT_DEV_RING_KNOWN);
        STAMP(4);
        if (STAMPED)
#pragma unroll
            for (int n = 0; n < STAMPS; n++)
                sums[n] += (uint64_t)(at[n + 1] - at[n]);
    }
    out->begin = begin;
    out->end = weft_dev_clock_ns();
    out->late = late;
    for (int n = 0; n < STAMPS; n++)
        out->cycles[n] = sums[n];
}

/* The ring as in the headers: an empty request and a wait for it. */
__global__ void trips_of_tree(int local, uint64_t bytes, uint64_t rounds, struct out *out)
{
    static __device__ uint64_t word;
    uint64_t begin = weft_dev_clock_ns();
#pragma unroll 1
    for (uint64_t i = 0; i < rounds; i++) {
        struct weft_dev_request r =
            weft_dev_request_of(local ? WEFT_DEV_OP_NONE : WEFT_DEV_OP_G, &word, bytes, 0);
        r.local = local ? &word : NULL;
        weft_dev_proxy_request(&r);
    }
    out->begin = begin;
    out->end = weft_dev_clock_ns();
    out->late = 0;
}

/* ------------------------------------------------------------------------------- single steps */

enum step {
    FENCE_SYS,
    FENCE_SYS_DIRTY,
    FENCE_SYS_DIRTY_HOST,
    FENCE_GPU_DIRTY,
    ATOM,
    ATOM_THEN_FENCE,
    ATOM_BESIDE_FENCE,
    LOAD_OWN,
    LOAD_OWN_ACQUIRE,
    LOAD_HOST,
    LOAD_HOST_ACQUIRE,
    LOAD_HOST_PAIR,
    STACK,
    STACK_BEHIND_ACQUIRE,
    STORES_HOST,
    STEPS
};
static const char *const step_names[] = {
    "fence.acq_rel.sys, nothing stored",
    "the same behind a store to GPU memory",
    "the same behind 64 bytes to host memory",
    "fence.acq_rel.gpu behind a store to GPU memory",
    "atom.relaxed.gpu.add",
    "store, atom, then fence.acq_rel.sys",
    "store, fence.acq_rel.sys, then atom",
    "ld.relaxed.gpu",
    "ld.acquire.sys of GPU memory",
    "ld.relaxed.sys of host memory",
    "ld.acquire.sys of host memory",
    "two of ld.relaxed.sys of host memory",
    "a word of the stack stored and loaded",
    "the same with ld.acquire.gpu between",
    "64 bytes to host memory",
};

__global__ void steps(int step, uint64_t *own, uint64_t *host, uint64_t rounds, struct out *out)
{
    volatile uint64_t stack[8];
    uint64_t sum = 0, cycles = 0;
    struct weft_dev_vec16 v = {1, 1};
#pragma unroll 1
    for (uint64_t i = 0; i < rounds; i++) {
        pause_cycles(4000); /* stores of the previous round have arrived */
        long long begun = clock64();
        switch (step) {
        case FENCE_SYS_DIRTY_HOST:
        case STORES_HOST:
            for (int k = 0; k < 8; k += 2)
                weft_dev_store_vec16_relaxed(host + (i % 64) * 8 + k, v);
            if (step == FENCE_SYS_DIRTY_HOST)
                weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
            break;
        case FENCE_SYS_DIRTY:
            *(volatile uint64_t *)own = i;
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
            break;
        case FENCE_SYS:
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
            break;
        case FENCE_GPU_DIRTY:
            *(volatile uint64_t *)own = i;
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_GPU);
            break;
        case ATOM:
            sum += weft_dev_atomic_add_u64(own + 16, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) & 1;
            break;
        case ATOM_THEN_FENCE: {
            *(volatile uint64_t *)own = i;
            uint64_t old = weft_dev_atomic_add_u64(own + 16, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
            sum += old & 1;
            break;
        }
        case ATOM_BESIDE_FENCE: {
            *(volatile uint64_t *)own = i;
            weft_dev_fence(WEFT_ORDER_ACQ_REL, WEFT_SCOPE_SYS);
            sum += weft_dev_atomic_add_u64(own + 16, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) & 1;
            break;
        }
        case LOAD_OWN:
            sum += weft_dev_load_u64(own, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU) & 1;
            break;
        case LOAD_OWN_ACQUIRE:
            sum += weft_dev_load_u64(own, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) & 1;
            break;
        case LOAD_HOST:
            sum += look(host) & 1;
            break;
        case LOAD_HOST_ACQUIRE:
            sum += weft_dev_load_u64(host, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) & 1;
            break;
        case LOAD_HOST_PAIR: {
            uint64_t a = look(host), b = look(host + 16);
            sum += a + b & 1;
            break;
        }
        default:
            stack[i % 8] = i;
            if (step == STACK_BEHIND_ACQUIRE)
                sum += weft_dev_load_u64(own, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_GPU) & 1;
            sum += stack[(i + (sum >> 60)) % 8];
        }
        if (sum == ~(uint64_t)0) /* waits for the value */
            cycles++;
        cycles += (uint64_t)(clock64() - begun);
    }
    out->cycles[0] = cycles;
    out->late = sum;
}

/* ---------------------------------------------------------------------------------- the host */

static struct weft_dev_ring ring, *table;
static uint64_t *words, *results, *released, *own;
static volatile struct out *out;
static uint64_t *source;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool arrived(uint64_t ticket, int n)
{
    uint64_t phase = weft_dev_ring_phase(ticket, SLOT_BITS);
    const uint64_t *at = words + (ticket & (SLOTS - 1)) * WEFT_DEV_RING_WORDS;
    for (int i = 0; i < n; i++)
        if (__atomic_load_n(at + i, __ATOMIC_ACQUIRE) >> WEFT_DEV_RING_SHIFT != phase)
            return false;
    return true;
}

/* Answers `rounds` requests; returns false if they do not arrive. */
static bool answer(int n)
{
    uint64_t last = now_ns();
    for (uint64_t ticket = 0, looks = 0; ticket < ROUNDS; looks++) {
        if (arrived(ticket, n)) {
            uint64_t *at = words + (ticket & (SLOTS - 1)) * WEFT_DEV_RING_WORDS;
            uint64_t number = (uint64_t)weft_dev_ring_number(ticket, SLOT_BITS) << 32;
            uint64_t place = ticket & (SLOTS - 1);
            if ((at[0] >> 16 & 0xff) == WEFT_DEV_RING_FETCHES) {
                __atomic_store_n(results + 2 * place, number, __ATOMIC_RELEASE);
                __atomic_store_n(results + 2 * place + 1, number, __ATOMIC_RELEASE);
            }
            __atomic_store_n(released, ticket + 1, __ATOMIC_RELEASE);
            ticket++;
            last = 0;
        } else if (looks % 4096 == 0) {
            uint64_t now = now_ns();
            if (!last)
                last = now;
            else if (now - last > 2000000000u)
                return false;
        }
    }
    return true;
}

static void clear(void)
{
    CHECK(cudaDeviceSynchronize());
    memset(words, 0, SLOTS * 64);
    memset(results, 0, SLOTS * 16);
    *released = 0;
    CHECK(cudaMemset(own, 0, (64 + SLOTS) * 8));
    CHECK(cudaDeviceSynchronize());
}

struct row {
    double median, least, us[STAMPS];
    bool good;
};

template <typename LAUNCH> static struct row measure(int n, int mhz, bool stamped, LAUNCH launch)
{
    struct row row = {0, 0, {0}, true};
    std::vector<double> ns;
    for (int i = -1; i < REPEATS && row.good; i++) {
        clear();
        launch();
        CHECK(cudaGetLastError());
        row.good = answer(n);
        CHECK(cudaDeviceSynchronize());
        row.good &= !out->late;
        if (i < 0)
            continue;
        ns.push_back((double)(out->end - out->begin) / ROUNDS);
        for (int k = 0; k < STAMPS && stamped; k++)
            row.us[k] += (double)out->cycles[k] / ROUNDS / REPEATS / mhz;
    }
    std::sort(ns.begin(), ns.end());
    if (row.good) {
        row.median = ns[ns.size() / 2] / 1e3;
        row.least = ns[0] / 1e3;
    }
    return row;
}

template <int POINTERS, int TICKET, int SOURCE, int FENCE, int WORDS, int POLL>
static void variant(const char *name, int mhz)
{
    struct row plain = measure(WORDS, mhz, false, [] {
        trips<false, POINTERS, TICKET, SOURCE, FENCE, WORDS, POLL>
            <<<1, 1>>>(ring, table, source, ROUNDS, (struct out *)out);
    });
    struct row stamped = measure(WORDS, mhz, true, [] {
        trips<true, POINTERS, TICKET, SOURCE, FENCE, WORDS, POLL>
            <<<1, 1>>>(ring, table, source, ROUNDS, (struct out *)out);
    });
    if (!plain.good || !stamped.good)
        printf("%-64s came to no end\n", name);
    else
        printf("%-64s %6.2f %6.2f   %6.2f %6.2f %6.2f %6.2f\n", name, plain.median, plain.least,
               stamped.us[0], stamped.us[1], stamped.us[2], stamped.us[3]);
    fflush(stdout);
}

static void of_tree(const char *name, int local, uint64_t bytes)
{
    struct row row = measure(
        8, 1, false, [=] { trips_of_tree<<<1, 1>>>(local, bytes, ROUNDS, (struct out *)out); });
    printf("%-64s %6.2f %6.2f%s\n", name, row.median, row.least, row.good ? "" : " (no end)");
    fflush(stdout);
}

static void *pinned(size_t bytes)
{
    void *address;
    CHECK(cudaHostAlloc(&address, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    memset(address, 0, bytes);
    return address;
}

static void set_up(void)
{
    static struct weft_dev state;
    words = (uint64_t *)pinned(SLOTS * 64);
    results = (uint64_t *)pinned(SLOTS * 16);
    released = (uint64_t *)pinned(4096);
    out = (struct out *)pinned(sizeof *out);
    CHECK(cudaMalloc(&own, (64 + SLOTS) * 8));
    CHECK(cudaMalloc(&source, 4096));
    CHECK(cudaMalloc(&table, sizeof *table));
    ring.slots = SLOTS;
    ring.slot_bits = SLOT_BITS;
    ring.words = words;
    ring.results = results;
    ring.released = released;
    ring.head = own;
    ring.reading = own + 64;
    ring.bounces = SLOTS;
    ring.rings = 1;
    ring.step = 1;
    CHECK(cudaMemcpy(table, &ring, sizeof ring, cudaMemcpyHostToDevice));
    state.n_pes = 1;
    state.ring = ring;
    state.wait_limit_ns = 20 * 1000 * 1000;
    CHECK(cudaMemcpyToSymbol(weft_dev_state, &state, sizeof state));
}

int main(int n, char **arguments)
{
    int khz = 0;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (n > 1) {
        CPU_SET(atoi(arguments[1]), &cpus);
        sched_setaffinity(0, sizeof cpus, &cpus);
    }
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    int mhz = khz / 1000;
    set_up();

    printf("us of a trip (median, least of %d), and of its steps as the device sees them (at %d "
           "MHz)\n",
           REPEATS, mhz);
    printf("%-64s %6s %6s   %6s %6s %6s %6s\n", "", "median", "least", "ticket", "fence", "stores",
           "wait");
    of_tree("as the headers have it: an empty request, which waits", 1, 0);
    of_tree("as the headers have it: the same with bytes to make visible", 1, 8);
    of_tree("as the headers have it: a value from before", 0, 8);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 1, RELAXED>("flag of 8 bytes, relaxed", mhz);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 1, ACQUIRE>("flag of 8 bytes, acquire", mhz);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 1, FENCED>("flag of 8 bytes, relaxed then fence", mhz);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 1, TWO>("flag of 8 bytes, two looks apart", mhz);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 1, FOUR>("flag of 8 bytes, four looks apart", mhz);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 2, ACQUIRE>("16 bytes, acquire", mhz);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 4, ACQUIRE>("32 bytes, acquire", mhz);
    variant<CONSTANT, COUNTED, CLEAN, NONE, 8, ACQUIRE>("64 bytes, acquire", mhz);
    variant<CONSTANT, ATOMIC, CLEAN, NONE, 8, ACQUIRE>("64 bytes, atomic, acquire", mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 8, ACQUIRE>("64 bytes, atomic and credits, acquire", mhz);
    variant<CONSTANT, MISER, CLEAN, NONE, 8, ACQUIRE>(
        "the same, each round asks for its one credit", mhz);
    variant<CONSTANT, KNOWN_FIRST, CLEAN, NONE, 8, ACQUIRE>("64 bytes, credits before the atomic",
                                                            mhz);
    variant<CONSTANT, KNOWN_GLOBAL, CLEAN, NONE, 8, ACQUIRE>(
        "64 bytes, credits before the atomic of global memory", mhz);
    variant<TABLE, KNOWN_FIRST, CLEAN, NONE, 8, ACQUIRE>("credits before the atomic, from a table",
                                                         mhz);
    variant<TABLE, KNOWN, CLEAN, NONE, 8, ACQUIRE>("64 bytes, atomic and credits, from a table",
                                                   mhz);
    variant<TABLE, KNOWN, CLEAN, BEFORE, 8, ACQUIRE>("the same, fence before the ticket", mhz);
    variant<TABLE, KNOWN, DIRTY, BEFORE, 8, ACQUIRE>("the same, behind a store", mhz);
    variant<CONSTANT, KNOWN, CLEAN, BEFORE, 8, ACQUIRE>("constant, fence before the ticket", mhz);
    variant<CONSTANT, KNOWN, CLEAN, AFTER, 8, ACQUIRE>("constant, fence after the ticket", mhz);
    variant<CONSTANT, KNOWN, DIRTY, BEFORE, 8, ACQUIRE>("store, fence before the ticket", mhz);
    variant<CONSTANT, KNOWN, DIRTY, AFTER, 8, ACQUIRE>("store, fence after the ticket", mhz);
    variant<CONSTANT, KNOWN, DIRTY, RELEASE, 8, ACQUIRE>("store, release on the last word", mhz);
    variant<CONSTANT, KNOWN, DIRTY, GPU, 8, ACQUIRE>("store, fence of the gpu's scope (too weak)",
                                                     mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 8, RELAXED>("64 bytes, credits, relaxed (too weak)", mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 8, FENCED>("64 bytes, credits, relaxed then fence", mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 8, TWO>("64 bytes, credits, two looks (too weak)", mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 8, FOUR>("64 bytes, credits, four looks (too weak)", mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 8, TWO_FENCED>("64 bytes, credits, two looks, fence",
                                                         mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 8, TWO_ACQUIRE>(
        "64 bytes, credits, two looks, acquire of own memory", mhz);
    variant<CONSTANT, KNOWN, CLEAN, NONE, 4, TWO_FENCED>("32 bytes, credits, two looks, fence",
                                                         mhz);
    variant<CONSTANT, KNOWN, DIRTY, AFTER, 8, TWO_FENCED>(
        "store, fence after the ticket, two looks, fence", mhz);

    printf("\nus of single steps\n");
    for (int step = 0; step < STEPS; step++) {
        CHECK(cudaDeviceSynchronize());
        steps<<<1, 1>>>(step, own, words, ROUNDS, (struct out *)out);
        CHECK(cudaDeviceSynchronize());
        printf("%-64s %6.3f\n", step_names[step], (double)out->cycles[0] / ROUNDS / mhz);
    }
    return 0;
}

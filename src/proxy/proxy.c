/* SPDX-License-Identifier: Apache-2.0 */
/* See proxy.h. The thread polls one descriptor of the ring at a time. It reports a completion
 * immediately where device code waits for it, otherwise after a batch. */
#include "proxy/proxy.h"

#include "base/clock.h"
#include "base/cpus.h"
#include "base/status.h"
#include "base/thread.h"
#include "gpu/map/wc.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 64, /* descriptors after which the counter is published in any case */
    SLEEP_AFTER_NS = 2 * 1000 * 1000, /* idle time after which the thread sleeps */
    POLLING_SLEEP_NS = 50 * 1000,     /* sleep of the thread while a path needs polling */
    AHEAD = 4,                        /* descriptors that are prefetched while one is performed */
    BOUNCES = 1024,                   /* largest number of bounce buffers of a ring */
};

/* -------------------------------------------------------------------------------- memory layout */

/* Distance of a ring's tickets: the number of rings, rounded up to a power of two. */
static uint32_t step_of(uint32_t rings)
{
    uint32_t step = 1;
    while (step < rings)
        step *= 2;
    return step;
}

/* Number of slots of all rings. */
static size_t slots_of(uint32_t rings, uint32_t slot_bits)
{
    return (size_t)step_of(rings) << slot_bits;
}

static size_t bounces_of(uint32_t rings, uint32_t slot_bits)
{
    size_t slots = (size_t)1 << slot_bits;
    return (slots < BOUNCES ? slots : BOUNCES) * step_of(rings);
}

size_t proxy_host_bytes(uint32_t rings, uint32_t slot_bits)
{
    size_t words = slots_of(rings, slot_bits) * (WEFT_DEV_RING_WORDS + 2);
    return (words + (size_t)rings * WEFT_DEV_RING_APART) * sizeof(uint64_t) +
           bounces_of(rings, slot_bits) * WEFT_DEV_BOUNCE_BYTES;
}

size_t proxy_near_bytes(uint32_t rings, uint32_t slot_bits)
{
    return ((size_t)rings * WEFT_DEV_RING_APART + 2 * slots_of(rings, slot_bits)) *
           sizeof(uint64_t);
}

size_t proxy_device_bytes(uint32_t rings, uint32_t slot_bits)
{
    return ((size_t)rings * WEFT_DEV_RING_APART + slots_of(rings, slot_bits)) * sizeof(uint64_t);
}

size_t proxy_device_begin(uint32_t rings, uint64_t *own)
{
    size_t words = (size_t)rings * WEFT_DEV_RING_APART;
    memset(own, 0, words * sizeof *own);
    for (uint32_t r = 0; r < rings; r++, own += WEFT_DEV_RING_APART)
        own[0] = own[WEFT_DEV_RING_KNOWN] = own[WEFT_DEV_RING_DONE] = own[WEFT_DEV_RING_FENCED] =
            own[WEFT_DEV_RING_QUIETED] = r;
    return words * sizeof *own;
}

/* all: a proxy with the addresses of ring 0. */
static void init_ring(struct proxy *proxy, uint32_t number, const struct proxy *all)
{
    uint64_t *counts = (uint64_t *)(void *)all->released + (size_t)number * WEFT_DEV_RING_APART;
    *proxy = *all;
    proxy->number = number;
    proxy->released = (_Atomic uint64_t *)counts;
    proxy->completed = (_Atomic uint64_t *)(counts + WEFT_DEV_RING_COMPLETED);
    atomic_init(proxy->released, number);
    atomic_init(proxy->completed, number);
    if (all->near_counts) {
        proxy->near_counts = all->near_counts + (size_t)number * WEFT_DEV_RING_APART;
        proxy->near_counts[0] = proxy->near_counts[WEFT_DEV_RING_COMPLETED] = number;
        wc_flush(proxy->near_counts);
    }
    proxy->near_released = number;
    atomic_init(&proxy->taken, number);
    atomic_init(&proxy->wanted, number);
}

/* Makes device code poll the device memory only. */
static void init_near(struct proxy *all, uint32_t rings, const struct proxy_near *near,
                      struct weft_dev_ring *ring)
{
    size_t counts = (size_t)rings * WEFT_DEV_RING_APART;
    all->near_counts = near->mapped;
    all->near_results = all->near_counts + counts;
    ring->released = (uint64_t *)(uintptr_t)near->device;
    ring->results = (uint64_t *)(uintptr_t)near->device + counts;
}

void proxy_lay_out(struct proxy *proxies, uint32_t rings, uint32_t slot_bits, void *host,
                   uint64_t host_as_seen, uint64_t device, const struct proxy_near *near,
                   struct weft_dev_ring *ring)
{
    uint32_t slots = (uint32_t)slots_of(rings, slot_bits);
    uint64_t shift = host_as_seen - (uintptr_t)host;
    struct proxy all = {.slots = slots, .step = step_of(rings)};
    all.slot_bits = (uint32_t)__builtin_ctz(slots);
    all.bounces = (uint32_t)bounces_of(rings, slot_bits);
    all.words = host;
    all.bounce = (char *)(all.words + (size_t)slots * WEFT_DEV_RING_WORDS);
    all.results = (uint64_t *)(void *)(all.bounce + (size_t)all.bounces * WEFT_DEV_BOUNCE_BYTES);
    all.released = (_Atomic uint64_t *)(all.results + 2 * (size_t)slots);
#define SEEN(p) ((void *)((uintptr_t)(p) + shift))
    *ring = (struct weft_dev_ring){
        .slots = slots,
        .slot_bits = all.slot_bits,
        .words = SEEN(all.words),
        .results = SEEN(all.results),
        .released = SEEN(all.released),
        .head = (uint64_t *)(uintptr_t)device,
        .reading = (uint64_t *)(uintptr_t)device + (size_t)rings * WEFT_DEV_RING_APART,
        .bounce = SEEN(all.bounce),
        .bounces = all.bounces,
        .rings = rings,
        .step = all.step,
    };
#undef SEEN
    if (near)
        init_near(&all, rings, near, ring);
    for (uint32_t r = 0; r < rings; r++)
        init_ring(&proxies[r], r, &all);
}

void proxy_trace_to(struct proxy *proxy, struct proxy_times *times, uint64_t n)
{
    proxy->times_n = n;
    atomic_store_explicit(&proxy->times, times, memory_order_release);
}

/* Entry for the times of a ticket; NULL: no measurement. */
static inline struct proxy_times *times_of(struct proxy *proxy, uint64_t ticket)
{
    struct proxy_times *times = atomic_load_explicit(&proxy->times, memory_order_acquire);
    return times ? times + (ticket & (proxy->times_n - 1)) : NULL;
}

#define NOTE(times, what)                                                                          \
    do {                                                                                           \
        if (times)                                                                                 \
            (times)->what = clock_now_ns();                                                        \
    } while (0)

/* --------------------------------------------------------------------------- one descriptor */

static const uint64_t *proxy_place(const uint64_t *words, uint64_t ticket, uint32_t slot_bits)
{
    return words + (ticket & (((uint64_t)1 << slot_bits) - 1)) * WEFT_DEV_RING_WORDS;
}

/* Acquire: pairs with the device's fence before the words, so that the source data that they name
 * is visible. False: not all words are of this ticket yet; usually not even the first. */
static inline bool arrived(const uint64_t *words, uint64_t phase, uint64_t *payload)
{
    uint64_t wrong = 0;
    payload[0] = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE) ^ phase << WEFT_DEV_RING_SHIFT;
    if (payload[0] >> WEFT_DEV_RING_SHIFT)
        return false;
    for (int i = 1; i < WEFT_DEV_RING_WORDS; i++) {
        payload[i] = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE) ^ phase << WEFT_DEV_RING_SHIFT;
        wrong |= payload[i];
    }
    return wrong >> WEFT_DEV_RING_SHIFT == 0;
}

static inline bool read_place(const uint64_t *words, uint64_t ticket, uint32_t slot_bits,
                              struct proxy_request *request, unsigned *flags,
                              struct proxy_times *times)
{
    uint64_t w[WEFT_DEV_RING_WORDS];
    const uint64_t *at = proxy_place(words, ticket, slot_bits);
    if (!arrived(at, weft_dev_ring_phase(ticket, slot_bits), w))
        return false;
    NOTE(times, seen);
    *flags = (unsigned)(w[0] >> 16 & 0xff);
    *request = (struct proxy_request){
        .operation = (int)(w[0] & 0xff),
        .what = (int)(w[0] >> 8 & 0xff),
        .pe = (int)(uint32_t)(w[0] >> 24),
        .nbi = !(*flags & WEFT_DEV_RING_WAITED),
        .symmetric = w[1],
        .local = (void *)(uintptr_t)w[2],
        .bytes = w[3],
    };
    if (request->operation == WEFT_DEV_OP_IPUT || request->operation == WEFT_DEV_OP_IGET) {
        request->n = w[4];
        request->remote_stride = (int64_t)w[5];
        request->local_stride = (int64_t)w[6];
    } else {
        request->signal = w[4];
        request->value = w[5] | w[7] << 56;
        request->compare = w[6] | (w[7] >> 8 & 0xff) << 56;
    }
    return true;
}

bool proxy_read(const uint64_t *words, uint64_t ticket, uint32_t slot_bits,
                struct proxy_request *request, unsigned *flags)
{
    return read_place(words, ticket, slot_bits, request, flags, NULL);
}

bool proxy_completed(struct proxy *proxy, uint64_t end)
{
    /* Acquire: pairs with publish_count(); the effects of the requests are visible. */
    return atomic_load_explicit(proxy->completed, memory_order_acquire) >= end;
}

uint64_t proxy_between(const struct proxy *proxy, uint64_t from, uint64_t to)
{
    return to > from ? (to - from) / proxy->step : 0;
}

void proxy_request_completion(struct proxy *proxy, uint64_t end)
{
    uint64_t before = atomic_load_explicit(&proxy->wanted, memory_order_relaxed);
    /* Release: pairs with complete_for_host(), whose quiet covers what this thread has seen. */
    while (before < end &&
           !atomic_compare_exchange_weak_explicit(&proxy->wanted, &before, end,
                                                  memory_order_release, memory_order_relaxed))
        ;
    proxy_wake(proxy);
}

/* Sequentially consistent, like sleep_until_bell(): either this thread sees `sleeping`, or that one
 * sees the new bell value. */
void proxy_wake(struct proxy *proxy)
{
    atomic_fetch_add(&proxy->bell, 1);
    if (atomic_load(&proxy->sleeping))
        syscall(SYS_futex, &proxy->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ------------------------------------------------------------------------------- the thread */

/* Writes the result as two halves with the sequence number: the device waits until it sees both. */
static void store_result(struct proxy *proxy, uint64_t ticket, uint64_t value)
{
    uint64_t number = (uint64_t)weft_dev_ring_number(ticket, proxy->slot_bits) << 32;
    uint64_t *results = proxy->near_results ? proxy->near_results : proxy->results;
    uint64_t *at = results + 2 * (ticket & (proxy->slots - 1));
    if (proxy->near_results)
        wc_fence(); /* orders earlier stores before the result */
    __atomic_store_n(at, (value & 0xffffffffu) | number, __ATOMIC_RELEASE);
    __atomic_store_n(at + 1, value >> 32 | number, __ATOMIC_RELEASE);
    if (proxy->near_results)
        wc_fence(); /* flushes the write-combining buffer */
}

/* Address at which the threads of a run have stored their values (weft_dev_proxy_run()). */
static void *bounce_buffer(const struct proxy *proxy, uint64_t ticket, uintptr_t symmetric)
{
    return proxy->bounce + (ticket & (proxy->bounces - 1)) * WEFT_DEV_BOUNCE_BYTES +
           symmetric % WEFT_DEV_BOUNCE_LINE;
}

static void run_request(struct proxy *proxy, struct proxy_request *request, uint64_t ticket,
                        unsigned flags)
{
    struct proxy_owner *owner = &proxy->owner;
    if (flags & WEFT_DEV_RING_BOUNCED)
        request->local = bounce_buffer(proxy, ticket, request->symmetric);
    uint64_t value = owner->run(owner->self, request);
    if (flags & WEFT_DEV_RING_FETCHES)
        store_result(proxy, ticket, value);
}

/* Release: a reader of the counter may reuse the slots and read the results. For a counter in
 * device memory the fences provide the same order, and the second one flushes the write-combining
 * buffer. */
static void publish_count(struct proxy *proxy, _Atomic uint64_t *count, uint64_t value)
{
    atomic_store_explicit(count, value, memory_order_release);
    if (!proxy->near_counts || (count == proxy->released && value == proxy->near_released))
        return;
    wc_fence();
    __atomic_store_n(proxy->near_counts + (count - proxy->released), value, __ATOMIC_RELEASE);
    wc_fence();
    if (count == proxy->released)
        proxy->near_released = value;
}

/* Completes the tickets below `end`. */
static void complete_below(struct proxy *proxy, uint64_t end)
{
    proxy->owner.quiet(proxy->owner.self);
    publish_count(proxy, proxy->completed, end);
}

static void do_ticket(struct proxy *proxy, struct proxy_request *request, uint64_t ticket,
                      unsigned flags, struct proxy_times *times)
{
    NOTE(times, handed);
    if (request->operation == WEFT_DEV_OP_FENCE)
        proxy->owner.fence(proxy->owner.self);
    else if (request->operation == WEFT_DEV_OP_QUIET)
        proxy->owner.quiet(proxy->owner.self);
    else
        run_request(proxy, request, ticket, flags);
    NOTE(times, returned);
    if (request->operation == WEFT_DEV_OP_QUIET)
        publish_count(proxy, proxy->completed, ticket + proxy->step);
    atomic_store_explicit(&proxy->taken, ticket + proxy->step, memory_order_release);
    if (flags & WEFT_DEV_RING_WAITED)
        publish_count(proxy, proxy->released, ticket + proxy->step);
    NOTE(times, counted);
}

/* Performs the requests that have arrived, at most BATCH. True: there was at least one. */
static bool drain(struct proxy *proxy)
{
    uint64_t taken = atomic_load_explicit(&proxy->taken, memory_order_relaxed), first = taken;
    struct proxy_times *times = times_of(proxy, taken);
    struct proxy_request request;
    unsigned flags;
    while (taken - first < BATCH * proxy->step &&
           read_place(proxy->words, taken, proxy->slot_bits, &request, &flags, times)) {
        NOTE(times, decoded);
        __builtin_prefetch(
            proxy_place(proxy->words, taken + AHEAD * proxy->step, proxy->slot_bits));
        do_ticket(proxy, &request, taken, flags, times);
        taken += proxy->step;
        times = times_of(proxy, taken);
    }
    if (taken != first)
        publish_count(proxy, proxy->released, taken);
    return taken != first;
}

/* Completes requests for the host, where device code has not requested it. */
static bool complete_for_host(struct proxy *proxy)
{
    uint64_t taken = atomic_load_explicit(&proxy->taken, memory_order_relaxed);
    uint64_t wanted = atomic_load_explicit(&proxy->wanted, memory_order_acquire);
    if (wanted > taken || proxy_completed(proxy, wanted))
        return false;
    complete_below(proxy, taken);
    return true;
}

/* How long the ring has been empty. */
struct idle {
    uint32_t polls, bell;
    uint64_t since_ns;
};

static bool has_work(struct proxy *proxy)
{
    uint64_t taken = atomic_load_explicit(&proxy->taken, memory_order_relaxed);
    return atomic_load_explicit(&proxy->stop, memory_order_acquire) ||
           !proxy_completed(proxy, atomic_load_explicit(&proxy->wanted, memory_order_acquire)) ||
           proxy_written_end(proxy) != taken;
}

static void sleep_until_bell(struct proxy *proxy, uint64_t ns)
{
    atomic_store(&proxy->sleeping, 1);
    uint32_t bell = atomic_load(&proxy->bell);
    if (!has_work(proxy))
        syscall(SYS_futex, &proxy->bell, FUTEX_WAIT_PRIVATE, bell,
                &(struct timespec){.tv_nsec = (long)ns}, NULL, 0);
    atomic_store(&proxy->sleeping, 0);
}

static void wait_for_work(struct proxy *proxy, struct idle *idle)
{
    bool busy = proxy->owner.progress(proxy->owner.self);
    uint32_t bell = atomic_load_explicit(&proxy->bell, memory_order_relaxed);
    if (bell != idle->bell) {
        *idle = (struct idle){.bell = bell};
    }
    if (idle->polls < proxy->spin) {
        idle->polls++;
        return;
    }
    uint64_t now = clock_now_ns();
    if (!idle->since_ns)
        idle->since_ns = now;
    bool shared = cpu_yield();
    uint64_t ns = cpu_idle_sleep_ns(now - idle->since_ns, SLEEP_AFTER_NS, shared);
    if (ns)
        sleep_until_bell(proxy, busy ? POLLING_SLEEP_NS : ns);
}

static void *serve(void *argument)
{
    struct proxy *proxy = argument;
    struct idle idle = {0};
    while (!atomic_load_explicit(&proxy->stop, memory_order_acquire)) {
        bool any = drain(proxy);
        any |= complete_for_host(proxy);
        if (any)
            idle = (struct idle){.bell = idle.bell};
        else
            wait_for_work(proxy, &idle);
    }
    return NULL;
}

weft_status proxy_start(struct proxy *proxy, const struct proxy_owner *owner, uint32_t spin)
{
    proxy->owner = *owner;
    proxy->spin = spin;
    int error = thread_start(&proxy->thread, serve, proxy);
    proxy->running = error == 0;
    if (!error)
        /* at most 15 characters; shown by top -H */
        pthread_setname_np(proxy->thread, "weft-proxy");
    return error ? base_fail(WEFT_ERR_SYSTEM, "no thread for the proxy of device code: %s",
                             strerror(error))
                 : WEFT_OK;
}

void proxy_stop(struct proxy *proxy)
{
    if (!proxy->running)
        return;
    atomic_store_explicit(&proxy->stop, true, memory_order_release);
    proxy_wake(proxy);
    pthread_join(proxy->thread, NULL);
    proxy->running = false;
}

uint64_t proxy_written_end(struct proxy *proxy)
{
    uint64_t ticket = atomic_load_explicit(&proxy->taken, memory_order_acquire);
    for (uint32_t i = 0; i < proxy->slots; i += proxy->step, ticket += proxy->step) {
        const uint64_t *at = proxy_place(proxy->words, ticket, proxy->slot_bits);
        uint64_t first = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (first >> WEFT_DEV_RING_SHIFT != weft_dev_ring_phase(ticket, proxy->slot_bits))
            break;
    }
    return ticket;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The host's end of a ring by which device code gives operations to it (weft/device/proxy.h): one
 * thread that reads descriptors in their order, has each carried out by its owner, and tells the
 * device what is done. Knows the ring, and nothing of segments, peers and paths. Several rings of a
 * device lie in one memory and share the numbers of tickets (struct weft_dev_ring); their threads
 * share nothing. */
#ifndef WEFT_PROXY_PROXY_H
#define WEFT_PROXY_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>
#include <weft/device/state.h>

/* One operation that device code gave, as struct weft_dev_request has it. */
struct proxy_request {
    int operation; /* enum weft_dev_operation */
    int pe;
    int what; /* enum weft_dev_atomic or weft_signal_op */
    bool nbi; /* nobody waits for it but by quiet */
    uintptr_t symmetric;
    /* Of P a run of values, of which `bytes` is the size in all. NULL: P has `value`, PUT_SIGNAL
     * its data in `compare`. */
    void *local;
    uint64_t bytes, value, compare;
    uintptr_t signal;
    uint64_t n;
    int64_t remote_stride, local_stride;
};

/* What the owner does; called by the thread, one at a time. Errors are the owner's to tell: the
 * thread goes on, so that no kernel waits in vain. */
struct proxy_owner {
    void *self;
    /* The value from before, of operations that fetch. */
    uint64_t (*carry)(void *self, const struct proxy_request *request);
    void (*fence)(void *self);
    void (*quiet)(void *self);
    /* Nothing is to be done just now. False: and nothing is under way that needs this call
     * often. */
    bool (*progress)(void *self);
};

/* When the thread did what with a request, for who measures: by clock_now_ns(). */
struct proxy_times {
    uint64_t seen, decoded, handed, returned, counted;
};

struct proxy {
    struct proxy_owner owner;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
    uint32_t spin;   /* looks at an empty ring before the CPU is given away */
    uint32_t number; /* of the ring, whose first ticket it is; the next ones are `step` apart */
    uint64_t step;
    /* Host addresses of what the descriptor of all rings names; the counts are written here
     * alone. */
    uint32_t slots, slot_bits, bounces;
    uint64_t *words, *results;
    char *bounce;
    _Atomic uint64_t *released, *completed;
    /* The counts and results that device code looks at, where they are in the device's own memory;
     * NULL: those above. */
    uint64_t *near_counts, *near_results;
    uint64_t near_released; /* as it was told last */
    /* For `weft attach` and settling: its tickets below this are carried out. */
    _Atomic uint64_t taken;
    _Atomic uint64_t wanted;           /* the host waits until those below this are complete */
    struct proxy_times *_Atomic times; /* NULL: nobody measures; of ticket t at t % times_n */
    uint64_t times_n;
    /* Rung by who has something for a thread that naps. */
    _Atomic uint32_t bell;
    _Atomic uint32_t napping;
};

/* Bytes of the part of the rings that is in host memory: words, values of runs, results, the
 * counts. */
size_t proxy_host_bytes(uint32_t rings, uint32_t slot_bits);

/* Memory of the device that the host has mapped: counts and results are written there too, so that
 * those who wait look at memory of their own. Zeroed. */
struct proxy_near {
    void *mapped;
    uint64_t device; /* its address there */
};
size_t proxy_near_bytes(uint32_t rings, uint32_t slot_bits);

/* Bytes of the device's own part: head, known, fenced, quieted, reading. */
size_t proxy_device_bytes(uint32_t rings, uint32_t slot_bits);

/* What its first words are to be, for `own` of WEFT_DEV_RINGS_MOST * WEFT_DEV_RING_APART; all
 * behind them is zero. How many bytes of it. */
size_t proxy_device_begin(uint32_t rings, uint64_t *own);

/* Lays `rings` rings of 1 << slot_bits descriptors each out, one for each of `proxies`: `host` and
 * `device` are memory of those sizes, host_as_seen the address by which device code knows `host`.
 * `host` is zeroed, `device` has what proxy_device_begin() says. near NULL: there is none. */
void proxy_lay_out(struct proxy *proxies, uint32_t rings, uint32_t slot_bits, void *host,
                   uint64_t host_as_seen, uint64_t device, const struct proxy_near *near,
                   struct weft_dev_ring *ring);

/* Starts the thread. While the ring is empty it looks `spin` times, then gives its CPU away between
 * looks, then sleeps for short times that grow with the time for which it has found nothing.
 * WEFT_ERR_SYSTEM: the system has none left. */
weft_status proxy_start(struct proxy *proxy, const struct proxy_owner *owner, uint32_t spin);

/* Ends the thread. What is in the ring is left there: settle first. */
void proxy_stop(struct proxy *proxy);

/* Notes when what is done with ticket t, in times[t % n], n a power of two; NULL: no longer. The
 * ring is empty. */
void proxy_trace_to(struct proxy *proxy, struct proxy_times *times, uint64_t n);

/* Something may come: a thread that sleeps looks at once. */
void proxy_wake(struct proxy *proxy);

/* Below which ticket device code has written all of this ring: what a kernel gave that has ended is
 * among them. proxy_want() and proxy_completed() take such a number. */
uint64_t proxy_given(struct proxy *proxy);

/* How many requests there are from the one count to the other. */
uint64_t proxy_between(const struct proxy *proxy, uint64_t from, uint64_t to);

/* Asks the thread to complete the tickets below `end`, which nobody on the device need have asked
 * for. */
void proxy_want(struct proxy *proxy, uint64_t end);

/* Whether the tickets below `end` are complete at every PE. */
bool proxy_completed(struct proxy *proxy, uint64_t end);

/* One descriptor of all rings' `words`; false when it has not arrived whole. For the thread, and
 * for tests. */
bool proxy_read(const uint64_t *words, uint64_t ticket, uint32_t slot_bits,
                struct proxy_request *request, unsigned *flags);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of a ring through which device code passes operations to the host
 * (weft/device/proxy.h). One thread reads the descriptors in order, calls its owner to perform
 * each, and reports completions to the device. Knows the ring, and nothing of segments, peers and
 * paths. Several rings of a device share one memory and the ticket numbers (struct weft_dev_ring);
 * their threads share nothing. */
#ifndef WEFT_PROXY_PROXY_H
#define WEFT_PROXY_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>
#include <weft/device/state.h>

/* One operation from device code; see struct weft_dev_request. */
struct proxy_request {
    int operation; /* enum weft_dev_operation */
    int pe;
    int what; /* enum weft_dev_atomic or weft_signal_op */
    bool nbi; /* completes at the next quiet; device code does not wait for it otherwise */
    uintptr_t symmetric;
    /* Local buffer. For P: a run of values of `bytes` bytes in total. NULL: P has its value in
     * `value`, PUT_SIGNAL its data in `compare`. */
    void *local;
    uint64_t bytes, value, compare;
    uintptr_t signal;
    uint64_t n;
    int64_t remote_stride, local_stride;
};

/* Functions of the owner, which the thread calls one at a time. The owner reports errors; the
 * thread continues, so that no kernel waits forever. */
struct proxy_owner {
    void *self;
    /* Performs the operation. Returns the previous value for fetching operations. */
    uint64_t (*run)(void *self, const struct proxy_request *request);
    void (*fence)(void *self);
    void (*quiet)(void *self);
    /* Called while the ring is empty. False: no operation is in progress that needs this call
     * often. */
    bool (*progress)(void *self);
};

/* Times of the steps of a request, for measurements, from clock_now_ns(). */
struct proxy_times {
    uint64_t seen, decoded, handed, returned, counted;
};

struct proxy {
    struct proxy_owner owner;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
    uint32_t spin;   /* polls of an empty ring before the thread yields */
    uint32_t number; /* index of the ring and its first ticket; its tickets are `step` apart */
    uint64_t step;
    /* Host addresses of the memory that struct weft_dev_ring names. Only this thread writes the
     * counters. */
    uint32_t slots, slot_bits, bounces;
    uint64_t *words, *results;
    char *bounce;
    _Atomic uint64_t *released, *completed;
    /* Counters and results in device memory that device code polls. NULL: device code polls those
     * above. */
    uint64_t *near_counts, *near_results;
    uint64_t near_released; /* last value of `released` that was written to near_counts */
    /* Tickets of this ring below this value have been performed. */
    _Atomic uint64_t taken;
    _Atomic uint64_t wanted; /* the host waits until tickets below this value are complete */
    /* times of ticket t are at t % times_n; NULL: no measurement */
    struct proxy_times *_Atomic times;
    uint64_t times_n;
    /* Futex word: incremented to wake the thread. */
    _Atomic uint32_t bell;
    _Atomic uint32_t sleeping;
};

/* Bytes of the rings in host memory: words, bounce buffers, results, counters. */
size_t proxy_host_bytes(uint32_t rings, uint32_t slot_bits);

/* Zeroed device memory that the host has mapped. The thread also writes counters and results there,
 * so that device code polls its own memory. */
struct proxy_near {
    void *mapped;
    uint64_t device; /* its device address */
};
size_t proxy_near_bytes(uint32_t rings, uint32_t slot_bits);

/* Bytes of the part in device memory: head, known, fenced, quieted, reading. */
size_t proxy_device_bytes(uint32_t rings, uint32_t slot_bits);

/* Fills `own` (WEFT_DEV_RINGS_MOST * WEFT_DEV_RING_APART words) with the initial words of the
 * device part; the words after them are zero. Returns their number of bytes. */
size_t proxy_device_begin(uint32_t rings, uint64_t *own);

/* Initializes `rings` rings of 1 << slot_bits descriptors, one for each of `proxies`. host and
 * device: memory of the sizes above; host_as_seen: the device address of `host`. `host` is zeroed;
 * `device` contains what proxy_device_begin() returned. near NULL: not used. */
void proxy_lay_out(struct proxy *proxies, uint32_t rings, uint32_t slot_bits, void *host,
                   uint64_t host_as_seen, uint64_t device, const struct proxy_near *near,
                   struct weft_dev_ring *ring);

/* Starts the thread. While the ring is empty it polls `spin` times, then yields between polls, then
 * sleeps for short times that grow with the idle time. WEFT_ERR_SYSTEM: the system refuses a
 * thread. */
weft_status proxy_start(struct proxy *proxy, const struct proxy_owner *owner, uint32_t spin);

/* Ends the thread. Requests in the ring stay there: complete them first. */
void proxy_stop(struct proxy *proxy);

/* Records the times of ticket t in times[t % n] (n is a power of two); NULL ends it. The ring must
 * be empty. */
void proxy_trace_to(struct proxy *proxy, struct proxy_times *times, uint64_t n);

/* Wakes the thread, because requests may follow. */
void proxy_wake(struct proxy *proxy);

/* Returns the ticket below which device code has written all requests of this ring; they include
 * all of kernels that have ended. proxy_request_completion() and proxy_completed() take such a
 * value. */
uint64_t proxy_written_end(struct proxy *proxy);

/* Number of requests between two ticket values. */
uint64_t proxy_between(const struct proxy *proxy, uint64_t from, uint64_t to);

/* Requests the thread to complete the tickets below `end`, even if device code has not requested
 * it. */
void proxy_request_completion(struct proxy *proxy, uint64_t end);

/* Whether the tickets below `end` are complete at every PE. */
bool proxy_completed(struct proxy *proxy, uint64_t end);

/* Reads one descriptor. False: it has not arrived completely. For the thread, and for tests. */
bool proxy_read(const uint64_t *words, uint64_t ticket, uint32_t slot_bits,
                struct proxy_request *request, unsigned *flags);

#endif

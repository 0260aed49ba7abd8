/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that measure the proxy: they post requests to its ring whatever path the peer has. One
 * source for both targets. The job must have a proxy (WEFT_TEST_PROXY=always); without one they
 * report WEFT_ERR_UNSUPPORTED. */
#ifndef WEFT_BENCH_DEVICE_PROXY_KERNELS_H
#define WEFT_BENCH_DEVICE_PROXY_KERNELS_H

#include "kernels.h"

/* Request of every thread of the grid in each round, with word `rank` of dst and src; one quiet at
 * the end. */
enum proxied {
    PROXIED_EMPTY,      /* no operation, another PE for each block: the rings alone */
    PROXIED_TRIP,       /* no operation, and a wait until it is complete */
    PROXIED_P,          /* a p of the thread's word of src */
    PROXIED_PUT,        /* the same as a put of 8 bytes, which waits until its source is free */
    PROXIED_PUT_SIGNAL, /* the same, and a signal after all words of the grid */
    PROXIED_G,          /* a get of the peer's word of dst into src */
};
WEFT_KERNEL_DECLARE(proxied, (int, what), (uint64_t *, dst), (uint64_t *, src), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));

/* Times of one put_signal and the following quiet by the device's clock, and the tickets of
 * both. */
struct device_trace {
    uint64_t ticket, quiet;
    uint64_t called, taken, written, counted, returned;
};

/* One thread calls put_signal of 8 bytes and quiet, `rounds` times; times go to trace[round]. */
WEFT_KERNEL_DECLARE(proxy_trace, (uint64_t *, dst), (uint64_t *, src), (int, peer),
                    (uint64_t, rounds), (struct device_trace *, trace),
                    (struct device_times *, times));

#endif

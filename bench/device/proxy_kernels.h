/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that measure the proxy: they give requests to its ring whatever path the peer has. One
 * source for both targets. The job must have a proxy (WEFT_PROXY=always); without one they note
 * WEFT_ERR_UNSUPPORTED as their status. */
#ifndef WEFT_BENCH_DEVICE_PROXY_KERNELS_H
#define WEFT_BENCH_DEVICE_PROXY_KERNELS_H

#include "kernels.h"

/* What every thread of the grid asks for in each round, with word `rank` of dst and src as its own;
 * one quiet behind all. */
enum proxied {
    PROXIED_EMPTY,      /* nothing, for a PE of its own in each block: the rings alone */
    PROXIED_TRIP,       /* nothing, and waits until it has been done */
    PROXIED_P,          /* its word of src, as p */
    PROXIED_PUT,        /* the same as a put of 8 bytes, which waits until its source is free */
    PROXIED_PUT_SIGNAL, /* the same, and a signal behind all words of the grid */
    PROXIED_G,          /* the peer's word of dst comes into src */
};
WEFT_KERNEL_DECLARE(proxied, (int, what), (uint64_t *, dst), (uint64_t *, src), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));

/* Of one put_signal and the quiet behind it, by the device's clock; and the tickets of both. */
struct device_trace {
    uint64_t ticket, quiet;
    uint64_t called, taken, written, counted, returned;
};

/* One thread: put_signal of 8 bytes and quiet, `rounds` times, each noted in trace[round]. */
WEFT_KERNEL_DECLARE(proxy_trace, (uint64_t *, dst), (uint64_t *, src), (int, peer),
                    (uint64_t, rounds), (struct device_trace *, trace),
                    (struct device_times *, times));

#endif

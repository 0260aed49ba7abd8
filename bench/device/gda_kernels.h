/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that measure single requests of device code to a network adapter (path gda). One source
 * for both targets. gda_trace notes WEFT_ERR_UNSUPPORTED where the peer has another carrier. */
#ifndef WEFT_BENCH_DEVICE_GDA_KERNELS_H
#define WEFT_BENCH_DEVICE_GDA_KERNELS_H

#include "kernels.h"

/* One thread: word 0 of src to the peer's dst and quiet, `rounds` times. By any path. */
WEFT_KERNEL_DECLARE(put_quiet, (uint64_t *, dst), (uint64_t *, src), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));

/* Of one put, in ns: when each of its steps ended, by the device's clock, but `stamp`, which is
 * what the adapter has written into the completion as its time. */
struct gda_trace {
    uint64_t called, reserved, waited, written, recorded, rung, passed, stamp, seen;
};

/* One thread: a put of 8 bytes and the wait for its completion, `rounds` times, noted in
 * trace[round]. */
WEFT_KERNEL_DECLARE(gda_trace, (uint64_t *, dst), (int, peer), (uint64_t, rounds),
                    (struct gda_trace *, trace), (struct device_times *, times));

#endif

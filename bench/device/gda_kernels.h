/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that measure single requests of device code to a NIC (path gda). One source for both
 * targets. gda_trace reports WEFT_ERR_UNSUPPORTED if the peer is reached by another transport. */
#ifndef WEFT_BENCH_DEVICE_GDA_KERNELS_H
#define WEFT_BENCH_DEVICE_GDA_KERNELS_H

#include "kernels.h"

/* One thread puts word 0 of src to the peer's dst and calls quiet, `rounds` times, by any path. */
WEFT_KERNEL_DECLARE(put_quiet, (uint64_t *, dst), (uint64_t *, src), (int, peer),
                    (uint64_t, rounds), (struct device_times *, times));

/* Times of one put in ns: when each step ended, by the device's clock. `stamp` is the time that the
 * NIC wrote into the completion. */
struct gda_trace {
    uint64_t called, reserved, waited, written, recorded, rung, passed, stamp, seen;
};

/* One thread puts 8 bytes and waits for the completion, `rounds` times; times go to
 * trace[round]. */
WEFT_KERNEL_DECLARE(gda_trace, (uint64_t *, dst), (int, peer), (uint64_t, rounds),
                    (struct gda_trace *, trace), (struct device_times *, times));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Time since boot in nanoseconds; for limits and for benchmarks. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_now_ns(void);

/* The same clock, up to a few milliseconds behind, at a fraction of the cost. */
uint64_t clock_coarse_ns(void);

#endif

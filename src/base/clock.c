/* SPDX-License-Identifier: Apache-2.0 */
/* See clock.h. */
#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

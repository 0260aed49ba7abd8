/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of `weft bench`, in its own file so that a test can replace it. */
#include "bench/bench.h"

#include "tool/tool.h"

uint64_t bench_now_ns(void)
{
    return clock_now_ns();
}

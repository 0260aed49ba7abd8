/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of `weft bench`, in a file of its own so that a test can put one of known times in its
 * place. */
#include "bench/bench.h"

#include "tool/tool.h"

uint64_t bench_now_ns(void)
{
    return clock_now_ns();
}

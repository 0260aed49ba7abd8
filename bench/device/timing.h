/* SPDX-License-Identifier: Apache-2.0 */
/* Timing inside kernels. Included only by the kernels' files. */
#ifndef WEFT_BENCH_DEVICE_TIMING_H
#define WEFT_BENCH_DEVICE_TIMING_H

#include "kernels.h"

#include <weft_device.h>

#define BLOCK_FIRST (weft_dev_thread_rank() == 0)

/* The first thread of a block records when the timed rounds begin. All threads of the block have
 * arrived. */
WEFT_DEVICE void begin_timing(struct device_times *times)
{
    weft_dev_sync_block();
    if (BLOCK_FIRST) {
        times[weft_dev_block_rank()].status = 0;
        times[weft_dev_block_rank()].wrong = 0;
        times[weft_dev_block_rank()].start = weft_dev_clock_ns();
    }
}

WEFT_DEVICE void end_timing(struct device_times *times, int status)
{
    weft_dev_sync_block();
    if (BLOCK_FIRST) {
        times[weft_dev_block_rank()].end = weft_dev_clock_ns();
        times[weft_dev_block_rank()].status = status;
    }
}

#endif

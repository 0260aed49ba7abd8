/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with errors that AddressSanitizer or ThreadSanitizer must report, although the lanes of a
 * block share a thread. The argument selects one. */
#include <weft/launch.h>

#include <stdio.h>
#include <string.h>

static uint32_t words[64], flag, sink;

WEFT_KERNEL(shared_overrun, (unsigned, index))
{
    WEFT_SHARED(uint32_t, tile, [32]);
    tile[weft_dev_lane() + index] = 1;
    sink = tile[0];
}

WEFT_DEVICE_NOINLINE void store(volatile uint32_t *p, unsigned index)
{
    p[index] = 1;
}

WEFT_KERNEL(stack_overrun, (unsigned, index))
{
    volatile uint32_t local[8] = {0};
    store(local, index + weft_dev_lane());
    sink = local[0];
}

/* A shuffle synchronizes lanes but does not order memory: a sync_warp is missing. */
WEFT_KERNEL(race_in_warp, (unsigned, unused))
{
    unsigned lane = weft_dev_lane();
    words[lane] = lane + unused;
    unsigned next = weft_dev_shuffle_u32(WEFT_FULL_MASK, (lane + 1) % 32, lane);
    weft_dev_atomic_add_u32(&sink, words[next], WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
}

WEFT_KERNEL(race_of_blocks, (unsigned, unused))
{
    words[weft_dev_thread_rank()] = weft_dev_block_rank() + unused;
}

/* The flag is stored without a preceding fence. */
WEFT_KERNEL(missing_fence, (unsigned, unused))
{
    if (weft_dev_block_rank() == 0) {
        words[0] = 7 + unused;
        weft_dev_store_u32(&flag, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        return;
    }
    while (!weft_dev_load_u32(&flag, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS))
        ;
    sink = words[0];
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    weft_status status = WEFT_ERR_ARGUMENT;
    if (!strcmp(fault, "shared_overrun"))
        status = WEFT_LAUNCH(shared_overrun, 1, 32, 0, NULL, 1);
    else if (!strcmp(fault, "stack_overrun"))
        status = WEFT_LAUNCH(stack_overrun, 1, 1, 0, NULL, 8);
    else if (!strcmp(fault, "race_in_warp"))
        status = WEFT_LAUNCH(race_in_warp, 1, 32, 0, NULL, 0);
    else if (!strcmp(fault, "race_of_blocks"))
        status = WEFT_LAUNCH(race_of_blocks, 2, 32, 0, NULL, 0);
    else if (!strcmp(fault, "missing_fence"))
        status = WEFT_LAUNCH(missing_fence, 2, 1, 0, NULL, 0);
    if (!status)
        status = weft_stream_synchronize(NULL);
    printf("%s: %s, nothing was reported\n", fault, weft_status_name(status));
    return 0;
}

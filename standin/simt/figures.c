/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the cost of the executor's operations on this machine. It is not a test. The figures
 * describe the stand-in and not a GPU. */
#include <weft/launch.h>
#include <weft/simt_executor.h>

#include <stdio.h>
#include <time.h>

enum { ROUNDS = 200000, LAUNCHES = 20000, BLOCKS = 20000 };

WEFT_KERNEL(yields, (unsigned, n))
{
    for (unsigned i = 0; i < n; i++) {
        weft_simt_self()->wrote = 1; /* otherwise the worker takes the lane for a waiting one */
        weft_simt_yield();
    }
}

WEFT_KERNEL(ballots, (unsigned, n))
{
    for (unsigned i = 0; i < n; i++)
        weft_dev_ballot(WEFT_FULL_MASK, (int)(i & 1));
}

WEFT_KERNEL(shuffles, (unsigned, n))
{
    for (unsigned i = 0; i < n; i++)
        weft_dev_shuffle_xor_u32(WEFT_FULL_MASK, i, 1);
}

WEFT_KERNEL(barriers, (unsigned, n))
{
    for (unsigned i = 0; i < n; i++)
        weft_dev_sync_block();
}

WEFT_KERNEL(polls, (unsigned, n))
{
    static uint64_t words[4096];
    for (unsigned i = 0; i < n; i++)
        weft_dev_load_u64(&words[i % 4096], WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

WEFT_KERNEL(nothing)
{
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double finish(double start)
{
    if (weft_simt_stream_synchronize(NULL))
        fprintf(stderr, "%s\n", weft_last_error());
    return now_ns() - start;
}

int main(void)
{
    /* The first launch starts the threads. */
    if (WEFT_LAUNCH(nothing, 1, 32, 0, NULL) || weft_target_get() != WEFT_SIMT)
        return 1;
    finish(0);

    double start = now_ns();
    (void)WEFT_LAUNCH(yields, 1, 32, 0, NULL, ROUNDS);
    double ns = finish(start);
    printf("switch between lanes            %8.1f ns  (%.1f M a second and thread)\n",
           ns / ROUNDS / 32, 32e3 * ROUNDS / ns);
    start = now_ns();
    (void)WEFT_LAUNCH(ballots, 1, 32, 0, NULL, ROUNDS);
    printf("ballot of a warp                %8.1f ns\n", finish(start) / ROUNDS);
    start = now_ns();
    (void)WEFT_LAUNCH(shuffles, 1, 32, 0, NULL, ROUNDS);
    printf("shuffle of a warp               %8.1f ns\n", finish(start) / ROUNDS);
    start = now_ns();
    (void)WEFT_LAUNCH(barriers, 1, 256, 0, NULL, ROUNDS / 10);
    printf("sync_block of 256 threads       %8.1f ns\n", finish(start) / (ROUNDS / 10));
    start = now_ns();
    (void)WEFT_LAUNCH(polls, 1, 1, 0, NULL, ROUNDS * 100);
    printf("load with order                 %8.1f ns\n", finish(start) / ROUNDS / 100);
    start = now_ns();
    for (int i = 0; i < LAUNCHES; i++)
        (void)WEFT_LAUNCH(nothing, 1, 32, 0, NULL);
    printf("launch of a block of 32         %8.1f ns\n", finish(start) / LAUNCHES);
    start = now_ns();
    (void)WEFT_LAUNCH(nothing, BLOCKS, 256, 0, NULL);
    printf("block of 256 threads, empty     %8.1f ns  (%u workers)\n", finish(start) / BLOCKS,
           weft_simt_threads());
    return 0;
}

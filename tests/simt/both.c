/* SPDX-License-Identifier: Apache-2.0 */
/* One source for both targets, with kernels and host code in one file, built by weft_add_program().
 * Runs on the target of WEFT_TARGET and checks the values; exits with 77 if that is a GPU and there
 * is none. */
#include <weft/launch.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 4096, THREADS = 128 };

WEFT_DEVICE uint32_t reduce(uint32_t value)
{
    for (unsigned delta = WEFT_WARP_LANES / 2; delta; delta /= 2)
        value += weft_dev_shuffle_xor_u32(WEFT_FULL_MASK, value, delta);
    return value;
}

WEFT_KERNEL(sum_blocks, (uint32_t *, sums), (const uint32_t *, values), (size_t, n))
{
    WEFT_SHARED(uint32_t, parts, [THREADS / 32]); /* warps of 32 lanes or of 64 */
    size_t i = weft_dev_grid_rank();
    uint32_t sum = reduce(i < n ? values[i] : 0);
    if (weft_dev_lane() == 0)
        parts[weft_dev_warp()] = sum;
    weft_dev_sync_block();
    if (weft_dev_thread_rank() == 0)
        for (unsigned w = 0; w < THREADS / WEFT_WARP_LANES; w++)
            weft_dev_atomic_add_u32(&sums[weft_dev_block_rank()], parts[w], WEFT_ORDER_RELAXED,
                                    WEFT_SCOPE_GPU);
}

#if WEFT_TARGET_CUDA
/* Memory that both sides can access, from the program's own runtime. */
extern "C" void *both_alloc(size_t bytes)
{
    void *memory = NULL;
    return cudaMallocManaged(&memory, bytes) == cudaSuccess ? memory : NULL;
}
#endif

#if WEFT_HOST_CODE
void *both_alloc(size_t bytes) __attribute__((weak));

int main(void)
{
    weft_target target = weft_target_get();
    uint32_t *memory = target == WEFT_CUDA && both_alloc ? both_alloc(2 * N * sizeof *memory)
                                                         : malloc(2 * N * sizeof *memory);
    uint32_t *values = memory, *sums = memory + N;
    for (uint32_t i = 0; memory && i < N; i++) {
        values[i] = 3 * i;
        sums[i] = 0;
    }
    weft_status status = WEFT_LAUNCH(sum_blocks, N / THREADS, THREADS, 0, NULL, sums, values, N);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        return 77;
    }
    if (!status)
        status = weft_stream_synchronize(NULL);
    if (status) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), weft_last_error());
        return 1;
    }
    for (uint32_t b = 0; b < N / THREADS; b++) {
        uint32_t expected = 3 * (THREADS * THREADS * b + THREADS * (THREADS - 1) / 2);
        if (sums[b] != expected) {
            fprintf(stderr, "block %u: %u, expected %u\n", b, sums[b], expected);
            return 1;
        }
    }
    printf("%s: %d blocks are right\n", weft_target_name(target), N / THREADS);
    if (target == WEFT_SIMT)
        free(memory);
    return 0;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode of device code (WEFT_CHECK=1): the last member calls a collective otherwise than the rest. All are told so,
 * before anything is moved, in words that name both and what differs.
 *     device_agree CASE block|grid */
#define WEFT_DEVICE_CHECK
#include "device_test.h"

#include <unistd.h>

enum { OPERATION, BYTES, ROOT, TYPE, OP, FACTOR, STRIDES, CASES };

#define CALL(form)                                                                                 \
    (what == OPERATION ? (odd ? weft_##form##_barrier(0) : weft_##form##_sync(0))                  \
     : what == BYTES   ? weft_##form##_fcollect(0, dst, src, odd ? 24 : 16)                        \
     : what == ROOT    ? weft_##form##_broadcast(0, dst, src, 16, odd)                             \
     : what == TYPE                                                                                \
         ? weft_##form##_reduce(0, dst, src, 4, odd ? WEFT_INT32 : WEFT_UINT32, WEFT_SUM)          \
     : what == OP                                                                                  \
         ? weft_##form##_reduce_to(0, dst, src, 4, WEFT_INT32, odd ? WEFT_MAX : WEFT_SUM, 0)       \
     : what == FACTOR                                                                              \
         ? weft_##form##_reducescatter_scaled(0, dst, src, 4, WEFT_FLOAT, odd ? 0.25 : 0.5)        \
         : weft_##form##_alltoalls(0, dst, src, odd ? 3 : 2, 1, 4, 2))

WEFT_KERNEL(differ, (int, what), (int, odd), (int, grid), (char *, dst), (const char *, src),
            (int *, result))
{
    int status = WEFT_OK;
    if (grid)
        status = CALL(grid);
    else if (weft_dev_block_rank() == 0)
        status = CALL(block);
    if (weft_dev_thread_rank() == 0)
        result[weft_dev_block_rank()] = status;
}

#if WEFT_HOST_CODE

int main(int argc, char **argv)
{
    static const char *const names[] = {"operation", "bytes",  "root",   "type",
                                        "op",        "factor", "strides"};
    static const char *const texts[] = {"calls", "bytes at PE", "root",   "by",
                                        "by",    "factor 0.",   "strides"};
    int what = 0, grid = argc > 2 && strcmp(argv[2], "grid") == 0;
    while (what < CASES && (argc < 2 || strcmp(argv[1], names[what])))
        what++;
    CHECK(what < CASES);
    device_begin();
    char *src = symmetric(1024), *dst = symmetric(1024);
    int *result = symmetric(2 * sizeof *result);
    barrier();
    OK(WEFT_LAUNCH(differ, grid ? 2 : 1, 64, 0, NULL, what, me == n_pes - 1, grid, dst, src,
                   result));
    CHECK(weft_stream_synchronize(NULL) != WEFT_OK);
    for (int b = 0; b < (grid ? 2 : 1) && !WEFT_TARGET_CUDA; b++)
        CHECK(result[b] == WEFT_ERR_MISMATCH);
    for (int i = 0; i < 1024 && !WEFT_TARGET_CUDA; i++)
        CHECK(dst[i] == 0);
    FAILS(weft_device_check(job), WEFT_ERR_MISMATCH, texts[what]);
    fprintf(stderr, "seen: %s\n", weft_last_error());
    fflush(NULL);
    _exit(0);
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Alignments up to the largest hold for each PE's own addresses (finding E3), and weft_realloc()
 * keeps them (A24). The heap may be larger than the machine's memory, because the test touches
 * little of it. */
#include "job.h"

#include <stdint.h>

enum { LARGEST = 1 << 30 };

int main(void)
{
    weft_job *job;
    char *block;
    OK(weft_init(&job, &(weft_init_attr){.size = sizeof(weft_init_attr),
                                         .heap_bytes = (size_t)3 * LARGEST}));
    weft_ctx *ctx = weft_default_ctx(job);
    const int me = weft_my_pe(job), next = (me + 1) % weft_n_pes(job);
    void *first; /* moves the next blocks away from the start of the heap */
    OK(weft_alloc(job, WEFT_HOST, 1, 0, 0, &first));
    for (size_t align = 64; align <= LARGEST; align *= 2) {
        OK(weft_alloc(job, WEFT_HOST, 100, align, WEFT_ALLOC_ZERO, (void **)&block));
        CHECK((uintptr_t)block % align == 0);
        OK(weft_p32(ctx, (uint32_t *)block, (uint32_t)(align + (size_t)me), next));
        OK(weft_quiet(ctx));
        OK(weft_realloc(job, block, 100000, (void **)&block));
        CHECK((uintptr_t)block % align == 0);
        CHECK(*(uint32_t *)block ==
              align + (size_t)(me + weft_n_pes(job) - 1) % (size_t)weft_n_pes(job));
        OK(weft_free(job, block));
    }
    CHECK(weft_alloc(job, WEFT_HOST, 100, (size_t)2 * LARGEST, 0, (void **)&block) ==
          WEFT_ERR_ARGUMENT);
    CHECK(strstr(weft_last_error(),
                 "align 2147483648 is more than 1073741824, the most for host memory"));
    CHECK(weft_alloc(job, WEFT_GPU, 100, 4 << 20, 0, (void **)&block) == WEFT_ERR_ARGUMENT);
    OK(weft_finalize(job));
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests with GPU memory. They run on GPUs and on the stand-in of the driver. */
#ifndef WEFT_TESTS_GPU_TEST_H
#define WEFT_TESTS_GPU_TEST_H

#include "tests/job/job.h"

#include <stdint.h>

/* Exit 77 = skipped: this machine has no GPU. */
static inline void *gpu_alloc(weft_job *job, size_t bytes, unsigned hints)
{
    void *address = NULL;
    weft_status status = weft_alloc(job, WEFT_GPU, bytes, 0, hints, &address);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        exit(77);
    }
    if (status) {
        fprintf(stderr, "weft_alloc of %zu bytes of GPU memory: %s\n", bytes, weft_last_error());
        exit(1);
    }
    return address;
}

/* This PE's symmetric memory of either kind, accessed by the host. */
static inline void fill(weft_job *job, void *own, const void *from, size_t bytes)
{
    OK(weft_put(weft_default_ctx(job), own, from, bytes, weft_my_pe(job)));
    OK(weft_quiet(weft_default_ctx(job)));
}

static inline void look(weft_job *job, void *to, const void *own, size_t bytes)
{
    OK(weft_get(weft_default_ctx(job), to, own, bytes, weft_my_pe(job)));
}

static inline unsigned char pattern_byte(int pe, size_t i)
{
    return (unsigned char)((size_t)pe * 37 + i * 11 + (i >> 8) * 5 + 1);
}

static inline void make_pattern(unsigned char *to, int pe, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern_byte(pe, i);
}

#endif

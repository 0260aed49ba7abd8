/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests with GPU memory. They run on GPUs and on the stand-in of the driver. */
#ifndef WEFT_TESTS_GPU_TEST_H
#define WEFT_TESTS_GPU_TEST_H

#include "tests/job/job.h"

#include <stdbool.h>
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

/* Bytes 8 * at to 8 * at + 7 of a pattern: they differ from those of all other places and seeds. */
static inline uint64_t pattern_word(int seed, size_t at)
{
    uint64_t x = ((uint64_t)seed << 32 | (at + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 32;
}

static inline unsigned char pattern_byte(int seed, size_t i)
{
    return (unsigned char)(pattern_word(seed, i / 8) >> i % 8 * 8);
}

static inline void make_pattern(unsigned char *to, int seed, size_t bytes)
{
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word = pattern_word(seed, i);
        memcpy(to + 8 * i, &word, 8);
    }
    for (size_t i = bytes / 8 * 8; i < bytes; i++)
        to[i] = pattern_byte(seed, i);
}

/* The first byte of from ... end - 1 that is not the pattern's; `end`: there is none. */
static inline size_t pattern_end(const unsigned char *found, int seed, size_t from, size_t end)
{
    uint64_t word = 0;
    size_t i = from;
    while (i < end) {
        bool whole = i % 8 == 0 && end - i >= sizeof word;
        if (whole)
            memcpy(&word, found + i, sizeof word);
        if (whole && word == pattern_word(seed, i / 8))
            i += sizeof word;
        else if (found[i] == pattern_byte(seed, i))
            i++;
        else
            break;
    }
    return i;
}

#endif

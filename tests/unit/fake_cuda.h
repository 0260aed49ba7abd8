/* SPDX-License-Identifier: Apache-2.0 */
/* Access of a unit test to the emulator of the CUDA driver: its live objects and its reset. Include
 * cmocka.h first. */
#ifndef WEFT_TESTS_UNIT_FAKE_CUDA_H
#define WEFT_TESTS_UNIT_FAKE_CUDA_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/gpu_api.h"

static struct {
    void *library;
    int (*live)(void);   /* returns the number of live objects */
    void (*list)(void);  /* prints the live objects */
    void (*reset)(void); /* drops the live objects and the failures that the test has requested */
} fake;

/* Whether the GPUs are AMD's (FAKE_GPU). */
static inline bool fake_is_amd(void)
{
    const char *text = getenv("FAKE_GPU");
    return text && strcmp(text, "amd") == 0;
}

/* A message in the words of CUDA, in those of the vendor. The next call replaces it. */
static inline const char *fake_words(const char *message)
{
    static char text[256];
    struct gpu_api driver = {.vendor = fake_is_amd() ? GPU_VENDOR_AMD : GPU_VENDOR_NVIDIA};
    snprintf(text, sizeof text, "%s", message);
    gpu_api_translate(&driver, text, sizeof text);
    return text;
}

/* Finds the functions. For a set-up function. Returns -1 if the library is not the emulator, else
 * 0. */
static inline int fake_cuda_find(void)
{
    fake.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!fake.library)
        return -1;
    gpu_api_prefer(fake_is_amd() ? GPU_VENDOR_AMD : GPU_VENDOR_NVIDIA);
    *(void **)&fake.live = dlsym(fake.library, "fake_cuda_live");
    *(void **)&fake.list = dlsym(fake.library, "fake_cuda_list");
    *(void **)&fake.reset = dlsym(fake.library, "fake_cuda_reset");
    return fake.live && fake.list && fake.reset ? 0 : -1;
}

static inline void fake_cuda_expect_nothing(void)
{
    if (fake.live() != 0)
        fake.list();
    assert_int_equal(fake.live(), 0);
}

#endif

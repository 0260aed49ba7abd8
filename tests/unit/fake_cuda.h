/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit test asks of the stand-in of the CUDA driver: what is alive in it. cmocka.h comes
 * first. */
#ifndef WEFT_TESTS_UNIT_FAKE_CUDA_H
#define WEFT_TESTS_UNIT_FAKE_CUDA_H

#include <dlfcn.h>
#include <stddef.h>

static struct {
    void *library;
    int (*live)(void);   /* how many objects are alive */
    void (*list)(void);  /* prints them */
    void (*reset)(void); /* forgets them, and what it was told to fail */
} fake;

/* For a set-up function: 0, or -1 where the library is not the stand-in. */
static inline int fake_cuda_find(void)
{
    fake.library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!fake.library)
        return -1;
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

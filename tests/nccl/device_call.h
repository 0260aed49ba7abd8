/* SPDX-License-Identifier: Apache-2.0 */
/* Between the program device.c and its kernels. */
#ifndef WEFT_TESTS_NCCL_DEVICE_CALL_H
#define WEFT_TESTS_NCCL_DEVICE_CALL_H

#include <nccl_device.h>

/* X(name): kernels of device_kernels.h. */
#define DEVICE_KERNELS(X)                                                                          \
    X(lsa)                                                                                         \
    X(coops)                                                                                       \
    X(gin)                                                                                         \
    X(signals)                                                                                     \
    X(barriers)                                                                                    \
    X(bad_index)                                                                                   \
    X(alone)

enum device_kernel {
#define DEVICE_KERNEL_ENUM(name) KERNEL_##name,
    DEVICE_KERNELS(DEVICE_KERNEL_ENUM)
#undef DEVICE_KERNEL_ENUM
        KERNEL_COUNT
};

enum {
    BLOCKS = 2,
    THREADS = 64,
    MOST_RANKS = 8,
    ELEMENTS = 257, /* of 8 bytes, in each part of the window */
    PART_BYTES = 4096,
    PARTS = 64,
    WINDOW_BYTES = PARTS * PART_BYTES,
    SOURCE_PART = BLOCKS * MOST_RANKS, /* one for each block */
    VALUE_PART = SOURCE_PART + BLOCKS, /* one for each block */
    GOT_PART = VALUE_PART + BLOCKS     /* one for each block */
};

/* The argument of each kernel. */
struct device_call {
    ncclDevComm_t comm;
    ncclLsaBarrierHandle_t lsa_handle; /* of the program's own barriers, of the LSA team */
    ncclGinBarrierHandle_t gin_handle; /* the same, of the world */
    ncclDevResourceHandle_t buffer;    /* of 1024 bytes, from the requirements */
    ncclGinSignal_t signal;            /* the same */
    ncclGinCounter_t counter;
    ncclWindow_t window;
    uint64_t *out; /* [2]: how many checks failed, and the line of one */
    int first, rounds;
};

/* Runs a kernel on CPU threads, for the stand-in of the CUDA driver, and waits. */
#ifdef __cplusplus
extern "C"
#endif
    int
    device_run_here(enum device_kernel kernel, const struct device_call *call);

#endif

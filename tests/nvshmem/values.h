/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* Shared by the value tests of NVSHMEM names: values of any type, symmetric memory, a count of
 * faults. */
#ifndef WEFT_TESTS_NVSHMEM_VALUES_H
#define WEFT_TESTS_NVSHMEM_VALUES_H

#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, n_pes, next, prev, faults;

/* The argument "host": no kernel is launched, and results of kernels are not checked. Device code
 * needs direct addresses, which some paths do not have. */
static int host_alone __attribute__((unused));

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition) && faults++ < 10) {                                                       \
            fprintf(stderr, "PE %d: %s:%d: %s: ", me, __FILE__, __LINE__, #condition);             \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
        }                                                                                          \
    } while (0)

#define LAUNCH(threads, ...)                                                                       \
    do {                                                                                           \
        if (host_alone)                                                                            \
            break;                                                                                 \
        CHECK(!WEFT_LAUNCH_ONE(threads, __VA_ARGS__), "%s", weft_last_error());                    \
        CHECK(!weft_stream_synchronize(NULL), "%s", weft_last_error());                            \
    } while (0)
#define WEFT_LAUNCH_ONE(threads, kernel, ...) WEFT_LAUNCH(kernel, 1, threads, 0, NULL, __VA_ARGS__)

static inline void begin(void)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n_pes = nvshmem_n_pes();
    next = (me + 1) % n_pes;
    prev = (me + n_pes - 1) % n_pes;
}

static inline int end(void)
{
    nvshmem_barrier_all();
    nvshmem_finalize();
    return faults != 0;
}

/* A bit pattern that depends on PE and index, of any size up to 16 bytes. */
static inline void fill(void *value, size_t bytes, int pe, size_t i)
{
    uint64_t words[2] = {((uint64_t)pe * 1009 + i + 1) * 0x9e3779b97f4a7c15u,
                         (uint64_t)pe << 32 | i};
    memcpy(value, words, bytes);
}

/* The limits of integer types. */
#define IS_SIGNED(T) ((T)-1 < (T)1)
#define LARGEST(T)   ((T)(IS_SIGNED(T) ? ((UINT64_C(1) << (8 * sizeof(T) - 1)) - 1) : ~UINT64_C(0)))
#define SMALLEST(T)  ((T)(IS_SIGNED(T) ? UINT64_C(1) << (8 * sizeof(T) - 1) : 0))
#define HIGH_BIT(T)  ((T)(UINT64_C(1) << (8 * sizeof(T) - 1)))

/* A small number as a value of any type. */
static inline weft_nv_half as_half(double x)
{
    weft_nv_half v = {weft_dev_f16_f32((float)x)};
    return v;
}
static inline weft_nv_bfloat16 as_bfloat16(double x)
{
    weft_nv_bfloat16 v = {weft_dev_bf16_f32((float)x)};
    return v;
}
#define AS_PLAIN(name, T)                                                                          \
    static inline T as_##name(double x)                                                            \
    {                                                                                              \
        return (T)x;                                                                               \
    }
AS_PLAIN(float, float)
AS_PLAIN(double, double)
AS_PLAIN(char, char)
AS_PLAIN(short, short)
AS_PLAIN(schar, signed char)
AS_PLAIN(int, int) AS_PLAIN(long, long) AS_PLAIN(longlong, long long) AS_PLAIN(uchar, unsigned char)
    AS_PLAIN(ushort, unsigned short) AS_PLAIN(uint, unsigned int) AS_PLAIN(ulong, unsigned long)
        AS_PLAIN(ulonglong, unsigned long long) AS_PLAIN(int8, int8_t) AS_PLAIN(int16, int16_t)
            AS_PLAIN(int32, int32_t) AS_PLAIN(int64, int64_t) AS_PLAIN(uint8, uint8_t)
                AS_PLAIN(uint16, uint16_t) AS_PLAIN(uint32, uint32_t) AS_PLAIN(uint64, uint64_t)
                    AS_PLAIN(size, size_t) AS_PLAIN(ptrdiff, ptrdiff_t)

#endif

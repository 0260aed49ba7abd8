/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: waits and tests of device code. The waits return nothing in this API: a wait that
 * times out leaves its record and makes the job fail at the host's next call. */
#ifndef WEFT_NVSHMEM_WAIT_H
#define WEFT_NVSHMEM_WAIT_H

#include <weft/nvshmem/types.h>

#if WEFT_NV_DEVICE_PART

WEFT_NV_DEVICE void weft_nv_waited(int status)
{
    if (status)
        weft_dev_fail(status);
}

WEFT_NV_DEVICE uint64_t nvshmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
{
    weft_nv_waited(weft_thread_signal_wait(sig_addr, (weft_cmp)cmp, cmp_value));
    return weft_thread_signal_fetch(sig_addr);
}

WEFT_NV_DEVICE uint64_t nvshmemx_signal_counted_load(const uint64_t *signal_addr)
{
    return weft_thread_signal_fetch(signal_addr);
}

/* Waits until a signal has counted to `expected`, also past 2^64: the count has reached it when it
 * is at most 2^63 - 1 ahead. */
WEFT_NV_DEVICE void nvshmemx_signal_counted_wait_until(const uint64_t *signal_addr,
                                                       uint64_t expected)
{
    uint64_t count = nvshmemx_signal_counted_load(signal_addr);
    int status = WEFT_OK;
    while ((int64_t)(count - expected) < 0 && !status) {
        status = weft_thread_signal_wait(signal_addr, WEFT_NE, count);
        count = nvshmemx_signal_counted_load(signal_addr);
    }
    weft_nv_waited(status);
}

#define WEFT_NV_WAIT(name, T)                                                                      \
    WEFT_NV_DEVICE void nvshmem_##name##_wait_until(T *ivar, int cmp, T value)                     \
    {                                                                                              \
        weft_nv_waited(                                                                            \
            weft_thread_wait_until(WEFT_NV_TYPE_OF(T), ivar, (weft_cmp)cmp, (uint64_t)value));     \
    }                                                                                              \
    WEFT_NV_DEVICE int nvshmem_##name##_test(T *ivar, int cmp, T value)                            \
    {                                                                                              \
        return weft_thread_test(WEFT_NV_TYPE_OF(T), ivar, (weft_cmp)cmp, (uint64_t)value);         \
    }                                                                                              \
    WEFT_NV_WAIT_SET(name, T, , T cmp_value, (uint64_t)cmp_value)                                  \
    WEFT_NV_WAIT_SET(name, T, _vector, T *cmp_value, cmp_value)

/* The forms over several variables: suffix, last parameter, and the argument for it. */
#define WEFT_NV_WAIT_SET(name, T, suffix, last, passed)                                            \
    WEFT_NV_DEVICE void nvshmem_##name##_wait_until_all##suffix(T *ivars, size_t nelems,           \
                                                                const int *status, int cmp, last)  \
    {                                                                                              \
        weft_nv_waited(weft_thread_wait_until_all##suffix(WEFT_NV_TYPE_OF(T), ivars, nelems,       \
                                                          status, (weft_cmp)cmp, passed));         \
    }                                                                                              \
    WEFT_NV_DEVICE size_t nvshmem_##name##_wait_until_any##suffix(                                 \
        T *ivars, size_t nelems, const int *status, int cmp, last)                                 \
    {                                                                                              \
        size_t index;                                                                              \
        weft_nv_waited(weft_thread_wait_until_any##suffix(WEFT_NV_TYPE_OF(T), ivars, nelems,       \
                                                          status, (weft_cmp)cmp, passed, &index)); \
        return index;                                                                              \
    }                                                                                              \
    WEFT_NV_DEVICE size_t nvshmem_##name##_wait_until_some##suffix(                                \
        T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, last)                \
    {                                                                                              \
        size_t count;                                                                              \
        weft_nv_waited(weft_thread_wait_until_some##suffix(                                        \
            WEFT_NV_TYPE_OF(T), ivars, nelems, indices, status, (weft_cmp)cmp, passed, &count));   \
        return count;                                                                              \
    }                                                                                              \
    WEFT_NV_DEVICE int nvshmem_##name##_test_all##suffix(T *ivars, size_t nelems,                  \
                                                         const int *status, int cmp, last)         \
    {                                                                                              \
        return weft_thread_test_all##suffix(WEFT_NV_TYPE_OF(T), ivars, nelems, status,             \
                                            (weft_cmp)cmp, passed);                                \
    }                                                                                              \
    WEFT_NV_DEVICE size_t nvshmem_##name##_test_any##suffix(T *ivars, size_t nelems,               \
                                                            const int *status, int cmp, last)      \
    {                                                                                              \
        return weft_thread_test_any##suffix(WEFT_NV_TYPE_OF(T), ivars, nelems, status,             \
                                            (weft_cmp)cmp, passed);                                \
    }                                                                                              \
    WEFT_NV_DEVICE size_t nvshmem_##name##_test_some##suffix(                                      \
        T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, last)                \
    {                                                                                              \
        return weft_thread_test_some##suffix(WEFT_NV_TYPE_OF(T), ivars, nelems, indices, status,   \
                                             (weft_cmp)cmp, passed);                               \
    }
WEFT_NV_WAIT_TYPES(WEFT_NV_WAIT)
#undef WEFT_NV_WAIT
#undef WEFT_NV_WAIT_SET

#endif

#endif

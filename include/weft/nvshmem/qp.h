/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: operations that name a queue pair. Weft selects the queues itself, so a handle has
 * no effect: each function does the same as the one without qp_. Completing or ordering one queue
 * completes or orders what the calling threads did on all queues. */
#ifndef WEFT_NVSHMEM_QP_H
#define WEFT_NVSHMEM_QP_H

#include <weft/nvshmem/rma.h>

/* *handles becomes an array of n handles, which belongs to the library until nvshmem_finalize(). */
WEFT_NV_HOST int nvshmemx_qp_create(int n, nvshmemx_qp_handle_t **handles)
{
    return weft_nvshmem_queues(n, handles) ? NVSHMEMX_ERROR_INVALID_VALUE : NVSHMEMX_SUCCESS;
}

#if WEFT_NV_DEVICE_PART

#define WEFT_NV_QP_MOVE(name, as, T)                                                               \
    WEFT_NV_DEVICE void nvshmemx_qp_##name(T *dest, const T *source, size_t nelems, int pe,        \
                                           nvshmemx_qp_handle_t qp)                                \
    {                                                                                              \
        (void)qp;                                                                                  \
        as(dest, source, nelems, pe);                                                              \
    }
#define WEFT_NV_QP_SIGNAL(name, as, T)                                                             \
    WEFT_NV_DEVICE void nvshmemx_qp_##name(T *dest, const T *source, size_t nelems,                \
                                           uint64_t *sig_addr, uint64_t signal, int sig_op,        \
                                           int pe, nvshmemx_qp_handle_t qp)                        \
    {                                                                                              \
        (void)qp;                                                                                  \
        as(dest, source, nelems, sig_addr, signal, sig_op, pe);                                    \
    }
#define WEFT_NV_QP_FORMS(KIND, name, T)                                                            \
    KIND(name, nvshmem_##name, T)                                                                  \
    KIND(name##_warp, nvshmemx_##name##_warp, T)                                                   \
    KIND(name##_block, nvshmemx_##name##_block, T)

#define WEFT_NV_QP_TYPE(name, T)                                                                   \
    WEFT_NV_DEVICE void nvshmemx_qp_##name##_p(T *dest, T value, int pe, nvshmemx_qp_handle_t qp)  \
    {                                                                                              \
        (void)qp;                                                                                  \
        nvshmem_##name##_p(dest, value, pe);                                                       \
    }                                                                                              \
    WEFT_NV_DEVICE T nvshmemx_qp_##name##_g(const T *source, int pe, nvshmemx_qp_handle_t qp)      \
    {                                                                                              \
        (void)qp;                                                                                  \
        return nvshmem_##name##_g(source, pe);                                                     \
    }                                                                                              \
    WEFT_NV_QP_FORMS(WEFT_NV_QP_MOVE, name##_put, T)                                               \
    WEFT_NV_QP_FORMS(WEFT_NV_QP_MOVE, name##_get, T)                                               \
    WEFT_NV_QP_FORMS(WEFT_NV_QP_MOVE, name##_put_nbi, T)                                           \
    WEFT_NV_QP_FORMS(WEFT_NV_QP_MOVE, name##_get_nbi, T)                                           \
    WEFT_NV_QP_FORMS(WEFT_NV_QP_SIGNAL, name##_put_signal, T)                                      \
    WEFT_NV_QP_FORMS(WEFT_NV_QP_SIGNAL, name##_put_signal_nbi, T)
WEFT_NV_RMA_TYPES(WEFT_NV_QP_TYPE)
#undef WEFT_NV_QP_TYPE
#undef WEFT_NV_QP_FORMS
#undef WEFT_NV_QP_MOVE
#undef WEFT_NV_QP_SIGNAL

WEFT_NV_DEVICE void nvshmemx_qp_signal_op(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                          nvshmemx_qp_handle_t qp)
{
    (void)qp;
    nvshmemx_signal_op(sig_addr, signal, sig_op, pe);
}

/* For PE pe, or for all PEs (NVSHMEMX_PE_ALL). */
#define WEFT_NV_QP_ORDER(name, as)                                                                 \
    WEFT_NV_DEVICE void nvshmemx_qp_##name(int pe, nvshmemx_qp_handle_t *qps, int n)               \
    {                                                                                              \
        (void)pe;                                                                                  \
        (void)qps;                                                                                 \
        (void)n;                                                                                   \
        as();                                                                                      \
    }
WEFT_NV_QP_ORDER(quiet, weft_thread_quiet)
WEFT_NV_QP_ORDER(quiet_warp, weft_warp_quiet)
WEFT_NV_QP_ORDER(quiet_block, weft_block_quiet)
WEFT_NV_QP_ORDER(fence, weft_thread_fence)
WEFT_NV_QP_ORDER(fence_warp, weft_warp_fence)
WEFT_NV_QP_ORDER(fence_block, weft_block_fence)
#undef WEFT_NV_QP_ORDER

#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in the arguments of the library's kernel for operations on streams (host.h). */
#ifndef WEFT_NVSHMEM_STREAM_CALL_H
#define WEFT_NVSHMEM_STREAM_CALL_H

#include <weft/nvshmem/types.h>

WEFT_NV_HOST struct weft_nv_call weft_nv_call_of(enum weft_nv_call_kind kind, int team, void *dst,
                                                 const void *src, size_t n, int pe)
{
    struct weft_nv_call call;
    memset(&call, 0, sizeof call);
    call.kind = kind;
    call.team = team;
    call.pe = pe;
    call.dst = dst;
    call.src = src;
    call.n = n;
    return call;
}

WEFT_NV_HOST struct weft_nv_call weft_nv_reduce_call(int all, int team, void *dst, const void *src,
                                                     size_t n, weft_type type, weft_op op)
{
    struct weft_nv_call call = weft_nv_call_of(
        all ? WEFT_NV_CALL_REDUCE : WEFT_NV_CALL_REDUCESCATTER, team, dst, src, n, 0);
    call.type = type;
    call.op = op;
    return call;
}

WEFT_NV_HOST struct weft_nv_call weft_nv_strided_call(int put, void *dst, const void *src,
                                                      ptrdiff_t dst_stride, ptrdiff_t src_stride,
                                                      size_t element, size_t n, int pe)
{
    struct weft_nv_call call =
        weft_nv_call_of(put ? WEFT_NV_CALL_IPUT : WEFT_NV_CALL_IGET, 0, dst, src, n, pe);
    call.dst_stride = dst_stride;
    call.src_stride = src_stride;
    call.element = element;
    return call;
}

WEFT_NV_HOST struct weft_nv_call weft_nv_p_call(void *dst, uint64_t bits, size_t bytes, int pe)
{
    struct weft_nv_call call = weft_nv_call_of(WEFT_NV_CALL_P, 0, dst, NULL, 1, pe);
    call.value = bits;
    call.element = bytes;
    return call;
}

WEFT_NV_HOST struct weft_nv_call weft_nv_wait_call(enum weft_nv_call_kind kind, weft_type type,
                                                   const void *ivars, size_t n, const int *status,
                                                   int cmp, uint64_t value)
{
    struct weft_nv_call call = weft_nv_call_of(kind, 0, (void *)status, ivars, n, cmp);
    call.type = type;
    call.value = value;
    return call;
}

#endif

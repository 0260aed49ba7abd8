/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel of one block for everything of <nvshmem.h> that is put on a stream and has no function of
 * its own in <weft/stream.h>. With nvcc it is a template: it is compiled in the files that use it. */
#ifndef WEFT_NVSHMEM_STREAM_CALL_H
#define WEFT_NVSHMEM_STREAM_CALL_H

#include <weft/nvshmem/types.h>
#if WEFT_TARGET_SIMT
#include <weft/simt_executor.h>
#endif

enum weft_nv_call_kind {
    WEFT_NV_CALL_SYNC,
    WEFT_NV_CALL_BROADCAST,
    WEFT_NV_CALL_FCOLLECT,
    WEFT_NV_CALL_ALLTOALL,
    WEFT_NV_CALL_REDUCE,
    WEFT_NV_CALL_REDUCESCATTER,
    WEFT_NV_CALL_P,
    WEFT_NV_CALL_G,
    WEFT_NV_CALL_IPUT,
    WEFT_NV_CALL_IGET,
    WEFT_NV_CALL_WAIT,
    WEFT_NV_CALL_WAIT_ALL,
    WEFT_NV_CALL_WAIT_ALL_VECTOR
};

struct weft_nv_call {
    enum weft_nv_call_kind kind;
    int team, pe; /* pe: or the root, or the comparison */
    void *dst;
    const void *src;
    size_t n;       /* bytes or elements */
    size_t element; /* bytes */
    ptrdiff_t dst_stride, src_stride;
    uint64_t value;
    weft_type type;
    weft_op op;
};

#if WEFT_TARGET_CUDA
#define WEFT_NV_CALL_THREADS 512
#else
#define WEFT_NV_CALL_THREADS 64
#endif

/* By all threads of the block. Collectives report themselves; a wait that ran out is reported here. */
WEFT_NV_DEVICE void weft_nv_run(const struct weft_nv_call *c)
{
    int status = WEFT_OK;
    switch (c->kind) {
    case WEFT_NV_CALL_SYNC:
        weft_block_sync(c->team);
        return;
    case WEFT_NV_CALL_BROADCAST:
        weft_block_broadcast(c->team, c->dst, c->src, c->n, c->pe);
        return;
    case WEFT_NV_CALL_FCOLLECT:
        weft_block_fcollect(c->team, c->dst, c->src, c->n);
        return;
    case WEFT_NV_CALL_ALLTOALL:
        weft_block_alltoall(c->team, c->dst, c->src, c->n);
        return;
    case WEFT_NV_CALL_REDUCE:
        weft_block_reduce(c->team, c->dst, c->src, c->n, c->type, c->op);
        return;
    case WEFT_NV_CALL_REDUCESCATTER:
        weft_block_reducescatter(c->team, c->dst, c->src, c->n, c->type, c->op);
        return;
    case WEFT_NV_CALL_P:
        weft_block_put(c->dst, &c->value, c->element, c->pe);
        return;
    case WEFT_NV_CALL_G:
        weft_block_get(c->dst, c->src, c->element, c->pe);
        return;
    case WEFT_NV_CALL_IPUT:
        weft_block_iput(c->dst, c->src, c->dst_stride, c->src_stride, c->element, c->n, c->pe);
        return;
    case WEFT_NV_CALL_IGET:
        weft_block_iget(c->dst, c->src, c->dst_stride, c->src_stride, c->element, c->n, c->pe);
        return;
    case WEFT_NV_CALL_WAIT:
        status = weft_block_wait_until(c->type, c->src, (weft_cmp)c->pe, c->value);
        break;
    case WEFT_NV_CALL_WAIT_ALL:
        status = weft_block_wait_until_all(c->type, c->src, c->n, (const int *)c->dst,
                                           (weft_cmp)c->pe, c->value);
        break;
    case WEFT_NV_CALL_WAIT_ALL_VECTOR:
        status = weft_block_wait_until_all_vector(c->type, c->src, c->n, (const int *)c->dst,
                                                  (weft_cmp)c->pe, (void *)(uintptr_t)c->value);
        break;
    }
    if (status && weft_dev_thread_rank() == 0)
        weft_dev_fail(status);
}

#if WEFT_TARGET_CUDA

template <int weft_nv_used> static __global__ void weft_nv_kernel(struct weft_nv_call call)
{
    weft_nv_run(&call);
}

template <int weft_nv_used>
static inline int weft_nv_enqueue(struct weft_nv_call call, cudaStream_t stream)
{
    weft_nv_kernel<weft_nv_used><<<1, WEFT_NV_CALL_THREADS, 0, stream>>>(call);
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? 0 : weft_nvshmem_report(WEFT_ERR_KERNEL, cudaGetErrorString(error));
}

template <int weft_nv_used> static inline int weft_nv_now(struct weft_nv_call call)
{
    int failed = weft_nv_enqueue<weft_nv_used>(call, (cudaStream_t)0);
    if (!failed && cudaStreamSynchronize((cudaStream_t)0) != cudaSuccess)
        failed = weft_nvshmem_report(WEFT_ERR_KERNEL, "the kernel of a collective failed");
    return failed ? failed
                  : weft_nvshmem_report(weft_device_check(weft_nvshmem_job()), "nvshmem collective");
}

#define WEFT_NV_ENQUEUE(call, stream) weft_nv_enqueue<weft_nv_used>(call, stream)
#define WEFT_NV_NOW(call)             weft_nv_now<weft_nv_used>(call)
#define WEFT_NV_LAZY_BOTH             template <int weft_nv_used = 0> WEFT_NV_BOTH

#else

WEFT_NV_HOST void weft_nv_simt_kernel(const void *call)
{
    weft_nv_run((const struct weft_nv_call *)call);
}

typedef weft_stream cudaStream_t; /* the executor's streams stand in under their usual name */

WEFT_NV_HOST int weft_nv_enqueue(struct weft_nv_call call, cudaStream_t stream)
{
    weft_simt_launch_attr attr = {sizeof attr, "nvshmem on a stream", weft_nv_simt_kernel, &call,
                                  sizeof call, {1, 1, 1}, {WEFT_NV_CALL_THREADS, 1, 1}, 0, 0};
    return weft_nvshmem_report(weft_simt_launch(&attr, (weft_simt_stream *)stream),
                               "nvshmem on a stream");
}

WEFT_NV_HOST int weft_nv_now(struct weft_nv_call call)
{
    int failed = weft_nv_enqueue(call, NULL);
    if (!failed)
        failed = weft_nvshmem_report(weft_stream_synchronize(NULL), "nvshmem collective");
    return failed ? failed
                  : weft_nvshmem_report(weft_device_check(weft_nvshmem_job()), "nvshmem collective");
}

#define WEFT_NV_ENQUEUE(call, stream) weft_nv_enqueue(call, stream)
#define WEFT_NV_NOW(call)             weft_nv_now(call)
#define WEFT_NV_LAZY_BOTH             WEFT_NV_BOTH

#endif

/* -------------------------------------------------------------------- calls, filled for the kernel */

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

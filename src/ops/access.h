/* SPDX-License-Identifier: Apache-2.0 */
/* Translates a symmetric address and a PE number into memory: the few instructions at the start of
 * every operation. The fast path has all its checks here, in release builds too. Arguments that do
 * not pass go to access_resolve(), which finds the cause and reports it. */
#ifndef WEFT_OPS_ACCESS_H
#define WEFT_OPS_ACCESS_H

#include "base/sanitizer.h"
#include "gpu/gpu.h"
#include "job/job.h"

#include <string.h>

/* Whether the job has failed. Costs one load of a word that this PE and its device code write. */
static inline bool access_failed(const struct weft_ctx *ctx)
{
    return __atomic_load_n(ctx->fault, __ATOMIC_RELAXED) != 0;
}

/* Whether pe is in 0 ... n - 1 and the job has not failed. One comparison for both: a failure is a
 * negative status, whose sign bit makes the number larger than any n. */
static inline bool access_is_pe(const struct weft_ctx *ctx, int pe, uint32_t n)
{
    return (uint32_t)(pe | __atomic_load_n(ctx->fault, __ATOMIC_RELAXED)) < n;
}

/* Whether another thread than this one made the context, with WEFT_CTX_PRIVATE. */
static inline bool access_foreign(const struct weft_ctx *ctx)
{
    return unlikely(ctx->options & WEFT_CTX_PRIVATE) && ctx->owner != &job_acts_for_others;
}

/* As access_direct(); the caller has checked pe. */
static inline char *access_mapped(const struct weft_ctx *ctx, const void *symmetric, size_t bytes,
                                  int pe, struct peer **peer, size_t *offset)
{
    *peer = &ctx->peers[WEFT_HOST][pe];
    size_t off = (uintptr_t)symmetric - ctx->seg[SEG_HEAP].base;
    if (likely(off < ctx->seg[SEG_HEAP].size && bytes <= ctx->seg[SEG_HEAP].size - off)) {
        *offset = off;
        char *base = (*peer)->base[SEG_HEAP];
        return base ? base + off : NULL;
    }
    off = (uintptr_t)symmetric - ctx->seg[SEG_DATA].base;
    if (off < ctx->seg[SEG_DATA].size && bytes <= ctx->seg[SEG_DATA].size - off) {
        *offset = off;
        char *base = (*peer)->base[SEG_DATA];
        return base ? base + off : NULL;
    }
    return NULL;
}

/* As access_direct(), for the CPU's atomics. */
static inline char *access_atomic(const struct weft_ctx *ctx, const void *symmetric, size_t bytes,
                                  int pe, struct peer **peer, size_t *offset)
{
    if (unlikely(!ctx || !access_is_pe(ctx, pe, ctx->quick_atomics)))
        return NULL;
    return access_mapped(ctx, symmetric, bytes, pe, peer, offset);
}

/* As access_direct(), also for jobs with a GPU. The local side may be device memory: the caller
 * checks that. */
static inline char *access_guarded(const struct weft_ctx *ctx, const void *symmetric, size_t bytes,
                                   int pe, struct peer **peer, size_t *offset)
{
    if (!ctx || !access_is_pe(ctx, pe, ctx->npes))
        return NULL;
    return access_mapped(ctx, symmetric, bytes, pe, peer, offset);
}

/* Returns the address at which the CPU can load and store the peer's memory. NULL: the path has no
 * such address, an argument is wrong, or the job has failed (device code reports a failure only by
 * the fault word). *offset counts from the start of the program's part of the segment. In jobs with
 * a GPU the first check fails (quick_npes is 0), so after success the local side is never device
 * memory. */
static inline char *access_direct(const struct weft_ctx *ctx, const void *symmetric, size_t bytes,
                                  int pe, struct peer **peer, size_t *offset)
{
    *peer = NULL;
    *offset = 0;
    if (unlikely(!ctx || !access_is_pe(ctx, pe, ctx->quick_npes)))
        return NULL;
    return access_mapped(ctx, symmetric, bytes, pe, peer, offset);
}

/* Resolves an address in the GPU heap with all checks of access_resolve(). False: an argument is
 * wrong or the address is in other memory; access_resolve() finds out which. */
static inline bool access_gpu_heap(const struct weft_ctx *ctx, const void *symmetric, size_t bytes,
                                   int pe, struct remote *remote)
{
    if (!ctx || !access_is_pe(ctx, pe, ctx->npes) || access_foreign(ctx))
        return false;
    size_t off = (uintptr_t)symmetric - ctx->seg[SEG_GPU].base;
    if (off >= ctx->seg[SEG_GPU].size || bytes > ctx->seg[SEG_GPU].size - off)
        return false;
    remote->peer = &ctx->peers[WEFT_GPU][pe];
    remote->segment = SEG_GPU;
    remote->offset = off + ctx->skipped[SEG_GPU];
    return true;
}

/* Counts an operation. Normally one thread writes the counters of a context; threads that share a
 * context may lose counts. */
static inline void access_count(enum box_operation operation, struct peer *peer, size_t bytes,
                                size_t offset)
{
    struct box_counters *counters = peer->counters;
    atomic_store_explicit(&counters->operations,
                          atomic_load_explicit(&counters->operations, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&counters->bytes,
                          atomic_load_explicit(&counters->bytes, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&counters->last, box_last(operation, peer->pe, offset),
                          memory_order_relaxed);
}

/* The full check with error messages. WEFT_OK: *remote is resolved, and the functions of its path
 * may be called. function: public name for the error message. */
weft_status access_resolve(const char *function, struct weft_ctx *ctx, const void *symmetric,
                           size_t bytes, int pe, struct remote *remote);

/* As access_resolve(), and `symmetric` must be a multiple of `width` bytes. */
weft_status access_resolve_aligned(const char *function, struct weft_ctx *ctx,
                                   const void *symmetric, size_t width, int pe,
                                   struct remote *remote);

/* Whether [address, address + bytes) lies in the part of an own segment that the program may
 * use. */
bool access_find(const struct weft_ctx *ctx, const void *address, size_t bytes,
                 enum segment_id *segment, size_t *offset);

/* As access_find(), with an error message. */
weft_status access_find_own(const char *function, const struct weft_ctx *ctx, const void *address,
                            size_t bytes, enum segment_id *segment, size_t *offset);

/* WEFT_ERR_OP: the operation is neither SET nor ADD. */
weft_status access_check_signal_op(const char *function, weft_signal_op op);

/* Status of a call on a destroyed context, which checking mode keeps to detect such calls. */
weft_status access_destroyed(const char *function);

/* Status of a call for which access_foreign() is true: an error that names both threads, or WEFT_OK
 * where this thread may act for others. */
weft_status access_foreign_thread(const char *function, const struct weft_ctx *ctx);

/* Sets job_acts_for_others; returns what it was before. */
static inline bool access_act_for_others(bool may)
{
    bool before = job_acts_for_others;
    job_acts_for_others = may;
    return before;
}

struct waiter;

/* Waits for the condition in `waiter` on a variable in own GPU memory. The GPU polls for a slice of
 * time; between slices the host checks the time limit and the peers. *seen (may be NULL): the last
 * value. */
weft_status access_wait_device(struct weft_ctx *ctx, struct waiter *waiter, const void *variable,
                               size_t width, bool is_signed, uint64_t *seen);

/* Whether the local side of an operation is memory that the CPU cannot access. Always false in a
 * job without a GPU side. */
static inline bool access_is_device(const struct weft_ctx *ctx, const void *address)
{
    return unlikely(ctx->gpu != NULL) && gpu_place_of(ctx->gpu, address) == GPU_PLACE_DEVICE;
}

/* memcpy() with an inline form for 4 to 16 bytes: 8 bytes in one access, other sizes in two
 * accesses that may overlap. */
static inline void access_copy(void *to, const void *from, size_t bytes)
{
    if (bytes == 8) {
        memcpy(to, from, 8);
        return;
    }
    if (bytes > 16 || bytes < 4) {
        memcpy(to, from, bytes);
        return;
    }
    if (bytes > 8) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, (const char *)from + bytes - 8, 8);
        memcpy(to, &head, 8);
        memcpy((char *)to + bytes - 8, &tail, 8);
        return;
    }
    uint32_t head, tail;
    memcpy(&head, from, 4);
    memcpy(&tail, (const char *)from + bytes - 4, 4);
    memcpy(to, &head, 4);
    memcpy((char *)to + bytes - 4, &tail, 4);
}

/* The copy of a get. What the caller loads afterwards is not older: a program may get a flag, and
 * then the data that the flag announces. */
static inline void access_fetch(void *to, const void *from, size_t bytes)
{
    access_copy(to, from, bytes);
    atomic_thread_fence(memory_order_acquire);
}

#endif

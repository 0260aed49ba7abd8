/* SPDX-License-Identifier: Apache-2.0 */
/* See memory.h. */
#include "ops/coll/memory.h"

#include "gpu/map/map.h"

/* Number of blocks of dst or src at this member. */
static uint64_t block_count(const struct weft_team *team, const struct coll_request *request,
                            bool dst)
{
    switch (request->what) {
    case COLL_ALLGATHER:
        return dst ? (uint64_t)team->n : 1;
    case COLL_GATHER:
        return dst && team->me == request->root ? (uint64_t)team->n : 1;
    case COLL_ALLTOALL:
        return (uint64_t)team->n;
    case COLL_SCATTER:
        return !dst && team->me == request->root ? (uint64_t)team->n : 1;
    case COLL_REDUCESCATTER:
        return dst ? 1 : (uint64_t)team->n;
    default:
        return 1;
    }
}

/* Bytes from the first to the last byte of dst or src, as far as the host knows them. With strides
 * the last element has no gap after it. */
static uint64_t extent_bytes(const struct weft_team *team, const struct coll_request *request,
                             bool dst)
{
    uint64_t least = request->what == COLL_ALLTOALLV ? request->dst_bytes : request->bytes;
    if (coll_is_sized[request->what])
        return least ? least : 1;
    uint64_t bytes = request->bytes * block_count(team, request, dst);
    uint64_t stride = dst ? request->dst_stride : request->src_stride;
    return request->element ? bytes * stride - (stride - 1) * request->element : bytes;
}

/* Whether this member uses dst or src at all. A gather's dst says at all members which kind of
 * memory the root's is; null: not of the GPU heap. */
static bool is_used(const struct weft_team *team, const struct coll_request *request, bool dst)
{
    bool root = team->me == request->root;
    if (request->what == COLL_GATHER && dst)
        return root || request->dst;
    if (request->what == COLL_REDUCE)
        return !dst || root;
    if (request->what == COLL_SCATTER)
        return dst || root;
    return true;
}

static weft_status check_side(const struct weft_team *team, const struct coll_request *request,
                              bool is_dst, bool *host)
{
    const void *address = is_dst ? request->dst : request->src;
    const char *name = is_dst ? "dst" : "src";
    struct gpu *gpu = team->job->gpu;
    enum segment_id segment;
    size_t offset;
    if (!is_used(team, request, is_dst))
        return WEFT_OK;
    if (!address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", request->function, name);
    size_t bytes = (size_t)extent_bytes(team, request, is_dst);
    if (access_find(team->job->default_ctx, address, bytes, &segment, &offset)) {
        *host |= segment != SEG_GPU;
        return WEFT_OK;
    }
    if (gpu_heap_covers(&gpu->heap, address) ||
        access_find(team->job->default_ctx, address, 1, &segment, &offset)) {
        weft_status status = access_find_own(request->function, team->job->default_ctx, address,
                                             bytes, &segment, &offset);
        return base_fail_context(status, "argument %s", name);
    }
    if (gpu_place_of(gpu, address) != GPU_PLACE_PLAIN)
        return WEFT_OK;
    return gpu_api_refuse(
        &gpu->driver, WEFT_ERR_ADDRESS,
        "%s: %s (%p) is neither symmetric memory nor memory that GPU %d accesses; "
        "allocate it with weft_alloc(), cudaMalloc() or cudaMallocHost()",
        request->function, name, address, gpu->device.ordinal);
}

/* dst and src must be disjoint, or in place: then each thread reads what it overwrites itself. */
static weft_status check_overlap(const struct weft_team *team, const struct coll_request *request)
{
    if (!is_used(team, request, true) || !is_used(team, request, false))
        return WEFT_OK;
    uintptr_t dst = (uintptr_t)request->dst, src = (uintptr_t)request->src, own = src;
    uint64_t to = extent_bytes(team, request, true), from = extent_bytes(team, request, false);
    if (request->what == COLL_ALLGATHER || request->what == COLL_GATHER)
        own = src - (uint64_t)team->me * request->bytes; /* the own block of dst */
    else if (request->what == COLL_SCATTER || request->what == COLL_REDUCESCATTER)
        own = src + (uint64_t)team->me * request->bytes; /* the own block of src */
    bool same = own == dst && request->what != COLL_ALLTOALL;
    if (same || dst + to <= src || src + from <= dst)
        return WEFT_OK;
    return base_fail(
        WEFT_ERR_ARGUMENT,
        "%s: dst %p (%llu bytes) and src %p (%llu bytes) overlap; they must be disjoint%s",
        request->function, request->dst, (unsigned long long)to, request->src,
        (unsigned long long)from, request->what == COLL_ALLTOALL ? "" : " or in place");
}

static weft_status check_gpu_memory(const struct weft_team *team,
                                    const struct coll_request *request, const void *address,
                                    const char *name)
{
    if (!address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", request->function, name);
    if (gpu_place_of(team->job->gpu, address) == GPU_PLACE_PLAIN)
        return gpu_api_refuse(&team->job->gpu->driver, WEFT_ERR_ADDRESS,
                              "%s: %s (%p) is not memory that GPU %d can access; allocate it with "
                              "weft_alloc(), cudaMalloc() or cudaMallocHost()",
                              request->function, name, address, team->job->gpu->device.ordinal);
    return WEFT_OK;
}

/* Checks the memory of collectives whose sizes only the GPUs know (collect, alltoallv). */
static weft_status check_sized_memory(const struct weft_team *team,
                                      const struct coll_request *request)
{
    bool all = request->what == COLL_ALLTOALLV, host = false;
    weft_status status = check_side(team, request, true, &host);
    if (!status && host)
        status =
            gpu_api_refuse(&team->job->gpu->driver, WEFT_ERR_UNSUPPORTED,
                           "%s: dst (%p) is symmetric host memory; this call needs GPU memory, "
                           "symmetric or from cudaMalloc()",
                           request->function, request->dst);
    if (status)
        return status;
    if (!all && !request->bytes) /* this member sends nothing */
        return WEFT_OK;
    status = check_gpu_memory(team, request, request->src, "src");
    if (!all || status)
        return status;
    status = check_gpu_memory(team, request, request->send_bytes, "send_bytes");
    if (!status)
        status = check_gpu_memory(team, request, request->send_at, "send_at");
    if (!status)
        status = check_gpu_memory(team, request, request->recv_bytes, "recv_bytes");
    return status ? status : check_gpu_memory(team, request, request->recv_at, "recv_at");
}

weft_status coll_kernel_memory(const struct weft_team *team, const struct coll_request *request,
                               bool *host)
{
    uint64_t all;
    *host = false;
    uint64_t stride =
        request->dst_stride > request->src_stride ? request->dst_stride : request->src_stride;
    if (__builtin_mul_overflow(request->bytes, (uint64_t)team->n, &all) ||
        (request->element && __builtin_mul_overflow(all, stride, &all)) || all > SIZE_MAX / 2)
        return base_fail(WEFT_ERR_RANGE, "%s: %llu bytes of %d PEs are too many", request->function,
                         (unsigned long long)request->bytes, team->n);
    if (coll_is_sized[request->what])
        return check_sized_memory(team, request);
    weft_status status = check_side(team, request, true, host);
    if (!status)
        status = check_side(team, request, false, host);
    return status ? status : check_overlap(team, request);
}

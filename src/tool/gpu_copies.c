/* SPDX-License-Identifier: Apache-2.0 */
/* See gpu_copies.h. */
#include "tool/gpu_copies.h"

#include "base/clock.h"
#include "base/status.h"
#include "gpu/gpu.h"
#include "gpu/map/map.h"
#include "job/job.h"

#include <sched.h>
#include <string.h>

static weft_status gpu_of(weft_job *job, struct gpu **gpu)
{
    *gpu = job->gpu;
    return *gpu ? WEFT_OK : base_fail(WEFT_ERR_UNSUPPORTED, "the job has no GPU side");
}

weft_status driver_copies_begin(weft_job *job)
{
    struct gpu *gpu;
    weft_status status = gpu_of(job, &gpu);
    if (!status && (!gpu->driver.MemcpyHtoD || !gpu->driver.MemcpyDtoH))
        status = base_fail(WEFT_ERR_UNSUPPORTED, "the driver has no cuMemcpyHtoD");
    return status ? status : gpu_enter(&gpu->device);
}

/* A copy of up to 64 KiB from pageable memory may still be running after it has returned (CUDA
 * driver API, "API synchronization behavior"), so this waits for it. */
void driver_copies_end(weft_job *job)
{
    while (job->gpu->driver.StreamQuery(NULL) == CUDA_ERROR_NOT_READY)
        sched_yield();
    gpu_leave(&job->gpu->device);
}

weft_status driver_copy(weft_job *job, void *dst, const void *src, size_t bytes, bool in)
{
    const struct gpu_api *driver = &job->gpu->driver;
    CUresult result = in ? driver->MemcpyHtoD((uintptr_t)dst, src, bytes)
                         : driver->MemcpyDtoH(dst, (uintptr_t)src, bytes);
    return result ? gpu_api_fail(driver, result, "a copy of %zu bytes by the driver", bytes)
                  : WEFT_OK;
}

/* ---------------------------------------------------------------------------------------- flags */

/* Pinned memory of the flag test. */
struct echo_memory {
    struct echo_report report;
    uint64_t line[8];
    uint64_t answer;
};

static weft_status echo(struct gpu *gpu, struct echo_memory *room, uint64_t *flag, uint64_t rounds,
                        double *ns)
{
    int slot;
    size_t offset;
    if (!gpu_map_locate(gpu, flag, &slot, &offset))
        return base_fail(WEFT_ERR_ADDRESS, "the flag is not in the GPU heap");
    uint64_t none = 0, limit_ns = 2000000000;
    CUdeviceptr own = (uintptr_t)flag, peer = 0, report = 0;
    if (gpu->driver.MemHostGetDevicePointer(&report, room, 0))
        return base_fail(WEFT_ERR_SYSTEM, "kernels cannot access the pinned memory");
    peer = report + offsetof(struct echo_memory, answer);
    void *arguments[] = {&own, &peer, &none, &none, &rounds, &limit_ns, &report};
    weft_status status =
        gpu_launch(&gpu->module, GPU_weft_kernel_echo, 1, 1, gpu->streams[0].stream, arguments);
    uint64_t start = 0, late = clock_now_ns() + 2 * limit_ns;
    for (uint64_t round = 1; round <= rounds && !status; round++) {
        if (round == 2) /* the kernel has started */
            start = clock_now_ns();
        if (!gpu_map_store(gpu->heap.map, slot, offset, &round, sizeof round))
            status = base_fail(WEFT_ERR_UNSUPPORTED, "the GPU's memory is not mapped for the CPU");
        while (!status && __atomic_load_n(&room->answer, __ATOMIC_ACQUIRE) < round)
            if (clock_now_ns() > late)
                status = base_fail(WEFT_ERR_TIMEOUT, "a kernel did not answer");
    }
    *ns = rounds > 1 ? (double)(clock_now_ns() - start) * (double)rounds / (double)(rounds - 1) : 0;
    weft_status end = gpu_quiet(gpu);
    return status ? status : end;
}

weft_status flag_echo(weft_job *job, uint64_t *flag, uint64_t rounds, double *ns)
{
    struct gpu *gpu;
    struct echo_memory *room = NULL;
    weft_status status = gpu_of(job, &gpu);
    if (!status)
        status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.MemHostAlloc(
        (void **)&room, sizeof *room, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result) {
        status = gpu_api_fail(&gpu->driver, result, "cuMemHostAlloc");
    } else {
        memset(room, 0, sizeof *room);
        status = echo(gpu, room, flag, rounds, ns);
        gpu->driver.MemFreeHost(room);
    }
    gpu_leave(&gpu->device);
    return status;
}

/* ------------------------------------------------------------------------------------- mappings */

/* Allocates memory of cuMemCreate(), or of cudaMalloc() if `plain`. */
static weft_status make_pair(struct gpu *gpu, bool plain, size_t bytes, struct gpu_map_extra *extra)
{
    *extra = (struct gpu_map_extra){.bytes = bytes};
    if (!plain)
        return gpu_map_extra_make(gpu, bytes, extra);
    CUresult result = gpu->driver.MemAlloc(&extra->at, bytes);
    return result ? gpu_api_fail(&gpu->driver, result, "%zu bytes to measure with", bytes)
                  : WEFT_OK;
}

weft_status map_windows(weft_job *job, enum map_window kind, size_t bytes, uint64_t rounds,
                        double *ns)
{
    struct gpu *gpu;
    struct gpu_map_extra extra;
    bool plain = kind == MAP_WINDOW_FIRST_PLAIN;
    weft_status status = gpu_of(job, &gpu);
    if (!status && !gpu_map_works(gpu->heap.map))
        status = base_fail(WEFT_ERR_UNSUPPORTED, "the GPU's memory is not mapped for the CPU");
    if (!status)
        status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = make_pair(gpu, plain, bytes, &extra);
    if (!status) {
        void *at = (void *)(uintptr_t)extra.at;
        struct gpu_map *map = gpu->heap.map;
        struct gpu_map_user user = {0};
        status = gpu_map_own(map, at, bytes, &user); /* one-time work of the process, not timed */
        gpu_map_own_end(map, &user);
        if (kind != MAP_WINDOW_KEPT)
            gpu_map_own_forget(map, at, bytes);
        uint64_t start = clock_now_ns();
        for (uint64_t round = 0; round < rounds && !status; round++) {
            status = gpu_map_own(map, at, bytes, &user);
            gpu_map_own_end(map, &user);
            if (kind != MAP_WINDOW_KEPT)
                gpu_map_own_forget(map, at, bytes);
        }
        *ns = (double)(clock_now_ns() - start);
        gpu_map_own_forget(map, at, bytes);
        if (plain)
            gpu->driver.MemFree(extra.at);
        else
            gpu_map_extra_free(gpu, &extra);
    }
    gpu_leave(&gpu->device);
    return status;
}

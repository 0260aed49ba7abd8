/* SPDX-License-Identifier: Apache-2.0 */
/* Tests and measures pairs of GPUs. See gpu_probe.h. */
#include "tool/gpu_probe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "gpu/gpu.h"
#include "gpu/test/cache.h"
#include "tool/map_probe.h"

enum {
    TEST_ROUNDS = 8,
    ECHO_UNTIMED = 64,
    ECHO_ROUNDS = 1000,
    COPIES = 3, /* copies per measurement; the median counts */
    FLAG_BYTES = 256,
};
#define MIB(n) ((size_t)(n) << 20)
static const size_t WARM_BYTES = MIB(16), FULL_BYTES = MIB(512), BRIEF_BYTES = MIB(256);
/* Pinning a MiB takes 0.5 ms, and its copy 0.02 ms. */
static const size_t FULL_HOST_BYTES = MIB(64), BRIEF_HOST_BYTES = MIB(16);
/* Longest time of one copy, which limits its size: a pair needs 21 copies. */
static const double FULL_COPY_MS = 12, BRIEF_COPY_MS = 3;
/* Time limits of the kernels. They also count their polls (kernels.cu), so both end within 2 s even
 * if the GPU's timer stops. The second, longer attempt is for GPUs on which other kernels delayed
 * one of the two. */
static const uint64_t TEST_LIMIT_NS = 400000000, TEST_AGAIN_NS = 1200000000,
                      ECHO_LIMIT_NS = 300000000;

struct probe_gpu {
    const char *address;
    bool tried;
    weft_status status; /* result of opening it */
    char sentence[PROBE_EVIDENCE];
    struct gpu_device device;
    struct gpu_module module; /* loaded when a pair is tested */
    CUstream stream;
    CUevent begun, ended;
    CUdeviceptr out, in; /* source and destination buffers of copies */
    size_t bytes;        /* size of each buffer */
    CUdeviceptr area;    /* struct prove_area, then the flag of the latency test */
};

/* Pinned memory for the kernels of one pair. */
struct probe_pinned {
    struct prove_pair pairs[2];
    struct prove_report proofs[2];
    struct echo_report echoes[2];
};

struct probe_gpus {
    struct gpu_api driver;
    struct probe_gpu gpus[PROBE_GPUS_MOST];
    int n;
    void *pinned_memory;
    struct probe_pinned *pinned;
    void *host; /* pinned */
    size_t host_bytes;
    CUdeviceptr pinned_device, host_device;
};

/* --- one GPU ---------------------------------------------------------------------------------- */

static weft_status find_ordinal(const struct gpu_api *driver, const struct probe_gpu *gpu,
                                char *ordinal, size_t bytes)
{
    int visible = 0;
    CUresult result = driver->DeviceGetCount(&visible);
    if (result)
        return gpu_api_fail(driver, result, "cuDeviceGetCount");
    for (int i = 0; gpu->address && i < visible; i++) {
        CUdevice device;
        char address[32] = "";
        if (driver->DeviceGet(&device, i) ||
            driver->DeviceGetPCIBusId(address, sizeof address, device))
            continue;
        if (strcasecmp(address, gpu->address) == 0) {
            snprintf(ordinal, bytes, "%d", i);
            return WEFT_OK;
        }
    }
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "CUDA shows %d GPU%s, none at %s; CUDA_VISIBLE_DEVICES may hide it", visible,
                     visible == 1 ? "" : "s", gpu->address ? gpu->address : "an unknown address");
}

/* Allocates two buffers; together they use at most a quarter of the free memory. */
static weft_status make_buffers(struct probe_gpu *gpu)
{
    const struct gpu_api *driver = gpu->device.driver;
    size_t free_bytes = 0, total = 0;
    CUresult result = driver->MemGetInfo(&free_bytes, &total);
    if (result)
        return gpu_api_fail(driver, result, "cuMemGetInfo on %s", gpu->address);
    for (gpu->bytes = FULL_BYTES; gpu->bytes > free_bytes / 8;)
        gpu->bytes /= 2;
    if (gpu->bytes < WARM_BYTES)
        return base_fail(WEFT_ERR_NO_MEMORY,
                         "%zu MiB of GPU memory are free at %s: too little to "
                         "measure",
                         free_bytes >> 20, gpu->address);
    result = driver->MemAlloc(&gpu->out, gpu->bytes);
    if (!result)
        result = driver->MemAlloc(&gpu->in, gpu->bytes);
    if (!result)
        result = driver->MemAlloc(&gpu->area, sizeof(struct prove_area) + FLAG_BYTES);
    return result ? gpu_api_fail(driver, result, "cuMemAlloc of %zu MiB on %s", gpu->bytes >> 20,
                                 gpu->address)
                  : WEFT_OK;
}

static weft_status make_stream(struct probe_gpu *gpu)
{
    const struct gpu_api *driver = gpu->device.driver;
    CUresult result = driver->StreamCreate(&gpu->stream, CU_STREAM_NON_BLOCKING);
    if (result)
        return gpu_api_fail(driver, result, "cuStreamCreate on %s", gpu->address);
    result = driver->EventCreate(&gpu->begun, 0);
    if (!result)
        result = driver->EventCreate(&gpu->ended, 0);
    return result ? gpu_api_fail(driver, result, "cuEventCreate on %s", gpu->address) : WEFT_OK;
}

static weft_status open_probed_gpu(struct probe_gpus *gpus, struct probe_gpu *gpu)
{
    char ordinal[16];
    weft_status status = find_ordinal(&gpus->driver, gpu, ordinal, sizeof ordinal);
    if (!status)
        status = gpu_device_open(&gpu->device, &gpus->driver, NULL, ordinal, 0);
    if (!status)
        status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = make_stream(gpu);
    if (!status)
        status = make_buffers(gpu);
    gpu_leave(&gpu->device);
    return status;
}

static void close_probed_gpu(struct probe_gpu *gpu)
{
    const struct gpu_api *driver = gpu->device.driver;
    if (!gpu->device.context || gpu_enter(&gpu->device))
        return;
    CUdeviceptr memory[] = {gpu->out, gpu->in, gpu->area};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        if (memory[i])
            driver->MemFree(memory[i]);
    if (gpu->begun)
        driver->EventDestroy(gpu->begun);
    if (gpu->ended)
        driver->EventDestroy(gpu->ended);
    if (gpu->stream)
        driver->StreamDestroy(gpu->stream);
    gpu_module_unload(&gpu->module);
    gpu_leave(&gpu->device);
    gpu_device_close(&gpu->device);
}

struct opening {
    struct probe_gpus *gpus;
    struct probe_gpu *gpu;
};

static void *open_gpu_once(void *argument)
{
    struct opening *opening = argument;
    struct probe_gpu *gpu = opening->gpu;
    gpu->status = open_probed_gpu(opening->gpus, gpu);
    if (gpu->status)
        snprintf(gpu->sentence, sizeof gpu->sentence, "%s", weft_last_error());
    gpu->tried = true;
    return NULL;
}

static weft_status get_gpu(struct probe_gpus *gpus, int index, struct probe_gpu **gpu)
{
    if (index < 0 || index >= gpus->n)
        return base_fail(WEFT_ERR_ARGUMENT, "there is no GPU %d", index);
    *gpu = &gpus->gpus[index];
    if (!(*gpu)->tried)
        open_gpu_once(&(struct opening){gpus, *gpu});
    return (*gpu)->status ? base_fail((*gpu)->status, "%s", (*gpu)->sentence) : WEFT_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

static struct {
    pthread_t thread;
    bool started;
} preparation;

/* The driver stays loaded, and initialized, until the process ends. */
static void *start_driver(void *unused)
{
    static struct gpu_api driver;
    (void)unused;
    gpu_api_open(&driver); /* the next one to open it reports a failure */
    return NULL;
}

void probe_gpus_prepare(void)
{
    if (!preparation.started)
        preparation.started = pthread_create(&preparation.thread, NULL, start_driver, NULL) == 0;
}

void probe_gpus_wait(void)
{
    if (preparation.started)
        pthread_join(preparation.thread, NULL);
    preparation.started = false;
}

weft_status probe_gpus_open(struct probe_gpus **result, const char *const *addresses, int n)
{
    *result = NULL;
    probe_gpus_wait();
    struct probe_gpus *gpus = calloc(1, sizeof *gpus);
    if (!gpus)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory to measure with");
    weft_status status = gpu_api_open(&gpus->driver);
    if (status) {
        free(gpus);
        return status;
    }
    gpus->n = n < PROBE_GPUS_MOST ? n : PROBE_GPUS_MOST;
    for (int i = 0; i < gpus->n; i++)
        gpus->gpus[i].address = addresses[i];
    *result = gpus;
    return WEFT_OK;
}

void probe_gpus_warm(struct probe_gpus *gpus)
{
    pthread_t threads[PROBE_GPUS_MOST];
    struct opening openings[PROBE_GPUS_MOST];
    bool started[PROBE_GPUS_MOST] = {false};
    for (int i = 0; i < gpus->n; i++) {
        openings[i] = (struct opening){gpus, &gpus->gpus[i]};
        started[i] = !gpus->gpus[i].tried &&
                     pthread_create(&threads[i], NULL, open_gpu_once, &openings[i]) == 0;
    }
    for (int i = 0; i < gpus->n; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}

/* Frees pinned memory while a context still exists. */
void probe_gpus_close(struct probe_gpus *gpus)
{
    if (!gpus)
        return;
    for (int i = 0; i < gpus->n; i++) {
        if (gpus->gpus[i].device.context && gpu_enter(&gpus->gpus[i].device) == WEFT_OK) {
            if (gpus->pinned_memory)
                gpus->driver.MemFreeHost(gpus->pinned_memory);
            if (gpus->host)
                gpus->driver.MemFreeHost(gpus->host);
            gpus->pinned_memory = gpus->host = NULL;
            gpu_leave(&gpus->gpus[i].device);
        }
    }
    for (int i = 0; i < gpus->n; i++)
        close_probed_gpu(&gpus->gpus[i]);
    gpu_api_close(&gpus->driver);
    free(gpus);
}

/* Allocates pinned memory once; the caller has made a context current. */
static weft_status make_pinned(struct probe_gpus *gpus, void **memory, CUdeviceptr *device,
                               size_t bytes)
{
    const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    if (*device)
        return WEFT_OK;
    void *made = *memory;
    CUresult result = made ? CUDA_SUCCESS : gpus->driver.MemHostAlloc(&made, bytes, flags);
    if (result)
        return gpu_api_fail(&gpus->driver, result, "cuMemHostAlloc of %zu bytes", bytes);
    *memory = made;
    result = gpus->driver.MemHostGetDevicePointer(device, made, 0);
    return result ? gpu_api_fail(&gpus->driver, result, "cuMemHostGetDevicePointer") : WEFT_OK;
}

/* Pins at least `bytes` for the copies of a GPU and the host. */
static weft_status pin_host(struct probe_gpus *gpus, size_t bytes)
{
    if (gpus->host && gpus->host_bytes < bytes) {
        gpus->driver.MemFreeHost(gpus->host);
        gpus->host = NULL;
        gpus->host_device = 0;
    }
    if (!gpus->host)
        gpus->host_bytes = bytes;
    return make_pinned(gpus, &gpus->host, &gpus->host_device, gpus->host_bytes);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Puts a copy on the stream of `gpu`, between two events. */
static weft_status start_copy(struct probe_gpu *gpu, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    const struct gpu_api *driver = gpu->device.driver;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = driver->EventRecord(gpu->begun, gpu->stream);
    if (!result)
        result = driver->MemcpyAsync(to, from, bytes, gpu->stream);
    if (!result)
        result = driver->EventRecord(gpu->ended, gpu->stream);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(driver, result, "cuMemcpyAsync of %zu MiB by %s", bytes >> 20,
                                 gpu->address)
                  : WEFT_OK;
}

static weft_status finish_copy(struct probe_gpu *gpu, double *ms)
{
    const struct gpu_api *driver = gpu->device.driver;
    float elapsed = 0;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = driver->StreamSynchronize(gpu->stream);
    if (!result)
        result = driver->EventElapsedTime(&elapsed, gpu->begun, gpu->ended);
    gpu_leave(&gpu->device);
    *ms = (double)elapsed;
    return result ? gpu_api_fail(driver, result, "waiting for a copy by %s", gpu->address)
                  : WEFT_OK;
}

static double median(double *values)
{
    for (int i = 1; i < COPIES; i++)
        for (int k = i; k > 0 && values[k] < values[k - 1]; k--) {
            double swap = values[k];
            values[k] = values[k - 1];
            values[k - 1] = swap;
        }
    return values[COPIES / 2];
}

static int64_t rate_mbps(size_t bytes, double ms)
{
    return ms > 0 ? (int64_t)((double)bytes / ms / 1000 + 0.5) : 0;
}

/* Size of a copy that takes no longer than the limit, from the time of a warm-up copy. */
static size_t copy_size(size_t most, double warm_ms, bool brief)
{
    double limit = brief ? BRIEF_COPY_MS : FULL_COPY_MS;
    size_t bytes = brief && most > BRIEF_BYTES ? BRIEF_BYTES : most;
    while (bytes > WARM_BYTES && warm_ms * (double)bytes / (double)WARM_BYTES > limit)
        bytes /= 2;
    return bytes;
}

static weft_status time_copies(struct probe_gpu *gpu, CUdeviceptr to, CUdeviceptr from, size_t most,
                               bool brief, int64_t *mbps)
{
    double ms[COPIES], warm_ms;
    weft_status status = start_copy(gpu, to, from, WARM_BYTES);
    if (!status)
        status = finish_copy(gpu, &warm_ms);
    if (status)
        return status;
    size_t bytes = copy_size(most, warm_ms, brief);
    for (int i = 0; i < COPIES && !status; i++) {
        status = start_copy(gpu, to, from, bytes);
        if (!status)
            status = finish_copy(gpu, &ms[i]);
    }
    if (!status)
        *mbps = rate_mbps(bytes, median(ms));
    return status;
}

/* Times both directions at the same time. The slower one counts; both start almost together. */
static weft_status time_both(struct probe_gpu *a, struct probe_gpu *b, size_t bytes, int64_t *mbps)
{
    double ms[COPIES], other_ms;
    for (int i = 0; i < COPIES; i++) {
        weft_status status = start_copy(a, b->in, a->out, bytes);
        if (status)
            return status;
        status = start_copy(b, a->in, b->out, bytes);
        weft_status first = finish_copy(a, &ms[i]);
        if (!status)
            status = finish_copy(b, &other_ms);
        if (status || first)
            return status ? status : first;
        if (other_ms > ms[i])
            ms[i] = other_ms;
    }
    *mbps = rate_mbps(2 * bytes, median(ms));
    return WEFT_OK;
}

static weft_status copy_pair(struct probe_gpu *a, struct probe_gpu *b, bool brief,
                             struct probe_pair *pair)
{
    size_t most = a->bytes < b->bytes ? a->bytes : b->bytes;
    weft_status status = time_copies(a, b->in, a->out, most, brief, &pair->write_mbps[0]);
    if (!status)
        status = time_copies(b, a->in, b->out, most, brief, &pair->write_mbps[1]);
    if (!status)
        status = time_copies(a, a->in, b->out, most, brief, &pair->read_mbps[0]);
    if (!status)
        status = time_copies(b, b->in, a->out, most, brief, &pair->read_mbps[1]);
    if (status)
        return status;
    int64_t slower =
        pair->write_mbps[0] < pair->write_mbps[1] ? pair->write_mbps[0] : pair->write_mbps[1];
    double warm_ms = slower ? (double)WARM_BYTES / (double)slower / 1000 : 0;
    return time_both(a, b, copy_size(most, warm_ms, brief), &pair->both_mbps);
}

weft_status probe_gpus_host(struct probe_gpus *gpus, int index, bool brief, struct probe_host *host)
{
    struct probe_gpu *gpu = NULL;
    *host = (struct probe_host){0};
    weft_status status = get_gpu(gpus, index, &gpu);
    if (!status)
        status = gpu_enter(&gpu->device);
    if (status)
        return status;
    map_probe(gpu->device.driver, gpu->device.device, gpu->device.bus_id, &host->mapping,
              host->evidence, sizeof host->evidence);
    status = pin_host(gpus, brief ? BRIEF_HOST_BYTES : FULL_HOST_BYTES);
    gpu_leave(&gpu->device);
    if (status)
        return status;
    size_t most = gpu->bytes < gpus->host_bytes ? gpu->bytes : gpus->host_bytes;
    status = time_copies(gpu, gpus->host_device, gpu->out, most, brief, &host->to_host_mbps);
    if (!status)
        status = time_copies(gpu, gpu->in, gpus->host_device, most, brief, &host->to_gpu_mbps);
    return status;
}

/* --- kernels on both -------------------------------------------------------------------------- */

static weft_status wait_for(struct probe_gpu *gpu, const char *what)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->device.driver->StreamSynchronize(gpu->stream);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(gpu->device.driver, result, "%s on %s", what, gpu->address)
                  : WEFT_OK;
}

static weft_status clear_area(struct probe_gpu *gpu)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->device.driver->MemsetD8Async(
        gpu->area, 0, sizeof(struct prove_area) + FLAG_BYTES, gpu->stream);
    if (!result)
        result = gpu->device.driver->StreamSynchronize(gpu->stream);
    gpu_leave(&gpu->device);
    return result ? gpu_api_fail(gpu->device.driver, result, "cuMemsetD8Async on %s", gpu->address)
                  : WEFT_OK;
}

static weft_status clear_areas(struct probe_gpu *a, struct probe_gpu *b)
{
    weft_status status = clear_area(a);
    return status ? status : clear_area(b);
}

static weft_status launch_kernel(struct probe_gpu *gpu, enum gpu_kernel kernel, unsigned threads,
                                 void **arguments)
{
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_launch(&gpu->module, kernel, 1, threads, gpu->stream, arguments);
    gpu_leave(&gpu->device);
    return status;
}

/* Launches a kernel on both GPUs and waits for both. When the second launch fails, the first kernel
 * ends by its time limit. */
static weft_status run_both(struct probe_gpu *const *ends, enum gpu_kernel kernel, unsigned threads,
                            void **first, void **second, const char *what)
{
    weft_status status = launch_kernel(ends[0], kernel, threads, first);
    if (status)
        return status;
    status = launch_kernel(ends[1], kernel, threads, second);
    weft_status here = wait_for(ends[0], what);
    weft_status there = status ? WEFT_OK : wait_for(ends[1], what);
    return status ? status : here ? here : there;
}

/* Portable pinned memory has one device address for all GPUs. */
static CUdeviceptr device_address(const struct probe_gpus *gpus, const void *pinned)
{
    return gpus->pinned_device + (CUdeviceptr)((const char *)pinned - (const char *)gpus->pinned);
}

static weft_status run_access_test(struct probe_gpus *gpus, struct probe_gpu *const *ends,
                                   uint64_t limit_ns)
{
    struct probe_pinned *pinned = gpus->pinned;
    memset(pinned, 0, sizeof *pinned);
    CUdeviceptr pairs[2], reports[2];
    for (int i = 0; i < 2; i++) {
        pinned->pairs[i] = (struct prove_pair){
            .own = (struct prove_area *)(uintptr_t)ends[i]->area,
            .peer = (struct prove_area *)(uintptr_t)ends[!i]->area,
            .me = (uint64_t)i,
            .other = (uint64_t)!i,
            .rounds = TEST_ROUNDS,
        };
        pairs[i] = device_address(gpus, &pinned->pairs[i]);
        reports[i] = device_address(gpus, &pinned->proofs[i]);
    }
    weft_status status = clear_areas(ends[0], ends[1]);
    if (status)
        return status;
    return run_both(
        ends, GPU_weft_kernel_prove, PROVE_THREADS, (void *[]){&pairs[0], &limit_ns, &reports[0]},
        (void *[]){&pairs[1], &limit_ns, &reports[1]}, "the kernel of the peer access test");
}

static bool only_timed_out(const struct prove_report *r)
{
    return r->stage == PROVE_GOOD || r->stage == PROVE_NO_FLAG || r->stage == PROVE_NO_ACK;
}

/* Sets the result. A side that read a wrong value is reported before a side that only timed out. */
static void set_pair_result(struct probe_gpus *gpus, struct probe_gpu *const *ends,
                            const char *const *names, struct probe_pair *pair)
{
    const struct prove_report *r = gpus->pinned->proofs;
    bool good = r[0].stage == PROVE_GOOD && r[1].stage == PROVE_GOOD;
    int who =
        !good && (r[0].stage == PROVE_GOOD || (only_timed_out(&r[0]) && !only_timed_out(&r[1])));
    char seen[200];
    prove_describe(&r[who], names[!who], seen, sizeof seen);
    pair->proof = good ? FOUND_PROVEN : FOUND_FAILED;
    if (good)
        snprintf(pair->evidence, sizeof pair->evidence, "%s", seen);
    else
        snprintf(pair->evidence, sizeof pair->evidence, "%s saw: %s", names[who], seen);
    (good ? proof_cache_add : proof_cache_remove)(&ends[0]->device.uuid, &ends[1]->device.uuid,
                                                  gpus->driver.driver_version);
}

static weft_status test_access(struct probe_gpus *gpus, struct probe_gpu *const *ends,
                               const char *const *names, struct probe_pair *pair)
{
    const struct prove_report *r = gpus->pinned->proofs;
    weft_status status = run_access_test(gpus, ends, TEST_LIMIT_NS);
    bool good = r[0].stage == PROVE_GOOD && r[1].stage == PROVE_GOOD;
    if (!status && !good && only_timed_out(&r[0]) && only_timed_out(&r[1]))
        status = run_access_test(gpus, ends, TEST_AGAIN_NS);
    if (!status)
        set_pair_result(gpus, ends, names, pair);
    return status;
}

static weft_status time_echo(struct probe_gpus *gpus, struct probe_gpu *const *ends,
                             struct probe_pair *pair)
{
    uint64_t untimed = ECHO_UNTIMED, rounds = ECHO_ROUNDS, limit_ns = ECHO_LIMIT_NS;
    uint64_t begins[2] = {1, 0};
    CUdeviceptr flags[2], reports[2];
    memset(gpus->pinned->echoes, 0, sizeof gpus->pinned->echoes);
    for (int i = 0; i < 2; i++) {
        flags[i] = ends[i]->area + sizeof(struct prove_area);
        reports[i] = device_address(gpus, &gpus->pinned->echoes[i]);
    }
    weft_status status = clear_areas(ends[0], ends[1]);
    if (!status)
        status = run_both(
            ends, GPU_weft_kernel_echo, 1,
            (void *[]){&flags[0], &flags[1], &begins[0], &untimed, &rounds, &limit_ns, &reports[0]},
            (void *[]){&flags[1], &flags[0], &begins[1], &untimed, &rounds, &limit_ns, &reports[1]},
            "the kernel of the latency test");
    const struct echo_report *r = &gpus->pinned->echoes[0];
    if (!status && r->rounds == ECHO_UNTIMED + ECHO_ROUNDS)
        pair->latency_ns = (int64_t)(r->elapsed_ns / (2 * ECHO_ROUNDS));
    return status;
}

/* --- peer access ------------------------------------------------------------------------------ */

static CUresult enable_access(struct probe_gpu *from, struct probe_gpu *to)
{
    if (gpu_enter(&from->device))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = from->device.driver->CtxEnablePeerAccess(to->device.context, 0);
    gpu_leave(&from->device);
    return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? CUDA_SUCCESS : result;
}

static void disable_access(struct probe_gpu *from, struct probe_gpu *to)
{
    if (gpu_enter(&from->device))
        return;
    from->device.driver->CtxDisablePeerAccess(to->device.context);
    gpu_leave(&from->device);
}

/* Enables peer access in both directions. False with the evidence: the driver does not offer it, or
 * refuses what it offers. */
static bool open_access(struct probe_gpu *const *ends, const char *const *names,
                        struct probe_pair *pair)
{
    const struct gpu_api *driver = ends[0]->device.driver;
    char error[160];
    for (int i = 0; i < 2; i++) {
        int can = 0;
        CUresult result =
            driver->DeviceCanAccessPeer(&can, ends[i]->device.device, ends[!i]->device.device);
        if (result || !can) {
            pair->proof = FOUND_NOT_OFFERED;
            snprintf(pair->evidence, sizeof pair->evidence, "cuDeviceCanAccessPeer(%s, %s): %s",
                     names[i], names[!i],
                     result ? gpu_api_error_text(driver, result, error, sizeof error) : "no");
            return false;
        }
    }
    for (int i = 0; i < 2; i++) {
        CUresult result = enable_access(ends[i], ends[!i]);
        if (!result)
            continue;
        pair->proof = FOUND_REFUSED;
        snprintf(pair->evidence, sizeof pair->evidence,
                 "cuCtxEnablePeerAccess by %s to %s: %s, though cuDeviceCanAccessPeer returns 1",
                 names[i], names[!i], gpu_api_error_text(driver, result, error, sizeof error));
        if (i)
            disable_access(ends[0], ends[1]);
        return false;
    }
    return true;
}

/* Loads the kernels once. A kernel that waits on this GPU would delay the loading: both GPUs of a
 * pair load theirs first. */
static weft_status load_kernels(struct probe_gpu *gpu)
{
    if (gpu->module.module)
        return WEFT_OK;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_module_load(&gpu->module, &gpu->device);
    gpu_leave(&gpu->device);
    return status;
}

static weft_status use_pair(struct probe_gpus *gpus, int a, int b, struct probe_gpu **ends)
{
    weft_status status = get_gpu(gpus, a, &ends[0]);
    if (!status)
        status = get_gpu(gpus, b, &ends[1]);
    for (int i = 0; i < 2 && !status; i++)
        status = load_kernels(ends[i]);
    if (!status)
        status = gpu_enter(&ends[0]->device);
    if (status)
        return status;
    status = make_pinned(gpus, &gpus->pinned_memory, &gpus->pinned_device, sizeof *gpus->pinned);
    gpus->pinned = gpus->pinned_memory;
    gpu_leave(&ends[0]->device);
    return status;
}

weft_status probe_gpus_pair(struct probe_gpus *gpus, int a, int b, bool brief,
                            struct probe_pair *pair)
{
    struct probe_gpu *ends[2];
    char text[2][16];
    const char *names[2] = {text[0], text[1]};
    *pair = (struct probe_pair){.proof = FOUND_NOT_OFFERED};
    snprintf(text[0], sizeof text[0], "gpu%d", a);
    snprintf(text[1], sizeof text[1], "gpu%d", b);
    weft_status status = use_pair(gpus, a, b, ends);
    if (status || !open_access(ends, names, pair))
        return status;
    status = test_access(gpus, ends, names, pair);
    if (!status && pair->proof == FOUND_PROVEN)
        status = time_echo(gpus, ends, pair);
    if (!status && pair->proof == FOUND_PROVEN)
        status = copy_pair(ends[0], ends[1], brief, pair);
    disable_access(ends[0], ends[1]);
    disable_access(ends[1], ends[0]);
    return status;
}

weft_status probe_gpus_load(struct probe_gpus *gpus, int a, int b, bool brief)
{
    struct probe_gpu *ends[2];
    struct probe_pair pair;
    weft_status status = use_pair(gpus, a, b, ends);
    if (status || !open_access(ends, (const char *const[]){"", ""}, &pair))
        return status;
    status = copy_pair(ends[0], ends[1], brief, &pair);
    disable_access(ends[0], ends[1]);
    disable_access(ends[1], ends[0]);
    return status;
}

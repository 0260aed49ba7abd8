/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether two GPUs of a node can load, store, signal and do atomics in each other's memory.
 * Kernels run on both at the same time and exchange patterns within a bounded time. Both sides get
 * both results, and a pair that fails is dropped with the result as evidence. */
#include "gpu/stream.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"
#include "gpu/multipath/relay.h"
#include "gpu/test/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 8,
    ROUNDS_SAME_GPU = 2, /* processes share one GPU in turns: each answer takes a time slice */
};
static const uint64_t PROOF_LIMIT_NS = 4000000000ull;

enum { PROVE_OFF_CHOICE = 2, PROVE_ALWAYS_CHOICE = 0 }; /* values of WEFT_PROVE */

/* What a PE reports to the others about one pair. */
struct pair_verdict {
    int32_t stage; /* enum prove_stage; 0: not tested; -1: the kernel failed */
    char evidence[180];
};

struct proof_run {
    struct gpu *gpu;
    int *slots; /* slots of the peers to test, ascending */
    int count;
    struct prove_pair *pairs; /* in pinned host memory, as the reports */
    struct prove_report *reports;
    CUdeviceptr pairs_device, reports_device;
};

/* Returns the address of local PE `from`'s area in local PE `at`'s window. */
static CUdeviceptr area_address(const struct gpu *gpu, int at, int from)
{
    return gpu_address(gpu, at,
                       gpu->layout.proof_offset + (size_t)from * sizeof(struct prove_area));
}

static bool is_same_gpu(const struct gpu *gpu, int slot)
{
    return memcmp(&gpu->heap.windows[slot].gpu.uuid, &gpu->device.uuid, sizeof(CUuuid)) == 0;
}

/* ------------------------------------------------------------------------ which pairs to test */

/* A result of an earlier job counts only when both sides have it: each PE reports to all others
 * which peers it need not test. */
static weft_status choose_pairs(struct proof_run *run)
{
    struct gpu *gpu = run->gpu;
    struct boot *boot = gpu->boot;
    size_t n = (size_t)boot->npes;
    unsigned char *mine = calloc(n + n * n, 1);
    if (!mine)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d pairs", boot->npes);
    unsigned char *all = mine + n;
    bool cached = config_choice(CONFIG_PROVE) != PROVE_ALWAYS_CHOICE;
    for (int slot = 0; slot < boot->local_npes; slot++)
        mine[boot->local_pes[slot]] =
            slot == boot->local_pe || !gpu->heap.windows[slot].mapped ||
            (cached && proof_cache_contains(&gpu->device.uuid, &gpu->heap.windows[slot].gpu.uuid,
                                            gpu->driver.driver_version));
    weft_status status = boot->ops->allgather(boot, mine, all, n);
    for (int slot = 0; !status && slot < boot->local_npes; slot++) {
        size_t pe = (size_t)boot->local_pes[slot];
        if (slot == boot->local_pe || !gpu->heap.windows[slot].mapped)
            continue;
        if (mine[pe] && all[pe * n + (size_t)boot->pe]) {
            snprintf(gpu->heap.windows[slot].evidence, sizeof gpu->heap.windows[slot].evidence,
                     "tested before since this machine booted (WEFT_PROVE=always tests again)");
            continue;
        }
        run->slots[run->count++] = slot;
    }
    free(mine);
    return status;
}

/* ----------------------------------------------------------------------------------- the run */

static weft_status create_tables(struct proof_run *run)
{
    struct gpu *gpu = run->gpu;
    size_t pairs_bytes = (size_t)run->count * sizeof *run->pairs;
    size_t bytes = pairs_bytes + (size_t)run->count * sizeof *run->reports;
    void *pinned;
    CUresult result = gpu->driver.MemHostAlloc(&pinned, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "cuMemHostAlloc of %zu bytes", bytes);
    memset(pinned, 0, bytes);
    run->pairs = pinned;
    run->reports = (struct prove_report *)((char *)pinned + pairs_bytes);
    result = gpu->driver.MemHostGetDevicePointer(&run->pairs_device, pinned, 0);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "cuMemHostGetDevicePointer");
    run->reports_device = run->pairs_device + pairs_bytes;
    int me = gpu->boot->local_pe;
    for (int i = 0; i < run->count; i++) {
        int slot = run->slots[i];
        run->pairs[i] = (struct prove_pair){
            .own = (struct prove_area *)(uintptr_t)area_address(gpu, me, slot),
            .peer = (struct prove_area *)(uintptr_t)area_address(gpu, slot, me),
            .me = (uint64_t)me,
            .other = (uint64_t)slot,
            .rounds = is_same_gpu(gpu, slot) ? ROUNDS_SAME_GPU : ROUNDS,
        };
    }
    return WEFT_OK;
}

static weft_status run_kernel(struct proof_run *run)
{
    struct gpu *gpu = run->gpu;
    uint64_t limit = PROOF_LIMIT_NS;
    /* The other PEs wait for the verdicts. Their wait limit must not expire before this kernel's
     * limit. */
    if (gpu->wait_limit_ns && gpu->wait_limit_ns / 4 < limit)
        limit = gpu->wait_limit_ns / 4;
    void *arguments[] = {&run->pairs_device, &limit, &run->reports_device};
    weft_status status = gpu_launch(&gpu->module, GPU_weft_kernel_prove, (unsigned)run->count,
                                    PROVE_THREADS, gpu->streams[0].stream, arguments);
    if (status)
        return status;
    return gpu_wait_stream(gpu, gpu->streams[0].stream, "the test of its links");
}

void prove_describe(const struct prove_report *r, const char *peer, char *text, size_t bytes)
{
    unsigned long long index = r->index, expected = r->expected, seen = r->seen, round = r->round;
    double ms = (double)r->elapsed_ns / 1e6;
    switch (r->stage) {
    case PROVE_GOOD:
        snprintf(text, bytes, "patterns, flags and atomics exchanged with %s in %.2f ms", peer, ms);
        return;
    case PROVE_NO_FLAG:
    case PROVE_NO_ACK:
        snprintf(text, bytes,
                 "round %llu: the %s of %s did not arrive within %.0f ms (at %llu instead of "
                 "%llu)",
                 round, r->stage == PROVE_NO_FLAG ? "flag" : "answer", peer, ms, seen, expected);
        return;
    case PROVE_STALE:
        snprintf(text, bytes,
                 "round %llu: word %llu stored by %s is %#llx where %#llx was stored before its "
                 "flag",
                 round, index, peer, seen, expected);
        return;
    case PROVE_READ_BACK:
        snprintf(text, bytes, "round %llu: word %llu loaded from %s is %#llx, stored was %#llx",
                 round, index, peer, seen, expected);
        return;
    case PROVE_NO_LOCK:
        snprintf(text, bytes, "compare-and-swap with %s did not get the lock within %.0f ms", peer,
                 ms);
        return;
    case PROVE_COUNT:
        snprintf(text, bytes, "atomic additions with %s gave %llu instead of %llu", peer, seen,
                 expected);
        return;
    case PROVE_GUARD:
        snprintf(text, bytes,
                 "sections guarded by compare-and-swap with %s counted %llu instead of %llu", peer,
                 seen, expected);
        return;
    default:
        snprintf(text, bytes, "the test kernel left no report on %s", peer);
    }
}

/* ----------------------------------------------------------------------------------- verdicts */

static void collect_verdicts(const struct proof_run *run, weft_status ran,
                             struct pair_verdict *mine)
{
    const struct boot *boot = run->gpu->boot;
    for (int i = 0; i < run->count; i++) {
        int pe = boot->local_pes[run->slots[i]];
        struct pair_verdict *verdict = &mine[pe];
        char peer[24];
        snprintf(peer, sizeof peer, "PE %d", pe);
        verdict->stage = ran ? -1 : (int32_t)run->reports[i].stage;
        if (ran)
            snprintf(verdict->evidence, sizeof verdict->evidence, "%s", base_last_error());
        else
            prove_describe(&run->reports[i], peer, verdict->evidence, sizeof verdict->evidence);
    }
}

static void apply_verdicts(struct proof_run *run, int slot, const struct pair_verdict *here,
                           const struct pair_verdict *there)
{
    struct gpu *gpu = run->gpu;
    struct gpu_window *window = &gpu->heap.windows[slot];
    int pe = gpu->boot->local_pes[slot];
    char evidence[sizeof window->evidence];
    if (here->stage == PROVE_GOOD && there->stage == PROVE_GOOD) {
        snprintf(window->evidence, sizeof window->evidence, "tested: %s", here->evidence);
        return;
    }
    /* Prefer the evidence of the side that found a wrong value: the other side then only timed
     * out. */
    bool ours =
        here->stage != PROVE_GOOD && (here->stage > PROVE_NO_FLAG || there->stage <= PROVE_NO_FLAG);
    snprintf(evidence, sizeof evidence, "the test failed, PE %d saw: %s", ours ? gpu->boot->pe : pe,
             ours ? here->evidence : there->evidence);
    log_warn(LOG_GPU, "GPU memory of PE %d is not accessed directly: %s", pe, evidence);
    gpu_relay_add_fallback(gpu, slot);
    gpu_heap_drop(&gpu->heap, slot, evidence);
}

static weft_status exchange_verdicts(struct proof_run *run, weft_status ran)
{
    struct gpu *gpu = run->gpu;
    struct boot *boot = gpu->boot;
    size_t n = (size_t)boot->npes;
    struct pair_verdict *mine = calloc(n + n * n, sizeof *mine);
    if (!mine)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d verdicts", boot->npes);
    struct pair_verdict *all = mine + n;
    collect_verdicts(run, ran, mine);
    weft_status status = boot->ops->allgather(boot, mine, all, n * sizeof *mine);
    for (int i = 0; !status && i < run->count; i++) {
        int slot = run->slots[i];
        size_t pe = (size_t)boot->local_pes[slot];
        apply_verdicts(run, slot, &mine[pe], &all[pe * n + (size_t)boot->pe]);
        if (gpu->heap.windows[slot].mapped && slot > boot->local_pe)
            proof_cache_add(&gpu->device.uuid, &gpu->heap.windows[slot].gpu.uuid,
                            gpu->driver.driver_version);
    }
    free(mine);
    return status;
}

static weft_status clear_areas(struct gpu *gpu)
{
    int me = gpu->boot->local_pe;
    CUresult result = gpu->driver.MemsetD8Async(
        area_address(gpu, me, 0), 0, (size_t)gpu->boot->local_npes * sizeof(struct prove_area),
        gpu->streams[0].stream);
    if (result)
        return gpu_api_fail(&gpu->driver, result, "clearing the test areas");
    return gpu_wait_stream(gpu, gpu->streams[0].stream, "clearing the test areas");
}

static weft_status prove_chosen(struct proof_run *run)
{
    struct gpu *gpu = run->gpu;
    weft_status ran = gpu_enter(&gpu->device);
    bool entered = !ran;
    if (!ran)
        ran = clear_areas(gpu);
    if (!ran && run->count > 0)
        ran = create_tables(run);
    /* A PE that cannot take part reports this in its verdicts. The kernels of the others end at
     * their limit. */
    weft_status status = gpu->boot->ops->barrier(gpu->boot);
    if (!status && !ran && run->count > 0)
        ran = run_kernel(run);
    if (!status)
        status = exchange_verdicts(run, ran);
    if (run->pairs)
        gpu->driver.MemFreeHost(run->pairs);
    if (entered)
        gpu_leave(&gpu->device);
    return status;
}

weft_status gpu_prove(struct gpu *gpu)
{
    if (config_choice(CONFIG_PROVE) == PROVE_OFF_CHOICE || gpu->boot->npes == 1)
        return WEFT_OK;
    struct proof_run run = {.gpu = gpu};
    run.slots = calloc((size_t)gpu->boot->local_npes, sizeof *run.slots);
    weft_status status =
        run.slots ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the test");
    status = boot_agree(gpu->boot, status);
    if (!status)
        status = choose_pairs(&run);
    /* Checks whether any PE has a pair to test; in most jobs none has. */
    int32_t mine = run.count, *all = NULL;
    bool any = false;
    if (!status && (all = calloc((size_t)gpu->boot->npes, sizeof *all)))
        status = gpu->boot->ops->allgather(gpu->boot, &mine, all, sizeof mine);
    for (int pe = 0; all && !status && pe < gpu->boot->npes; pe++)
        any |= all[pe] > 0;
    free(all);
    if (!status && any)
        status = prove_chosen(&run);
    free(run.slots);
    return status;
}

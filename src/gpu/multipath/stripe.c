/* SPDX-License-Identifier: Apache-2.0 */
/* See stripe.h. This file opens the routes to a peer and splits a copy over them. stripe_measure.c
 * measures from which size and with which shares. */
#include "gpu/multipath/stripe_set.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "gpu/multipath/links.h"
#include "gpu/multipath/relay.h"
#include "gpu/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORCED_FROM = 64 << 10 }; /* bytes from which WEFT_TEST_STRIPES stripes copies */

weft_status gpu_stripes_start(struct gpu *gpu)
{
    int64_t wanted = config_int(CONFIG_TEST_STRIPES);
    size_t locals = (size_t)gpu->boot->local_npes;
    if (wanted < 0 || wanted > GPU_ROUTES_MOST)
        return base_fail(WEFT_ERR_CONFIG, "WEFT_TEST_STRIPES is %lld; expected 0 to %d routes",
                         (long long)wanted, GPU_ROUTES_MOST);
    if (wanted == 1 || locals < 2)
        return WEFT_OK;
    gpu->multipath.stripes = calloc(locals, sizeof *gpu->multipath.stripes);
    if (!gpu->multipath.stripes)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for routes to %zu PEs", locals);
    for (size_t slot = 0; slot < locals; slot++) {
        pthread_mutex_init(&gpu->multipath.stripes[slot].lock, NULL);
        gpu->multipath.stripes[slot].from = wanted ? FORCED_FROM : GPU_STRIPE_MEASURE_BYTES;
    }
    return WEFT_OK;
}

static void destroy_events(struct gpu_stripes *set)
{
    for (int i = 0; i < GPU_ROUTES_MOST; i++)
        if (set->ended[i])
            set->lead->driver.EventDestroy(set->ended[i]);
    if (set->begun)
        set->lead->driver.EventDestroy(set->begun);
    memset(set->ended, 0, sizeof set->ended);
    set->begun = NULL;
    gpu_host_route_close(&set->host);
}

void gpu_stripes_stop(struct gpu *gpu)
{
    for (int slot = 0; gpu->multipath.stripes && slot < gpu->boot->local_npes; slot++) {
        destroy_events(&gpu->multipath.stripes[slot]);
        pthread_mutex_destroy(&gpu->multipath.stripes[slot].lock);
    }
    free(gpu->multipath.stripes);
    gpu->multipath.stripes = NULL;
}

void gpu_stripes_text(struct gpu *gpu, int slot, char *text, size_t bytes)
{
    text[0] = '\0';
    if (!gpu->multipath.stripes || slot < 0)
        return;
    pthread_mutex_lock(&gpu->multipath.stripes[slot].lock);
    snprintf(text, bytes, "%s", gpu->multipath.stripes[slot].text);
    pthread_mutex_unlock(&gpu->multipath.stripes[slot].lock);
}

/* ------------------------------------------------------------------------------- a striped copy */

/* Splits a copy into shares of whole pages; the first route takes the rest. */
static void split_bytes(size_t bytes, const struct gpu_stripes *set, const unsigned *share,
                        size_t *part)
{
    enum { GRAIN = 4096 }; /* bytes */
    part[0] = bytes;
    for (int i = 1; i < set->routes.n; i++) {
        part[i] = bytes / GPU_STRIPE_WHOLE * share[i] / GRAIN * GRAIN;
        part[0] -= part[i];
    }
}

/* Enqueues the share of a relay GPU and records an event after it. */
static weft_status copy_relay_share(struct gpu_stripes *set, int i, unsigned stream_index,
                                    void *dst, const void *src, size_t bytes)
{
    struct gpu *relay_gpu = set->issuer[i];
    CUstream stream = stream_of(relay_gpu, stream_index)->stream;
    weft_status status = gpu_enter(&relay_gpu->device);
    if (status)
        return status;
    CUresult result = relay_gpu->driver.StreamWaitEvent(stream, set->begun, 0);
    if (!result)
        status = gpu_copy_on(relay_gpu, stream, dst, src, bytes);
    if (!result && !status)
        result = relay_gpu->driver.EventRecord(set->ended[i], stream);
    if (result)
        status = gpu_api_fail(&relay_gpu->driver, result, "an event of a share by GPU %d",
                              relay_gpu->device.ordinal);
    gpu_leave(&relay_gpu->device);
    return status;
}

/* After a failure in part: waits for the shares that were enqueued, so that the caller may reuse
 * its memory. */
static void drain_routes(struct gpu_stripes *set, unsigned stream_index)
{
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    for (int i = 0; i < set->routes.n; i++)
        if (!gpu_enter(&set->issuer[i]->device)) {
            gpu_wait_stream(set->issuer[i], stream_of(set->issuer[i], stream_index)->stream,
                            "a share of a copy");
            gpu_leave(&set->issuer[i]->device);
        }
    gpu_host_route_drain(&set->host);
    base_fail(WEFT_ERR_SYSTEM, "%s", sentence);
}

/* Enqueues all shares. The internal stream of the first route waits for them, so a wait for that
 * stream covers the whole copy. */
static weft_status queue_shares(struct gpu_stripes *set, unsigned stream_index, char *dst,
                                const char *src, const size_t *part)
{
    const struct gpu_api *driver = &set->lead->driver;
    CUstream stream = stream_of(set->lead, stream_index)->stream;
    CUresult result = driver->EventRecord(set->begun, stream);
    weft_status status = WEFT_OK;
    size_t at = part[0];
    for (int i = 1; i < set->routes.n && !result && !status; at += part[i++])
        if (part[i] && set->routes.via[i] == GPU_ROUTE_HOST)
            status = gpu_host_route_copy(&set->host, set->begun, set->ended[i], dst + at, src + at,
                                         part[i]);
        else if (part[i])
            status = copy_relay_share(set, i, stream_index, dst + at, src + at, part[i]);
    if (!result && !status && part[0])
        status = gpu_copy_on(set->lead, stream, dst, src, part[0]);
    for (int i = 1; i < set->routes.n && !result && !status; i++)
        if (part[i])
            result = driver->StreamWaitEvent(stream, set->ended[i], 0);
    if (result)
        status = gpu_api_fail(driver, result, "an event of a striped copy on GPU %d",
                              set->lead->device.ordinal);
    if (status)
        drain_routes(set, stream_index);
    return status;
}

weft_status gpu_stripe_parts(struct gpu_stripes *set, unsigned stream_index, void *dst,
                             const void *src, size_t bytes, const unsigned *share)
{
    size_t part[GPU_ROUTES_MOST];
    struct gpu_stream *lead = stream_of(set->lead, stream_index);
    split_bytes(bytes, set, share, part);
    stream_begin(lead);
    weft_status status = queue_shares(set, stream_index, dst, src, part);
    stream_queued(lead);
    return status;
}

/* ----------------------------------------------------------------------------------- the routes */

static bool is_lead(const struct gpu_stripes *set, const struct gpu *gpu, int via)
{
    return via == GPU_ROUTE_DIRECT ? set->lead == gpu : set->lead->device.ordinal == via;
}

/* Puts the lead's route, which unstriped copies of this pair take, first. Path relay has no direct
 * route. */
static void order_routes(struct gpu_stripes *set, const struct gpu *gpu)
{
    struct gpu_routes found = set->routes;
    int n = 1;
    set->routes.via[0] = set->lead == gpu ? GPU_ROUTE_DIRECT : set->lead->device.ordinal;
    for (int i = 0; i < found.n && n < GPU_ROUTES_MOST; i++)
        if (found.via[i] != GPU_ROUTE_DIRECT && !is_lead(set, gpu, found.via[i]))
            set->routes.via[n++] = found.via[i];
    set->routes.n = n;
}

static weft_status create_events(struct gpu_stripes *set)
{
    CUresult result = CUDA_SUCCESS;
    weft_status status = WEFT_OK;
    for (int i = 0; i < set->routes.n && !status; i++) {
        struct gpu *issuer = set->issuer[i];
        status = gpu_enter(&issuer->device);
        if (status)
            break;
        result =
            issuer->driver.EventCreate(i ? &set->ended[i] : &set->begun, CU_EVENT_DISABLE_TIMING);
        if (result)
            status = gpu_api_fail(&issuer->driver, result, "cuEventCreate on GPU %d",
                                  issuer->device.ordinal);
        gpu_leave(&issuer->device);
    }
    return status;
}

/* Opens the GPU that carries a route's share. Returns its index in gpu->relay_gpus[]; -1 with
 * base_last_error(). */
static int open_route(struct gpu_stripes *set, struct gpu *gpu, int slot, int via, int peers)
{
    int relay = gpu_relay_open(gpu, via == GPU_ROUTE_HOST ? peers : via, slot);
    if (relay >= 0 && via == GPU_ROUTE_HOST &&
        gpu_host_route_open(&set->host, gpu, gpu->multipath.relay_gpus[relay]))
        return -1;
    return relay;
}

/* Opens all routes. Leaves out a route whose GPU cannot be opened or cannot access both sides. */
static void open_routes(struct gpu_stripes *set, struct gpu *gpu, int slot, int peers)
{
    int n = 1;
    set->issuer[0] = set->lead;
    set->mask = 0;
    for (int i = 1; i < set->routes.n; i++) {
        int relay = open_route(set, gpu, slot, set->routes.via[i], peers);
        if (relay < 0) {
            char name[GPU_ROUTE_NAME];
            gpu_route_name(set->routes.via[i], name);
            snprintf(set->text, sizeof set->text, "one route: %.150s", base_last_error());
            log_info(LOG_GPU, "copies to PE %d do not go over %s: %s", gpu->boot->local_pes[slot],
                     name, base_last_error());
            continue;
        }
        set->mask |= 1u << relay;
        set->issuer[n] = gpu->multipath.relay_gpus[relay];
        set->routes.via[n++] = set->routes.via[i];
    }
    set->routes.n = n;
}

/* Returns the size from which the host route is measured, by WEFT_STRIPE_HOST; 0: not requested. */
static size_t host_threshold(void)
{
    uint64_t wanted = config_size(CONFIG_STRIPE_HOST);
    return wanted && wanted < GPU_STRIPE_MEASURE_BYTES ? GPU_STRIPE_MEASURE_BYTES : (size_t)wanted;
}

/* Finds and opens the routes. Returns false when the only other route is worth measuring for larger
 * copies only. */
static bool find_routes(struct gpu_stripes *set, struct gpu *gpu, int slot, size_t bytes)
{
    int64_t wanted = config_int(CONFIG_TEST_STRIPES);
    int most = wanted > 1 ? (int)wanted : GPU_ROUTES_MOST, ordinal = -1;
    CUdevice peer;
    if (!gpu->multipath.links) {
        gpu->multipath.links = malloc(sizeof *gpu->multipath.links);
        if (!gpu->multipath.links)
            return true;
        gpu_links_read(&gpu->device, gpu->multipath.links);
    }
    gpu_device_find(&gpu->device, &gpu->heap.windows[slot].gpu.uuid, &peer, &ordinal);
    gpu_routes_find(gpu->multipath.links, gpu->device.ordinal, ordinal, GPU_ROUTES_MOST, wanted > 1,
                    &set->routes);
    bool host = host_threshold() && gpu_routes_add_host(gpu->multipath.links, gpu->device.ordinal,
                                                        ordinal, wanted > 1, &set->routes);
    set->measured_bytes = host ? host_threshold() : GPU_STRIPE_MEASURE_BYTES;
    if (wanted <= 1 && bytes < set->measured_bytes)
        return false;
    bool several = set->routes.n > 1;
    order_routes(set, gpu);
    if (set->routes.n > most)
        set->routes.n = most;
    snprintf(set->text, sizeof set->text, "one route: %s",
             several ? "no other route than that of path relay" : set->routes.text);
    open_routes(set, gpu, slot, ordinal);
    if (set->routes.n > 1)
        gpu_routes_list(&set->routes);
    return true;
}

static void disable_striping(struct gpu_stripes *set)
{
    set->decided = true;
    set->routes.n = 1;
    gpu_host_route_close(&set->host);
    atomic_store_explicit(&set->from, SIZE_MAX, memory_order_relaxed);
}

static void report_routes(struct gpu *gpu, int slot)
{
    const char *text = gpu->multipath.stripes[slot].text;
    log_info(LOG_GPU, "copies to GPU memory of PE %d: %s", gpu->boot->local_pes[slot], text);
    if (gpu->multipath.changed)
        gpu->multipath.changed(gpu->multipath.changed_context, gpu->boot->local_pes[slot]);
}

static void share_equally(struct gpu_stripes *set)
{
    for (int i = 0; i < set->routes.n; i++)
        set->share[i] = GPU_STRIPE_WHOLE / (unsigned)set->routes.n;
    snprintf(set->text, sizeof set->text, "striped over %d routes by WEFT_TEST_STRIPES (%.120s)",
             set->routes.n, set->routes.text);
}

/* Chooses the routes of a pair, and measures them unless WEFT_TEST_STRIPES forces them. The caller
 * holds the lock of the set. WEFT_OK also where there is only one route, or where the decision is
 * postponed. */
static weft_status decide_routes(struct gpu_stripes *set, struct gpu *gpu, struct gpu *issuer,
                                 int slot, unsigned stream_index, void *dst, const void *src,
                                 size_t bytes)
{
    bool forced = config_int(CONFIG_TEST_STRIPES) > 1;
    if (set->lead)
        destroy_events(set); /* another path is used for this pair now */
    set->decided = false;
    set->lead = NULL;
    if (!forced && bytes < GPU_STRIPE_MEASURE_BYTES) {
        atomic_store_explicit(&set->from, GPU_STRIPE_MEASURE_BYTES, memory_order_relaxed);
        return WEFT_OK;
    }
    if (!gpu_heap_begin_opening(&gpu->heap))
        return WEFT_OK; /* the heap is growing: decide at the next copy */
    set->lead = issuer;
    set->routes.n = 1;
    bool found = find_routes(set, gpu, slot, bytes);
    gpu_heap_end_opening(&gpu->heap);
    if (!found) {
        set->lead = NULL;
        atomic_store_explicit(&set->from, set->measured_bytes, memory_order_relaxed);
        return WEFT_OK;
    }
    weft_status status = set->routes.n > 1 ? create_events(set) : WEFT_OK;
    if (status || set->routes.n < 2) {
        if (status)
            snprintf(set->text, sizeof set->text, "one route: %.150s", base_last_error());
        disable_striping(set);
        return WEFT_OK;
    }
    set->decided = true;
    if (forced) {
        share_equally(set);
        return WEFT_OK;
    }
    status = gpu_stripe_measure(set, stream_index, dst, src);
    if (status || set->routes.n < 2)
        disable_striping(set);
    return status;
}

/* Returns whether copies can be striped now. A relay GPU loses its access when the heap grew and
 * the new memory could not be opened to it. */
static bool can_stripe(const struct gpu_stripes *set, const struct gpu *gpu,
                       const struct gpu *issuer, int slot)
{
    uint32_t open = atomic_load_explicit(&gpu->heap.windows[slot].stripes, memory_order_acquire);
    return set->routes.n > 1 && set->lead == issuer && (open & set->mask) == set->mask;
}

static bool is_in_heap(const struct gpu *gpu, const void *at)
{
    return (uintptr_t)at - gpu->heap.reservation < gpu->heap.reserved_bytes;
}

weft_status gpu_copy_peer(struct gpu *gpu, struct gpu *issuer, int slot, unsigned stream_index,
                          void *dst, const void *src, size_t bytes, enum gpu_copy_mode mode)
{
    struct gpu_stripes *set = gpu->multipath.stripes ? &gpu->multipath.stripes[slot] : NULL;
    if (!set || bytes < atomic_load_explicit(&set->from, memory_order_relaxed) ||
        !is_in_heap(gpu, dst) || !is_in_heap(gpu, src))
        return gpu_copy(issuer, stream_index, dst, src, bytes, mode);
    weft_status status = gpu_enter(&issuer->device);
    if (status)
        return status;
    pthread_mutex_lock(&set->lock);
    bool newly_decided = !set->decided || set->lead != issuer;
    if (newly_decided)
        status = decide_routes(set, gpu, issuer, slot, stream_index, dst, src, bytes);
    bool striped = !status && can_stripe(set, gpu, issuer, slot) && bytes >= set->from;
    if (striped)
        status = gpu_stripe_parts(set, stream_index, dst, src, bytes, set->share);
    newly_decided = newly_decided && set->decided;
    pthread_mutex_unlock(&set->lock);
    if (newly_decided)
        report_routes(gpu, slot);
    if (striped && !status && mode == GPU_DONE)
        status = stream_drain(issuer, stream_of(issuer, stream_index));
    gpu_leave(&issuer->device);
    return striped || status ? status : gpu_copy(issuer, stream_index, dst, src, bytes, mode);
}

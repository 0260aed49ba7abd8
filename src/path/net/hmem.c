/* SPDX-License-Identifier: Apache-2.0 */
/* Registers GPU memory with the provider, by dma-buf or by address (nvidia-peermem or the provider
 * resolves the address), so that NICs access it directly. The library trusts only what it has
 * tested: it tries a real registration, and for each peer a path test writes bytes and reads them
 * back before any transfer of the application uses the method (prove()). A failure is kept with its
 * cause, and GPU memory then goes through pinned memory (stage.c) at the end that failed.
 *
 * Order: NIC writes into GPU memory may become visible to the GPU later than a completion, a
 * message or a flag in host memory that follows them, since they take another route. So the writer
 * marks the first message after such writes (NET_FLUSH_GPU), and the owner makes the writes visible
 * before it executes that message: by the driver's flush if the GPU does not keep the order itself.
 * A quiet sends such a message and waits for its acknowledgement. After a get into GPU memory this
 * PE flushes its own GPU. */
#include "path/net/hmem.h"
#include "path/net/stripe.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libfabric's dma-buf interface, which its headers have since 1.20. */
enum { DMABUF_VERSION = FI_VERSION(1, 20), HMEM_VERSION = FI_VERSION(1, 11) };
#define MR_DMABUF (1ull << 40)
struct mr_dmabuf {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr;
};
#ifdef FI_MR_DMABUF
_Static_assert(MR_DMABUF == FI_MR_DMABUF, "the flag of libfabric");
_Static_assert(sizeof(struct dmabuf) == sizeof(struct fi_mr_dmabuf), "as libfabric lays it out");
#endif

/* A range of GPU memory, registered or refused, in the bucket of the 16 MiB of the heap that it
 * starts in. */
struct net_extent {
    struct net_extent *next;
    struct net_gpu_region region;
    struct fid_mr *registered[NET_RAILS];
};

struct net_extents {
    struct net_extent **buckets;
    size_t count;
};

/* --------------------------------------------------------------------------------- the provider */

static bool enables_gpu_rdma(const struct fi_info *info, char *why, size_t bytes)
{
    enum { AUTO, DIRECT, STAGED };
    int64_t choice = config_int(CONFIG_NET_GPU);
    if (choice == STAGED)
        snprintf(why, bytes, "WEFT_NET_GPU=staged");
    else if (choice == AUTO && net_cpu_executes_rma(info))
        snprintf(why, bytes, "provider %s moves data with a CPU, not with a NIC",
                 info->fabric_attr->prov_name);
    return !why[0];
}

/* Finds the same provider and interface in the list with FI_HMEM. */
static struct fi_info *find_same_interface(const struct fabric *lib, struct fi_info *list,
                                           const struct fi_info *info)
{
    for (struct fi_info *one = list; one; one = one->next)
        if (strcmp(one->fabric_attr->prov_name, info->fabric_attr->prov_name) == 0 &&
            strcmp(one->domain_attr->name, info->domain_attr->name) == 0 &&
            one->addr_format == info->addr_format && one->src_addrlen == info->src_addrlen &&
            (!info->src_addrlen || memcmp(one->src_addr, info->src_addr, info->src_addrlen) == 0))
            return lib->dupinfo(one);
    return NULL;
}

struct fi_info *net_add_hmem(const struct fabric *lib, struct fi_info *info, char *why,
                             size_t bytes)
{
    struct fi_info *list = NULL, *found = NULL;
    why[0] = '\0';
    if (!enables_gpu_rdma(info, why, bytes))
        return info;
    uint32_t version = lib->version() < DMABUF_VERSION ? HMEM_VERSION : DMABUF_VERSION;
    struct fi_info *hints = lib->dupinfo(info);
    if (hints) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
        if (lib->getinfo(version, NULL, NULL, 0, hints, &list) == 0)
            found = find_same_interface(lib, list, info);
        lib->freeinfo(hints);
    }
    if (list)
        lib->freeinfo(list);
    if (!found) {
        snprintf(why, bytes, "provider %s of libfabric %u.%u has no FI_HMEM here",
                 info->fabric_attr->prov_name, FI_MAJOR(lib->version()), FI_MINOR(lib->version()));
        return info;
    }
    lib->freeinfo(info);
    return found;
}

/* --------------------------------------------------------------------------------- registration */

/* fi_mr_attr has grown with libfabric's versions: fields that this version does not know must be
 * 0. */
union mr_attributes {
    struct fi_mr_attr attr;
    char reserved[256];
};

static int register_gpu_memory(struct path_common *net, struct net_rail *rail, const void *where,
                               uint64_t flags, struct fid_mr **registered)
{
    union mr_attributes a = {.reserved = {0}};
    struct fid_domain *domain = rail->domain;
    a.attr.mr_iov = where;
    a.attr.iov_count = 1;
    a.attr.access = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE | FI_SEND | FI_RECV;
    a.attr.iface = FI_HMEM_CUDA;
    a.attr.device.cuda = net->world->gpu->device.ordinal;
    int error = net_random_key(rail, &a.attr.requested_key);
    if (!error)
        error = domain->mr->regattr(&domain->fid, &a.attr, flags, registered);
    return error ? error : net_bind_memory(rail, registered);
}

static struct fid_mr *register_dmabuf(struct path_common *net, struct net_rail *rail,
                                      CUdeviceptr at, size_t bytes, char *why, size_t why_bytes)
{
    struct fid_mr *registered = NULL;
    struct mr_dmabuf whole = {.len = bytes, .base_addr = (void *)(uintptr_t)at};
    uint32_t version = rail->info->fabric_attr->api_version;
    if (version < DMABUF_VERSION) {
        snprintf(why, why_bytes, "libfabric %u.%u registers no dma-buf (needs 1.20)",
                 FI_MAJOR(net->lib->version()), FI_MINOR(net->lib->version()));
        return NULL;
    }
    if (gpu_export_dmabuf(net->world->gpu, at, bytes, &whole.fd)) {
        snprintf(why, why_bytes, "%.75s (needs NVIDIA's open modules)", base_last_error());
        return NULL;
    }
    int error = register_gpu_memory(net, rail, &whole, MR_DMABUF, &registered);
    close(whole.fd); /* The registration keeps a reference. */
    if (error)
        snprintf(why, why_bytes, "fi_mr_regattr by dma-buf: %.40s", net->lib->strerror(-error));
    return error ? NULL : registered;
}

static struct fid_mr *register_by_address(struct path_common *net, struct net_rail *rail,
                                          CUdeviceptr at, size_t bytes, char *why, size_t why_bytes)
{
    struct fid_mr *registered = NULL;
    struct iovec whole = {(void *)(uintptr_t)at, bytes};
    int error = register_gpu_memory(net, rail, &whole, 0, &registered);
    if (error)
        snprintf(why, why_bytes, "fi_mr_regattr by address: %.30s%s", net->lib->strerror(-error),
                 gpu_peermem_is_loaded() ? "" : " (load nvidia-peermem)");
    return error ? NULL : registered;
}

static void register_extent_on_rail(struct path_common *net, struct net_rail *rail,
                                    struct net_extent *extent)
{
    struct net_gpu_region *region = &extent->region;
    int index = (int)(rail - net->rails);
    CUdeviceptr at = gpu_heap_own(&net->world->gpu->heap)->base + region->start;
    size_t bytes = region->end - region->start;
    char one[128] = "", other[128] = "";
    struct fid_mr *registered = register_dmabuf(net, rail, at, bytes, one, sizeof one);
    region->dmabuf |= registered != NULL;
    if (!registered)
        registered = register_by_address(net, rail, at, bytes, other, sizeof other);
    extent->registered[index] = registered;
    if (registered)
        region->keys[index] = (struct net_key){.key = fi_mr_key(registered),
                                               .base = rail->traits.virtual_addresses ? at : 0,
                                               .known = 1};
    else
        snprintf(region->reason, sizeof region->reason, "%.78s; %.78s", one, other);
}

static void register_extent(struct path_common *net, struct net_extent *extent)
{
    for (int i = 0; i < net->rail_count; i++)
        if (net->rails[i].hmem && net->rails[i].endpoint)
            register_extent_on_rail(net, &net->rails[i], extent);
    extent->region.needs_flush = net->gpu.write_order == GPU_NIC_WRITES_FLUSHED;
}

/* ---------------------------------------------------------------------------- registered ranges */

static struct net_extents *make_extents(struct path_common *net, struct net_extents **extents)
{
    if (*extents)
        return *extents;
    struct net_extents *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->count = net->world->gpu->heap.size / NET_CHUNK_BYTES + 1;
    made->buckets = calloc(made->count, sizeof *made->buckets);
    if (!made->buckets) {
        free(made);
        return NULL;
    }
    return *extents = made;
}

static struct net_extent *find_extent(const struct net_extents *extents, size_t offset)
{
    struct net_extent *extent = extents->buckets[offset / NET_CHUNK_BYTES];
    while (extent && offset - extent->region.start >= extent->region.end - extent->region.start)
        extent = extent->next;
    return extent;
}

static struct net_extent *add_extent(struct net_extents *extents,
                                     const struct net_gpu_region *region)
{
    struct net_extent *extent = calloc(1, sizeof *extent);
    if (!extent)
        return NULL;
    extent->region = *region;
    struct net_extent **cell = &extents->buckets[region->start / NET_CHUNK_BYTES];
    extent->next = *cell;
    return *cell = extent;
}

/* Whether any NIC may reach own GPU memory. The first call asks the driver for the order of NIC
 * writes. */
static bool can_register_gpu(struct path_common *net)
{
    struct gpu *gpu = net->world->gpu;
    if (net->gpu.lacks[0] || !gpu)
        return false;
    if (!net->gpu.queried) {
        net->gpu.queried = true;
        net->gpu.write_order = gpu_nic_writes(gpu);
    }
    if (net->gpu.write_order == GPU_NIC_WRITES_UNORDERED)
        snprintf(net->gpu.lacks, sizeof net->gpu.lacks,
                 "GPU %d does not order the writes of NICs, and its driver cannot flush them",
                 gpu->device.ordinal);
    return !net->gpu.lacks[0];
}

/* The range of own GPU memory around `offset` with one registration: the part of an allocation
 * within 16 MiB of the heap. */
static struct net_extent *get_own_extent(struct path_common *net, size_t offset)
{
    size_t start, bytes;
    if (!can_register_gpu(net) || !make_extents(net, &net->gpu.regions) ||
        offset >= net->gpu.regions->count * NET_CHUNK_BYTES)
        return NULL;
    struct net_extent *extent = find_extent(net->gpu.regions, offset);
    if (extent || !gpu_find_chunk(net->world->gpu, offset, &start, &bytes))
        return extent;
    size_t from = offset / NET_CHUNK_BYTES * NET_CHUNK_BYTES, to = from + NET_CHUNK_BYTES;
    struct net_gpu_region region = {.start = from > start ? from : start,
                                    .end = to < start + bytes ? to : start + bytes};
    extent = add_extent(net->gpu.regions, &region);
    if (extent)
        register_extent(net, extent);
    return extent;
}

void net_get_own_region(struct path_common *net, size_t offset, struct net_gpu_region *region)
{
    const struct net_extent *extent = get_own_extent(net, offset);
    *region = (struct net_gpu_region){.start = offset, .end = offset};
    if (extent)
        *region = extent->region;
    else
        snprintf(region->reason, sizeof region->reason, "%s",
                 net->gpu.lacks[0] ? net->gpu.lacks
                                   : "the application allocated this memory itself");
}

bool net_get_gpu_descriptors(struct path_common *net, const void *local, size_t *bytes,
                             void *descriptors[NET_RAILS])
{
    struct gpu *gpu = net->world->gpu;
    size_t offset = (uintptr_t)local - gpu_heap_own(&gpu->heap)->base;
    const struct net_extent *extent = offset < gpu->heap.size ? get_own_extent(net, offset) : NULL;
    bool any = false;
    for (int i = 0; i < NET_RAILS && extent; i++) {
        descriptors[i] = extent->registered[i] ? fi_mr_desc(extent->registered[i]) : NULL;
        any |= extent->registered[i] != NULL;
    }
    if (any && *bytes > extent->region.end - offset)
        *bytes = extent->region.end - offset;
    return any;
}

weft_status net_flush_gpu(struct path_common *net)
{
    return net->gpu.write_order == GPU_NIC_WRITES_FLUSHED ? gpu_flush_nic_writes(net->world->gpu)
                                                          : WEFT_OK;
}

/* ---------------------------------------------------------------------------- peers' GPU memory */

static bool is_reachable(const struct net_gpu_region *region)
{
    bool any = false;
    for (int i = 0; i < NET_RAILS; i++)
        any |= region->keys[i].known;
    return any;
}

static weft_status query_region(struct net_state *state, struct net_peer *peer, size_t offset,
                                struct net_gpu_region *region)
{
    const struct net_record query = {.kind = NET_GPU_REGION, .offset = offset};
    weft_status status = net_send_query(state, peer, &query, 0, region, sizeof *region, false);
    if (status)
        return status;
    peer->gpu.needs_flush |= region->needs_flush;
    if (region->start > offset || region->end < offset + is_reachable(region) ||
        region->end > state->net->world->gpu->heap.size)
        return base_fail(
            WEFT_ERR_PATH, "PE %d answers for offset %#zx of its GPU memory with %#llx to %#llx",
            peer->pe, offset, (unsigned long long)region->start, (unsigned long long)region->end);
    /* Another thread may have added it during the wait. A region without an end is not kept, and
     * queried again. */
    if (region->end > offset && !find_extent(peer->gpu.regions, offset))
        add_extent(peer->gpu.regions, region);
    return WEFT_OK;
}

weft_status net_get_gpu_keys(struct net_state *state, struct net_peer *peer, size_t offset,
                             size_t *bytes, struct net_key keys[NET_RAILS])
{
    struct path_common *net = state->net;
    struct net_gpu_region region = {0};
    weft_status status = WEFT_OK;
    memset(keys, 0, NET_RAILS * sizeof *keys);
    if (peer->gpu.access != NET_GPU_DIRECT || !make_extents(net, &peer->gpu.regions) ||
        offset >= net->world->gpu->heap.backed)
        return WEFT_OK;
    const struct net_extent *known = find_extent(peer->gpu.regions, offset);
    if (known)
        region = known->region;
    else
        status = query_region(state, peer, offset, &region);
    if (status || !is_reachable(&region))
        return status;
    if (*bytes > region.end - offset)
        *bytes = region.end - offset;
    memcpy(keys, region.keys, sizeof region.keys);
    for (int i = 0; i < NET_RAILS; i++)
        keys[i].base += offset - region.start;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------ path test */

static void fill_pattern(unsigned char *line, int from, int to, unsigned which)
{
    for (unsigned i = 0; i < GPU_LINE_BYTES; i++)
        line[i] =
            (unsigned char)((unsigned)from * 37 + (unsigned)to * 101 + which * 59 + i * 7 + 1);
}

static void *own_test_line(struct path_common *net, int pe)
{
    struct gpu *gpu = net->world->gpu;
    return (void *)(uintptr_t)(gpu_heap_own(&gpu->heap)->base + gpu->layout.nic_lines_offset +
                               (2 * (size_t)pe + 1) * GPU_LINE_BYTES);
}

static struct remote peer_test_line(struct path_common *net, struct peer *peer)
{
    struct gpu *gpu = net->world->gpu;
    return (struct remote){
        peer, SEG_GPU, gpu->layout.nic_lines_offset + 2 * (size_t)net->world->pe * GPU_LINE_BYTES};
}

static weft_status compare_test_line(const unsigned char *seen, const unsigned char *expected,
                                     const char *what)
{
    for (int i = 0; i < GPU_LINE_BYTES; i++)
        if (seen[i] != expected[i])
            return base_fail(WEFT_ERR_PATH, "%s: byte %d is %#x instead of %#x", what, i, seen[i],
                             expected[i]);
    return WEFT_OK;
}

/* Writes with the NIC from own GPU memory into the peer's, and reads it back with the peer's GPU
 * copy. */
static weft_status prove_write(struct net_state *state, struct peer *peer, int rail)
{
    struct path_common *net = state->net;
    struct remote there = peer_test_line(net, peer);
    unsigned char expected[GPU_LINE_BYTES], seen[GPU_LINE_BYTES] = {0};
    fill_pattern(expected, net->world->pe, peer->pe, 2 * (unsigned)rail + 1);
    weft_status status = gpu_copy(net->world->gpu, 0, own_test_line(net, peer->pe), expected,
                                  sizeof expected, GPU_DONE);
    if (!status)
        status = net_stage_transfer(state, there, own_test_line(net, peer->pe), sizeof expected,
                                    true, true);
    if (!status)
        status = net_complete_context(state);
    if (!status)
        status = net_get_by_requests(state, there, seen, sizeof seen);
    return status ? status
                  : compare_test_line(seen, expected, "a NIC write to GPU memory did not arrive");
}

/* Writes the peer's GPU memory with its GPU copy, and reads it with the NIC into own GPU memory. */
static weft_status prove_read(struct net_state *state, struct peer *peer, int rail)
{
    struct path_common *net = state->net;
    struct remote there = peer_test_line(net, peer);
    unsigned char expected[GPU_LINE_BYTES], seen[GPU_LINE_BYTES] = {0};
    fill_pattern(expected, net->world->pe, peer->pe, 2 * (unsigned)rail + 2);
    weft_status status = net_put_by_requests(state, there, expected, sizeof expected);
    if (!status)
        status = net_complete_context(state);
    if (!status)
        status = net_stage_transfer(state, there, own_test_line(net, peer->pe), sizeof expected,
                                    true, false);
    if (!status)
        status = net_complete_context(state);
    if (!status)
        status =
            gpu_copy(net->world->gpu, 0, seen, own_test_line(net, peer->pe), sizeof seen, GPU_DONE);
    return status ? status
                  : compare_test_line(seen, expected, "the NIC read wrong data from GPU memory");
}

/* Tests whether one rail reaches the peer's GPU memory. *well is the result; peer->gpu_reason has
 * the cause of a failure. */
static weft_status prove_rail(struct net_state *state, struct net_peer *net_peer, int rail,
                              bool *well)
{
    struct path_common *net = state->net;
    struct peer peer = {
        .pe = net_peer->pe, .state = (struct path_state *)state, .world = net->world};
    net_peer->gpu.access =
        NET_GPU_DIRECT; /* makes net_stage_transfer() access GPU memory directly */
    net_peer->gpu.rails = (uint8_t)(1u << rail);
    net->proof_failed[0] = '\0';
    net->proving = true;
    weft_status saw = prove_write(state, &peer, rail);
    if (!saw && !net->proof_failed[0])
        saw = prove_read(state, &peer, rail);
    net->proving = false;
    if (!saw && !net_rail_usable(net, net_peer, rail)) /* The transfer has used another rail. */
        saw = base_fail(WEFT_ERR_PATH, "the NIC has failed");
    *well = !saw && !net->proof_failed[0];
    net_peer->gpu.access = NET_GPU_STAGED;
    if (*well)
        return net_check_failure(net, net_peer);
    snprintf(net_peer->gpu.reason, sizeof net_peer->gpu.reason, "its path test failed: %.*s",
             NET_REASON_BYTES - 30, net->proof_failed[0] ? net->proof_failed : base_last_error());
    log_warn(LOG_NET, "path net: GPU memory of PE %d is not reached by %s: %s", peer.pe,
             net->rail_count > 1 ? net_interface_name(&net->rails[rail]) : "the NIC",
             net_peer->gpu.reason);
    return net_check_failure(net, net_peer);
}

/* Runs the path test over each rail. An error status is a failure of the peer or of the job. */
static weft_status prove(struct net_state *state, struct net_peer *net_peer)
{
    struct path_common *net = state->net;
    struct peer peer = {
        .pe = net_peer->pe, .state = (struct path_state *)state, .world = net->world};
    struct net_gpu_region region;
    uint8_t passed = 0;
    if (!make_extents(net, &net_peer->gpu.regions))
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the keys of PE %d", peer.pe);
    weft_status status = query_region(state, net_peer, peer_test_line(net, &peer).offset, &region);
    if (status || !is_reachable(&region)) {
        snprintf(net_peer->gpu.reason, sizeof net_peer->gpu.reason, "PE %d: %.*s", peer.pe,
                 NET_REASON_BYTES - 20, region.reason);
        return status;
    }
    net_peer->gpu.dmabuf = region.dmabuf;
    for (int i = 0; i < net->rail_count && !status; i++) {
        bool well = false;
        if (net_rail_usable(net, net_peer, i) && region.keys[net_peer->rails.peers[i]].known)
            status = prove_rail(state, net_peer, i, &well);
        passed |= (uint8_t)(well << i);
    }
    net_peer->gpu.rails = passed;
    net_peer->gpu.access = passed ? NET_GPU_DIRECT : NET_GPU_STAGED;
    return status;
}

/* ", over 2 of 3 NICs" */
static void format_rail_count(const struct path_common *net, const struct net_peer *peer,
                              char *text, size_t bytes)
{
    text[0] = '\0';
    if (net->rail_count > 1)
        snprintf(text, bytes, ", over %d of %d NICs", __builtin_popcount(peer->gpu.rails),
                 net->rail_count);
}

/* Describes how transfers reach GPU memory. Own GPU memory that the NIC does not reach goes through
 * pinned memory here, whatever the peer can do. */
static void describe_gpu_path(struct path_common *net, const struct net_peer *peer, char *found,
                              size_t bytes)
{
    struct net_gpu_region own_region;
    char rails[32];
    net_get_own_region(net, net->world->gpu->layout.nic_lines_offset, &own_region);
    format_rail_count(net, peer, rails, sizeof rails);
    bool both = is_reachable(&own_region);
    if (peer->gpu.access == NET_GPU_DIRECT)
        snprintf(found, bytes, "the NIC reaches GPU memory there (%s, tested%s)%s%s",
                 peer->gpu.dmabuf ? "dma-buf" : "by address", rails,
                 both ? "" : ", not here: ", both ? "" : own_region.reason);
    else
        snprintf(found, bytes, "GPU memory goes through pinned memory: %s",
                 net->gpu.lacks[0] ? net->gpu.lacks : peer->gpu.reason);
}

weft_status net_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                       size_t bytes)
{
    struct path_common *net = world->common[PATH_NET];
    struct path_state *state = NULL;
    found[0] = '\0';
    if (kind != WEFT_GPU || !net || !world->gpu)
        return WEFT_OK;
    net_lock(net);
    struct net_peer *peer = net_get_peer(net, pe);
    pthread_mutex_unlock(&net->lock);
    weft_status status = WEFT_OK;
    if (peer->gpu.access == NET_GPU_UNTESTED && !net->gpu.lacks[0])
        status = net_open_state(world, &state);
    if (status)
        return status;
    net_lock(net);
    if (state) {
        peer->gpu.access = NET_GPU_STAGED;
        status = prove(net_state_of(state), peer);
    }
    describe_gpu_path(net, peer, found, bytes);
    pthread_mutex_unlock(&net->lock);
    if (state)
        net_close_state(state);
    return status;
}

void net_gpu_rail_lost(struct path_common *net, struct net_peer *peer, int rail)
{
    const struct net_rail *failed = &net->rails[rail];
    char found[PATH_FOUND_BYTES];
    if (peer->gpu.access != NET_GPU_DIRECT || net->proving || !(peer->gpu.rails >> rail & 1))
        return;
    for (int i = 0; i < net->rail_count; i++)
        if (peer->gpu.rails >> i & 1 && net_rail_usable(net, peer, i))
            return;
    peer->gpu.access = NET_GPU_STAGED;
    snprintf(peer->gpu.reason, sizeof peer->gpu.reason,
             "%s, the last NIC that reached it, has failed: %s", net_interface_name(failed),
             failed->cause[0] ? failed->cause : "the peer has given it up");
    describe_gpu_path(net, peer, found, sizeof found);
    log_warn(LOG_NET, "path net: GPU memory of PE %d goes through pinned memory from now on: %s",
             peer->pe, peer->gpu.reason);
    if (net->world->report_found)
        net->world->report_found(net->world, WEFT_GPU, peer->pe, found);
}

/* -------------------------------------------------------------------------------------- release */

static void free_extents(struct net_extents *extents)
{
    for (size_t i = 0; extents && i < extents->count; i++)
        while (extents->buckets[i]) {
            struct net_extent *extent = extents->buckets[i];
            extents->buckets[i] = extent->next;
            for (int r = 0; r < NET_RAILS; r++)
                if (extent->registered[r])
                    fi_close(&extent->registered[r]->fid);
            free(extent);
        }
    if (extents)
        free(extents->buckets);
    free(extents);
}

void net_free_regions(struct path_common *net)
{
    free_extents(net->gpu.regions);
    net->gpu.regions = NULL;
    for (int pe = 0; pe < net->world->npes; pe++) {
        if (!net->peers[pe].gpu.regions)
            continue;
        free_extents(net->peers[pe].gpu.regions);
        net->peers[pe].gpu.regions = NULL;
    }
}

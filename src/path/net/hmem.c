/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory registered with the provider, by dma-buf or by address (which nvidia-peermem or the
 * provider itself turns into pages), so that NICs read and write it in place. Nothing of that is
 * taken on trust: a real registration is tried, and towards each peer bytes are written and read
 * back before anything of the program's goes that way (prove()). What is refused keeps its cause,
 * and GPU memory goes through pinned memory (stage.c) at the end that refuses.
 *
 * Order. What a NIC writes into GPU memory may be visible to the GPU later than a completion, a
 * message or a flag in host memory that came behind it: they took another way. So the writer marks
 * the first message behind such writes (NET_FLUSH), and the owner makes them visible before it
 * carries out anything of that message: by the driver's flush where the GPU does not keep that
 * order by itself. A quiet sends such a message and waits for its answer. A get into GPU memory is
 * flushed here when it has come. */
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

/* libfabric's interface for dma-bufs, which its headers have since 1.20. */
enum { DMABUF_VERSION = FI_VERSION(1, 20), HMEM_VERSION = FI_VERSION(1, 11) };
#define MR_DMABUF (1ull << 40)
struct dmabuf {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr;
};
#ifdef FI_MR_DMABUF
_Static_assert(MR_DMABUF == FI_MR_DMABUF, "the flag of libfabric");
_Static_assert(sizeof(struct dmabuf) == sizeof(struct fi_mr_dmabuf), "as libfabric lays it out");
#endif

/* Registered, or not; kept by the 16 MiB of the window in which it begins. */
struct net_extent {
    struct net_extent *next;
    struct net_place place;
    struct fid_mr *registered[NET_RAILS];
};

struct net_extents {
    struct net_extent **cells;
    size_t count;
};

/* --------------------------------------------------------------------------------- the provider */

static bool gpu_wanted(const struct fi_info *info, char *why, size_t bytes)
{
    enum { AUTO, DIRECT, STAGED };
    int64_t wish = config_int(CONFIG_NET_GPU);
    if (wish == STAGED)
        snprintf(why, bytes, "WEFT_NET_GPU=staged");
    else if (wish == AUTO && net_cpu_moves(info))
        snprintf(why, bytes, "with provider %s a CPU moves the data, no NIC",
                 info->fabric_attr->prov_name);
    return !why[0];
}

/* The same provider and interface among what is offered with FI_HMEM. */
static struct fi_info *find_same(const struct fabric *lib, struct fi_info *list,
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

struct fi_info *net_with_gpu(const struct fabric *lib, struct fi_info *info, char *why,
                             size_t bytes)
{
    struct fi_info *list = NULL, *found = NULL;
    why[0] = '\0';
    if (!gpu_wanted(info, why, bytes))
        return info;
    uint32_t version = lib->version() < DMABUF_VERSION ? HMEM_VERSION : DMABUF_VERSION;
    struct fi_info *hints = lib->dupinfo(info);
    if (hints) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
        if (lib->getinfo(version, NULL, NULL, 0, hints, &list) == 0)
            found = find_same(lib, list, info);
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

/* The attributes have grown: what this version does not know must be zero. */
union attributes {
    struct fi_mr_attr attr;
    char room[256];
};

static int try_to_register(struct path_common *net, struct net_rail *rail, const void *where,
                           uint64_t flags, struct fid_mr **registered)
{
    union attributes a = {.room = {0}};
    struct fid_domain *domain = rail->domain;
    a.attr.mr_iov = where;
    a.attr.iov_count = 1;
    a.attr.access = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE | FI_SEND | FI_RECV;
    a.attr.iface = FI_HMEM_CUDA;
    a.attr.device.cuda = net->world->gpu->device.ordinal;
    int error = net_draw_key(rail, &a.attr.requested_key);
    if (!error)
        error = domain->mr->regattr(&domain->fid, &a.attr, flags, registered);
    return error ? error : net_bind(rail, registered);
}

static struct fid_mr *by_dmabuf(struct path_common *net, struct net_rail *rail, CUdeviceptr at,
                                size_t bytes, char *why, size_t room)
{
    struct fid_mr *registered = NULL;
    struct dmabuf whole = {.len = bytes, .base_addr = (void *)(uintptr_t)at};
    uint32_t version = rail->info->fabric_attr->api_version;
    if (version < DMABUF_VERSION) {
        snprintf(why, room, "libfabric %u.%u takes no dma-buf, 1.20 does",
                 FI_MAJOR(net->lib->version()), FI_MINOR(net->lib->version()));
        return NULL;
    }
    if (gpu_export_dmabuf(net->world->gpu, at, bytes, &whole.fd)) {
        snprintf(why, room, "%.75s (needs NVIDIA's open modules)", base_last_error());
        return NULL;
    }
    int error = try_to_register(net, rail, &whole, MR_DMABUF, &registered);
    close(whole.fd); /* the registration holds what it needs */
    if (error)
        snprintf(why, room, "fi_mr_regattr by dma-buf: %.40s", net->lib->strerror(-error));
    return error ? NULL : registered;
}

static struct fid_mr *by_address(struct path_common *net, struct net_rail *rail, CUdeviceptr at,
                                 size_t bytes, char *why, size_t room)
{
    struct fid_mr *registered = NULL;
    struct iovec whole = {(void *)(uintptr_t)at, bytes};
    int error = try_to_register(net, rail, &whole, 0, &registered);
    if (error)
        snprintf(why, room, "fi_mr_regattr by address: %.30s%s", net->lib->strerror(-error),
                 gpu_peermem_is_loaded() ? "" : " (load nvidia-peermem)");
    return error ? NULL : registered;
}

static void register_with(struct path_common *net, struct net_rail *rail, struct net_extent *extent)
{
    struct net_place *place = &extent->place;
    int number = (int)(rail - net->rails);
    CUdeviceptr at = gpu_heap_own(&net->world->gpu->heap)->base + place->start;
    size_t bytes = place->end - place->start;
    char one[128] = "", other[128] = "";
    struct fid_mr *registered = by_dmabuf(net, rail, at, bytes, one, sizeof one);
    place->dmabuf |= registered != NULL;
    if (!registered)
        registered = by_address(net, rail, at, bytes, other, sizeof other);
    extent->registered[number] = registered;
    if (registered)
        place->keys[number] = (struct net_key){.key = fi_mr_key(registered),
                                               .base = rail->traits.virtual_addresses ? at : 0,
                                               .known = 1};
    else
        snprintf(place->why, sizeof place->why, "%.78s; %.78s", one, other);
}

static void register_extent(struct path_common *net, struct net_extent *extent)
{
    for (int i = 0; i < net->rail_count; i++)
        if (net->rails[i].hmem && net->rails[i].endpoint)
            register_with(net, &net->rails[i], extent);
    extent->place.flush = net->gpu_writes == GPU_NIC_WRITES_FLUSHED;
}

/* -------------------------------------------------------------------------------------- extents */

static struct net_extents *make_extents(struct path_common *net, struct net_extents **extents)
{
    if (*extents)
        return *extents;
    struct net_extents *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->count = net->world->gpu->heap.size / NET_CHUNK_BYTES + 1;
    made->cells = calloc(made->count, sizeof *made->cells);
    if (!made->cells) {
        free(made);
        return NULL;
    }
    return *extents = made;
}

static struct net_extent *find_extent(const struct net_extents *extents, size_t offset)
{
    struct net_extent *extent = extents->cells[offset / NET_CHUNK_BYTES];
    while (extent && offset - extent->place.start >= extent->place.end - extent->place.start)
        extent = extent->next;
    return extent;
}

static struct net_extent *add_extent(struct net_extents *extents, const struct net_place *place)
{
    struct net_extent *extent = calloc(1, sizeof *extent);
    if (!extent)
        return NULL;
    extent->place = *place;
    struct net_extent **cell = &extents->cells[place->start / NET_CHUNK_BYTES];
    extent->next = *cell;
    return *cell = extent;
}

/* Once: whether there is anything to be tried. */
static bool may_register(struct path_common *net)
{
    struct gpu *gpu = net->world->gpu;
    if (net->gpu_lacks[0] || !gpu)
        return false;
    if (!net->gpu_asked) {
        net->gpu_asked = true;
        net->gpu_writes = gpu_nic_writes(gpu);
    }
    if (net->gpu_writes == GPU_NIC_WRITES_UNORDERED)
        snprintf(net->gpu_lacks, sizeof net->gpu_lacks,
                 "GPU %d does not order the writes of NICs, and its driver cannot flush them",
                 gpu->device.ordinal);
    return !net->gpu_lacks[0];
}

/* What one registration is for: as much of 16 MiB of the window as is one allocation. */
static struct net_extent *own_extent(struct path_common *net, size_t offset)
{
    size_t start, bytes;
    if (!may_register(net) || !make_extents(net, &net->own_gpu) ||
        offset >= net->own_gpu->count * NET_CHUNK_BYTES)
        return NULL;
    struct net_extent *extent = find_extent(net->own_gpu, offset);
    if (extent || !gpu_find_chunk(net->world->gpu, offset, &start, &bytes))
        return extent;
    size_t from = offset / NET_CHUNK_BYTES * NET_CHUNK_BYTES, to = from + NET_CHUNK_BYTES;
    struct net_place place = {.start = from > start ? from : start,
                              .end = to < start + bytes ? to : start + bytes};
    extent = add_extent(net->own_gpu, &place);
    if (extent)
        register_extent(net, extent);
    return extent;
}

void net_own_place(struct path_common *net, size_t offset, struct net_place *place)
{
    const struct net_extent *extent = own_extent(net, offset);
    *place = (struct net_place){.start = offset, .end = offset};
    if (extent)
        *place = extent->place;
    else
        snprintf(place->why, sizeof place->why, "%s",
                 net->gpu_lacks[0] ? net->gpu_lacks : "it is memory of the program's own");
}

bool net_gpu_local(struct path_common *net, const void *local, size_t *bytes,
                   void *descriptors[NET_RAILS])
{
    struct gpu *gpu = net->world->gpu;
    size_t offset = (uintptr_t)local - gpu_heap_own(&gpu->heap)->base;
    const struct net_extent *extent = offset < gpu->heap.size ? own_extent(net, offset) : NULL;
    bool any = false;
    for (int i = 0; i < NET_RAILS && extent; i++) {
        descriptors[i] = extent->registered[i] ? fi_mr_desc(extent->registered[i]) : NULL;
        any |= extent->registered[i] != NULL;
    }
    if (any && *bytes > extent->place.end - offset)
        *bytes = extent->place.end - offset;
    return any;
}

weft_status net_flush_gpu(struct path_common *net)
{
    return net->gpu_writes == GPU_NIC_WRITES_FLUSHED ? gpu_flush_nic_writes(net->world->gpu)
                                                     : WEFT_OK;
}

/* -------------------------------------------------------------------------------- peers' places */

static bool is_reached(const struct net_place *place)
{
    bool any = false;
    for (int i = 0; i < NET_RAILS; i++)
        any |= place->keys[i].known;
    return any;
}

static weft_status learn_place(struct path_state *state, struct net_peer *peer, size_t offset,
                               struct net_place *place)
{
    const struct net_record question = {.kind = NET_PLACE, .offset = offset};
    weft_status status = net_ask(state, peer, &question, 0, place, sizeof *place, false);
    if (status)
        return status;
    peer->gpu_flush |= place->flush;
    if (place->start > offset || place->end < offset + is_reached(place) ||
        place->end > state->net->world->gpu->heap.size)
        return base_fail(
            WEFT_ERR_PATH, "PE %d answers for offset %#zx of its GPU memory with %#llx to %#llx",
            peer->pe, offset, (unsigned long long)place->start, (unsigned long long)place->end);
    /* Another thread may have asked meanwhile. What has no end is asked for again. */
    if (place->end > offset && !find_extent(peer->gpu_places, offset))
        add_extent(peer->gpu_places, place);
    return WEFT_OK;
}

weft_status net_gpu_place(struct path_state *state, struct net_peer *peer, size_t offset,
                          size_t *bytes, struct net_key keys[NET_RAILS])
{
    struct path_common *net = state->net;
    struct net_place place = {0};
    weft_status status = WEFT_OK;
    memset(keys, 0, NET_RAILS * sizeof *keys);
    if (peer->gpu_trust != NET_TRUSTED || !make_extents(net, &peer->gpu_places) ||
        offset >= net->world->gpu->heap.backed)
        return WEFT_OK;
    const struct net_extent *known = find_extent(peer->gpu_places, offset);
    if (known)
        place = known->place;
    else
        status = learn_place(state, peer, offset, &place);
    if (status || !is_reached(&place))
        return status;
    if (*bytes > place.end - offset)
        *bytes = place.end - offset;
    memcpy(keys, place.keys, sizeof place.keys);
    for (int i = 0; i < NET_RAILS; i++)
        keys[i].base += offset - place.start;
    return WEFT_OK;
}

/* ---------------------------------------------------------------------------------------- proof */

static void pattern(unsigned char *line, int from, int to, unsigned which)
{
    for (unsigned i = 0; i < GPU_LINE_BYTES; i++)
        line[i] =
            (unsigned char)((unsigned)from * 37 + (unsigned)to * 101 + which * 59 + i * 7 + 1);
}

static void *own_line(struct path_common *net, int pe)
{
    struct gpu *gpu = net->world->gpu;
    return (void *)(uintptr_t)(gpu_heap_own(&gpu->heap)->base + gpu->nic_lines_offset +
                               (2 * (size_t)pe + 1) * GPU_LINE_BYTES);
}

static struct remote line_at(struct path_common *net, struct peer *peer)
{
    struct gpu *gpu = net->world->gpu;
    return (struct remote){peer, SEG_GPU,
                           gpu->nic_lines_offset + 2 * (size_t)net->world->pe * GPU_LINE_BYTES};
}

static weft_status differs(const unsigned char *seen, const unsigned char *wanted, const char *what)
{
    for (int i = 0; i < GPU_LINE_BYTES; i++)
        if (seen[i] != wanted[i])
            return base_fail(WEFT_ERR_PATH, "%s: byte %d is %#x instead of %#x", what, i, seen[i],
                             wanted[i]);
    return WEFT_OK;
}

/* By the NIC from GPU memory here into GPU memory there, and back by the GPU's own copy. */
static weft_status prove_write(struct path_state *state, struct peer *peer, int rail)
{
    struct path_common *net = state->net;
    struct remote there = line_at(net, peer);
    unsigned char wanted[GPU_LINE_BYTES], seen[GPU_LINE_BYTES] = {0};
    pattern(wanted, net->world->pe, peer->pe, 2 * (unsigned)rail + 1);
    weft_status status =
        gpu_copy(net->world->gpu, 0, own_line(net, peer->pe), wanted, sizeof wanted, GPU_DONE);
    if (!status)
        status = net_stage_move(state, there, own_line(net, peer->pe), sizeof wanted, true, true);
    if (!status)
        status = net_complete(state);
    if (!status)
        status = net_get_by_requests(state, there, seen, sizeof seen);
    return status ? status
                  : differs(seen, wanted, "a write of the NIC into GPU memory is not there");
}

/* By the GPU's own copy there, and by the NIC into GPU memory here. */
static weft_status prove_read(struct path_state *state, struct peer *peer, int rail)
{
    struct path_common *net = state->net;
    struct remote there = line_at(net, peer);
    unsigned char wanted[GPU_LINE_BYTES], seen[GPU_LINE_BYTES] = {0};
    pattern(wanted, net->world->pe, peer->pe, 2 * (unsigned)rail + 2);
    weft_status status = net_put_by_requests(state, there, wanted, sizeof wanted);
    if (!status)
        status = net_complete(state);
    if (!status)
        status = net_stage_move(state, there, own_line(net, peer->pe), sizeof wanted, true, false);
    if (!status)
        status = net_complete(state);
    if (!status)
        status = gpu_copy(net->world->gpu, 0, seen, own_line(net, peer->pe), sizeof seen, GPU_DONE);
    return status ? status
                  : differs(seen, wanted,
                            "what the NIC has read from GPU memory is not what is there");
}

/* That one rail reaches GPU memory there; *well is what was seen, the cause stands in
 * peer->gpu_why. */
static weft_status prove_rail(struct path_state *state, struct net_peer *net_peer, int rail,
                              bool *well)
{
    struct path_common *net = state->net;
    struct peer peer = {.pe = net_peer->pe, .state = state, .world = net->world};
    net_peer->gpu_trust = NET_TRUSTED; /* so that the proof goes that way, */
    net_peer->gpu_rails = (uint8_t)(1u << rail);
    net->proof_failed[0] = '\0';
    net->proving = true;
    weft_status saw = prove_write(state, &peer, rail);
    if (!saw && !net->proof_failed[0])
        saw = prove_read(state, &peer, rail);
    net->proving = false;
    if (!saw && !net_goes_over(net, net_peer, rail)) /* it has gone another way */
        saw = base_fail(WEFT_ERR_PATH, "the NIC has failed");
    *well = !saw && !net->proof_failed[0];
    net_peer->gpu_trust = NET_REFUSED;
    if (*well)
        return net_failure(net, net_peer);
    snprintf(net_peer->gpu_why, sizeof net_peer->gpu_why, "its proof failed: %.*s",
             NET_WHY_BYTES - 30, net->proof_failed[0] ? net->proof_failed : base_last_error());
    log_warn("path net: GPU memory of PE %d is not reached by %s: %s", peer.pe,
             net->rail_count > 1 ? net_interface(&net->rails[rail]) : "the NIC", net_peer->gpu_why);
    return net_failure(net, net_peer);
}

/* Over each rail. A failure is one of the peer or of the job. */
static weft_status prove(struct path_state *state, struct net_peer *net_peer)
{
    struct path_common *net = state->net;
    struct peer peer = {.pe = net_peer->pe, .state = state, .world = net->world};
    struct net_place place;
    uint8_t proven = 0;
    if (!make_extents(net, &net_peer->gpu_places))
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the keys of PE %d", peer.pe);
    weft_status status = learn_place(state, net_peer, line_at(net, &peer).offset, &place);
    if (status || !is_reached(&place)) {
        snprintf(net_peer->gpu_why, sizeof net_peer->gpu_why, "PE %d: %.*s", peer.pe,
                 NET_WHY_BYTES - 20, place.why);
        return status;
    }
    net_peer->gpu_dmabuf = place.dmabuf;
    for (int i = 0; i < net->rail_count && !status; i++) {
        bool well = false;
        if (net_goes_over(net, net_peer, i) && place.keys[net_peer->there[i]].known)
            status = prove_rail(state, net_peer, i, &well);
        proven |= (uint8_t)(well << i);
    }
    net_peer->gpu_rails = proven;
    net_peer->gpu_trust = proven ? NET_TRUSTED : NET_REFUSED;
    return status;
}

/* ", over 2 of 3 NICs" */
static void count_rails(const struct path_common *net, const struct net_peer *peer, char *text,
                        size_t bytes)
{
    text[0] = '\0';
    if (net->rail_count > 1)
        snprintf(text, bytes, ", over %d of %d NICs", __builtin_popcount(peer->gpu_rails),
                 net->rail_count);
}

/* Own GPU memory that the NIC does not reach goes through pinned memory here, whatever the peer
 * has. */
static void describe(struct path_common *net, const struct net_peer *peer, char *found,
                     size_t bytes)
{
    struct net_place own;
    char rails[32];
    net_own_place(net, net->world->gpu->nic_lines_offset, &own);
    count_rails(net, peer, rails, sizeof rails);
    bool both = is_reached(&own);
    if (peer->gpu_trust == NET_TRUSTED)
        snprintf(found, bytes, "the NIC reaches GPU memory there (%s, proven%s)%s%s",
                 peer->gpu_dmabuf ? "dma-buf" : "by address", rails,
                 both ? "" : ", not here: ", both ? "" : own.why);
    else
        snprintf(found, bytes, "GPU memory goes through pinned memory: %s",
                 net->gpu_lacks[0] ? net->gpu_lacks : peer->gpu_why);
}

weft_status net_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                       size_t bytes)
{
    struct path_common *net = world->common[PATH_NET];
    struct path_state *state = NULL;
    found[0] = '\0';
    if (kind != WEFT_GPU || !net || !world->gpu)
        return WEFT_OK;
    struct net_peer *peer = &net->peers[pe];
    weft_status status = WEFT_OK;
    if (peer->gpu_trust == NET_UNTRIED && !net->gpu_lacks[0])
        status = net_open_state(world, &state);
    if (status)
        return status;
    net_enter(net);
    if (state) {
        peer->gpu_trust = NET_REFUSED;
        status = prove(state, peer);
    }
    describe(net, peer, found, bytes);
    pthread_mutex_unlock(&net->lock);
    if (state)
        net_close_state(state);
    return status;
}

void net_gpu_rail_lost(struct path_common *net, struct net_peer *peer, int rail)
{
    const struct net_rail *lost = &net->rails[rail];
    char found[PATH_FOUND_BYTES];
    if (peer->gpu_trust != NET_TRUSTED || net->proving || !(peer->gpu_rails >> rail & 1))
        return;
    for (int i = 0; i < net->rail_count; i++)
        if (peer->gpu_rails >> i & 1 && net_goes_over(net, peer, i))
            return;
    peer->gpu_trust = NET_REFUSED;
    snprintf(peer->gpu_why, sizeof peer->gpu_why,
             "%s, the last NIC that reached it, has failed: %s", net_interface(lost),
             lost->cause[0] ? lost->cause : "the peer has given it up");
    describe(net, peer, found, sizeof found);
    log_warn("path net: GPU memory of PE %d goes through pinned memory from now on: %s", peer->pe,
             peer->gpu_why);
    if (net->world->tell_found)
        net->world->tell_found(net->world, WEFT_GPU, peer->pe, found);
}

/* -------------------------------------------------------------------------------------- the end */

static void free_extents(struct net_extents *extents)
{
    for (size_t i = 0; extents && i < extents->count; i++)
        while (extents->cells[i]) {
            struct net_extent *extent = extents->cells[i];
            extents->cells[i] = extent->next;
            for (int r = 0; r < NET_RAILS; r++)
                if (extent->registered[r])
                    fi_close(&extent->registered[r]->fid);
            free(extent);
        }
    if (extents)
        free(extents->cells);
    free(extents);
}

void net_free_places(struct path_common *net)
{
    free_extents(net->own_gpu);
    net->own_gpu = NULL;
    for (int pe = 0; pe < net->world->npes; pe++) {
        free_extents(net->peers[pe].gpu_places);
        net->peers[pe].gpu_places = NULL;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Registers memory with the first rail. A segment is registered chunk by chunk, when a peer first
 * asks for the key of a chunk, so that a provider that pins registered memory pins only what is
 * used. The library's own memory is registered if the provider requires FI_MR_LOCAL. */
#include "path/net/stripe.h"

#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct net_slab {
    struct net_slab *next;
    void *memory;
    size_t bytes;
    struct fid_mr *registered, *on_rails[NET_RAILS];
    void *descriptors[NET_RAILS]; /* local descriptors, by rail */
    bool pinned;                  /* pinned for this PE's GPU */
};

struct net_memory {
    struct net_chunks {
        struct net_chunk {
            struct fid_mr *registered;
            bool attempted;
        } * chunk;
        size_t count;
    } segments[SEG_COUNT];
};

/* ------------------------------------------------------------------------------- registration */

static bool make_memory(struct path_common *net)
{
    if (!net->memory)
        net->memory = calloc(1, sizeof *net->memory);
    return net->memory != NULL;
}

static struct fid_mr *register_on_first_rail(struct path_common *net, const void *base,
                                             size_t bytes, uint64_t access, const char *what)
{
    struct fid_mr *memory;
    int error = net_register_memory(&net->rails[0], base, bytes, access, &memory);
    if (error)
        log_warn(LOG_NET,
                 "path net: provider %s cannot register %zu bytes of %s: %s; peers reach them by "
                 "messages",
                 net->provider, bytes, what, net->lib->strerror(-error));
    return memory;
}

/* -------------------------------------------------------------------------------- own segments */

static struct net_chunks *get_chunks(struct path_common *net, enum segment_id segment)
{
    if (!make_memory(net))
        return NULL;
    struct net_chunks *chunks = &net->memory->segments[segment];
    if (chunks->chunk)
        return chunks;
    chunks->count = (net->world->sizes[segment] + NET_CHUNK_BYTES - 1) / NET_CHUNK_BYTES;
    chunks->chunk = calloc(chunks->count + 1, sizeof *chunks->chunk);
    return chunks->chunk ? chunks : NULL;
}

struct fid_mr *net_get_own_chunk(struct path_common *net, enum segment_id segment, size_t index,
                                 struct net_key *key)
{
    static const char *const names[SEG_COUNT] = {"the host heap", "the program's data",
                                                 "the system segment"};
    struct net_chunks *chunks = get_chunks(net, segment);
    if (!chunks || index >= chunks->count || !net->rails[0].endpoint)
        return NULL;
    struct net_chunk *chunk = &chunks->chunk[index];
    size_t start = index * NET_CHUNK_BYTES, left = net->world->sizes[segment] - start;
    char *base = net->world->map[net->world->pe][segment] + start;
    if (!chunk->attempted) {
        chunk->attempted = true;
        chunk->registered = register_on_first_rail(
            net, base, left < NET_CHUNK_BYTES ? left : NET_CHUNK_BYTES,
            FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE, names[segment]);
    }
    if (key && chunk->registered)
        *key = (struct net_key){
            .key = fi_mr_key(chunk->registered),
            .base = net->rails[0].traits.virtual_addresses ? (uint64_t)(uintptr_t)base : 0,
            .known = 1};
    return chunk->registered;
}

/* -------------------------------------------------------------------------------- peers' chunks */

weft_status net_get_peer_key(struct net_state *state, struct net_peer *peer,
                             enum segment_id segment, size_t chunk, struct net_key *key)
{
    size_t bytes = state->net->world->sizes[segment];
    size_t count = (bytes + NET_CHUNK_BYTES - 1) / NET_CHUNK_BYTES;
    if (!peer->keys[segment])
        peer->keys[segment] = calloc(count + 1, sizeof *peer->keys[segment]);
    if (!peer->keys[segment] || chunk >= count)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the keys of PE %d", peer->pe);
    struct net_key *known = &peer->keys[segment][chunk];
    weft_status status = WEFT_OK;
    if (!known->answered) {
        const struct net_record query = {
            .kind = NET_KEY, .segment = (uint8_t)segment, .offset = chunk};
        *key = (struct net_key){0};
        status = net_send_query(state, peer, &query, 0, key, sizeof *key, false);
        key->answered = 1;
        if (!status)
            *known = *key;
    }
    *key = *known;
    return status;
}

/* ----------------------------------------------------------------------------------- own memory */

/* access 0: the slab is not registered. */
static struct net_slab *new_slab(struct path_common *net, size_t bytes, uint64_t access,
                                 const char *what)
{
    struct net_slab *slab = make_memory(net) ? calloc(1, sizeof *slab) : NULL;
    void *memory =
        slab ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
             : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(slab);
        return NULL;
    }
    *slab = (struct net_slab){.next = net->slabs, .memory = memory, .bytes = bytes};
    slab->registered = access ? register_on_first_rail(net, memory, bytes, access, what) : NULL;
    if (access && !slab->registered) {
        munmap(memory, bytes);
        free(slab);
        return NULL;
    }
    net->slabs = slab;
    return slab;
}

/* Registers the slab with the first rail if the provider requires it. */
static struct net_slab *local_slab(struct path_common *net, size_t bytes, const char *what)
{
    uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
    bool registers = net->rails[0].traits.registers_local && net->rails[0].endpoint;
    struct net_slab *slab = new_slab(net, bytes, registers ? access : 0, what);
    if (slab && slab->registered)
        slab->descriptors[0] = fi_mr_desc(slab->registered);
    return slab;
}

/* Registers the slab with all rails but the first. */
static void register_on_other_rails(struct path_common *net, struct net_slab *slab, uint64_t access)
{
    for (int i = 1; i < net->rail_count; i++) {
        slab->on_rails[i] = net_register_on_rail(&net->rails[i], slab->memory, slab->bytes, access);
        if (slab->on_rails[i])
            slab->descriptors[i] = fi_mr_desc(slab->on_rails[i]);
    }
}

void *net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor)
{
    struct net_slab *slab = local_slab(net, bytes, "messages");
    *descriptor = slab ? slab->descriptors[0] : NULL;
    return slab ? slab->memory : NULL;
}

void *net_alloc_message_slab(struct path_common *net, size_t bytes, void *const **descriptors)
{
    struct net_slab *slab = local_slab(net, bytes, "messages");
    if (!slab)
        return NULL;
    if (net->rails[0].traits.registers_local)
        register_on_other_rails(net, slab, FI_SEND | FI_RECV);
    *descriptors = slab->descriptors;
    return slab->memory;
}

/* Pins the slab for this PE's GPU. If that fails, the driver copies through a buffer of its own. */
static void pin_slab(struct path_common *net, struct net_slab *slab)
{
    struct gpu *gpu = net->world->gpu;
    if (!gpu)
        return;
    madvise(slab->memory, slab->bytes, MADV_HUGEPAGE);
    slab->pinned = gpu_pin_range(gpu, slab->memory, slab->bytes) == WEFT_OK;
    if (!slab->pinned)
        log_info(LOG_NET, "path net: staging memory is not pinned, so the driver copies twice: %s",
                 base_last_error());
}

void *net_alloc_pinned_slab(struct path_common *net, size_t bytes, void *const **descriptors)
{
    struct net_slab *slab = local_slab(net, bytes, "pinned memory");
    if (!slab)
        return NULL;
    if (net->rails[0].traits.registers_local)
        register_on_other_rails(net, slab, FI_READ | FI_WRITE);
    *descriptors = slab->descriptors;
    pin_slab(net, slab);
    return slab->memory;
}

void *net_alloc_gpu_slab(struct path_common *net, size_t bytes)
{
    struct net_slab *slab = new_slab(net, bytes, 0, "pinned memory");
    if (!slab)
        return NULL;
    pin_slab(net, slab);
    return slab->memory;
}

static struct net_slab *make_staging_buffer(struct path_common *net, size_t bytes)
{
    uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    struct net_slab *slab =
        new_slab(net, bytes, net->rails[0].endpoint ? access : 0, "pinned memory");
    if (slab) {
        register_on_other_rails(net, slab, access);
        pin_slab(net, slab);
    }
    return slab;
}

void net_get_staging_buffer(struct path_common *net, struct net_peer *peer, size_t bytes,
                            struct net_key keys[NET_RAILS])
{
    memset(keys, 0, NET_RAILS * sizeof *keys);
    if (!peer->served.staging_slab)
        peer->served.staging_slab = make_staging_buffer(net, bytes);
    const struct net_slab *slab = peer->served.staging_slab;
    if (!slab)
        return;
    peer->served.staging_buffer = slab->memory;
    peer->served.staging_bytes = slab->bytes;
    for (int i = 0; i < net->rail_count; i++) {
        struct fid_mr *registered = i ? slab->on_rails[i] : slab->registered;
        if (registered && net->rails[i].endpoint)
            keys[i] =
                (struct net_key){.key = fi_mr_key(registered),
                                 .base = net->rails[i].traits.virtual_addresses
                                             ? (uint64_t)(uintptr_t)peer->served.staging_buffer
                                             : 0,
                                 .known = 1};
    }
}

static void free_chunks(struct net_memory *memory)
{
    for (int s = 0; s < SEG_COUNT; s++) {
        struct net_chunks *chunks = &memory->segments[s];
        for (size_t i = 0; i < chunks->count && chunks->chunk; i++)
            if (chunks->chunk[i].registered)
                fi_close(&chunks->chunk[i].registered->fid);
        free(chunks->chunk);
    }
    free(memory);
}

void net_free_memory(struct path_common *net)
{
    while (net->slabs) {
        struct net_slab *slab = net->slabs;
        net->slabs = slab->next;
        if (slab->registered)
            fi_close(&slab->registered->fid);
        for (int i = 0; i < NET_RAILS; i++)
            if (slab->on_rails[i])
                fi_close(&slab->on_rails[i]->fid);
        if (slab->pinned)
            gpu_unpin_range(net->world->gpu, slab->memory, slab->bytes);
        munmap(slab->memory, slab->bytes);
        free(slab);
    }
    if (net->memory)
        free_chunks(net->memory);
    net->memory = NULL;
}

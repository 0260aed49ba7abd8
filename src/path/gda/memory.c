/* SPDX-License-Identifier: Apache-2.0 */
/* Registration of the segments with the NICs in chunks, each with its own key. All chunks are
 * registered at the start, because device code cannot request a key later. Knows nothing of
 * queues. */
#include "path/gda/gda.h"

#include "base/config.h"
#include "base/status.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const segment_names[SEG_COUNT] = {"the host heap", "the program's data",
                                                     "the system segment"};

/* The bytes of a segment that NICs access: all but the mail, which would be pinned. */
static size_t registered_bytes(const struct gda *gda, int segment)
{
    const struct path_world *world = gda->world;
    return segment == SEG_SYSTEM && world->mail_offset ? world->mail_offset : world->sizes[segment];
}

static uint32_t chunks_of(const struct gda *gda, int segment)
{
    size_t size = registered_bytes(gda, segment);
    return (uint32_t)((size + ((size_t)1 << gda->chunk_bits) - 1) >> gda->chunk_bits);
}

static weft_status register_chunk(struct gda *gda, uint32_t a, int segment, uint32_t number,
                                  bool relaxed)
{
    size_t start = (size_t)number << gda->chunk_bits, most = (size_t)1 << gda->chunk_bits;
    size_t left = registered_bytes(gda, segment) - start, bytes = left < most ? left : most;
    char *base = gda->world->map[gda->world->pe][segment] + start;
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    struct ibv_mr *region =
        adapter->lib->verbs.reg_mr(adapter->pd, base, bytes, gda_access_flags(adapter, relaxed));
    if (!region)
        return base_fail(WEFT_ERR_SYSTEM,
                         "path gda: %s cannot register %zu bytes of %s (ibv_reg_mr: %s)%s",
                         adapter->name, bytes, segment_names[segment], strerror(errno),
                         errno == ENOMEM ? "; raise the limit of locked memory (ulimit -l) or "
                                           "reduce WEFT_HEAP_SIZE"
                                         : "");
    size_t chunk = (size_t)a * gda->chunks + gda->first[segment] + number;
    gda->regions[chunk + (relaxed ? (size_t)gda->count * gda->chunks : 0)] = region;
    gda->local_keys[chunk] = htobe32(region->lkey);
    return WEFT_OK;
}

weft_status gda_register_segments(struct gda *gda)
{
    size_t npes = (size_t)gda->world->npes, count = gda->count;
    for (int s = 0; s < SEG_COUNT; s++) {
        gda->first[s] = gda->chunks;
        gda->chunks += chunks_of(gda, s);
    }
    gda->relaxed = config_int(CONFIG_TEST_GDA) & GDA_TEST_RELAXED;
    gda->regions = calloc(2 * count * gda->chunks, sizeof *gda->regions);
    gda->local_keys = calloc(count * gda->chunks, sizeof *gda->local_keys);
    size_t keys = count * npes * gda->chunks;
    gda->remote_keys = calloc(gda->relaxed ? 2 * keys : keys, sizeof *gda->remote_keys);
    gda->data_keys = gda->remote_keys && gda->relaxed ? gda->remote_keys + keys : gda->remote_keys;
    gda->bases = calloc(npes * SEG_COUNT, sizeof *gda->bases);
    if (!gda->regions || !gda->local_keys || !gda->remote_keys || !gda->bases)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %u keys", gda->chunks);
    weft_status status = WEFT_OK;
    for (uint32_t a = 0; a < gda->count; a++)
        for (int s = 0; s < SEG_COUNT; s++)
            for (uint32_t i = 0; i < chunks_of(gda, s) && !status; i++) {
                status = register_chunk(gda, a, s, i, false);
                if (!status && gda->relaxed)
                    status = register_chunk(gda, a, s, i, true);
            }
    return status;
}

void gda_free_memory(struct gda *gda)
{
    for (size_t i = 0; gda->regions && i < 2 * (size_t)gda->count * gda->chunks; i++)
        if (gda->regions[i])
            gda->adapters->lib.verbs.dereg_mr(gda->regions[i]);
    free(gda->regions);
    free(gda->local_keys);
    free(gda->remote_keys);
    free(gda->bases);
}

static void clip_to_chunk(size_t *bytes, size_t offset, uint32_t bits)
{
    size_t left = (((offset >> bits) + 1) << bits) - offset;
    *bytes = *bytes < left ? *bytes : left;
}

/* Key of GPU memory at a PE; 0: it is in no allocation. */
static uint32_t gpu_key(const struct gda *gda, uint32_t adapter, struct remote at, bool data)
{
    const struct gda_gpu *gpu = gda->gpu;
    const uint32_t *keys = gpu->keys[at.offset >> gpu->unit_bits];
    size_t npes = (size_t)gda->world->npes, row = data ? gda->count + adapter : adapter;
    return keys ? keys[row * npes + (size_t)at.peer->pe] : 0;
}

uint64_t gda_address_of(const struct gda *gda, struct remote at)
{
    size_t pe = (size_t)at.peer->pe;
    return at.offset +
           (at.segment == SEG_GPU ? gda->gpu->bases[pe] : gda->bases[pe * SEG_COUNT + at.segment]);
}

struct weft_dev_gda_place gda_resolve_remote(const struct gda *gda, uint32_t adapter,
                                             struct remote at, size_t *bytes)
{
    struct weft_dev_gda_place place = {.address = gda_address_of(gda, at)};
    size_t pe = (size_t)at.peer->pe, row = (size_t)adapter * (size_t)gda->world->npes + pe;
    if (at.segment == SEG_GPU) {
        clip_to_chunk(bytes, at.offset, gda->gpu->unit_bits);
        place.key = gpu_key(gda, adapter, at, false);
        return place;
    }
    clip_to_chunk(bytes, at.offset, gda->chunk_bits);
    place.key = gda->remote_keys[row * gda->chunks + gda->first[at.segment] +
                                 (at.offset >> gda->chunk_bits)];
    return place;
}

uint32_t gda_data_key(const struct gda *gda, uint32_t adapter, struct remote at, bool *open)
{
    size_t row = (size_t)adapter * (size_t)gda->world->npes + (size_t)at.peer->pe;
    if (at.segment == SEG_GPU) {
        *open = gda->gpu->relaxed;
        return gpu_key(gda, adapter, at, true);
    }
    *open = gda->relaxed;
    return gda
        ->data_keys[row * gda->chunks + gda->first[at.segment] + (at.offset >> gda->chunk_bits)];
}

static bool is_in_window(const struct gda *gda, uint32_t adapter, const void *local, size_t *bytes,
                         struct weft_dev_gda_place *at)
{
    const struct gda_gpu *gpu = gda->gpu;
    size_t offset = gpu ? (uintptr_t)local - gpu->bases[gda->world->pe] : 0;
    if (!gpu || offset >> gpu->unit_bits >= gpu->units)
        return false;
    clip_to_chunk(bytes, offset, gpu->unit_bits);
    *at = (struct weft_dev_gda_place){
        (uintptr_t)local,
        gpu->local_keys[(size_t)adapter * gpu->units + (offset >> gpu->unit_bits)]};
    return at->key != 0;
}

bool gda_resolve_local(const struct gda *gda, uint32_t adapter, const void *local, size_t *bytes,
                       struct weft_dev_gda_place *at)
{
    for (int s = 0; s < SEG_COUNT; s++) {
        size_t size = registered_bytes(gda, s);
        size_t offset = (size_t)((const char *)local - gda->world->map[gda->world->pe][s]);
        if (offset >= size)
            continue;
        *bytes = *bytes < size - offset ? *bytes : size - offset;
        clip_to_chunk(bytes, offset, gda->chunk_bits);
        *at = (struct weft_dev_gda_place){
            (uintptr_t)local, gda->local_keys[(size_t)adapter * gda->chunks + gda->first[s] +
                                              (offset >> gda->chunk_bits)]};
        return true;
    }
    return is_in_window(gda, adapter, local, bytes, at);
}

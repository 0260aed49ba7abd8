/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of path gda for device code, and waiting for the WQEs that device code posted. Device code
 * of target simt uses the host's queues and keys directly; for target cuda see cuda.c. */
#include "path/gda/dc.h"

#include "base/config.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)GDA_ADAPTERS_MOST == (int)WEFT_DEV_GDA_ADAPTERS_MOST,
               "device code splits over all NICs");

struct gda_simt {
    uint64_t bases[1]; /* [npes][WEFT_DEV_PARTS] */
};

/* Segment of each part; SEG_COUNT: target simt has no such part. */
static const enum segment_id segment_of[WEFT_DEV_PARTS] = {
    [WEFT_DEV_HEAP] = SEG_HEAP,
    [WEFT_DEV_OTHER] = SEG_COUNT,
    [WEFT_DEV_DATA] = SEG_DATA,
    [WEFT_DEV_AREAS] = SEG_SYSTEM,
};

/* Own addresses are those of dev->segment. They may differ from the registered addresses. */
static void fill_simt_part(const struct gda *gda, struct weft_dev *dev, int part)
{
    struct gda_simt *simt = gda->simt;
    struct weft_dev_gda *table = &dev->gda;
    enum segment_id s = segment_of[part];
    table->chunk_bits[part] = gda->chunk_bits;
    if (s == SEG_COUNT)
        return;
    table->first[part] = gda->first[s];
    table->own[part] = (uintptr_t)gda->world->map[gda->world->pe][s];
    if (part == WEFT_DEV_AREAS)
        table->skip[part] = dev->segment[part].base - table->own[part];
    for (size_t pe = 0; pe < (size_t)gda->world->npes; pe++)
        simt->bases[pe * WEFT_DEV_PARTS + (size_t)part] = gda->bases[pe * SEG_COUNT + s];
}

/* The shared queues begin with one for each NIC, and their number is not less. */
struct weft_dev_gda_sharing gda_sharing(const struct gda *gda)
{
    struct weft_dev_gda_sharing sharing = {.shared = gda->queues_per_pe};
    if (gda->sharing == PATH_SHARED_BY_NONE)
        sharing.exclusive = (gda->queues_per_pe / gda->count - 1) * gda->count;
    sharing.shared_from = sharing.exclusive;
    sharing.shared -= sharing.exclusive;
    if (gda->sharing == PATH_SHARED_BY_ALL)
        sharing.shared = gda->count;
    sharing.fraction = weft_dev_gda_fraction(sharing.shared);
    return sharing;
}

static weft_status write_simt_table(struct gda *gda, struct weft_dev *dev)
{
    size_t places = (size_t)gda->world->npes * WEFT_DEV_PARTS;
    if (!gda->simt)
        gda->simt = calloc(1, sizeof *gda->simt + places * sizeof gda->simt->bases[0]);
    if (!gda->simt)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for device code");
    dev->gda = (struct weft_dev_gda){.connected = gda->device_queues,
                                     .failed = gda->failed,
                                     .wanted = gda->wanted,
                                     .each = gda->queues_per_pe,
                                     .sharing = gda_sharing(gda),
                                     .adapters = gda->count,
                                     .key_step = 1,
                                     .bases = gda->simt->bases,
                                     .used = gda->used,
                                     .alarm = gda_alarm(gda),
                                     .data_keys = (uint32_t)(gda->data_keys - gda->remote_keys),
                                     .dumps = config_int(CONFIG_TEST_GDA) / GDA_TEST_APART,
                                     .ordered = gda_order_flags(gda),
                                     .no_atomics = gda->adapters->no_atomics};
    gda_dc_fill_device(gda, &dev->gda);
    for (int part = 0; part < WEFT_DEV_PARTS; part++)
        fill_simt_part(gda, dev, part);
    return WEFT_OK;
}

weft_status gda_write_device_table(struct path_common *common, bool cuda, struct weft_dev *dev)
{
    struct gda *gda = (struct gda *)(void *)common;
    return cuda ? gda_write_cuda_table(gda, dev) : write_simt_table(gda, dev);
}

weft_status gda_share_queues(struct path_common *common, enum path_sharing sharing,
                             struct weft_dev *dev, int *blocks)
{
    struct gda *gda = (struct gda *)(void *)common;
    if (sharing == PATH_SHARED_BY_NONE && gda->queues_per_pe < 2 * gda->count)
        return base_fail(WEFT_ERR_CONFIG,
                         "path gda: WEFT_GDA_QUEUES is %u, which leaves no queue to a block alone "
                         "with %u adapter%s: set it to %u for one block, and to %u more for each "
                         "further %u",
                         gda->queues_per_pe, gda->count, gda->count > 1 ? "s" : "", 2 * gda->count,
                         gda->count, gda->count);
    gda->sharing = sharing;
    dev->gda.sharing = gda_sharing(gda);
    *blocks = (int)dev->gda.sharing.exclusive;
    return WEFT_OK;
}

void gda_name_queue(const struct path_common *common, int pe, uint64_t queue, char *text,
                    size_t bytes)
{
    const struct gda *gda = (const struct gda *)(const void *)common;
    bool there = gda && queue < gda->queues_per_pe && pe >= 0 && pe < gda->world->npes;
    snprintf(text, bytes, "%s", "");
    if (there)
        snprintf(text, bytes, "%s, port %d",
                 gda->adapters->one[gda_adapter_of(gda, (uint32_t)queue)].name, GDA_PORT);
}

void gda_free_simt(struct gda_simt *simt)
{
    free(simt);
}

/* The GPU's queue is complete, but data may still be on their way to the peer's memory. A read by
 * the host's queue flushes them, because it takes the same route to the same memory. */
static weft_status flush_by_host(struct gda *gda, int pe, uint32_t adapter)
{
    struct weft_dev_gda_queue *q =
        &gda->queues[gda_queue_index(gda, pe, gda->queues_per_pe + adapter)];
    uint64_t end;
    weft_status status = gda_flush_queue(gda, q, pe, adapter, &end);
    return status ? status : gda_await(gda, q, pe, end, BOX_OP_DEVICE_QUIET);
}

weft_status gda_drain_device(struct path_common *common)
{
    struct gda *gda = (struct gda *)(void *)common;
    weft_status status = gda_read_cuda_counts(gda);
    for (uint32_t i = 0; i < gda_device_queue_count(gda) && !status; i++) {
        struct weft_dev_gda_queue *q = &gda->queues[gda_device_queue_index(gda, i)];
        int pe = (int)(i / gda->queues_per_pe);
        if (gda_link_of(gda, pe) != GDA_LINK_UP)
            continue;
        uint32_t adapter = gda_adapter_of(gda, i % gda->queues_per_pe);
        uint64_t head = weft_dev_gda_head(q), end = 0;
        bool open = weft_dev_gda_is_open(q);
        if (open && !gda->cuda && !(status = gda_flush_queue(gda, q, pe, adapter, &end)))
            head = end;
        if (!status && !weft_dev_gda_reached(q, head))
            status = gda->gpu_queues && gda->cuda
                         ? gda_await_gpu_queue(gda, i, head)
                         : gda_await(gda, q, pe, head, BOX_OP_DEVICE_QUIET);
        if (open && !gda->cuda && !status)
            weft_dev_gda_flush_done(q, end);
        if (open && gda->cuda && !status)
            status = flush_by_host(gda, pe, adapter);
    }
    return status ? status : gda_dc_drain_device(gda);
}

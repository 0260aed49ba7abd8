/* SPDX-License-Identifier: Apache-2.0 */
/* DC initiators of device code (weft/device/dc.h), with the addresses of the targets of PEs whose
 * way is tested. They are created when device code is first used. Group g of PEs, number modulo
 * GDA_INITIATORS, has as many of them as queues of device code lead to an RC peer, and queue k
 * belongs to the same NIC as there. They are in GPU memory if the queues to RC peers are (far.c).
 * Without a path that stands by, a failed queue ends the job. */
#include "path/gda/dc.h"

#include "base/log.h"
#include "base/status.h"
#include "path/gda/error.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t device_table_bytes(const struct gda *gda)
{
    return (size_t)GDA_INITIATORS * gda->queues_per_pe * sizeof(struct weft_dev_gda_queue);
}

static uint32_t mark_words(const struct gda *gda)
{
    return gda->depth / WEFT_DEV_GDA_MARKS;
}

static void destroy_part(const struct gda *gda, struct gda_dc_device_part *part)
{
    const struct mlx5 *lib = &gda->adapters->lib;
    gda_destroy_qp(&part->qp);
    if (part->region)
        lib->verbs.dereg_mr(part->region);
    if (part->umem)
        lib->dv.umem_dereg(part->umem);
    gda_unmap_zeros(part->area, gda_queue_bytes(gda->depth));
    free(part->words);
    free(part->busy);
}

void gda_dc_close_device(struct gda *gda)
{
    struct gda_dc_device *device = gda->dc->device;
    if (!device)
        return;
    for (uint32_t i = 0; i < device->count; i++)
        destroy_part(gda, &device->parts[i]);
    gda_unmap_zeros(device->queues, device_table_bytes(gda));
    gda_unmap_zeros(device->targets, device->target_bytes);
    free(device->tested);
    free(device);
    gda->dc->device = NULL;
}

static weft_status fail_register(const struct gda_adapter *adapter, const char *call)
{
    return base_fail(WEFT_ERR_SYSTEM, "path gda: %s: %s for device code: %s", adapter->name, call,
                     strerror(errno));
}

static weft_status allocate_part(const struct gda *gda, const struct gda_adapter *adapter,
                                 struct gda_dc_device_part *part)
{
    const size_t bytes = gda_queue_bytes(gda->depth);
    part->words = calloc(2 * (size_t)mark_words(gda), sizeof *part->words);
    part->busy = calloc(gda->depth, sizeof *part->busy);
    part->area = gda_map_zeros(bytes);
    if (!part->words || !part->busy || !part->area)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no memory for a DC initiator");
    part->umem =
        adapter->lib->dv.umem_reg(adapter->context, part->area, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!part->umem)
        return fail_register(adapter, "mlx5dv_devx_umem_reg");
    part->region =
        adapter->lib->verbs.reg_mr(adapter->pd, part->area, bytes, IBV_ACCESS_LOCAL_WRITE);
    return part->region ? WEFT_OK : fail_register(adapter, "ibv_reg_mr");
}

static weft_status open_queue(struct gda *gda, struct gda_dc_device *device, uint32_t i)
{
    const uint32_t k = i % gda->queues_per_pe, a = gda_adapter_of(gda, k);
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    const struct gda_layout at = gda_layout_of(gda, 0);
    struct weft_dev_gda_queue *q = &device->queues[i];
    struct gda_dc_device_part *part = &device->parts[i];
    weft_status status = allocate_part(gda, adapter, part);
    if (status)
        return status;
    part->qp = (struct gda_qp){.adapter = adapter, .umem = part->umem->umem_id, .dc = true};
    memset(part->area + at.completions, 0xff, at.page - at.completions);
    q->results_key = htobe32(part->region->lkey);
    q->remote_keys = gda->remote_keys + gda_key_index(gda, a, 0);
    q->local_keys = gda->local_keys + (size_t)a * gda->chunks;
    q->marks = part->words;
    q->fillers = part->words + mark_words(gda);
    q->busy = part->busy;
    q->name = k;
    q->used_bit = (uint32_t)gda->world->npes * gda->queues_per_pe + i;
    q->turns = WEFT_DEV_GDA_UNUSED;
    q->ready = 1 + 2 * gda_dc_address_segments(gda, a, gda->world->pe);
    status = gda_create_queue(gda, &part->qp, q, &at, part->area);
    return status ? status : gda_open_initiator(&part->qp, q->number, gda->dc->mtu);
}

/* Those of the GPU are in GPU memory if its other queues are. */
static weft_status open_queues(struct gda *gda, struct gda_dc_device *device)
{
    weft_status status = WEFT_OK;
    if (device->cuda && gda->gpu_queues)
        status = gda_open_gpu_initiators(gda);
    else
        for (uint32_t i = 0; i < device->count && !status; i++)
            status = open_queue(gda, device, i);
    return status || !device->cuda ? status : gda_open_cuda_initiators(gda);
}

static weft_status open_device(struct gda *gda, bool cuda)
{
    const uint32_t count = GDA_INITIATORS * gda->queues_per_pe;
    struct gda_dc_device *device = calloc(1, sizeof *device + count * sizeof device->parts[0]);
    if (!device)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    gda->dc->device = device;
    device->cuda = cuda;
    device->count = count;
    device->queues = gda_map_zeros(device_table_bytes(gda));
    device->target_bytes = (size_t)gda->world->npes * gda->count * sizeof *device->targets;
    device->targets = gda_map_zeros(device->target_bytes);
    device->tested = calloc((size_t)gda->world->npes, sizeof *device->tested);
    weft_status status = device->queues && device->targets && device->tested
                             ? open_queues(gda, device)
                             : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    device->works = !status;
    return status;
}

/* The initiators that device code posts to; NULL: none. */
static struct gda_dc_device *working_device(const struct gda *gda)
{
    struct gda_dc_device *device = gda->dc ? gda->dc->device : NULL;
    return device && device->works ? device : NULL;
}

/* The caller holds test_lock. */
static void publish_peer(struct gda *gda, int pe)
{
    struct gda_dc_device *device = gda->dc->device;
    uint32_t group = (uint32_t)pe % GDA_INITIATORS;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&gda->cuda_lock);
    for (uint32_t a = 0; a < gda->count; a++)
        gda_dc_write_address(gda, a, pe, device->targets[(size_t)pe * gda->count + a].words);
    device->tested[pe] = 1;
    if (device->cuda)
        status = gda_write_cuda_target(gda, pe);
    else /* Release: pairs with weft_dev_dc_is_ready(). */
        __atomic_store_n(&gda->device_queues[pe],
                         (uintptr_t)&device->queues[group * gda->queues_per_pe], __ATOMIC_RELEASE);
    pthread_mutex_unlock(&gda->cuda_lock);
    if (status)
        gda->world->fail(gda->world, status, base_last_error());
}

void gda_dc_publish_device(struct gda *gda, int pe)
{
    if (working_device(gda))
        publish_peer(gda, pe);
}

bool gda_dc_has_device(struct gda *gda, bool cuda)
{
    struct gda_dc *dc = gda->dc;
    pthread_mutex_lock(&dc->test_lock);
    if (!dc->device && !dc->why_proxy[0]) {
        weft_status status = WEFT_OK;
        if (gda_may_fail_over(gda))
            snprintf(dc->why_proxy, sizeof dc->why_proxy, "path %s stands by",
                     path_ops_of(path_ops_of(PATH_GDA)->spare)->name);
        else
            status = open_device(gda, cuda);
        if (status) {
            gda_refusal_text("created", dc->why_proxy);
            log_info(LOG_GDA, "path gda: device code does not post by DC: %s", base_last_error());
        }
        const struct gda_dc_device *device = working_device(gda);
        for (uint32_t g = 0; device && !cuda && g < GDA_INITIATORS; g++)
            gda->device_queues[(uint32_t)gda->world->npes + g] =
                (uintptr_t)&device->queues[g * gda->queues_per_pe];
        for (int pe = 0; pe < gda->world->npes; pe++) {
            if (gda_link_of(gda, pe) != GDA_LINK_DC)
                continue;
            if (device)
                publish_peer(gda, pe);
            gda_dc_report_peer(gda, pe);
        }
    }
    bool has = working_device(gda) && dc->device->cuda == cuda;
    pthread_mutex_unlock(&dc->test_lock);
    return has;
}

void gda_dc_fill_device(const struct gda *gda, struct weft_dev_gda *table)
{
    const struct gda_dc_device *device = working_device(gda);
    if (!device || device->cuda)
        return;
    table->dc_groups = GDA_INITIATORS;
    table->dc_keys = gda->chunks;
    table->targets = device->targets;
}

static weft_status fail_device_queue(const struct gda_dc_device_part *part,
                                     const struct weft_dev_gda_queue *q)
{
    uint64_t word = __atomic_load_n(q->completion - 1, __ATOMIC_RELAXED);
    return base_fail(WEFT_ERR_PATH,
                     "path gda: a request of device code by DC (queue pair %#x of %s, port %d) has "
                     "failed: %s (syndrome %#04x, vendor %#04x)",
                     q->number, part->qp.adapter->name, GDA_PORT,
                     gda_syndrome_text((unsigned)(word >> 56)), (unsigned)(word >> 56),
                     (unsigned)(word >> 48 & 0xff));
}

static weft_status drain_queue(const struct gda *gda, const struct gda_dc_device_part *part,
                               struct weft_dev_gda_queue *q)
{
    const uint64_t head = weft_dev_gda_head(q);
    struct path_wait wait = {.world = gda->world,
                             .operation = BOX_OP_DEVICE_QUIET,
                             .pe = gda->world->pe,
                             .expected = head};
    weft_status status = WEFT_OK;
    uint64_t done;
    while ((done = weft_dev_gda_look(q)) < head && !status)
        status = path_wait_step(&wait, done);
    path_wait_end(&wait);
    return status || done != WEFT_DEV_GDA_FAILED ? status : fail_device_queue(part, q);
}

weft_status gda_dc_drain_device(const struct gda *gda)
{
    const struct gda_dc_device *device = working_device(gda);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; device && i < device->count && !status; i++) {
        uint64_t head = weft_dev_gda_head(&device->queues[i]);
        if (!device->cuda || !gda->gpu_queues)
            status = drain_queue(gda, &device->parts[i], &device->queues[i]);
        else if (!weft_dev_gda_reached(&device->queues[i], head))
            status = gda_await_gpu_queue(gda, gda_device_queue_count(gda) + i, head);
    }
    return status;
}

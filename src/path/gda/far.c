/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of path gda in the memory of the GPU whose device code uses them: requests, doorbell
 * records and completions are then no further from it than its own memory, and a fence between them
 * waits for no store over PCIe. The adapter reaches that memory by dma-buf, else by its address.
 * Where one PE cannot have them none has, so that both ends of a queue are alike. */
#include "path/gda/gda.h"

#include "base/config.h"
#include "base/status.h"
#include "boot/agree.h"
#include "gpu/gpu.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GDA_LANE = 3, WHOLE_BYTES = 2 << 20 }; /* dma-bufs are of whole pages of the GPU */

/* Of WEFT_GDA_QUEUE_MEMORY. */
enum { MEMORY_AUTO, MEMORY_HOST, MEMORY_GPU };
enum { RING_CPU = 2 }; /* of WEFT_GDA_DOORBELL */

static uint32_t count_of(const struct gda *gda)
{
    return (uint32_t)gda->world->npes * gda->each;
}

/* ------------------------------------------------------------------------------------- the area */

static struct mlx5dv_devx_umem *umem_by_dmabuf(struct gda *gda, const struct gda_far *far,
                                               const struct gda_adapter *adapter)
{
    struct mlx5dv_devx_umem_in in = {.size = far->bytes,
                                     .access = IBV_ACCESS_LOCAL_WRITE,
                                     .pgsz_bitmap = ~(uint64_t)(GDA_PAGE - 1),
                                     .comp_mask = MLX5DV_UMEM_MASK_DMABUF};
    const struct mlx5_functions *dv = &adapter->lib->dv;
    if (!dv->umem_reg_ex ||
        gpu_export_dmabuf(gda->world->gpu, far->area, far->bytes, &in.dmabuf_fd))
        return NULL;
    struct mlx5dv_devx_umem *umem = dv->umem_reg_ex(adapter->context, &in);
    close(in.dmabuf_fd); /* the adapter holds what it needs */
    return umem;
}

static weft_status register_far_area(struct gda *gda, struct gda_far *far, uint32_t a)
{
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    const struct mlx5 *lib = adapter->lib;
    void *at = (void *)(uintptr_t)far->area;
    int fd;
    far->umems[a] = umem_by_dmabuf(gda, far, adapter);
    if (!far->umems[a])
        far->umems[a] = lib->dv.umem_reg(adapter->context, at, far->bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!far->umems[a])
        return base_fail(WEFT_ERR_NO_PATH,
                         "%s takes no queues in GPU memory (mlx5dv_devx_umem_reg: %s)",
                         adapter->name, strerror(errno));
    if (lib->verbs.reg_dmabuf_mr &&
        !gpu_export_dmabuf(gda->world->gpu, far->area, far->bytes, &fd)) {
        far->regions[a] = lib->verbs.reg_dmabuf_mr(adapter->pd, 0, far->bytes, far->area, fd,
                                                   IBV_ACCESS_LOCAL_WRITE);
        close(fd);
    }
    if (!far->regions[a])
        far->regions[a] = lib->verbs.reg_mr(adapter->pd, at, far->bytes, IBV_ACCESS_LOCAL_WRITE);
    return far->regions[a] ? WEFT_OK
                           : base_fail(WEFT_ERR_NO_PATH, "%s takes no results in GPU memory (%s)",
                                       adapter->name, strerror(errno));
}

static weft_status make_far_queue(struct gda *gda, struct gda_far *far, uint32_t i)
{
    struct gda_parts at = gda_parts_of(gda, i);
    struct weft_dev_gda_queue *q = &far->queues[i];
    uint32_t a = gda_adapter_of(gda, i % gda->each);
    q->results_key = htobe32(far->regions[a]->lkey);
    q->name = i % gda->each;
    far->links[i].adapter = &gda->adapters->one[a];
    far->links[i].umem = far->umems[a]->umem_id;
    weft_status status = gpu_fill(gda->world->gpu, (void *)(uintptr_t)(far->area + at.completions),
                                  0xff, at.page - at.completions);
    return status ? status
                  : gda_make_queue(gda, &far->links[i], q, &at, (char *)(uintptr_t)far->area);
}

static weft_status make_far(struct gda *gda, struct gda_far *far)
{
    uint32_t count = count_of(gda);
    if (config_int(CONFIG_GDA_INITIATOR))
        return base_fail(WEFT_ERR_NO_PATH, "WEFT_GDA_INITIATOR is cpu");
    if (config_int(CONFIG_GDA_QUEUE_MEMORY) == MEMORY_HOST)
        return base_fail(WEFT_ERR_NO_PATH, "WEFT_GDA_QUEUE_MEMORY is host");
    far->links = calloc(count, sizeof *far->links);
    far->queues = aligned_alloc(WEFT_DEV_GDA_LINE, count * sizeof *far->queues);
    if (!far->links || !far->queues)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %u queues", count);
    memset(far->queues, 0, count * sizeof *far->queues);
    far->bytes = (count * gda_parts_of(gda, 0).bytes + WHOLE_BYTES - 1) / WHOLE_BYTES * WHOLE_BYTES;
    CUdeviceptr area = 0;
    weft_status status = gpu_alloc(gda->world->gpu, far->bytes, &area);
    far->area = area;
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = register_far_area(gda, far, a);
    for (uint32_t i = 0; i < count && !status; i++)
        status = make_far_queue(gda, far, i);
    if (!status && config_int(CONFIG_GDA_DOORBELL) == RING_CPU &&
        gpu_place_of(gda->world->gpu, far->queues[0].ring.doorbell) == GPU_PLACE_DEVICE)
        status = base_fail(WEFT_ERR_NO_PATH, "a thread cannot ring the doorbells of %s",
                           gda->adapters->one[0].name);
    return status;
}

static void free_far(const struct gda *gda, struct gda_far *far)
{
    const struct mlx5 *lib = &gda->adapters->lib;
    for (uint32_t i = 0; far->links && i < count_of(gda); i++)
        gda_free_link(&far->links[i]);
    for (uint32_t a = 0; a < gda->count; a++) {
        if (far->regions[a])
            lib->verbs.dereg_mr(far->regions[a]);
        if (far->umems[a])
            lib->dv.umem_dereg(far->umems[a]);
    }
    gpu_free(gda->world->gpu, far->area);
    free(far->links);
    free(far->queues);
    free(far);
}

/* ----------------------------------------------------------------------------------- connecting */

/* What a PE tells: whether it has them, then the numbers of its queues to each PE. */
static weft_status exchange(const struct gda *gda, const struct gda_far *far, bool there,
                            uint32_t *all, bool *everywhere)
{
    const struct path_world *world = gda->world;
    uint32_t count = count_of(gda), row = count + 1;
    uint32_t *mine = all + (size_t)world->npes * row;
    mine[0] = there;
    for (uint32_t i = 0; i < count && there; i++)
        mine[1 + i] = far->queues[i].number;
    weft_status status = world->boot->ops->allgather(world->boot, mine, all, row * sizeof *mine);
    *everywhere = !status;
    for (size_t pe = 0; pe < (size_t)world->npes && !status; pe++) {
        const char *fault = all[pe * row] ? gda_numbers_fault(&all[pe * row + 1], count) : NULL;
        *everywhere &= all[pe * row] != 0;
        if (fault)
            status = gda_refuse((int)pe, fault);
    }
    return status;
}

static weft_status connect(struct gda *gda, struct gda_far *far, const uint32_t *all)
{
    uint32_t row = count_of(gda) + 1, me = (uint32_t)gda->world->pe;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < count_of(gda) && !status; i++) {
        uint32_t pe = i / gda->each, mine = far->queues[i].number;
        uint32_t a = gda_adapter_of(gda, i % gda->each);
        uint32_t its = all[(size_t)pe * row + 1 + me * gda->each + i % gda->each];
        struct gda_ends ends = gda_ends_of(gda, mine, (int)pe, its);
        status =
            gda_connect_qp(&far->links[i], &ends, &gda->addresses[(size_t)pe * gda->count + a]);
    }
    return status;
}

static weft_status join_all(struct gda *gda, struct gda_far *far, bool there, uint32_t *all,
                            bool *everywhere)
{
    weft_status status = exchange(gda, far, there, all, everywhere);
    if (!status && *everywhere)
        status = connect(gda, far, all);
    return boot_agree(gda->world->boot, status);
}

weft_status gda_open_far(struct gda *gda, char *lacks, size_t bytes)
{
    size_t row = count_of(gda) + 1, npes = (size_t)gda->world->npes;
    struct gda_far *far = calloc(1, sizeof *far);
    uint32_t *all = calloc((npes + 1) * row, sizeof *all);
    bool everywhere = false, there = false;
    weft_status status = far && all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(gda->world->boot, status);
    lacks[0] = '\0';
    if (!status) {
        there = !make_far(gda, far);
        snprintf(lacks, bytes, "%s", there ? "" : base_last_error());
        status = join_all(gda, far, there, all, &everywhere);
    }
    free(all);
    if (!status && everywhere) {
        gda->far = far;
        return WEFT_OK;
    }
    if (far)
        free_far(gda, far);
    if (there)
        snprintf(lacks, bytes, "another PE cannot have its queues in GPU memory");
    if (!status && config_int(CONFIG_GDA_QUEUE_MEMORY) == MEMORY_GPU)
        status =
            base_fail(WEFT_ERR_NO_PATH, "path gda: WEFT_GDA_QUEUE_MEMORY is gpu, but %s", lacks);
    return status;
}

void gda_close_far(struct gda *gda)
{
    if (gda->far)
        free_far(gda, gda->far);
    gda->far = NULL;
}

/* ---------------------------------------------------------------------------------------- waits */

/* The host's view of the queue, with the completion as it was copied from the GPU. */
static weft_status read_done(const struct gda *gda, uint32_t number, uint64_t *done, uint64_t *last)
{
    uint64_t tail[2];
    struct weft_dev_gda_queue q = gda->queues[number];
    const void *from = gda->far->queues[number].completion - 1;
    weft_status status = gpu_copy(gda->world->gpu, GDA_LANE, tail, from, sizeof tail, GPU_DONE);
    q.completion = &tail[1];
    *done = status ? 0 : weft_dev_gda_done(&q);
    *last = tail[0];
    return status;
}

weft_status gda_await_far(const struct gda *gda, uint32_t number, uint64_t target)
{
    int pe = (int)(number / gda->each);
    uint64_t done = 0, last = 0;
    struct path_wait wait = {
        .world = gda->world, .operation = BOX_OP_DEVICE_QUIET, .pe = pe, .expected = target};
    weft_status status = read_done(gda, number, &done, &last);
    while (!status && done != WEFT_DEV_GDA_FAILED && done < target) {
        status = path_wait_step(&wait, done);
        if (!status)
            status = read_done(gda, number, &done, &last);
    }
    path_wait_end(&wait);
    if (!status && done == WEFT_DEV_GDA_FAILED)
        status = base_fail(WEFT_ERR_PATH,
                           "path gda: queue %u of device code to PE %d (queue pair %#x of %s, port "
                           "%d) has failed (syndrome %#04x, vendor %#04x)",
                           number % gda->each, pe, gda->far->queues[number].number,
                           gda->far->links[number].adapter->name, GDA_PORT, (unsigned)(last >> 56),
                           (unsigned)(last >> 48 & 0xff));
    return status;
}

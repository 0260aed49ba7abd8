/* SPDX-License-Identifier: Apache-2.0 */
/* Device-code queues in the memory of the GPU that uses them. The GPU then reaches WQEs, doorbell
 * records and completions in its own memory, and a fence between them does not wait for stores over
 * PCIe. The NIC reaches that memory by dma-buf, or else by its address. If one PE cannot have such
 * queues, no PE has them, so that both ends of each queue are alike. */
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

/* dma-bufs cover whole GPU pages of this size. */
enum { GPU_PAGE_BYTES = 2 << 20 };

/* Values of WEFT_TEST_GDA_QUEUE_MEMORY. */
enum { MEMORY_AUTO, MEMORY_HOST, MEMORY_GPU };

/* ------------------------------------------------------------------------------------- the area */

static struct mlx5dv_devx_umem *umem_by_dmabuf(struct gda *gda, const struct gda_gpu_queues *on_gpu,
                                               const struct gda_adapter *adapter)
{
    struct mlx5dv_devx_umem_in in = {.size = on_gpu->bytes,
                                     .access = IBV_ACCESS_LOCAL_WRITE,
                                     .pgsz_bitmap = ~(uint64_t)(GDA_PAGE - 1),
                                     .comp_mask = MLX5DV_UMEM_MASK_DMABUF};
    const struct mlx5_functions *dv = &adapter->lib->dv;
    if (!dv->umem_reg_ex ||
        gpu_export_dmabuf(gda->world->gpu, on_gpu->area, on_gpu->bytes, &in.dmabuf_fd))
        return NULL;
    struct mlx5dv_devx_umem *umem = dv->umem_reg_ex(adapter->context, &in);
    close(in.dmabuf_fd); /* the umem keeps its own reference */
    return umem;
}

static weft_status register_gpu_area(struct gda *gda, struct gda_gpu_queues *on_gpu, uint32_t a)
{
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    const struct mlx5 *lib = adapter->lib;
    void *at = (void *)(uintptr_t)on_gpu->area;
    int fd;
    on_gpu->umems[a] = umem_by_dmabuf(gda, on_gpu, adapter);
    if (!on_gpu->umems[a])
        on_gpu->umems[a] =
            lib->dv.umem_reg(adapter->context, at, on_gpu->bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!on_gpu->umems[a])
        return base_fail(WEFT_ERR_NO_PATH,
                         "%s does not support queues in GPU memory (mlx5dv_devx_umem_reg: %s)",
                         adapter->name, strerror(errno));
    if (lib->verbs.reg_dmabuf_mr &&
        !gpu_export_dmabuf(gda->world->gpu, on_gpu->area, on_gpu->bytes, &fd)) {
        on_gpu->regions[a] = lib->verbs.reg_dmabuf_mr(adapter->pd, 0, on_gpu->bytes, on_gpu->area,
                                                      fd, IBV_ACCESS_LOCAL_WRITE);
        close(fd);
    }
    if (!on_gpu->regions[a])
        on_gpu->regions[a] =
            lib->verbs.reg_mr(adapter->pd, at, on_gpu->bytes, IBV_ACCESS_LOCAL_WRITE);
    return on_gpu->regions[a]
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_PATH, "%s does not support results in GPU memory (%s)",
                           adapter->name, strerror(errno));
}

static weft_status create_gpu_queue(struct gda *gda, struct gda_gpu_queues *on_gpu, uint32_t i)
{
    struct gda_layout at = gda_layout_of(gda, i);
    struct weft_dev_gda_queue *q = &on_gpu->queues[i];
    uint32_t a = gda_adapter_of(gda, i % gda->queues_per_pe);
    q->results_key = htobe32(on_gpu->regions[a]->lkey);
    q->name = i % gda->queues_per_pe;
    q->used_bit = i;
    on_gpu->qps[i].adapter = &gda->adapters->one[a];
    on_gpu->qps[i].umem = on_gpu->umems[a]->umem_id;
    weft_status status =
        gpu_fill(gda->world->gpu, (void *)(uintptr_t)(on_gpu->area + at.completions), 0xff,
                 at.page - at.completions);
    return status ? status
                  : gda_create_queue(gda, &on_gpu->qps[i], q, &at, (char *)(uintptr_t)on_gpu->area);
}

static weft_status create_gpu_queues(struct gda *gda, struct gda_gpu_queues *on_gpu)
{
    uint32_t count = gda_device_queue_count(gda);
    if (config_int(CONFIG_TEST_GDA_INITIATOR))
        return base_fail(WEFT_ERR_NO_PATH, "WEFT_TEST_GDA_INITIATOR is cpu");
    if (config_int(CONFIG_TEST_GDA_QUEUE_MEMORY) == MEMORY_HOST)
        return base_fail(WEFT_ERR_NO_PATH, "WEFT_TEST_GDA_QUEUE_MEMORY is host");
    on_gpu->qps = calloc(count, sizeof *on_gpu->qps);
    on_gpu->queues = aligned_alloc(WEFT_DEV_GDA_LINE, count * sizeof *on_gpu->queues);
    if (!on_gpu->qps || !on_gpu->queues)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %u queues", count);
    memset(on_gpu->queues, 0, count * sizeof *on_gpu->queues);
    on_gpu->bytes = (count * gda_layout_of(gda, 0).bytes + GPU_PAGE_BYTES - 1) / GPU_PAGE_BYTES *
                    GPU_PAGE_BYTES;
    CUdeviceptr area = 0;
    weft_status status = gpu_alloc(gda->world->gpu, on_gpu->bytes, &area);
    on_gpu->area = area;
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = register_gpu_area(gda, on_gpu, a);
    for (uint32_t i = 0; i < count && !status; i++)
        status = create_gpu_queue(gda, on_gpu, i);
    if (!status && config_int(CONFIG_GDA_DOORBELL) == GDA_RING_CPU &&
        gpu_place_of(gda->world->gpu, on_gpu->queues[0].ring.doorbell) == GPU_PLACE_DEVICE)
        status = base_fail(WEFT_ERR_NO_PATH, "a thread cannot ring the doorbells of %s",
                           gda->adapters->one[0].name);
    return status;
}

static void free_gpu_queues(const struct gda *gda, struct gda_gpu_queues *on_gpu)
{
    const struct mlx5 *lib = &gda->adapters->lib;
    for (uint32_t i = 0; on_gpu->qps && i < gda_device_queue_count(gda); i++)
        gda_destroy_qp(&on_gpu->qps[i]);
    for (uint32_t a = 0; a < gda->count; a++) {
        if (on_gpu->regions[a])
            lib->verbs.dereg_mr(on_gpu->regions[a]);
        if (on_gpu->umems[a])
            lib->dv.umem_dereg(on_gpu->umems[a]);
    }
    gpu_free(gda->world->gpu, on_gpu->area);
    free(on_gpu->qps);
    free(on_gpu->queues);
    free(on_gpu);
}

/* ----------------------------------------------------------------------------------- connecting */

/* Exchanges with all PEs whether the queues exist and their QP numbers to each PE. */
static weft_status exchange_numbers(const struct gda *gda, const struct gda_gpu_queues *on_gpu,
                                    bool created, uint32_t *all, bool *on_all_pes)
{
    const struct path_world *world = gda->world;
    uint32_t count = gda_device_queue_count(gda), row = count + 1;
    uint32_t *mine = all + (size_t)world->npes * row;
    mine[0] = created;
    for (uint32_t i = 0; i < count && created; i++)
        mine[1 + i] = on_gpu->queues[i].number;
    weft_status status = world->boot->ops->allgather(world->boot, mine, all, row * sizeof *mine);
    *on_all_pes = !status;
    for (size_t pe = 0; pe < (size_t)world->npes && !status; pe++) {
        const char *fault = all[pe * row] ? gda_numbers_fault(&all[pe * row + 1], count) : NULL;
        *on_all_pes &= all[pe * row] != 0;
        if (fault)
            status = gda_fail_record((int)pe, fault);
    }
    return status;
}

static weft_status connect_gpu_queues(struct gda *gda, struct gda_gpu_queues *on_gpu,
                                      const uint32_t *all)
{
    uint32_t row = gda_device_queue_count(gda) + 1, me = (uint32_t)gda->world->pe;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < gda_device_queue_count(gda) && !status; i++) {
        uint32_t pe = i / gda->queues_per_pe, mine = on_gpu->queues[i].number;
        uint32_t a = gda_adapter_of(gda, i % gda->queues_per_pe);
        uint32_t its = all[(size_t)pe * row + 1 + me * gda->queues_per_pe + i % gda->queues_per_pe];
        struct gda_connection connection = gda_connection_of(gda, mine, (int)pe, its);
        status = gda_connect_qp(&on_gpu->qps[i], &connection,
                                &gda->addresses[(size_t)pe * gda->count + a]);
    }
    return status;
}

static weft_status exchange_and_connect(struct gda *gda, struct gda_gpu_queues *on_gpu,
                                        bool created, uint32_t *all, bool *on_all_pes)
{
    weft_status status = exchange_numbers(gda, on_gpu, created, all, on_all_pes);
    if (!status && *on_all_pes)
        status = connect_gpu_queues(gda, on_gpu, all);
    return boot_agree(gda->world->boot, status);
}

weft_status gda_open_gpu_queues(struct gda *gda, char *lacks, size_t bytes)
{
    size_t row = gda_device_queue_count(gda) + 1, npes = (size_t)gda->world->npes;
    struct gda_gpu_queues *on_gpu = calloc(1, sizeof *on_gpu);
    uint32_t *all = calloc((npes + 1) * row, sizeof *all);
    bool on_all_pes = false, created = false;
    weft_status status =
        on_gpu && all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(gda->world->boot, status);
    lacks[0] = '\0';
    if (!status) {
        created = !create_gpu_queues(gda, on_gpu);
        snprintf(lacks, bytes, "%s", created ? "" : base_last_error());
        status = exchange_and_connect(gda, on_gpu, created, all, &on_all_pes);
    }
    free(all);
    if (!status && on_all_pes) {
        gda->gpu_queues = on_gpu;
        return WEFT_OK;
    }
    if (on_gpu)
        free_gpu_queues(gda, on_gpu);
    if (created)
        snprintf(lacks, bytes, "another PE cannot have its queues in GPU memory");
    if (!status && config_int(CONFIG_TEST_GDA_QUEUE_MEMORY) == MEMORY_GPU)
        status = base_fail(WEFT_ERR_CONFIG, "path gda: WEFT_TEST_GDA_QUEUE_MEMORY is gpu, but %s",
                           lacks);
    return status;
}

void gda_close_gpu_queues(struct gda *gda)
{
    if (gda->gpu_queues)
        free_gpu_queues(gda, gda->gpu_queues);
    gda->gpu_queues = NULL;
}

/* ---------------------------------------------------------------------------------------- waits */

/* Copies the completion entry from the GPU and computes the count of complete blocks. *last
 * receives the word that holds the error syndrome. */
static weft_status read_gpu_completion(const struct gda *gda, uint32_t number, uint64_t *done,
                                       uint64_t *last)
{
    uint64_t tail[2];
    struct weft_dev_gda_queue q = gda->queues[gda_device_queue_index(gda, number)];
    const void *from = gda->gpu_queues->queues[number].completion - 1;
    weft_status status =
        gpu_copy(gda->world->gpu, GDA_COPY_STREAM, tail, from, sizeof tail, GPU_DONE);
    q.completion = &tail[1];
    *done = status ? 0 : weft_dev_gda_done(&q);
    *last = tail[0];
    return status;
}

/* Whether to wait on: the blocks are not complete, or the queue has failed and is taken over. */
static bool is_gpu_queue_awaited(const struct gda *gda, uint32_t number, uint64_t done,
                                 uint64_t target)
{
    if (done != WEFT_DEV_GDA_FAILED)
        return done < target;
    return gda->queues[gda_device_queue_index(gda, number)].done != WEFT_DEV_GDA_FAILED &&
           gda_takes_over(gda, gda_queue_count(gda) + number);
}

weft_status gda_await_gpu_queue(const struct gda *gda, uint32_t number, uint64_t target)
{
    int pe = (int)(number / gda->queues_per_pe);
    uint64_t done = 0, last = 0;
    struct path_wait wait = {
        .world = gda->world, .operation = BOX_OP_DEVICE_QUIET, .pe = pe, .expected = target};
    weft_status status = read_gpu_completion(gda, number, &done, &last);
    while (!status && is_gpu_queue_awaited(gda, number, done, target)) {
        status = path_wait_step(&wait, done);
        if (!status)
            status = read_gpu_completion(gda, number, &done, &last);
    }
    path_wait_end(&wait);
    if (!status && done == WEFT_DEV_GDA_FAILED)
        status = gda_lost(gda);
    if (!status && done == WEFT_DEV_GDA_FAILED)
        status = base_fail(WEFT_ERR_PATH,
                           "path gda: queue %u of device code to PE %d (queue pair %#x of %s, port "
                           "%d) has failed (syndrome %#04x, vendor %#04x)",
                           number % gda->queues_per_pe, pe, gda->gpu_queues->queues[number].number,
                           gda->gpu_queues->qps[number].adapter->name, GDA_PORT,
                           (unsigned)(last >> 56), (unsigned)(last >> 48 & 0xff));
    return status;
}

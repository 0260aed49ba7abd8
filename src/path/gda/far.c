/* SPDX-License-Identifier: Apache-2.0 */
/* Device-code queues in the memory of the GPU that uses them. The GPU then reaches WQEs, doorbell
 * records and completions in its own memory, and a fence between them does not wait for stores over
 * PCIe. The NIC reaches that memory by dma-buf, or else by its address. If one PE cannot have such
 * queues, no PE has them, so that both ends of each queue are alike. */
#include "path/gda/dc.h"

#include "base/config.h"
#include "base/status.h"
#include "boot/agree.h"
#include "gpu/gpu.h"
#include "path/gda/error.h"

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

/* ------------------------------------------------------------------------------------- the slabs
 */

static struct mlx5dv_devx_umem *umem_by_dmabuf(struct gda *gda, const struct gda_gpu_slab *slab,
                                               const struct gda_adapter *adapter)
{
    struct mlx5dv_devx_umem_in in = {.size = slab->bytes,
                                     .access = IBV_ACCESS_LOCAL_WRITE,
                                     .pgsz_bitmap = ~(uint64_t)(GDA_PAGE - 1),
                                     .comp_mask = MLX5DV_UMEM_MASK_DMABUF};
    const struct mlx5_functions *dv = &adapter->lib->dv;
    if (!dv->umem_reg_ex ||
        gpu_export_dmabuf(gda->world->gpu, slab->area, slab->bytes, &in.dmabuf_fd))
        return NULL;
    struct mlx5dv_devx_umem *umem = dv->umem_reg_ex(adapter->context, &in);
    close(in.dmabuf_fd); /* the umem keeps its own reference */
    return umem;
}

static weft_status register_gpu_slab(struct gda *gda, struct gda_gpu_slab *slab, uint32_t a)
{
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    const struct mlx5 *lib = adapter->lib;
    void *at = (void *)(uintptr_t)slab->area;
    int fd;
    if (!slab->umems[a])
        slab->umems[a] = umem_by_dmabuf(gda, slab, adapter);
    if (!slab->umems[a])
        slab->umems[a] =
            lib->dv.umem_reg(adapter->context, at, slab->bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!slab->umems[a])
        return base_fail(WEFT_ERR_NO_PATH,
                         "%s does not support queues in GPU memory (mlx5dv_devx_umem_reg: %s)",
                         adapter->name, strerror(errno));
    if (!slab->regions[a] && lib->verbs.reg_dmabuf_mr &&
        !gpu_export_dmabuf(gda->world->gpu, slab->area, slab->bytes, &fd)) {
        slab->regions[a] = lib->verbs.reg_dmabuf_mr(adapter->pd, 0, slab->bytes, slab->area, fd,
                                                    IBV_ACCESS_LOCAL_WRITE);
        close(fd);
    }
    if (!slab->regions[a])
        slab->regions[a] = lib->verbs.reg_mr(adapter->pd, at, slab->bytes, IBV_ACCESS_LOCAL_WRITE);
    return slab->regions[a]
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_PATH, "%s does not support results in GPU memory (%s)",
                           adapter->name, strerror(errno));
}

static size_t gpu_link_bytes(const struct gda *gda)
{
    return gda->queues_per_pe * gda_queue_bytes(gda->depth);
}

/* Writes empty queues, whose completion entries are not valid yet, to the memory of a link. They
 * are copied there: filling memory would wait for running kernels. */
static weft_status empty_gpu_place(const struct gda *gda, const struct gda_gpu_place *place)
{
    const struct gda_layout at = gda_layout_of(gda, 0);
    uint64_t to = place->slab->area + place->at * gpu_link_bytes(gda);
    char *queue = calloc(1, at.bytes);
    weft_status status =
        queue ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a queue");
    if (queue)
        memset(queue + at.completions, 0xff, at.page - at.completions);
    for (uint32_t k = 0; k < gda->queues_per_pe && !status; k++)
        status = gpu_copy(gda->world->gpu, GDA_COPY_STREAM, (void *)(uintptr_t)(to + k * at.bytes),
                          queue, at.bytes, GPU_DONE);
    free(queue);
    return status;
}

/* Adds memory for at least `links` links. */
static weft_status add_gpu_slab(struct gda *gda, struct gda_gpu_queues *on_gpu, uint32_t links)
{
    const size_t each = gpu_link_bytes(gda);
    struct gda_gpu_slab *slab = calloc(1, sizeof *slab);
    CUdeviceptr area = 0;
    if (!slab)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for queues in GPU memory");
    slab->next = on_gpu->slabs;
    on_gpu->slabs = slab;
    slab->bytes = (links * each + GPU_PAGE_BYTES - 1) / GPU_PAGE_BYTES * GPU_PAGE_BYTES;
    slab->links = (uint32_t)(slab->bytes / each);
    weft_status status = gpu_alloc_unset(gda->world->gpu, slab->bytes, &area);
    slab->area = area;
    return status;
}

/* Takes memory for the queues of a link, from a slab for at least `links` links if there is
 * none. */
static weft_status take_gpu_place(struct gda *gda, struct gda_gpu_queues *on_gpu, int link,
                                  uint32_t links)
{
    struct gda_gpu_place *place = &on_gpu->places[link];
    weft_status status = WEFT_OK;
    if (place->slab)
        return WEFT_OK;
    if (!on_gpu->slabs || on_gpu->slabs->used == on_gpu->slabs->links)
        status = add_gpu_slab(gda, on_gpu, links);
    if (status)
        return status;
    *place = (struct gda_gpu_place){on_gpu->slabs, on_gpu->slabs->used++};
    return empty_gpu_place(gda, place);
}

static void free_gpu_slab(const struct gda *gda, struct gda_gpu_slab *slab)
{
    const struct mlx5 *lib = &gda->adapters->lib;
    for (uint32_t a = 0; a < gda->count; a++) {
        if (slab->regions[a])
            lib->verbs.dereg_mr(slab->regions[a]);
        if (slab->umems[a])
            lib->dv.umem_dereg(slab->umems[a]);
    }
    gpu_free(gda->world->gpu, slab->area);
    free(slab);
}

/* ------------------------------------------------------------------------------------ the queues
 */

uint32_t gda_gpu_results_key(const struct gda_gpu_queues *on_gpu, int link, uint32_t adapter)
{
    const struct ibv_mr *region = on_gpu->places[link].slab->regions[adapter];
    return region ? htobe32(region->lkey) : 0;
}

/* Fills what queue i has without the NIC. Returns its layout in the slab. */
static struct gda_layout describe_gpu_queue(struct gda *gda, struct gda_gpu_queues *on_gpu,
                                            uint32_t i)
{
    const struct gda_gpu_place *place = &on_gpu->places[i / gda->queues_per_pe];
    struct weft_dev_gda_queue *q = &on_gpu->queues[i];
    uint32_t name = i % gda->queues_per_pe, a = gda_adapter_of(gda, name);
    q->results_key = gda_gpu_results_key(on_gpu, (int)(i / gda->queues_per_pe), a);
    q->name = name;
    q->used_bit = i;
    on_gpu->qps[i].adapter = &gda->adapters->one[a];
    return gda_layout_of(gda, place->at * gda->queues_per_pe + name);
}

static char *gpu_area_of(const struct gda *gda, const struct gda_gpu_queues *on_gpu, uint32_t i)
{
    return (char *)(uintptr_t)on_gpu->places[i / gda->queues_per_pe].slab->area;
}

static weft_status create_gpu_queues_to(struct gda *gda, struct gda_gpu_queues *on_gpu, int link)
{
    struct gda_gpu_slab *slab = on_gpu->places[link].slab;
    weft_status status = WEFT_OK;
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = register_gpu_slab(gda, slab, a);
    for (uint32_t k = 0; k < gda->queues_per_pe && !status; k++) {
        uint32_t i = (uint32_t)link * gda->queues_per_pe + k;
        struct gda_layout at = describe_gpu_queue(gda, on_gpu, i);
        on_gpu->qps[i].umem = slab->umems[gda_adapter_of(gda, k)]->umem_id;
        on_gpu->qps[i].dc = link >= gda->world->npes;
        status = gda_create_queue(gda, &on_gpu->qps[i], &on_gpu->queues[i], &at,
                                  gpu_area_of(gda, on_gpu, i));
    }
    return status;
}

static weft_status connect_gpu_queues_to(struct gda *gda, struct gda_gpu_queues *on_gpu, int pe,
                                         const uint32_t *numbers)
{
    weft_status status = WEFT_OK;
    for (uint32_t k = 0; k < gda->queues_per_pe && !status; k++) {
        uint32_t i = (uint32_t)pe * gda->queues_per_pe + k, mine = on_gpu->queues[i].number;
        struct gda_connection connection = gda_connection_of(gda, mine, pe, numbers[k]);
        status = gda_connect_qp(&on_gpu->qps[i], &connection,
                                &gda->addresses[(size_t)pe * gda->count + gda_adapter_of(gda, k)]);
    }
    return status;
}

weft_status gda_create_gpu_link(struct gda *gda, int pe, bool *refused)
{
    *refused = false;
    weft_status status = gda->gpu_queues ? take_gpu_place(gda, gda->gpu_queues, pe, 1) : WEFT_OK;
    if (status || !gda->gpu_queues)
        return status;
    status = create_gpu_queues_to(gda, gda->gpu_queues, pe);
    *refused = status == WEFT_ERR_SYSTEM || status == WEFT_ERR_NO_PATH;
    return status;
}

weft_status gda_open_gpu_initiators(struct gda *gda)
{
    struct gda_gpu_queues *on_gpu = gda->gpu_queues;
    weft_status status = WEFT_OK;
    for (int link = gda->world->npes; link < gda_device_links(gda) && !status; link++) {
        status = take_gpu_place(gda, on_gpu, link, GDA_INITIATORS);
        if (!status)
            status = create_gpu_queues_to(gda, on_gpu, link);
        for (uint32_t k = 0; k < gda->queues_per_pe && !status; k++) {
            uint32_t i = (uint32_t)link * gda->queues_per_pe + k;
            status = gda_open_initiator(&on_gpu->qps[i], on_gpu->queues[i].number, gda->dc->mtu);
        }
    }
    return status;
}

weft_status gda_connect_gpu_link(struct gda *gda, int pe, const uint32_t *numbers)
{
    return gda->gpu_queues ? connect_gpu_queues_to(gda, gda->gpu_queues, pe, numbers) : WEFT_OK;
}

weft_status gda_describe_dead_gpu_link(struct gda *gda, int pe)
{
    struct gda_gpu_queues *on_gpu = gda->gpu_queues;
    weft_status status = on_gpu ? take_gpu_place(gda, on_gpu, pe, 1) : WEFT_OK;
    for (uint32_t k = 0; k < gda->queues_per_pe && on_gpu && !status; k++) {
        uint32_t i = (uint32_t)pe * gda->queues_per_pe + k;
        gda_destroy_qp(&on_gpu->qps[i]);
        on_gpu->qps[i] = (struct gda_qp){0};
        struct gda_layout at = describe_gpu_queue(gda, on_gpu, i);
        gda_place_absent_queue(gda, &on_gpu->qps[i], &on_gpu->queues[i], &at,
                               gpu_area_of(gda, on_gpu, i));
    }
    return status;
}

/* --------------------------------------------------------------------------------------- opening
 */

static uint32_t count_links(const struct gda *gda)
{
    uint32_t count = 0;
    for (int pe = 0; pe < gda->world->npes; pe++)
        count += gda_is_linked(gda, pe);
    return count;
}

static weft_status create_gpu_queues(struct gda *gda, struct gda_gpu_queues *on_gpu)
{
    uint32_t links = (uint32_t)gda_device_links(gda), count = links * gda->queues_per_pe;
    if (config_int(CONFIG_TEST_GDA_INITIATOR))
        return base_fail(WEFT_ERR_NO_PATH, "WEFT_TEST_GDA_INITIATOR is cpu");
    if (config_int(CONFIG_TEST_GDA_QUEUE_MEMORY) == MEMORY_HOST)
        return base_fail(WEFT_ERR_NO_PATH, "WEFT_TEST_GDA_QUEUE_MEMORY is host");
    on_gpu->places = calloc(links, sizeof *on_gpu->places);
    on_gpu->qps = calloc(count, sizeof *on_gpu->qps);
    on_gpu->queues = aligned_alloc(WEFT_DEV_GDA_LINE, count * sizeof *on_gpu->queues);
    if (!on_gpu->places || !on_gpu->qps || !on_gpu->queues)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %u queues", count);
    memset(on_gpu->queues, 0, count * sizeof *on_gpu->queues);
    weft_status status = WEFT_OK;
    for (int pe = 0; pe < gda->world->npes && !status; pe++) {
        if (!gda_is_linked(gda, pe))
            continue;
        status = take_gpu_place(gda, on_gpu, pe, count_links(gda));
        if (!status)
            status = create_gpu_queues_to(gda, on_gpu, pe);
    }
    uint32_t own = (uint32_t)gda->world->pe * gda->queues_per_pe;
    if (!status && config_int(CONFIG_GDA_DOORBELL) == GDA_RING_CPU &&
        gpu_place_of(gda->world->gpu, on_gpu->queues[own].ring.doorbell) == GPU_PLACE_DEVICE)
        status = base_fail(WEFT_ERR_NO_PATH, "a thread cannot ring the doorbells of %s",
                           gda->adapters->one[0].name);
    return status;
}

static void free_gpu_queues(const struct gda *gda, struct gda_gpu_queues *on_gpu)
{
    uint32_t count = (uint32_t)gda_device_links(gda) * gda->queues_per_pe;
    for (uint32_t i = 0; on_gpu->qps && i < count; i++)
        gda_destroy_qp(&on_gpu->qps[i]);
    for (struct gda_gpu_slab *slab = on_gpu->slabs, *next; slab; slab = next) {
        next = slab->next;
        free_gpu_slab(gda, slab);
    }
    free(on_gpu->places);
    free(on_gpu->qps);
    free(on_gpu->queues);
    free(on_gpu);
}

/* What PEs exchange: a row of words from each PE. The first says whether it has created queues to
 * all PEs that it is connected to. Then come, for each of them, its number and those of the queues.
 * All rows have space for the largest number of PEs that one is connected to. */
struct rows {
    uint32_t links, words; /* of each row */
    uint32_t *all;         /* [npes][words], then the own row */
};

static uint32_t *row_of(const struct rows *rows, int pe)
{
    return rows->all + (size_t)pe * rows->words;
}

static weft_status size_rows(const struct gda *gda, struct rows *rows)
{
    const struct path_world *world = gda->world;
    uint32_t mine = count_links(gda), *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, &mine, all, sizeof mine);
    for (int pe = 0; pe < world->npes && !status; pe++) {
        rows->links = all[pe] > rows->links ? all[pe] : rows->links;
        if (all[pe] > (uint32_t)world->npes)
            status = gda_fail_record(pe, "more connected PEs than there are");
    }
    free(all);
    return status;
}

static void fill_row(const struct gda *gda, const struct gda_gpu_queues *on_gpu, uint32_t *row)
{
    *row++ = 1;
    for (int pe = 0; pe < gda->world->npes; pe++) {
        if (!gda_is_linked(gda, pe))
            continue;
        *row++ = (uint32_t)pe;
        for (uint32_t k = 0; k < gda->queues_per_pe; k++)
            *row++ = on_gpu->queues[(uint32_t)pe * gda->queues_per_pe + k].number;
    }
}

/* The numbers of a PE's queues to this PE; NULL: it has none. */
static const uint32_t *find_numbers(const struct gda *gda, const struct rows *rows, int pe)
{
    const uint32_t *link = row_of(rows, pe) + 1;
    for (uint32_t i = 0; i < rows->links; i++, link += 1 + gda->queues_per_pe)
        if (link[0] == (uint32_t)gda->world->pe)
            return gda_numbers_fault(link + 1, gda->queues_per_pe) ? NULL : link + 1;
    return NULL;
}

/* Exchanges with all PEs whether the queues exist, and their QP numbers. */
static weft_status exchange_numbers(const struct gda *gda, const struct gda_gpu_queues *on_gpu,
                                    bool created, const struct rows *rows, bool *on_all_pes)
{
    const struct path_world *world = gda->world;
    uint32_t *mine = row_of(rows, world->npes);
    if (created)
        fill_row(gda, on_gpu, mine);
    weft_status status =
        world->boot->ops->allgather(world->boot, mine, rows->all, rows->words * sizeof *mine);
    *on_all_pes = !status;
    for (int pe = 0; pe < world->npes && !status; pe++)
        *on_all_pes &= *row_of(rows, pe) != 0;
    return status;
}

static weft_status connect_gpu_queues(struct gda *gda, struct gda_gpu_queues *on_gpu,
                                      const struct rows *rows)
{
    weft_status status = WEFT_OK;
    for (int pe = 0; pe < gda->world->npes && !status; pe++) {
        if (!gda_is_linked(gda, pe))
            continue;
        const uint32_t *numbers = find_numbers(gda, rows, pe);
        status = numbers ? connect_gpu_queues_to(gda, on_gpu, pe, numbers)
                         : gda_fail_record(pe, "invalid QP number");
    }
    return status;
}

static weft_status exchange_and_connect(struct gda *gda, struct gda_gpu_queues *on_gpu,
                                        bool created, const struct rows *rows, bool *on_all_pes)
{
    weft_status status = exchange_numbers(gda, on_gpu, created, rows, on_all_pes);
    if (!status && *on_all_pes)
        status = connect_gpu_queues(gda, on_gpu, rows);
    return boot_agree(gda->world->boot, status);
}

weft_status gda_open_gpu_queues(struct gda *gda, char *lacks, size_t bytes)
{
    struct rows rows = {.links = gda->eager ? (uint32_t)gda->world->npes : 0};
    bool on_all_pes = false, created = false;
    weft_status status = gda->eager ? WEFT_OK : size_rows(gda, &rows);
    if (status)
        return status;
    rows.words = 1 + rows.links * (1 + gda->queues_per_pe);
    struct gda_gpu_queues *on_gpu = calloc(1, sizeof *on_gpu);
    rows.all = calloc(((size_t)gda->world->npes + 1) * rows.words, sizeof *rows.all);
    status = on_gpu && rows.all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(gda->world->boot, status);
    lacks[0] = '\0';
    if (!status) {
        created = !create_gpu_queues(gda, on_gpu);
        snprintf(lacks, bytes, "%s", created ? "" : base_last_error());
        status = exchange_and_connect(gda, on_gpu, created, &rows, &on_all_pes);
    }
    free(rows.all);
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
    struct weft_dev_gda_queue q = *gda_device_queue(gda, number);
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
    return number < gda_device_queue_count(gda) &&
           gda_device_queue(gda, number)->done != WEFT_DEV_GDA_FAILED &&
           gda_takes_over(gda, gda_queue_count(gda) + number);
}

static weft_status fail_gpu_queue(const struct gda *gda, uint32_t number, uint64_t last)
{
    char whose[64];
    if (number < gda_device_queue_count(gda))
        snprintf(whose, sizeof whose, "queue %u of device code to PE %u",
                 number % gda->queues_per_pe, number / gda->queues_per_pe);
    else
        snprintf(whose, sizeof whose, "a DC queue of device code");
    return base_fail(WEFT_ERR_PATH,
                     "path gda: %s (queue pair %#x of %s, port %d) has failed: %s (syndrome "
                     "%#04x, vendor %#04x)",
                     whose, gda->gpu_queues->queues[number].number,
                     gda->gpu_queues->qps[number].adapter->name, GDA_PORT,
                     gda_syndrome_text((unsigned)(last >> 56)), (unsigned)(last >> 56),
                     (unsigned)(last >> 48 & 0xff));
}

weft_status gda_await_gpu_queue(const struct gda *gda, uint32_t number, uint64_t target)
{
    const bool dc = number >= gda_device_queue_count(gda);
    int pe = dc ? gda->world->pe : (int)(number / gda->queues_per_pe);
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
        status = fail_gpu_queue(gda, number, last);
    return status;
}

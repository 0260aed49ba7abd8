/* SPDX-License-Identifier: Apache-2.0 */
/* Making the queues of path gda in one area of own memory, telling the others their numbers, the keys of
 * the segments and where they are, and connecting each queue with its counterpart. */
#include "path/gda.h"

#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ------------------------------------------------------------------------------------- the area
 *
 * Of each queue: ring, completions, a page with both doorbell records, results. The completions' ring is
 * as long as the requests', though only its first entry is ever written: the adapter is told no other
 * size than one that would do without collapsing. */

enum { CQ_RECORD = 64, QP_RECORD = 0, SEND_WORD = 4 };

static size_t ring_bytes(const struct gda *gda)
{
    size_t bytes = (size_t)gda->depth * WEFT_DEV_GDA_BLOCK;
    return (bytes + GDA_PAGE - 1) / GDA_PAGE * GDA_PAGE;
}

static size_t results_bytes(const struct gda *gda)
{
    size_t bytes = ((size_t)gda->depth + 1) * WEFT_DEV_GDA_RESULT;
    return (bytes + GDA_PAGE - 1) / GDA_PAGE * GDA_PAGE;
}

struct gda_parts gda_parts_of(const struct gda *gda, uint32_t number)
{
    struct gda_parts at;
    at.bytes = 2 * ring_bytes(gda) + GDA_PAGE + results_bytes(gda);
    at.ring = number * at.bytes;
    at.completions = at.ring + ring_bytes(gda);
    at.page = at.completions + ring_bytes(gda);
    at.results = at.page + GDA_PAGE;
    return at;
}

static weft_status make_area(struct gda *gda)
{
    gda->queue_bytes = gda_parts_of(gda, 0).bytes;
    gda->area_bytes = gda_queue_count(gda) * gda->queue_bytes;
    void *area =
        mmap(NULL, gda->area_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no %zu bytes for %u queues",
                         gda->area_bytes, gda_queue_count(gda));
    gda->area = area;
    const struct mlx5 *lib = &gda->device->lib;
    gda->area_umem =
        lib->dv.umem_reg(gda->device->context, area, gda->area_bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!gda->area_umem)
        return base_fail(WEFT_ERR_SYSTEM, "path gda: mlx5dv_devx_umem_reg of %zu bytes: %s",
                         gda->area_bytes, strerror(errno));
    gda->area_region =
        lib->verbs.reg_mr(gda->device->pd, area, gda->area_bytes, IBV_ACCESS_LOCAL_WRITE);
    return gda->area_region ? WEFT_OK
                            : base_fail(WEFT_ERR_SYSTEM, "path gda: ibv_reg_mr of %zu bytes: %s",
                                        gda->area_bytes, strerror(errno));
}

/* ----------------------------------------------------------------------------------- the queues */

/* Not cached by preference: a register that combines writes may hold a doorbell back. */
static weft_status make_uar(struct gda *gda, struct gda_link *link)
{
    enum { WRITES_COMBINED = 0, NOT_CACHED = 1 };
    const struct mlx5 *lib = &gda->device->lib;
    link->uar = lib->dv.alloc_uar(gda->device->context, NOT_CACHED);
    if (!link->uar)
        link->uar = lib->dv.alloc_uar(gda->device->context, WRITES_COMBINED);
    return link->uar ? WEFT_OK
                     : base_fail(WEFT_ERR_SYSTEM, "path gda: mlx5dv_devx_alloc_uar on %s: %s",
                                 gda->device->name, strerror(errno));
}

weft_status gda_make_queue(struct gda *gda, struct gda_link *link, struct weft_dev_gda_queue *q,
                           const struct gda_parts *at, char *area)
{
    q->ring.record = (uint32_t *)(void *)(area + at->page + QP_RECORD + SEND_WORD);
    q->completion = (const uint64_t *)(const void *)(area + at->completions + 56);
    q->results = area + at->results;
    weft_status status = make_uar(gda, link);
    if (!status)
        status = gda_create_cq(gda, link, at->completions, at->page + CQ_RECORD);
    if (!status)
        status = gda_create_qp(gda, link, at->ring, at->page + QP_RECORD, &q->number);
    if (!status)
        q->ring.doorbell = link->uar->reg_addr;
    weft_dev_gda_ring_set(&q->ring, area + at->ring, gda->depth, q->number);
    return status;
}

static weft_status make_queue(struct gda *gda, uint32_t number, uint32_t name)
{
    struct gda_link *link = &gda->links[number];
    struct weft_dev_gda_queue *q = &gda->queues[number];
    struct gda_parts at = gda_parts_of(gda, number);
    q->results_key = htobe32(gda->area_region->lkey);
    q->marks = gda->marks + (size_t)number * gda->depth;
    q->busy = gda->busy + (size_t)number * gda->depth;
    q->name = name;
    q->turns = WEFT_DEV_GDA_UNUSED;
    link->umem = gda->area_umem->umem_id;
    memset(gda->area + at.completions, 0xff, ring_bytes(gda));
    return gda_make_queue(gda, link, q, &at, gda->area);
}

weft_status gda_make_queues(struct gda *gda)
{
    size_t count = gda_queue_count(gda);
    weft_status status = make_area(gda);
    if (status)
        return status;
    gda->links = calloc(count, sizeof *gda->links);
    gda->addresses = calloc((size_t)gda->world->npes, sizeof *gda->addresses);
    gda->marks = calloc(count * gda->depth, sizeof *gda->marks);
    gda->busy = calloc(count * gda->depth, sizeof *gda->busy);
    gda->used = calloc(count / 64 + 1, sizeof *gda->used);
    gda->queues = aligned_alloc(WEFT_DEV_GDA_LINE, count * sizeof *gda->queues);
    if (!gda->links || !gda->addresses || !gda->marks || !gda->busy || !gda->used || !gda->queues)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for %zu queues", count);
    memset(gda->queues, 0, count * sizeof *gda->queues);
    for (int pe = 0; pe < gda->world->npes && !status; pe++)
        for (uint32_t k = 0; k <= gda->each && !status; k++)
            status = make_queue(gda, gda_queue_number(gda, pe, k), k);
    return status;
}

void gda_free_link(const struct gda *gda, struct gda_link *link)
{
    const struct mlx5 *lib = &gda->device->lib;
    if (link->qp)
        lib->dv.obj_destroy(link->qp);
    if (link->cq)
        lib->dv.obj_destroy(link->cq);
    if (link->uar)
        lib->dv.free_uar(link->uar);
}

void gda_free_queues(struct gda *gda)
{
    const struct mlx5 *lib = &gda->device->lib;
    for (uint32_t i = 0; gda->links && i < gda_queue_count(gda); i++)
        gda_free_link(gda, &gda->links[i]);
    if (gda->area_region)
        lib->verbs.dereg_mr(gda->area_region);
    if (gda->area_umem)
        lib->dv.umem_dereg(gda->area_umem);
    if (gda->area)
        munmap(gda->area, gda->area_bytes);
    free(gda->links);
    free(gda->marks);
    free(gda->busy);
    free(gda->used);
    free(gda->queues);
    free(gda->addresses);
}

/* ---------------------------------------------------------------------------------- the exchange */

/* What a PE tells all others; then the keys of its chunks, then the numbers of its queues to each PE. */
struct told {
    struct gda_address address;
    uint32_t each, chunks, chunk_bits;
    uint32_t pad;
    uint64_t bases[SEG_COUNT];
};

static size_t told_bytes(const struct gda *gda)
{
    size_t words = gda->chunks + (size_t)gda->world->npes * (gda->each + 1);
    return sizeof(struct told) + (words + words % 2) * sizeof(uint32_t);
}

/* The address of the adapter's own interface, as a peer needs it: from an address handle to itself. */
static weft_status own_mac(struct gda *gda, struct gda_address *address)
{
    const struct mlx5 *lib = &gda->device->lib;
    struct ibv_ah_attr attr = {.is_global = 1,
                               .port_num = GDA_PORT,
                               .grh = {.dgid = gda->device->gid,
                                       .sgid_index = (uint8_t)gda->device->gid_index,
                                       .hop_limit = 64}};
    struct mlx5dv_ah out = {0};
    struct mlx5dv_obj object = {.ah = {.out = &out}};
    object.ah.in = lib->verbs.create_ah ? lib->verbs.create_ah(gda->device->pd, &attr) : NULL;
    if (!object.ah.in || lib->dv.init_obj(&object, MLX5DV_OBJ_AH) || !out.av)
        return base_fail(WEFT_ERR_SYSTEM,
                         "path gda: ibv_create_ah on %s, which is to tell its MAC: %s",
                         gda->device->name, strerror(errno));
    memcpy(address->mac, out.av->rmac, sizeof address->mac);
    lib->verbs.destroy_ah(object.ah.in);
    return WEFT_OK;
}

static weft_status tell(struct gda *gda, struct told *told)
{
    const struct gda_device *device = gda->device;
    uint32_t *words = (uint32_t *)(void *)(told + 1);
    told->address.lid = device->port.lid;
    told->address.mtu = device->port.active_mtu;
    told->address.ethernet = device->ethernet;
    memcpy(told->address.gid, &device->gid, sizeof told->address.gid);
    told->each = gda->each;
    told->chunks = gda->chunks;
    told->chunk_bits = gda->chunk_bits;
    for (int s = 0; s < SEG_COUNT; s++)
        told->bases[s] = (uintptr_t)gda->world->map[gda->world->pe][s];
    for (uint32_t i = 0; i < gda->chunks; i++)
        *words++ = htobe32(gda->regions[i]->rkey);
    for (int pe = 0; pe < gda->world->npes; pe++)
        for (uint32_t k = 0; k <= gda->each; k++)
            *words++ = gda->queues[gda_queue_number(gda, pe, k)].number;
    return device->ethernet ? own_mac(gda, &told->address) : WEFT_OK;
}

/* Networks that choose a way by the port spread the queues over several. */
uint32_t gda_source_port(uint32_t mine, uint32_t its)
{
    return 0xc000u | ((mine * 0x9e3779b1u >> 18 ^ its) & 0x3fff);
}

static weft_status connect_pe(struct gda *gda, const struct told *its, int pe)
{
    const uint32_t *keys = (const uint32_t *)(const void *)(its + 1);
    const uint32_t *numbers = keys + gda->chunks + (size_t)gda->world->pe * (gda->each + 1);
    memcpy(gda->remote_keys + (size_t)pe * gda->chunks, keys, gda->chunks * sizeof *keys);
    memcpy(gda->bases + (size_t)pe * SEG_COUNT, its->bases, sizeof its->bases);
    if (its->address.ethernet != gda->device->ethernet)
        return base_fail(WEFT_ERR_MISMATCH,
                         "path gda: the adapter of PE %d is on %s, that of PE %d on %s",
                         gda->world->pe, gda->device->ethernet ? "RoCE" : "InfiniBand", pe,
                         its->address.ethernet ? "RoCE" : "InfiniBand");
    weft_status status = WEFT_OK;
    gda->addresses[pe] = its->address;
    for (uint32_t k = 0; k <= gda->each && !status; k++) {
        uint32_t number = gda_queue_number(gda, pe, k);
        uint32_t mine = gda->queues[number].number;
        status = gda_connect_qp(gda, &gda->links[number], mine, numbers[k], &its->address,
                                gda_source_port(mine, numbers[k]));
    }
    return status;
}

/* The sizes are gathered first: they follow from configuration that may differ. */
static weft_status agree_on_sizes(const struct gda *gda)
{
    const struct path_world *world = gda->world;
    uint32_t mine[3] = {gda->each, gda->chunks, gda->chunk_bits};
    uint32_t(*all)[3] = calloc((size_t)world->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof mine);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (memcmp(all[pe], mine, sizeof mine) != 0)
            status = base_fail(WEFT_ERR_MISMATCH,
                               "path gda: WEFT_GDA_QUEUES, WEFT_GDA_CHUNK or the sizes of segments "
                               "differ between PE %d (%u queues, %u chunks of 2^%u bytes) and PE "
                               "%d (%u, %u, 2^%u)",
                               world->pe, mine[0], mine[1], mine[2], pe, all[pe][0], all[pe][1],
                               all[pe][2]);
    free(all);
    return boot_agree(world->boot, status);
}

weft_status gda_connect(struct gda *gda)
{
    const struct path_world *world = gda->world;
    size_t bytes = told_bytes(gda), npes = (size_t)world->npes;
    weft_status status = agree_on_sizes(gda);
    if (status)
        return status;
    struct told *mine = calloc(1, bytes);
    char *all = calloc(npes, bytes);
    status = mine && all ? tell(gda, mine)
                         : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu PEs", npes);
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, bytes);
    for (int pe = 0; pe < world->npes && !status; pe++)
        status = connect_pe(gda, (const struct told *)(const void *)(all + (size_t)pe * bytes), pe);
    free(mine);
    free(all);
    /* Nobody sends before all can receive. */
    return boot_agree(world->boot, status);
}

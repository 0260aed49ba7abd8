/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the queues of path gda in one memory area, exchanges QP numbers, memory keys and
 * addresses with the other PEs, and connects each queue to its peer queue. */
#include "path/gda/gda.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

/* ---------------------------------------------------------------------------------------- the area
 *
 * Each queue has: send ring, completion queue, a page with both doorbell records, results. The
 * completion queue is as long as the send ring, although the NIC writes only its first entry
 * (collapsed CQ). The NIC accepts only a size that would also do without collapsing. */

/* Byte offsets of the doorbell records in the page, and of the send counter in the QP's record. */
enum { CQ_RECORD = 64, QP_RECORD = 0, SEND_WORD = 4, ALARM_WORD = 512 };

static size_t ring_bytes(uint32_t depth)
{
    size_t bytes = (size_t)depth * WEFT_DEV_GDA_BLOCK;
    return (bytes + GDA_PAGE - 1) / GDA_PAGE * GDA_PAGE;
}

static size_t results_bytes(uint32_t depth)
{
    size_t bytes = ((size_t)depth + 1) * WEFT_DEV_GDA_RESULT;
    return (bytes + GDA_PAGE - 1) / GDA_PAGE * GDA_PAGE;
}

size_t gda_queue_bytes(uint32_t depth)
{
    return 2 * ring_bytes(depth) + GDA_PAGE + results_bytes(depth);
}

struct gda_layout gda_layout_of(const struct gda *gda, uint32_t number)
{
    struct gda_layout at;
    at.bytes = gda_queue_bytes(gda->depth);
    at.ring = number * at.bytes;
    at.completions = at.ring + ring_bytes(gda->depth);
    at.page = at.completions + ring_bytes(gda->depth);
    at.results = at.page + GDA_PAGE;
    return at;
}

uint32_t *gda_alarm_word(const struct gda *gda)
{
    return (uint32_t *)(void *)(gda->area + gda_layout_of(gda, 0).page + ALARM_WORD);
}

static weft_status register_host_area(struct gda *gda, uint32_t a)
{
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    size_t bytes = gda->area_bytes;
    gda->area_umems[a] =
        adapter->lib->dv.umem_reg(adapter->context, gda->area, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!gda->area_umems[a])
        return base_fail(WEFT_ERR_SYSTEM, "path gda: %s: mlx5dv_devx_umem_reg of %zu bytes: %s",
                         adapter->name, bytes, strerror(errno));
    gda->area_regions[a] =
        adapter->lib->verbs.reg_mr(adapter->pd, gda->area, bytes, IBV_ACCESS_LOCAL_WRITE);
    return gda->area_regions[a]
               ? WEFT_OK
               : base_fail(WEFT_ERR_SYSTEM, "path gda: %s: ibv_reg_mr of %zu bytes: %s",
                           adapter->name, bytes, strerror(errno));
}

static weft_status create_area(struct gda *gda)
{
    gda->queue_bytes = gda_layout_of(gda, 0).bytes;
    gda->area_bytes = gda_queue_count(gda) * gda->queue_bytes;
    void *area =
        mmap(NULL, gda->area_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no memory of %zu bytes for %u queues",
                         gda->area_bytes, gda_queue_count(gda));
    gda->area = area;
    weft_status status = WEFT_OK;
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = register_host_area(gda, a);
    return status;
}

/* ----------------------------------------------------------------------------------- the queues */

/* Prefers a non-cached UAR page: a write-combining one may delay a doorbell. */
static weft_status alloc_uar_page(struct gda_qp *qp)
{
    enum { WRITES_COMBINED = 0, NOT_CACHED = 1 };
    const struct gda_adapter *adapter = qp->adapter;
    qp->uar = adapter->lib->dv.alloc_uar(adapter->context, NOT_CACHED);
    if (!qp->uar)
        qp->uar = adapter->lib->dv.alloc_uar(adapter->context, WRITES_COMBINED);
    return qp->uar ? WEFT_OK
                   : base_fail(WEFT_ERR_SYSTEM, "path gda: mlx5dv_devx_alloc_uar on %s: %s",
                               adapter->name, strerror(errno));
}

weft_status gda_create_queue(struct gda *gda, struct gda_qp *qp, struct weft_dev_gda_queue *q,
                             const struct gda_layout *at, char *area)
{
    q->ring.record = (uint32_t *)(void *)(area + at->page + QP_RECORD + SEND_WORD);
    /* The last 8 bytes of a CQE hold its opcode and index. */
    q->completion = (const uint64_t *)(const void *)(area + at->completions + 56);
    q->results = area + at->results;
    weft_status status = alloc_uar_page(qp);
    if (!status)
        status = gda_create_cq(qp, gda->depth, at->completions, at->page + CQ_RECORD);
    if (!status)
        status = gda_create_qp(qp, gda->depth, at->ring, at->page + QP_RECORD, &q->number);
    if (!status)
        q->ring.doorbell = qp->uar->reg_addr;
    weft_dev_gda_ring_set(&q->ring, area + at->ring, gda->depth, q->number);
    return status;
}

/* Creates queue `name` to PE pe in host memory, with its keys: see gda_queue_index(). */
static weft_status create_host_queue(struct gda *gda, int pe, uint32_t name)
{
    uint32_t number = gda_queue_index(gda, pe, name), a = gda_adapter_of(gda, name);
    struct gda_qp *qp = &gda->qps[number];
    struct weft_dev_gda_queue *q = &gda->queues[number];
    struct gda_layout at = gda_layout_of(gda, number);
    q->results_key = htobe32(gda->area_regions[a]->lkey);
    q->remote_keys = gda->remote_keys + gda_key_index(gda, a, pe);
    q->local_keys = gda->local_keys + (size_t)a * gda->chunks;
    q->marks = gda->marks + (size_t)number * gda->depth / WEFT_DEV_GDA_MARKS;
    q->fillers = gda->fillers + (size_t)number * gda->depth / WEFT_DEV_GDA_MARKS;
    q->busy = gda->busy + (size_t)number * gda->depth;
    q->name = name;
    q->turns = WEFT_DEV_GDA_UNUSED;
    qp->adapter = &gda->adapters->one[a];
    qp->umem = gda->area_umems[a]->umem_id;
    memset(gda->area + at.completions, 0xff, ring_bytes(gda->depth));
    return gda_create_queue(gda, qp, q, &at, gda->area);
}

weft_status gda_create_queues(struct gda *gda)
{
    size_t count = gda_queue_count(gda);
    weft_status status = create_area(gda);
    if (status)
        return status;
    gda->qps = calloc(count, sizeof *gda->qps);
    gda->addresses = calloc((size_t)gda->world->npes * gda->count, sizeof *gda->addresses);
    gda->seeds = calloc((size_t)gda->world->npes, sizeof *gda->seeds);
    gda->marks = calloc(count * gda->depth / WEFT_DEV_GDA_MARKS, sizeof *gda->marks);
    gda->fillers = calloc(count * gda->depth / WEFT_DEV_GDA_MARKS, sizeof *gda->fillers);
    gda->busy = calloc(count * gda->depth, sizeof *gda->busy);
    gda->used = calloc(count / 64 + 1, sizeof *gda->used);
    gda->queues = aligned_alloc(WEFT_DEV_GDA_LINE, count * sizeof *gda->queues);
    if (!gda->qps || !gda->addresses || !gda->seeds || !gda->marks || !gda->fillers || !gda->busy ||
        !gda->used || !gda->queues)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for %zu queues", count);
    memset(gda->queues, 0, count * sizeof *gda->queues);
    for (int pe = 0; pe < gda->world->npes && !status; pe++)
        for (uint32_t k = 0; k < gda->queues_per_pe + gda->count && !status; k++)
            status = create_host_queue(gda, pe, k);
    return status;
}

void gda_destroy_qp(struct gda_qp *qp)
{
    if (!qp->adapter)
        return;
    const struct mlx5 *lib = qp->adapter->lib;
    if (qp->qp)
        lib->dv.obj_destroy(qp->qp);
    if (qp->cq)
        lib->dv.obj_destroy(qp->cq);
    if (qp->uar)
        lib->dv.free_uar(qp->uar);
}

void gda_destroy_queues(struct gda *gda)
{
    const struct mlx5 *lib = &gda->adapters->lib;
    for (uint32_t i = 0; gda->qps && i < gda_queue_count(gda); i++)
        gda_destroy_qp(&gda->qps[i]);
    for (uint32_t a = 0; a < gda->count; a++) {
        if (gda->area_regions[a])
            lib->verbs.dereg_mr(gda->area_regions[a]);
        if (gda->area_umems[a])
            lib->dv.umem_dereg(gda->area_umems[a]);
    }
    if (gda->area)
        munmap(gda->area, gda->area_bytes);
    free(gda->qps);
    free(gda->marks);
    free(gda->fillers);
    free(gda->busy);
    free(gda->used);
    free(gda->queues);
    free(gda->addresses);
    free(gda->seeds);
}

/* --------------------------------------------------------------------------------- the exchange */

static struct gda_shape shape_of(const struct gda *gda)
{
    struct gda_shape shape = {.adapters = gda->count,
                              .queues_per_pe = gda->queues_per_pe,
                              .chunks = gda->chunks,
                              .chunk_bits = gda->chunk_bits,
                              .relaxed = gda->relaxed,
                              .npes = (uint32_t)gda->world->npes};
    for (int s = 0; s < SEG_COUNT; s++)
        shape.sizes[s] = gda->world->sizes[s];
    return shape;
}

weft_status gda_fail_record(int pe, const char *fault)
{
    return base_fail(WEFT_ERR_MISMATCH, "path gda: PE %d sent an invalid exchange record: %s", pe,
                     fault);
}

/* Finds the MAC address of the NIC's own interface by an address handle to itself. */
static weft_status query_own_mac(const struct gda_adapter *adapter, struct gda_address *address)
{
    const struct mlx5 *lib = adapter->lib;
    struct ibv_ah_attr attr = {
        .is_global = 1,
        .port_num = GDA_PORT,
        .grh = {.dgid = adapter->gid, .sgid_index = (uint8_t)adapter->gid_index, .hop_limit = 64}};
    struct mlx5dv_ah out = {0};
    struct mlx5dv_obj object = {.ah = {.out = &out}};
    object.ah.in = lib->verbs.create_ah ? lib->verbs.create_ah(adapter->pd, &attr) : NULL;
    bool known = object.ah.in && !lib->dv.init_obj(&object, MLX5DV_OBJ_AH) && out.av;
    int error = errno;
    if (known)
        memcpy(address->mac, out.av->rmac, sizeof address->mac);
    if (object.ah.in)
        lib->verbs.destroy_ah(object.ah.in);
    return known ? WEFT_OK
                 : base_fail(WEFT_ERR_SYSTEM,
                             "path gda: cannot read the MAC of %s: ibv_create_ah: %s",
                             adapter->name, strerror(error));
}

static weft_status fill_address(const struct gda_adapter *adapter, struct gda_address *address)
{
    address->lid = adapter->port.lid;
    address->mtu = adapter->port.active_mtu;
    address->ethernet = adapter->ethernet;
    memcpy(address->gid, &adapter->gid, sizeof address->gid);
    return adapter->ethernet ? query_own_mac(adapter, address) : WEFT_OK;
}

static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = clock_now_ns();
    return seed;
}

static weft_status fill_record(struct gda *gda, struct gda_record *record)
{
    const struct gda_shape shape = shape_of(gda);
    const size_t keys = gda_record_keys(&shape);
    uint32_t *words = (uint32_t *)(void *)(record + 1);
    weft_status status = WEFT_OK;
    record->queues_per_pe = gda->queues_per_pe;
    record->chunks = gda->chunks;
    record->chunk_bits = gda->chunk_bits;
    record->relaxed = gda->relaxed;
    record->seed = random_seed();
    for (int s = 0; s < SEG_COUNT; s++)
        record->bases[s] = (uintptr_t)gda->world->map[gda->world->pe][s];
    for (size_t i = 0; i < keys; i++)
        *words++ = htobe32(gda->regions[i]->rkey);
    for (int pe = 0; pe < gda->world->npes; pe++)
        for (uint32_t k = 0; k < gda->queues_per_pe + gda->count; k++)
            *words++ = gda->queues[gda_queue_index(gda, pe, k)].number;
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = fill_address(&gda->adapters->one[a], &record->addresses[a]);
    return status;
}

/* Returns the UDP source port of a queue. Networks that choose routes by port (ECMP) spread the
 * queues over several routes. */
static uint32_t source_port(uint32_t mine, uint32_t its)
{
    return 0xc000u | ((mine * 0x9e3779b1u >> 18 ^ its) & 0x3fff);
}

/* Returns the PSN of a queue's first packet, 24 bits. Both ends compute it; a third party that does
 * not know the seed cannot. */
static uint32_t first_psn(uint64_t seed, uint32_t number)
{
    uint64_t z = seed + (number + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 40);
}

struct gda_connection gda_connection_of(const struct gda *gda, uint32_t mine, int pe, uint32_t its)
{
    return (struct gda_connection){.qpn = mine,
                                   .peer_qpn = its,
                                   .psn = first_psn(gda->seeds[gda->world->pe], mine),
                                   .peer_psn = first_psn(gda->seeds[pe], its),
                                   .sport = source_port(mine, its)};
}

static weft_status check_link_layer(const struct gda *gda, const struct gda_address *its,
                                    uint32_t a, int pe)
{
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    return its->ethernet == adapter->ethernet
               ? WEFT_OK
               : base_fail(WEFT_ERR_NO_PATH,
                           "path gda: the adapter of PE %d (%s) is on %s, that of PE %d on %s",
                           gda->world->pe, adapter->name, adapter->ethernet ? "RoCE" : "InfiniBand",
                           pe, its->ethernet ? "RoCE" : "InfiniBand");
}

/* Checks that the peer's adapter has an address of the same kind: RoCE has one header for both. */
static weft_status check_address(const struct gda *gda, const struct gda_address *its, uint32_t a,
                                 int pe)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
    const struct gda_adapter *adapter = &gda->adapters->one[a];
    char own_text[INET6_ADDRSTRLEN], its_text[INET6_ADDRSTRLEN];
    bool own_ipv4 = !memcmp(adapter->gid.raw, ipv4, sizeof ipv4);
    if (!adapter->ethernet || own_ipv4 == !memcmp(its->gid, ipv4, sizeof ipv4))
        return WEFT_OK;
    inet_ntop(AF_INET6, adapter->gid.raw, own_text, sizeof own_text);
    inet_ntop(AF_INET6, its->gid, its_text, sizeof its_text);
    return base_fail(WEFT_ERR_NO_PATH,
                     "path gda: the adapter of PE %d (%s) has the %s address %s, that of PE %d the "
                     "%s address %s: give the interfaces of both an IPv4 address, or neither",
                     gda->world->pe, adapter->name, own_ipv4 ? "IPv4" : "IPv6", own_text, pe,
                     own_ipv4 ? "IPv6" : "IPv4", its_text);
}

static weft_status connect_pe(struct gda *gda, const struct gda_record *its, int pe)
{
    const struct gda_shape shape = shape_of(gda);
    const uint32_t *keys = gda_record_words(its);
    const uint32_t *numbers =
        keys + gda_record_keys(&shape) + (size_t)gda->world->pe * (gda->queues_per_pe + gda->count);
    const uint32_t *data = keys + (gda->relaxed ? (size_t)gda->count * gda->chunks : 0);
    weft_status status = WEFT_OK;
    memcpy(gda->bases + (size_t)pe * SEG_COUNT, its->bases, sizeof its->bases);
    for (uint32_t a = 0; a < gda->count && !status; a++) {
        size_t at = gda_key_index(gda, a, pe), from = (size_t)a * gda->chunks;
        memcpy(gda->remote_keys + at, keys + from, gda->chunks * sizeof *keys);
        memcpy(gda->data_keys + at, data + from, gda->chunks * sizeof *keys);
        gda->addresses[(size_t)pe * gda->count + a] = its->addresses[a];
        status = check_link_layer(gda, &its->addresses[a], a, pe);
        if (!status)
            status = check_address(gda, &its->addresses[a], a, pe);
    }
    for (uint32_t k = 0; k < gda->queues_per_pe + gda->count && !status; k++) {
        uint32_t number = gda_queue_index(gda, pe, k);
        uint32_t mine = gda->queues[number].number;
        struct gda_connection connection = gda_connection_of(gda, mine, pe, numbers[k]);
        status =
            gda_connect_qp(&gda->qps[number], &connection, &its->addresses[gda_adapter_of(gda, k)]);
    }
    return status;
}

/* Compares the sizes of all PEs. They depend on configuration, which may differ between PEs. */
static weft_status compare_sizes(const struct gda *gda)
{
    const struct path_world *world = gda->world;
    uint32_t mine[4] = {gda->queues_per_pe, gda->chunks, gda->chunk_bits, gda->relaxed};
    uint32_t(*all)[4] = calloc((size_t)world->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof mine);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (memcmp(all[pe], mine, sizeof mine) != 0)
            status = base_fail(
                WEFT_ERR_MISMATCH,
                "path gda: WEFT_GDA_QUEUES, WEFT_TEST_GDA_CHUNK or the sizes of segments "
                "differ between PE %d (%u queues, %u chunks of 2^%u bytes) and PE "
                "%d (%u, %u, 2^%u)",
                world->pe, mine[0], mine[1], mine[2], pe, all[pe][0], all[pe][1], all[pe][2]);
    free(all);
    return boot_agree(world->boot, status);
}

static const struct gda_record *record_at(const char *all, size_t bytes, int pe)
{
    return (const struct gda_record *)(const void *)(all + (size_t)pe * bytes);
}

/* Checks the exchange records of all PEs before any is used. */
static weft_status check_records(struct gda *gda, const char *all, size_t bytes)
{
    const struct gda_shape shape = shape_of(gda);
    for (int pe = 0; pe < gda->world->npes; pe++) {
        const char *fault = gda_record_fault(&shape, record_at(all, bytes, pe));
        if (fault)
            return gda_fail_record(pe, fault);
        gda->seeds[pe] = record_at(all, bytes, pe)->seed;
    }
    return WEFT_OK;
}

weft_status gda_connect(struct gda *gda)
{
    const struct path_world *world = gda->world;
    const struct gda_shape shape = shape_of(gda);
    size_t bytes = gda_record_bytes(&shape), npes = (size_t)world->npes;
    weft_status status = compare_sizes(gda);
    if (status)
        return status;
    struct gda_record *mine = calloc(1, bytes);
    char *all = calloc(npes, bytes);
    status = mine && all ? fill_record(gda, mine)
                         : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu PEs", npes);
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, bytes);
    if (!status)
        status = check_records(gda, all, bytes);
    for (int pe = 0; pe < world->npes && !status; pe++)
        status = connect_pe(gda, record_at(all, bytes, pe), pe);
    free(mine);
    free(all);
    /* No PE sends before all PEs can receive. */
    return boot_agree(world->boot, status);
}

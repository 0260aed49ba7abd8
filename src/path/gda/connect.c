/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the queues of path gda in one memory area, exchanges QP numbers, memory keys and
 * addresses with the other PEs, and connects each queue to its peer queue. */
#include "path/gda/dc.h"
#include "path/gda/gda.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

/* ---------------------------------------------------------------------------------------- the area
 *
 * Each queue has: send ring, completion queue, a page with both doorbell records, results. The
 * completion queue is as long as the send ring, although the NIC writes only its first entry
 * (collapsed CQ). The NIC accepts only a size that would also do without collapsing. */

/* Byte offset of the word that takes the place of the doorbell of a queue without a NIC. */
enum { NO_DOORBELL = 1024 };

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

size_t gda_link_bytes(const struct gda *gda)
{
    return gda_queues_to_pe(gda) * gda->queue_bytes;
}

char *gda_link_area(const struct gda *gda, int pe)
{
    return gda->area + (size_t)pe * gda_link_bytes(gda);
}

static weft_status register_slab(const struct gda_adapter *adapter, struct gda_slab *slab,
                                 uint32_t a, char *at, size_t bytes)
{
    slab->umems[a] = adapter->lib->dv.umem_reg(adapter->context, at, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!slab->umems[a])
        return base_fail(WEFT_ERR_SYSTEM, "path gda: %s: mlx5dv_devx_umem_reg of %zu bytes: %s",
                         adapter->name, bytes, strerror(errno));
    slab->regions[a] = adapter->lib->verbs.reg_mr(adapter->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE);
    return slab->regions[a]
               ? WEFT_OK
               : base_fail(WEFT_ERR_SYSTEM, "path gda: %s: ibv_reg_mr of %zu bytes: %s",
                           adapter->name, bytes, strerror(errno));
}

void *gda_map_zeros(size_t bytes)
{
    void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return area == MAP_FAILED ? NULL : area;
}

void gda_unmap_zeros(void *area, size_t bytes)
{
    if (area)
        munmap(area, bytes);
}

/* ----------------------------------------------------------------------------------- the queues */

/* Prefers a non-cached UAR page: a write-combining one may delay a doorbell. */
weft_status gda_alloc_uar_page(struct gda_qp *qp)
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

static void place_queue(struct weft_dev_gda_queue *q, const struct gda_layout *at, char *area)
{
    q->ring.record = (uint32_t *)(void *)(area + at->page + GDA_QP_RECORD + GDA_SEND_WORD);
    /* The last 8 bytes of a CQE hold its opcode and index. */
    q->completion = (const uint64_t *)(const void *)(area + at->completions + 56);
    q->results = area + at->results;
}

weft_status gda_create_queue(struct gda *gda, struct gda_qp *qp, struct weft_dev_gda_queue *q,
                             const struct gda_layout *at, char *area)
{
    place_queue(q, at, area);
    weft_status status = gda_alloc_uar_page(qp);
    if (!status)
        status = gda_create_cq(qp, gda->depth, at->completions, at->page + GDA_CQ_RECORD);
    if (!status)
        status = gda_create_qp(qp, gda->depth, at->ring, at->page + GDA_QP_RECORD, &q->number);
    if (!status)
        q->ring.doorbell = qp->uar->reg_addr;
    weft_dev_gda_ring_set(&q->ring, area + at->ring, gda->depth, q->number);
    return status;
}

/* Fills what queue `name` to PE pe in host memory has without the NIC, with its keys: see
 * gda_queue_index(). Returns its layout in the slab, which begins with the queues to PE `first`. */
static struct gda_layout describe_host_queue(struct gda *gda, const struct gda_slab *slab,
                                             int first, int pe, uint32_t name)
{
    uint32_t number = gda_queue_index(gda, pe, name), a = gda_adapter_of(gda, name);
    struct weft_dev_gda_queue *q = &gda->queues[number];
    uint32_t start = gda_queue_index(gda, first, 0);
    struct gda_layout at = gda_layout_of(gda, number - start);
    q->results_key = slab->regions[a] ? htobe32(slab->regions[a]->lkey) : 0;
    q->remote_keys = gda->remote_keys + gda_key_index(gda, a, pe);
    q->local_keys = gda->local_keys + (size_t)a * gda->chunks;
    q->marks = gda->marks + (size_t)number * gda->depth / WEFT_DEV_GDA_MARKS;
    q->fillers = gda->fillers + (size_t)number * gda->depth / WEFT_DEV_GDA_MARKS;
    q->busy = gda->busy + (size_t)number * gda->depth;
    q->name = name;
    q->used_bit = (uint32_t)pe * gda->queues_per_pe + name; /* of device-code queues */
    q->turns = WEFT_DEV_GDA_UNUSED;
    q->ready = 1;
    gda->qps[number].adapter = &gda->adapters->one[a];
    memset(gda->area + start * gda->queue_bytes + at.completions, 0xff, ring_bytes(gda->depth));
    return at;
}

static weft_status create_host_queue(struct gda *gda, const struct gda_slab *slab, int first,
                                     int pe, uint32_t name)
{
    uint32_t number = gda_queue_index(gda, pe, name);
    struct gda_layout at = describe_host_queue(gda, slab, first, pe, name);
    struct gda_qp *qp = &gda->qps[number];
    qp->umem = slab->umems[gda_adapter_of(gda, name)]->umem_id;
    return gda_create_queue(gda, qp, &gda->queues[number], &at,
                            gda->area + gda_queue_index(gda, first, 0) * gda->queue_bytes);
}

/* The queues, and those that have failed. */
static size_t queue_table_bytes(const struct gda *gda)
{
    return ((size_t)gda_queue_count(gda) + gda->queues_per_pe) * sizeof *gda->queues;
}

/* Device code waits for them as for queues that a thread has abandoned. */
static void describe_failed_queues(struct gda *gda)
{
    static const uint64_t entry[2] = {0, (uint64_t)WEFT_DEV_GDA_CQE_NONE << 60};
    gda->failed = &gda->queues[gda_queue_count(gda)];
    for (uint32_t k = 0; k < gda->queues_per_pe; k++)
        gda->failed[k] = (struct weft_dev_gda_queue){
            .completion = &entry[1],
            .remote_keys = gda->remote_keys,
            .local_keys = gda->local_keys,
            .used_bit = (uint32_t)gda->world->pe * gda->queues_per_pe + k,
            .ready = 1,
            .turns = WEFT_DEV_GDA_UNUSED,
            .done = WEFT_DEV_GDA_FAILED};
}

static size_t busy_bytes(const struct gda *gda)
{
    return (size_t)gda_queue_count(gda) * gda->depth * sizeof *gda->busy;
}

/* The alarm, then on a cache line of its own `wanted`. */
static weft_status create_requests(struct gda *gda)
{
    size_t bytes = WEFT_DEV_GDA_LINE + (size_t)gda->world->npes;
    gda->requests_bytes = (bytes + GDA_PAGE - 1) / GDA_PAGE * GDA_PAGE;
    gda->requests = gda_map_zeros(gda->requests_bytes);
    if (!gda->requests)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no memory for requests of device code");
    gda->alarm = (uint32_t *)(void *)gda->requests;
    gda->wanted = (uint8_t *)gda->requests + WEFT_DEV_GDA_LINE;
    return WEFT_OK;
}

static size_t mark_bytes(const struct gda *gda)
{
    return (size_t)gda_queue_count(gda) * gda->depth / WEFT_DEV_GDA_MARKS * sizeof *gda->marks;
}

weft_status gda_create_queue_tables(struct gda *gda)
{
    size_t count = gda_queue_count(gda), npes = (size_t)gda->world->npes;
    gda->queue_bytes = gda_layout_of(gda, 0).bytes;
    gda->area_bytes = count * gda->queue_bytes;
    gda->area = gda_map_zeros(gda->area_bytes);
    gda->queues = gda_map_zeros(queue_table_bytes(gda));
    gda->marks = gda_map_zeros(mark_bytes(gda));
    gda->fillers = gda_map_zeros(mark_bytes(gda));
    gda->busy = gda_map_zeros(busy_bytes(gda));
    gda->qps = calloc(count, sizeof *gda->qps);
    gda->addresses = calloc(npes * gda->count, sizeof *gda->addresses);
    gda->seeds = calloc(npes, sizeof *gda->seeds);
    gda->used = calloc((npes + GDA_INITIATORS) * gda->queues_per_pe / 64 + 1, sizeof *gda->used);
    gda->links = calloc(npes, sizeof *gda->links);
    gda->device_queues = calloc(npes + GDA_INITIATORS, sizeof *gda->device_queues);
    if (gda->queues)
        describe_failed_queues(gda);
    return gda->area && gda->queues && gda->marks && gda->fillers && gda->busy && gda->qps &&
                   gda->addresses && gda->seeds && gda->used && gda->links && gda->device_queues
               ? create_requests(gda)
               : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no memory for %zu queues", count);
}

weft_status gda_create_links(struct gda *gda, int first, int count)
{
    struct gda_slab *slab = calloc(1, sizeof *slab);
    char *at = gda_link_area(gda, first);
    size_t bytes = (size_t)count * gda_link_bytes(gda);
    if (!slab)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    slab->next = gda->slabs;
    gda->slabs = slab;
    weft_status status = WEFT_OK;
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = register_slab(&gda->adapters->one[a], slab, a, at, bytes);
    for (int pe = first; pe < first + count && !status; pe++)
        for (uint32_t k = 0; k < gda_queues_to_pe(gda) && !status; k++)
            status = create_host_queue(gda, slab, first, pe, k);
    return status;
}

void gda_place_absent_queue(const struct gda *gda, struct gda_qp *qp, struct weft_dev_gda_queue *q,
                            const struct gda_layout *at, char *area)
{
    place_queue(q, at, area);
    q->number = 0;
    q->ring.doorbell = (uint64_t *)(void *)(area + at->page + NO_DOORBELL);
    weft_dev_gda_ring_set(&q->ring, area + at->ring, gda->depth, 0);
    qp->absent = true;
}

void gda_describe_dead_link(struct gda *gda, int pe)
{
    for (uint32_t k = 0; k < gda_queues_to_pe(gda); k++) {
        uint32_t number = gda_queue_index(gda, pe, k);
        gda_destroy_qp(&gda->qps[number]);
        gda->qps[number] = (struct gda_qp){0};
        struct gda_layout at = describe_host_queue(gda, gda->slabs, pe, pe, k);
        gda_place_absent_queue(gda, &gda->qps[number], &gda->queues[number], &at,
                               gda_link_area(gda, pe));
    }
}

void gda_publish_link(struct gda *gda, int pe)
{
    __atomic_store_n(&gda->device_queues[pe], (uintptr_t)&gda->queues[gda_queue_index(gda, pe, 0)],
                     __ATOMIC_RELEASE);
    atomic_store_explicit(&gda->links[pe], GDA_LINK_UP, memory_order_release);
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

void gda_drop_links(struct gda *gda)
{
    const struct mlx5 *lib = &gda->adapters->lib;
    for (uint32_t i = 0; gda->qps && i < gda_queue_count(gda); i++) {
        gda_destroy_qp(&gda->qps[i]);
        gda->qps[i] = (struct gda_qp){0};
    }
    for (struct gda_slab *slab = gda->slabs, *next; slab; slab = next) {
        next = slab->next;
        for (uint32_t a = 0; a < gda->count; a++) {
            if (slab->regions[a])
                lib->verbs.dereg_mr(slab->regions[a]);
            if (slab->umems[a])
                lib->dv.umem_dereg(slab->umems[a]);
        }
        free(slab);
    }
    gda->slabs = NULL;
    if (gda->area)
        madvise(gda->area, gda->area_bytes, MADV_DONTNEED);
}

void gda_destroy_queues(struct gda *gda)
{
    gda_drop_links(gda);
    gda_unmap_zeros(gda->area, gda->area_bytes);
    gda_unmap_zeros(gda->queues, queue_table_bytes(gda));
    gda_unmap_zeros(gda->marks, mark_bytes(gda));
    gda_unmap_zeros(gda->fillers, mark_bytes(gda));
    gda_unmap_zeros(gda->busy, busy_bytes(gda));
    free(gda->qps);
    free(gda->used);
    free(gda->addresses);
    free(gda->seeds);
    free(gda->links);
    free(gda->device_queues);
    gda_unmap_zeros(gda->requests, gda->requests_bytes);
}

/* --------------------------------------------------------------------------------- the exchange */

static struct gda_shape shape_of(const struct gda *gda)
{
    struct gda_shape shape = {.adapters = gda->count,
                              .queues_per_pe = gda->queues_per_pe,
                              .chunks = gda->chunks,
                              .chunk_bits = gda->chunk_bits,
                              .relaxed = gda->relaxed,
                              .dc = gda->dc != NULL,
                              .npes = gda->eager ? (uint32_t)gda->world->npes : 0};
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

uint64_t gda_random(void)
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
    record->seed = gda_random();
    if (gda->dc)
        gda_fill_dc_record(gda->dc, gda->count, record);
    for (int s = 0; s < SEG_COUNT; s++)
        record->bases[s] = (uintptr_t)gda->world->map[gda->world->pe][s];
    for (size_t i = 0; i < keys; i++)
        *words++ = htobe32(gda->regions[i]->rkey);
    for (uint32_t i = 0; i < shape.npes * gda_queues_to_pe(gda); i++)
        *words++ = gda->queues[i].number;
    for (uint32_t a = 0; a < gda->count && !status; a++)
        status = fill_address(&gda->adapters->one[a], &record->addresses[a]);
    return status;
}

/* Returns the UDP source port of a queue. Networks that choose routes by port (ECMP) spread the
 * queues over several routes. */
uint32_t gda_source_port(uint32_t mine, uint32_t its)
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
                                   .sport = gda_source_port(mine, its)};
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

static const struct gda_record *record_at(const char *all, size_t bytes, int pe)
{
    return (const struct gda_record *)(const void *)(all + (size_t)pe * bytes);
}

/* Keeps the keys and addresses of a PE. */
static weft_status keep_record(struct gda *gda, const struct gda_record *its, int pe)
{
    const uint32_t *keys = gda_record_words(its);
    const uint32_t *data = keys + (gda->relaxed ? (size_t)gda->count * gda->chunks : 0);
    weft_status status = WEFT_OK;
    memcpy(gda->bases + (size_t)pe * SEG_COUNT, its->bases, sizeof its->bases);
    if (gda->dc)
        gda_keep_dc_record(gda->dc, gda->count, its, pe);
    for (uint32_t a = 0; a < gda->count && !status; a++) {
        size_t at = gda_key_index(gda, a, pe), from = (size_t)a * gda->chunks;
        memcpy(gda->remote_keys + at, keys + from, gda->chunks * sizeof *keys);
        memcpy(gda->data_keys + at, data + from, gda->chunks * sizeof *keys);
        gda->addresses[(size_t)pe * gda->count + a] = its->addresses[a];
        status = check_link_layer(gda, &its->addresses[a], a, pe);
        if (!status)
            status = check_address(gda, &its->addresses[a], a, pe);
    }
    return status;
}

weft_status gda_connect_link(struct gda *gda, int pe, const uint32_t *numbers)
{
    weft_status status = WEFT_OK;
    for (uint32_t k = 0; k < gda_queues_to_pe(gda) && !status; k++) {
        uint32_t number = gda_queue_index(gda, pe, k);
        uint32_t mine = gda->queues[number].number;
        struct gda_connection connection = gda_connection_of(gda, mine, pe, numbers[k]);
        status = gda_connect_qp(&gda->qps[number], &connection,
                                &gda->addresses[(size_t)pe * gda->count + gda_adapter_of(gda, k)]);
    }
    return status;
}

void gda_refusal_text(const char *what, char text[GDA_REFUSAL_BYTES])
{
    static const char path[] = "path gda: ";
    const char *error = base_last_error();
    error += strncmp(error, path, sizeof path - 1) ? 0 : sizeof path - 1;
    snprintf(text, GDA_REFUSAL_BYTES, "it was not %s: %s", what, error);
}

/* A NIC has refused queues from this PE to itself. They fail before their first request, when there
 * is a thread that takes over: see gda_begin(). */
static weft_status do_without_self(struct gda *gda)
{
    gda_refusal_text("created", gda->no_loop);
    gda_describe_dead_link(gda, gda->world->pe);
    return WEFT_OK;
}

/* The queues from this PE to itself. */
static weft_status connect_self(struct gda *gda)
{
    uint32_t numbers[GDA_QUEUES_TO_PE_MOST];
    int me = gda->world->pe;
    weft_status status = gda_create_links(gda, me, 1);
    if (status == WEFT_ERR_SYSTEM && gda_may_fail_over(gda))
        return do_without_self(gda);
    for (uint32_t k = 0; k < gda_queues_to_pe(gda); k++)
        numbers[k] = gda->queues[gda_queue_index(gda, me, k)].number;
    if (!status)
        status = gda_connect_link(gda, me, numbers);
    if (!status)
        gda_publish_link(gda, me);
    return status;
}

/* `all` has the records of all PEs, with the numbers of their queues. */
static weft_status connect_eagerly(struct gda *gda, const char *all, size_t bytes)
{
    const struct gda_shape shape = shape_of(gda);
    size_t at = gda_record_keys(&shape) + (size_t)gda->world->pe * gda_queues_to_pe(gda);
    weft_status status = WEFT_OK;
    for (int pe = 0; pe < gda->world->npes && !status; pe++) {
        status = gda_connect_link(gda, pe, gda_record_words(record_at(all, bytes, pe)) + at);
        if (!status)
            gda_publish_link(gda, pe);
    }
    return status;
}

weft_status gda_connect_all(struct gda *gda)
{
    const struct path_world *world = gda->world;
    const size_t each = gda_queues_to_pe(gda), count = gda_queue_count(gda);
    uint32_t *mine = calloc(count, sizeof *mine);
    uint32_t *all = calloc((size_t)world->npes * count, sizeof *all);
    weft_status status =
        mine && all ? WEFT_OK
                    : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu numbers of queues",
                                count * (size_t)world->npes);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (gda_link_of(gda, pe) == GDA_LINK_NONE && !gda_is_dc_peer(gda, pe))
            status = gda_create_links(gda, pe, 1);
    for (size_t i = 0; i < count && !status; i++)
        mine[i] = gda->queues[i].number;
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, count * sizeof *mine);
    for (int pe = 0; pe < world->npes && !status; pe++) {
        const uint32_t *its = all + (size_t)pe * count + (size_t)world->pe * each;
        if (gda_link_of(gda, pe) != GDA_LINK_NONE || gda_is_dc_peer(gda, pe))
            continue;
        const char *fault = gda_numbers_fault(its, each);
        status = fault ? gda_fail_record(pe, fault) : gda_connect_link(gda, pe, its);
        if (!status)
            gda_publish_link(gda, pe);
    }
    free(mine);
    free(all);
    return boot_agree(world->boot, status);
}

/* Compares the sizes of all PEs. They depend on configuration, which may differ between PEs. */
static weft_status compare_sizes(const struct gda *gda)
{
    const struct path_world *world = gda->world;
    uint32_t mine[6] = {gda->queues_per_pe, gda->chunks, gda->chunk_bits,
                        gda->relaxed,       gda->eager,  gda_rc_limit(gda)};
    uint32_t(*all)[6] = calloc((size_t)world->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof mine);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (memcmp(all[pe], mine, sizeof mine) != 0)
            status = base_fail(
                WEFT_ERR_MISMATCH,
                "path gda: WEFT_GDA_QUEUES, WEFT_TEST_GDA_CHUNK, WEFT_TEST_GDA_EAGER, "
                "WEFT_TEST_GDA_RC or the sizes of segments differ between PE %d (%u queues, %u "
                "chunks of 2^%u bytes, RC to %u PEs%s) and PE %d (%u, %u, 2^%u, %u%s)",
                world->pe, mine[0], mine[1], mine[2], mine[5],
                mine[4] ? "" : ", connected at first use", pe, all[pe][0], all[pe][1], all[pe][2],
                all[pe][5], all[pe][4] ? "" : ", at first use");
    free(all);
    return boot_agree(world->boot, status);
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
        status = keep_record(gda, record_at(all, bytes, pe), pe);
    if (!status)
        status = gda->eager ? connect_eagerly(gda, all, bytes) : connect_self(gda);
    if (!status && gda->dc)
        status = gda_open_initiators(gda);
    free(mine);
    free(all);
    /* No PE sends before all PEs can receive. */
    return boot_agree(world->boot, status);
}

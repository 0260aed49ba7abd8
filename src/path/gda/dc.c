/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of DC targets and initiators. A target is created by verbs, because the kernel driver
 * gives a program no other access to it; an initiator by DevX, like RC queues. */
#include "path/gda/dc.h"

#include "base/status.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gda_dc *gda_create_dc(int npes, uint32_t count, int rc_peers)
{
    struct gda_dc *dc = calloc(1, sizeof *dc);
    if (!dc)
        return NULL;
    dc->rc_peers = rc_peers;
    dc->key = gda_random();
    dc->mtu = IBV_MTU_4096;
    dc->keys = calloc((size_t)npes, sizeof *dc->keys);
    dc->numbers = calloc((size_t)npes * count, sizeof *dc->numbers);
    dc->pairs = calloc((size_t)npes * count, sizeof *dc->pairs);
    dc->marks = calloc((size_t)npes * count, sizeof *dc->marks);
    for (size_t i = 0; i < (size_t)npes * count && dc->marks; i++)
        dc->marks[i] = GDA_DC_MARK_FIRST;
    pthread_mutex_init(&dc->test_lock, NULL);
    pthread_mutex_init(&dc->loss_lock, NULL);
    for (uint32_t i = 0; i < GDA_ADAPTERS_MOST * GDA_INITIATORS; i++)
        pthread_mutex_init(&dc->initiators[i].lock, NULL);
    return dc;
}

/* ------------------------------------------------------------------------------------- records */

void gda_fill_dc_record(const struct gda_dc *dc, uint32_t count, struct gda_record *record)
{
    record->dc_key = dc->key;
    for (uint32_t a = 0; a < count; a++)
        record->dc_targets[a] = dc->targets[a].qp->qp_num;
}

void gda_keep_dc_record(struct gda_dc *dc, uint32_t count, const struct gda_record *its, int pe)
{
    dc->keys[pe] = its->dc_key;
    for (uint32_t a = 0; a < count; a++) {
        dc->numbers[(size_t)pe * count + a] = its->dc_targets[a];
        dc->mtu = its->addresses[a].mtu < dc->mtu ? its->addresses[a].mtu : dc->mtu;
    }
}

/* ------------------------------------------------------------------------------------- targets */

static weft_status fail_target(const struct gda_adapter *adapter, const char *call, int error)
{
    return base_fail(WEFT_ERR_SYSTEM, "path gda: %s: %s of the DC target: %s", adapter->name, call,
                     strerror(error));
}

/* Nothing is ever received, but a target needs both queues. */
static weft_status create_receive_queues(const struct gda_adapter *adapter,
                                         struct gda_target *target)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
    target->cq = adapter->lib->verbs.create_cq(adapter->context, 1, NULL, NULL, 0);
    if (!target->cq)
        return fail_target(adapter, "ibv_create_cq", errno);
    target->srq = adapter->lib->verbs.create_srq(adapter->pd, &attr);
    return target->srq ? WEFT_OK : fail_target(adapter, "ibv_create_srq", errno);
}

static weft_status create_target_queue(const struct gda_adapter *adapter, uint64_t key,
                                       struct gda_target *target)
{
    struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_DRIVER,
                                       .send_cq = target->cq,
                                       .recv_cq = target->cq,
                                       .srq = target->srq,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD,
                                       .pd = adapter->pd};
    struct mlx5dv_qp_init_attr dv = {
        .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
        .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = key}};
    target->qp = adapter->lib->dv.create_qp(adapter->context, &attr, &dv);
    return target->qp ? WEFT_OK : fail_target(adapter, "mlx5dv_create_qp", errno);
}

/* The number of the target is known when it is ready to receive. */
static weft_status open_target(const struct gda_adapter *adapter, const struct gda_target *target)
{
    enum {
        INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER,
        RNR_TIMER = 12, /* 0.64 ms */
    };
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = GDA_PORT,
                               .qp_access_flags =
                                   gda_access_flags(adapter, false) & ~IBV_ACCESS_LOCAL_WRITE};
    int error = adapter->lib->verbs.modify_qp(target->qp, &attr, INIT);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = adapter->port.active_mtu,
                                .min_rnr_timer = RNR_TIMER,
                                .ah_attr = {.port_num = GDA_PORT}};
    if (adapter->ethernet) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = (uint8_t)adapter->gid_index;
        attr.ah_attr.grh.hop_limit = GDA_HOP_LIMIT;
    }
    if (!error)
        error = adapter->lib->verbs.modify_qp(target->qp, &attr, RTR);
    return error ? fail_target(adapter, "ibv_modify_qp", error) : WEFT_OK;
}

weft_status gda_create_targets(struct gda *gda)
{
    struct gda_dc *dc = gda->dc;
    weft_status status = dc->keys && dc->numbers && dc->pairs && dc->marks
                             ? WEFT_OK
                             : base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory");
    for (uint32_t a = 0; a < gda->count && !status; a++) {
        const struct gda_adapter *adapter = &gda->adapters->one[a];
        struct gda_target *target = &dc->targets[a];
        status = create_receive_queues(adapter, target);
        if (!status)
            status = create_target_queue(adapter, dc->key, target);
        if (!status)
            status = open_target(adapter, target);
    }
    return status;
}

static void destroy_target(const struct mlx5 *lib, struct gda_target *target)
{
    if (target->qp)
        lib->verbs.destroy_qp(target->qp);
    if (target->srq)
        lib->verbs.destroy_srq(target->srq);
    if (target->cq)
        lib->verbs.destroy_cq(target->cq);
    *target = (struct gda_target){0};
}

void gda_close_target(struct gda *gda, uint32_t adapter)
{
    if (gda->dc)
        destroy_target(&gda->adapters->lib, &gda->dc->targets[adapter]);
}

/* ---------------------------------------------------------------------------------- initiators */

struct gda_initiator *gda_initiator_of(const struct gda *gda, const struct weft_dev_gda_queue *q)
{
    for (uint32_t i = 0; gda->dc && i < gda->count * GDA_INITIATORS; i++)
        if (q == &gda->dc->initiators[i].q)
            return &gda->dc->initiators[i];
    return NULL;
}

static weft_status register_initiator(const struct gda *gda, struct gda_initiator *initiator,
                                      const struct gda_adapter *adapter)
{
    size_t bytes = gda_queue_bytes(gda->depth);
    initiator->pes = calloc(gda->depth, sizeof *initiator->pes);
    initiator->q.busy = calloc(gda->depth, sizeof *initiator->q.busy);
    initiator->area = gda_map_zeros(bytes);
    if (!initiator->pes || !initiator->q.busy || !initiator->area)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no memory for a DC initiator");
    initiator->umem =
        adapter->lib->dv.umem_reg(adapter->context, initiator->area, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!initiator->umem)
        return base_fail(WEFT_ERR_SYSTEM, "path gda: %s: mlx5dv_devx_umem_reg of %zu bytes: %s",
                         adapter->name, bytes, strerror(errno));
    initiator->region =
        adapter->lib->verbs.reg_mr(adapter->pd, initiator->area, bytes, IBV_ACCESS_LOCAL_WRITE);
    return initiator->region
               ? WEFT_OK
               : base_fail(WEFT_ERR_SYSTEM, "path gda: %s: ibv_reg_mr of %zu bytes: %s",
                           adapter->name, bytes, strerror(errno));
}

/* What never changes. Threads do not poll a completion entry of an initiator by themselves: they
 * see an empty one. */
static void describe_initiator(const struct gda *gda, struct gda_initiator *initiator,
                               const struct gda_adapter *adapter)
{
    static const uint64_t none[2] = {0, (uint64_t)WEFT_DEV_GDA_CQE_NONE << 60};
    const struct gda_layout at = gda_layout_of(gda, 0);
    char *area = initiator->area;
    initiator->qp = (struct gda_qp){
        .adapter = adapter, .umem = initiator->umem->umem_id, .dc = true, .entries = true};
    initiator->completions = area + at.completions;
    initiator->cq_record = (uint32_t *)(void *)(area + at.page + GDA_CQ_RECORD);
    initiator->ring.record = (uint32_t *)(void *)(area + at.page + GDA_QP_RECORD + GDA_SEND_WORD);
    initiator->q.completion = &none[1];
    initiator->q.results = area + at.results;
    initiator->q.results_key = htobe32(initiator->region->lkey);
    initiator->q.ring.last = gda->depth - 1;
    initiator->q.ready = 1;
}

weft_status gda_open_initiator_queue(const struct gda *gda, struct gda_initiator *initiator)
{
    const struct gda_layout at = gda_layout_of(gda, 0);
    struct gda_qp *qp = &initiator->qp;
    uint32_t number = 0;
    memset(initiator->area + at.completions, 0xff, at.page - at.completions);
    memset(initiator->area + at.page, 0, GDA_PAGE);
    initiator->polled = 0;
    weft_status status = gda_alloc_uar_page(qp);
    if (!status)
        status = gda_create_cq(qp, gda->depth, at.completions, at.page + GDA_CQ_RECORD);
    if (!status)
        status = gda_create_qp(qp, gda->depth, at.ring, at.page + GDA_QP_RECORD, &number);
    if (!status)
        status = gda_open_initiator(qp, number, gda->dc->mtu);
    if (!status)
        initiator->ring.doorbell = qp->uar->reg_addr;
    weft_dev_gda_ring_set(&initiator->ring, initiator->area + at.ring, gda->depth, number);
    initiator->q.number = number;
    initiator->scratch = initiator->ring;
    weft_dev_gda_ring_set(&initiator->scratch, initiator->blocks, GDA_DC_SCRATCH, number);
    return status;
}

weft_status gda_open_initiators(struct gda *gda)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < gda->count * GDA_INITIATORS && !status; i++) {
        const struct gda_adapter *adapter = &gda->adapters->one[i / GDA_INITIATORS];
        struct gda_initiator *initiator = &gda->dc->initiators[i];
        status = register_initiator(gda, initiator, adapter);
        if (status)
            return status;
        describe_initiator(gda, initiator, adapter);
        status = gda_open_initiator_queue(gda, initiator);
    }
    return status;
}

static void destroy_initiator(const struct gda *gda, struct gda_initiator *initiator)
{
    const struct mlx5 *lib = &gda->adapters->lib;
    gda_destroy_qp(&initiator->qp);
    if (initiator->region)
        lib->verbs.dereg_mr(initiator->region);
    if (initiator->umem)
        lib->dv.umem_dereg(initiator->umem);
    gda_unmap_zeros(initiator->area, gda_queue_bytes(gda->depth));
    for (struct gda_dc_loss *loss = initiator->losses, *next; loss; loss = next) {
        next = loss->next;
        free(loss);
    }
    free(initiator->q.busy);
    free(initiator->pes);
    pthread_mutex_destroy(&initiator->lock);
}

void gda_destroy_dc(struct gda *gda)
{
    struct gda_dc *dc = gda->dc;
    if (!dc)
        return;
    gda_dc_close_device(gda);
    for (uint32_t i = 0; i < GDA_ADAPTERS_MOST * GDA_INITIATORS; i++)
        destroy_initiator(gda, &dc->initiators[i]);
    for (uint32_t a = 0; a < GDA_ADAPTERS_MOST; a++)
        destroy_target(&gda->adapters->lib, &dc->targets[a]);
    pthread_mutex_destroy(&dc->test_lock);
    pthread_mutex_destroy(&dc->loss_lock);
    free(dc->keys);
    free(dc->numbers);
    free(dc->pairs);
    free(dc->marks);
    free(dc);
    gda->dc = NULL;
}

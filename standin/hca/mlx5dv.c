/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of mlx5dv.h except commands (devx.c): doorbell pages, umems, and the inside of verbs
 * objects. */
#include "context.h"
#include "gpu/driver.h"
#include "gpu/engine.h"
#include "gpu/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hca_umem {
    struct mlx5dv_devx_umem umem;
    struct device *device;
};

struct hca_uar {
    struct mlx5dv_devx_uar uar;
    struct uar *of;
};

PUBLIC bool mlx5dv_is_supported(struct ibv_device *device)
{
    return true;
}

PUBLIC struct ibv_context *mlx5dv_open_device(struct ibv_device *device,
                                              struct mlx5dv_context_attr *attr)
{
    if (attr->comp_mask || attr->flags & ~(uint32_t)MLX5DV_CONTEXT_FLAGS_DEVX) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    return ibv_open_device(device);
}

PUBLIC int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *out)
{
    uint64_t requested = out->comp_mask;
    *out = (struct mlx5dv_context){.flags = MLX5DV_CONTEXT_FLAGS_CQE_V1,
                                   .comp_mask = requested & MLX5DV_CONTEXT_MASK_DYN_BFREGS,
                                   .max_dynamic_bfregs = MAX_UARS - 1};
    return 0;
}

PUBLIC int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn)
{
    if (vector)
        return EINVAL;
    *eqn = 1;
    return 0;
}

/* --- Doorbell pages: each caller gets its own register --- */

PUBLIC struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
    struct device *d = context_of(context)->device;
    struct hca_uar *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    device_lock(d);
    u->of = uar_add(d);
    if (u->of)
        u->of->program = &u->uar;
    device_unlock(d);
    if (!u->of) {
        free(u);
        errno = ENOMEM;
        return NULL;
    }
    u->uar = (struct mlx5dv_devx_uar){
        .reg_addr = u->of->reg, .base_addr = u->of->page, .page_id = u->of->page_id};
    return &u->uar;
}

PUBLIC void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *devx_uar)
{
    struct hca_uar *u = HOLDER(devx_uar, struct hca_uar, uar);
    struct device *d = u->of->device;
    device_lock(d);
    if (u->of->queues)
        log_error(d, "UAR %u was freed while %u queues use it", devx_uar->page_id, u->of->queues);
    for (unsigned i = 0; i < MAX_QPS; i++)
        if (d->objects.qps[i] && d->objects.qps[i]->uar == u->of)
            d->objects.qps[i]->uar = NULL;
    uar_remove(u->of);
    device_unlock(d);
    free(u);
}

/* --- Memory of queues --- */

/* GPU memory needs an engine on that GPU. False: there is none. */
static bool map_umem(struct device *d, struct umem *u)
{
    const struct gpu_driver *driver = gpu_driver();
    int gpu = driver ? gpu_driver_owner(driver, (uintptr_t)u->address) : -1;
    if (gpu < 0)
        return true;
    u->on_gpu = gpu_engine_start(d, gpu) && gpu_engine_map(d, (uintptr_t)u->address, u->bytes) &&
                gpu_memory_add((uintptr_t)u->address, u->bytes) == GPU_MEMORY_THERE;
    return u->on_gpu;
}

PUBLIC struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *addr,
                                                     size_t size, uint32_t access)
{
    struct device *d = context_of(context)->device;
    struct hca_umem *h = calloc(1, sizeof *h);
    struct umem *u = calloc(1, sizeof *u);
    if (!h || !u || !addr || !size || (uintptr_t)addr + size < (uintptr_t)addr) {
        free(h);
        free(u);
        errno = EINVAL;
        return NULL;
    }
    u->address = addr;
    u->bytes = size;
    if (!map_umem(d, u)) {
        free(h);
        free(u);
        errno = EOPNOTSUPP;
        return NULL;
    }
    device_lock(d);
    uint32_t id = 1;
    while (id < MAX_UMEMS && d->objects.umems[id])
        id++;
    if (id < MAX_UMEMS)
        d->objects.umems[id] = u;
    device_unlock(d);
    if (id == MAX_UMEMS) {
        free(h);
        free(u);
        errno = ENOMEM;
        return NULL;
    }
    h->umem.umem_id = id;
    h->device = d;
    return &h->umem;
}

PUBLIC struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
                                                        struct mlx5dv_devx_umem_in *in)
{
    /* Memory that is named only by a dma-buf has no address here. */
    if (in->comp_mask) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    return mlx5dv_devx_umem_reg(context, in->addr, in->size, in->access);
}

PUBLIC int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *umem)
{
    struct hca_umem *h = HOLDER(umem, struct hca_umem, umem);
    struct device *d = h->device;
    device_lock(d);
    struct umem *u = d->objects.umems[umem->umem_id];
    if (u->users) {
        log_error(d, "umem %u cannot be deregistered: %u objects use it", umem->umem_id, u->users);
        device_unlock(d);
        return EREMOTEIO;
    }
    d->objects.umems[umem->umem_id] = NULL;
    device_unlock(d);
    if (u->on_gpu)
        gpu_memory_remove((uintptr_t)u->address, u->bytes);
    free(u);
    free(h);
    return 0;
}

/* --- What lies inside --- */

static void show_qp(struct hca_qp *q, struct mlx5dv_qp *out)
{
    const struct qp *qp = q->of;
    *out = (struct mlx5dv_qp){.dbrec = (__be32 *)qp->record};
    out->sq.buf = qp->send.ring;
    out->sq.wqe_cnt = qp->send.blocks;
    out->sq.stride = qp->send.blocks ? WQE_BLOCK_BYTES : 0;
    out->rq.buf = qp->receive.ring;
    out->rq.wqe_cnt = qp->receive.ring ? 1u << qp->receive.log_count : 0;
    out->rq.stride = qp->receive.ring ? 1u << qp->receive.log_stride : 0;
    out->bf.reg = qp->uar->reg; /* size 0: no BlueFlame, only doorbells of 8 bytes */
}

PUBLIC int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t type)
{
    uint64_t known = MLX5DV_OBJ_PD | MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_AH;
    if (type & ~known)
        return EOPNOTSUPP;
    if (type & MLX5DV_OBJ_PD)
        *obj->pd.out = (struct mlx5dv_pd){.pdn = pd_of(obj->pd.in)->number};
    if (type & MLX5DV_OBJ_QP)
        show_qp(qp_of(obj->qp.in), obj->qp.out);
    if (type & MLX5DV_OBJ_CQ) {
        const struct cq *cq = cq_of(obj->cq.in)->of;
        *obj->cq.out = (struct mlx5dv_cq){.buf = cq->buffer,
                                          .dbrec = (__be32 *)cq->record,
                                          .cqe_cnt = 1u << cq->log_size,
                                          .cqe_size = 64,
                                          .cqn = cq->cqn};
    }
    if (type & MLX5DV_OBJ_SRQ) {
        const struct hca_srq *s = srq_of(obj->srq.in);
        uint64_t requested = obj->srq.out->comp_mask & MLX5DV_SRQ_MASK_SRQN;
        *obj->srq.out = (struct mlx5dv_srq){.buf = s->memory,
                                            .dbrec = (__be32 *)s->of->queue.record,
                                            .stride = 1u << s->of->queue.log_stride,
                                            .head = s->head,
                                            .tail = s->tail,
                                            .comp_mask = requested,
                                            .srqn = s->of->number};
    }
    if (type & MLX5DV_OBJ_AH)
        *obj->ah.out = (struct mlx5dv_ah){.av = &HOLDER(obj->ah.in, struct hca_ah, ah)->av};
    return 0;
}

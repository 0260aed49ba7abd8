/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues of the verbs interface. */
#include "context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_SGE = 30 };

static struct srq *srq_add(struct device *d)
{
    for (unsigned tries = 1; tries < MAX_SRQS; tries++) {
        uint32_t n = d->objects.srq_next++ % (MAX_SRQS - 1) + 1;
        if (d->objects.srqs[n])
            continue;
        struct srq *s = calloc(1, sizeof *s);
        if (!s)
            return NULL;
        s->device = d;
        s->number = n;
        d->objects.srqs[n] = s;
        return s;
    }
    return NULL;
}

static void link_entries(struct hca_srq *s, uint32_t count, uint32_t log_stride)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mlx5_wqe_srq_next_seg *e = (void *)((char *)s->memory + ((size_t)i << log_stride));
        e->next_wqe_index = htobe16((uint16_t)((i + 1) & (count - 1)));
    }
    s->head = 0;
    s->tail = (uint16_t)(count - 1);
}

PUBLIC struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
    struct device *d = context_of(pd->context)->device;
    uint32_t count = 1, log = 4;
    if (!a->attr.max_wr || a->attr.max_wr > MAX_SRQ_ENTRIES || a->attr.max_sge > MAX_SGE) {
        errno = EINVAL;
        return NULL;
    }
    /* One entry stays free: the last of the list. */
    while (count <= a->attr.max_wr)
        count *= 2;
    while (1u << log < 16 + 16 * a->attr.max_sge)
        log++;
    struct hca_srq *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->bytes = ((size_t)count << log) + 64;
    s->memory = queue_memory(s->bytes);
    s->wr_ids = calloc(count, sizeof *s->wr_ids);
    device_lock(d);
    struct srq *of = s->memory && s->wr_ids ? srq_add(d) : NULL;
    if (of) {
        of->pd = pd_of(pd)->number;
        d->objects.pds[of->pd]++;
        of->owner = &s->srq;
        link_entries(s, count, log);
        of->queue =
            (struct receive_queue){.ring = s->memory,
                                   .log_count = (uint32_t)__builtin_ctz(count),
                                   .log_stride = log,
                                   .record = (uint32_t *)((char *)s->memory + s->bytes - 64),
                                   .linked = true};
    }
    device_unlock(d);
    if (!of) {
        if (s->memory)
            munmap(s->memory, s->bytes);
        free(s->wr_ids);
        free(s);
        errno = ENOMEM;
        return NULL;
    }
    s->of = of;
    s->count = count;
    s->max_sge = ((1u << log) - 16) / 16;
    pthread_mutex_init(&s->lock, NULL);
    s->srq.context = pd->context;
    s->srq.srq_context = a->srq_context;
    s->srq.pd = pd;
    s->srq.handle = of->number;
    pthread_mutex_init(&s->srq.mutex, NULL);
    pthread_cond_init(&s->srq.cond, NULL);
    a->attr.max_wr = count - 1;
    a->attr.max_sge = s->max_sge;
    return &s->srq;
}

struct ibv_srq *verbs_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *a)
{
    struct ibv_srq_init_attr plain = {.srq_context = a->srq_context, .attr = a->attr};
    bool basic = !(a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || a->srq_type == IBV_SRQT_BASIC;
    if (!basic || !(a->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    struct ibv_srq *s = ibv_create_srq(a->pd, &plain);
    if (s)
        a->attr = plain.attr;
    return s;
}

PUBLIC int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *a, int mask)
{
    /* Resizing and limit events are not supported. */
    return mask ? EOPNOTSUPP : 0;
}

PUBLIC int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *a)
{
    struct hca_srq *s = srq_of(srq);
    *a = (struct ibv_srq_attr){.max_wr = s->count - 1, .max_sge = s->max_sge};
    return 0;
}

PUBLIC int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct hca_srq *s = srq_of(srq);
    struct device *d = s->of->device;
    device_lock(d);
    bool busy = s->of->users;
    if (!busy) {
        d->objects.srqs[s->of->number] = NULL;
        d->objects.pds[s->of->pd]--;
        free(s->of);
    }
    device_unlock(d);
    if (busy)
        return EBUSY;
    pthread_mutex_destroy(&s->lock);
    munmap(s->memory, s->bytes);
    free(s->wr_ids);
    free(s);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables that the inline functions of verbs.h call through the context. */
#include "context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *out,
                      size_t bytes)
{
    struct ibv_port_attr a;
    if (port != 1)
        return EINVAL;
    port_describe(context_of(context)->device, &a);
    memcpy(out, &a, bytes < sizeof a ? bytes : sizeof a);
    return 0;
}

static int query_device_ex(struct ibv_context *context,
                           const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *out, size_t bytes)
{
    struct ibv_device_attr_ex a = {
        .phys_port_cnt_ex = 1, .pci_atomic_caps = {.fetch_add = 8, .swap = 8, .compare_swap = 8}};
    if (input && input->comp_mask)
        return EINVAL;
    ibv_query_device(context, &a.orig_attr);
    a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
    memcpy(out, &a, bytes < sizeof a ? bytes : sizeof a);
    return 0;
}

/* A parent domain is the same domain under another pointer: locks are never omitted here. */
static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
                                          struct ibv_parent_domain_init_attr *attr)
{
    struct hca_pd *parent = attr->pd ? pd_of(attr->pd) : NULL;
    if (!parent || attr->comp_mask & ~(uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                                 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) {
        errno = EINVAL;
        return NULL;
    }
    struct hca_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    struct device *d = context_of(context)->device;
    pd->pd.context = context;
    pd->pd.handle = pd->number = parent->number;
    pd->parent = parent;
    device_lock(d);
    d->objects.pds[pd->number]++;
    device_unlock(d);
    return &pd->pd;
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
    *number = srq_of(srq)->of->number;
    return 0;
}

void verbs_fill(struct hca_context *c)
{
    c->verbs.query_port = query_port;
    c->verbs.query_device_ex = query_device_ex;
    c->verbs.alloc_parent_domain = alloc_parent_domain;
    c->verbs.create_qp_ex = verbs_create_qp_ex;
    c->verbs.create_srq_ex = verbs_create_srq_ex;
    c->verbs.get_srq_num = get_srq_num;
    struct ibv_context_ops *ops = &c->verbs.context.ops;
    ops->poll_cq = verbs_poll_cq;
    ops->req_notify_cq = verbs_req_notify_cq;
    ops->post_send = verbs_post_send;
    ops->post_recv = verbs_post_recv;
    ops->post_srq_recv = verbs_post_srq_recv;
}

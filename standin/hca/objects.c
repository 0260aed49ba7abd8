/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbell pages, completion queues and QP state transitions, shared by verbs and DevX. */
#include "context.h"
#include "gpu/driver.h"
#include "gpu/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { UAR_REGISTER = 0x800 };

static bool make_register(struct uar *u)
{
    u->page = mmap(NULL, UAR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (u->page == MAP_FAILED)
        return false;
    u->reg = (uint64_t *)(u->page + UAR_REGISTER);
    return true;
}

struct uar *uar_add(struct device *d)
{
    for (uint32_t i = 1; i < MAX_UARS; i++) {
        if (d->objects.uars[i])
            continue;
        struct uar *u = calloc(1, sizeof *u);
        if (!u)
            return NULL;
        u->device = d;
        u->page_id = i;
        if (!make_register(u)) {
            free(u);
            return NULL;
        }
        d->objects.uars[i] = u;
        d->objects.uar_top = i >= d->objects.uar_top ? i + 1 : d->objects.uar_top;
        return u;
    }
    return NULL;
}

void uar_move_to_gpu(struct uar *u)
{
    if (u->gpu_address || !u->program || !(u->gpu_address = gpu_engine_register(u->device)))
        return;
    munmap(u->page, UAR_BYTES);
    u->on_gpu = true;
    u->reg = (uint64_t *)(uintptr_t)u->gpu_address;
    u->page = (uint8_t *)u->reg;
    u->program->reg_addr = u->program->base_addr = u->reg;
}

void uar_remove(struct uar *u)
{
    struct device *d = u->device;
    const struct gpu_driver *driver = u->registered ? gpu_driver() : NULL;
    if (driver)
        driver->host_unregister(u->page);
    d->objects.uars[u->page_id] = NULL;
    while (d->objects.uar_top > 1 && !d->objects.uars[d->objects.uar_top - 1])
        d->objects.uar_top--;
    if (!u->on_gpu)
        munmap(u->page, UAR_BYTES);
    free(u);
}

struct cq *cq_add(struct device *d)
{
    for (unsigned tries = 1; tries < MAX_CQS; tries++) {
        uint32_t n = d->objects.cq_next++ % (MAX_CQS - 1) + 1;
        if (d->objects.cqs[n])
            continue;
        struct cq *cq = calloc(1, sizeof *cq);
        if (!cq)
            return NULL;
        cq->device = d;
        cq->cqn = n;
        d->objects.cqs[n] = cq;
        return cq;
    }
    return NULL;
}

void cq_remove(struct cq *cq)
{
    struct device *d = cq->device;
    for (unsigned i = 0; i < d->pending.notify_count; i++)
        if (d->pending.notify[i] == cq)
            d->pending.notify[i--] = d->pending.notify[--d->pending.notify_count];
    for (unsigned i = 0; i < 2; i++)
        if (cq->memories[i])
            cq->memories[i]->users--;
    d->objects.cqs[cq->cqn] = NULL;
    free(cq);
}

/* Returns true if the state transition exists for an RC QP. RESET and ERROR can be entered from any
 * state. A DC target stays in RTR; a DC initiator has no peer. */
static bool transition_exists(const struct qp *qp, unsigned to)
{
    unsigned from = qp->state;
    if (to == QP_RESET || to == QP_ERROR)
        return true;
    if (to == QP_INIT)
        return from == QP_RESET || from == QP_INIT;
    if (to == QP_RTR)
        return from == QP_INIT;
    if (to == QP_RTS)
        return qp->type != QP_DCT &&
               (from == QP_RTR || from == QP_RTS || from == QP_SQD || from == QP_SQE);
    return to == QP_SQD && from == QP_RTS;
}

static void apply_attributes(struct qp *qp, const struct qp_modify *m, unsigned what)
{
    if (what & MODIFY_ACCESS)
        qp->access = (uint8_t)((qp->access & ~m->access_set) | (m->access & m->access_set));
    if (what & MODIFY_TIMER)
        qp->rnr_timer = m->rnr_timer;
    if (what & MODIFY_PATH) {
        qp->requester.remote_qpn = m->remote_qpn;
        qp->requester.remote = m->remote;
        qp->requester.mtu = m->mtu;
        qp->requester.source_port = m->source_port;
        qp->responder.expected_psn = m->receive_psn & 0xffffff;
        qp->responder.ack_psn = psn_add(qp->responder.expected_psn, 0xffffff);
        qp->responder.qpn = m->remote_qpn;
        qp->responder.from = m->remote;
    }
    if (what & MODIFY_SEND) {
        qp->requester.psn = qp->requester.acked = qp->requester.psn_limit = m->send_psn & 0xffffff;
        qp->requester.max_reads = m->max_reads < MAX_READS ? m->max_reads : MAX_READS;
        qp->requester.timeout = m->timeout & 31;
        qp->requester.retry_count = qp->requester.retries = m->retry_count & 7;
        qp->requester.rnr_retry = qp->requester.rnr_tries = m->rnr_retry & 7;
    }
}

int qp_modify(struct qp *qp, const struct qp_modify *m, unsigned what)
{
    struct device *d = qp->device;
    struct link_out *link = NULL;
    if (m->to != QP_RTS && qp->send.gpu_ring)
        gpu_engine_release_queue(d, qp);
    if (m->to == QP_RTR && qp->type == QP_RC && (what & MODIFY_PATH)) {
        link = link_connect(d, m->remote);
        if (!link)
            return ENOMEM;
    }
    device_lock(d);
    if (!transition_exists(qp, m->to)) {
        log_error(d, "QP 0x%x: no transition from state %u to %u", qp->qpn, qp->state, m->to);
        device_unlock(d);
        return EINVAL;
    }
    if (m->to == QP_RESET)
        qp_reset(qp);
    else if (m->to == QP_ERROR)
        qp_to_error(qp);
    else
        apply_attributes(qp, m, what);
    if (link) {
        link_release(d, qp);
        /* The link may have died and been freed since it was connected. */
        link_attach(d, qp, link_find(d, m->remote));
        qp->requester.window = roce_window(qp);
    }
    if (m->to != QP_ERROR)
        qp->state = m->to;
    if (m->to == QP_RTS)
        qp_list(qp);
    if (m->to == QP_RTS && qp->send.gpu_ring && qp->uar)
        qp->uar->by_cpu = false; /* until the kernel returns the QP */
    qp->send.leaving_gpu = false;
    device_changes(d);
    device_unlock(d);
    device_wake(d);
    return 0;
}

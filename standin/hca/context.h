// SPDX-License-Identifier: Apache-2.0
// The objects that programs hold, around those of the HCA. Every public structure lies inside one of these.
#ifndef WEFT_HCA_CONTEXT_H
#define WEFT_HCA_CONTEXT_H

#include "hca.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#define HOLDER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define PUBLIC                        __attribute__((visibility("default")))

enum { VENDOR_ID = 0x02c9, VENDOR_PART = 0x1021 };

struct hca_context {
    struct device *device;
    struct channel events;      // asynchronous ones
    struct verbs_context verbs; // last: its `context` is what the program sees
};

struct hca_pd {
    struct ibv_pd pd;
    uint32_t number;
    struct hca_pd *parent; // of a parent domain
    unsigned users;
};

struct hca_mr {
    struct ibv_mr mr;
    void *mapped; // of a dma-buf
    size_t mapped_bytes;
};

static inline struct hca_context *context_of(struct ibv_context *c)
{
    return HOLDER(c, struct hca_context, verbs.context);
}

static inline struct hca_pd *pd_of(struct ibv_pd *pd)
{
    return HOLDER(pd, struct hca_pd, pd);
}

// verbs_device.c
int device_number(struct ibv_device *device);
// The port as ibv_query_port() shows it.
void port_describe(const struct device *d, struct ibv_port_attr *out);
void gid_of(const struct config *c, uint16_t lid, union ibv_gid *out);
uint16_t lid_of_gid(const uint8_t *gid);

// The tables of functions that inline functions of verbs.h call.
void verbs_fill(struct hca_context *c);

// uar.c
struct uar *uar_add(struct device *d);
void uar_remove(struct uar *u);

// cq_table.c
struct cq *cq_add(struct device *d);
void cq_remove(struct cq *cq);

// move.c: what a program may ask of a queue; as ibv_modify_qp() and the DevX commands say it.
struct qp_move {
    unsigned to; // enum qp_state
    uint32_t remote_qpn, receive_psn, send_psn;
    uint16_t remote_lid;
    uint32_t mtu; // bytes
    uint8_t access, max_reads, timeout, retry_count, rnr_retry, rnr_timer;
};
// Each of the parts of `what` that is named is taken over.
enum {
    MOVE_ACCESS = 1,
    MOVE_TIMER = 2,
    MOVE_PATH = 4,
    MOVE_SEND = 8,
};
// qp_move: 0, EINVAL (a transition that does not exist) or ENOMEM. May wait for the peer's process: never
// under the lock.
int qp_move(struct qp *qp, const struct qp_move *m, unsigned what);

#endif

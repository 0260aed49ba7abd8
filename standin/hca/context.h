/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that programs hold. Each contains the public verbs structure and refers to an object of
 * the HCA. */
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
    struct channel events;      /* asynchronous events */
    struct verbs_context verbs; /* last member: its `context` is what the program sees */
};

struct hca_pd {
    struct ibv_pd pd;
    uint32_t number;
    struct hca_pd *parent; /* the protection domain of a parent domain */
    unsigned users;
};

struct hca_mr {
    struct ibv_mr mr;
    void *mapped; /* mapping of a dma-buf */
    size_t mapped_bytes;
    bool on_gpu; /* its range is in gpu/memory.h's list */
};

struct hca_cq {
    struct ibv_cq cq;
    struct cq *of;
    void *memory;
    size_t bytes;
    pthread_mutex_t lock;
    uint32_t consumer;
    uint32_t events; /* events received; sequence number of the next arm */
};

struct hca_srq {
    struct ibv_srq srq;
    struct srq *of;
    void *memory;
    size_t bytes;
    pthread_mutex_t lock;
    uint64_t *wr_ids;
    uint32_t max_sge, count;
    uint16_t head, tail; /* head and tail of the free list */
    uint16_t posted;
};

/* A verbs QP. The records of a request are stored at the index of its first block. */
struct hca_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex ex;
    };
    struct mlx5dv_qp_ex dv;
    struct qp *of;
    void *memory;
    size_t bytes;
    struct ibv_qp_cap cap;
    bool signal_all;
    struct ibv_qp_attr attributes; /* attributes as set by the program */
    pthread_mutex_t send_lock, receive_lock;
    /* Send queue. */
    uint16_t next;         /* next free block */
    uint32_t posted, done; /* request counts */
    uint64_t *send_ids;
    uint32_t *send_numbers; /* value of `posted` before each request */
    /* Receive queue. */
    uint16_t received_posted, received_done;
    uint64_t *receive_ids;
    /* The request that ibv_wr_*() functions build. */
    struct ibv_send_wr building;
    struct ibv_sge sges[32];
    uint8_t inline_data[1024];
    struct hca_ah *target;
    uint32_t target_qpn;
    uint64_t target_key;
    uint16_t next_before;
    uint32_t posted_before;
    int build_error;
    bool is_building;
};

struct hca_ah {
    struct ibv_ah ah;
    struct mlx5_wqe_av av;
};

struct hca_channel {
    struct ibv_comp_channel channel;
    struct channel pipe;
};

static inline struct hca_cq *cq_of(struct ibv_cq *cq)
{
    return HOLDER(cq, struct hca_cq, cq);
}

static inline struct hca_srq *srq_of(struct ibv_srq *srq)
{
    return HOLDER(srq, struct hca_srq, srq);
}

static inline struct hca_qp *qp_of(struct ibv_qp *qp)
{
    return (struct hca_qp *)qp;
}

/* Functions in the context's tables. */
int verbs_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a);
struct ibv_srq *verbs_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *a);
void verbs_fill_wr(struct hca_qp *q);
void srq_free_entry(struct hca_srq *s, uint16_t index);
/* queue_memory: zeroed pages that a forked child does not inherit. */
void *queue_memory(size_t bytes);

static inline struct hca_context *context_of(struct ibv_context *c)
{
    return HOLDER(c, struct hca_context, verbs.context);
}

static inline struct hca_pd *pd_of(struct ibv_pd *pd)
{
    return HOLDER(pd, struct hca_pd, pd);
}

/* verbs/device.c */
int device_number(struct ibv_device *device);
/* Describes the port as ibv_query_port() does. */
void port_describe(const struct device *d, struct ibv_port_attr *out);
void gid_of(const struct config *c, uint16_t lid, union ibv_gid *out);
unsigned gid_count(const struct device *d);
/* path_refusal: why a QP cannot connect from that GID to that address; NULL: it can. */
const char *path_refusal(const struct device *d, unsigned gid_index, uint32_t address,
                         uint32_t mtu);

/* Fills the function tables that inline functions of verbs.h call. */
void verbs_fill(struct hca_context *c);

/* objects.c: doorbell pages */
struct uar *uar_add(struct device *d);
/* The only queue that uses the page is in GPU memory: the register moves to the memory of the
 * engine's GPU, if it has space, and the program finds it at another address. */
void uar_move_to_gpu(struct uar *u);
void uar_remove(struct uar *u);

/* objects.c: completion queues */
struct cq *cq_add(struct device *d);
void cq_remove(struct cq *cq);

/* objects.c: a QP modification, as requested by ibv_modify_qp() or a DevX command. */
struct qp_modify {
    unsigned to; /* enum qp_state */
    uint32_t remote_qpn, receive_psn, send_psn;
    uint32_t remote;            /* address */
    uint32_t mtu;               /* path MTU in bytes */
    uint16_t source_port;       /* UDP source port; 0: ROCE_PORT */
    uint8_t access, access_set; /* MR_REMOTE_* flags, and a mask of those that are set */
    uint8_t max_reads, timeout, retry_count, rnr_retry, rnr_timer;
};
/* Bits of `what`: the groups of attributes to be set. */
enum {
    MODIFY_ACCESS = 1,
    MODIFY_TIMER = 2,
    MODIFY_PATH = 4,
    MODIFY_SEND = 8,
};
/* qp_modify: returns 0, EINVAL (no such state transition) or ENOMEM. It may wait for the peer's
 * process, so the caller must not hold the lock. */
int qp_modify(struct qp *qp, const struct qp_modify *m, unsigned what);

#endif

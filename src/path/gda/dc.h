/* SPDX-License-Identifier: Apache-2.0 */
/* DC queues of path gda (dynamically connected, an InfiniBand transport of mlx5 NICs). RC queues to
 * a PE take pinned memory. With more PEs than the limit of RC peers, a PE reaches the others by one
 * DC initiator per NIC, whose requests each name their target: the DC target of the peer's NIC.
 *
 *     dc.c       creates targets and initiators
 *     dc_post.c  posts requests of host threads, waits for them, and replaces an initiator that has
 *                failed
 *
 * Only threads of the host post to an initiator, with its lock held: device code gives requests to
 * a DC peer to the proxy. An initiator has one connection at a time. It begins a request to another
 * target when all earlier requests are complete. When a request fails, those behind it that name
 * other targets have therefore not begun, and are posted again to a new initiator. Those that name
 * the same target may have been executed, and are lost with the peer. */
#ifndef WEFT_PATH_GDA_DC_H
#define WEFT_PATH_GDA_DC_H

#include "path/gda/gda.h"

#include <stdlib.h>

enum {
    GDA_INITIATORS = 4, /* for each NIC */
    GDA_DC_SCRATCH = 8, /* blocks of the longest request and of the NOP behind it, a power of two */
    GDA_DC_LOST_BYTES = 320,
};

/* Requests to a PE that are lost. */
struct gda_dc_loss {
    struct gda_dc_loss *next;
    int pe;
    uint64_t from; /* the block of the first one */
    weft_status status;
    char sentence[GDA_DC_LOST_BYTES];
};

/* A DC initiator. Counts of blocks begin with the first block ever posted; the NIC
 * counts from block `start` on. */
struct gda_initiator {
    pthread_mutex_t lock;
    /* What gda.c uses of a queue: result slots, and `done`, which all threads may read. */
    struct weft_dev_gda_queue q;
    struct weft_dev_gda_ring ring;
    struct gda_qp qp;
    char *area; /* the memory of the queue, as in gda_layout_of() */
    struct mlx5dv_devx_umem *umem;
    struct ibv_mr *region;
    const char *completions;
    uint32_t *cq_record;
    uint64_t start, head; /* `head`: end of the posted blocks */
    uint32_t polled;      /* completion entries that have been read */
    int32_t *pes;         /* [depth] the PE that each block of the ring leads to */
    struct gda_dc_loss *losses;
    weft_status
        broken; /* It executes nothing any more: its port is down, or there is no new queue. */
    char sentence[GDA_DC_LOST_BYTES]; /* why */
    /* The caller composes a request here as for an RC queue. */
    struct weft_dev_gda_ring scratch;
    _Alignas(16) char blocks[GDA_DC_SCRATCH * WEFT_DEV_GDA_BLOCK];
};

/* The DC target of a NIC. */
struct gda_target {
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
};

struct gda_dc {
    int rc_peers;      /* most PEs that this one reaches by RC, without itself */
    uint64_t *keys;    /* [npes] access keys of the targets */
    uint32_t *numbers; /* [npes][count] and their numbers */
    uint64_t key;      /* access key of this PE's targets */
    uint32_t mtu;      /* the smallest of all PEs */
    struct gda_target targets[GDA_ADAPTERS_MOST];
    struct gda_initiator initiators[GDA_ADAPTERS_MOST * GDA_INITIATORS]; /* by NIC */
    pthread_mutex_t test_lock;
};

/* Whether the peer is reached by DC. RC peers are the nearest by number, in a ring of all PEs, so
 * both ends agree. */
static inline bool gda_is_dc_peer(const struct gda *gda, int pe)
{
    if (!gda->dc)
        return false;
    int npes = gda->world->npes, d = abs(pe - gda->world->pe);
    d = d < npes - d ? d : npes - d;
    return 2 * d > gda->dc->rc_peers;
}

/* The initiator for requests to PE pe through a NIC: always the same, so that these stay in order.
 * Those of several initiators run at the same time. */
static inline struct gda_initiator *gda_initiator_to(const struct gda *gda, uint32_t adapter,
                                                     int pe)
{
    return &gda->dc->initiators[adapter * GDA_INITIATORS + (uint32_t)pe % GDA_INITIATORS];
}

/* The limit of RC peers. */
static inline uint32_t gda_rc_limit(const struct gda *gda)
{
    return (uint32_t)(gda->dc ? gda->dc->rc_peers : gda->world->npes - 1);
}

/* The initiator with that queue; NULL: it is an RC queue. */
struct gda_initiator *gda_initiator_of(const struct gda *gda, const struct weft_dev_gda_queue *q);

/* ---------------------------------------------------------------------------------------- dc.c */

struct gda_dc *gda_create_dc(int npes, uint32_t count, int rc_peers);
weft_status gda_create_targets(struct gda *gda);
/* After the records of all PEs have been kept. */
weft_status gda_open_initiators(struct gda *gda);
void gda_destroy_dc(struct gda *gda);
void gda_fill_dc_record(const struct gda_dc *dc, uint32_t count, struct gda_record *record);
void gda_keep_dc_record(struct gda_dc *dc, uint32_t count, const struct gda_record *its, int pe);

/* Ends what peers do by DC through that NIC of this PE. */
void gda_close_target(struct gda *gda, uint32_t adapter);

/* Creates and connects the queue; its memory holds no requests then. */
weft_status gda_open_initiator_queue(const struct gda *gda, struct gda_initiator *initiator);

/* ----------------------------------------------------------------------------------- dc_post.c */

/* Takes the initiator's lock, and waits until the ring has space for a request to PE pe. The caller
 * composes the request in `scratch` at block *base, as for an RC queue, and then calls
 * gda_dc_publish(). On failure the lock is free. */
weft_status gda_dc_reserve(const struct gda *gda, uint32_t adapter, int pe, uint64_t *base);

/* Posts the composed request, and releases the lock. Returns the block at which it is complete. */
uint64_t gda_dc_publish(const struct gda *gda, uint32_t adapter, int pe);

/* Waits until the first `target` blocks are complete. Fails if requests to PE pe before that block
 * are lost. */
weft_status gda_dc_await(const struct gda *gda, struct gda_initiator *initiator, int pe,
                         uint64_t target, enum box_operation operation);

/* The NIC reaches no PE any more. The job ends if there are requests. */
void gda_dc_stop(struct gda *gda, uint32_t adapter, const char *cause);

/* Tests DC to PE pe through each NIC, unless that has been done. */
weft_status gda_await_dc_peer(const struct gda *gda, int pe);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* DC queues of path gda (dynamically connected, an InfiniBand transport of mlx5 NICs). RC queues to
 * a PE take pinned memory. With more PEs than the limit of RC peers, a PE reaches the others by one
 * DC initiator per NIC, whose requests each name their target: the DC target of the peer's NIC.
 *
 *     dc.c         creates targets and initiators
 *     dc_post.c    posts requests of host threads, and waits for them
 *     dc_test.c    tests the way to a peer at first use
 *     dc_replace.c replaces an initiator that has failed, without another path
 *     dc_move.c    with another path: the failover thread moves requests to it
 *     dc_device.c  initiators of device code, which has its own
 *
 * Threads of the host post to an initiator with its lock held. An initiator has one connection at a
 * time. It begins a request to another target when all earlier requests are complete. When a
 * request fails, those behind it that name other targets have therefore not begun, and are posted
 * again to a new initiator. Those that name the same target ("run") may have been executed. No NIC
 * counts what it has executed by DC, so this PE writes marks, sequence numbers in memory of the
 * peer: one before the first request of a run whose repetition could be seen, but for flags and
 * payloads of the library, and one behind each atomic. */
#ifndef WEFT_PATH_GDA_DC_H
#define WEFT_PATH_GDA_DC_H

#include "path/gda/gda.h"

#include <stdatomic.h>
#include <stdlib.h>

struct gda_failover;

enum {
    GDA_INITIATORS = 4, /* for each NIC */
    GDA_DC_SCRATCH = 8, /* blocks of the longest request and of the NOP behind it, a power of two */
    GDA_DC_MARK_BLOCKS = 2, /* blocks of a mark, at most; a request has up to two marks */
    GDA_DC_MARK_BYTES = 2,
    GDA_DC_MARK_FIRST = 1, /* what the test leaves in place of marks */
    GDA_DC_LOST_BYTES = 320,
};

/* How requests to a PE through a NIC are executed. ENDING: the failover thread executes those that
 * are posted. MOVED: it executes each one, and its caller waits. LOST: none. */
enum gda_dc_state { GDA_DC_WORKS, GDA_DC_ENDING, GDA_DC_MOVED, GDA_DC_LOST };

/* A request that a thread hands over to the failover thread. The thread keeps the initiator's
 * lock. */
enum gda_dc_handed { GDA_DC_NONE, GDA_DC_HANDED, GDA_DC_TAKEN, GDA_DC_EXECUTED };

/* An error completion. */
struct gda_dc_fault {
    uint64_t at; /* block of the request */
    unsigned syndrome, vendor;
};

/* Requests to a PE that are lost. */
struct gda_dc_loss {
    struct gda_dc_loss *next;
    int pe;
    uint64_t from; /* the block of the first one; 0: all later requests are lost too */
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
    bool marked;          /* the run of the last request has its first mark */
    bool failed;          /* `fault` has ended the queue, and it is to be replaced */
    bool closed;          /* there is no queue: the NIC has failed */
    struct gda_dc_fault fault;
    uint64_t closed_ns; /* time when the failover thread closed the queue */
    atomic_int handed;  /* enum gda_dc_handed */
    int handed_pe;
    weft_status handed_status;
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

/* DC initiators of device code. Those in GPU memory have their QPs and addresses in
 * gda->gpu_queues, and only counts here. */
struct gda_dc_device {
    bool cuda;      /* of kernels on the GPU; false: of simt */
    bool works;     /* false: one could not be created, and all wait for their destruction */
    uint32_t count; /* GDA_INITIATORS * queues_per_pe */
    struct weft_dev_gda_queue *queues;
    struct weft_dev_gda_target *targets; /* [npes][count of NICs] */
    size_t target_bytes;
    uint64_t *tested; /* [npes] For the GPU: 1: the entry of `targets` is valid. */
    struct gda_dc_device_part {
        struct gda_qp qp;
        char *area;
        struct mlx5dv_devx_umem *umem;
        struct ibv_mr *region;
        uint64_t *words; /* marks, then fillers */
        uint32_t *busy;
    } parts[];
};

struct gda_dc {
    int rc_peers;      /* most PEs that this one reaches by RC, without itself */
    uint64_t *keys;    /* [npes] access keys of the targets */
    uint32_t *numbers; /* [npes][count] and their numbers */
    uint64_t key;      /* access key of this PE's targets */
    uint32_t mtu;      /* the smallest of all PEs */
    struct gda_target targets[GDA_ADAPTERS_MOST];
    struct gda_initiator initiators[GDA_ADAPTERS_MOST * GDA_INITIATORS]; /* by NIC */
    atomic_uchar *pairs;                 /* [npes][count] enum gda_dc_state */
    atomic_uchar own[GDA_ADAPTERS_MOST]; /* enum gda_dc_state of the NIC, for all PEs */
    uint16_t *marks;                     /* [npes][count] the last mark */
    pthread_mutex_t test_lock;           /* also of `device` and `why_proxy` */
    struct gda_dc_device *device;        /* NULL: device code has not been used */
    char why_proxy[GDA_REFUSAL_BYTES];   /* why not; "": it has not been used */
    pthread_mutex_t loss_lock;           /* of all `losses` */
    /* The way that is being tested, since when. 0: none is. */
    atomic_ullong test_ns;
    int test_pe;
    uint32_t test_adapter;
};

/* What device code has queues to: all PEs and, in a job with DC, the groups of PEs that share
 * initiators. */
static inline int gda_device_links(const struct gda *gda)
{
    return gda->world->npes + (gda->dc ? GDA_INITIATORS : 0);
}

/* The initiators of kernels on the GPU; NULL: there are none. */
static inline struct gda_dc_device *gda_cuda_initiators(const struct gda *gda)
{
    struct gda_dc_device *device = gda->dc ? gda->dc->device : NULL;
    return device && device->works && device->cuda ? device : NULL;
}

/* Device-code queue i, as the host sees it, and its QP. */
static inline struct weft_dev_gda_queue *gda_device_queue(const struct gda *gda, uint32_t i)
{
    uint32_t first = gda_device_queue_count(gda);
    return i < first ? &gda->queues[gda_device_queue_index(gda, i)]
                     : &gda->dc->device->queues[i - first];
}

static inline const struct gda_qp *gda_device_qp(const struct gda *gda, uint32_t i)
{
    uint32_t first = gda_device_queue_count(gda);
    return i < first ? &gda->qps[gda_device_queue_index(gda, i)]
                     : &gda->dc->device->parts[i - first].qp;
}

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

static inline enum gda_dc_state gda_dc_state_of(const struct gda *gda, int pe, uint32_t adapter)
{
    const struct gda_dc *dc = gda->dc;
    unsigned own = atomic_load_explicit(&dc->own[adapter], memory_order_relaxed),
             pair = atomic_load_explicit(&dc->pairs[(size_t)pe * gda->count + adapter],
                                         memory_order_relaxed);
    return (enum gda_dc_state)(own > pair ? own : pair);
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

/* Posts the composed request, or has it executed if the way is MOVED, and releases the lock.
 * Returns the block at which it is complete. */
uint64_t gda_dc_publish(const struct gda *gda, uint32_t adapter, int pe);

/* Waits until the first `target` blocks are complete. Fails if requests to PE pe before that block
 * are lost. */
weft_status gda_dc_await(const struct gda *gda, struct gda_initiator *initiator, int pe,
                         uint64_t target, enum box_operation operation);

/* Reads new completion entries. Returns false at an error, which ends the queue. The caller has the
 * lock. */
bool gda_dc_read_completions(struct gda_initiator *initiator, struct gda_dc_fault *fault);

/* Whether a PE could see that a request, in the form of an RC queue, was executed twice: it is an
 * atomic, or an aligned write of one value, which the peer may have waited for, and changed
 * since. */
bool gda_dc_is_seen_twice(const void *request);

/* Whether such a request writes to mailboxes or areas in the system segment of PE pe (see struct
 * path_world): a flag, or what a flag behind it reports. */
bool gda_dc_is_of_library(const struct gda *gda, int pe, const void *request);

/* Whether it writes a flag, inline. Only this PE writes that flag, and a greater one each time, so
 * what the PE has shows whether it was executed. */
bool gda_dc_is_flag(const struct gda *gda, int pe, const void *request);

/* Writes the doorbell record, and rings the doorbell. */
void gda_dc_ring(struct gda_initiator *initiator);

/* Parts of a request in the ring: the segments of the whole, their blocks, and the segments of the
 * target's address. */
uint32_t gda_dc_segments(const void *request);
uint32_t gda_dc_blocks(uint32_t segments);
uint32_t gda_dc_address_segments(const struct gda *gda, uint32_t adapter, int pe);

static inline uint64_t gda_dc_done(const struct gda_initiator *initiator)
{
    return __atomic_load_n(&initiator->q.done, __ATOMIC_RELAXED);
}

static inline uint32_t gda_dc_adapter_of(const struct gda *gda,
                                         const struct gda_initiator *initiator)
{
    return (uint32_t)(initiator - gda->dc->initiators) / GDA_INITIATORS;
}

/* The address of the target of PE pe, in segments: WEFT_DEV_GDA_SEGMENT * 3 bytes, of which a
 * request has those of gda_dc_address_segments(). */
void gda_dc_write_address(const struct gda *gda, uint32_t adapter, int pe, void *segments);

/* --------------------------------------------------------------------------------- dc_device.c */

/* Whether device code of that target posts to DC peers itself. The first call creates its
 * initiators. */
bool gda_dc_has_device(struct gda *gda, bool cuda);
void gda_dc_close_device(struct gda *gda);
void gda_dc_fill_device(const struct gda *gda, struct weft_dev_gda *table);
/* The way to PE pe is tested. The caller holds test_lock. */
void gda_dc_publish_device(struct gda *gda, int pe);
/* Waits until all that device code has posted by DC is complete. */
weft_status gda_dc_drain_device(const struct gda *gda);

/* ----------------------------------------------------------------------------------- dc_test.c */

/* Tests DC to PE pe through each NIC, unless that has been done. */
weft_status gda_await_dc_peer(const struct gda *gda, int pe);

/* The place of the mark for a NIC at PE pe. */
struct weft_dev_gda_place gda_dc_mark_place(const struct gda *gda, int pe, uint32_t adapter);

/* Reports for `weft explain --job` how requests to PE pe go. The caller holds test_lock. */
void gda_dc_report_peer(const struct gda *gda, int pe);

/* Whether PE pe has tested the way to this PE. */
bool gda_dc_is_used_by(const struct gda *gda, int pe);

/* -------------------------------------------------------------------------------- dc_replace.c */

/* The requests that are not complete, in the form of the ring, and the PEs of their blocks. */
struct gda_dc_pending {
    uint32_t count; /* blocks */
    char *blocks;
    int32_t *pes;
};
weft_status gda_dc_copy_pending(const struct gda_initiator *initiator, uint64_t from,
                                struct gda_dc_pending *pending);
void gda_dc_free_pending(struct gda_dc_pending *pending);

/* Opens a new queue in the same memory, and posts what is pending to it from block `from` on, but
 * NOPs in place of requests to PE `without`. */
weft_status gda_dc_reopen(const struct gda *gda, struct gda_initiator *initiator, uint64_t from,
                          const struct gda_dc_pending *pending, int without);

/* Replaces an initiator that has failed, where no other path takes over: requests to the PE of the
 * first one are lost. A failure of that ends the job. */
weft_status gda_dc_replace(struct gda *gda, struct gda_initiator *initiator,
                           const struct gda_dc_fault *fault);

/* Notes that requests to PE pe from block `from` on are lost, with this thread's last error. */
weft_status gda_dc_note_loss(struct gda *gda, struct gda_initiator *initiator, int pe,
                             uint64_t from, weft_status why);

/* Fails if requests to PE pe before block `target` are lost. */
weft_status gda_dc_find_loss(const struct gda *gda, const struct gda_initiator *initiator, int pe,
                             uint64_t target);

/* Fails with the launcher's report that PE pe has ended, or with the fault of the NIC. */
weft_status gda_dc_explain_fault(const struct gda *gda, const struct gda_initiator *initiator,
                                 int pe, const struct gda_dc_fault *fault);

/* ----------------------------------------------------------------------------------- dc_move.c */

/* The NIC, of this PE or of PE pe, reaches no PE any more. */
void gda_dc_stop(struct gda_failover *f, uint32_t adapter, const char *cause);
void gda_dc_stop_pair(struct gda_failover *f, int pe, uint32_t adapter, const char *cause);

/* Reports to PEs that use this PE's target of the NIC that it executes nothing any more. */
void gda_dc_report_stopped(struct gda_failover *f, uint32_t adapter);

/* Executes what is to be executed. Returns whether there was something. Failover thread only. */
bool gda_dc_advance(struct gda_failover *f);

/* Appends what replaces NICs whose way to PE pe has failed, if there are any. */
void gda_dc_describe_failed(const struct gda *gda, int pe, char *text, size_t bytes);

/* Returns the first NIC from `first` on whose way to PE pe works; gda->count: none does. */
uint32_t gda_dc_working_adapter(const struct gda *gda, int pe, uint32_t first);

#endif

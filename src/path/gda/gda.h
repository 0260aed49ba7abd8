/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of path gda: send queues of an mlx5 adapter in memory of this PE, of which each has
 * one peer. Whoever has an operation stores the request itself, rings the adapter's doorbell and
 * sees the completion (weft/device/gda_queue.h): device code by queues of its own
 * (weft/device/gda.h), the host by one more to each peer (gda.c). Both use the same requests, so
 * what they cost can be compared on one wire.
 *
 * A PE uses one adapter or several, all PEs of a job as many: adapter a here and adapter a there
 * are joined by queues of their own, and have keys of their own. Atomics of one adapter are atomic
 * with each other, and with nothing else: those on one word go to the same adapter of its PE,
 * whoever gives them (weft_dev_gda_word()). */
#ifndef WEFT_PATH_GDA_GDA_H
#define WEFT_PATH_GDA_GDA_H

#include "driver/mlx5.h"
#include "path/gda/pick.h"
#include "path/gda/record.h"
#include "path/path.h"

#include <weft/device/gda_queue.h>
#include <weft/device/state.h>

#include <pthread.h>

/* WEFT_TEST_GDA: memory of the host has what GPU memory has, for tests. */
enum { GDA_TEST_RELAXED = 1, GDA_TEST_APART = 2 };

enum {
    GDA_PORT = 1,
    GDA_PAGE = 4096,
    GDA_NAME_BYTES = 32,
    GDA_BOUNCES = 16,            /* pieces of memory that is not registered, under way */
    GDA_BOUNCE_BYTES = 64 << 10, /* of each */
};

/* ---------------------------------------------------------- open.c, look.c: the adapters */

struct gda_adapter {
    const struct mlx5 *lib;
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t pd_number, eq_number;
    char name[GDA_NAME_BYTES];
    struct ibv_port_attr port;
    union ibv_gid gid;
    int gid_index;
    bool ethernet;         /* RoCE: peers are found by GID, else by LID */
    bool atomics_with_cpu; /* atomics of the adapter are atomic with those of CPUs */
    uint8_t log_reads;     /* reads and atomics under way in one queue, as a power of 2 */
    bool may_reorder;      /* packets of one queue may arrive out of their order, by several ways */
};

/* What look() has found; join() takes it. */
struct gda_adapters {
    struct mlx5 lib;
    uint32_t count;
    struct gda_adapter
        one[GDA_CANDIDATES]; /* those that could be used, until they are shared out */
};

/* Opens an adapter and looks whether it has all that is needed: what it lacks, "" = nothing; then
 * it is open. */
void gda_look_at(struct gda_adapter *adapter, struct ibv_device *listed, char *lacks, size_t bytes);
void gda_close_adapter(struct gda_adapter *adapter);

/* Queues of device code to each PE: WEFT_GDA_QUEUES, and one by each adapter at least. */
uint32_t gda_queues_each(uint32_t adapters);

/* The adapters that this PE uses; collective. *result NULL: none; `lacks` says what is missing, of
 * each adapter all at once. `has`: which they are. A failure is one of the configuration. */
weft_status gda_find(const struct path_world *world, struct gda_adapters **result, char *lacks,
                     size_t lacks_bytes, char *has, size_t has_bytes);
void gda_drop_adapters(void *adapters);
/* Atomics of all of them are atomic with those of CPUs. */
bool gda_atomics_with_cpu(const struct gda_adapters *adapters);

/* --------------------------------------------------------------------------- what a PE keeps */

/* One queue as the adapter has it. */
struct gda_link {
    const struct gda_adapter *adapter;
    struct mlx5dv_devx_uar *uar;
    struct mlx5dv_devx_obj *cq, *qp;
    uint32_t cq_number;
    uint32_t umem; /* that its memory is in */
};

/* Where a piece of memory that is not registered is on its way. */
struct gda_bounce {
    struct weft_dev_gda_queue *q;
    uint64_t end; /* free when so much of the queue is complete */
};

struct gda {
    const struct path_world *world;
    struct gda_adapters *adapters;
    uint32_t count; /* of adapters */
    uint32_t each;  /* queues of device code to each PE; the host has one more by each adapter */
    uint32_t depth; /* blocks */
    char *area;     /* rings, completions, records and results of all queues, */
    size_t area_bytes, queue_bytes;
    struct mlx5dv_devx_umem *area_umems[GDA_ADAPTERS_MOST]; /* as the adapters' own, */
    struct ibv_mr *area_regions[GDA_ADAPTERS_MOST];         /* and as memory that results go to */
    struct gda_link *links; /* [npes * (each + count)] in the order of `queues` */
    struct weft_dev_gda_queue
        *queues; /* [npes * each] of device code, then the host's [npes * count] */
    uint64_t *marks;
    uint32_t *busy;
    uint64_t *used; /* bit per queue of device code */

    uint32_t chunk_bits, chunks; /* registered pieces of all segments together */
    uint32_t first[SEG_COUNT];
    struct ibv_mr **regions; /* [count][chunks], and once more in relaxed order */
    uint32_t *local_keys;    /* [count][chunks] */
    uint32_t *remote_keys;   /* [count][npes][chunks] in strict order */
    uint32_t *data_keys;     /* the same in relaxed order; remote_keys where there are none */
    bool relaxed;            /* of the segments there are; struct gda_gpu tells of the GPU heap */
    uint64_t *seeds;         /* [npes] of the numbers of first packets, random */
    uint64_t *bases;         /* [npes][SEG_COUNT] */
    struct gda_address *addresses; /* [npes][count] */
    struct gda_gpu *gpu;           /* NULL: the job has no GPU memory */
    struct gda_simt *simt; /* what device code is told; NULL: there is none of that target */
    struct gda_cuda *cuda;
    struct gda_far *far; /* NULL: queues of device code on a GPU are in memory of the host */

    pthread_mutex_t lock; /* of the bounces */
    char *bounce;
    struct ibv_mr *bounce_regions[GDA_ADAPTERS_MOST];
    struct gda_bounce bounces[GDA_BOUNCES];
    uint32_t next_bounce;
};

static inline uint32_t gda_queue_count(const struct gda *gda)
{
    return (uint32_t)gda->world->npes * (gda->each + gda->count);
}

/* Queue k < each of device code to PE pe, or the host's by adapter a for k = each + a. */
static inline uint32_t gda_queue_number(const struct gda *gda, int pe, uint32_t k)
{
    return k < gda->each
               ? (uint32_t)pe * gda->each + k
               : (uint32_t)gda->world->npes * gda->each + (uint32_t)pe * gda->count + k - gda->each;
}

/* Which adapter queue k of a PE is at, at both ends. */
static inline uint32_t gda_adapter_of(const struct gda *gda, uint32_t k)
{
    return (k < gda->each ? k : k - gda->each) % gda->count;
}

/* Which adapter carries out what changes that word: that of the queue which device code takes. */
static inline uint32_t gda_adapter_of_word(const struct gda *gda, uint64_t address)
{
    return weft_dev_gda_word(address) % gda->each % gda->count;
}

/* Where the keys of a PE's chunks at an adapter begin in a table of them. */
static inline size_t gda_keys_at(const struct gda *gda, uint32_t adapter, int pe)
{
    return ((size_t)adapter * (size_t)gda->world->npes + (size_t)pe) * gda->chunks;
}

/* ------------------------------------------------- join.c: what a PE keeps, made and unmade */

/* Collective. */
weft_status gda_join(const struct path_world *world, struct gda_adapters *adapters,
                     struct gda **result);
void gda_leave(struct gda *gda);

/* ------------------------------------------- device.c, cuda.c: what device code is told
 *
 * Where the parts of struct weft_dev_gda lie: of simt in host segments, of cuda in the GPU's as
 * well. */

/* Entries of the path's table: see path.h. */
weft_status gda_tell_device(struct path_common *common, bool cuda, struct weft_dev *dev);
weft_status gda_settle_device(struct path_common *common);
void gda_name_queue(const struct path_common *common, int pe, uint64_t queue, char *text,
                    size_t bytes);
void gda_free_simt(struct gda_simt *simt);

/* Makes what device code of cuda needs beside its tables: the queues where the GPU reaches them,
 * and their doorbells. WEFT_OK and gda->cuda NULL: the GPU cannot, and `lacks` says why. */
weft_status gda_open_cuda(struct gda *gda, char *lacks, size_t bytes);
void gda_close_cuda(struct gda *gda);
weft_status gda_tell_cuda(struct gda *gda, struct weft_dev *dev);
weft_status gda_tell_keys(struct gda *gda); /* once more, when there are new ones */
/* Counts of all queues as device code has them, into gda->queues. */
weft_status gda_read_cuda(struct gda *gda);
void gda_describe_cuda(const struct gda *gda, char *text, size_t bytes);

/* --------------------------------------------------------------------- bell.c: doorbells
 *
 * Where the GPU may not write a register of the adapter, it writes a word of memory in its place,
 * and a thread passes on what it finds there. */
struct gda_bell;
weft_status gda_bell_start(struct gda_bell **bell, uint32_t count);
/* Before anything is written to `word`, which is zero. */
void gda_bell_add(struct gda_bell *bell, const uint64_t *word, uint64_t *doorbell);
void gda_bell_stop(struct gda_bell *bell);

/* ------------------------------------------------------------------ gpu.c: GPU memory's keys */

enum { GDA_WHY_BYTES = 240 };

/* Of the windows of the GPU heap, whose memory comes in allocations that are registered whole;
 * every unit of one has its key. */
struct gda_gpu {
    uint32_t unit_bits, units;
    uint64_t *bases;       /* [npes] where the windows begin */
    uint32_t *local_keys;  /* [count][units] */
    uint32_t *remote_keys; /* [count][npes][units] in strict order */
    uint32_t *data_keys;   /* the same in relaxed order; remote_keys where there are none */
    struct gda_region {
        size_t offset, bytes;
        struct ibv_mr *mrs[GDA_ADAPTERS_MOST];
        struct ibv_mr *data[GDA_ADAPTERS_MOST]; /* once more, in relaxed order */
    } * regions;
    size_t region_count;
    bool by_address;               /* some by its address, for want of a dma-buf */
    bool flushed;                  /* what the adapter writes there is visible after a flush */
    bool dumps;                    /* of what kernels read there, after a DUMP */
    char why_host[GDA_WHY_BYTES];  /* its queues are not in GPU memory; "" = they are */
    char why_proxy[GDA_WHY_BYTES]; /* device code cannot give requests itself; "" = it can */
};

/* Entry of the path's table: see path.h. */
weft_status gda_gpu_memory(struct path_common *common);
void gda_free_gpu(struct gda *gda);
weft_status gda_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                       size_t bytes);

/* What an adapter has written into GPU memory here is visible. */
weft_status gda_flush(const struct gda *gda);

/* ------------------------------------------------------------------- far.c: queues in GPU memory
 *
 * For device code on a GPU: beside those of `queues`, in their order, with everything that the
 * adapter reads and writes in the GPU's memory. GPU memory has then keys of relaxed order for data
 * besides. */
struct gda_far {
    struct mlx5dv_devx_umem *umems[GDA_ADAPTERS_MOST];
    struct ibv_mr *regions[GDA_ADAPTERS_MOST];
    uint64_t area; /* in the GPU's memory */
    size_t bytes;
    struct gda_link *links;            /* [npes * each] */
    struct weft_dev_gda_queue *queues; /* [npes * each] with addresses of the GPU */
};

/* Collective. gda->far stays NULL, and `lacks` says why, where one of the PEs cannot have them. */
weft_status gda_open_far(struct gda *gda, char *lacks, size_t bytes);
void gda_close_far(struct gda *gda);
/* Waits until a queue of device code is complete to `target`; its counts are in gda->queues. */
weft_status gda_await_far(const struct gda *gda, uint32_t number, uint64_t target);

/* ---------------------------------------------------------------- devx.c: commands of DevX */

/* What the adapter cannot do that is needed, into `lacks`; "" = nothing. */
void gda_query_caps(const struct gda_adapter *adapter, char *lacks, size_t bytes);
/* Whether the network may take several ways for the packets of one queue; true also where that
 * cannot be asked. */
bool gda_may_reorder(const struct gda_adapter *adapter);
weft_status gda_create_cq(struct gda_link *link, uint32_t depth, size_t ring_at, size_t record_at);
weft_status gda_create_qp(struct gda_link *link, uint32_t depth, size_t ring_at, size_t record_at,
                          uint32_t *number);

/* Two ends of a connection: this one's, and the peer's. */
struct gda_ends {
    uint32_t number, peer_number; /* of the queue pairs */
    uint32_t psn, peer_psn;       /* of the first packet that each sends */
    uint32_t sport;               /* of the UDP packets, for RoCE */
};

/* Through all states to where requests may be sent. */
weft_status gda_connect_qp(const struct gda_link *link, const struct gda_ends *ends,
                           const struct gda_address *peer);

/* ------------------------------------------------- connect.c: queues, and those of the peers */

/* Where the parts of one queue are in an area. */
struct gda_parts {
    size_t ring, completions, page, results, bytes;
};
struct gda_parts gda_parts_of(const struct gda *gda, uint32_t number);
/* Objects of the adapter for a queue whose memory is ready. */
weft_status gda_make_queue(struct gda *gda, struct gda_link *link, struct weft_dev_gda_queue *q,
                           const struct gda_parts *at, char *area);
void gda_free_link(struct gda_link *link);
struct gda_ends gda_ends_of(const struct gda *gda, uint32_t mine, int pe, uint32_t its);
weft_status gda_make_queues(struct gda *gda);
weft_status gda_connect(struct gda *gda); /* collective */
/* What a PE has told cannot be true. */
weft_status gda_refuse(int pe, const char *fault);
void gda_free_queues(struct gda *gda);

/* --------------------------------------------------------------------- memory.c: registration */

weft_status gda_register_segments(struct gda *gda);
void gda_free_memory(struct gda *gda);

/* The address of an offset of a segment at its PE. */
uint64_t gda_address_of(const struct gda *gda, struct remote at);

/* The same with the key that a request by that adapter has; *bytes is cut where another key
 * begins. */
struct weft_dev_gda_place gda_there(const struct gda *gda, uint32_t adapter, struct remote at,
                                    size_t *bytes);

/* The key of relaxed order there, for data alone; *open: there is one, and what goes by it has to
 * be flushed. */
uint32_t gda_data_key(const struct gda *gda, uint32_t adapter, struct remote at, bool *open);

/* The same of own memory, the GPU's too; false: it is not registered. */
bool gda_here(const struct gda *gda, uint32_t adapter, const void *local, size_t *bytes,
              struct weft_dev_gda_place *at);

/* --------------------------------------------------------------------------- wait.c: waits */

/* Gives a read of the peer's memory to a queue of the host or of simt, behind which all that it
 * wrote there is in its place; complete when `*end` blocks are. */
weft_status gda_flush_queue(const struct gda *gda, struct weft_dev_gda_queue *q, int pe,
                            uint32_t adapter, uint64_t *end);

/* Flags of a request that is to be carried out behind all before it. */
uint32_t gda_ordered(const struct gda *gda);

/* Waits until `target` blocks of a queue are complete. */
weft_status gda_await(const struct gda *gda, struct weft_dev_gda_queue *q, int pe, uint64_t target,
                      enum box_operation operation);

#endif

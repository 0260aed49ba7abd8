/* SPDX-License-Identifier: Apache-2.0 */
/* Internal interface of path gda. A PE has send queues of an mlx5 NIC in its own memory. Each queue
 * is connected to one peer. The thread that issues an operation writes the work queue element (WQE)
 * itself, rings the NIC's doorbell and polls the completion queue (weft/device/gda_queue.h). Device
 * code has its own queues (weft/device/gda.h); the host has one more queue to each peer (gda.c).
 * Both use the same WQEs, so their costs can be compared on one link.
 *
 * A PE uses one NIC or several, and all PEs of a job use the same number. NIC a of one PE is
 * connected to NIC a of the other by its own queues, and has its own memory keys. A NIC's atomics
 * are atomic only with each other. All atomics on one word therefore go through the same NIC of its
 * PE, whichever PE issues them (weft_dev_gda_word()). */
#ifndef WEFT_PATH_GDA_GDA_H
#define WEFT_PATH_GDA_GDA_H

#include "driver/mlx5.h"
#include "path/gda/pick.h"
#include "path/gda/record.h"
#include "path/path.h"

#include <weft/device/gda_queue.h>
#include <weft/device/state.h>

#include <pthread.h>
#include <stdatomic.h>

/* Bits of WEFT_TEST_GDA: host memory behaves like GPU memory, for tests. RELAXED: host memory also
 * has relaxed-ordering keys. APART: a get ends with a DUMP. */
enum { GDA_TEST_RELAXED = 1, GDA_TEST_APART = 2 };

/* Values of WEFT_GDA_DOORBELL: who rings the doorbell. */
enum { GDA_RING_AUTO, GDA_RING_GPU, GDA_RING_CPU };

enum {
    GDA_PORT = 1,
    GDA_PAGE = 4096,
    GDA_HOP_LIMIT = 64,
    GDA_NAME_BYTES = 32,
    GDA_BOUNCES = 16,            /* bounce buffers for local memory that is not registered */
    GDA_BOUNCE_BYTES = 64 << 10, /* bytes of each bounce buffer */
    GDA_QUEUES_MOST = 64,        /* WEFT_GDA_QUEUES, at most */
    GDA_QUEUES_TO_PE_MOST = GDA_QUEUES_MOST + GDA_ADAPTERS_MOST,
    GDA_REFUSAL_BYTES = 200, /* bytes of a text that says why a NIC has refused a queue */
    GDA_COPY_STREAM = 3,     /* internal stream of the GPU for copies; any would do */
};

/* ------------------------------------------------------------------------- open.c, look.c: NICs */

struct gda_adapter {
    const struct mlx5 *lib;
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t pd_number, eq_number;
    char name[GDA_NAME_BYTES];
    struct ibv_port_attr port;
    uint32_t mbps; /* of the port; 0: unknown */
    union ibv_gid gid;
    int gid_index;
    bool ethernet;         /* RoCE: peers are addressed by GID; otherwise by LID. */
    bool atomics_with_cpu; /* NIC atomics are atomic with those of CPUs */
    bool no_atomics;       /* the NIC lacks some of the atomics of this path: it executes none */
    bool dc;               /* the NIC has DC queues */
    bool short_addresses;  /* A DC request names its target in 16 bytes instead of 48. */
    /* log2 of the RDMA reads and atomics that may be outstanding on one queue. */
    uint8_t log_reads;
    /* Packets of one queue may take several routes and arrive out of order. */
    bool may_reorder;
};

/* The NICs that path_ops.probe found. path_ops.join takes ownership of them. */
struct gda_adapters {
    struct mlx5 lib;
    uint32_t count;
    bool atomics_with_cpu; /* the atomics of the NICs of all PEs are atomic with those of CPUs */
    bool no_atomics;       /* a NIC of some PE has no atomics: no NIC executes any */
    bool dc;               /* the NICs of all PEs have DC queues */
    /* The usable NICs; after gda_find_adapters(), only those of this PE. */
    struct gda_adapter one[GDA_CANDIDATES];
};

/* Opens a NIC and checks everything that the path needs. `lacks` receives a list of what is
 * missing; "" = nothing is missing, and the NIC is open. */
void gda_probe_adapter(struct gda_adapter *adapter, struct ibv_device *listed, char *lacks,
                       size_t bytes);

/* The rate of a port in Mbit/s; 0: unknown. */
uint32_t gda_port_mbps(const struct ibv_port_attr *port);
void gda_close_adapter(struct gda_adapter *adapter);

/* Returns the queues of device code to each of `npes` PEs: WEFT_GDA_QUEUES, but at least one per
 * NIC. */
uint32_t gda_queues_each(uint32_t adapters, int npes);

/* Finds the NICs that this PE uses; collective. *result is NULL if there is none; `lacks` then says
 * what is missing of each NIC. `has` receives the names of the chosen NICs. A failure means that
 * the configuration is wrong. */
/* Returns the number of PEs that this one reaches by RC if the NICs have DC queues. */
int gda_rc_peers(const struct path_world *world, uint32_t adapters);

weft_status gda_find_adapters(const struct path_world *world, struct gda_adapters **result,
                              char *lacks, size_t lacks_bytes, char *has, size_t has_bytes);
void gda_drop_adapters(void *adapters);

/* ------------------------------------------------------------------ state of path gda in one PE */

/* The DevX objects of one queue. */
struct gda_qp {
    const struct gda_adapter *adapter;
    struct mlx5dv_devx_uar *uar;
    struct mlx5dv_devx_obj *cq, *qp;
    uint32_t cq_number;
    uint32_t umem; /* id of the umem that contains the queue's memory */
    bool dc;       /* it is a DC initiator */
    bool entries;  /* its completion queue has an entry for each request, and is not collapsed */
    bool absent;   /* the NIC has refused it: see gda_describe_dead_link() */
};

/* Whether a PE can use its queues to a peer. Beyond WEFT_TEST_GDA_EAGER PEs they are created and
 * connected when one of the two first uses them: see first_use.c. */
enum gda_link {
    GDA_LINK_NONE,
    GDA_LINK_OFFERED,   /* the queues exist, and their numbers are in the mail of the peer */
    GDA_LINK_CONNECTED, /* they are connected to the peer's */
    GDA_LINK_TESTED,    /* they are being tested */
    GDA_LINK_UP,
    GDA_LINK_DC, /* the peer is reached by the DC queues, which are tested */
};

/* The queues' memory for some consecutive peers, registered with each NIC. */
struct gda_slab {
    struct gda_slab *next;
    /* As umem, and as memory region for the results of reads and atomics. */
    struct mlx5dv_devx_umem *umems[GDA_ADAPTERS_MOST];
    struct ibv_mr *regions[GDA_ADAPTERS_MOST];
};

/* One bounce buffer. */
struct gda_bounce {
    struct weft_dev_gda_queue *q;
    uint64_t end; /* the buffer is free when this many WQE blocks of the queue are complete */
};

struct gda {
    const struct path_world *world;
    struct gda_adapters *adapters;
    uint32_t count; /* NICs */
    /* Device-code queues per peer. The host has `count` more, one per NIC. */
    uint32_t queues_per_pe;
    enum path_sharing sharing; /* how blocks share the device-code queues to a PE */
    uint32_t depth;            /* length of a send queue in blocks of 64 bytes */
    bool eager;                /* all queues are connected when the job begins */
    struct gda_dc *dc;         /* NULL: all PEs are reached by RC queues */
    atomic_bool dc_lost;       /* requests of a DC queue are lost */
    atomic_uchar *links;       /* [npes] enum gda_link */
    /* Host memory of all queues: send rings, completion queues, doorbell records, results. Like the
     * arrays below it takes no memory before a queue is created. */
    char *area;
    size_t area_bytes, queue_bytes;
    struct gda_slab *slabs;
    struct gda_qp *qps; /* [npes][queues_per_pe + count] in the order of `queues` */
    /* [npes][queues_per_pe + count] the device-code queues to a PE, then those of the host */
    struct weft_dev_gda_queue *queues;
    /* [npes] address of the device-code queues to a PE, for target simt; 0: not connected. Then the
     * DC initiators of each group of PEs, see struct weft_dev_gda. */
    uint64_t *device_queues;
    /* Memory by which device code asks this PE for something; a GPU can write it. */
    char *requests;
    size_t requests_bytes;
    uint32_t *alarm; /* there: enum weft_dev_gda_alarm */
    uint8_t *wanted; /* [npes] there: 1: the queues to the PE are to be connected */
    struct weft_dev_gda_queue *failed; /* [queues_per_pe] see struct weft_dev_gda */
    uint64_t *marks;   /* [queues][depth / 64] one bit per block: stored and not yet published */
    uint64_t *fillers; /* [queues][depth / 64] one bit per block: it begins no message */
    uint32_t *busy;    /* [queues][depth] 1: the result slot of the block is in use */
    uint64_t *used;    /* One bit per device-code queue: it has been used. */

    /* log2 of the bytes of a chunk, and the number of chunks of all segments. A chunk is one memory
     * region. */
    uint32_t chunk_bits, chunks;
    uint32_t first[SEG_COUNT]; /* first chunk of each segment */
    struct ibv_mr **regions;   /* [count][chunks], then as many again with relaxed ordering */
    uint32_t *local_keys;      /* [count][chunks] */
    uint32_t *remote_keys;     /* [count][npes][chunks] for strictly ordered access */
    /* [count][npes][chunks] with relaxed ordering; equals remote_keys if there are none. */
    uint32_t *data_keys;
    /* The segments have relaxed-ordering keys. For the GPU heap see struct gda_gpu. */
    bool relaxed;
    uint64_t *seeds;               /* [npes] random seeds of the first PSNs */
    uint64_t *bases;               /* [npes][SEG_COUNT] addresses of the segments at their PE */
    struct gda_address *addresses; /* [npes][count] addresses of the NICs */
    struct gda_gpu *gpu;           /* NULL if the job has no GPU memory */
    struct gda_simt *simt;         /* Tables for device code of target simt; NULL before it asks. */
    struct gda_cuda *cuda;
    /* NULL if the device-code queues of a GPU are in host memory. */
    struct gda_gpu_queues *gpu_queues;

    /* Held while the device code of the GPU gets its tables, or its part of a link. */
    pthread_mutex_t cuda_lock;

    struct gda_failover *failover;   /* NULL: a failed queue ends the job */
    bool some_failed;                /* a queue has failed */
    char no_loop[GDA_REFUSAL_BYTES]; /* why there are no queues from this PE to itself; "": there
                                        are */

    pthread_mutex_t lock; /* protects the bounce buffers */
    char *bounce;
    struct ibv_mr *bounce_regions[GDA_ADAPTERS_MOST];
    struct gda_bounce bounces[GDA_BOUNCES];
    uint32_t next_bounce;
};

/* Queues to one peer. */
static inline uint32_t gda_queues_to_pe(const struct gda *gda)
{
    return gda->queues_per_pe + gda->count;
}

static inline uint32_t gda_queue_count(const struct gda *gda)
{
    return (uint32_t)gda->world->npes * gda_queues_to_pe(gda);
}

/* Returns the index of a queue in gda->queues: for k < queues_per_pe, device-code queue k to PE pe;
 * for k = queues_per_pe + a, the host queue to PE pe through NIC a. */
static inline uint32_t gda_queue_index(const struct gda *gda, int pe, uint32_t k)
{
    return (uint32_t)pe * gda_queues_to_pe(gda) + k;
}

/* Acquire: the queues are complete. */
static inline enum gda_link gda_link_of(const struct gda *gda, int pe)
{
    return (enum gda_link)atomic_load_explicit(&gda->links[pe], memory_order_acquire);
}

/* Whether the queues to a PE are connected; in an eager job they exist at least. */
static inline bool gda_is_linked(const struct gda *gda, int pe)
{
    return gda->eager || gda_link_of(gda, pe) == GDA_LINK_UP;
}

/* Returns the number of device-code queues to all PEs, and device-code queue i of them, in the
 * order [npes][queues_per_pe]. DC initiators of device code follow, as if they led to further
 * PEs: see gda_device_links(). */
static inline uint32_t gda_device_queue_count(const struct gda *gda)
{
    return (uint32_t)gda->world->npes * gda->queues_per_pe;
}

static inline uint32_t gda_device_queue_index(const struct gda *gda, uint32_t i)
{
    return gda_queue_index(gda, (int)(i / gda->queues_per_pe), i % gda->queues_per_pe);
}

/* Returns the NIC of queue k. It is the same at both ends. */
static inline uint32_t gda_adapter_of(const struct gda *gda, uint32_t k)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there are queues and adapters */
    return (k < gda->queues_per_pe ? k : k - gda->queues_per_pe) % gda->count;
}

/* Returns the NIC that executes atomics on that word: the NIC of the queue that device code
 * uses. */
static inline uint32_t gda_adapter_of_word(const struct gda *gda, uint64_t address)
{
    return weft_dev_gda_word(address) % gda->queues_per_pe % gda->count;
}

/* Returns the index of a PE's first key for a NIC in remote_keys and data_keys. */
static inline size_t gda_key_index(const struct gda *gda, uint32_t adapter, int pe)
{
    return ((size_t)adapter * (size_t)gda->world->npes + (size_t)pe) * gda->chunks;
}

/* ----------------------------------------------- join.c: creation and destruction of struct gda */

/* Creates struct gda of this PE; collective. It takes ownership of `adapters`. */
weft_status gda_create(const struct path_world *world, struct gda_adapters *adapters,
                       struct gda **result);
void gda_destroy(struct gda *gda);

/* -------------------------------------------------------- device.c, cuda.c: tables for device code
 *
 * The tables hold the addresses of each part of struct weft_dev_gda: host segments for target simt,
 * and the GPU's memory as well for target cuda. */

/* Entries of the table of path operations: see path.h. */
weft_status gda_write_device_table(struct path_common *common, bool cuda, struct weft_dev *dev);
weft_status gda_drain_device(struct path_common *common);
weft_status gda_share_queues(struct path_common *common, enum path_sharing sharing,
                             struct weft_dev *dev, int *blocks);
void gda_name_queue(const struct path_common *common, int pe, uint64_t queue, char *text,
                    size_t bytes);
void gda_free_simt(struct gda_simt *simt);

/* How device code shares the queues to a PE now. */
struct weft_dev_gda_sharing gda_sharing(const struct gda *gda);

/* Gives the GPU access to the queues that are connected, and to their doorbells. If the GPU cannot
 * use them, returns WEFT_OK with gda->cuda NULL, and `lacks` says why. */
weft_status gda_open_cuda(struct gda *gda, char *lacks, size_t bytes);
void gda_close_cuda(struct gda *gda);
/* The same for the queues to PE pe, which are connected now; device code that has reserved blocks
 * there goes on. gda->cuda may be NULL. The caller holds gda->cuda_lock. */
weft_status gda_open_cuda_link(struct gda *gda, int pe);
/* The same for the DC initiators of device code. */
weft_status gda_open_cuda_initiators(struct gda *gda);
/* Kernels may post to PE pe by DC: writes its entries of gda->dc->device to the GPU. The caller
 * holds gda->cuda_lock. */
weft_status gda_write_cuda_target(struct gda *gda, int pe);
weft_status gda_write_cuda_table(struct gda *gda, struct weft_dev *dev);
weft_status gda_write_cuda_keys(struct gda *gda); /* repeated when there are new keys */
/* Copies the counts of all device-code queues from the GPU, see gda_device_queue(). */
weft_status gda_read_cuda_counts(struct gda *gda);
void gda_describe_cuda(const struct gda *gda, char *text, size_t bytes);

/* The same of one queue: the blocks that are known to be complete, and `counted`. */
weft_status gda_read_cuda_queue(const struct gda *gda, uint32_t i, uint64_t *done,
                                uint64_t *counted);

/* ----------------------------------------------------------------------- failover.c: see there */

/* Entry of the table of path operations: see path.h. */
weft_status gda_begin(struct path_common *common);

/* See struct path_ops. */
size_t gda_peer_bytes(int nics, int contexts);

/* Whether another path executes the requests of failed queues, once the paths have begun. */
bool gda_may_fail_over(const struct gda *gda);
void gda_end_failover(struct gda *gda);

/* Whether the requests of a queue with an error completion will be executed in another way; the
 * waiting caller goes on waiting. `number` is an index of gda->queues, or follows them for
 * gda->gpu_queues. */
bool gda_takes_over(const struct gda *gda, uint32_t number);

/* Called by every wait for a queue. The failover thread itself waits for atomics through this PE's
 * own NIC. If that fails meanwhile, the thread takes over the NIC's queue from within the wait. */
void gda_help_failover(const struct gda *gda);

/* Returns why requests are lost; WEFT_OK: none are. */
weft_status gda_lost(const struct gda *gda);

/* The word by which device code wakes the failover thread; NULL: there is none. */
uint32_t *gda_alarm(const struct gda *gda);

/* Returns the first NIC from `first` on whose queue of the host to PE pe works; gda->count: none
 * does. */
uint32_t gda_working_adapter(const struct gda *gda, int pe, uint32_t first);

/* first_use.c: waits until the queues to PE pe are connected. */
weft_status gda_await_link(const struct gda *gda, int pe);

/* Waits until no link of the job is being connected, and lets none begin until
 * gda_release_links(); collective. Both PEs of each pair then agree whether it is connected. */
weft_status gda_hold_links(const struct gda *gda);
void gda_release_links(const struct gda *gda);

/* Entry of the table of path operations: see path.h. */
const char *gda_untested(const struct path_common *common, int pe);

/* ------------------------------------------------------------------------- bell.c: doorbell thread
 *
 * If the GPU cannot write the NIC's doorbell register, it writes a word of host memory instead. A
 * host thread polls these words and writes each new value into the register. */
struct gda_doorbell_thread;
weft_status gda_doorbell_start(struct gda_doorbell_thread **bell, uint32_t count);
/* Adds a doorbell. `word` must be zero, and the caller adds it before the GPU first writes it. */
void gda_doorbell_add(struct gda_doorbell_thread *bell, const uint64_t *word, uint64_t *doorbell);
void gda_doorbell_stop(struct gda_doorbell_thread *bell);

/* ------------------------------------------------------------------ gpu.c: GPU memory's keys */

enum { GDA_WHY_BYTES = 240 };

/* Keys of one allocation of the GPU heap at all PEs. */
struct gda_gpu_keys {
    struct gda_gpu_keys *next;
    bool used;         /* false: a later allocation takes it */
    uint32_t strict[]; /* [2][count][npes] for strictly ordered access; then for bulk data, with
                           relaxed ordering where there is one */
};

/* Keys of the GPU heap. Each allocation of the heap is one memory region, at the same place of the
 * heap's address range at all PEs. So a peer takes 8 bytes for each allocation and NIC, and the
 * units of the address range share one table. */
struct gda_gpu {
    uint32_t unit_bits, units;
    bool relaxed;         /* the memory has keys with relaxed ordering as well */
    uint64_t *bases;      /* [npes] first addresses of the GPU heaps */
    uint32_t *local_keys; /* [count][units] */
    /* [units] Keys of the unit's allocation, gda_gpu_keys.strict; NULL: it is in none. */
    const uint32_t **keys;
    struct gda_gpu_keys *all_keys; /* no keys are freed before the end: a thread may read them */
    struct gda_region {
        size_t offset, bytes;
        struct gda_gpu_keys *keys;
        struct ibv_mr *mrs[GDA_ADAPTERS_MOST];
        /* The same memory registered with relaxed ordering. */
        struct ibv_mr *data[GDA_ADAPTERS_MOST];
    } * regions;
    size_t region_count;
    /* Some memory was registered by its address, because dma-buf did not work. */
    bool by_address;
    bool flushed; /* NIC writes are visible only after a flush of the GPU */
    bool dumps;   /* data of a get are visible to kernels only after a DUMP */
    /* Why the device-code queues are not in GPU memory; "" = they are. */
    char why_host[GDA_WHY_BYTES];
    char why_proxy[GDA_WHY_BYTES]; /* Why device code cannot post WQEs itself; "" = it can. */
};

/* Entry of the table of path operations: see path.h. */
weft_status gda_gpu_memory(struct path_common *common);
void gda_free_gpu(struct gda *gda);
weft_status gda_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                       size_t bytes);

/* Makes everything that NICs have written into this PE's GPU memory visible. */
weft_status gda_flush_gpu_writes(const struct gda *gda);

/* --------------------------------------------------------------------- far.c: queues in GPU memory
 *
 * Device-code queues of a GPU. They are additional to those of `queues`, in the same order.
 * Everything that the NIC reads and writes for them is in GPU memory. With them, GPU memory also
 * has relaxed-ordering keys for data. */
struct gda_gpu_queues {
    struct gda_gpu_slab *slabs;
    struct gda_gpu_place {
        struct gda_gpu_slab *slab; /* NULL: the queues to the PE have no memory yet */
        uint32_t at;               /* index of the link in the slab */
    } * places;                    /* [gda_device_links()] */
    struct gda_qp *qps;            /* [gda_device_links() * queues_per_pe] */
    /* [gda_device_links() * queues_per_pe] with GPU addresses */
    struct weft_dev_gda_queue *queues;
};

/* GPU memory for the queues to some PEs, registered with each NIC. */
struct gda_gpu_slab {
    struct gda_gpu_slab *next;
    struct mlx5dv_devx_umem *umems[GDA_ADAPTERS_MOST];
    struct ibv_mr *regions[GDA_ADAPTERS_MOST];
    uint64_t area; /* its address on the GPU */
    size_t bytes;
    uint32_t links, used; /* links that have space here, and those that have taken it */
};

/* Creates queues in GPU memory for all links that are connected; collective. If one PE cannot have
 * them, gda->gpu_queues stays NULL at all PEs and `lacks` says why. */
weft_status gda_open_gpu_queues(struct gda *gda, char *lacks, size_t bytes);
void gda_close_gpu_queues(struct gda *gda);

/* The same for a link that is connected later. They do nothing where the queues are not in GPU
 * memory. *refused: a NIC refuses the queues. */
weft_status gda_create_gpu_link(struct gda *gda, int pe, bool *refused);
weft_status gda_connect_gpu_link(struct gda *gda, int pe, const uint32_t *numbers);
/* After a NIC has refused queues to the PE: see gda_describe_dead_link(). */
weft_status gda_describe_dead_gpu_link(struct gda *gda, int pe);
/* The key of a NIC for the results of the queues of a link, in the byte order of requests; 0: the
 * memory is not registered. */
uint32_t gda_gpu_results_key(const struct gda_gpu_queues *on_gpu, int link, uint32_t adapter);
/* Creates the DC initiators of device code there. */
weft_status gda_open_gpu_initiators(struct gda *gda);
/* Waits until the first `target` blocks of a device-code queue are complete. gda_device_queue()
 * must have its current counts. */
weft_status gda_await_gpu_queue(const struct gda *gda, uint32_t number, uint64_t target);

/* ------------------------------------------------------------------------ devx.c: DevX commands */

/* Writes the required capabilities that the NIC lacks to `lacks`; "" = none. Sets no_atomics. */
void gda_query_caps(struct gda_adapter *adapter, char *lacks, size_t bytes);
/* Returns true if the network may deliver packets of one queue out of order, or if the NIC cannot
 * be queried. */
bool gda_may_reorder(const struct gda_adapter *adapter);
weft_status gda_create_cq(struct gda_qp *qp, uint32_t depth, size_t ring_at, size_t record_at);
weft_status gda_create_qp(struct gda_qp *qp, uint32_t depth, size_t ring_at, size_t record_at,
                          uint32_t *number);

/* The two ends of an RC connection. */
struct gda_connection {
    uint32_t qpn, peer_qpn; /* QP numbers */
    uint32_t psn, peer_psn; /* PSN of the first packet that each end sends, 24 bits */
    uint32_t sport;         /* UDP source port, for RoCE */
};

/* Moves a DC initiator through INIT and RTR to RTS. mtu: of its path, as in struct gda_address. */
weft_status gda_open_initiator(const struct gda_qp *qp, uint32_t number, uint32_t mtu);

/* Moves the QP through INIT and RTR to RTS. */
weft_status gda_connect_qp(const struct gda_qp *qp, const struct gda_connection *connection,
                           const struct gda_address *peer);

/* Ends the queue: it sends, receives and completes nothing from now on. *executed receives the
 * number of messages that it has executed for its peer, modulo 2^24. */
weft_status gda_stop_qp(const struct gda_qp *qp, uint32_t number, uint32_t *executed);

/* ------------------------------------------------- connect.c: creation and connection of queues */

/* Byte offsets of one queue's parts in an area, and the bytes of a queue. */
struct gda_layout {
    size_t ring, completions, page, results, bytes;
};
/* Byte offsets of the doorbell records in the page, and of the send counter in the QP's record. */
enum { GDA_CQ_RECORD = 64, GDA_QP_RECORD = 0, GDA_SEND_WORD = 4 };
struct gda_layout gda_layout_of(const struct gda *gda, uint32_t number);
size_t gda_queue_bytes(uint32_t depth);
weft_status gda_alloc_uar_page(struct gda_qp *qp);
/* Memory that is zero, and takes pages only where it is written; NULL: there is none. */
void *gda_map_zeros(size_t bytes);
void gda_unmap_zeros(void *area, size_t bytes);
/* A random number that other jobs cannot guess. */
uint64_t gda_random(void);
/* Creates the DevX objects of a queue whose memory is registered. */
weft_status gda_create_queue(struct gda *gda, struct gda_qp *qp, struct weft_dev_gda_queue *q,
                             const struct gda_layout *at, char *area);
void gda_destroy_qp(struct gda_qp *qp);
/* Gives a queue that the NIC has refused its place in the area. */
void gda_place_absent_queue(const struct gda *gda, struct gda_qp *qp, struct weft_dev_gda_queue *q,
                            const struct gda_layout *at, char *area);
/* Memory that is zero, and takes pages only where it is written. NULL: there is none. */
void *gda_map_zeros(size_t bytes);
void gda_unmap_zeros(void *area, size_t bytes);
/* Bytes of the area for the queues to one PE, and where they begin. */
size_t gda_link_bytes(const struct gda *gda);
char *gda_link_area(const struct gda *gda, int pe);
/* The UDP source port of a queue to another. */
uint32_t gda_source_port(uint32_t mine, uint32_t its);
struct gda_connection gda_connection_of(const struct gda *gda, uint32_t mine, int pe, uint32_t its);
weft_status gda_create_queue_tables(struct gda *gda);
/* Creates the queues to `count` PEs from `first` on. */
weft_status gda_create_links(struct gda *gda, int first, int count);
/* Why a queue was not created, or not connected (`what`), of this thread's last error. */
void gda_refusal_text(const char *what, char text[GDA_REFUSAL_BYTES]);
/* Destroys all queues; their tables stay. */
void gda_drop_links(struct gda *gda);
/* After gda_create_links() has failed: gives the queues to PE pe the form of queues that have
 * failed before they executed anything. Threads can post to them; the NIC does not know them. */
void gda_describe_dead_link(struct gda *gda, int pe);
/* Connects the queues to PE pe with its queues of these numbers. */
weft_status gda_connect_link(struct gda *gda, int pe, const uint32_t *numbers);
/* The queues to PE pe may be used from now on. */
void gda_publish_link(struct gda *gda, int pe);
weft_status gda_connect(struct gda *gda);     /* collective */
weft_status gda_connect_all(struct gda *gda); /* collective; all queues that are not connected */
/* Returns WEFT_ERR_MISMATCH: PE pe sent an exchange record with this fault. */
weft_status gda_fail_record(int pe, const char *fault);
void gda_destroy_queues(struct gda *gda);

/* --------------------------------------------------------------------- memory.c: registration */

weft_status gda_register_segments(struct gda *gda);
void gda_free_memory(struct gda *gda);

/* Access flags of memory that peers access through that NIC. */
static inline int gda_access_flags(const struct gda_adapter *adapter, bool relaxed)
{
    return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
           (adapter->no_atomics ? 0 : IBV_ACCESS_REMOTE_ATOMIC) |
           (relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0);
}

/* Returns the address that the memory has at its PE. */
uint64_t gda_address_of(const struct gda *gda, struct remote at);

/* Returns the remote address and rkey for a WQE of that NIC. *bytes is reduced to what the key
 * covers. */
struct weft_dev_gda_place gda_resolve_remote(const struct gda *gda, uint32_t adapter,
                                             struct remote at, size_t *bytes);

/* Returns the rkey for data. *open is set to true if the key has relaxed ordering; data written
 * with it need a flush. */
uint32_t gda_data_key(const struct gda *gda, uint32_t adapter, struct remote at, bool *open);

/* Finds the address and lkey of local memory, also of the GPU heap. Returns false if the memory is
 * not registered. *bytes is reduced to what the key covers. */
bool gda_resolve_local(const struct gda *gda, uint32_t adapter, const void *local, size_t *bytes,
                       struct weft_dev_gda_place *at);

/* --------------------------------------------------------------------------- wait.c: waits */

/* Posts an RDMA read of the peer's memory to a queue of the host or of simt. When it completes, all
 * earlier writes of that queue are in memory. *end receives the block count at which it is
 * complete. */
weft_status gda_flush_queue(const struct gda *gda, struct weft_dev_gda_queue *q, int pe,
                            uint32_t adapter, uint64_t *end);

/* Returns the place at PE pe that a flush through that NIC reads 8 bytes from. */
struct weft_dev_gda_place gda_flush_from(const struct gda *gda, int pe, uint32_t adapter);

/* Returns the WQE flags that order a request after all earlier ones of its queue. */
uint32_t gda_order_flags(const struct gda *gda);

/* Waits until the first `target` blocks of a queue of the host or of simt are complete. */
weft_status gda_await(const struct gda *gda, struct weft_dev_gda_queue *q, int pe, uint64_t target,
                      enum box_operation operation);

#endif

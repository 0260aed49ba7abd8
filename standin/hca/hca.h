/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of the software HCA, and who may access them. All objects of a device change only under
 * its lock. The engine holds the lock for one pass at a time; a thread that needs the lock
 * announces itself (device_lock()). */
#ifndef WEFT_HCA_HCA_H
#define WEFT_HCA_HCA_H

#include "address.h"
#include "config.h"
#include "mr.h"
#include "ring.h"
#include "roce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    MAX_LIDS = 4095, /* a LID is also the upper 12 bits of the device's QP numbers */
    MAX_QPS = 4096,
    MAX_CQS = 8192,
    MAX_SRQS = 1024,
    MAX_MRS = 65536,
    MAX_PDS = 4096,
    MAX_UMEMS = 16384,
    MAX_UARS = 8192,
    MAX_LINKS = 4096,
    MAX_QUEUE_BLOCKS = 16384,
    MAX_SRQ_ENTRIES = 32767, /* the list has 16-bit indices, and one entry is always free */
    MAX_CQ_LOG = 22,
    MAX_READS = 16,
    LOG_LINES = 64,
    LOG_LINE_BYTES = 240,
    DELAYED_WRITES = 64,
    DELAYED_BYTES = 4096, /* the largest MTU */
    UAR_BYTES = 4096,
};

/* Same values as enum ibv_qp_state. */
enum qp_state { QP_RESET, QP_INIT, QP_RTR, QP_RTS, QP_SQD, QP_SQE, QP_ERROR };
enum qp_type { QP_RC, QP_DCI, QP_DCT };

struct device;
struct mlx5dv_devx_uar;
struct link_out;
struct channel;

struct uar {
    struct device *device;
    uint32_t page_id;
    uint8_t *page;
    uint64_t *reg;      /* doorbell register */
    uint64_t seen;      /* value at the engine's last poll */
    unsigned queues;    /* QPs that use this page */
    struct qp *sole_qp; /* the QP, if only one uses the page */
    /* Address of the register on the engine's GPU; 0: the GPU engine does not read it. */
    uint64_t gpu_address;
    bool registered;
    bool on_gpu;                     /* the register is in GPU memory */
    struct mlx5dv_devx_uar *program; /* what the program has of it; NULL: it has nothing */
    /* The QP's send queue is in GPU memory, so the GPU engine polls the register unless by_cpu is
     * set. */
    bool for_gpu;
    /* The CPU engine polls the register, because the kernel has returned the QP or cannot run
     * it. */
    bool by_cpu;
    bool cpu_poll_pending; /* the CPU engine has not polled the register since by_cpu was set */
    /* ns; time of the next poll of a register in GPU memory, which takes a driver call */
    uint64_t next_poll_ns;
};

struct umem {
    uint8_t *address;
    uint64_t bytes;
    unsigned users;
    bool on_gpu; /* GPU memory, accessed through memory.c or by the GPU engine */
};

struct cq {
    struct device *device;
    uint32_t cqn;
    uint8_t *buffer; /* CQEs of 64 bytes */
    uint32_t log_size;
    uint32_t producer;
    uint32_t *record; /* doorbell record: [0] consumer index, [1] arm word; big-endian */
    bool collapsed, ignore_overrun, dead;
    bool on_gpu; /* CQEs are in GPU memory */
    unsigned users;
    struct umem *memories[2];
    struct channel *channel; /* completion channel; NULL: none */
    struct channel *events;  /* asynchronous events of the context */
    void *owner;             /* the program's object that events name */
    uint32_t last_armed;     /* arm word of the last event that was sent */
    uint32_t solicited;      /* producer index after the last solicited CQE */
};

struct receive_queue {
    uint8_t *ring;
    uint32_t log_count, log_stride;
    uint32_t *record; /* doorbell record: the program's 16-bit producer counter, big-endian */
    uint16_t taken;
    uint16_t next; /* linked: index of the next WQE to be consumed */
    bool linked;   /* SRQ: each WQE begins with a segment that names the next one */
};

struct srq {
    struct device *device;
    uint32_t number, pd;
    unsigned users;
    struct receive_queue queue;
    void *owner;
};

/* An outstanding request: sent and not yet acknowledged. */
struct outstanding {
    uint32_t first_psn, last_psn;
    uint32_t length;   /* length of the message in bytes */
    uint32_t received; /* bytes of RDMA read data received */
    uint32_t sum;      /* adversarial mode: of the WQE's slots */
    uint16_t index;
    uint8_t opcode, blocks, complete, solicited;
};

/* Why a WQE fails. `vendor` distinguishes causes with the same syndrome. */
struct fault {
    uint8_t syndrome, vendor;
};

/* Vendor syndromes of this HCA. */
enum {
    VENDOR_NONE = 0,
    VENDOR_RECORD_BEHIND = 0x81, /* doorbell record is older than the doorbell */
    VENDOR_OVERRUN = 0x82,       /* WQE slots reused before their completion */
    VENDOR_WRONG_INDEX = 0x83,   /* WQE index does not match its slot */
    VENDOR_WRONG_QPN = 0x84,     /* QP number in the WQE does not match */
    VENDOR_MALFORMED = 0x85,     /* WQE cannot be decoded */
    VENDOR_INCOMPLETE = 0x86,    /* WQE extends beyond the doorbell */
    VENDOR_KEY = 0x87,           /* lkey check failed */
    VENDOR_INJECTED = 0x88,      /* SOFT_HCA_FAIL_AT */
    VENDOR_LENGTH = 0x89,
    VENDOR_NO_READS = 0x8a,   /* read or atomic, but max_rd_atomic is 0 */
    VENDOR_ADDRESS = 0x8b,    /* WQE names an address that the QP cannot reach */
    VENDOR_NO_FORM = 0x8c,    /* atomic without a RoCE packet format */
    VENDOR_NO_ATOMICS = 0x8d, /* atomic, but SOFT_HCA_ATOMICS=none */
};

/* Result of an atomic, kept so that the response can be sent again. */
struct replay {
    uint32_t psn;
    uint8_t bytes; /* 0: entry is unused */
    uint64_t value;
};

/* Responder state of one connection. */
struct responder {
    uint32_t qpn, from; /* Requester: QP number and address (address_of_gid()). */
    /* a NAK was sent; later packets are dropped until the expected PSN arrives */
    bool nak_sent;
    bool ack_pending; /* an ACK is to be sent */
    /* PSN of the last packet that an ACK may name; never that of a read or atomic. */
    uint32_t ack_psn;
    uint32_t expected_psn;
    uint32_t msn;      /* message sequence number: completed messages, 24 bits */
    bool receiving;    /* a send message is being received into WQE receive_index */
    uint32_t received; /* bytes received of it */
    uint16_t receive_index;
    /* The current message of several packets: its kind (PACKET_PAD: none), and for a write the
     * rkey, the remaining bytes and the next address. */
    uint8_t message;
    uint32_t rkey, rest;
    uint64_t address;
    uint32_t connection; /* DC over RoCE: its number */
    struct replay replays[MAX_READS];
    unsigned replay_next;
    struct responder *next;
};

/* Send queue of a QP. Indices count 64-byte blocks modulo 2^16: released <= taken <= producer. */
struct qp_send {
    uint8_t *ring;
    uint32_t blocks;
    /* Address of the send queue if it is in GPU memory, with the doorbell record; else 0. `ring` is
     * then a copy of what was fetched. */
    uint64_t gpu_ring;
    bool by_gpu;      /* the GPU kernel runs this QP (gpu/engine.h) */
    bool leaving_gpu; /* the kernel must stop running it */
    /* times that the kernel returned the QP with a WQE that it does not execute */
    unsigned gpu_returns;
    uint16_t producer, taken, released;
    bool listed; /* the QP is in the engine's work list */
    /* found in the WQE at `taken`; reported when all earlier ones are complete */
    struct fault fault;
    struct outstanding *outstanding;
    uint32_t outstanding_head, outstanding_tail, outstanding_mask;
    unsigned reads;
};

/* The WQE at `taken` of a QP, of which `offset` bytes were sent. */
struct qp_current {
    bool loaded;             /* `wqe` and `words` hold it */
    bool outstanding;        /* it is among the outstanding requests */
    uint32_t resume_packets; /* first packets of it that need not be retransmitted */
    uint32_t offset;
    struct wqe wqe;
    uint32_t words[WQE_MAX_UNITS * 4 + 4];
};

struct qp_requester {
    uint32_t remote_qpn;
    uint32_t remote; /* address */
    uint64_t remote_key;
    struct link_out *link;
    uint32_t mtu;
    uint16_t source_port; /* of UDP; 0: ROCE_PORT */
    uint32_t psn, acked;  /* PSN of the next packet; all packets before `acked` are acknowledged */
    uint32_t psn_limit;   /* PSN after the last packet ever sent */
    /* Syndrome of a NAK for late_nak_psn, which is about to be retransmitted; 0: none. */
    uint8_t late_nak;
    uint32_t late_nak_psn;
    uint32_t first_psn;
    uint8_t max_reads, timeout, retry_count, rnr_retry, retries, rnr_tries;
    bool opens_dc;       /* DC: the next packet opens a connection */
    uint32_t connection; /* DC: number of the connection, and PSN of its first packet */
    uint32_t connection_psn;
    bool response_lost;       /* Retransmitted because a response was missing; no progress since. */
    uint16_t counted_end;     /* requests before this index were counted for SOFT_HCA_FAIL_AT */
    uint64_t wait_until;      /* ns; no packet is sent before this time */
    uint64_t loss_noticed_at; /* ns; when packet loss was noticed; 0: none */
    uint32_t window;          /* Packets that may be outstanding on a lossy network; 0: no limit. */
    /* ns; time of the next early retransmission, before the ACK timeout */
    uint64_t retransmit_at;
    unsigned retransmissions; /* early retransmissions since the last progress */
    uint64_t link_position;   /* position in the link's request ring after the QP's last packet */
};

struct qp_counts {
    uint64_t requests, bytes, completions, received, errors, retries;
};

struct qp {
    struct device *device;
    uint32_t qpn, pd, user_index;
    enum qp_type type;
    enum qp_state state;
    struct cq *send_cq, *receive_cq;
    struct srq *srq;
    struct umem *memories[2];
    struct uar *uar;
    uint32_t *record; /* doorbell record: [0] receive queue, [1] send queue */
    struct qp_send send;
    struct qp_current current;
    struct qp_requester requester;
    struct responder responder; /* DC target: head of a list */
    struct receive_queue receive;
    uint8_t access; /* MR_REMOTE_* */
    uint8_t rnr_timer;
    uint64_t dc_key;
    uint8_t attribute_memory[8]; /* QP attributes as they were set, for queries */
    struct qp_counts counts;
};

/* Connection to the HCA of one address: a ring of requests and a ring of responses. */
struct link_out {
    uint32_t address;
    atomic_bool dead;
    bool self; /* both ends are in this process */
    unsigned users;
    int fd;
    void *memory;
    size_t bytes;
    struct ring requests, responses;
    uint32_t *wakeup; /* wake word of the peer's engine */
    bool unpublished;
    struct roce_peer *roce; /* remote end of a RoCE link */
};

/* Writes that the adversarial mode delays. */
struct delayed_writes {
    struct delayed_write {
        const void *owner; /* the connection that wrote */
        void *to;
        bool gpu;       /* into memory of a GPU */
        uint64_t until; /* time in ns when it is written at the latest */
        uint32_t bytes;
        uint8_t data[DELAYED_BYTES];
    } * writes;
    unsigned count;
};

/* Connection from another HCA: its requests, and the responses to it. */
struct link_in {
    uint32_t address;
    atomic_bool dead;
    bool self; /* both ends are in this process */
    int fd;
    void *memory;
    size_t bytes;
    struct ring requests, responses;
    uint32_t *wakeup;
    /* progress of the RDMA read that waits for space in the response ring, bytes */
    uint32_t read_offset;
    struct qp *pending[64]; /* QPs with a pending ACK */
    struct responder *pending_responders[64];
    unsigned pending_count;
    struct delayed_writes delayed; /* adversarial mode */
};

struct log_line {
    uint64_t number;
    char text[LOG_LINE_BYTES];
};

struct device {
    unsigned number; /* N of mlx5_softN */
    uint16_t lid;
    unsigned users; /* contexts */
    pid_t pid;      /* process that owns the threads */
    const struct config *config;
    uint64_t now;            /* ns; time of this pass */
    atomic_bool unreachable; /* SOFT_HCA_FAIL: packets to and from the device are lost */
    /* SOFT_HCA_FAIL_VALUE: the queue that has posted the value, NULL before; and its requests from
     * that one on. */
    const struct qp *failing;
    uint32_t unanswered;
    uint64_t random;
    uint32_t connections;   /* number of the last connection of a DC initiator */
    struct roce *roce;      /* NULL: no RoCE address */
    struct gpu_engine *gpu; /* NULL: no send queue is in GPU memory */

    struct {
        pthread_mutex_t lock;     /* of all of this struct */
        atomic_uint lock_waiters; /* threads waiting for the lock */
        pthread_t engine, connector;
        atomic_bool stop;
        int listener, wake[2];
        /* Shared with peers: [0] futex word that wakes the engine, [1] 1 while the engine sleeps,
         * [2] count of changes of memory keys and QP permissions. */
        uint32_t *wakeup;
        int wakeup_fd;
    } threads;

    struct {
        struct mr_table keys;
        uint32_t key_next;
        struct qp *qps[MAX_QPS];
        _Atomic(void *) owners[MAX_QPS]; /* program objects of verbs QPs; read without the lock */
        uint32_t qp_next;
        struct cq *cqs[MAX_CQS];
        uint32_t cq_next;
        struct srq *srqs[MAX_SRQS];
        uint32_t srq_next;
        struct umem *umems[MAX_UMEMS];
        struct uar *uars[MAX_UARS];
        unsigned uar_top;      /* 1 + highest used index */
        unsigned pds[MAX_PDS]; /* users + 1 of each protection domain; 0: free */
    } objects;

    /* What the next pass of the engine looks at. */
    struct {
        struct qp *work[MAX_QPS]; /* QPs that have something to send or wait for a timer */
        unsigned work_count;
        struct cq *notify[MAX_CQS]; /* CQs with a completion channel */
        unsigned notify_count;
        struct delayed_writes apart; /* delayed results of reads (SOFT_HCA_APART) */
    } pending;

    /* Connections with other processes. */
    struct {
        struct link_out *out[MAX_LINKS];
        unsigned out_count;
        struct link_in *in[MAX_LINKS];
        unsigned in_count;
        uint32_t requested[64]; /* addresses that the connector thread must connect to */
        unsigned requested_count;
    } links;

    /* What `weft hca` shows. */
    struct {
        struct log_line lines[LOG_LINES];
        uint64_t line_count;
        uint64_t requests, errors, doorbells, damaged;
        uint64_t creations;   /* CREATE_CQ and CREATE_QP commands, for FAIL_CREATE */
        uint64_t connections; /* INIT2RTR_QP commands, for FAIL_CONNECT */
        uint64_t by_gpu;      /* requests executed by the GPU engine */
    } record;
};

/* device.c */
struct device *device_open(unsigned number); /* NULL with errno */
void device_close(struct device *d);
void device_lock(struct device *d);
void device_unlock(struct device *d);
void device_wake(struct device *d);           /* wakes the engine */
void device_wake_connector(struct device *d); /* wakes the connector thread */
/* reports a change of a key or of a QP's permissions to peers */
void device_changes(struct device *d);
int start_thread(pthread_t *t, void *(*body)(void *), struct device *d);

/* Returns the address that a GID of a software HCA stands for; 0: none (roce.h). In
 * verbs/device.c. */
uint32_t address_of_gid(const uint8_t *gid);

/* log.c: adds a line to the error log; the caller holds the lock. */
void log_error(struct device *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* mr.c */
uint32_t mr_add(struct device *d, uint32_t pd, uint64_t address, uint64_t memory, uint64_t bytes,
                uint32_t access); /* returns the key; 0: the table is full */
uint32_t mr_first(void);          /* random first index for `key_next` */
int mr_remove(struct device *d, uint32_t key);
/* mr_invalidate: removes the remote permissions of a key (SEND with invalidate). Returns false if
 * the protection domain has no such key. */
bool mr_invalidate(struct device *d, uint32_t key, uint32_t pd);
const char *mr_refusal_text(enum mr_refusal r);

/* cq.c */
void cq_write_request(struct cq *cq, const struct qp *qp, const struct outstanding *f);
void cq_write_error(struct cq *cq, const struct qp *qp, bool responder, uint16_t index,
                    uint8_t opcode, uint8_t syndrome, uint8_t vendor);
void cq_write_receive(struct cq *cq, const struct qp *qp, uint8_t kind, uint16_t index,
                      uint32_t bytes, uint32_t immediate, bool solicited);
bool cq_notify(struct cq *cq);

/* channel.c: completion and asynchronous events through a pipe. */
struct channel {
    int read_fd, write_fd;
};
int channel_open(struct channel *c);
void channel_close(struct channel *c);
void channel_send(struct channel *c, const void *event, size_t bytes);
void cq_async_event(struct cq *cq, int event);

/* qp.c */
struct qp *qp_add(struct device *d); /* a numbered QP in RESET; NULL: none left */
void qp_remove(struct qp *qp);
void qp_reset(struct qp *qp);
void qp_to_error(struct qp *qp);
void qp_fail(struct qp *qp, uint16_t index, uint8_t opcode, uint8_t syndrome, uint8_t vendor);
void qp_list(struct qp *qp); /* puts the QP into the engine's work list */
struct qp *qp_find(struct device *d, uint32_t qpn);
bool qp_set_ring(struct qp *qp, void *ring, uint32_t blocks);
/* qp_set_gpu_ring: the same for a send queue in GPU memory. qp_fetch: copies the new blocks up to
 * `end`. qp_record: reads doorbell record [0] or [1]. False: a CUDA driver call failed. */
bool qp_set_gpu_ring(struct qp *qp, void *ring, uint32_t blocks);
bool qp_fetch(struct qp *qp, uint16_t end);
bool qp_record(struct qp *qp, unsigned which, uint16_t *value);

/* send.c: the requester. */
bool send_run(struct qp *qp);
bool send_handle_responses(struct link_out *link, struct device *d);
void send_doorbell(struct uar *uar, uint64_t value);
bool send_timers(struct qp *qp);
void send_fail_behind_value(struct device *d);

/* respond.c */
bool respond_run(struct link_in *link, struct device *d);
void respond_drop_acks(struct device *d, struct qp *qp);
/* performs all delayed writes, before memory is deregistered */
void respond_flush(struct device *d);

/* burst.c: many short RDMA writes in one packet. */
struct burst_write {
    uint64_t address;
    uint32_t rkey, bytes;
    const uint8_t *data;
};
unsigned burst_send(struct qp *qp);
bool burst_next(const uint8_t *data, uint32_t bytes, uint32_t *at, struct burst_write *out);

/* receive.c */
bool receive_consume(struct qp *qp, uint16_t *index);
uint8_t receive_scatter(struct qp *qp, uint16_t index, uint64_t offset, const void *data,
                        uint64_t bytes);
void receive_flush(struct qp *qp);

/* report.c */
#define REPORT_QUERY "show"
void report_answer(struct device *d, int socket);

/* message.c: messages of a UNIX socket with at most two file descriptors. message_receive() takes a
 * message of exactly these bytes and descriptors, from a process of the same user; otherwise it
 * returns false, with no descriptor left open. */
bool message_send(int socket, const void *data, size_t bytes, const int *fds, unsigned count);
bool message_receive(int socket, void *data, size_t bytes, int *fds, unsigned count,
                     int timeout_ms);
bool message_of_same_user(int socket);

/* link.c */
struct link_out *link_connect(struct device *d,
                              uint32_t address);                /* may wait; never under the lock */
struct link_out *link_find(struct device *d, uint32_t address); /* under the lock */
/* asks the connector thread to connect */
void link_request(struct device *d, uint32_t address);
void link_attach(struct device *d, struct qp *qp, struct link_out *link); /* under the lock */
void link_release(struct device *d, struct qp *qp);
int link_open(struct device *d); /* claims a LID and listens there */
void link_close(struct device *d);
void link_wake_engine(uint32_t *wakeup);
int link_open_socket(uint32_t lid); /* returns a socket to the HCA with that LID, or -1 */

void link_dead(struct device *d, struct link_out *l);
void *connector_main(void *device);

/* engine.c */
void *engine_main(void *device);
bool engine_pass(struct device *d, bool *timed);

/* adversary.c */
bool adversary_skips_step(struct device *d);
unsigned adversary_limit(struct device *d, unsigned usual);
bool adversary_delay(struct device *d, struct delayed_writes *h, const struct responder *owner,
                     void *to, const void *from, uint32_t bytes);
bool adversary_delay_apart(struct device *d, uint32_t access, void *to, const void *from,
                           uint64_t bytes);
void adversary_flush(struct device *d, struct delayed_writes *h, const struct responder *owner);
void adversary_flush_memory(struct device *d, struct delayed_writes *h,
                            const struct responder *owner, const void *at);
bool adversary_flush_expired(struct device *d, struct delayed_writes *h);

/* memory.c: access to memory that keys name, of the host or of a GPU. Addresses are the program's.
 * A thread that polls may read a value as soon as it is put. False: a CUDA driver call failed; the
 * error log says why. */
bool memory_put(struct device *d, void *to, const void *from, size_t bytes);
bool memory_get(struct device *d, void *to, const void *from, size_t bytes);
bool memory_atomic(struct device *d, void *at, const struct wqe_atomic *a, uint64_t *old);
bool memory_flush(struct device *d); /* makes all previous puts visible */
uint64_t clock_ns(void);
uint32_t random_next(struct device *d);

static inline uint32_t be32(uint32_t v)
{
    return __builtin_bswap32(v);
}

static inline uint64_t be64(uint64_t v)
{
    return __builtin_bswap64(v);
}

/* psn_before: a is before b in 24-bit PSN order. */
static inline bool psn_before(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) < 0;
}

static inline uint32_t psn_add(uint32_t a, uint32_t n)
{
    return (a + n) & 0xffffff;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of the HCA and who may touch them. All of a device's objects are changed under its
 * lock; the engine holds the lock for one pass at a time, and whoever wants it says so
 * (device_lock()). */
#ifndef WEFT_HCA_HCA_H
#define WEFT_HCA_HCA_H

#include "config.h"
#include "mr.h"
#include "ring.h"
#include "roce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    MAX_LIDS = 4095, /* a LID is also the upper 12 bits of the numbers of its queues */
    MAX_QPS = 4096,
    MAX_CQS = 8192,
    MAX_SRQS = 1024,
    MAX_MRS = 65536,
    MAX_PDS = 4096,
    MAX_UMEMS = 16384,
    MAX_UARS = 8192,
    MAX_LINKS = 4096,
    MAX_QUEUE_BLOCKS = 16384,
    MAX_SRQ_ENTRIES = 32767, /* their list has numbers of 16 bits, and one is always free */
    MAX_CQ_LOG = 22,
    MAX_READS = 16,
    LOG_LINES = 64,
    LOG_LINE_BYTES = 240,
    DELAYED_WRITES = 64,
    DELAYED_BYTES = 4096, /* the largest MTU */
    UAR_BYTES = 4096,
};

/* Values of enum ibv_qp_state. */
enum qp_state { QP_RESET, QP_INIT, QP_RTR, QP_RTS, QP_SQD, QP_SQE, QP_ERROR };
enum qp_type { QP_RC, QP_DCI, QP_DCT };

struct device;
struct link_out;
struct channel;

struct uar {
    struct device *device;
    uint32_t page_id;
    uint8_t *page;
    uint64_t *reg;   /* the doorbell register */
    uint64_t seen;   /* its value at the engine's last look */
    unsigned queues; /* that name this page */
    struct qp *only; /* the queue, where there is but one */
    /* For the engine on a GPU: where that reads the register, 0: it does not; and whose turn it
     * is. */
    uint64_t pinned;
    bool registered;
    bool on_gpu;  /* the register is in the memory of the engine's GPU */
    bool for_gpu; /* its queue is in GPU memory: that engine has it but where `by_cpu` says else, */
    bool by_cpu;  /* because the kernel has left the queue, or cannot take it; */
    bool owed;    /* and the one on the CPU has not looked at it yet */
    uint64_t next_poll_ns; /* ns; far: that engine's next look, which takes the driver */
};

struct umem {
    uint8_t *address;
    uint64_t bytes;
    unsigned users;
    bool on_gpu; /* of a GPU: reached through memory.c, or by the engine there */
};

struct cq {
    struct device *device;
    uint32_t cqn;
    uint8_t *buffer; /* entries of 64 bytes */
    uint32_t log_size;
    uint32_t producer;
    uint32_t *record; /* [0] consumer index, [1] arming; big-endian */
    bool collapsed, ignore_overrun, dead;
    bool on_gpu; /* the entries are in GPU memory */
    unsigned users;
    struct umem *memories[2];
    struct channel *channel; /* completion events; NULL: none */
    struct channel *events;  /* asynchronous ones, of the context */
    void *owner;             /* what an event names */
    uint32_t fired;          /* the arming word whose event was sent */
    uint32_t solicited;      /* producer index behind the last solicited entry */
};

struct receive_queue {
    uint8_t *ring;
    uint32_t log_count, log_stride;
    uint32_t *record; /* the producer's 16-bit counter, big-endian */
    uint16_t taken;
    uint16_t next; /* linked: the entry that is taken next */
    bool linked;   /* of an SRQ: entries begin with a segment that names the next */
};

struct srq {
    struct device *device;
    uint32_t number, pd;
    unsigned users;
    struct receive_queue queue;
    void *owner;
};

/* A request that was sent and is not yet acknowledged. */
struct outstanding {
    uint32_t first_psn, last_psn;
    uint32_t length;   /* of the message */
    uint32_t received; /* bytes of a read's data */
    uint16_t index;
    uint8_t opcode, blocks, complete, solicited;
};

/* Why a request may not be carried out. vendor tells apart what has one syndrome. */
struct fault {
    uint8_t syndrome, vendor;
};

/* Vendor syndromes of this HCA. */
enum {
    VENDOR_NONE = 0,
    VENDOR_RECORD_BEHIND = 0x81, /* doorbell record behind the doorbell */
    VENDOR_OVERRUN = 0x82,       /* slots used again before their completion */
    VENDOR_WRONG_INDEX = 0x83,   /* index in the request is not its place */
    VENDOR_WRONG_QPN = 0x84,     /* queue number in the request */
    VENDOR_MALFORMED = 0x85,     /* the request cannot be read */
    VENDOR_INCOMPLETE = 0x86,    /* longer than what was published */
    VENDOR_KEY = 0x87,           /* local key refused */
    VENDOR_INJECTED = 0x88,      /* SOFT_HCA_FAIL_AT */
    VENDOR_LENGTH = 0x89,
    VENDOR_NO_READS = 0x8a, /* read or atomic where the queue allows none */
    VENDOR_ADDRESS = 0x8b,  /* the request names no address that its queue reaches */
    VENDOR_NO_FORM = 0x8c,  /* an atomic that the wire has no form for */
};

/* What an atomic found, for the case that its answer is lost. */
struct replay {
    uint32_t psn;
    uint8_t bytes; /* 0: none */
    uint64_t value;
};

/* What a responder remembers of the one who sends to it. */
struct responder {
    uint32_t qpn, from; /* `from`: an address, see address_of_gid() */
    bool nak_sent;      /* packets behind one that was not accepted are dropped */
    bool ack_pending;   /* that is still to be said: */
    uint32_t ack_psn;   /* the last packet that an acknowledgement may name: never a read's or an
                             atomic's */
    uint32_t expected_psn;
    uint32_t msn;      /* completed, in 24 bits */
    bool receiving;    /* a message, into the entry receive_index */
    uint32_t received; /* bytes of it */
    uint16_t receive_index;
    /* A message of several packets: its kind (PACKET_PAD: none) and, of a write, where the rest
     * goes. */
    uint8_t message;
    uint32_t rkey, rest;
    uint64_t address;
    struct replay replays[MAX_READS];
    unsigned replay_next;
    struct responder *next;
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
    uint32_t *record; /* doorbell records: [0] receive, [1] send */

    /* Send queue. Indices count blocks, in 16 bits: released ≤ taken ≤ producer. */
    uint8_t *ring;
    uint32_t blocks;
    uint64_t gpu_ring; /* in GPU memory, as the record is; `ring` is what was read of it. 0: no */
    bool by_gpu;       /* the kernel has it (gpu_engine.h) */
    bool leaves;       /* ... and is not to have it */
    unsigned returns;  /* so often it came back with what the kernel does not do */
    uint16_t producer, taken, released;
    bool listed;        /* the engine visits it */
    struct fault fault; /* found at `taken`; raised when all before is complete */
    struct outstanding *outstanding;
    uint32_t outstanding_head, outstanding_tail, outstanding_mask;
    unsigned reads;

    /* The request at `taken`, of which `offset` bytes were sent. */
    bool busy;
    bool begun;              /* its flight is entered */
    uint32_t resume_packets; /* packets of it that need not be sent again */
    uint32_t offset;
    struct wqe wqe;
    uint32_t words[WQE_MAX_UNITS * 4 + 4];

    /* Requester. */
    uint32_t remote_qpn;
    uint32_t remote; /* address */
    uint64_t remote_key;
    struct link_out *link;
    uint32_t mtu;
    uint16_t source_port; /* of UDP; 0: ROCE_PORT */
    uint32_t psn, acked;  /* next to send; all before `acked` are acknowledged */
    uint32_t psn_limit;   /* behind the last that was ever sent */
    uint8_t
        late_nak; /* syndrome of a refusal of late_psn, which is about to be sent again; 0: none */
    uint32_t late_nak_psn;
    uint32_t first_psn;
    uint8_t max_reads, timeout, retry_count, rnr_retry, retries, rnr_tries;
    bool opens;               /* DC: the next packet opens a connection */
    bool response_lost;       /* sent again because an answer was missing; no progress since */
    uint16_t counted_end;     /* requests before this index were counted by the device */
    uint64_t wait_until;      /* ns; nothing is sent before */
    uint64_t loss_noticed_at; /* ns; when the packets were known to be lost */
    uint32_t window;          /* of a wire that loses packets: so many may be under way; 0: any */
    uint64_t retransmit_at;   /* ns; there, they are sent again before the queue's time is over */
    unsigned retransmissions; /* so often since the last progress */
    uint64_t link_position;   /* of the link's ring behind the last packet */

    /* Responder. */
    struct responder responder; /* DC target: head of a list */
    struct receive_queue receive;
    uint8_t access; /* MR_REMOTE_* */
    uint8_t rnr_timer;
    uint64_t dc_key;
    uint8_t attribute_memory[8]; /* min_rnr, rd_atomic and the like as they were set */

    uint64_t count_requests, count_bytes, count_completions, count_received, count_errors,
        count_retries;
};

/* Requests of this process to the HCA of one address, and the answers. */
struct link_out {
    uint32_t address;
    atomic_bool dead;
    bool self; /* both ends are in this process */
    unsigned users;
    int fd;
    void *memory;
    size_t bytes;
    struct ring requests, responses;
    uint32_t *bell; /* of the peer's engine */
    bool unpublished;
    struct roce_peer *roce; /* the far end, where it is the wire of RoCE */
};

/* Writes that the adversary has not placed yet. */
struct delayed_writes {
    struct delayed_write {
        const void *owner; /* the connection */
        void *to;
        uint64_t until; /* ns */
        uint32_t bytes;
        uint8_t data[DELAYED_BYTES];
    } * writes;
    unsigned count;
};

/* Requests of another HCA to this one. */
struct link_in {
    uint32_t address;
    atomic_bool dead;
    bool self; /* both ends are in this process */
    int fd;
    void *memory;
    size_t bytes;
    struct ring requests, responses;
    uint32_t *bell;
    uint32_t read_offset;   /* of the read that waits for room for its data */
    struct qp *pending[64]; /* queues that have something to acknowledge */
    struct responder *pending_responders[64];
    unsigned pending_count;
    struct delayed_writes delayed; /* adversarial mode */
};

struct log_line {
    uint64_t number;
    char text[LOG_LINE_BYTES];
};

struct device {
    unsigned number; /* mlx5_softN */
    uint16_t lid;
    unsigned users; /* contexts */
    pid_t pid;      /* whose threads these are */
    const struct config *config;

    pthread_mutex_t lock;
    atomic_uint wanted; /* threads that wait for the lock */
    pthread_t engine, connector;
    atomic_bool stop;
    int listener, wake[2];
    /* In memory that peers map: [0] the bell; [1]: the engine sleeps; [2] counts changes of keys
     * and of what queues permit. */
    uint32_t *bell;
    int wakeup_fd;

    struct mr_table keys;
    uint32_t key_next;
    struct qp *qps[MAX_QPS];
    _Atomic(void *) owners[MAX_QPS]; /* of plain queue pairs; read without the lock */
    uint32_t qp_next;
    struct cq *cqs[MAX_CQS];
    uint32_t cq_next;
    struct srq *srqs[MAX_SRQS];
    uint32_t srq_next;
    struct umem *umems[MAX_UMEMS];
    struct uar *uars[MAX_UARS];
    unsigned uar_top;         /* one more than the highest used */
    unsigned pds[MAX_PDS];    /* users of each, 0: free; 1: allocated */
    struct qp *work[MAX_QPS]; /* queues that have something to send or to wait for */
    unsigned work_count;
    struct cq *notify[MAX_CQS]; /* completion queues with a channel */
    unsigned notify_count;
    struct link_out *out[MAX_LINKS];
    unsigned out_count;
    struct link_in *in[MAX_LINKS];
    unsigned in_count;

    struct delayed_writes apart; /* what was read into memory that is taken for a GPU's */

    uint32_t requested_links[64]; /* addresses that the door thread is to connect */
    unsigned requested_count;

    uint64_t now; /* ns, of this pass */
    uint64_t random;
    struct log_line lines[LOG_LINES];
    uint64_t line_count;
    uint64_t count_requests, count_errors, count_doorbells, count_damaged;
    uint64_t count_by_gpu;  /* requests that the engine on a GPU has carried out */
    struct roce *roce;      /* NULL: no address */
    struct gpu_engine *gpu; /* NULL: no queue lies in GPU memory */
};

/* device.c */
struct device *device_open(unsigned number); /* NULL: errno */
void device_close(struct device *d);
void device_lock(struct device *d);
void device_unlock(struct device *d);
void device_wake(struct device *d);           /* the engine */
void device_wake_connector(struct device *d); /* the door thread */
void device_changes(struct device *d);        /* a key or a queue is not what it was to others */
int start_thread(pthread_t *t, void *(*body)(void *), struct device *d);

/* verbs_device.c: the address that a GID of a soft HCA stands for, 0: none (roce.h). */
uint32_t address_of_gid(const uint8_t *gid);

/* log.c: a line in the error log; the caller holds the lock. */
void log_error(struct device *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* address_text: "LID 5" or "10.0.0.1", in `text`. */
enum { ADDRESS_TEXT = 24 };
const char *address_text(uint32_t address, char *text);

/* mr.c */
uint32_t mr_add(struct device *d, uint32_t pd, uint64_t address, uint64_t memory, uint64_t bytes,
                uint32_t access); /* 0: the table is full */
uint32_t mr_first(void);          /* of a device's `key_next` */
int mr_remove(struct device *d, uint32_t key);
/* mr_invalidate: a message of the peer ends what the key permits to others; false: no such key of
 * this domain. */
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
struct qp *qp_add(struct device *d); /* numbered, in RESET; NULL: none left */
void qp_remove(struct qp *qp);
void qp_reset(struct qp *qp);
void qp_to_error(struct qp *qp);
void qp_fail(struct qp *qp, uint16_t index, uint8_t opcode, uint8_t syndrome, uint8_t vendor);
void qp_list(struct qp *qp); /* the engine visits it from now on */
struct qp *qp_find(struct device *d, uint32_t qpn);
bool qp_set_ring(struct qp *qp, void *ring, uint32_t blocks);
/* qp_set_far_ring: the same in GPU memory. qp_fetch: the blocks before `end` that are new.
 * qp_record: a doorbell record, [0] or [1]. False: the CUDA driver refuses. */
bool qp_set_gpu_ring(struct qp *qp, void *ring, uint32_t blocks);
bool qp_fetch(struct qp *qp, uint16_t end);
bool qp_record(struct qp *qp, unsigned which, uint16_t *value);

/* send.c: the requester. */
bool send_run(struct qp *qp);
bool send_handle_responses(struct link_out *link, struct device *d);
void send_doorbell(struct uar *uar, uint64_t value);
bool send_timers(struct qp *qp);

/* respond.c */
bool respond_run(struct link_in *link, struct device *d);
void respond_drop_acks(struct device *d, struct qp *qp);
void respond_flush(struct device *d); /* all that is held back, before memory goes */

/* burst.c: short writes, many in a packet. */
struct burst_write {
    uint64_t address;
    uint32_t rkey, bytes;
    const uint8_t *data;
};
unsigned burst_send(struct qp *qp);
bool burst_next(const uint8_t *data, uint32_t bytes, uint32_t *at, struct burst_write *out);

/* receive.c */
bool receive_take(struct qp *qp, uint16_t *index);
uint8_t receive_scatter(struct qp *qp, uint16_t index, uint64_t offset, const void *data,
                        uint64_t bytes);
void receive_flush(struct qp *qp);

/* report.c */
#define REPORT_QUERY "show"
void report_answer(struct device *d, int socket);

/* link.c */
struct link_out *link_connect(struct device *d,
                              uint32_t address);                /* may wait; not under the lock */
struct link_out *link_find(struct device *d, uint32_t address); /* under the lock */
void link_request(struct device *d, uint32_t address);          /* has it connected soon */
void link_attach(struct device *d, struct qp *qp, struct link_out *link); /* under the lock */
void link_release(struct device *d, struct qp *qp);
int link_open(struct device *d); /* claims a LID and listens */
void link_close(struct device *d);
void link_wake_engine(uint32_t *bell);
int link_open_socket(uint32_t lid); /* a socket to whoever has that LID, -1: nobody */

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
bool adversary_flush_expired(struct device *d, struct delayed_writes *h);

/* memory.c: the memory that keys name, of the host or of a GPU; `at`, `to` and `from` of it are the
 * program's addresses. A reader in another thread may follow a put. False: the CUDA driver refuses,
 * which is in the log. */
bool memory_put(struct device *d, void *to, const void *from, size_t bytes);
bool memory_get(struct device *d, void *to, const void *from, size_t bytes);
bool memory_atomic(struct device *d, void *at, const struct wqe_atomic *a, uint64_t *old);
bool memory_flush(struct device *d); /* what was put is visible */
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

/* psn_before: a comes before b, in 24 bits. */
static inline bool psn_before(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) < 0;
}

static inline uint32_t psn_add(uint32_t a, uint32_t n)
{
    return (a + n) & 0xffffff;
}

#endif

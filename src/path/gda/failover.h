/* SPDX-License-Identifier: Apache-2.0 */
/* Failover of path gda: when a queue fails, a thread of this PE gives its requests to another NIC,
 * or executes them over another path, path net. Neither end loses a request or executes one twice:
 *
 *     failover.c   notices the failure, stops the queue at both ends, and finds the first request
 *                  that the peer has not executed
 *     first_use.c  in large jobs: connects the queues to a peer when one of the two first uses them
 *     mail.c       what PEs report to each other, in each other's memory
 *     takeover.c   executes requests: reads them from the send ring, as the NIC would, and writes
 *                  the completion entry
 *     reissue.c    posts them to a queue of another NIC that leads to the same PE
 *
 * A queue pair serves both directions, so both PEs take over their own queue of the pair. Threads
 * that post requests, of the host and of device code, do not notice: they post to the same ring and
 * poll the same completion entry. The queue stays taken over until the job ends. */
#ifndef WEFT_PATH_GDA_FAILOVER_H
#define WEFT_PATH_GDA_FAILOVER_H

#include "path/gda/gda.h"
#include "path/serve.h"

#include <stdatomic.h>

/* ENDING: the peer has stopped its end, and what it has answered before may still arrive. */
enum gda_queue_state {
    GDA_QUEUE_WORKS,
    GDA_QUEUE_ENDING,
    GDA_QUEUE_STOPPED,
    GDA_QUEUE_TAKEN_OVER,
    GDA_QUEUE_LOST
};

/* Requests of a failed queue that are posted to the host's queue of another NIC, one batch at a
 * time. RESERVED: the ring had no space yet. */
struct gda_batch {
    enum { GDA_BATCH_NONE, GDA_BATCH_RESERVED, GDA_BATCH_POSTED } state;
    uint32_t adapter;          /* the other NIC */
    uint32_t blocks, messages; /* of the requests, without the flush behind them */
    uint32_t ahead;            /* see weft_dev_gda_publish() */
    uint64_t base, end;        /* its blocks in the other queue */
    uint64_t upto;             /* end of its requests in the failed queue */
};

/* A queue that has failed. */
struct gda_failed_queue {
    struct gda_failed_queue *next;
    uint32_t number; /* index of the queue, see gda_all_queues() */
    int pe;
    bool on_gpu; /* The NIC's part of the queue is in GPU memory. */
    enum gda_queue_state state;
    bool busy; /* A pass is executing its requests; a pass within that one leaves it alone. */
    const struct gda_qp *qp;
    struct weft_dev_gda_queue q; /* The constant part of the queue, and its counts when it failed */
    uint32_t executed;           /* messages that this end has executed for the peer, 24 bits */
    uint64_t done;               /* the first block that is not executed yet */
    uint64_t noticed_ns;         /* time when the failure was noticed */
    struct gda_batch batch;
};

enum { GDA_MAIL_QUEUES = 32, GDA_COUNTED = 1u << 31 };
#define GDA_DOWN_AFTER                                                                             \
    ((uint64_t)150 * 1000 * 1000) /* ns; a shorter interruption loses nothing                      \
                                   */

/* What a sender has reported of its queues to the receiver: their numbers are in the mail; they are
 * connected to the receiver's, whose numbers it has read. */
enum gda_step { GDA_STEP_NONE, GDA_STEP_OFFERED, GDA_STEP_CONNECTED };

/* Where a PE leaves messages for another one: row `sender` of the receiver's mail. */
struct gda_mail {
    /* By queue name: from GDA_STEP_OFFERED on the number of the sender's queue, until the link is
     * up. Then 0 or such a number: the queue works. GDA_COUNTED | the number of messages that the
     * sender has executed on its end: it has stopped the queue. */
    uint32_t queues[GDA_MAIL_QUEUES];
    uint64_t step; /* enum gda_step */
    /* An atomic on memory of the receiver, which the sender waits for. `number` is written last. */
    struct gda_delegated {
        uint64_t number;
        uint64_t offset, value, expected;
        uint32_t segment, amo, width, pad;
    } delegated;
    /* The old value that the receiver's last delegated atomic returned. `number` is written last.
     */
    struct gda_answer {
        uint64_t number, value;
    } answer;
    /* Bit a: NIC a of the sender executes nothing by DC any more. */
    uint32_t stopped, pad;
    uint64_t bells; /* bit b of row r: PE 64 r + b has left something */
};

/* How this PE reaches another one over the other path, made at its first use. */
struct gda_spare {
    struct peer peer;
    /* Last delegated atomic of this PE there, and of that PE here. */
    uint64_t sent, served;
};

/* A link that is being connected. */
struct gda_new_link {
    struct gda_new_link *next;
    int pe;
    bool owes_counts;  /* It is up and stopped; the peer does not know yet what was executed. */
    bool failed;       /* The job ends for it. */
    uint32_t adapter;  /* the NIC under test */
    uint64_t begun_ns; /* start of the present step */
};

/* Which links may not begin: see gda_hold_links(). */
enum gda_hold { GDA_HOLD_NONE, GDA_HOLD_WANTED, GDA_HOLD_ALL };

struct gda_failover {
    struct gda *gda;
    pthread_t thread;
    bool started;
    pid_t process; /* process that started the thread */
    atomic_bool stop;
    uint32_t *alarm;      /* see enum weft_dev_gda_alarm */
    atomic_uchar *states; /* enum gda_queue_state of each queue */
    struct gda_failed_queue *failed_queues;
    struct gda_new_link *new_links;
    atomic_int pending;   /* links that are being begun or connected */
    atomic_int hold;      /* enum gda_hold */
    atomic_bool reread;   /* offers may have come during GDA_HOLD_ALL */
    pthread_mutex_t lock; /* for `woken`: the thread sleeps */
    pthread_cond_t woken;
    struct path_state *spare; /* context of the other path */
    struct path_state *own;   /* context of path gda, for atomics through this PE's own NICs */
    const struct path_ops *spare_ops; /* the other path */
    struct gda_spare *spares; /* [npes] see gda_spare(); memory that nothing touches before */
    struct peer self;         /* this PE over path gda */
    struct serve *serve;      /* executes operations on this PE's own memory */
    uint64_t checked_ns;      /* time of the last check of ports and queues */
    uint32_t next_check;      /* next queue in GPU memory to check */
    uint64_t down_ns[GDA_ADAPTERS_MOST]; /* time when the port was first seen down; 0: it is up */
    uint32_t stopped;                    /* bit a: NIC a has failed, as peers by DC know */
    bool warned[GDA_ADAPTERS_MOST];      /* a failure of the NIC has been reported */
    bool ends_link;                      /* all queues to a PE are being stopped */
    weft_status lost;                    /* why requests are lost, for GDA_QUEUE_LOST */
    char sentence[320];
};

/* Index of a queue: of gda->queues, or behind them of gda->gpu_queues. */
uint32_t gda_all_queues(const struct gda *gda);

/* The NIC of the queue. */
uint32_t gda_queue_adapter(const struct gda *gda, uint32_t number);

/* Number of queues to a PE, those in GPU memory included. */
uint32_t gda_link_queues(const struct gda *gda);

/* Name of the queue in the mail, the same at both ends; `number` as above. */
uint32_t gda_queue_name(const struct gda *gda, uint32_t number);

/* Reports the failure of a queue to PE pe through NIC a, and what replaces the NIC for the peer.
 * number: of the queue pair; 0: of any. */
void gda_report_failure(struct gda_failover *f, int pe, uint32_t a, uint32_t number,
                        const char *cause);

/* Wakes the failover thread, which looks at the links that this PE wants. */
void gda_raise_alarm(struct gda_failover *f);

/* Whether a queue from one of this PE's NICs to itself has failed. */
bool gda_lost_own_queue(const struct gda_failover *f);

/* Reports to PE pe how many messages its stopped queues have executed. */
weft_status gda_report_counts(struct gda_failover *f, int pe);

/* Stops all queues to a PE, whose requests are executed over the other path from now on. */
void gda_stop_link(struct gda_failover *f, int pe, const char *cause);

/* Stops failed queues, answers peers, and executes their delegated atomics. Returns whether there
 * were any. The failover thread also calls it while it waits: a peer may wait for this PE. */
bool gda_notice_failures(struct gda_failover *f);

/* ------------------------------------------------------------------------------------- mail.c */

struct gda_mail *gda_mail_of(const struct gda *gda, int sender);

/* PE pe over the other path. */
struct gda_spare *gda_spare(struct gda_failover *f, int pe);

/* A field of this PE's row in the mail of PE pe, for struct path_ops of the other path. */
struct remote gda_mail_field(struct gda_failover *f, int pe, size_t field);

/* Tells PE pe that there is something in its mail. */
weft_status gda_ring_mail(struct gda_failover *f, int pe);

/* Reports to the peer how many messages this end of the queue pair has executed. */
weft_status gda_report_count(struct gda_failover *f, const struct gda_failed_queue *queue);

/* Executes the atomic that PE pe has left for this PE. Returns whether there was one. */
bool gda_execute_delegated(struct gda_failover *f, int pe);

/* Executes an atomic on memory of PE pe. */
weft_status gda_atomic_anywhere(struct gda_failover *f, struct remote at, weft_amo amo,
                                size_t width, uint64_t value, uint64_t expected, uint64_t *before);

/* -------------------------------------------------------------------------------- first_use.c */

/* Begins links that this PE wants, or that PE pe has offered. */
void gda_begin_wanted_links(struct gda_failover *f);
void gda_begin_offered_link(struct gda_failover *f, int pe);

/* Whether the peer still needs the numbers in its mail. */
bool gda_needs_numbers(const struct gda_failover *f, int pe);

/* Stops links that are being connected. A peer may use their NIC already. */
void gda_stop_new_links(struct gda_failover *f, const char *cause);

/* A test of a queue to PE pe writes this value, which differs in every byte, plus the number of the
 * NIC, to word 0 there, reads it back, and adds it to word 1. */
#define GDA_TEST_VALUE 0x9e3779b97f4a7c15u
struct weft_dev_gda_place gda_test_word(const struct gda *gda, int pe, uint32_t adapter, int i);

/* Takes the next step of each new link. Returns whether there was one to take. */
bool gda_advance_links(struct gda_failover *f);
void gda_free_new_links(struct gda_failover *f);

/* --------------------------------------------------------------------------------- takeover.c */

/* What a request in a send ring is. */
struct gda_wqe {
    uint32_t opcode, modifier, blocks;
    bool message; /* The peer's NIC counts it. */
    bool fetches; /* It is a read, or an atomic whose result is used. */
};

/* The remote address of a message. */
uint64_t gda_wqe_remote(const void *blocks);

/* The segment of the local memory of a request, NULL if its data are inline, and the data's
 * bytes. */
char *gda_wqe_data(void *blocks, uint32_t *bytes);

/* Finds the segment that an address of PE pe is in. */
bool gda_find_remote(struct gda_failover *f, int pe, uint64_t address, struct remote *at);

/* Copies up to `count` blocks of the send ring from block `at` on. */
enum { GDA_WQE_BLOCKS_MOST = WEFT_DEV_GDA_INLINE_BLOCKS };
weft_status gda_copy_blocks(const struct gda *gda, const struct gda_failed_queue *queue,
                            uint64_t at, uint32_t count, void *to);

/* Reads the head of a request; `blocks` holds it whole. */
struct gda_wqe gda_wqe_head(const struct gda_failed_queue *queue, const void *blocks);

/* Executes one request. It is complete after a quiet of the other path. */
weft_status gda_execute(struct gda_failover *f, const struct gda_failed_queue *queue,
                        const void *blocks);

/* Fails if the result of an executed atomic has not arrived. */
weft_status gda_check_result(struct gda_failover *f, const struct gda_failed_queue *queue,
                             const void *blocks);

/* Executes up to a batch of what has been posted, and reports it as complete. *any: there was
 * something. */
weft_status gda_execute_posted(struct gda_failover *f, struct gda_failed_queue *queue, bool *any);

/* The block up to which requests have been posted, by the doorbell record. */
weft_status gda_posted_end(const struct gda *gda, const struct gda_failed_queue *queue,
                           uint64_t *end);

/* Writes the completion entry: the first `done` blocks are complete. */
weft_status gda_complete_blocks(const struct gda *gda, const struct gda_failed_queue *queue,
                                uint64_t done);

/* ---------------------------------------------------------------------------------- reissue.c */

/* Takes the next step of giving the queue's requests to another NIC. *any: it has done something.
 * *left: the next request must be executed in another way, because no NIC works, or because it is
 * an atomic. */
weft_status gda_reissue(struct gda_failover *f, struct gda_failed_queue *queue, bool *any,
                        bool *left);

#endif

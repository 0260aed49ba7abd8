/* SPDX-License-Identifier: Apache-2.0 */
/* Internal header of path net. Each PE has one libfabric endpoint per NIC ("rail"). An operation
 * uses one of three methods:
 *
 * Requests: small puts, atomics, signals and single values are records in messages to the PE that
 * owns the memory (message.c). Threads of that PE execute them on its own memory (serve.c), so they
 * are atomic with the accesses of that PE and its node, whatever atomics the provider has. A PE
 * executes the requests of one peer in the order in which the peer sent them. Messages have
 * sequence numbers; the owner acknowledges the last one that it has executed. If a NIC fails,
 * unacknowledged messages are retransmitted over another one (move.c).
 * Direct: larger puts and gets between host memories are RMA writes and reads (direct.c).
 * Staged: larger puts and gets with GPU memory are cut into fragments. The NIC accesses GPU memory
 * directly if a path test has shown that it can, else through pinned host memory (stage.h).
 *
 * One lock guards all state and all libfabric calls, so that providers need no locks of their own.
 * A thread that waits polls the completion queues; a progress thread (progress.c) polls while the
 * application computes. */
#ifndef WEFT_PATH_NET_NET_H
#define WEFT_PATH_NET_NET_H

#include "base/cpus.h"
#include "base/siphash.h"
#include "base/status.h"
#include "driver/fabric.h"
#include "path/net/choose.h"
#include "path/net/pick.h"
#include "path/net/wire.h"
#include "path/path.h"
#include "path/serve.h"

#include <pthread.h>

enum {
    NET_MESSAGE_BYTES = 8192,   /* bytes of a message, including its head */
    NET_WINDOW = 32,            /* unacknowledged messages to a peer */
    NET_EARLY_MOST = 8192,      /* a message this far ahead of the next in order is dropped */
    NET_CHUNK_BYTES = 16 << 20, /* bytes of a segment that are registered at a time */
    NET_SENTENCE_BYTES = 384,   /* bytes of an error text */
    NET_REASON_BYTES = 224,     /* bytes of a text that says why a NIC does not reach GPU memory */
};

/* ------------------------------------------------------------------------------ data structures */

/* Both sides of an RMA operation. */
struct net_ends {
    struct net_key keys[NET_RAILS]; /* remote side, by rail of the peer; base: its first byte */
    void *descriptors[NET_RAILS];   /* local side, by rail of this PE */
    uint8_t rails;                  /* bit per rail of this PE that can be used */
};

struct path_common;
struct net_peer;

/* First member of each object that is posted to libfabric: the completion returns its address. */
struct net_post {
    struct fi_context2 context; /* belongs to libfabric while the operation is in flight */
    enum net_post_kind {
        NET_POST_SEND,
        NET_POST_RECEIVE,
        NET_POST_DIRECT,
        NET_POST_STAGED,
        NET_POST_STRIPE
    } kind;
    bool counted_read; /* The operation is counted in rail->reads_in_flight. */
    struct net_peer *peer;
};

/* A message is free when it is not in flight, not queued and not unacknowledged. */
struct net_message {
    struct net_post post;
    struct net_message *next;
    void *const *descriptors; /* local descriptors by rail; NULL: the provider needs none */
    uint64_t serve_count;     /* The message is executed when `serve` has completed this many. */
    bool in_flight;           /* libfabric has the message, on `rail`. */
    bool queued;              /* The message is in net->sends.blocked. */
    bool unacknowledged;      /* The message is in its peer's list for retransmission. */
    bool is_probe;
    uint8_t rail;
    uint64_t sequence; /* from 1, counted apart for requests and answers; 0: a probe */
    struct net_message *next_unacknowledged;
    struct net_envelope *envelope; /* the encrypted message; NULL: messages are not encrypted */
    uint32_t encrypted_bytes; /* bytes of `envelope`, which is to be posted; 0: not encrypted yet */
    _Alignas(8) unsigned char bytes[NET_MESSAGE_BYTES];
};

/* The secrets of messages from one PE to another (words.c). */
struct net_session {
    uint64_t auth_word;
    uint64_t first_request; /* value on the wire of sequence number 0 of requests */
    uint64_t first_answer;  /* value on the wire of sequence number 0 of answers */
};

/* How the rails of this PE reach a peer. */
struct net_peer_rails {
    fi_addr_t address[NET_RAILS];    /* by rail; FI_ADDR_NOTAVAIL: the rail does not reach it */
    uint8_t peers[NET_RAILS];        /* the peer's rail that each rail of this PE reaches */
    uint8_t closed;                  /* bit per rail of the peer that the peer has closed */
    uint8_t close_requested;         /* bit per rail of the peer that it was asked to close */
    uint8_t close_demanded;          /* bit per rail of this PE that the peer wants closed */
    struct net_key *keys[SEG_COUNT]; /* NET_RAILS keys for each chunk (stripe_memory.c) */
};

/* Messages in flight to and from a peer, and the state of the rail that carries them (move.c). */
struct net_link {
    uint8_t rail;                       /* index of the rail that carries messages to the peer */
    struct net_message *unacknowledged; /* list of messages to retransmit if the rail fails */
    uint64_t answers_sent, answers_received; /* sequence number of the last one */
    uint64_t silent_ns;     /* time without a message over `rail` while one is due */
    uint64_t probed_ns;     /* silent_ns at the last probe */
    uint64_t unanswered_ns; /* time since a message was sent that requests no acknowledgement */
    bool probed;            /* The last probes were posted on every rail. */
    uint8_t live_rails;     /* bit per rail that has received something during silent_ns */
    uint64_t live_ns;       /* silent_ns when the first bit of live_rails was set */
    uint8_t failed_probes;  /* bit per rail on which a probe has failed */
    char suspected_failure[NET_SENTENCE_BYTES];   /* error text of `rail`; "" if none */
    char suspected_cause[128];                    /* cause within suspected_failure */
    uint32_t pending_answers, fragments, directs; /* requests with an answer, fragments on rails and
                                                     direct operations that are in flight */
    uint64_t unconfirmed_write; /* sequence number of the message whose completion confirms the last
                                   RMA write that cannot be retransmitted */
};

/* Requests of this PE to a peer. */
struct net_requests {
    struct net_message *open; /* message that is being filled; NULL if none */
    uint64_t last_sent;       /* sequence number of the last message of requests */
    uint64_t acknowledged;    /* sequence number up to which the peer has executed them */
    uint64_t ack_requested;   /* last sequence number sent with NET_ACK_REQUEST */
    bool quiet_follows;       /* A quiet has followed each of the last messages without answers. */
    bool guessed_quiet;       /* The last message requested an acknowledgement for such a quiet. */
    uint64_t blocked_retry;   /* value of sends.retries when the provider last returned FI_EAGAIN */
};

/* A peer's GPU memory, as the NICs reach it. */
struct net_peer_gpu {
    struct net_extents *regions; /* registered memory (hmem.c) */
    enum { NET_GPU_UNTESTED, NET_GPU_DIRECT, NET_GPU_STAGED } access; /* result of the path test */
    uint8_t rails;                 /* bit per rail of this PE that passed the path test */
    bool dmabuf;                   /* The peer registered its GPU memory by dma-buf. */
    bool needs_flush;              /* The peer must flush NIC writes to its GPU memory. */
    bool written;                  /* Such writes have been posted since the last message. */
    char reason[NET_REASON_BYTES]; /* why the NIC does not reach the peer's GPU memory */
};

/* Requests of a peer to this PE. */
struct net_served {
    uint64_t begun;                /* sequence number of the last message begun, in order */
    uint64_t handled;              /* sequence number of the last message executed */
    unsigned char *staging_buffer; /* this PE's staging buffer for the peer */
    size_t staging_bytes;
    struct net_slab *staging_slab;
    bool answer_queued;                 /* The peer is in sends.to_answer. */
    struct net_message *open_answers;   /* message of answers that is being filled */
    struct net_message *early_requests; /* requests ahead of the next in order */
    struct net_message *early_answers;  /* answers ahead of the next in order */
    struct net_peer *next_to_answer;
};

struct net_peer {
    bool begun; /* The other fields are valid (peer.c). */
    int pe;
    struct net_session outgoing; /* messages from this PE to the peer */
    struct net_session incoming; /* messages from the peer to this PE */
    struct net_peer_rails rails;
    struct net_link link;
    struct net_requests requests;
    struct net_served served;
    struct net_peer_gpu gpu;
    struct net_key *keys[SEG_COUNT]; /* by chunk; NULL: no key of that segment is known */
    struct net_stage *stage;         /* staging state (stage.c); NULL before the first use */
    weft_status failed;              /* WEFT_OK, or why this PE sends nothing more to the peer */
    bool launcher_queried;           /* The launcher has had time to report why the peer failed. */
    char sentence[NET_SENTENCE_BYTES];
};

/* Operations of one context at one peer. */
struct net_channel {
    uint64_t last_message;   /* sequence number of the last message with a request of the context */
    uint64_t fence_message;  /* RMA writes wait until the peer has acknowledged this message. */
    uint32_t writes, reads;  /* RMA writes; RMA reads and staged gets that are in flight */
    uint32_t striped_writes; /* the `writes` on any rail, which no message follows in order */
    uint32_t sources_in_use; /* fragments of staged puts whose source is still read */
    uint32_t unnotified;     /* fragments of staged puts that the peer was not notified of */
    bool fence_writes;       /* The next operation waits until `writes` is 0. */
    bool fence_unnotified;   /* The next operation waits until `unnotified` is 0. */
    bool unconfirmed;        /* RMA writes whose arrival no message has confirmed */
    bool confirm_after_writes; /* The message that confirms them waits until `writes` is 0. */
    bool touched;              /* The channel is in the context's list for the next quiet. */
};

struct net_state {
    struct path_common *net;
    struct net_channel *channels; /* [npes] */
    int *touched;                 /* [npes] PEs whose channel is `touched` */
    int touched_count;
    uint32_t in_flight; /* operations, fragments and answers that point to this context */
    bool closed;        /* The context is freed when in_flight is 0. */
    weft_status failed; /* failure of an operation that no caller waits for */
    char sentence[NET_SENTENCE_BYTES];
    struct net_state *next;
};

static inline struct net_state *net_state_of(struct path_state *opaque)
{
    return (struct net_state *)(void *)opaque;
}

/* An RMA operation over the first rail. */
struct net_direct {
    struct net_post post;
    struct net_state *state;
    bool write;
    struct net_bounce *bounce; /* bounce buffer; NULL: the NIC uses the local side in place */
    void *destination;         /* where a get copies the bounce buffer to */
    size_t bytes;
    struct net_direct *next;
};

/* An answer that a request waits for. The request's token is the index in net->pending.answers, and
 * the generation of that entry. */
struct net_pending_answer {
    struct net_state *state;
    struct net_peer *peer;
    void *destination;
    size_t bytes, received_bytes;
    uint32_t generation;
    bool in_use, complete;
    bool detached; /* No caller waits; the entry is freed when the answer is complete. */
    weft_status status;
};

struct net_traits {
    bool delivery_complete; /* The provider confirms the arrival of a write (FI_DELIVERY_COMPLETE).
                             * If false, messages do not overtake writes, and an answer to a later
                             * message confirms them. */
    bool virtual_addresses; /* FI_MR_VIRT_ADDR */
    bool registers_local;   /* FI_MR_LOCAL */
    bool binds_memory;      /* FI_MR_ENDPOINT */
    bool cpu_executes_rma;  /* A CPU of the target PE executes RMA operations. */
    bool crashes_on_reads;  /* Closing the endpoint with reads in flight crashes the process. */
    bool reports_source;    /* FI_SOURCE: a completion carries the sender's address. */
    bool messages_only;     /* Messages are encrypted, and no memory is exposed to RMA. */
    bool rejects_unknown;   /* An address outside the address vector is no PE of the job. */
    size_t max_bytes;       /* bytes of an RMA operation at most */
};

struct net_fragment;
struct net_pin;
struct net_fragment_list {
    struct net_fragment *first, *last;
};

/* One NIC that this PE uses. rails[0] carries messages until it fails. */
struct net_rail {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
    int wait_descriptor; /* file descriptor of the completion queue; -1 if it has none */
    struct net_traits traits;
    uint64_t network; /* hash of the network's name; 0 if unknown */
    uint32_t mbps;    /* Mbit/s; 0 if unknown */
    bool hmem;        /* The domain was opened with FI_HMEM. */

    /* Large transfers (stripe.c). */
    struct net_rail_memory *memory;
    struct net_fragment_list fragments; /* in flight */
    size_t in_flight_bytes;             /* bytes of `fragments` */
    int unconfirmed;                    /* fragments whose confirming read is yet to be posted */
    size_t moved_bytes;                 /* bytes since busy_since_ns */
    bool connected;                     /* A fragment has completed on the rail. */
    uint64_t busy_since_ns;
    double bytes_per_ns;        /* measured rate; 0 before the first measurement */
    double rate_bytes, rate_ns; /* bytes and time that bytes_per_ns is computed from */
    uint64_t measured_ns;       /* time of the last measurement */
    bool would_block;           /* The last post returned FI_EAGAIN. */
    uint64_t stalled_ns;        /* time without a completion while fragments wait */
    bool liveness_requested;    /* A peer was asked whether it is live. */
    bool liveness_confirmed;    /* That peer has answered. */
    bool failure_reported;      /* The user was warned that the rail failed. */
    bool carried_messages;      /* The rail carried messages until it failed. */
    int receive_count;          /* receives that have been posted at the same time */
    int sends_in_flight;
    int reads_in_flight;
    uint64_t read_wait_ns; /* time since the failure without a completed read */
    uint64_t down_ns;      /* time since the link was first seen without a carrier; 0: it has one */
    bool left_open;        /* The objects stay open until the process ends. */
    char cause[128]; /* why the rail is given up, "" if it is not; `endpoint` is or becomes NULL */
};

/* Messages that libfabric has not taken yet. */
struct net_sends {
    struct net_message *free;
    struct net_message *blocked, **blocked_end; /* The provider returned FI_EAGAIN. */
    uint64_t retries;                           /* number of passes over `blocked` */
    struct net_peer *to_answer;                 /* list of peers to send answers to */
    bool answers_stopped;                       /* This PE sends no more answers. */
};

/* Answers that requests wait for: an array of `count` entries, which grows. */
struct net_pending {
    struct net_pending_answer *answers;
    uint32_t count, next;
};

/* Transfers through staging slots (stage.c). */
struct net_staging {
    struct net_stage *active; /* peers with staged fragments */
    size_t slot_bytes;        /* bytes of a staging slot, which holds one fragment */
    uint32_t slot_count;      /* slots of a staging buffer */
    bool needs_polling;       /* A fragment advances without a completion. */
};

/* Large transfers over the rails (stripe.c). */
struct net_striping {
    size_t least_bytes;              /* Transfers of this size or more are striped. */
    struct net_fragment_list queued; /* fragments that wait for a rail */
    struct net_pin *pins;            /* local memory registered for a transfer in flight */
    int fragment_count;              /* fragments queued and in flight on all rails */
    uint64_t checked_ns;             /* time of the last check of the rails */
};

/* Own GPU memory, as the NICs reach it. */
struct net_own_gpu {
    struct net_extents *regions;  /* registered memory (hmem.c) */
    char lacks[NET_REASON_BYTES]; /* why no NIC reaches it; "" if one may */
    bool queried;                 /* write_order is valid. */
    int write_order;              /* enum gpu_nic_writes */
    char *answer_buffer;          /* pinned memory for answers with GPU memory */
};

/* The thread that makes progress while no caller polls (progress.c). */
struct net_progress {
    pthread_t thread;
    bool started;
    pid_t process; /* process that started it */
    struct path_common *next_running;
    _Atomic bool stop;
    _Atomic uint32_t caller_polls; /* polls by callers, which make the thread back off */
    int wake_descriptor;           /* eventfd that ends the thread's sleep */
    struct net_state *poller;      /* context whose progress polls; NULL: the next one that calls */
};

/* What a PE keeps of its peers from the start (peer.c). */
struct net_start {
    uint8_t key[SIPHASH_KEY_BYTES]; /* the job's key, from which the sessions are derived */
    fi_addr_t *addresses;           /* [npes][rail_count], as in struct net_peer_rails */
    uint8_t *rails;                 /* [npes][rail_count], as in net_peer_rails.peers */
};

struct path_common {
    const struct path_world *world;
    const struct fabric *lib;
    char provider[64]; /* the same on every rail */
    struct net_rail rails[NET_RAILS];
    int rail_count;
    bool first_rail_carries; /* Large transfers use rails[0] too. */

    pthread_mutex_t lock;   /* guards all but `progress`, and every libfabric call */
    struct net_peer *peers; /* [npes]; net_get_peer() begins one at its first use. */
    struct net_start start;
    size_t begun_count;                /* peers that are begun */
    struct net_encryption *encryption; /* NULL: messages are not encrypted */
    struct net_sends sends;
    struct net_message *incomplete, **incomplete_end; /* begun and not complete, in order */
    struct net_pending pending;
    struct net_staging staging;
    struct net_striping striping;
    struct net_own_gpu gpu;
    struct net_progress progress;
    uint64_t peers_checked_ns; /* time of the last check of the peers */
    struct net_direct *free_directs;
    struct net_bounce *free_bounces;
    struct net_slab *slabs; /* memory of messages, bounce buffers and staging slots */
    struct net_memory *memory;
    bool proving;                        /* A path test is running. */
    char proof_failed[NET_REASON_BYTES]; /* error text of the path test; "" if none */
    uint64_t unauthenticated;            /* dropped messages of senders outside the job */
    uint64_t warned_ns;                  /* time of the last warning about them */
    struct net_state *closed_states;     /* closed contexts with operations in flight */
    struct serve *serve;                 /* executes the peers' requests */
    uint64_t events;    /* completions other than sends; a wait watches the number */
    weft_status failed; /* failure of the endpoint, not of one peer */
    char sentence[NET_SENTENCE_BYTES];
};

/* -------------------------------------------------------- offers.c: choice of provider and NICs */

/* The NICs that this PE opens, the one for messages first. */
struct net_selection {
    struct fi_info *info[NET_RAILS]; /* info[0] is the NIC that carries messages. */
    uint64_t network[NET_RAILS];     /* Hash of the network's name by NIC; 0 if unknown. */
    uint32_t mbps[NET_RAILS];
    int count;
    bool first_rail_carries; /* Large transfers use info[0] too. */
};

/* Selects the NICs that this PE opens. Collective over all PEs of the job. *selection is NULL if
 * none can be used; `lacks` then says why. `has` describes the selection. Both texts are those of
 * struct path_found. */
weft_status net_find_nics(const struct path_world *world, struct net_selection **selection,
                          char *lacks, char *has);
void net_free_selection(void *selection);

/* ------------------------------------------------------------------------- leftovers.c */

/* Removes files that killed processes left in /dev/shm. The caller runs it before it opens an
 * endpoint of provider shm. */
void net_remove_leftovers(const struct path_world *world);

/* -------------------------------------------------------------- open.c: endpoint, addresses */

/* Opens the endpoints and exchanges their addresses. Collective over all PEs of the job. It takes
 * ownership of the fi_info objects in `selection`. */
weft_status net_open(const struct path_world *world, struct net_selection *selection,
                     struct path_common **net);
void net_close(struct path_common *net);

/* take.c: the CPUs on the NUMA node of the NIC that carries messages. */
bool net_cpus(const struct path_common *net, cpu_set_t *cpus);

/* ------------------------------------------------------------- words.c: secrets of the messages */

/* Fills `bytes` with random bytes of the kernel. False if the kernel gives none; errno says why. */
bool net_random_bytes(void *bytes, size_t count);

/* Draws a random key for a memory registration, no longer than the provider's mr_key_size. Returns
 * 0 or a negative errno. */
int net_random_key(const struct net_rail *rail, uint64_t *key);

/* Derives the authentication words and the initial sequence numbers of this PE and the peer from
 * net->start.key. net_derive_incoming_word() returns the word in the peer's messages. */
void net_derive_session(const struct path_common *net, struct net_peer *peer);
uint64_t net_derive_incoming_word(const struct path_common *net, int pe);

/* ------------------------------------------------------------------------- peer.c (lock held) */

/* Allocates what is kept of each peer from the start, before there is a lock. False: no memory is
 * left. net_free_peers() frees it, and the peers. */
bool net_reserve_peers(struct path_common *net, int npes, int rail_count);
void net_free_peers(struct path_common *net, int npes);

/* See struct path_ops. */
size_t net_peer_bytes(int nics, int contexts);

/* Posts as many receives on the rail as the peers that are begun need. */
weft_status net_post_receives(struct path_common *net, int rail);

/* Makes the state of a peer. */
void net_begin_peer(struct path_common *net, int pe);

/* Whether messages to or from the peer may exist. In unit tests all peers are begun. */
static inline bool net_is_begun(const struct path_common *net, int pe)
{
    return net->peers[pe].begun || !net->start.addresses;
}

/* The peer's state, made at the first call. */
static inline struct net_peer *net_get_peer(struct path_common *net, int pe)
{
    if (unlikely(!net->peers[pe].begun))
        net_begin_peer(net, pe);
    return &net->peers[pe];
}

/* ------------------------------------------------------------------------ rails.c: the NICs */

/* Opens the domain, address vector, completion queue and endpoint of a rail whose `info` is set. */
weft_status net_open_rail(struct path_common *net, struct net_rail *rail);

/* Posts an RMA write or read with the context of `post`. Returns 0 or a negative libfabric
 * error. */
ssize_t net_post_rma(struct net_rail *rail, struct net_post *post, struct fi_msg_rma *message,
                     bool write);

/* Registers memory under a random key, and binds it to the endpoint if the provider requires
 * FI_MR_ENDPOINT. Returns 0 or a libfabric error; *memory is NULL on an error. */
int net_register_memory(struct net_rail *rail, const void *base, size_t bytes, uint64_t access,
                        struct fid_mr **memory);
int net_bind_memory(struct net_rail *rail, struct fid_mr **memory);

/* Closes the endpoint first, so that the NIC no longer accesses memory that the caller frees next;
 * net_close_objects() closes the rest. */
void net_close_endpoint(struct net_rail *rail);
void net_close_objects(struct net_rail *rail); /* everything but `info` */
void net_close_rail(struct path_common *net, struct net_rail *rail);

const char *net_interface_name(const struct net_rail *rail);

/* Names a resource limit that may explain an error: open files, which libfabric does not always
 * report, or locked memory, which NIC providers need for their queues. "" if no limit explains
 * it. */
void net_limit_text(const struct net_rail *rail, int error, char *text, size_t bytes);

/* Whether this process has reached its limit of open files. Providers then accept no connection and
 * report no error. */
bool net_out_of_descriptors(void);

/* Whether a CPU of the target PE executes the provider's RMA operations. */
bool net_cpu_executes_rma(const struct fi_info *info);

/* " at 10.1.0.2:4711": the peer's address on the rail. "" if the provider cannot print it. */
enum { NET_ADDRESS_TEXT_BYTES = 96 };
const char *net_address_text(const struct net_rail *rail, int rail_index,
                             const struct net_peer *peer, char text[NET_ADDRESS_TEXT_BYTES]);

/* Sets an error such as "fi_endpoint: Function not implemented (provider tcp;ofi_rxm on eth0)". */
weft_status net_call_failed(const struct path_common *net, const struct net_rail *rail,
                            const char *call, int error);

/* Takes the lock. It spins first: the holder releases the lock within a few microseconds, which is
 * less than the wake-up of a sleeping thread takes. */
static inline void net_lock(struct path_common *net)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&net->lock) == 0)
            return;
        cpu_relax();
    }
    pthread_mutex_lock(&net->lock);
}

/* ------------------------------------------------------------------ progress.c (lock held) */

/* Reads the completion queues of all rails, handles the completions and advances staged transfers.
 * Returns whether anything happened. */
bool net_poll(struct path_common *net);

/* Reads the completion queue of one rail. Returns the number of completions. */
int net_read_rail(struct path_common *net, struct net_rail *rail);

/* One iteration of a wait for `peer`: polls, and if nothing came, releases the lock and runs one
 * step of the job's wait. Fails if the peer, the endpoint or that step has failed. */
weft_status net_wait(struct path_common *net, struct net_peer *peer, struct path_wait *wait);

static inline struct path_wait net_make_wait(const struct path_common *net,
                                             const struct net_peer *peer,
                                             enum box_operation operation, uint64_t expected)
{
    return (struct path_wait){
        .world = net->world, .operation = operation, .pe = peer->pe, .expected = expected};
}

weft_status net_start_thread(struct path_common *net);
void net_stop_thread(struct path_common *net);

/* Receives what peers still send, before endpoints are closed. The caller does not hold the
 * lock. */
void net_drain(struct path_common *net);

/* Returns the peer's or the endpoint's failure as this thread's error, or WEFT_OK. It may release
 * the lock and wait for the launcher's report. */
weft_status net_check_failure(struct path_common *net, struct net_peer *peer);

/* Marks the peer failed: this PE sends nothing more to it. */
void net_fail_peer(struct path_common *net, struct net_peer *peer, weft_status status,
                   const char *sentence);

/* ------------------------------------------------------------------- message.c (lock held) */

/* Appends a record with `bytes` of payload to the open message for the peer. It may release the
 * lock and wait until the message window opens. */
weft_status net_add_request(struct net_state *state, struct net_peer *peer, size_t bytes,
                            struct net_record **record);

/* Sends the open message. `acknowledge`: the peer must report when it has executed the message. */
void net_flush_requests(struct path_common *net, struct net_peer *peer, bool acknowledge);

/* Sends the open message after requests without an answer. It requests an acknowledgement if a
 * quiet has followed each such message lately, which saves that quiet a message. */
void net_flush_unanswered(struct path_common *net, struct net_peer *peer);

/* Waits until the peer has acknowledged the message with this sequence number. The message may
 * still be open. */
weft_status net_await_acknowledged(struct path_common *net, struct net_peer *peer,
                                   uint64_t sequence);

/* Appends a record to the open message of answers. NULL if no memory is left; the peer is then
 * marked failed. */
struct net_record *net_add_answer(struct path_common *net, struct net_peer *peer, size_t bytes);
void net_send_answers(struct path_common *net);

/* Sends the message, or queues it if the provider returns FI_EAGAIN. */
void net_send_message(struct path_common *net, struct net_message *message);

struct net_message *net_new_message(struct path_common *net, struct net_peer *peer);
struct net_record *net_add_record(struct net_message *message, size_t bytes);

/* Frees the message unless it is in flight, queued or unacknowledged. */
void net_release_message(struct path_common *net, struct net_message *message);

/* Posts the message on a rail, encrypted if the job encrypts. Returns 0 or a negative libfabric
 * error. */
ssize_t net_post_send(struct path_common *net, struct net_message *message, int rail);

/* Writes the sequence numbers into the head. It runs right before each send. */
void net_write_sequences(const struct net_peer *peer, struct net_message *message);

void net_message_sent(struct path_common *net, struct net_message *message);

/* Handles a received message of `bytes` bytes. source: the sender's address, or FI_ADDR_NOTAVAIL if
 * the provider does not report it. */
void net_message_received(struct path_common *net, struct net_message *message, size_t bytes,
                          fi_addr_t source);

/* Handles a receive that ended with an error: the sender died within the message, or it is no PE of
 * the job. The buffer is posted again. */
void net_message_lost(struct path_common *net, struct net_message *message, int error);
void net_retry_sends(struct path_common *net);
struct net_message *net_alloc_message(struct path_common *net);
void net_free_message(struct path_common *net, struct net_message *message);
weft_status net_post_receive(struct path_common *net, int rail, struct net_message *message);

/* Appends a record to the open message if that needs no wait. NULL otherwise. */
struct net_record *net_try_add_request(struct net_state *state, struct net_peer *peer,
                                       size_t bytes);

/* Acknowledges the messages whose requests the GPU has completed. Returns whether there were
 * any. */
bool net_finish_incomplete(struct path_common *net);

static inline struct net_head *net_message_head(struct net_message *message)
{
    return (struct net_head *)(void *)message->bytes;
}

static inline void *net_payload(struct net_record *record)
{
    return record + 1;
}

/* ---------------------------------------------------------------------- move.c (lock held) */

/* Whether the rail reaches the peer and neither end has closed it or given it up. */
bool net_rail_usable(const struct path_common *net, const struct net_peer *peer, int rail);

/* A usable rail that differs from `rail` at both ends; -1 if there is none. */
int net_find_other_rail(const struct path_common *net, const struct net_peer *peer, int rail);

/* Keeps the message for retransmission until the peer acknowledges it. */
void net_retain_message(struct net_peer *peer, struct net_message *message);

/* Frees the peer's messages that it has acknowledged: requests up to `handled`, answers up to
 * `answered`. */
void net_release_acknowledged(struct path_common *net, struct net_peer *peer, uint64_t handled,
                              uint64_t answered);

/* Marks the peer's current rail as suspected failed. True if another rail reaches the peer; the
 * caller then goes on, and probes decide whether the rail or the peer has failed. */
bool net_mark_suspected(struct path_common *net, struct net_peer *peer, const char *sentence,
                        const char *cause);

/* Marks the peer failed with this sentence, and says so if no other rail reaches it. */
void net_give_up_peer(struct path_common *net, struct net_peer *peer, const char *sentence);

/* Records that something of the peer has arrived over the rail. */
void net_mark_live(struct net_peer *peer, int rail);
void net_answer_probe(struct path_common *net, struct net_peer *from, struct net_message *message);
void net_mark_probe_failed(struct net_peer *peer, int rail);

/* Checks whether each peer still sends what is due over its current rail and whether that rail's
 * link has a carrier, and probes the peers of which one is not so. */
void net_check_peers(struct path_common *net);

/* Whether the rail's link has had no carrier for long enough to give the rail up. */
bool net_lacks_carrier(const struct net_rail *rail);

/* Moves peers off a rail that is closed: their messages use another rail, and unacknowledged
 * messages are retransmitted. */
void net_reroute_peers(struct path_common *net, struct net_rail *rail);

/* Releases the unacknowledged messages of a failed peer. */
void net_drop_unacknowledged(struct path_common *net, struct net_peer *peer);

/* --------------------------------------------------------------------- serve.c (lock held) */

/* Begins the requests of a message. The caller has checked the head. */
void net_execute_records(struct path_common *net, struct net_peer *from,
                         struct net_message *message);

/* Sends the answers that had to wait until the message's requests were complete. */
void net_report_completed(struct path_common *net, struct net_peer *from,
                          struct net_message *message);

/* Sends this thread's last error to the peer, for a request that has no answer. The peer then gives
 * this PE up. */
void net_report_failure(struct path_common *net, struct net_peer *to, weft_status status);

/* -------------------------------------------------------------------------- ask.c (lock held) */

/* Allocates a token for a request whose answer of `bytes` bytes goes to `to`. */
weft_status net_new_answer_token(struct net_state *state, struct net_peer *peer, void *to,
                                 size_t bytes, uint64_t *token);

/* Waits for the answer and frees the token. Nothing is written to `to` afterwards. */
weft_status net_await_answer(struct path_common *net, uint64_t token);

/* Returns whether the answer has arrived. If so, sets *status and frees the token. */
bool net_poll_answer(struct path_common *net, uint64_t token, weft_status *status);

/* Frees the token of a request that is not sent or whose answer is no longer needed. */
void net_cancel_answer(struct path_common *net, uint64_t token);

/* Leaves the answer to the context's quiet: no caller waits for the token itself. */
void net_detach_answer(struct path_common *net, uint64_t token);

/* Sends a request with a struct net_query and waits for its answer of `bytes` bytes in `to`, unless
 * nbi. bytes_wanted: the value of net_query.bytes. */
weft_status net_send_query(struct net_state *state, struct net_peer *peer,
                           const struct net_record *query, uint32_t bytes_wanted, void *to,
                           size_t bytes, bool nbi);

/* Frees the detached answers of a failed peer: they will not arrive. */
void net_drop_answers(struct path_common *net, const struct net_peer *peer);

/* Handles a record of kind NET_DATA. */
void net_data_received(struct path_common *net, struct net_peer *from,
                       const struct net_record *record);

/* -------------------------------------------------------------------- memory.c (lock held) */

/* Registers a chunk of an own segment with the first rail at its first use. NULL if the provider
 * refuses. */
struct fid_mr *net_get_own_chunk(struct path_common *net, enum segment_id segment, size_t chunk,
                                 struct net_key *key);

/* The key of a chunk in a peer's segment on its first rail. The first call asks the peer and
 * waits. */
weft_status net_get_peer_key(struct net_state *state, struct net_peer *peer,
                             enum segment_id segment, size_t chunk, struct net_key *key);

/* Memory for the library's own use, registered with the first rail if the provider requires
 * FI_MR_LOCAL. net_alloc_message_slab() registers it with every rail. */
void *net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor);
void *net_alloc_message_slab(struct path_common *net, size_t bytes, void *const **descriptors);

/* The same, registered with every rail as local side of RMA operations and pinned for this PE's GPU
 * if it has one. */
void *net_alloc_pinned_slab(struct path_common *net, size_t bytes, void *const **descriptors);

/* Memory that is pinned for this PE's GPU and not registered with a NIC. */
void *net_alloc_gpu_slab(struct path_common *net, size_t bytes);

/* Allocates this PE's staging buffer for the peer at the first call, and returns its keys by rail.
 * known 0: the NIC does not reach it. */
void net_get_staging_buffer(struct path_common *net, struct net_peer *peer, size_t bytes,
                            struct net_key keys[NET_RAILS]);
void net_free_memory(struct path_common *net);

/* -------------------------------------------------------------------- direct.c (lock held) */

weft_status net_write(struct net_state *state, struct remote to, const void *src, size_t bytes);
weft_status net_read(struct net_state *state, struct remote from, void *dst, size_t bytes);
void net_direct_done(struct path_common *net, struct net_direct *direct, bool well);

/* --------------------------------------------------------------------- stage.c (lock held) */

/* Starts a transfer with GPU memory on at least one side; `device`: the local side is GPU memory.
 * The source of a put is in use while the channel's sources_in_use is not 0; the data of a get are
 * there when `reads` is 0. */
weft_status net_stage_transfer(struct net_state *state, struct remote at, void *local, size_t bytes,
                               bool device, bool write);

/* Advances every staged fragment as far as it goes without waiting. Returns whether any
 * advanced. */
bool net_stage_advance(struct path_common *net);

/* Whether a staged RMA operation that cannot be retransmitted is in flight to the peer. */
bool net_stage_has_unrecoverable(struct path_common *net, const struct net_peer *peer);

/* The rail is closed: the NIC completes nothing more on it. */
void net_stage_rail_closed(struct path_common *net, int rail);

/* Whether the operation belongs to a path test, whose failure does not fail the peer. */
bool net_stage_is_proof(const struct net_post *post);
void net_stage_completed(struct path_common *net, struct net_post *post, bool well);
void net_stage_slot_ready(struct path_common *net, struct net_peer *peer,
                          const struct net_result *result);

/* Frees the staging state after the GPU's copies have ended. */
void net_stage_free(struct path_common *net);

/* ------------------------------------------------------------------------ order.c (lock held) */

struct net_channel *net_touch_channel(struct net_state *state, int pe);
void net_drop_state(struct net_state *state);
void net_free_state(struct net_state *state);
weft_status net_open_state(const struct path_world *world,
                           struct path_state **state); /* lock not held */
void net_close_state(struct path_state *state);        /* lock not held */

/* Waits until the context's RMA writes at the peer, staged ones included, have arrived.
 * net_await_reads() waits for its gets. */
weft_status net_await_writes(struct net_state *state, struct net_peer *peer);
weft_status net_await_reads(struct net_state *state, struct net_peer *peer);

/* Waits until the sources of staged puts may be reused. net_await_sources() waits for those of all
 * puts. */
weft_status net_await_staged_sources(struct net_state *state, struct net_peer *peer);
weft_status net_await_sources(struct net_state *state, struct net_peer *peer);

/* Orders the context's next operations at the peer after its earlier ones. It only sets flags; the
 * next operation waits. */
void net_fence_channel(const struct path_common *net, struct net_channel *channel);

/* Waits for the fence before a request. net_order_write() also waits until the peer has executed
 * the requests in front, since an RMA write would overtake them. */
weft_status net_order_request(struct net_state *state, struct net_peer *peer);
weft_status net_order_write(struct net_state *state, struct net_peer *peer);

/* The work of a fence, and that of a quiet. */
weft_status net_order_context(struct net_state *state);
weft_status net_complete_context(struct net_state *state);

/* ---------------------------------------------------------------------------- net.c (lock held) */

/* Moves any number of bytes in messages. A get waits. */
weft_status net_put_by_requests(struct net_state *state, struct remote to, const void *src,
                                size_t bytes);
weft_status net_get_by_requests(struct net_state *state, struct remote from, void *dst,
                                size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of path net: one endpoint of libfabric per PE, over which every operation goes in one
 * of two ways.
 *
 * Requests: small puts, atomics, signals and single values are records in messages to the PE that
 * owns the memory (message.c), whose threads carry them out on its own memory (serve.c). So they
 * are atomic with the accesses of that PE and its node, whatever the provider's own atomics are,
 * and what a PE gives to one peer is carried out in the order in which it was given. Messages are
 * numbered; the owner tells up to which number it has carried them out. With several NICs they go
 * again over another when theirs fails (move.c).
 * Direct: larger puts and gets between host memories are remote writes and reads (direct.c).
 * Staged: larger ones from or to GPU memory go in pieces, in place where NICs were seen to reach
 * it, else through pinned host memory (stage.h).
 *
 * One lock guards all of it, calls of libfabric included, so that providers need none of their own.
 * Whoever waits polls; a thread (progress.c) polls for those who compute. */
#ifndef WEFT_PATH_NET_NET_H
#define WEFT_PATH_NET_NET_H

#include "base/cpus.h"
#include "base/siphash.h"
#include "driver/fabric.h"
#include "path/net/choose.h"
#include "path/net/pick.h"
#include "path/net/wire.h"
#include "path/path.h"
#include "path/serve.h"

#include <pthread.h>

enum {
    NET_MESSAGE_BYTES = 8192,   /* of a message, its head included */
    NET_WINDOW = 32,            /* messages to a peer that it has not told to be done */
    NET_EARLY_MOST = 8192,      /* a message this far ahead of its turn is not kept */
    NET_CHUNK_BYTES = 16 << 20, /* memory is registered in pieces of this size */
    NET_SENTENCE_BYTES = 384,
    NET_REASON_BYTES = 224,
};

/* ------------------------------------------------------------------------------ at this end */

/* The two ends of a transfer as NICs know them. */
struct net_ends {
    struct net_key keys[NET_RAILS]; /* by rail of the peer; base: of the first byte */
    void *descriptors[NET_RAILS];   /* of the local side, by rail of this PE */
    uint8_t rails;                  /* bit per rail of this PE with which it may be used */
};

struct path_common;
struct net_peer;

/* In front of whatever libfabric is given: it comes back with the completion. */
struct net_post {
    struct fi_context2 context; /* libfabric's own while the operation is under way */
    enum net_post_kind {
        NET_POST_SEND,
        NET_POST_RECEIVE,
        NET_POST_DIRECT,
        NET_POST_STAGED,
        NET_POST_STRIPE
    } kind;
    bool counted_read; /* it is one of rail->reads */
    struct net_peer *peer;
};

struct net_message {
    struct net_post post;
    struct net_message *next;
    void *const *descriptors; /* of the registered buffer, by rail; NULL where that wants none */
    uint64_t serve_count;     /* begun, and complete when so many requests of `serve` are */
    /* It is free when it is nothing of these. */
    bool in_flight;      /* libfabric has it, on `rail` */
    bool queued;         /* in the list of those that are to be sent */
    bool unacknowledged; /* it may have to go again; in the list of its peer */
    bool is_probe;
    uint8_t rail;
    uint64_t sequence; /* from 1 on, requests and answers apart; 0: a probe */
    struct net_message *next_unacknowledged;
    _Alignas(8) unsigned char bytes[NET_MESSAGE_BYTES];
};

/* What one PE writes into its messages to another (words.c). */
struct net_session {
    uint64_t auth_word;
    uint64_t first_request; /* number 0 of its requests, as it travels */
    uint64_t first_answer;  /* number 0 of its answers, likewise */
};

struct net_peer {
    int pe;
    struct net_session outgoing;  /* from this PE to the peer */
    struct net_session incoming;  /* from the peer to this PE */
    fi_addr_t address[NET_RAILS]; /* by rail; FI_ADDR_NOTAVAIL: not reached over that one */
    uint8_t peer_rail[NET_RAILS]; /* which of its own rails that is */
    uint8_t closed_rails;         /* bit per rail of its own: it has told that it is closed, */
    uint8_t close_requested;      /* has been asked to close it */
    uint8_t close_wanted;         /* bit per rail of this PE: it has asked for that */
    struct net_key *rail_keys[SEG_COUNT]; /* NET_RAILS for each chunk; stripe.c */
    /* Where messages to it go (move.c). */
    uint8_t current_rail;               /* the rail */
    struct net_message *unacknowledged; /* sent, and not known to have arrived */
    uint64_t answers_sent, answers_received;
    uint64_t silent_ns;    /* nothing has come over `via`, although something is due */
    uint64_t probed_ns;    /* when it was last probed, counted so; */
    bool probed;           /* it has been */
    uint8_t live_rails;    /* bit per rail that something has come over meanwhile, */
    uint64_t live_ns;      /* for the first time then */
    uint8_t failed_probes; /* bit per rail over which a probe has failed */
    char suspected_failure[NET_SENTENCE_BYTES]; /* what has failed over `via`; "" = nothing has */
    char suspected_cause[128];                  /* of that */
    uint32_t pending_answers, fragments,
        directs;                /* answers, pieces of large transfers, other accesses under way */
    uint64_t unconfirmed_write; /* a write that nobody sends again has left; message `loose`, when
                       it is done, confirms it */
    /* As the one who asks. */
    struct net_message
        *open_message;      /* being filled; goes when it is full, or when somebody wants it to */
    uint64_t last_sent;     /* number of the last message with requests */
    uint64_t acknowledged;  /* the owner has told that it is done with those up to here */
    uint64_t ack_requested; /* the last one that was sent with NET_TELL */
    bool quiet_follows; /* each message of requests without answers, lately: so they ask as well; */
    bool guessed_quiet; /* the last one has, and no quiet has come since */
    uint64_t blocked_retry; /* in this retry (path_common.retries) the provider took nothing */
    struct net_key *keys[SEG_COUNT]; /* by chunk; NULL: none of that segment is known */
    struct net_stage *stage;         /* stage.c; NULL: nothing has been staged yet */
    struct net_extents *gpu_regions; /* hmem.c: of its GPU memory */
    enum { NET_GPU_UNTESTED, NET_GPU_DIRECT, NET_GPU_STAGED } gpu_access;
    uint8_t gpu_rails;                 /* bit per rail of this PE over which it was proven */
    bool gpu_dmabuf;                   /* it is registered so */
    bool gpu_needs_flush;              /* what is written there is to be flushed */
    bool gpu_written;                  /* it has been, and no message has gone since */
    char gpu_reason[NET_REASON_BYTES]; /* it is refused */
    /* As the owner. */
    uint64_t begun;   /* messages begun, in order, */
    uint64_t handled; /* and complete */
    unsigned char *staging_buffer;
    size_t staging_bytes;
    struct net_slab *staging_slab;
    bool ack_wanted;                    /* the peer waits to be told of `handled` */
    bool answer_queued;                 /* in the engine's list of peers to be answered */
    struct net_message *open_answers;   /* being filled */
    struct net_message *early_requests; /* requests that came before their turn, */
    struct net_message *early_answers;
    struct net_peer *next_to_answer;
    weft_status failed;  /* nothing more goes to it */
    bool launcher_asked; /* the launcher has had time to tell why */
    char sentence[NET_SENTENCE_BYTES];
};

/* What a context has given to one peer. */
struct net_channel {
    uint64_t last_message;   /* number of the last message that has something of it */
    uint64_t fence_message;  /* direct operations wait until this one is done */
    uint32_t writes, reads;  /* direct operations under way, and staged gets */
    uint32_t striped_writes; /* those of the writes that are on rails: no message follows them */
    uint32_t sources_in_use; /* pieces of staged puts whose source is in use */
    uint32_t unnotified;     /* those of which the owner has not been sent word */
    bool fence_writes;       /* whatever comes next waits until no write is under way, */
    bool fence_unnotified;   /* until word of all pieces has been sent */
    bool unconfirmed;        /* writes have left whose arrival nobody has told */
    bool
        confirm_after_writes; /* the message that confirms them must not go before they are there */
    bool touched;             /* used since the last quiet: in the context's list */
};

struct path_state {
    struct path_common *net;
    struct net_channel *channels; /* [npes] */
    int *touched;                 /* [npes] PEs whose channel is */
    int touched_count;
    uint32_t in_flight; /* what points here: direct operations, pieces, answers that are awaited */
    bool closed;        /* freed when nothing points here any more */
    weft_status failed; /* of an operation that nobody waited for */
    char sentence[NET_SENTENCE_BYTES];
    struct path_state *next;
};

/* A direct operation. */
struct net_direct {
    struct net_post post;
    struct path_state *state;
    bool write;
    struct net_bounce *bounce; /* registered copy of the local side; NULL: it is used in place */
    void *destination;         /* where a get's bounce is copied to */
    size_t bytes;
    struct net_direct *next;
};

/* An answer that is awaited; `token` of its request is its number and how often that was used. */
struct net_pending_answer {
    struct path_state *state;
    struct net_peer *peer;
    void *destination;
    size_t bytes, received_bytes;
    uint32_t generation;
    bool in_use, complete;
    bool detached; /* nobody waits: freed when the answer is complete */
    weft_status status;
};

struct net_traits {
    bool delivery_complete; /* a write's completion means that it has arrived
                             * (FI_DELIVERY_COMPLETE); else messages do not overtake writes, so that
                             * an answer to one confirms it */
    bool virtual_addresses; /* FI_MR_VIRT_ADDR */
    bool registers_local;   /* FI_MR_LOCAL */
    bool binds_memory;      /* FI_MR_ENDPOINT */
    bool has_descriptor;    /* the completion queue has a file descriptor that can be polled */
    bool cpu_executes_rma;  /* remote accesses are carried out by a CPU of the owner */
    bool crashes_on_reads;  /* its endpoint cannot be closed while one is under way */
    bool reports_source;    /* FI_SOURCE: the completion of a message has its sender's address */
    bool rejects_unknown;   /* a sender whose address no PE has told is none of the job */
    size_t max_bytes;       /* bytes of a direct operation */
};

struct net_fragment;
struct net_pin;
struct net_fragment_list {
    struct net_fragment *first, *last;
};

/* One NIC that this PE uses. The first, rails[0], is the one that messages go over until it
 * fails. */
struct net_rail {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
    int wait_descriptor; /* of the completion queue, -1 = none */
    struct net_traits traits;
    uint64_t network; /* a number for its network; 0 = not told */
    uint32_t mbps;    /* 0 = not told */
    bool hmem;        /* opened with FI_HMEM */
    /* Of large transfers (stripe.c). */
    struct net_rail_memory *memory;
    struct net_fragment_list fragments; /* under way */
    size_t in_flight_bytes;             /* their bytes */
    int unconfirmed;                    /* pieces whose confirmation could not be posted yet */
    size_t moved_bytes;                 /* bytes since busy_since */
    bool connected;                     /* something has come through */
    uint64_t busy_since_ns;
    double bytes_per_ns;                         /* bytes a nanosecond, as measured; 0 = not yet */
    double rate_bytes, rate_ns;                  /* of which it is made, */
    uint64_t measured_ns;                        /* when */
    bool would_block;                            /* it took nothing when it was last tried */
    uint64_t stalled_ns;                         /* nothing has moved */
    bool liveness_requested, liveness_confirmed; /* whether the peer is there; it is */
    bool failure_reported;                       /* of its failure */
    bool carried_messages;                       /* messages, until it failed */
    int sends_in_flight;                         /* messages under way */
    int reads_in_flight;                         /* remote reads under way; */
    uint64_t read_wait_ns;                       /* it has failed, and for so long none has come */
    bool left_open;                              /* its objects stay until the process ends */
    char cause[128]; /* why it is given up; "" = it is not. Then `endpoint` is or will be NULL */
};

struct path_common {
    const struct path_world *world;
    const struct fabric *lib;
    char provider[64]; /* the same on every rail */
    struct net_rail rails[NET_RAILS];
    int rail_count;
    bool first_rail_carries; /* large transfers go over rails[0] too */
    size_t stripe_bytes;     /* transfers from this size on go over rails */

    pthread_mutex_t lock;   /* guards all below, and every call of libfabric */
    struct net_peer *peers; /* [npes] */
    struct net_message *free_messages;
    struct net_message *blocked_sends,
        **blocked_sends_end; /* refused by the provider for now (FI_EAGAIN) */
    uint64_t retries;
    struct net_peer *to_answer;
    bool answers_stopped;                             /* no more answers are given */
    struct net_message *incomplete, **incomplete_end; /* begun and not complete, in order */
    struct net_stage *active_stages;                  /* that have something under way */
    size_t slot_bytes;                                /* of a room's part, one piece each, */
    uint32_t slot_count;                              /* of which it has so many */
    bool needs_polling;                        /* some piece goes on without anything coming */
    struct net_fragment_list queued_fragments; /* of large transfers, waiting for a rail */
    struct net_pin *pins;      /* local memory that is registered for some of them */
    int fragment_count;        /* all pieces */
    uint64_t rails_checked_ns; /* when rails were last looked at, */
    uint64_t peers_checked_ns; /* and peers */
    struct net_direct *free_directs;
    struct net_bounce *free_bounces;
    struct net_pending_answer *pending_answers; /* array, grows */
    uint32_t pending_count, pending_next;
    struct net_slab *slabs; /* what messages and bounce buffers are made of */
    struct net_memory *memory;
    struct net_extents *own_gpu_regions; /* hmem.c: GPU memory that the NIC reaches */
    char gpu_lacks[NET_REASON_BYTES];    /* why it reaches none; "" = it may */
    bool gpu_queried;
    int gpu_write_order; /* enum gpu_nic_writes */
    bool proving;
    char proof_failed[NET_REASON_BYTES];
    uint64_t unauthenticated;         /* messages dropped because no PE of the job has sent them */
    uint64_t warned_ns;               /* when that was last reported */
    struct path_state *closed_states; /* contexts that something still points to */
    struct path_state *poller;        /* whose progress looks for completions; NULL: the next */
    struct serve *serve;              /* carries out what peers ask for */
    char *gpu_answer_buffer;          /* GPU memory here on its way into messages */
    uint64_t events;    /* completions so far, but for messages that left: what a wait looks at */
    weft_status failed; /* of the endpoint, not of one peer */
    char sentence[NET_SENTENCE_BYTES];

    pthread_t thread;
    bool thread_started;
    pid_t process;
    struct path_common *next_running;
    _Atomic bool stop;
    _Atomic uint32_t caller_polls; /* by callers: while they poll, the thread need not */
    int wake_descriptor;           /* eventfd that ends the thread's sleep */
};

/* ------------------------------------------------------------- offers.c: what libfabric has */

/* What this PE is going to open. */
struct net_selection {
    struct fi_info *info[NET_RAILS]; /* the first: what messages go over */
    uint64_t network[NET_RAILS];     /* numbers for their networks; 0 = not told */
    uint32_t mbps[NET_RAILS];
    int count;
    bool first_rail_carries; /* large transfers go over the first too */
};

/* Chooses together with all PEs: what to open, or NULL, and in `lacks` why nothing. `has`: that in
 * words. Both are those of struct path_found. */
weft_status net_find_nics(const struct path_world *world, struct net_selection **selection,
                          char *lacks, char *has);
void net_free_selection(void *selection);

/* ------------------------------------------------------------------------- leftovers.c */

/* Before an endpoint of provider shm is opened. */
void net_remove_leftovers(const struct path_world *world);

/* -------------------------------------------------------------- open.c: endpoint, addresses */

/* Collective. Takes what `taken` holds. */
weft_status net_open(const struct path_world *world, struct net_selection *selection,
                     struct path_common **net);
void net_close(struct path_common *net);

/* take.c: the CPUs next to the NIC that messages go over. */
bool net_cpus(const struct path_common *net, cpu_set_t *cpus);

/* --------------------------------------------------- words.c: what strangers cannot guess */

/* Random bytes; false: the system gives none (errno). */
bool net_random_bytes(void *bytes, size_t count);

/* A random key for a registration, of as many bytes as the provider has for one. An error of
 * libfabric. */
int net_random_key(const struct net_rail *rail, uint64_t *key);

/* Words and first numbers of all pairs with this PE, from the key of the job. */
void net_derive_sessions(struct path_common *net, const uint8_t key[SIPHASH_KEY_BYTES]);

/* ------------------------------------------------------------------------ rails.c: the NICs */

/* Opens endpoint and completion queue of a rail whose `info` is set. */
weft_status net_open_rail(struct path_common *net, struct net_rail *rail);

/* Posts a remote access, with the context of `post`. */
ssize_t net_post_rma(struct net_rail *rail, struct net_post *post, struct fi_msg_rma *message,
                     bool write);

/* Registers memory under a random key, with the endpoint where the provider wants that. An error
 * of libfabric: *memory is NULL. */
int net_register_memory(struct net_rail *rail, const void *base, size_t bytes, uint64_t access,
                        struct fid_mr **memory);
int net_bind_memory(struct net_rail *rail, struct fid_mr **memory);

/* The endpoint goes first, so that nothing moves in memory that is freed after it; then the
 * rest. */
void net_close_endpoint(struct net_rail *rail);
void net_close_objects(struct net_rail *rail); /* all but `info` */
void net_close_rail(struct path_common *net, struct net_rail *rail);

const char *net_interface_name(const struct net_rail *rail);

/* What may lie behind an error, "" = nothing is known: want of descriptors, which libfabric does
 * not always name, or of memory that may be locked, which providers of NICs do with what they
 * use. */
void net_limit_text(const struct net_rail *rail, int error, char *text, size_t bytes);

/* Whether this process may open no more files: providers then take no connection, and say
 * nothing. */
bool net_out_of_descriptors(void);

/* Whether a CPU of the owner carries out remote accesses. */
bool net_cpu_executes_rma(const struct fi_info *info);

/* " at 10.1.0.2:4711", where the peer is reached over the rail; "" where the provider does not
 * tell. */
enum { NET_ADDRESS_TEXT_BYTES = 96 };
const char *net_address_text(const struct net_rail *rail, int rail_index,
                             const struct net_peer *peer, char text[NET_ADDRESS_TEXT_BYTES]);

/* "fi_endpoint: Function not implemented (provider tcp;ofi_rxm on eth0)" */
weft_status net_call_failed(const struct path_common *net, const struct net_rail *rail,
                            const char *call, int error);

/* Takes the lock. Whoever has it is done in a few microseconds, sooner than a sleeping thread
 * wakes. */
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

/* Reads completions, and does what they ask for. Whether there were any. */
bool net_poll(struct path_common *net);

/* Those of one rail; how many. */
int net_read_rail(struct path_common *net, struct net_rail *rail);

/* One turn of a wait for `peer`: polls, and when nothing comes, takes a step of the job's own wait,
 * without the lock. Fails when the peer or the endpoint has, or when that step does. */
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

/* Before endpoints are closed: takes what is still coming. Without the lock. */
void net_drain(struct path_common *net);

/* The peer's failure as a status of this thread; WEFT_OK: it has none. May wait, without the
 * lock. */
weft_status net_check_failure(struct path_common *net, struct net_peer *peer);

/* Nothing more goes to the peer. */
void net_fail_peer(struct path_common *net, struct net_peer *peer, weft_status status,
                   const char *sentence);

/* ------------------------------------------------------------------- message.c (lock held) */

/* Room for a record with `bytes` behind it, in the message to the peer that is being filled. May
 * wait for the window, without the lock meanwhile. */
weft_status net_add_request(struct path_state *state, struct net_peer *peer, size_t bytes,
                            struct net_record **record);

/* Sends what has been filled; `tell`: the owner shall tell when it is done. */
void net_flush_requests(struct path_common *net, struct net_peer *peer, bool acknowledge);

/* The same after requests that nobody answers: where a quiet has followed each such message lately,
 * this one asks as that quiet would. */
void net_flush_unanswered(struct path_common *net, struct net_peer *peer);

/* Waits until the owner is done with message `number`, which need not have been sent. */
weft_status net_await_acknowledged(struct path_common *net, struct net_peer *peer,
                                   uint64_t sequence);

/* Room for a record of an answer. NULL: no memory, and the peer has been given up. */
struct net_record *net_add_answer(struct path_common *net, struct net_peer *peer, size_t bytes);
void net_send_answers(struct path_common *net);

/* Queues it, or sends it at once. */
void net_send_message(struct path_common *net, struct net_message *message);

struct net_message *net_new_message(struct path_common *net, struct net_peer *peer);
struct net_record *net_add_record(struct net_message *message, size_t bytes);

/* Gives it back, unless something still needs it. */
void net_release_message(struct path_common *net, struct net_message *message);

/* The numbers in its head, as they are when it goes. */
void net_write_sequences(const struct net_peer *peer, struct net_message *message);

void net_message_sent(struct path_common *net, struct net_message *message);

/* A message of `bytes` bytes has come into the buffer; source: its sender's address,
 * FI_ADDR_NOTAVAIL = unknown. */
void net_message_received(struct path_common *net, struct net_message *message, size_t bytes,
                          fi_addr_t source);

/* What came into the buffer is no whole message: its sender has died, or sends what none of the
 * job would. */
void net_message_lost(struct path_common *net, struct net_message *message, int error);
void net_retry_sends(struct path_common *net);
struct net_message *net_alloc_message(struct path_common *net);
void net_free_message(struct path_common *net, struct net_message *message);
weft_status net_post_receive(struct path_common *net, int rail, struct net_message *message);

/* A record in the message that is being filled, where that needs no wait; else NULL. */
struct net_record *net_try_add_request(struct path_state *state, struct net_peer *peer,
                                       size_t bytes);

/* Looks which of the messages begun are complete, and tells. Whether there were any. */
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

/* Whether the rail leads to the peer, and has not failed at either end. */
bool net_rail_usable(const struct path_common *net, const struct net_peer *peer, int rail);

/* Another than `rail` that does, at both ends; -1 = none. */
int net_find_other_rail(const struct path_common *net, const struct net_peer *peer, int rail);

/* A message that goes to the peer again when its rail fails, until it is known to have arrived. */
void net_retain_message(struct net_peer *peer, struct net_message *message);

/* The peer has carried out requests up to `handled`, and has answers up to `answered`: lets go of
 * those. */
void net_release_acknowledged(struct path_common *net, struct net_peer *peer, uint64_t handled,
                              uint64_t answered);

/* An operation over the peer's rail has failed. True: another leads there, which is tried. */
bool net_mark_suspected(struct path_common *net, struct net_peer *peer, const char *sentence,
                        const char *cause);

/* Gives the peer up for what has failed, and says so where no other rail is left that leads
 * there. */
void net_give_up_peer(struct path_common *net, struct net_peer *peer, const char *sentence);

/* Something of the peer has come over the rail. */
void net_mark_live(struct net_peer *peer, int rail);
void net_answer_probe(struct path_common *net, struct net_peer *from, struct net_message *message);
void net_mark_probe_failed(struct net_peer *peer, int rail);

/* Looks whether the rails that messages go over still move, and probes. */
void net_check_peers(struct path_common *net);

/* The rail is closed: messages go over another one, and what had not arrived goes again. */
void net_reroute_peers(struct path_common *net, struct net_rail *rail);

/* The peer has failed. */
void net_drop_unacknowledged(struct path_common *net, struct net_peer *peer);

/* --------------------------------------------------------------------- serve.c (lock held) */

/* Begins the records of a message, which is well formed as far as its head goes. */
void net_execute_records(struct path_common *net, struct net_peer *from,
                         struct net_message *message);

/* They are complete: answers what had to wait for that. */
void net_report_completed(struct path_common *net, struct net_peer *from,
                          struct net_message *message);

/* Nobody waits for an answer, so the last error goes back: the peer gives this PE up. */
void net_report_failure(struct path_common *net, struct net_peer *to, weft_status status);

/* -------------------------------------------------------------------------- ask.c (lock held) */

/* A token for a request whose answer of `bytes` bytes goes to `to`. */
weft_status net_new_answer_token(struct path_state *state, struct net_peer *peer, void *to,
                                 size_t bytes, uint64_t *token);

/* Waits for the answer; the token is void afterwards, and nothing goes to `to` any more. */
weft_status net_await_answer(struct path_common *net, uint64_t token);

/* The same without waiting: whether it has come, with *status, and the token is void. */
bool net_poll_answer(struct path_common *net, uint64_t token, weft_status *status);

/* Its request does not go, or nobody cares any more. */
void net_cancel_answer(struct path_common *net, uint64_t token);

/* Nobody waits: quiet does. */
void net_detach_answer(struct path_common *net, uint64_t token);

/* Sends a request that has a struct net_wanted behind it, and waits for its answer, `bytes` bytes
 * for `to`, unless nbi. wanted: the number of bytes that stands in the request. */
weft_status net_send_query(struct path_state *state, struct net_peer *peer,
                           const struct net_record *query, uint32_t bytes_wanted, void *to,
                           size_t bytes, bool nbi);

/* The peer has failed: its answers that nobody waits for will not come. */
void net_drop_answers(struct path_common *net, const struct net_peer *peer);

/* A record of kind NET_DATA. */
void net_data_received(struct path_common *net, struct net_peer *from,
                       const struct net_record *record);

/* -------------------------------------------------------------------- memory.c (lock held) */

/* The registration of the chunk of an own segment; NULL: it could not be registered. */
struct fid_mr *net_get_own_chunk(struct path_common *net, enum segment_id segment, size_t chunk,
                                 struct net_key *key);

/* Where a chunk of a peer is; asks the peer at first, and waits. */
weft_status net_get_peer_key(struct path_state *state, struct net_peer *peer,
                             enum segment_id segment, size_t chunk, struct net_key *key);

/* Memory of the library's own, registered where the provider wants that; net_message_slab(): with
 * every rail. */
void *net_alloc_slab(struct path_common *net, size_t bytes, void **descriptor);
void *net_alloc_message_slab(struct path_common *net, size_t bytes, void *const **descriptors);

/* The same for remote accesses, with every rail, pinned for this PE's GPU too, where it has one. */
void *net_alloc_pinned_slab(struct path_common *net, size_t bytes, void *const **descriptors);

/* Memory that is pinned for this PE's GPU alone, where it can be. */
void *net_alloc_gpu_slab(struct path_common *net, size_t bytes);

/* This PE's room for a peer, made at the first call, as each of its rails knows it; known 0: not
 * there. */
void net_get_staging_buffer(struct path_common *net, struct net_peer *peer, size_t bytes,
                            struct net_key keys[NET_RAILS]);

/* The descriptor of local memory that lies in a chunk of an own segment, which may be registered
 * here first; *bytes is cut at the end of the chunk. NULL: it lies in none. */
void *net_get_own_descriptor(struct path_common *net, const void *local, size_t *bytes);
void net_free_memory(struct path_common *net);

/* -------------------------------------------------------------------- direct.c (lock held) */

weft_status net_write(struct path_state *state, struct remote to, const void *src, size_t bytes);
weft_status net_read(struct path_state *state, struct remote from, void *dst, size_t bytes);
void net_direct_done(struct path_common *net, struct net_direct *direct, bool well);

/* --------------------------------------------------------------------- stage.c (lock held) */

/* Moves data of which one side at least is GPU memory: `device` says so of the local side. A put's
 * source is in use while the channel is `filling`; a get's data are there when it has no
 * `reads`. */
weft_status net_stage_transfer(struct path_state *state, struct remote at, void *local,
                               size_t bytes, bool device, bool write);

/* Takes every piece as far as it goes without waiting. Whether any moved. */
bool net_stage_advance(struct path_common *net);

/* Whether something of the peer is under way that nobody sends again. */
bool net_stage_has_unrecoverable(struct path_common *net, const struct net_peer *peer);

/* The rail is closed: nothing comes of what was under way on it. */
void net_stage_rail_closed(struct path_common *net, int rail);

/* Its failure is one of a proof, not of the peer. */
bool net_stage_is_proof(const struct net_post *post);
void net_stage_completed(struct path_common *net, struct net_post *post, bool well);
void net_stage_slot_ready(struct path_common *net, struct net_peer *peer,
                          const struct net_result *result);

/* What the GPU still copies has ended afterwards. */
void net_stage_free(struct path_common *net);

/* ------------------------------------------------------------------------ order.c (lock held) */

struct net_channel *net_touch_channel(struct path_state *state, int pe);
void net_drop_state(struct path_state *state);
void net_free_state(struct path_state *state);
weft_status net_open_state(const struct path_world *world,
                           struct path_state **state); /* not held */
void net_close_state(struct path_state *state);        /* not held */

/* Direct operations of the context at the peer, and staged ones to their final place, have
 * arrived. */
weft_status net_await_writes(struct path_state *state, struct net_peer *peer);
weft_status net_await_reads(struct path_state *state, struct net_peer *peer);

/* The source of staged puts may be used again; of all puts. */
weft_status net_await_staged_sources(struct path_state *state, struct net_peer *peer);
weft_status net_await_sources(struct path_state *state, struct net_peer *peer);

/* What is given next must not come before what was given so far. Costs nothing until then. */
void net_fence_channel(const struct path_common *net, struct net_channel *channel);

/* Before a request; before a write, which would overtake what the owner has yet to carry out. */
weft_status net_order_request(struct path_state *state, struct net_peer *peer);
weft_status net_order_write(struct path_state *state, struct net_peer *peer);

/* What a fence does, and what a quiet does. */
weft_status net_order_context(struct path_state *state);
weft_status net_complete_context(struct path_state *state);

/* ---------------------------------------------------------------------------- net.c (lock held) */

/* Any sizes, in as many pieces as it takes; a get waits. */
weft_status net_put_by_requests(struct path_state *state, struct remote to, const void *src,
                                size_t bytes);
weft_status net_get_by_requests(struct path_state *state, struct remote from, void *dst,
                                size_t bytes);

#endif

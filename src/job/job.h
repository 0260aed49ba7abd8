/* SPDX-License-Identifier: Apache-2.0 */
/* The running job: a PE's data about itself, its peers, contexts and teams. These are the
 * structures behind the opaque handles of weft.h; src/ops operates on them. */
#ifndef WEFT_JOB_JOB_H
#define WEFT_JOB_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "boot/boot.h"
#include "box/box.h"
#include "memory/heap.h"
#include "memory/segment.h"
#include "path/path.h"
#include "path/prove.h"

/* -------------------------------------------------------------------------------- contexts */

enum { SEG_ALL = SEG_COUNT + 1 }; /* number of segments including SEG_GPU */

struct weft_ctx {
    /* Read by the fast paths. After finalize the numbers and seg[].size are 0, so every check on
     * them fails and the slow path finds the reason. */
    /* npes; 0 in a job with a GPU, where the local side may be device memory */
    uint32_t quick_npes;
    uint32_t quick_atomics; /* the same for atomics; also 0 where they take a path of their own */
    uint32_t npes;
    struct peer *peers[MEMORY_KINDS]; /* [npes] for each kind of remote memory */
    /* [npes] the same for atomics, where they take a path of their own; else NULL */
    struct peer *atomic_peers[MEMORY_KINDS];
    const int32_t *fault; /* job->fault; not 0: every call fails */
    struct {
        uintptr_t base; /* start of the program's part of the own segment */
        size_t size;
    } seg[SEG_ALL]; /* SEG_SYSTEM stays empty: it is not for the program */
    /* bytes in front of `base`; offsets count from the start of the segment */
    size_t skipped[SEG_ALL];
    struct gpu *gpu; /* NULL until the job has a GPU side */
    struct weft_job *job;
    struct weft_team *team; /* PE numbers of this context are those of this team */
    struct path_state *states[PATH_COUNT];
    struct {
        const struct path_ops *ops;
        struct path_state *state;
    } open[PATH_COUNT]; /* paths with state; fence and quiet call these */
    int open_count;
    unsigned options;   /* WEFT_CTX_* */
    const bool *owner;  /* address of job_acts_for_others in the thread that created it */
    pid_t owner_number; /* thread id (gettid) of that thread */
    int slot;           /* column of counters in the black box */
    struct weft_ctx *next;
};

/* ----------------------------------------------------------------------------------- teams */

enum { TEAM_SLOTS = 1024, TEAM_SLOT_WORDS = TEAM_SLOTS / 64, PACKET_BYTES = 56, TEAM_PHASES = 4 };

/* What one member of a team sends to another: only member i writes mailboxes[i] of a PE's area.
 * flag: the sender has reached this phase of the team's sequence of collectives. packet: a small
 * payload and its sequence number in one cache line, two of them for even and odd numbers (see
 * ops/coll/coll.h for why two are enough). */
struct mailbox {
    _Alignas(64) _Atomic uint64_t flag;
    struct {
        _Alignas(64) _Atomic uint64_t sequence;
        unsigned char payload[PACKET_BYTES];
    } packet[2];
};

/* The nodes of a team whose members share nodes, but not all the same one. Its collectives work
 * within nodes, between them, and within nodes again. The same at every member. */
struct team_nodes {
    int n;         /* number of nodes, numbered in the order of their first member */
    int least;     /* number of members of the smallest node */
    bool in_order; /* the members of each node are consecutive in the team */
    int mine;      /* this PE's node */
    int local_me;
    int *of;    /* node of each member */
    int *first; /* members[first[k]] ... members[first[k + 1] - 1] are those of node k, in order */
    int *members; /* [team->n] */
};

struct weft_team {
    struct weft_job *job;
    int n;
    int me;                   /* -1: this PE is no member (the program never gets such a team) */
    int *pes;                 /* PE numbers in the job */
    int slot;                 /* index of the synchronisation area, the same at every member */
    struct team_nodes *nodes; /* NULL: all members on one node, or each on its own */
    bool direct;              /* the memory of every member can be loaded and stored */
    bool split_off;           /* created by a split, so it may be destroyed */
    int radix;  /* radix of the barrier: a member notifies radix - 1 others per round */
    int leader; /* member that leaves the next barrier or sync first (ops/coll/coll.h); -1: none */
    uint64_t sequence;      /* number of phases used so far */
    uint64_t packets;       /* sequence number of the last packet exchange */
    struct team_coll *coll; /* used by ops/coll/kernel.c; NULL: no collective on GPU memory yet */
    void *scratch; /* [n] packets, for exchanges that must not fail because memory is exhausted */
    struct mailbox *mailboxes; /* own area: member i writes mailboxes[i] */
    /* own mailbox in member i's area; NULL: the CPU cannot store there */
    struct mailbox **mailbox_at;
    struct weft_team *next;
};

/* ------------------------------------------------------------------------------------- job */

enum job_state { JOB_RUNNING, JOB_FINALIZED };

/* Counters of the host callbacks on streams (calls.c). */
struct job_callbacks {
    /* enqueued callbacks; callbacks that ran or were skipped */
    _Atomic uint64_t enqueued, finished;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    unsigned running;
    bool closed;
};

/* How the paths of the job are chosen and tested (paths.c). */
struct job_choosing {
    struct path_order order;
    uint64_t tests[MEMORY_KINDS]; /* number of path tests so far, the same at every PE */
    bool testing;                 /* at least one PE wants path tests */
    /* [npes] what each PE lacks for each probed path */
    char (*lacks[PATH_COUNT])[PATH_LACKS_BYTES];
    /* protects the published path choices; no thread waits while it holds this */
    pthread_mutex_t show_lock;
    struct job_text *texts; /* of the choices, the last used one first */
};

/* Limits and intervals of waits. */
struct job_waits {
    uint32_t spin;                        /* polls before a waiting PE yields */
    uint32_t spin_between_polls;          /* the same where the change may arrive as a message */
    uint64_t slice_ns, warn_ns, limit_ns; /* WEFT_WAIT_*; 0: none */
    const char *limit_name;               /* what set limit_ns, for messages */
    uint64_t watch_every_ns;        /* interval at which a wait checks the PEs that it depends on */
    _Atomic uint64_t next_check_ns; /* next time that a waiting thread checks for dead peers */
};

/* The program's check of the waits of one thread (weft_set_interrupt()). The job's lock protects
 * all but `exists`. */
struct job_interrupt {
    atomic_bool exists;
    int (*check)(void *arg);
    void *arg;
    pthread_t thread;
};

/* The failure of the job. */
struct job_failure {
    _Atomic int status; /* a weft_status that every further call returns */
    char sentence[512]; /* written once, under the job's lock, before `status` */
    /* One word for all failures: `failed` of the device box, written by device code and by
     * job_fail(); without a box, no_box_word. */
    int32_t *word;
    int32_t no_box_word;
};

/* What modules above this one keep with the job, and what ends it. */
struct job_modules {
    void *host_callbacks; /* state of ops/stream/host_callback.c; freed by end_host_callbacks() */
    void (*end_host_callbacks)(struct weft_job *job);
    struct weft_file *files;       /* open files (ops/file/file.c); closed by end_files() */
    struct file_tunes *file_tunes; /* also ended by end_files; NULL: no file has been opened */
    void (*end_files)(struct weft_job *job);
    void *mappings; /* mappings of ops/rma/map.c; ended by end_mappings() */
    void (*end_mappings)(struct weft_job *job);
    struct late_image *late_images; /* loaded ones (late_image.c) */
};

struct weft_job {
    _Atomic int state;
    struct weft_job *next_running; /* used by fork.c */
    struct boot *boot;
    int pe, npes;
    weft_thread thread;
    struct segment segments[SEG_COUNT];
    struct path_world paths; /* data of this job for the paths; holds choices[kind][pe] */
    struct job_choosing choosing;
    struct box *box;
    struct heap *heap;
    pthread_mutex_t lock; /* protects the heap allocators and the lists of contexts and teams */
    /* Keeps the list of contexts unchanged; its holder may wait. Changes of the list need both
     * locks, this one first. The holder takes `lock` separately for a wait. */
    pthread_mutex_t contexts_lock;
    struct weft_ctx *contexts;
    /* destroyed contexts, kept in checking mode so that their use is refused */
    struct weft_ctx *destroyed;
    struct weft_team *teams;
    struct weft_ctx *default_ctx;
    struct weft_ctx *system_ctx; /* the library's own context; can also access SEG_SYSTEM */
    struct weft_team *world, *node;
    int most_teams;     /* at a time */
    size_t heap_end;    /* highest end of an allocation in the host heap so far */
    struct gpu *gpu;    /* NULL until GPU memory is first requested; paths.gpu is the same */
    uint8_t *gpu_pairs; /* which PE of this node loads and stores which one's GPU memory; a bit per
                           pair (gpu_pairs.c) */
    struct job_callbacks callbacks; /* host callbacks on streams */
    struct job_modules modules;
    void *program_context; /* CUDA context that was current before weft_init() */
    bool checking;
    bool ended_well; /* result of job_ended_well() after the black box is unmapped */
    bool threads_are_pes;
    bool oversubscribed; /* some node has more PEs than CPUs; the same at every PE */
    int node_cpus;       /* number of CPUs that the PEs of this node may run on */
    struct job_waits waits;
    struct job_interrupt interrupt;
    struct job_failure failure;
    struct device_state *device; /* state for device code; NULL: device code was not started */
    /* watch for the library's own kernels on the program's streams, or NULL */
    struct device_watch *gpu_watch;
};

/* The black box of a local PE. */
static inline struct box *job_box(const struct weft_job *job, int slot)
{
    return (struct box *)segment_slot(&job->segments[SEG_SYSTEM], slot);
}

/* Offset of a team's area in the system segment. */
static inline size_t team_area_offset(int slot, int npes)
{
    return BOX_BYTES + TEAM_SLOTS / 8 + (size_t)slot * (size_t)npes * sizeof(struct mailbox);
}

/* Offset of the areas by which device code on simt synchronises, after those of the host. */
static inline size_t device_areas_offset(int npes)
{
    return (team_area_offset(TEAM_SLOTS, npes) + 127) & ~(size_t)127;
}

/* Memory for reductions of a team whose elements pass through host memory
 * (ops/coll/reduce_buffered.c): elements of this member, and the result. Teams with higher slots
 * have none. */
enum { REDUCE_BUFFERS = 8, REDUCE_BUFFER_BYTES = 256 * 1024 };
struct reduce_buffer {
    _Alignas(64) char from[REDUCE_BUFFER_BYTES];
    char to[REDUCE_BUFFER_BYTES];
};

/* Offset of struct reduce_buffer [REDUCE_BUFFERS], by slot of the team, behind all areas. */
size_t reduce_buffers_offset(int npes);

/* Offset of struct box_choices, the last part of a PE's system segment. */
size_t choices_offset(int npes);

/* Offset of the lines into which other PEs write when they test their paths to this PE. */
size_t prove_lines_offset(int npes);

/* Whether this thread may use contexts of other threads (WEFT_CTX_PRIVATE), because it completes
 * all contexts or performs what their owner enqueued on a stream. Its address identifies a thread
 * without a call. */
extern _Thread_local bool job_acts_for_others __attribute__((tls_model("initial-exec")));

weft_status ctx_new(struct weft_job *job, struct weft_team *team, unsigned options,
                    struct weft_ctx **ctx);
void ctx_free(struct weft_ctx *ctx);

/* Fills the context's peers from the job's path choices, and opens the state of these paths. */
weft_status ctx_fill(struct weft_ctx *ctx);

/* Frees what only a running job needs; the emptied handle stays. */
void ctx_empty(struct weft_ctx *ctx);

/* Whether the path to that PE has no atomics, which then take its spare path. */
bool job_lacks_atomics(const struct weft_job *job, weft_kind kind, int pe);
/* The path of atomics on memory of that kind at that PE. */
enum path_id job_atomics_path(const struct weft_job *job, weft_kind kind, int pe);

/* The peer by which this context's atomics, and signals that are added to, reach the same PE. */
static inline struct peer *ctx_atomic_peer(const struct weft_ctx *ctx, struct peer *peer)
{
    struct peer *peers = __atomic_load_n(&ctx->atomic_peers[peer->kind], __ATOMIC_ACQUIRE);
    return unlikely(peers != NULL) ? &peers[peer - ctx->peers[peer->kind]] : peer;
}

static inline struct remote ctx_atomic(const struct weft_ctx *ctx, struct remote at)
{
    at.peer = ctx_atomic_peer(ctx, at.peer);
    return at;
}

/* Changes a signal; the arguments are checked. */
weft_status ctx_signal(const struct weft_ctx *ctx, struct remote at, uint64_t value,
                       weft_signal_op op, bool nbi);

/* A put, then the signal `at` of the same PE, over one path or two; the arguments are checked. */
weft_status ctx_put_signal(const struct weft_ctx *ctx, struct remote to, const void *src,
                           size_t bytes, struct remote at, uint64_t value, weft_signal_op op,
                           bool nbi);

weft_status team_new(struct weft_job *job, const int *pes, int n, int slot,
                     struct weft_team **team);
void team_free(struct weft_team *team);
void team_empty(struct weft_team *team);  /* frees all but the handle */
void team_unlink(struct weft_team *team); /* removes it from the job's list */

/* Updates the team from the paths of its members. */
void team_fill(struct weft_team *team);

/* ----------------------------------------------------------------------------------- paths */

/* Chooses a path to every PE's memory of one kind. WEFT_ERR_NO_PATH names the pair and what each
 * path lacked; the table is filled in this case too. */
weft_status job_choose_paths(struct weft_job *job, weft_kind kind);

/* Fills the data of the job that paths need from the beginning. */
void job_init_paths(struct weft_job *job);

/* Lets paths probe whether they can be used (path_ops.probe). wanted: one bit for each path that
 * any PE may need; job_paths_wanted() returns this PE's. Collective, before any path is chosen. */
uint32_t job_paths_wanted(const struct weft_job *job);
weft_status job_probe_paths(struct weft_job *job, uint32_t wanted);

/* Lets the paths that some PE has newly chosen create their state for the job, and destroys it.
 * Joining is collective over the job, after every choice and before contexts use it; leaving is
 * collective when `clean`, because a peer may still need an acknowledgement. chosen: the result of
 * job_choose_paths(); if it is a failure at some PE, all PEs fail with its message. */
weft_status job_join_paths(struct weft_job *job, weft_status chosen);

/* Begins the joined paths (path_ops.begin). Collective over the job. */
weft_status job_begin_paths(struct weft_job *job);
void job_leave_paths(struct weft_job *job, bool clean);

/* Sets how long waits poll, from the number of CPUs. threads: every PE also has a thread of a path
 * that others wait for. */
void job_set_spin(struct weft_job *job, bool threads);

/* Tests the paths: every pair of PEs puts a pattern, then adds to a counter, over its chosen path
 * to memory of this kind, and checks what arrived. A failure is reported to both ends and the path
 * is replaced by the next one. Collective over the job. */
weft_status job_prove_paths(struct weft_job *job, weft_kind kind);

/* Applies the results of the path tests. evidence[pe]: the error that this PE saw on its path to
 * `pe`; "": none. A path that either end found wrong is replaced at both ends, and contexts and
 * teams are updated. *again: some path was replaced, anywhere in the job. Collective over the job.
 * WEFT_ERR_NO_PATH: a pair has no path left; the job has then failed at every PE. */
weft_status job_drop_failed_paths(struct weft_job *job, weft_kind kind,
                                  char (*evidence)[PROVE_EVIDENCE_BYTES], bool *again);

/* Replaces a path to memory of a kind at all PEs, whichever use it; contexts are updated later.
 * Collective over the job. WEFT_ERR_NO_PATH: a pair has no path left. */
weft_status job_drop_path(struct weft_job *job, weft_kind kind, enum path_id path,
                          const char *evidence);

/* Publishes a path choice in the black box for other processes: the choice and its reasons, the
 * facts that it was made from; the result of the path test; and the evidence of a failed test. */
void job_show_choice(struct weft_job *job, weft_kind kind, int pe, const struct path_facts *facts);
void job_show_proof(struct weft_job *job, weft_kind kind, int pe);

/* A copy of the text that lasts until job_free_texts(); the same one for the same text, mostly. The
 * caller holds `show_lock`. */
const char *job_share_text(struct weft_job *job, const char *text);
void job_free_texts(struct weft_job *job);

/* Publishes a finding of the chosen path next to the reason of the choice; replaces the previous
 * finding. */
void job_show_found(struct weft_job *job, weft_kind kind, int pe, const char *found);
/* Writes the reason for the chosen path, and against better ones, for the program. */
void job_path_reason(struct weft_job *job, weft_kind kind, int pe, char *text, size_t bytes);
void job_show_failed(struct weft_job *job, weft_kind kind, int pe, enum path_id path,
                     const char *evidence);
/* Publishes a change of the path of all atomics on memory of a kind. */
void job_show_atomics(struct weft_job *job, weft_kind kind);

/* Publishes new findings about large copies to a peer's GPU memory. `of` is the job. Any thread may
 * call this. */
void job_show_stripes(void *of, int pe);

/* Whether the CPU loads and stores memory of `kind` at PE `pe` directly. */
static inline bool job_direct(const struct weft_job *job, weft_kind kind, int pe)
{
    const struct path_choice *choices = job->paths.choices[kind];
    return choices && path_ops_of(choices[pe].path)->direct;
}

/* As team_new(), for a team that may be destroyed. Claims `slot`, which is free at every member. */
weft_status team_create(struct weft_job *job, const int *pes, int n, int slot,
                        struct weft_team **team);

/* Bitmap of the free slots at this PE: TEAM_SLOT_WORDS words. */
uint64_t *team_free_slots(struct weft_job *job);

/* Lets every path with pending operations make progress. True: a message has arrived. */
bool job_progress(struct weft_job *job);

/* Fails the job: further waits end with this status and message. Only the first failure counts;
 * returns its status. */
weft_status job_fail(struct weft_job *job, weft_status status, const char *sentence);

/* As job_fail(), when other PEs wait for this one: the other PEs and the launcher are notified, and
 * their waits end with the message. */
weft_status job_fail_all(struct weft_job *job, weft_status status, const char *sentence);

/* Whether the job has failed: by device code, a path test, another thread, or a dead PE. One load,
 * made by every call of the API. */
static inline bool job_failed(const struct weft_job *job)
{
    return unlikely(__atomic_load_n(job->failure.word, __ATOMIC_RELAXED) != 0);
}

/* Returns WEFT_OK, or the failure of the job with its message as last error. */
weft_status job_check_failed(struct weft_job *job);

/* Joins the job that this process belongs to, and leaves it: weft_init() and weft_finalize()
 * without their checks. why: WEFT_OK when every PE has reached the end; else the failure that is
 * sent to the other PEs and the launcher with its message. The emptied handle of a job that was
 * left stays, so that calls on it are refused with a message. */
weft_status job_enter(const weft_init_attr *attr, struct weft_job **job);
void job_leave(struct weft_job *job, weft_status why, const char *sentence);

/* Whether a PE of this node has ended the job by weft_abort() with code 0. After job_leave() it
 * returns the value of that time. */
bool job_ended_well(const struct weft_job *job);

/* Host callbacks on streams. Each is counted when it is enqueued and when any thread runs or skips
 * it with job_callback_run(). False: the job was being left, and the callback was skipped. The
 * handle of a job that was left stays, so a stream may reach its callbacks at any time. */
void job_callback_enqueued(struct weft_job *job);
bool job_callback_run(struct weft_job *job, void (*run)(void *argument), void *argument);

/* Waits until all enqueued callbacks have run. Fails when the job fails, or when no stream reached
 * a callback for WEFT_WAIT_LIMIT. */
weft_status job_callbacks_wait(struct weft_job *job);

/* Skips all further callbacks; returns when the running ones have ended. */
void job_callbacks_stop(struct weft_job *job);

/* Status of a call on the handle of a finalized job, or on a handle of the parent in a forked
 * child. */
weft_status job_finalized(const char *function);

/* job_watch_fork(): empties the job's handles in children forked from now on. job_unwatch_fork():
 * before the handles are emptied otherwise. */
weft_status job_watch_fork(struct weft_job *job);
void job_unwatch_fork(struct weft_job *job);
bool job_is_forked_child(void);

/* ------------------------------------------------------------------------------------ GPU side */

/* Opens the job's GPU side if it has none yet. Collective over the job; a failure is the same at
 * every PE. */
weft_status job_gpu_open(struct weft_job *job);

/* Updates a context from the GPU side, after the GPU heap has grown or the context was created. */
void job_gpu_attach(struct weft_ctx *ctx);

/* Backs [0, end) of the GPU heap with memory and updates every context. Collective. */
weft_status job_gpu_grow(struct weft_job *job, size_t end);

/* Notifies the paths that reach GPU memory that memory of the GPU heap was added or removed.
 * Collective; a failure is the same at every PE. *failed (may be NULL): the path that cannot reach
 * it. */
weft_status job_gpu_memory(struct weft_job *job, enum path_id *failed);

/* Notes that the host heap is allocated up to `end`, so that it can be pinned for the GPU. */
void job_gpu_pin(struct weft_job *job, size_t end);

/* Clears the team's GPU area. Every member has arrived, and none has a barrier on a stream in
 * progress. */
void job_gpu_team_gone(struct weft_job *job, const struct weft_team *team);

/* Closes the GPU side. Not collective; no PE uses this PE's memory any more. */
void job_gpu_close(struct weft_job *job);

/* Exchanges which pairs can load and store each other's GPU memory, so that all members of a team
 * get the same answer from job_gpu_team_direct(). Collective over the job; repeated whenever paths
 * have changed. */
weft_status job_gpu_pairs(struct weft_job *job);
size_t job_gpu_pairs_bytes(int node_pes); /* memory that a PE keeps for them */
bool job_gpu_team_direct(const struct weft_team *team);

/* -------------------------------------------------------------------------- life and death */

/* Takes the lock that the kernel drops when this process ends. */
weft_status life_start(struct weft_job *job);

/* Checks whether a PE of the job has died or the job was aborted: WEFT_OK or the failure. */
weft_status life_check(struct weft_job *job);

#endif

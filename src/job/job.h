/* SPDX-License-Identifier: Apache-2.0 */
/* The running job: what a PE knows of itself and its peers, contexts, teams. The structures behind
 * the opaque handles of weft.h; src/ops works on them. */
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

enum { SEG_ALL = SEG_COUNT + 1 }; /* with SEG_GPU */

struct weft_ctx {
    /* What the fast paths read. After finalize the numbers and seg[].size are 0, so that every
     * check on them fails and the slow path finds out why. */
    uint32_t quick_npes; /* npes, or 0 in a job with a GPU, whose local side may be device memory */
    uint32_t npes;
    struct peer *peers[MEMORY_KINDS]; /* [npes] each, for remote memory of that kind */
    const int32_t *fault;             /* job->fault: not 0, every call fails */
    struct {
        uintptr_t base; /* of what the program may use of the own part */
        size_t size;
    } seg[SEG_ALL];          /* SEG_SYSTEM is left empty: not the program's */
    size_t skipped[SEG_ALL]; /* of each segment in front of that; offsets count from its start */
    struct gpu *gpu;         /* NULL until the job has a GPU side */
    struct weft_job *job;
    struct weft_team *team; /* whose numbering it has */
    struct path_state *states[PATH_COUNT];
    struct {
        const struct path_ops *ops;
        struct path_state *state;
    } open[PATH_COUNT]; /* the paths that keep something: fence and quiet ask these */
    int open_count;
    unsigned options;   /* WEFT_CTX_* */
    const bool *owner;  /* job_acts_for_others of the thread that made it, */
    pid_t owner_number; /* and that thread's number in the system */
    int slot;           /* column of counters in the black box */
    struct weft_ctx *next;
};

/* ----------------------------------------------------------------------------------- teams */

enum { TEAM_SLOTS = 1024, TEAM_SLOT_WORDS = TEAM_SLOTS / 64, PACKET_BYTES = 56, TEAM_PHASES = 4 };

/* What one member of a team sends another: mailboxes[i] of a PE's area is written by member i
 * alone.
 * flag: the sender has reached this phase of the team's sequence of collectives. packet: a small
 * payload and its number in one cache line, two of them for even and odd numbers (see
 * ops/coll/coll.h for why two are enough). */
struct mailbox {
    _Alignas(64) _Atomic uint64_t flag;
    struct {
        _Alignas(64) _Atomic uint64_t number;
        unsigned char payload[PACKET_BYTES];
    } packet[2];
};

/* A team whose members share nodes, but not all the same one: its collectives go within nodes,
 * between them, and within nodes. Alike at every member. */
struct team_nodes {
    int n;         /* nodes, numbered by their first member */
    int least;     /* members of the smallest */
    bool in_order; /* the members of a node follow one another in the team */
    int mine;      /* this PE's node, and its place there */
    int local_me;
    int *of;    /* node of each member */
    int *first; /* members[first[k]] ... members[first[k + 1] - 1] are those of node k, in order */
    int *members; /* [team->n] */
};

struct weft_team {
    struct weft_job *job;
    int n;
    int me;                   /* -1: not a member (never handed out) */
    int *pes;                 /* numbers in the job */
    int slot;                 /* synchronisation area, the same at every member */
    struct team_nodes *nodes; /* NULL: all on one node, or each on one of its own */
    bool direct;              /* every member's memory can be loaded and stored */
    bool split_off;           /* may be destroyed */
    int radix;                /* of its barrier: a member tells radix - 1 others in a round */
    int leader; /* goes first out of the next barrier or sync (ops/coll/coll.h), -1: nobody */
    uint64_t sequence;      /* phases used so far */
    uint64_t packets;       /* packet exchanges so far */
    struct team_coll *coll; /* of ops/coll/kernel.c; NULL: no collective on GPU memory yet */
    void *scratch;          /* [n] packets: for exchanges that must not fail for want of memory */
    struct mailbox *mailboxes; /* own area: mailboxes[i] is written by member i */
    struct mailbox *
        *mailbox_at; /* own mailbox in member i's area; NULL where it cannot be stored to */
    struct weft_team *next;
};

/* ------------------------------------------------------------------------------------- job */

enum job_state { JOB_RUNNING, JOB_FINALIZED };

/* Calls of the host that streams have been given (calls.c). */
struct job_calls {
    _Atomic uint64_t given, made; /* or passed over, when it was too late */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    unsigned running;
    bool closed;
};

struct weft_job {
    _Atomic int state;
    struct weft_job *next_running; /* fork.c */
    struct boot *boot;
    int pe, npes;
    weft_thread thread;
    struct segment segments[SEG_COUNT];
    struct path_order order;
    struct path_world paths;       /* what the paths know of this job; choices[kind][pe] are here */
    uint64_t proofs[MEMORY_KINDS]; /* how often its paths were proven, alike at every PE */
    bool proving;                  /* some PE wants proofs */
    char (*lacks[PATH_COUNT])[PATH_LACKS_BYTES]; /* [npes] what each PE lacks for paths that have
                                                    looked */
    struct box *box;
    struct heap *heap;
    pthread_mutex_t lock;      /* books, lists of contexts and teams */
    pthread_mutex_t show_lock; /* of what is shown of choices; nothing is waited for under it */
    /* Who holds this may wait while the contexts stay: they are listed and unlisted under both
     * locks, this one first. A wait takes `lock` for itself. */
    pthread_mutex_t contexts_stay;
    struct weft_ctx *contexts;
    struct weft_ctx *destroyed; /* checking mode keeps them, so that their use can be refused */
    struct weft_team *teams;
    struct weft_ctx *default_ctx;
    struct weft_ctx *system_ctx; /* the library's own: also reaches SEG_SYSTEM */
    struct weft_team *world, *node;
    size_t heap_end;        /* the host heap has been handed out so far, at most */
    struct gpu *gpu;        /* NULL until GPU memory is first asked for; paths.gpu is the same */
    bool *gpu_pairs;        /* [npes * npes] which PEs reach whose GPU memory by load and store */
    struct job_calls calls; /* on streams */
    void *stream_calls;     /* kept for captured graphs (ops/stream/stream.c), for good: each begins
                               with the     next */
    void *far_streams;      /* of ops/stream/host_callback.c; ended by: */
    void (*end_far_streams)(struct weft_job *job);
    struct weft_file *files;       /* of ops/file/file.c, that are open; closed by: */
    struct file_tunes *file_tunes; /* likewise; NULL: no file has been opened */
    void (*end_files)(struct weft_job *job);
    void *mappings; /* of ops/rma/map.c; ended by: */
    void (*end_mappings)(struct weft_job *job);
    void *program_context; /* CUDA context that the program had made current before weft_init() */
    bool checking;
    bool ended_well; /* what job_ended_well() answers once the black box is gone */
    bool threads_are_pes;
    bool crowded;                /* on some node there are more PEs than CPUs; alike at every PE */
    int node_cpus;               /* that the PEs of this node may run on */
    uint32_t spin;               /* polls before a waiting PE yields */
    uint32_t spin_between_looks; /* where what it waits for may come by messages */
    uint64_t wait_slice_ns, wait_warn_ns, wait_limit_ns; /* WEFT_WAIT_*; 0 = none */
    const char *limit_name;                              /* of what sets the last one */
    uint64_t watch_every_ns;                             /* a wait looks at the PEs it depends on */
    _Atomic int failed; /* a weft_status: every further call returns it */
    char failure[512];  /* its sentence; written once under lock before `failed` */
    int32_t *fault; /* one word for all failures: `failed` of the device box, set by device code and
                     * by job_fail(); without a box a word of this structure */
    int32_t no_box_fault;
    struct device_state *device; /* what device code was told; NULL: it was not started */
    struct device_watch
        *gpu_watch; /* beside the library's own kernels on the program's streams, or NULL */
    _Atomic uint64_t next_check_ns; /* when a waiting thread should look for dead peers again */
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

/* Offset of the areas by which device code on simt synchronises, behind those of the host. */
static inline size_t device_areas_offset(int npes)
{
    return (team_area_offset(TEAM_SLOTS, npes) + 127) & ~(size_t)127;
}

/* Offset of struct box_choices, behind all else of a PE's system segment. */
size_t choices_offset(int npes);

/* Offset of the lines in which other PEs prove their paths to this one, behind all areas. */
size_t prove_lines_offset(int npes);

/* Whether this thread may use contexts that are promised to others (WEFT_CTX_PRIVATE), because it
 * completes the contexts of all or does what their owner has put on a stream. Its address tells
 * threads apart, without a call. */
extern _Thread_local bool job_acts_for_others __attribute__((tls_model("initial-exec")));

weft_status ctx_new(struct weft_job *job, struct weft_team *team, unsigned options,
                    struct weft_ctx **ctx);
void ctx_free(struct weft_ctx *ctx);

/* Fills the context's peers from the choices of the job; opens what their paths keep. */
weft_status ctx_fill(struct weft_ctx *ctx);

/* Frees what only a running job needs; the handle stays, emptied. */
void ctx_empty(struct weft_ctx *ctx);

weft_status team_new(struct weft_job *job, const int *pes, int n, int slot,
                     struct weft_team **team);
void team_free(struct weft_team *team);
void team_empty(struct weft_team *team);  /* all but the handle */
void team_unlink(struct weft_team *team); /* from the job's list */

/* Sets what the team knows of its members' paths. */
void team_fill(struct weft_team *team);

/* ----------------------------------------------------------------------------------- paths */

/* Chooses a path to every PE's memory of one kind. WEFT_ERR_NO_PATH names the pair, and what each
 * path lacked; the table is filled all the same. */
weft_status job_choose_paths(struct weft_job *job, weft_kind kind);

/* Fills in what the paths know of the job from the beginning. */
void job_tell_paths(struct weft_job *job);

/* Lets paths look whether they can be used (path_ops.look): those that any PE may need, `wanted`,
 * bit per path; job_paths_wanted() says it for this PE. Collective, before any path is chosen. */
uint32_t job_paths_wanted(const struct weft_job *job);
weft_status job_look_paths(struct weft_job *job, uint32_t wanted);

/* Lets the paths that some PE has newly chosen set up what they keep for the job, and undoes that.
 * Joining is collective over the job, after every choice and before contexts see it; so is leaving
 * when
 * `clean`: a peer may still need to hear that what it gave has arrived. `chosen`: what
 * job_choose_paths() gave; where it is a failure at some PE all PEs fail with its sentence. */
weft_status job_join_paths(struct weft_job *job, weft_status chosen);
void job_leave_paths(struct weft_job *job, bool clean);

/* How long waits poll, as CPUs allow. threads: every PE has a thread of a path besides, on which
 * others wait. */
void job_set_spin(struct weft_job *job, bool threads);

/* Every pair of PEs puts a pattern, then adds to a counter, over the path it has chosen to memory
 * of this kind, and looks at what arrived. What failed is told to both ends, the path dropped for
 * the next one. Collective over the job. */
weft_status job_prove_paths(struct weft_job *job, weft_kind kind);

/* Proofs of all pairs have ended; evidence[pe] is what this PE saw go wrong with its path to `pe`
 * ("" = nothing). A path that either end found wrong is dropped at both for the next one, and
 * contexts and teams see that. *again: some path took another's place, anywhere in the job.
 * Collective over the job. WEFT_ERR_NO_PATH where a pair has no path left: the job has then failed,
 * at every PE. */
weft_status job_settle_proofs(struct weft_job *job, weft_kind kind,
                              char (*evidence)[PROVE_EVIDENCE_BYTES], bool *again);

/* Makes a choice readable for other processes: what was chosen and why, for the facts that it was
 * chosen from; its proof; and what was seen when a path failed its proof. */
void job_show_choice(struct weft_job *job, weft_kind kind, int pe, const struct path_facts *facts);
void job_show_proof(struct weft_job *job, weft_kind kind, int pe);

/* What the path that is taken has found, beside why it is taken and in place of what it had found
 * before. */
void job_show_found(struct weft_job *job, weft_kind kind, int pe, const char *found);
/* Why the path to that memory is taken, and no better one, for the program. */
void job_tell_reason(struct weft_job *job, weft_kind kind, int pe, char *text, size_t bytes);
void job_show_failed(struct weft_job *job, weft_kind kind, int pe, enum path_id path,
                     const char *evidence);

/* What has become known of large copies to a peer's GPU memory; `of` is the job. From any
 * thread. */
void job_show_stripes(void *of, int pe);

/* Whether remote memory of `kind` at PE `pe` is loaded and stored in place. */
static inline bool job_direct(const struct weft_job *job, weft_kind kind, int pe)
{
    const struct path_choice *choices = job->paths.choices[kind];
    return choices && path_ops_of(choices[pe].path)->direct;
}

/* As team_new(), for a team that may be destroyed. `slot`, which is free at every member, is taken
 * here. */
weft_status team_take(struct weft_job *job, const int *pes, int n, int slot,
                      struct weft_team **team);

/* Which slots are free at this PE: TEAM_SLOT_WORDS words, one bit for each. */
uint64_t *team_free_slots(struct weft_job *job);

/* Lets every path that holds something back move on. True: something has come. */
bool job_progress(struct weft_job *job);

/* Ends further waits with this status and sentence (the first one counts); returns the status that
 * counts. */
weft_status job_fail(struct weft_job *job, weft_status status, const char *sentence);

/* The same when other PEs wait for what this one can no longer do: they and the launcher are told,
 * and their waits end with the sentence. */
weft_status job_fail_all(struct weft_job *job, weft_status status, const char *sentence);

/* Whether the job has failed, by whatever: device code, a proof, another thread, a dead PE. One
 * load, for every call of the API. */
static inline bool job_failed(const struct weft_job *job)
{
    return unlikely(__atomic_load_n(job->fault, __ATOMIC_RELAXED) != 0);
}

/* WEFT_OK, or the failure of the job with its sentence as last error. */
weft_status job_check_failed(struct weft_job *job);

/* Joins the job that this process belongs to, and leaves it: weft_init() and weft_finalize()
 * without their checks. why: WEFT_OK when every PE has reached the end; else the failure, which the
 * other PEs and the launcher are sent together with its sentence. The handle of a job that was left
 * stays, emptied, so that its use can be refused in words. */
weft_status job_enter(const weft_init_attr *attr, struct weft_job **job);
void job_leave(struct weft_job *job, weft_status why, const char *sentence);

/* Whether a PE of this node has ended the job by weft_abort() with code 0. May be called after
 * job_leave(), and then answers what was so at that time. */
bool job_ended_well(const struct weft_job *job);

/* Calls of the host that a stream has been given. Each is counted when the stream has it, and made,
 * or passed over, once: by job_call_make(), of whichever thread. False: the job was being left, and
 * it was passed over. The handle of a job that was left stays, so that a stream may come to them at
 * any time. */
void job_call_given(struct weft_job *job);
bool job_call_make(struct weft_job *job, void (*run)(void *argument), void *argument);

/* Waits until all that have been given were made. The failure of the job ends it, or
 * WEFT_WAIT_LIMIT in which the streams came to none. */
weft_status job_calls_await(struct weft_job *job);

/* From here on none is made; those that are being made have ended. */
void job_calls_close(struct weft_job *job);

/* Status of a call on a handle of a finalized job, or of one that is its parent's. */
weft_status job_finalized(const char *function);

/* In a child that is forked from here on, the job's handles are emptied; unwatch before they are
 * emptied otherwise. */
weft_status job_watch_fork(struct weft_job *job);
void job_unwatch_fork(struct weft_job *job);
bool job_is_forked_child(void);

/* ------------------------------------------------------------------------------------ GPU side */

/* Opens the job's GPU side if it has none yet. Collective over the job; fails everywhere alike. */
weft_status job_gpu_open(struct weft_job *job);

/* The GPU heap has grown or the context is new: lets it see the GPU side. */
void job_gpu_attach(struct weft_ctx *ctx);

/* Puts memory behind [0, end) of the GPU heap, in every context's eyes. Collective. */
weft_status job_gpu_grow(struct weft_job *job, size_t end);

/* Memory of the GPU heap has come or gone: the paths learn of it. Collective. */
weft_status job_gpu_memory(struct weft_job *job);

/* The host heap has been handed out up to `end`: the GPU may come to want it. */
void job_gpu_pin(struct weft_job *job, size_t end);

/* Every member of the team has arrived, and none has a barrier on a stream under way. */
void job_gpu_team_gone(struct weft_job *job, const struct weft_team *team);

/* Not collective; no PE uses this PE's memory any more. */
void job_gpu_close(struct weft_job *job);

/* Tells every PE which pairs reach each other's GPU memory by load and store, so that all members
 * of a team know alike whether all do. Collective over the job; again whenever paths have
 * changed. */
weft_status job_gpu_pairs(struct weft_job *job);
bool job_gpu_team_direct(const struct weft_team *team);

/* -------------------------------------------------------------------------- life and death */

/* Takes the lock that the kernel drops when this process ends. */
weft_status life_start(struct weft_job *job);

/* Looks whether a PE of the job has died or the job was aborted; WEFT_OK or the failure. */
weft_status life_check(struct weft_job *job);

#endif

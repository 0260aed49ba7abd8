/* SPDX-License-Identifier: Apache-2.0 */
/* How this PE reaches a peer's memory. For every pair of a memory kind and a peer one path is
 * chosen (choose.c); a path is one table of operations on (segment, offset) at that peer, the same
 * for host and GPU memory. Where a peer's host memory is mapped here, src/ops does not even call
 * the table but loads and stores through peer->base.
 *
 * A path is added by its own files and one line in PATH_LIST: its table `path_NAME` says when it
 * can be used, what it keeps per context, and what it does. Nothing outside its files names it.
 * Knows nothing of teams, contexts and collectives. */
#ifndef WEFT_PATH_PATH_H
#define WEFT_PATH_PATH_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/box.h"
#include "memory/segment.h"

#include <weft.h>

/* X(id, table): in the order of choice, the fastest class first. */
#define PATH_LIST(X)                                                                               \
    X(SELF, self)                                                                                  \
    X(P2P, p2p)                                                                                    \
    X(RELAY, relay)                                                                                \
    X(STAGED, staged)                                                                              \
    X(GDA, gda)                                                                                    \
    X(NET, net)                                                                                    \
    X(WEAK, weak)                                                                                  \
    X(SLOW, slow)

enum path_id {
#define PATH_ENUM(id, table) PATH_##id,
    PATH_LIST(PATH_ENUM)
#undef PATH_ENUM
        PATH_COUNT,
    PATH_NONE = PATH_COUNT /* no path is left: every operation says why */
};

_Static_assert((int)PATH_COUNT < (int)BOX_PATHS, "the black box has a column for every path");

enum { MEMORY_KINDS = 2 }; /* WEFT_HOST, WEFT_GPU */
enum { PATH_FOUND_BYTES = 320, PATH_LACKS_BYTES = 512, PATH_REASON_BYTES = 640 };

static inline weft_kind segment_kind(enum segment_id segment)
{
    return segment == SEG_GPU ? WEFT_GPU : WEFT_HOST;
}

struct gpu;
struct weft_dev;
struct path_ops;
struct path_choice;
struct path_state;  /* what a path keeps per context; only the path looks inside */
struct path_common; /* what it keeps per job, likewise */
struct path_found;
struct path_wait;

/* What paths know of their job. Filled by the job; read only here. */
struct path_world {
    int pe, npes;
    struct boot *boot;
    char *(*map)[SEG_COUNT]; /* [npes] where each PE's host segments are mapped here, NULL = not */
    struct gpu *gpu;         /* NULL until GPU memory is first asked for */
    struct path_choice *choices[MEMORY_KINDS]; /* [npes] each; NULL: that kind is not in use */
    struct path_found *found[PATH_COUNT];      /* by look() of that path; NULL: it did not look */
    struct path_common *common[PATH_COUNT];    /* what join() of that path has made */
    size_t sizes[SEG_COUNT];                   /* of each PE's part of the host segments */
    uint64_t wait_limit_ns;                    /* of any wait; 0 = none */
    int cpus;                                  /* that the PEs of this node may run on */
    _Atomic bool alone; /* nobody else wanted the CPU of a thread that waits, when it last asked */

    /* The job's own waiting (job/waiter.h), for path_wait_step() and path_wait_end(). */
    void *job;
    weft_status (*wait_step)(struct path_wait *wait, uint64_t seen);
    void (*wait_end)(struct path_wait *wait);

    /* In place of what refine() has found: the path reaches that memory otherwise from now on.
     * Waits for nothing.
     * NULL: nobody wants to know. */
    void (*tell_found)(const struct path_world *world, weft_kind kind, int pe, const char *found);
};

/* A wait of a path for a count that PE `pe` makes grow, as bounded and as visible as every other:
 *
 *     struct path_wait wait = {.world = world, .operation = BOX_OP_QUIET, .pe = pe, .expected = n};
 *     while (count < n && !status)
 *         status = path_wait_step(&wait, count);
 *     path_wait_end(&wait);
 *
 * A step may call `progress` of the job's contexts, under the lock of the job: no path waits in
 * `open`, `close` or `progress`, and none steps while it holds a lock that its `progress` takes. */
struct path_wait {
    const struct path_world *world;
    enum box_operation operation;
    int pe;
    uint64_t expected;
    uint64_t keeps[32]; /* the job's; zeros when the wait begins */
};

static inline weft_status path_wait_step(struct path_wait *wait, uint64_t seen)
{
    return wait->world->wait_step(wait, seen);
}

static inline void path_wait_end(struct path_wait *wait)
{
    wait->world->wait_end(wait);
}

/* One PE as seen from one context. 64 bytes: one cache line per operation. */
struct peer {
    char *base[SEG_COUNT]; /* load/store address of its host segments; NULL: go through ops */
    struct box_counters *counters; /* of this context and path */
    const struct path_ops *ops;
    struct path_state *state;
    int32_t pe;    /* number in the job */
    uint16_t path; /* enum path_id */
    uint16_t kind; /* weft_kind: of the memory that this path reaches */
    const struct path_world *world;
};

/* remote.peer is the peer for the memory kind of remote.segment. */
struct remote {
    struct peer *peer;
    enum segment_id segment;
    size_t offset;
};

/* Strides of a strided operation, in bytes. */
struct path_strides {
    size_t remote_step, local_step, element, n;
};

/* What a path has found out about this machine before any pair chooses it. */
struct path_found {
    char lacks[PATH_LACKS_BYTES], has[240]; /* what is missing, "" = nothing; what there is */
    /* This PE's own memory is reached by it as well: what others do there by this path is atomic
     * only with what goes the same way. */
    bool own_too;
    void *keeps; /* for join(), which takes it; else `drop` frees it */
    void (*drop)(void *keeps);
};

struct path_facts;

/* Sizes and bounds have been checked by the caller; the local side of an operation is any memory of
 * this PE, its GPU's included. An entry that is NULL gets a default (table.c): store, load,
 * put_signal, iput and iget are made of put, get, atomic and quiet; fence is quiet; quiet has
 * nothing to do; the others say that the path has no such operation. */
struct path_ops {
    const char *name;
    const char *why; /* it was taken, where it was taken unasked */
    bool unasked;    /* may be chosen without being named in WEFT_PATH */
    bool gpu_only;   /* it reaches no host memory, so that a WEFT_PATH of such paths leaves that
                      * free */
    bool thread;     /* a thread of the peer has a part in its operations */
    bool direct; /* its operations on mapped host memory are loads and stores: peer->base is set */

    /* NULL when the path can be used between two PEs, else why not. A pure function. */
    const char *(*obstacle)(const struct path_facts *facts);

    /* In its place, what is known of the way between the two when the path is taken. NULL:
     * nothing. */
    const char *(*way)(const struct path_facts *facts);

    /* Looks whether what the path needs is here. Called once, before any pair chooses a path, in a
     * job that may need this one: WEFT_PATH names it, or there are other nodes and it is taken
     * unasked; else when a pair has no other path left, and it is taken unasked. Collective over
     * the job; a pair uses the path when neither end lacks anything. A failure ends the job: wrong
     * configuration, or PEs that do not hear each other. NULL: it needs nothing. */
    weft_status (*look)(const struct path_world *world, struct path_found *found);

    /* What it keeps for the whole job, world->common[] afterwards. Called once, before any context
     * opens the path and when some PE of the job has chosen it for some peer; collective over the
     * job, so also at PEs that have not. NULL: nothing. */
    weft_status (*join)(const struct path_world *world, struct path_common **common);

    /* Looks, when that kind of memory of a peer is reached over this path, whether it can be
     * reached better than by what was proven, and says in *found what will be used and why; *found
     * "" = nothing is to be said. Called after the proofs of the kind, by every PE, and again when
     * that memory has grown. A failure ends the job. NULL: there is no better way. */
    weft_status (*refine)(const struct path_world *world, weft_kind kind, int pe, char *found,
                          size_t bytes);

    /* Not collective but for PEs that are threads, which come all or none. Contexts are closed, the
     * segments still mapped, the GPU side still open. */
    void (*leave)(struct path_common *common);

    /* The CPUs next to the device that this PE's operations go through, for threads that give many
     * of them.
     * False: the machine does not tell. NULL: no device has a part in them. */
    bool (*cpus)(const struct path_common *common, cpu_set_t *cpus);

    /* GPU memory of the job has come or gone: makes ready what the path needs of it. Called when
     * the path is joined by then, before anything of that memory is reached by it; collective over
     * the job. NULL: nothing. */
    weft_status (*gpu_memory)(struct path_common *common);

    /* Device code of that target gives its operations to this path by itself: by the carrier that
     * this tells (enum weft_dev_carrier), and with what `device` puts into *dev, whose segments are
     * filled. 0, as where it is NULL: it gives them to the proxy. */
    unsigned (*transport)(const struct path_common *common, bool cuda);
    weft_status (*device)(struct path_common *common, bool cuda, struct weft_dev *dev);

    /* By which device that queue of its own to the PE leads for device code, "mlx5_0, port 1"; ""
     * where there is none. */
    void (*name_queue)(const struct path_common *common, int pe, uint64_t queue, char *text,
                       size_t bytes);

    /* What device code has given so is complete at every PE. */
    weft_status (*complete_device)(struct path_common *common);

    /* What it keeps for one context. *state NULL afterwards: nothing, so that fence and quiet need
     * not ask it; then it is opened again when the job gets a GPU side. */
    weft_status (*open)(const struct path_world *world, struct path_state **state);
    void (*close)(struct path_state *state);

    /* Where a place can be loaded and stored, by the CPU in host memory, by this PE's GPU in GPU
     * memory. WEFT_ERR_NO_PATH with the reason where it cannot. */
    weft_status (*address)(struct remote at, char **address);

    /* Returns when src may be reused. nbi: may keep src until quiet. */
    weft_status (*put)(struct remote to, const void *src, size_t bytes, bool nbi);
    weft_status (*get)(struct remote from, void *dst, size_t bytes, bool nbi);

    /* n elements; complete on return. */
    weft_status (*iput)(struct remote to, const void *src, const struct path_strides *strides);
    weft_status (*iget)(struct remote from, void *dst, const struct path_strides *strides);

    /* One access of `width` 1, 2, 4 or 8 bytes. */
    weft_status (*store)(struct remote to, const void *value, size_t width);
    weft_status (*load)(struct remote from, void *value, size_t width);

    /* width 4 or 8; *fetched gets the value from before when it is not NULL. */
    weft_status (*atomic)(struct remote at, weft_amo amo, size_t width, uint64_t value,
                          uint64_t expected, void *fetched, bool nbi);

    /* put, and then (never visible before the data) the signal; both over this path. */
    weft_status (*put_signal)(struct remote to, const void *src, size_t bytes, struct remote signal,
                              uint64_t value, weft_signal_op op, bool nbi);

    /* Order, or complete, what this context has given to this path. */
    weft_status (*fence)(struct path_state *state);
    weft_status (*quiet)(struct path_state *state);

    /* Moves on what is outstanding; called by waiting PEs. True: something has come, which is worth
     * a look before the CPU is given away. NULL: nothing ever needs it. */
    bool (*progress)(struct path_state *state);
};

/* The table of a path with every entry but `progress`, `open` and `close` filled; PATH_NONE has one
 * too. */
const struct path_ops *path_ops_of(enum path_id path);

const char *path_name(enum path_id path);

/* ----------------------------------------------------------------- choice: a pure function */

/* Parsed WEFT_PATH. */
struct path_order {
    int count; /* 0: the library's own order */
    enum path_id order[PATH_COUNT];
    uint32_t excluded; /* bit per path */
    bool forced;       /* a list was given: only its paths may be used */
};

/* "p2p,weak" (only these, in this order), "^p2p" (all but this), "" (own order).
 * WEFT_ERR_CONFIG names a path that is unknown or not in this version. */
weft_status path_order_parse(const char *text, struct path_order *order);

/* What is known of a peer's memory of one kind, seen from this PE. */
struct path_facts {
    weft_kind kind;
    bool same_pe;
    bool same_node;           /* the PEs share a kernel */
    bool mapped;              /* it is mapped here and may be accessed */
    const char *evidence;     /* why it is not mapped; NULL = not known */
    const char *relay_gpu;    /* by which third GPU GPU memory can be reached; NULL = by none */
    const char *no_relay_gpu; /* why by none */
    uint32_t failed;          /* bit per path: its proof failed */
    /* Of paths that look before they are chosen: what either end lacks, NULL = nothing; what this
     * end has found. */
    const char *lacks[PATH_COUNT], *has[PATH_COUNT];
    uint32_t own_too; /* bit per path that reaches this PE's own memory as well */
};

struct path_choice {
    enum path_id path;
    bool proven;                    /* data, flags and atomics have been seen to arrive over it */
    uint32_t failed;                /* bit per path whose proof failed between the two */
    char reason[PATH_REASON_BYTES]; /* why no better one; from `taken` on: why this */
    uint16_t chosen_at;
    /* What becomes of it later; under the job's lock of what is shown. */
    uint16_t shown;               /* number of why this in the black box, without what was found */
    char found[PATH_FOUND_BYTES]; /* by the path, of how it reaches that memory; it may change */
};

/* Fills path and reason. WEFT_ERR_NO_PATH, with each path's reason in the sentence and in
 * choice->reason, and path PATH_NONE, when none is left. */
weft_status path_choose(const struct path_facts *facts, const struct path_order *order,
                        struct path_choice *choice);

/* Why `path` is taken between the two, or is not, where `chosen` is. */
const char *path_why(enum path_id path, const struct path_facts *facts,
                     const struct path_order *order, enum path_id chosen);

#endif

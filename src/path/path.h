/* SPDX-License-Identifier: Apache-2.0 */
/* How this PE reaches a peer's memory. For every pair of a memory kind and a peer one path is
 * chosen (choose.c). A path is a table of operations on (segment, offset) at that peer, the same
 * for host and GPU memory. Where a peer's host memory is mapped here, src/ops does not call the
 * table, but loads and stores through peer->base.
 *
 * A new path needs its own files and one line in PATH_LIST. Its table `path_NAME` says when the
 * path can be used, what it keeps per context, and what it does; no other file names it. Paths know
 * nothing of teams, contexts and collectives. */
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
    PATH_NONE = PATH_COUNT /* no path is left; every operation fails and says why */
};

_Static_assert((int)PATH_COUNT < (int)BOX_PATHS, "the black box has a column for every path");

enum { MEMORY_KINDS = 2 }; /* WEFT_HOST, WEFT_GPU */
/* Memory in a PE's system segment for each PE. PATH_WORDS_BYTES: words that a NIC of that PE writes
 * when it tests a new link. PATH_MAIL_BYTES: where paths of that PE leave messages for the path's
 * threads here, by CPUs. No NIC has the mail registered, so a PE that leaves none takes no page of
 * it. */
enum { PATH_WORDS_BYTES = 16, PATH_MAIL_BYTES = 256, PATH_MAIL_PAGE = 4096 };
enum { PATH_FOUND_BYTES = 320, PATH_LACKS_BYTES = 512, PATH_REASON_BYTES = 640 };

static inline weft_kind segment_kind(enum segment_id segment)
{
    return segment == SEG_GPU ? WEFT_GPU : WEFT_HOST;
}

struct gpu;
struct weft_dev;
struct path_ops;
struct path_choice;
struct path_state;  /* state of a path for one context; opaque outside the path */
struct path_common; /* state of a path for the job; opaque outside the path */
struct path_found;
struct path_wait;

/* What paths know of their job. The job fills it; paths only read it. */
struct path_world {
    int pe, npes;
    struct boot *boot;
    char *(
        *map)[SEG_COUNT]; /* [npes] addresses here of each PE's host segments; NULL if not mapped */
    struct gpu *gpu;      /* NULL until the job first uses GPU memory */
    struct path_choice
        *choices[MEMORY_KINDS]; /* [npes] each; NULL: the job does not use that kind */
    struct path_found
        *found[PATH_COUNT]; /* result of that path's probe(); NULL: it was not called */
    struct path_common *common[PATH_COUNT]; /* result of that path's join() */
    uint32_t joins; /* while paths join: bit per path that joins now; the same at every PE */
    /* The path of all atomics on memory of that kind, the same at every PE; PATH_NONE: they take
     * the path of the pair. */
    enum path_id atomics[MEMORY_KINDS];
    size_t sizes[SEG_COUNT]; /* bytes of each PE's part of the host segments */
    /* In the system segment: where mailboxes of teams end and areas of device code begin, where
     * these end and buffers of reductions begin, and where these end. Flags, which grow and have
     * one writer each, are the first words of cache lines in mailboxes, and all words of 8 bytes
     * that PEs write to areas of others. Payloads of mailboxes and buffers are data. */
    size_t areas_offset, areas_end, buffers_end;
    size_t words_offset;    /* in the system segment: [npes][PATH_WORDS_BYTES], by sender */
    size_t mail_offset;     /* in the system segment: [npes][PATH_MAIL_BYTES], by sender */
    uint64_t wait_limit_ns; /* limit of any wait; 0: none */
    int cpus;               /* number of CPUs that the PEs of this node may run on */
    _Atomic bool
        alone; /* no other thread wanted the CPU of a waiting thread when it last yielded */

    /* The job's wait (job/waiter.h), for path_wait_step() and path_wait_end(). */
    void *job;
    weft_status (*wait_step)(struct path_wait *wait, uint64_t seen);
    void (*wait_end)(struct path_wait *wait);

    /* Replaces the text of refine(): the path reaches that memory in another way from now on. It
     * does not wait. NULL: the job does not record it. */
    void (*report_found)(const struct path_world *world, weft_kind kind, int pe, const char *found);

    /* A path that was `untested` to PE pe has passed its test. It does not wait. NULL: the job does
     * not record it. */
    void (*report_tested)(const struct path_world *world, weft_kind kind, int pe);

    /* Ends the job: operations of this PE are lost that no caller waits for. */
    void (*fail)(const struct path_world *world, weft_status status, const char *sentence);
};

/* A wait of a path until PE `pe` has raised a count. It has the limit and the diagnostics of every
 * other wait:
 *
 *     struct path_wait wait = {.world = world, .operation = BOX_OP_QUIET, .pe = pe, .expected = n};
 *     while (count < n && !status)
 *         status = path_wait_step(&wait, count);
 *     path_wait_end(&wait);
 *
 * A step may call `progress` of the job's contexts, under the job's lock. So no path may wait in
 * `open`, `close` or `progress`, or call a step while it holds a lock that its `progress` takes. */
struct path_wait {
    const struct path_world *world;
    enum box_operation operation;
    int pe;
    uint64_t expected;
    uint64_t job_state[32]; /* state of the job's wait; all 0 when the wait begins */
};

static inline weft_status path_wait_step(struct path_wait *wait, uint64_t seen)
{
    return wait->world->wait_step(wait, seen);
}

static inline void path_wait_end(struct path_wait *wait)
{
    wait->world->wait_end(wait);
}

/* One PE as one context sees it. 64 bytes, so that an operation reads one cache line. */
struct peer {
    char *base[SEG_COUNT];         /* load/store address of its host segments; NULL: use ops */
    struct box_counters *counters; /* counters of this context and path */
    const struct path_ops *ops;
    struct path_state *state;
    int32_t pe;    /* number of the PE in the job */
    uint16_t path; /* enum path_id; of a peer for atomics, the path of the data */
    uint16_t kind; /* weft_kind of the memory that this path reaches */
    const struct path_world *world;
};

/* An address at a peer. remote.peer is the peer for the memory kind of remote.segment. */
struct remote {
    struct peer *peer;
    enum segment_id segment;
    size_t offset;
};

/* Strides of a strided operation, in bytes. */
struct path_strides {
    size_t remote_step, local_step, element, n;
};

/* What a path has found on this machine before any pair chooses it. */
struct path_found {
    char lacks[PATH_LACKS_BYTES],
        has[240]; /* lacks: what is missing, "" if nothing; has: what there is */
    /* Atomics over this path on memory of that kind are atomic only with each other. Where a pair
     * of the job uses it for that kind, all atomics do, also of PEs whose data take another path,
     * and of a PE on its own memory. Such a path reaches every PE or none. The same at every PE. */
    bool exclusive_atomics[MEMORY_KINDS];
    uint32_t mbps;   /* rate of this PE's fastest NIC in Mbit/s; 0: unknown, or there is none */
    bool no_atomics; /* The path has no atomics: those of its pairs take its `spare`, so it can be
                        used only with that. The same at every PE. */
    void *probe_result; /* result for join(), which takes ownership; otherwise `drop` frees it */
    void (*drop)(void *keeps);
};

struct path_facts;

/* enum weft_queue_mode, see weft_device_queue_mode(). */
enum path_sharing { PATH_SHARED_BY_NUMBER, PATH_SHARED_BY_NONE, PATH_SHARED_BY_ALL };

/* The operations of a path. The caller has checked sizes and bounds. The local side of an operation
 * is any memory of this PE, its GPU's included. An entry that is NULL gets a default (table.c):
 * store, load, put_signal, iput and iget are made of put, get, atomic and quiet; fence is quiet;
 * quiet does nothing; every other entry fails and names the missing operation. */
struct path_ops {
    const char *name;
    const char *why; /* why the path is chosen without WEFT_PATH */
    bool automatic;  /* the path may be chosen without being named in WEFT_PATH */
    bool gpu_only;   /* The path reaches no host memory, so a WEFT_PATH of such paths does not
                        restrict host memory. */
    bool thread;     /* A thread of the peer takes part in the operations. */
    bool direct;     /* Operations on mapped host memory are loads and stores: peer->base is set. */

    /* NULL if the path can be used between two PEs, else why not. A pure function. */
    const char *(*obstacle)(const struct path_facts *facts);

    /* Replaces `why`: what is known of the route between the two PEs when the path is chosen. NULL:
     * nothing. */
    const char *(*route)(const struct path_facts *facts);

    /* Finds out whether this machine has what the path needs. It is called once, before any pair
     * chooses a path, in a job that may need this one: WEFT_PATH names it, or it is `automatic` and
     * there are other nodes; or later, when it is `automatic` and a pair has no other path left.
     * Collective over the job. A pair uses the path if neither end lacks anything. An error ends
     * the job: a wrong configuration, or PEs that cannot communicate. NULL: the path needs
     * nothing. */
    weft_status (*probe)(const struct path_world *world, struct path_found *found);

    /* Creates the path's state for the job, world->common[] afterwards. It is called once, before
     * any context opens the path, if some PE of the job has chosen it for some peer. Collective
     * over the job, so PEs that have not chosen it call it too. NULL: no state. */
    weft_status (*join)(const struct path_world *world, struct path_common **common);

    /* Bytes that this PE keeps of each PE from the start of a job whose PEs reach each other over
     * the path, with that many NICs and contexts. NULL: none. */
    size_t (*peer_bytes)(int nics, int contexts);

    /* The path that executes operations of this one when the connection to a PE fails; PATH_SELF:
     * none. A job that uses this path joins the other too, if it may use it. */
    enum path_id spare;

    /* The path tests of all PEs are done. Failures from now on are failures of a running job, and
     * world->common[spare] is set if the job has that path. Collective over the job. NULL: nothing
     * to begin. */
    weft_status (*begin)(struct path_common *common);

    /* Why the path to that PE is not tested when the job begins; NULL: it is tested. The same at
     * both ends. NULL entry: every PE is tested. */
    const char *(*untested)(const struct path_common *common, int pe);

    /* Finds out whether this path can reach that kind of the peer's memory by a better method than
     * the tested one. *found says which method is used and why; "" if there is nothing to say.
     * Every PE calls it after the path tests of the kind, and again when that memory has grown. An
     * error ends the job. NULL: there is no other method. */
    weft_status (*refine)(const struct path_world *world, weft_kind kind, int pe, char *found,
                          size_t bytes);

    /* Frees the job's state. Not collective, except for PEs that are threads, of which all call it
     * or none. Contexts are closed; the segments are still mapped and the GPU side is still
     * open. */
    void (*leave)(struct path_common *common);

    /* The CPUs on the NUMA node of the device that this PE's operations use, for threads that post
     * many of them. False: unknown. NULL: the operations use no device. */
    bool (*cpus)(const struct path_common *common, cpu_set_t *cpus);

    /* GPU memory of the job has come or gone: prepares the path for it. It is called after join(),
     * before the path reaches any of that memory. Collective over the job. NULL: nothing to
     * prepare. */
    weft_status (*gpu_memory)(struct path_common *common);

    /* transport: the transport (enum weft_dev_carrier) by which device code of that target posts
     * operations to this path itself, to PE pe, or for pe -1 to some PE; 0, or NULL: device code
     * uses the proxy. device: fills the
     * path's part of *dev, whose segments are filled already. */
    unsigned (*transport)(const struct path_common *common, bool cuda, int pe);
    weft_status (*device)(struct path_common *common, bool cuda, struct weft_dev *dev);

    /* Names the device that a queue of device code to the PE uses, "mlx5_0, port 1"; "" if it uses
     * none. */
    void (*name_queue)(const struct path_common *common, int pe, uint64_t queue, char *text,
                       size_t bytes);

    /* Waits until all operations that device code has posted to this path are complete at every
     * PE. */
    weft_status (*complete_device)(struct path_common *common);

    /* Changes how blocks of device code share the path's queues, in *dev; nothing that device code
     * has posted is incomplete, and no kernel posts. *blocks: how many blocks of a grid have queues
     * of their own then. NULL: there is nothing to choose. */
    weft_status (*share_queues)(struct path_common *common, enum path_sharing sharing,
                                struct weft_dev *dev, int *blocks);

    /* Opens the state for one context. *state NULL: the path has none, so fence and quiet skip it;
     * it is opened again when the job gets a GPU side. */
    weft_status (*open)(const struct path_world *world, struct path_state **state);
    void (*close)(struct path_state *state);

    /* The address of remote memory for loads and stores: by the CPU for host memory, by this PE's
     * GPU for GPU memory. WEFT_ERR_NO_PATH with the reason if there is none. */
    weft_status (*address)(struct remote at, char **address);

    /* Returns when src may be reused. nbi: the path may read src until quiet. */
    weft_status (*put)(struct remote to, const void *src, size_t bytes, bool nbi);
    weft_status (*get)(struct remote from, void *dst, size_t bytes, bool nbi);

    /* n elements; complete on return. */
    weft_status (*iput)(struct remote to, const void *src, const struct path_strides *strides);
    weft_status (*iget)(struct remote from, void *dst, const struct path_strides *strides);

    /* One access of `width` 1, 2, 4 or 8 bytes. */
    weft_status (*store)(struct remote to, const void *value, size_t width);
    weft_status (*load)(struct remote from, void *value, size_t width);

    /* width: 4 or 8 bytes. *fetched gets the old value if it is not NULL. */
    weft_status (*atomic)(struct remote at, weft_amo amo, size_t width, uint64_t value,
                          uint64_t expected, void *fetched, bool nbi);

    /* A put, then the signal, which never becomes visible before the data. Both use this path. */
    weft_status (*put_signal)(struct remote to, const void *src, size_t bytes, struct remote signal,
                              uint64_t value, weft_signal_op op, bool nbi);

    /* Orders, or completes, the operations of this context on this path. */
    weft_status (*fence)(struct path_state *state);
    weft_status (*quiet)(struct path_state *state);

    /* Limit of a wait of the path test in ns, where an answer needs no thread of the peer; 0: that
     * of other waits. */
    uint64_t test_limit_ns;

    /* The path is no longer used to PE pe: its operations are lost, and fence and quiet neither
     * wait for them nor report them. NULL: what has failed is reported once. */
    void (*forget)(struct path_state *state, int pe);

    /* Advances operations in flight. PEs that wait call it. True: something has arrived, so the
     * caller checks its condition before it yields the CPU. NULL: the path never needs it. */
    bool (*progress)(struct path_state *state);
};

/* The table of a path with defaults in all entries but `progress`, `open` and `close`. PATH_NONE
 * has a table too. */
const struct path_ops *path_ops_of(enum path_id path);

const char *path_name(enum path_id path);

/* ----------------------------------------------------------------- choice: a pure function */

/* WEFT_PATH, parsed. */
struct path_order {
    int count; /* 0: the order of PATH_LIST */
    enum path_id order[PATH_COUNT];
    uint32_t excluded; /* bit per path that is excluded */
    bool forced;       /* WEFT_PATH lists paths: only those may be used */
};

/* Parses "p2p,weak" (only these, in this order), "^p2p" (all but this) or "" (the default order).
 * WEFT_ERR_CONFIG: it names a path that is unknown or not in this version. */
weft_status path_order_parse(const char *text, struct path_order *order);

/* What this PE knows of a peer's memory of one kind. */
struct path_facts {
    weft_kind kind;
    bool same_pe;
    bool same_node;           /* The PEs share a kernel. */
    bool mapped;              /* The memory is mapped here and may be accessed. */
    const char *evidence;     /* why it is not mapped; NULL if unknown */
    const char *relay_gpu;    /* the relay GPU by which GPU memory can be reached; NULL: none */
    const char *no_relay_gpu; /* why there is no relay GPU */
    uint32_t failed;          /* bit per path whose path test failed */
    /* Of paths with probe(): what either end lacks, NULL if nothing; what this end has. */
    const char *lacks[PATH_COUNT], *has[PATH_COUNT];
};

/* Whether a path that WEFT_PATH does not name has NICs of too low a rate: those of the path behind
 * it have more than twice as much. Both in Mbit/s; 0: unknown. */
bool path_is_slow(uint32_t mbps, uint32_t behind);

/* The texts are the job's: choices with the same text share it (job_share_text()). */
struct path_choice {
    enum path_id path;
    _Atomic bool proven; /* The path test has passed: data, flags and atomics arrived. */
    uint16_t chosen_at;
    uint32_t failed; /* bit per path whose path test failed between the two PEs */
    /* Later changes, under the job's lock of the published choices. */
    uint16_t shown;     /* reason number in the black box, without `found` */
    const char *reason; /* why no better path was chosen; from `chosen_at` on, why this one was */
    const char *found;  /* how the path reaches that memory, as the path reports; may change */
};

/* Fills path and reason, whose text is `text`. WEFT_ERR_NO_PATH if no path is left: the error text
 * and choice->reason name each path's reason, and the path is PATH_NONE. */
weft_status path_choose(const struct path_facts *facts, const struct path_order *order,
                        struct path_choice *choice, char text[PATH_REASON_BYTES]);

/* Why `path` is used between the two PEs, or is not, if `chosen` is used. */
const char *path_why(enum path_id path, const struct path_facts *facts,
                     const struct path_order *order, enum path_id chosen);

#endif

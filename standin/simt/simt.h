/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the SIMT executor: lanes, warps, blocks, grids, and who calls whom.
 *
 *   stream.c  queues of grids, host calls and events; starts the head of each queue
 *   worker.c  threads that take blocks of the running grids and run them slice by slice
 *   block.c   which lane of a block runs next; start, end and failure of lanes; barriers
 *   warp.c    operations at which lanes of a warp meet
 *   device.c  the primitives that need no meeting: who am I, polling, clock, shared memory
 *   context.c switching between stacks, stacks.c their pool
 *
 * A block belongs to one worker from its start to its end, so nothing in it is locked. These files
 * are never instrumented by ThreadSanitizer: what a kernel may rely on is told to it in words
 * (tsan_*), so that it finds races between lanes although they share a thread. */
#ifndef WEFT_STANDIN_SIMT_H
#define WEFT_STANDIN_SIMT_H

#include "base/status.h"
#include "context.h"

#include <weft/device/simt.h>
#include <weft/simt_executor.h>

#include <pthread.h>
#include <stdbool.h>

enum { LANES = WEFT_WARP_LANES, SITES = 64, SITE_STATIC_BYTES = 48 * 1024 };

/* Polls before a lane gives way; and how often it does so for its worker alone. */
enum { BUDGET = 64, YIELDS_ALONE = 16 };

/* Shared memory is not initialised; this byte makes that visible. */
enum { SHARED_FILL = 0xa5 };

struct warp;
struct block;

struct lane {
    struct weft_simt_lane self; /* first: device code holds pointers to it */
    struct context context;
    struct warp *warp;
    uint64_t wake_ns;    /* while in warp->sleeping */
    uintptr_t low, high; /* addresses polled before it last gave way */
    /* The warp operation that the lane waits in, and its result. */
    enum weft_simt_warp_op op;
    uint32_t mask;
    unsigned arg;
    uint64_t value;
    uint64_t result;
    const void *site; /* of active_mask, */
    size_t depth;     /* and how much of the stack is used there */
    /* ThreadSanitizer's model of fences. */
    bool fenced;
    unsigned loads;
    const volatile void *loaded[8];
    char meet_tag; /* its address is ThreadSanitizer's object for a sync_warp led by this lane */
};

/* Sets of lanes. A lane that exists is in exactly one of exited, ready, in_warp, in_block,
 * in_active. */
struct warp {
    struct block *block;
    struct lane *lanes;
    uint32_t existing;
    uint32_t started; /* has a stack */
    uint32_t exited;
    uint32_t ready;     /* may run */
    uint32_t todo;      /* of ready: has not run in this slice */
    uint32_t sleeping;  /* of ready: not before wake_ns */
    uint32_t in_warp;   /* waits in a warp operation */
    uint32_t in_block;  /* waits at the barrier */
    uint32_t in_active; /* waits for active_mask */
    /* The operation of the lanes in in_warp, unless it is not the same for all. */
    enum weft_simt_warp_op op;
    uint32_t mask;
    bool mixed;
};

struct site {
    const void *key;
    void *memory;
    size_t bytes;
};

struct block {
    struct grid *grid;
    struct block *next; /* of the worker */
    unsigned index[3];
    unsigned lanes, warps;
    unsigned alive;
    unsigned current_warp;
    bool progress;  /* in this slice: a lane ended, met others, or wrote */
    bool abandoned; /* a lane of it failed */
    bool only;      /* its worker holds no other block */
    unsigned went_on;
    struct context *worker;
    struct lane *dead; /* has exited; its stack goes back once another one runs */
    /* The barrier. */
    enum weft_simt_block_op barrier_op;
    unsigned arrived, agreed; /* lanes there; those with pred != 0 */
    int barrier_result;
    char barrier_tag;
    /* Shared memory. */
    void *dynamic;
    char *arena; /* ThreadSanitizer: where the declared arrays lie */
    struct site sites[SITES];
    unsigned n_sites;
    size_t static_bytes;
    size_t room_bytes; /* of this structure with its warps and lanes */
    struct warp *warp; /* array */
    struct lane *lane; /* array, by thread rank */
};

struct grid {
    struct grid *next; /* of the running ones */
    weft_simt_launch_attr attr;
    struct stream_op *op;
    void *state; /* of the thread that launched */
    uint64_t blocks;
    unsigned block_lanes;
    /* Under pool lock. */
    uint64_t started, resident;
    /* Set by the first fault, read by every slice. */
    int claimed, failed;
    char report[512];
    char start_tag, end_tag;
    _Alignas(16) char args[];
};

/* The lane that runs on this thread, NULL outside kernels. */
extern _Thread_local struct lane *simt_current __attribute__((tls_model("initial-exec")));

/* ------------------------------------------------------------------------------- block.c */

struct block *block_create(struct grid *grid, uint64_t number);
void block_destroy(struct block *block);

enum slice { SLICE_IDLE, SLICE_PROGRESS, SLICE_ENDED };

/* Runs every lane that can run until each has met, given way or ended. */
enum slice block_slice(struct block *block, struct context *worker);

/* Gives up the thread: to another lane of the block, else to the worker. */
void block_give_way(struct lane *lane);

/* The same as it wishes, and not because it has polled so often. */
void block_pause(struct lane *lane);

/* Takes one poll from the lane's budget; gives way when it is spent. */
void block_spend(struct lane *lane);

/* Wrong use by `lane`: ends the grid with this sentence after kernel, block and lane. */
_Noreturn void block_fail(struct lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Records the first fault of a grid and logs it. */
void grid_fail(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a sync that names an exited lane is a fault (WEFT_SIMT_EXITED). */
bool block_exited_is_fault(void);

/* Reads the configuration; before any worker runs. */
void block_configure(void);

/* -------------------------------------------------------------------------------- warp.c */

/* What a lane waits in, for a report: "ballot with mask 0x...". */
void warp_describe_wait(const struct lane *lane, char *text, size_t bytes);

/* `lane` has exited: completes or refuses what the others of its warp wait in. */
void warp_lane_exited(struct warp *warp, struct lane *lane);

/* No lane of the warp can run any more: those at active_mask go on in groups. */
void warp_resolve_active(struct warp *warp);

static inline uint32_t lane_bit(const struct lane *lane)
{
    return 1u << lane->self.lane;
}

/* ------------------------------------------------------------------------------ worker.c */

/* One lock for streams, running grids and their counts. */
void pool_lock(void);
void pool_unlock(void);

/* With the lock held. */
weft_status pool_start(void);
void pool_add(struct grid *grid);
void pool_wait(void);   /* until something is done */
void pool_notify(void); /* something is done */
void pool_wait_on(pthread_cond_t *condition);

void pool_shutdown(void);
unsigned pool_threads(void);
uint64_t pool_lane_limit(void);

/* ------------------------------------------------------------------------------ stream.c */

/* A grid has ended; lock held. */
void stream_grid_done(struct grid *grid);

/* Memory that lanes see is mapped afresh under ThreadSanitizer, which would take its reuse for a
 * race; else it comes from malloc, where AddressSanitizer watches its ends. */
void *room_alloc(size_t bytes);
void room_free(void *room, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Internal interface of the SIMT executor: lanes, warps, blocks, grids.
 *
 *     stream.c  queues of grids, host calls and events; starts the head of each queue
 *     worker.c  threads that start blocks of the running grids and run them slice by slice
 *     block.c   which lane of a block runs next; start, end and failure of lanes; barriers
 *     warp.c    operations that synchronise lanes of a warp
 *     device.c  primitives without synchronisation: indices, polling, clock, shared memory
 *     context.c switching between stacks, stacks.c their pool
 *
 * One worker runs a block from its start to its end, so nothing in a block is locked.
 * ThreadSanitizer never instruments these files. They annotate (tsan_*) what a kernel may rely on,
 * so that ThreadSanitizer finds races between lanes although they share a thread. */
#ifndef WEFT_STANDIN_SIMT_H
#define WEFT_STANDIN_SIMT_H

#include "base/status.h"
#include "context.h"

#include <weft/device/simt.h>
#include <weft/simt_executor.h>

#include <pthread.h>
#include <stdbool.h>

enum { SITES = 64, SITE_STATIC_BYTES = 48 * 1024 };

/* Polls before a lane yields; and how many yields to the worker a lone lane skips. */
enum { POLL_BUDGET = 64, YIELDS_SKIPPED = 16 };

/* Shared memory is not initialised; this byte makes that visible. */
enum { SHARED_FILL = 0xa5 };

struct warp;
struct block;

struct lane {
    struct weft_simt_lane self; /* first: device code holds pointers to it */
    struct context context;
    struct warp *warp;
    uint64_t wake_ns;    /* wake-up time, while in warp->sleeping */
    uint64_t converged;  /* lanes with which it last met */
    uintptr_t low, high; /* range of addresses polled before it last yielded */
    /* The warp operation that the lane waits in, and its result. */
    enum weft_simt_warp_op op;
    uint64_t mask;
    unsigned arg;
    uint64_t value;
    uint64_t result;
    const void *site; /* call site of active_mask */
    size_t depth;     /* bytes of stack used there */
    /* ThreadSanitizer's model of fences. */
    bool fenced;
    unsigned loads;
    const volatile void *loaded[8];
    char meet_tag; /* its address is ThreadSanitizer's object for a sync_warp led by this lane */
};

/* A wait of lanes that are not independent. */
struct wait {
    const void *caller; /* return address of the call that began it */
    size_t depth;       /* bytes of stack used there */
    uint64_t lanes;     /* lane->converged of its lanes */
};

/* Sets of lanes. A lane that exists is in exactly one of exited, ready, in_warp, in_block,
 * in_active, held. */
struct warp {
    struct block *block;
    struct lane *lanes;
    uint64_t existing;
    uint64_t started; /* have a stack */
    uint64_t exited;
    uint64_t ready;     /* may run */
    uint64_t todo;      /* subset of ready: have not run in this slice */
    uint64_t sleeping;  /* subset of ready: not before wake_ns */
    uint64_t in_warp;   /* wait in a warp operation */
    uint64_t in_block;  /* wait at the barrier */
    uint64_t in_active; /* wait for active_mask */
    /* Operation and mask of the lanes in in_warp, unless `mixed`: they differ. */
    enum weft_simt_warp_op op;
    uint64_t mask;
    bool mixed;
    /* Lanes that are not independent (warp.c). */
    struct wait wait;
    uint64_t waiting;    /* are in the wait */
    uint64_t held;       /* have left it */
    uint64_t held_since; /* ns; when the first of them was held */
    uint64_t freed;      /* were let go because they were held for too long */
    uint64_t freed_ns;
    uint64_t watching; /* poll one address without result */
};

struct site {
    const void *key;
    void *memory;
    size_t bytes;
};

struct block {
    struct grid *grid;
    struct block *next; /* next block of the worker */
    unsigned index[3];
    unsigned lanes, warps;
    unsigned alive;
    unsigned current_warp;
    bool progress;  /* in this slice a lane ended, synchronised with others, or wrote */
    bool abandoned; /* a lane failed */
    bool only;      /* its worker holds no other block */
    unsigned yields_skipped;
    struct context *worker;
    struct lane *dead; /* an exited lane, whose stack is freed once another one runs */
    /* The barrier. */
    enum weft_simt_block_op barrier_op;
    unsigned arrived, pred_count; /* lanes that have arrived; those with pred != 0 */
    int barrier_result;
    char barrier_tag;
    /* Shared memory. */
    void *dynamic;
    char *arena; /* ThreadSanitizer: memory of the declared arrays */
    struct site sites[SITES];
    unsigned n_sites;
    size_t static_bytes;
    size_t memory_bytes; /* bytes of this structure with its warps and lanes */
    struct warp *warp;   /* array */
    struct lane *lane;   /* array, by thread rank */
};

struct grid {
    struct grid *next; /* next running grid */
    weft_simt_launch_attr attr;
    struct stream_op *op;
    void *state; /* device state of the launching thread */
    uint64_t blocks;
    unsigned block_lanes;
    /* Protected by the pool lock. */
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

/* Runs every lane that can run until it synchronises, yields or ends. */
enum slice block_slice(struct block *block, struct context *worker);

/* Yields the thread to another lane of the block, or else to the worker. */
void block_yield(struct lane *lane);

/* The same at the lane's own request, not because its poll budget is used up. */
void block_pause(struct lane *lane);

/* Counts a poll of the lane; yields when its budget is used up. */
void block_count_poll(struct lane *lane);

/* Reports wrong use by `lane` and ends the grid. The message gets kernel, block and lane as
 * prefix. */
_Noreturn void block_fail(struct lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Records the first fault of a grid and logs it. */
void grid_fail(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns true if a sync that names an exited lane is an error (WEFT_TEST_SIMT_EXITED). */
bool block_exited_is_fault(void);

/* Reads the configuration; before any worker runs. */
void block_configure(void);

/* Lanes of a warp. */
extern unsigned simt_wave;

/* -------------------------------------------------------------------------------- warp.c */

/* Describes what a lane waits for: "ballot with mask 0x...". */
void warp_describe_wait(const struct lane *lane, char *text, size_t bytes);

/* Called when `lane` has exited: completes the operations that other lanes of its warp wait in, or
 * fails them. */
void warp_lane_exited(struct warp *warp, struct lane *lane);

/* Called when no lane of the warp can run: lanes that wait for active_mask continue in groups. */
void warp_resolve_active(struct warp *warp);

/* Lets lanes go that have been held for too long. */
void warp_free_held(struct warp *warp);

/* Called when the lane has used up its polls, at addresses from lane->low to lane->high: those of
 * one address had no result, unless it has written. */
void warp_watch(struct lane *lane, bool wrote);

/* The lane has come to other lanes: it polls no longer. */
void warp_end_watch(struct lane *lane);

static inline uint64_t lane_bit(const struct lane *lane)
{
    return (uint64_t)1 << lane->self.lane;
}

static inline unsigned lowest_lane(uint64_t set)
{
    return (unsigned)__builtin_ctzll(set);
}

/* ------------------------------------------------------------------------------ worker.c */

/* One lock for streams, running grids and their counts. */
void pool_lock(void);
void pool_unlock(void);

/* With the lock held. */
weft_status pool_start(void);
void pool_add(struct grid *grid);
void pool_wait(void);   /* waits for a notification */
void pool_notify(void); /* wakes all waiters */
void pool_wait_on(pthread_cond_t *condition);

void pool_shutdown(void);
unsigned pool_threads(void);
uint64_t pool_lane_limit(void);

/* ------------------------------------------------------------------------------ stream.c */

/* A grid has ended; lock held. */
void stream_grid_done(struct grid *grid);

/* Memory that lanes access. Under ThreadSanitizer it is newly mapped, because reuse would look like
 * a race; otherwise it comes from malloc, so that AddressSanitizer checks its bounds. */
void *lane_memory_alloc(size_t bytes);
void lane_memory_free(void *room, size_t bytes);

#endif

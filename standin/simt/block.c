/* SPDX-License-Identifier: Apache-2.0 */
/* A block: which lane runs next, start and end of lanes, the barrier, and the errors of wrong use.
 * All of it runs on the worker thread that holds the block. */
#include "simt.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Thread_local struct lane *simt_current __attribute__((tls_model("initial-exec")));

/* ----------------------------------------------------------------------------------- faults */

static bool exited_is_fault = true;
unsigned simt_wave = 32;

bool block_exited_is_fault(void)
{
    return exited_is_fault;
}

void block_configure(void)
{
    enum { REPORT, WAVE_32 = 0 };
    exited_is_fault = config_choice(CONFIG_TEST_SIMT_EXITED) == REPORT;
    simt_wave = config_choice(CONFIG_TEST_SIMT_WAVE) == WAVE_32 ? 32 : 64;
}

static void grid_vfail(struct grid *grid, const char *where, const char *format, va_list args)
{
    if (__atomic_exchange_n(&grid->claimed, 1, __ATOMIC_ACQ_REL))
        return;
    char what[320];
    vsnprintf(what, sizeof what, format, args);
    snprintf(grid->report, sizeof grid->report, "kernel %s%s: %s", grid->attr.name, where, what);
    log_error(LOG_SIMT, "%s", grid->report);
    tsan_release(&grid->end_tag);
    /* Pairs with the acquire in block_slice() and in stream_grid_done(). */
    __atomic_store_n(&grid->failed, 1, __ATOMIC_RELEASE);
}

void grid_fail(struct grid *grid, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    grid_vfail(grid, "", format, args);
    va_end(args);
}

static void lane_vfail(const struct lane *lane, const char *format, va_list args)
{
    const struct block *block = lane->warp->block;
    const unsigned *b = lane->self.block, *t = lane->self.thread;
    char where[128];
    snprintf(where, sizeof where, ", block (%u,%u,%u), thread (%u,%u,%u) (warp %u, lane %u)", b[0],
             b[1], b[2], t[0], t[1], t[2], (unsigned)(lane->warp - block->warp), lane->self.lane);
    grid_vfail(block->grid, where, format, args);
}

static void lane_fail(const struct lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void lane_fail(const struct lane *lane, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    lane_vfail(lane, format, args);
    va_end(args);
}

/* Leaves the running lane forever and switches to the worker. */
static _Noreturn void leave_to_worker(struct block *block)
{
    struct lane *running = simt_current;
    block->abandoned = true;
    simt_current = NULL;
    context_switch(&running->context, block->worker, true);
    __builtin_unreachable();
}

_Noreturn void block_fail(struct lane *lane, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    lane_vfail(lane, format, args);
    va_end(args);
    leave_to_worker(lane->warp->block);
}

/* ------------------------------------------------------------------------------- scheduling */

static void lane_entry(void);

static bool lane_start(struct lane *lane)
{
    char *stack = stack_get();
    if (!stack) {
        lane_fail(
            lane,
            "no memory for the lane's stack: mmap or mprotect: %s; lower WEFT_TEST_SIMT_LANES or "
            "WEFT_SIMT_STACK, or raise vm.max_map_count",
            strerror(errno));
        return false;
    }
    /* Stacks are a multiple of a page apart. Their tops use different offsets, or the lanes of a
     * warp would compete for one cache set. */
    size_t colour = lane->self.lane % 16 * 256;
    context_init(&lane->context, stack, stack_bytes() - colour, lane_entry);
    lane->warp->started |= lane_bit(lane);
    return true;
}

static void lane_drop_stack(struct lane *lane)
{
    context_fini(&lane->context);
    stack_put(lane->context.stack);
    lane->warp->started &= ~lane_bit(lane);
}

/* Called first after every switch: frees the stack of the previous lane if it has exited. */
static void release_exited_stack(struct block *block)
{
    if (!block->dead)
        return;
    lane_drop_stack(block->dead);
    block->dead = NULL;
}

/* Returns the next lane that has not run in this slice, or NULL. */
static struct lane *next_lane(struct block *block)
{
    for (unsigned n = 0; n < block->warps; n++) {
        struct warp *warp = &block->warp[block->current_warp];
        if (!(warp->todo & warp->ready) && warp->in_active)
            warp_resolve_active(warp);
        uint64_t can = warp->todo & warp->ready;
        if (can) {
            warp->todo &= ~(can & -can);
            return &warp->lanes[lowest_lane(can)];
        }
        if (++block->current_warp == block->warps)
            block->current_warp = 0;
    }
    return NULL;
}

/* Switches from the running lane to `next`, or to the worker if it is NULL. */
static void switch_to(struct block *block, struct lane *running, struct lane *next, bool last)
{
    if (next && !(next->warp->started & lane_bit(next)) && !lane_start(next))
        leave_to_worker(block);
    simt_current = next;
    context_switch(&running->context, next ? &next->context : block->worker, last);
    release_exited_stack(block);
}

void block_yield(struct lane *lane)
{
    struct block *block = lane->warp->block;
    struct lane *next = next_lane(block);
    if (next != lane)
        switch_to(block, lane, next, false);
}

/* Begins a new count of polled addresses. Returns true if the lane has written since the last
 * one. */
static bool begin_polls(struct lane *lane)
{
    struct weft_simt_lane *self = &lane->self;
    bool wrote = self->wrote;
    /* A lane that has written nothing and polled the same addresses as before is waiting; any other
     * lane makes progress. */
    if (wrote || self->low != lane->low || self->high != lane->high)
        lane->warp->block->progress = true;
    lane->low = self->low;
    lane->high = self->high;
    self->low = UINTPTR_MAX;
    self->high = 0;
    self->wrote = 0;
    self->budget = POLL_BUDGET;
    warp_watch(lane, wrote);
    return wrote;
}

/* A lane that is alone with its worker has no other lane to yield to. While it writes, it yields to
 * the worker, which starts further blocks, only once in YIELDS_SKIPPED times. */
static bool continues_without_yield(struct block *block)
{
    return block->only && block->alive == 1 && ++block->yields_skipped % YIELDS_SKIPPED;
}

WEFT_EXPORT void weft_simt_yield(void)
{
    struct lane *lane = simt_current;
    if (!lane)
        weft_simt_self()->budget = POLL_BUDGET;
    else if (!begin_polls(lane) || !continues_without_yield(lane->warp->block))
        block_yield(lane);
}

void block_pause(struct lane *lane)
{
    begin_polls(lane);
    block_yield(lane);
}

void block_count_poll(struct lane *lane)
{
    if (--lane->self.budget <= 0)
        weft_simt_yield();
}

/* ----------------------------------------------------------------------------- the barrier */

static const char *const barrier_names[] = {
    [WEFT_SIMT_SYNC_BLOCK] = "sync_block",
    [WEFT_SIMT_SYNC_BLOCK_COUNT] = "sync_block_count",
    [WEFT_SIMT_SYNC_BLOCK_AND] = "sync_block_and",
    [WEFT_SIMT_SYNC_BLOCK_OR] = "sync_block_or",
};

/* Returns the first lane of the block in the set at `offset` of its warp. */
static struct lane *first_lane_in(struct block *block, size_t offset)
{
    for (unsigned w = 0; w < block->warps; w++) {
        uint64_t set = *(const uint64_t *)((const char *)&block->warp[w] + offset);
        if (set)
            return &block->warp[w].lanes[lowest_lane(set)];
    }
    return NULL;
}

#define FIRST_IN(block, set) first_lane_in(block, offsetof(struct warp, set))

static unsigned rank_of(const struct lane *lane)
{
    return (unsigned)(lane - lane->warp->block->lane);
}

static void barrier_open(struct block *block)
{
    switch (block->barrier_op) {
    case WEFT_SIMT_SYNC_BLOCK_COUNT:
        block->barrier_result = (int)block->pred_count;
        break;
    case WEFT_SIMT_SYNC_BLOCK_AND:
        block->barrier_result = block->pred_count == block->arrived;
        break;
    default:
        block->barrier_result = block->pred_count != 0;
    }
    block->arrived = block->pred_count = 0;
    block->progress = true;
    for (unsigned w = 0; w < block->warps; w++) {
        struct warp *warp = &block->warp[w];
        warp->ready |= warp->in_block;
        warp->todo |= warp->in_block;
        warp->in_block = 0;
        for (uint64_t set = warp->existing; set; set &= set - 1)
            warp->lanes[lowest_lane(set)].converged = warp->existing;
    }
}

/* Fails the block if the barrier could never open. */
static void barrier_check(struct block *block, struct lane *lane, enum weft_simt_block_op op)
{
    if (block->arrived && block->barrier_op != op) {
        const struct lane *other = FIRST_IN(block, in_block);
        block_fail(lane, "%s, while thread %u waits in %s", barrier_names[op], rank_of(other),
                   barrier_names[block->barrier_op]);
    }
    if (block->alive < block->lanes && block_exited_is_fault())
        block_fail(lane, "%s cannot be reached by thread %u, which has exited", barrier_names[op],
                   rank_of(FIRST_IN(block, exited)));
    struct warp *warp = lane->warp;
    for (uint64_t set = warp->in_warp; set; set &= set - 1) {
        const struct lane *other = &warp->lanes[lowest_lane(set)];
        char state[96];
        if (!(other->mask & lane_bit(lane)))
            continue;
        warp_describe_wait(other, state, sizeof state);
        block_fail(lane, "%s cannot be reached by thread %u, which %s, for this lane too",
                   barrier_names[op], rank_of(other), state);
    }
}

WEFT_EXPORT int weft_simt_block(enum weft_simt_block_op op, int pred)
{
    struct lane *lane = simt_current;
    if (!lane)
        return op != WEFT_SIMT_SYNC_BLOCK && pred != 0;
    struct block *block = lane->warp->block;
    block_count_poll(lane);
    barrier_check(block, lane, op);
    warp_end_watch(lane);

    tsan_release(&block->barrier_tag);
    block->barrier_op = op;
    block->arrived++;
    block->pred_count += pred != 0;
    lane->warp->in_block |= lane_bit(lane);
    lane->warp->ready &= ~lane_bit(lane);
    if (block->arrived == block->alive) {
        barrier_open(block);
        lane->warp->todo &= ~lane_bit(lane); /* continues at once */
    } else {
        block_yield(lane);
    }
    tsan_acquire(&block->barrier_tag);
    return block->barrier_result;
}

static void barrier_lane_exited(struct block *block, const struct lane *lane)
{
    if (!block->arrived)
        return;
    if (block_exited_is_fault())
        block_fail(FIRST_IN(block, in_block), "%s cannot be reached by thread %u, which has exited",
                   barrier_names[block->barrier_op], rank_of(lane));
    if (block->arrived == block->alive)
        barrier_open(block);
}

/* ---------------------------------------------------------------------- start and end of lanes */

static void lane_exit(struct lane *lane)
{
    struct warp *warp = lane->warp;
    struct block *block = warp->block;
    tsan_release(&block->grid->end_tag);
    warp->exited |= lane_bit(lane);
    warp->ready &= ~lane_bit(lane);
    warp->watching &= ~lane_bit(lane);
    block->alive--;
    block->progress = true;
    warp_lane_exited(warp, lane);
    barrier_lane_exited(block, lane);

    struct lane *next = next_lane(block);
    if (next && !(next->warp->started & lane_bit(next))) {
        /* A lane that has not started takes over the stack without a switch. */
        next->context = lane->context;
        next->warp->started |= lane_bit(next);
        warp->started &= ~lane_bit(lane);
        simt_current = next;
        return;
    }
    block->dead = lane;
    switch_to(block, lane, next, true);
    __builtin_unreachable();
}

/* Entry of every context. Under ThreadSanitizer lanes never take over stacks: all are started with
 * the block. */
static void lane_entry(void)
{
    context_entered();
    release_exited_stack(simt_current->warp->block);
    for (;;) {
        struct grid *grid = simt_current->warp->block->grid;
        tsan_acquire(&grid->start_tag);
        grid->attr.kernel(grid->args);
        lane_exit(simt_current);
    }
}

/* ------------------------------------------------------------------------------------ slices */

static void wake_sleepers(struct warp *warp, uint64_t now)
{
    for (uint64_t set = warp->sleeping; set; set &= set - 1) {
        unsigned i = lowest_lane(set);
        if (warp->lanes[i].wake_ns <= now)
            warp->sleeping &= ~((uint64_t)1 << i);
    }
}

/* Reports that every remaining lane waits: what the first one waits for, and which lane. */
static void report_deadlock(struct block *block)
{
    const struct lane *lane = FIRST_IN(block, in_block);
    char mine[96], theirs[96];
    const struct lane *other = NULL;
    if (lane) {
        other = FIRST_IN(block, in_warp);
    } else {
        lane = FIRST_IN(block, in_warp);
        for (uint64_t set = lane->mask & lane->warp->existing; set && !other; set &= set - 1) {
            const struct lane *named = &lane->warp->lanes[lowest_lane(set)];
            bool there = lane->warp->in_warp & lane_bit(named) && named->op == lane->op &&
                         named->mask == lane->mask;
            other = there ? NULL : named;
        }
    }
    warp_describe_wait(lane, mine, sizeof mine);
    if (!other) {
        lane_fail(lane, "all %u lanes that remain of the block wait; this one %s", block->alive,
                  mine);
        return;
    }
    warp_describe_wait(other, theirs, sizeof theirs);
    lane_fail(lane, "all %u lanes that remain of the block wait: this one %s, thread %u %s",
              block->alive, mine, rank_of(other), theirs);
}

enum slice block_slice(struct block *block, struct context *worker)
{
    if (block->abandoned || __atomic_load_n(&block->grid->failed, __ATOMIC_ACQUIRE))
        return SLICE_ENDED;
    block->worker = worker;
    block->progress = false;
    block->current_warp = 0;
    uint64_t now = 0;
    for (unsigned w = 0; w < block->warps; w++) {
        struct warp *warp = &block->warp[w];
        if (warp->sleeping)
            wake_sleepers(warp, now ? now : (now = clock_now_ns()));
        if (warp->held)
            warp_free_held(warp);
        warp->todo = warp->ready & ~warp->sleeping;
    }
    struct lane *first = next_lane(block);
    if (first) {
        if (!(first->warp->started & lane_bit(first)) && !lane_start(first))
            return SLICE_ENDED;
        simt_current = first;
        context_switch(worker, &first->context, false);
        release_exited_stack(block);
    }
    if (block->abandoned || !block->alive)
        return SLICE_ENDED;
    if (!FIRST_IN(block, ready)) {
        report_deadlock(block);
        return SLICE_ENDED;
    }
    return block->progress ? SLICE_PROGRESS : SLICE_IDLE;
}

/* --------------------------------------------------------------------- start and end of a block */

static void lanes_init(struct block *block)
{
    const weft_simt_launch_attr *attr = &block->grid->attr;
    for (unsigned i = 0; i < block->lanes; i++) {
        struct lane *lane = &block->lane[i];
        unsigned x = attr->block[0], y = attr->block[1];
        lane->warp = &block->warp[i / simt_wave];
        lane->self = (struct weft_simt_lane){
            .thread = {i % x, i / x % y, i / x / y},
            .block = {block->index[0], block->index[1], block->index[2]},
            .block_dim = {attr->block[0], attr->block[1], attr->block[2]},
            .grid_dim = {attr->grid[0], attr->grid[1], attr->grid[2]},
            .lane = i % simt_wave,
            .budget = POLL_BUDGET,
            .state = block->grid->state,
            .low = UINTPTR_MAX,
            .wave = simt_wave,
            .watching = &lane->warp->watching,
        };
        lane->converged = ~(uint64_t)0;
    }
    for (unsigned w = 0; w < block->warps; w++) {
        struct warp *warp = &block->warp[w];
        unsigned n = block->lanes - w * simt_wave;
        n = n < simt_wave ? n : simt_wave;
        warp->block = block;
        warp->lanes = &block->lane[w * simt_wave];
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): n is at least 1 */
        warp->existing = ~(uint64_t)0 >> (64 - n);
        warp->ready = warp->existing;
    }
}

struct block *block_create(struct grid *grid, uint64_t number)
{
    unsigned lanes = grid->block_lanes, warps = (lanes + simt_wave - 1) / simt_wave;
    size_t room = sizeof(struct block) + warps * sizeof(struct warp) + lanes * sizeof(struct lane);
    struct block *block = lane_memory_alloc(room);
    if (!block) {
        grid_fail(grid, "no memory for a block of %u lanes", lanes);
        return NULL;
    }
    memset(block, 0, room);
    block->grid = grid;
    block->memory_bytes = room;
    block->lanes = block->alive = lanes;
    block->warps = warps;
    block->lane = (struct lane *)(block + 1);
    block->warp = (struct warp *)(block->lane + lanes);
    block->index[0] = (unsigned)(number % grid->attr.grid[0]);
    block->index[1] = (unsigned)(number / grid->attr.grid[0] % grid->attr.grid[1]);
    block->index[2] = (unsigned)(number / grid->attr.grid[0] / grid->attr.grid[1]);
    lanes_init(block);
    if (grid->attr.shared_bytes) {
        block->dynamic = lane_memory_alloc(grid->attr.shared_bytes);
        if (!block->dynamic) {
            grid_fail(grid, "no memory for %zu bytes of shared memory", grid->attr.shared_bytes);
            block->abandoned = true;
            return block;
        }
        memset(block->dynamic, SHARED_FILL, grid->attr.shared_bytes);
    }
#if CONTEXT_TSAN
    /* Mapped here and not by the first lane that needs it, because ThreadSanitizer treats a mapping
     * as a write. */
    block->arena = lane_memory_alloc(SITE_STATIC_BYTES);
    if (block->arena)
        memset(block->arena, SHARED_FILL, SITE_STATIC_BYTES);
    /* Created here, because a fiber inherits its creator's history: created by another lane it
     * would hide races. */
    for (unsigned i = 0; i < lanes && !block->abandoned; i++)
        block->abandoned = !lane_start(&block->lane[i]);
#endif
    return block;
}

void block_destroy(struct block *block)
{
    for (unsigned w = 0; w < block->warps; w++)
        for (uint64_t set = block->warp[w].started; set; set &= set - 1)
            lane_drop_stack(&block->warp[w].lanes[lowest_lane(set)]);
#if CONTEXT_TSAN
    lane_memory_free(block->arena, SITE_STATIC_BYTES);
#else
    for (unsigned i = 0; i < block->n_sites; i++)
        lane_memory_free(block->sites[i].memory, block->sites[i].bytes);
#endif
    lane_memory_free(block->dynamic, block->grid->attr.shared_bytes);
    lane_memory_free(block, block->memory_bytes);
}

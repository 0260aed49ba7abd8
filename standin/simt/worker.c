/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads. Each starts blocks of the running grids and runs its blocks in turn, slice by
 * slice, until they end. */
#include "simt.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/cpus.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A worker whose lanes only poll yields its CPU each round. After IDLE_BEFORE_SLEEP_NS its lanes
 * wait for another process or a slow thread, and it sleeps between rounds: thousands of polling
 * lanes would take the CPUs from what they wait for. */
enum { IDLE_BEFORE_SLEEP_NS = 1000 * 1000 };

/* A worker that makes progress starts one more block every so many rounds, in case its lanes wait
 * for a block that has not started. */
enum { ROUNDS_BETWEEN_BLOCKS = 16 };

/* ThreadSanitizer's limit of threads and fibers in a process is 8128 (gcc 12). */
enum { TSAN_LANE_LIMIT = 4096, MOST_THREADS = 1024 };

struct worker {
    pthread_t thread;
    struct context context;
    struct block *first, **last; /* blocks of the worker */
    unsigned rounds;
    uint64_t idle_since; /* ns; 0 = not idle */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work; /* there are blocks to start, or the pool ends */
    pthread_cond_t done;
    struct grid *running; /* grids with blocks not yet started, in order of arrival */
    uint64_t resident_lanes, lane_limit;
    unsigned n_workers;
    struct worker *workers;
    bool stop;
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .work = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
};

void pool_lock(void)
{
    pthread_mutex_lock(&pool.lock);
}

void pool_unlock(void)
{
    pthread_mutex_unlock(&pool.lock);
}

void pool_wait(void)
{
    pthread_cond_wait(&pool.done, &pool.lock);
}

void pool_wait_on(pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &pool.lock);
}

void pool_notify(void)
{
    pthread_cond_broadcast(&pool.done);
}

/* ----------------------------------------------------------------------- grids, lock held */

static void unlink_running(struct grid *grid)
{
    for (struct grid **at = &pool.running; *at; at = &(*at)->next) {
        if (*at == grid) {
            *at = grid->next;
            return;
        }
    }
}

static void link_running(struct grid *grid)
{
    struct grid **at = &pool.running;
    while (*at)
        at = &(*at)->next;
    grid->next = NULL;
    *at = grid;
}

void pool_add(struct grid *grid)
{
    link_running(grid);
    pthread_cond_broadcast(&pool.work);
}

/* Returns the first grid that may have one more resident block, and that block's number. */
static struct grid *next_block(uint64_t *number)
{
    for (struct grid *grid = pool.running; grid; grid = grid->next) {
        if (grid->resident && pool.resident_lanes + grid->block_lanes > pool.lane_limit)
            continue;
        *number = grid->started++;
        grid->resident++;
        pool.resident_lanes += grid->block_lanes;
        unlink_running(grid);
        /* Moved to the end, so that concurrent grids get blocks in turn. */
        if (grid->started < grid->blocks)
            link_running(grid);
        return grid;
    }
    return NULL;
}

static void block_ended(struct grid *grid)
{
    grid->resident--;
    pool.resident_lanes -= grid->block_lanes;
    if (__atomic_load_n(&grid->failed, __ATOMIC_ACQUIRE) && grid->started < grid->blocks) {
        unlink_running(grid);
        grid->started = grid->blocks;
    }
    if (!grid->resident && grid->started == grid->blocks) {
        stream_grid_done(grid);
        pthread_cond_broadcast(&pool.done);
    }
    if (pool.running)
        pthread_cond_broadcast(&pool.work);
}

/* -------------------------------------------------------------------------------- workers */

static void take(struct worker *worker, struct grid *grid, uint64_t number)
{
    struct block *block = block_create(grid, number);
    if (!block) {
        pool_lock();
        block_ended(grid);
        pool_unlock();
        return;
    }
    block->next = NULL;
    *worker->last = block;
    worker->last = &block->next;
    worker->idle_since = 0;
}

/* Starts one block if there is one to start. A worker without blocks waits for one. Returns false
 * if the worker must end. */
static bool start_block(struct worker *worker)
{
    uint64_t number = 0;
    struct grid *grid;
    pool_lock();
    while (!(grid = next_block(&number)) && !worker->first) {
        if (pool.stop) {
            pool_unlock();
            return false;
        }
        pthread_cond_wait(&pool.work, &pool.lock);
    }
    pool_unlock();
    if (grid)
        take(worker, grid, number);
    return true;
}

/* Runs one slice of every block. Returns true if any made progress. */
static bool run_round(struct worker *worker)
{
    bool progress = false;
    struct block **at = &worker->first;
    while (*at) {
        struct block *block = *at;
        block->only = block == worker->first && !block->next;
        enum slice slice = block_slice(block, &worker->context);
        progress |= slice != SLICE_IDLE;
        if (slice != SLICE_ENDED) {
            at = &block->next;
            continue;
        }
        struct grid *grid = block->grid;
        *at = block->next;
        if (!*at)
            worker->last = at;
        block_destroy(block);
        pool_lock();
        block_ended(grid);
        pool_unlock();
    }
    return progress;
}

static void relax(struct worker *worker)
{
    uint64_t now = clock_now_ns();
    if (!worker->idle_since)
        worker->idle_since = now;
    uint64_t ns = cpu_idle_sleep_ns(now - worker->idle_since, IDLE_BEFORE_SLEEP_NS, true);
    if (ns)
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    else
        sched_yield();
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    context_of_thread(&worker->context);
    worker->last = &worker->first;
    bool more = true;
    while (!more || start_block(worker)) {
        bool progress = run_round(worker);
        more = !worker->first || !progress || ++worker->rounds % ROUNDS_BETWEEN_BLOCKS == 0;
        if (progress)
            worker->idle_since = 0;
        else
            relax(worker);
    }
    return NULL;
}

/* --------------------------------------------------------------------------- start and end */

static unsigned wanted_threads(void)
{
    int64_t n = config_int(CONFIG_SIMT_THREADS);
    cpu_set_t cpus;
    if (n <= 0)
        n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    return n < MOST_THREADS ? (unsigned)n : MOST_THREADS;
}

uint64_t pool_lane_limit(void)
{
    uint64_t limit = (uint64_t)config_int(CONFIG_TEST_SIMT_LANES);
#if CONTEXT_TSAN
    if (limit > TSAN_LANE_LIMIT)
        limit = TSAN_LANE_LIMIT;
#endif
    return limit;
}

weft_status pool_start(void)
{
    if (pool.n_workers)
        return WEFT_OK;
    unsigned n = wanted_threads();
    pool.lane_limit = pool_lane_limit();
    block_configure();
    pool.workers = calloc(n, sizeof *pool.workers);
    if (!pool.workers)
        return base_fail(WEFT_ERR_NO_MEMORY, "simt: no memory for %u worker threads", n);
    /* Block all signals: they belong to the program's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (pool.n_workers < n && !error) {
        struct worker *worker = &pool.workers[pool.n_workers];
        error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (!error)
            pool.n_workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pool.n_workers)
        return WEFT_OK;
    free(pool.workers);
    pool.workers = NULL;
    return base_fail(WEFT_ERR_SYSTEM, "simt: pthread_create: %s", strerror(error));
}

void pool_shutdown(void)
{
    pool_lock();
    unsigned n = pool.n_workers;
    struct worker *workers = pool.workers;
    pool.stop = true;
    pthread_cond_broadcast(&pool.work);
    pool_unlock();
    for (unsigned i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    pool_lock();
    free(workers);
    pool.workers = NULL;
    pool.n_workers = 0;
    pool.stop = false;
    pool_unlock();
    stack_release_all();
}

unsigned pool_threads(void)
{
    pool_lock();
    unsigned n = pool.n_workers;
    pool_unlock();
    return n;
}

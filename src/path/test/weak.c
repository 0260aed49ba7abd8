/* SPDX-License-Identifier: Apache-2.0 */
/* Path `weak`, for tests: the weakest order that the contract permits. Puts, signals and atomics
 * that fetch nothing are held back in copies and delivered late, in random order. Nonblocking
 * operations read their source, and write their destination, as late as they may. Only fence,
 * quiet, a full queue and a PE that waits deliver them. A program that is right over this path does
 * not rely on the strong memory order of one machine; a program without a needed fence fails here
 * on any machine. It is used only with WEFT_PATH=weak. Path p2p delivers the operations. */
#include "base/status.h"
#include "path/local/carrier.h"
#include "path/test/random.h"

#include <pthread.h>
#include <stdlib.h>

enum { HELD_MOST = 64 };

struct path_state {
    struct deferred_path path;
    pthread_mutex_t lock;
    uint32_t random;
    int count;
    weft_status failed; /* failure of a delivery since the last fence or quiet */
    struct deferred_op held[HELD_MOST];
};
_Static_assert(offsetof(struct path_state, path) == 0, "path/local/carrier.c finds it there");

static void deliver_random(struct path_state *state)
{
    uint32_t i = random_below(&state->random, (uint32_t)state->count);
    struct deferred_op held = state->held[i];
    state->held[i] = state->held[--state->count];
    weft_status status = deferred_op_run(&state->path, &held);
    state->failed = state->failed ? state->failed : status;
}

/* Delivers all operations in random order with random pauses, so that a peer may see any part of
 * them without the rest: no fence has ordered them. */
static void deliver_all(struct path_state *state)
{
    while (state->count) {
        deliver_random(state);
        for (uint32_t pause = random_below(&state->random, 4) ? 0 : 200; pause; pause--)
            __asm__ volatile("" ::: "memory");
    }
}

static weft_status hold_back(struct path_state *state, struct deferred_op deferred)
{
    pthread_mutex_lock(&state->lock);
    if (state->count == HELD_MOST)
        deliver_all(state);
    state->held[state->count++] = deferred;
    pthread_mutex_unlock(&state->lock);
    return WEFT_OK;
}

static weft_status execute_now(struct path_state *state, struct deferred_op deferred)
{
    weft_status status = deferred_op_run(&state->path, &deferred);
    return status ? status : deferred_quiet(&state->path);
}

/* A PE that waits delivers one operation at a time. */
static bool weak_progress(struct path_state *state)
{
    pthread_mutex_lock(&state->lock);
    if (state->count)
        deliver_random(state);
    pthread_mutex_unlock(&state->lock);
    return false;
}

static weft_status weak_flush(struct path_state *state)
{
    pthread_mutex_lock(&state->lock);
    deliver_all(state);
    weft_status status = state->failed;
    state->failed = WEFT_OK;
    pthread_mutex_unlock(&state->lock);
    if (status)
        return base_fail(status, "path weak: a deferred operation failed");
    return deferred_quiet(&state->path);
}

static weft_status weak_open(const struct path_world *world, struct path_state **result)
{
    static _Atomic uint32_t seed = 1;
    struct path_state *state = calloc(1, sizeof *state);
    if (!state)
        return base_fail(WEFT_ERR_NO_MEMORY, "path weak: no private memory");
    pthread_mutex_init(&state->lock, NULL);
    deferred_open(&state->path, world);
    state->path.later = hold_back;
    state->path.now = execute_now;
    state->random = seed++ * 2654435761u;
    *result = state;
    return WEFT_OK;
}

static void weak_close(struct path_state *state)
{
    /* Operations that no quiet has completed may be lost. */
    for (int i = 0; i < state->count; i++)
        if (state->held[i].own_copy)
            free(state->held[i].data);
    deferred_close(&state->path);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

const struct path_ops path_weak = {
    .name = "weak",
    .obstacle = deferred_obstacle,
    .open = weak_open,
    .close = weak_close,
    .put = deferred_put,
    .get = deferred_get,
    .atomic = deferred_atomic,
    .put_signal = deferred_put_signal,
    .fence = weak_flush,
    .quiet = weak_flush,
    .progress = weak_progress,
};

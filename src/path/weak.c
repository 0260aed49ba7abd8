/* SPDX-License-Identifier: Apache-2.0 */
/* Path `weak`: the worst that the contract permits. Puts, signals and atomics that fetch nothing
 * are held back in copies and delivered late and in random order; non-blocking ones look at their
 * source, and fill their destination, as late as they may. Only fence, quiet, a full queue and a PE
 * that waits let them out. A program that is right over this path does not rely on the
 * strong order of one machine's memory; one that forgot a fence fails here on any laptop. For
 * tests; chosen only by WEFT_PATH=weak. Delivery itself goes through shared memory. */
#include "path/path.h"

#include "base/status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_MOST = 64 };

struct held {
    struct remote to;
    struct remote signal; /* peer NULL: none */
    weft_amo amo;
    size_t width; /* 0: a put */
    uint64_t value;
    weft_signal_op op;
    size_t bytes;
    unsigned char *data; /* a copy, or with nbi the program's own source */
    bool nbi;
    void *get_into; /* a get when not NULL */
};

struct path_state {
    pthread_mutex_t lock;
    uint32_t random;
    int count;
    struct held held[HELD_MOST];
};

static void deliver(struct held *held)
{
    if (held->get_into)
        path_mapped_ops.get(held->to, held->get_into, held->bytes, false);
    else if (held->width)
        path_mapped_ops.amo(held->to, held->amo, held->width, held->value, 0, NULL, false);
    else if (held->signal.peer && held->data)
        path_mapped_ops.put_signal(held->to, held->data, held->bytes, held->signal, held->value,
                                   held->op, false);
    else if (held->data)
        path_mapped_ops.put(held->to, held->data, held->bytes, false);
    if (!held->nbi)
        free(held->data);
}

static uint32_t random_below(struct path_state *state, uint32_t bound)
{
    state->random = state->random * 1664525u + 1013904223u;
    return (state->random >> 8) % bound;
}

static void deliver_one(struct path_state *state)
{
    uint32_t i = random_below(state, (uint32_t)state->count);
    struct held held = state->held[i];
    state->held[i] = state->held[--state->count];
    deliver(&held);
}

/* Everything goes out, in random order and now and then with a pause, so that a peer can see any
 * part of it without the rest: nothing among what is held has been ordered. */
static void deliver_all(struct path_state *state)
{
    while (state->count) {
        deliver_one(state);
        for (uint32_t pause = random_below(state, 4) ? 0 : 200; pause; pause--)
            __asm__ volatile("" ::: "memory");
    }
}

static weft_status hold(struct path_state *state, struct held held, const void *src)
{
    if (src && held.nbi) {
        held.data = (unsigned char *)src;
    } else if (src) {
        held.data = malloc(held.bytes);
        if (!held.data)
            return base_fail(WEFT_ERR_NO_MEMORY, "path weak: no memory to hold %zu bytes",
                             held.bytes);
        memcpy(held.data, src, held.bytes);
    }
    pthread_mutex_lock(&state->lock);
    if (state->count == HELD_MOST)
        deliver_all(state);
    state->held[state->count++] = held;
    pthread_mutex_unlock(&state->lock);
    return WEFT_OK;
}

static weft_status weak_put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    return hold(to.peer->state, (struct held){.to = to, .bytes = bytes, .nbi = nbi}, src);
}

static weft_status weak_put_signal(struct remote to, const void *src, size_t bytes,
                                   struct remote signal, uint64_t value, weft_signal_op op,
                                   bool nbi)
{
    return hold(
        to.peer->state,
        (struct held){
            .to = to, .bytes = bytes, .signal = signal, .value = value, .op = op, .nbi = nbi},
        src);
}

static weft_status weak_get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    if (nbi)
        return hold(from.peer->state,
                    (struct held){.to = from, .bytes = bytes, .nbi = true, .get_into = dst}, NULL);
    return path_mapped_ops.get(from, dst, bytes, nbi);
}

static weft_status weak_amo(struct remote at, weft_amo amo, size_t width, uint64_t value,
                            uint64_t expected, void *fetched, bool nbi)
{
    if (amo < WEFT_AMO_FETCH)
        return hold(at.peer->state,
                    (struct held){.to = at, .amo = amo, .width = width, .value = value}, NULL);
    return path_mapped_ops.amo(at, amo, width, value, expected, fetched, nbi);
}

/* A waiting PE lets out one at a time. */
static void weak_progress(struct path_state *state)
{
    pthread_mutex_lock(&state->lock);
    if (state->count)
        deliver_one(state);
    pthread_mutex_unlock(&state->lock);
}

static weft_status weak_flush(struct path_state *state)
{
    pthread_mutex_lock(&state->lock);
    deliver_all(state);
    pthread_mutex_unlock(&state->lock);
    return WEFT_OK;
}

static weft_status weak_create(struct path_state **result)
{
    static _Atomic uint32_t seed = 1;
    struct path_state *state = calloc(1, sizeof *state);
    if (!state)
        return base_fail(WEFT_ERR_NO_MEMORY, "path weak: no private memory");
    pthread_mutex_init(&state->lock, NULL);
    state->random = seed++ * 2654435761u;
    *result = state;
    return WEFT_OK;
}

static void weak_destroy(struct path_state *state)
{
    /* What was never completed by a quiet is lost, as it may be. */
    for (int i = 0; i < state->count; i++)
        if (!state->held[i].nbi)
            free(state->held[i].data);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

const struct path_ops path_weak_ops = {
    .name = "weak",
    .put = weak_put,
    .get = weak_get,
    .amo = weak_amo,
    .put_signal = weak_put_signal,
    .fence = weak_flush,
    .quiet = weak_flush,
    .progress = weak_progress,
    .state_create = weak_create,
    .state_destroy = weak_destroy,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Path `slow`, for tests: a thread executes every operation later, in order or not, with delays and
 * failures as configured. It behaves like a network (state, a thread, late completion, an error
 * long after the call) without one. It is used only with WEFT_PATH=slow; WEFT_TEST_SLOW configures
 * it: "order=random,delay=200us,seed=7,fail=12,lie=3".
 *
 * Guarantees: operations to a PE before a fence are executed before operations to that PE after it.
 * Operations to different PEs have no order, like those on several links of a network. A failed
 * operation is lost; the next fence or quiet of its context reports it, and every later operation
 * to that PE fails at once. From the lie-th operation on, blocking puts of LIE_BYTES or more arrive
 * with a wrong byte. Smaller ones, such as flags, stay right, so that a test can tell wrong data
 * from data that have not arrived. */
#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "base/thread.h"
#include "path/local/carrier.h"
#include "path/test/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIE_BYTES = 48 };

struct options {
    bool random;
    uint64_t delay_ns; /* longest delay before each operation, ns */
    uint32_t seed;
    uint64_t fail; /* the fail-th operation of a context fails; 0: none */
    uint64_t lie;  /* puts from this operation on are falsified; 0: none */
};

struct queued_op {
    struct deferred_op deferred;
    uint64_t sequence;
    bool fence; /* no operation; those behind it wait for those in front of it */
    bool *done; /* set when the operation is done; NULL if no caller waits */
    weft_status *result;
};

struct slow_state {
    struct deferred_path path;
    struct options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t queued_cond, done_cond;
    struct queued_op *entries; /* in the order of the calls */
    size_t count, capacity;
    bool busy, stop;
    uint64_t last_sequence;
    uint32_t random;
    bool *broken;          /* [npes] an operation to that PE has failed */
    size_t *fences_before; /* [npes] for choose_random(): fences in front of the first entry to that
                              PE */
    weft_status failed;
    char sentence[256]; /* of the first failure since the last fence or quiet */
};

static struct slow_state *slow_state_of(struct path_state *opaque)
{
    return (struct slow_state *)(void *)opaque;
}
_Static_assert(offsetof(struct slow_state, path) == 0, "path/local/carrier.c finds it there");

/* ------------------------------------------------------------------------------------- options */

static weft_status parse_option(const char *word, struct options *options)
{
    unsigned long long value;
    int used = 0;
    size_t length = strlen(word);
    if (strcmp(word, "order=random") == 0)
        options->random = true;
    else if (strcmp(word, "order=given") == 0)
        options->random = false;
    else if (sscanf(word, "delay=%lluus%n", &value, &used) == 1 && (size_t)used == length)
        options->delay_ns = value * 1000;
    else if (sscanf(word, "seed=%llu%n", &value, &used) == 1 && (size_t)used == length)
        options->seed = (uint32_t)value;
    else if (sscanf(word, "fail=%llu%n", &value, &used) == 1 && (size_t)used == length)
        options->fail = value;
    else if (sscanf(word, "lie=%llu%n", &value, &used) == 1 && (size_t)used == length)
        options->lie = value;
    else
        return base_fail(
            WEFT_ERR_CONFIG,
            "WEFT_TEST_SLOW has \"%s\"; it takes order=random, order=given, delay=NUMBERus, "
            "seed=NUMBER, fail=NUMBER and lie=NUMBER",
            word);
    return WEFT_OK;
}

static weft_status parse_options(struct options *options)
{
    char text[256], *rest = text;
    *options = (struct options){.seed = 1};
    if (snprintf(text, sizeof text, "%s", config_string(CONFIG_TEST_SLOW)) >= (int)sizeof text)
        return base_fail(WEFT_ERR_CONFIG, "WEFT_TEST_SLOW is longer than %zu characters",
                         sizeof text - 1);
    weft_status status = WEFT_OK;
    for (char *word; !status && (word = strsep(&rest, ",")) != NULL;)
        if (*word)
            status = parse_option(word, options);
    return status;
}

/* ---------------------------------------------------------------------------------- the thread */

/* A random entry among those that may run next: no fence is between them and an earlier entry to
 * the same PE. There is one, since the first entry is no fence. */
static size_t choose_random(struct slow_state *state)
{
    size_t fences = 0, candidates = 0, chosen = 0;
    memset(state->fences_before, 0xff,
           (size_t)state->path.world->npes * sizeof *state->fences_before);
    for (size_t i = 0; i < state->count; i++) {
        const struct queued_op *entry = &state->entries[i];
        if (entry->fence) {
            fences++;
            continue;
        }
        size_t *fences_before = &state->fences_before[entry->deferred.at.peer->pe];
        if (*fences_before == SIZE_MAX)
            *fences_before = fences;
        if (*fences_before == fences && random_below(&state->random, (uint32_t)++candidates) == 0)
            chosen = i;
    }
    return chosen;
}

/* Removes the entry to run next, or a fence with nothing in front of it. Lock held, count > 0. */
static struct queued_op dequeue(struct slow_state *state)
{
    size_t i = state->options.random && !state->entries[0].fence ? choose_random(state) : 0;
    struct queued_op entry = state->entries[i];
    memmove(&state->entries[i], &state->entries[i + 1],
            (--state->count - i) * sizeof *state->entries);
    return entry;
}

static void drop_copy(struct deferred_op *deferred)
{
    if (deferred->own_copy)
        free(deferred->data);
}

static weft_status fail_as_configured(struct queued_op *entry)
{
    char text[96];
    deferred_op_text(&entry->deferred, text, sizeof text);
    drop_copy(&entry->deferred);
    return base_fail(WEFT_ERR_PATH,
                     "path slow: operation %llu, %s, failed, as WEFT_TEST_SLOW configures",
                     (unsigned long long)entry->sequence, text);
}

/* Falsifies only the copy of a blocking put, never the application's source. */
static void falsify_data(const struct slow_state *state, struct queued_op *entry)
{
    struct deferred_op *deferred = &entry->deferred;
    if (state->options.lie && entry->sequence >= state->options.lie && deferred->own_copy &&
        deferred->bytes >= LIE_BYTES)
        ((unsigned char *)deferred->data)[deferred->bytes / 2] ^= 0x10;
}

static void sleep_for_ns(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    if (ns)
        nanosleep(&time, NULL);
}

/* Lock held; it is released during the execution. */
static void execute_one(struct slow_state *state)
{
    struct queued_op entry = dequeue(state);
    uint64_t delay = state->options.delay_ns
                         ? random_below(&state->random, (uint32_t)state->options.delay_ns + 1)
                         : 0;
    if (entry.fence)
        return;
    state->busy = true;
    pthread_mutex_unlock(&state->lock);
    sleep_for_ns(delay);
    falsify_data(state, &entry);
    weft_status status = entry.sequence == state->options.fail
                             ? fail_as_configured(&entry)
                             : deferred_op_run(&state->path, &entry.deferred);
    if (!status)
        status = deferred_quiet(&state->path);
    pthread_mutex_lock(&state->lock);
    state->busy = false;
    if (status) {
        state->broken[entry.deferred.at.peer->pe] = true;
        if (!state->failed)
            snprintf(state->sentence, sizeof state->sentence, "%s", base_last_error());
        state->failed = state->failed ? state->failed : status;
    }
    if (entry.done) {
        *entry.result = status;
        *entry.done = true;
    }
}

static void *run_slow_thread(void *argument)
{
    struct slow_state *state = argument;
    pthread_mutex_lock(&state->lock);
    while (!state->stop) {
        if (state->count)
            execute_one(state);
        else
            pthread_cond_wait(&state->queued_cond, &state->lock);
        pthread_cond_broadcast(&state->done_cond);
    }
    pthread_mutex_unlock(&state->lock);
    return NULL;
}

/* ------------------------------------------------------------------------------------- callers */

/* Waits once for done_cond, until the wait limit at most. Lock held. */
static weft_status await_done(struct slow_state *state, uint64_t since_ns)
{
    uint64_t limit = state->path.world->wait_limit_ns;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 100 * 1000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&state->done_cond, &state->lock, &until);
    uint64_t waited = clock_now_ns() - since_ns;
    if (!limit || waited < limit)
        return WEFT_OK;
    return base_fail(WEFT_ERR_TIMEOUT,
                     "path slow: waited %.1f s for %zu operations (limit WEFT_WAIT_LIMIT)",
                     (double)waited * 1e-9, state->count);
}

static weft_status grow_queue(struct slow_state *state)
{
    if (state->count < state->capacity)
        return WEFT_OK;
    size_t capacity = state->capacity ? 2 * state->capacity : 64;
    struct queued_op *entries = realloc(state->entries, capacity * sizeof *entries);
    if (!entries)
        return base_fail(WEFT_ERR_NO_MEMORY, "path slow: no private memory for %zu operations",
                         capacity);
    state->entries = entries;
    state->capacity = capacity;
    return WEFT_OK;
}

/* Lock held. */
static weft_status enqueue(struct slow_state *state, struct queued_op entry)
{
    weft_status status = grow_queue(state);
    int pe = entry.fence ? 0 : entry.deferred.at.peer->pe;
    if (!status && !entry.fence && state->broken[pe])
        status = base_fail(WEFT_ERR_PATH, "path slow: an earlier operation to PE %d failed", pe);
    if (status) {
        drop_copy(&entry.deferred);
        return status;
    }
    entry.sequence = entry.fence ? 0 : ++state->last_sequence;
    state->entries[state->count++] = entry;
    pthread_cond_signal(&state->queued_cond);
    return WEFT_OK;
}

static weft_status enqueue_later(struct path_state *opaque, struct deferred_op deferred)
{
    struct slow_state *state = slow_state_of(opaque);
    pthread_mutex_lock(&state->lock);
    weft_status status = enqueue(state, (struct queued_op){.deferred = deferred});
    pthread_mutex_unlock(&state->lock);
    return status;
}

/* Returns when the operation is done. At the wait limit it is withdrawn from the queue. */
static weft_status enqueue_and_wait(struct path_state *opaque, struct deferred_op deferred)
{
    struct slow_state *state = slow_state_of(opaque);
    bool done = false;
    weft_status result = WEFT_OK;
    uint64_t since = clock_now_ns();
    pthread_mutex_lock(&state->lock);
    weft_status status =
        enqueue(state, (struct queued_op){.deferred = deferred, .done = &done, .result = &result});
    while (!done && !status)
        status = await_done(state, since);
    for (size_t i = 0; status && i < state->count; i++)
        if (state->entries[i].done == &done)
            state->entries[i].fence = true;
    while (status && state->busy) /* The thread may be executing this operation. */
        pthread_cond_wait(&state->done_cond, &state->lock);
    char sentence[sizeof state->sentence];
    memcpy(sentence, state->sentence, sizeof sentence);
    if (!status &&
        result) { /* The caller gets the failure now, so the next quiet need not report it. */
        state->failed = WEFT_OK;
        status = base_fail(result, "%s", sentence);
    }
    pthread_mutex_unlock(&state->lock);
    return status;
}

static weft_status return_failure(struct slow_state *state)
{
    weft_status status = state->failed;
    state->failed = WEFT_OK;
    return status ? base_fail(status, "%s", state->sentence) : WEFT_OK;
}

static weft_status slow_fence(struct path_state *opaque)
{
    struct slow_state *state = slow_state_of(opaque);
    pthread_mutex_lock(&state->lock);
    weft_status status = return_failure(state);
    if (!status && state->count)
        status = enqueue(state, (struct queued_op){.fence = true});
    /* With an empty queue no fence is needed: the thread finishes its operation first. */
    pthread_mutex_unlock(&state->lock);
    return status;
}

static weft_status slow_quiet(struct path_state *opaque)
{
    struct slow_state *state = slow_state_of(opaque);
    uint64_t since = clock_now_ns();
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&state->lock);
    while ((state->count || state->busy) && !status)
        status = await_done(state, since);
    weft_status failed = return_failure(state);
    pthread_mutex_unlock(&state->lock);
    return failed ? failed : status;
}

/* ------------------------------------------------------------------------------- open and close */

static void free_state(struct slow_state *state)
{
    deferred_close(&state->path);
    pthread_cond_destroy(&state->queued_cond);
    pthread_cond_destroy(&state->done_cond);
    pthread_mutex_destroy(&state->lock);
    free(state->broken);
    free(state->fences_before);
    free(state->entries);
    free(state);
}

static weft_status slow_open(const struct path_world *world, struct path_state **result)
{
    static _Atomic uint32_t contexts;
    pthread_condattr_t monotonic;
    struct slow_state *state = calloc(1, sizeof *state);
    if (state)
        state->broken = calloc((size_t)world->npes, sizeof *state->broken);
    if (state)
        state->fences_before = calloc((size_t)world->npes, sizeof *state->fences_before);
    if (!state || !state->broken || !state->fences_before) {
        if (state) {
            free(state->broken);
            free(state->fences_before);
        }
        free(state);
        return base_fail(WEFT_ERR_NO_MEMORY, "path slow: no private memory");
    }
    pthread_mutex_init(&state->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&state->queued_cond, NULL);
    pthread_cond_init(&state->done_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    deferred_open(&state->path, world);
    state->path.later = enqueue_later;
    state->path.now = enqueue_and_wait;
    weft_status status = parse_options(&state->options);
    state->random = (state->options.seed + ++contexts) * 2654435761u;
    int error = status ? 0 : thread_start(&state->thread, run_slow_thread, state);
    if (error)
        status = base_fail(WEFT_ERR_SYSTEM, "path slow: pthread_create: %s", strerror(error));
    if (status) {
        free_state(state);
        return status;
    }
    *result = (struct path_state *)state;
    return WEFT_OK;
}

static void slow_close(struct path_state *opaque)
{
    struct slow_state *state = slow_state_of(opaque);
    pthread_mutex_lock(&state->lock);
    state->stop = true;
    pthread_cond_signal(&state->queued_cond);
    pthread_mutex_unlock(&state->lock);
    pthread_join(state->thread, NULL);
    /* Operations that no quiet has completed may be lost. */
    for (size_t i = 0; i < state->count; i++)
        drop_copy(&state->entries[i].deferred);
    free_state(state);
}

const struct path_ops path_slow = {
    .name = "slow",
    .obstacle = deferred_obstacle,
    .open = slow_open,
    .close = slow_close,
    .put = deferred_put,
    .get = deferred_get,
    .atomic = deferred_atomic,
    .put_signal = deferred_put_signal,
    .fence = slow_fence,
    .quiet = slow_quiet,
};

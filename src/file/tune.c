/* SPDX-License-Identifier: Apache-2.0 */
/* Tunes number and size of requests. The first large transfer on a file system starts with timed
 * trials, each with other requests; the rest of it and later transfers use the fastest. Trials
 * transfer only bytes of the transfer itself. There are no trials while other transfers are in
 * flight on the file. */
#include "file/engine.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/status.h"

#include <stdlib.h>

static const struct shape {
    unsigned depth;
    size_t chunk;
} shapes[] = {{FILE_DEPTH, FILE_CHUNK}, {4, 4 << 20}, {FILE_TUNE_MOST_DEPTH, 256 << 10}};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct tune {
    uint64_t where; /* file system */
    bool write;
    enum file_place_kind kind;
    int best; /* index of the fastest of `shapes`; -1: a transfer is running its trials */
    struct tune *next;
};

struct file_tunes {
    size_t trial_bytes;
    pthread_mutex_t lock;
    struct tune *first;
};

struct file_tunes *file_tunes_new(size_t trial_bytes)
{
    struct file_tunes *tunes = calloc(1, sizeof *tunes);
    if (tunes) {
        tunes->trial_bytes = trial_bytes;
        pthread_mutex_init(&tunes->lock, NULL);
    }
    return tunes;
}

void file_tunes_free(struct file_tunes *tunes)
{
    if (!tunes)
        return;
    while (tunes->first) {
        struct tune *first = tunes->first;
        tunes->first = first->next;
        free(first);
    }
    pthread_mutex_destroy(&tunes->lock);
    free(tunes);
}

/* Finds the result of a kind of transfer. *mine: it was added now, and the caller must measure it.
 * NULL: there is none, and the transfer is too small to measure. */
static struct tune *find_tune(struct file_tunes *tunes, uint64_t where,
                              const struct file_transfer *t, bool *mine)
{
    bool large = t->bytes / tunes->trial_bytes > SHAPES;
    pthread_mutex_lock(&tunes->lock);
    struct tune *tune = tunes->first;
    while (tune && (tune->where != where || tune->write != t->write || tune->kind != t->place.kind))
        tune = tune->next;
    *mine = !tune && large && (tune = calloc(1, sizeof *tune)) != NULL;
    if (*mine) {
        *tune = (struct tune){where, t->write, t->place.kind, -1, tunes->first};
        tunes->first = tune;
    }
    pthread_mutex_unlock(&tunes->lock);
    return tune;
}

static int best_of(struct file_tunes *tunes, const struct tune *tune)
{
    pthread_mutex_lock(&tunes->lock);
    int best = tune->best;
    pthread_mutex_unlock(&tunes->lock);
    return best;
}

/* Index of the fastest trial. Times scatter, so the default stays unless another is 10 % faster. */
static int fastest_trial(const uint64_t *ns)
{
    int best = 0;
    for (int i = 1; i < SHAPES; i++)
        if (ns[i] && ns[i] < ns[best] - ns[best] / 10)
            best = i;
    return best;
}

/* A transfer that is run in consecutive parts. */
struct parts {
    struct file_engine *engine;
    const struct file_transfer *whole;
    weft_file_result result;
    struct crc32c_shift shift;
};

static weft_status run_part(struct parts *parts, size_t bytes)
{
    weft_file_result result;
    struct file_transfer part = *parts->whole;
    size_t at = (size_t)parts->result.done;
    part.place.address = part.place.address ? part.place.address + at : NULL;
    part.place.remote.offset += at;
    part.offset += at;
    part.bytes = bytes;
    part.result = &result;
    weft_status status = file_engine_run(parts->engine, &part, 1);
    parts->result.crc32c =
        crc32c_join(&parts->shift, parts->result.crc32c, result.crc32c, result.done);
    parts->result.done += result.done;
    parts->result.status = status;
    parts->result.error = result.error;
    return status;
}

/* Runs the trials; ns[i] is the time of each in ns, 0 = not run. */
static weft_status run_trials(struct parts *parts, size_t trial, uint64_t *ns)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < SHAPES && !status; i++) {
        if (!file_engine_reshape(parts->engine, shapes[i].depth, shapes[i].chunk))
            break;
        uint64_t begin = clock_now_ns();
        status = run_part(parts, trial);
        ns[i] = clock_now_ns() - begin;
    }
    return status;
}

static void store_best(struct file_tunes *tunes, struct tune *tune, int best)
{
    pthread_mutex_lock(&tunes->lock);
    tune->best = best;
    pthread_mutex_unlock(&tunes->lock);
}

static weft_status run_with_trials(struct file_tunes *tunes, struct tune *tune,
                                   struct file_engine *engine, const struct file_transfer *transfer)
{
    uint64_t ns[SHAPES] = {0};
    struct parts parts = {.engine = engine, .whole = transfer};
    weft_status status = run_trials(&parts, tunes->trial_bytes, ns);
    int best = status ? 0 : fastest_trial(ns);
    store_best(tunes, tune, best);
    log_debug(LOG_FILES, "%u requests of %zu KiB are the fastest of %d", shapes[best].depth,
              shapes[best].chunk >> 10, (int)SHAPES);
    if (!status) {
        file_engine_reshape(engine, shapes[best].depth, shapes[best].chunk);
        status = run_part(&parts, transfer->bytes - (size_t)parts.result.done);
    }
    if (transfer->result)
        *transfer->result = parts.result;
    return status;
}

weft_status file_engine_run_tuned(struct file_engine *engine, struct file_tunes *tunes,
                                  uint64_t where, const struct file_transfer *transfer)
{
    bool mine;
    engine = file_engine_for(engine, transfer);
    if (!engine) {
        if (transfer->result)
            *transfer->result = (weft_file_result){.status = WEFT_ERR_UNSUPPORTED};
        return WEFT_ERR_UNSUPPORTED;
    }
    struct tune *tune = find_tune(tunes, where, transfer, &mine);
    if (mine)
        return run_with_trials(tunes, tune, engine, transfer);
    int best = tune ? best_of(tunes, tune) : -1;
    if (best >= 0 && transfer->bytes >= tunes->trial_bytes)
        file_engine_reshape(engine, shapes[best].depth, shapes[best].chunk);
    return file_engine_run(engine, transfer, 1);
}

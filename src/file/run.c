/* SPDX-License-Identifier: Apache-2.0 */
/* Driving the engine of an open file. One thread at a time drives it: it reaps completions, copies,
 * and submits the next pieces. This is a thread that waits for a transfer, or the engine's worker
 * thread for nonblocking transfers. Another thread that arrives meanwhile submits its own pieces
 * and sleeps until they have ended, or until the driving thread leaves and it must drive itself.
 * See engine.h. */
#include "file/engine.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BACKOFF_NS = 100 * 1000 };
static const uint64_t slice_ns = 100 * 1000 * 1000;

/* With few requests in flight, the driving thread polls for this long before it sleeps, because a
 * wake-up takes 25 us. If its last wait took longer, it sleeps at once: polling would find nothing
 * and take the CPU from the threads that complete requests. With many requests in flight the next
 * completion is near, so it does not poll either. */
enum { POLLED_DEPTH = 4 };
static const uint64_t poll_ns = 100 * 1000;

/* ---------------------------------------------------------------------- copies by CPU and GPU */

static void fail_piece(struct file_piece *piece, weft_status status)
{
    piece->status = status;
    piece->phase = PIECE_ENDED;
    piece->got = 0;
    snprintf(piece->sentence, sizeof piece->sentence, "%s", base_last_error());
}

static bool copy_has_ended(struct file_engine *engine, struct file_piece *piece)
{
    if (piece->mark) {
        weft_status status = gpu_event_query(engine->pinned_for, &piece->mark);
        if (status) {
            gpu_event_release(engine->pinned_for, &piece->mark);
            fail_piece(piece, status);
        }
    }
    return !piece->mark;
}

static void copy_to_buffer(struct file_engine *engine, struct file_piece *piece)
{
    weft_status status =
        file_place_get(&piece->op->transfer.place, piece->cut.at, file_buffer_of(engine, piece),
                       piece->cut.bytes, piece->number, &piece->mark);
    piece->phase = PIECE_FILLING;
    if (status)
        fail_piece(piece, status);
}

static void copy_from_buffer(struct file_engine *engine, struct file_piece *piece)
{
    piece->phase = PIECE_EMPTYING;
    if (engine->settings.checksums && piece->got) {
        const char *data = piece->cut.buffer ? file_buffer_of(engine, piece) + piece->cut.skip
                                             : piece->op->transfer.place.address + piece->cut.at;
        piece->crc = crc32c(0, data, piece->got);
    }
    if (!piece->cut.buffer || piece->io.write || !piece->got)
        return;
    weft_status status = file_place_put(&piece->op->transfer.place, piece->cut.at,
                                        file_buffer_of(engine, piece) + piece->cut.skip, piece->got,
                                        piece->number, &piece->mark);
    if (status)
        fail_piece(piece, status);
}

/* The caller does not hold the lock. True: the piece has reached another phase. */
static bool advance_piece(struct file_engine *engine, struct file_piece *piece)
{
    enum file_phase before = piece->phase;
    if (before == PIECE_TO_FILL)
        copy_to_buffer(engine, piece);
    else if (before == PIECE_ARRIVED)
        copy_from_buffer(engine, piece);
    if (piece->phase == PIECE_FILLING && copy_has_ended(engine, piece) &&
        piece->phase == PIECE_FILLING)
        piece->phase = PIECE_READY;
    if (piece->phase == PIECE_EMPTYING && copy_has_ended(engine, piece) &&
        piece->phase == PIECE_EMPTYING)
        piece->phase = PIECE_ENDED;
    return piece->phase != before;
}

static bool advance_all(struct file_engine *engine)
{
    bool moved = false;
    for (struct file_piece *piece = engine->work; piece; piece = piece->next_work)
        moved |= advance_piece(engine, piece);
    return moved;
}

/* -------------------------------------------------------------------------------- ended pieces */

/* The caller holds the lock. Adds an ended piece to its transfer; pieces are counted in order. */
static void count_piece(struct file_engine *engine, struct file_op *op,
                        const struct file_piece *piece)
{
    if (op->status)
        return;
    if (piece->status) {
        file_op_fail(op, piece->status, 0, "%s", piece->sentence);
        return;
    }
    if (engine->settings.checksums)
        op->crc = crc32c_join(&engine->shift, op->crc, piece->crc, piece->got);
    op->done += piece->got;
    if (piece->error)
        file_op_fail_io(engine, op, piece->error, op->done);
    else if (piece->got < piece->cut.bytes)
        file_op_fail_short(engine, op, op->done);
}

static void end_op(struct file_engine *engine, struct file_op *op)
{
    weft_file_result *result = op->transfer.result;
    if (result)
        *result = (weft_file_result){.status = op->status,
                                     .error = op->error,
                                     .done = op->done,
                                     .crc32c = engine->settings.checksums ? op->crc : 0};
    if (op->left)
        --*op->left;
    if (op->background) {
        if (op->status && !engine->background_status) {
            engine->background_status = op->status;
            memcpy(engine->background_sentence, op->sentence, sizeof op->sentence);
        }
        engine->background--;
        free(op);
    }
    pthread_cond_broadcast(&engine->moved);
}

/* The caller holds the lock. Frees the ended pieces at the front of a transfer. */
static void free_ended_pieces(struct file_engine *engine, struct file_op *op)
{
    while (op->first && op->first->phase == PIECE_ENDED) {
        struct file_piece *piece = op->first;
        op->first = piece->next;
        if (!op->first)
            op->last = &op->first;
        count_piece(engine, op, piece);
        piece->phase = PIECE_FREE;
        piece->next = engine->free;
        engine->free = piece;
    }
    if (!file_op_ended(op))
        return;
    if (!op->queued)
        file_complete_later(engine, op);
    else
        file_plan_pieces(engine); /* removes the failed transfer from `todo` */
}

/* The caller holds the lock. Handles the pieces that advance_piece() has finished. Ended pieces are
 * freed last, because they may be reused at once. */
static void sort_work(struct file_engine *engine)
{
    struct file_piece *list = engine->work;
    struct file_op *dirty = NULL;
    engine->work = NULL;
    while (list) {
        struct file_piece *piece = list;
        list = list->next_work;
        if (piece->phase == PIECE_READY) {
            file_submit_piece(engine, piece);
        } else if (piece->phase != PIECE_ENDED) {
            file_add_work(&engine->work, piece);
        } else if (!piece->op->dirty) {
            piece->op->dirty = true;
            piece->op->next_dirty = dirty;
            dirty = piece->op;
        }
    }
    while (dirty) {
        struct file_op *op = dirty;
        dirty = op->next_dirty;
        op->dirty = false;
        free_ended_pieces(engine, op);
    }
}

/* The caller holds the lock, which this releases while it waits. Ends the transfers in
 * `completing`, after the puts of remote ones have completed. */
static void complete_all(struct file_engine *engine)
{
    while (engine->completing) {
        struct file_op *op = engine->completing;
        engine->completing = op->next;
        if (!op->transfer.write && op->done && op->transfer.place.kind == FILE_REMOTE) {
            pthread_mutex_unlock(&engine->lock);
            weft_status status = file_place_complete(&op->transfer.place);
            pthread_mutex_lock(&engine->lock);
            if (status) {
                op->status = WEFT_OK; /* replaces an earlier failure: now no byte is transferred */
                op->done = 0;
                file_op_fail(op, status, 0, "%s", base_last_error());
            }
        }
        end_op(engine, op);
    }
}

/* The caller holds the lock. Fails all submitted pieces after the queue has failed. The kernel may
 * still use these pieces and their memory, so they are never reused. */
static void fail_queue(struct file_engine *engine, int error)
{
    engine->broken = error;
    for (unsigned i = 0; i < engine->settings.depth; i++) {
        struct file_piece *piece = &engine->pieces[i];
        if (piece->phase != PIECE_SUBMITTED)
            continue;
        piece->error = error;
        piece->got = file_safe_bytes(piece);
        piece->phase = PIECE_ENDED;
        file_add_work(&engine->work, piece);
    }
}

static void fail_planned(struct file_engine *engine)
{
    struct file_op *list = engine->todo;
    engine->todo = NULL;
    engine->todo_last = &engine->todo;
    while (list) {
        struct file_op *op = list;
        list = list->next;
        op->queued = false;
        file_op_fail_io(engine, op, engine->broken, op->done);
        if (file_op_ended(op))
            file_complete_later(engine, op);
    }
}

/* --------------------------------------------------------------------------------- the driver */

static void check_wait_limit(struct file_engine *engine, bool something)
{
    uint64_t now = clock_now_ns(), limit = engine->settings.wait_limit_ns;
    if (something || !engine->submitted)
        engine->last_ns = now;
    else if (limit && now - engine->last_ns > limit)
        fail_queue(engine, ETIMEDOUT);
}

static bool may_poll(const struct file_engine *engine, bool patient)
{
    return !patient && engine->quick && engine->submitted <= POLLED_DEPTH;
}

/* The caller does not hold the lock. Waits for a completion: polls first if `polls`, then sleeps.
 */
static struct file_io *wait_for_one(struct file_engine *engine, bool polls, int *error)
{
    const struct file_backend *backend = engine->settings.backend;
    uint64_t begin = clock_now_ns(), now = begin;
    struct file_io *list = NULL;
    *error = 0;
    while (polls && !list && !*error && now - begin < poll_ns) {
        list = backend->reap(engine->queue, 0, error);
        now = clock_now_ns();
        if (!list)
            sched_yield();
    }
    if (!list && !*error)
        list = backend->reap(engine->queue, slice_ns, error);
    engine->quick = clock_now_ns() - begin < poll_ns;
    return list;
}

/* Runs one round. The caller holds the lock, which this releases while it copies and waits.
 * patient: no thread waits for a result, so it does not poll. */
static void drive_once(struct file_engine *engine, bool patient)
{
    int error = 0;
    bool backoff = false;
    file_plan_pieces(engine);
    while (engine->inbox) {
        struct file_piece *piece = engine->inbox;
        engine->inbox = piece->next_work;
        file_add_work(&engine->work, piece);
    }
    bool busy = engine->work != NULL || engine->completing;
    bool sleeps = !busy && engine->submitted && !engine->broken;
    bool polls = may_poll(engine, patient);
    engine->waiting = sleeps;
    pthread_mutex_unlock(&engine->lock);
    if (busy)
        engine->settings.backend->start(engine->queue);
    bool moved = advance_all(engine);
    struct file_io *list = NULL;
    if (sleeps)
        list = wait_for_one(engine, polls, &error);
    else if (!engine->broken)
        list = engine->settings.backend->reap(engine->queue, 0, &error);
    if (busy && !moved && !list)
        sched_yield(); /* the GPU is still copying */
    pthread_mutex_lock(&engine->lock);
    engine->waiting = false;
    check_wait_limit(engine, list != NULL);
    file_reap_pieces(engine, list, &backoff);
    if (error && !engine->broken)
        fail_queue(engine, error);
    sort_work(engine);
    if (engine->broken)
        fail_planned(engine);
    complete_all(engine);
    if (backoff) {
        pthread_mutex_unlock(&engine->lock);
        nanosleep(&(struct timespec){.tv_nsec = BACKOFF_NS}, NULL);
        pthread_mutex_lock(&engine->lock);
    }
}

/* The caller holds the lock, and another thread drives. Submits new pieces, and wakes the driving
 * thread when it has pieces to fill. */
static void join_driver(struct file_engine *engine)
{
    file_plan_pieces(engine);
    engine->settings.backend->start(engine->queue);
    if (engine->inbox && engine->waiting)
        engine->settings.backend->wake(engine->queue);
}

/* The caller holds the lock. Drives until *left is 0, or with NULL until no nonblocking transfer is
 * left. */
static void drive_until(struct file_engine *engine, const size_t *left)
{
    engine->driven = true;
    engine->last_ns = clock_now_ns();
    while (left ? *left > 0 : engine->background > 0)
        drive_once(engine, !left);
    engine->driven = false;
    pthread_cond_broadcast(&engine->moved);
    if (engine->background)
        pthread_cond_signal(&engine->wake);
}

/* True when requests can use the memory of the transfer without a buffer: host memory for the
 * kernel, memory of this PE's GPU for cuFile. */
static bool in_place(const struct file_engine *engine, const struct file_transfer *t)
{
    return t->place.kind == FILE_DEVICE ? engine->by_cufile : t->place.kind == FILE_HOST;
}

static void shape_op(const struct file_engine *engine, struct file_op *op)
{
    const struct file_transfer *t = &op->transfer;
    op->shape = (struct file_shape){.write = t->write,
                                    .direct = engine->direct,
                                    .in_place = in_place(engine, t),
                                    .only_direct = t->place.kind == FILE_DEVICE,
                                    .alignment = engine->file->alignment,
                                    .memory_alignment = t->place.kind == FILE_DEVICE
                                                            ? FILE_PAGE
                                                            : engine->file->memory_alignment,
                                    .chunk = engine->settings.chunk_bytes,
                                    .offset = t->offset,
                                    .bytes = t->bytes,
                                    .address = (uintptr_t)t->place.address};
}

static void append_op(struct file_engine *engine, struct file_op *op)
{
    op->last = &op->first;
    op->next = NULL;
    shape_op(engine, op);
    op->queued = true;
    *engine->todo_last = op;
    engine->todo_last = &op->next;
}

static weft_status queue_failed(const struct file_engine *engine)
{
    return base_fail(engine->broken == ETIMEDOUT ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM,
                     "an earlier transfer of this file did not end (%s); close the file",
                     strerror(engine->broken));
}

static weft_status first_failure(const struct file_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ops[i].status)
            return base_fail(ops[i].status, "%s", ops[i].sentence);
    return WEFT_OK;
}

weft_status file_drive_run(struct file_engine *engine, const struct file_transfer *list, size_t n)
{
    size_t left = 0;
    struct file_op one = {0}, *ops = n == 1 ? &one : calloc(n, sizeof *ops);
    if (!ops)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu transfers", n);
    pthread_mutex_lock(&engine->lock);
    weft_status status = engine->broken ? queue_failed(engine) : WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        ops[i].transfer = list[i];
        ops[i].left = &left;
        left++;
        append_op(engine, &ops[i]);
    }
    while (left) {
        if (!engine->driven) {
            drive_until(engine, &left);
        } else {
            join_driver(engine);
            pthread_cond_wait(&engine->moved, &engine->lock);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    if (!status)
        status = first_failure(ops, n);
    if (ops != &one)
        free(ops);
    return status;
}

/* --------------------------------------------------------------------- nonblocking transfers */

static void *run_worker(void *argument)
{
    struct file_engine *engine = argument;
    pthread_mutex_lock(&engine->lock);
    while (!engine->stop || engine->background) {
        if (engine->background && !engine->driven)
            drive_until(engine, NULL);
        else
            pthread_cond_wait(&engine->wake, &engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

static weft_status start_worker(struct file_engine *engine)
{
    if (engine->has_worker)
        return WEFT_OK;
    int error = thread_start(&engine->worker, run_worker, engine);
    if (error)
        return base_fail(WEFT_ERR_SYSTEM, "pthread_create for the transfers of a file: %s",
                         strerror(error));
    engine->has_worker = true;
    return WEFT_OK;
}

weft_status file_drive_begin(struct file_engine *engine, const struct file_transfer *transfer)
{
    struct file_op *op = calloc(1, sizeof *op);
    if (!op)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a transfer");
    op->transfer = *transfer;
    op->background = true;
    pthread_mutex_lock(&engine->lock);
    weft_status status = engine->broken ? queue_failed(engine) : start_worker(engine);
    if (!status) {
        append_op(engine, op);
        engine->background++;
        /* Wakes the driving thread, or the worker when no thread drives. */
        if (engine->waiting)
            engine->settings.backend->wake(engine->queue);
        pthread_cond_signal(&engine->wake);
    }
    pthread_mutex_unlock(&engine->lock);
    if (status)
        free(op);
    return status;
}

void file_engine_record_failure(struct file_engine *engine, weft_status status,
                                const char *sentence)
{
    pthread_mutex_lock(&engine->lock);
    if (!engine->background_status) {
        engine->background_status = status;
        snprintf(engine->background_sentence, sizeof engine->background_sentence, "%s", sentence);
    }
    pthread_mutex_unlock(&engine->lock);
}

weft_status file_drive_quiet(struct file_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->background)
        pthread_cond_wait(&engine->moved, &engine->lock);
    weft_status status = engine->background_status;
    if (status)
        base_fail(status, "%s", engine->background_sentence);
    engine->background_status = WEFT_OK;
    pthread_mutex_unlock(&engine->lock);
    return status;
}

bool file_drive_busy(struct file_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool busy = engine->background > 0;
    pthread_mutex_unlock(&engine->lock);
    return busy;
}

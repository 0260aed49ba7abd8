/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of an open file's engine. One thread at a time drives: it takes what has ended,
 * copies, and gives the next pieces; it is whoever waits for a transfer, or for those that go on by
 * themselves a thread of the engine. Whoever comes meanwhile gives its own pieces to the kernel and
 * sleeps until they have ended, or until the driver leaves and it must drive itself. See
 * engine.h. */
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

enum { NAP_NS = 100 * 1000 };
static const uint64_t slice_ns = 100 * 1000 * 1000;

/* Who waits for few requests that end soon looks for them so long before it sleeps: to be woken
 * takes 25 us. Whose last wait took longer sleeps at once, since it would look in vain and take the
 * CPU from who brings the end about. With many under way the next end is near, and the CPU is
 * better left to those. */
enum { POLLED_DEPTH = 4 };
static const uint64_t poll_ns = 100 * 1000;

/* ------------------------------------------------------------------- what the CPU has to do */

static void memory_failed(struct file_piece *piece, weft_status status)
{
    piece->status = status;
    piece->phase = PIECE_ENDED;
    piece->got = 0;
    snprintf(piece->sentence, sizeof piece->sentence, "%s", base_last_error());
}

static bool mark_is_passed(struct file_engine *engine, struct file_piece *piece)
{
    if (piece->mark) {
        weft_status status = gpu_event_query(engine->pinned_for, &piece->mark);
        if (status) {
            gpu_event_release(engine->pinned_for, &piece->mark);
            memory_failed(piece, status);
        }
    }
    return !piece->mark;
}

static void fill(struct file_engine *engine, struct file_piece *piece)
{
    weft_status status =
        file_place_get(&piece->op->transfer.place, piece->cut.at, file_buffer_of(engine, piece),
                       piece->cut.bytes, piece->number, &piece->mark);
    piece->phase = PIECE_FILLING;
    if (status)
        memory_failed(piece, status);
}

static void empty(struct file_engine *engine, struct file_piece *piece)
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
        memory_failed(piece, status);
}

/* Not under the lock. True: the piece has moved on. */
static bool work_on(struct file_engine *engine, struct file_piece *piece)
{
    enum file_phase before = piece->phase;
    if (before == PIECE_TO_FILL)
        fill(engine, piece);
    else if (before == PIECE_ARRIVED)
        empty(engine, piece);
    if (piece->phase == PIECE_FILLING && mark_is_passed(engine, piece) &&
        piece->phase == PIECE_FILLING)
        piece->phase = PIECE_READY;
    if (piece->phase == PIECE_EMPTYING && mark_is_passed(engine, piece) &&
        piece->phase == PIECE_EMPTYING)
        piece->phase = PIECE_ENDED;
    return piece->phase != before;
}

static bool work_on_all(struct file_engine *engine)
{
    bool moved = false;
    for (struct file_piece *piece = engine->work; piece; piece = piece->next_work)
        moved |= work_on(engine, piece);
    return moved;
}

/* -------------------------------------------------------------------------------- the end of it */

/* Under the lock: the piece's bytes count when all in front of them do. */
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

/* Under the lock: frees the pieces at the front of a transfer that have ended. */
static void retire(struct file_engine *engine, struct file_op *op)
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
        file_settle_later(engine, op);
    else
        file_issue(engine); /* takes it out of the list, since it has failed */
}

/* Under the lock: what work_on() has finished. Retiring comes last: it lets pieces be used
 * again. */
static void sort_work(struct file_engine *engine)
{
    struct file_piece *list = engine->work;
    struct file_op *dirty = NULL;
    engine->work = NULL;
    while (list) {
        struct file_piece *piece = list;
        list = list->next_work;
        if (piece->phase == PIECE_READY) {
            file_give(engine, piece);
        } else if (piece->phase != PIECE_ENDED) {
            file_into_work(&engine->work, piece);
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
        retire(engine, op);
    }
}

/* Under the lock, which it gives away meanwhile. */
static void settle_all(struct file_engine *engine)
{
    while (engine->settling) {
        struct file_op *op = engine->settling;
        engine->settling = op->next;
        if (!op->transfer.write && op->done && op->transfer.place.kind == FILE_REMOTE) {
            pthread_mutex_unlock(&engine->lock);
            weft_status status = file_place_settle(&op->transfer.place);
            pthread_mutex_lock(&engine->lock);
            if (status) {
                op->status = WEFT_OK; /* worse than what came before: nothing is safe */
                op->done = 0;
                file_op_fail(op, status, 0, "%s", base_last_error());
            }
        }
        end_op(engine, op);
    }
}

/* Under the lock: the queue completes nothing more. What the kernel has stays its own: the pieces,
 * and their memory, are not used again. */
static void give_up(struct file_engine *engine, int error)
{
    engine->broken = error;
    for (unsigned i = 0; i < engine->settings.depth; i++) {
        struct file_piece *piece = &engine->pieces[i];
        if (piece->phase != PIECE_GIVEN)
            continue;
        piece->error = error;
        piece->got = file_safe_bytes(piece);
        piece->phase = PIECE_ENDED;
        file_into_work(&engine->work, piece);
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
            file_settle_later(engine, op);
    }
}

/* --------------------------------------------------------------------------------- the driver */

static void look_at_limit(struct file_engine *engine, bool something)
{
    uint64_t now = clock_now_ns(), limit = engine->settings.wait_limit_ns;
    if (something || !engine->given)
        engine->last_ns = now;
    else if (limit && now - engine->last_ns > limit)
        give_up(engine, ETIMEDOUT);
}

static bool may_poll(const struct file_engine *engine, bool patient)
{
    return !patient && engine->quick && engine->given <= POLLED_DEPTH;
}

/* Not under the lock. */
static struct file_io *wait_for_one(struct file_engine *engine, bool polls, int *error)
{
    const struct file_backend *backend = engine->settings.backend;
    uint64_t begin = clock_now_ns(), now = begin;
    struct file_io *list = NULL;
    *error = 0;
    while (polls && !list && !*error && now - begin < poll_ns) {
        list = backend->take(engine->queue, 0, error);
        now = clock_now_ns();
        if (!list)
            sched_yield();
    }
    if (!list && !*error)
        list = backend->take(engine->queue, slice_ns, error);
    engine->quick = clock_now_ns() - begin < poll_ns;
    return list;
}

/* One round, under the lock, which it gives away while it copies and waits. patient: nobody waits
 * for it. */
static void drive_once(struct file_engine *engine, bool patient)
{
    int error = 0;
    bool nap = false;
    file_issue(engine);
    while (engine->inbox) {
        struct file_piece *piece = engine->inbox;
        engine->inbox = piece->next_work;
        file_into_work(&engine->work, piece);
    }
    bool busy = engine->work != NULL || engine->settling;
    bool sleeps = !busy && engine->given && !engine->broken;
    bool polls = may_poll(engine, patient);
    engine->waiting = sleeps;
    pthread_mutex_unlock(&engine->lock);
    if (busy)
        engine->settings.backend->push(engine->queue);
    bool moved = work_on_all(engine);
    struct file_io *list = NULL;
    if (sleeps)
        list = wait_for_one(engine, polls, &error);
    else if (!engine->broken)
        list = engine->settings.backend->take(engine->queue, 0, &error);
    if (busy && !moved && !list)
        sched_yield(); /* the GPU is at it */
    pthread_mutex_lock(&engine->lock);
    engine->waiting = false;
    look_at_limit(engine, list != NULL);
    file_take_back(engine, list, &nap);
    if (error && !engine->broken)
        give_up(engine, error);
    sort_work(engine);
    if (engine->broken)
        fail_planned(engine);
    settle_all(engine);
    if (nap) {
        pthread_mutex_unlock(&engine->lock);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        pthread_mutex_lock(&engine->lock);
    }
}

/* Under the lock. Who drives already may be asleep, and something is to be done. */
static void come_beside(struct file_engine *engine)
{
    file_issue(engine);
    engine->settings.backend->push(engine->queue);
    if (engine->inbox && engine->waiting)
        engine->settings.backend->wake(engine->queue);
}

/* Under the lock: until `left` is 0, or with NULL until nothing goes on by itself. */
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

/* Whether requests may name the memory itself: the kernel reaches the host's, cuFile that of this
 * PE's GPU, which alone comes to its engine. */
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

static weft_status broken(const struct file_engine *engine)
{
    return base_fail(engine->broken == ETIMEDOUT ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM,
                     "an earlier transfer of this file never ended (%s); close it",
                     strerror(engine->broken));
}

static weft_status outcome(const struct file_op *ops, size_t n)
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
    weft_status status = engine->broken ? broken(engine) : WEFT_OK;
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
            come_beside(engine);
            pthread_cond_wait(&engine->moved, &engine->lock);
        }
    }
    pthread_mutex_unlock(&engine->lock);
    if (!status)
        status = outcome(ops, n);
    if (ops != &one)
        free(ops);
    return status;
}

/* ------------------------------------------------------------------ what goes on by itself */

static void *work(void *argument)
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
    int error = thread_start(&engine->worker, work, engine);
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
    weft_status status = engine->broken ? broken(engine) : start_worker(engine);
    if (!status) {
        append_op(engine, op);
        engine->background++;
        /* A driver that sleeps takes it up; the worker drives where nobody does. */
        if (engine->waiting)
            engine->settings.backend->wake(engine->queue);
        pthread_cond_signal(&engine->wake);
    }
    pthread_mutex_unlock(&engine->lock);
    if (status)
        free(op);
    return status;
}

void file_engine_note(struct file_engine *engine, weft_status status, const char *sentence)
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

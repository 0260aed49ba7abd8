/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of an open file: takes the pieces of all transfers through their phases.
 *
 *   read   GIVEN (the kernel has it), ARRIVED, EMPTYING (the GPU copies on from the buffer), ENDED
 *   write  TO_FILL, FILLING (the GPU copies into the buffer), READY, GIVEN, ARRIVED, ENDED
 *
 * less those that a piece in place does not need. One thread at a time drives: it takes what has ended, copies,
 * and gives the next pieces; it is whoever waits for a transfer, or for those that go on by themselves a thread
 * of the engine. Whoever comes meanwhile gives its own pieces to the kernel and sleeps until they have ended, or
 * until the driver leaves and it must drive itself. `lock` guards all but what only the driver looks at: the list
 * `work`, and pieces that are in it. Knows neither system calls nor kinds of memory. */
#include "path/file.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "base/thread.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    TRIES_MOST = 10000, /* of a request that the kernel puts off */
    NAP_NS = 100 * 1000,
    SENTENCE_BYTES = 320
};
static const uint64_t slice_ns = 100 * 1000 * 1000;

/* Who waits for few requests that end soon looks for them so long before it sleeps: to be woken takes 25 us. With
 * many under way the next end is near, and the CPU is better left to who brings it about. */
enum { POLLED_DEPTH = 4 };
static const uint64_t poll_ns = 100 * 1000;

/* Buffers of more than this are not made known to io_uring: it would pin them all at once. */
static const size_t most_known = (size_t)256 << 20;

enum phase { FREE, TO_FILL, FILLING, READY, GIVEN, ARRIVED, EMPTYING, ENDED };

struct piece {
    struct file_io io; /* first: what take() returns is a piece */
    enum phase phase;
    struct op *op;
    struct piece *next;      /* free ones, or those of its transfer, in order */
    struct piece *next_work; /* in the driver's list or the way there */
    struct file_cut cut;
    struct gpu_mark *mark;
    size_t moved; /* bytes of the request that the kernel has moved */
    size_t got;   /* bytes of the piece that are safe */
    unsigned tries, number;
    uint32_t crc;
    int error;
    weft_status status; /* of the memory's side */
    char sentence[SENTENCE_BYTES];
};

struct op {
    struct file_transfer transfer;
    struct file_shape shape;
    size_t planned; /* bytes that have been cut into pieces */
    struct piece *first, **last;
    uint64_t done;
    uint32_t crc;
    weft_status status;
    int error;
    char sentence[SENTENCE_BYTES];
    size_t *left; /* of the transfers of its call: how many are not over */
    bool background, settles, dirty;
    struct op *next;       /* of those with something to plan, or of those to be settled */
    struct op *next_dirty; /* of those of which a piece has ended */
};

struct file_engine {
    struct opened_file *file;
    struct file_settings settings;
    struct file_queue *queue;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* a transfer is over, or nobody drives */
    struct op *todo, **todo_last;
    struct op *settling; /* their pieces have ended; what was put by a path is to be completed */
    struct piece *pieces, *free, *inbox;
    struct piece *work;   /* the driver's */
    unsigned given;       /* to the kernel, and not taken back */
    bool driven, waiting; /* the driver sleeps in take() */
    bool quick;           /* the last wait was short */
    bool direct;
    int broken; /* errno with which the queue has failed */
    uint64_t last_ns;

    unsigned background; /* transfers that go on by themselves */
    weft_status background_status;
    char background_sentence[SENTENCE_BYTES];
    pthread_t worker;
    pthread_cond_t wake;
    bool has_worker, stop;

    char *buffers;                    /* [depth], a chunk each */
    bool buffers_known, buffers_told; /* to the queue, which may have refused */
    struct crc32c_shift shift;
    struct gpu *pinned_for;
    struct file_engine *next_lost;
};

/* ------------------------------------------------------------------------------------ failures */

static const char *verb(const struct op *op)
{
    return op->transfer.write ? "weft_file_write" : "weft_file_read";
}

/* The first failure of a transfer counts; nothing more of it is planned. */
static void fail_op(struct op *op, weft_status status, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void fail_op(struct op *op, weft_status status, int error, const char *format, ...)
{
    va_list list;
    if (op->status)
        return;
    op->status = status;
    op->error = error;
    va_start(list, format);
    vsnprintf(op->sentence, sizeof op->sentence, format, list);
    va_end(list);
}

static const char *hint(int error)
{
    switch (error) {
    case ENOSPC:
        return "; the disk is full";
    case EDQUOT:
        return "; the user's quota is used up";
    case EFBIG:
        return "; the file would exceed what this file system or ulimit -f allows";
    case EFAULT:
        return "; the memory is not mapped, or cannot be written";
    default:
        return "";
    }
}

static void fail_io(struct op *op, int error, uint64_t done)
{
    fail_op(op, error == ETIMEDOUT ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM, error,
            "%s: %zu bytes at %llu of a file: %s%s; the first %llu bytes are safe", verb(op),
            op->transfer.bytes, (unsigned long long)op->transfer.offset, strerror(error),
            hint(error), (unsigned long long)done);
}

static void fail_short(struct op *op, uint64_t done)
{
    fail_op(op, WEFT_ERR_RANGE, 0,
            "weft_file_read: %zu bytes at %llu run past the end of the file, which has %llu bytes "
            "now; the first %llu are read",
            op->transfer.bytes, (unsigned long long)op->transfer.offset,
            (unsigned long long)(op->transfer.offset + done), (unsigned long long)done);
}

/* ------------------------------------------------------------------------------------- buffers */

static size_t all_buffers(const struct file_engine *engine)
{
    return engine->settings.chunk_bytes * engine->settings.depth;
}

static weft_status make_buffers(struct file_engine *engine)
{
    char *made = mmap(NULL, all_buffers(engine), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY, "%u buffers of %zu bytes for a file: %s",
                         engine->settings.depth, engine->settings.chunk_bytes, strerror(errno));
    /* A child of fork() would make the parent's next store into a buffer go to a copy, beside what the kernel
     * reads into. */
    madvise(made, all_buffers(engine), MADV_DONTFORK);
    madvise(made, all_buffers(engine), MADV_HUGEPAGE);
    engine->buffers = made;
    return WEFT_OK;
}

static void tell_buffers(struct file_engine *engine)
{
    const struct file_settings *s = &engine->settings;
    engine->buffers_told = true;
    engine->buffers_known =
        s->backend->buffers && all_buffers(engine) <= most_known &&
        s->backend->buffers(engine->queue, engine->buffers, s->chunk_bytes, s->depth);
}

/* Under the lock. Large pieces are worth that the kernel, and the GPU, know the buffers. */
static weft_status ready_buffers(struct file_engine *engine, const struct op *op, size_t bytes)
{
    enum { WORTH = 64 << 10 };
    weft_status status = engine->buffers ? WEFT_OK : make_buffers(engine);
    if (!status && bytes >= WORTH && !engine->buffers_told)
        tell_buffers(engine);
    struct gpu *gpu = op->transfer.place.kind == FILE_DEVICE ? op->transfer.place.gpu : NULL;
    if (status || !gpu || engine->pinned_for == gpu)
        return status;
    status = gpu_pin_range(gpu, engine->buffers, all_buffers(engine));
    if (!status)
        engine->pinned_for = gpu;
    return status;
}

/* The GPU has been unpinned before the memory goes. */
static void drop_buffers(struct file_engine *engine)
{
    if (engine->pinned_for)
        gpu_unpin_range(engine->pinned_for, engine->buffers, all_buffers(engine));
    if (engine->buffers_known)
        engine->settings.backend->buffers(engine->queue, NULL, 0, 0);
    if (engine->buffers)
        munmap(engine->buffers, all_buffers(engine));
    engine->pinned_for = NULL;
    engine->buffers = NULL;
    engine->buffers_known = engine->buffers_told = false;
}

static char *buffer_of(const struct file_engine *engine, const struct piece *piece)
{
    return engine->buffers + piece->number * engine->settings.chunk_bytes;
}

/* ------------------------------------------------------------------------------ to the kernel */

static void into_work(struct piece **list, struct piece *piece)
{
    piece->next_work = *list;
    *list = piece;
}

/* Under the lock. */
static void give(struct file_engine *engine, struct piece *piece)
{
    if (engine->broken) {
        piece->error = engine->broken;
        piece->phase = ENDED;
        into_work(&engine->work, piece);
        return;
    }
    piece->phase = GIVEN;
    engine->given++;
    engine->settings.backend->give(engine->queue, &piece->io);
}

static void shape_op(const struct file_engine *engine, struct op *op)
{
    const struct file_transfer *t = &op->transfer;
    op->shape = (struct file_shape){.write = t->write,
                                    .direct = engine->direct,
                                    .in_place = t->place.kind == FILE_HOST,
                                    .alignment = engine->file->alignment,
                                    .memory_alignment = engine->file->memory_alignment,
                                    .chunk = engine->settings.chunk_bytes,
                                    .offset = t->offset,
                                    .bytes = t->bytes,
                                    .address = (uintptr_t)t->place.address};
}

/* Under the lock: the next piece of the transfer. False: it has failed. */
static bool begin_piece(struct file_engine *engine, struct op *op, struct piece *piece)
{
    struct file_cut cut = file_cut_at(&op->shape, op->planned);
    weft_status status = cut.buffer ? ready_buffers(engine, op, cut.io_bytes) : WEFT_OK;
    if (status) {
        fail_op(op, status, 0, "%s", base_last_error());
        return false;
    }
    piece->op = op;
    piece->cut = cut;
    piece->moved = piece->got = 0;
    piece->tries = 0;
    piece->error = 0;
    piece->status = WEFT_OK;
    piece->crc = 0;
    piece->next = NULL;
    piece->io = (struct file_io){
        .write = op->transfer.write,
        .direct = cut.direct,
        .buffer = cut.buffer && engine->buffers_known ? (int)piece->number : -1,
        .address = cut.buffer ? buffer_of(engine, piece) : op->transfer.place.address + cut.at,
        .bytes = cut.io_bytes,
        .offset = cut.io_offset};
    op->planned += cut.bytes;
    *op->last = piece;
    op->last = &piece->next;
    if (cut.buffer && op->transfer.write) {
        piece->phase = TO_FILL;
        into_work(&engine->inbox, piece);
    } else {
        give(engine, piece);
    }
    return true;
}

static bool all_ended(const struct op *op)
{
    return !op->first && (op->status || op->planned == op->transfer.bytes);
}

static void settle_later(struct file_engine *engine, struct op *op)
{
    if (op->settles)
        return;
    op->settles = true;
    op->next = engine->settling;
    engine->settling = op;
}

/* Takes the first one out of the list of those with something to plan. */
static void unplan(struct file_engine *engine, struct op *op)
{
    engine->todo = op->next;
    if (!engine->todo)
        engine->todo_last = &engine->todo;
    op->next = NULL;
    if (all_ended(op))
        settle_later(engine, op);
}

/* Under the lock: as many pieces as there is room for, transfer after transfer. */
static void issue(struct file_engine *engine)
{
    while (engine->todo && engine->free && !engine->broken) {
        struct op *op = engine->todo;
        if (op->status || op->planned == op->transfer.bytes) {
            unplan(engine, op);
            continue;
        }
        struct piece *piece = engine->free;
        engine->free = piece->next;
        if (!begin_piece(engine, op, piece)) {
            piece->next = engine->free;
            engine->free = piece;
        }
    }
    while (engine->todo &&
           (engine->todo->status || engine->todo->planned == engine->todo->transfer.bytes))
        unplan(engine, engine->todo);
}

/* ---------------------------------------------------------------------------- from the kernel */

static size_t safe_bytes(const struct piece *piece)
{
    size_t behind = piece->moved > piece->cut.skip ? piece->moved - piece->cut.skip : 0;
    return behind < piece->cut.bytes ? behind : piece->cut.bytes;
}

static bool put_off(int error)
{
    return error == EINTR || error == EAGAIN || error == ECANCELED || error == EBUSY;
}

/* The file system has taken O_DIRECT at open() and refuses it now: by the page cache then. */
static bool refuses_direct(const struct piece *piece, int error)
{
    return piece->io.direct && (error == EINVAL || error == EOPNOTSUPP);
}

static void skip_moved(const struct file_engine *engine, struct piece *piece, size_t bytes)
{
    size_t whole = piece->io.direct ? bytes & ~(size_t)(engine->file->alignment - 1) : bytes;
    piece->moved += whole;
    piece->io.address += whole;
    piece->io.offset += whole;
    piece->io.bytes -= whole;
}

/* Under the lock. True: the request goes on. */
static bool goes_on(struct file_engine *engine, struct piece *piece)
{
    int64_t result = piece->io.result;
    int error = result < 0 ? (int)-result : 0;
    if (error && put_off(error) && ++piece->tries < TRIES_MOST)
        return true;
    if (error && refuses_direct(piece, error)) {
        if (engine->direct)
            file_give_up_direct(engine->file, error);
        engine->direct = piece->io.direct = false;
        return true;
    }
    piece->error = error;
    if (error)
        return false;
    size_t before = piece->moved;
    piece->moved += (size_t)result;
    if (safe_bytes(piece) == piece->cut.bytes || result == 0) {
        if (result == 0 && piece->io.write)
            piece->error = EIO;
        return false;
    }
    piece->moved = before;
    skip_moved(engine, piece, (size_t)result);
    if (piece->moved > before)
        return true;
    piece->moved += (size_t)result; /* less than a block: the end of the file */
    if (piece->io.write)
        piece->error = EIO;
    return false;
}

/* Under the lock. */
static void take_back(struct file_engine *engine, struct file_io *list, bool *nap)
{
    while (list) {
        struct piece *piece = (struct piece *)list;
        list = list->next;
        engine->given--;
        if (goes_on(engine, piece)) {
            *nap |= piece->tries > 8;
            give(engine, piece);
            continue;
        }
        piece->got = safe_bytes(piece);
        piece->phase = ARRIVED;
        into_work(&engine->work, piece);
    }
}

/* ------------------------------------------------------------------- what the CPU has to do */

static void memory_failed(struct piece *piece, weft_status status)
{
    piece->status = status;
    piece->phase = ENDED;
    piece->got = 0;
    snprintf(piece->sentence, sizeof piece->sentence, "%s", base_last_error());
}

static bool mark_is_passed(struct file_engine *engine, struct piece *piece)
{
    if (piece->mark) {
        weft_status status = gpu_mark_passed(engine->pinned_for, &piece->mark);
        if (status) {
            gpu_mark_drop(engine->pinned_for, &piece->mark);
            memory_failed(piece, status);
        }
    }
    return !piece->mark;
}

static void fill(struct file_engine *engine, struct piece *piece)
{
    weft_status status =
        file_place_get(&piece->op->transfer.place, piece->cut.at, buffer_of(engine, piece),
                       piece->cut.bytes, piece->number, &piece->mark);
    piece->phase = FILLING;
    if (status)
        memory_failed(piece, status);
}

static void empty(struct file_engine *engine, struct piece *piece)
{
    piece->phase = EMPTYING;
    if (engine->settings.checksums && piece->got) {
        const char *data = piece->cut.buffer ? buffer_of(engine, piece) + piece->cut.skip
                                             : piece->op->transfer.place.address + piece->cut.at;
        piece->crc = crc32c(0, data, piece->got);
    }
    if (!piece->cut.buffer || piece->io.write || !piece->got)
        return;
    weft_status status = file_place_put(&piece->op->transfer.place, piece->cut.at,
                                        buffer_of(engine, piece) + piece->cut.skip, piece->got,
                                        piece->number, &piece->mark);
    if (status)
        memory_failed(piece, status);
}

/* Not under the lock. True: the piece has moved on. */
static bool work_on(struct file_engine *engine, struct piece *piece)
{
    enum phase before = piece->phase;
    if (before == TO_FILL)
        fill(engine, piece);
    else if (before == ARRIVED)
        empty(engine, piece);
    if (piece->phase == FILLING && mark_is_passed(engine, piece) && piece->phase == FILLING)
        piece->phase = READY;
    if (piece->phase == EMPTYING && mark_is_passed(engine, piece) && piece->phase == EMPTYING)
        piece->phase = ENDED;
    return piece->phase != before;
}

static bool work_on_all(struct file_engine *engine)
{
    bool moved = false;
    for (struct piece *piece = engine->work; piece; piece = piece->next_work)
        moved |= work_on(engine, piece);
    return moved;
}

/* -------------------------------------------------------------------------------- the end of it */

/* Under the lock: the piece's bytes count when all in front of them do. */
static void count_piece(struct file_engine *engine, struct op *op, const struct piece *piece)
{
    if (op->status)
        return;
    if (piece->status) {
        fail_op(op, piece->status, 0, "%s", piece->sentence);
        return;
    }
    if (engine->settings.checksums)
        op->crc = crc32c_join(&engine->shift, op->crc, piece->crc, piece->got);
    op->done += piece->got;
    if (piece->error)
        fail_io(op, piece->error, op->done);
    else if (piece->got < piece->cut.bytes)
        fail_short(op, op->done);
}

static void end_op(struct file_engine *engine, struct op *op)
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

static bool is_planned(const struct file_engine *engine, const struct op *op)
{
    for (const struct op *other = engine->todo; other; other = other->next)
        if (other == op)
            return false;
    return true;
}

/* Under the lock: frees the pieces at the front of a transfer that have ended. */
static void retire(struct file_engine *engine, struct op *op)
{
    while (op->first && op->first->phase == ENDED) {
        struct piece *piece = op->first;
        op->first = piece->next;
        if (!op->first)
            op->last = &op->first;
        count_piece(engine, op, piece);
        piece->phase = FREE;
        piece->next = engine->free;
        engine->free = piece;
    }
    if (!all_ended(op))
        return;
    if (is_planned(engine, op))
        settle_later(engine, op);
    else
        issue(engine); /* takes it out of the list, since it has failed */
}

/* Under the lock: what work_on() has finished. Retiring comes last: it lets pieces be used again. */
static void sort_work(struct file_engine *engine)
{
    struct piece *list = engine->work;
    struct op *dirty = NULL;
    engine->work = NULL;
    while (list) {
        struct piece *piece = list;
        list = list->next_work;
        if (piece->phase == READY) {
            give(engine, piece);
        } else if (piece->phase != ENDED) {
            into_work(&engine->work, piece);
        } else if (!piece->op->dirty) {
            piece->op->dirty = true;
            piece->op->next_dirty = dirty;
            dirty = piece->op;
        }
    }
    while (dirty) {
        struct op *op = dirty;
        dirty = op->next_dirty;
        op->dirty = false;
        retire(engine, op);
    }
}

/* Under the lock, which it gives away meanwhile. */
static void settle_all(struct file_engine *engine)
{
    while (engine->settling) {
        struct op *op = engine->settling;
        engine->settling = op->next;
        if (!op->transfer.write && op->done && op->transfer.place.kind == FILE_REMOTE) {
            pthread_mutex_unlock(&engine->lock);
            weft_status status = file_place_settle(&op->transfer.place);
            pthread_mutex_lock(&engine->lock);
            if (status) {
                op->status = WEFT_OK; /* worse than what came before: nothing is safe */
                op->done = 0;
                fail_op(op, status, 0, "%s", base_last_error());
            }
        }
        end_op(engine, op);
    }
}

/* Under the lock: the queue completes nothing more. What the kernel has stays its own: the pieces, and their
 * memory, are not used again. */
static void give_up(struct file_engine *engine, int error)
{
    engine->broken = error;
    for (unsigned i = 0; i < engine->settings.depth; i++) {
        struct piece *piece = &engine->pieces[i];
        if (piece->phase != GIVEN)
            continue;
        piece->error = error;
        piece->got = safe_bytes(piece);
        piece->phase = ENDED;
        into_work(&engine->work, piece);
    }
}

static void fail_planned(struct file_engine *engine)
{
    struct op *list = engine->todo;
    engine->todo = NULL;
    engine->todo_last = &engine->todo;
    while (list) {
        struct op *op = list;
        list = list->next;
        fail_io(op, engine->broken, op->done);
        if (all_ended(op))
            settle_later(engine, op);
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
    engine->quick = clock_now_ns() - begin < 2 * poll_ns;
    return list;
}

/* One round, under the lock, which it gives away while it copies and waits. patient: nobody waits for it. */
static void drive_once(struct file_engine *engine, bool patient)
{
    int error = 0;
    bool nap = false;
    issue(engine);
    while (engine->inbox) {
        struct piece *piece = engine->inbox;
        engine->inbox = piece->next_work;
        into_work(&engine->work, piece);
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
    take_back(engine, list, &nap);
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
    issue(engine);
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

static void append(struct file_engine *engine, struct op *op)
{
    op->last = &op->first;
    op->next = NULL;
    shape_op(engine, op);
    *engine->todo_last = op;
    engine->todo_last = &op->next;
}

static weft_status broken(const struct file_engine *engine)
{
    return base_fail(engine->broken == ETIMEDOUT ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM,
                     "an earlier transfer of this file never ended (%s); close it",
                     strerror(engine->broken));
}

static weft_status outcome(const struct op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ops[i].status)
            return base_fail(ops[i].status, "%s", ops[i].sentence);
    return WEFT_OK;
}

weft_status file_engine_run(struct file_engine *engine, const struct file_transfer *list, size_t n)
{
    size_t left = 0;
    struct op one = {0}, *ops = n == 1 ? &one : calloc(n, sizeof *ops);
    if (!ops)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu transfers", n);
    pthread_mutex_lock(&engine->lock);
    weft_status status = engine->broken ? broken(engine) : WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        ops[i].transfer = list[i];
        ops[i].left = &left;
        left++;
        append(engine, &ops[i]);
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

weft_status file_engine_begin(struct file_engine *engine, const struct file_transfer *transfer)
{
    struct op *op = calloc(1, sizeof *op);
    if (!op)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a transfer");
    op->transfer = *transfer;
    op->background = true;
    pthread_mutex_lock(&engine->lock);
    weft_status status = engine->broken ? broken(engine) : start_worker(engine);
    if (!status) {
        append(engine, op);
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

weft_status file_engine_quiet(struct file_engine *engine)
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

/* -------------------------------------------------------------------------------- open, close */

/* Nothing is under way. */
static void set_shape(struct file_engine *engine, unsigned depth, size_t chunk)
{
    size_t a = engine->file->alignment; /* a block may be larger than what was asked for */
    engine->settings.depth = depth;
    engine->settings.chunk_bytes = (chunk + a - 1) / a * a;
    engine->free = NULL;
    for (unsigned i = depth; i-- > 0;) {
        engine->pieces[i].number = i;
        engine->pieces[i].next = engine->free;
        engine->free = &engine->pieces[i];
    }
}

bool file_engine_reshape(struct file_engine *engine, unsigned depth, size_t chunk)
{
    pthread_mutex_lock(&engine->lock);
    bool idle = !engine->driven && !engine->todo && !engine->background && !engine->settling &&
                !engine->given && !engine->inbox && !engine->work && !engine->broken;
    bool fits = depth && depth <= engine->settings.most_depth;
    bool same = depth == engine->settings.depth && chunk == engine->settings.chunk_bytes;
    if (idle && fits && !same) {
        drop_buffers(engine);
        set_shape(engine, depth, chunk);
    }
    pthread_mutex_unlock(&engine->lock);
    return idle && fits;
}

weft_status file_engine_open(struct opened_file *file, const struct file_settings *settings,
                             struct file_engine **result)
{
    unsigned most = settings->most_depth > settings->depth ? settings->most_depth : settings->depth;
    struct file_engine *engine = calloc(1, sizeof *engine);
    struct piece *pieces = calloc(most, sizeof *pieces);
    weft_status status = engine && pieces
                             ? settings->backend->open(file, most, &engine->queue)
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a file");
    if (status) {
        free(pieces);
        free(engine);
        return status;
    }
    engine->file = file;
    engine->settings = *settings;
    engine->settings.most_depth = most;
    engine->direct = file->direct >= 0;
    engine->quick = true;
    engine->pieces = pieces;
    engine->todo_last = &engine->todo;
    set_shape(engine, settings->depth, settings->chunk_bytes);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->moved, NULL);
    pthread_cond_init(&engine->wake, NULL);
    *result = engine;
    return WEFT_OK;
}

/* Behind a queue that has failed the kernel may still be at the buffers and the requests: they stay as they are
 * until the process ends. This keeps them reachable. */
static struct file_engine *lost;
static pthread_mutex_t lost_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_lost(struct file_engine *engine)
{
    pthread_mutex_lock(&lost_lock);
    engine->next_lost = lost;
    lost = engine;
    pthread_mutex_unlock(&lost_lock);
}

void file_engine_close(struct file_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->stop = true;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    if (engine->has_worker)
        pthread_join(engine->worker, NULL);
    if (engine->broken) {
        if (engine->pinned_for)
            gpu_unpin_range(engine->pinned_for, engine->buffers, all_buffers(engine));
        keep_lost(engine);
        return;
    }
    drop_buffers(engine);
    engine->settings.backend->close(engine->queue);
    pthread_cond_destroy(&engine->wake);
    pthread_cond_destroy(&engine->moved);
    pthread_mutex_destroy(&engine->lock);
    free(engine->pieces);
    free(engine);
}

static const char *backend_name(const struct file_engine *engine)
{
    bool uring = engine->settings.backend == &file_uring;
    if (engine->direct)
        return uring ? "uring direct" : "threads direct";
    return uring ? "uring buffered" : "threads buffered";
}

void file_engine_describe(struct file_engine *engine, weft_file_info *info)
{
    const struct opened_file *file = engine->file;
    pthread_mutex_lock(&engine->lock);
    info->backend = backend_name(engine);
    info->alignment = file->alignment;
    info->memory_alignment = file->memory_alignment;
    info->depth = engine->settings.depth;
    info->chunk_bytes = engine->settings.chunk_bytes;
    memcpy(info->file_system, file->file_system, sizeof info->file_system);
    memcpy(info->store, file->store, sizeof info->store);
    memcpy(info->reason_code, file->reason_code, sizeof info->reason_code);
    memcpy(info->reason, file->reason, sizeof info->reason);
    pthread_mutex_unlock(&engine->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From a transfer to the kernel's requests, and back: pieces and their buffers, what is given to
 * the kernel, what comes back short or refused, and the words for it. See engine.h. */
#include "file/engine.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { TRIES_MOST = 10000 }; /* of a request that the kernel puts off */

/* Buffers of more than this are not made known to io_uring: it would pin them all at once. */
static const size_t most_known = (size_t)256 << 20;

/* ------------------------------------------------------------------------------------ failures */

static const char *verb(const struct file_op *op)
{
    return op->transfer.write ? "weft_file_write" : "weft_file_read";
}

void file_op_fail(struct file_op *op, weft_status status, int error, const char *format, ...)
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

/* Of a long path the end, which tells more. */
static const char *name_of(const struct file_engine *engine)
{
    enum { MOST = 120 };
    size_t length = strlen(engine->file->path);
    return engine->file->path + (length > MOST ? length - MOST : 0);
}

void file_op_fail_io(const struct file_engine *engine, struct file_op *op, int error, uint64_t done)
{
    file_op_fail(op, error == ETIMEDOUT ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM, error,
                 "%s: %zu bytes at %llu of %s: %s%s; the first %llu bytes are safe", verb(op),
                 op->transfer.bytes, (unsigned long long)op->transfer.offset, name_of(engine),
                 strerror(error), hint(error), (unsigned long long)done);
}

void file_op_fail_short(const struct file_engine *engine, struct file_op *op, uint64_t done)
{
    uint64_t has = op->transfer.offset + done;
    if (!done && file_size(engine->file, &has)) /* it may end long before */
        has = op->transfer.offset;
    file_op_fail(op, WEFT_ERR_RANGE, 0,
                 "weft_file_read: %zu bytes at %llu run past the end of %s, which has %llu bytes "
                 "now; the first %llu are read",
                 op->transfer.bytes, (unsigned long long)op->transfer.offset, name_of(engine),
                 (unsigned long long)has, (unsigned long long)done);
}

/* ------------------------------------------------------------------------------------- buffers */

size_t file_buffers_bytes(const struct file_engine *engine)
{
    return engine->settings.chunk_bytes * engine->settings.depth;
}

static weft_status make_buffers(struct file_engine *engine)
{
    char *made = mmap(NULL, file_buffers_bytes(engine), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY, "%u buffers of %zu bytes for a file: %s",
                         engine->settings.depth, engine->settings.chunk_bytes, strerror(errno));
    /* A child of fork() would make the parent's next store into a buffer go to a copy, beside what
     * the kernel reads into. */
    madvise(made, file_buffers_bytes(engine), MADV_DONTFORK);
    madvise(made, file_buffers_bytes(engine), MADV_HUGEPAGE);
    engine->buffers = made;
    return WEFT_OK;
}

static void offer_buffers(struct file_engine *engine)
{
    const struct file_settings *s = &engine->settings;
    engine->buffers_told = true;
    engine->buffers_known =
        s->backend->buffers && file_buffers_bytes(engine) <= most_known &&
        s->backend->buffers(engine->queue, engine->buffers, s->chunk_bytes, s->depth);
}

/* Under the lock. Large pieces are worth that the kernel, and the GPU, know the buffers. */
static weft_status ready_buffers(struct file_engine *engine, const struct file_op *op, size_t bytes)
{
    enum { WORTH = 64 << 10 };
    weft_status status = engine->buffers ? WEFT_OK : make_buffers(engine);
    if (!status && bytes >= WORTH && !engine->buffers_told)
        offer_buffers(engine);
    struct gpu *gpu = op->transfer.place.kind == FILE_DEVICE ? op->transfer.place.gpu : NULL;
    if (status || !gpu || engine->pinned_for == gpu)
        return status;
    status = gpu_pin_range(gpu, engine->buffers, file_buffers_bytes(engine));
    if (!status)
        engine->pinned_for = gpu;
    return status;
}

/* The GPU has been unpinned before the memory goes. */
void file_buffers_drop(struct file_engine *engine)
{
    if (engine->pinned_for)
        gpu_unpin_range(engine->pinned_for, engine->buffers, file_buffers_bytes(engine));
    if (engine->buffers_known)
        engine->settings.backend->buffers(engine->queue, NULL, 0, 0);
    if (engine->buffers)
        munmap(engine->buffers, file_buffers_bytes(engine));
    engine->pinned_for = NULL;
    engine->buffers = NULL;
    engine->buffers_known = engine->buffers_told = false;
}

char *file_buffer_of(const struct file_engine *engine, const struct file_piece *piece)
{
    return engine->buffers + piece->number * engine->settings.chunk_bytes;
}

/* ------------------------------------------------------------------------------ to the kernel */

/* Under the lock. */
void file_give(struct file_engine *engine, struct file_piece *piece)
{
    if (engine->broken) {
        piece->error = engine->broken;
        piece->phase = PIECE_ENDED;
        file_into_work(&engine->work, piece);
        return;
    }
    piece->phase = PIECE_GIVEN;
    engine->given++;
    engine->settings.backend->give(engine->queue, &piece->io);
}

/* Under the lock: the next piece of the transfer. False: it has failed. */
static bool begin_piece(struct file_engine *engine, struct file_op *op, struct file_piece *piece)
{
    bool device = op->transfer.place.kind == FILE_DEVICE;
    op->shape.in_place &= !device || engine->by_cufile;
    struct file_cut cut = file_cut_at(&op->shape, op->planned);
    weft_status status = cut.buffer ? ready_buffers(engine, op, cut.io_bytes) : WEFT_OK;
    if (status) {
        file_op_fail(op, status, 0, "%s", base_last_error());
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
        .gpu = device && !cut.buffer ? op->transfer.place.gpu : NULL,
        .address = cut.buffer ? file_buffer_of(engine, piece) : op->transfer.place.address + cut.at,
        .bytes = cut.io_bytes,
        .offset = cut.io_offset};
    op->planned += cut.bytes;
    *op->last = piece;
    op->last = &piece->next;
    if (cut.buffer && op->transfer.write) {
        piece->phase = PIECE_TO_FILL;
        file_into_work(&engine->inbox, piece);
    } else {
        file_give(engine, piece);
    }
    return true;
}

bool file_op_ended(const struct file_op *op)
{
    return !op->first && (op->status || op->planned == op->transfer.bytes);
}

void file_settle_later(struct file_engine *engine, struct file_op *op)
{
    if (op->settles)
        return;
    op->settles = true;
    op->next = engine->settling;
    engine->settling = op;
}

/* Takes the first one out of the list of those with something to plan. */
static void unplan(struct file_engine *engine, struct file_op *op)
{
    engine->todo = op->next;
    if (!engine->todo)
        engine->todo_last = &engine->todo;
    op->next = NULL;
    op->queued = false;
    if (file_op_ended(op))
        file_settle_later(engine, op);
}

/* Under the lock: as many pieces as there is room for, transfer after transfer. */
void file_issue(struct file_engine *engine)
{
    while (engine->todo && engine->free && !engine->broken) {
        struct file_op *op = engine->todo;
        if (op->status || op->planned == op->transfer.bytes) {
            unplan(engine, op);
            continue;
        }
        struct file_piece *piece = engine->free;
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

size_t file_safe_bytes(const struct file_piece *piece)
{
    size_t behind = piece->moved > piece->cut.skip ? piece->moved - piece->cut.skip : 0;
    return behind < piece->cut.bytes ? behind : piece->cut.bytes;
}

static bool put_off(int error)
{
    return error == EINTR || error == EAGAIN || error == ECANCELED || error == EBUSY;
}

/* The file system has taken O_DIRECT at open() and refuses it now: by the page cache then. */
static bool refuses_direct(const struct file_piece *piece, int error)
{
    return piece->io.direct && (error == EINVAL || error == EOPNOTSUPP);
}

static void skip_moved(const struct file_engine *engine, struct file_piece *piece, size_t bytes)
{
    size_t whole = piece->io.direct ? bytes & ~(size_t)(engine->file->alignment - 1) : bytes;
    piece->moved += whole;
    piece->io.address += whole;
    piece->io.offset += whole;
    piece->io.bytes -= whole;
}

/* Under the lock: cuFile does not move this piece; it begins again, through a buffer. False: there
 * is none, and the piece has failed. */
static bool by_buffer_instead(struct file_engine *engine, struct file_piece *piece, int error)
{
    char text[160];
    struct file_op *op = piece->op;
    file_beside_refused(engine, error);
    weft_status status = WEFT_OK;
    if (engine->settings.gpu_way != FILE_GPU_AUTO)
        status =
            base_fail(WEFT_ERR_SYSTEM, "%s: %zu bytes at %llu of a file: cuFile: %s", verb(op),
                      piece->cut.io_bytes, (unsigned long long)piece->cut.io_offset,
                      error < FILE_CUFILE_ERRORS ? strerror(error)
                                                 : file_cufile_words(error, text, sizeof text));
    else
        status = ready_buffers(engine, op, piece->cut.io_bytes);
    piece->io.gpu = NULL;
    if (status) {
        piece->status = status;
        snprintf(piece->sentence, sizeof piece->sentence, "%s", base_last_error());
        piece->got = 0;
        piece->phase = PIECE_ENDED;
        return false;
    }
    piece->moved = 0;
    piece->cut.buffer = true;
    piece->io.address = file_buffer_of(engine, piece);
    piece->io.bytes = piece->cut.io_bytes;
    piece->io.offset = piece->cut.io_offset;
    piece->io.buffer = engine->buffers_known ? (int)piece->number : -1;
    piece->phase = op->transfer.write ? PIECE_TO_FILL : PIECE_GIVEN;
    return true;
}

static bool cufile_refuses(const struct file_piece *piece)
{
    int error = piece->io.result < 0 ? (int)-piece->io.result : 0;
    return piece->io.gpu && (error >= FILE_CUFILE_ERRORS || refuses_direct(piece, error));
}

/* Under the lock. True: the request goes on. */
static bool goes_on(struct file_engine *engine, struct file_piece *piece)
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
    if (file_safe_bytes(piece) == piece->cut.bytes || result == 0) {
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
void file_take_back(struct file_engine *engine, struct file_io *list, bool *nap)
{
    while (list) {
        struct file_piece *piece = (struct file_piece *)list;
        list = list->next;
        engine->given--;
        if (cufile_refuses(piece)) {
            if (by_buffer_instead(engine, piece, (int)-piece->io.result) &&
                piece->phase == PIECE_GIVEN)
                file_give(engine, piece);
            else
                file_into_work(&engine->work, piece);
            continue;
        }
        if (goes_on(engine, piece)) {
            *nap |= piece->tries > 8;
            file_give(engine, piece);
            continue;
        }
        piece->got = file_safe_bytes(piece);
        piece->phase = PIECE_ARRIVED;
        file_into_work(&engine->work, piece);
    }
}

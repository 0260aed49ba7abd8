/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a transfer: planning them, their buffers, submitting their requests, handling partial
 * and failed completions, and the error messages. See engine.h. */
#include "file/engine.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { TRIES_MOST = 10000 }; /* attempts of a request that the kernel refuses for the moment */

/* Most buffer bytes that are registered with io_uring, which pins all of them at once. */
static const size_t most_known = (size_t)256 << 20;

/* ------------------------------------------------------------------------------------ failures */

static const char *call_name(const struct file_op *op)
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

static const char *explain_errno(int error)
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

/* The path of the file; of a long path only the end. */
static const char *name_of(const struct file_engine *engine)
{
    enum { MOST = 120 };
    size_t length = strlen(engine->file->path);
    return engine->file->path + (length > MOST ? length - MOST : 0);
}

void file_op_fail_io(const struct file_engine *engine, struct file_op *op, int error, uint64_t done)
{
    file_op_fail(op, error == ETIMEDOUT ? WEFT_ERR_TIMEOUT : WEFT_ERR_SYSTEM, error,
                 "%s: %zu bytes at %llu of %s: %s%s; the first %llu bytes are transferred",
                 call_name(op), op->transfer.bytes, (unsigned long long)op->transfer.offset,
                 name_of(engine), strerror(error), explain_errno(error), (unsigned long long)done);
}

void file_op_fail_short(const struct file_engine *engine, struct file_op *op, uint64_t done)
{
    uint64_t has = op->transfer.offset + done;
    if (!done && file_size(engine->file, &has)) /* the file may end long before the offset */
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
    /* After fork(), copy-on-write would give the parent a new page at its next store, while the
     * kernel still uses the old one. */
    madvise(made, file_buffers_bytes(engine), MADV_DONTFORK);
    madvise(made, file_buffers_bytes(engine), MADV_HUGEPAGE);
    engine->buffers = made;
    return WEFT_OK;
}

static void offer_buffers(struct file_engine *engine)
{
    const struct file_settings *s = &engine->settings;
    engine->buffers_offered = true;
    engine->buffers_known =
        s->backend->buffers && file_buffers_bytes(engine) <= most_known &&
        s->backend->buffers(engine->queue, engine->buffers, s->chunk_bytes, s->depth);
}

/* The caller holds the lock. Makes the buffers; registers them with the backend for large pieces,
 * and pins them for the GPU. */
static weft_status prepare_buffers(struct file_engine *engine, const struct file_op *op,
                                   size_t bytes)
{
    enum { WORTH = 64 << 10 };
    weft_status status = engine->buffers ? WEFT_OK : make_buffers(engine);
    if (!status && bytes >= WORTH && !engine->buffers_offered)
        offer_buffers(engine);
    struct gpu *gpu = op->transfer.place.kind == FILE_DEVICE ? op->transfer.place.gpu : NULL;
    if (status || !gpu || engine->pinned_for == gpu)
        return status;
    status = gpu_pin_range(gpu, engine->buffers, file_buffers_bytes(engine));
    if (!status)
        engine->pinned_for = gpu;
    return status;
}

/* Unpins the buffers before it frees them. */
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
    engine->buffers_known = engine->buffers_offered = false;
}

char *file_buffer_of(const struct file_engine *engine, const struct file_piece *piece)
{
    return engine->buffers + piece->number * engine->settings.chunk_bytes;
}

/* ------------------------------------------------------------------------------ to the kernel */

void file_submit_piece(struct file_engine *engine, struct file_piece *piece)
{
    if (engine->broken) {
        piece->error = engine->broken;
        piece->phase = PIECE_ENDED;
        file_add_work(&engine->work, piece);
        return;
    }
    piece->phase = PIECE_SUBMITTED;
    engine->submitted++;
    engine->settings.backend->submit(engine->queue, &piece->io);
}

/* The caller holds the lock. Plans the next piece of the transfer. False: the transfer has failed.
 */
static bool plan_piece(struct file_engine *engine, struct file_op *op, struct file_piece *piece)
{
    bool device = op->transfer.place.kind == FILE_DEVICE;
    op->shape.in_place &= !device || engine->by_cufile;
    struct file_cut cut = file_cut_at(&op->shape, op->planned);
    weft_status status = cut.buffer ? prepare_buffers(engine, op, cut.io_bytes) : WEFT_OK;
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
        file_add_work(&engine->inbox, piece);
    } else {
        file_submit_piece(engine, piece);
    }
    return true;
}

bool file_op_ended(const struct file_op *op)
{
    return !op->first && (op->status || op->planned == op->transfer.bytes);
}

void file_complete_later(struct file_engine *engine, struct file_op *op)
{
    if (op->completes)
        return;
    op->completes = true;
    op->next = engine->completing;
    engine->completing = op;
}

/* Removes the first transfer from `todo`. */
static void remove_planned(struct file_engine *engine, struct file_op *op)
{
    engine->todo = op->next;
    if (!engine->todo)
        engine->todo_last = &engine->todo;
    op->next = NULL;
    op->queued = false;
    if (file_op_ended(op))
        file_complete_later(engine, op);
}

/* Plans transfer after transfer, until no slot is free. */
void file_plan_pieces(struct file_engine *engine)
{
    while (engine->todo && engine->free && !engine->broken) {
        struct file_op *op = engine->todo;
        if (op->status || op->planned == op->transfer.bytes) {
            remove_planned(engine, op);
            continue;
        }
        struct file_piece *piece = engine->free;
        engine->free = piece->next;
        if (!plan_piece(engine, op, piece)) {
            piece->next = engine->free;
            engine->free = piece;
        }
    }
    while (engine->todo &&
           (engine->todo->status || engine->todo->planned == engine->todo->transfer.bytes))
        remove_planned(engine, engine->todo);
}

/* ---------------------------------------------------------------------------- from the kernel */

size_t file_safe_bytes(const struct file_piece *piece)
{
    size_t behind = piece->moved > piece->cut.skip ? piece->moved - piece->cut.skip : 0;
    return behind < piece->cut.bytes ? behind : piece->cut.bytes;
}

static bool is_temporary(int error)
{
    return error == EINTR || error == EAGAIN || error == ECANCELED || error == EBUSY;
}

/* The file system accepted O_DIRECT at open() and refuses it now; the caller falls back to the page
 * cache. */
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

/* The caller holds the lock. cuFile refused this piece, so it starts again through a buffer. False:
 * there is no buffer, and the piece has failed. */
static bool retry_by_buffer(struct file_engine *engine, struct file_piece *piece, int error)
{
    char text[160];
    struct file_op *op = piece->op;
    file_cufile_engine_refused(engine, error);
    weft_status status = WEFT_OK;
    if (engine->settings.gpu_backend != FILE_GPU_AUTO)
        status =
            base_fail(WEFT_ERR_SYSTEM, "%s: %zu bytes at %llu of a file: cuFile: %s", call_name(op),
                      piece->cut.io_bytes, (unsigned long long)piece->cut.io_offset,
                      error < FILE_CUFILE_ERRORS ? strerror(error)
                                                 : file_cufile_words(error, text, sizeof text));
    else
        status = prepare_buffers(engine, op, piece->cut.io_bytes);
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
    piece->phase = op->transfer.write ? PIECE_TO_FILL : PIECE_SUBMITTED;
    return true;
}

static bool cufile_refuses(const struct file_piece *piece)
{
    int error = piece->io.result < 0 ? (int)-piece->io.result : 0;
    return piece->io.gpu && (error >= FILE_CUFILE_ERRORS || refuses_direct(piece, error));
}

/* The caller holds the lock. Handles a completion. True: the request must be submitted again. */
static bool must_continue(struct file_engine *engine, struct file_piece *piece)
{
    int64_t result = piece->io.result;
    int error = result < 0 ? (int)-result : 0;
    if (error && is_temporary(error) && ++piece->tries < TRIES_MOST)
        return true;
    if (error && refuses_direct(piece, error)) {
        if (engine->direct)
            file_disable_direct(engine->file, error);
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
    piece->moved += (size_t)result; /* less than a block means the end of the file */
    if (piece->io.write)
        piece->error = EIO;
    return false;
}

void file_reap_pieces(struct file_engine *engine, struct file_io *list, bool *backoff)
{
    while (list) {
        struct file_piece *piece = (struct file_piece *)list;
        list = list->next;
        engine->submitted--;
        if (cufile_refuses(piece)) {
            if (retry_by_buffer(engine, piece, (int)-piece->io.result) &&
                piece->phase == PIECE_SUBMITTED)
                file_submit_piece(engine, piece);
            else
                file_add_work(&engine->work, piece);
            continue;
        }
        if (must_continue(engine, piece)) {
            *backoff |= piece->tries > 8;
            file_submit_piece(engine, piece);
            continue;
        }
        piece->got = file_safe_bytes(piece);
        piece->phase = PIECE_ARRIVED;
        file_add_work(&engine->work, piece);
    }
}

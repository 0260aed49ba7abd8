/* SPDX-License-Identifier: Apache-2.0 */
/* The io_uring backend: reads and writes with registered buffers where a piece is in one, else with
 * any memory, on registered descriptors. */
#include "file/file.h"

#include "base/status.h"
#include "driver/uring.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

struct uring_queue {
    struct uring ring;
    const struct opened_file *file;
    bool files_known;
    bool woken;          /* the completion of a NOP was reaped */
    _Atomic bool waking; /* a NOP is in the queue, and its completion was not reaped yet */
};

static struct uring_queue *uring_queue_of(struct file_queue *opaque)
{
    return (struct uring_queue *)(void *)opaque;
}

enum { BUFFERED_FILE, DIRECT_FILE };

static void close_queue(struct file_queue *opaque)
{
    struct uring_queue *queue = uring_queue_of(opaque);
    uring_unregister(&queue->ring);
    uring_close(&queue->ring);
    free(queue);
}

static weft_status open_uring_queue(const struct opened_file *file, unsigned depth,
                                    struct file_queue **result)
{
    struct uring_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a file's queue");
    queue->file = file;
    weft_status status = uring_open(&queue->ring, depth + 1); /* one more for the NOP of wake() */
    if (status) {
        free(queue);
        return status;
    }
    int files[] = {[BUFFERED_FILE] = file->buffered, [DIRECT_FILE] = file->direct};
    queue->files_known = uring_register_files(&queue->ring, files, 2) == 0;
    *result = (struct file_queue *)queue;
    return WEFT_OK;
}

static bool register_buffers(struct file_queue *opaque, char *base, size_t bytes, unsigned count)
{
    struct uring_queue *queue = uring_queue_of(opaque);
    struct iovec list[FILE_DEPTH_MOST];
    if (!count) {
        uring_unregister_buffers(&queue->ring);
        return true;
    }
    for (unsigned i = 0; i < count; i++)
        list[i] = (struct iovec){base + i * bytes, bytes};
    return uring_register_buffers(&queue->ring, list, count) == 0;
}

/* The queue has an entry for every request in flight, so uring_put() never fails. */
static void submit_request(struct file_queue *opaque, struct file_io *io)
{
    struct uring_queue *queue = uring_queue_of(opaque);
    struct io_uring_sqe *sqe = uring_put(&queue->ring);
    bool known = io->buffer >= 0;
    sqe->opcode = (uint8_t)(io->write ? known ? IORING_OP_WRITE_FIXED : IORING_OP_WRITE
                            : known   ? IORING_OP_READ_FIXED
                                      : IORING_OP_READ);
    sqe->fd = queue->files_known ? (io->direct ? DIRECT_FILE : BUFFERED_FILE)
                                 : (io->direct ? queue->file->direct : queue->file->buffered);
    sqe->flags = queue->files_known ? IOSQE_FIXED_FILE : 0;
    sqe->addr = (uintptr_t)io->address;
    sqe->len = (uint32_t)io->bytes;
    sqe->off = io->offset;
    sqe->buf_index = (uint16_t)(known ? io->buffer : 0);
    sqe->user_data = (uintptr_t)io;
    __atomic_store_n(&io->result, 0, __ATOMIC_RELEASE);
    uring_publish(&queue->ring);
}

static void start_requests(struct file_queue *opaque)
{
    struct uring_queue *queue = uring_queue_of(opaque);
    uring_enter(&queue->ring,
                0); /* requests that the kernel refuses now start in reap_requests() */
}

static struct file_io *collect(struct uring_queue *queue)
{
    struct file_io *first = NULL, **last = &first;
    uint64_t data;
    int32_t result;
    while (uring_take(&queue->ring, &data, &result)) {
        if (!data) {
            queue->woken = true;
            /* Release: pairs with the exchange in wake_reaper(), which may reuse the NOP's entry.
             */
            atomic_store_explicit(&queue->waking, false, memory_order_release);
            continue;
        }
        struct file_io *io = (struct file_io *)(uintptr_t)data;
        /* Acquire: pairs with the release in submit_request(). The kernel orders them already, but
         * a race detector does not see that. */
        __atomic_load_n(&io->result, __ATOMIC_ACQUIRE);
        io->result = result;
        io->next = NULL;
        *last = io;
        last = &io->next;
    }
    return first;
}

static struct file_io *reap_requests(struct file_queue *opaque, uint64_t wait_ns, int *error)
{
    struct uring_queue *queue = uring_queue_of(opaque);
    queue->woken = false;
    struct file_io *first = collect(queue);
    *error = 0;
    if (first || queue->woken)
        return first;
    int refused = uring_enter(&queue->ring, wait_ns);
    if (refused && refused != EINTR && refused != ETIME && refused != EAGAIN && refused != EBUSY)
        *error = refused;
    return collect(queue);
}

/* Submits a NOP whose completion ends the wait. One NOP is enough for all callers until it is
 * reaped, and the queue has one entry for it. */
static void wake_reaper(struct file_queue *opaque)
{
    struct uring_queue *queue = uring_queue_of(opaque);
    if (atomic_exchange(&queue->waking, true))
        return;
    struct io_uring_sqe *sqe = uring_put(&queue->ring);
    sqe->opcode = IORING_OP_NOP;
    uring_publish(&queue->ring);
    uring_enter(&queue->ring, 0);
}

const struct file_backend file_uring = {.name = "uring",
                                        .open = open_uring_queue,
                                        .close = close_queue,
                                        .buffers = register_buffers,
                                        .submit = submit_request,
                                        .start = start_requests,
                                        .reap = reap_requests,
                                        .wake = wake_reaper};

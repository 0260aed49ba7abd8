/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring through the kernel's own interface (<linux/io_uring.h>), without liburing: maps the
 * queues, adds requests, takes completions. It is unavailable when the kernel is too old, or when
 * seccomp or sysctl kernel.io_uring_disabled forbids it.
 *
 * Threads: one thread at a time adds requests, and one thread at a time takes completions; both may
 * run at the same time. */
#ifndef WEFT_DRIVER_URING_H
#define WEFT_DRIVER_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <linux/io_uring.h>

#include <weft.h>

struct uring {
    int fd;
    unsigned entries;     /* size of the submission queue */
    unsigned unpublished; /* requests added but not yet published */
    unsigned *sq_head, *sq_tail, *sq_mask, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    void *rings;
    size_t rings_bytes, sqes_bytes;
};

/* Opens a ring for at least `entries` requests in flight. WEFT_ERR_UNSUPPORTED: the kernel refuses,
 * or is older than 5.11; the message has the remedy. Nothing stays open then. */
weft_status uring_open(struct uring *ring, unsigned entries);
void uring_close(struct uring *ring);

/* Register buffers for READ_FIXED and WRITE_FIXED, and files for IOSQE_FIXED_FILE. Return 0 or an
 * errno. */
int uring_register_buffers(struct uring *ring, const struct iovec *buffers, unsigned n);
int uring_register_files(struct uring *ring, const int *files, unsigned n);

void uring_unregister_buffers(struct uring *ring);

/* Unregisters buffers and files now. uring_close() alone would do so later, and the file system
 * would stay in use until then. */
void uring_unregister(struct uring *ring);

/* Adds a zeroed request, which the caller fills before the next uring_publish(). NULL: the queue is
 * full. */
struct io_uring_sqe *uring_put(struct uring *ring);

/* Publishes the requests that were added; the next uring_enter() of any thread submits them. */
void uring_publish(struct uring *ring);

/* Submits the published requests and, with wait_ns > 0, waits about that long for a completion.
 * Returns 0 or an errno. No request is lost with EINTR, ETIME (no completion in time), EAGAIN or
 * EBUSY (the kernel accepts no more at the moment). */
int uring_enter(struct uring *ring, uint64_t wait_ns);

/* Takes the oldest completion. False when there is none. */
bool uring_take(struct uring *ring, uint64_t *user_data, int32_t *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring by the kernel's own interface (<linux/io_uring.h>): its queues mapped, requests put,
 * completions taken. There is no library to load; what stands in for "absent" is a kernel that is
 * too old, or a rule (seccomp, sysctl kernel.io_uring_disabled) that refuses it. Knows nothing of
 * files.
 *
 * Threads: requests are put by one thread at a time, completions are taken by one thread at a time;
 * both may run at once. */
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
    unsigned entries, unpublished; /* of the queue of requests; put and not yet published */
    unsigned *sq_head, *sq_tail, *sq_mask, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    void *rings;
    size_t rings_bytes, sqes_bytes;
};

/* At least `entries` requests may be under way at once. WEFT_ERR_UNSUPPORTED, with the remedy: the
 * kernel refuses, or lacks what is used here (5.11). Nothing stays open then. */
weft_status uring_open(struct uring *ring, unsigned entries);
void uring_close(struct uring *ring);

/* 0 or the errno. Buffers for READ_FIXED and WRITE_FIXED; files for IOSQE_FIXED_FILE. */
int uring_register_buffers(struct uring *ring, const struct iovec *buffers, unsigned n);
int uring_register_files(struct uring *ring, const int *files, unsigned n);

void uring_unregister_buffers(struct uring *ring);

/* Lets go of both at once. A queue that is closed does so later, when the kernel comes to it: so
 * long a file system would be in use. */
void uring_unregister(struct uring *ring);

/* A request, cleared, to be filled before the next uring_publish(); NULL: the queue is full. */
struct io_uring_sqe *uring_put(struct uring *ring);

/* What has been put may be given to the kernel by the next uring_enter(), of any thread. */
void uring_publish(struct uring *ring);

/* Gives what has been published to the kernel and, with wait_ns > 0, waits about that long for a
 * completion. 0 or the errno, with which nothing is lost: EINTR, ETIME where none came, EAGAIN and
 * EBUSY where the kernel takes no more for the moment. */
int uring_enter(struct uring *ring, uint64_t wait_ns);

/* The oldest completion; false: there is none. */
bool uring_take(struct uring *ring, uint64_t *user_data, int32_t *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* See uring.h. Source: io_uring(7), io_uring_setup(2), io_uring_enter(2), io_uring_register(2). */
#include "driver/uring.h"

#include "base/status.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* IORING_SETUP_COOP_TASKRUN, which older headers lack. */
enum { COOPERATIVE = 1u << 8 };

/* Calls io_uring_setup with COOP_TASKRUN if the kernel has it (Linux 5.19). Without this flag the
 * kernel interrupts the submitting thread to complete its requests, which on a virtual CPU takes as
 * long as a small read. With it, completion waits until the thread next enters the kernel: a thread
 * that drives the queue does so in every round, a computing thread at the next clock tick. */
static int setup_ring(unsigned entries, struct io_uring_params *params)
{
    struct io_uring_params as_given = *params;
    params->flags |= COOPERATIVE;
    int fd = (int)syscall(__NR_io_uring_setup, entries, params);
    if (fd >= 0 || errno != EINVAL)
        return fd;
    *params = as_given;
    return (int)syscall(__NR_io_uring_setup, entries, params);
}

static int enter(int fd, unsigned submit, unsigned least, unsigned flags, const void *argument,
                 size_t bytes)
{
    return (int)syscall(__NR_io_uring_enter, fd, submit, least, flags, argument, bytes);
}

/* io_uring_register; returns 0 or an errno. */
static int register_with_ring(int fd, unsigned what, const void *argument, unsigned n)
{
    return syscall(__NR_io_uring_register, fd, what, argument, n) < 0 ? errno : 0;
}

static weft_status setup_failed(int error)
{
    const char *remedy = "";
    if (error == EPERM || error == EACCES)
        remedy = "; sysctl kernel.io_uring_disabled=0, or a seccomp filter that permits it "
                 "(docker run --security-opt seccomp=...)";
    else if (error == ENOSYS)
        remedy = "; the kernel lacks it, or a seccomp filter blocks it";
    else if (error == ENOMEM)
        remedy = "; ulimit -l unlimited";
    return base_fail(WEFT_ERR_UNSUPPORTED, "io_uring_setup: %s%s", strerror(error), remedy);
}

static void *map(int fd, size_t bytes, uint64_t at)
{
    void *mapped =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)at);
    if (mapped == MAP_FAILED)
        return NULL;
    /* A child of fork() must not add requests to its parent's queue. */
    madvise(mapped, bytes, MADV_DONTFORK);
    return mapped;
}

static bool map_rings(struct uring *ring, const struct io_uring_params *p)
{
    size_t sq = p->sq_off.array + p->sq_entries * sizeof(unsigned),
           cq = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    ring->rings_bytes = sq > cq ? sq : cq;
    ring->sqes_bytes = p->sq_entries * sizeof(struct io_uring_sqe);
    ring->rings = map(ring->fd, ring->rings_bytes, IORING_OFF_SQ_RING);
    ring->sqes = map(ring->fd, ring->sqes_bytes, IORING_OFF_SQES);
    if (!ring->rings || !ring->sqes)
        return false;
    char *base = ring->rings;
    ring->sq_head = (unsigned *)(base + p->sq_off.head);
    ring->sq_tail = (unsigned *)(base + p->sq_off.tail);
    ring->sq_mask = (unsigned *)(base + p->sq_off.ring_mask);
    ring->cq_head = (unsigned *)(base + p->cq_off.head);
    ring->cq_tail = (unsigned *)(base + p->cq_off.tail);
    ring->cq_mask = (unsigned *)(base + p->cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(base + p->cq_off.cqes);
    unsigned *order = (unsigned *)(base + p->sq_off.array);
    for (unsigned i = 0; i < p->sq_entries; i++)
        order[i] = i; /* requests are submitted in the order of their entries */
    return true;
}

weft_status uring_open(struct uring *ring, unsigned entries)
{
    /* One mapping for both rings (Linux 5.4), no lost completions (5.5), waits with a timeout
     * (5.11). The last implies plain reads and writes (5.6). */
    const unsigned needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
    struct io_uring_params params = {.flags = IORING_SETUP_CLAMP};
    memset(ring, 0, sizeof *ring);
    ring->fd = setup_ring(entries, &params);
    if (ring->fd < 0)
        return setup_failed(errno);
    ring->entries = params.sq_entries;
    weft_status status = WEFT_OK;
    if ((params.features & needed) != needed)
        status =
            base_fail(WEFT_ERR_UNSUPPORTED,
                      "io_uring of this kernel lacks features 0x%x of 0x%x; Linux 5.11 has them",
                      needed & ~params.features, needed);
    else if (params.sq_entries < entries)
        status = base_fail(WEFT_ERR_UNSUPPORTED, "io_uring allows %u requests at once, not %u",
                           params.sq_entries, entries);
    else if (!map_rings(ring, &params))
        status =
            base_fail(WEFT_ERR_UNSUPPORTED, "mmap of the queues of io_uring: %s", strerror(errno));
    if (status)
        uring_close(ring);
    return status;
}

void uring_close(struct uring *ring)
{
    if (ring->rings)
        munmap(ring->rings, ring->rings_bytes);
    if (ring->sqes)
        munmap(ring->sqes, ring->sqes_bytes);
    if (ring->fd >= 0)
        close(ring->fd);
    memset(ring, 0, sizeof *ring);
    ring->fd = -1;
}

int uring_register_buffers(struct uring *ring, const struct iovec *buffers, unsigned n)
{
    return register_with_ring(ring->fd, IORING_REGISTER_BUFFERS, buffers, n);
}

int uring_register_files(struct uring *ring, const int *files, unsigned n)
{
    return register_with_ring(ring->fd, IORING_REGISTER_FILES, files, n);
}

void uring_unregister_buffers(struct uring *ring)
{
    register_with_ring(ring->fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
}

void uring_unregister(struct uring *ring)
{
    register_with_ring(ring->fd, IORING_UNREGISTER_FILES, NULL, 0);
    uring_unregister_buffers(ring);
}

struct io_uring_sqe *uring_put(struct uring *ring)
{
    unsigned place = *ring->sq_tail + ring->unpublished; /* only this side writes the tail */
    /* Acquire: pairs with the kernel's release after it has read the request of that entry. */
    if (place - __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE) >= ring->entries)
        return NULL;
    struct io_uring_sqe *sqe = &ring->sqes[place & *ring->sq_mask];
    memset(sqe, 0, sizeof *sqe);
    ring->unpublished++;
    return sqe;
}

void uring_publish(struct uring *ring)
{
    /* Release: pairs with the kernel's acquire, and with that of uring_enter(). */
    if (ring->unpublished)
        __atomic_store_n(ring->sq_tail, *ring->sq_tail + ring->unpublished, __ATOMIC_RELEASE);
    ring->unpublished = 0;
}

int uring_enter(struct uring *ring, uint64_t wait_ns)
{
    struct __kernel_timespec limit = {.tv_sec = (long long)(wait_ns / 1000000000u),
                                      .tv_nsec = (long long)(wait_ns % 1000000000u)};
    struct io_uring_getevents_arg argument = {.ts = (uintptr_t)&limit};
    /* Another thread may submit the same requests first; the kernel then takes the rest. The head
     * is read first, so that the difference is never too small. */
    unsigned head = __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE);
    unsigned submit = __atomic_load_n(ring->sq_tail, __ATOMIC_ACQUIRE) - head;
    if (!submit && !wait_ns)
        return 0;
    unsigned flags = wait_ns ? IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG : 0;
    int n = enter(ring->fd, submit, wait_ns ? 1 : 0, flags, wait_ns ? &argument : NULL,
                  wait_ns ? sizeof argument : 0);
    return n < 0 ? errno : 0;
}

bool uring_take(struct uring *ring, uint64_t *user_data, int32_t *result)
{
    unsigned head = *ring->cq_head; /* only this side writes the head */
    /* Acquire: pairs with the kernel's release after it has written the completion. */
    if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
        return false;
    const struct io_uring_cqe *cqe = &ring->cqes[head & *ring->cq_mask];
    *user_data = cqe->user_data;
    *result = cqe->res;
    /* Release: pairs with the kernel's acquire before it reuses the entry. */
    __atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
    return true;
}

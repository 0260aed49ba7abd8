/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, seals, maps and shares the memfd of a segment. See segment.h. */
#include "memory/segment.h"

#include "base/status.h"
#include "memory/core_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ftruncate() beyond the limit of file sizes (ulimit -f) also sends SIGXFSZ, which would end the
 * process; this blocks the signal, and the error reports the limit. */
static int truncate_quietly(int fd, size_t bytes)
{
    sigset_t too_large, before, pending;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    sigpending(&pending);
    int result = ftruncate(fd, (off_t)bytes), error = errno;
    if (result && !sigismember(&pending, SIGXFSZ))
        sigtimedwait(&too_large, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return result;
}

static weft_status size_memfd(const char *name, size_t bytes, int fd)
{
    if (truncate_quietly(fd, bytes) == 0)
        return WEFT_OK;
    const char *remedy = "";
    if (errno == EFBIG) {
        struct rlimit limit;
        bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes;
        errno = EFBIG;
        remedy = limited ? " (raise the limit of file sizes, ulimit -f, or lower WEFT_HEAP_SIZE)"
                         : " (a smaller WEFT_HEAP_SIZE helps)";
    }
    return base_fail(WEFT_ERR_SYSTEM, "ftruncate of memfd \"%s\" to %zu bytes: %s%s", name, bytes,
                     strerror(errno), remedy);
}

/* Restricts the memfd to this user and fixes its size: a peer that shrank it would kill every other
 * PE by SIGBUS. */
static weft_status seal_memfd(const char *name, int fd)
{
    if (fchmod(fd, 0600) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_SYSTEM, "sealing memfd \"%s\": %s", name, strerror(errno));
}

static weft_status make_memfd(const char *name, size_t bytes, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return base_fail(WEFT_ERR_SYSTEM, "memfd_create(\"%s\"): %s", name, strerror(errno));
    weft_status status = size_memfd(name, bytes, *fd);
    if (!status)
        status = seal_memfd(name, *fd);
    if (status) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

/* Reserves a range of addresses whose address at offset `own` is a multiple of `align`. NULL: no
 * such range. */
static char *reserve_aligned(size_t bytes, size_t own, size_t align)
{
    char *range =
        mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return NULL;
    size_t lead = -(uintptr_t)(range + own) & (align - 1);
    if (lead)
        munmap(range, lead);
    munmap(range + lead + bytes, align - lead);
    return range + lead;
}

/* own: offset of this PE's part in the segment. */
static weft_status map_slots(struct segment *segment, const char *name, size_t bytes, size_t own)
{
    char *range = reserve_aligned(bytes, own, SEGMENT_OWN_ALIGN);
    if (!range)
        range = reserve_aligned(bytes, own, SEGMENT_ALIGN);
    void *mapped = MAP_FAILED;
    if (range)
        mapped = mmap(range, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                      segment->fd, 0);
    if (mapped == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY,
                         "mmap of %zu bytes of \"%s\" (%d slots of %zu): %s; a smaller "
                         "WEFT_HEAP_SIZE needs less address space",
                         bytes, name, segment->slot_count, segment->stride, strerror(errno));
    segment->slots = mapped;
    /* Requests huge pages; a refusal only costs speed. */
    madvise(mapped, bytes, MADV_HUGEPAGE);
    madvise(mapped, bytes, MADV_DONTDUMP);
    return WEFT_OK;
}

/* PEs as threads: the first one maps, and the others use its mapping. */
static weft_status share_mapping(struct segment *segment, struct boot *boot)
{
    if (boot->local_pe == 0)
        *boot->shared_slot = segment->slots;
    weft_status status = boot->ops->barrier(boot);
    if (status)
        return status;
    if (boot->local_pe != 0) {
        segment->slots = *boot->shared_slot;
        segment->shared_mapping = 1;
    }
    return boot->ops->barrier(boot);
}

static weft_status create_shared(struct segment *segment, struct boot *boot, const char *name,
                                 size_t bytes)
{
    int made = -1;
    weft_status status = WEFT_OK;
    if (boot->local_pe == 0)
        status = make_memfd(name, bytes, &made);
    if (status)
        return status;
    if (boot->shared_slot) {
        segment->fd = made;
        status = boot->local_pe == 0 ? map_slots(segment, name, bytes, 0) : WEFT_OK;
        return status ? status : share_mapping(segment, boot);
    }
    if (boot->local_npes == 1) {
        segment->fd = made;
    } else {
        status = boot->ops->share_fd(boot, boot->local_pes[0], made, &segment->fd);
        /* Each process keeps exactly one descriptor: closing another one of the same file would
         * release the lock of life.c. */
        if (made >= 0 && made != segment->fd)
            close(made);
    }
    return status ? status
                  : map_slots(segment, name, bytes, segment->stride * (size_t)boot->local_pe);
}

weft_status segment_create(struct segment *segment, struct boot *boot, const char *name,
                           size_t size)
{
    *segment = (struct segment){.fd = -1, .slot_count = boot->local_npes};
    if (size == 0)
        return WEFT_OK;
    size_t stride = (size + SEGMENT_ALIGN - 1) & ~(size_t)(SEGMENT_ALIGN - 1);
    if (stride < size || stride > SIZE_MAX / 4 / (size_t)boot->local_npes)
        return base_fail(WEFT_ERR_NO_MEMORY, "%zu bytes for each of %d PEs are too many", size,
                         boot->local_npes);
    segment->stride = stride;
    segment->size = size;
    weft_status status = create_shared(segment, boot, name, stride * (size_t)boot->local_npes);
    if (status) {
        segment_destroy(segment);
        return status;
    }
    segment->base = segment_slot(segment, boot->local_pe);
    return WEFT_OK;
}

void segment_dump(const struct segment *segment, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > segment->size)
        bytes = segment->size;
    if (!segment->base || !bytes)
        return;
    bytes = (bytes + page - 1) & ~(page - 1);
    madvise(segment->base, bytes, MADV_DODUMP);
    if (segment->fd >= 0)
        core_dump_add(segment->base, bytes, segment->fd, (size_t)(segment->base - segment->slots));
}

void segment_destroy(struct segment *segment)
{
    if (segment->base)
        core_dump_remove(segment->base);
    if (segment->slots && !segment->shared_mapping)
        munmap(segment->slots, segment->stride * (size_t)segment->slot_count);
    if (segment->fd >= 0)
        close(segment->fd);
    *segment = (struct segment){.fd = -1};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See core_dump.h. SEEK_DATA on the memfd finds the touched pages, including swapped ones. The
 * handler makes only system calls. */
#include "memory/core_dump.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MOST_RANGES = 16,
    /* bytes; shorter holes are dumped, so that a heap does not become too many mappings */
    LEAST_HOLE = 256 << 10,
};

static const int fatal[] = {SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};
enum { FATAL_SIGNALS = sizeof fatal / sizeof fatal[0] };

static struct dump_range {
    _Atomic(char *) base; /* NULL: the entry is free */
    _Atomic size_t bytes;
    int fd;
    size_t offset; /* offset of `base` in the memfd */
} ranges[MOST_RANGES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the handler does not take it */
static bool installed;

static void exclude_holes(const struct dump_range *range, char *base, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const off_t end = (off_t)(range->offset + bytes);
    for (off_t at = (off_t)range->offset, data; at < end; at = lseek(range->fd, data, SEEK_HOLE)) {
        if (at < 0)
            return;
        data = lseek(range->fd, at, SEEK_DATA);
        if (data < 0 || data > end) /* no page is touched from here on */
            data = end;
        char *hole = base + ((size_t)at - range->offset);
        size_t hole_bytes = (size_t)(data - at) & ~(page - 1);
        if (hole_bytes >= LEAST_HOLE)
            madvise(hole, hole_bytes, MADV_DONTDUMP);
        if (data == end)
            return;
    }
}

static void handle_fatal_signal(int number, siginfo_t *info, void *context)
{
    for (int i = 0; i < MOST_RANGES; i++) {
        /* Acquire: pairs with the release in core_dump_add(), which follows the other fields of the
         * entry. */
        char *base = atomic_load_explicit(&ranges[i].base, memory_order_acquire);
        if (base)
            exclude_holes(&ranges[i], base, ranges[i].bytes);
    }
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(number, &standard, NULL);
    /* A fault recurs when the instruction is executed again; a signal that was sent must be sent
     * again with the same data. */
    if (info->si_code <= 0)
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

/* Whether a process that ends by such a signal writes a core dump, to a file or to a program. */
static bool cores_are_written(void)
{
    struct rlimit limit;
    char first = '\0';
    if (getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 0)
        return true;
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, &first, 1);
    close(fd);
    return n == 1 && first == '|';
}

static void install(void)
{
    for (int i = 0; i < FATAL_SIGNALS; i++) {
        struct sigaction old,
            ours = {.sa_sigaction = handle_fatal_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        if (sigaction(fatal[i], NULL, &old) == 0 && !(old.sa_flags & SA_SIGINFO) &&
            old.sa_handler == SIG_DFL)
            sigaction(fatal[i], &ours, NULL);
    }
    installed = true;
}

static void uninstall(void)
{
    for (int i = 0; i < FATAL_SIGNALS; i++) {
        struct sigaction old, standard = {.sa_handler = SIG_DFL};
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_flags & SA_SIGINFO &&
            old.sa_sigaction == handle_fatal_signal)
            sigaction(fatal[i], &standard, NULL);
    }
    installed = false;
}

void core_dump_add(char *base, size_t bytes, int fd, size_t offset)
{
    struct dump_range *free_one = NULL;
    pthread_mutex_lock(&lock);
    for (int i = MOST_RANGES - 1; i >= 0; i--) {
        if (ranges[i].base == base) {
            ranges[i].bytes = bytes;
            free_one = NULL;
            break;
        }
        if (!ranges[i].base)
            free_one = &ranges[i];
    }
    if (free_one) {
        free_one->bytes = bytes;
        free_one->fd = fd;
        free_one->offset = offset;
        /* Release: pairs with the acquire in handle(). */
        atomic_store_explicit(&free_one->base, base, memory_order_release);
        if (!installed && cores_are_written())
            install();
    }
    pthread_mutex_unlock(&lock);
}

void core_dump_remove(const char *base)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_RANGES; i++) {
        if (ranges[i].base == base)
            atomic_store(&ranges[i].base, NULL);
        any |= ranges[i].base != NULL;
    }
    if (!any && installed)
        uninstall();
    pthread_mutex_unlock(&lock);
}

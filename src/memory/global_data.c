/* SPDX-License-Identifier: Apache-2.0 */
/* The program's writable data as a symmetric segment. See global_data.h. Knows of no job: it is
 * given the segment's memory and puts it under the program's feet.
 *
 * While the pages are exchanged, nothing may write to them. This thread sees to that by calling only
 * syscall() in that time: any other function could be bound lazily, and the linker would write its
 * address into the very pages. Other threads are stopped by write protection: one that writes gets
 * SIGSEGV, waits in the handler until the exchange is done, and repeats the write. */
#include "memory/global_data.h"

#include "base/status.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

struct range {
    char *base;
    size_t size;
};

/* What is shared now; size 0 when nothing is. */
static struct range shared;

/* -------------------------------------------------------------------- finding the program's data */

static uintptr_t page_down(uintptr_t address)
{
    return address & ~((uintptr_t)getpagesize() - 1);
}

static uintptr_t page_up(uintptr_t address)
{
    return page_down(address + (uintptr_t)getpagesize() - 1);
}

/* The loader has made the whole pages of PT_GNU_RELRO read-only; they are constants by now and
 * alike at every PE but for the place where the program was loaded. */
static struct range without_relro(const struct dl_phdr_info *info, struct range range)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_GNU_RELRO)
            continue;
        char *end = (char *)page_down(info->dlpi_addr + header->p_vaddr + header->p_memsz);
        char *start = (char *)page_down(info->dlpi_addr + header->p_vaddr);
        if (start <= range.base && end > range.base) {
            size_t cut = (size_t)(end - range.base);
            range.base = end;
            range.size = cut < range.size ? range.size - cut : 0;
        }
    }
    return range;
}

/* The main program comes first. Of several writable segments, as some linkers make them, the
 * largest is the one with the data. */
static int find_in_program(struct dl_phdr_info *info, size_t size, void *result)
{
    struct range *best = result;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_W))
            continue;
        uintptr_t start = page_down(info->dlpi_addr + header->p_vaddr);
        uintptr_t end = page_up(info->dlpi_addr + header->p_vaddr + header->p_memsz);
        struct range range = without_relro(info, (struct range){(char *)start, end - start});
        if (range.size > best->size)
            *best = range;
    }
    return 1;
}

static struct range find_data(void)
{
    struct range range = {0};
    dl_iterate_phdr(find_in_program, &range);
    return range;
}

size_t global_data_size(void)
{
    return find_data().size;
}

/* -------------------------------------------------------------------------------- stopping writes */

/* In memory of its own, because everything else may be in the pages that are exchanged. */
struct freeze {
    char *base;
    size_t size;
    _Atomic int active;
    struct sigaction before;
};
static struct freeze *freeze_now;

static UNCHECKED void wait_for_thaw(int number, siginfo_t *info, void *unused)
{
    struct freeze *freeze = freeze_now;
    if (freeze && (size_t)((char *)info->si_addr - freeze->base) < freeze->size) {
        /* Acquire: pairs with the release in thaw(); the new pages are there. */
        while (atomic_load_explicit(&freeze->active, memory_order_acquire))
            syscall(SYS_sched_yield);
        return;
    }
    /* Not ours: the program's own handler, or death, gets it when the instruction is repeated. */
    sigaction(SIGSEGV, freeze ? &freeze->before : &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static bool other_threads_run(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3;
}

static weft_status freeze_threads(struct range range)
{
    struct freeze *freeze = mmap(NULL, sizeof *freeze, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (freeze == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY, "mmap of a page: %s", strerror(errno));
    *freeze = (struct freeze){.base = range.base, .size = range.size};
    atomic_store(&freeze->active, 1);
    freeze_now = freeze;
    struct sigaction action = {.sa_sigaction = wait_for_thaw, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
    if (sigaction(SIGSEGV, &action, &freeze->before) == 0 &&
        syscall(SYS_mprotect, range.base, range.size, PROT_READ) == 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_SYSTEM,
                     "other threads run already and could not be stopped from writing to global "
                     "data (%s); initialize before the first thread is started",
                     strerror(errno));
}

static void thaw(void)
{
    struct freeze *freeze = freeze_now;
    if (!freeze)
        return;
    atomic_store_explicit(&freeze->active, 0, memory_order_release);
    /* A thread may still be in the handler: the page stays, the handler goes. */
    sigaction(SIGSEGV, &freeze->before, NULL);
}

/* ------------------------------------------------------------------------------ exchanging pages */

/* Copies the pages that are not all zero; `to` is zero. Without library calls, and without the
 * checks of a sanitizer, which forbids reading between variables. */
static UNCHECKED void copy_pages(char *to, const char *from, size_t size)
{
    enum { PAGE_WORDS = 4096 / 8 };
    volatile uint64_t *target = (volatile uint64_t *)to;
    const volatile uint64_t *source = (const volatile uint64_t *)from;
    for (size_t page = 0; page < size / 4096; page++) {
        uint64_t any = 0;
        for (int i = 0; i < PAGE_WORDS; i++)
            any |= source[i];
        for (int i = 0; any && i < PAGE_WORDS; i++)
            target[i] = source[i];
        target += PAGE_WORDS;
        source += PAGE_WORDS;
    }
}

/* New pages for the range: a part of a file, or memory at `moved` that is moved there. */
struct pages {
    char *copy_at; /* where they are mapped already, zero */
    int fd;        /* -1: `moved` */
    size_t offset;
};

/* In here nothing but syscall() is called. */
static UNCHECKED long exchange(struct range range, struct pages pages)
{
    copy_pages(pages.copy_at, range.base, range.size);
    if (pages.fd >= 0)
        return syscall(SYS_mmap, range.base, range.size, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED, pages.fd, pages.offset);
    return syscall(SYS_mremap, pages.copy_at, range.size, range.size,
                   MREMAP_MAYMOVE | MREMAP_FIXED, range.base);
}

static weft_status exchange_safely(struct range range, struct pages pages)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    syscall(SYS_getpid); /* binds syscall() */
    freeze_now = NULL;
    weft_status status = other_threads_run() ? freeze_threads(range) : WEFT_OK;
    long result = status ? 0 : exchange(range, pages);
    int error = errno;
    if (freeze_now && result < 0)
        syscall(SYS_mprotect, range.base, range.size, PROT_READ | PROT_WRITE);
    thaw();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result >= 0)
        return status;
    return base_fail(WEFT_ERR_SYSTEM, "mapping %zu bytes of global data at %p anew: %s", range.size,
                     (void *)range.base, strerror(error));
}

/* Private pages with the contents of the range, somewhere else; NULL when there is no memory. */
static char *private_room(struct range range)
{
    void *room = mmap(NULL, range.size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room == MAP_FAILED ? NULL : room;
}

/* ------------------------------------------------------------------------------------------ fork */

/* A child would share the parent's variables. It gets private ones, as they were at fork(): the
 * copy is made before, because the parent goes on at once. */
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static char *fork_copy;

static void before_fork(void)
{
    pthread_mutex_lock(&fork_lock);
    fork_copy = shared.size ? private_room(shared) : NULL;
    if (fork_copy)
        copy_pages(fork_copy, shared.base, shared.size);
}

static void in_parent(void)
{
    if (fork_copy)
        munmap(fork_copy, shared.size);
    pthread_mutex_unlock(&fork_lock);
}

static void in_child(void)
{
    static const char sentence[] =
        "weft: fork: no memory for private copies of the global variables; the child ends\n";
    char *copy = fork_copy;
    if (shared.size &&
        (!copy || syscall(SYS_mremap, copy, shared.size, shared.size,
                          MREMAP_MAYMOVE | MREMAP_FIXED, shared.base) < 0)) {
        if (write(STDERR_FILENO, sentence, sizeof sentence - 1) < 0)
            _exit(2);
        _exit(1);
    }
    shared.size = 0;
    pthread_mutex_unlock(&fork_lock);
}

/* ------------------------------------------------------------------------------------- interface */

weft_status global_data_share(struct segment *segment, struct boot *boot)
{
    static bool watching_fork;
    struct range range = find_data();
    weft_status status = segment_create(segment, boot, "weft-data", range.size);
    if (status || range.size == 0)
        return status;
    if (!watching_fork && pthread_atfork(before_fork, in_parent, in_child) == 0)
        watching_fork = true;
    shared = range;
    struct pages pages = {.copy_at = segment->base,
                          .fd = segment->fd,
                          .offset = (size_t)(segment->base - segment->slots)};
    status = exchange_safely(range, pages);
    if (status) {
        shared.size = 0;
        segment_destroy(segment);
        return status;
    }
    segment->base = range.base;
    return WEFT_OK;
}

void global_data_unshare(struct segment *segment)
{
    struct range range = shared;
    if (range.size) {
        struct pages pages = {.copy_at = private_room(range), .fd = -1};
        /* Without memory for a copy the pages stay where they are; the memfd lives on under them. */
        if (pages.copy_at && exchange_safely(range, pages) == WEFT_OK)
            shared.size = 0;
    }
    segment_destroy(segment);
}

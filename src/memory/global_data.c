/* SPDX-License-Identifier: Apache-2.0 */
/* The program's writable data as a symmetric segment. See global_data.h. Knows of no job: it maps
 * the segment's memory at the addresses of the program's data and keeps the contents.
 *
 * While the pages are exchanged, nothing may write to them. This thread calls only syscall() in
 * that time: any other function could be bound lazily, and the dynamic linker would write its
 * address into these pages. Write protection stops the other threads: one that writes gets SIGSEGV,
 * waits in the handler until the exchange is complete, and repeats the write. */
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

enum { MOST_PARTS = 4 };

struct address_range {
    char *base;
    size_t size;
};

/* The writable parts of the program in the order of addresses, and the range that they span. Gaps
 * between them, which the linker leaves for alignment, are never mapped. */
struct data {
    struct address_range span;
    struct address_range part[MOST_PARTS];
    int parts;
};

/* The data that is shared now; parts is 0 when none is. */
static struct data shared;

/* ------------------------------------------------------------------- finding the program's data */

static uintptr_t page_down(uintptr_t address)
{
    return address & ~((uintptr_t)getpagesize() - 1);
}

static uintptr_t page_up(uintptr_t address)
{
    return page_down(address + (uintptr_t)getpagesize() - 1);
}

/* Removes the whole pages of PT_GNU_RELRO, which the loader has made read-only. They are constants
 * now and the same at every PE, except for the load address of the program. */
static struct address_range without_relro(const struct dl_phdr_info *info,
                                          struct address_range range)
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

/* The main program is the first object. */
static int find_in_program(struct dl_phdr_info *info, size_t size, void *result)
{
    struct data *data = result;
    for (int i = 0; i < info->dlpi_phnum && data->parts < MOST_PARTS; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_W))
            continue;
        uintptr_t start = page_down(info->dlpi_addr + header->p_vaddr);
        uintptr_t end = page_up(info->dlpi_addr + header->p_vaddr + header->p_memsz);
        struct address_range range =
            without_relro(info, (struct address_range){(char *)start, end - start});
        if (range.size)
            data->part[data->parts++] = range;
    }
    return 1;
}

static struct data find_data(void)
{
    struct data data = {.parts = 0};
    dl_iterate_phdr(find_in_program, &data);
    if (data.parts) {
        /* Program headers are in the order of addresses. */
        struct address_range *last = &data.part[data.parts - 1];
        data.span.base = data.part[0].base;
        data.span.size = (size_t)(last->base + last->size - data.span.base);
    }
    return data;
}

size_t global_data_size(void)
{
    return find_data().span.size;
}

/* ------------------------------------------------------------------------------ stopping writes */

/* Allocated separately, because all other memory may be in the exchanged pages. */
struct freeze {
    char *base;
    size_t size;
    _Atomic int active;
    _Atomic int late; /* faults that were delivered after the thaw */
    struct sigaction before;
};
static struct freeze *freeze_now;

/* Waits while the pages are exchanged. A thread may have faulted before the thaw and get the signal
 * after it: the handler therefore stays, and lets it repeat its instruction. More such faults than
 * a program has threads are faults of the program. */
static UNCHECKED void wait_for_thaw(int number, siginfo_t *info, void *unused)
{
    enum { LATE_MOST = 4096 };
    struct freeze *freeze = freeze_now;
    if (freeze && (size_t)((char *)info->si_addr - freeze->base) < freeze->size) {
        bool waited = false;
        /* Acquire: pairs with the release in thaw(), after which the new pages are mapped. */
        while (atomic_load_explicit(&freeze->active, memory_order_acquire)) {
            waited = true;
            syscall(SYS_sched_yield);
        }
        if (waited || atomic_fetch_add(&freeze->late, 1) < LATE_MOST)
            return;
    }
    /* Not caused by the exchange: the program's own handler or the default action gets it when the
     * instruction is repeated; or when it is sent again, if a process sent it. */
    sigaction(SIGSEGV, freeze ? &freeze->before : &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (info->si_code <= 0)
        syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGSEGV);
}

static bool other_threads_run(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3;
}

static UNCHECKED long protect(const struct data *data, int protection)
{
    long result = 0;
    for (int i = 0; i < data->parts && result == 0; i++)
        result = syscall(SYS_mprotect, data->part[i].base, data->part[i].size, protection);
    return result;
}

static weft_status freeze_threads(const struct data *data)
{
    struct freeze *freeze =
        mmap(NULL, sizeof *freeze, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (freeze == MAP_FAILED)
        return base_fail(WEFT_ERR_NO_MEMORY, "mmap of a page: %s", strerror(errno));
    *freeze = (struct freeze){.base = data->span.base, .size = data->span.size};
    atomic_store(&freeze->active, 1);
    struct freeze *last = freeze_now;
    freeze_now = freeze;
    struct sigaction action = {.sa_sigaction = wait_for_thaw, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
    int refused = sigaction(SIGSEGV, &action, &freeze->before);
    if (last && !refused && freeze->before.sa_sigaction == wait_for_thaw)
        freeze->before = last->before; /* the handler of an earlier exchange */
    if (!refused && protect(data, PROT_READ) == 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_SYSTEM,
                     "other threads run already and could not be stopped from writing to global "
                     "data (%s); initialize before the first thread is started",
                     strerror(errno));
}

static void thaw(void)
{
    /* A thread may still be in the handler, or come to it: page and handler stay. */
    if (freeze_now)
        atomic_store_explicit(&freeze_now->active, 0, memory_order_release);
}

/* ----------------------------------------------------------------------------- exchanging pages */

/* Copies the pages that are not all zero; `to` is zero. Makes no library calls and has no sanitizer
 * checks, because a sanitizer forbids reading between variables. */
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

/* The new pages, all zero: a part of a file that is also mapped at copy_at (the whole span), or
 * private memory, buffer[i] for part i. */
struct pages {
    int fd; /* -1: private */
    size_t offset;
    char *copy_at;
    char *buffer[MOST_PARTS];
};

/* Calls only syscall(). */
static UNCHECKED long exchange_pages(const struct data *data, const struct pages *pages)
{
    long result = 0;
    for (int i = 0; i < data->parts && result >= 0; i++) {
        const struct address_range *part = &data->part[i];
        size_t at = (size_t)(part->base - data->span.base);
        copy_pages(pages->fd < 0 ? pages->buffer[i] : pages->copy_at + at, part->base, part->size);
        if (pages->fd < 0)
            result = syscall(SYS_mremap, pages->buffer[i], part->size, part->size,
                             MREMAP_MAYMOVE | MREMAP_FIXED, part->base);
        else
            result = syscall(SYS_mmap, part->base, part->size, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_FIXED, pages->fd, pages->offset + at);
    }
    return result;
}

/* `data` and `pages` must be on the stack, outside of the exchanged pages. */
static weft_status exchange_safely(const struct data *data, const struct pages *pages)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    syscall(SYS_getpid); /* binds syscall() */
    bool frozen = other_threads_run();
    weft_status status = frozen ? freeze_threads(data) : WEFT_OK;
    long result = status ? 0 : exchange_pages(data, pages);
    int error = errno;
    if (frozen && (status || result < 0))
        protect(data, PROT_READ | PROT_WRITE);
    thaw();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result >= 0)
        return status;
    return base_fail(WEFT_ERR_SYSTEM, "remapping %zu bytes of global data at %p: %s",
                     data->span.size, (void *)data->span.base, strerror(error));
}

static void free_buffers(const struct data *data, struct pages *pages)
{
    for (int i = 0; i < data->parts; i++)
        if (pages->buffer[i])
            munmap(pages->buffer[i], data->part[i].size);
}

/* Allocates private zero pages for each part. False: no memory. */
static bool allocate_buffers(const struct data *data, struct pages *pages)
{
    *pages = (struct pages){.fd = -1};
    for (int i = 0; i < data->parts; i++) {
        void *buffer = mmap(NULL, data->part[i].size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (buffer == MAP_FAILED) {
            free_buffers(data, pages);
            return false;
        }
        pages->buffer[i] = buffer;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------- fork */

/* Without this a child would share the parent's variables. It gets private copies as of fork(). The
 * copy is made before fork(), because the parent continues immediately. */
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pages fork_copy;
static bool fork_copied;

static void before_fork(void)
{
    pthread_mutex_lock(&fork_lock);
    fork_copied = shared.parts && allocate_buffers(&shared, &fork_copy);
    for (int i = 0; i < shared.parts && fork_copied; i++)
        copy_pages(fork_copy.buffer[i], shared.part[i].base, shared.part[i].size);
}

static void in_parent(void)
{
    if (fork_copied)
        free_buffers(&shared, &fork_copy);
    pthread_mutex_unlock(&fork_lock);
}

static void in_child(void)
{
    static const char sentence[] =
        "weft: fork: no memory for private copies of the global variables; the child ends\n";
    struct pages copy = fork_copy;
    struct data data = shared;
    bool good = fork_copied || !data.parts;
    for (int i = 0; i < data.parts && good; i++)
        good = syscall(SYS_mremap, copy.buffer[i], data.part[i].size, data.part[i].size,
                       MREMAP_MAYMOVE | MREMAP_FIXED, data.part[i].base) >= 0;
    if (!good) {
        if (write(STDERR_FILENO, sentence, sizeof sentence - 1) < 0)
            _exit(2);
        _exit(1);
    }
    shared.parts = 0;
    pthread_mutex_unlock(&fork_lock);
}

/* ------------------------------------------------------------------------------------ interface */

weft_status global_data_share(struct segment *segment, struct boot *boot)
{
    static bool watching_fork;
    struct data data = find_data();
    weft_status status = segment_create(segment, boot, "weft-data", data.span.size);
    if (status || !data.parts)
        return status;
    if (!watching_fork && pthread_atfork(before_fork, in_parent, in_child) == 0)
        watching_fork = true;
    shared = data;
    struct pages pages = {.copy_at = segment->base,
                          .fd = segment->fd,
                          .offset = (size_t)(segment->base - segment->slots)};
    status = exchange_safely(&data, &pages);
    if (status) {
        shared.parts = 0;
        segment_destroy(segment);
        return status;
    }
    segment->base = data.span.base;
    return WEFT_OK;
}

void global_data_unshare(struct segment *segment)
{
    struct data data = shared;
    struct pages pages;
    /* Without memory for a copy the pages stay mapped, and the memfd stays alive under them. */
    if (data.parts && allocate_buffers(&data, &pages) && exchange_safely(&data, &pages) == WEFT_OK)
        shared.parts = 0;
    segment_destroy(segment);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Links between HCAs: the functions of link.c in one thread. Two devices in this process connect
 * over real sockets and memory. Each system call fails in turn, and no descriptor or memory is left
 * open. */
#include "fails.h"
#include "gpu/engine.h"
#include "hca.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { RING_KIB = 64, RING = RING_KIB << 10, RING_TOTAL = RING + 128, BELL = 4096 };

static struct config config = {.ring_kib = RING_KIB};
static struct device *a, *b; /* a connects, b accepts */

/* --- System calls --- */

static long maps; /* existing mappings */

/* WRAP: the call fails with -1 and this errno. */
#define WRAP(result, name, parameters, arguments, error)                                           \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters                                                                \
    {                                                                                              \
        if (!due(#name))                                                                           \
            return __real_##name arguments;                                                        \
        errno = error;                                                                             \
        return (result)-1;                                                                         \
    }
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), EMFILE)
WRAP(int, ftruncate, (int fd, off_t size), (fd, size), ENOSPC)
WRAP(off_t, lseek, (int fd, off_t at, int whence), (fd, at, whence), ESPIPE)
WRAP(int, socket, (int family, int type, int protocol), (family, type, protocol), EMFILE)
WRAP(int, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE)
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), EMFILE)
WRAP(int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), ECONNREFUSED)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), EPIPE)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags), ECONNRESET)
WRAP(int, accept4, (int fd, struct sockaddr *from, socklen_t *n, int flags), (fd, from, n, flags),
     EAGAIN)

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    int argument = va_arg(arguments, int);
    va_end(arguments);
    return due("fcntl") ? -1 : __real_fcntl(fd, command, argument);
}

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *p = due("mmap") ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
    maps += p != MAP_FAILED;
    return p;
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes)
{
    assert_true(bytes == BELL || bytes == 2 * RING_TOTAL || bytes == 2 * (16384 + 128));
    maps--;
    return __real_munmap(at, bytes);
}

static long blocks; /* heap blocks that link.c holds */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    if (due("calloc"))
        return NULL;
    blocks++;
    return __real_calloc(count, bytes);
}

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes)
{
    if (due("realloc"))
        return NULL;
    blocks += !at;
    return __real_realloc(at, bytes);
}

void __real_free(void *at);
void __wrap_free(void *at);
void __wrap_free(void *at)
{
    blocks -= at != NULL;
    __real_free(at);
}

/* True: the peer belongs to another user. */
static bool other_user;
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
    assert_int_equal(level, SOL_SOCKET);
    assert_int_equal(name, SO_PEERCRED);
    int result = due("getsockopt") ? -1 : __real_getsockopt(fd, level, name, value, bytes);
    if (!result && other_user)
        ((struct ucred *)value)->uid++;
    return result;
}

static struct {
    const uint32_t *at;
    int operation;
    unsigned count, calls;
} futex;
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5);
long __wrap_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5)
{
    if (number != SYS_futex)
        return __real_syscall(number, a0, a1, a2, a3, a4, a5);
    futex.at = (const uint32_t *)a0;
    futex.operation = (int)a1;
    futex.count = (unsigned)a2;
    futex.calls++;
    return 0;
}

/* The first taken_lids calls of bind() fail; bound: the names passed to it. */
static unsigned taken_lids, bind_error;
static char bound[MAX_LIDS + 8][32];
static unsigned binds;
int __real_bind(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes)
{
    const struct sockaddr_un *name = (const void *)to;
    assert_int_equal(to->sa_family, AF_UNIX);
    assert_int_equal(name->sun_path[0], 0);
    unsigned n = bytes - (unsigned)offsetof(struct sockaddr_un, sun_path) - 1;
    if (binds < sizeof bound / sizeof *bound)
        snprintf(bound[binds], sizeof bound[0], "%.*s", (int)n, name->sun_path + 1);
    if (binds++ < taken_lids || bind_error) {
        errno = bind_error ? (int)bind_error : EADDRINUSE;
        return -1;
    }
    return __real_bind(fd, to, bytes);
}

/* Waits return at once: b's accept loop runs when a waits for an answer, and the loop ends when it
 * would wait. */
static unsigned door_polls, handshakes;
static nfds_t door_fds;
static bool b_is_deaf, in_door;
static unsigned answers_awaited;
static void (*comes_late)(void); /* called when the connector of b waits for an answer */
static void door_of(struct device *d);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    for (nfds_t i = 0; i < count; i++)
        assert_int_equal(fds[i].events, POLLIN);
    if (timeout_ms == -1) {
        door_polls++;
        door_fds = count;
        int n = __real_poll(fds, count, 0);
        if (!n)
            atomic_store(&b->threads.stop, true);
        return due("poll") ? -1 : n;
    }
    assert_int_equal(timeout_ms, 5000);
    if (count == 2) { /* the connector waits for an answer */
        assert_int_equal(fds[1].fd, b->threads.listener);
        answers_awaited++;
        if (comes_late)
            comes_late();
        return __real_poll(fds, count, 0);
    }
    assert_int_equal(count, 1);
    handshakes++;
    if (!in_door && !b_is_deaf)
        door_of(b);
    return __real_poll(fds, count, 0);
}

/* --- Other modules --- */

static const struct device *locked;
static unsigned wakes, knocks;
void device_lock(struct device *d)
{
    assert_null(locked);
    locked = d;
}

void device_unlock(struct device *d)
{
    assert_ptr_equal(locked, d);
    locked = NULL;
}

void device_wake(struct device *d)
{
    assert_non_null(d);
    wakes++;
}

void device_wake_connector(struct device *d)
{
    assert_non_null(d);
    knocks++;
}

static unsigned to_respond, responded;
bool respond_run(struct link_in *link, struct device *d)
{
    assert_ptr_equal(locked, d);
    assert_non_null(link);
    responded++;
    return to_respond && to_respond--;
}

static unsigned reports, key_answers;
void report_answer(struct device *d, int socket)
{
    assert_ptr_equal(d, b);
    assert_true(socket >= 0);
    reports++;
}

void gpu_keys_answer_query(struct device *d, int socket)
{
    assert_ptr_equal(d, b);
    assert_true(socket >= 0);
    key_answers++;
}

static bool joins = true;
static unsigned joined;
bool roce_attach(struct device *d, struct link_out *out, struct link_in *in)
{
    assert_ptr_equal(d, a);
    assert_int_equal(out->requests.size, in->requests.size);
    out->roce = joins ? (void *)out : NULL;
    joined++;
    return joins;
}

void roce_detach(struct link_out *out)
{
    out->roce = NULL;
}

/* --- Helpers --- */

static void door_of(struct device *d)
{
    in_door = true;
    atomic_store(&d->threads.stop, false);
    assert_null(connector_main(d));
    in_door = false;
}

static struct device *device_make(unsigned number)
{
    struct device *d = __real_calloc(1, sizeof *d);
    d->config = &config;
    d->number = number;
    return d;
}

static unsigned files_before;

static int setup(void **state)
{
    (void)state;
    files_before = open_files();
    a = device_make(2);
    b = device_make(5);
    taken_lids = bind_error = binds = 0;
    assert_int_equal(link_open(a), 0);
    assert_int_equal(link_open(b), 0);
    fails = "";
    joins = true;
    other_user = b_is_deaf = false;
    answers_awaited = 0;
    comes_late = NULL;
    wakes = knocks = responded = to_respond = reports = key_answers = joined = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    link_close(a);
    link_close(b);
    assert_int_equal(
        a->links.out_count + a->links.in_count + b->links.out_count + b->links.in_count, 0);
    __real_free(a);
    __real_free(b);
    assert_int_equal(maps, 0);
    assert_int_equal(blocks, 0);
    assert_int_equal(open_files(), files_before);
    return 0;
}

/* --- Device set-up --- */

static void a_lid_is_the_first_that_is_free(void **state)
{
    (void)state;
    struct device *d = device_make(3);
    unsigned begin = (unsigned)getpid() * 8 + 3, first = begin % MAX_LIDS + 1;
    for (unsigned taken = 0; taken < 3; taken++) {
        char name[64];
        binds = 0;
        taken_lids = taken;
        assert_int_equal(link_open(d), 0);
        taken_lids = 0;
        unsigned lid = d->lid;
        assert_true(lid >= 1 && lid < MAX_LIDS);
        assert_true(binds >= taken + 1);
        snprintf(name, sizeof name, "weft-hca-%u-%u", getuid(), first == MAX_LIDS ? 1 : first);
        assert_string_equal(bound[0], name);
        snprintf(name, sizeof name, "weft-hca-%u-%u", getuid(), lid);
        assert_string_equal(bound[binds - 1], name);
        for (unsigned i = 1; i < binds; i++)
            assert_string_not_equal(bound[i], bound[i - 1]);
        /* Checks the created objects: a listener, a nonblocking pipe, a sealed doorbell file. */
        int kind;
        socklen_t n = sizeof kind;
        assert_int_equal(
            __real_getsockopt(d->threads.listener, SOL_SOCKET, SO_ACCEPTCONN, &kind, &n), 0);
        assert_int_equal(kind, 1);
        assert_int_equal(fcntl(d->threads.wake[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        assert_int_equal(fcntl(d->threads.wake[1], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(fcntl(d->threads.listener, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        assert_int_equal(fcntl(d->threads.wakeup_fd, F_GET_SEALS),
                         F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        assert_int_equal(__real_lseek(d->threads.wakeup_fd, 0, SEEK_END), BELL);
        d->threads.wakeup[1023] = 7;
        int caller = link_open_socket(lid);
        assert_true(caller >= 0);
        close(caller);
        link_close(d);
        unsigned files = open_files();
        assert_int_equal(link_open_socket(lid), -1);
        assert_int_equal(open_files(), files);
    }
    __real_free(d);
}

/* All LIDs from 1 to 4094 are tried, and no others. */
static void all_lids_are_tried(void **state)
{
    (void)state;
    struct device *d = device_make(0);
    unsigned files = open_files();
    static bool tried[MAX_LIDS + 1];
    memset(tried, 0, sizeof tried);
    binds = 0;
    taken_lids = MAX_LIDS + 5;
    assert_int_equal(link_open(d), -1);
    assert_int_equal(errno, EADDRINUSE);
    taken_lids = 0;
    assert_int_equal(binds, MAX_LIDS - 1);
    for (unsigned i = 0; i < binds; i++) {
        unsigned lid = (unsigned)atoi(strrchr(bound[i], '-') + 1);
        assert_true(lid >= 1 && lid < MAX_LIDS && !tried[lid]);
        tried[lid] = true;
    }
    binds = 0;
    bind_error = EACCES;
    assert_int_equal(link_open(d), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(binds, 1);
    bind_error = 0;
    assert_int_equal(open_files(), files);
    __real_free(d);
}

static void opening_fails_and_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        int error;
    } cases[] = {{"socket", EMFILE},    {"listen", EADDRINUSE}, {"memfd_create", EMFILE},
                 {"ftruncate", ENOSPC}, {"fcntl", 0},           {"mmap", 0},
                 {"pipe2", EMFILE}};
    struct device *d = device_make(1);
    unsigned files = open_files();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        fails = cases[i].call;
        fails_at = 1;
        assert_int_equal(link_open(d), -1);
        if (cases[i].error)
            assert_int_equal(errno, cases[i].error);
        assert_int_equal(fails_at, 0);
        assert_int_equal(open_files(), files);
        maps -= !strcmp(cases[i].call, "pipe2"); /* the doorbell file is mapped */
    }
    fails = "";
    __real_free(d);
}

/* --- Wake-up --- */

static void a_bell_wakes_who_sleeps(void **state)
{
    (void)state;
    uint32_t wakeup[3] = {41, 0, 9};
    futex.calls = 0;
    link_wake_engine(NULL);
    link_wake_engine(wakeup);
    assert_int_equal(futex.calls, 0);
    assert_int_equal(wakeup[0], 41);
    wakeup[1] = 1;
    link_wake_engine(wakeup);
    assert_int_equal(futex.calls, 1);
    assert_ptr_equal(futex.at, wakeup);
    assert_int_equal(futex.operation, FUTEX_WAKE);
    assert_int_equal(futex.count, 1);
    assert_int_equal(wakeup[0], 42);
    assert_int_equal(wakeup[1], 1);
    assert_int_equal(wakeup[2], 9);
}

/* --- Connections --- */

static void commit(struct ring *r, uint32_t word)
{
    struct packet *p = ring_reserve(r, 4);
    assert_non_null(p);
    *p = (struct packet){.kind = PACKET_SEND, .bytes = 4};
    memcpy(p + 1, &word, 4);
    ring_commit(r, p);
    ring_publish(r);
}

static uint32_t next_word(struct ring *r)
{
    bool broken = false;
    uint32_t word = 0;
    const struct packet *p = ring_peek(r, &broken);
    assert_non_null(p);
    memcpy(&word, p + 1, 4);
    ring_consume(r, p);
    return word;
}

static void two_devices_share_rings_and_bells(void **state)
{
    (void)state;
    unsigned files = open_files();
    struct link_out *l = link_connect(a, b->lid);
    assert_non_null(l);
    assert_int_equal(handshakes > 0, 1);
    assert_ptr_equal(a->links.out[0], l);
    assert_int_equal(a->links.out_count, 1);
    assert_int_equal(a->links.in_count, 0);
    assert_int_equal(b->links.in_count, 1);
    assert_int_equal(b->links.out_count, 0);
    assert_false(atomic_load(&l->dead));
    assert_false(l->self);
    assert_int_equal(l->address, b->lid);
    assert_int_equal(l->requests.size, RING);
    assert_int_equal(l->responses.size, RING);
    assert_int_equal(l->bytes, 2 * RING_TOTAL);
    assert_int_equal(knocks, 1);
    struct link_in *in = b->links.in[0];
    assert_int_equal(in->address, a->lid);
    assert_int_equal(in->requests.size, RING);
    assert_int_equal(in->responses.size, RING);
    assert_int_equal(in->bytes, 2 * RING_TOTAL);
    assert_false(in->self);
    commit(&l->requests, 11);
    commit(&in->responses, 22);
    assert_int_equal(next_word(&in->requests), 11);
    assert_int_equal(next_word(&l->responses), 22);
    a->threads.wakeup[5] = 55;
    b->threads.wakeup[5] = 66;
    assert_int_equal(in->wakeup[5], 55);
    assert_int_equal(l->wakeup[5], 66);
    /* A second connect returns the same link, unless it is dead. */
    assert_ptr_equal(link_connect(a, b->lid), l);
    assert_int_equal(a->links.out_count, 1);
    assert_ptr_equal(link_find(a, b->lid), l);
    assert_null(link_find(a, b->lid + 1u));
    atomic_store(&l->dead, true);
    assert_ptr_equal(link_find(a, b->lid), l);
    struct link_out *second = link_connect(a, b->lid);
    assert_ptr_not_equal(second, l);
    assert_int_equal(a->links.out_count, 2);
    assert_ptr_equal(link_find(a, b->lid), second);
    atomic_store(&second->dead, true);
    assert_ptr_equal(link_find(a, b->lid), l);
    /* Only sockets are open: one for each end of each link. */
    assert_int_equal(open_files(), files + 4);
}

static void nobody_there_is_a_dead_link(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        unsigned at;
    } cases[] = {{"connect", 1}, {"socket", 1}, {"sendmsg", 1}, {"sendmsg", 2}, {"recvmsg", 2},
                 {"recvmsg", 1}, {"mmap", 4},   {"lseek", 3},   {"fcntl", 4}};
    unsigned files = open_files();
    struct qp qp = {.device = a};
    for (unsigned i = 0; i <= sizeof cases / sizeof *cases; i++) {
        bool deaf = i == sizeof cases / sizeof *cases;
        b_is_deaf = deaf;
        if (!deaf) {
            fails = cases[i].call;
            fails_at = cases[i].at;
        }
        struct link_out *l = link_connect(a, b->lid);
        assert_non_null(l);
        assert_true(atomic_load(&l->dead));
        assert_int_equal(l->fd, -1);
        assert_null(l->wakeup);
        assert_int_equal(a->links.out_count, 1);
        if (!deaf)
            assert_int_equal(fails_at, 0);
        fails = "";
        b_is_deaf = false;
        door_of(b); /* b notices that a is gone */
        assert_int_equal(b->links.in_count, 0);
        link_attach(a, &qp, l);
        link_release(a, &qp);
        assert_int_equal(a->links.out_count, 0);
        assert_int_equal(open_files(), files);
    }
    other_user = true;
    struct link_out *l = link_connect(a, b->lid);
    assert_true(atomic_load(&l->dead));
    other_user = false;
}

static void without_memory_there_is_no_link(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        unsigned at;
    } cases[] = {{"calloc", 1}, {"memfd_create", 1}, {"ftruncate", 1}, {"fcntl", 1}, {"mmap", 1}};
    unsigned files = open_files();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        fails = cases[i].call;
        fails_at = cases[i].at;
        assert_null(link_connect(a, b->lid));
        fails = "";
        assert_int_equal(a->links.out_count, 0);
        assert_int_equal(open_files(), files);
    }
    a->links.out_count = MAX_LINKS - 1;
    struct link_out other = {.address = 0};
    for (unsigned i = 0; i < MAX_LINKS - 1; i++)
        a->links.out[i] = &other;
    struct link_out *last = link_connect(a, a->lid);
    assert_non_null(last);
    assert_int_equal(a->links.out_count, MAX_LINKS);
    assert_null(link_connect(a, b->lid));
    assert_int_equal(a->links.out_count, MAX_LINKS);
    a->links.out_count = 1;
    a->links.out[0] = last;
    door_of(b);
}

static void a_device_reaches_itself(void **state)
{
    (void)state;
    unsigned files = open_files();
    struct link_out *l = link_connect(a, a->lid);
    assert_non_null(l);
    assert_true(l->self);
    assert_false(atomic_load(&l->dead));
    assert_int_equal(a->links.in_count, 1);
    struct link_in *in = a->links.in[0];
    assert_true(in->self);
    assert_int_equal(in->address, a->lid);
    assert_int_equal(in->fd, -1);
    assert_int_equal(in->requests.size, RING);
    assert_int_equal(in->responses.size, RING);
    assert_ptr_equal(in->requests.shared, l->requests.shared);
    assert_ptr_equal(in->responses.shared, l->responses.shared);
    assert_ptr_not_equal(in->responses.shared, in->requests.shared);
    assert_int_equal(open_files(), files);
    assert_null(l->roce);
    atomic_store(&l->dead, true);
    fails = "calloc";
    fails_at = 2;
    assert_null(link_connect(a, a->lid));
    fails = "";
    a->links.in_count = MAX_LINKS;
    assert_null(link_connect(a, a->lid));
    a->links.in_count = 1;
    assert_int_equal(a->links.out_count, 1);
}

static void a_wire_has_its_far_ends_here(void **state)
{
    (void)state;
    unsigned files = open_files();
    uint32_t address = 0x0a000102;
    struct link_out *l = link_connect(a, address);
    assert_non_null(l);
    assert_non_null(l->roce);
    assert_int_equal(joined, 1);
    assert_int_equal(open_files(), files);
    assert_int_equal(a->links.in_count, 1);
    struct link_in *in = a->links.in[0];
    assert_int_equal(in->address, address);
    assert_false(in->self);
    assert_int_equal(in->fd, -1);
    assert_int_equal(in->bytes, 2 * RING_TOTAL);
    assert_ptr_equal(in->requests.shared, in->memory);
    assert_ptr_equal(in->responses.shared, (char *)in->memory + RING_TOTAL);
    assert_int_equal(in->responses.size, RING);
    assert_ptr_not_equal(in->memory, l->memory);
    assert_null(in->wakeup);
    static const struct {
        const char *call;
        unsigned at;
    } cases[] = {{"calloc", 2}, {"memfd_create", 2}, {"mmap", 2}, {"", 0}, {"", 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        fails = cases[i].call;
        fails_at = cases[i].at;
        joins = i != 3;
        a->links.in_count = i == 4 ? MAX_LINKS : 1;
        assert_null(link_connect(a, address + 1));
        a->links.in_count = 1;
        assert_int_equal(a->links.out_count, 1);
        assert_int_equal(open_files(), files);
        fails = "";
    }
    joins = true;
}

static void a_dead_link_goes_with_its_last_queue(void **state)
{
    (void)state;
    struct qp first = {.device = a}, second = {.device = a};
    struct link_out *l = link_connect(a, b->lid), *own = link_connect(a, a->lid);
    link_attach(a, &first, l);
    link_attach(a, &second, l);
    link_attach(a, &second, NULL);
    assert_null(second.requester.link);
    link_attach(a, &second, l);
    l->users--;
    assert_ptr_equal(first.requester.link, l);
    assert_int_equal(l->users, 2);
    atomic_store(&l->dead, true);
    link_release(a, &first);
    assert_null(first.requester.link);
    assert_int_equal(a->links.out_count, 2);
    link_release(a, &first);
    assert_int_equal(l->users, 1);
    link_release(a, &second);
    assert_int_equal(a->links.out_count, 1);
    assert_ptr_equal(a->links.out[0], own);
    link_attach(a, &first, own);
    link_release(a, &first);
    assert_int_equal(a->links.out_count, 1); /* the link lives */
}

static void wanted_links_are_connected_by_the_door(void **state)
{
    (void)state;
    unsigned before = knocks;
    link_request(b, a->lid);
    link_request(b, a->lid);
    assert_int_equal(b->links.requested_count, 1);
    assert_int_equal(knocks, before + 1);
    link_request(b, b->lid);
    assert_int_equal(b->links.requested_count, 2);
    b_is_deaf = true;
    assert_int_equal(write(b->threads.wake[1], "abc", 3), 3);
    unsigned woken = wakes;
    door_of(b);
    assert_int_equal(b->links.requested_count, 0);
    assert_int_equal(b->links.out_count, 2);
    assert_int_equal(wakes, woken + 2);
    char byte;
    assert_int_equal(read(b->threads.wake[0], &byte, 1), -1); /* the pipe is empty */
    for (unsigned i = 1; i <= 70; i++)
        link_request(b, i);
    assert_int_equal(b->links.requested_count, 64);
    assert_int_equal(b->links.requested[63], 64);
    b->links.requested_count = 0;
}

/* --- Accepting --- */

static int visitor(void)
{
    int s = link_open_socket(b->lid);
    assert_true(s >= 0);
    return s;
}

/* True: b has dropped the visitor. */
static bool is_over(int s)
{
    char byte;
    ssize_t n = recv(s, &byte, 1, MSG_DONTWAIT);
    return !n || (n < 0 && errno == ECONNRESET);
}

static int memory_file(size_t bytes, int seals)
{
    int fd = __real_memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(__real_ftruncate(fd, (off_t)bytes), 0);
    if (seals)
        assert_int_equal(__real_fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

struct handshake {
    uint32_t magic, version, lid, ring_bytes;
};

static void greet(int s, const void *hello, size_t bytes, const int *fds, unsigned count)
{
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {(void *)(uintptr_t)hello, bytes};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (count) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    assert_int_equal(__real_sendmsg(s, &m, 0), bytes);
}

static void visitors_who_are_not_let_in(void **state)
{
    (void)state;
    enum { MAGIC = 0x57686361, LEAST = 16384, ALL = F_SEAL_SHRINK | F_SEAL_GROW };
    static const struct {
        struct handshake hello;
        unsigned bytes, count;
        size_t ring_file, bell_file;
        int ring_seals, bell_seals;
        const char *call;
        unsigned at;
        bool in;
    } cases[] = {
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, true},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, F_SEAL_SHRINK, ALL, "", 0, true},
        {{MAGIC + 1, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 2, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 4, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 15, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 16, 0, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 16, 1, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST / 2}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST + 64}, 16, 2, 4 * LEAST, BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, 1u << 31}, 16, 2, 2 * ((2ull << 30) + 128), BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128) - 1, BELL, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL - 1, ALL, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, F_SEAL_GROW, ALL, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, F_SEAL_GROW, "", 0, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "calloc", 1, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "mmap", 1, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "mmap", 2, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "getsockopt", 1, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "recvmsg", 1, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "lseek", 1, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "fcntl", 1, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "fcntl", 2, false},
        {{MAGIC, 3, 7, LEAST}, 16, 2, 2 * (LEAST + 128), BELL, ALL, ALL, "accept4", 1, true},
    };
    unsigned files = open_files();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        long before = maps;
        int s = visitor(), fds[2];
        fds[0] = memory_file(cases[i].ring_file, cases[i].ring_seals);
        fds[1] = memory_file(cases[i].bell_file, cases[i].bell_seals);
        greet(s, &cases[i].hello, cases[i].bytes, fds, cases[i].count);
        fails = cases[i].call;
        fails_at = cases[i].at;
        door_of(b);
        fails = "";
        if (b->links.in_count != (unsigned)cases[i].in)
            fail_msg("case %u", i);
        if (cases[i].in) {
            struct handshake mine;
            assert_int_equal(b->links.in[0]->address, 7);
            assert_int_equal(b->links.in[0]->responses.size, LEAST);
            assert_int_equal(recv(s, &mine, sizeof mine, MSG_DONTWAIT), sizeof mine);
            assert_int_equal(mine.magic, MAGIC);
            assert_int_equal(mine.version, 3);
            assert_int_equal(mine.lid, b->lid);
            assert_int_equal(mine.ring_bytes, 0);
        } else {
            assert_true(is_over(s));
            assert_int_equal(maps, before);
        }
        close(s);
        close(fds[0]);
        close(fds[1]);
        door_of(b);
        assert_int_equal(b->links.in_count, 0);
        assert_int_equal(open_files(), files);
    }
}

static int late_visitor;
static void visit_late(void)
{
    const struct handshake hello = {0x57686361, 3, 7, 16384};
    int fds[2] = {memory_file(2 * (16384 + 128), F_SEAL_SHRINK), memory_file(BELL, F_SEAL_SHRINK)};
    comes_late = NULL;
    late_visitor = visitor();
    greet(late_visitor, &hello, sizeof hello, fds, 2);
    close(fds[0]);
    close(fds[1]);
}

/* b connects to a, whose connector connects to b at the same time and answers later. */
static void the_door_is_open_while_it_connects(void **state)
{
    (void)state;
    struct handshake mine;
    link_request(b, a->lid);
    assert_int_equal(write(b->threads.wake[1], "a", 1), 1);
    comes_late = visit_late;
    in_door = true;
    atomic_store(&b->threads.stop, false);
    assert_null(connector_main(b));
    in_door = false;
    assert_int_equal(answers_awaited, 2); /* again after the visitor */
    assert_int_equal(b->links.in_count, 1);
    assert_int_equal(recv(late_visitor, &mine, sizeof mine, MSG_DONTWAIT), sizeof mine);
    close(late_visitor);
}

/* The two rings of a visitor are adjacent, the requests first. */
static void rings_of_a_visitor(void **state)
{
    (void)state;
    struct handshake hello = {0x57686361, 3, 0x10007, 16384};
    int s = visitor(),
        fds[2] = {memory_file(2 * (16384 + 128), F_SEAL_SHRINK), memory_file(BELL, F_SEAL_SHRINK)};
    greet(s, &hello, sizeof hello, fds, 2);
    door_of(b);
    assert_int_equal(b->links.in_count, 1);
    assert_int_equal(b->links.in[0]->address, 7); /* LIDs have 16 bits */
    assert_ptr_equal(b->links.in[0]->requests.shared, b->links.in[0]->memory);
    assert_ptr_equal(b->links.in[0]->responses.shared,
                     (char *)b->links.in[0]->memory + 16384 + 128);
    close(fds[0]);
    close(fds[1]);
    close(s);
}

static void a_full_device_lets_nobody_in(void **state)
{
    (void)state;
    struct handshake hello = {0x57686361, 3, 7, 16384};
    static struct link_in other = {.fd = -1};
    for (unsigned full = 0; full < 2; full++) {
        unsigned files = open_files();
        int s = visitor(), fds[2] = {memory_file(2 * (16384 + 128), F_SEAL_SHRINK),
                                     memory_file(BELL, F_SEAL_SHRINK)};
        greet(s, &hello, sizeof hello, fds, 2);
        for (unsigned i = 0; i < MAX_LINKS; i++)
            b->links.in[i] = &other;
        b->links.in_count = full ? MAX_LINKS : MAX_LINKS - 1;
        if (!full) {
            fails = "sendmsg";
            fails_at = 1;
        }
        long before = maps;
        door_of(b);
        fails = "";
        assert_int_equal(maps, before);
        assert_int_equal(b->links.in_count, full ? MAX_LINKS : MAX_LINKS - 1);
        assert_true(is_over(s));
        b->links.in_count = 0;
        close(s);
        close(fds[0]);
        close(fds[1]);
        assert_int_equal(open_files(), files);
    }
}

static void questions_are_answered(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned bytes, reports, keys;
        bool other_user;
    } cases[] = {
        {"show", 4, 1, 0, false}, {"show", 5, 0, 0, false}, {"shox", 4, 0, 0, false},
        {"sho", 3, 0, 0, false},  {"key?", 5, 0, 1, false}, {"key?x", 5, 0, 0, false},
        {"key?", 4, 0, 0, false}, {"key?", 6, 0, 1, false}, {"show", 4, 0, 0, true},
        {"key?", 5, 0, 0, true},  {"", 0, 0, 0, false},
    };
    unsigned files = open_files();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[8] = "";
        int s = visitor();
        memcpy(text, cases[i].text, strlen(cases[i].text));
        if (cases[i].bytes)
            assert_int_equal(send(s, text, cases[i].bytes, 0), cases[i].bytes);
        other_user = cases[i].other_user;
        reports = key_answers = 0;
        door_of(b);
        if (reports != cases[i].reports || key_answers != cases[i].keys)
            fail_msg("case %u", i);
        other_user = false;
        assert_true(is_over(s));
        assert_int_equal(b->links.in_count, 0);
        close(s);
        assert_int_equal(open_files(), files);
    }
}

static void who_goes_is_noticed(void **state)
{
    (void)state;
    struct responder streams[2] = {{.ack_pending = true}, {.ack_pending = true}};
    struct link_out *there, *l = link_connect(a, b->lid), *second = link_connect(a, a->lid);
    (void)second;
    b_is_deaf = true;
    struct link_in own = {.fd = -1, .address = 99};
    b->links.in[1] = b->links.in[0];
    b->links.in[0] = &own;
    b->links.in_count = 2;
    b->links.in[1]->pending_count = 2;
    b->links.in[1]->pending_responders[0] = &streams[0];
    b->links.in[1]->pending_responders[1] = &streams[1];
    to_respond = 3;
    unsigned woken = wakes;
    link_dead(a, l);
    assert_true(atomic_load(&l->dead));
    assert_int_equal(l->fd, -1);
    door_of(b);
    assert_int_equal(responded, 4);
    assert_int_equal(to_respond, 0);
    assert_int_equal(b->links.in_count, 1);
    assert_ptr_equal(b->links.in[0], &own);
    assert_false(streams[0].ack_pending || streams[1].ack_pending);
    assert_int_equal(wakes, woken + 1);
    b->links.in_count = 0;
    /* The other direction: the connecting end notices that the peer has closed its socket. */
    b_is_deaf = false;
    there = link_connect(a, b->lid);
    assert_false(atomic_load(&there->dead));
    to_respond = 5000;
    responded = 0;
    struct device *saved = b;
    b = a; /* the device that accepts */
    link_dead(saved, &(struct link_out){.fd = saved->links.in[0]->fd});
    door_of(a);
    b = saved;
    assert_true(atomic_load(&there->dead));
    assert_int_equal(there->fd, -1);
    assert_int_equal(responded, 0);
    b->links.in[0]->fd = -1; /* closed above */
    /* The device does not wait for a busy peer. */
    assert_false(atomic_load(&link_connect(a, b->lid)->dead));
    responded = 0;
    close(a->links.out[a->links.out_count - 1]->fd);
    a->links.out[a->links.out_count - 1]->fd = -1;
    door_of(b);
    assert_int_equal(responded, 1000);
    to_respond = 0;
}

static void the_door_looks_at_all_sockets(void **state)
{
    (void)state;
    link_connect(a, b->lid);
    link_connect(a, a->lid);
    door_polls = 0;
    door_of(b);
    assert_int_equal(door_fds, 3);
    assert_int_equal(door_polls, 1);
    struct device *saved = b;
    b = a;
    door_of(a);
    b = saved;
    assert_int_equal(door_fds, 2 + 1 + 2);
    fails = "realloc";
    fails_at = 1;
    door_polls = 0;
    door_of(b);
    assert_int_equal(door_polls, 0);
    fails = "poll";
    fails_at = 1;
    assert_int_equal(write(b->threads.wake[1], "", 1), 1);
    door_of(b);
    assert_int_equal(door_polls, 3); /* the first poll had no descriptors */
    fails = "";
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_lid_is_the_first_that_is_free),
        TEST(all_lids_are_tried),
        TEST(opening_fails_and_leaves_nothing),
        TEST(a_bell_wakes_who_sleeps),
        TEST(two_devices_share_rings_and_bells),
        TEST(nobody_there_is_a_dead_link),
        TEST(without_memory_there_is_no_link),
        TEST(a_device_reaches_itself),
        TEST(a_wire_has_its_far_ends_here),
        TEST(a_dead_link_goes_with_its_last_queue),
        TEST(wanted_links_are_connected_by_the_door),
        TEST(visitors_who_are_not_let_in),
        TEST(the_door_is_open_while_it_connects),
        TEST(rings_of_a_visitor),
        TEST(a_full_device_lets_nobody_in),
        TEST(questions_are_answered),
        TEST(who_goes_is_noticed),
        TEST(the_door_looks_at_all_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

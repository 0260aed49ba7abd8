/* SPDX-License-Identifier: Apache-2.0 */
/* Fake sockets and a fake clock for tests of both sides of a rendezvous. A descriptor receives the
 * bytes of its queue, and time passes only in poll(). Include cmocka.h first. The program is linked
 * with --wrap of the functions that are defined here as __wrap_. */
#ifndef WEFT_TESTS_UNIT_RENDEZVOUS_H
#define WEFT_TESTS_UNIT_RENDEZVOUS_H

#include "tests/unit/callocs.h"

#include "base/log.h"
#include "base/status.h"
#include "boot/methods.h"
#include "boot/rendezvous/handshake.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The first descriptor is 0, which is a valid descriptor. */
enum { FIRST_FD = 0, FDS = 1200, QUEUE = 512 };
#define MS UINT64_C(1000000)

struct end {
    bool open, hangs_up, closed; /* hangs_up: the peer closes after the data in the queue */
    int closes;
    size_t queued, taken, piece; /* piece: most bytes that one recv() returns; 0 = all */
    char queue[QUEUE];
    char sent[QUEUE];
    size_t sent_bytes, sends;
    int receive_error, send_error; /* errno of the next call; 0 = none */
    size_t send_short;             /* number of bytes by which the next send() is short */
};

static struct {
    uint64_t now_ns;
    int polls, poll_errors;
    int waits[64];          /* time limit of each poll(), in ms */
    bool never_ready;       /* poll() finds no descriptor ready and only lets time pass */
    uint64_t poll_takes_ns; /* 0 = the time limit of poll(), or no time if a descriptor is ready */
    struct end ends[FDS];
    int made; /* number of descriptors made */
    bool foreign_user, no_answer, no_prove, no_greet, not_known, no_finish;
    int finished_fd, finishes, proves, describes, warnings, tuned;
    bool connecting;
    enum handshake_side proved, proven;
    struct boot_limit limit;
    int still_wanted_left; /* calls of still_wanted() that return WEFT_OK; -1 = all */
    int asked;
    char line[512]; /* the latest warning */
} net;

static struct end *end_of(int fd)
{
    assert_true(fd >= FIRST_FD && fd < FDS);
    return &net.ends[fd - FIRST_FD];
}

static int make_end(void)
{
    struct end *end = &net.ends[net.made];
    *end = (struct end){.open = true};
    return FIRST_FD + net.made++;
}

static void arrives(int fd, const void *bytes, size_t count)
{
    struct end *end = end_of(fd);
    assert_true(end->queued + count <= QUEUE);
    memcpy(end->queue + end->queued, bytes, count);
    end->queued += count;
}

/* Defined by the test: what the peers do between two polls; whether a descriptor is writable;
 * whether a connection request waits at a listening descriptor. */
static void others_move(void);
static bool is_connected(int fd);
static bool knocks_at(int fd);

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return net.now_ns;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int wait_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int wait_ms)
{
    int ready = 0;
    if (net.polls < 64)
        net.waits[net.polls] = wait_ms;
    net.polls++;
    others_move();
    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        if (fds[i].fd < 0 || net.never_ready)
            continue;
        if (fds[i].fd >= FDS) {
            fds[i].revents = knocks_at(fds[i].fd) ? POLLIN : 0;
            ready += fds[i].revents != 0;
            continue;
        }
        struct end *end = end_of(fds[i].fd);
        assert_true(end->open);
        bool in = end->queued > end->taken || end->hangs_up || end->receive_error;
        fds[i].revents =
            (short)((fds[i].events & POLLIN && in ? POLLIN : 0) |
                    (fds[i].events & POLLOUT && is_connected(fds[i].fd) ? POLLOUT : 0));
        ready += fds[i].revents != 0;
    }
    net.now_ns += net.poll_takes_ns ? net.poll_takes_ns : ready ? 0 : (uint64_t)wait_ms * MS;
    if (net.poll_errors && net.poll_errors--) {
        errno = EINTR;
        return -1;
    }
    return ready;
}

ssize_t __wrap_recv(int fd, void *into, size_t wanted, int flags);
ssize_t __wrap_recv(int fd, void *into, size_t wanted, int flags)
{
    struct end *end = end_of(fd);
    assert_true(end->open && wanted > 0 && flags == MSG_DONTWAIT);
    size_t there = end->queued - end->taken;
    if (end->receive_error) {
        errno = end->receive_error;
        end->receive_error = 0;
        return -1;
    }
    if (!there && end->hangs_up)
        return 0;
    errno = EAGAIN;
    if (!there)
        return -1;
    there = there < wanted ? there : wanted;
    there = end->piece && end->piece < there ? end->piece : there;
    memcpy(into, end->queue + end->taken, there);
    end->taken += there;
    return (ssize_t)there;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags)
{
    struct end *end = end_of(fd);
    assert_true(end->open && flags == MSG_NOSIGNAL);
    assert_true(end->sent_bytes + count <= QUEUE);
    end->sends++;
    memcpy(end->sent + end->sent_bytes, bytes, count);
    end->sent_bytes += count;
    ssize_t taken = (ssize_t)(count - end->send_short);
    end->send_short = 0;
    if (end->send_error) {
        errno = end->send_error;
        return -1;
    }
    return taken;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    struct end *end = end_of(fd);
    assert_true(end->open);
    end->open = false;
    return 0;
}

bool __wrap_handshake_same_user(int fd);
bool __wrap_handshake_same_user(int fd)
{
    assert_true(end_of(fd)->open);
    return !net.foreign_user;
}

bool __wrap_handshake_make_greeting(const struct rendezvous *rendezvous,
                                    struct handshake_greeting *greeting);
bool __wrap_handshake_make_greeting(const struct rendezvous *rendezvous,
                                    struct handshake_greeting *greeting)
{
    *greeting =
        (struct handshake_greeting){.magic = HANDSHAKE_MAGIC, .keyed = rendezvous->key != NULL};
    return !net.no_greet;
}

bool __wrap_handshake_make_record(const struct rendezvous *rendezvous,
                                  struct handshake_record *hello);
bool __wrap_handshake_make_record(const struct rendezvous *rendezvous,
                                  struct handshake_record *hello)
{
    *hello =
        (struct handshake_record){.magic = HANDSHAKE_MAGIC, .member = (uint32_t)rendezvous->me};
    return !net.no_answer;
}

bool __wrap_handshake_make_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                                 const struct handshake_greeting *greeting,
                                 const struct handshake_record *hello,
                                 struct handshake_proof *proof);
bool __wrap_handshake_make_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                                 const struct handshake_greeting *greeting,
                                 const struct handshake_record *hello,
                                 struct handshake_proof *proof)
{
    (void)rendezvous;
    assert_true(greeting->magic == HANDSHAKE_MAGIC && hello->magic == HANDSHAKE_MAGIC);
    net.proves++;
    net.proved = side;
    *proof = (struct handshake_proof){.magic = 0x7777 + (uint64_t)side};
    return !net.no_prove;
}

bool __wrap_handshake_check_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                                  const struct handshake_greeting *greeting,
                                  const struct handshake_record *hello,
                                  const struct handshake_proof *proof);
bool __wrap_handshake_check_proof(const struct rendezvous *rendezvous, enum handshake_side side,
                                  const struct handshake_greeting *greeting,
                                  const struct handshake_record *hello,
                                  const struct handshake_proof *proof)
{
    (void)rendezvous;
    assert_true(greeting->magic == HANDSHAKE_MAGIC && hello->magic == HANDSHAKE_MAGIC);
    net.proven = side;
    return proof->magic == 0x7777 + (uint64_t)side && !net.not_known;
}

weft_status __wrap_handshake_finish(const struct rendezvous *rendezvous,
                                    const struct handshake_greeting *greeting,
                                    const struct handshake_record *hello, int fd, bool connecting,
                                    struct wire *wire);
weft_status __wrap_handshake_finish(const struct rendezvous *rendezvous,
                                    const struct handshake_greeting *greeting,
                                    const struct handshake_record *hello, int fd, bool connecting,
                                    struct wire *wire)
{
    (void)rendezvous, (void)hello;
    assert_int_equal(greeting->magic, HANDSHAKE_MAGIC);
    net.finishes++;
    net.finished_fd = fd;
    net.connecting = connecting;
    if (net.no_finish)
        return base_fail(WEFT_ERR_SYSTEM, "no keys");
    wire->fd = fd;
    return WEFT_OK;
}

void __wrap_handshake_describe_peer(int fd, char *text, size_t size);
void __wrap_handshake_describe_peer(int fd, char *text, size_t size)
{
    assert_true(end_of(fd)->open);
    net.describes++;
    snprintf(text, size, "peer %d", fd);
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    va_list arguments;
    assert_int_equal(level, LOG_WARN);
    net.warnings++;
    va_start(arguments, format);
    vsnprintf(net.line, sizeof net.line, format, arguments);
    va_end(arguments);
}

struct boot_limit __wrap_boot_limit_join(void);
struct boot_limit __wrap_boot_limit_join(void)
{
    return net.limit;
}

static weft_status still_wanted(void *argument)
{
    assert_ptr_equal(argument, &net);
    net.asked++;
    return net.still_wanted_left-- ? WEFT_OK : base_fail(WEFT_ERR_JOB, "the job has ended");
}

static inline int open_ends(void)
{
    int open = 0;
    for (int i = 0; i < net.made; i++)
        open += net.ends[i].open;
    return open;
}

static void net_begin(void)
{
    memset(&net, 0, sizeof net);
    net.now_ns = 1000 * MS;
    net.still_wanted_left = -1;
    net.limit = (struct boot_limit){.left_ns = 2000 * MS};
    net.finished_fd = -1;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The PE's end of the socket to `weft run`. Answers of the launcher come in the order in which this
 * PE asks, except the news that the job ends, which may come at any time. Knows nothing of how the
 * launcher starts and ends processes. */
#include "boot/launch.h"

#include "base/config.h"
#include "base/status.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A packet that check() met while it looked for news. */
struct early {
    struct early *next;
    int fd;
    struct launch_header header;
    char payload[];
};

struct launcher_boot {
    struct boot boot;
    int socket;
    pthread_mutex_t lock; /* guards the socket's reading side and all below */
    struct early *first;
    struct early *last;
    char *packet;               /* receive buffer: header and payload */
    _Atomic(weft_status) ended; /* written last: the sentence is complete when it is not WEFT_OK */
    char sentence[LAUNCH_MOST_SENTENCE + 1];
};

/* The environment's variables are removed when the socket is taken over, so that children of this
 * process do not take it for theirs; a second weft_init() finds it here. */
static struct {
    pthread_mutex_t lock;
    bool known;
    bool in_use;
    pid_t process; /* that took it over; a child that was forked has none */
    int socket;
    int pe;
    int npes;
} inherited = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct launcher_boot *self(struct boot *boot)
{
    return (struct launcher_boot *)boot;
}

static weft_status ended(struct launcher_boot *launcher)
{
    weft_status status = atomic_load_explicit(&launcher->ended, memory_order_acquire);
    return status ? base_fail(status, "%s", launcher->sentence) : WEFT_OK;
}

/* Caller holds the lock. The first reason stays. */
static weft_status end_with(struct launcher_boot *launcher, weft_status why, const char *sentence)
{
    if (!atomic_load_explicit(&launcher->ended, memory_order_relaxed)) {
        snprintf(launcher->sentence, sizeof launcher->sentence, "%s", sentence);
        /* pairs with the acquire in ended() */
        atomic_store_explicit(&launcher->ended, why, memory_order_release);
    }
    return ended(launcher);
}

static weft_status launcher_gone(struct launcher_boot *launcher)
{
    return end_with(launcher, WEFT_ERR_BOOT, "the launcher (weft run) has ended; so does the job");
}

/* ------------------------------------------------------------------------------------ sending */

static weft_status send_packet(struct launcher_boot *launcher, struct boot_limit *limit,
                               enum launch_type type, int number, const void *payload, size_t bytes,
                               int fd)
{
    struct launch_header header = {LAUNCH_MAGIC, type, number, (uint32_t)bytes};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)payload, bytes}};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes ? 2 : 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    for (;;) {
        if (sendmsg(launcher->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return WEFT_OK;
        if (errno == EPIPE || errno == ECONNRESET)
            return launcher_gone(launcher);
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return base_fail(WEFT_ERR_SYSTEM, "sending to the launcher: %s", strerror(errno));
        if (!boot_limit_poll(limit, launcher->socket, POLLOUT))
            return base_fail(WEFT_ERR_TIMEOUT, "the launcher (weft run) took nothing within "
                                               "WEFT_WAIT_LIMIT");
    }
}

/* ---------------------------------------------------------------------------------- receiving */

/* The descriptor that came with a packet, or -1. */
static int descriptor_of(struct msghdr *message)
{
    int fd = -1;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            memcpy(&fd, CMSG_DATA(part), sizeof fd);
    return fd;
}

static weft_status check_packet(struct launcher_boot *launcher, ssize_t n, int flags, int fd)
{
    const struct launch_header *header = (const struct launch_header *)launcher->packet;
    if (n < (ssize_t)sizeof *header || header->magic != LAUNCH_MAGIC ||
        header->bytes != (size_t)n - sizeof *header)
        return end_with(launcher, WEFT_ERR_VERSION,
                        "the launcher speaks another protocol: are weft run and the library of "
                        "the program of the same version?");
    if (header->type == LAUNCH_FD && fd < 0)
        return base_fail(WEFT_ERR_SYSTEM,
                         "a descriptor of PE %d was lost on the way (%s): raise the limit of open "
                         "files (ulimit -n)",
                         header->number,
                         flags & MSG_CTRUNC ? "this process has none left" : "it did not arrive");
    if (header->type == LAUNCH_END) {
        char sentence[LAUNCH_MOST_SENTENCE + 1];
        snprintf(sentence, sizeof sentence, "%.*s", (int)header->bytes,
                 launcher->packet + sizeof *header);
        return end_with(launcher, header->number < 0 ? (weft_status)header->number : WEFT_ERR_JOB,
                        sentence);
    }
    return WEFT_OK;
}

/* Reads one packet into launcher->packet. *got tells whether there was one. Never blocks. */
static weft_status read_packet(struct launcher_boot *launcher, bool *got, int *fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {launcher->packet, sizeof(struct launch_header) + LAUNCH_MOST_PAYLOAD};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.bytes};
    *got = false;
    *fd = -1;
    ssize_t n = recvmsg(launcher->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == ECONNRESET) /* it left something unread; its last words are still there */
        n = recvmsg(launcher->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_OK;
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return launcher_gone(launcher);
    if (n < 0)
        return base_fail(WEFT_ERR_SYSTEM, "receiving from the launcher: %s", strerror(errno));
    *got = true;
    *fd = descriptor_of(&message);
    weft_status status = check_packet(launcher, n, message.msg_flags, *fd);
    if (status && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

/* Takes back the first packet that check() has put aside. */
static bool take_early(struct launcher_boot *launcher, int *fd)
{
    struct early *early = launcher->first;
    if (!early)
        return false;
    launcher->first = early->next;
    if (!launcher->first)
        launcher->last = NULL;
    memcpy(launcher->packet, &early->header, sizeof early->header + early->header.bytes);
    *fd = early->fd;
    free(early);
    return true;
}

static weft_status put_aside(struct launcher_boot *launcher, int fd)
{
    const struct launch_header *header = (const struct launch_header *)launcher->packet;
    struct early *early = malloc(sizeof *early + header->bytes);
    if (!early) {
        if (fd >= 0)
            close(fd);
        return end_with(launcher, WEFT_ERR_NO_MEMORY, "no memory for a packet of the launcher");
    }
    early->next = NULL;
    early->fd = fd;
    memcpy(&early->header, launcher->packet, sizeof *header + header->bytes);
    if (launcher->last)
        launcher->last->next = early;
    else
        launcher->first = early;
    launcher->last = early;
    return WEFT_OK;
}

static weft_status next_packet(struct launcher_boot *launcher, struct boot_limit *limit, int *fd)
{
    bool got = take_early(launcher, fd);
    while (!got) {
        weft_status status = read_packet(launcher, &got, fd);
        if (status)
            return status;
        if (!got && !boot_limit_poll(limit, launcher->socket, POLLIN))
            return WEFT_ERR_TIMEOUT;
    }
    return WEFT_OK;
}

/* The limit has passed: the launcher knows which PEs did not arrive. */
static weft_status explain_timeout(struct launcher_boot *launcher)
{
    struct boot_limit second = {.left_ns = 1000000000};
    int fd = -1;
    weft_status status = send_packet(launcher, &second, LAUNCH_WHO, 0, NULL, 0, -1);
    if (!status)
        status = next_packet(launcher, &second, &fd);
    const struct launch_header *header = (const struct launch_header *)launcher->packet;
    if (fd >= 0)
        close(fd);
    if (status == WEFT_OK && header->type == LAUNCH_MISSING)
        return base_fail(WEFT_ERR_TIMEOUT, "%.*s within WEFT_WAIT_LIMIT", (int)header->bytes,
                         launcher->packet + sizeof *header);
    return base_fail(WEFT_ERR_TIMEOUT, "the launcher (weft run) did not answer within "
                                       "WEFT_WAIT_LIMIT");
}

static weft_status check_type(struct launcher_boot *launcher, enum launch_type type, int fd)
{
    const struct launch_header *header = (const struct launch_header *)launcher->packet;
    if (header->type == type)
        return WEFT_OK;
    if (fd >= 0)
        close(fd);
    return base_fail(WEFT_ERR_MISMATCH,
                     "the PEs do not make the same calls: this one waits for %s, but another %s",
                     type == LAUNCH_FD ? "a descriptor" : "an exchange",
                     header->type == LAUNCH_FD ? "shares a descriptor" : "exchanges");
}

/* --------------------------------------------------------------------------------- operations */

static weft_status gather_slice(struct launcher_boot *launcher, const char *mine, size_t bytes)
{
    struct boot_limit limit = boot_limit_start();
    weft_status status = send_packet(launcher, &limit, LAUNCH_GATHER, 0, mine, bytes, -1);
    int fd = -1;
    if (!status)
        status = next_packet(launcher, &limit, &fd);
    if (status == WEFT_ERR_TIMEOUT)
        return explain_timeout(launcher);
    if (!status)
        status = check_type(launcher, LAUNCH_ALL, fd);
    if (status)
        return status;
    const struct launch_header *header = (const struct launch_header *)launcher->packet;
    if (header->bytes != bytes * (size_t)launcher->boot.npes)
        return base_fail(WEFT_ERR_BOOT, "the launcher gathered %u bytes where %zu were expected",
                         header->bytes, bytes * (size_t)launcher->boot.npes);
    return WEFT_OK;
}

static weft_status gather(struct launcher_boot *launcher, const char *mine, char *all, size_t bytes)
{
    const int npes = launcher->boot.npes;
    const char *answer = launcher->packet + sizeof(struct launch_header);
    size_t done = 0;
    do {
        size_t slice = bytes - done;
        if (slice > launch_slice(npes))
            slice = launch_slice(npes);
        weft_status status = gather_slice(launcher, mine + done, slice);
        if (status)
            return status;
        for (int pe = 0; slice && pe < npes; pe++)
            memcpy(all + (size_t)pe * bytes + done, answer + (size_t)pe * slice, slice);
        done += slice;
    } while (done < bytes);
    return WEFT_OK;
}

static weft_status launcher_allgather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    struct launcher_boot *launcher = self(boot);
    pthread_mutex_lock(&launcher->lock);
    weft_status status = ended(launcher);
    if (!status)
        status = gather(launcher, mine, all, bytes);
    pthread_mutex_unlock(&launcher->lock);
    return status;
}

static weft_status launcher_barrier(struct boot *boot)
{
    char nothing = 0;
    return launcher_allgather(boot, &nothing, &nothing, 0);
}

static weft_status give_fd(struct launcher_boot *launcher, int fd, int *taken)
{
    struct boot_limit limit = boot_limit_start();
    *taken = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*taken < 0)
        return base_fail(WEFT_ERR_SYSTEM, "duplicating descriptor %d: %s", fd, strerror(errno));
    weft_status status = send_packet(launcher, &limit, LAUNCH_FD, launcher->boot.pe, NULL, 0, fd);
    if (status) {
        close(*taken);
        *taken = -1;
    }
    return status;
}

static weft_status take_fd(struct launcher_boot *launcher, int from, int *taken)
{
    struct boot_limit limit = boot_limit_start();
    int fd = -1;
    weft_status status = next_packet(launcher, &limit, &fd);
    if (status == WEFT_ERR_TIMEOUT)
        return base_fail(status, "PE %d did not share a descriptor within WEFT_WAIT_LIMIT", from);
    if (!status)
        status = check_type(launcher, LAUNCH_FD, fd);
    if (status)
        return status;
    const struct launch_header *header = (const struct launch_header *)launcher->packet;
    if (header->number != from) {
        close(fd);
        return base_fail(WEFT_ERR_MISMATCH,
                         "PE %d shares a descriptor where this PE expects one of PE %d",
                         header->number, from);
    }
    *taken = fd;
    return WEFT_OK;
}

static weft_status launcher_share_fd(struct boot *boot, int from, int fd, int *taken)
{
    struct launcher_boot *launcher = self(boot);
    *taken = -1;
    pthread_mutex_lock(&launcher->lock);
    weft_status status = ended(launcher);
    if (!status)
        status = boot->pe == from ? give_fd(launcher, fd, taken) : take_fd(launcher, from, taken);
    pthread_mutex_unlock(&launcher->lock);
    return status;
}

static void launcher_abort(struct boot *boot, int code, const char *sentence)
{
    struct launcher_boot *launcher = self(boot);
    struct boot_limit second = {.left_ns = 1000000000};
    send_packet(launcher, &second, LAUNCH_ABORT, code, sentence,
                strnlen(sentence, LAUNCH_MOST_SENTENCE), -1);
}

static weft_status launcher_check(struct boot *boot)
{
    struct launcher_boot *launcher = self(boot);
    /* Another thread that is reading will hear the news itself. */
    if (atomic_load_explicit(&launcher->ended, memory_order_relaxed) ||
        pthread_mutex_trylock(&launcher->lock) != 0)
        return ended(launcher);
    bool got;
    int fd;
    weft_status status = ended(launcher);
    if (!status)
        status = read_packet(launcher, &got, &fd);
    if (!status && got)
        status = put_aside(launcher, fd);
    pthread_mutex_unlock(&launcher->lock);
    return status;
}

static void launcher_free(struct launcher_boot *launcher)
{
    int fd;
    while (take_early(launcher, &fd))
        if (fd >= 0)
            close(fd);
    pthread_mutex_destroy(&launcher->lock);
    free(launcher->packet);
    boot_unset(&launcher->boot);
    free(launcher);
    pthread_mutex_lock(&inherited.lock);
    inherited.in_use = false;
    pthread_mutex_unlock(&inherited.lock);
}

static void launcher_forked(struct boot *boot)
{
    close(self(boot)->socket);
}

static void launcher_close(struct boot *boot, bool clean)
{
    struct launcher_boot *launcher = self(boot);
    struct boot_limit second = {.left_ns = 1000000000};
    send_packet(launcher, &second, LAUNCH_BYE, clean, NULL, 0, -1);
    launcher_free(launcher);
}

static const struct boot_ops launcher_ops = {
    .name = "weft run",
    .allgather = launcher_allgather,
    .barrier = launcher_barrier,
    .share_fd = launcher_share_fd,
    .abort = launcher_abort,
    .check = launcher_check,
    .forked = launcher_forked,
    .close = launcher_close,
};

/* ------------------------------------------------------------------------------------ opening */

static bool is_launcher_socket(int fd)
{
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0)
        return false;
    size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && domain == AF_UNIX &&
           type == SOCK_SEQPACKET;
}

/* Caller holds the lock of `inherited`. */
static weft_status inherit(void)
{
    int64_t fd = config_int(CONFIG_BOOT_SOCKET);
    int64_t pe = config_int(CONFIG_PE), npes = config_int(CONFIG_PES);
    if (fd < 0)
        return base_fail(WEFT_ERR_BOOT, "this process was not started by weft run: "
                                        "WEFT_BOOT_SOCKET is not set");
    if (fd > INT32_MAX || !is_launcher_socket((int)fd))
        return base_fail(WEFT_ERR_BOOT,
                         "WEFT_BOOT_SOCKET is %lld, which is no socket of weft run: a process "
                         "between weft run and this one has closed it (or unset WEFT_BOOT_SOCKET)",
                         (long long)fd);
    if (npes < 1 || npes > LAUNCH_MOST_PES || pe < 0 || pe >= npes)
        return base_fail(WEFT_ERR_BOOT,
                         "WEFT_PE is %lld and WEFT_PES is %lld: these are set by "
                         "weft run and must not be changed",
                         (long long)pe, (long long)npes);
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return base_fail(WEFT_ERR_SYSTEM, "descriptor %d: %s", (int)fd, strerror(errno));
    unsetenv("WEFT_BOOT_SOCKET");
    unsetenv("WEFT_PE");
    unsetenv("WEFT_PES");
    inherited.socket = (int)fd;
    inherited.pe = (int)pe;
    inherited.npes = (int)npes;
    inherited.known = true;
    inherited.process = getpid();
    return WEFT_OK;
}

static weft_status claim(void)
{
    pthread_mutex_lock(&inherited.lock);
    weft_status status = WEFT_OK;
    if (inherited.known && inherited.process != getpid())
        status =
            base_fail(WEFT_ERR_BOOT, "this process was forked by a PE of weft run, and is none");
    else if (inherited.in_use)
        status = base_fail(WEFT_ERR_BOOT, "this process is already in the job of weft run: "
                                          "weft_finalize() first, or WEFT_BOOT=single");
    if (!status && !inherited.known)
        status = inherit();
    if (!status)
        inherited.in_use = true;
    pthread_mutex_unlock(&inherited.lock);
    return status;
}

bool boot_launcher_known(void)
{
    pthread_mutex_lock(&inherited.lock);
    bool known =
        inherited.known ? inherited.process == getpid() : config_int(CONFIG_BOOT_SOCKET) >= 0;
    pthread_mutex_unlock(&inherited.lock);
    return known;
}

weft_status boot_open_launcher(struct boot **boot)
{
    weft_status status = claim();
    if (status)
        return status;
    struct launcher_boot *made = calloc(1, sizeof *made);
    char *packet = malloc(sizeof(struct launch_header) + LAUNCH_MOST_PAYLOAD);
    if (!made || !packet) {
        free(made);
        free(packet);
        pthread_mutex_lock(&inherited.lock);
        inherited.in_use = false;
        pthread_mutex_unlock(&inherited.lock);
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the connection to the launcher");
    }
    made->packet = packet;
    made->socket = inherited.socket;
    pthread_mutex_init(&made->lock, NULL);
    boot_set(&made->boot, &launcher_ops, inherited.pe, inherited.npes);
    status = boot_one_node(&made->boot);
    struct boot_limit limit = boot_limit_start();
    if (!status)
        status = send_packet(made, &limit, LAUNCH_HELLO, 0, NULL, 0, -1);
    if (status) {
        launcher_free(made);
        return status;
    }
    *boot = &made->boot;
    return WEFT_OK;
}

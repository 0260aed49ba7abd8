/* SPDX-License-Identifier: Apache-2.0 */
/* A PE started by `weft run`, which is the hub of the job (hub.h) at the other end of an inherited
 * socket. Knows nothing of how the launcher starts and ends processes. */
#include "base/config.h"
#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct launcher_boot {
    struct boot boot;
    struct member member;
};

/* The process removes the environment variables when it takes the socket over, so that its children
 * do not use the socket. A second weft_init() finds the socket here. */
static struct {
    pthread_mutex_t lock;
    bool known;
    bool in_use;
    pid_t process; /* the process that took it over: a child of fork() may not use it */
    int socket;
    int pe;
    int npes;
} inherited = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct member *member_of(struct boot *boot)
{
    return &((struct launcher_boot *)boot)->member;
}

/* --------------------------------------------------------------------------------- operations */

static weft_status launcher_allgather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    return member_allgather(member_of(boot), mine, all, bytes);
}

static weft_status launcher_barrier(struct boot *boot)
{
    return member_allgather(member_of(boot), NULL, NULL, 0);
}

static weft_status launcher_share_fd(struct boot *boot, int from, int fd, int *taken)
{
    return member_share_fd(member_of(boot), from, fd, boot->nodes > 1 ? boot->local_pes : NULL,
                           boot->local_npes, taken);
}

static void launcher_abort(struct boot *boot, int code, const char *sentence)
{
    member_abort(member_of(boot), code, sentence);
}

static void launcher_fail(struct boot *boot, weft_status why, const char *sentence)
{
    member_fail(member_of(boot), why, sentence);
}

static weft_status launcher_check(struct boot *boot)
{
    return member_check(member_of(boot));
}

static void launcher_forked(struct boot *boot)
{
    member_forked(member_of(boot));
}

static void release_socket(void)
{
    pthread_mutex_lock(&inherited.lock);
    inherited.in_use = false;
    pthread_mutex_unlock(&inherited.lock);
}

static void launcher_free(struct boot *boot)
{
    boot_unset(boot);
    free(boot);
    release_socket();
}

static void launcher_close(struct boot *boot, bool clean)
{
    member_close(member_of(boot), clean);
    launcher_free(boot);
}

static const struct boot_ops launcher_ops = {
    .name = "weft run",
    .allgather = launcher_allgather,
    .barrier = launcher_barrier,
    .share_fd = launcher_share_fd,
    .abort = launcher_abort,
    .fail = launcher_fail,
    .check = launcher_check,
    .forked = launcher_forked,
    .close = launcher_close,
};

/* ------------------------------------------------------------------------------------ opening */

/* Type of an AF_UNIX socket; -1: fd is not one. */
static int socket_type(int fd)
{
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 || domain != AF_UNIX)
        return -1;
    size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 ? type : -1;
}

/* The caller holds the lock of `inherited`. */
static weft_status inherit_socket(void)
{
    int64_t fd = config_int(CONFIG_BOOT_SOCKET);
    int64_t pe = config_int(CONFIG_PE), npes = config_int(CONFIG_PES);
    if (fd < 0)
        return base_fail(WEFT_ERR_BOOT, "this process was not started by weft run: "
                                        "WEFT_BOOT_SOCKET is not set");
    if (fd <= INT32_MAX && socket_type((int)fd) == SOCK_SEQPACKET)
        return base_fail(WEFT_ERR_VERSION, "weft run uses the protocol of another version of "
                                           "Weft: use the weft run of this library");
    if (fd > INT32_MAX || socket_type((int)fd) != SOCK_STREAM)
        return base_fail(WEFT_ERR_BOOT,
                         "WEFT_BOOT_SOCKET is %lld, which is not a socket of weft run: a process "
                         "between weft run and this one has closed it (or unset WEFT_BOOT_SOCKET)",
                         (long long)fd);
    if (npes < 1 || npes > BOOT_MOST_LAUNCHED || pe < 0 || pe >= npes)
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

static weft_status claim_socket(void)
{
    pthread_mutex_lock(&inherited.lock);
    weft_status status = WEFT_OK;
    if (inherited.known && inherited.process != getpid())
        status = base_fail(WEFT_ERR_BOOT,
                           "this process was forked by a PE of weft run, and is not a PE itself");
    else if (inherited.in_use)
        status = base_fail(WEFT_ERR_BOOT, "this process is already in the job of weft run: "
                                          "weft_finalize() first, or WEFT_BOOT=single");
    if (!status && !inherited.known)
        status = inherit_socket();
    if (!status)
        inherited.in_use = true;
    pthread_mutex_unlock(&inherited.lock);
    return status;
}

/* `weft run` without --hosts has all its PEs on one node. */
static bool has_several_nodes(void)
{
    return config_int(CONFIG_BOOT_NODE) >= 0 || config_int(CONFIG_TEST_NODE_PES) > 0;
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
    weft_status status = claim_socket();
    if (status)
        return status;
    struct launcher_boot *made = calloc(1, sizeof *made);
    if (!made) {
        release_socket();
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the connection to the launcher");
    }
    boot_set(&made->boot, &launcher_ops, inherited.pe, inherited.npes);
    status = member_init_launched(&made->member, inherited.npes, inherited.pe, inherited.socket);
    if (status) {
        launcher_free(&made->boot);
        return status;
    }
    status = has_several_nodes() ? boot_find_nodes(&made->boot) : boot_one_node(&made->boot);
    if (status) {
        char sentence[HUB_MOST_SENTENCE]; /* closing may fail in turn */
        snprintf(sentence, sizeof sentence, "%s", base_last_error());
        launcher_close(&made->boot, false);
        return base_fail(status, "%s", sentence);
    }
    *boot = &made->boot;
    return WEFT_OK;
}

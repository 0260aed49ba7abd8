/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of UNIX sockets that pass file descriptors: handshakes of links, and replies about
 * memory keys. */
#include "hca.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FILES_MOST = 2 };

union control {
    char bytes[CMSG_SPACE(FILES_MOST * sizeof(int))];
    struct cmsghdr align;
};

bool message_send(int socket, const void *data, size_t bytes, const int *fds, unsigned count)
{
    union control control = {{0}};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = bytes};
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
    return sendmsg(socket, &m, MSG_NOSIGNAL) == (ssize_t)bytes;
}

bool message_of_same_user(int socket)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == getuid();
}

bool message_receive(int socket, void *data, size_t bytes, int *fds, unsigned count, int timeout_ms)
{
    union control control = {{0}};
    struct iovec iov = {.iov_base = data, .iov_len = bytes};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    struct pollfd p = {.fd = socket, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) != 1)
        return false;
    ssize_t n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m);
    unsigned got = 0;
    int all[FILES_MOST];
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        got = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(all, CMSG_DATA(c), got * sizeof(int)); /* the kernel passes no more than fit */
    }
    if (n == (ssize_t)bytes && got == count && message_of_same_user(socket)) {
        memcpy(fds, all, count * sizeof(int));
        return true;
    }
    for (unsigned i = 0; i < got; i++)
        close(all[i]);
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a message to the socket of a software adapter (standin/hca/link.c), with up to three
 * descriptors of memory that may or may not be sealed and large enough. The adapter answers or
 * closes, and unmaps what it has mapped. */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DESCRIPTORS = 3, RING = 16384, BELL = 4096 };

static uint16_t lid;
static struct ibv_context *context;
static int
    memory[4]; /* sealed memory for a ring and for a doorbell; memory that is not sealed; a pipe */

static int memory_of(size_t bytes, int seals)
{
    int fd = memfd_create("fuzz", MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, seals))
        abort();
    return fd;
}

static void open_once(void)
{
    struct ibv_port_attr port;
    int ends[2];
    setenv("SOFT_HCA_LOG", "none", 1);
    struct ibv_device **list = ibv_get_device_list(NULL);
    context = ibv_open_device(list[0]);
    if (!context || ibv_query_port(context, 1, &port) || pipe(ends))
        abort();
    ibv_free_device_list(list);
    lid = port.lid;
    memory[0] = memory_of(2 * (RING + 4096), F_SEAL_SHRINK);
    memory[1] = memory_of(BELL, F_SEAL_SHRINK);
    memory[2] = memory_of(2 * (RING + 4096), 0);
    memory[3] = ends[0];
}

static int connect_to_it(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "weft-hca-%u-%u", getuid(), lid);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (unsigned)n);
    if (s < 0 || connect(s, (struct sockaddr *)&a, bytes))
        abort();
    return s;
}

/* The first byte selects the descriptors. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct cmsghdr align;
    } control;
    char answer[256];
    if (!lid)
        open_once();
    if (!size)
        return 0;
    unsigned count = *data & 3;
    int s = connect_to_it(), fds[DESCRIPTORS];
    struct iovec iov = {(void *)(uintptr_t)(data + 1), size - 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
    for (unsigned i = 0; i < count; i++)
        fds[i] = memory[*data >> (2 + 2 * i) & 3];
    if (count) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    if (sendmsg(s, &m, MSG_NOSIGNAL) >= 0) {
        shutdown(s, SHUT_WR);
        struct pollfd p = {.fd = s, .events = POLLIN};
        if (poll(&p, 1, 10000) != 1)
            abort(); /* the adapter neither answers nor closes */
        while (recv(s, answer, sizeof answer, MSG_DONTWAIT) > 0)
            ;
    }
    close(s);
    return 0;
}

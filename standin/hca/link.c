/* SPDX-License-Identifier: Apache-2.0 */
/* Links to other HCAs. HCAs of a host find each other by LID: a device claims a LID by binding an
 * abstract UNIX socket of that name, which disappears with the process. A requester connects to it
 * and passes the memory of two rings, one for requests and one for responses. Each side wakes the
 * other's engine by a futex word in shared memory. */
#include "gpu/engine.h"
#include "hca.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    HANDSHAKE_MAGIC = 0x57686361,
    HANDSHAKE_VERSION = 3,
    HANDSHAKE_MS = 5000,
    WAKEUP_BYTES = 4096
};

struct handshake {
    uint32_t magic, version;
    uint32_t lid;
    uint32_t ring_bytes;
};

/* --- Shared memory of rings and wake words --- */

static size_t ring_memory_bytes(uint64_t size)
{
    return sizeof(struct ring_shared) + size;
}

static void init_ring(struct ring *r, void *memory, uint64_t size)
{
    *r = (struct ring){.shared = memory, .size = size};
}

/* Creates a memory file that is sealed, so that it cannot shrink while another process maps it. */
static int shared_memory(size_t bytes, void **at)
{
    int fd = memfd_create("weft-hca", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
        (*at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        close(fd);
        return -1;
    }
    return fd;
}

static void *map_received(int fd, size_t bytes)
{
    off_t size = lseek(fd, 0, SEEK_END);
    int seals = fcntl(fd, F_GET_SEALS);
    if (size < 0 || (size_t)size < bytes || seals < 0 || !(seals & F_SEAL_SHRINK))
        return MAP_FAILED;
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

void link_wake_engine(uint32_t *wakeup)
{
    if (!wakeup)
        return;
    /* Pairs with the fence of an engine that goes to sleep: either the engine sees what was
     * published before, or this thread sees that the engine sleeps. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&wakeup[1], __ATOMIC_RELAXED))
        return;
    __atomic_add_fetch(&wakeup[0], 1, __ATOMIC_RELAXED);
    syscall(SYS_futex, wakeup, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- Names --- */

static socklen_t socket_name_of(unsigned lid, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "weft-hca-%u-%u", getuid(), lid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (unsigned)n);
}

/* Claims a LID and listens there. Returns 0, or -1 with errno. */
int link_open(struct device *d)
{
    struct sockaddr_un a;
    void *wakeup;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    /* Start at a number that depends on the process, so that a LID is not reused soon. */
    unsigned begin = (unsigned)getpid() * 8 + d->number, lid = 0;
    for (unsigned i = 0; i < MAX_LIDS; i++) {
        lid = (begin + i) % MAX_LIDS + 1;
        if (lid >= MAX_LIDS)
            continue;
        socklen_t n = socket_name_of(lid, &a);
        if (!bind(fd, (struct sockaddr *)&a, n))
            break;
        lid = 0;
        if (errno != EADDRINUSE)
            break;
    }
    d->threads.wakeup_fd = lid && !listen(fd, 256) ? shared_memory(WAKEUP_BYTES, &wakeup) : -1;
    if (d->threads.wakeup_fd < 0 || pipe2(d->threads.wake, O_CLOEXEC | O_NONBLOCK)) {
        int e = errno;
        close(fd);
        if (d->threads.wakeup_fd >= 0)
            close(d->threads.wakeup_fd);
        errno = e;
        return -1;
    }
    d->threads.wakeup = wakeup;
    d->lid = (uint16_t)lid;
    d->threads.listener = fd;
    return 0;
}

static void free_link_out(struct link_out *l)
{
    if (l->fd >= 0)
        close(l->fd);
    munmap(l->memory, l->bytes);
    if (l->wakeup && !l->self)
        munmap(l->wakeup, WAKEUP_BYTES);
    roce_detach(l);
    free(l);
}

static void free_link_in(struct link_in *l)
{
    free(l->delayed.writes);
    if (l->fd >= 0)
        close(l->fd);
    if (l->memory)
        munmap(l->memory, l->bytes);
    if (l->wakeup)
        munmap(l->wakeup, WAKEUP_BYTES);
    free(l);
}

void link_close(struct device *d)
{
    for (unsigned i = 0; i < d->links.out_count; i++)
        free_link_out(d->links.out[i]);
    for (unsigned i = 0; i < d->links.in_count; i++)
        free_link_in(d->links.in[i]);
    d->links.out_count = d->links.in_count = 0;
    close(d->threads.listener);
    close(d->threads.wake[0]);
    close(d->threads.wake[1]);
    munmap(d->threads.wakeup, WAKEUP_BYTES);
    close(d->threads.wakeup_fd);
}

/* --- Handshakes --- */

/* Receives a handshake with exactly `count` file descriptors. False: failed; none is left open. */
static bool receive_handshake(int fd, struct handshake *h, int *fds, unsigned count)
{
    if (!message_receive(fd, h, sizeof *h, fds, count, HANDSHAKE_MS))
        return false;
    if (h->magic == HANDSHAKE_MAGIC && h->version == HANDSHAKE_VERSION)
        return true;
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    return false;
}

/* --- The side that sends requests --- */

static struct link_out *new_link_out(struct device *d, uint32_t address, int *fd)
{
    struct link_out *l = calloc(1, sizeof *l);
    uint64_t size = (uint64_t)d->config->ring_kib << 10;
    if (!l)
        return NULL;
    l->address = address;
    l->fd = -1;
    l->bytes = 2 * ring_memory_bytes(size);
    *fd = shared_memory(l->bytes, &l->memory);
    if (*fd < 0) {
        free(l);
        return NULL;
    }
    init_ring(&l->requests, l->memory, size);
    init_ring(&l->responses, (char *)l->memory + ring_memory_bytes(size), size);
    return l;
}

int link_open_socket(uint32_t lid)
{
    struct sockaddr_un a;
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t n = socket_name_of(lid, &a);
    if (s >= 0 && connect(s, (struct sockaddr *)&a, n)) {
        close(s);
        return -1;
    }
    return s;
}

static void accept_connection(struct device *d, int s);

/* Accepts connections of peers until something arrives on `s`. Two connector threads that connect
 * to each other would otherwise wait for each other. */
static void accept_until_answered(struct device *d, int s)
{
    struct pollfd fds[] = {{.fd = s, .events = POLLIN},
                           {.fd = d->threads.listener, .events = POLLIN}};
    while (poll(fds, 2, HANDSHAKE_MS) > 0 && !fds[0].revents) {
        int peer = accept4(d->threads.listener, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0)
            accept_connection(d, peer);
    }
}

/* accepts: the caller is the connector thread. */
static int exchange_handshake(struct device *d, struct link_out *l, int memory_fd, bool accepts)
{
    struct handshake h = {HANDSHAKE_MAGIC, HANDSHAKE_VERSION, d->lid, (uint32_t)l->requests.size};
    int fds[2] = {memory_fd, d->threads.wakeup_fd}, wakeup = -1;
    int s = link_open_socket(l->address);
    if (s < 0)
        return -1;
    bool sent = message_send(s, &h, sizeof h, fds, 2);
    if (sent && accepts)
        accept_until_answered(d, s);
    if (!sent || !receive_handshake(s, &h, &wakeup, 1)) {
        close(s);
        return -1;
    }
    l->wakeup = map_received(wakeup, WAKEUP_BYTES);
    close(wakeup);
    if (l->wakeup == MAP_FAILED) {
        l->wakeup = NULL;
        close(s);
        return -1;
    }
    l->fd = s;
    return 0;
}

/* Connects a link to this process itself: the same rings, seen from the other side. */
static bool connect_self(struct device *d, struct link_out *l)
{
    struct link_in *in = calloc(1, sizeof *in);
    if (!in || d->links.in_count == MAX_LINKS) {
        free(in);
        return false;
    }
    in->self = l->self = true;
    in->address = l->address;
    in->fd = -1;
    init_ring(&in->requests, l->requests.shared, l->requests.size);
    init_ring(&in->responses, l->responses.shared, l->responses.size);
    d->links.in[d->links.in_count++] = in;
    return true;
}

/* Connects a link over RoCE, whose remote ends are in this process too (roce.c). */
static bool connect_roce(struct device *d, struct link_out *l)
{
    struct link_in *in = calloc(1, sizeof *in);
    void *memory = NULL;
    int fd = in && d->links.in_count < MAX_LINKS ? shared_memory(l->bytes, &memory) : -1;
    if (fd < 0) {
        free(in);
        return false;
    }
    close(fd);
    *in = (struct link_in){.address = l->address, .fd = -1, .memory = memory, .bytes = l->bytes};
    init_ring(&in->requests, memory, l->requests.size);
    init_ring(&in->responses, (char *)memory + ring_memory_bytes(l->requests.size),
              l->requests.size);
    if (!roce_attach(d, l, in)) {
        free_link_in(in);
        return false;
    }
    d->links.in[d->links.in_count++] = in;
    return true;
}

/* Creates the remote end of a link, if it is in this process. */
static bool connect_here(struct device *d, struct link_out *l)
{
    if (address_is_ip(l->address))
        return connect_roce(d, l);
    return l->address != d->lid || connect_self(d, l);
}

/* Returns the link to an address; a dead one only if there is no other. */
struct link_out *link_find(struct device *d, uint32_t address)
{
    struct link_out *found = NULL;
    for (unsigned i = 0; i < d->links.out_count; i++)
        if (d->links.out[i]->address == address && (!found || !atomic_load(&d->links.out[i]->dead)))
            found = d->links.out[i];
    return found;
}

static struct link_out *find_live_link(struct device *d, uint32_t address)
{
    struct link_out *l = link_find(d, address);
    return l && !atomic_load(&l->dead) ? l : NULL;
}

/* See link_connect(). accepts: the caller is the connector thread. */
static struct link_out *connect_to(struct device *d, uint32_t address, bool accepts)
{
    int fd;
    device_lock(d);
    struct link_out *l = find_live_link(d, address), *other;
    device_unlock(d);
    if (l)
        return l;
    l = new_link_out(d, address, &fd);
    if (!l)
        return NULL;
    if (address != d->lid && !address_is_ip(address) && exchange_handshake(d, l, fd, accepts))
        atomic_store(&l->dead, true);
    close(fd);
    device_lock(d);
    other = find_live_link(d, address);
    if (other || d->links.out_count == MAX_LINKS || !connect_here(d, l)) {
        free_link_out(l);
        l = other;
    } else {
        d->links.out[d->links.out_count++] = l;
    }
    device_unlock(d);
    device_wake_connector(d);
    return l;
}

/* Returns a link to that address. If no HCA has it, the link is dead, and its packets are lost.
 * NULL: out of memory. */
struct link_out *link_connect(struct device *d, uint32_t address)
{
    return connect_to(d, address, false);
}

void link_attach(struct device *d, struct qp *qp, struct link_out *l)
{
    qp->requester.link = l;
    if (l)
        l->users++;
}

void link_release(struct device *d, struct qp *qp)
{
    struct link_out *l = qp->requester.link;
    qp->requester.link = NULL;
    if (!l || --l->users || !atomic_load(&l->dead))
        return;
    for (unsigned i = 0; i < d->links.out_count; i++)
        if (d->links.out[i] == l)
            d->links.out[i--] = d->links.out[--d->links.out_count];
    free_link_out(l);
}

void link_request(struct device *d, uint32_t address)
{
    for (unsigned i = 0; i < d->links.requested_count; i++)
        if (d->links.requested[i] == address)
            return;
    if (d->links.requested_count == 64)
        return;
    d->links.requested[d->links.requested_count++] = address;
    device_wake_connector(d);
}

/* --- The side that receives requests --- */

/* Answers a connection that sends a query instead of a handshake (report.c, gpu/keys.c). */
static bool answer_query(struct device *d, int s)
{
    char word[sizeof REPORT_QUERY];
    struct pollfd p = {.fd = s, .events = POLLIN};
    ssize_t n = poll(&p, 1, HANDSHAKE_MS) == 1 ? recv(s, word, sizeof word, MSG_PEEK) : -1;
    bool shows = n == sizeof word - 1 && !memcmp(word, REPORT_QUERY, sizeof word - 1);
    bool key = n == sizeof word && !memcmp(word, GPU_KEYS_QUERY, sizeof word);
    if (shows && message_of_same_user(s))
        report_answer(d, s);
    if (key && message_of_same_user(s))
        gpu_keys_answer_query(d, s);
    return shows || key;
}

static void accept_connection(struct device *d, int s)
{
    if (answer_query(d, s)) {
        close(s);
        return;
    }
    struct handshake h, mine = {HANDSHAKE_MAGIC, HANDSHAKE_VERSION, d->lid, 0};
    int fds[2];
    struct link_in *in = calloc(1, sizeof *in);
    if (!in || !receive_handshake(s, &h, fds, 2)) {
        free(in);
        close(s);
        return;
    }
    bool sane = h.ring_bytes >= 4096 * 4 && h.ring_bytes <= 1u << 30 &&
                !(h.ring_bytes & (h.ring_bytes - 1));
    in->address = (uint16_t)h.lid;
    in->fd = s;
    in->bytes = 2 * ring_memory_bytes(h.ring_bytes);
    in->memory = sane ? map_received(fds[0], in->bytes) : MAP_FAILED;
    in->wakeup = map_received(fds[1], WAKEUP_BYTES);
    close(fds[0]);
    close(fds[1]);
    if (in->memory == MAP_FAILED || (void *)in->wakeup == MAP_FAILED) {
        if (in->memory != MAP_FAILED)
            munmap(in->memory, in->bytes);
        if ((void *)in->wakeup != MAP_FAILED)
            munmap(in->wakeup, WAKEUP_BYTES);
        close(s);
        free(in);
        return;
    }
    init_ring(&in->requests, in->memory, h.ring_bytes);
    init_ring(&in->responses, (char *)in->memory + ring_memory_bytes(h.ring_bytes), h.ring_bytes);
    device_lock(d);
    bool room = d->links.in_count < MAX_LINKS &&
                message_send(s, &mine, sizeof mine, &d->threads.wakeup_fd, 1);
    if (room)
        d->links.in[d->links.in_count++] = in;
    device_unlock(d);
    if (!room)
        free_link_in(in);
}

static void drop_link(struct device *d, int fd)
{
    device_lock(d);
    for (unsigned i = 0; i < d->links.in_count; i++) {
        if (d->links.in[i]->fd != fd)
            continue;
        /* Execute requests that have arrived before the link is removed. */
        for (unsigned n = 0; n < 1000 && respond_run(d->links.in[i], d); n++)
            ;
        for (unsigned k = 0; k < d->links.in[i]->pending_count; k++)
            d->links.in[i]->pending_responders[k]->ack_pending = false;
        free_link_in(d->links.in[i]);
        d->links.in[i] = d->links.in[--d->links.in_count];
        break;
    }
    for (unsigned i = 0; i < d->links.out_count; i++)
        if (d->links.out[i]->fd == fd)
            link_dead(d, d->links.out[i]);
    device_unlock(d);
    device_wake(d);
}

/* Marks a link as dead: the peer is gone. The QPs that use it notice in send_timers(). */
void link_dead(struct device *d, struct link_out *l)
{
    atomic_store(&l->dead, true);
    close(l->fd);
    l->fd = -1;
}

static void connect_requested(struct device *d)
{
    for (;;) {
        device_lock(d);
        uint32_t address =
            d->links.requested_count ? d->links.requested[--d->links.requested_count] : 0;
        device_unlock(d);
        if (!address)
            return;
        connect_to(d, address, true);
        device_wake(d);
    }
}

/* The connector thread: accepts connections of peers and notices peers that are gone. */
void *connector_main(void *device)
{
    struct device *d = device;
    struct pollfd *fds = NULL;
    while (!atomic_load(&d->threads.stop)) {
        device_lock(d);
        unsigned n = 2 + d->links.in_count + d->links.out_count, k = 2;
        struct pollfd *more = realloc(fds, n * sizeof *fds);
        if (!more) {
            device_unlock(d);
            break;
        }
        fds = more;
        fds[0] = (struct pollfd){.fd = d->threads.listener, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = d->threads.wake[0], .events = POLLIN};
        for (unsigned i = 0; i < d->links.in_count; i++)
            fds[k++] = (struct pollfd){.fd = d->links.in[i]->fd, .events = POLLIN};
        for (unsigned i = 0; i < d->links.out_count; i++)
            fds[k++] = (struct pollfd){.fd = d->links.out[i]->fd, .events = POLLIN};
        device_unlock(d);
        if (poll(fds, n, -1) < 0)
            continue;
        char drain[64];
        while (fds[1].revents && read(d->threads.wake[0], drain, sizeof drain) > 0)
            ;
        int s = fds[0].revents ? accept4(d->threads.listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (s >= 0)
            accept_connection(d, s);
        /* Peers send nothing after the handshake, so any event is the end of the connection. */
        for (unsigned i = 2; i < n; i++)
            if (fds[i].fd >= 0 && fds[i].revents)
                drop_link(d, fds[i].fd);
        connect_requested(d);
    }
    free(fds);
    return NULL;
}

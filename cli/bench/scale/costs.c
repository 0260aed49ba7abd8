/* SPDX-License-Identifier: Apache-2.0 */
/* What a frame costs on this machine: times of the real wire (boot/hub/wire.h), of the system calls
 * around it, and of a process that wakes up. See scale.h. */
#include "bench/scale/scale.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALL_BYTES = 16, LARGE_BYTES = 49152, FRAMES = 300, BEST_OF = 5, TURNS = 400, GROUPS = 10 };

static bool report_errno(const char *what)
{
    fprintf(stderr, "weft bench scale: %s: %s\n", what, strerror(errno));
    return false;
}

/* Mean times of one frame of `bytes` bytes: the least of BEST_OF. */
static bool time_frames(struct wire ends[2], size_t bytes, double *send_ns, double *receive_ns)
{
    static const char payload[LARGE_BYTES];
    *send_ns = *receive_ns = 1e18;
    for (int repetition = 0; repetition < BEST_OF; repetition++) {
        uint64_t sending = 0, receiving = 0;
        for (int i = 0; i < FRAMES; i++) {
            uint64_t began = clock_now_ns();
            weft_status status = wire_post(&ends[0], FRAME_PART, 0, payload, bytes, -1);
            uint64_t sent = clock_now_ns();
            struct wire_frame *frame = NULL;
            while (!status && !(frame = wire_take(&ends[1])) && !(status = wire_read(&ends[1])))
                status = wire_flush(&ends[0]);
            receiving += clock_now_ns() - sent;
            sending += sent - began;
            wire_frame_free(frame);
            if (status) {
                fprintf(stderr, "weft bench scale: %s\n", weft_last_error());
                return false;
            }
        }
        *send_ns = (double)sending / FRAMES < *send_ns ? (double)sending / FRAMES : *send_ns;
        *receive_ns =
            (double)receiving / FRAMES < *receive_ns ? (double)receiving / FRAMES : *receive_ns;
    }
    return true;
}

/* Two ends of a TCP connection of this machine. */
static bool open_tcp_pair(int fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good =
        listening >= 0 && fds[0] >= 0 && bind(listening, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listening, 1) == 0 && getsockname(listening, (struct sockaddr *)&at, &bytes) == 0 &&
        connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0;
    fds[1] = good ? accept4(listening, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (listening >= 0)
        close(listening);
    if (fds[1] < 0)
        return report_errno("a TCP connection on this machine");
    rendezvous_tune(fds[0]);
    rendezvous_tune(fds[1]);
    return true;
}

/* Between agent and PE over AF_UNIX; between hosts over TCP, with tags. */
static bool measure_wire(bool keyed, struct scale_frame_cost *cost)
{
    const uint8_t keys[2][WIRE_KEY_BYTES] = {{1}, {2}};
    struct wire ends[2];
    double small_send, small_receive, large_send, large_receive;
    int fds[2];
    if (keyed ? !open_tcp_pair(fds)
              : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 &&
                    !report_errno("a socket pair"))
        return false;
    for (int i = 0; i < 2; i++)
        wire_init(&ends[i], fds[i], keyed ? keys : NULL, i == 0);
    bool good = time_frames(ends, SMALL_BYTES, &small_send, &small_receive) &&
                time_frames(ends, LARGE_BYTES, &large_send, &large_receive);
    wire_close(&ends[0]);
    wire_close(&ends[1]);
    if (!good)
        return false;
    const double more = LARGE_BYTES - SMALL_BYTES;
    *cost = (struct scale_frame_cost){.send_ns = small_send,
                                      .send_byte_ns = (large_send - small_send) / more,
                                      .receive_ns = small_receive,
                                      .receive_byte_ns = (large_receive - small_receive) / more};
    if (cost->send_byte_ns < 0)
        cost->send_byte_ns = 0;
    if (cost->receive_byte_ns < 0)
        cost->receive_byte_ns = 0;
    return true;
}

/* Half of the round trip of a byte between two processes that sleep until it comes: the mean of the
 * best group. */
static bool measure_wake(double *wake_ns)
{
    int fds[2];
    char byte = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return report_errno("a socket pair");
    pid_t echo = fork();
    if (echo < 0)
        return report_errno("fork");
    if (echo == 0) {
        close(fds[0]);
        while (read(fds[1], &byte, 1) == 1 && write(fds[1], &byte, 1) == 1)
            ;
        _exit(0);
    }
    close(fds[1]);
    bool good = true;
    *wake_ns = 1e18;
    for (int group = 0; group < GROUPS && good; group++) {
        uint64_t began = clock_now_ns();
        for (int i = 0; i < TURNS / GROUPS && good; i++)
            good = write(fds[0], &byte, 1) == 1 && read(fds[0], &byte, 1) == 1;
        const double ns = (double)(clock_now_ns() - began) / (TURNS / GROUPS) / 2;
        *wake_ns = ns < *wake_ns ? ns : *wake_ns;
    }
    close(fds[0]);
    waitpid(echo, NULL, 0);
    return good || report_errno("a byte between two processes");
}

/* The system calls of run.c and agent.c around a frame: epoll_wait(), and epoll_ctl() of the wire
 * that a frame was posted to. */
static bool measure_turn(double *turn_ns)
{
    int fds[2], epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN}, got;
    if (epoll < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return report_errno("epoll");
    bool good = write(fds[1], "", 1) == 1 && epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event) == 0;
    uint64_t began = clock_now_ns();
    for (int i = 0; i < TURNS && good; i++)
        good = epoll_wait(epoll, &got, 1, -1) == 1 &&
               epoll_ctl(epoll, EPOLL_CTL_MOD, fds[0], &event) == 0;
    *turn_ns = (double)(clock_now_ns() - began) / TURNS;
    close(fds[0]);
    close(fds[1]);
    close(epoll);
    return good || report_errno("epoll");
}

/* A copy of a block that is larger than the caches of a core. */
static bool measure_copy(double *copy_ns)
{
    enum { BLOCK_BYTES = 32 << 20 };
    char *from = malloc(BLOCK_BYTES), *to = malloc(BLOCK_BYTES);
    bool good = from && to;
    *copy_ns = 1e18;
    for (int i = 0; i < BEST_OF && good; i++) {
        memset(from, i, BLOCK_BYTES);
        uint64_t began = clock_now_ns();
        memcpy(to, from, BLOCK_BYTES);
        const double ns = (double)(clock_now_ns() - began) / BLOCK_BYTES;
        *copy_ns = ns < *copy_ns && to[i] == i ? ns : *copy_ns;
    }
    free(from);
    free(to);
    if (!good)
        fprintf(stderr, "weft bench scale: no memory to measure copies\n");
    return good;
}

bool scale_costs_measure(struct scale_costs *costs)
{
    const struct crypto_driver *crypto;
    if (crypto_load(&crypto)) {
        fprintf(stderr, "weft bench scale: %s\n", weft_last_error());
        return false;
    }
    return measure_wire(false, &costs->plain) && measure_wire(true, &costs->keyed) &&
           measure_wake(&costs->wake_ns) && measure_turn(&costs->turn_ns) &&
           measure_copy(&costs->copy_ns);
}

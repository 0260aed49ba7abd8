/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a write of 8 bytes in the software HCA: CPU time of the engines, within one process
 * and between two, and the rate while requests are posted. The figures are printed and not
 * judged. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOG_RING = 14, HALF = 1 << (LOG_RING - 1), BLOCK = 64, WORDS = 1024 };

static double clock_of(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* CPU seconds of all threads except this one. */
static double engine_seconds(void)
{
    return clock_of(CLOCK_PROCESS_CPUTIME_ID) - clock_of(CLOCK_THREAD_CPUTIME_ID);
}

/* Fills the ring's first round with the client's functions; later rounds differ in index and
 * value. */
static void fill_ring(struct client *c)
{
    for (unsigned i = 0; i < 2 * HALF; i++) {
        struct wqe_maker w;
        uint64_t v = i;
        wqe_begin(&w, c, MLX5_OPCODE_RDMA_WRITE, 0,
                  i % HALF == HALF - 1 ? MLX5_WQE_CTRL_CQ_UPDATE : 0, 0);
        wqe_remote(&w, c->remote_memory + i % WORDS * 8, c->remote_rkey);
        wqe_inline(&w, &v, 8);
        wqe_end(&w);
    }
    c->next = 0;
}

static void post(struct client *c, unsigned count)
{
    for (unsigned i = 0; i < count; i++, c->next++) {
        uint8_t *at = c->ring + (size_t)(c->next & (2 * HALF - 1)) * BLOCK;
        at[1] = (uint8_t)(c->next >> 8);
        at[2] = (uint8_t)c->next;
    }
    client_doorbell(c);
}

/* Sleeps while the engines work; false: an error. */
static bool wait_for(struct client *c, uint16_t index)
{
    for (;;) {
        uint64_t last = __atomic_load_n((uint64_t *)&c->cqes[0].sop_drop_qpn, __ATOMIC_ACQUIRE);
        uint16_t seen = (uint16_t)((last >> 32 & 0xff) << 8 | (last >> 40 & 0xff));
        if (last >> 60 == 13)
            return false;
        if (last >> 60 == 0 && (int16_t)(seen - index) >= 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static int measure(struct client *c, unsigned rounds, const char *what)
{
    fill_ring(c);
    double begin = clock_of(CLOCK_MONOTONIC), engine = engine_seconds();
    for (unsigned r = 0; r < rounds; r++) {
        post(c, HALF);
        if (r && !wait_for(c, (uint16_t)(r * HALF - 1)))
            return 2;
    }
    if (!wait_for(c, (uint16_t)(rounds * HALF - 1)))
        return 2;
    double s = clock_of(CLOCK_MONOTONIC) - begin, n = (double)rounds * HALF;
    engine = engine_seconds() - engine;
    printf("%-28s %7.2f M writes a second, %6.1f ns of the engine's CPU a write\n", what,
           n / s * 1e-6, engine / n * 1e9);
    fflush(stdout);
    return 0;
}

static int one_process(unsigned rounds)
{
    struct client a, b;
    struct client_options o = {.log_sq = LOG_RING};
    if (client_open(&a, &o) || client_open(&b, &o))
        return 1;
    client_pair(&a, &b);
    if (client_connect(&a) || client_connect(&b))
        return 1;
    int e = measure(&a, rounds, "in one process");
    client_close(&a);
    client_close(&b);
    return e;
}

/* Exchanges the addresses and keys of both ends. */
static int exchange(struct client *c, int fd)
{
    struct client other;
    if (write(fd, c, sizeof *c) != sizeof *c ||
        recv(fd, &other, sizeof other, MSG_WAITALL) != sizeof other)
        return 1;
    client_pair(c, &other);
    char ready;
    if (client_connect(c) || write(fd, "", 1) != 1)
        return 1;
    return read(fd, &ready, 1) != 1;
}

static int two_processes(unsigned rounds)
{
    struct client c;
    struct client_options o = {.log_sq = LOG_RING};
    int fds[2], status = 0;
    char end;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return 1;
    pid_t child = fork();
    int fd = fds[child == 0];
    close(fds[child != 0]);
    int e = client_open(&c, &o) || exchange(&c, fd);
    if (child == 0) {
        double engine = engine_seconds();
        e = e || read(fd, &end, 1) != 1;
        printf("%-28s %41.1f ns\n", "  beside that, at the target",
               (engine_seconds() - engine) / ((double)rounds * HALF) * 1e9);
        fflush(stdout);
        _exit(e);
    }
    e = e ? e : measure(&c, rounds, "between two processes");
    e |= write(fd, "", 1) != 1;
    waitpid(child, &status, 0);
    client_close(&c);
    return e | status;
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 500;
    /* The second measurement runs first, because a process with an open device must not fork. */
    int e = two_processes(rounds);
    return e ? e : one_process(rounds);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of a member of a job. The test holds the other ends of the member's connections. No
 * wait takes time: it runs a step of the test, or reaches its limit. The program wraps the
 * functions that are defined here as __wrap_. */
#ifndef WEFT_TESTS_MEMBER_H
#define WEFT_TESTS_MEMBER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/held_locks.h"

#include "boot/hub/member.h"

#include "base/status.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { N = 3 };
static const int pes[N] = {4, 6, 9};

static struct member m;
static struct wire far[N]; /* the other ends of the member's connections */

static struct {
    int polls, pauses;
    uint64_t left_ns;      /* remaining time of the last wait */
    void (*step[4])(void); /* what each wait runs; NULL = the wait reaches its limit */
    int next;
    int wait_error, create_error, control_error;
    int blocks_left; /* number of calls of calloc() until one fails; 0 = none fails */
} waits;

static bool next_step(const struct boot_limit *limit)
{
    waits.left_ns = limit->left_ns;
    void (*step)(void) = waits.next < 4 ? waits.step[waits.next++] : NULL;
    if (step)
        step();
    return step != NULL;
}

bool __wrap_boot_limit_poll(struct boot_limit *limit, int fd, short events);
bool __wrap_boot_limit_poll(struct boot_limit *limit, int fd, short events)
{
    assert_int_equal(fd, m.epoll);
    assert_int_equal(events, POLLIN);
    waits.polls++;
    return next_step(limit);
}

bool __wrap_boot_limit_pause(struct boot_limit *limit);
bool __wrap_boot_limit_pause(struct boot_limit *limit)
{
    waits.pauses++;
    return next_step(limit);
}

int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int limit);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int limit);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int limit)
{
    assert_int_equal(limit, 0);
    errno = waits.wait_error;
    waits.wait_error = 0;
    return errno ? -1 : __real_epoll_wait(epoll, events, most, limit);
}

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
    assert_int_equal(flags, EPOLL_CLOEXEC);
    errno = waits.create_error;
    return errno ? -1 : __real_epoll_create1(flags);
}

int __real_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    errno = waits.control_error;
    return errno ? -1 : __real_epoll_ctl(epoll, operation, fd, event);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock)
{
    return is_held(lock) ? EBUSY : __wrap_pthread_mutex_lock(lock);
}

/* ------------------------------------------------------------------------------------ resources */

static struct {
    int memory, locks, descriptors;
} taken_now;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    taken_now.memory++;
    return __real_malloc(bytes);
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    if (waits.blocks_left && !--waits.blocks_left)
        return NULL;
    taken_now.memory++;
    return __real_calloc(n, bytes);
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    taken_now.memory += !memory;
    return __real_realloc(memory, bytes);
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    taken_now.memory -= memory != NULL;
    __real_free(memory);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes)
{
    (void)lock, (void)attributes;
    taken_now.locks++;
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *lock)
{
    assert_false(is_held(lock));
    taken_now.locks--;
    return 0;
}

/* Selects which descriptor has the number 0. The tested code must not take 0 for "no
 * descriptor". */
enum { ZERO_OTHER, ZERO_WIRE, ZERO_EPOLL, ZERO_TAKEN, ZEROS };
static int zero;

static void free_zero(int when)
{
    if (zero == when)
        close(0);
}

static void fill_zero(void)
{
    if (fcntl(0, F_GETFD) < 0)
        assert_int_equal(open("/dev/null", O_RDONLY), 0);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void pair(struct wire *here, struct wire *there)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    wire_init(here, fds[0], NULL, false);
    wire_init(there, fds[1], NULL, true);
}

static int reset(void **state)
{
    (void)state;
    fill_zero();
    memset(&waits, 0, sizeof waits);
    memset(&taken_now, 0, sizeof taken_now);
    taken_now.descriptors = open_descriptors();
    for (int i = 0; i < N; i++)
        far[i] = (struct wire){.fd = -1};
    return 0;
}

static inline int open_hub(void **state)
{
    reset(state);
    struct wire *wires = calloc(N, sizeof *wires);
    wires[0].fd = -1;
    free_zero(ZERO_WIRE);
    for (int i = 1; i < N; i++)
        pair(&wires[i], &far[i]);
    free_zero(ZERO_EPOLL);
    return member_init(&m, N, 0, pes, wires);
}

/* Opens m as the last of the members. far[0] is the hub's end. */
static inline int open_member(void **state)
{
    reset(state);
    struct wire *wires = calloc(1, sizeof *wires);
    free_zero(ZERO_WIRE);
    pair(&wires[0], &far[0]);
    free_zero(ZERO_EPOLL);
    return member_init(&m, N, 2, pes, wires);
}

static inline void expect_all_given_back(void)
{
    for (int i = 0; i < N; i++)
        wire_close(&far[i]);
    fill_zero();
    assert_int_equal(open_descriptors(), taken_now.descriptors);
    assert_int_equal(taken_now.memory, 0);
    assert_int_equal(taken_now.locks, 0);
    assert_true(none_is_held());
}

static inline int close_all(void **state)
{
    (void)state;
    waits.next = 4;
    member_close(&m, false);
    expect_all_given_back();
    return 0;
}

static void say(int from, uint32_t type, int number, const void *payload, size_t bytes)
{
    assert_int_equal(wire_post(&far[from], type, number, payload, bytes, -1), WEFT_OK);
}

/* Returns the next frame that the other end has received; NULL = none. */
static struct wire_frame *heard(int by)
{
    wire_read(&far[by]);
    return wire_take(&far[by]);
}

static inline void expect_frame(int by, uint32_t type, int number, const void *payload,
                                size_t bytes)
{
    struct wire_frame *frame = heard(by);
    assert_non_null(frame);
    assert_int_equal(frame->type, type);
    assert_int_equal(frame->number, number);
    assert_int_equal(frame->bytes, bytes);
    assert_memory_equal(frame->payload, payload, bytes);
    wire_frame_free(frame);
}

static inline void expect_sentence(int by, uint32_t type, int number, const char *sentence)
{
    expect_frame(by, type, number, sentence, strlen(sentence));
}

static inline void expect_silence(int by)
{
    assert_null(heard(by));
}

#endif

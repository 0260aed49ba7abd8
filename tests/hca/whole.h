/* SPDX-License-Identifier: Apache-2.0 */
/* The whole software HCA in one thread: a test makes its public calls and runs the engine's passes
 * itself. A device always has the same LID, no UNIX socket address, and no peer except itself.
 * Locks are checked, and heap blocks are counted. Each program wraps the functions that are wrapped
 * here (CMakeLists.txt). */
#ifndef WEFT_TESTS_HCA_WHOLE_H
#define WEFT_TESTS_HCA_WHOLE_H

#include "context.h"
#include "fails.h"
#include "trace.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <time.h>

enum { WHOLE_PID = 100, WHOLE_LID = WHOLE_PID * 8 + 1 };

static unsigned threads_made, threads_joined;
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*body)(void *), void *of);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*body)(void *), void *of)
{
    assert_null(a);
    assert_non_null(body);
    assert_non_null(of);
    memset(t, 0, sizeof *t);
    if (due("pthread_create"))
        return EAGAIN;
    threads_made++;
    return 0;
}

int __wrap_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result)
{
    assert_null(result);
    threads_joined++;
    return 0;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return WHOLE_PID;
}

/* Only for the UNIX sockets of devices. */
static int whole_listener = -1;
int __real_bind(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes)
{
    if (due("bind"))
        return -1;
    if (to->sa_family != AF_UNIX)
        return __real_bind(fd, to, bytes);
    whole_listener = fd;
    return 0;
}

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
    if (due("listen"))
        return -1;
    return fd == whole_listener ? 0 : __real_listen(fd, backlog);
}

static uint64_t whole_clock = 3000000000;
int __wrap_clock_gettime(clockid_t which, struct timespec *t);
int __wrap_clock_gettime(clockid_t which, struct timespec *t)
{
    whole_clock += 1000;
    *t = (struct timespec){(time_t)(whole_clock / 1000000000), (long)(whole_clock % 1000000000)};
    return 0;
}

/* Only a locked mutex is unlocked, and only an unlocked one is locked, because there is one
 * thread. */
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    assert_int_equal(pthread_mutex_trylock(m), 0);
    return 0;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    assert_int_equal(pthread_mutex_trylock(m), EBUSY);
    return __real_pthread_mutex_unlock(m);
}

static long blocks; /* heap blocks */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    void *at = due("calloc") ? NULL : __real_calloc(count, bytes);
    blocks += at != NULL;
    return at;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    void *at = due("malloc") ? NULL : __real_malloc(bytes);
    blocks += at != NULL;
    return at;
}

void __real_free(void *at);
void __wrap_free(void *at);
void __wrap_free(void *at)
{
    blocks -= at != NULL;
    __real_free(at);
}

/* The values of the variables, which a test may change. */
static inline struct config *whole_config(void)
{
    return (struct config *)(uintptr_t)config_get(NULL);
}

static inline struct ibv_context *whole_open(unsigned number)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    assert_non_null(list);
    assert_true((int)number < n);
    struct ibv_context *context = ibv_open_device(list[number]);
    ibv_free_device_list(list);
    return context;
}

static inline struct device *device_of(struct ibv_context *context)
{
    return context_of(context)->device;
}

/* Runs the engine until no work is left. */
static inline void pump(struct ibv_context *context)
{
    bool timed;
    for (unsigned quiet = 0, n = 0; quiet < 3 && n < 1000; n++)
        quiet = engine_pass(device_of(context), &timed) ? 0 : quiet + 1;
}

static inline void say_log(struct ibv_context *context)
{
    struct device *d = device_of(context);
    for (uint64_t i = d->record.line_count > LOG_LINES ? d->record.line_count - LOG_LINES : 0;
         i < d->record.line_count; i++)
        say("  log: %s\n", d->record.lines[i % LOG_LINES].text);
    d->record.line_count = 0;
}

/* The number of a queue within its device. */
static inline unsigned short_qpn(uint32_t qpn)
{
    return qpn >> 12 == WHOLE_LID || qpn >> 12 == WHOLE_LID + 1 ? qpn & 0xfff : qpn;
}

#endif

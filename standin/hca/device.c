/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of this process. Each is an HCA with one port and its own LID. All contexts opened on it
 * share it. Its engine and connector threads run while a context is open. */
#include "gpu/engine.h"
#include "hca.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device *made_devices[8];

void device_lock(struct device *d)
{
    atomic_fetch_add(&d->threads.lock_waiters, 1);
    pthread_mutex_lock(&d->threads.lock);
    atomic_fetch_sub(&d->threads.lock_waiters, 1);
}

void device_unlock(struct device *d)
{
    pthread_mutex_unlock(&d->threads.lock);
}

void device_wake(struct device *d)
{
    link_wake_engine(d->threads.wakeup);
}

void device_wake_connector(struct device *d)
{
    /* If the pipe is full, the thread is awake already. */
    ssize_t n = write(d->threads.wake[1], "", 1);
    (void)n;
}

void device_changes(struct device *d)
{
    /* Pairs with the load of a process that caches keys (gpu/engine.c). */
    __atomic_add_fetch(&d->threads.wakeup[2], 1, __ATOMIC_RELEASE);
}

int start_thread(pthread_t *t, void *(*body)(void *), struct device *d)
{
    /* Block all signals: they belong to the program's threads. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(t, NULL, body, d);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}

static void stop_threads(struct device *d, bool engine)
{
    atomic_store(&d->threads.stop, true);
    device_wake_connector(d);
    device_wake(d);
    pthread_join(d->threads.connector, NULL);
    if (engine)
        pthread_join(d->threads.engine, NULL);
}

static struct device *make_device(unsigned number)
{
    size_t table = MAX_MRS * sizeof(struct mr_entry);
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->number = number;
    d->pid = getpid();
    d->config = config_get(NULL);
    d->random = d->config->seed;
    d->objects.key_next = mr_first();
    pthread_mutex_init(&d->threads.lock, NULL);
    d->objects.keys.count = MAX_MRS;
    d->objects.keys.entries = mmap(NULL, table, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    d->objects.uar_top = 1;
    bool linked = d->objects.keys.entries != MAP_FAILED && !link_open(d);
    if (!linked || roce_open(d)) {
        int e = errno;
        if (linked)
            link_close(d);
        if (d->objects.keys.entries != MAP_FAILED)
            munmap(d->objects.keys.entries, table);
        free(d);
        errno = e;
        return NULL;
    }
    int e = start_thread(&d->threads.connector, connector_main, d);
    if (!e && (e = start_thread(&d->threads.engine, engine_main, d)))
        stop_threads(d, false);
    if (e) {
        link_close(d);
        roce_close(d);
        munmap(d->objects.keys.entries, table);
        free(d);
        errno = e;
        return NULL;
    }
    return d;
}

struct device *device_open(unsigned number)
{
    pthread_mutex_lock(&open_lock);
    struct device *d = made_devices[number];
    if (!d)
        d = made_devices[number] = make_device(number);
    if (d)
        d->users++;
    pthread_mutex_unlock(&open_lock);
    return d;
}

static void destroy(struct device *d)
{
    gpu_engine_stop(d);
    stop_threads(d, true);
    for (unsigned i = 0; i < MAX_QPS; i++)
        if (d->objects.qps[i])
            qp_remove(d->objects.qps[i]);
    link_close(d);
    roce_close(d);
    munmap(d->objects.keys.entries, MAX_MRS * sizeof(struct mr_entry));
    pthread_mutex_destroy(&d->threads.lock);
    free(d);
}

void device_close(struct device *d)
{
    pthread_mutex_lock(&open_lock);
    bool last = !--d->users;
    if (last)
        made_devices[d->number] = NULL;
    pthread_mutex_unlock(&open_lock);
    if (last)
        destroy(d);
}

/* Stops the threads of a program that exits without closing its devices, so that the engine does
 * not access memory that is being freed. A forked child has none of the threads. */
__attribute__((destructor)) static void stop_all(void)
{
    for (unsigned i = 0; i < 8; i++)
        if (made_devices[i] && made_devices[i]->pid == getpid()) {
            gpu_engine_stop(made_devices[i]);
            stop_threads(made_devices[i], true);
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See device_watch.h. */
#include "job/device_watch.h"

#include "base/status.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EVERY_NS = 50 * 1000 * 1000 };

struct device_watch {
    struct weft_job *job;
    pthread_t thread;
    pid_t process; /* a child of fork() has no such thread */
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stop;
};

/* Waits EVERY_NS. True: the thread shall stop. The caller holds the lock. */
static bool wait_interval(struct device_watch *watch)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += EVERY_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!watch->stop && pthread_cond_timedwait(&watch->stopped, &watch->lock, &until) == 0)
        ;
    return watch->stop;
}

static void *watch_faults(void *argument)
{
    struct device_watch *watch = argument;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&watch->lock);
    while (!status && !wait_interval(watch)) {
        pthread_mutex_unlock(&watch->lock);
        /* after a failure of the job there is nothing more to detect */
        status = life_check(watch->job);
        pthread_mutex_lock(&watch->lock);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

weft_status device_watch_start(struct weft_job *job, struct device_watch **result)
{
    *result = NULL;
    if (job->npes == 1 || job->threads_are_pes)
        return WEFT_OK;
    struct device_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a thread's state");
    watch->job = job;
    watch->process = getpid();
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->stopped, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = thread_start(&watch->thread, watch_faults, watch);
    if (error) {
        free(watch);
        return base_fail(WEFT_ERR_SYSTEM,
                         "pthread_create for the thread that watches device code: %s",
                         strerror(error));
    }
    *result = watch;
    return WEFT_OK;
}

weft_status device_watch_kernels(struct weft_job *job)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&job->lock);
    bool needed = !job->device && !job->gpu_watch;
    pthread_mutex_unlock(&job->lock);
    if (!needed)
        return WEFT_OK;
    pthread_mutex_lock(&job->lock);
    if (!job->gpu_watch) /* another thread may have started it meanwhile */
        status = device_watch_start(job, &job->gpu_watch);
    pthread_mutex_unlock(&job->lock);
    return status;
}

void device_watch_stop(struct device_watch *watch)
{
    if (!watch || watch->process != getpid())
        return;
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    pthread_cond_signal(&watch->stopped);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->stopped);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

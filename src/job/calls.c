/* SPDX-License-Identifier: Apache-2.0 */
/* Host callbacks on streams: counts the callbacks that have not run yet, which a job waits for
 * before it is left, and ensures that none runs while the job is being destroyed. Knows nothing of
 * streams. */
#include "job/waiter.h"

void job_callback_enqueued(struct weft_job *job)
{
    atomic_fetch_add(&job->callbacks.enqueued, 1);
}

bool job_callback_run(struct weft_job *job, void (*run)(void *argument), void *argument)
{
    struct job_callbacks *callbacks = &job->callbacks;
    pthread_mutex_lock(&callbacks->lock);
    bool open = !callbacks->closed;
    callbacks->running += open;
    pthread_mutex_unlock(&callbacks->lock);
    if (open)
        run(argument);
    pthread_mutex_lock(&callbacks->lock);
    callbacks->running -= open;
    if (!callbacks->running)
        pthread_cond_broadcast(&callbacks->idle);
    pthread_mutex_unlock(&callbacks->lock);
    atomic_fetch_add(&callbacks->finished, 1);
    return open;
}

static bool any_running(struct job_callbacks *callbacks)
{
    pthread_mutex_lock(&callbacks->lock);
    bool any = callbacks->running != 0;
    pthread_mutex_unlock(&callbacks->lock);
    return any;
}

weft_status job_callbacks_wait(struct weft_job *job)
{
    struct waiter waiter = WAITER(job, BOX_OP_FINALIZE, -1);
    weft_status status = WEFT_OK;
    waiter.compare = BOX_COMPARE_CALLBACKS;
    waiter.expected = atomic_load(&job->callbacks.enqueued);
    for (uint64_t finished;
         !status && (finished = atomic_load(&job->callbacks.finished)) < waiter.expected;) {
        /* a running callback has its own time limit, so it counts as progress */
        waiter.others += any_running(&job->callbacks);
        status = waiter_step(&waiter, finished);
    }
    waiter_end(&waiter);
    return status;
}

void job_callbacks_stop(struct weft_job *job)
{
    struct job_callbacks *callbacks = &job->callbacks;
    pthread_mutex_lock(&callbacks->lock);
    callbacks->closed = true;
    while (callbacks->running)
        pthread_cond_wait(&callbacks->idle, &callbacks->lock);
    pthread_mutex_unlock(&callbacks->lock);
}

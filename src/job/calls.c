/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the host that streams have been given: how many have still to be made, which a job waits
 * for before it is left; and that none is made in a job that is being taken apart. Knows nothing of
 * streams. */
#include "job/waiter.h"

void job_call_given(struct weft_job *job)
{
    atomic_fetch_add(&job->calls.given, 1);
}

bool job_call_make(struct weft_job *job, void (*run)(void *argument), void *argument)
{
    struct job_calls *calls = &job->calls;
    pthread_mutex_lock(&calls->lock);
    bool open = !calls->closed;
    calls->running += open;
    pthread_mutex_unlock(&calls->lock);
    if (open)
        run(argument);
    pthread_mutex_lock(&calls->lock);
    calls->running -= open;
    if (!calls->running)
        pthread_cond_broadcast(&calls->idle);
    pthread_mutex_unlock(&calls->lock);
    atomic_fetch_add(&calls->made, 1);
    return open;
}

static bool any_runs(struct job_calls *calls)
{
    pthread_mutex_lock(&calls->lock);
    bool any = calls->running != 0;
    pthread_mutex_unlock(&calls->lock);
    return any;
}

weft_status job_calls_await(struct weft_job *job)
{
    struct waiter waiter = WAITER(job, BOX_OP_FINALIZE, -1);
    weft_status status = WEFT_OK;
    waiter.compare = BOX_COMPARE_CALLS;
    waiter.expected = atomic_load(&job->calls.given);
    for (uint64_t made; !status && (made = atomic_load(&job->calls.made)) < waiter.expected;) {
        waiter.others += any_runs(&job->calls); /* what runs has a limit of its own */
        status = waiter_step(&waiter, made);
    }
    waiter_end(&waiter);
    return status;
}

void job_calls_close(struct weft_job *job)
{
    struct job_calls *calls = &job->calls;
    pthread_mutex_lock(&calls->lock);
    calls->closed = true;
    while (calls->running)
        pthread_cond_wait(&calls->idle, &calls->lock);
    pthread_mutex_unlock(&calls->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, sections 9.1 and 9.2: joining and leaving the job, and how a failure ends it.
 * Holds the one implicit job. */
#include "shmem/routine.h"

#include "base/config.h"
#include "job/job.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int thread_level;
static bool was_open;
static pid_t own_pid; /* a forked child is not a PE */

static bool has_tool;

static const struct weft_shmem closed = {.my_pe = -1, .n_pes = -1};
struct weft_shmem shmem_own = {.my_pe = -1, .n_pes = -1};
WEFT_EXPORT struct weft_shmem weft_shmem = {.my_pe = -1, .n_pes = -1};

void weft_shmem_tool_is_here(void);
WEFT_EXPORT void weft_shmem_tool_is_here(void)
{
    has_tool = true;
}

WEFT_EXPORT void weft_shmem_fail(const char *routine, weft_status status)
{
    /* The library's own symbols have the prefix of the profiling interface. */
    if (strncmp(routine, "pshmem", 6) == 0)
        routine++;
    if (!shmem_own.job) {
        log_error(LOG_SHMEM, "%s was called before shmem_init or after shmem_finalize", routine);
        exit(EXIT_FAILURE);
    }
    /* A PE that called shmem_global_exit(0) has ended the waits of the other PEs, which is not a
     * failure. */
    if (status <= WEFT_ERR_PEER_DEAD && job_ended_well(shmem_own.job)) {
        fflush(NULL);
        _exit(EXIT_SUCCESS);
    }
    log_error(LOG_SHMEM, "%s: %s", routine, base_sentence("shmem", status));
    fflush(NULL);
    weft_abort(shmem_own.job, EXIT_FAILURE);
}

int shmem_result(const char *routine, weft_status status)
{
    if (likely(status == WEFT_OK))
        return 0;
    if (status <= WEFT_ERR_PEER_DEAD || !shmem_own.job)
        weft_shmem_fail(routine, status);
    log_error(LOG_SHMEM, "%s: %s", routine[0] == 'p' ? routine + 1 : routine,
              base_sentence("shmem", status));
    return status;
}

static void finalize_job(void)
{
    weft_job *job = shmem_own.job;
    shmem_teams_close();
    weft_status status = weft_finalize(job);
    if (status)
        weft_shmem_fail("shmem_finalize", status);
    weft_shmem = shmem_own = closed;
}

/* A program that returns from main without shmem_finalize() is finalized here, as start_pes() has
 * promised since 1.0. A program that fails is not: the launcher ends the other PEs, which may never
 * call shmem_finalize(). */
static void finalize_at_exit(int code, void *unused)
{
    if (shmem_own.job && code == 0 && getpid() == own_pid)
        finalize_job();
}

static weft_status join_job(int thread)
{
    static int registered;
    weft_init_attr attr = {
        .size = sizeof attr, .thread = (weft_thread)thread, .flags = WEFT_INIT_GLOBAL_DATA};
    weft_status status = shmem_environment_read(&attr.heap_bytes);
    if (status)
        return status;
    weft_job *job;
    status = weft_init(&job, &attr);
    if (status)
        return status;
    shmem_own = (struct weft_shmem){.ctx = weft_default_ctx(job),
                                    .job = job,
                                    .my_pe = weft_my_pe(job),
                                    .n_pes = weft_n_pes(job),
                                    .world = weft_team_world(job),
                                    .shared = shmem_find_shared(job)};
    if (!has_tool)
        weft_shmem = shmem_own;
    thread_level = thread;
    was_open = true;
    own_pid = getpid();
    if (!registered)
        registered = on_exit(finalize_at_exit, NULL) == 0;
    shmem_environment_print();
    return WEFT_OK;
}

static void join_job_or_exit(const char *routine, int thread)
{
    if (shmem_own.job) {
        log_warn(LOG_SHMEM, "%s: the library is initialized already; the call has no effect",
                 routine);
        return;
    }
    weft_status status = join_job(thread);
    if (status) {
        log_error(LOG_SHMEM, "%s: %s", routine, base_sentence("shmem", status));
        exit(EXIT_FAILURE);
    }
}

SHMEM_ROUTINE(void, shmem_init, (void))
{
    join_job_or_exit("shmem_init", SHMEM_THREAD_SINGLE);
}

SHMEM_ROUTINE(int, shmem_init_thread, (int requested, int *provided))
{
    if (requested < SHMEM_THREAD_SINGLE || requested > SHMEM_THREAD_MULTIPLE) {
        log_error(LOG_SHMEM,
                  "shmem_init_thread: %d is not a thread level (0 single ... 3 multiple)",
                  requested);
        return WEFT_ERR_ARGUMENT;
    }
    join_job_or_exit("shmem_init_thread", requested);
    if (provided)
        *provided = requested;
    return 0;
}

/* A repeated call has no effect (9.1). */
SHMEM_ROUTINE(void, start_pes, (int npes))
{
    if (!shmem_own.job)
        join_job_or_exit("start_pes", SHMEM_THREAD_SINGLE);
}

SHMEM_ROUTINE(void, shmem_query_thread, (int *provided))
{
    *provided = thread_level;
}

SHMEM_ROUTINE(void, shmem_finalize, (void))
{
    if (!shmem_own.job && was_open) {
        log_warn(LOG_SHMEM, "shmem_finalize was called a second time; the call has no effect");
        return;
    }
    if (!shmem_own.job)
        weft_shmem_fail("shmem_finalize", WEFT_ERR_FINALIZED);
    finalize_job();
}

WEFT_SHMEM_NORETURN void pshmem_global_exit(int status);
WEFT_SHMEM_NORETURN void shmem_global_exit(int status)
    __attribute__((weak, alias("pshmem_global_exit"), visibility("default")));
WEFT_EXPORT void pshmem_global_exit(int status)
{
    fflush(NULL);
    if (!shmem_own.job)
        exit(status);
    weft_abort(shmem_own.job, status);
}

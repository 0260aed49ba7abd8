/* SPDX-License-Identifier: Apache-2.0 */
/* The implicit job of <nvshmem.h>. The predefined teams have the first four team numbers: the
 * world, the node, and the row and the column of the PEs laid out by node. A team that the program
 * splits off has its device team number, so that one number serves host and device. */
#include "nvshmem/regions.h"
#include "nvshmem/team_meet.h"
#include "nvshmem/unique_id.h"

#include "base/log.h"
#include "base/sentence.h"
#include "job/device_state.h"

#include <weft/nvshmem/constants.h>

#include <stdlib.h>

/* Handles that nvshmemx_qp_create() has returned. */
struct queues {
    struct queues *next;
    int handles[];
};

static struct {
    weft_job *job;
    int inits;
    weft_team *row, *column;
    struct queues *queues;
} implicit;

WEFT_EXPORT weft_job *weft_nvshmem_job(void)
{
    return implicit.job;
}

WEFT_EXPORT weft_ctx *weft_nvshmem_ctx(void)
{
    return implicit.job ? weft_default_ctx(implicit.job) : NULL;
}

WEFT_EXPORT int weft_nvshmem_inits(void)
{
    return implicit.inits;
}

WEFT_EXPORT int weft_nvshmem_report(weft_status status, const char *function)
{
    if (!status)
        return 0;
    log_error(LOG_SHMEM, "%s: %s", function, base_sentence("nvshmem", status));
    return (int)status;
}

WEFT_EXPORT int weft_nvshmem_check_bits(const char *what, unsigned long given, unsigned long known)
{
    weft_status status = base_check_bits(what, given, known);
    if (status)
        log_error(LOG_SHMEM, "%s", weft_last_error());
    return (int)status;
}

WEFT_EXPORT void weft_nvshmem_require(weft_status status, const char *function)
{
    if (weft_nvshmem_report(status, function))
        weft_abort(implicit.job, 1);
}

/* When nothing was split before, slots 2 and 3 are the lowest free ones at every PE. */
static weft_status make_teams(weft_job *job)
{
    weft_status status =
        weft_team_split_2d(weft_team_world(job), weft_team_n_pes(weft_team_node(job)),
                           &implicit.row, &implicit.column);
    if (!status && (implicit.row->slot != 2 || implicit.column->slot != 3))
        return base_fail(WEFT_ERR_JOB,
                         "the predefined teams have the numbers %d and %d, not 2 and 3",
                         implicit.row->slot, implicit.column->slot);
    return status;
}

WEFT_EXPORT int weft_nvshmem_init(const unsigned char *id, int pe, int n_pes)
{
    if (implicit.inits++)
        return 0;
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_SERIALIZED};
    weft_unique_id meeting;
    weft_status status = id ? unique_id_use(id, pe, n_pes, &meeting, &attr) : WEFT_OK;
    if (!status)
        status = weft_init(&implicit.job, &attr);
    if (!status)
        status = weft_device_start(implicit.job);
    if (!status)
        status = make_teams(implicit.job);
    if (!status)
        status = team_meet_start(implicit.job);
    if (!status)
        return 0;
    implicit.inits = 0;
    return weft_nvshmem_report(status, "nvshmem_init");
}

WEFT_EXPORT void weft_nvshmem_no_init(int shmem)
{
    weft_nvshmem_report(
        shmem ? base_fail(
                    WEFT_ERR_UNSUPPORTED,
                    "NVSHMEMX_INIT_WITH_SHMEM is not supported; pass flags 0 when weft run starts "
                    "the program, else pass a unique id on by OpenSHMEM and use "
                    "NVSHMEMX_INIT_WITH_UNIQUEID")
              : base_fail(WEFT_ERR_UNSUPPORTED,
                          "NVSHMEMX_INIT_THREAD_PES is not supported: a process "
                          "is one PE; start a process for each"),
        "nvshmemx_init_attr");
}

static void free_queues(void)
{
    while (implicit.queues) {
        struct queues *first = implicit.queues;
        implicit.queues = first->next;
        free(first);
    }
}

/* A failure in device code ends the process. When another PE does not reach the finalize, because
 * it has ended or exceeds the wait limit, the sentence is printed and the process continues. */
WEFT_EXPORT void weft_nvshmem_finalize(void)
{
    if (!implicit.job || --implicit.inits)
        return;
    weft_nvshmem_require(weft_device_check(implicit.job), "nvshmem_finalize");
    weft_nvshmem_report(weft_finalize(implicit.job), "nvshmem_finalize");
    implicit.job = NULL;
    team_meet_end();
    free_queues();
    regions_end();
}

/* Every PE returns the same numbers, none of them a reserved one. */
WEFT_EXPORT int weft_nvshmem_queues(int n, int **handles)
{
    static int last = NVSHMEMX_QP_DEFAULT;
    if (!implicit.job || n < 1 || !handles)
        return weft_nvshmem_report(
            base_fail(WEFT_ERR_ARGUMENT, "%d queues; after nvshmem_init, at least 1", n),
            "nvshmemx_qp_create");
    struct queues *queues = malloc(sizeof *queues + (size_t)n * sizeof *queues->handles);
    if (!queues)
        return weft_nvshmem_report(base_fail(WEFT_ERR_NO_MEMORY, "no private memory"),
                                   "nvshmemx_qp_create");
    for (int i = 0; i < n; i++)
        queues->handles[i] = ++last;
    queues->next = implicit.queues;
    implicit.queues = queues;
    *handles = queues->handles;
    return 0;
}

WEFT_EXPORT weft_team *weft_nvshmem_team(int number)
{
    if (!implicit.job)
        return NULL;
    pthread_mutex_lock(&implicit.job->lock);
    struct weft_team *team = implicit.job->teams;
    while (team && team->slot != number)
        team = team->next;
    pthread_mutex_unlock(&implicit.job->lock);
    return team;
}

WEFT_EXPORT int weft_nvshmem_team_number(weft_team *team)
{
    return team ? team->slot : -1;
}

WEFT_EXPORT void *weft_nvshmem_alloc(size_t bytes, size_t align, int zeroed)
{
    void *address = NULL;
    if (!implicit.job) {
        log_warn(LOG_SHMEM, "nvshmem_malloc: there is no job: before nvshmem_init() and after "
                            "nvshmem_finalize() nothing is symmetric");
        return NULL;
    }
    weft_status status = weft_alloc(implicit.job, weft_device_kind(implicit.job), bytes, align,
                                    zeroed ? WEFT_ALLOC_ZERO : 0, &address);
    weft_nvshmem_report(status, "nvshmem_malloc");
    return status ? NULL : address;
}

WEFT_EXPORT void *weft_nvshmem_resize(void *address, size_t bytes)
{
    void *resized = NULL;
    if (!address || !implicit.job) /* weft_nvshmem_alloc() reports a missing job */
        return weft_nvshmem_alloc(bytes, 512, 0);
    weft_status status = weft_realloc(implicit.job, address, bytes, &resized);
    weft_nvshmem_report(status, "nvshmem_realloc");
    return status ? NULL : resized;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* PEs started by a launcher that speaks PMIx (mpirun of Open MPI, srun --mpi=pmix, prterun). PMIx
 * carries the first exchanges; the PEs of a node then connect to each other over AF_UNIX, for
 * descriptors and for news of a PE's end, and if that is the whole job, for all else: a fence of
 * PMIx costs much more than an exchange among them. */
#include "driver/pmix.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "boot/member.h"
#include "boot/methods.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct pmix_boot {
    struct boot boot;
    const struct pmix_driver *pmix;
    pmix_proc_t self;
    struct member node;
    bool has_node; /* `node` is connected */
};

/* A process that finalizes PMIx and begins anew confuses its server (the fence of another PE may find
 * it gone), so the connection lasts until the process ends, for every job that it joins. */
static struct {
    pthread_mutex_t lock;
    const struct pmix_driver *pmix; /* NULL: not connected */
    pid_t process;
    pmix_proc_t self;
    bool clean;         /* the last job ended well */
    unsigned exchanges; /* keys of one job are never used again in the next */
} connection = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct pmix_boot *self(struct boot *boot)
{
    return (struct pmix_boot *)boot;
}

static weft_status pmix_fail(const struct pmix_boot *made, const char *call, pmix_status_t error)
{
    return base_fail(WEFT_ERR_BOOT, "%s: %s (%d)", call, made->pmix->Error_string(error),
                     (int)error);
}

/* -------------------------------------------------------------------------------------- fence */

/* Shared with PMIx's thread; the last of the two to let go frees it. */
struct fence {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool done;
    bool abandoned;
    pmix_status_t result;
};

static void fence_free(struct fence *fence)
{
    pthread_cond_destroy(&fence->moved);
    pthread_mutex_destroy(&fence->lock);
    free(fence);
}

static void fence_done(pmix_status_t result, void *argument)
{
    struct fence *fence = argument;
    pthread_mutex_lock(&fence->lock);
    fence->result = result;
    fence->done = true;
    bool abandoned = fence->abandoned;
    pthread_cond_signal(&fence->moved);
    pthread_mutex_unlock(&fence->lock);
    if (abandoned)
        fence_free(fence);
}

static struct fence *fence_make(void)
{
    struct fence *fence = calloc(1, sizeof *fence);
    if (!fence)
        return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&fence->moved, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&fence->lock, NULL);
    return fence;
}

/* Waits for PMIx's answer; true when it came. */
static bool fence_await(struct fence *fence)
{
    uint64_t limit_ns = config_duration_ns(CONFIG_WAIT_LIMIT);
    uint64_t until_ns = clock_now_ns() + limit_ns;
    struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&fence->lock);
    int error = 0;
    while (!fence->done && !error)
        error = limit_ns ? pthread_cond_timedwait(&fence->moved, &fence->lock, &until)
                         : pthread_cond_wait(&fence->moved, &fence->lock);
    bool done = fence->done;
    fence->abandoned = !done;
    pthread_mutex_unlock(&fence->lock);
    return done;
}

static pmix_info_t flag(const char *key)
{
    pmix_info_t info = {.value = {.type = PMIX_BOOL, .data.flag = true}};
    snprintf(info.key, sizeof info.key, "%s", key);
    return info;
}

static weft_status fence_all(struct pmix_boot *made)
{
    pmix_info_t collect = flag(PMIX_COLLECT_DATA);
    struct fence *fence = fence_make();
    if (!fence)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a PMIx fence");
    pmix_status_t error = made->pmix->Fence_nb(NULL, 0, &collect, 1, fence_done, fence);
    if (error == PMIX_OPERATION_SUCCEEDED || error != PMIX_SUCCESS) { /* it will not call back */
        fence_free(fence);
        return error == PMIX_OPERATION_SUCCEEDED ? WEFT_OK
                                                 : pmix_fail(made, "PMIx_Fence_nb", error);
    }
    if (!fence_await(fence))
        return base_fail(WEFT_ERR_TIMEOUT,
                         "not every PE came to an exchange over PMIx within WEFT_WAIT_LIMIT");
    error = fence->result;
    fence_free(fence);
    return error == PMIX_SUCCESS ? WEFT_OK : pmix_fail(made, "PMIx_Fence", error);
}

/* ----------------------------------------------------------------------------------- exchange */

static weft_status put(struct pmix_boot *made, const char *key, const void *mine, size_t bytes)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT,
                          .data.bo = {.bytes = (char *)mine, .size = bytes}};
    pmix_status_t error = made->pmix->Put(PMIX_GLOBAL, key, &value);
    if (error != PMIX_SUCCESS)
        return pmix_fail(made, "PMIx_Put", error);
    error = made->pmix->Commit();
    return error == PMIX_SUCCESS ? WEFT_OK : pmix_fail(made, "PMIx_Commit", error);
}

static weft_status get(struct pmix_boot *made, const char *key, int pe, void *part, size_t bytes)
{
    pmix_proc_t of = made->self;
    pmix_value_t *value = NULL;
    of.rank = (pmix_rank_t)pe;
    pmix_status_t error = made->pmix->Get(&of, key, NULL, 0, &value);
    if (error != PMIX_SUCCESS)
        return base_fail_context(pmix_fail(made, "PMIx_Get", error), "what PE %d gave", pe);
    weft_status status = WEFT_OK;
    bool is_bytes = value->type == PMIX_BYTE_OBJECT;
    if (is_bytes && value->data.bo.size == bytes)
        memcpy(part, value->data.bo.bytes, bytes);
    else
        status = base_fail(WEFT_ERR_MISMATCH, "PE %d exchanges %zu bytes, PE %d %zu bytes",
                           made->boot.pe, bytes, pe, is_bytes ? value->data.bo.size : 0);
    if (is_bytes)
        free(value->data.bo.bytes);
    free(value);
    return status;
}

static weft_status exchange(struct pmix_boot *made, const void *mine, void *all, size_t bytes)
{
    char key[32];
    pthread_mutex_lock(&connection.lock);
    snprintf(key, sizeof key, "weft.%u", connection.exchanges++);
    pthread_mutex_unlock(&connection.lock);
    weft_status status = put(made, key, mine, bytes);
    if (!status)
        status = fence_all(made);
    for (int pe = 0; !status && pe < made->boot.npes; pe++) {
        char *part = (char *)all + (size_t)pe * bytes;
        if (pe == made->boot.pe)
            memcpy(part, mine, bytes);
        else
            status = get(made, key, pe, part, bytes);
    }
    return status;
}

static weft_status pmix_allgather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    struct pmix_boot *made = self(boot);
    if (made->has_node && boot->nodes == 1)
        return member_allgather(&made->node, mine, all, bytes);
    return bytes ? exchange(made, mine, all, bytes) : fence_all(made);
}

static weft_status pmix_barrier(struct boot *boot)
{
    return pmix_allgather(boot, NULL, NULL, 0);
}

static weft_status pmix_share_fd(struct boot *boot, int from, int fd, int *taken)
{
    return boot_local_share(boot, &self(boot)->node, from, fd, taken);
}

/* ---------------------------------------------------------------------------------------- end */

static void pmix_abort(struct boot *boot, int code, const char *sentence)
{
    struct pmix_boot *made = self(boot);
    char text[400];
    snprintf(text, sizeof text, "PE %d aborted the job with code %d: %s", boot->pe, code, sentence);
    if (made->has_node)
        member_abort(&made->node, code, sentence);
    made->pmix->Abort(code, text, NULL, 0);
}

static void pmix_fail_job(struct boot *boot, weft_status why, const char *sentence)
{
    if (self(boot)->has_node)
        member_fail(&self(boot)->node, why, sentence);
}

static weft_status pmix_check(struct boot *boot)
{
    return self(boot)->has_node ? member_check(&self(boot)->node) : WEFT_OK;
}

static void pmix_forked(struct boot *boot)
{
    if (self(boot)->has_node)
        member_forked(&self(boot)->node);
}

static void pmix_close(struct boot *boot, bool clean)
{
    struct pmix_boot *made = self(boot);
    if (made->has_node)
        member_close(&made->node, clean);
    pthread_mutex_lock(&connection.lock);
    connection.clean = clean;
    pthread_mutex_unlock(&connection.lock);
    boot_unset(boot);
    free(made);
}

static const struct boot_ops pmix_ops = {
    .name = "pmix",
    .allgather = pmix_allgather,
    .barrier = pmix_barrier,
    .share_fd = pmix_share_fd,
    .abort = pmix_abort,
    .fail = pmix_fail_job,
    .check = pmix_check,
    .forked = pmix_forked,
    .close = pmix_close,
};

/* -------------------------------------------------------------------------------------- opening */

static weft_status job_size(struct pmix_boot *made, int *npes)
{
    pmix_proc_t job = made->self;
    pmix_value_t *value = NULL;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_status_t error = made->pmix->Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (error != PMIX_SUCCESS)
        return pmix_fail(made, "PMIx_Get of the job's size", error);
    bool good = value->type == PMIX_UINT32 && value->data.uint32 > made->self.rank &&
                value->data.uint32 < INT32_MAX;
    *npes = good ? (int)value->data.uint32 : 0;
    free(value);
    if (!good)
        return base_fail(WEFT_ERR_BOOT, "PMIx gave no job size that holds rank %u",
                         (unsigned)made->self.rank);
    return WEFT_OK;
}

static weft_status connect_pes(struct pmix_boot *made)
{
    int npes;
    weft_status status = job_size(made, &npes);
    if (status)
        return status;
    boot_set(&made->boot, &pmix_ops, (int)made->self.rank, npes);
    status = boot_find_nodes(&made->boot);
    if (!status)
        status = boot_local_connect(&made->boot, &made->node);
    made->has_node = !status;
    return status;
}

bool boot_pmix_known(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

/* At the process's end. Not after a failure: the launcher shall see that this PE did not end well. A
 * child that was forked has no connection of its own. */
static void disconnect(void)
{
    if (connection.clean && connection.process == getpid())
        connection.pmix->Finalize(NULL, 0);
}

/* Caller holds the lock of `connection`. */
static weft_status connect_once(struct pmix_boot *made)
{
    weft_status status = pmix_load(&made->pmix);
    if (status)
        return status;
    if (!connection.pmix) {
        pmix_status_t error = made->pmix->Init(&connection.self, NULL, 0);
        if (error != PMIX_SUCCESS)
            return base_fail_context(pmix_fail(made, "PMIx_Init", error),
                                     "the PMIx of the launcher (PMIX_NAMESPACE is set)");
        connection.pmix = made->pmix;
        connection.process = getpid();
        atexit(disconnect);
    }
    connection.clean = false;
    made->self = connection.self;
    return WEFT_OK;
}

weft_status boot_open_pmix(struct boot **boot)
{
    struct pmix_boot *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the connection to PMIx");
    pthread_mutex_lock(&connection.lock);
    weft_status status = connect_once(made);
    pthread_mutex_unlock(&connection.lock);
    if (!status)
        status = connect_pes(made);
    if (status) {
        boot_unset(&made->boot);
        free(made);
        return status;
    }
    *boot = &made->boot;
    return WEFT_OK;
}

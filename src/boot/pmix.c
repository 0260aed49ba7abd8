/* SPDX-License-Identifier: Apache-2.0 */
/* PEs started by a launcher that provides PMIx (mpirun of Open MPI, srun --mpi=pmix, prterun). PMIx
 * does the first exchanges. A PMIx fence costs much more than an exchange among connected PEs, and
 * PMIx does not report the end of a PE. The PEs of one node therefore connect over AF_UNIX, and
 * those of several nodes over TCP, with a unique id that PE 0 distributes over PMIx. Where they
 * cannot connect, PMIx does all exchanges, and a warning says so. Only standard keys are used. */
#include "driver/pmix.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"
#include "boot/rendezvous/unique_id.h"

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
    struct boot *world; /* job over TCP, which does all operations; NULL without it */
    struct member node;
    bool has_node; /* `node` is connected */
    bool opening;  /* the PEs are still connecting: WEFT_BOOT_LIMIT applies */
};

/* A process that finalizes PMIx and initialises it again confuses its server (the fence of another
 * PE may find it gone). The connection therefore lasts until the process ends, for every job that
 * it joins. */
static struct {
    pthread_mutex_t lock;
    const struct pmix_driver *pmix; /* NULL: not connected */
    pid_t process;
    pmix_proc_t self;
    bool clean;         /* the last job ended cleanly */
    unsigned exchanges; /* number of keys used; no job reuses a key of an earlier one */
} connection = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct pmix_boot *get_pmix_boot(struct boot *boot)
{
    return (struct pmix_boot *)boot;
}

static weft_status pmix_fail(const struct pmix_boot *made, const char *call, pmix_status_t error)
{
    return base_fail(WEFT_ERR_BOOT, "%s: %s (%d)", call, made->pmix->Error_string(error),
                     (int)error);
}

/* --------------------------------------------------------------------------------- PMIx calls */

/* A PMIx call that may never return, shared with the thread that waits for it. The last of the two
 * to release it frees it. */
struct pmix_call {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool done;
    bool abandoned;
    pmix_status_t result;
    const struct pmix_driver *pmix;
    pmix_proc_t self; /* result of PMIx_Init */
};

static void pmix_call_free(struct pmix_call *call)
{
    pthread_cond_destroy(&call->moved);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

static void pmix_call_complete(pmix_status_t result, void *argument)
{
    struct pmix_call *call = argument;
    pthread_mutex_lock(&call->lock);
    call->result = result;
    call->done = true;
    bool abandoned = call->abandoned;
    pthread_cond_signal(&call->moved);
    pthread_mutex_unlock(&call->lock);
    if (abandoned)
        pmix_call_free(call);
}

static struct pmix_call *pmix_call_make(const struct pmix_driver *pmix)
{
    struct pmix_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&call->moved, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&call->lock, NULL);
    call->pmix = pmix;
    return call;
}

/* Waits until the call is complete, `until_ns` or the next call of the program's check. Returns
 * true when `until_ns` came first. */
static bool pmix_call_wait(struct pmix_call *call, bool endless, uint64_t until_ns)
{
    uint64_t next_ns = interrupt_get().check ? clock_now_ns() + INTERRUPT_EVERY_NS : until_ns;
    bool checked = interrupt_get().check && (endless || next_ns < until_ns);
    uint64_t wake_ns = checked ? next_ns : until_ns;
    struct timespec until = {(time_t)(wake_ns / 1000000000), (long)(wake_ns % 1000000000)};
    pthread_mutex_lock(&call->lock);
    int error = 0;
    while (!call->done && !error)
        error = endless && !checked ? pthread_cond_wait(&call->moved, &call->lock)
                                    : pthread_cond_timedwait(&call->moved, &call->lock, &until);
    pthread_mutex_unlock(&call->lock);
    return error && !checked;
}

/* Returns WEFT_OK when the call is complete. WEFT_ERR_TIMEOUT, without a sentence, or
 * WEFT_ERR_INTERRUPTED: it is not, and the thread of the call frees it. */
static weft_status pmix_call_await(struct pmix_call *call, struct boot_limit limit)
{
    uint64_t until_ns = clock_now_ns() + limit.left_ns;
    weft_status status = WEFT_OK;
    for (bool done = false; !done && !status;) {
        bool late = pmix_call_wait(call, limit.endless, until_ns);
        status = interrupt_check();
        pthread_mutex_lock(&call->lock);
        done = call->done;
        if (done)
            status = WEFT_OK;
        else if (!status && late)
            status = WEFT_ERR_TIMEOUT;
        call->abandoned = status != WEFT_OK;
        pthread_mutex_unlock(&call->lock);
    }
    return status;
}

/* ---------------------------------------------------------------------------------------- fence */

static pmix_info_t make_flag(const char *key)
{
    pmix_info_t info = {.value = {.type = PMIX_BOOL, .data.flag = true}};
    snprintf(info.key, sizeof info.key, "%s", key);
    return info;
}

static void complete_get(pmix_status_t result, pmix_value_t *value, void *argument)
{
    pmix_call_complete(result, argument);
}

/* Whether `pe` has put its value; until then the server of its node waits for it. */
static bool has_put_value(struct pmix_boot *made, const char *key, int pe, struct boot_limit limit)
{
    struct pmix_call *call = pmix_call_make(made->pmix);
    pmix_proc_t of = made->self;
    of.rank = (pmix_rank_t)pe;
    if (!call)
        return true;
    pmix_status_t error = made->pmix->Get_nb(&of, key, NULL, 0, complete_get, call);
    if (error != PMIX_SUCCESS) { /* there will be no callback */
        pmix_call_free(call);
        return error == PMIX_OPERATION_SUCCEEDED;
    }
    if (pmix_call_await(call, limit))
        return false;
    bool come = call->result == PMIX_SUCCESS;
    pmix_call_free(call);
    return come;
}

/* A fence reports that PEs are missing, but not which: asks for the value of each PE. */
static weft_status fail_missing_pes(struct pmix_boot *made, const char *key)
{
    enum { ENOUGH = 100 };
    const struct boot_limit each = {.left_ns = UINT64_C(1000000000)};
    uint64_t until_ns = clock_now_ns() + 8 * each.left_ns;
    char list[ENOUGH + 40] = "";
    int n = 0;
    for (int pe = 0; key && pe < made->boot.npes && n < ENOUGH && clock_now_ns() < until_ns; pe++)
        if (pe != made->boot.pe && !has_put_value(made, key, pe, each))
            n += snprintf(list + n, sizeof list - (size_t)n, "%s PE %d%s", n ? "," : ":", pe,
                          boot_where(&made->boot, pe).text);
    return base_fail(WEFT_ERR_TIMEOUT, "not every PE reached an exchange over PMIx within %s%s",
                     made->opening ? BOOT_LIMIT_NAMES : "WEFT_WAIT_LIMIT", list);
}

/* Fence. key: the key of each PE's value in this exchange; NULL: there are no values. */
static weft_status fence_all(struct pmix_boot *made, const char *key)
{
    pmix_info_t collect = make_flag(PMIX_COLLECT_DATA);
    struct pmix_call *call = pmix_call_make(made->pmix);
    if (!call)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a PMIx fence");
    pmix_status_t error = made->pmix->Fence_nb(NULL, 0, &collect, 1, pmix_call_complete, call);
    if (error == PMIX_OPERATION_SUCCEEDED || error != PMIX_SUCCESS) { /* there will be no
                                                                         callback */
        pmix_call_free(call);
        return error == PMIX_OPERATION_SUCCEEDED ? WEFT_OK
                                                 : pmix_fail(made, "PMIx_Fence_nb", error);
    }
    weft_status status =
        pmix_call_await(call, made->opening ? boot_limit_join() : boot_limit_start());
    if (status)
        return status == WEFT_ERR_TIMEOUT ? fail_missing_pes(made, key) : status;
    error = call->result;
    pmix_call_free(call);
    return error == PMIX_SUCCESS ? WEFT_OK : pmix_fail(made, "PMIx_Fence", error);
}

/* ----------------------------------------------------------------------------------- exchange */

static weft_status put_value(struct pmix_boot *made, const char *key, const void *mine,
                             size_t bytes)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT,
                          .data.bo = {.bytes = (char *)mine, .size = bytes}};
    pmix_status_t error = made->pmix->Put(PMIX_GLOBAL, key, &value);
    if (error != PMIX_SUCCESS)
        return pmix_fail(made, "PMIx_Put", error);
    error = made->pmix->Commit();
    return error == PMIX_SUCCESS ? WEFT_OK : pmix_fail(made, "PMIx_Commit", error);
}

static weft_status get_value(struct pmix_boot *made, const char *key, int pe, void *part,
                             size_t bytes)
{
    pmix_proc_t of = made->self;
    pmix_value_t *value = NULL;
    of.rank = (pmix_rank_t)pe;
    pmix_status_t error = made->pmix->Get(&of, key, NULL, 0, &value);
    if (error != PMIX_SUCCESS)
        return base_fail_context(pmix_fail(made, "PMIx_Get", error), "the value of PE %d", pe);
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

struct key {
    char text[32];
};

static struct key next_key(void)
{
    struct key key;
    pthread_mutex_lock(&connection.lock);
    snprintf(key.text, sizeof key.text, "weft.%u", connection.exchanges++);
    pthread_mutex_unlock(&connection.lock);
    return key;
}

/* Copies PE 0's value to every PE. */
static weft_status distribute_value(struct pmix_boot *made, void *what, size_t bytes)
{
    struct key key = next_key();
    weft_status status = made->boot.pe == 0 ? put_value(made, key.text, what, bytes) : WEFT_OK;
    if (!status)
        status = fence_all(made, NULL);
    return status || made->boot.pe == 0 ? status : get_value(made, key.text, 0, what, bytes);
}

static weft_status exchange_values(struct pmix_boot *made, const void *mine, void *all,
                                   size_t bytes)
{
    struct key key = next_key();
    weft_status status = put_value(made, key.text, mine, bytes);
    if (!status)
        status = fence_all(made, key.text);
    for (int pe = 0; !status && pe < made->boot.npes; pe++) {
        char *part = (char *)all + (size_t)pe * bytes;
        if (pe == made->boot.pe)
            memcpy(part, mine, bytes);
        else
            status = get_value(made, key.text, pe, part, bytes);
    }
    return status;
}

static weft_status pmix_allgather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    struct pmix_boot *made = get_pmix_boot(boot);
    if (made->world)
        return made->world->ops->allgather(made->world, mine, all, bytes);
    if (made->has_node && boot->nodes == 1)
        return member_allgather(&made->node, mine, all, bytes);
    return bytes ? exchange_values(made, mine, all, bytes) : fence_all(made, NULL);
}

static weft_status pmix_barrier(struct boot *boot)
{
    return pmix_allgather(boot, NULL, NULL, 0);
}

static weft_status pmix_share_fd(struct boot *boot, int from, int fd, int *taken)
{
    struct pmix_boot *made = get_pmix_boot(boot);
    if (made->world)
        return made->world->ops->share_fd(made->world, from, fd, taken);
    return boot_local_share(boot, &made->node, from, fd, taken);
}

/* ---------------------------------------------------------------------------------------- end */

static void pmix_abort(struct boot *boot, int code, const char *sentence)
{
    struct pmix_boot *made = get_pmix_boot(boot);
    char text[400];
    snprintf(text, sizeof text, "PE %d aborted the job with code %d: %s", boot->pe, code, sentence);
    if (made->world)
        made->world->ops->abort(made->world, code, sentence);
    else if (made->has_node)
        member_abort(&made->node, code, sentence);
    made->pmix->Abort(code, text, NULL, 0);
}

static void pmix_fail_job(struct boot *boot, weft_status why, const char *sentence)
{
    struct pmix_boot *made = get_pmix_boot(boot);
    if (made->world)
        made->world->ops->fail(made->world, why, sentence);
    else if (made->has_node)
        member_fail(&made->node, why, sentence);
}

static weft_status pmix_check(struct boot *boot)
{
    struct pmix_boot *made = get_pmix_boot(boot);
    if (made->world)
        return made->world->ops->check(made->world);
    return made->has_node ? member_check(&made->node) : WEFT_OK;
}

static void pmix_forked(struct boot *boot)
{
    struct pmix_boot *made = get_pmix_boot(boot);
    if (made->world)
        made->world->ops->forked(made->world);
    else if (made->has_node)
        member_forked(&made->node);
}

static void pmix_close(struct boot *boot, bool clean)
{
    struct pmix_boot *made = get_pmix_boot(boot);
    if (made->world)
        made->world->ops->close(made->world, clean);
    else if (made->has_node)
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

static weft_status get_job_size(struct pmix_boot *made, int *npes)
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
        return base_fail(WEFT_ERR_BOOT, "PMIx gave a job size that does not include rank %u",
                         (unsigned)made->self.rank);
    return WEFT_OK;
}

/* Exchanges whether each PE has connected: one PE that could not keeps all from using TCP, because
 * the others would wait for it. Each such PE has logged its reason. */
static weft_status agree_on_tcp(struct pmix_boot *made, weft_status mine, weft_status *first,
                                int *where)
{
    int32_t own = mine, *all = calloc((size_t)made->boot.npes, sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d PEs", made->boot.npes);
    weft_status status = exchange_values(made, &own, all, sizeof own);
    *first = WEFT_OK;
    for (int pe = made->boot.npes - 1; pe >= 0 && !status; pe--)
        if (all[pe]) {
            *first = (weft_status)all[pe];
            *where = pe;
        }
    free(all);
    return status;
}

/* Connects the PEs of several nodes over TCP. A failure does not end the job. */
static weft_status connect_over_tcp(struct pmix_boot *made)
{
    weft_unique_id id = {{0}};
    weft_status status = WEFT_OK, first = WEFT_OK;
    int where = 0;
    if (made->boot.pe == 0)
        status = unique_id_make(&id);
    if (status)
        log_warn(LOG_BOOT, "connecting the PEs of several nodes: %s", base_last_error());
    status = distribute_value(made, &id, sizeof id);
    if (status)
        return status;
    struct boot *world = NULL;
    weft_status mine = boot_open_id(&world, &id, made->boot.pe, made->boot.npes);
    if (mine)
        log_warn(LOG_BOOT, "PE %d%s: %s", made->boot.pe,
                 boot_where(&made->boot, made->boot.pe).text, base_last_error());
    status = agree_on_tcp(made, mine, &first, &where);
    if (!status && !first) {
        made->world = world;
        return WEFT_OK;
    }
    if (world)
        world->ops->close(world, false);
    if (!status && made->boot.pe == where)
        log_warn(LOG_BOOT,
                 "not all PEs reach PE 0 over TCP: the job uses PMIx alone. It notices the death "
                 "of a PE on another node only after WEFT_WAIT_LIMIT");
    return status;
}

static weft_status connect_pes(struct pmix_boot *made)
{
    int npes;
    weft_status status = get_job_size(made, &npes);
    if (status)
        return status;
    boot_set(&made->boot, &pmix_ops, (int)made->self.rank, npes);
    made->opening = true;
    status = boot_find_nodes(&made->boot);
    if (!status && made->boot.nodes > 1)
        status = connect_over_tcp(made);
    if (!status && !made->world) {
        status = boot_local_connect(&made->boot, &made->node);
        made->has_node = !status;
    }
    made->opening = false;
    return status;
}

bool boot_pmix_known(void)
{
    return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

/* Called when the process ends. Not after a failure: the launcher must see that this PE did not end
 * cleanly. A forked child has no connection of its own. */
static void finalize_pmix(void)
{
    if (connection.clean && connection.process == getpid())
        connection.pmix->Finalize(NULL, 0);
}

static void *init_thread(void *argument)
{
    struct pmix_call *call = argument;
    pmix_call_complete(call->pmix->Init(&call->self, NULL, 0), call);
    return NULL;
}

/* PMIx_Init waits without limit for a launcher that does not answer, so another thread calls it.
 * When it never returns, that thread is abandoned. */
static weft_status init_bounded(struct pmix_boot *made)
{
    struct pmix_call *call = pmix_call_make(made->pmix);
    pthread_t thread;
    if (!call)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the connection to PMIx");
    int failed = pthread_create(&thread, NULL, init_thread, call);
    if (failed) {
        pmix_call_free(call);
        return base_fail(WEFT_ERR_SYSTEM, "a thread for PMIx_Init: %s", strerror(failed));
    }
    pthread_detach(thread);
    weft_status status = pmix_call_await(call, boot_limit_join());
    if (status == WEFT_ERR_INTERRUPTED)
        return status;
    if (status)
        return base_fail(WEFT_ERR_TIMEOUT,
                         "PMIx_Init: the launcher's PMIx server did not answer within "
                         "" BOOT_LIMIT_NAMES
                         ": it is stopped, overloaded or gone (PMIX_NAMESPACE is %s, PMIX_RANK %s)",
                         getenv("PMIX_NAMESPACE"), getenv("PMIX_RANK"));
    pmix_status_t error = call->result;
    connection.self = call->self;
    pmix_call_free(call);
    return error == PMIX_SUCCESS
               ? WEFT_OK
               : base_fail_context(pmix_fail(made, "PMIx_Init", error),
                                   "the PMIx of the launcher (PMIX_NAMESPACE is set)");
}

/* The caller holds the lock of `connection`. */
static weft_status connect_once(struct pmix_boot *made)
{
    weft_status status = pmix_load(&made->pmix);
    if (status)
        return status;
    if (!connection.pmix) {
        status = init_bounded(made);
        if (status)
            return status;
        connection.pmix = made->pmix;
        connection.process = getpid();
        atexit(finalize_pmix);
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

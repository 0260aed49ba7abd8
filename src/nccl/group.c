/* SPDX-License-Identifier: Apache-2.0 */
/* Groups. Calls between ncclGroupStart() and ncclGroupEnd() are kept by the thread, and made at the
 * end of the outermost group: first communicators are started, then each communicator gets its
 * calls, in their order. Where a thread's group has several communicators each has a thread of its
 * own, because their calls may wait for each other. */
#include "nccl/comm.h"

#include <stdlib.h>
#include <string.h>

struct call_group {
    int depth;
    ncclResult_t error; /* of a call in the group */
    struct nccl_call *calls;
    int n_calls, room;
    ncclComm_t *starts;
    int n_starts, start_room;
};

static _Thread_local struct call_group group;

/* Grows an array to hold one more element. */
static bool make_room(void *array, int n, int *room, size_t element)
{
    void **at = array;
    if (n < *room)
        return true;
    int more = *room ? 2 * *room : 64;
    void *grown = realloc(*at, (size_t)more * element);
    if (!grown)
        return false;
    *at = grown;
    *room = more;
    return true;
}

static ncclResult_t no_memory(void)
{
    return nccl_fail(ncclSystemError, "no memory for the calls of a group");
}

static ncclResult_t run_one(struct nccl_call *call)
{
    switch (call->what) {
    case SEND:
    case RECV:
        return messages_run(call->comm, call, 1);
    case PUT_SIGNAL:
    case WAIT_SIGNAL:
        return signal_run(call);
    default:
        return collective_run(call);
    }
}

/* A call outside of a group. */
static ncclResult_t run_alone(struct nccl_call *call)
{
    if (!call->comm->profiler)
        return run_one(call);
    profiler_group_runs();
    profiler_batch_begins(call, 1);
    ncclResult_t result = run_one(call);
    profiler_batch_ends(call);
    return result;
}

static ncclResult_t add_call(struct nccl_call *call)
{
    if (!group.depth)
        return run_alone(call);
    if (!make_room(&group.calls, group.n_calls, &group.room, sizeof *group.calls))
        return group.error = no_memory();
    group.calls[group.n_calls++] = *call;
    return ncclSuccess;
}

ncclResult_t group_add(struct nccl_call *call)
{
    if (!call->comm->profiler)
        return add_call(call);
    profiler_call_begins(call, group.depth);
    ncclResult_t result = add_call(call);
    profiler_call_ends(call);
    if (!group.depth)
        profiler_group_ends();
    return result;
}

ncclResult_t group_start_comm(ncclComm_t comm)
{
    if (!group.depth)
        return comm_start(comm);
    if (!make_room(&group.starts, group.n_starts, &group.start_room, sizeof *group.starts))
        return group.error = no_memory();
    group.starts[group.n_starts++] = comm;
    return ncclSuccess;
}

/* ------------------------------------------------------------------------------- threads */

struct task {
    ncclComm_t comm;
    ncclResult_t (*function)(ncclComm_t, void *);
    void *argument;
    ncclResult_t result;
    char sentence[1024];
    pthread_t thread;
    bool started;
};

static void *run_task(void *argument)
{
    struct task *task = argument;
    driver_set_context(task->comm->context);
    task->result = task->function(task->comm, task->argument);
    if (task->result)
        strncpy(task->sentence, nccl_sentence(), sizeof task->sentence - 1);
    return NULL;
}

/* The calling thread runs the first task. */
ncclResult_t group_run_all(int n, ncclComm_t *comms, ncclResult_t (*function)(ncclComm_t, void *),
                           void **arguments)
{
    struct task *tasks = n > 0 ? calloc((size_t)n, sizeof *tasks) : NULL;
    ncclResult_t result = tasks ? ncclSuccess : no_memory();
    void *context = driver_context();
    for (int i = 0; i < n && !result; i++) {
        tasks[i] = (struct task){
            .comm = comms[i], .function = function, .argument = arguments ? arguments[i] : NULL};
        if (i && pthread_create(&tasks[i].thread, NULL, run_task, &tasks[i]))
            result = nccl_fail(ncclSystemError, "pthread_create failed");
        else
            tasks[i].started = i > 0;
    }
    if (!result)
        run_task(&tasks[0]);
    driver_set_context(context);
    for (int i = 0; i < n && tasks; i++) {
        if (tasks[i].started)
            pthread_join(tasks[i].thread, NULL);
        bool failed = tasks[i].result && tasks[i].result != ncclInProgress;
        if (failed && (!result || result == ncclInProgress))
            result = nccl_fail(tasks[i].result, "%s", tasks[i].sentence);
        else if (!result)
            result = tasks[i].result;
    }
    free(tasks);
    return result;
}

/* ---------------------------------------------------------------------------------- the end */

struct batch {
    struct nccl_call *calls;
    int n;
};

static bool is_message(const struct nccl_call *call)
{
    return call->what == SEND || call->what == RECV;
}

/* Collectives and puts in their order, then messages, which run at the same time, then waits. */
static ncclResult_t run_batch(ncclComm_t comm, void *argument)
{
    struct batch *batch = argument;
    struct nccl_call *messages = calloc((size_t)batch->n, sizeof *messages);
    ncclResult_t result = messages ? comm_enter(comm, "ncclGroupEnd") : no_memory();
    int n = 0;
    if (result) {
        free(messages);
        return result;
    }
    if (comm->profiler)
        profiler_batch_begins(batch->calls, batch->n);
    for (int i = 0; i < batch->n && !result; i++)
        if (is_message(&batch->calls[i]))
            messages[n++] = batch->calls[i];
        else if (batch->calls[i].what != WAIT_SIGNAL)
            result = run_one(&batch->calls[i]);
    if (!result && n)
        result = messages_run(comm, messages, n);
    for (int i = 0; i < batch->n && !result; i++)
        if (batch->calls[i].what == WAIT_SIGNAL)
            result = run_one(&batch->calls[i]);
    if (comm->profiler)
        profiler_batch_ends(batch->calls);
    comm_leave(comm);
    free(messages);
    return result;
}

static int by_comm(const void *a, const void *b)
{
    const struct nccl_call *const *x = a, *const *y = b;
    if ((*x)->comm != (*y)->comm)
        return (uintptr_t)(*x)->comm < (uintptr_t)(*y)->comm ? -1 : 1;
    return *x < *y ? -1 : 1;
}

/* Sorts the calls by communicator, in their order, into memory that the caller frees. */
static struct nccl_call *sort_calls(const struct nccl_call *calls, int n)
{
    struct nccl_call *sorted = malloc((size_t)n * sizeof *sorted);
    const struct nccl_call **order = malloc((size_t)n * sizeof *order);
    for (int i = 0; order && i < n; i++)
        order[i] = &calls[i];
    if (order && sorted) {
        qsort(order, (size_t)n, sizeof *order, by_comm);
        for (int i = 0; i < n; i++)
            sorted[i] = *order[i];
    } else {
        free(sorted);
        sorted = NULL;
    }
    free(order);
    return sorted;
}

static ncclResult_t run_sorted(struct nccl_call *calls, int n)
{
    struct batch *batches = calloc((size_t)n, sizeof *batches);
    ncclComm_t *comms = calloc((size_t)n, sizeof *comms);
    void **arguments = calloc((size_t)n, sizeof *arguments);
    int found = 0;
    ncclResult_t result = batches && comms && arguments ? ncclSuccess : no_memory();
    for (int i = 0; i < n && !result; i++) {
        if (!found || comms[found - 1] != calls[i].comm) {
            comms[found] = calls[i].comm;
            arguments[found] = &batches[found];
            batches[found++].calls = &calls[i];
        }
        batches[found - 1].n++;
    }
    if (!result)
        result = group_run_all(found, comms, run_batch, arguments);
    free(arguments);
    free(comms);
    free(batches);
    return result;
}

static ncclResult_t run_calls(struct nccl_call *calls, int n)
{
    bool several = false;
    for (int i = 1; i < n; i++)
        several |= calls[i].comm != calls[0].comm;
    if (!several)
        return run_batch(calls[0].comm, &(struct batch){calls, n});
    struct nccl_call *sorted = sort_calls(calls, n);
    ncclResult_t result = sorted ? run_sorted(sorted, n) : no_memory();
    free(sorted);
    return result;
}

static ncclResult_t start_one(ncclComm_t comm, void *nothing)
{
    (void)nothing;
    return comm_start(comm);
}

static ncclResult_t run_group(struct call_group *g)
{
    ncclResult_t result = comm_join_ranks(g->starts, g->n_starts);
    for (int i = 0; i < g->n_starts && result; i++)
        comm_not_started(g->starts[i], result);
    if (result)
        return result;
    if (g->n_starts == 1)
        result = comm_start(g->starts[0]);
    else if (g->n_starts)
        result = group_run_all(g->n_starts, g->starts, start_one, NULL);
    if (!result && g->n_calls)
        result = run_calls(g->calls, g->n_calls);
    return result;
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!group.depth)
        return nccl_fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth)
        return ncclSuccess;
    struct call_group whole = group;
    memset(&group, 0, sizeof group);
    profiler_group_runs();
    ncclResult_t result = whole.error ? whole.error : run_group(&whole);
    profiler_group_ends();
    free(whole.calls);
    free(whole.starts);
    return result;
}

/* ---------------------------------------------------------------------------- simulations */

/* Adds the estimate of one call to *us. */
static ncclResult_t estimate(const struct nccl_call *call, double *us)
{
    weft_coll_plan plan;
    const char *name = operation_name(call->what);
    if (call->what >= PUT_SIGNAL)
        return nccl_fail(ncclInvalidUsage,
                         "ncclGroupSimulateEnd: %s has no estimate, only collectives have one",
                         name);
    if (!call->n)
        return ncclSuccess;
    ncclResult_t result = comm_enter(call->comm, name);
    if (result)
        return result;
    result = nccl_result(collective_plan(call, &plan));
    comm_leave(call->comm);
    *us += result ? 0 : plan.us;
    return result;
}

/* The collectives of a communicator run one after the other, those of several at the same time. */
static ncclResult_t estimate_all(const struct nccl_call *calls, int n, float *longest)
{
    ncclResult_t result = ncclSuccess;
    *longest = 0;
    for (int i = 0; i < n && !result; i++) {
        double us = 0;
        for (int j = i; j < n && !result; j++)
            if (calls[j].comm == calls[i].comm)
                result = estimate(&calls[j], &us);
        *longest = (float)us > *longest ? (float)us : *longest;
    }
    return result;
}

static ncclResult_t simulate(struct call_group *g, ncclSimInfo_t *info)
{
    const ncclSimInfo_t valid = NCCL_SIM_INFO_INITIALIZER;
    float us = 0;
    ncclResult_t result = g->error;
    if (!result && (!info || info->size < sizeof *info || info->magic != valid.magic))
        result = nccl_fail(ncclInvalidArgument,
                           "ncclGroupSimulateEnd: the result is null, or does not begin with "
                           "NCCL_SIM_INFO_INITIALIZER");
    if (!result && g->n_starts)
        result = nccl_fail(ncclInvalidUsage, "ncclGroupSimulateEnd: the group makes communicators");
    for (int i = 0; i < g->n_starts; i++)
        comm_not_started(g->starts[i], result);
    if (!result)
        result = estimate_all(g->calls, g->n_calls, &us);
    if (!result)
        info->estimatedTime = us;
    return result;
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    if (!group.depth)
        return nccl_fail(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
    if (--group.depth)
        return ncclSuccess;
    struct call_group whole = group;
    memset(&group, 0, sizeof group);
    ncclResult_t result = simulate(&whole, info);
    profiler_group_ends();
    free(whole.calls);
    free(whole.starts);
    return result;
}

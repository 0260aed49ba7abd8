/* SPDX-License-Identifier: Apache-2.0 */
/* Suspended communicators. The job ends, which frees its GPU memory; to resume, the ranks make a
 * new one with the spare id of rank 0. */
#include "nccl/comm.h"

#include <string.h>

/* Why this rank cannot suspend the communicator. */
enum obstacle { OBSTACLE_NONE, OBSTACLE_WINDOWS, OBSTACLE_GRAPHS, OBSTACLE_SHRUNK };

static const char *const obstacles[] = {
    [OBSTACLE_WINDOWS] = "it has symmetric windows or an ncclDevComm; end them first",
    [OBSTACLE_GRAPHS] = "graphs have captured its calls, and use its memory when they run",
    [OBSTACLE_SHRUNK] = "it has been shrunk; suspend the one that was made",
};

static int32_t obstacle_here(const struct ncclComm *comm)
{
    return comm->shrunk     ? OBSTACLE_SHRUNK
           : comm->captured ? OBSTACLE_GRAPHS
           : comm->windows  ? OBSTACLE_WINDOWS
                            : OBSTACLE_NONE;
}

/* The greatest obstacle of any rank: all refuse, or none. */
static ncclResult_t find_obstacle(ncclComm_t comm, int32_t *found)
{
    int32_t *word = NULL;
    weft_status status = weft_alloc(comm->job, WEFT_HOST, 2 * sizeof *word, 0, 0, (void **)&word);
    if (status)
        return comm_result(comm, status);
    word[0] = obstacle_here(comm);
    status = weft_allreduce(comm->team, word + 1, word, 1, WEFT_INT32, WEFT_MAX);
    *found = word[1];
    weft_free(comm->job, word);
    return comm_result(comm, status);
}

static ncclResult_t suspend(ncclComm_t comm)
{
    int32_t found = OBSTACLE_NONE;
    if (comm->process) /* one thread may call for all ranks */
        return nccl_fail(ncclInvalidUsage, "ncclCommSuspend: the communicator stays, because its "
                                           "ranks are in one process; give each rank a process");
    ncclResult_t result = find_obstacle(comm, &found);
    if (!result && found)
        result = nccl_fail(ncclInvalidUsage,
                           "ncclCommSuspend: the communicator stays, because at %s rank %s",
                           obstacle_here(comm) == found ? "this" : "another", obstacles[found]);
    if (!result)
        result = signals_keep(comm);
    return result;
}

ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
    ncclResult_t result = comm_enter(comm, "ncclCommSuspend");
    if (result)
        return result;
    void *context = driver_context();
    driver_set_context(comm->context);
    if (flags != NCCL_SUSPEND_MEM)
        result = nccl_fail(ncclInvalidArgument,
                           "ncclCommSuspend: flags are %d: give NCCL_SUSPEND_MEM", flags);
    else
        result = suspend(comm);
    if (!result) {
        comm_join_starter(comm);
        state_set(comm, COMM_SUSPENDED);
        comm_close_job(comm);
    }
    driver_set_context(context);
    comm_leave(comm);
    return result;
}

ncclResult_t ncclCommResume(ncclComm_t comm)
{
    ncclResult_t result = comm_check(comm, "ncclCommResume");
    if (result)
        return result;
    if (atomic_load(&comm->state) != COMM_SUSPENDED)
        return nccl_fail(ncclInvalidUsage, "ncclCommResume: the communicator is not suspended");
    memcpy(&comm->id, &comm->cards[0].spare, sizeof comm->id);
    state_set(comm, COMM_STARTING);
    return group_start_comm(comm);
}

/* A communicator has no other memory than that of its job. */
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *bytes)
{
    ncclResult_t result = comm_check(comm, "ncclCommMemStats");
    weft_gpu_info gpu = {.size = sizeof gpu};
    if (result)
        return result;
    bool suspended = atomic_load(&comm->state) == COMM_SUSPENDED;
    if (!bytes || (unsigned)stat > ncclStatGpuMemTotal)
        return nccl_fail(ncclInvalidArgument, "ncclCommMemStats: statistic %d%s", (int)stat,
                         bytes ? "" : ", and the result is null");
    if (!suspended) {
        result = comm_enter(comm, "ncclCommMemStats");
        if (result)
            return result;
        result = nccl_result(weft_gpu_query(comm->job, &gpu));
        comm_leave(comm);
    }
    if (!result)
        *bytes = stat == ncclStatGpuMemSuspended ? suspended
                 : stat == ncclStatGpuMemPersist ? 0
                                                 : gpu.heap_backed;
    return result;
}

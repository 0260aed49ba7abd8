/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: how they begin, end and fail. */
#include "nccl/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const uint64_t COMM_MARK = UINT64_C(0x5745465443434c31);
enum { HEAP_BYTES = 1 << 20, MOST_SIGNALS = 64 };

static struct ncclComm *all; /* under `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void sleep_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ------------------------------------------------------------------------------ every call */

ncclResult_t comm_check(ncclComm_t comm, const char *function)
{
    if (!comm)
        return nccl_fail(ncclInvalidArgument, "%s: the communicator is null", function);
    if (comm->mark != COMM_MARK)
        return nccl_fail(ncclInvalidArgument, "%s: %p is no communicator", function, (void *)comm);
    if (atomic_load(&comm->state) == COMM_FREED)
        return nccl_fail(ncclInvalidArgument, "%s: the communicator has been destroyed", function);
    return ncclSuccess;
}

/* Notes why a communicator failed. The first failure counts. */
static ncclResult_t comm_failed(ncclComm_t comm, ncclResult_t result)
{
    pthread_mutex_lock(&lock);
    if (!atomic_load(&comm->error)) {
        snprintf(comm->sentence, sizeof comm->sentence, "%s", nccl_sentence());
        state_failed(comm);
        atomic_store(&comm->error, (int)result);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int is_aborted(void *argument)
{
    const struct ncclComm *comm = argument;
    return atomic_load(&comm->aborted);
}

ncclResult_t comm_enter(ncclComm_t comm, const char *function)
{
    ncclResult_t result = comm_check(comm, function);
    if (result)
        return result;
    atomic_fetch_add(&comm->inside, 1);
    int state = atomic_load(&comm->state), error = atomic_load(&comm->error);
    if (atomic_load(&comm->aborted))
        result = nccl_fail(ncclInvalidUsage, "%s: the communicator has been aborted", function);
    else if (state == COMM_STARTING)
        result = nccl_fail(ncclInvalidUsage,
                           "%s: the communicator is being set up; wait until "
                           "ncclCommGetAsyncError() gives another result than ncclInProgress",
                           function);
    else if (state == COMM_FAILED || error)
        result = nccl_fail((ncclResult_t)error, "%s: the communicator has failed: %s", function,
                           comm->sentence);
    else if (state == COMM_SUSPENDED)
        result = nccl_fail(ncclInvalidUsage,
                           "%s: the communicator is suspended; call ncclCommResume() at every rank",
                           function);
    else if (state != COMM_READY)
        result = nccl_fail(ncclInvalidUsage, "%s: the communicator has been finalized", function);
    if (result)
        atomic_fetch_sub(&comm->inside, 1);
    return result;
}

void comm_leave(ncclComm_t comm)
{
    atomic_fetch_sub(&comm->inside, 1);
}

ncclResult_t comm_result(ncclComm_t comm, weft_status status)
{
    ncclResult_t result = nccl_result(status);
    return result == ncclRemoteError || result == ncclUnhandledCudaError ? comm_failed(comm, result)
                                                                         : result;
}

ncclResult_t comm_follow(ncclComm_t comm, weft_stream stream)
{
    pthread_t self = pthread_self();
    if (!comm->has_checked || !pthread_equal(comm->checked, self)) {
        weft_set_interrupt(comm->job, is_aborted, comm);
        comm->checked = self;
        comm->has_checked = true;
    }
    if (!comm->last_event || comm->last == stream)
        return ncclSuccess;
    /* A graph does not wait for what was outside of its capture, nor the other way round: the
     * program orders the graph. */
    return driver_capture(stream) == comm->last_capture
               ? driver_event_wait(stream, comm->last_event)
               : ncclSuccess;
}

ncclResult_t comm_note(ncclComm_t comm, weft_stream stream)
{
    ncclResult_t result = ncclSuccess;
    if (!comm->last_event)
        result = driver_event_create(&comm->last_event);
    if (!result)
        result = driver_event_record(comm->last_event, stream);
    comm->last = stream;
    comm->last_capture = driver_capture(stream);
    comm->captured |= comm->last_capture != 0;
    return result;
}

/* --------------------------------------------------------------------------------- begin */

static ncclComm_t new_comm(int rank, int size)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return NULL;
    comm->mark = COMM_MARK;
    comm->rank = rank;
    comm->size = size;
    comm->most_sms = -1;
    comm->n_signals = 1;
    comm->blocking = true;
    pthread_mutex_init(&comm->order, NULL);
    state_open(comm);
    state_set(comm, COMM_STARTING);
    pthread_mutex_lock(&lock);
    comm->next = all;
    all = comm;
    pthread_mutex_unlock(&lock);
    return comm;
}

static bool has_field(const ncclConfig_t *config, size_t end)
{
    return config && config->size >= end;
}

#define HAS(config, field) has_field(config, offsetof(ncclConfig_t, field) + sizeof(config)->field)

static ncclResult_t read_config(ncclComm_t comm, const ncclConfig_t *config)
{
    if (!config)
        return ncclSuccess;
    if (config->size < offsetof(ncclConfig_t, blocking) + sizeof(int) ||
        config->magic != (unsigned)NCCL_API_MAGIC)
        return nccl_fail(ncclInvalidArgument,
                         "the configuration has size %zu and magic 0x%x: begin with "
                         "NCCL_CONFIG_INITIALIZER",
                         config->size, config->magic);
    if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1)
        return nccl_fail(ncclInvalidArgument, "config->blocking is %d: give 0 or 1",
                         config->blocking);
    comm->blocking = config->blocking != 0;
    if (HAS(config, maxCTAs) && config->maxCTAs > 0)
        comm->most_sms = config->maxCTAs;
    if (HAS(config, CTAPolicy) && config->CTAPolicy == 2) /* NCCL_CTA_POLICY_ZERO */
        comm->most_sms = 0;
    if (HAS(config, commName) && config->commName)
        comm->name = strdup(config->commName);
    if (HAS(config, numRmaSig) && config->numRmaSig != NCCL_CONFIG_UNDEF_INT) {
        if (config->numRmaSig < 1 || config->numRmaSig > MOST_SIGNALS)
            return nccl_fail(ncclInvalidArgument, "config->numRmaSig is %d: give 1 to %d",
                             config->numRmaSig, MOST_SIGNALS);
        comm->n_signals = config->numRmaSig;
    }
    return ncclSuccess;
}

static void show_pairs(ncclComm_t comm)
{
    weft_gpu_info gpu = {.size = sizeof gpu};
    if (weft_gpu_query(comm->job, &gpu))
        return;
    nccl_info(comm, "INIT", "Weft %s: rank %d of %d on GPU %d (%s, %s), chosen because %s",
              weft_version(), comm->rank, comm->size, gpu.ordinal, gpu.name, gpu.bus_id, gpu.why);
    for (int peer = 0; peer < comm->size; peer++) {
        weft_gpu_pair pair = {.size = sizeof pair};
        if (peer != comm->rank && !weft_gpu_pair_query(comm->job, peer, &pair))
            nccl_info(comm, "INIT", "rank %d to rank %d: %s: %s", comm->rank, peer,
                      weft_ptr(comm->job, comm->signals, peer)
                          ? "kernels use its GPU memory directly"
                          : "through the host (weft explain says more)",
                      pair.evidence);
    }
    nccl_info(comm, "INIT", "collectives: %s",
              comm->stage ? "by the host, on copies in symmetric memory"
                          : "by kernels, on the program's memory");
}

static ncclResult_t open_job(ncclComm_t comm)
{
    weft_init_attr attr = {
        .size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE, .heap_bytes = HEAP_BYTES, .teams = 2};
    if (comm->process) {
        attr.group = comm->process->group;
        attr.group_pe = comm->rank;
    } else {
        attr.unique_id = &comm->id;
        attr.unique_id_pe = comm->rank;
        attr.unique_id_npes = comm->size;
    }
    weft_set_interrupt(NULL, is_aborted, comm);
    weft_status status = weft_init(&comm->job, &attr);
    weft_set_interrupt(NULL, NULL, NULL);
    if (status)
        return nccl_result(status);
    comm->team = weft_team_world(comm->job);
    comm->ctx = weft_default_ctx(comm->job);
    ncclResult_t result = ncclSuccess;
    if (comm->most_sms >= 0)
        result = nccl_result(weft_team_limit_sms(comm->team, comm->most_sms));
    if (!result)
        result = signals_open(comm);
    if (!result && comm->kept_signals)
        result = signals_restore(comm);
    if (!result)
        result = messages_open(comm);
    if (!result)
        result = staged_open(comm);
    if (!result)
        result = derive_open(comm);
    weft_gpu_info gpu = {.size = sizeof gpu};
    if (!result && !weft_gpu_query(comm->job, &gpu))
        comm->device = gpu.ordinal;
    state_describe(comm);
    if (!result) {
        show_pairs(comm);
        profiler_open(comm);
    }
    return result;
}

void comm_close_job(ncclComm_t comm)
{
    bool suspended = comm->job && atomic_load(&comm->state) == COMM_SUSPENDED;
    if (!suspended)
        windows_close(comm);
    if (!comm->job)
        return;
    messages_close(comm);
    signals_close(comm);
    if (comm->last_event)
        driver_event_destroy(comm->last_event);
    comm->last_event = NULL;
    weft_set_interrupt(comm->job, is_aborted, comm);
    weft_finalize(comm->job);
    comm->job = NULL;
    comm->has_checked = false;
}

static ncclResult_t start_here(ncclComm_t comm)
{
    atomic_fetch_add(&comm->inside, 1); /* another thread may abort */
    void *context = driver_context();
    driver_set_context(comm->context);
    ncclResult_t result = open_job(comm);
    if (result) {
        comm_failed(comm, result);
        if (comm->job)
            weft_cancel(comm->job, comm->sentence);
        comm_close_job(comm);
    }
    driver_set_context(context);
    state_set(comm, result ? COMM_FAILED : COMM_READY);
    comm_leave(comm);
    return result;
}

static void *start_in_thread(void *argument)
{
    start_here(argument);
    return NULL;
}

void comm_not_started(ncclComm_t comm, ncclResult_t result)
{
    comm_failed(comm, result);
    state_set(comm, COMM_FAILED);
}

ncclResult_t comm_start(ncclComm_t comm)
{
    if (comm->blocking)
        return start_here(comm);
    if (pthread_create(&comm->starter, NULL, start_in_thread, comm)) {
        comm_not_started(comm, nccl_fail(ncclSystemError, "pthread_create failed"));
        return ncclSystemError;
    }
    comm->threaded = true;
    return ncclInProgress;
}

/* Puts the communicators among comms[0 ... n - 1] with the id of the first one at their ranks, and
 * counts them. */
static ncclResult_t find_ranks(ncclComm_t *comms, int n, struct process_ranks *ranks, int *found)
{
    int size = comms[0]->size;
    for (int i = 0; i < n; i++) {
        ncclComm_t comm = comms[i];
        if (memcmp(&comm->id, &comms[0]->id, sizeof comm->id) != 0)
            continue;
        if (comm->size != size)
            return nccl_fail(ncclInvalidArgument, "one id for a communicator of %d ranks and of %d",
                             size, comm->size);
        if (ranks->comms[comm->rank])
            return nccl_fail(ncclInvalidArgument, "rank %d of a communicator is there twice",
                             comm->rank);
        ranks->comms[comm->rank] = comm;
        ++*found;
    }
    return ncclSuccess;
}

/* The same, and makes them process_ranks where these are all ranks. */
static ncclResult_t join_ranks(ncclComm_t *comms, int n)
{
    int size = comms[0]->size, found = 0;
    struct process_ranks *ranks = calloc(1, sizeof *ranks + (size_t)size * sizeof *ranks->comms);
    if (!ranks)
        return nccl_fail(ncclSystemError, "no memory");
    ncclResult_t result = find_ranks(comms, n, ranks, &found);
    if (!result && found > 1 && found < size)
        result = nccl_fail(ncclInvalidUsage,
                           "%d of the %d ranks of a communicator are in this process: give each "
                           "rank a process, or all ranks one",
                           found, size);
    else if (!result && found > 1)
        result = nccl_result(weft_group_create(size, &ranks->group));
    if (result || found == 1) {
        free(ranks);
        return result;
    }
    ranks->n = ranks->left = size;
    for (int rank = 0; rank < size; rank++)
        ranks->comms[rank]->process = ranks;
    return ncclSuccess;
}

ncclResult_t comm_join_ranks(ncclComm_t *comms, int n)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < n && !result; i++)
        if (!comms[i]->process)
            result = join_ranks(comms + i, n - i);
    return result;
}

/* FNV-1a. */
static uint64_t hash_of(const ncclUniqueId *id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof id->internal; i++)
        hash = (hash ^ (unsigned char)id->internal[i]) * UINT64_C(0x100000001b3);
    return hash;
}

ncclResult_t comm_make(const char *function, ncclComm_t *made, int size, const ncclUniqueId *id,
                       int rank, const ncclConfig_t *config)
{
    if (!made)
        return nccl_fail(ncclInvalidArgument, "%s: comm is null", function);
    *made = NULL;
    if (size < 1 || rank < 0 || rank >= size)
        return nccl_fail(ncclInvalidArgument, "%s: rank %d of %d ranks", function, rank, size);
    if (!driver_load())
        return ncclSystemError;
    environment_apply();
    if (!driver_context() && !driver_use_device(0))
        return nccl_fail(ncclUnhandledCudaError,
                         "%s: there is no current device, and device 0 "
                         "cannot be used",
                         function);
    ncclComm_t comm = new_comm(rank, size);
    if (!comm)
        return nccl_fail(ncclSystemError, "%s: no memory", function);
    memcpy(&comm->id, id, sizeof comm->id);
    comm->hash = hash_of(id);
    comm->context = driver_context();
    comm->device = driver_device();
    ncclResult_t result = read_config(comm, config);
    state_describe(comm);
    if (environment.most_sms >= 0)
        comm->most_sms = environment.most_sms;
    if (environment.blocking >= 0)
        comm->blocking = environment.blocking;
    if (!result) {
        *made = comm;
        result = group_start_comm(comm);
        if (result == ncclSuccess || result == ncclInProgress)
            return result;
        *made = NULL;
    }
    state_set(comm, COMM_FREED);
    return result;
}

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return nccl_fail(ncclInvalidArgument, "ncclGetVersion: version is null");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    _Static_assert(sizeof(ncclUniqueId) == sizeof(weft_unique_id), "one is the other");
    weft_unique_id made;
    if (!id)
        return nccl_fail(ncclInvalidArgument, "ncclGetUniqueId: the id is null");
    environment_apply();
    ncclResult_t result = nccl_result(weft_unique_id_get(&made));
    if (!result)
        memcpy(id, &made, sizeof *id);
    return result;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    return comm_make("ncclCommInitRankConfig", comm, ranks, &id, rank, config);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return comm_make("ncclCommInitRank", comm, ranks, &id, rank, NULL);
}

/* One id suffices for any number of ranks here: the first is used. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int n_ids,
                                      ncclUniqueId *ids, ncclConfig_t *config)
{
    if (n_ids < 1 || !ids)
        return nccl_fail(ncclInvalidArgument, "ncclCommInitRankScalable: %d ids", n_ids);
    return comm_make("ncclCommInitRankScalable", comm, ranks, ids, rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int devices, const int *device_list)
{
    ncclUniqueId id;
    if (!comms || devices < 1)
        return nccl_fail(ncclInvalidArgument, "ncclCommInitAll: %d devices%s", devices,
                         comms ? "" : ", and comms is null");
    if (!driver_load())
        return ncclSystemError;
    ncclResult_t result = ncclGetUniqueId(&id);
    void *context = driver_context();
    /* All devices, before a communicator waits for the others. */
    for (int i = 0; i < devices && !result; i++) {
        int device = device_list ? device_list[i] : i;
        if (!driver_use_device(device))
            result =
                nccl_fail(ncclInvalidArgument, "ncclCommInitAll: there is no device %d", device);
    }
    if (!result) {
        ncclGroupStart();
        for (int i = 0; i < devices && !result; i++)
            if (driver_use_device(device_list ? device_list[i] : i))
                result = ncclCommInitRank(&comms[i], devices, id, i);
        ncclResult_t end = ncclGroupEnd();
        result = result ? result : end;
    }
    driver_set_context(context);
    return result;
}

/* ------------------------------------------------------------------------------------- end */

void comm_join_starter(ncclComm_t comm)
{
    if (comm->threaded)
        pthread_join(comm->starter, NULL);
    comm->threaded = false;
}

static ncclResult_t close_one(ncclComm_t comm, void *nothing)
{
    (void)nothing;
    comm_close_job(comm);
    return ncclSuccess;
}

/* One thread may end the ranks of a process one by one, so the last of them ends all. */
static void end_of_process(struct process_ranks *ranks)
{
    pthread_mutex_lock(&lock);
    bool last = --ranks->left == 0;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    group_run_all(ranks->n, ranks->comms, close_one, NULL);
    weft_group_destroy(ranks->group);
    free(ranks);
}

/* Ends the communicator's job. */
static void end_comm(ncclComm_t comm, int state)
{
    void *context = driver_context();
    struct process_ranks *ranks = comm->process;
    comm_join_starter(comm);
    driver_set_context(comm->context);
    profiler_close(comm);
    if (ranks)
        end_of_process(ranks);
    else
        comm_close_job(comm);
    comm->process = NULL;
    driver_set_context(context);
    state_set(comm, state);
    if (state == COMM_FREED) {
        free(comm->factors);
        free(comm->cards);
        free(comm->name);
        free(comm->kept_signals);
    }
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ncclResult_t result = comm_enter(comm, "ncclCommFinalize");
    if (result)
        return result;
    comm_leave(comm);
    end_comm(comm, COMM_FINALIZED);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ncclResult_t result = comm_check(comm, "ncclCommDestroy");
    if (!comm)
        return ncclSuccess;
    if (!result)
        end_comm(comm, COMM_FREED);
    return result;
}

/* Ends calls of other threads and kernels that wait, then the communicator. Other ranks get
 * ncclRemoteError. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ncclResult_t result = comm_check(comm, "ncclCommAbort");
    if (!comm)
        return ncclSuccess;
    if (result)
        return result;
    atomic_store(&comm->aborted, 1);
    comm_join_starter(comm);
    if (comm->job)
        weft_cancel(comm->job, "ncclCommAbort");
    while (atomic_load(&comm->inside))
        sleep_ns(100 * 1000);
    end_comm(comm, COMM_FREED);
    return ncclSuccess;
}

/* Ends what waits; the communicator remains for ncclCommDestroy(). */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    ncclResult_t result = comm_enter(comm, "ncclCommRevoke");
    if (result)
        return result;
    if (flags)
        result = nccl_fail(ncclInvalidArgument, "ncclCommRevoke: flags are %d: give 0", flags);
    else
        weft_cancel(comm->job, "ncclCommRevoke");
    comm_leave(comm);
    if (!result)
        comm_failed(comm, nccl_fail(ncclInvalidUsage, "the communicator has been revoked"));
    return result;
}

/* ----------------------------------------------------------------------------------- queries */

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ncclResult_t result = comm_check(comm, "ncclCommGetAsyncError");
    if (result)
        return result;
    if (!error)
        return nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: the result is null");
    int state = atomic_load(&comm->state);
    atomic_fetch_add(&comm->inside, 1); /* another thread may abort */
    if (state == COMM_READY && !atomic_load(&comm->error) && !atomic_load(&comm->aborted)) {
        result = nccl_result(weft_job_status(comm->job));
        if (result)
            comm_failed(comm, result);
    }
    comm_leave(comm);
    *error = state == COMM_STARTING ? ncclInProgress : (ncclResult_t)atomic_load(&comm->error);
    return ncclSuccess;
}

#define QUERY(function, parameter, value)                                                          \
    ncclResult_t function(ncclComm_t comm, int *parameter)                                         \
    {                                                                                              \
        ncclResult_t result = comm_check(comm, #function);                                         \
        if (result)                                                                                \
            return result;                                                                         \
        if (!parameter)                                                                            \
            return nccl_fail(ncclInvalidArgument, #function ": " #parameter " is null");           \
        *parameter = comm->value;                                                                  \
        return ncclSuccess;                                                                        \
    }
QUERY(ncclCommCount, count, size)
QUERY(ncclCommCuDevice, device, device)
QUERY(ncclCommUserRank, rank, rank)

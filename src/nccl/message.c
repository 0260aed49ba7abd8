/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives: those of a group are one call of weft_messages_on_stream(). */
#include "nccl/comm.h"

#include <stdlib.h>

enum { LEAST_EACH = 4 << 10 };

ncclResult_t messages_open(ncclComm_t comm)
{
    size_t least = (size_t)comm->size * LEAST_EACH, room = environment.message_room;
    return nccl_result(
        weft_messages_create(comm->team, room > least ? room : least, &comm->messages));
}

/* The memory ends with the job. */
void messages_close(ncclComm_t comm)
{
    if (comm->joined)
        driver_event_destroy(comm->joined);
    comm->joined = NULL;
}

/* Makes the stream of the first call wait for those of the others. */
static ncclResult_t join_streams(ncclComm_t comm, const struct nccl_call *calls, int n)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 1; i < n && !result; i++) {
        if (calls[i].stream == calls[0].stream || calls[i].stream == calls[i - 1].stream)
            continue;
        if (!comm->joined)
            result = driver_event_create(&comm->joined);
        if (!result)
            result = driver_event_record(comm->joined, calls[i].stream);
        if (!result)
            result = driver_event_wait(calls[0].stream, comm->joined);
    }
    return result;
}

/* Makes the other streams wait for that of the first call. */
static ncclResult_t part_streams(ncclComm_t comm, const struct nccl_call *calls, int n)
{
    ncclResult_t result = comm_note(comm, calls[0].stream);
    for (int i = 1; i < n && !result; i++)
        if (calls[i].stream != calls[0].stream && calls[i].stream != calls[i - 1].stream)
            result = driver_event_wait(calls[i].stream, comm->last_event);
    return result;
}

ncclResult_t messages_run(ncclComm_t comm, struct nccl_call *calls, int n)
{
    weft_message few[64], *list = n <= 64 ? few : malloc((size_t)n * sizeof *list);
    if (!list)
        return nccl_fail(ncclSystemError, "no memory for %d messages", n);
    for (int i = 0; i < n; i++) {
        bool receives = calls[i].what == RECV;
        list[i] = (weft_message){
            .address = receives ? calls[i].dst : (void *)(uintptr_t)calls[i].src,
            .bytes = calls[i].n * type_bytes(calls[i].type),
            .member = calls[i].root,
            .receives = receives,
        };
    }
    pthread_mutex_lock(&comm->order);
    if (comm->profiler)
        profiler_enqueue_begins(calls, n);
    for (int i = 0; i < n; i++)
        state_begin(comm, calls[i].what);
    ncclResult_t result = comm_follow(comm, calls[0].stream);
    if (!result)
        result = join_streams(comm, calls, n);
    if (!result)
        result = comm_result(
            comm, weft_messages_on_stream(comm->messages, list, (size_t)n, calls[0].stream));
    if (!result)
        result = part_streams(comm, calls, n);
    if (comm->profiler)
        profiler_enqueue_ends(calls, n);
    pthread_mutex_unlock(&comm->order);
    if (list != few)
        free(list);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Puts into windows, and signals. Each rank counts, for each other one and each number of a signal,
 * the signals that have come and that it has not waited for. A wait subtracts what it waited for,
 * so that a CUDA graph may repeat it. */
#include "nccl/comm.h"

#include <stdlib.h>

ncclResult_t signals_open(ncclComm_t comm)
{
    void *memory = NULL;
    size_t bytes = (size_t)comm->size * (size_t)comm->n_signals * sizeof *comm->signals;
    weft_status status = weft_alloc(comm->job, WEFT_GPU, bytes, 256, WEFT_ALLOC_ZERO, &memory);
    comm->signals = memory;
    return nccl_result(status);
}

/* Notes that the stream has signals, for the end of the communicator. */
static ncclResult_t note_stream(ncclComm_t comm, weft_stream stream)
{
    ncclResult_t result = ncclSuccess;
    pthread_mutex_lock(&comm->order);
    struct signal_stream *known = comm->signal_streams;
    while (known && known->stream != stream)
        known = known->next;
    if (!known && (known = calloc(1, sizeof *known))) {
        known->stream = stream;
        known->next = comm->signal_streams;
        comm->signal_streams = known;
        result = driver_event_create(&known->event);
    }
    if (!known)
        result = nccl_fail(ncclSystemError, "no memory for a stream with signals");
    if (!result)
        result = driver_event_record(known->event, stream);
    comm->captured |= driver_capture(stream) != 0;
    pthread_mutex_unlock(&comm->order);
    return result;
}

void signals_close(ncclComm_t comm)
{
    while (comm->signal_streams) {
        struct signal_stream *first = comm->signal_streams;
        comm->signal_streams = first->next;
        if (first->event)
            driver_event_destroy(first->event);
        free(first);
    }
}

ncclResult_t signals_keep(ncclComm_t comm)
{
    size_t bytes = (size_t)comm->size * (size_t)comm->n_signals * sizeof *comm->signals;
    signals_close(comm); /* waits for the streams that have signals */
    weft_status status = weft_barrier(comm->team);
    comm->kept_signals = malloc(bytes);
    if (!comm->kept_signals)
        return nccl_fail(ncclSystemError, "ncclCommSuspend: no memory");
    if (!status)
        status = weft_get(comm->ctx, comm->kept_signals, comm->signals, bytes, comm->rank);
    return comm_result(comm, status);
}

ncclResult_t signals_restore(ncclComm_t comm)
{
    size_t bytes = (size_t)comm->size * (size_t)comm->n_signals * sizeof *comm->signals;
    weft_status status = weft_put(comm->ctx, comm->signals, comm->kept_signals, bytes, comm->rank);
    if (!status)
        status = weft_barrier(comm->team);
    free(comm->kept_signals);
    comm->kept_signals = NULL;
    return comm_result(comm, status);
}

ncclResult_t signal_run(const struct nccl_call *call)
{
    ncclComm_t comm = call->comm;
    size_t own = (size_t)comm->rank * (size_t)comm->n_signals + (size_t)call->signal;
    size_t theirs = (size_t)call->root * (size_t)comm->n_signals + (size_t)call->signal;
    size_t bytes = call->n * type_bytes(call->type);
    weft_stream stream = call->stream;
    weft_status status;
    state_begin(comm, call->what);
    if (call->what == WAIT_SIGNAL) {
        status =
            weft_signal_wait_on_stream(comm->ctx, &comm->signals[theirs], WEFT_GE, call->n, stream);
        if (!status)
            status = weft_signal_on_stream(comm->ctx, &comm->signals[theirs], 0 - call->n,
                                           WEFT_SIGNAL_ADD, comm->rank, stream);
    } else if (bytes) {
        status = weft_put_signal_on_stream(comm->ctx, call->window->symmetric + call->offset,
                                           call->src, bytes, &comm->signals[own], 1,
                                           WEFT_SIGNAL_ADD, call->root, stream);
    } else {
        status = weft_signal_on_stream(comm->ctx, &comm->signals[own], 1, WEFT_SIGNAL_ADD,
                                       call->root, stream);
    }
    ncclResult_t result = comm_result(comm, status);
    return result ? result : note_stream(comm, stream);
}

static ncclResult_t check_signal(const char *function, ncclComm_t comm, int peer, int signal,
                                 int context, unsigned flags)
{
    if (peer < 0 || peer >= comm->size)
        return nccl_fail(ncclInvalidArgument, "%s: peer is %d, and there are %d ranks", function,
                         peer, comm->size);
    if (signal < 0 || signal >= comm->n_signals)
        return nccl_fail(ncclInvalidArgument,
                         "%s: signal %d, and the communicator has %d (config->numRmaSig)", function,
                         signal, comm->n_signals);
    return context || flags ? nccl_fail(ncclInvalidUsage, "%s: context %d and flags %u: give 0",
                                        function, context, flags)
                            : ncclSuccess;
}

static ncclResult_t check_window(const struct nccl_call *call)
{
    const struct window *window = call->window;
    size_t bytes = call->n * type_bytes(call->type);
    if (!window || window->comm != call->comm)
        return nccl_fail(ncclInvalidArgument, "ncclPutSignal: the window is %s",
                         window ? "of another communicator" : "null, or has been deregistered");
    if (!window->symmetric)
        return nccl_fail(ncclInvalidUsage,
                         "ncclPutSignal: peers cannot reach this window's memory; allocate it with "
                         "ncclMemAlloc()");
    if (call->offset > window->bytes || bytes > window->bytes - call->offset)
        return nccl_fail(ncclInvalidArgument,
                         "ncclPutSignal: %zu bytes at offset %zu of a window of %zu bytes", bytes,
                         call->offset, window->bytes);
    return bytes && !call->src ? nccl_fail(ncclInvalidArgument, "ncclPutSignal: the source is null")
                               : ncclSuccess;
}

ncclResult_t ncclPutSignal(const void *src, size_t n, ncclDataType_t type, int peer,
                           ncclWindow_t window, size_t offset, int signal, int context,
                           unsigned flags, ncclComm_t comm, cudaStream_t stream)
{
    struct nccl_call call = {.what = PUT_SIGNAL,
                             .comm = comm,
                             .src = src,
                             .n = n,
                             .type = type,
                             .root = peer,
                             .stream = stream,
                             .window = window_find(window),
                             .offset = offset,
                             .signal = signal};
    ncclResult_t result = comm_enter(comm, "ncclPutSignal");
    if (result)
        return result;
    if (!type_bytes(type))
        result = nccl_fail(ncclInvalidArgument, "ncclPutSignal: %d is no type", (int)type);
    if (!result)
        result = check_signal("ncclPutSignal", comm, peer, signal, context, flags);
    if (!result)
        result = check_window(&call);
    if (!result)
        result = group_add(&call);
    comm_leave(comm);
    return result;
}

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm,
                        cudaStream_t stream)
{
    struct nccl_call call = {.what = PUT_SIGNAL,
                             .comm = comm,
                             .type = ncclUint8,
                             .root = peer,
                             .stream = stream,
                             .signal = signal};
    ncclResult_t result = comm_enter(comm, "ncclSignal");
    if (result)
        return result;
    result = check_signal("ncclSignal", comm, peer, signal, context, flags);
    if (!result)
        result = group_add(&call);
    comm_leave(comm);
    return result;
}

ncclResult_t ncclWaitSignal(int n, ncclWaitSignalDesc_t *waits, ncclComm_t comm,
                            cudaStream_t stream)
{
    ncclResult_t result = comm_enter(comm, "ncclWaitSignal");
    if (result)
        return result;
    if (n < 0 || (n && !waits))
        result = nccl_fail(ncclInvalidArgument, "ncclWaitSignal: %d waits at %p", n, (void *)waits);
    for (int i = 0; i < n && !result; i++) {
        const ncclWaitSignalDesc_t *w = &waits[i];
        struct nccl_call call = {.what = WAIT_SIGNAL,
                                 .comm = comm,
                                 .n = (size_t)w->opCnt,
                                 .type = ncclUint8,
                                 .root = w->peer,
                                 .stream = stream,
                                 .signal = w->sigIdx};
        result = check_signal("ncclWaitSignal", comm, w->peer, w->sigIdx, w->ctx, 0);
        if (!result && w->opCnt < 0)
            result = nccl_fail(ncclInvalidArgument, "ncclWaitSignal: opCnt is %d", w->opCnt);
        if (!result && w->opCnt)
            result = group_add(&call);
    }
    comm_leave(comm);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives.
 *
 * Each rank has a ring of slots for each sender, in GPU memory. A stream for each peer and
 * direction, a lane, moves messages slot by slot: that of the sender waits until a slot is free,
 * puts, and signals; that of the receiver waits for the signal, copies, and signals that the slot
 * is free. So a message for which its peer is late holds up no other one, in whatever order ranks
 * make their calls.
 *
 * A slot has a word at each end: `full` at the receiver, 1 from the put to the copy, and `busy` at
 * the sender, 1 until the receiver has copied. The end that has waited for its word sets it for the
 * next time, and the peer cannot set it meanwhile. The operations of a slot are the same each time,
 * and a CUDA graph may repeat them. */
#include "nccl/comm.h"

#include <stdlib.h>

enum { SLOTS = 4, MOST_SLOT = 512 << 10, LEAST_SLOT = 4 << 10, ROOM = 8 << 20 };

struct message_lane {
    weft_stream stream;
    weft_event ended;
    uint64_t slots; /* used so far */
    bool waits;     /* its stream waits for the program's, in this call */
};

struct messages {
    char *rings;    /* [sender][slot][slot_bytes] */
    uint64_t *full; /* [sender][slot] */
    uint64_t *busy; /* [receiver][slot] */
    size_t slot_bytes;
    weft_event begun;
    struct message_lane *lanes; /* [peer][0: send, 1: receive] */
};

static size_t slot_size(int ranks)
{
    size_t bytes = (size_t)ROOM / SLOTS / (size_t)ranks / 256 * 256;
    return bytes > MOST_SLOT ? MOST_SLOT : bytes < LEAST_SLOT ? LEAST_SLOT : bytes;
}

ncclResult_t messages_open(ncclComm_t comm)
{
    struct messages *m = calloc(1, sizeof *m);
    size_t ranks = (size_t)comm->size, slots = ranks * SLOTS;
    if (m)
        m->lanes = calloc(2 * ranks, sizeof *m->lanes);
    if (!m || !m->lanes) {
        free(m);
        return nccl_fail(ncclSystemError, "no memory for messages");
    }
    comm->messages = m;
    m->slot_bytes = slot_size(comm->size);
    void *memory = NULL;
    size_t signals = ranks * (size_t)comm->n_signals;
    size_t bytes = slots * (m->slot_bytes + sizeof *m->full + sizeof *m->busy) +
                   signals * sizeof *comm->signals;
    ncclResult_t result =
        nccl_result(weft_alloc(comm->job, WEFT_GPU, bytes, 256, WEFT_ALLOC_ZERO, &memory));
    if (result)
        return result;
    m->rings = memory;
    m->full = (uint64_t *)(void *)(m->rings + slots * m->slot_bytes);
    m->busy = m->full + slots;
    comm->signals = m->busy + slots;
    return driver_event_create(&m->begun);
}

/* The memory of the rings ends with the job. */
void messages_close(ncclComm_t comm)
{
    struct messages *m = comm->messages;
    if (!m)
        return;
    for (int i = 0; i < 2 * comm->size; i++)
        if (m->lanes[i].stream) {
            weft_driver_runtime.stream_synchronize(m->lanes[i].stream);
            driver_stream_destroy(m->lanes[i].stream);
            driver_event_destroy(m->lanes[i].ended);
        }
    if (m->begun)
        driver_event_destroy(m->begun);
    free(m->lanes);
    free(m);
    comm->messages = NULL;
}

static ncclResult_t open_lane(struct message_lane *lane)
{
    if (lane->stream)
        return ncclSuccess;
    ncclResult_t result = driver_event_create(&lane->ended);
    return result ? result : driver_stream_create(&lane->stream);
}

/* Waits for a word of this rank, and sets it to its other value. */
static weft_status take(ncclComm_t comm, uint64_t *word, uint64_t value, weft_stream stream)
{
    weft_status status = weft_signal_wait_on_stream(comm->ctx, word, WEFT_EQ, value, stream);
    return status ? status
                  : weft_signal_on_stream(comm->ctx, word, 1 - value, WEFT_SIGNAL_SET, comm->rank,
                                          stream);
}

static weft_status send_part(ncclComm_t comm, struct message_lane *lane, int peer, const char *from,
                             size_t bytes)
{
    struct messages *m = comm->messages;
    size_t slot = lane->slots++ % SLOTS, mine = (size_t)comm->rank * SLOTS + slot;
    weft_status status = take(comm, &m->busy[(size_t)peer * SLOTS + slot], 0, lane->stream);
    return status
               ? status
               : weft_put_signal_on_stream(comm->ctx, m->rings + mine * m->slot_bytes, from, bytes,
                                           &m->full[mine], 1, WEFT_SIGNAL_SET, peer, lane->stream);
}

static weft_status receive_part(ncclComm_t comm, struct message_lane *lane, int peer, char *to,
                                size_t bytes)
{
    struct messages *m = comm->messages;
    size_t slot = lane->slots++ % SLOTS, theirs = (size_t)peer * SLOTS + slot;
    weft_status status = take(comm, &m->full[theirs], 1, lane->stream);
    if (!status)
        status = weft_get_on_stream(comm->ctx, to, m->rings + theirs * m->slot_bytes, bytes,
                                    comm->rank, lane->stream);
    return status ? status
                  : weft_signal_on_stream(comm->ctx, &m->busy[(size_t)comm->rank * SLOTS + slot], 0,
                                          WEFT_SIGNAL_SET, peer, lane->stream);
}

static weft_status move_message(const struct nccl_call *call, struct message_lane *lane)
{
    ncclComm_t comm = call->comm;
    size_t bytes = call->n * type_bytes(call->type), most = comm->messages->slot_bytes;
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < bytes && !status; at += most) {
        size_t part = bytes - at < most ? bytes - at : most;
        status = call->what == SEND
                     ? send_part(comm, lane, call->root, (const char *)call->src + at, part)
                     : receive_part(comm, lane, call->root, (char *)call->dst + at, part);
    }
    return status;
}

/* Makes the lane of a call wait for the program's stream. */
static ncclResult_t join_lane(const struct nccl_call *call, struct message_lane **of_call)
{
    struct messages *m = call->comm->messages;
    struct message_lane *lane = &m->lanes[2 * call->root + (call->what == RECV)];
    ncclResult_t result = open_lane(lane);
    *of_call = lane;
    if (result || lane->waits)
        return result;
    lane->waits = true;
    return driver_event_wait(lane->stream, m->begun);
}

/* The messages calls[0 ... n - 1], which are on one stream. */
static ncclResult_t run_on(ncclComm_t comm, const struct nccl_call *calls, int n)
{
    struct messages *m = comm->messages;
    weft_stream stream = calls[0].stream;
    ncclResult_t result = driver_event_record(m->begun, stream);
    for (int i = 0; i < n && !result; i++) {
        struct message_lane *lane;
        result = join_lane(&calls[i], &lane);
        if (!result)
            result = comm_result(comm, move_message(&calls[i], lane));
    }
    for (int i = 0; i < 2 * comm->size; i++) {
        struct message_lane *lane = &m->lanes[i];
        if (!lane->waits)
            continue;
        lane->waits = false;
        if (!result)
            result = driver_event_record(lane->ended, lane->stream);
        if (!result)
            result = driver_event_wait(stream, lane->ended);
    }
    return result;
}

ncclResult_t messages_run(ncclComm_t comm, const struct nccl_call *calls, int n)
{
    ncclResult_t result = ncclSuccess;
    pthread_mutex_lock(&comm->order);
    for (int from = 0, to; from < n && !result; from = to) {
        for (to = from + 1; to < n && calls[to].stream == calls[from].stream;)
            to++;
        result = run_on(comm, calls + from, to - from);
    }
    pthread_mutex_unlock(&comm->order);
    return result;
}

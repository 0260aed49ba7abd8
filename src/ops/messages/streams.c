/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between members that do not load and store each other's memory, and without a kernel.
 *
 * Each member has a ring of slots for each sender. A stream for each member and direction moves
 * messages slot by slot: that of the sender waits until a slot is free, puts, and signals; that of
 * the receiver waits for the signal, copies, and signals that the slot is free.
 *
 * A slot has a word at each end: `full` at the receiver, 1 from the put to the copy, and `busy` at
 * the sender, 1 until the receiver has copied. The end that has waited for its word sets it for the
 * next time, and the peer cannot set it meanwhile. The operations of a slot are the same each time,
 * and a graph may repeat them. */
#include "ops/messages/messages.h"

#include "ops/stream/events.h"
#include "ops/stream/stream.h"

enum { STREAM_SLOTS = 4 }; /* of a ring */

/* Words behind the area of messages.h. */
struct stream_area {
    uint64_t *full, *busy; /* [member][slot] */
};

size_t messages_stream_bytes(int members)
{
    return 2 * (size_t)members * STREAM_SLOTS * sizeof(uint64_t);
}

static struct stream_area area_of(const struct weft_messages *m)
{
    const struct message_layout *l = &m->call.layout;
    struct stream_area area = {
        .full = (uint64_t *)(void *)((char *)m->memory + message_area_bytes(l)),
    };
    area.busy = area.full + (size_t)l->members * STREAM_SLOTS;
    return area;
}

/* The rings are those of messages.h, of all channels together, divided among other slots. */
static size_t slot_bytes_of(const struct message_layout *l, int receiver, int sender)
{
    size_t ring = (size_t)l->channels * MESSAGE_SLOTS * l->slot_bytes[receiver == sender];
    return ring / STREAM_SLOTS / MESSAGE_GRAIN * MESSAGE_GRAIN;
}

static char *slot_of(const struct weft_messages *m, int receiver, int sender, size_t slot)
{
    const struct message_layout *l = &m->call.layout;
    return (char *)m->memory + message_slot_at(l, (unsigned)receiver, (unsigned)sender, 0, 0) +
           slot * slot_bytes_of(l, receiver, sender);
}

/* Waits for a word of this PE, and sets it to its other value. */
static weft_status take_word(struct weft_messages *m, uint64_t *word, uint64_t value,
                             weft_stream stream)
{
    struct weft_job *job = m->team->job;
    weft_status status = weft_signal_wait_on_stream(job->default_ctx, word, WEFT_EQ, value, stream);
    return status ? status
                  : weft_signal_on_stream(job->default_ctx, word, 1 - value, WEFT_SIGNAL_SET,
                                          job->pe, stream);
}

static weft_status send_part(struct weft_messages *m, struct message_stream *s, int member,
                             const char *from, size_t bytes)
{
    struct stream_area area = area_of(m);
    size_t slot = s->slots++ % STREAM_SLOTS, mine = (size_t)m->team->me * STREAM_SLOTS + slot;
    weft_status status =
        take_word(m, &area.busy[(size_t)member * STREAM_SLOTS + slot], 0, s->stream);
    return status ? status
                  : weft_put_signal_on_stream(m->team->job->default_ctx,
                                              slot_of(m, member, m->team->me, slot), from, bytes,
                                              &area.full[mine], 1, WEFT_SIGNAL_SET,
                                              m->team->pes[member], s->stream);
}

static weft_status receive_part(struct weft_messages *m, struct message_stream *s, int member,
                                char *to, size_t bytes)
{
    struct stream_area area = area_of(m);
    struct weft_job *job = m->team->job;
    size_t slot = s->slots++ % STREAM_SLOTS, theirs = (size_t)member * STREAM_SLOTS + slot;
    weft_status status = take_word(m, &area.full[theirs], 1, s->stream);
    if (!status)
        status = weft_get_on_stream(job->default_ctx, to, slot_of(m, m->team->me, member, slot),
                                    bytes, job->pe, s->stream);
    return status ? status
                  : weft_signal_on_stream(job->default_ctx,
                                          &area.busy[(size_t)m->team->me * STREAM_SLOTS + slot], 0,
                                          WEFT_SIGNAL_SET, m->team->pes[member], s->stream);
}

static weft_status move_message(struct weft_messages *m, struct message_stream *s,
                                const weft_message *message)
{
    size_t most = slot_bytes_of(&m->call.layout, m->team->me, message->member);
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < message->bytes && !status; at += most) {
        size_t part = message->bytes - at < most ? message->bytes - at : most;
        char *address = (char *)message->address + at;
        status = message->receives ? receive_part(m, s, message->member, address, part)
                                   : send_part(m, s, message->member, address, part);
    }
    return status;
}

/* Makes the stream of a message wait for the program's stream. */
static weft_status join_stream(struct weft_messages *m, struct message_stream *s)
{
    struct weft_job *job = m->team->job;
    weft_status status = WEFT_OK;
    if (!s->stream) {
        status = events_new(job, &s->ended);
        if (!status)
            status = events_new_stream(job, &s->stream);
    }
    if (status || s->waits)
        return status;
    s->waits = true;
    return events_wait(job, s->stream, m->begun);
}

weft_status messages_begin_streams(struct weft_messages *m, weft_stream stream)
{
    return events_record(m->team->job, m->begun, stream);
}

weft_status messages_run_streams(struct weft_messages *m, const weft_message *list, size_t n,
                                 weft_stream stream)
{
    struct weft_job *job = m->team->job;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++) {
        struct message_stream *s = &m->streams[2 * list[i].member + (list[i].receives != 0)];
        if (!list[i].bytes || messages_by_kernel(m, list[i].member))
            continue;
        status = join_stream(m, s);
        if (!status)
            status = move_message(m, s, &list[i]);
    }
    for (int i = 0; i < 2 * m->team->n; i++) {
        struct message_stream *s = &m->streams[i];
        if (!s->waits)
            continue;
        s->waits = false;
        if (!status)
            status = events_record(job, s->ended, s->stream);
        if (!status)
            status = events_wait(job, stream, s->ended);
    }
    return status;
}

void messages_close_streams(struct weft_messages *m)
{
    struct weft_job *job = m->team->job;
    for (int i = 0; i < 2 * m->team->n; i++)
        if (m->streams[i].stream) {
            events_finish(job, m->on_cuda, m->streams[i].stream);
            events_delete_stream(job, m->on_cuda, m->streams[i].stream);
            events_delete(job, m->on_cuda, m->streams[i].ended);
        }
}

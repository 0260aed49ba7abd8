/* SPDX-License-Identifier: Apache-2.0 */
/* See hub.h. */
#include "boot/hub/hub.h"

#include "base/status.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int get_member_pe(const struct hub *hub, int member)
{
    return hub->pes ? hub->pes[member] : member;
}

static void report_failure(struct hub *hub, int member, weft_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void report_failure(struct hub *hub, int member, weft_status status, const char *format, ...)
{
    char sentence[HUB_MOST_SENTENCE + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    hub->events->failed(hub->owner, member, status, sentence);
}

/* ------------------------------------------------------------------------------------ sending */

static void report_unsent(struct hub *hub, int member, bool before)
{
    if (before != (hub->wires[member].unsent != NULL) || hub->wires[member].starved)
        hub->events->unsent_changed(hub->owner, member);
}

static void send_local(struct hub *hub, enum frame_type type, int number, const void *payload,
                       size_t bytes, int fd)
{
    int own = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1; /* -1: the member reports the failure */
    struct wire_frame *frame = wire_frame_make(type, number, payload, bytes, own);
    if (frame)
        wire_push(hub->local, frame);
    else
        report_failure(hub, 0, WEFT_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", bytes);
}

void hub_send(struct hub *hub, int to, enum frame_type type, int number, const void *payload,
              size_t bytes, int fd)
{
    struct wire *wire = &hub->wires[to];
    if (hub->local && to == 0) {
        send_local(hub, type, number, payload, bytes, fd);
        return;
    }
    if (wire->fd < 0 && hub->events->send)
        hub->events->send(hub->owner, to, type, number, payload, bytes);
    if (wire->fd < 0)
        return;
    bool waited = wire->unsent != NULL;
    weft_status status = wire_post(wire, type, number, payload, bytes, fd);
    if (status && status != WEFT_ERR_PEER_DEAD) /* when the peer is dead, reading reports its end */
        report_failure(hub, to, status, "sending to PE %d: %s", get_member_pe(hub, to),
                       base_last_error());
    else
        report_unsent(hub, to, waited);
}

void hub_flush(struct hub *hub, int member)
{
    struct wire *wire = &hub->wires[member];
    bool waited = wire->unsent != NULL;
    weft_status status = wire_flush(wire);
    if (status && status != WEFT_ERR_PEER_DEAD)
        report_failure(hub, member, status, "sending to PE %d: %s", get_member_pe(hub, member),
                       base_last_error());
    else if (!status)
        report_unsent(hub, member, waited);
}

/* ---------------------------------------------------------------------------------- exchanges */

void hub_forget_exchange(struct hub *hub)
{
    free(hub->answer);
    hub->answer = NULL;
    hub->parts = 0;
    memset(hub->gathering, 0, (size_t)hub->n * sizeof *hub->gathering);
}

static bool begin_exchange(struct hub *hub, int member, size_t bytes)
{
    if (bytes > hub_slice(hub->n)) {
        report_failure(hub, member, WEFT_ERR_BOOT,
                       "PE %d sent %zu bytes at once, more than the protocol allows",
                       get_member_pe(hub, member), bytes);
        return false;
    }
    hub->answer = malloc(bytes * (size_t)hub->n + 1);
    hub->part_bytes = bytes;
    if (!hub->answer)
        report_failure(hub, member, WEFT_ERR_NO_MEMORY,
                       "the hub of the job has no memory for an exchange");
    return hub->answer != NULL;
}

static void end_exchange(struct hub *hub)
{
    char *answer = hub->answer;
    size_t bytes = hub->part_bytes * (size_t)hub->n;
    hub->answer = NULL;
    hub_forget_exchange(hub);
    for (int to = 0; to < hub->n; to++)
        hub_send(hub, to, FRAME_ALL, 0, answer, bytes, -1);
    free(answer);
}

static void add_part(struct hub *hub, int member, const struct wire_frame *frame)
{
    if (hub->gathering[member]) {
        report_failure(hub, member, WEFT_ERR_BOOT, "PE %d began an exchange while it was in one",
                       get_member_pe(hub, member));
        return;
    }
    if (!hub->answer && !begin_exchange(hub, member, frame->bytes))
        return;
    if (frame->bytes != hub->part_bytes) {
        report_failure(
            hub, member, WEFT_ERR_MISMATCH,
            "PE %d exchanges %zu bytes where others exchange %zu: the PEs do not make the same "
            "calls, or run different programs",
            get_member_pe(hub, member), frame->bytes, hub->part_bytes);
        return;
    }
    memcpy(hub->answer + (size_t)member * frame->bytes, frame->payload, frame->bytes);
    hub->gathering[member] = true;
    if (++hub->parts == hub->n)
        end_exchange(hub);
}

void hub_describe_missing(const struct hub *hub, int asking, char *text, size_t size)
{
    const int room = 100; /* for the text after the list */
    int n = 0, missing = 0;
    for (int member = 0; member < hub->n; member++) {
        if (hub->gathering[member] || member == asking)
            continue;
        missing++;
        if (n < (int)size - room)
            n += snprintf(text + n, size - (size_t)n, "%s%d%s", missing > 1 ? ", " : "PE ",
                          get_member_pe(hub, member),
                          hub->in_job[member] ? "" : " (not in the job)");
    }
    snprintf(text + n, size - (size_t)n, "%s did not reach the exchange",
             n >= (int)size - room ? ", ..." : "");
}

/* -------------------------------------------------------------------------------- descriptors */

static void pass_descriptor(struct hub *hub, int from, const struct wire_frame *frame)
{
    if (frame->fd < 0) {
        report_failure(
            hub, from, WEFT_ERR_SYSTEM,
            "a descriptor of PE %d did not arrive at the hub of the job: raise the limit of open "
            "files (ulimit -n)",
            get_member_pe(hub, from));
        return;
    }
    size_t listed = frame->bytes / sizeof(int32_t);
    for (int i = 0; i < (listed ? (int)listed : hub->n); i++) {
        int32_t to = i;
        if (listed)
            memcpy(&to, frame->payload + (size_t)i * sizeof to, sizeof to);
        if (to != from && to >= 0 && to < hub->n)
            hub_send(hub, to, FRAME_FD, from, NULL, 0, frame->fd);
    }
}

/* ---------------------------------------------------------------------------------- receiving */

/* Replaces control characters: a member's sentence goes to terminals and logs. */
static void copy_sentence(const struct wire_frame *frame, char *clean)
{
    size_t n = frame->bytes < HUB_MOST_SENTENCE ? frame->bytes : HUB_MOST_SENTENCE;
    for (size_t i = 0; i < n; i++)
        clean[i] = (unsigned char)frame->payload[i] < ' ' ? ' ' : frame->payload[i];
    clean[n] = '\0';
}

static void join_member(struct hub *hub, int member, pid_t sender)
{
    if (hub->in_job[member]) {
        report_failure(hub, member, WEFT_ERR_BOOT,
                       "PE %d joined the job twice without weft_finalize",
                       get_member_pe(hub, member));
        return;
    }
    hub->in_job[member] = true;
    hub->events->joined(hub->owner, member, sender);
}

static void send_missing(struct hub *hub, int asking)
{
    char text[HUB_MOST_SENTENCE];
    hub_describe_missing(hub, asking, text, sizeof text);
    hub_send(hub, asking, FRAME_MISSING, 0, text, strlen(text), -1);
}

static void handle_frame(struct hub *hub, int member, const struct wire_frame *frame)
{
    char sentence[HUB_MOST_SENTENCE + 1];
    if (!hub->in_job[member] && frame->type != FRAME_JOIN) {
        report_failure(hub, member, WEFT_ERR_BOOT, "PE %d sent a frame before it joined the job",
                       get_member_pe(hub, member));
        return;
    }
    copy_sentence(frame, sentence);
    switch (frame->type) {
    case FRAME_JOIN:
        join_member(hub, member, frame->sender);
        break;
    case FRAME_PART:
        add_part(hub, member, frame);
        break;
    case FRAME_FD:
        pass_descriptor(hub, member, frame);
        break;
    case FRAME_WHO:
        send_missing(hub, member);
        break;
    case FRAME_BYE:
        hub->in_job[member] = false;
        hub->events->left(hub->owner, member, frame->number == 1);
        break;
    case FRAME_ABORT:
        hub->events->aborted(hub->owner, member, frame->number, sentence);
        break;
    case FRAME_FAILED:
        hub->events->failed(hub->owner, member,
                            frame->number < 0 ? (weft_status)frame->number : WEFT_ERR_JOB,
                            sentence);
        break;
    default:
        report_failure(hub, member, WEFT_ERR_VERSION, "PE %d sent a frame of unknown type %u",
                       get_member_pe(hub, member), frame->type);
    }
}

void hub_handle(struct hub *hub, int member, struct wire_frame *frame)
{
    handle_frame(hub, member, frame);
    wire_frame_free(frame);
}

void hub_act(struct hub *hub, int member)
{
    struct wire_frame *frame;
    while ((frame = wire_take(&hub->wires[member])))
        hub_handle(hub, member, frame);
}

void hub_read(struct hub *hub, int member)
{
    if (hub->wires[member].fd < 0)
        return;
    weft_status status = wire_read(&hub->wires[member]);
    char sentence[HUB_MOST_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", status ? base_last_error() : "");
    hub_act(hub, member);
    if (status == WEFT_ERR_PEER_DEAD)
        hub->events->lost(hub->owner, member);
    else if (status)
        report_failure(hub, member, status, "the connection to PE %d failed: %s",
                       get_member_pe(hub, member), sentence);
}

/* ------------------------------------------------------------------------------------- set-up */

weft_status hub_init(struct hub *hub, int n, struct wire *wires, bool joined)
{
    *hub = (struct hub){.n = n, .wires = wires};
    hub->in_job = calloc((size_t)n, sizeof *hub->in_job);
    hub->gathering = calloc((size_t)n, sizeof *hub->gathering);
    if (!hub->in_job || !hub->gathering) {
        hub_free(hub);
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a hub of %d members", n);
    }
    for (int member = 0; member < n; member++)
        hub->in_job[member] = joined;
    return WEFT_OK;
}

void hub_free(struct hub *hub)
{
    free(hub->answer);
    free(hub->in_job);
    free(hub->gathering);
    *hub = (struct hub){0};
}

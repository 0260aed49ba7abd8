/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of one side of `weft run --hosts`: wires that log the posted frames and return the
 * frames that the test has put there. Include after run_calls.h. */
#ifndef WEFT_TESTS_CLI_RUN_WIRES_H
#define WEFT_TESTS_CLI_RUN_WIRES_H

#include "run_calls.h"

static struct {
    weft_status post, read; /* results of wire_post() and wire_read() */
    int error;              /* wire_read() sets wire->error to it */
} wire_answers;

static const char *const host_frames[] = {
    "?",    "GO",    "SIGNAL", "FINISH",    "STARTED", "REFUSED", "EXITED", "LOST", "PROGRAM_ENDED",
    "DONE", "RELAY", "READY",  "UNREACHED", "GONE",    "PARTS"};

/* Prints numbers of 32 bits, and other bytes as text. */
static const char *payload_text(const void *payload, size_t bytes)
{
    static char text[1024];
    size_t at = 0;
    *text = '\0';
    for (; at + 4 <= bytes && (((const char *)payload)[at + 3] == 0 ||
                               ((const unsigned char *)payload)[at + 3] >= 0x80);
         at += 4) {
        int32_t number;
        memcpy(&number, (const char *)payload + at, sizeof number);
        sprintf(text + strlen(text), " %d", (int)number);
    }
    if (at < bytes)
        sprintf(text + strlen(text), " \"%.*s\"", (int)(bytes - at), (const char *)payload + at);
    return text;
}

weft_status __wrap_wire_post(struct wire *wire, uint32_t type, int number, const void *payload,
                             size_t bytes, int fd);
weft_status __wrap_wire_post(struct wire *wire, uint32_t type, int number, const void *payload,
                             size_t bytes, int fd)
{
    log_call("post to %d: %s %d,%s%s", wire->fd, type == FRAME_FD ? "FD" : host_frames[type % 15],
             number, payload_text(payload, bytes), fd < 0 ? "" : " with a descriptor");
    return wire_answers.post ? base_fail(wire_answers.post, "no way to send") : WEFT_OK;
}

weft_status __wrap_wire_read(struct wire *wire);
weft_status __wrap_wire_read(struct wire *wire)
{
    log_call("read %d", wire->fd);
    wire->error = wire_answers.error;
    return wire_answers.read ? base_fail(wire_answers.read, "what came is broken") : WEFT_OK;
}

weft_status __wrap_wire_flush(struct wire *wire);
weft_status __wrap_wire_flush(struct wire *wire)
{
    log_call("flush %d", wire->fd);
    return WEFT_OK;
}

void __wrap_wire_close(struct wire *wire);
void __wrap_wire_close(struct wire *wire)
{
    log_call("close the wire of %d", wire->fd);
    wire->fd = -1;
}

/* Puts a frame where the wire reads it. */
__attribute__((unused)) static void put_frame(struct wire *wire, uint32_t type, int number,
                                              const void *payload, size_t bytes, int fd)
{
    struct wire_frame *frame = wire_frame_make(type, number, payload, bytes, fd);
    assert_non_null(frame);
    wire_push(wire, frame);
}

__attribute__((unused)) static void put_number(struct wire *wire, uint32_t type, int number,
                                               int32_t payload)
{
    put_frame(wire, type, number, &payload, sizeof payload, -1);
}

#endif

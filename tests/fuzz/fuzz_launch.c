/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of PEs to `weft run`. The bytes are fragments {PE, length, contents} that four PEs send.
 * For any bytes the launcher neither fails nor waits, and ends the job only with a message. */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PES = 4 };

/* Replaces the parts of the launcher for processes and the event loop. */
int run_watch(struct run *run, int fd, uint32_t events, enum run_event event, int number)
{
    return 0;
}

void run_rewatch(struct run *run, int fd, uint32_t events, enum run_event event, int number)
{
}

void run_unwatch(struct run *run, int fd)
{
}

const char *run_pe_name(const struct run *run, int pe)
{
    if (pe < 0 || pe >= PES)
        abort();
    return "PE";
}

void run_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    if (run->ending.phase != RUN_WORKING)
        return;
    if (!*sentence || strlen(sentence) > HUB_MOST_SENTENCE || status >= 0)
        abort();
    run->ending.phase = RUN_NOTIFIED;
    run->ending.status = status;
    strcpy(run->ending.sentence, sentence);
    for (int other = 0; other < PES; other++)
        if (run->pes[other].joined)
            run_send_end(run, other);
}

void run_agent_serve(struct run *run, int pe)
{
}

void run_agent_program_ended(struct run *run, int pe)
{
}

void run_hosts_relay(void *run, int pe, enum frame_type type, int number, const void *payload,
                     size_t bytes)
{
}

/* A frame that is valid except for its first bytes gets further. */
static struct wire_frame *make_frame(const uint8_t *bytes, size_t size)
{
    uint32_t type = bytes[0] % 12u;
    if (type == 11)
        type = FRAME_FD;
    return wire_frame_make(type, (int8_t)bytes[1], bytes + 2, size - 2, -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct run_pe pes[PES] = {0};
    struct run run = {.options = {.npes = PES}, .pes = pes, .started = PES, .alive = PES};
    if (!run_open_hub(&run))
        abort();
    for (int pe = 0; pe < PES; pe++)
        pes[pe].program_pidfd = -1;
    while (size >= 4) {
        int pe = bytes[0] % PES;
        size_t length = bytes[1];
        bytes += 2, size -= 2;
        if (length < 2 || length > size)
            break;
        if (bytes[0] & 0x40) { /* unchanged */
            wire_feed(&run.hub.wires[pe], bytes, length);
            hub_act(&run.hub, pe);
        } else {
            hub_handle(&run.hub, pe, make_frame(bytes, length));
        }
        if (run.hub.parts < 0 || run.hub.parts >= PES ||
            (run.hub.parts > 0) != (run.hub.answer != NULL))
            abort();
        bytes += length, size -= length;
    }
    run_close_hub(&run);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what PEs say to `weft run`. The bytes are packets {PE, length, contents} from four
 * PEs. Whatever they are, the launcher neither fails nor waits, and ends the job only with a
 * sentence. */
#include "run.h"

#include "boot/launch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PES = 4 };

/* The parts of the launcher that have to do with processes and the loop. */
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
    if (run->phase != RUN_WORKING)
        return;
    if (!*sentence || strlen(sentence) > LAUNCH_MOST_SENTENCE || status >= 0)
        abort();
    run->phase = RUN_TOLD;
    run->end_status = status;
    strcpy(run->end_sentence, sentence);
    for (int other = 0; other < PES; other++)
        if (run->pes[other].joined)
            run_tell_end(run, other);
}

/* A packet that is whole but for its first bytes is more likely to get far. */
static size_t make_packet(const uint8_t *bytes, size_t size, char *packet)
{
    struct launch_header header = {LAUNCH_MAGIC, bytes[0] % 12u, (int8_t)bytes[1],
                                   (uint32_t)size - 2};
    if (bytes[0] & 0x80)
        header.magic = bytes[1];
    memcpy(packet, &header, sizeof header);
    memcpy(packet + sizeof header, bytes + 2, size - 2);
    return sizeof header + size - 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static char packet[sizeof(struct launch_header) + 256];
    struct run_pe pes[PES] = {0};
    struct run run = {.options = {.npes = PES}, .pes = pes, .started = PES, .alive = PES};
    for (int pe = 0; pe < PES; pe++)
        pes[pe].socket = pes[pe].program_pidfd = -1;
    while (size >= 4) {
        int pe = bytes[0] % PES;
        size_t length = bytes[1];
        bytes += 2, size -= 2;
        if (length < 2 || length > size)
            break;
        if (bytes[0] & 0x40) /* as it is */
            run_receive(&run, pe, bytes, length, -1, 1);
        else
            run_receive(&run, pe, packet, make_packet(bytes, length, packet), -1, 1);
        if (run.parts < 0 || run.parts >= PES || (run.parts > 0) != (run.answer != NULL))
            abort();
        bytes += length, size -= length;
    }
    run_forget_exchange(&run);
    for (int pe = 0; pe < PES; pe++)
        run_close_socket(&run, pe);
    return 0;
}

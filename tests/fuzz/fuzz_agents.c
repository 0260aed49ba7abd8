/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of agents to `weft run --hosts`, and of an agent's children to it. The bytes are fragments
 * {receiver and child, type, number, length, payload}. For any bytes the launcher and the agent
 * neither fail nor wait, no PE is counted twice, and an agent forwards frames only to its parent.
 */
#include "run/hosts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { HOSTS = 3, PES = 6 };

/* Replaces the parts of the launcher for processes and the event loop. */
const char *weft_last_error(void)
{
    return "an error";
}

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

void run_say(const char *format, ...)
{
}

void run_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    if (!*sentence || status >= 0)
        abort();
    run->ending.phase = RUN_NOTIFIED;
}

void run_begin_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    run->ending.phase = RUN_NOTIFIED;
}

void run_describe_wait_status(int status, char *text, size_t size)
{
    *text = '\0';
}

const char *run_pe_name(const struct run *run, int pe)
{
    if (pe < 0 || pe >= PES)
        abort();
    return "PE";
}

void run_judge_exits(struct run *run)
{
}

void run_agent_serve(struct run *run, int pe)
{
}

void run_agent_program_ended(struct run *run, int pe)
{
}

static struct run_gather gather = {.first = 2, .npes = 4};

void run_agent_report(struct run *run, int type, int number, const void *payload, size_t bytes)
{
    if (!run->agent || type == HOST_DONE)
        abort();
}

/* Combines parts as agent.c does. */
void run_agent_pass(struct run *run, int index, struct wire_frame *frame)
{
    struct run_parts parts;
    const char *data, *out;
    if (frame->type != HOST_PARTS || !(data = run_parts_read(frame, 2, 4, &parts)))
        return;
    for (int i = 0; i < parts.count; i++)
        if (!run_gather_add(&gather, parts.first + i, data + (size_t)i * parts.bytes, parts.bytes))
            break;
    if (gather.count > gather.npes)
        abort();
    if (!run_gather_is_complete(&gather) && frame->number >= 0)
        return;
    while (run_gather_next(&gather, &parts, &out))
        if (parts.first < 2 || parts.first + parts.count > PES || !out || gather.count < 0)
            abort();
    run_gather_drop(&gather);
    gather.passed = 0;
}

/* Host 0, host 1 and below it host 2, with two PEs each; an agent has no PE of its own here. */
static void make_hosts(struct run_host *hosts)
{
    for (int i = 0; i < HOSTS; i++)
        hosts[i] = (struct run_host){.number = i,
                                     .below = i == 1,
                                     .via = i == 2 ? 1 : i,
                                     .member = i == 2 ? 0 : 1 + i,
                                     .npes = i == 1 ? 4 : 2,
                                     .label = "host",
                                     .first = 2 * i,
                                     .count = 2};
}

static void serve_frame(struct run *run, const uint8_t *bytes, size_t length)
{
    const int child = bytes[0] >> 1 & 1;
    struct wire_frame *frame =
        wire_frame_make(bytes[1] % 18u, (int8_t)bytes[2], bytes + 4, length, -1);
    if (!frame)
        abort();
    if (run->hosts.wires[1 + child].fd < 0) {
        wire_frame_free(frame);
        return;
    }
    wire_push(&run->hosts.wires[1 + child], frame);
    run_hosts_serve(run, child, 0);
}

static void check_pes(const struct run *run)
{
    int alive = 0;
    for (int pe = 0; pe < PES; pe++)
        alive += !run->pes[pe].exited;
    if (alive != run->alive)
        abort();
}

static void drop_frame(struct wire_simulation *simulation, uint32_t type, int number,
                       const void *payload, size_t bytes)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct wire_simulation nowhere = {.post = drop_frame};
    struct run_pe pes[2][PES] = {0};
    struct run_host hosts[2][HOSTS];
    struct wire wires[2][1 + HOSTS];
    struct run_agent agent = {.host = "agent"};
    struct run runs[2];
    for (int i = 0; i < 2; i++) {
        make_hosts(hosts[i]);
        for (int member = 0; member <= HOSTS; member++)
            wires[i][member] = (struct wire){.fd = 1 << 30, .simulation = &nowhere};
        runs[i] =
            (struct run){.options = {.npes = PES}, .pes = pes[i], .started = PES, .alive = PES};
        runs[i].hosts.list = hosts[i];
        runs[i].hosts.count = HOSTS;
        runs[i].hosts.children = 2;
        runs[i].hosts.wires = wires[i];
        if (!run_open_hub(&runs[i]))
            abort();
    }
    runs[1].agent = &agent;
    while (size >= 4) {
        const size_t length = bytes[3] < size - 4 ? bytes[3] : size - 4;
        serve_frame(&runs[bytes[0] & 1], bytes, length);
        check_pes(&runs[0]);
        bytes += 4 + length;
        size -= 4 + length;
    }
    for (int i = 0; i < 2; i++) {
        for (int member = 0; member <= HOSTS; member++)
            wire_close(&wires[i][member]);
        run_close_hub(&runs[i]);
    }
    run_gather_drop(&gather);
    gather.passed = 0;
    return 0;
}

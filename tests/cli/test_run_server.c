/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft run` does when PEs join, leave, fail and close their connection (cli/run/server.c):
 * the sequence of calls, without sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run_calls.h"

void __wrap_hub_send(struct hub *hub, int to, enum frame_type type, int number, const void *payload,
                     size_t bytes, int fd);
void __wrap_hub_send(struct hub *hub, int to, enum frame_type type, int number, const void *payload,
                     size_t bytes, int fd)
{
    assert_int_equal(type, FRAME_END);
    log_call("end %s to %d with %d: %zu bytes", base_status_name(number), to, fd, bytes);
    assert_memory_equal(payload, "why it ends, and so on", bytes < 22 ? bytes : 22);
}

void __wrap_hub_read(struct hub *hub, int member);
void __wrap_hub_read(struct hub *hub, int member)
{
    log_call("hub reads PE %d", member);
}

void __wrap_hub_flush(struct hub *hub, int member);
void __wrap_hub_flush(struct hub *hub, int member)
{
    log_call("flush PE %d", member);
}

weft_status __real_hub_init(struct hub *hub, int n, struct wire *wires, bool joined);
weft_status __wrap_hub_init(struct hub *hub, int n, struct wire *wires, bool joined);
weft_status __wrap_hub_init(struct hub *hub, int n, struct wire *wires, bool joined)
{
    log_call("hub of %d%s", n, joined ? ", joined" : "");
    return answers.fails ? WEFT_ERR_NO_MEMORY : __real_hub_init(hub, n, wires, joined);
}

void __real_hub_free(struct hub *hub);
void __wrap_hub_free(struct hub *hub);
void __wrap_hub_free(struct hub *hub)
{
    log_call("free the hub");
    __real_hub_free(hub);
}

void __wrap_wire_close(struct wire *wire);
void __wrap_wire_close(struct wire *wire)
{
    log_call("close the wire of %d", wire->fd);
    wire->fd = -1;
}

static struct run opened(int n)
{
    struct run run = made_run(n);
    assert_true(run_open_hub(&run));
    for (int pe = 0; pe < n; pe++) {
        assert_int_equal(run.hub.wires[pe].fd, -1);
        run.hub.wires[pe].fd = 1301 + pe;
        run.pes[pe].joined = false;
        run.pes[pe].jobs = 0;
        run.pes[pe].program = 0;
    }
    *call_log = '\0';
    return run;
}

static void closed(struct run *run)
{
    *call_log = '\0';
    run_close_hub(run);
    *call_log = '\0';
}

static const struct hub_events *events_of(struct run *run)
{
    run->hub.owner = run; /* the mock job was copied */
    return run->hub.events;
}

static void the_hub_opens_and_closes(void **state)
{
    struct run run = made_run(3);
    assert_true(run_open_hub(&run));
    expect_log("hub of 3\n");
    assert_ptr_equal(run.hub.owner, &run);
    assert_ptr_equal(run.hub.events->send, run_hosts_relay);
    run.hub.wires[1].fd = 1302;
    run_close_hub(&run);
    expect_log("close the wire of -1\nunwatch 1302\nclose the wire of 1302\nclose the wire of -1\n"
               "close the wire of -1\nfree the hub\n");
    run = made_run(3);
    answers.fails = true;
    assert_false(run_open_hub(&run));
    expect_log("hub of 3\n");
    run_close_hub(&run); /* no hub is open */
    expect_log("free the hub\n");
}

static void the_end_is_told_once(void **state)
{
    struct run run = opened(2);
    run.ending.status = WEFT_ERR_JOB;
    strcpy(run.ending.sentence, "why it ends, and so on");
    run_send_end(&run, 1);
    expect_log("end WEFT_ERR_JOB to 1 with -1: 22 bytes\n");
    run_send_end(&run, 1);
    expect_log("");
    closed(&run);
}

static void joining(void **state)
{
    struct run run = opened(3);
    const struct hub_events *events = events_of(&run);
    events->joined(&run, 1, 502);
    expect_log("");
    assert_true(run.pes[1].joined);
    assert_int_equal(run.pes[1].jobs, 1);
    assert_int_equal(run.pes[1].program, 502);
    run.pes[2].program_gone = true;
    events->joined(&run, 2, 777); /* not a child of the launcher: it is watched */
    expect_log("pidfd of 777\nwatch 1201 in: program 2\n");
    assert_int_equal(run.pes[2].program_pidfd, 1201);
    assert_false(run.pes[2].program_gone);
    run_unwatch_program(&run, 2);
    expect_log("unwatch 1201\nclose 1201\n");
    assert_int_equal(run.pes[2].program_pidfd, -1);
    run_unwatch_program(&run, 2);
    expect_log("");

    answers.pidfd = -1;
    for (int gone = 0; gone < 2; gone++) {
        answers.pidfd_errno = gone ? ESRCH : EMFILE;
        events->joined(&run, 2, 778);
        expect_log("pidfd of 778\n");
        assert_int_equal(run.pes[2].program_gone, gone);
    }
    events->joined(&run, 2, 1);
    expect_log("pidfd of 1\n");
    assert_true(run.pes[2].program_gone);
    errno = ESRCH;
    events->joined(&run, 2, 0);
    events->joined(&run, 1, 502);
    expect_log("");
    assert_false(run.pes[2].program_gone);
    assert_false(run.pes[1].program_gone);

    struct run_host host = {.count = 3}; /* on other hosts the agent watches it */
    run.hosts.list = &host;
    events->joined(&run, 1, 777);
    expect_log("");
    run.ending.phase = RUN_NOTIFIED;
    run.ending.status = WEFT_ERR_JOB;
    strcpy(run.ending.sentence, "why it ends, and so on");
    run.pes[0].exited = true;
    events->joined(&run, 1, 777);
    expect_log("end WEFT_ERR_JOB to 1 with -1: 22 bytes\n");
    events->joined(&run, 1, 777);
    expect_log("");
    closed(&run);
}

static void joining_what_others_have_left(void **state)
{
    struct run run = opened(3);
    const struct hub_events *events = events_of(&run);
    run.first = 10;
    run.pes[2].exited = true;
    run.alive = 2;
    run.pes[2].jobs = 1;
    run.pes[3].exited = true; /* not a PE of the job */
    run.pes[3].jobs = 0;
    events->joined(&run, 1, 502);
    expect_log("");
    events->joined(&run, 1, 502);
    expect_log("end for PE 2, WEFT_ERR_PEER_DEAD, result 1: \"PE 12 ended before it joined the "
               "job that other PEs wait for\"\n");
    run.pes[0].exited = true; /* the first PE counts */
    events->joined(&run, 1, 502);
    expect_log("end for PE 0, WEFT_ERR_PEER_DEAD, result 1: \"PE 10 ended before it joined the "
               "job that other PEs wait for\"\n");
    closed(&run);
}

static void leaving(void **state)
{
    struct run run = opened(2);
    const struct hub_events *events = events_of(&run);
    run.pes[1].joined = true;
    run.pes[1].program_pidfd = 1250;
    events->left(&run, 1, true);
    expect_log("unwatch 1250\nclose 1250\n");
    assert_false(run.pes[1].joined);
    run.pes[1].joined = true;
    events->left(&run, 1, false);
    expect_log("end for PE 1, WEFT_ERR_PEER_DEAD, result -1: \"PE 1 left the job before "
               "weft_finalize\"\n");
    assert_true(run.pes[1].joined);
    events->aborted(&run, 1, 7, "no more wool");
    expect_log("end for PE 1, WEFT_ERR_JOB, result 7: \"PE 1 aborted the job with code 7: no more "
               "wool\"\n");
    events->aborted(&run, 1, 256, "x");
    expect_log("end for PE 1, WEFT_ERR_JOB, result 1: \"PE 1 aborted the job with code 256: x\"\n");
    closed(&run);
}

static void failing(void **state)
{
    static const struct {
        weft_status status;
        bool joined;
        int result;
    } rows[] = {{WEFT_ERR_SYSTEM, true, -1},
                {WEFT_ERR_SYSTEM, false, 1},
                {WEFT_ERR_VERSION, true, 1},
                {WEFT_ERR_BOOT, true, 1}};
    struct run run = opened(2);
    const struct hub_events *events = events_of(&run);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[200];
        run.pes[1].joined = rows[i].joined;
        events->failed(&run, 1, rows[i].status, "it is broken");
        snprintf(expected, sizeof expected,
                 "end for PE 1, %s, result %d: \"PE 1 cannot go on: it is broken\"\n",
                 base_status_name(rows[i].status), rows[i].result);
        expect_log(expected);
    }
    closed(&run);
}

static void closing_its_connection(void **state)
{
    struct run run = opened(3);
    const struct hub_events *events = events_of(&run);
    run.pes[1].cut_off_ns = 5;
    events->lost(&run, 1);
    expect_log("unwatch 1302\nclose the wire of 1302\n");
    assert_int_equal(run.pes[1].cut_off_ns, 0);
    assert_false(run.ending.some_cut_off);
    run.pes[2].joined = true;
    events->lost(&run, 2);
    expect_log("unwatch 1303\nclose the wire of 1303\n");
    assert_int_equal(run.pes[2].cut_off_ns, 7 * RUN_SECOND_NS);
    assert_true(run.ending.some_cut_off);
    events->lost(&run, 1); /* an earlier time is kept */
    expect_log("");
    assert_true(run.ending.some_cut_off);
    closed(&run);
}

static void room_in_sockets(void **state)
{
    struct run run = opened(3);
    const struct hub_events *events = events_of(&run);
    struct wire *wires = run.hub.wires;
    events->unsent_changed(&run, 1);
    expect_log("rewatch 1302 in: socket 1\n");
    assert_false(run.retry_soon);
    struct wire_unsent unsent = {.fd = -1};
    wires[1].unsent = &unsent;
    wires[1].starved = true;
    events->unsent_changed(&run, 1);
    expect_log("rewatch 1302 in out: socket 1\n");
    assert_true(run.retry_soon);
    events->unsent_changed(&run, 2);
    assert_true(run.retry_soon);
    wires[2].fd = -1;
    *call_log = '\0';
    events->unsent_changed(&run, 2);
    expect_log("");
    wires[2].starved = true;
    wires[0].starved = true;
    run.started = 2;
    run_retry_sending(&run);
    expect_log("flush PE 0\nflush PE 1\n");
    assert_false(run.retry_soon);
    run_flush_socket(&run, 1);
    expect_log("flush PE 1\n");
    wires[1].unsent = NULL;
    closed(&run);
}

static void serving(void **state)
{
    struct run run = opened(2);
    struct run_agent agent = {.index = 0};
    run_serve(&run, 1);
    expect_log("hub reads PE 1\n");
    run.pes[1].joined = true;
    run_serve(&run, 1);
    expect_log("hub reads PE 1\n");
    run.pes[1].program_gone = true;
    run.pes[1].program = 777;
    run.pes[1].program_pidfd = 1250;
    run_serve(&run, 1);
    expect_log("hub reads PE 1\nunwatch 1250\nclose 1250\n"
               "end for PE 1, WEFT_ERR_PEER_DEAD, result -1: \"the program of PE 1, pid 777, ended "
               "without weft_finalize\"\n");
    run.agent = &agent;
    run_serve(&run, 1);
    expect_log("agent serves PE 1\nagent tells that the program of PE 1 ended\n");
    run.pes[1].exited = true;
    run_serve(&run, 1);
    expect_log("agent serves PE 1\n");
    run.pes[1].exited = run.pes[1].joined = false;
    run_serve(&run, 1);
    expect_log("agent serves PE 1\n");
    run.agent = NULL;
    run_program_ended(&run, 1);
    expect_log("");
    closed(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hub_opens_and_closes),
        cmocka_unit_test(the_end_is_told_once),
        cmocka_unit_test(joining),
        cmocka_unit_test(joining_what_others_have_left),
        cmocka_unit_test(leaving),
        cmocka_unit_test(failing),
        cmocka_unit_test(closing_its_connection),
        cmocka_unit_test(room_in_sockets),
        cmocka_unit_test(serving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

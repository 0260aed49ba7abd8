/* SPDX-License-Identifier: Apache-2.0 */
/* An agent of `weft run --hosts` (cli/run/agent.c): the sequence of calls, with a mock launcher and
 * mock PEs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run_wires.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

/* ------------------------------------------------------------------------- mock system calls */

static struct {
    bool lost_directory, no_launcher;
    int revents; /* of standard input */
} system_;

bool run_hosts_connect(struct run *run)
{
    log_call("connect the hosts below");
    return !answers.unreached;
}

void run_hosts_close(struct run *run)
{
    log_call("close the hosts");
}

static struct rendezvous asked;
static struct rendezvous_address asked_addresses[4];
static char asked_key[20];

weft_status __wrap_rendezvous_connect(const struct rendezvous *rendezvous,
                                      const struct rendezvous_address *addresses, int count,
                                      struct wire *wire);
weft_status __wrap_rendezvous_connect(const struct rendezvous *rendezvous,
                                      const struct rendezvous_address *addresses, int count,
                                      struct wire *wire)
{
    log_call("%s: %d of %d, %s of %zu bytes, job %s, %d addresses", rendezvous->what,
             rendezvous->me, rendezvous->n, rendezvous->secret, rendezvous->key_bytes,
             rendezvous->job, count);
    asked = *rendezvous;
    snprintf(asked_key, sizeof asked_key, "%s", (const char *)rendezvous->key);
    memcpy(asked_addresses, addresses, (size_t)count * sizeof *addresses);
    wire->fd = system_.no_launcher ? -1 : 1501;
    return system_.no_launcher ? base_fail(WEFT_ERR_TIMEOUT, "nobody is there") : WEFT_OK;
}

weft_status __wrap_wire_send(struct wire *wire, struct boot_limit *limit, uint32_t type, int number,
                             const void *payload, size_t bytes, int fd);
weft_status __wrap_wire_send(struct wire *wire, struct boot_limit *limit, uint32_t type, int number,
                             const void *payload, size_t bytes, int fd)
{
    log_call("send to %d: %s %d, %zu bytes", wire->fd, host_frames[type], number, bytes);
    assert_null(payload);
    assert_int_equal(limit->left_ns, RUN_SECOND_NS);
    assert_int_equal(fd, -1);
    return WEFT_OK;
}

int __wrap_chdir(const char *path);
int __wrap_chdir(const char *path)
{
    log_call("chdir %s", path);
    errno = ENOENT;
    return system_.lost_directory ? -1 : 0;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    log_call("kill %d %d", (int)pid, number);
    return 0;
}

int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms);
int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms)
{
    assert_int_equal(n, 1);
    assert_int_equal(limit_ms, 0);
    assert_int_equal(watched->fd, STDIN_FILENO);
    assert_int_equal(watched->events, POLLRDHUP);
    watched->revents = (short)system_.revents;
    return system_.revents != 0;
}

/* ------------------------------------------------------------------------------ a mock agent */

static struct wire made_wires[PES_MOST];
static struct run_agent agent;

/* Three PEs, which are PEs 10 to 12 of the job's 15. */
static struct run made_agent(void)
{
    struct run run = made_run(3);
    static char *command[] = {"program", NULL};
    memset(&system_, 0, sizeof system_);
    memset(&wire_answers, 0, sizeof wire_answers);
    memset(made_wires, 0, sizeof made_wires);
    run_gather_drop(&agent.gather);
    agent = (struct run_agent){.up = {.fd = 1501},
                               .host = "b",
                               .index = 4,
                               .first = 10,
                               .npes = 15,
                               .gather = {.first = 10, .npes = 3}};
    for (int pe = 0; pe < PES_MOST; pe++)
        made_wires[pe].fd = 1301 + pe;
    run.hub.wires = made_wires;
    run.agent = &agent;
    run.first = 10;
    run.all = 15;
    run.options.command = command;
    blocks = 0;
    return run;
}

/* ------------------------------------------------------------------------------ to the launcher */

static void exits_are_told(void **state)
{
    struct run run = made_agent();
    run.pes[2].wait_status = 9;
    run_agent_exited(&run, 2);
    expect_log("post to 1501: EXITED 12, 9\nrewatch 1501 in: launcher 0\n");
    run_agent_program_ended(&run, 1);
    expect_log("post to 1501: PROGRAM_ENDED 11,\nrewatch 1501 in: launcher 0\n");
    run.pes[1].joined = false;
    run_agent_program_ended(&run, 1);
    expect_log("");
    struct wire_unsent unsent = {.fd = -1};
    agent.up.unsent = &unsent;
    agent.up.starved = true;
    run_agent_exited(&run, 2);
    expect_log("post to 1501: EXITED 12, 9\nrewatch 1501 in out: launcher 0\n");
    assert_true(run.retry_soon);
    agent.up.starved = false;
    wire_answers.post = WEFT_ERR_PEER_DEAD; /* the loss is noticed by the next read */
    run_agent_exited(&run, 2);
    expect_log("post to 1501: EXITED 12, 9\nrewatch 1501 in out: launcher 0\n");
    assert_true(run.retry_soon);
}

static void the_launcher_is_lost(void **state)
{
    struct run run = made_agent();
    wire_answers.post = WEFT_ERR_NO_MEMORY;
    run_agent_exited(&run, 2);
    expect_log(
        "post to 1501: EXITED 12, 0\nunwatch 1501\nabandon the hosts below\n"
        "say \"the launcher is lost (no way to send); ending the PEs of this host\"\n"
        "begin the end for PE -1, WEFT_ERR_BOOT, result 1: \"the launcher (weft run) has ended; "
        "ending the job\"\n");
    assert_true(agent.up_lost && agent.finish);
    assert_int_equal(run.ending.result, 1);
    run_agent_exited(&run, 2);
    run_agent_receive(&run, EPOLLIN);
    expect_log("");

    run = made_agent();
    run.alive = 0;
    run.ending.phase = RUN_NOTIFIED;
    agent.up.fd = -1;
    wire_answers.post = WEFT_ERR_NO_MEMORY;
    run_agent_exited(&run, 2);
    expect_log("post to -1: EXITED 12, 0\nabandon the hosts below\n");
    run = made_agent();
    run.alive = 1;
    wire_answers.post = WEFT_ERR_NO_MEMORY;
    run_agent_exited(&run, 2);
    assert_non_null(strstr(call_log, "ending the PEs"));
}

/* --------------------------------------------------------------------------------- from the PEs */

static void frames_are_passed_up(void **state)
{
    struct run run = made_agent();
    struct wire *wire = &made_wires[1];
    put_frame(wire, FRAME_WHO, 8, "part", 4, -1);
    wire->last->sender = 70;
    answers.dying[0] = 1; /* irrelevant to this frame */
    run_agent_serve(&run, 1);
    expect_log("read 1302\npost to 1501: RELAY 0, 11 6 8 70 0 \"part\"\n"
               "rewatch 1501 in: launcher 0\n");
    put_frame(wire, FRAME_FAILED, 8, NULL, 0, -1);
    put_frame(wire, FRAME_ABORT, 8, NULL, 0, -1);
    run_agent_serve(&run, 1);
    expect_log("read 1302\npost to 1501: RELAY 0, 11 3 8 0 1\nrewatch 1501 in: launcher 0\n"
               "post to 1501: RELAY 0, 11 4 8 0 1\nrewatch 1501 in: launcher 0\n");
    answers.dying[0] = 0;
    put_frame(wire, FRAME_ABORT, 8, NULL, 0, -1);
    run_agent_serve(&run, 1);
    expect_log("read 1302\npost to 1501: RELAY 0, 11 4 8 0 0\nrewatch 1501 in: launcher 0\n");
    assert_int_equal(blocks, 0);
    put_frame(wire, FRAME_WHO, 8, "part", 4, -1);
    memory_fails_in = 0;
    run_agent_serve(&run, 1);
    assert_non_null(strstr(call_log, "say \"the launcher is lost (no memory for a frame to it);"));
    assert_null(strstr(call_log, "post"));
    assert_int_equal(blocks, 0);
}

static void serve_part(struct run *run, int pe, const char *part)
{
    put_frame(&made_wires[pe], FRAME_PART, 0, part, strlen(part), -1);
    run_agent_serve(run, pe);
}

/* The parts of all PEs go up in one frame. */
static void parts_are_combined(void **state)
{
    struct run run = made_agent();
    for (int exchange = 0; exchange < 2; exchange++) {
        serve_part(&run, 2, "cccc");
        serve_part(&run, 0, "aaaa");
        expect_log("read 1303\nread 1301\n");
        assert_int_equal(run_agent_due_ns(&run), 12 * RUN_SECOND_NS);
        serve_part(&run, 1, "bbbb");
        expect_log("read 1302\npost to 1501: PARTS 0, 10 3 4 \"aaaabbbbcccc\"\n"
                   "rewatch 1501 in: launcher 0\n");
        assert_int_equal(run_agent_due_ns(&run), UINT64_MAX);
        struct host_relay all = {.pe = HOST_EVERY_PE, .type = FRAME_ALL};
        put_frame(&agent.up, HOST_RELAY, 0, &all, sizeof all, -1);
        run_agent_receive(&run, EPOLLIN);
        *call_log = '\0';
    }
    assert_int_equal(blocks, 0);

    serve_part(&run, 2, "cccc"); /* some are late */
    serve_part(&run, 0, "aaaa");
    run_agent_send_parts(&run);
    expect_log("read 1303\nread 1301\npost to 1501: PARTS 0, 10 1 4 \"aaaa\"\n"
               "rewatch 1501 in: launcher 0\npost to 1501: PARTS 0, 12 1 4 \"cccc\"\n"
               "rewatch 1501 in: launcher 0\n");
    serve_part(&run, 1, "bbbb");
    expect_log("read 1302\npost to 1501: PARTS 0, 11 1 4 \"bbbb\"\nrewatch 1501 in: launcher 0\n");
    assert_int_equal(blocks, 0);
}

/* The launcher gets parts that do not fit in the order in which they came. */
static void other_parts_go_at_once(void **state)
{
    struct run run = made_agent();
    serve_part(&run, 0, "aaaa");
    serve_part(&run, 1, "bbbbb");
    expect_log("read 1301\nread 1302\npost to 1501: PARTS 0, 10 1 4 \"aaaa\"\n"
               "rewatch 1501 in: launcher 0\npost to 1501: PARTS 0, 11 1 5 \"bbbbb\"\n"
               "rewatch 1501 in: launcher 0\n");
    run = made_agent();
    serve_part(&run, 0, "aaaa");
    serve_part(&run, 0, "aaab");
    expect_log("read 1301\nread 1301\npost to 1501: PARTS 0, 10 1 4 \"aaaa\"\n"
               "rewatch 1501 in: launcher 0\npost to 1501: PARTS 0, 10 1 4 \"aaab\"\n"
               "rewatch 1501 in: launcher 0\n");
    run = made_agent(); /* a later frame of the same PE does not overtake its part */
    serve_part(&run, 0, "aaaa");
    put_frame(&made_wires[1], FRAME_WHO, 0, NULL, 0, -1);
    run_agent_serve(&run, 1);
    expect_log("read 1301\nread 1302\npost to 1501: RELAY 0, 11 6 0 0 0\n"
               "rewatch 1501 in: launcher 0\n");
    put_frame(&made_wires[0], FRAME_WHO, 0, NULL, 0, -1);
    run_agent_serve(&run, 0);
    expect_log("read 1301\npost to 1501: PARTS 0, 10 1 4 \"aaaa\"\nrewatch 1501 in: launcher 0\n"
               "post to 1501: RELAY 0, 10 6 0 0 0\nrewatch 1501 in: launcher 0\n");
    for (int block = 0; block < 3; block++) {
        run = made_agent();
        agent.gather.npes = 1;
        put_frame(&made_wires[0], FRAME_PART, 0, "aaaa", 4, -1);
        memory_fails_in = block;
        run_agent_serve(&run, 0);
        if (block < 2) /* tried again after those that are held */
            assert_non_null(strstr(call_log, "PARTS 0, 10 1 4"));
        else
            assert_non_null(strstr(call_log, "no memory for a frame to it"));
        assert_int_equal(blocks, 0);
        memory_fails_in = -1;
        *call_log = '\0';
    }
}

/* -------------------------------------------------------------------------- with agents below */

static struct run_host below[2] = {{.number = 5, .member = 1, .first = 13, .npes = 1},
                                   {.number = 6, .member = 2, .first = 14, .npes = 1}};

static struct run made_parent(void)
{
    struct run run = made_agent();
    run.hosts.list = below;
    run.hosts.count = run.hosts.children = 2;
    agent.gather.npes = 5;
    return run;
}

static void frames_are_forwarded(void **state)
{
    struct run run = made_parent();
    struct host_relay relay = {.pe = 14, .type = FRAME_END, .number = 3};
    put_frame(&agent.up, HOST_RELAY, 0, &relay, sizeof relay, -1);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\nsend 10 0 to host 1, 20 bytes\n");
    relay.pe = HOST_EVERY_PE;
    put_frame(&agent.up, HOST_RELAY, 0, &relay, sizeof relay, -1);
    run_agent_receive(&run, EPOLLIN);
    assert_non_null(strstr(call_log,
                           "send 10 0 to host 0, 20 bytes\nsend 10 0 to host 1, 20 bytes\n"
                           "post to 1301: "));
    *call_log = '\0';
    put_number(&agent.up, HOST_SIGNAL, SIGTERM, 13);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\nsend 2 15 to host 0, 4 bytes\n");
    put_number(&agent.up, HOST_SIGNAL, SIGTERM, 12);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\nkill -603 15\n");
    put_frame(&agent.up, HOST_GO, 0, NULL, 0, -1);
    run_agent_receive(&run, EPOLLIN);
    assert_non_null(strstr(call_log, "read 1501\nsend 1 0 to host 0, 0 bytes\n"
                                     "send 1 0 to host 1, 0 bytes\nfind program\n"));
    *call_log = '\0';
}

static void pass(struct run *run, int host, uint32_t type, const void *payload, size_t bytes)
{
    struct wire_frame *frame = wire_frame_make(type, 0, payload, bytes, -1);
    assert_non_null(frame);
    run_agent_pass(run, host, frame);
    wire_frame_free(frame);
}

static void parts_of_agents_below_are_combined(void **state)
{
    struct run run = made_parent();
    struct {
        struct run_parts parts;
        char data[4];
    } frame = {{13, 1, 4}, "dddd"};
    struct host_relay relay = {.pe = 14, .type = FRAME_WHO};
    for (int pe = 0; pe < 3; pe++)
        serve_part(&run, pe, "aaaa");
    *call_log = '\0';
    pass(&run, 1, HOST_PARTS, &frame, sizeof frame); /* not a PE of that child */
    pass(&run, 0, HOST_PARTS, &frame, sizeof frame);
    expect_log("");
    pass(&run, 1, HOST_RELAY, &relay, sizeof relay); /* no part of that PE is held */
    expect_log("post to 1501: RELAY 0, 14 6 0 0 0\nrewatch 1501 in: launcher 0\n");
    frame.parts.first = 14;
    pass(&run, 1, HOST_PARTS, &frame, sizeof frame);
    expect_log("post to 1501: PARTS 0, 10 5 4 \"aaaaaaaaaaaadddddddd\"\n"
               "rewatch 1501 in: launcher 0\n");
    agent.gather.passed = 0;
    pass(&run, 1, HOST_PARTS, &frame, sizeof frame);
    pass(&run, 1, HOST_RELAY, &relay, sizeof relay);
    expect_log("post to 1501: PARTS 0, 14 1 4 \"dddd\"\nrewatch 1501 in: launcher 0\n"
               "post to 1501: RELAY 0, 14 6 0 0 0\nrewatch 1501 in: launcher 0\n");
    run_gather_drop(&agent.gather);
}

static void a_parent_loses_its_own_parent(void **state)
{
    struct run run = made_parent();
    wire_answers.read = WEFT_ERR_PEER_DEAD;
    run_agent_receive(&run, EPOLLIN);
    assert_non_null(
        strstr(call_log, "unwatch 1501\nabandon the hosts below\nsay \"the launcher is"));
    run = made_parent();
    assert_int_equal(run_agent_check_parent(&run), WEFT_OK);
    wire_answers.read = WEFT_ERR_PEER_DEAD;
    assert_int_equal(run_agent_check_parent(&run), WEFT_ERR_BOOT);
    assert_true(agent.up_lost);
    *call_log = '\0';
}

static void joining_and_leaving_are_noted(void **state)
{
    struct run run = made_agent();
    struct wire *wire = &made_wires[1];
    run.pes[1].joined = false;
    run.pes[1].program_gone = true;
    put_frame(wire, FRAME_JOIN, 0, NULL, 0, -1);
    wire->last->sender = 70;
    run_agent_serve(&run, 1);
    expect_log("read 1302\nwatch the program of PE 1\npost to 1501: RELAY 0, 11 1 0 70 0\n"
               "rewatch 1501 in: launcher 0\n");
    assert_true(run.pes[1].joined);
    assert_int_equal(run.pes[1].jobs, 2);
    assert_int_equal(run.pes[1].program, 70);
    assert_false(run.pes[1].program_gone);
    put_frame(wire, FRAME_BYE, 0, NULL, 0, -1);
    run_agent_serve(&run, 1);
    expect_log("read 1302\nunwatch the program of PE 1\npost to 1501: RELAY 0, 11 5 0 0 0\n"
               "rewatch 1501 in: launcher 0\n");
    assert_true(run.pes[1].joined);
    put_frame(wire, FRAME_BYE, 1, NULL, 0, -1);
    run_agent_serve(&run, 1);
    assert_false(run.pes[1].joined);
    assert_int_equal(run.pes[1].jobs, 2);
}

static void descriptors_stay_on_the_host(void **state)
{
    struct run run = made_agent();
    struct wire *wire = &made_wires[1];
    put_frame(wire, FRAME_FD, 0, NULL, 0, 1450); /* to all other PEs */
    run_agent_serve(&run, 1);
    expect_log("read 1302\npost to 1301: FD 11, with a descriptor\nrewatch 1301 in: socket 0\n"
               "post to 1303: FD 11, with a descriptor\nrewatch 1303 in: socket 2\nclose 1450\n");
    int32_t to[] = {12, 11, 9, 13, 10}; /* two of them are other PEs of this host */
    put_frame(wire, FRAME_FD, 0, to, sizeof to, 1450);
    run_agent_serve(&run, 1);
    expect_log("read 1302\npost to 1303: FD 11, with a descriptor\nrewatch 1303 in: socket 2\n"
               "post to 1301: FD 11, with a descriptor\nrewatch 1301 in: socket 0\nclose 1450\n");
    put_frame(wire, FRAME_FD, 0, NULL, 0, -1);
    run_agent_serve(&run, 1);
    char expected[300];
    snprintf(
        expected, sizeof expected,
        "read 1302\npost to 1501: RELAY 0, 11 3 %d 0 0 \"a descriptor did not arrive at weft run: "
        "raise the limit of open files (ulimit -n)\"\nrewatch 1501 in: launcher 0\n",
        WEFT_ERR_SYSTEM);
    expect_log(expected);
    put_frame(wire, FRAME_FD, 0, NULL, 0, -1);
    memory_fails_in = 0;
    run_agent_serve(&run, 1);
    expect_log("read 1302\n");
    assert_int_equal(blocks, 0);
}

static void a_connection_of_a_pe_ends(void **state)
{
    struct run run = made_agent();
    put_frame(&made_wires[1], FRAME_WHO, 8, NULL, 0, -1);
    wire_answers.read = WEFT_ERR_PEER_DEAD;
    run_agent_serve(&run, 1);
    expect_log("read 1302\npost to 1501: RELAY 0, 11 6 8 0 0\nrewatch 1501 in: launcher 0\n"
               "close the socket of PE 1\npost to 1501: LOST 11,\nrewatch 1501 in: launcher 0\n");
    run_agent_serve(&run, 1);
    expect_log("");
    wire_answers.read = WEFT_ERR_BOOT;
    run_agent_serve(&run, 2);
    char expected[300];
    snprintf(
        expected, sizeof expected,
        "read 1303\nclose the socket of PE 2\npost to 1501: RELAY 0, 12 3 %d 0 0 \"its connection "
        "to weft run failed: what came is broken\"\nrewatch 1501 in: launcher 0\n",
        WEFT_ERR_BOOT);
    expect_log(expected);
    memory_fails_in = 0;
    run_agent_serve(&run, 0);
    expect_log("read 1301\nclose the socket of PE 0\n");
    assert_int_equal(blocks, 0);
}

/* ---------------------------------------------------------------------------- from the launcher */

static void the_launcher_has_the_pes_started(void **state)
{
    struct run run = made_agent();
    run.options.npes = 4;
    run.ending.result = 9;
    put_frame(&agent.up, HOST_GO, 0, NULL, 0, -1);
    put_frame(&agent.up, HOST_GO, 0, NULL, 0, -1); /* once */
    put_frame(&agent.up, HOST_FINISH, 0, NULL, 0, -1);
    run_agent_receive(&run, EPOLLIN);
    expect_log(
        "read 1501\nfind program\nstart program of 15 at 7000 ms\npost to 1501: STARTED 4, 501 "
        "502 503\n"
        "rewatch 1501 in: launcher 0\n");
    assert_true(agent.go && agent.finish);
    assert_int_equal(run.started_ns, 7 * RUN_SECOND_NS);
    assert_int_equal(run.ending.result, -1);
    assert_int_equal(blocks, 0);

    run = made_agent();
    run.options.command = (char *[]){"absent", NULL};
    put_frame(&agent.up, HOST_GO, 0, NULL, 0, -1);
    run_agent_receive(&run, EPOLLIN | EPOLLOUT);
    expect_log(
        "flush 1501\nrewatch 1501 in: launcher 0\nread 1501\nfind absent\n"
        "post to 1501: REFUSED 127, 4\nrewatch 1501 in: launcher 0\n"
        "begin the end for PE -1, WEFT_ERR_BOOT, result 127: \"weft run could not start every "
        "PE\"\n");
    assert_false(agent.finish);
    assert_int_equal(blocks, 0);

    static const int results[][2] = {{-1, 1}, {0, 1}, {1, 1}, {126, 126}};
    for (int i = 0; i < 4; i++) {
        char expected[100];
        run = made_agent();
        run.ending.result = results[i][0];
        run.options.command = (char *[]){"broken", NULL};
        put_frame(&agent.up, HOST_GO, 0, NULL, 0, -1);
        run_agent_receive(&run, EPOLLIN);
        snprintf(expected, sizeof expected, "post to 1501: REFUSED %d, 4\n", results[i][1]);
        assert_non_null(strstr(call_log, expected));
        assert_null(strstr(call_log, "STARTED"));
        *call_log = '\0';
    }
    run = made_agent(); /* no memory for the pids */
    put_frame(&agent.up, HOST_GO, 0, NULL, 0, -1);
    memory_fails_in = 0;
    run_agent_receive(&run, EPOLLIN);
    assert_non_null(strstr(call_log, "post to 1501: STARTED 4,\n"));
}

static void signals_come_from_the_launcher(void **state)
{
    struct run run = made_agent();
    put_number(&agent.up, HOST_SIGNAL, SIGTERM, 12);
    put_number(&agent.up, HOST_SIGNAL, SIGINT, 10);
    put_number(&agent.up, HOST_SIGNAL, SIGTERM, 9);
    put_number(&agent.up, HOST_SIGNAL, SIGTERM, 13);
    const struct host_relay relay = {.pe = 12, .type = HOST_DONE};
    put_frame(&agent.up, HOST_SIGNAL, SIGTERM, &relay, sizeof relay, -1); /* too long */
    agent.go = true;
    put_number(&agent.up, HOST_GO, SIGTERM, 12);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\nkill -603 15\nkill -601 2\n");
    run.pes[2].exited = true;
    put_number(&agent.up, HOST_SIGNAL, SIGTERM, 12);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\n");
}

static void frames_are_passed_down(void **state)
{
    struct run run = made_agent();
    struct {
        struct host_relay relay;
        char text[4];
    } frame = {{.pe = 11, .type = HOST_DONE, .number = 77}, "why"};
    put_frame(&agent.up, HOST_RELAY, 0, &frame, sizeof frame.relay + 3, -1);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\npost to 1302: DONE 77, \"why\"\nrewatch 1302 in: socket 1\n");
    frame.relay.pe = HOST_EVERY_PE;
    made_wires[1].fd = -1;
    struct wire_unsent unsent = {.fd = -1};
    made_wires[0].unsent = &unsent;
    made_wires[0].starved = true;
    put_frame(&agent.up, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\npost to 1301: DONE 77,\nrewatch 1301 in out: socket 0\n"
               "post to 1303: DONE 77,\nrewatch 1303 in: socket 2\n");
    assert_true(run.retry_soon);
    frame.relay.pe = 13;
    put_frame(&agent.up, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    frame.relay.pe = 12;
    put_frame(&agent.up, HOST_RELAY, 0, &frame, sizeof frame.relay - 1, -1); /* too short */
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\n");
    wire_answers.post = WEFT_ERR_NO_MEMORY;
    put_frame(&agent.up, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\npost to 1303: DONE 77,\nsay \"sending to PE 12: no way to send\"\n"
               "rewatch 1303 in: socket 2\n");
    wire_answers.post = WEFT_ERR_PEER_DEAD;
    put_frame(&agent.up, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    run_agent_receive(&run, EPOLLIN);
    expect_log("read 1501\npost to 1303: DONE 77,\nrewatch 1303 in: socket 2\n");
    assert_int_equal(blocks, 0);
}

static void the_connection_to_the_launcher_ends(void **state)
{
    static const struct {
        weft_status status;
        int error;
        const char *why;
    } rows[] = {
        {WEFT_ERR_PEER_DEAD, 0, "its end of the connection is closed"},
        {WEFT_ERR_PEER_DEAD, ETIMEDOUT, "it does not answer any more: Connection timed out"},
        {WEFT_ERR_BOOT, ETIMEDOUT, "what came is broken"},
    };
    for (int i = 0; i < 3; i++) {
        char expected[400];
        struct run run = made_agent();
        wire_answers.read = rows[i].status;
        wire_answers.error = rows[i].error;
        put_number(&agent.up, HOST_SIGNAL, SIGTERM, 12); /* is still accepted */
        run_agent_receive(&run, EPOLLIN);
        snprintf(expected, sizeof expected,
                 "read 1501\nkill -603 15\nunwatch 1501\nabandon the hosts below\n"
                 "say \"the launcher is lost (%s); ending the PEs of this host\"\n",
                 rows[i].why);
        assert_memory_equal(call_log, expected, strlen(expected));
        *call_log = '\0';
    }
    struct run run = made_agent(); /* frames after the loss are ignored, and it is lost once */
    wire_answers.read = WEFT_ERR_BOOT;
    wire_answers.post = WEFT_ERR_NO_MEMORY;
    put_frame(&agent.up, HOST_GO, 0, NULL, 0, -1);
    put_number(&agent.up, HOST_SIGNAL, SIGTERM, 12);
    run_agent_receive(&run, EPOLLIN);
    assert_null(strstr(call_log, "kill"));
    assert_null(strstr(strstr(call_log, "is lost") + 1, "is lost"));
    wire_frame_free(wire_take(&agent.up));
}

/* ------------------------------------------------------------------------------ the whole agent */

static struct run whole_agent(void)
{
    struct run run = made_agent();
    agent.up.fd = -1;
    agent.members = 5;
    agent.member = 3;
    agent.secret = copy_text("very secret");
    agent.job = "77aa";
    agent.directory = "/somewhere";
    agent.addresses = __real_calloc(3, sizeof *agent.addresses);
    agent.addresses[0].bytes = sizeof(struct sockaddr_in);
    *(struct sockaddr_in *)&agent.addresses[0].address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(4321)};
    agent.address_count = 1;
    run.pes = __real_calloc(3, sizeof *run.pes);
    run.options.command = __real_calloc(2, sizeof *run.options.command);
    blocks = 3; /* freed by the agent */
    run.input.relay = true;
    return run;
}

static void an_agent_works(void **state)
{
    struct run run = whole_agent();
    char *secret = agent.secret;
    unsetenv("SSH_CONNECTION");
    assert_int_equal(run_agent_main(&run), 5);
    expect_log(
        "chdir /somewhere\nprepare\nconnecting to the launcher: 3 of 5, secret of 11 bytes, job "
        "77aa, 1 addresses\nwatch 1501 in: launcher 0\nloop, standard input left\n"
        "send to 1501: DONE 0, 0 bytes\nstop the guard\nclose the wire of 1501\nclose the hosts\n");
    assert_string_equal(asked_key, "very secret");
    assert_int_equal(blocks, 0);
    for (int i = 0; i < 11; i++)
        assert_int_equal(secret[i], 0);
    free(secret);

    run = whole_agent();
    agent.directory = NULL;
    answers.loses_launcher = true;
    secret = agent.secret;
    assert_int_equal(run_agent_main(&run), HOST_EXIT_LOST);
    expect_log("prepare\nconnecting to the launcher: 3 of 5, secret of 11 bytes, job "
               "77aa, 1 addresses\nwatch 1501 in: launcher 0\nloop, standard input left\n"
               "stop the guard\nclose the wire of 1501\nclose the hosts\n");
    free(secret);
}

static void a_parent_works(void **state)
{
    for (int reached = 0; reached < 2; reached++) {
        struct run run = whole_agent();
        char *secret = agent.secret;
        run.hosts.list = below;
        run.hosts.count = run.hosts.children = 2;
        answers.unreached = !reached;
        assert_int_equal(run_agent_main(&run), reached ? 5 : 1);
        assert_non_null(strstr(call_log, reached
                                             ? "connect the hosts below\npost to 1501: READY 0,\n"
                                             : "connect the hosts below\nstop the guard\n"));
        assert_int_equal(secret[0], 0);
        free(secret);
        *call_log = '\0';
    }
}

static void an_agent_cannot_begin(void **state)
{
    struct run run = whole_agent();
    char *secret = agent.secret;
    system_.lost_directory = true;
    assert_int_equal(run_agent_main(&run), 1);
    expect_log("chdir /somewhere\nsay \"/somewhere, the launcher's directory: No such file or "
               "directory\"\nstop the guard\nclose the wire of -1\nclose the hosts\n");
    free(secret);
    run = whole_agent();
    secret = agent.secret;
    system_.no_launcher = true;
    assert_int_equal(run_agent_main(&run), 1);
    expect_log(
        "chdir /somewhere\nprepare\nconnecting to the launcher: 3 of 5, secret of 11 bytes, job "
        "77aa, 1 addresses\nsay \"nobody is there\"\nstop the guard\n"
        "close the wire of -1\nclose the hosts\n");
    free(secret);
    run = whole_agent();
    secret = agent.secret;
    answers.watch_fails_in = 0;
    assert_int_equal(run_agent_main(&run), 1);
    assert_null(strstr(call_log, "loop"));
    free(secret);
    run = whole_agent();
    secret = agent.secret;
    answers.fails = true;
    assert_int_equal(run_agent_main(&run), 1);
    assert_null(strstr(call_log, "connecting"));
    free(secret);
    *call_log = '\0';
}

static void ssh_tells_another_address(void **state)
{
    for (int six = 0; six < 2; six++) {
        struct run run = whole_agent();
        char *secret = agent.secret;
        setenv("SSH_CONNECTION", six ? "fe00::7 50000 ::1 22" : "10.1.2.3 50000 10.0.0.1 22", 1);
        if (six)
            *(struct sockaddr_in6 *)&agent.addresses[0].address =
                (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(4322)};
        run_agent_main(&run);
        assert_non_null(strstr(call_log, "2 addresses"));
        char text[60];
        if (six) {
            const struct sockaddr_in6 *at = (void *)&asked_addresses[1].address;
            assert_int_equal(at->sin6_family, AF_INET6);
            assert_int_equal(at->sin6_port, htons(4322));
            assert_string_equal(inet_ntop(AF_INET6, &at->sin6_addr, text, sizeof text), "fe00::7");
            assert_int_equal(asked_addresses[1].bytes, sizeof *at);
        } else {
            const struct sockaddr_in *at = (void *)&asked_addresses[1].address;
            assert_int_equal(at->sin_port, htons(4321));
            assert_string_equal(inet_ntop(AF_INET, &at->sin_addr, text, sizeof text), "10.1.2.3");
            assert_int_equal(asked_addresses[1].bytes, sizeof *at);
        }
        free(secret);
    }
    static const char *const none[] = {"", "host.of.others 5 6 7"};
    for (int i = 0; i < 2; i++) {
        struct run run = whole_agent();
        char *secret = agent.secret;
        setenv("SSH_CONNECTION", none[i], 1);
        run_agent_main(&run);
        assert_non_null(strstr(call_log, "1 addresses"));
        free(secret);
    }
    unsetenv("SSH_CONNECTION");
    static const struct {
        int revents;
        weft_status status;
    } rows[] = {{0, WEFT_OK},
                {POLLIN, WEFT_OK},
                {POLLHUP, WEFT_ERR_BOOT},
                {POLLRDHUP, WEFT_ERR_BOOT},
                {POLLERR, WEFT_ERR_BOOT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        system_.revents = rows[i].revents;
        assert_int_equal(asked.still_wanted(NULL), rows[i].status);
        if (rows[i].status)
            assert_string_equal(base_last_error(),
                                "the launcher has gone before this host was connected to it");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exits_are_told),
        cmocka_unit_test(the_launcher_is_lost),
        cmocka_unit_test(frames_are_passed_up),
        cmocka_unit_test(parts_are_combined),
        cmocka_unit_test(other_parts_go_at_once),
        cmocka_unit_test(frames_are_forwarded),
        cmocka_unit_test(parts_of_agents_below_are_combined),
        cmocka_unit_test(a_parent_loses_its_own_parent),
        cmocka_unit_test(a_parent_works),
        cmocka_unit_test(joining_and_leaving_are_noted),
        cmocka_unit_test(descriptors_stay_on_the_host),
        cmocka_unit_test(a_connection_of_a_pe_ends),
        cmocka_unit_test(the_launcher_has_the_pes_started),
        cmocka_unit_test(signals_come_from_the_launcher),
        cmocka_unit_test(frames_are_passed_down),
        cmocka_unit_test(the_connection_to_the_launcher_ends),
        cmocka_unit_test(an_agent_works),
        cmocka_unit_test(an_agent_cannot_begin),
        cmocka_unit_test(ssh_tells_another_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

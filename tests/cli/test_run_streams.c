/* SPDX-License-Identifier: Apache-2.0 */
/* The PEs' streams under `weft run` (cli/run/streams.c): the order of reads and writes, on mock
 * descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run_calls.h"

#include <poll.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------------- mock system calls */

static struct {
    const char *input; /* what read() returns before end of file; NULL: only end of file */
    size_t input_bytes;
    int read_errno;    /* not 0: read() fails with it */
    size_t most;       /* most bytes of one write() */
    int write_errno;   /* not 0: write() fails with it, */
    int writes_before; /* after this many calls */
    int no_rooms;      /* poll() without a timeout reports no space this often, */
    int rooms;         /* then space this often; -1: always */
    bool terminal_is_others;
} system_;

static char written[1 << 21];
static size_t written_bytes;

ssize_t __real_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes)
{
    log_call("read %d of %zu bytes", fd, bytes);
    errno = system_.read_errno;
    if (system_.read_errno)
        return -1;
    size_t n = system_.input_bytes < bytes ? system_.input_bytes : bytes;
    if (n) {
        memcpy(data, system_.input, n);
        system_.input += n;
    }
    system_.input_bytes -= n;
    return (ssize_t)n;
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    log_call("write %zu bytes to %d", bytes, fd);
    if (system_.write_errno && system_.writes_before-- <= 0) {
        errno = system_.write_errno;
        return -1;
    }
    size_t n = bytes < system_.most ? bytes : system_.most;
    memcpy(written + written_bytes, data, n);
    written_bytes += n;
    return (ssize_t)n;
}

int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms);
int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms)
{
    assert_int_equal(n, 1);
    if (watched->events == POLLIN) {
        assert_int_equal(limit_ms, 0);
        return system_.input != NULL;
    }
    assert_int_equal(watched->events, POLLOUT);
    log_call("room in %d%s?", watched->fd, limit_ms < 0 ? ", waits" : "");
    if (system_.rooms == 0 || (limit_ms == 0 && system_.no_rooms-- > 0))
        return 0;
    system_.rooms -= system_.rooms > 0;
    return 1;
}

int __wrap_fstat(int fd, struct stat *file);
int __wrap_fstat(int fd, struct stat *file)
{
    memset(file, 0, sizeof *file);
    file->st_mode = fd == 1 ? S_IFREG : S_IFIFO;
    return fd == 1 && system_.read_errno ? -1 : 0;
}

pid_t __wrap_tcgetpgrp(int fd);
pid_t __wrap_tcgetpgrp(int fd)
{
    assert_int_equal(fd, STDIN_FILENO);
    return system_.terminal_is_others ? 1 : getpgrp();
}

static void gives(const char *text)
{
    system_.input = text;
    system_.input_bytes = text ? strlen(text) : 0;
}

static void expect_written(const char *text)
{
    assert_int_equal(written_bytes, strlen(text));
    assert_memory_equal(written, text, written_bytes);
    written_bytes = 0;
}

/* PEs 0 and 1, whose outputs are read from 1011, 1012 and 1021, 1022; the launcher writes to 1 and
 * 2. */
static struct run made_streams(void)
{
    struct run run = made_run(2);
    memset(&system_, 0, sizeof system_);
    system_.most = 1 << 20;
    system_.rooms = -1;
    written_bytes = 0;
    blocks = 0;
    for (int pe = 0; pe < 3; pe++)
        for (int stream = 0; stream < 2; stream++)
            run.pes[pe].streams[stream].fd = 1011 + 10 * pe + stream;
    run_open_sinks(&run);
    assert_int_equal(run.sinks[0].fd, 1);
    assert_int_equal(run.sinks[1].fd, 2);
    assert_true(run.sinks[0].is_file);
    assert_false(run.sinks[1].is_file);
    return run;
}

static void free_all(struct run *run)
{
    for (int pe = 0; pe < 3; pe++)
        for (int stream = 0; stream < 2; stream++)
            free(run->pes[pe].streams[stream].line);
    for (int stream = 0; stream < 2; stream++)
        free(run->sinks[stream].data);
    assert_int_equal(blocks, 0);
    *call_log = '\0';
}

/* ------------------------------------------------------------------------------ standard output */

static void lines_get_a_prefix(void **state)
{
    struct run run = made_streams();
    gives("one\ntwo\n\nthr");
    run_read_source(&run, 1, 0);
    expect_log("read 1021 of 65536 bytes\nroom in 1?\nwrite 21 bytes to 1\n");
    expect_written("[1] one\n[1] two\n[1] \n");
    gives("e");
    run_read_source(&run, 1, 0);
    expect_written("");
    memory_fails_in = 0; /* the existing buffer has enough space */
    gives("e\nfour");
    run_read_source(&run, 1, 0);
    expect_written("[1] three\n");
    assert_int_equal(memory_fails_in, 0);
    memory_fails_in = -1;
    gives("other\n");
    run_read_source(&run, 0, 1);
    expect_written("[0] other\n");
    *call_log = '\0';
    gives(NULL);
    run_read_source(&run, 1, 0); /* end of file */
    expect_log("read 1021 of 65536 bytes\nunwatch 1021\nclose 1021\nroom in 1?\n"
               "write 9 bytes to 1\n");
    expect_written("[1] four\n");
    run_read_source(&run, 1, 0);
    expect_log("");
    assert_int_equal(run.pes[1].streams[0].fd, -1);
    assert_int_equal(run.pes[1].streams[0].size, 0);
    free_all(&run);

    struct run_agent agent = {.host = "b"};
    run = made_streams();
    run.agent = &agent;
    run.first = 10;
    gives("x\n");
    run_read_source(&run, 1, 0);
    expect_written("[b 11] x\n");
    run.options.npes = 1; /* stream 1 is that of a host, whose agent has added the prefix */
    gives("x\n");
    run_read_source(&run, 1, 0);
    expect_written("x\n");
    run.agent = NULL;
    gives("[b 11] x\n");
    run_read_source(&run, 1, 0);
    expect_written("[b 11] x\n");
    free_all(&run);
}

static void reading_fails(void **state)
{
    static const int errors[] = {EAGAIN, EINTR, EIO};
    for (int i = 0; i < 3; i++) {
        struct run run = made_streams();
        system_.read_errno = errors[i];
        run_read_source(&run, 0, 0);
        expect_log(i < 2 ? "read 1011 of 65536 bytes\n"
                         : "read 1011 of 65536 bytes\nunwatch 1011\nclose 1011\n");
        free_all(&run);
    }
    struct run run = made_streams();
    memory_fails_in = 0;
    run_read_source(&run, 0, 1);
    expect_log("unwatch 1012\nclose 1012\n");
    gives("long line\n");
    memory_fails_in = 1; /* the sink's allocation fails */
    run_read_source(&run, 1, 0);
    expect_log("read 1021 of 65536 bytes\nroom in 1?\nwrite 10 bytes to 1\n");
    written_bytes = 0;
    free_all(&run);
    /* Output that was dropped for lack of memory is not written later. */
    run = made_streams();
    system_.read_errno = EIO;
    run_open_sinks(&run);
    assert_false(run.sinks[0].is_file);
    free_all(&run);
}

static void a_line_without_end_is_cut(void **state)
{
    enum { MOST = 1 << 20 };
    struct run run = made_streams();
    char *text = malloc(MOST + 1);
    assert_non_null(text);
    memset(text, 'x', MOST);
    text[MOST] = '\0';
    system_.most = 2 * MOST;
    gives(text);
    for (int i = 0; i < MOST / 65536 - 1; i++)
        run_read_source(&run, 1, 0);
    assert_int_equal(written_bytes, 0);
    run_read_source(&run, 1, 0);
    assert_int_equal(written_bytes, MOST + 5);
    assert_memory_equal(written, "[1] xxxx", 8);
    assert_int_equal(written[MOST + 4], '\n');
    assert_int_equal(run.pes[1].streams[0].used, 0);
    free(text);
    free_all(&run);
}

static void a_pipe_is_written_by_pieces(void **state)
{
    struct run run = made_streams();
    char text[9001];
    memset(text, 'x', sizeof text);
    text[8995] = '\n';
    text[8996] = '\0';
    gives(text);
    run_read_source(&run, 0, 1);
    expect_log("read 1012 of 65536 bytes\nroom in 2?\nwrite 4096 bytes to 2\nroom in 2?\n"
               "write 4096 bytes to 2\nroom in 2?\nwrite 808 bytes to 2\n");
    assert_int_equal(run.sinks[1].used, 0);
    gives(text); /* a file accepts all */
    run_read_source(&run, 0, 0);
    expect_log("read 1011 of 65536 bytes\nroom in 1?\nwrite 9000 bytes to 1\n");
    free_all(&run);
}

static void the_output_waits_for_room(void **state)
{
    struct run run = made_streams();
    run.pes[1].streams[0].fd = -1;
    gives("abcdef\n");
    system_.rooms = 1;
    system_.most = 5;
    run_read_source(&run, 0, 0);
    expect_log("read 1011 of 65536 bytes\nroom in 1?\nwrite 11 bytes to 1\nroom in 1?\n"
               "watch 1 out: sink 0\nunwatch 1011\n");
    assert_true(run.sinks[0].waits);
    system_.rooms = 1;
    run_flush_sink(&run, 0);
    expect_log("room in 1?\nwrite 6 bytes to 1\nroom in 1?\n");
    assert_true(run.sinks[0].waits); /* for one more byte */
    system_.rooms = 2;
    run_flush_sink(&run, 0);
    expect_log("room in 1?\nwrite 1 bytes to 1\nunwatch 1\nwatch 1011 in: source 0\n");
    expect_written("[0] abcdef\n");
    assert_false(run.sinks[0].waits);

    static const int errors[] = {EINTR, EAGAIN};
    for (int i = 0; i < 2; i++) {
        gives("abcdef\n");
        system_.rooms = -1;
        system_.write_errno = errors[i];
        answers.watch_fails_in = 0; /* it cannot be watched: reading continues */
        run_read_source(&run, 1, 1);
        expect_log("read 1022 of 65536 bytes\nroom in 2?\nwrite 11 bytes to 2\n"
                   "watch 2 out: sink 1, fails\n");
        assert_false(run.sinks[1].waits);
        system_.write_errno = 0;
        run_flush_sink(&run, 1);
        assert_int_equal(run.sinks[1].used, 0);
        *call_log = '\0';
        written_bytes = 0;
    }
    run.pes[1].streams[0].fd = 1021;
    gives("x\n");
    system_.rooms = 0;
    run_read_source(&run, 1, 1);
    expect_log("read 1022 of 65536 bytes\nroom in 2?\nwatch 2 out: sink 1\nunwatch 1012\n"
               "unwatch 1022\n");
    system_.rooms = -1;
    run_flush_sink(&run, 1);
    assert_non_null(strstr(call_log, "watch 1012 in: source 1\nwatch 1022 in: source 3\n"));
    free_all(&run);
}

static void nobody_reads_our_output(void **state)
{
    struct run run = made_streams();
    gives("abc\nde");
    system_.write_errno = EPIPE;
    run_read_source(&run, 1, 1);
    expect_log(
        "read 1022 of 65536 bytes\nroom in 2?\nwrite 8 bytes to 2\nunwatch 1012\nclose 1012\n"
        "unwatch 1022\nclose 1022\n");
    assert_true(run.sinks[1].broken);
    assert_int_equal(run.sinks[1].used, 0);
    assert_int_equal(run.ending.result, -1);
    gives("more\n"); /* the other stream continues */
    system_.write_errno = 0;
    run_read_source(&run, 1, 0);
    expect_written("[1] more\n");
    free_all(&run);
}

static void our_output_cannot_be_written(void **state)
{
    for (int stream = 0; stream < 2; stream++) {
        char expected[400];
        struct run run = made_streams();
        run.alive = stream;
        run.ending.result = stream ? 0 : 7;
        gives("abc\nabc\n");
        system_.write_errno = ENOSPC;
        system_.writes_before = 1;
        system_.most = 3;
        run_read_source(&run, 0, stream);
        snprintf(
            expected, sizeof expected,
            stream ? "read 1012 of 65536 bytes\nroom in 2?\nwrite 16 bytes to 2\nroom in 2?\n"
                     "write 13 bytes to 2\nend for PE -1, WEFT_ERR_SYSTEM, result 1: \"writing the "
                     "PEs' output to standard error: No space left on device\"\n"
                   : "read 1011 of 65536 bytes\nroom in 1?\nwrite 16 bytes to 1\nroom in 1?\n"
                     "write 13 bytes to 1\nsay \"writing the PEs' output to standard output: No "
                     "space left on device\"\n");
        expect_log(expected);
        assert_int_equal(run.ending.result, stream ? 1 : 7);
        assert_true(run.sinks[stream].broken);
        gives("more\n"); /* is read and dropped */
        run_read_source(&run, 0, stream);
        assert_null(strstr(call_log, "write"));
        assert_int_equal(run.sinks[stream].used, 0);
        free_all(&run);
    }
    struct run run = made_streams(); /* the sink fails while data waits */
    gives("abc\n");
    system_.rooms = 0;
    run_read_source(&run, 0, 0);
    *call_log = '\0';
    system_.rooms = -1;
    system_.write_errno = ENOSPC;
    run_flush_sink(&run, 0);
    assert_non_null(
        strstr(call_log, "unwatch 1\nwatch 1011 in: source 0\nwatch 1021 in: source 2\n"));
    free_all(&run);
}

static void the_rest_is_drained(void **state)
{
    struct run run = made_streams();
    run.pes[1].streams[0].fd = run.pes[0].streams[1].fd = run.pes[1].streams[1].fd = -1;
    run.pes[1].streams[1].line = copy_text("rest");
    run.pes[1].streams[1].used = 4;
    run.pes[1].streams[1].size = 5;
    gives("one\nlast");
    system_.most = 6;
    run_drain_output(&run);
    assert_int_equal(blocks, 0);
    expect_written("[0] one\n[0] last\n[1] rest\n");
    assert_int_equal(run.pes[0].streams[0].fd, -1);
    assert_null(run.sinks[0].data);
    *call_log = '\0';

    run = made_streams(); /* a sink without space at first */
    for (int pe = 0; pe < 2; pe++)
        run.pes[pe].streams[1].fd = -1;
    run.pes[1].streams[0].fd = -1;
    gives(NULL);
    run.pes[0].streams[0].line = copy_text("abc");
    run.pes[0].streams[0].used = 3;
    run_drain_output(&run);
    expect_log("unwatch 1011\nclose 1011\nroom in 1, waits?\nroom in 1?\nwrite 8 bytes to 1\n");
    assert_int_equal(blocks, 0);

    run = made_streams();
    run.pes[0].streams[0].fd = run.pes[0].streams[1].fd = run.pes[1].streams[1].fd = -1;
    gives("one\n");
    system_.no_rooms = 2;
    run_drain_output(&run);
    expect_log("read 1021 of 65536 bytes\nroom in 1?\nwatch 1 out: sink 0\nunwatch 1021\n"
               "room in 1, waits?\nroom in 1?\nroom in 1, waits?\nroom in 1?\n"
               "write 8 bytes to 1\nunwatch 1\nwatch 1021 in: source 2\n"
               "read 1021 of 65536 bytes\nunwatch 1021\nclose 1021\n");
    expect_written("[1] one\n");
    assert_int_equal(blocks, 0);

    run = made_streams();
    run.sources = 1;
    run.pes[0].streams[1].fd = -1;
    gives("one\n");
    system_.write_errno = EPIPE;
    run_drain_output(&run);
    expect_log(
        "read 1011 of 65536 bytes\nroom in 1?\nwrite 8 bytes to 1\nunwatch 1011\nclose 1011\n");
    free_all(&run);
}

/* ------------------------------------------------------------------------------ standard input */

static struct run made_input(void)
{
    struct run run = made_streams();
    run.input.pipe = 1700;
    run_start_stdin(&run);
    expect_log("watch 0 in: stdin 0\n");
    assert_true(run.input.watched);
    return run;
}

static void input_is_relayed(void **state)
{
    struct run run = made_streams();
    run_start_stdin(&run); /* no input is relayed */
    run.input.again_ns = 5;
    run_relay_stdin(&run);
    expect_log("");
    assert_int_equal(run.input.again_ns, 0);

    run = made_input();
    gives("hello");
    run_relay_stdin(&run);
    expect_log("read 0 of 4096 bytes\nwrite 5 bytes to 1700\n");
    expect_written("hello");
    assert_true(run.input.watched);
    gives("hello");
    system_.most = 2;
    run_relay_stdin(&run);
    expect_log("read 0 of 4096 bytes\nwrite 5 bytes to 1700\nunwatch 0\n");
    assert_int_equal(run.input.again_ns, 7010 * UINT64_C(1000000));
    assert_int_equal(run.input.used, 3);
    static const int errors[] = {EAGAIN, EINTR};
    for (int i = 0; i < 2; i++) {
        system_.write_errno = errors[i];
        run_relay_stdin(&run);
        expect_log("write 3 bytes to 1700\n");
        assert_int_equal(run.input.used, 3);
    }
    system_.write_errno = 0;
    system_.most = 100;
    run_relay_stdin(&run);
    expect_log("write 3 bytes to 1700\nwatch 0 in: stdin 0\n");
    expect_written("hello");
    assert_int_equal(run.input.again_ns, 0);
    gives(NULL);
    run_relay_stdin(&run); /* end of file */
    expect_log("read 0 of 4096 bytes\nunwatch 0\nclose 1700\n");
    assert_int_equal(run.input.pipe, -1);
    run_end_stdin(&run);
    expect_log("");
}

static void input_can_fail(void **state)
{
    static const int errors[] = {EAGAIN, EINTR, EIO};
    for (int i = 0; i < 3; i++) {
        struct run run = made_input();
        system_.read_errno = errors[i];
        run_relay_stdin(&run);
        expect_log(i < 2 ? "read 0 of 4096 bytes\n"
                         : "read 0 of 4096 bytes\nunwatch 0\nclose 1700\n");
    }
    struct run run = made_input();
    gives("x");
    system_.write_errno = EPIPE;
    run.input.again_ns = 9;
    run_relay_stdin(&run);
    expect_log("read 0 of 4096 bytes\nwrite 1 bytes to 1700\nunwatch 0\nclose 1700\n");
    assert_int_equal(run.input.again_ns, 0);

    run = made_input(); /* the launcher is in the background */
    run.input.terminal = true;
    system_.terminal_is_others = true;
    run_relay_stdin(&run);
    expect_log("unwatch 0\n");
    assert_int_equal(run.input.again_ns, 7200 * UINT64_C(1000000));
    system_.terminal_is_others = false;
    gives("x");
    run_relay_stdin(&run);
    expect_log("read 0 of 4096 bytes\nwrite 1 bytes to 1700\nwatch 0 in: stdin 0\n");
    run.input.terminal = false;
    system_.terminal_is_others = true;
    gives("x");
    run_relay_stdin(&run);
    expect_log("read 0 of 4096 bytes\nwrite 1 bytes to 1700\n");

    run.input.again_ns = 9;
    run_end_stdin(&run);
    assert_int_equal(run.input.again_ns, 0);
    *call_log = '\0';

    run = made_streams(); /* a file is always ready, and epoll refuses it */
    run.input.pipe = 1700;
    answers.watch_fails_in = 0;
    run_start_stdin(&run);
    expect_log("watch 0 in: stdin 0, fails\n");
    assert_false(run.input.watched);
    assert_int_equal(run.input.again_ns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_get_a_prefix),
        cmocka_unit_test(reading_fails),
        cmocka_unit_test(a_line_without_end_is_cut),
        cmocka_unit_test(a_pipe_is_written_by_pieces),
        cmocka_unit_test(the_output_waits_for_room),
        cmocka_unit_test(nobody_reads_our_output),
        cmocka_unit_test(our_output_cannot_be_written),
        cmocka_unit_test(the_rest_is_drained),
        cmocka_unit_test(input_is_relayed),
        cmocka_unit_test(input_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of `weft run` (run.c): what it waits for and how long, which functions it calls for each
 * event, and what it prepares and cleans up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run_calls.h"

#include "commands.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)

/* ------------------------------------------------------------------------- mock system calls */

static struct {
    struct epoll_event events[4]; /* of the first wait */
    int n_events, waits;          /* waits until all PEs have ended */
    int wait_errno;               /* not 0: epoll_wait() fails with it */
    int signals[4];               /* to be read; 0 ends the list */
    const char *fails;            /* the call of this name fails with */
    int error;
    uint64_t due_ns;   /* result of run_end_due_ns() */
    bool hosts_linger; /* run_hosts_wait() returns true once */
    bool closed[3];    /* standard streams */
    bool bad_open;
    int options_npes, hosts;
    bool agent, no_options, terminal, not_dealt, not_connected, no_start;
    int result; /* result set when PEs start; 0: none */
    bool no_setup;
} system_;

static struct run *looping;

static bool fails(const char *name)
{
    if (!system_.fails || strcmp(name, system_.fails) != 0)
        return false;
    errno = system_.error;
    return true;
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    log_call("epoll %d %s %d%s%s %llx", epoll,
             operation == EPOLL_CTL_ADD   ? "add"
             : operation == EPOLL_CTL_MOD ? "change"
                                          : "remove",
             fd, event ? " " : "", event ? events_text(event->events) : "",
             event ? (unsigned long long)event->data.u64 : 0);
    return fails("epoll_ctl") ? -1 : 0;
}

int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
    assert_int_equal(flags, EPOLL_CLOEXEC);
    return fails("epoll_create1") ? -1 : 1600;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int limit_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int limit_ms)
{
    log_call("wait %d", limit_ms);
    assert_int_equal(epoll, looping->epoll);
    if (--system_.waits <= 0)
        looping->alive = 0;
    if (system_.wait_errno) {
        errno = system_.wait_errno;
        return -1;
    }
    int n = system_.n_events;
    memcpy(events, system_.events, (size_t)n * sizeof *events);
    system_.n_events = 0;
    return n;
}

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    if (fd != STDERR_FILENO)
        return __real_write(fd, data, bytes);
    assert_int_equal(((const char *)data)[bytes - 1], '\n');
    log_call("%.*s", (int)bytes - 1, (const char *)data);
    return (ssize_t)bytes;
}

ssize_t __real_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes)
{
    if (fd < OURS_FROM)
        return __real_read(fd, data, bytes);
    assert_int_equal(bytes, sizeof(struct signalfd_siginfo));
    if (!system_.signals[0])
        return -1;
    ((struct signalfd_siginfo *)data)->ssi_signo = (uint32_t)system_.signals[0];
    memmove(system_.signals, system_.signals + 1, sizeof system_.signals - sizeof(int));
    return (ssize_t)bytes;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    log_call("kill %s %d", pid == getpid() ? "myself" : "?", number);
    return 0;
}

void (*__wrap_signal(int number, void (*handler)(int)))(int);
void (*__wrap_signal(int number, void (*handler)(int)))(int)
{
    log_call("signal %d %s", number,
             handler == SIG_DFL   ? "default"
             : handler == SIG_IGN ? "ignored"
                                  : "?");
    return number == SIGPIPE && system_.terminal ? SIG_IGN : SIG_DFL;
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    char text[200] = "";
    for (int number = 1; number < 32; number++)
        if (sigismember(set, number))
            sprintf(text + strlen(text), " %d", number);
    log_call("sigprocmask %s%s",
             how == SIG_BLOCK     ? "block"
             : how == SIG_SETMASK ? "set"
                                  : "?",
             text);
    if (old) {
        sigemptyset(old);
        sigaddset(old, SIGALRM);
    }
    return 0;
}

int __wrap_signalfd(int fd, const sigset_t *set, int flags);
int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    assert_int_equal(fd, -1);
    assert_int_equal(flags, SFD_CLOEXEC | SFD_NONBLOCK);
    assert_true(sigismember(set, SIGINT));
    return fails("signalfd") ? -1 : 1601;
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    log_call("mkdir %s %o", path, (unsigned)mode);
    return fails("mkdir") ? -1 : 0;
}

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    return fd == STDIN_FILENO && system_.terminal;
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    if (command == F_GETFD)
        return fd < 3 && system_.closed[fd] ? -1 : 0;
    log_call("fcntl %d %s", fd, command == F_SETFD ? "exec" : "?");
    return 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (strcmp(path, "/dev/null") != 0)
        return __real_open(path, flags);
    assert_int_equal(flags, O_RDWR);
    for (int fd = 0; fd < 3; fd++) {
        if (!system_.closed[fd])
            continue;
        system_.closed[fd] = false;
        log_call("open %d", fd);
        return system_.bad_open ? -1 : fd;
    }
    return -1;
}

weft_status __wrap_config_check(void);
weft_status __wrap_config_check(void)
{
    return fails("config_check") ? base_fail(WEFT_ERR_ARGUMENT, "WEFT_X is unknown") : WEFT_OK;
}

/* ----------------------------------------------------------------------------- the other files */

static char *command[] = {"program", NULL};

bool run_parse_options(struct run_options *options, int argc, char **argv)
{
    log_call("options %d %s", argc, argv[0]);
    options->npes = system_.options_npes;
    options->agent = system_.agent;
    options->command = argc > 1 ? argv + 1 : command;
    options->host_count = system_.hosts;
    if (system_.hosts) {
        options->hosts = __real_calloc(3, sizeof *options->hosts);
        blocks++;
        for (int i = 0; i < system_.hosts; i++)
            options->hosts[i] = (struct run_slots){copy_text(i == 1   ? "me@you@b"
                                                             : i == 2 ? "c"
                                                                      : "a"),
                                                   2 + i};
    }
    return !system_.no_options;
}

bool run_distribute_pes(struct run_options *options)
{
    options->npes = 9;
    return !system_.not_dealt;
}

bool run_setup_read(struct run_options *options, struct run_agent *agent)
{
    log_call("setup, %d", agent->up.fd);
    strcpy(agent->host, "b");
    agent->first = 4;
    agent->npes = 7;
    run_say("words");
    return !system_.no_setup;
}

int run_agent_main(struct run *run)
{
    log_call("agent of PEs from %d on of %d", run->first, run->all);
    assert_non_null(run->agent);
    return 6;
}

bool run_open_hub(struct run *run)
{
    log_call("open the hub");
    return !answers.fails;
}

bool run_start_guard(struct run *run)
{
    log_call("start the guard");
    return !fails("guard");
}

bool run_become_subreaper(void)
{
    log_call("adopt orphans");
    return !fails("orphans");
}

void run_open_sinks(struct run *run)
{
    log_call("open sinks");
}

void run_start_stdin(struct run *run)
{
    log_call("start standard input");
    looping = run;
}

void run_end_stdin(struct run *run)
{
    log_call("end standard input");
}

void run_relay_stdin(struct run *run)
{
    log_call("relay standard input");
}

void run_clean_up(struct run *run)
{
    log_call("clean up");
}

void run_drain_output(struct run *run)
{
    log_call("drain output");
}

void run_request_end(struct run *run, int number)
{
    log_call("asked to end by %d", number);
}

void run_signal_all(struct run *run, int number)
{
    log_call("signal all %d", number);
}

uint64_t run_end_due_ns(const struct run *run, uint64_t now)
{
    assert_int_equal(now, answers.now_ns);
    return system_.due_ns;
}

void run_end_by_time(struct run *run, uint64_t now)
{
    log_call("end by time %d", (int)(now / MS));
}

void run_end_postponed(struct run *run, bool now)
{
    log_call("settle%s", now ? " now" : "");
    run->ending.postponed.until_ns = 0;
}

void run_retry_sending(struct run *run)
{
    log_call("retry sending");
    run->retry_soon = false;
}

void run_find_exits(struct run *run)
{
    log_call("look for exits");
}

void run_flush_socket(struct run *run, int pe)
{
    log_call("flush PE %d", pe);
}

void run_flush_sink(struct run *run, int sink)
{
    log_call("flush sink %d", sink);
}

void run_hosts_serve(struct run *run, int host, uint32_t events)
{
    log_call("serve host %d %s", host, events_text(events));
}

void run_hosts_exited(struct run *run, int host)
{
    log_call("host %d exited", host);
}

void run_agent_receive(struct run *run, uint32_t events)
{
    log_call("hear %s", events_text(events));
}

bool run_hosts_wait(struct run *run)
{
    log_call("wait for hosts");
    bool lingers = system_.hosts_linger;
    system_.hosts_linger = false;
    return lingers;
}

void run_hosts_by_time(struct run *run, uint64_t now)
{
    log_call("hosts by time %d", (int)(now / MS));
}

bool run_hosts_connect(struct run *run)
{
    looping = run;
    for (int i = 0; i < run->hosts.count; i++)
        log_call("connect %s %s, PEs %d to %d, %d %d", run->hosts.list[i].name,
                 run->hosts.list[i].label, run->hosts.list[i].first,
                 run->hosts.list[i].first + run->hosts.list[i].count - 1, run->hosts.list[i].pidfd,
                 run->hosts.list[i].stdin_end);
    run->ending.result = system_.result ? system_.result : run->ending.result;
    return !system_.not_connected;
}

bool run_hosts_start(struct run *run)
{
    log_call("start on hosts at %d", (int)(run->started_ns / MS));
    return !system_.no_start;
}

void run_hosts_close(struct run *run)
{
    log_call("close hosts");
    for (int i = 0; i < run->hosts.count; i++)
        free(run->hosts.list[i].name);
    free(run->hosts.list);
    free(run->options.hosts);
}

const char *run_host_of(const struct run *run, int pe)
{
    return pe == 2 ? "far" : NULL;
}

static struct run made_loop(void)
{
    struct run run = made_run(3);
    memset(&system_, 0, sizeof system_);
    system_.due_ns = UINT64_MAX;
    run.epoll = 1600;
    run.signals = 1601;
    run.ending.next_reaping_ns = UINT64_MAX;
    system_.waits = 1;
    blocks = 0;
    return run;
}

/* ---------------------------------------------------------------------------------- messages */

static void what_is_said(void **state)
{
    struct run run = made_loop();
    run.first = 4;
    assert_string_equal(run_pe_name(&run, 1), "PE 5 (pid 502)");
    assert_string_equal(run_pe_name(&run, 2), "PE 6 (pid 503 on far)");
    run_say("%d words\x1b and more", 3);
    expect_log("weft run: 3 words? and more\n");
    char text[2000];
    memset(text, 'x', sizeof text);
    text[1999] = '\0';
    run_say("%s", text);
    assert_int_equal(strlen(call_log), 1023);
    *call_log = '\0';
    run_say_as("weft other");
    run_say("words");
    expect_log("weft other: words\n");
    run_say_as("weft run");
}

/* -------------------------------------------------------------------------------------- events */

static void events_are_watched(void **state)
{
    struct run run = made_loop();
    assert_int_equal(run_watch(&run, 1700, EPOLLIN, RUN_EVENT_SOURCE, 5), 0);
    run_rewatch(&run, 1701, EPOLLIN | EPOLLOUT, RUN_EVENT_SOCKET, 3);
    run_unwatch(&run, 1702);
    expect_log("epoll 1600 add 1700 in 400000005\nepoll 1600 change 1701 in out 200000003\n"
               "epoll 1600 remove 1702 0\n");
    system_.fails = "epoll_ctl";
    assert_int_equal(run_watch(&run, 1700, EPOLLIN, RUN_EVENT_SOURCE, 5), -1);
    *call_log = '\0';
}

static void event_comes(enum run_event event, int number, uint32_t events, const char *expected)
{
    struct run run = made_loop();
    char all[600];
    system_.events[0] =
        (struct epoll_event){events, {.u64 = (uint64_t)event << 32 | (unsigned)number}};
    system_.n_events = 1;
    system_.signals[0] = number;
    assert_int_equal(run_loop(&run), 0);
    snprintf(all, sizeof all,
             "start standard input\nwait -1\n%ssettle now\nend standard input\nclean up\n"
             "stop the guard\nsigprocmask set\ndrain output\n",
             expected);
    expect_log(all);
}

static void events_are_handled(void **state)
{
    event_comes(RUN_EVENT_EXIT, 2, EPOLLIN, "look for exits\n");
    event_comes(RUN_EVENT_SOCKET, 2, EPOLLIN, "serve PE 2\n");
    event_comes(RUN_EVENT_SOCKET, 2, EPOLLOUT, "flush PE 2\n");
    event_comes(RUN_EVENT_SOCKET, 2, EPOLLOUT | EPOLLHUP, "flush PE 2\nserve PE 2\n");
    event_comes(RUN_EVENT_PROGRAM, 1, EPOLLIN, "serve PE 1\nprogram of PE 1 ended\n");
    event_comes(RUN_EVENT_SOURCE, 5, EPOLLIN, "read stream 1 of PE 2\n");
    event_comes(RUN_EVENT_SOURCE, 6, EPOLLIN, "read stream 0 of PE 3\n");
    event_comes(RUN_EVENT_SINK, 1, EPOLLOUT, "flush sink 1\n");
    event_comes(RUN_EVENT_STDIN, 0, EPOLLIN, "relay standard input\n");
    event_comes(RUN_EVENT_HOST, 2, EPOLLOUT, "serve host 2 out\n");
    event_comes(RUN_EVENT_HOST_EXIT, 2, EPOLLIN, "host 2 exited\n");
    event_comes(RUN_EVENT_LAUNCHER, 0, EPOLLIN, "hear in\n");
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    char expected[100];
    for (int i = 0; i < 4; i++) {
        snprintf(expected, sizeof expected, "asked to end by %d\n", ending[i]);
        event_comes(RUN_EVENT_SIGNAL, ending[i], EPOLLIN, expected);
    }
    event_comes(RUN_EVENT_SIGNAL, SIGTSTP, EPOLLIN, "signal all 20\nkill myself 19\n");
    event_comes(RUN_EVENT_SIGNAL, SIGCONT, EPOLLIN, "signal all 18\n");
    struct run run = made_loop(); /* several events of each kind */
    system_.events[0] = (struct epoll_event){EPOLLIN, {.u64 = (uint64_t)RUN_EVENT_SIGNAL << 32}};
    system_.events[1] = (struct epoll_event){EPOLLIN, {.u64 = (uint64_t)RUN_EVENT_EXIT << 32}};
    system_.n_events = 2;
    system_.signals[0] = SIGUSR1;
    system_.signals[1] = SIGUSR2;
    run_loop(&run);
    assert_non_null(strstr(call_log, "signal all 10\nsignal all 12\nlook for exits\nsettle"));
    *call_log = '\0';
}

static void expect_wait(struct run *run, int ms)
{
    char expected[60];
    system_.waits = 1;
    run->alive = 1;
    run_loop(run);
    snprintf(expected, sizeof expected, "wait %d\n", ms);
    if (!strstr(call_log, expected))
        fail_msg("%s is not in %s", expected, call_log);
    *call_log = '\0';
}

static void it_waits_as_long_as_it_may(void **state)
{
    struct run run = made_loop();
    system_.due_ns = 7000 * MS + 1;
    expect_wait(&run, 1);
    system_.due_ns = 7000 * MS;
    expect_wait(&run, 0);
    system_.due_ns = 6000 * MS;
    expect_wait(&run, 0);
    system_.due_ns = 7009 * MS;
    expect_wait(&run, 9);
    system_.due_ns++;
    expect_wait(&run, 10);
    run.input.again_ns = 7005 * MS;
    expect_wait(&run, 5);
    run.input.again_ns = 7015 * MS;
    expect_wait(&run, 10);
    run.hosts.end_ns = 7004 * MS;
    expect_wait(&run, 4);
    run.hosts.end_ns = 7014 * MS;
    expect_wait(&run, 10);
    run.ending.next_reaping_ns = 7003 * MS;
    expect_wait(&run, 3);
    run.retry_soon = true;
    expect_wait(&run, 1);
    run.retry_soon = true;
    system_.due_ns = 7000 * MS + 5; /* earlier */
    expect_wait(&run, 1);
    run.retry_soon = true;
    system_.due_ns = 7000 * MS;
    expect_wait(&run, 0);
    run = made_loop();
    system_.due_ns = 7000 * MS + 3600000 * MS;
    expect_wait(&run, 3600000);
    system_.due_ns += MS;
    expect_wait(&run, 3600000);
}

static void time_passes(void **state)
{
    struct run run = made_loop();
    struct run_host host = {.count = 3};
    system_.waits = 2;
    run.retry_soon = true;
    run.input.again_ns = 7000 * MS;
    run.ending.next_reaping_ns = 7000 * MS;
    run.hosts.list = &host;
    run_loop(&run);
    expect_log(
        "start standard input\nwait 0\nretry sending\nrelay standard input\nreap orphans\n"
        "end by time 7000\nhosts by time 7000\nwait 0\nrelay standard input\nhosts by time 7000\n"
        "wait for hosts\nsettle now\nend standard input\nclean up\nstop the guard\n"
        "sigprocmask set\ndrain output\n");
    assert_int_equal(run.ending.next_reaping_ns, 17000 * MS);
    run = made_loop();
    system_.waits = 2;
    run.input.again_ns = 7001 * MS;
    run.ending.next_reaping_ns = 7001 * MS;
    run.alive = 1;
    run_loop(&run);
    expect_log("start standard input\nwait 1\nend by time 7000\nwait 1\nsettle now\n"
               "end standard input\nclean up\nstop the guard\nsigprocmask set\ndrain output\n");
}

static void what_it_goes_on_for(void **state)
{
    struct run run = made_loop();
    struct run_host host = {.count = 3};
    run.hosts.list = &host;
    run.alive = 0;
    run.ending.postponed.until_ns = 5;
    system_.hosts_linger = true;
    run_loop(&run);
    assert_non_null(strstr(call_log, "start standard input\nsettle now\nwait for hosts\nwait -1\n"
                                     "hosts by time 7000\nwait for hosts\nsettle now\n"));
    *call_log = '\0';
    struct run_agent agent = {.finish = false};
    run = made_loop();
    run.agent = &agent;
    run.alive = 0;
    agent.finish = true;
    run_loop(&run);
    assert_null(strstr(call_log, "wait"));
    *call_log = '\0';
    agent.finish = false;
    system_.wait_errno = EBADF;
    run_loop(&run);
    assert_non_null(strstr(call_log,
                           "wait -1\nweft run: epoll_wait: Bad file descriptor; the PEs are "
                           "killed\nbegin the end for PE -1, WEFT_ERR_SYSTEM, result 1: "
                           "\"epoll_wait: Bad file descriptor; the PEs are killed\"\n"
                           "signal all 9\nend standard input\n"));
    *call_log = '\0';
    run = made_loop();
    system_.wait_errno = EINTR;
    run_loop(&run);
    assert_non_null(strstr(call_log, "wait -1\nsettle now\n"));
    *call_log = '\0';
}

static void the_exit_status(void **state)
{
    static const int rows[][3] = {{-1, -1, 0}, {-1, 0, 1}, {0, 2, 0}, {7, 2, 7}};
    for (int i = 0; i < 4; i++) {
        struct run run = made_loop();
        run.alive = 0;
        run.ending.result = rows[i][0];
        run.ending.culprit = rows[i][1];
        assert_int_equal(run_loop(&run), rows[i][2]);
        *call_log = '\0';
    }
}

/* --------------------------------------------------------------------------------- preparation */

static void all_is_prepared(void **state)
{
    struct run run = made_loop();
    run.hosts.count = 2;
    run.options.output_dir = "out";
    assert_true(run_prepare(&run));
    expect_log("open the hub\nmkdir out 777\nstart the guard\nadopt orphans\nsignal 17 default\n"
               "sigprocmask block 1 2 3 10 12 15 18 20\nsignal 13 ignored\n"
               "epoll 1600 add 1601 in 0\nopen sinks\n");
    assert_int_equal(run.sources, 5);
    for (int pe = 0; pe < 5; pe++) {
        assert_int_equal(run.pes[pe].pidfd, -1);
        assert_int_equal(run.pes[pe].program_pidfd, -1);
        assert_int_equal(run.pes[pe].streams[0].fd, -1);
        assert_int_equal(run.pes[pe].streams[1].fd, -1);
    }
    assert_int_equal(run.ending.next_reaping_ns, 17000 * MS);
    assert_int_equal(run.ending.linger_ms, 50);
    assert_false(run.pipe_was_ignored);
    assert_false(run.input.relay);
    assert_true(sigismember(&run.old_mask, SIGALRM));
    free(run.pes);
    struct run_host host = {.count = 3};
    for (int i = 0; i < 2; i++) {
        run = made_loop();
        run.hosts.list = i ? &host : NULL;
        system_.terminal = !i;
        assert_true(run_prepare(&run));
        assert_null(strstr(call_log, "mkdir"));
        assert_true(run.input.relay);
        assert_int_equal(run.input.terminal, !i);
        assert_int_equal(run.pipe_was_ignored, !i);
        free(run.pes);
    }
    run = made_loop();
    run.options.output_dir = "out";
    system_.fails = "mkdir";
    system_.error = EEXIST;
    assert_true(run_prepare(&run));
    free(run.pes);
    assert_int_equal(blocks, 0);
    *call_log = '\0';
}

static void preparing_fails(void **state)
{
    static const struct {
        const char *fails;
        int error;
        const char *said;
    } rows[] = {
        {"mkdir", ENOENT, "weft run: --output-dir out: No such file or directory\n"},
        {"guard", 0, ""},
        {"orphans", EINVAL, "weft run: prctl(PR_SET_CHILD_SUBREAPER): Invalid argument\n"},
        {"epoll_create1", EMFILE, "weft run: preparing to wait: Too many open files\n"},
        {"signalfd", EMFILE, "weft run: preparing to wait: Too many open files\n"},
        {"epoll_ctl", ENOSPC, "weft run: preparing to wait: No space left on device\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run = made_loop();
        run.options.output_dir = "out";
        system_.fails = rows[i].fails;
        system_.error = rows[i].error;
        assert_false(run_prepare(&run));
        if (!strstr(call_log, rows[i].said))
            fail_msg("%s: %s", rows[i].said, call_log);
        assert_null(strstr(call_log, "open sinks"));
        free(run.pes);
        *call_log = '\0';
    }
    for (int i = 0; i < 2; i++) {
        struct run run = made_loop();
        answers.fails = i == 0;
        memory_fails_in = i == 0 ? -1 : 0;
        assert_false(run_prepare(&run));
        assert_non_null(strstr(call_log, "weft run: no memory for 3 PEs\n"));
        free(run.pes);
        *call_log = '\0';
    }
}

/* --------------------------------------------------------------------------------- the command */

static void expect_command(int status, const char *expected)
{
    char *arguments[] = {"weft run", NULL};
    made_run(1);
    blocks = 0;
    answers.start_result = system_.result;
    system_.due_ns = UINT64_MAX;
    if (!system_.options_npes)
        system_.options_npes = 3;
    assert_int_equal(cmd_run(1, arguments), status);
    expect_log(expected);
    assert_int_equal(blocks, 0);
    memset(&system_, 0, sizeof system_);
}

#define PREPARED(more)                                                                             \
    "open the hub\nstart the guard\nadopt orphans\nsignal 17 default\n"                            \
    "sigprocmask block 1 2 3 10 12 15 18 20\nsignal 13 ignored\nepoll 1600 add 1601 in 0\n"        \
    "open sinks\n" more
#define LOOPED                                                                                     \
    "start standard input\nsettle now\nend standard input\nclean up\nstop the guard\n"             \
    "sigprocmask set 14\ndrain output\nclose hosts\n"

static void a_job_of_this_machine(void **state)
{
    memset(&system_, 0, sizeof system_);
    setenv("WEFT_BOOT_SOCKET", "1750", 1);
    config_reset();
    config_int(CONFIG_BOOT_SOCKET);
    expect_command(0, "options 1 weft run\nfind program\nfcntl 1750 exec\n" PREPARED(
                          "start program of 3 at 7000 ms\n") LOOPED);
    static const char *const hidden[] = {"2", "-1", "3"};
    for (int i = 0; i < 3; i++) { /* only descriptors other than standard streams are closed */
        setenv("WEFT_BOOT_SOCKET", hidden[i], 1);
        config_reset();
        config_int(CONFIG_BOOT_SOCKET);
        char expected[1000];
        snprintf(expected, sizeof expected, "options 1 weft run\nfind program\n%s%s",
                 i == 2 ? "fcntl 3 exec\n" : "",
                 PREPARED("start program of 3 at 7000 ms\n") LOOPED);
        expect_command(0, expected);
    }
    unsetenv("WEFT_BOOT_SOCKET");
    config_reset();
    config_int(CONFIG_BOOT_SOCKET);
    for (int i = 0; i < 2; i++) {
        char expected[1000];
        command[0] = "broken";
        system_.result = i ? 126 : 0;
        snprintf(
            expected, sizeof expected,
            "options 1 weft run\nfind broken\n%sbegin the end for PE -1, WEFT_ERR_BOOT, result "
            "%d: \"weft run could not start every PE\"\n%s",
            PREPARED("start broken of 3 at 7000 ms\n"), i ? 126 : 1, LOOPED);
        expect_command(i ? 126 : 1, expected);
    }
    command[0] = "program";
    system_.fails = "guard";
    expect_command(1, "options 1 weft run\nfind program\nopen the hub\nstart the guard\n"
                      "stop the guard\nclose hosts\n");
}

static void what_ends_the_command_early(void **state)
{
    memset(&system_, 0, sizeof system_);
    system_.no_options = true;
    expect_command(1, "options 1 weft run\nweft run: no memory for the options\n");
    system_.fails = "config_check";
    expect_command(2, "options 1 weft run\nweft run: WEFT_X is unknown\n");
    command[0] = "absent";
    char *arguments[] = {"weft run", "absent", NULL};
    system_.options_npes = 2;
    assert_int_equal(cmd_run(2, arguments), 127);
    expect_log("options 2 weft run\nfind absent\n");
    /* Without a number, the devices that the PEs see. */
    system_.options_npes = 0;
    setenv("CUDA_VISIBLE_DEVICES", "4,GPU-a,0", 1);
    assert_int_equal(cmd_run(2, arguments), 127);
    expect_log("options 2 weft run\nweft run: 3 PEs, one for each GPU; -n N starts another number\n"
               "find absent\n");
    setenv("CUDA_VISIBLE_DEVICES", "2,-1,0", 1);
    assert_int_equal(cmd_run(2, arguments), 127);
    expect_log("options 2 weft run\nweft run: 1 PE, one for each GPU; -n N starts another number\n"
               "find absent\n");
    unsetenv("CUDA_VISIBLE_DEVICES");
    command[0] = "program";
    system_.closed[0] = system_.closed[2] = true;
    system_.no_options = true;
    expect_command(1, "open 0\nopen 2\noptions 1 weft run\nweft run: no memory for the options\n");
    system_.closed[0] = system_.bad_open = true;
    expect_command(1, "open 0\n");
}

static void a_job_over_hosts(void **state)
{
    memset(&system_, 0, sizeof system_);
    system_.hosts = 3;
    expect_command(
        0,
        "options 1 weft run\n" PREPARED(
            "connect a a, PEs 0 to 1, -1 -1\nconnect me@you@b b, PEs 2 to 4, -1 -1\n"
            "connect c c, PEs 5 to 8, -1 -1\nstart on hosts at 7000\n") "start standard "
                                                                        "input\nwait for "
                                                                        "hosts\nsettle now\nend "
                                                                        "standard input\n"
                                                                        "clean up\nstop the "
                                                                        "guard\nsigprocmask set "
                                                                        "14\ndrain output\nclose "
                                                                        "hosts\n");
    for (int i = 0; i < 2; i++) {
        system_.hosts = 1;
        system_.not_connected = true;
        system_.result = i ? 77 : 0;
        expect_command(i ? 77 : 1,
                       "options 1 weft run\n" PREPARED(
                           "connect a a, PEs 0 to 1, -1 -1\nstop the guard\nclose hosts\n"));
    }
    system_.hosts = 2;
    system_.not_dealt = true;
    expect_command(2, "options 1 weft run\n");
}

static void one_host_of_a_job(void **state)
{
    memset(&system_, 0, sizeof system_);
    system_.agent = true;
    char *arguments[] = {"weft run", NULL};
    made_run(1);
    setenv("WEFT_BOOT_PORT", "4000", 1); /* as if set by the setup: it takes precedence */
    config_reset();
    assert_int_equal(config_int(CONFIG_BOOT_PORT), 4000);
    setenv("WEFT_BOOT_PORT", "4001", 1);
    assert_int_equal(cmd_run(1, arguments), 6);
    expect_log("options 1 weft run\nsetup, -1\nweft run on b: words\n"
               "agent of PEs from 4 on of 7\n");
    assert_int_equal(config_int(CONFIG_BOOT_PORT), 4001);
    unsetenv("WEFT_BOOT_PORT");
    config_reset();
    system_.agent = system_.no_setup = true;
    expect_command(2, "options 1 weft run\nsetup, -1\nweft run on b: words\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said),
        cmocka_unit_test(events_are_watched),
        cmocka_unit_test(events_are_handled),
        cmocka_unit_test(it_waits_as_long_as_it_may),
        cmocka_unit_test(time_passes),
        cmocka_unit_test(what_it_goes_on_for),
        cmocka_unit_test(the_exit_status),
        cmocka_unit_test(all_is_prepared),
        cmocka_unit_test(preparing_fails),
        cmocka_unit_test(a_job_of_this_machine),
        cmocka_unit_test(what_ends_the_command_early),
        cmocka_unit_test(a_job_over_hosts),
        cmocka_unit_test(one_host_of_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

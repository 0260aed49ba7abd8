/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of one file of `weft run`. The functions here replace those of the other files (run.h)
 * and of the system: they write a line to a log and return what the test sets. Functions that the
 * file under test defines override the weak functions here. The linker option --wrap replaces the
 * system's functions. Include cmocka.h first. */
#ifndef WEFT_TESTS_CLI_RUN_CALLS_H
#define WEFT_TESTS_CLI_RUN_CALLS_H

#include "run/hosts.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WEAK __attribute__((weak))

enum { OURS_FROM = 1000 }; /* smallest mock descriptor */

static struct {
    uint64_t now_ns;
    uint64_t step_ns;   /* increment of the clock at each reading */
    int watch_fails_in; /* run_watch() fails after this many calls; -1: never */
    int watch_errno;
    pid_t dying[4];      /* processes for which run_is_dying() returns true; 0 ends the list */
    pid_t detached;      /* result of run_find_detached() */
    bool fails;          /* run_open_hub() and run_prepare() fail */
    bool all_made_up;    /* every descriptor is a mock */
    int start_result;    /* result that run_start_pes() sets; 0: none. "broken" cannot be started */
    bool loses_launcher; /* run_loop() loses it */
    bool unreached;      /* run_hosts_connect() fails */
    int pidfd;           /* returned by the next pidfd_open, then incremented; -1: it fails */
    int pidfd_errno;
    int close_range_errno; /* close_range() fails with it; 0: it does not */
} answers;

static char call_log[32768];

static void *last_malloc;
static int blocks;               /* allocated and not freed */
static int memory_fails_in = -1; /* an allocation fails after this many; -1: none */

__attribute__((format(printf, 1, 2), unused)) static void log_call(const char *format, ...)
{
    size_t used = strlen(call_log);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call_log + used, sizeof call_log - used, format, arguments);
    va_end(arguments);
    assert_true(strlen(call_log) < sizeof call_log - 600);
    strcat(call_log, "\n");
}

/* Compares the log since the last call, and clears it. */
#define expect_log(text)                                                                           \
    do {                                                                                           \
        assert_string_equal(call_log, text);                                                       \
        *call_log = '\0';                                                                          \
    } while (0)

static const char *const event_names[] = {"signal", "exit",  "socket", "program",   "source",
                                          "sink",   "stdin", "host",   "host exit", "launcher"};

static const char *events_text(uint32_t events)
{
    return events == EPOLLIN                ? "in"
           : events == EPOLLOUT             ? "out"
           : events == (EPOLLIN | EPOLLOUT) ? "in out"
                                            : "other";
}

static bool fails_now(int *in)
{
    return *in >= 0 && (*in)-- == 0;
}

/* ------------------------------------------------------------------------------- memory */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    void *block = fails_now(&memory_fails_in) ? NULL : __real_malloc(bytes);
    last_malloc = block;
    blocks += block != NULL;
    return block;
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    void *block = fails_now(&memory_fails_in) ? NULL : __real_calloc(n, bytes);
    blocks += block != NULL;
    return block;
}

void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes)
{
    void *moved = fails_now(&memory_fails_in) ? NULL : __real_realloc(block, bytes);
    blocks += moved && !block;
    return moved;
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    blocks -= block != NULL;
    __real_free(block);
}

/* Returns a counted block; never fails. */
__attribute__((unused)) static char *copy_text(const char *text)
{
    char *copy = __real_calloc(1, strlen(text) + 1);
    assert_non_null(copy);
    blocks++;
    return strcpy(copy, text);
}

/* ------------------------------------------------------------------------- replaces run.h */

WEAK int run_watch(struct run *run, int fd, uint32_t events, enum run_event event, int number)
{
    bool fails = fails_now(&answers.watch_fails_in);
    log_call("watch %d %s: %s %d%s", fd, events_text(events), event_names[event], number,
             fails ? ", fails" : "");
    errno = answers.watch_errno;
    return fails ? -1 : 0;
}

WEAK void run_rewatch(struct run *run, int fd, uint32_t events, enum run_event event, int number)
{
    log_call("rewatch %d %s: %s %d", fd, events_text(events), event_names[event], number);
}

WEAK void run_unwatch(struct run *run, int fd)
{
    log_call("unwatch %d", fd);
}

WEAK void run_say(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_call("say \"%s\"", text);
}

WEAK const char *run_pe_name(const struct run *run, int pe)
{
    static char name[32];
    snprintf(name, sizeof name, "PE %d", run->first + pe);
    return name;
}

WEAK int run_loop(struct run *run)
{
    log_call("loop, standard input %s", run->input.relay ? "relayed" : "left");
    if (answers.loses_launcher)
        run->agent->up_lost = true;
    return 5;
}

WEAK bool run_prepare(struct run *run)
{
    log_call("prepare");
    return !answers.fails;
}

WEAK void run_hosts_signal(struct run *run, int pe, int number)
{
    log_call("signal %d to PE %d on its host", number, pe);
}

WEAK void run_hosts_relay(void *run, int pe, enum frame_type type, int number, const void *payload,
                          size_t bytes)
{
    log_call("relay %d %d to PE %d: %.*s", (int)type, number, pe, (int)bytes,
             payload ? (const char *)payload : "");
}

WEAK void run_agent_serve(struct run *run, int pe)
{
    log_call("agent serves PE %d", pe);
}

WEAK void run_agent_exited(struct run *run, int pe)
{
    log_call("agent tells the exit of PE %d", pe);
}

WEAK void run_agent_program_ended(struct run *run, int pe)
{
    log_call("agent tells that the program of PE %d ended", pe);
}

WEAK void run_agent_report(struct run *run, int type, int number, const void *payload, size_t bytes)
{
    log_call("report %d %d, %zu bytes", type, number, bytes);
}

WEAK void run_agent_pass(struct run *run, int index, struct wire_frame *frame)
{
    log_call("pass frame %d %d of host %d up", (int)frame->type, frame->number, index);
}

WEAK weft_status run_agent_check_parent(struct run *run)
{
    log_call("check the parent");
    return WEFT_OK;
}

WEAK void run_agent_send_parts(struct run *run)
{
    log_call("send the parts");
}

WEAK uint64_t run_agent_due_ns(const struct run *run)
{
    return UINT64_MAX;
}

WEAK void run_hosts_send(struct run *run, int index, int type, int number, const void *payload,
                         size_t bytes)
{
    log_call("send %d %d to host %d, %zu bytes", type, number, index, bytes);
}

WEAK void run_hosts_abandon(struct run *run)
{
    log_call("abandon the hosts below");
}

WEAK void run_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    log_call("end for PE %d, %s, result %d: \"%s\"", pe, base_status_name(status), result,
             sentence);
}

WEAK void run_begin_end(struct run *run, int pe, weft_status status, int result,
                        const char *sentence)
{
    log_call("begin the end for PE %d, %s, result %d: \"%s\"", pe, base_status_name(status), result,
             sentence);
}

WEAK void run_judge_exits(struct run *run)
{
    log_call("judge exits");
}

WEAK bool run_another_is_dying(const struct run *run, int pe)
{
    return answers.dying[0] != 0;
}

WEAK pid_t run_find_detached(struct run *run, int pe)
{
    log_call("find what PE %d left", pe);
    return answers.detached;
}

WEAK void run_reap_orphans(struct run *run)
{
    log_call("reap orphans");
}

WEAK void run_end_orphans(struct run *run)
{
    log_call("end orphans");
}

WEAK bool run_is_dying(pid_t pid)
{
    for (int i = 0; i < 4 && answers.dying[i]; i++)
        if (answers.dying[i] == pid)
            return true;
    return false;
}

WEAK int run_find_program(const char *name, char **path)
{
    log_call("find %s", name);
    if (strcmp(name, "absent") == 0)
        return 127;
    *path = copy_text(name);
    return 0;
}

WEAK bool run_start_pes(struct run *run, const char *path)
{
    log_call("start %s of %d at %d ms", path, run->all, (int)(run->started_ns / 1000000));
    run->ending.result = answers.start_result ? answers.start_result : run->ending.result;
    return strcmp(path, "broken") != 0;
}

WEAK void run_stop_guard(struct run *run)
{
    log_call("stop the guard");
}

WEAK void run_serve(struct run *run, int pe)
{
    log_call("serve PE %d", pe);
}

WEAK void run_program_ended(struct run *run, int pe)
{
    log_call("program of PE %d ended", pe);
}

WEAK void run_send_end(struct run *run, int pe)
{
    log_call("tell PE %d the end", pe);
}

WEAK void run_close_socket(struct run *run, int pe)
{
    log_call("close the socket of PE %d", pe);
    if (run->hub.wires)
        run->hub.wires[pe].fd = -1;
}

WEAK void run_watch_program(struct run *run, int pe)
{
    log_call("watch the program of PE %d", pe);
}

WEAK void run_unwatch_program(struct run *run, int pe)
{
    log_call("unwatch the program of PE %d", pe);
}

WEAK void run_close_hub(struct run *run)
{
    log_call("close the hub");
}

WEAK void run_read_source(struct run *run, int pe, int stream)
{
    log_call("read stream %d of PE %d", stream, pe);
}

/* --------------------------------------------------------------------- replaces the system */

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    uint64_t now = answers.now_ns;
    answers.now_ns += answers.step_ns;
    return now;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (fd < OURS_FROM && !answers.all_made_up)
        return __real_close(fd);
    log_call("close %d", fd);
    return 0;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_close_range) {
        log_call("close %u to %x", (unsigned)a[0], (unsigned)a[1]);
        errno = answers.close_range_errno;
        return errno ? -1 : 0;
    }
    if (number != SYS_pidfd_open)
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    log_call("pidfd of %d", (int)a[0]);
    if (answers.pidfd < 0)
        errno = answers.pidfd_errno;
    return answers.pidfd < 0 ? -1 : answers.pidfd++;
}

/* ---------------------------------------------------------------------------------- mock jobs */

enum { PES_MOST = 8 };

static struct run_pe made_pes[PES_MOST];
static pid_t made_groups[PES_MOST];

/* A job of n PEs that all run and have joined: pids 501, 502, ..., groups 601, ..., pidfds 1101,
 * ... */
__attribute__((unused)) static struct run made_run(int n)
{
    struct run run = {.pes = made_pes,
                      .guard.groups = made_groups,
                      .started = n,
                      .alive = n,
                      .all = n,
                      .sources = n,
                      .ending.result = -1,
                      .ending.culprit = -1,
                      .input.pipe = -1};
    run.options.npes = n;
    for (int pe = 0; pe < PES_MOST; pe++) {
        made_pes[pe] = (struct run_pe){.pid = 501 + pe,
                                       .group = 601 + pe,
                                       .pidfd = 1101 + pe,
                                       .jobs = 1,
                                       .joined = true,
                                       .program = 501 + pe,
                                       .program_pidfd = -1,
                                       .streams = {{.fd = -1}, {.fd = -1}}};
        made_groups[pe] = 601 + pe;
    }
    memset(&answers, 0, sizeof answers);
    answers.now_ns = 7 * RUN_SECOND_NS;
    answers.watch_fails_in = -1;
    answers.pidfd = 1201;
    memory_fails_in = -1;
    *call_log = '\0';
    return run;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run`: starts the PEs of a job on this machine, serves their exchange, and sees to it that
 * nothing of the job is left when it ends, in whatever way. One loop, no threads. */
#include "run.h"

#include "commands.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS     UINT64_C(1000000000)
#define LOOK_AGAIN_NS UINT64_C(5000000)

enum {
    EXIT_TIMEOUT = 124, /* as timeout(1) */
    EXIT_BY_SIGNAL = 128,
};

/* PEs that have heard that the job ends get this long to say why and end by themselves; those that
 * have not joined the job, and may never do so, a part of it. */
static const uint64_t told_ns = 2 * SECOND_NS, deaf_ns = SECOND_NS / 4;

/* How long a failure may wait for the end of a PE that is dying, and how long a PE whose connection
 * is closed has to end. */
static const uint64_t postponed_ns = 5 * SECOND_NS, cut_off_ns = SECOND_NS / 5;

static const uint64_t reaping_ns = 10 * SECOND_NS;

void run_say(const char *format, ...)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "weft run: ");
    va_list args;
    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}

const char *run_pe_name(const struct run *run, int pe)
{
    static char name[64];
    snprintf(name, sizeof name, "PE %d (pid %d)", pe, (int)run->pes[pe].pid);
    return name;
}

/* ------------------------------------------------------------------------------------ the loop */

static struct epoll_event event_of(uint32_t events, enum run_event event, int number)
{
    return (struct epoll_event){.events = events,
                                .data.u64 = (uint64_t)event << 32 | (uint32_t)number};
}

int run_watch(struct run *run, int fd, uint32_t events, enum run_event event, int number)
{
    struct epoll_event wanted = event_of(events, event, number);
    return epoll_ctl(run->epoll, EPOLL_CTL_ADD, fd, &wanted);
}

void run_rewatch(struct run *run, int fd, uint32_t events, enum run_event event, int number)
{
    struct epoll_event wanted = event_of(events, event, number);
    epoll_ctl(run->epoll, EPOLL_CTL_MOD, fd, &wanted);
}

void run_unwatch(struct run *run, int fd)
{
    epoll_ctl(run->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* --------------------------------------------------------------------------------- the job's end
 */

static int exit_status_of(int wait_status)
{
    return WIFSIGNALED(wait_status) ? EXIT_BY_SIGNAL + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

/* Exit status of weft run when this PE is why: never 0. */
static int failure_status(const struct run_pe *pe)
{
    int status = exit_status_of(pe->wait_status);
    return status ? status : 1;
}

/* To the whole process group: what a PE has started belongs to it. */
static void signal_pe(struct run *run, int pe, int number)
{
    if (run->pes[pe].pid > 0 && !run->pes[pe].exited)
        kill(-run->pes[pe].group, number);
}

static void signal_all(struct run *run, int number)
{
    for (int pe = 0; pe < run->started; pe++)
        signal_pe(run, pe, number);
}

static void terminate(struct run *run, int pe)
{
    signal_pe(run, pe, SIGTERM);
    signal_pe(run, pe, SIGCONT); /* a stopped process acts on nothing but this */
}

static void begin_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    run->phase = RUN_TOLD;
    run->phase_ends_ns = clock_now_ns() + deaf_ns;
    run->end_status = status;
    snprintf(run->end_sentence, sizeof run->end_sentence, "%s", sentence);
    if (run->result < 0)
        run->result = result;
    if (run->result < 0)
        run->culprit = pe;
    for (int other = 0; other < run->started; other++)
        if (run->pes[other].joined)
            run_tell_end(run, other);
}

/* A PE other than `pe` that is just dying, or was killed and is not judged yet: what `pe` has come
 * to may follow from that. */
static bool another_is_dying(const struct run *run, int pe)
{
    for (int other = 0; other < run->started; other++) {
        const struct run_pe *one = &run->pes[other];
        if (other == pe)
            continue;
        if (one->exited ? one->to_judge && WIFSIGNALED(one->wait_status)
                        : run_is_dying(one->joined ? one->program : one->pid))
            return true;
    }
    return false;
}

static bool was_signalled(const struct run *run, int pe)
{
    return pe >= 0 && run->pes[pe].exited && WIFSIGNALED(run->pes[pe].wait_status);
}

/* The others learn of a death earlier than we do: its locks and connections are gone before it is a
 * zombie, and long before that when it writes a core dump. Who fails because of it must not be
 * taken for the cause; so the reason waits for a while. */
static bool postpone(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    if (run->postponed.until_ns)
        return true; /* the first one counts */
    if (pe < 0 || !another_is_dying(run, pe))
        return false;
    run->postponed.until_ns = clock_now_ns() + postponed_ns;
    run->postponed.pe = pe;
    run->postponed.status = status;
    run->postponed.result = result;
    snprintf(run->postponed.sentence, sizeof run->postponed.sentence, "%s", sentence);
    return true;
}

void run_end(struct run *run, int pe, weft_status status, int result, const char *sentence)
{
    if (run->phase != RUN_WORKING)
        return;
    if (!was_signalled(run, pe) && postpone(run, pe, status, result, sentence))
        return;
    run->postponed.until_ns = 0;
    if (result != 0) /* 0: a PE has ended the job on purpose, and well */
        run_say("%s%s", sentence, run->alive > 0 ? "; ending the job" : "");
    begin_end(run, pe, status, result, sentence);
}

/* Nobody is dying any more, or for too long. */
static void settle_postponed(struct run *run, bool now)
{
    if (!run->postponed.until_ns || run->phase != RUN_WORKING)
        return;
    if (!now && clock_now_ns() < run->postponed.until_ns &&
        another_is_dying(run, run->postponed.pe))
        return;
    run->postponed.until_ns = 0;
    run_say("%s%s", run->postponed.sentence, run->alive > 0 ? "; ending the job" : "");
    begin_end(run, run->postponed.pe, run->postponed.status, run->postponed.result,
              run->postponed.sentence);
    if (run->result < 0 && run->pes[run->postponed.pe].exited)
        run->result = failure_status(&run->pes[run->postponed.pe]);
}

/* A PE in the job whose connection is closed and that does not end: it has begun another program,
 * or closed what is not its own. A moment is left to those that end. */
static void look_for_cut_off(struct run *run, uint64_t now)
{
    run->some_cut_off = false;
    for (int number = 0; number < run->started && run->phase == RUN_WORKING; number++) {
        struct run_pe *pe = &run->pes[number];
        if (!pe->cut_off_ns || pe->exited || !pe->joined)
            continue;
        run->some_cut_off = true;
        if (now - pe->cut_off_ns < cut_off_ns || run_is_dying(pe->program))
            continue;
        pe->joined = false;
        pe->cut_off_ns = 0;
        char text[256];
        snprintf(text, sizeof text,
                 "%s lives, but has closed its connection to weft run before weft_finalize (by "
                 "exec, or by closing every descriptor)",
                 run_pe_name(run, number));
        run_end(run, number, WEFT_ERR_PEER_DEAD, 1, text);
    }
}

static void next_phase(struct run *run)
{
    if (run->phase == RUN_TOLD) {
        for (int pe = 0; pe < run->started; pe++)
            if (!run->pes[pe].joined && !run->pes[pe].told_the_end)
                terminate(run, pe);
        run->phase = RUN_DEAF_GONE;
        run->phase_ends_ns += told_ns - deaf_ns;
        return;
    }
    if (run->phase == RUN_DEAF_GONE) {
        for (int pe = 0; pe < run->started; pe++)
            terminate(run, pe);
        run->phase = RUN_TERMINATED;
        run->phase_ends_ns = clock_now_ns() + run->options.grace_ns;
        return;
    }
    for (int pe = 0; pe < run->started; pe++)
        if (!run->pes[pe].exited)
            run_say("%s did not end after SIGTERM; killed", run_pe_name(run, pe));
    signal_all(run, SIGKILL);
    run->phase = RUN_KILLED;
    run->phase_ends_ns = UINT64_MAX;
}

/* ------------------------------------------------------------------------------ a PE has ended */

/* "PE 3 (pid 1234) was killed by signal 9 (Killed)" */
static void describe_exit(const struct run *run, int pe, char *text, size_t size)
{
    int status = run->pes[pe].wait_status;
    const char *when = run->pes[pe].joined ? " before weft_finalize" : "";
    if (WIFSIGNALED(status))
        snprintf(text, size, "%s was killed by signal %d (%s)%s", run_pe_name(run, pe),
                 WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WCOREDUMP(status) ? ", core dumped" : "");
    else
        snprintf(text, size, "%s exited with status %d%s", run_pe_name(run, pe),
                 WEXITSTATUS(status), when);
}

static bool others_are_ahead(const struct run *run, int number)
{
    for (int pe = 0; pe < run->started; pe++)
        if (run->pes[pe].jobs > run->pes[number].jobs)
            return true;
    return false;
}

static void judge_failure(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    int result = exit_status_of(pe->wait_status);
    char text[256];
    describe_exit(run, number, text, sizeof text);
    if (WIFSIGNALED(pe->wait_status) && WTERMSIG(pe->wait_status) == run->asked_to_end) {
        begin_end(run, number, WEFT_ERR_PEER_DEAD, result, text); /* the user knows why */
    } else if (pe->jobs && !pe->joined && !others_are_ahead(run, number)) {
        /* after weft_finalize() nobody waits for it, unless others have begun a next job */
        run_say("%s", text);
        if (run->result < 0)
            run->result = result;
    } else {
        run_end(run, number, WEFT_ERR_PEER_DEAD, result, text);
    }
}

static void judge_exit(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    char text[256];
    if (run->phase != RUN_WORKING) {
        if (run->culprit == number && run->result < 0 && run->phase < RUN_TERMINATED)
            run->result = failure_status(pe);
        return;
    }
    if (exit_status_of(pe->wait_status) != 0) {
        judge_failure(run, number);
    } else if (pe->joined && run->alive > 0) {
        snprintf(text, sizeof text,
                 "%s ended with status 0, but without weft_finalize, while other PEs still work",
                 run_pe_name(run, number));
        run_end(run, number, WEFT_ERR_PEER_DEAD, 1, text);
    } else if (others_are_ahead(run, number)) {
        snprintf(text, sizeof text,
                 "%s ended with status 0 before it joined the job that others "
                 "wait in",
                 run_pe_name(run, number));
        run_end(run, number, WEFT_ERR_PEER_DEAD, 1, text);
    }
}

static void unwatch_process(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    if (pe->pidfd < 0)
        return;
    run_unwatch(run, pe->pidfd);
    close(pe->pidfd);
    pe->pidfd = -1;
}

/* A PE that ends well, but goes on as a child in a session of its own (setsid, daemon), has not
 * ended. When it was itself in the job, what it leaves are its helpers. */
static bool follow_detached(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    if (run->phase != RUN_WORKING || (pe->jobs && pe->program == pe->pid))
        return false;
    pid_t next = run_find_detached(run, number);
    int pidfd = next > 0 ? (int)syscall(SYS_pidfd_open, next, 0) : -1;
    if (pidfd < 0)
        return false;
    unwatch_process(run, number);
    waitpid(pe->pid, NULL, 0);
    pe->pid = next;
    pe->group = getpgid(next);
    run->guard_groups[number] = pe->group;
    pe->pidfd = pidfd;
    return run_watch(run, pidfd, EPOLLIN, RUN_EVENT_EXIT, number) == 0;
}

/* Looks, without reaping: as long as the zombie is there its pid, and so the number of its process
 * group, is not given to another. */
static bool look_for_exit(struct run *run, int number)
{
    struct run_pe *pe = &run->pes[number];
    siginfo_t info = {0};
    if (pe->exited || waitid(P_PID, (id_t)pe->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid == 0)
        return false;
    if (info.si_code == CLD_EXITED && info.si_status == 0 && follow_detached(run, number))
        return false;
    pe->exited = true;
    pe->wait_status = info.si_code == CLD_EXITED
                          ? (info.si_status & 0xff) << 8
                          : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    run->alive--;
    unwatch_process(run, number);
    run_serve(run, number); /* its last words may still be in the socket */
    return true;
}

/* One death often brings others with it: those that have ended by now are judged together, and who
 * was killed by a signal before who exited because of it. */
static void look_for_exits(struct run *run)
{
    for (int pe = 0; pe < run->started; pe++)
        run->pes[pe].to_judge |= look_for_exit(run, pe);
    for (int signalled = 1; signalled >= 0; signalled--) {
        for (int pe = 0; pe < run->started; pe++) {
            if (!run->pes[pe].to_judge || WIFSIGNALED(run->pes[pe].wait_status) != signalled)
                continue;
            run->pes[pe].to_judge = false;
            judge_exit(run, pe);
        }
    }
}

/* Ends what PEs have left in their process groups, and reaps them. */
static void clean_up(struct run *run)
{
    uint64_t until = clock_now_ns() + run->options.grace_ns;
    for (int pe = 0; pe < run->started; pe++) {
        kill(-run->pes[pe].group, SIGTERM);
        kill(-run->pes[pe].group, SIGCONT);
        while (waitpid(run->pes[pe].pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    for (int pe = 0; pe < run->started; pe++) {
        pid_t group = run->pes[pe].group;
        while (kill(-group, 0) == 0 && clock_now_ns() < until) {
            run_reap_orphans(run);
            if (kill(-group, 0) == 0)
                usleep(2000);
        }
        kill(-group, SIGKILL);
        run->guard_groups[pe] = 0;
        run->pes[pe].pid = 0;
    }
    run_end_orphans(run);
    for (int pe = 0; pe < run->options.npes; pe++)
        run_unwatch_program(run, pe);
    run_close_hub(run);
}

/* ------------------------------------------------------------------------------------- signals */

static void ask_to_end(struct run *run, int number)
{
    if (run->asked_to_end && run->phase == RUN_WORKING) {
        char text[64];
        snprintf(text, sizeof text, "asked to end a second time (%s)", strsignal(number));
        run_end(run, -1, WEFT_ERR_JOB, EXIT_BY_SIGNAL + number, text);
        run->phase_ends_ns = 0; /* at once */
    } else if (run->asked_to_end) {
        run->phase_ends_ns = 0;
    }
    run->asked_to_end = number;
    signal_all(run, number);
}

static void handle_signal(struct run *run, int number)
{
    switch (number) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        ask_to_end(run, number);
        break;
    case SIGTSTP:
        signal_all(run, SIGTSTP);
        kill(getpid(), SIGSTOP);
        break;
    default:
        signal_all(run, number);
    }
}

static bool open_signals(struct run *run)
{
    static const int handled[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    signal(SIGCHLD, SIG_DFL); /* were it ignored, the kernel would keep no exit status for us */
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++)
        sigaddset(&set, handled[i]);
    sigprocmask(SIG_BLOCK, &set, &run->old_mask);
    run->pipe_was_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals >= 0 && run_watch(run, run->signals, EPOLLIN, RUN_EVENT_SIGNAL, 0) == 0;
}

static void read_signals(struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == sizeof info)
        handle_signal(run, (int)info.ssi_signo);
}

/* -------------------------------------------------------------------------------------- stdin */

/* A PE is not in the terminal's foreground group and would be stopped when it reads; so we read for
 * PE 0. Anything but a terminal it reads itself. */
static void watch_stdin(struct run *run, bool watch)
{
    if (run->stdin_watched == watch)
        return;
    run->stdin_watched = watch;
    if (watch)
        run_watch(run, STDIN_FILENO, EPOLLIN, RUN_EVENT_STDIN, 0);
    else
        run_unwatch(run, STDIN_FILENO);
}

static void end_stdin(struct run *run)
{
    watch_stdin(run, false);
    if (run->stdin_pipe >= 0)
        close(run->stdin_pipe);
    run->stdin_pipe = -1;
    run->stdin_again_ns = 0;
}

static void relay_stdin(struct run *run)
{
    run->stdin_again_ns = 0;
    if (run->stdin_pipe < 0)
        return;
    if (!run->stdin_used) {
        if (tcgetpgrp(STDIN_FILENO) != getpgrp()) { /* in the background: look again later */
            watch_stdin(run, false);
            run->stdin_again_ns = clock_now_ns() + SECOND_NS / 5;
            return;
        }
        ssize_t n = read(STDIN_FILENO, run->stdin_data, sizeof run->stdin_data);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return;
        if (n <= 0) {
            end_stdin(run);
            return;
        }
        run->stdin_used = (size_t)n;
    }
    ssize_t n = write(run->stdin_pipe, run->stdin_data, run->stdin_used);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        end_stdin(run);
        return;
    }
    if (n > 0) {
        run->stdin_used -= (size_t)n;
        memmove(run->stdin_data, run->stdin_data + n, run->stdin_used);
    }
    watch_stdin(run, run->stdin_used == 0);
    if (run->stdin_used)
        run->stdin_again_ns = clock_now_ns() + SECOND_NS / 100;
}

/* ------------------------------------------------------------------------------------ the loop */

static void handle_event(struct run *run, const struct epoll_event *event)
{
    int number = (int)(uint32_t)event->data.u64;
    switch ((enum run_event)(event->data.u64 >> 32)) {
    case RUN_EVENT_SIGNAL:
        read_signals(run);
        break;
    case RUN_EVENT_EXIT:
        look_for_exits(run);
        break;
    case RUN_EVENT_SOCKET:
        if (event->events & EPOLLOUT)
            run_flush_socket(run, number);
        if (event->events & ~(uint32_t)EPOLLOUT)
            run_serve(run, number);
        break;
    case RUN_EVENT_PROGRAM:
        run_serve(run, number);
        run_program_ended(run, number);
        break;
    case RUN_EVENT_SOURCE:
        run_read_source(run, number / 2, number % 2);
        break;
    case RUN_EVENT_SINK:
        run_flush_sink(run, number);
        break;
    case RUN_EVENT_STDIN:
        relay_stdin(run);
        break;
    }
}

static uint64_t timeout_at(const struct run *run)
{
    return run->options.timeout_ns ? run->started_ns + run->options.timeout_ns : UINT64_MAX;
}

static int milliseconds_to_wait(const struct run *run)
{
    uint64_t now = clock_now_ns();
    uint64_t until = run->phase == RUN_WORKING ? timeout_at(run) : run->phase_ends_ns;
    if (run->stdin_again_ns && run->stdin_again_ns < until)
        until = run->stdin_again_ns;
    if (run->retry_soon && now + 1000000 < until)
        until = now + 1000000;
    if ((run->postponed.until_ns || run->some_cut_off) && now + LOOK_AGAIN_NS < until)
        until = now + LOOK_AGAIN_NS;
    if (run->next_reaping_ns < until)
        until = run->next_reaping_ns;
    if (until == UINT64_MAX)
        return -1;
    if (until <= now)
        return 0;
    uint64_t ms = (until - now + 999999) / 1000000;
    return ms > 3600000 ? 3600000 : (int)ms;
}

static void handle_time(struct run *run)
{
    uint64_t now = clock_now_ns();
    if (run->retry_soon)
        run_retry_sending(run);
    if (run->stdin_again_ns && now >= run->stdin_again_ns)
        relay_stdin(run);
    if (now >= run->next_reaping_ns) {
        run_reap_orphans(run);
        run->next_reaping_ns = now + reaping_ns;
    }
    if (run->some_cut_off)
        look_for_cut_off(run, now);
    settle_postponed(run, false);
    if (run->phase == RUN_WORKING && now >= timeout_at(run))
        run_end(run, -1, WEFT_ERR_TIMEOUT, EXIT_TIMEOUT,
                "the job ran longer than its --timeout allows");
    else if (run->phase != RUN_WORKING && now >= run->phase_ends_ns)
        next_phase(run);
}

static void loop(struct run *run)
{
    while (run->alive > 0) {
        struct epoll_event events[64];
        int n = epoll_wait(run->epoll, events, 64, milliseconds_to_wait(run));
        for (int i = 0; i < n; i++)
            handle_event(run, &events[i]);
        handle_time(run);
    }
    settle_postponed(run, true);
}

/* ------------------------------------------------------------------------------------- options */

static error_t parse_count(struct argp_state *state, const char *text, int *count)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > BOOT_MOST_LAUNCHED)
        argp_error(state, "-n %s: the number of PEs is 1 to %d", text, BOOT_MOST_LAUNCHED);
    *count = (int)number;
    return 0;
}

static error_t parse_time(struct argp_state *state, const char *option, const char *text,
                          uint64_t *ns)
{
    if (!config_parse_duration(text, ns))
        argp_error(state, "%s %s: a time is meant, such as 30s, 500ms or 5m", option, text);
    return 0;
}

static error_t parse_bind(struct argp_state *state, const char *text, enum run_bind *bind)
{
    static const char *const words[] = {"share", "core", "none"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) == 0) {
            *bind = (enum run_bind)i;
            return 0;
        }
    }
    argp_error(state, "--bind=%s: share, core or none is meant", text);
    return EINVAL;
}

enum { KEY_PREFIX = 256, KEY_OUTPUT, KEY_TIMEOUT, KEY_GRACE, KEY_BIND };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct run_options *options = state->input;
    switch (key) {
    case 'n':
        return parse_count(state, argument, &options->npes);
    case KEY_PREFIX:
        options->prefix = true;
        return 0;
    case KEY_OUTPUT:
        options->output_dir = argument;
        return 0;
    case KEY_TIMEOUT:
        return parse_time(state, "--timeout", argument, &options->timeout_ns);
    case KEY_GRACE:
        return parse_time(state, "--grace", argument, &options->grace_ns);
    case KEY_BIND:
        return parse_bind(state, argument, &options->bind);
    case ARGP_KEY_ARG:
        options->command = &state->argv[state->next - 1];
        state->next = state->argc; /* all else is the program's */
        return 0;
    case ARGP_KEY_END:
        if (!options->command)
            argp_error(state, "which program?");
        if (!options->npes)
            argp_error(state, "how many PEs? (-n N)");
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static const struct argp_option option_table[] = {
    {"pes", 'n', "N", 0, "number of PEs (processes) to start", 0},
    {"prefix", KEY_PREFIX, NULL, 0, "put \"[pe] \" in front of every line of output", 0},
    {"output-dir", KEY_OUTPUT, "DIR", 0, "write each PE's output to DIR/pe.N.out and DIR/pe.N.err",
     0},
    {"timeout", KEY_TIMEOUT, "T", 0, "end the job after this time (30s, 5m), exit status 124", 0},
    {"grace", KEY_GRACE, "T", 0, "time between SIGTERM and SIGKILL when a job ends early (2s)", 0},
    {"bind", KEY_BIND, "HOW", 0,
     "CPUs of each PE: an equal share of those allowed (share, the default), one core (core), all "
     "(none). More PEs than CPUs are never bound",
     0},
    {0},
};

static const struct argp argp = {
    .options = option_table,
    .parser = parse,
    .args_doc = "PROGRAM [ARGUMENT...]",
    .doc = "Start a job of N PEs on this machine and wait for its end.\v"
           "The exit status is that of the first PE that failed, 128 + the signal if it was killed "
           "by one, 124 after --timeout, 126 or 127 when the program cannot be started, 2 on wrong "
           "usage. Standard input goes to PE 0."};

/* ----------------------------------------------------------------------------------------- run */

static bool make_output_dir(const char *path)
{
    if (!path || mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    run_say("--output-dir %s: %s", path, strerror(errno));
    return false;
}

static bool prepare(struct run *run)
{
    run->pes = calloc((size_t)run->options.npes, sizeof *run->pes);
    if (!run->pes || !run_open_hub(run)) {
        run_say("no memory for %d PEs", run->options.npes);
        return false;
    }
    for (int pe = 0; pe < run->options.npes; pe++) {
        run->pes[pe].pidfd = run->pes[pe].program_pidfd = -1;
        run->pes[pe].streams[0].fd = run->pes[pe].streams[1].fd = -1;
    }
    if (!make_output_dir(run->options.output_dir) || !run_start_guard(run))
        return false;
    if (!run_adopt_orphans()) {
        run_say("prctl(PR_SET_CHILD_SUBREAPER): %s", strerror(errno));
        return false;
    }
    run->next_reaping_ns = clock_now_ns() + reaping_ns;
    run->linger_ms = 50;
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (run->epoll < 0 || !open_signals(run)) {
        run_say("preparing to wait: %s", strerror(errno));
        return false;
    }
    run_open_sinks(run);
    run->relay_stdin = isatty(STDIN_FILENO);
    return true;
}

/* A descriptor that we open must not come to lie on 0, 1 or 2, where the PEs would take it for
 * theirs. */
static bool open_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    return true;
}

/* A job within a job: the outer launcher's socket is not for our PEs. */
static void hide_outer_socket(void)
{
    int64_t fd = config_int(CONFIG_BOOT_SOCKET);
    if (fd > STDERR_FILENO && fd < INT32_MAX)
        fcntl((int)fd, F_SETFD, FD_CLOEXEC);
}

static void work(struct run *run, const char *path)
{
    run->started_ns = clock_now_ns();
    if (!run_start_pes(run, path)) {
        if (run->result < 0)
            run->result = EXIT_FAULT;
        begin_end(run, -1, WEFT_ERR_BOOT, run->result, "weft run could not start every PE");
    }
    watch_stdin(run, run->stdin_pipe >= 0);
    loop(run);
    end_stdin(run);
    clean_up(run);
    run_stop_guard(run);
    sigprocmask(SIG_SETMASK, &run->old_mask, NULL); /* from here Ctrl-C ends us */
    run_drain_output(run);
}

int cmd_run(int argc, char **argv)
{
    struct run run = {.options = {.grace_ns = 2 * SECOND_NS, .prefix = config_bool(CONFIG_TEXT_PE)},
                      .result = -1,
                      .culprit = -1,
                      .stdin_pipe = -1};
    if (!open_standard_streams())
        return EXIT_FAULT; /* and nowhere to say why */
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &run.options)) {
        run_say("no memory for the options");
        return EXIT_FAULT;
    }
    if (config_check()) {
        run_say("%s", weft_last_error());
        return EXIT_USAGE;
    }
    char *path = NULL;
    int result = run_find_program(run.options.command[0], &path);
    if (result)
        return result;
    hide_outer_socket();
    if (prepare(&run)) {
        work(&run, path);
        result = run.result >= 0 ? run.result : run.culprit >= 0 ? EXIT_FAULT : EXIT_GOOD;
    } else {
        run_stop_guard(&run);
        result = EXIT_FAULT;
    }
    free(path);
    free(run.pes);
    return result;
}

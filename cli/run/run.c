/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run`: starts the PEs of a job, serves their exchanges, and ends every process of the job
 * when the job ends for any reason. One event loop, no threads. This file has the loop: it waits
 * for events and calls their handlers. In a job over several hosts the launcher and its agents
 * all run this loop. */
#include "run/hosts.h"

#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PES_PER_CPU = 4 }; /* more are asked for twice */

static const uint64_t reaping_ns = 10 * RUN_SECOND_NS;

/* Host name of an agent, printed in its messages since those of several hosts are mixed. */
static const char *said_by;

static bool says_nothing;
static const char *said_as = "weft run";

void run_say_as(const char *command)
{
    said_as = command;
}

void run_be_quiet(bool quiet)
{
    says_nothing = quiet;
}

void run_say(const char *format, ...)
{
    char line[1024];
    if (says_nothing)
        return;
    int n = snprintf(line, sizeof line, "%.40s%s%.100s: ", said_as,
                     said_by && *said_by ? " on " : "", said_by ? said_by : "");
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    n = (int)strlen(printable(line));
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}

const char *run_pe_name(const struct run *run, int pe)
{
    static char name[160];
    const char *host = run_host_of(run, pe);
    snprintf(name, sizeof name, "PE %d (pid %d%s%.100s)", run->first + pe, (int)run->pes[pe].pid,
             host ? " on " : "", host ? host : "");
    return name;
}

/* ------------------------------------------------------------------------- watched descriptors */

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

/* ------------------------------------------------------------------------------------- signals */

static void handle_signal(struct run *run, int number)
{
    switch (number) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        run_request_end(run, number);
        break;
    case SIGTSTP:
        run_signal_all(run, SIGTSTP);
        kill(getpid(), SIGSTOP);
        break;
    default:
        run_signal_all(run, number);
    }
}

static bool open_signals(struct run *run)
{
    static const int handled[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, the kernel would not keep exit statuses */
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

/* ------------------------------------------------------------------------------------ the loop */

static void handle_event(struct run *run, const struct epoll_event *event)
{
    int number = (int)(uint32_t)event->data.u64;
    switch ((enum run_event)(event->data.u64 >> 32)) {
    case RUN_EVENT_SIGNAL:
        read_signals(run);
        break;
    case RUN_EVENT_EXIT:
        run_find_exits(run);
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
        run_relay_stdin(run);
        break;
    case RUN_EVENT_HOST:
        run_hosts_serve(run, number, event->events);
        break;
    case RUN_EVENT_HOST_EXIT:
        run_hosts_exited(run, number);
        break;
    case RUN_EVENT_LAUNCHER:
        run_agent_receive(run, event->events);
        break;
    }
}

static int milliseconds_to_wait(const struct run *run)
{
    uint64_t now = clock_now_ns();
    uint64_t until = run_end_due_ns(run, now);
    if (run->input.again_ns && run->input.again_ns < until)
        until = run->input.again_ns;
    if (run->retry_soon && now + 1000000 < until)
        until = now + 1000000;
    if (run->ending.next_reaping_ns < until)
        until = run->ending.next_reaping_ns;
    if (run->hosts.end_ns && run->hosts.end_ns < until)
        until = run->hosts.end_ns;
    if (run_agent_due_ns(run) < until)
        until = run_agent_due_ns(run);
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
    if (run->input.again_ns && now >= run->input.again_ns)
        run_relay_stdin(run);
    if (now >= run->ending.next_reaping_ns) {
        run_reap_orphans(run);
        run->ending.next_reaping_ns = now + reaping_ns;
    }
    if (run->alive > 0)
        run_end_by_time(run, now);
    if (run->hosts.list)
        run_hosts_by_time(run, now);
    if (now >= run_agent_due_ns(run))
        run_agent_send_parts(run);
}

/* Whether the loop continues: PEs run; or, at an agent, the launcher has not sent HOST_FINISH yet;
 * or agents that this process started run. */
static bool loop_continues(struct run *run)
{
    if (run->alive > 0)
        return true;
    if (run->ending.postponed.until_ns)
        run_end_postponed(run, true);
    if (run->agent && !run->agent->finish)
        return true;
    return run->hosts.list && run_hosts_wait(run);
}

/* Without events the launcher can neither serve the PEs nor see their end, so it kills them at
 * once. */
static void stop_waiting(struct run *run, int error)
{
    char text[128];
    snprintf(text, sizeof text, "epoll_wait: %s; the PEs are killed", strerror(error));
    run_say("%s", text);
    run_begin_end(run, -1, WEFT_ERR_SYSTEM, EXIT_FAULT, text);
    run_signal_all(run, SIGKILL);
}

static void process_events(struct run *run)
{
    while (loop_continues(run)) {
        struct epoll_event events[64];
        int n = epoll_wait(run->epoll, events, 64, milliseconds_to_wait(run));
        if (n < 0 && errno != EINTR) {
            stop_waiting(run, errno);
            return;
        }
        for (int i = 0; i < n; i++)
            handle_event(run, &events[i]);
        handle_time(run);
    }
    run_end_postponed(run, true);
}

/* ----------------------------------------------------------------------------------------- run */

static bool make_output_dir(const char *path)
{
    if (!path || mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    run_say("--output-dir %s: %s", path, strerror(errno));
    return false;
}

bool run_prepare(struct run *run)
{
    run->sources = run->options.npes + run->hosts.count;
    run->pes = calloc((size_t)run->sources, sizeof *run->pes);
    if (!run->pes || !run_open_hub(run)) {
        run_say("no memory for %d PEs", run->options.npes);
        return false;
    }
    for (int pe = 0; pe < run->sources; pe++) {
        run->pes[pe].pidfd = run->pes[pe].program_pidfd = -1;
        run->pes[pe].streams[0].fd = run->pes[pe].streams[1].fd = -1;
    }
    if (!make_output_dir(run->options.output_dir) || !run_start_guard(run))
        return false;
    if (!run_become_subreaper()) {
        run_say("prctl(PR_SET_CHILD_SUBREAPER): %s", strerror(errno));
        return false;
    }
    run->ending.next_reaping_ns = clock_now_ns() + reaping_ns;
    run->ending.linger_ms = 50;
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (run->epoll < 0 || !open_signals(run)) {
        run_say("preparing to wait: %s", strerror(errno));
        return false;
    }
    run_open_sinks(run);
    run->input.terminal = isatty(STDIN_FILENO);
    run->input.relay = run->input.terminal || run->hosts.list;
    return true;
}

/* Opens missing standard descriptors: a descriptor opened later must not become 0, 1 or 2, which
 * the PEs would use as standard streams. */
static bool open_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    return true;
}

/* In a job within a job, the PEs must not inherit the socket of the outer launcher. */
static void hide_outer_socket(void)
{
    int64_t fd = config_int(CONFIG_BOOT_SOCKET);
    if (fd > STDERR_FILENO && fd < INT32_MAX)
        fcntl((int)fd, F_SETFD, FD_CLOEXEC);
}

/* Frames between the launcher and the agents that it started, for `weft bench scale`. */
static void write_frame_counts(const struct run *run)
{
    FILE *file = run->options.count_frames ? fopen(run->options.count_frames, "we") : NULL;
    uint64_t sent = 0, received = 0;
    for (int i = 1; run->hosts.wires && i <= run->hosts.children; i++) {
        sent += run->hosts.wires[i].sent;
        received += run->hosts.wires[i].received;
    }
    if (!file)
        return;
    fprintf(file, "%llu %llu\n", (unsigned long long)sent, (unsigned long long)received);
    fclose(file);
}

int run_loop(struct run *run)
{
    run_start_stdin(run);
    process_events(run);
    write_frame_counts(run);
    run_end_stdin(run);
    run_clean_up(run);
    run_stop_guard(run);
    sigprocmask(SIG_SETMASK, &run->old_mask, NULL); /* from here on Ctrl-C ends this process */
    run_drain_output(run);
    return run->ending.result >= 0    ? run->ending.result
           : run->ending.culprit >= 0 ? EXIT_FAULT
                                      : EXIT_GOOD;
}

static void start_job(struct run *run, const char *path)
{
    run->started_ns = clock_now_ns();
    if (run_is_remote(run) ? run_hosts_start(run) : run_start_pes(run, path))
        return;
    if (run->ending.result < 0)
        run->ending.result = EXIT_FAULT;
    run_begin_end(run, -1, WEFT_ERR_BOOT, run->ending.result, "weft run could not start every PE");
}

static int run_here(struct run *run)
{
    char *path = NULL;
    int result = run->hosts.count ? 0 : run_find_program(run->options.command[0], &path);
    if (result)
        return result;
    hide_outer_socket();
    if (run_prepare(run) && (!run->hosts.list || run_hosts_connect(run))) {
        start_job(run, path);
        result = run_loop(run);
    } else {
        run_stop_guard(run);
        result = run->ending.result > 0 ? run->ending.result : EXIT_FAULT;
    }
    run_hosts_close(run);
    free(path);
    free(run->pes);
    return result;
}

/* Makes the list of the hosts below this process. first, number: of the first one's PEs and of the
 * host itself. */
static bool list_hosts(struct run *run, int first, int number)
{
    struct run_options *options = &run->options;
    run->hosts.count = options->host_count;
    if (!run->hosts.count)
        return true;
    run->hosts.list = calloc((size_t)run->hosts.count, sizeof *run->hosts.list);
    if (!run->hosts.list) {
        run_say("no memory for %d hosts", run->hosts.count);
        return false;
    }
    for (int i = 0; i < run->hosts.count; i++) {
        const char *at = strrchr(options->hosts[i].name, '@');
        run->hosts.list[i] = (struct run_host){.number = number + i,
                                               .name = options->hosts[i].name,
                                               .label = at ? at + 1 : options->hosts[i].name,
                                               .first = first,
                                               .count = options->hosts[i].npes,
                                               .pidfd = -1,
                                               .stdin_end = -1};
        first += run->hosts.list[i].count;
    }
    if (!options->fan_out)
        options->fan_out = RUN_FAN_OUT;
    run->hosts.children = run_tree_plan(run->hosts.list, run->hosts.count, options->fan_out);
    run->hosts.levels = run_tree_levels(run->hosts.count, options->fan_out);
    return true;
}

/* Completes the host list before anything is started. */
static bool plan_job(struct run *run)
{
    struct run_options *options = &run->options;
    bool good = !options->host_count || run_distribute_pes(options);
    if (good && list_hosts(run, 0, 0)) {
        run->all = options->npes;
        return true;
    }
    for (int i = 0; i < options->host_count; i++)
        free(options->hosts[i].name);
    free(options->hosts);
    free(options->env);
    return false;
}

/* GPUs that a PE would see. */
static int count_gpus(void)
{
    enum { RUN_GPUS_MOST = 64 };
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int n = 0;
    if (visible) {
        /* "-1" and "NoDevFiles" hide all GPUs from there on. */
        for (; *visible && *visible != '-' && strcmp(visible, "NoDevFiles") != 0; n++) {
            visible += strcspn(visible, ",");
            visible += *visible == ',';
        }
        return n;
    }
    char path[32];
    for (int i = 0; i < RUN_GPUS_MOST; i++) {
        snprintf(path, sizeof path, "/dev/nvidia%d", i);
        n += access(path, F_OK) == 0;
    }
    return n;
}

/* The CPUs that this process may use. */
static int count_cpus(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return CPU_COUNT(&allowed);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* At a terminal, asks before more PEs are started than the machine can run beside its user. The
 * answer is read byte by byte, because what follows it belongs to PE 0. */
static bool confirm_many(const struct run_options *options)
{
    static bool confirmed; /* weft bench starts several jobs */
    int cpus = count_cpus();
    char answer = 'n', c;
    if (confirmed || options->npes <= PES_PER_CPU * cpus || !isatty(STDIN_FILENO) ||
        !isatty(STDERR_FILENO))
        return true;
    fprintf(stderr,
            "%s: %d PEs on %d CPU%s, %d for each, may slow this machine down. Start them? [y/N] ",
            said_as, options->npes, cpus, cpus == 1 ? "" : "s", options->npes / cpus);
    for (bool first = true; read(STDIN_FILENO, &c, 1) == 1 && c != '\n'; first = false)
        answer = first ? c : answer;
    confirmed = answer == 'y' || answer == 'Y';
    return confirmed;
}

/* The number of PEs where the command line has none, with a line about it. */
static void take_devices(struct run_options *options)
{
    int gpus = count_gpus(), most = BOOT_MOST_LAUNCHED;
    int n = gpus ? gpus : count_cpus();
    options->npes = n < most ? n : most;
    run_say("%d PE%s, one for each %s; -n N starts another number", options->npes,
            options->npes == 1 ? "" : "s", gpus ? "GPU" : "CPU");
}

static int run_as_agent(struct run *run)
{
    struct run_agent agent = {.up = {.fd = -1}};
    said_by = agent.host;
    if (!run_setup_read(&run->options, &agent))
        return EXIT_USAGE;
    config_reset(); /* the setup has set the launcher's variables */
    run->agent = &agent;
    run->first = agent.first;
    run->all = agent.npes;
    agent.gather.first = agent.first;
    agent.gather.npes = run->options.npes;
    for (int i = 0; i < run->options.host_count; i++)
        agent.gather.npes += run->options.hosts[i].npes;
    int result = list_hosts(run, agent.first + run->options.npes, agent.index + 1)
                     ? run_agent_main(run)
                     : EXIT_FAULT;
    run->agent = NULL;
    return result;
}

int cmd_run(int argc, char **argv)
{
    struct run run = {.options = {.grace_ns = 2 * RUN_SECOND_NS},
                      .ending.result = -1,
                      .ending.culprit = -1,
                      .input.pipe = -1};
    if (!open_standard_streams())
        return EXIT_FAULT; /* there is no stream for a message */
    if (!run_parse_options(&run.options, argc, argv)) {
        run_say("no memory for the options");
        return EXIT_FAULT;
    }
    if (run.options.agent)
        return run_as_agent(&run);
    if (config_check()) {
        run_say("%s", weft_last_error());
        return EXIT_USAGE;
    }
    if (!run.options.npes && !run.options.host_count)
        take_devices(&run.options);
    if (!run.options.host_count && !confirm_many(&run.options))
        return EXIT_USAGE;
    return plan_job(&run) ? run_here(&run) : EXIT_USAGE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the PEs of `weft run`: finds the program, chooses CPUs, creates each PE by a vfork-like
 * clone, and starts the guard, which ends the job's processes when the launcher itself is
 * killed. */
#include "run/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, OWN_VARIABLES = 6 };

/* ------------------------------------------------------------------------------- the program */

static int try_program(const char *path)
{
    struct stat file;
    if (stat(path, &file) < 0)
        return EXIT_NOT_FOUND;
    if (!S_ISREG(file.st_mode) || access(path, X_OK) < 0)
        return EXIT_NOT_EXECUTABLE;
    return 0;
}

static int search_path(const char *name, char *found, size_t size)
{
    const char *path = getenv("PATH");
    int worst = EXIT_NOT_FOUND;
    for (const char *entry = path ? path : "/usr/local/bin:/usr/bin:/bin";;) {
        size_t length = strcspn(entry, ":");
        int n = snprintf(found, size, "%.*s%s%s", (int)length, entry, length ? "/" : "", name);
        int result = n < (int)size ? try_program(found) : EXIT_NOT_FOUND;
        if (result == 0)
            return 0;
        if (result == EXIT_NOT_EXECUTABLE)
            worst = result;
        if (!entry[length])
            return worst;
        entry += length + 1;
    }
}

int run_find_program(const char *name, char **path)
{
    char found[PATH_MAX];
    int result = EXIT_NOT_FOUND;
    if (strchr(name, '/'))
        result = snprintf(found, sizeof found, "%s", name) < (int)sizeof found ? try_program(found)
                                                                               : EXIT_NOT_FOUND;
    else if (*name)
        result = search_path(name, found, sizeof found);
    if (result == EXIT_NOT_FOUND)
        run_say("%s: there is no such program%s", name,
                strchr(name, '/')                            ? ""
                : *name && !name[strspn(name, "0123456789")] ? "; -n starts a number of PEs"
                                                             : " on PATH (one of this directory is "
                                                               "started as ./name)");
    if (result == EXIT_NOT_EXECUTABLE)
        run_say("%s: not an executable file", name);
    if (result)
        return result;
    *path = strdup(found);
    if (!*path)
        run_say("no memory for the path of %s", name);
    return *path ? 0 : EXIT_NOT_EXECUTABLE;
}

/* -------------------------------------------------------------------------------------- CPUs */

/* First CPU of the core of `cpu`, so that hardware threads are kept together. */
static int core_of(int cpu)
{
    char path[96], text[32] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cpu;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? atoi(text) : cpu;
}

struct cpu {
    int number;
    int core;
};

static int compare_cores(const void *a, const void *b)
{
    const struct cpu *left = a, *right = b;
    if (left->core != right->core)
        return left->core < right->core ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

/* Lists the CPUs that this process may use, hardware threads of a core adjacent. */
static struct cpu *list_cpus(int *count)
{
    cpu_set_t allowed;
    *count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return NULL;
    struct cpu *cpus = calloc((size_t)CPU_COUNT(&allowed), sizeof *cpus);
    for (int cpu = 0; cpus && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpus[(*count)++] = (struct cpu){cpu, core_of(cpu)};
    if (cpus)
        qsort(cpus, (size_t)*count, sizeof *cpus, compare_cores);
    return cpus;
}

static bool begins_core(const struct cpu *cpus, int i)
{
    return i == 0 || cpus[i].core != cpus[i - 1].core;
}

/* Index of the first CPU of a core, counted from 0; `count` after the last core. */
static int core_begin(const struct cpu *cpus, int count, int core)
{
    for (int i = 0; i < count; i++)
        if (begins_core(cpus, i) && core-- == 0)
            return i;
    return count;
}

static int count_cores(const struct cpu *cpus, int count)
{
    int cores = 0;
    for (int i = 0; i < count; i++)
        cores += begins_core(cpus, i);
    return cores;
}

/* Chooses the CPUs of PE `pe` of `npes`: an equal share of the cores, in order, or one core of
 * that share. With more PEs than cores they share CPUs (hardware threads); with more PEs than
 * CPUs they are not bound. */
static void choose_cpus(const struct cpu *cpus, int count, const struct run_options *options,
                        int pe, cpu_set_t *set)
{
    const int npes = options->npes, cores = count_cores(cpus, count);
    const int shared = npes <= cores ? cores : count;
    int begin = (int)((long)shared * pe / npes), end = (int)((long)shared * (pe + 1) / npes);
    if (npes <= cores) {
        begin = core_begin(cpus, count, begin);
        end = core_begin(cpus, count, end);
    }
    CPU_ZERO(set);
    for (int i = begin; i < end; i++)
        if (options->bind == RUN_BIND_SHARE || cpus[i].core == cpus[begin].core)
            CPU_SET(cpus[i].number, set);
}

/* --------------------------------------------------------------------------------- the guard */

/* The guard: a process in its own session that waits until the launcher's end of the pipe is
 * closed. Only the death of the launcher closes it: a launcher that ends normally kills the
 * guard first. */
static void guard_main(struct run *run, int pipe_end)
{
    setsid();
    prctl(PR_SET_NAME, "weft-guard");
    /* closes the output, so that its reader does not wait for the guard */
    if (dup2(pipe_end, 0) < 0 || syscall(SYS_close_range, 1, ~0u, 0) < 0)
        for (int fd = 1; fd < 1024; fd++)
            close(fd);
    char nothing;
    while (read(0, &nothing, 1) < 0 && errno == EINTR)
        ;
    for (int pe = 0; pe < run->options.npes + run->hosts.count; pe++)
        if (run->guard.groups[pe] > 0)
            kill(-run->guard.groups[pe], SIGKILL);
    run_kill_marked(run->mark);
    _exit(0);
}

/* Makes the mark from a random number, the time and a pid, so that no other job has it and it
 * cannot be guessed. */
static void make_mark(struct run *run)
{
    struct timespec now;
    uint64_t random = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = 0; /* shortly after boot there may be no random numbers; pid and time remain */
    snprintf(run->mark, sizeof run->mark, "WEFT_BOOT_JOB=%d.%lld.%09ld.%016" PRIx64, (int)getpid(),
             (long long)now.tv_sec, now.tv_nsec, random);
}

bool run_start_guard(struct run *run)
{
    size_t bytes = (size_t)(run->options.npes + run->hosts.count) * sizeof *run->guard.groups;
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    if (shared == MAP_FAILED || pipe2(ends, O_CLOEXEC) < 0) {
        run_say("preparing the guard process: %s", strerror(errno));
        return false;
    }
    run->guard.groups = shared;
    make_mark(run);
    run->guard.pid = fork();
    if (run->guard.pid == 0) {
        close(ends[1]);
        guard_main(run, ends[0]);
    }
    close(ends[0]);
    run->guard.pipe = ends[1];
    if (run->guard.pid < 0)
        run_say("starting the guard process: %s", strerror(errno));
    return run->guard.pid > 0;
}

void run_stop_guard(struct run *run)
{
    if (run->guard.pid <= 0)
        return;
    kill(run->guard.pid, SIGKILL);
    while (waitpid(run->guard.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    run->guard.pid = 0;
    close(run->guard.pipe);
}

/* ----------------------------------------------------------------------------------- one PE */

/* Data of the child between clone and exec. The child shares the launcher's memory while the
 * launcher waits. */
struct child {
    struct run *run;
    const char *path;
    char **environment; /* with space for the launcher's variables at the start */
    char **variables;   /* start of the environment of this PE */
    int pe;
    int socket;
    int in, out, err; /* become 0, 1 and 2; -1: unchanged */
    bool bound;
    cpu_set_t cpus;
    sigset_t old_mask;
    struct rlimit files;
    pid_t launcher;
    int error; /* errno of the failed call */
    const char *failed;
};

static void child_fail(struct child *child, const char *what)
{
    child->error = errno;
    child->failed = what;
    _exit(127);
}

static int child_main(void *argument)
{
    struct child *child = argument;
    /* The child dies with the launcher. If the launcher died before this call, the parent's pid
     * differs. The process group is in the guard's list before the child runs. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        child_fail(child, "prctl(PR_SET_PDEATHSIG)");
    if (getppid() != child->launcher)
        _exit(127);
    setpgid(0, 0);
    child->run->guard.groups[child->pe] = getpid();

    const int descriptors[] = {child->in, child->out, child->err};
    for (int fd = 0; fd < 3; fd++)
        if (descriptors[fd] >= 0 && dup2(descriptors[fd], fd) < 0)
            child_fail(child, "redirecting its standard streams");
    if (fcntl(child->socket, F_SETFD, 0) < 0)
        child_fail(child, "passing it the launcher's socket");
    if (child->bound && sched_setaffinity(0, sizeof child->cpus, &child->cpus) < 0)
        child_fail(child, "binding it to its CPUs (--bind=none skips this)");
    setrlimit(RLIMIT_NOFILE, &child->files);
    if (!child->run->pipe_was_ignored)
        signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &child->old_mask, NULL);
    execve(child->path, child->run->options.command, child->variables);
    child_fail(child, child->path);
    return 0;
}

static bool watch_descriptor(struct run *run, int fd, enum run_event event, int number, int pe)
{
    if (run_watch(run, fd, EPOLLIN, event, number) == 0)
        return true;
    run_say("watching a descriptor of PE %d: epoll_ctl: %s%s", run->first + pe, strerror(errno),
            errno == ENOSPC ? "; raise /proc/sys/fs/epoll/max_user_watches" : "");
    return false;
}

static bool clone_child(struct child *child)
{
    enum { STACK_BYTES = 65536 };
    static _Alignas(64) char stack[STACK_BYTES];
    struct run_pe *pe = &child->run->pes[child->pe];
    child->launcher = getpid();
    pid_t pid = clone(child_main, stack + sizeof stack,
                      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, child, &pe->pidfd);
    if (pid < 0) {
        run_say("starting PE %d: %s%s", child->run->first + child->pe, strerror(errno),
                errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        return false;
    }
    if (child->failed) {
        waitpid(pid, NULL, 0);
        close(pe->pidfd);
        pe->pidfd = -1;
        child->run->guard.groups[child->pe] = 0;
        run_say("starting PE %d: %s: %s", child->run->first + child->pe, child->failed,
                strerror(child->error));
        if (child->failed == child->path)
            child->run->ending.result =
                child->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
        return false;
    }
    pe->pid = pe->group = pid;
    if (watch_descriptor(child->run, pe->pidfd, RUN_EVENT_EXIT, child->pe, child->pe))
        return true;
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return false;
}

/* ------------------------------------------------------------------------------- environment */

static bool is_ours(const char *entry)
{
    static const char *const names[] = {"WEFT_BOOT_SOCKET=", "WEFT_PE=",        "WEFT_PES=",
                                        "WEFT_BOOT_JOB=",    "WEFT_BOOT_NODE=", "WEFT_BOOT_HOST="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Makes the environment of a PE. The launcher's variables come first: socket, PE, number of PEs,
 * the mark of the job, and with several hosts the number and name of this host. */
static char **make_environment(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **made = calloc(count + OWN_VARIABLES + 1, sizeof *made);
    size_t n = OWN_VARIABLES;
    for (size_t i = 0; made && i < count; i++)
        if (!is_ours(environ[i]))
            made[n++] = environ[i];
    return made;
}

/* ----------------------------------------------------------------------------------- streams */

static int open_output(const struct run *run, int pe, const char *stream)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/pe.%d.%s", run->options.output_dir, run->first + pe, stream);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        run_say("%s: %s", path, strerror(errno));
    return fd;
}

static bool open_stream_pipe(struct run *run, int pe, int stream, int *writing)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        run_say("a pipe for the output of PE %d: %s; raise the limit of open files (ulimit -n)",
                run->first + pe, strerror(errno));
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    run->pes[pe].streams[stream].fd = ends[0];
    *writing = ends[1];
    return watch_descriptor(run, ends[0], RUN_EVENT_SOURCE, 2 * pe + stream, pe);
}

static bool open_streams(struct run *run, struct child *child)
{
    int pe = child->pe;
    bool reads = run->first + pe == 0;
    child->in = child->out = child->err = -1;
    if (!reads) {
        child->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } else if (run->input.relay) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) == 0) {
            child->in = ends[0];
            run->input.pipe = ends[1];
            fcntl(ends[1], F_SETFL, O_NONBLOCK);
        }
    }
    if (child->in < 0 && (!reads || run->input.relay)) {
        run_say("standard input of PE %d: %s%s", run->first + pe, strerror(errno),
                errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        return false;
    }
    if (run->options.output_dir) {
        child->out = open_output(run, pe, "out");
        child->err = child->out < 0 ? -1 : open_output(run, pe, "err");
        return child->err >= 0;
    }
    if (run->options.prefix)
        return open_stream_pipe(run, pe, 0, &child->out) &&
               open_stream_pipe(run, pe, 1, &child->err);
    return true;
}

static void close_streams(struct child *child)
{
    const int descriptors[] = {child->in, child->out, child->err};
    for (int i = 0; i < 3; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

/* ------------------------------------------------------------------------------- all the PEs */

static bool open_socket(struct run *run, int pe, int *other)
{
    int ends[2], on = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        run_say("a socket for PE %d: %s; raise the limit of open files (ulimit -n)",
                run->first + pe, strerror(errno));
        return false;
    }
    setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    wire_init(&run->hub.wires[pe], ends[0], NULL, false);
    *other = ends[1];
    return watch_descriptor(run, ends[0], RUN_EVENT_SOCKET, pe, pe);
}

static bool start_pe(struct run *run, struct child *child)
{
    char own[OWN_VARIABLES][96];
    int n = 0;
    if (!open_socket(run, child->pe, &child->socket))
        return false;
    snprintf(own[n++], sizeof own[0], "WEFT_BOOT_SOCKET=%d", child->socket);
    snprintf(own[n++], sizeof own[0], "WEFT_PE=%d", run->first + child->pe);
    snprintf(own[n++], sizeof own[0], "WEFT_PES=%d", run->all);
    snprintf(own[n++], sizeof own[0], "%s", run->mark);
    if (run->agent) {
        snprintf(own[n++], sizeof own[0], "WEFT_BOOT_NODE=%d", run->agent->index);
        snprintf(own[n++], sizeof own[0], "WEFT_BOOT_HOST=%s", run->agent->host);
    }
    for (int i = 0; i < n; i++)
        child->environment[OWN_VARIABLES - n + i] = own[i];
    child->variables = child->environment + OWN_VARIABLES - n;
    bool good = open_streams(run, child) && clone_child(child);
    close_streams(child);
    close(child->socket);
    return good;
}

void run_raise_descriptor_limit(struct rlimit *given)
{
    getrlimit(RLIMIT_NOFILE, given);
    struct rlimit raised = {given->rlim_max, given->rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
}

bool run_start_pes(struct run *run, const char *path)
{
    struct child child = {.run = run, .path = path, .environment = make_environment()};
    if (!child.environment) {
        run_say("no memory");
        return false;
    }
    sigset_t all;
    sigfillset(&all);
    run_raise_descriptor_limit(&child.files);
    if (run->hosts.list) /* this agent has raised it before */
        child.files = run->hosts.files;
    int count = 0;
    struct cpu *cpus = run->options.bind == RUN_BIND_NONE ? NULL : list_cpus(&count);
    child.bound = cpus && run->options.npes <= count;

    bool good = true;
    while (good && run->started < run->options.npes) {
        child.pe = run->started;
        if (child.bound)
            choose_cpus(cpus, count, &run->options, child.pe, &child.cpus);
        /* no signal handler may run in the child while it shares the launcher's memory */
        sigset_t ours;
        sigprocmask(SIG_SETMASK, &all, &ours);
        child.old_mask = run->old_mask;
        good = start_pe(run, &child);
        sigprocmask(SIG_SETMASK, &ours, NULL);
        if (good) {
            run->started++;
            run->alive++;
        } else {
            run_close_socket(run, child.pe);
        }
    }
    free(cpus);
    free(child.environment);
    return good;
}

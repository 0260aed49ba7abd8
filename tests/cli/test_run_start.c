/* SPDX-License-Identifier: Apache-2.0 */
/* How `weft run` starts PEs (cli/run/start.c): which file, CPUs, descriptors and variables, as a
 * sequence of calls. The child of clone() runs in this process, up to execve(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run_calls.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

extern char **environ;

/* ------------------------------------------------------------------------- mock system calls */

static struct {
    const char *fails; /* the call of this name fails, */
    int fails_in;      /* after this many calls, */
    int error;         /* with this errno */
    int next;          /* next descriptor */
    int cpus;    /* allowed CPUs, two per core: 0 and 4, 1 and 5, ... up to 4 cores; 0: none */
    bool single; /* each CPU is its own core */
    bool silent; /* the files about them are empty */
    int reads_interrupted, reads_errno;
    pid_t parent; /* of the child; 0: the launcher */
    pid_t fork_result;
} system_;

static jmp_buf child;
static char started_with[2000]; /* variables of the last started program */

static bool fails(const char *name)
{
    if (!system_.fails || strcmp(name, system_.fails) != 0 || system_.fails_in-- > 0)
        return false;
    errno = system_.error;
    return true;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return 444;
}

pid_t __wrap_getppid(void);
pid_t __wrap_getppid(void)
{
    return system_.parent ? system_.parent : 444;
}

_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status)
{
    log_call("_exit %d", status);
    longjmp(child, 1);
}

int __wrap_clone(int (*run)(void *), void *stack, int flags, void *argument, ...);
int __wrap_clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
    va_list arguments;
    va_start(arguments, argument);
    int *pidfd = va_arg(arguments, int *);
    va_end(arguments);
    assert_int_equal(flags, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD);
    assert_int_equal((uintptr_t)stack % 64, 0);
    log_call("clone");
    if (fails("clone"))
        return -1;
    if (setjmp(child) == 0)
        run(argument);
    *pidfd = system_.next++;
    return 900 + system_.next;
}

pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    log_call("fork");
    errno = EAGAIN;
    return system_.fork_result;
}

pid_t __wrap_setsid(void);
pid_t __wrap_setsid(void)
{
    log_call("setsid");
    return 1;
}

int __wrap_setpgid(pid_t pid, pid_t group);
int __wrap_setpgid(pid_t pid, pid_t group)
{
    log_call("setpgid %d %d", (int)pid, (int)group);
    return 0;
}

int __wrap_prctl(int option, ...);
int __wrap_prctl(int option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    unsigned long value = va_arg(arguments, unsigned long);
    va_end(arguments);
    if (option == PR_SET_NAME)
        log_call("name %s", (const char *)value);
    else
        log_call("prctl %s %d", option == PR_SET_PDEATHSIG ? "death signal" : "?", (int)value);
    return fails("prctl") ? -1 : 0;
}

int __wrap_dup2(int from, int to);
int __wrap_dup2(int from, int to)
{
    log_call("dup2 %d %d", from, to);
    return fails("dup2") ? -1 : to;
}

int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    int value = va_arg(arguments, int);
    va_end(arguments);
    log_call("fcntl %d %s %d", fd,
             command == F_SETFL   ? "flags"
             : command == F_SETFD ? "exec"
                                  : "?",
             command == F_SETFL ? value == O_NONBLOCK : value);
    return fails("fcntl") ? -1 : 0;
}

static void list_set(const cpu_set_t *set, char *text)
{
    *text = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, set))
            sprintf(text + strlen(text), " %d", cpu);
}

int __wrap_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
    char text[200];
    list_set(set, text);
    log_call("CPUs%s", text);
    return pid == 0 && fails("sched_setaffinity") ? -1 : 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (int cpu = 0; cpu < system_.cpus; cpu++)
        CPU_SET(cpu, set);
    return pid == 0 && system_.cpus ? 0 : -1;
}

int __wrap_setrlimit(int resource, const struct rlimit *limit);
int __wrap_setrlimit(int resource, const struct rlimit *limit)
{
    log_call("setrlimit %s %d %d", resource == RLIMIT_NOFILE ? "files" : "?", (int)limit->rlim_cur,
             (int)limit->rlim_max);
    return 0;
}

int __wrap_getrlimit(int resource, struct rlimit *limit);
int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    *limit = (struct rlimit){1024, 4000};
    return 0;
}

void (*__wrap_signal(int number, void (*handler)(int)))(int);
void (*__wrap_signal(int number, void (*handler)(int)))(int)
{
    log_call("signal %d %s", number, handler == SIG_DFL ? "default" : "?");
    return SIG_DFL;
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    log_call("sigprocmask %s USR1 %d USR2 %d", how == SIG_SETMASK ? "set" : "?",
             sigismember(set, SIGUSR1), sigismember(set, SIGUSR2));
    if (old)
        sigemptyset(old);
    return 0;
}

int __wrap_execve(const char *path, char *const *words, char *const *variables);
int __wrap_execve(const char *path, char *const *words, char *const *variables)
{
    log_call("exec %s: %s %s", path, words[0], words[1]);
    *started_with = '\0';
    for (int i = 0; variables[i]; i++)
        sprintf(started_with + strlen(started_with), "%s\n", variables[i]);
    if (fails("execve"))
        return -1;
    longjmp(child, 1);
}

int __wrap_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags)
{
    assert_int_equal(flags, O_CLOEXEC);
    if (fails("pipe2"))
        return -1;
    ends[0] = system_.next++;
    ends[1] = system_.next++;
    log_call("pipe %d %d", ends[0], ends[1]);
    return 0;
}

int __wrap_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
    assert_int_equal(domain, AF_UNIX);
    assert_int_equal(type, SOCK_STREAM | SOCK_CLOEXEC);
    if (fails("socketpair"))
        return -1;
    ends[0] = system_.next++;
    ends[1] = system_.next++;
    log_call("sockets %d %d", ends[0], ends[1]);
    return 0;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
    log_call("%d passes credentials: %d", fd,
             level == SOL_SOCKET && option == SO_PASSCRED ? *(const int *)value : -1);
    return 0;
}

void __wrap_wire_init(struct wire *wire, int fd, const uint8_t (*keys)[WIRE_KEY_BYTES],
                      bool connecting);
void __wrap_wire_init(struct wire *wire, int fd, const uint8_t (*keys)[WIRE_KEY_BYTES],
                      bool connecting)
{
    log_call("wire %d%s", fd, keys || connecting ? "?" : "");
    wire->fd = fd;
}

enum { SIBLINGS_FROM = 2000 };

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    int cpu;
    if (sscanf(path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", &cpu) == 1)
        return system_.single ? -1 : SIBLINGS_FROM + cpu;
    log_call("open %s%s%s%s", path, flags & O_WRONLY ? ", write" : "",
             flags & O_CREAT ? ", create" : "", flags & O_TRUNC ? ", empty" : "");
    assert_true(flags & O_CLOEXEC);
    return fails("open") ? -1 : system_.next++;
}

ssize_t __wrap_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes)
{
    if (system_.silent && fd >= SIBLINGS_FROM)
        return 0;
    if (fd < 0)
        return sprintf(data, "0\n");
    if (fd >= SIBLINGS_FROM)
        return sprintf(data, "%d,%d\n", (fd - SIBLINGS_FROM) % 4, (fd - SIBLINGS_FROM) % 4 + 4);
    log_call("read %zu of %d", bytes, fd);
    errno = system_.reads_errno;
    return system_.reads_interrupted-- > 0 ? -1 : 0;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    log_call("kill %d %d", (int)pid, number);
    return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    log_call("waitpid %d %d", (int)pid, options);
    errno = system_.reads_errno;
    return system_.reads_interrupted-- > 0 ? -1 : pid;
}

static pid_t shared_groups[8];

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    log_call("map %zu bytes", bytes);
    assert_int_equal(flags, MAP_SHARED | MAP_ANONYMOUS);
    return fails("mmap") ? MAP_FAILED : shared_groups;
}

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
    assert_int_equal(flags, GRND_NONBLOCK);
    if (fails("getrandom")) {
        memset(to, 3, bytes);
        return -1;
    }
    memset(to, 0xab, bytes);
    return (ssize_t)bytes;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    *now = (struct timespec){clock == CLOCK_REALTIME ? 1234567 : 1, 89};
    return 0;
}

void run_kill_marked(const char *mark)
{
    log_call("kill those of %s", mark);
}

/* ------------------------------------------------------------------------------------ helpers */

static struct wire made_wires[PES_MOST];
static char *command[] = {"program", "argument", NULL};
static char *variables[] = {"HOME=/root",       "WEFT_BOOT_SOCKET=9", "WEFT_PE=9",
                            "WEFT_PES=9",       "WEFT_BOOT_JOB=9",    "WEFT_BOOT_NODE=9",
                            "WEFT_BOOT_HOST=9", "WEFT_LOG=info",      NULL};

static struct run made_start(int n)
{
    struct run run = made_run(n);
    memset(&system_, 0, sizeof system_);
    memset(made_groups, 0, sizeof made_groups);
    system_.next = 1401;
    system_.reads_errno = EINTR;
    system_.cpus = 8;
    run.hub.wires = made_wires;
    run.started = run.alive = 0;
    run.options.command = command;
    run.options.bind = RUN_BIND_NONE;
    strcpy(run.mark, "WEFT_BOOT_JOB=mine");
    for (int pe = 0; pe < PES_MOST; pe++)
        run.pes[pe].pidfd = -1;
    sigemptyset(&run.old_mask);
    sigaddset(&run.old_mask, SIGUSR2);
    return run;
}

static bool start(struct run *run)
{
    char **usual = environ;
    environ = variables;
    bool good = run_start_pes(run, "/bin/program");
    environ = usual;
    return good;
}

static void fail_at(const char *name, int in, int error)
{
    system_.fails = name;
    system_.fails_in = in;
    system_.error = error;
}

/* ------------------------------------------------------------------------------- the program */

static char folder[] = "/tmp/weft-test-start-XXXXXX";

static void make_file(const char *name, mode_t mode)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    chmod(path, mode);
}

static void expect_program(const char *name, int result, const char *found, const char *said)
{
    char *path = NULL, expected[400] = "";
    assert_int_equal(run_find_program(name, &path), result);
    if (found)
        assert_string_equal(path, found);
    else
        assert_null(path);
    if (said)
        snprintf(expected, sizeof expected, "say \"%s: %s\"\n", name, said);
    expect_log(expected);
    __real_free(path); /* from strdup() */
}

static void programs_are_found(void **state)
{
    static const char on_path[] =
        "there is no such program on PATH (one of this directory is started as ./name)";
    char path[400], one[100], both[100];
    made_start(1);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/sub", folder);
    mkdir(path, 0755);
    make_file("one", 0755);
    make_file("both", 0644);
    make_file("sub/both", 0755);
    make_file("none", 0644);
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(both, sizeof both, "%s/sub/both", folder);
    snprintf(path, sizeof path, "/nonexistent:%s:%s/sub", folder, folder);
    char *usual = copy_text(getenv("PATH"));
    setenv("PATH", path, 1);
    expect_program("one", 0, one, NULL);
    expect_program("both", 0, both, NULL); /* the executable one */
    expect_program("none", 126, NULL, "not an executable file");
    expect_program("sub", 126, NULL, "not an executable file");
    expect_program("absent", 127, NULL, on_path);
    expect_program("", 127, NULL, on_path);
    expect_program(one, 0, one, NULL);
    expect_program("./absent", 127, NULL, "there is no such program");
    expect_program("/", 126, NULL, "not an executable file");
    char name[5000]; /* longer than PATH_MAX */
    for (int slash = 0; slash < 2; slash++) {
        memset(name, slash ? '/' : 'x', sizeof name);
        name[4990] = '\0';
        char *none = NULL;
        assert_int_equal(run_find_program(name, &none), 127);
        *call_log = '\0';
    }
    snprintf(path, sizeof path, "%s/sub", folder);
    char back[400];
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir(path), 0);
    setenv("PATH", "/nonexistent::/other", 1); /* an empty entry is the current directory */
    expect_program("both", 0, "both", NULL);
    assert_int_equal(chdir(back), 0);
    unsetenv("PATH");
    expect_program("sh", 0, "/usr/bin/sh", NULL);
    setenv("PATH", usual, 1);
    free(usual);
    static const char *const files[] = {"one", "both", "none", "sub/both", "sub", ""};
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        remove(path);
    }
}

/* -------------------------------------------------------------------------------------- CPUs */

/* Compares the CPUs of each PE, such as "0 4|1 5". */
static void expect_cpus(int npes, int cpus, enum run_bind bind, const char *expected)
{
    struct run run = made_start(npes);
    char bound[400] = "";
    system_.cpus = cpus;
    run.options.bind = bind;
    assert_true(start(&run));
    for (const char *at = call_log; (at = strstr(at, "CPUs ")); at++) {
        const char *end = strchr(at, '\n');
        sprintf(bound + strlen(bound), "%s%.*s", *bound ? "|" : "", (int)(end - at - 5), at + 5);
    }
    assert_string_equal(bound, expected);
    *call_log = '\0';
}

static void cpus_are_shared_out(void **state)
{
    expect_cpus(1, 8, RUN_BIND_SHARE, "0 1 2 3 4 5 6 7");
    expect_cpus(2, 8, RUN_BIND_SHARE, "0 1 4 5|2 3 6 7");
    expect_cpus(3, 8, RUN_BIND_SHARE, "0 4|1 5|2 3 6 7"); /* whole cores */
    expect_cpus(3, 8, RUN_BIND_CORE, "0 4|1 5|2 6");
    expect_cpus(4, 8, RUN_BIND_CORE, "0 4|1 5|2 6|3 7");
    expect_cpus(5, 8, RUN_BIND_SHARE, "0|1 4|5|2 6|3 7"); /* hardware threads */
    expect_cpus(5, 8, RUN_BIND_CORE, "0|4|5|2 6|3 7");
    expect_cpus(8, 8, RUN_BIND_SHARE, "0|4|1|5|2|6|3|7");
    expect_cpus(6, 5, RUN_BIND_SHARE, "");
    expect_cpus(5, 5, RUN_BIND_SHARE, "0|4|1|2|3");
    expect_cpus(4, 5, RUN_BIND_SHARE, "0 4|1|2|3"); /* cores with one and with two threads */
    expect_cpus(3, 5, RUN_BIND_SHARE, "0 4|1|2 3");
    expect_cpus(3, 6, RUN_BIND_SHARE, "0 4|1 5|2 3");
    expect_cpus(2, 8, RUN_BIND_NONE, "");
    expect_cpus(2, 0, RUN_BIND_SHARE, ""); /* CPUs unknown */
    for (int how = 0; how < 2; how++) {    /* cores unknown */
        struct run run = made_start(2);
        run.options.bind = RUN_BIND_SHARE;
        system_.single = how == 0;
        system_.silent = how == 1;
        assert_true(start(&run));
        assert_non_null(strstr(call_log, "CPUs 0 1 2 3\n"));
        assert_non_null(strstr(call_log, "CPUs 4 5 6 7\n"));
        assert_int_equal(strstr(call_log,
                                "close 2000\nclose 2001\nclose 2002\nclose 2003\n"
                                "close 2004\nclose 2005\nclose 2006\nclose 2007\n") != NULL,
                         how == 1);
        assert_int_equal(blocks, 0);
        *call_log = '\0';
    }
}

/* --------------------------------------------------------------------------------- the guard */

static void the_guard_is_started_and_stopped(void **state)
{
    struct run run = made_start(3);
    run.hosts.count = 2;
    system_.fork_result = 77;
    assert_true(run_start_guard(&run));
    expect_log("map 20 bytes\npipe 1401 1402\nfork\nclose 1401\n");
    assert_ptr_equal(run.guard.groups, shared_groups);
    assert_int_equal(run.guard.pipe, 1402);
    assert_int_equal(run.guard.pid, 77);
    assert_string_equal(run.mark, "WEFT_BOOT_JOB=444.1234567.000000089.abababababababab");
    system_.reads_interrupted = 1;
    run_stop_guard(&run);
    expect_log("kill 77 9\nwaitpid 77 0\nwaitpid 77 0\nclose 1402\n");
    run_stop_guard(&run);
    expect_log("");
    run.guard.pid = 1;
    system_.reads_interrupted = 1;
    system_.reads_errno = ECHILD;
    run_stop_guard(&run);
    expect_log("kill 1 9\nwaitpid 1 0\nclose 1402\n");

    fail_at("mmap", 0, ENOMEM);
    assert_false(run_start_guard(&run));
    expect_log("map 20 bytes\nsay \"preparing the guard process: Cannot allocate memory\"\n");
    fail_at("pipe2", 0, EMFILE);
    assert_false(run_start_guard(&run));
    expect_log("map 20 bytes\nsay \"preparing the guard process: Too many open files\"\n");
    fail_at("getrandom", 0, EAGAIN);
    system_.fork_result = -1;
    assert_false(run_start_guard(&run));
    assert_non_null(strstr(call_log, "say \"starting the guard process: Resource temporarily "
                                     "unavailable\"\n"));
    assert_string_equal(run.mark, "WEFT_BOOT_JOB=444.1234567.000000089.0000000000000000");
    run_stop_guard(&run); /* no guard runs */
    assert_null(strstr(call_log, "kill"));
    *call_log = '\0';
}

static void the_guard_kills(void **state)
{
    static const char *const ways[] = {NULL, "dup2", NULL};
    for (volatile int way = 0; way < 3; way++) {
        struct run run = made_start(2);
        run.hosts.count = 1;
        fail_at(ways[way], 0, EBADF);
        answers.close_range_errno = way == 2 ? ENOSYS : 0;
        if (setjmp(child) == 0) {
            memset(shared_groups, 0, sizeof shared_groups);
            shared_groups[0] = 55;
            shared_groups[2] = 1;
            shared_groups[3] = 66; /* beyond the last PE */
            system_.reads_interrupted = 1;
            system_.reads_errno = way ? EINTR : EBADF;
            answers.all_made_up = true;
            run.guard.groups = shared_groups;
            run_start_guard(&run);
            fail_msg("the guard goes on");
        }
        char begins[200];
        snprintf(begins, sizeof begins,
                 "map 12 bytes\npipe 1401 1402\nfork\nclose 1402\nsetsid\nname "
                 "weft-guard\ndup2 1401 0\n%s",
                 way == 1 ? "" : "close 1 to ffffffff\n");
        assert_memory_equal(call_log, begins, strlen(begins));
        const char *end = strstr(call_log, "read 1 of 0\n");
        char ends[200];
        snprintf(ends, sizeof ends,
                 "%sread 1 of 0\nkill -55 9\nkill -1 9\nkill those of %s\n_exit 0\n",
                 way ? "read 1 of 0\n" : "", run.mark);
        assert_string_equal(end, ends);
        int closed = 0;
        for (const char *at = call_log + strlen(begins); at < end; at = strchr(at, '\n') + 1)
            closed++;
        assert_int_equal(closed, way ? 1023 : 0);
        *call_log = '\0';
    }
}

/* ----------------------------------------------------------------------------------- one PE */

static void a_pe_is_started(void **state)
{
    struct run run = made_start(2);
    run.all = 6;
    assert_true(start(&run));
    expect_log(
        "setrlimit files 4000 4000\n"
        "sigprocmask set USR1 1 USR2 1\nsockets 1401 1402\n1401 passes credentials: 1\nwire 1401\n"
        "watch 1401 in: socket 0\nclone\nprctl death signal 9\nsetpgid 0 0\nfcntl 1402 exec 0\n"
        "setrlimit files 1024 4000\nsignal 13 default\nsigprocmask set USR1 0 USR2 1\n"
        "exec /bin/program: program argument\nwatch 1403 in: exit 0\nclose 1402\n"
        "sigprocmask set USR1 0 USR2 0\n"
        "sigprocmask set USR1 1 USR2 1\nsockets 1404 1405\n1404 passes credentials: 1\nwire 1404\n"
        "watch 1404 in: socket 1\nopen /dev/null\nclone\nprctl death signal 9\nsetpgid 0 0\n"
        "dup2 1406 0\nfcntl 1405 exec 0\nsetrlimit files 1024 4000\nsignal 13 default\n"
        "sigprocmask set USR1 0 USR2 1\nexec /bin/program: program argument\n"
        "watch 1407 in: exit 1\nclose 1406\nclose 1405\nsigprocmask set USR1 0 USR2 0\n");
    assert_string_equal(started_with, "WEFT_BOOT_SOCKET=1405\nWEFT_PE=1\nWEFT_PES=6\n"
                                      "WEFT_BOOT_JOB=mine\nHOME=/root\nWEFT_LOG=info\n");
    assert_int_equal(run.started, 2);
    assert_int_equal(run.alive, 2);
    assert_int_equal(run.pes[1].pid, 2308);
    assert_int_equal(run.pes[1].group, 2308);
    assert_int_equal(run.pes[1].pidfd, 1407);
    assert_int_equal(made_groups[1], 444);
    assert_int_equal(made_wires[1].fd, 1404);
    assert_int_equal(blocks, 0);
}

static void a_pe_of_an_agent_is_started(void **state)
{
    struct run run = made_start(1);
    struct run_agent agent = {.index = 3, .host = "b"};
    run.agent = &agent;
    run.first = 4;
    run.all = 6;
    run.pipe_was_ignored = true;
    assert_true(start(&run));
    assert_string_equal(started_with,
                        "WEFT_BOOT_SOCKET=1402\nWEFT_PE=4\nWEFT_PES=6\nWEFT_BOOT_JOB=mine\n"
                        "WEFT_BOOT_NODE=3\nWEFT_BOOT_HOST=b\nHOME=/root\nWEFT_LOG=info\n");
    assert_non_null(strstr(call_log, "open /dev/null\n")); /* this is not PE 0 of the job */
    assert_null(strstr(call_log, "signal 13"));
    *call_log = '\0';
}

static void streams_are_redirected(void **state)
{
    struct run run = made_start(1);
    run.input.relay = true;
    run.options.prefix = true;
    assert_true(start(&run));
    assert_non_null(
        strstr(call_log, "pipe 1403 1404\nfcntl 1404 flags 1\npipe 1405 1406\nfcntl 1405 flags 1\n"
                         "watch 1405 in: source 0\npipe 1407 1408\nfcntl 1407 flags 1\n"
                         "watch 1407 in: source 1\nclone\nprctl death signal 9\nsetpgid 0 0\n"
                         "dup2 1403 0\ndup2 1406 1\ndup2 1408 2\n"));
    assert_non_null(strstr(call_log, "close 1403\nclose 1406\nclose 1408\nclose 1402\n"));
    assert_int_equal(run.input.pipe, 1404);
    assert_int_equal(run.pes[0].streams[0].fd, 1405);
    assert_int_equal(run.pes[0].streams[1].fd, 1407);
    *call_log = '\0';

    run = made_start(1);
    run.first = 2;
    run.options.prefix = true; /* files take precedence over the prefix */
    run.options.output_dir = "out";
    assert_true(start(&run));
    assert_non_null(strstr(call_log, "open /dev/null\nopen out/pe.2.out, write, create, empty\n"
                                     "open out/pe.2.err, write, create, empty\nclone\n"));
    assert_non_null(strstr(call_log, "dup2 1403 0\ndup2 1404 1\ndup2 1405 2\n"));
    assert_null(strstr(call_log, "pipe"));
    *call_log = '\0';
    run = made_start(2);
    run.options.prefix = true;
    assert_true(start(&run));
    assert_non_null(strstr(call_log, "watch 1411 in: source 2\n"));
    *call_log = '\0';
}

struct failure {
    const char *call;
    int in, error;
    const char *said;
    enum { PLAIN, PREFIX, OUTPUT, BOUND } as;
};

static void what_fails_is_said(void **state)
{
    static const struct failure rows[] = {
        {"socketpair", 0, EMFILE,
         "a socket for PE 5: Too many open files; raise the limit of open files (ulimit -n)",
         PLAIN},
        {"open", 0, EMFILE,
         "standard input of PE 5: Too many open files; raise the limit of open files (ulimit -n)",
         PLAIN},
        {"open", 0, EACCES, "standard input of PE 5: Permission denied", PLAIN},
        {"open", 1, ENOSPC, "out/pe.5.out: No space left on device", OUTPUT},
        {"open", 2, ENOSPC, "out/pe.5.err: No space left on device", OUTPUT},
        {"pipe2", 0, EMFILE,
         "a pipe for the output of PE 5: Too many open files; raise the limit of open files "
         "(ulimit -n)",
         PREFIX},
        {"pipe2", 1, ENFILE,
         "a pipe for the output of PE 5: Too many open files in system; raise the limit of open "
         "files "
         "(ulimit -n)",
         PREFIX},
        {"clone", 0, EMFILE,
         "starting PE 5: Too many open files; raise the limit of open files (ulimit -n)", PLAIN},
        {"clone", 0, EAGAIN, "starting PE 5: Resource temporarily unavailable", PLAIN},
        {"prctl", 0, EINVAL, "starting PE 5: prctl(PR_SET_PDEATHSIG): Invalid argument", PLAIN},
        {"dup2", 0, EBADF, "starting PE 5: redirecting its standard streams: Bad file descriptor",
         PLAIN},
        {"fcntl", 0, EBADF, "starting PE 5: passing it the launcher's socket: Bad file descriptor",
         PLAIN},
        {"sched_setaffinity", 0, EPERM,
         "starting PE 5: binding it to its CPUs (--bind=none skips this): Operation not "
         "permitted",
         BOUND},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct failure *row = &rows[i];
        char expected[300];
        struct run run = made_start(2);
        run.first = 5;
        run.options.prefix = row->as == PREFIX;
        run.options.output_dir = row->as == OUTPUT ? "out" : NULL;
        run.options.bind = row->as == BOUND ? RUN_BIND_CORE : RUN_BIND_NONE;
        fail_at(row->call, row->in, row->error);
        made_groups[0] = 9;
        assert_false(start(&run));
        snprintf(expected, sizeof expected, "say \"%s\"\n", row->said);
        if (!strstr(call_log, expected))
            fail_msg("row %zu: %s", i, call_log);
        snprintf(expected, sizeof expected,
                 "%ssigprocmask set USR1 0 USR2 0\n"
                 "close the socket of PE 0\n",
                 strcmp(row->call, "socketpair") == 0 ? "" : "close 1402\n");
        assert_non_null(strstr(call_log, expected));
        assert_int_equal(run.started, 0);
        assert_int_equal(run.alive, 0);
        assert_int_equal(run.ending.result, -1);
        assert_int_equal(blocks, 0);
        if (strstr(row->said, "starting PE 5: re") || row->as == BOUND) { /* the child failed */
            assert_int_equal(made_groups[0], 0);
            assert_int_equal(run.pes[0].pidfd, -1);
            assert_non_null(strstr(call_log, "_exit 127\nwaitpid "));
        }
        *call_log = '\0';
    }
}

static void what_else_fails(void **state)
{
    static const int errors[] = {ENOENT, EACCES};
    struct run run;
    for (int i = 0; i < 2; i++) { /* the program cannot be executed */
        run = made_start(1);
        fail_at("execve", 0, errors[i]);
        assert_false(start(&run));
        assert_int_equal(run.ending.result, i ? 126 : 127);
        assert_non_null(strstr(call_log, i ? "waitpid 2304 0\nclose 1403\nsay \"starting PE 0: "
                                             "/bin/program: Permission denied\"\n"
                                           : "waitpid 2304 0\nclose 1403\nsay \"starting PE 0: "
                                             "/bin/program: No such file or directory\"\n"));
    }
    for (int i = 0; i < 2; i++) { /* the relayed input */
        run = made_start(1);
        run.input.relay = true;
        fail_at("pipe2", 0, i ? EMFILE : ENFILE);
        assert_false(start(&run));
        assert_non_null(
            strstr(call_log, i ? "say \"standard input of PE 0: Too many open files; raise "
                                 "the limit of open files (ulimit -n)\"\n"
                               : "say \"standard input of PE 0: Too many open files in "
                                 "system\"\n"));
        assert_int_equal(run.input.pipe, -1);
    }
    for (int i = 0; i < 2; i++) { /* watching its socket, or its process, fails */
        run = made_start(1);
        run.first = 5;
        answers.watch_fails_in = i;
        answers.watch_errno = i ? ENOSPC : ENOMEM;
        assert_false(start(&run));
        assert_non_null(
            strstr(call_log, i ? "say \"watching a descriptor of PE 5: epoll_ctl: No space left on "
                                 "device; raise /proc/sys/fs/epoll/max_user_watches\"\n"
                               : "say \"watching a descriptor of PE 5: epoll_ctl: Cannot allocate "
                                 "memory\"\n"));
        assert_int_equal(strstr(call_log, "kill -2305 9\nwaitpid 2305 0\n") != NULL, i == 1);
    }
    run = made_start(1); /* the launcher has already died */
    system_.parent = 1;
    start(&run);
    assert_non_null(strstr(call_log, "prctl death signal 9\n_exit 127\n"));
    run = made_start(1);
    memory_fails_in = 0;
    assert_false(start(&run));
    expect_log("say \"no memory\"\n");
    memory_fails_in = 1; /* no memory for the CPUs: the PE is not bound */
    run.options.bind = RUN_BIND_SHARE;
    assert_true(start(&run));
    assert_null(strstr(call_log, "CPUs"));
    *call_log = '\0';
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_found),
        cmocka_unit_test(the_guard_is_started_and_stopped),
        cmocka_unit_test(the_guard_kills),
        cmocka_unit_test(cpus_are_shared_out),
        cmocka_unit_test(a_pe_is_started),
        cmocka_unit_test(a_pe_of_an_agent_is_started),
        cmocka_unit_test(streams_are_redirected),
        cmocka_unit_test(what_fails_is_said),
        cmocka_unit_test(what_else_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of `weft run --hosts` (cli/run/hosts.c): the sequence of calls, with mock
 * remote shells, sockets and agents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/reach.h"
#include "run_wires.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MS UINT64_C(1000000)

/* ------------------------------------------------------------------------- mock system calls */

static struct {
    int ready[4];    /* descriptors that poll() reports ready; 0 ends the list */
    int polls_left;  /* this many more calls of poll() report nothing */
    int ended[4];    /* pids that waitpid() reports as ended; 0 ends the list */
    int status;      /* their wait status */
    int interrupted; /* this many calls of waitpid() fail with EINTR */
    int pipe;        /* next descriptor of a pipe */
    int pipe_errno, pipe_fails_in;
    int fork_result, dup_fails_in;
    ssize_t written; /* result of write(); -2: all */
    int pipe_size;   /* result of F_SETPIPE_SZ */
    bool no_crypto, no_words, no_setup;
    ssize_t random; /* result of getrandom(); -2: all */
    int listening;  /* descriptor, or -1 */
    weft_status accept;
    int came; /* member that has connected although accept times out */
    size_t setup_bytes;
} system_;

static jmp_buf child;

pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    log_call("fork");
    errno = EAGAIN;
    return system_.fork_result > 0 ? system_.fork_result++ : system_.fork_result;
}

_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status)
{
    log_call("_exit %d", status);
    longjmp(child, 1);
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
    log_call("prctl %s %lu", option == PR_SET_PDEATHSIG ? "death signal" : "?",
             va_arg(arguments, unsigned long) & 0xffffffff);
    va_end(arguments);
    return 0;
}

int __wrap_dup2(int from, int to);
int __wrap_dup2(int from, int to)
{
    bool fails = fails_now(&system_.dup_fails_in);
    log_call("dup2 %d %d%s", from, to, fails ? ", fails" : "");
    return fails ? -1 : to;
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    log_call("sigprocmask %s USR1 %d USR2 %d", how == SIG_SETMASK ? "set" : "?",
             sigismember(set, SIGUSR1), sigismember(set, SIGUSR2));
    assert_null(old);
    return 0;
}

void run_raise_descriptor_limit(struct rlimit *given)
{
    *given = (struct rlimit){256, 1000};
    log_call("raise");
}

int __wrap_setrlimit(int what, const struct rlimit *limit);
int __wrap_setrlimit(int what, const struct rlimit *limit)
{
    log_call("setrlimit %s %d %d", what == RLIMIT_NOFILE ? "files" : "?", (int)limit->rlim_cur,
             (int)limit->rlim_max);
    return 0;
}

void (*__wrap_signal(int number, void (*handler)(int)))(int);
void (*__wrap_signal(int number, void (*handler)(int)))(int)
{
    log_call("signal %d %s", number, handler == SIG_DFL ? "default" : "?");
    return SIG_DFL;
}

int __wrap_execvp(const char *file, char *const *words);
int __wrap_execvp(const char *file, char *const *words)
{
    log_call("exec %s: %s %s %s", file, words[0], words[1], words[2] ? words[2] : "-");
    errno = ENOENT;
    return -1;
}

int __wrap_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags)
{
    assert_int_equal(flags, O_CLOEXEC);
    errno = system_.pipe_errno;
    if (fails_now(&system_.pipe_fails_in))
        return -1;
    ends[0] = system_.pipe++;
    ends[1] = system_.pipe++;
    return 0;
}

int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    int value = va_arg(arguments, int);
    va_end(arguments);
    if (command == F_SETPIPE_SZ) {
        log_call("pipe %d of %d bytes", fd, value);
        errno = EPERM;
        return system_.pipe_size;
    }
    log_call("fcntl %d %s", fd, command == F_SETFL && value == O_NONBLOCK ? "nonblock" : "?");
    return 0;
}

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    if (fd < OURS_FROM)
        return __real_write(fd, data, bytes);
    log_call("write %.12s (%zu) to %d", (const char *)data, bytes, fd);
    errno = EPIPE;
    return system_.written == -2 ? (ssize_t)bytes : system_.written;
}

static int early[3]; /* frames of a child that starts the hosts below it */
static struct wire *early_wires;

int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms);
int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms)
{
    static int next; /* frame of the only child that is not ready */
    if (limit_ms == 100) {
        assert_int_equal(n, 1);
        next = next < 2 && early[next] ? next : 0;
        if (early[next])
            put_frame(&early_wires[1], (uint32_t)early[next++], 0, "why it was", 10, -1);
        if (!early[next])
            memset(early, next = 0, sizeof early);
        return 1;
    }
    assert_int_equal(n, 1);
    assert_int_equal(limit_ms, 0);
    assert_int_equal(watched->events, POLLIN);
    log_call("poll %d", watched->fd);
    if (system_.polls_left > 0) {
        system_.polls_left--;
        return 0;
    }
    for (int i = 0; i < 4 && system_.ready[i]; i++)
        if (system_.ready[i] == watched->fd)
            return 1;
    return 0;
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    log_call("usleep %d", (int)us);
    return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    log_call("waitpid %d%s", (int)pid, options == WNOHANG ? "" : ", waits");
    errno = EINTR;
    if (system_.interrupted-- > 0)
        return -1;
    for (int i = 0; i < 4 && system_.ended[i]; i++) {
        if (system_.ended[i] != pid)
            continue;
        if (status)
            *status = system_.status;
        return pid;
    }
    errno = ECHILD;
    return options == WNOHANG ? 0 : -1;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    log_call("kill %d %d", (int)pid, number);
    return 0;
}

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
    assert_int_equal(flags, 0);
    log_call("random %zu", bytes);
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)(9 * i + bytes);
    errno = EIO;
    return system_.random == -2 ? (ssize_t)bytes : system_.random;
}

void __wrap_explicit_bzero(void *block, size_t bytes);
void __wrap_explicit_bzero(void *block, size_t bytes)
{
    log_call("forget %zu bytes", bytes);
    memset(block, 0, bytes);
}

/* -------------------------------------------------------------------------- other modules */

weft_status __wrap_crypto_load(const struct crypto_driver **crypto);
weft_status __wrap_crypto_load(const struct crypto_driver **crypto)
{
    *crypto = NULL;
    return system_.no_crypto ? base_fail(WEFT_ERR_UNSUPPORTED, "no library for HMAC") : WEFT_OK;
}

int __wrap_listen_everywhere(int *port);
int __wrap_listen_everywhere(int *port)
{
    log_call("listen at %d", *port);
    *port = 4321;
    errno = EADDRINUSE;
    return system_.listening;
}

int __wrap_listen_addresses(struct rendezvous_address *addresses, int most, int port);
int __wrap_listen_addresses(struct rendezvous_address *addresses, int most, int port)
{
    log_call("%d addresses at port %d", most, port);
    return 3;
}

/* Allocated for the last host. */
static struct {
    char **words, *text, *setup;
} reached;

char *run_setup_write(const struct run *run, int index, const char *secret, const char *job,
                      const struct rendezvous_address *addresses, int count, size_t *bytes)
{
    log_call("setup %d: %s %s, %d addresses", index, secret, job, count);
    *bytes = system_.setup_bytes ? system_.setup_bytes : 5;
    if (system_.no_setup)
        return NULL;
    char *text = __real_calloc(1, *bytes + 1);
    assert_non_null(text);
    blocks++;
    reached.setup = text;
    return strcpy(text, "setup");
}

weft_status run_reach_command(const char *host, const char *rsh, const char *weft,
                              const char *const *arguments, char ***words, char **text)
{
    log_call("reach %s by %s, %s %s %s %s", host, rsh, weft, arguments[0], arguments[1],
             arguments[2] ? arguments[2] : "-");
    *words = NULL;
    *text = NULL;
    if (system_.no_words)
        return base_fail(WEFT_ERR_ARGUMENT, "no words for it");
    *words = reached.words = __real_calloc(3, sizeof **words);
    assert_non_null(*words);
    blocks++;
    *text = reached.text = copy_text("rsh");
    (*words)[0] = *text;
    (*words)[1] = (char *)host;
    return WEFT_OK;
}

static struct rendezvous asked;
static char asked_names[100];

weft_status __wrap_rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                                     struct wire *wires);
weft_status __wrap_rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                                     struct wire *wires)
{
    log_call("accept %d at %d: %s %s, %zu bytes of %s, job %s%s", rendezvous->n, listening,
             rendezvous->what, (const char *)rendezvous->key, rendezvous->key_bytes,
             rendezvous->secret, rendezvous->job,
             rendezvous->many_addresses && rendezvous->limit_from_last
                 ? ", many addresses, limit from last"
                 : "");
    asked = *rendezvous;
    early_wires = wires;
    *asked_names = '\0';
    assert_null(rendezvous->names[0]);
    for (int i = 0; i < rendezvous->n; i++) {
        bool late = system_.accept == WEFT_ERR_TIMEOUT && i != system_.came;
        wires[i].fd = late || i == 0 ? -1 : 1500 + i;
        if (i)
            sprintf(asked_names + strlen(asked_names), "%s ", rendezvous->names[i]);
    }
    return system_.accept ? base_fail(system_.accept, "not all have come") : WEFT_OK;
}

void __wrap_handshake_describe_peer(int fd, char *text, size_t size);
void __wrap_handshake_describe_peer(int fd, char *text, size_t size)
{
    snprintf(text, size, fd == 1502 ? "nowhere" : "10.0.0.%d:99", fd - 1500);
}

void __wrap_hub_handle(struct hub *hub, int member, struct wire_frame *frame);
void __wrap_hub_handle(struct hub *hub, int member, struct wire_frame *frame)
{
    log_call("hub takes from PE %d: %d %d of %d, %d,%s", member, (int)frame->type, frame->number,
             (int)frame->sender, frame->fd, payload_text(frame->payload, frame->bytes));
    wire_frame_free(frame);
}

/* ------------------------------------------------------------------------------ mock hosts */

static struct run_host made_hosts[4]; /* one more than the job has */
static struct wire made_wires[5];

/* Hosts a, b and c with 2, 1 and 3 PEs. Their shells have the pids 801, ... and descriptors 1701,
 * ...; the wires to their agents are 1501, ... and their standard inputs 1801, ... A fourth host
 * belongs to no job. */
static struct run made_job(void)
{
    static const char *const labels[] = {"a", "b", "c", "d"};
    struct run run = made_run(6);
    memset(&system_, 0, sizeof system_);
    memset(&wire_answers, 0, sizeof wire_answers);
    system_.pipe = 1401;
    system_.pipe_fails_in = system_.dup_fails_in = -1;
    system_.written = system_.random = -2;
    system_.fork_result = 801;
    system_.listening = 1600;
    memset(made_wires, 0, sizeof made_wires);
    memset(made_hosts, 0, sizeof made_hosts);
    blocks = 0;
    for (int i = 0, first = 0; i < 4; i++) {
        made_hosts[i] = (struct run_host){.number = i,
                                          .via = i,
                                          .member = 1 + i,
                                          .npes = i == 0   ? 2
                                                  : i == 2 ? 3
                                                           : 1,
                                          .name = copy_text(labels[i]),
                                          .label = labels[i],
                                          .rsh = copy_text("ssh it"),
                                          .first = first,
                                          .count = i == 0   ? 2
                                                   : i == 2 ? 3
                                                            : 1,
                                          .pid = 801 + i,
                                          .pidfd = 1701 + i,
                                          .stdin_end = 1801 + i};
        first += made_hosts[i].count;
        made_wires[1 + i].fd = 1501 + i;
    }
    made_wires[0].fd = -1;
    run.hosts.list = made_hosts;
    run.hosts.count = run.hosts.children = 3;
    run.hosts.levels = 1;
    run.hosts.wires = made_wires;
    run.signals = 1900;
    run.options.rsh = "ssh";
    run.options.weft = "weft";
    static pid_t groups[10];
    memset(groups, 0, sizeof groups);
    run.guard.groups = groups;
    return run;
}

/* Frees the job and checks that no other block is allocated. */
static void forget(struct run *run)
{
    for (int i = 0; i < 4; i++) {
        free(made_hosts[i].name);
        free(made_hosts[i].rsh);
    }
    if (run->hosts.wires != made_wires)
        free(run->hosts.wires);
    assert_int_equal(blocks, 0);
    *call_log = '\0';
}

/* ------------------------------------------------------------------------------ PEs and hosts */

static void hosts_of_pes(void **state)
{
    struct run run = made_job();
    static const char *const where[] = {"a", "a", "b", "c", "c", "c"};
    for (int pe = 0; pe < 6; pe++)
        assert_string_equal(run_host_of(&run, pe), where[pe]);
    assert_null(run_host_of(&run, 6));
    struct run_agent agent = {.host = "here"};
    run.agent = &agent;
    assert_string_equal(run_host_of(&run, 6), "here");
    run.hosts.count = 0;
    assert_string_equal(run_host_of(&run, 0), "here");
    forget(&run);
}

/* -------------------------------------------------------------------------------- connecting */

static const char secret_text[] = "18212a333c454e576069727b848d969fa8b1bac3ccd5dee7";

static struct run unconnected(int hosts)
{
    struct run run = made_job();
    for (int i = 0; i < 3; i++) {
        free(made_hosts[i].rsh);
        made_hosts[i].rsh = NULL;
        made_hosts[i].pid = 0;
        made_hosts[i].pidfd = made_hosts[i].stdin_end = -1;
    }
    run.hosts.count = run.hosts.children = hosts;
    run.hosts.wires = NULL;
    run.options.npes = 6;
    return run;
}

static void all_hosts_are_reached(void **state)
{
    struct run run = unconnected(2);
    assert_true(run_hosts_connect(&run));
    char expected[2000];
    snprintf(
        expected, sizeof expected,
        "random 24\nrandom 8\nraise\nlisten at 0\n32 addresses at port 4321\n"
        "setup 0: %s 08111a232c353e47, 3 addresses\nreach a by ssh, weft run --agent -\n"
        "fcntl 1402 nonblock\nwrite setup (5) to 1402\nfork\nclose 1401\nsetpgid 801 801\n"
        "pidfd of 801\nforget 5 bytes\n"
        "setup 1: %s 08111a232c353e47, 3 addresses\nreach b by ssh, weft run --agent -\n"
        "fcntl 1404 nonblock\nwrite setup (5) to 1404\nfork\nclose 1403\nsetpgid 802 802\n"
        "pidfd of 802\nforget 5 bytes\n"
        "accept 3 at 1600: weft run --hosts %s, 48 bytes of secret, job 08111a232c353e47, many "
        "addresses, limit from last\n"
        "forget 49 bytes\nclose 1600\nclose 1404\n"
        "watch 1501 in: host 0\nwatch 1201 in: host exit 0\n"
        "watch 1502 in: host 1\nwatch 1202 in: host exit 1\n",
        secret_text, secret_text, secret_text);
    expect_log(expected);
    assert_string_equal(asked_names, "a b ");
    assert_int_equal(made_hosts[0].stdin_end, 1402);
    assert_int_equal(made_hosts[1].stdin_end, -1);
    assert_string_equal(made_hosts[0].address, "10.0.0.1");
    assert_string_equal(made_hosts[1].address, "nowhere");
    assert_string_equal(made_hosts[1].rsh, "rsh b");
    assert_int_equal(made_hosts[1].pid, 802);
    assert_int_equal(made_hosts[1].pidfd, 1202);
    assert_int_equal(run.guard.groups[6], 801);
    assert_int_equal(run.guard.groups[7], 802);
    assert_int_equal(run.guard.groups[5], 0);
    forget(&run);
}

static void output_comes_by_pipes(void **state)
{
    struct run run = unconnected(2);
    run.options.prefix = true;
    run.options.npes = 3;
    assert_true(run_hosts_connect(&run));
    assert_non_null(strstr(call_log,
                           "fcntl 1403 nonblock\nwatch 1403 in: source 6\nfcntl 1405 nonblock\n"
                           "watch 1405 in: source 7\nfcntl 1402 nonblock\nwrite setup (5) to 1402\n"
                           "fork\nclose 1401\nclose 1404\nclose 1406\nsetpgid 801 801\n"));
    assert_int_equal(run.pes[3].streams[0].fd, 1403);
    assert_int_equal(run.pes[3].streams[1].fd, 1405);
    assert_int_equal(run.pes[4].streams[0].fd, 1409);
    assert_int_equal(run.pes[4].streams[1].fd, 1411);
    assert_non_null(strstr(call_log, "watch 1411 in: source 9\n"));
    forget(&run);
}

static void set_port(const char *port)
{
    int before = blocks; /* the configuration's own blocks */
    setenv("WEFT_BOOT_PORT", port, 1);
    config_reset();
    config_int(CONFIG_BOOT_PORT);
    blocks = before;
}

/* Checks that run_hosts_connect() fails and that its last message is `said`. */
static void connect_fails(struct run *run, const char *said)
{
    char expected[400];
    assert_false(run_hosts_connect(run));
    snprintf(expected, sizeof expected, "say \"%s\"\n", said);
    if (!strstr(call_log, expected))
        fail_msg("%s\nbut not: %s", call_log, said);
}

static void what_can_fail_before_the_fork(void **state)
{
    struct run run = unconnected(1);
    system_.no_crypto = true;
    connect_fails(&run, "no library for HMAC");
    assert_null(strstr(call_log, "random"));
    forget(&run);

    run = unconnected(1);
    system_.random = 23;
    connect_fails(&run, "getrandom: Input/output error");
    assert_null(strstr(call_log, "listen"));
    forget(&run);

    for (int port = 0; port < 2; port++) {
        run = unconnected(1);
        system_.listening = -1;
        set_port(port ? "4000" : "0");
        connect_fails(&run,
                      port ? "listening for the agents of other hosts (WEFT_BOOT_PORT): Address "
                             "already in use"
                           : "listening for the agents of other hosts: Address already in use");
        assert_non_null(strstr(call_log, port ? "listen at 4000\n" : "listen at 0\n"));
        assert_null(strstr(call_log, "setup"));
        assert_null(strstr(call_log, "close"));
        forget(&run);
    }
    set_port("0");

    run = unconnected(1);
    system_.no_setup = true;
    connect_fails(&run, "no memory for host a");
    assert_null(strstr(call_log, "reach"));
    assert_non_null(strstr(call_log, "close 1600\n"));
    forget(&run);

    run = unconnected(2);
    system_.no_words = true;
    connect_fails(&run, "no words for it");
    assert_null(strstr(call_log, "fork"));
    assert_null(strstr(call_log, "setup 1"));
    forget(&run);

    for (int error = 0; error < 2; error++) {
        run = unconnected(1);
        strcpy(made_hosts[0].address, "10.0.0.9");
        system_.pipe_fails_in = 0;
        system_.pipe_errno = error ? EMFILE : ENFILE;
        connect_fails(&run,
                      error ? "a pipe to host a (10.0.0.9): Too many open files; raise the limit "
                              "of open files (ulimit -n)"
                            : "a pipe to host a (10.0.0.9): Too many open files in system");
        assert_null(strstr(call_log, "fork"));
        forget(&run);
    }
    for (int pipe = 1; pipe < 3; pipe++) { /* the pipes of its output */
        run = unconnected(1);
        run.options.prefix = true;
        system_.pipe_fails_in = pipe;
        system_.pipe_errno = ENFILE;
        connect_fails(&run, "a pipe to host a: Too many open files in system");
        assert_null(strstr(call_log, "fork"));
        forget(&run);
    }
    for (int block = 0; block < 2; block++) {
        run = unconnected(2);
        memory_fails_in = block ? 3 : 0; /* two for the commands */
        connect_fails(&run, "no memory for 2 hosts");
        assert_null(strstr(call_log, "accept"));
        forget(&run);
    }
    run = unconnected(2);
    memory_fails_in = 1;
    connect_fails(&run, "no memory for the command that reaches host a");
    assert_null(strstr(call_log, "fork"));
    forget(&run);
    for (int watch = 0; watch < 2; watch++) {
        run = unconnected(1);
        run.options.prefix = true;
        answers.watch_fails_in = watch;
        assert_false(run_hosts_connect(&run));
        assert_null(strstr(call_log, "fork"));
        forget(&run);
    }
}

static void a_long_command_is_cut_in_sentences(void **state)
{
    char name[700];
    struct run run = unconnected(1);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    free(made_hosts[0].name);
    made_hosts[0].name = copy_text(name);
    assert_true(run_hosts_connect(&run));
    assert_int_equal(strlen(made_hosts[0].rsh), 511);
    forget(&run);
}

static void what_a_pipe_takes(void **state)
{
    struct run run = unconnected(1);
    system_.setup_bytes = 65536;
    system_.pipe_size = -1;
    assert_true(run_hosts_connect(&run));
    assert_null(strstr(call_log, "pipe "));
    forget(&run);

    run = unconnected(1);
    system_.setup_bytes = 65537;
    assert_true(run_hosts_connect(&run)); /* write() returns 0 bytes: accepted */
    assert_non_null(strstr(call_log, "pipe 1402 of 65537 bytes\n"));
    forget(&run);

    run = unconnected(1);
    system_.setup_bytes = 65537;
    system_.pipe_size = -1;
    connect_fails(&run,
                  "arguments and variables of 65537 bytes are too many for host a: Operation not "
                  "permitted");
    assert_null(strstr(call_log, "write"));
    assert_null(strstr(call_log, "fork"));
    forget(&run);

    run = unconnected(1);
    system_.written = 4;
    connect_fails(&run, "sending the setup of host a: Broken pipe");
    assert_null(strstr(call_log, "fork"));
    forget(&run);
}

static void the_fork_fails(void **state)
{
    struct run run = unconnected(1);
    system_.fork_result = -1;
    connect_fails(&run, "starting the remote shell for host a: Resource temporarily unavailable");
    assert_non_null(strstr(call_log, "close 1401\nforget 5 bytes\nforget 49 bytes\nclose 1600\n"));
    assert_null(strstr(call_log, "setpgid"));
    assert_int_equal(made_hosts[0].pid, 0);
    forget(&run);

    run = unconnected(1);
    answers.pidfd = -1;
    answers.pidfd_errno = ENOSYS;
    connect_fails(&run,
                  "watching the remote shell for host a: pidfd_open: Function not implemented");
    assert_null(strstr(call_log, "accept"));
    forget(&run);
}

static void become(struct run *run, const char *expected)
{
    FILE *usual = stderr;
    char *said = NULL;
    size_t bytes;
    stderr = open_memstream(&said, &bytes);
    assert_non_null(stderr);
    system_.fork_result = 0;
    if (setjmp(child) == 0) {
        run_hosts_connect(run);
        stderr = usual;
        fail_msg("the child goes on");
    }
    fclose(stderr);
    stderr = usual;
    free(reached.words); /* allocated in the child process */
    free(reached.text);
    free(reached.setup);
    const char *forked = strstr(call_log, "fork\n");
    assert_non_null(forked);
    assert_string_equal(forked, expected);
    assert_string_equal(
        said, strstr(expected, "exec") ? "weft run: rsh: No such file or directory\n" : "");
    __real_free(said);
}

static void the_child_becomes_the_shell(void **state)
{
    struct run run = unconnected(1);
    sigemptyset(&run.old_mask);
    sigaddset(&run.old_mask, SIGUSR2);
    become(&run, "fork\nsetpgid 0 0\nprctl death signal 9\ndup2 1401 0\n"
                 "setrlimit files 256 1000\nsigprocmask set USR1 0 USR2 1\nsignal 13 default\n"
                 "exec rsh: rsh a -\n_exit 127\n");
    assert_int_equal(run.guard.groups[6], getpid());
    forget(&run);
    run = unconnected(1);
    run.options.prefix = run.pipe_was_ignored = true;
    become(
        &run,
        "fork\nsetpgid 0 0\nprctl death signal 9\ndup2 1401 0\ndup2 1404 1\ndup2 1406 2\n"
        "setrlimit files 256 1000\nsigprocmask set USR1 0 USR2 0\nexec rsh: rsh a -\n_exit 127\n");
    forget(&run);
    run = unconnected(1);
    system_.dup_fails_in = 0;
    become(&run, "fork\nsetpgid 0 0\nprctl death signal 9\ndup2 1401 0, fails\n_exit 127\n");
    forget(&run);
}

static void not_all_agents_come(void **state)
{
    struct run run = unconnected(1);
    run.options.prefix = true;
    system_.accept = WEFT_ERR_BOOT;
    connect_fails(&run, "not all have come");
    assert_non_null(strstr(call_log, "read stream 0 of PE 6\nread stream 1 of PE 6\n"
                                     "say \"not all have come\"\nforget 49 bytes\nclose 1600\n"));
    assert_null(strstr(call_log, "poll"));
    forget(&run);

    run = unconnected(2); /* agents that report an error */
    system_.accept = WEFT_ERR_TIMEOUT;
    system_.polls_left = 3;
    system_.ready[0] = 1201;
    system_.ready[1] = 1202;
    connect_fails(&run, "not all have come");
    assert_non_null(
        strstr(call_log, "poll 1201\npoll 1202\nusleep 50000\npoll 1201\npoll 1202\nusleep 50000\n"
                         "poll 1201\npoll 1202\nsay"));
    assert_null(strstr(call_log, "read stream"));
    forget(&run);

    run = unconnected(2); /* one agent has connected, the other's shell has exited */
    system_.accept = WEFT_ERR_TIMEOUT;
    system_.came = 1;
    system_.ready[0] = 1202;
    system_.polls_left = 1;
    connect_fails(&run, "not all have come");
    assert_non_null(strstr(call_log, "poll 1202\nusleep 50000\npoll 1202\nsay"));
    assert_null(strstr(call_log, "poll 1201"));
    forget(&run);

    run = unconnected(1); /* the wait is limited */
    system_.accept = WEFT_ERR_TIMEOUT;
    connect_fails(&run, "not all have come");
    int sleeps = 0;
    for (const char *at = call_log; (at = strstr(at, "usleep")); at++)
        sleeps++;
    assert_int_equal(sleeps, 30);
    forget(&run);

    run = unconnected(1); /* a shell that cannot be watched */
    answers.watch_fails_in = 0;
    assert_false(run_hosts_connect(&run));
    forget(&run);
    run = unconnected(1);
    answers.watch_fails_in = 1;
    assert_false(run_hosts_connect(&run));
    forget(&run);
}

static void a_shell_ends_too_soon(void **state)
{
    struct run run = unconnected(2);
    assert_true(run_hosts_connect(&run));
    *call_log = '\0';
    assert_int_equal(asked.still_wanted(asked.argument), WEFT_OK);
    expect_log("waitpid 801\nwaitpid 802\npoll 1900\n");
    run.options.prefix = true;
    assert_int_equal(asked.still_wanted(asked.argument), WEFT_OK);
    expect_log("waitpid 801\nwaitpid 802\nread stream 0 of PE 6\nread stream 1 of PE 6\n"
               "read stream 0 of PE 7\nread stream 1 of PE 7\npoll 1900\n");
    run.options.prefix = false;
    system_.ready[0] = 1900;
    assert_int_equal(asked.still_wanted(asked.argument), WEFT_ERR_JOB);
    assert_string_equal(base_last_error(), "received a request to end before every host had "
                                           "answered");
    system_.ended[0] = 802;
    system_.status = 3 << 8;
    *call_log = '\0';
    assert_int_equal(asked.still_wanted(asked.argument), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(),
                        "host b (nowhere): `rsh b` ended with status 3 before weft started "
                        "there; see its output above");
    expect_log("waitpid 801\nwaitpid 802\nread 1502\n");
    assert_int_equal(made_hosts[1].pid, 0);
    system_.ready[0] = 0;
    assert_int_equal(asked.still_wanted(asked.argument), WEFT_OK);
    expect_log("waitpid 801\npoll 1900\n");
    system_.ended[0] = 801;
    system_.status = SIGKILL;
    assert_int_equal(asked.still_wanted(asked.argument), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(),
                        "host a (10.0.0.1): `rsh a` was killed by signal 9 (Killed) "
                        "before weft started there; see its output above");
    made_hosts[0].pid = 801; /* its agent has said why */
    put_frame(&run.hosts.wires[1], HOST_READY, 0, NULL, 0, -1);
    put_frame(&run.hosts.wires[1], HOST_UNREACHED, 0, "host d: no route", 16, -1);
    wire_answers.read = WEFT_ERR_PEER_DEAD;
    assert_int_equal(asked.still_wanted(asked.argument), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(), "host d: no route");
    assert_true(made_hosts[0].ready && made_hosts[0].unreached);
    forget(&run);
}

/* ---------------------------------------------------------------------------------- to agents */

static void agents_are_told_to_start(void **state)
{
    struct run run = made_job();
    run.started = run.alive = 0;
    assert_true(run_hosts_start(&run));
    expect_log("post to 1501: GO 0,\nrewatch 1501 in: host 0\n"
               "post to 1502: GO 0,\nrewatch 1502 in: host 1\n"
               "post to 1503: GO 0,\nrewatch 1503 in: host 2\n");
    assert_int_equal(run.started, 6);
    assert_int_equal(run.alive, 6);
    assert_int_equal(run.input.pipe, 1801);
    assert_int_equal(made_hosts[0].stdin_end, -1);
    assert_int_equal(made_hosts[1].stdin_end, 1802);
    forget(&run);
}

static void signals_go_to_the_host_of_the_pe(void **state)
{
    struct run run = made_job();
    static const int hosts[] = {0, 0, 1, 2, 2, 2};
    for (int pe = 0; pe < 6; pe++) {
        char expected[100];
        run_hosts_signal(&run, pe, SIGTERM);
        snprintf(expected, sizeof expected, "post to %d: SIGNAL 15, %d\nrewatch %d in: host %d\n",
                 1501 + hosts[pe], pe, 1501 + hosts[pe], hosts[pe]);
        expect_log(expected);
    }
    run.pes[4].exited = true;
    run_hosts_signal(&run, 4, SIGTERM);
    expect_log("");
    made_wires[2].fd = -1;
    run_hosts_signal(&run, 2, SIGTERM);
    expect_log("");
    struct wire_unsent unsent = {.fd = -1};
    made_wires[1].unsent = &unsent;
    run_hosts_signal(&run, 1, SIGTERM);
    expect_log("post to 1501: SIGNAL 15, 1\nrewatch 1501 in out: host 0\n");
    assert_false(run.retry_soon);
    made_wires[1].starved = true;
    run_hosts_signal(&run, 1, SIGTERM);
    made_wires[1].starved = false;
    run_hosts_signal(&run, 1, SIGTERM);
    assert_true(run.retry_soon);
    forget(&run);
}

static void sending_fails(void **state)
{
    struct run run = made_job();
    wire_answers.post = WEFT_ERR_PEER_DEAD; /* the loss is noticed by the next read */
    run_hosts_signal(&run, 2, SIGTERM);
    expect_log("post to 1502: SIGNAL 15, 2\nrewatch 1502 in: host 1\n");
    wire_answers.post = WEFT_ERR_NO_MEMORY;
    run_hosts_signal(&run, 2, SIGTERM);
    expect_log("post to 1502: SIGNAL 15, 2\nunwatch 1502\nclose the wire of 1502\n"
               "end for PE -1, WEFT_ERR_PEER_DEAD, result 1: \"host b with PE 2 is lost: no way to "
               "send\"\n");
    assert_true(made_hosts[1].lost);
    assert_true(run.pes[2].exited);
    assert_true(run.pes[2].lost);
    assert_int_equal(run.pes[2].wait_status, SIGKILL);
    assert_false(run.pes[1].exited);
    assert_false(run.pes[3].exited);
    assert_int_equal(run.alive, 5);
    assert_int_equal(run.ending.result, 1);
    forget(&run);
}

static void frames_are_relayed(void **state)
{
    struct run run = made_job();
    run_hosts_relay(&run, 4, FRAME_MISSING, 12, "why", 3);
    expect_log("post to 1503: RELAY 0, 4 9 12 0 0 \"why\"\nrewatch 1503 in: host 2\n");
    run_hosts_relay(&run, 1, FRAME_ALL, 12, "all", 3); /* sent once to the host, with PE 0's */
    expect_log("");
    run_hosts_relay(&run, 3, FRAME_ALL, 12, NULL, 0);
    expect_log("post to 1503: RELAY 0, -1 7 12 0 0\nrewatch 1503 in: host 2\n");
    run.pes[4].exited = run.pes[3].exited = true;
    run_hosts_relay(&run, 4, FRAME_MISSING, 12, "why", 3);
    expect_log("");
    run_hosts_relay(&run, 3, FRAME_ALL, 12, "all", 3);
    expect_log("post to 1503: RELAY 0, -1 7 12 0 0 \"all\"\nrewatch 1503 in: host 2\n");
    memory_fails_in = 0;
    run_hosts_relay(&run, 2, FRAME_MISSING, 12, "why", 3);
    expect_log("unwatch 1502\nclose the wire of 1502\nend for PE -1, WEFT_ERR_PEER_DEAD, result 1: "
               "\"host b with PE 2 is lost: no memory for a frame to it\"\n");
    run.hosts.list = NULL;
    run_hosts_relay(&run, 5, FRAME_MISSING, 12, "why", 3);
    expect_log("");
    forget(&run);
}

/* -------------------------------------------------------------------------------- from agents */

static void agents_report(void **state)
{
    struct run run = made_job();
    struct wire *c = &made_wires[3];
    int32_t pids[] = {91, 92, 93, 94};
    run.hosts.list[2].count = 3;
    put_frame(c, HOST_STARTED, 2, pids, sizeof pids, -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("read 1503\njudge exits\n");
    assert_int_equal(run.pes[2].pid, 503);
    assert_int_equal(run.pes[3].pid, 91);
    assert_int_equal(run.pes[5].pid, 93);
    assert_int_equal(run.pes[6].pid, 507);
    put_frame(c, HOST_STARTED, 2, pids + 1, sizeof pids[0] + 3, -1); /* too short */
    run_hosts_serve(&run, 2, EPOLLIN);
    assert_int_equal(run.pes[3].pid, 92);
    assert_int_equal(run.pes[4].pid, 92);
    put_frame(c, HOST_STARTED, 2, pids, 3 * sizeof pids[0], -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    assert_int_equal(run.pes[5].pid, 93);
    *call_log = '\0';

    /* Exits count for the host's own PEs, in whole frames, and once. */
    put_number(c, HOST_EXITED, 2, 5);
    put_number(c, HOST_EXITED, 6, 5);
    put_frame(c, HOST_EXITED, 3, "abcde", 5, -1);
    put_number(c, HOST_RELAY, 3, 5); /* no frame of a PE inside, and no exit */
    run_hosts_serve(&run, 2, EPOLLIN);
    assert_int_equal(run.alive, 6);
    put_number(c, HOST_EXITED, 3, 5 << 8);
    put_number(c, HOST_EXITED, 5, 6 << 8);
    run_hosts_serve(&run, 2, EPOLLIN);
    assert_int_equal(run.alive, 4);
    assert_true(run.pes[3].to_judge && run.pes[3].exited);
    assert_int_equal(run.pes[3].wait_status, 5 << 8);
    assert_int_equal(run.pes[5].wait_status, 6 << 8);
    assert_false(run.pes[3].lost);
    put_number(c, HOST_EXITED, 3, 7 << 8);
    run_hosts_serve(&run, 2, EPOLLIN);
    assert_int_equal(run.alive, 4);
    assert_int_equal(run.pes[3].wait_status, 5 << 8);
    assert_false(run.pes[3].to_judge);

    /* Closed connections. */
    put_frame(c, HOST_LOST, 2, NULL, 0, -1);
    run.pes[4].joined = false;
    put_frame(c, HOST_LOST, 4, NULL, 0, -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    assert_false(run.ending.some_cut_off);
    put_frame(c, HOST_LOST, 5, NULL, 0, -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    assert_true(run.ending.some_cut_off);
    assert_int_equal(run.pes[5].cut_off_ns, 7000 * MS);
    assert_int_equal(run.pes[4].cut_off_ns, 0);
    assert_null(strstr(call_log, "program"));
    *call_log = '\0';

    put_frame(c, HOST_PROGRAM_ENDED, 1, NULL, 0, -1);
    put_frame(c, HOST_PROGRAM_ENDED, 5, NULL, 0, -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("read 1503\nprogram of PE 5 ended\njudge exits\n");
    assert_false(made_hosts[2].done);
    put_frame(c, HOST_DONE, 0, NULL, 0, -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("read 1503\njudge exits\n");
    assert_true(made_hosts[2].done);
    wire_answers.read = WEFT_ERR_PEER_DEAD; /* the wire may be closed now */
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("read 1503\njudge exits\nunwatch 1503\nclose the wire of 1503\n");
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("");
    assert_int_equal(run.ending.result, -1);
    forget(&run);
}

static void agents_pass_on_what_pes_say(void **state)
{
    struct run run = made_job();
    struct wire *c = &made_wires[3];
    struct {
        struct host_relay relay;
        char text[4];
    } frame = {{.pe = 5, .type = FRAME_FAILED, .number = 77, .sender = 4000, .dying = 0}, "why"};
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay + 3, -1);
    frame.relay.pe = 3;
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    frame.relay.pe = 2; /* PE of another host */
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    frame.relay.pe = 6;
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    frame.relay.pe = 4; /* too short */
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay - 1, -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("read 1503\nhub takes from PE 5: 3 77 of 4000, -1, \"why\"\n"
               "hub takes from PE 3: 3 77 of 4000, -1,\njudge exits\n");
    assert_false(run.ending.some_dying);
    frame.relay.dying = 1;
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    frame.relay.dying = 0;
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    run_hosts_serve(&run, 2, EPOLLOUT);
    assert_true(run.ending.some_dying);
    assert_non_null(strstr(call_log, "flush 1503\nrewatch 1503 in: host 2\nread 1503\n"));
    *call_log = '\0';
    frame.relay.pe = 5;
    put_frame(c, HOST_RELAY, 0, &frame, sizeof frame.relay, -1);
    memory_fails_in = 0;
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("read 1503\nunwatch 1503\nclose the wire of 1503\n"
               "end for PE -1, WEFT_ERR_PEER_DEAD, result 1: \"host c with PEs 3 to 5 is lost: no "
               "memory for a frame from it\"\njudge exits\n");
    forget(&run);
}

static void an_agent_refuses(void **state)
{
    struct run run = made_job();
    put_number(&made_wires[3], HOST_REFUSED, 126, 1); /* no host of that child */
    put_frame(&made_wires[3], HOST_REFUSED, 126, NULL, 0, -1);
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log("read 1503\njudge exits\n");
    put_number(&made_wires[3], HOST_REFUSED, 126, 2);
    run_hosts_serve(&run, 2, EPOLLIN);
    expect_log(
        "read 1503\nbegin the end for PE -1, WEFT_ERR_BOOT, result 126: \"not every PE could be "
        "started\"\njudge exits\n");
    assert_int_equal(run.ending.result, 126);
    assert_int_equal(run.alive, 3);
    assert_false(run.pes[2].exited);
    assert_true(run.pes[3].exited && run.pes[5].exited);
    assert_false(run.pes[6].exited);
    assert_false(run.pes[3].to_judge);
    assert_int_equal(run.pes[4].wait_status, 127 << 8);
    run.ending.phase = RUN_NOTIFIED;
    put_number(&made_wires[2], HOST_REFUSED, 127, 1);
    run_hosts_serve(&run, 1, EPOLLIN);
    expect_log("read 1502\njudge exits\n");
    assert_int_equal(run.ending.result, 126);
    run.ending.result = 0;
    put_number(&made_wires[1], HOST_REFUSED, 127, 0);
    run_hosts_serve(&run, 0, EPOLLIN);
    assert_int_equal(run.ending.result, 0);
    forget(&run);
}

static void agents_are_lost(void **state)
{
    struct run run;
    static const struct {
        weft_status status;
        int error;
        const char *why;
    } rows[] = {
        {WEFT_ERR_PEER_DEAD, 0, "its agent (`weft run` there) has ended"},
        {WEFT_ERR_PEER_DEAD, ETIMEDOUT, "it does not answer any more: Connection timed out"},
        {WEFT_ERR_BOOT, ETIMEDOUT, "what came is broken"},
    };
    for (int i = 0; i < 3; i++) {
        char expected[400];
        run = made_job();
        strcpy(made_hosts[2].address, "10.0.0.3");
        wire_answers.read = rows[i].status;
        wire_answers.error = rows[i].error;
        run_hosts_serve(&run, 2, EPOLLIN);
        snprintf(
            expected, sizeof expected,
            "read 1503\njudge exits\nunwatch 1503\nclose the wire of 1503\n"
            "end for PE -1, WEFT_ERR_PEER_DEAD, result 1: \"host c (10.0.0.3) with PEs 3 to 5 is "
            "lost: %s\"\n",
            rows[i].why);
        expect_log(expected);
        forget(&run);
    }
    for (int i = 0; i < 2; i++) { /* no PE runs there; the job is already ending */
        run = made_job();
        run.pes[2].exited = i == 0;
        run.ending.phase = i == 0 ? RUN_WORKING : RUN_NOTIFIED;
        run.ending.result = i == 0 ? 7 : 0;
        wire_answers.read = WEFT_ERR_PEER_DEAD;
        run_hosts_serve(&run, 1, EPOLLIN);
        expect_log("read 1502\njudge exits\nunwatch 1502\nclose the wire of 1502\n"
                   "say \"host b with PE 2 is lost: its agent (`weft run` there) has ended\"\n");
        assert_int_equal(run.pes[2].lost, i == 1);
        assert_int_equal(run.alive, i == 0 ? 6 : 5);
        assert_int_equal(run.ending.result, i == 0 ? 7 : 1);
        forget(&run);
    }
}

static void a_shell_ends(void **state)
{
    static const struct {
        int status;
        const char *why;
    } rows[] = {
        {96 << 8, "this host does not answer its agent any more"},
        {97 << 8, "`ssh it` ended with status 97"},
        {96, "`ssh it` was killed by signal 96 (Unknown signal 96)"},
        {SIGHUP, "`ssh it` was killed by signal 1 (Hangup)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[400];
        struct run run = made_job();
        run.guard.groups[7] = 802;
        run_hosts_exited(&run, 1);
        expect_log("waitpid 802\n");
        system_.ended[0] = 802;
        system_.status = rows[i].status;
        run_hosts_exited(&run, 1);
        snprintf(
            expected, sizeof expected,
            "waitpid 802\nunwatch 1702\nread 1502\njudge exits\nunwatch 1502\nclose the wire of "
            "1502\nend for PE -1, WEFT_ERR_PEER_DEAD, result 1: \"host b with PE 2 is lost: %s\"\n",
            rows[i].why);
        expect_log(expected);
        assert_int_equal(made_hosts[1].pid, 0);
        assert_int_equal(run.guard.groups[7], 0);
        run_hosts_exited(&run, 1);
        expect_log("");
        forget(&run);
    }
    struct run run = made_job(); /* its last frames are read */
    put_frame(&made_wires[2], HOST_DONE, 0, NULL, 0, -1);
    system_.ended[0] = 802;
    run_hosts_exited(&run, 1);
    expect_log("waitpid 802\nunwatch 1702\nread 1502\njudge exits\n");
    assert_false(made_hosts[1].lost);
    forget(&run);
}

/* ------------------------------------------------------------------------------------ the tree */

/* Host c is below b, so the launcher has the children a and b. */
static struct run made_tree(void)
{
    struct run run = made_job();
    run.hosts.children = run.hosts.levels = 2;
    made_hosts[1].below = 1;
    made_hosts[1].npes = 4;
    made_hosts[2].via = 1;
    made_hosts[2].member = 0;
    made_hosts[2].pid = 0;
    return run;
}

static void frames_go_through_the_child(void **state)
{
    struct run run = made_tree();
    run_hosts_signal(&run, 4, SIGTERM);
    expect_log("post to 1502: SIGNAL 15, 4\nrewatch 1502 in: host 1\n");
    for (int pe = 0; pe < 6; pe++) /* one answer for each child */
        run_hosts_relay(&run, pe, FRAME_ALL, 0, "all", 3);
    expect_log("post to 1501: RELAY 0, -1 7 0 0 0 \"all\"\nrewatch 1501 in: host 0\n"
               "post to 1502: RELAY 0, -1 7 0 0 0 \"all\"\nrewatch 1502 in: host 1\n");
    run_hosts_start(&run);
    expect_log("post to 1501: GO 0,\nrewatch 1501 in: host 0\n"
               "post to 1502: GO 0,\nrewatch 1502 in: host 1\n");
    run.options.grace_ns = 300 * MS;
    assert_true(run_hosts_wait(&run));
    expect_log("post to 1501: FINISH 0,\nrewatch 1501 in: host 0\n"
               "post to 1502: FINISH 0,\nrewatch 1502 in: host 1\n");
    assert_int_equal(run.hosts.end_ns, 17600 * MS); /* 2 s more for one more level */
    forget(&run);
}

static void a_child_reports_for_those_below(void **state)
{
    struct run run = made_tree();
    struct wire *b = &made_wires[2];
    int32_t pids[] = {91, 92, 93};
    put_frame(b, HOST_STARTED, 2, pids, sizeof pids, -1);
    put_frame(b, HOST_STARTED, 3, pids, sizeof pids, -1); /* no host of the job */
    put_frame(b, HOST_STARTED, 0, pids, sizeof pids, -1); /* another child */
    put_number(b, HOST_EXITED, 4, 3 << 8);
    put_number(b, HOST_EXITED, 1, 3 << 8);
    run_hosts_serve(&run, 1, EPOLLIN);
    expect_log("read 1502\njudge exits\n");
    assert_int_equal(run.pes[3].pid, 91);
    assert_int_equal(run.pes[0].pid, 501);
    assert_true(run.pes[4].exited && !run.pes[1].exited);
    put_number(b, HOST_REFUSED, 126, 2);
    run_hosts_serve(&run, 1, EPOLLIN);
    assert_non_null(strstr(call_log, "begin the end"));
    assert_true(run.pes[5].exited && !run.pes[2].exited);
    forget(&run);
}

static void parts_come_in_one_frame(void **state)
{
    struct run run = made_tree();
    struct wire *b = &made_wires[2];
    struct {
        struct run_parts parts;
        char data[12];
    } frame = {{.first = 2, .count = 4, .bytes = 3}, "aaabbbcccddd"};
    const size_t bytes = sizeof frame.parts + 12;
    put_frame(b, HOST_PARTS, 0, &frame, bytes, -1);
    run_hosts_serve(&run, 1, EPOLLIN);
    expect_log("read 1502\nhub takes from PE 2: 2 0 of 0, -1, \"aaa\"\n"
               "hub takes from PE 3: 2 0 of 0, -1, \"bbb\"\nhub takes from PE 4: 2 0 of 0, -1, "
               "\"ccc\"\nhub takes from PE 5: 2 0 of 0, -1, \"ddd\"\njudge exits\n");
    static const struct run_parts wrong[] = {{1, 4, 3}, {3, 4, 3}, {2, 5, 3},          {2, 0, 3},
                                             {2, 3, 3}, {2, 4, 2}, {2, -1, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        frame.parts = wrong[i];
        put_frame(b, HOST_PARTS, 0, &frame, bytes, -1);
    }
    put_frame(b, HOST_PARTS, 0, &frame, sizeof frame.parts - 1, -1);
    frame.parts = (struct run_parts){2, INT32_MAX, 0};
    put_frame(b, HOST_PARTS, 0, &frame, sizeof frame.parts, -1);
    run_hosts_serve(&run, 1, EPOLLIN);
    expect_log("read 1502\njudge exits\n");
    forget(&run);
}

static void a_host_below_is_lost(void **state)
{
    struct run run = made_tree();
    struct host_loss loss = {"10.0.0.9", "its agent has ended"};
    put_frame(&made_wires[2], HOST_GONE, 2, &loss, sizeof loss - 1, -1);
    put_frame(&made_wires[2], HOST_GONE, 0, &loss, sizeof loss, -1);
    run_hosts_serve(&run, 1, EPOLLIN);
    expect_log("read 1502\njudge exits\n");
    put_frame(&made_wires[2], HOST_GONE, 2, &loss, sizeof loss, -1);
    put_frame(&made_wires[2], HOST_GONE, 2, &loss, sizeof loss, -1);
    run_hosts_serve(&run, 1, EPOLLIN);
    expect_log("read 1502\nend for PE -1, WEFT_ERR_PEER_DEAD, result 1: \"host c (10.0.0.9) with "
               "PEs 3 to 5 is lost: its agent has ended\"\njudge exits\n");
    assert_int_equal(run.alive, 3);
    assert_false(made_hosts[1].lost);
    forget(&run);
}

static void a_child_is_lost_with_those_below(void **state)
{
    struct run run = made_tree();
    wire_answers.read = WEFT_ERR_PEER_DEAD;
    run_hosts_serve(&run, 1, EPOLLIN);
    expect_log("read 1502\njudge exits\nunwatch 1502\nclose the wire of 1502\n"
               "end for PE -1, WEFT_ERR_PEER_DEAD, result 1: \"host b with PE 2 is lost: its agent "
               "(`weft run` there) has ended; so is host c, which it had started\"\n");
    assert_int_equal(run.alive, 2);
    assert_true(run.pes[5].lost && !run.pes[1].lost);
    forget(&run);

    run = made_tree(); /* an agent leaves it to the launcher */
    struct run_agent agent = {.host = "z"};
    run.agent = &agent;
    made_hosts[1].number = 8;
    wire_answers.read = WEFT_ERR_PEER_DEAD;
    run_hosts_serve(&run, 1, EPOLLIN);
    char expected[200];
    snprintf(expected, sizeof expected,
             "read 1502\nunwatch 1502\nclose the wire of 1502\nreport %d 8, %zu bytes\n", HOST_GONE,
             sizeof(struct host_loss));
    expect_log(expected);
    assert_int_equal(run.alive, 6);
    forget(&run);
}

static void an_agent_forwards_and_abandons(void **state)
{
    struct run run = made_tree();
    struct run_agent agent = {.host = "z"};
    run.agent = &agent;
    put_frame(&made_wires[2], HOST_STARTED, 2, NULL, 0, -1);
    put_frame(&made_wires[2], HOST_DONE, 0, NULL, 0, -1);
    run_hosts_serve(&run, 1, EPOLLIN);
    char expected[100];
    snprintf(expected, sizeof expected, "read 1502\npass frame %d 2 of host 1 up\n", HOST_STARTED);
    expect_log(expected);
    assert_true(made_hosts[1].done && !made_hosts[2].done);
    run_hosts_abandon(&run);
    expect_log("unwatch 1501\nclose the wire of 1501\nunwatch 1502\nclose the wire of 1502\n");
    assert_true(made_hosts[0].lost && made_hosts[1].lost);
    forget(&run);
}

static void hosts_below_are_awaited(void **state)
{
    struct run run = unconnected(2); /* b is below a */
    run.hosts.children = 1;
    made_hosts[0].below = 1;
    made_hosts[1].via = made_hosts[1].member = 0;
    early[0] = HOST_STARTED; /* means nothing yet */
    early[1] = HOST_READY;
    assert_true(run_hosts_connect(&run));
    assert_non_null(strstr(call_log, "accept 2 at 1600"));
    assert_non_null(strstr(call_log, "read 1501\nwaitpid 801\npoll 1900\nread 1501\nwaitpid 801\n"
                                     "poll 1900\nforget 49 bytes\n"));
    assert_null(strstr(call_log, "reach b"));
    assert_null(strstr(call_log, "watch 1502"));
    forget(&run);

    for (int agent = 0; agent < 2; agent++) {
        struct run_agent self = {.host = "z", .secret = (char[]){"hush"}, .job = (char[]){"77"}};
        run = unconnected(2);
        run.agent = agent ? &self : NULL;
        run.hosts.children = 1;
        made_hosts[0].below = 1;
        made_hosts[1].via = made_hosts[1].member = 0;
        early[0] = HOST_UNREACHED;
        assert_false(run_hosts_connect(&run));
        char expected[100];
        snprintf(expected, sizeof expected, "report %d 0, 10 bytes\n", HOST_UNREACHED);
        assert_non_null(strstr(call_log, agent ? expected : "say \"why it was\"\n"));
        assert_int_equal(strstr(call_log, "say") != NULL, !agent);
        assert_int_equal(strstr(call_log, "job 77/0,") != NULL, agent);
        forget(&run);
    }
    run = unconnected(2); /* the child ends */
    run.hosts.children = 1;
    made_hosts[0].below = 1;
    made_hosts[1].via = made_hosts[1].member = 0;
    wire_answers.read = WEFT_ERR_PEER_DEAD;
    connect_fails(&run, "host a is lost while it starts the hosts below it");
    forget(&run);
    run = unconnected(2); /* the child does nothing */
    run.hosts.children = 1;
    made_hosts[0].below = 1;
    made_hosts[1].via = made_hosts[1].member = 0;
    answers.step_ns = 7 * RUN_SECOND_NS;
    connect_fails(&run, "1 hosts did not connect the hosts below them within " BOOT_LIMIT_NAMES);
    forget(&run);
}

/* ------------------------------------------------------------------------------------- the end */

static void agents_are_told_to_go(void **state)
{
    struct run run = made_job();
    run.options.grace_ns = 300 * MS;
    made_hosts[1].lost = true;
    assert_true(run_hosts_wait(&run));
    expect_log("post to 1501: FINISH 0,\nrewatch 1501 in: host 0\n"
               "post to 1503: FINISH 0,\nrewatch 1503 in: host 2\n");
    assert_int_equal(run.hosts.end_ns, 15600 * MS);
    answers.now_ns++;
    assert_true(run_hosts_wait(&run));
    expect_log("");
    assert_int_equal(run.hosts.end_ns, 15600 * MS);
    made_hosts[0].pid = 0;
    assert_true(run_hosts_wait(&run));
    made_hosts[2].pid = 0;
    assert_false(run_hosts_wait(&run)); /* the launcher does not wait for a lost host */
    made_hosts[2].pid = 1;
    made_hosts[2].done = true;
    assert_true(run_hosts_wait(&run));
    forget(&run);
}

static void agents_that_do_not_go_are_given_up(void **state)
{
    struct run run = made_job();
    run_hosts_by_time(&run, UINT64_MAX - 5);
    expect_log("");
    run.ending.phase = RUN_KILLED;
    run_hosts_by_time(&run, 100);
    assert_int_equal(run.hosts.end_ns, 8000 * MS + 100);
    run_hosts_by_time(&run, 200);
    run_hosts_by_time(&run, 8000 * MS + 99);
    expect_log("");
    assert_int_equal(run.hosts.end_ns, 8000 * MS + 100);
    made_hosts[1].lost = made_hosts[2].lost = true;
    run_hosts_by_time(&run, 8000 * MS + 100);
    expect_log(
        "unwatch 1501\nclose the wire of 1501\n"
        "say \"host a with PEs 0 to 1 is lost: it has not ended in time; processes may be left "
        "there\"\n");
    run.hosts.end_ns = 0;
    run_hosts_by_time(&run, 100);
    made_hosts[1].lost = made_hosts[2].lost = false;
    made_hosts[0].pid = 0;
    made_hosts[2].pid = 1;
    run_hosts_by_time(&run, 8000 * MS + 100);
    expect_log(
        "unwatch 1502\nclose the wire of 1502\n"
        "say \"host b with PE 2 is lost: it has not ended in time; processes may be left "
        "there\"\nunwatch 1503\nclose the wire of 1503\n"
        "say \"host c with PEs 3 to 5 is lost: it has not ended in time; processes may be left "
        "there\"\n");
    assert_int_equal(run.hosts.end_ns, UINT64_MAX);
    run_hosts_by_time(&run, UINT64_MAX - 1);
    expect_log("");
    forget(&run);
}

static void everything_is_closed(void **state)
{
    struct run run = made_job();
    run.guard.groups[7] = 802;
    made_hosts[0].pid = 0;
    made_hosts[0].pidfd = made_hosts[1].stdin_end = -1;
    made_hosts[2].pid = 1;
    system_.interrupted = 1;
    system_.ended[0] = 802;
    struct run_host *hosts = calloc(3, sizeof *hosts);
    struct wire *wires = calloc(4, sizeof *wires);
    assert_true(hosts && wires);
    memcpy(hosts, made_hosts, 3 * sizeof *hosts);
    memcpy(wires, made_wires, 4 * sizeof *wires);
    run.options.hosts = calloc(1, sizeof *run.options.hosts);
    run.options.env = calloc(1, sizeof *run.options.env);
    run.hosts.list = hosts;
    run.hosts.wires = wires;
    run_hosts_close(&run);
    expect_log("close the wire of 1501\nclose 1801\n"
               "close the wire of 1502\nkill -802 9\nwaitpid 802, waits\nwaitpid 802, waits\n"
               "close 1702\n"
               "close the wire of 1503\nkill -1 9\nwaitpid 1, waits\nclose 1703\nclose 1803\n");
    assert_int_equal(run.guard.groups[7], 0);
    free(made_hosts[3].name);
    free(made_hosts[3].rsh);
    assert_int_equal(blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_of_pes),
        cmocka_unit_test(all_hosts_are_reached),
        cmocka_unit_test(output_comes_by_pipes),
        cmocka_unit_test(what_can_fail_before_the_fork),
        cmocka_unit_test(a_long_command_is_cut_in_sentences),
        cmocka_unit_test(what_a_pipe_takes),
        cmocka_unit_test(the_fork_fails),
        cmocka_unit_test(the_child_becomes_the_shell),
        cmocka_unit_test(not_all_agents_come),
        cmocka_unit_test(a_shell_ends_too_soon),
        cmocka_unit_test(agents_are_told_to_start),
        cmocka_unit_test(signals_go_to_the_host_of_the_pe),
        cmocka_unit_test(sending_fails),
        cmocka_unit_test(frames_are_relayed),
        cmocka_unit_test(agents_report),
        cmocka_unit_test(agents_pass_on_what_pes_say),
        cmocka_unit_test(an_agent_refuses),
        cmocka_unit_test(agents_are_lost),
        cmocka_unit_test(a_shell_ends),
        cmocka_unit_test(frames_go_through_the_child),
        cmocka_unit_test(a_child_reports_for_those_below),
        cmocka_unit_test(parts_come_in_one_frame),
        cmocka_unit_test(a_host_below_is_lost),
        cmocka_unit_test(a_child_is_lost_with_those_below),
        cmocka_unit_test(an_agent_forwards_and_abandons),
        cmocka_unit_test(hosts_below_are_awaited),
        cmocka_unit_test(agents_are_told_to_go),
        cmocka_unit_test(agents_that_do_not_go_are_given_up),
        cmocka_unit_test(everything_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

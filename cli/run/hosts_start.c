/* SPDX-License-Identifier: Apache-2.0 */
/* How a process of `weft run --hosts` (hosts.h), the launcher or an agent, starts the agents that
 * it is the parent of, and waits until every host below them is connected. What follows is
 * elsewhere. */
#include "run/hosts.h"
#include "run/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MOST_ADDRESSES = 32,
    SECRET_BYTES = 24,
    JOB_BYTES = 8,
    /* Remote shells whose agents have yet to connect. A thousand at once would exceed what sshd and
     * the rendezvous admit of peers that are not authenticated. */
    STARTING_MOST = 64,
};

/* The start of the agents, STARTING_MOST at a time. */
struct run_hosts_start {
    const char *secret, *job;
    struct rendezvous_address addresses[MOST_ADDRESSES];
    int address_count;
    int next; /* the next host to start */
};

/* ----------------------------------------------------------------------------------- listening */

/* Listens at a port that the kernel chooses, or at WEFT_BOOT_PORT when a firewall allows only
 * one port. */
static int listen_for_agents(int *port)
{
    *port = (int)config_int(CONFIG_BOOT_PORT);
    int wanted = *port, fd = listen_everywhere(port);
    if (fd < 0)
        run_say("listening for the agents of other hosts%s: %s", wanted ? " (WEFT_BOOT_PORT)" : "",
                strerror(errno));
    return fd;
}

static bool random_hex(char *text, size_t bytes)
{
    unsigned char random[SECRET_BYTES];
    if (getrandom(random, bytes, 0) != (ssize_t)bytes) {
        run_say("getrandom: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    return true;
}

/* ------------------------------------------------------------------------------ remote shells */

/* Makes the arguments of the command that starts the agent. The caller frees *words and *text. */
static bool make_command(const struct run *run, struct run_host *host, char ***words, char **text)
{
    static const char *const arguments[] = {"run", "--agent", NULL};
    if (run_reach_command(host->name, run->options.rsh, run->options.weft, arguments, words,
                          text)) {
        run_say("%s", weft_last_error());
        return false;
    }
    size_t used = 0, size = 512;
    host->rsh = calloc(1, size);
    for (int i = 0; host->rsh && (*words)[i] && used < size; i++)
        used += (size_t)snprintf(host->rsh + used, size - used, "%s%s", i ? " " : "", (*words)[i]);
    if (!host->rsh)
        run_say("no memory for the command that reaches %s", run_describe_host(host));
    return host->rsh != NULL;
}

static void exec_agent_shell(struct run *run, int index, char **words, const int *ends)
{
    /* Ctrl-C reaches only the launcher, which passes it on to the PEs over a connection that
     * must stay open. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run->guard.groups[run->options.npes + index] = getpid();
    for (int fd = 0; fd < 3; fd++)
        if (ends[fd] >= 0 && dup2(ends[fd], fd) < 0)
            _exit(127);
    setrlimit(RLIMIT_NOFILE, &run->hosts.files);
    sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
    if (!run->pipe_was_ignored)
        signal(SIGPIPE, SIG_DFL);
    execvp(words[0], words);
    fprintf(stderr, "weft run: %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static bool open_shell_pipe(const struct run_host *host, int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) == 0)
        return true;
    run_say("a pipe to %s: %s%s", run_describe_host(host), strerror(errno),
            errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
    return false;
}

/* Opens the pipes of the remote shell: standard input, and with --prefix standard output and
 * error. */
static bool open_ends(struct run *run, int index, int *theirs)
{
    struct run_host *host = &run->hosts.list[index];
    int ends[2];
    theirs[0] = theirs[1] = theirs[2] = -1;
    if (!open_shell_pipe(host, ends))
        return false;
    theirs[0] = ends[0];
    host->stdin_end = ends[1];
    for (int stream = 0; run->options.prefix && stream < 2; stream++) {
        int number = run->options.npes + index;
        if (!open_shell_pipe(host, ends))
            return false;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        run->pes[number].streams[stream].fd = ends[0];
        theirs[1 + stream] = ends[1];
        if (run_watch(run, ends[0], EPOLLIN, RUN_EVENT_SOURCE, 2 * number + stream) < 0)
            return false;
    }
    return true;
}

/* Writes the setup in one call, so that the launcher does not wait for a shell that does not
 * read. */
static bool send_setup(struct run_host *host, const char *text, size_t bytes)
{
    const size_t usual = 65536;
    if (bytes > usual && fcntl(host->stdin_end, F_SETPIPE_SZ, (int)bytes) < 0) {
        run_say("arguments and variables of %zu bytes are too many for %s: %s", bytes,
                run_describe_host(host), strerror(errno));
        return false;
    }
    fcntl(host->stdin_end, F_SETFL, O_NONBLOCK);
    if (write(host->stdin_end, text, bytes) == (ssize_t)bytes)
        return true;
    run_say("sending the setup of %s: %s", run_describe_host(host), strerror(errno));
    return false;
}

static bool start_shell(struct run *run, int index, const char *setup, size_t bytes)
{
    struct run_host *host = &run->hosts.list[index];
    char **words = NULL, *text = NULL;
    int theirs[3];
    bool good = make_command(run, host, &words, &text) && open_ends(run, index, theirs) &&
                send_setup(host, setup, bytes);
    pid_t pid = good ? fork() : -1;
    if (pid == 0)
        exec_agent_shell(run, index, words, theirs);
    if (good && pid < 0)
        run_say("starting the remote shell for %s: %s", run_describe_host(host), strerror(errno));
    for (int fd = 0; good && fd < 3; fd++)
        if (theirs[fd] >= 0)
            close(theirs[fd]);
    free(words);
    free(text);
    if (pid < 0)
        return false;
    setpgid(pid, pid);
    host->pid = pid;
    run->guard.groups[run->options.npes + index] = pid;
    host->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (host->pidfd < 0) {
        run_say("watching the remote shell for %s: pidfd_open: %s", run_describe_host(host),
                strerror(errno));
        return false;
    }
    return true;
}

void run_describe_wait_status(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "ended with status %d", WEXITSTATUS(status));
}

static bool is_connected(const struct run *run, int index)
{
    const struct wire *wire = run_host_wire(run, index);
    return wire && wire->fd >= 0;
}

/* Starts the shells of further children, until STARTING_MOST agents have yet to connect. */
static bool start_shells(struct run *run)
{
    struct run_hosts_start *start = run->hosts.start;
    int waiting = 0;
    for (int i = 0; i < start->next; i++)
        waiting += run->hosts.list[i].member && !is_connected(run, i);
    for (; start->next < run->hosts.count && waiting < STARTING_MOST; start->next++) {
        if (!run->hosts.list[start->next].member)
            continue; /* its parent starts it */
        waiting++;
        size_t bytes = 0;
        char *setup = run_setup_write(run, start->next, start->secret, start->job, start->addresses,
                                      start->address_count, &bytes);
        bool good = setup && start_shell(run, start->next, setup, bytes);
        if (!setup)
            run_say("no memory for host %s", run->hosts.list[start->next].label);
        if (setup)
            explicit_bzero(setup, bytes);
        free(setup);
        if (!good)
            return false;
    }
    return true;
}

static void read_agent_messages(struct run *run)
{
    for (int i = 0; run->options.prefix && i < run->hosts.count; i++)
        for (int stream = 0; stream < 2; stream++)
            run_read_source(run, run->options.npes + i, stream);
}

/* Reads the frames of a child that connects the hosts below it. */
static weft_status read_child(struct run *run, int index)
{
    struct run_host *host = &run->hosts.list[index];
    struct wire *wire = run_host_wire(run, index);
    struct wire_frame *frame;
    weft_status status = wire_read(wire), reported = WEFT_OK;
    while (!reported && (frame = wire_take(wire))) {
        host->ready |= frame->type == HOST_READY;
        host->unreached |= frame->type == HOST_UNREACHED;
        if (frame->type == HOST_UNREACHED)
            reported = base_fail(WEFT_ERR_BOOT, "%.*s", HUB_MOST_SENTENCE, frame->payload);
        wire_frame_free(frame);
    }
    if (!reported && status)
        return base_fail(WEFT_ERR_BOOT, "%s is lost while it starts the hosts below it",
                         run_describe_host(host));
    return reported;
}

/* Called while waiting for the agents: starts further ones, and fails when a remote shell has
 * ended, the user asks the job to end, or an agent has lost its parent. */
static weft_status check_agents(void *argument)
{
    struct run *run = argument;
    struct pollfd watched = {.fd = run->signals, .events = POLLIN};
    for (int i = 0; i < run->hosts.count; i++) {
        struct run_host *host = &run->hosts.list[i];
        int status;
        char how[96];
        if (host->pid <= 0 || waitpid(host->pid, &status, WNOHANG) != host->pid)
            continue;
        host->pid = 0;
        /* An agent that could not connect a host below it says so before it ends. */
        if (is_connected(run, i) && read_child(run, i) && host->unreached)
            return WEFT_ERR_BOOT;
        run_describe_wait_status(status, how, sizeof how);
        return base_fail(WEFT_ERR_BOOT,
                         "%s: `%.300s` %s before weft started there; see its output above",
                         run_describe_host(host), host->rsh, how);
    }
    read_agent_messages(run);
    if (poll(&watched, 1, 0) == 1)
        return base_fail(WEFT_ERR_JOB, "received a request to end before every host had answered");
    weft_status status = run->agent ? run_agent_check_parent(run) : WEFT_OK;
    if (status)
        return status;
    return !run->hosts.start || start_shells(run)
               ? WEFT_OK
               : base_fail(WEFT_ERR_BOOT, "not every host could be started");
}

/* After the time limit: waits up to 1.5 s for agents that could not connect, which print the
 * addresses that they tried. */
static void wait_for_failed_agents(struct run *run)
{
    enum { STEPS = 30, STEP_US = 50000 };
    for (int step = 0; step < STEPS; step++) {
        bool some = false;
        for (int i = 0; i < run->hosts.count; i++) {
            struct pollfd ended = {.fd = run->hosts.list[i].pidfd, .events = POLLIN};
            some |= run->hosts.list[i].pid > 0 && !is_connected(run, i) && poll(&ended, 1, 0) == 0;
        }
        if (!some)
            return;
        usleep(STEP_US);
    }
}

/* The names of the children for messages, as the rendezvous wants them; NULL: no memory. */
static const char **make_names(const struct run *run)
{
    const char **names = calloc((size_t)run->hosts.children + 1, sizeof *names);
    for (int i = 0; names && i < run->hosts.count; i++)
        if (run->hosts.list[i].member)
            names[run->hosts.list[i].member] = run->hosts.list[i].label;
    return names;
}

static weft_status accept_children(struct run *run, int listening)
{
    const struct run_hosts_start *start = run->hosts.start;
    const char **names = make_names(run);
    if (!names)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d hosts", run->hosts.count);
    struct rendezvous rendezvous = {.what = "weft run --hosts",
                                    .n = run->hosts.children + 1,
                                    .key = start->secret,
                                    .key_bytes = strlen(start->secret),
                                    .secret = "secret",
                                    .names = names,
                                    .many_addresses = true,
                                    .limit_from_last = true,
                                    .still_wanted = check_agents,
                                    .argument = run};
    snprintf(rendezvous.job, sizeof rendezvous.job, "%s", start->job);
    weft_status status = rendezvous_accept(&rendezvous, listening, run->hosts.wires);
    free(names);
    return status;
}

/* -------------------------------------------------------------------- hosts below the children */

/* Waits at most 100 ms for a frame of a child that is not ready. *left: children that are not. */
static weft_status await_some_child(struct run *run, struct pollfd *watched, int *left)
{
    const int step_ms = 100;
    int n = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < run->hosts.count; i++)
        if (run->hosts.list[i].member && !run->hosts.list[i].ready)
            watched[n++] = (struct pollfd){.fd = run_host_wire(run, i)->fd, .events = POLLIN};
    poll(watched, (nfds_t)n, step_ms);
    *left = 0;
    for (int i = 0; !status && i < run->hosts.count; i++) {
        struct run_host *host = &run->hosts.list[i];
        if (host->member && !host->ready)
            status = read_child(run, i);
        *left += host->member && !host->ready;
    }
    return status;
}

/* A child gives up itself when a host below it is not connected in time, so the limit here is for a
 * child that is stopped. It counts from the last child that has become ready. */
static weft_status await_hosts_below(struct run *run)
{
    struct pollfd *watched = calloc((size_t)run->hosts.children, sizeof *watched);
    weft_status status = watched ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no memory for hosts");
    int left = 0, before = 0;
    uint64_t until_ns = 0;
    for (int i = 0; i < run->hosts.count; i++) {
        run->hosts.list[i].ready |= run->hosts.list[i].below == 0;
        left += run->hosts.list[i].member && !run->hosts.list[i].ready;
    }
    while (!status && left) {
        struct boot_limit limit = boot_limit_join();
        if (left != before)
            until_ns = limit.endless ? UINT64_MAX
                                     : clock_now_ns() + (uint64_t)run->hosts.levels * limit.left_ns;
        before = left;
        status = await_some_child(run, watched, &left);
        if (!status && left && clock_now_ns() > until_ns)
            status = base_fail(WEFT_ERR_TIMEOUT,
                               "%d hosts did not connect the hosts below them "
                               "within " BOOT_LIMIT_NAMES,
                               left);
        if (!status)
            status = check_agents(run);
    }
    free(watched);
    return status;
}

/* ------------------------------------------------------------------------------------- the start
 */

/* An agent leaves it to the launcher to print why a host was not reached. */
static void report_failure(struct run *run, weft_status status)
{
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    if (status == WEFT_ERR_TIMEOUT)
        wait_for_failed_agents(run);
    read_agent_messages(run);
    if (run->agent)
        run_agent_report(run, HOST_UNREACHED, 0, sentence, strnlen(sentence, HUB_MOST_SENTENCE));
    else
        run_say("%s", sentence);
}

static bool start_agents(struct run *run, int listening)
{
    run->hosts.wires = calloc((size_t)run->hosts.children + 1, sizeof *run->hosts.wires);
    for (int i = 0; run->hosts.wires && i <= run->hosts.children; i++)
        run->hosts.wires[i].fd = -1;
    weft_status status = WEFT_OK;
    if (!run->hosts.wires)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d hosts", run->hosts.count);
    else if (!start_shells(run)) { /* which has said why */
        if (!run->agent)
            return false;
        status = base_fail(WEFT_ERR_BOOT, "not every host could be started");
    }
    if (!status)
        status = accept_children(run, listening);
    if (!status)
        status = await_hosts_below(run);
    if (status)
        report_failure(run, status);
    return status == WEFT_OK;
}

/* Records the agent's address. Closes the standard input of its shell, unless PE 0 is on this
 * host. */
static void set_agent_address(struct run_host *host, int fd)
{
    handshake_describe_peer(fd, host->address, sizeof host->address);
    char *port = strrchr(host->address, ':');
    if (port)
        *port = '\0';
    if (host->first > 0) {
        close(host->stdin_end);
        host->stdin_end = -1;
    }
}

/* The secret of the job, and the name that tells this process from other parents of the job. An
 * agent has the secret from its setup. */
static bool make_secret(const struct run *run, char *secret, char *job, size_t job_bytes)
{
    const struct crypto_driver *crypto;
    if (run->agent) {
        snprintf(secret, 2 * SECRET_BYTES + 1, "%s", run->agent->secret);
        snprintf(job, job_bytes, "%.16s/%d", run->agent->job, run->agent->index);
        return true;
    }
    if (crypto_load(&crypto)) {
        run_say("%s", weft_last_error());
        return false;
    }
    return random_hex(secret, SECRET_BYTES) && random_hex(job, JOB_BYTES);
}

bool run_hosts_connect(struct run *run)
{
    char secret[2 * SECRET_BYTES + 1], job[2 * JOB_BYTES + 16];
    int port;
    if (!make_secret(run, secret, job, sizeof job))
        return false;
    struct run_hosts_start start = {.secret = secret, .job = job};
    run_raise_descriptor_limit(&run->hosts.files);
    int listening = listen_for_agents(&port);
    if (listening >= 0)
        start.address_count = listen_addresses(start.addresses, MOST_ADDRESSES, port);
    run->hosts.start = &start;
    bool good = listening >= 0 && start_agents(run, listening);
    run->hosts.start = NULL;
    explicit_bzero(secret, sizeof secret);
    if (listening >= 0)
        close(listening);
    for (int i = 0; good && i < run->hosts.count; i++)
        if (run->hosts.list[i].member)
            set_agent_address(&run->hosts.list[i], run_host_wire(run, i)->fd);
    for (int i = 0; good && i < run->hosts.count; i++)
        if (run->hosts.list[i].member)
            good = run_watch(run, run_host_wire(run, i)->fd, EPOLLIN, RUN_EVENT_HOST, i) == 0 &&
                   run_watch(run, run->hosts.list[i].pidfd, EPOLLIN, RUN_EVENT_HOST_EXIT, i) == 0;
    return good;
}

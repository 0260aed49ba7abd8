/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of `weft run --hosts` (hosts.h): starts the agents and connects them
 * to the rest of `weft run`, which reaches a PE on another host through run_hosts_signal() and
 * run_hosts_relay(). How a job ends is decided elsewhere. */
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
    FINISH_SECONDS = 8,
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

const char *run_host_of(const struct run *run, int pe)
{
    for (int i = 0; i < run->hosts.count; i++)
        if (pe >= run->hosts.list[i].first &&
            pe < run->hosts.list[i].first + run->hosts.list[i].count)
            return run->hosts.list[i].label;
    return run->agent ? run->agent->host : NULL;
}

/* Name for messages, such as "host b (10.0.0.2)" once its agent has connected. Only the remote
 * shell resolves names, which can take long when the network fails. */
static const char *describe_host(const struct run_host *host)
{
    static char text[320];
    snprintf(text, sizeof text, "host %.200s%s%s%s", host->label, host->address[0] ? " (" : "",
             host->address, host->address[0] ? ")" : "");
    return text;
}

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
        run_say("no memory for the command that reaches %s", describe_host(host));
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
    run_say("a pipe to %s: %s%s", describe_host(host), strerror(errno),
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
                describe_host(host), strerror(errno));
        return false;
    }
    fcntl(host->stdin_end, F_SETFL, O_NONBLOCK);
    if (write(host->stdin_end, text, bytes) == (ssize_t)bytes)
        return true;
    run_say("sending the setup of %s: %s", describe_host(host), strerror(errno));
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
        run_say("starting the remote shell for %s: %s", describe_host(host), strerror(errno));
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
        run_say("watching the remote shell for %s: pidfd_open: %s", describe_host(host),
                strerror(errno));
        return false;
    }
    return true;
}

static void describe_status(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "ended with status %d", WEXITSTATUS(status));
}

/* Starts the shells of further hosts, until STARTING_MOST agents have yet to connect. */
static bool start_shells(struct run *run)
{
    struct run_hosts_start *start = run->hosts.start;
    int waiting = 0;
    for (int i = 0; i < start->next; i++)
        waiting += run->hosts.wires[1 + i].fd < 0;
    for (; start->next < run->hosts.count && waiting < STARTING_MOST; start->next++, waiting++) {
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

/* Called while waiting for the agents: starts further ones, and fails when a remote shell has ended
 * or the user asks the job to end. */
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
        describe_status(status, how, sizeof how);
        return base_fail(WEFT_ERR_BOOT,
                         "%s: `%.300s` %s before weft started there; see its output above",
                         describe_host(host), host->rsh, how);
    }
    for (int i = 0; run->options.prefix && i < run->hosts.count; i++) /* messages of the agents */
        for (int stream = 0; stream < 2; stream++)
            run_read_source(run, run->options.npes + i, stream);
    if (poll(&watched, 1, 0) == 1)
        return base_fail(WEFT_ERR_JOB, "received a request to end before every host had answered");
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
            some |= run->hosts.list[i].pid > 0 && run->hosts.wires[1 + i].fd < 0 &&
                    poll(&ended, 1, 0) == 0;
        }
        if (!some)
            return;
        usleep(STEP_US);
    }
}

/* The names of the agents for messages, as the rendezvous wants them; NULL: no memory. */
static const char **make_names(const struct run *run)
{
    const char **names = calloc((size_t)run->hosts.count + 1, sizeof *names);
    for (int i = 0; names && i < run->hosts.count; i++)
        names[1 + i] = run->hosts.list[i].label;
    return names;
}

static bool start_agents(struct run *run, int listening)
{
    const struct run_hosts_start *start = run->hosts.start;
    const char **names = NULL;
    run->hosts.wires = calloc((size_t)run->hosts.count + 1, sizeof *run->hosts.wires);
    for (int i = 0; run->hosts.wires && i < run->hosts.count; i++)
        run->hosts.wires[1 + i].fd = -1;
    if (run->hosts.wires && !start_shells(run))
        return false;
    if (!run->hosts.wires || !(names = make_names(run))) {
        run_say("no memory for %d hosts", run->hosts.count);
        return false;
    }
    struct rendezvous rendezvous = {.what = "weft run --hosts",
                                    .n = run->hosts.count + 1,
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
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", status ? weft_last_error() : "");
    if (status == WEFT_ERR_TIMEOUT)
        wait_for_failed_agents(run);
    for (int i = 0; status && run->options.prefix && i < run->hosts.count; i++)
        for (int stream = 0; stream < 2; stream++)
            run_read_source(run, run->options.npes + i, stream);
    if (status)
        run_say("%s", sentence);
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

bool run_hosts_connect(struct run *run)
{
    const struct crypto_driver *crypto;
    char secret[2 * SECRET_BYTES + 1], job[2 * 8 + 1];
    int port;
    if (crypto_load(&crypto)) {
        run_say("%s", weft_last_error());
        return false;
    }
    if (!random_hex(secret, SECRET_BYTES) || !random_hex(job, 8))
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
        set_agent_address(&run->hosts.list[i], run->hosts.wires[1 + i].fd);
    for (int i = 0; good && i < run->hosts.count; i++)
        good = run_watch(run, run->hosts.wires[1 + i].fd, EPOLLIN, RUN_EVENT_HOST, i) == 0 &&
               run_watch(run, run->hosts.list[i].pidfd, EPOLLIN, RUN_EVENT_HOST_EXIT, i) == 0;
    return good;
}

/* ---------------------------------------------------------------------------------- to agents */

static void watch_host(struct run *run, int host)
{
    const struct wire *wire = &run->hosts.wires[1 + host];
    run->retry_soon |= wire->starved;
    run_rewatch(run, wire->fd, wire->unsent ? EPOLLIN | EPOLLOUT : EPOLLIN, RUN_EVENT_HOST, host);
}

static void give_up_host(struct run *run, int index, const char *why);

static void send_to_agent(struct run *run, int host, enum run_host_frame type, int number,
                          const void *payload, size_t bytes)
{
    struct wire *wire = &run->hosts.wires[1 + host];
    if (wire->fd < 0)
        return;
    weft_status status = wire_post(wire, type, number, payload, bytes, -1);
    if (status && status != WEFT_ERR_PEER_DEAD) /* the loop will read its end */
        give_up_host(run, host, weft_last_error());
    else
        watch_host(run, host);
}

static int host_of(const struct run *run, int pe)
{
    int host = 0;
    while (host + 1 < run->hosts.count && pe >= run->hosts.list[host + 1].first)
        host++;
    return host;
}

void run_hosts_signal(struct run *run, int pe, int number)
{
    int32_t to = pe;
    if (!run->pes[pe].exited)
        send_to_agent(run, host_of(run, pe), HOST_SIGNAL, number, &to, sizeof to);
}

void run_hosts_relay(void *owner, int pe, enum frame_type type, int number, const void *payload,
                     size_t bytes)
{
    struct run *run = owner;
    if (!run->hosts.list)
        return;
    /* The PEs of a host get the answer of an exchange together: if one got it earlier, its next
     * messages to the others could overtake their answers. */
    bool together = type == FRAME_ALL;
    if (together ? pe != run->hosts.list[host_of(run, pe)].first : run->pes[pe].exited)
        return;
    struct host_relay relay = {.pe = together ? HOST_EVERY_PE : pe, .type = type, .number = number};
    char *frame = malloc(sizeof relay + bytes);
    if (!frame) {
        give_up_host(run, host_of(run, pe), "no memory for a frame to it");
        return;
    }
    memcpy(frame, &relay, sizeof relay);
    if (bytes)
        memcpy(frame + sizeof relay, payload, bytes);
    send_to_agent(run, host_of(run, pe), HOST_RELAY, 0, frame, sizeof relay + bytes);
    free(frame);
}

bool run_hosts_start(struct run *run)
{
    run->started = run->alive = run->options.npes;
    run->input.pipe = run->hosts.list[0].stdin_end;
    run->hosts.list[0].stdin_end = -1;
    for (int i = 0; i < run->hosts.count; i++)
        send_to_agent(run, i, HOST_GO, 0, NULL, 0);
    return true;
}

/* -------------------------------------------------------------------------------- from agents */

static void handle_pe_exit(struct run *run, int pe, int wait_status)
{
    struct run_pe *one = &run->pes[pe];
    if (one->exited)
        return;
    one->exited = true;
    one->wait_status = wait_status;
    run->alive--;
}

/* Gives up a host and its PEs. Processes left there end themselves, since they have lost the
 * launcher too. */
static void give_up_host(struct run *run, int index, const char *why)
{
    struct run_host *host = &run->hosts.list[index];
    struct wire *wire = &run->hosts.wires[1 + index];
    char sentence[HUB_MOST_SENTENCE + 300], pes[64];
    if (host->lost || host->done)
        return;
    host->lost = true;
    if (wire->fd >= 0)
        run_unwatch(run, wire->fd);
    snprintf(pes, sizeof pes, host->count > 1 ? "PEs %d to %d" : "PE %d", host->first,
             host->first + host->count - 1);
    snprintf(sentence, sizeof sentence, "%s with %s is lost: %.200s", describe_host(host), pes,
             why);
    wire_close(wire);
    bool any = false;
    for (int pe = host->first; pe < host->first + host->count; pe++) {
        any |= !run->pes[pe].exited;
        run->pes[pe].lost = !run->pes[pe].exited;
        handle_pe_exit(run, pe, SIGKILL);
    }
    if (any && run->ending.phase == RUN_WORKING)
        run_end(run, -1, WEFT_ERR_PEER_DEAD, 1, sentence);
    else
        run_say("%s", sentence);
    if (run->ending.result <= 0)
        run->ending.result = 1;
}

static void read_pids(struct run *run, const struct run_host *host, const struct wire_frame *frame)
{
    for (int i = 0; i < host->count && (size_t)(i + 1) * sizeof(int32_t) <= frame->bytes; i++) {
        int32_t pid;
        memcpy(&pid, frame->payload + (size_t)i * sizeof pid, sizeof pid);
        run->pes[host->first + i].pid = pid;
    }
}

/* Handles a frame of a PE for the hub. */
static void handle_relay(struct run *run, const struct run_host *host, struct wire_frame *frame)
{
    struct host_relay relay;
    if (frame->bytes < sizeof relay)
        return;
    memcpy(&relay, frame->payload, sizeof relay);
    if (relay.pe < host->first || relay.pe >= host->first + host->count)
        return;
    run->ending.some_dying |= relay.dying != 0;
    struct wire_frame *inner = wire_frame_make(
        relay.type, relay.number, frame->payload + sizeof relay, frame->bytes - sizeof relay, -1);
    if (!inner) {
        give_up_host(run, (int)(host - run->hosts.list), "no memory for a frame from it");
        return;
    }
    inner->sender = relay.sender;
    hub_handle(&run->hub, relay.pe, inner);
}

static void handle_agent_frame(struct run *run, struct run_host *host, struct wire_frame *frame)
{
    int pe = frame->number;
    bool ours = pe >= host->first && pe < host->first + host->count;
    int32_t wait_status = 0;
    switch (frame->type) {
    case HOST_STARTED:
        read_pids(run, host, frame);
        break;
    case HOST_REFUSED:
        run->ending.result = run->ending.result < 0 ? frame->number : run->ending.result;
        if (run->ending.phase == RUN_WORKING)
            run_begin_end(run, -1, WEFT_ERR_BOOT, run->ending.result,
                          "not every PE could be started");
        for (pe = host->first; pe < host->first + host->count; pe++)
            handle_pe_exit(run, pe, 127 << 8);
        break;
    case HOST_RELAY:
        handle_relay(run, host, frame);
        break;
    case HOST_EXITED:
        if (!ours || frame->bytes != sizeof wait_status)
            break;
        memcpy(&wait_status, frame->payload, sizeof wait_status);
        run->pes[pe].to_judge = !run->pes[pe].exited;
        handle_pe_exit(run, pe, wait_status);
        break;
    case HOST_LOST:
        if (ours && run->pes[pe].joined) {
            run->pes[pe].cut_off_ns = clock_now_ns();
            run->ending.some_cut_off = true;
        }
        break;
    case HOST_PROGRAM_ENDED:
        if (ours)
            run_program_ended(run, pe);
        break;
    case HOST_DONE:
        host->done = true;
        break;
    }
}

void run_hosts_serve(struct run *run, int index, uint32_t events)
{
    struct run_host *host = &run->hosts.list[index];
    struct wire *wire = &run->hosts.wires[1 + index];
    struct wire_frame *frame;
    char why[HUB_MOST_SENTENCE] = "its agent (`weft run` there) has ended";
    if (wire->fd < 0)
        return;
    if (events & EPOLLOUT) {
        wire_flush(wire); /* the next read reports a failure */
        watch_host(run, index);
    }
    weft_status status = wire_read(wire);
    if (status == WEFT_ERR_PEER_DEAD && wire->error)
        snprintf(why, sizeof why, "it does not answer any more: %s", strerror(wire->error));
    else if (status && status != WEFT_ERR_PEER_DEAD)
        snprintf(why, sizeof why, "%s", weft_last_error());
    while (wire->fd >= 0 && (frame = wire_take(wire))) {
        handle_agent_frame(run, host, frame);
        wire_frame_free(frame);
    }
    run_judge_exits(run);
    if (!status || wire->fd < 0)
        return;
    if (!host->done) {
        give_up_host(run, index, why);
        return;
    }
    run_unwatch(run, wire->fd);
    wire_close(wire);
}

/* The last frames of the agent may still be in the socket. */
void run_hosts_exited(struct run *run, int index)
{
    struct run_host *host = &run->hosts.list[index];
    int status;
    char how[96], why[512];
    if (host->pid <= 0 || waitpid(host->pid, &status, WNOHANG) != host->pid)
        return;
    host->pid = 0;
    run->guard.groups[run->options.npes + index] = 0;
    run_unwatch(run, host->pidfd);
    run_hosts_serve(run, index, EPOLLIN);
    describe_status(status, how, sizeof how);
    if (WIFEXITED(status) && WEXITSTATUS(status) == HOST_EXIT_LOST)
        snprintf(why, sizeof why, "this host does not answer its agent any more");
    else
        snprintf(why, sizeof why, "`%.300s` %s", host->rsh, how);
    give_up_host(run, index, why);
}

/* ------------------------------------------------------------------------------------- the end */

bool run_hosts_wait(struct run *run)
{
    bool some = false;
    if (!run->hosts.end_ns)
        run->hosts.end_ns =
            clock_now_ns() + 2 * run->options.grace_ns + FINISH_SECONDS * RUN_SECOND_NS;
    for (int i = 0; i < run->hosts.count; i++) {
        struct run_host *host = &run->hosts.list[i];
        if (!host->finishing && !host->lost)
            send_to_agent(run, i, HOST_FINISH, 0, NULL, 0);
        host->finishing = true;
        some |= host->pid > 0 && !host->lost;
    }
    return some;
}

static void end_shell(struct run *run, int index)
{
    struct run_host *host = &run->hosts.list[index];
    if (host->pid <= 0)
        return;
    kill(-host->pid, SIGKILL);
    while (waitpid(host->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    host->pid = 0;
    run->guard.groups[run->options.npes + index] = 0;
}

/* Gives up agents that do not end, and PEs that do not end after SIGKILL. */
void run_hosts_by_time(struct run *run, uint64_t now)
{
    if (run->ending.phase == RUN_KILLED && !run->hosts.end_ns)
        run->hosts.end_ns = now + FINISH_SECONDS * RUN_SECOND_NS;
    if (!run->hosts.end_ns || now < run->hosts.end_ns)
        return;
    run->hosts.end_ns = UINT64_MAX;
    for (int i = 0; i < run->hosts.count; i++)
        if (run->hosts.list[i].pid > 0)
            give_up_host(run, i, "it has not ended in time; processes may be left there");
}

void run_hosts_close(struct run *run)
{
    for (int i = 0; i < run->hosts.count; i++) {
        struct run_host *host = &run->hosts.list[i];
        if (run->hosts.wires)
            wire_close(&run->hosts.wires[1 + i]);
        end_shell(run, i);
        if (host->pidfd >= 0)
            close(host->pidfd);
        if (host->stdin_end >= 0)
            close(host->stdin_end);
        free(host->rsh);
        free(host->name);
    }
    free(run->hosts.wires);
    free(run->hosts.list);
    free(run->options.hosts);
    free(run->options.env);
}

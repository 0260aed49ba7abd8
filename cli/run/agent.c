/* SPDX-License-Identifier: Apache-2.0 */
/* The agent of one host of `weft run --hosts` (hosts.h): starts its PEs, forwards their
 * frames to the launcher and the answers back, and reports which PEs ended. It does the same for
 * the agents below it. The launcher decides what follows; but when the connection to its parent,
 * through which it reaches the launcher, is lost, the agent ends its PEs. The agent passes
 * descriptors between PEs of this host itself, since they cannot cross hosts. */
#include "run/hosts.h"

#include "commands.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------ to the launcher */

static void handle_launcher_loss(struct run *run, const char *why)
{
    struct run_agent *agent = run->agent;
    if (agent->up_lost)
        return;
    agent->up_lost = agent->finish = true;
    if (agent->up.fd >= 0)
        run_unwatch(run, agent->up.fd);
    run_hosts_abandon(run);
    if (run->alive > 0)
        run_say("the launcher is lost (%s); ending the PEs of this host", why);
    run->ending.result = 1;
    if (run->ending.phase == RUN_WORKING)
        run_begin_end(run, -1, WEFT_ERR_BOOT, 1,
                      "the launcher (weft run) has ended; ending the job");
}

static void watch_launcher(struct run *run)
{
    const struct wire *up = &run->agent->up;
    run->retry_soon |= up->starved;
    run_rewatch(run, up->fd, up->unsent ? EPOLLIN | EPOLLOUT : EPOLLIN, RUN_EVENT_LAUNCHER, 0);
}

void run_agent_report(struct run *run, int type, int number, const void *payload, size_t bytes)
{
    struct run_agent *agent = run->agent;
    if (agent->up_lost)
        return;
    weft_status status = wire_post(&agent->up, (uint32_t)type, number, payload, bytes, -1);
    if (status && status != WEFT_ERR_PEER_DEAD) /* the loop will read its end */
        handle_launcher_loss(run, weft_last_error());
    else
        watch_launcher(run);
}

uint64_t run_agent_due_ns(const struct run *run)
{
    return run->agent && run->agent->gather.due_ns ? run->agent->gather.due_ns : UINT64_MAX;
}

void run_agent_send_parts(struct run *run)
{
    struct run_gather *gather = &run->agent->gather;
    struct run_parts parts;
    const char *data;
    while (run_gather_next(gather, &parts, &data)) {
        const size_t bytes = (size_t)parts.count * parts.bytes;
        char *text = malloc(sizeof parts + bytes);
        if (!text) {
            handle_launcher_loss(run, "no memory for a frame to it");
            break;
        }
        memcpy(text, &parts, sizeof parts);
        memcpy(text + sizeof parts, data, bytes);
        run_agent_report(run, HOST_PARTS, 0, text, sizeof parts + bytes);
        free(text);
    }
    run_gather_drop(gather);
}

static void add_part(struct run *run, int pe, const char *part, size_t bytes)
{
    struct run_gather *gather = &run->agent->gather;
    if (!run_gather_add(gather, pe, part, bytes)) {
        run_agent_send_parts(run); /* the hub says what is wrong with this part */
        if (!run_gather_add(gather, pe, part, bytes)) {
            handle_launcher_loss(run, "no memory for an exchange");
            return;
        }
        run_agent_send_parts(run);
    }
    if (run_gather_is_complete(gather))
        run_agent_send_parts(run);
}

static void pass_up(struct run *run, int pe, const struct wire_frame *frame)
{
    if (frame->type == FRAME_PART) {
        add_part(run, run->first + pe, frame->payload, frame->bytes);
        return;
    }
    if (run_gather_holds(&run->agent->gather, run->first + pe))
        run_agent_send_parts(run);
    bool failure = frame->type == FRAME_FAILED || frame->type == FRAME_ABORT;
    struct host_relay relay = {.pe = run->first + pe,
                               .type = frame->type,
                               .number = frame->number,
                               .sender = frame->sender,
                               .dying = failure && run_another_is_dying(run, pe)};
    char *text = malloc(sizeof relay + frame->bytes);
    if (!text) {
        handle_launcher_loss(run, "no memory for a frame to it");
        return;
    }
    memcpy(text, &relay, sizeof relay);
    memcpy(text + sizeof relay, frame->payload, frame->bytes);
    run_agent_report(run, HOST_RELAY, 0, text, sizeof relay + frame->bytes);
    free(text);
}

void run_agent_exited(struct run *run, int pe)
{
    int32_t wait_status = run->pes[pe].wait_status;
    run_agent_report(run, HOST_EXITED, run->first + pe, &wait_status, sizeof wait_status);
}

void run_agent_program_ended(struct run *run, int pe)
{
    if (run->pes[pe].joined)
        run_agent_report(run, HOST_PROGRAM_ENDED, run->first + pe, NULL, 0);
}

/* --------------------------------------------------------------------------------- from the PEs */

static void send_down(struct run *run, int pe, uint32_t type, int number, const void *payload,
                      size_t bytes, int fd)
{
    struct wire *wire = &run->hub.wires[pe];
    if (wire->fd < 0)
        return;
    weft_status status = wire_post(wire, type, number, payload, bytes, fd);
    if (status && status != WEFT_ERR_PEER_DEAD)
        run_say("sending to %s: %s", run_pe_name(run, pe), weft_last_error());
    run->retry_soon |= wire->starved;
    run_rewatch(run, wire->fd, wire->unsent ? EPOLLIN | EPOLLOUT : EPOLLIN, RUN_EVENT_SOCKET, pe);
}

/* Passes a descriptor to the PEs of this host that the frame lists. A job with all PEs on one
 * node lists none, which means all PEs (hub.c). */
static void pass_descriptor(struct run *run, int from, const struct wire_frame *frame)
{
    if (frame->fd < 0) {
        static const char lost[] =
            "a descriptor did not arrive at weft run: raise the limit of open "
            "files (ulimit -n)";
        struct wire_frame *failed =
            wire_frame_make(FRAME_FAILED, WEFT_ERR_SYSTEM, lost, strlen(lost), -1);
        if (failed)
            pass_up(run, from, failed);
        wire_frame_free(failed);
        return;
    }
    const size_t listed = frame->bytes / sizeof(int32_t);
    const size_t count = listed ? listed : (size_t)run->started;
    for (size_t i = 0; i < count; i++) {
        int32_t to = (int32_t)(run->first + (int)i);
        if (listed)
            memcpy(&to, frame->payload + i * sizeof to, sizeof to);
        to -= run->first;
        if (to != from && to >= 0 && to < run->started)
            send_down(run, to, FRAME_FD, run->first + from, NULL, 0, frame->fd);
    }
}

static void act_on(struct run *run, int number, struct wire_frame *frame)
{
    struct run_pe *pe = &run->pes[number];
    if (frame->type == FRAME_FD) {
        pass_descriptor(run, number, frame);
        return;
    }
    if (frame->type == FRAME_JOIN) {
        pe->joined = true;
        pe->jobs++;
        pe->program = frame->sender;
        pe->program_gone = false;
        run_watch_program(run, number);
    } else if (frame->type == FRAME_BYE) {
        run_unwatch_program(run, number);
        pe->joined = frame->number != 1;
    }
    pass_up(run, number, frame);
}

void run_agent_serve(struct run *run, int pe)
{
    struct wire *wire = &run->hub.wires[pe];
    struct wire_frame *frame;
    if (wire->fd < 0)
        return;
    weft_status status = wire_read(wire);
    char why[HUB_MOST_SENTENCE];
    snprintf(why, sizeof why, "its connection to weft run failed: %.300s",
             status ? weft_last_error() : "");
    while ((frame = wire_take(wire))) {
        act_on(run, pe, frame);
        wire_frame_free(frame);
    }
    if (!status)
        return;
    run_close_socket(run, pe);
    if (status == WEFT_ERR_PEER_DEAD) {
        run_agent_report(run, HOST_LOST, run->first + pe, NULL, 0);
        return;
    }
    frame = wire_frame_make(FRAME_FAILED, status, why, strlen(why), -1);
    if (frame)
        pass_up(run, pe, frame);
    wire_frame_free(frame);
}

/* ---------------------------------------------------------------------------- from the launcher */

static void start_pes(struct run *run)
{
    struct run_agent *agent = run->agent;
    char *path = NULL;
    agent->go = true;
    int result = run_find_program(run->options.command[0], &path);
    run->started_ns = clock_now_ns();
    if (!result && !run_start_pes(run, path))
        result = run->ending.result > 0 ? run->ending.result : EXIT_FAULT;
    free(path);
    run->ending.result = -1; /* the launcher decides the result */
    const int32_t host = agent->index;
    int32_t *pids = calloc((size_t)run->options.npes, sizeof *pids);
    for (int pe = 0; pids && pe < run->started; pe++)
        pids[pe] = run->pes[pe].pid;
    if (result) {
        run_agent_report(run, HOST_REFUSED, result, &host, sizeof host);
        run_begin_end(run, -1, WEFT_ERR_BOOT, result, "weft run could not start every PE");
    } else {
        run_agent_report(run, HOST_STARTED, host, pids,
                         pids ? (size_t)run->started * sizeof *pids : 0);
    }
    free(pids);
}

/* Forwards a frame of the launcher to the child that leads to a PE, or to all children. */
static void forward_down(struct run *run, int pe, const struct wire_frame *frame)
{
    for (int i = 0; i < run->hosts.count; i++) {
        const struct run_host *host = &run->hosts.list[i];
        if (host->member &&
            (pe == HOST_EVERY_PE || (pe >= host->first && pe < host->first + host->npes)))
            run_hosts_send(run, i, (int)frame->type, frame->number, frame->payload, frame->bytes);
    }
}

static void signal_one(struct run *run, int number, const struct wire_frame *frame)
{
    int32_t pe;
    if (frame->bytes != sizeof pe)
        return;
    memcpy(&pe, frame->payload, sizeof pe);
    if (pe != HOST_EVERY_PE)
        forward_down(run, pe, frame);
    pe -= run->first;
    if (pe >= 0 && pe < run->started && !run->pes[pe].exited)
        kill(-run->pes[pe].group, number);
}

static void relay_down(struct run *run, const struct wire_frame *frame)
{
    struct host_relay relay;
    if (frame->bytes < sizeof relay)
        return;
    memcpy(&relay, frame->payload, sizeof relay);
    if (relay.type == FRAME_ALL)
        run->agent->gather.passed = 0; /* the exchange has ended */
    forward_down(run, relay.pe, frame);
    for (int pe = 0; pe < run->started; pe++)
        if (relay.pe == HOST_EVERY_PE || relay.pe == run->first + pe)
            send_down(run, pe, relay.type, relay.number, frame->payload + sizeof relay,
                      frame->bytes - sizeof relay, -1);
}

static void handle_launcher_frame(struct run *run, const struct wire_frame *frame)
{
    switch (frame->type) {
    case HOST_GO:
        if (run->agent->go)
            break;
        forward_down(run, HOST_EVERY_PE, frame);
        start_pes(run);
        break;
    case HOST_SIGNAL:
        signal_one(run, frame->number, frame);
        break;
    case HOST_RELAY:
        relay_down(run, frame);
        break;
    case HOST_FINISH:
        run->agent->finish = true;
        break;
    }
}

void run_agent_receive(struct run *run, uint32_t events)
{
    struct run_agent *agent = run->agent;
    struct wire_frame *frame;
    char why[256] = "its end of the connection is closed";
    if (agent->up_lost)
        return;
    if (events & EPOLLOUT) {
        wire_flush(&agent->up); /* the next read reports a failure */
        watch_launcher(run);
    }
    weft_status status = wire_read(&agent->up);
    if (status == WEFT_ERR_PEER_DEAD && agent->up.error)
        snprintf(why, sizeof why, "it does not answer any more: %s", strerror(agent->up.error));
    else if (status && status != WEFT_ERR_PEER_DEAD)
        snprintf(why, sizeof why, "%.250s", weft_last_error());
    while (!agent->up_lost && (frame = wire_take(&agent->up))) {
        handle_launcher_frame(run, frame);
        wire_frame_free(frame);
    }
    if (status)
        handle_launcher_loss(run, why);
}

/* ---------------------------------------------------------------------------- from the agents
 * below */

static void pass_parts(struct run *run, const struct run_host *child, struct wire_frame *frame)
{
    struct run_parts parts;
    const char *data = run_parts_read(frame, child->first, child->npes, &parts);
    for (int i = 0; data && i < parts.count && !run->agent->up_lost; i++)
        add_part(run, parts.first + i, data + (size_t)i * parts.bytes, parts.bytes);
}

void run_agent_pass(struct run *run, int index, struct wire_frame *frame)
{
    struct host_relay relay;
    if (frame->type == HOST_PARTS) {
        pass_parts(run, &run->hosts.list[index], frame);
        return;
    }
    if (frame->type == HOST_RELAY && frame->bytes >= sizeof relay) {
        memcpy(&relay, frame->payload, sizeof relay);
        if (run_gather_holds(&run->agent->gather, relay.pe))
            run_agent_send_parts(run);
    }
    run_agent_report(run, (int)frame->type, frame->number, frame->payload, frame->bytes);
}

/* ------------------------------------------------------------------------------------ the agent */

/* Adds the launcher's address from SSH_CONNECTION, which is reachable from this host. */
static void add_address_of_ssh(struct run_agent *agent)
{
    const char *from = getenv("SSH_CONNECTION");
    char text[96] = "";
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    if (!from || sscanf(from, "%95s", text) != 1 || getaddrinfo(text, NULL, &hints, &found) != 0)
        return;
    struct rendezvous_address *at = &agent->addresses[agent->address_count],
                              first = agent->addresses[0];
    in_port_t port = first.address.ss_family == AF_INET
                         ? ((struct sockaddr_in *)&first.address)->sin_port
                         : ((struct sockaddr_in6 *)&first.address)->sin6_port;
    memcpy(&at->address, found->ai_addr, found->ai_addrlen);
    at->bytes = found->ai_addrlen;
    if (at->address.ss_family == AF_INET)
        ((struct sockaddr_in *)&at->address)->sin_port = port;
    else
        ((struct sockaddr_in6 *)&at->address)->sin6_port = port;
    agent->address_count++;
    freeaddrinfo(found);
}

/* The launcher keeps the agent's standard input open until the agent is connected. */
static weft_status check_launcher(void *argument)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLRDHUP};
    if (poll(&input, 1, 0) == 1 && input.revents & (POLLHUP | POLLRDHUP | POLLERR))
        return base_fail(WEFT_ERR_BOOT,
                         "the launcher has gone before this host was connected to it");
    return WEFT_OK;
}

static bool connect_to_launcher(struct run *run)
{
    struct run_agent *agent = run->agent;
    struct rendezvous rendezvous = {.what = "connecting to the launcher",
                                    .n = agent->members,
                                    .me = agent->member,
                                    .key = agent->secret,
                                    .key_bytes = strlen(agent->secret),
                                    .secret = "secret",
                                    .still_wanted = check_launcher};
    snprintf(rendezvous.job, sizeof rendezvous.job, "%s", agent->job);
    add_address_of_ssh(agent);
    if (rendezvous_connect(&rendezvous, agent->addresses, agent->address_count, &agent->up)) {
        /* A launcher that has gone has said why. */
        if (!check_launcher(NULL))
            run_say("%s", weft_last_error());
        return false;
    }
    return run_watch(run, agent->up.fd, EPOLLIN, RUN_EVENT_LAUNCHER, 0) == 0;
}

weft_status run_agent_check_parent(struct run *run)
{
    struct wire *up = &run->agent->up;
    if (wire_read(up) == WEFT_OK)
        return WEFT_OK;
    run->agent->up_lost = true;
    return base_fail(WEFT_ERR_BOOT, "the launcher has gone before every host was connected to it");
}

/* Connects the hosts below this one, and reports it to the parent. */
static bool connect_hosts(struct run *run)
{
    struct run_agent *agent = run->agent;
    bool good = !run->hosts.list || run_hosts_connect(run);
    explicit_bzero(agent->secret, strlen(agent->secret)); /* PEs are forked from this process */
    if (good && run->hosts.list)
        run_agent_report(run, HOST_READY, 0, NULL, 0);
    return good;
}

static bool enter_directory(const struct run_agent *agent)
{
    if (!agent->directory || chdir(agent->directory) == 0)
        return true;
    run_say("%s, the launcher's directory: %s", agent->directory, strerror(errno));
    return false;
}

int run_agent_main(struct run *run)
{
    struct run_agent *agent = run->agent;
    int result = EXIT_FAULT;
    if (!enter_directory(agent) || !run_prepare(run))
        goto out;
    run->input.relay = false; /* PE 0 reads the rest of the agent's standard input */
    if (!connect_to_launcher(run) || !connect_hosts(run))
        goto out;
    result = run_loop(run);
    struct boot_limit second = {.left_ns = RUN_SECOND_NS};
    if (agent->up_lost)
        result = HOST_EXIT_LOST;
    else
        wire_send(&agent->up, &second, HOST_DONE, 0, NULL, 0, -1);
out:
    run_stop_guard(run);
    wire_close(&agent->up);
    run_hosts_close(run);
    run_gather_drop(&agent->gather);
    free(run->pes);
    free(run->options.command);
    free(agent->addresses);
    return result;
}

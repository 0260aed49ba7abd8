/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of `weft run --hosts` (hosts.h), and an agent's side towards its children:
 * frames to and from them, and their loss. The rest of `weft run` reaches a PE on another host
 * through run_hosts_signal() and run_hosts_relay(). How a job ends is decided elsewhere. */
#include "run/hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FINISH_SECONDS = 8, SECONDS_PER_LEVEL = 2 };

/* The hosts are in the order of their PEs. */
int run_host_with(const struct run *run, int pe)
{
    int low = 0, high = run->hosts.count;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (pe < run->hosts.list[middle].first)
            high = middle;
        else
            low = middle;
    }
    return low;
}

const char *run_host_of(const struct run *run, int pe)
{
    if (run->agent)
        return run->agent->host;
    const struct run_host *host =
        run->hosts.count ? &run->hosts.list[run_host_with(run, pe)] : NULL;
    return host && pe >= host->first && pe < host->first + host->count ? host->label : NULL;
}

struct wire *run_host_wire(const struct run *run, int index)
{
    const int member = run->hosts.list[index].member;
    return member && run->hosts.wires ? &run->hosts.wires[member] : NULL;
}

/* Name for messages, such as "host b (10.0.0.2)" once its agent has connected. Only the remote
 * shell resolves names, which can take long when the network fails. */
const char *run_describe_host(const struct run_host *host)
{
    static char text[320];
    snprintf(text, sizeof text, "host %.200s%s%s%s", host->label, host->address[0] ? " (" : "",
             host->address, host->address[0] ? ")" : "");
    return text;
}

/* ---------------------------------------------------------------------------------- to agents */

static void watch_host(struct run *run, int host)
{
    const struct wire *wire = run_host_wire(run, host);
    run->retry_soon |= wire->starved;
    run_rewatch(run, wire->fd, wire->unsent ? EPOLLIN | EPOLLOUT : EPOLLIN, RUN_EVENT_HOST, host);
}

static void give_up_host(struct run *run, int index, const char *why);

void run_hosts_send(struct run *run, int index, int type, int number, const void *payload,
                    size_t bytes)
{
    const int child = run->hosts.list[index].via;
    struct wire *wire = run_host_wire(run, child);
    if (wire->fd < 0)
        return;
    weft_status status = wire_post(wire, (uint32_t)type, number, payload, bytes, -1);
    if (status && status != WEFT_ERR_PEER_DEAD) /* the loop will read its end */
        give_up_host(run, child, weft_last_error());
    else
        watch_host(run, child);
}

void run_hosts_signal(struct run *run, int pe, int number)
{
    int32_t to = pe;
    if (!run->pes[pe].exited)
        run_hosts_send(run, run_host_with(run, pe), HOST_SIGNAL, number, &to, sizeof to);
}

/* Whether this is the first PE behind a child of the launcher. */
static bool is_first_of_child(const struct run *run, int pe)
{
    const struct run_host *host = &run->hosts.list[run_host_with(run, pe)];
    return host->member && pe == host->first;
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
    if (together ? !is_first_of_child(run, pe) : run->pes[pe].exited)
        return;
    struct host_relay relay = {.pe = together ? HOST_EVERY_PE : pe, .type = type, .number = number};
    const int host = run_host_with(run, pe);
    char *frame = malloc(sizeof relay + bytes);
    if (!frame) {
        give_up_host(run, run->hosts.list[host].via, "no memory for a frame to it");
        return;
    }
    memcpy(frame, &relay, sizeof relay);
    if (bytes)
        memcpy(frame + sizeof relay, payload, bytes);
    run_hosts_send(run, host, HOST_RELAY, 0, frame, sizeof relay + bytes);
    free(frame);
}

bool run_hosts_start(struct run *run)
{
    run->started = run->alive = run->options.npes;
    run->input.pipe = run->hosts.list[0].stdin_end;
    run->hosts.list[0].stdin_end = -1;
    for (int i = 0; i < run->hosts.count; i++)
        if (run->hosts.list[i].member)
            run_hosts_send(run, i, HOST_GO, 0, NULL, 0);
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

/* "host b (10.0.0.2) with PEs 4 to 7 is lost: ...; so are the 3 hosts that it had started, from c
 * to e" */
static void describe_host_loss(const struct run *run, int index, const char *why, char *text,
                               size_t size)
{
    const struct run_host *host = &run->hosts.list[index];
    char pes[64];
    snprintf(pes, sizeof pes, host->count > 1 ? "PEs %d to %d" : "PE %d", host->first,
             host->first + host->count - 1);
    int n = snprintf(text, size, "%s with %s is lost: %.200s", run_describe_host(host), pes, why);
    const struct run_host *last = host + host->below;
    if (host->below == 1)
        snprintf(text + n, size - (size_t)n, "; so is host %.100s, which it had started",
                 last->label);
    else if (host->below)
        snprintf(text + n, size - (size_t)n,
                 "; so are the %d hosts that it had started, from %.80s to %.80s", host->below,
                 host[1].label, last->label);
}

/* Records that a host is lost, with the hosts below it and their PEs. Processes left there end
 * themselves, since they have lost the launcher too. */
static void lose_host(struct run *run, int index, const char *why)
{
    char sentence[HUB_MOST_SENTENCE + 500];
    bool any = false;
    describe_host_loss(run, index, why, sentence, sizeof sentence);
    const struct run_host *first = &run->hosts.list[index], *last = first + first->below;
    for (int i = index; i <= index + first->below; i++)
        run->hosts.list[i].lost = true;
    for (int pe = first->first; pe < last->first + last->count; pe++) {
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

/* An agent leaves it to the launcher to record that a host is lost. */
static void report_host_loss(const struct run_host *host, struct run *run, const char *why)
{
    struct host_loss loss = {.address = ""};
    snprintf(loss.address, sizeof loss.address, "%s", host->address);
    snprintf(loss.why, sizeof loss.why, "%s", why);
    run_agent_report(run, HOST_GONE, host->number, &loss, sizeof loss);
}

/* Gives up a child and the hosts below it. */
static void give_up_host(struct run *run, int index, const char *why)
{
    struct run_host *host = &run->hosts.list[index];
    struct wire *wire = run_host_wire(run, index);
    char copy[HUB_MOST_SENTENCE]; /* `why` may be the last error */
    if (host->lost || host->done)
        return;
    host->lost = true;
    snprintf(copy, sizeof copy, "%s", why);
    if (wire->fd >= 0)
        run_unwatch(run, wire->fd);
    wire_close(wire);
    if (run->agent)
        report_host_loss(host, run, copy);
    else
        lose_host(run, index, copy);
}

static void handle_host_loss(struct run *run, int index, const struct wire_frame *frame)
{
    struct run_host *host = &run->hosts.list[index];
    struct host_loss loss;
    if (frame->bytes != sizeof loss || host->lost)
        return;
    memcpy(&loss, frame->payload, sizeof loss);
    loss.address[sizeof loss.address - 1] = loss.why[sizeof loss.why - 1] = '\0';
    snprintf(host->address, sizeof host->address, "%s", loss.address);
    lose_host(run, index, loss.why);
}

static void read_pids(struct run *run, const struct run_host *host, const struct wire_frame *frame)
{
    for (int i = 0; i < host->count && (size_t)(i + 1) * sizeof(int32_t) <= frame->bytes; i++) {
        int32_t pid;
        memcpy(&pid, frame->payload + (size_t)i * sizeof pid, sizeof pid);
        run->pes[host->first + i].pid = pid;
    }
}

static bool has_pe(const struct run_host *child, int pe)
{
    return pe >= child->first && pe < child->first + child->npes;
}

/* Hands a frame of a PE to the hub. */
static void hand_to_hub(struct run *run, int child, int pe, uint32_t type, int number,
                        int32_t sender, const char *payload, size_t bytes)
{
    struct wire_frame *frame = wire_frame_make(type, number, payload, bytes, -1);
    if (!frame) {
        give_up_host(run, child, "no memory for a frame from it");
        return;
    }
    frame->sender = sender;
    hub_handle(&run->hub, pe, frame);
}

static void handle_relay(struct run *run, int child, const struct wire_frame *frame)
{
    struct host_relay relay;
    if (frame->bytes < sizeof relay)
        return;
    memcpy(&relay, frame->payload, sizeof relay);
    if (!has_pe(&run->hosts.list[child], relay.pe))
        return;
    run->ending.some_dying |= relay.dying != 0;
    hand_to_hub(run, child, relay.pe, relay.type, relay.number, relay.sender,
                frame->payload + sizeof relay, frame->bytes - sizeof relay);
}

static void handle_parts(struct run *run, int child, const struct wire_frame *frame)
{
    const struct run_host *host = &run->hosts.list[child];
    struct run_parts parts;
    const char *data = run_parts_read(frame, host->first, host->npes, &parts);
    for (int i = 0; data && i < parts.count && !host->lost; i++)
        hand_to_hub(run, child, parts.first + i, FRAME_PART, 0, 0, data + (size_t)i * parts.bytes,
                    parts.bytes);
}

static void handle_refusal(struct run *run, const struct run_host *host, int result)
{
    run->ending.result = run->ending.result < 0 ? result : run->ending.result;
    if (run->ending.phase == RUN_WORKING)
        run_begin_end(run, -1, WEFT_ERR_BOOT, run->ending.result, "not every PE could be started");
    for (int pe = host->first; pe < host->first + host->count; pe++)
        handle_pe_exit(run, pe, 127 << 8);
}

/* The host that a frame is about, which is a child or below it; else NULL. */
static struct run_host *find_host(struct run *run, int child, int number)
{
    struct run_host *host = &run->hosts.list[child];
    return number >= host->number && number <= host->number + host->below
               ? host + (number - host->number)
               : NULL;
}

static void handle_agent_frame(struct run *run, int child, struct wire_frame *frame)
{
    int pe = frame->number;
    bool ours = has_pe(&run->hosts.list[child], pe);
    struct run_host *host = find_host(run, child, frame->number);
    int32_t payload = 0;
    memcpy(&payload, frame->payload, frame->bytes == sizeof payload ? sizeof payload : 0);
    switch (frame->type) {
    case HOST_STARTED:
        if (host)
            read_pids(run, host, frame);
        break;
    case HOST_REFUSED:
        host = frame->bytes == sizeof payload ? find_host(run, child, payload) : NULL;
        if (host)
            handle_refusal(run, host, frame->number);
        break;
    case HOST_RELAY:
        handle_relay(run, child, frame);
        break;
    case HOST_PARTS:
        handle_parts(run, child, frame);
        break;
    case HOST_EXITED:
        if (!ours || frame->bytes != sizeof payload)
            break;
        run->pes[pe].to_judge = !run->pes[pe].exited;
        handle_pe_exit(run, pe, payload);
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
    case HOST_GONE:
        if (host)
            handle_host_loss(run, (int)(host - run->hosts.list), frame);
        break;
    case HOST_DONE:
        run->hosts.list[child].done = true;
        break;
    }
}

/* An agent forwards the frames of its children. */
static void take_agent_frame(struct run *run, int child, struct wire_frame *frame)
{
    if (!run->agent)
        handle_agent_frame(run, child, frame);
    else if (frame->type == HOST_DONE)
        run->hosts.list[child].done = true;
    else
        run_agent_pass(run, child, frame);
}

void run_hosts_serve(struct run *run, int index, uint32_t events)
{
    struct run_host *host = &run->hosts.list[index];
    struct wire *wire = run_host_wire(run, index);
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
        take_agent_frame(run, index, frame);
        wire_frame_free(frame);
    }
    if (!run->agent)
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
    run_describe_wait_status(status, how, sizeof how);
    if (WIFEXITED(status) && WEXITSTATUS(status) == HOST_EXIT_LOST)
        snprintf(why, sizeof why, "this host does not answer its agent any more");
    else
        snprintf(why, sizeof why, "`%.300s` %s", host->rsh, how);
    give_up_host(run, index, why);
}

/* ------------------------------------------------------------------------------------- the end */

/* A parent waits longer than its children, so that the agent next to a hanging host names it. */
static uint64_t finish_seconds(const struct run *run)
{
    const int levels = run->hosts.levels > 1 ? run->hosts.levels - 1 : 0;
    return FINISH_SECONDS + (uint64_t)levels * SECONDS_PER_LEVEL;
}

bool run_hosts_wait(struct run *run)
{
    bool some = false;
    if (!run->hosts.end_ns)
        run->hosts.end_ns =
            clock_now_ns() + 2 * run->options.grace_ns + finish_seconds(run) * RUN_SECOND_NS;
    for (int i = 0; i < run->hosts.count; i++) {
        struct run_host *host = &run->hosts.list[i];
        if (host->member && !host->finishing && !host->lost)
            run_hosts_send(run, i, HOST_FINISH, 0, NULL, 0);
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
        run->hosts.end_ns = now + finish_seconds(run) * RUN_SECOND_NS;
    if (!run->hosts.end_ns || now < run->hosts.end_ns)
        return;
    run->hosts.end_ns = UINT64_MAX;
    for (int i = 0; i < run->hosts.count; i++)
        if (run->hosts.list[i].pid > 0)
            give_up_host(run, i, "it has not ended in time; processes may be left there");
}

/* The agents below see that the connection is closed, and end their PEs. */
void run_hosts_abandon(struct run *run)
{
    for (int i = 0; i < run->hosts.count; i++) {
        struct wire *wire = run_host_wire(run, i);
        if (!wire)
            continue;
        run->hosts.list[i].lost = true;
        if (wire->fd >= 0)
            run_unwatch(run, wire->fd);
        wire_close(wire);
    }
}

void run_hosts_close(struct run *run)
{
    for (int i = 0; i < run->hosts.count; i++) {
        struct run_host *host = &run->hosts.list[i];
        if (run_host_wire(run, i))
            wire_close(run_host_wire(run, i));
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

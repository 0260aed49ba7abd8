/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of an exchange stay in the inbox until the exchange takes them. Frames that report an end
 * are handled when they arrive. See member.h. */
#include "boot/hub/member.h"

#include "base/status.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int find_pe(const struct member *member, int other)
{
    return member->pes ? member->pes[other] : other;
}

static const char *describe_hub(const struct member *member)
{
    static _Thread_local char name[32];
    if (member->launched)
        return "the launcher (weft run)";
    snprintf(name, sizeof name, "PE %d", find_pe(member, 0));
    return name;
}

static weft_status get_end_status(struct member *member)
{
    weft_status status = atomic_load_explicit(&member->ended, memory_order_acquire);
    return status ? base_fail(status, "%s", member->sentence) : WEFT_OK;
}

/* The caller holds the lock. The first reason is kept. */
static weft_status record_end(struct member *member, weft_status why, const char *sentence)
{
    if (!atomic_load_explicit(&member->ended, memory_order_relaxed)) {
        snprintf(member->sentence, sizeof member->sentence, "%s", sentence);
        /* pairs with the acquire in get_end_status(): the sentence is complete */
        atomic_store_explicit(&member->ended, why, memory_order_release);
    }
    return get_end_status(member);
}

/* Records the end here and reports it to all members; `except` is the member that reported it, or
 * -1. */
static void end_job(struct member *member, weft_status why, const char *sentence, int except)
{
    char copy[HUB_MOST_SENTENCE + 1];
    if (atomic_load_explicit(&member->ended, memory_order_relaxed))
        return;
    snprintf(copy, sizeof copy, "%s", sentence); /* `sentence` may be the last error */
    record_end(member, why, copy);
    for (int to = 1; member->is_hub && to < member->n; to++)
        if (to != except)
            hub_send(&member->hub, to, FRAME_END, why, copy, strlen(copy), -1);
    if (!member->is_hub && member->inbox.fd >= 0)
        wire_post(&member->inbox, FRAME_FAILED, why, copy, strlen(copy), -1);
}

/* Describes why the connection between `other` and `here` is lost. A process that ends closes its
 * connection. A machine that is cut off does not, and the kernel reports an error after some time
 * (rendezvous_tune()). */
static void describe_loss(const struct member *member, int other, int here, int error, char *text,
                          size_t size)
{
    int gone = find_pe(member, other), pe = find_pe(member, here);
    struct boot_where where = boot_where(member->boot, gone), us = boot_where(member->boot, pe);
    if (error)
        snprintf(text, size, "PE %d%s does not answer PE %d%s any more: %s", gone, where.text, pe,
                 us.text, strerror(error));
    else
        snprintf(text, size,
                 "PE %d%s has ended: its connection to PE %d%s was closed before weft_finalize",
                 gone, where.text, pe, us.text);
}

/* ------------------------------------------------------------------ events of this PE's own hub */

static void on_joined(void *owner, int other, pid_t sender)
{
}

static void on_left(void *owner, int other, bool clean)
{
    struct member *member = owner;
    char sentence[120];
    member->left[other] = clean;
    snprintf(sentence, sizeof sentence, "PE %d left the job before weft_finalize",
             find_pe(member, other));
    if (!clean)
        end_job(member, WEFT_ERR_PEER_DEAD, sentence, other);
}

static void on_aborted(void *owner, int other, int code, const char *reason)
{
    struct member *member = owner;
    char sentence[HUB_MOST_SENTENCE + 80];
    snprintf(sentence, sizeof sentence, "PE %d aborted the job with code %d: %s",
             find_pe(member, other), code, reason);
    end_job(member, WEFT_ERR_JOB, sentence, -1);
}

static void on_failed(void *owner, int other, weft_status status, const char *sentence)
{
    end_job(owner, status, sentence, -1);
}

static void on_lost(void *owner, int other)
{
    struct member *member = owner;
    char sentence[320];
    epoll_ctl(member->epoll, EPOLL_CTL_DEL, member->wires[other].fd, NULL);
    close(member->wires[other].fd);
    member->wires[other].fd = -1;
    if (member->left[other])
        return;
    describe_loss(member, other, 0, member->wires[other].error, sentence, sizeof sentence);
    if (!atomic_load_explicit(&member->ended, memory_order_relaxed))
        member->inferred = true;
    end_job(member, WEFT_ERR_PEER_DEAD, sentence, other);
}

static void on_unsent_changed(void *owner, int other)
{
    struct member *member = owner;
    const struct wire *wire = &member->wires[other];
    struct epoll_event wanted = {.events = wire->unsent ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                 .data.fd = other};
    epoll_ctl(member->epoll, EPOLL_CTL_MOD, wire->fd, &wanted);
}

static const struct hub_events events = {
    .joined = on_joined,
    .left = on_left,
    .aborted = on_aborted,
    .failed = on_failed,
    .lost = on_lost,
    .unsent_changed = on_unsent_changed,
};

/* ---------------------------------------------------------------------------------- receiving */

static void drop_hub(struct member *member)
{
    char sentence[320];
    epoll_ctl(member->epoll, EPOLL_CTL_DEL, member->inbox.fd, NULL);
    if (!member->launched)
        close(member->inbox.fd);
    member->inbox.fd = -1;
    if (member->hub_left)
        return;
    if (!atomic_load_explicit(&member->ended, memory_order_relaxed))
        member->inferred = true;
    describe_loss(member, 0, member->me, member->inbox.error, sentence, sizeof sentence);
    if (member->launched)
        record_end(member, WEFT_ERR_BOOT, "the launcher (weft run) has ended; so does the job");
    else
        record_end(member, WEFT_ERR_PEER_DEAD, sentence);
}

/* Handles frames that report an end; the others stay queued, in order. */
static void handle_end_frames(struct member *member)
{
    for (int look = member->inbox.frames; look > 0; look--) {
        struct wire_frame *frame = wire_take(&member->inbox);
        if (frame->type != FRAME_BYE && frame->type != FRAME_END) {
            wire_push(&member->inbox, frame);
            continue;
        }
        if (frame->type == FRAME_BYE)
            member->hub_left = true;
        else
            record_end(member, frame->number < 0 ? (weft_status)frame->number : WEFT_ERR_JOB,
                       frame->payload);
        wire_frame_free(frame);
    }
}

static void read_inbox(struct member *member)
{
    if (member->inbox.fd < 0)
        return;
    weft_status status = wire_read(&member->inbox);
    char fault[HUB_MOST_SENTENCE - 60], sentence[HUB_MOST_SENTENCE];
    snprintf(fault, sizeof fault, "%s", status ? base_last_error() : "");
    handle_end_frames(member);
    if (status == WEFT_ERR_PEER_DEAD) {
        drop_hub(member);
    } else if (status) {
        snprintf(sentence, sizeof sentence, "the connection to %s failed: %s", describe_hub(member),
                 fault);
        end_job(member, status, sentence, -1);
    }
}

/* Reads what has arrived, without waiting. */
static weft_status process_events(struct member *member, bool *any)
{
    struct epoll_event happened[16];
    int n = epoll_wait(member->epoll, happened, 16, 0);
    *any = n > 0;
    if (n < 0 && errno != EINTR) {
        char sentence[128];
        snprintf(sentence, sizeof sentence,
                 "PE %d cannot receive from other PEs any more: epoll_wait: %s",
                 find_pe(member, member->me), strerror(errno));
        end_job(member, WEFT_ERR_SYSTEM, sentence, -1);
    }
    for (int i = 0; i < n; i++) {
        int other = happened[i].data.fd;
        if (!member->is_hub) {
            read_inbox(member);
            continue;
        }
        if (happened[i].events & EPOLLOUT)
            hub_flush(&member->hub, other);
        if (happened[i].events & ~(uint32_t)EPOLLOUT)
            hub_read(&member->hub, other);
    }
    return get_end_status(member);
}

/* Sends again on wires that ran out of kernel memory, for which epoll reports no event. Returns
 * whether some still have none. */
static bool retry_starved(struct member *member)
{
    bool any = false;
    for (int other = 1; member->is_hub && other < member->n; other++) {
        if (!member->wires[other].starved || !member->wires[other].unsent)
            continue;
        hub_flush(&member->hub, other);
        any |= member->wires[other].starved;
    }
    return any;
}

static weft_status await_frame(struct member *member, struct boot_limit *limit,
                               struct wire_frame **frame)
{
    while (!(*frame = wire_take(&member->inbox))) {
        bool any;
        weft_status status = process_events(member, &any);
        if (member->inbox.first) /* a frame that arrived before the end still counts */
            continue;
        if (status)
            return status;
        if (!member->is_hub && member->inbox.fd < 0)
            return base_fail(WEFT_ERR_PEER_DEAD, "%s has already finalized", describe_hub(member));
        if (!any && !(retry_starved(member) ? boot_limit_pause(limit)
                                            : boot_limit_poll(limit, member->epoll, POLLIN)))
            return boot_limit_status(limit);
    }
    return WEFT_OK;
}

static const char *describe_call(uint32_t type)
{
    return type == FRAME_FD ? "shares a descriptor" : "exchanges";
}

static weft_status await_frame_of(struct member *member, struct boot_limit *limit, uint32_t type,
                                  struct wire_frame **frame)
{
    weft_status status = await_frame(member, limit, frame);
    if (status || (*frame)->type == type)
        return status;
    status =
        base_fail(WEFT_ERR_MISMATCH, "the PEs do not make the same calls: PE %d %s, but another %s",
                  find_pe(member, member->me), describe_call(type), describe_call((*frame)->type));
    wire_frame_free(*frame);
    *frame = NULL;
    return status;
}

/* ------------------------------------------------------------------------------------ sending */

static weft_status send_to_hub(struct member *member, struct boot_limit *limit,
                               enum frame_type type, int number, const void *payload, size_t bytes,
                               int fd)
{
    if (member->is_hub) {
        int own = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
        struct wire_frame *frame = wire_frame_make(type, number, payload, bytes, own);
        if (!frame)
            return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a frame of %zu bytes", bytes);
        hub_handle(&member->hub, 0, frame);
        return get_end_status(member);
    }
    weft_status status = wire_send(&member->inbox, limit, type, number, payload, bytes, fd);
    if (status != WEFT_ERR_PEER_DEAD)
        return status ? base_fail_context(status, "%s", describe_hub(member)) : WEFT_OK;
    read_inbox(member); /* frames that the hub sent before it closed the connection say why */
    status = get_end_status(member);
    return status ? status
                  : base_fail(WEFT_ERR_PEER_DEAD, "%s has already finalized", describe_hub(member));
}

/* After a timeout: asks the hub which members are missing. */
static weft_status explain_timeout(struct member *member)
{
    struct boot_limit second = {.left_ns = 1000000000};
    struct wire_frame *frame = NULL;
    char text[HUB_MOST_SENTENCE];
    weft_status status = send_to_hub(member, &second, FRAME_WHO, 0, NULL, 0, -1);
    if (!status)
        status = await_frame_of(member, &second, FRAME_MISSING, &frame);
    snprintf(text, sizeof text, "%s", frame ? frame->payload : "");
    wire_frame_free(frame);
    if (!status)
        return base_fail(WEFT_ERR_TIMEOUT, "%s within WEFT_WAIT_LIMIT", text);
    return base_fail(WEFT_ERR_TIMEOUT, "%s did not reach an exchange within WEFT_WAIT_LIMIT",
                     describe_hub(member));
}

/* ---------------------------------------------------------------------------------- exchanges */

static weft_status gather_slice(struct member *member, const char *mine, size_t bytes,
                                struct wire_frame **answer)
{
    struct boot_limit limit = boot_limit_start();
    weft_status status = send_to_hub(member, &limit, FRAME_PART, 0, mine, bytes, -1);
    if (!status)
        status = await_frame_of(member, &limit, FRAME_ALL, answer);
    if (status == WEFT_ERR_TIMEOUT)
        return explain_timeout(member);
    if (status || (*answer)->bytes == bytes * (size_t)member->n)
        return status;
    return base_fail(WEFT_ERR_BOOT, "%s gathered %zu bytes instead of %zu", describe_hub(member),
                     (*answer)->bytes, bytes * (size_t)member->n);
}

static weft_status gather_slices(struct member *member, const char *mine, char *all, size_t bytes)
{
    size_t done = 0;
    do {
        struct wire_frame *answer = NULL;
        size_t slice = bytes - done;
        if (slice > hub_slice(member->n))
            slice = hub_slice(member->n);
        weft_status status = gather_slice(member, mine + done, slice, &answer);
        for (int other = 0; !status && other < member->n; other++)
            memcpy(all + (size_t)other * bytes + done, answer->payload + (size_t)other * slice,
                   slice);
        wire_frame_free(answer);
        if (status)
            return status;
        done += slice;
    } while (done < bytes);
    return WEFT_OK;
}

/* After any failure: ends the job, so that no other PE waits for this one. */
static weft_status end_job_on_failure(struct member *member, weft_status status)
{
    if (!status)
        return WEFT_OK;
    if (status == WEFT_ERR_INTERRUPTED) {
        char sentence[80];
        snprintf(sentence, sizeof sentence, "PE %d was interrupted while it waited in weft_init",
                 find_pe(member, member->me));
        end_job(member, WEFT_ERR_JOB, sentence, -1);
        return base_fail(status, "%s", sentence);
    }
    end_job(member, status, base_last_error(), -1);
    return get_end_status(member);
}

weft_status member_allgather(struct member *member, const void *mine, void *all, size_t bytes)
{
    char nothing = 0, none[1];
    pthread_mutex_lock(&member->lock);
    weft_status status = get_end_status(member);
    if (!status)
        status = end_job_on_failure(
            member, gather_slices(member, bytes ? mine : &nothing, bytes ? all : none, bytes));
    pthread_mutex_unlock(&member->lock);
    return status;
}

/* -------------------------------------------------------------------------------- descriptors */

static weft_status send_fd(struct member *member, int fd, const int *to, int count, int *taken)
{
    struct boot_limit limit = boot_limit_start();
    *taken = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*taken < 0)
        return base_fail(WEFT_ERR_SYSTEM, "duplicating descriptor %d: %s%s", fd, strerror(errno),
                         errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
    _Static_assert(sizeof(int) == sizeof(int32_t), "the list travels as it is");
    return send_to_hub(member, &limit, FRAME_FD, member->me, to,
                       to ? (size_t)count * sizeof *to : 0, fd);
}

static weft_status receive_fd(struct member *member, int from, int *taken)
{
    struct boot_limit limit = boot_limit_start();
    struct wire_frame *frame = NULL;
    weft_status status = await_frame_of(member, &limit, FRAME_FD, &frame);
    if (status == WEFT_ERR_TIMEOUT)
        return base_fail(status, "PE %d did not share a descriptor within WEFT_WAIT_LIMIT",
                         find_pe(member, from));
    if (status)
        return status;
    int sharing = frame->number;
    *taken = frame->fd;
    free(frame);
    if (*taken < 0)
        return base_fail(WEFT_ERR_SYSTEM,
                         "a descriptor of PE %d did not arrive: this process has none left; "
                         "raise the limit of open files (ulimit -n)",
                         find_pe(member, from));
    if (sharing == from)
        return WEFT_OK;
    return base_fail(WEFT_ERR_MISMATCH,
                     "PE %d expects a descriptor of another PE than the one that shares it",
                     find_pe(member, member->me));
}

weft_status member_share_fd(struct member *member, int from, int fd, const int *to, int count,
                            int *taken)
{
    *taken = -1;
    pthread_mutex_lock(&member->lock);
    weft_status status = get_end_status(member);
    if (!status)
        status =
            end_job_on_failure(member, member->me == from ? send_fd(member, fd, to, count, taken)
                                                          : receive_fd(member, from, taken));
    pthread_mutex_unlock(&member->lock);
    if (status && *taken >= 0) {
        close(*taken);
        *taken = -1;
    }
    return status;
}

/* ---------------------------------------------------------------------------------------- end */

void member_fail(struct member *member, weft_status why, const char *sentence)
{
    pthread_mutex_lock(&member->lock);
    end_job(member, why, sentence, -1);
    pthread_mutex_unlock(&member->lock);
}

void member_abort(struct member *member, int code, const char *sentence)
{
    struct boot_limit second = {.left_ns = 1000000000};
    size_t bytes = strnlen(sentence, HUB_MOST_SENTENCE);
    /* Another thread may hold the lock while it waits. This process is about to end and does not
     * wait for the lock. If it is a hub, it then sends nothing, because that thread uses its
     * wires. */
    bool locked = pthread_mutex_trylock(&member->lock) == 0;
    if (locked || !member->is_hub)
        send_to_hub(member, &second, FRAME_ABORT, code, sentence, bytes, -1);
    if (locked)
        pthread_mutex_unlock(&member->lock);
}

weft_status member_check(struct member *member)
{
    /* The thread that holds the lock is in a call, and reads what arrives. */
    if (atomic_load_explicit(&member->ended, memory_order_relaxed) ||
        pthread_mutex_trylock(&member->lock) != 0)
        return get_end_status(member);
    bool any;
    weft_status status = get_end_status(member);
    if (!status)
        status = process_events(member, &any);
    pthread_mutex_unlock(&member->lock);
    return status;
}

void member_forked(struct member *member)
{
    for (int other = 1; member->is_hub && other < member->n; other++)
        if (member->wires[other].fd >= 0)
            close(member->wires[other].fd);
    if (!member->is_hub && member->inbox.fd >= 0)
        close(member->inbox.fd);
    close(member->epoll);
}

/* Closing a socket with unread data discards data that the peer has not read yet. The hub therefore
 * waits, at most 2 s, until the other members have sent FRAME_BYE. */
static void await_byes(struct member *member)
{
    struct boot_limit limit = {.left_ns = 2000000000};
    for (int other = 1; other < member->n; other++) {
        while (member->wires[other].fd >= 0 && !member->left[other]) {
            bool any;
            if (process_events(member, &any))
                return;
            if (!any && !boot_limit_poll(&limit, member->epoll, POLLIN))
                return;
        }
    }
}

static void leave_as_hub(struct member *member, bool clean)
{
    char sentence[80];
    snprintf(sentence, sizeof sentence, "PE %d left the job before weft_finalize",
             find_pe(member, 0));
    if (!clean)
        end_job(member, WEFT_ERR_PEER_DEAD, sentence, -1);
    for (int to = 1; clean && !get_end_status(member) && to < member->n; to++)
        hub_send(&member->hub, to, FRAME_BYE, 1, NULL, 0, -1);
    if (clean && !get_end_status(member))
        await_byes(member);
}

static void release_member(struct member *member)
{
    for (int i = 0; member->is_hub && i < member->n; i++)
        wire_close(&member->wires[i]);
    if (member->launched)
        member->inbox.fd = -1; /* stays open: the next job uses it too */
    wire_close(&member->inbox);
    hub_free(&member->hub);
    if (member->epoll >= 0)
        close(member->epoll);
    free(member->wires);
    free(member->left);
    pthread_mutex_destroy(&member->lock);
    *member = (struct member){.epoll = -1, .inbox.fd = -1};
}

void member_close(struct member *member, bool clean)
{
    struct boot_limit second = {.left_ns = 1000000000};
    pthread_mutex_lock(&member->lock);
    if (member->is_hub && member->hub.n)
        leave_as_hub(member, clean);
    else if (member->inbox.fd >= 0)
        wire_send(&member->inbox, &second, FRAME_BYE, clean, NULL, 0, -1);
    pthread_mutex_unlock(&member->lock);
    release_member(member);
}

/* ------------------------------------------------------------------------------------- set-up */

static weft_status watch_socket(struct member *member, int fd, int number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = number};
    if (epoll_ctl(member->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_SYSTEM, "epoll_ctl: %s", strerror(errno));
}

static weft_status prepare_member(struct member *member, int n, int me, const int *pes)
{
    *member = (struct member){.n = n, .me = me, .pes = pes, .inbox.fd = -1};
    pthread_mutex_init(&member->lock, NULL);
    member->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (member->epoll >= 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_SYSTEM,
                     "epoll_create1: %s; raise the limit of open files (ulimit -n)",
                     strerror(errno));
}

static weft_status init_own_hub(struct member *member)
{
    struct wire *wires = member->wires;
    member->left = calloc((size_t)member->n, sizeof *member->left);
    if (!member->left)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for %d PEs", member->n);
    weft_status status = hub_init(&member->hub, member->n, wires, true);
    if (status)
        return status;
    member->hub.pes = member->pes;
    member->hub.local = &member->inbox;
    member->hub.events = &events;
    member->hub.owner = member;
    for (int other = 1; !status && other < member->n; other++)
        if (wires[other].fd >= 0)
            status = watch_socket(member, wires[other].fd, other);
    return status;
}

weft_status member_init(struct member *member, int n, int me, const int *pes, struct wire *wires)
{
    weft_status status = prepare_member(member, n, me, pes);
    member->is_hub = me == 0;
    if (member->is_hub) {
        member->wires = wires;
    } else {
        member->inbox = wires[0];
        free(wires);
    }
    if (!status)
        status = member->is_hub ? init_own_hub(member) : watch_socket(member, member->inbox.fd, 0);
    if (status)
        release_member(member);
    return status;
}

void member_refuse(struct wire *wires, int n, weft_status why)
{
    struct boot_limit second = {.left_ns = 1000000000};
    char sentence[HUB_MOST_SENTENCE];
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    for (int member = 1; member < n; member++) {
        if (wires[member].fd >= 0)
            wire_send(&wires[member], &second, FRAME_END, why, sentence, strlen(sentence), -1);
        wire_close(&wires[member]);
    }
    free(wires);
    base_fail(why, "%s", sentence);
}

weft_status member_init_launched(struct member *member, int n, int me, int fd)
{
    weft_status status = prepare_member(member, n, me, NULL);
    member->launched = true;
    wire_init(&member->inbox, fd, NULL, true);
    if (!status)
        status = watch_socket(member, fd, 0);
    struct boot_limit limit = boot_limit_start();
    if (!status)
        status = send_to_hub(member, &limit, FRAME_JOIN, 0, NULL, 0, -1);
    if (status)
        release_member(member);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Members around a hub. Frames that belong to an exchange wait in their wire's queue until the
 * exchange wants them; frames that tell of an end act when they arrive. See star.h. */
#include "boot/star.h"

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

enum frame_type {
    FRAME_PART = 1,      /* a member's part of an exchange */
    FRAME_ALL,           /* the hub's answer */
    FRAME_END,           /* number: a weft_status, payload: why the job ends */
    FRAME_BYE,           /* a clean end */
    FRAME_FD = 1u << 31, /* with a descriptor; number: the member that shares */
};

enum { STAR_MOST_ANSWER = 262144, MOST_SENTENCE = 400 };

static int pe_of(const struct star *star, int member)
{
    return star->pes ? star->pes[member] : member;
}

static int wire_count(const struct star *star)
{
    return star->me == 0 ? star->n : 1;
}

/* Which member is at the other end of wire i. */
static int member_at(const struct star *star, int i)
{
    return star->me == 0 ? i : 0;
}

static weft_status ended(struct star *star)
{
    weft_status status = atomic_load_explicit(&star->ended, memory_order_acquire);
    return status ? base_fail(status, "%s", star->sentence) : WEFT_OK;
}

/* Caller holds the lock. The first reason stays; `except` is the member that told us, or -1. */
static weft_status end_locked(struct star *star, weft_status why, const char *sentence, int except)
{
    if (atomic_load_explicit(&star->ended, memory_order_relaxed))
        return ended(star);
    snprintf(star->sentence, sizeof star->sentence, "%s", sentence);
    /* pairs with the acquire in ended(): the sentence is complete */
    atomic_store_explicit(&star->ended, why, memory_order_release);
    for (int i = 0; i < wire_count(star); i++)
        if (member_at(star, i) != star->me && member_at(star, i) != except &&
            star->wires[i].fd >= 0)
            wire_send(&star->wires[i], NULL, FRAME_END, why, sentence,
                      strnlen(sentence, MOST_SENTENCE), -1);
    return ended(star);
}

/* ---------------------------------------------------------------------------------- receiving */

static weft_status lose_member(struct star *star, int i)
{
    int member = member_at(star, i);
    epoll_ctl(star->epoll, EPOLL_CTL_DEL, star->wires[i].fd, NULL);
    close(star->wires[i].fd);
    star->wires[i].fd = -1;
    if (star->left[member])
        return WEFT_OK;
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "PE %d has ended: its connection to PE %d was closed before weft_finalize",
             pe_of(star, member), pe_of(star, star->me));
    if (!atomic_load_explicit(&star->ended, memory_order_relaxed))
        star->inferred = true;
    return end_locked(star, WEFT_ERR_PEER_DEAD, sentence, member);
}

/* Acts on the news among what has arrived; all else stays queued. */
static weft_status act_on_news(struct star *star, int i)
{
    struct wire *wire = &star->wires[i];
    weft_status status = WEFT_OK;
    for (int look = wire->frames; look > 0; look--) {
        struct wire_frame *frame = wire_take(wire);
        if (frame->type == FRAME_BYE) {
            star->left[member_at(star, i)] = true;
            free(frame);
        } else if (frame->type == FRAME_END) {
            status = end_locked(star, frame->number < 0 ? (weft_status)frame->number : WEFT_ERR_JOB,
                                frame->payload, member_at(star, i));
            free(frame);
        } else { /* back to the end of the queue: after `look` rounds the order is as it was */
            frame->next = NULL;
            if (wire->last)
                wire->last->next = frame;
            else
                wire->first = frame;
            wire->last = frame;
            wire->frames++;
        }
    }
    return status;
}

static weft_status read_wire(struct star *star, int i)
{
    weft_status status = wire_read(&star->wires[i]);
    weft_status news = act_on_news(star, i);
    if (news)
        return news;
    if (status == WEFT_ERR_PEER_DEAD)
        return lose_member(star, i);
    if (status) {
        char sentence[MOST_SENTENCE];
        snprintf(sentence, sizeof sentence, "the connection to PE %d failed: %s",
                 pe_of(star, member_at(star, i)), weft_last_error());
        return end_locked(star, status, sentence, -1);
    }
    return WEFT_OK;
}

/* Takes in what has arrived at any wire, without waiting. */
static weft_status read_wires(struct star *star, bool *any)
{
    struct epoll_event events[16];
    int n = epoll_wait(star->epoll, events, 16, 0);
    *any = n > 0;
    for (int i = 0; i < n; i++) {
        weft_status status = read_wire(star, events[i].data.fd);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* Waits for a frame from the member at wire i, whatever else arrives. */
static weft_status wait_frame(struct star *star, int i, struct boot_limit *limit,
                              struct wire_frame **frame)
{
    while (!(*frame = wire_take(&star->wires[i]))) {
        bool any;
        weft_status status = read_wires(star, &any);
        if (status)
            return status;
        if (star->wires[i].fd < 0 && !star->wires[i].first)
            return base_fail(WEFT_ERR_PEER_DEAD, "PE %d has already finalized",
                             pe_of(star, member_at(star, i)));
        if (!any && !boot_limit_poll(limit, star->epoll, POLLIN))
            return base_fail(WEFT_ERR_TIMEOUT,
                             "PE %d did not come to an exchange within WEFT_WAIT_LIMIT",
                             pe_of(star, member_at(star, i)));
    }
    return WEFT_OK;
}

static weft_status expect(struct star *star, int i, struct boot_limit *limit, uint32_t type,
                          struct wire_frame **frame)
{
    weft_status status = wait_frame(star, i, limit, frame);
    if (status || (*frame)->type == type)
        return status;
    if ((*frame)->fd >= 0)
        close((*frame)->fd);
    free(*frame);
    *frame = NULL;
    return base_fail(WEFT_ERR_MISMATCH, "PE %d and PE %d do not make the same calls at start",
                     pe_of(star, star->me), pe_of(star, member_at(star, i)));
}

/* When a member has closed its end, what it sent before says why. */
static weft_status send_frame(struct star *star, int i, struct boot_limit *limit, uint32_t type,
                              int number, const void *payload, size_t bytes, int fd)
{
    weft_status status = wire_send(&star->wires[i], limit, type, number, payload, bytes, fd);
    int pe = pe_of(star, member_at(star, i));
    if (status == WEFT_ERR_PEER_DEAD) {
        weft_status news = star->wires[i].fd >= 0 ? read_wire(star, i) : WEFT_OK;
        return news ? news : base_fail(status, "PE %d has already finalized", pe);
    }
    return status ? base_fail_context(status, "PE %d", pe) : WEFT_OK;
}

/* ---------------------------------------------------------------------------------- exchanges */

static weft_status hub_gather(struct star *star, const char *mine, size_t bytes, char *answer)
{
    struct boot_limit limit = boot_limit_start();
    memcpy(answer, mine, bytes);
    for (int member = 1; member < star->n; member++) {
        struct wire_frame *part;
        weft_status status = expect(star, member, &limit, FRAME_PART, &part);
        if (status)
            return status;
        bool same = part->bytes == bytes;
        if (same)
            memcpy(answer + (size_t)member * bytes, part->payload, bytes);
        else
            status = base_fail(WEFT_ERR_MISMATCH, "PE %d exchanges %zu bytes, PE %d %zu bytes",
                               pe_of(star, 0), bytes, pe_of(star, member), part->bytes);
        free(part);
        if (!same)
            return status;
    }
    for (int member = 1; member < star->n; member++) {
        weft_status status =
            send_frame(star, member, &limit, FRAME_ALL, 0, answer, bytes * (size_t)star->n, -1);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status member_gather(struct star *star, const char *mine, size_t bytes, char *answer)
{
    struct boot_limit limit = boot_limit_start();
    struct wire_frame *all;
    weft_status status = send_frame(star, 0, &limit, FRAME_PART, 0, mine, bytes, -1);
    if (!status)
        status = expect(star, 0, &limit, FRAME_ALL, &all);
    if (status)
        return status;
    if (all->bytes == bytes * (size_t)star->n)
        memcpy(answer, all->payload, all->bytes);
    else
        status = base_fail(WEFT_ERR_MISMATCH, "PE %d answered with %zu bytes where %zu were meant",
                           pe_of(star, 0), all->bytes, bytes * (size_t)star->n);
    free(all);
    return status;
}

static weft_status gather(struct star *star, const char *mine, char *all, size_t bytes,
                          char *answer, size_t slice_bytes)
{
    size_t done = 0;
    do {
        size_t slice = bytes - done < slice_bytes ? bytes - done : slice_bytes;
        weft_status status = star->me == 0 ? hub_gather(star, mine + done, slice, answer)
                                           : member_gather(star, mine + done, slice, answer);
        if (status) /* whatever it was, the others must not wait for it */
            return end_locked(star, status, weft_last_error(), -1);
        for (int member = 0; member < star->n; member++)
            memcpy(all + (size_t)member * bytes + done, answer + (size_t)member * slice, slice);
        done += slice;
    } while (done < bytes);
    return WEFT_OK;
}

weft_status star_allgather(struct star *star, const void *mine, void *all, size_t bytes)
{
    size_t slice_bytes = STAR_MOST_ANSWER / (size_t)star->n + 1;
    char nothing = 0, none[1];
    char *answer = malloc((bytes < slice_bytes ? bytes : slice_bytes) * (size_t)star->n + 1);
    if (!answer)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for an exchange of %zu bytes", bytes);
    pthread_mutex_lock(&star->lock);
    weft_status status = ended(star);
    if (!status)
        status =
            gather(star, bytes ? mine : &nothing, bytes ? all : none, bytes, answer, slice_bytes);
    pthread_mutex_unlock(&star->lock);
    free(answer);
    return status;
}

/* -------------------------------------------------------------------------------- descriptors */

static weft_status receive_fd(struct star *star, int i, int from, struct boot_limit *limit, int *fd)
{
    struct wire_frame *frame;
    weft_status status = expect(star, i, limit, FRAME_FD, &frame);
    if (status)
        return status;
    *fd = frame->fd;
    int sharing = frame->number;
    free(frame);
    if (*fd < 0)
        return base_fail(WEFT_ERR_SYSTEM,
                         "a descriptor of PE %d was lost on the way: this process has none left "
                         "(ulimit -n)",
                         pe_of(star, from));
    if (sharing == from)
        return WEFT_OK;
    close(*fd);
    *fd = -1;
    return base_fail(WEFT_ERR_MISMATCH, "PE %d expects a descriptor of another PE than is shared",
                     pe_of(star, star->me));
}

static weft_status hub_share(struct star *star, int from, int fd, struct boot_limit *limit)
{
    for (int member = 1; member < star->n; member++) {
        if (member == from)
            continue;
        weft_status status = send_frame(star, member, limit, FRAME_FD, from, NULL, 0, fd);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status share(struct star *star, int from, int fd, int *taken)
{
    struct boot_limit limit = boot_limit_start();
    weft_status status = WEFT_OK;
    if (star->me == from) {
        *taken = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (*taken < 0)
            status =
                base_fail(WEFT_ERR_SYSTEM, "duplicating descriptor %d: %s", fd, strerror(errno));
        else if (star->me != 0)
            status = send_frame(star, 0, &limit, FRAME_FD, from, NULL, 0, fd);
    } else {
        status = receive_fd(star, star->me == 0 ? from : 0, from, &limit, taken);
    }
    if (!status && star->me == 0)
        status = hub_share(star, from, *taken, &limit);
    if (!status)
        return WEFT_OK;
    if (*taken >= 0)
        close(*taken);
    *taken = -1;
    return end_locked(star, status, weft_last_error(), -1);
}

weft_status star_share_fd(struct star *star, int from, int fd, int *taken)
{
    *taken = -1;
    pthread_mutex_lock(&star->lock);
    weft_status status = ended(star);
    if (!status)
        status = share(star, from, fd, taken);
    pthread_mutex_unlock(&star->lock);
    return status;
}

/* ---------------------------------------------------------------------------------------- end */

void star_end(struct star *star, weft_status why, const char *sentence)
{
    pthread_mutex_lock(&star->lock);
    end_locked(star, why, sentence, -1);
    pthread_mutex_unlock(&star->lock);
}

weft_status star_check(struct star *star)
{
    /* Another thread that is in a call will hear the news itself. */
    if (atomic_load_explicit(&star->ended, memory_order_relaxed) ||
        pthread_mutex_trylock(&star->lock) != 0)
        return ended(star);
    bool any;
    weft_status status = ended(star);
    if (!status)
        status = read_wires(star, &any);
    pthread_mutex_unlock(&star->lock);
    return status;
}

void star_forked(struct star *star)
{
    for (int i = 0; i < wire_count(star); i++)
        if (star->wires[i].fd >= 0)
            close(star->wires[i].fd);
    close(star->epoll);
}

/* Closing a socket in which something is unread destroys what the other side has not read yet; so
 * the hub waits, for a moment, until the others have said good-bye. */
static void await_farewells(struct star *star)
{
    struct boot_limit limit = {.left_ns = 2000000000};
    for (int member = 1; member < star->n; member++) {
        while (star->wires[member].fd >= 0 && !star->left[member]) {
            bool any;
            if (read_wires(star, &any))
                return;
            if (!any && !boot_limit_poll(&limit, star->epoll, POLLIN))
                return;
        }
    }
}

void star_close(struct star *star, bool clean)
{
    pthread_mutex_lock(&star->lock);
    struct boot_limit second = {.left_ns = 1000000000};
    if (star->wires && !atomic_load(&star->ended)) {
        for (int i = 0; clean && i < wire_count(star); i++)
            if (star->wires[i].fd >= 0)
                wire_send(&star->wires[i], &second, FRAME_BYE, 0, NULL, 0, -1);
        if (clean && star->me == 0)
            await_farewells(star);
    }
    for (int i = 0; star->wires && i < wire_count(star); i++)
        wire_close(&star->wires[i]);
    pthread_mutex_unlock(&star->lock);
    if (star->epoll >= 0)
        close(star->epoll);
    free(star->wires);
    free(star->left);
    pthread_mutex_destroy(&star->lock);
    *star = (struct star){.epoll = -1};
}

weft_status star_init(struct star *star, int n, int me, const int *pes, struct wire *wires)
{
    *star = (struct star){.n = n, .me = me, .pes = pes, .wires = wires, .epoll = -1};
    pthread_mutex_init(&star->lock, NULL);
    star->left = calloc((size_t)n, sizeof *star->left);
    star->epoll = epoll_create1(EPOLL_CLOEXEC);
    weft_status status = WEFT_OK;
    if (!star->left || star->epoll < 0)
        status = base_fail(WEFT_ERR_SYSTEM,
                           "epoll_create1: %s; raise the limit of open files "
                           "(ulimit -n)",
                           strerror(errno));
    for (int i = 0; !status && i < wire_count(star); i++) {
        if (member_at(star, i) == me || wires[i].fd < 0)
            continue;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = i};
        if (epoll_ctl(star->epoll, EPOLL_CTL_ADD, wires[i].fd, &event) < 0)
            status = base_fail(WEFT_ERR_SYSTEM, "epoll_ctl: %s", strerror(errno));
    }
    if (status)
        star_close(star, false);
    return status;
}

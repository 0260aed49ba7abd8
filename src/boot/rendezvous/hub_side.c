/* SPDX-License-Identifier: Apache-2.0 */
/* The hub's side of the rendezvous: many may connect at once, most of them perhaps strangers, and
 * each is heard when it says something. See rendezvous.h. */
#include "boot/rendezvous/handshake.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/methods.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_PENDING = 512,   /* connections that have not proved themselves yet */
    LOGGED_STRANGERS = 4, /* for each reason; all others only as a number */
    MOST_REASONS = 16,
};

struct pending {
    int fd;
    uint64_t until_ns;
    size_t got;    /* bytes of what it says next: its hello, then its proof */
    bool answered; /* its hello is good, and it has our proof */
    struct handshake_greeting greeting;
    struct handshake_hello hello;
    struct handshake_proof proof;
};

struct hub {
    const struct rendezvous *rendezvous;
    struct wire *wires;
    int missing;
    int listening;
    struct pending *pending;
    struct pollfd *watched; /* [0] the listening socket, then those that have come */
    int count;
    int strangers;
    int logged;
    struct {
        const char *why;
        int times;
    } reasons[MOST_REASONS];
    bool deaf; /* no descriptor is left: accepts none until one is closed */
};

/* Of each reason only the first few are logged: many strangers of one kind neither fill the log nor
 * push one of another kind out of it. */
static bool is_worth_a_line(struct hub *hub, const char *why)
{
    for (int i = 0; i < MOST_REASONS; i++) {
        if (!hub->reasons[i].why)
            hub->reasons[i].why = why;
        if (hub->reasons[i].why == why)
            return hub->reasons[i].times++ < LOGGED_STRANGERS;
    }
    return false;
}

static void log_stranger(struct hub *hub, int fd, const char *why)
{
    char peer[96];
    hub->strangers++;
    if (!is_worth_a_line(hub, why))
        return;
    hub->logged++;
    handshake_describe_peer(fd, peer, sizeof peer);
    log_warn("%s: dropped a stranger, %s: %s", hub->rendezvous->what, peer, why);
}

/* why: NULL when it has become a member, and its socket lives on. */
static void drop(struct hub *hub, int i, const char *why)
{
    struct pending *pending = &hub->pending[i];
    if (why) {
        log_stranger(hub, pending->fd, why);
        close(pending->fd);
    }
    *pending = hub->pending[--hub->count];
    hub->deaf = false;
}

/* The connection that has had the most time. drop() moves the last one to the place of the dropped
 * one, so the places are not in the order of arrival. */
static int find_oldest(const struct hub *hub)
{
    int oldest = 0;
    for (int i = 1; i < hub->count; i++)
        if (hub->pending[i].until_ns < hub->pending[oldest].until_ns)
            oldest = i;
    return oldest;
}

static void greet(struct hub *hub, int fd)
{
    if (hub->count == MOST_PENDING)
        drop(hub, find_oldest(hub), "others wait, and it has not proved itself yet");
    struct pending *pending = &hub->pending[hub->count++];
    *pending = (struct pending){
        .fd = fd, .until_ns = clock_now_ns() + RENDEZVOUS_SECONDS * UINT64_C(1000000000)};
    if (!hub->rendezvous->key && !handshake_same_user(fd)) {
        drop(hub, hub->count - 1, "it belongs to another user");
        return;
    }
    rendezvous_tune(fd);
    if (!handshake_greet(hub->rendezvous, &pending->greeting) ||
        send(fd, &pending->greeting, sizeof pending->greeting, MSG_NOSIGNAL) !=
            sizeof pending->greeting)
        drop(hub, hub->count - 1, "it could not be greeted");
}

static weft_status accept_some(struct hub *hub)
{
    for (int round = 0; round < 64; round++) { /* then those accepted have their turn */
        int fd = accept4(hub->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            greet(hub, fd);
            continue;
        }
        if (errno != EMFILE && errno != ENFILE)
            return WEFT_OK; /* no connection waits, or one was closed before it was accepted */
        if (hub->count == 0)
            return base_fail(WEFT_ERR_SYSTEM,
                             "%s: accepting a connection: %s; raise the limit of "
                             "open files (ulimit -n)",
                             hub->rendezvous->what, strerror(errno));
        hub->deaf = true;
        return WEFT_OK;
    }
    return WEFT_OK;
}

/* It says that it is a member that we lack: we prove ourselves first. */
static weft_status answer(struct hub *hub, int i)
{
    struct pending *pending = &hub->pending[i];
    struct handshake_proof proof;
    const char *fault = handshake_judge(hub->rendezvous, &pending->hello);
    if (!fault && hub->wires[pending->hello.member].fd >= 0)
        fault = "a member with its number is already here";
    if (fault) {
        drop(hub, i, fault);
        return WEFT_OK;
    }
    if (!handshake_prove(hub->rendezvous, HANDSHAKE_HUB, &pending->greeting, &pending->hello,
                         &proof))
        return base_fail(WEFT_ERR_SYSTEM, "HMAC-SHA256 could not be computed");
    pending->answered = true;
    pending->got = 0;
    if (send(pending->fd, &proof, sizeof proof, MSG_NOSIGNAL) != sizeof proof)
        drop(hub, i, "it closed the connection");
    return WEFT_OK;
}

/* It has answered with a proof, and becomes a member when that is good. */
static weft_status admit(struct hub *hub, int i)
{
    struct pending *pending = &hub->pending[i];
    struct wire *wire = &hub->wires[pending->hello.member];
    const char *fault = NULL;
    if (!handshake_proven(hub->rendezvous, HANDSHAKE_MEMBER, &pending->greeting, &pending->hello,
                          &pending->proof))
        fault = hub->rendezvous->secret ? "it does not know the job's secret"
                                        : "it does not know the job's secret (WEFT_SECRET)";
    else if (wire->fd >= 0)
        fault = "a member with its number is already here";
    if (fault) {
        drop(hub, i, fault);
        return WEFT_OK;
    }
    weft_status status = handshake_finish(hub->rendezvous, &pending->greeting, &pending->hello,
                                          pending->fd, false, wire);
    if (status)
        return status;
    drop(hub, i, NULL);
    hub->missing--;
    return WEFT_OK;
}

/* A member that reaches us at several addresses goes on with one connection and closes the others;
 * that is not worth a line. */
static bool is_here_otherwise(const struct hub *hub, int i)
{
    uint32_t member = hub->pending[i].hello.member;
    bool otherwise = hub->wires[member].fd >= 0;
    for (int other = 0; other < hub->count && !otherwise; other++)
        otherwise = other != i && hub->pending[other].answered &&
                    hub->pending[other].hello.member == member;
    return otherwise;
}

static void hang_up(struct hub *hub, int i)
{
    const bool answered = hub->pending[i].answered, keyed = hub->rendezvous->key != NULL;
    const bool tries = !answered && !hub->pending[i].got && hub->rendezvous->many_addresses;
    if (tries || (answered && keyed && is_here_otherwise(hub, i))) {
        close(hub->pending[i].fd);
        drop(hub, i, NULL);
    } else if (!answered || !keyed) {
        drop(hub, i, "it closed the connection before it proved itself");
    } else {
        drop(hub, i,
             hub->rendezvous->secret
                 ? "it closed the connection on our proof: its secret differs, or it is a stranger"
                 : "it closed the connection on our proof: its WEFT_SECRET differs, or it is a "
                   "stranger");
    }
}

static weft_status hear(struct hub *hub, int i)
{
    struct pending *pending = &hub->pending[i];
    char *to = pending->answered ? (char *)&pending->proof : (char *)&pending->hello;
    size_t wanted = pending->answered ? sizeof pending->proof : sizeof pending->hello;
    ssize_t n = recv(pending->fd, to + pending->got, wanted - pending->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_OK;
    if (n <= 0) {
        hang_up(hub, i);
        return WEFT_OK;
    }
    pending->got += (size_t)n;
    if (!pending->answered && pending->got >= sizeof pending->hello.magic &&
        pending->hello.magic != HANDSHAKE_MAGIC) {
        drop(hub, i, "it does not speak Weft's protocol");
        return WEFT_OK;
    }
    if (pending->got < wanted)
        return WEFT_OK;
    return pending->answered ? admit(hub, i) : answer(hub, i);
}

static weft_status serve_pending(struct hub *hub)
{
    uint64_t now = clock_now_ns();
    for (int i = hub->count - 1; i >= 0; i--) { /* dropping moves the last one to i */
        weft_status status = WEFT_OK;
        if (hub->watched[i + 1].revents)
            status = hear(hub, i);
        else if (now > hub->pending[i].until_ns)
            drop(hub, i, "it did not prove itself in time");
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* One step: waits at most `wait_ms`, then does what there is to do. */
static weft_status hub_step(struct hub *hub, int wait_ms)
{
    hub->watched[0] = (struct pollfd){.fd = hub->deaf ? -1 : hub->listening, .events = POLLIN};
    for (int i = 0; i < hub->count; i++)
        hub->watched[i + 1] = (struct pollfd){.fd = hub->pending[i].fd, .events = POLLIN};
    if (poll(hub->watched, (nfds_t)hub->count + 1, wait_ms) < 0)
        return WEFT_OK;
    short knocking = hub->watched[0].revents;
    weft_status status = serve_pending(hub);
    if (!status && knocking)
        status = accept_some(hub);
    return status;
}

static weft_status hub_timeout(const struct hub *hub)
{
    enum { ENOUGH = 120 };
    const char *const *names = hub->rendezvous->names;
    char list[ENOUGH + 120];
    int n = 0;
    list[0] = '\0';
    for (int member = 1; member < hub->rendezvous->n && n < ENOUGH; member++) {
        char number[16];
        snprintf(number, sizeof number, "%d", member);
        if (hub->wires[member].fd < 0)
            n += snprintf(list + n, sizeof list - (size_t)n, "%s%.100s", n ? ", " : "",
                          names ? names[member] : number);
    }
    return base_fail(WEFT_ERR_TIMEOUT,
                     "%s: %d of %d members did not come within " BOOT_LIMIT_NAMES ": %s%s",
                     hub->rendezvous->what, hub->missing, hub->rendezvous->n - 1, list,
                     n >= ENOUGH ? ", ..." : "");
}

static weft_status wait_for_members(struct hub *hub)
{
    struct boot_limit limit = boot_limit_join();
    const int step_ms = 100;
    while (hub->missing > 0) {
        uint64_t before = clock_now_ns();
        weft_status status = hub_step(hub, step_ms);
        if (!status && hub->rendezvous->still_wanted)
            status = hub->rendezvous->still_wanted(hub->rendezvous->argument);
        if (status)
            return status;
        uint64_t passed = clock_now_ns() - before;
        if (passed > 2 * step_ms * UINT64_C(1000000)) /* we were stopped, or very busy */
            passed = 2 * step_ms * UINT64_C(1000000);
        if (!limit.endless && passed >= limit.left_ns)
            return hub_timeout(hub);
        limit.left_ns -= limit.endless ? 0 : passed;
    }
    return WEFT_OK;
}

weft_status rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                              struct wire *wires)
{
    struct hub hub = {.rendezvous = rendezvous,
                      .wires = wires,
                      .missing = rendezvous->n - 1,
                      .listening = listening};
    for (int member = 0; member < rendezvous->n; member++)
        wires[member].fd = -1;
    hub.pending = calloc(MOST_PENDING, sizeof *hub.pending);
    hub.watched = calloc(MOST_PENDING + 1, sizeof *hub.watched);
    weft_status status = WEFT_OK;
    if (!hub.pending || !hub.watched)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for connections at start");
    if (!status)
        status = wait_for_members(&hub);
    while (hub.count > 0) {
        close(hub.pending[hub.count - 1].fd);
        hub.count--;
    }
    if (hub.strangers > hub.logged)
        log_warn("%s: dropped %d strangers in all", rendezvous->what, hub.strangers);
    free(hub.pending);
    free(hub.watched);
    return status;
}

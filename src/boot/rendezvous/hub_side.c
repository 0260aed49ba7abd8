/* SPDX-License-Identifier: Apache-2.0 */
/* The hub's side of the rendezvous: many processes may connect at once, possibly most of them
 * unauthenticated, and the hub reads from each when data arrive. See rendezvous.h. */
#include "boot/rendezvous/handshake.h"

#include "base/clock.h"
#include "base/interrupt.h"
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
    MOST_PENDING = 512,    /* connections that are not authenticated yet */
    LOGGED_PER_REASON = 4, /* logged per reason; the others are only counted */
    MOST_REASONS = 16,
};

struct pending {
    int fd;
    uint64_t until_ns;
    size_t got;    /* bytes received of its next message: its record, then its proof */
    bool answered; /* its record is valid, and the hub has sent its proof */
    struct handshake_greeting greeting;
    struct handshake_record record;
    struct handshake_proof proof;
};

struct rendezvous_hub {
    const struct rendezvous *rendezvous;
    struct wire *wires;
    int missing;
    int listening;
    struct pending *pending;
    struct pollfd *watched; /* [0] the listening socket, then the pending connections */
    int count;
    int dropped;
    int logged;
    struct {
        const char *why;
        int times;
    } reasons[MOST_REASONS];
    bool no_descriptor; /* no descriptor is left: accept none until one is closed */
};

/* Only the first few peers dropped for each reason are logged: many of one kind neither fill the
 * log nor displace those of another kind. */
static bool should_log_reason(struct rendezvous_hub *hub, const char *why)
{
    for (int i = 0; i < MOST_REASONS; i++) {
        if (!hub->reasons[i].why)
            hub->reasons[i].why = why;
        if (hub->reasons[i].why == why)
            return hub->reasons[i].times++ < LOGGED_PER_REASON;
    }
    return false;
}

static void log_dropped_peer(struct rendezvous_hub *hub, int fd, const char *why)
{
    char peer[96];
    hub->dropped++;
    if (!should_log_reason(hub, why))
        return;
    hub->logged++;
    handshake_describe_peer(fd, peer, sizeof peer);
    log_warn(LOG_BOOT, "%s: dropped an unauthenticated peer, %s: %s", hub->rendezvous->what, peer,
             why);
}

/* why: NULL when the peer has become a member, and its socket stays open. */
static void drop_pending(struct rendezvous_hub *hub, int i, const char *why)
{
    struct pending *pending = &hub->pending[i];
    if (why) {
        log_dropped_peer(hub, pending->fd, why);
        close(pending->fd);
    }
    *pending = hub->pending[--hub->count];
    hub->no_descriptor = false;
}

/* The connection that has been pending longest. drop_pending() moves the last one to the position
 * of the dropped one, so the array is not in the order of arrival. */
static int find_oldest(const struct rendezvous_hub *hub)
{
    int oldest = 0;
    for (int i = 1; i < hub->count; i++)
        if (hub->pending[i].until_ns < hub->pending[oldest].until_ns)
            oldest = i;
    return oldest;
}

static void send_greeting(struct rendezvous_hub *hub, int fd)
{
    if (hub->count == MOST_PENDING)
        drop_pending(hub, find_oldest(hub), "others wait, and it has not authenticated itself yet");
    struct pending *pending = &hub->pending[hub->count++];
    *pending = (struct pending){
        .fd = fd, .until_ns = clock_now_ns() + RENDEZVOUS_SECONDS * UINT64_C(1000000000)};
    if (!hub->rendezvous->key && !handshake_same_user(fd)) {
        drop_pending(hub, hub->count - 1, "it belongs to another user");
        return;
    }
    rendezvous_tune(fd);
    if (!handshake_make_greeting(hub->rendezvous, &pending->greeting) ||
        send(fd, &pending->greeting, sizeof pending->greeting, MSG_NOSIGNAL) !=
            sizeof pending->greeting)
        drop_pending(hub, hub->count - 1, "the greeting could not be sent to it");
}

static weft_status accept_connections(struct rendezvous_hub *hub)
{
    for (int round = 0; round < 64; round++) { /* a limit, so that accepted connections are
                                                  served too */
        int fd = accept4(hub->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            send_greeting(hub, fd);
            continue;
        }
        if (errno != EMFILE && errno != ENFILE)
            return WEFT_OK; /* no connection waits, or it was closed before it was accepted */
        if (hub->count == 0)
            return base_fail(WEFT_ERR_SYSTEM,
                             "%s: accepting a connection: %s; raise the limit of "
                             "open files (ulimit -n)",
                             hub->rendezvous->what, strerror(errno));
        hub->no_descriptor = true;
        return WEFT_OK;
    }
    return WEFT_OK;
}

/* A member that reaches the hub at several addresses may have become one over another connection.
 */
static void drop_duplicate(struct rendezvous_hub *hub, int i)
{
    if (hub->rendezvous->many_addresses)
        close(hub->pending[i].fd);
    drop_pending(hub, i,
                 hub->rendezvous->many_addresses ? NULL
                                                 : "a member with its number is already here");
}

/* The peer's record names a member that has not connected: the hub proves itself first. */
static weft_status send_hub_proof(struct rendezvous_hub *hub, int i)
{
    struct pending *pending = &hub->pending[i];
    struct handshake_proof proof;
    const char *fault = handshake_check_record(hub->rendezvous, &pending->record);
    if (!fault && hub->wires[pending->record.member].fd >= 0) {
        drop_duplicate(hub, i);
        return WEFT_OK;
    }
    if (fault) {
        drop_pending(hub, i, fault);
        return WEFT_OK;
    }
    if (!handshake_make_proof(hub->rendezvous, HANDSHAKE_HUB, &pending->greeting, &pending->record,
                              &proof))
        return base_fail(WEFT_ERR_SYSTEM, "HMAC-SHA256 could not be computed");
    pending->answered = true;
    pending->got = 0;
    if (send(pending->fd, &proof, sizeof proof, MSG_NOSIGNAL) != sizeof proof)
        drop_pending(hub, i, "it closed the connection");
    return WEFT_OK;
}

/* The peer has sent its proof, and becomes a member when the proof is valid. */
static weft_status admit_member(struct rendezvous_hub *hub, int i)
{
    struct pending *pending = &hub->pending[i];
    struct wire *wire = &hub->wires[pending->record.member];
    const char *fault = NULL;
    if (!handshake_check_proof(hub->rendezvous, HANDSHAKE_MEMBER, &pending->greeting,
                               &pending->record, &pending->proof))
        fault = hub->rendezvous->secret ? "it does not know the job's secret"
                                        : "it does not know the job's secret (WEFT_SECRET)";
    else if (wire->fd >= 0)
        fault = "a member with its number is already here";
    if (fault) {
        drop_pending(hub, i, fault);
        return WEFT_OK;
    }
    weft_status status = handshake_finish(hub->rendezvous, &pending->greeting, &pending->record,
                                          pending->fd, false, wire);
    if (status)
        return status;
    drop_pending(hub, i, NULL);
    hub->missing--;
    return WEFT_OK;
}

/* A member that reaches the hub at several addresses continues with one connection and closes the
 * others, which are not logged. */
static bool has_other_connection(const struct rendezvous_hub *hub, int i)
{
    uint32_t member = hub->pending[i].record.member;
    bool otherwise = hub->wires[member].fd >= 0;
    for (int other = 0; other < hub->count && !otherwise; other++)
        otherwise = other != i && hub->pending[other].answered &&
                    hub->pending[other].record.member == member;
    return otherwise;
}

static void handle_close(struct rendezvous_hub *hub, int i)
{
    const bool answered = hub->pending[i].answered, keyed = hub->rendezvous->key != NULL;
    const bool tries = !answered && !hub->pending[i].got && hub->rendezvous->many_addresses;
    if (tries || (answered && keyed && has_other_connection(hub, i))) {
        close(hub->pending[i].fd);
        drop_pending(hub, i, NULL);
    } else if (!answered || !keyed) {
        drop_pending(hub, i, "it closed the connection before it authenticated itself");
    } else {
        drop_pending(
            hub, i,
            hub->rendezvous->secret
                ? "it closed the connection after the hub's proof: its secret differs, or it is "
                  "not of this job"
                : "it closed the connection after the hub's proof: its WEFT_SECRET differs, or it "
                  "is not of this job");
    }
}

static weft_status receive_message(struct rendezvous_hub *hub, int i)
{
    struct pending *pending = &hub->pending[i];
    char *to = pending->answered ? (char *)&pending->proof : (char *)&pending->record;
    size_t wanted = pending->answered ? sizeof pending->proof : sizeof pending->record;
    ssize_t n = recv(pending->fd, to + pending->got, wanted - pending->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_OK;
    if (n <= 0) {
        handle_close(hub, i);
        return WEFT_OK;
    }
    pending->got += (size_t)n;
    if (!pending->answered && pending->got >= sizeof pending->record.magic &&
        pending->record.magic != HANDSHAKE_MAGIC) {
        drop_pending(hub, i, "it does not speak Weft's protocol");
        return WEFT_OK;
    }
    if (pending->got < wanted)
        return WEFT_OK;
    return pending->answered ? admit_member(hub, i) : send_hub_proof(hub, i);
}

static weft_status serve_pending(struct rendezvous_hub *hub)
{
    uint64_t now = clock_now_ns();
    for (int i = hub->count - 1; i >= 0; i--) { /* drop_pending() moves the last one to i */
        weft_status status = WEFT_OK;
        if (hub->watched[i + 1].revents)
            status = receive_message(hub, i);
        else if (now > hub->pending[i].until_ns)
            drop_pending(hub, i, "it did not authenticate itself in time");
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* One step: waits at most `wait_ms` ms, then serves the connections with events. */
static weft_status serve_once(struct rendezvous_hub *hub, int wait_ms)
{
    hub->watched[0] =
        (struct pollfd){.fd = hub->no_descriptor ? -1 : hub->listening, .events = POLLIN};
    for (int i = 0; i < hub->count; i++)
        hub->watched[i + 1] = (struct pollfd){.fd = hub->pending[i].fd, .events = POLLIN};
    if (poll(hub->watched, (nfds_t)hub->count + 1, wait_ms) < 0)
        return WEFT_OK;
    short incoming = hub->watched[0].revents;
    weft_status status = serve_pending(hub);
    if (!status && incoming)
        status = accept_connections(hub);
    return status;
}

static weft_status fail_timeout(const struct rendezvous_hub *hub)
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
                     "%s: %d of %d members did not connect within " BOOT_LIMIT_NAMES ": %s%s",
                     hub->rendezvous->what, hub->missing, hub->rendezvous->n - 1, list,
                     n >= ENOUGH ? ", ..." : "");
}

static weft_status wait_for_members(struct rendezvous_hub *hub)
{
    struct boot_limit limit = boot_limit_join();
    const int step_ms = 100;
    while (hub->missing > 0) {
        uint64_t before = clock_now_ns();
        int missing = hub->missing;
        weft_status status = serve_once(hub, step_ms);
        if (!status && hub->rendezvous->still_wanted)
            status = hub->rendezvous->still_wanted(hub->rendezvous->argument);
        if (!status)
            status = interrupt_check();
        if (status)
            return status;
        if (hub->rendezvous->limit_from_last && hub->missing < missing)
            limit = boot_limit_join();
        uint64_t passed = clock_now_ns() - before;
        if (passed > 2 * step_ms * UINT64_C(1000000)) /* this process was stopped, or very busy */
            passed = 2 * step_ms * UINT64_C(1000000);
        if (!limit.endless && passed >= limit.left_ns)
            return fail_timeout(hub);
        limit.left_ns -= limit.endless ? 0 : passed;
    }
    return WEFT_OK;
}

weft_status rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                              struct wire *wires)
{
    struct rendezvous_hub hub = {.rendezvous = rendezvous,
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
    if (hub.dropped > hub.logged)
        log_warn(LOG_BOOT, "%s: dropped %d unauthenticated peers in total", rendezvous->what,
                 hub.dropped);
    free(hub.pending);
    free(hub.watched);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting members with a hub among strangers. See meet.h. The order of words: the hub greets
 * with a random number; the member answers with its own and a proof over both; the hub proves
 * itself the same way. Keys of the connection are made from secret and numbers, so they are never
 * used twice. */
#include "boot/meet.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/ways.h"
#include "driver/crypto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MEET_MAGIC UINT64_C(0x7472617473665457) /* "WTfstart" */

enum {
    MEET_VERSION = 1,
    MOST_GUESTS = 512,    /* connections that have not proved themselves yet */
    GUEST_SECONDS = 5,    /* that they get for it */
    LOGGED_STRANGERS = 4, /* for each reason; all others only as a number */
    MOST_REASONS = 16,
    MOST_REFUSALS = 12, /* a crowd of strangers may have pushed us out, but not so often */
};

/* -------------------------------------------------------------------------------------- proofs */

/* Everything a proof is over; the word in front keeps the two directions, and proofs and keys,
 * apart from each other. */
struct proof_text {
    char purpose[16];
    uint8_t hub_nonce[32];
    uint8_t member_nonce[32];
    uint32_t member;
    uint32_t members;
    char job[64];
};

static bool prove(const struct meeting *meeting, const char *purpose,
                  const struct meet_greeting *greeting, const struct meet_hello *hello,
                  uint8_t mac[CRYPTO_MAC_BYTES])
{
    const struct crypto_driver *crypto;
    struct proof_text text = {.member = hello->member, .members = hello->members};
    if (crypto_load(&crypto))
        return false;
    snprintf(text.purpose, sizeof text.purpose, "%s", purpose);
    memcpy(text.hub_nonce, greeting->nonce, sizeof text.hub_nonce);
    memcpy(text.member_nonce, hello->nonce, sizeof text.member_nonce);
    memcpy(text.job, hello->job, sizeof text.job);
    return crypto->hmac_sha256(meeting->key, meeting->key_bytes, &text, sizeof text, mac);
}

static weft_status make_wire(const struct meeting *meeting, const struct meet_greeting *greeting,
                             const struct meet_hello *hello, int fd, bool connecting,
                             struct wire *wire)
{
    uint8_t keys[2][WIRE_KEY_BYTES];
    if (meeting->key && (!prove(meeting, "weft key member", greeting, hello, keys[0]) ||
                         !prove(meeting, "weft key hub", greeting, hello, keys[1])))
        return base_fail(WEFT_ERR_SYSTEM, "HMAC-SHA256 could not be computed");
    wire_init(wire, fd, meeting->key ? (const uint8_t(*)[WIRE_KEY_BYTES])keys : NULL, connecting);
    return WEFT_OK;
}

static bool random_bytes(uint8_t *bytes, size_t count)
{
    return getrandom(bytes, count, 0) == (ssize_t)count;
}

const char *meet_judge(const struct meeting *meeting, const struct meet_greeting *greeting,
                       const struct meet_hello *hello)
{
    uint8_t mac[CRYPTO_MAC_BYTES];
    if (hello->magic != MEET_MAGIC)
        return "it does not speak Weft's protocol";
    if (meeting->key) { /* first of all: a stranger learns nothing from the order of checks */
        if (!prove(meeting, "weft member", greeting, hello, mac) || !crypto_equal(mac, hello->mac))
            return "it does not know the job's secret (WEFT_SECRET)";
    }
    if (memcmp(hello->job, meeting->job, sizeof hello->job) != 0)
        return "it belongs to another job";
    if (hello->version != MEET_VERSION)
        return "it is of another version of Weft";
    if (hello->members != (uint32_t)meeting->n || hello->member < 1 ||
        hello->member >= (uint32_t)meeting->n)
        return "its number is not in this job";
    return NULL;
}

/* ------------------------------------------------------------------------------------ the other */

static void describe_peer(int fd, char *text, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer = {0};
    socklen_t bytes = sizeof peer;
    struct ucred user;
    socklen_t user_bytes = sizeof user;
    char address[INET6_ADDRSTRLEN] = "?";
    if (getpeername(fd, &peer.any, &bytes) < 0)
        snprintf(text, size, "a peer that is gone");
    else if (peer.any.sa_family == AF_INET)
        snprintf(text, size, "%s:%d",
                 inet_ntop(AF_INET, &peer.v4.sin_addr, address, sizeof address),
                 ntohs(peer.v4.sin_port));
    else if (peer.any.sa_family == AF_INET6)
        snprintf(text, size, "[%s]:%d",
                 inet_ntop(AF_INET6, &peer.v6.sin6_addr, address, sizeof address),
                 ntohs(peer.v6.sin6_port));
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_bytes) == 0)
        snprintf(text, size, "process %d of user %d", (int)user.pid, (int)user.uid);
    else
        snprintf(text, size, "?");
}

/* Over AF_UNIX only: the process at the other end belongs to our user. */
static bool is_same_user(int fd)
{
    struct ucred user;
    socklen_t bytes = sizeof user;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &bytes) == 0 && user.uid == geteuid();
}

static void tune(int fd)
{
    int on = 1; /* fails on AF_UNIX, where it is not needed */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* ------------------------------------------------------------------------------------- the hub */

struct guest {
    int fd;
    uint64_t until_ns;
    size_t got;
    struct meet_greeting greeting;
    struct meet_hello hello;
};

struct hub {
    const struct meeting *meeting;
    struct wire *wires;
    int missing;
    int listening;
    struct guest *guests;
    struct pollfd *watched; /* [0] the listening socket, then the guests */
    int count;
    int strangers;
    int logged;
    struct {
        const char *why;
        int times;
    } reasons[MOST_REASONS];
    bool deaf; /* descriptors are used up: no more guests until one is gone */
};

/* A crowd must not fill the log, nor hide in it somebody who came for another reason. */
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
    describe_peer(fd, peer, sizeof peer);
    log_warn("%s: dropped a stranger, %s: %s", hub->meeting->what, peer, why);
}

/* why: NULL when the guest has become a member, and its socket lives on. */
static void drop_guest(struct hub *hub, int i, const char *why)
{
    struct guest *guest = &hub->guests[i];
    if (why) {
        log_stranger(hub, guest->fd, why);
        close(guest->fd);
    }
    *guest = hub->guests[--hub->count];
    hub->deaf = false;
}

static void greet(struct hub *hub, int fd)
{
    if (hub->count == MOST_GUESTS) /* the oldest has had most of its time */
        drop_guest(hub, 0, "others wait, and it has not proved itself yet");
    struct guest *guest = &hub->guests[hub->count++];
    *guest = (struct guest){.fd = fd,
                            .until_ns = clock_now_ns() + GUEST_SECONDS * UINT64_C(1000000000),
                            .greeting = {.magic = MEET_MAGIC,
                                         .version = MEET_VERSION,
                                         .keyed = hub->meeting->key != NULL}};
    if (!hub->meeting->key && !is_same_user(fd)) {
        drop_guest(hub, hub->count - 1, "it belongs to another user");
        return;
    }
    tune(fd);
    if (!random_bytes(guest->greeting.nonce, sizeof guest->greeting.nonce) ||
        send(fd, &guest->greeting, sizeof guest->greeting, MSG_NOSIGNAL) != sizeof guest->greeting)
        drop_guest(hub, hub->count - 1, "it could not be greeted");
}

static weft_status accept_guests(struct hub *hub)
{
    for (int round = 0; round < 64; round++) { /* then the guests have their turn */
        int fd = accept4(hub->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            greet(hub, fd);
            continue;
        }
        if (errno != EMFILE && errno != ENFILE)
            return WEFT_OK; /* nobody is there, or somebody who is gone again */
        if (hub->count == 0)
            return base_fail(WEFT_ERR_SYSTEM,
                             "%s: accepting a connection: %s; raise the limit of "
                             "open files (ulimit -n)",
                             hub->meeting->what, strerror(errno));
        hub->deaf = true;
        return WEFT_OK;
    }
    return WEFT_OK;
}

/* A guest has proved itself and becomes a member. */
static weft_status admit(struct hub *hub, int i)
{
    struct guest *guest = &hub->guests[i];
    struct wire *wire = &hub->wires[guest->hello.member];
    struct meet_welcome welcome = {.magic = MEET_MAGIC};
    if (wire->fd >= 0) {
        drop_guest(hub, i, "a member with its number is already here");
        return WEFT_OK;
    }
    if (hub->meeting->key &&
        !prove(hub->meeting, "weft hub", &guest->greeting, &guest->hello, welcome.mac))
        return base_fail(WEFT_ERR_SYSTEM, "HMAC-SHA256 could not be computed");
    if (send(guest->fd, &welcome, sizeof welcome, MSG_NOSIGNAL) != sizeof welcome) {
        drop_guest(hub, i, "it closed the connection");
        return WEFT_OK;
    }
    weft_status status =
        make_wire(hub->meeting, &guest->greeting, &guest->hello, guest->fd, false, wire);
    if (status)
        return status;
    drop_guest(hub, i, NULL);
    hub->missing--;
    return WEFT_OK;
}

static weft_status hear_guest(struct hub *hub, int i)
{
    struct guest *guest = &hub->guests[i];
    ssize_t n = recv(guest->fd, (char *)&guest->hello + guest->got,
                     sizeof guest->hello - guest->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_OK;
    if (n <= 0) {
        drop_guest(hub, i, "it closed the connection before it proved itself");
        return WEFT_OK;
    }
    guest->got += (size_t)n;
    if (guest->got >= sizeof guest->hello.magic && guest->hello.magic != MEET_MAGIC) {
        drop_guest(hub, i, "it does not speak Weft's protocol");
        return WEFT_OK;
    }
    if (guest->got < sizeof guest->hello)
        return WEFT_OK;
    const char *fault = meet_judge(hub->meeting, &guest->greeting, &guest->hello);
    if (!fault)
        return admit(hub, i);
    drop_guest(hub, i, fault);
    return WEFT_OK;
}

static weft_status serve_guests(struct hub *hub)
{
    uint64_t now = clock_now_ns();
    for (int i = hub->count - 1; i >= 0; i--) { /* dropping moves the last one to i */
        weft_status status = WEFT_OK;
        if (hub->watched[i + 1].revents)
            status = hear_guest(hub, i);
        else if (now > hub->guests[i].until_ns)
            drop_guest(hub, i, "it did not prove itself in time");
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
        hub->watched[i + 1] = (struct pollfd){.fd = hub->guests[i].fd, .events = POLLIN};
    if (poll(hub->watched, (nfds_t)hub->count + 1, wait_ms) < 0)
        return WEFT_OK;
    short knocking = hub->watched[0].revents;
    weft_status status = serve_guests(hub);
    if (!status && knocking)
        status = accept_guests(hub);
    return status;
}

static weft_status hub_timeout(const struct hub *hub)
{
    char list[160];
    int n = 0;
    list[0] = '\0';
    for (int member = 1; member < hub->meeting->n && n < 120; member++)
        if (hub->wires[member].fd < 0)
            n += snprintf(list + n, sizeof list - (size_t)n, "%s%d", n ? ", " : "", member);
    return base_fail(WEFT_ERR_TIMEOUT,
                     "%s: %d of %d members did not come within WEFT_WAIT_LIMIT: "
                     "%s%s",
                     hub->meeting->what, hub->missing, hub->meeting->n - 1, list,
                     n >= 120 ? ", ..." : "");
}

static weft_status wait_for_members(struct hub *hub)
{
    struct boot_limit limit = boot_limit_start();
    const int step_ms = 100;
    while (hub->missing > 0) {
        uint64_t before = clock_now_ns();
        weft_status status = hub_step(hub, step_ms);
        if (!status && hub->meeting->still_wanted)
            status = hub->meeting->still_wanted(hub->meeting->argument);
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

weft_status meet_accept(const struct meeting *meeting, int listening, struct wire *wires)
{
    struct hub hub = {
        .meeting = meeting, .wires = wires, .missing = meeting->n - 1, .listening = listening};
    for (int member = 0; member < meeting->n; member++)
        wires[member].fd = -1;
    hub.guests = calloc(MOST_GUESTS, sizeof *hub.guests);
    hub.watched = calloc(MOST_GUESTS + 1, sizeof *hub.watched);
    weft_status status = WEFT_OK;
    if (!hub.guests || !hub.watched)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for connections at start");
    if (!status)
        status = wait_for_members(&hub);
    while (hub.count > 0) {
        close(hub.guests[hub.count - 1].fd);
        hub.count--;
    }
    if (hub.strangers > hub.logged)
        log_warn("%s: dropped %d strangers in all", meeting->what, hub.strangers);
    free(hub.guests);
    free(hub.watched);
    for (int member = 1; status && member < meeting->n; member++)
        if (wires[member].fd >= 0)
            wire_close(&wires[member]);
    return status;
}

/* ----------------------------------------------------------------------------------- a member */

/* Each try of one address is bounded, so that a foreign server that says nothing cannot hold us. */
static bool receive_fully(int fd, void *data, size_t bytes, struct boot_limit *limit)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = recv(fd, (char *)data + done, bytes - done, MSG_DONTWAIT);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR) ||
                 !boot_limit_poll(limit, fd, POLLIN))
            return false;
    }
    return true;
}

static bool reach(int fd, const struct meeting_address *at, struct boot_limit *limit)
{
    if (connect(fd, (const struct sockaddr *)&at->address, at->bytes) == 0)
        return true;
    if (errno != EINPROGRESS || !boot_limit_poll(limit, fd, POLLOUT))
        return false;
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

enum answer {
    ANSWER_NOBODY,  /* nothing there (yet) */
    ANSWER_OTHER,   /* something, but not this job's hub */
    ANSWER_REFUSED, /* the hub, which has dropped us */
    ANSWER_WELCOME,
};

static enum answer introduce(const struct meeting *meeting, int fd, struct boot_limit *limit,
                             struct wire *wire)
{
    struct meet_greeting greeting;
    struct meet_welcome welcome;
    struct meet_hello hello = {.magic = MEET_MAGIC,
                               .version = MEET_VERSION,
                               .member = (uint32_t)meeting->me,
                               .members = (uint32_t)meeting->n};
    uint8_t mac[CRYPTO_MAC_BYTES];
    if (!meeting->key && !is_same_user(fd))
        return ANSWER_OTHER;
    if (!receive_fully(fd, &greeting, sizeof greeting, limit) || greeting.magic != MEET_MAGIC ||
        greeting.keyed != (meeting->key != NULL))
        return ANSWER_OTHER;
    memcpy(hello.job, meeting->job, sizeof hello.job);
    if (!random_bytes(hello.nonce, sizeof hello.nonce) ||
        (meeting->key && !prove(meeting, "weft member", &greeting, &hello, hello.mac)) ||
        send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello ||
        !receive_fully(fd, &welcome, sizeof welcome, limit) || welcome.magic != MEET_MAGIC)
        return ANSWER_REFUSED;
    if (meeting->key &&
        (!prove(meeting, "weft hub", &greeting, &hello, mac) || !crypto_equal(mac, welcome.mac)))
        return ANSWER_OTHER;
    return make_wire(meeting, &greeting, &hello, fd, true, wire) ? ANSWER_OTHER : ANSWER_WELCOME;
}

static enum answer try_address(const struct meeting *meeting, const struct meeting_address *at,
                               struct wire *wire, int *error)
{
    struct boot_limit limit = {.left_ns = GUEST_SECONDS * UINT64_C(1000000000)};
    int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        *error = errno;
        return ANSWER_NOBODY;
    }
    enum answer answer = ANSWER_NOBODY;
    if (reach(fd, at, &limit)) {
        tune(fd);
        answer = introduce(meeting, fd, &limit, wire);
    }
    if (answer != ANSWER_WELCOME)
        close(fd);
    return answer;
}

static weft_status connect_failure(const struct meeting *meeting, enum answer best, int refusals,
                                   int error)
{
    static const char *const seen[] = {
        [ANSWER_NOBODY] = "nobody answered there; is the first PE running, and is the address "
                          "right?",
        [ANSWER_OTHER] = "something answered that is not this job, or belongs to another user, or "
                         "does not know WEFT_SECRET",
        [ANSWER_REFUSED] = "the first PE refused this one; its log says why (WEFT_SECRET, the "
                           "number of PEs, or its version differ)",
    };
    if (error)
        return base_fail(WEFT_ERR_SYSTEM,
                         "%s: a socket: %s; raise the limit of open files "
                         "(ulimit -n)",
                         meeting->what, strerror(error));
    if (refusals >= MOST_REFUSALS)
        return base_fail(WEFT_ERR_BOOT, "%s: %s", meeting->what, seen[ANSWER_REFUSED]);
    return base_fail(WEFT_ERR_TIMEOUT, "%s: no connection within WEFT_WAIT_LIMIT: %s",
                     meeting->what, seen[best]);
}

weft_status meet_connect(const struct meeting *meeting, const struct meeting_address *addresses,
                         int count, struct wire *wire)
{
    struct boot_limit limit = boot_limit_start();
    enum answer best = ANSWER_NOBODY;
    int refusals = 0;
    uint64_t pause_ns = 2000000;
    for (;;) {
        uint64_t before = clock_now_ns();
        int error = 0;
        for (int i = 0; i < count; i++) {
            enum answer answer = try_address(meeting, &addresses[i], wire, &error);
            if (answer == ANSWER_WELCOME)
                return WEFT_OK;
            refusals += answer == ANSWER_REFUSED;
            if (answer > best)
                best = answer;
        }
        weft_status status =
            meeting->still_wanted ? meeting->still_wanted(meeting->argument) : WEFT_OK;
        if (status)
            return status;
        struct timespec pause = {0, (long)pause_ns};
        nanosleep(&pause, NULL);
        if (pause_ns < 100000000)
            pause_ns *= 2;
        uint64_t passed = clock_now_ns() - before;
        if (error || refusals >= MOST_REFUSALS || (!limit.endless && passed >= limit.left_ns))
            return connect_failure(meeting, best, refusals, error);
        limit.left_ns -= limit.endless ? 0 : passed;
    }
}

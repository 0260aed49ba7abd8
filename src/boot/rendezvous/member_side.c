/* SPDX-License-Identifier: Apache-2.0 */
/* A member's side of the rendezvous: the hub may be at any of several addresses, at others may be
 * servers that say nothing or something else. So all are tried side by side, each again when it has
 * failed, and the first that proves to be this job's hub is taken. See rendezvous.h. */
#include "boot/rendezvous/handshake.h"

#include "base/clock.h"
#include "base/config.h"
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

#define MILLISECOND_NS UINT64_C(1000000)

enum {
    MOST_REFUSALS = 12, /* fewer may be the doing of a crowd that pushed us out */
    FIRST_PAUSE_MS = 2, /* before an address is tried again; doubled each time */
    MOST_PAUSE_MS = 100,
    STEP_MS = 100, /* between two looks whether the job has ended */
};

/* What an address turned out to be, from the least to the most telling. */
enum answer {
    ANSWER_NOBODY,   /* nothing there (yet) */
    ANSWER_OTHER,    /* something, but not this job's hub */
    ANSWER_UNPROVEN, /* it speaks our protocol, and does not know the secret */
    ANSWER_REFUSED,  /* this job's hub, which dropped us */
    ANSWER_WELCOME,
    ANSWER_PENDING, /* not known yet */
};

enum stage { STAGE_CONNECT, STAGE_GREETING, STAGE_PROOF };

struct attempt {
    const struct rendezvous_address *at;
    int fd; /* -1: between two tries */
    enum stage stage;
    uint64_t until_ns; /* give up, or when fd is -1: try again */
    uint64_t pause_ms;
    size_t got;
    int error;     /* errno of the last connection that did not come about */
    bool unproven; /* what is there did not know the secret: that it hangs up says no more */
    struct handshake_greeting greeting;
    struct handshake_hello hello;
    struct handshake_proof proof;
};

struct search {
    const struct rendezvous *rendezvous;
    struct attempt *attempts;
    struct pollfd *watched;
    int count;
    enum answer best;
    int refusals;
    int error; /* errno of socket(), which no address can help */
    bool warned;
    struct wire *wire;
};

/* A machine that is cut off or without power closes no connection. The kernels ask each other
 * whether they are still there, and call a silent one dead after half of WEFT_WAIT_LIMIT, at most a
 * minute. What is stopped or busy still has a kernel that answers. All fails on AF_UNIX, where it
 * is not needed. */
void rendezvous_tune(int fd)
{
    enum { LEAST_MS = 2000, MOST_MS = 60000 };
    uint64_t half_ms = config_duration_ns(CONFIG_WAIT_LIMIT) / MILLISECOND_NS / 2;
    unsigned dead_ms = half_ms == 0 || half_ms > MOST_MS ? MOST_MS : (unsigned)half_ms;
    if (dead_ms < LEAST_MS)
        dead_ms = LEAST_MS;
    int on = 1, idle_s = (int)dead_ms / 4000, between_s = (int)dead_ms / 8000;
    idle_s = idle_s ? idle_s : 1;
    between_s = between_s ? between_s : 1;
    int tries = ((int)dead_ms / 1000 - idle_s) / between_s;
    tries = tries ? tries : 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof dead_ms); /* of what was sent */
}

/* ---------------------------------------------------------------------------------- one address */

static void start(struct search *search, struct attempt *attempt, uint64_t now)
{
    attempt->stage = STAGE_CONNECT;
    attempt->got = 0;
    attempt->until_ns = now + RENDEZVOUS_SECONDS * 1000 * MILLISECOND_NS;
    attempt->fd =
        socket(attempt->at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (attempt->fd < 0) {
        search->error = errno;
        return;
    }
    if (connect(attempt->fd, (const struct sockaddr *)&attempt->at->address, attempt->at->bytes) ==
            0 ||
        errno == EINPROGRESS)
        return;
    attempt->error = errno;
    close(attempt->fd);
    attempt->fd = -1;
    attempt->until_ns = now + attempt->pause_ms * MILLISECOND_NS;
    attempt->pause_ms =
        attempt->pause_ms * 2 < MOST_PAUSE_MS ? attempt->pause_ms * 2 : MOST_PAUSE_MS;
}

/* One look at what has arrived; true when all of it is there. *gone: the other side has closed. */
static bool receive(struct attempt *attempt, void *into, size_t wanted, bool *gone)
{
    ssize_t n = recv(attempt->fd, (char *)into + attempt->got, wanted - attempt->got, MSG_DONTWAIT);
    *gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    attempt->got += n > 0 ? (size_t)n : 0;
    return attempt->got == wanted;
}

static enum answer finish_connecting(struct attempt *attempt)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        attempt->error = error;
        return ANSWER_NOBODY;
    }
    rendezvous_tune(attempt->fd);
    attempt->stage = STAGE_GREETING;
    return ANSWER_PENDING;
}

static enum answer hear_greeting(struct search *search, struct attempt *attempt)
{
    const struct rendezvous *rendezvous = search->rendezvous;
    bool gone;
    if (!rendezvous->key && !handshake_same_user(attempt->fd))
        return ANSWER_OTHER;
    if (!receive(attempt, &attempt->greeting, sizeof attempt->greeting, &gone))
        return gone ? ANSWER_OTHER : ANSWER_PENDING;
    if (attempt->greeting.magic != HANDSHAKE_MAGIC ||
        attempt->greeting.keyed != (rendezvous->key != NULL))
        return ANSWER_OTHER;
    if (!handshake_answer(rendezvous, &attempt->hello) ||
        send(attempt->fd, &attempt->hello, sizeof attempt->hello, MSG_NOSIGNAL) !=
            sizeof attempt->hello)
        return ANSWER_REFUSED;
    attempt->stage = STAGE_PROOF;
    attempt->got = 0;
    return ANSWER_PENDING;
}

/* It would be a secret told to a stranger if we answered a hub that has not proved itself. */
static enum answer hear_proof(struct search *search, struct attempt *attempt)
{
    const struct rendezvous *rendezvous = search->rendezvous;
    struct handshake_proof own;
    bool gone;
    if (!receive(attempt, &attempt->proof, sizeof attempt->proof, &gone))
        return gone ? ANSWER_REFUSED : ANSWER_PENDING;
    if (!handshake_proven(rendezvous, HANDSHAKE_HUB, &attempt->greeting, &attempt->hello,
                          &attempt->proof))
        return ANSWER_UNPROVEN;
    if (!handshake_prove(rendezvous, HANDSHAKE_MEMBER, &attempt->greeting, &attempt->hello, &own) ||
        send(attempt->fd, &own, sizeof own, MSG_NOSIGNAL) != sizeof own)
        return ANSWER_REFUSED;
    return handshake_finish(rendezvous, &attempt->greeting, &attempt->hello, attempt->fd, true,
                            search->wire)
               ? ANSWER_OTHER
               : ANSWER_WELCOME;
}

static const char *secret_of(const struct search *search)
{
    return search->rendezvous->secret ? search->rendezvous->secret : "WEFT_SECRET";
}

static void note(struct search *search, struct attempt *attempt, enum answer answer)
{
    char peer[96];
    attempt->unproven |= answer == ANSWER_UNPROVEN;
    if (answer == ANSWER_REFUSED && attempt->unproven)
        return;
    search->refusals += answer == ANSWER_REFUSED;
    if (answer > search->best)
        search->best = answer;
    if (answer != ANSWER_UNPROVEN || search->warned)
        return;
    search->warned = true;
    handshake_describe_peer(attempt->fd, peer, sizeof peer);
    log_warn("%s: what listens at %s does not know this PE's %s; waiting for the first PE of this "
             "job",
             search->rendezvous->what, peer, secret_of(search));
}

/* Something has happened at its socket, or its time is over. */
static enum answer step(struct search *search, struct attempt *attempt, bool ready)
{
    enum answer answer = ANSWER_PENDING, before;
    do {
        before = answer;
        enum stage stage = attempt->stage;
        if (!ready) {
            answer = stage == STAGE_CONNECT ? ANSWER_NOBODY : ANSWER_OTHER;
            attempt->error = stage == STAGE_CONNECT ? ETIMEDOUT : 0;
        } else if (stage == STAGE_CONNECT)
            answer = finish_connecting(attempt);
        else if (stage == STAGE_GREETING)
            answer = hear_greeting(search, attempt);
        else
            answer = hear_proof(search, attempt);
        if (attempt->stage == stage)
            break; /* nothing more for now */
    } while (answer == before);
    if (answer == ANSWER_PENDING || answer == ANSWER_WELCOME)
        return answer;
    note(search, attempt, answer);
    close(attempt->fd);
    attempt->fd = -1;
    attempt->until_ns = clock_now_ns() + attempt->pause_ms * MILLISECOND_NS;
    attempt->pause_ms =
        attempt->pause_ms * 2 < MOST_PAUSE_MS ? attempt->pause_ms * 2 : MOST_PAUSE_MS;
    return answer;
}

/* -------------------------------------------------------------------------------- all addresses */

/* Starts what is due, and returns for how long to wait at most. */
static int start_due(struct search *search)
{
    uint64_t now = clock_now_ns(), wait_ns = STEP_MS * MILLISECOND_NS;
    for (int i = 0; i < search->count; i++) {
        struct attempt *attempt = &search->attempts[i];
        if (attempt->fd < 0 && now >= attempt->until_ns)
            start(search, attempt, now);
        search->watched[i] = (struct pollfd){
            .fd = attempt->fd, .events = attempt->stage == STAGE_CONNECT ? POLLOUT : POLLIN};
        uint64_t left = attempt->until_ns > now ? attempt->until_ns - now : 0;
        wait_ns = left < wait_ns ? left : wait_ns;
    }
    return (int)((wait_ns + MILLISECOND_NS - 1) / MILLISECOND_NS);
}

static bool search_once(struct search *search)
{
    int wait_ms = start_due(search);
    if (poll(search->watched, (nfds_t)search->count, wait_ms) < 0)
        return false;
    uint64_t now = clock_now_ns();
    for (int i = 0; i < search->count; i++) {
        struct attempt *attempt = &search->attempts[i];
        bool ready = search->watched[i].revents != 0;
        if (attempt->fd < 0 || (!ready && now < attempt->until_ns))
            continue;
        if (step(search, attempt, ready) != ANSWER_WELCOME)
            continue;
        attempt->fd = -1; /* the wire's */
        return true;
    }
    return false;
}

/* " (tried 10.0.0.1:4001: No route to host; ...)"; the first few, and nothing over AF_UNIX. */
static void describe_tries(const struct search *search, char *text, size_t size)
{
    enum { ROOM = 100 };
    size_t used = 0;
    int told = 0;
    text[0] = '\0';
    for (int i = 0; i < search->count && used + ROOM < size; i++) {
        const struct attempt *attempt = &search->attempts[i];
        char address[96];
        int error = attempt->error;
        if (!error && attempt->fd >= 0 && attempt->stage == STAGE_CONNECT)
            error = ETIMEDOUT; /* under way, and nobody has answered yet */
        if (!error || attempt->at->address.ss_family == AF_UNIX)
            continue;
        handshake_describe_address(&attempt->at->address, address, sizeof address);
        used += (size_t)snprintf(text + used, size - used, "%s%s: %s", told++ ? "; " : " (tried ",
                                 address, strerror(error));
    }
    if (told)
        snprintf(text + used, size - used, ")");
}

static weft_status failure(const struct search *search)
{
    static const char *const seen[] = {
        [ANSWER_NOBODY] = "nobody answered there; is the first PE running, and is the address "
                          "right?",
        [ANSWER_OTHER] = "something answered that is not this job, or belongs to another user",
        [ANSWER_UNPROVEN] = "what answered does not know WEFT_SECRET as this PE does: it is not "
                            "this job, or the first PE was given another secret",
        [ANSWER_REFUSED] = "the first PE refused this one; its log says why (the number of PEs, "
                           "the job or its version differ)",
    };
    const char *what = search->rendezvous->what;
    if (search->error)
        return base_fail(WEFT_ERR_SYSTEM,
                         "%s: a socket: %s; raise the limit of open files (ulimit -n)", what,
                         strerror(search->error));
    if (search->refusals >= MOST_REFUSALS)
        return base_fail(WEFT_ERR_BOOT, "%s: %s", what, seen[ANSWER_REFUSED]);
    char tried[200];
    describe_tries(search, tried, sizeof tried);
    const char *answer = seen[search->best];
    if (search->best == ANSWER_UNPROVEN && search->rendezvous->secret)
        answer = "what answered does not know the secret of this job";
    return base_fail(WEFT_ERR_TIMEOUT, "%s: no connection within " BOOT_LIMIT_NAMES ": %s%s", what,
                     answer, tried);
}

static weft_status search_until_found(struct search *search)
{
    struct boot_limit limit = boot_limit_join();
    const struct rendezvous *rendezvous = search->rendezvous;
    const uint64_t longest_ns = 2 * STEP_MS * MILLISECOND_NS; /* else we were stopped */
    for (;;) {
        uint64_t before = clock_now_ns();
        if (search_once(search))
            return WEFT_OK;
        weft_status status =
            rendezvous->still_wanted ? rendezvous->still_wanted(rendezvous->argument) : WEFT_OK;
        if (status)
            return status;
        uint64_t passed = clock_now_ns() - before;
        passed = passed < longest_ns ? passed : longest_ns;
        if (search->error || search->refusals >= MOST_REFUSALS ||
            (!limit.endless && passed >= limit.left_ns))
            return failure(search);
        limit.left_ns -= limit.endless ? 0 : passed;
    }
}

weft_status rendezvous_connect(const struct rendezvous *rendezvous,
                               const struct rendezvous_address *addresses, int count,
                               struct wire *wire)
{
    struct search search = {.rendezvous = rendezvous, .count = count, .wire = wire};
    search.attempts = calloc((size_t)count, sizeof *search.attempts);
    search.watched = calloc((size_t)count, sizeof *search.watched);
    weft_status status = WEFT_OK;
    if (!search.attempts || !search.watched)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for connections at start");
    for (int i = 0; search.attempts && i < count; i++)
        search.attempts[i] =
            (struct attempt){.at = &addresses[i], .fd = -1, .pause_ms = FIRST_PAUSE_MS};
    if (!status)
        status = search_until_found(&search);
    for (int i = 0; search.attempts && i < count; i++)
        if (search.attempts[i].fd >= 0)
            close(search.attempts[i].fd);
    free(search.attempts);
    free(search.watched);
    return status;
}

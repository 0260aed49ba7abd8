/* SPDX-License-Identifier: Apache-2.0 */
/* A member's side of the rendezvous. The hub may be at any of several addresses; other addresses
 * may have servers that send nothing or something else. The member tries all addresses
 * concurrently, each again after a failure, and takes the first that proves to be this job's hub.
 * See rendezvous.h. */
#include "boot/rendezvous/handshake.h"

#include "base/clock.h"
#include "base/config.h"
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

#define MILLISECOND_NS UINT64_C(1000000)

enum {
    MOST_REFUSALS = 12, /* fewer may be due to many peers at the hub, which displaced this member */
    FIRST_PAUSE_MS = 2, /* before an address is tried again; doubled each time */
    MOST_PAUSE_MS = 100,
    STEP_MS = 100, /* between two checks whether the job has ended */
};

/* Result of an attempt at one address, from the least to the most informative. */
enum connect_outcome {
    ANSWER_NONE,         /* no process there (yet) */
    ANSWER_OTHER,        /* a process, but not this job's hub */
    ANSWER_WRONG_SECRET, /* a process with this protocol that does not know the secret */
    ANSWER_REFUSED,      /* this job's hub, which dropped this member */
    ANSWER_ACCEPTED,
    ANSWER_PENDING, /* not known yet */
};

enum stage { STAGE_CONNECT, STAGE_GREETING, STAGE_PROOF };

struct attempt {
    const struct rendezvous_address *at;
    int fd; /* -1: between two attempts */
    enum stage stage;
    uint64_t until_ns; /* when to give up or, with fd -1, to try again */
    uint64_t pause_ms;
    size_t got;
    int error;         /* errno of the last failed connection */
    bool wrong_secret; /* the process there did not know the secret: if it closes a connection,
                          that is not a refusal */
    struct handshake_greeting greeting;
    struct handshake_record record;
    struct handshake_proof proof;
};

struct search {
    const struct rendezvous *rendezvous;
    struct attempt *attempts;
    struct pollfd *watched;
    int count;
    enum connect_outcome best;
    int refusals;
    int error; /* errno of socket(), which fails for every address */
    bool warned;
    struct wire *wire;
};

/* A machine that is cut off or without power closes no connection. The kernels probe each other
 * (TCP keepalive), and report a silent peer dead after half of WEFT_WAIT_LIMIT, at most 60 s. The
 * kernel of a stopped or busy process still answers. All options fail on AF_UNIX, where they are
 * not needed. */
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
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof dead_ms); /* for sent data */
}

/* ---------------------------------------------------------------------------------- one address */

static void start_attempt(struct search *search, struct attempt *attempt, uint64_t now)
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

/* Reads once; returns true when all `wanted` bytes have arrived. *gone: the peer has closed. */
static bool receive_bytes(struct attempt *attempt, void *into, size_t wanted, bool *gone)
{
    ssize_t n = recv(attempt->fd, (char *)into + attempt->got, wanted - attempt->got, MSG_DONTWAIT);
    *gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    attempt->got += n > 0 ? (size_t)n : 0;
    return attempt->got == wanted;
}

static enum connect_outcome finish_connecting(struct attempt *attempt)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        attempt->error = error;
        return ANSWER_NONE;
    }
    rendezvous_tune(attempt->fd);
    attempt->stage = STAGE_GREETING;
    return ANSWER_PENDING;
}

static enum connect_outcome receive_greeting(struct search *search, struct attempt *attempt)
{
    const struct rendezvous *rendezvous = search->rendezvous;
    bool gone;
    if (!rendezvous->key && !handshake_same_user(attempt->fd))
        return ANSWER_OTHER;
    if (!receive_bytes(attempt, &attempt->greeting, sizeof attempt->greeting, &gone))
        return gone ? ANSWER_OTHER : ANSWER_PENDING;
    if (attempt->greeting.magic != HANDSHAKE_MAGIC ||
        attempt->greeting.keyed != (rendezvous->key != NULL))
        return ANSWER_OTHER;
    if (!handshake_make_record(rendezvous, &attempt->record) ||
        send(attempt->fd, &attempt->record, sizeof attempt->record, MSG_NOSIGNAL) !=
            sizeof attempt->record)
        return ANSWER_REFUSED;
    attempt->stage = STAGE_PROOF;
    attempt->got = 0;
    return ANSWER_PENDING;
}

/* Does not answer a hub that has not proved itself: an unauthenticated peer could test guesses of
 * the secret against the answer. */
static enum connect_outcome receive_proof(struct search *search, struct attempt *attempt)
{
    const struct rendezvous *rendezvous = search->rendezvous;
    struct handshake_proof own;
    bool gone;
    if (!receive_bytes(attempt, &attempt->proof, sizeof attempt->proof, &gone))
        return gone ? ANSWER_REFUSED : ANSWER_PENDING;
    if (!handshake_check_proof(rendezvous, HANDSHAKE_HUB, &attempt->greeting, &attempt->record,
                               &attempt->proof))
        return ANSWER_WRONG_SECRET;
    if (!handshake_make_proof(rendezvous, HANDSHAKE_MEMBER, &attempt->greeting, &attempt->record,
                              &own) ||
        send(attempt->fd, &own, sizeof own, MSG_NOSIGNAL) != sizeof own)
        return ANSWER_REFUSED;
    return handshake_finish(rendezvous, &attempt->greeting, &attempt->record, attempt->fd, true,
                            search->wire)
               ? ANSWER_OTHER
               : ANSWER_ACCEPTED;
}

static const char *get_secret_name(const struct search *search)
{
    return search->rendezvous->secret ? search->rendezvous->secret : "WEFT_SECRET";
}

static void record_answer(struct search *search, struct attempt *attempt,
                          enum connect_outcome answer)
{
    char peer[96];
    attempt->wrong_secret |= answer == ANSWER_WRONG_SECRET;
    if (answer == ANSWER_REFUSED && attempt->wrong_secret)
        return;
    search->refusals += answer == ANSWER_REFUSED;
    if (answer > search->best)
        search->best = answer;
    if (answer != ANSWER_WRONG_SECRET || search->warned)
        return;
    search->warned = true;
    handshake_describe_peer(attempt->fd, peer, sizeof peer);
    log_warn(LOG_BOOT,
             "%s: the process that listens at %s does not know this PE's %s; waiting for the first "
             "PE of this job",
             search->rendezvous->what, peer, get_secret_name(search));
}

/* Handles an event at the attempt's socket, or its timeout. */
static enum connect_outcome advance_attempt(struct search *search, struct attempt *attempt,
                                            bool ready)
{
    enum connect_outcome answer = ANSWER_PENDING, before;
    do {
        before = answer;
        enum stage stage = attempt->stage;
        if (!ready) {
            answer = stage == STAGE_CONNECT ? ANSWER_NONE : ANSWER_OTHER;
            attempt->error = stage == STAGE_CONNECT ? ETIMEDOUT : 0;
        } else if (stage == STAGE_CONNECT)
            answer = finish_connecting(attempt);
        else if (stage == STAGE_GREETING)
            answer = receive_greeting(search, attempt);
        else
            answer = receive_proof(search, attempt);
        if (attempt->stage == stage)
            break; /* wait for the next event */
    } while (answer == before);
    if (answer == ANSWER_PENDING || answer == ANSWER_ACCEPTED)
        return answer;
    record_answer(search, attempt, answer);
    close(attempt->fd);
    attempt->fd = -1;
    attempt->until_ns = clock_now_ns() + attempt->pause_ms * MILLISECOND_NS;
    attempt->pause_ms =
        attempt->pause_ms * 2 < MOST_PAUSE_MS ? attempt->pause_ms * 2 : MOST_PAUSE_MS;
    return answer;
}

/* -------------------------------------------------------------------------------- all addresses */

/* Starts attempts that are due; returns the longest time to wait, in ms. */
static int start_due_attempts(struct search *search)
{
    uint64_t now = clock_now_ns(), wait_ns = STEP_MS * MILLISECOND_NS;
    for (int i = 0; i < search->count; i++) {
        struct attempt *attempt = &search->attempts[i];
        if (attempt->fd < 0 && now >= attempt->until_ns)
            start_attempt(search, attempt, now);
        search->watched[i] = (struct pollfd){
            .fd = attempt->fd, .events = attempt->stage == STAGE_CONNECT ? POLLOUT : POLLIN};
        uint64_t left = attempt->until_ns > now ? attempt->until_ns - now : 0;
        wait_ns = left < wait_ns ? left : wait_ns;
    }
    return (int)((wait_ns + MILLISECOND_NS - 1) / MILLISECOND_NS);
}

static bool search_once(struct search *search)
{
    int wait_ms = start_due_attempts(search);
    if (poll(search->watched, (nfds_t)search->count, wait_ms) < 0)
        return false;
    uint64_t now = clock_now_ns();
    for (int i = 0; i < search->count; i++) {
        struct attempt *attempt = &search->attempts[i];
        bool ready = search->watched[i].revents != 0;
        if (attempt->fd < 0 || (!ready && now < attempt->until_ns))
            continue;
        if (advance_attempt(search, attempt, ready) != ANSWER_ACCEPTED)
            continue;
        attempt->fd = -1; /* `wire` owns it */
        return true;
    }
    return false;
}

/* Formats " (tried 10.0.0.1:4001: No route to host; ...)": the first few, and "" over AF_UNIX. */
static void describe_tries(const struct search *search, char *text, size_t size)
{
    enum { ROOM = 100 };
    size_t used = 0;
    int listed = 0;
    text[0] = '\0';
    for (int i = 0; i < search->count && used + ROOM < size; i++) {
        const struct attempt *attempt = &search->attempts[i];
        char address[96];
        int error = attempt->error;
        if (!error && attempt->fd >= 0 && attempt->stage == STAGE_CONNECT)
            error = ETIMEDOUT; /* in progress without an answer */
        if (!error || attempt->at->address.ss_family == AF_UNIX)
            continue;
        handshake_describe_address(&attempt->at->address, address, sizeof address);
        used += (size_t)snprintf(text + used, size - used, "%s%s: %s", listed++ ? "; " : " (tried ",
                                 address, strerror(error));
    }
    if (listed)
        snprintf(text + used, size - used, ")");
}

static weft_status fail_search(const struct search *search)
{
    static const char *const seen[] = {
        [ANSWER_NONE] = "no process answered there; is the first PE running, and is the address "
                        "right?",
        [ANSWER_OTHER] = "a process answered that is not of this job, or belongs to another user",
        [ANSWER_WRONG_SECRET] = "the process that answered has another WEFT_SECRET: it is not of "
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
    if (search->best == ANSWER_WRONG_SECRET && search->rendezvous->secret)
        answer = "the process that answered does not know the secret of this job";
    return base_fail(WEFT_ERR_TIMEOUT, "%s: no connection within " BOOT_LIMIT_NAMES ": %s%s", what,
                     answer, tried);
}

static weft_status search_until_found(struct search *search)
{
    struct boot_limit limit = boot_limit_join();
    const struct rendezvous *rendezvous = search->rendezvous;
    const uint64_t longest_ns = 2 * STEP_MS * MILLISECOND_NS; /* a longer step means that this
                                                                 process was stopped */
    for (;;) {
        uint64_t before = clock_now_ns();
        if (search_once(search))
            return WEFT_OK;
        weft_status status =
            rendezvous->still_wanted ? rendezvous->still_wanted(rendezvous->argument) : WEFT_OK;
        if (!status)
            status = interrupt_check();
        if (status)
            return status;
        uint64_t passed = clock_now_ns() - before;
        passed = passed < longest_ns ? passed : longest_ns;
        if (search->error || search->refusals >= MOST_REFUSALS ||
            (!limit.endless && passed >= limit.left_ns))
            return fail_search(search);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* A member that tries several addresses to find its hub: how it handles what answers at each
 * address, when it tries again, which failure it reports, and that it leaves only the hub's
 * connection open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/rendezvous.h"

#include "base/config.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

enum { MOST = 3 };

/* What answers at an address. */
static struct place {
    int connect_error; /* of connect(); EINPROGRESS: the connection is complete at `connects_ns` */
    uint64_t connects_ns;
    int socket_error; /* the socket's error after that */
    uint64_t magic;
    bool greets, keyed, proves, hangs_up;
    size_t piece;
    int proves_until_try; /* the last try with a valid proof; 0 = all tries */
    int cut_off;          /* number of the send that is cut short; 0 = none */
    int tries;
    uint64_t tried_at_ns[16];
} places[MOST];

static struct rendezvous_address addresses[MOST];
static int place_of[FDS];   /* address of each descriptor */
static int no_sockets_from; /* number of the first call of socket() that fails; 0 = none */
static int families;
static struct wire wire;
static uint64_t wait_limit_ns;
static struct {
    int level, option, value;
} options[16];
static int option_count;

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    assert_int_equal(type, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(protocol, 0);
    families |= family == AF_INET ? 1 : family == AF_UNIX ? 2 : 4;
    if (no_sockets_from && net.made + 1 >= no_sockets_from) {
        errno = EMFILE;
        return -1;
    }
    return make_end();
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    int which = -1;
    for (int i = 0; i < MOST; i++)
        if ((const void *)address == (const void *)&addresses[i].address)
            which = i;
    assert_true(which >= 0);
    assert_int_equal(bytes, addresses[which].bytes);
    struct place *place = &places[which];
    place_of[fd - FIRST_FD] = which;
    if (place->tries < 16)
        place->tried_at_ns[place->tries] = net.now_ns;
    place->tries++;
    end_of(fd)->piece = place->piece;
    errno = place->connect_error;
    return errno ? -1 : 0;
}

static bool is_connected(int fd)
{
    const struct place *place = &places[place_of[fd - FIRST_FD]];
    return !place->connect_error || net.now_ns >= place->connects_ns;
}

static bool knocks_at(int fd)
{
    (void)fd;
    return false;
}

/* The greeting arrives at once, and the proof after the member's record. */
static void others_move(void)
{
    for (int i = 0; i < net.made; i++) {
        struct place *place = &places[place_of[i]];
        struct end *end = &net.ends[i];
        if (!end->open || !is_connected(FIRST_FD + i))
            continue;
        end->send_short = place->cut_off == (int)end->sends + 1;
        if (place->greets && !end->queued) {
            struct handshake_greeting greeting = {.magic = place->magic, .keyed = place->keyed};
            arrives(FIRST_FD + i, &greeting, sizeof greeting);
        }
        struct handshake_proof proof = {.magic = 0x7777 + HANDSHAKE_HUB};
        bool proves =
            place->proves && (!place->proves_until_try || place->tries <= place->proves_until_try);
        if (proves && end->sends == 1 && end->queued == sizeof(struct handshake_greeting))
            arrives(FIRST_FD + i, &proof, sizeof proof);
        end->hangs_up = place->hangs_up && (!place->greets || end->sends == 1);
    }
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
    assert_true(level == SOL_SOCKET && option == SO_ERROR && *size == sizeof(int));
    *(int *)value = places[place_of[fd - FIRST_FD]].socket_error;
    return 0;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    (void)fd;
    assert_int_equal(size, sizeof(int));
    if (option_count < 16) {
        options[option_count].level = level;
        options[option_count].option = option;
        options[option_count++].value = *(const int *)value;
    }
    return 0;
}

uint64_t __wrap_config_duration_ns(enum config_id id);
uint64_t __wrap_config_duration_ns(enum config_id id)
{
    assert_int_equal(id, CONFIG_WAIT_LIMIT);
    return wait_limit_ns;
}

void __wrap_handshake_describe_address(const struct sockaddr_storage *address, char *text,
                                       size_t size);
void __wrap_handshake_describe_address(const struct sockaddr_storage *address, char *text,
                                       size_t size)
{
    for (int i = 0; i < MOST; i++)
        if (address == &addresses[i].address)
            snprintf(text, size, "address %d", i);
}

static struct rendezvous rendezvous;

static int set_up(void **state)
{
    (void)state;
    net_begin();
    memset(places, 0, sizeof places);
    memset(&wire, 0, sizeof wire);
    memset(place_of, 0, sizeof place_of);
    no_sockets_from = families = option_count = 0;
    wait_limit_ns = 0;
    rendezvous = (struct rendezvous){.what = "a start",
                                     .n = 4,
                                     .me = 2,
                                     .key = "key",
                                     .key_bytes = 3,
                                     .still_wanted = still_wanted,
                                     .argument = &net};
    for (int i = 0; i < MOST; i++) {
        addresses[i] = (struct rendezvous_address){.address.ss_family = AF_INET, .bytes = 16};
        places[i] =
            (struct place){.magic = HANDSHAKE_MAGIC, .greets = true, .keyed = true, .proves = true};
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    callocs.left = -1;
    assert_int_equal(callocs.memory, 0);
    return 0;
}

static weft_status look(int count)
{
    return rendezvous_connect(&rendezvous, addresses, count, &wire);
}

static void assert_says(const char *words)
{
    if (!strstr(base_last_error(), words))
        fail_msg("it says: %s", base_last_error());
}

/* ---------------------------------------------------------------------------- the hub is found */

static void the_hub_is_found_at_one_of_its_addresses(void **state)
{
    (void)state;
    for (int hub = 0; hub < MOST; hub++)
        for (size_t piece = 0; piece < 8; piece += 7) {
            set_up(state);
            for (int i = 0; i < MOST; i++) {
                places[i].connect_error = i == hub ? EINPROGRESS : ECONNREFUSED;
                places[i].piece = piece;
            }
            assert_int_equal(look(MOST), WEFT_OK);
            const struct end *end = end_of(net.finished_fd);
            assert_int_equal(place_of[net.finished_fd - FIRST_FD], hub);
            assert_int_equal(wire.fd, net.finished_fd);
            assert_true(net.connecting);
            assert_int_equal(net.proven, HANDSHAKE_HUB);
            assert_int_equal(net.proved, HANDSHAKE_MEMBER);
            assert_int_equal(net.proves, 1);
            assert_int_equal(end->sends, 2);
            struct handshake_record hello;
            struct handshake_proof proof;
            memcpy(&hello, end->sent, sizeof hello);
            memcpy(&proof, end->sent + sizeof hello, sizeof proof);
            assert_int_equal(hello.member, 2);
            assert_int_equal(proof.magic, 0x7777 + HANDSHAKE_MEMBER);
            assert_int_equal(open_ends(), 1);
            assert_true(end->open);
            assert_int_equal(net.warnings, 0);
            assert_int_equal(places[hub].tries, 1);
        }
}

static void other_connections_are_closed_when_the_hub_is_found(void **state)
{
    (void)state;
    places[0].greets = false; /* sends nothing */
    places[1].connect_error = EINPROGRESS;
    places[1].connects_ns = UINT64_MAX; /* never completes */
    assert_int_equal(look(MOST), WEFT_OK);
    assert_int_equal(place_of[net.finished_fd - FIRST_FD], 2);
    assert_int_equal(net.made, 3);
    assert_int_equal(open_ends(), 1);
}

static void a_hub_that_comes_later_is_found_then(void **state)
{
    (void)state;
    places[0].connect_error = ECONNREFUSED;
    net.limit.endless = true;
    net.still_wanted_left = 20;
    assert_int_equal(look(1), WEFT_ERR_JOB);
    assert_string_equal(base_last_error(), "the job has ended");
    /* Pauses of 2, 4 ... 64 ms, then of 100 ms. */
    static const int at_ms[] = {0, 2, 6, 14, 30, 62, 126, 226, 326};
    for (size_t i = 0; i < sizeof at_ms / sizeof *at_ms; i++)
        assert_int_equal(places[0].tried_at_ns[i], (1000 + (uint64_t)at_ms[i]) * MS);
    assert_int_equal(net.waits[0], 2);
    assert_int_equal(net.waits[5], 64);
    assert_int_equal(net.waits[8], 100);
    assert_int_equal(net.asked, 21);
    assert_int_equal(open_ends(), 0);
}

/* -------------------------------------------------------------------------- peers that answer */

static void nobody_is_told_with_what_was_tried(void **state)
{
    (void)state;
    places[0].connect_error = ECONNREFUSED;
    places[1].connect_error = EINPROGRESS;
    places[1].socket_error = EHOSTUNREACH;
    places[2].connect_error = EINPROGRESS;
    places[2].connects_ns = UINT64_MAX;
    assert_int_equal(look(MOST), WEFT_ERR_TIMEOUT);
    assert_says("a start: no connection within " BOOT_LIMIT_NAMES ": no process answered there");
    assert_says(" (tried address 0: Connection refused; address 1: No route to host");
    assert_int_equal(open_ends(), 0);
    assert_true(net.now_ns >= 3000 * MS && net.now_ns < 3100 * MS);
    set_up(state);
    places[0].connect_error = EINPROGRESS;
    places[0].connects_ns = UINT64_MAX;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_says("is the address right? (tried address 0: Connection timed out)");
    assert_int_equal(places[0].tries, 1); /* the connection is still in progress */
    set_up(state);
    addresses[0].address.ss_family = AF_UNIX;
    places[0].connect_error = ECONNREFUSED;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_null(strstr(base_last_error(), "tried"));
    assert_int_equal(families, 2);
}

static void an_address_that_never_answers_is_tried_again(void **state)
{
    (void)state;
    places[0].connect_error = EINPROGRESS;
    places[0].connects_ns = UINT64_MAX;
    net.limit.left_ns = 7000 * MS;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_int_equal(places[0].tries, 2);
    assert_int_equal(places[0].tried_at_ns[1], (1000 + RENDEZVOUS_SECONDS * 1000 + 2) * MS);
    assert_says("address 0: Connection timed out");
    set_up(state); /* connected, but silent */
    places[0].greets = false;
    net.limit.left_ns = 7000 * MS;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_int_equal(places[0].tries, 2);
    assert_int_equal(places[0].tried_at_ns[1], (1000 + RENDEZVOUS_SECONDS * 1000 + 2) * MS);
    assert_says("a process answered that is not of this job");
    assert_null(strstr(base_last_error(), "tried"));
    assert_int_equal(open_ends(), 0);
}

static void what_is_not_this_job_is_told_apart(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        set_up(state);
        if (i == 0)
            places[0].magic++;
        if (i == 1)
            places[0].keyed = false;
        if (i == 2) {
            rendezvous.key = NULL;
            places[0].keyed = false;
            net.foreign_user = true;
        }
        if (i == 3)
            rendezvous.key = NULL; /* the hub has a key */
        if (i == 4)
            net.no_finish = true;
        if (i == 5) {
            places[0].greets = false;
            places[0].hangs_up = true;
        }
        places[1].connect_error = ECONNREFUSED;
        assert_int_equal(look(2), WEFT_ERR_TIMEOUT);
        assert_says("a process answered that is not of this job, or belongs to another user");
        assert_int_equal(net.proves, i == 4 ? net.finishes : 0);
        assert_int_equal(open_ends(), 0);
        assert_true(places[0].tries > 5);
    }
    set_up(state);
    rendezvous.key = NULL;
    places[0].keyed = false;
    assert_int_equal(look(1), WEFT_OK);
}

static void who_does_not_know_the_secret_gets_no_proof(void **state)
{
    (void)state;
    net.not_known = true;
    places[1].greets = false;
    assert_int_equal(look(2), WEFT_ERR_TIMEOUT);
    assert_says("the process that answered has another WEFT_SECRET");
    assert_int_equal(net.proves, 0);
    assert_int_equal(net.warnings, 1);
    assert_string_equal(net.line,
                        "a start: the process that listens at peer 0 does not know this PE's "
                        "WEFT_SECRET; waiting for the first PE of this job");
    set_up(state);
    rendezvous.secret = "the secret of PMIx";
    net.not_known = true;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_says(": the process that answered does not know the secret of this job");
    assert_non_null(strstr(net.line, "this PE's the secret of PMIx; waiting"));
}

static void a_hub_that_refuses_often_ends_the_search(void **state)
{
    (void)state;
    places[0].proves = false;
    places[0].hangs_up = true;
    net.limit.endless = true;
    assert_int_equal(look(1), WEFT_ERR_BOOT);
    assert_says("a start: the first PE refused this one");
    assert_int_equal(places[0].tries, 12);
    assert_int_equal(open_ends(), 0);
    for (int i = 0; i < 2; i++) { /* fewer rejections within the limit */
        set_up(state);
        net.limit.left_ns = 30 * MS;
        *(i ? &net.no_answer : &net.no_prove) = true;
        assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
        assert_says("the first PE refused this one; its log says why");
        assert_int_equal(net.finishes, 0);
        assert_int_equal(open_ends(), 0);
    }
}

/* A peer that fails the check of its proof stays unauthenticated. Rejections by the hub end the
 * search; those by such a peer do not. */
static void refusals_of_a_stranger_do_not_count(void **state)
{
    (void)state;
    places[0].proves_until_try = 1;
    places[0].hangs_up = true;
    net.not_known = true;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_true(places[0].tries > 20);
    assert_says("the process that answered has another WEFT_SECRET");
    assert_int_equal(net.warnings, 1);
}

static void a_send_that_is_cut_off_is_a_refusal(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        set_up(state);
        places[0].cut_off = 1 + first; /* the record, then the proof */
        net.limit.left_ns = 30 * MS;
        assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
        assert_says("the first PE refused this one");
        assert_int_equal(net.finishes, 0);
        assert_int_equal(net.proves > 0, first);
    }
}

/* ------------------------------------------------------------------------------------ failures */

static void without_descriptors_the_search_ends(void **state)
{
    (void)state;
    places[0].greets = false;
    no_sockets_from = 2;
    assert_int_equal(look(2), WEFT_ERR_SYSTEM);
    assert_says("a start: a socket: Too many open files; raise the limit");
    assert_int_equal(open_ends(), 0);
    for (int i = 0; i < 2; i++) {
        set_up(state);
        callocs.left = i;
        assert_int_equal(look(2), WEFT_ERR_NO_MEMORY);
        assert_int_equal(net.made, 0);
        callocs.left = -1;
        assert_int_equal(callocs.memory, 0);
    }
}

static void time_in_which_the_process_was_stopped_does_not_count(void **state)
{
    (void)state;
    places[0].greets = false;
    net.never_ready = true;
    net.poll_takes_ns = 10000 * MS;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.polls, 10); /* 200 ms each */
    set_up(state);
    rendezvous.still_wanted = NULL;
    net.never_ready = true;
    net.poll_takes_ns = 199 * MS;
    assert_int_equal(look(1), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.polls, 11);
    assert_int_equal(net.asked, 0);
    set_up(state); /* an interrupted poll() is not an event */
    net.poll_errors = 3;
    assert_int_equal(look(1), WEFT_OK);
    assert_int_equal(places[0].tries, 1);
}

/* -------------------------------------------------------------------------------------- sockets */

static int option_of(int level, int option)
{
    for (int i = 0; i < option_count; i++)
        if (options[i].level == level && options[i].option == option)
            return options[i].value;
    return -1;
}

static void silent_machines_are_noticed_within_half_of_the_limit(void **state)
{
    (void)state;
    static const struct {
        uint64_t limit_ms;
        int idle_s, between_s, tries, dead_ms;
    } rows[] = {{0, 15, 7, 6, 60000},      {120000, 15, 7, 6, 60000}, {120002, 15, 7, 6, 60000},
                {200000, 15, 7, 6, 60000}, {40000, 5, 2, 7, 20000},   {16000, 2, 1, 6, 8000},
                {6000, 1, 1, 2, 3000},     {4000, 1, 1, 1, 2000},     {1000, 1, 1, 1, 2000},
                {2, 1, 1, 1, 2000},        {119998, 14, 7, 6, 59999}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        option_count = 0;
        wait_limit_ns = rows[i].limit_ms * MS;
        rendezvous_tune(5);
        assert_int_equal(option_count, 6);
        assert_int_equal(option_of(IPPROTO_TCP, TCP_NODELAY), 1);
        assert_int_equal(option_of(SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option_of(IPPROTO_TCP, TCP_KEEPIDLE), rows[i].idle_s);
        assert_int_equal(option_of(IPPROTO_TCP, TCP_KEEPINTVL), rows[i].between_s);
        assert_int_equal(option_of(IPPROTO_TCP, TCP_KEEPCNT), rows[i].tries);
        assert_int_equal(option_of(IPPROTO_TCP, TCP_USER_TIMEOUT), rows[i].dead_ms);
    }
    option_count = 0;
    assert_int_equal(look(1), WEFT_OK);
    assert_int_equal(option_count, 6);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_hub_is_found_at_one_of_its_addresses),
        TEST(other_connections_are_closed_when_the_hub_is_found),
        TEST(a_hub_that_comes_later_is_found_then),
        TEST(nobody_is_told_with_what_was_tried),
        TEST(an_address_that_never_answers_is_tried_again),
        TEST(what_is_not_this_job_is_told_apart),
        TEST(who_does_not_know_the_secret_gets_no_proof),
        TEST(a_hub_that_refuses_often_ends_the_search),
        TEST(refusals_of_a_stranger_do_not_count),
        TEST(a_send_that_is_cut_off_is_a_refusal),
        TEST(without_descriptors_the_search_ends),
        TEST(time_in_which_the_process_was_stopped_does_not_count),
        TEST(silent_machines_are_noticed_within_half_of_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

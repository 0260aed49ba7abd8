/* SPDX-License-Identifier: Apache-2.0 */
/* A hub to which members and unauthenticated peers connect: which of them become members, why
 * others are dropped, what is logged about them and how often, and which members are reported
 * missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/rendezvous.h"

enum { LISTENING = FDS, MEMBERS = 4, MOST_CALLERS = 1100 };

/* The processes that connect, in order. */
static struct caller {
    uint64_t comes_ns;
    int member; /* member number that it sends */
    bool says_hello, proves, hangs_up_at_once, hangs_up_on_proof;
    uint64_t magic;    /* of its record; 0 = the right one */
    size_t piece;      /* bytes that arrive at a time */
    int cut_off;       /* number of the send to it that is cut short; 0 = none */
    int error;         /* errno of the first recv() */
    size_t only;       /* number of bytes of its record that arrive; 0 = all */
    uint64_t hello_ns; /* delay of its record */
    uint64_t proof_ns; /* delay of its proof */
} callers[MOST_CALLERS];
static int count, accepted, most_open; /* descriptors that the hub may have open; 0 = no limit */
static int accepts;
static const char *judgement; /* result of the check of records; NULL = all are valid */
static struct wire wires[MEMBERS];
static int caller_of[FDS];

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    assert_true(fd == LISTENING && !address && !bytes && flags == (SOCK_CLOEXEC | SOCK_NONBLOCK));
    accepts++;
    net.now_ns++;
    if (accepted < count && callers[accepted].comes_ns <= net.now_ns) {
        if (most_open && open_ends() >= most_open) {
            errno = most_open % 2 ? EMFILE : ENFILE;
            return -1;
        }
        int made = make_end();
        caller_of[made - FIRST_FD] = accepted;
        end_of(made)->piece = callers[accepted].piece;
        end_of(made)->receive_error = callers[accepted].error;
        end_of(made)->send_short = callers[accepted].cut_off == 1;
        accepted++;
        return made;
    }
    errno = EAGAIN;
    return -1;
}

static bool is_connected(int fd)
{
    (void)fd;
    return true;
}

static void others_move(void)
{
    for (int i = 0; i < net.made; i++) {
        const struct caller *caller = &callers[caller_of[i]];
        struct end *end = &net.ends[i];
        if (!end->open)
            continue;
        struct handshake_record hello = {.magic = caller->magic ? caller->magic : HANDSHAKE_MAGIC,
                                         .member = (uint32_t)caller->member};
        struct handshake_proof proof = {.magic = 0x7777 + HANDSHAKE_MEMBER};
        if (caller->says_hello && !end->queued && net.now_ns >= caller->comes_ns + caller->hello_ns)
            arrives(FIRST_FD + i, &hello, caller->only ? caller->only : sizeof hello);
        if (caller->proves && end->sends == 2 && end->queued == sizeof hello &&
            net.now_ns >= caller->comes_ns + caller->proof_ns)
            arrives(FIRST_FD + i, &proof, sizeof proof);
        end->send_short = caller->cut_off == (int)end->sends + 1;
        end->hangs_up = caller->hangs_up_at_once || (caller->hangs_up_on_proof && end->sends == 2);
    }
}

static int listened; /* polls that included the listening socket */

static bool knocks_at(int fd)
{
    assert_int_equal(fd, LISTENING);
    listened++;
    return accepted < count && callers[accepted].comes_ns <= net.now_ns;
}

const char *__wrap_handshake_check_record(const struct rendezvous *rendezvous,
                                          const struct handshake_record *hello);
const char *__wrap_handshake_check_record(const struct rendezvous *rendezvous,
                                          const struct handshake_record *hello)
{
    assert_string_equal(rendezvous->what, "a start");
    assert_true(hello->member < MEMBERS);
    return judgement;
}

void __wrap_rendezvous_tune(int fd);
void __wrap_rendezvous_tune(int fd)
{
    assert_true(end_of(fd)->open);
    net.tuned++;
}

static struct rendezvous rendezvous;

static int set_up(void **state)
{
    (void)state;
    net_begin();
    memset(callers, 0, sizeof callers);
    memset(wires, 0, sizeof wires);
    memset(caller_of, 0, sizeof caller_of);
    count = accepted = most_open = accepts = listened = 0;
    judgement = NULL;
    rendezvous = (struct rendezvous){.what = "a start",
                                     .n = MEMBERS,
                                     .key = "key",
                                     .key_bytes = 3,
                                     .still_wanted = still_wanted,
                                     .argument = &net};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    callocs.left = -1;
    assert_int_equal(callocs.memory, 0);
    return 0;
}

static struct caller *add(int member)
{
    callers[count] = (struct caller){
        .comes_ns = net.now_ns, .member = member, .says_hello = true, .proves = true};
    return &callers[count++];
}

static weft_status welcome(void)
{
    return rendezvous_accept(&rendezvous, LISTENING, wires);
}

static void assert_says(const char *words)
{
    if (!strstr(base_last_error(), words))
        fail_msg("it says: %s", base_last_error());
}

static void all_members_are_welcomed(void **state)
{
    (void)state;
    for (size_t piece = 0; piece < 10; piece += 9) {
        set_up(state);
        static const int order[] = {2, 3, 1};
        for (int i = 0; i < 3; i++)
            add(order[i])->piece = piece;
        assert_int_equal(welcome(), WEFT_OK);
        assert_int_equal(wires[0].fd, -1);
        for (int i = 0; i < 3; i++)
            assert_int_equal(wires[order[i]].fd, FIRST_FD + i);
        assert_int_equal(open_ends(), 3);
        assert_int_equal(net.finishes, 3);
        assert_false(net.connecting);
        assert_int_equal(net.proved, HANDSHAKE_HUB);
        assert_int_equal(net.proven, HANDSHAKE_MEMBER);
        assert_int_equal(net.warnings, 0);
        assert_int_equal(net.tuned, 3);
        struct handshake_greeting greeting;
        struct handshake_proof proof;
        memcpy(&greeting, net.ends[0].sent, sizeof greeting);
        memcpy(&proof, net.ends[0].sent + sizeof greeting, sizeof proof);
        assert_int_equal(greeting.keyed, 1);
        assert_int_equal(proof.magic, 0x7777 + HANDSHAKE_HUB);
    }
    set_up(state);
    rendezvous.n = 1; /* no other member is expected */
    assert_int_equal(welcome(), WEFT_OK);
    assert_int_equal(net.polls, 0);
}

static void strangers_are_dropped_with_a_reason(void **state)
{
    (void)state;
    for (int i = 0; i < 13; i++) {
        set_up(state);
        static const char *const reasons[] = {
            "it belongs to another user",
            "the greeting could not be sent to it",
            "the greeting could not be sent to it",
            "it says so",
            "a member with its number is already here",
            "it closed the connection",
            "it does not know the job's secret (WEFT_SECRET)",
            "it does not know the job's secret",
            "it closed the connection before it authenticated itself",
            "it does not speak Weft's protocol",
            "it closed the connection after the hub's proof: its WEFT_SECRET differs, or it is "
            "not of this job",
            "it closed the connection after the hub's proof: its secret differs, or it is not of "
            "this job",
            "it closed the connection before it authenticated itself",
        };
        struct caller *caller = add(2);
        net.limit.left_ns = 1000 * MS;
        if (i == 0) {
            rendezvous.key = NULL;
            net.foreign_user = true;
        } else if (i == 1) {
            net.no_greet = true;
        } else if (i == 2) {
            caller->cut_off = 1;
        } else if (i == 3) {
            judgement = "it says so";
        } else if (i == 4) {
            add(2);
        } else if (i == 5) {
            caller->cut_off = 2;
        } else if (i == 6 || i == 7) {
            net.not_known = true;
            rendezvous.secret = i == 7 ? "some" : NULL;
        } else if (i == 8) {
            caller->says_hello = false;
            caller->hangs_up_at_once = true;
        } else if (i == 9) {
            caller->magic = 5;
            caller->only = 8;
        } else if (i == 10 || i == 11) {
            caller->proves = false;
            caller->hangs_up_on_proof = true;
            rendezvous.secret = i == 11 ? "some" : NULL;
        } else {
            rendezvous.key = NULL;
            caller->proves = false;
            caller->hangs_up_on_proof = true;
        }
        assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
        assert_says(i == 4 ? "2 of 3 members did not connect" : "3 of 3 members did not connect");
        char words[256];
        snprintf(words, sizeof words, "a start: dropped an unauthenticated peer, peer %d: %s",
                 FIRST_FD + (i == 4 && caller_of[1] == 1 && wires[2].fd == FIRST_FD), reasons[i]);
        if (net.warnings != 1 || (i != 4 && strcmp(net.line, words) != 0) ||
            !strstr(net.line, reasons[i]))
            fail_msg("row %d: %d lines: %s", i, net.warnings, net.line);
        assert_int_equal(open_ends(), i == 4);
        assert_int_equal(net.tuned, i == 0 ? 0 : i == 4 ? 2 : 1);
    }
}

static void who_says_nothing_is_dropped_in_time(void **state)
{
    (void)state;
    add(2)->says_hello = false;
    struct caller *slow = add(3);
    slow->proof_ns = 4900 * MS;
    net.limit.left_ns = 8000 * MS;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.warnings, 1);
    assert_string_equal(
        net.line,
        "a start: dropped an unauthenticated peer, peer 0: it did not authenticate itself in time");
    assert_int_equal(wires[3].fd, FIRST_FD + 1);
    assert_int_equal(wires[2].fd, -1);
    assert_int_equal(open_ends(), 1);
    assert_says("2 of 3 members did not connect within " BOOT_LIMIT_NAMES ": 1, 2");
}

static void two_that_come_as_one_member_are_one(void **state)
{
    (void)state;
    add(1);
    add(1);
    add(1)->proof_ns = 300 * MS;
    add(2);
    add(1)->hello_ns = 500 * MS; /* the other one is a member by then: no proof is sent */
    add(3)->hello_ns = 600 * MS;
    assert_int_equal(welcome(), WEFT_OK);
    assert_int_equal(open_ends(), 3);
    assert_int_equal(net.proves, 5);
    assert_int_equal(net.warnings, 3);
    assert_non_null(strstr(net.line, "a member with its number is already here"));
}

/* One of them sends its record when another one has become the member. */
static void a_late_connection_of_a_member_is_not_worth_a_line(void **state)
{
    for (int several = 0; several < 2; several++) {
        set_up(state);
        rendezvous.many_addresses = several;
        add(1);
        add(1)->hello_ns = 100 * MS;
        add(2)->hello_ns = 200 * MS;
        add(3)->hello_ns = 300 * MS;
        assert_int_equal(welcome(), WEFT_OK);
        assert_int_equal(open_ends(), 3);
        assert_int_equal(net.warnings, !several);
    }
}

/* A member that reaches the hub at several addresses closes all connections except one. The hub
 * logs nothing about these. */
static void further_connections_of_a_member_are_not_worth_a_line(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        set_up(state);
        /* The member has joined already, or another connection of it is in progress, or there is
         * none. */
        if (i != 2)
            add(2)->proof_ns = i == 1 ? 500 * MS : 0;
        struct caller *caller = add(i == 3 ? 3 : 2);
        caller->proves = false;
        caller->hangs_up_on_proof = true;
        if (i >= 4) { /* before it has sent anything */
            caller->says_hello = false;
            caller->hangs_up_on_proof = false;
            caller->hangs_up_at_once = true;
            rendezvous.many_addresses = i == 4;
        }
        net.limit.left_ns = 1000 * MS;
        assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
        bool told = i == 2 || i == 3 || i == 5;
        if (net.warnings != told)
            fail_msg("row %d: %d lines: %s", i, net.warnings, net.line);
        assert_int_equal(open_ends(), i != 2);
    }
    set_up(state); /* after it has sent something */
    struct caller *caller = add(2);
    caller->only = 4;
    caller->hangs_up_at_once = true;
    rendezvous.many_addresses = true;
    net.limit.left_ns = 1000 * MS;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.warnings, 1);
}

static void only_the_first_strangers_of_a_kind_are_logged(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++)
        add(1)->magic = 5;
    judgement = "it says so";
    for (int i = 0; i < 3; i++)
        add(1);
    net.limit.left_ns = 1000 * MS;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.describes, 7);
    assert_int_equal(net.warnings, 8);
    assert_string_equal(net.line, "a start: dropped 12 unauthenticated peers in total");
    set_up(state);
    for (int i = 0; i < 4; i++)
        add(1)->magic = 5;
    net.limit.left_ns = 1000 * MS;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.warnings, 4);
}

static void the_oldest_makes_room_in_a_crowd(void **state)
{
    (void)state;
    for (int i = 0; i < 513; i++)
        add(1)->says_hello = false;
    for (int member = 1; member < MEMBERS; member++)
        add(member);
    assert_int_equal(welcome(), WEFT_OK);
    assert_int_equal(net.warnings, 4);
    assert_non_null(strstr(net.line, "others wait, and it has not authenticated itself yet"));
    assert_int_equal(open_ends(), 3);
}

static void without_descriptors_the_hub_waits_until_one_is_closed(void **state)
{
    (void)state;
    for (int most = 1; most < 4; most++) {
        set_up(state);
        add(1)->says_hello = false;
        if (most > 1)
            add(1)->says_hello = false;
        for (int member = 1; member < MEMBERS; member++)
            add(member);
        net.limit.left_ns = 9000 * MS;
        rendezvous.n = most > 1 ? MEMBERS : 2;
        most_open = most;
        weft_status status = welcome();
        /* With two descriptors, the members alone use all of them. */
        assert_int_equal(status, most == 2 ? WEFT_ERR_SYSTEM : WEFT_OK);
        assert_true(listened < net.polls); /* until silent connections were dropped after 5 s */
        assert_true(net.now_ns >= 6000 * MS);
    }
    set_up(state);
    add(1);
    most_open = 1;
    make_end(); /* belongs to other code: the hub has no connection to close */
    assert_int_equal(welcome(), WEFT_ERR_SYSTEM);
    assert_says(
        "a start: accepting a connection: Too many open files; raise the limit of open files");
}

static void the_limit_counts_from_the_last_that_has_come(void **state)
{
    for (int from_last = 0; from_last < 2; from_last++) {
        set_up(state);
        uint64_t limit = net.limit.left_ns;
        rendezvous.limit_from_last = from_last;
        for (int i = 0; i < 3; i++)
            add(1 + i)->comes_ns += (uint64_t)i * limit / 4 * 3;
        assert_int_equal(welcome(), from_last ? WEFT_OK : WEFT_ERR_TIMEOUT);
        assert_int_equal(wires[2].fd, FIRST_FD + 1);
        assert_int_equal(wires[3].fd, from_last ? FIRST_FD + 2 : -1);
    }
}

static void the_missing_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {"hub", "first", "second", "third"};
    add(2);
    rendezvous.names = names;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_says("a start: 2 of 3 members did not connect within " BOOT_LIMIT_NAMES
                ": first, third");
    assert_null(strstr(base_last_error(), "..."));
    set_up(state);
    static struct wire many[200];
    rendezvous.n = 200;
    assert_int_equal(rendezvous_accept(&rendezvous, LISTENING, many), WEFT_ERR_TIMEOUT);
    assert_says(": 1, 2, 3, ");
    assert_says(", ...");
    assert_null(strstr(base_last_error(), ", 50"));
    for (int i = 0; i < 200; i++)
        assert_int_equal(many[i].fd, -1);
}

static void the_wait_ends_with_the_job(void **state)
{
    (void)state;
    add(1)->says_hello = false;
    net.still_wanted_left = 3;
    net.limit.endless = true;
    net.limit.left_ns = 0;
    assert_int_equal(welcome(), WEFT_ERR_JOB);
    assert_int_equal(net.asked, 4);
    assert_int_equal(open_ends(), 0);
    set_up(state);
    add(1);
    add(2);
    add(3);
    net.no_prove = true;
    assert_int_equal(welcome(), WEFT_ERR_SYSTEM);
    assert_int_equal(open_ends(), 0);
    set_up(state);
    add(1);
    add(2);
    add(3);
    net.no_finish = true;
    assert_int_equal(welcome(), WEFT_ERR_SYSTEM);
    assert_int_equal(net.finishes, 1);
    assert_int_equal(open_ends(), 0);
    for (int i = 0; i < 2; i++) {
        set_up(state);
        callocs.left = i;
        assert_int_equal(welcome(), WEFT_ERR_NO_MEMORY);
        callocs.left = -1;
        assert_int_equal(callocs.memory, 0);
        assert_int_equal(net.polls, 0);
        assert_int_equal(wires[3].fd, -1);
    }
}

static void time_in_which_the_hub_was_stopped_does_not_count(void **state)
{
    (void)state;
    rendezvous.still_wanted = NULL;
    net.poll_takes_ns = 10000 * MS;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.polls, 10); /* 200 ms each */
    set_up(state);
    net.poll_takes_ns = 199 * MS;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.polls, 11);
    set_up(state);
    for (int member = 1; member < MEMBERS; member++)
        add(member)->error = member == 1 ? EINTR : EAGAIN;
    net.poll_errors = 3;
    assert_int_equal(welcome(), WEFT_OK);
    set_up(state);
    add(1)->error = ECONNRESET;
    assert_int_equal(welcome(), WEFT_ERR_TIMEOUT);
    assert_int_equal(net.warnings, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_members_are_welcomed),
        TEST(strangers_are_dropped_with_a_reason),
        TEST(who_says_nothing_is_dropped_in_time),
        TEST(two_that_come_as_one_member_are_one),
        TEST(a_late_connection_of_a_member_is_not_worth_a_line),
        TEST(further_connections_of_a_member_are_not_worth_a_line),
        TEST(only_the_first_strangers_of_a_kind_are_logged),
        TEST(the_oldest_makes_room_in_a_crowd),
        TEST(without_descriptors_the_hub_waits_until_one_is_closed),
        TEST(the_limit_counts_from_the_last_that_has_come),
        TEST(the_missing_are_named),
        TEST(the_wait_ends_with_the_job),
        TEST(time_in_which_the_hub_was_stopped_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A PE whose hub is another PE or `weft run`: what it sends, how it handles the replies, and its
 * messages if the hub ends the job, does not reply or is gone. */
#include "tests/unit/member.h"

static const int mine = 30, whole[N] = {10, 20, 30};

static void a_part_is_exchanged(void **state)
{
    int all[N] = {0};
    (void)state;
    say(0, FRAME_ALL, 0, whole, sizeof whole);
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_OK);
    assert_memory_equal(all, whole, sizeof whole);
    expect_frame(0, FRAME_PART, 0, &mine, sizeof mine);
    say(0, FRAME_ALL, 0, "", 0);
    assert_int_equal(member_allgather(&m, NULL, NULL, 0), WEFT_OK);
    expect_frame(0, FRAME_PART, 0, "", 0);
    expect_silence(0);
    assert_int_equal(waits.polls, 0);
}

static void an_answer_of_another_size(void **state)
{
    int all[N];
    (void)state;
    say(0, FRAME_ALL, 0, whole, 5);
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(), "PE 4 gathered 5 bytes instead of 12");
    expect_frame(0, FRAME_PART, 0, &mine, sizeof mine);
    expect_sentence(0, FRAME_FAILED, WEFT_ERR_BOOT, "PE 4 gathered 5 bytes instead of 12");
}

/* A reply before the end of the job is still used. After that, this call and all later ones return
 * the end's status. */
static void the_hub_ends_the_job(void **state)
{
    int all[N];
    static const struct {
        int number;
        weft_status status;
    } rows[] = {{WEFT_ERR_PATH, WEFT_ERR_PATH}, {-1, -1}, {0, WEFT_ERR_JOB}, {5, WEFT_ERR_JOB}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i) {
            close_all(state);
            open_member(state);
        }
        say(0, FRAME_ALL, 0, whole, sizeof whole);
        say(0, FRAME_END, rows[i].number, "it is over", 10);
        say(0, FRAME_ALL, 0, whole, sizeof whole);
        assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_OK);
        assert_int_equal(member_check(&m), rows[i].status);
        assert_string_equal(base_last_error(), "it is over");
        assert_int_equal(m.inbox.frames, 1);
        assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), rows[i].status);
        assert_string_equal(base_last_error(), "it is over");
        expect_frame(0, FRAME_PART, 0, &mine, sizeof mine);
        expect_silence(0);
        assert_false(m.inferred);
    }
}

static void the_hub_has_finalized(void **state)
{
    int all[N];
    (void)state;
    say(0, FRAME_BYE, 1, "", 0);
    wire_close(&far[0]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(member_check(&m), WEFT_OK);
    assert_true(m.hub_left);
    assert_int_equal(m.inbox.fd, -1);
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_ERR_PEER_DEAD);
    assert_string_equal(base_last_error(), "PE 4 has already finalized");
    assert_false(m.inferred);
}

static void the_hub_finalizes_meanwhile(void)
{
    say(0, FRAME_BYE, 1, "", 0);
    wire_close(&far[0]);
}

static void the_hub_finalizes_before_an_exchange(void **state)
{
    int all[N];
    (void)state;
    waits.step[0] = the_hub_finalizes_meanwhile;
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_ERR_PEER_DEAD);
    assert_string_equal(base_last_error(), "PE 4 has already finalized");
    assert_int_equal(waits.polls, 1);
}

static void the_hub_is_gone(void **state)
{
    int all[N];
    static const char *const sentences[] = {
        "PE 4 has ended: its connection to PE 9 was closed before weft_finalize",
        "PE 4 does not answer PE 9 any more: Connection timed out"};
    for (int i = 0; i < 2; i++) {
        if (i) {
            close_all(state);
            open_member(state);
            m.inbox.error = ETIMEDOUT;
        }
        wire_close(&far[0]);
        assert_int_equal(i ? member_check(&m) : member_allgather(&m, &mine, all, sizeof mine),
                         WEFT_ERR_PEER_DEAD);
        assert_string_equal(base_last_error(), sentences[i]);
        assert_true(m.inferred);
        assert_int_equal(m.inbox.fd, -1);
    }
}

/* The hub's last message, sent before it closed, is the reason. */
static void what_the_hub_said_last_counts(void **state)
{
    int all[N];
    (void)state;
    say(0, FRAME_END, WEFT_ERR_PATH, "it is over", 10);
    wire_close(&far[0]);
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_ERR_PATH);
    assert_string_equal(base_last_error(), "it is over");
    assert_false(m.inferred);
}

static void what_arrives_is_from_no_hub(void **state)
{
    (void)state;
    assert_int_equal(write(far[0].fd, "this is no frame of Weft's", 26), 26);
    assert_int_equal(member_check(&m), WEFT_ERR_BOOT);
    assert_memory_equal(base_last_error(), "the connection to PE 4 failed: ", 31);
    assert_true(strlen(base_last_error()) > 40);
    struct wire_frame *frame = heard(0);
    assert_int_equal(frame->type, FRAME_FAILED);
    wire_frame_free(frame);
}

static void who_is_missing(void)
{
    say(0, FRAME_MISSING, 0, "PE 6 did not reach the exchange", 31);
}

/* After the limit, the member asks the hub which PEs are missing, and waits one second for the
 * reply. */
static void the_limit_passes(void **state)
{
    int all[N];
    const char *sentence = "PE 4 did not reach an exchange within WEFT_WAIT_LIMIT";
    (void)state;
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(), sentence);
    assert_int_equal(waits.polls, 2);
    assert_int_equal(waits.left_ns, 1000000000);
    expect_frame(0, FRAME_PART, 0, &mine, sizeof mine);
    expect_frame(0, FRAME_WHO, 0, "", 0);
    expect_sentence(0, FRAME_FAILED, WEFT_ERR_TIMEOUT, sentence);
    close_all(state);
    open_member(state);
    waits.step[1] = who_is_missing; /* the first wait reaches its limit */
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(),
                        "PE 6 did not reach the exchange within WEFT_WAIT_LIMIT");
}

/* ---------------------------------------------------------------------------------- descriptors */

static void a_descriptor_is_taken(void **state)
{
    static const struct {
        int number, fd;
        weft_status status;
        const char *words;
    } rows[] = {{1, 1, WEFT_OK, NULL},
                {0, 1, WEFT_ERR_MISMATCH,
                 "PE 9 expects a descriptor of another PE than the one that shares it"},
                {1, -1, WEFT_ERR_SYSTEM, "a descriptor of PE 6 did not arrive: "}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int taken = -5;
        if (i) {
            close_all(state);
            open_member(state);
        }
        free_zero(ZERO_TAKEN);
        wire_post(&far[0], FRAME_FD, rows[i].number, NULL, 0, rows[i].fd);
        assert_int_equal(member_share_fd(&m, 1, -1, NULL, 0, &taken), rows[i].status);
        assert_int_equal(taken >= 0, !rows[i].status);
        if (taken >= 0)
            close(taken);
        if (rows[i].words)
            assert_non_null(strstr(base_last_error(), rows[i].words));
        if (rows[i].status)
            assert_int_equal(member_check(&m), rows[i].status);
    }
    close_all(state);
    open_member(state);
    int taken = -5;
    assert_int_equal(member_share_fd(&m, 1, -1, NULL, 0, &taken), WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(),
                        "PE 6 did not share a descriptor within WEFT_WAIT_LIMIT");
    assert_int_equal(taken, -1);
    close_all(state);
    open_member(state);
    say(0, FRAME_ALL, 0, "", 0);
    assert_int_equal(member_share_fd(&m, 1, -1, NULL, 0, &taken), WEFT_ERR_MISMATCH);
    assert_string_equal(base_last_error(), "the PEs do not make the same calls: PE 9 shares a "
                                           "descriptor, but another exchanges");
}

static void a_descriptor_is_given(void **state)
{
    const int to[2] = {0, 1};
    (void)state;
    free_zero(ZERO_TAKEN);
    for (int i = 0; i < 2; i++) {
        int taken = -5;
        assert_int_equal(member_share_fd(&m, 2, 1, i ? to : NULL, 2, &taken), WEFT_OK);
        assert_true(taken >= 0);
        close(taken);
        struct wire_frame *frame = heard(0);
        assert_int_equal(frame->type, FRAME_FD);
        assert_int_equal(frame->number, 2);
        assert_true(frame->fd >= 0);
        assert_int_equal(frame->bytes, i ? sizeof to : 0);
        assert_memory_equal(frame->payload, to, frame->bytes);
        wire_frame_free(frame);
    }
}

/* ------------------------------------------------------------------------------------------ end */

static void an_abort_is_said_at_once(void **state)
{
    char longer[HUB_MOST_SENTENCE + 50];
    (void)state;
    pthread_mutex_lock(&m.lock); /* another thread is waiting */
    member_abort(&m, 3, "enough");
    pthread_mutex_unlock(&m.lock);
    expect_sentence(0, FRAME_ABORT, 3, "enough");
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    member_abort(&m, 4, longer);
    expect_frame(0, FRAME_ABORT, 4, longer, HUB_MOST_SENTENCE);
    pthread_mutex_lock(&m.lock);
    pthread_mutex_unlock(&m.lock);
}

static void a_failure_is_said_once(void **state)
{
    (void)state;
    member_fail(&m, WEFT_ERR_PATH, "a path broke");
    member_fail(&m, WEFT_ERR_KERNEL, "later");
    assert_int_equal(member_check(&m), WEFT_ERR_PATH);
    assert_string_equal(base_last_error(), "a path broke");
    expect_sentence(0, FRAME_FAILED, WEFT_ERR_PATH, "a path broke");
    expect_silence(0);
}

static void it_says_whether_it_ends_cleanly(void **state)
{
    for (int clean = 0; clean < 2; clean++) {
        open_member(state);
        member_close(&m, clean);
        expect_frame(0, FRAME_BYE, clean, "", 0);
        assert_int_equal(wire_read(&far[0]), WEFT_ERR_PEER_DEAD);
        assert_true(m.epoll == -1 && m.inbox.fd == -1);
        expect_all_given_back();
    }
}

static void a_child_closes_its_copies(void **state)
{
    int fds[2] = {m.epoll, m.inbox.fd};
    (void)state;
    member_forked(&m);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), -1);
    m.epoll = m.inbox.fd = -1;
    expect_silence(0);
    member_forked(&m); /* a second call has nothing to close */
}

/* ---------------------------------------------------------------------- the launcher is the hub */

static int launched_fd;

static void open_launched(void)
{
    int fds[2];
    reset(NULL);
    free_zero(ZERO_WIRE);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    launched_fd = fds[0];
    wire_init(&far[0], fds[1], NULL, true);
}

static void the_launcher_is_joined(void **state)
{
    int all[N];
    (void)state;
    open_launched();
    free_zero(ZERO_EPOLL);
    assert_int_equal(member_init_launched(&m, N, 1, launched_fd), WEFT_OK);
    expect_frame(0, FRAME_JOIN, 0, "", 0);
    say(0, FRAME_ALL, 0, whole, 7);
    assert_int_equal(member_allgather(&m, &mine, all, sizeof mine), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(),
                        "the launcher (weft run) gathered 7 bytes instead of 12");
    member_close(&m, true);
    assert_true(fcntl(launched_fd, F_GETFD) >= 0); /* the next job uses the same socket */
    expect_frame(0, FRAME_PART, 0, &mine, sizeof mine);
    expect_sentence(0, FRAME_FAILED, WEFT_ERR_BOOT,
                    "the launcher (weft run) gathered 7 bytes instead of 12");
    expect_frame(0, FRAME_BYE, 1, "", 0);
    assert_int_equal(member_init_launched(&m, N, 1, launched_fd), WEFT_OK);
    wire_close(&far[0]);
    assert_int_equal(member_check(&m), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(), "the launcher (weft run) has ended; so does the job");
    assert_true(fcntl(launched_fd, F_GETFD) >= 0);
    member_close(&m, false);
    waits.control_error = ENOSPC;
    assert_int_equal(member_init_launched(&m, N, 1, launched_fd), WEFT_ERR_SYSTEM);
    assert_int_equal(m.epoll, -1);
    waits.control_error = 0;
    /* The launcher's end is closed. */
    assert_int_equal(member_init_launched(&m, N, 1, launched_fd), WEFT_ERR_BOOT);
    assert_true(fcntl(launched_fd, F_GETFD) >= 0);
    close(launched_fd);
    expect_all_given_back();
}

/* Members that have connected get the reason why the job does not start. */
static void those_who_came_are_refused(void **state)
{
    reset(state);
    struct wire *wires = calloc(N, sizeof *wires);
    wires[0].fd = wires[1].fd = -1;
    free_zero(ZERO_WIRE);
    pair(&wires[2], &far[2]);
    base_fail(WEFT_ERR_TIMEOUT, "PE 6 did not come");
    member_refuse(wires, N, WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(), "PE 6 did not come");
    expect_sentence(2, FRAME_END, WEFT_ERR_TIMEOUT, "PE 6 did not come");
    assert_int_equal(wire_read(&far[2]), WEFT_ERR_PEER_DEAD);
    expect_all_given_back();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_member, close_all)
    const struct CMUnitTest tests[] = {
        CASE(a_part_is_exchanged),
        CASE(an_answer_of_another_size),
        CASE(the_hub_ends_the_job),
        CASE(the_hub_has_finalized),
        CASE(the_hub_finalizes_before_an_exchange),
        CASE(the_hub_is_gone),
        CASE(what_the_hub_said_last_counts),
        CASE(what_arrives_is_from_no_hub),
        CASE(the_limit_passes),
        CASE(a_descriptor_is_taken),
        CASE(a_descriptor_is_given),
        CASE(an_abort_is_said_at_once),
        CASE(a_failure_is_said_once),
        cmocka_unit_test(it_says_whether_it_ends_cleanly),
        CASE(a_child_closes_its_copies),
        cmocka_unit_test(the_launcher_is_joined),
        cmocka_unit_test(those_who_came_are_refused),
    };
    int failed = 0;
    for (zero = ZERO_OTHER; zero < ZEROS; zero++)
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    return failed;
}

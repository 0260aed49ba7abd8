/* SPDX-License-Identifier: Apache-2.0 */
/* A PE that is the hub of its job: exchanges and descriptors among its members, and its messages to
 * the other members if one leaves, fails, aborts or is gone. */
#include "tests/unit/member.h"

static void parts_are_gathered(void **state)
{
    const int mine[2] = {10, 11}, theirs[N][2] = {{0}, {20, 21}, {30, 31}};
    const int whole[] = {10, 11, 20, 21, 30, 31};
    int all[6];
    (void)state;
    for (int round = 0; round < 2; round++) {
        say(2, FRAME_PART, 0, theirs[2], sizeof mine);
        say(1, FRAME_PART, 0, theirs[1], sizeof mine);
        assert_int_equal(member_allgather(&m, mine, all, sizeof mine), WEFT_OK);
        assert_memory_equal(all, whole, sizeof whole);
        expect_frame(1, FRAME_ALL, 0, whole, sizeof whole);
        expect_frame(2, FRAME_ALL, 0, whole, sizeof whole);
    }
    say(1, FRAME_PART, 0, "", 0);
    say(2, FRAME_PART, 0, "", 0);
    assert_int_equal(member_allgather(&m, NULL, NULL, 0), WEFT_OK);
    expect_frame(2, FRAME_ALL, 0, "", 0);
    assert_int_equal(waits.polls, 0);
    assert_int_equal(member_check(&m), WEFT_OK);
}

enum { SLICE = HUB_MOST_ANSWER / N + 1, REST = 5 };
static char large[N][SLICE + REST];

static void flush_both(void)
{
    wire_flush(&far[1]);
    wire_flush(&far[2]);
}

static void rest_comes(void)
{
    wire_read(&far[1]);
    wire_read(&far[2]);
    say(1, FRAME_PART, 0, large[1] + SLICE, REST);
    say(2, FRAME_PART, 0, large[2] + SLICE, REST);
}

/* Large data is gathered in slices, each of which is one exchange. */
static void much_is_gathered_in_slices(void **state)
{
    static char all[N * (SLICE + REST)];
    (void)state;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < SLICE + REST; k++)
            large[i][k] = (char)(i * 31 + k * 7 + k / 251);
    say(1, FRAME_PART, 0, large[1], SLICE);
    say(2, FRAME_PART, 0, large[2], SLICE);
    waits.step[0] = flush_both;
    waits.step[1] = rest_comes;
    if (!far[1].unsent && !far[2].unsent)
        waits.step[0] = rest_comes, waits.step[1] = NULL;
    assert_int_equal(member_allgather(&m, large[0], all, SLICE + REST), WEFT_OK);
    assert_memory_equal(all, large, sizeof all);
}

/* The hub knows which PE is missing, and reports it to all members. */
static void some_do_not_come(void **state)
{
    const char *sentence = "PE 6 did not reach the exchange within WEFT_WAIT_LIMIT";
    char all[N];
    (void)state;
    say(2, FRAME_PART, 0, "x", 1);
    assert_int_equal(member_allgather(&m, "m", all, 1), WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(), sentence);
    assert_int_equal(waits.polls, 1);
    expect_sentence(1, FRAME_END, WEFT_ERR_TIMEOUT, sentence);
    expect_sentence(2, FRAME_END, WEFT_ERR_TIMEOUT, sentence);
    assert_int_equal(member_allgather(&m, "m", all, 1), WEFT_ERR_TIMEOUT);
    assert_int_equal(member_check(&m), WEFT_ERR_TIMEOUT);
    member_fail(&m, WEFT_ERR_PATH, "later"); /* the first reason is kept */
    assert_int_equal(member_share_fd(&m, 0, 1, NULL, 0, &(int){0}), WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(), sentence);
    expect_silence(1);
    assert_int_equal(waits.polls, 1);
}

/* The hub sends the end of the job to all members, except to one that has left. Every later call
 * fails with the same reason. */
static void who_ends_the_job(void **state)
{
    static const struct {
        uint32_t type;
        int number;
        const char *says;
        weft_status status;
        const char *sentence;
        bool told_back;
    } rows[] = {
        {FRAME_BYE, 0, "", WEFT_ERR_PEER_DEAD, "PE 6 left the job before weft_finalize", false},
        {FRAME_ABORT, 7, "enough", WEFT_ERR_JOB, "PE 6 aborted the job with code 7: enough", true},
        {FRAME_FAILED, WEFT_ERR_PATH, "a path broke", WEFT_ERR_PATH, "a path broke", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i) {
            close_all(state);
            open_hub(state);
        }
        say(1, rows[i].type, rows[i].number, rows[i].says, strlen(rows[i].says));
        assert_int_equal(member_check(&m), rows[i].status);
        assert_string_equal(base_last_error(), rows[i].sentence);
        assert_false(m.inferred);
        expect_sentence(2, FRAME_END, rows[i].status, rows[i].sentence);
        if (rows[i].told_back)
            expect_sentence(1, FRAME_END, rows[i].status, rows[i].sentence);
        expect_silence(1);
    }
}

static void who_is_gone_ends_the_job(void **state)
{
    int node_of[10] = {[6] = 1};
    char hosts[2][BOOT_HOST_BYTES] = {"a", "b"};
    const struct boot boot = {.npes = 10, .nodes = 2, .node_of = node_of, .hosts = hosts};
    static const char *const sentences[] = {
        "PE 6 has ended: its connection to PE 4 was closed before weft_finalize",
        "PE 6 on b does not answer PE 4 on a any more: Connection timed out"};
    for (int i = 0; i < 2; i++) {
        if (i) {
            close_all(state);
            open_hub(state);
            m.boot = &boot;
            m.wires[1].error = ETIMEDOUT;
        }
        wire_close(&far[1]);
        assert_int_equal(member_check(&m), WEFT_ERR_PEER_DEAD);
        assert_string_equal(base_last_error(), sentences[i]);
        assert_true(m.inferred);
        assert_int_equal(m.wires[1].fd, -1);
        expect_sentence(2, FRAME_END, WEFT_ERR_PEER_DEAD, sentences[i]);
        wire_close(&far[2]); /* does not change the reason */
        member_check(&m);
    }
}

static void who_is_gone_after_the_end_is_no_news(void **state)
{
    (void)state;
    say(1, FRAME_BYE, 1, "", 0);
    assert_int_equal(member_check(&m), WEFT_OK);
    assert_true(m.left[1] && !m.left[2]);
    wire_close(&far[1]);
    assert_int_equal(member_check(&m), WEFT_OK);
    assert_int_equal(m.wires[1].fd, -1);
    expect_silence(2);
    member_fail(&m, WEFT_ERR_PATH, "a path broke");
    wire_close(&far[2]);
    pthread_mutex_lock(&m.lock);
    assert_int_equal(member_check(&m), WEFT_ERR_PATH);
    pthread_mutex_unlock(&m.lock);
    assert_false(m.inferred);
}

/* While another thread holds the lock, a check reads nothing. */
static void nothing_is_read_while_another_reads(void **state)
{
    (void)state;
    say(1, FRAME_FAILED, WEFT_ERR_PATH, "a path broke", 12);
    pthread_mutex_lock(&m.lock);
    assert_int_equal(member_check(&m), WEFT_OK);
    pthread_mutex_unlock(&m.lock);
    assert_int_equal(member_check(&m), WEFT_ERR_PATH);
}

/* ---------------------------------------------------------------------------------- descriptors */

static void expect_fd(int by, int number)
{
    struct wire_frame *frame = heard(by);
    assert_non_null(frame);
    assert_int_equal(frame->type, FRAME_FD);
    assert_int_equal(frame->number, number);
    assert_true(frame->fd >= 0);
    wire_frame_free(frame);
}

static void a_descriptor_is_given(void **state)
{
    const int to = 2;
    int taken = -5;
    (void)state;
    free_zero(ZERO_TAKEN);
    assert_int_equal(member_share_fd(&m, 0, 1, NULL, 0, &taken), WEFT_OK);
    assert_true(taken >= 0 && fcntl(taken, F_GETFD) & FD_CLOEXEC);
    close(taken);
    expect_fd(1, 0);
    expect_fd(2, 0);
    assert_int_equal(member_share_fd(&m, 0, 1, &to, 1, &taken), WEFT_OK);
    close(taken);
    expect_fd(2, 0);
    expect_silence(1);
    assert_int_equal(member_share_fd(&m, 0, 999, NULL, 0, &taken), WEFT_ERR_SYSTEM);
    assert_int_equal(taken, -1);
    assert_string_equal(base_last_error(), "duplicating descriptor 999: Bad file descriptor");
}

static void a_descriptor_is_taken(void **state)
{
    int taken = -5;
    (void)state;
    free_zero(ZERO_TAKEN);
    assert_int_equal(wire_post(&far[2], FRAME_FD, 2, NULL, 0, 1), WEFT_OK);
    assert_int_equal(member_share_fd(&m, 2, -1, NULL, 0, &taken), WEFT_OK);
    assert_true(taken >= 0);
    close(taken);
    expect_fd(1, 2);
    assert_int_equal(wire_post(&far[2], FRAME_FD, 2, NULL, 0, 1), WEFT_OK);
    assert_int_equal(member_share_fd(&m, 1, -1, NULL, 0, &taken), WEFT_ERR_MISMATCH);
    assert_int_equal(taken, -1);
    assert_string_equal(base_last_error(),
                        "PE 4 expects a descriptor of another PE than the one that shares it");
}

static void calls_that_do_not_fit(void **state)
{
    char all[N];
    (void)state;
    assert_int_equal(wire_post(&far[2], FRAME_FD, 2, NULL, 0, 1), WEFT_OK);
    waits.step[0] = waits.step[1] = flush_both;
    assert_int_equal(member_allgather(&m, "m", all, 1), WEFT_ERR_MISMATCH);
    assert_string_equal(base_last_error(), "the PEs do not make the same calls: PE 4 exchanges, "
                                           "but another shares a descriptor");
}

/* ------------------------------------------------------------------------------------------ end */

static void this_pe_fails_or_aborts(void **state)
{
    (void)state;
    member_fail(&m, WEFT_ERR_PATH, "a path broke");
    assert_int_equal(member_check(&m), WEFT_ERR_PATH);
    expect_sentence(1, FRAME_END, WEFT_ERR_PATH, "a path broke");
    expect_sentence(2, FRAME_END, WEFT_ERR_PATH, "a path broke");
    close_all(state);
    open_hub(state);
    pthread_mutex_lock(&m.lock);
    member_abort(&m, 3, "unheard"); /* another thread is using the wires */
    expect_silence(1);
    pthread_mutex_unlock(&m.lock);
    member_abort(&m, 3, "enough");
    expect_sentence(1, FRAME_END, WEFT_ERR_JOB, "PE 4 aborted the job with code 3: enough");
    assert_int_equal(member_check(&m), WEFT_ERR_JOB);
    pthread_mutex_lock(&m.lock); /* abort has released the lock */
    pthread_mutex_unlock(&m.lock);
}

static void say_goodbye(void)
{
    say(2, FRAME_BYE, 1, "", 0);
}

static void others_are_waited_for_at_the_end(void **state)
{
    (void)state;
    say(1, FRAME_BYE, 1, "", 0);
    waits.step[0] = flush_both;
    waits.step[1] = say_goodbye;
    waits.step[2] = flush_both; /* not reached */
    member_close(&m, true);
    assert_int_equal(waits.polls, 2);
    assert_int_equal(waits.left_ns, 2000000000);
    expect_frame(1, FRAME_BYE, 1, "", 0);
    expect_frame(2, FRAME_BYE, 1, "", 0);
    assert_true(m.epoll == -1 && m.inbox.fd == -1 && !m.wires && !m.left);
    expect_all_given_back();
    open_hub(state);
    member_close(&m, true); /* the wait reaches its limit */
    assert_int_equal(waits.polls, 1);
    expect_all_given_back();
    open_hub(state);
    say(1, FRAME_FAILED, WEFT_ERR_PATH, "late", 4);
    member_close(&m, true);
    assert_int_equal(waits.polls, 0);
    expect_frame(2, FRAME_BYE, 1, "", 0);
    expect_sentence(2, FRAME_END, WEFT_ERR_PATH, "late");
    expect_all_given_back();
    open_hub(state);
    member_fail(&m, WEFT_ERR_PATH, "a path broke");
    member_close(&m, true); /* everything was sent already */
    expect_sentence(2, FRAME_END, WEFT_ERR_PATH, "a path broke");
    expect_silence(2);
    assert_int_equal(waits.polls, 0);
    expect_all_given_back();
    open_hub(state);
    member_close(&m, false);
    expect_sentence(1, FRAME_END, WEFT_ERR_PEER_DEAD, "PE 4 left the job before weft_finalize");
    expect_silence(1);
    expect_all_given_back();
}

static void a_child_closes_its_copies(void **state)
{
    int fds[N + 1] = {m.epoll, m.wires[1].fd, m.wires[2].fd};
    (void)state;
    member_forked(&m);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fcntl(fds[i], F_GETFD), -1);
    m.epoll = m.wires[1].fd = m.wires[2].fd = -1;
    expect_silence(1);
}

/* ----------------------------------------------------------------------------------- the system */

static void the_system_refuses(void **state)
{
    static const char *const words[] = {"epoll_create1: Too many open files; raise the limit",
                                        "epoll_ctl: No space left on device"};
    for (int i = 0; i < 2; i++) {
        reset(state);
        struct wire *wires = calloc(N, sizeof *wires);
        wires[0].fd = -1;
        pair(&wires[1], &far[1]);
        wires[2].fd = -1;
        waits.create_error = i ? 0 : EMFILE;
        waits.control_error = i ? ENOSPC : 0;
        assert_int_equal(member_init(&m, N, 0, pes, wires), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(base_last_error(), words[i]));
        assert_int_equal(wire_read(&far[1]), WEFT_ERR_PEER_DEAD); /* closed */
        expect_all_given_back();
    }
}

static void there_is_no_memory_for_a_hub(void **state)
{
    static const char *const words[] = {"no memory for 3 PEs", "no memory for a hub of 3 members",
                                        "no memory for a hub of 3 members"};
    for (int i = 0; i < 3; i++) {
        reset(state);
        struct wire *wires = calloc(N, sizeof *wires);
        wires[0].fd = wires[2].fd = -1;
        pair(&wires[1], &far[1]);
        waits.blocks_left = i + 1;
        assert_int_equal(member_init(&m, N, 0, pes, wires), WEFT_ERR_NO_MEMORY);
        assert_string_equal(base_last_error(), words[i]);
        expect_all_given_back();
    }
}

static void events_fail(void **state)
{
    (void)state;
    waits.wait_error = EINTR;
    assert_int_equal(member_check(&m), WEFT_OK);
    waits.wait_error = EBADF;
    assert_int_equal(member_check(&m), WEFT_ERR_SYSTEM);
    assert_string_equal(
        base_last_error(),
        "PE 4 cannot receive from other PEs any more: epoll_wait: Bad file descriptor");
    expect_sentence(1, FRAME_END, WEFT_ERR_SYSTEM, base_last_error());
}

/* Data that does not fit the socket's buffer is sent when there is space. */
static void what_could_not_be_sent_goes_later(void **state)
{
    static char all[N * 60000], mine[60000];
    (void)state;
    int size = 4096;
    setsockopt(m.wires[1].fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    say(1, FRAME_PART, 0, mine, sizeof mine);
    say(2, FRAME_PART, 0, mine, sizeof mine);
    assert_int_equal(member_allgather(&m, mine, all, sizeof mine), WEFT_OK);
    assert_non_null(m.wires[1].unsent);
    struct wire_frame *frame = NULL;
    for (int i = 0; i < 200 && !frame; i++) {
        frame = heard(1);
        assert_int_equal(member_check(&m), WEFT_OK);
    }
    assert_non_null(frame);
    assert_int_equal(frame->bytes, sizeof all);
    wire_frame_free(frame);
    assert_null(m.wires[1].unsent);
    struct epoll_event event;
    /* The hub no longer polls for writability. */
    assert_int_equal(__real_epoll_wait(m.epoll, &event, 1, 0), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_hub, close_all)
    const struct CMUnitTest tests[] = {
        CASE(parts_are_gathered),
        CASE(much_is_gathered_in_slices),
        CASE(some_do_not_come),
        CASE(who_ends_the_job),
        CASE(who_is_gone_ends_the_job),
        CASE(who_is_gone_after_the_end_is_no_news),
        CASE(nothing_is_read_while_another_reads),
        CASE(a_descriptor_is_given),
        CASE(a_descriptor_is_taken),
        CASE(calls_that_do_not_fit),
        CASE(this_pe_fails_or_aborts),
        cmocka_unit_test_setup(others_are_waited_for_at_the_end, open_hub),
        CASE(a_child_closes_its_copies),
        cmocka_unit_test(the_system_refuses),
        cmocka_unit_test(there_is_no_memory_for_a_hub),
        CASE(events_fail),
        CASE(what_could_not_be_sent_goes_later),
    };
    int failed = 0;
    for (zero = ZERO_OTHER; zero < ZEROS; zero++)
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    return failed;
}

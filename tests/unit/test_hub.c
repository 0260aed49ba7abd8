/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between members and hub (hub.h, member.h), frame by frame: valid and invalid frames
 * of members, and a hub in a PE that handles the end of the job. The members are the other ends of
 * socket pairs, so the test never waits. */
#include "boot/hub/member.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 3 };

/* The last event of the hub, and the number of events. */
static struct heard {
    int count, member, code;
    weft_status status;
    bool clean;
    const char *event;
    char sentence[HUB_MOST_SENTENCE + 1];
} heard;

static void hear(const char *event, int member)
{
    heard.count++;
    heard.event = event;
    heard.member = member;
}

static void keep_sentence(const char *sentence)
{
    snprintf(heard.sentence, sizeof heard.sentence, "%s", sentence);
}

static void on_joined(void *owner, int member, pid_t sender)
{
    hear("joined", member);
}

static void on_left(void *owner, int member, bool clean)
{
    hear("left", member);
    heard.clean = clean;
}

static void on_aborted(void *owner, int member, int code, const char *sentence)
{
    hear("aborted", member);
    heard.code = code;
    keep_sentence(sentence);
}

static void on_failed(void *owner, int member, weft_status status, const char *sentence)
{
    hear("failed", member);
    heard.status = status;
    keep_sentence(sentence);
}

static void on_lost(void *owner, int member)
{
    hear("lost", member);
}

static void on_unsent_changed(void *owner, int member)
{
}

static const struct hub_events events = {on_joined, on_left,           on_aborted, on_failed,
                                         on_lost,   on_unsent_changed, NULL};

struct star {
    struct hub hub;
    struct wire at_hub[N], members[N];
};

static void connect_pair(struct wire *hub, struct wire *member)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    wire_init(hub, ends[0], NULL, false);
    wire_init(member, ends[1], NULL, true);
}

static void open_star(struct star *star, bool joined)
{
    heard = (struct heard){.member = -1};
    for (int i = 0; i < N; i++)
        connect_pair(&star->at_hub[i], &star->members[i]);
    assert_int_equal(hub_init(&star->hub, N, star->at_hub, joined), WEFT_OK);
    star->hub.events = &events;
}

static void close_star(struct star *star)
{
    for (int i = 0; i < N; i++) {
        wire_close(&star->members[i]);
        wire_close(&star->at_hub[i]);
    }
    hub_free(&star->hub);
}

/* A member sends a frame, and the hub reads it. */
static void say(struct star *star, int member, enum frame_type type, int number,
                const void *payload, size_t bytes)
{
    assert_int_equal(wire_post(&star->members[member], type, number, payload, bytes, -1), WEFT_OK);
    hub_read(&star->hub, member);
}

static struct wire_frame *answer(struct wire *wire)
{
    assert_int_equal(wire_read(wire), WEFT_OK);
    return wire_take(wire);
}

static void expect_silence(struct star *star)
{
    for (int i = 0; i < N; i++)
        assert_null(answer(&star->members[i]));
}

static void expect_failure(int member, weft_status status, const char *part)
{
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.event, "failed");
    assert_int_equal(heard.member, member);
    assert_int_equal(heard.status, status);
    if (!strstr(heard.sentence, part))
        fail_msg("\"%s\" does not say \"%s\"", heard.sentence, part);
}

/* -------------------------------------------------------------------------------- exchanges */

static void everyone_is_told_all_parts(struct star *star, const char *all)
{
    const size_t bytes = strlen(all) / N;
    for (int k = 0; k < N; k++) { /* in another order than the members' */
        int member = (k + 2) % N;
        say(star, member, FRAME_PART, 0, all + (size_t)member * bytes, bytes);
    }
    for (int i = 0; i < N; i++) {
        struct wire_frame *frame = answer(&star->members[i]);
        assert_non_null(frame);
        assert_int_equal(frame->type, FRAME_ALL);
        assert_int_equal(frame->bytes, strlen(all));
        assert_memory_equal(frame->payload, all, strlen(all));
        wire_frame_free(frame);
    }
    expect_silence(star);
    assert_int_equal(heard.count, 0);
}

static void parts_stand_in_the_order_of_members(void **state)
{
    struct star star;
    open_star(&star, true);
    everyone_is_told_all_parts(&star, "AAABBBCCC");
    everyone_is_told_all_parts(&star, "xyz"); /* of another size than before */
    everyone_is_told_all_parts(&star, "");
    close_star(&star);
}

static void parts_of_different_sizes_are_refused(void **state)
{
    struct star star;
    open_star(&star, true);
    say(&star, 0, FRAME_PART, 0, "four", 4);
    say(&star, 1, FRAME_PART, 0, "seven..", 7);
    expect_failure(1, WEFT_ERR_MISMATCH, "PE 1 exchanges 7 bytes where others exchange 4");
    assert_int_equal(star.hub.parts, 1);
    expect_silence(&star);
    close_star(&star);
}

static void a_second_part_is_refused(void **state)
{
    struct star star;
    open_star(&star, true);
    say(&star, 2, FRAME_PART, 0, "one", 3);
    say(&star, 2, FRAME_PART, 0, "two", 3);
    expect_failure(2, WEFT_ERR_BOOT, "PE 2 began an exchange while it was in one");
    close_star(&star);
}

static void parts_too_large_are_refused(void **state)
{
    static char part[HUB_MOST_ANSWER];
    struct star star;
    open_star(&star, true);
    assert_true(hub_slice(N) < sizeof part);
    say(&star, 1, FRAME_PART, 0, part, hub_slice(N) + 1);
    for (int look = 0; look < 64 && !heard.count; look++) { /* more than a socket buffer holds */
        assert_int_equal(wire_flush(&star.members[1]), WEFT_OK);
        hub_read(&star.hub, 1);
    }
    expect_failure(1, WEFT_ERR_BOOT, "more than the protocol allows");
    close_star(&star);
}

static void who_is_missing_is_told(void **state)
{
    static const int pes[N] = {4, 7, 9};
    struct star star;
    open_star(&star, true);
    star.hub.pes = pes;
    star.hub.in_job[2] = false;
    say(&star, 0, FRAME_PART, 0, "part", 4);
    say(&star, 0, FRAME_WHO, 0, NULL, 0);
    struct wire_frame *frame = answer(&star.members[0]);
    assert_non_null(frame);
    assert_int_equal(frame->type, FRAME_MISSING);
    assert_string_equal(frame->payload, "PE 7, 9 (not in the job) did not reach the exchange");
    wire_frame_free(frame);
    close_star(&star);
}

/* The member that asks is not in the list, whether it is in the exchange or not. A long list is cut
 * and ends in dots. */
static void missing_ones_are_listed_as_far_as_there_is_room(void **state)
{
    bool in_job[60], gathering[60] = {true};
    struct hub hub = {.n = 4, .in_job = in_job, .gathering = gathering};
    char text[160];
    memset(in_job, true, sizeof in_job);
    in_job[3] = false;
    hub_describe_missing(&hub, 1, text, sizeof text);
    assert_string_equal(text, "PE 2, 3 (not in the job) did not reach the exchange");
    hub_describe_missing(&hub, 0, text, sizeof text);
    assert_string_equal(text, "PE 1, 2, 3 (not in the job) did not reach the exchange");
    hub.n = 60;
    in_job[3] = true;
    hub_describe_missing(&hub, 0, text, sizeof text);
    assert_string_equal(text,
                        "PE 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, ... did not "
                        "reach the exchange");
}

/* ------------------------------------------------------------------------------ descriptors */

static void descriptors_go_to_all_others(void **state)
{
    struct star star;
    open_star(&star, true);
    int fd = memfd_create("hub", MFD_CLOEXEC), seen;
    assert_int_equal(pwrite(fd, &(int){4711}, sizeof(int), 0), sizeof(int));
    assert_int_equal(wire_post(&star.members[1], FRAME_FD, 0, NULL, 0, fd), WEFT_OK);
    close(fd);
    hub_read(&star.hub, 1);
    for (int i = 0; i < N; i++) {
        struct wire_frame *frame = answer(&star.members[i]);
        assert_int_equal(frame != NULL, i != 1);
        if (!frame)
            continue;
        assert_int_equal(frame->type, FRAME_FD);
        /* The number of the sharing member, whatever that member has sent. */
        assert_int_equal(frame->number, 1);
        assert_int_equal(pread(frame->fd, &seen, sizeof seen, 0), sizeof seen);
        assert_int_equal(seen, 4711);
        wire_frame_free(frame);
    }
    say(&star, 2, FRAME_FD, 0, NULL, 0); /* a frame without a descriptor */
    expect_failure(2, WEFT_ERR_SYSTEM, "a descriptor of PE 2 did not arrive");
    close_star(&star);
}

/* ------------------------------------------ members that join, leave, and send invalid frames */

static void who_has_not_joined_is_not_heard(void **state)
{
    struct star star;
    open_star(&star, false);
    say(&star, 1, FRAME_PART, 0, "part", 4);
    expect_failure(1, WEFT_ERR_BOOT, "PE 1 sent a frame before it joined the job");
    assert_null(star.hub.answer);
    say(&star, 1, FRAME_ABORT, 3, "end it", 6);
    assert_int_equal(heard.count, 2);
    assert_string_equal(heard.event, "failed");
    close_star(&star);
}

static void one_joins_once_and_again_after_leaving(void **state)
{
    struct star star;
    open_star(&star, false);
    for (int job = 0; job < 2; job++) {
        heard.count = 0;
        say(&star, 2, FRAME_JOIN, 0, NULL, 0);
        assert_int_equal(heard.count, 1);
        assert_string_equal(heard.event, "joined");
        assert_int_equal(heard.member, 2);
        say(&star, 2, FRAME_BYE, job, NULL, 0);
        assert_int_equal(heard.count, 2);
        assert_string_equal(heard.event, "left");
        assert_int_equal(heard.clean, job == 1);
    }
    heard.count = 0;
    say(&star, 2, FRAME_JOIN, 0, NULL, 0);
    heard.count = 0;
    say(&star, 2, FRAME_JOIN, 0, NULL, 0);
    expect_failure(2, WEFT_ERR_BOOT, "PE 2 joined the job twice");
    close_star(&star);
}

static void sentences_hold_no_control_characters(void **state)
{
    char longest[2 * HUB_MOST_SENTENCE];
    struct star star;
    open_star(&star, true);
    say(&star, 0, FRAME_FAILED, WEFT_ERR_PATH, "two\nlines\x1b[2J and\ta tab", 23);
    expect_failure(0, WEFT_ERR_PATH, "two lines [2J and a tab");
    say(&star, 1, FRAME_ABORT, 7, "bell\a", 5);
    assert_string_equal(heard.event, "aborted");
    assert_int_equal(heard.code, 7);
    assert_string_equal(heard.sentence, "bell ");
    memset(longest, 'w', sizeof longest);
    say(&star, 1, FRAME_FAILED, 0, longest, sizeof longest);
    assert_int_equal(heard.status, WEFT_ERR_JOB); /* status 0 is not a failure */
    assert_int_equal(strlen(heard.sentence), HUB_MOST_SENTENCE);
    close_star(&star);
}

static void unknown_frames_are_refused(void **state)
{
    struct star star;
    open_star(&star, true);
    say(&star, 0, (enum frame_type)77, 0, NULL, 0);
    expect_failure(0, WEFT_ERR_VERSION, "a frame of unknown type 77");
    close_star(&star);
}

static void a_closed_connection_is_told(void **state)
{
    struct star star;
    open_star(&star, true);
    say(&star, 1, FRAME_BYE, 1, NULL, 0);
    wire_close(&star.members[1]);
    hub_read(&star.hub, 1);
    assert_int_equal(heard.count, 2);
    assert_string_equal(heard.event, "lost");
    assert_int_equal(heard.member, 1);
    close_star(&star);
}

/* --------------------------------------------------------------------- a member that is the hub */

struct pes {
    struct member hub;
    struct wire others[N]; /* [0] is unused */
};

static void open_pes(struct pes *pes)
{
    struct wire *wires = calloc(N, sizeof *wires);
    assert_non_null(wires);
    wires[0].fd = pes->others[0].fd = -1;
    for (int i = 1; i < N; i++)
        connect_pair(&wires[i], &pes->others[i]);
    assert_int_equal(member_init(&pes->hub, N, 0, NULL, wires), WEFT_OK);
}

static void close_pes(struct pes *pes)
{
    for (int i = 1; i < N; i++)
        wire_close(&pes->others[i]);
    member_close(&pes->hub, false);
}

/* PE 0 has the failure, and PE `told` has received it. */
static void expect_end(struct pes *pes, weft_status why, const char *sentence, int told)
{
    assert_int_equal(member_check(&pes->hub), why);
    assert_string_equal(weft_last_error(), sentence);
    struct wire_frame *frame = answer(&pes->others[told]);
    assert_non_null(frame);
    assert_int_equal(frame->type, FRAME_END);
    assert_int_equal(frame->number, why);
    assert_string_equal(frame->payload, sentence);
    wire_frame_free(frame);
}

static void leaving_uncleanly_ends_the_job(void **state)
{
    struct pes pes;
    open_pes(&pes);
    assert_int_equal(member_check(&pes.hub), WEFT_OK);
    assert_int_equal(wire_post(&pes.others[1], FRAME_BYE, 0, NULL, 0, -1), WEFT_OK);
    expect_end(&pes, WEFT_ERR_PEER_DEAD, "PE 1 left the job before weft_finalize", 2);
    close_pes(&pes);
}

static void closing_without_leaving_ends_the_job(void **state)
{
    struct pes pes;
    open_pes(&pes);
    wire_close(&pes.others[2]);
    expect_end(&pes, WEFT_ERR_PEER_DEAD,
               "PE 2 has ended: its connection to PE 0 was closed before weft_finalize", 1);
    close_pes(&pes);
}

static void leaving_cleanly_does_not(void **state)
{
    struct pes pes;
    open_pes(&pes);
    assert_int_equal(wire_post(&pes.others[1], FRAME_BYE, 1, NULL, 0, -1), WEFT_OK);
    assert_int_equal(member_check(&pes.hub), WEFT_OK);
    wire_close(&pes.others[1]);
    assert_int_equal(member_check(&pes.hub), WEFT_OK);
    assert_null(answer(&pes.others[2]));
    close_pes(&pes);
}

static void an_abort_is_told_with_its_code(void **state)
{
    struct pes pes;
    open_pes(&pes);
    assert_int_equal(wire_post(&pes.others[2], FRAME_ABORT, 9, "no more", 7, -1), WEFT_OK);
    expect_end(&pes, WEFT_ERR_JOB, "PE 2 aborted the job with code 9: no more", 1);
    close_pes(&pes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_stand_in_the_order_of_members),
        cmocka_unit_test(parts_of_different_sizes_are_refused),
        cmocka_unit_test(a_second_part_is_refused),
        cmocka_unit_test(parts_too_large_are_refused),
        cmocka_unit_test(who_is_missing_is_told),
        cmocka_unit_test(missing_ones_are_listed_as_far_as_there_is_room),
        cmocka_unit_test(descriptors_go_to_all_others),
        cmocka_unit_test(who_has_not_joined_is_not_heard),
        cmocka_unit_test(one_joins_once_and_again_after_leaving),
        cmocka_unit_test(sentences_hold_no_control_characters),
        cmocka_unit_test(unknown_frames_are_refused),
        cmocka_unit_test(a_closed_connection_is_told),
        cmocka_unit_test(leaving_uncleanly_ends_the_job),
        cmocka_unit_test(closing_without_leaving_ends_the_job),
        cmocka_unit_test(leaving_cleanly_does_not),
        cmocka_unit_test(an_abort_is_told_with_its_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
